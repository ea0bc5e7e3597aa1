"""Estimators of drift: the rate of an ensemble of errors, its steadiness, and their spread.

``sweep guide drift`` gives the sources of the methods.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from sweep.analysis.runs.blocks import Floats, Integers

LINEAR = "linear"
UNSTEADY = "unsteady"
EACH = "linear, each start its own"
WALK = "random walk"
AT_ROUND_OFF = "at round-off"
NONE = "no drift seen"
FAILS = "runs fail"  # most of them; until then no drift is seen
VERDICTS = (LINEAR, UNSTEADY, EACH, WALK, AT_ROUND_OFF, NONE, FAILS)

FEWEST = 8  # smallest number of sample intervals for measuring a drift
WINDOWS = 16  # largest number of windows that a run is divided into
FEWEST_STARTS = 8  # smallest number of starts for telling a drift from a random walk
SURELY = 0.997  # confidence that a rate differs from 0
# Confidence of the intervals of two drifts that are compared. One drift lies outside its interval
# in 2.5 % of pairs, the other one is closer to 0 than its interval in 1.25 %: together at most
# 3.75 %.
OF_EACH = 0.975
STEADY = 0.4  # in a steady drift, the slopes of both halves differ by less than this share of it
RESAMPLES = 1000  # number of bootstrap resamples for the interval of an exponent
MOST_STARTS = 4096  # maximum number of starts for the bootstrap; chosen evenly if there are more
FEW_ROUNDINGS = 16.0  # an error of at most so many roundings is at round-off
MOST_CORRELATED = 0.9  # upper limit of the lag-1 autocorrelation of residuals
# For random walks: variance of the least-squares slope relative to that of the slope between both
# ends; and variance of the increments relative to that of increments of window means (Working
# 1960).
OF_WALKS = 6 / 5 * 3 / 2


@dataclass(frozen=True)
class Growth:
    """Exponent p of a spread over the starts that grows like tᵖ, and its 95 % interval.

    For errors without a sign, p is larger than `least` with a confidence of 99.7 %; for errors with
    a sign, `least` is NaN.
    """

    p: float = np.nan
    low: float = np.nan
    high: float = np.nan
    least: float = np.nan

    def holds(self, exponent: float) -> bool:
        """Whether an exponent lies in the interval, rounded as it is printed."""
        return round(self.low, 2) <= exponent <= round(self.high, 2)


@dataclass(frozen=True, kw_only=True)
class DriftRate:
    """The rate of a drift, the growth of the spread over the starts, and the verdict.

    Attributes
    ----------
    drift, low, high : float
        Slope of the signed error over time, mean over the starts, and its 95 % interval; NaN if
        there are too few samples.
    wide_low, wide_high : float
        Its 97.5 % interval, which is used to compare two drifts.
    exponent, exponent_low, exponent_high : float
        Exponent p of the spread over the starts, which grows like tᵖ, and its 95 % interval; NaN
        with fewer than 8 starts. If errors have no sign, p is that of their root mean square.
    signed : bool
        Whether errors have a sign. Errors of vectors are norms of the change, and errors of
        constraints are absolute values: these have a rate even in a random walk.
    verdict : str
        One of `VERDICTS`, or empty if no drift was measured.
    """

    drift: float = np.nan
    low: float = np.nan
    high: float = np.nan
    wide_low: float = np.nan
    wide_high: float = np.nan
    exponent: float = np.nan
    exponent_low: float = np.nan
    exponent_high: float = np.nan
    signed: bool = True
    verdict: str = ""

    @property
    def bound(self) -> float:
        """The largest |drift| inside the 95 % interval."""
        return max(abs(self.low), abs(self.high))

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval."""
        return (self.high - self.low) / 2


def window_weights(ends: Floats) -> Floats:
    """Weights of sample intervals in equal windows: the share of each window that they fill.

    Parameters
    ----------
    ends : ndarray, shape ``(intervals + 1,)``
        Start of the first interval, and ends of all intervals. Their lengths may differ.

    Returns
    -------
    ndarray, shape ``(intervals, windows)``
        The number of windows is a multiple of four if there are enough intervals for a drift.
    """
    intervals = len(ends) - 1
    count = 4 * min(WINDOWS // 4, intervals // 4) if intervals >= FEWEST else intervals
    edges = np.linspace(ends[0], ends[-1], count + 1)
    shared = np.minimum(ends[1:, None], edges[1:]) - np.maximum(ends[:-1, None], edges[:-1])
    return np.maximum(shared, 0.0) / np.diff(edges)


def measure_drift(times: Floats, windows: Floats, signed: bool = True) -> DriftRate:
    """Measure the drift of errors.

    The mean of errors without a sign grows even in a random walk, like √t. Such errors drift if
    they grow faster; with few starts, if they grow by more than the random walk of a single start
    may.

    Parameters
    ----------
    times : ndarray, shape ``(windows,)``
        Means of the time over equal windows; see `window_weights`.
    windows : ndarray, shape ``(starts, windows)``
        Means of the error over the windows.
    signed : bool, optional
        Whether errors have a sign, unlike norms and absolute values.

    Returns
    -------
    DriftRate
        Its rate is the least-squares slope over the windows, mean over the starts. Its verdict is
        one of `VERDICTS`, except `AT_ROUND_OFF` and `FAILS`.
    """
    starts, count = windows.shape
    half, t = count // 2, times - times.mean()
    slopes = np.einsum("sw,w->s", windows, t) / (t @ t)
    rate, mean = float(slopes.mean()), windows.mean(axis=0)
    rest = mean - mean.mean() - rate * t
    if starts >= FEWEST_STARTS:
        left = rest @ rest
        correlation = np.clip(rest[1:] @ rest[:-1] / left, 0.0, MOST_CORRELATED) if left else 0.0
        widened = (1 + correlation) / (1 - correlation)
        errors = [  # standard errors of the rate with their degrees of freedom
            (slopes.std(ddof=1) / np.sqrt(starts), starts - 1),
            (np.sqrt(left / (count - 2) / (t @ t) * widened), count - 2),
        ]
    else:
        rests = rest[None] if signed else windows - slopes[:, None] * t
        steps = np.diff(rests) * (count - 1) / (t[-1] - t[0])
        variance = steps.var(axis=1, ddof=1).mean() / (count - 1)
        errors = [(np.sqrt(OF_WALKS * variance), count - 2)]
    halves = [_slope(t[part], mean[part]) for part in (slice(half), slice(half, None))]
    growth = growth_of_spread(windows, signed)
    width, wide, sure = (  # half the widest interval of each confidence
        float(max(stdtrit(degrees, (1 + confidence) / 2) * error for error, degrees in errors))
        for confidence in (0.95, OF_EACH, SURELY)
    )
    return DriftRate(
        drift=rate,
        low=rate - width,
        high=rate + width,
        wide_low=rate - wide,
        wide_high=rate + wide,
        exponent=growth.p,
        exponent_low=growth.low,
        exponent_high=growth.high,
        signed=signed,
        verdict=_verdict_on_drift(rate, abs(rate) > sure, halves, growth),
    )


def _verdict_on_drift(rate: float, moves: bool, halves: Sequence[float], growth: Growth) -> str:
    """The verdict on a rate that surely is not 0, or may be, and is steady if both halves agree."""
    first, second = halves
    sizes = not np.isnan(growth.least)
    if sizes:  # errors without a sign, which have a rate in a random walk too
        moves = growth.least > 0.5
    if moves and min(first * rate, second * rate) > 0:
        return LINEAR if abs(second - first) < STEADY * abs(rate) else UNSTEADY
    if growth.holds(0.5):
        return NONE if growth.holds(0.2) or growth.holds(1.0) else WALK
    like_a_line = growth.holds(1.0) and not growth.holds(1.5)
    return EACH if like_a_line and not sizes else NONE


def _slope(times: Floats, values: Floats) -> float:
    """Least-squares slope; NaN if all times are equal, as within one sample interval."""
    t = times - times.mean()
    return float(values @ t / (t @ t)) if t.any() else np.nan


def growth_of_spread(windows: Floats, signed: bool = True) -> Growth:
    """Growth of the spread over the starts, from the mean square change since the first window.

    The second half of the run is compared with its second quarter, which is about half as far from
    the first window. The interval is the percentile interval of a bootstrap over the starts. For
    errors without a sign, the growth is that of their mean square since t = 0.

    Parameters
    ----------
    windows : ndarray, shape ``(starts, windows)``
        Means of the error over equal windows.
    signed : bool, optional
        Whether errors have a sign.

    Returns
    -------
    Growth
    """
    starts, count = windows.shape
    if starts < FEWEST_STARTS:
        return Growth()
    chosen = np.linspace(0, starts - 1, min(starts, MOST_STARTS)).astype(int)
    change = windows[chosen] - windows[chosen, :1]
    square = (change - change.mean(axis=0) if signed else windows[chosen]) ** 2
    early, late = slice(count // 4, count // 2), slice(count // 2, count)
    before, after = square[:, early].mean(axis=1), square[:, late].mean(axis=1)
    if not before.any() or not after.any():
        return Growth()
    # Squared distances of the windows from the first one, or from t = 0.
    distances = (np.arange(count) + (0.0 if signed else 0.5)) ** 2
    farther = np.log(distances[late].mean() / distances[early].mean())

    def exponent(some: Integers) -> Floats:
        return np.asarray(np.log(after[some].sum(axis=-1) / before[some].sum(axis=-1)) / farther)

    resampled = np.random.default_rng(0).integers(0, len(chosen), (RESAMPLES, len(chosen)))
    with np.errstate(divide="ignore", invalid="ignore"):  # if few starts move
        low, high = np.percentile(exponent(resampled), [2.5, 97.5])
    p = float(exponent(np.arange(len(chosen))))
    surely, likely = stdtrit([len(chosen) - 1, np.inf], [(1 + SURELY) / 2, 0.975])
    least = np.nan if signed else p - (p - float(low)) * surely / likely
    return Growth(p, float(low), float(high), least)
