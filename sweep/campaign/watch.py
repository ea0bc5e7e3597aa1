"""The progress of a run while it is computed, and the classes that show it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from integrators.html import html_text
from sweep.text import count_with_noun, format_duration

if TYPE_CHECKING:
    from sweep.campaign.plan import ExperimentPlan
    from sweep.campaign.worker.task import Receipt, Task
    from sweep.store.diff import ExperimentDiff
    from sweep.store.progress import Progress as StoreProgress


class Watcher:
    """Callbacks of `sweep.run`, with its progress; a subclass shows what it overrides."""

    def compared(self, entries: Sequence[ExperimentDiff]) -> None:
        """The study was compared with its store: an `ExperimentDiff` for each experiment."""

    def planned(self, plans: Sequence[ExperimentPlan], tasks: int, workers: int) -> None:
        """All experiments are planned, as so many tasks for so many workers."""

    def resumed(self, progresses: Sequence[StoreProgress]) -> None:
        """All is planned: what the store had before, as a `Progress` for each experiment."""

    def said(self, text: str) -> None:
        """A line of text: what the run waits for, a warning, or why it stops."""

    def progressed(self, text: str, share: float) -> None:
        """The present measurement, compilation or computation, and the share of it that is done."""

    def ended(self, text: str, share: float) -> None:
        """The last task has ended; `share` of the runs is done."""


class Progress:
    """Progress of the computation of a run; its text says how many runs are done.

    Parameters
    ----------
    runs : int
        Number of runs to compute.

    Attributes
    ----------
    expected : float
        CPU seconds of all tasks that are planned.
    planned : bool
        Whether these are all tasks of the run.
    running : sequence of Task
    """

    def __init__(self, runs: int) -> None:
        self.runs, self.done, self.expected, self.planned = runs, 0, 0.0, False
        self.running: Sequence[Task] = ()
        self._past = self._took = 0.0  # expected and real seconds of finished tasks
        self._began = self._received = time.monotonic()

    def note_receipt(self, task: Task, receipt: Receipt) -> None:
        """Count the runs that a task has committed."""
        self.done += receipt.runs
        if receipt.whole:
            self._past += task.cost
            self._took += receipt.seconds
        self._received = time.monotonic()

    @property
    def slowness(self) -> float:
        """Ratio of the seconds that tasks took to the expected ones."""
        return self._took / self._past if self._past else 1.0

    @property
    def share(self) -> float:
        """Finished share of the expected CPU time; of the runs until all are planned."""
        if not self.planned:
            return self.done / self.runs
        return min(self._past / self.expected, 1.0) if self.expected else 0.0

    def __str__(self) -> str:
        now, what, left = time.monotonic(), "", ""
        if self.running:
            what = f"running {self.running[0].experiment}: "
        if self.running and self.planned and self._past:  # else the rate is not known
            whole = self.slowness * (self.expected - self._past) / len(self.running)
            seconds = whole - (now - self._received)
            left = f", {format_duration(seconds)} left" if seconds > 0.0 else ""  # or longer
        rate = self.done / (now - self._began)
        of = "of the CPU time" if self.planned else "of the runs"
        return f"{of}; {what}{self.done:,}/{self.runs:,} runs, {rate:.3g}/s{left}"

    @property
    def in_the_end(self) -> str:
        """How many runs were done, and how long they took."""
        took = format_duration(time.monotonic() - self._began)
        return f"{self.done:,} of {self.runs:,} runs in {took}"


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookWatcher(Watcher):
    """Shows the progress as one output of a cell: a bar and a text, which are updated.

    It uses the display of IPython, since `rich` needs widgets, which few installations have.
    """

    def __init__(self) -> None:
        self._output: Any = None

    def planned(self, plans: Sequence[ExperimentPlan], tasks: int, workers: int) -> None:
        """Show the numbers of tasks and workers."""
        self.said(f"{count_with_noun(tasks, 'task')} for {count_with_noun(workers, 'worker')}")

    def said(self, text: str) -> None:
        """Show a text."""
        self._show(text.strip(), html_text(text.strip()))

    def progressed(self, text: str, share: float) -> None:
        """Show a text and a bar."""
        bar = f"<progress value='{share:.3f}' style='width:20em'></progress>"
        self._show(text, bar + html_text(text))

    def ended(self, text: str, share: float) -> None:
        """Show how many runs are done, and how long they took."""
        self.progressed(text, share)

    def _show(self, text: str, page: str) -> None:
        from IPython.display import display

        shown = {"text/html": page, "text/plain": text}
        if self._output is None:
            self._output = display(shown, raw=True, display_id=True)
        else:
            self._output.update(shown, raw=True)
