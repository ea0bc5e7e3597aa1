"""Tables for the terminal, notebooks and reports, and lists of rows that are shown as tables."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from typing_extensions import TypeVar as TypeVarWithDefault

from integrators.html import html_table, html_text
from sweep.text import (
    data_frame,
    escape_control_characters,
    escape_controls_in_lines,
    format_number,
    format_table,
    wrap_for_output,
)

if TYPE_CHECKING:
    import pandas

Item = TypeVar("Item")
Key = TypeVar("Key")
Row = TypeVarWithDefault("Row", default=Any)
PLAIN = (str, int, float, bool, type(None))
NESTED = object()
WIDTH = 100  # characters in a line of text above a table
MOST_SHOWN = 60  # rows that are shown of a table without a format of its own


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of text cells, for the terminal, notebooks, reports and LaTeX.

    Attributes
    ----------
    headers : list of str
    rows : list of list of str
    title : str
        Line above the table; empty for none.
    notes : list of str
        Lines below the table.
    units : dict of str to str
        Units of columns by their headers, for LaTeX. In text, the title has the units.
    summary : str
        The result in a sentence, above the title; see `sweep.analysis.sentences`.
    kept : sequence of str
        Headers of the columns that even a narrow terminal shows.
    """

    headers: list[str]
    rows: list[list[str]]
    title: str = ""
    notes: Sequence[str] = ()
    units: dict[str, str] = dataclasses.field(default_factory=dict)
    summary: str = ""
    kept: Sequence[str] = ()

    def __str__(self) -> str:
        summary = wrap_for_output(escape_control_characters(self.summary), WIDTH)
        title = wrap_for_output(escape_controls_in_lines(self.title))
        lines = [*filter(None, (summary, title)), format_table(self.headers, self.rows, self.kept)]
        notes = [wrap_for_output(escape_control_characters(note)) for note in self.notes]
        return "\n".join([*lines, *([""] if notes else []), *notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = html_table(self.headers, self.rows, self.title, self.notes)
        return html_text(self.summary, bold=True) + table

    def to_dataframe(self) -> "pandas.DataFrame":
        """The printed cells as a `pandas.DataFrame`."""
        return data_frame(self.rows, self.headers)


class Rows(list[Row]):
    """Rows of an analysis: a list that is shown as a table.

    Parameters
    ----------
    rows : iterable of (dataclass instances or dict)
    tables : callable, optional
        Makes tables of the rows. By default, one table has the columns of `to_dataframe`.
    experiments : sequence of str, optional
        The name of the experiment of each row.
    notes : sequence of str, optional
        Lines below the tables that say what has no row, and why.
    """

    def __init__(
        self,
        rows: Iterable[Row] = (),
        tables: Callable[[list[Any]], list[Table]] | None = None,
        experiments: Iterable[str] = (),
        notes: Iterable[str] = (),
    ) -> None:
        super().__init__(rows)
        self._tables, self.notes = tables, list(notes)
        names = list(experiments)
        # By identity of the row, so that rows may be sorted.
        self._experiment = dict(zip(map(id, self), names, strict=True)) if names else {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (list(self), self._tables, self.experiments, self.notes)

    @property
    def experiments(self) -> list[str]:
        """The experiment of each row; empty if all rows are from one experiment without a name."""
        return [self._experiment.get(id(row), "") for row in self] if self._experiment else []

    @property
    def summary(self) -> list[str]:
        """The summaries of the tables, with names if there are several experiments."""
        found = self._tables_by_experiment()
        return [
            f"{name}: {table.summary}" if len(found) > 1 else table.summary
            for name, tables in found.items()
            for table in tables
            if table.summary
        ]

    def to_dataframe(self) -> "pandas.DataFrame":
        """The rows as flat columns.

        Returns
        -------
        pandas.DataFrame
            Each scanned value has a column; parts of a value have columns ``NAME_PART``; lists of
            names are joined by commas; lists of further rows, such as the points of a curve, are
            left out. If experiments have names, the first column is ``experiment``.
        """
        return data_frame(self._flat_rows())

    def _flat_rows(self) -> list[dict[str, object]]:
        names = [{"experiment": name} for name in self.experiments] or [{}] * len(self)
        rows = [dict(flat_columns(row)) for row in self]
        nested = {key for row in rows for key, value in row.items() if value is NESTED}
        return [
            name | {key: value for key, value in row.items() if key not in nested}
            for name, row in zip(names, rows, strict=True)
        ]

    def _tables_by_experiment(self) -> dict[str, list[Table]]:
        if self._tables is None:
            return {"": [flat_table(self._flat_rows())]} if self else {}
        parts = grouped(self, lambda row: self._experiment.get(id(row), ""))
        return {name: self._tables(rows) for name, rows in parts.items()}

    def _repr_html_(self) -> str:
        parts = [
            html_text(name, bold=True) * bool(name) + "".join(t._repr_html_() for t in tables)
            for name, tables in self._tables_by_experiment().items()
        ]
        return "".join([*(parts or [html_text("none")]), *map(html_text, self.notes)])

    def __str__(self) -> str:
        parts = [
            f"{name}\n" * bool(name) + "\n\n".join(map(str, tables))
            for name, tables in self._tables_by_experiment().items()
        ]
        return "\n\n".join([*(parts or ["none"]), *map(wrap_for_output, self.notes)])

    __repr__ = __str__


def flat_table(rows: list[dict[str, Any]]) -> Table:
    """Make a table of dictionaries, with a column for each key."""
    keys = dict.fromkeys(key for row in rows for key in row)
    cells = [[format_number(row.get(key)) for key in keys] for row in rows[:MOST_SHOWN]]
    more = len(rows) - MOST_SHOWN
    notes = [f"… and {more:,} more"] if more > 0 else []
    return Table([key.replace("_", " ") for key in keys], cells, notes=notes)


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Group items by key, in the order in which keys first appear."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def flat_columns(row: Any, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Flatten the fields and properties of a dataclass instance, or a dict, to columns.

    Lists of further rows become `NESTED`.
    """
    if not isinstance(row, dict):
        names = [field.name for field in dataclasses.fields(row)]
        names += [name for name, of in vars(type(row)).items() if isinstance(of, property)]
        row = {name: getattr(row, name) for name in names if not name.startswith("_")}
    for name, value in row.items():
        name = f"{prefix}{name}"
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, PLAIN):
            yield name, value
        elif isinstance(value, dict):
            yield from ((str(key), item) for key, item in value.items() if isinstance(item, PLAIN))
        elif isinstance(value, tuple | list):
            texts = all(isinstance(item, str) for item in value)
            yield name, ", ".join(value) if texts else NESTED
        elif dataclasses.is_dataclass(value):
            yield from flat_columns(value, f"{name}_")
