"""`sweep report`: a store as one HTML file."""

import click

import sweep
from sweep.cli.common import store_argument, where_option


@click.command("report")
@store_argument
@where_option
@click.option(
    "--output", "-o", metavar="FILE", help="Where to; NAME-report.html beside the store if not."
)
def command(store, where, output):
    """Write what STORE answers as one HTML file: tables, pictures, failures, provenance.

    It opens offline, on a telephone too, and prints well. What is missing for an answer is said,
    with what to add to the study.

    \b
    Example:
      sweep report quickstart.zarr
      sweep report quickstart.zarr -o rk4.html --where "integrator == 'rk4'"
    """
    click.echo(sweep.report(store, output, where))
