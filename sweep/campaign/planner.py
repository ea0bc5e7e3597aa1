"""Plan the experiments of a study, and say what is measured and compiled meanwhile.

`plan` does so in this thread, and writes nothing. Of a study that runs, a `Planner` does so in a
thread of its own: kernels compile while the cluster starts, and runs of the experiments that are
planned begin while those of others are. Nothing waits for the thread where a run ends early: a
kernel that compiles cannot be interrupted, and takes seconds.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from integrators.compiler.kernels import checking
from integrators.html import html_text
from sweep.analysis.rows import Rows
from sweep.campaign import planning
from sweep.errors import Interrupted
from sweep.store import diff
from sweep.store.studies import resolve_study_and_store
from sweep.text import count_with_noun, format_time_interval

if TYPE_CHECKING:
    from pathlib import Path

    import pandas

    from sweep.campaign.planning import ExperimentPlan
    from sweep.store.backends.places import Place
    from sweep.store.diff import Entry
    from sweep.store.store import Store
    from sweep.study import Study

LOOK_SECONDS = 0.1
PATIENCE = 2.0  # seconds for all to be planned, which is enough where nothing compiles
_running: set[Planner] = set()


@dataclass(frozen=True)
class Preparation:
    """A measurement before runs begin, and the kernel that is compiled for it.

    Parameters
    ----------
    what : str
        Such as ``rk4 on nbody_sphere``.
    done, of : int
        Number of measurements that are done, and of all.
    kernel : str
        Name of the kernel that compiles now; empty if none does.
    kernels : int
        Number of kernels that were compiled, with that one.
    """

    what: str
    done: int
    of: int
    kernel: str = ""
    kernels: int = 0

    def __str__(self) -> str:
        said = f"Preparing {self.done + 1} of {self.of}: {self.what}"
        return said + f", compiling {self.kernel} (kernel {self.kernels})" * bool(self.kernel)


class PreparationProgress:
    """Calls `on_preparation` with each `Preparation`; `check` is called before, and may raise."""

    def __init__(
        self,
        on_preparation: Callable[[Preparation], object],
        check: Callable[[], object] = lambda: None,
    ) -> None:
        self._on_preparation, self._check = on_preparation, check
        self._now: Preparation | None = None
        self._kernels = 0

    def measuring(self, what: str, done: int, of: int) -> None:
        """Note that a measurement begins."""
        self._check()
        self._now = Preparation(what, done, of)
        self._on_preparation(self._now)

    def compiling(self, kernel: str) -> None:
        """Note that a kernel is compiled, since the disk cache lacks it."""
        self._kernels += 1
        if self._now is not None:
            self._on_preparation(replace(self._now, kernel=kernel, kernels=self._kernels))


@dataclass(frozen=True, eq=False)
class Plan:
    """Expected cost of the part of a study that its store lacks.

    Parameters
    ----------
    store : Path or ObjectPlace
    experiments : tuple of ExperimentPlan
    tasks : int
    """

    store: Place
    experiments: tuple[ExperimentPlan, ...]
    tasks: int

    @property
    def cpu_seconds(self) -> tuple[float, float]:
        """Lower and upper limit of the expected CPU seconds."""
        return planning.total_cpu_time(self.experiments).interval

    @property
    def rows(self) -> Rows:
        """Costs of each experiment: `Rows` of dicts."""
        return Rows(plan.facts for plan in self.experiments)

    def to_dataframe(self) -> pandas.DataFrame:
        """The experiments as a `pandas.DataFrame`: runs, steps, files, bytes, seconds."""
        return self.rows.to_dataframe()

    def _repr_html_(self) -> str:
        total = (
            f"{count_with_noun(self.tasks, 'task')}, "
            f"{format_time_interval(*self.cpu_seconds)} of CPU time, into {self.store}"
        )
        return html_text(total) + self.rows._repr_html_()


def plan(
    study: str | Path | Store | Study,
    store: str | Place | Store | None = None,
    workers: int | None = None,
    trust_plugins: bool = False,
    preparing: Callable[[Preparation], object] = lambda now: None,
) -> Plan:
    """Plan a study as `sweep plan` does: nothing is written.

    Parameters
    ----------
    study, store, trust_plugins
        As in `sweep.run`; of a store that exists only what it lacks is counted.
    workers : int, optional
        Processes for which tasks are counted; one a core unless given.
    preparing : callable, optional
        Called with each `Preparation`: what is measured, or compiled, now.

    Returns
    -------
    Plan

    Raises
    ------
    StudyError, StoreError, InputError
        As `sweep.run`.
    """
    loaded, store = resolve_study_and_store(study, store, trust_plugins)
    progress = PreparationProgress(preparing)
    with checking(lambda: None, progress.compiling):
        plans = planning.plan_study(
            diff.diff_store_against_study(store, loaded), progress.measuring
        )
    return Plan(
        store.place, tuple(plans), planning.count_tasks(plans, workers or os.cpu_count() or 1)
    )


class Planner:
    """Plans experiments in a thread of its own; a context manager.

    Parameters
    ----------
    entries : list of sweep.store.diff.Entry
    check : callable
        Called in the thread that waits in `next_plans`; raises where the run is to end.
    on_preparation : callable
        Called there with each `Preparation`.

    Attributes
    ----------
    plans : list of planning.ExperimentPlan
        Plans that `next_plans` has returned.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        check: Callable[[], object],
        on_preparation: Callable[[Preparation], object],
    ) -> None:
        self.plans: list[ExperimentPlan] = []
        self.entries, self._check, self._on_preparation = entries, check, on_preparation
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
        """Whether all experiments are planned, and `next_plans` has returned them."""
        return self._ended

    def next_plans(self) -> list[ExperimentPlan]:
        """Wait for further plans; returns those that are ready, empty once there are no more.

        The first call waits up to `PATIENCE` seconds for all of them.

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
                self._on_preparation(event)
            else:
                found.append(event)
                self._ended = len(self.plans) + len(found) == len(self.entries)
        self.plans += found
        return found

    def _waited_enough(self) -> bool:
        return bool(self.plans) or time.monotonic() - self._began > PATIENCE

    def _plan(self) -> None:
        """Plan all experiments in order; an exception is raised again in `next_plans`."""
        progress = PreparationProgress(self._found.put, self._check_stopped)
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
        """Wait until the kernel that is compiled now is done."""
        self._thread.join()


def is_planning() -> bool:
    """Whether the thread of a planner still runs, perhaps compiling a kernel."""
    return bool(_running)


def wait_for_planners() -> None:
    """Wait for the threads of planners: Python may not end while LLVM calls it from one."""
    for planner in tuple(_running):
        planner.join()


atexit.register(wait_for_planners)
