"""Vector fields and generators of a Lagrangian on two-spheres; see `spheres`.

Off the manifold the fields extend (2.9) and (2.8) of Lee, Leok and McClamroch, *Lagrangian
mechanics and variational integrators on two-spheres*, as they are printed, which is what a
Runge–Kutta method without projection sees.
"""

from collections.abc import Callable

from integrators.compiler.kernels import Inlined, Kernel, inlined, whole_state
from integrators.compiler.vectors import axpy, cross, dot, get, put, scale, sub
from integrators.compiler.views import rows, rows_of, tail
from integrators.forms.spheres import packed_size
from integrators.solvers import chains
from integrators.solvers.constraints import (
    count_solver,
    solve_constrained,
    solve_on_spheres,
    solver_size,
)
from integrators.solvers.inertia import CHAIN, DIAGONAL


def net_gradient_kernel(gradient: Kernel, force: Kernel | None, layout: int) -> Kernel:
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

    def work(rows: int) -> int:
        return 3 * (rows // 2) + max(gradient.work(rows), force.work(rows))

    return Kernel(net_gradient_with_force, whole_state, (gradient, force, layout), work)


def field_kernel(
    gradient: Kernel, force: Kernel | None, layout: int, formulation: str, bodies: int = 0
) -> Kernel:
    """The vector field of the Lagrangian in one formulation, on the embedding space.

    `bodies` is their number as a constant of the compilation, for which loops are unrolled; or 0.
    """
    net = net_gradient_kernel(gradient, force, layout)
    forced = force is not None
    if formulation == "q_qdot":
        if layout == DIAGONAL:
            return _field_q_qdot_diagonal(net, forced)
        return _field_q_qdot(net, forced, layout, bodies)
    if layout == DIAGONAL:
        return _field_q_omega_diagonal(net, forced, algebra=False)
    return _field_q_omega(net, forced, layout, _velocities, solve_constrained, bodies)


def generator_kernel(
    gradient: Kernel, force: Kernel | None, layout: int, bodies: int = 0
) -> Kernel:
    """f = (ω_i, q_i × ω̇_i) in se(3)ⁿ, whose action moves (q, ω) as the Lagrangian does.

    Celledoni, Çokaj, Leone, Murari and Owren, *Lie group integrators for mechanical systems*,
    section 5.2.
    """
    net = net_gradient_kernel(gradient, force, layout)
    if layout == DIAGONAL:
        return _field_q_omega_diagonal(net, force is not None, algebra=True)
    return _field_q_omega(net, force is not None, layout, _algebra, solve_on_spheres, bodies)


@inlined
def _velocities(q, omega, u):
    """q̇ = ω × q, (2.10), and ω̇ = q × u/(q·q), of u = ω̇ × q."""
    return cross(omega, q), scale(1.0 / dot(q, q), cross(q, u))


@inlined
def _algebra(q, omega, u):
    """ω and q × ω̇ = −u, of u = ω̇ × q, which is orthogonal to q."""
    return omega, scale(-1.0, u)


def _field_q_omega_diagonal(net: Kernel, forced: bool, algebra: bool) -> Kernel:
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

    def work(rows: int) -> int:
        return 3 * ((rows + 1) // 2) + net.work(rows)

    return Kernel(field, whole_state, (net, algebra), work)


def _field_q_qdot_diagonal(net: Kernel, forced: bool) -> Kernel:
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


def _field_q_omega(
    net: Kernel, forced: bool, layout: int, made: Inlined, solve: Inlined, bodies: int
) -> Kernel:
    """(2.9) through u_j = ω̇_j × q_j: Σ_j M̃_ij u_j = r_i + λ_i q_i with q_i·u_i = 0,

    where M̃ is M with M_ii/(q_i·q_i) on its diagonal and r_i = Σ_{j≠i} M_ij |ω_j|² q_j − ∂V_i.
    """
    net_gradient, extra = net.inline, int(forced)

    def field(t, state, p, out, work):
        n = bodies or state.shape[0] // 2
        y, r, scratch = rows(state, 0, 2 * n), rows_of(work, 0, n), tail(work, 3 * n)
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
        solve(p, n, layout, rows(y, 0, n), r, multipliers, u, scratch)
        for i in range(n):
            one, two = made(get(y, i), get(y, n + i), get(u, i))
            put(out, i, one)
            put(u, i, two)

    made_from = (net, layout, made.__name__, bodies)
    return Kernel(field, whole_state, made_from, _constrained_work(net, layout))


def _field_q_qdot(net: Kernel, forced: bool, layout: int, bodies: int) -> Kernel:
    """(2.7): Σ_j M̃_ij q̈_j = −∂V_i + λ_i q_i with q_i·q̈_i = −(q_i·q_i)|q̇_i|²; M̃ as above."""
    net_gradient, extra = _net_gradient_of_qdot(net, forced), int(forced)

    def field(t, state, p, out, work):
        n = bodies or state.shape[0] // 2
        y, r, scratch = rows(state, 0, 2 * n), rows_of(work, 0, n), tail(work, 3 * n)
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

    return Kernel(field, whole_state, (net, layout, bodies), _constrained_work(net, layout))


def _net_gradient_of_qdot(net: Kernel, forced: bool) -> Inlined:
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


def _constrained_work(net: Kernel, layout: int) -> Callable[[int], int]:
    def work(rows: int) -> int:
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
