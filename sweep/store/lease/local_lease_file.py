"""A lease in a directory: a file, in which a newcomer succeeds a dead holder by a hard link.

The file of a dead holder is not removed. The newcomer links its own file as ``STORE.lock.TOKEN``,
with the token of the dead holder, which only one process can do, and then renames it to
``STORE.lock``. The lease holder is thus the last in a chain of successors, which usually has one
member; a newcomer that dies halfway is succeeded in the same way. A holder that ends first becomes
its own successor and then removes the file, so that it cannot remove the file of a newcomer that
has just taken over. Links are made by link(2), which is atomic on NFS, too.
"""

import contextlib
import dataclasses
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from sweep.store.lease.holder import (
    IsOver,
    LeaseHolder,
    heartbeat_counter_line,
    lease_holder_line,
    read_lease_holder,
)

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class LocalLeaseFile:
    """A lease file in a directory; implements `sweep.store.lease.lease.LeaseFile`.

    Parameters
    ----------
    path : Path
    holder : sweep.store.lease.holder.LeaseHolder
    """

    def __init__(self, path: Path, holder: LeaseHolder) -> None:
        self.path, self._holder, self._file = path, holder, -1  # -1: not open

    @staticmethod
    def current(path: Path) -> LeaseHolder | None:
        """As `LeaseFile.current`: the last holder in the chain."""
        chain = chain_of_lease_successors(path)
        return chain[-1][0] if chain else None

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """As `LeaseFile.prepared`: creates directories, and removes those that stay empty."""
        above = self.path.parent
        missing = [place for place in (above, *above.parents) if not os.path.lexists(place)]
        try:
            above.mkdir(parents=True, exist_ok=True)
            yield
        finally:
            with contextlib.suppress(OSError):  # not empty
                for directory in missing:
                    directory.rmdir()

    def take(self, is_over: IsOver) -> bool:
        """As `LeaseFile.take`."""
        taken = self._take(is_over)
        if taken:
            self._file = os.open(self.path, os.O_WRONLY)  # ours, whoever follows
        return taken

    def _take(self, is_over: IsOver) -> bool:
        chain = chain_of_lease_successors(self.path)
        if not chain:
            return _create_lease_file(self.path, self._holder)
        (first, _), (last, where) = chain[0], chain[-1]
        after = _successor_lease_file(self.path, last)
        if not is_over(last, where) or not _create_lease_file(after, self._holder):
            return False
        if (now := read_lease_holder(self.path)) is None or now.token != first.token:
            after.unlink(missing_ok=True)  # another process was first, and holds the lease by now
            return False
        after.replace(self.path)
        for _, path in chain[1:]:
            path.unlink(missing_ok=True)
        return True

    def beat(self, beat: int) -> None:
        """As `LeaseFile.beat`."""
        os.pwrite(self._file, heartbeat_counter_line(beat), len(lease_holder_line(self._holder)))
        os.fsync(self._file)

    def close(self) -> None:
        """As `LeaseFile.close`."""
        os.close(self._file)

    def release(self) -> None:
        """As `LeaseFile.release`: removes the file, unless a newcomer is just taking it over."""
        found = read_lease_holder(self.path)
        if found is None or found.token != self._holder.token:
            return
        after = _successor_lease_file(self.path, self._holder)
        closing = dataclasses.replace(self._holder, token=secrets.token_hex(4))
        try:
            succeeds_itself = _create_lease_file(after, closing)
        except OSError:  # on a full disk no link can be made to exclude newcomers
            succeeds_itself = True
        if succeeds_itself:
            self.path.unlink(missing_ok=True)
            after.unlink(missing_ok=True)


def chain_of_lease_successors(path: Path) -> list[tuple[LeaseHolder, Path]]:
    """The holder that a file names and its successors, each with its file."""
    chain, where = {}, path
    # Guards against a forged file that names itself as its successor.
    while where not in chain and (found := read_lease_holder(where)) is not None:
        chain[where] = found
        where = _successor_lease_file(path, found)
    return [(found, where) for where, found in chain.items()]


def _successor_lease_file(path: Path, holder: LeaseHolder) -> Path:
    """The file of a holder's successor, before it is renamed to the lease file."""
    return path.with_name(f"{path.name}.{holder.token}")


def _create_lease_file(path: Path, holder: LeaseHolder) -> bool:
    """Create a holder's file atomically at `path`; False if there is a file already."""
    prepared = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        _write_new_lease_file(prepared, holder.content(0))
        try:
            os.link(prepared, path)
        except FileExistsError:
            return os.path.samefile(prepared, path)  # NFS may retry a link that it made
        return True
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        try:
            _write_new_lease_file(path, holder.content(0))
        except FileExistsError:
            return False
        return True
    finally:
        with contextlib.suppress(OSError):
            prepared.unlink()


def _write_new_lease_file(path: Path, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        with contextlib.suppress(OSError):
            os.fchmod(file, 0o644)  # others should be able to see who holds the lease
        os.write(file, content)
        os.fsync(file)
    finally:
        os.close(file)
