"""Verdicts on declared orders of convergence, from measured orders."""

from typing import Any

import numpy as np
from scipy.special import stdtrit

from integrators.precision import DOUBLE, ROUND_OFF
from sweep.analysis.convergence.curves import SELF, Curve
from sweep.analysis.convergence.slopes import (
    FEWEST,
    FLAT,
    FLOOR,
    LEAST,
    LEVEL,
    MARGIN,
    MISSING,
    OF_POINTS,
    PRE_ASYMPTOTIC,
    UNRESOLVED,
    USED,
    WITH_SECOND_TERM,
    Flat,
    OrderFit,
)
from sweep.analysis.reasons import Reason, Remedy
from sweep.analysis.runs.blocks import Booleans, Floats

Declared = int | str | None  # an order, `EXACT`, or none that the store names
CONFIRMED, REFUTED, UNDECIDED = "confirmed", "refuted", "undecided"

TOLERANCE = 0.1  # an interval this close to a whole order is that order
CLOSING = 0.25  # of local slopes to the declared order: below it, any decrease counts as approach
WIDEST = 0.5  # half an interval: with more, the next whole order is inside too
# What N steps of order p leave of an error, about N^-p: where that is more, round-off means exact;
# and an error that shows that the motion is not trivial. In double; in proportion to round-off.
LOST, MOVING = 1e-10, 1e-6
FALLING = 4.0  # times the finest steps' error is that of the coarsest: it is no round-off
EXACT = "exact"  # the declared order of a method whose steps are the flow itself
MOST_STARTS, MOST_SIZES = 4096, 100  # more are no advice
FINER = 8.0  # times smaller step sizes show if an error that hardly falls does so later
MOST = 1e3  # times larger step sizes: more are no advice
BEYOND = 2.0  # factor by which step sizes are tried beyond the largest and the smallest


def verdict_on_declared_order(
    fit: OrderFit, declared: Declared, curve: Curve, error: str, moving: bool
) -> tuple[str, tuple[Reason, ...]]:
    """Judge the declared order of a method by its fitted order.

    Parameters
    ----------
    fit : OrderFit
    declared : int, "exact" or None
    curve : Curve
        The fitted error curve.
    error : str
        Name of the error.
    moving : bool
        Whether the errors of some integrator are large enough to show that the state moves.

    Returns
    -------
    verdict : str
    why : tuple of Reason
    """
    if curve.reference_failed:
        remedies = *_remedy_of_shorter_reference(curve), Remedy("state", 1, 0)
        return UNDECIDED, (Reason("reference", 0, 1, remedies),)
    slopes = {"slopes": _local_slopes_in_words(fit)}
    if isinstance(declared, str):  # `EXACT`
        if np.isfinite(fit.order):
            return REFUTED, (Reason("not exact", fit.order, 0, (), slopes),)
        declared = 0  # N steps leave all of an error that does not fall
    if not np.isfinite(fit.order):
        exact = None if declared is None else _steps_exact_to_round_off(fit, declared, curve)
        if exact is not None and not moving:
            limit = scaled_to_round_off(MOVING, curve)
            return UNDECIDED, (Reason("motion", 0, limit),)
        if exact is not None and declared is not None:
            limit, numbers = scaled_to_round_off(LOST, curve), {"steps": exact, "time": curve.time}
            return CONFIRMED, (Reason("exact steps", exact**-declared, limit, (), numbers),)
        return UNDECIDED, (_why_too_few_step_sizes(fit, declared, curve, error),)
    if declared is None:
        return UNDECIDED, (Reason("declared orders", 0, 1),)
    if _interval_confirms_order(fit, declared):
        early = curve.time < curve.last_time and curve.referred
        why = (Reason("time resolved", curve.time, curve.last_time),) if early else ()
        return CONFIRMED, why
    other = round(fit.order)
    if other > 0 and _interval_confirms_order(fit, other):
        return REFUTED, (Reason("another order", fit.order, declared, (), slopes),)
    return UNDECIDED, (_why_order_undecided(fit, declared, curve, error),)


def scaled_to_round_off(limit: float, curve: Curve) -> float:
    """Scale a limit for double precision to the round-off of a curve."""
    return limit * curve.round_off / ROUND_OFF[DOUBLE]


def _interval_confirms_order(fit: OrderFit, order: float) -> bool:
    """Whether the whole interval is within `TOLERANCE` of an order."""
    return order - TOLERANCE <= fit.low and fit.high <= order + TOLERANCE


def _steps_exact_to_round_off(fit: OrderFit, declared: int, curve: Curve) -> int | None:
    """The fewest steps of a run with an error at round-off, if no order can be measured; else None.

    An error that falls with the step size is not round-off, even where the reference hides it.
    """
    there = np.isfinite(curve.errors).any(axis=1)
    at_floor = curve.errors[there] < curve.floors[there]
    if not there.any() or fit.use.count(FLOOR) < len(fit.use) or not at_floor[-1].all():
        return None
    finest, coarsest = np.nanmedian(curve.errors[there], axis=1)[[0, -1]]
    if coarsest > FALLING * finest:
        return None
    steps = curve.steps[there][-1]
    return int(steps) if steps**-declared >= scaled_to_round_off(LOST, curve) else None


def _local_slopes_in_words(fit: OrderFit) -> str:
    return f"local slopes {', '.join(f'{slope:.2f}' for slope in fit.local[::-1])}"


def _why_order_undecided(fit: OrderFit, declared: int, curve: Curve, error: str) -> Reason:
    """Why the measured order decides nothing, and what would."""
    half, near = (fit.high - fit.low) / 2, declared
    if abs(fit.order - declared) > TOLERANCE >= abs(fit.order - round(fit.order)):
        near = round(fit.order)
    off = abs(fit.order - near)
    numbers = {
        "slopes": _local_slopes_in_words(fit),
        "order": fit.order,
        "half": half,
        "near": near,
    }
    if half > TOLERANCE:
        remedies = _remedies_narrowing_order_interval(fit, declared, curve, error, TOLERANCE)
        return Reason("width", half, TOLERANCE, remedies, numbers)
    if off <= TOLERANCE:
        remedies = _remedies_narrowing_order_interval(fit, declared, curve, error, TOLERANCE - off)
        return Reason("distance", off + half, TOLERANCE, remedies, numbers)
    gaps = np.abs(fit.local - declared)
    closing = _slopes_approach_declared_order(gaps)
    gap = float(gaps[0]) if closing else abs(fit.order - round(fit.order))
    tested = ("approach", gap) if closing else ("whole order", fit.order)
    return Reason(
        *tested, TOLERANCE, _remedy_of_smaller_step_size(gap, declared, fit, curve), numbers
    )


def _slopes_approach_declared_order(gaps: Floats) -> bool:
    """Whether local slopes, finest first, approach the declared order."""
    return gaps[0] < gaps[-1] and (gaps[0] < CLOSING or gaps[0] < 0.7 * gaps[-1])


def _remedies_narrowing_order_interval(
    fit: OrderFit, declared: int, curve: Curve, error: str, wanted: float
) -> tuple[Remedy, ...]:
    """Remedies that would narrow half the interval to `wanted`.

    The scatter of points falls like one over the root of the number of step sizes, that of starts
    like one over the root of their number, the effect of the next term at least like the step size,
    and that of the reference in proportion to its error. Where these are not enough, local slopes
    approach the declared order at smaller step sizes.
    """
    used, starts = fit.use.count(USED), int(np.isfinite(curve.errors).any(axis=0).sum())
    room = wanted - fit.budget - fit.bend
    remedies = []
    if room > LEAST:
        number = np.ceil(max(starts, 2) * (fit.apart / room) ** 2)
        if fit.scatter <= room and starts < number <= MOST_STARTS:
            remedies.append(Remedy("starts", float(number), starts))
        more = np.arange(used + 1, MOST_SIZES)
        freedom = np.maximum([used - 2, *(more - 2)], 1)
        quantile = stdtrit(freedom, OF_POINTS)
        scatter = fit.scatter * quantile[1:] / quantile[0] * np.sqrt(used / more)
        enough = more[np.maximum(scatter, fit.apart) <= room]
        if fit.scatter > room and len(enough):
            apart = error == SELF  # differences, of which there is one less than step sizes
            remedies += _remedy_of_step_sizes_between(fit, curve, enough[0] + apart, used + apart)
    left = wanted - fit.budget - LEAST
    if fit.bend > 0 and left > 0 and not remedies:
        finer = _remedy_of_smaller_step_size(fit.bend, fit.order, fit, curve, left / 2)
        return finer or _remedy_of_denser_step_sizes(fit, curve, error)
    if fit.budget > wanted / 2:
        remedies += _remedy_of_closer_reference(2 * fit.budget / wanted, curve)
    gap = abs(float(fit.local[0]) - declared)
    return (
        tuple(remedies)
        or _remedy_of_smaller_step_size(max(gap, TOLERANCE), declared, fit, curve)
        or _remedy_of_denser_step_sizes(fit, curve, error)
    )


def _remedy_of_closer_reference(times: float, curve: Curve) -> tuple[Remedy, ...]:
    """A power of ten for the tolerance of a reference, unless rounding decides there."""
    now, least = curve.reference_tolerance
    tolerance = 10.0 ** np.floor(np.log10(now / times))
    return (Remedy("reference", float(tolerance), now),) if tolerance >= least else ()


def _remedy_of_shorter_reference(curve: Curve) -> tuple[Remedy, ...]:
    """A reference that ends near half the time, if it has as many sample intervals."""
    interval = curve.possible.interval
    half = interval * np.floor(curve.last_time / interval / 2)
    return (Remedy("reference end", float(half), curve.last_time),) if half > 0 else ()


def _remedy_of_denser_step_sizes(fit: OrderFit, curve: Curve, error: str) -> tuple[Remedy, ...]:
    """Up to twice as many step sizes in the same range, where these are too few for next terms."""
    used = fit.use.count(USED)
    if used >= WITH_SECOND_TERM:
        return ()
    apart = error == SELF  # differences, of which there is one less than step sizes
    for number in range(2 * used, used, -1):
        if found := _remedy_of_step_sizes_between(fit, curve, number + apart, used + apart):
            return found
    return ()


def _remedy_of_step_sizes_between(
    fit: OrderFit, curve: Curve, number: int, now: int
) -> tuple[Remedy, ...]:
    """So many step sizes in the range of those that count, if as many divide the interval."""
    sizes, _, _ = _mean_errors_of_step_sizes(curve, np.array(fit.use, dtype=object) == USED)
    if not curve.possible.are_as_many_between(sizes[0], sizes[-1], number):
        return ()
    return (Remedy("step sizes", float(number), now),)


def _remedy_of_smaller_step_size(
    gap: float, order: float, fit: OrderFit, curve: Curve, wanted: float = TOLERANCE
) -> tuple[Remedy, ...]:
    """The step size at which a gap proportional to it closes, unless it is at the floor."""
    in_fit = np.array(fit.use, dtype=object) == USED
    sizes, errors, own = _mean_errors_of_step_sizes(curve, in_fit)
    smallest = sizes[0] * min(wanted / gap, 0.5)
    there = errors[0] * (smallest / sizes[0]) ** order
    if there < MARGIN * own[0]:
        return ()
    return _remedy_of_finer_step_size(float(smallest), float(sizes[0]), curve)


def _remedy_of_finer_step_size(smallest: float, now: float, curve: Curve) -> tuple[Remedy, ...]:
    """A step size that is no larger than `smallest`, and hardly smaller."""
    size = curve.possible.one_between(smallest / 2, smallest)
    return () if size is None else (Remedy("smaller step size", size, now),)


def _mean_errors_of_step_sizes(curve: Curve, chosen: Booleans) -> tuple[Floats, Floats, Floats]:
    """Chosen ones of the step sizes with errors, mean errors, and uncertainties of these."""
    there = np.flatnonzero(np.isfinite(curve.errors).any(axis=1))[chosen]
    tiny = np.finfo(float).tiny
    logs = (np.log(np.maximum(one[there], tiny)) for one in (curve.errors, curve.error_uncertainty))
    return curve.sizes[there], *(np.exp(np.nanmean(one, axis=1)) for one in logs)


def _why_too_few_step_sizes(
    fit: OrderFit, declared: int | None, curve: Curve, error: str
) -> Reason:
    """Why fewer than three step sizes count, and what would give more."""
    total = len(fit.use)
    if not total and curve.complete:
        return _why_complete_runs_lack_errors(curve, error)
    if not total:
        return Reason("step sizes with runs", 0, FEWEST, (), {"runs": curve.left_out})
    counted, numbers = fit.use.count(USED), {"what": curve.limit, "margin": MARGIN}
    if fit.causes.count(UNRESOLVED) == total:
        _, errors, own = _mean_errors_of_step_sizes(curve, np.full(total, True))
        remedies = _remedy_of_larger_step_size(MARGIN * own[-1] / errors[-1], declared, curve)
        return Reason("resolved errors", 0, FEWEST, remedies, numbers | {"total": total})
    if fit.flat is not None and not counted:
        return _why_error_curve_is_flat(fit, fit.flat, declared, curve, numbers)
    words_of_causes = {
        f"within {MARGIN:.0f} times what {curve.limit} can be wrong by": UNRESOLVED,
        f"within {MARGIN:.0f} times where the error stops falling": LEVEL,
        "with an error in few of their runs": MISSING,
    }
    causes = [
        f"{n} {words}"
        for words, cause in words_of_causes.items()
        if (n := fit.count_step_sizes_with(cause))
    ]
    if curve.left_out:
        causes.append(f"{curve.left_out} runs failed, unfinished or without an error")
    what = "difference" if error == SELF else "step size"
    numbers = {
        "counts": f"{what}{' counts' if counted == 1 else 's count'}",
        "causes": f" ({'; '.join(causes)})" if causes else "",
    }
    return Reason("points", counted, FEWEST, _remedy_of_further_step_sizes(fit, curve), numbers)


def _remedy_of_further_step_sizes(fit: OrderFit, curve: Curve) -> tuple[Remedy, ...]:
    """The step sizes that are missing, between those at the floor and those that are too coarse."""
    there = curve.sizes[np.isfinite(curve.errors).any(axis=1)]
    use, counted = np.array(fit.use, dtype=object), fit.use.count(USED)
    missing = FEWEST - counted
    low = np.max(there[use == FLOOR], initial=there[0] / BEYOND ** (missing + 1))
    high = np.min(there[use == PRE_ASYMPTOTIC], initial=there[-1] * BEYOND ** (missing + 1))
    sizes = curve.possible.several_between(float(low), float(high), missing)
    if not sizes:
        return ()
    what = "larger step sizes" if min(sizes) > there[-1] else "more step sizes"
    return (Remedy(what, missing, counted, sizes),)


def _why_complete_runs_lack_errors(curve: Curve, error: str) -> Reason:
    """Why complete runs have no error, and what would give one."""
    one, several = ("counts", "count") if curve.stopped else ("is complete", "are complete")
    runs = f"run {one}" if curve.complete == 1 else f"runs {several}"
    numbers = {"runs": f"{curve.complete} {runs}"}
    if error == SELF:
        finest = float(curve.possible.known[0])
        sizes = curve.possible.several_between(finest / BEYOND**2, finest, 1)
        remedies = (Remedy("more step sizes", 1, 1, sizes),)
        return Reason("neighbouring step sizes", 0, FEWEST, remedies, numbers)
    return Reason(
        "errors of this kind", 0, 1, (Remedy("global error", 1, 0),), numbers | {"error": error}
    )


def _why_error_curve_is_flat(
    fit: OrderFit, flat: Flat, declared: int | None, curve: Curve, numbers: dict[str, Any]
) -> Reason:
    """The reason that the error stops falling, and how far above its uncertainty."""
    total = len(fit.use)
    _, errors, own = _mean_errors_of_step_sizes(curve, np.full(total, True))
    resolved = np.array(fit.causes, dtype=object) != UNRESOLVED
    above = flat.level / own[resolved][0]
    smallest = flat.fine * max(1 / FINER, (MARGIN / above) ** (1 / (declared or 1)))
    remedies: tuple[Remedy, ...] = ()
    if smallest <= flat.fine / 2:
        remedies += _remedy_of_finer_step_size(float(smallest), flat.fine, curve)
    remedies += _remedy_of_larger_step_size(
        MARGIN**2 * flat.level / np.nanmax(errors), declared, curve
    )
    numbers |= {
        "fine": flat.fine,
        "coarse": flat.coarse,
        "above": float(np.log10(above)),
        "near": fit.count_step_sizes_with(LEVEL),
        "total": total,
    }
    return Reason("falls", flat.slope, FLAT, remedies, numbers)


def _remedy_of_larger_step_size(
    factor: float, declared: int | None, curve: Curve
) -> tuple[Remedy, ...]:
    """The larger step size at which errors would be `factor` times those at the largest."""
    now = float(curve.sizes[np.isfinite(curve.errors).any(axis=1)][-1])
    largest = now * max(factor, FINER) ** (1 / (declared or 1))
    size = curve.possible.one_between(max(largest / BEYOND, now * BEYOND**0.5), largest)
    return () if size is None or size > MOST * now else (Remedy("larger step size", size, now),)
