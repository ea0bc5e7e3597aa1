"""Selection of the runs that a picture of one step size shows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from integrators.errors import InputError
from sweep.analysis.runs.selection import (
    adaptive_runs,
    axis_values_in_words,
    complete_runs,
    groups_of_runs,
    scanned_axes,
    take_runs,
)
from sweep.plots.style import axis_label_with_units

Cell = tuple[str, str]  # scanned values, as `axis_values_in_words` says them, and integrator


def runs_to_draw(
    dataset: xr.Dataset, step_size: float | None = None
) -> tuple[NDArray[np.intp], dict[Cell, str]]:
    """Select the runs of one step size or tolerance for each integrator and scanned value.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table.
    step_size : float, optional
        Each integrator is shown at its step size nearest to this one; by default the smallest
        of those that most integrators share.

    Returns
    -------
    runs : ndarray of int
        Positions along `run`, ascending.
    words : dict of (str, str) to str
        The step size or tolerance as text, by the scanned values, as `axis_values_in_words` says
        them, and the integrator.

    Raises
    ------
    InputError
        When no run has results.
    """
    counts = complete_runs(dataset, also_stopped=True)
    adaptive = adaptive_runs(dataset)
    sizes = np.where(adaptive, dataset["tolerance"], dataset["step_size"])
    cells: dict[Cell, NDArray[np.integer]] = {}
    for key, runs in groups_of_runs(dataset, ["integrator", *scanned_axes(dataset)]):
        integrator = key.pop("integrator")
        cells[axis_values_in_words(key), integrator] = runs[counts[runs]]
    cells = {cell: runs for cell, runs in cells.items() if len(runs)}
    if not cells:
        raise InputError("none of the selected runs has any results yet.")
    if step_size is None:
        step_size = _most_shared_step_size(cells, sizes, adaptive)
    chosen, words = [], {}
    for cell, runs in cells.items():
        own = np.unique(sizes[runs])
        if adaptive[runs[0]]:
            size = own[0]
            words[cell] = f"tolerance = {size:g}"
        else:
            size = own[np.argmin(np.abs(np.log(own / step_size)))]
            words[cell] = axis_label_with_units(dataset["step_size"], f"h = {size:g}", "{} {}")
        chosen.append(runs[sizes[runs] == size])
    return np.sort(np.concatenate(chosen)), words


def _most_shared_step_size(
    cells: Mapping[Cell, NDArray[np.integer]],
    sizes: NDArray[np.float64],
    adaptive: NDArray[np.bool_],
) -> float:
    """The smallest of the step sizes that most integrators share; NaN where all are adaptive."""
    own = [np.unique(sizes[runs]) for runs in cells.values() if not adaptive[runs[0]]]
    if not own:
        return np.nan
    distinct, count = np.unique(np.concatenate(own), return_counts=True)
    return float(distinct[count == count.max()].min())


def first_run_to_draw(
    dataset: xr.Dataset, integrator: str, step_size: float | None = None, **wanted: Any
) -> xr.Dataset:
    """Select the first run of an integrator at a step size, scanned values and a start.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table.
    integrator : str
        Its label.
    step_size : float, optional
    **wanted
        Values of other coordinates along `run`, such as ``initial_condition``.

    Returns
    -------
    xarray.Dataset
        The run table of this run; of none if there is no such run.
    """
    chosen = dataset["integrator"].values == integrator
    if step_size is not None:
        chosen &= np.isclose(dataset["step_size"].values, step_size)
    for name, value in wanted.items():
        chosen &= dataset[name].values == value
    run: xr.Dataset = take_runs(dataset, np.flatnonzero(chosen)[:1])
    return run
