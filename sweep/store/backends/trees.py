"""Small files and whole trees of either kind of place: written, copied, removed."""

import fnmatch
import os
import secrets
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from sweep.store.backends.places import (
    METADATA,
    ObjectPlace,
    Place,
    WriteCheck,
    map_over_place,
    path_below,
)


def write_text_atomically(file: Place, text: str) -> None:
    """Write a small file that is there whole, or not at all."""
    if isinstance(file, ObjectPlace):
        file.write_text(text)
        return
    partial = file.with_name(f"{file.name}.{secrets.token_hex(4)}.partial")
    try:
        partial.write_text(text)
        partial.rename(file)
    except OSError:  # of a full disk, which the next try would only fill more
        partial.unlink(missing_ok=True)
        raise


def remove_tree(place: Place, ignore_errors: bool = False, but: Place | None = None) -> None:
    """Remove a place and all that is below; `but` one object."""
    if isinstance(place, ObjectPlace):
        if keys := [found.key for found in place.walk() if found != but]:
            place.delete(keys)
        return
    try:
        shutil.rmtree(place, ignore_errors=ignore_errors)
    except FileNotFoundError:  # a write that was cut short came to its end just then
        if not place.exists():
            raise
        shutil.rmtree(place)


def copy_tree(
    source: Place, target: Place, ignore: Sequence[str] = (), check: WriteCheck = lambda: None
) -> None:
    """Copy all that is below a place, but for files of some names; ``zarr.json`` of the top last.

    Parameters
    ----------
    source, target : Path or ObjectPlace
    ignore : sequence of str
        Patterns.
    check : callable
        Called before that one, by which a store appears in a bucket; it may raise.
    """
    if isinstance(source, Path) and isinstance(target, Path):
        shutil.copytree(os.path.realpath(source), target, ignore=shutil.ignore_patterns(*ignore))
        return

    def copied(file: Place) -> None:
        if isinstance(file, ObjectPlace) and isinstance(target, ObjectPlace):
            file.copy(target / path_below(file, source))
            return
        into = target / path_below(file, source)
        into.parent.mkdir(parents=True, exist_ok=True)
        into.write_bytes(file.read_bytes())

    every = [
        file
        for file in _files_below_place(source)
        if file != source / METADATA and not any(fnmatch.fnmatch(file.name, one) for one in ignore)
    ]
    map_over_place(target if isinstance(target, ObjectPlace) else source, copied, every)
    check()
    copied(source / METADATA)


def _files_below_place(place: Place) -> Iterable[Place]:
    if isinstance(place, ObjectPlace):
        return place.walk()
    return (file for file in place.rglob("*") if file.is_file())
