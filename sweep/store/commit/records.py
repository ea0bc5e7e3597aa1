"""Records: what a task commits, each one immutable ``.npz`` file, which a fold brings into arrays.

Writing a record changes no other one: a worker that was suspended, and resumes after another one
has done its task, writes a record that is ignored. A record of finished rows counts if it is of the
session that the store names; a checkpoint of any session may be resumed from, if its identity is
the same. The name says how many rows a file has, between which two, and which samples; in it are
its rows, the values of each array in these rows, and of a checkpoint the integrator's state. Behind
the last byte that NumPy reads there is a checksum of all before.

A checkpoint is a record of runs on their way, between two samples too, with the integrators' state.
The n-th, from 1, of some rows in an attempt has the samples from those of checkpoint n & (n - 1)
on, as in a Fenwick tree; number 0 is where the attempt begins. So there are as many files as n has
binary ones, and each sample is written log2(n) times at most.
"""

import contextlib
import functools
import io
import os
import re
import secrets
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from sweep.errors import Damaged
from sweep.store.backends.places import (
    ObjectPlace,
    Place,
    WriteCheck,
    files_below,
)
from sweep.store.commit.shards import Draft
from sweep.store.files import (
    INTERNAL,
    RowNumbers,
    RowsOfRecord,
    checked_bytes,
    unreadable,
    with_checksum,
)

RECORD, CHECKPOINT = "record", "checkpoint"
FOLDER = "records"
NAME, ROWS, IDENTITY, VALUES, STATE = "name", "rows", "identity", "values", "state"  # in a file
SYNCED = 16  # files of a tree that are synced at once
PARTIAL = ".partial"
PARTS = 10**12  # of a sample interval
Ledger = dict[str, tuple[int, int]]  # by path below the store: bytes, and their CRC-32


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
            r"\.(record|checkpoint)\.npz"
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
        return f"{runs}_{first}-{last}{beyond}_{failed}_{cpu}_{session}_{token}.{kind}.npz"

    @property
    def reach(self) -> tuple[int, int]:
        """How far its rows are, to compare with others: the samples, and the part of the next."""
        return self.last, self.part


class Record:
    """A record, of which only what is asked for is read.

    Parameters
    ----------
    place : Path or ObjectPlace
    name : RecordName
    """

    def __init__(self, place: Place, name: RecordName) -> None:
        self.place, self.name = place, name
        self._columns: dict[str, np.ndarray] | None = None

    def __reduce__(self) -> tuple[type["Record"], tuple[Place, RecordName]]:
        return Record, (self.place, self.name)  # without what was read of it

    @property
    def group(self) -> str:
        """Name of the group that its rows are of."""
        return str(self.place.parent.parent).rpartition(f"/{INTERNAL}/{FOLDER}/")[2]

    @property
    def shard_row(self) -> int:
        """The row of shards that its rows are in."""
        return int(self.place.parent.name)

    @functools.cached_property
    def rows(self) -> RowNumbers:
        """Its rows, an ascending ndarray of int."""
        if self.name.count == self.name.stop - self.name.start:
            return np.arange(self.name.start, self.name.stop)
        return self._read_one(ROWS)

    @property
    def identity(self) -> str:
        """Hash of what its samples depend on besides the runs."""
        return str(self._read_one(IDENTITY))

    def column(self, name: str) -> np.ndarray | None:
        """The values of an array in its rows, of those over time from its first sample on.

        None if the record lacks the array.
        """
        key = f"{VALUES}/{name}"
        return self._read(key).get(key)

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The integrator's state in a checkpoint, by name."""
        found = self._read().items()
        return {key[len(STATE) + 1 :]: own for key, own in found if key.startswith(f"{STATE}/")}

    def load(self) -> int:
        """Keep all that is in it in memory; the bytes that it takes.

        Raises
        ------
        Damaged
            If the record is not what was written.
        """
        self._columns = self._read()
        return sum(column.nbytes for column in self._columns.values())

    def check(self) -> None:
        """Raise `Damaged` unless the record is what was written."""
        self._read()

    def remove(self) -> None:
        """Remove the record."""
        self.place.unlink(missing_ok=True)

    def _read_one(self, name: str) -> np.ndarray:
        if name not in (found := self._read(name)):
            raise Damaged("fails its checksum", str(self.place))
        return found[name]

    def _read(self, only: str | None = None) -> dict[str, np.ndarray]:
        """All that is in it, or one of these; only of all the file's checksum is compared."""
        if self._columns is not None:
            return self._columns
        try:
            with self._open(only is None) as file, np.load(file, allow_pickle=False) as found:
                read = {name: found[name] for name in found.files if only in (None, name)}
            if only is None and str(read[NAME]) != str(self.name):
                raise Damaged("is another record: it fails its checksum")
            return read
        except FileNotFoundError:
            raise
        except OSError as error:
            raise unreadable(self.place, error) from None
        except Damaged as damage:
            raise Damaged(damage.text, str(self.place)) from None
        except Exception:  # whatever zipfile and NumPy raise of bytes that are others
            raise Damaged("fails its checksum", str(self.place)) from None

    def _open(self, checked: bool) -> BinaryIO:
        if isinstance(self.place, Path) and not checked:
            return self.place.open("rb")
        data = self.place.read_bytes()
        return io.BytesIO(checked_bytes(data) if checked else data)


# --- writing ---------------------------------------------------------------------------------


def write_record(
    folder: Place,
    name: RecordName,
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
    rows : ndarray of int
        Ascending.
    columns : dict of str to ndarray
        Values of arrays, by their names; of those over time the samples from ``name.first`` on.
    identity : str
        Hash of what the samples depend on besides the runs, see
        `sweep.store.checkpoints.checkpoint_identity`. Stored in each record, used of checkpoints.
    state : dict of str to ndarray, optional
        Of a checkpoint: the integrator's state, by name.

    Returns
    -------
    Record
    """
    parts = {NAME: np.array(str(name)), ROWS: rows, IDENTITY: np.array(identity)}
    parts |= {f"{VALUES}/{key}": values for key, values in columns.items()}
    parts |= {f"{STATE}/{key}": values for key, values in (state or {}).items()}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **parts)
    put_durably(folder / str(name), with_checksum(file.getvalue()))
    return Record(folder / str(name), name)


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
            change_object(place, lambda old: data, check)
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


def change_object(
    place: ObjectPlace,
    change: Callable[[bytes | None], bytes | None],
    check: WriteCheck,
    is_new: bool = False,
) -> bytes | None:
    """Put what an object's content becomes where it still is what it was before the check.

    Parameters
    ----------
    place : ObjectPlace
    change : callable
        Gives the new content for the old one, which is None if there is none; None to put nothing.
    check : callable
        As in `put_durably`.
    is_new : bool
        Whether there is none, as far as is known.

    Returns
    -------
    bytes or None
        The new content.
    """
    # A write that was cut short may have put it, without the ledger that says so.
    if is_new and ((data := change(None)) is None or place.put_if(data)):
        return data
    while True:
        old, tag = None, None
        with contextlib.suppress(FileNotFoundError):
            old, tag = place.read_tagged()
        if (data := change(old)) in (None, old):
            return data
        check()
        if place.put_if(data, tag):
            return data
        check()  # changed meanwhile by the next lease holder, or late by one before: then again


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


def entry_of(data: bytes) -> tuple[int, int]:
    """What a ledger says of a file with these bytes."""
    return len(data), zlib.crc32(data)  # not as in chunks: of one with its checksum, that is fixed


# --- what is there ---------------------------------------------------------------------------


def records_folder(root: Place, group: str = "", shard_row: int | None = None) -> Place:
    """Where the records of a store are, of a group of it, or of a row of the shards of a group."""
    names = (group, "" if shard_row is None else str(shard_row))
    return root.joinpath(INTERNAL, FOLDER, *filter(None, names))


def list_records(
    folder: Place,
    kind: str | None = None,
    session: str | None = None,
    paths: Iterable[str] | None = None,
) -> list[Record]:
    """The records below a folder, sorted by name: of those of a row the first counts.

    That is not the order in which they were written, on which nothing depends: results are equal.

    Parameters
    ----------
    folder : Path or ObjectPlace
        As of `records_folder`.
    kind : {"record", "checkpoint"}, optional
    session : str, optional
        Only records of this kind, and of this session, where they are given.
    paths : iterable of str, optional
        The files below the folder, relative to it; they are listed unless given.
    """
    found = []
    for path in files_below(folder) if paths is None else paths:
        name = RecordName.parse(path.rpartition("/")[2])
        if name and kind in (None, name.kind) and session in (None, name.session):
            found.append(Record(folder / path, name))
    return sorted(found, key=lambda record: record.name)


def list_records_among(root: Place, paths: Iterable[str]) -> list[Record]:
    """The records of a store among its files, whose paths are relative to it."""
    top = f"{INTERNAL}/{FOLDER}/"
    mine = (path.removeprefix(top) for path in paths if path.startswith(top))
    return list_records(records_folder(root), paths=mine)


@dataclass(frozen=True)
class Unfolded:
    """The records of a group that are not folded yet, to be read as if they were.

    Parameters
    ----------
    records : dict of int to list of Record
        By the row of shards.
    """

    records: dict[int, list[Record]]

    def read(self, name: str, rows: RowNumbers, shard_rows: int) -> list[RowsOfRecord]:
        """What records have of some rows of an array; of several of a row the last one counts.

        Those that are gone meanwhile were folded: it is in the array, which is to be read after.
        """
        found: list[RowsOfRecord] = []
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        for shard in np.unique(ascending // shard_rows).tolist():
            for record in reversed(self.records.get(shard, [])):
                low, high = np.searchsorted(ascending, [record.name.start, record.name.stop])
                near = order[low:high]
                with contextlib.suppress(FileNotFoundError):
                    values = record.column(name) if len(near) else None
                    if values is not None:
                        at = np.searchsorted(record.rows, rows[near])
                        there = record.rows[at] == rows[near]
                        found.append((near[there], values[at[there]], record.name.first))
        return found


def unfolded_by_group(records: Iterable[Record], session: str) -> dict[str, Unfolded]:
    """What is not folded yet of each group: the records of a session that have something of it.

    Parameters
    ----------
    records : iterable of Record
        As of `list_records`.
    session : str
        Whose records count.

    Returns
    -------
    dict of str to Unfolded
    """
    found: dict[str, dict[int, list[Record]]] = {}
    for record in records:
        if record.name.kind == RECORD and record.name.session == session:
            rows = found.setdefault(record.group, {})
            rows.setdefault(record.shard_row, []).append(record)
    return {group: Unfolded(rows) for group, rows in found.items()}


def put_records(name: str, records: Sequence[Record], draft: Draft) -> None:
    """Put what records have of an array into a shard of it; of several of a row the first counts.

    Parameters
    ----------
    name : str
        Of the array.
    records : list of Record
    draft : sweep.store.commit.shards.Draft
    """
    for record in reversed(records):
        if (values := record.column(name)) is not None:
            draft.put(record.rows, values, record.name.first)
