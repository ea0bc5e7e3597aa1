"""Small files and whole trees of either kind of place: written, copied, removed."""

import secrets
import shutil
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


def upload_tree(source: Path, target: ObjectPlace, check: WriteCheck) -> None:
    """Copy all that is below a directory into a bucket; ``zarr.json`` of the top last.

    Parameters
    ----------
    source : Path
    target : ObjectPlace
    check : callable
        Called before that one, by which a store appears in a bucket; it may raise.
    """
    top = source / METADATA

    def copied(file: Path) -> None:
        (target / path_below(file, source)).write_bytes(file.read_bytes())

    map_over_place(target, copied, [f for f in source.rglob("*") if f.is_file() and f != top])
    check()
    copied(top)
