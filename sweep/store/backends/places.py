"""Where a store is: a directory, or a prefix of a bucket, ``s3://BUCKET/PATH``.

Directories are `pathlib.Path`, as ever. An `ObjectPlace` has that part of a path's interface which
the service uses, so that most of the code does not know which of the two it has. What directories
do by renames, objects do otherwise: a put is atomic.
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

from integrators.errors import InputError
from sweep.errors import Unreachable

if TYPE_CHECKING:
    from zarr.abc.store import Store as ZarrStore

Item = TypeVar("Item")
Result = TypeVar("Result")

SCHEME = "s3://"
METADATA = "zarr.json"
AT_ONCE = 8  # requests
EXPECTED = "expected a directory, or s3://BUCKET/PATH/NAME.zarr"


def place_of_store_name(store: "str | Place") -> "Place":
    """The place that a store's name stands for.

    Parameters
    ----------
    store : str, Path or ObjectPlace

    Returns
    -------
    Path or ObjectPlace

    Raises
    ------
    InputError
        If it is an address of another kind, or none of a place in a bucket.
    """
    if isinstance(store, ObjectPlace):
        return store
    text = os.fspath(store)
    if text.startswith(SCHEME):
        return _parse_bucket_address(text)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        raise InputError(f"{text} is no address of a store that can be used; {EXPECTED}")
    if re.match(r"s3:/[^/]", text):
        raise InputError(f"{text} was an address before it became a path: give it as a text")
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
    """The path of an output file, such as a picture or a table; only stores may be in buckets.

    Raises
    ------
    InputError
        If it is an address.
    """
    if "://" in os.fspath(output):
        raise InputError(f"{output} is an address: give a path, only stores are in buckets")
    return Path(output)


@dataclass(frozen=True, order=True)
class ObjectPlace:
    """A key of a bucket, and all keys below it: a file, or a directory.

    Parameters
    ----------
    bucket, key : str
    patient : bool
        Whether a request that fails is tried again for long, as while a study is run.
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
        """The place below."""
        return replace(self, key="/".join(filter(None, (self.key, *map(str, names)))))

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return PurePosixPath(self.key).stem

    @property
    def parent(self) -> "ObjectPlace":
        """The place above."""
        return replace(self, key=self.key.rpartition("/")[0])

    @property
    def parents(self) -> "list[ObjectPlace]":
        """All places above, the nearest first."""
        return [self.parent, *self.parent.parents] if self.key else []

    def with_name(self, name: str) -> "ObjectPlace":
        """The place of another name beside it."""
        return self.parent / name

    def absolute(self) -> "ObjectPlace":
        """Itself."""
        return self

    # --- what is there -------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether there is an object of this key, or one below."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether there is an object of this key."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether there are objects below."""
        return next(self.walk(), None) is not None

    def iterdir(self) -> "Iterator[ObjectPlace]":
        """The places just below."""
        with self._server() as (obstore, client):
            found = obstore.list_with_delimiter(client, self.key or None)
        keys = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
        return iter([replace(self, key=key) for key in keys])

    def walk(self) -> "Iterator[ObjectPlace]":
        """The objects below, at whatever depth."""
        with self._server() as (obstore, client):
            for batch in obstore.list(client, self.key or None, chunk_size=1000):
                yield from (replace(self, key=found["path"]) for found in batch)

    def glob(self, pattern: str) -> "Iterator[ObjectPlace]":
        """The objects below that fit a pattern such as ``*.json`` or ``*/NAME``."""
        first, _, rest = pattern.partition("/")
        inner = (p for p in self.iterdir() if fnmatch.fnmatchcase(p.name, first))
        return (p / rest for p in inner if (p / rest).is_file()) if rest else inner

    def stat(self) -> SimpleNamespace:
        """When it was last written, and in the place of a file's number what its content is."""
        with self._server() as (obstore, client):
            found = obstore.head(client, self.key)
        written: float = found["last_modified"].timestamp()
        return SimpleNamespace(st_mtime=written, st_ino=found["e_tag"])

    # --- reading and writing -------------------------------------------------------------------

    def read_bytes(self) -> bytes:
        """The object's content."""
        return self.read_tagged()[0]

    def read_tagged(self) -> tuple[bytes, str | None]:
        """The object's content, and the tag that `put_if` knows it by."""
        with self._server() as (obstore, client):
            found = obstore.get(client, self.key)
            return found.bytes().to_bytes(), found.meta["e_tag"]

    def read_text(self) -> str:
        """The object's content as text."""
        return self.read_bytes().decode()

    def write_bytes(self, data: bytes) -> None:
        """Write the object; it is there whole, or the one before is."""
        in_parts = len(data) > _s3_of(self).MOST_AT_ONCE
        with self._server() as (obstore, client):
            obstore.put(client, self.key, bytes(data), use_multipart=in_parts)

    def write_text(self, text: str) -> None:
        """Write the object as text."""
        self.write_bytes(text.encode())

    def put_if(self, data: bytes, tag: str | None = None) -> str | None:
        """Write the object if there is none, or if the one that is there has a tag.

        Returns
        -------
        str or None
            The new one's tag; None if the condition does not hold.
        """
        with self._server() as (obstore, client):
            mode = "create" if tag is None else {"e_tag": tag}
            refused = obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError
            try:
                new: str | None = obstore.put(client, self.key, data, mode=mode)["e_tag"]
                return new
            except refused:
                with contextlib.suppress(FileNotFoundError):  # was the first try's answer lost?
                    found, now = self.read_tagged()
                    return now if found == data else None
                return None

    def unlink(self, missing_ok: bool = True) -> None:
        """Remove the object."""
        self.delete([self.key])

    def delete(self, keys: list[str]) -> None:
        """Remove objects of its bucket, at least one."""
        with self._server() as (obstore, client):
            obstore.delete(client, keys)

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Nothing: there are no directories."""

    def zarr_store(self) -> "ZarrStore":
        """Where zarr reads and writes what is below."""
        store: ZarrStore = _s3_of(self).zarr_store_of_bucket(self.bucket, self.key, self.patient)
        return store

    def check(self, writes: bool = False) -> None:
        """Find out whether the bucket answers, and can be written if that is asked for.

        Raises
        ------
        Unreachable
            If not: says why.
        """
        with replace(self, patient=False)._server() as (obstore, client):
            next(iter(obstore.list(client, self.key, chunk_size=1)), None)
            if writes:
                probe = f"{self.key}.{secrets.token_hex(4)}.probe"
                obstore.put(client, probe, b"")
                obstore.delete(client, probe)

    def _server(self) -> AbstractContextManager[tuple[ModuleType, object]]:
        """A context with the module obstore and a client; what they raise becomes ours."""
        context: AbstractContextManager[tuple[ModuleType, object]]
        context = _s3_of(self).obstore_client(self.bucket, self.key, self.patient)
        return context


def _s3_of(place: ObjectPlace) -> ModuleType:
    """The module with the clients, which needs an optional package.

    Raises
    ------
    Unreachable
        If that is missing.
    """
    try:
        from sweep.store.backends import s3
    except ImportError:
        raise Unreachable.for_reason(
            f"{place} is in an object store, for which a package is missing: "
            "pip install 'geosweep[s3]'"
        ) from None
    return s3


Place = Path | ObjectPlace
WriteCheck = Callable[[], object]  # raises `Interrupted` unless this process still has the lease


# --- of either kind -------------------------------------------------------------------------


def place_is_file(place: "Place") -> bool:
    """Whether a place is a file; also of a name that no file can have."""
    return place.is_file() if isinstance(place, ObjectPlace) else os.path.isfile(place)


def read_bytes_or_none(place: "Place") -> bytes | None:
    """The content of a file; None if there is none."""
    try:
        return place.read_bytes()
    except FileNotFoundError:
        if isinstance(place, Path) and place.is_symlink():  # which leads nowhere
            raise
        return None


def path_below(place: "Place", top: "Place") -> str:
    """The path of a place relative to one above it, with slashes."""
    return str(place).removeprefix(f"{top}/")


def files_below(place: "Place") -> set[str]:
    """The files below a directory, or a prefix, as a set of paths relative to it."""
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
    """A list of ``function(item)``: of an object store some at the same time, in threads."""
    items = list(items)
    if len(items) < 2 or not isinstance(place, ObjectPlace):
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(AT_ONCE, len(items))) as pool:
        return list(pool.map(function, items))


def write_text_atomically(file: Place, text: str) -> None:
    """Write a small file that is there whole, or not at all."""
    if isinstance(file, ObjectPlace):
        file.write_text(text)
        return
    partial = file.with_name(f"{file.name}.{secrets.token_hex(4)}.partial")
    try:
        partial.write_text(text)
        partial.rename(file)
    except OSError:  # of a full disk, which the next try would only fill more
        partial.unlink(missing_ok=True)
        raise


def remove_tree(place: Place, ignore_errors: bool = False, but: Place | None = None) -> None:
    """Remove a place and all that is below; `but` one object."""
    if isinstance(place, ObjectPlace):
        if keys := [found.key for found in place.walk() if found != but]:
            place.delete(keys)
        return
    shutil.rmtree(place, ignore_errors=ignore_errors)


def upload_tree(source: Path, target: ObjectPlace, check: WriteCheck) -> None:
    """Copy all that is below a directory into a bucket; ``zarr.json`` of the top last.

    Parameters
    ----------
    source : Path
    target : ObjectPlace
    check : callable
        Called before that one, by which a store appears in a bucket; it may raise.
    """
    top = source / METADATA

    def copied(file: Path) -> None:
        (target / path_below(file, source)).write_bytes(file.read_bytes())

    map_over_place(target, copied, [f for f in source.rglob("*") if f.is_file() and f != top])
    check()
    copied(top)
