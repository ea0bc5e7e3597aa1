"""SIGTERM to the tests' own process, in which a command runs."""

import contextlib
import os
import signal
import threading

from waiting import until


@contextlib.contextmanager
def sigterm_when(condition):
    """Within this, SIGTERM arrives as soon as a condition holds; nothing else handles it."""
    over, before = threading.Event(), signal.signal(signal.SIGTERM, lambda *_: None)

    def send():
        try:
            until(lambda: over.is_set() or condition())
        finally:
            if not over.is_set():
                os.kill(os.getpid(), signal.SIGTERM)

    watching = threading.Thread(target=send)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
        signal.signal(signal.SIGTERM, before)
