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
@click.option("--error", default="global_error", help="The error, a variable over (run, time).")
@json_option
def command(store, experiment, at, error, as_json):
    """Print the measured order of each integrator in STORE beside the declared one.

    Slope of log error over log step size with a 95 % interval; round-off and pre-asymptotic
    steps are left out. Adaptive integrators have errors by tolerance, in a table of their own.

    \b
    Example:
      sweep order quickstart.zarr --experiment pendulum
    """
    from integrators.errors import InputError, nearest
    from sweep.analysis import adaptive_runs, order_table, tolerance_table
    from sweep.tables import errors, json_rows, text_of

    datasets = opened(store, experiment)
    if not experiment:
        measurable = {n: d for n, d in datasets.items() if error in d and "run" in d[error].dims}
        if not measurable:
            errors = {str(n) for d in datasets.values() for n in d if str(n).endswith("_error")}
            raise InputError(
                f"no experiment of {store} has {error!r}.{nearest(error, sorted(errors))} Orders "
                "need a 'reference' in the study"
            )
        datasets = measurable
    if as_json:
        rows = {}
        for name, dataset in datasets.items():
            fixed = [] if adaptive_runs(dataset).all() else order_table(dataset, error, at)
            rows[name] = json_rows([*fixed, *tolerance_table(dataset, error, at)])
        echo_json(rows)
        return
    where = "at the end" if at == "end" else "in the sup norm over time"
    for name, dataset in datasets.items():
        text = text_of(errors(dataset, error, at))
        click.echo(f"{name}: order of {error} {where}\n{text}\n")
