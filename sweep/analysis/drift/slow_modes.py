"""Slow modes of series of errors: trend, lowest cosine modes, and bends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct
from scipy.special import stdtrit

from sweep.analysis.drift.spectra import Likeness, likeness_of_starts
from sweep.analysis.runs.blocks import Booleans, Floats, Integers

WINDOWS = 64  # at most; their means are what a drift is fitted to
MODES = 6  # cosines behind constant and trend that a slope's interval rests on …
FEW_MODES = 3  # … or so many, where they are larger: of an oscillation of few cycles, or a memory
FEWEST = MODES + 2  # windows: constant and trend take two
MOST_MODES = 16  # that are kept
GROUPS = 256  # of starts, for the jackknife of a large ensemble
MOST_STARTS = 16384  # that a likeness looks at; of more, so many spread evenly over them
LATE = 16  # changes over the last decade of a run that its samples do not divide into windows
DECADE = 10.0  # of time, the last one
ROUNDING = 1e-14  # of a series' size: what is left of an exact line is no signal
EXACT = 16 * 2.0**-52  # beside the largest value: what summation alone makes of a constant

Slope = tuple[float, float, float]  # of an error over time, with both ends of its interval
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class SlowModes:
    """Trend and slow modes of the series of each start, scaled to be equal for white noise.

    Attributes
    ----------
    times : ndarray, shape ``(windows,)``
        Middles of the windows.
    trend : ndarray, shape ``(starts,)``
        Least-squares slope times `trend_scale`.
    modes : ndarray, shape ``(starts, modes)``
        Cosine modes k = 2, 3, … of the residuals of the trend.
    bends : ndarray, shape ``(starts, 2)``
        Mean over the middle third of the run less that over the first, and last less middle.
    mean : ndarray, shape ``(windows,)``
        Mean of the windows over the starts.
    squares : ndarray, shape ``(groups, windows)``
        Sums of their squares over groups of starts, each start's in units of its mean square.
    members : ndarray of int, shape ``(groups,)``
        Starts in each group.
    """

    times: Floats
    trend: Floats
    modes: Floats
    bends: Floats
    mean: Floats
    squares: Floats
    members: Integers

    @property
    def starts(self) -> int:
        """Number of starts."""
        return len(self.trend)

    @property
    def trend_scale(self) -> float:
        """√Σ(t − t̄)² over the windows, the ratio of trend to slope."""
        return trend_scale_of_times(self.times)

    @property
    def third_contrasts(self) -> Floats:
        """Contrasts of the windows that are the `bends`, shape ``(2, windows)``."""
        return contrasts_between_run_thirds(len(self.times))

    @property
    def norm_per_start(self) -> Floats:
        """Root sum of squares of each start's trend and modes."""
        return np.sqrt(self.trend**2 + np.sum(self.modes**2, axis=1))

    @property
    def modes_above_rounding(self) -> Floats:
        """The modes, set to 0 where they are rounding of the windows, as those of exact lines."""
        return np.where(
            np.abs(self.modes) > ROUNDING * self.norm_per_start[:, None], self.modes, 0.0
        )

    @cached_property
    def likeness(self) -> Likeness:
        """How alike the starts are, by their modes without the trend.

        What they have in common may be in the slowest modes alone.
        """
        modes = evenly_spread_starts(self.modes_above_rounding)
        both = likeness_of_starts(modes), likeness_of_starts(modes[:, :MODES])
        return min(both, key=lambda one: one.effective)

    @property
    def rate_error_if_walking(self) -> float:
        """Standard error of the slope of the mean over the starts, if this is a random walk."""
        modes = self.slow_modes_of_mean().modes[0, :MODES]
        return float(
            np.sqrt(np.mean((np.arange(2, 2 + len(modes)) * modes) ** 2)) / self.trend_scale
        )

    def slow_modes_of_mean(self) -> SlowModes:
        """Slow modes of the mean over the starts, as of one start."""
        return slow_modes_of_series(self.times, self.mean[None])

    def slow_modes_of_mean_ranks(self) -> SlowModes:
        """Slow modes of the ranks of the mean; a trend in ranks is a rise or fall of any shape."""
        ranks = np.argsort(np.argsort(self.mean)).astype(float)
        return slow_modes_of_series(self.times, ranks[None])


def evenly_spread_starts(starts: NDArray[Number]) -> NDArray[Number]:
    """At most `MOST_STARTS` rows of an array, evenly spread."""
    if len(starts) <= MOST_STARTS:
        return starts
    return starts[np.linspace(0, len(starts) - 1, MOST_STARTS).astype(int)]


def changes_in_last_decade(times: Floats, values: Floats) -> Floats:
    """Changes of detrended series between a few times of the last decade.

    Those of independent random walks are independent; they give the likeness of starts whose
    samples thin out.

    Parameters
    ----------
    times : ndarray, shape ``(n,)``
        Since the start of the run.
    values : ndarray, shape ``(starts, n)``

    Returns
    -------
    ndarray, shape ``(starts, at most LATE)``
    """
    late = is_in_last_decade(times)
    times, values = times[late], values[:, late]
    if len(times) < 3:
        return np.zeros((len(values), 0))
    centred = times - times.mean()
    values = values - values.mean(axis=1, keepdims=True)
    rest = values - np.outer(row_sums(values, centred) / np.sum(centred**2), centred)
    rest = np.where(np.abs(rest) > ROUNDING * np.abs(values).max(axis=1, keepdims=True), rest, 0.0)
    wanted = np.geomspace(times[0], times[-1], min(LATE + 1, len(times)))
    return np.diff(rest[:, np.unique(np.searchsorted(times, wanted * (1 - 1e-9)))], axis=1)


def likeness_by_late_changes(changes: Floats) -> Likeness:
    """How alike starts are, by their `changes_in_last_decade`."""
    return likeness_of_starts(evenly_spread_starts(changes))


def walk_rate_error_by_late_changes(times: Floats, changes: Floats) -> float:
    """Standard error of the rate of the mean over the starts, if it walks as in the last decade."""
    span = times[-1] - times[0]
    if not changes.size or not span > 0:
        return 0.0
    late = times[is_in_last_decade(times)]
    walk = np.sum(changes.mean(axis=0) ** 2) / (late[-1] - late[0])  # of variance, in unit time
    return float(np.sqrt(walk / span))


def is_in_last_decade(times: Floats) -> Booleans:
    """Mask of the times in the last decade."""
    return times >= times[-1] / DECADE * (1 - 1e-9)


def trend_scale_of_times(times: Floats) -> float:
    """√Σ(t − t̄)²."""
    centred = times - times.mean()
    return float(np.sqrt(centred @ centred))


def contrasts_between_run_thirds(count: int) -> Floats:
    """Contrasts between means over neighbouring thirds of the windows, shape ``(2, count)``."""
    width = count // 3 - (count - count // 3) % 2
    means = np.zeros((3, count))
    for i, first in enumerate((0, (count - width) // 2, count - width)):
        means[i, first : first + width] = 1 / width
    return np.diff(means, axis=0)


def slow_modes_of_series(times: Floats, windows: Floats) -> SlowModes:
    """Compute the slow modes of series.

    Parameters
    ----------
    times : ndarray, shape ``(windows,)``
        Evenly spaced; at least three.
    windows : ndarray, shape ``(starts, windows)``

    Returns
    -------
    SlowModes
        All exactly zero for a series that is constant up to rounding.
    """
    count = windows.shape[1]
    centre = windows.mean(axis=1, keepdims=True)
    centred = windows - centre
    largest = np.abs(centred).max(axis=1, keepdims=True)
    centred = np.where(largest > EXACT * np.abs(centre), centred, 0.0)
    axis = (times - times.mean()) / trend_scale_of_times(times)
    trend = row_sums(centred, axis)
    rest = centred - trend[:, None] * axis
    modes = dct(rest, norm="ortho", axis=1)[:, 2 : 2 + MOST_MODES]
    squares, members = sums_of_squares_by_group(windows)
    bends = np.stack(
        [row_sums(centred, own) for own in contrasts_between_run_thirds(count)], axis=1
    )
    return SlowModes(times, trend, modes, bends, windows.mean(axis=0), squares, members)


def row_sums(values: Floats, weights: Floats) -> Floats:
    """Weighted sum of each row; unlike BLAS's the same bits however many threads there are.

    Parameters
    ----------
    values : ndarray, shape ``(n, m)``
    weights : ndarray, shape ``(m,)``

    Returns
    -------
    ndarray, shape ``(n,)``
    """
    return np.einsum("nm,m->n", values, weights)


def sums_of_squares_by_group(values: Floats, own_scale: bool = True) -> tuple[Floats, Integers]:
    """Sums of squares over groups of starts, and how many starts are in each group.

    With `own_scale` each start's squares are in units of their mean; what is zero is left out.
    """
    squares = values**2
    if own_scale:
        scale = squares.mean(axis=1, keepdims=True)
        squares = squares[scale[:, 0] > 0] / scale[scale[:, 0] > 0]
    groups = min(len(squares), GROUPS)
    place = np.arange(len(squares)) % max(groups, 1)
    sums = np.zeros((groups, values.shape[1]))
    np.add.at(sums, place, squares)
    return sums, np.bincount(place, minlength=groups)


def join_slow_modes(parts: Sequence[SlowModes]) -> SlowModes:
    """Join the slow modes of the starts of several blocks."""
    if len(parts) == 1:
        return parts[0]
    squares, members = add_group_sums([(one.squares, one.members) for one in parts])
    return SlowModes(
        times=parts[0].times,
        trend=np.concatenate([one.trend for one in parts]),
        modes=np.concatenate([one.modes for one in parts]),
        bends=np.concatenate([one.bends for one in parts]),
        mean=np.average([one.mean for one in parts], axis=0, weights=[o.starts for o in parts]),
        squares=squares,
        members=members,
    )


def add_group_sums(sums: Sequence[tuple[Floats, Integers]]) -> tuple[Floats, Integers]:
    """Add the sums of `sums_of_squares_by_group` of several blocks, group by group."""
    groups = max(len(members) for _, members in sums)
    squares = [np.pad(square, ((0, groups - len(square)), (0, 0))) for square, _ in sums]
    members = [np.pad(members, (0, groups - len(members))) for _, members in sums]
    return np.sum(squares, axis=0), np.sum(members, axis=0)


def drift_slope_interval(parts: SlowModes, probability: float = 0.95) -> Slope:
    """The slope, mean over the starts, and its 95 % interval; see `drifts.fit_drift_slope`.

    Parameters
    ----------
    parts : SlowModes
        Of at least `FEWEST` windows.
    probability : float, optional
        Of the interval.

    Returns
    -------
    slope, low, high : float
    """
    trend, quantile = parts.trend.mean(), (1 + probability) / 2
    modes = parts.slow_modes_of_mean().modes[0] ** 2
    half = max(
        stdtrit(count, quantile) * np.sqrt(modes[:count].mean()) for count in (FEW_MODES, MODES)
    )
    if parts.starts > 1:
        apart = np.std(parts.trend, ddof=1) / np.sqrt(parts.starts)
        half = max(half, stdtrit(parts.starts - 1, quantile) * apart)
    values = np.array([trend, trend - half, trend + half]) / parts.trend_scale
    slope, low, high = map(float, values)
    return slope, low, high


def window_means_of_intervals(ends: Floats, means: Floats) -> tuple[Floats, Floats]:
    """Average over windows of nearly equal length, none shorter than the longest interval.

    Parameters
    ----------
    ends : ndarray, shape ``(intervals + 1,)``
    means : ndarray, shape ``(starts, intervals)``

    Returns
    -------
    times : ndarray, shape ``(windows,)``
    windows : ndarray, shape ``(starts, windows)``
    """
    weight = _interval_weights_of_windows(ends)
    first, own = np.argmax(weight > 0, axis=0), weight.sum(axis=1)  # of windows, of intervals
    return (ends[1:] + ends[:-1]) / 2 @ weight, np.add.reduceat(means * own, first, axis=1)


def drift_window_count(ends: Floats) -> int:
    """Number of windows into which a time axis is divided."""
    return _interval_weights_of_windows(ends).shape[1]


def _interval_weights_of_windows(ends: Floats) -> Floats:
    widths = np.diff(ends)
    span = ends[-1] - ends[0]
    count = max(1, min(WINDOWS, int(span / widths.max() * (1 + 1e-9))))
    middles = (ends[1:] + ends[:-1]) / 2
    window = np.minimum((middles - ends[0]) / span * count, count - 1).astype(int)
    weight = np.zeros((len(widths), count))
    weight[np.arange(len(widths)), window] = widths
    weight = weight[:, weight.any(axis=0)]
    return weight / weight.sum(axis=0)
