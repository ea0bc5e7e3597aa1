"""`sweep order`: measured orders of convergence."""

import click

from sweep.cli.common import echo_json, experiment_option, json_option, opened, store_argument


@click.command("order")
@store_argument
@experiment_option
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
@json_option
def command(store, experiment, at, error, as_json):
    """Print the measured order of each integrator in STORE beside the declared one.

    Slope of log error over log step size, with a 95 % interval from all step sizes that are
    neither too coarse nor at the floor of round-off. Confirmed: the interval is within 0.1 of the
    declared order; refuted: within 0.1 of another; undecided: says why and what to add. Adaptive
    integrators have errors by tolerance, in a table of their own.

    \b
    Example:
      sweep order quickstart.zarr --experiment pendulum
      sweep order quickstart.zarr --error energy_error --at sup
    """
    from sweep import tables
    from sweep.analysis import adaptive_runs, order_table, tolerance_table
    from sweep.analysis.curves import SELF, default_error

    datasets = _measurable(opened(store, experiment), store, error, bool(experiment))
    if as_json:
        rows = {}
        for name, dataset in datasets.items():
            of = error or default_error(dataset)
            fixed = [] if adaptive_runs(dataset).all() else order_table(dataset, of, at)
            adaptive = [] if of == SELF else tolerance_table(dataset, of, at)
            rows[name] = tables.json_rows([*fixed, *adaptive])
        echo_json(rows)
        return
    where = "at the end" if at == "end" else "in the sup norm over time"
    for name, dataset in datasets.items():
        of = error or default_error(dataset)
        what = "differences between step sizes" if of == SELF else of
        text = tables.text_of(tables.errors(dataset, of, at))
        click.echo(f"{name}: order of {what} {where}\n{text}\n")


def _measurable(datasets, store, error, chosen):
    """The experiments that have the error; all that were chosen by name."""
    from integrators.errors import InputError, nearest
    from sweep.analysis.curves import has_error

    found = {name: data for name, data in datasets.items() if chosen or has_error(data, error)}
    if found:
        return found
    known = sorted({str(n) for d in datasets.values() for n in d if str(n).endswith("_error")})
    raise InputError(
        f"no experiment of {store} has {error or 'global_error'!r}."
        f"{nearest(error or '', known)} Orders need a 'reference' in the study, or "
        'record = ["state"] for differences between step sizes'
    )
