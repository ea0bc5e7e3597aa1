"""The ledger of a group: the files that were written into it, each with its size and a checksum.

Zarr reads a file that is missing as blank, and one that comes from another place or time as if it
were right; with the ledger both are noticed. Shards only grow at their end, so that a shard which a
process has grown, and was killed before it wrote the ledger, still begins with what that says.
"""

import json
import zlib
from collections.abc import Iterable

from sweep.errors import Damaged
from sweep.store.backends.places import METADATA, Place, WriteCheck, files_below, map_over_place
from sweep.store.commit.records import put_durably
from sweep.store.files import ArrayFiles, Index, end_checkpoints_group_name, seal, unreadable
from sweep.store.store import Store

LEDGERS = "folded"  # with a file for each group
Ledger = dict[str, tuple[int, int]]  # by path below the store: bytes, and their CRC-32


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


def entry_of(data: bytes) -> tuple[int, int]:
    """What a ledger says of a file with these bytes."""
    return len(data), zlib.crc32(data)  # not as in chunks: of one with its checksum, that is fixed


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


def note_coordinates(
    store: Store, groups: Iterable[str], check: WriteCheck | None, shards: bool = False
) -> None:
    """Write into the ledgers what the coordinator has written: all but shards.

    Parameters
    ----------
    store : Store
    groups : iterable of str
    check : callable or None
        As in `put_durably`.
    shards : bool
        Whether to note shards as well, of a group that has lost its ledger.
    """
    for group in groups:
        own = (group, end_checkpoints_group_name(group)) if shards else (group,)
        below = {f"{name}/{path}" for name in own for path in files_below(store.place / name)}
        ending = f"/{METADATA}"
        names = {path.removesuffix(ending) for path in below if path.endswith(ending)} - {*own}
        arrays = [ArrayFiles.read(store.place / name) for name in sorted(names)]
        plain = {array.path for array in arrays if shards or not array.sharded}
        paths = sorted(path for path in below - {f"{name}{ending}" for name in names}
                       if path.rpartition("/")[0] in plain)  # fmt: skip
        read = map_over_place(
            store.place, lambda path: entry_of((store.place / path).read_bytes()), paths
        )
        note_files(store, group, dict(zip(paths, read, strict=True)), check)


def missing_files(store: Store, group: str, paths: set[str]) -> list[str]:
    """The files that a ledger has and that do not exist, nor did when `paths` were listed."""
    known = sorted(ledger_of_group(store, group))
    return [path for path in known if path not in paths and not (store.place / path).is_file()]


def check_files_are_there(store: Store, group: str, paths: set[str] | None = None) -> None:
    """Raise `Damaged` if files of a group are missing that were written: results or coordinates.

    Parameters
    ----------
    store : Store
    group : str
    paths : set of str, optional
        Files of the store, relative to it; they are listed unless given.
    """
    if paths is None:
        groups = group, end_checkpoints_group_name(group)
        paths = {f"{own}/{path}" for own in groups for path in files_below(store.place / own)}
    if missing := missing_files(store, group, paths):
        more = f", and {len(missing) - 1:,} others" * (len(missing) > 1)
        raise Damaged(f"{missing[0]} is not there{more}")
