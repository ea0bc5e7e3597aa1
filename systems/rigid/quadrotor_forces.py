"""Forces and moments of the rotors of `quadrotor_payload`, and how they move what they carry.

A control is a kernel ``control(t, y, p, out, work)`` of the signature `kernels.whole_state` that
writes four rows: u_1 in space, N, M_1 in the body, N m, u_2 and M_2. `motion_kernel` makes of it
the generator (37),

    v̇ − g e3 = a = Σ c_i q_i,   m_y c_i + m_i q_i·a = q_i·u_i − m_i L_i |ω_i|²,
    J_i Ω̇_i = M_i − Ω_i × J_i Ω_i,
    L_i q_i × ω̇_i = −b_i + (q_i·b_i) q_i,   b_i = a − u_i/m_i:

the first line is M_q a = Σ (u_i∥ − m_i L_i |ω_i|² q_i), whose solution is in the span of the links.
Controls here are that of `formation_control`, u_i of any direction, with a bound on its size; the
same by a thrust along the bodies' axes; and constant thrusts and moments.
"""

import functools

from integrators.compiler.kernels import Kernel, inlined, kernel, whole_state
from integrators.compiler.lanes import select, sqrt
from integrators.compiler.vectors import add, axpy, cross, dot, get, put, scale, sub
from integrators.compiler.views import rows_of, tail
from systems.rigid.formation_control import (
    GRAVITY,
    HALF_SECANT,
    K_Q,
    K_W,
    Q1,
    Q2,
    V,
    force_rate,
    lag,
    polar,
    polar_rates,
    wanted_angles,
    wanted_direction,
    wanted_force,
    wanted_rate,
)

R1, OMEGA1, R2, OMEGA2, W1, W2, WORK = 2, 5, 6, 9, 11, 13, 14  # rows of a state, besides its
# The parameters after those of the controller: m_y, m_i, L_i, J_i and (J_2 − J_3)/J_1, … of each;
# then the greatest thrust, k_R, k_Ω, T_i, M_i and those of a controller of one's own.
LOAD, MASS, LENGTH, INERTIA, RATIOS = 14, 15, 17, 19, 25
MOST_THRUST, K_R, K_SPIN, THRUST, MOMENT, CONTROL_VALUES = 31, 32, 33, 34, 36, 42


# --- the controller in closed loop ---------------------------------------------------------------


@inlined
def _link(aim, along, turn, q, omega, p):
    """q_i × X_i, which is q_i × ω̇_i, where |q_i| = 1 and q_i·ω_i = 0; `along` is q_i·q_id."""
    ahead = cross(q, sub(omega, turn))
    lagging = axpy(-along, q, aim)  # q × (q_id × q)
    return axpy(-dot(q, turn), omega, axpy(-p[K_W], ahead, scale(-p[K_Q], lagging)))


@inlined
def closed_loop(t, y, p):
    """a, then of each link μ_i/(m_y q_i), and of each q_i × ω̇_i."""
    e, rate = lag(t, y, p)
    q_1, w_1, q_2, w_2 = get(y, Q1), get(y, W1), get(y, Q2), get(y, W2)
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
    return a, (pull_1, pull_2), (pushed_1, pushed_2)


@inlined
def force_in_closed_loop(i, pull, a, pushed, q, omega, p):
    """u_i = μ_i + m_i (a + L_i (|ω_i|² q_i + q_i × ω̇_i)), μ_i = m_y `pull` q_i."""
    mass, length = p[MASS + i], p[LENGTH + i]
    along = p[LOAD] * pull + mass * length * dot(omega, omega)
    return axpy(along, q, scale(mass, axpy(length, pushed, a)))


@inlined
def velocity(v, q, omega, length):
    """ẏ_i = v − L_i ω_i × q_i."""
    return axpy(-length, cross(omega, q), v)


# --- controls ------------------------------------------------------------------------------------


@inlined
def _wanted_forces(t, y, p):
    """u_1 and u_2 of the controller."""
    a, pulls, pushed = closed_loop(t, y, p)
    return (
        force_in_closed_loop(0, pulls[0], a, pushed[0], get(y, Q1), get(y, W1), p),
        force_in_closed_loop(1, pulls[1], a, pushed[1], get(y, Q2), get(y, W2), p),
    )


@kernel()
def tracking(t, y, p, out, work):
    """u_i of the controller, no longer than the greatest thrust; M_i = 0."""
    u_1, u_2 = _wanted_forces(t, y, p)
    for i in range(2):
        u = u_1 if i == 0 else u_2
        size = sqrt(dot(u, u))
        put(out, 2 * i, scale(select(size > p[MOST_THRUST], p[MOST_THRUST] / size, 1.0), u))
        put(out, 2 * i + 1, scale(0.0, u))


@inlined
def _along_axis(i, thrust, y):
    """−T_i R_i e3"""
    row = R1 + 4 * i
    return -thrust * y[row, 2], -thrust * y[row + 1, 2], -thrust * y[row + 2, 2]


@kernel()
def attitude(t, y, p, out, work):
    """T_i = −u_i·R_i e3 of the controller, from 0 to the greatest; M_i leads −R_i e3 to u_i.

    M_i = k_R e3 × c − k_Ω Ω_i + Ω_i × J_i Ω_i, with c = −R_i⊤u_i/|u_i|.
    """
    u_1, u_2 = _wanted_forces(t, y, p)
    for i in range(2):
        u = u_1 if i == 0 else u_2
        row, j = R1 + 4 * i, INERTIA + 3 * i
        x, z, spin = get(y, row), get(y, row + 2), get(y, row + 3)
        own = axpy(u[2], z, axpy(u[1], get(y, row + 1), scale(u[0], x)))  # R⊤u
        thrust = select(own[2] < 0.0, -own[2], 0.0 * own[2])
        thrust = select(thrust > p[MOST_THRUST], p[MOST_THRUST] + 0.0 * thrust, thrust)
        put(out, 2 * i, _along_axis(i, thrust, y))
        over = p[K_R] / sqrt(dot(u, u))
        momentum = p[j] * spin[0], p[j + 1] * spin[1], p[j + 2] * spin[2]
        lead = over * own[1], -over * own[0], 0.0 * own[0]
        put(out, 2 * i + 1, add(axpy(-p[K_SPIN], spin, lead), cross(spin, momentum)))


@kernel()
def constant(t, y, p, out, work):
    """u_i = −T_i R_i e3, and M_i, of constant T_i and M_i."""
    for i in range(2):
        at = MOMENT + 3 * i
        put(out, 2 * i, _along_axis(i, p[THRUST + i], y))
        put(out, 2 * i + 1, add((p[at], p[at + 1], p[at + 2]), scale(0.0, get(y, V))))


# --- the motion ----------------------------------------------------------------------------------


@inlined
def free_turn(i, spin, p):
    """Ω̇_i of a free body, −J_i⁻¹ (Ω_i × J_i Ω_i)."""
    ratio, x, y, z = RATIOS + 3 * i, spin[0], spin[1], spin[2]
    return p[ratio] * y * z, p[ratio + 1] * z * x, p[ratio + 2] * x * y


@inlined
def _pushed_turn(i, spin, moment, p):
    """Ω̇_i with a moment."""
    j, free = INERTIA + 3 * i, free_turn(i, spin, p)
    return add(free, (moment[0] / p[j], moment[1] / p[j + 1], moment[2] / p[j + 2]))


@inlined
def _move(y, u_1, moment_1, u_2, moment_2, p, out):
    """All rows of f(P) but that of the power."""
    v, q_1, w_1, q_2, w_2 = get(y, V), get(y, Q1), get(y, W1), get(y, Q2), get(y, W2)
    spin_1, spin_2 = get(y, OMEGA1), get(y, OMEGA2)
    load, m_1, m_2 = p[LOAD], p[MASS], p[MASS + 1]
    s_1 = dot(q_1, u_1) - m_1 * p[LENGTH] * dot(w_1, w_1)
    s_2 = dot(q_2, u_2) - m_2 * p[LENGTH + 1] * dot(w_2, w_2)
    both = dot(q_1, q_2)
    over = 1.0 / ((load + m_1) * (load + m_2) - m_1 * m_2 * both * both)
    c_1 = ((load + m_2) * s_1 - m_1 * both * s_2) * over
    c_2 = ((load + m_1) * s_2 - m_2 * both * s_1) * over
    a = axpy(c_1, q_1, scale(c_2, q_2))
    b_1, b_2 = axpy(-1.0 / m_1, u_1, a), axpy(-1.0 / m_2, u_2, a)
    put(out, 0, v)
    put(out, 1, (a[0], a[1], a[2] + p[GRAVITY]))
    put(out, 2, spin_1)
    put(out, 3, _pushed_turn(0, spin_1, moment_1, p))
    put(out, 4, spin_2)
    put(out, 5, _pushed_turn(1, spin_2, moment_2, p))
    put(out, 6, w_1)
    put(out, 7, scale(1.0 / p[LENGTH], axpy(dot(q_1, b_1), q_1, scale(-1.0, b_1))))
    put(out, 8, w_2)
    put(out, 9, scale(1.0 / p[LENGTH + 1], axpy(dot(q_2, b_2), q_2, scale(-1.0, b_2))))


@kernel()
def free_motion(t, y, p, out, work):
    """f(P) without forces and moments, and without a row for their power."""
    none = scale(0.0, get(y, V))
    _move(y, none, none, none, none, p, out)


@functools.cache
def motion_kernel(control: Kernel) -> Kernel:
    """f(P) of section 6.1 under a control, and the power Σ (u_i·ẏ_i + M_i·Ω_i)."""
    control_of = control.inline

    def generator(t, y, p, out, work):
        u = rows_of(work, 0, 4)
        control_of(t, y, p, u, tail(work, 12))
        _move(y, get(u, 0), get(u, 1), get(u, 2), get(u, 3), p, out)
        power = dot(get(u, 1), get(y, OMEGA1)) + dot(get(u, 3), get(y, OMEGA2))
        for i in range(2):
            q, omega = get(y, Q1 + 2 * i), get(y, W1 + 2 * i)
            power = power + dot(get(u, 2 * i), velocity(get(y, V), q, omega, p[LENGTH + i]))
        put(out, 10, (power, 0.0 * power, 0.0 * power))

    return Kernel(generator, whole_state, (control,), lambda rows: 12 + control.work(rows))


@functools.cache
def row_kernel(control: Kernel, row: int) -> Kernel:
    """One of the four rows of a control, as an observable."""
    control_of = control.inline

    def of_control(t, y, p, out, work):
        control_of(t, y, p, rows_of(work, 0, 4), tail(work, 12))
        put(out, 0, get(rows_of(work, 0, 4), row))

    return Kernel(of_control, whole_state, (control, row), lambda rows: 12 + control.work(rows))
