"""The workers of a cluster: check that they can compute, describe them, shut them down."""

import asyncio
import contextlib
import os
import platform
import queue
import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import distributed
from distributed import Client, KilledWorker, WorkerPlugin
from distributed.core import CommClosedError, Status

from integrators.compiler.cache_directory import cache_root
from integrators.errors import InputError
from sweep.clusters.connect import wait_for_workers
from sweep.clusters.shutdown import Drain, process_age
from sweep.clusters.spec import Check
from sweep.store import provenance
from sweep.store.lease import holder, sessions
from sweep.store.lease.sessions import Session
from sweep.store.store import Store

LEAVING = "geosweep-leaving"  # why a worker ends, as Dask logs it
IDENTITY = "identity"  # a file of a cache of kernels
SEEN_SECONDS = 5.0  # within which a shared file system shows a new file
ANSWER_SECONDS = 30.0  # within which all workers answer
MOST_TRIES = 30  # of a call that fails although no worker comes or goes
AGAIN_SECONDS = 0.2  # between two of them
ASIDE_SECONDS = 5.0  # that the end of a run waits for workers to be told of it
ENDING_SECONDS = 20.0  # that a worker which is to end waits at most for its task to commit
LEAVE_BEFORE = 10.0  # seconds before its lifetime is over
MOST_OF_LIFETIME = 0.25  # of a short one


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Worker:
    """Description of a worker, made by itself.

    Parameters
    ----------
    host, system : str
    code : str
        See `sweep.store.lease.sessions.code_hash`.
    environment : dict
        See `sweep.store.provenance.describe_cpu_libm_and_versions`.
    cache : str
        Of compiled kernels; equal ones are one directory.
    blind : str
        Why it does not see the store; empty if it does.
    """

    host: str
    system: str
    code: str
    environment: dict[str, str]
    cache: str
    blind: str


def describe_this_worker(store: Store, token: str) -> Worker:
    """Describe this process as a `Worker`; also whether it sees the coordinator's lease."""
    deadline = time.monotonic() + SEEN_SECONDS
    while (blind := _why_worker_sees_no_lock(store, token)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return Worker(
        host=platform.node(),
        system=platform.platform(),
        code=sessions.code_hash(),
        environment=provenance.describe_cpu_libm_and_versions(),
        cache=_kernel_cache_identity(),
        blind=blind,
    )


def _kernel_cache_identity() -> str:
    """Identity of this process's cache of kernels, which differs on hosts with equal paths."""
    file = cache_root() / IDENTITY
    try:
        if not file.exists():
            prepared = file.with_name(f"{IDENTITY}.{secrets.token_hex(4)}")
            prepared.write_text(secrets.token_hex(8))
            try:
                with contextlib.suppress(FileExistsError):
                    os.link(prepared, file)  # the first one's stays
            finally:
                prepared.unlink()
        return file.read_text()
    except OSError:  # a file system without links: at worst each host compiles for itself
        return f"{platform.node()} {file}"


def _why_worker_sees_no_lock(store: Store, token: str) -> str:
    lock = store.lease_file
    try:
        found = holder.read_lease_holder(lock)
    except (OSError, InputError) as error:  # of a bucket: no credentials, no answer
        return str(error)
    if found is None:
        return f"{lock} is not there"
    return "" if found.token == token else f"{lock} is another one there"


def inspect_workers(client: Client, store: Store, token: str, drain: Drain) -> dict[str, Worker]:
    """Describe all workers, by address, and check that each can compute.

    Parameters
    ----------
    client : distributed.Client
    store : sweep.Store
    token : str
        Of its lease.
    drain : sweep.clusters.shutdown.Drain
        Its `check` is called while this waits.

    Returns
    -------
    dict of str to Worker

    Raises
    ------
    InputError
        Names one that has another version of the code than this process, does not see the store,
        or does not answer.
    """
    found = {}
    for address, seen in ask_cluster_with_retries(
        client, lambda: _describe_all_workers(client, store, token), drain.check
    ).items():
        if isinstance(seen, OSError):  # of a worker that is lost just now
            continue
        own = sessions.code_hash()
        if not isinstance(seen, Worker) or seen.code != own:
            why = f"{type(seen).__name__}: {seen}"
            said = (
                f"has version {seen.code} of"
                if isinstance(seen, Worker)
                else f"cannot load Geosweep ({why}), or not this version of"
            )
            raise InputError(
                f"the worker {address} {said} the code; expected {own}, as this process has: "
                "results could differ. Install the same versions of Geosweep, Python and Numba "
                "there, and start it again"
            )
        if seen.blind:
            raise InputError(
                sessions.worker_sees_no_store_message(
                    f"{address} on {seen.host}", store, seen.blind
                )
            )
        found[address] = seen
    return found


def _describe_all_workers(client: Client, store: Store, token: str) -> dict[str, Any]:
    """What `describe_this_worker` says in each worker, by address; `OSError` if all are lost."""
    seen: dict[str, Any] = client.run(describe_this_worker, store, token, on_error="return")
    if not any(not isinstance(one, OSError) for one in seen.values()):
        raise CommClosedError("all workers are lost")
    return seen


def ask_cluster_with_retries(client: Client, call: Callable[[], Answer], check: Check) -> Answer:
    """Call a cluster, and repeat the call if a worker is lost during it.

    Every call before tasks are computed goes through here, since in Dask the loss of one worker
    makes a call to all of them fail.

    Parameters
    ----------
    client : distributed.Client
    call : callable
        Without arguments; whatever it did, it can be done again.
    check : callable
        Called again and again while this waits; may raise.

    Raises
    ------
    InputError
        If a worker does not answer.
    OSError
        Of the call, if the scheduler is gone, or no worker came or went in `MOST_TRIES` of them.
    """
    workers, tries = None, 0
    while True:
        try:
            return _answer_or_interrupt(client, call, check)
        except OSError:  # a connection that is lost is one
            if not wait_for_workers(client, check, lambda: None):
                raise
            before, workers = workers, _worker_addresses(client)
            tries = tries + 1 if workers == before else 0
            if tries == MOST_TRIES:
                raise
        time.sleep(AGAIN_SECONDS)


def _worker_addresses(client: Client) -> set[str] | None:
    """Of the workers that are there; none if the scheduler is gone."""
    with contextlib.suppress(OSError):
        return set(client.nthreads())
    return None


def _answer_or_interrupt(client: Client, call: Callable[[], Answer], check: Check) -> Answer:
    """Make a call that may never return, as Dask's does for a suspended worker, with a timeout."""
    answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def called() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:  # also a CancelledError, of a client that is closed
            answers.put((None, error))

    threading.Thread(target=called, daemon=True).start()
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        check()
        with contextlib.suppress(queue.Empty):
            found, error = answers.get(timeout=AGAIN_SECONDS)
            if error is not None:
                raise error
            answer: Answer = found
            return answer
    workers = client.scheduler_info(n_workers=-1)["workers"]
    silent = min(workers, key=lambda address: workers[address]["last_seen"], default="")
    raise InputError(
        f"not all of {len(workers)} workers answered within {ANSWER_SECONDS:.0f} s, least of all "
        f"{silent}: it may be suspended or cut off. End it, or let it go on, and repeat the command"
    )


def call_in_side_thread(call: Callable[[], object], seconds: float) -> None:
    """Call something that may wait for a suspended worker, and wait for it so long at most."""

    def called() -> None:
        with contextlib.suppress(Exception):  # of a worker, or a scheduler, that is lost
            call()

    thread = threading.Thread(target=called, daemon=True)
    thread.start()
    thread.join(seconds)


def stop_session_on_workers(client: Client, session: Session) -> None:
    """Tell the workers to end the tasks of a session after the segments that they are at."""
    call_in_side_thread(lambda: client.run(session.stop, on_error="ignore"), ASIDE_SECONDS)


def hosts_of_workers(workers: Iterable[Worker]) -> list[dict[str, Any]]:
    """The hosts of the workers: name, system, kind of CPU and number of workers of each.

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
    """Addresses of workers that compile for others: one for each CPU and cache of kernels.

    None for the CPU and the cache of this process.

    Parameters
    ----------
    workers : dict of str to Worker
        By address.
    """
    own = provenance.describe_cpu_libm_and_versions()["cpu"], _kernel_cache_identity()
    kinds: dict[tuple[str, str], str | None] = {own: None}
    for address, worker in workers.items():
        kinds.setdefault((worker.environment["cpu"], worker.cache), address)
    return [address for address in kinds.values() if address is not None]


def call_on_workers(
    client: Client, addresses: Sequence[str], function: Callable[[], object], drain: Drain
) -> None:
    """Call a function on some workers at once, as a task of each, and wait for all.

    One that is lost meanwhile is not waited for. What the function raises is raised.

    Parameters
    ----------
    client : distributed.Client
    addresses : list of str
    function : callable
        Without arguments.
    drain : sweep.clusters.shutdown.Drain
        Its `check` is called while this waits.
    """
    futures = {
        address: client.submit(function, workers=[address], pure=False) for address in addresses
    }
    while futures:
        drain.check()
        time.sleep(0.1)
        alive = ask_cluster_with_retries(client, client.nthreads, drain.check)
        for address, future in list(futures.items()):
            if future.done() or address not in alive:
                del futures[address]
            if future.status == "error" and not isinstance(future.exception(), KilledWorker):
                future.result()


class Ending(WorkerPlugin):
    """Shuts a worker down gracefully: it commits its current task, and begins no other.

    That is when its lifetime is nearly over, on SIGTERM, or when it is closed.

    Parameters
    ----------
    session : sweep.store.lease.sessions.Session
        The plugin is registered as long as it runs; other runs on the cluster have their own.
    """

    def __init__(self, session: Session) -> None:
        self.name = f"geosweep-{session.name}"

    def setup(self, worker: distributed.Worker) -> None:
        """Called by Dask in each worker, also in those that come later."""
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
    """Shut workers down gracefully, as `Ending` does, within ``with``; also ones that join later.

    `check` is called while this waits for them, and may raise.
    """
    plugin = Ending(session)
    ask_cluster_with_retries(client, lambda: client.register_plugin(plugin), check)
    try:
        yield
    finally:
        if client.status == "running":
            call_in_side_thread(lambda: client.unregister_worker_plugin(plugin.name), ASIDE_SECONDS)


def _end_worker_after_its_task(worker: distributed.Worker) -> None:
    """End the worker when its task has committed."""
    if not sessions.is_process_leaving():
        sessions.end_tasks_of_process()
        worker.status = Status.closing_gracefully  # it is given no further tasks
        worker.io_loop.add_callback(_close_worker_when_idle, worker)


async def _close_worker_when_idle(worker: distributed.Worker) -> None:
    await _wait_until_worker_is_idle()
    with contextlib.suppress(OSError):  # of a scheduler that is gone
        await worker.scheduler.retire_workers(
            workers=[worker.address], close_workers=False, remove=True, stimulus_id=LEAVING
        )
    await worker.close(nanny=not worker.lifetime_restart, reason=LEAVING)


async def _wait_until_worker_is_idle() -> None:
    """Wait until no task is computed, or has taken too long."""
    deadline = time.monotonic() + ENDING_SECONDS
    while sessions.is_process_computing_tasks() and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
