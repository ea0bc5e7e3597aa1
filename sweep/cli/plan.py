"""`sweep plan`: what a study would cost."""

from collections.abc import Collection

import click

import sweep
from sweep.cli.common import (
    echo_json,
    json_option,
    optional_store,
    print_warnings_before_work,
    study_argument,
    trust_option,
)
from sweep.cli.progress import StatusLine
from sweep.study import schema
from sweep.text import count_with_noun, format_duration, format_table, format_time_interval


@click.command("plan")
@study_argument
@optional_store
@click.option("--workers", type=click.IntRange(min=1), help="Count tasks for so many processes.")
@trust_option
@json_option
def command(study, store, workers, trust_plugins, as_json):
    """Print runs, steps, tasks, files, bytes and CPU time of STUDY; nothing is written.

    A pilot of some milliseconds measures each integrator on each system, and references. CPU time
    is that of the integration, which `cpu_time` of the runs adds up to, and of the references;
    what is besides, to record and to measure, is said apart. With a STORE (./NAME.zarr unless
    given) that exists, only what it lacks is counted.

    \b
    Example:
      sweep plan quickstart
    """
    with StatusLine() as line:

        def show(now):
            line.show(str(now), now.done / now.of, at_once=True)

        planned = sweep.plan(study, store, workers, trust_plugins, show)
    entries = [plan.entry for plan in planned.experiments]
    print_warnings_before_work([e.table for e in entries], [e.pending for e in entries])
    if as_json:
        least, most = planned.cpu_seconds
        total = {"cpu_seconds": least, "cpu_seconds_most": most, "tasks": planned.tasks}
        echo_json({"store": str(planned.store), **total, "experiments": planned.rows})
        return
    click.echo(f"Store: {planned.store}")
    click.echo(format_plan_table(planned.experiments, planned.tasks))


def format_plan_table(plans, tasks):
    """The plan as a table and a line of totals."""
    rows = [plan.facts for plan in plans]
    cells = [
        [
            row["experiment"],
            f"{row['runs']:,}",
            f"{row['references']:,}",
            f"{row['steps']:,}",
            f"{row['files']:,}",
            _byte_count_text(row["bytes"]),
            format_time_interval(row["cpu_seconds"], row["cpu_seconds_most"]),
        ]
        for row in rows
    ]
    names = ["experiment", "runs", "references", "steps", "files", "at most", "CPU time"]
    total = format_time_interval(*sweep.campaign.total_cpu_time(plans).interval)
    runs, beside = sum(row["runs"] for row in rows), sum(plan.beside for plan in plans)
    text = f"{count_with_noun(runs, 'run')} to compute in {count_with_noun(tasks, 'task')}, "
    text += f"{total} of CPU time"
    measured = any(_is_measured(plan.entry.experiment.record) for plan in plans)
    purpose = "to measure exponents and defects, and to record" if measured else "to record them"
    text += f", and {format_duration(beside)} {purpose}" * (beside > 0)
    return f"{format_table(names, cells)}\n{text}"


def _is_measured(record: Collection[str]) -> bool:
    """Whether steps are taken again to measure something: with tangent vectors, or backwards."""
    return any(name.startswith(schema.MEASURED) for name in record)


def _byte_count_text(count):
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
