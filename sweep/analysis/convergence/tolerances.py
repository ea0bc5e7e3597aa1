"""The error of adaptive integrators by tolerance."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from integrators.status import COMPLETE
from sweep.analysis.convergence.curves import (
    SELF,
    Curve,
    default_error_for_orders,
    error_curve,
    geometric_mean_and_range_of_errors,
    run_table_with_error,
)
from sweep.analysis.convergence.orders import OrderEstimate, order_table
from sweep.analysis.runs.blocks import Floats, load_if_small
from sweep.analysis.runs.selection import adaptive_runs, groups_of_runs, scanned_axes, take_runs
from sweep.analysis.runs.states import INITIAL


@dataclass(frozen=True)
class ToleranceEstimate:
    """The error of one adaptive integrator on one system at one tolerance.

    Attributes
    ----------
    integrator : str
        The label in the study.
    parameters : dict
        Values of the scanned axes.
    tolerance : float
    value, low, high : float
        Geometric mean of the error over the starts, and its range; NaN where there is none.
    steps, rejected_steps : float
        Medians over the starts of which the run is complete, NaN without one.
    error, at : str
        The error measured, and whether at the ``end`` or its ``sup`` over time until then.
    time : float
        The time of that end: the last one at which the reference resolves the errors.
    starts, left_out : int
        Initial conditions, and runs that failed, are not finished or have left the study.
    """

    integrator: str
    parameters: dict[str, Any]
    tolerance: float
    value: float
    low: float
    high: float
    steps: float
    rejected_steps: float
    error: str
    at: str
    time: float
    starts: int
    left_out: int


def tolerance_table(
    dataset: xr.Dataset | xr.DataTree, error: str = "global_error", at: str = "end"
) -> list[ToleranceEstimate]:
    """Errors of every adaptive integrator in a run table, by tolerance.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    error, at : str, optional
        As in `order_table`.

    Returns
    -------
    list of ToleranceEstimate
        By integrator, scanned values and tolerance; empty without adaptive runs.

    Raises
    ------
    InputError
        When there is no such error, or `at` is neither.
    """
    dataset = run_table_with_error(dataset, error, at)
    adaptive = take_runs(dataset, np.flatnonzero(adaptive_runs(dataset)))
    if adaptive.sizes["run"] == 0:
        return []
    wanted = [error, "reference_error", INITIAL, "sample_count", "status"]
    wanted += ["steps", "rejected_steps"]
    adaptive = adaptive[[name for name in wanted if name in adaptive]]
    rows = []
    for key, runs in groups_of_runs(adaptive, ["integrator", *scanned_axes(dataset)]):
        of_integrator = load_if_small(take_runs(adaptive, runs))
        curve = error_curve(of_integrator, error, at, "tolerance")
        label = key.pop("integrator")
        rows += [
            _tolerance_estimate_from_curve(of_integrator, label, key, curve, i, error, at)
            for i in range(len(curve.sizes))
        ]
    return rows


def _tolerance_estimate_from_curve(
    dataset: xr.Dataset,
    label: str,
    parameters: dict[str, Any],
    curve: Curve,
    i: int,
    error: str,
    at: str,
) -> ToleranceEstimate:
    errors, there = curve.errors[i], np.isfinite(curve.errors[i])
    runs = np.flatnonzero(dataset["tolerance"].values == curve.sizes[i])
    value, low, high = geometric_mean_and_range_of_errors(errors) if there.any() else 3 * (np.nan,)
    complete = runs[dataset["status"].values[runs] == COMPLETE]
    return ToleranceEstimate(
        integrator=label,
        parameters=parameters,
        tolerance=float(curve.sizes[i]),
        value=value,
        low=low,
        high=high,
        steps=_median_or_nan(dataset["steps"].values[complete]),
        rejected_steps=_median_or_nan(dataset["rejected_steps"].values[complete]),
        error=error,
        at=at,
        time=curve.time,
        starts=int(there.sum()),
        left_out=len(runs) - int(there.sum()),
    )


def _median_or_nan(values: Floats) -> float:
    return float(np.median(values)) if len(values) else math.nan


def orders_and_tolerances(
    dataset: xr.Dataset, error: str | None = None, at: str = "end"
) -> tuple[list[OrderEstimate], list[ToleranceEstimate]]:
    """Orders of the fixed-step integrators, and errors by tolerance of the adaptive ones.

    Parameters
    ----------
    dataset : xarray.Dataset
        One experiment.
    error, at : str
        As in `order_table`.

    Returns
    -------
    fixed : list of OrderEstimate
    adaptive : list of ToleranceEstimate
        Either may be empty; differences between step sizes have no tolerance.
    """
    error = default_error_for_orders(dataset) if error is None else error
    fixed = [] if adaptive_runs(dataset).all() else order_table(dataset, error, at)
    return fixed, [] if error == SELF else tolerance_table(dataset, error, at)
