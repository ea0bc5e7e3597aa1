"""The Lagrange system ẇ_1 = w_2 w_3, ẇ_2 = w_3 w_1, ẇ_3 = w_1 w_2 in R³, a Nambu system.

ẇ = ∇C(w) × ∇H(w) with C = ½(w_1² − w_2²) and H = ½(w_1² − w_3²); both are conserved. Where all
three components grow the motion ends at infinity in a finite time.

Dimensionless. Source: McLachlan, Modin, Verdier, *A minimal-variable symplectic integrator on
spheres*, appendix A.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from integrators.compiler.kernels import kernel, state_value
from integrators.forms.hamiltonians import NambuHamiltonian
from systems.base import Convergence, Start
from systems.spins.base import SpinSystem, quantities_of_nambu

C = np.diag([1.0, -1.0, 0.0])


@kernel(state_value)
def hamiltonian(t, w, p):
    """H = ½ (w_1² − w_3²)."""
    return 0.5 * (w[0, 0] * w[0, 0] - w[0, 2] * w[0, 2])


@kernel()
def gradient(t, w, p, out, work):
    """∇H = (w_1, 0, −w_3)."""
    out[0, 0] = w[0, 0]
    out[0, 1] = 0.0
    out[0, 2] = -w[0, 2]


def _mclachlan(system):
    return np.array([[-1.5, 0.8, 1.1]])


@dataclass(frozen=True)
class NambuLagrange(SpinSystem):
    """The Lagrange system; it has no parameters."""

    name = "nambu_lagrange"
    description = "Lagrange system, a Nambu system with quadratic C and H"
    convergence = Convergence(duration=0.4, longest_step=0.2, shortest_step=0.0002)
    parameter_units = {}
    named_starts = (Start("mclachlan", "(−1.5, 0.8, 1.1)", _mclachlan),)

    @cached_property
    def form(self):
        """The `NambuHamiltonian`."""
        return NambuHamiltonian(matrix=C, hamiltonian=hamiltonian, gradient=gradient)

    @cached_property
    def quantities(self):
        """Energy and Casimir."""
        return quantities_of_nambu(self.form, self.units, energy_degree="quadratic")
