"""Results of each run as scalars, such as the end or maximum of a series, or its value at a time.

A series over ``(run, time)`` may be much larger than memory. It is read in blocks of runs and
times, and each block is reduced before the next one is read.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from integrators.errors import InputError, suggest_nearest
from sweep.analysis.runs import selection
from sweep.analysis.runs.blocks import Floats, map_blocks, slices_of_runs, slices_of_samples

LABELS = 2**16  # number of values of a coordinate that are compared at once
STATISTICS = ("_mean", "_min", "_max", "_abs_mean", "_abs_max")
# What the reductions of a series are called.
OF_SERIES = {
    "start": "{} at the start",
    "end": "{} at the end",
    "min": "least {}",
    "max": "largest {}",
    "mean": "{}, mean of the samples",
    "abs_max": "largest size of {}",
}
AT = "@"


@dataclass(frozen=True)
class Spread:
    """Median and range over the starts."""

    median: float = math.nan
    low: float = math.nan
    high: float = math.nan

    @classmethod
    def of(cls, values: Floats) -> "Spread":
        """The spread of the finite values; NaN if there are none."""
        values = values[np.isfinite(values)]
        return cls(*(float(f(values)) for f in (np.median, np.min, np.max) if len(values)))


@dataclass(frozen=True)
class Column:
    """A scalar of each run: a variable over runs, or a reduction of a series.

    Attributes
    ----------
    variable : str
    of : str
        Reduction of the series, one of `OF_SERIES` or ``time``; empty for a variable over runs.
    place : int
        Index of the sample time, for ``time``.
    text : str
        Name of the column: ``energy_error@max``, ``global_error@2``.
    read : tuple of str
        The series that are reduced together, if not only the variable.
    """

    variable: str
    of: str
    place: int
    text: str
    read: tuple[str, ...] = ()


def results(dataset: xr.Dataset | xr.DataTree, columns: Sequence[str] | None = None) -> xr.Dataset:
    """Results of each run as scalars, for pandas, plots or files.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    columns : sequence of str, optional
        Variables over runs, such as ``evaluations``; and series, followed by ``@`` and a reduction:
        ``start``, ``end``, ``min``, ``max``, ``mean``, ``abs_max`` or a sample time, such as
        ``energy_error@max`` and ``global_error@2``. The end of a run that is not complete is NaN;
        errors against a reference end with the reference. The ``max`` of an error is the maximum of
        its absolute value, over every step if the store has that. By default: every variable over
        runs, the end of every series, and the ``max`` of every error.

    Returns
    -------
    xarray.Dataset
        Variables along ``run`` with units and long names, and the coordinates of the runs; in
        memory. ``.to_dataframe()`` makes a pandas table.

    Raises
    ------
    InputError
        If a column is unknown, with the nearest name.

    Examples
    --------
    >>> results(ds, ["status", "energy_error@max"]).to_dataframe()   # doctest: +SKIP
    """
    dataset = selection.run_table(dataset)
    texts = default_result_columns(dataset) if columns is None else list(dict.fromkeys(columns))
    chosen = [parse_result_column(dataset, text) for text in texts]
    values = reduce_result_columns(dataset, chosen)
    return xr.Dataset(
        {
            # by the fast path: otherwise xarray imports dask.array, which takes a third of a second
            one.text: xr.Variable(
                ("run",),
                values[one.text],
                result_column_attributes(dataset, one),
                fastpath=True,
            )
            for one in chosen
            if one.text not in dataset.coords
        },
        coords={name: array for name, array in dataset.coords.items() if array.dims == ("run",)},
        attrs=dataset.attrs,
    )


def units(dataset: xr.Dataset | xr.DataTree) -> dict[str, str]:
    """Units of the variables and coordinates of a run table.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, a selection of its runs, or a result of `results` or `grid`.

    Returns
    -------
    dict of str to str
        Units by name of variable or coordinate, such as ``"J"``; ``"1"`` for dimensionless ones,
        and ``""`` for labels. ``dataset[name].attrs["long_name"]`` is the description.

    Examples
    --------
    >>> units(ds)["energy_error"]   # doctest: +SKIP
    'J'
    """
    return {
        str(name): "" if array.dtype.kind in "OTU" else array.attrs.get("units", "1")
        for name, array in {**dataset.coords, **dataset.data_vars}.items()
    }


def default_result_columns(dataset: xr.Dataset) -> list[str]:
    """Every variable over runs, the end of every series, and the maximum of every error."""
    names = [str(name) for name, array in dataset.data_vars.items() if array.dims == ("run",)]
    for name in names_of_time_series(dataset):
        if not name.endswith(tuple(f"_error{of}" for of in STATISTICS)):
            names.append(f"{name}{AT}end")
        if name.endswith("_error") and name != "reference_error":
            names.append(f"{name}{AT}max")
    return names


def main_result_columns(dataset: xr.Dataset) -> list[str]:
    """Status, global error at the end, and maximum errors of invariants, the energy first."""
    names = [name for name in ("status",) if name in dataset]
    names += [f"{name}{AT}end" for name in ("global_error",) if name in dataset]
    kept = invariant_errors_by_energy(dataset)
    return names + [
        f"{name}{AT}max" for name in kept if dataset[name].attrs.get("kind") != "constraint"
    ]


def invariant_errors_by_energy(dataset: xr.Dataset) -> list[str]:
    """Names of the errors of invariants and constraints, with that of the energy first."""
    energy = f"{selection.name_of_energy_quantity(dataset)}_error"
    return sorted(names_of_invariant_errors(dataset), key=lambda name: name != energy)


def names_of_invariant_errors(dataset: xr.Dataset) -> list[str]:
    """Names of the errors of invariants and constraints, in the store's order."""
    return [
        name
        for name in names_of_time_series(dataset)
        if name.endswith("_error")
        and name != "reference_error"
        and not selection.is_error_against_reference(dataset, name)
    ]


def coordinates_that_vary_between_runs(dataset: xr.Dataset) -> list[str]:
    """Names of the coordinates that differ between runs, in the order of table columns."""
    wanted = coordinates_for_tables(dataset)
    return [name for name in wanted if _values_vary(dataset[name])] or wanted[:1]


def coordinates_for_tables(dataset: xr.Dataset) -> list[str]:
    """Names of the coordinates that describe a run, in the order of table columns."""
    order = ["integrator", "step_size", "tolerance", "initial_condition", "repeat"]
    there = [str(name) for name, array in dataset.coords.items() if array.dims == ("run",)]
    scanned = [name for name in there if name not in selection.RUN_COORDINATES]
    return [name for name in (*order[:3], *scanned, *order[3:]) if name in there]


def _values_vary(array: xr.DataArray) -> bool:
    """Whether the runs have more than one value; lazy labels are read in parts."""
    first = array[:1].values
    parts = (array[start : start + LABELS].values for start in range(0, array.size, LABELS))
    return any(len(pd.unique(np.append(first, part))) > 1 for part in parts)


def names_of_time_series(dataset: xr.Dataset) -> list[str]:
    """Names of the variables over ``(run, time)``."""
    return [
        str(name) for name, array in dataset.data_vars.items() if set(array.dims) == {"run", "time"}
    ]


def parse_result_column(dataset: xr.Dataset, text: str) -> Column:
    """Parse the name of a column, such as ``energy_error@abs_max``.

    Raises
    ------
    InputError
        If there is no such column, with the nearest name.
    """
    name, at, of = str(text).partition(AT)
    scalars = [str(key) for key in dataset.variables if dataset[key].dims == ("run",)]
    series = names_of_time_series(dataset)
    if not at and name in scalars:
        return Column(name, "", 0, name)
    if at and name in series:
        if of == "max" and name.endswith("_error"):  # its absolute value
            return Column(name, "abs_max", 0, str(text), _read_for_largest_size(dataset, name))
        place = 0 if of in OF_SERIES else _place_of_sample_time(dataset, text, of)
        return Column(name, of if of in OF_SERIES else "time", place, str(text))
    if name in series:
        last = f"{name}{AT}{float(dataset['time'].values[-1]):g}"
        why = (
            f"{name!r} is a series over time: choose a value, {name}{AT}end, {name}{AT}max, "
            f"another of {', '.join(OF_SERIES)}, or a sample time, e.g. {last}."
        )
    elif name in scalars:
        why = f"unknown series over time {name!r}. It has one value a run: leave {at}{of} out."
    elif at:
        why = f"unknown series over time {name!r}.{suggest_nearest(name, series)}"
    else:
        why = f"unknown column {name!r}.{suggest_nearest(name, [*scalars, *series])}"
    raise InputError(why, key="column")


def _read_for_largest_size(dataset: xr.Dataset, name: str) -> tuple[str, ...]:
    """Names of the samples of an error and, if the store has it, of its maximum over every step."""
    if (every_step := f"{name}_abs_max") not in dataset:
        return (name,)
    # Fixed steps end at every sample; adaptive steps may be longer than sample intervals.
    return (every_step, name) if selection.adaptive_runs(dataset).any() else (every_step,)


def _place_of_sample_time(dataset: xr.Dataset, text: str, of: str) -> int:
    """The index of a sample time; `InputError`, with the nearest sample, if there is none."""
    times = dataset["time"].values
    try:
        time = float(of)
    except ValueError:
        raise InputError(
            f"{text!r}: after the {AT} expected a sample time, or one of "
            f"{', '.join(OF_SERIES)}.{suggest_nearest(of, OF_SERIES)}",
            key="column",
        ) from None
    place = int(np.argmin(np.abs(times - time))) if math.isfinite(time) else 0
    if not math.isclose(times[place], time, rel_tol=1e-9, abs_tol=1e-12):
        raise InputError(
            f"{text!r}: no sample is at t = {of}; the nearest is at {times[place]:g}, the last at "
            f"{times[-1]:g}.",
            key="column",
        )
    return place


def result_column_attributes(dataset: xr.Dataset, one: Column) -> dict[Any, Any]:
    """Units and long name of a column; all attributes of a variable over runs."""
    attributes = dataset[one.variable].attrs
    if not one.of:
        return attributes
    text = attributes.get("long_name", one.variable.replace("_", " "))
    form = OF_SERIES.get(one.of, f"{{}} at t = {one.text.partition(AT)[2]}")
    return {"units": attributes.get("units", "1"), "long_name": form.format(text)}


def reduce_result_columns(
    dataset: xr.Dataset, columns: Sequence[Column]
) -> dict[str, NDArray[Any]]:
    """Compute columns, reading series block by block.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table.
    columns : sequence of Column

    Returns
    -------
    dict of str to ndarray, shape ``(run,)``
        By the column's text.
    """
    found = {one.text: dataset[one.variable].values for one in columns if not one.of}
    reductions = [one for one in columns if one.of]
    read = {one.text: one.read or (one.variable,) for one in reductions}
    for name in dict.fromkeys(itertools.chain(*read.values())):
        array = dataset[name].variable.transpose("run", "time")
        wanted = [one for one in reductions if name in read[one.text]]
        for text, values in _reduce_series(array, wanted).items():
            found[text] = np.fmax(found[text], values) if text in found else values
    ended = selection.complete_runs(dataset.drop_vars("in_study", errors="ignore"))
    for one in columns:
        if one.of == "end":  # the last sample of a run that stopped is not its end
            found[one.text] = np.where(ended, found[one.text], np.nan)
    return found


def _reduce_series(array: xr.Variable, columns: Sequence[Column]) -> dict[str, Floats]:
    """Reduce a series ``(run, time)`` to columns, by their names."""
    at_sample = [one for one in columns if one.of in ("start", "time")]
    found = {one.text: array[:, one.place].values for one in at_sample}
    over = {one.text: one.of for one in columns if one not in at_sample}
    if not over:
        return found
    slices, spans = slices_of_runs(*array.shape), slices_of_samples(array.shape[1])
    reduced = map_blocks(
        _reduce_block,
        (([array[rows, span]], (set(over.values()),)) for rows in slices for span in spans),
    )
    parts = [functools.reduce(_join, itertools.islice(reduced, len(spans))) for _ in slices]
    for text, of in over.items():
        values = np.concatenate([part[of] for part in parts], axis=-1)
        if of == "mean":
            values = values[0] / np.where(values[1] > 0, values[1], np.nan)
        found[text] = values
    return found


def _reduce_block(reductions: set[str], values: Floats) -> dict[str, Floats]:
    """Reductions of a block of shape ``(run, time)``."""
    return {of: REDUCTIONS[of][0](values) for of in reductions}


def _join(before: dict[str, Floats], after: dict[str, Floats]) -> dict[str, Floats]:
    """Join the reductions of two blocks of the same runs."""
    return {of: REDUCTIONS[of][1](before[of], after[of]) for of in before}


def _last_finite(values: Floats) -> Floats:
    there = np.isfinite(values)
    last = values.shape[1] - 1 - np.argmax(there[:, ::-1], axis=1)
    return np.where(there.any(axis=1), values[np.arange(len(values)), last], np.nan)


def _sum_and_count(values: Floats) -> Floats:
    """Sum and number of the values of each run; shape ``(2, run)``."""
    return np.stack([np.nansum(values, axis=1) + 0.0, (~np.isnan(values)).sum(axis=1)])


# Reductions of a block, and functions that join the reductions of two blocks.
REDUCTIONS: dict[str, tuple[Callable[[Floats], Floats], Callable[[Floats, Floats], Floats]]] = {
    "end": (_last_finite, lambda before, after: np.where(np.isnan(after), before, after)),
    "min": (lambda values: np.fmin.reduce(values, axis=1), np.fmin),
    "max": (lambda values: np.fmax.reduce(values, axis=1), np.fmax),
    "mean": (_sum_and_count, np.add),
    "abs_max": (lambda values: np.fmax.reduce(np.abs(values), axis=1), np.fmax),
}
