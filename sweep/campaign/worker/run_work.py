"""Compute the runs of a task, in batches of runs that are integrated in lanes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.lanes import WIDTH
from sweep.campaign.worker.commit import TaskRows
from sweep.campaign.worker.trajectory import Batch, Integration, ReferenceStates
from sweep.store import provenance
from sweep.store.checkpoints import CHECKPOINT, checkpoint_identity
from sweep.study import schema

if TYPE_CHECKING:
    from sweep.campaign.worker.task import RunTask
    from sweep.store.files import ArrayFiles
    from sweep.store.lease.sessions import Attempt

CHECKPOINT_STATE = ("checkpoints", "valid_samples", "alive", "cpu", "wall", "after")
LOW = "states_low"  # of references in double-double
# Arrays from which an extended run resumes.
END_STATE = (CHECKPOINT.name, schema.SAMPLE_COUNT.name, "cpu_time", "wall_time")


class RunWork:
    """The computation of a task's runs.

    Parameters
    ----------
    task : sweep.campaign.worker.task.RunTask
    arrays : dict of str to sweep.store.files.ArrayFiles
        Arrays of the experiment, by name.
    references : dict of str to sweep.store.files.ArrayFiles
        Arrays of the references, by name; empty without any.
    attempt : sweep.store.lease.sessions.Attempt
        Where it is stopped, the computation ends after the current segment.

    Attributes
    ----------
    resumes : ndarray of bool, shape (rows,)
        Whether a checkpoint has where each run stands.
    sample : ndarray of int, shape (rows,)
        The last known sample of each run, 0 at its start.
    """

    def __init__(
        self,
        task: RunTask,
        arrays: Mapping[str, ArrayFiles],
        references: Mapping[str, ArrayFiles],
        attempt: Attempt,
    ) -> None:
        self.task, self.attempt, recipe = task, attempt, task.recipe
        self.initial = arrays[schema.INITIAL_STATE.name].read_rows(task.rows)
        stored = np.where(task.stored > 1, task.stored, 0)  # with one sample there is but the start
        if stored.any():
            self.ends = {name: arrays[name].read_rows(task.rows) for name in END_STATE}
            stored[~np.isfinite(self.ends[CHECKPOINT.name][:, 0])] = 0
        settings = recipe.record, recipe.statistics, recipe.reference_samples
        self.recording = TaskRows(
            task.store, task.experiment, arrays, task.rows, stored, len(recipe.times), attempt,
            checkpoint_identity(*settings, times=recipe.times),
        )  # fmt: skip
        reached, part = self.recording.checkpointed.T
        self.resumes = (reached > 0) | (part > 0)  # the part alone before the first step
        known = np.where(self.resumes, reached, self.recording.first)
        self.sample = np.maximum(known - 1, 0)
        if references:
            rows, self._reference = np.unique(task.reference, return_inverse=True)
            high, self._errors, *low = (
                references[name].read_rows(rows)
                for name in ("states", "error", LOW)
                if name in references
            )
            self._states = np.stack([high, *low], axis=-1) if low else high

    def reference(self, batch: NDArray[np.intp], rows: int) -> ReferenceStates | None:
        """Reference states and errors of runs whose states have so many rows, if there are any."""
        if not len(self.task.reference):
            return None
        which = self._reference[batch]
        return self._states[which][:, :, :rows], self._errors[which]

    def batches(self) -> Iterator[_SegmentedRuns]:
        """Batches of at most eight runs of equal method, step and system, equally far.

        And of one repeat: a run and its repeats in a batch would all have the same time. An
        adaptive run is a batch by itself: its step size is NaN, which equals no other.
        """
        left = np.flatnonzero(~self.recording.done)
        task = self.task
        keys = np.array([
            task.integrator, task.system, task.step_size, task.repeat, self.resumes, self.sample,
            self.recording.checkpointed[:, 1],
        ])[:, left]  # fmt: skip
        changes = np.flatnonzero(np.any(np.diff(keys, axis=1) != 0, axis=0)) + 1
        for part in np.split(left, changes):
            for i in range(0, len(part), WIDTH):
                yield _SegmentedRuns(self, part[i : i + WIDTH])


class _SegmentedRuns:
    """A batch of runs, a `SegmentedBatch`."""

    def __init__(self, work: RunWork, indices: NDArray[np.intp]) -> None:
        self.work, self.indices, task = work, indices, work.task
        first = indices[0]
        self.integration = _made_integration(
            task.recipe, task.systems[task.system[first]], task.integrators[task.integrator[first]]
        )
        self.runs = self._begun_or_resumed()
        self.reference = work.reference(indices, self.integration.problem.rows)
        self.integration.compile(lanes=len(indices) > 1)

    def _begun_or_resumed(self) -> Batch:
        """The runs at their start or where they resume."""
        work, integration, batch = self.work, self.integration, self.indices
        task, first, rows = work.task, batch[0], integration.problem.rows
        known = None if task.precise_starts is None else task.precise_starts[batch, :rows]
        runs = Batch.begin(
            integration.starts(work.initial[batch, :rows], known),
            float(task.step_size[first]),
            int(task.steps_per_sample[first]),
            float(task.tolerance[first]),
        )
        sample = int(work.sample[first])
        if work.resumes[first]:
            state: dict[str, Any] = work.recording.checkpoint_state(
                CHECKPOINT_STATE, batch.tolist()
            )
            return dataclasses.replace(runs, sample=sample, **state)
        if not sample:
            work.recording.first[batch] = 0  # all samples are computed again, and committed
            return runs
        checkpoint, count, cpu, wall = (work.ends[name][batch] for name in END_STATE)
        return dataclasses.replace(
            runs,
            sample=sample,
            checkpoints=checkpoint[:, : integration.checkpoint_size],
            valid_samples=count.astype(np.int64),
            cpu=cpu,
            wall=wall,
        )

    @property
    def kind(self) -> Hashable:
        """What the time of its next steps depends on."""
        return self.integration, len(self.indices) > 1, self.integration.stage(self.runs)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to compute."""
        return self.integration.is_over(self.runs)

    def advance(self, most: int) -> int:
        """Take steps, so many at most; returns how many were taken or attempted."""
        runs, last = self.runs, self.integration.recipe.time_axis.samples
        if self.work.task.ends_segments_at_samples:
            last = min(runs.sample + 1, last)
        sampled = self.integration.advance(runs, last, self.reference, most)
        self.work.recording.put(self.indices, runs.sample + 1, sampled)
        return runs.tried

    def checkpoint(self) -> None:
        """Write a checkpoint."""
        recording, runs = self.work.recording, self.runs
        state = {name: np.asarray(getattr(runs, name)) for name in CHECKPOINT_STATE}
        recording.columns[schema.CPU_TIME][self.indices] = runs.cpu
        samples = runs.sample + 1 if self.integration.stage(runs) else 0
        recording.checkpoint(self.indices, samples, state, runs.part)

    def finish(self) -> None:
        """Compute what depends on the whole runs."""
        task, columns = self.work.task, self.work.recording.columns
        number = provenance.write_provenance_of_process(task.store, self.work.attempt.session)
        for name, values in self.integration.finish(self.runs).items():
            columns[name][self.indices] = values
        columns[schema.ENVIRONMENT][self.indices] = number
        if self.integration.extendable:
            size = self.integration.checkpoint_size
            columns[CHECKPOINT.name][self.indices, :size] = self.runs.checkpoints


_made_integration = functools.lru_cache(maxsize=256)(Integration)
