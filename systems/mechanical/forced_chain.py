"""A chain of n spherical pendula, damped, and driven by a periodic force at its free end.

L is that of `spherical_pendulum_chain`: L = ½ Σ M_ij q̇_i·q̇_j + Σ_i (Σ_{k≥i} m_k) g l_i e3·q_i.
Not derived from a potential are the torque −c_i ω_i on each link and the force
a cos(Ω t) e1 on the last mass, at Σ l_i q_i. By virtual work they are the generalised forces

    F_i = −c_i q̇_i + l_i a cos(Ω t) e1,

and the energy balance E − W with Ẇ = Σ F_i·q̇_i is constant. A link's damping c_i is against the
surroundings, as of air, and not against its neighbours. Gravity acts along +e3 if g > 0, so
q = e3 hangs. The vertical angular momentum is conserved where c = 0 and a = 0.

Units: kg, m, s, rad. Source of L: Lee, Leok, McClamroch, *Lagrangian mechanics and variational
integrators on two-spheres*, Example 1.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from integrators.compiler.kernels import generalized_force, kernel
from integrators.compiler.lanes import cos
from integrators.compiler.vectors import cross, get, put
from integrators.errors import InputError, check_number
from integrators.forms.forms import SpheresLagrangian
from systems.base import Quantity
from systems.checking import Each, PerBody, set_checked
from systems.mechanical.base import quantities_of_spheres, with_force
from systems.mechanical.pendulum_chain import SphericalPendulumChain


@kernel(generalized_force)
def force(t, q, omega, p, out, work):
    """F_i = −c_i ω_i × q_i + l_i a cos(Ω t) e1; p = (those of the chain, c, l, a, Ω)."""
    n = q.shape[0]
    push = p[3 * n] * cos(p[3 * n + 1] * t)
    for i in range(n):
        v, c = cross(get(omega, i), get(q, i)), p[n + i]
        put(out, i, (p[2 * n + i] * push - c * v[0], -c * v[1], -c * v[2]))


@dataclass(frozen=True)
class ForcedPendulumChain(SphericalPendulumChain):
    """A chain of spherical pendula, damped and driven.

    Parameters
    ----------
    count, mass, length, gravity
        As in `SphericalPendulumChain`.
    damping : float or tuple of float
        Coefficient c_i of the torque −c_i ω_i on each link, N m s; ≥ 0.
    amplitude : float
        Amplitude a of the periodic force along e1 at the free end, N.
    frequency : float
        Angular frequency Ω of that force, rad s⁻¹; ≥ 0.

    Raises
    ------
    InputError
        If a value has the wrong type or sign, or a list the wrong length.
    """

    damping: PerBody = field(default=0.05, kw_only=True)
    amplitude: float = 0.1
    frequency: float = 1.0

    name = "forced_pendulum_chain"
    sources = ("lee2009",)
    description = "chain of spherical pendula, damped and driven"
    later = ()
    convergence = SphericalPendulumChain.convergence
    parameter_units = SphericalPendulumChain.parameter_units | {
        "damping": "N m s",
        "amplitude": "N",
        "frequency": "rad s-1",
    }

    def __post_init__(self) -> None:
        if isinstance(self.damping, str):  # of other systems, which may have no force, "none"
            raise InputError(
                f"damping = {self.damping!r}; expected a number ≥ 0, or one for each link: the "
                "drive is a force all the same, and 0 damps nothing",
                key="damping",
            )
        super().__post_init__()
        set_checked(
            self,
            amplitude=check_number("amplitude", self.amplitude),
            frequency=check_number("frequency", self.frequency, least=0.0),
        )

    @cached_property
    def form(self) -> SpheresLagrangian:
        """The `SpheresLagrangian` of the chain, with its force."""
        own = [*cast(Each, self.damping), *cast(Each, self.length), self.amplitude, self.frequency]
        return with_force(self.conservative_form(), force, own)

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, work and their balance, unit length, tangency; momentum if nothing acts."""
        acts = any(cast(Each, self.damping)) or self.amplitude
        return quantities_of_spheres(self.form, self.units, momentum="" if acts else "z")
