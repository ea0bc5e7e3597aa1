"""Geosweep: distributed parameter studies of integrators on spheres.

>>> import sweep
>>> outcome = sweep.run("quickstart", "quickstart.zarr")   # doctest: +SKIP
>>> tree = sweep.open_study("quickstart.zarr")             # doctest: +SKIP
"""

from sweep.preconditions import check_preconditions

check_preconditions()  # before anything else is imported

from integrators.lazy import lazy  # noqa: E402

# Imported when first used: `sweep --help` should not wait for Dask, xarray and Numba.
_HOMES = {
    "ClusterSpec": "sweep.clusters.spec",
    "Experiment": "sweep.study.model",
    "Store": "sweep.store.store",
    "Study": "sweep.store.studies",
    "analysis": "sweep.analysis",
    "arithmetic_table": "sweep.analysis",
    "campaign": "sweep.campaign",
    "chaos_table": "sweep.analysis",
    "check": "sweep.store.studies:check_study",
    "citations": "sweep.exports.citations",
    "decide": "sweep.campaign.decide.decide",
    "drift_table": "sweep.analysis",
    "early_references": "sweep.store.failures:references_that_end_early",
    "errors": "sweep.errors",
    "export": "sweep.exports.files",
    "extend": "sweep.campaign.extend",
    "failures": "sweep.store.failures:failed_runs",
    "grid": "sweep.analysis",
    "growth_table": "sweep.analysis",
    "least_work": "sweep.analysis",
    "load_study": "sweep.store.studies:load_study_file",
    "merge": "sweep.campaign.merge.merge",
    "open_study": "sweep.store.open",
    "order_table": "sweep.analysis",
    "orders_across": "sweep.analysis",
    "papers": "sweep.papers",
    "plan": "sweep.campaign.planning",
    "plots": "sweep.plots",
    "plugins": "sweep.plugins",
    "query": "sweep.analysis",
    "recommend": "sweep.campaign.recommend.recommend",
    "repair": "sweep.store.upkeep.repair",
    "report": "sweep.reports.page",
    "reproduce": "sweep.papers",
    "results": "sweep.analysis",
    "retry": "sweep.campaign.retry",
    "run": "sweep.campaign.coordinator",
    "status": "sweep.store.progress:status",
    "store": "sweep.store",
    "structure_table": "sweep.analysis",
    "study": "sweep.study",
    "submit": "sweep.campaign.detached",
    "tables": "sweep.tables",
    "tolerance_table": "sweep.analysis",
    "units": "sweep.analysis",
    "verify": "sweep.store.upkeep.verify",
    "versions": "sweep.store.provenance",
    "work_table": "sweep.analysis",
}
_load, __dir__, __all__ = lazy(__name__, _HOMES)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("geosweep")
    return _load(name)
