"""The holder of a lease, and the content of the lease file that names it.

The first line is the `LeaseHolder` as JSON; the second, of fixed length, is the counter that the
holder advances. Anyone with write access to the directory may have written the file. Therefore its
content is checked, and numbers outside the range that Geosweep writes are not accepted.
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
from sweep.store.files import checksum_of_json
from sweep.text import escape_control_characters

BEAT_SECONDS = 3.0
MOST_BEAT_SECONDS, LEAST_BEAT_SECONDS = 3.0, 0.01  # values beyond are not believed
BEATS = 8  # heartbeats that must be missing before a holder counts as dead
MOST_BYTES = 2**16  # read of a file; those of Geosweep are shorter
MOST_LETTERS = 200  # in a name or command
MOST_LETTERS_OF_HOLDER = 1000
TOKEN = re.compile("[0-9A-Za-z_-]{1,40}")  # it becomes part of a file name
DIGITS = 12  # in the counter
UNKNOWN = "unknown"
RELEASED = b"released\n"  # content of a released lease in a bucket, which is not removed
MINE: set[str] = set()  # tokens of the leases that this process holds or is acquiring


@dataclasses.dataclass(frozen=True)
class LeaseHolder:
    """A process that holds a lease, as described in the lease file.

    Parameters
    ----------
    token : str
        Fencing token of the lease: random, and compared for equality only.
    user, host, command : str
    pid : int
    born : str
        Start time of the process, in ticks since the boot of its host.
    place : str
        Boot id of the host and namespace of process ids; empty if unknown.
    since : str
        Wall-clock time at which the lease was acquired, for display only.
    beat_seconds : float
        Seconds between two heartbeats.
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
        """Describe this process, with a new token."""
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
    def seconds_until_dead(self) -> float:
        """Seconds without a heartbeat after which the holder counts as dead."""
        return BEATS * self.beat_seconds

    def is_dead(self) -> bool | None:
        """Whether the process has ended; None if that cannot be determined from this host."""
        if not self.place or self.place != _boot_and_process_namespace():
            return None
        if self.pid == os.getpid():
            return self.token not in MINE
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # a process of another user
        born = _process_start_time(self.pid)
        return None if born is None else born != self.born

    def content(self, beat: int) -> bytes:
        """The content of the lease file, with the counter at `beat`."""
        return lease_holder_line(self) + heartbeat_counter_line(beat)

    def __str__(self) -> str:
        if self.host == UNKNOWN:
            who = "somebody" if self.user == UNKNOWN else self.user
            return f"{who}, of whom its lease says no more,"
        return f"{self.user} on {self.host} (process {self.pid}, `{self.command}`)"


@dataclasses.dataclass(frozen=True)
class SessionRecord:
    """The last session of a store, as stored in ``session.json``.

    The file stays after the session has ended and the lease was released, so that a process that
    was suspended meanwhile learns who took the store over.

    Parameters
    ----------
    name : str
        Name of the session whose records count; empty once it has ended.
    store : str
        Unique id of the store, assigned with its first session.
    token, holder : str
        Fencing token, and a description in words, of the lease holder who wrote the file.
    """

    name: str = ""
    store: str = ""
    token: str = ""
    holder: str = ""

    @classmethod
    def parse(cls, content: bytes) -> "SessionRecord":
        """Parse the content of a file; raises ValueError if it fails its checksum."""
        found = parse_sealed_json_object(content)
        return cls(**check_printable_text(found, MOST_LETTERS_OF_HOLDER))

    def content(self) -> bytes:
        """The content of the file."""
        return seal_json_object(vars(self))


IsOver = Callable[[LeaseHolder, Place], bool]  # whether the holder named in a file is dead


def lease_holder_line(holder: LeaseHolder) -> bytes:
    """The first line of a lease file: the holder without its counter."""
    said = {name: value for name, value in vars(holder).items() if name != "beat"}
    return json.dumps(said).encode() + b"\n"


def heartbeat_counter_line(beat: int) -> bytes:
    """The second line of a lease file: the counter, of fixed length."""
    return b"%0*d\n" % (DIGITS, beat)


# --- small files that others may have written ------------------------------------------------


def read_lease_holder(path: Place) -> LeaseHolder | None:
    """The `LeaseHolder` that a file names; None if there is no file, or the lease was released.

    A file that is damaged or may not be read gives a `LeaseHolder` with unknown user and host.
    """
    try:
        content = read_first_bytes_of_file(path)
    except FileNotFoundError:
        return None
    except PermissionError:
        owner = path.stat()
        return LeaseHolder(f"{owner.st_ino:x}-{owner.st_mtime_ns:x}", user=f"user {owner.st_uid}")
    return None if content == RELEASED else parse_lease_holder(content)


def parse_lease_holder(content: bytes) -> LeaseHolder:
    """Parse the content of a lease file; a `LeaseHolder` without a name if it is not valid."""
    content = content[:MOST_BYTES]
    first, _, counter = content.partition(b"\n")
    try:
        said = parse_json_object(first)
        token, pid, seconds = (said.pop(name) for name in ("token", "pid", "beat_seconds"))
        if not TOKEN.fullmatch(token) or type(pid) is not int or not 0 < pid < 2**31:
            raise ValueError("the token or the process id is not valid")
        if type(seconds) not in (int, float) or not 0 < seconds < math.inf:
            seconds = BEAT_SECONDS
        seconds = min(max(seconds, LEAST_BEAT_SECONDS), MOST_BEAT_SECONDS)
        return LeaseHolder(
            token, **check_printable_text(said), pid=pid, beat_seconds=seconds, beat=int(counter)
        )
    except (ValueError, TypeError, KeyError):
        return LeaseHolder(hashlib.sha256(content).hexdigest()[:8])


def read_first_bytes_of_file(path: Place) -> bytes:
    """Read up to `MOST_BYTES` of a small file; empty for anything other than a file, as a pipe."""
    if isinstance(path, ObjectPlace):
        return path.read_bytes()[:MOST_BYTES]
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe must not block
    try:
        return os.read(file, MOST_BYTES)
    except (IsADirectoryError, BlockingIOError):
        return b""
    finally:
        os.close(file)


def parse_json_object(content: bytes | str) -> dict[str, Any]:
    """Parse a JSON object; raises ValueError for any other content."""
    try:
        found = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    return found


def check_printable_text(said: Mapping[str, Any], most: int = MOST_LETTERS) -> dict[str, str]:
    """Make texts of another process safe to print; raises ValueError if a value is not a text."""
    if not all(isinstance(text, str) for text in said.values()):
        raise ValueError("it holds a value that is not a text")
    return {
        name: (text if text.isprintable() else escape_control_characters(text))[:most]
        for name, text in said.items()
    }


def seal_json_object(content: Mapping[str, Any]) -> bytes:
    """Encode an object as JSON with a checksum, for `parse_sealed_json_object`."""
    return json.dumps({**content, "seal": checksum_of_json(content)}).encode()


def parse_sealed_json_object(content: bytes) -> dict[str, Any]:
    """Decode what `seal_json_object` made; raises ValueError if it fails its checksum."""
    found = parse_json_object(content)
    if found.pop("seal", None) != checksum_of_json(found):
        raise ValueError("it fails its checksum")
    return found


# --- processes -------------------------------------------------------------------------------


def _boot_and_process_namespace() -> str:
    """The boot id of this host and its namespace of process ids; empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _process_start_time(pid: int) -> str | None:
    """Start time of a process in ticks since the boot; "" if it has ended, None if unknown."""
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
