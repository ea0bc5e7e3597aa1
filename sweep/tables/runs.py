"""Runs one by one: what tells them apart, how they ended and what they gave."""

import numpy as np

from sweep.analysis.runs.summaries import (
    AT,
    coordinates_that_vary_between_runs,
    main_result_columns,
    names_of_time_series,
    parse_result_column,
    results,
)
from sweep.tables.base import Table, scientific_cell
from sweep.text import format_number, value_for_json

SHOWN = 40
BATCH = 4096  # runs in memory at once where all are wanted


def runs_as_table(dataset, columns=None, sort=None, reverse=False, limit=SHOWN):
    """A table of runs.

    Parameters
    ----------
    dataset : xarray.Dataset
        The runs of one experiment.
    columns : sequence of str, optional
        As of `analysis.results`, or coordinates; by default the coordinates that vary among the
        runs, their status and the main errors.
    sort : str, optional
        A column to sort by, ascending; the store's order by default.
    reverse : bool, optional
        Descend.
    limit : int or None, optional
        Most runs to show; None for all.

    Returns
    -------
    Table
        Below it, how many more runs there are, units, and further columns.

    Raises
    ------
    InputError
        For a column that there is not.
    """
    names = chosen_table_columns(dataset, columns)
    rows = sort_runs_by_column(dataset, sort, reverse)
    shown = dataset.isel(run=rows[:limit])
    table = results(shown, names)
    cells = [[_run_cell_text(table[name], value) for value in table[name].values] for name in names]
    notes = _more_runs_note(len(rows), shown.sizes["run"]) + _column_units_note(table, names)
    if columns is None:
        notes += _further_columns_note(dataset, names)
    return Table(names, [list(row) for row in zip(*cells, strict=True)], notes=notes)


def runs_as_json_rows(dataset, columns=None, sort=None, reverse=False, limit=None):
    """The same as dictionaries for JSON, one after another.

    Yields
    ------
    dict
    """
    names = chosen_table_columns(dataset, columns)
    rows = sort_runs_by_column(dataset, sort, reverse)[:limit]
    for start in range(0, len(rows), BATCH):
        table = results(dataset.isel(run=rows[start : start + BATCH]), names)
        values = [_column_values_for_json(table[name]) for name in names]
        for row in zip(*values, strict=True):
            yield value_for_json(dict(zip(names, row, strict=True)))


def chosen_table_columns(dataset, columns):
    """The columns that are asked for, checked, or those of a table unless told."""
    if not columns:
        return [*coordinates_that_vary_between_runs(dataset), *main_result_columns(dataset)]
    for text in columns:
        parse_result_column(dataset, text)
    return list(dict.fromkeys(columns))


def sort_runs_by_column(dataset, sort, reverse=False):
    """Positions of the runs by the values of a column, missing ones last; in order without one."""
    if sort is None:
        rows = np.arange(dataset.sizes["run"])
        return rows[::-1] if reverse else rows
    values = results(dataset, [sort])[sort].values
    if values.dtype.kind == "O":
        _, values = np.unique(values.astype(str), return_inverse=True)
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
    keys = -values.astype(float) if reverse else values
    return np.lexsort([keys, missing])


def _run_cell_text(array, value):
    """A value as it is printed: errors to two digits, so that they line up."""
    if array.name == "status":
        return _run_status_cell(array, value)
    if "_error" in str(array.name) or "defect" in str(array.name):
        return scientific_cell(float(value))
    return format_number(value.item() if isinstance(value, np.generic) else value, 4)


def _run_status_cell(array, value):
    meanings = array.attrs.get("flag_meanings", "").split()
    flags = dict(zip(array.attrs.get("flag_values", ()), meanings, strict=False))
    return flags.get(int(value), str(value))


def _column_values_for_json(array):
    if array.name == "status":
        return [_run_status_cell(array, value) for value in array.values]
    return array.values.tolist()


def _more_runs_note(total, shown):
    more = total - shown
    return [f"… and {more:,} more of {total:,} runs; --limit 0 lists all"] if more else []


def _column_units_note(table, names):
    units = {name: table[name].attrs.get("units", "1") for name in names}
    by_unit = {}
    for name, unit in units.items():
        if unit != "1":
            by_unit.setdefault(unit, []).append(name)
    texts = [f"{', '.join(of)} [{unit}]" for unit, of in by_unit.items()]
    return [f"Units: {'; '.join(texts)}"] if texts else []


def _further_columns_note(dataset, names):
    """What else there is to ask for."""
    shown = {name.partition(AT)[0] for name in names}
    scalars = [str(n) for n, a in dataset.data_vars.items() if a.dims == ("run",)]
    texts = [", ".join(name for name in scalars if name not in shown)]
    texts.append(f"of series, as NAME{AT}end: {', '.join(names_of_time_series(dataset))}")
    return [f"More by --column: {'; '.join(text for text in texts if text)}"]
