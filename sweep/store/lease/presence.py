"""Whether the store that a run writes to still exists, and is still the same one.

People move and delete stores while a run writes to them. Then the run's messages about the store
must be true, and nothing may be written into another store at its path.
"""

import contextlib
from collections.abc import Iterator

from sweep.errors import Interrupted, StoreLost
from sweep.store.backends.places import METADATA, Place
from sweep.store.lease.holder import SessionRecord
from sweep.store.store import Store


class Presence:
    """The store of a run, watched from its beginning on.

    Parameters
    ----------
    store : sweep.store.store.Store
        It need not exist yet.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._was_there = store, False
        self._id = ""  # that the store has in its sessions

    def note_store(self) -> None:
        """Note that the store exists."""
        self._was_there = True

    def begun(self, session: SessionRecord) -> None:
        """Note the session that `sweep.store.commit.fold` has begun in the store."""
        self._was_there, self._id = True, session.store

    def ended(self) -> None:
        """Note that the session has ended."""
        self._id = ""

    def lost(self) -> str:
        """The message that the store was moved, deleted or replaced; empty if it was not."""
        if self._was_there and _is_file_missing(self._store.place / METADATA):
            return (
                f"the store {self._store} is gone: it was moved or deleted while this run wrote to "
                "it. If it was moved, move it back, and the same command goes on from what it "
                "holds; if it was deleted, the same command computes everything again"
            )
        if self._id and not self._is_same(if_unknown=True):
            return (
                f"the store {self._store} is another one than this run wrote to: that was moved or "
                "deleted, and this one put in its place. If it was moved, move it back, and the "
                "same command goes on from what it holds; or see what is there: "
                f"`sweep status {self._store}`"
            )
        return ""

    def _is_same(self, if_unknown: bool) -> bool:
        """Whether the store at its place has the same id, also if another process took it over."""
        try:
            return self._store.session.store == self._id
        except OSError:
            return if_unknown

    def check(self) -> None:
        """Raise `StoreLost` if the store was moved, deleted or replaced."""
        if self._id and self._is_same(if_unknown=False):
            return
        if text := self.lost():
            raise StoreLost(text)

    @contextlib.contextmanager
    def noticed(self) -> Iterator[None]:
        """Turn errors into `StoreLost` where a missing store caused them; a context manager."""
        try:
            yield
        except (Interrupted, StoreLost):
            raise
        except Exception as error:
            if text := self.lost():
                raise StoreLost(text) from error
            raise


def _is_file_missing(file: Place) -> bool:
    """Whether a file is known not to be there; an error of the file system says nothing."""
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
