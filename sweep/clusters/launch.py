"""Clusters that are started for a run and end with it, and the client of any cluster."""

import contextlib
import functools
import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import dask
from distributed import Client

from integrators.errors import InputError
from sweep.clusters import tls
from sweep.clusters.connect import LOOK_SECONDS, check_versions, has_workers, remote_client
from sweep.clusters.jobqueue import SETTINGS, at_least_one, start_jobs, start_pods
from sweep.clusters.local import start_local
from sweep.clusters.profiles import JOBS, KUBERNETES, resolved
from sweep.clusters.spec import LOCAL, ClusterSpec


@contextlib.contextmanager
def connecting(spec, check=lambda: None, told=lambda text: None):
    """A function that gives the client of a cluster, as soon as that has a worker.

    A running scheduler is connected, and jobs are submitted, before; a local cluster starts
    meanwhile. What was started ends with it.

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
        spec, profile = resolved(spec)
        if profile is None:
            with remote_client(spec, check, told) as client:
                yield lambda: client
            return
        security = tls.security_of_started(spec.tls)
    if profile.kind == LOCAL:
        starting = _starting_locally(profile, spec.workers, security, check, told)
    else:
        starting = _starting_elsewhere(profile, spec.workers, security, check, told)
    with starting as connected:
        yield connected


@contextlib.contextmanager
def connect(spec, check=lambda: None, told=lambda text: None):
    """The client of a cluster that has workers; parameters as of `connecting`."""
    with connecting(spec, check, told) as connected:
        yield connected()


def local_client(workers=None):
    """A client of a local cluster that ends with it, for several runs in a row.

    Parameters
    ----------
    workers : int, optional
        Processes; one a core unless given.
    """
    return connect(ClusterSpec(workers=workers))


@contextlib.contextmanager
def _starting_locally(profile, workers, security, check, told):
    """As `connecting`; the processes start in the background."""
    workers = workers or profile.scale.get("workers")
    adapt = {} if workers else at_least_one(profile.adapt)
    workers = workers or adapt.get("minimum") or os.cpu_count() or 1
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        starting = pool.submit(start_local, workers, security, adapt, **profile.options)

        @functools.cache
        def connected():
            try:
                cluster = starting.result()
            except (RuntimeError, TypeError, ValueError, OSError) as error:
                if profile.options or security:
                    raise InputError(_does_not_start(profile, error)) from error
                raise
            client = stack.enter_context(Client(cluster))
            _wait_for_worker(client, profile, check, told)
            return client

        try:
            yield connected
        finally:
            stack.close()
            if starting.exception() is None:  # the caller need not wait for workers to end
                threading.Thread(target=starting.result().close).start()


@contextlib.contextmanager
def _starting_elsewhere(profile, workers, security, check, told):
    """As `connecting`, for a batch system or Kubernetes."""
    start = start_pods if profile.kind == KUBERNETES else start_jobs
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        starting = pool.submit(start, profile, workers, security)
        stack.callback(_close, starting)
        while not wait([starting], LOOK_SECONDS).done:
            check()
        try:
            cluster = starting.result()
        except InputError:
            raise
        except Exception as error:  # whatever the batch system, Kubernetes or their clients raise
            raise InputError(_does_not_start(profile, error)) from error

        @functools.cache
        def connected():
            client = stack.enter_context(Client(cluster))
            _wait_for_worker(client, profile, check, told)
            check_versions(client.scheduler.address, client.security, check)
            return client

        yield connected


def _close(starting):
    """End a cluster that has started, with its jobs that run and that wait."""
    if starting.exception() is None:
        with contextlib.suppress(TimeoutError, AssertionError):
            starting.result().close()


def _wait_for_worker(client, profile, check, told):
    """Wait until there is one, as long as jobs queue."""
    if not has_workers(client, check, lambda: told(_waiting(profile))):
        raise InputError(_does_not_start(profile, "its scheduler has ended"))


def _waiting(profile):
    where = {"slurm": "squeue", "pbs": "qstat", "lsf": "bjobs", "sge": "qstat"}
    look = f", `{where[profile.kind]}` shows its jobs" if profile.kind in JOBS else ""
    look = ", `kubectl get pods` shows its pods" if profile.kind == KUBERNETES else look
    return f"Waiting for the first worker of {profile.name} ({profile.kind}{look}); Ctrl-C ends it"


def _does_not_start(profile, error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    said = " ".join(lines) if lines else type(error).__name__
    return f"the cluster of profile {profile.name!r} ({profile.kind}) does not start: {said}"
