"""Pictures of a store, by experiment, and the counterparts of the papers' figures."""

from sweep.plots.celledoni import CELLEDONI
from sweep.plots.drifts import drift_over_time
from sweep.plots.kinds import KINDS, picture, save_all
from sweep.plots.lee import LEE
from sweep.plots.looks import compact, save
from sweep.plots.mclachlan import MCLACHLAN
from sweep.plots.orders import convergence
from sweep.plots.over_time import energy_over_time, unit_length_over_time
from sweep.plots.spheres import sphere
from sweep.plots.work import work_precision

__all__ = [
    "FIGURES",
    "KINDS",
    "compact",
    "convergence",
    "drift_over_time",
    "energy_over_time",
    "picture",
    "save",
    "save_all",
    "sphere",
    "unit_length_over_time",
    "work_precision",
]

FIGURES = {"lee": LEE, "mclachlan": MCLACHLAN, "celledoni": CELLEDONI}
"""Counterparts of the figures of the papers, by the paper's name in `sweep.reproduce`.

Each takes the results of the packaged studies of that paper, a dictionary of study and
experiment, and returns a Figure that belongs to no window.
"""
