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
`integrators.forcing`.
"""

import math

import numpy as np

from integrators import forcing
from integrators.forms import SpheresLagrangian
from integrators.kernels import Kernel, inlined
from integrators.lanes import any_lane, select, sqrt
from integrators.methods import ALL_DEGREES, Method, Option, Problem
from integrators.spheres import conjugate_momentum
from integrators.stepping import (
    ITERATIONS,
    ITERATIONS_MAX,
    LEFT_DOMAIN,
    NOT_CONVERGED,
    fail,
    method_signature,
    poison,
)
from integrators.vectors import (
    axpy,
    cross,
    dot,
    factor_ldl,
    get,
    increment,
    put,
    scale,
    solve_ldl,
)
from integrators.views import rows, rows_of, tail

MAX_ITERATIONS = 60
EPSILON = 2.0**-52
ACCEPTABLE = 1e-12  # residual of |q|² that a solution may have; round-off is far below
HISTORY = 3  # steps whose multipliers start the next solve

# --- explicit ----------------------------------------------------------------------------------
# memory: n rows each of ω between the steps, what its sum lost, what q's sum lost, ∂V − F; with
# a force (`forced` is 1, else 0) two more rows, see `forcing`.


def explicit_memory(n, stages):
    """Elements that the explicit method carries from step to step."""
    return 12 * n


@inlined
def _synchronize_diagonal(n, q, g, kick, p, held, omega):
    """ω at the step from the ω between the steps, (3.18)."""
    for i in range(n):
        torque = cross(get(q, i), get(g, i))
        put(omega, i, axpy(-kick * p[n + i], torque, get(held[0], i)))


_settle_diagonal = forcing.settling(_synchronize_diagonal)


@inlined
def _advance_diagonal(
    forced, gradient, t0, h, first, count, stages, options, y, memory, p, work, report
):
    n = y.shape[0] // 2
    q, omega_out = rows(y, 0, n), rows(y, n, n)
    omega, omega_low = rows_of(memory, 0, n), rows_of(memory, 3 * n, n)
    q_low, g = rows_of(memory, 6 * n, n), rows_of(memory, 9 * n, n + 2 * forced)
    trial, scratch = rows_of(work, 0, n * forced), tail(work, 3 * n * forced)
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
                restore = 0.5 * (1.0 - dot(x, x))
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


def _explicit(forced):
    def advance_explicit(
        gradient, projection, t0, h, first, count, stages, options, y, memory, p, work, report
    ):
        _advance_diagonal(
            forced, gradient, t0, h, first, count, stages, options, y, memory, p, work, report
        )

    return Kernel(advance_explicit, method_signature, (forced,))


# --- implicit ----------------------------------------------------------------------------------
# memory: as above, with p = M q̇ instead of ω; the factors of A_ij = (M⁻¹)_ij q_i·q_j (n×n); the
# multipliers of the last steps, by stage.
#
# Unknown are the λ_i in  p_i' = p_i − κ ∂V_i + λ_i q_i,  v = M⁻¹ p',  δ_i = c h v_i,  from
#     2 q_i·δ_i + δ_i·δ_i = 1 − q_i·q_i,
# which asks for |q_i + δ_i| = 1 and so restores the length. Kicks along q_i and drifts along
# M⁻¹p change no momentum map of (q, p), whatever the λ; lengths and energy, and a momentum that
# is computed from ω, feel a loose tolerance.


def implicit_memory(n, stages):
    """Elements that the implicit method carries from step to step."""
    return 12 * n + n * n + stages * HISTORY * n


def implicit_work(n):
    """Elements of scratch that the implicit method needs besides the gradient's."""
    return 6 * n + 2 * n


@inlined
def _apply_inverse(p, n, x, i):
    """Row i of M⁻¹ x, from the packed parameters."""
    total = scale(p[n * n + i * n], get(x, 0))
    for j in range(1, n):
        total = axpy(p[n * n + i * n + j], get(x, j), total)
    return total


@inlined
def _factor_constraints(p, n, q, a):
    """LDLᵀ of A_ij = (M⁻¹)_ij q_i·q_j into the flat `a`."""
    for i in range(n):
        for j in range(n):
            a[i * n + j] = p[n * n + i * n + j] * dot(get(q, i), get(q, j))
    factor_ldl(a, n)


@inlined
def _extrapolate(history, k, n, multipliers):
    """Start value of the multipliers: a parabola through the last three steps, if there are."""
    newest = tail(history, ((k + 2) % HISTORY) * n)
    middle = tail(history, ((k + 1) % HISTORY) * n)
    oldest = tail(history, (k % HISTORY) * n)
    for i in range(n):
        if k >= 3:
            multipliers[i] = 3.0 * (newest[i] - middle[i]) + oldest[i]
        elif k == 2:
            multipliers[i] = 2.0 * newest[i] - middle[i]
        elif k == 1:
            multipliers[i] = newest[i]
        else:
            multipliers[i] = 0.0


@inlined
def _solve_multipliers(p, n, q, base, a, drift, tolerance, v, multipliers, f, report, k):
    """Chord iterations with the frozen factors `a`; leaves v = base + M⁻¹(λ q).

    A lane stops when its residual is at round-off (or at the tolerance asked for), or is
    small and no longer halves.
    """
    bound = max(tolerance, 4.0 * EPSILON * abs(drift))
    acceptable = max(tolerance, ACCEPTABLE)
    last = 0.0 * base[0, 0] + math.inf
    active = last > 0.0
    iterations = 0.0 * base[0, 0]
    residual = last
    for _ in range(MAX_ITERATIONS):
        worst = 0.0 * base[0, 0]
        for i in range(n):
            x, total = get(q, i), get(base, i)
            for j in range(n):
                total = axpy(p[n * n + i * n + j] * multipliers[j], get(q, j), total)
            put(v, i, total)
            delta = scale(drift, total)
            f[i] = 2.0 * dot(x, delta) + dot(delta, delta) - (1.0 - dot(x, x))
            worst = worst + abs(f[i])  # a sum, since a maximum can lose a NaN
        residual = worst
        halves = (residual <= 0.5 * last) | (residual > acceptable)
        active = active & (residual > bound) & halves
        if not any_lane(active):
            break
        solve_ldl(a, n, f)
        for i in range(n):
            better = multipliers[i] - f[i] * (0.5 / drift)
            multipliers[i] = select(active, better, multipliers[i])
        iterations = select(active, iterations + 1.0, iterations)
        last = select(active, residual, last)
    report[ITERATIONS] = report[ITERATIONS] + iterations
    most = report[ITERATIONS_MAX]
    report[ITERATIONS_MAX] = select(iterations > most, iterations, most)
    fail(report, residual <= acceptable, NOT_CONVERGED, k, residual)
    return residual <= acceptable


@inlined
def _synchronize(p, n, q, momentum, g, a, kick, base, multipliers, omega):
    """ω at the step from p between the steps, (3.12): the half kick, then q_i·q̇_i = 0."""
    v = omega
    for i in range(n):
        put(v, i, axpy(-kick, get(g, i), get(momentum, i)))
    for i in range(n):
        put(base, i, _apply_inverse(p, n, v, i))
        multipliers[i] = -dot(get(q, i), get(base, i))
    solve_ldl(a, n, multipliers)
    for i in range(n):
        total = get(base, i)
        for j in range(n):
            total = axpy(p[n * n + i * n + j] * multipliers[j], get(q, j), total)
        put(omega, i, cross(get(q, i), total))


@inlined
def _synchronize_held(n, q, g, kick, p, held, omega):
    momentum, a, base, multipliers = held
    _synchronize(p, n, q, momentum, g, a, kick, base, multipliers, omega)


_settle = forcing.settling(_synchronize_held)


@inlined
def _advance_bodies(
    n, forced, gradient, t0, h, first, count, stages, options, y, memory, p, work, report
):
    q, omega = rows(y, 0, n), rows(y, n, n)
    momentum, momentum_low = rows_of(memory, 0, n), rows_of(memory, 3 * n, n)
    q_low, g = rows_of(memory, 6 * n, n), rows_of(memory, 9 * n, n + 2 * forced)
    a = tail(memory, 12 * n + forcing.MEMORY * forced)
    history = tail(a, n * n)
    base, v = rows_of(work, 0, n), rows_of(work, 3 * n, n)
    f, multipliers, trial = tail(work, 6 * n), tail(work, 7 * n), rows_of(work, 8 * n, n * forced)
    scratch = tail(work, 8 * n + 3 * n * forced)
    half = 0.5 * h
    stage_count = stages.shape[0]
    previous = stages[stage_count - 1]
    if first == 0:
        previous = 0.0
        gradient(t0, y, p, g, scratch)
        _factor_constraints(p, n, q, a)
        for i in range(n):
            put(v, i, cross(get(omega, i), get(q, i)))  # (2.10)
        for i in range(n):
            put(momentum, i, conjugate_momentum(v, p, n, i, False))
    for k in range(first, first + count):
        passed = 0.0
        for s in range(stage_count):
            stage = stages[s]
            kick, drift = half * (previous + stage), stage * h
            for i in range(n):
                put(v, i, axpy(-kick, get(g, i), get(momentum, i)))
            for i in range(n):
                put(base, i, _apply_inverse(p, n, v, i))
            recent = tail(history, s * HISTORY * n)
            _extrapolate(recent, k, n, multipliers)
            ok = _solve_multipliers(
                p, n, q, base, a, drift, options[0], v, multipliers, f, report, k
            )
            now = tail(recent, (k % HISTORY) * n)
            for i in range(n):
                now[i] = multipliers[i]
                force = axpy(-kick, get(g, i), scale(multipliers[i], get(q, i)))
                increment(momentum, momentum_low, i, force)
            for i in range(n):
                increment(q, q_low, i, scale(drift, get(v, i)))
            poison(q, ok)
            passed += stage
            _factor_constraints(p, n, q, a)
            time = t0 + k * h + passed * h
            if forced:
                _settle(
                    n, gradient, time, y, p, g, half * stage, (momentum, a, base, multipliers), v,
                    trial, options[0], scratch, report, k,
                )  # fmt: skip
            else:
                gradient(time, y, p, g, scratch)
            previous = stage
    if not forced:
        _synchronize(p, n, q, momentum, g, a, half * previous, base, multipliers, omega)


def _implicit(forced):
    def advance_implicit(
        gradient, projection, t0, h, first, count, stages, options, y, memory, p, work, report
    ):
        n = y.shape[0] // 2
        if n == 2:  # the same code, unrolled
            _advance_bodies(
                2, forced, gradient, t0, h, first, count, stages, options, y, memory, p, work,
                report,
            )  # fmt: skip
        else:
            _advance_bodies(
                n, forced, gradient, t0, h, first, count, stages, options, y, memory, p, work,
                report,
            )  # fmt: skip

    return Kernel(advance_implicit, method_signature, (forced,))


# --- the method --------------------------------------------------------------------------------


ADVANCE = {  # by whether M is diagonal, and whether a force acts
    (diagonal, forced): (_explicit if diagonal else _implicit)(int(forced))
    for diagonal in (True, False)
    for forced in (True, False)
}


def _bind(form, integrator):
    n, stages = form.bodies, len(integrator.stages)
    gradient = form.net_gradient
    explicit = form.diagonal
    memory = explicit_memory(n, stages) if explicit else implicit_memory(n, stages)
    work = gradient.work(form.rows) + (0 if explicit else implicit_work(n))
    return Problem(
        advance=ADVANCE[explicit, form.forced],
        function=gradient,
        projection=gradient,  # not called
        monitor=form.monitor(),
        constants=integrator.stages,
        options=np.array([integrator.options["solver_tolerance"]]),
        parameters=form.packed,
        rows=form.rows,
        memory=memory + forcing.MEMORY * form.forced,
        work=work + 3 * n * form.forced,
        solves=0 if explicit else stages,
    )


VARIATIONAL = Method(
    name="variational",
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
