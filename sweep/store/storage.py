"""The store: a run table for each experiment, in plain Zarr v3.

``/EXPERIMENT`` is a group that xarray opens; everything that is not a result lives under
``/_geosweep``. Only the coordinator creates, resizes and writes coordinates. A worker writes
whole chunk rows of the variables, and `schema.MARKER` last: a run that it does not count is
computed again, whatever else was written of it.
"""

import dataclasses
import json
import math
import warnings

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import LocalStore

from integrators.status import COMPLETE
from sweep.store.backends.places import map_in_threads
from sweep.store.files import INTERNAL, are_runs_computed_to_sample
from sweep.study import schema

TIME_CHUNK = 1024
COORDINATE_CHUNK = 65_536
# Without a checksum a flipped bit is read back as data.
CODECS = {"compressors": [BloscCodec(cname="zstd", clevel=5, shuffle="shuffle"), Crc32cCodec()]}


def configure_zarr():
    """Zarr as every process here wants it; not persisted, so set in each worker."""
    zarr.config.set({"array.write_empty_chunks": True, "threading.max_workers": 1})
    warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
    warnings.filterwarnings("ignore", message="Object at .* is not recognized as a component")


def open_root_group(place, mode="r"):
    """The root group of what zarr calls a store; never the consolidated copy of its metadata."""
    configure_zarr()
    return zarr.open_group(place, mode=mode, zarr_format=3, use_consolidated=False)


def open_zarr_group(root, name):
    """A group below the root; like the root's, its metadata as it is."""
    mode = "r" if root.read_only else "r+"
    return zarr.open_group(root.store, path=name, mode=mode, zarr_format=3, use_consolidated=False)


def read_root_group_or_none(store):
    """The root group of a `Store`; None if it cannot be read, or is not one that is ours."""
    try:
        root = store.root()
        return root if "format_version" in root.attrs else None
    except (OSError, KeyError, ValueError, zarr.errors.BaseZarrError):
        return None


def create_variable_array(group, variable, sizes, chunk_rows, separator="/"):
    """Create the array of a `schema.Variable`.

    Parameters
    ----------
    group : zarr.Group
    variable : schema.Variable
    sizes : dict of str to int
        Of the dimensions.
    chunk_rows : int
        Rows of a chunk along ``run``.
    separator : {"/", "."}
        In the names of its chunks.
    """
    extents = {"run": chunk_rows, "time": TIME_CHUNK}
    shape = tuple(sizes[dim] for dim in variable.dims)
    chunks = tuple(
        extents[dim] if dim == "run" else max(1, min(extents.get(dim, sizes[dim]), sizes[dim]))
        for dim in variable.dims
    )
    return group.create_array(
        variable.name,
        shape=shape,
        chunks=chunks,
        dtype=variable.dtype,
        fill_value=variable.fill,
        dimension_names=variable.dims,
        chunk_key_encoding={"name": "default", "separator": separator},
        attributes=variable.all_attributes,
        **CODECS,
    )


def coordinate_chunk_size(size):
    """Values of a chunk of a coordinate that is made for so many."""
    return max(1, min(COORDINATE_CHUNK, 2 ** math.ceil(math.log2(size + 1))))


def write_coordinate_array(group, name, values, dim, room=0, **attributes):
    """Write a coordinate along `dim`, growing it where there are more values than before.

    Existing chunks are replaced one by one, so that a reader or a crash never finds none. A new
    one has chunks as for `room` values at least.
    """
    values = np.asarray(values)
    text = values.dtype.kind in "UO"
    if name not in group:
        group.create_array(
            name,
            shape=values.shape,
            chunks=(coordinate_chunk_size(max(len(values), room)),),
            dtype=str if text else values.dtype,
            dimension_names=(dim,),
            attributes={"units": "1", "long_name": name.replace("_", " "), **attributes},
            **({"fill_value": np.nan} if values.dtype.kind == "f" else {}),
            **CODECS,
        )
    array = group[name]
    if array.shape != values.shape:
        array.resize(values.shape)
    array[:] = values.astype(object) if text else values


def chunk_rows_of_group(group):
    """Rows of a chunk of the group's variables; the scalars' own may be compacted."""
    return group.attrs["chunk_rows"]


def chunk_sizes_of_group(group):
    """Along each dimension the least extent of a chunk: of variables, and of coordinates.

    Two dicts by the dimension's name; variables over ``run`` alone are left out, which are
    compacted, and so is the initial state, whose chunks are the same whatever the others.
    """
    variables, coordinates = {}, {}
    for name, array in group.arrays():
        dims = array.metadata.dimension_names
        found = variables if array.ndim > 1 else coordinates
        if name != schema.INITIAL_STATE.name and name not in _SCALARS:
            for dim, extent in zip(dims, array.chunks, strict=True):
                found[dim] = min(extent, found.get(dim, extent))
    return variables, coordinates


_SCALARS = {variable.name for variable in schema.ALL_RUN_VARIABLES}


def write_chunk_rows(arrays, start, columns):
    """Write whole chunk rows, the commit marker last.

    Parameters
    ----------
    arrays : dict of str to zarr.Array
    start : int
        First row, at the start of a chunk.
    columns : dict of str to ndarray
        All of the same length: whole chunks, or to the end of the table.

    Raises
    ------
    ValueError
        If the rows are not whole chunks: another task would own a part of one, and lose it.
    """
    marker, stop = arrays[schema.MARKER.name], start + len(columns[schema.MARKER.name])
    _check_aligned_to_chunks(marker, start, stop)
    span = (slice(start, stop),)
    _write_array_parts(
        (arrays[name], span, columns[name]) for name in columns if name != schema.MARKER.name
    )
    marker[start:stop] = columns[schema.MARKER.name]


def write_samples_of_chunk_rows(arrays, start, columns, span):
    """Write samples of whole chunk rows, which nothing counts as committed.

    Parameters
    ----------
    arrays, start
        As in `write_chunk_rows`.
    columns : dict of str to ndarray
        Variables over runs and time, as they would be committed.
    span : slice
        The samples that are written.
    """
    parts = []
    for name, values in columns.items():
        stop = start + len(values)
        _check_aligned_to_chunks(arrays[name], start, stop)
        parts.append((arrays[name], (slice(start, stop), span), values[:, span]))
    _write_array_parts(parts)


def _write_array_parts(parts):
    """Write parts of arrays, into a bucket several at once: each waits for its answer."""

    def put(part):
        array, where, values = part
        array[where] = values

    parts = list(parts)
    if any(not isinstance(array.store, LocalStore) for array, _, _ in parts):
        map_in_threads(put, parts)
    else:
        for part in parts:
            put(part)


def _check_aligned_to_chunks(array, start, stop):
    rows = array.chunks[0]
    if start % rows or (stop % rows and stop != array.shape[0]):
        raise ValueError(f"rows {start} to {stop} are not whole chunks of {rows} rows")


def consolidate_zarr_metadata(store):
    """Consolidate the metadata of each group and of the root, for fast opening."""
    root = store.root("a")
    for name in experiment_group_names(root):
        zarr.consolidate_metadata(store.zarr_store, path=name)
    zarr.consolidate_metadata(store.zarr_store)


def set_root_attributes(store, attributes):
    """Set attributes of the root, and keep its consolidated metadata, which say the same."""
    root = zarr.open_group(store.zarr_store, mode="r+", zarr_format=3)
    root.attrs.update(attributes)
    if root.metadata.consolidated_metadata is None:  # a run that made them was cut short
        consolidate_zarr_metadata(store)


def experiment_group_names(root):
    """Names of the experiments' groups."""
    return sorted(name for name, _ in root.groups() if name != INTERNAL)


def are_runs_committed(group, samples):
    """Whether each run's results are in the store, up to so many samples; shape (runs,).

    Of references, too, which have no status.
    """
    counts = group[schema.MARKER.name][:]
    status = group["status"][:] if "status" in group else np.full(counts.shape, COMPLETE)
    # The status is the last one that is grown.
    return are_runs_computed_to_sample(counts, status[: len(counts)], samples)


def to_attribute_json(value):
    """JSON for an attribute; numpy's as numbers and lists, a dataclass as a table."""
    return json.dumps(value, default=_to_json_type, ensure_ascii=False)


def _to_json_type(item):
    return dataclasses.asdict(item) if dataclasses.is_dataclass(item) else item.tolist()
