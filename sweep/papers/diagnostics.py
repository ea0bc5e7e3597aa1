"""Functions that measure the numbers of claims from a dataset of runs.

Each returns a number, or an array with one value per run unless its docstring says otherwise.
Functions that measure a variable over ``(run, time)`` or ``(run,)`` take its name. The variable
`state`, recorded by ``record = ["state"]``, has the shape ``(run, time, row, component)``.
Functions for a single paper are in the folder of the paper.
"""

import json
from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import systems
from sweep.analysis import drift_table, grid, order_table
from sweep.analysis.drift.cell_errors import read_cell_errors

Array = NDArray[np.float64]


def states_of_runs(dataset: xr.Dataset) -> Array:
    """The states, shape (runs, times, rows, 3)."""
    return dataset["state"].transpose("run", "time", "row", "component").values


def system_parameter_of_runs(dataset: xr.Dataset, name: str) -> np.ndarray:
    """A parameter of the system, as an array with its value, a number or vector, for each run."""
    for axis in json.loads(dataset.attrs["experiment"])["scan"]:
        if axis["name"] == name:
            names = axis["values"] if axis["labels"] is None else axis["labels"]
            places = [names.index(value) for value in dataset[name].values.tolist()]
            return np.array([axis["values"][place] for place in places])
    value = json.loads(dataset.attrs["system"])["parameters"][name]
    return np.array([value] * dataset.sizes["run"])


def system_of_run(dataset: xr.Dataset, run: int) -> systems.System:
    """The system of a run, with its scanned parameters."""
    known = json.loads(dataset.attrs["system"])
    scanned = [axis["name"] for axis in json.loads(dataset.attrs["experiment"])["scan"]]
    own = {name: system_parameter_of_runs(dataset, name)[run] for name in scanned}
    return systems.get(known["name"], **known["parameters"] | own)


# --- of one variable -----------------------------------------------------------------------------


def value_per_run(dataset: xr.Dataset, name: str) -> Array:
    """A variable over ``(run,)``."""
    return dataset[name].values


def value_at_start(dataset: xr.Dataset, name: str) -> Array:
    """The value at the start."""
    return dataset[name].isel(time=0).values


def size_at_end(dataset: xr.Dataset, name: str) -> Array:
    """|value| at the end."""
    return abs(dataset[name].isel(time=-1)).values


def largest_size_over_time(dataset: xr.Dataset, name: str) -> Array:
    """The largest |value| over time."""
    return abs(dataset[name]).max("time").values


def least_value_over_time(dataset: xr.Dataset, name: str) -> Array:
    """The least value over time."""
    return dataset[name].min("time").values


def largest_value_over_time(dataset: xr.Dataset, name: str) -> Array:
    """The largest value over time."""
    return dataset[name].max("time").values


def slope_over_time(dataset: xr.Dataset, name: str) -> Array:
    """The least-squares slope over time."""
    time = dataset["time"].values - dataset["time"].values.mean()
    return dataset[name].transpose("run", "time").values @ time / (time @ time)


def trend_over_run(dataset: xr.Dataset, name: str) -> Array:
    """The `slope_over_time` times the duration of the run."""
    return slope_over_time(dataset, name) * np.ptp(dataset["time"].values)


def largest_relative_change(dataset: xr.Dataset, name: str) -> Array:
    """The largest |change| over time of a number or vector, relative to its norm at the start."""
    parts = [part for part in (name, *(f"{name}_{x}" for x in "xyz")) if part in dataset]
    start = np.sqrt(sum(dataset[part].isel(time=0).values ** 2 for part in parts))
    return largest_size_over_time(dataset, f"{name}_error") / start


# --- means of errors -----------------------------------------------------------------------------


def mean_error(dataset: xr.Dataset, name: str) -> Array:
    """The mean over all steps of the error of a quantity, such as ``energy``.

    If runs have no statistics of steps, it is the mean over the samples.
    """
    errors = read_cell_errors(dataset, name)
    counted = errors.steps / errors.every if errors.every_step else len(errors.ends) - 1
    return errors.mean_abs * counted / (counted + 1)  # the start is included


def mean_error_of_samples(dataset: xr.Dataset, name: str) -> Array:
    """The mean over the samples of the error of a quantity."""
    return abs(dataset[f"{name}_error"]).mean("time").values


def mean_unit_length_error(dataset: xr.Dataset) -> Array:
    """The mean of |q·q − 1| over all samples and bodies, for states (q, ω)."""
    q = dataset["state"].isel(row=slice(0, dataset.sizes["row"] // 2))
    return abs((q * q).sum("component") - 1.0).mean(("time", "row")).values


# --- ratios between integrators or step sizes ----------------------------------------------------


def _two_integrators(dataset: xr.Dataset) -> list[str]:
    """Labels of the two integrators, in the order in which the claim names them."""
    above, below = dict.fromkeys(dataset["integrator"].values.tolist())
    return [above, below]


def ratio_of_largest_errors(dataset: xr.Dataset, name: str) -> Array:
    """Ratio of `largest_size_over_time` of two integrators, for each step size."""
    above, below = _two_integrators(dataset)
    errors = abs(grid(dataset[[name]])[name]).max("time")
    return (errors.sel(integrator=above) / errors.sel(integrator=below)).values.ravel()


def ratio_of_mean_errors(dataset: xr.Dataset, name: str) -> Array:
    """Ratio of the means over time of two integrators, for each step size that both have."""
    above, below = _two_integrators(dataset)
    errors = grid(dataset[[name]])[name].mean("time")
    ratios = errors.sel(integrator=above) / errors.sel(integrator=below)
    return ratios.values[np.isfinite(ratios.values)]


def ratio_of_medians(dataset: xr.Dataset, name: str) -> float:
    """Ratio of the medians of a variable over ``(run,)`` of two integrators."""
    labels = dataset["integrator"].values
    above, below = (
        np.median(dataset[name].values[labels == own]) for own in _two_integrators(dataset)
    )
    return float(above / below)


def ratio_of_errors_at_end(dataset: xr.Dataset, name: str) -> Array:
    """Ratio of `size_at_end` of two integrators with one run each."""
    labels, errors = dataset["integrator"].values, size_at_end(dataset, name)
    above, below = (errors[labels == own] for own in _two_integrators(dataset))
    return above / below


def ratios_over_a_decade_of_step_sizes(dataset: xr.Dataset, name: str) -> Array:
    """Ratios of the means over time of a variable at step sizes h and h/10, if there are both."""
    means, steps = dataset[name].mean("time").values, dataset["step_size"].values
    tenths = np.argwhere(np.isclose(steps[:, None], 10.0 * steps))
    return np.array([means[long] / means[short] for long, short in tenths])


# --- from tables of drifts and orders ------------------------------------------------------------


def largest_drift_possible(dataset: xr.Dataset) -> float:
    """The 95 % bound of the energy drift over the run, relative to max |E − E₀|.

    The dataset has runs of one integrator at one step size.
    """
    (row,) = drift_table(dataset, ("energy",))
    return row.bound * row.duration / row.max_abs


def measured_convergence_order(dataset: xr.Dataset) -> float:
    """The measured order of one integrator, from errors at the end; NaN if undecided."""
    (estimate,) = order_table(dataset)
    return estimate.order


# --- states --------------------------------------------------------------------------------------


def distance_from_state_at_end(dataset: xr.Dataset, state: Sequence[Sequence[float]]) -> Array:
    """The Euclidean distance between the last state and a given one.

    Parameters
    ----------
    dataset : xarray.Dataset
    state : array_like, shape (rows, 3)
        The given state; further rows of the last state, such as the work of forces, are ignored.
    """
    last = states_of_runs(dataset.isel(time=[-1]))[:, 0, : len(state)]
    return np.sqrt(np.sum((last - np.asarray(state)) ** 2, axis=(1, 2)))
