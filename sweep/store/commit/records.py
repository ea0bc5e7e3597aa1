"""Records: what a task commits, each one immutable object, and a fold brings into the arrays.

Writing a record changes no other one: a worker that was suspended, and resumes after another one
has done its task, writes a record that is ignored. A record of finished rows counts if it is of the
session that the store names; a checkpoint of any session may be resumed from, if its identity is
the same. The name says how many rows a file has, between which two, and which samples; the header
says which rows they are. Behind it come variables cut along the chunks of their arrays and encoded
in the same way, so that a fold copies whole chunks without decoding them.

A checkpoint is a record of runs on their way, between two samples too, with the integrators' state.
The n-th, from 1, of some rows in an attempt has the samples from those of checkpoint n & (n - 1)
on, as in a Fenwick tree; number 0 is where the attempt begins. So there are as many files as n has
binary ones, and each sample is written log2(n) times at most.
"""

import functools
import itertools
import json
import os
import re
import secrets
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sweep.errors import Damaged
from sweep.store.backends.places import (
    ObjectPlace,
    Place,
    WriteCheck,
    files_below,
    place_is_file,
    read_bytes_or_none,
    read_range_of_place,
)
from sweep.store.commit.shards import Draft
from sweep.store.files import (
    INTERNAL,
    ArrayFiles,
    Index,
    RowNumbers,
    checked_bytes,
    encode_chunk,
    unreadable,
    with_checksum,
)

RECORD, CHECKPOINT = "record", "checkpoint"
FOLDER = "records"
MAGIC = b"geosweep record 1\n"
MOST_HEADER_END = 2**31  # bytes; a header that says that it ends later is none
KEPT = 2**28  # bytes of merged shards that an `Unfolded` caches
SYNCED = 16  # files of a tree that are synced at once
AT_FIRST = 2**15  # bytes that are read of a record, to find its header
PARTIAL = ".partial"
PARTS = 10**12  # of a sample interval


@dataclass(frozen=True, order=True)
class RecordName:
    """What the name of a record says.

    Parameters
    ----------
    start, stop : int
        The rows lie in this half-open range.
    count : int
        Number of rows; fewer than ``stop - start`` if there are gaps.
    first, last : int
        Half-open range of the samples that it holds of each row.
    part : int
        Of a checkpoint: what is done of the interval after these samples, in `PARTS` of it.
    failed : int
        Number of the runs that failed; 0 of a checkpoint.
    milliseconds : int
        CPU time of the runs, so far.
    session : str
        Name of the session.
    token : str
        Token of the attempt at the task, see `sweep.store.lease.sessions.Attempt`.
    kind : {"record", "checkpoint"}
    """

    start: int
    stop: int
    count: int
    first: int
    last: int
    part: int
    failed: int
    milliseconds: int
    session: str
    token: str
    kind: str

    @classmethod
    def parse(cls, text: str) -> "RecordName | None":
        """Parse the name of a file; None if it is not that of a record."""
        pattern = (
            r"(\d+)-(\d+)_(\d+)_(\d+)-(\d+)(?:-(\d+))?_(\d+)_(\d+)_(\w+)_(\w+)"
            r"\.(record|checkpoint)"
        )
        found = re.fullmatch(pattern, text)
        if found is None:
            return None
        start, stop, count, first, last, part, failed, cpu = map(int, found.groups("0")[:8])
        session, token, kind = found.groups()[8:]
        return cls(start, stop, count, first, last, part, failed, cpu, session, token, kind)

    def __str__(self) -> str:
        start, stop, count, first, last, part, failed, cpu, session, token, kind = astuple(self)
        runs, beyond = f"{start:09d}-{stop:09d}_{count}", f"-{part}" if part else ""
        return f"{runs}_{first}-{last}{beyond}_{failed}_{cpu}_{session}_{token}.{kind}"

    @property
    def reach(self) -> tuple[int, int]:
        """How far its rows are, to compare with others: the samples, and the part of the next."""
        return self.last, self.part


@dataclass(frozen=True)
class Piece:
    """A part of a variable in a record, that lies in one chunk of its array.

    Parameters
    ----------
    at : tuple of int
        Index of the chunk, along all of the array.
    rows : tuple of int
        Half-open range of positions in `Record.rows`, which are not numbers of rows.
    spans : tuple of tuple of int
        Half-open range along each of the array's other dimensions.
    whole : bool
        Whether it is all of the chunk, and padded as that is.
    offset, size : int
        Of its bytes, from the end of the header on.
    """

    at: Index
    rows: tuple[int, int]
    spans: tuple[tuple[int, int], ...]
    whole: bool
    offset: int
    size: int


class Record:
    """A record, of which only what is asked for is read.

    Parameters
    ----------
    place : Path or ObjectPlace
    name : RecordName
    """

    def __init__(self, place: Place, name: RecordName) -> None:
        self.place, self.name = place, name
        self._data: bytes | None = None

    def __reduce__(self) -> tuple[type["Record"], tuple[Place, RecordName]]:
        return Record, (self.place, self.name)  # without what was read of it

    @property
    def header(self) -> dict[str, Any]:
        """The header, as a dict; `Damaged` if it cannot be read."""
        return self._header_and_end[0]

    @functools.cached_property
    def _header_and_end(self) -> tuple[dict[str, Any], int]:
        """The header, and where it ends."""
        begin = len(MAGIC) + 8
        data = self._read(0, AT_FIRST)
        end = begin + int.from_bytes(data[len(MAGIC) : begin], "little")
        if data[: len(MAGIC)] != MAGIC or not begin < end < MOST_HEADER_END:
            raise Damaged("is no record", str(self.place))
        if len(data) < end:
            data = self._read(0, end)
        try:
            return json.loads(self._checked(data[begin:end])), end
        except ValueError:
            raise Damaged("has a header that is no JSON", str(self.place)) from None

    @functools.cached_property
    def rows(self) -> RowNumbers:
        """Its rows, an ascending ndarray of int."""
        return np.concatenate([np.arange(a, b) for a, b in self.header["rows"]])

    def pieces(self, variable: str) -> list[Piece]:
        """The pieces of a variable, each a `Piece`; empty if the record lacks the variable."""
        found = self.header["variables"].get(variable, ())
        return [
            Piece(tuple(at), tuple(rows), tuple(map(tuple, spans)), whole, offset, size)
            for at, rows, spans, whole, offset, size in found
        ]

    def read_bytes(self, piece: Piece) -> bytes:
        """The encoded bytes of a piece; `Damaged` if they are not those that were written."""
        data = self._read_behind_header(piece.offset, piece.size)
        self._checked(data)
        return data

    def read_values(self, piece: Piece, array: ArrayFiles) -> np.ndarray:
        """The values of a piece of an `ArrayFiles`."""
        shape = piece.rows[1] - piece.rows[0], *(b - a for a, b in piece.spans)
        if not piece.whole:
            return array.decode_chunk(self.read_bytes(piece), shape)
        values = array.decode_chunk(self.read_bytes(piece))
        return values[tuple(slice(n) for n in shape)]

    def read_state(self, name: str) -> np.ndarray:
        """An array of the integrator's state in a checkpoint, by its name."""
        dtype, shape, offset, size = self.header["state"][name]
        data = self._checked(self._read_behind_header(offset, size))
        return np.frombuffer(data, dtype).reshape(shape)

    def check(self) -> None:
        """Raise `Damaged` unless every checksum of the record holds."""
        for variable in self.header["variables"]:
            for piece in self.pieces(variable):
                self.read_bytes(piece)
        for name in self.header["state"]:
            self.read_state(name)

    def remove(self) -> None:
        """Remove the record."""
        self.place.unlink(missing_ok=True)

    def load(self) -> "Record":
        """Read the whole record into memory; returns the record itself."""
        self._data = self._read(0)
        return self

    def _checked(self, data: bytes) -> bytes:
        """The bytes before a checksum; `Damaged`, with the record's place, if it fails."""
        try:
            return checked_bytes(data)
        except Damaged as damage:
            raise Damaged(damage.text, str(self.place)) from None

    def _read_behind_header(self, offset: int, size: int) -> bytes:
        return self._read(self._header_and_end[1] + offset, size)

    def _read(self, offset: int, size: int | None = None) -> bytes:
        """A part of the record's bytes; all of them without a size."""
        if self._data is not None:
            return self._data[offset : None if size is None else offset + size]
        try:
            if size is None:
                return self.place.read_bytes()
            return read_range_of_place(self.place, offset, size)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise unreadable(self.place, error) from None


RecordsByGroup = dict[str, dict[int, list[Record]]]  # and by the row of shards


# --- writing ---------------------------------------------------------------------------------


def write_record(
    folder: Place,
    name: RecordName,
    arrays: Mapping[str, ArrayFiles],
    rows: RowNumbers,
    columns: Mapping[str, np.ndarray],
    identity: str = "",
    state: Mapping[str, np.ndarray] | None = None,
) -> Record:
    """Write a record atomically.

    Parameters
    ----------
    folder : Path or ObjectPlace
    name : RecordName
    arrays : dict of str to sweep.store.files.ArrayFiles
        In whose chunks it is cut.
    rows : ndarray of int
        Ascending.
    columns : dict of str to ndarray
        Of arrays, by their names; of those over time the samples from ``name.first`` on.
    identity : str
        Hash of what the samples depend on besides the runs, see
        `sweep.store.checkpoints.checkpoint_identity`. Stored in each record, used of checkpoints.
    state : dict of str to ndarray, optional
        Of a checkpoint: the integrator's state, by name.

    Returns
    -------
    Record
    """
    blobs, variables = [], {}
    offset = 0

    def placed(data: bytes) -> tuple[int, int]:
        nonlocal offset
        blobs.append(data)
        offset += len(data)
        return offset - len(data), len(data)

    for key, values in columns.items():
        variables[key] = [
            (at, within, spans, whole, *placed(encode_chunk(block)))
            for at, within, spans, whole, block in _cut_along_chunks(
                arrays[key], rows, values, name.first
            )
        ]
    states = {
        key: (values.dtype.str, values.shape, *placed(with_checksum(values.tobytes())))
        for key, values in (state or {}).items()
    }
    breaks = np.flatnonzero(np.diff(rows) > 1) + 1
    spans = [(int(part[0]), int(part[-1]) + 1) for part in np.split(rows, breaks)]
    header = {"identity": identity, "rows": spans, "variables": variables, "state": states}
    body = with_checksum(json.dumps(header, separators=(",", ":")).encode())
    place = folder / str(name)
    put_durably(place, b"".join([MAGIC, len(body).to_bytes(8, "little"), body, *blobs]))
    return Record(place, name)


def _cut_along_chunks(
    array: ArrayFiles, rows: RowNumbers, values: np.ndarray, first: int
) -> Iterator[tuple[Index, tuple[int, int], list[tuple[int, int]], bool, np.ndarray]]:
    """Cut the values of rows along the chunks of their array; yields the fields of `Piece`."""
    begin = [first if dim == "time" else 0 for dim in array.dims[1:]]
    end = [a + n for a, n in zip(begin, values.shape[1:], strict=True)]
    sizes, extent = array.inner[1:], array.shape[1:]
    along = [range(a // c, -(-b // c)) for a, b, c in zip(begin, end, sizes, strict=True)]
    chunk_of = rows // array.inner[0]
    for i in np.unique(chunk_of).tolist():
        low, high = np.searchsorted(chunk_of, [i, i + 1]).tolist()
        full = high - low == min(array.inner[0], array.shape[0] - i * array.inner[0])
        for rest in itertools.product(*along):
            spans = [
                (max(a, k * c), min(b, k * c + c))
                for a, b, k, c in zip(begin, end, rest, sizes, strict=True)
            ]
            block = values[(slice(low, high), *_shifted_slices(spans, begin))]
            block = block.astype(array.dtype, copy=False)
            whole = full and all(
                span == (k * c, min(k * c + c, n))
                for span, k, c, n in zip(spans, rest, sizes, extent, strict=True)
            )
            if whole and block.shape != array.inner:
                padded = np.full(array.inner, array.fill, array.dtype)
                padded[tuple(map(slice, block.shape))] = block
                block = padded
            yield (i, *rest), (low, high), spans, whole, block


def _shifted_slices(spans: Sequence[tuple[int, int]], begin: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(a - s, b - s) for (a, b), s in zip(spans, begin, strict=True))


def put_durably(
    place: Place, data: bytes, check: WriteCheck | None = None, syncs_directory: bool = True
) -> None:
    """Write a file atomically and durably: a power failure leaves all of it, or none.

    A process that passed the check, was suspended, and has lost the lease when it wakes, cannot
    complete the write where it would matter. In a directory the next lease holder first removes
    unfinished files (`sweep.store.commit.fold.remove_unfinished`), and the rename fails. In a
    bucket an object is put only if it is still what it was before the check: over one that the
    next holder has put none is.

    Parameters
    ----------
    place : Path or ObjectPlace
    data : bytes
    check : callable, optional
        Called before the last step, by which the file appears; it may raise. Without it an object
        is put whatever is there.
    syncs_directory : bool
        Whether the write is durable as soon as this returns; otherwise only after
        `sync_directories`, and until then a power failure may bring back the old file.
    """
    if isinstance(place, ObjectPlace):
        if check is None:
            place.write_bytes(data)
        else:
            _put_object_if_unchanged(place, data, check)
        return
    check = check or (lambda: None)
    partial = place.with_name(f"{secrets.token_hex(8)}{PARTIAL}")
    try:
        with _open_new_file(partial) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        check()
        try:
            partial.rename(place)
        except FileNotFoundError:  # the next lease holder has removed it
            check()
            raise
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if syncs_directory:
        sync_directories([place.parent])


def _put_object_if_unchanged(place: ObjectPlace, data: bytes, check: WriteCheck) -> None:
    """Put an object where it is still what it was before the check; otherwise check again."""
    while True:
        try:
            tag = place.stat().st_ino
        except FileNotFoundError:
            tag = None
        check()
        if place.put_if(data, tag):
            return


def sync_directories(directories: Iterable[Path]) -> None:
    """Make renames in directories durable: fsync each directory."""
    for directory in directories:
        _sync_file(directory)


def sync_tree(directory: Path) -> None:
    """Make a directory durable, and all that is below: fsync each file and each directory."""
    every = [directory, *directory.rglob("*")]
    with ThreadPoolExecutor(SYNCED) as pool:  # one flush of the disk serves several
        deque(pool.map(_sync_file, every), 0)


def _sync_file(file: Path) -> None:
    opened = os.open(file, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _open_new_file(path: Path) -> BinaryIO:
    try:
        return open(path, "wb")
    except FileNotFoundError:  # mostly its directory is there, and to ask takes as long
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "wb")


# --- what is there ---------------------------------------------------------------------------


def records_folder(root: Place, group: str, shard_row: int | None = None) -> Place:
    """Where the records of a group of a store are, or those of a row of its shards."""
    names = (group,) if shard_row is None else (group, str(shard_row))
    return root.joinpath(INTERNAL, FOLDER, *names)


def list_records(
    folder: Place, kind: str | None = None, session: str | None = None
) -> list[Record]:
    """The records in a folder, sorted by name: of those of a row the first counts.

    That is not the order in which they were written, on which nothing depends: results are equal.

    Parameters
    ----------
    folder : Path or ObjectPlace
        Of a row of shards.
    kind : {"record", "checkpoint"}, optional
    session : str, optional
        Only records of this kind, and of this session, where they are given.
    """
    found = []
    try:
        for place in folder.iterdir():
            name = RecordName.parse(place.name)
            if name and kind in (None, name.kind) and session in (None, name.session):
                found.append(Record(place, name))
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda record: record.name)


def records_by_group(root: Place, paths: set[str] | None = None, group: str = "") -> RecordsByGroup:
    """All records of a store, or of one of its groups, from one listing.

    Parameters
    ----------
    root : Path or ObjectPlace
        Of the store.
    paths : set of str, optional
        Files of the store, relative to it; they are listed unless given.
    group : str
        All unless given.

    Returns
    -------
    dict of str to dict of int to list of Record
        By group and row of shards, in the order of their names.
    """
    top = "/".join(filter(None, (INTERNAL, FOLDER, group)))
    if paths is None:
        paths = {f"{top}/{path}" for path in files_below(root / top)}
    found: RecordsByGroup = {}
    skipped = len(f"{INTERNAL}/{FOLDER}/")
    for path in paths:
        folder, _, text = path.rpartition("/")
        if f"{folder}/".startswith(f"{top}/") and (name := RecordName.parse(text)):
            name_of_group, _, row = folder[skipped:].rpartition("/")
            record = Record(root / path, name)
            found.setdefault(name_of_group, {}).setdefault(int(row), []).append(record)
    for rows in found.values():
        for records in rows.values():
            records.sort(key=lambda record: record.name)
    return found


class Unfolded:
    """The records of a group that are not folded yet, to be read as if they were.

    Parameters
    ----------
    records : dict of int to list of Record
        By the row of shards.
    """

    def __init__(self, records: dict[int, list[Record]]) -> None:
        self.records = records
        # The last ones as they would be, by the array's directory and the index.
        self._shards: dict[tuple[Place, Index], bytes | None] = {}

    def __reduce__(self) -> tuple[type["Unfolded"], tuple[dict[int, list[Record]]]]:
        return Unfolded, (self.records,)

    @classmethod
    def of(cls, root: Place, group: str, session: str) -> "Unfolded | None":
        """The unfolded records of a group, of a session; None if there are none."""
        found = records_by_group(root, group=group) if session else {}
        return unfolded_by_group(found, session).get(group)

    def leave_out(self, places: Collection[Place]) -> None:
        """Leave records out, by their places."""
        for row, records in self.records.items():
            self.records[row] = [record for record in records if record.place not in places]

    def shard_with(self, array: ArrayFiles, index: Index, old: bytes | None) -> bytes | None:
        """The bytes of a shard as a fold would write it; None if nothing of it is there.

        Records that are gone meanwhile were folded: then the shard is read once more.
        """
        while records := self.records.get(index[0]) if array.sharded else None:
            key = array.directory, index
            if key in self._shards:
                return self._shards[key]
            try:
                found = shard_with_records(array, index, old, records)
            except FileNotFoundError:
                self.records[index[0]] = [r for r in records if place_is_file(r.place)]
                old = read_bytes_or_none(array.file(index))
                continue
            self._keep(key, found)
            return found
        return old

    def _keep(self, key: tuple[Place, Index], data: bytes | None) -> None:
        """Keep a shard for the next reads of its chunks; of many the last ones."""
        self._shards[key] = data
        while len(self._shards) > 1 and sum(map(len, filter(None, self._shards.values()))) > KEPT:
            self._shards.pop(next(iter(self._shards)))


def unfolded_by_group(records: RecordsByGroup, session: str) -> dict[str, Unfolded]:
    """What is not folded yet of each group, as far as records of a session have something of it.

    Parameters
    ----------
    records : dict of str to dict of int to list of Record
        As of `records_by_group`.
    session : str
        Whose records count.

    Returns
    -------
    dict of str to Unfolded
    """
    found: RecordsByGroup = {}
    for group, rows in records.items():
        for row, listed in rows.items():
            mine = [r for r in listed if r.name.kind == RECORD and r.name.session == session]
            if mine:
                found.setdefault(group, {})[row] = mine
    return {group: Unfolded(rows) for group, rows in found.items()}


def shard_with_records(
    array: ArrayFiles, index: Index, old: bytes | None, records: Sequence[Record]
) -> bytes | None:
    """A shard with what records have of it.

    It is the old one, grown at its end: a reader who has that one's index finds every chunk where
    it was. Of several records of a row the first one counts.

    Parameters
    ----------
    array : sweep.store.files.ArrayFiles
    index : tuple of int
    old : bytes or None
        None if there is no such shard yet.
    records : list of Record

    Returns
    -------
    bytes or None
        None if there is nothing of it.
    """
    try:
        return _grown_by_records(array, index, Draft(array, old), records)
    except Damaged as damage:
        raise array.damage(index, damage) from None


def _grown_by_records(
    array: ArrayFiles, index: Index, draft: Draft, records: Sequence[Record]
) -> bytes | None:
    for record in reversed(records):
        for piece in record.pieces(array.name):
            at = tuple(c - i * n for c, i, n in zip(piece.at, index, array.inner_grid, strict=True))
            if any(not 0 <= k < n for k, n in zip(at, array.inner_grid, strict=True)):
                continue
            if piece.whole:
                draft.put(at, record.read_bytes(piece))
                continue
            corner = [c * n for c, n in zip(piece.at, array.inner, strict=True)]
            rows = record.rows[slice(*piece.rows)] - corner[0]
            spans = _shifted_slices(piece.spans, corner[1:])
            where: tuple[RowNumbers | slice, ...] = (rows, *spans)
            draft.values(at)[where] = record.read_values(piece, array)
    return draft.data()
