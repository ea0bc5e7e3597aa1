"""Results as tables, for a terminal and for reports, and as rows for JSON.

Each function takes the rows of an analysis and returns one `Table` or several; ``str`` of a table
is its text.
"""

from integrators.lazy import lazy

# Imported when first used: a table of runs does not need the modules that judge drifts.
_HOMES = {
    "SHOWN": "sweep.tables.runs",
    "Table": "sweep.analysis.rows",
    "NO_DRIFT_OF_ORDER_STUDY": "sweep.tables.drifts",
    "arithmetic_as_tables": "sweep.tables.drifts",
    "chaos_as_table": "sweep.tables.chaos",
    "chosen_table_columns": "sweep.tables.runs",
    "coarser_steps_note": "sweep.tables.drifts",
    "decisions_as_table": "sweep.tables.decisions",
    "decisions_in_words": "sweep.tables.decisions",
    "drifts_as_tables": "sweep.tables.drifts",
    "error_times_for_title": "sweep.tables.convergence",
    "errors_as_tables": "sweep.tables.convergence",
    "failures_as_table": "sweep.tables.runs",
    "fixed_and_adaptive": "sweep.tables.convergence",
    "orders_across_as_table": "sweep.tables.convergence",
    "orders_as_table": "sweep.tables.convergence",
    "recommendation_as_table": "sweep.tables.recommendation",
    "recommendation_in_sentences": "sweep.tables.recommendation",
    "runs_as_json_rows": "sweep.tables.runs",
    "runs_as_table": "sweep.tables.runs",
    "scientific_cell": "sweep.tables.base",
    "structure_as_tables": "sweep.tables.structure",
    "table_rows_for_json": "sweep.tables.base",
    "tables_as_latex": "sweep.tables.latex",
    "tables_as_text": "sweep.tables.base",
    "text_as_latex": "sweep.tables.latex",
    "work_as_tables": "sweep.tables.work",
    "work_of_one_as_table": "sweep.tables.work",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
