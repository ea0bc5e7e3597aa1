"""`sweep order`: measured orders of convergence."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

import sweep
from integrators.errors import InputError, suggest_nearest
from sweep.cli.common import (
    echo_csv,
    echo_json,
    echo_json_answers,
    echo_tables,
    experiment_option,
    format_option,
    json_answer,
    open_experiments_for_command,
    store_argument,
    where_option,
)

if TYPE_CHECKING:
    import xarray as xr

    from sweep.analysis import OrderEstimate, ToleranceEstimate


class Estimates(NamedTuple):
    """Orders of the fixed-step integrators of an experiment, and errors of the adaptive ones."""

    fixed: "list[OrderEstimate]"
    adaptive: "list[ToleranceEstimate]"


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
    neither too coarse nor at the floor of round-off. Confirmed: the interval is within 0.1 of the
    declared order; refuted: within 0.1 of another; undecided: with the reason, and what to add.
    Adaptive integrators have errors by tolerance, in a table of their own.

    \b
    Example:
      sweep order quickstart.zarr --experiment pendulum
      sweep order quickstart.zarr --error energy_error --at sup
      sweep order quickstart.zarr --across experiment
      sweep order quickstart.zarr --format latex > orders.tex
    """
    datasets = _experiments_with_error(
        open_experiments_for_command(store, experiment, where), store, error, bool(experiment)
    )
    if across is not None:
        _print_orders_across(datasets, across, error, at, form)
        return
    estimates = {
        name: Estimates(*sweep.analysis.orders_and_tolerances(dataset, error, at))
        for name, dataset in datasets.items()
    }
    rows = {name: [*fixed, *adaptive] for name, (fixed, adaptive) in estimates.items()}
    if form == "json":
        summary = sweep.analysis.summarize_orders
        echo_json_answers({name: (summary(*estimates[name]), rows[name]) for name in rows})
    elif form == "csv":
        echo_csv(rows)
    else:
        titles = {name: f"{name}: {_title_of_orders(rows[name])}" for name in rows}
        tables = {
            name: sweep.tables.errors_as_tables(
                *estimates[name], units=datasets[name]["time"].attrs.get("units", "1")
            )
            for name in rows
        }
        echo_tables(form, tables, titles, "order")


def _title_of_orders(rows: "Sequence[OrderEstimate | ToleranceEstimate]") -> str:
    """The errors that orders are measured of, and their time."""
    names = {sweep.analysis.SELF: "differences between step sizes"}
    errors = dict.fromkeys(names.get(row.error, row.error) for row in rows)
    return f"order of {' or '.join(errors)}{sweep.tables.error_times_for_title(rows)}"


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
        title = f"{_title_of_orders([row.estimate for row in rows])}, across {across}"
        echo_tables(
            form, {across: [sweep.tables.orders_across_as_table(rows)]}, {across: title}, "order"
        )


def _experiments_with_error(
    datasets: "Mapping[str, xr.Dataset]", store: str, error: str | None, chosen: bool
) -> "dict[str, xr.Dataset]":
    """The experiments that have the error, or all if they were chosen by name."""
    having = {
        name: data
        for name, data in datasets.items()
        if chosen or sweep.analysis.run_table_has_error(data, error)
    }
    if having:
        return having
    known = sorted({str(n) for d in datasets.values() for n in d if str(n).endswith("_error")})
    raise InputError(
        f"no experiment of {store} has {error or 'global_error'!r}."
        f"{suggest_nearest(error or '', known)} Orders need a 'reference' in the study, or "
        'record = ["state"] for differences between step sizes'
    )
