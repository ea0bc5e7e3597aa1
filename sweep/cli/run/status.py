"""`sweep status`: print the progress of a store, and which runs failed, why and where."""

import collections
import contextlib
import shlex
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import click

import sweep
from integrators.errors import check_known
from sweep.analysis.rows import grouped
from sweep.cli.options import Seconds, command
from sweep.cli.output import echo, echo_json, rows_as_text
from sweep.cli.streams import is_terminal, rich_console
from sweep.cli.terminal import print_checkpoints
from sweep.errors import Damaged
from sweep.store import failed_runs as failing
from sweep.store import progress as stored
from sweep.store.lease.holder import LeaseHolder
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.lease.requests import Submission, submission_of_store
from sweep.store.progress import (
    Prediction,
    Progress,
    RunRate,
    read_plan_predictions,
)
from sweep.store.store import Store
from sweep.text import (
    about_duration,
    count_with_noun,
    escape_control_characters,
    escape_controls_in_lines,
    format_duration,
    format_number,
)

REDRAW_SECONDS, PRINT_SECONDS = 1.0, 30.0  # between updates: on a terminal, and elsewhere
MOST_TROUBLES = 5  # failures to read in succession, which may occur while a store is extended
NOT_WATCHED = ("left study", "cpu_seconds")
SHOWN = 40  # number of failed runs of an experiment, or of references, that are printed


@command
def status(
    store: str,
    experiment: tuple[str, ...],
    failures: bool,
    everything: bool,
    watch: bool,
    every: Seconds | None,
    as_json: bool,
) -> None:
    """Print how many runs of STORE are done, running and pending; failed runs count as done.

    CPU time includes finished runs, their references, and the work in checkpoints. The line below
    the table compares the CPU time that the last plan (of `sweep run`, `extend` or `retry`)
    expected with the time used since.

    With --failures, failed runs are listed with the reason, step and time of failure, and the
    values of axes that they have in common. References that end before their last sample are listed
    with their start, the time and reason of the end, and a remedy.

    \b
    Example:
      sweep status quickstart.zarr
      sweep status quickstart.zarr --watch
      sweep status quickstart.zarr --failures -e pendulum

    Options:
      --failures  List failed runs, and references that end early.
      --all  With --failures, list all of them, not only the first 40.
      --watch  Update until all runs are done or Ctrl-C is pressed, with rate and time left.
      --every TIME  Time between updates of --watch: 5 (seconds), 2m.
    """
    if watch and (failures or as_json):
        raise click.UsageError("--watch cannot be combined with --failures or --json")
    if every is not None and not watch:
        raise click.UsageError("--every can only be used with --watch")

    opened = Store.at(store)
    try:
        opened.check()
    except ValueError:  # no store; a submitted coordinator may not have created it yet
        if watch or (submission := _submission_or_none(opened)) is None:
            raise
        echo({"submission": vars(submission)}, _submission_sentence(submission), as_json)
        return
    if watch:
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends --watch, not the run
            _watch_progress(opened, every)
        return
    for name in experiment:
        check_known("experiment", name, opened.experiments, where=f"of {opened}")
    failed = _failure_facts(opened, experiment) if failures else {}
    progresses = stored.status(opened)
    shown = [own for own in progresses if not experiment or own.experiment in experiment]
    holder, submission = lease_holder_of_store(opened), _submission_or_none(opened)
    total, predictions = read_plan_predictions(opened)
    planned = [progress for progress in progresses if progress.experiment in predictions]
    last_plan = None if total is None else _compare_plan_with_use(total, planned)
    if as_json:
        about = {
            "last_plan": last_plan,
            "holder": holder and vars(holder),
            "submission": submission and vars(submission),
        }
        rows = [_progress_facts(own, predictions.get(own.experiment)) for own in shown]
        echo_json({"experiments": rows, **failed, **about})
        return
    counts = [progress.counts | {"CPU time [s]": progress.cpu_seconds} for progress in shown]
    for row in counts:
        del row["cpu_seconds"]
    click.echo(rows_as_text(counts, _cell_text) if counts else f"{opened} has no experiment.")
    if counts and last_plan is not None:
        click.echo(_plan_sentence(last_plan, progresses, predictions))
    if holder is not None:
        click.echo(f"Held by {holder} since {holder.since}")
    elif submission is None and any(own.left for own in shown):
        click.echo(_resume_sentence(opened))
    if submission is not None:
        click.echo(_submission_sentence(submission, holder))
    print_checkpoints(shown)
    if not failures and (failed_runs := sum(own.failed for own in shown)):
        which = shlex.join(["sweep", "status", "--failures", str(opened)])
        click.echo(f"{count_with_noun(failed_runs, 'failed run')} among those done: {which}")
    if failures:
        _print_failures(failed, sys.maxsize if everything else SHOWN)


def _progress_facts(progress: Progress, prediction: Prediction | None) -> dict[str, Any]:
    plan = prediction and _compare_plan_with_use(prediction, [progress])
    return {**progress.counts, "in_checkpoints": progress.partly, "last_plan": plan}


def _compare_plan_with_use(
    prediction: Prediction, progresses: Sequence[Progress]
) -> dict[str, Any]:
    """Runs and CPU time that a plan expected of some experiments, and those done since."""
    used = sum(progress.cpu_seconds for progress in progresses) - prediction.before
    left = sum(progress.left for progress in progresses)
    return {
        "runs": prediction.runs,
        "runs_done": max(0, prediction.runs - left),
        "references": prediction.references,
        "cpu_seconds": prediction.cpu_seconds,
        "cpu_seconds_used": max(0.0, used),
    }


def _plan_sentence(
    plan: Mapping[str, Any], progresses: Sequence[Progress], planned: Collection[str]
) -> str:
    """A sentence that compares the last plan with the CPU time used since."""
    total = sum(progress.runs for progress in progresses)
    waiting = sum(own.left for own in progresses if own.experiment not in planned)
    runs = f"{plan['runs']:,} runs"
    if plan["runs"] + waiting < total:
        runs = f"the {plan['runs']:,} of {total:,} runs that were left then"
    unplanned = f"; {count_with_noun(waiting, 'run')} not planned yet" * bool(waiting)
    references = f" and {plan['references']:,} references" if plan["references"] else ""
    return (
        f"Last plan: {about_duration(plan['cpu_seconds'])} of CPU time for {runs}{references}; "
        f"used since: {format_duration(plan['cpu_seconds_used'])}, with {plan['runs_done']:,} of "
        f"the runs done{unplanned}"
    )


def _submission_or_none(store: Store) -> Submission | None:
    try:
        return submission_of_store(store)
    except OSError:  # the bucket does not exist
        return None


def _submission_sentence(submission: Submission, holder: LeaseHolder | None = None) -> str:
    text = f"{submission}"[:1].upper() + f"{submission}"[1:]
    lost = submission.state == "running" and holder is None
    return text + ", or its worker is gone and another one is to take it over" * lost


def _resume_sentence(store: Store) -> str:
    return f"No process runs it now; `sweep run {shlex.quote(str(store))}` resumes."


def _cell_text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else format_number(value)


# --- failures --------------------------------------------------------------------------------


def _failure_facts(store: Store, experiments: Sequence[str]) -> dict[str, Any]:
    """Failed runs, the values that they share, and references that end early, for JSON."""
    early = failing.references_that_end_early(store, experiments)
    shared = failing.values_shared_by_failed_runs(store, experiments)
    return {
        "shared": [{**vars(one), "text": str(one)} for one in shared],
        "failures": failing.failed_runs(store, experiments),
        "references": [
            {**vars(one), "end": {**vars(one.end), "text": str(one.end)}, "text": str(one)}
            for one in early
        ],
    }


def _print_failures(facts: Mapping[str, Any], most: int) -> None:
    rows, references = facts["failures"], facts["references"]
    click.echo("" if rows else "\nNo run failed.")
    for one in (*facts["shared"], *references[:most]):
        click.echo(escape_control_characters(one["text"]))
    if len(references) > most:
        click.echo(f"… and {len(references) - most:,} more references; --all lists them")
    for name, failed in grouped(rows, lambda row: row["experiment"]).items():
        click.echo(f"\n{name}\n{sweep.tables.failures_as_table(failed[:most])}")
        if len(failed) > most:
            click.echo(f"… and {len(failed) - most:,} more; --all lists them")


# --- watching --------------------------------------------------------------------------------


def _watch_progress(store: Store, every: float | None) -> None:
    """Print the progress until all runs are done; on a terminal, redraw a table."""
    from rich.live import Live
    from rich.text import Text

    terminal = is_terminal(sys.stdout)
    rates: dict[str, RunRate] = collections.defaultdict(RunRate)
    drawing = Live(console=rich_console(sys.stdout), auto_refresh=False)
    with drawing if terminal else contextlib.nullcontext():
        for progresses in _counted_again_and_again(
            store, every or (REDRAW_SECONDS if terminal else PRINT_SECONDS)
        ):
            rows = [_watched_row(own, rates[own.experiment]) for own in progresses]
            text = (
                rows_as_text(rows, _cell_text) if terminal else "\n".join(map(_watched_line, rows))
            )
            if any(own.left for own in progresses) and lease_holder_of_store(store) is None:
                text += f"\n{_resume_sentence(store)}"
            if terminal:
                drawing.update(Text(escape_controls_in_lines(text)), refresh=True)
            else:
                click.echo(text)


def _counted_again_and_again(store: Store, every: float) -> Iterator[Sequence[Progress]]:
    """Yield the progress of a store every `every` seconds until all runs are done."""
    troubles, left = 0, True
    while left:
        try:
            if progresses := stored.status(store):
                yield progresses
                left = any(progress.left for progress in progresses)
            troubles = 0
        except Damaged:  # which may occur while a store is extended
            troubles += 1
            if troubles > MOST_TROUBLES:
                raise
        if left:
            time.sleep(every)


def _watched_row(progress: Progress, rate: RunRate) -> dict[str, Any]:
    rate.add(time.monotonic(), progress.done + progress.partly)
    left = rate.seconds_left(progress.left - progress.partly)
    shown = {name: value for name, value in progress.counts.items() if name not in NOT_WATCHED}
    duration = "–" if left != left else format_duration(left)
    return shown | {"runs/s": rate.per_second, "time left": duration}


def _watched_line(row: Mapping[str, Any]) -> str:
    return (
        f"{time.strftime('%H:%M:%S')} {row['experiment']}: {row['done']:,} of {row['runs']:,} "
        f"done, {row['running']:,} running, {row['pending']:,} pending, {row['failed']:,} failed, "
        f"{row['runs/s']:.3g}/s, {row['time left']} left"
    )
