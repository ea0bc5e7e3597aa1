"""Folding: records become rows of the arrays, which any Zarr reader opens.

Only the holder of the lease folds: a row of shards once each of its tasks has sent a receipt that
it is done (`BackgroundFolding`); what an earlier session has left, right after the lease was
acquired to run, retry, merge (`settle`) or repair; what came after that, when a session begins
(`begin_session`); and the rest at the end of a run (`fold_all`).

The steps are in `sweep.store.commit`. Folding is idempotent: repeated after a crash at any instant,
it gives the same values, since shards only grow at their end and a record is kept until all of it
is folded; a shard that is folded twice keeps the bytes of both. Readers list records first, which
are finished rows of the session that the store names, and read arrays after.
"""

import collections
import contextlib
import functools
import itertools
import math
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
    entry_of,
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

MOST_LOADED = 2**28  # bytes of records that are in memory at once, about
OTHER = "is not what was written there: it fails its checksum"


def written_by_tasks(arrays: Mapping[str, ArrayFiles]) -> dict[str, ArrayFiles]:
    """The arrays of a group that tasks write, the count of samples last.

    Parameters
    ----------
    arrays : dict of str to sweep.store.files.ArrayFiles
    """
    found = {name: array for name, array in arrays.items() if array.sharded}
    return dict(sorted(found.items(), key=lambda item: item[0] == variables.SAMPLE_COUNT.name))


def fold_group(
    store: Store, group: str, session: str, row: int, check: WriteCheck = lambda: None
) -> None:
    """Fold the records of a session that a row of shards of a group has.

    Parameters
    ----------
    store : Store
    group : str
        Name of the group.
    session : str
        Name of the session whose records count.
    row : int
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
    """Fold records of a row of shards; what the ledger is to have of it."""
    loaded = 0
    for record in records:
        if loaded < MOST_LOADED:
            loaded += record.load()
        else:
            record.check()
    first, last = min(r.name.first for r in records), max(r.name.last for r in records)
    written: Ledger = {}
    directories: set[Path] = set()
    for array in arrays.values():
        if is_last := array.name == variables.SAMPLE_COUNT.name:
            # All directories before the counts: no count becomes durable before its data. Together,
            # as one flush of a file system's journal serves all of them.
            sync_directories(directories)
        for index in _shards_over_samples(array, row, first, last):
            put = functools.partial(put_records, array.name, records)
            written |= write_shard(array, index, put, ledger, check, syncs_directory=is_last)
        if isinstance(array.directory, Path):
            directories.add(array.directory)
    return written


def _shards_over_samples(array: ArrayFiles, row: int, first: int, last: int) -> Iterator[Index]:
    """The indices of an array's shards that hold a row of shards at some of its samples."""
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
    """Change a shard; what the group's ledger is to have of it.

    Parameters
    ----------
    array : sweep.store.files.ArrayFiles
    index : tuple of int
    change : callable
        Puts values into the `Draft` of it.
    ledger : dict
        That of the group, whose shard must be there as it was written.
    check : callable
        As in `fold_group`.
    lenient : bool
        Whether a shard that is another one, or cannot be read, is taken as far as it can.
    syncs_directory : bool
        As in `put_durably`.
    """
    path, file = path_of_file(array, index), array.file(index)

    def grown(old: bytes | None) -> bytes | None:
        checked = not lenient and array.name != variables.SAMPLE_COUNT.name  # what is lost is as 0
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
    return {} if data is None else {path: entry_of(data)}


# --- sessions --------------------------------------------------------------------------------


def settle(store: Store, lease: Lease) -> None:
    """Fold what an earlier session has left; called right after the lease was acquired.

    Unfinished files are removed first: a writer that still lives then fails at its rename.

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
    """Write the `SessionRecord` of a session, which names the lease holder; returns it.

    Parameters
    ----------
    store : Store
    name : str
        Of the session; empty if it has ended.
    lease : sweep.store.lease.lease.Lease
    """
    id_of_store = store.session.store or secrets.token_hex(16)
    record = SessionRecord(name, id_of_store, lease.token, str(lease.holder))
    put_durably(store.session_file, record.content(), lease.check)
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


def fold_all(
    store: Store, session: str, check: WriteCheck = lambda: None, lenient: bool = False
) -> dict[str, list[Record]]:
    """Fold all records of a session, until there are none; by group those that cannot be folded.

    Parameters
    ----------
    store : Store
    session : str
    check : callable
        As in `fold_group`.
    lenient : bool
        Whether to leave records of rows of shards that are damaged, instead of to raise.
    """
    left: dict[tuple[str, int], list[Record]] = {}
    while True:
        unfolded = unfolded_by_group(list_records(records_folder(store.place)), session)
        waiting = {(group, row) for group, own in unfolded.items() for row in own.records}
        for group, row in sorted(waiting - left.keys()):
            try:
                fold_group(store, group, session, row, check)
            except Damaged:
                if not lenient:
                    raise
                left[group, row] = unfolded[group].records[row]
        if waiting <= left.keys():
            break
    found: dict[str, list[Record]] = {}
    for (group, _), records in left.items():
        found.setdefault(group, []).extend(records)
    return found


def begin_session(store: Store, session: str, lease: Lease, is_new: bool = False) -> SessionRecord:
    """Make a session the one whose records count, and remove the records of earlier ones.

    Only those that were listed before the change, and no checkpoints, from which tasks resume.

    Parameters
    ----------
    store : Store
    session : str
    lease : sweep.store.lease.lease.Lease
    is_new : bool
        Whether this process has just made the store, in which no session was yet.

    Returns
    -------
    sweep.store.lease.holder.SessionRecord
    """
    before, dead = "", list[Record]()
    if not is_new:
        before, dead = store.session_name, list_records(records_folder(store.place), RECORD)
    begun = note_session(store, session, lease)
    if before:  # what came since `settle`, before the session's name
        fold_all(store, before, lease.check)
    for record in dead:
        record.remove()
    return begun


def end_session(store: Store, lease: Lease, checkpoints: bool = False) -> None:
    """End the session, all of whose records are folded: no records count any more.

    Only files that were listed before are removed: a process that was suspended here, and resumes
    when another one holds the lease, removes nothing of that one's.

    Parameters
    ----------
    store : Store
    lease : sweep.store.lease.lease.Lease
    checkpoints : bool
        Whether to remove checkpoints, too, since no run needs them any more.
    """
    left = list_records(records_folder(store.place), None if checkpoints else RECORD)
    if store.session_name:
        note_session(store, "", lease)
    for record in left:
        record.remove()


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
    tasks : iterable of tuple of str and int
        The group and the first row of each task.
    """

    def __init__(
        self, store: Store, session: str, check: WriteCheck, tasks: Iterable[tuple[str, int]]
    ) -> None:
        self._fold = functools.partial(fold_group, store, session=session, check=check)
        self._rows: dict[str, int] = {}  # of a row of shards, by group
        self._left: collections.Counter[tuple[str, int]] = collections.Counter()
        for group, first in tasks:
            if group not in self._rows:
                counts = store.arrays_of_group(group)[variables.SAMPLE_COUNT.name]
                self._rows[group] = counts.chunks[0]
            self._left[group, first // self._rows[group]] += 1
        self._pool = ThreadPoolExecutor(1)
        self._folding: list[Future[None]] = []

    def committed(self, group: str, first: int) -> None:
        """Note that a task has committed; a row of shards is folded after its last one."""
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
