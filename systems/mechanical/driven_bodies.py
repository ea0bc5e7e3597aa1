"""Two bodies on the unit sphere, drawn to e3 by a strength that is periodic in time, and coupled.

L = ½ Σ M_i |q̇_i|² + (1 + ½ cos 3t) Σ c_i e3·q_i + q_0·q_1. The angular momentum about e3 is
conserved, the energy is not. It is no registered system: integrators are measured on it, since no
other Lagrangian depends on time.
"""

import numpy as np

from integrators.compiler.kernels import kernel, state_value
from integrators.compiler.lanes import cos
from integrators.compiler.vectors import dot, get, put, scale
from integrators.forms.forms import SpheresLagrangian


@kernel(state_value)
def potential(t, q, p):
    """V = −(1 + ½ cos 3t) Σ c_i e3·q_i − q_0·q_1; p = (c_0, c_1)."""
    strength = 1.0 + 0.5 * cos(3.0 * t)
    return -strength * (p[0] * q[0, 2] + p[1] * q[1, 2]) - dot(get(q, 0), get(q, 1))


@kernel()
def potential_gradient(t, q, p, out, work):
    """∂V/∂q_i = −(1 + ½ cos 3t) c_i e3 − q_j."""
    strength = 1.0 + 0.5 * cos(3.0 * t)
    put(out, 0, scale(-1.0, get(q, 1)))
    put(out, 1, scale(-1.0, get(q, 0)))
    for i in range(2):
        out[i, 2] = out[i, 2] - strength * p[i]


def driven_bodies() -> SpheresLagrangian:
    """The `SpheresLagrangian` of the bodies."""
    return SpheresLagrangian(
        np.array([1.0, 1.5]),
        potential,
        potential_gradient,
        np.array([1.0, 0.8]),
        time_dependent=True,
    )
