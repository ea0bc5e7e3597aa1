"""Results as tables, for a terminal and for the report, and as rows for JSON.

Each function takes the rows of an analysis and returns a `Table`, or a list of them; ``str`` of one
is its text.
"""

from sweep.tables.base import Table, scientific_cell, table_rows_for_json
from sweep.tables.convergence import (
    error_times_for_title,
    errors_as_tables,
    orders_as_table,
    tolerances_as_table,
)
from sweep.tables.invariants import drifts_as_tables, growth_as_tables
from sweep.tables.paper import paper_claims_as_table
from sweep.tables.runs import SHOWN, chosen_table_columns, runs_as_json_rows, runs_as_table
from sweep.tables.work import work_as_tables

__all__ = [
    "SHOWN",
    "Table",
    "chosen_table_columns",
    "paper_claims_as_table",
    "drifts_as_tables",
    "errors_as_tables",
    "growth_as_tables",
    "table_rows_for_json",
    "orders_as_table",
    "runs_as_json_rows",
    "runs_as_table",
    "scientific_cell",
    "tables_as_text",
    "error_times_for_title",
    "tolerances_as_table",
    "work_as_tables",
]


def tables_as_text(tables):
    """Tables as text, with an empty line between them."""
    return "\n\n".join(map(str, tables))
