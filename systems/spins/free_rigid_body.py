"""A free rigid body: w is its angular momentum in the frame of the body, of length 1.

H = ½ w·I⁻¹w with the inertia I = diag(I_1, I_2, I_3) about the principal axes, and ẇ = w × I⁻¹w:
Euler's equations. On the unit sphere, or in R³ with ``lengths = "any"``.

Dimensionless. Source: McLachlan, Modin, Verdier, *A minimal-variable symplectic integrator on
spheres*, section 3.1, (13). It prints the inertia (1, 2, 4); the ratios of errors that it states
are those of (1, 4/3, 2), the inertia of its section 3.3.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from integrators.compiler.kernels import kernel, split_flow, state_value
from integrators.errors import check_known
from integrators.forms.flows import ExactFlow, SplitFlow
from integrators.forms.hamiltonians import LENGTHS, SpinHamiltonian
from systems.base import Convergence, Quantity, Start
from systems.checking import positive_vector, set_checked
from systems.free_motion import free_momentum
from systems.spins.base import SpinSystem, quantities_of_spins
from systems.spins.principal_axes import middle_axis, remarks_on_moments, symmetry_axes, turn


@kernel(state_value)
def hamiltonian(t, w, p):
    """H = ½ Σ w_k²/I_k, (13); p = (1/I_1, 1/I_2, 1/I_3, the middle axis)."""
    x, y, z = w[0, 0], w[0, 1], w[0, 2]
    return 0.5 * (p[0] * x * x + p[1] * y * y + p[2] * z * z)


@kernel()
def gradient(t, w, p, out, work):
    """∂H/∂w = I⁻¹w."""
    for k in range(3):
        out[0, k] = p[k] * w[0, k]


@kernel(split_flow)
def flow(piece, t, h, w, low, p):
    """The flow of ½ w_k² (1/I_k − 1/I_m), m of `middle_axis`: a turn about e_k."""
    m = int(p[3])
    k = (m + 2 - piece) % 3
    turn(w, low, k, -h * (p[k] - p[m]) * (w[0, k] + low[0, k]))


@kernel(split_flow)
def exact_flow(piece, t, h, w, low, p):
    """The flow of H itself."""
    free_momentum(w, low, p, int(p[3]), h)


def _figure3_start(system: "FreeRigidBody") -> np.ndarray:
    angle = system.arithmetic.number(1.1)
    return np.array([[np.cos(angle), 0.0, np.sin(angle)]])


@dataclass(frozen=True)
class FreeRigidBody(SpinSystem):
    """A free rigid body.

    Parameters
    ----------
    inertia : tuple of float
        Principal moments of inertia, positive. They need not satisfy the triangle inequality of
        rigid bodies, as (1, 2, 4) does not.
    lengths : {"unit", "any"}
        Whether w is a unit vector or may have any length.

    Raises
    ------
    InputError
        If a moment is not positive, their number is not three, or `lengths` is unknown.
    """

    inertia: tuple[float, ...] = (1.0, 2.0, 4.0)
    lengths: str = "unit"

    name = "free_rigid_body"
    sources = ("mclachlan2017",)
    description = "free rigid body, as a spin"
    convergence = Convergence(duration=16.0, longest_step=0.8, shortest_step=0.004)
    parameter_units = {"inertia": "1", "lengths": "1"}
    named_starts = (Start("figure3", "Figure 3 of McLachlan et al.", _figure3_start),)

    def __post_init__(self) -> None:
        check_known("lengths", self.lengths, LENGTHS, key="lengths")
        set_checked(self, inertia=positive_vector("inertia", self.inertia, 3))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to know of the moments."""
        return remarks_on_moments(self.inertia)

    @cached_property
    def form(self) -> SpinHamiltonian:
        """The `SpinHamiltonian` of the body."""
        return SpinHamiltonian(
            strengths=np.ones(1),
            hamiltonian=hamiltonian,
            gradient=gradient,
            parameters=np.append(1.0 / np.array(self.inertia), middle_axis(self.inertia)),
            split=SplitFlow(flow, pieces=1 if symmetry_axes(self.inertia) else 2),
            exact=ExactFlow(exact_flow),
            lengths=self.lengths,
            rigid_body=True,
        )

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, unit length, Casimir; the spin along an axis of symmetry."""
        return quantities_of_spins(
            self.form, self.units, symmetry_axes(self.inertia), energy_degree="quadratic"
        )
