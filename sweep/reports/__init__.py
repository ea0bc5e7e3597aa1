"""Stores as HTML pages: a report on one store, or certificates from several.

`sweep.report` writes one file that opens offline, with a store's study, answers, pictures, failures
and provenance. Its answers are those of `sweep.tables.answers`. `sweep.report_site` arranges the
same answers by integrator and system.
"""

from integrators.lazy import lazy

# Imported when first used: `sweep report --help` does not need xarray and matplotlib.
_HOMES = {
    "check_site_directory": "sweep.reports.matrix",
    "report": "sweep.reports.page",
    "report_site": "sweep.reports.matrix",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
