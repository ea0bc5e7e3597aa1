"""A disk that is full: known as such, and said plainly."""

import errno
import os
import shutil
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)


def is_full(error):
    """Whether an exception says that a disk, or a user's part of it, is full."""
    return isinstance(error, OSError) and error.errno in FULL


def full(path):
    """What is said of the full disk that a path is on: which one, and what is left of it."""
    place = Path(os.path.realpath(path))
    while not place.exists():
        place = place.parent
    usage = shutil.disk_usage(place)
    while not os.path.ismount(place):
        place = place.parent
    left = f"{usage.free / 1e6:.3g} MB of {usage.total / 1e6:.3g} MB are left"
    return f"the disk at {place}, where {path} is, is full: {left}, or your quota is used up"
