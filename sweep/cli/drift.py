"""`sweep drift`: errors of invariants and constraints, and their drift."""

import click

from sweep.cli.common import echo_json, experiment_option, json_option, opened, store_argument


@click.command("drift")
@store_argument
@experiment_option
@click.option("--quantity", "-q", multiple=True, metavar="NAME", help="energy, …; repeatable.")
@click.option("--all-steps", is_flag=True, help="Every step size, not only the smallest.")
@json_option
def command(store, experiment, quantity, all_steps, as_json):
    """Print mean, maximum and drift of the errors of the invariants in STORE.

    The drift is the slope of the signed error over time with a 95 % interval.

    \b
    Example:
      sweep drift quickstart.zarr -q energy
    """
    from sweep.analysis import drift_table
    from sweep.tables import format_drifts, json_rows

    tables = {
        name: drift_table(dataset, quantity or None, "all" if all_steps else "smallest")
        for name, dataset in opened(store, experiment).items()
    }
    if as_json:
        echo_json({name: json_rows(rows) for name, rows in tables.items()})
        return
    for name, rows in tables.items():
        click.echo(f"{name}\n{format_drifts(rows)}\n")
