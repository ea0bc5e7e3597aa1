"""The two kinds of locks of `sweep.store.lease.lease`: a file, and an object of a bucket.

Each can be taken, beaten and released by one `Holder`; all that is written of it stays as long as
nobody else has taken it over.
"""

import contextlib
import dataclasses
import os
import secrets

from sweep.store.lease.holder import (
    RELEASED,
    chain_of,
    counter_line,
    create,
    first_line,
    parsed,
    read,
    successor_of,
)


class FileLock:
    """A file, of which a newcomer becomes the successor by a link.

    Parameters
    ----------
    path : Path
    holder : sweep.store.lease.holder.Holder
    """

    def __init__(self, path, holder):
        self.path, self._holder, self._file = path, holder, None

    def take(self, is_over):
        """Whether it is taken; if not, others have changed it meanwhile.

        Parameters
        ----------
        is_over : callable
            Says of a `Holder` and its file whether it is dead; raises if it lives.
        """
        taken = self._take(is_over)
        if taken:
            self._file = os.open(self.path, os.O_WRONLY)  # stays ours when another one follows
        return taken

    def _take(self, is_over):
        chain = chain_of(self.path)
        if not chain:
            return create(self.path, self._holder)
        (first, _), (last, where) = chain[0], chain[-1]
        after = successor_of(self.path, last)
        if not is_over(last, where) or not create(after, self._holder):
            return False
        if (now := read(self.path)) is None or now.token != first.token:
            after.unlink(missing_ok=True)  # another one was first, and has the lock by now
            return False
        after.replace(self.path)
        for _, path in chain[1:]:
            path.unlink(missing_ok=True)
        return True

    def beat(self, beat):
        """Write the counter."""
        os.pwrite(self._file, counter_line(beat), len(first_line(self._holder)))
        os.fsync(self._file)

    def close(self):
        """No further beat follows."""
        os.close(self._file)

    def release(self):
        """Remove it, unless a newcomer takes it over just now."""
        after = successor_of(self.path, self._holder)
        if self._succeeds_itself(after):
            self.path.unlink(missing_ok=True)
            after.unlink(missing_ok=True)

    def _succeeds_itself(self, after):
        """Whether no newcomer was quicker; on a full disk that cannot be asked."""
        try:
            closing = dataclasses.replace(self._holder, token=secrets.token_hex(4))
            return create(after, closing)
        except OSError:
            return True


class ObjectLock:
    """An object, written only where it is what it was.

    Parameters
    ----------
    path : ObjectPlace
    holder : sweep.store.lease.holder.Holder
    """

    def __init__(self, path, holder):
        self.path, self._holder, self._tag = dataclasses.replace(path, patient=False), holder, None

    def take(self, is_over):
        """As `FileLock.take`."""
        content, tag = RELEASED, None
        with contextlib.suppress(FileNotFoundError):
            content, tag = self.path.read_tagged()
        if content != RELEASED and not is_over(parsed(content), self.path):
            return False
        self._tag = self.path.put_if(self._content(0), tag)
        return self._tag is not None

    def beat(self, beat):
        """Write the counter; nothing if another one has taken it over."""
        self._write(self._content(beat))

    def close(self):
        """No further beat follows."""

    def release(self):
        """Say in it that it is released, unless a newcomer has taken it over."""
        self._write(RELEASED)

    def _write(self, content):
        tag = self.path.put_if(content, self._tag)
        if tag is None:
            found, now = self.path.read_tagged()
            if parsed(found).token == self._holder.token:  # a beat that seemed to fail came through
                tag = self.path.put_if(content, now)
        self._tag = tag or self._tag

    def _content(self, beat):
        return first_line(self._holder) + counter_line(beat)
