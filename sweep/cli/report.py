"""`sweep report`: a store as one HTML file."""

import click

import sweep
from sweep.cli.common import store_argument


@click.command("report")
@store_argument
@click.option(
    "--output", "-o", metavar="FILE", help="Where to; NAME-report.html beside the store if not."
)
def command(store, output):
    """Write what STORE answers as one HTML file: tables, pictures, failures, provenance.

    It opens offline, on a telephone too, and prints well. What is missing for an answer is said,
    with what to add to the study.

    \b
    Example:
      sweep report quickstart.zarr
      sweep report quickstart.zarr -o report.html
    """
    click.echo(sweep.report(store, output))
