"""`sweep submit`: start a study's coordinator on a cluster or by a batch system, and return."""

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
    """Run STUDY into STORE on a running cluster or by a batch system, without waiting for it.

    As `sweep run`, but the coordinator, which plans the tasks and watches them, runs elsewhere:
    this command returns, and its machine may be switched off. On a running cluster the coordinator
    runs on a worker; if that dies, it goes on at another one. By a batch system (--cluster slurm,
    pbs, lsf, sge, or a profile of such a kind) it runs in a job of its own, which submits the jobs
    of workers. `sweep status STORE` says how far it is, `sweep cancel STORE` ends it; the same
    command again goes on. STUDY may also be a store, whose own study goes on.

    --max-time counts from the start of the coordinator; without it, a job whose time is up is
    followed by another.

    \b
    Example:
      sweep submit my-study.toml /scratch/my-study.zarr --scheduler tcp://login1:8786
      sweep submit my-study.toml /scratch/my-study.zarr --cluster slurm --workers 64
    """
    if not (cluster.is_running or cluster.profile):
        raise InputError(
            "nothing says where to run; expected --scheduler ADDRESS of a running one, or "
            "--cluster PROFILE of a batch system"
        )
    name, scheduler, store = sweep.submit(
        study, store, cluster, trust_plugins=trust_plugins, max_time=max_time,
        checkpoint_every=checkpoint_every,
    )  # fmt: skip
    echo(
        {"store": str(store), "submission": name, "to": str(scheduler)},
        f"Store: {store}\nSubmitted: {name} to {scheduler}\n"
        f"How far it is: sweep status {store}\nTo end it: sweep cancel {store}",
        as_json,
    )
