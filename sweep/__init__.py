"""Geosweep: distributed parameter studies of integrators on spheres.

>>> import sweep
>>> outcome = sweep.run("quickstart", "quickstart.zarr")   # doctest: +SKIP
>>> tree = sweep.open_study("quickstart.zarr")             # doctest: +SKIP
"""

from integrators.lazy import lazy

# Imported when first used: `sweep --help` should not wait for Dask, xarray and Numba.
_HOMES = {
    "ClusterSpec": "sweep.clusters.spec",
    "drift_table": "sweep.analysis",
    "export": "sweep.exports.files",
    "grid": "sweep.analysis",
    "growth_table": "sweep.analysis",
    "least_work": "sweep.analysis",
    "open_study": "sweep.store.open",
    "order_table": "sweep.analysis",
    "query": "sweep.analysis",
    "report": "sweep.reports.page",
    "results": "sweep.analysis",
    "run": "sweep.campaign.coordinator",
    "tolerance_table": "sweep.analysis",
    "units": "sweep.analysis",
    "versions": "sweep.store.provenance",
    "work_table": "sweep.analysis",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
