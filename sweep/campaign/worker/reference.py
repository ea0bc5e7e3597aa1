"""Compute the reference trajectories of a task, one after the other.

A reference resumes from its checkpoint after an interruption, and for a longer duration.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

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
from sweep.study import variables
from sweep.study.experiment import PreciseReference, Reference

if TYPE_CHECKING:
    from integrators.stepping.adaptive import AdaptiveProblem
    from sweep.store.files import ArrayFiles, RowNumbers
    from sweep.store.lease.sessions import Attempt
    from sweep.study.experiment import ResolvedExperiment
    from sweep.study.run_table import States
    from systems.base import System

CHECKPOINT = checkpoints.CHECKPOINT.name
CHECKPOINT_STATE = (  # that a reference resumes with
    CHECKPOINT, variables.CPU_TIME, *(variable.name for variable in variables.OF_REFERENCE_ENDS),
)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class ReferenceTask(Task):
    """Reference trajectories, `rows` of the references' table.

    Parameters as in `RunTask`; `solver` is one of this module's, `system` has an
    index into `systems` for each of `rows`.
    """

    times: NDArray[np.float64]
    solver: DoubleSolver | PreciseSolver
    systems: tuple[NamedComponent, ...]
    rows: RowNumbers
    system: NDArray[np.integer]
    stored: RowNumbers
    precise_starts: NDArray[np.float64] | None

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

    Attributes
    ----------
    rows : TaskRows
    initial : ndarray, shape (rows, R, 3)
    """

    def __init__(
        self, task: ReferenceTask, arrays: Mapping[str, ArrayFiles], attempt: Attempt
    ) -> None:
        self.task = task
        self.initial = arrays[variables.INITIAL_STATE.name].read_rows(task.rows)
        ends = {name: arrays[name].read_rows(task.rows) for name in CHECKPOINT_STATE}
        known = np.isfinite(ends[CHECKPOINT][:, 0]) & (
            ends[variables.REFERENCE_END] != variables.PENDING
        )
        stored = np.where(known, task.stored, 0)
        identity = checkpoints.checkpoint_identity(
            task.solver.reference, CHECKPOINT_STATE, times=task.times
        )
        self.rows = TaskRows(task, arrays, stored, ends, len(task.times), attempt, identity)

    def batches(self) -> Iterator[ReferenceBatch]:
        """Yield the remaining references one by one; loads kernels before the first of a system."""
        made, loaded = [make_system(named) for named in self.task.systems], set()
        for i in np.flatnonzero(~self.rows.done).tolist():
            batch = ReferenceBatch(self, i, made[self.task.system[i]])
            if batch.kind not in loaded:
                self.task.solver.rehearse(batch.system, *batch.initial)
                loaded.add(batch.kind)
            yield batch


class ReferenceBatch:
    """A reference by itself, with the methods of a `sweep.campaign.worker.run_work.RunBatch`."""

    def __init__(self, work: ReferenceWork, i: int, system: System) -> None:
        self.indices = np.array([i])
        self.task, self.rows, self.system, self._i = work.task, work.rows, system, i
        known = self.task.precise_starts
        own = None if known is None else known[i, : system.rows]
        self.initial = work.initial[i, : system.rows], own  # and the same in double-double
        self._count, self._part = int(self.rows.reached[i, 0]), 0.0
        if self._count:
            for name, values in self.rows.state(CHECKPOINT_STATE, self.indices).items():
                self.rows.columns[name][i] = values[0]

    @property
    def kind(self) -> int:
        """A key of equal speed: the system."""
        return int(self.task.system[self._i])

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to compute."""
        return self._count == len(self.task.times)

    def checkpoint(self) -> None:
        """Write a checkpoint."""
        state = {name: self.rows.columns[name][self.indices] for name in CHECKPOINT_STATE}
        self.rows.checkpoint(self.indices, self._count, state, self._part)

    def finish(self) -> None:
        """Mark the reference as complete."""
        self.rows.columns[variables.SAMPLE_COUNT.name][self._i] = self._count

    def advance(self, most: int) -> int:
        """Take up to `most` steps, compute the samples reached, and return the number of steps."""
        i, count, columns, solver = self._i, self._count, self.rows.columns, self.task.solver
        size = checkpoints.reference_checkpoint_length(solver.reference, self.system)
        checkpoint = columns[CHECKPOINT][i, :size] if count else None
        began = time.thread_time()
        advance = solver.advance(self.system, *self.initial, count, checkpoint, most)
        seconds = time.thread_time() - began
        columns[variables.CPU_TIME][i] = np.nansum([columns[variables.CPU_TIME][i], seconds])
        found, error = advance.columns, advance.columns["error"]
        if not count:
            columns[variables.REFERENCE_END][i] = columns[variables.HELD_SAMPLES][i] = 0
        columns[variables.HELD_SAMPLES][i] += np.isfinite(error).sum()
        self._count, self._part = count + len(error), advance.part
        series = {name: values[None] for name, values in found.items() if np.ndim(values)}
        self.rows.put(self.indices, self._count, series)
        for name in found.keys() - series.keys():
            columns[name][i] = found[name]
        columns[CHECKPOINT][i, :size] = advance.checkpoint
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
        axis = experiment.time_axis
        return PreciseSolver(reference, axis.duration, axis.intervals, axis.marks[:samples])
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
        Largest number of steps.
    """

    times: NDArray[np.float64]
    reference: Reference
    max_steps: int

    def rehearse(self, system: System, initial: States, known: States | None = None) -> None:
        """Compile, or load, the kernels, by a step."""
        self.advance(system, initial, known, 0, most=1)

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

        Its error is the distance from the trajectory with ten times the tolerance. States and
        errors are NaN from the sample on at which one of the two fails, or this one is not trusted.
        """
        start, tolerance = max(first - 1, 0), self.reference.tolerance
        ahead, tried = self.times[start:], 0
        before: Sequence[NDArray[np.float64] | None] = (None, None)
        if checkpoint is not None:
            before, tried = np.split(checkpoint, 2), _steps_tried(checkpoint)
        bound = StepBound(float(self.times[-1]), self.max_steps)
        solve = functools.partial(dormand_prince.solve, system, initial, bound=bound)
        states, _, fine = solve(ahead, tolerance, checkpoint=before[0], most=most)
        there = np.isfinite(states).all(axis=(1, 2))
        there[0] = True  # where it begins
        # The coarser trajectory may end where the finer one does. Between samples it goes as far;
        # at a sample it goes no farther, or it would step over the next one.
        count = int(there.cumprod().sum())
        until = fine[dormand_prince.TIME] if len(states) < len(ahead) else -np.inf
        coarse, _, rough = solve(
            ahead[:count], min(10 * tolerance, 0.1), checkpoint=before[1], until=until
        )
        coarse = np.concatenate([coarse, np.full_like(states[count:], np.nan)])
        error = norms_of_state_errors(system, states - coarse)
        states[np.isnan(error)] = np.nan  # where one has failed
        new = slice(first - start, None)
        found: dict[str, Any] = {"states": states[new], "error": error[new]}
        self._end_where_not_conserved(system, initial, found, first, fine)
        for own in (fine, rough):
            if (status := int(own[dormand_prince.STATUS])) > COMPLETE:
                found |= {variables.REFERENCE_END: variables.REFERENCE_ENDS.index(STATUS[status])}
                found |= {variables.STOP_TIME: own[dormand_prince.TIME]}
                if status == STEP_TOO_SMALL and np.isnan(own[dormand_prince.MARKED]):
                    found |= {"steps": own[dormand_prince.STEPS]}  # the bound ended it
                break
        part = part_of_interval(ahead[len(states) - 1 :], fine[dormand_prince.TIME])
        return Advance(found, np.concatenate([fine, rough]), part, _steps_tried(fine) - tried)

    def _end_where_not_conserved(
        self,
        system: System,
        initial: States,
        found: Mapping[str, Any],
        first: int,
        checkpoint: NDArray[np.float64],
    ) -> None:
        """End a reference at the first sample at which a conserved quantity is not preserved."""
        states, error, times = found["states"], found["error"], self.times[first:]
        there = int(np.isfinite(states).all(axis=(1, 2)).cumprod().sum())
        problem = cast("AdaptiveProblem", integrators.get("dop853").bind(system))
        steps = int(checkpoint[dormand_prince.STEPS])
        kept = conserving_samples(
            system, problem, initial, states, times, self.reference.tolerance, steps
        )
        if kept < there:
            states[kept:] = error[kept:] = np.nan
            checkpoint[dormand_prince.STATUS] = NOT_CONSERVED
            checkpoint[dormand_prince.TIME] = times[kept]


def _steps_tried(checkpoint: NDArray[np.float64]) -> int:
    """Number of steps tried by the trajectory of a checkpoint; by the finer one of two."""
    return int(checkpoint[[dormand_prince.STEPS, dormand_prince.REJECTED]].sum())
