"""`sweep query`: a table of the runs that satisfy an expression."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import click

import sweep
from sweep.cli.options import ClickSettings, command
from sweep.cli.output import json_for_output
from sweep.cli.selected_runs import select_runs

if TYPE_CHECKING:
    import xarray as xr


@command
def query(
    store: str,
    expression: str | None,
    experiment: tuple[str, ...],
    columns: tuple[str, ...],
    limit: Annotated[int | None, ClickSettings(type=click.IntRange(min=0))],
    sort: str | None,
    reverse: bool,
    as_json: bool,
) -> None:
    """Print the runs of STORE that satisfy EXPRESSION, or all runs.

    EXPRESSION compares coordinates and results of runs with numbers and quoted text. It may use
    ==, !=, <, <=, >, >=, in [...], and, or, not, +, -, *, / and parentheses, and nothing else. In
    expressions and columns, a time series is reduced to a number by NAME@end, @start, @min, @max,
    @mean or @abs_max, or by a sample time, as in NAME@2.5. For errors, @max is the maximum of the
    absolute value, and @end is at the end of the reference, if they are against one.

    \b
    Example:
      sweep query quickstart.zarr 'integrator == "rk4" and step_size < 1e-2'
      sweep query quickstart.zarr 'energy_error@max > 1e-4' -e pendulum
      sweep query quickstart.zarr -c step_size -c global_error@2 --limit 5

    Options:
      -c, --column NAME  Show only this column; repeatable.
      --limit N  Print at most N runs of each experiment; 0 prints all.  [default: 40; all in JSON]
      --sort NAME  Sort by this column.
      --reverse  Sort in descending order.
    """
    selected = select_runs(store, experiment, expression)
    layout: dict[str, Any] = {"columns": columns or None, "sort": sort, "reverse": reverse}
    if as_json:
        for dataset, _ in selected.values():  # raise errors of unknown columns before any output
            sweep.tables.chosen_table_columns(dataset, [*columns, *([sort] if sort else [])])
        datasets = {name: dataset for name, (dataset, _) in selected.items()}
        _print_runs_as_json(datasets, layout | {"limit": limit or None})
        return
    layout["limit"] = sweep.tables.SHOWN if limit is None else limit or None
    tables = {
        name: sweep.tables.runs_as_table(dataset, **layout)
        for name, (dataset, _) in selected.items()
    }
    for name, table in tables.items():
        dataset, total = selected[name]
        click.echo(f"{name}: {dataset.sizes['run']:,} of {total:,} runs\n{table}\n")


def _print_runs_as_json(datasets: "Mapping[str, xr.Dataset]", layout: Mapping[str, Any]) -> None:
    """Print a JSON object of lists, a line for each run as it is read: there may be a million."""
    click.echo("{")
    for i, (name, dataset) in enumerate(datasets.items()):
        click.echo(f"{json_for_output(name)}: [", nl=False)
        for k, row in enumerate(sweep.tables.runs_as_json_rows(dataset, **layout)):
            text = json_for_output(row, allow_nan=False)
            click.echo(f"{',' if k else ''}\n  {text}", nl=False)
        click.echo(f"\n]{',' if i + 1 < len(datasets) else ''}")
    click.echo("}")
