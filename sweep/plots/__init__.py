"""Pictures of an experiment."""

from integrators.lazy import lazy

# Modules are imported at first use, so that `ds.geosweep` does not wait for matplotlib.
# Type checkers read `__init__.pyi`.
_HOMES = {
    "KINDS": "sweep.plots.kinds",
    "kinds_of_plugins": "sweep.plots.kinds",
    "compact": "sweep.plots.style",
    "convergence": "sweep.plots.order_plots",
    "convergence_across": "sweep.plots.order_plots",
    "drift_over_time": "sweep.plots.drift_plots",
    "energy_over_time": "sweep.plots.over_time",
    "numbers": "sweep.plots.style",
    "page": "sweep.plots.style",
    "picture": "sweep.plots.kinds",
    "recommendation_picture": "sweep.plots.work_plots",
    "save": "sweep.plots.style",
    "save_numbers": "sweep.plots.style",
    "sphere": "sweep.plots.sphere_plots",
    "unit_length_over_time": "sweep.plots.over_time",
    "work_precision": "sweep.plots.work_plots",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
