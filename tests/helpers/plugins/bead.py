"""A bead on the unit sphere, drawn to e3 by a spring: L = ½ |q̇|² − ½ k (1 − e3·q)²."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from integrators.plugin import (
    SpheresLagrangian,
    Tableau,
    check_number,
    explicit_method,
    kernel,
    state_value,
)
from systems.plugin import MechanicalSystem, Observable, Start, quantities_of_spheres, set_checked


@kernel(state_value)
def potential(t, q, p):  # p are the form's parameters: (k,)
    return 0.5 * p[0] * (1.0 - q[0, 2]) * (1.0 - q[0, 2])


@kernel()
def potential_gradient(t, q, p, out, work):
    out[0, 0] = 0.0
    out[0, 1] = 0.0
    out[0, 2] = -p[0] * (1.0 - q[0, 2])


@kernel()
def height(t, y, p, out, work):  # y is (q, q̇) of a mechanical system; row 0 of out is the result
    out[0, 0] = y[0, 2]


@dataclass(frozen=True)
class Bead(MechanicalSystem):
    stiffness: float = 1.0

    name = "bead"
    description = "bead on a sphere, drawn to e3 by a spring"
    units = {"energy": "1", "momentum": "1", "time": "1"}
    parameter_units = {"stiffness": "1"}
    named_starts = (Start("level", "at e1", lambda bead: np.array([[1.0, 0, 0], [0, 0, 1.0]])),)

    def __post_init__(self):
        set_checked(self, stiffness=check_number("stiffness", self.stiffness, above=0.0))

    @cached_property
    def form(self):
        parameters = np.array([self.stiffness])
        return SpheresLagrangian(np.ones(1), potential, potential_gradient, parameters)

    @cached_property
    def quantities(self):
        return quantities_of_spheres(self.form, self.units, momentum="z")


RALSTON = Tableau(a=[[], [2 / 3]], b=[1 / 4, 3 / 4], order=2)

SYSTEMS = (Bead,)
INTEGRATORS = (explicit_method("ralston", "Ralston's method", 2, RALSTON),)
OBSERVABLES = (
    Observable(
        name="height",
        units="1",
        long_name="height of the first body",
        function=height,
        systems=("bead", "spherical_pendulum_chain"),  # or forms=(SpheresLagrangian,)
    ),
)
