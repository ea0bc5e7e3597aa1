"""What a worker does: whole chunk rows of a store, computed and committed. Knows no Dask.

A task is sent with all it needs but the initial states and the references, which it reads from
the store. It returns a receipt, never data.
"""

import contextlib
import functools
import pickle
import time
from dataclasses import dataclass

import numpy as np

from integrators.compiler import kernels
from sweep.campaign.chunks import SEGMENT, ChunkWork, make_reference_reader, open_reference_arrays
from sweep.campaign.recorder import Recipe
from sweep.campaign.reference import ReferenceWork
from sweep.errors import FencedOff, Interrupted, LeaseLost
from sweep.store import checkpoints
from sweep.store.files import references_group_name
from sweep.store.lease import sessions
from sweep.store.lease.fencing import Attempt
from sweep.store.store import Store
from sweep.study import schema

CHECKPOINT_EVERY = 30.0  # seconds: a killed task loses about as much
LEAVING_SECONDS = 0.5  # that a worker which is to end keeps a task that it does not begin


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows of the run table that belong together, and what to compute of them.

    Parameters
    ----------
    start, stop : int
        Rows of the store; whole chunks.
    rows : ndarray of int
        Those to compute.
    integrator, system : ndarray of int
        For each of `rows`, into the task's integrators and systems.
    step_size, tolerance : ndarray of float
        NaN where the run is adaptive, or is not.
    steps_per_sample : ndarray of int
        Steps in an interval of the time axis.
    repeat : ndarray of int
    reference : ndarray of int
        Row of the reference of each of `rows`; empty without one.
    """

    start: int
    stop: int
    rows: np.ndarray
    integrator: np.ndarray
    system: np.ndarray
    step_size: np.ndarray
    tolerance: np.ndarray
    steps_per_sample: np.ndarray
    repeat: np.ndarray
    reference: np.ndarray


class Stoppable:
    """A task that is stopped between two segments."""

    @property
    def seconds_to_stop(self):
        """Within which it ends when it is told to, expected."""
        return min(self.cost, SEGMENT)


@dataclass(frozen=True, eq=False)
class RunTask(Stoppable):
    """Chunks of an experiment's runs.

    Parameters
    ----------
    store : sweep.store.store.Store
    experiment : str
    recipe : sweep.campaign.recorder.Recipe
    systems, integrators : tuple of Named
    chunks : tuple of Chunk
    cost : float
        Expected seconds.
    checkpoint_every : float
        Seconds after which what is there is stored, of runs that are on their way as well.
    """

    store: Store
    experiment: str
    recipe: Recipe
    systems: tuple
    integrators: tuple
    chunks: tuple
    cost: float
    checkpoint_every: float = CHECKPOINT_EVERY

    @property
    def place(self):
        """What tells it from the other tasks of a run."""
        return self.experiment, "runs", self.chunks[0].start


@dataclass(frozen=True, eq=False)
class ReferenceTask(Stoppable):
    """Reference trajectories: `rows` of the references' table, all in whole chunks.

    Parameters as in `RunTask`; `system` has an index into `systems` for each of `rows`.
    """

    store: Store
    experiment: str
    times: np.ndarray
    tolerance: float
    systems: tuple
    rows: np.ndarray
    system: np.ndarray
    start: int
    stop: int
    cost: float
    checkpoint_every: float = CHECKPOINT_EVERY

    @property
    def place(self):
        """As in `RunTask`."""
        return self.experiment, "references", self.start


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


def compute_task(task, session):
    """Do a `RunTask` or a `ReferenceTask` of a `sweep.store.lease.sessions.Session`; the receipt.

    Raises
    ------
    sweep.errors.VersionMismatch
        If the coordinator has another version of the code.
    """
    session.check_code()
    began = time.perf_counter()
    statuses, whole, superseded, failure = [], False, False, None
    if sessions.is_process_leaving():
        time.sleep(LEAVING_SECONDS)  # or it would come again at once
    elif not session.is_stopped:
        try:
            with (
                sessions.marking_thread_as_computing(),
                kernels.checking(session.check_stopped),
                Attempt(task, session) as attempt,
            ):
                whole = _compute_and_commit_task(task, attempt, statuses)
        except FencedOff:  # by the one that the cluster knows of
            pass
        except Interrupted:  # while it compiled
            pass
        except LeaseLost:
            superseded = True
            session.stop()
        except Exception as error:
            failure = _picklable_error(error)
    if failure is not None:  # raised here, since what it is raised from would be sent with it
        raise failure
    status = np.array(statuses, dtype=int)
    failed, seconds = int(np.sum(status > 0)), time.perf_counter() - began
    return Receipt(task.experiment, len(status), failed, seconds, whole, superseded)


def compile_rehearsed_kernels(rehearsal, session):
    """Compile the kernels of a `sweep.campaign.pilot.Rehearsal`, until its session is stopped."""
    with (
        contextlib.suppress(Interrupted),
        sessions.marking_thread_as_computing(),
        kernels.checking(session.check_stopped),
    ):
        rehearsal.compile()


def _picklable_error(error):
    """An exception that the coordinator can be told of; Dask would wait for ever for another."""
    try:
        pickle.loads(pickle.dumps(error))
        known = not isinstance(error, RecursionError)  # its traceback is too deep
    except Exception:
        known = False
    return error if known else RuntimeError(f"{type(error).__name__}: {error}")


def _compute_and_commit_task(task, attempt, statuses):
    """Compute and commit; the statuses of runs are appended. Whether all of it was done."""
    session = attempt.session
    if isinstance(task, ReferenceTask):
        arrays = open_reference_arrays(task.store, task.experiment, session)
        return ReferenceWork(task, arrays, attempt).compute()
    arrays = _open_group_arrays(task.store, task.experiment, session)
    for chunk in task.chunks:
        if session.is_stopped:
            return False
        references = make_reference_reader(task, chunk, session)
        work = ChunkWork(
            task, chunk, arrays, _open_checkpoint_array(task, session), references, attempt
        )
        statuses.extend(work.compute())
        if not work.whole:
            return False
    return True


def committed_samples_of_task(task):
    """How many samples of a task's runs are stored, those of runs on their way too.

    Parameters
    ----------
    task : RunTask or ReferenceTask
    """
    if isinstance(task, ReferenceTask):
        marker = task.store.group(references_group_name(task.experiment))[schema.MARKER.name]
        return int(marker[task.start : task.stop].sum())
    marker, found = task.store.group(task.experiment)[schema.MARKER.name], 0
    for chunk in task.chunks:
        found += int(marker[chunk.start : chunk.stop][chunk.rows - chunk.start].sum())
        own = checkpoints.checkpoint_file_of_chunk(task.store, task.experiment, chunk.start)
        saved = checkpoints.load_checkpoint(own, checkpoints.checkpoint_identity(task.recipe))
        found += 0 if saved is None else saved.sample * len(saved.runs)
    return found


@functools.lru_cache(maxsize=64)
def _open_group_arrays(store, group, session):
    """The arrays of a group, opened once."""
    return dict(store.group(group, "r+").arrays())


def _open_checkpoint_array(task, session):
    return _open_group_arrays(
        task.store, checkpoints.end_checkpoints_group_name(task.experiment), session
    )[checkpoints.CHECKPOINT.name]
