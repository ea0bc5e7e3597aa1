"""Split a drift into the part of the method and the part of rounding.

The part of the method is the drift of a twin in double-double: the same steps, with rounding errors
2⁵² times smaller. The part of rounding is the difference between run and twin.
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from integrators.errors import InputError
from integrators.precision import DOUBLE, DOUBLE_DOUBLE, ROUND_OFF
from sweep.analysis.drift.cells import (
    STATISTICS,
    CellErrors,
    cells_chosen_for_drift,
    chosen_drift_quantities,
    initial_rms_of_quantity,
    read_cell_errors,
)
from sweep.analysis.drift.drifts import drift_and_verdict_of_cell
from sweep.analysis.drift.growth_fits import fit_growth_of_cell_errors
from sweep.analysis.drift.slow_modes import is_in_last_decade
from sweep.analysis.drift.twins import (
    TwinnedRuns,
    entry_of_twin,
    experiment_name,
    has_only_twins,
    pair_runs_with_twins,
)
from sweep.analysis.drift.verdicts import GROWING, NONE, UNDECIDED, WALK
from sweep.analysis.reasons import (
    Reason,
    compared_pairs_in_words,
    drift_part_in_words,
    drift_source_in_words,
    pairs_left_out_in_words,
)
from sweep.analysis.runs.blocks import Floats, Integers
from sweep.analysis.runs.selection import run_table_without_repeats

METHOD = "method"
ROUNDING = "rounding"
BOTH = "both"
NEITHER = "neither"  # is seen to grow
NO_TWIN = "no twin"
SOURCES = (METHOD, ROUNDING, BOTH, NEITHER, UNDECIDED, NO_TWIN)

MUCH = 10.0  # times as large: the other part of a drift does not matter
PARTED = 0.1  # of the twins' oscillation: runs that differ by so much no longer move together
CLEARLY = 100.0  # times one rounding: an oscillation that is none of rounding
SEEN = 256  # starts whose samples are compared to tell if they have parted
TWIN, TWIN_SAMPLES = "twin", "twin_samples"  # variables over the runs of a cell


@dataclass(frozen=True, kw_only=True)
class DriftPart:
    """A drift, or a part of one.

    Attributes
    ----------
    drift, low, high : float
        Slope of the signed error over time, mean over the starts, and its 95 % interval, as
        `drifts.DriftEstimate` has them. Where samples thin out with time it is the change from the
        first interval to the last, as in `growth.GrowthEstimate`. NaN where neither is known.
    verdict : str
        As of `DriftEstimate`; undecided too where the interval of an exponent holds both 0 and ½.
    shared : bool
        Whether the mean over the starts drifts.
    exponent, exponent_low, exponent_high : float
        p of a growth like tᵖ and its 95 % interval; NaN where nothing is seen to grow.
    size : float
        What has grown until the end, root mean square over the starts; where nothing is seen to
        grow, the most that the interval leaves open.
    last : float
        Root mean square of the error over the starts, at the end.
    why : tuple of Reason
        Why the verdict is undecided, or what else is to be said.
    """

    drift: float = np.nan
    low: float = np.nan
    high: float = np.nan
    verdict: str = UNDECIDED
    shared: bool = False
    exponent: float = np.nan
    exponent_low: float = np.nan
    exponent_high: float = np.nan
    size: float = np.nan
    last: float = np.nan
    why: tuple[Reason, ...] = ()

    @property
    def grows(self) -> bool:
        """Whether it is seen to grow."""
        return self.verdict in GROWING

    @property
    def bound(self) -> float:
        """The largest |drift| inside the 95 % interval."""
        return max(abs(self.low), abs(self.high))

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, kw_only=True)
class ArithmeticEstimate:
    """The source of the drift of an error: the method, rounding, or both.

    Attributes
    ----------
    quantity, integrator : str
    parameters : dict
        Values of the scanned axes.
    step_size : float
        NaN of an integrator that has no twin, which stands for all of its step sizes.
    twin : str
        Label of the integrator in double-double; empty where there is none.
    elsewhere : str
        The experiment of the twins, empty where it is that of the runs.
    starts : int
        Pairs that count: run and twin have the samples that are compared.
    failed, unfinished, lacking : int
        Pairs left out because one of the two stopped, or is not computed so far; and runs without
        a twin.
    duration, run_duration : float
        The time that is compared, and the duration of the runs.
    steps : float
        Number of steps in the time that is compared.
    total, method, rounding : DriftPart
        Drift of the runs over that time, of their twins, and of the difference.
    whole : DriftPart
        Drift of all complete runs, with those without a twin, over their whole duration.
    source : str
        One of `SOURCES`: the part that is seen to grow, if the other one does not matter.
    oscillation, apart : float
        Root mean squares, over the last decade of time, of the twins' errors and of the
        differences, each less its trend.
    resolution : float
        One rounding of the quantity in double precision.
    twin_rounding : float
        Upper bound of rounding in double-double: one rounding in each step.
    why : tuple of Reason
        Why there is nothing to compare.
    entry, experiment : str
        Entry to add to the integrators of this experiment, where there is no twin.
    units, time_units : str
    """

    quantity: str
    integrator: str
    parameters: dict[str, Any]
    step_size: float
    twin: str = ""
    elsewhere: str = ""
    starts: int = 0
    failed: int = 0
    unfinished: int = 0
    lacking: int = 0
    duration: float = np.nan
    run_duration: float = np.nan
    steps: float = np.nan
    total: DriftPart = DriftPart()
    method: DriftPart = DriftPart()
    rounding: DriftPart = DriftPart()
    whole: DriftPart = DriftPart()
    source: str = UNDECIDED
    oscillation: float = np.nan
    apart: float = np.nan
    resolution: float = np.nan
    twin_rounding: float = np.nan
    why: tuple[Reason, ...] = ()
    entry: str = ""
    experiment: str = ""
    units: str = "1"
    time_units: str = "1"

    @property
    def parted(self) -> bool:
        """Whether run and twin move apart as far as the error oscillates.

        Their difference is then one of two trajectories of the same method, and tells rounding
        no better than a drift is told below that oscillation.
        """
        wide = self.oscillation > CLEARLY * self.resolution
        return bool(wide and self.apart >= PARTED * self.oscillation)

    @property
    def rounding_share(self) -> float:
        """Part of the error at the end that is rounding; NaN where run and twin have parted."""
        if self.parted or not self.total.last > 0:
            return np.nan
        return self.rounding.last / self.total.last

    @property
    def method_share(self) -> float:
        """Part of the error at the end that is the method; NaN where run and twin have parted."""
        if self.parted or not self.total.last > 0:
            return np.nan
        return self.method.last / self.total.last

    @property
    def method_reach(self) -> float:
        """Size of the part of the method after the whole runs, if it grows at the same rate."""
        return self.method.size * self.run_duration / self.duration

    @property
    def below_rounding(self) -> bool:
        """Whether rounding is seen to grow, but by less than one rounding of the quantity."""
        return bool(self.rounding.grows and self.rounding.size < self.resolution)

    @property
    def twin_at_round_off(self) -> bool:
        """Whether what may grow in the twins can be their own rounding."""
        return bool(self.method.verdict != NONE and self.method.size <= self.twin_rounding)

    @property
    def shorter(self) -> bool:
        """Whether less than the runs is compared."""
        return self.duration < self.run_duration * (1 - 1e-9)

    @property
    def rate(self) -> str:
        """Units of a drift, as of `DriftEstimate`."""
        if self.units == "1":
            return "per unit time" if self.time_units == "1" else f"per {self.time_units}"
        return f"{self.units}/{'unit time' if self.time_units == '1' else self.time_units}"

    @property
    def method_in_words(self) -> str:
        """The part of the method in words: verdict and interval."""
        return drift_part_in_words(self.method, self.rate)

    @property
    def rounding_in_words(self) -> str:
        """The part of rounding in words: verdict and interval."""
        return drift_part_in_words(self.rounding, self.rate)

    @property
    def finding(self) -> str:
        """The answer in words, with what limits it."""
        return drift_source_in_words(self)

    @property
    def compared(self) -> str:
        """The runs and times that are compared, in words; empty if it is all of them."""
        return compared_pairs_in_words(self)


def arithmetic_table(
    dataset: xr.Dataset | xr.DataTree,
    quantities: Sequence[str] | str | None = None,
    step_sizes: str = "all",
    others: Sequence[xr.Dataset | xr.DataTree] = (),
) -> list[ArithmeticEstimate]:
    """Split each drift into the part of the method and the part of rounding.

    Each run in double precision is compared with its twin, the run in double-double that differs
    from it in the arithmetic alone; see `twins.pair_runs_with_twins`. They are compared over the
    time that both have.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    quantities : sequence of str, optional
        As of `drift_table`.
    step_sizes : {"all", "smallest"}, optional
        Every step size of each integrator, or the smallest one that has twins.
    others : sequence of xarray.Dataset or xarray.DataTree, optional
        Further experiments, in which twins may be: shorter ones for example.

    Returns
    -------
    list of ArithmeticEstimate
        By integrator, scanned values, step size and quantity; last, for each integrator with a
        fixed step that has no twin, one that says how it gets them. Empty where all runs are in
        double-double: they are twins.

    Raises
    ------
    InputError
        When no run has a twin, and as `drift_table`.
    """
    dataset = run_table_without_repeats(dataset)
    quantities = chosen_drift_quantities(dataset, quantities)
    tables = [run_table_without_repeats(one) for one in others]
    paired, alone = pair_runs_with_twins(dataset, tables, quantities)
    lacking = [_estimate_without_twin(dataset, label, quantities[0]) for label in alone]
    if not paired and not has_only_twins(dataset):
        raise InputError(_why_nothing_is_paired(lacking))
    return [
        _estimate_of_cell(pairs, key, cell, whole, quantity)
        for pairs in paired
        for key, cell, whole in _cells_with_twins(pairs, step_sizes)
        for quantity in quantities
    ] + lacking


def _estimate_without_twin(dataset: xr.Dataset, label: str, quantity: str) -> ArithmeticEstimate:
    entry, experiment = entry_of_twin(dataset, label), experiment_name(dataset)
    numbers = {
        "entry": entry,
        "quoted": shlex.quote(entry),
        "chosen": f" -e {experiment}" if experiment else "",
    }
    return ArithmeticEstimate(
        quantity=quantity,
        integrator=label,
        parameters={},
        step_size=np.nan,
        source=NO_TWIN,
        why=(Reason("twins", 0, 1, (), numbers),),
        entry=entry,
        experiment=experiment,
    )


def _why_nothing_is_paired(lacking: Sequence[ArithmeticEstimate]) -> str:
    if lacking:
        return "\n".join(f"{row.integrator}: {row.finding}" for row in lacking)
    return (
        "no run is in double precision with a fixed step, which could be compared with one in "
        "double-double. Adaptive integrators have no double-double, but their main methods with a "
        "fixed step do, such as 'rk45+fixed'"
    )


def _cells_with_twins(
    pairs: TwinnedRuns, step_sizes: str
) -> Iterator[tuple[dict[str, Any], xr.Dataset, xr.Dataset]]:
    """The cells with twins, and beside each the cell of all runs, with those without a twin."""
    every = {_cell_name(key): cell for key, cell in cells_chosen_for_drift(pairs.own, "all")}
    for key, cell in cells_chosen_for_drift(_table_with_twin_positions(pairs), step_sizes):
        yield key, cell, every[_cell_name(key)]


def _cell_name(key: dict[str, Any]) -> str:
    return json.dumps(key, sort_keys=True)


def _table_with_twin_positions(pairs: TwinnedRuns) -> xr.Dataset:
    """The runs, with the position of the twin and the samples that both can share."""
    return pairs.runs.assign(
        {
            TWIN: ("run", np.arange(pairs.runs.sizes["run"])),
            TWIN_SAMPLES: (
                "run",
                np.minimum(_samples_of_runs(pairs.runs), _samples_of_runs(pairs.twins)),
            ),
        }
    )


def _samples_of_runs(table: xr.Dataset) -> Integers:
    """Samples of each run that can be compared; -1 of one that stopped."""
    shape = table.sizes["run"]
    counts = table["sample_count"].values if "sample_count" in table else table.sizes["time"]
    counts = np.broadcast_to(counts, shape).astype(int)
    if "in_study" in table:
        counts = np.where(table["in_study"].values.astype(bool), counts, 0)
    return np.where(table["status"].values > 0, -1, counts) if "status" in table else counts


def _estimate_of_cell(
    pairs: TwinnedRuns, key: dict[str, Any], cell: xr.Dataset, whole: xr.Dataset, quantity: str
) -> ArithmeticEstimate:
    """The estimate of one integrator, scanned values and step size."""
    key = dict(key)
    samples = cell[TWIN_SAMPLES].values
    span = _samples_to_compare(samples, pairs.shared)
    runs = np.flatnonzero(samples >= max(span, 1))
    ends = pairs.runs["time"].values
    common = {
        "quantity": quantity,
        "integrator": key.pop("integrator"),
        "step_size": key.pop("step_size"),
        "twin": pairs.twin_label,
        "elsewhere": pairs.elsewhere,
        "failed": int(np.sum(samples < 0)),
        "unfinished": int(np.sum((samples >= 0) & (samples < max(span, 1)))),
        "lacking": whole.sizes["run"] - cell.sizes["run"],
        "run_duration": float(ends[-1] - ends[0]),
        "units": cell[f"{quantity}_error"].attrs.get("units", "1"),
        "time_units": cell["time"].attrs.get("units", "1"),
    }
    key.pop("tolerance", None)
    common["parameters"] = key
    if not span:
        estimate = ArithmeticEstimate(**common)
        numbers = {"stopped": pairs_left_out_in_words(estimate)}
        return replace(estimate, why=(Reason("pairs", 0, 1, (), numbers),))
    steps = round((ends[span - 1] - ends[0]) / common["step_size"])
    both = [
        _errors_until(table, rows, span, quantity, steps)
        for table, rows in ((cell, runs), (pairs.twins, cell[TWIN].values[runs]))
    ]
    total, method, rounding = (
        _drift_part(read_cell_errors(*what))
        for what in ((both[0], quantity), (both[1], quantity), (both[0], quantity, both[1]))
    )
    size = initial_rms_of_quantity(both[0], quantity)
    oscillation, apart = _oscillation_and_distance(both[0], both[1], quantity)
    estimate = ArithmeticEstimate(
        **common,
        starts=len(runs),
        duration=float(ends[span - 1] - ends[0]),
        steps=steps,
        total=total,
        method=method,
        rounding=rounding,
        whole=_drift_part(read_cell_errors(whole, quantity)),
        oscillation=oscillation,
        apart=apart,
        resolution=ROUND_OFF[DOUBLE] * size,
        twin_rounding=ROUND_OFF[DOUBLE_DOUBLE] * size * steps,
    )
    return replace(estimate, source=_source_of_drift(estimate))


def _samples_to_compare(samples: Integers, most: int) -> int:
    """The number of samples that compares the most: fewer pairs for longer, or more for shorter."""
    counts = np.unique(np.minimum(samples, most))
    counts = counts[counts >= 2]
    if not len(counts):
        return 0
    compared = [count * np.sum(samples >= count) for count in counts]
    return int(counts[len(counts) - 1 - np.argmax(compared[::-1])])


def _errors_until(
    table: xr.Dataset, runs: Integers, samples: int, quantity: str, steps: int
) -> xr.Dataset:
    """The errors of some runs up to a sample, as a cell of complete runs."""
    names = [f"{quantity}_error{of}" for of in STATISTICS] + [quantity]
    cell = table[[name for name in names if name in table]]
    cell = cell.isel(run=runs, time=slice(0, samples)).reset_coords(drop=True)
    return cell.assign(steps=("run", np.full(len(runs), steps)))


def _drift_part(errors: CellErrors) -> DriftPart:
    """The drift of the errors of a cell as a `DriftPart`."""
    slope, found = drift_and_verdict_of_cell(errors)
    if found.verdict == WALK and found.low <= 0:
        power = {"low": found.low, "high": found.high}
        found = replace(
            found, verdict=UNDECIDED, why=(Reason("growth", found.low, 0.0, (), power),)
        )
    if np.isnan(slope[0]) and errors.starts:
        fit = fit_growth_of_cell_errors(errors)
        half = float(stdtrit(max(fit.likeness.effective - 1, 1.0), 0.975) * fit.drift_error)
        slope = fit.drift, fit.drift - half, fit.drift + half
    duration = errors.ends[-1] - errors.ends[0]
    last = float(np.sqrt(np.mean(errors.last**2))) if errors.starts else np.nan
    open_to = max(abs(slope[1]), abs(slope[2])) * duration
    size = found.grown if found.verdict in GROWING else open_to
    return DriftPart(
        drift=float(slope[0]),
        low=float(slope[1]),
        high=float(slope[2]),
        verdict=found.verdict,
        shared=found.shared,
        exponent=found.exponent,
        exponent_low=found.low,
        exponent_high=found.high,
        size=float(size) if np.isfinite(size) else last,
        last=last,
        why=found.why,
    )


def _oscillation_and_distance(
    cell: xr.Dataset, twins: xr.Dataset, quantity: str
) -> tuple[float, float]:
    """Root mean squares of the twins' errors and of the differences, less their trends."""
    name, times = f"{quantity}_error", cell["time"].values
    late = is_in_last_decade(times - times[0])
    runs = np.arange(cell.sizes["run"])
    if len(runs) > SEEN:
        runs = runs[np.linspace(0, len(runs) - 1, SEEN).astype(int)]
    errors, others = (
        one[name].isel(run=runs, time=late).transpose("run", "time").values for one in (cell, twins)
    )
    return (
        _rms_beside_trend(times[late], others),
        _rms_beside_trend(times[late], errors - others),
    )


def _rms_beside_trend(times: Floats, series: Floats) -> float:
    if len(times) < 3:
        return float(np.sqrt(np.mean(series**2)))
    trend = np.polynomial.polynomial.polyfit(times - times.mean(), series.T, 1)
    rest = series - np.polynomial.polynomial.polyval(times - times.mean(), trend)
    return float(np.sqrt(np.mean(rest**2)))


def _source_of_drift(estimate: ArithmeticEstimate) -> str:
    """Decide which part of a drift grows, if the other one does not matter.

    Where run and twin have parted, their difference walks as that of any two trajectories of a
    method: this is no effect of rounding, but a drift of its mean over the starts is. Where
    neither part shows by itself that it grows, but the whole runs do, it is rounding if the method
    is too small for that.
    """
    method, rounding = estimate.method, estimate.rounding
    own_rounding = estimate.twin_at_round_off
    walks_apart = estimate.parted and rounding.verdict == WALK
    grown = {
        METHOD: method.grows and not own_rounding,
        ROUNDING: rounding.grows and not walks_apart,
    }
    none = {
        METHOD: method.verdict == NONE or own_rounding,
        ROUNDING: rounding.verdict == NONE,
    }
    if all(grown.values()):
        if method.size >= MUCH * rounding.size:
            return METHOD
        return ROUNDING if rounding.size >= MUCH * method.size else BOTH
    if grown[METHOD] and (none[ROUNDING] or rounding.size <= method.size):
        return METHOD
    if grown[ROUNDING] and (none[METHOD] or method.size <= rounding.size):
        return ROUNDING
    if estimate.whole.grows and MUCH * estimate.method_reach <= estimate.whole.size:
        return UNDECIDED if estimate.parted else ROUNDING
    still = all(none.values()) and not (estimate.shorter and estimate.whole.grows)
    return NEITHER if still else UNDECIDED
