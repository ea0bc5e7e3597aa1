"""The lease of a store: one process at a time changes its arrays, its metadata or its session.

Workers write records without the lease, see `sweep.store.commit.records`; the records of a session
that the store no longer names do not count.

The lease is the file ``STORE.lock`` beside the store, which need not exist yet. The file names the
lease holder, who advances a counter in it as heartbeat. A holder on this host whose process has
ended is dead. The heartbeat of any other holder is watched for a while, by the clock of the
newcomer alone: clocks of two hosts are never compared. `sweep.store.lease.local_lease_file` and
`sweep.store.lease.s3_lease_file` implement how exactly one newcomer takes the place of a dead
holder.
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
from sweep.store.backends.places import Place
from sweep.store.backends.storage_failures import (
    explain_storage_failure,
    is_storage_full_or_failing,
)
from sweep.store.lease.holder import (
    MINE,
    UNKNOWN,
    IsOver,
    LeaseHolder,
    SessionRecord,
    read_lease_holder,
)
from sweep.store.lease.local_lease_file import LocalLeaseFile
from sweep.store.lease.s3_lease_file import S3LeaseFile
from sweep.store.store import Store

AGAIN_SECONDS = 0.02
# The leases that this process holds, by thread and file.
_HELD: "dict[tuple[int, Place], Lease]" = {}


class LeaseFile(Protocol):
    """The operations of a backend on a lease file, for one holder that takes the lease once.

    Each method may raise OSError, for example if the disk is full or the bucket does not answer.
    The lease file is then either unchanged, or as it would be without the error.

    Parameters
    ----------
    path : Path or ObjectPlace
        The lease file, which `sweep.store.lease.holder.read_lease_holder` reads.
    holder : LeaseHolder
        The process that takes the lease.
    """

    path: Place

    def __init__(self, path: Place, holder: LeaseHolder) -> None: ...

    @staticmethod
    def current(path: Place) -> LeaseHolder | None:
        """The present `LeaseHolder` of a lease file, dead or alive; None if there is none."""

    def prepared(self) -> AbstractContextManager[None]:
        """A context manager that creates what `take` needs, such as directories.

        At its end, what nobody else uses is removed again.
        """

    def take(self, is_over: IsOver) -> bool:
        """Take the lease if it is free; of any number of newcomers exactly one succeeds.

        Parameters
        ----------
        is_over : callable
            Takes a `LeaseHolder` and its file. Returns whether the holder is dead; raises if it is
            alive.

        Returns
        -------
        bool
            False if other processes have changed the file meanwhile: try again.
        """

    def beat(self, beat: int) -> None:
        """Write the counter, after `take`; never overwrites the file of another holder."""

    def close(self) -> None:
        """Close what `take` has opened; no further `beat` follows."""

    def release(self) -> None:
        """Release the lease, after `close`, unless another holder has taken it over."""


def lease_backend_of_store(store: Store) -> type[LeaseFile]:
    """The implementation of `LeaseFile` for a store, in a directory or in a bucket."""
    return cast("type[LeaseFile]", S3LeaseFile if store.in_bucket else LocalLeaseFile)


def lease_holder_of_store(store: Store) -> LeaseHolder | None:
    """The `LeaseHolder` of a store; None if there is none, or it is known to be dead."""
    found = lease_backend_of_store(store).current(store.lease_file)
    return found if found is not None and not found.is_dead() else None


def is_lease_held_by_another(store: Store, token: str) -> bool:
    """Whether the lease of a store is held with a token other than the given one.

    False if there is no lease: workers may commit as long as the store names their session, even if
    their coordinator has died or ended.
    """
    found = read_lease_holder(store.lease_file)
    return found is not None and found.token != token


class Lease:
    """A lease that this process holds, with a thread for its heartbeat.

    Parameters
    ----------
    store : sweep.store.store.Store
    file : LeaseFile
        The lease file, which this process has taken.
    holder : LeaseHolder
        This process; also an attribute.
    before : SessionRecord
        The session of the store before the lease was taken.
    on_loss : callable
        Called with the reason when the lease is lost, from the thread of the heartbeat.
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
        """Look up whether this process still holds the lease; True if the file cannot be read."""
        with contextlib.suppress(OSError):
            self._look()
        return not self.lost

    def check(self) -> None:
        """Raise `sweep.errors.Interrupted` unless this process still holds the lease."""
        if not self.is_held():
            raise Interrupted(self.lost)

    def release(self) -> None:
        """End the heartbeat, and release the lease if this process still holds it."""
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
            with contextlib.suppress(OSError):  # as on a full disk; the next heartbeat may succeed
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
        """Say who took the lease over and has released it since, if the session record tells."""
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
    """Hold the lease of a store, which is required for writing to it; a context manager.

    If this thread already holds the lease, that one is given.

    Parameters
    ----------
    store : sweep.store.store.Store
        It need not exist. Missing parent directories are created, and removed if they stay empty.
    on_loss : callable
        Called with the reason if another process took the lease over, for example while this one
        was suspended; nothing may be written after that. It is called from another thread.
    between : callable
        Called repeatedly while another holder's heartbeat is watched; may raise.
    on_wait : callable
        Called before such a wait, with the `LeaseHolder` and the maximum seconds of the wait.

    Yields
    ------
    Lease

    Raises
    ------
    StoreError
        If another process holds the lease; the message says which, and since when. Also if the
        lease file cannot be created.
    Interrupted
        If the disk is full, or the bucket fails.
    """
    place = store.real.place
    if not place.name:
        raise StoreError(f"{store} exists and is not a Geosweep store; give another STORE")
    path, holder = store.lease_file, LeaseHolder.here()
    here = threading.get_ident(), path
    if here in _HELD:
        yield _HELD[here]  # an enclosing command holds it
        return
    with contextlib.ExitStack() as stack:
        MINE.add(holder.token)
        stack.callback(MINE.remove, holder.token)
        try:
            file = lease_backend_of_store(store)(path, holder)
            stack.enter_context(file.prepared())
            try:
                before = store.session
            except Damaged:  # the caller reports or repairs it
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
    """Return True if a holder is dead; raise `StoreError` if it is alive.

    Return False if the lease file has changed meanwhile and must be read again.
    """
    dead = holder.is_dead()
    if dead is None:
        on_wait(holder, holder.seconds_until_dead)
        deadline = time.monotonic() + holder.seconds_until_dead
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
            f"{store} is held by {holder} since {holder.since}: only one process at a time may "
            f"write to a store. Wait, or stop it with `sweep cancel {store}`, after which "
            "its running tasks commit"
        )
    return True


def _lease_file_error(store: Store, place: Place, path: Place, error: OSError) -> StoreError:
    """The `StoreError` to raise if a lease file cannot be created."""
    if isinstance(place, Path) and not os.path.lexists(place):
        above = place.parent
        while not os.path.lexists(above):
            above = above.parent
        if not above.is_dir():
            return StoreError(f"{store} cannot be created: {above} is not a directory")
        return StoreError(f"{store} cannot be created: {error.strerror}")
    return StoreError(
        f"{store} cannot be written: its lease file {path} cannot be created ({error.strerror})"
    )
