"""Compute the runs of a task, in batches of runs that are recorded together."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.lanes import WIDTH
from sweep.campaign.worker.commit import TaskRows
from sweep.campaign.worker.trajectory import BYTES_TOGETHER, Batch, Integration
from sweep.store import provenance
from sweep.store.checkpoints import CHECKPOINT, checkpoint_identity
from sweep.store.files import references_group_name
from sweep.study import variables

if TYPE_CHECKING:
    from sweep.campaign.worker.task import RunTask
    from sweep.store.files import ArrayFiles
    from sweep.store.lease.sessions import Attempt

ENDS = {  # arrays from which an extended run goes on, by what they are in a checkpoint
    "checkpoints": CHECKPOINT.name,
    "valid_samples": variables.SAMPLE_COUNT.name,
    "cpu": "cpu_time",
    "wall": "wall_time",
}
CHECKPOINT_STATE = (*ENDS, "after")
LOW = "states_low"  # of references in double-double
SECONDS_TOGETHER = 0.1  # that a batch is expected to take, unless it is of one group of lanes


class RunWork:
    """The computation of a task's runs.

    Parameters
    ----------
    task : sweep.campaign.worker.task.RunTask
    arrays_of : callable
        Returns the arrays of a group by name, as `sweep.store.files.ArrayFiles`.
    attempt : sweep.store.lease.sessions.Attempt

    Attributes
    ----------
    rows : TaskRows
    initial : ndarray, shape (rows, R, 3)
    """

    def __init__(
        self,
        task: RunTask,
        arrays_of: Callable[[str], Mapping[str, ArrayFiles]],
        attempt: Attempt,
    ) -> None:
        self.task, self.attempt, recipe = task, attempt, task.recipe
        arrays = arrays_of(task.group)
        self.initial = arrays[variables.INITIAL_STATE.name].read_rows(task.rows)
        stored = np.where(task.stored > 1, task.stored, 0)  # with one sample there is but the start
        ends = {}
        if stored.any():
            ends = {key: arrays[name].read_rows(task.rows) for key, name in ENDS.items()}
            ends["after"] = np.zeros((len(stored), 0))
            stored[~np.isfinite(ends["checkpoints"][:, 0])] = 0
        settings = recipe.record, recipe.statistics, recipe.reference_samples
        identity = checkpoint_identity(*settings, times=recipe.times)
        self.rows = TaskRows(task, arrays, stored, ends, len(recipe.times), attempt, identity)
        if len(task.reference):
            references = arrays_of(references_group_name(task.experiment))
            every, self._reference = np.unique(task.reference, return_inverse=True)
            high, self._errors, *low = (
                references[name].read_rows(every)
                for name in ("states", "error", LOW)
                if name in references
            )
            self._states = np.stack([high, *low], axis=-1) if low else high

    def batches(self) -> Iterator[RunBatch]:
        """Yield batches of runs with equal method, step, system, repeat and progress.

        Batches take little time. Repeats are separate, since they may be hours apart. An adaptive
        run is a batch by itself, since its step size is NaN, which is not equal to any other.
        """
        left, task, rows = np.flatnonzero(~self.rows.done), self.task, self.rows
        own = task.columns
        keys = np.array([
            own.integrator_index, own.system_index, own.step_size, own.repeat, rows.first,
            *rows.reached.T,
        ])[:, left]  # fmt: skip
        changes = np.flatnonzero(np.any(np.diff(keys, axis=1) != 0, axis=0)) + 1
        few = min(
            SECONDS_TOGETHER * task.runs / max(task.cost, 1e-9),
            BYTES_TOGETHER / (self.initial[0].nbytes * len(task.recipe.times)),
        )
        count = WIDTH * max(1, int(few / WIDTH))
        for part in np.split(left, changes):
            for i in range(0, len(part), count):
                yield RunBatch(self, part[i : i + count])

    def begin_or_resume(self, indices: NDArray[np.intp], integration: Integration) -> Batch:
        """Runs of an integration at their start, or where they resume."""
        task, first, rows = self.task, indices[0], integration.problem.rows
        own = task.columns
        known = None if task.precise_starts is None else task.precise_starts[indices, :rows]
        runs = Batch.begin(
            integration.starts(self.initial[indices, :rows], known),
            float(own.step_size[first]),
            int(own.steps_per_sample[first]),
            float(own.tolerance[first]),
        )
        if not self.rows.reached[first].any():
            return runs
        state: dict[str, Any] = self.rows.state(CHECKPOINT_STATE, indices)
        state["checkpoints"] = state["checkpoints"][:, : integration.checkpoint_size]
        state["valid_samples"] = state["valid_samples"].astype(np.int64)
        return dataclasses.replace(runs, sample=int(self.rows.reached[first, 0]) - 1, **state)

    def reference(
        self, indices: NDArray[np.intp], integration: Integration
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Reference states and errors of runs of an integration, if there are any."""
        if not len(self.task.reference):
            return None
        which = self._reference[indices]
        return self._states[which][:, :, : integration.problem.rows], self._errors[which]


class RunBatch:
    """Runs that are integrated and recorded together."""

    def __init__(self, work: RunWork, indices: NDArray[np.intp]) -> None:
        self.work, self.indices, task = work, indices, work.task
        own, first = task.columns, indices[0]
        self.integration = _made_integration(
            task.recipe,
            task.systems[own.system_index[first]],
            task.integrators[own.integrator_index[first]],
        )
        self.runs = work.begin_or_resume(indices, self.integration)
        self.reference = work.reference(indices, self.integration)
        self.integration.compile(len(indices))

    @property
    def kind(self) -> Hashable:
        """A key of equal speed: all that the time of the next steps depends on."""
        return self.integration, len(self.indices) > 1, self.integration.stage(self.runs)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to compute."""
        return self.integration.is_over(self.runs)

    def advance(self, most: int) -> int:
        """Take up to `most` steps, and return how many were taken or attempted."""
        runs, last = self.runs, self.integration.recipe.time_axis.samples
        if self.work.task.ends_segments_at_samples:
            last = min(max(runs.sample, 0) + 1, last)
        groups = -(-len(self.indices) // WIDTH)
        each = max(1, most // groups)
        sampled = self.integration.advance(runs, last, self.reference, each)
        self.work.rows.put(self.indices, runs.sample + 1, sampled)
        return runs.tried * groups

    def checkpoint(self) -> None:
        """Write a checkpoint."""
        rows, runs = self.work.rows, self.runs
        state = {name: np.asarray(getattr(runs, name)) for name in CHECKPOINT_STATE}
        rows.columns[variables.CPU_TIME][self.indices] = runs.cpu
        rows.checkpoint(self.indices, runs.sample + 1, state, runs.part)

    def finish(self) -> None:
        """Compute the variables that need the complete runs."""
        task, columns, session = self.work.task, self.work.rows.columns, self.work.attempt.session
        for name, values in self.integration.finish(self.runs).items():
            columns[name][self.indices] = values
        number = provenance.write_provenance_of_process(task.store, session)
        columns[variables.ENVIRONMENT][self.indices] = number
        if self.integration.extendable:
            size = self.integration.checkpoint_size
            columns[CHECKPOINT.name][self.indices, :size] = self.runs.checkpoints


_made_integration = functools.lru_cache(maxsize=256)(Integration)
