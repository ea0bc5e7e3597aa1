"""Pictures of an experiment."""

from typing import TYPE_CHECKING

from integrators.lazy import lazy

if TYPE_CHECKING:  # the names of `_HOMES`, for type checkers
    from sweep.plots.drifts import drift_over_time as drift_over_time
    from sweep.plots.kinds import AGAINST_AN_AXIS as AGAINST_AN_AXIS
    from sweep.plots.kinds import KINDS as KINDS
    from sweep.plots.kinds import kinds_of_plugins as kinds_of_plugins
    from sweep.plots.kinds import picture as picture
    from sweep.plots.kinds import save_all as save_all
    from sweep.plots.orders import convergence as convergence
    from sweep.plots.orders import convergence_across as convergence_across
    from sweep.plots.over_time import energy_over_time as energy_over_time
    from sweep.plots.over_time import unit_length_over_time as unit_length_over_time
    from sweep.plots.spheres import sphere as sphere
    from sweep.plots.style import compact as compact
    from sweep.plots.style import numbers as numbers
    from sweep.plots.style import page as page
    from sweep.plots.style import save as save
    from sweep.plots.style import save_numbers as save_numbers
    from sweep.plots.work import recommendation_picture as recommendation_picture
    from sweep.plots.work import work_precision as work_precision

# Modules are imported at first use, so that `ds.geosweep` does not wait for matplotlib.
_HOMES = {
    "AGAINST_AN_AXIS": "sweep.plots.kinds",
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
    "save_all": "sweep.plots.kinds",
    "save_numbers": "sweep.plots.style",
    "sphere": "sweep.plots.spheres",
    "unit_length_over_time": "sweep.plots.over_time",
    "work_precision": "sweep.plots.work",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
