"""Many Dask workers on one machine whose tasks only sleep, and what the others use meanwhile.

The planner, the coordinator and the scheduler are the real ones, each in a process of its own.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
import threading
import time

import numpy as np
import psutil
from disasters import HERE, PROGRAMS, Group

from sweep.store.store import Store

PROCESSES = 4  # that hold the workers
UNITS_A_TASK = 4
MARGIN = 0.95  # of the seconds asked for: the pilot measures the cost again
LOG = "GEOSWEEP_TASKS_LOG"
SAMPLE_SECONDS = 0.5
QUIET = {  # of what workers look at of themselves, which for so many is more than there are cores
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "2s",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "10s",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
}
PATIENCE = 1200.0  # seconds for one study
STUDY = """
format = 1
name = "{name}"
[[experiment]]
name = "ensemble"
system = "spherical_pendulum_chain"
integrators = ["variational"]
step_size = [1e-3]
initial_condition = {{ around = "lee", random = {starts}, spread = 1e-2, seed = 1 }}
duration = {duration}
samples = 10
record = ["energy"]
statistics = "none"
"""

# --- what runs in processes of its own -------------------------------------------------------


def slept(task):
    """In the place of `compute_task`: sleeps as long as the task should."""
    from distributed import get_worker

    from sweep.campaign.worker.task import Receipt

    began = time.monotonic()  # one clock for all processes of a host
    time.sleep(task.cost)
    ended = time.monotonic()
    with open(os.environ[LOG], "a") as log:  # at once, being short
        log.write(f"{get_worker().name} {began} {ended}\n")
    return Receipt(task.experiment, len(task.rows), 0, ended - began)


def slept_and_reported(task, session):
    """In the place of `hand_out.compute_and_report`, which is sent to workers by name."""
    from sweep.campaign import hand_out

    hand_out.report(slept(task), session)


def serve(address, first, count, folder):
    """Workers `first` to `first + count` of the scheduler at `address`, until they are killed."""
    from distributed import Worker

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


def coordinate(study, store, address, seconds, max_time=None):
    """Run a study whose tasks sleep; prints when its work began and ended, and what was planned."""
    from sweep.campaign import hand_out
    from sweep.campaign import plan as planning
    from sweep.campaign import run as runner
    from sweep.campaign.watch import Watcher
    from sweep.store.studies import load_study_file

    planning.MOST_TASK = seconds
    planning.LEAST_TASK = min(planning.LEAST_TASK, seconds)
    assert callable(hand_out.compute_and_report)  # or something else is to be replaced
    hand_out.compute_and_report = slept_and_reported
    handed_out = runner.hand_out

    def hand_out_and_note(*arguments):
        clock.began_at = clock.began_at or time.monotonic()
        handed_out(*arguments)

    runner.hand_out = hand_out_and_note

    class Clock(Watcher):
        began_at = ended_at = tasks = files = 0

        def planned(self, plans, tasks, workers):
            self.tasks, self.files = tasks, sum(plan.files for plan in plans)

        def ended(self, text, share):
            self.ended_at = time.monotonic()

    clock = Clock()
    runner.run(load_study_file(study), store, scheduler=address, max_time=max_time, watcher=clock)
    print(json.dumps(vars(clock)))


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
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        try:
            own = ("--host", "127.0.0.1", "--port", port, "--no-dashboard")
            self.scheduler = self._start(PROGRAMS / "dask", "scheduler", *own)
            with Client(self.address, timeout=60) as client:
                self.alone = resident(self.scheduler)
                for first, stop in _shares(self.workers, min(PROCESSES, self.workers)):
                    own = called("serve", self.address, first, stop - first, str(self.folder))
                    self._start(*own, **QUIET)
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

    def _start(self, *arguments, **environment):
        environment |= self._environment
        self._groups.append(Group(*arguments, log=self.folder / "dask.log", **environment))
        return self._groups[-1]

    @property
    def _environment(self):
        path = os.pathsep.join([str(HERE), str(HERE.parents[1])])
        return {"PYTHONPATH": path, LOG: str(self.log)}

    def run(self, name, seconds, rounds, units, max_time=None):
        """Run a study of tasks of so many seconds; an `Observed`."""
        unit = seconds / units
        runs, duration = _sized(self.folder, MARGIN * unit, self.workers * rounds * units)
        study = written(self.folder, name, runs, duration)
        return self.coordinate(study, seconds, max_time)

    def coordinate(self, study, seconds, max_time=None):
        """Run a study whose tasks take so long at most; an `Observed`."""
        self.log.write_bytes(b"")
        output, store = study.with_suffix(".log"), str(study.with_suffix(".zarr"))
        own = (str(study), store, self.address, seconds, max_time)
        coordinator = Group(*called("coordinate", *own), log=output, **self._environment)
        self._groups.append(coordinator)
        with Meters(scheduler=self.scheduler, coordinator=coordinator) as meters:
            code = coordinator.wait(PATIENCE)
        if code:
            raise RuntimeError(f"the coordinator ended with {code}: {output.read_text()[-2000:]}")
        said = json.loads(output.read_text().splitlines()[-1])
        return Observed(np.loadtxt(self.log, ndmin=2), meters, said, self.workers)


def resident(process):
    """MB of memory that a process has."""
    return psutil.Process(process.pid).memory_info().rss / 2**20


def _shares(count, parts):
    """Bounds of so many about equal parts of a count."""
    ends = [round(i * count / parts) for i in range(parts + 1)]
    return zip(ends[:-1], ends[1:], strict=True)


def written(folder, name, starts, duration):
    """A study file."""
    study = folder / f"{name}.toml"
    study.write_text(STUDY.format(name=name, starts=starts, duration=duration))
    return study


def _sized(folder, unit_seconds, units):
    """Number of runs, and their duration, for units of so many seconds by the cost model."""
    from integrators.compiler.lanes import WIDTH
    from sweep.campaign.plan import plan_each
    from sweep.store import diff
    from sweep.store.studies import load_study_file

    costs = []
    for duration in (100.0, 100.0, 100.0):
        study = written(folder, "sizing", 8, duration)
        (plan,) = plan_each(
            diff.diff_store_against_study(
                Store.at(study.with_suffix(".zarr")), load_study_file(study)
            )
        )
        costs.append(float(plan.until[-1] / plan.batches.size.sum()) / duration)
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
    said : dict
        By the coordinator.
    workers : int
    """

    def __init__(self, tasks, meters, said, workers):
        self.tasks, self.meters, self.said, self._workers = tasks, meters, said, workers
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
        """When work began and ended."""
        return self.said["began_at"], self.said["ended_at"]

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
