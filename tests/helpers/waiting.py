"""Waiting in tests ends by progress, on a machine of any speed; a limit is there to end a hang."""

import contextlib
import re
import signal
import time

HANG = 900.0  # seconds that nothing which still makes progress takes, on a machine that others use


def until(condition):
    """Wait until a condition gives something true, and return that.

    Looking takes a quarter of a processor at most: what it waits for needs them.
    """
    end = time.monotonic() + HANG
    began = time.process_time()
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(max(0.01, 3.0 * (time.process_time() - began)))
        began = time.process_time()
    return found


def without_progress(errors):
    """The lines on standard error, but for what is said where something takes long."""
    return [line for line in errors.splitlines() if not re.match(" *[0-9]+% |Waiting ", line)]


TURN = 0.03  # seconds: a small part of what is computed meanwhile


def in_turns(groups, condition):
    """Let groups of processes run in short turns until a condition holds, and leave them suspended.

    It is looked at between the turns: however long that takes, they have gone no further then.
    """

    def signal_all(number):
        for group in groups:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                group.signal_all(number)

    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        signal_all(signal.SIGCONT)
        time.sleep(TURN)
        signal_all(signal.SIGSTOP)
