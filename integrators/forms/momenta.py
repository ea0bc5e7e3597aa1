"""Hamilton's equations of a Lagrangian on two-spheres, in directions and momenta (q, π).

With L = ½ Σ M_ij q̇_i·q̇_j − V(q) the momentum conjugate to q_i is what of Σ_j M_ij q̇_j is
orthogonal to q_i,

    p_i = Σ_j M_ij q̇_j − λ_i q_i,   λ_i = q_i·Σ_j M_ij q̇_j,                          (2.12)

and with angular velocities it is π_i = q_i × p_i = −q̂_i² ∂L/∂ω_i: also a tangent vector at q_i. On
(q, π) SE(3)ⁿ acts as on (q, ω), and Hamilton's equations

    q̇_i = ∂H/∂π_i × q_i,   π̇_i = ∂H/∂q_i × q_i + ∂H/∂π_i × π_i

are what f = (∂H/∂π_i, ∂H/∂q_i) generates. From q_i·q̇_i = 0 and Σ_j M_ij q̇_j = π_i × q_i + λ_i q_i
follow q̇ and λ, and with them, F the force where there is one,

    ∂H/∂π_i = ω_i = q_i × q̇_i,   ∂H/∂q_i − F_i = ∂V/∂q_i + λ_i q̇_i − F_i.

(2.12) is of Lee, Leok and McClamroch, *Lagrangian mechanics and variational integrators on
two-spheres*; the rest of Celledoni, Çokaj, Leone, Murari and Owren, *Lie group integrators for
mechanical systems*, section 5.2, which prints f with its two parts exchanged.
"""

from integrators.compiler.kernels import Kernel, inlined, whole_state
from integrators.compiler.vectors import axpy, cross, dot, get, put, scale
from integrators.compiler.views import rows, rows_of, tail
from integrators.forms import spheres
from integrators.forms.sphere_fields import net_gradient_kernel
from integrators.solvers.constraints import count_solver, solve_constrained
from integrators.solvers.inertia import DIAGONAL


@inlined
def _solve_velocities(y, p, n, layout, v, multipliers, work):
    """q̇ into `v` and λ into `multipliers`, of a state (q, π)."""
    r, scratch = rows_of(work, 0, n), tail(work, 3 * n)
    for i in range(n):
        put(r, i, cross(get(y, n + i), get(y, i)))
        multipliers[i] = 0.0 * r[i, 0]
    if layout == DIAGONAL:
        for i in range(n):
            put(v, i, scale(p[n + i], get(r, i)))
    else:
        solve_constrained(p, n, layout, rows(y, 0, n), r, multipliers, v, scratch)


def _count_solve(n: int, layout: int) -> int:
    """Elements that q̇, λ and the scratch of `_solve_velocities` take."""
    return 7 * n + (0 if layout == DIAGONAL else count_solver(n, layout))


def generator_kernel(
    gradient: Kernel, force: Kernel | None, layout: int, bodies: int = 0
) -> Kernel:
    """f = (∂H/∂π_i, ∂H/∂q_i − F_i) in se(3)ⁿ, whose action moves (q, π)."""
    net = net_gradient_kernel(gradient, force, layout)
    net_gradient, forced = net.inline, force is not None
    extra = int(forced)

    def generator(t, y, p, out, work):
        n = bodies or y.shape[0] // 2
        v, state = rows_of(work, 0, n), rows_of(work, 3 * n, 2 * n)
        g = rows_of(work, 9 * n, n + extra)
        multipliers, scratch = tail(work, 12 * n + 3 * extra), tail(work, 13 * n + 3 * extra)
        _solve_velocities(y, p, n, layout, v, multipliers, scratch)
        for i in range(n):
            q = get(y, i)
            put(state, i, q)
            put(state, n + i, cross(q, get(v, i)))
        net_gradient(t, state, p, g, scratch)
        for i in range(n):
            put(out, i, get(state, n + i))
            put(out, n + i, axpy(multipliers[i], get(v, i), get(g, i)))
        if forced:
            put(out, 2 * n, get(g, n))

    def work(rows: int) -> int:
        n = rows // 2
        return 13 * n + 3 + max(_count_solve(n, layout), net.work(rows))

    return Kernel(generator, whole_state, (net, layout, bodies), work)


def monitor_kernel(potential: Kernel, layout: int, forced: bool) -> Kernel:
    """Kernel of energy (balance) and mean unit length error of a state (q, π)."""
    energy = spheres.energy_value(potential, layout).inline

    def monitor(t, y, p, out, work):
        n = y.shape[0] // 2
        state = rows_of(work, 0, 2 * n)
        _solve_velocities(y, p, n, layout, rows(state, n, n), tail(work, 6 * n), tail(work, 7 * n))
        total = 0.0 * y[0, 0]
        for i in range(n):
            put(state, i, get(y, i))
            total = total + abs(dot(get(y, i), get(y, i)) - 1.0)
        out[0, 0] = energy(t, state, p)
        if forced:
            out[0, 0] = out[0, 0] - y[2 * n, 0]
        out[0, 1] = total / n

    return Kernel(
        monitor, whole_state, (potential, layout, forced),
        lambda rows: 6 * (rows // 2) + _count_solve(rows // 2, layout),
    )  # fmt: skip


def to_momenta_kernel(layout: int) -> Kernel:
    """(q, ω) to (q, π), row for row; the work of a force stays."""

    def to_momenta(t, y, p, out, work):
        n = y.shape[0] // 2
        v = rows_of(work, 0, n)
        spheres.velocities(y, n, v)
        spheres.conjugate_momenta(v, p, n, layout, rows(out, n, n))
        for i in range(n):
            put(out, i, get(y, i))
            put(out, n + i, cross(get(y, i), get(out, n + i)))
        if y.shape[0] > 2 * n:
            put(out, 2 * n, get(y, 2 * n))

    return Kernel(to_momenta, whole_state, (layout,), lambda rows: 3 * (rows // 2))


def to_angular_velocities_kernel(layout: int) -> Kernel:
    """(q, π) to (q, ω), the inverse of `to_momenta_kernel`."""

    def to_angular_velocities(t, y, p, out, work):
        n = y.shape[0] // 2
        v = rows_of(work, 0, n)
        _solve_velocities(y, p, n, layout, v, tail(work, 3 * n), tail(work, 4 * n))
        for i in range(n):
            put(out, i, get(y, i))
            put(out, n + i, cross(get(y, i), get(v, i)))
        if y.shape[0] > 2 * n:
            put(out, 2 * n, get(y, 2 * n))

    return Kernel(
        to_angular_velocities, whole_state, (layout,),
        lambda rows: _count_solve(rows // 2, layout),
    )  # fmt: skip


def conjugate_momentum_kernel(layout: int) -> Kernel:
    """p_i of a state (q, q̇), (2.12), into row i of `out`."""

    def conjugate_momentum(t, y, p, out, work):
        n = y.shape[0] // 2
        spheres.conjugate_momenta(rows(y, n, n), p, n, layout, out)
        for i in range(n):
            q = get(y, i)
            put(out, i, axpy(-dot(q, get(out, i)), q, get(out, i)))

    return Kernel(conjugate_momentum, whole_state, (layout,))
