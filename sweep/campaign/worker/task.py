"""Tasks, which are sent to workers, and the receipts that workers return.

A task has all that its computation needs, except the initial states and the references, which the
worker reads from the store. Results go into the store as well; a receipt only says what was done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep.campaign.worker.trajectory import NamedComponent, Recipe
from sweep.store.store import Store

if TYPE_CHECKING:
    from sweep.store.files import RowNumbers
    from sweep.study.run_table import RunTable

CHECKPOINT_EVERY = 30.0  # seconds; a killed task loses at most about this much work
SEGMENT = 2.0  # most seconds of a segment, after which a stopped run ends
LEAST_SEGMENT = 0.1  # least seconds of a segment, unless it has a new sample
MOST_BYTES = 2**26  # approximate size of uncommitted results in memory


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """Runs or references of an experiment that one worker computes together.

    A worker that is stopped ends its task after the current segment of steps.

    Parameters
    ----------
    store : sweep.store.store.Store
        The store that has its rows.
    experiment : str
    rows : range or ndarray of int
        Rows of the store, ascending, all in one row of shards.
    cost : float
        Expected seconds.
    checkpoint_every : float
        Seconds between two commits of finished rows; unfinished rows are stored in checkpoints
        twice as often, see `sweep.campaign.worker.compute`.
    """

    store: Store
    experiment: str
    rows: RowNumbers | range
    cost: float
    checkpoint_every: float = CHECKPOINT_EVERY

    @property
    def group(self) -> str:
        """Name of the group that has its rows: that of the experiment, or of its references."""
        return self.experiment

    @property
    def key(self) -> tuple[str, int]:
        """Group and first row, which identify the task within a run."""
        return self.group, int(self.rows[0])

    def build(self) -> Task:
        """The task as it is sent to a worker: itself, unless it is only planned."""
        return self

    @property
    def seconds_to_stop(self) -> float:
        """Expected seconds until the task ends after a stop: at most those of a segment."""
        return min(self.cost, SEGMENT)

    @property
    def segment(self) -> float:
        """Seconds that a segment should take at most."""
        return min(SEGMENT, max(LEAST_SEGMENT, self.checkpoint_every))

    @property
    def ends_segments_at_samples(self) -> bool:
        """Whether each sample ends a segment, for checkpoints as often as possible."""
        return self.checkpoint_every < LEAST_SEGMENT

    @property
    def runs(self) -> int:
        """Number of its runs, or references."""
        return len(self.rows)


class RunColumns(NamedTuple):
    """The columns of a `sweep.study.run_table.RunTable` that a worker needs."""

    integrator_index: NDArray[np.integer]
    system_index: NDArray[np.integer]
    step_size: NDArray[np.float64]
    tolerance: NDArray[np.float64]
    steps_per_sample: NDArray[np.integer]
    repeat: NDArray[np.integer]

    @classmethod
    def of(cls, table: RunTable) -> RunColumns:
        """The columns of a table."""
        return cls(*(getattr(table, name) for name in cls._fields))


@dataclass(frozen=True, eq=False, kw_only=True)
class RunTask(Task):
    """Runs of an experiment.

    Parameters
    ----------
    recipe : sweep.campaign.worker.trajectory.Recipe
    systems, integrators : tuple of NamedComponent
        Systems and integrators; `columns` has indices into them.
    columns : RunColumns
        Columns for `rows`.
    stored : ndarray of int
        Number of samples of each run that are in the arrays of the store.
    reference : ndarray of int
        Row of the reference of each of `rows`; empty without one.
    precise_starts : ndarray, or None
        As `sweep.study.run_table.RunTable.precise_starts`.
    """

    recipe: Recipe
    systems: tuple[NamedComponent, ...]
    integrators: tuple[NamedComponent, ...]
    rows: RowNumbers
    columns: RunColumns
    stored: RowNumbers
    reference: RowNumbers
    precise_starts: NDArray[np.float64] | None


class Advance(NamedTuple):
    """How far a reference was computed.

    Parameters
    ----------
    columns : dict of str to ndarray, shape (samples, …)
        Variables of the references' group, at the samples that were reached.
    checkpoint : ndarray
        Checkpoint from which it continues.
    part : float
        Finished part of the interval to the next sample, below 1.
    steps : int
        Number of steps that were taken.
    """

    columns: dict[str, Any]
    checkpoint: NDArray[np.float64]
    part: float
    steps: int


class Receipt(NamedTuple):
    """Result of a task, as its worker reports it to the coordinator.

    Parameters
    ----------
    runs : int
        Number of runs that this attempt has committed, without runs that were done before; 0 for
        references.
    seconds : float
        Wall time of the task.
    whole : bool
        Whether the task is done; False if the worker was stopped, or is about to end.
    fenced_off : bool
        Whether the session has ended, or another coordinator holds the store's lease.
    errors : tuple of (str, str)
        Errors that steps in Python raised: a step with its file and line, and its error.
    """

    runs: int
    seconds: float
    whole: bool = True
    fenced_off: bool = False
    errors: tuple[tuple[str, str], ...] = ()
