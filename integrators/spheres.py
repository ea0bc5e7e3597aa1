"""What follows from a Lagrangian on two-spheres: its vector fields, energy, momentum.

L = ½ Σ M_ij q̇_i·q̇_j − V(q), bodies i = 1…n on the unit sphere (Lee, Leok, McClamroch,
*Lagrangian mechanics and variational integrators on two-spheres*, eq. (2.2)). The functions
here make kernels from a system's potential, gradient and force. Those on the whole state read
the packed parameters ``[M, M⁻¹, the system's own]``, where M and M⁻¹ lie as one of the layouts of
`inertia` says, and a state of 2n rows: q, then ω (formulation ``q_omega``) or q̇ (``q_qdot``).
Where there is a force, one more row holds the work that it has done so far, as (W, 0, 0).

Off the manifold the fields extend (2.9) and (2.8) as they are printed, which is what a
Runge–Kutta method without projection sees.
"""

from integrators import chains
from integrators.constraints import count_solver, solve_constrained, solver_size
from integrators.inertia import CHAIN, DIAGONAL
from integrators.kernels import Kernel, inlined, kernel, state_value, whole_state
from integrators.lanes import select
from integrators.vectors import (
    accumulate,
    axpy,
    cross,
    dot,
    get,
    increment,
    normalizing,
    put,
    scale,
    sub,
)
from integrators.views import rows, rows_of, tail


@inlined
def packed_size(n, layout):
    """Elements of the packed parameters before the system's own."""
    if layout == CHAIN:
        return 2 * chains.HALF * n
    return 2 * n if layout == DIAGONAL else 2 * n * n


@inlined
def conjugate_momentum(v, p, n, i, layout):
    """Row i of M q̇, Σ_j M_ij q̇_j, of a diagonal or full matrix."""
    if layout == DIAGONAL:
        return scale(p[i], get(v, i))
    total = scale(p[i * n], get(v, 0))
    for j in range(1, n):
        total = axpy(p[i * n + j], get(v, j), total)
    return total


@inlined
def conjugate_momenta(v, p, n, layout, out):
    """M q̇ into `out`, another stack."""
    if layout == CHAIN:
        chains.apply_inertia(p, n, v, out)
    else:
        for i in range(n):
            put(out, i, conjugate_momentum(v, p, n, i, layout))


@inlined
def velocities(y, n, v):
    """q̇_i = ω_i × q_i, (2.10), from the rows q, ω of `y` into `v`."""
    for i in range(n):
        put(v, i, cross(get(y, n + i), get(y, i)))


# --- energy, momentum, constraints ------------------------------------------------------------


def energy_kernel(potential, layout):
    """½ Σ M_ij q̇_i·q̇_j + V of a state (q, q̇), into ``out[0, 0]``."""
    value = energy_value(potential, layout).inline

    def energy(t, y, p, out, work):
        out[0, 0] = value(t, y, p)

    return Kernel(energy, whole_state, made_from=(potential, layout))


@inlined
def kinetic_energy(v, p, n, layout):
    """½ Σ M_ij q̇_i·q̇_j"""
    if layout == CHAIN:
        return chains.kinetic_energy(p, n, v)
    twice = dot(get(v, 0), conjugate_momentum(v, p, n, 0, layout))
    for i in range(1, n):
        twice = twice + dot(get(v, i), conjugate_momentum(v, p, n, i, layout))
    return 0.5 * twice


def energy_value(potential, layout):
    """½ Σ M_ij q̇_i·q̇_j + V of a state (q, q̇), as a number."""
    potential_of = potential.inline

    def energy(t, y, p):
        n = y.shape[0] // 2
        q, v = rows(y, 0, n), rows(y, n, n)
        kinetic = kinetic_energy(v, p, n, layout)
        return kinetic + potential_of(t, q, tail(p, packed_size(n, layout)))

    return Kernel(energy, state_value, made_from=(potential, layout))


def energy_balance_kernel(potential, layout):
    """E − W of a forced system's state (q, q̇) and work, into ``out[0, 0]``."""
    energy_of = energy_value(potential, layout).inline

    def energy_balance(t, y, p, out, work):
        out[0, 0] = energy_of(t, y, p) - y[y.shape[0] - 1, 0]

    return Kernel(energy_balance, whole_state, made_from=(potential, layout))


@kernel()
def work_done(t, y, p, out, work):
    """W of a forced system's state, into ``out[0, 0]``."""
    out[0, 0] = y[y.shape[0] - 1, 0]


def angular_momentum_kernel(layout):
    """Σ_i q_i × Σ_j M_ij q̇_j of a state (q, q̇), into ``out[0, :]``."""

    def angular_momentum(t, y, p, out, work):
        n = y.shape[0] // 2
        q, v = rows(y, 0, n), rows(y, n, n)
        if layout == CHAIN:
            put(out, 0, chains.angular_momentum(p, n, q, v))
        else:
            put(out, 0, cross(get(q, 0), conjugate_momentum(v, p, n, 0, layout)))
            for i in range(1, n):
                accumulate(out, 0, cross(get(q, i), conjugate_momentum(v, p, n, i, layout)))

    return Kernel(angular_momentum, whole_state, made_from=(layout,))


@kernel()
def unit_length_error(t, y, p, out, work):
    """max_i |q_i·q_i − 1| of a state in either formulation, into ``out[0, 0]``."""
    largest = 0.0 * y[0, 0]  # of the state's element type
    for i in range(y.shape[0] // 2):
        error = abs(dot(get(y, i), get(y, i)) - 1.0)
        largest = select(error > largest, error, largest)
    out[0, 0] = largest


@kernel()
def tangency_error(t, y, p, out, work):
    """max_i |q_i·ω_i| or |q_i·q̇_i|, as the formulation has it, into ``out[0, 0]``."""
    n = y.shape[0] // 2
    largest = 0.0 * y[0, 0]  # of the state's element type
    for i in range(n):
        error = abs(dot(get(y, i), get(y, n + i)))
        largest = select(error > largest, error, largest)
    out[0, 0] = largest


def monitor_kernel(potential, layout, formulation, forced):
    """What the statistics follow at every step: ``out[0] = energy, mean_i |q_i·q_i − 1|``.

    Of a forced system it is the energy balance E − W.
    """
    energy = energy_value(potential, layout).inline
    turning = formulation == "q_omega"

    def monitor(t, y, p, out, work):
        n = y.shape[0] // 2
        if turning:
            state = rows_of(work, 0, 2 * n)
            for i in range(n):
                put(state, i, get(y, i))
            velocities(y, n, rows(state, n, n))
            out[0, 0] = energy(t, state, p)
        else:
            out[0, 0] = energy(t, y, p)
        if forced:
            out[0, 0] = out[0, 0] - y[2 * n, 0]
        total = abs(dot(get(y, 0), get(y, 0)) - 1.0)
        for i in range(1, n):
            total = total + abs(dot(get(y, i), get(y, i)) - 1.0)
        out[0, 1] = total / n

    made_from = (potential, layout, formulation, forced)
    return Kernel(monitor, whole_state, made_from, work=lambda rows: 3 * rows)


# --- projections -------------------------------------------------------------------------------


@kernel()
def project_position(t, y, p, low, work):
    """Bring every q_i to unit length, by increments that `low` compensates."""
    for i in range(y.shape[0] // 2):
        increment(y, low, i, normalizing(get(y, i)))


@kernel()
def project_tangent(t, y, p, low, work):
    """Bring q_i to unit length and make ω_i (or q̇_i) orthogonal to it."""
    n = y.shape[0] // 2
    for i in range(n):
        increment(y, low, i, normalizing(get(y, i)))
        q = get(y, i)
        increment(y, low, n + i, scale(-dot(q, get(y, n + i)), q))


# --- vector fields -----------------------------------------------------------------------------


def net_gradient_kernel(gradient, force, layout):
    """∂V/∂q − F of a state (q, ω): the gradient, and the force where there is one.

    Takes the packed parameters. `out` has n rows; with a force one more, for its power as
    (Σ_i F_i·q̇_i, 0, 0).
    """
    gradient_of = gradient.inline
    if force is None:

        def net_gradient(t, y, p, out, work):
            n = y.shape[0] // 2
            gradient_of(t, rows(y, 0, n), tail(p, packed_size(n, layout)), out, work)

        return Kernel(net_gradient, whole_state, (gradient, layout), gradient.work)
    force_of = force.inline

    def net_gradient_with_force(t, y, p, out, work):
        n = y.shape[0] // 2
        q, omega = rows(y, 0, n), rows(y, n, n)
        own, scratch = tail(p, packed_size(n, layout)), tail(work, 3 * n)
        applied = rows_of(work, 0, n)
        gradient_of(t, q, own, rows(out, 0, n), scratch)
        force_of(t, q, omega, own, applied, scratch)
        power = 0.0 * q[0, 0]  # of the state's element type
        for i in range(n):
            put(out, i, sub(get(out, i), get(applied, i)))
            power = power + dot(get(applied, i), cross(get(omega, i), get(q, i)))
        put(out, n, (power, 0.0 * power, 0.0 * power))

    def work(rows):
        return 3 * (rows // 2) + max(gradient.work(rows), force.work(rows))

    return Kernel(net_gradient_with_force, whole_state, (gradient, force, layout), work)


def field_kernel(gradient, force, layout, formulation):
    """The vector field of the Lagrangian in one formulation, on the embedding space."""
    net = net_gradient_kernel(gradient, force, layout)
    forced = force is not None
    if formulation == "q_qdot":
        if layout == DIAGONAL:
            return _field_q_qdot_diagonal(net, forced)
        return _field_q_qdot(net, forced, layout)
    if layout == DIAGONAL:
        return _turning_diagonal(net, forced, algebra=False)
    return _turning(net, forced, layout, _velocities)


def generator_kernel(gradient, force, layout):
    """f = (ω_i, q_i × ω̇_i) in se(3)ⁿ, whose action moves (q, ω) as the Lagrangian does.

    Celledoni, Çokaj, Leone, Murari and Owren, *Lie group integrators for mechanical systems*,
    section 5.2.
    """
    net = net_gradient_kernel(gradient, force, layout)
    if layout == DIAGONAL:
        return _turning_diagonal(net, force is not None, algebra=True)
    return _turning(net, force is not None, layout, _algebra)


@inlined
def _velocities(q, omega, u):
    """q̇ = ω × q, (2.10), and ω̇ = q × u/(q·q), of u = ω̇ × q."""
    return cross(omega, q), scale(1.0 / dot(q, q), cross(q, u))


@inlined
def _algebra(q, omega, u):
    """ω and q × ω̇ = −u, of u = ω̇ × q, which is orthogonal to q."""
    return omega, scale(-1.0, u)


def _turning_diagonal(net, forced, algebra):
    net_gradient, extra = net.inline, int(forced)

    def field(t, y, p, out, work):
        n = y.shape[0] // 2
        g = rows_of(work, 0, n + extra)
        net_gradient(t, y, p, g, tail(work, 3 * (n + extra)))
        if forced:
            put(out, 2 * n, get(g, n))
        for i in range(n):
            q = get(y, i)
            turned = scale(-p[n + i], cross(q, get(g, i)))  # (2.9), M_ij = 0
            if algebra:
                put(out, i, get(y, n + i))
                put(out, n + i, cross(q, turned))
            else:
                put(out, i, cross(get(y, n + i), q))  # (2.10)
                put(out, n + i, turned)

    def work(rows):
        return 3 * ((rows + 1) // 2) + net.work(rows)

    return Kernel(field, whole_state, (net, algebra), work)


def _field_q_qdot_diagonal(net, forced):
    net_gradient, extra = _net_gradient_of_qdot(net, forced), int(forced)

    def field(t, y, p, out, work):
        n = y.shape[0] // 2
        g = rows_of(work, 0, n + extra)
        net_gradient(t, y, p, g, tail(work, 3 * (n + extra)))
        if forced:
            put(out, 2 * n, get(g, n))
        for i in range(n):
            q, v = get(y, i), get(y, n + i)
            put(out, i, v)
            bending = scale(p[n + i], cross(q, cross(q, get(g, i))))
            put(out, n + i, axpy(-dot(v, v), q, bending))  # (2.7), M_ij = 0

    return Kernel(field, whole_state, (net,), lambda rows: 6 * rows + net.work(rows))


def _turning(net, forced, layout, made):
    """(2.9) through u_j = ω̇_j × q_j: Σ_j M̃_ij u_j = r_i + λ_i q_i with q_i·u_i = 0,

    where M̃ is M with M_ii/(q_i·q_i) on its diagonal and r_i = Σ_{j≠i} M_ij |ω_j|² q_j − ∂V_i.
    """
    net_gradient, extra = net.inline, int(forced)

    def field(t, y, p, out, work):
        n = y.shape[0] // 2
        r, scratch = rows_of(work, 0, n), tail(work, 3 * n)
        g, multipliers = rows(out, 0, n + extra), tail(scratch, solver_size(n, layout))
        net_gradient(t, y, p, g, scratch)
        if forced:
            put(out, 2 * n, get(g, n))
        u = rows(out, n, n)
        for i in range(n):
            omega = get(y, n + i)
            put(u, i, scale(dot(omega, omega), get(y, i)))
            multipliers[i] = 0.0
        _apply_beside_diagonal(u, p, n, layout, r)
        for i in range(n):
            put(r, i, sub(get(r, i), get(g, i)))
        solve_constrained(p, n, layout, rows(y, 0, n), r, multipliers, u, scratch)
        for i in range(n):
            one, two = made(get(y, i), get(y, n + i), get(u, i))
            put(out, i, one)
            put(u, i, two)

    made_from = (net, layout, made.__name__)
    return Kernel(field, whole_state, made_from, _constrained_work(net, layout))


def _field_q_qdot(net, forced, layout):
    """(2.7): Σ_j M̃_ij q̈_j = −∂V_i + λ_i q_i with q_i·q̈_i = −(q_i·q_i)|q̇_i|²; M̃ as above."""
    net_gradient, extra = _net_gradient_of_qdot(net, forced), int(forced)

    def field(t, y, p, out, work):
        n = y.shape[0] // 2
        r, scratch = rows_of(work, 0, n), tail(work, 3 * n)
        g, multipliers = rows(out, 0, n + extra), tail(scratch, solver_size(n, layout))
        net_gradient(t, y, p, g, scratch)
        if forced:
            put(out, 2 * n, get(g, n))
        for i in range(n):
            q, v = get(y, i), get(y, n + i)
            put(r, i, scale(-1.0, get(g, i)))
            multipliers[i] = -dot(q, q) * dot(v, v)
        solve_constrained(p, n, layout, rows(y, 0, n), r, multipliers, rows(out, n, n), scratch)
        for i in range(n):
            put(out, i, get(y, n + i))

    return Kernel(field, whole_state, (net, layout), _constrained_work(net, layout))


def _net_gradient_of_qdot(net, forced):
    """`net` for a state (q, q̇); a force wants ω = q × q̇ / (q·q)."""
    net_gradient = net.inline
    if not forced:
        return net_gradient

    @inlined
    def turned(t, y, p, out, work):
        n = y.shape[0] // 2
        state = rows_of(work, 0, 2 * n)
        for i in range(n):
            q = get(y, i)
            put(state, i, q)
            put(state, n + i, scale(1.0 / dot(q, q), cross(q, get(y, n + i))))
        net_gradient(t, state, p, out, tail(work, 6 * n))

    return turned


def _constrained_work(net, layout):
    def work(rows):
        n = rows // 2
        return 3 * n + max(count_solver(n, layout) + n, 3 * rows + net.work(rows))

    return work


@inlined
def _apply_beside_diagonal(x, p, n, layout, out):
    """Σ_{j≠i} M_ij x_j into row i of `out`, another stack."""
    if layout == CHAIN:
        chains.apply_inertia(p, n, x, out)
        for i in range(n):
            put(out, i, axpy(-p[chains.HALF * i + 3], get(x, i), get(out, i)))
    else:
        for i in range(n):
            total = scale(0.0, get(x, i))
            for j in range(n):
                if j != i:
                    total = axpy(p[i * n + j], get(x, j), total)
            put(out, i, total)
