"""A cluster of processes on this machine that no other user can access.

Any client of a Dask scheduler or worker can run code in it, and every user of a machine can connect
to 127.0.0.1. So all processes listen there alone, and accept only clients with the cluster's
certificate, which is made for it and never written to disk. Dask's HTTP servers, which ask for no
certificate, are not started, except for the dashboard where a profile asks for one.
"""

import contextlib
import copy
import logging
import os
import re
import signal
from collections.abc import Collection, Iterator
from multiprocessing import resource_tracker
from typing import Any

import dask
from distributed import Nanny, Scheduler, Security, SpecCluster, Worker
from distributed.core import Status
from distributed.worker_memory import parse_memory_limit

from integrators.compiler.cache_directory import cache_root
from integrators.errors import InputError
from sweep.clusters.adaptive import FollowingWork
from sweep.clusters.jobqueue import SETTINGS
from sweep.clusters.processes import start_method
from sweep.clusters.shutdown import ENDING
from sweep.clusters.tls import PrivateSecurity

LOOPBACK = "127.0.0.1"
MOST_STARTS = 50  # of a worker that is killed before it has started
START_METHOD = "distributed.worker.multiprocessing-method"
PRELOADS = ("sweep.campaign.worker.compute", "sweep.clusters.preload")
FORKED = (*PRELOADS, "sweep.clusters.workers", "integrators.registry", "systems.registry", __name__)


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
    **options: Any,
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
    **options
        Further arguments of `distributed.Nanny`.

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
    security = _private_tls_security() if security is None else security
    shared = {
        "host": host if host or interface else LOOPBACK,
        "interface": interface,
        "protocol": "tls://",
        "security": security,
    }
    logger = logging.getLogger(__name__)
    nanny = {
        "nthreads": 1,
        "memory_limit": parse_memory_limit(memory_limit, 1, workers, logger=logger),
        "worker_class": LocalWorker,
        "preload": list(PRELOADS),
        "silence_logs": logging.CRITICAL,
        **options,
    }
    # Processes that start within this inherit blocked signals; `sweep.clusters.preload` ends that.
    with dask.config.set(SETTINGS), _signals_blocked(ENDING):
        _choose_start_method()
        nanny["env"] = dict(os.environ) | nanny.get("env", {})
        settings = copy.deepcopy(dask.config.config)  # also of workers that start later
        worker = {"cls": LocalNanny, "options": shared | {"config": settings} | nanny}
        cluster = SpecCluster(
            scheduler={"cls": LocalScheduler, "options": shared | dashboard},
            worker=worker,
            workers=dict.fromkeys(range(at_first or workers), worker),
            security=security,
            silence_logs=logging.CRITICAL,
        )
    if adapt:
        cluster.adapt(FollowingWork, **adapt)
    return cluster


def _private_tls_security() -> PrivateSecurity:
    # Slow to import, and no worker needs it.
    from sweep.clusters.certificates import make_self_signed_certificate

    return PrivateSecurity(*make_self_signed_certificate())


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


def _choose_start_method() -> None:
    """Have workers forked from a process without threads that has imported what they need."""
    for name, value in dask.config.get("distributed.nanny.pre-spawn-environ").items():
        if value is not None:  # a nanny sets them as well, when this process has loaded BLAS
            os.environ.setdefault(name, str(value))
    dask.config.set({START_METHOD: start_method(FORKED)})  # also of workers that start again


@contextlib.contextmanager
def _signals_blocked(signals: Collection[signal.Signals]) -> Iterator[None]:
    """Block signals in this thread and in the threads and processes that it starts."""
    resource_tracker.ensure_running()  # which would unblock them when it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
