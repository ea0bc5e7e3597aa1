"""Compute a study: find missing runs, plan their cost and tasks, and hand tasks to workers."""

from integrators.lazy import lazy

_HOMES = {
    "hand_out": "sweep.campaign.hand_out",
    "format_plans": "sweep.campaign.plan",
    "warnings_before_runs": "sweep.study.warnings",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
