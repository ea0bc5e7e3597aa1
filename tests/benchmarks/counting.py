"""A Dask preload of the benchmarks: workers write down the steps that they begin.

Each segment is a line of ``pid first last steps`` in the file that the environment names: the
samples between which it goes, and its steps, those of all runs of the batch together. Another
file has the pid of each worker that has come up.
"""

import os

from sweep.campaign.worker.trajectory import Integration

LOG, PIDS = "GEOSWEEP_STEPS_LOG", "GEOSWEEP_PIDS_LOG"


def dask_setup(worker):
    """Called by Dask when the worker has loaded all that it needs."""
    _append(os.environ[PIDS], f"{os.getpid()}\n")


def _append(path, line):
    """Write a line at once, so that those of two processes do not mix."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, line.encode())
    os.close(file)


def _counted(self, runs, last, reference=None):
    marks = self.recipe.time_axis.marks
    steps = int(marks[last] - marks[runs.sample]) * runs.steps_per_sample * len(runs.initial)
    _append(os.environ[LOG], f"{os.getpid()} {runs.sample} {last} {steps}\n")
    return self.uncounted(runs, last, reference)


if LOG in os.environ and not hasattr(Integration, "uncounted"):  # Dask loads it twice
    Integration.uncounted, Integration.advance = Integration.advance, _counted
