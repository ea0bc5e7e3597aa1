"""Adaptive clusters: scale to as many workers as the remaining work needs.

Dask counts the tasks that its scheduler has. A coordinator submits only two per worker and keeps
the others, so that by Dask's own count a cluster would only double each time its jobs have queued.
"""

import math
import time
from typing import Any

import dask
from distributed import Client
from distributed.deploy import Adaptive


class FollowingWork(Adaptive):
    """Dask's adaptive scaling, which grows at once to the workers that the remaining work needs.

    Each worker should have ``target_duration`` of work, and a task; Dask decides only which are
    idle.
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


def tell_work_left(client: Client, seconds: float, tasks: int) -> None:
    """Tell the cluster of a client how much work remains, if it is one that adapts.

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
