"""The store: a run table for each experiment, in plain Zarr v3.

``/EXPERIMENT`` is a group that xarray opens; everything that is not a result lives under
``/_geosweep``. Only who has the lease creates, resizes, writes coordinates and folds: tasks write
records, see `sweep.store.commit.records`. A run whose `variables.SAMPLE_COUNT` is 0 is
computed again.
"""

import asyncio
import dataclasses
import json
import math
import warnings
from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
import zarr
from numpy.typing import ArrayLike
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.core.sync import sync

from integrators.errors import GeosweepError
from sweep.store.backends.places import METADATA, Place, WriteCheck, map_over_place
from sweep.store.chunk_layout import INITIAL_CHUNK, Layout
from sweep.store.commit.records import put_durably
from sweep.store.commit.zarr_stores import (
    DamageNamingPipeline,
    PlaceStore,
)
from sweep.store.files import (
    INTERNAL,
    ZarrMode,
    read_zarr_metadata,
    seals_of_root,
)
from sweep.study import variables

COORDINATE_CHUNK, LEAST_COORDINATE_CHUNK = 65_536, 4096  # the latter: others may come
# Without a checksum a flipped bit is read back as data.
FILES = {"chunk_key_encoding": {"name": "default", "separator": "."}}  # without directories
CODECS = {"compressors": [BloscCodec(cname="zstd", clevel=1, shuffle="shuffle"), Crc32cCodec()]}


# A `zarr.Group`, below which arrays are asked for by name, and a `zarr.Array`: the types of both
# say less, since a name may be that of either, and an element of any type.
StoredGroup = Any
StoredArray = Any


class StoreFiles(Protocol):
    """What is asked here of a `sweep.store.store.Store`, whose names these are."""

    @property
    def place(self) -> Place:
        """Where it is."""

    @property
    def metadata(self) -> dict[str, Any]:
        """That of the root, as it was when it was first read."""

    @property
    def attributes(self) -> dict[str, Any]:
        """Those of the root."""

    @property
    def consolidated(self) -> dict[str, dict[str, Any]]:
        """Metadata of all groups and arrays, as the root has them."""

    def anew(self) -> Self:
        """The same store, of which nothing was read."""

    def list_files(self) -> set[str]:
        """The files as they are now, relative to it."""


def configure_zarr() -> None:
    """Zarr as every process here wants it; not persisted, so set in each worker."""
    pipeline = f"{DamageNamingPipeline.__module__}.{DamageNamingPipeline.__qualname__}"
    zarr.config.set(
        {
            "array.write_empty_chunks": True,
            "threading.max_workers": 1,
            "codec_pipeline.path": pipeline,
        }
    )
    warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
    warnings.filterwarnings("ignore", message="Object at .* is not recognized as a component")


def open_root_group(
    place: Place, mode: ZarrMode = "r", check: WriteCheck | None = None
) -> StoredGroup:
    """The root group of a store; never the consolidated copy of its metadata."""
    configure_zarr()
    store = PlaceStore(place, check=check)
    return zarr.open_group(store, mode=mode, zarr_format=3, use_consolidated=False)


def open_zarr_group(root: StoredGroup, name: str) -> StoredGroup:
    """A group below the root; like the root's, its metadata as it is."""
    mode: ZarrMode = "r" if root.read_only else "r+"
    return zarr.open_group(root.store, path=name, mode=mode, zarr_format=3, use_consolidated=False)


def read_root_group_or_none(place: Place) -> StoredGroup | None:
    """The root group of a store; None if it cannot be read, or is not one that is ours."""
    try:
        root = open_root_group(place)
        return root if "format_version" in root.attrs else None
    except (OSError, KeyError, ValueError, GeosweepError, zarr.errors.BaseZarrError):
        return None


def create_variable_array(
    group: StoredGroup,
    variable: variables.Variable,
    sizes: Mapping[str, int],
    layout: Layout | None,
) -> StoredArray:
    """Create the array of a `variables.Variable`.

    Parameters
    ----------
    group : zarr.Group
    variable : variables.Variable
    sizes : dict of str to int
        Of the dimensions.
    layout : sweep.store.chunk_layout.Layout or None
        None of what the coordinator writes, which has no shards.
    """
    shape = tuple(sizes[dim] for dim in variable.dims)
    if layout is None:
        cut = {"chunks": (INITIAL_CHUNK, *(max(1, size) for size in shape[1:]))}
    else:
        chunks, shards = layout.chunks_of(variable.dims, shape)
        cut = {"chunks": chunks, "shards": shards}
    return group.create_array(
        variable.name,
        shape=shape,
        dtype=variable.dtype,
        fill_value=variable.fill,
        dimension_names=variable.dims,
        attributes=variable.all_attributes,
        **cut,
        **FILES,
        **CODECS,
    )


def coordinate_chunk_size(size: int) -> int:
    """Values of a chunk of a coordinate that is made for so many."""
    return max(LEAST_COORDINATE_CHUNK, min(COORDINATE_CHUNK, 1 << math.ceil(math.log2(size + 1))))


def write_coordinate_array(
    group: StoredGroup, name: str, values: ArrayLike, dim: str, **attributes: str
) -> None:
    """Write a coordinate along `dim`, growing it where there are more values than before."""
    values = np.asarray(values)
    array = require_coordinate_array(group, name, len(values), values.dtype, dim, **attributes)
    array[:] = values.astype(object) if values.dtype.kind in "UO" else values


def require_coordinate_array(
    group: StoredGroup, name: str, size: int, dtype: np.dtype[Any], dim: str, **attributes: str
) -> StoredArray:
    """The array of a coordinate along `dim`, made if it is not there and grown if it is too short.

    Its chunks are to be replaced one by one, so that a reader or a crash never finds none.
    """
    array = group.get(name)
    if array is None:
        array = group.create_array(
            name,
            shape=(size,),
            chunks=(coordinate_chunk_size(size),),
            dtype=str if dtype.kind in "UO" else dtype,
            dimension_names=(dim,),
            attributes={"units": "1", "long_name": name.replace("_", " "), **attributes},
            **({"fill_value": np.nan} if dtype.kind == "f" else {}),
            **FILES,
            **CODECS,
        )
    if array.shape != (size,):
        array.resize((size,))
    return array


def layout_of_group(group: StoredGroup) -> Layout:
    """The `Layout` of a group's arrays that tasks write."""
    return Layout(**json.loads(group.attrs["layout"]))


def await_writes() -> None:
    """Wait until zarr has ended all that it began: where one write fails, others go on."""

    async def others() -> None:
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks)

    sync(others())


def consolidate_zarr_metadata(store: StoreFiles, check: WriteCheck | None = None) -> None:
    """Consolidate the metadata of each experiment and of the root, for fast opening.

    As `zarr.consolidate_metadata` does for each of them, but every file is read once.
    """
    ends = f"/{METADATA}"
    below = [path.removesuffix(ends) for path in store.list_files() if path.endswith(ends)]
    below.sort(key=lambda path: (path.count("/"), path))
    read = map_over_place(store.place, lambda path: read_zarr_metadata(store.place / path), below)
    found = dict(zip(below, read, strict=True))
    for metadata in found.values():
        if metadata.get("node_type") == "group":
            metadata["consolidated_metadata"] = _consolidation({})
    for name in [name for name in below if "/" not in name and name != INTERNAL]:
        top = f"{name}/"
        inner = {path[len(top) :]: own for path, own in found.items() if path.startswith(top)}
        _write_metadata(
            store,
            name,
            found[name] | {"consolidated_metadata": _consolidation(inner)},
            check,
        )
    root = read_zarr_metadata(store.place) | {"consolidated_metadata": _consolidation(found)}
    _write_metadata(store, "", root, check)


def _consolidation(metadata: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The entry of a group for the metadata of all groups and arrays below it, by path."""
    return {"kind": "inline", "must_understand": False, "metadata": metadata}


def _write_metadata(
    store: StoreFiles, name: str, metadata: dict[str, Any], check: WriteCheck | None
) -> None:
    if not name:
        metadata["consolidated_metadata"]["seals"] = seals_of_root(metadata)
    text = json.dumps(metadata, indent=2)
    put_durably(store.place / name / METADATA, text.encode(), check)


def set_root_attributes(
    store: StoreFiles, attributes: Mapping[str, object], check: WriteCheck | None = None
) -> None:
    """Set attributes of the root, and keep its consolidated metadata."""
    store = store.anew()
    if not store.consolidated:  # a run that made them was cut short
        consolidate_zarr_metadata(store, check)
        store = store.anew()
    metadata = store.metadata | {"attributes": {**store.attributes, **attributes}}
    _write_metadata(store, "", metadata, check)


def experiment_group_names(root: StoredGroup) -> list[str]:
    """Names of the experiments' groups."""
    return sorted(name for name, _ in root.groups() if name != INTERNAL)


def to_attribute_json(value: object) -> str:
    """JSON for an attribute; numpy's as numbers and lists, a dataclass as a table."""
    return json.dumps(value, default=_to_json_type, ensure_ascii=False)


def _to_json_type(item: Any) -> object:
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return dataclasses.asdict(item)
    return item.tolist()
