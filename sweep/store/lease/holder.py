"""The holder of a lease, and the content of the file that names it.

The first line is the `LeaseHolder` as JSON; the second, of fixed length, is the counter that the
holder advances. Whoever may write beside the store may have written the file: what is read of it
is checked, and of the numbers none is taken that no holder of ours has.
"""

import dataclasses
import getpass
import hashlib
import json
import math
import os
import platform
import re
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sweep.store.backends.places import ObjectPlace, Place
from sweep.store.files import seal
from sweep.text import escape_control_characters

BEAT_SECONDS = 3.0
MOST_BEAT_SECONDS, LEAST_BEAT_SECONDS = 3.0, 0.01  # that are believed
BEATS = 8  # that a newcomer waits for one of
MOST_BYTES = 2**16  # of a file that are read; ours have fewer
MOST_LETTERS = 200  # of a name or command
MOST_LETTERS_OF_HOLDER = 1000
TOKEN = re.compile("[0-9A-Za-z_-]{1,40}")  # which is part of a file's name
DIGITS = 12  # of the counter
UNKNOWN = "unknown"
RELEASED = b"released\n"  # what the file in a bucket is left with, where none is removed
MINE: set[str] = set()  # tokens of the leases that this process has or acquires


@dataclasses.dataclass(frozen=True)
class LeaseHolder:
    """A process that has a lease, as the lease's file says.

    Parameters
    ----------
    token : str
        Unique token of this lease, the fencing token: random, compared for equality only.
    user, host, command : str
    pid : int
    born : str
        When the process started, by its host's own counting.
    place : str
        Boot of the host, and the numbering of its processes; empty where that is not known.
    since : str
        By the clock on the wall, for people.
    beat_seconds : float
        Between two heartbeats.
    beat : int
        The counter.
    """

    token: str
    user: str = UNKNOWN
    host: str = UNKNOWN
    command: str = UNKNOWN
    pid: int = 0
    born: str = ""
    place: str = ""
    since: str = UNKNOWN
    beat_seconds: float = BEAT_SECONDS
    beat: int = 0

    @classmethod
    def here(cls) -> "LeaseHolder":
        """This process, with a new token."""
        return cls(
            token=secrets.token_hex(4),
            user=_user_name(),
            host=platform.node(),
            command=_command_line_of_process(),
            pid=os.getpid(),
            born=_process_start_time(os.getpid()) or "",
            place=_boot_and_process_namespace(),
            since=time.strftime("%Y-%m-%d %H:%M:%S"),
            beat_seconds=BEAT_SECONDS,
        )

    @property
    def patience(self) -> float:
        """Seconds after which a heartbeat that does not change has stopped."""
        return BEATS * self.beat_seconds

    def is_dead(self) -> bool | None:
        """Whether its process is gone; None if that cannot be said from here."""
        if not self.place or self.place != _boot_and_process_namespace():
            return None
        if self.pid == os.getpid():
            return self.token not in MINE
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # another user's
        born = _process_start_time(self.pid)
        return None if born is None else born != self.born

    def content(self, beat: int) -> bytes:
        """The whole file, as bytes, with the counter at `beat`."""
        return lease_holder_line(self) + heartbeat_counter_line(beat)

    def __str__(self) -> str:
        if self.host == UNKNOWN:
            who = "somebody" if self.user == UNKNOWN else self.user
            return f"{who}, of whom its lease says no more,"
        return f"{self.user} on {self.host} (process {self.pid}, `{self.command}`)"


@dataclasses.dataclass(frozen=True)
class SessionRecord:
    """What a store says of its last session, in its file ``session.json``.

    It stays when the session has ended and the lease is released: so a process that was suspended
    meanwhile learns who took the store over.

    Parameters
    ----------
    name : str
        Of the session whose records count; empty once it has ended.
    store : str
        Unique id of the store, which it gets with its first session.
    token, holder : str
        Fencing token of the lease of whoever wrote this, and a description of that process.
    """

    name: str = ""
    store: str = ""
    token: str = ""
    holder: str = ""

    @classmethod
    def parse(cls, content: bytes) -> "SessionRecord":
        """The record of a file's content; ValueError if it is not what was written."""
        found = parse_sealed_json_object(content)
        return cls(**check_printable_text(found, MOST_LETTERS_OF_HOLDER))

    def content(self) -> bytes:
        """The whole file."""
        return seal_json_object(vars(self))


IsOver = Callable[[LeaseHolder, Place], bool]  # whether the holder that a file names is dead


def lease_holder_line(holder: LeaseHolder) -> bytes:
    """All of a holder but its counter, as bytes."""
    said = {name: value for name, value in vars(holder).items() if name != "beat"}
    return json.dumps(said).encode() + b"\n"


def heartbeat_counter_line(beat: int) -> bytes:
    """The counter, as bytes of fixed length."""
    return b"%0*d\n" % (DIGITS, beat)


# --- small files that others may have written ------------------------------------------------


def read_lease_holder(path: Place) -> LeaseHolder | None:
    """The `LeaseHolder` that a file names, also of one that is not whole; None if none does."""
    try:
        content = read_first_bytes_of_file(path)
    except FileNotFoundError:
        return None
    except PermissionError:
        owner = path.stat()
        return LeaseHolder(f"{owner.st_ino:x}-{owner.st_mtime_ns:x}", user=f"user {owner.st_uid}")
    return None if content == RELEASED else parse_lease_holder(content)


def parse_lease_holder(content: bytes) -> LeaseHolder:
    """The `LeaseHolder` of a file's content; one without a name if it is not as ours are."""
    content = content[:MOST_BYTES]
    first, _, counter = content.partition(b"\n")
    try:
        said = parse_json_object(first)
        token, pid, seconds = (said.pop(name) for name in ("token", "pid", "beat_seconds"))
        if not TOKEN.fullmatch(token) or type(pid) is not int or not 0 < pid < 2**31:
            raise ValueError("no holder has these")
        if type(seconds) not in (int, float) or not 0 < seconds < math.inf:
            seconds = BEAT_SECONDS
        seconds = min(max(seconds, LEAST_BEAT_SECONDS), MOST_BEAT_SECONDS)
        return LeaseHolder(
            token, **check_printable_text(said), pid=pid, beat_seconds=seconds, beat=int(counter)
        )
    except (ValueError, TypeError, KeyError):
        return LeaseHolder(hashlib.sha256(content).hexdigest()[:8])


def read_first_bytes_of_file(path: Place) -> bytes:
    """The content of a small file, up to `MOST_BYTES`; none of what is no file, as a pipe."""
    if isinstance(path, ObjectPlace):
        return path.read_bytes()[:MOST_BYTES]
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would be waited for
    try:
        return os.read(file, MOST_BYTES)
    except (IsADirectoryError, BlockingIOError):
        return b""
    finally:
        os.close(file)


def parse_json_object(content: bytes | str) -> dict[str, Any]:
    """The object that JSON holds; ValueError if it holds none."""
    try:
        found = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found


def check_printable_text(said: Mapping[str, Any], most: int = MOST_LETTERS) -> dict[str, str]:
    """Texts of another process as they may be printed; ValueError if one is no text."""
    if not all(isinstance(text, str) for text in said.values()):
        raise ValueError("it holds other than text")
    return {
        name: (text if text.isprintable() else escape_control_characters(text))[:most]
        for name, text in said.items()
    }


def seal_json_object(content: Mapping[str, Any]) -> bytes:
    """JSON with a checksum of its content, for `parse_sealed_json_object`."""
    return json.dumps({**content, "seal": seal(content)}).encode()


def parse_sealed_json_object(content: bytes) -> dict[str, Any]:
    """What JSON holds without its checksum; ValueError if it is not what was written."""
    found = parse_json_object(content)
    if found.pop("seal", None) != seal(found):
        raise ValueError("it fails its checksum")
    return found


# --- processes -------------------------------------------------------------------------------


def _boot_and_process_namespace() -> str:
    """The boot of this host and its numbering of processes; empty where that is not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _process_start_time(pid: int) -> str | None:
    """When a process started, in ticks since the boot; "" if it has ended, None if unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def _command_line_of_process() -> str:
    program, *arguments = sys.argv or ["python"]
    return shlex.join([Path(program).name or "python", *arguments])[:200]
