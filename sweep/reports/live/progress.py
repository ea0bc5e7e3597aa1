"""The progress of a store, as the page shows it: counted now and then, for all viewers at once."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sweep.errors import Damaged
from sweep.store.failures import values_shared_by_failed_runs
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.lease.requests import submission_of_store
from sweep.store.progress import Counter, Progress, Rate
from sweep.store.store import Store
from sweep.text import count_with_noun, format_duration

# Between two counts pass at least so many seconds, and so many times the duration of the last.
SECONDS_BETWEEN_COUNTS, SECONDS_BETWEEN_COUNTS_IN_BUCKET, PAUSE_PER_DURATION = 1.0, 5.0, 10
MOST_TROUBLES = 5  # in succession, that a store may have while it grows


class ProgressCache:
    """The progress of a store, counted at most every second.

    Parameters
    ----------
    store : sweep.store.store.Store
    """

    def __init__(self, store: Store) -> None:
        self._store, self._counter = store, Counter(store)
        self._pause = (
            SECONDS_BETWEEN_COUNTS_IN_BUCKET if store.in_bucket else SECONDS_BETWEEN_COUNTS
        )
        self._lock, self._next, self._troubles = threading.Lock(), 0.0, 0
        self._total_rate = Rate()
        self._rates: dict[str, Rate] = {}  # by experiment
        self._counted: list[Progress] = []
        self._answer: dict[str, Any] | None = None
        self._failed: list[int] = []  # when `_shared` was found
        self._shared: list[str] = []

    def version(self) -> str:
        """A text that changes when runs are added to the store or committed."""
        self.look_up()
        counts = [(p.experiment, p.runs, p.done, p.left_study) for p in self._counted]
        return f"{hash(tuple(counts)):x}"

    def look_up(self) -> dict[str, Any]:
        """The progress of the store and of each experiment, and who writes to it, for JSON.

        Raises
        ------
        InputError
            If the store is gone.
        Damaged
            If it is damaged.
        """
        with self._lock:
            began, answer = time.monotonic(), self._answer
            if began >= self._next or answer is None:
                answer = self._answer = self._count(began)
                took = time.monotonic() - began
                self._next = began + took + max(self._pause, PAUSE_PER_DURATION * took)
            return answer

    def _count(self, now: float) -> dict[str, Any]:
        try:
            self._counted, self._troubles = self._counter.count(), 0
        except Damaged:  # as while a store grows
            self._troubles += 1
            if self._troubles > MOST_TROUBLES or not self._counted:
                raise
        rows = [self._row(progress, now) for progress in self._counted]
        total: dict[str, Any] = {
            key: sum(row[key] for row in rows)
            for key in ("runs", "done", "running", "pending", "failed", "partly", "cpu_seconds")
        }
        self._total_rate.add(now, total["done"] + total["partly"])
        total |= _rate_and_time_left(self._total_rate, total)
        holder, submission = lease_holder_of_store(self._store), submission_of_store(self._store)
        return {
            "total": total,
            "experiments": rows,
            "shared": self._values_shared_by_failures(rows),
            "holder": holder and f"{holder} since {holder.since}",
            "submission": submission and f"{submission}",
            "hosts": _hosts_in_words(self._store.anew().attributes.get("hosts", [])),
            "cpu_time": format_duration(total["cpu_seconds"]),
        }

    def _row(self, progress: Progress, now: float) -> dict[str, Any]:
        rate = self._rates.setdefault(progress.experiment, Rate())
        rate.add(now, progress.done + progress.partly)
        row = progress.counts | {"partly": progress.partly}
        return row | _rate_and_time_left(rate, row)

    def _values_shared_by_failures(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """What failed runs share, in sentences; looked up again when their number changes."""
        failed = [row["failed"] for row in rows]
        if failed != self._failed:
            shared = values_shared_by_failed_runs(self._store) if any(failed) else []
            self._shared = list(map(str, shared))
            self._failed = failed
        return self._shared


def _rate_and_time_left(rate: Rate, row: Mapping[str, Any]) -> dict[str, Any]:
    seconds = rate.seconds_left(row["runs"] - row["done"] - row["partly"])
    known = seconds == seconds
    return {"rate": rate.per_second, "time_left": format_duration(seconds) if known else ""}


def _hosts_in_words(hosts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The machines that have worked on a store, with their numbers of workers."""
    return [
        f"{host.get('host', '?')}: {count_with_noun(host.get('workers', 0), 'worker')}"
        for host in hosts
    ]
