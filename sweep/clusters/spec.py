"""Which workers to compute on, and how to reach them. This module does not import Dask."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from integrators.errors import InputError, check_whole

LOCAL = "local"
RUNNING = ("scheduler", "scheduler_file")
TLS = ("tls_ca_file", "tls_cert", "tls_key")
Check = Callable[[], object]  # called repeatedly while waiting; may raise


@dataclass(frozen=True)
class ClusterSpec:
    """Which workers to compute on: those of a running scheduler, or of a cluster to start.

    Parameters
    ----------
    profile : str, optional
        Name of a profile in Dask's configuration, see `profiles`; by default ``local``.
    workers : int, optional
        Number of workers to start; by default as the profile says.
    scheduler : str, optional
        Address of a running scheduler.
    scheduler_file : str or Path, optional
        File with the address of a running scheduler, which the scheduler has written.
    tls_ca_file, tls_cert, tls_key : str or Path, optional
        Files in PEM format for the encrypted connections of this process and of the processes that
        it starts: the authority's certificate, this process's certificate, and its key unless that
        is in the same file. By default the files under ``distributed.comm.tls`` in Dask's
        configuration.

    Raises
    ------
    InputError
        If arguments exclude one another. The message has their names in backquotes.
    """

    profile: str | None = None
    workers: int | None = None
    scheduler: str | None = None
    scheduler_file: str | Path | None = None
    tls_ca_file: str | Path | None = None
    tls_cert: str | Path | None = None
    tls_key: str | Path | None = None

    def __post_init__(self) -> None:
        if self.profile == "":
            raise InputError("`profile` is empty; expected the name of a profile, such as local")
        given = [name for name, value in vars(self).items() if value is not None]
        running = [name for name in given if name in RUNNING]
        if len(running) == 2:
            raise InputError(
                "`scheduler` and `scheduler_file` both name a running scheduler: give one of them"
            )
        if running and "profile" in given:
            raise InputError(
                f"`profile` {self.profile!r} starts a cluster, `{running[0]}` uses a running one: "
                "give one of them"
            )
        if running and "workers" in given:
            raise InputError(
                f"`workers` is for a cluster that is started: give it without `{running[0]}`"
            )
        if "workers" in given:
            check_whole("workers", self.workers)
        files = [name for name in given if name in TLS]
        missing = [name for name in TLS[:2] if name not in files]
        if files and missing:
            raise InputError(
                f"`{files[0]}` without `{missing[0]}`; expected the authority's certificate, the "
                "own one, and its key unless that is in the same file"
            )

    @property
    def is_running(self) -> bool:
        """Whether it names a running scheduler, which keeps running after use."""
        return self.scheduler is not None or self.scheduler_file is not None


def cluster_spec_from_arguments(
    cluster: ClusterSpec | str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
) -> ClusterSpec:
    """Make a `ClusterSpec` from arguments of `sweep.run`.

    Parameters
    ----------
    cluster : ClusterSpec or str, optional
        A spec, or the name of a profile.
    workers : int, optional
    scheduler : str, optional

    Raises
    ------
    InputError
        If a spec is combined with `workers` or `scheduler`.
    """
    if not isinstance(cluster, ClusterSpec):
        return ClusterSpec(profile=cluster, workers=workers, scheduler=scheduler)
    if workers is not None or scheduler is not None:
        raise InputError("workers and scheduler are parts of a ClusterSpec: give them there")
    return cluster
