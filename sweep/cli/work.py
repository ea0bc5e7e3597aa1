"""`sweep work`: errors of runs beside the work that they took."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

import sweep
from sweep.cli.common import answer_options, at_option, print_answer
from sweep.tables.answers import ANSWERS

if TYPE_CHECKING:
    import xarray as xr


@click.command("work")
@answer_options
@click.option("--error", metavar="NAME", help="Only this error: global_error, energy_error, …")
@click.option(
    "--against",
    type=click.Choice(["steps", "evaluations", "cpu-time"]),
    default="evaluations",
    show_default=True,
    help="Measure of work by which the best are marked.",
)
@at_option
def command(
    datasets: "Mapping[str, xr.Dataset]", error: str | None, against: str, at: str, form: str
) -> None:
    """Print the errors in STORE beside steps, evaluations and CPU time, the best marked.

    Errors of invariants and constraints are the largest of a run. Best are those on the Pareto
    front of their family of integrators: no other member reaches as small an error for as little
    work. A second table has the work that each family needs for errors of 0.1, 0.01 and so on.

    \b
    Example:
      sweep work quickstart.zarr -e pendulum
      sweep work quickstart.zarr --error energy_error --against cpu-time
    """
    measure = against.replace("-", "_")
    answer = replace(
        ANSWERS["work"],
        analyse=sweep.analysis.work_table,
        tabulate=lambda rows: sweep.tables.work_as_tables(rows, measure),
        more=lambda rows: {"least": sweep.least_work(rows, measure)},
        summarize=lambda rows: sweep.analysis.summarize_work(rows, measure),
    )
    print_answer(answer, datasets, form, error, at)
