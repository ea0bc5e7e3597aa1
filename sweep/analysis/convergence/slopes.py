"""The slope of an error curve, and the range of step sizes that it is fitted to.

With errors e of several starts s at step sizes h, the model is

    log e(s, h) = a(s) + c(h),    c(h) = order · log h + b · h^q + constant    for h in the fit,

where b = 0, or b h^q is the next term of the expansion of the error, with q = 1 or 2. Step sizes
are excluded near the floor, where the error no longer falls with the step size because of round-off
or the tolerance of an iteration; and where they are so large that this expansion does not yet
describe the error. The curve c is estimated robustly, since starts near a singularity are outliers:
their errors have another shape.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from sweep.analysis.runs.blocks import Booleans, Floats

USED, FLOOR, PRE_ASYMPTOTIC = "used", "floor", "pre-asymptotic"

FEWEST = 3  # smallest number of points in a fit, since two always lie on a line
MARGIN = 100.0  # an error is used if its uncertainty is at most 1/MARGIN of it
FLAT = 0.5  # where an error falls with a smaller slope than this, it has reached a floor
SHORTEST = np.log(1.2)  # shortest range of log h in which errors are judged to be flat
LEAST = 0.01  # smallest half-width of an interval: less curvature is not distinguishable
OF_POINTS = 0.995  # quantile for deviations of points from the curve, as stretches are selected
WITH_NEXT_TERM = 5  # smallest number of points for fitting the next term too
WITH_SECOND_TERM = 7  # and for fitting the term after it
SHORT = 4  # number of points of the shortest stretch, if there are as many
NARROWER = 1.5  # a slope is compared with that of stretches which end at so much finer step sizes
SETTLED, CLOSE = 50, 1e-9  # maximum number of iterations of a robust estimate, and its tolerance
SPREAD = 1.4826  # ratio of standard deviation to median absolute deviation, for normal values
BIWEIGHT = 4.685  # deviations larger than so many spreads have no weight; 95 % efficient
LEAST_GIVING = 0.2  # lower bound of the mean slope of the influence, which is 0.8 for normal values
MOST_BENT = 0.35  # largest share of the next term in the error at the coarsest step size
# Values of q: the leading term h^p is followed by h^(p+1), or by h^(p+2) for symmetric methods,
# whose errors are series in h² (Hairer, Lubich and Wanner, theorem II.3.2 and section V.1).
NEXT_TERMS, NEXT_TERMS_OF_SYMMETRIC = (1, 2), (2,)

# How a step size is used, by cause: "used"; no error is above 0, or too few starts have one; floors
# are more than 1/MARGIN of the error; the error is within MARGIN of the value where the curve stops
# falling; the curve bends.
COUNTS, MISSING, UNRESOLVED, LEVEL, BENDS = "counts", "missing", "unresolved", "level", "bends"
USES = {COUNTS: USED, MISSING: FLOOR, UNRESOLVED: FLOOR, LEVEL: FLOOR, BENDS: PRE_ASYMPTOTIC}


@dataclass(frozen=True)
class OrderFit:
    """A power law fitted to an error curve.

    Attributes
    ----------
    order, low, high : float
        Slope of log error over log step size, and its 95 % interval; NaN for fewer than three
        points. If the next term is fitted too, this is the slope in the limit of small step sizes.
    local : ndarray, shape ``(points - 1,)``
        Slopes between neighbouring points of the fit, finest first.
    causes : tuple of str
        For each step size, in the given order, a key of `USES`.
    typical : ndarray, shape ``(n,)``
        For each step size, in the given order, the error of a typical start: the value of the
        fitted curve; or the median error, if the step size is not in the fit.
    """

    order: float
    low: float
    high: float
    local: Floats
    causes: tuple[str, ...]
    typical: Floats

    @property
    def use(self) -> tuple[str, ...]:
        """For each step size, in the given order, ``used``, ``floor`` or ``pre-asymptotic``."""
        return tuple(USES[cause] for cause in self.causes)


def fit_convergence_order(
    step_sizes: ArrayLike, errors: ArrayLike, floors: ArrayLike = 0.0, symmetric: bool | None = None
) -> OrderFit:
    """Fit the order of convergence to errors at several step sizes.

    Parameters
    ----------
    step_sizes : array_like, shape ``(n,)``
        Distinct positive step sizes, in any order and with any ratios.
    errors : array_like, shape ``(n,)`` or ``(n, starts)``
        Errors, >= 0; NaN where an error is missing.
    floors : array_like, broadcast to the shape of `errors`
        Uncertainty of the errors: the error of the reference, or round-off.
    symmetric : bool, optional
        Whether the method is symmetric, so that its error is a series in h². By default, both cases
        are tried.

    Returns
    -------
    OrderFit

    Notes
    -----
    The fit uses a stretch of consecutive step sizes that begins with the finest one above the
    floor. As in Lepski's method, a stretch is admissible if its slope lies within the intervals of
    all shorter ones; otherwise it extends beyond the asymptotic range. Of the admissible stretches,
    the one with the narrowest interval is used.

    The interval is the wider one of two Student intervals: one from the deviations of the points
    from the curve, the other from the differences between the slopes of the starts. The first does
    not contain errors that all step sizes share, the second none that all starts share. Two
    contributions are added: the effect of the floors, and that of terms that are not fitted. The
    latter is estimated from the differences between the slopes with no further term, one and two
    of them, and from the slope of a stretch whose coarsest step size is `NARROWER` times smaller.
    """
    step_sizes = np.asarray(step_sizes, dtype=float)
    errors = np.asarray(errors, dtype=float)
    floors = np.broadcast_to(floors, errors.shape)
    if errors.ndim == 1:
        errors, floors = errors[:, None], floors[:, None]
    order = np.argsort(step_sizes)
    x, errors, floors = np.log(step_sizes[order]), errors[order], floors[order]
    there = ~np.isnan(errors)
    counts = np.isfinite(errors) & (errors > 0)
    share = np.full(len(x), np.inf)  # of the floors in the errors, median over the starts
    for i in np.flatnonzero(counts.any(axis=1)):
        share[i] = np.median(floors[i, counts[i]] / errors[i, counts[i]])

    causes = np.full(len(x), LEVEL, dtype=object)
    # A step size is used with all starts or with none: the resolved ones are a biased sample.
    enough = 2 * counts.sum(axis=1) >= np.maximum(there.sum(axis=1), 1)
    causes[share > 1 / MARGIN] = UNRESOLVED
    causes[~enough] = MISSING
    kept = np.flatnonzero((share <= 1 / MARGIN) & enough)
    curve, residuals = np.empty(0), np.empty((0, errors.shape[1]))
    if len(kept):
        curve, residuals = _pooled_error_curve(errors[kept], counts[kept])
    typical = np.array(
        [np.median(e[t]) if t.any() else np.nan for e, t in zip(errors, there, strict=True)]
    )
    typical[kept] = np.exp(curve)
    falling = _points_above_floor(x[kept], curve)
    points = _Points(x[kept], curve, residuals, share[kept]).select(falling)
    kept = kept[falling]
    powers = NEXT_TERMS_OF_SYMMETRIC if symmetric else NEXT_TERMS
    fit, taken = _line_of_best_stretch(points, powers)
    causes[kept[:taken]] = COUNTS
    causes[kept[taken:]] = BENDS
    back = np.argsort(order)
    return OrderFit(
        order=fit.slope,
        low=fit.slope - fit.half,
        high=fit.slope + fit.half,
        local=np.diff(points.curve[:taken]) / np.diff(points.x[:taken]),
        causes=tuple(causes[back]),
        typical=typical[back],
    )


@dataclass(frozen=True)
class _Points:
    """Points of a curve by log step size, ascending; residuals by start; shares of floors."""

    x: Floats
    curve: Floats
    residuals: Floats
    share: Floats

    def select(self, points: Booleans | slice) -> _Points:
        """A selection of the points."""
        parts = self.x, self.curve, self.residuals, self.share
        return _Points(*(part[points] for part in parts))


@dataclass(frozen=True)
class _Line:
    """A fitted slope, half its interval, the share of the next term, and the starts' scatter."""

    slope: float
    half: float
    next_term: float
    apart: float


NO_LINE = _Line(np.nan, np.nan, 0.0, np.nan)


def _pooled_error_curve(errors: Floats, counts: Booleans) -> tuple[Floats, Floats]:
    """The common curve c(h) of log errors, and the deviations of the starts from it.

    The offsets a(s) of the starts are medians over the step sizes. The curve at each step size is
    Tukey's biweight estimate of location. Thus it is not bent by starts near a singularity, whose
    errors reach the asymptotic range only at much smaller step sizes.

    Parameters
    ----------
    errors, counts : ndarray, shape ``(n, starts)``
        Errors, and which of them are used.

    Returns
    -------
    curve : ndarray, shape ``(n,)``
    residuals : ndarray, shape ``(n, starts)``
        Influence of each start on the curve; NaN where an error is not used. The mean square of the
        residuals divided by their number is the variance of the curve.
    """
    logs = np.where(counts, np.log(np.where(counts, errors, 1.0)), np.nan)
    median = np.median if counts.all() else np.nanmedian
    there = counts.any(axis=0)
    logs, counts = logs[:, there], counts[:, there]
    residuals = np.full(errors.shape, np.nan)
    curve, per_step = median(logs, axis=1), counts.sum(axis=1)
    for _ in range(SETTLED):
        off = logs - curve[:, None]
        off = off - median(off, axis=0)
        spread = SPREAD * median(np.abs(off), axis=1)[:, None]
        # If more than half of the deviations are equal, their mean is as robust.
        outer = np.divide(off, BIWEIGHT * spread, out=np.zeros_like(off), where=spread > 0)
        inner = np.where(counts, np.maximum(1 - outer**2, 0.0), 0.0)
        weight, off = inner**2, np.where(counts, off, 0.0)
        step = (weight * off).sum(axis=1) / weight.sum(axis=1)
        curve = curve + step
        if np.abs(step).max(initial=0.0) < CLOSE:
            break
    # The derivative of x (1 - x²)² is (1 - x²)(1 - 5x²). Its mean scales the influence of a
    # deviation.
    gives = (inner * (5 * inner - 4)).sum(axis=1) / np.maximum(per_step, 1)
    influence = weight * off / np.maximum(gives, LEAST_GIVING)[:, None]
    residuals[:, there] = np.where(counts, influence, np.nan)
    return curve, residuals


def _points_above_floor(x: Floats, curve: Floats) -> Booleans:
    """Which points lie well above the error at which the curve stops falling, if it does.

    The tail of the curve has stopped falling if it is flat as seen from one of its two finest
    points, with at most one steep point in between. Two points are tried, since the finest point of
    a noisy tail may be low by chance.
    """
    falling, tail = np.ones(len(x), dtype=bool), 0
    for j in range(1, len(x)):
        if j > max(tail, 1) + 2:
            break
        finest = slice(0, min(j, 2))
        slopes = (curve[j] - curve[finest]) / (x[j] - x[finest])
        if slopes.min() < FLAT and x[j] - x[0] > SHORTEST:
            tail = j
    if tail > 0:
        level = np.median(curve[: tail + 1])
        falling[: np.flatnonzero(curve < level + np.log(MARGIN))[-1] + 1] = False
    return falling


def _line_of_best_stretch(points: _Points, powers: tuple[int, ...]) -> tuple[_Line, int]:
    """The line with the narrowest interval, and the number of points that it is fitted to.

    See `fit_convergence_order`. If there are too few points, the line is `NO_LINE`, with all
    points.
    """
    count = len(points.x)
    if count < FEWEST:
        return NO_LINE, count
    lines: dict[int, _Line] = {}
    low, high = -np.inf, np.inf
    for n in range(min(SHORT, count), count + 1):
        line = _line_with_narrowest_interval(points.select(slice(n)), powers)
        finer = int(np.sum(points.x <= points.x[n - 1] - np.log(NARROWER)))
        if finer in lines:  # the change of the slope estimates the terms that are not fitted
            bend = max(abs(line.slope - lines[finer].slope) - lines[finer].apart, 0.0)
            line = replace(line, half=line.half + bend)
        if not low <= line.slope <= high:
            break
        low, high = max(low, line.slope - line.half), min(high, line.slope + line.half)
        lines[n] = line
    # Of equally good stretches, the longest.
    taken = min(lines, key=lambda n: (round(lines[n].half, 4), -n))
    return lines[taken], taken


def _line_with_narrowest_interval(points: _Points, powers: tuple[int, ...]) -> _Line:
    """Fit a power law, or one with its next term if that is small and narrows the interval.

    The change of the slope by the next term is added to the interval of a plain power law.
    """
    plain = _fit_weighted_line(points)
    if len(points.x) < SHORT:
        return plain
    bent = [_fit_weighted_line(points, (power,)) for power in powers]
    off = max(abs(line.slope - plain.slope) for line in bent)
    widened = replace(plain, half=plain.half + off)
    if len(points.x) < WITH_NEXT_TERM:
        return widened
    if len(points.x) >= WITH_SECOND_TERM:
        twice = [_fit_weighted_line(points, (power, 2 * power)) for power in powers]
        bent = [
            replace(one, half=one.half + abs(one.slope - two.slope))
            for one, two in zip(bent, twice, strict=True)
        ] + twice
    narrow = min(bent, key=lambda line: line.half)
    apart = max(line.slope for line in bent) - min(line.slope for line in bent)
    narrow = replace(narrow, half=narrow.half + apart / 2)
    if abs(narrow.next_term) > MOST_BENT:
        return widened
    return min(widened, narrow, key=lambda line: line.half)


def _fit_weighted_line(points: _Points, powers: tuple[int, ...] = ()) -> _Line:
    """Fit a line by weighted least squares, with further terms h^power for each of `powers`."""
    weight = _point_weights_from_start_scatter(points.residuals)
    columns = [np.ones(len(points.x)), points.x - np.average(points.x, weights=weight)]
    columns += [np.exp(power * (points.x - points.x[-1])) for power in powers]
    design = np.stack(columns, axis=1)
    q, r = np.linalg.qr(design * np.sqrt(weight)[:, None])
    inverse = np.linalg.inv(r)
    solve = inverse @ q.T * np.sqrt(weight)  # from the curve to the coefficients
    coefficients = solve @ points.curve
    off = points.curve - design @ coefficients
    freedom = len(points.x) - len(columns)
    scatter = np.sqrt(np.sum(weight * off**2) / freedom * (inverse[1] @ inverse[1]))
    of_points = stdtrit(freedom, OF_POINTS) * scatter
    budget = float(np.abs(solve[1]) @ points.share)
    apart = _slope_interval_between_starts(solve[1], points.residuals)
    half = max(of_points, apart, LEAST) + budget
    next_term = float(coefficients[2:].sum()) if powers else 0.0
    return _Line(float(coefficients[1]), float(half), next_term, float(apart))


def _point_weights_from_start_scatter(residuals: Floats) -> Floats:
    """Inverse variances of the points, from the scatter of the starts, normalized to mean 1."""
    starts = np.isfinite(residuals).sum(axis=1)
    squares = np.nansum(residuals**2, axis=1)
    variance = squares / np.maximum(starts * (starts - 1), 1)
    # The median keeps a point whose starts agree by chance from dominating the fit.
    typical = np.median(variance)
    if not typical > 0:
        return np.ones(len(variance))
    return 2 * typical / (variance + typical)


def _slope_interval_between_starts(solve: Floats, residuals: Floats) -> float:
    """Half the 95 % interval of the mean slope, from the scatter of the starts' slopes."""
    there = np.isfinite(residuals)
    residuals = np.nan_to_num(residuals[:, there.sum(axis=0) >= FEWEST])
    starts = residuals.shape[1]
    if starts < 2:
        return 0.0
    own = solve @ residuals
    return stdtrit(starts - 1, 0.975) * np.std(own, ddof=1) / np.sqrt(starts)
