"""What the errors of some initial conditions say of others: order statistics and tails."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

CONFIDENCE = 0.95
# Of new initial conditions, that may exceed what is found for them: all of twenty keep it then
# in nineteen of twenty sets.
RARE = 1 / 400
TAIL = 4  # of so many errors the largest is taken for their tail
LEAST_TAIL = 3


def share_that_keeps(kept: int, count: int, confidence: float) -> float:
    """The least share of initial conditions that keep a bound which `kept` of `count` kept.

    Parameters
    ----------
    kept, count : int
        Of initial conditions drawn as the others are.
    confidence : float

    Returns
    -------
    float
        The one-sided lower limit of Clopper and Pearson (Biometrika 26, 1934); where all kept it,
        (1 − confidence)^(1/count).
    """
    return float(betaincinv(kept, count - kept + 1, 1.0 - confidence)) if kept else 0.0


def confidence_of_attempt(attempt: int) -> float:
    """The confidence of the limit of one of several attempts, counted from 1.

    Half of what may be wrong is spent on each, of what is left: with `CONFIDENCE` all limits hold.
    """
    return 1.0 - (1.0 - CONFIDENCE) * 0.5**attempt


def rare_error(errors: ArrayLike, rare: float = RARE) -> float:
    """An error that few new initial conditions exceed: a share of `rare`, estimated.

    Weissman's quantile (J. Amer. Statist. Assoc. 73, 1978) of the tail that the largest quarter of
    the errors has, by Hill's estimator; at least the largest of them.

    Parameters
    ----------
    errors : ndarray, shape (starts,)
        Infinite where a run failed.

    Returns
    -------
    float
    """
    errors = np.sort(np.asarray(errors, dtype=float))
    count, largest = len(errors), float(errors[-1])
    tail = max(LEAST_TAIL, count // TAIL)
    if count <= tail or not np.isfinite(largest) or not errors[-tail - 1] > 0:
        return largest
    threshold = errors[-tail - 1]
    index = float(np.mean(np.log(errors[-tail:] / threshold)))
    return max(largest, float(threshold * (tail / (count * rare)) ** index))
