"""Size and drift of the errors of invariants and constraints."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sweep.analysis.drift.cells import (
    PER_RUN,
    STATISTICS,
    CellErrors,
    cells_chosen_for_drift,
    chosen_drift_quantities,
    read_cell_errors,
    rounding_of_quantity,
)
from sweep.analysis.drift.comparisons import OF_EACH, DriftComparison, compare_drifts
from sweep.analysis.drift.growth_fits import fit_growth_of_cell_errors, verdict_from_growth_fit
from sweep.analysis.drift.slow_modes import (
    FEWEST,
    Slope,
    SlowModes,
    drift_slope_interval,
    is_in_last_decade,
    slow_modes_of_series,
    window_means_of_intervals,
)
from sweep.analysis.drift.verdicts import (
    GROWING,
    NONE,
    UNDECIDED,
    WALK,
    WANDERS,
    Verdict,
    advise_longer_run,
    advise_more_starts,
    judge_drift,
    undecided_verdict_on_cell,
    verdict_with_round_off,
)
from sweep.analysis.efficiency.timing import (
    TIMED,
    comparable_cpu_time_of_cell,
    with_cpu_times_of_runs,
)
from sweep.analysis.reasons import (
    Reason,
    Remedy,
    drift_verdict_in_words,
    until_failure_in_words,
)
from sweep.analysis.runs.blocks import Floats
from sweep.analysis.runs.judged import judged_runs
from sweep.analysis.runs.selection import run_table, run_table_without_repeats

# Samples a decade with which the last of their intervals is a `FEWEST`-th of the run.
THINNEST = int(np.ceil(1 / np.log10(FEWEST / (FEWEST - 1))))


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
    stopped : int
        Of the starts that count those whose runs fail later: where most runs do, they are judged
        until the first one fails; see `runs.judged`.
    duration : float
        Time over which they are judged.
    drift, low, high : float
        Slope of the signed error over time, mean over the starts, and its 95 % interval; NaN
        where `lacks` says why. For a vector it is the slope of the norm of the change.
    wide_low, wide_high : float
        Its 97.5 % interval, by which two drifts are compared; see `compared`.
    mean_abs : Spread
        Mean of |error| over the steps k = 0 … N.
    max_abs : Spread
        Largest |error|.
    verdict : str
        How the error moves over the run: ``no drift seen``, ``√t`` (a random walk), ``linear``,
        ``worse than linear``, ``grows`` (by no law that is told), ``wanders`` (neither surely
        bounded nor by a law), ``at round-off`` or ``undecided``; see `verdicts.judge_drift` and
        `verdicts.verdict_with_round_off`. No drift seen does not say that there is none: `bound`
        says how much could hide.
    shared : bool
        Whether the mean over the starts drifts, as far as their scatter and its own noise show.
    rising, falling, with_mean : int
        Starts whose error rises over the run, by least squares, and falls; and which of the two
        the mean over the starts does.
    effective, likeness : float
        How many independent starts they count as, and how alike they are, from 0 to 1; see
        `spectra.Likeness`.
    signed : bool
        Whether the error has a sign; norms and sizes have none.
    exponent, exponent_low, exponent_high : float
        p of a growth like tᵖ and its 95 % interval; NaN where nothing is seen to grow.
    grown, grown_low, grown_high : float
        Root mean square over the starts of what has grown until the end, and its 95 % interval;
        NaN as above.
    resolution : float
        One rounding of the quantity in the arithmetic of the runs; NaN without a run.
    why : tuple of Reason
        Why the verdict is none, or no closer one, and what would decide; or what else there is.
    steps : float
        Of a run, the median over the starts: with `duration` the horizon of the verdict. Of
        adaptive runs that fail later all their steps.
    every_step : bool
        Whether mean and drift are of every step, or only of the samples: so where adaptive steps
        are longer than sample intervals. The maximum is of every step where the store holds it.
    cpu_time : float
        Of a run in seconds, the median over the starts; NaN where it cannot be compared.
    compared : tuple of DriftComparison
        How many times less it drifts than other integrators of the table, of those that surely
        drift more; see `comparisons.compare_drifts`.
    units, time_units : str
    lacks : tuple of Reason
        Why there is no drift.
    """

    quantity: str
    integrator: str
    parameters: dict[str, Any]
    step_size: float
    tolerance: float
    starts: int
    left_out: int
    stopped: int
    duration: float
    steps: float
    drift: float
    low: float
    high: float
    wide_low: float
    wide_high: float
    mean_abs: Spread
    max_abs: Spread
    verdict: str
    shared: bool
    rising: int
    falling: int
    with_mean: int
    effective: float
    likeness: float
    signed: bool
    exponent: float
    exponent_low: float
    exponent_high: float
    grown: float
    grown_low: float
    grown_high: float
    resolution: float
    why: tuple[Reason, ...]
    every_step: bool
    cpu_time: float
    compared: tuple[DriftComparison, ...]
    units: str
    time_units: str
    lacks: tuple[Reason, ...]

    @property
    def advice(self) -> str:
        """`why` in words."""
        return "; ".join(map(str, self.why))

    @property
    def reason(self) -> str:
        """`lacks` in words."""
        return "; ".join(map(str, self.lacks))

    @property
    def bound(self) -> float:
        """The largest |drift| inside the 95 % interval."""
        return max(abs(self.low), abs(self.high))

    @property
    def size(self) -> float:
        """Size of the growth at the end; NaN where none is seen, or it is not measured."""
        if self.verdict not in GROWING:
            return np.nan
        return self.grown if np.isfinite(self.grown) else abs(self.drift) * self.duration

    @property
    def largest_in_roundings(self) -> float:
        """The largest |error| of any start, in roundings of the quantity."""
        return self.max_abs.high / self.resolution

    @property
    def below_rounding(self) -> bool:
        """Whether what has grown until the end is less than one rounding of the quantity.

        Means over many steps and starts show it all the same.
        """
        return self.size < self.resolution

    @property
    def rate(self) -> str:
        """Units of a drift: ``J/s``, or ``per unit time`` for a system without units."""
        if self.units == "1":
            return "per unit time" if self.time_units == "1" else f"per {self.time_units}"
        return f"{self.units}/{'unit time' if self.time_units == '1' else self.time_units}"

    @property
    def span(self) -> str:
        """The time over which the drift was seen: ``100 s``, or ``t = 100``."""
        if self.time_units == "1":
            return f"t = {self.duration:g}"
        return f"{self.duration:g} {self.time_units}"

    @property
    def sentence(self) -> str:
        """The finding in words. Seeing no drift bounds it, and does not show that there is none."""
        if np.isnan(self.bound):
            return f"no drift measured: {self.reason}"
        samples = "" if self.every_step else ", from samples"
        return f"|drift| ≤ {self.bound:.2g} {self.rate} over {self.span} (95 %{samples})"

    @property
    def in_words(self) -> str:
        """The verdict in words, with the interval that suits it, and its reason."""
        return drift_verdict_in_words(self, self.verdict in GROWING, self.verdict != WALK)

    @property
    def until_failure(self) -> str:
        """The time until which it is judged, in words, where runs fail later; else empty."""
        return until_failure_in_words(self) if self.stopped else ""

    @property
    def finding(self) -> str:
        """The verdict in words, with the horizon over which it was seen."""
        return f"{self.in_words}; over {self.span}, {self.steps:.3g} steps, {self.starts} starts"


def drift_table(
    dataset: xr.Dataset | xr.DataTree,
    quantities: Sequence[str] | str | None = None,
    step_sizes: str = "all",
) -> list[DriftEstimate]:
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
    full = run_table(dataset)
    dataset = run_table_without_repeats(full)
    quantities = chosen_drift_quantities(dataset, quantities)
    dataset = with_cpu_times_of_runs(full, dataset)
    wanted = [f"{quantity}_error{of}" for quantity in quantities for of in STATISTICS]
    wanted += quantities  # a value beside its error: it has a sign
    dataset = dataset[[name for name in (*wanted, *PER_RUN, *TIMED) if name in dataset]]
    rows: list[DriftEstimate] = []
    starts: list[NDArray[np.object_]] = []
    for key, cell in cells_chosen_for_drift(dataset, step_sizes):
        rows += [_drift_estimate_of_cell(cell, key, quantity) for quantity in quantities]
        judged = cell["initial_condition"].values[judged_runs(cell, FEWEST).positions]
        starts += [judged] * len(quantities)
    compared = compare_drifts(rows, starts)
    return [replace(row, compared=found) for row, found in zip(rows, compared, strict=True)]


def _drift_estimate_of_cell(cell: xr.Dataset, key: dict[str, Any], quantity: str) -> DriftEstimate:
    key = dict(key)
    errors = read_cell_errors(cell, quantity)
    lacks = _why_drift_not_measurable(errors)
    (drift, low, high), found = drift_and_verdict_of_cell(errors)
    wide_low = wide_high = np.nan
    if errors.parts is not None:
        _, wide_low, wide_high = drift_slope_interval(errors.parts, OF_EACH)
    resolution = rounding_of_quantity(cell, quantity) if errors.starts else np.nan
    found = verdict_with_round_off(found, errors, resolution)
    return DriftEstimate(
        quantity=quantity,
        integrator=key.pop("integrator"),
        step_size=key.pop("step_size"),
        tolerance=key.pop("tolerance", np.nan),
        parameters=key,
        starts=errors.starts,
        left_out=errors.left_out,
        stopped=errors.stopped,
        duration=float(errors.ends[-1] - errors.ends[0]),
        steps=float(np.median(errors.steps)) if errors.starts else np.nan,
        drift=drift,
        low=low,
        high=high,
        wide_low=wide_low,
        wide_high=wide_high,
        mean_abs=_spread_over_starts(errors.mean_abs),
        max_abs=_spread_over_starts(errors.max_abs),
        verdict=found.verdict,
        shared=found.shared,
        rising=found.rising,
        falling=found.falling,
        with_mean=found.with_mean,
        effective=found.effective,
        likeness=found.likeness,
        signed=found.signed,
        exponent=float(found.exponent),
        exponent_low=float(found.low),
        exponent_high=float(found.high),
        grown=found.grown,
        grown_low=found.grown_low,
        grown_high=found.grown_high,
        resolution=resolution,
        why=found.why,
        every_step=errors.every_step,
        cpu_time=comparable_cpu_time_of_cell(cell),
        compared=(),
        units=cell[f"{quantity}_error"].attrs.get("units", "1"),
        time_units=cell["time"].attrs.get("units", "1"),
        lacks=lacks,
    )


def drift_and_verdict_of_cell(errors: CellErrors) -> tuple[Slope, Verdict]:
    """Measure the drift of the errors of a cell, and judge them.

    Parameters
    ----------
    errors : CellErrors

    Returns
    -------
    drift, low, high : float
        A tuple of the slope and its 95 % interval; NaN where the windows are too few.
    found : Verdict
        It wanders where a drift as large as the error could hide: slowly, by its whole size.
    """
    found = drift_verdict_of_cell(errors)
    if errors.parts is None:
        return (np.nan, np.nan, np.nan), found
    slope = drift_slope_interval(errors.parts)
    hidden = float(np.abs(slope[1:]).max() * (errors.ends[-1] - errors.ends[0]))
    if found.verdict == NONE and hidden > np.mean(errors.max_abs):
        why = _why_drift_could_hide(errors, errors.parts, hidden)
        found = replace(found, verdict=WANDERS, why=(why,))
    return slope, found


def drift_verdict_of_cell(errors: CellErrors) -> Verdict:
    """Judge the errors of a cell by windows, or by their growth where samples thin out.

    Parameters
    ----------
    errors : CellErrors

    Returns
    -------
    Verdict
    """
    if errors.parts is not None:
        found = judge_drift(errors.parts, errors.signed)
        return _drop_advice_of_longer_runs(found) if errors.stopped else found
    lacks = _why_drift_not_measurable(errors)
    if errors.starts and len(errors.interval_middles) > errors.windows:
        fit = fit_growth_of_cell_errors(errors)
        if np.isfinite(fit.exponent) or fit.verdict != UNDECIDED:
            return verdict_from_growth_fit(fit, errors.signed)
        lacks += fit.why
    return undecided_verdict_on_cell(errors, lacks)


def _drop_advice_of_longer_runs(found: Verdict) -> Verdict:
    """Drop the advice of longer runs from a verdict on runs that fail."""
    why = tuple(
        replace(one, remedies=tuple(of for of in one.remedies if of.what != "duration"))
        for one in found.why
    )
    return replace(found, why=why)


def _why_drift_could_hide(errors: CellErrors, parts: SlowModes, hidden: float) -> Reason:
    """The reason that a drift as large as the error could hide, and what would show it.

    The hidden drift falls like 1/√T over a run of length T, and like the root of the number of
    independent starts.
    """
    share = np.float64(hidden / np.mean(errors.max_abs))
    remedies = advise_more_starts(parts, parts.likeness.effective * share**2)
    if not errors.stopped:
        remedies += advise_longer_run(share**2)
    return Reason("hidden drift", float(share), 1.0, tuple(remedies))


def _why_drift_not_measurable(errors: CellErrors) -> tuple[Reason, ...]:
    """Why no drift can be measured; empty where it can."""
    if not errors.starts:
        return (Reason("complete runs", 0, 1),)
    if errors.windows >= FEWEST:
        return ()
    if errors.stopped and (steps := float(np.median(errors.steps))) < FEWEST:
        return (Reason("steps until failure", steps, FEWEST),)
    return (_why_too_few_windows(errors.windows, errors.ends, errors.intervals_of_run),)


def _spread_over_starts(values: Floats) -> Spread:
    if len(values) == 0:
        return Spread(np.nan, np.nan, np.nan)
    return Spread(float(np.median(values)), float(values.min()), float(values.max()))


def fit_drift_slope(ends: Floats, means: Floats) -> tuple[float, float, float, str]:
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
        return np.nan, np.nan, np.nan, str(Reason("complete runs", 0, 1))
    times, windows = window_means_of_intervals(ends, means)
    if len(times) < FEWEST:
        why = _why_too_few_windows(len(times), ends, len(ends) - 1)
        return np.nan, np.nan, np.nan, str(why)
    return *drift_slope_interval(slow_modes_of_series(times, windows)), ""


def _why_too_few_windows(windows: int, ends: Floats, of_run: int) -> Reason:
    """The reason that windows are too few, with the samples of a whole run that would do."""
    intervals = len(ends) - 1
    if not intervals:
        return Reason("sample intervals", 0, FEWEST)
    even = Remedy("samples", float(np.ceil(FEWEST * of_run / intervals)), of_run)
    if windows == intervals:
        longer = Remedy("duration", FEWEST / intervals, 1.0)  # whose samples go on as they are
        remedies = (even, longer) if intervals == of_run else (even,)
        return Reason("sample intervals", windows, FEWEST, remedies)
    now = int(is_in_last_decade(ends[1:] - ends[0]).sum())
    return Reason("windows", windows, FEWEST, (even, Remedy("samples a decade", THINNEST, now)))
