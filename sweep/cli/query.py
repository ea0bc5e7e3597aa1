"""`sweep query`: the runs for which an expression holds, as a table."""

import json

import click

import sweep
from sweep.cli.common import experiment_option, json_option, select_runs_for_command, store_argument


@click.command("query")
@store_argument
@click.argument("expression", required=False)
@experiment_option
@click.option(
    "--column", "-c", "columns", multiple=True, metavar="NAME", help="Show this; repeatable."
)
@click.option("--sort", metavar="NAME", help="Sort by this column.")
@click.option("--reverse", is_flag=True, help="Largest or last first.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Most runs of an experiment; 40, and all in JSON. 0: all.",
)
@json_option
def command(store, expression, experiment, columns, sort, reverse, limit, as_json):
    """Print the runs of STORE for which EXPRESSION holds; all of them without one.

    EXPRESSION compares the runs' coordinates and results with numbers and text in quotes: ==, !=,
    <, <=, >, >=, in [...], and, or, not, +, -, *, / and brackets, and nothing else. Of a series
    over time it says what, as columns do: NAME@end, @start, @min, @max, @mean, @abs_max, or a
    sample time, NAME@2.5. The max of an error is its largest size.

    \b
    Example:
      sweep query quickstart.zarr 'integrator == "variational" and step_size < 1e-2'
      sweep query quickstart.zarr 'energy_error@max > 1e-4' -e pendulum --sort energy_error@max
      sweep query quickstart.zarr -c integrator -c step_size -c global_error@2 --limit 5
    """
    chosen = select_runs_for_command(store, experiment, expression)
    asked = {"columns": columns or None, "sort": sort, "reverse": reverse}
    if as_json:
        _print_query_as_json(
            chosen, {**asked, "limit": limit or None}, sweep.tables.runs_as_json_rows
        )
        return
    asked["limit"] = sweep.tables.SHOWN if limit is None else limit or None
    tables = {
        name: sweep.tables.runs_as_table(dataset, **asked) for name, (dataset, _) in chosen.items()
    }
    for name, table in tables.items():
        dataset, total = chosen[name]
        click.echo(f"{name}: {dataset.sizes['run']:,} of {total:,} runs\n{table}\n")


def _print_query_as_json(chosen, asked, rows_of):
    """An object of lists, a row a line; written as it is read, for a million runs."""
    for dataset, _ in chosen.values():  # mistakes are said before anything is printed
        sweep.tables.chosen_table_columns(
            dataset, [*(asked["columns"] or ()), *filter(None, [asked["sort"]])]
        )
    click.echo("{")
    for i, (name, (dataset, _)) in enumerate(chosen.items()):
        click.echo(f"{json.dumps(name)}: [", nl=False)
        for k, row in enumerate(rows_of(dataset, **asked)):
            text = json.dumps(row, ensure_ascii=False, allow_nan=False)
            click.echo(f"{',' if k else ''}\n  {text}", nl=False)
        click.echo(f"\n]{',' if i + 1 < len(chosen) else ''}")
    click.echo("}")
