"""Plan the experiments of a study in a thread: kernels compile while the cluster starts.

Runs of the experiments that are planned begin while those of others are. Nothing waits for the
thread where a run ends early: a kernel that compiles cannot be interrupted, and takes seconds.
"""

from __future__ import annotations

import atexit
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from integrators.compiler.kernels import checking
from sweep.campaign import planning
from sweep.campaign.planning import Preparation
from sweep.errors import Interrupted

if TYPE_CHECKING:
    from sweep.campaign.planning import ExperimentPlan
    from sweep.store.diff import Entry

LOOK_SECONDS = 0.1
PATIENCE = 2.0  # seconds for all to be planned, which is enough where nothing compiles
_running: set[Planner] = set()


class Planner:
    """Plans experiments in a thread of its own; a context manager.

    Parameters
    ----------
    entries : list of sweep.store.diff.Entry
    check : callable
        Called while this waits, in the thread that waits, and raises where all is to end.
    told : callable
        Called there as well, with each `planning.Preparation`.

    Attributes
    ----------
    plans : list of planning.ExperimentPlan
        Those that `more` has given.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        check: Callable[[], object],
        told: Callable[[Preparation], object],
    ) -> None:
        self.plans: list[ExperimentPlan] = []
        self.entries, self._check, self._told = entries, check, told
        self._began, self._ended, self._stopped = time.monotonic(), False, False
        self._found: queue.SimpleQueue[ExperimentPlan | Preparation | BaseException]
        self._found = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._plan, name="geosweep-planner", daemon=True)

    def __enter__(self) -> Planner:
        _running.add(self)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped = True  # and it ends before the next kernel

    @property
    def ended(self) -> bool:
        """Whether all are planned, and were given."""
        return self._ended

    def more(self) -> list[ExperimentPlan]:
        """The plans that have come since, waiting until there is one; empty where none comes.

        The first ones are all where that is not long.

        Raises
        ------
        InputError
            If an experiment cannot be planned.
        """
        found: list[ExperimentPlan] = []
        while not self._ended:
            self._check()
            enough = bool(found) and self._waited_enough()
            try:
                event = self._found.get(not enough, LOOK_SECONDS)
            except queue.Empty:
                if enough:
                    break
                continue
            if isinstance(event, BaseException):  # before all are planned
                raise event
            if isinstance(event, Preparation):
                self._told(event)
            else:
                found.append(event)
                self._ended = len(self.plans) + len(found) == len(self.entries)
        self.plans += found
        return found

    def _waited_enough(self) -> bool:
        return bool(self.plans) or time.monotonic() - self._began > PATIENCE

    def _plan(self) -> None:
        """Plan all in order; what is raised is given to who waits."""
        progress = planning.PreparationProgress(self._found.put, self._check_stopped)
        try:
            with checking(self._check_stopped, progress.compiling):
                for plan in planning.plan_each(self.entries, progress.measuring):
                    self._found.put(plan)
        except BaseException as error:
            self._found.put(error)
        finally:
            _running.discard(self)

    def _check_stopped(self) -> None:
        if self._stopped:
            raise Interrupted("the run has ended")

    def join(self) -> None:
        """Wait until the kernel that compiles now has."""
        self._thread.join()


def is_planning() -> bool:
    """Whether a thread compiles a kernel that nobody waits for."""
    return bool(_running)


def wait_for_planners() -> None:
    """Wait for kernels that compile: Python may not end while LLVM calls it from a thread."""
    for planner in tuple(_running):
        planner.join()


atexit.register(wait_for_planners)
