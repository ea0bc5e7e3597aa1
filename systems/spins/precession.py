"""A spin that precesses about a fixed axis.

H = a·w and ẇ = w × a: w turns about a at the rate −|a|, and a·w does not change. On the unit
sphere, or in R³ with ``lengths = "any"``.

All steps are the same turn, and so are the rounding errors of its sine and cosine: with the length
led back along w, a·w drifts, at a step of 0.1 by about 4e-4 ε a step under ``splitting`` and 1e-4 ε
under ``spherical_midpoint``, of either sign.

Dimensionless. Source: McLachlan, Modin, Verdier, *A minimal-variable symplectic integrator on
spheres*, theorem 2.4 (vi), whose formula gives the angle of the spherical midpoint method's steps.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from integrators.compiler.kernels import kernel, split_flow, state_value
from integrators.compiler.vectors import accumulate, dot, get, put, scale, summed
from integrators.errors import InputError, check_known, short_repr
from integrators.forms.flows import ExactFlow, SplitFlow
from integrators.forms.hamiltonians import LENGTHS, SpinHamiltonian
from integrators.lie_groups.rotations import turning
from systems.base import Convergence, Family, Quantity, Start
from systems.checking import is_list, number_vector, set_checked
from systems.mechanical.base import axes_along
from systems.spins.base import SpinSystem, quantities_of_spins


@kernel(state_value)
def hamiltonian(t, w, p):
    """H = a·w; p = a."""
    return dot((p[0], p[1], p[2]), get(w, 0))


@kernel()
def gradient(t, w, p, out, work):
    """∂H/∂w = a."""
    put(out, 0, (p[0], p[1], p[2]))


@kernel(split_flow)
def flow(piece, t, h, w, low, p):
    """A turn about a at the rate −|a|."""
    accumulate(low, 0, turning(scale(-h, (p[0], p[1], p[2])), summed(w, low, 0)))


def _equator_start(system: "Precession") -> np.ndarray:
    """The part of a coordinate axis that is perpendicular to a: of the one farthest from it."""
    along = np.array(system.axis) / np.linalg.norm(system.axis)
    farthest = np.eye(3)[np.argmin(np.abs(along))]
    for _ in range(2):  # the second pass removes the first one's rounding
        farthest = farthest - (along @ farthest) * along
        farthest = farthest / np.linalg.norm(farthest)
    return farthest[None]


def _tilted_state(system: "Precession", angle: float) -> np.ndarray:
    along = np.array(system.axis) / np.linalg.norm(system.axis)
    return np.cos(angle) * along + np.sin(angle) * _equator_start(system)


@dataclass(frozen=True)
class Precession(SpinSystem):
    """A spin that precesses.

    Parameters
    ----------
    axis : tuple of float
        Axis a of the precession, not zero; its length is the angular velocity.
    lengths : {"unit", "any"}
        Whether w is a unit vector or may have any length.

    Raises
    ------
    InputError
        If the axis is zero or not three numbers, or `lengths` is unknown.
    """

    axis: tuple[float, ...] = (0.0, 0.0, 1.0)
    lengths: str = "unit"

    name = "precession"
    sources = ("mclachlan2017",)
    description = "spin that precesses about an axis"
    convergence = Convergence(duration=8.0, longest_step=1.0, shortest_step=0.002)
    parameter_units = {"axis": "1", "lengths": "1"}
    named_starts = (Start("equator", "perpendicular to the axis", _equator_start),)
    families = (
        Family("tilted", "at an angle to the axis, in radians", {"angle": 1.0}, _tilted_state),
    )

    def __post_init__(self) -> None:
        check_known("lengths", self.lengths, LENGTHS, key="lengths")
        if not is_list(self.axis):
            raise InputError(f"axis = {short_repr(self.axis)}; expected [x, y, z]", key="axis")
        axis = number_vector("axis", self.axis, 3)
        if not any(axis):
            raise InputError(
                f"axis = {list(axis)!r}; expected a vector that is not zero, or nothing moves",
                key="axis",
            )
        set_checked(self, axis=axis)

    @cached_property
    def form(self) -> SpinHamiltonian:
        """The `SpinHamiltonian` of the spin."""
        return SpinHamiltonian(
            strengths=np.ones(1),
            hamiltonian=hamiltonian,
            gradient=gradient,
            parameters=np.array(self.axis),
            split=SplitFlow(flow, pieces=1),
            exact=ExactFlow(flow),
            lengths=self.lengths,
        )

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, unit length, Casimir; the spin along a, where that is a coordinate axis."""
        return quantities_of_spins(
            self.form, self.units, axes_along(self.axis), energy_degree="linear"
        )
