"""`sweep report`: a store as one HTML file."""

import click

import sweep
from sweep.cli.common import echo_json, json_option, store_argument, where_option


@click.command("report")
@store_argument
@where_option
@click.option(
    "--output", "-o", metavar="FILE", help="Where to; NAME-report.html beside the store if not."
)
@json_option
def command(store, where, output, as_json):
    """Write what STORE answers as one HTML file: tables, pictures, failures, provenance.

    It opens offline, on a telephone too, and prints well. What is missing for an answer is said,
    with what to add to the study.

    \b
    Example:
      sweep report quickstart.zarr
      sweep report quickstart.zarr -o rk4.html --where "integrator == 'rk4'"
    """
    written = str(sweep.report(store, output, where))
    echo_json({"report": written}) if as_json else click.echo(written)
