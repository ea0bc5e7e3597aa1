"""Measured orders of convergence, beside the declared ones.

>>> order_table(tree["pendulum"])
[OrderEstimate(integrator='variational', order=2.0, …, verdict='confirmed'), …]
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from integrators.errors import InputError
from sweep.analysis.convergence.curves import (
    SELF,
    Curve,
    default_error_for_orders,
    error_curve,
    run_table_with_error,
    self_convergence_curve,
)
from sweep.analysis.convergence.order_verdicts import (
    MOVING,
    scaled_to_round_off,
    verdict_on_declared_order,
)
from sweep.analysis.convergence.slopes import (
    FLOOR,
    LEVEL,
    PRE_ASYMPTOTIC,
    USED,
    fit_convergence_order,
)
from sweep.analysis.runs.blocks import Floats, load_if_small
from sweep.analysis.runs.selection import (
    adaptive_runs,
    groups_of_runs,
    integrator_descriptions,
    run_table,
    scanned_axes,
    take_runs,
)
from sweep.analysis.runs.states import INITIAL


@dataclass(frozen=True)
class OrderPoint:
    """One step size of a convergence curve.

    Attributes
    ----------
    step_size : float
    error, low, high : float
        Error of a typical start, see `slopes.OrderFit`, and the range over the starts.
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
        Measured order and its 95 % interval; NaN where it cannot be measured.
    declared : int, "exact" or None
    verdict : str
        ``confirmed``, ``refuted`` or ``undecided``.
    cause : str
        Why the verdict is ``undecided``, in a few words; else empty.
    reason : str
        Where it is not plainly ``confirmed``: cause, evidence, and what would decide.
    further_sizes : tuple of float
        Step sizes that may decide it, all of which runs can have.
    error, at : str
        The error measured, ``self`` where it is of differences between step sizes, and whether at
        the ``end`` or its ``sup`` over time until then.
    time : float
        The time of that end: the last one at which the reference resolves the errors.
    used, floor_count, pre_asymptotic : int
        Step sizes in the fit, and those left out on either side.
    level_count : int
        Those of the step sizes at the floor where the error has stopped falling, though it is
        resolved.
    step_low, step_high : float
        Range of the step sizes in the fit.
    floor_until, pre_asymptotic_from : float
        The largest step size left out at the floor (of round-off, of the reference or of a
        solver), and the smallest left out as not yet asymptotic; NaN where there is none.
    absent, unmeasured : int
        Step sizes without a complete run, and with complete runs of which none has an error.
    floor : float
        Errors below it do not count.
    starts, left_out : int
        Initial conditions, and runs that failed, are not finished, have left the study or are
        without an error.
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
    level_count: int
    pre_asymptotic: int
    step_low: float
    step_high: float
    floor_until: float
    pre_asymptotic_from: float
    absent: int
    unmeasured: int
    floor: float
    starts: int
    left_out: int
    points: tuple[OrderPoint, ...]


def order_table(
    dataset: xr.Dataset | xr.DataTree, error: str | None = None, at: str = "end"
) -> list[OrderEstimate]:
    """Measure the order of every fixed-step integrator in a run table.

    For each integrator and each combination of scanned values, log error over log step size is
    fitted, over all initial conditions together; see
    `slopes.fit_convergence_order` for which step sizes count
    and what the interval is. Only times count at which the reference's own error is under 1 % of
    the error, and what is left of it is part of the interval.

    The declared order is ``confirmed`` where the whole interval is within 1/2 of it, or the
    integrator is exact to round-off in so few steps that an error of its order would show;
    ``refuted`` where the whole interval is farther from it, or one declared exact has an order;
    else ``undecided``, and the reason names step sizes to add.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    error : str, optional
        A variable over ``(run, time)``, or ``"self"``: the difference of each step size's state
        from the next one's, which needs no reference but ``record = ["state"]``. By default
        ``global_error``, and ``self`` where there is no reference.
    at : {"end", "sup"}, optional
        The error at the last time that counts, or its largest value until then.

    Returns
    -------
    list of OrderEstimate

    Raises
    ------
    InputError
        When there is no such error, no run with a fixed step size, or `at` is neither.

    Notes
    -----
    Ensembles of initial conditions narrow the interval, as long as what limits it are the starts:
    the error of the reference and the next terms are the same for all of them.
    """
    dataset = run_table(dataset)
    error = default_error_for_orders(dataset) if error is None else error
    dataset = run_table_with_error(dataset, error, at)
    fixed = take_runs(dataset, np.flatnonzero(~adaptive_runs(dataset)))
    if fixed.sizes["run"] == 0:
        raise InputError("no run has a fixed step size, and only those have an order in it.")
    declared = integrator_descriptions(dataset)
    found = list(_error_curve_of_each_integrator(fixed, error, at))
    # Where no error of any integrator shows a motion, to be exact means nothing.
    moving = any(
        np.nanmax(curve.errors, initial=0.0) > scaled_to_round_off(MOVING, curve)
        for _, _, curve in found
    )
    return [
        _order_estimate_from_curve(curve, label, key, declared.get(label, {}), error, at, moving)
        for label, key, curve in found
    ]


def _error_curve_of_each_integrator(
    fixed: xr.Dataset, error: str, at: str
) -> Iterator[tuple[str, dict[str, Any], Curve]]:
    """Label, scanned values and `Curve` of each integrator, one after another in memory."""
    names = ["state" if error == SELF else error, error.removesuffix("_error")]
    names += ["reference_error", INITIAL, "sample_count", "status", "steps"]
    axes = scanned_axes(fixed)
    fixed = fixed[[name for name in names if name in fixed]]
    for _, runs in groups_of_runs(fixed, ["integrator"]):
        of_integrator = load_if_small(take_runs(fixed, runs))
        for key, runs in groups_of_runs(of_integrator, ["integrator", *axes]):
            cell = take_runs(of_integrator, runs)
            curve = (
                self_convergence_curve(cell, at) if error == SELF else error_curve(cell, error, at)
            )
            yield key.pop("integrator"), key, curve


def _order_estimate_from_curve(
    curve: Curve,
    label: str,
    parameters: dict[str, Any],
    method: dict[str, Any],
    error: str,
    at: str,
    moving: bool,
) -> OrderEstimate:
    there = np.isfinite(curve.errors).any(axis=1)
    sizes, errors, floors = curve.sizes[there], curve.errors[there], curve.error_uncertainty[there]
    declared = method.get("order")
    fit = fit_convergence_order(sizes, errors, floors, method.get("symmetric"))
    use = np.array(fit.use, dtype=object)
    of_use = {kind: sizes[use == kind] for kind in (USED, FLOOR, PRE_ASYMPTOTIC)}
    judged = verdict_on_declared_order(fit, declared, curve, error, moving)
    reasons = [judged.reason] if judged.reason else []
    if curve.stopped:
        reasons.append(
            f"its errors are compared until t = {curve.last_time:g}, after which {curve.stopped} "
            f"of {curve.complete} runs fail"
        )
    points = tuple(
        OrderPoint(
            float(h),
            float(t),
            float(np.nanmin(e)),
            float(np.nanmax(e)),
            u,
            int(np.isfinite(e).sum()),
        )
        for h, t, e, u in zip(sizes, fit.typical, errors, use, strict=True)
    )
    return OrderEstimate(
        integrator=label,
        parameters=parameters,
        order=fit.order,
        low=fit.low,
        high=fit.high,
        declared=declared,
        verdict=judged.verdict,
        cause=judged.cause,
        reason="; ".join(reasons),
        further_sizes=judged.further_sizes,
        error=error,
        at=at,
        time=curve.time,
        used=len(of_use[USED]),
        floor_count=len(of_use[FLOOR]),
        level_count=fit.causes.count(LEVEL),
        pre_asymptotic=len(of_use[PRE_ASYMPTOTIC]),
        step_low=_extreme_or_nan(of_use[USED], np.min),
        step_high=_extreme_or_nan(of_use[USED], np.max),
        floor_until=_extreme_or_nan(of_use[FLOOR], np.max),
        pre_asymptotic_from=_extreme_or_nan(of_use[PRE_ASYMPTOTIC], np.min),
        absent=curve.absent,
        unmeasured=curve.unmeasured,
        floor=float(np.fmax(fit.floor, _median_of_finite_or_nan(curve.floors[there]))),
        starts=int(np.isfinite(curve.errors).any(axis=0).sum()),
        left_out=curve.left_out,
        points=points,
    )


def _extreme_or_nan(values: Floats, of: Callable[[Floats], np.float64]) -> float:
    return float(of(values)) if len(values) else np.nan


def _median_of_finite_or_nan(values: Floats) -> float:
    values = values[np.isfinite(values)]
    return np.median(values) if len(values) else np.nan
