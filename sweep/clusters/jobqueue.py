"""Clusters of batch systems and Kubernetes, by dask-jobqueue and dask-kubernetes."""

import contextlib
import functools
import math
import time

import dask
from distributed.deploy import Adaptive

from integrators.errors import InputError
from sweep.clusters.profiles import KUBERNETES, dask_cluster_class

DEATHS = 5  # of workers, with one task each time, before a cluster that we start hands it back
SETTINGS = {
    # Dask blames every task that a dying worker held, also those that only waited there.
    "distributed.scheduler.allowed-failures": DEATHS,
    "distributed.logging.distributed": "error",
    "distributed.worker.profile.enabled": False,
}
STANDARD_IMAGE = "ghcr.io/dask/dask"


def start_batch_jobs(profile, workers, security):
    """A cluster of a batch system's jobs, which are submitted; one that has ended, again.

    Parameters
    ----------
    profile : Profile
        Of one of the kinds `sweep.clusters.profiles.JOBS`.
    workers : int or None
        In place of what it says.
    security : distributed.Security or None

    Raises
    ------
    InputError
        If it is not said how many. Whatever the batch system says is raised as it is.
    """
    made, name = dask_cluster_class(profile.kind), profile.options.get("config_name", profile.kind)
    setting = functools.partial(_jobqueue_setting, name)
    options = dict(profile.options)
    for key in ("cores", "memory"):
        if not options.get(key) and not setting(key):
            raise InputError(
                f"profile {profile.name!r} says no {key}; expected cores: and memory: of one job, "
                f"there or in jobqueue.{name} of Dask's configuration"
            )
    processes = options.get("processes") or setting("processes")
    # Kernels have one thread; Dask's default is fewer processes of several. It counts them only
    # if it is told so here.
    options["processes"] = processes or options.get("cores") or setting("cores")
    options["scheduler_options"] = {
        "dashboard_address": ":0",  # the default port may be taken
        **(setting("scheduler-options") or {}),
        **options.get("scheduler_options", {}),
    }
    jobs, adapt = _initial_jobs_and_adapt(profile, workers, options["processes"])
    with dask.config.set(SETTINGS):
        cluster = made(security=security, **options)
    try:
        cluster.sync(_submit_batch_jobs, cluster, jobs)
    except BaseException:
        with contextlib.suppress(Exception):  # it asserts that all jobs have begun
            cluster.close()
        raise
    cluster.adapt(
        Resubmitting, **adapt, worker_key=_batch_job_of_worker if options["processes"] > 1 else None
    )
    return cluster


def _jobqueue_setting(name, key):
    return dask.config.get(f"jobqueue.{name}.{key}", None)


def _initial_jobs_and_adapt(profile, workers, processes):
    """Number of jobs to begin with, and the arguments of ``adapt``."""
    scale, adapt = {} if workers else profile.scale, {} if workers else profile.adapt
    workers = workers or scale.get("workers")
    jobs = math.ceil(workers / processes) if workers else scale.get("jobs")
    if jobs:
        return jobs, {"minimum_jobs": jobs, "maximum_jobs": jobs}
    if not adapt:
        raise InputError(missing_worker_count_message(profile))
    adapt = adapt_from_one_worker(adapt)
    return adapt.get("minimum_jobs") or math.ceil(adapt["minimum"] / processes), adapt


def missing_worker_count_message(profile):
    """The message that the number of workers is not said."""
    return (
        f"how many workers is not said for a cluster of kind {profile.kind}; expected --workers N, "
        f"or scale: N or adapt: {{minimum: 1, maximum: N}} in geosweep.clusters.{profile.name} of "
        "Dask's configuration"
    )


def adapt_from_one_worker(adapt):
    """Arguments of ``adapt`` with a worker to begin with: only its work calls for others."""
    if not adapt:
        return {}
    least = "minimum_jobs" if "minimum_jobs" in adapt else "minimum"
    return {**adapt, least: max(1, adapt.get(least, 0))}


def _batch_job_of_worker(worker):
    """Jobs of several processes are ended only when all of them are idle."""
    return str(worker.name).rpartition("-")[0]


async def _submit_batch_jobs(cluster, jobs):
    """Submit jobs, and raise what the batch system says; ``scale`` would only log it."""
    for _ in range(jobs):
        cluster.worker_spec.update(cluster.new_worker_spec())
    await cluster


class Resubmitting(Adaptive):
    """Dask's, that also sees the end of jobs of several processes: their walltime, a lost node.

    A job that had workers, and has had none for as long as Dask gives lost workers to come back,
    is submitted again.
    """

    def __init__(self, *arguments, **options):
        self._lost = {}  # by job that has had workers: since when it has none
        super().__init__(*arguments, **options)

    async def recommendations(self, target):
        """As Dask's, after ended jobs are forgotten, which then are submitted again."""
        timeout = dask.config.get("distributed.deploy.lost-worker-timeout")
        patience, now = dask.utils.parse_timedelta(timeout), time.monotonic()
        observed = {str(name) for name in self.observed}
        for name, job in list(self.cluster.workers.items()):
            group = self.cluster.worker_spec.get(name, {}).get("group", ())
            if any(f"{name}{part}" in observed for part in group):
                self._lost[name] = None
            elif name in self._lost:
                since = self._lost[name] = self._lost[name] or now
                if now > since + patience:
                    del self._lost[name], self.cluster.workers[name]
                    await job.close()
        return await super().recommendations(target)


def start_kubernetes_pods(profile, workers, security):
    """A cluster of pods, which Dask's operator starts; parameters as of `start_batch_jobs`."""
    made, options = dask_cluster_class(KUBERNETES), dict(profile.options)
    if security is not None:
        raise InputError(
            "Dask's operator starts no scheduler with certificates: start one by a manifest that "
            "mounts them, and use --scheduler tls://…"
        )
    workers, adapt = workers or profile.scale.get("workers"), {}
    if not workers:
        if not profile.adapt:
            raise InputError(missing_worker_count_message(profile))
        adapt = adapt_from_one_worker(profile.adapt)
    options["n_workers"] = workers or adapt["minimum"]
    _complete_pod_options(options, profile)
    _check_kubernetes_answers()
    cluster = made(quiet=True, **options)
    if adapt:
        cluster.adapt(**adapt)
    return cluster


def _check_kubernetes_answers():
    """Refuse to start where no Kubernetes answers: the cluster's class leaves a mess then."""
    import kr8s

    try:
        kr8s.api().version()
    except Exception as error:  # of its own, of httpx or of ssl
        raise InputError(
            f"no Kubernetes answers ({type(error).__name__}: {error}); expected one that `kubectl "
            "get daskclusters` reaches, by KUBECONFIG or ~/.kube/config, with Dask's operator"
        ) from None


def _complete_pod_options(options, profile):
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
