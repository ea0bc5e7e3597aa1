"""Stores as pages of HTML: a report of one, or certificates of what several show.

`sweep.report` writes one file that opens offline: a store's study, answers, pictures, failures and
provenance. What it says of an experiment are the answers of `sweep.tables.answers`.
`sweep.report_site` gathers the same answers by integrator and system.
"""

from integrators.lazy import lazy

# Imported when first used: `sweep report --help` should not wait for xarray and matplotlib.
_HOMES = {
    "check_site_directory": "sweep.reports.matrix",
    "report": "sweep.reports.page",
    "report_site": "sweep.reports.matrix",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
