"""`sweep plan`: the cost of a study."""

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
    click.echo(str(planned))
    if (store_now := Store.at(planned.store)).exists():
        for said in checkpoint_progress_lines(Counter(store_now).count()):
            click.echo(f"{said}, and counted here as if it were not")
