"""Pictures of a store, by experiment."""

from sweep.plots.drifts import drift_over_time
from sweep.plots.kinds import KINDS, added_by, picture, save_all
from sweep.plots.orders import convergence, convergence_across
from sweep.plots.over_time import energy_over_time, unit_length_over_time
from sweep.plots.page_setup import compact, page
from sweep.plots.spheres import sphere
from sweep.plots.style import numbers, save, save_numbers
from sweep.plots.work import recommendation_picture, work_precision

__all__ = [
    "KINDS",
    "added_by",
    "compact",
    "convergence",
    "convergence_across",
    "drift_over_time",
    "energy_over_time",
    "numbers",
    "page",
    "picture",
    "recommendation_picture",
    "save",
    "save_all",
    "save_numbers",
    "sphere",
    "unit_length_over_time",
    "work_precision",
]
