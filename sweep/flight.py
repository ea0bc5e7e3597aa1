"""How many runs are being computed: a small file in the store, for who watches elsewhere."""

import contextlib
import json
import time
from collections import Counter
from pathlib import Path

from sweep.files import INTERNAL
from sweep.holder import holder_of

FILE = "in-flight.json"
EVERY = 0.2  # seconds between two writings, at least


class InFlight:
    """Notes which tasks run, within ``with``.

    Parameters
    ----------
    store : Path
    """

    def __init__(self, store):
        self._path = Path(store) / INTERNAL / FILE
        self._written = 0.0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def note(self, tasks):
        """Write down how many runs of each experiment `tasks` have, now and then."""
        if (now := time.monotonic()) < self._written + EVERY:
            return
        self._written, runs = now, Counter()
        for task in tasks:
            runs[task.experiment] += sum(len(chunk.rows) for chunk in getattr(task, "chunks", ()))
        partial = self._path.with_suffix(".partial")
        with contextlib.suppress(OSError):  # nothing depends on it
            partial.write_text(json.dumps(runs))
            partial.replace(self._path)


def running(store):
    """Runs that are being computed, by experiment; none if nobody holds the store."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((Path(store) / INTERNAL / FILE).read_text())
        if holder_of(store) is not None:
            return found
    return {}
