"""Profiles: the kinds of clusters that can be started, and those in the user's configuration.

A profile is a mapping under ``geosweep.clusters.NAME`` in Dask's configuration: its ``kind``,
arguments of that kind's class, and ``scale`` or ``adapt``. A kind is a profile by itself::

    geosweep:
      clusters:
        night:
          kind: slurm
          cores: 16
          memory: 32GB
          walltime: "08:00:00"
          adapt: {minimum: 16, maximum: 512}
"""

import contextlib
import importlib
import inspect
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import dask

from integrators.errors import InputError, check_known, check_whole, suggest_nearest
from sweep.clusters.spec import LOCAL, ClusterSpec

JOBS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster"}
KUBERNETES, SCHEDULER = "kubernetes", "scheduler"
KINDS = (LOCAL, *JOBS, KUBERNETES, SCHEDULER)

TLS = ("tls_ca_file", "tls_cert", "tls_key")
ADDRESS = ("address", "scheduler_file")
LOCAL_OPTIONS = ("host", "interface", "memory_limit", "local_directory", "dashboard_address")
OURS = (  # of the arguments of clusters and jobs: ours, or of no use to a user
    "self", "args", "kwargs", "job_kwargs", "base_class_kwargs", "asynchronous", "loop", "security",
    "protocol", "n_workers", "scheduler", "job_cls", "scheduler_cls", "silence_logs", "quiet",
    "dashboard_address", "host", "create_mode", "shutdown_on_close",
)  # fmt: skip
BOUNDS = ("minimum", "maximum")
JOB_BOUNDS = ("minimum_jobs", "maximum_jobs")
PACE = ("interval", "wait_count", "target_duration")


@dataclass(frozen=True)
class Profile:
    """A cluster that can be started, or a scheduler that runs; checked when it is made.

    Parameters
    ----------
    name : str
    kind : str
        One of `KINDS`.
    options : dict
        Arguments of the kind's class, with underscores.
    scale : dict
        ``workers``, or ``jobs`` of a queue: how many to start. Empty if that is not said.
    adapt : dict
        Instead, arguments of the cluster's ``adapt``.
    coordinator : dict
        Options of the job in which a submitted coordinator runs, where they are others.

    Raises
    ------
    InputError
        Names the key that is unknown, and what is known.
    """

    name: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    scale: dict[str, int] = field(default_factory=dict)
    adapt: dict[str, Any] = field(default_factory=dict)
    coordinator: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"profile {self.name!r}"
        for key in self.options:
            known = ("scale", "adapt", *known_profile_options(self.kind))
            known += ("coordinator",) if self.kind in JOBS else ()
            check_known(f"key in {where} of kind {self.kind}", key, known)
        if self.coordinator and self.kind not in JOBS:
            raise InputError(
                f"{where} of kind {self.kind} has a coordinator; expected that only of "
                f"{', '.join(JOBS)}"
            )
        for key in self.coordinator:
            known = known_profile_options(self.kind)
            check_known(f"key of coordinator in {where}", key, known)
        if self.scale and self.adapt:
            raise InputError(f"{where} has both scale and adapt; expected one of them")
        if self.kind == SCHEDULER:
            _check_scheduler_profile(where, self)
            return
        units = ("workers", "jobs") if self.kind in JOBS else ("workers",)
        for key, value in self.scale.items():
            check_known(f"key of scale in {where}", key, units)
            check_whole(f"{where}: scale {key}", value)
        for key in self.adapt:
            check_known(f"key of adapt in {where}", key, self._adapt_keys)
        for low, high in (BOUNDS, JOB_BOUNDS):
            self._check_bounds(where, low, high)
        if self.kind == KUBERNETES and self.adapt and "maximum" not in self.adapt:
            raise InputError(f"{where} has no maximum in adapt, which Kubernetes needs")

    def _check_bounds(self, where: str, low: str, high: str) -> None:
        least = check_whole(f"{where}: {low}", self.adapt.get(low, 0), 0)
        if high in self.adapt:
            check_whole(f"{where}: {high}", self.adapt[high], max(1, least))

    @property
    def _adapt_keys(self) -> tuple[str, ...]:
        if self.kind == KUBERNETES:
            return BOUNDS
        return BOUNDS + (JOB_BOUNDS if self.kind in JOBS else ()) + PACE


def _check_scheduler_profile(where: str, profile: Profile) -> None:
    if profile.scale or profile.adapt:
        raise InputError(f"{where} is a running scheduler's: expected no scale and no adapt")
    if len([name for name in ADDRESS if name in profile.options]) != 1:
        raise InputError(f"{where} is a scheduler's: expected an address or a scheduler-file")


def find_cluster_profile(name: str) -> Profile:
    """The `Profile` of a name in Dask's configuration, or of a kind.

    Raises
    ------
    InputError
        If there is none: lists those that there are.
    """
    profiles = dask.config.get("geosweep.clusters", None) or {}
    if not isinstance(profiles, dict):
        raise InputError(f"geosweep.clusters is {profiles!r}; expected a mapping of profiles")
    name = dask.config.canonical_name(name, profiles)
    if name not in profiles:
        if name in KINDS and name != SCHEDULER:
            return Profile(name, name)
        raise InputError(_unknown_profile_error(name, profiles))
    return _parse_cluster_profile(name, profiles[name])


def _unknown_profile_error(name: str, profiles: dict[str, Any]) -> str:
    every = [*dict.fromkeys([*KINDS, *profiles])]
    every.remove(SCHEDULER)
    near = suggest_nearest(name, every) if profiles else ""
    hint = near if "Did you mean" in near else ""
    return (
        f"unknown cluster profile {name!r}.{hint} There are: {', '.join(every)}. Add others under "
        "geosweep.clusters in a YAML file of Dask's configuration, which is read from: "
        f"{', '.join(map(str, dask.config.paths))}"
    )


def _parse_cluster_profile(name: str, found: Any) -> Profile:
    where = f"profile {name!r}"
    if not isinstance(found, dict):
        raise InputError(f"{where} is {found!r}; expected a mapping with a kind")
    keys = {str(key).replace("-", "_"): value for key, value in found.items()}
    kind = keys.pop("kind", name if name in KINDS else None)
    if kind is None:
        raise InputError(f"{where} has no kind; expected one of {', '.join(KINDS)}")
    check_known(f"kind in {where}", kind, KINDS)
    scale, adapt = keys.pop("scale", None), keys.pop("adapt", None)
    if scale is not None and not isinstance(scale, dict):
        scale = {"workers": scale}
    adapt = {} if adapt is None else adapt
    if not isinstance(adapt, dict):
        raise InputError(
            f"{where}: adapt is {adapt!r}; expected such as {{minimum: 1, maximum: 8}}"
        )
    adapt = {str(key).replace("-", "_"): value for key, value in adapt.items()}
    coordinator = keys.pop("coordinator", None) or {}
    if not isinstance(coordinator, dict):
        raise InputError(
            f"{where}: coordinator is {coordinator!r}; expected such as {{memory: 8GB}}"
        )
    coordinator = {str(key).replace("-", "_"): value for key, value in coordinator.items()}
    return Profile(name, kind, keys, scale or {}, adapt, coordinator)


def known_profile_options(kind: str) -> tuple[str, ...]:
    """Names of the arguments that a profile of a kind may have, beside scale and adapt."""
    if kind == LOCAL:
        return (*LOCAL_OPTIONS, *TLS)
    if kind == SCHEDULER:
        return (*ADDRESS, *TLS)
    cluster = dask_cluster_class(kind)
    classes = [*cluster.__mro__, *getattr(cluster, "job_cls", cluster).__mro__]
    if kind == KUBERNETES:
        classes = classes[:1]  # what its bases know is set by it
    names = dict.fromkeys(
        name
        for found in classes
        if found.__module__.startswith(("dask_jobqueue", "dask_kubernetes"))
        for name in inspect.signature(found.__init__).parameters
    )
    return (*(name for name in names if name not in OURS), *(TLS if kind in JOBS else ()))


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


def resolve_cluster_spec(spec: ClusterSpec) -> tuple[ClusterSpec, Profile | None]:
    """What to start or to reach, for a `ClusterSpec`.

    Returns
    -------
    spec : ClusterSpec
        Of a running scheduler, if that is what its profile says; with the profile's files.
    profile : Profile
        To start; None for a running scheduler.
    """
    if spec.is_running:
        return spec, None
    profile = find_cluster_profile(spec.profile or LOCAL)
    files = {name: profile.options[name] for name in TLS if name in profile.options}
    if spec.tls:
        files = {name: getattr(spec, name) for name in TLS}
    if profile.kind == SCHEDULER:
        if spec.workers is not None:
            raise InputError(
                f"workers = {spec.workers} is not for a running scheduler's profile, "
                f"{profile.name!r}: its workers are started apart"
            )
        places = {"scheduler": profile.options.get("address")}
        places["scheduler_file"] = profile.options.get("scheduler_file")
        return ClusterSpec(**places, **files), None
    options = {key: value for key, value in profile.options.items() if key not in TLS}
    kept = replace(profile, options=options)
    return ClusterSpec(profile.name, spec.workers, **files), kept
