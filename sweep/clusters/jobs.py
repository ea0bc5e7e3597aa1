"""Clusters on batch systems and Kubernetes, with dask-jobqueue and dask-kubernetes."""

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
    # Dask counts the death of a worker against every task on it, including those that only waited.
    "distributed.scheduler.allowed-failures": 5,
    "distributed.admin.tick.interval": "1s",  # only for warnings; 20 ms take 5 % of a core
    "distributed.logging.distributed": "error",
    "distributed.worker.profile.enabled": False,
}
JOB_SECONDS = "60s"  # least work for a further worker, whose job has to queue and to load first
COORDINATOR = {"cores": 2, "memory": "4GB"}  # of its job, in which the scheduler runs as well
SIZES = ("cores", "memory", "processes", "job_cpu", "job_mem", "mem", "ncpus", "resource_spec")
STANDARD_IMAGE = "ghcr.io/dask/dask"
OF_PODS = ("image", "worker_command", "custom_cluster_spec")
LOCAL_OPTIONS = ("host", "interface", "memory_limit", "local_directory", "dashboard_address")


def dask_cluster_class(kind: str) -> Any:
    """The cluster class for a batch system or Kubernetes, from an optional package.

    Raises
    ------
    InputError
        If the package is not installed. The message says how to install it.
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
    """Restore signal handlers after importing dask_jobqueue, which replaces that of Ctrl-C."""
    setter = signal.signal
    signal.signal = lambda signalnum, handler: signal.getsignal(signalnum)
    try:
        yield
    finally:
        signal.signal = setter


def start_failure(
    profile: Profile, error: object, what: str = "cluster", ends: str = "does not start"
) -> InputError:
    """The `InputError` for a profile whose cluster or job does not start, with the reason.

    Parameters
    ----------
    profile : Profile
    error : object
        The exception or text that says why.
    what, ends : str
        What failed, and how.

    Returns
    -------
    InputError
    """
    said = " ".join(line for line in str(error).splitlines() if line.strip())
    if unexpected := re.search(r"unexpected keyword argument '(\w+)'", said):
        key, own = unexpected[1], profile.kind == LOCAL
        known = ["scale", "adapt", *(LOCAL_OPTIONS if own else _option_names(profile.kind))]
        hint = (
            " For the number of workers: scale" if "workers" in key else suggest_nearest(key, known)
        )
        said = f"unknown key {key!r}.{hint}"
    # Dask's example is a call of its class.
    said = re.sub(", for example: cluster = .*", ", as `sweep guide cluster` shows a profile", said)
    return InputError(
        f"the {what} of profile {profile.name!r} ({profile.kind}) {ends}: "
        f"{said or type(error).__name__}"
    )


def _option_names(kind: str) -> list[str]:
    """Argument names of the cluster class of a kind, and of its job class."""
    made = dask_cluster_class(kind)
    return sorted(_argument_names(made) | _argument_names(getattr(made, "job_cls", made)))


def _argument_names(made: Any) -> set[str]:
    return {name for base in made.__mro__ for name in inspect.signature(base.__init__).parameters}


def start_batch_jobs(profile: Profile, security: Security | None) -> SpecCluster:
    """Start a cluster of batch jobs; jobs that end are submitted again.

    Parameters
    ----------
    profile : Profile
        A profile whose kind is in `sweep.clusters.profiles.JOBS`.
    security : distributed.Security or None

    Returns
    -------
    distributed.SpecCluster

    Raises
    ------
    InputError
        If the number of jobs is not given. Errors of the batch system are raised unchanged.
    """
    made = dask_cluster_class(profile.kind)
    options, jobs, adapt = _batch_cluster_options(profile)
    with dask.config.set(SETTINGS):
        cluster: SpecCluster = made(security=security, **options)
    try:
        cluster.sync(_submit_batch_jobs, cluster, jobs)
    except BaseException:
        with contextlib.suppress(Exception):  # Dask asserts here that all jobs have begun
            cluster.close()
        raise
    # A job of several processes is ended only when all of its processes are idle.
    together = (
        (lambda worker: str(worker.name).rpartition("-")[0]) if options["processes"] > 1 else None
    )
    cluster.adapt(AdaptiveWithResubmission, **adapt, worker_key=together)
    return cluster


async def _submit_batch_jobs(cluster: SpecCluster, jobs: int) -> None:
    """Submit jobs, and raise errors of the batch system, which ``scale`` would only log."""
    for _ in range(jobs):
        cluster.worker_spec.update(cluster.new_worker_spec())
    await cluster


def _batch_cluster_options(profile: Profile) -> tuple[dict[str, Any], int, dict[str, Any]]:
    """Arguments of the cluster class, initial number of jobs, and arguments of ``adapt``."""
    options, setting = dict(profile.options), functools.partial(_jobqueue_setting, profile)
    processes = options.get("processes") or setting("processes")
    # One process per core, since kernels use one thread; Dask's default is fewer processes with
    # several threads. Without cores, the class refuses to start.
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
            f"a cluster of kind {profile.kind} needs a number of workers: "
            "`workers=N`, or scale: N or adapt: {minimum: 1, maximum: N} in "
            f"geosweep.clusters.{profile.name} of Dask's configuration"
        )


# --- coordinators -----------------------------------------------------------------------------


def check_coordinator_profile(profile: Profile) -> None:
    """Refuse a profile with which a coordinator cannot be submitted.

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
    """Submit a batch job that calls a Python function with a text as its standard input.

    Parameters
    ----------
    profile : Profile
        Profile of a batch system. The job has the options of a worker's job, except its size and
        the options under ``coordinator`` of the profile.
    name : str
        Name of the job.
    function : str
        A function without arguments, as ``module:name``.
    text : str
        One line of text.

    Returns
    -------
    str
        The job's id.

    Raises
    ------
    InputError
        If the job is not submitted. The message has the error of the batch system.
    """
    module, _, called = function.partition(":")
    python = profile.options.get("python") or _jobqueue_setting(profile, "python")
    command = shlex.join(
        [python or sys.executable, "-c", f"from {module} import {called}; {called}()"]
    )
    job = _job(profile, _coordinator_options(profile, name))
    # The shell ignores SIGTERM and stays, so that it can run what the prologue sets up for its end.
    lines = f"cd {shlex.quote(os.getcwd())}", "trap : TERM", f"{command} <<'END'\n{text}\nEND"
    job._command_template = "\n".join(lines)
    try:
        with job.job_file() as file, ThreadPoolExecutor(1) as pool:  # this thread may run a loop
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
    """Make a job of dask-jobqueue from options of a cluster or a job, without submitting it."""
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
        If the time limit cannot be parsed.
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
    """Start a cluster of pods with Dask's operator; parameters as in `start_batch_jobs`."""
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
    """Refuse to start if Kubernetes does not answer: the cluster class would not clean up."""
    import kr8s

    try:
        kr8s.api().version()
    except Exception as error:  # from the Kubernetes client, httpx or ssl
        raise InputError(
            f"no Kubernetes answers ({type(error).__name__}: {error}); expected one that `kubectl "
            "get daskclusters` reaches, by KUBECONFIG or ~/.kube/config, with Dask's operator"
        ) from None


# --- scaling ----------------------------------------------------------------------------------


class AdaptiveToRemainingWork(Adaptive):
    """Adaptive scaling that grows at once to the number of workers that the remaining work needs.

    Dask counts only tasks that its scheduler has. A coordinator submits two per worker and keeps
    the others, so that Dask's own target would only double the cluster each time that its jobs have
    started. Here, the target gives each worker ``target_duration`` of work, and at least one task.
    Dask still decides which workers are idle.
    """

    work_left: tuple[float, int] | None = None  # seconds and tasks, set by a coordinator

    async def target(self) -> int:
        """The target number of workers."""
        known: int = await super().target()
        if self.work_left is None:
            return known
        seconds, tasks = self.work_left
        worth: int = min(tasks, math.ceil(seconds / self.target_duration))
        return max(worth, min(known, len(self.observed)))


class AdaptiveWithResubmission(AdaptiveToRemainingWork):
    """Adaptive scaling that also resubmits ended jobs of several processes.

    A job ends at its walltime, or with the loss of its node. A job that had workers is submitted
    again once it has had none for as long as Dask waits for lost workers to reconnect.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # For each job that has had workers, the time since when it has none.
        self._lost: dict[Any, float | None] = {}
        super().__init__(*arguments, **options)

    async def recommendations(self, target: int) -> dict[str, Any]:
        """Forget ended jobs, so that Dask's recommendations submit them again."""
        timeout = dask.config.get("distributed.deploy.lost-worker-timeout")
        patience, now = dask.utils.parse_timedelta(timeout), time.monotonic()
        observed = {str(name) for name in self.observed}
        cluster: Any = self.cluster  # a SpecCluster; its declared type lacks some attributes
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
