"""Fencing tokens: of several processes that compute a task, the one that began last may commit.

There may be two where a cluster has given up a process that lives: a host that is cut off, or a
process that was suspended, resumes a task that another one was given meanwhile. Each attempt writes
its token to a small file of the task, in the store; the attempt before is fenced off, finds that at
its next commit, and writes nothing more.
"""

import contextlib
import os
import platform
import secrets

from sweep.errors import FencedOff, StoreUnseen
from sweep.store.backends.trees import remove_tree

CLAIMS = "claims"


class Attempt:
    """An attempt of this process at a task, with a fencing token of its own.

    Parameters
    ----------
    task : sweep.campaign.tasks.RunTask or sweep.campaign.tasks.ReferenceTask
    session : sweep.store.lease.sessions.Session
    """

    def __init__(self, task, session):
        self.session = session
        self._store, self._token = task.store, secrets.token_hex(8)
        name = "-".join(map(str, task.place))
        self._file = task.store.internal(CLAIMS, name)

    def __enter__(self):
        self.session.check(self._store)
        try:
            if self.session.token:
                session_file_of_store(self._store, self.session).stat()
            else:  # nobody has begun one
                self._file.parent.mkdir(exist_ok=True)
        except FileNotFoundError as error:
            here = f"{platform.node()} (process {os.getpid()})"
            missing = error.filename or session_file_of_store(self._store, self.session)
            raise StoreUnseen(
                worker_sees_no_store_message(here, self._store, f"{missing} is not there")
            ) from None
        self._file.write_text(self._token)
        return self

    def __exit__(self, *exception):
        with contextlib.suppress(OSError):
            if self._is_ours():
                self._file.unlink(missing_ok=True)

    @property
    def is_stopped(self):
        """Whether nothing more is to begin."""
        return self.session.is_stopped

    def check(self):
        """Look whether what is computed may be written.

        Raises
        ------
        FencedOff
            If another process computes the task by now.
        sweep.errors.LeaseLost
            If another coordinator holds the store.
        """
        self.session.check(self._store)
        if not self._is_ours():
            raise FencedOff

    def _is_ours(self):
        try:
            return self._file.read_text() == self._token
        except FileNotFoundError:
            return False


def worker_sees_no_store_message(worker, store, why):
    """What is said of a worker that does not see a store."""
    return (
        f"the worker {worker} does not see the store {store} ({why}); expected a file system that "
        "the workers share with this process, or a bucket, s3://BUCKET/NAME.zarr, that they may "
        "write, with the AWS_ variables that this process has where they were started"
    )


def session_file_of_store(store, session):
    """The file by which a store is known as the one that a session writes to."""
    return store.internal(CLAIMS, session.name)


def begin_fencing_session(store, session):
    """Fence off all attempts of before; from now on tasks of this session may be attempted."""
    fence_off_all_attempts(store)
    file = session_file_of_store(store, session)
    file.parent.mkdir(exist_ok=True)
    file.write_text(session.token)


def fence_off_all_attempts(store):
    """Remove all tokens: whoever still computes something of the store writes nothing more."""
    remove_tree(store.internal(CLAIMS), ignore_errors=True)
