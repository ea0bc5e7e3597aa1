"""Magnitude and drift of the errors of invariants and constraints."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from sweep.analysis.drift import cell_errors, estimators
from sweep.analysis.drift.drift_comparisons import DriftComparison, compare_drifts
from sweep.analysis.drift.estimators import DriftRate
from sweep.analysis.efficiency import timing
from sweep.analysis.runs import selection
from sweep.analysis.runs.blocks import Floats


def rate_of_cell(errors: cell_errors.CellErrors, in_roundings: bool = True) -> DriftRate:
    """The `DriftRate` of the errors of a cell.

    Parameters
    ----------
    errors : CellErrors
    in_roundings : bool, optional
        Whether the verdict may be ``at round-off``, if errors are a few roundings.

    Returns
    -------
    DriftRate
    """
    if errors.lacks:
        return DriftRate(signed=errors.signed)
    found = estimators.measure_drift(errors.times, errors.windows, errors.signed)
    rounded = in_roundings and errors.max_abs.max() <= estimators.FEW_ROUNDINGS * errors.round_off
    return replace(found, verdict=estimators.AT_ROUND_OFF) if rounded else found


@dataclass(frozen=True, kw_only=True)
class DriftEstimate(DriftRate):
    """Error and drift of one quantity under one integrator at one step size.

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
        Number of initial conditions that are used; and number of runs that failed, are not
        finished, or left the study.
    stopped : int
        Number of the used starts whose runs fail later. If most runs fail, the time until the first
        failure is used; see `judged_runs`.
    duration : float
        Time over which the runs are judged.
    samples : int
        Number of sample intervals in this time.
    steps : float
        Steps of a run, mean over the starts; for adaptive runs that fail later, all their steps.
    mean_abs, max_abs : float
        Mean and maximum of |error| after the start, averaged over the starts.
    largest : float
        The largest |error| of any start.
    every_step, max_every_step : bool
        Whether mean and drift, and whether the maximum, are over steps. Otherwise they are
        over the samples, because adaptive steps are longer than sample intervals, or because the
        store has only samples.
    every : int
        Of how many steps one is in them.
    round_off : float
        One rounding of the quantity in the arithmetic of the runs; NaN without runs.
    cpu_time : float
        CPU time of a run in seconds, median over the starts; NaN if it cannot be compared.
    compared : tuple of DriftComparison
        Comparisons with other integrators of the table that certainly drift more; see
        `comparisons.compare_drifts`.
    units, time_units : str
    reason : str
        Why there is no drift; else empty.
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
    samples: int
    steps: float
    mean_abs: float
    max_abs: float
    largest: float
    every_step: bool
    max_every_step: bool
    every: int
    round_off: float
    cpu_time: float
    compared: tuple[DriftComparison, ...]
    units: str
    time_units: str
    reason: str

    @property
    def rate(self) -> str:
        """Units of a drift: ``J/s``, or ``per unit time`` for a system without units."""
        return rate_units(self.units, self.time_units)

    @property
    def span(self) -> str:
        """The time over which the drift was measured: ``100 s``, or ``t = 100``."""
        if self.time_units == "1":
            return f"t = {self.duration:g}"
        return f"{self.duration:g} {self.time_units}"

    @property
    def until_failure(self) -> str:
        """The time until which the runs are judged, in words, if runs fail later; else empty."""
        if not self.stopped:
            return ""
        runs = f"{self.stopped} of its {self.starts} runs fail"
        return f"until {self.span}, after which {'its run fails' if self.starts == 1 else runs}"

    @property
    def in_words(self) -> str:
        """The verdict, with the interval of the drift, or with a bound if no drift is seen."""
        if self.reason:
            return f"no drift measured: {self.reason}"
        size = f"|drift| ≤ {self.bound:.2g}"
        if self.verdict in (estimators.LINEAR, estimators.UNSTEADY):
            size = f"{self.drift:.2g} ± {self.half_width:.1g}"
        samples = "" if self.every_step else ", from samples"
        return f"{self.verdict}, {size} {self.rate} over {self.span} (95 %{samples})"


def rate_units(units: str, time_units: str) -> str:
    """Units of a drift: ``J/s``, or ``per unit time`` for a system without units."""
    if units == "1":
        return "per unit time" if time_units == "1" else f"per {time_units}"
    return f"{units}/{'unit time' if time_units == '1' else time_units}"


def drift_table(
    dataset: xr.Dataset | xr.DataTree,
    quantities: Sequence[str] | str | None = None,
    step_sizes: str = "all",
) -> list[DriftEstimate]:
    """Measure errors and drifts of invariants and constraints, over the starts of each setting.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    quantities : sequence of str, optional
        Names, such as ``("energy", "momentum")``. By default all quantities whose ``…_error`` is
        not measured against a reference.
    step_sizes : {"all", "smallest"}, optional
        Every step size (or tolerance) of each integrator, or only its smallest.

    Returns
    -------
    list of DriftEstimate
        By integrator, scanned values, step size and quantity.

    Raises
    ------
    InputError
        If a quantity has no error in the dataset, or `step_sizes` is invalid.
    """
    full = selection.run_table(dataset)
    quantities = cell_errors.chosen_drift_quantities(
        selection.run_table_without_repeats(full), quantities
    )
    dataset = timing.with_cpu_times_of_runs(full)
    wanted = [f"{quantity}_error{of}" for quantity in quantities for of in cell_errors.STATISTICS]
    wanted += quantities  # their values give the scale of roundings
    dataset = dataset[
        [name for name in (*wanted, *cell_errors.PER_RUN, *timing.TIMED) if name in dataset]
    ]
    rows: list[DriftEstimate] = []
    starts: list[Sequence[str]] = []
    for setting, cell in selection.cells_by_setting(dataset, step_sizes):
        rows += [_drift_estimate_of_cell(cell, setting, quantity) for quantity in quantities]
        judged = cell["initial_condition"].values[
            selection.judged_runs(cell, estimators.FEWEST).positions
        ]
        starts += [judged.tolist()] * len(quantities)
    compared = compare_drifts(rows, starts)
    return [replace(row, compared=found) for row, found in zip(rows, compared, strict=True)]


def _drift_estimate_of_cell(
    cell: xr.Dataset, setting: dict[str, Any], quantity: str
) -> DriftEstimate:
    errors = cell_errors.read_cell_errors(cell, quantity)
    rate = rate_of_cell(errors)
    if errors.stopped and rate.verdict in (estimators.NONE, estimators.AT_ROUND_OFF):
        rate = replace(rate, verdict=estimators.FAILS)

    def mean(values: Floats) -> float:
        return float(values.mean()) if errors.starts else np.nan

    return DriftEstimate(
        **vars(rate),
        quantity=quantity,
        **setting,
        starts=errors.starts,
        left_out=errors.left_out,
        stopped=errors.stopped,
        duration=float(errors.ends[-1] - errors.ends[0]),
        samples=len(errors.ends) - 1,
        steps=mean(errors.steps),
        mean_abs=mean(errors.mean_abs),
        max_abs=mean(errors.max_abs),
        largest=float(errors.max_abs.max()) if errors.starts else np.nan,
        every_step=errors.every_step,
        every=errors.every,
        max_every_step=errors.max_every_step,
        round_off=errors.round_off,
        cpu_time=timing.comparable_cpu_time_of_cell(cell),
        compared=(),
        units=cell[f"{quantity}_error"].attrs.get("units", "1"),
        time_units=cell["time"].attrs.get("units", "1"),
        reason=errors.lacks,
    )
