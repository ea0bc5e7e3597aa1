"""`sweep order`: measured orders of convergence."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

import sweep
from sweep.cli.common import (
    echo_csv,
    echo_json,
    echo_tables,
    experiment_option,
    format_option,
    json_answer,
    open_experiments_for_command,
    print_answer,
    store_argument,
    where_option,
)
from sweep.tables.answers import ANSWERS

if TYPE_CHECKING:
    import xarray as xr

    from sweep.analysis import OrderEstimate, ToleranceEstimate


@click.command("order")
@store_argument
@experiment_option
@where_option
@click.option(
    "--at",
    type=click.Choice(["end", "sup"]),
    default="end",
    help="Error at the end of a run, or its supremum over time.",
)
@click.option(
    "--error",
    metavar="NAME",
    help="A variable over (run, time); or self, for differences of stored states between step "
    "sizes.  [default: global_error; self without a reference]",
)
@click.option(
    "--across",
    metavar="NAME",
    help="One table that compares orders across NAME: experiment, system, a parameter such as "
    "count, or an option of integrators such as formulation.",
)
@format_option
def command(
    store: str,
    experiment: tuple[str, ...],
    where: str | None,
    at: str,
    error: str | None,
    across: str | None,
    form: str,
) -> None:
    """Print the measured order of each integrator in STORE beside the declared one.

    Slope of log error over log step size, with a 95 % interval from all step sizes that are
    neither too coarse nor at the floor of round-off. Confirmed: the interval is within 1/2 of the
    declared order; refuted: none of it is; undecided: with the reason, and what to add.
    Adaptive integrators have errors by tolerance, in a table of their own.

    \b
    Example:
      sweep order quickstart.zarr --experiment pendulum
      sweep order quickstart.zarr --error energy_error --at sup
      sweep order quickstart.zarr --across experiment
      sweep order quickstart.zarr --format latex > orders.tex
    """
    datasets = open_experiments_for_command(store, experiment, where)
    if across is None:
        print_answer(ANSWERS["order"], datasets, form, error, at, heading=_title_of_orders)
    else:
        _print_orders_across(datasets, across, error, at, form)


def _title_of_orders(name: str, rows: "Sequence[OrderEstimate | ToleranceEstimate]") -> str:
    """A name, the errors that orders are measured of, and their time."""
    names = {sweep.analysis.SELF: "differences between step sizes"}
    errors = dict.fromkeys(names.get(row.error, row.error) for row in rows)
    return f"{name}: order of {' or '.join(errors)}{sweep.tables.error_times_for_title(rows)}"


def _print_orders_across(
    datasets: "Mapping[str, xr.Dataset]", across: str, error: str | None, at: str, form: str
) -> None:
    """Print orders side by side, by a property in which experiments or integrators differ."""
    rows = sweep.analysis.orders_across(datasets, across, error, at)
    if form == "json":
        summary = sweep.analysis.summarize_orders([row.estimate for row in rows])
        echo_json(json_answer(summary, rows))
    elif form == "csv":
        echo_csv({across: rows})
    else:
        title = _title_of_orders(f"across {across}", [row.estimate for row in rows])
        echo_tables(
            form, {across: [sweep.tables.orders_across_as_table(rows)]}, {across: title}, "order"
        )
