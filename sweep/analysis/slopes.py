"""The slope of an error curve: which of its step sizes count, and how steep it is there.

With errors e of several starts s at step sizes h, the model is

    log e(s, h) = a(s) + c(h),    c(h) = order · log h + constant    where h counts.

A step size does not count near the floor, where the error no longer falls with the step size
(round-off, an iteration's tolerance), nor where the curve has not yet its final slope.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

USED, FLOOR, PRE_ASYMPTOTIC = "used", "floor", "pre-asymptotic"

FEWEST = 3  # points of a fit: two always lie on a line
MARGIN = 100.0  # an error counts when it is this many times what disturbs it: 1 %
FLAT = 0.5  # no method has so low an order: an error that falls slower has met a floor
SHORTEST = np.log(1.2)  # a tail: over less, errors that merely scatter look flat
BEND = 0.05  # slopes that differ by more are not of one power law
OCTAVE = np.log(1.99)  # the finest points, by which others are judged, span a factor of two


@dataclass(frozen=True)
class OrderFit:
    """A power law fitted to an error curve.

    Attributes
    ----------
    order, low, high : float
        Slope of log error over log step size, and its 95 % interval; NaN below three points.
    local : ndarray, shape ``(points - 1,)``
        Slopes between neighbouring points of the fit, finest first.
    worst_residual : float
        Largest relative deviation of an error from the line.
    floor : float
        Errors below it do not count; NaN where the curve shows no floor.
    use : tuple of str
        For each step size as given: ``used``, ``floor`` or ``pre-asymptotic``.
    """

    order: float
    low: float
    high: float
    local: np.ndarray
    worst_residual: float
    floor: float
    use: tuple


def fit_order(step_sizes, errors, resolved=True):
    """Fit the order of convergence to errors at several step sizes.

    Parameters
    ----------
    step_sizes : array_like, shape ``(n,)``
        Distinct and positive, in any order and any ratios.
    errors : array_like, shape ``(n,)`` or ``(n, starts)``
        Errors, >= 0; NaN where there is none.
    resolved : array_like of bool, broadcast to the shape of `errors`
        False for errors too close to the reference's own error or to round-off.

    Returns
    -------
    OrderFit
    """
    step_sizes = np.asarray(step_sizes, dtype=float)
    errors = np.asarray(errors, dtype=float)
    resolved = np.broadcast_to(resolved, errors.shape)
    if errors.ndim == 1:
        errors, resolved = errors[:, None], resolved[:, None]
    order = np.argsort(step_sizes)
    x, errors = np.log(step_sizes[order]), errors[order]
    there = np.isfinite(errors)
    counts = resolved[order] & there & (errors > 0)

    use = np.full(len(x), FLOOR, dtype=object)
    # Where most starts are unresolved, the few that are not would be a biased choice.
    kept = np.flatnonzero(counts.any(axis=1) & (2 * counts.sum(axis=1) >= there.sum(axis=1)))
    curve, residuals = _mean_curve(errors[kept], counts[kept])
    falling, floor = _above_floor(x[kept], curve)
    kept, curve, residuals = kept[falling], curve[falling], residuals[falling]
    use[kept] = PRE_ASYMPTOTIC
    points = slice(0, _asymptotic_points(x[kept], curve))
    use[kept[points]] = USED
    as_given = tuple(use[np.argsort(order)])
    return _fit(x[kept[points]], curve[points], residuals[points], floor, as_given)


def _mean_curve(errors, counts):
    """The common curve c(h) of log errors, and what each start deviates from it; NaN outside.

    A mean over the starts of each step size alone would jump where a start is missing, so c and
    the starts' offsets a are fitted together, each in turn until they settle.
    """
    logs = np.where(counts, np.log(np.where(counts, errors, 1.0)), 0.0)
    per_step = counts.sum(axis=1)
    per_start = np.maximum(counts.sum(axis=0), 1)
    curve = logs.sum(axis=1) / per_step
    for _ in range(1 if counts.all() else 100):
        offset = ((logs - curve[:, None]) * counts).sum(axis=0) / per_start
        curve = ((logs - offset) * counts).sum(axis=1) / per_step
    return curve, np.where(counts, logs - offset - curve[:, None], np.nan)


def _above_floor(x, curve):
    """Which points lie well above the level at which the curve stops falling, and that bound.

    Its tail has stopped falling if it is flat as seen from one of its two finest points, with at
    most one point in between that looks steep: in a tail of noise the finest may be low by
    chance.
    """
    falling = np.ones(len(x), dtype=bool)
    tail = 0
    for j in range(1, len(x)):
        if j > max(tail, 1) + 2:
            break
        finest = slice(0, min(j, 2))
        flat = curve[j] - curve[finest] < FLAT * (x[j] - x[finest])
        if flat.any() and x[j] - x[0] > SHORTEST:
            tail = j
    if tail == 0:
        return falling, np.nan
    bound = np.median(curve[: tail + 1]) + np.log(MARGIN)
    falling[: np.flatnonzero(curve < bound)[-1] + 1] = False
    return falling, float(np.exp(bound))


def _asymptotic_points(x, curve):
    """How many points, counted from the finest, lie on the line through the finest ones."""
    fine = max(FEWEST, np.count_nonzero(x <= x.min(initial=np.inf) + OCTAVE))
    if len(x) <= fine:
        return len(x)
    slope = np.polyfit(x[:fine], curve[:fine], 1)[0]
    secants = (curve[fine:] - curve[:fine].mean()) / (x[fine:] - x[:fine].mean())
    bent = np.abs(secants - slope) > BEND
    return fine + (int(np.argmax(bent)) if bent.any() else len(bent))


def _fit(x, curve, residuals, floor, use):
    """Weighted least squares, and the wider of two Student intervals for the slope.

    One comes from how far the points lie off the line, the other from how far the starts'
    own slopes lie apart: the first does not see what all step sizes share, the second does not
    see what all starts share.
    """
    local = np.diff(curve) / np.diff(x)
    if len(x) < FEWEST:
        return OrderFit(np.nan, np.nan, np.nan, local, np.nan, floor, use)
    weight = _weights(residuals)
    dx = x - np.average(x, weights=weight)
    spread = np.sum(weight * dx**2)
    slope = np.sum(weight * dx * curve) / spread
    off = curve - np.average(curve, weights=weight) - slope * dx
    freedom = len(x) - 2
    of_points = stdtrit(freedom, 0.975) * np.sqrt(np.sum(weight * off**2) / freedom / spread)
    half = max(of_points, _starts_apart(dx, residuals))
    worst = np.expm1(np.abs(off).max())
    return OrderFit(slope, slope - half, slope + half, local, float(worst), floor, use)


def _weights(residuals):
    """Inverse variances of the curve's points, from the scatter of the starts."""
    starts = np.isfinite(residuals).sum(axis=1)
    squares = np.nansum(residuals**2, axis=1)
    variance = squares / np.maximum(starts * (starts - 1), 1)
    # The median keeps a point whose starts agree by chance from deciding alone.
    typical = np.median(variance)
    return 1 / (variance + typical) if typical > 0 else np.ones(len(variance))


def _starts_apart(dx, residuals):
    """Half the 95 % interval of the mean slope, from the starts' slopes about it."""
    there = np.isfinite(residuals)
    residuals = residuals[:, there.sum(axis=0) >= FEWEST]
    starts = residuals.shape[1]
    if starts < 2:
        return 0.0
    dx = np.where(np.isfinite(residuals), dx[:, None], 0.0)
    own = np.nansum(dx * residuals, axis=0) / np.sum(dx**2, axis=0)
    return stdtrit(starts - 1, 0.975) * np.std(own, ddof=1) / np.sqrt(starts)
