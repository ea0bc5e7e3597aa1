"""Compute the reference trajectories of a task, one after the other.

A reference resumes from its checkpoint, after an interruption as well as for a longer duration.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

import integrators
from integrators.methods import dormand_prince
from integrators.status import COMPLETE, NOT_CONSERVED, STATUS, STEP_TOO_SMALL
from integrators.stepping.adaptive import StepBound, part_of_interval
from sweep.campaign.worker.commit import TaskRows
from sweep.campaign.worker.conservation import conserving_samples
from sweep.campaign.worker.precise_reference import PreciseSolver
from sweep.campaign.worker.task import Advance, Task
from sweep.campaign.worker.trajectory import NamedComponent, make_system, norms_of_state_errors
from sweep.store import checkpoints
from sweep.store.files import references_group_name
from sweep.study import schema
from sweep.study.experiment import PreciseReference, Reference

if TYPE_CHECKING:
    from integrators.stepping.adaptive import AdaptiveProblem
    from sweep.store.files import ArrayFiles, RowNumbers
    from sweep.store.lease.sessions import Attempt
    from sweep.store.store import Store
    from sweep.study.experiment import ResolvedExperiment
    from sweep.study.run_table import States
    from systems.base import System

CHECKPOINT = checkpoints.CHECKPOINT.name
CHECKPOINT_STATE = (  # that a reference resumes with
    CHECKPOINT, schema.CPU_TIME, *(variable.name for variable in schema.OF_REFERENCE_ENDS),
)  # fmt: skip
REHEARSED_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class ReferenceTask(Task):
    """Reference trajectories, `rows` of the references' table.

    Parameters as in `RunTask`; `solver` is one of this module's, `system` has an
    index into `systems` for each of `rows`.
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
    kind: ClassVar[str] = "references"

    @property
    def group(self) -> str:
        """Name of the group that has its rows: that of the references."""
        return references_group_name(self.experiment)


class ReferenceWork:
    """The computation of a task's references.

    Parameters
    ----------
    task : ReferenceTask
    arrays : dict of str to sweep.store.files.ArrayFiles
        Arrays of the experiment's references, by name.
    attempt : sweep.store.lease.sessions.Attempt
    """

    def __init__(
        self, task: ReferenceTask, arrays: Mapping[str, ArrayFiles], attempt: Attempt
    ) -> None:
        self.task = task
        self.initial = arrays[schema.INITIAL_STATE.name].read_rows(task.rows)
        known = {name: arrays[name].read_rows(task.rows) for name in CHECKPOINT_STATE}
        stored = np.where(np.isfinite(known[CHECKPOINT][:, 0]), task.stored, 0)
        stored = np.where(known[schema.REFERENCE_END] == schema.PENDING, 0, stored)
        identity = checkpoints.checkpoint_identity(
            task.solver.identity, CHECKPOINT_STATE, times=task.times
        )
        self.recording = TaskRows(
            task.store, task.group, arrays, task.rows, stored, len(task.times), attempt, identity
        )
        columns, on = self.recording.columns, stored > 0
        for name, values in known.items():
            columns[name][on] = values[on]

    def batches(self) -> Iterator[_SegmentedReference]:
        """Those that are left, each by itself."""
        made = [make_system(named) for named in self.task.systems]
        for i in np.flatnonzero(~self.recording.done).tolist():
            yield _SegmentedReference(self, i, made[self.task.system[i]])


class _SegmentedReference:
    """A reference, a `SegmentedBatch`."""

    def __init__(self, work: ReferenceWork, i: int, system: System) -> None:
        self.indices = np.array([i])
        self.task, self.recording, self.system, self._i = work.task, work.recording, system, i
        known = self.task.precise_starts
        own = None if known is None else known[i, : system.rows]
        self._initial = work.initial[i, : system.rows], own  # and the same in double-double
        recording, self._part = self.recording, 0.0
        self._count = int(recording.checkpointed[i, 0]) or int(recording.first[i])
        if recording.checkpointed[i, 0]:
            for name, values in recording.checkpoint_state(CHECKPOINT_STATE, [i]).items():
                recording.columns[name][i] = values[0]
        self.task.solver.load(system, *self._initial)

    @property
    def kind(self) -> int:
        """What the time of its next steps depends on: the system."""
        return int(self.task.system[self._i])

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to compute."""
        return self._count == len(self.task.times)

    def checkpoint(self) -> None:
        """Write a checkpoint."""
        state = {name: self.recording.columns[name][self.indices] for name in CHECKPOINT_STATE}
        self.recording.checkpoint(self.indices, self._count, state, self._part)

    def finish(self) -> None:
        """Say that it is whole."""
        self.recording.columns[schema.SAMPLE_COUNT.name][self._i] = self._count

    def advance(self, most: int) -> int:
        """Compute the next samples, as far as some steps lead; returns how many were taken."""
        i, count, columns, solver = self._i, self._count, self.recording.columns, self.task.solver
        size = solver.checkpoint_length(self.system)
        checkpoint = columns[CHECKPOINT][i, :size] if count else None
        began = time.thread_time()
        advance = solver.advance(self.system, *self._initial, count, checkpoint, most)
        found, upto = advance.columns, count + len(advance.columns["error"])
        seconds, before = time.thread_time() - began, columns[schema.CPU_TIME][i]
        columns[schema.CPU_TIME][i] = seconds + (before if count and before > 0 else 0.0)
        if not count:
            columns[schema.REFERENCE_END][i] = columns[schema.HELD_SAMPLES][i] = 0
        series = {name: values[None] for name, values in found.items() if np.ndim(values)}
        self.recording.put(self.indices, upto, series)
        for name in found.keys() - series.keys():
            columns[name][i] = found[name]
        columns[schema.HELD_SAMPLES][i] += np.isfinite(found["error"]).sum()
        columns[CHECKPOINT][i, :size] = advance.checkpoint
        self._count, self._part = upto, advance.part
        return advance.steps


def make_solver(
    experiment: ResolvedExperiment, reference: Reference, samples: int
) -> DoubleSolver | PreciseSolver:
    """The solver that computes the references of an experiment.

    Parameters
    ----------
    experiment : sweep.study.experiment.ResolvedExperiment
    reference : sweep.study.experiment.Reference
        That of the experiment.
    samples : int
        Leading samples of the experiment at which references are wanted.

    Returns
    -------
    DoubleSolver or PreciseSolver
    """
    if isinstance(reference, PreciseReference):
        return PreciseSolver.of(experiment, reference, samples)
    return DoubleSolver(experiment.times[:samples], reference, experiment.max_steps)


@dataclass(frozen=True, eq=False)
class DoubleSolver:
    """Computes references in double precision, by an adaptive integrator.

    Its methods are those of `PreciseSolver`.

    Parameters
    ----------
    times : ndarray, shape (samples,)
    reference : sweep.study.experiment.Reference
    max_steps : int
        That it may take.
    """

    times: NDArray[np.float64]
    reference: Reference
    max_steps: int

    @property
    def bound(self) -> StepBound:
        """The `StepBound` of a whole reference."""
        return StepBound(float(self.times[-1]), self.max_steps)

    @property
    def identity(self) -> float:
        """The tolerance, on which its references depend."""
        return self.reference.tolerance

    def checkpoint_length(self, system: System) -> int:
        """Numbers in the checkpoints of a reference."""
        return checkpoints.reference_checkpoint_length(self.reference, system)

    def load(self, system: System, initial: States, known: States | None = None) -> None:
        """Load the kernels; of one sample no step is computed."""
        compute_reference_trajectory(system, initial, self.times[:1], self.identity, self.bound)

    def rehearse(self, system: System, initial: States, known: States | None = None) -> None:
        """Compile the kernels, by some steps."""
        compute_reference_trajectory(system, initial, self.times, REHEARSED_TOLERANCE, self.bound)

    def advance(
        self,
        system: System,
        initial: States,
        known: States | None,
        first: int,
        checkpoint: NDArray[np.float64] | None = None,
        most: int | None = None,
    ) -> Advance:
        """Compute a reference from sample `first` on, to the last one or for some steps."""
        start, before = max(first - 1, 0), 0 if checkpoint is None else _steps_tried(checkpoint)
        states, error, checkpoint = compute_reference_trajectory(
            system, initial, self.times[start:], self.identity, self.bound, checkpoint, most
        )
        new = slice(first - start, None)
        found: dict[str, Any] = {"states": states[new], "error": error[new]}
        fine, _ = parts = np.split(checkpoint, 2)
        if (
            kept := self._trusted_samples(system, initial, found["states"], first, fine)
        ) is not None:
            fine[[dormand_prince.STATUS, dormand_prince.TIME]] = (
                NOT_CONSERVED,
                self.times[first + kept],
            )
            found["states"][kept:] = found["error"][kept:] = np.nan
            checkpoint = np.concatenate(parts)
        for own in parts:
            if (status := int(own[dormand_prince.STATUS])) > COMPLETE:
                found |= {schema.REFERENCE_END: schema.REFERENCE_ENDS.index(STATUS[status])}
                found |= {schema.STOP_TIME: own[dormand_prince.TIME]}
                if status == STEP_TOO_SMALL and np.isnan(own[dormand_prince.MARKED]):
                    found |= {"steps": own[dormand_prince.STEPS]}  # the bound ended it
                break
        ahead = self.times[start + len(states) - 1 :]
        part = part_of_interval(ahead, checkpoint[dormand_prince.TIME])
        return Advance(found, checkpoint, part, _steps_tried(checkpoint) - before)

    def _trusted_samples(
        self,
        system: System,
        initial: States,
        states: States,
        first: int,
        checkpoint: NDArray[np.float64],
    ) -> int | None:
        """Leading samples from `first` on at which all is conserved; None if at all there are."""
        there = int(np.isfinite(states).all(axis=(1, 2)).cumprod().sum())
        if not there:
            return None
        times, steps = self.times[first : first + there], int(checkpoint[dormand_prince.STEPS])
        problem = cast("AdaptiveProblem", integrators.get("dop853").bind(system))
        kept = conserving_samples(
            system, problem, initial, states[:there], times, self.identity, steps
        )
        return None if kept == there else kept


def compute_reference_trajectory(
    system: System,
    initial: States,
    times: NDArray[np.float64],
    tolerance: float,
    bound: StepBound,
    checkpoints: NDArray[np.float64] | None = None,
    most: int | None = None,
) -> tuple[States, NDArray[np.float64], NDArray[np.float64]]:
    """Integrate a reference trajectory, and estimate its error.

    Parameters
    ----------
    system : systems.System
    initial : ndarray, shape (rows, 3)
    times : ndarray, shape (S,)
    tolerance : float
    bound : StepBound
        Of the whole reference.
    checkpoints : ndarray, shape (2 * size,), optional
        Checkpoints of an earlier call, at ``times[0]`` or on the way to the next sample; `initial`
        is ignored then.
    most : int, optional
        Number of steps after which to stop.

    Returns
    -------
    states : ndarray, shape (reached, rows, 3)
        NaN from the sample on at which it, or that at ten times the tolerance, fails.
    error : ndarray, shape (reached,)
        Distance to the states at ten times the tolerance, a bound of the reference's own error.
    checkpoints : ndarray, shape (2 * size,)
        Checkpoints of both at the end; see `checkpoints.reference_checkpoint_length`.
    """
    known: Sequence[NDArray[np.float64] | None] = (None, None)
    if checkpoints is not None:
        known = np.split(checkpoints, 2)
    solve = functools.partial(dormand_prince.solve, system, initial, bound=bound)
    states, _, fine = solve(times, tolerance, checkpoint=known[0], most=most)
    there = np.isfinite(states).all(axis=(1, 2))
    there[0] = True  # where it begins
    count = int(there.cumprod().sum())  # where the finer one ends, the other one may end as well
    # Between two samples it goes as far, and at one no farther, or it would step over the next one.
    until = fine[dormand_prince.TIME] if len(states) < len(times) else -np.inf
    coarse, _, rough = solve(
        times[:count], min(10 * tolerance, 0.1), checkpoint=known[1], until=until
    )
    coarse = np.concatenate([coarse, np.full_like(states[count:], np.nan)])
    error = norms_of_state_errors(system, states - coarse)
    states[np.isnan(error)] = np.nan  # where one has failed
    return states, error, np.concatenate([fine, rough])


def _steps_tried(checkpoint: NDArray[np.float64]) -> int:
    """Number of steps that the finer trajectory of a reference has tried."""
    return int(checkpoint[[dormand_prince.STEPS, dormand_prince.REJECTED]].sum())
