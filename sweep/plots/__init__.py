"""Pictures of an experiment."""

from integrators.lazy import lazy

# Modules are imported at first use, so that `ds.geosweep` does not wait for matplotlib.
# Type checkers read `__init__.pyi`.
_HOMES = {
    "KINDS": "sweep.plots.kinds",
    "kinds_of_plugins": "sweep.plots.kinds",
    "compact": "sweep.plots.style",
    "convergence": "sweep.plots.orders",
    "convergence_across": "sweep.plots.orders",
    "drift_over_time": "sweep.plots.drifts",
    "energy_over_time": "sweep.plots.over_time",
    "numbers": "sweep.plots.style",
    "page": "sweep.plots.style",
    "picture": "sweep.plots.kinds",
    "recommendation_picture": "sweep.plots.work",
    "save": "sweep.plots.style",
    "save_numbers": "sweep.plots.style",
    "sphere": "sweep.plots.spheres",
    "unit_length_over_time": "sweep.plots.over_time",
    "work_precision": "sweep.plots.work",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
