"""Waiting in tests ends by progress, on a machine of any speed; a limit is there to end a hang."""

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
