"""What the terminal shows of a computation: warnings before it, its progress, and its outcome."""

import contextlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

import sweep
from integrators.errors import InputError
from sweep.campaign.watch import Watcher
from sweep.cli.main import DOES_NOT_HOLD, INCOMPLETE
from sweep.cli.output import echo_json
from sweep.cli.progress_line import ProgressLine
from sweep.errors import Damaged
from sweep.store.progress import Progress, status
from sweep.store.store import Store
from sweep.text import count_with_noun

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sweep.campaign.plan import ExperimentPlan
    from sweep.campaign.run import Outcome
    from sweep.store.diff import ExperimentDiff
    from sweep.study.run_table import RunTable


class Terminal(Watcher):
    """Prints what is to be computed, the plan and the progress.

    Parameters
    ----------
    study : str or Store
        The name of the study, or the store that keeps it.
    err : bool
        Whether to print everything to standard error, because standard output is JSON.

    Attributes
    ----------
    workers : int
        Number of workers that have computed; 0 if there was nothing to compute.
    """

    workers = 0

    def __init__(self, study: str | Store, err: bool = False) -> None:
        if isinstance(study, Store):
            study = study.attributes.get("study_name", "")
        self._name = study
        self._err, self._line = err, ProgressLine()

    def _echo(self, text: str, err: bool) -> None:
        self._line.close()
        click.echo(text, err=err)

    def compared(self, entries: "Sequence[ExperimentDiff]") -> None:
        """Print numbers of new, kept, continued and removed runs, and warnings."""
        new = sum(entry.new for entry in entries)
        kept = sum(entry.table.size for entry in entries) - new
        gone = sum(entry.gone for entry in entries)
        waiting = sum(int(entry.pending.sum()) for entry in entries)
        longer = sum(int((entry.standing[entry.pending] > 0).sum()) for entry in entries)
        text = f"Study {self._name}: {count_with_noun(new, 'new run')}, {kept:,} kept"
        left = {"to be continued": longer, "not computed yet": waiting - new - longer}
        if unfinished := ", ".join(f"{count:,} {what}" for what, count in left.items() if count):
            text += f" ({unfinished.replace(' ', ' of them ', 1)})"
        text += f", {gone:,} no longer in the study" * bool(gone)
        self._echo(text + "\nNothing to compute." * (not waiting), self._err)
        print_warnings([(entry.table, entry.pending) for entry in entries])

    def planned(self, plans: "Sequence[ExperimentPlan]", tasks: int, workers: int) -> None:
        """Print the plan."""
        self.workers = workers
        text = f"{sweep.campaign.format_plans(plans, tasks)}, {count_with_noun(workers, 'worker')}"
        self._echo(text, self._err)

    def resumed(self, progresses: Sequence[Progress]) -> None:
        """Print how much of what is planned is in checkpoints."""
        print_checkpoints(progresses, COUNTED, self._err)

    def said(self, text: str) -> None:
        """Print a message to standard error."""
        self._echo(text, err=True)

    def progressed(self, text: str, share: float) -> None:
        """Show the progress."""
        self._line.show(text, share)

    def ended(self, text: str, share: float) -> None:
        """Erase the progress line."""
        self._line.close()


def print_warnings(entries: "Sequence[tuple[RunTable, NDArray[np.bool_] | None]]") -> None:
    """Warn on standard error of unstable step sizes, and of questions that runs cannot answer.

    Parameters
    ----------
    entries : list of (RunTable, ndarray of bool or None)
        Runs, and which of them are to be computed; None for all.
    """
    for table, pending in entries:
        for unstable in sweep.study.steps_beyond_stability_limit(table, pending):
            click.echo(str(unstable), err=True)
    to_compute = [table for table, pending in entries if pending is None or pending.any()]
    for line in sweep.campaign.warnings_before_runs(to_compute):
        click.echo(f"Warning: {line}", err=True)


COUNTED = ", and counted here as if it were not"


def print_checkpoints(progresses: Sequence[Progress], remark: str = "", err: bool = False) -> None:
    """Print for each experiment which share of the unfinished work is in checkpoints.

    Parameters
    ----------
    progresses : sequence of Progress
    remark : str, optional
        Text at the end of each line.
    err : bool, optional
        Whether to print to standard error.
    """
    for progress in progresses:
        if progress.partly:
            share = progress.partly / progress.left
            what = f"{share:.1%} of what is not done is in checkpoints{remark}"
            click.echo(f"{progress.experiment}: {what}", err=err)


def finish_command(
    outcome: "Outcome", as_json: bool = False, more: Mapping[str, Any] | None = None
) -> None:
    """Print an outcome, and how to resume; exit unless all runs are complete and none failed.

    Parameters
    ----------
    outcome : Outcome
    as_json : bool
        Print the outcome as JSON.
    more : dict, optional
        Further entries of the JSON object.
    """
    if as_json:
        facts = {
            "store": str(outcome.store),
            "complete": outcome.complete,
            "stopped": outcome.stopped or None,
            "experiments": outcome.rows,
        }
        echo_json(facts | dict(more or {}))
    else:
        _print_outcome(outcome)
    if not outcome.complete:
        sys.exit(INCOMPLETE)
    if outcome.failed:
        sys.exit(DOES_NOT_HOLD)


def _print_outcome(outcome: "Outcome") -> None:
    which = shlex.join(["sweep", "status", "--failures", str(outcome.store)])
    for line in outcome.failures_in_words:
        click.echo(line)
    with contextlib.suppress(InputError, Damaged):  # InputError: the store was never created
        if early := sweep.early_references(outcome.store):
            ends = count_with_noun(len(early), "reference") + f" end{'s' * (len(early) == 1)} early"
            click.echo(f"{ends}: {which}")
    if outcome.failed:
        click.echo(f"Which runs: {which}")
    if outcome.complete:
        click.echo(outcome.in_words)
        return
    click.echo(f"{outcome.in_words}. To go on: {shlex.join(['sweep', *sys.argv[1:]])}")
    with contextlib.suppress(InputError, Damaged):
        print_checkpoints(status(outcome.store))
