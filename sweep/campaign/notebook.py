"""Progress of a campaign in a notebook: one output that is updated, not a line for each task."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from integrators.html import html_text
from sweep.text import count_with_noun, format_duration

if TYPE_CHECKING:
    from sweep.campaign.plan import ExperimentPlan, Preparation
    from sweep.campaign.worker.tasks import Receipt, Task
    from sweep.store.diff import Entry

UPDATED = 0.5  # seconds between two updates, at least


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows what is displayed."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookProgress:
    """Shows the callbacks of a `Watcher` as a bar and a line below the cell that runs."""

    def __init__(self) -> None:
        self._output: Any = None
        self._shown = self._began = time.monotonic()
        self._runs = self._done = 0
        self._seconds = self._past = 0.0
        self._left: float | None = None

    def connecting(self, text: str) -> None:
        """Show what the run waits for."""
        self._show(text)

    def compared(self, entries: Sequence[Entry]) -> None:
        """Show how many runs are planned."""
        self._runs = sum(int(entry.pending.sum()) for entry in entries)
        if self._runs:
            self._show(f"Planning {count_with_noun(self._runs, 'run')}")

    def planned(self, plans: Sequence[ExperimentPlan], tasks: int, workers: int) -> None:
        """Show the numbers of tasks and workers."""
        self._show(f"{count_with_noun(tasks, 'task')} for {count_with_noun(workers, 'worker')}")

    def preparing(self, now: Preparation) -> None:
        """Show what is measured, or which kernel compiles for it."""
        if now.kernel or time.monotonic() - self._shown >= UPDATED:
            self._show(str(now), now.done / now.of)

    def compiling(self, workers: int) -> None:
        """Show that workers compile kernels, so that nothing runs yet."""
        self._show(f"Compiling kernels on {count_with_noun(workers, 'worker')}")

    def began(self, runs: int, seconds: float) -> None:
        """Note the number of runs and their expected CPU seconds."""
        self._runs, self._seconds, self._began = runs, seconds, time.monotonic()

    def added(self, seconds: float) -> None:
        """Note the expected CPU seconds of another experiment."""
        self._seconds += seconds

    def running(self, tasks: Sequence[Task], seconds_left: float) -> None:
        """Note the time left."""
        self._left = seconds_left if seconds_left == seconds_left else None  # NaN: not known yet

    def progressed(self, task: Task, receipt: Receipt) -> None:
        """Show the progress, at most once in `UPDATED` seconds."""
        self._done += receipt.runs
        self._past += task.cost if receipt.whole else 0.0
        if time.monotonic() - self._shown >= UPDATED:
            share = min(self._past / self._seconds, 1.0) if self._seconds else None
            self._show(self._in_words(), share)

    def draining(self, reason: str) -> None:
        """Show that the run is stopping, and why."""
        self._show(f"Stopping when running tasks have committed ({reason})")

    def ended(self) -> None:
        """Show how many runs are done, and how long they took."""
        took = format_duration(time.monotonic() - self._began)
        whole = self._done >= self._runs
        self._show(f"{self._done:,} of {self._runs:,} runs in {took}", 1.0 if whole else None)

    def _in_words(self) -> str:
        passed = time.monotonic() - self._began
        left = self._left
        if left is None and self._past:
            left = passed * max(self._seconds / self._past - 1.0, 0.0)
        rate = f"{self._done / passed:.3g}/s" if passed else ""
        ahead = f", {format_duration(left)} left" if left is not None else ""
        return f"{self._done:,} of {self._runs:,} runs, {rate}{ahead}"

    def _show(self, text: str, share: float | None = None) -> None:
        """Replace what is shown by a line, with a bar where the share that is done is known."""
        from IPython.display import display

        bar = (
            "" if share is None else f"<progress value='{share:.3f}' style='width:20em'></progress>"
        )
        shown = {"text/html": bar + html_text(text), "text/plain": text}
        if self._output is None:
            self._output = display(shown, raw=True, display_id=True)
        else:
            self._output.update(shown, raw=True)
        self._shown = time.monotonic()
