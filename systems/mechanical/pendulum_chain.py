"""A chain of n spherical pendula: point masses on massless rigid links, the first on a pivot.

L = ½ Σ M_ij q̇_i·q̇_j + Σ_i (Σ_{k≥i} m_k) g l_i e3·q_i with M_ij = (Σ_{k≥max(i,j)} m_k) l_i l_j;
q_i is the direction of link i. Gravity acts along +e3 if g > 0, so q = e3 hangs.

Units: kg, m, s, rad. Sources: Lee, Leok, McClamroch, *Lagrangian mechanics and variational
integrators on two-spheres*, Example 1 (its figures are those of g = l = m = 1); Celledoni, Çokaj,
Leone, Murari, Owren, *Lie group integrators for mechanical systems*, section 5, where e3 points up:
gravity is −9.81.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, cast

import numpy as np

from integrators.compiler.kernels import kernel, state_value
from integrators.errors import InputError, check_number
from integrators.forms.forms import SpheresLagrangian
from integrators.solvers.inertia import ChainInertia
from systems.base import Convergence, Quantity, Start
from systems.checking import Each, PerBody, check_count, positive_vector, set_checked
from systems.mechanical.base import DampedSystem


@kernel(state_value)
def potential(t, q, p):
    """V = −Σ_i p_i e3·q_i, where p_i = (Σ_{k≥i} m_k) g l_i."""
    total = -p[0] * q[0, 2]
    for i in range(1, q.shape[0]):
        total = total - p[i] * q[i, 2]
    return total


@kernel()
def potential_gradient(t, q, p, out, work):
    """∂V/∂q_i = −p_i e3."""
    for i in range(q.shape[0]):
        out[i, 0] = 0.0
        out[i, 1] = 0.0
        out[i, 2] = -p[i]


def _lee_start(system: "SphericalPendulumChain") -> np.ndarray:
    """Example 1: both links start in motion, the second vertical."""
    if system.count != 2:
        raise InputError(f"start 'lee' is a double pendulum; this chain has count = {system.count}")
    root = system.arithmetic.sqrt(3.0)
    q = [[root / 2, 0.0, 0.5], [0.0, 0.0, 1.0]]
    omega = [[-root / 4, 0.0, 0.75], [0.0, 1.0, 0.0]]
    return np.array([*q, *omega])


def _celledoni_start(system: "SphericalPendulumChain") -> np.ndarray:
    """All links parallel, in a plane that they do not leave: q·ω stays 0 for every method."""
    root = system.arithmetic.sqrt(0.5)
    return np.array([[root, 0.0, root]] * system.count + [[0.0, 1.0, 0.0]] * system.count)


def _celledoni_spatial_start(system: "SphericalPendulumChain") -> np.ndarray:
    """Two directions in turn, and angular velocities that are orthogonal to them."""
    array = system.arithmetic.array
    q = array([[2.0, -3.0, 6.0], [-1.0, 2.0, 2.0]]) / array([[7.0], [3.0]])
    omega = np.cross(q, array([[0.4, 1.0, -0.7], [1.0, -0.5, 0.3]]))
    turn = np.arange(system.count) % 2
    return np.concatenate([q[turn], omega[turn]])


def _swing_state(system: "SphericalPendulumChain") -> np.ndarray:
    """Links at rest, 31° from e3 and two directions in turn: all swing, in no plane."""
    array = system.arithmetic.array
    q = array([[2.0, -3.0, 6.0], [3.0, 2.0, 6.0]]) / array([[7.0], [7.0]])
    turn = np.arange(system.count) % 2
    return np.concatenate([q[turn], array(np.zeros((system.count, 3)))])


@dataclass(frozen=True)
class SphericalPendulumChain(DampedSystem):
    """A chain of spherical pendula.

    Parameters
    ----------
    count : int
        Number of links.
    mass, length : float or tuple of float
        Mass, kg, and length, m, of each link.
    gravity : float
        Gravitational acceleration along +e3, m s⁻²; negative if e3 points up.
    damping : float or tuple of float or "none"
        Coefficient c_i of the torque −c_i ω_i on each link, N m s; ≥ 0. "none": no such force.

    Raises
    ------
    InputError
        If a value has the wrong type or sign, or a list the wrong length.
    """

    count: int = 2
    mass: PerBody = 1.0
    length: PerBody = 1.0
    gravity: float = 1.0

    name = "spherical_pendulum_chain"
    sources: ClassVar[tuple[str, ...]] = ("lee2009", "celledoni2022")
    description = "chain of spherical pendula under gravity"
    units = {"energy": "J", "momentum": "kg m2 s-1", "time": "s"}
    convergence = Convergence(duration=3.0, longest_step=0.15, shortest_step=0.001)
    parameter_units = {
        "count": "1",
        "mass": "kg",
        "length": "m",
        "gravity": "m s-2",
        "damping": "N m s",
    }
    surprising_defaults = {"gravity": "as in Example 1 of Lee et al.; on Earth it is 9.81"}
    named_starts = (
        Start("lee", "Example 1 of Lee et al.: the double pendulum", _lee_start),
        Start("celledoni", "section 5 of Celledoni et al.: parallel links", _celledoni_start),
        Start("celledoni_spatial", "links that leave every plane", _celledoni_spatial_start),
        Start(
            "swing", "links released at rest, 31° from e3: regular where that hangs", _swing_state
        ),
    )

    def __post_init__(self) -> None:
        count = check_count(self.count)
        set_checked(
            self,
            count=count,
            mass=positive_vector("mass", self.mass, count),
            length=positive_vector("length", self.length, count),
            gravity=check_number("gravity", self.gravity),
        )
        super().__post_init__()

    @cached_property
    def form(self) -> SpheresLagrangian:
        """The `SpheresLagrangian` of the chain."""
        return self.damped(self.conservative_form())

    def conservative_form(self) -> SpheresLagrangian:
        """The same without damping."""
        length, mass = np.array(self.length), cast(Each, self.mass)
        carried = np.cumsum(mass[::-1])[::-1]  # Σ_{k≥i} m_k
        return SpheresLagrangian(
            inertia=ChainInertia(length, np.array(mass)),
            potential=potential,
            potential_gradient=potential_gradient,
            parameters=carried * self.gravity * length,
        )

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, vertical angular momentum, unit length, tangency."""
        return self.quantities_without("z")
