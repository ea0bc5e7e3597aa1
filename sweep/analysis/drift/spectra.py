"""The slow spectrum of an ensemble, and what it tells of the growth of errors.

In cosine modes k = 1, 2, … of a run, errors that keep to a bounded range and forget within the
run have a flat spectrum, S(k) = s. A random walk of its own in each start has S(k) = s + w/k²:
sines are its Karhunen-Loève functions, hence the cosine modes of a run are independent. A drift
of its own in each start adds to the trend alone. So √t and t are told from an oscillation that is
a hundred times larger, where enough of its cycles fit into the run, and from one another.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

from sweep.analysis.runs.blocks import Floats

OCTAVES = 4  # modes above the trend that its strength is compared with
ITERATIONS = 60  # of Tyler's fixed point, and ten times as many of the fits
NORM = 4.0  # by which the trend of a walk's norm is stronger at most, up to six components
SHORT = 0.1  # of the run: a memory that no random walk may be taken for
MEMORIES = np.geomspace(0.3, 12.0, 24)  # κ in S = s + w/(k² + κ²): a memory of run/(πκ)


def spectrum_shape(vectors: Floats) -> Floats:
    """Variances of the components, of vectors each of which has a scale of its own.

    Tyler's (1987) estimate of a diagonal shape: starts whose errors are a thousand times larger
    than the others' count no more than those.

    Parameters
    ----------
    vectors : ndarray, shape ``(starts, n)``
        None of them zero.

    Returns
    -------
    ndarray, shape ``(n,)``
        Of mean 1.
    """
    squares = vectors**2
    squares = squares / squares.mean(axis=1, keepdims=True)
    floor = 1e-30 * squares.mean()
    shape = np.maximum(squares.mean(axis=0), floor)
    for _ in range(ITERATIONS if len(vectors) > 1 else 0):
        last = shape
        shape = np.maximum((squares / (squares @ (1 / shape))[:, None]).mean(axis=0), floor)
        shape /= shape.mean()
        if np.abs(shape - last).max() < 1e-6:
            break
    return shape / shape.mean()


@dataclass(frozen=True)
class Likeness:
    """How alike starts are, and the number of independent ones that they count as.

    Attributes
    ----------
    starts : int
    share : float
        ρ², from 0 to 1: the mean over the pairs of starts of the squared correlation of their
        whitened vectors, less what chance makes of it. The share of the variance that a mean over
        any number of such starts keeps.
    chance : float
        Standard deviation of ρ² of starts that are independent.
    """

    starts: int
    share: float
    chance: float

    @property
    def effective(self) -> float:
        """Number of independent starts that tell as much: N/(1 + (N − 1)ρ²)."""
        return self.starts / (1 + max(self.starts - 1, 0) * self.share)

    @property
    def certain_share(self) -> float:
        """The part of ρ² that exceeds what chance makes of it, at 99.9 %."""
        return max(self.share - 3 * self.chance, 0.0)

    def starts_needed_for(self, needed: float) -> float:
        """Number of equally alike starts that count as `needed` independent ones.

        Infinite only where the starts are surely so alike.
        """
        share = self.share if needed * self.share < 1 else self.certain_share
        left = 1 - needed * share
        # Rounding must not ask for one more start than there need be.
        return float(np.ceil(needed * (1 - share) / left - 1e-9)) if left > 0 else np.inf


def likeness_of_starts(vectors: Floats) -> Likeness:
    """How alike starts are.

    Parameters
    ----------
    vectors : ndarray, shape ``(starts, n)``
        A start whose vector is zero is like no other.

    Returns
    -------
    Likeness
    """
    every = max(len(vectors), 1)
    vectors = vectors[np.any(vectors, axis=1)]
    starts, n = vectors.shape
    if starts < 2 or n < 2:
        return Likeness(every, 0.0, 0.0)
    # Sizes do not matter here, and their squares would overflow where they are extreme.
    vectors = vectors / np.abs(vectors).max(axis=1, keepdims=True)
    white = vectors / np.sqrt(spectrum_shape(vectors))
    white = white / np.sqrt(np.mean(white**2, axis=1, keepdims=True))
    pairs = (np.sum((white.T @ white) ** 2) - starts * n**2) / (starts * (starts - 1))
    among = starts * (starts - 1) / (every * (every - 1))
    share = (pairs / n**2 - 1 / n) / (1 - 1 / n) * among
    # A squared correlation of independent vectors is Beta(½, (n − 1)/2).
    chance = np.sqrt(4 / ((n - 1) * (n + 2) * starts * (starts - 1))) * among
    return Likeness(every, float(np.clip(share, 0.0, 1.0)), float(chance))


def trend_probability_of_flat_spectrum(shape: Floats, degrees: float) -> float:
    """Probability that a flat spectrum's trend stands out so far above the next modes."""
    ratio = shape[0] / np.mean(shape[1 : 1 + OCTAVES])
    return float(fdtrc(degrees, OCTAVES * degrees, ratio))


def trend_probability_of_random_walk(
    shape: Floats, degrees: float, modes: int, signed: bool = True
) -> float:
    """Probability that a random walk's trend stands out so far; an F test, safe but blunt.

    A floor under the walk makes it safer. `modes` are used.
    """
    k = np.arange(2, 2 + modes)
    ratio = shape[0] / np.mean(k**2 * shape[1 : 1 + modes]) / (1 if signed else NORM)
    return float(fdtrc(degrees, modes * degrees, ratio))


@dataclass(frozen=True)
class WalkFit:
    """Distances of a spectrum from that of a random walk over a floor; roots of likelihood ratios.

    Attributes
    ----------
    steeper : float
        By which the trend stands out above the walk; with a sign.
    bending : float
        By which the modes above the trend rise towards it, as a walk's do and a drift's do not.
    levelling : float
        By which a walk with a memory, w/(k² + κ²), fits better than one without.
    memory : float
        The best 1/(πκ), in parts of the run.
    lasting : float
        By which a walk without a memory fits better than one of `SHORT` of the run; with a sign.
    """

    steeper: float
    bending: float
    levelling: float
    memory: float
    lasting: float


def fit_random_walk_spectrum(shape: Floats, degrees: float, signed: bool = True) -> WalkFit:
    """Fit the spectrum of a random walk over a floor, and measure how far it is off.

    Parameters
    ----------
    shape : ndarray, shape ``(n,)``
        Of the trend and of modes 2, 3, …
    degrees : float
        Of freedom, of each component.
    signed : bool
        Whether the errors have a sign; a norm's walk has a trend up to `NORM` times as strong.

    Returns
    -------
    WalkFit
    """
    k = np.arange(1, len(shape) + 1)
    walks = 1 / (k**2 + np.append(0.0, MEMORIES)[:, None] ** 2)
    both = np.stack([np.ones_like(walks), walks], axis=2)
    above = both[:1, 1:]  # the modes above the trend, fitted without it
    shares = _fit_nonnegative_spectrum_shares(above, shape[1:])
    free = _spectrum_log_likelihood_loss(np.einsum("mkj,mj->mk", above, shares), shape[1:])[0]
    if not signed:
        shape = np.append(np.clip(shares[0].sum(), shape[0] / NORM, shape[0]), shape[1:])
    fitted = np.einsum("mkj,mj->mk", both, _fit_nonnegative_spectrum_shares(both, shape))
    loss = _spectrum_log_likelihood_loss(fitted, shape)
    best = 1 + np.argmin(loss[1:])
    levelling = np.sqrt(degrees * max(loss[0] - loss[best], 0.0))
    apart = loss[0] - free - np.log(shape[0]) - 1
    steeper = np.sign(shape[0] - fitted[0, 0]) * np.sqrt(degrees * max(apart, 0.0))
    flat = (len(shape) - 1) * (np.log(shape[1:].mean()) + 1)
    bending = np.sqrt(degrees * max(flat - free, 0.0))
    memory = 1 / (np.pi * MEMORIES[best - 1])
    better = loss[1 + np.argmin(np.abs(MEMORIES - 1 / (np.pi * SHORT)))] - loss[0]
    lasting = np.sign(better) * np.sqrt(degrees * abs(better))
    return WalkFit(*map(float, (steeper, bending, levelling, memory, lasting)))


def _spectrum_log_likelihood_loss(fitted: Floats, shape: Floats) -> Floats:
    """−2/ν times the log likelihood of chi-squared components."""
    return np.sum(np.log(fitted) + shape / fitted, axis=1)


def _fit_nonnegative_spectrum_shares(parts: Floats, shape: Floats) -> Floats:
    """Maximum likelihood shares of nonnegative parts, by multiplicative updates.

    `parts` has the shape ``(models, n, parts)``; Févotte and Idier (2011).
    """
    shares = np.full((len(parts), parts.shape[2]), shape.mean() / 2) / parts.mean(axis=1)
    for _ in range(10 * ITERATIONS):
        fitted = np.einsum("mkj,mj->mk", parts, shares)
        up = np.einsum("mkj,mk->mj", parts, shape / fitted**2)
        shares = shares * np.sqrt(up / np.einsum("mkj,mk->mj", parts, 1 / fitted))
    return shares
