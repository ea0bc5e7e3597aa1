"""What tables are made of: a table as data, numbers as text, notes below."""

import dataclasses
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from integrators.html import html_table, html_text
from sweep.text import (
    escape_control_characters,
    escape_controls_in_lines,
    format_number,
    format_table,
    value_for_json,
)

if TYPE_CHECKING:
    import pandas


WIDTH = 100  # of lines of text above a table


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as it is printed, and as the report shows it.

    Attributes
    ----------
    headers : list of str
    rows : list of list of str
    title : str
        A line above it, or none.
    notes : list of str
        Lines below it.
    units : dict of str to str
        Of columns, by their headers, for a paper; where text says them in the title.
    summary : str
        A sentence that says what is found, above all else; see `sweep.analysis.summary`.
    """

    headers: list
    rows: list
    title: str = ""
    notes: list = ()
    units: dict = dataclasses.field(default_factory=dict)
    summary: str = ""

    def __str__(self):
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
        import pandas

        return pandas.DataFrame(self.rows, columns=self.headers)


def scientific_cell(value, digits=2):
    """An error in scientific notation, which lines up in a column: ``1.2e-09``."""
    return "–" if math.isnan(value) else f"{value:.{digits - 1}e}"


def table_rows_for_json(rows):
    """Frozen dataclasses and their properties as dictionaries for `json`; NaN becomes None.

    Parameters
    ----------
    rows : sequence of dataclass instances

    Returns
    -------
    list of dict
    """
    return [
        value_for_json(dataclasses.asdict(row) | _computed_properties_of_row(row)) for row in rows
    ]


def _computed_properties_of_row(row):
    members = vars(type(row)).items()
    return {name: getattr(row, name) for name, member in members if isinstance(member, property)}


def scanned_axes_of_rows(estimates):
    """Names of the scanned axes of a table's rows."""
    return list(dict.fromkeys(axis for row in estimates for axis in row.parameters))


def step_columns_of_rows(estimates: Sequence[Any]) -> list[str]:
    """Which of step size and tolerance a table's rows have."""
    return [
        name
        for name in ("step_size", "tolerance")
        if any(math.isfinite(getattr(row, name)) for row in estimates)
    ]


def table_row_label(row):
    """The integrator of a row, with the values of the scanned axes."""
    values = ", ".join(f"{axis}={format_number(value)}" for axis, value in row.parameters.items())
    return f"{row.integrator} ({values})" if values else row.integrator


def table_notes(rows, remark):
    """What `remark` says of each row, each remark once behind the names that it holds for."""
    plain = [table_row_label(row) for row in rows]
    names = {}
    for row, name in zip(rows, plain, strict=True):
        name = _row_label_with_step_size(row, name) if plain.count(name) > 1 else name
        names.setdefault(remark(row), []).append(name)
    return [
        f"{f'all {len(rows)}' if 1 < len(of) == len(rows) else ', '.join(of)}: {text}"
        for text, of in names.items()
        if text
    ]


def _row_label_with_step_size(row, name):
    """A name with the step size or tolerance, of rows that differ in that alone."""
    step = row.tolerance if math.isnan(row.step_size) else row.step_size
    return f"{name} at {format_number(step)}"


def two_decimal_cell(value):
    """A number with two decimals."""
    return "–" if math.isnan(value) else f"{value:.2f}"


def left_out_runs_note(rows):
    """What to say of runs that do not count; an empty list where all do."""
    failed = sum(row.left_out for row in rows)
    why = "failed, unfinished, without an error or no longer in the study"
    text = f"Left out, as {why}: {failed} runs."
    return [text] if failed else []


def tables_as_text(tables):
    """Tables as text, with an empty line between them."""
    return "\n\n".join(map(str, tables))
