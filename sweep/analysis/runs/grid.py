"""Pivot a run table to the full grid of its axes.

A run table has one dimension `run`, so that studies may be ragged and may be extended. A selection
that is a full grid is easier to reduce and to plot along named dimensions.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from integrators.errors import InputError
from sweep.analysis.runs import selection
from sweep.analysis.runs.blocks import Integers

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
    names = ["integrator", _step_size_or_tolerance(dataset), *selection.scanned_axes(dataset)]
    names.append("initial_condition")
    if "repeat" in dataset.coords and len(np.unique(dataset["repeat"].values)) > 1:
        names.append("repeat")
    axes, place = selection.places_of_runs(dataset, names)
    levels: Any = list(axes.values())
    at: Any = np.unravel_index(place, [len(level) for level in levels])
    _refuse_shared_places(axes, at, place)
    of_starts = _axes_of_initial_conditions(dataset)
    attributes = {name: dataset[name].attrs for name in names}
    index = pd.MultiIndex(levels, at, names=names)
    runs = dataset.drop_vars([*names, *of_starts, "run"], errors="ignore")
    runs = runs.assign_coords(xr.Coordinates.from_pandas_multiindex(index, "run"))
    fills = {
        name: MISSING.get(str(name), FILLS.get(array.dtype.kind, 0))
        for name, array in runs.variables.items()
    }
    whole = runs.unstack("run", fill_value=fills).transpose(*names, ...).assign_coords(of_starts)
    for name, own in attributes.items():
        whole[name].attrs = own
    others = [name for name in runs.coords if name in whole.coords and name not in names]
    ordered = whole.reset_coords()[[*names, *of_starts, *others, *runs.data_vars]]  # as in memory
    return ordered.set_coords([*names, *of_starts, *others])


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


def _refuse_shared_places(
    axes: dict[str, NDArray[Any]], at: Sequence[Integers], place: Integers
) -> None:
    _, first, counts = np.unique(place, return_index=True, return_counts=True)
    if counts.max() == 1:
        return
    run = first[np.argmax(counts > 1)]
    place_of_two = selection.axis_values_in_words(
        {name: axis[codes[run]] for (name, axis), codes in zip(axes.items(), at, strict=True)}
    )
    raise InputError(
        f"{counts.max()} runs share the place {place_of_two}, so the selection is no grid. Runs "
        "that an edited study no longer holds are left out by ds.query(run='in_study')."
    )


def _axes_of_initial_conditions(dataset: xr.Dataset) -> dict[Any, xr.Variable]:
    """Axes of a family of initial conditions, along ``initial_condition`` if they vary with it."""
    _, start = selection.distinct_values_and_codes(dataset["initial_condition"].values)
    found = {}
    for name, array in dataset.coords.items():
        if selection.is_axis_of_initial_conditions(array):
            values = array.values[np.unique(start, return_index=True)[1]]
            if np.array_equal(values[start], array.values, equal_nan=True):
                found[name] = xr.Variable("initial_condition", values, array.attrs)
    return found
