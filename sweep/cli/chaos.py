"""`sweep chaos`: Lyapunov exponents and MEGNO, and the verdicts on them."""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from sweep.analysis.chaos import ChaosEstimate


@click.command("chaos")
@store_argument
@experiment_option
@where_option
@json_option
def command(store: str, experiment: tuple[str, ...], where: str | None, as_json: bool) -> None:
    """Print Lyapunov exponents and MEGNO of the runs in STORE.

    They are those of the numerical trajectory, for experiments with record = ["lyapunov",
    "megno"]. MEGNO, the mean exponential growth of nearby orbits, tells order from chaos:

    \b
      chaotic        it ends above 5, and still grows like t
      no chaos seen  it ends near 2 or below; exponents below those of the table could hide
      undecided      the duration that would decide stands below the table

    \b
    Example:
      sweep chaos pendulum.zarr
    """
    estimates: dict[str, list[ChaosEstimate]] = {}
    unmeasured: dict[str, dict[str, str]] = {}
    refused: list[tuple[str, InputError]] = []
    for name, dataset in open_experiments_for_command(store, experiment, where).items():
        try:
            estimates[name] = sweep.chaos_table(dataset)
            unmeasured[name] = sweep.analysis.integrators_without_exponents(dataset)
        except InputError as reason:
            refused.append((name, reason))
    if not estimates:
        raise InputError(
            "\n".join(sweep.analysis.query_refusals_in_words(refused)) or f"{store} has no runs"
        )
    if as_json:
        summary = sweep.analysis.summarize_chaos
        echo_json_answers({name: (summary(rows), rows) for name, rows in estimates.items()})
        return
    for name, rows in estimates.items():
        click.echo(f"{name}\n{sweep.tables.chaos_as_table(rows, unmeasured[name])}\n")
