"""`sweep plan`: what a study would cost."""

import os

import click

from sweep.cli.common import (
    json_option,
    kept_store,
    optional_store,
    store_path,
    study_argument,
    warn_of_stability,
)


@click.command("plan")
@study_argument
@optional_store
@click.option("--workers", type=click.IntRange(min=1), help="Count tasks for so many processes.")
@json_option
def command(study, store, workers, as_json):
    """Print runs, steps, tasks, files, bytes and CPU time of STUDY; nothing is written.

    A pilot of some milliseconds measures each integrator on each system. With a STORE
    (./NAME.zarr unless given) that exists, only what it lacks is counted.

    \b
    Example:
      sweep plan quickstart
    """
    from sweep import ledger, planning
    from sweep.cli.common import echo_json
    from sweep.study import load

    loaded = load(study, kept_store(study, store))
    path = store_path(loaded, store)
    entries = ledger.compare(path, loaded)
    for entry in entries:
        warn_of_stability(entry.table, entry.pending)
    plans = planning.plan_study(entries)
    tasks = planning.count_tasks(plans, workers or os.cpu_count() or 1)
    if as_json:
        echo_json({"store": str(path), "tasks": tasks, "experiments": [_row(p) for p in plans]})
        return
    click.echo(f"Store: {path}")
    click.echo(format_plan(plans, tasks))


def _row(plan):
    seconds, most = plan.pending_seconds
    return {
        "experiment": plan.entry.name,
        "runs": int(plan.entry.pending.sum()),
        "committed": int((~plan.entry.pending).sum()),
        "steps": plan.steps,
        "files": plan.files,
        "bytes": plan.bytes,
        "cpu_seconds": seconds,
        "cpu_seconds_most": most,
    }


def format_plan(plans, tasks):
    """The plan as a table and a line of totals."""
    from sweep.text import format_table

    rows = [_row(plan) for plan in plans]
    cells = [
        [
            row["experiment"],
            f"{row['runs']:,}",
            f"{row['steps']:,}",
            f"{row['files']:,}",
            _size(row["bytes"]),
            _interval(row["cpu_seconds"], row["cpu_seconds_most"]),
        ]
        for row in rows
    ]
    table = format_table(["experiment", "runs", "steps", "files", "at most", "CPU time"], cells)
    total = _interval(*(sum(r[k] for r in rows) for k in ("cpu_seconds", "cpu_seconds_most")))
    runs = sum(row["runs"] for row in rows)
    return f"{table}\n{runs:,} runs to compute in {tasks:,} tasks, {total} of CPU time"


def _interval(seconds, most):
    low, high = duration(seconds), duration(most)
    return low if low == high else f"{low} – {high}"


def duration(seconds):
    """A time in the unit that suits it: ``12 s``, ``3.4 min``, ``2.1 h``."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def _size(count):
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
