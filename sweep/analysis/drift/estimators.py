"""Estimators of drift: the rate of an ensemble of errors, its steadiness, and their spread.

``sweep guide drift`` gives the sources of the methods.
"""

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
VERDICTS = (LINEAR, UNSTEADY, EACH, WALK, AT_ROUND_OFF, NONE)

FEWEST = 8  # smallest number of sample intervals for measuring a drift
WINDOWS = 16  # largest number of windows that a run is divided into
FEWEST_STARTS = 8  # smallest number of starts for telling a drift from a random walk
SURELY = 0.997  # confidence that a rate differs from 0
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


@dataclass(frozen=True)
class Drift:
    """The drift of an ensemble of errors, or of a single error.

    Attributes
    ----------
    rate : float
        Least-squares slope over the windows, mean over the starts.
    errors : list of (float, int)
        Standard errors of the rate with their degrees of freedom; the widest interval is used.
    halves : tuple of float
        The slopes in the first and in the second half of the run.
    growth : Growth
        Growth of the spread over the starts; NaN with fewer than `FEWEST_STARTS` or no spread.
    """

    rate: float
    errors: list[tuple[float, int]]
    halves: tuple[float, float]
    growth: Growth

    def half_width(self, confidence: float = 0.95) -> float:
        """Half the width of the confidence interval of the rate."""
        return float(
            max(stdtrit(degrees, (1 + confidence) / 2) * error for error, degrees in self.errors)
        )

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`, except `AT_ROUND_OFF`."""
        first, second = self.halves
        moves = abs(self.rate) > self.half_width(SURELY)
        sizes = not np.isnan(self.growth.least)
        if sizes:  # errors without a sign, which have a rate in a random walk too
            moves = self.growth.least > 0.5
        if moves and min(first * self.rate, second * self.rate) > 0:
            return LINEAR if abs(second - first) < STEADY * abs(self.rate) else UNSTEADY
        if self.growth.holds(0.5):
            return NONE if self.growth.holds(0.2) or self.growth.holds(1.0) else WALK
        like_a_line = self.growth.holds(1.0) and not self.growth.holds(1.5)
        return EACH if like_a_line and not sizes else NONE


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


def measure_drift(times: Floats, windows: Floats, signed: bool = True) -> Drift:
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
    Drift
    """
    starts, count = windows.shape
    half, t = count // 2, times - times.mean()
    slopes = np.einsum("sw,w->s", windows, t) / (t @ t)
    rate, mean = slopes.mean(), windows.mean(axis=0)
    rest = mean - mean.mean() - rate * t
    if starts >= FEWEST_STARTS:
        left = rest @ rest
        correlation = np.clip(rest[1:] @ rest[:-1] / left, 0.0, MOST_CORRELATED) if left else 0.0
        widened = (1 + correlation) / (1 - correlation)
        errors = [
            (slopes.std(ddof=1) / np.sqrt(starts), starts - 1),
            (np.sqrt(left / (count - 2) / (t @ t) * widened), count - 2),
        ]
    else:
        rests = rest[None] if signed else windows - slopes[:, None] * t
        steps = np.diff(rests) * (count - 1) / (t[-1] - t[0])
        variance = steps.var(axis=1, ddof=1).mean() / (count - 1)
        errors = [(np.sqrt(OF_WALKS * variance), count - 2)]
    first, second = (_slope(t[part], mean[part]) for part in (slice(half), slice(half, None)))
    return Drift(float(rate), errors, (first, second), growth_of_spread(windows, signed))


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
