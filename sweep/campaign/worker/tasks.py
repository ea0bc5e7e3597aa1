"""Tasks: what a worker is sent to compute, and the receipt that it returns.

A task has all that its computation needs but the initial states and the references, which the
worker reads from the store. Results go into the store too: a receipt says only what was done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sweep.campaign.worker.recorder import NamedComponent, Recipe
from sweep.store.files import references_group_name
from sweep.store.store import Store

if TYPE_CHECKING:
    from sweep.store.files import RowNumbers
    from sweep.study.run_table import States
    from systems.base import System

CHECKPOINT_EVERY = 30.0  # seconds: a killed task loses about as much
SEGMENT = 2.0  # seconds that a segment should take at most: a run that is stopped ends with it
LEAST_SEGMENT = 0.1  # and that it should take at least, unless it has a new sample
MOST_BYTES = 2**26  # of results in memory, about, that are not committed


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """Runs or references of an experiment that one worker computes together.

    A worker that is stopped ends its task after the current segment of steps.

    Parameters
    ----------
    checkpoint_every : float
        Seconds between two commits of finished rows; unfinished ones are stored after half of it,
        see `sweep.campaign.worker.segments`.
    """

    checkpoint_every: float = CHECKPOINT_EVERY

    if TYPE_CHECKING:

        @property
        def store(self) -> Store:
            """The store that has its rows."""

        @property
        def experiment(self) -> str:
            """Name of the experiment."""

        @property
        def group(self) -> str:
            """The group that has its rows."""

        @property
        def key(self) -> tuple[str, str, int]:
            """Unique key of the task among those of a run."""

        @property
        def rows(self) -> RowNumbers | range:
            """Its rows, ascending, all in one row of shards."""

        @property
        def cost(self) -> float:
            """Expected seconds."""

        def build(self) -> RunTask | ReferenceTask:
            """The task as it is sent to a worker."""

    @property
    def seconds_to_stop(self) -> float:
        """Expected seconds until it ends once it is stopped: those of a segment at most."""
        return min(self.cost, SEGMENT)

    @property
    def segment(self) -> float:
        """Seconds that a segment should take at most."""
        return min(SEGMENT, max(LEAST_SEGMENT, self.checkpoint_every))

    @property
    def ends_segments_at_samples(self) -> bool:
        """Whether each sample ends a segment: checkpoints are wanted as often as can be."""
        return self.checkpoint_every < LEAST_SEGMENT

    @property
    def runs(self) -> int:
        """Number of its runs, or references."""
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class RunTask(Task):
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
        Number of samples of each run that are in the arrays of the store.
    reference : ndarray of int
        Row of the reference of each of `rows`; empty without one.
    precise_starts : ndarray, or None
        As `sweep.study.run_table.RunTable.precise_starts`.
    unit : int
        Number of consecutive rows within which runs are integrated together.
    cost : float
        Expected seconds.
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

    @property
    def group(self) -> str:
        """Name of the group in the store: that of the experiment."""
        return self.experiment

    @property
    def key(self) -> tuple[str, str, int]:
        """Unique key of the task among those of a run."""
        return self.experiment, "runs", int(self.rows[0])

    def build(self) -> RunTask:
        """The task as it is sent to a worker: itself."""
        return self


class Advance(NamedTuple):
    """How far a reference was computed.

    Parameters
    ----------
    columns : dict of str to ndarray, shape (samples, …)
        Variables of the references' group, at the samples that were reached.
    checkpoint : ndarray
        From which it goes on.
    part : float
        What is done of the way to the next sample, below 1.
    steps : int
        Number of steps that were taken.
    """

    columns: dict[str, Any]
    checkpoint: NDArray[np.float64]
    part: float
    steps: int


class ReferenceSolver(Protocol):
    """Computes the references of an experiment, see `sweep.campaign.worker.reference`."""

    @property
    def identity(self) -> object:
        """Settings, by their `repr`, on which references depend besides system, state and times."""

    def checkpoint_length(self, system: System) -> int:
        """Numbers in the checkpoint of a reference."""

    def load(self, system: System, initial: States, known: States | None) -> None:
        """Load the kernels, or compile those that the disk cache lacks."""

    def rehearse(self, system: System, initial: States, known: States | None) -> None:
        """Compile all kernels."""

    def advance(
        self,
        system: System,
        initial: States,
        known: States | None,
        first: int,
        checkpoint: NDArray[np.float64] | None = None,
        most: int | None = None,
    ) -> Advance:
        """Compute a reference from sample `first` on, to the last one or for some steps.

        Parameters
        ----------
        system : systems.System
        initial : ndarray, shape (rows, 3)
        known : ndarray, shape (rows, 3, 2), optional
            The initial state in double-double, where it is known to more digits.
        first : int
        checkpoint : ndarray, optional
            At sample ``first - 1`` or on the way to `first`; needed unless `first` is 0.
        most : int, optional
            Number of steps after which to stop, between two samples too.
        """


@dataclass(frozen=True, eq=False)
class ReferenceTask(Task):
    """Reference trajectories, `rows` of the references' table.

    Parameters as in `RunTask`; `solver` is one of `sweep.campaign.worker.reference`, `system` has
    an index into `systems` for each of `rows`.
    """

    store: Store
    experiment: str
    times: NDArray[np.float64]
    solver: ReferenceSolver
    systems: tuple[NamedComponent, ...]
    rows: RowNumbers
    system: NDArray[np.integer]
    stored: RowNumbers
    precise_starts: NDArray[np.float64] | None
    cost: float

    @property
    def group(self) -> str:
        """Name of the group in the store: that of the references."""
        return references_group_name(self.experiment)

    @property
    def key(self) -> tuple[str, str, int]:
        """Unique key of the task among those of a run."""
        return self.experiment, "references", int(self.rows[0])

    def build(self) -> ReferenceTask:
        """The task as it is sent to a worker: itself."""
        return self


@dataclass(frozen=True)
class Receipt:
    """Result of a task, as its worker reports it to the coordinator.

    Parameters
    ----------
    experiment : str
    runs : int
        Number of runs that this attempt has committed, without those that it found done; 0 for
        references.
    failed : int
        Number of these whose status is not ``complete``.
    seconds : float
        Wall time of the task.
    whole : bool
        Whether the task is done; False if the worker was stopped, or is about to end.
    fenced_off : bool
        Whether the session has ended, or another coordinator holds the store's lease by now.
    """

    experiment: str
    runs: int
    failed: int
    seconds: float
    whole: bool = True
    fenced_off: bool = False
