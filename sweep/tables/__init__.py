"""Results as tables, for a terminal and for reports, and as rows for JSON.

Each function takes the rows of an analysis and returns one `Table` or several; ``str`` of a table
is its text.
"""

from integrators.lazy import lazy

# Imported when first used: a table of runs does not need the modules that judge drifts.
_HOMES = {
    "SHOWN": "sweep.tables.tables_of_runs",
    "Table": "sweep.analysis.rows",
    "NO_DRIFT_OF_ORDER_STUDY": "sweep.tables.drift_tables",
    "arithmetic_as_tables": "sweep.tables.drift_tables",
    "chaos_as_table": "sweep.tables.chaos_table",
    "chosen_table_columns": "sweep.tables.tables_of_runs",
    "coarser_steps_note": "sweep.tables.drift_tables",
    "decisions_as_table": "sweep.tables.decisions_table",
    "decisions_in_words": "sweep.tables.decisions_table",
    "drifts_as_tables": "sweep.tables.drift_tables",
    "error_times_for_title": "sweep.tables.order_tables",
    "errors_as_tables": "sweep.tables.order_tables",
    "failures_as_table": "sweep.tables.tables_of_runs",
    "fixed_and_adaptive": "sweep.tables.order_tables",
    "orders_across_as_table": "sweep.tables.order_tables",
    "orders_as_table": "sweep.tables.order_tables",
    "recommendation_as_table": "sweep.tables.recommendation_table",
    "recommendation_in_sentences": "sweep.tables.recommendation_table",
    "runs_as_json_rows": "sweep.tables.tables_of_runs",
    "runs_as_table": "sweep.tables.tables_of_runs",
    "scientific_cell": "sweep.tables.base",
    "structure_as_tables": "sweep.tables.structure_tables",
    "table_rows_for_json": "sweep.tables.base",
    "tables_as_latex": "sweep.tables.latex",
    "tables_as_text": "sweep.tables.base",
    "text_as_latex": "sweep.tables.latex",
    "work_as_tables": "sweep.tables.work_tables",
    "work_of_one_as_table": "sweep.tables.work_tables",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
