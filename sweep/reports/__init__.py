"""Stores as HTML pages: a report on one store, or an atlas of several.

`sweep.report` writes one file that opens offline, with a store's study, answers, pictures, failures
and provenance. Its answers are those of `sweep.tables.answers`. `sweep.atlas` arranges the same
answers by integrator and system.
"""

from integrators.lazy import lazy

# Imported when first used: `sweep report --help` does not need xarray and matplotlib.
_HOMES = {
    "check_atlas_directory": "sweep.reports.atlas",
    "report": "sweep.reports.report_page",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
