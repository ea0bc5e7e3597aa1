"""A Dask preload of the benchmarks: a worker suspends itself in its first commit.

It has seen that it may write, and has not written: what it writes when it goes on is too late.
"""

import os
import signal

from sweep import storage

STOP = "GEOSWEEP_SUSPENDS"


def _suspended(*arguments):
    storage.write_rows = _write_rows
    os.kill(os.getpid(), signal.SIGSTOP)
    return _write_rows(*arguments)


if STOP in os.environ and storage.write_rows is not _suspended:  # Dask loads it twice
    _write_rows = storage.write_rows
    if _write_rows.__module__ == "sweep.storage":
        storage.write_rows = _suspended
