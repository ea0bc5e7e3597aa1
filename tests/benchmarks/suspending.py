"""A Dask preload of the benchmarks: a worker suspends itself in its first commit.

It has seen that it may write, and has not written: what it writes when it goes on is too late.
Then it does not end at once for having lost its scheduler, as one would that writes slowly.
"""

import asyncio
import os
import signal
import sys

STOP = "GEOSWEEP_SUSPENDS"
CLOSES_SECONDS = 20.0
COMMITTED = f"{os.sep}records{os.sep}"  # in the path of all that a worker commits
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def dask_setup(worker):
    """Called by Dask when the worker has loaded all that it needs."""
    if STOP not in os.environ:
        return
    close, has_stopped = worker.close, False

    async def later(*arguments, **options):
        await asyncio.sleep(CLOSES_SECONDS)
        return await close(*arguments, **options)

    def hook(event, arguments):
        nonlocal has_stopped
        if event != "open" or has_stopped:
            return
        path, _, flags = arguments
        if isinstance(flags, int) and flags & WRITING and COMMITTED in str(path):
            has_stopped = True
            os.kill(os.getpid(), signal.SIGSTOP)

    worker.close = later
    sys.addaudithook(hook)
