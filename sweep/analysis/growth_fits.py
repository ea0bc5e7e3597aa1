"""The power of time with which errors grow over an ensemble, and the drift of their mean."""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from sweep.analysis.slow_parts import grouped
from sweep.analysis.verdicts import (
    CERTAIN,
    FEWEST_STARTS,
    LINEAR,
    NONE,
    UNDECIDED,
    WALK,
    WORSE,
    ZERO,
    Verdict,
    growth_exponent,
    is_worse,
)

FEWEST_TIMES = 4  # in the last decade
DECADE = 10.0  # of time, the last one, over which the exponent is


@dataclass(frozen=True)
class GrowthFit:
    """The exponent and the drift of an ensemble of errors; see `fit_growth`.

    Attributes
    ----------
    exponent, low, high : float
    drift, drift_error : float
        NaN of errors without a sign.
    biased : bool
        Whether the drift is not zero, with a certainty of 99.7 %.
    verdict : str
        One of `verdicts.VERDICTS`.
    reason : str
        Why the verdict is ``undecided``.
    """

    exponent: float = np.nan
    low: float = np.nan
    high: float = np.nan
    drift: float = np.nan
    drift_error: float = np.nan
    biased: bool = False
    verdict: str = UNDECIDED
    reason: str = ""


def fit_growth(times, error, signed=True):
    """The exponent with which errors grow, and the drift of their mean.

    Parameters
    ----------
    times : ndarray, shape ``(n,)``
        Ascending and positive; of interval means, the middles of the intervals.
    error : ndarray, shape ``(starts, n)``
        Of each start at these times.
    signed : bool
        Whether the errors have a sign; else there is no drift.

    Returns
    -------
    GrowthFit

    Notes
    -----
    The exponent is the slope of log rms over log t in the last decade, weighted by the decade's
    share of each time, with the jackknife's variance over the starts: the times of one run are
    not independent, but the runs are. The drift is that of the mean over the starts from the
    first time to the last, which for a random walk is the best estimate; its standard error is
    from how far the runs lie apart. Both intervals are Student's.

    The verdict is linear where the mean drifts, unless the exponent's interval lies below ½, or
    where the exponent is above ½ with the same certainty of 99.7 %; √t where its 95 % interval
    holds ½, undecided between; and no drift is seen where it lies below: the errors have hardly
    left what they were at first.
    """
    rates = (error[:, -1] - error[:, 0]) / (times[-1] - times[0])
    return fit_sums(times, *grouped(error, own_scale=False), rates, signed)


def fit_sums(times, squares, members, rates, signed):
    """`fit_growth` from sums of squares over groups of starts, and each start's rate of change."""
    starts = len(rates)
    if starts < FEWEST_STARTS:
        reason = f"needs {FEWEST_STARTS} starts that are complete, has {starts}"
        return GrowthFit(reason=reason)
    late = int(np.sum(times >= times[-1] / DECADE * (1 - 1e-9)))
    if late < FEWEST_TIMES:
        return GrowthFit(reason=f"needs {FEWEST_TIMES} samples in the last decade, has {late}")
    found = growth_exponent(times, squares, members)
    if found is None and squares.any():
        return GrowthFit(reason="the error is exactly 0 at some of the times")
    if found is None:
        return GrowthFit(verdict=NONE, reason=ZERO)
    slope, spread, count = found
    certain, half = stdtrit(count - 1, [CERTAIN, 0.975])
    drift = drift_error = np.nan
    if signed:
        drift, drift_error = rates.mean(), rates.std(ddof=1) / np.sqrt(starts)
    biased = bool(abs(drift) > stdtrit(starts - 1, CERTAIN) * drift_error)
    low, high = slope - half * spread, slope + half * spread
    # A mean that moves within the round-off of single values, which do not grow, is no drift yet.
    linear = (biased and high >= 0.5) or slope - certain * spread > 0.5
    verdict, reason = NONE if high < 0.5 else WALK, ""
    if linear:
        verdict = WORSE if is_worse(slope, slope - certain * spread) else LINEAR
    elif low > 0.5:
        verdict, reason = UNDECIDED, "faster than √t, but not surely: add starts, or duration"
    return GrowthFit(slope, low, high, drift, drift_error, biased, verdict, reason)


def verdict_of_growth(fit):
    """The verdict of a fit, where samples thin out with time too fast for windows."""
    return Verdict(
        fit.verdict,
        shared=fit.biased and fit.verdict in (LINEAR, WORSE),
        exponent=fit.exponent,
        low=fit.low,
        high=fit.high,
        reason=fit.reason,
    )
