"""Fixed points of stacks of vectors, lane by lane, accelerated where plain iteration is slow.

An implicit rule on spins asks for the vectors u at which it takes the gradient. From a start
extrapolated through the last steps, plain iteration needs a few evaluations while h times the
frequency is small. Where it is not done after `PLAIN` of them, Anderson's acceleration with two
differences goes on: it needs no derivative (Walker and Ni, *Anderson acceleration for fixed-point
iterations*, 2011).

Energies of long runs should feel round-off as a random walk (Hairer, McLachlan and Razakarivony,
*Achieving Brouwer's law with implicit Runge–Kutta methods*, 2008). What a solve leaves of its error
is alike in all steps and so grows like t, however small: an iteration goes on to `SMOOTH`, which
is estimated since round-off hides it, and starts from either side in turn. After acceleration an
error of round-off's size is left: so where it takes more than `PLAIN` evaluations, at coarse steps.
"""

import math

import numpy as np

from integrators.compiler.kernels import Inlined, inlined, varying
from integrators.compiler.lanes import (
    any_lane,
    by_precision,
    eight,
    infinite,
    select,
    sqrt,
    value_of,
)
from integrators.compiler.tangents import carried, directed, over_directions
from integrators.compiler.vectors import axpy, dot, get, put, scale, sub
from integrators.compiler.views import rows_of, tail
from integrators.precision import DOUBLE_DOUBLE
from integrators.solvers.failures import fail
from integrators.solvers.moving import (
    carry,
    lose,
    lost_unless,
    tangent_squares,
    tangents_of,
    unsettled,
)
from integrators.status import (
    COMPLETE,
    EVALUATIONS,
    ITERATIONS,
    ITERATIONS_MAX,
    NOT_CONVERGED,
    STATUS_ROW,
)

# In double precision, and in double-double:
DEPTH, PRECISE_DEPTH = 8, 16  # of the last solutions, through which a polynomial starts the next
PLAIN, PRECISE_PLAIN = 10, 24  # evaluations before acceleration
MOST, PRECISE_MOST = 120, 240  # evaluations in all
ROUND_OFF, PRECISE_ROUND_OFF = 2.0**-53, 2.0**-103  # of a residual, root mean square of vectors
ACCEPTABLE, PRECISE_ACCEPTABLE = 1e-12, 1e-27  # residual of a solution; round-off is far below
SMOOTH, PRECISE_SMOOTH = 2.0**-74, 2.0**-110  # what is left of a solution's error, but round-off
NEAR = 64.0  # times round-off: where an accelerated residual may rise
PARALLEL = 1e-12  # sine² of the angle between two differences below which the newer one counts
WORK = 27  # elements of scratch for each vector


@inlined
def depth_of(y):
    """Number of past solutions that are kept, for the element type of the stack `y`."""
    return by_precision(y[0, 0], DEPTH, PRECISE_DEPTH)


def depth_of_arithmetic(arithmetic: str) -> int:
    """Number of past solutions that are kept in an arithmetic."""
    return PRECISE_DEPTH if arithmetic == DOUBLE_DOUBLE else DEPTH


def _shares_of_solutions(side: float, known: int) -> np.ndarray:
    """The share of each of so many last solutions in the start; see `predict`."""
    shares = np.zeros(PRECISE_DEPTH + 1)
    m, difference = max(known - 1, 1), 1.0  # (−1)^{j−1} C(m, j−1)
    for j in range(1, known + 1):
        weight = -difference * (m - j + 1) / j  # (−1)^j C(m, j)
        shares[j] = (side if known > 1 else 0.0) * difference - weight
        difference = weight
    return shares


SHARES = np.array(
    [[_shares_of_solutions(side, k) for k in range(PRECISE_DEPTH + 1)] for side in (0.0, 2.0)]
)


@inlined
def predict(recent, k, w, u):
    """The start of step k: a polynomial through the last solutions, beyond it in odd steps.

    P_m u = Σ_j (−1)^{j−1} C(m, j) u_{k−j} over j = 1 … m misses u_k by about ∇^m u, which changes
    little from step to step; it is rounded up to 2^m times as much as they are. Where an iteration
    ends, on the grid of floating point, depends on the side it comes from: odd steps start at
    P_m u + 2 ∇^m u, on the other side, or energies would drift.
    """
    n = w.shape[0]
    depth = depth_of(w)
    known = min(k, depth)
    for i in range(n):
        start = get(w, i)
        for j in range(1, known + 1):
            before = rows_of(recent, (k - j) % depth * 3 * n, n)
            share, part = SHARES[k % 2, known, j], get(before, i)
            start = scale(share, part) if j == 1 else axpy(share, part, start)
        put(u, i, start)


@inlined
def remember(recent, k, u):
    """Keep the solution of step k for the starts of the next."""
    n = u.shape[0]
    oldest = rows_of(recent, k % depth_of(u) * 3 * n, n)
    for i in range(n):
        put(oldest, i, get(u, i))


@inlined
def put_where(active, y, i, a):
    """Write `a` to row `i` of `y` in the active lanes."""
    for c in range(3):
        y[i, c] = select(active, a[c], y[i, c])


def accelerated_iteration(image: Inlined, settle: Inlined) -> Inlined:
    """An accelerated iteration of u = G(u); arguments as in `fixed_point_solver`.

    Returns
    -------
    callable
        Inlined; ``accelerate(h, w, g, u, inverse, keep, p, change, arrays, active, j, begin)``
        takes the j-th one in the active lanes, and returns Σ|G(u) − u|².
    """

    @inlined
    def accelerate(h, w, g, u, inverse, keep, p, change, arrays, active, j, begin):
        """Anderson's next u from G(u), f = G(u) − u and their last two differences; |f|²."""
        n, m = w.shape[0], u.shape[0]
        f, values = rows_of(arrays, 0, m), rows_of(arrays, 3 * m, m)
        newer, older = tail(arrays, (6 + 6 * (j % 2)) * m), tail(arrays, (12 - 6 * (j % 2)) * m)
        squares = 0.0 * w[0, 0]
        for i in range(begin, m):
            x = get(u, i)
            d, new, root = image(h, w, g, x, inverse, keep, p, n, i)
            moved = sub(new, x)
            squares = squares + dot(moved, moved)
            put_where(active, change, i, d)
            inverse[i] = select(active, root, inverse[i])
            put(rows_of(newer, 0, m), i, sub(moved, get(f, i)))
            put(rows_of(newer, 3 * m, m), i, sub(new, get(values, i)))
            put(f, i, moved)
            put(values, i, new)
        alpha, beta = mixing(f, newer, older, j, begin)
        alpha, beta = value_of(alpha), value_of(beta)
        for i in range(begin, m):
            new = axpy(-alpha, get(rows_of(newer, 3 * m, m), i), get(values, i))
            new = axpy(-beta, get(rows_of(older, 3 * m, m), i), new)
            put_where(active, u, i, settle(new, keep, p, n, i))
        return squares

    return accelerate


def tangent_sweeps(image: Inlined, evaluate: Inlined) -> Inlined:
    """The sweeps of tangents that follow a solve of u = G(u); arguments as in `fixed_point_solver`.

    Returns
    -------
    callable
        ``move(function, time, h, w, p, own, u, inverse, keep, change, work, begin)`` gives `u`
        and `change` the tangents of the solution; accelerated, since slow iterations are.
    """

    @inlined
    def none(function, time, h, w, p, own, u, inverse, keep, change, work, begin):
        pass

    @inlined
    def sweep(function, time, h, w, p, own, u, inverse, keep, change, work, begin):
        n, m = w.shape[0], u.shape[0]
        g, arrays, scratch = (
            rows_of(work, 0, m),
            over_directions(tail(work, 3 * m)),
            tail(work, WORK * m),
        )
        f, values = rows_of(arrays, 0, m), rows_of(arrays, 3 * m, m)
        before = eight(0.0)
        for i in range(n):
            before = before + tangent_squares(get(w, i))
        left, last, size = before, eight(math.inf), before
        for j in range(MOST):
            evaluate(function, time, h, w, u, p, own, g, scratch)
            newer, older = tail(arrays, (6 + 6 * (j % 2)) * m), tail(arrays, (12 - 6 * (j % 2)) * m)
            left, size = eight(0.0), eight(0.0)
            for i in range(begin, m):
                d, image_of, root = image(h, w, g, get(u, i), inverse, keep, p, n, i)
                carry(change, i, d)
                inverse[i] = carried(inverse[i], root)
                new, here = tangents_of(image_of), tangents_of(get(u, i))
                moved = sub(new, here)
                left, size = left + dot(moved, moved), size + dot(new, new)
                put(rows_of(newer, 0, m), i, sub(moved, get(f, i)))
                put(rows_of(newer, 3 * m, m), i, sub(new, get(values, i)))
                put(f, i, moved)
                put(values, i, new)
            alpha, beta = mixing(f, newer, older, j, begin)
            for i in range(begin, m):
                new = axpy(-alpha, get(rows_of(newer, 3 * m, m), i), get(values, i))
                new = axpy(-beta, get(rows_of(older, 3 * m, m), i), new)
                for c in range(3):
                    u[i, c] = directed(u[i, c], new[c])
            if not unsettled(left, last, size):
                break
            last = left
        lost = lost_unless(left, size + before)
        lose(u, begin, lost)
        lose(change, begin, lost)

    return varying(none, tangents=sweep)


@inlined
def at_once(function, time, h, w, u, p, own, g, scratch):
    """The gradient at u itself into `g`."""
    function(time, u, own, g, scratch)


def fixed_point_solver(image: Inlined, settle: Inlined, evaluate: Inlined = at_once) -> Inlined:
    """A solver of u = G(u) by rows.

    Parameters
    ----------
    image : callable
        Inlined; ``image(h, w, g, u, inverse, keep, p, n, i)`` gives row i of the step's change
        and of G(u), and what replaces ``inverse[i]``; `g` is the gradient at u, `w` the state.
    settle : callable
        Inlined; ``settle(u, keep, p, n, i)`` gives a vector brought to where row i of G(u) lies.
    evaluate : callable, optional
        Inlined; ``evaluate(function, time, h, w, u, p, own, g, scratch)`` writes to `g`, of as many
        rows as `u`, what `image` needs of the function; unless given, the function at u.

    Returns
    -------
    callable
        Inlined; ``solve(function, time, h, w, p, own, u, inverse, keep, change, work, tolerance,
        report, k, begin)`` leaves the solution in `u` and the change that belongs to it, from row
        `begin` on, and the rows before as they are; returns where it converged. A lane stops when
        what is left of its error would be `SMOOTH`, far below round-off; after acceleration, when
        its residual is at round-off, or small and no longer halves.
    """

    accelerate, move = accelerated_iteration(image, settle), tangent_sweeps(image, evaluate)

    @inlined
    def solve(
        function, time, h, w, p, own, u, inverse, keep, change, work, tolerance, report, k, begin
    ):
        n, m = w.shape[0], u.shape[0]
        g, arrays, scratch = rows_of(work, 0, m), tail(work, 3 * m), tail(work, WORK * m)
        zero = 0.0 * report[ITERATIONS]  # finite, unlike a state after a failure
        residual, last, count = zero + infinite(zero), zero + infinite(zero), zero
        active = last > 0.0
        smooth = zero + infinite(zero)
        plain = by_precision(zero, PLAIN, PRECISE_PLAIN)
        enough = total_of(max(tolerance, by_precision(zero, SMOOTH, PRECISE_SMOOTH)), m - begin)
        rounding = total_of(
            max(tolerance, by_precision(zero, ROUND_OFF, PRECISE_ROUND_OFF)), m - begin
        )
        acceptable = total_of(
            max(tolerance, by_precision(zero, ACCEPTABLE, PRECISE_ACCEPTABLE)), m - begin
        )
        for iteration in range(by_precision(zero, MOST, PRECISE_MOST)):
            evaluate(function, time, h, w, u, p, own, g, scratch)
            squares, differences = zero, zero
            if iteration < plain:
                for i in range(begin, m):
                    x = get(u, i)
                    d, new, root = image(h, w, g, x, inverse, keep, p, n, i)
                    moved = sub(new, x)
                    squares = squares + dot(moved, moved)
                    corrected = sub(d, get(change, i))
                    differences = differences + dot(corrected, corrected)
                    put_where(active, change, i, d)
                    put_where(active, u, i, new)
                    inverse[i] = select(active, root, inverse[i])
            else:
                squares = accelerate(
                    h, w, g, u, inverse, keep, p, change, arrays, active, iteration - plain, begin
                )
            count = select(active, count + 1.0, count)
            # Round-off hides how far a solution still is from where the iteration leads. That is
            # alike in all steps, so that energies would drift; it falls in every iteration by
            # half the ratio by which the change moves with u, and with a margin.
            left = squares
            if 0 < iteration < plain:
                guess = 0.5 * smooth * differences / last
                left = select(guess < squares, guess, squares)
            smooth = left
            residual = select(active, left, residual)
            if iteration < plain:
                active = active & (left > enough)
            else:
                # Accelerated residuals fall unevenly: only near round-off is one that rises the
                # last.
                near = min(acceptable, NEAR * NEAR * rounding)
                halves = (squares <= 0.25 * last) | (squares > near)
                active = active & (left > rounding) & halves
            last = squares
            if not any_lane(active):
                break
        move(function, time, h, w, p, own, u, inverse, keep, change, work, begin)
        note_count(report, count)
        ok = residual <= acceptable
        fail(report, ok, NOT_CONVERGED, k, sqrt(residual / (m - begin)))
        return ok

    return solve


@inlined
def note_count(report, count):
    """Add a solve's evaluations to the report; none after a failure."""
    count = select(report[STATUS_ROW] <= COMPLETE, count, 0.0 * count)
    report[EVALUATIONS] = report[EVALUATIONS] + count
    report[ITERATIONS] = report[ITERATIONS] + count
    most = report[ITERATIONS_MAX]
    report[ITERATIONS_MAX] = select(count > most, count, most)


@inlined
def total_of(root_mean_square, n):
    """The sum of squares over n vectors that have this root mean square."""
    return root_mean_square * root_mean_square * n


@inlined
def mixing(f, newer, older, j, begin):
    """The α and β for which |f − α Δf − β Δf'| is least, of as many differences as there are."""
    zero = 0.0 * f[0, 0]
    if j == 0:
        return zero, zero
    n = f.shape[0]
    a, b = rows_of(newer, 0, n), rows_of(older, 0, n)
    aa, bb, ab, fa, fb = zero, zero, zero, zero, zero
    for i in range(begin, n):
        aa = aa + dot(get(a, i), get(a, i))
        bb = bb + dot(get(b, i), get(b, i))
        ab = ab + dot(get(a, i), get(b, i))
        fa = fa + dot(get(f, i), get(a, i))
        fb = fb + dot(get(f, i), get(b, i))
    alone = select(aa > 0.0, fa / aa, zero)
    if j == 1:
        return alone, zero
    determinant = aa * bb - ab * ab
    both = determinant > PARALLEL * aa * bb
    alpha = select(both, (fa * bb - fb * ab) / determinant, alone)
    return alpha, select(both, (fb * aa - fa * ab) / determinant, zero)
