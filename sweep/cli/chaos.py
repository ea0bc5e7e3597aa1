"""`sweep chaos`: Lyapunov exponents and MEGNO, and the verdicts on them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from sweep.cli.common import answer_options, print_answer
from sweep.tables.answers import ANSWERS

if TYPE_CHECKING:
    import xarray as xr


@click.command("chaos")
@answer_options
def command(datasets: "Mapping[str, xr.Dataset]", form: str) -> None:
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
    print_answer(ANSWERS["chaos"], datasets, form)
