"""Answers from a run table, on xarray alone: orders, drifts, dense grids.

Each function takes one experiment of a store, or any selection of its runs:

>>> tree = sweep.open_study("orders.zarr")
>>> order_table(tree["composition"])
>>> drift_table(tree["drift"].to_dataset().query(run="integrator == 'variational'"))
"""

from sweep.analysis.dense import grid
from sweep.analysis.drifts import DriftEstimate, Spread, drift_table
from sweep.analysis.fronts import LeastWork, least_work
from sweep.analysis.growth import GrowthEstimate, growth_table
from sweep.analysis.orders import OrderEstimate, OrderPoint, order_table
from sweep.analysis.per_run import results, units
from sweep.analysis.querying import query
from sweep.analysis.selection import adaptive_runs
from sweep.analysis.tolerances import ToleranceEstimate, tolerance_table
from sweep.analysis.work import WorkEstimate, work_table

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
