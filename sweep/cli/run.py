"""`sweep run`: compute what a study asks for and its store lacks."""

import contextlib
import shlex
import sys
import time

import click

import sweep
from integrators.errors import InputError
from sweep.cli.common import (
    budget_option,
    echo_json,
    json_option,
    optional_store,
    print_warnings_before_work,
    run_options,
    study_argument,
    trust_option,
)
from sweep.cli.main import DOES_NOT_HOLD, INCOMPLETE
from sweep.cli.plan import format_plan_table
from sweep.cli.progress import StatusLine
from sweep.cli.status import checkpoint_progress_lines
from sweep.cli.summary import decisions_for_json, print_decisions, print_run_summary
from sweep.errors import Damaged
from sweep.store.progress import Counter
from sweep.store.store import Store
from sweep.text import count_with_noun, format_duration


@click.command("run")
@study_argument
@optional_store
@run_options
@click.option("--summary/--no-summary", default=True, help="Tables and plots at the end.")
@click.option("--decide", is_flag=True, help="Then add what decides its verdicts: sweep decide.")
@budget_option
@trust_option
@json_option
def command(study, store, summary, decide, budget, trust_plugins, as_json, options):
    """Run STUDY, a file or a packaged study's name, into STORE (./NAME.zarr unless given).

    STUDY may be a store, too: the study that it keeps goes on, as after a merge; or, with another
    STORE, is computed there anew.

    Running it again goes on where it stopped; an edited study adds what is missing. Ctrl-C,
    SIGTERM and the end of --max-time let running tasks commit. One process at a time may write to
    a store. Exit code 3: some runs failed, 4: interrupted.

    Plugins that the study names are sent to the workers, and kept in the store by source and hash;
    only the coordinator needs their files. Those of a study's file are approved by running it;
    those that a store brings need --trust-plugins once, unless they were approved before.

    With --json standard output is how the run ended, and all else is on standard error; there are
    no tables and plots at the end.

    \b
    Example:
      sweep run quickstart
      sweep run my-study.toml /scratch/my-study.zarr --scheduler tcp://login1:8786
      sweep run my-study.toml /scratch/my-study.zarr --cluster slurm --workers 64
      sweep run my-study.toml --max-time 55m
      sweep run my-study.toml --decide --budget 5m
      sweep run my-study.toml s3://my-bucket/studies/my-study.zarr
    """
    loaded, store = sweep.store.resolve_study_and_store(study, store, trust_plugins)
    click.echo(f"Store: {store}", err=as_json)
    options["watcher"] = Terminal(loaded.name, as_json)
    outcome, found = sweep.run(loaded, store, **options), None
    if decide and outcome.complete:
        found = sweep.decide(store, budget, trust_plugins=trust_plugins, **options)
        outcome = found.outcome or outcome
    if as_json:
        echo_json(_outcome_facts(outcome) | _decision_facts(found))
        exit_by_outcome(outcome)
        return
    if summary and outcome.complete:
        print_run_summary(store)
    if found is not None:
        print_decisions(found)
    print_outcome_and_exit(outcome)


def print_outcome_and_exit(outcome, as_json=False):
    """Print how the run ended, what failed or how to go on, and exit accordingly."""
    if as_json:
        echo_json(_outcome_facts(outcome))
    else:
        print_run_outcome(outcome)
        if not outcome.complete:
            _print_checkpointed_progress(outcome.store)
    exit_by_outcome(outcome)


def exit_by_outcome(outcome):
    """Exit with the code of a run that is incomplete, or of which runs failed; else return."""
    if not outcome.complete:
        sys.exit(INCOMPLETE)
    if outcome.failed:
        sys.exit(DOES_NOT_HOLD)


def _outcome_facts(outcome):
    return {
        "store": str(outcome.store),
        "complete": outcome.complete,
        "stopped": outcome.stopped or None,
        "experiments": outcome.rows,
    }


def _decision_facts(found):
    """What became of verdicts that were open, where that was asked for."""
    if found is None:
        return {}
    return {"decisions": decisions_for_json(found)}


def _print_checkpointed_progress(store):
    """How much of the runs that are not done is in checkpoints, if there is a store."""
    with contextlib.suppress(InputError, Damaged):
        for line in checkpoint_progress_lines(Counter(Store.at(store)).count()):
            click.echo(line)


def print_run_outcome(outcome):
    """How the run ended: what failed, or how to go on."""
    runs = sum(tally.runs for tally in outcome.tallies)
    done = sum(tally.done for tally in outcome.tallies)
    for tally in outcome.tallies:
        for meaning, count in tally.failed:
            click.echo(
                f"{tally.experiment}: {count:,} of {tally.runs:,} runs "
                f"{_failure_status_in_words(meaning)}"
            )
    _print_early_references(outcome)
    if outcome.failed:
        click.echo(f"Which runs: {shlex.join(['sweep', 'failures', str(outcome.store)])}")
    if outcome.complete:
        click.echo(f"Complete: {runs:,} runs in {outcome.store}")
    else:
        command = shlex.join(["sweep", *sys.argv[1:]])
        why = f" ({outcome.stopped})" if outcome.stopped else ""
        click.echo(f"Stopped{why} with {done:,} of {runs:,} runs committed. To go on: {command}")


def _print_early_references(outcome):
    """How many references end early, where to look, and the first of them."""
    with contextlib.suppress(InputError):  # of a store that is damaged, or was never made
        if early := sweep.early_references(outcome.store):
            ends = count_with_noun(len(early), "reference") + f" end{'s' * (len(early) == 1)} early"
            click.echo(f"{ends}: {shlex.join(['sweep', 'failures', str(outcome.store)])}")


def _failure_status_in_words(meaning):
    return {
        "left_domain": "left the domain of the method (step too large)",
        "not_converged": "did not converge",
        "not_finite": "blew up",
        "step_too_small": "needed steps below round-off",
    }[meaning]


class Terminal:
    """Prints what the coordinator's `run` tells: the comparison, the plan, how far it is.

    On standard error with `err`, for a standard output that is JSON.
    """

    def __init__(self, name, err=False):
        self._name, self._err = name, err
        self._line, self._stopping = StatusLine(), False

    def _echo(self, text):
        self._line.close()
        click.echo(text, err=self._err)

    def compared(self, entries):
        """How many runs are new, kept, go on, and no longer in the study; unstable step sizes."""
        new = sum(entry.new for entry in entries)
        kept = sum(entry.table.size for entry in entries) - new
        gone = sum(entry.gone for entry in entries)
        waiting = sum(int(entry.pending.sum()) for entry in entries)
        longer = sum(int((entry.standing[entry.pending] > 0).sum()) for entry in entries)
        text = f"Study {self._name}: {new:,} new run{'s' * (new != 1)}, {kept:,} kept"
        left = {"go on": longer, "not computed yet": waiting - new - longer}
        if told := ", ".join(f"{count:,} {what}" for what, count in left.items() if count):
            text += f" ({told.replace(' ', ' of them ', 1)})"
        self._echo(text + (f", {gone:,} no longer in the study" if gone else ""))
        if not waiting:
            self._echo("Nothing to compute.")
        print_warnings_before_work([e.table for e in entries], [e.pending for e in entries])

    def mixed(self, kinds):
        """Say that results may differ in their last bits."""
        self._say(
            "Warning: the runs of this store are from different kinds of machines, whose sines may "
            f"differ in the last bit: {'; '.join(kinds)}"
        )

    def planned(self, plans, tasks, workers):
        """The plan."""

        self._echo(format_plan_table(plans, tasks) + f", {workers} worker{'s' * (workers > 1)}")

    def preparing(self, now):
        """What is measured, or which kernel compiles for it."""
        self._line.show(str(now), now.done / now.of, at_once=True)

    def compiling(self, workers):
        """Say that this takes a while."""
        self._say(f"Compiling kernels on {workers} worker{'s' * (workers > 1)}")

    def began(self, runs, seconds):
        """Note what there is to do, in expected CPU seconds, which is how time passes."""
        self._began, self._runs, self._done = time.perf_counter(), runs, 0
        self._seconds, self._past, self._left = seconds, 0.0, None

    def added(self, seconds):
        """Note what there is to do besides."""
        self._seconds += seconds

    def running(self, tasks, seconds_left):
        """Say how far it is, and how long it takes yet."""
        self._left = seconds_left if seconds_left == seconds_left else None  # not known yet
        self._show_runs(tasks[0].experiment if tasks else "")

    def progressed(self, task, receipt):
        """A task has committed."""
        self._done += receipt.runs
        self._past += task.cost if receipt.whole else 0.0
        self._show_runs(task.experiment)

    def _show_runs(self, experiment):
        if self._stopping:  # what is left is then for another time
            return
        rate = self._done / (time.perf_counter() - self._began)
        text = f"{self._done:,}/{self._runs:,} runs, {rate:.3g}/s"
        if self._left is not None:
            text += f", {format_duration(self._left)} left"
        share = min(self._past / self._seconds, 1.0) if self._seconds else 0.0
        self._line.show(f"Running {experiment}: {text}", share, at_once=self._done >= self._runs)

    def _say(self, text):
        """Print a line on standard error."""
        self._line.close()
        click.echo(text, err=True)

    def waiting(self, holder, seconds):
        """Say whom it waits for."""
        text = f"Held by {holder} since {holder.since}; seeing for up to {seconds:.0f} s whether it"
        self._say(f"{text} lives")

    def connecting(self, text):
        """Say what it waits for."""
        self._say(text)

    def draining(self, reason):
        """Say that it was heard."""
        self._stopping = True
        text = f"\nStopping when running tasks have committed ({reason})"
        self._say(f"{text}; Ctrl-C gives up")

    def ended(self):
        """Take the line away."""
        self._line.close()
