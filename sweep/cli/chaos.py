"""`sweep chaos`: Lyapunov exponents and MEGNO, and the verdicts on them."""

import click

from sweep.cli.common import (
    experiment_option,
    format_option,
    open_experiments_for_command,
    print_answer,
    store_argument,
    where_option,
)
from sweep.tables.answers import ANSWERS


@click.command("chaos")
@store_argument
@experiment_option
@where_option
@format_option
def command(store: str, experiment: tuple[str, ...], where: str | None, form: str) -> None:
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
    datasets = open_experiments_for_command(store, experiment, where)
    print_answer(ANSWERS["chaos"], datasets, form)
