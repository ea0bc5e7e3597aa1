"""Whether a task would end before the time is up, by what the tasks before it took."""

import heapq
import math
import time

CAUTION = 1.1  # tasks may take so much longer than those before them


class Pace:
    """What is in flight on a cluster, and when it is expected to end.

    Parameters
    ----------
    slots : int
        Tasks that run at a time; others wait for them in the order in which they were submitted.
        An attribute, that may be changed.
    deadline : float
        Of `clock`.
    clock : callable, optional
    """

    def __init__(self, slots, deadline, clock=time.monotonic):
        self.slots, self._deadline, self._clock = slots, deadline, clock
        self._running, self._waiting = {}, {}  # by key: (seconds, since), seconds
        self._expected = self._took = 0.0

    @property
    def running(self):
        """Keys of the tasks that have a slot."""
        return tuple(self._running)

    def began(self, key, cost):
        """A task was submitted, of so many expected seconds."""
        self._waiting[key] = cost
        self._promote()

    def ended(self, key, seconds=None):
        """A task ended, after so many seconds of its own; None if they say nothing."""
        cost = self._waiting.pop(key, None)
        if cost is None:
            cost, _ = self._running.pop(key)
        if seconds is not None:
            self._expected += cost
            self._took += seconds
        self._promote()

    def fits(self, cost):
        """Whether a task of so many expected seconds would end in time."""
        return math.isinf(self._deadline) or self.end_of(cost) <= self._deadline

    def end_of(self, cost):
        """When a task is expected to end that is submitted now."""
        slowness, now = self._slowness(), self._clock()
        free = [max(now, since + slowness * own) for own, since in self._running.values()]
        free += [now] * (self.slots - len(free))
        heapq.heapify(free)
        for own in self._waiting.values():
            heapq.heapreplace(free, free[0] + slowness * own)
        return free[0] + CAUTION * slowness * cost

    def _promote(self):
        """Those that waited longest run, as far as there are slots."""
        while self._waiting and len(self._running) < self.slots:
            key = next(iter(self._waiting))
            self._running[key] = self._waiting.pop(key), self._clock()

    def _slowness(self):
        """Seconds that tasks took for each that was expected."""
        return self._took / self._expected if self._expected else 1.0
