"""NetCDF-4 files with a group for each experiment, written in blocks of runs."""

import json
import math
import numbers
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import numpy as np
import xarray as xr

from sweep.analysis.runs.blocks import ROWS, slices_of_runs, slices_of_samples

CHUNK = 2**17  # values in a chunk, 1 MB
TIMES = 1024  # maximum samples in a chunk
CODEC = {"compression": "gzip", "compression_opts": 1, "shuffle": True}


def write_netcdf(
    path: Path, experiments: Mapping[str | None, xr.Dataset], attributes: Mapping[Any, Any]
) -> int:
    """Write run tables to a NetCDF file.

    Parameters
    ----------
    path : Path
    experiments : dict of (str or None) to xarray.Dataset
        Run tables by the names of their groups; None for the root of the file.
    attributes : dict
        Attributes of the root of the file.

    Returns
    -------
    int
        Number of runs.
    """
    with h5netcdf.File(path, "w") as file:
        _set_netcdf_attributes(file, attributes)
        for name, dataset in experiments.items():
            group = file if name is None else file.create_group(name)
            _set_netcdf_attributes(group, dataset.attrs)
            group.dimensions = {str(dim): size for dim, size in dataset.sizes.items()}
            for key in (*dataset.coords, *dataset.data_vars):
                _write_netcdf_variable(group, str(key), dataset)
    return sum(dataset.sizes["run"] for dataset in experiments.values())


def _write_netcdf_variable(group: Any, name: str, dataset: xr.Dataset) -> None:
    array = dataset[name].variable
    text, boolean = array.dtype.kind in "OTU", array.dtype.kind == "b"
    options = {"dtype": "i1" if boolean else array.dtype}
    if text:
        options = {"dtype": h5py.string_dtype()}
    elif array.ndim:
        options |= {"chunks": _netcdf_chunk_extents(array), **CODEC}
    if array.dtype.kind == "f":
        options["fillvalue"] = np.nan
    made = group.create_variable(name, array.dims, **options)
    _set_netcdf_attributes(made, array.attrs, array.dtype)
    if boolean:
        made.attrs["dtype"] = "bool"  # xarray's mark of a boolean
    if name in dataset.data_vars and (beside := _auxiliary_coordinates(dataset, array)):
        made.attrs["coordinates"] = " ".join(beside)
    for place in _blocks_that_fit_memory(array):
        values = array[place].values
        values = values.astype(object) if text else values
        made[place] = values.astype("i1") if boolean else values


def _auxiliary_coordinates(dataset: xr.Dataset, array: xr.Variable) -> list[str]:
    """Names of a variable's coordinates other than dimension coordinates."""
    return [
        str(name)
        for name, coordinate in dataset.coords.items()
        if name not in dataset.sizes and set(coordinate.dims) <= set(array.dims)
    ]


def _netcdf_chunk_extents(array: xr.Variable) -> tuple[int, ...]:
    """The shape of chunks, which span all dimensions other than ``run`` and ``time``."""
    sizes = array.sizes
    times = min(sizes.get("time", 1), TIMES)
    inner = math.prod(size for dim, size in sizes.items() if dim not in ("run", "time"))
    rows = 2 ** int(math.log2(max(1, CHUNK // max(1, times * inner))))
    extents: dict[Hashable, int] = {"time": times, "run": min(rows, ROWS, sizes.get("run", 1))}
    return tuple(max(1, extents.get(dim, size)) for dim, size in sizes.items())


def _blocks_that_fit_memory(array: xr.Variable) -> Sequence[tuple[slice, ...]]:
    """Index tuples of blocks that cover an array and fit into memory."""
    if array.dims[:1] != ("run",):
        return [(slice(None),) * array.ndim] if array.ndim else [()]
    width = math.prod(array.shape[1:])
    if array.dims[1:2] != ("time",):
        return [(rows,) for rows in slices_of_runs(array.shape[0], width)]
    inner = math.prod(array.shape[2:])
    return [
        (rows, span)
        for rows in slices_of_runs(array.shape[0], width)
        for span in slices_of_samples(array.shape[1], inner)
    ]


def _set_netcdf_attributes(
    owner: Any, attributes: Mapping[Any, Any], dtype: np.dtype[Any] | None = None
) -> None:
    """Set attributes: numbers, lists of numbers and text as they are, anything else as JSON."""
    for name, value in attributes.items():
        if isinstance(value, list) and value and all(isinstance(v, numbers.Number) for v in value):
            value = np.array(value, dtype=dtype if dtype and dtype.kind in "if" else None)
        elif isinstance(value, bool) or not isinstance(value, (str, numbers.Number)):
            value = json.dumps(value, ensure_ascii=False)
        owner.attrs[str(name)] = value
