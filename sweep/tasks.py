"""What a worker does: whole chunk rows of a store, computed and committed. Knows no Dask.

A task is sent with all it needs but the initial states and the references, which it reads from
the store. It returns a receipt, never data.
"""

import functools
import time
from dataclasses import dataclass

import numpy as np

from integrators.lanes import WIDTH
from sweep import schema, storage
from sweep.computing import Recipe, Recorder, reference_trajectory, system_of
from sweep.ledger import references_group

COMMIT_SECONDS = 30.0  # a killed task loses no more than this


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


@dataclass(frozen=True, eq=False)
class RunTask:
    """Chunks of an experiment's runs.

    Parameters
    ----------
    store : str
    experiment : str
    recipe : sweep.computing.Recipe
    systems, integrators : tuple of Named
    chunks : tuple of Chunk
    cost : float
        Expected seconds.
    """

    store: str
    experiment: str
    recipe: Recipe
    systems: tuple
    integrators: tuple
    chunks: tuple
    cost: float


@dataclass(frozen=True, eq=False)
class ReferenceTask:
    """Reference trajectories: `rows` of the references' table, all in whole chunks.

    Parameters as in `RunTask`; `system` has an index into `systems` for each of `rows`.
    """

    store: str
    experiment: str
    times: np.ndarray
    tolerance: float
    systems: tuple
    rows: np.ndarray
    system: np.ndarray
    start: int
    stop: int
    cost: float


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
        Whether all of it was done; not if the workers were told to stop.
    """

    experiment: str
    runs: int
    failed: int
    seconds: float
    whole: bool = True


_stopped = set()  # sessions


def stop(session):
    """Begin no further chunk of a session's tasks in this process; called from another thread."""
    _stopped.add(session)


def compute(task, session):
    """Do a `RunTask` or a `ReferenceTask`; the receipt.

    `session` names the coordinator's run: arrays are opened once for each, and it can be stopped.
    """
    began = time.perf_counter()
    if session in _stopped:
        return Receipt(task.experiment, 0, 0, 0.0, whole=False)
    if isinstance(task, ReferenceTask):
        _compute_references(task, session)
        return Receipt(task.experiment, 0, 0, time.perf_counter() - began)
    arrays = _arrays(task.store, task.experiment, session)
    runs = failed = chunks = 0
    for chunk in task.chunks:
        if session in _stopped:
            break
        status = _compute_chunk(task, chunk, arrays, session)
        runs += len(status)
        failed += int(np.sum(status > 0))
        chunks += 1
    whole = chunks == len(task.chunks)
    return Receipt(task.experiment, runs, failed, time.perf_counter() - began, whole)


@functools.lru_cache(maxsize=64)
def _arrays(store, group, session):
    """The arrays of a group, opened once."""
    root = storage.open_root(store, mode="r+")
    return dict(storage.open_group(root, group).arrays())


@functools.lru_cache(maxsize=8)
def _reference_arrays(store, experiment, session):
    group = references_group(storage.open_root(store, mode="r+"), experiment)
    return dict(group.arrays())


def _compute_chunk(task, chunk, arrays, session):
    """Compute and commit a chunk's rows; their status."""
    columns = _columns_of(arrays, chunk)
    initial = arrays[schema.INITIAL_STATE.name][chunk.start : chunk.stop]
    references = _read_references(task, chunk, session)
    committed = time.perf_counter()
    for group in _batches(chunk):
        recorder = _recorder(task, chunk, group[0])
        rows = chunk.rows[group] - chunk.start
        states = initial[rows][:, : recorder.problem.rows]
        results = recorder.run(
            states,
            float(chunk.step_size[group[0]]),
            int(chunk.steps_per_sample[group[0]]),
            references(group, recorder.problem.rows),
            float(chunk.tolerance[group[0]]),
        )
        for name, values in results.items():
            where = (rows, slice(None), slice(values.shape[2])) if name == "state" else rows
            columns[name][where] = values
        if time.perf_counter() - committed > COMMIT_SECONDS:
            storage.write_rows(arrays, chunk.start, columns)
            committed = time.perf_counter()
    storage.write_rows(arrays, chunk.start, columns)
    return columns["status"][chunk.rows - chunk.start]


def _columns_of(arrays, chunk):
    """Buffers of the chunk's rows: what is committed already, fill values elsewhere."""
    written = [name for name, array in arrays.items() if _is_result(name, array)]
    marker = arrays[schema.MARKER.name][chunk.start : chunk.stop]
    if np.any(marker > 0):
        return {name: arrays[name][chunk.start : chunk.stop] for name in written}
    return {
        name: np.full(
            (chunk.stop - chunk.start, *arrays[name].shape[1:]),
            arrays[name].fill_value,
            dtype=arrays[name].dtype,
        )
        for name in written
    }


def _is_result(name, array):
    """Whether a worker writes this array: a variable over runs, not a coordinate."""
    chunked = array.metadata.dimension_names[0] == "run"
    return chunked and (array.ndim > 1 or name in _SCALARS) and name != schema.INITIAL_STATE.name


_SCALARS = {variable.name for variable in schema.ALL_RUN_VARIABLES}


def _batches(chunk):
    """Indices into the chunk's rows, at most eight a batch, of equal method, step and system.

    And of one repeat: a run and its repeats in a batch would all have the same time. An adaptive
    run goes alone: its step size is NaN, which equals no other.
    """
    keys = np.stack([chunk.integrator, chunk.system, chunk.step_size, chunk.repeat])
    changes = np.flatnonzero(np.any(np.diff(keys, axis=1) != 0, axis=0)) + 1
    for group in np.split(np.arange(len(chunk.rows)), changes):
        yield from (group[i : i + WIDTH] for i in range(0, len(group), WIDTH))


def _recorder(task, chunk, index):
    return _made_recorder(
        task.recipe,
        task.systems[chunk.system[index]],
        task.integrators[chunk.integrator[index]],
    )


_made_recorder = functools.lru_cache(maxsize=256)(Recorder)


def _read_references(task, chunk, session):
    """A function from a batch to its reference states and errors, or to None."""
    if not len(chunk.reference):
        return lambda group, rows: None
    arrays = _reference_arrays(task.store, task.experiment, session)
    distinct, index = np.unique(chunk.reference, return_inverse=True)
    states = arrays["states"].oindex[distinct]
    errors = arrays["error"].oindex[distinct]
    return lambda group, rows: (states[index[group]][:, :, :rows], errors[index[group]])


def _compute_references(task, session):
    arrays = _reference_arrays(task.store, task.experiment, session)
    span = slice(task.start, task.stop)
    columns = {name: arrays[name][span] for name in ("states", "error", schema.MARKER.name)}
    initial = arrays[schema.INITIAL_STATE.name][span]
    made = [system_of(named) for named in task.systems]
    for row, index in zip(task.rows - task.start, task.system, strict=True):
        system = made[index]
        states, error = reference_trajectory(
            system, initial[row, : system.rows], task.times, task.tolerance
        )
        columns["states"][row, :, : system.rows] = states
        columns["error"][row] = error
        columns[schema.MARKER.name][row] = len(task.times)
    storage.write_rows(arrays, task.start, columns)
