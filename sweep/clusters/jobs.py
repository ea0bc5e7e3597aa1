"""Clusters of batch systems and Kubernetes, by dask-jobqueue and dask-kubernetes."""

import asyncio
import contextlib
import functools
import importlib
import inspect
import math
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dask
from distributed import Security, SpecCluster
from distributed.deploy import Adaptive

from integrators.errors import InputError, suggest_nearest
from sweep.clusters.profiles import JOBS, KUBERNETES, Profile
from sweep.clusters.spec import LOCAL

SETTINGS = {
    # Dask blames every task that a dying worker held, also those that only waited there.
    "distributed.scheduler.allowed-failures": 5,
    "distributed.logging.distributed": "error",
    "distributed.worker.profile.enabled": False,
}
JOB_SECONDS = "60s"  # of work that a further worker is to have: its job queues and loads first
COORDINATOR = {"cores": 2, "memory": "4GB"}  # its job, with the scheduler
SIZES = ("cores", "memory", "processes", "job_cpu", "job_mem", "mem", "ncpus", "resource_spec")
STANDARD_IMAGE = "ghcr.io/dask/dask"
OF_PODS = ("image", "worker_command", "custom_cluster_spec")
LOCAL_OPTIONS = ("host", "interface", "memory_limit", "local_directory", "dashboard_address")


def dask_cluster_class(kind: str) -> Any:
    """The class of a queue's or Kubernetes' cluster, of an optional package.

    Raises
    ------
    InputError
        If the package is not installed: how to do that.
    """
    extra = "jobqueue" if kind in JOBS else KUBERNETES
    module = "dask_jobqueue" if kind in JOBS else "dask_kubernetes.operator"
    try:
        with _signal_handlers_kept():
            return getattr(importlib.import_module(module), JOBS.get(kind, "KubeCluster"))
    except ImportError as error:
        raise InputError(
            f"a cluster of kind {kind} needs dask-{extra} ({error}): "
            f"pip install 'geosweep[{extra}]'"
        ) from None


@contextlib.contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """dask_jobqueue sets a handler for Ctrl-C as it is imported, which would end us at once."""
    setter = signal.signal
    signal.signal = lambda signalnum, handler: signal.getsignal(signalnum)
    try:
        yield
    finally:
        signal.signal = setter


def start_failure(
    profile: Profile, error: object, what: str = "cluster", ends: str = "does not start"
) -> InputError:
    """The error that what a profile describes does not start, with what its class says of that."""
    said = " ".join(line for line in str(error).splitlines() if line.strip())
    if unexpected := re.search(r"unexpected keyword argument '(\w+)'", said):
        known = LOCAL_OPTIONS if profile.kind == LOCAL else _option_names(profile.kind)
        said = f"unknown key {unexpected[1]!r}.{suggest_nearest(unexpected[1], known)}"
    return InputError(
        f"the {what} of profile {profile.name!r} ({profile.kind}) {ends}: "
        f"{said or type(error).__name__}"
    )


def _option_names(kind: str) -> list[str]:
    """Names that the class of a kind of clusters, and that of its jobs, know."""
    made = dask_cluster_class(kind)
    return sorted(_argument_names(made) | _argument_names(getattr(made, "job_cls", made)))


def _argument_names(made: Any) -> set[str]:
    return {name for base in made.__mro__ for name in inspect.signature(base.__init__).parameters}


def start_batch_jobs(profile: Profile, security: Security | None) -> SpecCluster:
    """A cluster of a batch system's jobs, which are submitted; one that has ended, again.

    Parameters
    ----------
    profile : Profile
        Of one of the kinds `sweep.clusters.profiles.JOBS`.
    security : distributed.Security or None

    Raises
    ------
    InputError
        If it is not said how many. Whatever the batch system says is raised as it is.
    """
    made = dask_cluster_class(profile.kind)
    options, jobs, adapt = _batch_cluster_options(profile)
    with dask.config.set(SETTINGS):
        cluster: SpecCluster = made(security=security, **options)
    try:
        cluster.sync(_submit_batch_jobs, cluster, jobs)
    except BaseException:
        with contextlib.suppress(Exception):  # it asserts that all jobs have begun
            cluster.close()
        raise
    # Jobs of several processes are ended only when all of them are idle.
    together = (
        (lambda worker: str(worker.name).rpartition("-")[0]) if options["processes"] > 1 else None
    )
    cluster.adapt(Resubmitting, **adapt, worker_key=together)
    return cluster


async def _submit_batch_jobs(cluster: SpecCluster, jobs: int) -> None:
    """Submit jobs, and raise what the batch system says; ``scale`` would only log it."""
    for _ in range(jobs):
        cluster.worker_spec.update(cluster.new_worker_spec())
    await cluster


def _batch_cluster_options(profile: Profile) -> tuple[dict[str, Any], int, dict[str, Any]]:
    """Arguments of the cluster's class, number of jobs to begin with, arguments of ``adapt``."""
    options, setting = dict(profile.options), functools.partial(_jobqueue_setting, profile)
    processes = options.get("processes") or setting("processes")
    # Kernels have one thread; Dask's default is fewer processes of several. It counts them only
    # if it is told so here. Without cores it will refuse to start.
    options["processes"] = processes = processes or options.get("cores") or setting("cores") or 1
    if processes > 1 and options.get("nanny") is False:
        raise InputError(
            f"nanny = False in profile {profile.name!r}, with {processes} processes of a job; "
            "expected processes: 1, or a nanny, which starts several"
        )
    options["scheduler_options"] = {
        "dashboard_address": ":0",  # the default port may be taken
        **(setting("scheduler-options") or {}),
        **options.get("scheduler_options", {}),
    }
    _check_size(profile)
    if scale := profile.scale:
        jobs = scale.get("jobs") or math.ceil(scale["workers"] / processes)
        return options, jobs, {"minimum_jobs": jobs, "maximum_jobs": jobs}
    adapt = {"target_duration": JOB_SECONDS, **profile.adapt}
    return options, adapt.get("minimum_jobs") or math.ceil(adapt["minimum"] / processes), adapt


def _jobqueue_setting(profile: Profile, key: str) -> Any:
    name = profile.options.get("config_name", profile.kind)
    return dask.config.get(f"jobqueue.{name}.{key}", None)


def _check_size(profile: Profile) -> None:
    if not profile.scale and not profile.adapt:
        raise InputError(
            f"how many workers is not said for a cluster of kind {profile.kind}; expected "
            "`workers=N`, or scale: N or adapt: {minimum: 1, maximum: N} in "
            f"geosweep.clusters.{profile.name} of Dask's configuration"
        )


# --- coordinators -----------------------------------------------------------------------------


def check_coordinator_profile(profile: Profile) -> None:
    """Refuse a profile by which no coordinator can be submitted.

    Raises
    ------
    InputError
    """
    if profile.kind not in JOBS:
        raise InputError(
            f"profile {profile.name!r} is of kind {profile.kind}; expected one of a batch system "
            f"({', '.join(JOBS)}) or a running scheduler, since others end with this command"
        )
    options, *_ = _batch_cluster_options(profile)
    seconds_of_coordinator_job(profile)
    for own in (options, _coordinator_options(profile)):
        _job(profile, own)


def submit_coordinator_job(profile: Profile, name: str, function: str, text: str) -> str:
    """Submit a job that calls a function of Python with a text as its standard input.

    Parameters
    ----------
    profile : Profile
        Of a batch system. The job is one of its workers' jobs, but for its size and for what
        ``coordinator`` of the profile says.
    name : str
        Of the job.
    function : str
        As ``module:name``, without arguments.
    text : str
        A line.

    Returns
    -------
    str
        The job's id.

    Raises
    ------
    InputError
        With what the batch system says.
    """
    module, _, called = function.partition(":")
    python = profile.options.get("python") or _jobqueue_setting(profile, "python")
    command = shlex.join(
        [python or sys.executable, "-c", f"from {module} import {called}; {called}()"]
    )
    job = _job(profile, _coordinator_options(profile, name))
    # The shell stays, for what the prologue has it do at its end, and outlives SIGTERM.
    lines = f"cd {shlex.quote(os.getcwd())}", "trap : TERM", f"{command} <<'END'\n{text}\nEND"
    job._command_template = "\n".join(lines)
    try:
        with job.job_file() as file, ThreadPoolExecutor(1) as pool:  # here may be a running loop
            said = pool.submit(asyncio.run, job._submit_job(file)).result()
        number: str = job._job_id_from_submit_output(said)
        return number
    except (RuntimeError, ValueError, OSError) as error:
        raise start_failure(profile, error, "coordinator's job", "is not submitted") from error


def _coordinator_options(profile: Profile, name: str = "") -> dict[str, Any]:
    options = {key: value for key, value in profile.options.items() if key not in SIZES}
    own = {"name": "coordinator", "job_name": name, **COORDINATOR, "processes": 1}
    return options | own | profile.coordinator


def _job(profile: Profile, options: dict[str, Any]) -> Any:
    """A job of dask-jobqueue, which is not submitted: by options of a cluster or of a job."""
    made = dask_cluster_class(profile.kind)
    of_clusters = _argument_names(made) - _argument_names(made.job_cls)
    options = {key: value for key, value in options.items() if key not in of_clusters}
    try:
        return made.job_cls(scheduler="", **options)
    except (TypeError, ValueError) as error:
        raise start_failure(profile, error, "coordinator's job", "is not submitted") from error


def seconds_of_coordinator_job(profile: Profile) -> float:
    """The time limit of a coordinator's job in seconds, infinite without one.

    Raises
    ------
    InputError
        If it is not written in a way that is understood.
    """
    walltime = _coordinator_options(profile).get("walltime")
    text = walltime or _jobqueue_setting(profile, "walltime")
    if text is None:
        return math.inf
    form = r"()(?:(\d+):)?(\d+)()" if profile.kind == "lsf" else r"(?:(\d+)-)?(\d+):(\d+):(\d+)"
    if (found := re.fullmatch(form, str(text), re.ASCII)) is None:
        expected = '"08:00"' if profile.kind == "lsf" else '"08:00:00" or "2-00:00:00"'
        raise InputError(
            f"walltime = {text!r} in profile {profile.name!r}; expected such as {expected}, in "
            "quotes, there or in its coordinator:"
        )
    units = (86400.0, 3600.0, 60.0, 1.0)
    return sum(unit * float(part or 0) for unit, part in zip(units, found.groups(), strict=True))


# --- Kubernetes -------------------------------------------------------------------------------


def start_kubernetes_pods(profile: Profile, security: Security | None) -> Any:
    """A cluster of pods, which Dask's operator starts; parameters as of `start_batch_jobs`."""
    made, options = dask_cluster_class(KUBERNETES), dict(profile.options)
    if security is not None:
        raise InputError(
            "Dask's operator starts no scheduler with certificates: start one by a manifest that "
            "mounts them, and connect to its address, tls://…"
        )
    _check_size(profile)
    options["n_workers"] = profile.scale.get("workers") or profile.adapt["minimum"]
    own = {key: options.get(key) or dask.config.get(f"kubernetes.{key}", None) for key in OF_PODS}
    if not own["custom_cluster_spec"]:
        image = own["image"] or STANDARD_IMAGE
        if image.startswith(STANDARD_IMAGE):
            raise InputError(
                f"profile {profile.name!r} has no image with Geosweep in it, only {image}; "
                "expected image: in the profile, or kubernetes.image in Dask's configuration"
            )
        if own["worker_command"] in (None, "dask-worker"):
            options["worker_command"] = ["dask-worker", "--nthreads", "1"]
    _check_kubernetes_answers()
    cluster = made(quiet=True, **options)
    if profile.adapt:
        cluster.adapt(**profile.adapt)
    return cluster


def _check_kubernetes_answers() -> None:
    """Refuse to start where no Kubernetes answers: the cluster's class leaves a mess then."""
    import kr8s

    try:
        kr8s.api().version()
    except Exception as error:  # of its own, of httpx or of ssl
        raise InputError(
            f"no Kubernetes answers ({type(error).__name__}: {error}); expected one that `kubectl "
            "get daskclusters` reaches, by KUBECONFIG or ~/.kube/config, with Dask's operator"
        ) from None


# --- scaling ----------------------------------------------------------------------------------


class FollowingWork(Adaptive):
    """Dask's adaptive scaling, which grows at once to the workers that the remaining work needs.

    Dask counts the tasks that its scheduler has. A coordinator submits only two per worker and
    keeps the others, so that by Dask's own count a cluster would only double each time its jobs
    have queued. Each worker should have ``target_duration`` of work, and a task; Dask decides only
    which are idle.
    """

    work_left: tuple[float, int] | None = None  # seconds and tasks, set by a coordinator

    async def target(self) -> int:
        """Number of workers that there should be."""
        known: int = await super().target()
        if self.work_left is None:
            return known
        seconds, tasks = self.work_left
        worth: int = min(tasks, math.ceil(seconds / self.target_duration))
        return max(worth, min(known, len(self.observed)))


class Resubmitting(FollowingWork):
    """Adaptive scaling that also resubmits ended jobs of several processes: walltime, lost nodes.

    A job that had workers is submitted again when it has had none for as long as Dask lets lost
    workers reconnect.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # By job that has had workers: since when it has none.
        self._lost: dict[Any, float | None] = {}
        super().__init__(*arguments, **options)

    async def recommendations(self, target: int) -> dict[str, Any]:
        """As Dask's, after ended jobs are forgotten, which then are submitted again."""
        timeout = dask.config.get("distributed.deploy.lost-worker-timeout")
        patience, now = dask.utils.parse_timedelta(timeout), time.monotonic()
        observed = {str(name) for name in self.observed}
        cluster: Any = self.cluster  # a SpecCluster, which has more than its type says
        for name, job in list(cluster.workers.items()):
            group = cluster.worker_spec.get(name, {}).get("group", ())
            if any(f"{name}{part}" in observed for part in group):
                self._lost[name] = None
            elif name in self._lost:
                since = self._lost[name] = self._lost[name] or now
                if now > since + patience:
                    del self._lost[name], cluster.workers[name]
                    await job.close()
        return await super().recommendations(target)
