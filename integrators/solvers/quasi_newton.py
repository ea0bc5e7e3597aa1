"""Broyden's method for a few equations, lane by lane, with an inverse that is kept between solves.

An implicit step asks for the z with r(z) = 0. The inverse B of the Jacobian comes from differences,
is corrected by every iteration (Broyden's first method: *A class of methods for solving nonlinear
simultaneous equations*, 1965) and serves the next steps; it is taken anew where residuals do not
fall. Unknowns have `scales`, the reciprocals of their sizes: what is least in Broyden's correction,
and which pivots are large, does not depend on units then.

All arrays are flat; matrices lie row by row. Of n unknowns ``work`` has z, r, the step, u, v, r
beside z, what belongs to z and to the point beside it, and the scales, n elements each; then the
predictions (``DEPTH n``) and the matrix to invert (2n²).
"""

import math

from integrators.compiler.kernels import Inlined, inlined, varying
from integrators.compiler.lanes import any_lane, by_precision, eight, infinite, select, value_of
from integrators.compiler.tangents import carried, directed, directions
from integrators.compiler.views import tail
from integrators.solvers.moving import lost_unless, unsettled

DEPTH = 5  # of the last solutions, from whose differences the next one is predicted
LEAST = 0.1  # of sᵀBy relative to sᵀs, below which B is not corrected
MOST = 60  # iterations
# In double precision, and in double-double:
ROUND_OFF, PRECISE_ROUND_OFF = 2.0**-51, 2.0**-101  # of a scaled residual
NEAR = 64.0  # times that: where a residual that does not fall is the last
ACCEPTABLE, PRECISE_ACCEPTABLE = 1e-10, 1e-25  # scaled residual that a solution may have
FALLS = 0.25  # of its square in an iteration, if the inverse is good
SHIFT = 2.0**-26  # of the scaled unknowns, for differences

R, STEP, U, V, R_BESIDE, OF_Z, BESIDE, SCALES, TABLE = range(1, 10)  # times n, in `work`
MATRIX = TABLE + DEPTH


@inlined
def work_size(n):
    """Elements of scratch."""
    return MATRIX * n + 2 * n * n


def memory_size(n: int) -> int:
    """Elements that are carried from step to step: B, and the last solutions."""
    return n * n + DEPTH * n


@inlined
def newest(recent, k, n, z):
    """The solution of the step before k."""
    for i in range(n):
        z[i] = recent[(k - 1) % DEPTH * n + i]


@inlined
def predict(recent, k, n, scales, z, table):
    """The start of step k > 0: a polynomial through the last solutions, of the best degree.

    That is the one by which the last solution would have been predicted best: degree j misses it
    by ∇^{j+1} z. `table` has ``DEPTH n`` elements.
    """
    known = min(k, DEPTH)
    for j in range(known):
        for i in range(n):
            table[j * n + i] = recent[(k - 1 - j) % DEPTH * n + i]
    for level in range(1, known):
        for j in range(known - 1, level - 1, -1):
            for i in range(n):
                table[j * n + i] = table[(j - 1) * n + i] - table[j * n + i]
    for i in range(n):
        z[i] = table[i]
    if known > 1:
        least = scaled_square(table, n, n, scales)
        for j in range(1, known - 1):
            size = scaled_square(table, (j + 1) * n, n, scales)
            better = size < least
            least = select(better, size, least)
            for i in range(n):
                table[i] = table[i] + table[j * n + i]
                z[i] = select(better, table[i], z[i])


@inlined
def remember(recent, k, n, z):
    """Keep the solution of step k."""
    for i in range(n):
        recent[k % DEPTH * n + i] = z[i]


@inlined
def scaled_square(x, start, n, scales):
    """Σ (scale_i x_i)² of n elements from `start` on."""
    total = 0.0 * scales[0]
    for i in range(n):
        part = scales[i] * x[start + i]
        total = total + part * part
    return total


@inlined
def set_column(a, j, n, shifted, r, shift, scales):
    """Column j of the Jacobian in the left half of `a`, n × 2n, of scaled unknowns."""
    over = 1.0 / (shift * scales[j])
    for i in range(n):
        a[2 * n * i + j] = scales[i] * (shifted[i] - r[i]) * over


@inlined
def take_inverse(a, n, scales, inverse, renewed):
    """B from the Jacobian in the left half of `a`, where `renewed` holds.

    Gauss–Jordan elimination with row pivots, which each lane chooses for itself. `inverse` may lie
    at the start of `a`.
    """
    width = 2 * n
    for i in range(n):
        for j in range(n):
            a[width * i + n + j] = 0.0 * scales[0] + (1.0 if i == j else 0.0)
    for k in range(n):
        for i in range(k + 1, n):
            larger = abs(a[width * i + k]) > abs(a[width * k + k])
            for j in range(width):
                upper, lower = a[width * k + j], a[width * i + j]
                a[width * k + j] = select(larger, lower, upper)
                a[width * i + j] = select(larger, upper, lower)
        pivot = 1.0 / a[width * k + k]
        for j in range(width):
            a[width * k + j] = a[width * k + j] * pivot
        for i in range(n):
            if i != k:
                factor = a[width * i + k]
                for j in range(width):
                    a[width * i + j] = a[width * i + j] - factor * a[width * k + j]
    for i in range(n):
        for j in range(n):
            fresh = a[width * i + n + j] * scales[j] / scales[i]
            inverse[n * i + j] = select(renewed, fresh, inverse[n * i + j])


@inlined
def take_step(inverse, n, scales, work, corrects, goes):
    """Correct B by the last step, where `corrects` holds, and write the next one where `goes` does.

    With s the last step, u = B r and y the change of the residual, B y = u + s; so
    B ← B − u sᵀB/(sᵀ(u + s)), and the step is −u sᵀs/(sᵀ(u + s)); products of s are scaled ones.
    Elsewhere it is −u.
    """
    r, step, u, v = tail(work, R * n), tail(work, STEP * n), tail(work, U * n), tail(work, V * n)
    weighted = tail(work, R_BESIDE * n)
    along, square = 0.0 * scales[0], 0.0 * scales[0]
    for i in range(n):
        total = inverse[n * i] * r[0]
        for j in range(1, n):
            total = total + inverse[n * i + j] * r[j]
        u[i] = total
        weighted[i] = scales[i] * scales[i] * step[i]
        along = along + weighted[i] * (total + step[i])
        square = square + weighted[i] * step[i]
    # of a step of 0, or in a direction that B has nearly lost, nothing is to be learnt
    usable = corrects & (abs(along) > LEAST * square)
    along = select(usable, along, 1.0 + 0.0 * square)
    if any_lane(usable):
        for j in range(n):
            v[j] = weighted[0] * inverse[j]
        for i in range(1, n):
            for j in range(n):
                v[j] = v[j] + weighted[i] * inverse[n * i + j]
        for i in range(n):
            part = u[i] / along
            for j in range(n):
                kept = inverse[n * i + j]
                inverse[n * i + j] = select(usable, kept - part * v[j], kept)
    for i in range(n):
        step[i] = select(goes, -select(usable, square / along, along) * u[i], step[i])


def _inverse_renewal(residual: Inlined) -> Inlined:
    @inlined
    def renew(given, n, inverse, work, renewed):
        """Take B anew at z, where `renewed` holds, by forward differences."""
        scales, a = tail(work, SCALES * n), tail(work, MATRIX * n)
        for j in range(n):
            kept = work[j]
            work[j] = kept + SHIFT / scales[j]
            residual(given, work, BESIDE * n, R_BESIDE * n)
            set_column(a, j, n, tail(work, R_BESIDE * n), tail(work, n), work[j] - kept, scales)
            work[j] = kept
        take_inverse(a, n, scales, inverse, renewed)

    return renew


def _tangent_sweeps(residual: Inlined, renew: Inlined) -> Inlined:
    @inlined
    def none(given, n, zero, work):
        pass

    @inlined
    def sweep(given, n, zero, work):
        """Newton's method for the tangents of z and of what belongs to it; B is one of its own."""
        r, scales = tail(work, R * n), tail(work, SCALES * n)
        inverse = tail(work, MATRIX * n)  # in the place of the matrix that it is made from
        for i in range(n):
            work[i] = value_of(work[i])
        renew(given, n, inverse, work, zero <= 0.0)
        left = size = last = eight(math.inf)
        for _ in range(MOST):
            residual(given, work, BESIDE * n, R * n)
            left, size = eight(0.0), eight(0.0)
            for i in range(n):
                remains = value_of(scales[i]) * directions(r[i])
                moved = value_of(scales[i]) * directions(work[i])
                left, size = left + remains * remains, size + moved * moved
            if not unsettled(left, last, size):
                break
            last = left
            for i in range(n):
                total = directions(work[i])
                for j in range(n):
                    total = total - value_of(inverse[n * i + j]) * directions(r[j])
                work[i] = directed(work[i], total)
        lost = lost_unless(left, size)
        for i in range(n):
            work[i] = directed(work[i], directions(work[i]) + lost)
            of_z, beside = OF_Z * n + i, BESIDE * n + i
            work[of_z] = carried(work[of_z], work[beside])

    return varying(none, tangents=sweep)


def quasi_newton_solver(residual: Inlined) -> Inlined:
    """A solver of r(z) = 0.

    Parameters
    ----------
    residual : callable
        Inlined; ``residual(given, work, of_z, at)`` writes r of the z in `work` from element `at`
        on, and what else belongs to this z from `of_z` on.

    Returns
    -------
    callable
        Inlined; ``solve(given, n, tolerance, inverse, new, needed, zero, work)`` starts at the z in
        `work`, where `needed` holds, and leaves the solution and what belongs to it there; `new` is
        1 where B is to be taken at the start, `zero` a 0 of the element type. Returns whether each
        lane has a solution, its scaled residual squared, and the evaluations that it took.
    """
    renew = _inverse_renewal(residual)
    move = _tangent_sweeps(residual, renew)

    @inlined
    def solve(given, n, tolerance, inverse, new, needed, zero, work):
        step, scales = tail(work, STEP * n), tail(work, SCALES * n)
        last, squares, count = zero + infinite(zero), zero, zero
        round_off = by_precision(zero, ROUND_OFF, PRECISE_ROUND_OFF)
        limit = by_precision(zero, ACCEPTABLE, PRECISE_ACCEPTABLE)
        fresh, again, full = zero, zero + new, zero  # 1 or 0: of the last step, see below
        active = needed
        enough = max(tolerance, round_off) * max(tolerance, round_off)
        near = max(enough, NEAR * NEAR * round_off * round_off)
        acceptable = max(tolerance, limit) * max(tolerance, limit)
        for iteration in range(MOST):
            residual(given, work, OF_Z * n, R * n)
            squares = scaled_square(work, R * n, n, scales)
            count = select(active, count + 1.0, count)
            if iteration == 0:
                active = active & (squares < infinite(zero))
            falls = squares <= FALLS * last
            at_end = ~falls & ((squares <= near) | ((squares <= acceptable) & (fresh > 0.0)))
            active = active & ~(squares <= enough) & ~at_end
            if not any_lane(active):
                break
            # Where the residual rises, a step by a B that was new is taken back by half; another
            # one in full, and B is taken anew. So it is where the residual hardly falls.
            rises = active & ~(squares < last)
            goes, halved = active & ~rises, rises & (fresh > 0.0)
            renewed = goes & ((again > 0.0) | ~falls)
            if any_lane(renewed):
                renew(given, n, inverse, work, renewed)
                count = select(renewed, count + n, count)
            take_step(inverse, n, scales, work, goes & ~renewed & (full > 0.0), goes)
            for i in range(n):
                back = select(halved, 0.5 * step[i], step[i])
                work[i] = select(active, work[i] + select(goes, step[i], -back), work[i])
                step[i] = select(halved, back, step[i])
            full = select(goes, 1.0 + zero, zero)
            again = select(rises & ~halved, 1.0 + zero, zero)
            fresh = select(renewed | halved, 1.0 + zero, zero)
            last = select(goes, squares, select(halved, last, zero + infinite(zero)))
        move(given, n, zero, work)
        return ~active & (squares <= acceptable), squares, count

    return solve
