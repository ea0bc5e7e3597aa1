"""The workers of a cluster: whether they can do the work, what they are, and how they end."""

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
from dataclasses import dataclass

from distributed import WorkerPlugin
from distributed.core import Status

from integrators.errors import InputError
from integrators.kernels import cache_root
from sweep import environments, holder, sessions
from sweep.claims import unseen
from sweep.draining import process_age

LEAVING = "geosweep-leaving"  # why a worker ends, as Dask logs it
IDENTITY = "identity"  # a file of a cache of kernels
SEEN_SECONDS = 5.0  # within which a shared file system shows a new file
ANSWER_SECONDS = 30.0  # within which all workers say what they are
ASIDE_SECONDS = 5.0  # that the end of a run waits for workers to be told of it
ENDING_SECONDS = 20.0  # that a worker which is to end waits at most for its task to commit
LEAVE_BEFORE = 10.0  # seconds before its lifetime is over
MOST_OF_LIFETIME = 0.25  # of a short one


@dataclass(frozen=True)
class Worker:
    """What a worker says of itself.

    Parameters
    ----------
    host, system : str
    code : str
        See `sweep.sessions.code`.
    environment : dict
        See `sweep.environments.describe`.
    cache : str
        Of compiled kernels; equal ones are one directory.
    blind : str
        Why it does not see the store; empty if it does.
    """

    host: str
    system: str
    code: str
    environment: dict
    cache: str
    blind: str


def look(store, token):
    """This process as a `Worker`; whether it sees the lock that the coordinator holds."""
    deadline = time.monotonic() + SEEN_SECONDS
    while (blind := _why_unseen(store, token)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return Worker(
        host=platform.node(),
        system=platform.platform(),
        code=sessions.code(),
        environment=environments.describe(),
        cache=_cache_identity(),
        blind=blind,
    )


def _cache_identity():
    """What tells this process's cache of kernels from another one, also if their paths agree."""
    file = cache_root() / IDENTITY
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
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


def _why_unseen(store, token):
    lock = holder.lock_of(store)
    try:
        found = holder.read(lock)
    except (OSError, InputError) as error:  # of a bucket: no credentials, no answer
        return str(error)
    if found is None:
        return f"{lock} is not there"
    return "" if found.token == token else f"{lock} is another one there"


def inspect(client, store, token, drain):
    """All workers, by address; each can do the work.

    Parameters
    ----------
    client : distributed.Client
    store : Path
    token : str
        Of the holding of its lock.
    drain : sweep.draining.Drain
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
    for address, seen in _asked(client, drain, look, store, token).items():
        if isinstance(seen, OSError):  # of a worker that is lost just now
            continue
        own = sessions.code()
        if not isinstance(seen, Worker) or seen.code != own:
            said = _cause(seen) if not isinstance(seen, Worker) else f"has version {seen.code} of"
            raise InputError(
                f"the worker {address} {said} the code; expected {own}, as this process has: "
                "results could differ. Install the same versions of Geosweep, Python and Numba "
                "there, and start it again"
            )
        if seen.blind:
            raise InputError(unseen(f"{address} on {seen.host}", store, seen.blind))
        found[address] = seen
    return found


def _asked(client, drain, function, *arguments):
    """What a function says in each worker, by address."""
    answers = queue.SimpleQueue()

    def ask():
        try:
            answers.put(client.run(function, *arguments, on_error="return"))
        except Exception as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()  # Dask waits for ever for a suspended one
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        drain.check()
        with contextlib.suppress(queue.Empty):
            found = answers.get(timeout=0.2)
            if isinstance(found, Exception):
                raise found
            return found
    workers = client.scheduler_info(n_workers=-1)["workers"]
    silent = min(workers, key=lambda address: workers[address]["last_seen"], default="")
    raise InputError(
        f"not all of {len(workers)} workers answered within {ANSWER_SECONDS:.0f} s, least of all "
        f"{silent}: it may be suspended or cut off. End it, or let it go on, and repeat the command"
    )


def aside(call, seconds):
    """Call something that may wait for a suspended worker, and wait for it so long at most."""

    def called():
        with contextlib.suppress(Exception):  # of a worker, or a scheduler, that is lost
            call()

    thread = threading.Thread(target=called, daemon=True)
    thread.start()
    thread.join(seconds)


def _cause(error):
    return f"cannot load Geosweep ({type(error).__name__}: {error}), or not this version of"


def hosts_of(workers):
    """The hosts of the workers: name, system, kind of CPU and number of workers of each.

    Parameters
    ----------
    workers : iterable of Worker
    """
    kinds = Counter((w.host, w.system, environments.kind_of(w.environment)) for w in workers)
    return [
        {"host": host, "system": system, "kind": kind, "workers": count}
        for (host, system, kind), count in kinds.items()
    ]


def first_of_each_kind(workers):
    """Addresses of workers that compile for others: one for each CPU and cache of kernels.

    None for the CPU and the cache of this process.

    Parameters
    ----------
    workers : dict of str to Worker
        By address.
    """
    kinds = {(environments.describe()["cpu"], _cache_identity()): None}
    for address, worker in workers.items():
        kinds.setdefault((worker.environment["cpu"], worker.cache), address)
    return [address for address in kinds.values() if address is not None]


def call_on(client, addresses, function, drain):
    """Call a function on some workers at once, as a task of each, and wait for all.

    One that is lost meanwhile is not waited for. What the function raises is raised.

    Parameters
    ----------
    client : distributed.Client
    addresses : list of str
    function : callable
        Without arguments.
    drain : sweep.draining.Drain
        Its `check` is called while this waits.
    """
    futures = {
        address: client.submit(function, workers=[address], pure=False) for address in addresses
    }
    while futures:
        drain.check()
        time.sleep(0.1)
        alive = client.nthreads()
        for address, future in list(futures.items()):
            if future.done() or address not in alive:
                del futures[address]
            if future.status == "error":
                future.result()


class Ending(WorkerPlugin):
    """Lets a worker that is to end commit what it computes first, and begin nothing more.

    It is to end when its lifetime is nearly over, on SIGTERM, or when it is closed.

    Parameters
    ----------
    session : sweep.sessions.Session
        For whose time it is there; other runs on the cluster have their own.
    """

    def __init__(self, session):
        self.name = f"geosweep-{session.name}"

    def setup(self, worker):
        """Called by Dask in each worker, also in those that come later."""
        if worker.lifetime:
            margin = min(LEAVE_BEFORE, MOST_OF_LIFETIME * worker.lifetime)
            left = worker.lifetime - process_age() - margin
            worker.io_loop.call_later(max(left, 0.0), _leave, worker)
        in_main = threading.current_thread() is threading.main_thread()
        if worker.nanny is not None and in_main:  # a batch job sends it to all processes
            worker.io_loop.asyncio_loop.add_signal_handler(signal.SIGTERM, _leave, worker)

    async def teardown(self, worker):
        """Called by Dask when the worker closes."""
        if worker.status == Status.closing:
            sessions.leave()
            await _idle()


@contextlib.contextmanager
def ending_in_order(client, session):
    """Within this, workers of a cluster, also those that come later, end as `Ending` says."""
    plugin = Ending(session)
    client.register_plugin(plugin)
    try:
        yield
    finally:
        if client.status == "running":
            aside(lambda: client.unregister_worker_plugin(plugin.name), ASIDE_SECONDS)


def _leave(worker):
    """End the worker when its task has committed."""
    if not sessions.is_leaving():
        sessions.leave()
        worker.status = Status.closing_gracefully  # it is given no further tasks
        worker.io_loop.add_callback(_close, worker)


async def _close(worker):
    await _idle()
    with contextlib.suppress(OSError):  # of a scheduler that is gone
        await worker.scheduler.retire_workers(
            workers=[worker.address], close_workers=False, remove=True, stimulus_id=LEAVING
        )
    await worker.close(nanny=not worker.lifetime_restart, reason=LEAVING)


async def _idle():
    """Wait until no task is computed, or has taken too long."""
    deadline = time.monotonic() + ENDING_SECONDS
    while sessions.is_working() and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
