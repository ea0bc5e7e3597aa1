"""`sweep order`: measured orders of convergence."""

import click

import sweep
from integrators.errors import InputError, nearest
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


@click.command("order")
@store_argument
@experiment_option
@where_option
@click.option(
    "--at",
    type=click.Choice(["end", "sup"]),
    default="end",
    help="Error at the end or its supremum.",
)
@click.option(
    "--error",
    metavar="NAME",
    help="A variable over (run, time), or self: differences between step sizes, of stored states.  "
    "[default: global_error; self without a reference]",
)
@click.option(
    "--across",
    metavar="NAME",
    help="One table of what methods share: across experiment, system, a parameter such as count, "
    "or an option of integrators such as formulation.",
)
@format_option
def command(store, experiment, where, at, error, across, form):
    """Print the measured order of each integrator in STORE beside the declared one.

    Slope of log error over log step size, with a 95 % interval from all step sizes that are
    neither too coarse nor at the floor of round-off. Confirmed: the interval is within 0.1 of the
    declared order; refuted: within 0.1 of another; undecided: says why and what to add. Adaptive
    integrators have errors by tolerance, in a table of their own.

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
    found = {
        name: sweep.analysis.orders_and_tolerances(dataset, error, at)
        for name, dataset in datasets.items()
    }
    rows = {name: [*fixed, *adaptive] for name, (fixed, adaptive) in found.items()}
    if form == "json":
        summary = sweep.analysis.summarize_orders
        echo_json_answers({name: (summary(*found[name]), of) for name, of in rows.items()})
    elif form == "csv":
        echo_csv(rows)
    else:
        titles = {name: f"{name}: {_errors_in_words(of)}" for name, of in rows.items()}
        tables = {
            name: sweep.tables.errors_as_tables(
                *of, units=datasets[name]["time"].attrs.get("units", "1")
            )
            for name, of in found.items()
        }
        echo_tables(form, tables, titles, "order")


def _errors_in_words(rows):
    """Of which errors orders are, and of when."""
    names = {sweep.analysis.SELF: "differences between step sizes"}
    errors = dict.fromkeys(names.get(row.error, row.error) for row in rows)
    return f"order of {' or '.join(errors)}{sweep.tables.error_times_for_title(rows)}"


def _print_orders_across(datasets, across, error, at, form):
    """Print orders side by side, by what experiments or integrators differ in."""
    rows = sweep.analysis.orders_across(datasets, across, error, at)
    if form == "json":
        summary = sweep.analysis.summarize_orders([row.estimate for row in rows])
        echo_json(json_answer(summary, rows))
    elif form == "csv":
        echo_csv({across: rows})
    else:
        title = f"{_errors_in_words([row.estimate for row in rows])}, across {across}"
        echo_tables(
            form, {across: [sweep.tables.orders_across_as_table(rows)]}, {across: title}, "order"
        )


def _experiments_with_error(datasets, store, error, chosen):
    """The experiments that have the error; all that were chosen by name."""
    found = {
        name: data
        for name, data in datasets.items()
        if chosen or sweep.analysis.run_table_has_error(data, error)
    }
    if found:
        return found
    known = sorted({str(n) for d in datasets.values() for n in d if str(n).endswith("_error")})
    raise InputError(
        f"no experiment of {store} has {error or 'global_error'!r}."
        f"{nearest(error or '', known)} Orders need a 'reference' in the study, or "
        'record = ["state"] for differences between step sizes'
    )
