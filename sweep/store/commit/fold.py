"""Folding: records become rows of the arrays, which any Zarr reader opens.

Only the holder of the lease folds: a row of shards once each of its tasks has sent a receipt that
it is done (`BackgroundFolding`); what an earlier session has left, right after the lease was
acquired to run, retry or merge (`settle`), or to repair (`fold_all_but_onto_damage`); what came
after that, when a session begins (`begin_session`); and the rest at the end of a run (`fold_all`).

The steps are in `sweep.store.commit`. Folding is idempotent: repeated after a crash at any instant,
it gives the same values, since shards only grow at their end and a record is kept until all of it
is folded; a shard that is folded twice keeps the bytes of both. Readers list records first, which
are finished rows of the session that the store names, and read arrays after.
"""

import collections
import contextlib
import functools
import json
import math
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from sweep.errors import Damaged
from sweep.store.backends.places import (
    ObjectPlace,
    Place,
    WriteCheck,
    files_below,
    path_below,
    read_bytes_or_none,
)
from sweep.store.backends.trees import remove_tree
from sweep.store.commit.records import (
    CHECKPOINT,
    PARTIAL,
    RECORD,
    Record,
    list_records,
    put_durably,
    records_by_group,
    records_folder,
    shard_with_records,
    sync_directories,
    unfolded_by_group,
)
from sweep.store.files import (
    ArrayFiles,
    Index,
    RowNumbers,
    end_checkpoints_group_name,
    unreadable,
)
from sweep.store.lease.holder import LeaseHolder, SessionRecord
from sweep.store.store import Store
from sweep.study import schema

# By the row of shards and the array: how far it is folded along its other dimensions. Zarr reads a
# file that is missing as blank: with the ledger it is noticed.
Ledger = dict[int, dict[str, list[int]]]
CHECKPOINT_ARRAY = "checkpoint"  # not in the ledger: it is deleted when the code changes
MOST_LOADED = 8  # records that are in memory at once
LEDGERS = "folded"  # with a file for each group


class HasRows(Protocol):
    """A task, by the rows that it computes: `sweep.campaign.worker.task.Task`."""

    @property
    def group(self) -> str:
        """The group that has its rows."""

    @property
    def rows(self) -> RowNumbers | range:
        """Its rows, all in one row of shards."""


def written_by_tasks(arrays: Mapping[str, ArrayFiles]) -> dict[str, ArrayFiles]:
    """The arrays of a group that tasks write, the count of samples last.

    Parameters
    ----------
    arrays : dict of str to sweep.store.files.ArrayFiles
    """
    found = {name: array for name, array in arrays.items() if array.sharded}
    return dict(sorted(found.items(), key=lambda item: item[0] == schema.SAMPLE_COUNT.name))


def fold_group(
    store: Store, group: str, session: str, rows: Iterable[int], check: WriteCheck = lambda: None
) -> int:
    """Fold the records of a session that a group has.

    Parameters
    ----------
    store : Store
    group : str
        Name of the group.
    session : str
        Name of the session whose records count.
    rows : sequence of int
        Rows of shards that are to be folded.
    check : callable
        Raises unless this process still holds the lease.

    Returns
    -------
    int
        Records that were folded.
    """
    arrays, ledger, folded = None, {}, 0
    for row in rows:
        records = list_records(records_folder(store.place, group, row), RECORD, session)
        if not records:
            continue
        if arrays is None:
            arrays = written_by_tasks(store.arrays_of_group(group))
            ledger = ledger_of_group(store, group)
        check()
        try:
            _fold_shard_row(row, arrays, records, check, is_new=row not in ledger)
        except FileNotFoundError:  # the next lease holder has folded the records
            check()
            raise
        samples = max(record.name.last for record in records)
        ledger = note_folded(store, group, ledger, {row: _extents_of_rows(arrays, samples)}, check)
        for record in records:
            record.remove()
        folded += len(records)
    return folded


def _fold_shard_row(
    row: int,
    arrays: Mapping[str, ArrayFiles],
    records: list[Record],
    check: WriteCheck,
    is_new: bool,
) -> None:
    if len(records) <= MOST_LOADED:
        records = [record.load() for record in records]
    written: set[Path] = set()
    for array in arrays.values():
        if is_last := array.name == schema.SAMPLE_COUNT.name:
            # All directories before the counts: no count becomes durable before its data. Together,
            # as one flush of a file system's journal serves all of them.
            sync_directories(written)
        grid, touched = array.inner_grid, set()
        for record in records:
            for piece in record.pieces(array.name):
                touched.add(tuple(c // n for c, n in zip(piece.at, grid, strict=True)))
        for index in sorted(touched):
            write_shard(
                array, index,
                functools.partial(_grown_by_records, array, index, records),
                check, is_new, syncs_directory=is_last,
            )  # fmt: skip
            if isinstance(directory := array.file(index).parent, Path):
                written.add(directory)


def _grown_by_records(
    array: ArrayFiles, index: Index, records: Sequence[Record], old: bytes | None
) -> bytes | None:
    return shard_with_records(array, index, old, records)


def write_shard(
    array: ArrayFiles,
    index: Index,
    grown: Callable[[bytes | None], bytes | None],
    check: WriteCheck = lambda: None,
    is_new: bool = False,
    syncs_directory: bool = True,
) -> None:
    """Write a shard anew.

    Parameters
    ----------
    array : sweep.store.files.ArrayFiles
    index : tuple of int
    grown : callable
        From the shard's bytes, or None if there is none, to those that it is to have.
    check : callable
        As in `fold_group`.
    is_new : bool
        Whether there is none yet, as far as is known.
    syncs_directory : bool
        As in `put_durably`.
    """
    file = array.file(index)
    if not isinstance(file, ObjectPlace):
        old = read_bytes_or_none(file)
        if (data := grown(old)) not in (None, old):
            put_durably(file, data, check, syncs_directory)
        return
    # A fold that was cut short may have put it, without the ledger that says so.
    if is_new and ((data := grown(None)) is None or file.put_if(data)):
        return
    while True:
        try:
            old, tag = file.read_tagged()
        except FileNotFoundError:
            old, tag = None, None
        if (data := grown(old)) in (None, old):
            return
        check()
        if file.put_if(data, tag):
            return
        check()  # changed meanwhile by the next lease holder, or late by one before: then again


# --- the ledger of folded rows ---------------------------------------------------------------


def ledger_file(store: Store, group: str) -> Place:
    """The file of a group's ledger."""
    return store.internal(LEDGERS, f"{group}.json")


def ledger_of_group(store: Store, group: str) -> Ledger:
    """The ledger of a group; empty if nothing is folded.

    By row of shards and array, how far it is folded along the array's other dimensions.
    """
    try:
        found = json.loads(ledger_file(store, group).read_bytes())
        return {
            int(row): {name: list(map(int, extent)) for name, extent in extents.items()}
            for row, extents in found.items()
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise unreadable(ledger_file(store, group), error) from None
    except (ValueError, AttributeError, TypeError):
        raise Damaged("is not what was written", str(ledger_file(store, group))) from None


def note_folded(
    store: Store,
    group: str,
    ledger: Ledger,
    rows: Mapping[int, Mapping[str, Sequence[int]]],
    check: WriteCheck = lambda: None,
) -> Ledger:
    """Write into a group's ledger how far rows of shards are folded; the new ledger."""
    new = dict(ledger)
    for row, extents in rows.items():
        known = ledger.get(row, {})
        new[row] = {
            name: list(map(max, extent, known.get(name, extent)))
            for name, extent in extents.items()
        }
    if new != ledger:
        text = json.dumps({str(row): extent for row, extent in sorted(new.items())})
        put_durably(ledger_file(store, group), text.encode(), check)
    return new


def _extents_of_rows(arrays: Mapping[str, ArrayFiles], samples: int) -> dict[str, tuple[int, ...]]:
    """What is written of rows with so many samples; arrays may become larger, and get others."""
    return {
        name: array.row_shape(samples) for name, array in arrays.items() if name != CHECKPOINT_ARRAY
    }


def missing_shards(
    store: Store, group: str, arrays: Mapping[str, ArrayFiles], paths: set[str]
) -> list[tuple[ArrayFiles, Index]]:
    """The shards that a group's ledger has and that do not exist, as (array, index).

    Parameters
    ----------
    store : Store
    group : str
    arrays : dict of str to sweep.store.files.ArrayFiles
        That tasks write.
    paths : set of str
        Files of the store, relative to it.
    """
    ledger, found = ledger_of_group(store, group), []
    for name, array in arrays.items():
        directory = path_below(array.directory, store.place)
        for row, extents in ledger.items():
            if name not in extents or row >= array.grid[0]:
                continue
            sizes = zip(extents[name], array.shape[1:], array.chunks[1:], strict=True)
            for rest in np.ndindex(*(math.ceil(min(size, n) / c) for size, n, c in sizes)):
                if _is_missing(array, (row, *rest), directory, paths):
                    found.append((array, (row, *rest)))
    return found


def _is_missing(array: ArrayFiles, index: Index, directory: str, paths: set[str]) -> bool:
    """Whether a file does not exist, and did not when the files in `paths` were listed."""
    listed = f"{directory}/{array.file_name(index)}" in paths
    return not listed and not array.file(index).is_file()


def _missing_coordinates(
    store: Store, arrays: Mapping[str, ArrayFiles], paths: set[str]
) -> list[tuple[ArrayFiles, Index]]:
    """The missing chunks of coordinates, as (array, index); a complete store has all of them."""
    return [
        (array, index)
        for array in arrays.values()
        if not array.sharded
        for index in np.ndindex(array.grid)
        if _is_missing(array, index, path_below(array.directory, store.place), paths)
    ]


def check_files_are_there(store: Store, group: str, paths: set[str] | None = None) -> None:
    """Raise `Damaged` if files of a group are missing that were written: results or coordinates.

    Parameters
    ----------
    store : Store
    group : str
    paths : set of str, optional
        As in `missing_shards`; they are listed unless given.
    """
    arrays = store.arrays_of_group(group)
    if paths is None:
        groups = group, end_checkpoints_group_name(group)
        paths = {f"{own}/{path}" for own in groups for path in files_below(store.place / own)}
    missing = missing_shards(store, group, written_by_tasks(arrays), paths)
    if store.consolidated:  # else it is about to be made, or to grow
        missing = [*_missing_coordinates(store, arrays, paths), *missing]
    if missing:
        array, index = missing[0]
        more = f", and {len(missing) - 1:,} others" * (len(missing) > 1)
        raise Damaged(f"{path_below(array.file(index), store.place)} is not there{more}")


# --- sessions --------------------------------------------------------------------------------


def settle(
    store: Store, check: WriteCheck = lambda: None, holder: LeaseHolder | None = None
) -> None:
    """Fold what an earlier session has left; called right after the lease was acquired.

    Unfinished files are removed first: a writer that still lives then fails at its rename.

    Parameters
    ----------
    store : Store
    check : callable
        Raises unless this process still holds the lease.
    holder : sweep.store.lease.holder.LeaseHolder, optional
        This process, if it has the lease.

    Raises
    ------
    Damaged
        If a record, or a shard that is to grow, cannot be read.
    """
    remove_unfinished(store)
    with store.naming_damage():
        if session := store.session_name:
            note_session(store, session, check, holder)
            fold_all(store, session, check)


def note_session(
    store: Store, name: str, check: WriteCheck, holder: LeaseHolder | None
) -> SessionRecord:
    """Write the `SessionRecord` of a session, which names its holder; returns it.

    Parameters
    ----------
    store : Store
    name : str
        Of the session; empty if it has ended.
    check, holder
        As in `settle`.
    """
    record = SessionRecord(
        name,
        store.session.store or secrets.token_hex(16),
        holder.token if holder else "",
        str(holder or ""),
    )
    put_durably(store.session_file, record.content(), check)
    return record


def remove_unfinished(store: Store) -> None:
    """Remove files that earlier lease holders left half written or half removed."""
    if store.in_bucket:  # objects are never there by half
        return
    for place in store.internal().glob(f"*{PARTIAL}"):
        remove_tree(place, ignore_errors=True)
    for path in store.list_files():
        if path.endswith(PARTIAL):
            (store.place / path).unlink(missing_ok=True)


def fold_all(store: Store, session: str, check: WriteCheck = lambda: None) -> int:
    """Fold all records of a session, until there are none; how many they were."""
    folded = 0
    while waiting := _rows_to_fold(store, session):
        for group, rows in waiting.items():
            folded += fold_group(store, group, session, rows, check)
    return folded


def fold_all_but_onto_damage(
    store: Store, check: WriteCheck = lambda: None
) -> dict[str, list[Record]]:
    """As `settle`; but records of rows of shards that cannot grow are left, and returned by group.

    Parameters
    ----------
    store : Store
    check : callable
        Raises unless this process still holds the lease.

    Raises
    ------
    StoreError
        If metadata or a ledger cannot be read.
    """
    remove_unfinished(store)
    session = store.session_name
    left: dict[str, list[Record]] = {}
    for group, rows in _rows_to_fold(store, session).items():
        with store.naming_damage():
            store.arrays_of_group(group)
            ledger_of_group(store, group)
        for row in rows:
            try:
                fold_group(store, group, session, [row], check)
            except Damaged:
                found = list_records(records_folder(store.place, group, row), RECORD, session)
                left.setdefault(group, []).extend(found)
    return left


def _rows_to_fold(store: Store, session: str) -> dict[str, list[int]]:
    """Rows of shards of which a session has records, by group."""
    unfolded = unfolded_by_group(records_by_group(store.place), session)
    return {group: sorted(found.records) for group, found in unfolded.items()}


def begin_session(
    store: Store,
    session: str,
    check: WriteCheck = lambda: None,
    is_new: bool = False,
    holder: LeaseHolder | None = None,
) -> SessionRecord:
    """Make a session the one whose records count, and remove the records of earlier ones.

    Only those that were listed before the change, and no checkpoints, from which tasks resume.

    Parameters
    ----------
    store : Store
    session : str
    check : callable
        Raises unless this process still holds the lease.
    is_new : bool
        Whether this process has just made the store, in which no session was yet.
    holder : sweep.store.lease.holder.LeaseHolder, optional
        This process, if it has the lease.

    Returns
    -------
    sweep.store.lease.holder.SessionRecord
    """
    before, dead = ("", []) if is_new else (store.session_name, _list_all_records(store, RECORD))
    begun = note_session(store, session, check, holder)
    if before:  # what came since `settle`, before the session's name
        fold_all(store, before, check)
    for record in dead:
        record.remove()
    return begun


def end_session(
    store: Store,
    check: WriteCheck = lambda: None,
    checkpoints: bool = False,
    holder: LeaseHolder | None = None,
) -> None:
    """End the session, all of whose records are folded: no records count any more.

    Only files that were listed before are removed: a process that was suspended here, and resumes
    when another one holds the lease, removes nothing of that one's.

    Parameters
    ----------
    store : Store
    check : callable
        Raises unless this process still holds the lease.
    checkpoints : bool
        Whether to remove checkpoints, too, since no run needs them any more.
    holder : sweep.store.lease.holder.LeaseHolder, optional
        This process, if it has the lease.
    """
    left = _list_all_records(store, None if checkpoints else RECORD)
    if store.session_name:
        note_session(store, "", check, holder)
    for record in left:
        record.remove()


def _list_all_records(store: Store, kind: str | None = None) -> list[Record]:
    listed = records_by_group(store.place).values()
    every = [record for rows in listed for records in rows.values() for record in records]
    return [record for record in every if kind in (None, record.name.kind)]


def forget_group(store: Store, group: str, check: WriteCheck) -> None:
    """Remove the records and the ledger of a deleted group.

    A new one of its name may number its rows otherwise.

    Parameters
    ----------
    store : Store
    group : str
    check : callable
        As in `discard`.
    """
    mine = store.place / group, records_folder(store.place, group), ledger_file(store, group)
    discard(store, mine, check)


def discard(store: Store, places: Iterable[Place], check: WriteCheck) -> None:
    """Remove files and trees of a store.

    In a directory each is first renamed, atomically, to a name that the next lease holder removes
    as unfinished: a process that passed the check before it lost the lease removes nothing else.

    Parameters
    ----------
    store : Store
    places : iterable of Path or ObjectPlace
        Those that are not there are left out.
    check : callable
        Raises unless this process still holds the lease.
    """
    discarded = store.internal(f"{secrets.token_hex(8)}{PARTIAL}")
    if isinstance(discarded, ObjectPlace):
        for place in places:
            check()
            place.unlink(missing_ok=True)
            remove_tree(place)
        return
    discarded.mkdir(parents=True)
    check()
    for number, place in enumerate(places):
        with contextlib.suppress(FileNotFoundError):
            Path(str(place)).rename(discarded / f"{number}")
    remove_tree(discarded, ignore_errors=True)


class BackgroundFolding:
    """Folds rows of shards in a thread, within ``with``, each when all of its tasks are done.

    The end of ``with`` waits until they are folded, and raises what a fold has raised. Where it is
    left by an exception, what is not begun is dropped: the next `settle` folds it.

    Parameters
    ----------
    store : Store
    session : str
    check : callable
        As in `fold_group`.
    tasks : sequence of PlannedTask or ReferenceTask
    """

    def __init__(
        self, store: Store, session: str, check: WriteCheck, tasks: Sequence[HasRows]
    ) -> None:
        self._store, self._session, self._check = store, session, check
        self._left: collections.Counter[tuple[str, int]] = collections.Counter()
        self._rows = {
            group: store.arrays_of_group(group)[schema.SAMPLE_COUNT.name].chunks[0]
            for group in {task.group for task in tasks}
        }
        for task in tasks:
            self._left[self._shard_row(task)] += 1
        self._pool = ThreadPoolExecutor(1)
        self._folding: list[Future[None]] = []

    def _shard_row(self, task: HasRows) -> tuple[str, int]:
        return task.group, int(task.rows[0]) // self._rows[task.group]

    def committed(self, task: HasRows) -> None:
        """Note that a task has committed; a row of shards is folded after its last one."""
        group, row = self._shard_row(task)
        self._left[group, row] -= 1
        if not self._left[group, row]:
            self._folding.append(self._pool.submit(self._fold, group, row))

    def _fold(self, group: str, row: int) -> None:
        fold_group(self._store, group, self._session, [row], self._check)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._pool.shutdown(cancel_futures=kind is not None)
        if kind is None:
            for future in self._folding:
                future.result()


def remove_checkpoints(
    store: Store, group: str, rows: RowNumbers, check: WriteCheck = lambda: None
) -> None:
    """Remove the checkpoints of a group that have some of these rows.

    Parameters
    ----------
    store : Store
    group : str
    rows : ndarray of int
    check : callable
        Raises unless this process still holds the lease.
    """
    listed = records_by_group(store.place, group=group).get(group, {})
    check()
    for records in listed.values():
        for record in records:
            within = (rows >= record.name.start) & (rows < record.name.stop)
            if record.name.kind == CHECKPOINT and within.any():
                record.remove()
