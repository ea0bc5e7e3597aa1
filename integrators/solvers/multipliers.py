"""The multipliers of an implicit variational step, by Newton's method.

Unknown are the λ_i in  p_i' = p_i − κ ∂V_i + λ_i q_i,  v = M⁻¹ p',  δ_i = c h v_i,  from
    2 q_i·δ_i + δ_i·δ_i = 1 − q_i·q_i,
which asks for |q_i + δ_i| = 1 and so restores the length. Kicks along q_i and drifts along
M⁻¹p change no momentum map of (q, p), whatever the λ; lengths and energy, and a momentum that
is computed from ω, feel a loose tolerance.
"""

import math

from integrators.compiler.failures import fail
from integrators.compiler.kernels import inlined
from integrators.compiler.lanes import any_lane, fma, select
from integrators.compiler.vectors import axpy, dot, get, lacking, put, scale
from integrators.compiler.views import tail
from integrators.solvers.constraints import apply_inverse, factor_constraints, solve_constraints
from integrators.status import ITERATIONS, ITERATIONS_MAX, NOT_CONVERGED

MAX_ITERATIONS = 60
ROUND_OFF = 4.0 * 2.0**-52  # of a residual, relative to the bodies' moves
ACCEPTABLE = 1e-12  # residual of |q|² that a solution may have; round-off is far below
HISTORY = 3  # steps whose multipliers start the next solve


@inlined
def extrapolate(history, k, n, multipliers):
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
        f[i] = fma(2.0, along, square) - lacking(1.0, x)
        worst = worst + (abs(f[i]) + select(along + length > 0.0, 0.0, 1.0))
        squares = squares + square
    return worst, squares


@inlined
def solve_multipliers(
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
            better = fma(-0.5 / drift, f[i], multipliers[i])
            multipliers[i] = select(active, better, multipliers[i])
        iterations = select(active, iterations + 1.0, iterations)
        last = select(active, residual, last)
    report[ITERATIONS] = report[ITERATIONS] + iterations
    most = report[ITERATIONS_MAX]
    report[ITERATIONS_MAX] = select(iterations > most, iterations, most)
    fail(report, residual <= acceptable, NOT_CONVERGED, k, residual)
    return residual <= acceptable
