"""n bodies on the unit sphere under an analogue of gravitation.

L = ½ Σ m_i |q̇_i|² − V with V = −γ Σ_{i<j} c/√(1−c²), c = q_i·q_j: attractive for γ > 0, singular
where two bodies meet, and with the opposite sign where they are antipodal.

Dimensionless. Source: Lee, Leok, McClamroch, *Lagrangian mechanics and variational integrators
on two-spheres*, Example 2, after Kozlov and Harin (1992).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from integrators.compiler.kernels import kernel, state_value
from integrators.compiler.lanes import sqrt
from integrators.compiler.vectors import accumulate, dot, get, scale
from integrators.errors import InputError, check_number
from integrators.forms.forms import SpheresLagrangian
from systems.base import Convergence, Quantity, Start
from systems.checking import (
    MOST_INTERACTING,
    Each,
    PerBody,
    check_count,
    positive_vector,
    set_checked,
)
from systems.mechanical.base import DampedSystem, check_distinct


@kernel(state_value)
def potential(t, q, p):
    """V = −γ Σ_{i<j} c/√(1−c²); p = (γ,)."""
    total = 0.0 * q[0, 0]
    for i in range(1, q.shape[0]):
        for j in range(i):
            c = dot(get(q, i), get(q, j))
            total = total - p[0] * c / sqrt(1.0 - c * c)
    return total


@kernel()
def potential_gradient(t, q, p, out, work):
    """∂V/∂q_i = −γ Σ_{j≠i} q_j (1−c²)^(−3/2), as in (3.21)."""
    for i in range(q.shape[0]):
        for c in range(3):
            out[i, c] = 0.0
    for i in range(1, q.shape[0]):
        for j in range(i):
            c = dot(get(q, i), get(q, j))
            s = 1.0 - c * c
            pull = -p[0] / (s * sqrt(s))
            accumulate(out, i, scale(pull, get(q, j)))
            accumulate(out, j, scale(pull, get(q, i)))


def _lee_start(system: "NBodySphere") -> np.ndarray:
    """Example 2: three bodies."""
    if system.count != 3:
        raise InputError(f"start 'lee' has three bodies; this system has count = {system.count}")
    q = [[0.0, -1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]]
    omega = [[0.0, 0.0, -1.1], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    return system.arithmetic.array([*q, *omega])


def _ring_state(system: "NBodySphere") -> np.ndarray:
    """Equal bodies on the parallel of 45°, equally spaced: a relative equilibrium.

    All turn about z with Ω² = (γ/m) Σ_j (1 − cos φ_j)/(1 − c_j²)^(3/2), where φ_j is the longitude
    from a body to the j-th other one and c_j = q·q_j: gravity along the meridian is what the
    rotation takes.
    """
    mass = cast(Each, system.mass)
    if len(set(mass)) > 1:
        raise InputError(f"start 'ring' has equal masses; this system has mass = {mass}")
    if system.coupling <= 0.0:
        raise InputError(
            f"start 'ring' has bodies that attract; this system has coupling = {system.coupling}"
        )
    of = system.arithmetic
    longitude = 2.0 * of.pi * np.arange(system.count) / system.count
    q = of.sqrt(0.5) * np.stack([np.cos(longitude), np.sin(longitude), np.ones(system.count)], 1)
    c = q[1:] @ q[0]
    pull = np.sum((1.0 - np.cos(longitude[1:])) / (1.0 - c**2) ** 1.5)
    axis = np.sqrt(system.coupling / mass[0] * pull) * np.array([0.0, 0.0, 1.0])
    return np.concatenate([q, axis - (q @ axis)[:, None] * q])


@dataclass(frozen=True)
class NBodySphere(DampedSystem):
    """n bodies on a sphere.

    Parameters
    ----------
    count : int
        Number of bodies, at least 2.
    mass : float or tuple of float
        Mass of each body.
    coupling : float
        Strength γ of the interaction; positive for attraction.
    damping : float or tuple of float or "none"
        Coefficient c_i of the torque −c_i ω_i on each body; ≥ 0. "none": no such force.

    Raises
    ------
    InputError
        If a value has the wrong type or sign, or a list the wrong length.
    """

    count: int = 3
    mass: PerBody = 1.0
    coupling: float = 1.0

    name = "nbody_sphere"
    sources = ("lee2009", "kozlovharin1992")
    description = "n bodies on a sphere under an analogue of gravitation"
    units = {"energy": "1", "momentum": "1", "time": "1"}
    convergence = Convergence(duration=0.8, longest_step=0.1, shortest_step=0.0004)
    parameter_units = {"count": "1", "mass": "1", "coupling": "1", "damping": "1"}
    named_starts = (
        Start("lee", "Example 2 of Lee et al.: three bodies", _lee_start),
        Start(
            "ring",
            "equal bodies that turn on the parallel of 45°: a relative equilibrium",
            _ring_state,
        ),
    )

    def __post_init__(self) -> None:
        count = check_count(self.count, least=2, most=MOST_INTERACTING)
        set_checked(
            self,
            count=count,
            mass=positive_vector("mass", self.mass, count),
            coupling=check_number("coupling", self.coupling),
        )
        super().__post_init__()

    def check_positions(self, q: np.ndarray) -> None:
        """Refuse bodies that meet or are antipodal."""
        check_distinct(q, antipodal=True)

    @cached_property
    def form(self) -> SpheresLagrangian:
        """The `SpheresLagrangian` of the bodies."""
        form = SpheresLagrangian(
            inertia=np.array(self.mass),
            potential=potential,
            potential_gradient=potential_gradient,
            parameters=np.array([self.coupling]),
        )
        return self.damped(form)

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, total angular momentum, unit length, tangency."""
        return self.quantities_without("xyz")
