"""Hamiltonian systems on se(3)*, the dual of the algebra of SE(3).

A state is (Π, Γ), and with H a function of both the equations are Lie–Poisson ones, (18),

    Π̇ = Π × ∂H/∂Π + Γ × ∂H/∂Γ,   Γ̇ = Γ × ∂H/∂Π:

the state moves along the coadjoint action by f = −(∂H/∂Π, ∂H/∂Γ). It stays on its coadjoint orbit,
where |Γ|² and Π·Γ are what they were, and which is a symplectic manifold; see `phase_spaces`.

E. Celledoni, E. Çokaj, A. Leone, D. Murari, B. Owren, *Lie group integrators for mechanical
systems*, sections 3.3 and 3.4.2.
"""

import functools
from dataclasses import dataclass, field

import numpy as np

from integrators.compiler.kernels import Kernel, whole_state
from integrators.compiler.vectors import get, put, scale
from integrators.forms.cotangent import GroupHamiltonian
from integrators.forms.flows import HomogeneousFlow, SplitFlow
from integrators.lie_groups.actions import product
from integrators.lie_groups.factors import COADJOINT_SE3


@dataclass(frozen=True)
class LiePoissonHamiltonian(GroupHamiltonian):
    """A Hamiltonian on se(3)*, of the body momentum Π and the vector Γ.

    Parameters
    ----------
    hamiltonian : Kernel
        ``hamiltonian(t, y, p)`` returns H of (Π, Γ). Signature `kernels.state_value`.
    gradient : Kernel
        ``gradient(t, y, p, out, work)`` writes ∂H/∂Π and ∂H/∂Γ, a row each.
    parameters : ndarray, shape (k,)
        The system's own parameters, `p` above.
    split : SplitFlow, optional
        The flow of the same Hamiltonian as a sum.

    Raises
    ------
    InputError
        For a function that is no `Kernel` of its signature, or parameters that are no finite
        numbers.
    """

    hamiltonian: Kernel
    gradient: Kernel
    parameters: np.ndarray = field(default_factory=lambda: np.zeros(0))
    split: SplitFlow | None = None

    rows = 2

    def homogeneous_flow(self) -> HomogeneousFlow:
        """The same motion along the coadjoint action of SE(3)."""
        return HomogeneousFlow(
            generator=_generator_kernel(self.gradient),
            action=product(COADJOINT_SE3),
            energy=self.energy,
            parameters=self.packed,
        )


@functools.cache
def _generator_kernel(gradient: Kernel) -> Kernel:
    """−(∂H/∂Π, ∂H/∂Γ)"""
    gradient_of = gradient.inline

    def generator(t, y, p, out, work):
        gradient_of(t, y, p, out, work)
        put(out, 0, scale(-1.0, get(out, 0)))
        put(out, 1, scale(-1.0, get(out, 1)))

    return Kernel(generator, whole_state, (gradient,), gradient.work)
