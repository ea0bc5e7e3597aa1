"""Selections of a run table: its axes, groups of its runs, the runs that count."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from integrators.errors import InputError, suggest_nearest
from integrators.precision import ARITHMETIC, DOUBLE, ROUND_OFF
from sweep.analysis.runs.blocks import Booleans, Floats, Integers

# Coordinates along `run` that every run table has; any other is an axis that the study scans, or,
# where it says so, one of a family of initial conditions.
RUN_COORDINATES = (
    "run",
    "run_id",
    "integrator",
    "step_size",
    "tolerance",
    "adaptive",
    "initial_condition",
    "ensemble",
    "repeat",
    "in_study",
)

# Errors that are measured against a reference solution, which has an error of its own; systems may
# have others, whose attribute `kind` says so.
REFERENCE_ERRORS = (
    "global_error",
    "position_error",
    "velocity_error",
    "attitude_error",
    "direction_error",
    "angular_velocity_error",
    "angular_momentum_error",
)

Runs = TypeVar("Runs", xr.Dataset, xr.Variable)  # along `run`


def run_table(dataset: xr.Dataset | xr.DataTree) -> xr.Dataset:
    """The run table as a Dataset, from a Dataset or from a node of `sweep.open_study`'s tree.

    Raises
    ------
    InputError
        When it is no run table, or when the selection left no run.
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
    """The run table with each run once: repeats are for CPU times alone."""
    dataset = run_table(dataset)
    if "repeat" not in dataset.coords:
        return dataset
    repeat = dataset["repeat"].values
    return take_runs(dataset, np.flatnonzero(repeat == repeat.min()))


def run_table_variable(dataset: xr.Dataset, name: str) -> xr.DataArray:
    """The variable of this name; InputError, with similar names, if there is none."""
    if name not in dataset.data_vars:
        there = [str(key) for key in dataset.data_vars if str(key).endswith("_error")]
        advice = (
            " Errors against a reference need `reference = {…}` in the experiment."
            if name in REFERENCE_ERRORS
            else ""
        )
        raise InputError(f"the dataset has no {name!r}.{suggest_nearest(name, there)}{advice}")
    return dataset[name]


def is_error_against_reference(dataset: xr.Dataset, name: str) -> bool:
    """Whether a variable is an error that is measured against a reference."""
    return name in REFERENCE_ERRORS or dataset[name].attrs.get("kind") == "state_error"


def name_of_energy_quantity(dataset: xr.Dataset) -> str:
    """Name of the quantity of kind ``energy``, ``energy`` where none says that it is one."""
    for name, array in dataset.data_vars.items():
        if array.attrs.get("kind") == "energy":
            return str(name).removesuffix("_error")
    return "energy"


def scanned_axes(dataset: xr.Dataset) -> tuple[str, ...]:
    """Names of the coordinates along `run` that the study scans, e.g. ``("gravity",)``."""
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
    """Mask of the runs that count: computed to the end and in the study; shape ``(run,)``.

    With `also_stopped`, runs that blew up, left their domain or did not converge count too, as
    their samples until then are results.
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


def adaptive_runs(dataset: xr.Dataset) -> Booleans:
    """Mask of the runs with step size control; shape ``(run,)``."""
    if "adaptive" in dataset:
        return dataset["adaptive"].values.astype(bool)
    return np.isnan(dataset["step_size"].values)


def distinct_values_and_codes(values: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
    """Distinct values and, for each value, its place among them.

    Labels keep the order in which they first appear, which is the study's; numbers are sorted.

    Parameters
    ----------
    values : ndarray, shape ``(run,)``

    Returns
    -------
    distinct : ndarray
    code : ndarray of int, shape ``(run,)``
    """
    if values.dtype.kind in "biuf":
        return np.unique(values, return_inverse=True)
    labels = values.tolist()
    place = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    code = np.fromiter((place[label] for label in labels), dtype=np.int64, count=len(labels))
    return np.array(list(place), dtype=object), code


def take_runs(dataset: Runs, runs: Integers) -> Runs:
    """The runs at the given ascending positions; contiguous ones are read as a slice."""
    contiguous = len(runs) > 0 and runs[-1] - runs[0] + 1 == len(runs)
    return dataset.isel(run=slice(runs[0], runs[-1] + 1) if contiguous else runs)


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
    keys, place = [], np.zeros(dataset.sizes["run"], dtype=np.int64)
    for name in names:
        distinct, code = distinct_values_and_codes(dataset[name].values)
        keys.append(distinct)
        place = place * len(distinct) + code
    shape = [len(distinct) for distinct in keys]
    order = np.argsort(place, kind="stable")
    firsts = np.flatnonzero(np.diff(place[order], prepend=-1))
    for runs in np.split(order, firsts[1:]):
        where = np.unravel_index(place[runs[0]], shape) if names else ()
        yield (
            {
                name: plain_python_value(key[i])
                for name, key, i in zip(names, keys, where, strict=True)
            },
            runs,
        )


def plain_python_value(value: Any) -> Any:
    """A NumPy scalar as the Python object that prints and serialises like one."""
    return value.item() if isinstance(value, np.generic) else value


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


def arithmetic_of_reference(dataset: xr.Dataset) -> str:
    """The arithmetic of the reference solutions of a run table."""
    known = "reference_error" in dataset
    return dataset["reference_error"].attrs.get(ARITHMETIC, DOUBLE) if known else DOUBLE


def sample_interval(dataset: xr.Dataset) -> float:
    """The time that every step size of an experiment divides.

    Of samples that thin out that is the largest step size of the study; of tables that come from no
    store it is taken for the least distance of two samples.
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
    """``{"gravity": 1.0}`` as the text ``gravity=1``, as tables and plots show it."""
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in key.items()
    )
