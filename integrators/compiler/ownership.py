"""Whether a path is this user's alone: nobody else can write it, or put another in its place."""

import contextlib
import grp
import os
import pwd
import stat
from pathlib import Path

MOST_LINKS = 40  # symbolic links on one way, as the kernel counts


def why_shared(path: str | Path) -> str:
    """Reason why other users can write to a path or replace it; empty if none can.

    As ssh does with StrictModes, all directories from the root down are looked at. They, and
    symbolic links on the way, have to be this user's or root's, and no others may write to them
    unless these may not rename what is there (the sticky bit of ``/tmp``). What the path leads to
    has to be this user's, and no group may write it. What is not there yet is nobody's.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    str
        The reason, such as ``/scratch/kernels belongs to user 1001``.
    """
    left, here, links = list(reversed(Path(path).absolute().parts[1:])), Path("/"), 0
    while True:
        try:
            status = os.lstat(here)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            return f"{here} cannot be looked at: {error.strerror}"
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if status.st_uid not in _trusted_owners() or links > MOST_LINKS:
                return f"{here} is a symbolic link of user {status.st_uid}"
            target = Path(os.readlink(here))
            left += reversed(target.parts[target.is_absolute() :])
            here = Path("/") if target.is_absolute() else here.parent
            continue
        if not left:
            return _why_not_own(here, status)
        if why := _why_swapped(here, status):
            return why
        part = left.pop()
        here = here.parent if part == ".." else here / part


def _trusted_owners() -> set[int]:
    """Users who may own directories on the path: this one, root, and the owner of ``/``."""
    return {os.geteuid(), 0, os.lstat("/").st_uid}


def _why_not_own(path: Path, status: os.stat_result) -> str:
    if status.st_uid != os.geteuid():
        return f"{path} belongs to user {status.st_uid}"
    if status.st_mode & 0o022:
        return f"{path} may be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return ""


def _why_swapped(directory: Path, status: os.stat_result) -> str:
    """Reason why others can rename entries of a directory on the path; empty if they cannot."""
    if status.st_uid not in _trusted_owners():
        return f"{directory} belongs to user {status.st_uid}"
    by_group = status.st_mode & 0o020 and not _is_own_group(status.st_gid)
    if (by_group or status.st_mode & 0o002) and not status.st_mode & stat.S_ISVTX:
        return f"{directory} may be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return ""


def _is_own_group(gid: int) -> bool:
    """Whether a group is the one that many systems make for each user, with nobody else in it."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    own = gid == user.pw_gid and group.gr_name == user.pw_name
    return own and set(group.gr_mem) <= {user.pw_name}


def make_private(directory: Path) -> None:
    """Create a directory and its missing parents, for this user alone.

    Parameters
    ----------
    directory : Path

    Raises
    ------
    OSError
        If it cannot be made.
    """
    if not directory.is_dir():
        make_private(directory.parent)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
