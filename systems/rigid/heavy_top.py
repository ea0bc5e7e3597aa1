"""A heavy top, a rigid body with a fixed point under uniform gravity, in three formulations.

With the attitude Q (a vector a of the body is Q a in space), the momentum π in space and Π = Qᵀπ in
the body, the centre of mass at ℓX, X = (0, 1, 0), and Γ₀ = (0, 0, −g), the energy is

    H = ½ Π·I⁻¹Π + Mℓ Γ₀·QX.

Gravity acts along +e3 if g > 0, so a top with QX = e3 hangs. The formulations are

- ``cotangent``, (Q, π) on T*SO(3): Q̇ = ω̂ Q, ω = Q I⁻¹Qᵀπ, π̇ = Mℓ Γ₀ × QX,          (21)–(22)
- ``lie_poisson``, (Π, Γ) on se(3)* with Γ = Q⁻¹Γ₀: Π̇ = Π × I⁻¹Π + Mℓ Γ × X,
  Γ̇ = Γ × I⁻¹Π; |Γ|² and Π·Γ are Casimirs,                                            (23)–(24)
- ``quadratic``, (Q, q, π, p) on T*(SO(3) × R³) with p = −MℓX and
  H = ½ Π·I⁻¹Π + ½ |p − Q⁻¹Γ₀|² − ½ |Q⁻¹Γ₀|², greater by ½ M²ℓ² than the energy:
  π̇ = −Γ₀ × Qp, q̇ = p − Q⁻¹Γ₀, ṗ = 0.                                                (29)–(32)

Units: kg, m, s, rad. Source: Celledoni, Çokaj, Leone, Murari, Owren, *Lie group integrators for
mechanical systems*, section 3.4. The inertia tensor that it prints looks like the one about the
centre of mass; ``fixed_point`` adds Mℓ² across X, so that of ℓ = 1 is (15.234375, 0.46875,
15.234375).

``cotangent`` and ``lie_poisson`` split into the free body and the weight, with exact flows; that
of three different moments is as exact as the quadrature of `systems.free_motion`.
"""

import functools
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from integrators.compiler.kernels import (
    Kernel,
    inlined,
    kernel,
    split_flow,
    state_value,
    whole_state,
)
from integrators.compiler.vectors import axpy, cross, dot, get, put, scale, sub, summed
from integrators.errors import InputError, check_known, check_number, short_repr
from integrators.forms.cotangent import CotangentHamiltonian
from integrators.forms.flows import SplitFlow
from integrators.forms.lie_poisson import LiePoissonHamiltonian
from integrators.precision import to_numbers
from systems import ensembles
from systems.base import Convergence, Quantity, Start
from systems.checking import ON_MANIFOLD, ROUND_OFF, body_moments, is_list, set_checked
from systems.free_motion import free_rotation, symmetric_rotation, turn_rows
from systems.rigid import rotation_matrices
from systems.rigid.base import Part, RigidSystem, checked_parts
from systems.spins.principal_axes import middle_axis, symmetry_axes

FORMULATIONS = ("cotangent", "lie_poisson", "quadratic")
PRINTED = (0.234375, 0.46875, 0.234375)
INERTIAS = ("printed", "fixed_point")
AXIS = (0.0, 1.0, 0.0)  # X

# Parameters of the kernels: 1/I (3), Mℓ, g, the axis of the middle moment.


@inlined
def _to_body(y, a):
    """Qᵀ a"""
    return axpy(a[2], get(y, 2), axpy(a[1], get(y, 1), scale(a[0], get(y, 0))))


@inlined
def _over_inertia(p, a):
    return p[0] * a[0], p[1] * a[1], p[2] * a[2]


@inlined
def _turning(y, momentum, p):
    """ω = Q I⁻¹Qᵀπ"""
    own = _over_inertia(p, _to_body(y, momentum))
    return dot(get(y, 0), own), dot(get(y, 1), own), dot(get(y, 2), own)


# --- (Q, π) --------------------------------------------------------------------------------------


@kernel(state_value)
def cotangent_hamiltonian(t, y, p):
    """H = ½ Π·I⁻¹Π − Mℓg e3·QX."""
    own = _to_body(y, get(y, 3))
    return 0.5 * dot(own, _over_inertia(p, own)) - p[3] * p[4] * y[2, 1]


@kernel()
def cotangent_derivatives(t, y, p, out, work):
    """ω, and Mℓ Γ₀ × QX − ω × π; (14)."""
    pi = get(y, 3)
    omega, weight = _turning(y, pi, p), p[3] * p[4]
    put(out, 0, omega)
    put(out, 1, sub((weight * y[1, 1], -weight * y[0, 1], 0.0), cross(omega, pi)))


# --- (Π, Γ) --------------------------------------------------------------------------------------


@kernel(state_value)
def body_hamiltonian(t, y, p):
    """H = ½ Π·I⁻¹Π + Mℓ Γ·X."""
    return 0.5 * dot(get(y, 0), _over_inertia(p, get(y, 0))) + p[3] * y[1, 1]


@kernel()
def body_gradient(t, y, p, out, work):
    """∂H/∂Π = I⁻¹Π and ∂H/∂Γ = Mℓ X."""
    put(out, 0, _over_inertia(p, get(y, 0)))
    put(out, 1, scale(0.0, get(y, 1)))
    out[1, 1] = out[1, 1] + p[3]


@kernel()
def squared_gravity(t, y, p, out, work):
    """|Γ|²"""
    out[0, 0] = dot(get(y, 1), get(y, 1))


@kernel()
def momentum_along_gravity(t, y, p, out, work):
    """Π·Γ"""
    out[0, 0] = dot(get(y, 0), get(y, 1))


@kernel()
def body_momentum(t, y, p, out, work):
    """Π"""
    put(out, 0, get(y, 0))


@kernel()
def body_gravity(t, y, p, out, work):
    """Γ"""
    put(out, 0, get(y, 1))


# --- (Q, q, π, p) --------------------------------------------------------------------------------


@kernel(state_value)
def quadratic_hamiltonian(t, y, p):
    """H = ½ Π·I⁻¹Π + ½ |p|² − p·Q⁻¹Γ₀, with Q⁻¹Γ₀ = −g times the last row of Q."""
    own, push = _to_body(y, get(y, 4)), get(y, 5)
    kinetic = dot(own, _over_inertia(p, own))
    return 0.5 * (kinetic + dot(push, push)) + p[4] * dot(push, get(y, 2))


@kernel()
def quadratic_derivatives(t, y, p, out, work):
    """ω, p − Q⁻¹Γ₀, −Γ₀ × Qp − ω × π and 0; (14)."""
    pi, push, g = get(y, 4), get(y, 5), p[4]
    omega = _turning(y, pi, p)
    x, z = dot(get(y, 0), push), dot(get(y, 1), push)
    put(out, 0, omega)
    put(out, 1, axpy(g, get(y, 2), push))
    put(out, 2, sub((-g * z, g * x, 0.0), cross(omega, pi)))
    put(out, 3, scale(0.0, push))


# --- the free body and the weight ----------------------------------------------------------------


@inlined
def _own_momentum(y, low):
    """Π = Qᵀπ of (Q, π)."""
    pi = summed(y, low, 3)
    first = axpy(pi[1], summed(y, low, 1), scale(pi[0], summed(y, low, 0)))
    return axpy(pi[2], summed(y, low, 2), first)


@inlined
def _torque_in_space(h, y, low, p):
    """π += h Mℓ Γ₀ × QX"""
    impulse = h * p[3] * p[4]
    low[3, 0] = low[3, 0] + impulse * (y[1, 1] + low[1, 1])
    low[3, 1] = low[3, 1] - impulse * (y[0, 1] + low[0, 1])


@inlined
def _torque_in_body(h, y, low, p):
    """Π += h Mℓ Γ × X"""
    impulse = h * p[3]
    low[0, 0] = low[0, 0] - impulse * (y[1, 2] + low[1, 2])
    low[0, 2] = low[0, 2] + impulse * (y[1, 0] + low[1, 0])


@kernel(split_flow)
def cotangent_flow(piece, t, h, y, low, p):
    """The flows of the free body, which moves Q alone, and of the weight."""
    if piece == 0:
        middle = int(p[5])
        rotation, _ = free_rotation(_own_momentum(y, low), p, middle, h)
        turn_rows(y, low, 0, 3, middle, rotation)
    else:
        _torque_in_space(h, y, low, p)


@kernel(split_flow)
def symmetric_cotangent_flow(piece, t, h, y, low, p):
    """The same of a symmetric body."""
    if piece == 0:
        middle = int(p[5])
        rotation, _ = symmetric_rotation(_own_momentum(y, low), p, middle, h)
        turn_rows(y, low, 0, 3, middle, rotation)
    else:
        _torque_in_space(h, y, low, p)


@kernel(split_flow)
def body_flow(piece, t, h, y, low, p):
    """The flows of the free body and of the weight on (Π, Γ)."""
    if piece == 0:
        middle = int(p[5])
        rotation, gained = free_rotation(summed(y, low, 0), p, middle, h)
        for k in range(3):
            axis = (middle + 2 + k) % 3
            low[0, axis] = low[0, axis] + gained[k]
        turn_rows(y, low, 1, 2, middle, rotation)
    else:
        _torque_in_body(h, y, low, p)


@kernel(split_flow)
def symmetric_body_flow(piece, t, h, y, low, p):
    """The same of a symmetric body."""
    if piece == 0:
        middle = int(p[5])
        rotation, of_momentum = symmetric_rotation(summed(y, low, 0), p, middle, h)
        turn_rows(y, low, 0, 1, middle, of_momentum)
        turn_rows(y, low, 1, 2, middle, rotation)
    else:
        _torque_in_body(h, y, low, p)


# By the formulation, and whether the body is symmetric.
SPLIT = {
    ("cotangent", False): SplitFlow(cotangent_flow, pieces=2, varying=(3,)),
    ("cotangent", True): SplitFlow(symmetric_cotangent_flow, pieces=2, varying=(3,)),
    ("lie_poisson", False): SplitFlow(body_flow, pieces=2, varying=(0,)),
    ("lie_poisson", True): SplitFlow(symmetric_body_flow, pieces=2, varying=(0,)),
}


# --- observables of the attitude -----------------------------------------------------------------


@kernel()
def axis(t, y, p, out, work):
    """QX"""
    put(out, 0, (y[0, 1], y[1, 1], y[2, 1]))


@kernel()
def gravity_in_body(t, y, p, out, work):
    """Q⁻¹Γ₀"""
    put(out, 0, scale(-p[4], get(y, 2)))


@functools.cache
def momenta_kernel(row: int) -> Kernel:
    """(π·QX, 0, π·e3) of a state with π in some row: the momenta about X and about the vertical."""

    def momenta(t, y, p, out, work):
        pi = get(y, row)
        out[0, 0] = y[0, 1] * pi[0] + y[1, 1] * pi[1] + y[2, 1] * pi[2]
        out[0, 1] = 0.0 * pi[1]
        out[0, 2] = pi[2]

    return Kernel(momenta, whole_state, (row,))


# --- the system ----------------------------------------------------------------------------------

MOMENTUM: dict[str, Any] = {"error": "angular_momentum_error", "units": "kg m2 s-1"}
ATTITUDE = Part("Q", "rotation", axis=AXIS)
SPATIAL = Part("pi", "vector", turns=True, **MOMENTUM)
PARTS = {
    "cotangent": checked_parts(ATTITUDE, SPATIAL),
    "lie_poisson": checked_parts(
        Part("Pi", "vector", **MOMENTUM),
        Part("Gamma", "vector", error="gravity_error", units="m s-2"),
    ),
    "quadratic": checked_parts(ATTITUDE, Part("q", "vector"), SPATIAL, Part("p", "vector")),
}


def _celledoni_start(system: "HeavyTop") -> np.ndarray:
    """Section 3.4.4: a fast spin about the axis, a little beside it."""
    turning = system.arithmetic.array([0.0, 150.0, -4.61538])
    return system.state_of(np.eye(3), np.array(system.moments) * turning)


@dataclass(frozen=True)
class HeavyTop(RigidSystem):
    """A heavy top.

    Parameters
    ----------
    mass : float
        Mass M of the body, kg.
    length : float
        Distance ℓ from the fixed point to the centre of mass, m.
    inertia : {"printed", "fixed_point"} or tuple of float
        Principal moments of the inertia tensor I, kg m². "printed": those that the paper prints;
        "fixed_point": the same with Mℓ² added to the two moments across the axis X; or three
        numbers.
    gravity : float
        Gravitational acceleration g, m s⁻²; a positive one acts along +e3.
    formulation : {"cotangent", "lie_poisson", "quadratic"}
        State variables. "cotangent": attitude Q and spatial momentum π, on T*SO(3);
        "lie_poisson": body momentum Π (kg m² s⁻¹) and gravity Γ in the body (m s⁻²), on se(3)*;
        "quadratic": (Q, q, π, p) on T*(SO(3) × R³), with a Hamiltonian quadratic in (Π, p − Q⁻¹Γ₀).

    Raises
    ------
    InputError
        If a value has the wrong type or sign, or is unknown; for moments that no body has.
    """

    mass: float = 15.0
    length: float = 2.0
    inertia: str | tuple[float, ...] = "printed"
    gravity: float = 9.81
    formulation: str = "cotangent"

    name = "heavy_top"
    sources = ("celledoni2022",)
    description = "heavy top: a rigid body with a fixed point under gravity"
    units = {"energy": "J", "momentum": "kg m2 s-1", "time": "s"}
    convergence = Convergence(duration=0.04, longest_step=0.005, shortest_step=1e-05)
    parameter_units = {
        "mass": "kg",
        "length": "m",
        "inertia": "kg m2",
        "gravity": "m s-2",
        "formulation": "1",
    }
    named_starts = (
        Start("celledoni", "section 3.4.4 of Celledoni et al.: fast spin", _celledoni_start),
    )

    def __post_init__(self) -> None:
        check_known("formulation", self.formulation, FORMULATIONS, key="formulation")
        if isinstance(self.inertia, str):
            check_known("inertia", self.inertia, INERTIAS, key="inertia")
        elif not is_list(self.inertia):
            raise InputError(
                f"inertia = {short_repr(self.inertia)}; expected 'printed', 'fixed_point' or three "
                "moments",
                key="inertia",
            )
        else:
            set_checked(self, inertia=body_moments("inertia", self.inertia))
        set_checked(
            self,
            mass=check_number("mass", self.mass, above=0.0),
            length=check_number("length", self.length, above=0.0),
            gravity=check_number("gravity", self.gravity),
        )

    @property
    def in_words(self) -> str:
        """The name and the formulation, for messages."""
        return f"{self.name!r} with formulation = {self.formulation!r}"

    @property
    def moments(self) -> tuple[float, ...]:
        """The principal moments of inertia."""
        if not isinstance(self.inertia, str):
            return self.inertia
        across = self.mass * self.length**2 if self.inertia == "fixed_point" else 0.0
        printed = map(self.arithmetic.number, PRINTED)
        return tuple(i + across * (x == 0.0) for i, x in zip(printed, AXIS, strict=True))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Where the moments across X are less than Mℓ², as the printed ones are."""
        least = self.mass * self.length**2
        across = min(i for i, x in zip(self.moments, AXIS, strict=True) if x == 0.0)
        if across >= least * (1.0 - ROUND_OFF):
            return ()
        return (
            f"inertia = {short_repr(self.moments)} is not that about the fixed point, where no "
            f"moment across X is less than Mℓ² = {least:g}; inertia = 'fixed_point' adds Mℓ² to "
            "the printed ones",
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of a state, as the formulation has them."""
        return PARTS[self.formulation]

    @cached_property
    def form(self) -> CotangentHamiltonian | LiePoissonHamiltonian:
        """A `CotangentHamiltonian`, or a `LiePoissonHamiltonian` on se(3)*."""
        own = np.array(
            [
                *(1.0 / np.array(self.moments)), self.mass * self.length, self.gravity,
                middle_axis(self.moments),
            ]
        )  # fmt: skip
        split = SPLIT.get((self.formulation, bool(symmetry_axes(self.moments))))
        if self.formulation == "lie_poisson":
            return LiePoissonHamiltonian(body_hamiltonian, body_gradient, own, split)
        if self.formulation == "cotangent":
            return CotangentHamiltonian(
                "SO(3)", cotangent_hamiltonian, cotangent_derivatives, own, split
            )
        return CotangentHamiltonian("SO(3) x R3", quadratic_hamiltonian, quadratic_derivatives, own)

    def state_of(self, attitude: np.ndarray, momentum: np.ndarray) -> np.ndarray:
        """The state, shape (rows, 3), of an attitude Q and a momentum π in space."""
        attitude, momentum = to_numbers(attitude), to_numbers(momentum)
        if self.formulation == "lie_poisson":
            return np.stack([momentum @ attitude, -self.gravity * attitude[2]])
        if self.formulation == "cotangent":
            return np.vstack([attitude, momentum])
        push = -self.mass * self.length * np.array(AXIS)
        return np.vstack([attitude, np.zeros(3), momentum, push])

    def normalized(self, state: np.ndarray) -> np.ndarray:
        """`state` brought to the manifold; on se(3)* Γ as long as the gravity."""
        state = super().normalized(state)
        size = np.linalg.norm(state[1])
        if self.formulation == "lie_poisson" and size > 0.0:
            state[1] *= abs(self.gravity) / size
        return state

    def _check_manifold(self, state: np.ndarray) -> None:
        super()._check_manifold(state)
        if self.formulation != "lie_poisson":
            return
        size, expected = np.linalg.norm(state[1]), abs(self.gravity)
        if abs(size - expected) > ON_MANIFOLD * max(expected, 1.0):
            raise InputError(
                f"Gamma = {short_repr(state[1].tolist())} has the length {size:.10g}; expected "
                f"{expected:g}, the gravity, since Γ = Q⁻¹Γ₀. Give gravity = {size:.10g}, another "
                "Gamma, or normalize = true",
                key="Gamma",
            )

    def _draw_member(self, seed: int, member: int) -> np.ndarray:
        """Attitudes uniform, angular velocities in the body Gaussian of 1 rad/s."""
        generator = ensembles.generator(seed, member)
        attitude = rotation_matrices.uniform(generator)
        return self.state_of(attitude, attitude @ (self.moments * generator.standard_normal(3)))

    def _draw_member_near(
        self, centre: np.ndarray, spread: float, seed: int, member: int
    ) -> np.ndarray:
        """As of every rigid system, but p, which belongs to the body, stays; and so does |Γ|."""
        near, centre = super()._draw_member_near(centre, spread, seed, member), np.asarray(centre)
        if self.formulation == "quadratic":
            near[5] = centre[5]
        elif self.formulation == "lie_poisson" and np.any(centre[1]):
            size = np.linalg.norm(centre[1])
            down, push = centre[1] / size, (near[1] - centre[1]) / size
            near[1] = size * ensembles.geodesic(down, push - (push @ down) * down)
        return near

    def _turn_body(self, state: np.ndarray, body: int, direction: np.ndarray) -> np.ndarray:
        """The axis QX turned, π with it; on se(3)*, which has no attitude, Γ."""
        if self.formulation != "lie_poisson":
            return super()._turn_body(state, body, direction)
        return np.stack([state[0], np.linalg.norm(state[1]) * direction])

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, momenta about axes of symmetry, Casimirs, orthogonality, axis and gravity."""
        form, energy = self.form, self.units["energy"]
        if self.formulation == "lie_poisson":
            return (
                Quantity("energy", "energy", energy, "total energy", form.energy),
                Quantity("squared_gravity", "casimir", "m2 s-4", "|Γ|²", squared_gravity,
                         degree="quadratic"),
                Quantity("momentum_along_gravity", "casimir", "kg m3 s-3", "Π·Γ",
                         momentum_along_gravity, degree="quadratic"),
                *self._axial_momentum(body_momentum, 1, "linear"),
                _vector_observable("gravity_in_body", "m s-2", "gravity Γ as the body sees it",
                                   body_gravity),
            )  # fmt: skip
        momenta = momenta_kernel(cast(CotangentHamiltonian, form).momentum_row)
        text = "total energy" if self.formulation == "cotangent" else "total energy + ½ M²ℓ²"
        return (
            Quantity("energy", "energy", energy, text, form.energy),
            Quantity("momentum", "momentum_map", self.units["momentum"],
                     "vertical angular momentum", momenta, columns=(2,), degree="linear"),
            *self._axial_momentum(momenta, 0, "quadratic"),
            *self.constraints,
            _vector_observable("axis", "1", "direction QX of the centre of mass", axis),
            _vector_observable("gravity_in_body", "m s-2", "gravity Q⁻¹Γ₀ as the body sees it",
                               gravity_in_body),
        )  # fmt: skip

    def _axial_momentum(self, kernel: Kernel, column: int, degree: str) -> tuple[Quantity, ...]:
        """The momentum about X, where the body is symmetric about it."""
        if self.moments[0] != self.moments[2]:
            return ()
        text = "angular momentum about the body's axis X"
        return (
            Quantity(
                "axial_momentum", "momentum_map", self.units["momentum"], text, kernel,
                columns=(column,), degree=degree,
            ),
        )  # fmt: skip


def _vector_observable(name: str, units: str, text: str, kernel: Kernel) -> Quantity:
    """An observable with three components."""
    return Quantity(name, "observable", units, text, kernel, ("x", "y", "z"), (0, 1, 2))
