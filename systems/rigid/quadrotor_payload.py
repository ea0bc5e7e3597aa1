"""Two quadrotors that carry a point mass by rigid links, under selectable controls.

The load is at y, its velocity is v = ẏ, and quadrotor i, of attitude R_i and body rate Ω_i, is at
y_i = y − L_i q_i: q_i points from it to the load. e3 points down. With ẏ_i = v − L_i ω_i × q_i

    T = ½ m_y |v|² + ½ Σ (m_i |ẏ_i|² + Ω_i·J_i Ω_i),   U = −m_y g e3·y − Σ m_i g e3·y_i,

L = T − U, with Ṙ_i = R_i Ω̂_i and q̇_i = ω_i × q_i, ω_i in the inertial frame. The forces u_i of the
rotors act on the quadrotors, and their moments M_i. The equations of motion (37) are

    M_q (v̇ − g e3) = Σ (u_i∥ − m_i L_i |ω_i|² q_i),   M_q = m_y 1 + Σ m_i q_i q_i⊤,
    J_i Ω̇_i = M_i − Ω_i × J_i Ω_i,
    L_i ω̇_i = q_i × (v̇ − g e3 − u_i⊥/m_i),

u_i∥ and u_i⊥ along q_i and orthogonal to it. T + U − W is constant, with the work W of the forces,
Ẇ = Σ (u_i·ẏ_i + M_i·Ω_i). The controls are

- ``tracking``: u_i of the controller below, of any direction, and M_i = 0, the paper's simplified
  dynamics; no longer than ``most_thrust``;
- ``attitude``: u_i = −T_i R_i e3 as it is in section 6, T_i the part of the controller's u_i along
  −R_i e3, from 0 to ``most_thrust``, and moments that turn −R_i e3 to it,
  M_i = k_R e3 × c_i − k_Ω Ω_i + Ω_i × J_i Ω_i with c_i = −R_i⊤u_i/|u_i|;
- ``constant``: u_i = −T_i R_i e3 with constant T_i and M_i in the body;
- ``none``: none of both. Then T + U is constant, and momenta as far as gravity is none.

One of your own is a kernel in `controls` of a subclass, see `sweep guide force`. Where a thrust
meets its bound the equations have a kink, at which methods lose their order.

The controller of Lee, Sreenath and Kumar is to keep
the load on y_d(t) = c_1 t + c_2 t² and the links in directions q_id. With the force F on the load,
q_id and ω_id = q_id × q̇_id of `formation_control`, and ω̇_id neglected,

    μ_i = −|F|/(2 cos β) (q_i·q_id) q_i,   a = Σ μ_i/m_y,
    u_i∥ = μ_i + m_i L_i |ω_i|² q_i + m_i (q_i·a) q_i,
    u_i⊥ = m_i L_i q_i × X_i − m_i q_i × (q_i × a),
    X_i = −k_q q_id × q_i − k_ω (ω_i + q_i × (q_i × ω_id)) − (q_i·ω_id) ω_i × q_i.

Under ``tracking`` without a bound v̇ = a + g e3 and ω̇_i = X_i − (q_i·X_i) q_i: masses and lengths
cancel from the motion, but not from u_i = μ_i + m_i (ÿ_i − g e3) and its work. Where F is 0 or
along e1 there is no q_id: such a start is refused.

The group is R³ × R³ × (SO(3) × R³)² × SE(3)² of section 6.1, but that Ω_i turns R_i from the right
where the paper lets R_iΩ_i do so from the left. RKMK methods take the same steps by both, without
the product R_iΩ_i; commutator-free ones take others, of the same order.

Units: kg, m, s, rad. Source: Celledoni, Çokaj, Leone, Murari, Owren, *Lie group integrators for
mechanical systems*, section 6, which leaves the controller to *Geometric control of cooperating
multiple quadrotor UAVs with a suspended payload* (2013).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from integrators.compiler.kernels import Kernel, inlined, kernel
from integrators.compiler.vectors import add, axpy, cross, dot, get, put, scale
from integrators.errors import InputError, check_known, check_number, short_repr
from integrators.forms.flows import HomogeneousFlow
from integrators.forms.spheres import work_done
from integrators.lie_groups.actions import product
from integrators.lie_groups.factors import RIGHT_ROTATION, TANGENT_SPHERE, TRANSLATION
from systems.base import Convergence, Quantity, Start
from systems.checking import (
    Each,
    PerBody,
    Vectors,
    body_moments,
    is_list,
    number_vector,
    positive_vector,
    set_checked,
)
from systems.rigid.base import Part, RigidSystem, checked_parts
from systems.rigid.formation_control import (
    GRAVITY,
    Q1,
    Q2,
    V,
    Y,
    desired_position,
    deviation,
    link_deviations,
    load_position,
    tracking_distance,
    wanted_directions,
)
from systems.rigid.quadrotor_forces import (
    INERTIA,
    LENGTH,
    LOAD,
    MASS,
    OMEGA1,
    OMEGA2,
    R1,
    W1,
    W2,
    WORK,
    attitude,
    closed_loop,
    constant,
    force_in_closed_loop,
    free_motion,
    free_turn,
    motion_kernel,
    row_kernel,
    tracking,
    velocity,
)

FACTORS = (
    TRANSLATION, TRANSLATION, RIGHT_ROTATION, TRANSLATION, RIGHT_ROTATION, TRANSLATION,
    TANGENT_SPHERE, TANGENT_SPHERE,
)  # fmt: skip
UNBOUNDED = "unbounded"  # greatest thrust


@kernel()
def generator(t, y, p, out, work):
    """f(P) of section 6.1 in closed loop, and the power of the forces."""
    v, q_1, w_1, q_2, w_2 = get(y, V), get(y, Q1), get(y, W1), get(y, Q2), get(y, W2)
    spin_1, spin_2 = get(y, OMEGA1), get(y, OMEGA2)
    a, pulls, pushed = closed_loop(t, y, p)
    put(out, 0, v)
    put(out, 1, (a[0], a[1], a[2] + p[GRAVITY]))
    put(out, 2, spin_1)
    put(out, 3, free_turn(0, spin_1, p))
    put(out, 4, spin_2)
    put(out, 5, free_turn(1, spin_2, p))
    put(out, 6, w_1)
    put(out, 7, pushed[0])
    put(out, 8, w_2)
    put(out, 9, pushed[1])
    u_1 = force_in_closed_loop(0, pulls[0], a, pushed[0], q_1, w_1, p)
    u_2 = force_in_closed_loop(1, pulls[1], a, pushed[1], q_2, w_2, p)
    power = dot(u_1, velocity(v, q_1, w_1, p[LENGTH]))
    power = power + dot(u_2, velocity(v, q_2, w_2, p[LENGTH + 1]))
    put(out, 10, (power, 0.0, 0.0))


# --- quantities ---------------------------------------------------------------------------------


@inlined
def _energy(y, p):
    """T + U."""
    v = get(y, V)
    load, g = p[LOAD], p[GRAVITY]
    total = 0.5 * load * dot(v, v) - load * g * y[Y, 2]
    for i in range(2):
        q, spin, j = get(y, Q1 + 2 * i), get(y, OMEGA1 + 4 * i), INERTIA + 3 * i
        mass, length = p[MASS + i], p[LENGTH + i]
        own = velocity(v, q, get(y, W1 + 2 * i), length)
        turning = p[j] * spin[0] * spin[0] + p[j + 1] * spin[1] * spin[1]
        turning = turning + p[j + 2] * spin[2] * spin[2]
        depth = y[Y, 2] - length * q[2]
        total = total + (0.5 * (mass * dot(own, own) + turning) - mass * g * depth)
    return total


@kernel()
def energy(t, y, p, out, work):
    """T + U, into ``out[0, 0]``."""
    out[0, 0] = _energy(y, p)


@kernel()
def energy_balance(t, y, p, out, work):
    """T + U − W, into ``out[0, 0]``."""
    out[0, 0] = _energy(y, p) - y[WORK, 0]


@kernel()
def linear_momentum(t, y, p, out, work):
    """m_y v + Σ m_i ẏ_i"""
    v = get(y, V)
    total = scale(p[LOAD], v)
    for i in range(2):
        own = velocity(v, get(y, Q1 + 2 * i), get(y, W1 + 2 * i), p[LENGTH + i])
        total = axpy(p[MASS + i], own, total)
    put(out, 0, total)


@kernel()
def angular_momentum(t, y, p, out, work):
    """m_y y × v + Σ (m_i y_i × ẏ_i + R_i J_i Ω_i)"""
    place, v = get(y, Y), get(y, V)
    total = scale(p[LOAD], cross(place, v))
    for i in range(2):
        q, row, j = get(y, Q1 + 2 * i), R1 + 4 * i, INERTIA + 3 * i
        own = velocity(v, q, get(y, W1 + 2 * i), p[LENGTH + i])
        total = axpy(p[MASS + i], cross(axpy(-p[LENGTH + i], q, place), own), total)
        spin = get(y, row + 3)
        turning = p[j] * spin[0], p[j + 1] * spin[1], p[j + 2] * spin[2]
        first, second, third = get(y, row), get(y, row + 1), get(y, row + 2)
        total = add(total, (dot(first, turning), dot(second, turning), dot(third, turning)))
    put(out, 0, total)


def _vector_observable(name: str, units: str, text: str, function: Kernel) -> Quantity:
    return Quantity(name, "observable", units, text, function, tuple("xyz"), (0, 1, 2))


ENERGIES = (
    Quantity("energy", "observable", "J", "total energy", energy),
    Quantity("work", "observable", "J", "work of the forces since time 0", work_done),
    Quantity("energy_balance", "energy", "J", "energy less the work of the forces",
             energy_balance),
)  # fmt: skip
PATH = (
    Quantity("tracking_distance", "observable", "m", "distance of the load from its path",
             tracking_distance),
    _vector_observable("deviation", "m", "deviation of the load from its path", deviation),
    _vector_observable("load_position", "m", "position of the load", load_position),
    _vector_observable("desired_position", "m", "desired position of the load", desired_position),
)  # fmt: skip
LINKS = (
    Quantity("link_deviation_1", "observable", "1", "direction error |q1 − q1d| of link 1",
             link_deviations),
    Quantity("link_deviation_2", "observable", "1", "direction error |q2 − q2d| of link 2",
             link_deviations, columns=(1,)),
)  # fmt: skip


# --- the system ---------------------------------------------------------------------------------


def _celledoni_start(system: "QuadrotorPayload") -> np.ndarray:
    array = system.arithmetic.array
    q = array([[6.0, 2.0, 9.0], [-2.0, 1.0, 2.0]]) / array([[11.0], [3.0]])
    omega = np.cross(q, array([[0.2, -0.3, 0.1], [-0.1, 0.4, 0.3]]))
    place, spins = array([0.3, -0.2, 0.25]), array([[0.3, -0.2, 0.5], [-0.4, 0.1, 0.2]])
    return _upright_state(place, np.zeros(3), spins, q, omega)


def _on_path_start(system: "QuadrotorPayload") -> np.ndarray:
    return _upright_state(
        np.zeros(3), system.path_linear, np.zeros((2, 3)),
        system.wanted_directions(np.zeros(3), system.path_linear), np.zeros((2, 3)),
    )  # fmt: skip


def _upright_state(
    y: np.ndarray | Sequence[float],
    v: np.ndarray | Sequence[float],
    spins: np.ndarray,
    q: np.ndarray,
    omega: np.ndarray,
) -> np.ndarray:
    """A state with R_i = 1, without its row for the work; shape (14, 3)."""
    one = np.eye(3)
    bodies = [*one, spins[0], *one, spins[1]]
    return np.array([y, v, *bodies, q[0], omega[0], q[1], omega[1]])


@dataclass(frozen=True)
class QuadrotorPayload(RigidSystem):
    """Two quadrotors that carry a point mass.

    Parameters
    ----------
    payload_mass : float
        Mass m_y of the load, kg.
    mass, length : float or tuple of float
        Masses m_i of the quadrotors, kg, and lengths L_i of the links, m; one number holds for
        both.
    inertia : tuple of float, or of two such tuples
        Principal moments of inertia J_i of the quadrotors, kg m²; three numbers hold for both.
    control : {"tracking", "attitude", "constant", "none"}
        Law for the rotor forces u_i (N) and moments M_i (N m). "tracking": forces of any direction
        that lead the load along the desired path, without moments; "attitude": thrusts along the
        axes of the bodies, and moments that turn the bodies; "constant": constant `thrust` and
        `moment` in the body; "none": no forces and no moments.
    most_thrust : float or "unbounded"
        Upper bound of |u_i| under "tracking", and of the thrust T_i under "attitude", N.
    gravity : float
        Gravitational acceleration g along +e3, m s⁻².
    position_gain, velocity_gain : float
        Gains k_y, s⁻², and k_v, s⁻¹, of the force on the load, for its errors of position and
        velocity; ≥ 0.
    direction_gain, rate_gain : float
        Gains k_q, s⁻², and k_ω, s⁻¹, for the errors of direction and angular velocity of the
        links; ≥ 0.
    formation_angle : float
        Angle β between the links and the force on the load, rad, between −π/2 and π/2.
    path_linear, path_quadratic : tuple of float
        Coefficients c_1, m s⁻¹, and c_2, m s⁻², of the desired path y_d = c_1 t + c_2 t².
    attitude_gain, spin_gain : float
        Gains k_R, N m, and k_Ω, N m s, of the moments under "attitude"; ≥ 0.
    thrust : float or tuple of float
        Thrusts T_i under "constant", N; one number holds for both quadrotors.
    moment : tuple of float, or of two such tuples
        Moments M_i in the body under "constant", N m; three numbers hold for both quadrotors.
    control_values : tuple of float
        Parameters of a user-defined control, in units of its own.

    Raises
    ------
    InputError
        If a value has the wrong type, sign or bounds, or a list the wrong length; for moments that
        no body has.
    """

    payload_mass: float = 1.0
    mass: PerBody = 0.755
    length: PerBody = 1.0
    inertia: Each | Vectors = (0.082, 0.0845, 0.1377)
    gravity: float = 9.81
    position_gain: float = 4.0
    velocity_gain: float = 4.0
    direction_gain: float = 100.0
    rate_gain: float = 20.0
    formation_angle: float = math.pi / 6
    path_linear: tuple[float, ...] = (0.5, 0.3, -0.5)
    path_quadratic: tuple[float, ...] = (0.0, 0.0, 0.1)
    control: str = "tracking"
    most_thrust: float | str = UNBOUNDED
    attitude_gain: float = 100.0
    spin_gain: float = 6.0
    thrust: PerBody = 12.0
    moment: Each | Vectors = (0.0, 0.0, 0.0)
    control_values: tuple[float, ...] = ()

    later = (
        "control",
        "most_thrust",
        "attitude_gain",
        "spin_gain",
        "thrust",
        "moment",
        "control_values",
    )
    controls = MappingProxyType(
        {"tracking": tracking, "attitude": attitude, "constant": constant, "none": None}
    )
    name = "quadrotor_payload"
    sources = ("celledoni2022", "lee2013")
    description = "two quadrotors that carry a point mass along a path"
    units = {"energy": "J", "momentum": "kg m2 s-1", "time": "s"}
    convergence = Convergence(duration=0.15, longest_step=0.05, shortest_step=7e-05)
    parameter_units = {
        "payload_mass": "kg",
        "mass": "kg",
        "length": "m",
        "inertia": "kg m2",
        "gravity": "m s-2",
        "position_gain": "s-2",
        "velocity_gain": "s-1",
        "direction_gain": "s-2",
        "rate_gain": "s-1",
        "formation_angle": "rad",
        "path_linear": "m s-1",
        "path_quadratic": "m s-2",
        "control": "1",
        "most_thrust": "N",
        "attitude_gain": "N m",
        "spin_gain": "N m s",
        "thrust": "N",
        "moment": "N m",
        "control_values": "1",
    }
    named_starts = (
        Start("celledoni", "the load off its path, links off their directions", _celledoni_start),
        Start("on_path", "on the path, where the motion stays for ever", _on_path_start),
    )
    parts = checked_parts(
        Part("y", "vector", body=2, error="load_position_error", units="m", size=0.5),
        Part("v", "vector", body=2, error="load_velocity_error", units="m s-1", size=0.5),
        Part("R1", "rotation", body=0),
        Part("Omega1", "vector", body=0, error="body_rate_error", units="rad s-1"),
        Part("R2", "rotation", body=1),
        Part("Omega2", "vector", body=1, error="body_rate_error", units="rad s-1"),
        Part("q1", "direction", body=0),
        Part("omega1", "tangent", body=0, units="rad s-1"),
        Part("q2", "direction", body=1),
        Part("omega2", "tangent", body=1, units="rad s-1"),
    )

    def __post_init__(self) -> None:
        motion = ("position_gain", "velocity_gain", "direction_gain", "rate_gain")
        gains = (*motion, "attitude_gain", "spin_gain")
        check_known("control", self.control, self.controls, key="control")
        paths = ("path_linear", "path_quadratic")
        set_checked(
            self,
            payload_mass=check_number("payload_mass", self.payload_mass, above=0.0),
            mass=positive_vector("mass", self.mass, 2),
            length=positive_vector("length", self.length, 2),
            inertia=_checked_for_both("inertia", self.inertia, "principal moments", body_moments),
            gravity=check_number("gravity", self.gravity),
            formation_angle=_checked_angle(self.formation_angle),
            most_thrust=_checked_bound(self.most_thrust),
            thrust=number_vector("thrust", self.thrust, 2),
            moment=_checked_for_both("moment", self.moment, "moments", _checked_vector),
            control_values=_checked_values(self.control_values),
            **{name: check_number(name, getattr(self, name), least=0.0) for name in gains},
            **{name: _checked_vector(name, getattr(self, name)) for name in paths},
        )

    @property
    def in_words(self) -> str:
        """The name and the control, for messages."""
        return f"{self.name!r} with control = {self.control!r}"

    @property
    def steered(self) -> bool:
        """Whether the forces are those of the controller, and it has directions for the links."""
        return self.controls[self.control] in (tracking, attitude)

    @cached_property
    def form(self) -> HomogeneousFlow:
        """The `HomogeneousFlow`; of 15 rows with the work, or of 14 without forces."""
        control = self.controls[self.control]
        closed = control is tracking and self.most_thrust == UNBOUNDED
        work = (TRANSLATION,) if control else ()
        forced = generator if closed else motion_kernel(control) if control else None
        return HomogeneousFlow(
            generator=forced or free_motion,
            action=product(*FACTORS, *work),
            energy=energy_balance if control else energy,
            parameters=self._packed,
            unit_rows=self.unit_rows,
            forced=control is not None,
        )

    @property
    def _packed(self) -> np.ndarray:
        of = self.arithmetic
        cosine, sine = of.cos(self.formation_angle), of.sin(self.formation_angle)
        gains = self.position_gain, self.velocity_gain, self.direction_gain, self.rate_gain
        ratios = [
            ((b - c) / a, (c - a) / b, (a - b) / c) for a, b, c in cast(Vectors, self.inertia)
        ]
        most = math.inf if self.most_thrust == UNBOUNDED else self.most_thrust
        return np.concatenate([
            [self.gravity, *gains, cosine, sine, 0.5 / cosine],
            self.path_linear, self.path_quadratic,
            [self.payload_mass], self.mass, self.length, *self.inertia, *ratios,
            [most, self.attitude_gain, self.spin_gain], self.thrust, *self.moment,
            self.control_values,
        ])  # fmt: skip

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, work and their balance, forces, errors of the controller, constraints."""
        control = self.controls[self.control]
        if control is None:
            return (*self._invariants, *PATH, *self.constraints)
        rotors = tuple(
            _vector_observable(f"{name}_{i + 1}", units, f"{text} of quadrotor {i + 1}", kernel)
            for i in range(2)
            for name, units, text, kernel in (
                ("force", "N", "force u", row_kernel(control, 2 * i)),
                ("moment", "N m", "moment M in the body", row_kernel(control, 2 * i + 1)),
            )
        )
        return (*ENERGIES, *PATH, *(LINKS if self.steered else ()), *rotors, *self.constraints)

    @property
    def _invariants(self) -> tuple[Quantity, ...]:
        """Energy and momenta without forces; gravity leaves what is orthogonal to it."""
        free = not self.gravity
        linear, angular = ("xyz", "xyz") if free else ("xy", "z")
        return (
            Quantity("energy", "energy", "J", "total energy", energy),
            Quantity("linear_momentum", "momentum_map", "kg m s-1", "total momentum",
                     linear_momentum, tuple(linear), tuple(range(len(linear)))),
            Quantity("momentum", "momentum_map", "kg m2 s-1", "total angular momentum",
                     angular_momentum, tuple(angular) if free else (),
                     (0, 1, 2) if free else (2,)),
        )  # fmt: skip

    def wanted_directions(
        self, y: np.ndarray | Sequence[float], v: np.ndarray | Sequence[float], t: float = 0.0
    ) -> np.ndarray:
        """The directions q_id in which the controller wants the links, shape (2, 3).

        Parameters
        ----------
        y, v : array_like, shape (3,)
            Position and velocity of the load.
        t : float, optional

        Raises
        ------
        InputError
            Where the force that the controller wants is zero or along e1.
        """
        return wanted_directions(t, y, v, self.form.packed)

    def check_state(self, state: Any) -> None:
        """Raise `InputError` unless `state` is one; also where the controller is singular."""
        super().check_state(state)
        if self.steered:
            self.wanted_directions(self.of(state, "y"), self.of(state, "v"))


def _checked_for_both(
    name: str, value: Any, what: str, checked: Callable[[str, Any], tuple[float, ...]]
) -> tuple[tuple[float, ...], ...]:
    """Three numbers of each quadrotor, from three for both or three for each."""
    both = value if is_list(value, 2) else (value, value)
    if not all(is_list(own, 3) for own in both):
        raise InputError(
            f"{name} = {short_repr(value)}; expected the three {what} of both quadrotors, or a "
            "list of three for each",
            key=name,
        )
    return tuple(checked(name, own) for own in both)


def _checked_bound(value: Any) -> float | str:
    if isinstance(value, str):
        check_known("most_thrust", value, (UNBOUNDED,), key="most_thrust")
        return value
    return check_number("most_thrust", value, above=0.0)


def _checked_values(value: Any) -> tuple[float, ...]:
    if not is_list(value):
        raise InputError(
            f"control_values = {short_repr(value)}; expected a list of numbers",
            key="control_values",
        )
    return number_vector("control_values", value, len(value))


def _checked_angle(value: Any) -> float:
    angle = check_number("formation_angle", value)
    if not abs(angle) < 0.5 * math.pi:
        raise InputError(
            f"formation_angle = {value!r}; expected an angle between −π/2 and π/2, in radians",
            key="formation_angle",
        )
    return angle


def _checked_vector(name: str, value: Any) -> tuple[float, ...]:
    if not is_list(value, 3):
        raise InputError(f"{name} = {short_repr(value)}; expected [x, y, z]", key=name)
    return number_vector(name, value, 3)
