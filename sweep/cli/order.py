"""`sweep order`: measured orders of convergence."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

import sweep
from sweep.cli.common import (
    answer_options,
    at_option,
    echo_csv,
    echo_json,
    echo_tables,
    json_answer,
    print_answer,
)
from sweep.tables.answers import ANSWERS

if TYPE_CHECKING:
    import xarray as xr

    from sweep.analysis import OrderEstimate, ToleranceEstimate


@click.command("order")
@answer_options
@at_option
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
def command(
    datasets: "Mapping[str, xr.Dataset]", at: str, error: str | None, across: str | None, form: str
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
    if across is None:
        print_answer(ANSWERS["order"], datasets, form, error, at, heading=_title_of_orders)
        return
    rows = sweep.analysis.orders_across(datasets, across, error, at)
    estimates = [row.estimate for row in rows]
    if form == "json":
        echo_json(json_answer(sweep.analysis.summarize_orders(estimates), rows))
    elif form == "csv":
        echo_csv({across: rows})
    else:
        tables = {across: [sweep.tables.orders_across_as_table(rows)]}
        echo_tables(
            form, tables, {across: _title_of_orders(f"across {across}", estimates)}, "order"
        )


def _title_of_orders(name: str, rows: "Sequence[OrderEstimate | ToleranceEstimate]") -> str:
    """A name, the errors that orders are measured of, and their time."""
    names = {sweep.analysis.SELF: "differences between step sizes"}
    errors = dict.fromkeys(names.get(row.error, row.error) for row in rows)
    return f"{name}: order of {' or '.join(errors)}{sweep.tables.error_times_for_title(rows)}"
