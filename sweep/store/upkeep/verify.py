"""Verify a store: compare every file with what was written.

Each shard and each chunk of a coordinate has a checksum in the ledger of its group. Each
``zarr.json`` has a copy in that of the root, and each record ends with a checksum. Nothing in this
module writes; `sweep.store.upkeep.repair` repairs what `verify` finds.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from sweep.analysis.rows import Rows
from sweep.errors import Damaged
from sweep.store import provenance
from sweep.store.backends.places import METADATA, Place, path_below
from sweep.store.commit.fold import OTHER
from sweep.store.commit.ledger import is_as_written, is_growing, ledger_file, ledger_of_group
from sweep.store.commit.records import (
    PARTIAL,
    RECORD,
    Ledger,
    Record,
    ledger_entry,
    list_records_among,
)
from sweep.store.files import (
    CHUNK_KEY,
    INTERNAL,
    ArrayFiles,
    Chunk,
    Index,
    RowNumbers,
    end_checkpoints_group_name,
    is_experiment,
    metadata_of_node,
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


@dataclass(frozen=True, eq=False)
class Finding:
    """A defect of a store, and its remedy.

    Parameters
    ----------
    path : Path or ObjectPlace
        The file or directory.
    place : str
        Name of the group, such as ``pendulum`` or ``_geosweep/references/pendulum``; for a file
        outside of groups, its path.
    text : str
        What is wrong.
    remedy : str
        One of the remedies in `sweep.store.upkeep`.
    array : str
        Name of the array; empty if the file does not belong to an array.
    chunk : tuple of int
        Index of the damaged chunk in the whole array; empty if a whole file is meant.
    rows : ndarray of int
        Rows of the group that are affected.
    runs : int
        Number of affected rows that are committed.
    """

    path: Place
    place: str
    text: str
    remedy: str
    array: str = ""
    chunk: Index = ()
    rows: RowNumbers = field(default_factory=lambda: NO_ROWS)
    runs: int = 0


Check = Callable[[], Iterable[Finding]]


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
    survey = _Survey(Store.at(store).anew())
    found, checks = [*survey.find_without_reading(writer is None)], survey.checks
    files = len(checks.keys() & survey.paths)
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        for done, some in enumerate(pool.map(lambda check: [*check()], checks.values()), 1):
            progress(min(done, files), files)
            found += some
    return Rows(found)


class _Survey:
    """The files of a store, with a check for each that should be there, by path."""

    def __init__(self, store: Store) -> None:
        self._store, self.paths, copies = store, store.list_files(), store.consolidated
        there = {path.partition("/")[0] for path in self.paths}
        self._gone = {name for name in store.experiments if name in copies and name not in there}
        # Including experiments of which only references are left.
        names = dict.fromkeys([*store.experiments, *map(experiment_of_group, copies)])
        self._growing = {own for own in names if is_experiment(own) and is_growing(store, own)}
        if not copies:
            self._growing = {*names, INTERNAL}
        self._records = list_records_among(store.place, self.paths)
        self.checks: dict[str, Check] = {METADATA: tuple}  # whose seals the store compares
        for name in copies:
            if name.partition("/")[0] not in self._gone:
                self.checks[f"{name}/{METADATA}"] = partial(self._check_metadata, name)
        for record in self._records:
            self._add(record.place, partial(self._check_record, record))
        notes: dict[Place, Callable[[bytes], object]] = {
            file: partial(_is_environment, file.stem)
            for file in store.internal(provenance.FOLDER).glob("*.json")
        }
        notes |= {store.internal(PROGRESS): is_progress_whole}
        notes |= {store.session_file: SessionRecord.parse}
        for file, is_whole in notes.items():
            self._add(file, partial(self._check_note, file, is_whole))
        self._groups: list[_Group] = []
        for name in filter(is_experiment, names):
            for own in (name, references_group_name(name)):
                check: Check = tuple
                if own not in self._gone:
                    self._groups.append(group := _Group(store, own, self._growing))
                    self.checks |= {path: partial(group.check, path) for path in group.ledger}
                    check = partial(self._check_ledger, group)
                self._add(ledger_file(store, own), check)

    def _add(self, file: Place, check: Check) -> None:
        self.checks[path_below(file, self._store.place)] = check

    def _finding(self, file: Place, text: str, remedy: str) -> Finding:
        return Finding(file, path_below(file, self._store.place), text, remedy)

    def _check_metadata(self, name: str) -> Iterator[Finding]:
        """Compare metadata with the root's copy of them, unless the experiment is growing."""
        place, _, array = name.rpartition("/")
        file, own = self._store.place / name, {}
        if experiment_of_group(name) in self._growing:
            return
        with contextlib.suppress(Damaged):
            own = read_zarr_metadata(file)
        if own != metadata_of_node(self._store.consolidated, name):
            yield Finding(file / METADATA, place, "metadata are gone or garbled", COPY, array=array)

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
        is_needed = not group.is_growing and any(chunk[1] in group.arrays for chunk in chunks)
        if group.lost or (is_needed and not group.ledger):
            file = ledger_file(self._store, group.name)
            yield Finding(file, group.name, group.lost or "is not there", STUDY)

    def find_without_reading(self, unfinished: bool) -> Iterator[Finding]:
        """Find missing and foreign files and, if `unfinished`, files that were not finished."""
        store = self._store
        for name in self._gone:
            yield self._finding(store.place / name, GONE, REMOVE)
        for place in store.half_made_directories if unfinished and not store.in_bucket else ():
            yield Finding(place, place.name, "a store whose creation was cut short", REMOVE)
        holder = lease_backend_of_store(store).current(file := store.lease_file)
        if holder is not None and holder.host == UNKNOWN and holder.user == UNKNOWN:
            yield Finding(file, file.name, "does not say who holds the store", REMOVE)
        arrays = {path: (own, array) for own in self._groups for path, array in own.arrays.items()}
        with_records = {(record.group, record.shard_row) for record in self._records}
        sign = path_below(store.half_made_sign, store.place)
        for path in sorted(self.paths - self.checks.keys()):
            file = store.place / path
            if path == sign or path.endswith(PARTIAL):
                if unfinished:
                    yield self._finding(file, "a file that was not finished", REMOVE)
            elif (chunk := CHUNK_KEY.fullmatch(path)) and chunk[1] in arrays:
                group, array = arrays[chunk[1]]
                if array.sharded and (group.name, array.index_of_file(file)[0]) in with_records:
                    self.checks[path] = partial(group.check, path)  # written by an interrupted fold
                elif group.ledger and not group.is_growing:
                    yield self._finding(file, "was never written", REMOVE)
            elif experiment_of_group(path) not in self._growing:
                yield self._finding(file, "does not belong to a store: move it away", FOREIGN)


def _is_environment(name: str, content: bytes) -> bool:
    return name == f"{provenance.provenance_number(json.loads(content))}"


class _Group:
    """A group of runs or references, with its ledger, of which `lost` says what is wrong.

    While the group is growing, its coordinates may differ from the ledger.
    """

    def __init__(self, store: Store, name: str, growing: set[str]) -> None:
        self._store, self.name, self.lost = store, name, ""
        self.is_growing = experiment_of_group(name) in growing
        self.arrays = {array.path: array for array in store.arrays_of_group(name).values()}
        self.ledger = Ledger()
        try:
            self.ledger = ledger_of_group(store, name) if self.arrays else self.ledger
        except Damaged as damage:
            self.lost = damage.text
        if self.is_growing:
            shards = tuple(f"{path}/" for path, array in self.arrays.items() if array.sharded)
            self.ledger = {
                path: own for path, own in self.ledger.items() if path.startswith(shards)
            }
        self._counts, status = map(self._readable_values, (SAMPLE_COUNT, STATUS))
        if len(status) != len(self._counts):  # references have none
            status = np.zeros_like(self._counts)
        times = (a.shape[1] for a in self.arrays.values() if a.dims[1:2] == ("time",))
        most = next(times, np.iinfo(np.int32).max)
        self._complete = (self._counts > 0) & (status == 0)
        is_known = np.isin(status, variables.STATUS_FLAGS["flag_values"])
        self._impossible = (self._counts < 0) | (self._counts > most)
        self._impossible |= (self._counts > 0) & ~is_known
        self._impossible |= (self._counts == most) & (status == variables.PENDING)

    def _readable_values(self, name: str) -> RowNumbers:
        """Values of an array over runs; 0 where they cannot be read."""
        if (array := self.arrays.get(f"{self.name}/{name}")) is None:
            return NO_ROWS
        values = np.zeros(array.shape, dtype=int)
        for i in range(array.grid[0]):
            with contextlib.suppress(Damaged):
                for chunk in array.read_chunks((i,)) or ():
                    if chunk.values is not None:
                        values[chunk.rows] = chunk.values
        return values

    def check(self, path: str) -> Iterator[Finding]:
        """Find the defects of a file of an array: of single chunks if possible, or of all of it."""
        if (array := self.arrays.get(path.rpartition("/")[0])) is None:
            return
        index, known = array.index_of_file(self._store.place / path), self.ledger.get(path)
        text, found = "", list[Finding]()
        try:
            if (data := array.read_file(index)) is None:
                raise Damaged("is not there")
            if known == ledger_entry(data) and not self._impossible[array.rows(index)].any():
                return
            chunks = array.decode_chunks(index, data)
        except Damaged as damage:
            text = damage.text
        else:
            is_written = any(chunk.damage for chunk in chunks) or is_as_written(known, data)
            for chunk in chunks:
                said, rows = chunk.damage, np.arange(chunk.rows.start, chunk.rows.stop)
                if not said:
                    said, rows = self._impossible_rows(array, chunk, is_written)
                if said:
                    found.append(self._finding(array, index, said, rows, chunk.index))
            # An impossible status is that of a sample count.
            counted = array.name == STATUS and self._impossible[array.rows(index)].any()
            text = "" if found or counted or is_written else OTHER
        if text:
            found = [self._finding(array, index, text, np.r_[array.rows(index)])]
        yield from found

    def _impossible_rows(
        self, array: ArrayFiles, chunk: Chunk, is_written: bool
    ) -> tuple[str, RowNumbers]:
        """Rows of a chunk with an impossible count, or complete without an id or without values."""
        if array.name == SAMPLE_COUNT:
            rows = chunk.rows.start + np.flatnonzero(self._impossible[chunk.rows])
            text = f"gives {len(rows):,} runs an impossible sample count or status"
            return text * bool(len(rows)), rows
        error = self.arrays.get(f"{array.path}_error")
        recorded = error is not None and "kind" in error.attributes
        is_id = array.name == "run_id"
        is_checked = recorded or is_id or array.name == variables.CPU_TIME
        if is_written or not is_checked or chunk.values is None:
            return "", NO_ROWS
        flat = chunk.values.reshape(len(chunk.values), -1)
        lost = (flat == "" if is_id else np.isnan(flat)).all(axis=1)
        rows = chunk.rows.start + np.flatnonzero(lost & self._complete[chunk.rows])
        runs = f"{len(rows):,} committed {'run' if len(rows) == 1 else 'runs'}"
        text = f"lacks the ids of {runs}" if is_id else f"is NaN in {runs}"
        return text * bool(len(rows)), rows

    def _finding(
        self, array: ArrayFiles, index: Index, text: str, rows: RowNumbers, chunk: Index = ()
    ) -> Finding:
        place, remedy = array.path.rpartition("/")[0], RUN if array.sharded else STUDY
        is_of_runs = (
            array.dims[:1] == ("run",) and place == self.name
        )  # checkpoints of ends are not
        rows = rows[rows < len(self._counts)] if is_of_runs else NO_ROWS
        committed = rows[self._counts[rows] > 0]
        if array.sharded and array.name != SAMPLE_COUNT:
            rows = committed
        file, runs = array.file(index), len(committed)
        return Finding(file, place, text, remedy, array.name, chunk, rows, runs)


def experiment_of_group(path: str) -> str:
    """Name of the experiment to which a group or file belongs."""
    inner = path.removeprefix(references_group_name(""))
    inner = inner.removeprefix(end_checkpoints_group_name(references_group_name("")))
    return inner.removeprefix(end_checkpoints_group_name("")).partition("/")[0]
