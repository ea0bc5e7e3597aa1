"""Selection of runs for pictures that show one step size of each integrator."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from integrators.errors import InputError
from sweep.analysis.runs import selection
from sweep.plots.style import axis_label_with_units


class CurveRuns(NamedTuple):
    """Runs of one integrator at one combination of scanned values, from all starts.

    Attributes
    ----------
    values : str
        The scanned values as text, from `axis_values_in_words`.
    integrator : str
    step : str
        The step size or tolerance as text.
    runs : ndarray of int
        Positions along `run`, ascending.
    """

    values: str
    integrator: str
    step: str
    runs: NDArray[np.integer]


def curves_to_draw(dataset: xr.Dataset, step_size: float | None = None) -> list[CurveRuns]:
    """Select the runs of one step size or tolerance for each integrator and scanned value.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table.
    step_size : float, optional
        Each integrator is shown at its step size nearest to this one; by default, nearest to the
        smallest step size that most integrators share.

    Returns
    -------
    list of CurveRuns

    Raises
    ------
    InputError
        If no run has results.
    """
    counts = selection.complete_runs(dataset, also_stopped=True)
    adaptive = selection.adaptive_runs(dataset)
    sizes = np.where(adaptive, dataset["tolerance"], dataset["step_size"])
    groups = selection.groups_of_runs(dataset, [*selection.scanned_axes(dataset), "integrator"])
    cells = [(key, runs[counts[runs]]) for key, runs in groups if counts[runs].any()]
    if not cells:
        raise InputError("none of the selected runs has any results yet.")
    if step_size is None:
        step_size = _most_shared_step_size([runs for _, runs in cells], sizes, adaptive)
    found = []
    for key, runs in cells:
        own = np.unique(sizes[runs])
        if adaptive[runs[0]]:
            size = own[0]
            words = f"tolerance = {size:g}"
        else:
            size = own[np.argmin(np.abs(np.log(own / step_size)))]
            words = axis_label_with_units(dataset["step_size"], f"h = {size:g}", "{} {}")
        integrator = key.pop("integrator")
        curve = selection.axis_values_in_words(key), integrator, words, runs[sizes[runs] == size]
        found.append(CurveRuns(*curve))
    return found


def runs_to_draw(dataset: xr.Dataset) -> tuple[NDArray[np.integer], list[str]]:
    """Positions of the runs of all `curves_to_draw`, ascending, and their step sizes as text."""
    curves = curves_to_draw(dataset)
    runs = np.sort(np.concatenate([curve.runs for curve in curves]))
    return runs, list(dict.fromkeys(curve.step for curve in curves))


def _most_shared_step_size(
    cells: Sequence[NDArray[np.integer]],
    sizes: NDArray[np.float64],
    adaptive: NDArray[np.bool_],
) -> float:
    """The smallest of the step sizes that most integrators share; NaN if all are adaptive."""
    own = [np.unique(sizes[runs]) for runs in cells if not adaptive[runs[0]]]
    if not own:
        return np.nan
    distinct, count = np.unique(np.concatenate(own), return_counts=True)
    return float(distinct[count == count.max()].min())


def first_run_to_draw(
    dataset: xr.Dataset, integrator: str, step_size: float | None = None, **wanted: Any
) -> xr.Dataset:
    """Select the first run of an integrator at a step size and at values of other coordinates.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table.
    integrator : str
        Label of the integrator.
    step_size : float, optional
        See `curves_to_draw`.
    **wanted
        Values of other coordinates along `run`, such as ``initial_condition``.

    Returns
    -------
    xarray.Dataset
        The run table of this run; empty if there is no such run.
    """
    chosen = dataset["integrator"].values == integrator
    if step_size is not None:
        chosen &= np.isclose(dataset["step_size"].values, step_size)
    for name, value in wanted.items():
        chosen &= dataset[name].values == value
    run: xr.Dataset = selection.take_runs(dataset, np.flatnonzero(chosen)[:1])
    return run
