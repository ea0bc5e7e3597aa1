"""`sweep status`: the progress of a store."""

import collections
import contextlib
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import click

from sweep.cli.common import Duration, echo_json, json_option, rows_as_text, store_argument
from sweep.cli.streams import is_terminal, rich_console
from sweep.errors import Damaged
from sweep.store.failures import failed_runs
from sweep.store.lease.holder import LeaseHolder
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.lease.requests import Submission, submission_of_store
from sweep.store.progress import Counter, Prediction, Progress, Rate, read_plan_predictions
from sweep.store.store import Store
from sweep.text import (
    about_duration,
    count_with_noun,
    escape_controls_in_lines,
    format_duration,
    format_number,
)

REDRAW_SECONDS, PRINT_SECONDS = 1.0, 30.0  # between updates: on a terminal, and elsewhere
MOST_TROUBLES = 5  # in succession, that a store may have while it grows


@click.command("status")
@store_argument
@click.option("--failed", is_flag=True, help="List the runs that failed.")
@click.option(
    "--watch", is_flag=True, help="Update until all is done or Ctrl-C, with rate and time left."
)
@click.option(
    "--every",
    type=Duration(),
    metavar="TIME",
    help="Time between updates of --watch: 5 (seconds), 2m.",
)
@json_option
def command(store: str, failed: bool, watch: bool, every: float | None, as_json: bool) -> None:
    """Print how many runs of STORE are done, running and pending; failed runs count as done.

    CPU time is that of the finished runs, of their references and of what checkpoints hold. Below
    the table stand the CPU time that the last plan (of `sweep run`, `extend` or `retry`) expected,
    and that used since.

    \b
    Example:
      sweep status quickstart.zarr
      sweep status quickstart.zarr --watch
    """
    if watch and (failed or as_json):
        raise click.UsageError("--watch is not together with --failed or --json")
    if every is not None and not watch:
        raise click.UsageError("--every is of --watch")

    opened = Store.at(store)
    try:
        opened.check()
    except ValueError:  # no store: perhaps it is still to be made
        if watch or (submission := _submission_or_none(opened)) is None:
            raise
        text = _submission_sentence(submission)
        echo_json({"submission": vars(submission)}) if as_json else click.echo(text)
        return
    counter = Counter(opened)
    if watch:
        with contextlib.suppress(KeyboardInterrupt):  # it ends the watching, not the run
            _watch_progress(counter, every)
        return
    progresses = counter.count()
    rows = [progress.counts for progress in progresses]
    failures = _failed_run_rows(opened) if failed else []
    holder, submission = lease_holder_of_store(opened), _submission_or_none(opened)
    total, predictions = read_plan_predictions(opened)
    planned = [progress for progress in progresses if progress.experiment in predictions]
    last_plan = None if total is None else _compare_plan_with_use(total, planned)
    if as_json:
        for row, progress in zip(rows, progresses, strict=True):
            row["in_checkpoints"] = progress.partly
            prediction = predictions.get(progress.experiment)
            row["last_plan"] = prediction and _compare_plan_with_use(prediction, [progress])
        answer: dict[str, Any] = {"experiments": rows, **({"failures": failures} if failed else {})}
        answer |= {
            "last_plan": last_plan,
            "holder": holder and vars(holder),
            "submission": submission and vars(submission),
        }
        echo_json(answer)
        return
    click.echo(rows_as_text(rows, _cell) if rows else f"{opened} has no experiment.")
    if rows and last_plan is not None:
        click.echo(_plan_sentence(last_plan, progresses, predictions))
    if holder is not None:
        click.echo(f"Held by {holder} since {holder.since}")
    if submission is not None:
        click.echo(_submission_sentence(submission, holder))
    for line in checkpoint_progress_lines(progresses):
        click.echo(line)
    if failed and failures:
        click.echo("\n" + rows_as_text(failures, _cell))
    elif failed:
        click.echo("\nNo run failed.")


def _compare_plan_with_use(
    prediction: Prediction, progresses: Sequence[Progress]
) -> dict[str, Any]:
    """The runs and CPU time that a plan expected of some experiments, and those used since."""
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
    """What the last plan expected, of which of all runs, and what was used since."""
    total = sum(progress.runs for progress in progresses)
    waiting = sum(own.left for own in progresses if own.experiment not in planned)
    runs = f"{plan['runs']:,} runs"
    if plan["runs"] + waiting < total:
        runs = f"the {plan['runs']:,} of {total:,} runs that were left then"
    references = f" and {plan['references']:,} references" if plan["references"] else ""
    return (
        f"Last plan: {about_duration(plan['cpu_seconds'])} of CPU time for {runs}{references}; "
        f"used since: {format_duration(plan['cpu_seconds_used'])}, "
        f"with {plan['runs_done']:,} of the runs done"
        + f"; {count_with_noun(waiting, 'run')} not planned yet"
        * bool(waiting)
    )


def _submission_or_none(store: Store) -> Submission | None:
    try:
        return submission_of_store(store)
    except OSError:  # the bucket does not exist
        return None


def _submission_sentence(submission: Submission, holder: LeaseHolder | None = None) -> str:
    text = f"{submission}"[:1].upper() + f"{submission}"[1:]
    lost = submission.state == "running" and holder is None
    return text + ", or that is gone and another worker waits to take it over" * lost


def checkpoint_progress_lines(progresses: Sequence[Progress]) -> Iterator[str]:
    """The share of the unfinished work that checkpoints hold, a line for each experiment."""
    for progress in progresses:
        if progress.partly:
            share = progress.partly / progress.left
            yield f"{progress.experiment}: {share:.1%} of what is not done is in checkpoints"


def _failed_run_rows(store: Store) -> list[dict[str, Any]]:
    names: tuple[str, ...]
    names = ("experiment", "run", "integrator", "step_size", "tolerance", "initial_condition")
    names += ("status", "stop_step", "stop_time", "stop_residual")
    return [{name: row[name] for name in names} for row in failed_runs(store)]


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else format_number(value, 4)


# --- watching --------------------------------------------------------------------------------


def _watch_progress(counter: Counter, every: float | None) -> None:
    """Print the progress until all is done: redraw a table on a terminal, or print lines."""
    from rich.live import Live
    from rich.text import Text

    terminal = is_terminal(sys.stdout)
    every = every or (REDRAW_SECONDS if terminal else PRINT_SECONDS)
    rates: dict[str, Rate] = collections.defaultdict(Rate)
    troubles, left = 0, True
    drawing = Live(console=rich_console(sys.stdout), auto_refresh=False)
    with drawing if terminal else contextlib.nullcontext():
        while True:
            try:
                progresses, troubles = counter.count(), 0
            except Damaged:  # as while a store grows
                troubles += 1
                if troubles > MOST_TROUBLES:
                    raise
                progresses = []
            if progresses:
                rows = [_watched_row(own, rates[own.experiment]) for own in progresses]
                text = (
                    rows_as_text(rows, _cell) if terminal else "\n".join(map(_watched_line, rows))
                )
                left = any(progress.left for progress in progresses)
                if left and lease_holder_of_store(counter.store) is None:
                    text += f"\nNobody runs it now; `sweep run {counter.store}` goes on."
                if terminal:
                    drawing.update(Text(escape_controls_in_lines(text)), refresh=True)
                else:
                    click.echo(text)
                if not left:
                    return
            time.sleep(every)


def _watched_row(progress: Progress, rate: Rate) -> dict[str, Any]:
    rate.add(time.monotonic(), progress.done + progress.partly)
    left = rate.seconds_left(progress.left - progress.partly)
    return {
        "experiment": progress.experiment,
        "runs": progress.runs,
        "done": progress.done,
        "running": progress.running,
        "pending": progress.pending,
        "failed": progress.failed,
        "runs/s": rate.per_second,
        "time left": _remaining_time_in_words(left),
    }


def _watched_line(row: Mapping[str, Any]) -> str:
    return (
        f"{time.strftime('%H:%M:%S')} {row['experiment']}: {row['done']:,} of {row['runs']:,} "
        f"done, {row['running']:,} running, {row['pending']:,} pending, {row['failed']:,} failed, "
        f"{row['runs/s']:.3g}/s, {row['time left']} left"
    )


def _remaining_time_in_words(seconds: float) -> str:
    """A duration in its two largest units: 45 s, 3 min 20 s, 5 h 12 min, 2 d 3 h."""
    if seconds != seconds:
        return "–"
    seconds = round(seconds)
    for unit, size, below, smaller in (
        ("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1),
    ):  # fmt: skip
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // smaller} {below}"
    return f"{seconds} s"
