"""A line of progress, redrawn on a terminal, and printed now and then elsewhere."""

import shutil
import sys
import time
from collections.abc import Callable
from typing import Self

from sweep.cli.streams import raw_terminal_stream
from sweep.text import escape_control_characters

REDRAW_SECONDS = 0.1  # between two lines on a terminal, at least
# Elsewhere a line is printed after so many seconds, or sooner with that much more work done.
PRINT_SECONDS, SOONEST_PRINT_SECONDS, PRINT_SHARE = 10.0, 2.0, 0.05
BAR_WIDTH = 20  # characters


class StatusLine:
    """A line of progress on standard error; a context manager, which closes it at the end.

    Parameters
    ----------
    clock : callable, optional
        Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._stream = clock, sys.stderr
        self._terminal = sys.stderr.isatty()
        self._shown, self._share = clock(), 0.0
        self._is_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def show(self, text: str, share: float | None = None, at_once: bool = False) -> None:
        """Show a text and the share of the work that is done, unless the last line is too recent.

        Parameters
        ----------
        text : str
        share : float, optional
            From 0 to 1.
        at_once : bool
            Redraw the line on a terminal however recent the last one is.
        """
        now = self._clock()
        passed = now - self._shown
        if self._terminal:
            if not (at_once or passed >= REDRAW_SECONDS):
                return
        elif passed < PRINT_SECONDS:
            has_advanced = (share or 0.0) >= self._share + PRINT_SHARE
            if passed < SOONEST_PRINT_SECONDS or not has_advanced:
                return
        self._shown, self._share = now, share or 0.0
        text = escape_control_characters(text)
        if share is not None:
            text = f"{share:4.0%} {text}"
        if not self._terminal:
            print(text, file=self._stream, flush=True)
            return
        if share is not None:
            full = round(BAR_WIDTH * min(share, 1.0))
            text = f"[{'#' * full}{'-' * (BAR_WIDTH - full)}] {text}"
        stream = raw_terminal_stream(self._stream)
        stream.write(f"\r\x1b[2K{text[: shutil.get_terminal_size().columns - 1]}")
        stream.flush()
        self._is_drawn = True

    def close(self) -> None:
        """Erase the line from a terminal, so that others can be printed."""
        if self._is_drawn:
            stream = raw_terminal_stream(self._stream)
            stream.write("\r\x1b[2K")
            stream.flush()
            self._is_drawn = False
