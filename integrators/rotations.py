"""Rotations in R³, by arithmetic alone: the same bits on every machine, scalar and in lanes."""

import math

from integrators.kernels import inlined
from integrators.lanes import any_lane, select
from integrators.vectors import axpy, cross, dot, scale

DEGREE = 9  # of the series in θ² ≤ 1: the first term left out is below 1e-19
MOST_HALVINGS = 64  # no end for an infinite angle, which becomes NaN
SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(DEGREE + 1))
VERSINE = tuple((-1.0) ** k / math.factorial(2 * k + 2) for k in range(DEGREE + 1))


@inlined
def rotation_coefficients(x):
    """sin θ/θ and (1 − cos θ)/θ² of x = θ².

    A series up to θ = 1; beyond, of an angle that is halved until it is below, and doubled back:
    with a = sin θ/θ and b = (1 − cos θ)/θ², those of 2θ are a (1 − θ² b) and a²/2.
    """
    small = x
    halvings = 0
    while any_lane(small > 1.0) and halvings < MOST_HALVINGS:
        small = select(small > 1.0, 0.25 * small, small)
        halvings += 1
    a, b = 0.0 * x + SINE[DEGREE], 0.0 * x + VERSINE[DEGREE]
    for k in range(DEGREE - 1, -1, -1):
        a = a * small + SINE[k]
        b = b * small + VERSINE[k]
    for _ in range(halvings):
        more = small < x  # exact: only factors of 4 are between them
        a, b = select(more, a * (1.0 - small * b), a), select(more, 0.5 * (a * a), b)
        small = select(more, 4.0 * small, small)
    return a, b


@inlined
def turning(axis, w):
    """The increment that turns `w` about `axis` by |axis|: w' = axis × w, for a unit of time."""
    a, b = rotation_coefficients(dot(axis, axis))
    d = cross(axis, w)
    return axpy(b, cross(axis, d), scale(a, d))
