"""How far an invariant wanders, and whether it drifts."""

from dataclasses import dataclass

import numpy as np
from scipy.fft import dct
from scipy.special import stdtrit

from integrators.errors import InputError, check_known
from sweep.analysis.selection import (
    against_reference,
    complete,
    groups,
    scanned_axes,
    take,
    without_repeats,
)

WINDOWS = 64  # at most; their means are what a drift is fitted to
MODES = 6  # cosines that carry the slow part of a series
FEWEST = MODES + 2  # windows: constant and trend take two

STATISTICS = ("", "_mean", "_abs_mean", "_abs_max")  # behind `energy_error`
PER_RUN = ("sample_count", "status", "steps")


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
    drift: float
    low: float
    high: float
    mean_abs: Spread
    max_abs: Spread
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
    dataset = dataset[[name for name in (*wanted, *PER_RUN) if name in dataset]]
    return [
        _estimate(cell, key, quantity)
        for key, cell in chosen_cells(dataset, step_sizes)
        for quantity in quantities
    ]


def chosen_quantities(dataset, quantities):
    """The quantities that are named, or all that are recorded; `InputError` if one is not."""
    known = recorded_quantities(dataset)
    chosen = known if quantities is None else tuple(quantities)
    for quantity in chosen:
        check_known("quantity", quantity, known, key="quantity")
    return chosen


def chosen_cells(dataset, step_sizes):
    """The runs of each integrator, scanned values and step size, in memory one after another.

    Parameters
    ----------
    dataset : xarray.Dataset
    step_sizes : {"all", "smallest"}

    Yields
    ------
    key : dict
    cell : xarray.Dataset

    Raises
    ------
    InputError
        When `step_sizes` is neither.
    """
    if step_sizes not in ("all", "smallest"):
        raise InputError(
            f"step_sizes is {step_sizes!r}, and must be 'all' or 'smallest'.", key="step_sizes"
        )
    step_axes = [name for name in ("step_size", "tolerance") if name in dataset.coords]
    names = ["integrator", *scanned_axes(dataset), *step_axes]
    for _, runs in groups(dataset, ["integrator"]):
        # One integrator at a time bounds the memory that a large store takes.
        of_integrator = take(dataset, runs)
        cells = list(groups(of_integrator, names))
        for key, runs in _smallest(cells) if step_sizes == "smallest" else cells:
            yield key, take(of_integrator, runs).load()


def recorded_quantities(dataset):
    """Names of the quantities whose error along the run is stored, e.g. ``("energy",)``."""
    return tuple(
        str(name).removesuffix("_error")
        for name, array in dataset.data_vars.items()
        if str(name).endswith("_error")
        and set(array.dims) == {"run", "time"}
        and name != "reference_error"
        and not against_reference(dataset, name)
    )


def _smallest(cells):
    """Of each integrator and combination of scanned values the smallest step size."""
    smallest = {}
    for key, runs in cells:
        scanned = tuple((k, v) for k, v in key.items() if k not in ("step_size", "tolerance"))
        # Groups ascend with the step size, so the first is the smallest.
        smallest.setdefault(scanned, (key, runs))
    return smallest.values()


def _estimate(cell, key, quantity):
    key = dict(key)
    counts = complete(cell)
    series = _series(take(cell, np.flatnonzero(counts)), quantity)
    left_out = int((~counts).sum()) + int((~series.finite).sum())
    drift, low, high, reason = fit_drift(series.ends, series.mean[series.finite])
    return DriftEstimate(
        quantity=quantity,
        integrator=key.pop("integrator"),
        step_size=key.pop("step_size"),
        tolerance=key.pop("tolerance", np.nan),
        parameters=key,
        starts=int(series.finite.sum()),
        left_out=left_out,
        duration=float(series.ends[-1] - series.ends[0]),
        drift=drift,
        low=low,
        high=high,
        mean_abs=_spread(series.mean_abs[series.finite]),
        max_abs=_spread(series.max_abs[series.finite]),
        every_step=series.every_step,
        units=cell[f"{quantity}_error"].attrs.get("units", "1"),
        time_units=cell["time"].attrs.get("units", "1"),
        reason=reason,
    )


@dataclass(frozen=True)
class _Series:
    """Errors of the complete runs: `mean` over each interval, the rest over each run."""

    ends: np.ndarray
    mean: np.ndarray
    mean_abs: np.ndarray
    max_abs: np.ndarray
    finite: np.ndarray
    every_step: bool


def _series(cell, quantity):
    """The error of one quantity from statistics of every step, or from samples without them."""
    values = {
        of: cell[f"{quantity}_error{of}"].transpose("run", "time").values
        for of in STATISTICS
        if f"{quantity}_error{of}" in cell
    }
    ends, sampled = cell["time"].values, values[""]
    if "_mean" not in values or _has_gaps(values["_mean"][:, 1:], sampled[:, 1:]):
        size = np.abs(sampled)
        largest = np.fmax(size, values.get("_abs_max", size)).max(axis=1)
        finite = np.isfinite(sampled).all(axis=1)
        means = (sampled[:, 1:] + sampled[:, :-1]) / 2  # of an interval, which need not be short
        of_samples = _over_samples(size, np.diff(ends))
        return _Series(ends, means, of_samples, largest, finite, False)
    mean = values["_mean"][:, 1:]
    # Errors that are norms or sizes have no sign: their mean is the mean of |error|.
    size = values["_abs_mean"][:, 1:] if "_abs_mean" in values else mean
    largest = values["_abs_max"][:, 1:] if "_abs_max" in values else np.abs(sampled)
    mean_abs = _over_every_step(size, np.diff(ends), cell["steps"].values)
    return _Series(ends, mean, mean_abs, largest.max(axis=1), np.isfinite(mean).all(axis=1), True)


def _has_gaps(means, sampled):
    """Whether there are no statistics, or intervals in which no step of an adaptive run ends."""
    return np.isnan(means).all() or bool((np.isnan(means) & np.isfinite(sampled)).any())


def _over_every_step(means, widths, steps):
    """Means of intervals to the mean over k = 0 … N, where k = 0 contributes no error.

    Intervals count by their length, as they do where all steps are equal.
    """
    share = widths / widths.sum()
    per_interval = steps[:, None] * share
    return (means * per_interval).sum(axis=1) / (steps + 1)


def _over_samples(values, widths):
    """Means over the samples, each for the interval that it ends; the first as for the second."""
    weights = np.concatenate([widths[:1], widths])
    return values @ (weights / weights.sum())


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
    as many degrees of freedom. An oscillation that is fast beside the run therefore hardly
    widens the interval, a slow one does. Over several starts a second interval follows from how
    far their slopes lie apart, which alone sees a random walk, and the wider one is given: it
    does not see what all starts share.
    """
    if len(means) == 0:
        return np.nan, np.nan, np.nan, "no run is complete"
    times, windows = _windows(ends, means)
    if len(times) < FEWEST:
        return np.nan, np.nan, np.nan, _too_few(len(times), means.shape[1])
    dt = times - times.mean()
    slopes = windows @ dt / (dt @ dt)
    slope = slopes.mean()
    series = windows.mean(axis=0)
    modes = dct(series - series.mean() - slope * dt, norm="ortho")[2 : 2 + MODES]
    half = stdtrit(MODES, 0.975) * np.sqrt(np.mean(modes**2) / (dt @ dt))
    if len(slopes) > 1:
        apart = np.std(slopes, ddof=1) / np.sqrt(len(slopes))
        half = max(half, stdtrit(len(slopes) - 1, 0.975) * apart)
    return float(slope), float(slope - half), float(slope + half), ""


def _too_few(windows, intervals):
    if windows == intervals:
        return f"needs {FEWEST} sample intervals, has {windows}"
    return (
        f"needs {FEWEST} windows as long as the last sample interval, has {windows}: "
        "take more samples"
    )


def _windows(ends, means):
    """Means over windows of nearly equal length, none shorter than the longest interval."""
    widths = np.diff(ends)
    span = ends[-1] - ends[0]
    count = max(1, min(WINDOWS, int(span / widths.max() * (1 + 1e-9))))
    middles = (ends[1:] + ends[:-1]) / 2
    window = np.minimum((middles - ends[0]) / span * count, count - 1).astype(int)
    weight = np.zeros((len(widths), count))
    weight[np.arange(len(widths)), window] = widths
    weight = weight[:, weight.any(axis=0)]
    weight /= weight.sum(axis=0)
    return middles @ weight, means @ weight
