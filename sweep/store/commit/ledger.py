"""The ledger of a group: the files that were written into it, each with its size and a checksum.

Zarr reads a missing file as blank, and accepts a file that was copied from another place or an
older store; the ledger reveals both. Shards only grow at their end: if a process is killed after it
has extended a shard and before it has written the ledger, the shard still begins with the bytes
that the ledger describes.
"""

import contextlib
import json
from collections.abc import Iterable

from sweep.errors import Damaged
from sweep.store.backends.places import METADATA, Place, WriteCheck, files_below, map_over_place
from sweep.store.commit.records import Ledger, ledger_entry, put_durably
from sweep.store.files import (
    ArrayFiles,
    Index,
    checksum_of_json,
    end_checkpoints_group_name,
    read_zarr_metadata,
    unreadable_file_error,
)
from sweep.store.store import Store

LEDGERS = "folded"  # folder with a file for each group


def ledger_file(store: Store, group: str) -> Place:
    """The file of a group's ledger."""
    return store.internal(LEDGERS, f"{group}.json")


def ledger_of_group(store: Store, group: str) -> Ledger:
    """Read the ledger of a group; empty if nothing was written into the group.

    Raises
    ------
    Damaged
        If the ledger fails its checksum.
    """
    file = ledger_file(store, group)
    try:
        found = json.loads(file.read_bytes())
        if checksum_of_json([group, found["files"]]) == found["seal"]:
            return {path: (size, checksum) for path, (size, checksum) in found["files"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise unreadable_file_error(file, error) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise Damaged("is not what was written: it fails its checksum", str(file))


def note_files(
    store: Store,
    group: str,
    written: Ledger,
    check: WriteCheck | None = None,
    gone: Iterable[str] = (),
) -> Ledger:
    """Add written files to a group's ledger and remove others from it.

    Parameters
    ----------
    store : Store
    group : str
    written : dict
        Entries of new and changed files, by path.
    check : callable, optional
        As in `put_durably`.
    gone : iterable of str
        Paths of files that were removed.

    Returns
    -------
    dict
        The new ledger.
    """
    old = ledger_of_group(store, group)
    new = {path: known for path, known in (old | written).items() if path not in set(gone)}
    if new != old:
        text = json.dumps({"seal": checksum_of_json([group, new]), "files": new}, sort_keys=True)
        put_durably(ledger_file(store, group), text.encode(), check)
    return new


def is_as_written(known: tuple[int, int] | None, data: bytes | None) -> bool:
    """Whether a file begins as its ledger entry says; True if it has no entry."""
    return known is None or (data is not None and ledger_entry(data[: known[0]]) == known)


def path_of_file(array: ArrayFiles, index: Index) -> str:
    """The path of an array's file below the store, which is its key in the ledger."""
    return f"{array.path}/{array.file_name(index)}"


def is_growing(store: Store, experiment: str) -> bool:
    """Whether an experiment is growing, or its growth was interrupted.

    From the first change to the last, its group has no consolidated metadata.
    """
    with contextlib.suppress(Damaged):
        return "consolidated_metadata" not in read_zarr_metadata(store.place / experiment)
    return False


def note_coordinates(
    store: Store, groups: Iterable[str], check: WriteCheck | None, written: Ledger | None = None
) -> None:
    """Add the files that the coordinator has written to the ledgers: coordinates, initial states.

    Parameters
    ----------
    store : Store
    groups : iterable of str
    check : callable or None
        As in `put_durably`.
    written : dict, optional
        Entries of the written files, see `PlaceStore.written`. By default all files are read, which
        is necessary after an interrupted growth.
    """
    for group in groups:
        of_group = read_all_files(store, group) if written is None else written
        mine = {path: own for path, own in of_group.items() if path.startswith(f"{group}/")}
        note_files(store, group, mine, check)


def read_all_files(store: Store, group: str, shards: bool = False) -> Ledger:
    """Read all files of a group and make their ledger entries, with or without `shards`."""
    found = store.anew().arrays_of_group(group).values()
    paths = [
        f"{array.path}/{name}"
        for array in found
        if shards or not array.sharded
        for name in sorted(files_below(array.directory) - {METADATA})
    ]
    read = map_over_place(
        store.place, lambda path: ledger_entry((store.place / path).read_bytes()), paths
    )
    return dict(zip(paths, read, strict=True))


def check_files_are_there(store: Store, group: str, paths: set[str] | None = None) -> Ledger:
    """Check that all files in the ledger of a group exist, and return the ledger.

    Parameters
    ----------
    store : Store
    group : str
    paths : set of str, optional
        The files of the store, relative to it; by default they are listed.

    Returns
    -------
    dict

    Raises
    ------
    Damaged
        If a file is missing.
    """
    if paths is None:
        groups = group, end_checkpoints_group_name(group)
        paths = {f"{own}/{path}" for own in groups for path in files_below(store.place / own)}
    ledger = ledger_of_group(store, group)
    # Files that were written after the listing exist, too.
    missing = [path for path in sorted(ledger.keys() - paths) if not (store.place / path).is_file()]
    if missing:
        more = f", and {len(missing) - 1:,} others" * (len(missing) > 1)
        raise Damaged(f"{missing[0]} is not there{more}")
    return ledger
