"""Measured and declared orders of convergence, and errors by tolerance.

>>> order_table(tree["pendulum"])
[OrderEstimate(integrator='variational', order=2.0, …, verdict='confirmed'), …]
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from integrators.errors import InputError
from integrators.status import COMPLETE
from sweep.analysis.convergence import curves, order_verdicts, slopes
from sweep.analysis.runs import selection
from sweep.analysis.runs.blocks import Booleans, load_if_small, median_or_nan
from sweep.analysis.runs.states import INITIAL


@dataclass(frozen=True)
class OrderPoint:
    """One step size of a convergence curve.

    Attributes
    ----------
    step_size : float
    error, low, high : float
        Error of a typical start (see `slopes.OrderFit`), and the range over the starts.
    use : str
        ``used``, ``floor`` or ``pre-asymptotic``.
    starts : int
        Initial conditions that have an error at this step size.
    """

    step_size: float
    error: float
    low: float
    high: float
    use: str
    starts: int


@dataclass(frozen=True)
class OrderEstimate:
    """The measured order of one integrator on one system.

    Attributes
    ----------
    integrator : str
        The label in the study.
    parameters : dict
        Values of the scanned axes.
    order, low, high : float
        Measured order and its 95 % interval; NaN if it cannot be measured.
    declared : int, "exact" or None
        Declared order; None if the store has none.
    verdict : str
        ``confirmed``, ``refuted`` or ``undecided``.
    cause : str
        Why the verdict is ``undecided``, in a few words; else empty.
    reason : str
        Cause, evidence and remedy; empty if the order is confirmed without qualification.
    further_sizes : tuple of float
        Possible step sizes that may decide the verdict.
    error, at : str
        The error, or ``self`` for differences between step sizes; and whether it is taken at the
        ``end``, or as its ``sup`` over time.
    time : float
        The last time at which the reference resolves the errors; ``end`` and ``sup`` refer to it.
    used, floor_count, pre_asymptotic : int
        Numbers of step sizes in the fit, at the floor, and not yet in the asymptotic range.
    step_low, step_high : float
        Range of the step sizes in the fit.
    floor_until, pre_asymptotic_from : float
        The largest step size at the floor (of round-off, of the reference or of a solver), and the
        smallest one that is not yet in the asymptotic range; NaN if there is none.
    absent : int
        Number of step sizes without any error, because no run is complete or the reference failed.
    starts, left_out : int
        Number of initial conditions; and number of runs that failed, are not finished, left the
        study, or have no error.
    time_units : str
        Units of step sizes and times.
    points : tuple of OrderPoint
        The curve, by ascending step size.
    """

    integrator: str
    parameters: dict[str, Any]
    order: float
    low: float
    high: float
    declared: int | str | None
    verdict: str
    cause: str
    reason: str
    further_sizes: tuple[float, ...]
    error: str
    at: str
    time: float
    used: int
    floor_count: int
    pre_asymptotic: int
    step_low: float
    step_high: float
    floor_until: float
    pre_asymptotic_from: float
    absent: int
    starts: int
    left_out: int
    time_units: str
    points: tuple[OrderPoint, ...]


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
        Geometric mean of the error over the starts, and its range; NaN if there is no error.
    steps, rejected_steps : float
        Medians over the complete runs; NaN if there is none.
    error, at : str
        The error; and whether it is taken at the ``end``, or as its ``sup`` over time.
    time : float
        The last time at which the reference resolves the errors; ``end`` and ``sup`` refer to it.
    starts, left_out : int
        Number of initial conditions; and number of runs that failed, are not finished, or left the
        study.
    time_units : str
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
    time_units: str


def order_table(
    dataset: xr.Dataset | xr.DataTree, error: str | None = None, at: str = "end"
) -> list[OrderEstimate]:
    """Measure the order of every fixed-step integrator in a run table.

    For each integrator and each combination of scanned values, the order is the slope of log error
    over log step size, fitted to all initial conditions together. `slopes.fit_convergence_order`
    describes which step sizes are used, and what the interval is. Only times at which the error of
    the reference is less than 1 % of the error are used; the remaining error of the reference
    widens the interval.

    The declared order is ``confirmed`` if the whole interval is within 1/2 of it, or if the
    integrator is exact to round-off in so few steps that an error of the declared order would be
    visible. It is ``refuted`` if the whole interval is farther from it, or if an integrator that is
    declared exact has an order. Otherwise it is ``undecided``, and the reason names step sizes to
    add.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    error : str, optional
        A variable over ``(run, time)``, or ``"self"``: the differences between the states at
        successive step sizes, which need ``record = ["state"]`` but no reference. By default
        ``global_error``, and ``self`` if there is no reference.
    at : {"end", "sup"}, optional
        The error at the last time that is used, or its maximum until then.

    Returns
    -------
    list of OrderEstimate

    Raises
    ------
    InputError
        If there is no such error or no run with a fixed step size, or if `at` is invalid.

    Notes
    -----
    More initial conditions narrow the interval only as far as its width comes from differences
    between them. The error of the reference and higher-order terms affect all of them alike.
    """
    dataset = selection.run_table(dataset)
    error = curves.default_error_for_orders(dataset) if error is None else error
    dataset = curves.run_table_with_error(dataset, error, at)
    fixed = ~selection.adaptive_runs(dataset)
    if not fixed.any():
        raise InputError("no run has a fixed step size, so that no order can be measured.")
    names = ["state" if error == curves.SELF else error, error.removesuffix("_error")]
    found = [
        (label, parameters, curves.curve_of_error(cell, error, at))
        for label, parameters, cell in _cells_of_integrators(dataset, fixed, names)
    ]
    # If no error of any integrator shows that the state moves, exactness means nothing.
    moving = any(order_verdicts.shows_motion(curve) for *_, curve in found)
    described, rows = selection.integrator_descriptions(dataset), list[OrderEstimate]()
    for label, parameters, curve in found:
        method = described.get(label, {})
        fit = slopes.fit_convergence_order(
            curve.sizes, curve.errors, curve.error_uncertainty, method.get("symmetric")
        )
        judged = order_verdicts.verdict_on_declared_order(
            fit, method.get("order"), curve, error, moving
        )
        reasons = [judged.reason(curve.possible.time_unit)]
        if curve.stopped:
            reasons.append(
                f"its errors are compared until t = {curve.last_time:g}, after which "
                f"{curve.stopped} of {curve.complete} runs fail"
            )
        used, floor, coarse = (
            [float(size) for size, one in zip(curve.sizes, fit.use, strict=True) if one == use]
            for use in (slopes.USED, slopes.FLOOR, slopes.PRE_ASYMPTOTIC)
        )
        rows.append(
            OrderEstimate(
                integrator=label,
                parameters=parameters,
                order=fit.order,
                low=fit.low,
                high=fit.high,
                declared=method.get("order"),
                verdict=judged.verdict,
                cause=judged.cause,
                reason="; ".join(filter(None, reasons)),
                further_sizes=judged.further_sizes,
                error=error,
                at=at,
                time=curve.time,
                used=len(used),
                floor_count=len(floor),
                pre_asymptotic=len(coarse),
                step_low=min(used, default=np.nan),
                step_high=max(used, default=np.nan),
                floor_until=max(floor, default=np.nan),
                pre_asymptotic_from=min(coarse, default=np.nan),
                absent=curve.absent,
                starts=int(np.isfinite(curve.errors).any(axis=0).sum()),
                left_out=curve.left_out,
                time_units=dataset["time"].attrs.get("units", "1"),
                points=tuple(_points_of_curve(curve, fit)),
            )
        )
    return rows


def _points_of_curve(curve: curves.Curve, fit: slopes.OrderFit) -> Iterator[OrderPoint]:
    rows = zip(curve.sizes.tolist(), fit.typical.tolist(), curve.errors, fit.use, strict=True)
    for size, typical, errors, use in rows:
        known = errors[np.isfinite(errors)].tolist()
        yield OrderPoint(size, typical, min(known), max(known), use, len(known))


def _cells_of_integrators(
    dataset: xr.Dataset, runs: Booleans, names: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any], xr.Dataset]]:
    """Yield label, scanned values and runs of each integrator, loading one at a time."""
    names = [*names, "reference_error", INITIAL, "sample_count", "status"]
    axes, names = selection.scanned_axes(dataset), [name for name in names if name in dataset]
    dataset = selection.take_runs(dataset, np.flatnonzero(runs))[names]
    for _, own in selection.groups_of_runs(dataset, ["integrator"]):
        of_integrator = load_if_small(selection.take_runs(dataset, own))
        for key, own in selection.groups_of_runs(of_integrator, ["integrator", *axes]):
            yield key.pop("integrator"), key, selection.take_runs(of_integrator, own)


def tolerance_table(
    dataset: xr.Dataset | xr.DataTree, error: str = "global_error", at: str = "end"
) -> list[ToleranceEstimate]:
    """Errors of every adaptive integrator in a run table, by tolerance.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    error, at : str, optional
        See `order_table`.

    Returns
    -------
    list of ToleranceEstimate
        By integrator, scanned values and tolerance; empty without adaptive runs.

    Raises
    ------
    InputError
        If there is no such error, or `at` is invalid.
    """
    dataset = curves.run_table_with_error(dataset, error, at)
    adaptive, rows = selection.adaptive_runs(dataset), list[ToleranceEstimate]()
    if not adaptive.any():
        return rows
    for label, parameters, cell in _cells_of_integrators(
        dataset, adaptive, [error, "steps", "rejected_steps"]
    ):
        curve = curves.error_curve(cell, error, at, "tolerance")
        for tolerance in np.unique(cell["tolerance"].values).tolist():
            known = curve.errors[curve.sizes == tolerance]
            known = known[np.isfinite(known)]
            runs = cell["tolerance"].values == tolerance
            complete = cell.isel(run=runs & (cell["status"].values == COMPLETE))
            with np.errstate(divide="ignore"):
                value = np.exp(np.log(known).mean()) if len(known) else np.nan
            rows.append(
                ToleranceEstimate(
                    integrator=label,
                    parameters=parameters,
                    tolerance=tolerance,
                    value=float(value),
                    low=min(known.tolist(), default=np.nan),
                    high=max(known.tolist(), default=np.nan),
                    steps=median_or_nan(complete["steps"].values),
                    rejected_steps=median_or_nan(complete["rejected_steps"].values),
                    error=error,
                    at=at,
                    time=curve.time,
                    starts=len(known),
                    left_out=int(runs.sum()) - len(known),
                    time_units=dataset["time"].attrs.get("units", "1"),
                )
            )
    return rows


def orders_and_tolerances(
    dataset: xr.Dataset, error: str | None = None, at: str = "end"
) -> tuple[list[OrderEstimate], list[ToleranceEstimate]]:
    """Orders of the fixed-step integrators, and errors by tolerance of the adaptive ones.

    Parameters
    ----------
    dataset : xarray.Dataset
        One experiment.
    error, at : str
        See `order_table`.

    Returns
    -------
    fixed : list of OrderEstimate
    adaptive : list of ToleranceEstimate
        Either may be empty; `adaptive` is empty for differences between step sizes.
    """
    error = curves.default_error_for_orders(dataset) if error is None else error
    fixed = [] if selection.adaptive_runs(dataset).all() else order_table(dataset, error, at)
    return fixed, [] if error == curves.SELF else tolerance_table(dataset, error, at)
