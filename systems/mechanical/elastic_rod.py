"""An elastic rod of n straight elements in bending, clamped at one end.

L = ½ Σ M_ij q̇_i·q̇_j − V with V = −Σ w_i e3·q_i + Σ ½ κ_i (1 − q_{i−1}·q_i)², where q_i is the
direction of element i, q_0 = e1 that of the clamp, and w_i = (m_i/2 + Σ_{k>i} m_k) g l_i. Gravity
acts along +e3 if g > 0. Slender elements have the inertia

    M_ii = (m_i/3 + Σ_{k>i} m_k) l_i²,    M_ij = (m_j/2 + Σ_{k>j} m_k) l_i l_j for i < j,

``"consistent"``. The paper prints, and ran, the ``"printed"`` one, which is wrong:

    M_ii = m_i l_i²/3 + Σ_{k>i} m_k l_k²,    M_ij = Σ_{k≥max(i,j)} m_k l_k²/2.

Units: kg, m, s, rad. Source: Lee, Leok, McClamroch, *Lagrangian mechanics and variational
integrators on two-spheres*, Example 4: 55 g and 1.1 m in eleven elements, one of them clamped.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from integrators.compiler.kernels import inlined, kernel, state_value
from integrators.compiler.vectors import dot, get
from integrators.errors import InputError, check_known, check_number
from integrators.forms.forms import SpheresLagrangian
from integrators.solvers.inertia import ChainInertia
from systems.base import Convergence, Quantity, Start
from systems.checking import PerBody, check_count, positive_vector, set_checked
from systems.mechanical.base import DampedSystem


@inlined
def bending(q, i):
    """1 − q_{i−1}·q_i, with q_{−1} = e1 for the clamp: rows count from 0."""
    if i == 0:
        return 1.0 - q[0, 0]
    return 1.0 - dot(get(q, i - 1), get(q, i))


@kernel(state_value)
def potential(t, q, p):
    """V = −Σ w_i e3·q_i + Σ ½ κ_i (1 − q_{i−1}·q_i)²; p = (w, κ)."""
    n = q.shape[0]
    total = 0.0 * q[0, 0]
    for i in range(n):
        bent = bending(q, i)
        total = total - p[i] * q[i, 2] + 0.5 * p[n + i] * (bent * bent)
    return total


@kernel()
def potential_gradient(t, q, p, out, work):
    """∂V/∂q_i = −w_i e3 − κ_i b_i q_{i−1} − κ_{i+1} b_{i+1} q_{i+1}, b_i = 1 − q_{i−1}·q_i."""
    n = q.shape[0]
    torque = p[n] * bending(q, 0)
    out[0, 0] = -torque
    out[0, 1] = 0.0
    out[0, 2] = -p[0]
    for i in range(1, n):
        torque = p[n + i] * bending(q, i)
        for c in range(3):
            out[i - 1, c] = out[i - 1, c] - torque * q[i, c]
            out[i, c] = -torque * q[i - 1, c]
        out[i, 2] = out[i, 2] - p[i]


def consistent_inertia(mass: np.ndarray, length: np.ndarray) -> ChainInertia:
    """M of slender uniform elements, by the joints: each element adds m/6 (|s|² + s·s' + |s'|²)."""
    following = np.append(mass[1:], 0.0)
    return ChainInertia(length, (mass + following) / 3.0, mass[1:] / 6.0)


def printed_inertia(mass: np.ndarray, length: np.ndarray) -> ChainInertia:
    """M as the paper prints it."""
    moment = mass * length**2
    following, beyond = np.append(moment[1:], 0.0), _sums_beyond(moment)
    rest = np.append(beyond[1:], 0.0)
    return ChainInertia(
        np.ones_like(length), (moment + following) / 3.0 + rest, (following / 6.0 - rest / 2.0)[:-1]
    )


def _sums_beyond(values: np.ndarray) -> np.ndarray:
    """Σ_{k>i} of the values, for every i."""
    return np.append(np.cumsum(values[:0:-1])[::-1], 0.0)


INERTIA = {"consistent": consistent_inertia, "printed": printed_inertia}


def _lee_start(system: "ElasticRod") -> np.ndarray:
    """Example 4: straight along e1; the middle element, the fifth of ten, was hit."""
    q = np.tile([1.0, 0.0, 0.0], (system.count, 1))
    omega = np.zeros_like(q)
    omega[(system.count - 1) // 2] = [0.0, 0.0, 10.0]
    return np.concatenate([q, omega])


@dataclass(frozen=True)
class ElasticRod(DampedSystem):
    """An elastic rod clamped at one end.

    Parameters
    ----------
    count : int
        Number of elements that move.
    mass, length : float or tuple of float
        Mass, kg, and length, m, of each moving element.
    gravity : float
        Gravitational acceleration along +e3, m s⁻².
    stiffness : float or tuple of float
        Bending stiffness κ of the joint at the base of each element, J.
    inertia : {"consistent", "printed"}
        Inertia matrix: "consistent" with slender elements, or as "printed" in the paper.
    damping : float or tuple of float or "none"
        Coefficient c_i of the torque −c_i ω_i on each element, N m s; ≥ 0. "none": no such force.

    Raises
    ------
    InputError
        If a value has the wrong type or sign, a list the wrong length, or the printed inertia
        is not positive definite, as unequal elements can make it.
    """

    count: int = 10
    mass: PerBody = 0.005
    length: PerBody = 0.1
    gravity: float = 9.81
    stiffness: PerBody = 1000.0
    inertia: str = "consistent"

    name = "elastic_rod"
    sources = ("lee2009",)
    description = "elastic rod in bending, clamped at one end"
    units = {"energy": "J", "momentum": "kg m2 s-1", "time": "s"}
    convergence = Convergence(duration=0.01, longest_step=0.0005, shortest_step=5e-06)
    parameter_units = {
        "count": "1",
        "mass": "kg",
        "length": "m",
        "gravity": "m s-2",
        "stiffness": "J",
        "inertia": "1",
        "damping": "N m s",
    }
    named_starts = (
        Start("lee", "Example 4 of Lee et al.: straight, hit in the middle", _lee_start),
    )

    def __post_init__(self) -> None:
        count = check_count(self.count)
        check_known("inertia", self.inertia, tuple(INERTIA), key="inertia")
        set_checked(
            self,
            count=count,
            mass=positive_vector("mass", self.mass, count),
            length=positive_vector("length", self.length, count),
            gravity=check_number("gravity", self.gravity),
            stiffness=positive_vector("stiffness", self.stiffness, count),
        )
        super().__post_init__()
        try:
            self.chain_inertia()
        except InputError as error:
            raise InputError(
                f"{error}; the {self.inertia!r} one of these elements is not", key="inertia"
            ) from None

    def chain_inertia(self) -> ChainInertia:
        """M, as a chain."""
        return INERTIA[self.inertia](np.array(self.mass), np.array(self.length))

    @cached_property
    def form(self) -> SpheresLagrangian:
        """The `SpheresLagrangian` of the rod."""
        mass = np.array(self.mass)
        weight = (mass / 2.0 + _sums_beyond(mass)) * self.gravity * np.array(self.length)
        form = SpheresLagrangian(
            inertia=self.chain_inertia(),
            potential=potential,
            potential_gradient=potential_gradient,
            parameters=np.concatenate([weight, self.stiffness]),
        )
        return self.damped(form)

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, without gravity angular momentum about the clamp's axis, constraints."""
        axes = "x" if self.gravity == 0.0 else ""
        return self.quantities_without(axes)
