"""Pictures of a store, by experiment, and the counterparts of the papers' figures."""

from sweep.plots.lee import LEE
from sweep.plots.looks import save
from sweep.plots.studies import (
    KINDS,
    convergence,
    energy_over_time,
    save_all,
    unit_length_over_time,
)

__all__ = [
    "FIGURES",
    "KINDS",
    "convergence",
    "energy_over_time",
    "save",
    "save_all",
    "unit_length_over_time",
]

FIGURES = {"lee": LEE}
