"""Jacobi's elliptic functions, by arithmetic alone: the same bits on every machine and in lanes.

With the complementary modulus k' = b/a the functions here are of the time t at the rate a:
sn(at, k)/a, cn(at, k) and dn(at, k). By Landen's descending transformation they are rational in
those of the arithmetic and the geometric mean of a and b, whose modulus is the square of the old
one's fourth part or less, and so on until it vanishes and the functions are circular. Sums have
terms of one sign, so that cn and dn keep their digits as k → 1, where they vanish.

Source: Abramowitz and Stegun, *Handbook of Mathematical Functions*, 16.4 and 16.12.
"""

import functools
import math
from fractions import Fraction

from integrators.compiler.double_double import PI
from integrators.compiler.kernels import Inlined, inlined, varying
from integrators.compiler.lanes import all_lanes, fma, nearest, select, sqrt
from integrators.lie_groups.rotations import rotation_coefficients

LEVELS, MOST_LEVELS = 6, 12  # of means: for k' above `MODERATE`, and down to 1e-150
MODERATE = 2.5e-7  # k'² of the former
LEAST = 1e-300  # k'²: closer to 1 no modulus is
SATURATED = 300.0  # a t at which functions of this modulus are still those of k = 1, and vanish
PI_LOW = 1.2246467991473532e-16  # π less its double
PI_LEAST = float(PI - Fraction(math.pi) - Fraction(PI_LOW))


@inlined
def _usually_reduced(angle, turns):
    return fma(-turns, PI_LOW, fma(-turns, math.pi, angle))


@inlined
def _precisely_reduced(angle, turns):
    return fma(-turns, PI_LEAST, _usually_reduced(angle, turns))


_reduced = varying(_usually_reduced, double_double=_precisely_reduced)
"""An angle less so many times π."""


@inlined
def _circular(a, t):
    """sin(at)/a and cos(at); of an angle that is brought between −π/2 and π/2."""
    angle = a * t
    turns = nearest(angle * (1.0 / math.pi))
    left = _reduced(angle, turns)
    odd = turns - 2.0 * nearest(0.5 * turns)
    sign = 1.0 - 2.0 * (odd * odd)
    x = left * left
    sine, versine = rotation_coefficients(x)
    return sign, left, sine, sign * fma(-versine, x, 1.0)


@functools.cache
def _functions_by_means(levels: int) -> Inlined:
    """The functions by `levels` steps of the arithmetic-geometric mean."""
    if not levels:

        @inlined
        def circular(a, b, g, t):
            rate = 0.5 * (a + b)
            sign, left, sine, cosine = _circular(rate, t)
            still = rate <= 0.0
            s = select(still, t, sign * sine * left / select(still, 1.0, rate))
            return s, cosine, 1.0 + 0.0 * s

        return circular
    of_means = _functions_by_means(levels - 1)

    @inlined
    def functions(a, b, g, t):
        mean, half = 0.5 * (a + b), 0.5 * (a - b)
        s, cn, dn = of_means(mean, sqrt(a * b), 0.25 * half * half, t)
        square = s * s
        q = g * square
        inverse = 1.0 / (1.0 + q)
        numerator = select(q < 0.5, 1.0 - q, fma(b * mean, square, cn * cn))
        return s * inverse, cn * dn * inverse, numerator * inverse

    return functions


_few, _many = (  # of double-double one more: a level squares what is missing
    varying(_functions_by_means(levels), double_double=_functions_by_means(levels + 1))
    for levels in (LEVELS, MOST_LEVELS)
)


@inlined
def elliptic_functions(a_squared, b_squared, c_squared, t):
    """sn(at, k)/a, cn(at, k) and dn(at, k), k'² = b²/a²; of a², b² and a² − b², to all digits.

    At a = 0 these are t, 1 and 1. At k = 1 they are hyperbolic and never come back.
    """
    least = LEAST * a_squared
    lowest = b_squared <= least
    a, b = sqrt(a_squared), sqrt(select(lowest, least, b_squared))
    until = SATURATED / select(a > 0.0, a, 1.0)
    far = lowest & (abs(t) > until) & (a > 0.0)
    t = select(far, select(t > 0.0, until, -until), t + 0.0 * a)
    g = 0.25 * c_squared
    s, cn, dn = _few(a, b, g, t)
    moderate = b_squared >= MODERATE * a_squared
    if not all_lanes(moderate):
        other_s, other_cn, other_dn = _many(a, b, g, t)
        s = select(moderate, s, other_s)
        cn, dn = select(moderate, cn, other_cn), select(moderate, dn, other_dn)
    return s, cn, dn
