"""What is shown of a run while it is computed: its progress, and who shows it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from integrators.html import html_text
from sweep.text import count_with_noun, format_duration

if TYPE_CHECKING:
    from sweep.campaign.plan import ExperimentPlan
    from sweep.campaign.worker.task import Receipt, Task
    from sweep.store.diff import Entry

SHOWN_SECONDS = 0.1  # between two texts, at least


class Watcher:
    """Callbacks of `sweep.run`, with its progress; a subclass shows what it overrides."""

    def compared(self, entries: Sequence[Entry]) -> None:
        """The study was compared with its store: an `Entry` for each experiment."""

    def planned(self, plans: Sequence[ExperimentPlan], tasks: int, workers: int) -> None:
        """All experiments are planned, as so many tasks for so many workers."""

    def said(self, text: str) -> None:
        """A line of text: what the run waits for, a warning, or that it stops, and why."""

    def progressed(self, text: str, share: float) -> None:
        """What is measured, compiled or computed now, and what share of it is done."""

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
    seconds_left : float
        NaN as long as that is not known.
    running : sequence of Task
    """

    def __init__(self, runs: int) -> None:
        self.runs, self.done = runs, 0
        self.expected, self.seconds_left = 0.0, math.nan
        self.running: Sequence[Task] = ()
        self._past = 0.0
        self._began = self._shown = time.monotonic()

    def note_receipt(self, task: Task, receipt: Receipt) -> None:
        """Count the runs that a task has committed."""
        self.done += receipt.runs
        self._past += task.cost if receipt.whole else 0.0

    @property
    def share(self) -> float:
        """Share of the expected CPU time that is done."""
        return min(self._past / self.expected, 1.0) if self.expected else 0.0

    def is_due(self) -> bool:
        """Whether it is to be shown once more: that was a while ago, or all is done."""
        due = time.monotonic() >= self._shown + SHOWN_SECONDS or self.done >= self.runs
        self._shown = time.monotonic() if due else self._shown
        return due

    def __str__(self) -> str:
        what = f"running {self.running[0].experiment}: " if self.running else ""
        rate = self.done / (time.monotonic() - self._began)
        text = f"of the CPU time; {what}{self.done:,}/{self.runs:,} runs, {rate:.3g}/s"
        known = not math.isnan(self.seconds_left)
        return text + f", {format_duration(self.seconds_left)} left" * known

    @property
    def in_the_end(self) -> str:
        """How many runs were done, and how long they took."""
        took = format_duration(time.monotonic() - self._began)
        return f"{self.done:,} of {self.runs:,} runs in {took}"


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows what is displayed."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookWatcher(Watcher):
    """Shows the progress as one output of a cell: a bar and a text, which are updated.

    By the display of IPython, since `rich` needs widgets there, which few installations have.
    """

    def __init__(self) -> None:
        self._output: Any = None

    def compared(self, entries: Sequence[Entry]) -> None:
        """Show how many runs are planned."""
        if runs := sum(int(entry.pending.sum()) for entry in entries):
            self.said(f"Planning {count_with_noun(runs, 'run')}")

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
