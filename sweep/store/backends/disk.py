"""Full disks and failing object stores: recognize them, and say what to do about them."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

from sweep.errors import Unreachable
from sweep.store.backends.places import ObjectPlace, Place, place_of_store_name

FULL = (errno.ENOSPC, errno.EDQUOT)


def is_storage_full_or_failing(error: BaseException) -> bool:
    """Whether a disk, or a user's part of it, is full, or a bucket fails."""
    return isinstance(error, Unreachable) or (isinstance(error, OSError) and error.errno in FULL)


def remedy_for_full_storage(error: BaseException) -> str:
    """What to do about it before the same is done again."""
    return "See to it" if isinstance(error, Unreachable) else "Free some"


def explain_storage_failure(path: str | Place, error: BaseException | None = None) -> str:
    """How the bucket fails, or which disk is full, the one that a path is on, and what is left."""
    if isinstance(error, Unreachable):
        return str(error)
    # Of a store in a bucket it is a disk here: where its parts are put together, for example.
    named = place_of_store_name(path)
    if isinstance(named, ObjectPlace):
        path = named = Path(getattr(error, "filename", None) or tempfile.gettempdir())
    place = Path(os.path.realpath(named))
    while not place.exists():
        place = place.parent
    usage = shutil.disk_usage(place)
    while not os.path.ismount(place):
        place = place.parent
    left = f"{usage.free / 1e6:.3g} MB of {usage.total / 1e6:.3g} MB are left"
    return f"the disk at {place}, where {path} is, is full: {left}, or your quota is used up"
