"""Ending early in order: on Ctrl-C, on SIGTERM, when the time is up, when the lock is lost."""

import math
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Self

from sweep.errors import Interrupted

ENDING = (signal.SIGINT, signal.SIGTERM)
CTRL_C, TERMINATED, TIME_IS_UP = "interrupted", "SIGTERM", "the time is up"
ENDING_SECONDS = 6.0  # of a time limit, for segments to end and the store to be closed
MOST_ENDING = 0.1  # of a short one


class StopRequest:
    """Turns the first signal, or the end of the time, into a request to stop feeding.

    Within ``with StopRequest() as stop:`` the first Ctrl-C or SIGTERM only sets `reason`; a second
    one raises KeyboardInterrupt.

    Parameters
    ----------
    on_request : callable
        Called once with the reason, in a thread of its own.
    max_time : float, optional
        Seconds from now until all should have ended; a part of them is kept for the ending.

    Attributes
    ----------
    reason : str
        Why nothing more is to begin; empty until the end is asked for.
    deadline : float
        Of `time.monotonic`, for tasks.
    """

    def __init__(
        self,
        on_request: Callable[[str], object] = lambda reason: None,
        max_time: float | None = None,
    ) -> None:
        self.reason = ""
        self.deadline = math.inf
        if max_time is not None:
            ending = min(ENDING_SECONDS, MOST_ENDING * max_time)
            self.deadline = time.monotonic() + max_time - ending
        self._on_request = on_request
        self._stop: Callable[[], object] = lambda: None
        self._wake = threading.Event()

    def __enter__(self) -> Self:
        self._before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                self._before[number] = signal.signal(number, self._request_end_on_signal)
        self._thread = threading.Thread(target=self._wait_for_end, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._wake.set()
        self._thread.join()
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def request(self, reason: str) -> None:
        """Ask for the end; the first reason counts."""
        # Signal handlers come here: nothing may be done that waits for a lock of others.
        self.reason = self.reason or reason
        self._wake.set()

    def when_requested(self, stop: Callable[[], object]) -> None:
        """Call `stop` as soon as the end is asked for, instead of what was to be called before."""
        self._stop = stop
        if self.reason:
            stop()

    def check(self) -> None:
        """Raise, at a place of our choice, if the end was asked for.

        Raises
        ------
        KeyboardInterrupt
            If it was by Ctrl-C.
        Interrupted
            For any other reason.
        """
        if self.reason == CTRL_C:
            raise KeyboardInterrupt
        if self.reason:
            raise Interrupted(self.reason)

    def _request_end_on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.reason:
            raise KeyboardInterrupt
        self.request(CTRL_C if number == signal.SIGINT else TERMINATED)

    def _wait_for_end(self) -> None:
        left = self.deadline - time.monotonic()
        if not self._wake.wait(min(max(left, 0.0), threading.TIMEOUT_MAX)):
            self.request(TIME_IS_UP)
        if self.reason:
            self._on_request(self.reason)
            self._stop()


def process_age() -> float:
    """Seconds since this process started, on Linux; elsewhere 0."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        born = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # since the boot
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - born)
    except (OSError, AttributeError, ValueError):
        return 0.0
