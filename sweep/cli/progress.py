"""What a command does now: a line that is written anew on a terminal, and else one now and then."""

import shutil
import sys
import time

from sweep.cli.streams import raw_terminal_stream
from sweep.text import escape_control_characters

OFTEN = 0.1  # seconds between two lines on a terminal, at least
SELDOM, SHARE, LEAST = 10.0, 0.05, 2.0  # elsewhere: seconds, or part of all and the seconds of it
BAR = 20  # characters


class StatusLine:
    """A line on standard error that says what goes on; used as a context manager, or closed.

    Parameters
    ----------
    clock : callable, optional
    """

    def __init__(self, clock=time.monotonic):
        self._clock, self._stream = clock, sys.stderr
        self._terminal = sys.stderr.isatty()
        self._shown, self._share = clock(), 0.0
        self._is_there = False

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def show(self, text, share=None, at_once=False):
        """Show a text, and how large a part of all is done, if it is time to.

        Parameters
        ----------
        text : str
        share : float, optional
            From 0 to 1.
        at_once : bool
            On a terminal, whenever the last one was shown.
        """
        now = self._clock()
        passed = now - self._shown
        if self._terminal:
            if not (at_once or passed >= OFTEN):
                return
        elif passed < SELDOM and not (passed >= LEAST and (share or 0.0) >= self._share + SHARE):
            return
        self._shown, self._share = now, share or 0.0
        text = escape_control_characters(text)
        if share is not None:
            text = f"{share:4.0%} {text}"
        if not self._terminal:
            print(text, file=self._stream, flush=True)
            return
        if share is not None:
            full = round(BAR * min(share, 1.0))
            text = f"[{'#' * full}{'-' * (BAR - full)}] {text}"
        stream = raw_terminal_stream(self._stream)
        stream.write(f"\r\x1b[2K{text[: shutil.get_terminal_size().columns - 1]}")
        stream.flush()
        self._is_there = True

    def close(self):
        """Take the line away, so that others can be printed."""
        if self._is_there:
            stream = raw_terminal_stream(self._stream)
            stream.write("\r\x1b[2K")
            stream.flush()
            self._is_there = False
