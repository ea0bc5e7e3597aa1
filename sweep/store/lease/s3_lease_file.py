"""A lease in a bucket: one object, written only if it is unchanged or does not exist.

A released lease is an object that says so, since not all servers support conditional removal.
"""

import contextlib
import dataclasses
from collections.abc import Iterator

from sweep.store.backends.places import ObjectPlace
from sweep.store.lease.holder import (
    RELEASED,
    IsOver,
    LeaseHolder,
    parse_lease_holder,
    read_lease_holder,
)


class S3LeaseFile:
    """A lease object in a bucket; implements `sweep.store.lease.lease.LeaseFile`.

    Parameters
    ----------
    path : ObjectPlace
    holder : sweep.store.lease.holder.LeaseHolder
    """

    def __init__(self, path: ObjectPlace, holder: LeaseHolder) -> None:
        self.path, self._holder = dataclasses.replace(path, patient=False), holder
        self._tag: str | None = None

    @staticmethod
    def current(path: ObjectPlace) -> LeaseHolder | None:
        """As `LeaseFile.current`."""
        return read_lease_holder(path)

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """As `LeaseFile.prepared`: checks that the bucket can be written."""
        self.path.check(writes=True)
        yield

    def take(self, is_over: IsOver) -> bool:
        """As `LeaseFile.take`."""
        content, tag = RELEASED, None
        with contextlib.suppress(FileNotFoundError):
            content, tag = self.path.read_tagged()
        if content != RELEASED and not is_over(parse_lease_holder(content), self.path):
            return False
        self._tag = self.path.put_if(self._holder.content(0), tag)
        return self._tag is not None

    def beat(self, beat: int) -> None:
        """As `LeaseFile.beat`; writes nothing if another holder has taken the lease over."""
        self._write(self._holder.content(beat))

    def close(self) -> None:
        """As `LeaseFile.close`."""

    def release(self) -> None:
        """As `LeaseFile.release`: marks the object, unless a newcomer has taken it over."""
        self._write(RELEASED)

    def _write(self, content: bytes) -> None:
        tag = self.path.put_if(content, self._tag)
        if tag is None:
            found, now = self.path.read_tagged()
            # An earlier heartbeat that seemed to fail was written after all.
            if parse_lease_holder(found).token == self._holder.token:
                tag = self.path.put_if(content, now)
        self._tag = tag or self._tag
