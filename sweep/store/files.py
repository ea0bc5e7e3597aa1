"""The store's files read directly: fast to import, and one damaged chunk hides no other.

Zarr reads an array or raises; here each chunk of an array can be looked at by itself. Only what
`sweep.store.arrays` makes is understood: numbers or strings, compressed by blosc with a crc32c;
in shards, with their index behind the chunks; or each chunk in a file of its own.
"""

import errno
import functools
import json
import math
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from integrators.errors import GeosweepError
from sweep.errors import Damaged, StoreError, Unreachable
from sweep.store.backends.places import (
    METADATA,
    Place,
    files_below,
    map_over_place,
    path_below,
    read_bytes_or_none,
)

ZarrMode = Literal["r", "r+", "a"]
Index = tuple[int, ...]  # of a chunk or a shard, along each dimension of its array
RowNumbers = NDArray[np.integer]

FORMAT_VERSION = 3
INTERNAL = "_geosweep"
REFERENCES, ENDS = "references", "ends"
CODECS = ("blosc", "crc32c")
ABSENT = 2**64 - 1  # offset and size, in a shard's index, of a chunk that is not there
CHUNK_KEY = re.compile(r"(.+?)/(c(?:[./]\d+)+)")  # a path below the store
# Errors of reading that lie in the file itself, and neither in rights nor in this process.
OF_FILE = {errno.ENOENT, errno.EIO, errno.ELOOP, errno.EISDIR, errno.ENOTDIR}


def references_group_name(experiment: str) -> str:
    """Name of the group with the references of an experiment."""
    return f"{INTERNAL}/{REFERENCES}/{experiment}"


def end_checkpoints_group_name(group: str) -> str:
    """Name of the group with the integrators' state at the end of a group's runs.

    Just below what is internal: each group above it would be one more object.
    """
    return f"{INTERNAL}/{ENDS}.{group.replace('/', '.')}"


def group_with_records_of(group: str) -> str:
    """The group whose records a group's arrays are folded from: of end checkpoints, the runs'."""
    runs = group.removeprefix(end_checkpoints_group_name(""))
    return group if runs == group else runs.replace(".", "/")


@dataclass(frozen=True, eq=False)
class Part:
    """A chunk of an array.

    Parameters
    ----------
    index : tuple of int
        Along the whole array.
    extent : tuple of slice
        Of the array.
    values : ndarray or None
        None if it is not there, or damaged.
    damage : str
        What is wrong with it; empty if nothing is.
    """

    index: Index
    extent: tuple[slice, ...]
    values: np.ndarray | None
    damage: str

    @property
    def rows(self) -> slice:
        """Its slice of the first dimension."""
        return self.extent[0]


# Positions among some rows, the values of these, and the first sample of values over time.
RowsOfRecord = tuple[RowNumbers, np.ndarray, int]


class UnfoldedRows(Protocol):
    """Records that are not folded yet: `sweep.store.commit.records.Unfolded`."""

    def read(self, name: str, rows: RowNumbers, shard_rows: int) -> list[RowsOfRecord]:
        """What they have of some rows of an array; of several of a row the last one counts."""


@dataclass(frozen=True, eq=False)
class ArrayFiles:
    """An array of the store, by its files.

    Parameters
    ----------
    directory : Path or ObjectPlace
    shape : tuple of int
    chunks : tuple of int
        Of the part that is a file: of a shard, where there are any.
    inner : tuple of int
        Of the part that is compressed by itself; that of the file where there are no shards.
    dtype : numpy.dtype
        Object for strings.
    dims : tuple of str
    fill : float, int, bool or str
        What a chunk that is not there reads as.
    attributes : dict
    sharded : bool
        Whether a file holds several chunks and their index.
    separator : str
        Between the indices in a file's name.
    unfolded : UnfoldedRows, optional
        Records that are not folded yet, and read as if they were.
    """

    directory: Place
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    inner: tuple[int, ...]
    dtype: np.dtype[Any]
    dims: tuple[str, ...]
    fill: float | int | bool | str
    attributes: dict[str, Any]
    sharded: bool = False
    separator: str = "."
    unfolded: "UnfoldedRows | None" = None

    @classmethod
    def read(cls, directory: Place, unfolded: "UnfoldedRows | None" = None) -> "ArrayFiles":
        """The array in `directory`.

        Raises
        ------
        Damaged
            If its metadata cannot be read, or are none that Geosweep writes.
        """
        return cls.of(directory, read_zarr_metadata(directory), unfolded)

    @classmethod
    def of(
        cls, directory: Place, metadata: Mapping[str, Any], unfolded: "UnfoldedRows | None" = None
    ) -> "ArrayFiles":
        """The array in `directory` that has these metadata; as `read`."""
        try:
            codecs = metadata["codecs"]
            chunks = inner = tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"])
            sharded = codecs[0]["name"] == "sharding_indexed"
            if sharded:
                inner = tuple(codecs[0]["configuration"]["chunk_shape"])
                codecs = codecs[0]["configuration"]["codecs"]
            names = tuple(codec["name"] for codec in codecs)
            if metadata["node_type"] != "array" or names[1:] != CODECS:
                raise Damaged(f"{directory / METADATA} describes no array that Geosweep writes")
            text = metadata["data_type"] == "string"
            fill = metadata["fill_value"]
            return cls(
                directory=directory,
                shape=tuple(metadata["shape"]),
                chunks=chunks,
                inner=inner,
                dtype=np.dtype(object if text else metadata["data_type"]),
                dims=tuple(metadata["dimension_names"]),
                fill=math.nan if fill == "NaN" else fill,
                attributes=metadata["attributes"],
                sharded=sharded,
                separator=metadata["chunk_key_encoding"]["configuration"]["separator"],
                unfolded=unfolded,
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise Damaged(f"{directory / METADATA} lacks or garbles {error}") from None

    @property
    def name(self) -> str:
        """Of the array."""
        return self.directory.name

    @property
    def path(self) -> str:
        """Its path below the store."""
        _, internal, below = str(self.directory).rpartition(f"/{INTERNAL}/")
        return f"{INTERNAL}/{below}" if internal else f"{self.directory.parent.name}/{self.name}"

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of files along each dimension."""
        return tuple(math.ceil(n / c) for n, c in zip(self.shape, self.chunks, strict=True))

    def file_name(self, index: Index) -> str:
        """The path of a chunk's file, or of a shard's, below the array's directory."""
        return self.separator.join(("c", *map(str, index)))

    def file(self, index: Index) -> Place:
        """The file of a chunk, or of a shard."""
        return self.directory / self.file_name(index)

    def index_of_file(self, file: Place) -> Index:
        """The index of the chunk, or of the shard, that a file has."""
        path = path_below(file, self.directory)
        return tuple(map(int, re.split(r"[./]", path)[1:]))

    def row_shape(self, samples: int) -> tuple[int, ...]:
        """Shape of one row, tuple of int: without the first dimension, of so many samples."""
        sizes = zip(self.dims[1:], self.shape[1:], strict=True)
        return tuple(samples if dim == "time" else size for dim, size in sizes)

    def rows(self, index: Index) -> slice:
        """The file's slice of the first dimension."""
        start = index[0] * self.chunks[0]
        return slice(start, min(start + self.chunks[0], self.shape[0]))

    # --- reading -----------------------------------------------------------------------------

    def _readable_parts(self, index: Index, among: Collection[int] | None = None) -> list[Part]:
        """Those of `parts` that are there; `Damaged`, with array and file, if one is."""
        try:
            parts = self.parts(index, among) or []
            for part in parts:
                if part.damage:
                    raise Damaged(part.damage)
        except Damaged as damage:
            raise self.damage(index, damage) from None
        return [part for part in parts if part.values is not None]

    def chunk_name(self, index: Index) -> str:
        """What messages call the file of a chunk, or of a shard."""
        return name_of_file(f"{self.path}/{self.file_name(index)}")

    def damage(self, index: Index, damage: Damaged) -> Damaged:
        """A damage that is met in the file of a chunk, or of a shard, with its name."""
        return damage if damage.file else Damaged(damage.text, self.chunk_name(index))

    def parts(self, index: Index, among: Collection[int] | None = None) -> list[Part] | None:
        """The chunks of a file, each by itself.

        Parameters
        ----------
        index : tuple of int
        among : set of int, optional
            First indices of the chunks that are meant, along the whole array.

        Returns
        -------
        list of Part or None
            None if nothing of the file is there.

        Raises
        ------
        Damaged
            If the file cannot be read, or its index.
        """
        data = self.read_file(index)
        return None if data is None else self.parts_of(index, data, among)

    def parts_of(
        self, index: Index, data: bytes, among: Collection[int] | None = None
    ) -> list[Part]:
        """The chunks of a file with some bytes; as `parts`."""
        if not self.sharded:
            return [self._part(index, data)]
        spans, found = self.chunk_spans(data), []
        for at in np.ndindex(self.inner_grid):
            own = tuple(i * g + k for i, g, k in zip(index, self.inner_grid, at, strict=True))
            within = zip(own, self.inner, self.shape, strict=True)
            if (among is None or own[0] in among) and all(k * n < size for k, n, size in within):
                offset, size = map(int, spans[at])
                there = offset != ABSENT
                found.append(self._part(own, data[offset : offset + size] if there else None))
        return found

    def _part(self, at: Index, data: bytes | None) -> Part:
        sizes = zip(at, self.inner, self.shape, strict=True)
        extent = tuple(slice(k * n, min(k * n + n, size)) for k, n, size in sizes)
        if data is None:
            return Part(at, extent, None, "")
        try:
            values = self.decode_chunk(data)
        except Damaged as damage:
            return Part(at, extent, None, str(damage))
        return Part(at, extent, values[tuple(slice(s.stop - s.start) for s in extent)], "")

    def read_file(self, index: Index) -> bytes | None:
        """The bytes of a file, without records that are not folded yet; None if there are none.

        Raises
        ------
        Damaged
            If it cannot be read.
        """
        try:
            return read_bytes_or_none(self.file(index))
        except OSError as error:
            raise unreadable(self.chunk_name(index), error) from None

    def read_records(self, rows: RowNumbers) -> list[RowsOfRecord]:
        """What is not folded yet of some rows; to be read before the rows, and laid over them."""
        if self.unfolded is None or not self.sharded:
            return []
        return self.unfolded.read(self.name, rows, self.chunks[0])

    def lay_over(
        self,
        found: np.ndarray,
        records: Iterable[RowsOfRecord],
        rest: Sequence[RowNumbers] | None = None,
    ) -> None:
        """Lay what records have over the values of rows.

        Parameters
        ----------
        found : ndarray
        records : list of tuple
            As of `read_records`.
        rest : list of ndarray of int, optional
            Which indices `found` has along the other dimensions; all unless given.
        """
        rest = [np.arange(size) for size in found.shape[1:]] if rest is None else rest
        for mine, values, first in records:
            to: list[RowNumbers] = [mine]
            own: list[RowNumbers] = [np.arange(len(mine))]
            for dim, wanted, size in zip(self.dims[1:], rest, values.shape[1:], strict=True):
                begin = first if dim == "time" else 0
                inside = np.flatnonzero((wanted >= begin) & (wanted < begin + size))
                to.append(inside)
                own.append(wanted[inside] - begin)
            found[np.ix_(*to)] = values[np.ix_(*own)]

    def values(self) -> np.ndarray:
        """The whole array, which is one-dimensional; `Damaged`, with its name, if it is."""
        records = self.read_records(np.arange(self.shape[0]))
        found = np.full(self.shape, self.fill, self.dtype)

        def read(i: int) -> None:
            for part in self._readable_parts((i,)):
                found[part.rows] = part.values

        map_over_place(self.directory, read, range(self.grid[0]))
        self.lay_over(found, records)
        return found

    def read_rows(self, rows: RowNumbers) -> np.ndarray:
        """Some rows of the array, in their order.

        Parameters
        ----------
        rows : ndarray of int
        """
        records = self.read_records(rows)
        found = np.full((len(rows), *self.shape[1:]), self.fill, self.dtype)
        of_file, of_chunk = rows // self.chunks[0], rows // self.inner[0]
        for i in np.unique(of_file).tolist():
            among = set(of_chunk[of_file == i].tolist())
            for rest in np.ndindex(self.grid[1:]):
                for part in self._readable_parts((i, *rest), among):
                    mine = np.flatnonzero(of_chunk == part.index[0])
                    if part.values is None:
                        continue
                    where: tuple[RowNumbers | slice, ...] = (mine, *part.extent[1:])
                    found[where] = part.values[rows[mine] - part.rows.start]
        self.lay_over(found, records)
        return found

    # --- files as bytes ----------------------------------------------------------------------

    @property
    def inner_grid(self) -> tuple[int, ...]:
        """Number of chunks along each dimension of a shard."""
        return tuple(c // n for c, n in zip(self.chunks, self.inner, strict=True))

    def chunk_spans(self, data: bytes) -> NDArray[np.uint64]:
        """Offset and size of each chunk of a shard, `ABSENT` of one that is not there.

        Returns
        -------
        ndarray of uint64, shape (*inner_grid, 2)

        Raises
        ------
        Damaged
            If the index fails its checksum, or points beyond the shard.
        """
        count = math.prod(self.inner_grid)
        index = checked_bytes(data[-(16 * count + 4) :])
        if len(index) != 16 * count:
            raise Damaged("is too short for its index")
        spans = np.frombuffer(index, "<u8").reshape(*self.inner_grid, 2)
        there = spans[..., 0] != ABSENT
        if (spans[..., 0] + spans[..., 1])[there].max(initial=0) > len(data) - len(index) - 4:
            raise Damaged("has an index that points beyond it")
        return spans

    def decode_chunk(self, data: bytes) -> np.ndarray:
        """The values of a chunk; `Damaged` if they cannot be read."""
        body = checked_bytes(data)
        try:
            plain = _blosc_codec().decode(body)
            values = (
                _decode_string_chunk(plain, math.prod(self.inner))
                if self.dtype == object
                else np.frombuffer(plain, self.dtype)
            )
            return values.reshape(self.inner)
        except (RuntimeError, ValueError) as error:
            raise Damaged(f"cannot be decoded: {error}") from None


# --- damage ----------------------------------------------------------------------------------


def name_of_file(path: str) -> str:
    """What messages call a file, by its path below the store: of a chunk its array, and which."""
    found = CHUNK_KEY.fullmatch(path)
    return path if found is None else f"{found[1]}: chunk {found[2]}"


def damage_of_store(store: object, damage: Damaged) -> Damaged:
    """A damage with the name of the store that it is of, and with what mends it."""
    if damage.remedy:
        return damage
    name = f"{store}: {damage.file}".rstrip()
    return Damaged(damage.text, name, f"`sweep verify {store} --repair` mends it")


def unreadable(file: Place | str, error: OSError) -> GeosweepError:
    """The error that a file of a store cannot be read.

    Parameters
    ----------
    file : Path, ObjectPlace or str
        As in `Damaged`.
    error : OSError

    Returns
    -------
    Damaged, StoreError or Unreachable
        `Damaged` only if it is the file: without the right to read it nothing is known of it.
    """
    if isinstance(error, Unreachable):
        return error
    text = f"cannot be read: {error.strerror}"
    if error.errno in OF_FILE:
        return Damaged(text, str(file))
    return StoreError(f"{error.filename or file} {text}")


# --- chunks as bytes -------------------------------------------------------------------------


def encode_chunk(values: np.ndarray) -> bytes:
    """The bytes of a chunk of numbers, as zarr writes them."""
    return with_checksum(_blosc_codec().encode(np.ascontiguousarray(values)))


def seal(content: object) -> int:
    """A checksum of what JSON holds, to be kept with it."""
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def seals_of_root(metadata: Mapping[str, Any]) -> list[int]:
    """Checksums of the root's attributes, and of its copies of all other metadata."""
    return [seal(metadata["attributes"]), seal(metadata["consolidated_metadata"].get("metadata"))]


def with_checksum(data: bytes) -> bytes:
    """Bytes with their crc32c behind them."""
    data = bytes(data)
    checksum: int = google_crc32c.value(data)
    return data + checksum.to_bytes(4, "little")


def checked_bytes(data: bytes) -> bytes:
    """The bytes before a crc32c; `Damaged` if they are not those that it is of."""
    body, stored = data[:-4], data[-4:]
    if len(stored) < 4 or google_crc32c.value(body) != int.from_bytes(stored, "little"):
        raise Damaged("fails its checksum")
    return body


@functools.cache
def _blosc_codec() -> Any:
    from numcodecs.blosc import SHUFFLE, Blosc

    return Blosc(cname="zstd", clevel=1, shuffle=SHUFFLE)


def _decode_string_chunk(data: bytes, expected: int) -> np.ndarray:
    """Texts, equal ones shared; ValueError if they are not as many as expected."""
    from numcodecs.vlen import VLenUTF8

    count, size = np.frombuffer(data[:8].ljust(8, b"\0"), "<u4").tolist()
    if count != expected:  # they are none, and their number would fill the memory
        raise ValueError(f"expected {expected} texts")
    first = data[4 : 8 + size]
    if len(first) * count == len(data) - 4 and data[4:] == first * count:  # as of most labels
        return np.full(count, first[4:].decode(), dtype=object)
    known: dict[str, str] = {}
    found: np.ndarray = VLenUTF8().decode(data)
    found[:] = [known.setdefault(text, text) for text in found.tolist()]
    return found


def read_zarr_metadata(directory: Place) -> dict[str, Any]:
    """The metadata of a group or an array.

    Raises
    ------
    Damaged
        If there are none, or they are no JSON.
    """
    file = directory / METADATA
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise unreadable(file, error) from None
    except ValueError:
        raise Damaged("is no JSON", str(file)) from None
    if not isinstance(found, dict):
        raise Damaged("describes no group and no array", str(file))
    return found


def read_metadata_below(place: Place) -> dict[str, dict[str, Any]]:
    """The metadata of all groups and arrays below a store's root by path, those above first."""
    ends = f"/{METADATA}"
    below = [path.removesuffix(ends) for path in files_below(place) if path.endswith(ends)]
    below.sort(key=lambda path: (path.count("/"), path))
    read = map_over_place(place, lambda path: read_zarr_metadata(place / path), below)
    return dict(zip(below, read, strict=True))


def are_runs_computed_to_sample(
    counts: NDArray[np.integer], status: NDArray[np.integer], samples: int
) -> NDArray[np.bool_]:
    """Whether runs are computed up to the last of so many samples, or to where they failed.

    Parameters
    ----------
    counts, status : ndarray of int, shape (runs,)
        The count of samples and the status, 0 if it is complete.
    samples : int
    """
    return (counts >= samples) | ((counts > 0) & (status > 0))
