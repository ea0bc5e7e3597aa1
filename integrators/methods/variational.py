"""Variational integrators on two-spheres (RATTLE), explicit and implicit.

From the discrete Lagrangian (3.1) of Lee, Leok and McClamroch, *Lagrangian mechanics and
variational integrators on two-spheres*: second order, symmetric, symplectic; they keep every
momentum map and the spheres. With a diagonal inertia matrix the step is explicit,
(3.17)–(3.18). Otherwise (3.10)–(3.13) are solved for n multipliers instead of 3n Cayley
components. That the map is RATTLE's shows when (3.8) is taken along q_i:

    Σ_j M_ij (q_j' − q_j) = h Σ_j M_ij q̇_j − (h²/2) ∂V_i + λ_i q_i,    |q_i'| = 1.

Between two steps the half kicks are merged: ``memory`` carries the velocity (explicit) or the
momentum (implicit) of the half step, and the state's ω is computed from it whenever the method
returns. This changes rounding only. Where a force acts, ω is computed in every step: see
`integrators.solvers.forcing`.
"""

import numpy as np

from integrators.compiler.kernels import Kernel, inlined
from integrators.compiler.lanes import sqrt
from integrators.compiler.vectors import (
    add,
    axpy,
    cross,
    dot,
    get,
    increment,
    increment_by,
    lacking,
    put,
    scale,
)
from integrators.compiler.views import rows, rows_of, tail
from integrators.forms.forms import SpheresLagrangian
from integrators.forms.spheres import conjugate_momenta, packed_size
from integrators.method import ALL_DEGREES, Integrator, Method
from integrators.options import Option
from integrators.solvers import forcing
from integrators.solvers.constraints import (
    apply_inverse,
    count_factors,
    factor_constraints,
    factors_size,
    solve_constraints,
)
from integrators.solvers.failures import fail, poison
from integrators.solvers.inertia import CHAIN, DIAGONAL, FULL
from integrators.solvers.multipliers import HISTORY, extrapolate, solve_multipliers
from integrators.status import LEFT_DOMAIN
from integrators.stepping.loop import method_signature
from integrators.stepping.problem import Problem

# --- explicit ----------------------------------------------------------------------------------
# memory: n rows each of ω between the steps, what its sum lost, what q's sum lost, ∂V − F; with
# a force (`forced` is 1, else 0) two more rows, see `forcing`.


def explicit_memory(n: int, stages: int) -> int:
    """Elements that the explicit method carries from step to step."""
    return 12 * n


@inlined
def _synchronize_diagonal(n, q, g, kick, p, held, omega):
    """ω at the step from the ω between the steps, (3.18)."""
    for i in range(n):
        torque = cross(get(q, i), get(g, i))
        put(omega, i, axpy(-kick * p[n + i], torque, get(held[0], i)))


_settle_diagonal = forcing.stage_settler(_synchronize_diagonal)


@inlined
def _advance_diagonal(
    forced, gradient, t0, h, first, count, stages, options, y, memory, p, work, report
):
    n = y.shape[0] // 2
    q, omega_out = rows(y, 0, n), rows(y, n, n)
    omega, omega_low = rows_of(memory, 0, n), rows_of(memory, 3 * n, n)
    q_low, g = rows_of(memory, 6 * n, n), rows_of(memory, 9 * n, n + 2 * forced)
    settling = forced * forcing.settling_rows(n)
    trial, scratch = rows_of(work, 0, settling), tail(work, 3 * settling)
    half = 0.5 * h
    stage_count = stages.shape[0]
    previous = stages[stage_count - 1]
    if first == 0:
        gradient(t0, y, p, g, scratch)
        previous = 0.0
        for i in range(n):
            put(omega, i, get(omega_out, i))
    for k in range(first, first + count):
        passed = 0.0
        for s in range(stage_count):
            stage = stages[s]
            kick, drift = half * (previous + stage), stage * h
            ok = q[0, 0] * 0.0 <= 0.0
            for i in range(n):
                # (3.18) and the next step's half kick; ω stays orthogonal to q.
                x = get(q, i)
                torque = cross(x, get(g, i))
                off = dot(x, get(omega, i))
                increment(omega, omega_low, i, axpy(-off, x, scale(-kick * p[n + i], torque)))
                # (3.17) as an increment, with the term that restores |q| = 1.
                a = scale(drift, get(omega, i))
                squared = dot(a, a)
                fail(report, squared <= 1.0, LEFT_DOMAIN, k, squared)
                ok = ok & (squared <= 1.0)
                shrink = squared / (1.0 + sqrt(1.0 - squared))
                restore = 0.5 * lacking(1.0, x)
                increment(q, q_low, i, axpy(restore - shrink, x, cross(a, x)))
            poison(q, ok)
            passed += stage
            time = t0 + k * h + passed * h
            if forced:
                _settle_diagonal(
                    n, gradient, time, y, p, g, half * stage, (omega,), omega, trial,
                    options[0], scratch, report, k,
                )  # fmt: skip
            else:
                gradient(time, y, p, g, scratch)
            previous = stage
    if not forced:
        _synchronize_diagonal(n, q, g, half * previous, p, (omega,), omega_out)


def _explicit_kernel(forced: int) -> Kernel:
    def advance_explicit(
        gradient, unused, none, t0, h, first, count, stages, options, y, memory, p, work, report
    ):
        _advance_diagonal(
            forced, gradient, t0, h, first, count, stages, options, y, memory, p, work, report
        )

    return Kernel(advance_explicit, method_signature, (forced,))


# --- implicit ----------------------------------------------------------------------------------
# memory: as above, with p = M q̇ instead of ω; the multipliers of the last steps, by stage.


def implicit_memory(n: int, stages: int) -> int:
    """Elements that the implicit method carries from step to step."""
    return 12 * n + stages * HISTORY * n


def implicit_work(n: int, layout: int) -> int:
    """Elements of scratch that the implicit method needs besides the gradient's."""
    return 17 * n + count_factors(n, layout)


@inlined
def _synchronize(n, q, g, kick, p, held, omega):
    """ω at the step from p between the steps, (3.12): the half kick, then q_i·q̇_i = 0."""
    layout, momentum, a, base, forces, multipliers = held
    w = tail(p, packed_size(n, layout) // 2)
    for i in range(n):
        put(base, i, scale(0.0, get(g, i)))
        put(omega, i, axpy(-kick, get(g, i), get(momentum, i)))
    apply_inverse(w, n, layout, omega, base, base)
    for i in range(n):
        multipliers[i] = -dot(get(q, i), get(base, i))
    solve_constraints(w, n, layout, q, q, a, multipliers)
    for i in range(n):
        put(forces, i, scale(multipliers[i], get(q, i)))
    apply_inverse(w, n, layout, forces, base, omega)
    for i in range(n):
        put(omega, i, cross(get(q, i), get(omega, i)))


_settle = forcing.stage_settler(_synchronize)


@inlined
def _advance_bodies(
    n, layout, forced, gradient, t0, h, first, count, stages, options, y, memory, p, work, report
):
    q, omega = rows(y, 0, n), rows(y, n, n)
    momentum, momentum_low = rows_of(memory, 0, n), rows_of(memory, 3 * n, n)
    q_low, g = rows_of(memory, 6 * n, n), rows_of(memory, 9 * n, n + 2 * forced)
    history = tail(memory, 12 * n + forcing.MEMORY * forced)
    w = tail(p, packed_size(n, layout) // 2)
    base, v, ends = rows_of(work, 0, n), rows_of(work, 3 * n, n), rows_of(work, 6 * n, n)
    forces, f, multipliers = rows_of(work, 9 * n, n), tail(work, 12 * n), tail(work, 13 * n)
    kept = rows_of(work, 14 * n, n)
    a, rest = tail(work, 17 * n), tail(work, 17 * n + factors_size(n, layout))
    settling = forced * forcing.settling_rows(n)
    trial, scratch = rows_of(rest, 0, settling), tail(rest, 3 * settling)
    held = (layout, momentum, a, base, forces, multipliers)
    half = 0.5 * h
    stage_count = stages.shape[0]
    previous = stages[stage_count - 1]
    if first == 0:
        previous = 0.0
        gradient(t0, y, p, g, scratch)
        for i in range(n):
            put(v, i, cross(get(omega, i), get(q, i)))  # (2.10)
        conjugate_momenta(v, p, n, layout, momentum)
    for k in range(first, first + count):
        passed = 0.0
        for s in range(stage_count):
            stage = stages[s]
            kick, drift = half * (previous + stage), stage * h
            for i in range(n):
                change = axpy(-kick, get(g, i), get(momentum_low, i))
                put(forces, i, add(get(momentum, i), change))
            recent = tail(history, s * HISTORY * n)
            extrapolate(recent, k, n, multipliers)
            ok = solve_multipliers(
                w, n, layout, q, forces, drift, options[0], v, multipliers, base, ends, kept, a, f,
                report, k,
            )  # fmt: skip
            now = tail(recent, (k % HISTORY) * n)
            for i in range(n):
                now[i] = multipliers[i]
                change = axpy(-kick, get(g, i), get(momentum_low, i))
                change = axpy(multipliers[i], get(q, i), change)
                increment_by(momentum, momentum_low, i, change)
            for i in range(n):
                increment_by(q, q_low, i, axpy(drift, get(v, i), get(q_low, i)))
            poison(q, ok)
            passed += stage
            time = t0 + k * h + passed * h
            if forced:
                factor_constraints(w, n, layout, q, q, a)
                _settle(
                    n, gradient, time, y, p, g, half * stage, held, v, trial, options[0], scratch,
                    report, k,
                )  # fmt: skip
            else:
                gradient(time, y, p, g, scratch)
            previous = stage
    if not forced:
        factor_constraints(w, n, layout, q, q, a)
        _synchronize(n, q, g, half * previous, p, held, omega)


def _implicit_kernel(layout: int, forced: int, bodies: int) -> Kernel:
    def advance_implicit(
        gradient, unused, none, t0, h, first, count, stages, options, y, memory, p, work, report
    ):
        n = bodies or y.shape[0] // 2
        _advance_bodies(
            n, layout, forced, gradient, t0, h, first, count, stages, options, y, memory, p,
            work, report,
        )  # fmt: skip

    return Kernel(advance_implicit, method_signature, (layout, forced, bodies))


# --- the method --------------------------------------------------------------------------------


ADVANCE = {  # by how M lies, whether a force acts, and how many bodies loops are unrolled for
    (layout, forced, bodies): (
        _explicit_kernel(forced) if layout == DIAGONAL else _implicit_kernel(layout, forced, bodies)
    )
    for layout, bodies in ((DIAGONAL, 0), (FULL, 0), (FULL, 2), (CHAIN, 0))
    for forced in (1, 0)
}


def _bind(form: SpheresLagrangian, integrator: Integrator) -> Problem:
    n, stages = form.bodies, len(integrator.stages)
    gradient = form.net_gradient
    explicit = form.diagonal
    memory = explicit_memory(n, stages) if explicit else implicit_memory(n, stages)
    work = gradient.work(form.rows) + (0 if explicit else implicit_work(n, form.layout))
    return Problem(
        advance=ADVANCE[form.layout, int(form.forced), form.unrolled],
        function=gradient,
        monitor=form.monitor(),
        constants=integrator.stages,
        options=np.array([integrator.options["solver_tolerance"]]),
        parameters=form.packed,
        rows=form.rows,
        memory=memory + forcing.MEMORY * form.forced,
        work=work + 3 * form.forced * forcing.settling_rows(n),
        solves=0 if explicit else stages,
    )


VARIATIONAL = Method(
    name="variational",
    sources=("lee2009", "andersen1983", "hairer2006"),
    description="variational integrator on two-spheres (RATTLE); explicit if M is diagonal",
    order=2,
    symmetric=True,
    forms=(SpheresLagrangian,),
    preserves={
        "symplectic_form": (),
        "momentum_map": ALL_DEGREES,
        "unit_length": ALL_DEGREES,
        "tangency": ALL_DEGREES,
    },
    bind=_bind,
    evaluations=1,
    options={
        "solver_tolerance": Option(
            0.0,
            "largest residual of |q|² (with a force: relative change of ω too) at which an "
            "implicit solve may stop; 0: round-off",
        ),
    },
)
