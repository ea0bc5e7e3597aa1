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
    steps are left out.

    \b
    Example:
      sweep order quickstart.zarr --experiment pendulum
    """
    from integrators import InputError
    from sweep.analysis import order_table
    from sweep.tables import format_orders, json_rows

    datasets = opened(store, experiment)
    if not experiment:
        measurable = {n: d for n, d in datasets.items() if error in d and "run" in d[error].dims}
        if not measurable:
            raise InputError(
                f"no experiment of {store} has {error!r}; orders need a 'reference' in the study"
            )
        datasets = measurable
    tables = {name: order_table(dataset, error=error, at=at) for name, dataset in datasets.items()}
    if as_json:
        echo_json({name: json_rows(rows) for name, rows in tables.items()})
        return
    where = "at the end" if at == "end" else "in the sup norm over time"
    for name, rows in tables.items():
        click.echo(f"{name}: order of {error} {where}\n{format_orders(rows)}\n")
