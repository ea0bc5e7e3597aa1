"""Compute the runs of a task, in segments of steps.

A segment has as many steps as are expected, by the measured speed, to take `SEGMENT` seconds, and
ends between two samples too. A checkpoint follows a segment that ends more than half of
`checkpoint_every` seconds after the last commit or checkpoint; finished rows are committed after
all of it. If the worker dies, another one resumes from there.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.lanes import WIDTH
from sweep.campaign.worker.recorder import Recorder, ReferenceStates, RunBatch
from sweep.campaign.worker.recording import Recording
from sweep.campaign.worker.tasks import RunTask
from sweep.store import provenance
from sweep.store.checkpoints import CHECKPOINT, checkpoint_identity
from sweep.study import schema

if TYPE_CHECKING:
    from sweep.store.files import ArrayFiles, RowNumbers
    from sweep.store.lease.sessions import Attempt

FIRST = 0.25  # fraction of `SEGMENT` that the first segment of a batch is expected to take
GROWTH = 64  # of segments, at most: how long a step takes is known from few at first
LONG = 0.5  # fraction of `checkpoint_every` after which it is worth to write a checkpoint
MOST_BYTES = 2**26  # of results in memory, about, that are not committed
CHECKPOINT_STATE = ("checkpoints", "valid_samples", "alive", "cpu", "wall", "after")
LOW = "states_low"  # of references in double-double
# Reads the reference states, and their errors, of a batch of runs whose states have so many rows.
ReferenceReader = Callable[[NDArray[np.intp], int], ReferenceStates | None]
# Arrays from which an extended run resumes.
END_STATE = (CHECKPOINT.name, schema.SAMPLE_COUNT.name, "cpu_time", "wall_time")


class RunWork:
    """The computation of a task's runs.

    Parameters
    ----------
    task : sweep.campaign.worker.tasks.RunTask
    arrays : dict of str to sweep.store.files.ArrayFiles
        Arrays of the experiment, by name.
    references : callable
        ``references(batch, rows)`` gives the reference states and errors of some of the task's
        runs, whose states have so many rows, as `Recorder.advance` takes them; or None.
    attempt : sweep.store.lease.sessions.Attempt
        Where it is stopped, the computation ends after the current segment.
    """

    def __init__(
        self,
        task: RunTask,
        arrays: Mapping[str, ArrayFiles],
        references: ReferenceReader,
        attempt: Attempt,
    ) -> None:
        self.task, self.attempt, self.references = task, attempt, references
        # Steps a second: of a recorder, alone or in lanes, in a stage.
        self.rates: dict[tuple[Recorder, bool, int], float] = {}
        self.samples, recipe = len(task.recipe.times), task.recipe
        self.initial = arrays[schema.INITIAL_STATE.name].read_rows(task.rows)
        settings = recipe.record, recipe.statistics, recipe.reference_samples
        self.ends, stored = self._read_ends(arrays)
        self.recording = Recording(
            task.store, task.experiment, arrays, task.rows, stored, self.samples, attempt,
            checkpoint_identity(*settings, times=recipe.times),
        )  # fmt: skip

    def compute(self) -> tuple[np.ndarray, bool]:
        """Compute and commit what is left.

        Returns
        -------
        status : ndarray of int
            Of the runs that were computed.
        whole : bool
            Whether nothing is left; not if it was stopped.

        Raises
        ------
        sweep.errors.LeaseLost
            If the session has ended, or another coordinator holds the store by now.
        """
        recording = self.recording
        left, size = np.flatnonzero(~recording.done), 0
        own = sum(column[0].nbytes for column in recording.columns.values())
        for batch in self._batches(left):
            if self.attempt.is_stopped or not self._compute_batch(batch):
                break
            recording.done[batch] = True
            size += own * len(batch)
            due = time.perf_counter() - recording.written > self.task.checkpoint_every
            if due or size > MOST_BYTES:
                recording.commit()
                size = 0
        if recording.has_uncommitted_rows:
            recording.commit()
        done = left[recording.done[left]]
        return recording.columns["status"][done], len(done) == len(left)

    # --- where runs stand --------------------------------------------------------------------

    def _read_ends(self, arrays: Mapping[str, ArrayFiles]) -> tuple[dict[str, Any], RowNumbers]:
        """End states of runs that are extended, and the samples of each in the arrays, else 0."""
        # Of a run with one sample nothing is known but its start.
        stored = np.where(self.task.stored > 1, self.task.stored, 0)
        on = np.flatnonzero(stored)
        if not len(on):
            return {}, stored
        values = {name: arrays[name].read_rows(self.task.rows[on]) for name in END_STATE}
        known = np.isfinite(values[CHECKPOINT.name][:, 0])
        stored[on[~known]] = 0
        position = {int(i): k for k, i in enumerate(on) if known[k]}
        return {"position": position, **values}, stored

    def _standing(self, i: int) -> tuple[int, int, bool]:
        """The last known sample of a run, 0 at its start; and whether a checkpoint has it.

        Between them what is done of the next sample interval, as `Recording.checkpointed` has it.
        """
        reached, part = self.recording.checkpointed[i].tolist()
        stored = int(self.recording.first[i])
        known = reached or part  # the part alone where it prepares the first step
        return (max(0, (reached if known else stored) - 1), part, bool(known))

    def _batches(self, left: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """Batches of at most eight runs of equal method, step and system, equally far.

        And of one repeat: a run and its repeats in a batch would all have the same time. An
        adaptive run is a batch by itself: its step size is NaN, which equals no other.
        """
        task = self.task
        standing = np.array([self._standing(i) for i in left], dtype=float).reshape(-1, 3)
        keys = np.array([task.integrator, task.system, task.step_size, task.repeat])[:, left]
        keys = np.concatenate([keys, standing.T, task.rows[left][None] // task.unit])
        changes = np.flatnonzero(np.any(np.diff(keys, axis=1) != 0, axis=0)) + 1
        for part in np.split(left, changes):
            for i in range(0, len(part), WIDTH):
                yield part[i : i + WIDTH]

    def _begin_batch(self, batch: NDArray[np.intp], recorder: Recorder) -> RunBatch:
        """The `RunBatch` of some runs, at their start or where they resume."""
        task, first, rows = self.task, batch[0], recorder.problem.rows
        known = None if task.precise_starts is None else task.precise_starts[batch, :rows]
        runs = RunBatch.begin(
            recorder.starts(self.initial[batch, :rows], known),
            float(task.step_size[first]),
            int(task.steps_per_sample[first]),
            float(task.tolerance[first]),
        )
        sample, _, from_checkpoint = self._standing(first)
        if not (sample or from_checkpoint):
            self.recording.first[batch] = 0  # all samples are computed again, and committed
            return runs
        if from_checkpoint:
            state: dict[str, Any] = self.recording.checkpoint_state(
                CHECKPOINT_STATE, batch.tolist()
            )
            return dataclasses.replace(runs, sample=sample, **state)
        where = [self.ends["position"][i] for i in batch.tolist()]
        return dataclasses.replace(
            runs,
            sample=sample,
            checkpoints=self.ends[CHECKPOINT.name][where, : recorder.checkpoint_size],
            valid_samples=self.ends[schema.SAMPLE_COUNT.name][where].astype(np.int64),
            cpu=self.ends["cpu_time"][where],
            wall=self.ends["wall_time"][where],
        )

    # --- segments ----------------------------------------------------------------------------

    def _compute_batch(self, batch: NDArray[np.intp]) -> bool:
        """Compute a batch into the columns; False if it was stopped before its end."""
        recorder = _recorder_of_run(self.task, batch[0])
        runs, columns = self._begin_batch(batch, recorder), self.recording.columns
        references = self.references(batch, recorder.problem.rows)
        last, stage, length = self.samples - 1, -1, 1
        recorder.compile(len(batch) > 1)
        while True:
            began = time.perf_counter()
            if stage != recorder.stage(runs):  # whose steps take another time
                stage = recorder.stage(runs)
                kind = recorder, len(batch) > 1, stage
                length = max(1, int(FIRST * self.task.segment * self.rates.get(kind, 0.0)))
            if self.task.ends_segments_at_samples:
                last = min(runs.sample + 1, self.samples - 1)
            self._store_samples(batch, runs, recorder.advance(runs, last, references, length))
            if recorder.is_over(runs):
                break
            now, stopped = time.perf_counter(), self.attempt.is_stopped
            self.rates[kind] = runs.tried / max(now - began, 1e-9)
            length = max(1, min(int(self.task.segment * self.rates[kind]), GROWTH * length))
            if stopped or now - self.recording.written > LONG * self.task.checkpoint_every:
                self._checkpoint(batch, runs, recorder)
            if stopped:
                return False
        for name, values in recorder.finish(runs).items():
            columns[name][batch] = values
        number = provenance.write_provenance_of_process(self.task.store, self.attempt.session)
        columns[schema.ENVIRONMENT][batch] = number
        if recorder.extendable:
            columns[CHECKPOINT.name][batch, : recorder.checkpoint_size] = runs.checkpoints
        return True

    def _store_samples(
        self, batch: NDArray[np.intp], runs: RunBatch, sampled: Mapping[str, np.ndarray]
    ) -> None:
        """Store the samples of a segment, which end with the last known one, in the columns."""
        for name, values in sampled.items():
            column, upto = self.recording.columns[name], runs.sample + 1
            where = slice(upto - values.shape[1], upto)
            if values.ndim > 2:
                column[batch, where, : values.shape[2]] = values
            else:
                column[batch, where] = values

    def _checkpoint(self, batch: NDArray[np.intp], runs: RunBatch, recorder: Recorder) -> None:
        if self.recording.has_uncommitted_rows:
            self.recording.commit()
        state = {name: np.asarray(getattr(runs, name)) for name in CHECKPOINT_STATE}
        self.recording.columns[schema.CPU_TIME][batch] = runs.cpu
        samples = runs.sample + 1 if recorder.stage(runs) else 0
        self.recording.checkpoint(batch, samples, state, runs.part)


def _recorder_of_run(task: RunTask, index: int) -> Recorder:
    return _made_recorder(
        task.recipe, task.systems[task.system[index]], task.integrators[task.integrator[index]]
    )


_made_recorder = functools.lru_cache(maxsize=256)(Recorder)


def make_reference_reader(task: RunTask, arrays: Mapping[str, ArrayFiles]) -> ReferenceReader:
    """Make the function by which a task's runs get their reference states and errors.

    Parameters
    ----------
    task : sweep.campaign.worker.tasks.RunTask
    arrays : dict of str to sweep.store.files.ArrayFiles
        Arrays of the references, by name; empty without any.

    Returns
    -------
    callable
        See `ReferenceReader`; it returns None where the task has no references.
    """
    if not len(task.reference):
        return lambda batch, rows: None
    distinct, index = np.unique(task.reference, return_inverse=True)
    states, errors = (arrays[name].read_rows(distinct) for name in ("states", "error"))
    if LOW in arrays:
        states = np.stack([states, arrays[LOW].read_rows(distinct)], axis=-1)
    return lambda batch, rows: (states[index[batch]][:, :, :rows], errors[index[batch]])
