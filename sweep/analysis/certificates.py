"""What a measured order says of the declared one."""

import numpy as np

from sweep.analysis.curves import SELF
from sweep.analysis.slopes import FEWEST, FLOOR, PRE_ASYMPTOTIC

CONFIRMED, REFUTED, UNDECIDED = "confirmed", "refuted", "undecided"

TOLERANCE = 0.1  # an interval this close to a whole order is that order
CLOSING = 0.25  # gap to the declared order below which one that closes at all is said to do so
WIDEST = 0.5  # half an interval: with more, the next whole order is inside too
LOST = 1e-10  # what N steps of order p leave of an error, about N^-p: with more, round-off is exact
MOVING = 1e-6  # an error that shows that the motion is not trivial


def verdict_on(fit, declared, curve, error, moving):
    """The verdict on the declared order, and its reason.

    Parameters
    ----------
    fit : OrderFit
    declared : int or None
    curve : Curve
        That was fitted.
    error : str
        What the curve is of.
    moving : bool
        Whether some error of the experiment shows a motion.

    Returns
    -------
    verdict, reason : str
    """
    if not np.isfinite(fit.order):
        exact = _exact_steps(fit, declared, curve) if moving and declared else None
        if exact is not None:
            return CONFIRMED, f"exact to round-off, even in {exact} steps over t = {curve.time:g}"
        return UNDECIDED, _too_few(fit, curve, error)
    if declared is None:
        return UNDECIDED, "the store names no declared order"
    if _is_order(fit, declared):
        early = curve.time < curve.last_time and curve.referred
        return CONFIRMED, f"the reference holds until t = {curve.time:g}" if early else ""
    other = round(fit.order)
    if other > 0 and _is_order(fit, other):
        return REFUTED, f"the error falls as h^{fit.order:.2f}, not h^{declared} ({_slopes(fit)})"
    return UNDECIDED, _why_open(fit, declared, curve)


def _is_order(fit, order):
    """Whether the whole interval is within `TOLERANCE` of an order."""
    return order - TOLERANCE <= fit.low and fit.high <= order + TOLERANCE


def _exact_steps(fit, declared, curve):
    """In how few steps of a run the error is at round-off, if that shows no order; else None."""
    there = np.isfinite(curve.errors).any(axis=1)
    at_floor = curve.errors[there] < curve.floors[there]
    if not there.any() or fit.use.count(FLOOR) < len(fit.use) or not at_floor[-1].all():
        return None
    steps = curve.steps[there][-1]
    return int(steps) if steps**-declared >= LOST else None


def _slopes(fit):
    return f"local slopes {', '.join(f'{slope:.2f}' for slope in fit.local[::-1])}"


def _why_open(fit, declared, curve):
    """Why a measured order is none, and what to add to the study."""
    half = (fit.high - fit.low) / 2
    starts = "starts, " if curve.errors.shape[1] < 64 else ""
    if half > TOLERANCE:
        return (
            f"the interval of ±{half:.3g} is wider than ±{TOLERANCE} ({_slopes(fit)}): add {starts}"
            "more step sizes in between, or an earlier end"
        )
    if fit.low <= declared <= fit.high:
        return (
            f"{fit.order:.2f} ± {half:.2f} reaches beyond {declared} ± {TOLERANCE} "
            f"({_slopes(fit)}): add {starts}more step sizes in between"
        )
    if _still_closing(np.abs(fit.local - declared)):
        return f"still approaching the declared order ({_slopes(fit)}): add smaller step sizes"
    return (
        f"{fit.order:.2f} is not near a whole order, so that the error is not asymptotic yet "
        f"({_slopes(fit)}): add smaller step sizes, or an earlier end"
    )


def _still_closing(gaps):
    """Whether local slopes, finest first, approach the declared order."""
    return gaps[0] < gaps[-1] and (gaps[0] < CLOSING or gaps[0] < 0.7 * gaps[-1])


def _too_few(fit, curve, error):
    """Why fewer than three step sizes count, and what to add to the study."""
    total, floor, early = len(fit.use), fit.use.count(FLOOR), fit.use.count(PRE_ASYMPTOTIC)
    if np.isfinite(curve.errors).any() and not np.isfinite(curve.floors).any():
        return (
            "the reference failed, so that its own error is not known: give it an earlier 'until', "
            "or record the state, for `--error self`"
        )
    if total and floor == total:
        if np.isfinite(fit.floor):
            return "the error does not fall with the step size: all are in round-off, or too large"
        return "all are in round-off: add larger step sizes, or a longer duration"
    causes = {
        "at the floor of round-off or of the reference": floor,
        "not yet asymptotic": early,
        "runs failed, unfinished or without an error": curve.left_out,
    }
    causes = "; ".join(f"{count} {cause}" for cause, count in causes.items() if count)
    left = total - floor - early
    if not total:
        return (
            f"no step size has a complete run, of {curve.left_out}: `sweep status` says which are "
            "to be computed and which failed; where they failed, add smaller step sizes"
        )
    what = "difference" if error == SELF else "step size"
    text = f"{left} {what}{' counts' if left == 1 else 's count'}, {FEWEST} are needed"
    return f"{text}{causes and f' ({causes})'}: add {'larger ' if floor else ''}step sizes"
