"""Many Dask workers on one machine whose tasks only sleep, and what the others use meanwhile.

The scheduler and the coordinator, which is `sweep run`, are the real ones, each in a process of its
own. Studies are planned as tasks of `PLANNED_SECONDS`, of which workers sleep a share.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
from disasters import Group, start_scheduler
from reporting import HERE, PROGRAMS, module_path, write_study

PROCESSES = 4  # that hold the workers
UNITS_A_TASK = 4
PLANNED_SECONDS = 30.0  # of a task, the most that plans make
MARGIN = 0.95  # of these: a run measures the cost again
LOG = "GEOSWEEP_TASKS_LOG"  # beside it a file has the share of its time that a task sleeps
SAMPLE_SECONDS = 0.5
QUIET = {  # of what workers look at of themselves, which for so many is more than there are cores
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "2s",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "10s",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
}
PATIENCE = 1200.0  # seconds for one study
INCOMPLETE = 4  # exit code

# --- what runs in processes of its own -------------------------------------------------------


def slept(task, session):
    """In the place of `compute_task`: sleeps a share of the time that the task should take."""
    from distributed import get_worker

    from sweep.campaign.worker import compute

    began = time.monotonic()  # one clock for all processes of a host
    time.sleep(task.cost * float(_share_file(os.environ[LOG]).read_text()))
    ended = time.monotonic()
    with open(os.environ[LOG], "a") as log:  # at once, being short
        log.write(f"{get_worker().name} {began} {ended}\n")
    return compute.Receipt(len(task.rows), ended - began)


def _share_file(log):
    return Path(log).with_suffix(".share")


def serve(address, first, count, folder):
    """Workers `first` to `first + count` of the scheduler at `address`, until they are killed."""
    from distributed import Worker

    from sweep.campaign.worker import compute

    assert callable(compute.compute_task)  # or something else is to be replaced
    compute.compute_task = slept

    async def all_of_them():
        made = [
            Worker(address, nthreads=1, memory_limit=0, name=str(i), local_directory=folder)
            for i in range(first, first + count)
        ]
        async with contextlib.AsyncExitStack() as stack:
            for worker in made:
                await stack.enter_async_context(worker)
            await asyncio.gather(*(worker.finished() for worker in made))

    asyncio.run(all_of_them())


def called(function, *arguments):
    """The command of a process that calls one of the functions above, with JSON's values."""
    return sys.executable, "-c", (
        f"import json, sys, crowd; "
        f"crowd.{function}(*json.loads({json.dumps(arguments)!r}))"
    )  # fmt: skip


# --- the cluster and what is looked at -------------------------------------------------------


class Crowd:
    """A scheduler and many workers that sleep; a context manager.

    Parameters
    ----------
    folder : Path
        New; for logs.
    workers : int
    """

    def __init__(self, folder, workers):
        self.folder, self.workers, self._groups = folder, workers, []

    def __enter__(self):
        from distributed import Client

        self.folder.mkdir()
        self.scheduler, self.address = start_scheduler(self._dask_log, **self._environment)
        self._groups.append(self.scheduler)
        try:
            with Client(self.address, timeout=60) as client:
                self.alone = resident(self.scheduler)
                for first, stop in _shares(self.workers, min(PROCESSES, self.workers)):
                    own = called("serve", self.address, first, stop - first, str(self.folder))
                    group = Group(*own, log=self._dask_log, **QUIET, **self._environment)
                    self._groups.append(group)
                client.wait_for_workers(self.workers, timeout=180)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        for group in reversed(self._groups):
            group.kill_all()

    @property
    def log(self):
        """The file to which workers write when their tasks began and ended."""
        return self.folder / "tasks.log"

    @property
    def _dask_log(self):
        return self.folder / "dask.log"

    @property
    def _environment(self):
        return {"PYTHONPATH": module_path(HERE), LOG: str(self.log)}

    def run(self, name, seconds, rounds, units, max_time=None):
        """Run a study of tasks of so many seconds; an `Observed`."""
        count, unit = self.workers * rounds * units, MARGIN * PLANNED_SECONDS / units
        runs, duration = _sized(self.folder, unit, count)
        study = written(self.folder, name, runs, duration)
        return self.coordinate(study, seconds / PLANNED_SECONDS, max_time)

    def coordinate(self, study, share=1.0, max_time=None):
        """Run a study whose tasks take a share of the time that they should; an `Observed`."""
        self.log.write_bytes(b"")
        _share_file(self.log).write_text(f"{share}")
        output, store = study.with_suffix(".log"), study.with_suffix(".zarr")
        command = [PROGRAMS / "sweep", "run", study, store, "--scheduler", self.address]
        command += ["--no-summary", *(["--max-time", max_time] if max_time else [])]
        coordinator = Group(*command, log=output, **self._environment)
        self._groups.append(coordinator)
        with Meters(scheduler=self.scheduler, coordinator=coordinator) as meters:
            code = coordinator.wait(PATIENCE)
        if code != INCOMPLETE:  # nothing is in the store of what was only slept
            raise RuntimeError(f"the coordinator ended with {code}: {output.read_text()[-2000:]}")
        return Observed(np.loadtxt(self.log, ndmin=2), meters, self.workers)


def resident(process):
    """MB of memory that a process has."""
    return psutil.Process(process.pid).memory_info().rss / 2**20


def _shares(count, parts):
    """Bounds of so many about equal parts of a count."""
    ends = [round(i * count / parts) for i in range(parts + 1)]
    return zip(ends[:-1], ends[1:], strict=True)


def written(folder, name, starts, duration):
    """A study file."""
    more = 'record = ["energy"]\nstatistics = "none"'
    keys = {"duration": duration, "samples": 10, "steps": (1e-3,)}
    return write_study(folder, name, starts, **keys, more=more)


def _sized(folder, unit_seconds, units):
    """Number of runs, and their duration, for units of so many seconds by what plans say."""
    from integrators.compiler.lanes import WIDTH

    duration, costs = 100.0, []
    for _ in range(3):
        study = written(folder, "sizing", WIDTH, duration)
        command = [PROGRAMS / "sweep", "plan", study, study.with_suffix(".zarr"), "--json"]
        planned = subprocess.run(command, check=True, capture_output=True, text=True)
        costs.append(json.loads(planned.stdout)["cpu_seconds"] / WIDTH / duration)
    return units * WIDTH, float(max(10, round(unit_seconds / WIDTH / np.median(costs), -1)))


class Meters:
    """CPU time and memory of processes, looked up now and then; a context manager.

    Attributes
    ----------
    since : float
        When it began to look.
    """

    def __init__(self, **processes):
        self.since = time.monotonic()
        self._looked = {name: psutil.Process(own.pid) for name, own in processes.items()}
        self._rows = {name: [] for name in processes}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._end.set()
        self._thread.join()

    def _look(self):
        while not self._end.wait(SAMPLE_SECONDS):
            for name, process in self._looked.items():
                with contextlib.suppress(psutil.Error):
                    used, memory = process.cpu_times(), process.memory_info().rss / 2**20
                    row = time.monotonic(), used.user + used.system, memory
                    self._rows[name].append(row)

    def cpu(self, name, began, ended):
        """Share of a core that a process used between two times."""
        at, used, _ = np.transpose(self._rows[name])
        first, last = np.interp([began, ended], at, used)
        return (last - first) / (ended - began)

    def megabytes(self, name):
        """The most memory of a process."""
        return max(row[2] for row in self._rows[name])


class Observed:
    """What a study's tasks did.

    Parameters
    ----------
    tasks : ndarray
        Rows of worker, begin, end.
    meters : Meters
    workers : int
    """

    def __init__(self, tasks, meters, workers):
        self.tasks, self.meters, self._workers = tasks, meters, workers
        self.took = tasks[:, 2] - tasks[:, 1]
        self.began, self.ended = self._steady()

    def _steady(self):
        """From when all have work to when one has none, or tasks become shorter, at the end."""
        worker, begin, end = self.tasks.T
        mine = [worker == i for i in np.unique(worker)]
        first = max(begin[own].min() for own in mine)
        last = min(end[own].max() for own in mine)
        short = begin[self.took < 0.7 * np.median(self.took[begin <= first])]
        return first, min([last, *short])

    @property
    def length(self):
        """Seconds of the steady part."""
        return self.ended - self.began

    @property
    def all(self):
        """When the first task began, and the last one ended."""
        _, begin, end = self.tasks.T
        return begin.min(), end.max()

    @property
    def rate(self):
        """Tasks that ended a second, in the steady part."""
        _, _, end = self.tasks.T
        return np.sum((end > self.began) & (end <= self.ended)) / self.length

    @property
    def seconds(self):
        """Of a task, in the steady part."""
        _, begin, _ = self.tasks.T
        return float(np.mean(self.took[begin < self.ended]))

    def busy(self, whole=False):
        """Share of the workers' time that their tasks had, in the steady part or in all of it."""
        began, ended = self.all if whole else (self.began, self.ended)
        _, begin, end = self.tasks.T
        inside = np.clip(end, began, ended) - np.clip(begin, began, ended)
        return inside.sum() / (self._workers * (ended - began))

    def cpu(self, name):
        """Share of a core of a process, in the steady part."""
        return self.meters.cpu(name, self.began, self.ended)
