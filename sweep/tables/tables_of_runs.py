"""Tables of single runs, with the coordinates in which they differ, their status and results."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sweep.analysis.rows import grouped
from sweep.analysis.runs.summaries import (
    AT,
    coordinates_for_tables,
    coordinates_that_vary_between_runs,
    main_result_columns,
    names_of_time_series,
    parse_result_column,
    results,
)
from sweep.tables.base import Table, scientific_cell
from sweep.text import format_number, value_for_json

SHOWN = 40
BATCH = 4096  # runs in memory at once if all are listed


def runs_as_table(
    dataset: xr.Dataset,
    columns: Sequence[str] | None = None,
    sort: str | None = None,
    reverse: bool = False,
    limit: int | None = SHOWN,
) -> Table:
    """A table with a row for each run.

    Parameters
    ----------
    dataset : xarray.Dataset
        The runs of one experiment.
    columns : sequence of str, optional
        Results as in `analysis.results`, or coordinates. By default the coordinates that vary among
        the runs, their status and the main errors.
    sort : str, optional
        A column to sort by, ascending; the store's order by default.
    reverse : bool, optional
        Sort in descending order.
    limit : int or None, optional
        How many runs to show at most; None for all.

    Returns
    -------
    Table
        By default, its title states the coordinates that all runs share. Its notes state the number
        of runs not shown, the units, and further columns.

    Raises
    ------
    InputError
        For an unknown column.
    """
    names = chosen_table_columns(dataset, columns)
    rows = sort_runs_by_column(dataset, sort, reverse)
    shown = dataset.isel(run=rows[:limit])
    table = results(shown, names)
    cells = [[_run_cell_text(name, one) for one in _column_values(table[name])] for name in names]
    more = len(rows) - shown.sizes["run"]
    notes = [f"… and {more:,} more of {len(rows):,} runs; --limit 0 lists all"] if more else []
    notes += _column_units_note(table, names)
    if columns is None:
        notes += _further_columns_note(dataset, names)
    lines = [list(row) for row in zip(*cells, strict=True)]
    title = "" if columns else _shared_coordinates_title(dataset, names)
    return Table(names, lines, title, notes, kept=["status"])


def runs_as_json_rows(
    dataset: xr.Dataset,
    columns: Sequence[str] | None = None,
    sort: str | None = None,
    reverse: bool = False,
    limit: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Runs as dictionaries for JSON, read in batches.

    Parameters
    ----------
    dataset : xarray.Dataset
    columns : sequence of str, optional
    sort : str, optional
    reverse : bool, optional
    limit : int or None, optional
        As in `runs_as_table`, but by default all runs.

    Yields
    ------
    dict
        Values by column.
    """
    names = chosen_table_columns(dataset, columns)
    rows = sort_runs_by_column(dataset, sort, reverse)[:limit]
    for start in range(0, len(rows), BATCH):
        table = results(dataset.isel(run=rows[start : start + BATCH]), names)
        values = [_column_values(table[name]) for name in names]
        for row in zip(*values, strict=True):
            yield {name: value_for_json(value) for name, value in zip(names, row, strict=True)}


def chosen_table_columns(dataset: xr.Dataset, columns: Sequence[str] | None) -> list[str]:
    """Check the columns of a table of runs, or choose the default ones.

    Parameters
    ----------
    dataset : xarray.Dataset
    columns : sequence of str or None
        None for the coordinates that vary among the runs, their status and the main errors.

    Returns
    -------
    list of str

    Raises
    ------
    InputError
        For an unknown column.
    """
    if not columns:
        return [*coordinates_that_vary_between_runs(dataset), *main_result_columns(dataset)]
    for text in columns:
        parse_result_column(dataset, text)
    return list(dict.fromkeys(columns))


def sort_runs_by_column(
    dataset: xr.Dataset, sort: str | None, reverse: bool = False
) -> NDArray[np.intp]:
    """Sort runs by a column, and return their positions.

    Parameters
    ----------
    dataset : xarray.Dataset
    sort : str or None
        The column, whose missing values come last; None for the order of the store.
    reverse : bool, optional
        Sort in descending order.

    Returns
    -------
    ndarray of int, shape (runs,)
    """
    if sort is None:
        rows = np.arange(dataset.sizes["run"])
        return rows[::-1] if reverse else rows
    values = pd.Series(results(dataset, [sort])[sort].values)
    values = values.astype(str) if values.dtype == object else values
    return values.sort_values(ascending=not reverse, kind="stable").index.to_numpy()


def failures_as_table(
    rows: Sequence[Mapping[str, Any]], title: str = "", notes: Sequence[str] = ()
) -> Table:
    """A table of failed runs of an experiment, without columns that are empty in all rows."""
    cells = {
        key.replace("_", " "): [format_number(row[key], 5) for row in rows]
        for key in rows[0]
        if key != "experiment"
    }
    cells = {key: texts for key, texts in cells.items() if {*texts} - {"–", ""}}
    lines = [list(line) for line in zip(*cells.values(), strict=True)]
    return Table([*cells], lines, title, notes, kept=["status"])


def _run_cell_text(name: str, value: Any) -> str:
    """A value as text; errors have two digits, so that they line up."""
    if "_error" in name or "defect" in name:
        return scientific_cell(float(value))
    return format_number(value, 4)


def _column_values(array: xr.DataArray) -> list[Any]:
    """The values of a column; for the status, their names."""
    if array.name != "status":
        return list(array.values.tolist())
    meanings = array.attrs.get("flag_meanings", "").split()
    names: dict[int, str] = dict(zip(array.attrs.get("flag_values", ()), meanings, strict=False))
    return [names.get(int(value), str(value)) for value in array.values]


def _shared_coordinates_title(dataset: xr.Dataset, varying: Sequence[str]) -> str:
    """The values that all runs share: ``all: integrator rk4, step_size 0.01``."""
    names = [name for name in coordinates_for_tables(dataset) if name not in (*varying, "repeat")]
    values = [(name, dataset[name].values[0]) for name in names]
    texts = [f"{name} {format_number(value, 4)}" for name, value in values if value == value]
    return f"all: {', '.join(texts)}" if texts else ""


def _column_units_note(table: xr.Dataset, names: Sequence[str]) -> list[str]:
    by_unit = grouped(names, lambda name: table[name].attrs.get("units", "1"))
    texts = [f"{', '.join(of)} [{unit}]" for unit, of in by_unit.items() if unit != "1"]
    return [f"Units: {'; '.join(texts)}"] if texts else []


def _further_columns_note(dataset: xr.Dataset, names: Sequence[str]) -> list[str]:
    """A note that lists the columns that are not shown."""
    shown = {name.partition(AT)[0] for name in names}
    scalars = [str(n) for n, a in dataset.data_vars.items() if a.dims == ("run",)]
    texts = [", ".join(name for name in scalars if name not in shown)]
    texts.append(f"of series, as NAME{AT}end: {', '.join(names_of_time_series(dataset))}")
    return [f"More by --column: {'; '.join(text for text in texts if text)}"]
