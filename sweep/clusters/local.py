"""A cluster of processes on this machine that no other user can access.

Any client of a Dask scheduler or worker can run code in it, and every user of a machine can connect
to 127.0.0.1. So all processes listen there alone, and accept only clients with the cluster's
certificate, which is made for it. Dask's HTTP servers, which ask for no certificate, are not
started, except for the dashboard where a profile asks for one; its own `LocalCluster` always has
them, on all addresses.
"""

import contextlib
import copy
import logging
import os
import re
import signal
import sys
import threading
import types
from collections.abc import Collection, Iterator
from multiprocessing import context, forkserver, resource_tracker
from types import FrameType
from typing import Any

import dask
from distributed import Nanny, Scheduler, Security, SpecCluster, Worker
from distributed.core import Status
from distributed.worker_memory import parse_memory_limit

from integrators.compiler.cache_directory import cache_root
from integrators.errors import InputError
from sweep.clusters.jobs import SETTINGS, FollowingWork
from sweep.clusters.stop_request import ENDING

LOOPBACK = "127.0.0.1"
MOST_STARTS = 50  # of a worker that is killed before it has started
PRELOADS = ("sweep.campaign.worker.compute", __name__)
FORKED = (*PRELOADS, "sweep.clusters.workers", "integrators.registry", "systems.registry")
START_METHOD = "geosweep-forkserver"


class LocalScheduler(Scheduler):
    """Dask's scheduler, with an HTTP server only for a dashboard."""

    def start_http_server(
        self, routes: Any, dashboard_address: Any, *arguments: Any, **options: Any
    ) -> None:
        """Called by Dask as it starts."""
        if dashboard_address is not None:
            super().start_http_server(routes, dashboard_address, *arguments, **options)


class LocalWorker(Worker):
    """Dask's worker, without an HTTP server."""

    def start_http_server(self, *arguments: Any, **options: Any) -> None:
        """Called by Dask as it starts."""


class LocalNanny(Nanny):
    """Dask's nanny, which also restarts a worker that is killed before it has started."""

    async def instantiate(self) -> Status:
        """Called by Dask as it starts, and when its worker has ended."""
        for _ in range(MOST_STARTS):
            status = await super().instantiate()
            if status != Status.stopped or self.status not in (Status.init, Status.starting):
                break
        return status


def start_local_cluster(
    workers: int, security: Security | None = None, adapt: dict[str, Any] | None = None,
    at_first: int | None = None, *, host: str | None = None, interface: str | None = None,
    dashboard_address: int | str | None = None, memory_limit: float | str | None = "auto",
    local_directory: str | None = None,
) -> SpecCluster:  # fmt: skip
    """A local cluster: processes of one thread each.

    Parameters
    ----------
    workers : int
        Processes, that share the machine's memory.
    security : distributed.Security, optional
        For encrypted connections, instead of a certificate of its own.
    adapt : dict, optional
        Arguments of the cluster's ``adapt``.
    at_first : int, optional
        Processes that are started now, before the cluster is scaled; all unless given.
    host, interface : str, optional
        Where all listen, unless on 127.0.0.1.
    dashboard_address : int or str, optional
        Of the scheduler's dashboard, a port or ``host:port``; none unless given.
    memory_limit : int, float, str or None, optional
        Of a worker, as `distributed.LocalCluster` takes it.
    local_directory : str, optional
        For Dask's scratch files.

    Returns
    -------
    distributed.SpecCluster

    Raises
    ------
    InputError
        If the dashboard's address is none.
    """
    dashboard = _dashboard_options(dashboard_address)
    cache_root()  # so that the processes share it, also where it is a temporary one
    shared = {
        "host": host if host or interface else LOOPBACK,
        "interface": interface,
        "protocol": "tls://",
        "security": security or Security.temporary(),
    }
    # Processes that start within this inherit blocked signals; `dask_setup` ends that.
    with dask.config.set(SETTINGS), _signals_blocked(ENDING):
        _choose_start_method()
        options = {
            "nthreads": 1,
            "memory_limit": parse_memory_limit(
                memory_limit, 1, workers, logger=logging.getLogger(__name__)
            ),
            "local_directory": local_directory,
            "worker_class": LocalWorker,
            "preload": list(PRELOADS),
            "silence_logs": logging.CRITICAL,
            "env": dict(os.environ),
            "config": copy.deepcopy(dask.config.config),  # also of workers that start later
        }
        worker = {"cls": LocalNanny, "options": shared | options}
        cluster = SpecCluster(
            scheduler={"cls": LocalScheduler, "options": shared | dashboard},
            worker=worker,
            workers=dict.fromkeys(range(at_first or workers), worker),
            security=shared["security"],
            silence_logs=logging.CRITICAL,
        )
    if adapt:
        cluster.adapt(FollowingWork, **adapt)
    return cluster


def _dashboard_options(address: int | str | None) -> dict[str, Any]:
    """Options of a scheduler for a dashboard at an address."""
    if address is None:
        return {"dashboard": False}
    host, _, port = str(address).rpartition(":")
    if isinstance(address, bool) or not re.fullmatch(r"\d{1,5}", port) or int(port) > 65535:
        raise InputError(
            f"dashboard-address is {address!r}; expected a port, such as 8787, or host:port"
        )
    return {"dashboard": True, "dashboard_address": f"{host or LOOPBACK}:{port}"}


# --- processes --------------------------------------------------------------------------------


class _Process(context.ForkServerProcess):
    """A process that does not import the script of the one that starts it, as Python's own do.

    A script without ``if __name__ == "__main__":`` would run again in every worker. No worker needs
    it: what Dask sends of a script, it sends by value.
    """

    _starting = threading.Lock()

    def start(self) -> None:
        """Start while another module is the main one, which is nowhere and has no name."""
        with self._starting:
            script = sys.modules["__main__"]
            sys.modules["__main__"] = types.ModuleType("__main__")
            try:
                super().start()
            finally:
                sys.modules["__main__"] = script


class _Context(context.ForkServerContext):
    Process = _Process


# As joblib does with its own: `multiprocessing` has no public function to add one.
vars(context)["_concrete_contexts"][START_METHOD] = _Context()


def _choose_start_method() -> None:
    """Have workers forked from a process without threads that has imported what they need."""
    for name, value in dask.config.get("distributed.nanny.pre-spawn-environ").items():
        if value is not None:  # a nanny sets them as well, when this process has loaded BLAS
            os.environ.setdefault(name, str(value))
    if sys.platform == "linux":  # elsewhere libraries of the system are not safe to fork
        forkserver.set_forkserver_preload(list(FORKED))
    with contextlib.suppress(OSError):  # where no socket can be made, Dask executes each process
        forkserver.ensure_running()
        dask.config.set({"distributed.worker.multiprocessing-method": START_METHOD})


@contextlib.contextmanager
def _signals_blocked(signals: Collection[signal.Signals]) -> Iterator[None]:
    """Block signals in this thread and in the threads and processes that it starts."""
    resource_tracker.ensure_running()  # which would unblock them when it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def dask_setup(worker: Worker) -> None:
    """Called by Dask in a worker's main thread as it starts, where this module is a preload.

    Ctrl-C reaches every process of the terminal's group, and SIGTERM often all of a batch job; a
    worker must continue until its task has committed, since the coordinator shuts down gracefully.
    The workers of a local cluster start with these signals blocked, so that none ends them before
    their handlers are set.
    """

    def terminated(number: int, frame: FrameType | None) -> None:
        if worker.state.executing_count == 0:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # forgets one that came while it started
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    signal.signal(signal.SIGTERM, terminated)
