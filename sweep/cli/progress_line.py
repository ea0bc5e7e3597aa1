"""A progress line: redrawn by `rich` on a terminal, printed at intervals elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from sweep.cli.streams import is_terminal, rich_console
from sweep.text import escape_control_characters

if TYPE_CHECKING:
    from rich.progress import Progress

# Elsewhere a line is printed every PRINT_SECONDS; or after SOONEST_PRINT_SECONDS, if the share of
# work done has grown by PRINT_SHARE.
PRINT_SECONDS, SOONEST_PRINT_SECONDS, PRINT_SHARE = 10.0, 2.0, 0.05
BAR_WIDTH = 20  # characters


class ProgressLine:
    """A progress line on standard error; a context manager that closes it.

    Parameters
    ----------
    only_on_terminal : bool
        Print nothing if standard error is not a terminal.
    clock : callable, optional
        Returns the time in seconds.
    """

    def __init__(
        self, only_on_terminal: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._only_on_terminal, self._clock = only_on_terminal, clock
        self._printed, self._share = clock(), 0.0
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def show(self, text: str, share: float) -> None:
        """Show a text and the share of the work that is done, from 0 to 1."""
        text = escape_control_characters(text)
        if is_terminal(sys.stderr):
            self._bar = bar = self._bar or _started_bar()  # another thread may close it meanwhile
            bar.update(bar.task_ids[0], description=text, completed=share, refresh=True)
        elif not self._only_on_terminal and self._is_due(share):
            self._printed, self._share = self._clock(), share
            print(f"{share:4.0%} {text}", file=sys.stderr, flush=True)

    def _is_due(self, share: float) -> bool:
        passed = self._clock() - self._printed
        advanced = share >= self._share + PRINT_SHARE
        return passed >= (SOONEST_PRINT_SECONDS if advanced else PRINT_SECONDS)

    def close(self) -> None:
        """Erase the line from a terminal, so that other lines can be printed."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()


def _started_bar() -> "Progress":
    """A started bar of `rich` on standard error, with one task; stopping erases it."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.table import Column

    console = rich_console(sys.stderr)
    bars = [BarColumn(BAR_WIDTH)] if console.width >= 3 * BAR_WIDTH else []
    rest = Column(ratio=1, no_wrap=True)  # one line, cut at the width of the terminal
    text = TextColumn("{task.description}", markup=False, table_column=rest)
    bar = Progress(
        *bars, TaskProgressColumn(), text, console=console,
        transient=True, redirect_stdout=False, redirect_stderr=False, expand=True,
    )  # fmt: skip
    bar.add_task("", total=1.0)
    bar.start()
    return bar
