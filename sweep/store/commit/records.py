"""Records: immutable ``.npz`` files that tasks commit, and that are folded into arrays.

Writing a record changes no other record: a worker that was suspended, and wakes after another one
has done its task, writes a record that is ignored. A record of finished rows counts if it belongs
to the session that the store names. A task may resume from a checkpoint of any session, if its
identity is the same. The name of a file says how many rows it holds, their range, and the range of
samples. The file holds the row numbers, the values of each array in these rows and, in a
checkpoint, the state of the integrator. It ends with a checksum, behind the bytes that NumPy reads.

A checkpoint is a record of unfinished runs, which may be between two samples. Checkpoint n of an
attempt (n = 1, 2, …) holds the samples after those of checkpoint n & (n - 1), as in a Fenwick tree;
number 0 is the beginning of the attempt. There are thus as many files as n has ones in binary, and
each sample is written at most log2(n) times.
"""

import contextlib
import functools
import io
import math
import os
import re
import secrets
import struct
import zipfile
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
    check_bytes,
    checksum_of_bytes,
    unreadable_file_error,
)

RECORD, CHECKPOINT = "record", "checkpoint"
FOLDER = "records"
NAME, ROWS, IDENTITY, VALUES, STATE = "name", "rows", "identity", "values", "state"  # keys
SYNCED = 16  # files of a tree that are synced at once
PARTIAL = ".partial"
PARTS = 10**12  # units into which a sample interval is divided
Ledger = dict[str, tuple[int, int]]  # size and CRC-32 of files, by their paths below the store


@dataclass(frozen=True, order=True)
class RecordName:
    """The contents of a record's file name.

    Parameters
    ----------
    start, stop : int
        Half-open range that contains the rows.
    count : int
        Number of rows; fewer than ``stop - start`` if there are gaps.
    first, last : int
        Half-open range of the samples in the record.
    part : int
        In a checkpoint, the completed part of the sample interval after `last`, in units of
        1 / `PARTS`.
    failed : int
        Number of failed runs; 0 in a checkpoint.
    milliseconds : int
        CPU time of the runs so far.
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
        """Parse the name of a file; None if the file is not a record."""
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
        """How far the runs are computed, as a sort key: samples, and part of the next interval."""
        return self.last, self.part


class Record:
    """A record, which is read lazily.

    Parameters
    ----------
    place : Path or ObjectPlace
    name : RecordName
    """

    def __init__(self, place: Place, name: RecordName) -> None:
        self.place, self.name = place, name
        self._columns: dict[str, np.ndarray] | None = None

    def __reduce__(self) -> tuple[type["Record"], tuple[Place, RecordName]]:
        return Record, (self.place, self.name)  # without cached content

    @property
    def group(self) -> str:
        """Name of the group that contains the rows."""
        return str(self.place.parent.parent).rpartition(f"/{INTERNAL}/{FOLDER}/")[2]

    @property
    def shard_row(self) -> int:
        """Number of the row of shards that contains the rows."""
        return int(self.place.parent.name)

    @functools.cached_property
    def rows(self) -> RowNumbers:
        """The row numbers, ascending."""
        if self.name.count == self.name.stop - self.name.start:
            return np.arange(self.name.start, self.name.stop)
        return self._read_one(ROWS)

    @property
    def identity(self) -> str:
        """Hash of what the samples depend on besides the runs."""
        return str(self._read_one(IDENTITY))

    def column(self, name: str) -> np.ndarray | None:
        """The values of an array in the rows of the record; None if it lacks the array.

        An array over time begins with the record's first sample.
        """
        key = f"{VALUES}/{name}"
        return self._read(key).get(key)

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The integrator's state in a checkpoint, by name."""
        found = self._read().items()
        return {key[len(STATE) + 1 :]: own for key, own in found if key.startswith(f"{STATE}/")}

    def load(self) -> int:
        """Load the whole record into memory, and return its size in bytes.

        Raises
        ------
        Damaged
            If the record fails its checksum.
        """
        self._columns = self._read()
        return sum(column.nbytes for column in self._columns.values())

    def check(self) -> None:
        """Raise `Damaged` if the record fails its checksum."""
        self._read()

    def remove(self) -> None:
        """Remove the record."""
        self.place.unlink(missing_ok=True)

    def _read_one(self, name: str) -> np.ndarray:
        if name not in (found := self._read(name)):
            raise Damaged("fails its checksum", str(self.place))
        return found[name]

    def _read(self, only: str | None = None) -> dict[str, np.ndarray]:
        """Read all arrays of the file and compare its checksum, or read `only` one array."""
        if self._columns is not None:
            return self._columns
        try:
            if only is not None:
                with self._open() as file, np.load(file, allow_pickle=False) as found:
                    return {name: found[name] for name in found.files if name == only}
            check_bytes(data := self.place.read_bytes())
            if str((read := _arrays_in(data))[NAME]) != str(self.name):
                raise Damaged("is another record: it fails its checksum")
            return read
        except FileNotFoundError:
            raise
        except OSError as error:
            raise unreadable_file_error(self.place, error) from None
        except Damaged as damage:
            raise Damaged(damage.text, str(self.place)) from None
        except Exception:  # damaged bytes can make zipfile and NumPy raise anything
            raise Damaged("fails its checksum", str(self.place)) from None

    def _open(self) -> BinaryIO:
        if isinstance(self.place, Path):
            return self.place.open("rb")
        return io.BytesIO(self.place.read_bytes())


def _arrays_in(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file, as views of its bytes, since copies of records take time."""
    file, found = io.BytesIO(data), {}
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            file.seek(entry.header_offset + 26)  # where the lengths of a name and extra data are
            file.seek(sum(struct.unpack("<HH", file.read(4))), io.SEEK_CUR)
            np.lib.format.read_magic(file)
            shape, transposed, dtype = np.lib.format.read_array_header_1_0(file)
            values = np.frombuffer(data, dtype, math.prod(shape), file.tell())
            name = entry.filename.removesuffix(".npy")
            found[name] = values.reshape(shape, order="F" if transposed else "C")
    return found


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
        Row numbers, ascending.
    columns : dict of str to ndarray
        Values of arrays, by name. Arrays over time begin with sample ``name.first``.
    identity : str
        Hash of what the samples depend on besides the runs, see
        `sweep.store.checkpoints.checkpoint_identity`. Only that of checkpoints is used.
    state : dict of str to ndarray, optional
        State of the integrator in a checkpoint, by name.

    Returns
    -------
    Record
    """
    parts = {NAME: np.array(str(name)), ROWS: rows, IDENTITY: np.array(identity)}
    parts |= {f"{VALUES}/{key}": values for key, values in columns.items()}
    parts |= {f"{STATE}/{key}": values for key, values in (state or {}).items()}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **parts)
    file.write(checksum_of_bytes(file.getvalue()))
    put_durably(folder / str(name), file.getvalue())
    return Record(folder / str(name), name)


def put_durably(
    place: Place, data: bytes, check: WriteCheck | None = None, syncs_directory: bool = True
) -> None:
    """Write a file atomically and durably: a power failure leaves all of it, or none.

    If a process is suspended after the check, and has lost the lease when it wakes, it cannot
    complete the write. In a directory the next lease holder begins by removing unfinished files
    (`sweep.store.commit.fold.remove_unfinished`), so that the rename fails. In a bucket an object
    is written only if it has not changed since before the check, so that an object that the next
    lease holder has written is not replaced.

    Parameters
    ----------
    place : Path or ObjectPlace
    data : bytes
    check : callable, optional
        Called before the last step, which makes the file appear; may raise. Without it an object
        is replaced unconditionally.
    syncs_directory : bool
        Whether the write is durable when this function returns. Otherwise it is durable after
        `sync_directories`; until then a power failure may restore the old file.
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


def write_new_file(path: Path, data: bytes) -> None:
    """Write a file of a directory that nobody else reads, before `sync_tree` makes it durable."""
    with _open_new_file(path) as file:
        file.write(data)


def change_object(
    place: ObjectPlace,
    change: Callable[[bytes | None], bytes | None],
    check: WriteCheck,
    is_new: bool = False,
) -> bytes | None:
    """Change an object, and repeat this if another process has changed it since the check.

    Parameters
    ----------
    place : ObjectPlace
    change : callable
        Makes the new content from the old one, which is None if there is no object. If it returns
        None, nothing is written.
    check : callable
        As in `put_durably`.
    is_new : bool
        Whether the object presumably does not exist, so that it need not be read first.

    Returns
    -------
    bytes or None
        The new content.
    """
    # The object may exist nevertheless, if an earlier write was interrupted before its ledger.
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
        check()  # raises if the next lease holder has changed it; an earlier one may write late


def sync_directories(directories: Iterable[Path]) -> None:
    """Make renames in directories durable: fsync each directory."""
    for directory in directories:
        _sync_file(directory)


def sync_tree(directory: Path) -> None:
    """Make a directory durable with everything below it: fsync each file and each directory."""
    every = [directory, *directory.rglob("*")]
    with ThreadPoolExecutor(SYNCED) as pool:  # one flush of the disk serves several files
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
    except FileNotFoundError:  # rare, so the directory is not checked beforehand
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "wb")


def ledger_entry(data: bytes) -> tuple[int, int]:
    """The ledger entry of a file: its size and CRC-32."""
    # Not the CRC-32C of chunks: for data that end with their own CRC-32C, it is a constant.
    return len(data), zlib.crc32(data)


# --- what is there ---------------------------------------------------------------------------


def records_folder(root: Place, group: str = "", shard_row: int | None = None) -> Place:
    """The folder with the records of a store, of one of its groups, or of a row of shards."""
    names = (group, "" if shard_row is None else str(shard_row))
    return root.joinpath(INTERNAL, FOLDER, *filter(None, names))


def list_records(
    folder: Place,
    kind: str | None = None,
    session: str | None = None,
    paths: Iterable[str] | None = None,
) -> list[Record]:
    """List the records below a folder, sorted by name.

    If several records hold the same row, the first of them counts. Their order is not that in which
    they were written; this does not matter, since their results are equal.

    Parameters
    ----------
    folder : Path or ObjectPlace
        From `records_folder`.
    kind : {"record", "checkpoint"}, optional
        Only records of this kind; both kinds by default.
    session : str, optional
        Only records of this session; all by default.
    paths : iterable of str, optional
        The files below the folder, relative to it; by default they are listed.

    Returns
    -------
    list of Record
    """
    found = []
    for path in files_below(folder) if paths is None else paths:
        name = RecordName.parse(path.rpartition("/")[2])
        if name and kind in (None, name.kind) and session in (None, name.session):
            found.append(Record(folder / path, name))
    return sorted(found, key=lambda record: record.name)


def list_records_among(root: Place, paths: Iterable[str]) -> list[Record]:
    """The records among the files of a store, whose paths are relative to it."""
    top = f"{INTERNAL}/{FOLDER}/"
    mine = (path.removeprefix(top) for path in paths if path.startswith(top))
    return list_records(records_folder(root), paths=mine)


def unfolded_by_group(
    records: Iterable[Record], session: str
) -> dict[str, dict[int, list[Record]]]:
    """Group the records of a session that are not folded yet.

    Parameters
    ----------
    records : iterable of Record
        From `list_records`.
    session : str
        Name of the session whose records count.

    Returns
    -------
    dict
        By the name of the group, and by the row of shards.
    """
    found: dict[str, dict[int, list[Record]]] = {}
    for record in records:
        if record.name.kind == RECORD and record.name.session == session:
            rows = found.setdefault(record.group, {})
            rows.setdefault(record.shard_row, []).append(record)
    return found


def put_records(name: str, records: Sequence[Record], draft: Draft) -> None:
    """Put the values of records into a shard of an array.

    Parameters
    ----------
    name : str
        Name of the array.
    records : list of Record
        If several hold the same row, the first one counts.
    draft : sweep.store.commit.shards.Draft
    """
    for record in reversed(records):
        if (values := record.column(name)) is not None:
            draft.put(record.rows, values, record.name.first)
