"""Whether the store that a run writes to is still there, and is still the same one.

Stores are moved and deleted by people who do not know that they are written to. What a run says of
such a store has to be true, and nothing of it may come into another one at its path.
"""

import contextlib
from collections.abc import Iterator

from sweep.errors import Interrupted, StoreLost
from sweep.store.backends.places import METADATA, Place
from sweep.store.lease.lease import is_lease_held_by_another
from sweep.store.lease.sessions import Session
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
        self._session: Session | None = None

    def seen(self) -> None:
        """It is there."""
        self._was_there = True

    def begun(self, session: "Session") -> None:
        """From now on it is the store of a session that `sweep.store.commit.fold` has begun."""
        self._was_there, self._session = True, session

    def ended(self) -> None:
        """The session has ended; its store may be written to by others."""
        self._session = None

    def lost(self) -> str:
        """What is to be said of the store if it is not there any more; empty if it is."""
        if self._was_there and _is_file_missing(self._store.place / METADATA):
            return (
                f"the store {self._store} is gone: it was moved or deleted while this run wrote to "
                "it. If it was moved, move it back, and the same command goes on from what it "
                "holds; if it was deleted, the same command computes everything again"
            )
        if self._session is not None and self._is_another(self._session):
            return (
                f"the store {self._store} is another one than this run wrote to: that was moved or "
                "deleted, and this one put in its place. If it was moved, move it back, and the "
                "same command goes on from what it holds; or see what is there: "
                f"`sweep status {self._store}`"
            )
        return ""

    def _is_another(self, session: Session) -> bool:
        """Whether a session is not this store's; not where a coordinator took the store over."""
        try:
            if self._store.session == session.name:
                return False
        except OSError:  # says nothing
            return False
        return not is_lease_held_by_another(self._store, session.token)

    def check(self) -> None:
        """Raise `StoreLost` if it is not there any more."""
        with contextlib.suppress(OSError):
            if self._session is not None and self._store.session == self._session.name:
                return
        if text := self.lost():
            raise StoreLost(text)

    @contextlib.contextmanager
    def noticed(self) -> Iterator[None]:
        """Within this, what is raised since the store is not there is a `StoreLost`."""
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
