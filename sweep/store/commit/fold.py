"""Folding: records become rows of the arrays, which any Zarr reader opens.

Only who has the lease folds. A row of shards is written array by array, the count of samples last;
then what is there now is noted in the group's book, then the records go. Whatever this is killed
at, done again it comes to the same: shards only grow at their end, and records are there until
everything of them is folded. Readers list records first and read arrays after.
"""

import collections
import json
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sweep.errors import Damaged, LeaseLost, StoreError
from sweep.store.backends.places import ObjectPlace
from sweep.store.commit.records import (
    CHECKPOINT,
    RECORD,
    list_records,
    put_durably,
    records_folder,
    shard_rows_with_records,
    shard_with_records,
)
from sweep.store.files import end_checkpoints_group_name
from sweep.study import schema

CHECKPOINT_ARRAY = "checkpoint"  # which begins anew with each version of the code
MOST_LOADED = 8  # records that are in memory at once
BOOKS = "folded"  # by group: what is folded of each row of shards


def written_by_tasks(arrays):
    """The arrays of a group that tasks write, the count of samples last.

    Parameters
    ----------
    arrays : dict of str to sweep.store.files.ArrayFiles
    """
    found = {name: array for name, array in arrays.items() if array.sharded}
    return dict(sorted(found.items(), key=lambda item: item[0] == schema.MARKER.name))


def fold_group(store, place, session, check=lambda: None, ready=lambda row, records: True):
    """Fold the records of a session that a group has.

    Parameters
    ----------
    store : Store
    place : str
        Of the group.
    session : str
        Name of the session whose records count.
    check : callable
        Raises unless the store is still this process's.
    ready : callable
        Whether a row of shards is to be folded, from its number and its records; all of them
        unless given.

    Returns
    -------
    int
        Records that were folded.
    """
    arrays, folded = None, 0
    for row in shard_rows_with_records(store, place):
        records = list_records(records_folder(store, place, row), RECORD, session)
        if not records or not ready(row, records):
            continue
        if arrays is None:
            arrays = written_by_tasks(store.arrays_of_tasks(place))
        _fold_shard_row(store, place, row, arrays, records, check)
        folded += len(records)
    return folded


def _fold_shard_row(store, place, row, arrays, records, check):
    if len(records) <= MOST_LOADED:
        records = [record.load() for record in records]
    for array in arrays.values():
        grid, touched = array.inner_grid, set()
        for record in records:
            for piece in record.pieces(array.name):
                touched.add(tuple(c // n for c, n in zip(piece.at, grid, strict=True)))
        for index in sorted(touched):
            write_shard(
                array, index, lambda old, a=array, i=index: shard_with_records(a, i, old, records),
                check,
            )  # fmt: skip
    note_folded(store, place, {row: max(record.name.last for record in records)}, check)
    for record in records:
        record.remove()


def write_shard(array, index, grown, check=lambda: None):
    """Write a shard anew.

    Parameters
    ----------
    array : sweep.store.files.ArrayFiles
    index : tuple of int
    grown : callable
        From the shard's bytes, or None if there is none, to those that it is to have.
    check : callable
        As in `fold_group`.
    """
    file = array.file(index)
    try:
        old, tag = file.read_tagged() if isinstance(file, ObjectPlace) else (file.read_bytes(), 0)
    except FileNotFoundError:
        old, tag = None, None
    data = grown(old)
    if data is None or data == old:
        return
    if not isinstance(file, ObjectPlace):
        put_durably(file, data, check)
        return
    check()
    if file.put_if(data, tag) is None:
        raise LeaseLost


# --- the book --------------------------------------------------------------------------------


def book_file(store, place):
    """Where the book of a group is."""
    return store.internal(BOOKS, f"{place}.json")


def book_of_group(store, place):
    """What is folded of a group: samples by the row of shards."""
    try:
        found = json.loads(book_file(store, place).read_bytes())
        return {int(row): int(samples) for row, samples in found.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError):
        raise Damaged(f"{book_file(store, place)} is not what was written") from None


def note_folded(store, place, rows, check=lambda: None):
    """Note up to which sample rows of shards are folded."""
    known = book_of_group(store, place)
    new = known | {row: max(samples, known.get(row, 0)) for row, samples in rows.items()}
    if new != known:
        text = json.dumps({str(row): samples for row, samples in sorted(new.items())})
        put_durably(book_file(store, place), text.encode(), check)


def note_all_folded(store, place):
    """Note what the arrays of a group have, as when its rows came otherwise."""
    counts = store.array(place, schema.MARKER.name)
    rows = {}
    for i in range(counts.grid[0]):
        if (samples := counts.chunk((i,))) is not None and samples.any():
            rows[i] = int(samples.max())
    note_folded(store, place, rows)


def missing_shards(store, place, arrays):
    """The shards that the book promises and that are not there, as (array, index).

    Parameters
    ----------
    store : Store
    place : str
    arrays : dict of str to sweep.store.files.ArrayFiles
        That tasks write.
    """
    book, found = book_of_group(store, place), []
    if not book:
        return found
    exists = _existence_test(store, place)
    for array in arrays.values():
        for row, samples in book.items() if array.name != CHECKPOINT_ARRAY else ():
            if row >= array.grid[0]:
                continue
            upto = [
                math.ceil(min(samples, n) / c) if dim == "time" else math.ceil(n / c)
                for dim, n, c in zip(array.dims[1:], array.shape[1:], array.chunks[1:], strict=True)
            ]
            for rest in np.ndindex(*upto):
                if not exists(array.file((row, *rest))):
                    found.append((array, (row, *rest)))
    return found


def check_shards_are_there(store, place):
    """Raise `Damaged` if shards of a group are gone that were there."""
    missing = missing_shards(store, place, written_by_tasks(store.arrays_of_tasks(place)))
    if missing:
        array, index = missing[0]
        more = f", and {len(missing) - 1:,} others" * (len(missing) > 1)
        raise Damaged(f"{array.file(index).relative_to(store.place)} is not there{more}")


def _existence_test(store, place):
    """Whether a file below a group is there; in a bucket they are listed once."""
    if not store.in_bucket:
        return lambda file: file.exists()
    groups = place, end_checkpoints_group_name(place)
    keys = {found.key for group in groups for found in (store.place / group).walk()}
    return lambda file: file.key in keys


# --- sessions --------------------------------------------------------------------------------


def settle(store, check=lambda: None):
    """Fold what an earlier session has left, as who has just got the lease.

    What was not finished goes first: whoever wrote it has lost the lease, and cannot finish it.

    Raises
    ------
    StoreError
        If a record, or a shard that is to grow, cannot be read.
    """
    for file in store.partial_files():
        file.unlink(missing_ok=True)
    try:
        if session := store.session:
            fold_all(store, session, check)
    except Damaged as damage:
        raise StoreError(
            f"{store}: {damage}. `sweep verify {store}` says what is damaged, and --repair mends it"
        ) from None


def fold_all(store, session, check=lambda: None):
    """Fold all records of a session, until there are none; how many they were."""
    folded = 0
    while new := sum(fold_group(store, place, session, check) for place in store.task_groups):
        folded += new
    return folded


def begin_session(store, session, check=lambda: None):
    """Let the records of a session count, and no others any more.

    Parameters
    ----------
    store : Store
    session : str
    check : callable
        Raises unless the store is still this process's.
    """
    before, dead = store.session, _list_all_records(store, RECORD)
    put_durably(store.session_file, session.encode(), check)
    if before:  # what came since `settle`, before the session's name
        fold_all(store, before, check)
    for record in dead:
        record.remove()


def end_session(store, check=lambda: None, checkpoints=False):
    """Let no records count any more, all of which are folded.

    What is removed was listed before: a process that wakes here, when another one has the store,
    removes nothing of that one's.

    Parameters
    ----------
    store : Store
    check : callable
        Raises unless the store is still this process's.
    checkpoints : bool
        Whether to remove these, too: no run needs them any more.
    """
    left = _list_all_records(store, None if checkpoints else RECORD)
    if store.session:
        put_durably(store.session_file, b"", check)
    for record in left:
        record.remove()


def _list_all_records(store, kind=None):
    return [
        record
        for place in store.task_groups
        for row in shard_rows_with_records(store, place)
        for record in list_records(records_folder(store, place, row), kind)
    ]


class Folder:
    """Folds rows of shards in a thread, within ``with``, each when all of its tasks are done.

    Parameters
    ----------
    store : Store
    session : str
    check : callable
        As in `fold_group`.
    tasks : sequence of RunTask or ReferenceTask
        At the end of ``with`` all is folded that their groups have.
    """

    def __init__(self, store, session, check, tasks):
        self._store, self._session, self._check = store, session, check
        self._left = collections.Counter()
        self._rows = {
            place: store.arrays_of_tasks(place)[schema.MARKER.name].chunks[0]
            for place in {task.group for task in tasks}
        }
        for task in tasks:
            self._left[self._shard_row(task)] += 1
        self._pool, self._folding = ThreadPoolExecutor(1), []

    def _shard_row(self, task):
        return task.group, int(task.rows[0]) // self._rows[task.group]

    def committed(self, task):
        """Note that a task is done."""
        place, row = self._shard_row(task)
        self._left[place, row] -= 1
        if not self._left[place, row]:
            self._folding.append(self._pool.submit(self._fold, place, row))

    def _fold(self, place, row):
        fold_group(self._store, place, self._session, self._check, lambda own, records: own == row)

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        self._pool.shutdown(cancel_futures=kind is not None)
        if kind is None:
            for future in self._folding:
                future.result()
            for place in self._rows:
                fold_group(self._store, place, self._session, self._check)


def remove_checkpoints(store, place, rows):
    """Remove the checkpoints of a group that have some of these rows.

    Parameters
    ----------
    store : Store
    place : str
    rows : ndarray of int
    """
    for row in shard_rows_with_records(store, place):
        for record in list_records(records_folder(store, place, row), CHECKPOINT):
            if np.any((rows >= record.name.start) & (rows < record.name.stop)):
                record.remove()
