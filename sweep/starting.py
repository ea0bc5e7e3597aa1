"""Clusters that are started for a run and end with it, and the client of any cluster."""

import contextlib
import functools
import logging
import math
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from multiprocessing import resource_tracker

import dask
from distributed import Client, LocalCluster

from integrators.errors import InputError
from sweep import tls
from sweep.clusters import LOCAL, ClusterSpec
from sweep.draining import ENDING
from sweep.profiles import JOBS, KUBERNETES, cluster_class, resolved
from sweep.reaching import check_versions, remote_client

DEATHS = 5  # of workers, with one task each time, before a local cluster hands that task back
SETTINGS = {
    # Dask blames every task that a dying worker held, also those that only waited there.
    "distributed.scheduler.allowed-failures": DEATHS,
    "distributed.logging.distributed": "error",
    "distributed.worker.profile.enabled": False,
}
LOOK_SECONDS = 0.2  # between looks at whether something has come, or the end is asked for
SOON = 2.0  # seconds after which one is told that workers are waited for
STANDARD_IMAGE = "ghcr.io/dask/dask"


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
            with remote_client(spec, check) as client:
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
    adapt = {} if workers else _at_least_one(profile.adapt)
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


def start_local(workers, security=None, adapt=None, **options):
    """A local cluster: processes of one thread each.

    Parameters
    ----------
    workers : int
        Processes.
    security : distributed.Security, optional
        For encrypted connections.
    adapt : dict, optional
        Arguments of the cluster's ``adapt``.
    **options
        Further arguments of `distributed.LocalCluster`.
    """
    options = {"dashboard_address": ":0", **options}  # the default port may be taken
    with dask.config.set(SETTINGS), _blocked(ENDING):  # `sweep.worker_setup` unblocks them
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            security=security,
            silence_logs=logging.CRITICAL,
            preload=["sweep.worker_setup"],
            **options,
        )
    if adapt:
        cluster.adapt(**adapt)
    return cluster


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
def _starting_elsewhere(profile, workers, security, check, told):
    """As `connecting`, for a batch system or Kubernetes."""
    start = _start_kubernetes if profile.kind == KUBERNETES else _start_jobs
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
            check_versions(client.scheduler.address, client.security)
            return client

        yield connected


def _close(starting):
    """End a cluster that has started, with its jobs that run and that wait."""
    if starting.exception() is None:
        with contextlib.suppress(TimeoutError, AssertionError):
            starting.result().close()


def _start_jobs(profile, workers, security):
    """A cluster of a batch system's jobs, which are submitted."""
    made, name = cluster_class(profile.kind), profile.options.get("config_name", profile.kind)
    setting = functools.partial(_of_queue, name)
    options = dict(profile.options)
    processes = options.get("processes") or setting("processes")
    # Kernels have one thread; Dask's default is fewer processes of several. It counts them only
    # if it is told so here.
    options["processes"] = processes or options.get("cores") or setting("cores") or 1
    options["scheduler_options"] = {
        "dashboard_address": ":0",  # the default port may be taken
        **(setting("scheduler-options") or {}),
        **options.get("scheduler_options", {}),
    }
    jobs, adapt = _jobs(profile, workers, options["processes"])
    with dask.config.set(SETTINGS):
        cluster = made(security=security, **options)
    try:
        cluster.sync(_submit, cluster, jobs)
    except BaseException:
        cluster.close()
        raise
    if adapt:
        cluster.adapt(**adapt, **_by_job(options["processes"]))
    return cluster


def _of_queue(name, key):
    return dask.config.get(f"jobqueue.{name}.{key}", None)


def _jobs(profile, workers, processes):
    """Number of jobs to begin with, and the arguments of ``adapt``, if any."""
    if workers is None:
        if "jobs" in profile.scale:
            return profile.scale["jobs"], {}
        workers = profile.scale.get("workers")
    if workers is not None:
        return math.ceil(workers / processes), {}
    if not profile.adapt:
        raise InputError(_how_many(profile))
    adapt = _at_least_one(profile.adapt)
    least = adapt.get("minimum_jobs") or math.ceil(adapt["minimum"] / processes)
    return least, adapt


def _how_many(profile):
    return (
        f"how many workers is not said for a cluster of kind {profile.kind}; expected --workers N, "
        f"or scale: N or adapt: {{minimum: 1, maximum: N}} in geosweep.clusters.{profile.name} of "
        "Dask's configuration"
    )


def _at_least_one(adapt):
    """Arguments of ``adapt`` with a worker to begin with: only its work calls for others."""
    if not adapt:
        return {}
    least = "minimum_jobs" if "minimum_jobs" in adapt else "minimum"
    return {**adapt, least: max(1, adapt.get(least, 0))}


def _by_job(processes):
    """Arguments of ``adapt`` for it to end jobs of several processes only when all are idle."""
    return {"worker_key": _job_of} if processes > 1 else {}


def _job_of(worker):
    return str(worker.name).rpartition("-")[0]


async def _submit(cluster, jobs):
    """Submit jobs, and raise what the batch system says; ``scale`` would only log it."""
    for _ in range(jobs):
        cluster.worker_spec.update(cluster.new_worker_spec())
    await cluster


def _start_kubernetes(profile, workers, security):
    """A cluster of pods, which Dask's operator starts."""
    made, options = cluster_class(KUBERNETES), dict(profile.options)
    if security is not None:
        raise InputError(
            "Dask's operator starts no scheduler with certificates: start one by a manifest that "
            "mounts them, and use --scheduler tls://…"
        )
    workers, adapt = workers or profile.scale.get("workers"), {}
    if workers is None:
        if not profile.adapt:
            raise InputError(_how_many(profile))
        adapt = _at_least_one(profile.adapt)
    options["n_workers"] = workers or adapt["minimum"]
    _complete_pods(options, profile)
    cluster = made(quiet=True, **options)
    if adapt:
        cluster.adapt(**adapt)
    return cluster


def _complete_pods(options, profile):
    """Add what the pods need, unless their whole specification is given."""

    def setting(key):
        return options.get(key) or dask.config.get(f"kubernetes.{key}", None)

    if setting("custom_cluster_spec"):
        return
    image = setting("image") or STANDARD_IMAGE
    if image.startswith(STANDARD_IMAGE):
        raise InputError(
            f"profile {profile.name!r} has no image with Geosweep in it, only {image}; expected "
            "image: in the profile, or kubernetes.image in Dask's configuration"
        )
    if setting("worker_command") in (None, "dask-worker"):
        options["worker_command"] = ["dask-worker", "--nthreads", "1"]
    own = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(DEATHS)}
    env = setting("env") or {}
    if isinstance(env, dict):
        options["env"] = {**own, **env}
    else:
        options["env"] = [*({"name": key, "value": own[key]} for key in own), *env]


def _wait_for_worker(client, profile, check, told):
    """Wait until there is one, as long as jobs queue."""
    began, said = time.monotonic(), False
    while not client.nthreads():
        check()
        if client.status != "running":
            raise InputError(_does_not_start(profile, "its scheduler has ended"))
        if not said and time.monotonic() > began + SOON:
            told(_waiting(profile))
            said = True
        time.sleep(LOOK_SECONDS)


def _waiting(profile):
    where = {"slurm": "squeue", "pbs": "qstat", "lsf": "bjobs", "sge": "qstat"}
    look = f", `{where[profile.kind]}` shows its jobs" if profile.kind in JOBS else ""
    look = ", `kubectl get pods` shows its pods" if profile.kind == KUBERNETES else look
    return f"Waiting for the first worker of {profile.name} ({profile.kind}{look}); Ctrl-C ends it"


def _does_not_start(profile, error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    said = " ".join(lines) if lines else type(error).__name__
    return f"the cluster of profile {profile.name!r} ({profile.kind}) does not start: {said}"
