"""Read the files of a store directly, without zarr: chunk by chunk, and fast to import.

Zarr reads a whole array or raises; here a damaged chunk does not keep the others from being read.
Only the arrays that `sweep.store.arrays` creates are understood: numbers or strings, compressed by
blosc with a crc32c, either in shards whose index follows the chunks, or with a file for each chunk.
"""

import contextlib
import errno
import functools
import json
import math
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

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

ZarrMode = Literal["r", "r+", "a", "w-"]
Index = tuple[int, ...]  # position of a chunk or shard along each dimension of its array
RowNumbers = NDArray[np.integer]

FORMAT_VERSION = 3
INTERNAL = "_geosweep"
REFERENCES, ENDS = "references", "ends"
CODECS = ("blosc", "crc32c")
ABSENT = 2**64 - 1  # offset and size of a missing chunk in the index of a shard
RESIDUE = 0x48674BC7  # the crc32c of any bytes that are followed by their own
CHUNK_KEY = re.compile(r"(.+?)/(c(?:[./]\d+)+)")  # a path below the store
# Read errors that mean that the file itself is bad, not that this process may not read it.
OF_FILE = {errno.ENOENT, errno.EIO, errno.ELOOP, errno.EISDIR, errno.ENOTDIR}


def references_group_name(experiment: str) -> str:
    """Name of the group that holds the references of an experiment."""
    return f"{INTERNAL}/{REFERENCES}/{experiment}"


def end_checkpoints_group_name(group: str) -> str:
    """Name of the group that holds the checkpoints at the ends of a group's runs.

    It is directly below `INTERNAL`, since each further level would cost one more object.
    """
    return f"{INTERNAL}/{ENDS}.{group.replace('/', '.')}"


def group_with_records_of(group: str) -> str:
    """Name of the group whose records are folded into a group.

    It is the group itself, or the group of runs if `group` holds the checkpoints at their ends.
    """
    runs = group.removeprefix(end_checkpoints_group_name(""))
    return group if runs == group else runs.replace(".", "/")


@dataclass(frozen=True, eq=False)
class Chunk:
    """A chunk that was read, with its place in the array.

    Parameters
    ----------
    index : tuple of int
        Index of the chunk in the whole array.
    extent : tuple of slice
        The region of the array that the chunk covers.
    values : ndarray or None
        None if the chunk is missing or damaged.
    damage : str
        What is wrong with the chunk; empty if nothing is.
    """

    index: Index
    extent: tuple[slice, ...]
    values: np.ndarray | None
    damage: str

    @property
    def rows(self) -> slice:
        """The rows of the array that the chunk covers."""
        return self.extent[0]


# From one record: positions among the requested rows, their values, and the sample number of the
# first value (0 for arrays without time).
RowsOfRecord = tuple[RowNumbers, np.ndarray, int]


# Records of a group that are not folded yet (`sweep.store.commit.records.Record`), by their row of
# shards. If several hold the same row, the first one counts.
Unfolded = Mapping[int, Sequence[Any]]


@dataclass(frozen=True, eq=False)
class ArrayFiles:
    """An array of a store, read from its files.

    Parameters
    ----------
    directory : Path or ObjectPlace
    shape : tuple of int
    chunks : tuple of int
        Shape of the block that one file holds: a shard, or a chunk if there are no shards.
    inner : tuple of int
        Shape of the chunk that is compressed as a unit; equal to `chunks` without shards.
    dtype : numpy.dtype
        Object for strings.
    dims : tuple of str
        Names of the dimensions.
    fill : float, int, bool or str
        The value of missing chunks.
    attributes : dict
    sharded : bool
        Whether a file is a shard, with several chunks and their index.
    separator : str
        Separates the indices in the name of a file.
    unfolded : dict of int to list of Record
        Records that are not folded yet, by row of shards, which are read as if they were.
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
    unfolded: Unfolded = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Place, unfolded: Unfolded | None = None) -> "ArrayFiles":
        """The array in a directory, from its ``zarr.json``.

        Raises
        ------
        Damaged
            If the metadata cannot be read, or describe an array that Geosweep does not write.
        """
        return cls.of(directory, read_zarr_metadata(directory), unfolded)

    @classmethod
    def of(
        cls, directory: Place, metadata: Mapping[str, Any], unfolded: Unfolded | None = None
    ) -> "ArrayFiles":
        """The array in a directory, given its metadata; raises `Damaged` as `read` does."""
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
                unfolded=unfolded or {},
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise Damaged(f"{directory / METADATA} lacks or garbles {error}") from None

    @property
    def name(self) -> str:
        """Name of the array."""
        return self.directory.name

    @property
    def path(self) -> str:
        """Path of the array below the store."""
        _, internal, below = str(self.directory).rpartition(f"/{INTERNAL}/")
        return f"{INTERNAL}/{below}" if internal else f"{self.directory.parent.name}/{self.name}"

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of files along each dimension."""
        return tuple(math.ceil(n / c) for n, c in zip(self.shape, self.chunks, strict=True))

    def file_name(self, index: Index) -> str:
        """Name of the file of a chunk or shard, relative to the array's directory."""
        return self.separator.join(("c", *map(str, index)))

    def file(self, index: Index) -> Place:
        """The file of a chunk or shard."""
        return self.directory / self.file_name(index)

    def index_of_file(self, file: Place) -> Index:
        """The index of the chunk or shard that a file holds."""
        path = path_below(file, self.directory)
        return tuple(map(int, re.split(r"[./]", path)[1:]))

    def row_shape(self, samples: int) -> tuple[int, ...]:
        """Shape of one row with `samples` samples, that is, without the first dimension."""
        sizes = zip(self.dims[1:], self.shape[1:], strict=True)
        return tuple(samples if dim == "time" else size for dim, size in sizes)

    def rows(self, index: Index) -> slice:
        """The rows of the array that the file with an index covers."""
        start = index[0] * self.chunks[0]
        return slice(start, min(start + self.chunks[0], self.shape[0]))

    # --- reading -----------------------------------------------------------------------------

    def _read_sound_chunks(self, index: Index, among: Collection[int] | None = None) -> list[Chunk]:
        """The chunks of `read_chunks` that exist; raises `Damaged` if one is damaged."""
        try:
            chunks = self.read_chunks(index, among) or []
            for chunk in chunks:
                if chunk.damage:
                    raise Damaged(chunk.damage)
        except Damaged as damage:
            raise self.damage(index, damage) from None
        return [chunk for chunk in chunks if chunk.values is not None]

    def chunk_name(self, index: Index) -> str:
        """What messages call the file of a chunk or shard."""
        return name_of_file(f"{self.path}/{self.file_name(index)}")

    def damage(self, index: Index, damage: Damaged) -> Damaged:
        """A damage, with the name of the chunk or shard in which it was found."""
        return damage if damage.file else Damaged(damage.text, self.chunk_name(index))

    def read_chunks(self, index: Index, among: Collection[int] | None = None) -> list[Chunk] | None:
        """Read the chunks of a file; a damaged chunk does not hide the others.

        Parameters
        ----------
        index : tuple of int
            Index of the file.
        among : set of int, optional
            Read only chunks whose index along the first dimension is one of these.

        Returns
        -------
        list of Chunk or None
            None if the file does not exist.

        Raises
        ------
        Damaged
            If the file, or the index of the shard, cannot be read.
        """
        data = self.read_file(index)
        return None if data is None else self.decode_chunks(index, data, among)

    def decode_chunks(
        self, index: Index, data: bytes, among: Collection[int] | None = None
    ) -> list[Chunk]:
        """As `read_chunks`, given the content of the file."""
        if not self.sharded:
            return [self._place_chunk(index, data)]
        spans, found = self.chunk_spans(data), []
        for at in np.ndindex(self.inner_grid):
            own = tuple(i * g + k for i, g, k in zip(index, self.inner_grid, at, strict=True))
            within = zip(own, self.inner, self.shape, strict=True)
            if (among is None or own[0] in among) and all(k * n < size for k, n, size in within):
                offset, size = map(int, spans[at])
                there = offset != ABSENT
                found.append(
                    self._place_chunk(own, data[offset : offset + size] if there else None)
                )
        return found

    def _place_chunk(self, at: Index, data: bytes | None) -> Chunk:
        sizes = zip(at, self.inner, self.shape, strict=True)
        extent = tuple(slice(k * n, min(k * n + n, size)) for k, n, size in sizes)
        if data is None:
            return Chunk(at, extent, None, "")
        try:
            values = self.decode_chunk(data)
        except Damaged as damage:
            return Chunk(at, extent, None, str(damage))
        return Chunk(at, extent, values[tuple(slice(s.stop - s.start) for s in extent)], "")

    def read_file(self, index: Index) -> bytes | None:
        """The content of a file, without records that are not folded yet; None if it is missing.

        Raises
        ------
        Damaged
            If the file cannot be read.
        """
        try:
            return read_bytes_or_none(self.file(index))
        except OSError as error:
            raise unreadable_file_error(self.chunk_name(index), error) from None

    def read_records(self, rows: RowNumbers) -> list[RowsOfRecord]:
        """The values of rows in records that are not folded yet.

        Read them before the array itself, then `lay_over`: otherwise a record that is folded in
        between would be missed, since a record that no longer exists is skipped.
        """
        found: list[RowsOfRecord] = []
        if not self.sharded or not self.unfolded:
            return found
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        for shard in np.unique(ascending // self.chunks[0]).tolist():
            for record in reversed(self.unfolded.get(shard, ())):
                low, high = np.searchsorted(ascending, [record.name.start, record.name.stop])
                near = order[low:high]
                with contextlib.suppress(FileNotFoundError):
                    values = record.column(self.name) if len(near) else None
                    if values is not None:
                        at = np.searchsorted(record.rows, rows[near])
                        there = record.rows[at] == rows[near]
                        found.append((near[there], values[at[there]], record.name.first))
        return found

    def lay_over(
        self,
        found: np.ndarray,
        records: Iterable[RowsOfRecord],
        rest: Sequence[RowNumbers] | None = None,
    ) -> None:
        """Overwrite values of rows with those of records.

        Parameters
        ----------
        found : ndarray
            Values of the rows that were given to `read_records`; changed in place.
        records : list of tuple
            From `read_records`.
        rest : list of ndarray of int, optional
            Indices of `found` along the other dimensions of the array; by default all.
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
        """Read the whole of a one-dimensional array; raises `Damaged` if a chunk is damaged."""
        records = self.read_records(np.arange(self.shape[0]))
        found = np.full(self.shape, self.fill, self.dtype)

        def read(i: int) -> None:
            for chunk in self._read_sound_chunks((i,)):
                found[chunk.rows] = chunk.values

        map_over_place(self.directory, read, range(self.grid[0]))
        self.lay_over(found, records)
        return found

    def read_rows(self, rows: RowNumbers) -> np.ndarray:
        """Read rows of the array, in the order in which they are given; raises `Damaged`."""
        records = self.read_records(rows)
        found = np.full((len(rows), *self.shape[1:]), self.fill, self.dtype)
        of_file, of_chunk = rows // self.chunks[0], rows // self.inner[0]
        for i in np.unique(of_file).tolist():
            among = set(of_chunk[of_file == i].tolist())
            for rest in np.ndindex(self.grid[1:]):
                for chunk in self._read_sound_chunks((i, *rest), among):
                    mine = np.flatnonzero(of_chunk == chunk.index[0])
                    if chunk.values is None:
                        continue
                    where: tuple[RowNumbers | slice, ...] = (mine, *chunk.extent[1:])
                    found[where] = chunk.values[rows[mine] - chunk.rows.start]
        self.lay_over(found, records)
        return found

    # --- files as bytes ----------------------------------------------------------------------

    @property
    def inner_grid(self) -> tuple[int, ...]:
        """Number of chunks along each dimension of a shard."""
        return tuple(c // n for c, n in zip(self.chunks, self.inner, strict=True))

    def chunk_spans(self, data: bytes) -> NDArray[np.uint64]:
        """Offset and size of each chunk of a shard; `ABSENT` for a missing chunk.

        Parameters
        ----------
        data : bytes
            The content of the shard.

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
        """Decode a chunk; raises `Damaged` if that fails."""
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
    """What messages call a file of a store: its path, or for a chunk its array and index."""
    found = CHUNK_KEY.fullmatch(path)
    return path if found is None else f"{found[1]}: chunk {found[2]}"


def damage_of_store(store: object, damage: Damaged) -> Damaged:
    """A damage, completed by the name of its store and by the command that repairs it."""
    if damage.remedy:
        return damage
    name = f"{store}: {damage.file}".rstrip()
    return Damaged(damage.text, name, f"`sweep verify {store} --repair` repairs it")


def unreadable_file_error(file: Place | str, error: OSError) -> GeosweepError:
    """The error to raise if a file of a store cannot be read.

    Parameters
    ----------
    file : Path, ObjectPlace or str
        What messages call the file.
    error : OSError

    Returns
    -------
    Damaged, StoreError or Unreachable
        `Damaged` only if the file itself is bad; not if this user may not read it.
    """
    if isinstance(error, Unreachable):
        return error
    text = f"cannot be read: {error.strerror}"
    if error.errno in OF_FILE:
        return Damaged(text, str(file))
    return StoreError(f"{error.filename or file} {text}")


# --- chunks as bytes -------------------------------------------------------------------------


def encode_chunk(values: np.ndarray) -> bytes:
    """Encode a chunk of numbers as zarr does."""
    return with_checksum(_blosc_codec().encode(np.ascontiguousarray(values)))


def checksum_of_json(content: object) -> int:
    """A checksum of a JSON value, which is stored beside it."""
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def checksums_of_root(metadata: Mapping[str, Any]) -> list[int]:
    """Checksums of the root's attributes and of its copies of all other metadata."""
    return [
        checksum_of_json(metadata["attributes"]),
        checksum_of_json(metadata["consolidated_metadata"].get("metadata")),
    ]


def with_checksum(data: bytes) -> bytes:
    """Append the crc32c of bytes to them."""
    data = bytes(data)
    return data + checksum_of_bytes(data)


def checksum_of_bytes(data: bytes) -> bytes:
    """The crc32c of bytes, which is stored behind them."""
    checksum: int = google_crc32c.value(data)
    return checksum.to_bytes(4, "little")


def check_bytes(data: bytes) -> None:
    """Raise `Damaged` unless bytes end with the crc32c of those before."""
    if len(data) < 4 or google_crc32c.value(data) != RESIDUE:
        raise Damaged("fails its checksum")


def checked_bytes(data: bytes) -> bytes:
    """Remove the crc32c at the end of bytes; raises `Damaged` if it does not match them."""
    check_bytes(data)
    return data[:-4]


@functools.cache
def _blosc_codec() -> Any:
    from numcodecs.blosc import SHUFFLE, Blosc

    return Blosc(cname="zstd", clevel=1, shuffle=SHUFFLE)


def _decode_string_chunk(data: bytes, expected: int) -> np.ndarray:
    """Decode texts, with one object for equal ones; ValueError unless `expected` are found."""
    from numcodecs.vlen import VLenUTF8

    count, size = np.frombuffer(data[:8].ljust(8, b"\0"), "<u4").tolist()
    if count != expected:  # garbage, whose count could exhaust the memory
        raise ValueError(f"expected {expected} texts")
    first = data[4 : 8 + size]
    if len(first) * count == len(data) - 4 and data[4:] == first * count:  # all equal
        return np.full(count, first[4:].decode(), dtype=object)
    known: dict[str, str] = {}
    found: np.ndarray = VLenUTF8().decode(data)
    texts = found.tolist()
    found[:] = list(map(known.setdefault, texts, texts))
    return found


def read_zarr_metadata(directory: Place) -> dict[str, Any]:
    """Read the metadata of a group or an array.

    Raises
    ------
    Damaged
        If there is no ``zarr.json``, or its content is not JSON.
    """
    file = directory / METADATA
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise unreadable_file_error(file, error) from None
    except ValueError:
        raise Damaged("is not JSON", str(file)) from None
    if not isinstance(found, dict):
        raise Damaged("describes neither a group nor an array", str(file))
    return found


def read_metadata_below(place: Place) -> dict[str, dict[str, Any]]:
    """Read the metadata of all groups and arrays below a store's root, by path, parents first."""
    ends = f"/{METADATA}"
    below = [path.removesuffix(ends) for path in files_below(place) if path.endswith(ends)]
    below.sort(key=lambda path: (path.count("/"), path))
    read = map_over_place(place, lambda path: read_zarr_metadata(place / path), below)
    return dict(zip(below, read, strict=True))


def is_experiment(name: str) -> bool:
    """Whether the path of a group or array below the root is that of an experiment."""
    return "/" not in name and name != INTERNAL


def metadata_of_node(copies: Mapping[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """The content of the ``zarr.json`` of a group or array, from the root's copies of all."""
    own = {key: value for key, value in copies[name].items() if key != "consolidated_metadata"}
    if not is_experiment(name):
        return own
    top = f"{name}/"
    inner = {path[len(top) :]: node for path, node in copies.items() if path.startswith(top)}
    return own | {"consolidated_metadata": consolidation(inner)}


def consolidation(metadata: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The ``consolidated_metadata`` of a group, from the metadata of all nodes below, by path."""
    return {"kind": "inline", "must_understand": False, "metadata": metadata}


def are_runs_computed_to_sample(
    counts: NDArray[np.integer], status: NDArray[np.integer], samples: int
) -> NDArray[np.bool_]:
    """Whether each run is complete up to its last sample, or has failed.

    Parameters
    ----------
    counts, status : ndarray of int, shape (runs,)
        Number of stored samples, and status (0: complete, positive: failed).
    samples : int
        Number of samples of a complete run.

    Returns
    -------
    ndarray of bool, shape (runs,)
    """
    return (counts >= samples) | ((counts > 0) & (status > 0))
