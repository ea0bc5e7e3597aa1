"""How the error of an invariant grows over an ensemble: like √t, as round-off should, or like t.

Rounding errors that are independent of one another add up like √t (Brouwer's law). What is
alike in all steps, a biased rounding or a solver that stops short, grows like t: of one sign in
all runs, which their mean shows, or of another sign in each, which only the exponent shows.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from sweep.analysis.drifts import chosen_cells, chosen_quantities
from sweep.analysis.selection import complete, take, without_repeats

FEWEST_STARTS = 8  # of which a standard error means something
FEWEST_TIMES = 4  # in the last decade
DECADE = 10.0  # of time, the last one, over which the exponent is
CERTAIN = 0.9985  # two-sided 99.7 %: of random walks, 0.7 % get the verdict t
EPSILON = 2.0**-52


@dataclass(frozen=True)
class GrowthEstimate:
    """How one quantity's error grows under one integrator at one step size.

    Attributes
    ----------
    quantity, integrator : str
    parameters : dict
        Values of the scanned axes.
    step_size, tolerance : float
        One is NaN, as in `DriftEstimate`.
    starts, left_out : int
    steps, duration : float
        Steps of a run, the median over the starts, and their time.
    rms : float
        Root mean square of the error over the starts, at the end.
    exponent, low, high : float
        Slope of log rms over log t in the last decade, and its 95 % interval; NaN where `reason`
        says why.
    drift, drift_error : float
        Drift of the mean over the starts and its standard error, in ε = 2⁻⁵² of the quantity's
        size a step; NaN of quantities without a sign.
    biased : bool
        Whether the mean drifts, with a certainty of 99.7 %.
    verdict : str
        ``t`` where the mean drifts, unless the interval lies below ½, or the exponent is above ½
        with that certainty, else ``√t``
        where the interval holds ½, ``below √t`` where it lies below, and ``above √t``; empty
        where nothing is measured. None of them says how the error grows later.
    units, reason : str
    """

    quantity: str
    integrator: str
    parameters: dict
    step_size: float
    tolerance: float
    starts: int
    left_out: int
    steps: float
    duration: float
    rms: float
    exponent: float
    low: float
    high: float
    drift: float
    drift_error: float
    biased: bool
    verdict: str
    units: str
    reason: str


@dataclass(frozen=True)
class GrowthFit:
    """The exponent and the drift of an ensemble of errors; see `fit_growth`."""

    exponent: float = np.nan
    low: float = np.nan
    high: float = np.nan
    drift: float = np.nan
    drift_error: float = np.nan
    biased: bool = False
    verdict: str = ""
    reason: str = ""


def growth_table(dataset, quantities=None, step_sizes="all"):
    """Measure over the starts how errors grow; arguments as of `drift_table`.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    quantities : sequence of str, optional
    step_sizes : {"all", "smallest"}, optional

    Returns
    -------
    list of GrowthEstimate
        By integrator, scanned values, step size and quantity.

    Raises
    ------
    InputError
        As `drift_table`.
    """
    dataset = without_repeats(dataset)
    quantities = chosen_quantities(dataset, quantities)
    names = [f"{quantity}{of}" for quantity in quantities for of in ("", "_error", "_error_mean")]
    dataset = dataset[[n for n in (*names, "sample_count", "status", "steps") if n in dataset]]
    return [
        _estimate(cell, key, quantity)
        for key, cell in chosen_cells(dataset, step_sizes)
        for quantity in quantities
    ]


def _estimate(cell, key, quantity):
    key, counts = dict(key), complete(cell)
    whole = take(cell, np.flatnonzero(counts))
    error = whole[f"{quantity}_error"].transpose("run", "time").values[:, 1:]
    ends = cell["time"].values
    times = ends[1:]
    if f"{quantity}_error_mean" in whole:
        means = whole[f"{quantity}_error_mean"].transpose("run", "time").values[:, 1:]
        if np.isfinite(means).all() and means.size:
            error, times = means, (ends[1:] + ends[:-1]) / 2
    finite = np.isfinite(error).all(axis=1)
    error, steps = error[finite], whole["steps"].values[finite]
    signed = quantity in whole  # others are sizes or norms, whose means say nothing
    step = (ends[-1] - ends[0]) / np.median(steps) if len(steps) else np.nan
    size = _size(whole, quantity)
    fit = fit_growth(times - ends[0], error, signed)
    to_epsilon = step / (EPSILON * size)
    return GrowthEstimate(
        quantity=quantity,
        integrator=key.pop("integrator"),
        step_size=key.pop("step_size"),
        tolerance=key.pop("tolerance", np.nan),
        parameters=key,
        starts=len(error),
        left_out=len(counts) - len(error),
        steps=float(np.median(steps)) if len(steps) else np.nan,
        duration=float(ends[-1] - ends[0]),
        rms=float(np.sqrt(np.mean(error[:, -1] ** 2))) if len(error) else np.nan,
        exponent=fit.exponent,
        low=fit.low,
        high=fit.high,
        drift=fit.drift * to_epsilon,
        drift_error=fit.drift_error * to_epsilon,
        biased=fit.biased,
        verdict=fit.verdict,
        units=cell[f"{quantity}_error"].attrs.get("units", "1"),
        reason=fit.reason,
    )


def _size(whole, quantity):
    """Root mean square of a quantity over the starts at first; 1 of those that have no value."""
    if quantity not in whole or not whole.sizes["run"]:
        return 1.0
    first = whole[quantity].transpose("run", "time").values[:, 0]
    return float(np.sqrt(np.mean(first**2))) or 1.0


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
    """
    starts = len(error)
    if starts < FEWEST_STARTS:
        return GrowthFit(reason=f"needs {FEWEST_STARTS} starts that are complete, has {starts}")
    late = times >= times[-1] / DECADE * (1 - 1e-9)
    if late.sum() < FEWEST_TIMES:
        return GrowthFit(
            reason=f"needs {FEWEST_TIMES} samples in the last decade, has {late.sum()}"
        )
    square = error[:, late] ** 2
    if not np.all(square.sum(axis=0) > 0.0):
        return GrowthFit(reason="there is no error")
    log_times = np.log(times[late])
    weights = np.gradient(log_times)
    slope = _slope(log_times, square.sum(axis=0), weights)
    others = [_slope(log_times, left, weights) for left in square.sum(axis=0) - square]
    spread = np.sqrt((starts - 1) * np.var(others))
    certain, half = stdtrit(starts - 1, [CERTAIN, 0.975])
    drift = drift_error = np.nan
    if signed:
        rates = (error[:, -1] - error[:, 0]) / (times[-1] - times[0])
        drift, drift_error = rates.mean(), rates.std(ddof=1) / np.sqrt(starts)
    biased = bool(abs(drift) > certain * drift_error)
    low, high = slope - half * spread, slope + half * spread
    # A mean that moves within the round-off of single values, which do not grow, is no drift yet.
    linear = (biased and high >= 0.5) or slope - certain * spread > 0.5
    verdict = "t" if linear else _verdict(low, high)
    return GrowthFit(slope, low, high, drift, drift_error, biased, verdict)


def _verdict(low, high):
    if high < 0.5:
        return "below √t"
    return "√t" if low <= 0.5 else "above √t"


def _slope(log_times, squares, weights):
    """Slope of ½ log squares; NaN where they vanish."""
    with np.errstate(divide="ignore", invalid="ignore"):
        values = 0.5 * np.log(squares)
    centred = log_times - np.average(log_times, weights=weights)
    return np.sum(weights * centred * values) / np.sum(weights * centred**2)
