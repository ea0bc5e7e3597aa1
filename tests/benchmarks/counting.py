"""A Dask preload of the benchmarks: workers write down the steps that they begin.

Each call of a stepping loop is a line of ``pid first last steps`` in the file that the environment
names: the steps between which it goes, and their number, those of all runs of a batch together.
Another file has the pid of each worker that has come up. Steps are counted where `integrators`
take them, whatever `sweep` makes of them.
"""

import inspect
import os

import numpy as np

import sweep
from integrators.stepping import batch

LOG, PIDS = "GEOSWEEP_STEPS_LOG", "GEOSWEEP_PIDS_LOG"


def dask_setup(worker):
    """Called by Dask in a worker, which is up as soon as it has loaded what tasks need."""
    assert sweep.run
    _append(os.environ[PIDS], f"{os.getpid()}\n")


def _append(path, line):
    """Write a line at once, so that those of two processes do not mix."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, line.encode())
    os.close(file)


def counted(run_states):
    """`batch.run_states`, which writes down its steps before it takes them."""
    signature = inspect.signature(run_states)

    def run(*arguments, **options):
        call = signature.bind(*arguments, **options)
        call.apply_defaults()
        first, last, runs = _steps(**call.arguments)
        _append(os.environ[LOG], f"{os.getpid()} {first} {last} {(last - first) * runs}\n")
        return run_states(*arguments, **options)

    run.counts = True
    return run


def _steps(problem, initial, steps, samples, checkpoints, most, **others):
    """The steps between which a call goes, and its number of runs."""
    first = within = 0
    runs = len(initial)
    if checkpoints is not None:
        runs = len(checkpoints)
        parts = problem.layout.parts(np.asarray(checkpoints)[:1])
        first, within = int(parts["step"].flat[0]), int(parts["within"].flat[0])
    last = first - within + int(np.full(samples, steps).sum())
    return first, last if most is None else min(last, first + most), runs


if LOG in os.environ and not hasattr(batch.run_states, "counts"):  # Dask loads it twice
    batch.run_states = counted(batch.run_states)
