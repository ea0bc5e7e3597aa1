"""Dask: a local cluster or a running one, and a sliding window of tasks on it.

Dask is disposable, the store is the truth: a lost worker's task is submitted again, and
whatever dies, the next `sweep run` goes on from what is committed.
"""

import contextlib
import logging
import platform
import signal
from collections import Counter
from dataclasses import replace
from multiprocessing import resource_tracker

import dask
import llvmlite.binding
from distributed import Client, KilledWorker, LocalCluster, as_completed

from integrators.errors import InputError
from sweep import sessions
from sweep.disk import full, is_full
from sweep.draining import ENDING, TIME_IS_UP, Interrupted
from sweep.pacing import Pace
from sweep.tasks import committed_samples, compute

WINDOW = 2  # tasks in flight for each worker: one running, one waiting
CONNECT_SECONDS = 10
EXPECTED = "Expected an address such as tcp://host:8786 of a running `dask scheduler`"
DEATHS = 5  # of workers, with one task each time, before a local cluster hands that task back
MOST_DEATHS = 150  # in a row, with nothing committed, before the coordinator gives up too
LEAST_BETWEEN = 0.05  # seconds between checkpoints of a task whose workers die again and again
SETTINGS = {
    # Dask blames every task that a dying worker held, also those that only waited there.
    "distributed.scheduler.allowed-failures": DEATHS,
    "distributed.logging.distributed": "error",
    "distributed.worker.profile.enabled": False,
}


class TaskFailed(RuntimeError):
    """A task raised: says which and why."""


def start_local(workers):
    """A local cluster: processes of one thread each."""
    with dask.config.set(SETTINGS), _blocked(ENDING):  # `sweep.worker_setup` unblocks them
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",  # the default port may be taken
            silence_logs=logging.CRITICAL,
            preload=["sweep.worker_setup"],
        )


@contextlib.contextmanager
def _blocked(signals):
    """Block signals in this thread and in the threads and processes that it starts."""
    resource_tracker.ensure_running()  # which would unblock them when it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def remote_client(address):
    """A client of the scheduler at `address`; `InputError` if it does not answer."""
    with dask.config.set(SETTINGS):
        try:
            client = Client(address, timeout=CONNECT_SECONDS)
        except ValueError as error:
            raise InputError(
                f"{address!r} is no address of a scheduler: {error}. {EXPECTED}"
            ) from None
        except (OSError, TimeoutError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(
                f"the scheduler {address!r} does not answer within {CONNECT_SECONDS} s: {reason}. "
                f"{EXPECTED}"
            ) from None
        with client:
            try:  # they may be starting, as when they were killed just now
                client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            except TimeoutError:
                raise InputError(
                    f"the scheduler {address!r} has no workers; start some with "
                    f"`dask worker {address} --nthreads 1`"
                ) from None
            yield client


def count_workers(client):
    """Number of task slots of the cluster."""
    return max(1, sum(client.nthreads().values()))


def check_workers(client):
    """Refuse workers with another version of the code than this process.

    Raises
    ------
    InputError
        Names one of them.
    """
    own = sessions.code()
    for address, found in client.run(sessions.code, on_error="return").items():
        if found != own and not isinstance(found, OSError):  # of a worker that is lost just now
            said = f"has version {found} of the code" if isinstance(found, str) else _cause(found)
            raise InputError(
                f"the worker {address} {said}; expected {own}, as this process has: results could "
                "differ. Install the same versions of Geosweep, Python and Numba there, and start "
                "it again"
            )


def _cause(error):
    return f"cannot load Geosweep ({type(error).__name__}: {error})"


def describe_hosts(client):
    """The hosts of the workers: name, machine, kind of CPU and number of workers of each."""
    kinds = client.run(_host, on_error="ignore").values()
    return [{**dict(kind), "workers": count} for kind, count in Counter(kinds).items()]


def _host():
    return (
        ("host", platform.node()),
        ("system", platform.platform()),
        ("cpu", llvmlite.binding.get_host_cpu_name()),
    )


def execute(client, tasks, session, drain, on_receipt, on_running=lambda running: None):
    """Compute tasks on the cluster, in order, a few in flight at a time.

    Parameters
    ----------
    client : distributed.Client
    tasks : list of RunTask or ReferenceTask
    session : sweep.sessions.Session
    drain : sweep.draining.Drain
        When it is requested, no further task is submitted and those in flight are waited for,
        which end after the segment that they are at. A task that is not expected to come so
        far before the deadline is not submitted.
    on_receipt : callable
        Called with each task that is done and its `Receipt`.
    on_running : callable
        Called with the tasks that are running, whenever others are.

    Raises
    ------
    Interrupted
        If it was drained with tasks left, or the disk is full.
    TaskFailed
        If a task raised, after those in flight have ended.
    """
    flight = _Flight(client, tasks, session, drain)
    drain.when_requested(flight.stop)
    completed = as_completed(flight.feed())
    on_running(flight.running())
    for future in completed:
        task = flight.land(future)
        if future.status == "finished":
            on_receipt(task, future.result())
        elif client.status != "running":
            raise Interrupted("the scheduler is gone")
        future.release()
        for another in flight.feed():
            completed.add(another)
        on_running(flight.running())
    if flight.failure is not None:
        task, error = flight.failure
        if is_full(error):
            raise Interrupted(full(task.store, error))
        raise TaskFailed(_explain(task, error)) from error
    if flight.waiting or flight.cut:
        raise Interrupted(drain.reason or _too_short(flight.waiting))


class _Flight:
    """The tasks of `execute`: those that wait, and those in flight."""

    def __init__(self, client, tasks, session, drain):
        self.waiting = list(reversed(tasks))  # the next one is the last
        self.failure = None  # the first task that raised, with what it raised
        self.cut = 0  # tasks that ended before their time, since it was drained
        self._client, self._drain = client, drain
        self._session = session
        self._flying, self._deaths, self._stood = {}, 0, {}
        slots = count_workers(client)
        self._size, self._pace = WINDOW * slots, Pace(slots, drain.deadline)

    def feed(self):
        """Submit what may be submitted now; the futures."""
        futures = []
        while len(self._flying) < self._size and (task := self._next()) is not None:
            future = self._client.submit(compute, task, self._session, pure=False)
            self._flying[future.key] = task
            self._pace.began(future.key, task.cost)
            futures.append(future)
        return futures

    def _next(self):
        """The next task that is expected to end in time, taken from those that wait."""
        if self._drain.requested or self.failure is not None:
            return None
        for index in range(len(self.waiting) - 1, -1, -1):
            if self._pace.fits(self.waiting[index].seconds_to_stop):
                return self.waiting.pop(index)
        return None

    def running(self):
        """The tasks that run now, as far as can be said without asking."""
        return [self._flying[key] for key in self._pace.running if key in self._flying]

    def land(self, future):
        """The task of a future that has ended; it waits again if it was not its own fault."""
        task = self._flying.pop(future.key)
        if future.status == "finished":
            receipt = future.result()
            self._pace.ended(future.key, receipt.seconds if receipt.whole else None)
            self.cut += not receipt.whole
            self._deaths = 0
            return task
        self._pace.ended(future.key)
        error = future.exception() if future.status == "error" else None
        if isinstance(error, KilledWorker) and self._may_go_on(task, error):
            self.waiting.append(_sooner(task))
        elif error is None:
            self.waiting.append(task)
        else:
            self.failure = self.failure or (task, error)
        return task

    def _may_go_on(self, task, error):
        """Whether not too many workers died, since something was committed, that had this task."""
        before, now = self._stood.get(task.place, 0), committed_samples(task)
        self._stood[task.place] = now
        self._deaths = 0 if now > before else self._deaths + error.allowed_failures + 1
        return self._deaths < MOST_DEATHS

    def stop(self):
        """Tell the workers to end after the segment that they are at."""
        with contextlib.suppress(Exception):  # a lost worker, or the scheduler: nothing to stop
            self._client.run(self._session.stop, on_error="ignore")


def _sooner(task):
    """The task with shorter times between its checkpoints."""
    return replace(task, checkpoint_every=max(LEAST_BETWEEN, task.checkpoint_every / 2))


def _too_short(waiting):
    least = min(task.seconds_to_stop for task in waiting)
    return f"{TIME_IS_UP}: what is left takes {least:.2g} s at least"


def _explain(task, error):
    if isinstance(error, KilledWorker):
        return (
            f"a task of experiment {task.experiment!r} ended its workers again and again: too "
            "little memory, or a crash in a kernel"
        )
    return f"a task of experiment {task.experiment!r} failed: {type(error).__name__}: {error}"
