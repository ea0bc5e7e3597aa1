"""Selections of the runs of a claim, and the numbers measured from them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from integrators.errors import InputError
from sweep.analysis.drift.cells import read_cell_errors
from sweep.analysis.runs.selection import axis_values_in_words, integrator_descriptions, take_runs
from sweep.papers.diagnostics import Measure
from sweep.text import join_with_and

Datasets = Mapping[str, Mapping[str, xr.Dataset]]  # by study and experiment
SUMMARIES: dict[str, Callable[[np.ndarray], Any]] = {
    "median": np.median,
    "largest": np.max,
    "least": np.min,
}


@dataclass(frozen=True)
class Selection:
    """A selection of runs of one experiment.

    A subclass defines `value_and_range`, the measured number, and may extend `setting_in_words`.

    Parameters
    ----------
    study, experiment : str
        The study and experiment of the runs.
    integrator : str or tuple of str
        Label of one or more integrators.
    step_size : float, optional
        Step size in the packaged study; by default all.
    scan : dict, optional
        Values of scanned parameters and of axes of families of starts.
    start : str, optional
        Label of the initial condition; by default all.
    until : float, optional
        Time after which samples are ignored; by default the duration.
    """

    study: str
    experiment: str
    integrator: str | tuple[str, ...]
    step_size: float | None = field(default=None, kw_only=True)
    scan: dict[str, Any] = field(default_factory=dict, kw_only=True)
    start: str | None = field(default=None, kw_only=True)
    until: float | None = field(default=None, kw_only=True)

    if TYPE_CHECKING:

        def value_and_range(self, runs: xr.Dataset) -> tuple[float, float, float]:
            """The measured number, and the least and largest value of the runs."""

    ensemble = False  # whether the range of values is that of an ensemble of starts

    @property
    def integrator_labels(self) -> tuple[str, ...]:
        """Labels of the integrators."""
        return (self.integrator,) if isinstance(self.integrator, str) else self.integrator

    def selected_runs(self, datasets: Datasets, factor: float) -> xr.Dataset:
        """The selected runs as a dataset.

        Parameters
        ----------
        datasets : dict of str to dict of str to xarray.Dataset
            By study and experiment.
        factor : float
            Factor by which all step sizes of the studies were multiplied.

        Raises
        ------
        InputError
            If no run is selected.
        """
        dataset = datasets[self.study][self.experiment]
        chosen = np.isin(dataset["integrator"].values, self.integrator_labels)
        if self.step_size is not None:
            chosen &= np.isclose(dataset["step_size"].values, factor * self.step_size)
        wanted = self.scan | ({"initial_condition": self.start} if self.start else {})
        for name, value in wanted.items():
            chosen &= dataset[name].values == value
        if not chosen.any():
            raise InputError(f"{self.study} has no run of {self.integrator!r} like {self}")
        runs = take_runs(dataset, np.flatnonzero(chosen))
        if self.until is not None:
            runs = runs.isel(time=runs["time"].values <= self.until * (1.0 + 1e-12))
        return runs

    def setting_in_words(self, runs: xr.Dataset) -> str:
        """Integrators, step sizes or tolerances, scanned values, start and duration, in words."""
        words = [join_with_and(self.integrator_labels), _step_sizes_in_words(runs)]
        words += [axis_values_in_words(self.scan)] if self.scan else []
        words += [self.start] if self.start else []
        return ", ".join([*words, f"T = {runs['time'].values[-1]:g}"])


def _step_sizes_in_words(runs: xr.Dataset) -> str:
    """``h = 0.01``, ``h = 0.01 … 0.5``, ``RelTol = 0.001``, or ``tol = 1e-06`` where absolute."""
    adaptive = np.isnan(runs["step_size"].values).all()
    values = runs["tolerance" if adaptive else "step_size"].values
    low, high = np.nanmin(values), np.nanmax(values)
    shown = f"{low:g}" if low == high else f"{low:g} … {high:g}"
    return f"{_name_of_tolerance(runs) if adaptive else 'h'} = {shown}"


def _name_of_tolerance(runs: xr.Dataset) -> str:
    """``RelTol`` if the integrators have an absolute tolerance too, otherwise ``tol``."""
    used = [
        integrator_descriptions(runs)[str(label)] for label in np.unique(runs["integrator"].values)
    ]
    relative = all("absolute_tolerance" in one["options"] for one in used)
    return "RelTol" if relative else "tol"


def summary_with_range(values: np.ndarray, summary: str = "median") -> tuple[float, float, float]:
    """The median, largest or least of the values, and their range."""
    centre = SUMMARIES[summary](values)
    return float(centre), float(np.min(values)), float(np.max(values))


@dataclass(frozen=True)
class Measured(Selection):
    """The mean error over time of the selected runs: its median over the starts, and its range.

    Parameters
    ----------
    quantity : str
        ``energy`` or ``unit_length``: the mean over all steps of |E − E₀|, or over all steps and
        bodies of |q·q − 1|. Without statistics of every step, the mean over the samples.
    sampled : bool
        Whether to take the mean of |E − E₀| over the samples in any case.
    """

    quantity: str = "energy"
    sampled: bool = field(default=False, kw_only=True)

    ensemble = True

    def value_and_range(self, runs: xr.Dataset) -> tuple[float, float, float]:
        """Median, least and largest value of the mean error."""
        if self.sampled:
            return summary_with_range(abs(runs[f"{self.quantity}_error"]).mean("time").values)
        if self.quantity == "unit_length" and "unit_length_error_mean" not in runs:
            return summary_with_range(_mean_unit_length_error_of_states(runs))
        errors = read_cell_errors(runs, self.quantity)
        counted = errors.steps if errors.every_step else len(errors.ends) - 1
        return summary_with_range(errors.mean_abs * counted / (counted + 1))  # the start counts

    def setting_in_words(self, runs: xr.Dataset) -> str:
        """The setting in words, with the number of starts."""
        starts, words = runs.sizes["run"], super().setting_in_words(runs)
        words += (
            f", mean over every {_ordinal_in_words(_steps_between_samples(runs))}step"
            if self.sampled
            else ""
        )
        return words + (f", median of {starts} starts" if starts > 1 else "")


def _steps_between_samples(runs: xr.Dataset) -> int:
    """The number of steps from one sample to the next."""
    time = runs["time"].values
    return round(float((time[1] - time[0]) / runs["step_size"].values[0]))


def _ordinal_in_words(number: int) -> str:
    """An ordinal with a space, such as ``5th ``; empty for 1."""
    if number == 1:
        return ""
    suffixes = {} if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{suffixes.get(number % 10, 'th')} "


def _mean_unit_length_error_of_states(runs: xr.Dataset) -> np.ndarray:
    """The mean of |q·q − 1| over samples and bodies, for each run."""
    q = runs["state"].isel(row=slice(0, runs.sizes["row"] // 2))
    error = abs((q * q).sum("component") - 1.0)
    return error.mean(("time", "row")).values


@dataclass(frozen=True)
class Computed(Selection):
    """A number computed by a function from the selected runs.

    Parameters
    ----------
    measure : callable
        ``measure(dataset)`` returns a number, or an array with one value for each run or for each
        of other items, such as step sizes.
    summary : {"median", "largest", "least"}
        Which of several values is reported.
    each : str
        The items to which several values belong, in the plural, such as ``runs``.
    """

    measure: Measure
    summary: str = "largest"
    each: str = "runs"

    def value_and_range(self, runs: xr.Dataset) -> tuple[float, float, float]:
        """The value or its `summary`, and the least and largest value."""
        return summary_with_range(np.atleast_1d(self.measure(runs)), self.summary)

    def setting_in_words(self, runs: xr.Dataset) -> str:
        """The setting in words, with the number of values."""
        count = np.size(self.measure(runs))
        words = f", {self.summary} of {count} {self.each}" if count > 1 else ""
        return super().setting_in_words(runs) + words
