"""Compute a chunk of the run table: what is left of its runs, in segments of samples.

A run is there when its commit marker says so, and not before. Until then its samples come segment
by segment, each as long as measured speed lets expect that it takes `SEGMENT` seconds; a checkpoint
follows one now and then, about every `checkpoint_every` seconds. A task that is killed and given
to another worker goes on from there.
"""

import dataclasses
import functools
import time

import numpy as np

from integrators.compiler.lanes import WIDTH
from sweep.campaign.recorder import BatchUnderway, Recorder
from sweep.store import checkpoints, provenance, storage
from sweep.store.files import are_runs_computed_to_sample, references_group_name
from sweep.study import schema

SEGMENT = 3.0  # seconds that a segment should take at most: a run that is stopped ends with it
PROBE = 0.1  # part of them that the first segment is expected to take
LONG = 0.5  # part of them, and of the time between checkpoints, that is worth one
MARKER = schema.MARKER.name


class ChunkWork:
    """The computation of a chunk's rows.

    Parameters
    ----------
    task : sweep.campaign.tasks.RunTask
    chunk : sweep.campaign.tasks.Chunk
    arrays : dict of str to zarr.Array
        Of the experiment.
    ends : zarr.Array
        Checkpoints of all runs that are complete.
    references : callable
        From a batch and the rows of its states to its reference states and errors, or None.
    attempt : sweep.store.lease.fencing.Attempt
        When it is stopped, so is this, after the segment that is computed.

    Attributes
    ----------
    whole : bool
        Whether nothing is left of the chunk; not if it was stopped.
    """

    def __init__(self, task, chunk, arrays, ends, references, attempt):
        self.attempt, self.whole = attempt, False
        self.segment = min(SEGMENT, task.checkpoint_every)
        self.task, self.chunk, self.arrays, self.ends = task, chunk, arrays, ends
        self.references, self.span = references, slice(chunk.start, chunk.stop)
        self.samples = len(task.recipe.times)
        self.file = checkpoints.checkpoint_file_of_chunk(task.store, task.experiment, chunk.start)
        self.identity = checkpoints.checkpoint_identity(task.recipe)
        self.ids = arrays["run_id"][self.span]
        self.initial = arrays[schema.INITIAL_STATE.name][self.span]
        saved = checkpoints.load_checkpoint(self.file, self.identity)
        self.columns = self._read(saved is not None)
        self.final = self._read_ends()
        self.unsaved = False  # whether runs are done that the store does not know of
        self.written = time.perf_counter()
        places = {name: row for row, name in enumerate(self.ids.tolist())}
        self.saved_rows = [] if saved is None else [places.get(name) for name in saved.runs]
        self.saved = saved

    def compute(self):
        """Compute and commit what is left; the status of the runs that are whole now.

        Raises
        ------
        sweep.errors.LeaseLost
            If another coordinator holds the store by now, or another process computes the task:
            what they have is not touched.
        """
        left = self._left()
        for group, standing in self._batches(left):
            if self.attempt.is_stopped or not self._compute_batch(group, standing):
                break
            self.unsaved = True
            if time.perf_counter() - self.written > self.task.checkpoint_every:
                self._commit()
        if self.unsaved:
            self._commit()
        done = np.setdiff1d(left, self._left())
        self.whole = len(done) == len(left)
        if self.whole:
            checkpoints.remove_checkpoint_file(self.file)
        return self.columns["status"][self.chunk.rows[done] - self.chunk.start]

    # --- what is there -----------------------------------------------------------------------

    def _read(self, partly):
        """Buffers of the chunk's rows: what is in the store, fill values where nothing is."""
        written = {
            name: array for name, array in self.arrays.items() if _is_result_array(name, array)
        }
        if partly or np.any(self.arrays[MARKER][self.span] > 0):
            return {name: array[self.span] for name, array in written.items()}
        return {name: self._blank(array) for name, array in written.items()}

    def _read_ends(self):
        known = np.any(self.columns[MARKER] > 0)
        return self.ends[self.span] if known else self._blank(self.ends)

    def _blank(self, array):
        shape = self.chunk.stop - self.chunk.start, *array.shape[1:]
        return np.full(shape, array.fill_value, dtype=array.dtype)

    def _left(self):
        """Indices into the chunk's `rows` of those that are not whole."""
        rows = self.chunk.rows - self.chunk.start
        counts, status = self.columns[MARKER][rows], self.columns["status"][rows]
        return np.flatnonzero(~are_runs_computed_to_sample(counts, status, self.samples))

    def _standing(self, row):
        """The last sample of a row that is known, 0 if it begins; and where that is known from."""
        if row in self.saved_rows:
            return self.saved.sample, True
        count = int(self.columns[MARKER][row])
        known = count > 1 and np.isfinite(self.final[row, 0])
        return (count - 1 if known else 0), False

    def _batches(self, left):
        """Batches of equal method, step and system, at most eight runs, that stand together.

        And of one repeat: a run and its repeats in a batch would all have the same time. An
        adaptive run goes alone: its step size is NaN, which equals no other.
        """
        chunk = self.chunk
        standing = [self._standing(row) for row in chunk.rows[left] - chunk.start]
        keys = np.array([chunk.integrator, chunk.system, chunk.step_size, chunk.repeat])[:, left]
        keys = np.concatenate([keys, np.array(standing, dtype=float).reshape(-1, 2).T])
        changes = np.flatnonzero(np.any(np.diff(keys, axis=1) != 0, axis=0)) + 1
        for part in np.split(np.arange(len(left)), changes):
            for i in range(0, len(part), WIDTH):
                batch = part[i : i + WIDTH]
                yield left[batch], standing[batch[0]]

    def _begun(self, group, recorder, standing):
        """The `BatchUnderway` of a batch, where it stands."""
        chunk, rows = self.chunk, self.chunk.rows[group] - self.chunk.start
        first = group[0]
        runs = BatchUnderway.begin(
            self.initial[rows, : recorder.problem.rows],
            float(chunk.step_size[first]),
            int(chunk.steps_per_sample[first]),
            float(chunk.tolerance[first]),
        )
        sample, in_file = standing
        if not (sample and recorder.resumable):
            return runs
        size = recorder.problem.checkpoint_size
        if in_file:
            places = [self.saved_rows.index(row) for row in rows]
            kept = {name: getattr(self.saved, name)[places] for name in STANDING}
            return dataclasses.replace(runs, sample=sample, **kept)
        return dataclasses.replace(
            runs,
            sample=sample,
            checkpoints=self.final[rows, :size],
            valid_samples=self.columns[MARKER][rows].astype(np.int64),
            cpu=self.columns["cpu_time"][rows],
            wall=self.columns["wall_time"][rows],
        )

    # --- segments ----------------------------------------------------------------------------

    def _compute_batch(self, group, standing):
        """Compute a batch into the buffers; whether to its end, and not stopped before."""
        recorder = _recorder_of_run(self.task, self.chunk, group[0])
        runs = self._begun(group, recorder, standing)
        rows = self.chunk.rows[group] - self.chunk.start
        references = self.references(group, recorder.problem.rows)
        stored, every = runs.sample, self.task.checkpoint_every
        length = self._first_length(recorder, runs)
        while True:
            before, began = runs.sample, time.perf_counter()
            last = min(before + length, self.samples - 1)
            self._put(rows, recorder.advance(runs, last, references), before, last)
            if last == self.samples - 1:
                break
            now, stopped = time.perf_counter(), self.attempt.is_stopped
            rate = (last - before) / max(now - began, 1e-9)
            length = max(1, min(int(self.segment * rate), 16 * length))
            if stopped or now - self.written > LONG * every:
                self._checkpoint(rows, runs, stored)
                stored = last
            if stopped:
                return False
        for name, values in recorder.finish(runs).items():
            self.columns[name][rows] = values
        number = provenance.write_provenance_of_process(self.task.store, self.attempt.session)
        self.columns[schema.ENVIRONMENT][rows] = number
        if recorder.resumable:
            self.final[rows, : runs.checkpoints.shape[1]] = runs.checkpoints
        return True

    def _first_length(self, recorder, runs):
        """Samples of the first segment: all of them, unless they are expected to take long."""
        task, left = self.task, self.samples - 1 - runs.sample
        expected = task.cost / max(1, sum(len(chunk.rows) for chunk in task.chunks))
        expected *= len(runs.initial) * left / max(1, self.samples - 1)
        if not recorder.resumable or expected < LONG * self.segment:
            return max(1, left)
        return max(1, int(left * min(1.0, PROBE * self.segment / expected)))

    def _put(self, rows, sampled, before, last):
        """Take the samples of a segment into the buffers."""
        first = before + 1 if before else 0
        for name, values in sampled.items():
            if name == "state":
                self.columns[name][rows, first : last + 1, : values.shape[2]] = values
            else:
                self.columns[name][rows, first : last + 1] = values

    def _checkpoint(self, rows, runs, stored):
        """Store the samples that came since `stored`, then where the runs stand."""
        if self.unsaved:
            self._commit()
        else:
            self.attempt.check()
            names = [name for name, array in self.arrays.items() if _is_sampled_array(name, array)]
            columns = {name: self.columns[name] for name in names}
            storage.write_samples_of_chunk_rows(
                self.arrays, self.chunk.start, columns, slice(stored, runs.sample + 1)
            )
        kept = {name: getattr(runs, name) for name in ("sample", *STANDING)}
        saved = checkpoints.Saved(runs=np.array(self.ids[rows].tolist()), **kept)
        checkpoints.save_checkpoint(self.file, self.identity, saved)
        self.written = time.perf_counter()

    def _commit(self):
        self.attempt.check()
        self.ends[self.span] = self.final
        storage.write_chunk_rows(self.arrays, self.chunk.start, self.columns)
        self.unsaved, self.written = False, time.perf_counter()


STANDING = ("checkpoints", "valid_samples", "alive", "cpu", "wall")


def _is_result_array(name, array):
    """Whether a worker writes this array: a variable over runs, not a coordinate."""
    chunked = array.metadata.dimension_names[0] == "run"
    return chunked and (array.ndim > 1 or name in _SCALARS) and name != schema.INITIAL_STATE.name


def _is_sampled_array(name, array):
    return _is_result_array(name, array) and array.ndim > 1


_SCALARS = {variable.name for variable in schema.ALL_RUN_VARIABLES}


def _recorder_of_run(task, chunk, index):
    return _made_recorder(
        task.recipe,
        task.systems[chunk.system[index]],
        task.integrators[chunk.integrator[index]],
    )


_made_recorder = functools.lru_cache(maxsize=256)(Recorder)


@functools.lru_cache(maxsize=8)
def open_reference_arrays(store, experiment, session):
    """The arrays of an experiment's references, opened once."""
    return dict(store.group(references_group_name(experiment), "r+").arrays())


def make_reference_reader(task, chunk, session):
    """A function from a batch to its reference states and errors, or to None."""
    if not len(chunk.reference):
        return lambda group, rows: None
    arrays = open_reference_arrays(task.store, task.experiment, session)
    distinct, index = np.unique(chunk.reference, return_inverse=True)
    states = arrays["states"].oindex[distinct]
    errors = arrays["error"].oindex[distinct]
    return lambda group, rows: (states[index[group]][:, :, :rows], errors[index[group]])
