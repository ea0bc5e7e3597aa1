"""The power of time with which errors grow over an ensemble, and the drift of their mean."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from sweep.analysis.drift.cells import CellErrors
from sweep.analysis.drift.slow_modes import (
    MOST_STARTS,
    changes_in_last_decade,
    is_in_last_decade,
    likeness_by_late_changes,
    sums_of_squares_by_group,
    walk_rate_error_by_late_changes,
)
from sweep.analysis.drift.spectra import Likeness
from sweep.analysis.drift.verdicts import (
    CERTAIN,
    FEWEST_STARTS,
    GROWS,
    LINEAR,
    NEITHER,
    NONE,
    UNDECIDED,
    WALK,
    WORSE,
    Exponent,
    Finding,
    Verdict,
    growth_slope_in_last_decade,
    verdict_from_finding,
)
from sweep.analysis.reasons import Reason, Remedy
from sweep.analysis.runs.blocks import Floats, Integers

FEWEST_TIMES = 4  # in the last decade
ROOT = 0.5  # the exponent of a random walk


@dataclass(frozen=True, kw_only=True)
class GrowthFit:
    """The exponent and the drift of an ensemble of errors; see `fit_growth_exponent`.

    Attributes
    ----------
    power : Exponent
        The exponent and its intervals; NaN where `why` says why.
    drift, drift_error : float
        NaN of errors without a sign, and where the starts are too few.
    biased : bool
        Whether the drift is not zero, with a certainty of 99.7 %.
    rates : ndarray, shape ``(starts,)``
        Each start's rate of change.
    likeness : Likeness
    verdict : str
        One of `verdicts.VERDICTS`.
    why : tuple of Reason
        Why the verdict is ``undecided`` or ``grows``, or what else is to be said.
    """

    power: Exponent
    drift: float
    drift_error: float
    biased: bool
    rates: Floats
    likeness: Likeness
    verdict: str
    why: tuple[Reason, ...]

    @property
    def exponent(self) -> float:
        """p of a growth like tᵖ."""
        return self.power.p

    @property
    def low(self) -> float:
        """Lower end of its 95 % interval."""
        return self.power.low

    @property
    def high(self) -> float:
        """Upper end of its 95 % interval."""
        return self.power.high

    @property
    def reason(self) -> str:
        """`why` in words."""
        return "; ".join(map(str, self.why))


def fit_growth_exponent(times: Floats, error: Floats, signed: bool = True) -> GrowthFit:
    """Fit the exponent with which errors grow, and the drift of their mean.

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
    share of each time; for its variance see `verdicts.growth_slope_in_last_decade`: the times of
    one run are not independent, but runs are as far as they are not alike. The drift is that of the
    mean over the starts from the first time to the last, which for a random walk is the best
    estimate; its standard error is from how far the runs lie apart, wider as they are alike. Both
    intervals are Student's.

    The verdict is linear where the mean drifts, unless the exponent's interval lies below ½, or
    where the exponent is above ½ with the same certainty of 99.7 %; √t where its 95 % interval
    holds ½, ``grows`` between; and no drift is seen where it lies below: the errors have hardly
    left what they were at first.
    """
    rates = (error[:, -1] - error[:, 0]) / (times[-1] - times[0])
    changes = changes_in_last_decade(times, error)
    squares, members = sums_of_squares_by_group(error, own_scale=False)
    return fit_growth_from_sums_of_squares(
        times,
        squares,
        members,
        rates,
        signed,
        likeness_by_late_changes(changes),
        walk_rate_error_by_late_changes(times, changes),
    )


def fit_growth_of_cell_errors(errors: CellErrors) -> GrowthFit:
    """Apply `fit_growth_exponent` to the errors of a cell."""
    return fit_growth_from_sums_of_squares(
        errors.interval_middles,
        errors.squares,
        errors.members,
        errors.rates,
        errors.signed,
        errors.likeness,
        errors.rate_error_if_walking,
    )


def fit_growth_from_sums_of_squares(
    times: Floats,
    squares: Floats,
    members: Integers,
    rates: Floats,
    signed: bool,
    likeness: Likeness,
    wander: float,
) -> GrowthFit:
    """Apply `fit_growth_exponent` to sums of squares over groups, and rates of change of starts.

    `wander` is the standard error of the mean's rate, if the mean walks as its own changes show.
    """
    starts, late = len(rates), int(is_in_last_decade(times).sum())

    def growth_not_fitted(*reason: Any, verdict: str = UNDECIDED) -> GrowthFit:
        return GrowthFit(
            power=Exponent(),
            drift=np.nan,
            drift_error=np.nan,
            biased=False,
            rates=rates,
            likeness=likeness,
            verdict=verdict,
            why=(Reason(*reason),),
        )

    if starts < FEWEST_STARTS:
        remedy = Remedy("starts", FEWEST_STARTS, starts)
        return growth_not_fitted("complete starts", starts, FEWEST_STARTS, (remedy,))
    if late < FEWEST_TIMES:
        remedy = Remedy("samples a decade", FEWEST_TIMES, late)
        return growth_not_fitted("samples in the last decade", late, FEWEST_TIMES, (remedy,))
    if not squares.any():
        return growth_not_fitted("largest error", 0.0, 0.0, verdict=NONE)
    found = growth_slope_in_last_decade(times, squares, members, likeness)
    if found is None:
        zeros = int(np.sum(~squares[:, is_in_last_decade(times)].any(axis=0)))
        return growth_not_fitted("zeros", zeros, 0)
    drift = drift_error = np.nan
    biased = False
    if signed:
        # How far starts lie apart does not show what they share.
        of_starts = rates.var(ddof=1) / likeness.effective
        drift = rates.mean()
        drift_error = np.sqrt(of_starts + likeness.share * wander**2)
        biased = bool(abs(drift) > stdtrit(max(likeness.effective - 1, 1), CERTAIN) * drift_error)
    power = found.exponent
    why: tuple[Reason, ...] = ()
    # A mean that moves within the round-off of single values, which do not grow, is no drift yet.
    verdict = NONE if power.high < ROOT else WALK
    if (biased and power.high >= ROOT) or power.surely_low > ROOT:
        verdict = WORSE if power.surely_beyond_linear else LINEAR if power.tells_a_power else GROWS
        if verdict == GROWS:
            needed = starts * ((power.high - power.p) / max(power.p, NEITHER[1] - power.p)) ** 2
            numbers = {"low": power.low, "high": power.high, "power": str(power)}
            why = (
                Reason("exponent", power.p, 1.0, _remedy_of_more_starts(needed, starts), numbers),
            )
    elif power.low > ROOT:
        verdict = GROWS
        needed = starts * ((power.p - power.surely_low) / (power.p - ROOT)) ** 2
        why = (Reason("above √t", power.surely_low, ROOT, _remedy_of_more_starts(needed, starts)),)
    return GrowthFit(
        power=power,
        drift=drift,
        drift_error=drift_error,
        biased=biased,
        rates=rates,
        likeness=likeness,
        verdict=verdict,
        why=why,
    )


def verdict_from_growth_fit(fit: GrowthFit, signed: bool) -> Verdict:
    """The `Verdict` from a `GrowthFit`, where samples thin out too fast for windows."""
    found = Finding(fit.verdict, fit.why, fit.power)
    return verdict_from_finding(found, fit.rates, fit.likeness, signed, shared=fit.biased)


def _remedy_of_more_starts(needed: float, now: int) -> tuple[Remedy, ...]:
    """The advice to take `needed` starts; empty where these are too many."""
    return (Remedy("starts", np.ceil(needed), now),) if needed <= MOST_STARTS else ()
