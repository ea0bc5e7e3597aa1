"""How the error of an invariant moves over a run: the verdict in words, and what it rests on.

Each question is a test at 99.7 % or stricter; no verdict says that an error stays bounded.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from sweep.analysis.slow_parts import MODES, SlowParts
from sweep.analysis.spectra import (
    independent,
    rise_probability,
    shape_of,
    steeper_probability,
    walk_fit,
)

NONE = "no drift seen"
WALK = "√t"
LINEAR = "linear"
WORSE = "worse than linear"
UNDECIDED = "undecided"
VERDICTS = (NONE, WALK, LINEAR, WORSE, UNDECIDED)

ZERO = "the error is exactly 0"

FEWEST_STARTS = 8  # that tell a drift of each from a random walk
FEWEST_WALKS = 32  # that tell a random walk from a chaotic wandering about as slow as the run
MOST_STARTS = 16384  # that a verdict looks at; of more, so many spread evenly over them
CERTAIN = 0.9985  # two-sided 99.7 %
STRICTLY = 0.9995  # two-sided 99.9 %: of starts that walk, so few show a drift of their mean
RARE = 1 - 0.997
STRICT = 3.3  # of a likelihood ratio's root, 99.9 %: what turns a √t into something else
CLEAR = 3.0  # 99.9 % one-sided: that the spectrum of a walk levels off, or that it does not
LONG = 0.2  # parts of the run: a memory beyond it may be a random walk's
BENT = 2.75  # 99.7 % one-sided: what a drift under an oscillation does not reach
FLOOR = np.finfo(float).tiny
MARGIN = 0.25  # an exponent this close to 1 is called linear, however narrow its interval
ROUGH = (0.4, 1.8)  # and none beyond these, however wide
NOISE = slice(2, 2 + MODES)  # modes above those in which a growth shows that is not linear
SAME = 2e-3  # relative: no bend of errors is known better
EXPONENTS = np.linspace(-0.9, 20.0, 2091) + 1e-4  # of t that a bend is compared with


@dataclass(frozen=True)
class Verdict:
    """How errors move, in words.

    Attributes
    ----------
    verdict : str
        One of `VERDICTS`.
    shared : bool
        Of a linear drift, or a worse one: whether it is common to all starts, which the mean over
        them shows, and not of another sign in each.
    exponent, low, high : float
        p of a growth like tᵖ and its 95 % interval; NaN where nothing has grown. Of a random walk
        that shows below an oscillation p = ½ is what the test says; it has no interval.
    grown, grown_low, grown_high : float
        Root mean square over the starts of what has grown until the end, with a 95 % interval, in
        the quantity's units; NaN where nothing has.
    reason : str
        Why undecided, and what to add to the study; or what else is to be said.
    """

    verdict: str
    shared: bool = False
    exponent: float = np.nan
    low: float = np.nan
    high: float = np.nan
    grown: float = np.nan
    grown_low: float = np.nan
    grown_high: float = np.nan
    reason: str = ""


@dataclass(frozen=True)
class _Ensemble:
    """Series with any error at all, their spectrum, and how independent they are."""

    parts: SlowParts
    starts: int
    signed: bool
    shape: np.ndarray
    alike: float  # independent ones, by all that is in them
    apart: float  # of their differences from the mean
    degrees: float


def judge(parts, signed=True, starts=None):
    """The verdict on an ensemble, or on one run.

    Parameters
    ----------
    parts : SlowParts
        Of the error's windows; at least `slow_parts.FEWEST` of them.
    signed : bool
        Whether the error has a sign; norms and sizes have none.
    starts : int, optional
        How many initial conditions they are of, where it is fewer than there are series: vectors
        have a series for each component.

    Returns
    -------
    Verdict
    """
    if not np.any(parts.trend) and not np.any(parts.modes):
        return Verdict(NONE, reason="" if np.any(parts.squares) else ZERO)
    ensemble = _ensemble(parts, signed, parts.starts if starts is None else starts)
    drifts = ensemble.starts > 1 and _mean_drifts(ensemble)
    if signed and drifts:
        return _shared(ensemble)
    found = _of_each(ensemble)
    if found.verdict == NONE and drifts and not found.reason:
        reason = "its mean grows, like √t or like t: add starts, or ten times the duration"
        found = Verdict(UNDECIDED, reason=reason)
    if found.verdict in (NONE, UNDECIDED, WALK) and ensemble.starts >= FEWEST_STARTS:
        late = _explosive(parts)
        found = late if late is not None else found
    return found


def _ensemble(parts, signed, starts):
    there = np.flatnonzero(np.any(parts.modes, axis=1) | (parts.trend != 0))
    if len(there) > MOST_STARTS:
        there = there[np.linspace(0, len(there) - 1, MOST_STARTS).astype(int)]
    if len(there) < parts.starts:
        parts = replace(
            parts, trend=parts.trend[there], modes=parts.modes[there], bends=parts.bends[there]
        )
    # Rounding of the windows themselves is no signal: an exact line has no residuals.
    size = np.sqrt(parts.trend**2 + np.sum(parts.modes**2, axis=1, keepdims=True).T[0])
    modes = np.where(np.abs(parts.modes) > 1e-14 * size[:, None], parts.modes, 0.0)
    vectors = np.concatenate([parts.trend[:, None], modes], axis=1)
    vectors = vectors / size[:, None]
    shape = shape_of(vectors)
    rest, series = parts.modes, parts.starts
    # What starts have in common may be in their slowest modes alone.
    alike = min(_independent(rest), _independent(rest[:, :MODES]))
    apart = _independent(rest - rest.mean(axis=0)) if series >= FEWEST_STARTS else float(series)
    n = vectors.shape[1]
    degrees = max(alike * (n / (n + 2) if series > 1 else 1.0), 1.0)
    return _Ensemble(parts, min(starts, series), signed, shape, alike, apart, degrees)


def _independent(vectors):
    vectors = vectors[np.any(vectors, axis=1)]
    return independent(vectors, shape_of(vectors)) if len(vectors) else 1.0


def _mean_drifts(ensemble):
    """Whether the mean over the starts has a trend: above their scatter, and above its own noise.

    The first alone sees a random walk in each start, the second what all starts share: an
    oscillation in phase, or how they leave their initial states.
    """
    parts = ensemble.parts
    scatter = np.std(parts.trend, ddof=1) / np.sqrt(ensemble.apart)
    certain = stdtrit(max(ensemble.apart - 1, 1.0), STRICTLY)
    if not abs(parts.trend.mean()) > certain * scatter:
        return False
    walking = ensemble.alike < FEWEST_STARTS  # what is common to them may walk
    return any(_stands_out(one, walking) for one in (parts.of_mean(), parts.of_ranks()))


def _stands_out(one, walking=True):
    """Whether a single series' trend stands out, from its noise or, `walking`, from a walk's."""
    modes = one.modes[0, :MODES]
    k = np.arange(2, 2 + MODES) if walking else 1.0
    noise = np.sqrt(np.mean((k * modes) ** 2))
    return abs(one.trend[0]) > stdtrit(MODES, CERTAIN) * noise


def _shared(ensemble):
    """The mean over the starts drifts: like which power of t?"""
    parts = ensemble.parts
    weights = np.sign(parts.trend.mean()) * _weights(parts)[:, None]
    noise = np.mean(np.mean(weights * parts.modes, axis=0)[NOISE] ** 2)
    exponent = _power(parts, weights * parts.bends, ensemble.apart, noise)
    drift = abs(parts.trend.mean()) / parts.scale
    half = stdtrit(max(ensemble.apart - 1, 1.0), 0.975) * np.std(parts.trend, ddof=1)
    half /= parts.scale * np.sqrt(ensemble.apart)
    span = _span(parts)
    grown = (drift * span, max(drift - half, 0.0) * span, (drift + half) * span)
    return _by_exponent(exponent, True, grown)


def _span(parts):
    return (parts.times[-1] - parts.times[0]) * len(parts.times) / (len(parts.times) - 1)


def _by_exponent(exponent, shared, grown=(np.nan,) * 3):
    """Linear unless the exponent is surely another, by a margin that matters."""
    p, low, high, surely_low, surely_high = exponent
    numbers = {"exponent": p, "low": low, "high": high}
    numbers |= dict(zip(("grown", "grown_low", "grown_high"), grown, strict=True))
    if is_worse(p, surely_low):
        return Verdict(WORSE, shared, **numbers)
    if surely_high < 1 and p <= 1 - MARGIN:
        reason = "it drifts, ever slower: ten times the duration shows if that ends"
        return Verdict(UNDECIDED, shared, **numbers, reason=reason)
    if not ROUGH[0] <= p <= ROUGH[1]:
        power = f"like a power of t between {low:.1f} and {high:.1f}"
        reason = f"it drifts, {power if high - low < 5 else 'but unevenly'}: "
        reason += "ten times the duration tells, or more starts"
        return Verdict(UNDECIDED, shared, **numbers, reason=reason)
    return Verdict(LINEAR, shared, **numbers)


def is_worse(exponent, surely_low):
    """Whether an exponent is above 1: surely, and by a margin that matters."""
    return bool(surely_low > 1 and exponent >= 1 + MARGIN)


def _power(parts, bends, starts, noise):
    """p of a mean that grows like tᵖ, from how much more it grows in the last third.

    Parameters
    ----------
    parts : SlowParts
        Whose windows they are.
    bends : ndarray, shape ``(starts, 2)``
        Of growing errors; positive in the mean.
    starts : float
        Independent ones.
    noise : float
        Variance of the windows of the mean that is common to all starts.

    Returns
    -------
    tuple of float
        p, its 95 % interval and its 99.7 % interval, by Fieller's method.
    """
    mean = bends.mean(axis=0)
    spread = np.cov(bends.T) / starts if len(bends) > 1 else np.zeros((2, 2))
    noise = noise * parts.contrasts @ parts.contrasts.T + np.diag((SAME * mean) ** 2)
    since = (parts.times - _start(parts.times)) / _span(parts)
    bent = parts.contrasts @ since[:, None] ** EXPONENTS
    ratio = bent[1] / bent[0]
    apart = (mean[1] - ratio * mean[0]) ** 2
    weight = np.stack([-ratio, np.ones_like(ratio)])
    variance = np.einsum("ip,ij,jp->p", weight, spread + noise, weight)
    variance = np.maximum(variance, FLOOR)
    distance = np.sqrt(apart / variance)
    best = EXPONENTS[np.argmin(distance)]
    freedom = max(starts - 1, MODES)
    reach = [max(stdtrit(freedom, level), distance.min()) for level in (0.975, CERTAIN)]
    inside = [EXPONENTS[distance <= furthest] for furthest in reach]
    return best, inside[0].min(), inside[0].max(), inside[1].min(), inside[1].max()


def _of_each(ensemble):
    """What the starts show each by itself, where their mean does not drift."""
    parts, starts = ensemble.parts, ensemble.starts
    alone = starts == 1 and _stands_out(parts.of_ranks())
    if rise_probability(ensemble.shape, ensemble.degrees) > RARE and not alone:
        return Verdict(NONE)
    if not ensemble.signed and parts.trend.mean() < 0:
        return Verdict(NONE, reason="it falls")
    if starts < FEWEST_STARTS:
        return _of_few(ensemble, alone)
    fit = walk_fit(ensemble.shape, ensemble.degrees, ensemble.signed)
    grown = _grown(ensemble)
    if fit.steeper > STRICT:
        return _by_exponent(_own_power(ensemble), _of_one_sign(ensemble.parts.trend), grown)
    if ensemble.alike < FEWEST_STARTS:
        return Verdict(UNDECIDED, reason=_cannot_tell(ensemble))
    if fit.levelling > CLEAR:
        reason = f"it wanders, with a memory of about {fit.memory:.1g} of the run"
        if fit.memory <= LONG:
            return Verdict(NONE, reason=reason)
        return Verdict(UNDECIDED, reason=f"{reason}: ten times the duration tells")
    if fit.bending < BENT:
        reason = "it grows, like √t or like t, hardly above the oscillation: "
        return Verdict(UNDECIDED, reason=reason + "ten times the duration tells, or more starts")
    if fit.lasting < CLEAR or ensemble.alike < FEWEST_WALKS:
        reason = "it grows like √t, or wanders about as slowly as the run is long"
        advice = f"{FEWEST_WALKS} starts or more tell, or ten times the duration"
        return Verdict(UNDECIDED, reason=f"{reason}: {advice}")
    numbers = dict(zip(("grown", "grown_low", "grown_high"), grown, strict=True))
    return Verdict(WALK, exponent=0.5, **numbers)


def _of_few(ensemble, alone):
    """One run, or a few: a drift, or what a random walk could be too."""
    parts = ensemble.parts
    modes = min(MODES, parts.modes.shape[1])
    steep = steeper_probability(ensemble.shape, ensemble.degrees, modes, ensemble.signed)
    if alone or steep < RARE:
        return _by_exponent(_own_power(ensemble), _of_one_sign(parts.trend))
    return Verdict(UNDECIDED, reason=_cannot_tell(ensemble))


def _cannot_tell(ensemble):
    """Why so few starts, or such that resemble one another, leave it undecided."""
    starts = ensemble.starts
    number = f"{starts} start{'s' if starts > 1 else ''}"
    if starts < FEWEST_STARTS:
        return (
            f"{number} cannot tell a drift from a random walk or an oscillation slower than the "
            f"run: {FEWEST_STARTS} starts or more tell, or ten times the duration"
        )
    return (
        f"{number} so alike cannot tell a drift from a random walk or an oscillation slower than "
        "the run: starts further apart tell, or ten times the duration"
    )


def _of_one_sign(trend):
    """Whether all trends have one sign, but for so many as chance allows of two."""
    return bool(abs(np.sign(trend).sum()) >= min(3 * np.sqrt(len(trend)), len(trend)))


def _own_power(ensemble):
    """p of the growth of each start by itself, whatever its sign."""
    parts = ensemble.parts
    weights = (np.sign(parts.trend) * _weights(parts))[:, None]
    bends = weights * parts.bends
    if parts.starts >= FEWEST_STARTS:
        return _power(parts, bends, ensemble.alike, 0.0)
    noise = np.mean((weights * parts.modes[:, NOISE]) ** 2) / ensemble.degrees
    return _power(parts, bends.mean(axis=0)[None], ensemble.degrees, noise)


def _weights(parts):
    """Weights of the starts, of mean 1: those with little noise beside their drift count more."""
    noise = np.mean(parts.modes[:, NOISE] ** 2, axis=1)
    weights = 1 / (noise + np.median(noise) + SAME**2 * np.mean(parts.trend**2))
    return weights / weights.mean()


def _grown(ensemble):
    """Root mean square at the end of what grows in each start, with a 95 % interval.

    What the trends have in common with the modes above them, the floor, is taken off.
    """
    parts = ensemble.parts
    strength = np.mean(parts.trend**2)
    spread = np.sqrt(np.var(parts.trend**2) / ensemble.alike)
    k = np.arange(2, 2 + parts.modes.shape[1])
    walk = 1 / k**2
    floor = max(np.polynomial.polynomial.polyfit(walk, np.mean(parts.modes**2, axis=0), 1)[0], 0)
    # Of a walk of unit rms at the end the trend has the variance windows/10, of a line windows/12.
    to_end = 10 / len(parts.times)
    factor = np.exp(1.96 * spread / strength)
    values = strength * np.array([1.0, 1 / factor, factor]) - floor
    return tuple(float(x) for x in np.sqrt(np.maximum(values, 0.0) * to_end))


def _explosive(parts):
    """A verdict where the rms over the starts grows faster than t in the last decade, or None."""
    exponent = growth_exponent(parts.times - _start(parts.times), parts.squares, parts.members)
    if exponent is None:
        return None
    slope, spread, starts = exponent
    certain, half = (stdtrit(starts - 1, level) * spread for level in (CERTAIN, 0.975))
    if is_worse(slope, slope - certain):
        return Verdict(WORSE, exponent=slope, low=slope - half, high=slope + half)
    return None


def _start(times):
    return times[0] - (times[1] - times[0]) / 2


def growth_exponent(times, squares, members):
    """Slope of log rms over log t in the last decade, with the jackknife's standard error.

    Parameters
    ----------
    times : ndarray, shape ``(n,)``
        Since the start of the run.
    squares : ndarray, shape ``(groups, n)``
        Sums of squares over groups of starts.
    members : ndarray of int, shape ``(groups,)``

    Returns
    -------
    tuple of float or None
        Slope, standard error, and how many groups it is from; None where there is no error.
    """
    late = times >= times[-1] / 10 * (1 - 1e-9)
    squares, log_times = squares[:, late], np.log(times[late])
    total = squares.sum(axis=0)
    if not np.all(total > 0) or late.sum() < 2 or len(squares) < 2:
        return None
    weights = np.gradient(log_times)
    centred = log_times - np.average(log_times, weights=weights)
    share = weights * centred / np.sum(weights * centred**2)
    rest = (members.sum() - members)[:, None]
    others = 0.5 * np.log(np.maximum(total - squares, FLOOR) / rest) @ share
    slope = 0.5 * np.log(total / members.sum()) @ share
    count = len(squares)
    return float(slope), float(np.sqrt((count - 1) * np.var(others))), count
