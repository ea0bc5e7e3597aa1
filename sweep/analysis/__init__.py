"""Analyses of a run table that need only xarray: orders, drifts, work, chaos, full grids.

Each function takes one experiment of a store, or a selection of its runs:

>>> tree = sweep.open_study("orders.zarr")
>>> order_table(tree["composition"])
>>> drift_table(tree["drift"].to_dataset().query(run="integrator == 'variational'"))
"""

from integrators.lazy import lazy

# Modules are imported at first use, so that `sweep query` does not wait for the others.
_NAMES = {
    "chaos": "chaos_table integrators_without_exponents variables_of_chaos",
    "convergence.order_comparisons": "orders_across",
    "convergence.curves": "SELF run_table_has_error",
    "convergence.orders": "OrderEstimate ToleranceEstimate order_table tolerance_table "
    "orders_and_tolerances",
    "drift.rounding_drift": "arithmetic_table",
    "drift.cell_errors": "quantities_with_recorded_error",
    "drift.drifts": "DriftEstimate drift_table",
    "efficiency.pareto": "WorkEstimate least_work",
    "efficiency.work": "work_table",
    "runs.blocks": "load_if_small",
    "runs.grid": "grid",
    "runs.query": "ask_each_experiment query query_refusals_in_words",
    "runs.selection": "adaptive_runs is_order_study name_of_energy_quantity scanned_axes",
    "runs.summaries": "results units",
    "structure": "has_structure structure_table",
    "sentences": "summarize_chaos summarize_drifts summarize_orders summarize_sources "
    "summarize_structure summarize_work",
}
_HOMES = {name: f"sweep.analysis.{at}" for at, names in _NAMES.items() for name in names.split()}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
