"""What errors of some initial conditions imply for others: binomial limits and tail quantiles."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

CONFIDENCE = 0.95
# Share of new initial conditions that may exceed the estimated error: in 19 of 20 sets of twenty,
# all are below it then.
RARE = 1 / 400
TAIL = 4  # the largest of so many errors belongs to the tail
LEAST_TAIL = 3
FARTHEST = 10.0  # times the largest error that was seen: what is known of a tail goes no farther


def share_that_keeps(kept: int, count: int, confidence: float) -> float:
    """Lower confidence limit of the share of initial conditions that keep a bound.

    Parameters
    ----------
    kept, count : int
        Number of initial conditions that keep it, and of all that were drawn.
    confidence : float

    Returns
    -------
    float
        The one-sided lower limit of Clopper and Pearson (Biometrika 26, 1934); where all kept it,
        (1 − confidence)^(1/count).
    """
    return float(betaincinv(kept, count - kept + 1, 1.0 - confidence)) if kept else 0.0


def confidence_of_attempt(attempt: int) -> float:
    """Confidence level of the limit of one of several attempts, counted from 1.

    Each spends half of the error probability that is left: all limits hold with `CONFIDENCE`.
    """
    return 1.0 - (1.0 - CONFIDENCE) * 0.5**attempt


def rare_error(errors: ArrayLike, rare: float = RARE) -> float:
    """Estimate the error that a share of `rare` of new initial conditions exceeds.

    Weissman's quantile (J. Amer. Statist. Assoc. 73, 1978) of the tail that the largest quarter of
    the errors has, by Hill's estimator; at least the largest of them, at most `FARTHEST` times it.

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
    logs = np.log(errors[-tail - 1 :])
    beyond = np.mean(logs[1:] - logs[0]) * np.log(tail / (count * rare)) - (logs[-1] - logs[0])
    return largest * float(np.exp(np.clip(beyond, 0.0, np.log(FARTHEST))))
