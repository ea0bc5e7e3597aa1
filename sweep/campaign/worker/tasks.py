"""What a worker does: rows of a store, computed and committed as records. Knows no Dask.

A task is sent with all it needs but the initial states and the references, which it reads from
the store. It returns a receipt, never data.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from integrators.compiler import kernels
from sweep.campaign.worker.precise_reference import PreciseSolver
from sweep.campaign.worker.recorder import NamedComponent, Recipe
from sweep.campaign.worker.reference import DoubleSolver, ReferenceWork
from sweep.campaign.worker.run_work import SEGMENT, RunWork, make_reference_reader
from sweep.errors import Interrupted, LeaseLost
from sweep.store.commit.records import records_by_group
from sweep.store.files import references_group_name
from sweep.store.lease import sessions
from sweep.store.lease.sessions import Attempt, Session
from sweep.store.store import Store

if TYPE_CHECKING:
    from sweep.campaign.pilot import Rehearsal
    from sweep.store.files import ArrayFiles, RowNumbers

CHECKPOINT_EVERY = 30.0  # seconds: a killed task loses about as much
LEAVING_SECONDS = 0.5  # that a worker which is to end keeps a task that it does not begin


class Stoppable:
    """A task that its worker can stop between two segments of samples."""

    if TYPE_CHECKING:

        @property
        def cost(self) -> float:
            """Expected seconds."""

        @property
        def rows(self) -> RowNumbers | range:
            """Rows of its group."""

    @property
    def seconds_to_stop(self) -> float:
        """Within which it ends when it is told to, expected."""
        return min(self.cost, SEGMENT)

    @property
    def runs(self) -> int:
        """Number of its runs, or references."""
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class RunTask(Stoppable):
    """Runs of an experiment.

    Parameters
    ----------
    store : sweep.store.store.Store
    experiment : str
    recipe : sweep.campaign.worker.recorder.Recipe
    systems, integrators : tuple of NamedComponent
    rows : ndarray of int
        Of the store, ascending, all in one row of shards.
    integrator, system : ndarray of int
        For each of `rows`, into the task's integrators and systems.
    step_size, tolerance : ndarray of float
        NaN where the run is adaptive, or is not.
    steps_per_sample : ndarray of int
        Steps in an interval of the time axis.
    repeat : ndarray of int
    stored : ndarray of int
        Samples that are in the arrays.
    reference : ndarray of int
        Row of the reference of each of `rows`; empty without one.
    precise_starts : ndarray, or None
        As `sweep.study.run_table.RunTable.precise_starts`.
    unit : int
        Rows within which runs are integrated together.
    cost : float
        Expected seconds.
    checkpoint_every : float
        Seconds after which what is there is stored, of runs that are on their way as well.
    """

    store: Store
    experiment: str
    recipe: Recipe
    systems: tuple[NamedComponent, ...]
    integrators: tuple[NamedComponent, ...]
    rows: RowNumbers
    integrator: NDArray[np.integer]
    system: NDArray[np.integer]
    step_size: NDArray[np.float64]
    tolerance: NDArray[np.float64]
    steps_per_sample: NDArray[np.integer]
    repeat: NDArray[np.integer]
    stored: RowNumbers
    reference: RowNumbers
    precise_starts: NDArray[np.float64] | None
    unit: int
    cost: float
    checkpoint_every: float = CHECKPOINT_EVERY

    @property
    def group(self) -> str:
        """The group that its rows are of."""
        return self.experiment

    @property
    def place(self) -> tuple[str, str, int]:
        """What tells it from the other tasks of a run."""
        return self.experiment, "runs", int(self.rows[0])

    def made(self) -> RunTask:
        """The task as it is sent to a worker: itself."""
        return self


@dataclass(frozen=True, eq=False)
class ReferenceTask(Stoppable):
    """Reference trajectories, `rows` of the references' table.

    Parameters as in `RunTask`; `solver` is one of `sweep.campaign.worker.reference`, `system` has
    an index into `systems` for each of `rows`.
    """

    store: Store
    experiment: str
    times: NDArray[np.float64]
    solver: DoubleSolver | PreciseSolver
    systems: tuple[NamedComponent, ...]
    rows: RowNumbers
    system: NDArray[np.integer]
    stored: RowNumbers
    precise_starts: NDArray[np.float64] | None
    cost: float
    checkpoint_every: float = CHECKPOINT_EVERY

    @property
    def group(self) -> str:
        """As in `RunTask`."""
        return references_group_name(self.experiment)

    @property
    def place(self) -> tuple[str, str, int]:
        """As in `RunTask`."""
        return self.experiment, "references", int(self.rows[0])

    def made(self) -> ReferenceTask:
        """The task as it is sent to a worker: itself."""
        return self


@dataclass(frozen=True)
class Receipt:
    """What a task did.

    Parameters
    ----------
    experiment : str
    runs : int
        Runs committed; 0 for references.
    failed : int
        Of these, those whose status is not ``complete``.
    seconds : float
        The task's own time.
    whole : bool
        Whether all of it was done; not if the worker was told to stop, or is to end itself.
    superseded : bool
        Whether another coordinator holds the store.
    """

    experiment: str
    runs: int
    failed: int
    seconds: float
    whole: bool = True
    superseded: bool = False


def compute_task(task: RunTask | ReferenceTask, session: Session) -> Receipt:
    """Do a `RunTask` or a `ReferenceTask` of a `sweep.store.lease.sessions.Session`; the receipt.

    Raises
    ------
    sweep.errors.VersionMismatch
        If the coordinator has another version of the code.
    """
    session.check_code()
    began = time.perf_counter()
    status, whole, superseded, failure = np.zeros(0, dtype=int), False, False, None
    if sessions.is_process_leaving():
        time.sleep(LEAVING_SECONDS)  # or it would come again at once
    elif not session.is_stopped:
        try:
            with (
                sessions.marking_thread_as_computing(),
                kernels.checking(session.check_stopped),
            ):
                status, whole = _compute_and_commit_task(task, session)
        except Interrupted:  # while it compiled
            pass
        except LeaseLost:
            superseded = True
            session.stop()
        except Exception as error:
            failure = _picklable_error(error)
    if failure is not None:  # raised here, since what it is raised from would be sent with it
        raise failure
    failed, seconds = int(np.sum(status > 0)), time.perf_counter() - began
    return Receipt(task.experiment, len(status), failed, seconds, whole, superseded)


def compile_rehearsed_kernels(rehearsal: Rehearsal, session: Session) -> None:
    """Compile the kernels of a `sweep.campaign.pilot.Rehearsal`, until its session is stopped."""
    with (
        contextlib.suppress(Interrupted),
        sessions.marking_thread_as_computing(),
        kernels.checking(session.check_stopped),
    ):
        rehearsal.compile()


def _picklable_error(error: Exception) -> Exception:
    """An exception that the coordinator can be told of; Dask would wait for ever for another."""
    try:
        pickle.loads(pickle.dumps(error))
        known = not isinstance(error, RecursionError)  # its traceback is too deep
    except Exception:
        known = False
    return error if known else RuntimeError(f"{type(error).__name__}: {error}")


def _compute_and_commit_task(
    task: RunTask | ReferenceTask, session: Session
) -> tuple[np.ndarray, bool]:
    """Compute and commit; the status of the runs, and whether all of it was done."""
    attempt = Attempt(task.store, session)
    attempt.check()
    arrays = _arrays_of_group(task.store, task.group, session)
    if isinstance(task, ReferenceTask):
        return np.zeros(0, dtype=int), ReferenceWork(task, arrays, attempt).compute()
    known = {}
    if len(task.reference):
        known = _arrays_of_group(task.store, references_group_name(task.experiment), session)
    return RunWork(task, arrays, make_reference_reader(task, known), attempt).compute()


def committed_samples_of_task(task: RunTask | ReferenceTask) -> int:
    """How many samples of a task's runs are in records, those of checkpoints too.

    Parameters
    ----------
    task : RunTask or ReferenceTask
    """
    low, high, found = task.rows[0], task.rows[-1], 0
    for records in records_by_group(task.store, place=task.group).get(task.group, {}).values():
        for name in (record.name for record in records):
            if name.start <= high and name.stop > low:
                found += name.count * (name.last - name.first)
    return found


@functools.lru_cache(maxsize=64)
def _arrays_of_group(store: Store, place: str, session: Session) -> dict[str, ArrayFiles]:
    """The arrays of a group, looked up once."""
    return store.arrays_of_group(place)
