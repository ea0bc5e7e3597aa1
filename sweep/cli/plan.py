"""`sweep plan`: what a study would cost."""

import os

import click

from sweep.cli.common import (
    json_option,
    optional_store,
    study_argument,
    trust_option,
    warn_of_stability,
)


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
    from sweep.campaign import planning
    from sweep.cli.common import echo_json
    from sweep.store import diff
    from sweep.store.studies import study_and_store

    loaded, path = study_and_store(study, store, trust_plugins)
    entries = diff.compare(path, loaded)
    for entry in entries:
        warn_of_stability(entry.table, entry.pending)
    plans = planning.plan_study(entries)
    tasks = planning.count_tasks(plans, workers or os.cpu_count() or 1)
    if as_json:
        least, most = planning.total_cpu_time(plans).interval
        total = {"cpu_seconds": least, "cpu_seconds_most": most, "tasks": tasks}
        echo_json({"store": str(path), **total, "experiments": [_row(plan) for plan in plans]})
        return
    click.echo(f"Store: {path}")
    click.echo(format_plan(plans, tasks))


def _row(plan):
    least, most = plan.cpu_time.interval
    return {
        "experiment": plan.entry.name,
        "runs": int(plan.entry.pending.sum()),
        "committed": int((~plan.entry.pending).sum()),
        "references": plan.lacking_references,
        "steps": plan.steps,
        "files": plan.files,
        "bytes": plan.bytes,
        "cpu_seconds": least,
        "cpu_seconds_most": most,
        "reference_cpu_seconds": plan.references.usual,
        "recording_cpu_seconds": plan.beside,
    }


def format_plan(plans, tasks):
    """The plan as a table and a line of totals."""
    from sweep.campaign.planning import total_cpu_time
    from sweep.text import duration, format_table, interval

    rows = [_row(plan) for plan in plans]
    cells = [
        [
            row["experiment"],
            f"{row['runs']:,}",
            f"{row['references']:,}",
            f"{row['steps']:,}",
            f"{row['files']:,}",
            _size(row["bytes"]),
            interval(row["cpu_seconds"], row["cpu_seconds_most"]),
        ]
        for row in rows
    ]
    names = ["experiment", "runs", "references", "steps", "files", "at most", "CPU time"]
    total = interval(*total_cpu_time(plans).interval)
    runs, beside = sum(row["runs"] for row in rows), sum(plan.beside for plan in plans)
    text = f"{format_table(names, cells)}\n{runs:,} runs to compute in {tasks:,} tasks, {total}"
    return text + " of CPU time" + f", and {duration(beside)} to record them" * (beside > 0)


def _size(count):
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
