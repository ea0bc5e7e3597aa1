"""`sweep work`: errors of runs beside the work that they took."""

from typing import TYPE_CHECKING

import click

import sweep
from integrators.errors import InputError
from sweep.cli.common import (
    echo_csv,
    echo_json,
    echo_tables,
    experiment_option,
    format_option,
    json_answer,
    open_experiments_for_command,
    store_argument,
    where_option,
)

if TYPE_CHECKING:
    from sweep.analysis import WorkEstimate

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
    datasets, measure = open_experiments_for_command(store, experiment, where), AGAINST[against]
    if error is not None and not experiment:
        datasets = {name: data for name, data in datasets.items() if error in data} or datasets
    estimates: dict[str, list[WorkEstimate]] = {}
    refused: list[tuple[str, InputError]] = []
    for name, dataset in datasets.items():
        try:
            estimates[name] = sweep.work_table(dataset, error, at)
        except InputError as reason:
            refused.append((name, reason))
    if not estimates:
        raise InputError(
            "\n".join(sweep.analysis.query_refusals_in_words(refused)) or f"{store} has no runs"
        )
    for name, refusal in refused:
        click.echo(f"{name}: {refusal}", err=True)
    if form == "csv":
        echo_csv(estimates)
        return
    if form == "json":
        echo_json(
            {
                name: {
                    **json_answer(sweep.analysis.summarize_work(rows, measure), rows),
                    "least": sweep.tables.table_rows_for_json(sweep.least_work(rows, measure)),
                }
                for name, rows in estimates.items()
            }
        )
        return
    for name, rows in estimates.items():
        echo_tables(form, {name: sweep.tables.work_as_tables(rows, measure)}, {name: name}, "work")
        if form == "text" and error is None and "global_error" not in datasets[name]:
            click.echo(f"{name} has no global error: it needs 'reference' in the study\n")
