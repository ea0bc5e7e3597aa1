"""Folding: records become rows of the arrays, which any Zarr reader can open.

Only the lease holder folds. It folds a row of shards once all its tasks have sent a receipt
(`BackgroundFolding`); the records that an earlier session has left, right after it has acquired the
lease to run, retry or merge (`fold_leftovers`) or to repair; records that arrived after that, when
a session begins (`begin_session`); and all remaining records at the end of a run (`fold_all`).

The steps are described in `sweep.store.commit`. Folding is idempotent: repeated after a crash at
any instant, it gives the same values, since shards only grow at their end, and a record is kept
until all of it is folded. A shard that is folded twice holds the bytes of both folds. Readers first
list the records of the session that the store names, and then read the arrays.
"""

import collections
import contextlib
import functools
import itertools
import math
import operator
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

from sweep.errors import Damaged
from sweep.store.backends.places import (
    ObjectPlace,
    Place,
    WriteCheck,
    read_bytes_or_none,
    remove_tree,
)
from sweep.store.commit.ledger import (
    is_as_written,
    ledger_file,
    ledger_of_group,
    note_files,
    path_of_file,
)
from sweep.store.commit.records import (
    PARTIAL,
    RECORD,
    Ledger,
    Record,
    change_object,
    ledger_entry,
    list_records,
    put_durably,
    put_records,
    records_folder,
    sync_directories,
    unfolded_by_group,
)
from sweep.store.commit.shards import Draft
from sweep.store.files import ArrayFiles, Index
from sweep.store.lease.holder import SessionRecord
from sweep.store.lease.lease import Lease
from sweep.store.store import Store
from sweep.study import variables

MOST_LOADED = 2**26  # approximate bytes of records that are in memory at once
AT_ONCE = 2  # arrays that are folded at once
OTHER = "is not what was written there: it fails its checksum"


def written_by_tasks(arrays: Mapping[str, ArrayFiles]) -> dict[str, ArrayFiles]:
    """The arrays of a group that tasks write, the sample count last."""
    found = {name: array for name, array in arrays.items() if array.sharded}
    return dict(sorted(found.items(), key=lambda item: item[0] == variables.SAMPLE_COUNT.name))


def fold_group(
    store: Store, group: str, session: str, row: int, check: WriteCheck = lambda: None
) -> None:
    """Fold the records that a session has written for a row of shards.

    Parameters
    ----------
    store : Store
    group : str
        Name of the group.
    session : str
        Name of the session whose records count.
    row : int
        Number of the row of shards.
    check : callable
        Raises unless this process still holds the lease.
    """
    records = list_records(records_folder(store.place, group, row), RECORD, session)
    if not records:
        return
    arrays, ledger = written_by_tasks(store.arrays_of_group(group)), ledger_of_group(store, group)
    check()
    try:
        written = _fold_shard_row(row, arrays, records, ledger, check)
    except FileNotFoundError:  # the next lease holder has folded the records
        check()
        raise
    note_files(store, group, written, check)
    for record in records:
        record.remove()


def _fold_shard_row(
    row: int,
    arrays: Mapping[str, ArrayFiles],
    records: Sequence[Record],
    ledger: Ledger,
    check: WriteCheck,
) -> Ledger:
    """Fold the records of a row of shards; return the ledger entries of the changed files."""
    loaded = 0
    for record in records:
        if loaded < MOST_LOADED:
            loaded += record.load()
        else:
            record.check()
    first, last = min(r.name.first for r in records), max(r.name.last for r in records)

    def folded(array: ArrayFiles, is_last: bool = False) -> Ledger:
        put, written = functools.partial(put_records, array.name, records), Ledger()
        for index in _shards_over_samples(array, row, first, last):
            written |= write_shard(array, index, put, ledger, check, syncs_directory=is_last)
        return written

    *others, counts = arrays.values()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        parts = list(pool.map(folded, others))
    # Sync all directories before the counts, so that no count is durable before its data; all at
    # once, since a single flush of the file system's journal suffices.
    sync_directories(array.directory for array in others if isinstance(array.directory, Path))
    return functools.reduce(operator.or_, parts, folded(counts, is_last=True))


def _shards_over_samples(array: ArrayFiles, row: int, first: int, last: int) -> Iterator[Index]:
    """The indices of an array's shards in a row of shards that hold samples `first` to `last`."""
    along = [
        range(first // chunk, math.ceil(last / chunk)) if dim == "time" else range(number)
        for dim, chunk, number in zip(array.dims[1:], array.chunks[1:], array.grid[1:], strict=True)
    ]
    return itertools.product([row], *along)


def write_shard(
    array: ArrayFiles,
    index: Index,
    change: Callable[[Draft], object],
    ledger: Ledger,
    check: WriteCheck = lambda: None,
    lenient: bool = False,
    syncs_directory: bool = True,
) -> Ledger:
    """Change the values of a shard.

    Parameters
    ----------
    array : sweep.store.files.ArrayFiles
    index : tuple of int
        Index of the shard.
    change : callable
        Puts values into the `Draft` of the shard.
    ledger : dict
        The group's ledger, with which the old shard must agree.
    check : callable
        As in `fold_group`.
    lenient : bool
        Whether to accept a damaged old shard, and to keep of it what can be read.
    syncs_directory : bool
        As in `put_durably`.

    Returns
    -------
    dict
        The ledger entry of the new shard; empty if the shard does not exist.

    Raises
    ------
    Damaged
        If the old shard is damaged and `lenient` is false.
    """
    path, file = path_of_file(array, index), array.file(index)

    def grown(old: bytes | None) -> bytes | None:
        # A lost shard of sample counts reads as 0: its runs are computed again.
        checked = not lenient and array.name != variables.SAMPLE_COUNT.name
        if checked and not is_as_written(ledger.get(path), old):
            text = "is not there" if old is None else OTHER
            raise array.damage(index, Damaged(text))
        try:
            change(draft := Draft(array, index, old, lenient))
            return draft.data()
        except Damaged as damage:
            raise array.damage(index, damage) from None

    if isinstance(file, ObjectPlace):
        data = change_object(file, grown, check, is_new=path not in ledger)
    else:
        old = read_bytes_or_none(file)
        if (data := grown(old)) not in (None, old):
            put_durably(file, data, check, syncs_directory)
    return {} if data is None else {path: ledger_entry(data)}


# --- sessions --------------------------------------------------------------------------------


def fold_leftovers(store: Store, lease: Lease) -> None:
    """Fold the records that an earlier session has left, right after acquiring the lease.

    Unfinished files are removed first, so that an earlier lease holder that is still alive fails at
    its rename.

    Parameters
    ----------
    store : Store
    lease : sweep.store.lease.lease.Lease

    Raises
    ------
    Damaged
        If a record, or a shard that is to grow, cannot be read.
    """
    remove_unfinished(store)
    with store.naming_damage():
        if session := store.session_name:
            note_session(store, session, lease)
            fold_all(store, session, lease.check)


def note_session(store: Store, name: str, lease: Lease) -> SessionRecord:
    """Write the `SessionRecord` of a session, which names the lease holder, and return it.

    Parameters
    ----------
    store : Store
    name : str
        Name of the session; empty if it has ended.
    lease : sweep.store.lease.lease.Lease

    Returns
    -------
    sweep.store.lease.holder.SessionRecord
    """
    id_of_store = store.session.store or secrets.token_hex(16)
    record = SessionRecord(name, id_of_store, lease.token, str(lease.holder))
    put_durably(store.session_file, record.content(), lease.check)
    return record


def remove_unfinished(store: Store) -> None:
    """Remove files that earlier lease holders left partly written or partly removed."""
    if store.in_bucket:  # puts of objects are atomic
        return
    for place in store.internal().glob(f"*{PARTIAL}"):
        remove_tree(place, ignore_errors=True)
    for path in store.list_files():
        if path.endswith(PARTIAL):
            (store.place / path).unlink(missing_ok=True)


def fold_all(
    store: Store, session: str, check: WriteCheck = lambda: None, lenient: bool = False
) -> dict[str, list[Record]]:
    """Fold all records of a session, including those that arrive meanwhile.

    Parameters
    ----------
    store : Store
    session : str
    check : callable
        As in `fold_group`.
    lenient : bool
        Whether to skip the records of damaged rows of shards instead of raising `Damaged`.

    Returns
    -------
    dict of str to list of Record
        The records that were skipped, by group.
    """
    left: dict[tuple[str, int], list[Record]] = {}
    while True:
        unfolded = unfolded_by_group(list_records(records_folder(store.place)), session)
        waiting = {(group, row) for group, rows in unfolded.items() for row in rows}
        for group, row in sorted(waiting - left.keys()):
            try:
                fold_group(store, group, session, row, check)
            except Damaged:
                if not lenient:
                    raise
                left[group, row] = unfolded[group][row]
        if waiting <= left.keys():
            break
    found: dict[str, list[Record]] = {}
    for (group, _), records in left.items():
        found.setdefault(group, []).extend(records)
    return found


def begin_session(store: Store, session: str, lease: Lease, is_new: bool = False) -> SessionRecord:
    """Make a session the one whose records count, and remove the records of earlier sessions.

    Checkpoints stay, since tasks resume from them. Only records that were listed before the change
    are removed.

    Parameters
    ----------
    store : Store
    session : str
    lease : sweep.store.lease.lease.Lease
    is_new : bool
        Whether this process has just created the store, so that there was no earlier session.

    Returns
    -------
    sweep.store.lease.holder.SessionRecord
    """
    before, dead = "", list[Record]()
    if not is_new:
        before, dead = store.session_name, list_records(records_folder(store.place), RECORD)
    begun = note_session(store, session, lease)
    if before:  # records that arrived since `fold_leftovers`
        fold_all(store, before, lease.check)
    for record in dead:
        record.remove()
    return begun


def end_session(store: Store, lease: Lease, checkpoints: bool = False) -> None:
    """End the session, whose records are all folded: from now on no records count.

    Only files that were listed before are removed, so that a process that is suspended here, and
    wakes when another one holds the lease, removes none of the other one's files.

    Parameters
    ----------
    store : Store
    lease : sweep.store.lease.lease.Lease
    checkpoints : bool
        Whether to remove checkpoints too, because no run needs them any more.
    """
    left = list_records(records_folder(store.place), None if checkpoints else RECORD)
    if store.session_name:
        note_session(store, "", lease)
    for record in left:
        record.remove()


def forget_group(store: Store, group: str, check: WriteCheck) -> None:
    """Remove a group with its records and its ledger.

    A new group of the same name may number its rows differently.

    Parameters
    ----------
    store : Store
    group : str
    check : callable
        As in `remove_from_store`.
    """
    mine = store.place / group, records_folder(store.place, group), ledger_file(store, group)
    remove_from_store(store, mine, check)


def remove_from_store(store: Store, places: Iterable[Place], check: WriteCheck) -> None:
    """Remove files and directories of a store.

    In a directory each is first renamed into a directory that the next lease holder removes as
    unfinished. If this process loses the lease after its check, the renames then fail.

    Parameters
    ----------
    store : Store
    places : iterable of Path or ObjectPlace
        Places that do not exist are skipped.
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
    """Folds each row of shards in a thread when all its tasks are done; a context manager.

    The end of ``with`` waits for the folds, and raises the exception of one that has failed. If
    ``with`` ends by an exception, folds that have not begun are dropped: `fold_leftovers` does them
    later.

    Parameters
    ----------
    store : Store
    session : str
        Name of the session whose records count.
    check : callable
        As in `fold_group`.
    tasks : iterable of tuple of str and int
        The group and the first row of each task.
    """

    def __init__(
        self, store: Store, session: str, check: WriteCheck, tasks: Iterable[tuple[str, int]]
    ) -> None:
        self._fold = functools.partial(fold_group, store, session=session, check=check)
        self._rows: dict[str, int] = {}  # runs in a row of shards, by group
        self._left: collections.Counter[tuple[str, int]] = collections.Counter()
        for group, first in tasks:
            if group not in self._rows:
                counts = store.arrays_of_group(group)[variables.SAMPLE_COUNT.name]
                self._rows[group] = counts.chunks[0]
            self._left[group, first // self._rows[group]] += 1
        self._pool = ThreadPoolExecutor(1)
        self._folding: list[Future[None]] = []

    def committed(self, group: str, first: int) -> None:
        """Note that a task has committed; the last task of a row of shards starts its fold."""
        row = first // self._rows[group]
        self._left[group, row] -= 1
        if not self._left[group, row]:
            self._folding.append(self._pool.submit(self._fold, group, row=row))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._pool.shutdown(cancel_futures=kind is not None)
        if kind is None:
            for future in self._folding:
                future.result()
