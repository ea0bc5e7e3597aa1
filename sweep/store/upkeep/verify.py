"""Verify a store: compare every file with what was written.

Each shard and each chunk of a coordinate has a checksum in the ledger of its group, each
``zarr.json`` a copy in that of the root, and each record one behind it. Nothing here writes;
`sweep.store.upkeep.repair` repairs what `verify` finds: what is damaged counts as never computed.
"""

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.analysis.rows import Rows
from sweep.errors import Damaged
from sweep.store import provenance
from sweep.store.backends.places import METADATA, Place, map_over_place, path_below
from sweep.store.commit.fold import OTHER
from sweep.store.commit.ledger import Ledger, is_as_written, ledger_file, ledger_of_group
from sweep.store.commit.records import PARTIAL, RECORD, RecordsByGroup, records_by_group
from sweep.store.files import (
    CHUNK_KEY,
    INTERNAL,
    ArrayFiles,
    Index,
    Part,
    RowNumbers,
    end_checkpoints_group_name,
    read_zarr_metadata,
    references_group_name,
)
from sweep.store.lease.holder import UNKNOWN, LeaseHolder
from sweep.store.lease.lease import lease_backend_of_store
from sweep.store.progress import IN_FLIGHT, PREDICTION, is_prediction_whole
from sweep.store.store import Store
from sweep.store.upkeep import COPY, FOREIGN, GONE, REMOVE, RUN, STUDY
from sweep.study import variables

THREADS = 8
NO_ROWS = np.zeros(0, dtype=np.int64)


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
        One of those in `sweep.store.upkeep`.
    rows : ndarray of int
        Rows of the group that are concerned.
    runs : int
        Those of them that are committed.
    path : Path or ObjectPlace
        The file or directory.
    is_in_part : bool
        Whether the rest of the file may be as it was written.
    """

    place: str
    array: str
    chunk: Index
    text: str
    remedy: str
    rows: RowNumbers
    runs: int
    path: Place
    is_in_part: bool = False


@dataclass(frozen=True, eq=False)
class Group:
    """A group of runs or references, and what its ledger says.

    Parameters
    ----------
    place : str
    arrays : dict of str to ArrayFiles
        Those that its ledger covers, by their paths.
    ledger : dict
    is_covered : bool
        Whether it says what all files are; not of coordinates while these grow.
    unfolded : set of int
        Rows of shards that have records, and may be folded in part.
    counts, status : ndarray of int, shape (runs,)
        Count of samples and status; 0 where they cannot be read.
    """

    place: str
    arrays: dict[str, ArrayFiles]
    ledger: Ledger
    is_covered: bool
    unfolded: set[int]
    counts: NDArray[np.int64]
    status: NDArray[np.int64]


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
    Damaged
        If its root is, of which there is no copy.
    """
    return Rows(find_defects(Store.at(store).anew(), progress, writer))


def find_defects(
    store: Store,
    progress: Callable[[int, int], object] = lambda done, of: None,
    writer: LeaseHolder | None = None,
) -> list[Finding]:
    """All defects of a store; parameters as of `verify`."""
    names, paths = store.experiments, store.list_files()
    records = records_by_group(store.place, paths)
    gone = {
        name
        for name in names
        if name in store.consolidated and not any(path.startswith(f"{name}/") for path in paths)
    }
    found = [Finding(name, "", (), GONE, REMOVE, NO_ROWS, 0, store.place / name) for name in gone]
    found += _find_damaged_metadata(store, gone)
    found += _find_damaged_records(store, records)
    found += _find_damaged_notes(store)
    groups = []
    for place in _names_of_groups(store):
        if place in gone:
            continue
        arrays = {array.path: array for array in store.arrays_of_group(place).values()}
        if not arrays:
            continue
        lost, ledger = "", Ledger()
        try:
            ledger = ledger_of_group(store, place)
        except Damaged as damage:
            lost = damage.text
        groups.append(group := _group_to_verify(store, place, arrays, ledger, records))
        if lost or (not ledger and group.counts.any()):
            file, text = ledger_file(store, place), lost or "is not there"
            found.append(_finding_of_file(store, file, text, STUDY, place))
        found += _find_bad_sample_counts(group)
    found += _find_what_does_not_belong(store, groups, records, paths, writer)
    jobs = [
        (group, path)
        for group in groups
        for path in sorted({*group.ledger, *_files_that_grow(group, paths)})
    ]
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        checked = pool.map(lambda job: [*_check_file(store, *job)], jobs)
        for done, findings in enumerate(checked, 1):
            progress(done, len(jobs))
            found += findings
    return found


def _files_that_grow(group: Group, paths: set[str]) -> Iterator[str]:
    """Shards that a fold which was cut short may have written, without the ledger that says so."""
    for path in paths if group.unfolded else ():
        if (chunk := CHUNK_KEY.fullmatch(path)) and chunk[1] in group.arrays:
            row = int(re.split(r"[./]", chunk[2])[1])
            if group.arrays[chunk[1]].sharded and row in group.unfolded:
                yield path


def _finding_of_file(store: Store, file: Place, text: str, remedy: str, place: str = "") -> Finding:
    return Finding(place or path_below(file, store.place), "", (), text, remedy, NO_ROWS, 0, file)


# --- what is there ---------------------------------------------------------------------------


def _names_of_groups(store: Store) -> list[str]:
    """Groups of runs and of references, also of an experiment of which only these are left."""
    names = [*store.experiments, *map(experiment_of_group, store.consolidated)]
    experiments = [name for name in dict.fromkeys(names) if name != INTERNAL]
    return [group for name in experiments for group in (name, references_group_name(name))]


def _find_damaged_metadata(store: Store, gone: Collection[str]) -> Iterator[Finding]:
    """Metadata that are not as the root's copies of them, unless these are about to grow."""
    copies = store.consolidated

    def read(name: str) -> dict[str, Any]:
        with contextlib.suppress(Damaged):
            return read_zarr_metadata(store.place / name)
        return {}

    found = dict(zip(copies, map_over_place(store.place, read, copies), strict=True))
    growing = {name for name in store.experiments if is_growing(found.get(name, {}))}
    for name, copy in copies.items():
        if name.partition("/")[0] in gone or experiment_of_group(name) in growing:
            continue
        own = dict(found[name])
        below = own.pop("consolidated_metadata", None) or {}
        same = own == {key: value for key, value in copy.items() if key != "consolidated_metadata"}
        if "/" not in name and name != INTERNAL:
            top = f"{name}/"
            kept = {key[len(top) :]: value for key, value in copies.items() if key.startswith(top)}
            same &= below.get("metadata") == kept
        if not same:
            place, _, array = name.rpartition("/")
            text = "metadata are gone or garbled"
            yield Finding(place, array, (), text, COPY, NO_ROWS, 0, store.place / name / METADATA)


def is_growing(metadata: Mapping[str, Any]) -> bool:
    """Whether metadata are those of an experiment whose growth was cut short.

    From its first change on it is without copies of what is below it, until all is made.
    """
    return bool(metadata) and "consolidated_metadata" not in metadata


def _find_damaged_records(store: Store, records: RecordsByGroup) -> Iterator[Finding]:
    """Records that cannot be read: what they have is computed again when they are gone."""
    for record in (r for rows in records.values() for listed in rows.values() for r in listed):
        try:
            record.check()
        except FileNotFoundError:  # it was folded
            continue
        except Damaged as damage:
            runs = f"; without it {record.name.count:,} runs are to be computed again"
            text = f"{damage.text}{runs * (record.name.kind == RECORD)}"
            yield _finding_of_file(store, record.place, text, REMOVE)


def _find_damaged_notes(store: Store) -> Iterator[Finding]:
    """Files of sessions, environments, predictions and the lease that are not as we write them."""
    try:
        _ = store.session
    except Damaged as damage:
        yield _finding_of_file(store, store.session_file, damage.text, REMOVE)
    for file in store.internal(provenance.FOLDER).glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            number = provenance.provenance_number(json.loads(file.read_bytes()))
            if file.name == f"{number}.json":
                continue
        yield _finding_of_file(store, file, OTHER, REMOVE)
    if not is_prediction_whole(store):
        yield _finding_of_file(store, store.internal(PREDICTION), OTHER, REMOVE)
    holder = lease_backend_of_store(store).current(store.lease_file)
    if holder is not None and holder.host == UNKNOWN and holder.user == UNKNOWN:
        text = "does not say who holds the store"
        yield Finding(store.lease_file.name, "", (), text, REMOVE, NO_ROWS, 0, store.lease_file)


def _find_what_does_not_belong(
    store: Store,
    groups: Sequence[Group],
    records: RecordsByGroup,
    paths: set[str],
    writer: LeaseHolder | None,
) -> Iterator[Finding]:
    """Files that are there only while a store is written to, and those that nothing here writes."""
    if writer is None:  # or they belong to whoever writes just now
        for place in () if store.in_bucket else store.half_made_directories:
            text = "a store whose creation was cut short"
            yield Finding(place.name, "", (), text, REMOVE, NO_ROWS, 0, place)
    own = [record.place for rows in records.values() for some in rows.values() for record in some]
    own += [store.session_file, store.internal(IN_FLIGHT), store.internal(PREDICTION)]
    own += [ledger_file(store, group) for group in _names_of_groups(store)]
    known = {METADATA, *(path_below(file, store.place) for file in own)}
    known |= {f"{name}/{METADATA}" for name in store.consolidated}
    known |= {path for group in groups for path in group.ledger}
    arrays = {path: (group, array) for group in groups for path, array in group.arrays.items()}
    environment = re.compile(rf"{INTERNAL}/{provenance.FOLDER}/\d+\.json")
    sign = path_below(store.half_made_sign, store.place)
    for path in sorted(paths - known):
        file = store.place / path
        if path == sign or path.endswith(PARTIAL):
            if writer is None:
                yield _finding_of_file(store, file, "a file that was not finished", REMOVE)
        elif (chunk := CHUNK_KEY.fullmatch(path)) and chunk[1] in arrays:
            group, array = arrays[chunk[1]]
            if group.is_covered and array.index_of_file(file)[0] not in group.unfolded:
                yield _finding_of_file(store, file, "was never written", REMOVE)
        elif not environment.fullmatch(path) and not _is_growing(store, path):
            yield _finding_of_file(store, file, "is no file of a store: move it away", FOREIGN)


def _is_growing(store: Store, path: str) -> bool:
    name = experiment_of_group(path)
    with contextlib.suppress(Damaged):
        return name != INTERNAL and is_growing(read_zarr_metadata(store.place / name))
    return False


def _group_to_verify(
    store: Store,
    place: str,
    arrays: dict[str, ArrayFiles],
    ledger: Ledger,
    records: RecordsByGroup,
) -> Group:
    is_covered = bool(ledger) and not _is_growing(store, place)
    if ledger and not is_covered:
        shards = tuple(f"{path}/" for path, array in arrays.items() if array.sharded)
        ledger = {path: known for path, known in ledger.items() if path.startswith(shards)}
    counts, status = (
        _readable_values_or_zero(arrays.get(f"{place}/{name}"))
        for name in (variables.SAMPLE_COUNT.name, "status")
    )
    return Group(place, arrays, ledger, is_covered, {*records.get(place, {})}, counts, status)


def _readable_values_or_zero(array: ArrayFiles | None) -> NDArray[np.int64]:
    """Values of an array over runs, 0 where they cannot be read."""
    values = np.zeros(array.shape if array else 0, dtype=int)
    for i in range(array.grid[0] if array else 0):
        with contextlib.suppress(Damaged):
            for part in (array and array.parts((i,))) or ():
                if part.values is not None:
                    values[part.rows] = part.values
    return values


# --- chunks ----------------------------------------------------------------------------------


def _check_file(store: Store, group: Group, path: str) -> Iterator[Finding]:
    """Findings in a file that a ledger has."""
    name, _, _ = path.rpartition("/")
    if (array := group.arrays.get(name)) is None:
        return
    index = array.index_of_file(store.place / path)
    rows = np.arange(array.rows(index).start, array.rows(index).stop)
    try:
        data = array.read_file(index)
        parts = None if data is None else array.parts_of(index, data)
    except Damaged as damage:
        yield _finding_of_chunk(group, array, index, (), damage.text, rows)
        return
    if data is None or parts is None:
        yield _finding_of_chunk(group, array, index, (), "is not there", rows)
        return
    damaged = [part for part in parts if part.damage]
    for part in damaged:
        mine = np.arange(part.rows.start, part.rows.stop)
        yield _finding_of_chunk(group, array, index, part.index, part.damage, mine)
    if not damaged and not is_as_written(group.ledger.get(path), data):
        yield from _find_rows_of_another_file(group, array, index, parts)


def _finding_of_chunk(
    group: Group,
    array: ArrayFiles,
    index: Index,
    chunk: Index,
    text: str,
    rows: RowNumbers,
) -> Finding:
    place, over_runs = path_of_group(array), array.dims[:1] == ("run",)
    rows = rows[rows < len(group.counts)] if over_runs else NO_ROWS
    committed = rows[group.counts[rows] > 0]
    if array.sharded and array.name != variables.SAMPLE_COUNT.name:
        rows = committed
    if place != group.place:  # an end from which no run goes on costs no result
        rows = committed = NO_ROWS
    remedy = RUN if array.sharded else STUDY
    return Finding(place, array.name, chunk, text, remedy, rows, len(committed), array.file(index))


def path_of_group(array: ArrayFiles) -> str:
    """The group that an array is in."""
    return array.path.rpartition("/")[0]


def _find_rows_of_another_file(
    group: Group, array: ArrayFiles, index: Index, parts: Sequence[Part]
) -> Iterator[Finding]:
    """Rows of a file whose chunks can be read, and are not those that were written.

    Where some committed rows lack what each has, as those that were lost, it is these; else it is
    all. A file that is another one in other rows too is found again once these are mended.
    """
    if array.name in (variables.SAMPLE_COUNT.name, "status"):
        where = array.rows(index)
        if _rows_with_bad_counts(group)[where].any():
            return  # said already
    rows = np.arange(array.rows(index).start, array.rows(index).stop)
    blank = [NO_ROWS]
    for part in parts if _has_value_in_each_row(group, array) else ():
        if part.values is not None:
            flat = part.values.reshape(len(part.values), -1)
            lost = flat == "" if array.dtype == object else np.isnan(flat)
            blank.append(part.rows.start + np.flatnonzero(lost.all(axis=1)))
    mine = np.concatenate(blank)
    mine = mine[mine < len(group.counts)]
    mine = mine[(group.counts[mine] > 0) & (group.status[mine] == 0)]
    if not len(mine):
        yield _finding_of_chunk(group, array, index, (), OTHER, rows)
        return
    text = f"lacks the ids of {len(mine):,} committed runs"
    if array.name != "run_id":
        text = f"is NaN in {len(mine):,} committed {'run' if len(mine) == 1 else 'runs'}"
    found = _finding_of_chunk(group, array, index, (), text, mine)
    yield dataclasses.replace(found, is_in_part=True)


def _has_value_in_each_row(group: Group, array: ArrayFiles) -> bool:
    """Whether each complete run has an id, or numbers, in an array, as of a recorded quantity."""
    error = group.arrays.get(f"{array.path}_error")
    return array.name in ("run_id", "cpu_time") or (
        error is not None and "kind" in error.attributes
    )


def _rows_with_bad_counts(group: Group) -> NDArray[np.bool_]:
    """Which runs have counts of samples and statuses that no run has."""
    times = (a.shape[1] for a in group.arrays.values() if a.dims[1:2] == ("time",))
    most = next(times, np.iinfo(np.int32).max)
    wrong: NDArray[np.bool_] = (group.counts < 0) | (group.counts > most)
    if len(group.status) == len(group.counts):
        wrong |= (group.counts > 0) & ~np.isin(group.status, variables.STATUS_FLAGS["flag_values"])
        wrong |= (group.counts == most) & (group.status == variables.PENDING)
    return wrong


def _find_bad_sample_counts(group: Group) -> Iterator[Finding]:
    rows = np.flatnonzero(_rows_with_bad_counts(group))
    if (array := group.arrays.get(f"{group.place}/{variables.SAMPLE_COUNT.name}")) is None:
        return
    for i in np.unique(rows // array.chunks[0]).tolist():
        mine = rows[rows // array.chunks[0] == i]
        text = f"commits {len(mine):,} runs with a count or a status that no run has"
        yield _finding_of_chunk(group, array, (i,), (), text, mine)


def experiment_of_group(path: str) -> str:
    """Name of the experiment that a group, or a file, belongs to."""
    inner = path.removeprefix(references_group_name(""))
    inner = inner.removeprefix(end_checkpoints_group_name(references_group_name("")))
    return inner.removeprefix(end_checkpoints_group_name("")).partition("/")[0]
