"""Broyden's method for a few equations, lane by lane, with an inverse that is kept between solves.

An implicit step asks for the z with r(z) = 0. The inverse B of the Jacobian comes from differences,
is corrected by every iteration (Broyden's first method: *A class of methods for solving nonlinear
simultaneous equations*, 1965) and serves the next steps; it is taken anew where residuals do not
fall. Unknowns have `scales`, the reciprocals of their sizes: what is least in Broyden's correction,
and which pivots are large, does not depend on units then.

All arrays are flat; matrices lie row by row.
"""

from integrators.kernels import inlined
from integrators.lanes import any_lane, select

DEPTH = 5  # of the last solutions, from whose differences the next one is predicted
LEAST = 0.1  # of sᵀBy relative to sᵀs, below which B is not corrected


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

    Gauss–Jordan elimination with row pivots, which each lane chooses for itself.
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
def take_step(inverse, n, scales, r, step, u, v, weighted, corrects):
    """Correct B by the last step, where `corrects` holds, and write the next one to `step`.

    With s the last step, u = B r and y the change of the residual, B y = u + s; so
    B ← B − u sᵀB/(sᵀ(u + s)), and the step is −u sᵀs/(sᵀ(u + s)); products of s are scaled ones.
    Elsewhere it is −u. `u`, `v` and `weighted` are scratch.
    """
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
        step[i] = -select(usable, square / along, 1.0 + 0.0 * square) * u[i]
