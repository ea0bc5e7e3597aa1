"""The workers of a cluster: check that they can compute, describe them, shut them down."""

import asyncio
import contextlib
import math
import os
import platform
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any

import distributed
from distributed import Client, KilledWorker, WorkerPlugin
from distributed.core import CommClosedError, Status

from integrators.compiler.cache_directory import cache_root
from integrators.errors import InputError
from sweep.clusters.spec import Check
from sweep.clusters.stop_request import StopRequest, process_age
from sweep.errors import GeosweepError, StoreUnseen
from sweep.store import provenance
from sweep.store.lease import holder, sessions
from sweep.store.lease.sessions import Session
from sweep.store.store import Store

LEAVING = "geosweep-leaving"  # reason in Dask's log why a worker ends
SEEN_SECONDS = 5.0  # within which a shared file system shows a new file
LOOK_SECONDS = 0.2  # between checks for an answer or a request to stop
JOIN_SECONDS = 0.05  # between looks whether a worker has joined
SOON = 2.0  # seconds of waiting for workers after which the user is told
ANSWER_SECONDS = 30.0  # within which all workers answer
MOST_TRIES = 100  # of a call that fails because a worker is lost
ASIDE_SECONDS = 5.0  # for which the end of a run waits for its message to workers
ENDING_SECONDS = 20.0  # for which an ending worker waits at most for its task to commit
LEAVE_BEFORE = 10.0  # seconds before the end of its lifetime at which a worker shuts down
MOST_OF_LIFETIME = 0.25  # largest fraction of a lifetime for this


@dataclass(frozen=True)
class Worker:
    """Description of a worker, which the worker makes itself.

    Parameters
    ----------
    host, system : str
    environment : dict
        See `sweep.store.provenance.describe_cpu_libm_and_versions`.
    cache : str
        Directory of its compiled kernels.
    """

    host: str
    system: str
    environment: dict[str, str]
    cache: str


def describe_this_worker(store: Store, token: str, code: str) -> Worker:
    """Describe this process as a `Worker`, after a check that it can compute for a coordinator.

    Parameters
    ----------
    store : sweep.Store
    token : str
        Fencing token of the coordinator's lease.
    code : str
        Hash of the coordinator's code, see `sweep.store.lease.sessions.code_hash`.

    Returns
    -------
    Worker

    Raises
    ------
    VersionMismatch
        If this process has another version of the code.
    StoreUnseen
        If this process does not see the lease in the store.
    """
    Session("", token, code).check_code()
    deadline = time.monotonic() + SEEN_SECONDS
    while why := _why_worker_sees_no_lock(store, token):
        if time.monotonic() > deadline:
            here = f"{platform.node()} (process {os.getpid()})"
            raise StoreUnseen(sessions.worker_sees_no_store_message(here, store, why))
        time.sleep(LOOK_SECONDS)
    return Worker(
        host=platform.node(),
        system=platform.platform(),
        environment=provenance.describe_cpu_libm_and_versions(),
        cache=str(cache_root()),
    )


def _why_worker_sees_no_lock(store: Store, token: str) -> str:
    lock = store.lease_file
    try:
        found = holder.read_lease_holder(lock)
    except (OSError, InputError) as error:  # such as a bucket without credentials or answer
        return str(error)
    if found is None:
        return f"{lock} is not there"
    return "" if found.token == token else f"{lock} is another one there"


def inspect_workers(
    client: Client, store: Store, token: str, stop: StopRequest
) -> dict[str, Worker]:
    """Check that each worker of a cluster can compute, and describe all of them.

    Parameters
    ----------
    client : distributed.Client
    store : sweep.Store
    token : str
        Fencing token of the store's lease.
    stop : sweep.clusters.stop_request.StopRequest
        Its `check` is called while this function waits.

    Returns
    -------
    dict of str to Worker
        The workers by address.

    Raises
    ------
    InputError
        If a worker has another version of the code than this process, does not see the store, or
        does not answer. The message names one.
    """
    code = sessions.code_hash()

    async def described() -> dict[str, Any]:
        seen: dict[str, Any] = await client.run(
            describe_this_worker, store, token, code, on_error="return"
        )
        # The answer of a worker that is lost meanwhile is an OSError.
        found = {at: one for at, one in seen.items() if not isinstance(one, OSError)}
        if not found:
            raise CommClosedError("all workers are lost")
        return found

    found: dict[str, Worker] = ask_cluster_with_retries(client, described, stop.check)
    for address, seen in found.items():
        if isinstance(seen, GeosweepError):
            raise InputError(f"the worker {address} cannot compute: {seen}")
        if not isinstance(seen, Worker):
            raise InputError(
                f"the worker {address} cannot compute: it cannot load this version of Geosweep "
                f"({type(seen).__name__}: {seen}). Install the same versions of Geosweep, Python "
                "and Numba there as here, and start it again"
            )
    return found


# --- calls ------------------------------------------------------------------------------------


def wait_for_workers(
    client: Client,
    check: Check,
    told: Callable[[], object] = lambda: None,
    seconds: float = math.inf,
    workers: int = 1,
) -> bool:
    """Wait until a cluster has workers.

    Parameters
    ----------
    client : distributed.Client
    check : callable
        Called repeatedly while waiting; may raise.
    told : callable
        Called once if waiting takes long.
    seconds : float, optional
        Longest time to wait.
    workers : int, optional
        Number of workers to wait for.

    Returns
    -------
    bool
        False if the scheduler ends or the time is over before.
    """
    began, said = time.monotonic(), False
    while True:
        with contextlib.suppress(OSError):  # the scheduler may be gone
            if len(client.nthreads()) >= workers:
                return True
        check()
        waited = time.monotonic() - began
        if client.status != "running" or waited > seconds:
            return False
        if waited > SOON and not said:
            told()
            said = True
        time.sleep(JOIN_SECONDS)


def ask_cluster_with_retries(
    client: Client,
    call: Callable[[], Any],
    check: Check = lambda: None,
    seconds: float = ANSWER_SECONDS,
) -> Any:
    """Make a call to all workers, and repeat it if a worker is lost meanwhile.

    All calls before tasks are computed are made in this way, since in Dask the loss of one worker
    makes a call to all workers fail.

    Parameters
    ----------
    client : distributed.Client
    call : callable
        A function without arguments, in which methods of the client are coroutines. It must be
        possible to repeat it.
    check : callable
        Called repeatedly while waiting; may raise.
    seconds : float, optional
        Time within which all workers have to answer.

    Returns
    -------
    object
        Result of the call.

    Raises
    ------
    InputError
        If a worker does not answer.
    OSError
        If the scheduler is gone, or the call failed `MOST_TRIES` times.
    """
    for _ in range(MOST_TRIES):
        try:
            return _ask(client, call, check, seconds)
        except OSError as error:  # the error of a lost connection
            lost = error
            if not wait_for_workers(client, check):
                break
        time.sleep(LOOK_SECONDS)
    raise lost


def _ask(client: Client, call: Callable[[], Any], check: Check, seconds: float) -> Any:
    """Return the result of a call on the client's event loop.

    Raises `InputError` after `seconds`, since Dask would wait forever for a suspended worker.
    """

    async def called() -> Any:
        return await call()

    loop: Any = client.loop  # Tornado's on asyncio
    asked = asyncio.run_coroutine_threadsafe(called(), loop.asyncio_loop)
    deadline = time.monotonic() + seconds
    try:
        while not wait([asked], LOOK_SECONDS).done:
            check()
            if time.monotonic() > deadline:
                workers = client.scheduler_info(n_workers=-1)["workers"]
                silent = min(workers, key=lambda at: workers[at]["last_seen"], default="")
                raise InputError(
                    f"not all of {len(workers)} workers answered within {seconds:.0f} s; {silent} "
                    "has been silent the longest: it may be suspended or cut off. Stop or resume "
                    "it, and repeat the command"
                )
        return asked.result()
    finally:
        asked.cancel()


def _tell(client: Client, call: Callable[[], Any]) -> None:
    """Make a call and ignore its failure, as after the loss of a worker or the scheduler."""
    with contextlib.suppress(Exception):
        _ask(client, call, lambda: None, ASIDE_SECONDS)


def stop_session_on_workers(client: Client, session: Session) -> None:
    """Tell the workers to end the tasks of a session after their current segments."""
    _tell(client, lambda: client.run(session.stop, on_error="ignore"))


# --- kinds of workers -------------------------------------------------------------------------


def hosts_of_workers(workers: Iterable[Worker]) -> list[dict[str, Any]]:
    """The hosts of workers: name, system, kind of CPU and number of workers of each.

    Parameters
    ----------
    workers : iterable of Worker
    """
    kinds = Counter(
        (w.host, w.system, provenance.cpu_and_libm_kind(w.environment)) for w in workers
    )
    return [
        {"host": host, "system": system, "kind": kind, "workers": count}
        for (host, system, kind), count in kinds.items()
    ]


def first_worker_of_each_kind(workers: dict[str, Worker]) -> list[str]:
    """Addresses of the workers that compile kernels: one for each host, kernel cache and CPU kind.

    Workers with the host, cache and CPU kind of this process need none. Hosts that share a cache
    may compile the same kernels at once, which takes no longer than to wait for one of them.

    Parameters
    ----------
    workers : dict of str to Worker
        Workers by address.
    """
    cpu = provenance.describe_cpu_libm_and_versions()["cpu"]
    kinds = {(platform.node(), str(cache_root()), cpu): ""}
    for address, worker in workers.items():
        kinds.setdefault((worker.host, worker.cache, worker.environment["cpu"]), address)
    return list(filter(None, kinds.values()))


def call_on_workers(
    client: Client, addresses: Sequence[str], function: Callable[[], object], stop: StopRequest
) -> None:
    """Call a function on some workers at once, as one task on each, and wait for all.

    If a worker is lost meanwhile, another one makes its call. Exceptions of the function are raised
    here.

    Parameters
    ----------
    client : distributed.Client
    addresses : list of str
    function : callable
        A function without arguments.
    stop : sweep.clusters.stop_request.StopRequest
        Its `check` is called while this function waits.
    """
    futures = [
        client.submit(function, workers=[address], allow_other_workers=True, pure=False)
        for address in addresses
    ]
    while not all(future.done() for future in futures):
        stop.check()
        time.sleep(LOOK_SECONDS)
    for future in futures:
        with contextlib.suppress(KilledWorker):  # later tasks will fail with the cause
            future.result()


# --- their end --------------------------------------------------------------------------------


class Ending(WorkerPlugin):
    """Shuts a worker down gracefully: it commits its current task, and begins no other.

    This happens near the end of the worker's lifetime, on SIGTERM, or when the worker is closed.
    The plugin does not check whether a worker that joins later can compute: each task checks that
    itself. If a coordinator is killed, its plugin stays with the scheduler, and a check here would
    refuse workers for the next coordinator.

    Parameters
    ----------
    session : sweep.store.lease.sessions.Session
        The plugin is registered for this session only; other runs on the cluster have their own.
    """

    def __init__(self, session: Session) -> None:
        self.name = f"geosweep-{session.name}"

    def setup(self, worker: distributed.Worker) -> None:
        """Called by Dask in each worker, including those that join later."""
        if worker.lifetime:
            margin = min(LEAVE_BEFORE, MOST_OF_LIFETIME * worker.lifetime)
            left = worker.lifetime - process_age() - margin
            worker.io_loop.call_later(max(left, 0.0), _end_worker_after_its_task, worker)
        in_main = threading.current_thread() is threading.main_thread()
        if worker.nanny is not None and in_main:  # a batch job sends it to all processes
            loop: Any = worker.io_loop  # Tornado's on asyncio
            loop.asyncio_loop.add_signal_handler(signal.SIGTERM, _end_worker_after_its_task, worker)

    async def teardown(self, worker: distributed.Worker) -> None:
        """Called by Dask when the worker closes."""
        if worker.status == Status.closing:
            sessions.end_tasks_of_process()
            await _wait_until_worker_is_idle()


@contextlib.contextmanager
def ending_workers_in_order(client: Client, session: Session, check: Check) -> Iterator[None]:
    """Context manager within which workers shut down gracefully, see `Ending`.

    This includes workers that join later. `check` is called repeatedly while this waits; it may
    raise.
    """
    plugin = Ending(session)
    ask_cluster_with_retries(client, lambda: client.register_plugin(plugin), check)
    try:
        yield
    finally:
        if client.status == "running":
            _tell(client, lambda: client.unregister_worker_plugin(plugin.name))


def _end_worker_after_its_task(worker: distributed.Worker) -> None:
    """End the worker when its task has committed."""
    if not sessions.is_process_leaving():
        sessions.end_tasks_of_process()
        worker.status = Status.closing_gracefully  # so that it gets no further tasks
        worker.io_loop.add_callback(_close_worker_when_idle, worker)


async def _close_worker_when_idle(worker: distributed.Worker) -> None:
    await _wait_until_worker_is_idle()
    with contextlib.suppress(OSError):  # if the scheduler is gone
        await worker.scheduler.retire_workers(
            workers=[worker.address], close_workers=False, remove=True, stimulus_id=LEAVING
        )
    await worker.close(nanny=not worker.lifetime_restart, reason=LEAVING)


async def _wait_until_worker_is_idle() -> None:
    """Wait until no task runs, or `ENDING_SECONDS` are over."""
    deadline = time.monotonic() + ENDING_SECONDS
    while sessions.is_process_computing_tasks() and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
