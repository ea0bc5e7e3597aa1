"""Results as tables, for a terminal and for the report, and as rows for JSON.

Each function takes the rows of an analysis and returns a `Table`, or a list of them; ``str`` of one
is its text.
"""

from sweep.tables.base import Table, json_rows, scientific
from sweep.tables.convergence import errors, orders, times_of, tolerances
from sweep.tables.invariants import drifts, growth
from sweep.tables.paper import claims
from sweep.tables.runs import SHOWN, chosen_columns, run_rows, runs
from sweep.tables.work import work

__all__ = [
    "SHOWN",
    "Table",
    "chosen_columns",
    "claims",
    "drifts",
    "errors",
    "growth",
    "json_rows",
    "orders",
    "run_rows",
    "runs",
    "scientific",
    "text_of",
    "times_of",
    "tolerances",
    "work",
]


def text_of(tables):
    """Tables as text, with an empty line between them."""
    return "\n\n".join(map(str, tables))
