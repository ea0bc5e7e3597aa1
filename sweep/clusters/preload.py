"""Loaded into each worker of a local cluster as it starts (a Dask preload).

Ctrl-C reaches every process of the terminal's group, and SIGTERM often all of a batch job; a
worker must continue until its task has committed, since the coordinator shuts down gracefully. The
workers of a local cluster start with these signals blocked, so that none ends them before their
handlers are set.
"""

import os
import signal
from types import FrameType

from distributed import Worker

from sweep.clusters.shutdown import ENDING


def dask_setup(worker: Worker) -> None:
    """Called by Dask in the worker's main thread."""

    def terminated(number: int, frame: FrameType | None) -> None:
        if worker.state.executing_count == 0:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # forgets one that came while it started
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    signal.signal(signal.SIGTERM, terminated)
