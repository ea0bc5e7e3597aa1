"""Answers from a run table, on xarray alone: orders, drifts, dense grids.

Each function takes one experiment of a store, or any selection of its runs:

>>> tree = sweep.open_study("orders.zarr")
>>> order_table(tree["composition"])
>>> drift_table(tree["drift"].to_dataset().query(run="integrator == 'variational'"))
"""

from sweep.analysis.convergence.curves import SELF, run_table_has_error
from sweep.analysis.convergence.orders import OrderEstimate, OrderPoint, order_table
from sweep.analysis.convergence.tolerances import (
    ToleranceEstimate,
    orders_and_tolerances,
    tolerance_table,
)
from sweep.analysis.drift.drifts import DriftEstimate, Spread, drift_table
from sweep.analysis.drift.growth import GrowthEstimate, growth_table
from sweep.analysis.efficiency.pareto import LeastWork, least_work
from sweep.analysis.efficiency.work import WorkEstimate, work_table
from sweep.analysis.runs.grid import grid
from sweep.analysis.runs.query import query, query_refusals_in_words
from sweep.analysis.runs.selection import adaptive_runs, name_of_energy_quantity
from sweep.analysis.runs.summaries import results, units

__all__ = [
    "SELF",
    "DriftEstimate",
    "GrowthEstimate",
    "LeastWork",
    "OrderEstimate",
    "OrderPoint",
    "Spread",
    "ToleranceEstimate",
    "WorkEstimate",
    "adaptive_runs",
    "orders_and_tolerances",
    "drift_table",
    "name_of_energy_quantity",
    "grid",
    "growth_table",
    "run_table_has_error",
    "least_work",
    "order_table",
    "query",
    "query_refusals_in_words",
    "results",
    "tolerance_table",
    "units",
    "work_table",
]
