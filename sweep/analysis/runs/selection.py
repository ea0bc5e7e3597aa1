"""Axes of a run table, groups of its runs, and the runs that are used in analyses."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from integrators.errors import InputError, suggest_nearest
from integrators.precision import ARITHMETIC, DOUBLE, ROUND_OFF
from sweep.analysis.runs.blocks import Booleans, Floats, Integers

# Coordinates along `run` that every run table has. Others are axes that the study scans, or axes of
# a family of initial conditions, which an attribute marks.
RUN_COORDINATES = ("run", "run_id", "integrator", "step_size", "tolerance", "adaptive",
                   "initial_condition", "ensemble", "repeat", "in_study")  # fmt: skip

# Errors that are measured against a reference solution. Systems may have others, which an attribute
# `kind` marks.
REFERENCE_ERRORS = ("global_error", "position_error", "velocity_error", "attitude_error",
                    "direction_error", "angular_velocity_error",
                    "angular_momentum_error")  # fmt: skip

Runs = TypeVar("Runs", xr.Dataset, xr.Variable)  # along `run`


def run_table(dataset: xr.Dataset | xr.DataTree) -> xr.Dataset:
    """The run table as a Dataset, from a Dataset or from a node of `sweep.open_study`'s tree.

    Raises
    ------
    InputError
        If it is not a run table, or has no runs.
    """
    dataset = dataset.to_dataset() if isinstance(dataset, xr.DataTree) else dataset
    needed = ("integrator", "step_size", "initial_condition")
    if any(name not in dataset.coords or dataset[name].dims != ("run",) for name in needed):
        raise InputError(
            f"this is no run table: it lacks one of the coordinates {', '.join(needed)} along "
            "`run`. Give one experiment of the study, e.g. open_study(store)['order']."
        )
    if dataset.sizes["run"] == 0:
        raise InputError("no runs are selected: widen the selection.")
    return dataset


def run_table_without_repeats(dataset: xr.Dataset | xr.DataTree) -> xr.Dataset:
    """The run table with each run once. Repeats are used for CPU times only."""
    dataset = run_table(dataset)
    if "repeat" not in dataset.coords:
        return dataset
    repeat = dataset["repeat"].values
    return take_runs(dataset, np.flatnonzero(repeat == repeat.min()))


def run_table_variable(dataset: xr.Dataset, name: str) -> xr.DataArray:
    """The variable of this name; `InputError`, with similar names, if there is none."""
    if name not in dataset.data_vars:
        there = [str(key) for key in dataset.data_vars if str(key).endswith("_error")]
        advice = suggest_nearest(name, there)
        if name in REFERENCE_ERRORS and not {*REFERENCE_ERRORS} & {*there}:
            advice = " Errors against a reference need `reference = {…}` in the experiment."
        raise InputError(f"the dataset has no {name!r}.{advice}")
    return dataset[name]


def is_error_against_reference(dataset: xr.Dataset, name: str) -> bool:
    """Whether a variable is an error that is measured against a reference."""
    return name in REFERENCE_ERRORS or dataset[name].attrs.get("kind") == "state_error"


def name_of_energy_quantity(dataset: xr.Dataset) -> str:
    """Name of the quantity of kind ``energy``; by default ``energy``."""
    for name, array in dataset.data_vars.items():
        if array.attrs.get("kind") == "energy":
            return str(name).removesuffix("_error")
    return "energy"


def scanned_axes(dataset: xr.Dataset) -> tuple[str, ...]:
    """Names of the coordinates along `run` that the study scans, such as ``("gravity",)``."""
    return tuple(
        str(name)
        for name, coordinate in dataset.coords.items()
        if coordinate.dims == ("run",)
        and name not in RUN_COORDINATES
        and not is_axis_of_initial_conditions(coordinate)
    )


def is_axis_of_initial_conditions(coordinate: xr.DataArray) -> bool:
    """Whether a coordinate is an axis of a family of initial conditions, such as ``theta``."""
    return coordinate.attrs.get("axis_of") == "initial_condition"


def complete_runs(dataset: xr.Dataset, also_stopped: bool = False) -> Booleans:
    """Mask of the runs of the study that are complete; shape ``(run,)``.

    With `also_stopped`, the mask includes runs that blew up, left their domain or did not converge:
    their samples until then are valid results.
    """
    counts = np.ones(dataset.sizes["run"], dtype=bool)
    stopped = np.zeros_like(counts)
    if "status" in dataset:
        status = dataset["status"].values
        stopped = status > 0
        counts &= (status >= 0) if also_stopped else (status == 0)
    if "sample_count" in dataset:
        samples = dataset["sample_count"].values
        counts &= (samples >= dataset.sizes.get("time", 1)) | (stopped & (samples > 0))
    if "in_study" in dataset:
        counts &= dataset["in_study"].values.astype(bool)
    return counts


@dataclass(frozen=True)
class JudgedRuns:
    """The runs of a cell that are used, and up to which sample.

    Attributes
    ----------
    positions : ndarray of int
        Positions of these runs along `run`.
    samples : int
        Number of samples that all of these runs have, including the start.
    stopped : int
        Number of these runs that fail after the last of the samples.
    """

    positions: Integers
    samples: int
    stopped: int


def judged_runs(cell: xr.Dataset, enough: int) -> JudgedRuns:
    """Choose the runs of a cell to use: the complete ones, or, if most runs fail, failed ones too.

    The few survivors are not representative if most runs fail. Then the runs are used up to a time
    before the failures. If they fail at different times, this time maximizes the number of samples
    (runs times samples) among the times that leave enough samples for an analysis, if possible.

    Parameters
    ----------
    cell : xarray.Dataset
        Runs with the same integrator, scanned values and step size.
    enough : int
        Number of sample intervals that the analysis needs.

    Returns
    -------
    JudgedRuns
    """
    whole = cell.sizes["time"]
    complete, ended = complete_runs(cell), complete_runs(cell, also_stopped=True)
    if "sample_count" not in cell or 2 * complete.sum() >= ended.sum():
        return JudgedRuns(np.flatnonzero(complete), whole, 0)
    samples = np.where(ended, np.minimum(cell["sample_count"].values, whole), 0)
    counts = np.unique(samples[samples > 1])  # the start alone says nothing
    if not len(counts):
        return JudgedRuns(np.flatnonzero(complete), whole, 0)
    sufficient = counts[counts > enough]
    counts = sufficient if len(sufficient) else counts
    most = counts[np.argmax([count * np.sum(samples >= count) for count in counts])]
    positions = np.flatnonzero(samples >= most)
    return JudgedRuns(positions, int(most), int((~complete[positions]).sum()))


def adaptive_runs(dataset: xr.Dataset) -> Booleans:
    """Mask of the runs with step size control; shape ``(run,)``."""
    if "adaptive" in dataset:
        return dataset["adaptive"].values.astype(bool)
    return np.isnan(dataset["step_size"].values)


def distinct_values_and_codes(values: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
    """Distinct values and, for each value, its index among them.

    Labels keep the order in which they first appear, which is that of the study. Numbers are
    sorted.

    Parameters
    ----------
    values : ndarray, shape ``(run,)``

    Returns
    -------
    distinct : ndarray
    code : ndarray of int, shape ``(run,)``
    """
    numeric = values.dtype.kind in "biuf"
    values = values if numeric else values.astype(object)
    code, distinct = pd.factorize(values, sort=numeric, use_na_sentinel=False)
    return distinct, code


def take_runs(dataset: Runs, runs: Integers) -> Runs:
    """The runs at the given positions; a slice if they are consecutive."""
    consecutive = len(runs) > 0 and np.all(np.diff(runs) == 1)
    return dataset.isel(run=slice(runs[0], runs[-1] + 1) if consecutive else runs)


def places_of_runs(
    dataset: xr.Dataset, names: Sequence[str]
) -> tuple[dict[str, NDArray[Any]], Integers]:
    """The distinct values of coordinates, and the place of each run in their full grid.

    Returns
    -------
    axes : dict of str to ndarray
    place : ndarray of int, shape ``(run,)``
        Flat index into the grid.
    """
    found = {name: distinct_values_and_codes(dataset[name].values) for name in names}
    axes = {name: distinct for name, (distinct, _) in found.items()}
    place = np.zeros(dataset.sizes["run"], dtype=np.int64)
    for distinct, code in found.values():
        place = place * len(distinct) + code
    return axes, place


def groups_of_runs(
    dataset: xr.Dataset, names: Sequence[str]
) -> Iterator[tuple[dict[str, Any], Integers]]:
    """Split the runs by the values of the coordinates `names`.

    Yields
    ------
    key : dict
        The value of each name, as Python objects.
    runs : ndarray of int
        Positions along `run` of the runs that have these values, ascending.
    """
    axes, place = places_of_runs(dataset, names)
    keys = [values.tolist() for values in axes.values()]
    order = np.argsort(place, kind="stable")
    for runs in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
        where = np.unravel_index(place[runs[0]], [len(key) for key in keys]) if names else ()
        yield {name: key[i] for name, key, i in zip(names, keys, where, strict=True)}, runs


def cells_by_setting(
    dataset: xr.Dataset, step_sizes: str = "all"
) -> Iterator[tuple[dict[str, Any], xr.Dataset]]:
    """Split a run table into cells of runs with the same integrator, scanned values and step size.

    Parameters
    ----------
    dataset : xarray.Dataset
    step_sizes : {"all", "smallest"}, optional
        Every step size (or tolerance) of each integrator, or only its smallest.

    Yields
    ------
    setting : dict
        ``integrator``, ``parameters``, ``step_size`` and ``tolerance``.
    cell : xarray.Dataset
        The runs of the cell, which are not loaded.

    Raises
    ------
    InputError
        If `step_sizes` is invalid.
    """
    if step_sizes not in ("all", "smallest"):
        raise InputError(
            f"step_sizes is {step_sizes!r}, and must be 'all' or 'smallest'.", key="step_sizes"
        )
    axes = scanned_axes(dataset)
    step_axes = [name for name in ("step_size", "tolerance") if name in dataset.coords]
    before: tuple[Any, ...] = ()
    for key, runs in groups_of_runs(dataset, ["integrator", *axes, *step_axes]):
        parameters = {axis: key.pop(axis) for axis in axes}
        if step_sizes == "all" or before != (key["integrator"], parameters):  # step sizes ascend
            yield {"tolerance": np.nan} | key | {"parameters": parameters}, take_runs(dataset, runs)
        before = key["integrator"], parameters


def integrator_descriptions(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Descriptions of the integrators in the store: ``{label: {name, options, order, …}}``."""
    return json.loads(dataset.attrs.get("integrators", "{}"))


def relative_round_off_of_runs(dataset: xr.Dataset) -> Floats:
    """Machine epsilon of the arithmetic of each run, shape ``(run,)``."""
    described = integrator_descriptions(dataset)
    labels, index = distinct_values_and_codes(dataset["integrator"].values)
    options = [described.get(label, {}).get("options", {}) for label in labels.tolist()]
    named = [option.get(ARITHMETIC, DOUBLE) for option in options]
    return np.array([ROUND_OFF[name] for name in named])[index]


def is_order_study(dataset: xr.Dataset) -> bool:
    """Whether an experiment has several step sizes of an integrator and a reference to its end.

    Such an experiment is too short for drifts, since its duration is limited by the reference.
    """
    experiment = json.loads(dataset.attrs.get("experiment", "{}"))
    reference = experiment.get("reference")
    if reference is None or (reference["until"] or np.inf) < experiment["duration"]:
        return False
    sizes = zip(dataset["integrator"].values, dataset["step_size"].values, strict=True)
    known = {(label, size) for label, size in sizes if np.isfinite(size)}
    return len(known) > len({label for label, _ in known})


def arithmetic_of_reference(dataset: xr.Dataset) -> str:
    """The arithmetic of the reference solutions of a run table."""
    known = "reference_error" in dataset
    return dataset["reference_error"].attrs.get(ARITHMETIC, DOUBLE) if known else DOUBLE


def time_unit_of_study(dataset: xr.Dataset) -> float:
    """The unit of time of the study, in units of the system."""
    return float(json.loads(dataset.attrs.get("experiment", "{}")).get("time_unit", 1.0))


def sample_interval(dataset: xr.Dataset) -> float:
    """The time that every step size of an experiment divides.

    If samples are not equidistant, it is the largest step size of the study. For tables that are
    not from a store, it is the smallest distance of two samples.
    """
    axis = json.loads(dataset.attrs.get("time_axis", "{}"))
    if isinstance(axis.get("samples"), dict):  # as the store writes the axes of a study
        axis = axis["samples"].get("first", axis) if "pieces" in axis["samples"] else axis
    match axis.get("samples"):
        case None:
            return float(np.diff(dataset["time"].values).min(initial=np.inf))
        case {"grid": grid}:
            return float(axis["duration"] / round(axis["duration"] / grid))
        case samples:
            return float(axis["duration"] / samples)


def axis_values_in_words(key: Mapping[str, Any]) -> str:
    """Scanned values as text for tables and plots: ``{"gravity": 1.0}`` as ``gravity=1``."""
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in key.items()
    )
