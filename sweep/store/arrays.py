"""Zarr groups and arrays of a store: open, create and grow them, and choose chunks and shards.

``/EXPERIMENT`` is a group that xarray opens; everything that is not a result lives under
``/_geosweep``. Only the lease holder creates and resizes arrays, writes coordinates and folds
records; tasks write records, see `sweep.store.commit.records`. A run whose
`variables.SAMPLE_COUNT` is 0 is computed again.

A chunk is about half a megabyte, whatever the number of runs. A shard is a file with many chunks,
which keeps the number of files small. All arrays that tasks write are cut into shards at the same
rows. A *row of shards* consists of the shards of all these arrays that hold the same block of
`Layout.shard_rows` runs; they are written together. Arrays that the coordinator writes have no
shards: their chunks are replaced one by one.
"""

import asyncio
import dataclasses
import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import zarr
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.core.sync import sync

from sweep.store.backends.places import Place, WriteCheck
from sweep.store.commit.zarr_stores import DamageNamingPipeline, PlaceStore
from sweep.store.files import INTERNAL, ZarrMode
from sweep.study.variables import Variable

TIME_CHUNK = 1024  # samples, at least where there are as many
CHECKPOINT_CHUNK = 1024  # numbers: few integrators fill the width that the largest one needs
CHUNK_BYTES, MOST_CHUNK_ROWS, LEAST_INITIAL_CHUNK = 2**19, 4096, 1024  # the last of initial states
SHARD_BYTES = 2**28  # in the widest variable, if it grows to twice its present length
LEAST_SHARD_ROWS, MOST_SHARD_ROWS = 2**12, 2**15  # small studies get shards with room to grow
INDEX = 512  # chunks in a shard of a series, about: readers fetch the whole index first
MOST_TIME_CHUNKS = 16  # in a shard
COORDINATE_CHUNK, LEAST_COORDINATE_CHUNK = 65_536, 4096  # values; the latter leaves room to grow
ITEM = 8  # bytes
FILES = {"chunk_key_encoding": {"name": "default", "separator": "."}}  # no nested directories
# Without a checksum, a flipped bit would be read as data.
CODECS = {"compressors": [BloscCodec(cname="zstd", clevel=1, shuffle="shuffle"), Crc32cCodec()]}

# A `zarr.Group` and a `zarr.Array`. Zarr's own types would need casts: what is found under a name
# may be a group or an array, and an array may have elements of any type.
StoredGroup = Any
StoredArray = Any


@dataclass(frozen=True)
class Layout:
    """Chunks and shards of the arrays that tasks write.

    Parameters
    ----------
    shard_rows : int
        Runs in a row of shards.
    time_chunk : int
        Samples in a chunk.
    time_chunks : int
        Chunks in a shard along time.
    """

    shard_rows: int
    time_chunk: int
    time_chunks: int

    @classmethod
    def choose(cls, runs: int, samples: int, width: int) -> "Layout":
        """Choose the layout of a new experiment.

        Parameters
        ----------
        runs, samples : int
            Number of runs, and of sample times.
        width : int
            Numbers that the widest variable holds at each sample.
        """
        # All rows of a chunk are compressed and read: few runs have long chunks of few rows.
        long = _power_of_two_up_to(CHUNK_BYTES // (ITEM * max(1, runs * width)))
        time_chunk = min(max(TIME_CHUNK, long), max(samples, 1))
        series = _chunk_rows(time_chunk)
        room = SHARD_BYTES // (ITEM * width * 2 * min(samples, 4 * TIME_CHUNK) or 1)
        rows = min(
            MOST_SHARD_ROWS,
            max(LEAST_SHARD_ROWS, _power_of_two_up_to(2 * runs)),
            256 * series,
            _power_of_two_up_to(room),
        )
        chunks = INDEX // max(1, rows // series)
        return cls(rows, time_chunk, max(1, min(MOST_TIME_CHUNKS, chunks)))

    def files(self, runs: int, samples: int, series: int, scalars: int) -> int:
        """Number of files of `series` arrays over runs and time and `scalars` arrays over runs."""
        along = math.ceil(samples / (self.time_chunk * self.time_chunks))
        return math.ceil(runs / self.shard_rows) * (series * along + scalars)


def layout_of_group(group: StoredGroup) -> Layout:
    """The `Layout` of the arrays in a group that tasks write."""
    return Layout(**json.loads(group.attrs["layout"]))


def coordinate_chunk_size(size: int) -> int:
    """Number of values in a chunk of a coordinate that is created with `size` values."""
    return max(LEAST_COORDINATE_CHUNK, min(COORDINATE_CHUNK, 1 << math.ceil(math.log2(size + 1))))


def initial_chunk_rows(numbers: int) -> int:
    """Number of rows in a chunk of initial states of `numbers` numbers each."""
    return max(LEAST_INITIAL_CHUNK, _chunk_rows(numbers))


def _chunk_rows(numbers: int) -> int:
    """Rows in a chunk, a power of two, for rows of `numbers` numbers."""
    return max(1, min(MOST_CHUNK_ROWS, _power_of_two_up_to(CHUNK_BYTES // (ITEM * numbers))))


def _power_of_two_up_to(number: int) -> int:
    return 1 << (max(1, int(number)).bit_length() - 1)


# --- groups ----------------------------------------------------------------------------------


def configure_zarr() -> None:
    """Configure Zarr for this process; each worker does so, since the settings are not saved."""
    pipeline = f"{DamageNamingPipeline.__module__}.{DamageNamingPipeline.__qualname__}"
    zarr.config.set(
        {
            "array.write_empty_chunks": True,
            "threading.max_workers": 1,
            "codec_pipeline.path": pipeline,
            "json_indent": None,  # Python encodes JSON with one far more slowly
        }
    )
    warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
    warnings.filterwarnings("ignore", message="Object at .* is not recognized as a component")


def open_root_group(
    place: Place, mode: ZarrMode = "r", check: WriteCheck | None = None
) -> StoredGroup:
    """Open the root group of a store, from its own metadata, not from the consolidated copy."""
    configure_zarr()
    store = PlaceStore(place, check=check, is_new=mode == "w-")
    return zarr.open_group(store, mode=mode, zarr_format=3, use_consolidated=False)


def open_zarr_group(root: StoredGroup, name: str) -> StoredGroup:
    """Open a group below the root, from its own metadata, not from the consolidated copy."""
    mode: ZarrMode = "r" if root.read_only else "r+"
    return zarr.open_group(root.store, path=name, mode=mode, zarr_format=3, use_consolidated=False)


def require_zarr_group(root: StoredGroup, name: str) -> StoredGroup:
    """Open a group below the root, or create it together with its parent groups."""
    parts = name.split("/")
    for depth in range(1, len(parts) + 1):  # zarr creates parents only for a new group
        root.require_group("/".join(parts[:depth]))
    return open_zarr_group(root, name)


def experiment_group_names(root: StoredGroup) -> list[str]:
    """Names of the experiments' groups."""
    return sorted(name for name, _ in root.groups() if name != INTERNAL)


def to_attribute_json(value: object) -> str:
    """JSON for an attribute: NumPy values as numbers and lists, a dataclass as an object."""
    return json.dumps(value, default=_to_json_type, ensure_ascii=False)


def _to_json_type(item: Any) -> object:
    return item.tolist() if hasattr(item, "tolist") else dataclasses.asdict(item)


def await_writes() -> None:
    """Wait until zarr has finished all its writes: where one fails, the others continue."""

    async def others() -> None:
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks)

    sync(others())


# --- arrays ----------------------------------------------------------------------------------


def create_or_grow_arrays(
    group: StoredGroup,
    variables: Iterable[Variable],
    sizes: Mapping[str, int],
    layout: Layout | None = None,
) -> dict[str, StoredArray]:
    """Create the arrays of variables, or resize those that exist; return them by name.

    Parameters
    ----------
    group : zarr.Group
    variables : iterable of Variable
    sizes : dict of str to int
        Length of each dimension.
    layout : Layout, optional
        Given for arrays that tasks write, which are cut into shards.

    Returns
    -------
    dict of str to zarr.Array
    """
    arrays = {}
    for variable in variables:
        shape = tuple(sizes[dim] for dim in variable.dims)
        array = group.get(variable.name)
        if array is None:
            array = group.create_array(
                variable.name,
                shape=shape,
                dtype=variable.dtype,
                fill_value=variable.fill,
                dimension_names=variable.dims,
                attributes={
                    "units": variable.units,
                    "long_name": variable.long_name,
                    **variable.attributes,
                },
                **_chunks(variable.dims, shape, layout),
                **FILES,
                **CODECS,
            )
        elif array.shape != shape:
            array.resize(shape)
        arrays[variable.name] = array
    return arrays


def _chunks(
    dims: Sequence[str], shape: Sequence[int], layout: Layout | None
) -> dict[str, tuple[int, ...]]:
    """The shape of an array's chunks and, if tasks write the array, of its shards."""
    sizes = [max(1, size) for size in shape[1:]]
    if layout is None:
        of_states = initial_chunk_rows(math.prod(sizes))
        return {"chunks": (of_states if sizes else coordinate_chunk_size(shape[0]), *sizes)}
    rest, more = [], []
    for dim, size in zip(dims[1:], sizes, strict=True):
        of_time = layout.time_chunk, layout.time_chunks
        of_number = min(size, CHECKPOINT_CHUNK), math.ceil(size / CHECKPOINT_CHUNK)
        chunk, chunks = {"time": of_time, "number": of_number}.get(dim, (size, 1))
        rest.append(chunk)
        more.append(chunk * chunks)
    # An array over runs alone is read whole, and zarr takes half a millisecond for each chunk.
    rows = min(layout.shard_rows, _chunk_rows(math.prod(rest))) if rest else layout.shard_rows
    return {"chunks": (rows, *rest), "shards": (layout.shard_rows, *more)}
