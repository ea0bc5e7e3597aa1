"""`sweep plan`: print what a study costs."""

import click

import sweep
from sweep.cli.options import Count, OptionalStore, command
from sweep.cli.output import echo_json
from sweep.cli.progress_line import ProgressLine
from sweep.cli.terminal import COUNTED, print_checkpoints, print_warnings
from sweep.store.progress import status
from sweep.store.store import Store


@command
def plan(
    study: str, store: OptionalStore, workers: Count | None, trust_plugins: bool, as_json: bool
) -> None:
    """Print runs, steps, tasks, files, bytes and CPU time of STUDY; write nothing.

    Some steps of each integrator on each system, and of references, are timed for milliseconds. CPU
    time includes the integration of runs (the sum of their `cpu_time`) and references; the time for
    recording and measuring is printed separately. If STORE (by default ./NAME.zarr) exists, only
    what it lacks is counted.

    \b
    Example:
      sweep plan quickstart

    Options:
      --workers N  Number of worker processes to plan tasks for.
    """
    with ProgressLine() as line:
        planned = sweep.plan(
            study, store, workers, trust_plugins,
            lambda now: line.show(str(now), now.done / now.of),
        )  # fmt: skip
    entries = [own.entry for own in planned.experiments]
    print_warnings([(entry.table, entry.pending) for entry in entries])
    if as_json:
        total = {"cpu_seconds": planned.cpu_seconds, "tasks": planned.tasks}
        echo_json({"store": str(planned.store), **total, "experiments": planned.rows})
        return
    click.echo(str(planned))
    if (made := Store.at(planned.store)).exists():
        print_checkpoints(status(made), COUNTED)
