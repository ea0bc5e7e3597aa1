"""Small files beside a store: a note of a submission to a cluster, and a cancellation request.

They are beside the lease file, so that every process that sees the store sees them. No result
depends on them.
"""

import contextlib
import dataclasses
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sweep.store.backends.places import write_text_atomically
from sweep.store.lease.holder import (
    LeaseHolder,
    check_printable_text,
    parse_json_object,
    read_first_bytes_of_file,
)
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.store import Store

SUBMITTED, CANCEL = ".submitted", ".cancel"
MOST_LETTERS = 1000  # in a text of such a file, which may be that of an error
LOOK_SECONDS = 2.0  # between two looks for a cancellation request
# Raised if there is no such file, or its content is not what Geosweep writes.
NOT_OURS = (FileNotFoundError, ValueError, TypeError, KeyError)
QUEUED, RUNNING, ENDED = "queued", "running", "ended"


@dataclasses.dataclass(frozen=True)
class Submission:
    """A coordinator that was submitted to a cluster.

    Parameters
    ----------
    name : str
        Unique name, which is the key of its task.
    study, scheduler : str
    by, since : str
        Who submitted it and when, for display only.
    state : {"queued", "running", "ended"}
    host : str
        Host on which it runs or ran last.
    attempt : str
        The process that coordinates, or did so last.
    why : str
        How it ended.
    """

    name: str
    study: str
    scheduler: str
    by: str
    since: str
    state: str = QUEUED
    host: str = ""
    attempt: str = ""
    why: str = ""

    @classmethod
    def here(cls, study: str, scheduler: str) -> "Submission":
        """A new submission by this process."""
        me = LeaseHolder.here()
        name = f"geosweep-{study}-{secrets.token_hex(4)}"
        return cls(name, study, scheduler, f"{me.user} on {me.host}", me.since)

    def __str__(self) -> str:
        since = f"submitted by {self.by} at {self.since} to {self.scheduler}"
        if self.state == QUEUED:
            return f"{since}; its coordinator has not begun"
        if self.state == RUNNING:
            return f"{since}; its coordinator runs on {self.host}"
        return f"{since}; ended{f' on {self.host}' * bool(self.host)}: {self.why}"


def submission_of_store(store: Store) -> Submission | None:
    """The `Submission` of a store; None if there is none."""
    with contextlib.suppress(*NOT_OURS):
        return Submission(**check_printable_text(_read_request(store, SUBMITTED), MOST_LETTERS))
    return None


def note_submission(store: Store, submission: Submission) -> None:
    """Write the note of a submission, which replaces an earlier one."""
    write_text_atomically(store.real.sibling(SUBMITTED), json.dumps(dataclasses.asdict(submission)))


def remove_submission_note(store: Store) -> None:
    """Remove the note of a submission."""
    store.real.sibling(SUBMITTED).unlink(missing_ok=True)


# --- cancellation ----------------------------------------------------------------------------


def request_cancellation(store: Store, names: Sequence[str]) -> None:
    """Ask processes to end, given tokens of lease holders or names of submissions."""
    me = LeaseHolder.here()
    said = {"names": names, "reason": f"cancelled by {me.user} on {me.host}"}
    write_text_atomically(store.real.sibling(CANCEL), json.dumps(said))


def cancellation_reason(store: Store, *names: str) -> str:
    """The reason why a process with one of the names should end; empty without a request."""
    with contextlib.suppress(*NOT_OURS):
        found = _read_request(store, CANCEL)
        if {*names} & {*found["names"]}:
            return check_printable_text({"reason": found["reason"]}, MOST_LETTERS)["reason"]
    return ""


def withdraw_cancellation(store: Store) -> None:
    """Remove the cancellation request."""
    with contextlib.suppress(OSError):
        store.real.sibling(CANCEL).unlink(missing_ok=True)


@contextlib.contextmanager
def watching_for_cancellation(
    store: Store, names: Sequence[str], on_request: Callable[[str], object]
) -> Iterator[None]:
    """Watch for a request to cancel one of some names; a context manager.

    Parameters
    ----------
    store : sweep.store.store.Store
    names : tuple of str
        Token of the lease, and name of the submission if there is one.
    on_request : callable
        Called with the reason, from another thread.
    """
    end = threading.Event()

    def look() -> None:
        while not end.wait(LOOK_SECONDS):
            with contextlib.suppress(OSError):
                if reason := cancellation_reason(store, *names):
                    on_request(reason)
                    return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
        with contextlib.suppress(OSError):
            if cancellation_reason(store, *names):
                withdraw_cancellation(store)


def wait_until_lease_released(store: Store, names: Sequence[str], seconds: float) -> bool:
    """Wait until no process with one of the names holds the lease; False after `seconds`."""
    deadline = time.monotonic() + seconds
    while (found := lease_holder_of_store(store)) is not None and found.token in names:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.3)
    return True


def _read_request(store: Store, ending: str) -> dict[str, Any]:
    return parse_json_object(read_first_bytes_of_file(store.real.sibling(ending)))
