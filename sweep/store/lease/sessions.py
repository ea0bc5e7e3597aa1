"""Sessions and attempts, the flags by which a process ends its tasks, and whether the store stays.

People move and delete stores while a run writes to them. Then the run's messages about the store
must be true, and nothing may be written into another store at its path.
"""

import contextlib
import functools
import math
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from integrators.compiler.kernels import sources_hash
from sweep.errors import Interrupted, LeaseLost, StoreLost, StoreUnseen, VersionMismatch
from sweep.store.backends.places import METADATA, Place, place_is_file
from sweep.store.lease.holder import SessionRecord
from sweep.store.lease.lease import is_lease_held_by_another
from sweep.store.store import Store

LOOK_SECONDS = 1.0  # between two looks of an attempt whether the store takes its records

_stopped: set[str] = set()  # names of sessions that are to end, in this process
_leaving = threading.Event()  # this process is to end
_working: set[int] = set()  # threads that compute a task
_told: list[Callable[[str], object]] = []  # what is called when this process is to end


@functools.cache
def code_hash() -> str:
    """Hash of all code that results depend on, the same in all processes of a run.

    With `sweep` itself; `sweep.store.checkpoints.checkpoint_code_hash` is without it.
    """
    found: str = sources_hash(frozenset({"integrators", "systems", "sweep"}))
    return found


def end_tasks_of_process() -> None:
    """Shut down gracefully: end all tasks of this process after their current segments."""
    _leaving.set()
    for call in list(_told):
        call("its worker is to end")


@contextlib.contextmanager
def calling_when_process_leaves(call: Callable[[str], object]) -> Iterator[None]:
    """Call ``call(reason)`` when this process is to end; a context manager."""
    _told.append(call)
    try:
        yield
    finally:
        _told.remove(call)


def is_process_leaving() -> bool:
    """Whether this process is to end."""
    return _leaving.is_set()


@contextlib.contextmanager
def marking_thread_as_computing() -> Iterator[None]:
    """Mark this thread as computing a task; a context manager."""
    _working.add(threading.get_ident())
    try:
        yield
    finally:
        _working.discard(threading.get_ident())


def is_process_computing_tasks() -> bool:
    """Whether tasks are computed in this process."""
    return bool(_working)


def worker_sees_no_store_message(worker: str, store: Store, why: str) -> str:
    """The error message about a worker that does not see a store."""
    return (
        f"the worker {worker} does not see the store {store} ({why}); expected a file system that "
        "the workers share with this process, or a bucket, s3://BUCKET/NAME.zarr, that they may "
        "write, with the AWS_ variables that this process has where they were started"
    )


@dataclass(frozen=True)
class Session:
    """One run of a coordinator; each of its tasks is sent to a worker with it.

    Parameters
    ----------
    name : str
        Unique name. The store has it from `sweep.store.commit.fold.begin_session` on, until the
        study is complete or another session begins; as long as it does, the records count.
    token : str
        Fencing token of the coordinator's lease; if it is empty, the lease is not looked at.
    code : str
        Hash of the coordinator's code; see `code_hash`.
    """

    name: str
    token: str
    code: str

    @property
    def is_stopped(self) -> bool:
        """Whether its tasks in this process are to end after their current segments."""
        return self.name in _stopped or is_process_leaving()

    def stop(self) -> None:
        """End its tasks in this process, each after its segment; called from another thread."""
        _stopped.add(self.name)

    def check_stopped(self) -> None:
        """Raise `Interrupted` if its tasks in this process are to end."""
        if self.is_stopped:
            raise Interrupted("its worker was told to stop")

    def check(self, store: Store) -> None:
        """Check that the store takes this session's records.

        Raises
        ------
        LeaseLost
            If another coordinator holds the store by now, or has; or the session has ended.
        StoreUnseen
            If the store names no session where this process looks: there is none, or another one.
        """
        if self.token and is_lease_held_by_another(store, self.token):
            raise LeaseLost
        if (found := store.session_name) == self.name:
            return
        if found or place_is_file(store.session_file):  # which is empty once a session has ended
            raise LeaseLost
        here = f"{platform.node()} (process {os.getpid()})"
        raise StoreUnseen(
            worker_sees_no_store_message(here, store, f"{store.session_file} is not there")
        )

    def check_code(self) -> None:
        """Raise `VersionMismatch` if this process has another version of the code."""
        if code_hash() != self.code:
            raise VersionMismatch(
                f"this worker has version {code_hash()} of the code, "
                f"the coordinator {self.code}: results may differ. Install the same version on both"
            )


class Attempt:
    """An attempt of this process at a task, whose records have a token of its own.

    There may be two at one task where a cluster has given up a process that lives: a host that is
    cut off, or a process that was suspended. Both put records, of the same results; of each row the
    record that is first by name counts, also for the times and the environment, which may differ.

    Parameters
    ----------
    store : sweep.store.store.Store
    session : Session
    """

    def __init__(self, store: Store, session: Session) -> None:
        self.session, self._store, self.token = session, store, secrets.token_hex(8)
        self._looked = -math.inf

    @property
    def is_stopped(self) -> bool:
        """As `Session.is_stopped`."""
        return self.session.is_stopped

    def check(self) -> None:
        """As `Session.check`, at most once in `LOOK_SECONDS`.

        A record that is written after the session has ended does not count, so that nothing
        depends on how often this looks.
        """
        if time.monotonic() >= self._looked + LOOK_SECONDS:
            self.session.check(self._store)
            self._looked = time.monotonic()


class Presence:
    """Whether the store of a run still exists, and is still the same one.

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

    def check(self) -> None:
        """Raise `StoreLost` if the store was moved, deleted or replaced."""
        is_same = None
        with contextlib.suppress(OSError):  # which says nothing
            if self._id and (is_same := self._store.session.store == self._id):
                return
        if self._was_there and _is_file_missing(self._store.place / METADATA):
            raise StoreLost(
                f"the store {self._store} is gone: it was moved or deleted while this run wrote to "
                "it. If it was moved, move it back, and the same command goes on from what it "
                "holds; if it was deleted, the same command computes everything again"
            )
        if is_same is False:
            raise StoreLost(
                f"the store {self._store} is another one than this run wrote to: that was moved or "
                "deleted, and this one put in its place. If it was moved, move it back, and the "
                "same command goes on from what it holds; or see what is there: "
                f"`sweep status {self._store}`"
            )

    @contextlib.contextmanager
    def noticed(self) -> Iterator[None]:
        """Turn errors into `StoreLost` where a missing store caused them; a context manager."""
        try:
            yield
        except (Interrupted, StoreLost):
            raise
        except Exception as error:
            try:
                self.check()
            except StoreLost as lost:
                raise lost from error
            raise


def _is_file_missing(file: Place) -> bool:
    """Whether a file is known not to be there; an error of the file system says nothing."""
    try:
        file.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)
    return False
