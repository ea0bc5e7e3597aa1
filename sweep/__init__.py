"""Geosweep: distributed parameter studies of integrators on spheres.

>>> import sweep
>>> outcome = sweep.run("quickstart", "quickstart.zarr")   # doctest: +SKIP
>>> tree = sweep.open_study("quickstart.zarr")             # doctest: +SKIP
"""

from sweep.import_checks import check_preconditions

check_preconditions()  # before anything else is imported

from typing import Any  # noqa: E402

from integrators.lazy import import_after, lazy  # noqa: E402

# Modules are imported at first use, so that `sweep --help` waits for none of Dask, xarray, Numba.
# Type checkers read `__init__.pyi`.
_HOMES = {
    "ClusterSpec": "sweep.clusters.spec",
    "Experiment": "sweep.study.model",
    "Outcome": "sweep.campaign.run",
    "Plan": "sweep.campaign.plan",
    "Recommendation": "sweep.campaign.recommend",
    "Store": "sweep.store.store",
    "Study": "sweep.store.stored_studies",
    "analysis": "sweep.analysis",
    "arithmetic_table": "sweep.tables.answers",
    "atlas": "sweep.reports.atlas",
    "campaign": "sweep.campaign",
    "chaos_table": "sweep.tables.answers",
    "check": "sweep.store.stored_studies:check_study",
    "citations": "sweep.exports.citations",
    "decide": "sweep.campaign.decide",
    "drift_table": "sweep.tables.answers",
    "early_references": "sweep.store.failed_runs:references_that_end_early",
    "errors": "sweep.errors",
    "export": "sweep.exports.write_export",
    "extend": "sweep.campaign.extend",
    "failures": "sweep.store.failed_runs:failed_runs",
    "grid": "sweep.tables.answers",
    "least_work": "sweep.analysis",
    "load_study": "sweep.store.stored_studies:load_study_file",
    "merge": "sweep.campaign.merge",
    "open_study": "sweep.store.open",
    "order_table": "sweep.tables.answers",
    "orders_across": "sweep.analysis",
    "papers": "sweep.papers",
    "plan": "sweep.campaign.plan",
    "plots": "sweep.plots",
    "plugins": "sweep.plugins",
    "python_method": "integrators.python_methods",
    "python_system": "systems.rigid.python_system",
    "query": "sweep.tables.answers",
    "recommend": "sweep.campaign.recommend",
    "repair": "sweep.store.upkeep.repair",
    "report": "sweep.reports.report_page",
    "reports": "sweep.reports",
    "reproduce": "sweep.papers",
    "results": "sweep.tables.answers",
    "retry": "sweep.campaign.retry",
    "run": "sweep.campaign.run",
    "status": "sweep.store.progress:status",
    "store": "sweep.store",
    "structure_table": "sweep.tables.answers",
    "study": "sweep.study",
    "submit": "sweep.campaign.submit",
    "tables": "sweep.tables",
    "tolerance_table": "sweep.tables.answers",
    "units": "sweep.tables.answers",
    "verify": "sweep.store.upkeep.verify",
    "versions": "sweep.store.provenance",
    "work_table": "sweep.tables.answers",
}
_load, __dir__, __all__ = lazy(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("geosweep")
    return _load(name)


import_after("xarray", "sweep.tables.accessor")  # adds `ds.geosweep`
