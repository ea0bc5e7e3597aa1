"""Single series of errors that do not drift, of kinds that make a drift hard to see."""

import numpy as np
from wandering import drift_of_means, line

TREND = 20.0  # the true drift over a run, in units of the series' rms


def white(rng, n):
    """Independent windows."""
    return rng.normal(size=n)


def correlated(rng, n, memory=1 / 30):
    """Autocorrelated over a part of the run."""
    from scipy.signal import lfilter

    return lfilter([1], [1, -np.exp(-1 / (memory * n))], rng.normal(size=8 * n))[-n:]


def slow(rng, n):
    """Autocorrelated over a tenth of the run."""
    return correlated(rng, n, 0.1)


def oscillating(rng, n, least=1.0, most=None):
    """One cycle over the run, to as many as there are windows, at any phase."""
    cycles = np.exp(rng.uniform(np.log(least), np.log(0.9 * n if most is None else most)))
    return _means(np.sin, cycles, rng.uniform(0, 2 * np.pi), n)


def few_cycles(rng, n):
    """One cycle to three over the run."""
    return oscillating(rng, n, 1.0, 3.0)


def two_tones(rng, n):
    """An oscillation that beats, once over the run or more."""
    return oscillating(rng, n) * (1 + oscillating(rng, n, 1.0, 4.0))


def bursting(rng, n):
    """Short peaks, as of close encounters."""
    wave = oscillating(rng, n, 3.0, max(4.0, n / 4))
    return (wave > 0.95 * wave.max()).astype(float)


def chaotic(rng, n):
    """The logistic map's means over windows of a few steps, about calm and wild parts."""
    steps = 5
    x = np.empty(n * steps)
    x[0] = rng.uniform(0.1, 0.9)
    for i in range(1, len(x)):
        x[i] = (
            3.83 * x[i - 1] * (1 - x[i - 1])
            if x[i - 1] < 0.16
            else 3.98 * x[i - 1] * (1 - x[i - 1])
        )
    return x.reshape(n, steps).mean(axis=1)


def diffusing(rng, n):
    """An oscillation of twenty cycles over the run whose phase diffuses within one or two."""
    fine = 16
    phase = np.cumsum(rng.normal(size=n * fine)) * np.sqrt(20 / (n * fine)) * 2
    phase = phase + 2 * np.pi * 20 * np.arange(n * fine) / (n * fine)
    return np.cos(phase + rng.uniform(0, 2 * np.pi)).reshape(n, fine).mean(axis=1)


def _means(wave, cycles, phase, n):
    """Means of sin over windows."""
    edges = 2 * np.pi * cycles * np.arange(n + 1) / n + phase
    return -np.diff(np.cos(edges)) * n / (2 * np.pi * cycles)


KINDS = (white, correlated, slow, oscillating, few_cycles, two_tones, bursting, chaotic, diffusing)


def coverage(kind, intervals, trials):
    """How often an interval and the bound of a drift hold, and the half width of the interval.

    Returns
    -------
    interval, bound, width : float
    """
    rng = np.random.default_rng((0, intervals))
    inside = below = width = 0.0
    for _ in range(trials):
        series = kind(rng, intervals)
        series = series / (np.std(series) or 1.0)
        found = drift_of_means((series + TREND * line(intervals))[None])
        exact = 1e-9 * TREND  # of rounding
        inside += found.low - exact <= TREND <= found.high + exact
        below += found.bound + exact >= TREND
        width += found.half_width
    return inside / trials, below / trials, width / trials
