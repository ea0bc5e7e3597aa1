"""When the tasks of a study began and ended, as a Dask cluster of our own tells it."""

import contextlib
import threading
import time

import numpy as np
from distributed import Client, LocalCluster, get_task_stream

SAMPLE_SECONDS = 0.05


@contextlib.contextmanager
def local_client(workers):
    """A client of a cluster of processes here, whose scheduler is in this process."""
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


class Stream:
    """Observes the tasks of what is computed within ``with``.

    Parameters
    ----------
    client : distributed.Client

    Attributes
    ----------
    tasks : ndarray, shape (tasks, 2)
        When each began and ended, of the function that took most time.
    """

    def __init__(self, client):
        self._stream = get_task_stream(client)
        self._own, self._end = [], threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._stream.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._end.set()
        self._thread.join()
        self._stream.__exit__(*exception)
        found = {}
        for task in self._stream.data:
            own = [(one["start"], one["stop"]) for one in task["startstops"]
                   if one["action"] == "compute"]  # fmt: skip
            found.setdefault(str(task["key"]).partition("-")[0], []).extend(own)
        self.tasks = max(map(np.array, found.values()), key=lambda own: np.diff(own).sum())

    def _look(self):
        while not self._end.wait(SAMPLE_SECONDS):
            self._own.append((time.time(), time.process_time()))

    @property
    def span(self):
        """When the first task began, and the last one ended."""
        return self.tasks[:, 0].min(), self.tasks[:, 1].max()

    @property
    def seconds(self):
        """From the first task to the end of the last."""
        began, ended = self.span
        return float(ended - began)

    @property
    def work(self):
        """Seconds of all tasks."""
        return float(np.diff(self.tasks).sum())

    @property
    def own_cpu(self):
        """CPU seconds of this process between first and last task."""
        first, last = np.interp(self.span, *np.transpose(self._own))
        return float(last - first)
