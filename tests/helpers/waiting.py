"""Waiting in tests ends by progress, on a machine of any speed; a limit is there to end a hang."""

import time

HANG = 900.0  # seconds that nothing which still makes progress takes, on a machine that others use


def until(condition):
    """Wait until a condition gives something true, and return that."""
    end = time.monotonic() + HANG
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
    return found
