"""What scheduler and coordinator cost with many workers, and where that ends.

    python tests/benchmarks/many_workers.py [--part steady|constants|runs] [--workers 200]
                                            [--seconds 30] [--rounds 5] [--json]

A study is planned and run by the real planner and coordinator on a real `dask scheduler`; the
workers are real ones of Dask, many in a process, but their tasks only sleep as long as the cost
model says. ``steady``: CPU of the scheduler and of the coordinator, and how busy the workers are,
while there is work for all: four minutes. ``constants``: the same with shorter tasks, which gives
the CPU time a task costs and a heartbeat, the memory a worker costs, and the most tasks a second:
four minutes. ``runs``: memory and time of a coordinator that has 1e5 and 1e6 runs. ``--quick``
looks whether all this works, with 20 workers and tasks of a second. Needs an idle machine of two
cores or more. Exit code 3: a figure does not hold.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
from disasters import HERE, PROGRAMS, Group, report_parts

MOST_CPU, LEAST_BUSY = 30, 95  # % of a core, % of the workers' time
PROCESSES = 4  # that hold the workers
CHUNKS_A_TASK = 4
MARGIN = 0.9  # of the seconds asked for: the pilot measures the cost again
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


def slept(task, *session):
    """In the place of `sweep.tasks.compute`: sleeps as long as the task should take."""
    from distributed import get_worker

    from sweep.tasks import Receipt

    began = time.monotonic()  # one clock for all processes of a host
    time.sleep(task.cost)
    ended = time.monotonic()
    with open(os.environ[LOG], "a") as log:  # at once, being short
        log.write(f"{get_worker().name} {began} {ended}\n")
    runs = sum(len(chunk.rows) for chunk in task.chunks)
    return Receipt(task.experiment, runs, 0, ended - began)


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


def coordinate(study, store, address, seconds, chunk_seconds, max_time=None):
    """Run a study whose tasks sleep; prints when its work began and ended, and what was planned."""
    from sweep import cluster, planning, runner
    from sweep.study import load

    planning.MOST_TASK = seconds
    planning.LEAST_TASK = min(planning.LEAST_TASK, seconds)
    planning.chunking.CHUNK_SECONDS = chunk_seconds
    assert callable(cluster.compute)  # or something else is to be replaced
    cluster.compute = slept

    class Clock(runner.Watcher):
        began_at = ended_at = tasks = files = 0

        def planned(self, plans, tasks, workers):
            self.tasks, self.files = tasks, sum(plan.files for plan in plans)

        def began(self, runs, seconds):
            self.began_at = time.monotonic()

        def ended(self):
            self.ended_at = time.monotonic()

    clock = Clock()
    runner.run(load(study), store, scheduler=address, max_time=max_time, watcher=clock)
    print(json.dumps(vars(clock)))


def called(function, *arguments):
    """The command of a process that calls one of the functions above, with JSON's values."""
    return sys.executable, "-c", (
        f"import json, sys, many_workers; "
        f"many_workers.{function}(*json.loads({json.dumps(arguments)!r}))"
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
                self.alone = _resident(self.scheduler)
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

    def run(self, name, seconds, rounds, chunks, max_time=None):
        """Run a study of tasks of so many seconds; an `Observed`."""
        chunk = seconds / chunks
        runs, duration = _sized(self.folder, MARGIN * chunk, self.workers * rounds * chunks)
        study = written(self.folder, name, runs, duration)
        self.log.write_bytes(b"")
        output = self.folder / f"{name}.log"
        store = str(study.with_suffix(".zarr"))
        own = called("coordinate", str(study), store, self.address, seconds, chunk, max_time)
        coordinator = Group(*own, log=output, **self._environment)
        self._groups.append(coordinator)
        with Meters(scheduler=self.scheduler, coordinator=coordinator) as meters:
            code = coordinator.wait(PATIENCE)
        if code:
            raise RuntimeError(f"the coordinator ended with {code}: {output.read_text()[-2000:]}")
        said = json.loads(output.read_text().splitlines()[-1])
        return Observed(np.loadtxt(self.log, ndmin=2), meters, said, self.workers)


def _resident(process):
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


def _sized(folder, chunk_seconds, chunks):
    """Number of runs, and their duration, for chunks of so many seconds by the cost model."""
    from integrators.lanes import WIDTH
    from sweep import ledger, planning
    from sweep.study import load

    costs = []
    for duration in (100.0, 100.0, 100.0):
        study = written(folder, "sizing", 8, duration)
        (plan,) = planning.plan_study(ledger.compare(study.with_suffix(".zarr"), load(study)))
        costs.append(float(plan.most_seconds.mean()) / duration)
    own = chunk_seconds - plan.layout.variables * planning.WRITE_SECONDS
    return chunks * WIDTH, float(max(10, round(own / WIDTH / np.median(costs), -1)))


class Meters:
    """CPU time and memory of processes, looked up now and then; a context manager."""

    def __init__(self, **processes):
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
        began, ended = self.began, self.ended
        if whole:
            began, ended = self.said["began_at"], self.said["ended_at"]
        _, begin, end = self.tasks.T
        inside = np.clip(end, began, ended) - np.clip(begin, began, ended)
        return inside.sum() / (self._workers * (ended - began))

    def cpu(self, name):
        """Share of a core of a process, in the steady part."""
        return self.meters.cpu(name, self.began, self.ended)


# --- figures ---------------------------------------------------------------------------------


def percent(what, claim, share, least=False):
    """A row of a share that has a bound."""
    holds = None if claim is None else bool(100 * share >= claim if least else 100 * share <= claim)
    sign = ">=" if least else "<="
    return what, f"{sign} {claim} %" if claim else "", f"{100 * share:.1f} %", holds


def steady(folder, given):
    """Rows about the figures."""
    with Crowd(folder / "steady", given.workers) as crowd:
        found = crowd.run("steady", given.seconds, given.rounds + 3, CHUNKS_A_TASK, given.max_time)
    what = f"{given.workers} workers, tasks of {found.seconds:.1f} s"
    said = found.said
    lengths = f"{found.length:.0f}, {said['ended_at'] - said['began_at']:.0f}"
    return [
        (f"{what}: tasks, files planned", "", f"{said['tasks']}, {said['files']}", None),
        (f"{what}: seconds of the steady part, of all", "", lengths, None),
        (f"{what}: tasks a second", "", f"{found.rate:.2f}", None),
        percent(f"{what}: CPU of the scheduler", MOST_CPU, found.cpu("scheduler")),
        percent(f"{what}: CPU of the coordinator", MOST_CPU, found.cpu("coordinator")),
        percent(f"{what}: workers busy", LEAST_BUSY, found.busy(), least=True),
        percent("  the same with the end, when tasks become short", None, found.busy(whole=True)),
    ]


def constants(folder, given):
    """Rows about what a task and a heartbeat cost, and the most tasks a second."""
    with Crowd(folder / "constants", given.workers) as crowd:
        idle = _idle(crowd, 10 if given.quick else 25)
        resident = _resident(crowd.scheduler)
        found = []
        for length in given.lengths:
            rounds = 3 + max(3, round(given.span / length))
            found.append(crowd.run(f"tasks-{length:g}", length, rounds, 1))
        # Shorter than anything could send them: whoever is the slowest sets the pace.
        most = crowd.run("most", 0.05, max(20, 4000 // given.workers), 1)
    rows = [
        (f"{given.workers} workers, idle: CPU of the scheduler", "", f"{100 * idle:.1f} %", None)
    ]
    for own in found:
        what = f"tasks of {own.seconds:.2f} s, {own.rate:.1f} a second: "
        used = [f"{100 * own.cpu(name):.1f}" for name in ("scheduler", "coordinator")]
        rows += [
            (f"{what}CPU of scheduler, coordinator", "", f"{', '.join(used)} %", None),
            (f"{what}workers busy", "", f"{100 * own.busy():.1f} %", None),
        ]
    beats = given.workers / _heartbeat(given.workers)
    rows.append(("CPU of the scheduler for a heartbeat", "", f"{1e3 * idle / beats:.2f} ms", None))
    rows.append((f"  of which there are, of {given.workers} workers", "", f"{beats:.0f} /s", None))
    for name in ("scheduler", "coordinator"):
        rates = np.array([own.rate for own in found])
        used = np.array([own.cpu(name) for own in found])
        slope, rest = np.polyfit(rates, used, 1)
        rows += [
            (f"CPU of the {name} for a task", "", f"{1e3 * slope:.2f} ms", None),
            ("  and apart from tasks", "", f"{100 * rest:.1f} %", None),
            ("  which makes a whole core at", "", f"{(1 - rest) / slope:.0f} tasks/s", None),
        ]
    each = (resident - crowd.alone) / given.workers
    used = [f"{100 * most.cpu(name):.0f}" for name in ("scheduler", "coordinator")]
    return [
        *rows,
        ("memory of the scheduler, for 1000 workers more", "", f"{1000 * each:.0f} MB", None),
        ("tasks of 0.05 s: tasks a second", "", f"{most.rate:.0f}", None),
        ("  with CPU of scheduler, coordinator", "", f"{', '.join(used)} %", None),
        ("  cores of this machine", "", os.cpu_count(), None),
    ]


def _heartbeat(workers):
    from distributed.scheduler import heartbeat_interval

    return heartbeat_interval(workers)


def _idle(crowd, seconds):
    """CPU of the scheduler while nothing is to be done."""
    time.sleep(5)
    with Meters(scheduler=crowd.scheduler) as meters:
        began = time.monotonic()
        time.sleep(seconds)
        return meters.cpu("scheduler", began + 1, began + seconds - 1)


def runs(folder, given):
    """Rows about a coordinator that has many runs, of a thousand a task."""
    rows, most = [], []
    with Crowd(folder / "runs", 20) as crowd:
        for count in given.runs:
            study = written(crowd.folder, f"runs-{count}", count, 1000.0)
            crowd.log.write_bytes(b"")
            own = called(
                "coordinate", str(study), str(study.with_suffix(".zarr")), crowd.address, 1e3, 1e3,
                given.planning,
            )  # fmt: skip
            began = time.monotonic()
            output = crowd.folder / f"runs-{count}.log"
            coordinator = Group(*own, log=output, **crowd._environment)
            with Meters(scheduler=crowd.scheduler, coordinator=coordinator) as meters:
                coordinator.wait(PATIENCE)
            said = json.loads(output.read_text().splitlines()[-1])
            most.append(meters.megabytes("coordinator"))
            rows += [
                (f"{count:,} runs: tasks, files", "", f"{said['tasks']}, {said['files']}", None),
                (f"{count:,} runs: memory of the coordinator", "", f"{most[-1]:.0f} MB", None),
                ("  seconds until work begins", "", f"{said['began_at'] - began:.1f}", None),
            ]
    each = (most[-1] - most[0]) / (given.runs[-1] - given.runs[0])
    rows.append(("memory of the coordinator, for 1e6 runs more", "", f"{1e6 * each:.0f} MB", None))
    return rows


PARTS = {"steady": steady, "constants": constants, "runs": runs}


def _terminated(number, frame):
    raise SystemExit(128 + number)  # so that what is started ends


def main():
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, action="append", help="repeatable; else all")
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0, help="of a task")
    parser.add_argument("--rounds", type=int, default=5, help="tasks of a worker, steadily")
    parser.add_argument("--max-time", type=float, help="seconds after which the study is to end")
    parser.add_argument("--quick", action="store_true", help="20 workers, tasks of a second")
    parser.add_argument("--keep", type=Path, help="a new folder for stores and logs, which stay")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    given.lengths, given.span = (20.0, 6.0, 3.0), 30.0
    given.runs, given.planning = (100_000, 1_000_000), 120
    if given.quick:
        given.workers, given.seconds, given.rounds = 20, 1.0, 5
        given.lengths, given.span, given.runs, given.planning = (1.0, 0.5), 4.0, (1000, 10_000), 20
    signal.signal(signal.SIGTERM, _terminated)
    print(f"Load at the start: {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores", file=sys.stderr)
    return report_parts(PARTS, given)


if __name__ == "__main__":
    sys.exit(main())
