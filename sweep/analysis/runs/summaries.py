"""Results of each run as scalars: the end of a series, its largest value, its value at a time.

A series over ``(run, time)`` may be far larger than memory. It is read in blocks of runs and times,
and each block is reduced at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from integrators.errors import InputError, suggest_nearest
from sweep.analysis.runs.blocks import (
    Booleans,
    Floats,
    Integers,
    map_blocks,
    slices_of_runs,
    slices_of_samples,
)
from sweep.analysis.runs.selection import (
    RUN_COORDINATES,
    adaptive_runs,
    is_error_against_reference,
    name_of_energy_quantity,
    run_table,
)

LABELS = 2**16  # values of a coordinate that are compared at once
STATISTICS = ("_mean", "_min", "_max", "_abs_mean", "_abs_max")
OF_SERIES = {
    "start": "at the start",
    "end": "at the end",
    "min": "least value",
    "max": "largest value",
    "mean": "mean of the samples",
    "abs_max": "largest size",
}
AT = "@"


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
    """

    variable: str
    of: str
    place: int
    text: str

    @property
    def is_largest_size(self) -> bool:
        """Whether it is the largest size of an error."""
        return self.of == "max" and self.variable.endswith("_error")


def results(dataset: xr.Dataset | xr.DataTree, columns: Sequence[str] | None = None) -> xr.Dataset:
    """What each run gave, as scalars: the table for pandas, a plot or a file.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    columns : sequence of str, optional
        Variables over runs, such as ``evaluations``, and of series what is asked of them behind an
        ``@``: ``start``, ``end``, ``min``, ``max``, ``mean``, ``abs_max`` or a sample time, such as
        ``energy_error@max`` and ``global_error@2``. A run that is not complete has no end, and a
        comparison with a reference ends with that. The ``max`` of an error is its largest size,
        over every step where the store has that. By default every variable over runs, the end of
        every series, and the ``max`` of every error.

    Returns
    -------
    xarray.Dataset
        Along ``run``, with units and long names and the coordinates of the runs; in memory.
        ``.to_dataframe()`` is a pandas table.

    Raises
    ------
    InputError
        For an unknown column, with the nearest name.

    Examples
    --------
    >>> results(ds, ["status", "energy_error@max"]).to_dataframe()   # doctest: +SKIP
    """
    dataset = run_table(dataset)
    texts = default_result_columns(dataset) if columns is None else list(dict.fromkeys(columns))
    chosen = [parse_result_column(dataset, text) for text in texts]
    values = reduce_result_columns(dataset, chosen)
    return xr.Dataset(
        {
            # by the fast path, as else xarray imports dask.array, for a third of a second
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
    """The units of everything in a run table.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs, or what `results` or `grid` gives.

    Returns
    -------
    dict of str to str
        By the name of the variable or coordinate: ``"J"``, ``"1"`` where there is no unit, and
        ``""`` of labels. ``dataset[name].attrs["long_name"]`` says what it is.

    Examples
    --------
    >>> units(ds)["energy_error"]   # doctest: +SKIP
    'J'
    """
    return {
        str(name): ""
        if dataset[name].dtype.kind in "OTU"
        else dataset[name].attrs.get("units", "1")
        for name in (*dataset.coords, *dataset.data_vars)
    }


def default_result_columns(dataset: xr.Dataset) -> list[str]:
    """Every variable over runs, the end of every series, and the largest size of every error."""
    names = [str(name) for name, array in dataset.data_vars.items() if array.dims == ("run",)]
    for name in names_of_time_series(dataset):
        if not name.endswith(tuple(f"_error{of}" for of in STATISTICS)):
            names.append(f"{name}{AT}end")
        if name.endswith("_error") and name != "reference_error":
            names.append(f"{name}{AT}max")
    return names


def main_result_columns(dataset: xr.Dataset) -> list[str]:
    """Main columns: status, global error at the end, largest errors of invariants, energy first."""
    names = [name for name in ("status",) if name in dataset]
    names += [f"{name}{AT}end" for name in ("global_error",) if name in dataset]
    kept = sorted(
        names_of_invariant_errors(dataset),
        key=lambda name: name != f"{name_of_energy_quantity(dataset)}_error",
    )
    return names + [
        f"{name}{AT}max" for name in kept if dataset[name].attrs.get("kind") != "constraint"
    ]


def names_of_invariant_errors(dataset: xr.Dataset) -> list[str]:
    """Names of the errors of invariants and constraints, in the store's order."""
    return [
        name
        for name in names_of_time_series(dataset)
        if name.endswith("_error")
        and name != "reference_error"
        and not is_error_against_reference(dataset, name)
    ]


def coordinates_that_vary_between_runs(dataset: xr.Dataset) -> list[str]:
    """Names of the coordinates that differ between runs, in the order of columns of a table."""
    order = ["integrator", "step_size", "tolerance", "initial_condition", "repeat"]
    there = [str(name) for name, array in dataset.coords.items() if array.dims == ("run",)]
    scanned = [name for name in there if name not in RUN_COORDINATES]
    wanted = [name for name in (*order[:3], *scanned, *order[3:]) if name in there]
    return [name for name in wanted if _values_vary(dataset[name])] or wanted[:1]


def _values_vary(array: xr.DataArray) -> bool:
    """Whether the runs have more than one value; read in blocks, as labels may be lazy."""
    first = None
    for start in range(0, array.size, LABELS):
        values = array[start : start + LABELS].values
        first = values[:1] if first is None else first
        differ = values != first
        if values.dtype.kind == "f":
            differ &= ~(np.isnan(values) & np.isnan(first))
        if differ.any():
            return True
    return False


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
        When there is no such column, with the nearest name.
    """
    name, at, of = str(text).partition(AT)
    scalars = [str(key) for key in dataset.variables if dataset[key].dims == ("run",)]
    series = names_of_time_series(dataset)
    if not at and name in scalars:
        return Column(name, "", 0, name)
    if not at and name in series:
        raise InputError(
            f"{name!r} is a series over time: say what of it, {name}{AT}end, {name}{AT}max, "
            f"another of {', '.join(OF_SERIES)}, or a sample time, e.g. "
            f"{name}{AT}{float(dataset['time'].values[-1]):g}.",
            key="column",
        )
    if name not in series:
        known = series if at else [*scalars, *series]
        kind = "series over time" if at else "column"
        hint = f" It has one value a run: leave {at}{of} out." if name in scalars else ""
        raise InputError(
            f"unknown {kind} {name!r}.{hint or suggest_nearest(name, known)}", key="column"
        )
    if of in OF_SERIES:
        return Column(name, of, 0, str(text))
    return Column(name, "time", _place_of_sample_time(dataset, text, of), str(text))


def _place_of_sample_time(dataset: xr.Dataset, text: str, of: str) -> int:
    """The index of a sample time; `InputError`, with the nearest sample, if there is none."""
    times = dataset["time"].values
    try:
        time = float(of)
    except ValueError:
        raise InputError(
            f"{text!r}: behind the {AT} stands a sample time, or one of "
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
    of = OF_SERIES.get("abs_max" if one.is_largest_size else one.of)
    of = of or f"at t = {one.text.partition(AT)[2]}"
    text = attributes.get("long_name", one.variable.replace("_", " "))
    return {"units": attributes.get("units", "1"), "long_name": f"{text}, {of}"}


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
    sought = [
        part for one in columns if one.of for part in _variables_read_for_column(dataset, one)
    ]
    for name in dict.fromkeys(part.variable for part in sought):
        array = dataset[name].variable.transpose("run", "time")
        parts = [part for part in sought if part.variable == name]
        for text, values in _reduce_series_to_columns(array, parts).items():
            found[text] = np.fmax(found[text], values) if text in found else values
    for one in columns:
        if one.of == "end":
            found[one.text] = np.where(_runs_that_ended(dataset), found[one.text], np.nan)
    return found


def _runs_that_ended(dataset: xr.Dataset) -> Booleans:
    """Mask of the runs that reached the end; the last sample of another is no result."""
    ended = np.ones(dataset.sizes["run"], dtype=bool)
    if "status" in dataset:
        ended &= dataset["status"].values == 0
    if "sample_count" in dataset:
        ended &= dataset["sample_count"].values >= dataset.sizes["time"]
    return ended


def _variables_read_for_column(dataset: xr.Dataset, one: Column) -> list[Column]:
    """Reductions to read for a column: for the largest size of an error also that of every step."""
    every_step = f"{one.variable}_abs_max"
    if not one.is_largest_size:
        return [one]
    of_samples = replace(one, of="abs_max")
    if every_step not in dataset:
        return [of_samples]
    of_steps = replace(one, variable=every_step)
    # Steps of fixed size end at every sample; those of adaptive methods may be longer.
    return [of_steps, of_samples] if adaptive_runs(dataset).any() else [of_steps]


def _reduce_series_to_columns(array: xr.Variable, columns: Sequence[Column]) -> dict[str, Floats]:
    runs, times = array.shape
    found = {one.text: np.full(runs, np.nan) for one in columns}
    counts = np.zeros(runs)  # of values in each mean
    only = sorted({one.place for one in columns}) if all(c.of == "time" for c in columns) else None
    blocks = [
        (rows, span)
        for rows in slices_of_runs(runs, 1 if only else times)
        for span in ([slice(k, k + 1) for k in only] if only else slices_of_samples(times))
    ]
    reduced = map_blocks(_reduce_block, (([array[block]], (block[1], columns)) for block in blocks))
    for (rows, _), (parts, count) in zip(blocks, reduced, strict=True):
        for one, part in zip(columns, parts, strict=True):
            if part is not None:
                _add_block(found[one.text][rows], part, one)
        if count is not None:
            counts[rows] += count
    for one in columns:
        if one.of == "mean":
            found[one.text] /= np.where(counts > 0, counts, np.nan)
    return found


def _reduce_block(
    span: slice, columns: Sequence[Column], values: Floats
) -> tuple[list[Floats | None], Integers | None]:
    """Reduce a block of a series, ``(runs, times)``, to each column, and count its values."""
    means = any(one.of == "mean" for one in columns)
    count = (~np.isnan(values)).sum(axis=1) if means else None
    return [_reduce_block_to_column(values, span, one) for one in columns], count


def _reduce_block_to_column(values: Floats, span: slice, one: Column) -> Floats | None:
    """The part of a column from one block, shape ``(runs,)``; None where it has none."""
    if one.of in ("time", "start"):
        place = one.place if one.of == "time" else 0
        within = span.start <= place < span.stop
        return values[:, place - span.start].copy() if within else None
    if one.of == "end":
        there = np.isfinite(values)
        last = values.shape[1] - 1 - np.argmax(there[:, ::-1], axis=1)
        return np.where(there.any(axis=1), values[np.arange(len(values)), last], np.nan)
    if one.of == "mean":
        return np.nansum(values, axis=1)
    values = np.abs(values) if one.of == "abs_max" else values
    return (np.fmin if one.of == "min" else np.fmax).reduce(values, axis=1)


def _add_block(result: Floats, part: Floats, one: Column) -> None:
    """Combine the reduction of a block with the results so far of these runs, in place."""
    if one.of in ("time", "start"):
        result[:] = part
    elif one.of == "end":
        np.copyto(result, part, where=~np.isnan(part))
    elif one.of == "mean":
        np.copyto(result, 0.0, where=np.isnan(result))
        result += part
    else:
        (np.fmin if one.of == "min" else np.fmax)(result, part, out=result)
