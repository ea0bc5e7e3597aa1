"""The order of convergence that a method shows, beside the order that it declares."""

from dataclasses import dataclass

import numpy as np

from integrators.errors import InputError
from sweep.analysis.selection import (
    adaptive_runs,
    against_reference,
    codes,
    complete,
    descriptions,
    groups,
    scanned_axes,
    take,
    variable,
    without_repeats,
)
from sweep.analysis.slopes import FEWEST, FLOOR, MARGIN, PRE_ASYMPTOTIC, USED, fit_order

NEAR = 0.25  # gap to the declared order below which one that closes at all is not a refutation
TOLERANCE = 0.1  # a measured order this close to the declared one is that order
WIDEST = 0.5  # half an interval: with more, the next whole order is inside too
ROUND_OFF = 1e-15  # what a reference is wrong by at least

# `reference_error` is the distance to the same reference at ten times the tolerance. With error
# control of order 8 that distance is 10^(7/8) - 1 = 6.5 times the reference's own error.
REFERENCE_SHARE = 1 / 5


@dataclass(frozen=True)
class OrderPoint:
    """One step size of a convergence curve.

    Attributes
    ----------
    step_size : float
    error, low, high : float
        Geometric mean over the starts, and the range.
    use : str
        ``used``, ``floor`` or ``pre-asymptotic``.
    """

    step_size: float
    error: float
    low: float
    high: float
    use: str


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
    declared : int or None
    verdict : str
        ``confirmed``, ``refuted`` or ``undecided``.
    reason : str
        Why, where the verdict is not plainly ``confirmed``.
    error, at : str
        The error measured, and whether at the ``end`` or its ``sup`` over time until then.
    time : float
        The time of that end: the last one at which the reference resolves the errors.
    used, floor_count, pre_asymptotic : int
        Step sizes in the fit, and those left out on either side.
    step_low, step_high : float
        Range of the step sizes in the fit.
    floor : float
        Errors below it do not count.
    worst_residual : float
        Largest relative deviation of a point from the fitted line.
    starts, left_out : int
        Initial conditions, and runs that failed, are not finished or have left the study.
    points : tuple of OrderPoint
        The curve, by ascending step size.
    """

    integrator: str
    parameters: dict
    order: float
    low: float
    high: float
    declared: int | None
    verdict: str
    reason: str
    error: str
    at: str
    time: float
    used: int
    floor_count: int
    pre_asymptotic: int
    step_low: float
    step_high: float
    floor: float
    worst_residual: float
    starts: int
    left_out: int
    points: tuple


def order_table(dataset, error="global_error", at="end"):
    """Measure the order of every fixed-step integrator in a run table.

    For each integrator and each combination of scanned values, log error over log step size is
    fitted by weighted least squares, over all initial conditions together. Only times count at
    which the reference's own error is under 1 % of the error.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    error : str, optional
        A variable over ``(run, time)``.
    at : {"end", "sup"}, optional
        The error at the last time that counts, or its largest value until then.

    Returns
    -------
    list of OrderEstimate

    Raises
    ------
    InputError
        When there is no such error, no run with a fixed step size, or `at` is neither.
    """
    dataset = checked_errors(dataset, error, at)
    fixed = take(dataset, np.flatnonzero(~adaptive_runs(dataset)))
    if fixed.sizes["run"] == 0:
        raise InputError("no run has a fixed step size, and only those have an order in it.")
    declared = {
        label: description.get("order") for label, description in descriptions(dataset).items()
    }
    wanted = [error, "reference_error", "sample_count", "status"]
    fixed = fixed[[name for name in wanted if name in fixed]]
    rows = []
    for _, runs in groups(fixed, ["integrator"]):
        # One integrator at a time bounds the memory that a large store takes.
        of_integrator = take(fixed, runs).load()
        for key, runs in groups(of_integrator, ["integrator", *scanned_axes(dataset)]):
            label = key.pop("integrator")
            curve = error_curve(take(of_integrator, runs), error, at)
            rows.append(_estimate(curve, label, key, declared.get(label), error, at))
    return rows


def checked_errors(dataset, error, at):
    """The run table, or InputError unless it has `error` and `at` is ``end`` or ``sup``."""
    if at not in ("end", "sup"):
        raise InputError(f"at is {at!r}, and must be 'end' or 'sup'.", key="at")
    dataset = without_repeats(dataset)
    if variable(dataset, error).dims != ("run", "time") or "_error" not in error:
        raise InputError(
            f"{error!r} is no error over (run, time), such as 'global_error'.", key="error"
        )
    return dataset


@dataclass(frozen=True)
class _Curve:
    """Errors at one time: step sizes (n,), errors and floors (n, starts), NaN where no run is."""

    sizes: np.ndarray
    errors: np.ndarray
    floors: np.ndarray
    time: float
    last_time: float
    left_out: int


def error_curve(dataset, error, at, axis="step_size"):
    """Errors of one integrator by step size (or tolerance) and start, at the last time that counts.

    Returns
    -------
    _Curve
    """
    counts = complete(dataset)
    step_sizes, step = codes(dataset[axis].values)
    starts, start = codes(dataset["initial_condition"].values)
    errors = np.abs(dataset[error].transpose("run", "time").values)
    floors = MARGIN * _own_error(dataset, error, errors.shape)
    errors = np.where(counts[:, None], errors, np.nan)
    last = _last_time(errors >= floors, np.isfinite(errors), step, len(step_sizes))
    if at == "sup":
        errors = np.fmax.accumulate(errors, axis=1)
        floors = np.fmax.accumulate(floors, axis=1)
    table = np.full((2, len(step_sizes), len(starts)), np.nan)
    table[:, step[counts], start[counts]] = errors[counts, last], floors[counts, last]
    times = dataset["time"].values
    left_out = int((~np.isfinite(errors[:, last])).sum())
    return _Curve(step_sizes, *table, float(times[last]), float(times[-1]), left_out)


def _own_error(dataset, error, shape):
    """What the reference is wrong by itself, at each sample; shape ``(run, time)``."""
    if "reference_error" not in dataset or not against_reference(dataset, error):
        return np.full(shape, ROUND_OFF)
    own = REFERENCE_SHARE * dataset["reference_error"].transpose("run", "time").values
    return np.maximum(own, ROUND_OFF)


def _last_time(resolved, finite, step, step_count):
    """The last sample at which all step sizes but one count that ever do, and at least three.

    That is the end of the run, unless the reference ends before or loses a chaotic motion. One is
    let go, as the finest may rise above round-off at odd times.
    """
    counting = np.zeros(resolved.shape[1], dtype=int)
    for i in range(step_count):
        of_step = step == i
        starts = finite[of_step].sum(axis=0)
        counting += (starts > 0) & (2 * resolved[of_step].sum(axis=0) >= starts)
    if counting.max() == 0:
        return int(np.flatnonzero(finite.any(axis=0))[-1]) if finite.any() else -1
    enough = max(counting.max() - 1, min(counting.max(), FEWEST))
    return int(np.flatnonzero(counting >= enough)[-1])


def _estimate(curve, label, parameters, declared, error, at):
    there = np.isfinite(curve.errors).any(axis=1)
    step_sizes, errors, floors = curve.sizes[there], curve.errors[there], curve.floors[there]
    fit = fit_order(step_sizes, errors, errors >= floors)
    use = np.array(fit.use, dtype=object)
    used = step_sizes[use == USED]
    verdict, reason = _verdict(fit, used, declared, curve)
    points = tuple(
        OrderPoint(float(h), *centre_and_range(e), u)
        for h, e, u in zip(step_sizes, errors, use, strict=True)
    )
    return OrderEstimate(
        integrator=label,
        parameters=parameters,
        order=fit.order,
        low=fit.low,
        high=fit.high,
        declared=declared,
        verdict=verdict,
        reason=reason,
        error=error,
        at=at,
        time=curve.time,
        used=len(used),
        floor_count=int((use == FLOOR).sum()),
        pre_asymptotic=int((use == PRE_ASYMPTOTIC).sum()),
        step_low=float(used.min(initial=np.inf)) if len(used) else np.nan,
        step_high=float(used.max(initial=0.0)) if len(used) else np.nan,
        floor=float(np.fmax(fit.floor, _median(floors))),
        worst_residual=fit.worst_residual,
        starts=int(np.isfinite(curve.errors).any(axis=0).sum()),
        left_out=curve.left_out,
        points=points,
    )


def _median(values):
    values = values[np.isfinite(values)]
    return np.median(values) if len(values) else np.nan


def centre_and_range(errors):
    """Geometric mean of the errors that are finite, and their range."""
    errors = errors[np.isfinite(errors)]
    with np.errstate(divide="ignore"):
        return tuple(float(x) for x in (np.exp(np.log(errors).mean()), errors.min(), errors.max()))


def _verdict(fit, used, declared, curve):
    """The verdict on the declared order, and its reason."""
    if len(used) < FEWEST:
        return "undecided", _too_few(fit, curve)
    slopes = f"local slopes {', '.join(f'{slope:.2f}' for slope in fit.local[::-1])}"
    if fit.high - fit.low > 2 * WIDEST:
        return "undecided", (
            f"the interval is wider than one order ({slopes}): "
            "add smaller step sizes, starts, or an earlier end"
        )
    if declared is None:
        return "undecided", "the store names no declared order"
    if abs(fit.order - declared) <= TOLERANCE:
        early = curve.time < curve.last_time
        return "confirmed", f"the reference holds until t = {curve.time:g}" if early else ""
    if fit.low <= declared <= fit.high:
        return "undecided", (
            f"the interval holds the declared order, {fit.order:.2f} is off ({slopes}): "
            "add smaller step sizes, starts, or an earlier end"
        )
    if _still_closing(np.abs(fit.local - declared), used):
        return "undecided", (
            f"still approaching the declared order ({slopes}): add smaller step sizes"
        )
    return "refuted", f"the error falls as h^{fit.order:.2f}, not h^{declared} ({slopes})"


def _still_closing(gaps, used):
    """Whether local slopes approach the declared order at least like the root of the step size.

    A method of that order has slopes that differ from it by a multiple of h or h². `gaps` and
    `used` ascend with the step size.
    """
    if gaps[0] < gaps[-1] < NEAR:
        return True
    middles = np.sqrt(used[1:] * used[:-1])
    return gaps[0] <= gaps[-1] * np.sqrt(middles[0] / middles[-1])


def _too_few(fit, curve):
    """Why fewer than three step sizes count, and what to add to the study."""
    total, floor, early = len(fit.use), fit.use.count(FLOOR), fit.use.count(PRE_ASYMPTOTIC)
    if np.isfinite(curve.errors).any() and not np.isfinite(curve.floors).any():
        return "the reference failed, so that its own error is not known"
    if np.isfinite(fit.floor) and floor == total:
        return "the error does not fall with the step size: all are in round-off, or all too large"
    causes = {
        "at the floor of round-off or of the reference": floor,
        "not yet asymptotic": early,
        "runs failed, unfinished or without an error": curve.left_out,
    }
    causes = "; ".join(f"{count} {cause}" for cause, count in causes.items() if count)
    left = total - floor - early
    text = f"{left} step {'size counts' if left == 1 else 'sizes count'}, {FEWEST} are needed"
    return f"{text}{causes and f' ({causes})'}: add {'larger ' if floor else ''}step sizes"
