"""Loaded into each worker of a local cluster as it starts (a Dask preload).

Ctrl-C reaches every process of the terminal's group; a worker must go on until its task has
committed, since the coordinator drains. What tasks need is imported here, while the coordinator
still plans.
"""

import signal

import scipy.integrate  # noqa: F401

import sweep.tasks  # noqa: F401


def dask_setup(worker):
    """Called by Dask in the worker's main thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
