"""Cluster profiles: one for each kind of cluster, and those in the user's configuration.

A profile is a mapping under ``geosweep.clusters.NAME`` in Dask's configuration. It has a ``kind``,
arguments of the class for this kind, and ``scale`` or ``adapt``. The name of a kind is also a
profile::

    geosweep:
      clusters:
        night:
          kind: slurm
          cores: 16
          memory: 32GB
          walltime: "08:00:00"
          adapt: {minimum: 16, maximum: 512}
"""

from dataclasses import dataclass, field, replace
from typing import Any

import dask

from integrators.errors import InputError, check_known, check_whole, suggest_nearest
from sweep.clusters.spec import LOCAL, TLS, ClusterSpec

JOBS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster"}
KUBERNETES, SCHEDULER = "kubernetes", "scheduler"
STARTED = (LOCAL, *JOBS, KUBERNETES)  # kinds that are profiles by themselves
KINDS = (*STARTED, SCHEDULER)
ADDRESS = ("address", "scheduler_file")
BOUNDS = (("minimum", "maximum"), ("minimum_jobs", "maximum_jobs"))
PACE = ("interval", "wait_count", "target_duration")


@dataclass(frozen=True)
class Profile:
    """The description of a cluster to start, or of a running scheduler.

    Parameters
    ----------
    name : str
    kind : str
        One of `KINDS`.
    options : dict
        Arguments of the kind's class, with underscores in their names; the class checks them.
    scale : dict
        Number of ``workers`` or, for a batch system, ``jobs`` to start; may be empty.
    adapt : dict
        Arguments of the cluster's ``adapt``, with a minimum, in place of `scale`.
    coordinator : dict
        Options of a submitted coordinator's job that differ from those of workers' jobs.

    Raises
    ------
    InputError
        If a field other than `options` is not valid.
    """

    name: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    scale: dict[str, int] = field(default_factory=dict)
    adapt: dict[str, Any] = field(default_factory=dict)
    coordinator: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"profile {self.name!r}"
        check_known("kind", self.kind, KINDS, where=f"in {where}")
        has_jobs = self.kind in JOBS
        if self.coordinator and not has_jobs:
            raise InputError(
                f"{where} of kind {self.kind} has a coordinator, which only these kinds have: "
                f"{', '.join(JOBS)}"
            )
        if self.scale and self.adapt:
            raise InputError(f"{where} has both scale and adapt; expected one of them")
        if self.kind == SCHEDULER:
            for key in self.options:
                own = f"in {where} of kind {SCHEDULER}"
                check_known("key", key, (*ADDRESS, *TLS), where=own)
            if self.scale or self.adapt:
                raise InputError(f"{where} is of a running scheduler, and takes no scale or adapt")
            if len(self.options.keys() & {*ADDRESS}) != 1:
                raise InputError(
                    f"{where} is of a running scheduler; expected its address or a scheduler-file"
                )
        for key, value in self.scale.items():
            units = ("workers", "jobs")[: 1 + has_jobs]
            check_known("key", key, units, where=f"of scale in {where}")
            check_whole(f"{where}: scale {key}", value)
        known = [key for bounds in BOUNDS[: 1 + has_jobs] for key in bounds]
        known += PACE if self.kind != KUBERNETES else ()
        for key in self.adapt:
            check_known("key", key, known, where=f"of adapt in {where}")
        for low, high in BOUNDS:
            least = check_whole(f"{where}: {low}", self.adapt.get(low, 0), 0)
            check_whole(f"{where}: {high}", self.adapt.get(high, max(1, least)), max(1, least))
        if self.kind == KUBERNETES and self.adapt and "maximum" not in self.adapt:
            raise InputError(f"{where} has no maximum in adapt, which Kubernetes needs")


def find_cluster_profile(name: str) -> Profile:
    """Find the `Profile` with a name: one in Dask's configuration, or a kind.

    Raises
    ------
    InputError
        If there is none. The message lists all profiles.
    """
    profiles = dask.config.get("geosweep.clusters", None) or {}
    if not isinstance(profiles, dict):
        raise InputError(f"geosweep.clusters is {profiles!r}; expected a mapping of profiles")
    name = dask.config.canonical_name(name, profiles)
    if name in profiles:
        return _parse_cluster_profile(name, profiles[name])
    if name in STARTED:
        return Profile(name, name)
    near = suggest_nearest(name, [*STARTED, *profiles])
    raise InputError(
        f"unknown cluster profile {name!r}.{near if 'Did you mean' in near else ''} There are: "
        f"{', '.join(dict.fromkeys((*STARTED, *profiles)))}. Add others under geosweep.clusters in "
        "a YAML file of Dask's configuration, which is read from: "
        f"{', '.join(map(str, dask.config.paths))}"
    )


def _parse_cluster_profile(name: str, found: Any) -> Profile:
    where = f"profile {name!r}"
    keys = _mapping(where, found, "{kind: slurm, cores: 2, memory: 4GB}")
    kind = keys.pop("kind", name if name in KINDS else None)
    if kind is None:
        raise InputError(f"{where} has no kind; expected one of {', '.join(KINDS)}")
    scale = keys.pop("scale", None)
    if scale is not None and not isinstance(scale, dict):
        scale = {"workers": scale}
    adapt = _mapping(f"{where}: adapt", keys.pop("adapt", None), "{minimum: 1, maximum: 8}")
    if adapt:  # at least one worker, since only work that has begun calls for others
        least = "minimum_jobs" if "minimum_jobs" in adapt else "minimum"
        adapt[least] = adapt.get(least) or 1
    coordinator = _mapping(f"{where}: coordinator", keys.pop("coordinator", None), "{memory: 8GB}")
    return Profile(name, kind, keys, scale or {}, adapt, coordinator)


def _mapping(where: str, found: Any, example: str) -> dict[str, Any]:
    """A mapping of the configuration with underscores in its keys; empty if it is None."""
    if not isinstance(found, dict | None):
        raise InputError(f"{where} is {found!r}; expected such as {example}")
    return {str(key).replace("-", "_"): value for key, value in (found or {}).items()}


def resolve_cluster_spec(spec: ClusterSpec) -> tuple[ClusterSpec, Profile | None]:
    """Combine a `ClusterSpec` with the profile that it names.

    Returns
    -------
    spec : ClusterSpec
        The spec with the profile's files, and its scheduler if the profile is a running one's.
    profile : Profile or None
        The profile to start, with the spec's number of workers; None for a running scheduler.
    """
    if spec.is_running:
        return spec, None
    profile = find_cluster_profile(spec.profile or LOCAL)
    options = dict(profile.options)
    files = {name: options.pop(name) for name in TLS if name in options}
    if spec.tls_cert:
        files = {name: getattr(spec, name) for name in TLS}
    if profile.kind == SCHEDULER:
        if spec.workers is not None:
            raise InputError(
                f"workers = {spec.workers} is not for the profile {profile.name!r} of a running "
                "scheduler: its workers are started separately"
            )
        options["scheduler"] = options.pop("address", None)
        return ClusterSpec(**options, **files), None
    scale = {"workers": spec.workers} if spec.workers else profile.scale
    adapt = {} if scale else profile.adapt
    started = replace(profile, options=options, scale=scale, adapt=adapt)
    return ClusterSpec(profile.name, spec.workers, **files), started
