"""Verify a store: compare every file with what was written.

Each shard and each chunk of a coordinate has a checksum in the ledger of its group. Each
``zarr.json`` has a copy in that of the root, and each record ends with a checksum. Nothing in this
module writes; `sweep.store.upkeep.repair` repairs what `verify` finds.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sweep.analysis.rows import Rows
from sweep.errors import Damaged
from sweep.store import provenance
from sweep.store.backends.places import METADATA, Place, path_below
from sweep.store.commit.fold import OTHER
from sweep.store.commit.ledger import (
    is_as_written,
    is_growing,
    ledger_file,
    ledger_of_group,
)
from sweep.store.commit.records import PARTIAL, RECORD, Ledger, Record, list_records_among
from sweep.store.files import (
    CHUNK_KEY,
    INTERNAL,
    ArrayFiles,
    Chunk,
    Index,
    RowNumbers,
    end_checkpoints_group_name,
    read_zarr_metadata,
    references_group_name,
    unreadable_file_error,
)
from sweep.store.lease.holder import UNKNOWN, LeaseHolder, SessionRecord
from sweep.store.lease.lease import lease_backend_of_store
from sweep.store.progress import PROGRESS, is_progress_whole
from sweep.store.store import Store
from sweep.store.upkeep import COPY, FOREIGN, GONE, REMOVE, RUN, STUDY
from sweep.study import variables

THREADS = 8
NO_ROWS = np.zeros(0, dtype=np.int64)
SAMPLE_COUNT, STATUS = variables.SAMPLE_COUNT.name, "status"
# Files that earlier versions wrote in place of `PROGRESS`.
EARLIER = {f"{INTERNAL}/{name}.json" for name in ("in-flight", "prediction")}
Check = Callable[[], "Iterator[Finding]"]


@dataclass(frozen=True, eq=False)
class Finding:
    """A defect of a store, and its remedy.

    Parameters
    ----------
    place : str
        Name of the group, such as ``pendulum`` or ``_geosweep/references/pendulum``; for a file
        outside of groups, its path.
    array : str
        Name of the array; empty if the file does not belong to an array.
    chunk : tuple of int
        Index of the damaged chunk in the whole array; empty if a whole file is meant.
    text : str
        What is wrong.
    remedy : str
        One of the remedies in `sweep.store.upkeep`.
    rows : ndarray of int
        Rows of the group that are affected.
    runs : int
        Number of affected rows that are committed.
    path : Path or ObjectPlace
        The file or directory.
    is_in_part : bool
        Whether only the values of `rows` are known to be bad, not the rest of the file.
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


def verify(
    store: str | Place | Store,
    progress: Callable[[int, int], object] = lambda done, of: None,
    writer: LeaseHolder | None = None,
) -> Rows[Finding]:
    """Find all defects of a store.

    Parameters
    ----------
    store : str, Path or Store
    progress : callable
        Called with the number of files read so far, and their total number.
    writer : sweep.store.lease.holder.LeaseHolder, optional
        Another process that is writing to the store, whose unfinished files are no defects.

    Returns
    -------
    Rows of Finding

    Raises
    ------
    InputError
        If there is no store, or it has a newer format.
    Damaged
        If the attributes of the root are damaged, of which there is no copy.
    """
    verification = _Verification(Store.at(store).anew(), writer)
    found, checks = [*verification.find_without_reading()], verification.checks
    files = len(checks.keys() & verification.paths)
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        for done, some in enumerate(pool.map(lambda check: [*check()], checks.values()), 1):
            progress(min(done, files), files)
            found += some
    return Rows(found)


class _Verification:
    """The files of a store, with a check for each of them.

    Parameters
    ----------
    store : Store
    writer : LeaseHolder or None
        As in `verify`.
    """

    def __init__(self, store: Store, writer: LeaseHolder | None) -> None:
        self._store, self._writer, self.paths = store, writer, store.list_files()
        self.checks: dict[str, Check] = {METADATA: lambda: iter(())}  # by path below the store
        names, copies = store.experiments, store.consolidated
        there = {path.partition("/")[0] for path in self.paths}
        self._gone = {*names} & copies.keys() - there
        self._growing = {name for name in names if is_growing(store, name)}
        if not copies:
            self._growing = {*names, INTERNAL}
        for name in copies:
            if name.partition("/")[0] not in self._gone:
                self.checks[f"{name}/{METADATA}"] = partial(self._check_metadata, name)
        records = list_records_among(store.place, self.paths)
        for record in records:
            self._add(record.place, partial(self._check_record, record))
        self._add_note(store.session_file, SessionRecord.parse)
        self._add_note(store.internal(PROGRESS), is_progress_whole)
        for file in store.internal(provenance.FOLDER).glob("*.json"):
            self._add_note(file, partial(_is_environment, file.stem))
        # Including experiments of which only references are left.
        names = [*dict.fromkeys([*names, *map(experiment_of_group, copies)])]
        self._groups: list[_Group] = []
        for name in (own for own in names if own != INTERNAL):
            for place in (name, references_group_name(name)):
                if place in self._gone:
                    self._add(ledger_file(store, place), lambda: iter(()))
                    continue
                group = _Group(store, place, name in self._growing, records)
                self._add(ledger_file(store, place), partial(self._check_ledger, group))
                self.checks |= {path: partial(group.check, path) for path in group.ledger}
                self._groups.append(group)

    def _add(self, file: Place, check: "Check") -> None:
        self.checks[path_below(file, self._store.place)] = check

    def _add_note(self, file: Place, is_whole: Callable[[bytes], object]) -> None:
        self._add(file, partial(self._check_note, file, is_whole))

    def _finding(self, file: Place, text: str, remedy: str, place: str = "") -> Finding:
        place = place or path_below(file, self._store.place)
        return Finding(place, "", (), text, remedy, NO_ROWS, 0, file)

    def _check_metadata(self, name: str) -> Iterator[Finding]:
        """Compare metadata with the root's copy of them, unless the experiment is growing."""
        copies, experiment, own = self._store.consolidated, experiment_of_group(name), {}
        if experiment in self._growing:
            return
        with contextlib.suppress(Damaged):
            own = read_zarr_metadata(self._store.place / name)
        below = own.pop("consolidated_metadata", None) or {}
        kept = {key: value for key, value in copies[name].items() if key != "consolidated_metadata"}
        inner = {
            key.removeprefix(f"{name}/"): value
            for key, value in copies.items()
            if key.startswith(f"{name}/")
        }
        if own != kept or (name == experiment != INTERNAL and below.get("metadata") != inner):
            place, _, array = name.rpartition("/")
            file, text = self._store.place / name / METADATA, "metadata are gone or garbled"
            yield Finding(place, array, (), text, COPY, NO_ROWS, 0, file)

    def _check_record(self, record: Record) -> Iterator[Finding]:
        """Check a record; the runs of a bad one are computed again after its removal."""
        try:
            record.check()
        except FileNotFoundError:  # folded meanwhile
            return
        except Damaged as damage:
            runs = f"; without it {record.name.count:,} runs must be computed again"
            text = f"{damage.text}{runs * (record.name.kind == RECORD)}"
            yield self._finding(record.place, text, REMOVE)

    def _check_note(self, file: Place, is_whole: Callable[[bytes], object]) -> Iterator[Finding]:
        """Check the content of a small file, if it exists."""
        try:
            if is_whole(file.read_bytes()):
                return
        except FileNotFoundError:
            return
        except OSError as error:
            if not isinstance(damage := unreadable_file_error(file, error), Damaged):
                raise damage from None
        except (ValueError, TypeError):
            pass
        yield self._finding(file, OTHER, REMOVE)

    def _check_ledger(self, group: "_Group") -> Iterator[Finding]:
        chunks = filter(None, map(CHUNK_KEY.fullmatch, self.paths))
        is_needed = any(chunk[1] in group.arrays for chunk in chunks)
        is_growing = experiment_of_group(group.place) in self._growing
        if group.lost or (is_needed and not group.ledger and not is_growing):
            file = ledger_file(self._store, group.place)
            yield self._finding(file, group.lost or "is not there", STUDY, group.place)

    def find_without_reading(self) -> Iterator[Finding]:
        """Find what needs no reading: missing, unfinished and foreign files, impossible counts."""
        store, unfinished = self._store, self._writer is None  # a writer's files are no defects
        for name in self._gone:
            yield Finding(name, "", (), GONE, REMOVE, NO_ROWS, 0, store.place / name)
        for place in store.half_made_directories if unfinished and not store.in_bucket else ():
            text = "a store whose creation was cut short"
            yield Finding(place.name, "", (), text, REMOVE, NO_ROWS, 0, place)
        holder = lease_backend_of_store(store).current(store.lease_file)
        if holder is not None and holder.host == UNKNOWN and holder.user == UNKNOWN:
            text, file = "does not say who holds the store", store.lease_file
            yield Finding(file.name, "", (), text, REMOVE, NO_ROWS, 0, file)
        arrays = {
            path: (group, own) for group in self._groups for path, own in group.arrays.items()
        }
        for group in self._groups:
            yield from group.find_impossible_counts()
        sign = path_below(store.half_made_sign, store.place)
        for path in sorted(self.paths - self.checks.keys() - EARLIER):
            file = store.place / path
            if path == sign or path.endswith(PARTIAL):
                if unfinished:
                    yield self._finding(file, "a file that was not finished", REMOVE)
            elif (chunk := CHUNK_KEY.fullmatch(path)) and chunk[1] in arrays:
                group, array = arrays[chunk[1]]
                if array.sharded and array.index_of_file(file)[0] in group.unfolded:
                    self.checks[path] = partial(group.check, path)  # written by an interrupted fold
                elif group.is_covered:
                    yield self._finding(file, "was never written", REMOVE)
            elif experiment_of_group(path) not in self._growing:
                yield self._finding(file, "does not belong to a store: move it away", FOREIGN)


def _is_environment(name: str, content: bytes) -> bool:
    return name == f"{provenance.provenance_number(json.loads(content))}"


class _Group:
    """A group of runs or references, with its ledger.

    Parameters
    ----------
    store : Store
    place : str
        Name of the group.
    is_growing : bool
        Whether the group is growing, so that its coordinates may differ from the ledger.
    records : list of Record
        All records of the store.
    """

    def __init__(
        self, store: Store, place: str, is_growing: bool, records: Sequence[Record]
    ) -> None:
        self._store, self.place = store, place
        # Rows of shards with records, which may be partly folded.
        self.unfolded = {record.shard_row for record in records if record.group == place}
        self.arrays = {array.path: array for array in store.arrays_of_group(place).values()}
        self.ledger, self.lost = Ledger(), ""
        try:
            self.ledger = ledger_of_group(store, place) if self.arrays else Ledger()
        except Damaged as damage:
            self.lost = damage.text
        self.is_covered = bool(self.ledger) and not is_growing  # the ledger lists all files
        if is_growing:
            shards = tuple(f"{path}/" for path, array in self.arrays.items() if array.sharded)
            self.ledger = {
                path: own for path, own in self.ledger.items() if path.startswith(shards)
            }
        self.counts, self.status = map(self._readable_values, (SAMPLE_COUNT, STATUS))
        times = (a.shape[1] for a in self.arrays.values() if a.dims[1:2] == ("time",))
        most = next(times, np.iinfo(np.int32).max)
        self._impossible: NDArray[np.bool_] = (self.counts < 0) | (self.counts > most)
        if len(self.status) != len(self.counts):  # references have none
            self.status = np.zeros_like(self.counts)
        known = np.isin(self.status, variables.STATUS_FLAGS["flag_values"])
        self._impossible |= (self.counts > 0) & ~known
        self._impossible |= (self.counts == most) & (self.status == variables.PENDING)

    def _readable_values(self, name: str) -> NDArray[np.int64]:
        """Values of an array over runs; 0 where they cannot be read."""
        if (array := self.arrays.get(f"{self.place}/{name}")) is None:
            return NO_ROWS
        values = np.zeros(array.shape, dtype=int)
        for i in range(array.grid[0]):
            with contextlib.suppress(Damaged):
                for chunk in array.read_chunks((i,)) or ():
                    if chunk.values is not None:
                        values[chunk.rows] = chunk.values
        return values

    def find_impossible_counts(self) -> Iterator[Finding]:
        """Find runs whose sample count or status is impossible."""
        rows = np.flatnonzero(self._impossible)
        if array := self.arrays.get(f"{self.place}/{SAMPLE_COUNT}"):
            for i in np.unique(rows // array.chunks[0]).tolist():
                mine = rows[rows // array.chunks[0] == i]
                text = f"gives {len(mine):,} runs an impossible sample count or status"
                yield self._finding(array, (i,), (), text, mine)

    def check(self, path: str) -> Iterator[Finding]:
        """Find the defects of a file of an array."""
        if (array := self.arrays.get(path.rpartition("/")[0])) is None:
            return
        index, known = array.index_of_file(self._store.place / path), self.ledger.get(path)
        rows = np.arange(array.rows(index).start, array.rows(index).stop)
        try:
            if (data := array.read_file(index)) is None:
                raise Damaged("is not there")
            chunks = array.decode_chunks(index, data)
        except Damaged as damage:
            yield self._finding(array, index, (), damage.text, rows)
            return
        damaged = [chunk for chunk in chunks if chunk.damage]
        for chunk in damaged:
            mine = np.arange(chunk.rows.start, chunk.rows.stop)
            yield self._finding(array, index, chunk.index, chunk.damage, mine)
        # Impossible counts are reported separately.
        counted = array.name in (SAMPLE_COUNT, STATUS) and self._impossible[array.rows(index)].any()
        if not damaged and not counted and not is_as_written(known, data):
            lost = self._rows_without_value(array, chunks)
            text, runs = OTHER, f"{len(lost):,} committed {'run' if len(lost) == 1 else 'runs'}"
            if in_part := len(lost) > 0:
                is_id, rows = array.name == "run_id", lost
                text = f"lacks the ids of {runs}" if is_id else f"is NaN in {runs}"
            yield self._finding(array, index, (), text, rows, in_part)

    def _rows_without_value(self, array: ArrayFiles, chunks: list[Chunk]) -> RowNumbers:
        """Committed rows of a file that lack an id, or the values of a recorded quantity.

        If there are any, they are reported as the damaged rows, otherwise all rows of the file. If
        the file is damaged in other rows too, it is found again after these were repaired.
        """
        error = self.arrays.get(f"{array.path}_error")
        recorded = error is not None and "kind" in error.attributes
        if not recorded and array.name not in ("run_id", variables.CPU_TIME):
            return NO_ROWS
        found = [NO_ROWS]
        for chunk in chunks:
            if chunk.values is not None:
                flat = chunk.values.reshape(len(chunk.values), -1)
                lost = flat == "" if array.dtype == object else np.isnan(flat)
                found.append(chunk.rows.start + np.flatnonzero(lost.all(axis=1)))
        is_complete = (self.counts > 0) & (self.status == 0)
        return np.intersect1d(np.concatenate(found), np.flatnonzero(is_complete))

    def _finding(
        self,
        array: ArrayFiles,
        index: Index,
        chunk: Index,
        text: str,
        rows: RowNumbers,
        is_in_part: bool = False,
    ) -> Finding:
        place = array.path.rpartition("/")[0]
        rows = rows[rows < len(self.counts)] if array.dims[:1] == ("run",) else NO_ROWS
        committed = rows[self.counts[rows] > 0]
        if array.sharded and array.name != SAMPLE_COUNT:
            rows = committed
        if place != self.place:  # checkpoints at ends of runs are no results
            rows = committed = NO_ROWS
        return Finding(
            place, array.name, chunk, text, RUN if array.sharded else STUDY, rows, len(committed),
            array.file(index), is_in_part,
        )  # fmt: skip


def experiment_of_group(path: str) -> str:
    """Name of the experiment to which a group or file belongs."""
    inner = path.removeprefix(references_group_name(""))
    inner = inner.removeprefix(end_checkpoints_group_name(references_group_name("")))
    return inner.removeprefix(end_checkpoints_group_name("")).partition("/")[0]
