"""Two quadrotors that carry a point mass by rigid links, steered by a controller.

The load is at y, its velocity is v = ẏ, and quadrotor i, of attitude R_i and body rate Ω_i, is at
y_i = y − L_i q_i: q_i points from it to the load. e3 points down. With ẏ_i = v − L_i ω_i × q_i

    T = ½ m_y |v|² + ½ Σ (m_i |ẏ_i|² + Ω_i·J_i Ω_i),   U = −m_y g e3·y − Σ m_i g e3·y_i,

L = T − U, with Ṙ_i = R_i Ω̂_i and q̇_i = ω_i × q_i, ω_i in the inertial frame. The forces u_i of the
rotors act on the quadrotors, their moments M_i are 0. The equations of motion (37) are

    M_q (v̇ − g e3) = Σ (u_i∥ − m_i L_i |ω_i|² q_i),   M_q = m_y 1 + Σ m_i q_i q_i⊤,
    J_i Ω̇_i = −Ω_i × J_i Ω_i,
    L_i ω̇_i = q_i × (v̇ − g e3 − u_i⊥/m_i),

u_i∥ and u_i⊥ along q_i and orthogonal to it. The controller of Lee, Sreenath and Kumar is to keep
the load on y_d(t) = c_1 t + c_2 t² and the links in directions q_id. With the force F on the load,
q_id and ω_id = q_id × q̇_id of `formation_control`, and ω̇_id neglected,

    μ_i = −|F|/(2 cos β) (q_i·q_id) q_i,   a = Σ μ_i/m_y,
    u_i∥ = μ_i + m_i L_i |ω_i|² q_i + m_i (q_i·a) q_i,
    u_i⊥ = m_i L_i q_i × X_i − m_i q_i × (q_i × a),
    X_i = −k_q q_id × q_i − k_ω (ω_i + q_i × (q_i × ω_id)) − (q_i·ω_id) ω_i × q_i.

In closed loop v̇ = a + g e3 and ω̇_i = X_i − (q_i·X_i) q_i: masses and lengths cancel from the
motion, but not from u_i = μ_i + m_i (ÿ_i − g e3) and its work W, Ẇ = Σ u_i·ẏ_i; T + U − W is
constant. Where F is 0 or along e1 there is no q_id: such a start is refused.

The group is R³ × R³ × (SO(3) × R³)² × SE(3)² of section 6.1, but that Ω_i turns R_i from the right
where the paper lets R_iΩ_i do so from the left. RKMK methods take the same steps by both, without
the product R_iΩ_i; commutator-free ones take others, of the same order.

Units: kg, m, s, rad. Source: Celledoni, Çokaj, Leone, Murari, Owren, *Lie group integrators for
mechanical systems*, section 6, which leaves the controller to *Geometric control of cooperating
multiple quadrotor UAVs with a suspended payload* (2013).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from integrators.compiler.kernels import inlined, kernel
from integrators.compiler.vectors import axpy, cross, dot, get, put, scale, sub
from integrators.errors import InputError, check_number, shown
from integrators.forms.flows import HomogeneousFlow
from integrators.forms.spheres import work_done
from integrators.lie_groups.actions import product
from integrators.lie_groups.factors import RIGHT_ROTATION, TANGENT_SPHERE, TRANSLATION
from systems.base import Convergence, Quantity, Start
from systems.checking import is_list, number_vector, positive_vector, set_checked
from systems.rigid.base import Part, RigidSystem, checked_parts
from systems.rigid.formation_control import (
    GRAVITY,
    HALF_SECANT,
    K_Q,
    K_W,
    Q1,
    Q2,
    V,
    Y,
    desired_position,
    deviation,
    force_rate,
    lag,
    link_deviations,
    load_position,
    polar,
    polar_rates,
    tracking_distance,
    wanted_angles,
    wanted_direction,
    wanted_directions,
    wanted_force,
    wanted_rate,
)

OMEGA1, OMEGA2, W1, W2, WORK = 5, 9, 11, 13, 14  # rows of a state, besides its
# The parameters after those of the controller: m_y, m_i, L_i, J_i and (J_2 − J_3)/J_1, … of each.
LOAD, MASS, LENGTH, INERTIA, RATIOS = 14, 15, 17, 19, 25

ACTION = product(
    TRANSLATION, TRANSLATION, RIGHT_ROTATION, TRANSLATION, RIGHT_ROTATION, TRANSLATION,
    TANGENT_SPHERE, TANGENT_SPHERE, TRANSLATION,
)  # fmt: skip


@inlined
def _link(aim, along, turn, q, omega, p):
    """q_i × X_i, which is q_i × ω̇_i, where |q_i| = 1 and q_i·ω_i = 0; `along` is q_i·q_id."""
    ahead = cross(q, sub(omega, turn))
    lagging = axpy(-along, q, aim)  # q × (q_id × q)
    return axpy(-dot(q, turn), omega, axpy(-p[K_W], ahead, scale(-p[K_Q], lagging)))


@inlined
def _velocity(v, q, omega, length):
    """ẏ_i = v − L_i ω_i × q_i."""
    return axpy(-length, cross(omega, q), v)


@inlined
def _power(i, pull, a, pushed, v, q, omega, p):
    """u_i·ẏ_i of u_i = μ_i + m_i (a + L_i (|ω_i|² q_i + q_i × ω̇_i)), μ_i = m_y `pull` q_i."""
    mass, length = p[MASS + i], p[LENGTH + i]
    along = p[LOAD] * pull + mass * length * dot(omega, omega)
    force = axpy(along, q, scale(mass, axpy(length, pushed, a)))
    return dot(force, _velocity(v, q, omega, length))


@inlined
def _body(i, spin, p):
    """Ω̇_i = −J_i⁻¹ (Ω_i × J_i Ω_i)."""
    ratio, x, y, z = RATIOS + 3 * i, spin[0], spin[1], spin[2]
    return p[ratio] * y * z, p[ratio + 1] * z * x, p[ratio + 2] * x * y


@kernel()
def generator(t, y, p, out, work):
    """f(P) of section 6.1, and the power of the forces."""
    e, rate = lag(t, y, p)
    v, q_1, w_1, q_2, w_2 = get(y, V), get(y, Q1), get(y, W1), get(y, Q2), get(y, W2)
    spin_1, spin_2 = get(y, OMEGA1), get(y, OMEGA2)
    f, inverses = polar(wanted_force(e, rate, p))
    c_1, c_2 = wanted_angles(f, p)
    aim_1, aim_2 = wanted_direction(c_1, f), wanted_direction(c_2, f)
    along_1, along_2 = dot(q_1, aim_1), dot(q_2, aim_2)
    share = -f[0] * p[HALF_SECANT]
    pull_1, pull_2 = share * along_1, share * along_2
    a = axpy(pull_1, q_1, scale(pull_2, q_2))
    fall = a[0], a[1], a[2] + p[GRAVITY]  # v̇
    theta, phi = polar_rates(f, inverses, force_rate(rate, fall, p))
    pushed_1 = _link(aim_1, along_1, wanted_rate(c_1, f, theta, phi), q_1, w_1, p)
    pushed_2 = _link(aim_2, along_2, wanted_rate(c_2, f, theta, phi), q_2, w_2, p)
    put(out, 0, v)
    put(out, 1, fall)
    put(out, 2, spin_1)
    put(out, 3, _body(0, spin_1, p))
    put(out, 4, spin_2)
    put(out, 5, _body(1, spin_2, p))
    put(out, 6, w_1)
    put(out, 7, pushed_1)
    put(out, 8, w_2)
    put(out, 9, pushed_2)
    power = _power(0, pull_1, a, pushed_1, v, q_1, w_1, p)
    power = power + _power(1, pull_2, a, pushed_2, v, q_2, w_2, p)
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
        own = _velocity(v, q, get(y, W1 + 2 * i), length)
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


_BALANCE = "energy less the work of the forces"
_WORK = "work of the forces since time 0"
QUANTITIES = (
    Quantity("energy", "observable", "J", "total energy", energy),
    Quantity("work", "observable", "J", _WORK, work_done),
    Quantity("energy_balance", "energy", "J", _BALANCE, energy_balance),
    Quantity("tracking_distance", "observable", "m", "distance of the load from its path",
             tracking_distance),
    Quantity("deviation", "observable", "m", "deviation of the load from its path", deviation,
             tuple("xyz"), (0, 1, 2)),
    Quantity("load_position", "observable", "m", "position of the load", load_position,
             tuple("xyz"), (0, 1, 2)),
    Quantity("desired_position", "observable", "m", "desired position of the load",
             desired_position, tuple("xyz"), (0, 1, 2)),
    Quantity("link_deviation_1", "observable", "1", "direction error |q1 − q1d| of link 1",
             link_deviations),
    Quantity("link_deviation_2", "observable", "1", "direction error |q2 − q2d| of link 2",
             link_deviations, columns=(1,)),
)  # fmt: skip


# --- the system ---------------------------------------------------------------------------------


def _celledoni(system):
    q = np.array([[6.0, 2.0, 9.0], [-2.0, 1.0, 2.0]]) / [[11.0], [3.0]]
    omega = np.cross(q, [[0.2, -0.3, 0.1], [-0.1, 0.4, 0.3]])
    place, spins = [0.3, -0.2, 0.25], [[0.3, -0.2, 0.5], [-0.4, 0.1, 0.2]]
    return _state(place, np.zeros(3), spins, q, omega)


def _on_path(system):
    return _state(
        np.zeros(3), system.path_linear, np.zeros((2, 3)),
        system.wanted_directions(np.zeros(3), system.path_linear), np.zeros((2, 3)),
    )  # fmt: skip


def _state(y, v, spins, q, omega):
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
        m_y, kg.
    mass, length : float or tuple of float
        m_i of the quadrotors, kg, and L_i of the links, m; a number is for both.
    inertia : tuple of float, or of two such tuples
        The principal moments J_i of the quadrotors, kg m²; three numbers are for both.
    gravity : float
        g along +e3, m s⁻².
    position_gain, velocity_gain : float
        k_y, s⁻², and k_v, s⁻¹, of the force on the load; ≥ 0.
    direction_gain, rate_gain : float
        k_q, s⁻², and k_ω, s⁻¹, of the links; ≥ 0.
    formation_angle : float
        β, of the links from the force, radians, between −π/2 and π/2.
    path_linear, path_quadratic : tuple of float
        c_1, m s⁻¹, and c_2, m s⁻², of the desired path y_d = c_1 t + c_2 t².

    Raises
    ------
    InputError
        If a value has the wrong type, sign or bounds, or a list the wrong length.
    """

    payload_mass: float = 1.0
    mass: float | tuple = 0.755
    length: float | tuple = 1.0
    inertia: tuple = (0.082, 0.0845, 0.1377)
    gravity: float = 9.81
    position_gain: float = 4.0
    velocity_gain: float = 4.0
    direction_gain: float = 100.0
    rate_gain: float = 20.0
    formation_angle: float = math.pi / 6
    path_linear: tuple = (0.5, 0.3, -0.5)
    path_quadratic: tuple = (0.0, 0.0, 0.1)

    name = "quadrotor_payload"
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
    }
    named_starts = (
        Start("celledoni", "the load off its path, links off their directions", _celledoni),
        Start("on_path", "on the path, where the motion stays for ever", _on_path),
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

    def __post_init__(self):
        gains = ("position_gain", "velocity_gain", "direction_gain", "rate_gain")
        paths = ("path_linear", "path_quadratic")
        set_checked(
            self,
            payload_mass=check_number("payload_mass", self.payload_mass, above=0.0),
            mass=positive_vector("mass", self.mass, 2),
            length=positive_vector("length", self.length, 2),
            inertia=_inertias(self.inertia),
            gravity=check_number("gravity", self.gravity),
            formation_angle=_checked_angle(self.formation_angle),
            **{name: check_number(name, getattr(self, name), least=0.0) for name in gains},
            **{name: _vector(name, getattr(self, name)) for name in paths},
        )

    @cached_property
    def form(self):
        """The `HomogeneousFlow`, of 15 rows with the work."""
        return HomogeneousFlow(
            generator=generator,
            action=ACTION,
            energy=energy_balance,
            parameters=self._packed,
            unit_rows=self.unit_rows,
            forced=True,
        )

    @property
    def _packed(self):
        cosine, sine = math.cos(self.formation_angle), math.sin(self.formation_angle)
        gains = self.position_gain, self.velocity_gain, self.direction_gain, self.rate_gain
        ratios = [((b - c) / a, (c - a) / b, (a - b) / c) for a, b, c in self.inertia]
        return np.concatenate([
            [self.gravity, *gains, cosine, sine, 0.5 / cosine],
            self.path_linear, self.path_quadratic,
            [self.payload_mass], self.mass, self.length, *self.inertia, *ratios,
        ])  # fmt: skip

    @cached_property
    def quantities(self):
        """Energy, work and their balance, errors of the controller, constraints."""
        return (*QUANTITIES, *self.constraints)

    def wanted_directions(self, y, v, t=0.0):
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

    def check_state(self, state):
        """Raise `InputError` unless `state` is one; also where the controller is singular."""
        super().check_state(state)
        self.wanted_directions(self.of(state, "y"), self.of(state, "v"))


def _inertias(value):
    """Principal moments of both quadrotors, from three numbers for both or three for each."""
    both = value if is_list(value, 2) else (value, value)
    if not all(is_list(moments, 3) for moments in both):
        raise InputError(
            f"inertia = {shown(value)}; expected the three principal moments of both quadrotors, "
            "or a list of three for each",
            key="inertia",
        )
    return tuple(positive_vector("inertia", moments, 3) for moments in both)


def _checked_angle(value):
    angle = check_number("formation_angle", value)
    if not abs(angle) < 0.5 * math.pi:
        raise InputError(
            f"formation_angle = {value!r}; expected an angle between −π/2 and π/2, in radians",
            key="formation_angle",
        )
    return angle


def _vector(name, value):
    if not is_list(value, 3):
        raise InputError(f"{name} = {shown(value)}; expected [x, y, z]", key=name)
    return number_vector(name, value, 3)
