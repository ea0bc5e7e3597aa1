"""Rotations in R³, by arithmetic alone: the same bits on every machine, scalar and in lanes."""

import functools
import math
from collections.abc import Sequence
from fractions import Fraction

from integrators.compiler.double_double import high_part, split_into_columns
from integrators.compiler.kernels import inlined, varying
from integrators.compiler.lanes import all_lanes, any_lane, fma, number, select
from integrators.compiler.vectors import add, axpy, cross, dot, scale

TERMS = 20  # of the power series in θ² that the polynomials come from
MOST_HALVINGS = 64  # so that an infinite angle ends; what comes out of it is not finite


@functools.cache
def chebyshev(count: int) -> list[list[int]]:
    """The first Chebyshev polynomials on [0, 1], integer coefficients lowest power first."""
    found = [[1], [-1, 2]]
    while len(found) < count:
        raised, last, before = [0, *found[-1]], [*found[-1], 0], [*found[-2], 0, 0]
        terms = zip(raised, last, before, strict=True)
        found.append([2 * (2 * r - c) - b for r, c, b in terms])
    return found[:count]


def economize_series_exactly(
    series: Sequence[Fraction], largest: float, degree: int
) -> tuple[Fraction, ...]:
    """The coefficients of a polynomial of low degree, almost the nearest to a power series.

    Nearest by the largest difference on [0, `largest`]. Of the series' highest power so much of
    a Chebyshev polynomial is taken away that it vanishes, again and again; without rounding but
    for the last, and in integers, since fractions would be reduced each time.

    Parameters
    ----------
    series : list of Fraction
        Coefficients, lowest power first.
    largest : float
    degree : int

    Returns
    -------
    tuple of Fraction
    """
    powers = [Fraction(largest) ** k for k in range(len(series))]
    scaled = [c * power for c, power in zip(series, powers, strict=True)]
    common = math.lcm(*(c.denominator for c in scaled))
    left = [c.numerator * (common // c.denominator) for c in scaled]
    for polynomial in reversed(chebyshev(len(series))[degree + 1 :]):
        highest = left.pop()
        common *= polynomial[-1]
        left = [polynomial[-1] * c - highest * t for c, t in zip(left, polynomial, strict=False)]
    return tuple(Fraction(c, common) / p for c, p in zip(left, powers, strict=False))


def economize_series(series: Sequence[Fraction], largest: float, degree: int) -> tuple[float, ...]:
    """The coefficients of `economize_series_exactly` as floats."""
    return tuple(map(float, economize_series_exactly(series, largest, degree)))


SINE = [Fraction((-1) ** k, math.factorial(2 * k + 1)) for k in range(TERMS)]  # sin θ/θ
VERSINE = [Fraction((-1) ** k, math.factorial(2 * k + 2)) for k in range(TERMS)]  # (1−cos θ)/θ²
CUBIC = [Fraction((-1) ** k, math.factorial(2 * k + 3)) for k in range(TERMS)]  # (θ − sin θ)/θ³

# Up to these θ² the polynomials miss by 1e-20 at most. Their own error is a smooth function of the
# angle, and of one sign for long: had it a hundredth of round-off's size, turned vectors would
# grow by θ² times that in every turn, and energies drift.
SMALL, SMALL_DEGREE = 0.05, 5
MEDIUM, MEDIUM_DEGREE = 0.4, 7
LARGE, LARGE_DEGREE = 4.0, 9
SMALL_SINE = economize_series(SINE, SMALL, SMALL_DEGREE)
SMALL_VERSINE = economize_series(VERSINE, SMALL, SMALL_DEGREE)
MEDIUM_SINE = economize_series(SINE, MEDIUM, MEDIUM_DEGREE)
MEDIUM_VERSINE = economize_series(VERSINE, MEDIUM, MEDIUM_DEGREE)
LARGE_SINE = economize_series(SINE, LARGE, LARGE_DEGREE)
LARGE_VERSINE = economize_series(VERSINE, LARGE, LARGE_DEGREE)
# For double-double, by 1e-32, and from which power on doubles have digits enough.
PRECISE_SMALL, PRECISE_SMALL_DEGREE, SMALL_IN_DOUBLE = 0.05, 8, 6
PRECISE, PRECISE_DEGREE, IN_DOUBLE = 0.5, 11, 8
PRECISE_SMALL_SINE, PRECISE_SMALL_VERSINE = (
    split_into_columns(economize_series_exactly(series, PRECISE_SMALL, PRECISE_SMALL_DEGREE))
    for series in (SINE, VERSINE)
)
PRECISE_SINE, PRECISE_VERSINE, PRECISE_CUBIC = (
    split_into_columns(economize_series_exactly(series, PRECISE, PRECISE_DEGREE))
    for series in (SINE, VERSINE, CUBIC)
)


@inlined
def quintic(c, x, square):
    """The polynomial of degree 5, so that few operations wait for another; c_0 is added last."""
    high = fma(square, fma(c[5], x, c[4]), fma(c[3], x, c[2]))
    return c[0] + fma(c[1], x, square * high)


@inlined
def septic(c, x, square):
    """The polynomial of degree 7, in the same way."""
    high = fma(square, fma(c[7], x, c[6]), fma(c[5], x, c[4]))
    return c[0] + fma(c[1], x, square * fma(square, high, fma(c[3], x, c[2])))


@inlined
def precise_polynomial(c, degree, in_double, x):
    """The polynomial of a double-double whose coefficients have high and low parts.

    From the power `in_double` on it is computed in doubles.
    """
    near = high_part(x)
    rest = c[0][degree] + 0.0 * near
    for k in range(degree - 1, in_double - 1, -1):
        rest = fma(rest, near, c[0][k])
    total = x * rest + number(x, c[0][in_double - 1], c[1][in_double - 1])
    for k in range(in_double - 2, -1, -1):
        total = total * x + number(x, c[0][k], c[1][k])
    return total


@inlined
def precise_motion_coefficients(x):
    """sin θ/θ, (1 − cos θ)/θ² and (θ − sin θ)/θ³ of any x = θ² to the digits of double-double.

    The angle is halved until it is below the polynomials' bound; of 2θ they are a (1 − θ²b), a²/2
    and (c + a b)/4.
    """
    part = x
    halvings = 0
    while any_lane(part > PRECISE) and halvings < MOST_HALVINGS:
        part = select(part > PRECISE, 0.25 * part, part)
        halvings += 1
    a = precise_polynomial(PRECISE_SINE, PRECISE_DEGREE, IN_DOUBLE, part)
    b = precise_polynomial(PRECISE_VERSINE, PRECISE_DEGREE, IN_DOUBLE, part)
    c = precise_polynomial(PRECISE_CUBIC, PRECISE_DEGREE, IN_DOUBLE, part)
    for _ in range(halvings):
        more = part < x  # exact: only factors of 4 are between them
        c = select(more, 0.25 * (c + a * b), c)
        a, b = select(more, a * (1.0 - part * b), a), select(more, 0.5 * (a * a), b)
        part = select(more, 4.0 * part, part)
    return a, b, c


@inlined
def _precise_coefficients(x):
    """sin θ/θ and (1 − cos θ)/θ² of x = θ² to the digits of double-double."""
    a = precise_polynomial(PRECISE_SMALL_SINE, PRECISE_SMALL_DEGREE, SMALL_IN_DOUBLE, x)
    b = precise_polynomial(PRECISE_SMALL_VERSINE, PRECISE_SMALL_DEGREE, SMALL_IN_DOUBLE, x)
    small = x <= PRECISE_SMALL
    if not all_lanes(small):
        other_a, other_b, _ = precise_motion_coefficients(x)
        a, b = select(small, a, other_a), select(small, b, other_b)
    return a, b


@inlined
def _small_coefficients(x):
    square = x * x
    return quintic(SMALL_SINE, x, square), quintic(SMALL_VERSINE, x, square)


small_coefficients = varying(_small_coefficients, double_double=_precise_coefficients)
"""sin θ/θ and (1 − cos θ)/θ² of x = θ² up to `SMALL`."""


@inlined
def _medium_coefficients(x):
    square = x * x
    return septic(MEDIUM_SINE, x, square), septic(MEDIUM_VERSINE, x, square)


medium_coefficients = varying(_medium_coefficients, double_double=_precise_coefficients)
"""sin θ/θ and (1 − cos θ)/θ² of x = θ² up to `MEDIUM`."""


@inlined
def _any_angle(x):
    """By the longer polynomials, of an angle that is halved until it is below their bound.

    With a = sin θ/θ and b = (1 − cos θ)/θ², those of 2θ are a (1 − θ² b) and a²/2.
    """
    part = x
    halvings = 0
    while any_lane(part > LARGE) and halvings < MOST_HALVINGS:
        part = select(part > LARGE, 0.25 * part, part)
        halvings += 1
    a = fma(part, LARGE_SINE[LARGE_DEGREE], LARGE_SINE[LARGE_DEGREE - 1])
    b = fma(part, LARGE_VERSINE[LARGE_DEGREE], LARGE_VERSINE[LARGE_DEGREE - 1])
    for k in range(LARGE_DEGREE - 2, -1, -1):
        a = fma(a, part, LARGE_SINE[k])
        b = fma(b, part, LARGE_VERSINE[k])
    for _ in range(halvings):
        more = part < x  # exact: only factors of 4 are between them
        a, b = select(more, a * (1.0 - part * b), a), select(more, 0.5 * (a * a), b)
        part = select(more, 4.0 * part, part)
    return a, b


@inlined
def _rotation_coefficients(x):
    a, b = small_coefficients(x)
    small = x <= SMALL
    if not all_lanes(small):
        other_a, other_b = _any_angle(x)
        a, b = select(small, a, other_a), select(small, b, other_b)
    return a, b


rotation_coefficients = varying(_rotation_coefficients, double_double=_precise_coefficients)
"""sin θ/θ and (1 − cos θ)/θ² of x = θ², by polynomials; short ones for small angles."""


@inlined
def turning(axis, w):
    """The increment that turns `w` about `axis` by |axis|: w' = axis × w, for a unit of time.

    Parameters
    ----------
    axis : tuple of 3 numbers or lanes
        Its length is the angle, in radians.
    w : tuple of 3 numbers or lanes

    Returns
    -------
    tuple of 3 numbers or lanes
        To be added to `w`.
    """
    a, b = rotation_coefficients(dot(axis, axis))
    d = cross(axis, w)
    return axpy(b, cross(axis, d), scale(a, d))


@inlined
def turning_unit(axis, q):
    """The increment that turns a unit vector, and leads it back to unit length.

    Parameters
    ----------
    axis : tuple of 3 numbers or lanes
        Its length is the angle, in radians.
    q : tuple of 3 numbers or lanes

    Returns
    -------
    tuple of 3 numbers or lanes
        To be added to `q`.
    """
    d = turning(axis, q)
    return axpy(0.5 * (1.0 - dot(q, q)), add(q, d), d)
