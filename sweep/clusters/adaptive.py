"""Adaptive clusters: how many workers the work that is left is worth.

Dask counts the tasks that its scheduler has. Of a study's these are two a worker, the others wait
in the coordinator, so that a cluster would only double each time that its jobs have queued.
"""

import math
import time
from typing import Any

import dask
from distributed import Client
from distributed.deploy import Adaptive


class FollowingWork(Adaptive):
    """Dask's, that grows at once to the workers which the work left is worth.

    Each is to have ``target_duration`` of it, and a task; Dask says only which are idle.
    """

    work_left: tuple[float, int] | None = (
        None  # seconds and tasks, once a coordinator has told them
    )

    async def target(self) -> int:
        """Number of workers that there should be."""
        known: int = await super().target()
        if self.work_left is None:
            return known
        seconds, tasks = self.work_left
        worth: int = min(tasks, math.ceil(seconds / self.target_duration))
        return max(worth, min(known, len(self.observed)))


def tell_work_left(client: Client, seconds: float, tasks: int) -> None:
    """Tell the cluster of a client, if it is one of ours that adapts, what is left to compute.

    Parameters
    ----------
    client : distributed.Client
    seconds : float
        Of all tasks together.
    tasks : int
    """
    adaptive = getattr(client.cluster, "_adaptive", None)
    if isinstance(adaptive, FollowingWork):
        adaptive.work_left = seconds, tasks


class Resubmitting(FollowingWork):
    """The same, that also sees the end of jobs of several processes: their walltime, a lost node.

    A job that had workers, and has had none for as long as Dask gives lost workers to come back,
    is submitted again.
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
