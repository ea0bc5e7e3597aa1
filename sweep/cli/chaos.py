"""`sweep chaos`: Lyapunov exponents and MEGNO, and the verdicts on them."""

import click

import sweep
from integrators.errors import InputError
from sweep.cli.common import (
    echo_json_answers,
    experiment_option,
    json_option,
    open_experiments_for_command,
    store_argument,
    where_option,
)


@click.command("chaos")
@store_argument
@experiment_option
@where_option
@json_option
def command(store, experiment, where, as_json):
    """Print Lyapunov exponents and MEGNO of the runs in STORE.

    They are those of the steps that were taken, for experiments with record = ["lyapunov",
    "megno"]. The mean exponential growth of nearby orbits tells order from chaos:

    \b
      chaotic        it ends above 5, and still grows like t
      no chaos seen  it ends near 2 or below; smaller exponents than stand below could hide
      undecided      below the table stands which duration would tell

    \b
    Example:
      sweep chaos pendulum.zarr
    """
    found, refused, without = {}, [], {}
    for name, dataset in open_experiments_for_command(store, experiment, where).items():
        try:
            found[name] = sweep.chaos_table(dataset)
            without[name] = sweep.analysis.integrators_without_exponents(dataset)
        except InputError as reason:
            refused.append((name, reason))
    if not found:
        raise InputError(
            "\n".join(sweep.analysis.query_refusals_in_words(refused)) or f"{store} has no runs"
        )
    if as_json:
        summary = sweep.analysis.summarize_chaos
        echo_json_answers({name: (summary(rows), rows) for name, rows in found.items()})
        return
    for name, rows in found.items():
        click.echo(f"{name}\n{sweep.tables.chaos_as_table(rows, without[name])}\n")
