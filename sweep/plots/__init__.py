"""Pictures of a store, by experiment."""

from sweep.plots.drifts import drift_over_time
from sweep.plots.kinds import KINDS, added_by, picture, save_all
from sweep.plots.orders import convergence
from sweep.plots.over_time import energy_over_time, unit_length_over_time
from sweep.plots.recommendation import recommendation_picture
from sweep.plots.spheres import sphere
from sweep.plots.style import compact, save
from sweep.plots.work import work_precision

__all__ = [
    "KINDS",
    "added_by",
    "compact",
    "convergence",
    "drift_over_time",
    "energy_over_time",
    "picture",
    "recommendation_picture",
    "save",
    "save_all",
    "sphere",
    "unit_length_over_time",
    "work_precision",
]
