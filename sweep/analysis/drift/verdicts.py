"""Verdicts on how the error of an invariant moves over a run, and the tests behind them.

Each test is at 99.7 % or stricter; no verdict says that an error stays bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import fdtrc, fdtri, stdtrit

from sweep.analysis.drift.cells import CellErrors
from sweep.analysis.drift.slow_modes import (
    MODES,
    MOST_STARTS,
    SlowModes,
    evenly_spread_starts,
    is_in_last_decade,
    slow_modes_of_series,
)
from sweep.analysis.drift.spectra import (
    OCTAVES,
    Likeness,
    WalkFit,
    fit_random_walk_spectrum,
    likeness_of_starts,
    spectrum_shape,
    trend_probability_of_flat_spectrum,
    trend_probability_of_random_walk,
)
from sweep.analysis.reasons import LONGEST, Reason, Remedy, starts_in_words
from sweep.analysis.runs.blocks import Floats, Integers

NONE = "no drift seen"
WALK = "√t"
LINEAR = "linear"
WORSE = "worse than linear"
GROWS = "grows"  # surely, and by which law is not told
WANDERS = "wanders"  # about as slowly as the run is long: not surely bounded, and without a law
AT_ROUND_OFF = "at round-off"
UNDECIDED = "undecided"
GROWING = (WALK, LINEAR, WORSE, GROWS)
VERDICTS = (NONE, WALK, LINEAR, WORSE, GROWS, WANDERS, AT_ROUND_OFF, UNDECIDED)
LOOSE = (GROWS, WANDERS)  # verdicts that more starts, or longer runs, may turn into closer ones
FEW_ROUNDINGS = 16.0  # as which an error is at round-off: to sum a quantity up takes several

FEWEST_STARTS = 8  # that tell a drift of each from a random walk
APART = 0.9  # of the starts, as which they count unless something is common to them
FEWEST_WALKS = 32  # that tell a random walk from a chaotic wandering about as slow as the run
CERTAIN = 0.9985  # two-sided 99.7 %
RANKED, FEWEST_RANKS = 12.5, 16  # times its noise the trend of a walk's ranks is in 0.1 %
STRICTLY = 0.9995  # two-sided 99.9 %: of walks, of which any of three tests may show a drift
RARE = 1 - 0.997
ONE = 1.5  # independent starts: fewer are as good as a single one
STRICT = 3.3  # of a likelihood ratio's root, 99.9 %: what turns a √t into something else
CLEAR = 3.0  # 99.9 % one-sided: that the spectrum of a walk levels off, or that it does not
LONG = 0.2  # parts of the run: a memory beyond it may be a random walk's
BENT = 2.75  # 99.7 % one-sided: what a drift under an oscillation does not reach
FLOOR = np.finfo(float).tiny
MARGIN = 0.25  # an exponent this close to 1 is called linear, however narrow its interval
ROUGH = (0.4, 1.8)  # and none beyond these, however wide
NEITHER = (0.0, 2.0)  # an interval that holds both, a level and a square, tells no power
NOISE = slice(2, 2 + MODES)  # modes above those in which a growth shows that is not linear
SAME = 2e-3  # relative: no bend of errors is known better
EXPONENTS = np.linspace(-0.9, 20.0, 2091) + 1e-4  # of t that a bend is compared with
NEAR = 2.0  # errors of starts that lie close together are not further apart in size
PIECES = 7  # of the last decade, between which a common noise shows
LEAST = 2.0  # times the duration: it is not known so well that less is an advice
SLOWER = 10.0  # times the duration: a decade more shows if a drift that slows down ends


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on how errors move, with the measures behind it.

    Attributes
    ----------
    verdict : str
        One of `VERDICTS`.
    starts : int
    effective, likeness : float
        How many independent starts they count as, and their `spectra.Likeness.share`.
    signed : bool
        Whether the error has a sign; norms and sizes have none.
    rising, falling, with_mean : int
        Starts whose error rises over the run, by least squares, and falls; and which of the two
        the mean over the starts does.
    shared : bool
        Whether the mean over the starts drifts, as far as their scatter and its own noise show.
    exponent, low, high : float
        p of a growth like tᵖ and its 95 % interval; NaN where nothing has grown. Of a random walk
        that shows below an oscillation p = ½ is what the test says; it has no interval.
    grown, grown_low, grown_high : float
        Root mean square over the starts of what has grown until the end, with a 95 % interval, in
        the quantity's units; NaN where nothing has.
    why : tuple of Reason
        Why undecided, and what would decide; or what else is to be said.
    """

    verdict: str
    starts: int
    effective: float
    likeness: float
    signed: bool
    rising: int
    falling: int
    with_mean: int
    shared: bool
    exponent: float
    low: float
    high: float
    grown: float
    grown_low: float
    grown_high: float
    why: tuple[Reason, ...]

    @property
    def reason(self) -> str:
        """`why` in words."""
        return "; ".join(map(str, self.why))


@dataclass(frozen=True)
class Exponent:
    """p of a growth like tᵖ, its 95 % interval, and its 99.7 % interval."""

    p: float = np.nan
    low: float = np.nan
    high: float = np.nan
    surely_low: float = np.nan
    surely_high: float = np.nan

    @property
    def surely_beyond_linear(self) -> bool:
        """Whether it is surely above 1, by a margin that matters."""
        return bool(self.surely_low > 1 and self.p >= 1 + MARGIN)

    @property
    def surely_below_linear(self) -> bool:
        """Whether it is surely below 1, by a margin that matters."""
        return bool(self.surely_high < 1 and self.p <= 1 - MARGIN)

    @property
    def tells_a_power(self) -> bool:
        """Whether the interval is informative: bounded, and without one end of `NEITHER`."""
        bounded = self.low > EXPONENTS[0] and self.high < EXPONENTS[-1]
        return bool(bounded and (self.low > NEITHER[0] or self.high < NEITHER[1]))

    @property
    def about_linear(self) -> bool:
        """Whether it is about 1, by an informative interval."""
        near = self.low <= 1 + MARGIN and self.high >= 1 - MARGIN
        return bool(self.tells_a_power and near and ROUGH[0] <= self.p <= ROUGH[1])

    def __str__(self) -> str:
        below, above = self.low <= EXPONENTS[0], self.high >= EXPONENTS[-1]
        if below and above:
            return "like any power of t"
        if below or above:
            return (
                f"like t^{self.high:.2f} or slower" if below else f"like t^{self.low:.2f} or faster"
            )
        return f"like t^{self.low:.2f} – t^{self.high:.2f}"


@dataclass(frozen=True)
class Finding:
    """The result of a test: verdict, reason, exponent, and size of the growth."""

    verdict: str
    why: tuple[Reason, ...] = ()
    exponent: Exponent = Exponent()
    grown: tuple[float, float, float] = (np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class _Ensemble:
    """Starts with nonzero errors, their spectrum, and how independent they are."""

    parts: SlowModes
    signed: bool
    shape: Floats
    likeness: Likeness
    apart: float  # independent ones, by their differences from the mean
    degrees: float  # of freedom, of each component of the shape

    @property
    def starts(self) -> int:
        return self.parts.starts

    @property
    def independent_starts(self) -> float:
        """Number of independent starts, by their likeness."""
        return self.likeness.effective


def judge_drift(parts: SlowModes, signed: bool = True) -> Verdict:
    """Judge the drift of an ensemble, or of one run.

    Parameters
    ----------
    parts : SlowModes
        Of the error's windows; at least `slow_modes.FEWEST` of them.
    signed : bool
        Whether the error has a sign; norms and sizes have none.

    Returns
    -------
    Verdict
    """
    if not np.any(parts.trend) and not np.any(parts.modes):
        why = () if np.any(parts.squares) else (Reason("largest error", 0.0, 0.0),)
        return verdict_from_finding(
            Finding(NONE, why), parts.trend, parts.likeness, signed, shared=False
        )
    ensemble = _ensemble_of_moving_starts(parts, signed)
    drifts = ensemble.starts > 1 and _mean_over_starts_drifts(ensemble)
    found = (
        _finding_of_drifting_mean(ensemble)
        if signed and drifts
        else _finding_of_single_starts(ensemble)
    )
    if found.verdict == NONE and drifts and not found.why:
        found = Finding(GROWS, (_why_only_mean_grows(ensemble),))
    if not (signed and drifts) and found.verdict not in (LINEAR, WORSE):
        late = _finding_of_growth_beyond_linear(ensemble)
        found = late if late is not None else found
    return verdict_from_finding(found, parts.trend, ensemble.likeness, signed, shared=drifts)


def verdict_from_finding(
    found: Finding, trends: Floats, likeness: Likeness, signed: bool, shared: bool
) -> Verdict:
    """Combine the result of a test with the counts of starts to a `Verdict`."""
    exponent = found.exponent
    return Verdict(
        verdict=found.verdict,
        starts=len(trends),
        effective=likeness.effective,
        likeness=likeness.share,
        signed=bool(signed),
        rising=int(np.sum(trends > 0)),
        falling=int(np.sum(trends < 0)),
        with_mean=int(np.sum(trends * np.sign(np.sum(trends)) > 0)),
        shared=bool(shared),
        exponent=float(exponent.p),
        low=float(exponent.low),
        high=float(exponent.high),
        **dict(zip(("grown", "grown_low", "grown_high"), map(float, found.grown), strict=True)),
        why=found.why,
    )


def verdict_with_round_off(found: Verdict, errors: CellErrors, resolution: float) -> Verdict:
    """Replace a verdict by ``at round-off`` where the errors are a few roundings of the quantity.

    A few roundings are what the quantity's own evaluation costs, and as far as a walk of one
    rounding a step gets in `FEW_ROUNDINGS`² steps. A drift that reaches less than one rounding
    until the end is below what a single value shows.

    Parameters
    ----------
    found : Verdict
    errors : cells.CellErrors
    resolution : float
        One rounding of the quantity.

    Returns
    -------
    Verdict
    """
    grown = found.grown if np.isfinite(found.grown) else errors.rms_at_end
    drifts = found.verdict in (LINEAR, WORSE) and grown < resolution
    if not errors.starts or not (found.verdict in (UNDECIDED, *LOOSE) or drifts):
        return found
    if not 0 < errors.max_abs.max() <= FEW_ROUNDINGS * resolution:
        return found
    return replace(found, verdict=AT_ROUND_OFF, why=())


def undecided_verdict_on_cell(errors: CellErrors, why: tuple[Reason, ...]) -> Verdict:
    """An undecided `Verdict` on the errors of a cell that cannot be tested."""
    return verdict_from_finding(
        Finding(UNDECIDED, why), errors.rates, errors.likeness, errors.signed, shared=False
    )


def _ensemble_of_moving_starts(parts: SlowModes, signed: bool) -> _Ensemble:
    there = np.flatnonzero(np.any(parts.modes, axis=1) | (parts.trend != 0))
    there = evenly_spread_starts(there)
    if len(there) < parts.starts:
        parts = replace(
            parts, trend=parts.trend[there], modes=parts.modes[there], bends=parts.bends[there]
        )
    vectors = np.concatenate([parts.trend[:, None], parts.modes_above_rounding], axis=1)
    vectors = vectors / parts.norm_per_start[:, None]
    rest, series, likeness = parts.modes, parts.starts, parts.likeness
    apart = float(series)
    if series >= FEWEST_STARTS:
        apart = likeness_of_starts(rest - rest.mean(axis=0)).effective
    n = vectors.shape[1]
    degrees = max(likeness.effective * (n / (n + 2) if series > 1 else 1.0), 1.0)
    return _Ensemble(parts, signed, spectrum_shape(vectors), likeness, apart, degrees)


def _mean_over_starts_drifts(ensemble: _Ensemble) -> bool:
    """Whether the mean over the starts has a trend: above their scatter, and above its own noise.

    The first alone sees a random walk in each start, the second what all starts share: an
    oscillation in phase, or how they leave their initial states.
    """
    parts = ensemble.parts
    certain = stdtrit(max(ensemble.apart - 1, 1.0), STRICTLY)
    if not abs(parts.trend.mean()) > certain * _standard_error_of_mean_trend(ensemble):
        return False
    return _trend_of_mean_stands_out(parts, walking=_mean_may_be_random_walk(ensemble))


def _mean_may_be_random_walk(ensemble: _Ensemble) -> bool:
    """Whether the mean over the starts may be a random walk.

    It may be one if the starts are few or alike, or if each of them walks.
    """
    likeness, part = ensemble.likeness, ensemble.independent_starts / ensemble.starts
    if likeness.effective < FEWEST_STARTS or (likeness.certain_share > 0 and part < APART):
        return True
    parts = ensemble.parts  # what each start does beside the mean, which may bend as it grows
    own = np.concatenate([parts.trend[:, None], parts.modes_above_rounding], axis=1)
    own = own - own.mean(axis=0)
    shape = spectrum_shape(own[np.any(own, axis=1)])
    return fit_random_walk_spectrum(shape, ensemble.degrees).bending >= BENT


def _standard_error_of_mean_trend(ensemble: _Ensemble) -> float:
    """Standard error of the mean trend, from how far the starts lie apart."""
    return np.std(ensemble.parts.trend, ddof=1) / np.sqrt(ensemble.apart)


def _trend_of_mean_stands_out(parts: SlowModes, walking: bool = True) -> bool:
    """Whether the mean over the starts surely has a trend, in its values or in their ranks.

    It is held against noise or, where the mean may be `walking`, against a random walk. A trend in
    ranks is a rise or fall of any shape.
    """
    mean, ranks = (
        _trend_above_noise(one, walking)
        for one in (parts.slow_modes_of_mean(), parts.slow_modes_of_mean_ranks())
    )
    if not walking:
        return bool(max(mean, ranks) > stdtrit(MODES, CERTAIN))
    enough = len(parts.times) >= FEWEST_RANKS
    return bool(mean > stdtrit(MODES, STRICTLY) or (enough and ranks > RANKED))


def _trend_above_noise(one: SlowModes, walking: bool) -> float:
    """Ratio of the trend of one series to its modes, scaled to those of a random walk or noise."""
    modes = one.modes[0, :MODES]
    k = np.arange(2, 2 + len(modes)) if walking else 1.0
    return abs(one.trend[0]) / max(np.sqrt(np.mean((k * modes) ** 2)), FLOOR)


def _why_only_mean_grows(ensemble: _Ensemble) -> Reason:
    """The reason that the mean of unsigned errors grows, where single starts show nothing."""
    mean = ensemble.parts.trend.mean() / _standard_error_of_mean_trend(ensemble)
    certain = float(stdtrit(max(ensemble.apart - 1, 1.0), STRICTLY))
    degrees, ratio = ensemble.degrees, _trend_above_next_modes(ensemble.shape)
    remedies = []
    many = np.geomspace(degrees, MOST_STARTS, 400)
    enough = many[fdtrc(many, OCTAVES * many, ratio) <= RARE]
    if len(enough):
        remedies += _advise_more_starts_of_ensemble(
            ensemble, enough[0] / degrees * ensemble.independent_starts
        )
    needed = fdtri(degrees, OCTAVES * degrees, 1 - RARE)
    if ratio > 1:  # a walk's share of the trend grows like the square of the duration
        remedies += advise_longer_run(np.sqrt((needed - 1) / (ratio - 1)))
    return Reason("mean", float(mean), certain, tuple(remedies))


def _trend_above_next_modes(shape: Floats) -> float:
    """Ratio of the trend of a spectrum to the next modes."""
    return float(shape[0] / np.mean(shape[1 : 1 + OCTAVES]))


def _finding_of_drifting_mean(ensemble: _Ensemble) -> Finding:
    """Find the power of t like which a drifting mean over the starts grows."""
    parts = ensemble.parts
    weights = np.sign(parts.trend.mean()) * _start_weights_by_noise(parts)[:, None]
    bends = _mean_bends(ensemble, weights, ensemble.apart, of_few=False)
    drift = abs(parts.trend.mean()) / parts.trend_scale
    half = (
        stdtrit(max(ensemble.apart - 1, 1.0), 0.975)
        * _standard_error_of_mean_trend(ensemble)
        / parts.trend_scale
    )
    span = _time_span_of_windows(parts)
    grown = (drift * span, max(drift - half, 0.0) * span, (drift + half) * span)
    return _finding_by_growth_exponent(ensemble, bends, grown)


def _time_span_of_windows(parts: SlowModes) -> float:
    return (parts.times[-1] - parts.times[0]) * len(parts.times) / (len(parts.times) - 1)


def _finding_by_growth_exponent(
    ensemble: _Ensemble, bends: _Bends, grown: tuple[float, float, float] = (np.nan, np.nan, np.nan)
) -> Finding:
    """Find linear growth, unless the exponent surely differs from 1 or is not known."""
    exponent = bends.exponent_of_growth()
    if exponent.surely_beyond_linear:
        return Finding(WORSE, (), exponent, grown)
    if exponent.surely_below_linear:
        tested = "slowing", exponent.surely_high, 1.0, tuple(advise_longer_run(SLOWER))
    elif not exponent.about_linear:
        tested = "exponent", exponent.p, 1.0, tuple(_remedies_for_growth_exponent(ensemble, bends))
    else:
        return Finding(LINEAR, (), exponent, grown)
    numbers = {"low": exponent.low, "high": exponent.high, "power": str(exponent)}
    return Finding(GROWS, (Reason(*tested, numbers),), exponent, grown)


def _remedies_for_growth_exponent(ensemble: _Ensemble, bends: _Bends) -> list[Remedy]:
    """The number of starts, or the duration, that would decide an exponent like this one."""

    def exponent_is_decided(of_starts: float, of_noise: float) -> bool:
        exponent = bends.exponent_of_growth(of_starts, of_noise)
        return (
            exponent.surely_beyond_linear or exponent.surely_below_linear or exponent.about_linear
        )

    shared, now, remedies = ensemble.likeness.certain_share, ensemble.independent_starts, []
    for more in np.geomspace(1.0, MOST_STARTS / now, 60)[1:]:
        # What the starts have in common does not average out.
        common = shared + (1 - shared) / (more * now)
        if exponent_is_decided(1 / more, common / (shared + (1 - shared) / now)):
            remedies += _advise_more_starts_of_ensemble(ensemble, more * now)
            break
    for factor in np.geomspace(1.0, LONGEST, 40)[1:]:
        # The slow part of an oscillation falls like 1/√T beside a growth like T; how far the
        # starts lie apart need not.
        if exponent_is_decided(1.0, factor**-3):
            remedies += advise_longer_run(factor)
            break
    return remedies or advise_longer_run(SLOWER)


def _advise_more_starts_of_ensemble(ensemble: _Ensemble, needed: float) -> list[Remedy]:
    return advise_more_starts(ensemble.parts, needed)


def advise_more_starts(parts: SlowModes, needed: float) -> list[Remedy]:
    """The advice to take as many independent starts, by more starts or less alike ones.

    Parameters
    ----------
    parts : SlowModes
    needed : float

    Returns
    -------
    list of Remedy
        Empty where neither helps: the starts are alike though they lie far apart.
    """
    starts, likeness = parts.starts, parts.likeness
    number = likeness.starts_needed_for(needed)
    if number <= MOST_STARTS:
        return [Remedy("starts", max(number, starts + 1), starts)]
    if parts.norm_per_start.max() > NEAR * parts.norm_per_start.min():
        return []
    return [Remedy("likeness", 1 / (2 * needed), likeness.share)]


def advise_longer_run(factor: float) -> list[Remedy]:
    """The advice to run `factor` times as long, in a list; empty where that is too long."""
    return [Remedy("duration", float(max(factor, LEAST)), 1.0)] if factor <= LONGEST else []


@dataclass(frozen=True)
class _Bends:
    """Growth of a mean from one third of the run to the next, with its covariance.

    Attributes
    ----------
    mean : ndarray, shape ``(2,)``
        From the first third to the middle one, and from there to the last; positive if it grows.
    spread, noise : ndarray, shape ``(2, 2)``
        Covariance of the mean, from how far the starts lie apart, and from the noise of its
        windows; neither sees all of it.
    expected : ndarray, shape ``(2, exponents)``
        Of a growth like each of `EXPONENTS`.
    freedom : float
        Degrees of freedom of `spread`.
    """

    mean: Floats
    spread: Floats
    noise: Floats
    expected: Floats
    freedom: float

    def exponent_of_growth(self, of_starts: float = 1.0, of_noise: float = 1.0) -> Exponent:
        """The `Exponent`, by Fieller's method, for variances scaled by these factors."""
        freedom = max(self.freedom / of_starts, MODES)
        ratio = self.expected[1] / self.expected[0]
        apart = (self.mean[1] - ratio * self.mean[0]) ** 2
        weight = np.stack([-ratio, np.ones_like(ratio)])
        seen = of_starts * self.spread, of_noise * self.noise, np.diag((SAME * self.mean) ** 2)
        of_starts, of_noise, least = (
            np.einsum("ip,ij,jp->p", weight, covariance, weight) for covariance in seen
        )
        # What starts do not share is in both, what they share in the noise alone.
        variance = np.maximum(of_starts, of_noise) + least
        distance = np.sqrt(apart / np.maximum(variance, FLOOR))
        best = EXPONENTS[np.argmin(distance)]
        reach = [max(stdtrit(freedom, level), distance.min()) for level in (0.975, CERTAIN)]
        inside = [EXPONENTS[distance <= furthest] for furthest in reach]
        return Exponent(float(best), *(float(p) for one in inside for p in (one[0], one[-1])))


def _mean_bends(ensemble: _Ensemble, weights: Floats, independent: float, of_few: bool) -> _Bends:
    """Bends of the weighted mean over the starts, as many of which are `independent`."""
    parts = ensemble.parts
    bends = weights * parts.bends
    since = (parts.times - _run_start_before_windows(parts.times)) / _time_span_of_windows(parts)
    expected = parts.third_contrasts @ since[:, None] ** EXPONENTS
    modes = weights * _noise_modes_beside_growth(parts, since, bends.mean(axis=0), expected)
    if of_few:  # how far they lie apart says little
        spread, noise = np.zeros((2, 2)), np.mean(modes**2) / ensemble.degrees
    else:
        spread, noise = np.cov(bends.T) / independent, np.mean(modes.mean(axis=0) ** 2)
    contrasts = noise * parts.third_contrasts @ parts.third_contrasts.T
    return _Bends(bends.mean(axis=0), spread, contrasts, expected, independent - 1)


def _noise_modes_beside_growth(
    parts: SlowModes, since: Floats, mean: Floats, expected: Floats
) -> Floats:
    """The modes of noise, without those of the power of t that bends like the mean."""
    off = (mean[1] * expected[0] - mean[0] * expected[1]) ** 2
    power = EXPONENTS[np.argmin(off / np.sum(expected**2, axis=0))]
    curve = slow_modes_of_series(parts.times, since[None] ** power)
    return parts.modes[:, NOISE] - np.outer(parts.trend, curve.modes[0, NOISE] / curve.trend)


def _finding_of_single_starts(ensemble: _Ensemble) -> Finding:
    """Judge the starts one by one, where their mean does not drift."""
    parts = ensemble.parts
    alone = ensemble.independent_starts < ONE and _trend_of_mean_stands_out(parts)
    flat = trend_probability_of_flat_spectrum(ensemble.shape, ensemble.degrees)
    if flat > RARE and not alone:
        return Finding(NONE)
    if not ensemble.signed and parts.trend.mean() < 0:
        return Finding(NONE, (Reason("rise of the mean", float(parts.trend.mean()), 0.0),))
    if ensemble.independent_starts < FEWEST_STARTS - 0.5:
        return _finding_of_few_starts(ensemble, alone)
    fit = fit_random_walk_spectrum(ensemble.shape, ensemble.degrees, ensemble.signed)
    grown = _grown_rms_with_interval(ensemble)
    if fit.steeper > STRICT:
        return _finding_by_growth_exponent(ensemble, _bends_of_each_start(ensemble), grown)
    if fit.levelling > CLEAR:
        remedies = () if fit.memory <= LONG else tuple(advise_longer_run(fit.memory / LONG))
        why = (Reason("memory", fit.memory, LONG, remedies),)
        return Finding(NONE if fit.memory <= LONG else WANDERS, why)
    if fit.bending < BENT:
        why = (_why_growth_hides_in_oscillation(ensemble, fit),)
        # The trend alone says it, of all that was asked before: so it takes more.
        return Finding(GROWS, why, grown=grown) if flat < RARE / 10 else Finding(WANDERS, why)
    if fit.lasting < CLEAR or ensemble.independent_starts < FEWEST_WALKS:
        return Finding(WANDERS, (_why_random_walk_or_wandering(ensemble, fit),))
    return Finding(WALK, (), Exponent(p=0.5), grown)


def _finding_of_few_starts(ensemble: _Ensemble, alone: bool) -> Finding:
    """Judge one run, or a few: a drift, or possibly a random walk."""
    modes = min(MODES, ensemble.parts.modes.shape[1])
    # As how many starts count that are surely alike is hardly known: as one, at least.
    degrees = 1.0 if ensemble.likeness.certain_share > 0 else ensemble.degrees
    steep = trend_probability_of_random_walk(ensemble.shape, degrees, modes, ensemble.signed)
    if alone or steep < RARE / 3:
        return _finding_by_growth_exponent(ensemble, _bends_of_each_start(ensemble))
    return Finding(WANDERS, (_why_few_starts_tell_no_law(ensemble),))


def _why_few_starts_tell_no_law(ensemble: _Ensemble) -> Reason:
    """Why starts that are so few, or so alike, do not distinguish a drift from wandering."""
    modes = min(MODES, ensemble.parts.modes.shape[1])
    k, degrees = np.arange(2, 2 + modes), ensemble.degrees
    # Beside a random walk's, the square of a drift's trend grows like the duration.
    ratio = ensemble.shape[0] / np.mean(k**2 * ensemble.shape[1 : 1 + modes])
    factor = fdtri(degrees, modes * degrees, 1 - RARE / 3) / ratio
    remedies = (
        *_advise_more_starts_of_ensemble(ensemble, FEWEST_STARTS),
        *advise_longer_run(factor),
    )
    numbers = {"starts": starts_in_words(ensemble.starts)}
    return Reason(
        "independent starts", ensemble.independent_starts, FEWEST_STARTS, remedies, numbers
    )


def _why_growth_hides_in_oscillation(ensemble: _Ensemble, fit: WalkFit) -> Reason:
    """The reason that growth like √t or t does not stand out above the oscillation.

    The test of either grows like the root of the number of starts, and that of a small random walk
    like the square of the duration.
    """
    needed = [of / found for of, found in ((BENT, fit.bending), (STRICT, fit.steeper)) if found > 0]
    remedies = []
    if needed:
        remedies = _advise_more_starts_of_ensemble(
            ensemble, ensemble.independent_starts * min(needed) ** 2
        )
    if fit.bending > 0:
        remedies += advise_longer_run(np.sqrt(BENT / fit.bending))
    return Reason("bending", fit.bending, BENT, tuple(remedies))


def _why_random_walk_or_wandering(ensemble: _Ensemble, fit: WalkFit) -> Reason:
    """The reason that a random walk is not told from wandering about as slow as the run."""
    remedies, needed = [], float(FEWEST_WALKS)
    if fit.lasting > 0:
        needed = max(needed, ensemble.independent_starts * (CLEAR / fit.lasting) ** 2)
        remedies += _advise_more_starts_of_ensemble(ensemble, needed)
    if fit.memory > LONG:
        remedies += advise_longer_run(fit.memory / LONG)
    numbers = {"starts": starts_in_words(ensemble.starts), "effective": ensemble.independent_starts}
    return Reason("lasting", fit.lasting, CLEAR, tuple(remedies), numbers)


def _bends_of_each_start(ensemble: _Ensemble) -> _Bends:
    """Bends of the growth of each start, irrespective of its sign."""
    parts = ensemble.parts
    weights = (np.sign(parts.trend) * _start_weights_by_noise(parts))[:, None]
    return _mean_bends(
        ensemble, weights, ensemble.independent_starts, of_few=parts.starts < FEWEST_STARTS
    )


def _start_weights_by_noise(parts: SlowModes) -> Floats:
    """Weights of the starts, of mean 1, larger for less noise beside the drift."""
    noise = np.mean(parts.modes[:, NOISE] ** 2, axis=1)
    weights = 1 / (noise + np.median(noise) + SAME**2 * np.mean(parts.trend**2))
    return weights / weights.mean()


def _grown_rms_with_interval(ensemble: _Ensemble) -> tuple[float, float, float]:
    """Root mean square over the starts of the growth at the end, with a 95 % interval.

    The floor, which the trends share with the modes above them, is subtracted.
    """
    parts = ensemble.parts
    unit = np.abs(parts.trend).max() or 1.0  # fourth powers of errors that blow up overflow
    trend, modes = parts.trend / unit, parts.modes / unit
    strength = np.mean(trend**2)
    # Starts that are alike do not show how far others lie apart: as far as normal ones, at least.
    variance = max(np.var(trend**2), 2 * ensemble.likeness.share * strength**2)
    spread = np.sqrt(variance / ensemble.independent_starts)
    walk = 1 / np.arange(2, 2 + modes.shape[1]) ** 2
    floor = max(np.polynomial.polynomial.polyfit(walk, np.mean(modes**2, axis=0), 1)[0], 0)
    # Of a walk of unit rms at the end the trend has the variance windows/10, of a line windows/12.
    to_end = 10 / len(parts.times)
    factor = np.exp(1.96 * spread / strength)
    values = strength * np.array([1.0, 1 / factor, factor]) - floor
    rms, low, high = unit * np.sqrt(np.maximum(values, 0.0) * to_end)
    return float(rms), float(low), float(high)


def _finding_of_growth_beyond_linear(ensemble: _Ensemble) -> Finding | None:
    """Find growth of the rms over the starts faster than t in the last decade, or None."""
    parts = ensemble.parts
    if ensemble.starts < FEWEST_STARTS:
        return None
    since = parts.times - _run_start_before_windows(parts.times)
    slope = growth_slope_in_last_decade(since, parts.squares, parts.members, ensemble.likeness)
    if slope is None or not slope.exponent.surely_beyond_linear:
        return None
    return Finding(WORSE, (), slope.exponent)


def _run_start_before_windows(times: Floats) -> float:
    return times[0] - (times[1] - times[0]) / 2


@dataclass(frozen=True)
class GrowthSlope:
    """Slope of log rms over log t in the last decade.

    Attributes
    ----------
    slope, error : float
        The slope and its standard error.
    freedom : float
        Degrees of freedom of Student's intervals.
    """

    slope: float
    error: float
    freedom: float

    @property
    def exponent(self) -> Exponent:
        """Slope and intervals as an `Exponent`."""
        likely, certain = stdtrit(self.freedom, [0.975, CERTAIN]) * self.error
        slope = self.slope
        return Exponent(slope, slope - likely, slope + likely, slope - certain, slope + certain)


def growth_slope_in_last_decade(
    times: Floats, squares: Floats, members: Integers, likeness: Likeness
) -> GrowthSlope | None:
    """Fit the slope of log rms over log t in the last decade.

    Parameters
    ----------
    times : ndarray, shape ``(n,)``
        Since the start of the run.
    squares : ndarray, shape ``(groups, n)``
        Sums of squares over groups of starts.
    members : ndarray of int, shape ``(groups,)``
    likeness : Likeness
        Of the starts.

    Returns
    -------
    GrowthSlope or None
        None where there is no error.

    Notes
    -----
    The variance has two parts. The jackknife over the groups sees what starts do not share; it
    counts them as the number that is independent. No comparison of starts shows what they share:
    this is estimated from how unevenly the logarithm grows between pieces of the decade, and
    weighted by their likeness.
    """
    late = is_in_last_decade(times)
    squares, log_times = squares[:, late], np.log(times[late])
    total = squares.sum(axis=0)
    if not np.all(total > 0) or late.sum() < 2 or len(squares) < 2:
        return None
    weights = np.gradient(log_times)
    centred = log_times - np.average(log_times, weights=weights)
    share = weights * centred / np.sum(weights * centred**2)
    rest = (members.sum() - members)[:, None]
    others = 0.5 * np.log(np.maximum(total - squares, FLOOR) / rest) @ share
    log_rms = 0.5 * np.log(total / members.sum())
    count, starts = len(squares), members.sum()
    alike = 1 + (starts - 1) * likeness.share
    of_starts = (count - 1) * np.var(others) * alike
    common, freedom = _slope_variance_between_pieces(log_times, log_rms)
    of_common = likeness.share * common
    both = of_starts + of_common
    independent = max(min(count, starts / alike) - 1, 1.0)
    if both > 0:  # Welch and Satterthwaite's
        freedom = both**2 / (of_starts**2 / independent + of_common**2 / freedom)
    return GrowthSlope(float(log_rms @ share), float(np.sqrt(both)), float(max(freedom, 1.0)))


def _slope_variance_between_pieces(log_times: Floats, log_rms: Floats) -> tuple[float, float]:
    """Variance of a slope over pieces whose own slopes scatter, and its degrees of freedom.

    From how much each piece's slope differs from the next one's: a steady bend is no scatter.
    """
    place = (log_times - log_times[0]) / (log_times[-1] - log_times[0]) * PIECES
    place = np.minimum(place.astype(int), PIECES - 1)
    there = np.unique(place)
    if len(there) < 3:
        return np.inf, 1.0
    u, y = (np.array([one[place == i].mean() for i in there]) for one in (log_times, log_rms))
    slopes = np.diff(y) / np.diff(u)
    variance = np.mean(np.diff(slopes) ** 2) / 2
    return float(variance / len(slopes)), float(len(slopes) - 1)
