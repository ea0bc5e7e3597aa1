"""`sweep plan`: the cost of a study."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import click

import sweep
from sweep.cli.common import (
    echo_json,
    json_option,
    optional_store,
    print_warnings_before_runs,
    study_argument,
    trust_option,
)
from sweep.cli.progress import ProgressLine
from sweep.cli.status import checkpoint_progress_lines
from sweep.store.progress import Counter
from sweep.store.store import Store
from sweep.study import schema
from sweep.text import about_duration, count_with_noun, format_duration, format_table

if TYPE_CHECKING:
    from sweep.campaign.plan import ExperimentPlan


@click.command("plan")
@study_argument
@optional_store
@click.option(
    "--workers", type=click.IntRange(min=1), help="Number of worker processes to plan tasks for."
)
@trust_option
@json_option
def command(
    study: str, store: str | None, workers: int | None, trust_plugins: bool, as_json: bool
) -> None:
    """Print runs, steps, tasks, files, bytes and CPU time of STUDY; nothing is written.

    Some steps of each integrator on each system, and of a reference, are timed for milliseconds.
    CPU time is that of integration, the sum of the runs' `cpu_time`, and of references; the time
    for recording and measuring is given apart. If STORE (by default ./NAME.zarr) exists, only what
    it lacks is counted.

    \b
    Example:
      sweep plan quickstart
    """
    with ProgressLine() as line:
        planned = sweep.plan(
            study, store, workers, trust_plugins,
            lambda now: line.show(str(now), now.done / now.of),
        )  # fmt: skip
    entries = [plan.entry for plan in planned.experiments]
    print_warnings_before_runs([e.table for e in entries], [e.pending for e in entries])
    if as_json:
        total = {"cpu_seconds": planned.cpu_seconds, "tasks": planned.tasks}
        echo_json({"store": str(planned.store), **total, "experiments": planned.rows})
        return
    click.echo(f"Store: {planned.store}")
    click.echo(format_plan_table(planned.experiments, planned.tasks))
    if (store_now := Store.at(planned.store)).exists():
        for said in checkpoint_progress_lines(Counter(store_now).count()):
            click.echo(f"{said}, and counted here as if it were not")


def format_plan_table(plans: "Sequence[ExperimentPlan]", tasks: int) -> str:
    """The plan as a table with a row for each experiment, and a line of totals."""
    rows = [plan.facts for plan in plans]
    cells = [
        [
            row["experiment"],
            f"{row['runs']:,}",
            f"{row['references']:,}",
            f"{row['steps']:,}",
            f"{row['files']:,}",
            _byte_count_text(row["bytes"]),
            about_duration(row["cpu_seconds"]),
        ]
        for row in rows
    ]
    names = ["experiment", "runs", "references", "steps", "files", "at most", "CPU time"]
    total = about_duration(sum(row["cpu_seconds"] for row in rows))
    runs = sum(row["runs"] for row in rows)
    recording = sum(row["recording_cpu_seconds"] for row in rows)
    text = f"{count_with_noun(runs, 'run')} to compute in {count_with_noun(tasks, 'task')}, "
    text += f"{total} of CPU time"
    measured = any(_is_measured(plan.entry.experiment.record) for plan in plans)
    purpose = "to measure exponents and defects, and to record" if measured else "to record them"
    text += f", and {format_duration(recording)} {purpose}" * (recording > 0)
    return f"{format_table(names, cells)}\n{text}"


def _is_measured(record: Collection[str]) -> bool:
    """Whether steps are taken again to measure something: with tangent vectors, or backwards."""
    return any(name.startswith(schema.MEASURED) for name in record)


def _byte_count_text(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
