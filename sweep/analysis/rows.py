"""Lists of rows that are tables: data frames, HTML in a notebook, text when printed."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from integrators.html import html_table, html_text
from sweep.text import data_frame, format_number, format_table

if TYPE_CHECKING:
    import pandas

PLAIN = (str, int, float, bool, type(None))
MOST_SHOWN = 60  # rows of a table that has no form of its own


class Rows(list[Any]):
    """Rows of an answer, a list that shows as a table.

    Parameters
    ----------
    rows : iterable of (dataclass instances or dict)
    tables : callable, optional
        The rows as a list of things with `_repr_html_` and `__str__`; unless given, one table of
        the columns of `to_dataframe`.
    experiments : sequence of str, optional
        That each row is of, where they are of experiments by name.
    notes : sequence of str, optional
        Lines below the tables: what has no row, and why.
    """

    def __init__(
        self,
        rows: Iterable[Any] = (),
        tables: Callable[[list[Any]], list[Any]] | None = None,
        experiments: Iterable[str] = (),
        notes: Iterable[str] = (),
    ) -> None:
        super().__init__(rows)
        self._tables, self.notes = tables, list(notes)
        names = list(experiments)
        # By identity, so that rows may be sorted.
        self._experiment = dict(zip(map(id, self), names, strict=True)) if names else {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (list(self), self._tables, self.experiments, self.notes)

    @property
    def experiments(self) -> list[str]:
        """The experiment of each row; empty where they are of one that has no name."""
        return [self._experiment.get(id(row), "") for row in self] if self._experiment else []

    @property
    def summary(self) -> list[str]:
        """What the tables say in a sentence each, see `sweep.analysis.summary`."""
        return [
            said for _, table in self._named_tables() if (said := getattr(table, "summary", ""))
        ]

    def to_dataframe(self) -> "pandas.DataFrame":
        """The rows as flat columns.

        Returns
        -------
        pandas.DataFrame
            Scanned values have a column each, parts of a value are ``NAME_PART``, names are joined
            by commas, and what is a list of further rows, as the points of a curve, is left out.
            The first column is ``experiment`` where the rows are of experiments by name.
        """
        return data_frame(self._flat_rows())

    def _flat_rows(self) -> list[dict[str, object]]:
        names = [{"experiment": name} for name in self.experiments] or [{}] * len(self)
        nested = {
            key for row in self for key, value in _items_of_row(row) if not _fits_in_cell(value)
        }
        return [
            name | {key: value for key, value in flat_columns(row) if key not in nested}
            for name, row in zip(names, self, strict=True)
        ]

    def _named_tables(self) -> list[tuple[str, Any]]:
        """Tables of the rows, the first of each experiment with its name."""
        if self._tables is None or not self:
            return [("", FlatTable(self._flat_rows()))]
        if not self.experiments:
            return [("", table) for table in self._tables(list(self))]
        parts: dict[str, list[Any]] = {}
        for name, row in zip(self.experiments, self, strict=True):
            parts.setdefault(name, []).append(row)
        return [
            (name * (number == 0), table)
            for name, rows in parts.items()
            for number, table in enumerate(self._tables(rows))
        ]

    def _repr_html_(self) -> str:
        parts = (
            html_text(name, bold=True) * bool(name) + table._repr_html_()
            for name, table in self._named_tables()
        )
        return "".join([*parts, *map(html_text, self.notes)])

    def __str__(self) -> str:
        parts = (f"{name}\n{table}" if name else str(table) for name, table in self._named_tables())
        return "\n\n".join([*parts, *self.notes])


@dataclasses.dataclass(frozen=True)
class FlatTable:
    """Dictionaries with the same keys as a table.

    Parameters
    ----------
    rows : list of dict
    """

    rows: list[dict[str, Any]]

    def _cells(self) -> tuple[list[str], list[list[str]], list[str]]:
        keys = list(dict.fromkeys(key for row in self.rows for key in row))
        shown = [[format_number(row.get(key)) for key in keys] for row in self.rows[:MOST_SHOWN]]
        more = len(self.rows) - len(shown)
        return (
            [key.replace("_", " ") for key in keys],
            shown,
            [f"… and {more:,} more"] if more else [],
        )

    def _repr_html_(self) -> str:
        headers, cells, notes = self._cells()
        return html_table(headers, cells, notes=notes) if cells else html_text("none")

    def __str__(self) -> str:
        headers, cells, notes = self._cells()
        return "\n".join([format_table(headers, cells), *notes]) if cells else "none"


def flat_columns(row: Any, prefix: str = "") -> Iterator[tuple[str, object]]:
    """What fits a cell of the fields and properties of a dataclass instance, or of a dict."""
    for name, value in _items_of_row(row):
        yield from _flatten_value(f"{prefix}{name}", value)


def _items_of_row(row: Any) -> Iterator[tuple[str, object]]:
    if isinstance(row, dict):
        yield from row.items()
        return
    names = [field.name for field in dataclasses.fields(row)]
    names += [name for name, member in vars(type(row)).items() if isinstance(member, property)]
    yield from ((name, getattr(row, name)) for name in names if not name.startswith("_"))


def _fits_in_cell(value: object) -> bool:
    """Whether a value is no list of further rows."""
    return not isinstance(value, tuple | list) or all(isinstance(item, str) for item in value)


def _flatten_value(name: str, value: Any) -> Iterator[tuple[str, object]]:
    value = value.item() if hasattr(value, "dtype") and not getattr(value, "shape", ()) else value
    if isinstance(value, PLAIN):
        yield name, value
    elif isinstance(value, dict):
        yield from ((str(key), item) for key, item in value.items() if isinstance(item, PLAIN))
    elif isinstance(value, tuple | list) and _fits_in_cell(value):
        yield name, ", ".join(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from flat_columns(value, f"{name}_")
