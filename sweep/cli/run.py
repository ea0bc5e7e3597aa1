"""`sweep run`: compute what a study asks for and its store lacks."""

import contextlib
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

import sweep
from integrators.errors import InputError
from sweep.campaign.watch import Watcher
from sweep.cli.common import (
    budget_option,
    echo_json,
    json_option,
    optional_store,
    print_warnings_before_runs,
    run_options,
    study_argument,
    summary_option,
    trust_option,
)
from sweep.cli.main import DOES_NOT_HOLD, INCOMPLETE
from sweep.cli.progress import ProgressLine
from sweep.cli.status import checkpoint_progress_lines
from sweep.cli.summary import decisions_for_json, print_run_summary
from sweep.errors import Damaged
from sweep.store.progress import Counter
from sweep.store.store import Store
from sweep.text import count_with_noun

if TYPE_CHECKING:
    from sweep.campaign.decide import Decisions
    from sweep.campaign.plan import ExperimentPlan
    from sweep.campaign.run import Outcome
    from sweep.store.diff import Entry


@click.command("run")
@study_argument
@optional_store
@run_options
@summary_option
@click.option(
    "--decide",
    is_flag=True,
    help="Then add runs that decide open verdicts, as sweep decide does.",
)
@budget_option
@trust_option
@json_option
def command(
    study: str,
    store: str | None,
    summary: bool,
    decide: bool,
    budget: float,
    trust_plugins: bool,
    as_json: bool,
    options: dict[str, Any],
) -> None:
    """Run STUDY, a file or a packaged study's name, into STORE (by default ./NAME.zarr).

    STUDY may also be a store: the study that it keeps goes on, as after a merge; or, with another
    STORE, is computed there anew.

    The same command again goes on where it stopped; an edited study adds what is missing. Ctrl-C,
    SIGTERM and the end of --max-time let running tasks commit. One process at a time may write to
    a store. Exit code 3: some runs failed, 4: interrupted.

    Plugins that the study names are sent to the workers, and kept in the store by source and hash;
    only the coordinator needs their files. Plugins of a study's file are approved by running it;
    those that a store brings need --trust-plugins once, unless they were approved before.

    With --json the outcome is printed to standard output, and everything else to standard error;
    there are no tables and plots at the end.

    \b
    Example:
      sweep run quickstart
      sweep run my-study.toml /scratch/my-study.zarr --scheduler tcp://login1:8786
      sweep run my-study.toml /scratch/my-study.zarr --cluster slurm --workers 64
      sweep run my-study.toml --max-time 55m
      sweep run my-study.toml --decide --budget 5m
      sweep run my-study.toml s3://my-bucket/studies/my-study.zarr
    """
    loaded, opened = sweep.store.resolve_study_and_store(study, store, trust_plugins)
    click.echo(f"Store: {opened}", err=as_json)
    options["watcher"] = Terminal(loaded.name, as_json)
    outcome = sweep.run(loaded, opened, **options)
    decisions: Decisions | None = None
    if decide and outcome.complete:
        decisions = sweep.decide(opened, budget, trust_plugins=trust_plugins, **options)
        outcome = decisions.outcome or outcome
    if as_json:
        facts = _outcome_facts(outcome)
        if decisions is not None:
            facts["decisions"] = decisions_for_json(decisions)
        echo_json(facts)
        exit_by_outcome(outcome)
        return
    if summary and outcome.complete:
        print_run_summary(opened)
    if decisions is not None:
        click.echo(f"\n{decisions}")
    print_outcome_and_exit(outcome)


def print_outcome_and_exit(outcome: "Outcome", as_json: bool = False) -> None:
    """Print how the run ended, what failed or how to go on, and exit accordingly."""
    if as_json:
        echo_json(_outcome_facts(outcome))
    else:
        print_run_outcome(outcome)
        if not outcome.complete:
            with contextlib.suppress(InputError, Damaged):  # the store may not be there yet
                for line in checkpoint_progress_lines(Counter(Store.at(outcome.store)).count()):
                    click.echo(line)
    exit_by_outcome(outcome)


def exit_by_outcome(outcome: "Outcome") -> None:
    """Exit with the code of an incomplete study, or of one with failed runs; else return."""
    if not outcome.complete:
        sys.exit(INCOMPLETE)
    if outcome.failed:
        sys.exit(DOES_NOT_HOLD)


def _outcome_facts(outcome: "Outcome") -> dict[str, Any]:
    return {
        "store": str(outcome.store),
        "complete": outcome.complete,
        "stopped": outcome.stopped or None,
        "experiments": outcome.rows,
    }


def print_run_outcome(outcome: "Outcome") -> None:
    """Print how the run ended: what failed, or how to go on."""
    for line in outcome.failures_in_words:
        click.echo(line)
    _print_early_references(outcome)
    if outcome.failed:
        click.echo(f"Which runs: {shlex.join(['sweep', 'failures', str(outcome.store)])}")
    if outcome.complete:
        click.echo(outcome.in_words)
    else:
        click.echo(f"{outcome.in_words}. To go on: {shlex.join(['sweep', *sys.argv[1:]])}")


def _print_early_references(outcome: "Outcome") -> None:
    """Print how many references end early, and the command that lists them."""
    with contextlib.suppress(InputError, Damaged):  # or the store was never made
        if early := sweep.early_references(outcome.store):
            ends = count_with_noun(len(early), "reference") + f" end{'s' * (len(early) == 1)} early"
            click.echo(f"{ends}: {shlex.join(['sweep', 'failures', str(outcome.store)])}")


class Terminal(Watcher):
    """Prints the comparison, the plan and the progress of a run.

    Parameters
    ----------
    name : str or None
        The name of the study.
    err : bool
        Whether to print everything to standard error, as beside JSON on standard output.
    """

    def __init__(self, name: str | None, err: bool = False) -> None:
        self._name, self._err, self._line = name, err, ProgressLine()

    def _echo(self, text: str, err: bool) -> None:
        self._line.close()
        click.echo(text, err=err)

    def compared(self, entries: "Sequence[Entry]") -> None:
        """Print how many runs are new, kept, continued and no longer in the study; and warnings."""
        new = sum(entry.new for entry in entries)
        kept = sum(entry.table.size for entry in entries) - new
        gone = sum(entry.gone for entry in entries)
        waiting = sum(int(entry.pending.sum()) for entry in entries)
        longer = sum(int((entry.standing[entry.pending] > 0).sum()) for entry in entries)
        text = f"Study {self._name}: {count_with_noun(new, 'new run')}, {kept:,} kept"
        left = {"go on": longer, "not computed yet": waiting - new - longer}
        if unfinished := ", ".join(f"{count:,} {what}" for what, count in left.items() if count):
            text += f" ({unfinished.replace(' ', ' of them ', 1)})"
        text += f", {gone:,} no longer in the study" * bool(gone)
        self._echo(text + "\nNothing to compute." * (not waiting), self._err)
        print_warnings_before_runs([e.table for e in entries], [e.pending for e in entries])

    def planned(self, plans: "Sequence[ExperimentPlan]", tasks: int, workers: int) -> None:
        """Print the plan."""
        text = f"{sweep.campaign.format_plans(plans, tasks)}, {count_with_noun(workers, 'worker')}"
        self._echo(text, self._err)

    def said(self, text: str) -> None:
        """Print a text to standard error."""
        self._echo(text, err=True)

    def progressed(self, text: str, share: float) -> None:
        """Show the progress."""
        self._line.show(text, share)

    def ended(self, text: str, share: float) -> None:
        """Erase the line of progress."""
        self._line.close()
