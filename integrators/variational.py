"""Variational integrators on two-spheres (RATTLE), explicit and implicit.

From the discrete Lagrangian (3.1) of Lee, Leok and McClamroch, *Lagrangian mechanics and
variational integrators on two-spheres*: second order, symmetric, symplectic; they keep every
momentum map and the spheres. With a diagonal inertia matrix the step is explicit,
(3.17)–(3.18). Otherwise (3.10)–(3.13) are solved for n multipliers instead of 3n Cayley
components. That the map is RATTLE's shows when (3.8) is taken along q_i:

    Σ_j M_ij (q_j' − q_j) = h Σ_j M_ij q̇_j − (h²/2) ∂V_i + λ_i q_i,    |q_i'| = 1.

Between two steps the half kicks are merged: ``memory`` carries the velocity (explicit) or the
momentum (implicit) of the half step, and the state's ω is computed from it whenever the method
returns. This changes rounding only.
"""

import math

import numpy as np

from integrators.constraints import (
    apply_inverse,
    factor_constraints,
    factors_size,
    solve_constraints,
)
from integrators.forms import SpheresLagrangian
from integrators.inertia import CHAIN, FULL
from integrators.kernels import Kernel, inlined
from integrators.lanes import any_lane, select, sqrt
from integrators.methods import ALL_DEGREES, Method, Option, Problem
from integrators.spheres import conjugate_momenta, packed_size
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
    get,
    increment,
    put,
    scale,
)
from integrators.views import rows, rows_of, tail

MAX_ITERATIONS = 60
ROUND_OFF = 4.0 * 2.0**-52  # of a residual, relative to the bodies' moves
ACCEPTABLE = 1e-12  # residual of |q|² that a solution may have; round-off is far below
HISTORY = 3  # steps whose multipliers start the next solve

# --- explicit ----------------------------------------------------------------------------------
# memory: n rows each of ω between the steps, what its sum lost, what q's sum lost, ∂V.


def explicit_memory(n, stages):
    """Elements that the explicit method carries from step to step."""
    return 12 * n


def _advance_explicit(
    gradient, projection, t0, h, first, count, stages, options, y, memory, p, work, report
):
    n = y.shape[0] // 2
    q, omega_out = rows(y, 0, n), rows(y, n, n)
    omega, omega_low = rows_of(memory, 0, n), rows_of(memory, 3 * n, n)
    q_low, g = rows_of(memory, 6 * n, n), rows_of(memory, 9 * n, n)
    half = 0.5 * h
    stage_count = stages.shape[0]
    previous = stages[stage_count - 1]
    if first == 0:
        gradient(t0, y, p, g, work)
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
            gradient(t0 + k * h + passed * h, y, p, g, work)
            previous = stage
    kick = half * previous
    for i in range(n):
        torque = cross(get(q, i), get(g, i))
        put(omega_out, i, axpy(-kick * p[n + i], torque, get(omega, i)))  # (3.18)


advance_explicit = Kernel(_advance_explicit, method_signature)

# --- implicit ----------------------------------------------------------------------------------
# memory: n rows each of p between the steps, what its sum lost, what q's sum lost, ∂V; the
# multipliers of the last steps, by stage.
#
# Unknown are the λ_i in  p_i' = p_i − κ ∂V_i + λ_i q_i,  v = M⁻¹ p',  δ_i = c h v_i,  from
#     2 q_i·δ_i + δ_i·δ_i = 1 − q_i·q_i,
# which asks for |q_i + δ_i| = 1 and so restores the length. Kicks along q_i and drifts along
# M⁻¹p change no momentum map of (q, p), whatever the λ; lengths and energy, and a momentum that
# is computed from ω, feel a loose tolerance.


def implicit_memory(n, stages):
    """Elements that the implicit method carries from step to step."""
    return 12 * n + stages * HISTORY * n


def implicit_work(n, layout):
    """Elements of scratch that the implicit method needs besides the gradient's."""
    return 14 * n + factors_size(n, layout)


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
def _residuals(n, q, v, drift, f):
    """|q_i + δ_i|² − 1 into `f`; returns Σ |f_i|, since a maximum can lose a NaN, and Σ |δ_i|².

    There is a second solution beyond each sphere's horizon, q_i·(q_i + δ_i) < 0, which is not
    the step's: it counts as a residual of 1.
    """
    worst = squares = 0.0 * v[0, 0]
    for i in range(n):
        x, delta = get(q, i), scale(drift, get(v, i))
        along, length, square = dot(x, delta), dot(x, x), dot(delta, delta)
        f[i] = 2.0 * along + square - (1.0 - length)
        worst = worst + (abs(f[i]) + select(along + length > 0.0, 0.0, 1.0))
        squares = squares + square
    return worst, squares


@inlined
def _solve_multipliers(
    w, n, layout, q, base, drift, tolerance, v, multipliers, ends, a, f, forces, report, k
):
    """Newton iterations for the multipliers; leaves v = base + M⁻¹(λ q).

    A lane stops when its residual is at round-off (or at the tolerance asked for), or is small
    and no longer halves.
    """
    acceptable = max(tolerance, ACCEPTABLE)
    last = 0.0 * base[0, 0] + math.inf
    active = last > 0.0
    iterations = 0.0 * base[0, 0]
    residual = last
    for _ in range(MAX_ITERATIONS):
        for i in range(n):
            put(forces, i, scale(multipliers[i], get(q, i)))
        apply_inverse(w, n, layout, forces, base, v)
        residual, squares = _residuals(n, q, v, drift, f)
        halves = (residual <= 0.5 * last) | (residual > acceptable)
        rounds = residual * residual > (ROUND_OFF * ROUND_OFF * n) * squares
        active = active & (residual > tolerance) & rounds & halves
        if not any_lane(active):
            break
        for i in range(n):
            put(ends, i, axpy(drift, get(v, i), get(q, i)))
        factor_constraints(w, n, layout, ends, q, a)
        solve_constraints(w, n, layout, ends, q, a, f)
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
def _synchronize(w, n, layout, q, momentum, g, kick, v, base, a, multipliers, omega):
    """ω at the step from p between the steps, (3.12): the half kick, then q_i·q̇_i = 0."""
    for i in range(n):
        put(v, i, scale(0.0, get(g, i)))
        put(omega, i, axpy(-kick, get(g, i), get(momentum, i)))
    apply_inverse(w, n, layout, omega, v, base)
    for i in range(n):
        multipliers[i] = -dot(get(q, i), get(base, i))
    factor_constraints(w, n, layout, q, q, a)
    solve_constraints(w, n, layout, q, q, a, multipliers)
    for i in range(n):
        put(v, i, scale(multipliers[i], get(q, i)))
    apply_inverse(w, n, layout, v, base, omega)
    for i in range(n):
        put(omega, i, cross(get(q, i), get(omega, i)))


@inlined
def _advance_bodies(
    n, layout, gradient, t0, h, first, count, stages, options, y, memory, p, work, report
):
    q, omega = rows(y, 0, n), rows(y, n, n)
    momentum, momentum_low = rows_of(memory, 0, n), rows_of(memory, 3 * n, n)
    q_low, g = rows_of(memory, 6 * n, n), rows_of(memory, 9 * n, n)
    history, w = tail(memory, 12 * n), tail(p, packed_size(n, layout) // 2)
    base, v, ends = rows_of(work, 0, n), rows_of(work, 3 * n, n), rows_of(work, 6 * n, n)
    forces, f, multipliers = rows_of(work, 9 * n, n), tail(work, 12 * n), tail(work, 13 * n)
    a = tail(work, 14 * n)
    scratch = tail(a, factors_size(n, layout))
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
                put(forces, i, axpy(-kick, get(g, i), get(momentum, i)))
                put(v, i, scale(0.0, get(g, i)))
            apply_inverse(w, n, layout, forces, v, base)
            recent = tail(history, s * HISTORY * n)
            _extrapolate(recent, k, n, multipliers)
            ok = _solve_multipliers(
                w, n, layout, q, base, drift, options[0], v, multipliers, ends, a, f, forces,
                report, k,
            )  # fmt: skip
            now = tail(recent, (k % HISTORY) * n)
            for i in range(n):
                now[i] = multipliers[i]
                force = axpy(-kick, get(g, i), scale(multipliers[i], get(q, i)))
                increment(momentum, momentum_low, i, force)
            for i in range(n):
                increment(q, q_low, i, scale(drift, get(v, i)))
            poison(q, ok)
            passed += stage
            gradient(t0 + k * h + passed * h, y, p, g, scratch)
            previous = stage
    _synchronize(w, n, layout, q, momentum, g, half * previous, v, base, a, multipliers, omega)


def _advance_full(
    gradient, projection, t0, h, first, count, stages, options, y, memory, p, work, report
):
    n = y.shape[0] // 2
    if n == 2:  # the same code, unrolled
        _advance_bodies(
            2, FULL, gradient, t0, h, first, count, stages, options, y, memory, p, work, report
        )
    else:
        _advance_bodies(
            n, FULL, gradient, t0, h, first, count, stages, options, y, memory, p, work, report
        )


def _advance_chain(
    gradient, projection, t0, h, first, count, stages, options, y, memory, p, work, report
):
    _advance_bodies(
        y.shape[0] // 2, CHAIN, gradient, t0, h, first, count, stages, options, y, memory, p, work,
        report,
    )  # fmt: skip


advance_implicit = {
    FULL: Kernel(_advance_full, method_signature),
    CHAIN: Kernel(_advance_chain, method_signature),
}


# --- the method --------------------------------------------------------------------------------


def _bind(form, integrator):
    n, stages = form.bodies, len(integrator.stages)
    gradient = form.net_gradient
    own_work = gradient.work(form.rows)
    explicit = form.diagonal
    return Problem(
        advance=advance_explicit if explicit else advance_implicit[form.layout],
        function=gradient,
        projection=gradient,  # not called
        monitor=form.monitor(),
        constants=integrator.stages,
        options=np.array([integrator.options["solver_tolerance"]]),
        parameters=form.packed,
        rows=form.rows,
        memory=explicit_memory(n, stages) if explicit else implicit_memory(n, stages),
        work=own_work + (0 if explicit else implicit_work(n, form.layout)),
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
    takes_force=False,
    options={
        "solver_tolerance": Option(
            0.0, "largest residual of |q|² at which the implicit solver may stop; 0: round-off"
        ),
    },
)
