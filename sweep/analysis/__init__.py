"""Answers from a run table, on xarray alone: orders, drifts, dense grids.

Each function takes one experiment of a store, or any selection of its runs:

>>> tree = sweep.open_study("orders.zarr")
>>> order_table(tree["composition"])
>>> drift_table(tree["drift"].to_dataset().query(run="integrator == 'variational'"))
"""

from sweep.analysis.dense import grid
from sweep.analysis.drifts import DriftEstimate, Spread, drift_table
from sweep.analysis.growth import GrowthEstimate, growth_table
from sweep.analysis.orders import OrderEstimate, OrderPoint, order_table
from sweep.analysis.selection import adaptive_runs
from sweep.analysis.tolerances import ToleranceEstimate, tolerance_table

__all__ = [
    "DriftEstimate",
    "GrowthEstimate",
    "OrderEstimate",
    "OrderPoint",
    "Spread",
    "ToleranceEstimate",
    "adaptive_runs",
    "drift_table",
    "grid",
    "growth_table",
    "order_table",
    "tolerance_table",
]
