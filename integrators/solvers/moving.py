"""Tangents of solutions of implicit equations: sweeps of the tangents alone.

A solver's iterations end when the values do; their tangents then lag behind. For elements with
tangents a solver goes on with the value kept, until what its equation leaves of the tangents is
at round-off; they are NaN where it does not come to that. Such a sweep solves linear equations,
in which Newton's method, if it is the true one, needs a single step. For others it is nothing.
"""

import math

from integrators.compiler.kernels import inlined
from integrators.compiler.lanes import any_lane, eight, select
from integrators.compiler.tangents import carried, directed, directions
from integrators.compiler.vectors import dot

ROUND_OFF = 2.0**-53  # of what is left of the tangents, relative to them
NEAR = 64.0  # times that: where what is left and falls no more is round-off
ACCEPTABLE = 1e-12  # that a solution may have; round-off is far below


@inlined
def carry(y, i, a):
    """Give row `i` of the stack `y` the tangents of `a`."""
    for c in range(3):
        y[i, c] = carried(y[i, c], a[c])


@inlined
def tangents_of(a):
    """The tangents of a 3-vector, as a 3-vector of lanes."""
    return directions(a[0]), directions(a[1]), directions(a[2])


@inlined
def tangent_squares(a):
    """The sums of their squares over the components of a 3-vector."""
    moving = tangents_of(a)
    return dot(moving, moving)


@inlined
def unsettled(left, last, size):
    """Whether sweeps go on: of sums of squares of what is left, now and before, and of tangents."""
    round_off, near = ROUND_OFF * ROUND_OFF * size, NEAR * NEAR * ROUND_OFF * ROUND_OFF * size
    ended = (left <= round_off) | ((left <= near) & (left > 0.25 * last))
    return any_lane(~ended)


@inlined
def lost_unless(left, size):
    """0, or NaN in the directions that no solution was found for."""
    return select(left <= ACCEPTABLE * ACCEPTABLE * size, eight(0.0), eight(math.nan))


@inlined
def lose(y, begin, lost):
    """Add what `lost_unless` gives to the tangents of a stack, from row `begin` on."""
    for i in range(begin, y.shape[0]):
        for c in range(3):
            y[i, c] = directed(y[i, c], directions(y[i, c]) + lost)
