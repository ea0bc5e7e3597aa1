"""The directory of compiled kernels, which only this user can write.

Compiled kernels are pickles: whoever can write one runs code as the user who reads it. A directory
that others could write or replace is not used, even if the user configured it.
"""

import atexit
import functools
import os
import shutil
import stat
import sys
import tempfile
import threading
from pathlib import Path

from integrators.compiler.ownership import make_private, why_shared

NAMED = "GEOSWEEP_CACHE_DIR"
HANDED = "GEOSWEEP_PRIVATE_CACHE"  # a temporary one, for the processes that this one starts
KERNELS = "kernels"
_making = threading.Lock()


def cache_root(inner: str = "") -> Path:
    """The directory of compiled kernels, which is there and this user's alone.

    In ``GEOSWEEP_CACHE_DIR``, else in the user's cache directory. If that cannot be written, or
    others can write it, in a temporary one of this process and those that it starts.

    Parameters
    ----------
    inner : str, optional
        Name of a subdirectory to return, which need not exist.

    Returns
    -------
    Path
    """
    root = _configured_directory()
    why = "" if root is None else _why_refused(root, inner)
    if root is None or why or not _is_usable(root) or (why := _why_refused(root, inner)):
        root = _temporary_directory(why)
    return root / inner


def _configured_directory() -> Path | None:
    """The directory that the user configured, or the system's default; None without a home."""
    if named := os.environ.get(NAMED):
        return Path(named).absolute() / KERNELS
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without an entry
        return None
    return base.absolute() / "geosweep" / KERNELS


def _why_refused(root: Path, inner: str) -> str:
    return why_shared(root.parent) or why_shared(root) or (inner and why_shared(root / inner))


@functools.cache
def _is_usable(root: Path) -> bool:
    """Create the directory if it is missing, and return whether it can be written."""
    try:
        make_private(root)
        if root.stat().st_mode & 0o077:
            root.chmod(0o700)  # files in it may be writable by a group
        tempfile.TemporaryFile(dir=root).close()
    except OSError:
        return False
    return True


def _temporary_directory(why: str) -> Path:
    """A directory of this process and those that it starts, which is made when it is needed."""
    with _making:
        handed = os.environ.get(HANDED)
        if not handed or not _is_private_directory(handed):
            handed = os.environ[HANDED] = tempfile.mkdtemp(prefix="geosweep-")
            atexit.register(_remove_in_same_process, handed, os.getpid())
            if why:
                _warn_of_temporary_directory(why, handed)
    root = Path(handed) / KERNELS
    make_private(root)
    return root


def _is_private_directory(directory: str) -> bool:
    """Whether a temporary directory is there, and this user's alone."""
    try:
        status = os.lstat(directory)
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & 0o077
    )


def _warn_of_temporary_directory(why: str, instead: str) -> None:
    print(
        f"Warning: {why}: compiled kernels are not kept there, where whoever can write one runs "
        f"code as you, but in {instead} until this process ends. Mend that, or name a directory "
        f"of your own in {NAMED}",
        file=sys.stderr,
    )


def _remove_in_same_process(directory: str, process: int) -> None:
    if os.getpid() == process:  # and not one that was forked from it
        shutil.rmtree(directory, ignore_errors=True)
