"""The multipliers of an implicit variational step: by Newton's method, of two bodies by a series.

Unknown are the λ_i in  p_i' = p_i − κ ∂V_i + λ_i q_i,  v = M⁻¹ p',  δ_i = c h v_i,  from
    2 q_i·δ_i + δ_i·δ_i = 1 − q_i·q_i,
which asks for |q_i + δ_i| = 1 and so restores the length. Kicks along q_i and drifts along
M⁻¹p change no momentum map of (q, p), whatever the λ; lengths and energy, and a momentum that
is computed from ω, feel a loose tolerance.
"""

import math

from integrators.compiler.kernels import inlined, varying
from integrators.compiler.lanes import (
    all_lanes,
    any_lane,
    by_precision,
    eight,
    fma,
    infinite,
    rarely,
    select,
)
from integrators.compiler.tangents import carried, directed, directions
from integrators.compiler.vectors import axpy, dot, dot_from, get, lacking, put, scale
from integrators.compiler.views import tail
from integrators.solvers.constraints import apply_inverse, factor_constraints, solve_constraints
from integrators.solvers.failures import fail
from integrators.solvers.inertia import FULL
from integrators.solvers.moving import carry, lose, lost_unless, tangent_squares, unsettled
from integrators.status import ITERATIONS, ITERATIONS_MAX, NOT_CONVERGED

MAX_ITERATIONS = 60
# In double precision, and in double-double:
ROUND_OFF, PRECISE_ROUND_OFF = 4.0 * 2.0**-52, 8.0 * 2.0**-104  # of a residual, relative to moves
ACCEPTABLE, PRECISE_ACCEPTABLE = 1e-12, 1e-27  # residual of |q|²; round-off is far below
CORRECTIONS = 4  # of the series; with 3, one of 100 solves lacks more at practical steps
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
def _stand(w, n, layout, q, forces, drift, v, multipliers, base, ends, a, f):
    pass


@inlined
def _sweep(w, n, layout, q, forces, drift, v, multipliers, base, ends, a, f):
    """Newton's method for the tangents of the multipliers and of v; `base` is M⁻¹ forces."""
    left = size = last = eight(math.inf)
    for _ in range(MAX_ITERATIONS):
        for i in range(n):
            put(forces, i, scale(multipliers[i], get(q, i)))
        apply_inverse(w, n, layout, forces, base, ends)
        left, size = eight(0.0), eight(0.0)
        for i in range(n):
            carry(v, i, get(ends, i))
        _residuals(n, q, v, drift, f)
        for i in range(n):
            moved = directions(f[i])
            left = fma(moved, moved, left)
            size = size + (tangent_squares(get(q, i)) + tangent_squares(scale(drift, get(v, i))))
        if not unsettled(left, last, size):
            break
        last = left
        for i in range(n):
            put(ends, i, axpy(drift, get(v, i), get(q, i)))
        factor_constraints(w, n, layout, ends, q, a)
        solve_constraints(w, n, layout, ends, q, a, f)
        for i in range(n):
            multipliers[i] = carried(multipliers[i], fma(-0.5 / drift, f[i], multipliers[i]))
    lost = lost_unless(left, size)
    lose(v, 0, lost)
    for i in range(n):
        multipliers[i] = directed(multipliers[i], directions(multipliers[i]) + lost)


_move = varying(_stand, tangents=_sweep)


@inlined
def _stand_summed(solved, w, n, layout, q, forces, drift, v, multipliers, base, ends, a, f):
    pass


@inlined
def _sweep_summed(solved, w, n, layout, q, forces, drift, v, multipliers, base, ends, a, f):
    """As `_sweep`, after a series that sufficed: `base` is not known yet."""
    if solved:
        for i in range(n):
            put(base, i, scale(0.0, get(forces, i)))
        apply_inverse(w, n, layout, forces, base, base)
        _sweep(w, n, layout, q, forces, drift, v, multipliers, base, ends, a, f)


_move_summed = varying(_stand_summed, tangents=_sweep_summed)


@inlined
def solve_multipliers(
    w, n, layout, q, forces, drift, tolerance, v, multipliers, base, ends, kept, a, f, report, k
):
    """Solve for the multipliers from their start values; leaves v = M⁻¹(forces + λ q).

    Those of two bodies are summed as a series; where that does not do, and for other bodies and
    looser tolerances, there is Newton's method. Returns where there is a solution. The arrays
    between `multipliers` and `report` are scratch, and `forces` is overwritten.
    """
    solved = 0.0 * multipliers[0] > 0.0  # nowhere
    if n != 2 or layout != FULL or tolerance > 0.0:
        return _iterate(
            w, n, layout, q, forces, drift, tolerance, v, multipliers, base, ends, a, f, solved,
            report, k,
        )  # fmt: skip
    solved, x, y = _sum_series(w, q, forces, drift, v, multipliers)
    ok = solved
    if rarely(not all_lanes(solved)):
        for i in range(2):
            put(kept, i, get(v, i))
        ok = _iterate(
            w, n, layout, q, forces, drift, tolerance, v, multipliers, base, ends, a, f, solved,
            report, k,
        )  # fmt: skip
        for i in range(2):
            for c in range(3):
                v[i, c] = select(solved, kept[i, c], v[i, c])
        x, y = select(solved, x, 0.0 * multipliers[0]), select(solved, y, 0.0 * multipliers[0])
    multipliers[0] = multipliers[0] + x
    multipliers[1] = multipliers[1] + y
    _move_summed(solved, w, n, layout, q, forces, drift, v, multipliers, base, ends, a, f)
    report[ITERATIONS] = report[ITERATIONS] + 1.0
    most = report[ITERATIONS_MAX]
    report[ITERATIONS_MAX] = select(most < 1.0, 1.0 + 0.0 * most, most)
    return ok


@inlined
def _sum_series(w, q, forces, drift, v, multipliers):
    """Correct two multipliers by a series of fixed length; where it suffices, and the corrections.

    With X what is to be added to λ, (|q_i + δ_i|² − 1)/(2 drift) is exactly r + A X + Q(X), where
    Q is quadratic: X = −A⁻¹r − A⁻¹Q(X) is iterated, from one residual r, one Jacobian A and one
    division. No test on a residual ends it on one side of the root, which would do work of one
    sign. It suffices where the next term would be below the round-off of v, and moves are short
    of the horizon. Leaves v of the corrected multipliers.
    """
    q0, q1 = get(q, 0), get(q, 1)
    half, shorter, cosine = 0.5 * drift, -0.5 / drift, dot(q0, q1)
    p0, p1 = axpy(multipliers[0], q0, get(forces, 0)), axpy(multipliers[1], q1, get(forces, 1))
    v0, v1 = axpy(w[1], p1, scale(w[0], p0)), axpy(w[3], p1, scale(w[2], p0))
    square0, square1 = dot(v0, v0), dot(v1, v1)
    along0 = dot_from(shorter * lacking(1.0, q0), q0, v0)
    along1 = dot_from(shorter * lacking(1.0, q1), q1, v1)
    r0, r1 = fma(half, square0, along0), fma(half, square1, along1)
    a00, a01 = fma(drift * w[0], along0, w[0]), fma(drift * w[1], dot(q1, v0), w[1] * cosine)
    a10, a11 = fma(drift * w[2], dot(q0, v1), w[2] * cosine), fma(drift * w[3], along1, w[3])
    inverse = 1.0 / fma(a00, a11, -(a01 * a10))
    # Q_0 = s X² + m XY + t Y² and Q_1 = t X² + n XY + u Y², with X = (X, Y)
    s, t, u = half * w[0] * w[0], half * w[1] * w[1], half * w[3] * w[3]
    m, n = drift * w[0] * w[1] * cosine, drift * w[2] * w[3] * cosine
    x0, y0 = fma(a01, r1, -(a11 * r0)) * inverse, fma(a10, r0, -(a00 * r1)) * inverse
    xs, ys = fma(a01, t, -(a11 * s)) * inverse, fma(a10, s, -(a00 * t)) * inverse
    xm, ym = fma(a01, n, -(a11 * m)) * inverse, fma(a10, m, -(a00 * n)) * inverse
    xt, yt = fma(a01, u, -(a11 * t)) * inverse, fma(a10, t, -(a00 * u)) * inverse
    x, y = x0, y0
    last = abs(x) + abs(y)
    before = last
    for _ in range(CORRECTIONS):
        better_x = fma(x, fma(xs, x, xm * y), fma(xt * y, y, x0))
        better_y = fma(x, fma(ys, x, ym * y), fma(yt * y, y, y0))
        before, last = last, abs(better_x - x) + abs(better_y - y)
        x, y = better_x, better_y
    put(v, 0, axpy(w[0] * x, q0, axpy(w[1] * y, q1, v0)))
    put(v, 1, axpy(w[2] * x, q0, axpy(w[3] * y, q1, v1)))
    squares = square0 + square1
    coming = (w[0] + w[3]) * (last * last)  # over `before`: terms fall like a geometric series
    limit = by_precision(x, ROUND_OFF, PRECISE_ROUND_OFF) * before
    solved = (coming * coming <= limit * limit * squares) & (drift * drift * squares < 1.0)
    return solved, x, y


@inlined
def _iterate(
    w, n, layout, q, forces, drift, tolerance, v, multipliers, base, ends, a, f, solved, report, k
):
    """Newton iterations for the multipliers, but in lanes that are `solved`; leaves their v.

    A lane stops when its residual is at round-off (or at the tolerance asked for), or is small
    and no longer halves.
    """
    for i in range(n):
        put(base, i, scale(0.0, get(forces, i)))
    apply_inverse(w, n, layout, forces, base, base)
    acceptable = max(tolerance, by_precision(base[0, 0], ACCEPTABLE, PRECISE_ACCEPTABLE))
    round_off = by_precision(base[0, 0], ROUND_OFF, PRECISE_ROUND_OFF)
    last = 0.0 * base[0, 0] + infinite(base[0, 0])
    active = ~solved
    iterations = 0.0 * base[0, 0]
    residual = last
    for _ in range(MAX_ITERATIONS):
        for i in range(n):
            put(forces, i, scale(multipliers[i], get(q, i)))
        apply_inverse(w, n, layout, forces, base, v)
        residual, squares = _residuals(n, q, v, drift, f)
        halves = (residual <= 0.5 * last) | (residual > acceptable)
        rounds = residual * residual > (round_off * round_off * n) * squares
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
    _move(w, n, layout, q, forces, drift, v, multipliers, base, ends, a, f)
    report[ITERATIONS] = report[ITERATIONS] + iterations
    most = report[ITERATIONS_MAX]
    report[ITERATIONS_MAX] = select(iterations > most, iterations, most)
    ok = (residual <= acceptable) | solved
    fail(report, ok, NOT_CONVERGED, k, residual)
    return ok
