"""A rigid body under a load along its third axis, periodic in time: chaos develops with ε.

H = ½ w·I⁻¹w + ε sin(t) w_3 with I = diag(I_1, I_2, I_3), and ẇ = w × (I⁻¹w + ε sin(t) e3); t in
radians, so that the load has the period 2π. On the unit sphere, or in R³ with ``lengths = "any"``.

Dimensionless. Source: McLachlan, Modin, Verdier, *A minimal-variable symplectic integrator on
spheres*, section 3.3; Figure 5 has ε = 0.01 and 0.07, sampled once in a period.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from integrators.compiler.kernels import kernel, split_flow, state_value
from integrators.compiler.lanes import sin
from integrators.errors import check_known, check_number
from integrators.forms.flows import SplitFlow
from integrators.forms.hamiltonians import LENGTHS, SpinHamiltonian
from systems.base import Convergence, Quantity, Start
from systems.checking import positive_vector, set_checked
from systems.free_motion import free_momentum
from systems.spins.base import SpinSystem, quantities_of_spins
from systems.spins.principal_axes import middle_axis, remarks_on_moments, symmetry_axes, turn


@kernel(state_value)
def hamiltonian(t, w, p):
    """H = ½ Σ w_k²/I_k + ε sin(t) w_3; p = (1/I_1, 1/I_2, 1/I_3, ε, the middle axis)."""
    x, y, z = w[0, 0], w[0, 1], w[0, 2]
    return 0.5 * (p[0] * x * x + p[1] * y * y + p[2] * z * z) + p[3] * sin(t) * z


@kernel()
def gradient(t, w, p, out, work):
    """∂H/∂w = I⁻¹w + ε sin(t) e3."""
    for k in range(3):
        out[0, k] = p[k] * w[0, k]
    out[0, 2] = out[0, 2] + p[3] * sin(t)


@kernel(split_flow)
def flow(piece, t, h, w, low, p):
    """The exact flow of the free body, and that of the load: a turn about e3.

    That is by −ε ∫ sin over [t, t + h], ∫ sin = 2 sin(t + h/2) sin(h/2).
    """
    if piece == 0:
        free_momentum(w, low, p, int(p[4]), h)
    else:
        turn(w, low, 2, -2.0 * p[3] * sin(t + 0.5 * h) * sin(0.5 * h) + 0.0 * w[0, 2])


def _mclachlan_start(system: "ForcedRigidBody") -> np.ndarray:
    return system.arithmetic.array([[0.6, 0.48, 0.64]])


@dataclass(frozen=True)
class ForcedRigidBody(SpinSystem):
    """A rigid body under a periodic load.

    Parameters
    ----------
    inertia : tuple of float
        Principal moments of inertia, positive. They need not satisfy the triangle inequality of
        rigid bodies, as (1, 2, 4) does not.
    epsilon : float
        Amplitude ε of the periodic load.
    lengths : {"unit", "any"}
        Whether w is a unit vector or may have any length.

    Raises
    ------
    InputError
        If a moment is not positive, their number is not three, ε is no number or `lengths` is
        unknown.
    """

    inertia: tuple[float, ...] = (1.0, 4 / 3, 2.0)
    epsilon: float = 0.07
    lengths: str = "unit"

    name = "forced_rigid_body"
    sources = ("mclachlan2017",)
    description = "rigid body under a periodic load"
    convergence = Convergence(duration=24.0, longest_step=1.0, shortest_step=0.006)
    parameter_units = {"inertia": "1", "epsilon": "1", "lengths": "1"}
    named_starts = (Start("mclachlan", "(0.6, 0.48, 0.64)", _mclachlan_start),)

    def __post_init__(self) -> None:
        check_known("lengths", self.lengths, LENGTHS, key="lengths")
        set_checked(
            self,
            inertia=positive_vector("inertia", self.inertia, 3),
            epsilon=check_number("epsilon", self.epsilon),
        )

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
            parameters=np.array(
                [*(1.0 / np.array(self.inertia)), self.epsilon, middle_axis(self.inertia)]
            ),
            split=SplitFlow(flow, pieces=2),
            lengths=self.lengths,
            time_dependent=True,
        )

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, an observable; unit length, Casimir; w_3 where the body is symmetric about it."""
        total = "z" if "z" in symmetry_axes(self.inertia) else ""
        return quantities_of_spins(self.form, self.units, total)
