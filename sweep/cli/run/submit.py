"""`sweep submit`: start a study's coordinator on a cluster or in a batch job, and return."""

from typing import TYPE_CHECKING

import sweep
from integrators.errors import InputError
from sweep.cli.options import OptionalStore, command
from sweep.cli.output import echo

if TYPE_CHECKING:
    from sweep.clusters.spec import ClusterSpec


@command
def submit(
    study: str,
    store: OptionalStore,
    cluster: "ClusterSpec",
    max_time: float | None,
    checkpoint_every: float,
    trust_plugins: bool,
    as_json: bool,
) -> None:
    """Run STUDY into STORE on a running cluster or in batch jobs, without waiting for it.

    This does what `sweep run` does, but the coordinator, which plans and supervises the tasks, runs
    elsewhere: this command returns, and this machine may be switched off. On a running cluster, the
    coordinator runs on a worker; if this worker dies, another one takes over. With a batch system
    (--cluster slurm, pbs, lsf, sge, or a profile of such a kind), the coordinator runs in a job of
    its own, which submits the jobs of workers. `sweep status STORE` prints the progress,
    `sweep cancel STORE` stops it, and the same command resumes. STUDY may also be a store; then
    the study that it keeps is resumed.

    --max-time counts from the start of the coordinator. Without it, a new job is submitted when
    the time of a job is up.

    \b
    Example:
      sweep submit my-study.toml /scratch/my.zarr --scheduler tcp://login1:8786
      sweep submit my-study.toml /scratch/my.zarr --cluster night
    """
    if not (cluster.is_running or cluster.profile):
        raise InputError(
            "nothing says where to run; expected --scheduler ADDRESS of a running scheduler, or "
            "--cluster PROFILE of a batch system"
        )
    name, scheduler, place = sweep.submit(
        study, store, cluster, trust_plugins=trust_plugins, max_time=max_time,
        checkpoint_every=checkpoint_every,
    )  # fmt: skip
    echo(
        {"store": str(place), "submission": name, "to": str(scheduler)},
        f"Store: {place}\nSubmitted: {name} to {scheduler}\n"
        f"Progress: sweep status {place}\nTo stop it: sweep cancel {place}",
        as_json,
    )
