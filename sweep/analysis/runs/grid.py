"""Pivot a run table to the full grid of its axes.

A run table has one dimension `run`, so that studies may be ragged and may be extended. A selection
that is a full grid is easier to reduce and to plot along named dimensions.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from integrators.errors import InputError
from sweep.analysis.runs import selection
from sweep.analysis.runs.blocks import SMALL, Integers

# Fill values for grid points without a run; other variables have NaN, 0 or an empty label.
MISSING: dict[str, Any] = {"status": -1}
FILLS: dict[str, Any] = {"f": np.nan, "O": "", "U": "", "T": ""}


def grid(dataset: xr.Dataset | xr.DataTree) -> xr.Dataset:
    """Pivot a selection of a run table to the full grid of its axes.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs, such as ``ds.query(run="gravity == 9.81")``.

    Returns
    -------
    xarray.Dataset
        The dimension `run` is replaced by ``(integrator, step_size, scanned axes…,
        initial_condition)``, followed by the other dimensions. If all runs are adaptive,
        ``tolerance`` replaces ``step_size``; if runs are repeated, ``repeat`` follows
        ``initial_condition``. Labels are in the study's order, numbers ascend. Axes of a family of
        initial conditions are coordinates along ``initial_condition``. Grid points without a run
        have NaN, an empty label, False or 0, and ``status`` -1 (pending). Dask arrays remain Dask
        arrays.

    Raises
    ------
    InputError
        If adaptive and fixed-step runs are mixed, or if two runs share a grid point.

    Examples
    --------
    >>> grid(ds.query(run="integrator == 'rk4'")).energy_error_abs_max.median("initial_condition")
    """
    dataset = selection.run_table(dataset)
    names = [
        "integrator",
        _step_size_or_tolerance(dataset),
        *selection.scanned_axes(dataset),
        "initial_condition",
    ]
    if "repeat" in dataset.coords and len(np.unique(dataset["repeat"].values)) > 1:
        names.append("repeat")
    axes, place = selection.places_of_runs(dataset, names)
    runs = np.full([len(axis) for axis in axes.values()], -1)
    runs.flat[place] = np.arange(len(place))
    _refuse_shared_places(axes, runs, place)
    pivoted = {
        name: _pivot(array, names, runs, MISSING.get(str(name), FILLS.get(array.dtype.kind, 0)))
        if "run" in array.dims
        else array
        for name, array in dataset.variables.items()
        if name not in (*names, "run")
    }
    _, start = selection.distinct_values_and_codes(dataset["initial_condition"].values)
    for name, array in dataset.coords.items():
        if selection.is_axis_of_initial_conditions(array):
            values = array.values[np.unique(start, return_index=True)[1]]
            if np.array_equal(values[start], array.values, equal_nan=True):
                pivoted[name] = xr.Variable("initial_condition", values, array.attrs)
    pivoted |= {name: xr.Variable(name, axes[name], dataset[name].attrs) for name in names}
    whole = xr.Dataset(pivoted, attrs=dataset.attrs)
    return whole.set_coords([name for name in dataset.coords if name in pivoted])


def _step_size_or_tolerance(dataset: xr.Dataset) -> str:
    """The axis that all runs have; `InputError` if adaptive and fixed-step runs are mixed."""
    adaptive = selection.adaptive_runs(dataset)
    if adaptive.any() and not adaptive.all():
        raise InputError(
            f"{adaptive.sum()} adaptive and {(~adaptive).sum()} fixed-step runs are selected, "
            "which share no axis: one has a tolerance, the other a step size. Select one kind, "
            "e.g. ds.query(run='not adaptive')."
        )
    return "tolerance" if adaptive.all() else "step_size"


def _refuse_shared_places(axes: dict[str, Any], runs: Integers, place: Integers) -> None:
    counts = np.bincount(place)
    if counts.max() == 1:
        return
    where = np.unravel_index(np.argmax(counts > 1), runs.shape)
    place_of_two = selection.axis_values_in_words(
        {name: axis[i] for (name, axis), i in zip(axes.items(), where, strict=True)}
    )
    raise InputError(
        f"{counts.max()} runs share the place {place_of_two}, so the selection is no grid. Runs "
        "that an edited study no longer holds are left out by ds.query(run='in_study')."
    )


def _pivot(array: xr.Variable, names: Sequence[str], runs: Integers, fill: Any) -> xr.Variable:
    """Spread the dimension `run` of an array over the dimensions `names`.

    Parameters
    ----------
    array : xarray.Variable
        If it is a Dask array, the result is a Dask array with chunks that fit into memory.
    names : sequence of str
    runs : ndarray of int
        The run at each grid point, or -1.
    fill : float, int or str
        Value of grid points without a run.

    Returns
    -------
    xarray.Variable
    """
    array = array.transpose("run", ...)
    if array.chunks and len(names) > 1:
        width = array.dtype.itemsize * math.prod(map(max, array.chunks[1:]))
        if runs.size * width > SMALL:
            parts = [_pivot(array, names[1:], some, fill) for some in runs]
            return xr.Variable.concat(parts, names[0])
    flat = runs.ravel()
    found = selection.take_runs(xr.Variable(array.dims, array.data), np.maximum(flat, 0))
    if (flat < 0).any():
        found = found.where(xr.Variable("run", flat >= 0), fill).astype(array.dtype)
    dense = found.data.reshape(runs.shape + found.shape[1:])
    return xr.Variable((*names, *found.dims[1:]), dense, array.attrs)
