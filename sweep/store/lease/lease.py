"""The lease of a store: one process at a time changes its arrays, its metadata or its session.

Workers put records without it, see `sweep.store.commit.records`; those of a session that the store
no longer names do not count.

The lease is the file ``STORE.lock`` beside the store, which need not exist yet. It says who has
it; the holder advances a counter in it, its heartbeat. A holder on this host whose process is
gone is dead. Of any other, a newcomer watches the heartbeat for a while, by its own clock alone:
two clocks are never compared. How a newcomer takes the place of a dead holder, such that only one
does, is the part of a `LeaseFile`: `sweep.store.lease.local` and `sweep.store.lease.s3`.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, cast

from sweep.errors import Damaged, Interrupted, StoreError, Unreachable
from sweep.store.backends.disk import explain_storage_failure, is_storage_full_or_failing
from sweep.store.backends.places import Place
from sweep.store.lease.holder import (
    MINE,
    UNKNOWN,
    IsOver,
    LeaseHolder,
    SessionRecord,
    read_lease_holder,
)
from sweep.store.lease.local import LocalLeaseFile
from sweep.store.lease.s3 import S3LeaseFile
from sweep.store.store import Store

AGAIN_SECONDS = 0.02
# The leases that commands of this process have, by thread and file.
_HELD: "dict[tuple[int, Place], Lease]" = {}


class LeaseFile(Protocol):
    """What a backend makes of the file of a lease, for one holder that takes it at most once.

    Each method may raise OSError, as of a full disk or a bucket that does not answer; what a
    lease's file says is then as before, or as it would be without the error.

    Parameters
    ----------
    path : Path or ObjectPlace
        Of the file, which `sweep.store.lease.holder.read_lease_holder` reads.
    holder : LeaseHolder
        Who takes it.
    """

    path: Place

    def __init__(self, path: Place, holder: LeaseHolder) -> None: ...

    @staticmethod
    def current(path: Place) -> LeaseHolder | None:
        """The `LeaseHolder` that has the lease of a path by now, dead or not; None if none has."""

    def prepared(self) -> AbstractContextManager[None]:
        """A context within which the file can be taken: whatever it needs to be written is there.

        What was made for it and is of no use to others is removed at the end.
        """

    def take(self, is_over: IsOver) -> bool:
        """Take the lease if nobody has it; of any number of newcomers just one does.

        Parameters
        ----------
        is_over : callable
            Says of a `LeaseHolder` and its file whether it is dead; raises if it lives.

        Returns
        -------
        bool
            False if others have changed the file meanwhile: to be tried again.
        """

    def beat(self, beat: int) -> None:
        """Write the counter, after `take`; never over what another holder has written."""

    def close(self) -> None:
        """Give up what `take` has opened: no further `beat` follows."""

    def release(self) -> None:
        """Let the next one take the lease at once, after `close`; not another holder's."""


def lease_backend_of_store(store: Store) -> type[LeaseFile]:
    """The kind of `LeaseFile` that a store has, for files of its place."""
    return cast("type[LeaseFile]", S3LeaseFile if store.in_bucket else LocalLeaseFile)


def lease_holder_of_store(store: Store) -> LeaseHolder | None:
    """The `LeaseHolder` of a store that lives, as far as can be said at once; None if none does."""
    found = lease_backend_of_store(store).current(store.lease_file)
    return found if found is not None and not found.is_dead() else None


def is_lease_held_by_another(store: Store, token: str) -> bool:
    """Whether the lease of a store is another one than that of a token.

    Not where it has no lease file, or one that was released: workers may go on committing as long
    as the store names their session, though their coordinator has died or ended.
    """
    found = read_lease_holder(store.lease_file)
    return found is not None and found.token != token


class Lease:
    """A lease that this process has; its heartbeat is a thread.

    Parameters
    ----------
    store : sweep.store.store.Store
    file : LeaseFile
        Which this process has taken.
    holder : LeaseHolder
        This process; also an attribute.
    before : SessionRecord
        What the store said before.
    on_loss : callable
        Called with the reason, from the thread of the heartbeat, when the lease is lost.
    """

    def __init__(
        self,
        store: Store,
        file: LeaseFile,
        holder: LeaseHolder,
        before: SessionRecord,
        on_loss: Callable[[str], object],
    ) -> None:
        self.lost = ""
        self.holder, self._before = holder, before
        self._store, self._file, self._on_loss = store, file, on_loss
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    @property
    def token(self) -> str:
        """Unique token of this lease."""
        return self.holder.token

    def is_held(self) -> bool:
        """Whether this process still has it, looked up now; also if it cannot be looked up."""
        with contextlib.suppress(OSError):
            self._look()
        return not self.lost

    def check(self) -> None:
        """Raise `sweep.errors.Interrupted` unless this process still has it."""
        if not self.is_held():
            raise Interrupted(self.lost)

    def release(self) -> None:
        """End the heartbeat and release the lease, if this process still has it."""
        self._end.set()
        self._thread.join()
        self._file.close()
        with contextlib.suppress(OSError):
            if not self.lost:
                self._file.release()

    def _beat(self) -> None:
        beat = 0
        while not self._end.wait(self.holder.beat_seconds):
            beat += 1
            with contextlib.suppress(OSError):  # such as a full disk: perhaps the next time
                self._look()
                if self.lost:
                    self._on_loss(self.lost)
                    return
                self._file.beat(beat)

    def _look(self) -> None:
        found = read_lease_holder(self._file.path)
        if found is None:
            self.lost = self._explain_missing_file()
        elif found.token != self.holder.token:
            self.lost = f"{self._store} was taken over by {found}"

    def _explain_missing_file(self) -> str:
        """Who took the lease over, and has released it by now, as far as the store says so."""
        try:
            session = self._store.session
        except Damaged:
            session = self._before
        if session != self._before and session.token not in ("", self.token):
            return f"{self._store} was taken over by {session.holder}, which has ended since"
        return f"the lease file of {self._store} was removed"


@contextlib.contextmanager
def acquire_lease(
    store: Store,
    on_loss: Callable[[str], object] = lambda reason: None,
    between: Callable[[], object] = lambda: None,
    on_wait: Callable[[LeaseHolder, float], object] = lambda who, s: None,
) -> Iterator[Lease]:
    """Have the lease of a store, within ``with``, for everything that writes to it.

    Parameters
    ----------
    store : sweep.store.store.Store
        It need not exist; directories for it are made, and removed if nothing came into them.
    on_loss : callable
        Called with the reason if another one took the lease over, as when this process
        was suspended: nothing may be written any more. It comes from another thread.
    between : callable
        Called while a holder's heartbeat is watched; it may raise.
    on_wait : callable
        Called with the `LeaseHolder` and the seconds that this may take at most.

    Yields
    ------
    Lease

    Raises
    ------
    StoreError
        If another one has it: says who, and since when. If its file cannot be made.
    Interrupted
        If the disk is full, or the bucket fails.
    """
    place = store.real.place
    if not place.name:
        raise StoreError(f"{store} exists and is not a Geosweep store; give another STORE")
    path, holder = store.lease_file, LeaseHolder.here()
    here = threading.get_ident(), path
    if here in _HELD:
        yield _HELD[here]  # within a command that has it already
        return
    with contextlib.ExitStack() as stack:
        MINE.add(holder.token)
        stack.callback(MINE.remove, holder.token)
        try:
            file = lease_backend_of_store(store)(path, holder)
            stack.enter_context(file.prepared())
            try:
                before = store.session
            except Damaged:  # who writes by the lease says so, or mends it
                before = SessionRecord()
            while not file.take(
                lambda found, where: _is_lease_holder_dead(store, found, where, between, on_wait)
            ):
                between()
                time.sleep(AGAIN_SECONDS)
            lease = Lease(store, file, holder, before, on_loss)
        except Unreachable as error:
            raise StoreError(f"{store} cannot be written: {error}") from None
        except OSError as error:
            if is_storage_full_or_failing(error):
                raise Interrupted(explain_storage_failure(place, error)) from None
            raise _lease_file_error(store, place, path, error) from None
        _HELD[here] = lease
        stack.callback(_HELD.pop, here)
        stack.callback(lease.release)
        yield lease


def _is_lease_holder_dead(
    store: Store,
    holder: LeaseHolder,
    where: Place,
    between: Callable[[], object],
    on_wait: Callable[[LeaseHolder, float], object],
) -> bool:
    """Whether a holder is dead; `StoreError` if it lives.

    False also says that the lease's file has changed meanwhile, and is to be looked at again.
    """
    dead = holder.is_dead()
    if dead is None:
        on_wait(holder, holder.patience)
        deadline = time.monotonic() + holder.patience
        while time.monotonic() < deadline:
            between()
            time.sleep(min(0.5, holder.beat_seconds / 4))
            found = read_lease_holder(where)
            if found is None or (found.token != holder.token and found.host != UNKNOWN):
                return False
            if found != holder:
                break
        else:
            dead = True
    if not dead:
        raise StoreError(
            f"{store} is held by {holder} since {holder.since}: one at a time may write to a "
            f"store. Wait for it, or end it with `sweep cancel {store}`: running tasks commit"
        )
    return True


def _lease_file_error(store: Store, place: Place, path: Place, error: OSError) -> StoreError:
    """The `StoreError` of a lease whose file cannot be made."""
    if isinstance(place, Path) and not os.path.lexists(place):
        above = place.parent
        while not os.path.lexists(above):
            above = above.parent
        if not above.is_dir():
            return StoreError(f"{store} cannot be made: {above} is not a directory")
        return StoreError(f"{store} cannot be made: {error.strerror}")
    return StoreError(
        f"{store} cannot be written: {path}, which says who writes to it, cannot be made "
        f"({error.strerror})"
    )
