"""The progress of a store for the live page, counted from time to time for all viewers."""

import collections
import threading
import time
from collections.abc import Sequence
from typing import Any

from sweep.errors import Damaged
from sweep.store.failed_runs import values_shared_by_failed_runs
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.lease.requests import submission_of_store
from sweep.store.progress import Progress, RunRate, status
from sweep.store.store import Store
from sweep.text import count_with_noun, format_duration

# Minimum time between two counts, in seconds, and as a multiple of the duration of the last count.
SECONDS_BETWEEN_COUNTS, SECONDS_BETWEEN_COUNTS_IN_BUCKET, PAUSE_PER_DURATION = 1.0, 5.0, 10
MOST_TROUBLES = 5  # successive errors that a growing store may cause
SUMMED = ("runs", "done", "running", "pending", "failed", "partly", "cpu_seconds")
TOTAL = ""  # the name under which all experiments are summed up


class ProgressCache:
    """The progress of a store, counted at most once a second.

    Parameters
    ----------
    store : sweep.store.store.Store
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock, self._next, self._troubles = threading.Lock(), 0.0, 0
        self._rates: dict[str, RunRate] = collections.defaultdict(RunRate)  # by experiment
        self._counted: Sequence[Progress] = []
        self._answer: dict[str, Any] = {}
        self._failed: list[int] = []  # numbers of failures for which `_shared` was computed
        self._shared: list[str] = []

    def look_up(self) -> dict[str, Any]:
        """The progress of the store and its experiments, and who writes to it, for JSON.

        The entry ``version`` changes when runs are added to the store or committed.

        Raises
        ------
        InputError
            If the store is gone.
        Damaged
            If it is damaged.
        """
        with self._lock:
            began = time.monotonic()
            if began >= self._next or not self._answer:
                self._answer = self._count(began)
                took = time.monotonic() - began
                in_bucket = self._store.in_bucket
                pause = SECONDS_BETWEEN_COUNTS_IN_BUCKET if in_bucket else SECONDS_BETWEEN_COUNTS
                self._next = began + took + max(pause, PAUSE_PER_DURATION * took)
            return self._answer

    def _count(self, now: float) -> dict[str, Any]:
        try:
            self._counted, self._troubles = status(self._store), 0
        except Damaged:  # may happen while a store grows
            self._troubles += 1
            if self._troubles > MOST_TROUBLES or not self._counted:
                raise
        rows = [p.counts | {"partly": p.partly} for p in self._counted]
        total = {key: sum(row[key] for row in rows) for key in SUMMED}
        holder, submission = lease_holder_of_store(self._store), submission_of_store(self._store)
        hosts = self._store.anew().attributes.get("hosts", [])
        counts = tuple((p.experiment, p.runs, p.done, p.left_study) for p in self._counted)
        return {
            "total": self._with_rate(TOTAL, total, now),
            "experiments": [self._with_rate(row["experiment"], row, now) for row in rows],
            "shared": self._values_shared_by_failures(),
            "holder": holder and f"{holder} since {holder.since}",
            "submission": submission and f"{submission}",
            "hosts": [f"{h['host']}: {count_with_noun(h['workers'], 'worker')}" for h in hosts],
            "cpu_time": format_duration(total["cpu_seconds"]),
            "version": f"{hash(counts):x}",
        }

    def _with_rate(self, name: str, counts: dict[str, Any], now: float) -> dict[str, Any]:
        """Counts with the runs per second and the remaining time, if known."""
        rate, done = self._rates[name], counts["done"] + counts["partly"]
        rate.add(now, done)
        seconds = rate.seconds_left(counts["runs"] - done)
        left = format_duration(seconds) if seconds == seconds else ""
        return counts | {"rate": rate.per_second, "time_left": left}

    def _values_shared_by_failures(self) -> list[str]:
        """Sentences on what failed runs share, recomputed when their number changes."""
        failed = [progress.failed for progress in self._counted]
        if failed != self._failed:
            shared = values_shared_by_failed_runs(self._store) if any(failed) else []
            self._shared, self._failed = list(map(str, shared)), failed
        return self._shared
