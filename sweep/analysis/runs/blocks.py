"""Reduction of time series in blocks that fit into memory.

A function reduces each block to a small result. If the series are Dask arrays, it is called on the
workers of a `distributed.Client` if there is one, and otherwise in Dask's threads.
"""

import collections
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

SMALL = 2**28  # bytes; smaller datasets are read into memory whole
UNDER_WAY = 256  # maximum number of blocks that are submitted to a cluster at a time
VALUES = 2**21  # values of a series in a block (16 MB)
ROWS, LEAST_ROWS = 1024, 64  # a block has a multiple of ROWS runs; of LEAST_ROWS if series are long

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
Booleans = NDArray[np.bool_]
Block = tuple[Sequence[xr.Variable], tuple[Any, ...]]  # arrays, and the arguments before them
Result = TypeVar("Result")


def load_if_small(dataset: xr.Dataset) -> xr.Dataset:
    """Load a dataset into memory if it is small; otherwise leave it lazy."""
    return dataset.load() if dataset.nbytes <= SMALL else dataset


def median_or_nan(values: Floats) -> float:
    """The median, or NaN if there are no values."""
    return float(np.median(values)) if len(values) else np.nan


def slices_of_whole_runs(runs: int, samples: int) -> list[slice]:
    """Slices of the runs, for blocks with all samples of their runs."""
    unit = ROWS if samples <= ROWS else LEAST_ROWS
    return _consecutive_slices(runs, max(1, VALUES // max(1, samples) // unit) * unit)


def slices_of_runs(runs: int, samples: int) -> list[slice]:
    """Slices of the runs, for blocks with only part of the samples if there are many."""
    return slices_of_whole_runs(runs, min(samples, VALUES // ROWS))


def slices_of_samples(samples: int, width: int = 1) -> list[slice]:
    """Slices of the samples, for blocks of `ROWS` runs with `width` values per sample."""
    return _consecutive_slices(samples, max(1, VALUES // ROWS // width))


def _consecutive_slices(size: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def map_blocks(function: Callable[..., Result], blocks: Iterable[Block]) -> Iterator[Result]:
    """Call a function with each block.

    Parameters
    ----------
    function : callable
        Called as ``function(*arguments, *arrays)``. It must be importable from a module, since it
        may be sent to workers.
    blocks : iterable of (list of xarray.Variable, tuple)
        The arrays of a block, which may be lazy, and the arguments before them.

    Yields
    ------
    object
        Results of the function, in the order of the blocks.
    """
    under_way: collections.deque[Any] = collections.deque()
    for arrays, arguments in blocks:
        if not any(array.chunks for array in arrays):
            yield function(*arguments, *(array.values for array in arrays))
            continue
        # Blocks are submitted one by one, so that only the needed part of a chunk is read. A
        # cluster computes several at once; without one, `persist` computes the block now.
        under_way.append(_call_by_dask(functools.partial(function, *arguments), arrays).persist())
        if len(under_way) > UNDER_WAY:
            yield under_way.popleft().compute().item()
    while under_way:
        yield under_way.popleft().compute().item()


def _call_by_dask(function: Callable[..., Any], arrays: Sequence[xr.Variable]) -> Any:
    """A Dask array of one object, the result of the function for the arrays."""
    # Each array gets its own dimensions, since those of two arrays may differ in size.
    apart = [xr.Variable([f"{dim}{i}" for dim in array.dims], array.data)
             for i, array in enumerate(arrays)]  # fmt: skip
    return xr.apply_ufunc(
        functools.partial(_object_array, function),
        *apart,
        input_core_dims=[array.dims for array in apart],
        dask="parallelized",
        output_dtypes=[object],
        dask_gufunc_kwargs={"allow_rechunk": True},
    ).data


def _object_array(function: Callable[..., Any], *arrays: NDArray[Any]) -> NDArray[np.object_]:
    found = np.empty((), dtype=object)
    found[()] = function(*arrays)
    return found
