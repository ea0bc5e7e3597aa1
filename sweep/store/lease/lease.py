"""One coordinator at a time: the lock of a store.

The lock is the file ``STORE.lock`` beside the store, which need not exist yet. It says who holds
it; the holder advances a counter in it, its heartbeat. A holder on this host whose process is
gone is dead. Of any other, a newcomer watches the heartbeat for a while, by its own clock alone:
two clocks are never compared.

A dead holder is succeeded, not removed: the newcomer links its own file as ``STORE.lock.TOKEN``,
of the dead one's token, which only one can do, and then renames it to ``STORE.lock``. A
holder is therefore the last of a chain, usually of one; a newcomer that dies halfway is
succeeded like any other. A holder that ends becomes its own successor before it removes the
lock, so that none is removed that a newcomer has just taken over. Links are made by link(2),
which is atomic on NFS too.

In a bucket the lock is one object, which is only ever written on the condition that it is still
what was read (or is not there); who releases it writes that into it, since removing has no
condition everywhere.
"""

import contextlib
import os
import threading
import time

from sweep.errors import Interrupted, StoreError, Unreachable
from sweep.store.backends.disk import cannot_store, why_not_stored
from sweep.store.lease.backends import FileLock, ObjectLock
from sweep.store.lease.holder import MINE, UNKNOWN, Holder, read

AGAIN_SECONDS = 0.02


class Holding:
    """A lock that is held.

    Parameters
    ----------
    store : sweep.store.store.Store
    lock : FileLock or ObjectLock
        Which this process has taken.
    holder : Holder
        This process.
    on_loss : callable
        Called with the reason, from the thread of the heartbeat, when the lock is lost.
    """

    def __init__(self, store, lock, holder, on_loss):
        self.lost = ""
        self._store, self._lock, self._holder, self._on_loss = store, lock, holder, on_loss
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    @property
    def token(self):
        """Of this holding; no other has it."""
        return self._holder.token

    def holds(self):
        """Whether the lock is still held, looked up now."""
        with contextlib.suppress(OSError):
            self._look()
        return not self.lost

    def check(self):
        """Raise `sweep.errors.Interrupted` unless the lock is held."""
        if not self.holds():
            raise Interrupted(self.lost)

    def release(self):
        """End the heartbeat and remove the lock, if it is still held."""
        self._end.set()
        self._thread.join()
        self._lock.close()
        with contextlib.suppress(OSError):
            self._look()
            if not self.lost:
                self._lock.release()

    def _beat(self):
        beat = 0
        while not self._end.wait(self._holder.beat_seconds):
            beat += 1
            with contextlib.suppress(OSError):  # such as a full disk: perhaps the next time
                self._look()
                if self.lost:
                    self._on_loss(self.lost)
                    return
                self._lock.beat(beat)

    def _look(self):
        found = read(self._lock.path)
        if found is None:
            self.lost = f"the lock of {self._store} was removed"
        elif found.token != self._holder.token:
            self.lost = f"{self._store} was taken over by {found}"


@contextlib.contextmanager
def hold(store, on_loss=lambda reason: None, between=lambda: None, on_wait=lambda who, s: None):
    """Hold the lock of a store, for everything that writes to it.

    Parameters
    ----------
    store : sweep.store.store.Store
        It need not exist; directories for it are made, and removed if nothing came into them.
    on_loss : callable
        Called with the reason if another one took the lock over, as when this process
        was suspended: nothing may be written any more. It comes from another thread.
    between : callable
        Called while a holder's heartbeat is watched; it may raise.
    on_wait : callable
        Called with the `Holder` and the seconds that this may take at most.

    Yields
    ------
    Holding

    Raises
    ------
    StoreError
        If another one holds it: says who, and since when. If the lock cannot be made.
    """
    place = store.real.place
    if not place.name:
        raise StoreError(f"{store} exists and is not a Geosweep store; give another STORE")
    path, holder = store.lease_file, Holder.here()
    for thread, held, holding in list(MINE.values()):
        if (thread, held) == (threading.get_ident(), path) and holding is not None:
            yield holding  # within a command that holds it already
            return
    with contextlib.ExitStack() as stack:
        MINE[holder.token] = threading.get_ident(), path, None
        stack.callback(MINE.pop, holder.token)
        try:
            if store.in_bucket:
                place.check(writes=True)
                lock = ObjectLock(path, holder)
            else:
                stack.callback(_remove, _make_directories(place.parent))
                lock = FileLock(path, holder)
            _take(store, lock, between, on_wait)
            holding = Holding(store, lock, holder, on_loss)
        except Unreachable as error:
            raise StoreError(f"{store} cannot be written: {error}") from None
        except OSError as error:
            if cannot_store(error):
                raise Interrupted(why_not_stored(place)) from None
            raise _explained(store, place, path, error) from None
        MINE[holder.token] = threading.get_ident(), path, holding
        stack.callback(holding.release)
        yield holding


def _take(store, lock, between, on_wait):
    """Become the holder, or raise."""

    def is_over(holder, where):
        return _is_over(store, holder, where, between, on_wait)

    while not lock.take(is_over):
        between()
        time.sleep(AGAIN_SECONDS)


def _is_over(store, holder, where, between, on_wait):
    """Whether the holder is dead; False if it is another one by now, `StoreError` if it lives."""
    dead = holder.is_dead()
    if dead is None:
        on_wait(holder, holder.patience)
        deadline = time.monotonic() + holder.patience
        while time.monotonic() < deadline:
            between()
            time.sleep(min(0.5, holder.beat_seconds / 4))
            found = read(where)
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


def _make_directories(path):
    """Make a directory and those above it; the ones that were made, the deepest first."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = path.parent
    made = []
    try:
        for directory in reversed(missing):
            directory.mkdir(exist_ok=True)
            made.insert(0, directory)
    except OSError:
        _remove(made)
        raise
    return made


def _remove(directories):
    """Remove those that are empty."""
    with contextlib.suppress(OSError):
        for directory in directories:
            directory.rmdir()


def _explained(store, place, lock, error):
    if not os.path.lexists(place):
        above = place.parent
        while not os.path.lexists(above):
            above = above.parent
        if not above.is_dir():
            return StoreError(f"{store} cannot be made: {above} is not a directory")
        return StoreError(f"{store} cannot be made: {error.strerror}")
    return StoreError(
        f"{store} cannot be written: {lock}, which says who writes to it, cannot be made "
        f"({error.strerror})"
    )
