"""What the claims of Celledoni, Çokaj, Leone, Murari and Owren are measured by.

Each function measures a number from a dataset of runs, or one for each run.
"""

import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline

from sweep.papers.diagnostics import Array, states_of_runs


def estimate_order_from_steps(dataset: xr.Dataset) -> float:
    """The order p̃ of the error estimate of an embedded pair, whose steps scale as tol^(1/(p̃ + 1)).

    From the least-squares slope of the logarithm of the number of steps over that of the tolerance.
    """
    logarithms = np.log(dataset["tolerance"].values), np.log(dataset["steps"].values)
    return -1.0 / np.polyfit(*logarithms, 1)[0] - 1.0


def distance_between_top_formulations(dataset: xr.Dataset) -> float:
    """The distance between Q and π of a heavy top on T*SO(3) and on T*(SO(3) × R³).

    The largest Euclidean distance over time; for π it is relative to its size.
    """
    rows = {"cotangent": [0, 1, 2, 3], "quadratic": [0, 1, 2, 4]}
    one, other = (
        states_of_runs(dataset)[np.argmax(dataset["formulation"].values == name)][:, own]
        for name, own in rows.items()
    )
    off = np.sum((one - other) ** 2, axis=2)
    off[:, 3] /= np.sum(one[:, 3] ** 2, axis=1)
    return float(np.sqrt(off.sum(axis=1).max()))


def component_peak_size(dataset: xr.Dataset, row: int, component: int) -> Array:
    """The largest absolute value over time of a component of the state, interpolated."""
    return _component_peaks(dataset, row, component)[:, 1]


def component_peak_time(dataset: xr.Dataset, row: int, component: int) -> Array:
    """The time of the `component_peak_size`."""
    return _component_peaks(dataset, row, component)[:, 0]


def _component_peaks(dataset: xr.Dataset, row: int, component: int) -> Array:
    """Time and size of the largest |value| of each run, at stationary points of a cubic spline."""
    times, found = dataset["time"].values, []
    for values in states_of_runs(dataset)[:, :, row, component]:
        path = CubicSpline(times, values)
        where = np.append(path.derivative().roots(extrapolate=False), times[[0, -1]])
        sizes = np.abs(path(where))
        found.append((where[np.argmax(sizes)], sizes.max()))
    return np.array(found)
