# The names of `_HOMES` in `__init__.py`, for type checkers and editors.

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
from sweep.analysis.convergence.order_comparisons import orders_across as orders_across
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
from sweep.exports.write_export import export as export
from sweep.papers.reproduction import reproduce as reproduce
from sweep.reports.atlas import atlas as atlas
from sweep.reports.report_page import report as report
from sweep.store.failed_runs import failed_runs as failed_runs
from sweep.store.failed_runs import references_that_end_early as references_that_end_early
from sweep.store.open import open_study as open_study
from sweep.store.progress import status as status
from sweep.store.provenance import versions as versions
from sweep.store.store import Store as Store
from sweep.store.stored_studies import check_study as check_study
from sweep.store.stored_studies import load_study_file as load_study_file
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
