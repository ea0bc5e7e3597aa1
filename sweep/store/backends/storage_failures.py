"""Full disks and failing object stores: recognize and explain them."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

from sweep.errors import Unreachable
from sweep.store.backends.places import ObjectPlace, Place, place_of_store_name

FULL = (errno.ENOSPC, errno.EDQUOT)


def is_storage_full_or_failing(error: BaseException) -> bool:
    """Whether an error means that a disk or quota is full, or that a bucket fails."""
    return isinstance(error, Unreachable) or (isinstance(error, OSError) and error.errno in FULL)


def remedy_for_full_storage(error: BaseException) -> str:
    """What the user should do before repeating the command, as the beginning of a sentence."""
    return "See to it" if isinstance(error, Unreachable) else "Free some"


def explain_storage_failure(path: str | Place, error: BaseException | None = None) -> str:
    """Explain in words how the bucket fails, or which disk is full and what is left on it.

    Parameters
    ----------
    path : str, Path or ObjectPlace
        What was written; its disk is the full one.
    error : Exception, optional
        The error that was raised.

    Returns
    -------
    str
    """
    if isinstance(error, Unreachable):
        return str(error)
    # If the store is in a bucket, a local disk is full, such as that of temporary files.
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
