"""A lease in a directory: a file, of which a newcomer becomes the successor by a link.

A dead holder is succeeded, not removed: the newcomer links its own file as ``STORE.lock.TOKEN``,
of the dead one's token, which only one can do, and then renames it to ``STORE.lock``. The holder
is therefore the last of a chain, usually of one; a newcomer that dies halfway is succeeded like
any other. A holder that ends becomes its own successor before it removes the file, so that none is
removed that a newcomer has just taken over. Links are made by link(2), which is atomic on NFS too.
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
    """The file of a lease in a directory: a `sweep.store.lease.lease.LeaseFile`.

    Parameters
    ----------
    path : Path
    holder : sweep.store.lease.holder.LeaseHolder
    """

    def __init__(self, path: Path, holder: LeaseHolder) -> None:
        self.path, self._holder, self._file = path, holder, -1  # it is not open

    @staticmethod
    def current(path: Path) -> LeaseHolder | None:
        """As `LeaseFile.current`: the last of the chain."""
        chain = chain_of_lease_successors(path)
        return chain[-1][0] if chain else None

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """As `LeaseFile.prepared`: makes directories, and removes those that stay empty."""
        above = self.path.parent
        missing = [place for place in (above, *above.parents) if not os.path.lexists(place)]
        try:
            above.mkdir(parents=True, exist_ok=True)
            yield
        finally:
            with contextlib.suppress(OSError):  # something came into them
                for directory in missing:
                    directory.rmdir()

    def take(self, is_over: IsOver) -> bool:
        """As `LeaseFile.take`."""
        taken = self._take(is_over)
        if taken:
            self._file = os.open(self.path, os.O_WRONLY)  # stays ours when another one follows
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
            after.unlink(missing_ok=True)  # another one was first, and has the lease by now
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
        """As `LeaseFile.release`: removes the file, unless a newcomer takes it over just now."""
        found = read_lease_holder(self.path)
        if found is None or found.token != self._holder.token:
            return
        after = _successor_lease_file(self.path, self._holder)
        closing = dataclasses.replace(self._holder, token=secrets.token_hex(4))
        try:
            succeeds_itself = _create_lease_file(after, closing)
        except OSError:  # on a full disk it cannot be asked whether a newcomer was quicker
            succeeds_itself = True
        if succeeds_itself:
            self.path.unlink(missing_ok=True)
            after.unlink(missing_ok=True)


def chain_of_lease_successors(path: Path) -> list[tuple[LeaseHolder, Path]]:
    """The holder that a file names and its successors, each with its file."""
    chain, where = {}, path
    # A file that names itself as its successor, as no holder does, would be an endless chain.
    while where not in chain and (found := read_lease_holder(where)) is not None:
        chain[where] = found
        where = _successor_lease_file(path, found)
    return [(found, where) for where, found in chain.items()]


def _successor_lease_file(path: Path, holder: LeaseHolder) -> Path:
    """The file of the holder's successor, before it takes the place of the lease's."""
    return path.with_name(f"{path.name}.{holder.token}")


def _create_lease_file(path: Path, holder: LeaseHolder) -> bool:
    """Make the holder's file at `path`, complete from the first moment; False if one is there."""
    prepared = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        _write_new_lease_file(prepared, holder.content(0))
        try:
            os.link(prepared, path)
        except FileExistsError:
            return os.path.samefile(prepared, path)  # NFS may do it, and ask again
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
            os.fchmod(file, 0o644)  # others should be able to say who it is
        os.write(file, content)
        os.fsync(file)
    finally:
        os.close(file)
