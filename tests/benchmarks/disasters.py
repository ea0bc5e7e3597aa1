"""Real processes that are killed, and stores that are compared bit by bit."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field

import counting
import numpy as np
import psutil
import zarr
from distributed import Client
from reporting import HERE, PROGRAMS, module_path

import sweep
from sweep.errors import GeosweepError

TIMES = ("cpu_time", "wall_time")
POLL = 0.05  # seconds


class Group(subprocess.Popen):
    """A process and all those that it starts; what it prints goes to a file."""

    def __init__(self, *arguments, log, **environment):
        with open(log, "a") as output:
            super().__init__(
                [str(argument) for argument in arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": module_path()} | environment,
            )

    def kill_all(self):
        """SIGKILL to every process of the session, and wait until they are gone."""
        mine = [process for process in psutil.process_iter() if _session(process) == self.pid]
        for process in mine:
            _kill(process)
        self.wait()  # first: whoever waits for a child has its exit code
        psutil.wait_procs([process for process in mine if process.pid != self.pid], timeout=30)

    def workers(self):
        """Its processes that Dask's nannies started: spawned, or forked by a child of `sweep`."""
        try:
            below = psutil.Process(self.pid).children(recursive=True)
            return [process for process in below if self._is_worker(process)]
        except psutil.NoSuchProcess:
            return []

    def _is_worker(self, process):
        return "spawn_main" in " ".join(process.cmdline()) or process.ppid() != self.pid

    def kill_worker(self):
        """SIGKILL to one of those, by chance; whether there was one."""
        alive = self.workers()
        if alive:
            _kill(random.choice(alive))
        return bool(alive)


def _session(process):
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return None


def _kill(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)


def start_scheduler(log, **environment):
    """The `Group` of a scheduler on a free port of this machine, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = ("--host", "127.0.0.1", "--port", port, "--no-dashboard")
    group = Group(PROGRAMS / "dask", "scheduler", *own, log=log, **environment)
    return group, f"tcp://127.0.0.1:{port}"


class Cluster:
    """A scheduler and workers under nannies, all real processes.

    Parameters
    ----------
    folder : Path
        For their logs, and for that of the steps.
    workers : int
    """

    def __init__(self, folder, workers):
        self.folder, self.count = folder, workers
        self.scheduler = self.nannies = None

    @property
    def steps(self):
        """The file to which workers write what they compute."""
        return self.folder / "steps.log"

    @property
    def _pids(self):
        return self.folder / "pids.log"

    def start(self):
        """Start both, and wait until the workers are there."""
        log = self.folder / "dask.log"
        self.scheduler, self.address = start_scheduler(log)
        self.nannies = Group(
            PROGRAMS / "dask", "worker", self.address, "--nworkers", self.count, "--nthreads", 1,
            "--no-dashboard", "--preload", HERE / "counting.py",
            "--local-directory", self.folder, log=log,
            **{counting.LOG: str(self.steps), counting.PIDS: str(self._pids)},
        )  # fmt: skip
        with Client(self.address, timeout=60) as client:
            client.wait_for_workers(self.count, timeout=120)
        return self

    def kill_worker(self):
        """SIGKILL to one of the workers that have come up, by chance; whether there was one."""
        up = set(map(int, self._pids.read_text().split())) if self._pids.exists() else set()
        alive = [process for process in self.nannies.workers() if process.pid in up]
        if alive:
            _kill(random.choice(alive))
        return bool(alive)

    def kill(self):
        """SIGKILL to all of it."""
        for group in (self.nannies, self.scheduler):
            if group is not None:
                group.kill_all()
        self.scheduler = self.nannies = None


@dataclass
class Journal:
    """What happened to a run."""

    workers_killed: int = 0
    all_killed: int = 0
    schedulers_killed: int = 0
    unexpected: list = field(default_factory=list)  # exit codes that nothing explains
    seconds: float = 0.0


def disturbed(
    cluster, arguments, store, every=None, disasters=(), *, done=None, after=None, patience=3600.0
):
    """Run a command again and again under kills until it ends well; the `Journal`.

    Parameters
    ----------
    cluster : Cluster
        Started; it is started again when it was killed.
    arguments : sequence
        Of `sweep`, to which the scheduler's address is added.
    store : Path
    every : float, optional
        Seconds between two kills of a worker.
    disasters : sequence of (float, str)
        Fractions of the runs, and what is killed when so many are done: ``all`` or ``scheduler``.
    done : callable, optional
        Gives the fraction that is done, by default of the runs.
    after : callable, optional
        Called when all that was killed is gone, before anything is started again.
    patience : float
        Seconds after which it is given up.
    """
    left, journal, began = list(disasters), Journal(), time.monotonic()
    log, done = cluster.folder / "sweep.log", done or Done(store)
    next_kill = began + (every or np.inf)
    while time.monotonic() - began < patience:
        run = Group(PROGRAMS / "sweep", *arguments, "--scheduler", cluster.address, log=log)
        struck = ""
        while run.poll() is None and time.monotonic() - began < patience:
            time.sleep(POLL)
            if not struck and left and done() >= left[0][0]:
                struck = left.pop(0)[1]
                _strike(struck, run, cluster, journal)
            elif not struck and time.monotonic() >= next_kill:
                journal.workers_killed += cluster.kill_worker()
                next_kill = time.monotonic() + every
        if run.poll() is None:
            run.kill_all()
            journal.unexpected.append("it did not end")
            break
        if run.returncode == 0:
            break
        if not struck:
            journal.unexpected.append(run.returncode)
            if len(journal.unexpected) > 10:
                break
        else:
            cluster.kill()
            if after is not None:
                after()
            cluster.start()
    journal.seconds = time.monotonic() - began
    return journal


def _strike(what, run, cluster, journal):
    if what == "all":
        journal.all_killed += 1
        run.kill_all()
        cluster.kill()
    else:
        journal.schedulers_killed += 1
        cluster.scheduler.kill_all()


class Done:
    """The share of a store's runs that is done, looked up twice a second at most.

    Parameters
    ----------
    store : Path
    partly : bool
        Whether what checkpoints hold of runs counts as well.
    """

    def __init__(self, store, partly=False):
        self._store, self._partly, self._looked, self._found = store, partly, 0.0, 0.0

    def __call__(self):
        if time.monotonic() - self._looked > 0.5:
            self.look()
            self._looked = time.monotonic()
        return self._found

    def look(self):
        """The share now."""
        with contextlib.suppress(GeosweepError, OSError):  # none yet, or it changes just now
            found = sweep.status(self._store)
            done = sum(own.done + own.partly * self._partly for own in found)
            self._found = done / max(1, sum(own.runs for own in found))
        return self._found


def steps_begun(path):
    """What workers began: rows of pid, first step, last step, steps of all runs of a batch."""
    return np.loadtxt(path, dtype=np.int64, ndmin=2)


# --- stores ----------------------------------------------------------------------------------


def compare(store, other, name):
    """How a store's runs differ from another's: runs lost, and runs with other bits.

    Whatever their rows are; timings are left aside.
    """
    one, two = (zarr.open_group(str(path), path=name, mode="r") for path in (store, other))
    ids = [group["run_id"][:].tolist() for group in (one, two)]
    row_of = {run_id: row for row, run_id in enumerate(ids[1])}
    mine = np.array([row for row, run_id in enumerate(ids[0]) if run_id in row_of])
    theirs = np.array([row_of[ids[0][row]] for row in mine])
    lost = set(row_of) - set(ids[0])
    wrong = np.zeros(len(mine), dtype=bool)
    for key, array in two.arrays():
        if array.metadata.dimension_names[0] != "run" or key in ("run", "in_study", *TIMES):
            continue
        if key not in one:
            return len(ids[1]), len(ids[1])
        a, b = one[key][...][mine], array[...][theirs]
        same = a == b if a.dtype.kind in "UTO" else _bits(a) == _bits(b)
        wrong |= ~same.reshape(len(mine), -1).all(axis=1)
    counts = one["sample_count"][:][mine]
    pending = int(np.sum(counts == 0))
    return len(lost) + pending, int(np.sum(wrong & (counts > 0)))


def _bits(array):
    return np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8)
