"""Answers from a run table, on xarray alone: orders, drifts, dense grids.

Each function takes one experiment of a store, or any selection of its runs:

>>> tree = sweep.open_study("orders.zarr")
>>> order_table(tree["composition"])
>>> drift_table(tree["drift"].to_dataset().query(run="integrator == 'variational'"))
"""

from integrators.lazy import lazy

# Imported when first used: `sweep query` should not wait for what estimates orders.
_HOMES = {
    "DriftEstimate": "sweep.analysis.drift.drifts",
    "OrderEstimate": "sweep.analysis.convergence.orders",
    "SELF": "sweep.analysis.convergence.curves",
    "ToleranceEstimate": "sweep.analysis.convergence.orders",
    "WorkEstimate": "sweep.analysis.efficiency.pareto",
    "adaptive_runs": "sweep.analysis.runs.selection",
    "ask_each_experiment": "sweep.analysis.runs.query",
    "arithmetic_table": "sweep.analysis.drift.arithmetic",
    "chaos_table": "sweep.analysis.chaos",
    "drift_table": "sweep.analysis.drift.drifts",
    "grid": "sweep.analysis.runs.grid",
    "has_structure": "sweep.analysis.structure",
    "integrators_without_exponents": "sweep.analysis.chaos",
    "is_order_study": "sweep.analysis.runs.selection",
    "least_work": "sweep.analysis.efficiency.pareto",
    "name_of_energy_quantity": "sweep.analysis.runs.selection",
    "order_table": "sweep.analysis.convergence.orders",
    "orders_across": "sweep.analysis.convergence.across",
    "orders_and_tolerances": "sweep.analysis.convergence.orders",
    "quantities_with_recorded_error": "sweep.analysis.drift.cells",
    "query": "sweep.analysis.runs.query",
    "query_refusals_in_words": "sweep.analysis.runs.query",
    "results": "sweep.analysis.runs.summaries",
    "scanned_axes": "sweep.analysis.runs.selection",
    "run_table_has_error": "sweep.analysis.convergence.curves",
    "structure_table": "sweep.analysis.structure",
    "summarize_chaos": "sweep.analysis.summary",
    "summarize_drifts": "sweep.analysis.summary",
    "summarize_orders": "sweep.analysis.summary",
    "summarize_sources": "sweep.analysis.summary",
    "summarize_structure": "sweep.analysis.summary",
    "summarize_work": "sweep.analysis.summary",
    "tolerance_table": "sweep.analysis.convergence.orders",
    "units": "sweep.analysis.runs.summaries",
    "variables_of_chaos": "sweep.analysis.chaos",
    "work_table": "sweep.analysis.efficiency.work",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
