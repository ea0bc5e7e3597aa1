"""The slope of an error curve: which of its step sizes count, and how steep it is there.

With errors e of several starts s at step sizes h, the model is

    log e(s, h) = a(s) + c(h),    c(h) = order · log h + b · h^q + constant    where h counts,

with b = 0, or the next term of the error's expansion, q = 1 or 2. A step size does not count near
the floor, where the error no longer falls with the step size (round-off, an iteration's
tolerance), nor where so short an expansion does not describe it yet. The curve c is estimated
robustly: starts near a singularity have errors of another shape, and are outliers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from sweep.analysis.runs.blocks import Booleans, Floats

USED, FLOOR, PRE_ASYMPTOTIC = "used", "floor", "pre-asymptotic"

FEWEST = 3  # points of a fit: two always lie on a line
MARGIN = 100.0  # an error counts when it is this many times what disturbs it: 1 %
FLAT = 0.5  # no method has so low an order: an error that falls slower has met a floor
SHORTEST = np.log(1.2)  # a tail: over less, errors that merely scatter look flat
LEAST = 0.01  # half an interval: what bends less is not told from a power law
OF_POINTS = 0.995  # the quantile for points that lie off the curve, of stretches that are chosen
WITH_NEXT_TERM = 5  # points from which on the next term is fitted too
WITH_SECOND_TERM = 7  # and the one behind it
SHORT = 4  # points of the shortest stretch, where there are so many
NARROWER = 1.5  # times smaller is the coarsest step size of a stretch that a slope is held against
SETTLED, CLOSE = 50, 1e-9  # iterations at most of a robust estimate, and the last one's change
SPREAD = 1.4826  # times the median deviation: the standard deviation of normal values
BIWEIGHT = 4.685  # times the spread: what lies further off has no weight; 95 % efficient
LEAST_GIVING = 0.2  # of the mean slope of its influence, which is 0.8 of normal values
MOST_BENT = 0.35  # of the error at the coarsest step size: the next term's share
# q: what follows the leading term h^p is h^(p+1), and h^(p+2) of symmetric methods, whose errors
# are series in h² (Hairer, Lubich and Wanner, theorem II.3.2 and section V.1).
NEXT_TERMS, NEXT_TERMS_OF_SYMMETRIC = (1, 2), (2,)

# Whether a step size counts, or why not: no error is above 0, or of too few starts; floors are more
# than 1/MARGIN of it; it is within MARGIN of where the curve stops falling; it bends.
COUNTS, MISSING, UNRESOLVED, LEVEL, BENDS = "counts", "missing", "unresolved", "level", "bends"
USES = {COUNTS: USED, MISSING: FLOOR, UNRESOLVED: FLOOR, LEVEL: FLOOR, BENDS: PRE_ASYMPTOTIC}


@dataclass(frozen=True)
class OrderFit:
    """A power law fitted to an error curve.

    Attributes
    ----------
    order, low, high : float
        Slope of log error over log step size, in the limit where the next term is fitted too,
        and its 95 % interval; NaN below three points.
    local : ndarray, shape ``(points - 1,)``
        Slopes between neighbouring points of the fit, finest first.
    causes : tuple of str
        For each step size as given a key of `USES`.
    typical : ndarray, shape ``(n,)``
        The error of each step size as given, of a typical start: on the curve that is fitted, or
        the median where that does not count.
    """

    order: float
    low: float
    high: float
    local: Floats
    causes: tuple[str, ...]
    typical: Floats

    @property
    def use(self) -> tuple[str, ...]:
        """For each step size as given: ``used``, ``floor`` or ``pre-asymptotic``."""
        return tuple(USES[cause] for cause in self.causes)


def fit_convergence_order(
    step_sizes: ArrayLike, errors: ArrayLike, floors: ArrayLike = 0.0, symmetric: bool | None = None
) -> OrderFit:
    """Fit the order of convergence to errors at several step sizes.

    Parameters
    ----------
    step_sizes : array_like, shape ``(n,)``
        Distinct and positive, in any order and any ratios.
    errors : array_like, shape ``(n,)`` or ``(n, starts)``
        Errors, >= 0; NaN where there is none.
    floors : array_like, broadcast to the shape of `errors`
        Uncertainty of the errors: the error of the reference, or round-off.
    symmetric : bool, optional
        Whether the method is symmetric, so that its error is a series in h²; both kinds are tried
        by default.

    Returns
    -------
    OrderFit

    Notes
    -----
    Of the stretches of step sizes that begin with the finest one above the floor, the one with the
    narrowest interval is taken, among those whose slope lies within the intervals of all shorter
    ones, as in Lepski's method: a longer one that leaves them is not asymptotic.

    The interval is the wider of two of Student's: one from how far the points lie off the curve,
    the other from how far the starts' own slopes lie apart; the first does not see what all step
    sizes share, the second does not see what all starts share. What the floors may bend is added,
    and what terms may that are not fitted: by how far the slopes lie apart with the next term,
    with two, and without, and of a stretch whose coarsest step size is `NARROWER` times smaller.
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
    share = np.full(len(x), np.inf)  # of floors in the errors, the median of the starts
    for i in np.flatnonzero(counts.any(axis=1)):
        share[i] = np.median(floors[i, counts[i]] / errors[i, counts[i]])

    causes = np.full(len(x), LEVEL, dtype=object)
    # All starts of a step size or none: those that happen to be resolved are a biased choice.
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
    """Points of a curve by ascending log step size, residuals by start, and shares of floors."""

    x: Floats
    curve: Floats
    residuals: Floats
    share: Floats

    def select(self, points: Booleans | slice) -> _Points:
        """Some of the points."""
        parts = self.x, self.curve, self.residuals, self.share
        return _Points(*(part[points] for part in parts))


@dataclass(frozen=True)
class _Line:
    """A fitted slope with half its interval, the share of its next term, and starts' scatter."""

    slope: float
    half: float
    next_term: float
    apart: float


NO_LINE = _Line(np.nan, np.nan, 0.0, np.nan)


def _pooled_error_curve(errors: Floats, counts: Booleans) -> tuple[Floats, Floats]:
    """The common curve c(h) of log errors, and what each start deviates from it.

    Offsets a(s) of the starts are medians over the step sizes. The curve is at each step size an
    estimate of location by Tukey's biweight, so that starts near a singularity, whose errors fall
    as those of others do at far smaller step sizes only, do not bend it.

    Parameters
    ----------
    errors, counts : ndarray, shape ``(n, starts)``
        Errors, and which of them count.

    Returns
    -------
    curve : ndarray, shape ``(n,)``
    residuals : ndarray, shape ``(n, starts)``
        Influence of each start on the curve: their mean square over their number is the variance
        of the curve, as that of deviations is of a mean. NaN where none counts.
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
        # Where more than half of them are equal, their mean is as robust.
        outer = np.divide(off, BIWEIGHT * spread, out=np.zeros_like(off), where=spread > 0)
        inner = np.where(counts, np.maximum(1 - outer**2, 0.0), 0.0)
        weight, off = inner**2, np.where(counts, off, 0.0)
        step = (weight * off).sum(axis=1) / weight.sum(axis=1)
        curve = curve + step
        if np.abs(step).max(initial=0.0) < CLOSE:
            break
    # The derivative of x (1 - x²)² is (1 - x²)(1 - 5x²); its mean is how the estimate gives way.
    gives = (inner * (5 * inner - 4)).sum(axis=1) / np.maximum(per_step, 1)
    influence = weight * off / np.maximum(gives, LEAST_GIVING)[:, None]
    residuals[:, there] = np.where(counts, influence, np.nan)
    return curve, residuals


def _points_above_floor(x: Floats, curve: Floats) -> Booleans:
    """Which points lie well above the error at which the curve stops falling, if it does.

    Its tail has stopped falling if it is flat as seen from one of its two finest points, with at
    most one point in between that looks steep: in a tail of noise the finest may be low by
    chance.
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
    """The slope with the narrowest interval, and of how many of the finest points.

    See `fit_convergence_order`. `NO_LINE`, of all points, where these are too few.
    """
    count = len(points.x)
    if count < FEWEST:
        return NO_LINE, count
    lines: dict[int, _Line] = {}
    low, high = -np.inf, np.inf
    for n in range(min(SHORT, count), count + 1):
        line = _line_with_narrowest_interval(points.select(slice(n)), powers)
        finer = int(np.sum(points.x <= points.x[n - 1] - np.log(NARROWER)))
        if finer in lines:  # what terms that are not fitted bend shows in how the slope goes on
            bend = max(abs(line.slope - lines[finer].slope) - lines[finer].apart, 0.0)
            line = replace(line, half=line.half + bend)
        if not low <= line.slope <= high:
            break
        low, high = max(low, line.slope - line.half), min(high, line.slope + line.half)
        lines[n] = line
    # Of those that are as good the longest.
    taken = min(lines, key=lambda n: (round(lines[n].half, 4), -n))
    return lines[taken], taken


def _line_with_narrowest_interval(points: _Points, powers: tuple[int, ...]) -> _Line:
    """A power law, or one with its next term where that is small and narrows the interval.

    What the next term would change is part of the interval of a plain power law.
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
    """Weighted least squares, with next terms h^power, the first of which is `next_term`."""
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
    """Inverse variances of the curve's points, from the scatter of the starts; of mean 1."""
    starts = np.isfinite(residuals).sum(axis=1)
    squares = np.nansum(residuals**2, axis=1)
    variance = squares / np.maximum(starts * (starts - 1), 1)
    # The median keeps a point whose starts agree by chance from deciding alone.
    typical = np.median(variance)
    if not typical > 0:
        return np.ones(len(variance))
    return 2 * typical / (variance + typical)


def _slope_interval_between_starts(solve: Floats, residuals: Floats) -> float:
    """Half the 95 % interval of the mean slope, from the starts' slopes about it."""
    there = np.isfinite(residuals)
    residuals = np.nan_to_num(residuals[:, there.sum(axis=0) >= FEWEST])
    starts = residuals.shape[1]
    if starts < 2:
        return 0.0
    own = solve @ residuals
    return stdtrit(starts - 1, 0.975) * np.std(own, ddof=1) / np.sqrt(starts)
