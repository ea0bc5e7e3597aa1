"""Clusters of batch systems and Kubernetes, by dask-jobqueue and dask-kubernetes."""

import asyncio
import contextlib
import functools
import inspect
import math
import os
import re
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dask
from distributed import Security, SpecCluster

from integrators.errors import InputError
from sweep.clusters.adaptive import Resubmitting
from sweep.clusters.profiles import JOBS, KUBERNETES, Profile, dask_cluster_class

DEATHS = 5  # of workers, with one task each time, before a cluster that we start hands it back
SETTINGS = {
    # Dask blames every task that a dying worker held, also those that only waited there.
    "distributed.scheduler.allowed-failures": DEATHS,
    "distributed.logging.distributed": "error",
    "distributed.worker.profile.enabled": False,
}
JOB_SECONDS = "60s"  # of work that a further worker is to have: its job queues and loads first
COORDINATOR = {"cores": 2, "memory": "4GB"}  # its job, with the scheduler
SIZES = ("cores", "memory", "processes", "job_cpu", "job_mem", "mem", "ncpus", "resource_spec")
STANDARD_IMAGE = "ghcr.io/dask/dask"


def start_batch_jobs(
    profile: Profile, workers: int | None, security: Security | None
) -> SpecCluster:
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
    made = dask_cluster_class(profile.kind)
    options, jobs, adapt = _batch_cluster_options(profile, workers)
    with dask.config.set(SETTINGS):
        cluster: SpecCluster = made(security=security, **options)
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


def _batch_cluster_options(
    profile: Profile, workers: int | None
) -> tuple[dict[str, Any], int, dict[str, Any]]:
    """Arguments of the cluster's class, number of jobs to begin with, arguments of ``adapt``."""
    name = _config_name(profile)
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
    if options["processes"] > 1 and options.get("nanny") is False:
        raise InputError(
            f"nanny = False in profile {profile.name!r}, with {options['processes']} processes of "
            "a job; expected processes: 1, or a nanny, which starts several"
        )
    options["scheduler_options"] = {
        "dashboard_address": ":0",  # the default port may be taken
        **(setting("scheduler-options") or {}),
        **options.get("scheduler_options", {}),
    }
    return options, *_initial_jobs_and_adapt(profile, workers, options["processes"])


def _jobqueue_setting(name: str, key: str) -> Any:
    return dask.config.get(f"jobqueue.{name}.{key}", None)


def _initial_jobs_and_adapt(
    profile: Profile, workers: int | None, processes: int
) -> tuple[int, dict[str, Any]]:
    """Number of jobs to begin with, and the arguments of ``adapt``."""
    scale, adapt = {} if workers else profile.scale, {} if workers else profile.adapt
    workers = workers or scale.get("workers")
    jobs = math.ceil(workers / processes) if workers else scale.get("jobs")
    if jobs:
        return jobs, {"minimum_jobs": jobs, "maximum_jobs": jobs}
    if not adapt:
        raise InputError(missing_worker_count_message(profile))
    adapt = {"target_duration": JOB_SECONDS, **adapt_from_one_worker(adapt)}
    return adapt.get("minimum_jobs") or math.ceil(adapt["minimum"] / processes), adapt


def missing_worker_count_message(profile: Profile) -> str:
    """The message that the number of workers is not said."""
    return (
        f"how many workers is not said for a cluster of kind {profile.kind}; expected `workers=N`, "
        "or scale: N or adapt: {minimum: 1, maximum: N} in "
        f"geosweep.clusters.{profile.name} of Dask's configuration"
    )


def adapt_from_one_worker(adapt: dict[str, Any]) -> dict[str, Any]:
    """Arguments of ``adapt`` with a worker to begin with: only its work calls for others."""
    if not adapt:
        return {}
    least = "minimum_jobs" if "minimum_jobs" in adapt else "minimum"
    return {**adapt, least: max(1, adapt.get(least, 0))}


def _batch_job_of_worker(worker: Any) -> str:
    """Jobs of several processes are ended only when all of them are idle."""
    return str(worker.name).rpartition("-")[0]


def check_coordinator_profile(profile: Profile, workers: int | None) -> None:
    """Refuse a profile by which no coordinator can be submitted; parameters as `start_batch_jobs`.

    Raises
    ------
    InputError
    """
    if profile.kind not in JOBS:
        raise InputError(
            f"profile {profile.name!r} is of kind {profile.kind}; expected one of a batch system "
            f"({', '.join(JOBS)}) or a running scheduler, since others end with this command"
        )
    _batch_cluster_options(profile, workers)
    seconds_of_coordinator_job(profile)


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
    made, options = _coordinator_job(profile, name)
    module, _, called = function.partition(":")
    python = options.get("python") or _jobqueue_setting(_config_name(profile), "python")
    command = shlex.join(
        [python or sys.executable, "-c", f"from {module} import {called}; {called}()"]
    )
    try:
        job = made(scheduler="", name="coordinator", **options)
        # The shell stays, for what the prologue has it do at its end, and outlives SIGTERM.
        lines = f"cd {shlex.quote(os.getcwd())}", "trap : TERM", f"{command} <<'END'\n{text}\nEND"
        job._command_template = "\n".join(lines)
        with job.job_file() as file, ThreadPoolExecutor(1) as pool:  # here may be a running loop
            said = pool.submit(asyncio.run, job._submit_job(file)).result()
        number: str = job._job_id_from_submit_output(said)
        return number
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        said = " ".join(line for line in str(error).splitlines() if line.strip())
        raise InputError(
            f"the coordinator's job of profile {profile.name!r} ({profile.kind}) is not submitted: "
            f"{said}"
        ) from error


def _config_name(profile: Profile) -> str:
    name: str = profile.options.get("config_name", profile.kind)
    return name


def _coordinator_job(profile: Profile, name: str) -> tuple[Any, dict[str, Any]]:
    """The class of a coordinator's job, and its arguments."""
    made = dask_cluster_class(profile.kind).job_cls
    known = {key for base in made.__mro__ for key in inspect.signature(base.__init__).parameters}
    options = {key: value for key, value in profile.options.items() if key not in SIZES}
    options |= {**COORDINATOR, "processes": 1, "job_name": name, **profile.coordinator}
    return made, {key: value for key, value in options.items() if key in known}


def seconds_of_coordinator_job(profile: Profile) -> float:
    """The time limit of a coordinator's job in seconds, infinite without one.

    Raises
    ------
    InputError
        If it is not written in a way that is understood.
    """
    _, options = _coordinator_job(profile, "")
    text = options.get("walltime") or _jobqueue_setting(_config_name(profile), "walltime")
    if text is None:
        return math.inf
    n = r"(\d{1,9})"
    form = rf"()(?:{n}:)?{n}()" if profile.kind == "lsf" else rf"(?:{n}-)?{n}:{n}:{n}"
    if (found := re.fullmatch(form, str(text))) is None:
        expected = '"08:00"' if profile.kind == "lsf" else '"08:00:00" or "2-00:00:00"'
        raise InputError(
            f"walltime = {text!r} in profile {profile.name!r}; expected such as {expected}, in "
            "quotes, there or in its coordinator:"
        )
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24.0 + hours) * 60.0 + minutes) * 60.0 + seconds


async def _submit_batch_jobs(cluster: SpecCluster, jobs: int) -> None:
    """Submit jobs, and raise what the batch system says; ``scale`` would only log it."""
    for _ in range(jobs):
        cluster.worker_spec.update(cluster.new_worker_spec())
    await cluster


def start_kubernetes_pods(profile: Profile, workers: int | None, security: Security | None) -> Any:
    """A cluster of pods, which Dask's operator starts; parameters as of `start_batch_jobs`."""
    made, options = dask_cluster_class(KUBERNETES), dict(profile.options)
    if security is not None:
        raise InputError(
            "Dask's operator starts no scheduler with certificates: start one by a manifest that "
            "mounts them, and connect to its address, tls://…"
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


def _complete_pod_options(options: dict[str, Any], profile: Profile) -> None:
    """Add what the pods need, unless their whole specification is given."""

    def setting(key: str) -> Any:
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
