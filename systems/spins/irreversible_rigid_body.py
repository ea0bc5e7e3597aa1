"""A rigid body whose moments of inertia depend on the sense in which it turns.

H = ½ Σ w_k² (1 + σ w_k)/I_k, k = 1, 2, 3, and ẇ = w × ∇H: w ↦ −w reverses no motion unless σ = 0.
On the unit sphere, or in R³ with ``lengths = "any"``, H as it stands.

Dimensionless. Source: McLachlan, Modin, Verdier, *A minimal-variable symplectic integrator on
spheres*, section 3.2, (14), where the third denominator is to be read as 1 + σ w_3.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from integrators.compiler.kernels import inlined, kernel, split_flow, state_value
from integrators.errors import InputError, check_known, check_number
from integrators.forms.flows import SplitFlow
from integrators.forms.hamiltonians import LENGTHS, SpinHamiltonian
from systems.base import Convergence, Quantity, Start
from systems.checking import positive_vector, set_checked
from systems.spins.base import SpinSystem, quantities_of_spins
from systems.spins.principal_axes import remarks_on_moments, turn


@inlined
def slope(x, p, k):
    """d/dx of ½ x² (1 + σ x)/I_k at x = w_k; p = (1/I_1, 1/I_2, 1/I_3, σ)."""
    return p[k] * x * (1.0 + 1.5 * p[3] * x)


@kernel(state_value)
def hamiltonian(t, w, p):
    """H = ½ Σ w_k² (1 + σ w_k)/I_k, (14)."""
    total = 0.5 * p[0] * w[0, 0] * w[0, 0] * (1.0 + p[3] * w[0, 0])
    for k in range(1, 3):
        total = total + 0.5 * p[k] * w[0, k] * w[0, k] * (1.0 + p[3] * w[0, k])
    return total


@kernel()
def gradient(t, w, p, out, work):
    """∂H/∂w_k = w_k (1 + (3/2) σ w_k)/I_k."""
    for k in range(3):
        out[0, k] = slope(w[0, k], p, k)


@kernel(split_flow)
def flow(piece, t, h, w, low, p):
    """The flow of ½ w_k² (1 + σ w_k)/I_k: a turn about e_k at the rate −dH/dw_k."""
    turn(w, low, piece, -h * slope(w[0, piece] + low[0, piece], p, piece))


def _figure4_start(system: "IrreversibleRigidBody") -> np.ndarray:
    printed = system.arithmetic.array([[0.0, 0.7248, -0.6889]])
    return printed / np.linalg.norm(printed)


@dataclass(frozen=True)
class IrreversibleRigidBody(SpinSystem):
    """An irreversible rigid body.

    Parameters
    ----------
    inertia : tuple of float
        Principal moments of inertia at σ = 0, the reversible body, as in `free_rigid_body`.
    sigma : float
        Dependence σ of the moments of inertia on the sense of rotation, between −1 and 1.
    lengths : {"unit", "any"}
        Whether w is a unit vector or may have any length.

    Raises
    ------
    InputError
        If a moment is not positive, their number is not three, |σ| ≥ 1 or `lengths` is unknown.
    """

    inertia: tuple[float, ...] = (1.0, 2.0, 4.0)
    sigma: float = 2 / 3
    lengths: str = "unit"

    name = "irreversible_rigid_body"
    sources = ("mclachlan2017",)
    description = "rigid body with moments of inertia that depend on the sense of rotation"
    convergence = Convergence(duration=8.0, longest_step=0.7, shortest_step=0.003)
    parameter_units = {"inertia": "1", "sigma": "1", "lengths": "1"}
    named_starts = (
        Start("figure4", "Figure 4 of McLachlan et al., brought to unit length", _figure4_start),
    )

    def __post_init__(self) -> None:
        check_known("lengths", self.lengths, LENGTHS, key="lengths")
        sigma = check_number("sigma", self.sigma)
        if abs(sigma) >= 1.0:
            raise InputError(
                f"sigma = {sigma!r}; expected |sigma| < 1, or a moment of inertia "
                "I_k/(1 + sigma w_k) is not positive",
                key="sigma",
            )
        set_checked(self, inertia=positive_vector("inertia", self.inertia, 3), sigma=sigma)

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
            parameters=np.append(1.0 / np.array(self.inertia), self.sigma),
            split=SplitFlow(flow, pieces=3),
            lengths=self.lengths,
        )

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, unit length, Casimir."""
        return quantities_of_spins(self.form, self.units)
