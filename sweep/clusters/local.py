"""A cluster of processes on this machine that no other user can access.

Any client of a Dask scheduler or worker can run code in it, and every user of a machine can connect
to 127.0.0.1. So all processes listen only there, and accept only clients with a certificate that is
made for this cluster. Dask's HTTP servers do not ask for a certificate and are therefore not
started, except for a dashboard if a profile asks for one. Dask's own `LocalCluster` always starts
them, on all addresses.
"""

import copy
import logging
import os
import re
import signal
from types import FrameType
from typing import Any

import dask
from distributed import Nanny, Scheduler, Security, SpecCluster, Worker
from distributed.core import Status
from distributed.worker_memory import parse_memory_limit

from integrators.errors import InputError
from sweep.clusters.jobs import SETTINGS, AdaptiveToRemainingWork
from sweep.clusters.processes import START_METHOD, ensure_server, signals_blocked
from sweep.clusters.stop_request import ENDING

LOOPBACK = "127.0.0.1"
MOST_STARTS = 50  # attempts to start a worker that is killed before it has started
PRELOADS = ("sweep.campaign.worker.compute", __name__)


class LocalScheduler(Scheduler):
    """Dask's scheduler, with an HTTP server only if there is a dashboard."""

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
    """Start a local cluster of processes with one thread each.

    Parameters
    ----------
    workers : int
        Number of processes, which share the machine's memory.
    security : distributed.Security, optional
        Security of its connections; by default with a certificate made for the cluster.
    adapt : dict, optional
        Arguments of the cluster's ``adapt``.
    at_first : int, optional
        Number of processes to start at once; by default all.
    host, interface : str, optional
        Address or network interface on which all listen; by default 127.0.0.1.
    dashboard_address : int or str, optional
        Port or ``host:port`` of the scheduler's dashboard; by default there is none.
    memory_limit : int, float, str or None, optional
        Memory limit of a worker, as for `distributed.LocalCluster`.
    local_directory : str, optional
        Directory for Dask's scratch files.

    Returns
    -------
    distributed.SpecCluster

    Raises
    ------
    InputError
        If the dashboard's address is not valid.
    """
    dashboard = _dashboard_options(dashboard_address)
    shared = {
        "host": host if host or interface else LOOPBACK,
        "interface": interface,
        "protocol": "tls://",
        "security": security or Security.temporary(),
    }
    if ensure_server():  # else Dask starts each process from scratch
        dask.config.set({"distributed.worker.multiprocessing-method": START_METHOD})
    # Processes that start here inherit blocked signals, which `dask_setup` unblocks.
    with dask.config.set(SETTINGS), signals_blocked(ENDING):
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
            "config": copy.deepcopy(dask.config.config),  # for workers that start later as well
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
        cluster.adapt(AdaptiveToRemainingWork, **adapt)
    return cluster


def _dashboard_options(address: int | str | None) -> dict[str, Any]:
    """Options of the scheduler for a dashboard at an address."""
    if address is None:
        return {"dashboard": False}
    host, _, port = str(address).rpartition(":")
    if isinstance(address, bool) or not re.fullmatch(r"\d{1,5}", port) or int(port) > 65535:
        raise InputError(
            f"dashboard-address is {address!r}; expected a port, such as 8787, or host:port"
        )
    return {"dashboard": True, "dashboard_address": f"{host or LOOPBACK}:{port}"}


def dask_setup(worker: Worker) -> None:
    """Called by Dask in the main thread of a worker that has this module as a preload.

    Ctrl-C reaches every process of the terminal's group, and SIGTERM often all processes of a batch
    job. A worker must continue until its task has committed, since the coordinator shuts down
    gracefully. Workers of a local cluster start with these signals blocked, so that no signal can
    end them before their handlers are set.
    """

    def terminated(number: int, frame: FrameType | None) -> None:
        if worker.state.executing_count == 0:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # discards a SIGTERM that is pending
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    signal.signal(signal.SIGTERM, terminated)
