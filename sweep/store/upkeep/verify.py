"""Is a store sound? Every chunk is read, and what is committed compared with what is there.

Nothing here writes; `sweep.store.upkeep.repair` mends what `find` finds.
"""

import itertools
import json
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from sweep.errors import Damaged
from sweep.store import files
from sweep.store.files import INTERNAL, REFERENCES, ArrayFiles, references_group_name
from sweep.store.store import CREATING, Store
from sweep.store.upkeep import COPY, NOTHING, REMOVE, RUN, STUDY, compact, rechunk
from sweep.study import schema

BATCH = 32  # chunks that a thread reads at once
THREADS = 8
RESULTS = {variable.name for variable in schema.ALL_RUN_VARIABLES}
OF_STEPS = (schema.CURRENT_STEP_SIZE, "rejected_so_far")  # may be NaN before the first step
ENDS = {f"_error_{of}" for of in schema.ENERGY_STATISTICS} | {"unit_length_error_mean"}


@dataclass(frozen=True, eq=False)
class Finding:
    """Something in a store that is not as it should be.

    Parameters
    ----------
    place : str
        Group, such as ``pendulum`` or ``_geosweep/references/pendulum``; or a path.
    array : str
        Its name; empty if it is none.
    chunk : tuple of int
        Index of the chunk; empty if it is not one.
    text : str
        What is wrong.
    remedy : str
        One of `RUN`, `STUDY`, `COPY`, `REMOVE` and `NOTHING`.
    rows : ndarray of int
        Rows of the group that are concerned.
    runs : int
        Those of them that are committed.
    path : Path or ObjectPlace
        The file or directory.
    """

    place: str
    array: str
    chunk: tuple
    text: str
    remedy: str
    rows: np.ndarray
    runs: int
    path: object


NO_ROWS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Group:
    """A group of runs or references, as far as it can be read.

    Parameters
    ----------
    place : str
    arrays : dict of str to ArrayFiles
    counts, status, adaptive : ndarray, shape (runs,)
        Commit marker, status and coordinate; 0 and complete where they cannot be read.
    samples : int
        Sample times that the references cover; 0 without.
    """

    place: str
    arrays: dict
    counts: np.ndarray
    status: np.ndarray
    adaptive: np.ndarray
    samples: int

    @property
    def is_reference(self):
        """Whether its rows are references."""
        return self.place.startswith(INTERNAL)


def verify(store, progress=lambda done, of: None, writer=None):
    """All that is wrong with a store.

    Parameters
    ----------
    store : str, Path or Store
    writer : sweep.store.lease.holder.LeaseHolder, optional
        Another process that writes to the store meanwhile.
    progress : callable
        Called with the number of chunks that were read, and their total.

    Returns
    -------
    list of Finding

    Raises
    ------
    InputError
        If there is no store, or one of a newer version.
    """
    store = Store.at(store)
    names = store.experiments
    # files that are not finished belong to whoever writes just now
    found = [] if writer is not None else [*_find_stray_files(store)]
    found += _find_damaged_metadata(store.place, names)
    groups = list(_groups_to_verify(store, names))
    for group in groups:
        found += _find_bad_commit_markers(group)
        found += _find_committed_runs_without_id(group)
    total = sum(int(np.prod(a.grid)) for group in groups for a in group.arrays.values())
    jobs = ((group, array, index) for group in groups for array, index in _chunks_of_group(group))
    done = 0
    for size, results in _check_chunks_in_threads(jobs):
        done += size
        progress(done, total)
        found += results
    return found


def _chunks_of_group(group):
    for array in group.arrays.values():
        for index in np.ndindex(array.grid):
            yield array, index


def _check_chunks_in_threads(jobs):
    """Check chunks in threads; a window of batches bounds the memory."""
    waiting = deque()
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        batches = iter(lambda: list(itertools.islice(jobs, BATCH)), [])
        for batch in itertools.chain(batches, [None] * 2 * THREADS):
            if batch is not None:
                waiting.append((len(batch), pool.submit(_check_batch_of_chunks, batch)))
            if waiting and (batch is None or len(waiting) >= 2 * THREADS):
                size, future = waiting.popleft()
                yield size, future.result()


def _check_batch_of_chunks(batch):
    return [finding for job in batch for finding in _check_chunk(*job)]


# --- what is there ---------------------------------------------------------------------------


def _find_stray_files(store):
    """Files that no store has when nobody writes to it."""
    for ending, text in (
        (compact.STAGING, "a compaction that was cut short"),
        (rechunk.STAGING, "a rewriting in larger chunks that was cut short"),
        (CREATING, "a store whose creation was cut short"),
    ):
        if (place := store.sibling(ending)).exists():
            yield _finding_of_stray_file(place, place.name, text)
    inside = [(file, "a file that was not finished") for file in store.partial_files()]
    if (sign := store.half_made_sign).is_file():
        inside.insert(0, (sign, "is there only while a store is made"))
    for file, text in inside:
        yield _finding_of_stray_file(file, str(file.relative_to(store.place)), text)


def _finding_of_stray_file(file, place, text):
    return Finding(place, "", (), text, REMOVE, NO_ROWS, 0, file)


def _find_damaged_metadata(path, names):
    """Metadata that are gone or garbled; those of the root can be read."""
    copies = files.read_zarr_metadata(path).get("consolidated_metadata") or {"metadata": {}}
    expected = dict.fromkeys([*copies["metadata"], *names])
    for name in expected:
        try:
            metadata = files.read_zarr_metadata(path / name)
            if metadata["node_type"] == "array":
                ArrayFiles.read(path / name)
        except (Damaged, KeyError):
            if not (path / name).parent.is_dir():
                continue  # of a group that is gone
            has = name in copies["metadata"]
            place, _, array = name.rpartition("/")
            text = "metadata are gone or garbled"
            if name in names and not (path / name).is_dir():
                place, array, text = name, "", "is gone; `sweep run` computes all its runs again"
            text += "" if has else ", and there is no copy of them"
            where = path / name / files.METADATA
            yield Finding(place, array, (), text, COPY if has else NOTHING, NO_ROWS, 0, where)


def _groups_to_verify(store, names):
    """The groups that have arrays: experiments, then what is internal."""
    internal = store.internal().glob(f"**/{files.METADATA}")
    places = [*names, *sorted(str(file.parent.relative_to(store.place)) for file in internal)]
    for place in places:
        arrays = {}
        for file in sorted((store.place / place).glob(f"*/{files.METADATA}")):
            try:
                arrays[file.parent.name] = ArrayFiles.read(file.parent)
            except Damaged:
                continue  # a group, or said already
        if arrays:
            yield _group_to_verify(store, place, arrays)


def _group_to_verify(store, place, arrays):
    size = arrays[schema.MARKER.name].shape[0] if schema.MARKER.name in arrays else 0
    counts = _readable_values_or_default(arrays.get(schema.MARKER.name), size, 0)
    status, adaptive = (
        _readable_values_or_default(arrays.get(name), size, 0) for name in ("status", "adaptive")
    )
    try:
        samples = store.array(references_group_name(place), "states").shape[1]
    except Damaged:
        samples = 0
    return Group(place, arrays, counts, status, adaptive.astype(bool), samples)


def _readable_values_or_default(array, size, otherwise):
    """Values of an array over runs, `otherwise` where they cannot be read."""
    values = np.full(size, otherwise)
    for i in range(array.grid[0] if array else 0):
        try:
            chunk = array.chunk((i,))
        except Damaged:
            continue
        where = array.rows((i,))
        fits = values[where]
        if chunk is not None:
            fits[:] = chunk[: len(fits)]
        elif array.name != schema.MARKER.name:
            fits[:] = array.fill
    return values


# --- chunks ----------------------------------------------------------------------------------


def _check_chunk(group, array, index):
    """Findings in a chunk."""
    over_runs = array.dims[:1] == ("run",)
    where = array.rows(index)
    rows = np.arange(where.start, where.stop) if over_runs else NO_ROWS
    if len(rows) and rows[-1] >= len(group.counts):
        rows = rows[rows < len(group.counts)]  # a store that just grows
    committed = rows[group.counts[rows] > 0]
    result = over_runs and _is_written_by_workers(array)
    try:
        values = array.chunk(index)
    except Damaged as damage:
        if not result:
            yield _finding_of_chunk(
                group,
                array,
                index,
                str(damage),
                _remedy_for_coordinator_chunk(group, array),
                rows,
                committed,
            )
        else:
            mine = rows if array.name == schema.MARKER.name else committed
            yield _finding_of_chunk(group, array, index, str(damage), RUN, mine, mine)
        return
    if values is None:
        yield from _check_missing_chunk(group, array, index, rows, committed, result)
    elif result and values.dtype.kind == "f" and len(committed):
        first = index[1] * array.chunks[1] if array.ndim > 1 else 0
        lost = _committed_rows_without_values(
            group, array, values[committed - where.start], committed, first
        )
        if len(lost):
            text = f"is NaN in {len(lost):,} committed {'run' if len(lost) == 1 else 'runs'}"
            yield _finding_of_chunk(group, array, index, text, RUN, lost, lost)


def _check_missing_chunk(group, array, index, rows, committed, result):
    """A chunk without a file: a finding where it should hold something."""
    if result:
        first = index[1] * array.chunks[1] if array.ndim > 1 else 0
        needed = committed[group.counts[committed] > first]
        if len(needed):
            yield _finding_of_chunk(group, array, index, "is not there", RUN, needed, needed)
    elif group.arrays is not None and not _may_lack_chunk_file(array):
        yield _finding_of_chunk(
            group,
            array,
            index,
            "is not there",
            _remedy_for_coordinator_chunk(group, array),
            rows,
            committed,
        )


def _may_lack_chunk_file(array):
    """Whether no file is needed for what the fill value says."""
    return not all(array.shape)


def _finding_of_chunk(group, array, index, text, remedy, rows, runs):
    return Finding(group.place, array.name, index, text, remedy, rows, len(runs), array.file(index))


def _is_written_by_workers(array):
    """Whether workers write it; coordinates and initial states the coordinator does."""
    return (array.ndim > 1 or array.name in RESULTS) and array.name != schema.INITIAL_STATE.name


def _remedy_for_coordinator_chunk(group, array):
    """How a chunk of what the coordinator writes is mended."""
    known = not group.is_reference or group.place.startswith(references_group_name(""))
    return STUDY if known else NOTHING


def _committed_rows_without_values(group, array, values, rows, first):
    """Of committed rows those without the values that they must have.

    A run that failed may be NaN before its last samples, as where an energy overflows; at its
    first sample it is not. No step of an adaptive one need end in an interval.
    """
    if values.ndim == 1:
        needed = array.name in ("cpu_time", "wall_time") and not group.is_reference
        return rows[np.isnan(values)] if needed else NO_ROWS
    if array.dims[1] != "time":
        return NO_ROWS
    flat = values if values.ndim == 2 else values[:, :, 0, 0]
    least, most = _required_sample_ranges(group, array, group.counts[rows])
    at = first + np.arange(flat.shape[1])
    must = (at >= least) & (at < most[:, None])
    loose = group.status[rows] > 0
    loose |= group.is_reference
    must &= ~(loose[:, None] & (at > least))
    if array.name.endswith(tuple(ENDS)):
        must &= ~group.adaptive[rows][:, None]
    return rows[(np.isnan(flat) & must).any(axis=1)]


def _required_sample_ranges(group, array, counts):
    """The first sample that a variable must have, and the one after the last, of each run."""
    name = array.name
    own = {REFERENCE_STATES, "error"} if group.is_reference else set()
    if array.attributes.get("kind") == "state_error":
        shared = name in schema.REFERENCE_ERRORS  # others are those of some systems only
        return 0, np.minimum(counts, group.samples if shared else 0)
    if name in own or array.ndim == 4:
        return 0, counts
    statistic = name in OF_STEPS or any(name.endswith(end) for end in ENDS)
    return int(statistic), counts


REFERENCE_STATES = "states"


# --- rows ------------------------------------------------------------------------------------


def _find_bad_commit_markers(group):
    """Markers and statuses that no run has."""
    if schema.MARKER.name not in group.arrays:
        return
    array = group.arrays[schema.MARKER.name]
    most = next((a.shape[1] for a in group.arrays.values() if a.dims[1:2] == ("time",)), None)
    wrong = group.counts < 0
    if most is not None:
        wrong |= group.counts > most
    if "status" in group.arrays:
        wrong |= (group.counts > 0) & ~np.isin(group.status, schema.STATUS_FLAGS["flag_values"])
        wrong |= (group.counts == most) & (group.status == schema.PENDING)
    for i in np.unique(np.flatnonzero(wrong) // array.chunks[0]):
        where = array.rows((i,))
        rows = where.start + np.flatnonzero(wrong[where])
        text = f"commits {len(rows):,} runs with a count or a status that no run has"
        yield _finding_of_chunk(group, array, (int(i),), text, RUN, rows, rows)


def _find_committed_runs_without_id(group):
    """Committed runs without an id: nothing says what they are."""
    array = group.arrays.get("run_id")
    if array is None:
        return
    for i in range(array.grid[0]):
        try:
            values = array.chunk((i,))
        except Damaged:
            continue
        if values is None:
            continue
        rows = array.rows((i,)).start + np.flatnonzero(values == "")
        rows = rows[rows < len(group.counts)]
        rows = rows[group.counts[rows] > 0]
        if len(rows):
            text = f"lacks the ids of {len(rows):,} committed runs"
            yield _finding_of_chunk(group, array, (i,), text, STUDY, rows, rows)


def experiment_of_group(place):
    """Name of the experiment that a group belongs to; empty if to none."""
    parts = place.split("/")
    return parts[2] if parts[:2] == [INTERNAL, REFERENCES] and len(parts) > 2 else parts[0]


def consolidated_metadata_copies(store):
    """The consolidated metadata of a store, by path."""
    root = json.loads((store.place / files.METADATA).read_bytes())
    return (root.get("consolidated_metadata") or {"metadata": {}})["metadata"]
