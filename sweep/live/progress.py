"""How far a store is, as the page shows it: counted now and then, however many look."""

import threading
import time

from sweep.errors import Damaged
from sweep.store.failures import values_shared_by_failed_runs
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.lease.requests import submission_of_store
from sweep.store.progress import Counter, Rate
from sweep.text import format_duration

EVERY, EVERY_OBJECT = 1.0, 5.0  # seconds between two looks, at least
SHARE = 10  # times as long as a look took, likewise
TROUBLES = 5  # that a store may have one after the other while it grows


class Watched:
    """Progress of a store, looked up at most every second.

    Parameters
    ----------
    store : sweep.store.store.Store
    """

    def __init__(self, store):
        self._store, self._counter = store, Counter(store)
        self._every = EVERY_OBJECT if store.in_bucket else EVERY
        self._lock, self._next, self._troubles = threading.Lock(), 0.0, 0
        self._rates, self._counted, self._found = {}, [], None
        self._failed, self._shared = None, []

    def version(self):
        """What changes when there is more in the store."""
        self.look()
        counts = [(p.experiment, p.runs, p.done, p.left_study) for p in self._counted]
        return f"{hash(tuple(counts)):x}"

    def look(self):
        """Progress as JSON: of the store, of each experiment, of who writes to it.

        Raises
        ------
        InputError
            If the store is gone or damaged.
        """
        with self._lock:
            began = time.monotonic()
            if began >= self._next or self._found is None:
                self._count(began)
                took = time.monotonic() - began
                self._next = began + took + max(self._every, SHARE * took)
            return self._found

    def _count(self, now):
        try:
            self._counted, self._troubles = self._counter.count(), 0
        except Damaged:  # as while a store grows
            self._troubles += 1
            if self._troubles > TROUBLES or not self._counted:
                with self._store.naming_damage():
                    self._counted = self._counter.count()
        rows = [self._row(progress, now) for progress in self._counted]
        total = {
            key: sum(row[key] for row in rows)
            for key in ("runs", "done", "running", "pending", "failed", "partly", "cpu_seconds")
        }
        whole = self._rates.setdefault(None, Rate())
        whole.add(now, total["done"] + total["partly"])
        total |= _rate_and_time_left(whole, total)
        holder, submission = lease_holder_of_store(self._store), submission_of_store(self._store)
        self._found = {
            "total": total,
            "experiments": rows,
            "shared": self._failures(rows),
            "holder": holder and f"{holder} since {holder.since}",
            "submission": submission and f"{submission}",
            "hosts": _hosts_in_words(self._store.anew().attributes.get("hosts", [])),
            "cpu_time": format_duration(total["cpu_seconds"]),
        }

    def _row(self, progress, now):
        rate = self._rates.setdefault(progress.experiment, Rate())
        rate.add(now, progress.done + progress.partly)
        row = progress.counts | {"partly": progress.partly}
        return row | _rate_and_time_left(rate, row)

    def _failures(self, rows):
        """What failed runs share, in words; looked up when there are more of them."""
        failed = [row["failed"] for row in rows]
        if failed != self._failed:
            some = any(failed)
            self._shared = list(map(str, values_shared_by_failed_runs(self._store))) if some else []
            self._failed = failed
        return self._shared


def _rate_and_time_left(rate, row):
    seconds = rate.seconds_left(row["runs"] - row["done"] - row["partly"])
    known = seconds == seconds
    return {"rate": rate.per_second, "time_left": format_duration(seconds) if known else ""}


def _hosts_in_words(hosts):
    """The machines that have worked on a store, and with how many workers."""
    said = []
    for host in hosts:
        workers = host.get("workers", 0)
        said.append(f"{host.get('host', '?')}: {workers} worker{'s' * (workers != 1)}")
    return said
