"""Graceful shutdown: on Ctrl-C, on SIGTERM, at the time limit, or when the lease is lost."""

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
ENDING_SECONDS = 6.0  # kept of a time limit, for segments to end and the store to be closed
MOST_ENDING = 0.1  # largest fraction of a time limit that is kept


class StopRequest:
    """Turns the first signal, or the time limit, into a request to hand out no further tasks.

    Within ``with StopRequest() as stop:`` the first Ctrl-C or SIGTERM only sets `reason`; a second
    one raises KeyboardInterrupt.

    Parameters
    ----------
    on_request : callable
        Called once with the reason, in a separate thread.
    max_time : float, optional
        Seconds from now until all should have ended, including the time of the shutdown itself.

    Attributes
    ----------
    reason : str
        Reason of the request; empty until there is one.
    deadline : float
        Time by `time.monotonic` until which tasks may run.
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
        """Request a stop; the first reason counts."""
        # Signal handlers call this: it must not wait for a lock that another thread may hold.
        self.reason = self.reason or reason
        self._wake.set()

    def when_requested(self, stop: Callable[[], object]) -> None:
        """Set the function that is called as soon as a stop is requested."""
        self._stop = stop
        if self.reason:
            stop()

    def check(self) -> None:
        """Raise an exception if a stop was requested.

        Raises
        ------
        KeyboardInterrupt
            If the reason is Ctrl-C.
        Interrupted
            If there is any other reason.
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
        born = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # seconds since boot
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - born)
    except (OSError, AttributeError, ValueError):
        return 0.0
