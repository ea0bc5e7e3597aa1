"""`sweep work`: errors of runs beside the work that they took."""

from dataclasses import replace

import click

import sweep
from sweep.cli.common import (
    experiment_option,
    format_option,
    open_experiments_for_command,
    print_answer,
    store_argument,
    where_option,
)
from sweep.tables.answers import ANSWERS

AGAINST = {"steps": "steps", "evaluations": "evaluations", "cpu-time": "cpu_time"}


@click.command("work")
@store_argument
@experiment_option
@where_option
@click.option("--error", metavar="NAME", help="Only this error: global_error, energy_error, …")
@click.option(
    "--against",
    type=click.Choice(list(AGAINST)),
    default="evaluations",
    show_default=True,
    help="Measure of work by which the best are marked.",
)
@click.option(
    "--at",
    type=click.Choice(["end", "sup"]),
    default="end",
    help="Error against the reference at the end of a run, or its supremum over time.",
)
@format_option
def command(
    store: str,
    experiment: tuple[str, ...],
    where: str | None,
    error: str | None,
    against: str,
    at: str,
    form: str,
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
    measure = AGAINST[against]
    datasets = open_experiments_for_command(store, experiment, where)
    answer = replace(
        ANSWERS["work"],
        analyse=lambda dataset: sweep.analysis.work_table(dataset, error, at),
        tabulate=lambda rows: sweep.tables.work_as_tables(rows, measure),
        more=lambda rows: {"least": sweep.least_work(rows, measure)},
        summarize=lambda rows: sweep.analysis.summarize_work(rows, measure),
    )
    print_answer(answer, datasets, form)
