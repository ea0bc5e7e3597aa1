"""A system of the tests: a chain of pendula, gravity shaken in time, links damped.

L = ½ Σ M_ij q̇_i·q̇_j + a(t) Σ_i e3·q_i with a(t) = 1 + ½ sin 3t and M = 1 + δ; the force on body
i is −c q̇_i. Its functions use scratch, which no registered system does yet.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from integrators.plugin import (
    SpheresLagrangian,
    check_number,
    check_whole,
    cross,
    generalized_force,
    get,
    inlined,
    kernel,
    put,
    scale,
    sin,
    state_value,
)
from systems.plugin import MechanicalSystem, Start, quantities_of_spheres, set_checked


@inlined
def strength(t):
    """a(t)"""
    return 1.0 + 0.5 * sin(6.0 * t)


@kernel(state_value)
def potential(t, q, p):
    """V = −a(t) Σ e3·q_i"""
    total = -strength(t) * q[0, 2]
    for i in range(1, q.shape[0]):
        total = total - strength(t) * q[i, 2]
    return total


@kernel(work=lambda rows: 2)
def potential_gradient(t, q, p, out, work):
    """∂V/∂q_i = −a(t) e3"""
    work[1] = 0.0 * q[0, 0] - strength(t)
    for i in range(q.shape[0]):
        put(out, i, (0.0 * q[i, 0], 0.0 * q[i, 0], work[1]))


@kernel(generalized_force, work=lambda rows: 1)
def damping(t, q, omega, p, out, work):
    """F_i = −c q̇_i; p = (c,)"""
    work[0] = 0.0 * q[0, 0] - p[0]
    for i in range(q.shape[0]):
        put(out, i, scale(work[0], cross(get(omega, i), get(q, i))))


def _tilted(system):
    q = np.array([[0.6, 0.0, 0.8], [0.0, 0.8, 0.6]])[: system.count]
    omega = np.array([[0.0, 1.0, 0.0], [-0.9, 0.0, 0.0]])[: system.count]
    return np.concatenate([q, omega])


@dataclass(frozen=True)
class DrivenChain(MechanicalSystem):
    """The chain, of one or two links."""

    count: int = 2
    damping: float = 0.0

    name = "driven_chain"
    description = "chain of pendula under shaken gravity"
    units = {"energy": "1", "momentum": "1", "time": "1"}
    parameter_units = {"count": "1", "damping": "1"}
    named_starts = (Start("tilted", "turning links", _tilted),)

    def __post_init__(self):
        count = check_whole("count", self.count)
        set_checked(self, count=count, damping=check_number("damping", self.damping))

    @cached_property
    def form(self):
        return SpheresLagrangian(
            inertia=np.ones((self.count, self.count)) + np.eye(self.count),
            potential=potential,
            potential_gradient=potential_gradient,
            parameters=np.array([self.damping]),
            force=damping if self.damping else None,
        )

    @cached_property
    def quantities(self):
        return quantities_of_spheres(self.form, self.units, "" if self.damping else "z")
