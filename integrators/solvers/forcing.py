"""Non-conservative forces in a variational step: the discrete Lagrange–d'Alembert principle.

The discrete forces are F_d⁻ = (h/2) F(t_k, q_k, ω_k) at the step's start and
F_d⁺ = (h/2) F(t_{k+1}, q_{k+1}, ω_{k+1}) at its end (Marsden and West, *Discrete mechanics and
variational integrators*, Acta Numerica 2001, §3.2), so ∂V − F stands where ∂V does. The ω of a
step is that of its momentum: the first half kick is explicit in the force and the second
implicit, each is the other's adjoint, and the step stays symmetric and of order 2. What the same
forces do in the step, W' = W + (h/2)(P_k + P_{k+1}) with P = Σ F_i·q̇_i, is part of the map, so
compositions raise its order too.
"""

import math

from integrators.compiler.kernels import Inlined, inlined, varying
from integrators.compiler.lanes import any_lane, by_precision, eight, infinite, select
from integrators.compiler.vectors import dot, get, increment, put, scale, sub
from integrators.compiler.views import rows
from integrators.solvers.failures import fail, poison
from integrators.solvers.moving import (
    carry,
    lose,
    lost_unless,
    tangent_squares,
    tangents_of,
    unsettled,
)
from integrators.status import EVALUATIONS, NOT_CONVERGED, STATUS_ROW

MAX_ITERATIONS = 60
# In double precision, and in double-double:
ROUND_OFF, PRECISE_ROUND_OFF = 4.0 * 2.0**-52, 8.0 * 2.0**-104  # relative change of ω
ACCEPTABLE, PRECISE_ACCEPTABLE = 1e-12, 1e-27  # that a solution may have; round-off is far below
MEMORY = 6  # elements carried besides ∂V − F: its power, and what the sum of the work lost


@inlined
def settling_rows(n):
    """Rows of scratch that `settle` has."""
    return n + 1


def stage_settler(synchronize: Inlined) -> Inlined:
    """A helper for kernels that ends a stage of a method; see `settle`.

    Parameters
    ----------
    synchronize : callable
        ``synchronize(n, q, g, kick, p, held, omega)`` writes the ω after the half kick by `g`
        from what the method holds between the steps.
    """

    @inlined
    def stand(n, gradient, t, y, p, g, kick, held, between, trial, work):
        pass

    @inlined
    def sweep(n, gradient, t, y, p, g, kick, held, between, trial, work):
        """Move the tangents of ω, ∂V − F and its power, by the same iteration."""
        omega, new = rows(y, n, n), rows(trial, 0, n)
        left = size = last = eight(math.inf)
        for _ in range(MAX_ITERATIONS):
            gradient(t, y, p, trial, work)
            for i in range(n + 1):
                carry(g, i, get(trial, i))
            synchronize(n, rows(y, 0, n), g, kick, p, held, new)
            left, size = eight(0.0), eight(0.0)
            for i in range(n):
                moved = sub(tangents_of(get(new, i)), tangents_of(get(omega, i)))
                left, size = left + dot(moved, moved), size + tangent_squares(get(new, i))
                size = size + tangent_squares(get(between, i))
                carry(omega, i, get(new, i))
            if not unsettled(left, last, size):
                break
            last = left
        lose(omega, 0, lost_unless(left, size))

    move = varying(stand, tangents=sweep)

    @inlined
    def settle(
        n, gradient, t, y, p, g, kick, held, between, trial, tolerance, work, report, k
    ):  # fmt: skip
        """Solve ω = synchronize(∂V − F(t, q, ω)) by fixed-point iteration, and add up the work.

        `g`, of n + 2 rows, holds ∂V − F and its power, of the stage's start and then of its end,
        and what the sum of the work lost. `kick` is half the stage; `between` are the
        velocities between the steps, `trial` scratch of n + 1 rows. A lane stops when ω changes by
        round-off (or the tolerance asked for), or little and no longer by half.
        """
        q, omega, done, low = rows(y, 0, n), rows(y, n, n), rows(y, 2 * n, 1), rows(g, n + 1, 1)
        increment(done, low, 0, scale(kick, get(g, n)))
        synchronize(n, q, g, kick, p, held, omega)  # by the last force, to start from
        gradient(t, y, p, g, work)
        none = 0.0 * report[STATUS_ROW]  # of the state's element type, and finite
        last, evaluations = none + infinite(none), none
        acceptable = by_precision(none, ACCEPTABLE, PRECISE_ACCEPTABLE)
        round_off = by_precision(none, ROUND_OFF, PRECISE_ROUND_OFF)
        active = last > 0.0
        residual, size = last, last
        for _ in range(MAX_ITERATIONS):
            synchronize(n, q, g, kick, p, held, trial)
            residual, size = _change(n, omega, trial, between)
            halves = (residual <= 0.5 * last) | (residual > acceptable * size)
            active = active & (residual > max(tolerance, round_off) * size) & halves
            if not any_lane(active):
                break
            for i in range(n):
                for c in range(3):
                    omega[i, c] = select(active, trial[i, c], omega[i, c])
            gradient(t, y, p, g, work)
            evaluations = select(active, evaluations + 1.0, evaluations)
            last = select(active, residual, last)
        report[EVALUATIONS] = report[EVALUATIONS] + evaluations
        for i in range(n):
            put(omega, i, get(trial, i))
        move(n, gradient, t, y, p, g, kick, held, between, trial, work)
        increment(done, low, 0, scale(kick, get(g, n)))
        ok = residual <= max(tolerance, acceptable) * size
        ok = ok & (0.0 * (residual + done[0, 0]) <= 0.0)
        fail(report, ok, NOT_CONVERGED, k, residual)
        poison(y, ok)

    return settle


@inlined
def _change(n, omega, trial, between):
    """Σ |trial − ω| over all components, and the size of the terms that rounding is relative to.

    Sums, since a maximum can lose a NaN.
    """
    residual = 0.0 * omega[0, 0]
    size = 0.0 * omega[0, 0]
    for i in range(n):
        for c in range(3):
            residual = residual + abs(trial[i, c] - omega[i, c])
            size = size + abs(trial[i, c]) + abs(between[i, c])
    return residual, size
