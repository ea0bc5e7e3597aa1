"""Answers from a run table, on xarray alone: orders, drifts, dense grids.

Each function takes one experiment of a store, or any selection of its runs:

>>> tree = sweep.open_study("orders.zarr")
>>> order_table(tree["composition"])
>>> drift_table(tree["drift"].to_dataset().query(run="integrator == 'variational'"))
"""

from sweep.analysis.convergence.orders import OrderEstimate, OrderPoint, order_table
from sweep.analysis.convergence.tolerances import ToleranceEstimate, tolerance_table
from sweep.analysis.drift.drifts import DriftEstimate, Spread, drift_table
from sweep.analysis.drift.growth import GrowthEstimate, growth_table
from sweep.analysis.efficiency.pareto import LeastWork, least_work
from sweep.analysis.efficiency.work import WorkEstimate, work_table
from sweep.analysis.runs.grid import grid
from sweep.analysis.runs.query import query
from sweep.analysis.runs.selection import adaptive_runs
from sweep.analysis.runs.summaries import results, units

__all__ = [
    "DriftEstimate",
    "GrowthEstimate",
    "LeastWork",
    "OrderEstimate",
    "OrderPoint",
    "Spread",
    "ToleranceEstimate",
    "WorkEstimate",
    "adaptive_runs",
    "drift_table",
    "grid",
    "growth_table",
    "least_work",
    "order_table",
    "query",
    "results",
    "tolerance_table",
    "units",
    "work_table",
]
