"""`sweep status`: how far a store is."""

import contextlib
import sys
import time

import click

from integrators.errors import InputError
from sweep.cli.common import echo_json, json_option, store_argument
from sweep.cli.streams import raw
from sweep.errors import Damaged
from sweep.store.failures import failed_runs
from sweep.store.lease.lease import holder_of
from sweep.store.lease.requests import submission_of
from sweep.store.progress import Counter, Rate, predictions_of
from sweep.store.store import Store
from sweep.text import duration, format_table, interval, number

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
        counter = Counter(store)
    except ValueError:  # no store: perhaps it is still to be made
        if watch or (submission := _submission(store)) is None:
            raise
        text = _sentence(submission)
        echo_json({"submission": vars(submission)}) if as_json else click.echo(text)
        return
    if watch:
        with contextlib.suppress(KeyboardInterrupt):  # of who watches, not of the run
            _watch(counter, every)
        return
    progresses = _counted(counter)
    rows = [_row(progress) for progress in progresses]
    failures = _failures(store) if failed else []
    holder, submission = holder_of(store), _submission(store)
    total, predictions = predictions_of(store)
    if as_json:
        for row, progress in zip(rows, progresses, strict=True):
            row["in_checkpoints"] = progress.partly
            own = predictions.get(progress.experiment)
            row["last_plan"] = own and _compared(own, [progress])
        found = {"experiments": rows, **({"failures": failures} if failed else {})}
        found["last_plan"] = total and _compared(total, _planned(progresses, predictions))
        found |= {"holder": holder and vars(holder), "submission": submission and vars(submission)}
        echo_json(found)
        return
    click.echo(_table(rows))
    if total is not None:
        click.echo(_plan_sentence(_compared(total, _planned(progresses, predictions))))
    if holder is not None:
        click.echo(f"Held by {holder} since {holder.since}")
    if submission is not None:
        click.echo(_sentence(submission, holder))
    for line in on_their_way(progresses):
        click.echo(line)
    if failed and failures:
        click.echo("\n" + _table(failures))
    elif failed:
        click.echo("\nNo run failed.")


def _planned(progresses, predictions):
    return [progress for progress in progresses if progress.experiment in predictions]


def _compared(prediction, progresses):
    """What a plan expected of some experiments, and what they used since."""
    used = sum(progress.cpu_seconds for progress in progresses) - prediction.before
    pending = sum(progress.pending for progress in progresses)
    return {
        "runs": prediction.runs,
        "runs_done": max(0, prediction.runs - pending),
        "references": prediction.references,
        "cpu_seconds": prediction.least,
        "cpu_seconds_most": prediction.most,
        "cpu_seconds_used": max(0.0, used),
    }


def _plan_sentence(plan):

    references = f" and {plan['references']:,} references" if plan["references"] else ""
    return (
        f"Last plan: {interval(plan['cpu_seconds'], plan['cpu_seconds_most'])} of CPU time for "
        f"{plan['runs']:,} runs{references}; used since: {duration(plan['cpu_seconds_used'])}, "
        f"with {plan['runs_done']:,} of the runs done"
    )


def _submission(store):

    with contextlib.suppress(OSError):  # of a bucket that is not there
        return submission_of(store)


def _sentence(submission, holder=None):
    text = f"{submission}"[:1].upper() + f"{submission}"[1:]
    lost = submission.state == "running" and holder is None
    return text + ", or that is gone and another worker waits to take it over" * lost


def on_their_way(progresses):
    """What checkpoints hold of runs that are not done, a line for each experiment."""
    for progress in progresses:
        if progress.partly:
            share = progress.partly / progress.left
            yield f"{progress.experiment}: {share:.1%} of what is not done is in checkpoints"


def _counted(counter):

    try:
        return counter.count()
    except Damaged as damage:
        raise InputError(
            f"{damage}. If the store was left while it was compacted, `sweep run` mends it; "
            f"`sweep verify {counter.store}` says all that is wrong"
        ) from None


def _row(progress):
    return {
        "experiment": progress.experiment,
        "runs": progress.runs,
        "done": progress.done,
        "running": progress.running,
        "pending": progress.pending,
        "failed": progress.failed,
        "left study": progress.left_study,
        "cpu_seconds": progress.cpu_seconds,
    }


def _failures(store):

    names = ("experiment", "run", "integrator", "step_size", "tolerance", "initial_condition")
    names += ("status", "stop_step", "stop_time", "stop_residual")
    return [{name: row[name] for name in names} for row in failed_runs(store)]


def _table(rows):

    return format_table(list(rows[0]), [[_cell(v) for v in row.values()] for row in rows])


def _cell(value):

    return f"{value:,}" if isinstance(value, int) else number(value, 4)


# --- watching --------------------------------------------------------------------------------


def _watch(counter, every):
    """Look again and again; a terminal shows one table, anything else gets a line now and then."""
    terminal = sys.stdout.isatty()
    every = every or (REDRAWN if terminal else PRINTED)
    rates, height, troubles = {}, 0, 0
    while True:
        try:
            progresses, troubles = counter.count(), 0
        except Damaged:  # arrays change their places while they are compacted
            troubles += 1
            progresses = _counted(counter) if troubles > 5 else []
        now = time.monotonic()
        for progress in progresses:
            rates.setdefault(progress.experiment, Rate()).add(now, progress.done + progress.partly)
        text = _seen(progresses, rates, terminal) if progresses else ""
        if text and terminal:
            raw(sys.stdout).write("\x1b[A\x1b[2K" * height)
            click.echo(text)
            height = text.count("\n") + 1
        elif text:
            click.echo(text)
        if progresses and not any(progress.left for progress in progresses):
            return
        time.sleep(every)


def _seen(progresses, rates, terminal):
    rows = [
        {
            "experiment": progress.experiment,
            "runs": progress.runs,
            "done": progress.done,
            "running": progress.running,
            "pending": progress.pending,
            "failed": progress.failed,
            "runs/s": rates[progress.experiment].per_second,
            "time left": _duration(
                rates[progress.experiment].seconds_left(progress.left - progress.partly)
            ),
        }
        for progress in progresses
    ]
    if terminal:
        return _table(rows)
    return "\n".join(
        f"{time.strftime('%H:%M:%S')} {row['experiment']}: {row['done']:,} of {row['runs']:,} "
        f"done, {row['running']:,} running, {row['pending']:,} pending, {row['failed']:,} failed, "
        f"{row['runs/s']:.3g}/s, {row['time left']} left"
        for row in rows
    )


def _duration(seconds):
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
