"""Dask: a local cluster or a running one, and a sliding window of tasks on it.

Dask is disposable, the store is the truth: a lost worker's task is submitted again, and
whatever dies, the next `sweep run` goes on from what is committed.
"""

import contextlib
import logging
import platform
import signal
import threading
import uuid
from collections import Counter

import dask
import llvmlite.binding
from distributed import Client, KilledWorker, LocalCluster, as_completed

from integrators.errors import InputError
from sweep.tasks import compute

WINDOW = 2  # tasks in flight for each worker: one running, one waiting
CONNECT_SECONDS = 10
EXPECTED = "Expected an address such as tcp://host:8786 of a running `dask scheduler`"
DEATHS = 30  # of workers, with one task each time, before Dask gives that task up
GIVEN_UP = 5  # tasks given up in a row before the coordinator does too
SETTINGS = {
    # Dask blames every task that a dying worker held, also those that only waited there.
    "distributed.scheduler.allowed-failures": DEATHS,
    "distributed.logging.distributed": "error",
    "distributed.worker.profile.enabled": False,
}


class Interrupted(Exception):
    """The run ended early, for the reason given; what was running is committed or repeated."""


class TaskFailed(RuntimeError):
    """A task raised: says which and why."""


def start_local(workers):
    """A local cluster: processes of one thread each."""
    with dask.config.set(SETTINGS):
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",  # the default port may be taken
            silence_logs=logging.CRITICAL,
            preload=["sweep.worker_setup"],
        )


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
            if not client.scheduler_info(n_workers=-1)["workers"]:
                raise InputError(
                    f"the scheduler {address!r} has no workers; start some with "
                    f"`dask worker {address} --nthreads 1`"
                )
            yield client


def count_workers(client):
    """Number of task slots of the cluster."""
    return max(1, sum(client.nthreads().values()))


def describe_hosts(client):
    """The hosts of the workers: name, machine, kind of CPU and number of workers of each."""
    kinds = client.run(_host).values()
    return [{**dict(kind), "workers": count} for kind, count in Counter(kinds).items()]


def _host():
    return (
        ("host", platform.node()),
        ("system", platform.platform()),
        ("cpu", llvmlite.binding.get_host_cpu_name()),
    )


class Drain:
    """Turns the first Ctrl-C into a request to stop feeding; the second one interrupts."""

    def __init__(self, on_request=lambda: None):
        self.requested = False
        self._on_request = on_request

    def __enter__(self):
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:
            self._before = signal.signal(signal.SIGINT, self._request)
        return self

    def __exit__(self, *exception):
        if self._main:
            signal.signal(signal.SIGINT, self._before)

    def check(self):
        """Raise KeyboardInterrupt, at a place of our choice, if it was requested."""
        if self.requested:
            raise KeyboardInterrupt

    def _request(self, number, frame):
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._on_request()


def execute(client, tasks, drain, on_receipt):
    """Compute tasks on the cluster, in order, a few in flight at a time.

    Parameters
    ----------
    client : distributed.Client
    tasks : list of RunTask or ReferenceTask
    drain : Drain
        When it is requested, no further task is submitted and those in flight are waited for.
    on_receipt : callable
        Called with each task that is done and its `Receipt`.

    Raises
    ------
    Interrupted
        If it was drained with tasks left.
    TaskFailed
        If a task raised, after those in flight have ended.
    """
    session = uuid.uuid4().hex
    waiting = list(reversed(tasks))
    flying, failure, given_up = {}, None, 0

    def submit(task):
        future = client.submit(compute, task, session, pure=False)
        flying[future.key] = task
        return future

    size = WINDOW * count_workers(client)
    completed = as_completed([submit(waiting.pop()) for _ in range(min(size, len(waiting)))])
    for future in completed:
        task = flying.pop(future.key)
        if future.status == "finished":
            on_receipt(task, future.result())
            given_up = 0
        elif client.status != "running":
            raise Interrupted("the scheduler is gone")
        else:
            error = future.exception() if future.status == "error" else None
            given_up += 1
            if error is None or (isinstance(error, KilledWorker) and given_up < GIVEN_UP):
                waiting.append(task)
            else:
                failure = failure or (task, error)
        future.release()
        if waiting and not drain.requested and failure is None:
            completed.add(submit(waiting.pop()))
    if failure is not None:
        raise TaskFailed(_explain(*failure)) from failure[1]
    if waiting:
        raise Interrupted("interrupted")


def _explain(task, error):
    if isinstance(error, KilledWorker):
        return (
            f"a task of experiment {task.experiment!r} ended its workers again and again: too "
            "little memory, or a crash in a kernel"
        )
    return f"a task of experiment {task.experiment!r} failed: {type(error).__name__}: {error}"
