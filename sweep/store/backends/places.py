"""Places of stores: a directory, or a prefix of a bucket, ``s3://BUCKET/PATH``.

A directory is a `pathlib.Path`. An `ObjectPlace` has the part of a path's interface that the
service uses, so that most code need not distinguish the two. Directories achieve atomic writes by
renames; in a bucket, each put is atomic.
"""

import contextlib
import fnmatch
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, TypeVar

from integrators.errors import InputError, short_repr
from sweep.errors import Unreachable

if TYPE_CHECKING:
    from zarr.abc.store import Store as ZarrStore

Item = TypeVar("Item")
Result = TypeVar("Result")

SCHEME = "s3://"
METADATA = "zarr.json"
AT_ONCE = 8  # simultaneous requests
EXPECTED = "expected a directory, or s3://BUCKET/PATH/NAME.zarr"


def place_of_store_name(store: "str | Place") -> "Place":
    """The place that a path or address refers to.

    Parameters
    ----------
    store : str, Path or ObjectPlace

    Returns
    -------
    Path or ObjectPlace

    Raises
    ------
    InputError
        If the text is an address, but not a valid one of a place in a bucket.
    """
    if isinstance(store, ObjectPlace):
        return store
    if not isinstance(store, str | os.PathLike):
        raise InputError(f"store = {short_repr(store)}; {EXPECTED}")
    text = os.fspath(store)
    if text.startswith(SCHEME):
        return _parse_bucket_address(text)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        raise InputError(f"{text} is not an address of a store; {EXPECTED}")
    if re.match(r"s3:/[^/]", text):
        raise InputError(f"{text} is an address in a Path: give it as a str")
    return Path(store)


def _parse_bucket_address(text: str) -> "ObjectPlace":
    bucket, _, key = text.removeprefix(SCHEME).partition("/")
    key = key.removesuffix("/")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]", bucket):
        raise InputError(f"{text} names no bucket: {bucket!r}; {EXPECTED}")
    if not key or {"", ".", ".."} & set(key.split("/")) or re.search(r"[?#%*\\\x00-\x1f]", key):
        raise InputError(f"{text} names no place in the bucket {bucket!r}: {key!r}; {EXPECTED}")
    return ObjectPlace(bucket, key)


def require_local_path(output: str | Path) -> Path:
    """The path of an output file, such as a picture or a table.

    Raises
    ------
    InputError
        If `output` is an address, since only stores may be in buckets.
    """
    if "://" in os.fspath(output):
        raise InputError(f"{output} is an address, and only stores are in buckets: give a path")
    return Path(output)


@dataclass(frozen=True, order=True)
class ObjectPlace:
    """A key in a bucket: an object, or the prefix of the objects below it.

    Parameters
    ----------
    bucket, key : str
    patient : bool
        Whether to retry failed requests for a long time, as is useful while a study runs.
    """

    bucket: str
    key: str
    patient: bool = field(default=True, compare=False)

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}"

    # --- names, as of a path -------------------------------------------------------------------

    def __truediv__(self, name: str) -> "ObjectPlace":
        return self.joinpath(name)

    def joinpath(self, *names: str) -> "ObjectPlace":
        """The place below this one, by the names of its levels."""
        return replace(self, key="/".join(filter(None, (self.key, *map(str, names)))))

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return PurePosixPath(self.key).stem

    @property
    def parent(self) -> "ObjectPlace":
        """The place one level above."""
        return replace(self, key=self.key.rpartition("/")[0])

    @property
    def parents(self) -> "list[ObjectPlace]":
        """All places above, the nearest first."""
        return [self.parent, *self.parent.parents] if self.key else []

    def with_name(self, name: str) -> "ObjectPlace":
        """The place with another name beside this one."""
        return self.parent / name

    def absolute(self) -> "ObjectPlace":
        """The place itself, as addresses are absolute."""
        return self

    # --- what is there -------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether there is an object with this key or below it."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether there is an object with this key."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether there are objects below this key."""
        return next(self.walk(), None) is not None

    def iterdir(self) -> "Iterator[ObjectPlace]":
        """The places one level below."""
        with self._server() as (obstore, client):
            found = obstore.list_with_delimiter(client, self.key or None)
        keys = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
        return iter([replace(self, key=key) for key in keys])

    def walk(self) -> "Iterator[ObjectPlace]":
        """Yield all objects below, at any depth."""
        with self._server() as (obstore, client):
            for batch in obstore.list(client, self.key or None, chunk_size=1000):
                yield from (replace(self, key=found["path"]) for found in batch)

    def glob(self, pattern: str) -> "Iterator[ObjectPlace]":
        """The places below that match a pattern such as ``*.json`` or ``*/NAME``."""
        first, _, rest = pattern.partition("/")
        inner = (p for p in self.iterdir() if fnmatch.fnmatchcase(p.name, first))
        return (p / rest for p in inner if (p / rest).is_file()) if rest else inner

    def stat(self) -> SimpleNamespace:
        """The time of the last write, and the entity tag in place of the inode."""
        with self._server() as (obstore, client):
            found = obstore.head(client, self.key)
        written: float = found["last_modified"].timestamp()
        return SimpleNamespace(st_mtime=written, st_ino=found["e_tag"])

    # --- reading and writing -------------------------------------------------------------------

    def read_bytes(self) -> bytes:
        """The object's content."""
        return self.read_tagged()[0]

    def read_tagged(self) -> tuple[bytes, str | None]:
        """The object's content and its entity tag, for `put_if`."""
        with self._server() as (obstore, client):
            found = obstore.get(client, self.key)
            return found.bytes().to_bytes(), found.meta["e_tag"]

    def read_text(self) -> str:
        """The object's content as text."""
        return self.read_bytes().decode()

    def write_bytes(self, data: bytes) -> None:
        """Write the object atomically."""
        in_parts = len(data) > _s3_of(self).MOST_AT_ONCE
        with self._server() as (obstore, client):
            obstore.put(client, self.key, bytes(data), use_multipart=in_parts)

    def write_text(self, text: str) -> None:
        """Write the object as text."""
        self.write_bytes(text.encode())

    def put_if(self, data: bytes, tag: str | None = None) -> str | None:
        """Write the object only if it still has an entity tag or, without `tag`, does not exist.

        Returns
        -------
        str or None
            The tag of the new object; None if the condition does not hold.
        """
        with self._server() as (obstore, client):
            mode = "create" if tag is None else {"e_tag": tag}
            refused = obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError
            try:
                new: str | None = obstore.put(client, self.key, data, mode=mode)["e_tag"]
                return new
            except refused:
                with contextlib.suppress(FileNotFoundError):  # the response to a put may be lost
                    found, now = self.read_tagged()
                    return now if found == data else None
                return None

    def unlink(self, missing_ok: bool = True) -> None:
        """Remove the object."""
        self.delete([self.key])

    def delete(self, keys: list[str]) -> None:
        """Remove objects of the bucket, at least one, by their keys."""
        with self._server() as (obstore, client):
            obstore.delete(client, keys)

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Do nothing, since a bucket has no directories."""

    def zarr_store(self) -> "ZarrStore":
        """The zarr store of the objects below."""
        store: ZarrStore = _s3_of(self).zarr_store_of_bucket(self.bucket, self.key, self.patient)
        return store

    def check(self, writes: bool = False) -> None:
        """Check that the bucket answers and, if `writes`, that it can be written.

        Raises
        ------
        Unreachable
            With the reason, if it does not.
        """
        with replace(self, patient=False)._server() as (obstore, client):
            next(iter(obstore.list(client, self.key, chunk_size=1)), None)
            if writes:
                probe = f"{self.key}.{secrets.token_hex(4)}.probe"
                obstore.put(client, probe, b"")
                obstore.delete(client, probe)

    def _server(self) -> AbstractContextManager[tuple[ModuleType, object]]:
        """A context with the module obstore and a client, whose errors it translates."""
        context: AbstractContextManager[tuple[ModuleType, object]]
        context = _s3_of(self).obstore_client(self.bucket, self.key, self.patient)
        return context


def _s3_of(place: ObjectPlace) -> ModuleType:
    """The module with the clients.

    Raises
    ------
    Unreachable
        If the optional package that it needs is not installed.
    """
    try:
        from sweep.store.backends import s3_clients
    except ImportError:
        raise Unreachable.for_reason(
            f"{place} is in an object store, for which a package is missing: "
            "pip install 'geosweep[s3]'"
        ) from None
    return s3_clients


Place = Path | ObjectPlace
WriteCheck = Callable[[], object]  # raises `Interrupted` unless this process still has the lease


# --- places of either kind ------------------------------------------------------------------


def place_is_file(place: "Place") -> bool:
    """Whether a place is a file; False for a name that no file can have."""
    return place.is_file() if isinstance(place, ObjectPlace) else os.path.isfile(place)


def read_bytes_or_none(place: "Place") -> bytes | None:
    """The content of a file; None if the file does not exist."""
    try:
        return place.read_bytes()
    except FileNotFoundError:
        if isinstance(place, Path) and place.is_symlink():  # a broken link
            raise
        return None


def path_below(place: "Place", top: "Place") -> str:
    """The path of a place relative to a place above it, with slashes."""
    return str(place).removeprefix(f"{top}/")


def files_below(place: "Place") -> set[str]:
    """The files below a directory or prefix, as a set of paths relative to it."""
    if isinstance(place, ObjectPlace):
        return {path_below(found, place) for found in place.walk()}
    return {
        path_below(Path(folder, name), place)
        for folder, _, names in os.walk(place)
        for name in names
    }


def map_over_place(
    place: "Place", function: Callable[[Item], Result], items: Iterable[Item]
) -> list[Result]:
    """The list of ``function(item)``; for an object store, computed in several threads."""
    items = list(items)
    if len(items) < 2 or not isinstance(place, ObjectPlace):
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(AT_ONCE, len(items))) as pool:
        return list(pool.map(function, items))


def write_text_atomically(file: Place, text: str) -> None:
    """Write a small file atomically, but not durably."""
    if isinstance(file, ObjectPlace):
        file.write_text(text)
        return
    partial = file.with_name(f"{file.name}.{secrets.token_hex(4)}.partial")
    try:
        partial.write_text(text)
        partial.rename(file)
    except OSError:  # on a full disk, partial files would only make matters worse
        partial.unlink(missing_ok=True)
        raise


def remove_tree(place: Place, ignore_errors: bool = False, but: Place | None = None) -> None:
    """Remove a place and everything below it, except, in a bucket, the object `but`."""
    if isinstance(place, ObjectPlace):
        if keys := [found.key for found in place.walk() if found != but]:
            place.delete(keys)
        return
    shutil.rmtree(place, ignore_errors=ignore_errors)


def upload_tree(source: Path, target: ObjectPlace, check: WriteCheck) -> None:
    """Copy everything below a directory into a bucket, the ``zarr.json`` of its root last.

    Parameters
    ----------
    source : Path
    target : ObjectPlace
    check : callable
        Called before the last file, which makes the store exist; may raise.
    """
    top = source / METADATA

    def copied(file: Path) -> None:
        (target / path_below(file, source)).write_bytes(file.read_bytes())

    map_over_place(target, copied, [f for f in source.rglob("*") if f.is_file() and f != top])
    check()
    copied(top)
