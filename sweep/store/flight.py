"""How many runs are being computed: a small file in the store, for who watches elsewhere."""

import contextlib
import json
import time
from collections import Counter

from sweep.store.backends.places import ObjectPlace, place_of
from sweep.store.backends.trees import write_whole
from sweep.store.files import INTERNAL
from sweep.store.lease.holder import first_bytes, holder_of, loaded

FILE = "in-flight.json"
EVERY, EVERY_OBJECT = 0.2, 2.0  # seconds between two writings, at least


class InFlight:
    """Notes which tasks run, within ``with``.

    Parameters
    ----------
    store : Path
    """

    def __init__(self, store):
        self._path = place_of(store) / INTERNAL / FILE
        self._every = EVERY_OBJECT if isinstance(self._path, ObjectPlace) else EVERY
        self._written = 0.0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def note(self, tasks):
        """Write down how many runs of each experiment `tasks` have, now and then."""
        if (now := time.monotonic()) < self._written + self._every:
            return
        self._written, runs = now, Counter()
        for task in tasks:
            runs[task.experiment] += sum(len(chunk.rows) for chunk in getattr(task, "chunks", ()))
        with contextlib.suppress(OSError):  # nothing depends on it
            write_whole(self._path, json.dumps(runs))


def running(store):
    """Runs that are being computed, by experiment; none if nobody holds the store."""
    with contextlib.suppress(OSError, ValueError):
        found = loaded(first_bytes(place_of(store) / INTERNAL / FILE))
        if holder_of(store) is not None:
            return {name: n for name, n in found.items() if type(n) is int and n >= 0}
    return {}
