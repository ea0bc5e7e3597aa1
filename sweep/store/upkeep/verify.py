"""Verify a store: read every chunk, and compare what is committed with what exists.

Nothing here writes; `sweep.store.upkeep.repair` repairs what `verify` finds.
"""

import contextlib
import itertools
import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.analysis.rows import Rows
from sweep.errors import Damaged
from sweep.store import files
from sweep.store.backends.places import METADATA, Place, map_over_place, path_below
from sweep.store.commit.fold import ledger_file, missing_shards, written_by_tasks
from sweep.store.commit.records import (
    PARTIAL,
    RECORD,
    RecordsByGroup,
    Unfolded,
    records_by_group,
    unfolded_by_group,
)
from sweep.store.failures import rows_measured_against
from sweep.store.files import (
    INTERNAL,
    REFERENCES,
    ArrayFiles,
    Index,
    Part,
    RowNumbers,
    group_with_records_of,
    references_group_name,
)
from sweep.store.lease.holder import LeaseHolder
from sweep.store.store import Store
from sweep.store.upkeep import COPY, GONE, NOTHING, REMOVE, RUN, STUDY
from sweep.study import schema

BATCH = 32  # chunks that a thread reads at once
THREADS = 8
OF_STEPS = (schema.CURRENT_STEP_SIZE, "rejected_so_far")  # may be NaN before the first step
ENDS = {f"_error_{of}" for of in schema.ENERGY_STATISTICS} | {"unit_length_error_mean"}


@dataclass(frozen=True, eq=False)
class Finding:
    """A defect of a store, and its remedy.

    Parameters
    ----------
    place : str
        Group, such as ``pendulum`` or ``_geosweep/references/pendulum``; or a path.
    array : str
        Its name; empty if it is none.
    chunk : tuple of int
        Index of the chunk, along all of the array; empty if it is not one, or a whole file.
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
    chunk: Index
    text: str
    remedy: str
    rows: RowNumbers
    runs: int
    path: Place


NO_ROWS = np.zeros(0, dtype=np.int64)


# By the array's name and the index of the file: its chunks, None if there are none.
ChunksRead = dict[tuple[str, Index], list[Part] | None]


@dataclass(frozen=True, eq=False)
class Group:
    """A group of runs or references, as far as it can be read.

    Parameters
    ----------
    place : str
    arrays : dict of str to ArrayFiles
    counts, status, adaptive : ndarray, shape (runs,)
        Count of samples, status and coordinate; 0 and complete where they cannot be read.
    samples : int
        Sample times that the references cover; 0 without.
    held : dict of int to tuple of int
        Of rows whose references may end early, or that are such references, how many of these
        they hold at.
    read : dict
        Chunks of these three by the array's name and the index of the file, which were read.
    """

    place: str
    arrays: dict[str, ArrayFiles]
    counts: NDArray[np.int64]
    status: NDArray[np.int64]
    adaptive: NDArray[np.bool_]
    samples: int
    held: dict[int, tuple[int, ...]]
    read: ChunksRead

    @property
    def is_reference(self) -> bool:
        """Whether its rows are references."""
        return self.place.startswith(INTERNAL)


Job = tuple[Group, ArrayFiles, Index]  # a file to be checked


def verify(
    store: str | Place | Store,
    progress: Callable[[int, int], object] = lambda done, of: None,
    writer: LeaseHolder | None = None,
) -> Rows:
    """Find all defects of a store.

    Parameters
    ----------
    store : str, Path or Store
    writer : sweep.store.lease.holder.LeaseHolder, optional
        Another process that writes to the store meanwhile.
    progress : callable
        Called with the number of files that were read, and their total.

    Returns
    -------
    Rows of Finding

    Raises
    ------
    InputError
        If there is no store, or one of a newer version.
    """
    return Rows(find_defects(Store.at(store), progress, writer))


def find_defects(
    store: Store,
    progress: Callable[[int, int], object] = lambda done, of: None,
    writer: LeaseHolder | None = None,
    without: Collection[Place] = (),
) -> list[Finding]:
    """All defects of a store.

    Parameters
    ----------
    store, progress, writer
        As of `verify`.
    without : collection of Path or ObjectPlace
        Records that are not read as if they were folded.
    """
    paths, names = store.list_files(), store.experiments
    metadata, records = _read_metadata(store, paths), records_by_group(store.place, paths)
    # files that are not finished belong to whoever writes just now
    found = [] if writer is not None else [*_find_stray_files(store, paths)]
    found += _find_damaged_metadata(store, names, metadata)
    found += (damaged := list(_find_damaged_records(store, records)))
    session = store.session_name if records else ""
    unfolded = unfolded_by_group(records, session)
    for own in filter(None, unfolded.values()):
        own.leave_out({*without, *(finding.path for finding in damaged)})
    groups = list(_groups_to_verify(store, names, metadata, unfolded))
    for group in groups:
        found += _find_missing_shards(store, group, paths)
        found += _find_bad_sample_counts(group)
    total = sum(int(np.prod(a.grid)) for group in groups for a in group.arrays.values())
    jobs = (
        (group, array, index)
        for group in groups
        for array in group.arrays.values()
        for index in np.ndindex(array.grid)
    )
    done = 0
    for size, results in _check_chunks_in_threads(jobs):
        done += size
        progress(done, total)
        found += results
    return found


def _check_chunks_in_threads(jobs: Iterator[Job]) -> Iterator[tuple[int, list[Finding]]]:
    """Check chunks in threads; a window of batches bounds the memory."""
    waiting: deque[tuple[int, Future[list[Finding]]]] = deque()
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        batches = iter(lambda: list(itertools.islice(jobs, BATCH)), [])
        for batch in itertools.chain(batches, [None] * 2 * THREADS):
            if batch is not None:
                waiting.append((len(batch), pool.submit(_check_batch_of_chunks, batch)))
            if waiting and (batch is None or len(waiting) >= 2 * THREADS):
                size, future = waiting.popleft()
                yield size, future.result()


def _check_batch_of_chunks(batch: Sequence[Job]) -> list[Finding]:
    return [finding for job in batch for finding in _check_file(*job)]


# --- what is there ---------------------------------------------------------------------------


def _read_metadata(store: Store, paths: set[str]) -> dict[str, dict[str, Any]]:
    """Metadata of the groups and arrays below the root, by their paths; where they can be read."""

    def read(name: str) -> dict[str, Any] | None:
        try:
            return files.read_zarr_metadata(store.place / name)
        except Damaged:
            return None

    ending = f"/{METADATA}"
    names = sorted(path.removesuffix(ending) for path in paths if path.endswith(ending))
    found = zip(names, map_over_place(store.place, read, names), strict=True)
    return {name: metadata for name, metadata in found if metadata is not None}


def _find_stray_files(store: Store, paths: set[str]) -> Iterator[Finding]:
    """Find files that exist only while a store is written to."""
    for place in () if store.in_bucket else store.half_made_directories:
        yield _finding_of_stray_file(place, place.name, "a store whose creation was cut short")
    if (sign := path_below(store.half_made_sign, store.place)) in paths:
        yield _finding_of_stray_file(
            store.place / sign, sign, "is there only while a store is made"
        )
    for path in sorted(path for path in paths if path.endswith(PARTIAL)):
        yield _finding_of_stray_file(store.place / path, path, "a file that was not finished")


def _finding_of_stray_file(file: Place, place: str, text: str) -> Finding:
    return Finding(place, "", (), text, REMOVE, NO_ROWS, 0, file)


def _find_damaged_records(store: Store, records: RecordsByGroup) -> Iterator[Finding]:
    """Records that cannot be read: what they have is computed again when they are gone."""
    for record in (r for rows in records.values() for listed in rows.values() for r in listed):
        try:
            record.check()
        except Damaged as damage:
            where = path_below(record.place, store.place)
            runs = f"; without it {record.name.count:,} runs are to be computed again"
            text = f"{damage.text}{runs * (record.name.kind == RECORD)}"
            yield Finding(where, "", (), text, REMOVE, NO_ROWS, 0, record.place)


def _find_missing_shards(store: Store, group: Group, paths: set[str]) -> Iterator[Finding]:
    """Files of results that were there and are gone."""
    if path_below(ledger_file(store, group.place), store.place) not in paths:
        return
    try:
        missing = missing_shards(store, group.place, written_by_tasks(group.arrays), paths)
    except Damaged as damage:
        file = ledger_file(store, group.place)
        yield Finding(group.place, "", (), str(damage), REMOVE, NO_ROWS, 0, file)
        return
    for array, index in missing:
        rows, file = _rows_of_group(group, array.rows(index)), array.file(index)
        runs = _count_computed(group, rows)
        yield Finding(group.place, array.name, (), "is not there", RUN, rows, runs, file)


def _find_damaged_metadata(
    store: Store, names: Sequence[str], metadata: Mapping[str, dict[str, Any]]
) -> Iterator[Finding]:
    """Metadata that are gone or garbled; those of the root can be read."""
    path, copies = store.place, store.consolidated
    for name in dict.fromkeys([*copies, *names]):
        try:
            if metadata[name]["node_type"] == "array":
                ArrayFiles.of(path / name, metadata[name])
        except (Damaged, KeyError):
            if not (path / name).parent.is_dir():
                continue  # of a group that is gone
            has = name in copies
            if name in names and not (path / name).is_dir():
                yield Finding(name, "", (), GONE, REMOVE, NO_ROWS, 0, path / name)
                continue
            place, _, array = name.rpartition("/")
            text = "metadata are gone or garbled"
            text += "" if has else ", and there is no copy of them"
            where = path / name / METADATA
            yield Finding(place, array, (), text, COPY if has else NOTHING, NO_ROWS, 0, where)


def _groups_to_verify(
    store: Store,
    names: Sequence[str],
    metadata: Mapping[str, dict[str, Any]],
    unfolded: Mapping[str, Unfolded],
) -> Iterator[Group]:
    """The groups that have arrays: experiments, then what is internal; as folded."""
    found: dict[str, dict[str, ArrayFiles]] = {name: {} for name in names}
    for path in sorted(metadata):
        place, _, name = path.rpartition("/")
        with contextlib.suppress(Damaged):  # said already
            if metadata[path].get("node_type") == "array":
                records = unfolded.get(group_with_records_of(place))
                array = ArrayFiles.of(store.place / path, metadata[path], records)
                found.setdefault(place, {})[name] = array
    for place, arrays in found.items():
        if arrays:
            yield _group_to_verify(place, arrays, found.get(references_group_name(place), {}))


def _group_to_verify(
    place: str, arrays: dict[str, ArrayFiles], references: Mapping[str, ArrayFiles]
) -> Group:
    size = arrays[schema.SAMPLE_COUNT.name].shape[0] if schema.SAMPLE_COUNT.name in arrays else 0
    names, read = (schema.SAMPLE_COUNT.name, "status", "adaptive"), ChunksRead()
    counts, status, adaptive = (
        _readable_values_or_zero(arrays.get(name), size, read) for name in names
    )
    samples = references["states"].shape[1] if "states" in references else 0
    held = _samples_at_which_references_hold(arrays, references, size, samples)
    return Group(place, arrays, counts, status, adaptive.astype(bool), samples, held, read)


def _samples_at_which_references_hold(
    arrays: Mapping[str, ArrayFiles], references: Mapping[str, ArrayFiles], size: int, samples: int
) -> dict[int, tuple[int, ...]]:
    """`Group.held`; empty where references have none, as in an earlier version.

    Where that cannot be read, which is said of the chunk or of the metadata, any number.
    """
    known = {schema.REFERENCE_END, schema.HELD_SAMPLES}
    try:
        if known & arrays.keys():
            ends, held = (arrays[k].values() for k in (schema.REFERENCE_END, schema.HELD_SAMPLES))
            return {
                row: (int(held[row]),) for row in np.flatnonzero(ends != schema.PENDING).tolist()
            }
        if known & references.keys():
            held = references[schema.HELD_SAMPLES].values()
            found = rows_measured_against(arrays, references)
            return {run: tuple(held[list(rows)].tolist()) for run, rows in found.items()}
    except (Damaged, KeyError):
        return dict.fromkeys(range(size if references else 0), tuple(range(samples + 1)))
    return {}


def _readable_values_or_zero(
    array: ArrayFiles | None, size: int, read: ChunksRead
) -> NDArray[np.int64]:
    """Values of an array over runs, 0 where they cannot be read; chunks are noted in `read`."""
    values = np.zeros(size, dtype=int)
    if array is None:
        return values
    for i in range(array.grid[0]):
        with contextlib.suppress(Damaged):
            read[array.name, (i,)] = array.parts((i,))
        for part in read.get((array.name, (i,))) or ():
            fits = values[part.rows]
            if part.values is not None:
                fits[:] = part.values[: len(fits)]
            elif not part.damage and array.name != schema.SAMPLE_COUNT.name:
                fits[:] = array.fill
    return values


# --- chunks ----------------------------------------------------------------------------------


def _check_file(group: Group, array: ArrayFiles, index: Index) -> Iterator[Finding]:
    """Findings in a file of an array."""
    over_runs = array.dims[:1] == ("run",)
    try:
        known = (array.name, index) in group.read
        parts = group.read[array.name, index] if known else array.parts(index)
    except Damaged as damage:  # none of its chunks can be found
        if not array.sharded:
            part = _whole_file_as_part(array, index, damage.text)
            yield from _check_part(group, array, part, over_runs)
            return
        rows = _rows_of_group(group, array.rows(index)) if over_runs else NO_ROWS
        remedy = _remedy(group, array)
        yield Finding(
            group.place, array.name, (), damage.text, remedy, rows, _count_computed(group, rows),
            array.file(index),
        )  # fmt: skip
        return
    if parts is None and array.sharded:
        return  # said already, if it was there
    for part in parts or [_whole_file_as_part(array, index)]:
        yield from _check_part(group, array, part, over_runs)


def _whole_file_as_part(array: ArrayFiles, index: Index, damage: str = "") -> Part:
    """The `Part` of a file that is not there, or damaged as a whole."""
    sizes = zip(index, array.chunks, array.shape, strict=True)
    extent = tuple(slice(i * c, min(i * c + c, n)) for i, c, n in sizes)
    return Part(index, extent, None, damage)


def _rows_of_group(group: Group, where: slice) -> RowNumbers:
    return np.arange(where.start, min(where.stop, len(group.counts)))


def _count_computed(group: Group, rows: RowNumbers) -> int:
    return int(np.sum(group.counts[rows] > 0))


def _check_part(group: Group, array: ArrayFiles, part: Part, over_runs: bool) -> Iterator[Finding]:
    """Findings in a chunk."""
    rows = _rows_of_group(group, part.rows) if over_runs else NO_ROWS
    committed = rows[group.counts[rows] > 0]
    result = array.sharded
    if array.name == "run_id" and part.values is not None:
        yield from _find_rows_without_id(group, array, part)
    first = part.index[1] * array.inner[1] if array.ndim > 1 else 0
    if part.damage:
        mine = committed if result and array.name != schema.SAMPLE_COUNT.name else rows
        remedy = _remedy(group, array)
        yield _finding_of_chunk(group, array, part.index, part.damage, remedy, mine, mine)
    elif part.values is None and result:
        needed = committed[group.counts[committed] > first]
        if len(needed):
            yield _finding_of_chunk(group, array, part.index, "is not there", RUN, needed, needed)
    elif part.values is None:
        if all(array.shape):  # no file is needed for nothing
            remedy, text = _remedy(group, array), "is not there"
            yield _finding_of_chunk(group, array, part.index, text, remedy, rows, committed)
    elif result and part.values.dtype.kind == "f" and len(committed):
        values = part.values[committed - part.rows.start]
        lost = _committed_rows_without_values(group, array, values, committed, first)
        if len(lost):
            text = f"is NaN in {len(lost):,} committed {'run' if len(lost) == 1 else 'runs'}"
            yield _finding_of_chunk(group, array, part.index, text, RUN, lost, lost)


def _finding_of_chunk(
    group: Group,
    array: ArrayFiles,
    index: Index,
    text: str,
    remedy: str,
    rows: RowNumbers,
    runs: RowNumbers,
) -> Finding:
    file = array.file(tuple(k // n for k, n in zip(index, array.inner_grid, strict=True)))
    return Finding(group.place, array.name, index, text, remedy, rows, len(runs), file)


def _remedy(group: Group, array: ArrayFiles) -> str:
    """How a chunk is mended: results are computed again, all else is written from the study."""
    if array.sharded:
        return RUN
    known = not group.is_reference or group.place.startswith(references_group_name(""))
    return STUDY if known else NOTHING


def _committed_rows_without_values(
    group: Group, array: ArrayFiles, values: np.ndarray, rows: RowNumbers, first: int
) -> RowNumbers:
    """Of committed rows those without the values that they must have.

    A run that failed may be NaN before its last samples, as where an energy overflows; at its
    first sample it is not. No step of an adaptive one need end in an interval.
    """
    if values.ndim == 1:
        needed = array.name in ("cpu_time", "wall_time") and not group.is_reference
        return rows[np.isnan(values)] if needed else NO_ROWS
    if array.dims[1] != "time" or array.name in schema.CHAOS:  # a solver may find no derivative
        return NO_ROWS
    flat = values if values.ndim == 2 else values[:, :, 0, 0]
    least, most = _required_sample_ranges(group, array, group.counts[rows])
    at = first + np.arange(flat.shape[1])
    must = (at >= least) & (at < most[:, None])
    loose = group.status[rows] > 0
    known = np.array([row in group.held for row in rows.tolist()], dtype=bool)
    loose |= group.is_reference & ~known
    must &= ~(loose[:, None] & (at > least))
    if array.name.endswith(tuple(ENDS)):
        must &= ~group.adaptive[rows][:, None]
    if group.is_reference or array.attributes.get("kind") == "state_error":
        for i in np.flatnonzero(known):
            must[i] &= _where_a_reference_holds(group.held[int(rows[i])], at, np.isnan(flat[i]))
    without: RowNumbers = rows[(np.isnan(flat) & must).any(axis=1)]
    return without


def _where_a_reference_holds(
    held: Sequence[int], at: RowNumbers, lost: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which samples it holds at, of the numbers that it may hold: that which tells what is lost."""
    return next((at < own for own in held if np.array_equal(at >= own, lost)), at < max(held))


def _required_sample_ranges(
    group: Group, array: ArrayFiles, counts: RowNumbers
) -> tuple[int, RowNumbers]:
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


def _find_bad_sample_counts(group: Group) -> Iterator[Finding]:
    """Counts of samples and statuses that no run has."""
    if schema.SAMPLE_COUNT.name not in group.arrays:
        return
    array = group.arrays[schema.SAMPLE_COUNT.name]
    most = next((a.shape[1] for a in group.arrays.values() if a.dims[1:2] == ("time",)), None)
    wrong = group.counts < 0
    if most is not None:
        wrong |= group.counts > most
    if "status" in group.arrays:
        wrong |= (group.counts > 0) & ~np.isin(group.status, schema.STATUS_FLAGS["flag_values"])
        wrong |= (group.counts == most) & (group.status == schema.PENDING)
    for i in np.unique(np.flatnonzero(wrong) // array.inner[0]):
        where = slice(i * array.inner[0], (i + 1) * array.inner[0])
        rows = where.start + np.flatnonzero(wrong[where])
        text = f"commits {len(rows):,} runs with a count or a status that no run has"
        yield _finding_of_chunk(group, array, (int(i),), text, RUN, rows, rows)


def _find_rows_without_id(group: Group, array: ArrayFiles, part: Part) -> Iterator[Finding]:
    """Committed runs without an id: nothing says what they are."""
    rows = part.rows.start + np.flatnonzero(part.values == "")
    rows = rows[rows < len(group.counts)]
    rows = rows[group.counts[rows] > 0]
    if len(rows):
        text = f"lacks the ids of {len(rows):,} committed runs"
        yield _finding_of_chunk(group, array, part.index, text, STUDY, rows, rows)


def experiment_of_group(place: str) -> str:
    """Name of the experiment that a group belongs to; empty if to none."""
    parts = place.split("/")
    return parts[2] if parts[:2] == [INTERNAL, REFERENCES] and len(parts) > 2 else parts[0]
