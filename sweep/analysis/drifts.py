"""How far an invariant wanders, and whether it drifts."""

from dataclasses import dataclass, replace

import numpy as np

from sweep.analysis.cells import (
    PER_RUN,
    STATISTICS,
    chosen_cells,
    chosen_quantities,
    read_errors,
)
from sweep.analysis.growth_fits import fit_sums, verdict_of_growth
from sweep.analysis.selection import without_repeats
from sweep.analysis.slow_parts import FEWEST, slope_interval, slow_parts, windows_of
from sweep.analysis.verdicts import LINEAR, NONE, UNDECIDED, WALK, WORSE, Verdict, judge

GROWING = (WALK, LINEAR, WORSE)
COULD_HIDE = "a drift as large as the error could hide: add starts, or ten times the duration"


@dataclass(frozen=True)
class Spread:
    """Median and range over the starts."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class DriftEstimate:
    """How one quantity's error behaves under one integrator at one step size.

    Attributes
    ----------
    quantity : str
        ``energy``, ``momentum``, ``unit_length``, …
    integrator : str
        The label in the study.
    parameters : dict
        Values of the scanned axes.
    step_size, tolerance : float
        One is NaN: adaptive integrators have a tolerance, the others a step size.
    starts, left_out : int
        Initial conditions that count, and runs that failed, are not finished or have left the
        study.
    duration : float
    drift, low, high : float
        Slope of the signed error over time, mean over the starts, and its 95 % interval; NaN
        where `reason` says why. For a vector it is the slope of the norm of the change.
    mean_abs : Spread
        Mean of |error| over the steps k = 0 … N.
    max_abs : Spread
        Largest |error|.
    verdict : str
        How the error moves over the run: ``no drift seen``, ``√t`` (a random walk), ``linear``,
        ``worse than linear`` or ``undecided``; see `verdicts.judge`. No drift seen does not say
        that there is none: `bound` says how much could hide.
    shared : bool
        Of a drift, whether it has one sign in all starts, and not another one in each.
    exponent, exponent_low, exponent_high : float
        p of a growth like tᵖ and its 95 % interval; NaN where nothing is seen to grow.
    grown, grown_low, grown_high : float
        Root mean square over the starts of what has grown until the end, and its 95 % interval;
        NaN as above.
    advice : str
        Why the verdict is undecided and what to add to the study, or what else is to be said.
    steps : float
        Of a run, the median over the starts: with `duration` the horizon of the verdict.
    every_step : bool
        Whether mean and drift are of every step, or only of the samples: so where adaptive steps
        are longer than sample intervals. The maximum is of every step where the store holds it.
    units, time_units : str
    reason : str
    """

    quantity: str
    integrator: str
    parameters: dict
    step_size: float
    tolerance: float
    starts: int
    left_out: int
    duration: float
    steps: float
    drift: float
    low: float
    high: float
    mean_abs: Spread
    max_abs: Spread
    verdict: str
    shared: bool
    exponent: float
    exponent_low: float
    exponent_high: float
    grown: float
    grown_low: float
    grown_high: float
    advice: str
    every_step: bool
    units: str
    time_units: str
    reason: str

    @property
    def bound(self):
        """The largest |drift| inside the 95 % interval."""
        return max(abs(self.low), abs(self.high))

    @property
    def rate(self):
        """In which units a drift is: ``J/s``, or ``per unit time`` of a system without units."""
        if self.units == "1":
            return "per unit time" if self.time_units == "1" else f"per {self.time_units}"
        return f"{self.units}/{'unit time' if self.time_units == '1' else self.time_units}"

    @property
    def span(self):
        """The time over which the drift was seen: ``100 s``, or ``t = 100``."""
        if self.time_units == "1":
            return f"t = {self.duration:g}"
        return f"{self.duration:g} {self.time_units}"

    @property
    def sentence(self):
        """The finding in words. Seeing no drift bounds it, and does not show that there is none."""
        if np.isnan(self.bound):
            return f"no drift measured: {self.reason}"
        samples = "" if self.every_step else ", from samples"
        return f"|drift| ≤ {self.bound:.2g} {self.rate} over {self.span} (95 %{samples})"

    @property
    def in_words(self):
        """The verdict, with the interval that suits it, and what else is to be said."""
        words = [self.verdict + (f": {self.advice}" if self.advice else "")]
        if self.verdict in GROWING:
            if np.isfinite(self.exponent_low):
                words.append(f"like t^{self.exponent_low:.2f} – t^{self.exponent_high:.2f}")
            if self.verdict != WALK and self.starts > 1:
                words.append("of one sign" if self.shared else "of another sign in each start")
            if np.isfinite(self.grown) and not self.shared:
                units = "" if self.units == "1" else f" {self.units}"
                ends = f"{self.grown_low:.2g} – {self.grown_high:.2g}{units}"
                words.append(f"rms over the starts {ends} at the end")
        return ", ".join(words)

    @property
    def finding(self):
        """The verdict in words, with the horizon over which it was seen."""
        return f"{self.in_words}; over {self.span}, {self.steps:.3g} steps, {self.starts} starts"


def drift_table(dataset, quantities=None, step_sizes="all"):
    """Measure error and drift of invariants and constraints, run by run and over the starts.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    quantities : sequence of str, optional
        E.g. ``("energy", "momentum")``; all by default, that is every variable ``…_error`` that
        is not measured against a reference.
    step_sizes : {"all", "smallest"}, optional
        Every step size (or tolerance) of each integrator, or only its smallest.

    Returns
    -------
    list of DriftEstimate
        By integrator, scanned values, step size and quantity.

    Raises
    ------
    InputError
        When a quantity has no error in the dataset, or `step_sizes` is neither.
    """
    dataset = without_repeats(dataset)
    quantities = chosen_quantities(dataset, quantities)
    wanted = [f"{quantity}_error{of}" for quantity in quantities for of in STATISTICS]
    wanted += quantities  # a value beside its error: it has a sign
    dataset = dataset[[name for name in (*wanted, *PER_RUN) if name in dataset]]
    return [
        _estimate(cell, key, quantity)
        for key, cell in chosen_cells(dataset, step_sizes)
        for quantity in quantities
    ]


def _estimate(cell, key, quantity):
    key = dict(key)
    errors = read_errors(cell, quantity)
    reason = _lacks(errors)
    drift, low, high = (np.nan,) * 3 if reason else slope_interval(errors.parts)
    found, largest = verdict_of(errors), _spread(errors.max_abs)
    hidden = max(abs(low), abs(high)) * (errors.ends[-1] - errors.ends[0])
    if found.verdict == NONE and hidden > largest.median:
        found = replace(found, verdict=UNDECIDED, reason=COULD_HIDE)
    return DriftEstimate(
        quantity=quantity,
        integrator=key.pop("integrator"),
        step_size=key.pop("step_size"),
        tolerance=key.pop("tolerance", np.nan),
        parameters=key,
        starts=errors.starts,
        left_out=errors.left_out,
        duration=float(errors.ends[-1] - errors.ends[0]),
        steps=float(np.median(errors.steps)) if errors.starts else np.nan,
        drift=drift,
        low=low,
        high=high,
        mean_abs=_spread(errors.mean_abs),
        max_abs=largest,
        verdict=found.verdict,
        shared=found.shared,
        exponent=float(found.exponent),
        exponent_low=float(found.low),
        exponent_high=float(found.high),
        grown=found.grown,
        grown_low=found.grown_low,
        grown_high=found.grown_high,
        advice=found.reason,
        every_step=errors.every_step,
        units=cell[f"{quantity}_error"].attrs.get("units", "1"),
        time_units=cell["time"].attrs.get("units", "1"),
        reason=reason,
    )


def verdict_of(errors):
    """How the errors of a cell move: by windows, or by their growth where samples thin out.

    Parameters
    ----------
    errors : CellErrors

    Returns
    -------
    Verdict
    """
    lacks = _lacks(errors)
    if not lacks:
        return judge(errors.parts, errors.signed)
    if errors.starts and len(errors.middles) > errors.windows:
        sums = (errors.squares, errors.members, errors.rates, errors.signed)
        fit = fit_sums(errors.middles, *sums)
        if np.isfinite(fit.exponent) or fit.verdict != UNDECIDED:
            return verdict_of_growth(fit)
        lacks = f"{lacks}; {fit.reason}"
    return Verdict(UNDECIDED, reason=lacks)


def _lacks(errors):
    """Why no drift can be measured; empty where it can."""
    if not errors.starts:
        return "no run is complete"
    if errors.windows >= FEWEST:
        return ""
    return _too_few(errors.windows, len(errors.middles))


def _spread(values):
    if len(values) == 0:
        return Spread(np.nan, np.nan, np.nan)
    return Spread(float(np.median(values)), float(values.min()), float(values.max()))


def fit_drift(ends, means):
    """Slope of a series over time, with a 95 % interval that autocorrelation does not narrow.

    Parameters
    ----------
    ends : ndarray, shape ``(intervals + 1,)``
        Where the time intervals end, and the start of the first.
    means : ndarray, shape ``(starts, intervals)``
        Mean of the signed error over each interval.

    Returns
    -------
    slope, low, high : float
        NaN where it cannot be measured.
    reason : str
        Why it cannot.

    Notes
    -----
    Window means of the series are fitted by least squares. The variance of the slope is that of
    white noise as strong as the slow part of the residuals: their lowest cosine modes behind the
    constant and the trend (equal-weighted cosines; Lazarus, Lewis, Stock and Watson 2018), with
    as many degrees of freedom; of the lowest 3 or 6 those that give the wider interval. An
    oscillation that is fast beside the run therefore hardly widens it, one of a few cycles does,
    or a memory of up to a tenth of the run. What is slower than the run is drift as far as the run
    shows. Over several starts another interval follows from how far their slopes lie apart, which
    alone sees a random walk, and the wider one is given: it does not see what all starts share.
    """
    if len(means) == 0:
        return np.nan, np.nan, np.nan, "no run is complete"
    times, windows = windows_of(ends, means)
    if len(times) < FEWEST:
        return np.nan, np.nan, np.nan, _too_few(len(times), means.shape[1])
    return *slope_interval(slow_parts(times, windows)), ""


def _too_few(windows, intervals):
    if windows == intervals:
        return f"needs {FEWEST} sample intervals, has {windows}: take more samples"
    return (
        f"needs {FEWEST} windows as long as the last sample interval, has {windows}: "
        "take more samples"
    )
