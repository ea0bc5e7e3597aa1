"""`sweep status`: how far a store is."""

import contextlib
import sys
import time

import click

from sweep.cli.common import echo_json, json_option, store_argument
from sweep.cli.streams import raw_terminal_stream
from sweep.errors import Damaged
from sweep.store.failures import failed_runs
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.lease.requests import submission_of_store
from sweep.store.progress import Counter, Rate, read_plan_predictions
from sweep.store.store import Store
from sweep.text import format_duration, format_number, format_table, format_time_interval

REDRAWN, PRINTED = 1.0, 30.0  # seconds between two looks: on a terminal, and elsewhere


@click.command("status")
@store_argument
@click.option("--failed", is_flag=True, help="List the runs that failed.")
@click.option("--watch", is_flag=True, help="Until all is done or Ctrl-C: rate and time left too.")
@click.option(
    "--every", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Between looks of --watch."
)
@json_option
def command(store, failed, watch, every, as_json):
    """Print how many runs of STORE are done, running and pending; failed are some of the done.

    CPU time is what the runs that are done and their references used. Below the table stands what
    the last plan (of `sweep run`, `extend` or `retry`) expected, and what was used since.

    \b
    Example:
      sweep status quickstart.zarr
      sweep status quickstart.zarr --watch
    """
    if watch and (failed or as_json):
        raise click.UsageError("--watch is not together with --failed or --json")
    if every is not None and not watch:
        raise click.UsageError("--every is of --watch")

    store = Store.at(store)
    try:
        store.check()
    except ValueError:  # no store: perhaps it is still to be made
        if watch or (submission := _submission_or_none(store)) is None:
            raise
        text = _submission_sentence(submission)
        echo_json({"submission": vars(submission)}) if as_json else click.echo(text)
        return
    counter = Counter(store)
    if watch:
        with contextlib.suppress(KeyboardInterrupt):  # of who watches, not of the run
            _watch_progress(counter, every)
        return
    progresses = _count_progress(counter)
    rows = [progress.counts for progress in progresses]
    failures = _failed_run_rows(store) if failed else []
    holder, submission = lease_holder_of_store(store), _submission_or_none(store)
    total, predictions = read_plan_predictions(store)
    if as_json:
        for row, progress in zip(rows, progresses, strict=True):
            row["in_checkpoints"] = progress.partly
            own = predictions.get(progress.experiment)
            row["last_plan"] = own and _compare_plan_with_use(own, [progress])
        found = {"experiments": rows, **({"failures": failures} if failed else {})}
        found["last_plan"] = total and _compare_plan_with_use(
            total, _progresses_with_prediction(progresses, predictions)
        )
        found |= {"holder": holder and vars(holder), "submission": submission and vars(submission)}
        echo_json(found)
        return
    click.echo(_format_status_table(rows) if rows else f"{store} has no experiment.")
    if rows and total is not None:
        click.echo(
            _plan_sentence(
                _compare_plan_with_use(total, _progresses_with_prediction(progresses, predictions))
            )
        )
    if holder is not None:
        click.echo(f"Held by {holder} since {holder.since}")
    if submission is not None:
        click.echo(_submission_sentence(submission, holder))
    for line in checkpoint_progress_lines(progresses):
        click.echo(line)
    if failed and failures:
        click.echo("\n" + _format_status_table(failures))
    elif failed:
        click.echo("\nNo run failed.")


def _progresses_with_prediction(progresses, predictions):
    return [progress for progress in progresses if progress.experiment in predictions]


def _compare_plan_with_use(prediction, progresses):
    """What a plan expected of some experiments, and what they used since."""
    used = sum(progress.cpu_seconds for progress in progresses) - prediction.before
    left = sum(progress.left for progress in progresses)
    return {
        "runs": prediction.runs,
        "runs_done": max(0, prediction.runs - left),
        "references": prediction.references,
        "cpu_seconds": prediction.least,
        "cpu_seconds_most": prediction.most,
        "cpu_seconds_used": max(0.0, used),
    }


def _plan_sentence(plan):
    references = f" and {plan['references']:,} references" if plan["references"] else ""
    expected = format_time_interval(plan["cpu_seconds"], plan["cpu_seconds_most"])
    return (
        f"Last plan: {expected} of CPU time for {plan['runs']:,} runs{references}; "
        f"used since: {format_duration(plan['cpu_seconds_used'])}, "
        f"with {plan['runs_done']:,} of the runs done"
    )


def _submission_or_none(store):
    with contextlib.suppress(OSError):  # of a bucket that is not there
        return submission_of_store(store)


def _submission_sentence(submission, holder=None):
    text = f"{submission}"[:1].upper() + f"{submission}"[1:]
    lost = submission.state == "running" and holder is None
    return text + ", or that is gone and another worker waits to take it over" * lost


def checkpoint_progress_lines(progresses):
    """What checkpoints hold of runs that are not done, a line for each experiment."""
    for progress in progresses:
        if progress.partly:
            share = progress.partly / progress.left
            yield f"{progress.experiment}: {share:.1%} of what is not done is in checkpoints"


def _count_progress(counter):
    with counter.store.naming_damage():
        return counter.count()


def _failed_run_rows(store):
    names = ("experiment", "run", "integrator", "step_size", "tolerance", "initial_condition")
    names += ("status", "stop_step", "stop_time", "stop_residual")
    return [{name: row[name] for name in names} for row in failed_runs(store)]


def _format_status_table(rows):
    return format_table(
        list(rows[0]), [[_status_cell_text(v) for v in row.values()] for row in rows]
    )


def _status_cell_text(value):
    return f"{value:,}" if isinstance(value, int) else format_number(value, 4)


# --- watching --------------------------------------------------------------------------------


def _watch_progress(counter, every):
    """Look again and again; a terminal shows one table, anything else gets a line now and then."""
    terminal = sys.stdout.isatty()
    every = every or (REDRAWN if terminal else PRINTED)
    rates, height, troubles = {}, 0, 0
    while True:
        try:
            progresses, troubles = counter.count(), 0
        except Damaged:  # as while a store grows
            troubles += 1
            progresses = _count_progress(counter) if troubles > 5 else []
        now = time.monotonic()
        for progress in progresses:
            rates.setdefault(progress.experiment, Rate()).add(now, progress.done + progress.partly)
        text = _watched_progress_text(progresses, rates, terminal) if progresses else ""
        left = any(progress.left for progress in progresses)
        if left and lease_holder_of_store(counter.store) is None:
            text += f"\nNobody runs it now; `sweep run {counter.store}` goes on."
        if text and terminal:
            raw_terminal_stream(sys.stdout).write("\x1b[A\x1b[2K" * height)
            click.echo(text)
            height = text.count("\n") + 1
        elif text:
            click.echo(text)
        if progresses and not left:
            return
        time.sleep(every)


def _watched_progress_text(progresses, rates, terminal):
    rows = [
        {
            "experiment": progress.experiment,
            "runs": progress.runs,
            "done": progress.done,
            "running": progress.running,
            "pending": progress.pending,
            "failed": progress.failed,
            "runs/s": rates[progress.experiment].per_second,
            "time left": _remaining_time_in_words(
                rates[progress.experiment].seconds_left(progress.left - progress.partly)
            ),
        }
        for progress in progresses
    ]
    if terminal:
        return _format_status_table(rows)
    return "\n".join(
        f"{time.strftime('%H:%M:%S')} {row['experiment']}: {row['done']:,} of {row['runs']:,} "
        f"done, {row['running']:,} running, {row['pending']:,} pending, {row['failed']:,} failed, "
        f"{row['runs/s']:.3g}/s, {row['time left']} left"
        for row in rows
    )


def _remaining_time_in_words(seconds):
    """A time of day's length as one says it: 45 s, 3 min 20 s, 5 h 12 min, 2 d 3 h."""
    if seconds != seconds:
        return "–"
    seconds = round(seconds)
    for unit, size, below, smaller in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // smaller} {below}"
    if seconds >= 60:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds} s"
