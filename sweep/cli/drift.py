"""`sweep drift`: errors of invariants and constraints, and their drift."""

import click

from sweep.cli.common import echo_json, experiment_option, json_option, opened, store_argument


@click.command("drift")
@store_argument
@experiment_option
@click.option("--quantity", "-q", multiple=True, metavar="NAME", help="energy, …; repeatable.")
@click.option("--all-steps", is_flag=True, help="Every step size, not only the smallest.")
@click.option("--growth", is_flag=True, help="How errors grow over the starts: like √t or t.")
@json_option
def command(store, experiment, quantity, all_steps, growth, as_json):
    """Print mean, maximum and drift of the errors of the invariants in STORE.

    The drift is the slope of the signed error over time with a 95 % interval. With --growth
    it is measured over the starts whether errors grow like √t, as round-off does that is not
    biased, or like t.

    \b
    Example:
      sweep drift quickstart.zarr -q energy
      sweep drift round-off.zarr -q energy --growth
    """
    from sweep import tables
    from sweep.analysis import drift_table, growth_table

    analyse, tables_of = (growth_table, tables.growth) if growth else (drift_table, tables.drifts)
    found = {
        name: analyse(dataset, quantity or None, "all" if all_steps else "smallest")
        for name, dataset in opened(store, experiment).items()
    }
    if as_json:
        echo_json({name: tables.json_rows(rows) for name, rows in found.items()})
        return
    for name, rows in found.items():
        click.echo(f"{name}\n{tables.text_of(tables_of(rows))}\n")
