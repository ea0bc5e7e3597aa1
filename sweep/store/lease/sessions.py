"""Sessions, attempts at tasks, requests to end tasks, and the detection of lost stores.

Users move and delete stores while a run writes to them. The run must then say what happened, and
must not write into another store at the same path.
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

LOOK_SECONDS = 1.0  # between two checks of an attempt that the store accepts its records

_stopped: set[str] = set()  # names of sessions whose tasks in this process should end
_leaving = threading.Event()  # set if this process should end
_working: set[int] = set()  # threads that compute a task
_told: list[Callable[[str], object]] = []  # callbacks for the case that this process should end


@functools.cache
def code_hash() -> str:
    """A hash of all code that results depend on, which all processes of a run must share.

    It includes `sweep`, unlike `sweep.store.checkpoints.checkpoint_code_hash`.
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
    """Call ``call(reason)`` if this process is asked to end; a context manager."""
    _told.append(call)
    try:
        yield
    finally:
        _told.remove(call)


def is_process_leaving() -> bool:
    """Whether this process was asked to end."""
    return _leaving.is_set()


@contextlib.contextmanager
def marking_thread_as_computing() -> Iterator[None]:
    """Mark the current thread as computing a task; a context manager."""
    _working.add(threading.get_ident())
    try:
        yield
    finally:
        _working.discard(threading.get_ident())


def is_process_computing_tasks() -> bool:
    """Whether this process is computing tasks."""
    return bool(_working)


def worker_sees_no_store_message(worker: str, store: Store, why: str) -> str:
    """The error message for a worker that does not see the store."""
    return (
        f"the worker {worker} does not see the store {store} ({why}); expected a file system that "
        "the workers share with this process, or a bucket, s3://BUCKET/NAME.zarr, that they may "
        "write, with the AWS_ variables that this process has where they were started"
    )


@dataclass(frozen=True)
class Session:
    """One run of a coordinator, which is sent to workers with each task.

    Parameters
    ----------
    name : str
        Unique name. The store names the session from `sweep.store.commit.fold.begin_session` on,
        until the study is complete or another session begins; so long its records count.
    token : str
        Fencing token of the coordinator's lease; if empty, the lease is not checked.
    code : str
        Hash of the coordinator's code; see `code_hash`.
    """

    name: str
    token: str
    code: str

    @property
    def is_stopped(self) -> bool:
        """Whether its tasks in this process should end after their current segments."""
        return self.name in _stopped or is_process_leaving()

    def stop(self) -> None:
        """Let its tasks in this process end after their current segments; thread-safe."""
        _stopped.add(self.name)

    def check_stopped(self) -> None:
        """Raise `Interrupted` if its tasks in this process should end."""
        if self.is_stopped:
            raise Interrupted("its worker was told to stop")

    def check(self, store: Store) -> None:
        """Check that records of this session count.

        Raises
        ------
        LeaseLost
            If another coordinator holds or held the lease since, or the session has ended.
        StoreUnseen
            If this process finds no session in the store: it sees no store, or a different one.
        """
        if self.token and is_lease_held_by_another(store, self.token):
            raise LeaseLost
        if (found := store.session_name) == self.name:
            return
        if found or place_is_file(store.session_file):  # the name is empty once a session has ended
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
    """An attempt of this process at a task, with a token that its records carry.

    There may be two attempts at one task, if the cluster has given up a process that is still
    alive, on a host that is cut off or because it was suspended. Both write records with the same
    results. For each row the first record by name counts, which also determines CPU time and
    environment.

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
        """As `Session.check`, but at most once in `LOOK_SECONDS`.

        Results do not depend on how often the session is checked, since a record that is written
        after the session has ended does not count.
        """
        if time.monotonic() >= self._looked + LOOK_SECONDS:
            self.session.check(self._store)
            self._looked = time.monotonic()


class StorePresence:
    """Detects that the store of a run was moved, deleted or replaced.

    Parameters
    ----------
    store : sweep.store.store.Store
        It need not exist yet.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._was_there = store, False
        self._id = ""  # unique id of the store, from its session record

    def note_store(self) -> None:
        """Note that the store exists."""
        self._was_there = True

    def begun(self, session: SessionRecord) -> None:
        """Note that a session has begun in the store."""
        self._was_there, self._id = True, session.store

    def ended(self) -> None:
        """Note that the session has ended."""
        self._id = ""

    def check(self) -> None:
        """Raise `StoreLost` if the store was moved, deleted or replaced."""
        is_same = None
        with contextlib.suppress(OSError):  # inconclusive
            if self._id and (is_same := self._store.session.store == self._id):
                return
        if self._was_there and _is_file_missing(self._store.place / METADATA):
            raise StoreLost(
                f"the store {self._store} is gone: it was moved or deleted while this run wrote to "
                "it. If it was moved, move it back, and the same command resumes from it; if it "
                "was deleted, the same command computes everything again"
            )
        if is_same is False:
            raise StoreLost(
                f"the store {self._store} is not the one that this run wrote to, which was moved "
                "or deleted, and replaced by this one. If it was moved, move it back, and the same "
                f"command resumes from it; `sweep status {self._store}` shows what is there now"
            )

    @contextlib.contextmanager
    def noticed(self) -> Iterator[None]:
        """Turn errors that a missing store caused into `StoreLost`; a context manager."""
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
    """Whether a file certainly does not exist; False if the file system reports another error."""
    try:
        file.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)
    return False
