"""Pivot a run table to the full grid of its axes.

A run table (dimension `run`) holds ragged and growing studies; a selection of it that is a full
grid is easier to reduce and to plot along named dimensions.
"""

import math
from collections.abc import Hashable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from integrators.errors import InputError
from sweep.analysis.runs.blocks import SMALL, Integers
from sweep.analysis.runs.selection import (
    adaptive_runs,
    axis_values_in_words,
    distinct_values_and_codes,
    is_axis_of_initial_conditions,
    plain_python_value,
    run_table,
    scanned_axes,
    take_runs,
)

# Fill values where the selection has no run; other variables have NaN, 0 or an empty label.
MISSING = {"status": -1, "in_study": False, "adaptive": False}

Axes = dict[str, NDArray[Any]]  # values of each axis, by its name


def grid(dataset: xr.Dataset | xr.DataTree) -> xr.Dataset:
    """Pivot a selection of a run table to the full grid of its axes.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs, e.g. ``ds.query(run="gravity == 9.81")``.

    Returns
    -------
    xarray.Dataset
        Dimensions ``(integrator, step_size, scanned axes…, initial_condition)`` in the place of
        `run`, other dimensions behind them; ``tolerance`` in the place of ``step_size`` where all
        runs are adaptive, and ``repeat`` behind ``initial_condition`` where there are several.
        Labels stand in the study's order, numbers ascend; axes of a family of initial
        conditions are coordinates along ``initial_condition``. Where the selection has no run stand
        NaN, an empty label, False or 0, and ``status`` -1 (pending). Series that are Dask arrays
        stay Dask arrays.

    Raises
    ------
    InputError
        When adaptive and fixed runs are mixed, or when two runs share a place.

    Examples
    --------
    >>> grid(ds.query(run="integrator == 'rk4'")).energy_error_abs_max.median("initial_condition")
    """
    dataset = run_table(dataset)
    names = (
        "integrator",
        _step_size_or_tolerance_axis(dataset),
        *scanned_axes(dataset),
        "initial_condition",
    )
    if "repeat" in dataset.coords and len(np.unique(dataset["repeat"].values)) > 1:
        names += ("repeat",)
    axes, place = _axes_and_grid_places(dataset, names)
    dense = xr.Dataset(
        {
            name: _pivot_runs_to_grid(array, names, axes, place)
            for name, array in dataset.data_vars.items()
        },
        attrs=dataset.attrs,
    )
    coordinates: dict[Hashable, Any] = {
        name: (name, axes[name], dataset[name].attrs) for name in names
    }
    for name, array in dataset.coords.items():
        if name in names or name == "run":
            continue
        if (
            is_axis_of_initial_conditions(array)
            and (values := _axis_along_initial_condition(dataset, array, axes)) is not None
        ):
            coordinates[name] = values
        else:
            coordinates[name] = (
                _pivot_runs_to_grid(array, names, axes, place) if "run" in array.dims else array
            )
    return dense.assign_coords(coordinates)


def _axis_along_initial_condition(
    dataset: xr.Dataset, array: xr.DataArray, axes: Axes
) -> xr.Variable | None:
    """An axis of a family along ``initial_condition`` alone; None if a label has two values."""
    _, start = distinct_values_and_codes(dataset["initial_condition"].values)
    values = np.full(len(axes["initial_condition"]), np.nan)
    values[start] = array.values
    if not np.array_equal(values[start], array.values, equal_nan=True):
        return None
    return xr.Variable("initial_condition", values, array.attrs)


def _step_size_or_tolerance_axis(dataset: xr.Dataset) -> str:
    """``step_size`` or ``tolerance``; InputError for a mix, which has no common axis."""
    adaptive = adaptive_runs(dataset)
    if adaptive.all():
        return "tolerance"
    if adaptive.any():
        raise InputError(
            f"{adaptive.sum()} adaptive and {(~adaptive).sum()} fixed-step runs are selected, "
            "which share no axis: one has a tolerance, the other a step size. Select one kind, "
            "e.g. ds.query(run='not adaptive')."
        )
    return "step_size"


def _axes_and_grid_places(dataset: xr.Dataset, names: tuple[str, ...]) -> tuple[Axes, Integers]:
    """The values of each axis, and the flat index of each run in the grid."""
    axes, all_codes = {}, []
    for name in names:
        axes[name], code = distinct_values_and_codes(dataset[name].values)
        all_codes.append(code)
    shape = [len(axis) for axis in axes.values()]
    place = np.ravel_multi_index(all_codes, shape)
    _refuse_runs_sharing_grid_place(dataset, names, place)
    return axes, place


def _refuse_runs_sharing_grid_place(
    dataset: xr.Dataset, names: tuple[str, ...], place: Integers
) -> None:
    taken, first, count = np.unique(place, return_index=True, return_counts=True)
    if len(taken) == len(place):
        return
    twice = first[np.argmax(count > 1)]
    key = axis_values_in_words(
        {name: plain_python_value(dataset[name].values[twice]) for name in names}
    )
    raise InputError(
        f"{count.max()} runs share the place {key}, so the selection is no grid. "
        "Runs that an edited study no longer holds are left out by ds.query(run='in_study')."
    )


def _pivot_runs_to_grid(
    array: xr.DataArray, names: tuple[str, ...], axes: Axes, place: Integers
) -> xr.Variable:
    """Spread the dimension `run` of an array over the dimensions `names`."""
    if "run" not in array.dims:
        return array.variable
    variable, fill = array.variable.transpose("run", ...), _fill_value_of_missing_runs(array)
    shape = tuple(len(axes[name]) for name in names)
    if variable.chunks:
        runs = np.full(int(np.prod(shape)), -1)
        runs[place] = np.arange(len(place))
        return _pivot_by_dask(variable, variable.chunks, names, runs.reshape(shape), fill)
    values = variable.values
    dense = np.full((int(np.prod(shape)), *values.shape[1:]), fill, dtype=values.dtype)
    dense[place] = values
    dense = dense.reshape(shape + values.shape[1:])
    return xr.Variable((*names, *variable.dims[1:]), dense, array.attrs)


def _pivot_by_dask(
    variable: xr.Variable,
    chunks: tuple[tuple[int, ...], ...],
    names: tuple[str, ...],
    runs: Integers,
    fill: Any,
) -> xr.Variable:
    """A Dask variable along `names` in the place of `run`, in chunks that fit into memory.

    Parameters
    ----------
    variable : xarray.Variable
        ``run`` first.
    chunks : tuple of tuple of int
        Its chunks.
    names : tuple of str
    runs : ndarray of int
        The run at each place of the grid, -1 where there is none.
    fill : float, int, bool or str
    """
    width = variable.dtype.itemsize * math.prod(map(max, chunks[1:]))
    if len(names) > 1 and runs.size * width > SMALL:
        parts = [_pivot_by_dask(variable, chunks, names[1:], some, fill) for some in runs]
        return xr.Variable.concat(parts, names[0])
    flat = runs.ravel()
    ascending = flat[0] >= 0 and np.all(np.diff(flat) > 0)
    found = take_runs(variable, flat) if ascending else variable.isel(run=flat)
    if (flat < 0).any():
        found = found.where(xr.Variable("run", flat >= 0), fill).astype(variable.dtype)
    if len(names) == 1:
        return xr.Variable((names[0], *found.dims[1:]), found.data, variable.attrs)
    found = found.chunk({"run": -1})
    dense = found.data.reshape(runs.shape + found.shape[1:])
    return xr.Variable((*names, *found.dims[1:]), dense, variable.attrs)


def _fill_value_of_missing_runs(array: xr.DataArray) -> Any:
    if array.name in MISSING:
        return MISSING[array.name]
    kind = array.dtype.kind
    if kind == "f":
        return np.nan
    return 0 if kind in "biu" else ""
