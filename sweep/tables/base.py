"""Columns, cells and notes that tables share."""

import dataclasses
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sweep.analysis.rows import Table as Table
from sweep.text import format_number, value_for_json

# A column of a table: its header, and a function that makes the cell of a row.
Column = tuple[str, Callable[[Any], str]]


def table_of_rows(
    rows: Iterable[Any],
    columns: Sequence[Column],
    kept: Sequence[str] = ("verdict",),
    **of_table: Any,
) -> Table:
    """A table with a line for each row of an answer.

    Parameters
    ----------
    rows : iterable
    columns : sequence of (str, callable)
        Headers, with functions that make the cell of a row.
    kept : sequence of str, optional
        Headers of columns that are never left out; see `Table`.
    **of_table
        Further attributes of the `Table`.

    Returns
    -------
    Table
    """
    cells = [[cell(row) for _, cell in columns] for row in rows]
    return Table([header for header, _ in columns], cells, kept=kept, **of_table)


def setting_columns(rows: Sequence[Any]) -> list[Column]:
    """The first columns of a table of integrators: label, scanned values, step size or tolerance.

    Parameters
    ----------
    rows : sequence of rows
        Rows with attributes `parameters`, `step_size` and `tolerance`.
    """

    def number_column(header: str, value: Callable[[Any], Any]) -> Column:
        return header, lambda row: format_number(value(row))

    def scanned(axis: str) -> Column:
        return number_column(axis, lambda row: row.parameters.get(axis, ""))

    names = ("step_size", "tolerance")
    steps = [name for name in names if any(math.isfinite(getattr(r, name, math.nan)) for r in rows)]
    return [
        ("integrator", operator.attrgetter("integrator")),
        *map(scanned, scanned_axes_of_rows(rows)),
        *(number_column(name.replace("_", " "), operator.attrgetter(name)) for name in steps),
    ]


def scientific_cell(value: float, digits: int = 2) -> str:
    """A number in scientific notation, such as ``1.2e-09``; an en dash for NaN."""
    return "–" if math.isnan(value) else f"{value:.{digits - 1}e}"


def range_cell(row: Any, digits: int = 2) -> str:
    """The range of values over several starts, such as ``1.2e-09 – 3.4e-09``; else an en dash."""
    ends = (scientific_cell(value, digits) for value in (row.low, row.high))
    return " – ".join(dict.fromkeys(ends)) if getattr(row, "starts", 2) > 1 else "–"


def scientific_column(header: str, name: str) -> Column:
    """A column that shows an attribute of the rows in scientific notation.

    Parameters
    ----------
    header : str
    name : str
        Name of the attribute, which may be dotted: ``defect.high``.
    """
    value = operator.attrgetter(name)
    return header, lambda row: scientific_cell(value(row))


def table_rows_for_json(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Fields and properties of dataclass instances as dictionaries for JSON; NaN becomes None."""
    found = []
    for row in rows:
        computed = [name for name, of in vars(type(row)).items() if isinstance(of, property)]
        values = dataclasses.asdict(row) | {name: getattr(row, name) for name in computed}
        found.append(value_for_json(values))
    return found


def scanned_axes_of_rows(estimates: Iterable[Any]) -> list[str]:
    """Names of the scanned axes of rows."""
    return list(dict.fromkeys(axis for row in estimates for axis in row.parameters))


def integrator_row_label(row: Any) -> str:
    """The integrator of a row with the values of its scanned axes, such as ``rk4 (mass=2)``."""
    values = ", ".join(f"{axis}={format_number(value)}" for axis, value in row.parameters.items())
    return f"{row.integrator} ({values})" if values else row.integrator


def table_notes(rows: Sequence[Any], remark: Callable[[Any], str]) -> list[str]:
    """Remarks on rows as notes: each remark once, after the labels of the rows that it concerns.

    Parameters
    ----------
    rows : sequence of rows
    remark : callable
        Makes the remark on a row, empty for none.

    Returns
    -------
    list of str
    """
    plain = [integrator_row_label(row) for row in rows]
    names: dict[str, list[str]] = {}
    for row, name in zip(rows, plain, strict=True):
        if plain.count(name) > 1:
            step = row.tolerance if math.isnan(row.step_size) else row.step_size
            name += f" at {format_number(step)}"
        names.setdefault(remark(row), []).append(name)
    return [
        f"{f'all {len(rows)}' if 1 < len(of) == len(rows) else ', '.join(of)}: {text}"
        for text, of in names.items()
        if text
    ]


def starts_cell(row: Any) -> str:
    """The number of starts that count; ``3 of 4`` if runs are left out."""
    return f"{row.starts} of {row.starts + row.left_out}" if row.left_out else str(row.starts)


def two_decimal_cell(value: float) -> str:
    """A number with two decimals; an en dash for NaN."""
    return "–" if math.isnan(value) else f"{value:.2f}"


def left_out_runs_note(rows: Iterable[Any]) -> list[str]:
    """A note on the number of runs that do not count; none if all count."""
    runs = sum(row.left_out for row in rows)
    why = "failed, unfinished, without an error or no longer in the study"
    return [f"Left out, as {why}: {runs} runs."] if runs else []


def tables_as_text(tables: Iterable[Table]) -> str:
    """The text of tables, separated by empty lines."""
    return "\n\n".join(map(str, tables))
