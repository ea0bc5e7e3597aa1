"""Clusters that are started for a run and end with it, and the client of any cluster."""

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Any

import dask
from distributed import Client, Security

from integrators.errors import InputError
from sweep.clusters import tls
from sweep.clusters.connect import (
    LOOK_SECONDS,
    WORKERS_SECONDS,
    check_dask_versions,
    client_of_running_scheduler,
    wait_for_workers,
)
from sweep.clusters.jobqueue import (
    SETTINGS,
    adapt_from_one_worker,
    start_batch_jobs,
    start_kubernetes_pods,
)
from sweep.clusters.local import start_local_cluster
from sweep.clusters.profiles import JOBS, KUBERNETES, Profile, resolve_cluster_spec
from sweep.clusters.spec import LOCAL, Check, ClusterSpec

Connect = Callable[..., Client]  # of the number of tasks, which may be left out


@contextlib.contextmanager
def starting_or_connecting(
    spec: ClusterSpec,
    check: Check = lambda: None,
    told: Callable[[str], object] = lambda text: None,
) -> Iterator[Connect]:
    """Start a cluster or connect to one, within ``with``; gives a function that returns its client.

    The function waits until the cluster has a worker. A running scheduler is connected, and jobs
    are submitted, before it is called; a local cluster starts in the background. What was started
    is closed at the end. The function takes the number of tasks, optionally: a local cluster
    without a given number of workers starts no more than that.

    Parameters
    ----------
    spec : ClusterSpec
    check : callable
        Called again and again while something is waited for; may raise.
    told : callable
        Called with a line of text for the user when that takes long.

    Raises
    ------
    InputError
        If what it names cannot be reached or started.
    """
    with dask.config.set(SETTINGS):
        spec, profile = resolve_cluster_spec(spec)
        if profile is None:
            with client_of_running_scheduler(spec, check, told) as client:
                yield lambda tasks=None: client
            return
        security = tls.tls_security_of_started_cluster(spec.tls)
    if profile.kind == LOCAL:
        starting = _starting_local_cluster(profile, spec.workers, security, check, told)
    else:
        starting = _starting_queue_or_kubernetes(profile, spec.workers, security, check, told)
    with starting as connected:
        yield connected


@contextlib.contextmanager
def start_or_connect(
    spec: ClusterSpec,
    check: Check = lambda: None,
    told: Callable[[str], object] = lambda text: None,
) -> Iterator[Client]:
    """The client of a cluster that has workers; parameters as of `starting_or_connecting`."""
    with starting_or_connecting(spec, check, told) as connected:
        yield connected()


def local_cluster_client(workers: int | None = None) -> AbstractContextManager[Client]:
    """A client of a local cluster that ends with it, for several runs in a row.

    Parameters
    ----------
    workers : int, optional
        Processes; one a core unless given.
    """
    return start_or_connect(ClusterSpec(workers=workers))


@contextlib.contextmanager
def _starting_local_cluster(
    profile: Profile,
    workers: int | None,
    security: Security | None,
    check: Check,
    told: Callable[[str], object],
) -> Iterator[Connect]:
    """As `starting_or_connecting`; the processes start in the background."""
    workers = workers or profile.scale.get("workers")
    adapt = {} if workers else adapt_from_one_worker(profile.adapt)
    said = workers or adapt.get("minimum")
    workers, at_first = said or os.cpu_count() or 1, said or 1
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        starting = pool.submit(
            start_local_cluster, workers, security, adapt, at_first, **profile.options
        )

        @functools.cache
        def connected(tasks: int = workers) -> Client:
            try:
                cluster = starting.result()
            except (RuntimeError, TypeError, ValueError, OSError) as error:
                if profile.options or security:
                    raise InputError(_cluster_start_failure_message(profile, error)) from error
                raise
            client: Client = stack.enter_context(Client(cluster))
            _wait_for_queued_worker(client, profile, check, told)
            if len(cluster.worker_spec) < (needed := min(tasks, workers)):
                cluster.scale(needed)
                wait_for_workers(client, check, lambda: None, WORKERS_SECONDS, needed)
            return client

        try:
            yield connected
        finally:
            stack.close()
            if starting.exception() is None:  # the caller need not wait for workers to end
                threading.Thread(target=starting.result().close).start()


@contextlib.contextmanager
def _starting_queue_or_kubernetes(
    profile: Profile,
    workers: int | None,
    security: Security | None,
    check: Check,
    told: Callable[[str], object],
) -> Iterator[Connect]:
    """As `starting_or_connecting`, for a batch system or Kubernetes."""
    start = start_kubernetes_pods if profile.kind == KUBERNETES else start_batch_jobs
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        starting = pool.submit(start, profile, workers, security)
        stack.callback(_close_started_cluster, starting)
        while not wait([starting], LOOK_SECONDS).done:
            check()
        try:
            cluster = starting.result()
        except InputError:
            raise
        except Exception as error:  # whatever the batch system, Kubernetes or their clients raise
            raise InputError(_cluster_start_failure_message(profile, error)) from error

        @functools.cache
        def connected(tasks: int | None = None) -> Client:
            client: Client = stack.enter_context(Client(cluster))
            _wait_for_queued_worker(client, profile, check, told)
            scheduler: Any = client.scheduler  # which a connected client has
            check_dask_versions(scheduler.address, client.security, check)
            return client

        yield connected


def _close_started_cluster(starting: Future[Any]) -> None:
    """End a cluster that has started, with its jobs that run and that wait."""
    if starting.exception() is None:
        with contextlib.suppress(TimeoutError, AssertionError):
            starting.result().close()


def _wait_for_queued_worker(
    client: Client, profile: Profile, check: Check, told: Callable[[str], object]
) -> None:
    """Wait until there is one, as long as jobs queue."""
    if not wait_for_workers(client, check, lambda: told(_waiting_for_jobs_message(profile))):
        raise InputError(_cluster_start_failure_message(profile, "its scheduler has ended"))


def _waiting_for_jobs_message(profile: Profile) -> str:
    where = {"slurm": "squeue", "pbs": "qstat", "lsf": "bjobs", "sge": "qstat"}
    look = f", `{where[profile.kind]}` shows its jobs" if profile.kind in JOBS else ""
    look = ", `kubectl get pods` shows its pods" if profile.kind == KUBERNETES else look
    return f"Waiting for the first worker of {profile.name} ({profile.kind}{look}); Ctrl-C ends it"


def _cluster_start_failure_message(profile: Profile, error: object) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    said = " ".join(lines) if lines else type(error).__name__
    return f"the cluster of profile {profile.name!r} ({profile.kind}) does not start: {said}"
