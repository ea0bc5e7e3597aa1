"""Geosweep: distributed parameter studies of integrators on spheres.

>>> import sweep
>>> outcome = sweep.run("quickstart", "quickstart.zarr")   # doctest: +SKIP
>>> tree = sweep.open_study("quickstart.zarr")             # doctest: +SKIP
"""

from sweep.preconditions import check_preconditions

check_preconditions()  # before anything else is imported

from typing import TYPE_CHECKING, Any  # noqa: E402

from integrators.lazy import import_after, lazy  # noqa: E402

if TYPE_CHECKING:  # the names of `_HOMES`, for type checkers and editors
    from integrators.python_methods import python_method as python_method
    from sweep import analysis as analysis
    from sweep import campaign as campaign
    from sweep import errors as errors
    from sweep import papers as papers
    from sweep import plots as plots
    from sweep import plugins as plugins
    from sweep import reports as reports
    from sweep import store as store
    from sweep import study as study
    from sweep import tables as tables
    from sweep.analysis.convergence.across import orders_across as orders_across
    from sweep.analysis.efficiency.pareto import least_work as least_work
    from sweep.campaign.decide import decide as decide
    from sweep.campaign.extend import extend as extend
    from sweep.campaign.merge import merge as merge
    from sweep.campaign.plan import Plan as Plan
    from sweep.campaign.plan import plan as plan
    from sweep.campaign.recommend import Recommendation as Recommendation
    from sweep.campaign.recommend import recommend as recommend
    from sweep.campaign.retry import retry as retry
    from sweep.campaign.run import Outcome as Outcome
    from sweep.campaign.run import run as run
    from sweep.campaign.submit import submit as submit
    from sweep.clusters.spec import ClusterSpec as ClusterSpec
    from sweep.exports.citations import citations as citations
    from sweep.exports.write import export as export
    from sweep.papers.running import reproduce as reproduce
    from sweep.reports.matrix import report_site as report_site
    from sweep.reports.page import report as report
    from sweep.store.failures import failed_runs as failed_runs
    from sweep.store.failures import references_that_end_early as references_that_end_early
    from sweep.store.open import open_study as open_study
    from sweep.store.progress import status as status
    from sweep.store.provenance import versions as versions
    from sweep.store.store import Store as Store
    from sweep.store.studies import check_study as check_study
    from sweep.store.studies import load_study_file as load_study_file
    from sweep.store.upkeep.repair import repair as repair
    from sweep.store.upkeep.verify import verify as verify
    from sweep.study.model import Experiment as Experiment
    from sweep.study.study import Study as Study
    from sweep.tables.answers import arithmetic_table as arithmetic_table
    from sweep.tables.answers import chaos_table as chaos_table
    from sweep.tables.answers import drift_table as drift_table
    from sweep.tables.answers import grid as grid
    from sweep.tables.answers import order_table as order_table
    from sweep.tables.answers import query as query
    from sweep.tables.answers import results as results
    from sweep.tables.answers import structure_table as structure_table
    from sweep.tables.answers import tolerance_table as tolerance_table
    from sweep.tables.answers import units as units
    from sweep.tables.answers import work_table as work_table
    from systems.rigid.python_system import python_system as python_system

    check = check_study
    early_references = references_that_end_early
    failures = failed_runs
    load_study = load_study_file

    __version__: str

# Modules are imported at first use, so that `sweep --help` waits for none of Dask, xarray, Numba.
_HOMES = {
    "ClusterSpec": "sweep.clusters.spec",
    "Experiment": "sweep.study.model",
    "Outcome": "sweep.campaign.run",
    "Plan": "sweep.campaign.plan",
    "Recommendation": "sweep.campaign.recommend",
    "Store": "sweep.store.store",
    "Study": "sweep.store.studies",
    "analysis": "sweep.analysis",
    "arithmetic_table": "sweep.tables.answers",
    "campaign": "sweep.campaign",
    "chaos_table": "sweep.tables.answers",
    "check": "sweep.store.studies:check_study",
    "citations": "sweep.exports.citations",
    "decide": "sweep.campaign.decide",
    "drift_table": "sweep.tables.answers",
    "early_references": "sweep.store.failures:references_that_end_early",
    "errors": "sweep.errors",
    "export": "sweep.exports.write",
    "extend": "sweep.campaign.extend",
    "failures": "sweep.store.failures:failed_runs",
    "grid": "sweep.tables.answers",
    "least_work": "sweep.analysis",
    "load_study": "sweep.store.studies:load_study_file",
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
    "report": "sweep.reports.page",
    "report_site": "sweep.reports.matrix",
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

if not TYPE_CHECKING:  # so that a misspelt name is an error there

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version("geosweep")
        return _load(name)


import_after("xarray", "sweep.tables.accessor")  # adds `ds.geosweep`
