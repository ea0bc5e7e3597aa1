"""A disk that is full, an object store that fails: known as such, and said plainly."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

from sweep.places import ObjectPlace, Unreachable, place_of

FULL = (errno.ENOSPC, errno.EDQUOT)


def is_full(error):
    """Whether an exception says that a disk, or a user's part of it, is full; or of a bucket so."""
    return isinstance(error, Unreachable) or (isinstance(error, OSError) and error.errno in FULL)


def mend(error):
    """What to do about it before the same is done again."""
    return "See to it" if isinstance(error, Unreachable) else "Free some"


def full(path, error=None):
    """What is said of the full disk that a path is on: which one, and what is left of it."""
    if isinstance(error, Unreachable):
        return str(error)
    if isinstance(place_of(path), ObjectPlace):  # where its parts are put together, for example
        path = getattr(error, "filename", None) or tempfile.gettempdir()
    place = Path(os.path.realpath(path))
    while not place.exists():
        place = place.parent
    usage = shutil.disk_usage(place)
    while not os.path.ismount(place):
        place = place.parent
    left = f"{usage.free / 1e6:.3g} MB of {usage.total / 1e6:.3g} MB are left"
    return f"the disk at {place}, where {path} is, is full: {left}, or your quota is used up"
