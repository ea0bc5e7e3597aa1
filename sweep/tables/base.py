"""The `Table` that answers are printed as, and the cells and notes that tables share."""

import dataclasses
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from integrators.html import html_table, html_text
from sweep.text import (
    data_frame,
    escape_control_characters,
    escape_controls_in_lines,
    format_number,
    format_table,
    value_for_json,
)

if TYPE_CHECKING:
    import pandas


WIDTH = 100  # of lines of text above a table


class ScannedRow(Protocol):
    """A row of an answer that is given for each combination of scanned values."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Values of the scanned axes."""


class IntegratorRow(ScannedRow, Protocol):
    """A row about an integrator."""

    @property
    def integrator(self) -> str:
        """Its label in the study."""


AnyIntegratorRow = TypeVar("AnyIntegratorRow", bound=IntegratorRow)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as it is printed, and as the report shows it.

    Attributes
    ----------
    headers : list of str
    rows : list of list of str
    title : str
        A line above it; empty for none.
    notes : list of str
        Lines below it.
    units : dict of str to str
        Units of columns by their headers, for LaTeX; as text, the title names them.
    summary : str
        The result in a sentence, above the title; see `sweep.analysis.summary`.
    """

    headers: list[str]
    rows: list[list[str]]
    title: str = ""
    notes: Sequence[str] = ()
    units: dict[str, str] = dataclasses.field(default_factory=dict)
    summary: str = ""

    def __str__(self) -> str:
        lines = textwrap.wrap(escape_control_characters(self.summary), WIDTH)
        lines += [escape_controls_in_lines(self.title)] if self.title else []
        lines.append(format_table(self.headers, self.rows))
        return "\n".join(
            [*lines, *(["", *map(escape_control_characters, self.notes)] if self.notes else [])]
        )

    def _repr_html_(self) -> str:
        table = html_table(self.headers, self.rows, self.title, self.notes)
        return html_text(self.summary, bold=True) + table

    def to_dataframe(self) -> "pandas.DataFrame":
        """The cells, as they are printed, as a `pandas.DataFrame`."""
        return data_frame(self.rows, self.headers)


def scientific_cell(value: float, digits: int = 2) -> str:
    """A number in scientific notation with so many digits: ``1.2e-09``; an en dash for NaN."""
    return "–" if math.isnan(value) else f"{value:.{digits - 1}e}"


def table_rows_for_json(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Fields and properties of dataclass instances as dictionaries for `json`; NaN becomes None.

    Parameters
    ----------
    rows : iterable of dataclass instances

    Returns
    -------
    list of dict
    """
    return [
        value_for_json(dataclasses.asdict(row) | _computed_properties_of_row(row)) for row in rows
    ]


def _computed_properties_of_row(row: object) -> dict[str, Any]:
    members = vars(type(row)).items()
    return {name: getattr(row, name) for name, member in members if isinstance(member, property)}


def scanned_axes_of_rows(estimates: Iterable[ScannedRow]) -> list[str]:
    """Names of the scanned axes that rows have values of."""
    return list(dict.fromkeys(axis for row in estimates for axis in row.parameters))


def step_columns_of_rows(estimates: Sequence[Any]) -> list[str]:
    """Which of ``step_size`` and ``tolerance`` at least one row has."""
    return [
        name
        for name in ("step_size", "tolerance")
        if any(math.isfinite(getattr(row, name)) for row in estimates)
    ]


def integrator_row_label(row: IntegratorRow) -> str:
    """The integrator of a row, with the values of the scanned axes: ``rk4 (mass=2)``."""
    values = ", ".join(f"{axis}={format_number(value)}" for axis, value in row.parameters.items())
    return f"{row.integrator} ({values})" if values else row.integrator


def table_notes(
    rows: Sequence[AnyIntegratorRow], remark: Callable[[AnyIntegratorRow], str]
) -> list[str]:
    """Remarks on rows as notes: each once, behind the labels of the rows that it holds for.

    Parameters
    ----------
    rows : sequence of rows
    remark : callable
        The remark on a row; empty for none.
    """
    plain = [integrator_row_label(row) for row in rows]
    names: dict[str, list[str]] = {}
    for row, name in zip(rows, plain, strict=True):
        name = _row_label_with_step_size(row, name) if plain.count(name) > 1 else name
        names.setdefault(remark(row), []).append(name)
    return [
        f"{f'all {len(rows)}' if 1 < len(of) == len(rows) else ', '.join(of)}: {text}"
        for text, of in names.items()
        if text
    ]


def _row_label_with_step_size(row: Any, name: str) -> str:
    """A label with the step size or tolerance, for rows that differ in that alone."""
    step = row.tolerance if math.isnan(row.step_size) else row.step_size
    return f"{name} at {format_number(step)}"


def two_decimal_cell(value: float) -> str:
    """A number with two decimals; an en dash for NaN."""
    return "–" if math.isnan(value) else f"{value:.2f}"


def left_out_runs_note(rows: Iterable[Any]) -> list[str]:
    """A note on how many runs do not count, and why; none where all count."""
    failed = sum(row.left_out for row in rows)
    why = "failed, unfinished, without an error or no longer in the study"
    text = f"Left out, as {why}: {failed} runs."
    return [text] if failed else []


def tables_as_text(tables: Iterable[Table]) -> str:
    """Tables as text, with an empty line between them."""
    return "\n\n".join(map(str, tables))
