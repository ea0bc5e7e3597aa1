"""The ledger of a group: the files that were written into it, each with its size and a checksum.

Zarr reads a file that is missing as blank, and one that comes from another place or time as if it
were right; with the ledger both are noticed. Shards only grow at their end, so that a shard which a
process has grown, and was killed before it wrote the ledger, still begins with what that says.
"""

import contextlib
import json
from collections.abc import Iterable

from sweep.errors import Damaged
from sweep.store.backends.places import METADATA, Place, WriteCheck, files_below, map_over_place
from sweep.store.commit.records import Ledger, entry_of, put_durably
from sweep.store.files import (
    ArrayFiles,
    Index,
    end_checkpoints_group_name,
    read_zarr_metadata,
    seal,
    unreadable,
)
from sweep.store.store import Store

LEDGERS = "folded"  # with a file for each group


def ledger_file(store: Store, group: str) -> Place:
    """The file of a group's ledger."""
    return store.internal(LEDGERS, f"{group}.json")


def ledger_of_group(store: Store, group: str) -> Ledger:
    """The ledger of a group; empty if nothing was written into it.

    Raises
    ------
    Damaged
        If it is not what was written.
    """
    file = ledger_file(store, group)
    try:
        found = json.loads(file.read_bytes())
        if seal([group, found["files"]]) == found["seal"]:
            return {path: (size, checksum) for path, (size, checksum) in found["files"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise unreadable(file, error) from None
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
    """Write into a group's ledger what was written, and what is gone; the new ledger."""
    old = ledger_of_group(store, group)
    new = {path: known for path, known in (old | written).items() if path not in set(gone)}
    if new != old:
        text = json.dumps({"seal": seal([group, new]), "files": new}, sort_keys=True)
        put_durably(ledger_file(store, group), text.encode(), check)
    return new


def is_as_written(known: tuple[int, int] | None, data: bytes | None) -> bool:
    """Whether a file begins with what a ledger says of it; also if that says nothing."""
    return known is None or (data is not None and entry_of(data[: known[0]]) == known)


def path_of_file(array: ArrayFiles, index: Index) -> str:
    """The path below the store of an array's file, by which a ledger has it."""
    return f"{array.path}/{array.file_name(index)}"


def is_growing(store: Store, experiment: str) -> bool:
    """Whether the growth of an experiment is under way, or was cut short.

    From its first change on it is without copies of the metadata of what is below it.
    """
    with contextlib.suppress(Damaged):
        return "consolidated_metadata" not in read_zarr_metadata(store.place / experiment)
    return False


def note_coordinates(
    store: Store, groups: Iterable[str], check: WriteCheck | None, written: Ledger | None = None
) -> None:
    """Write into the ledgers what the coordinator has written: coordinates and initial states.

    Parameters
    ----------
    store : Store
    groups : iterable of str
    check : callable or None
        As in `put_durably`.
    written : dict, optional
        What was written, as of `PlaceStore.written`; read from all files unless given, as where
        others were written before by a process that was cut short.
    """
    for group in groups:
        of_group = read_all_files(store, group) if written is None else written
        mine = {path: own for path, own in of_group.items() if path.startswith(f"{group}/")}
        note_files(store, group, mine, check)


def read_all_files(store: Store, group: str, shards: bool = False) -> Ledger:
    """What a ledger says of the files of a group as they are now; of its `shards` too, or not."""
    found = store.anew().arrays_of_group(group).values()
    paths = [
        f"{array.path}/{name}"
        for array in found
        if shards or not array.sharded
        for name in sorted(files_below(array.directory) - {METADATA})
    ]
    read = map_over_place(
        store.place, lambda path: entry_of((store.place / path).read_bytes()), paths
    )
    return dict(zip(paths, read, strict=True))


def check_files_are_there(store: Store, group: str, paths: set[str] | None = None) -> Ledger:
    """Check that the files of a group are there that were written; its ledger.

    Parameters
    ----------
    store : Store
    group : str
    paths : set of str, optional
        Files of the store, relative to it; they are listed unless given.

    Raises
    ------
    Damaged
        If one is missing.
    """
    if paths is None:
        groups = group, end_checkpoints_group_name(group)
        paths = {f"{own}/{path}" for own in groups for path in files_below(store.place / own)}
    ledger = ledger_of_group(store, group)
    # Those that came since the listing are there, too.
    missing = [path for path in sorted(ledger.keys() - paths) if not (store.place / path).is_file()]
    if missing:
        more = f", and {len(missing) - 1:,} others" * (len(missing) > 1)
        raise Damaged(f"{missing[0]} is not there{more}")
    return ledger
