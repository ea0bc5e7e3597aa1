"""Exponentials of SO(3) and SE(3), their dexp⁻¹ and brackets, by arithmetic alone.

Elements of so(3) are vectors u ∈ R³, of se(3) pairs (A, a) of a rotation and a translation. With
θ = |A|, exp(A, a) = (R, r) has

    R = 1 + (sin θ/θ) Â + ((1 − cos θ)/θ²) Â²,
    r = a + ((1 − cos θ)/θ²) A × a + ((θ − sin θ)/θ³) A × (A × a),

and dexp⁻¹ is (8) of Celledoni, Çokaj, Leone, Murari and Owren, *Lie group integrators for
mechanical systems*, summed in section 2.3 by g₂(θ) = (1 − (θ/2) cot(θ/2))/θ². Of x = θ²

    g₂ = Σ_k 2/(4π²k² − x) = 2/(4π² − x) + a smooth rest,

so one form serves from 0 to the pole at θ = 2π; the rest is a polynomial, and so is all of g₂
where x is small. The coefficient g̃₂ = g₂'(θ)/θ of se(3) is 2 dg₂/dx.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from integrators.compiler.double_double import PI, split_into_columns
from integrators.compiler.kernels import inlined, varying
from integrators.compiler.lanes import all_lanes, any_lane, fma, select
from integrators.compiler.vectors import add, axpy, cross, dot, scale, sub
from integrators.lie_groups.rotations import (
    CUBIC,
    LARGE,
    LARGE_DEGREE,
    LARGE_SINE,
    LARGE_VERSINE,
    MOST_HALVINGS,
    SMALL,
    SMALL_DEGREE,
    SMALL_SINE,
    SMALL_VERSINE,
    TERMS,
    economize_series,
    economize_series_exactly,
    precise_motion_coefficients,
    precise_polynomial,
    quintic,
    rotation_coefficients,
)

MARGIN = 1e-3  # below 2π, within which dexp⁻¹ is refused: it has a pole there
WIDEST = (2.0 * math.pi - MARGIN) ** 2  # squared angle up to which dexp⁻¹ is taken

# --- coefficients -------------------------------------------------------------------------------

SMALL_CUBIC = economize_series(CUBIC, SMALL, SMALL_DEGREE)
LARGE_CUBIC = economize_series(CUBIC, LARGE, LARGE_DEGREE)

TWO_PI = 2 * PI
POLE = TWO_PI * TWO_PI
POLE_HIGH = float(POLE)
POLE_LOW = float(POLE - Fraction(POLE_HIGH))


def _bernoulli(count: int) -> list[Fraction]:
    """The first Bernoulli numbers, B_0 = 1, B_1 = −1/2."""
    found: list[Fraction] = []
    for m in range(count):
        total = sum((math.comb(m + 1, k) * found[k] for k in range(m)), Fraction(0))
        found.append(Fraction(0 if m else 1) - total / (m + 1))
    return found


REST_TERMS = 32  # that follow one another by a factor of up to 1/4
BERNOULLI = _bernoulli(2 * REST_TERMS + 3)
_G2 = [abs(BERNOULLI[2 * j + 2]) / math.factorial(2 * j + 2) for j in range(REST_TERMS)]  # in x


def _round_to_160_bits(c: Fraction) -> Fraction:
    """A fraction to 160 bits: sums of exact ones would take most of the time of an import."""
    shift = 160 + c.denominator.bit_length() - c.numerator.bit_length()
    return Fraction(round(c * 2**shift), 2**shift)


_REST = [_round_to_160_bits(c - 2 / POLE ** (j + 1)) for j, c in enumerate(_G2)]  # without the pole


def _twice_derivative(series: Sequence[Fraction]) -> list[Fraction]:
    """2 d/dx of a power series."""
    return [2 * (j + 1) * c for j, c in enumerate(series[1:])]


NEAR, NEAR_DEGREE = 1.0, 7  # squared angle up to which g₂ itself is a polynomial
NEAR_G2 = economize_series(_G2[:TERMS], NEAR, NEAR_DEGREE)
NEAR_SLOPE = economize_series(_twice_derivative(_G2[:TERMS]), NEAR, NEAR_DEGREE)
PRECISE_NEAR_DEGREE, G2_IN_DOUBLE = 15, 11
PRECISE_G2 = split_into_columns(economize_series_exactly(_G2[:TERMS], NEAR, PRECISE_NEAR_DEGREE))
PRECISE_SLOPE = split_into_columns(
    economize_series_exactly(_twice_derivative(_G2[: TERMS + 1]), NEAR, PRECISE_NEAR_DEGREE)
)
REST_END, REST_DEGREE = 40.0, 14  # beyond the pole
REST = economize_series(_REST, REST_END, REST_DEGREE)
REST_SLOPE = economize_series(_twice_derivative(_REST), REST_END, REST_DEGREE)


@inlined
def _motion_coefficients(x):
    square = x * x
    a, b = quintic(SMALL_SINE, x, square), quintic(SMALL_VERSINE, x, square)
    c = quintic(SMALL_CUBIC, x, square)
    small = x <= SMALL
    if not all_lanes(small):
        other_a, other_b, other_c = _any_angle(x)
        a, b = select(small, a, other_a), select(small, b, other_b)
        c = select(small, c, other_c)
    return a, b, c


@inlined
def _any_angle(x):
    """By longer polynomials, of an angle that is halved until it is below their bound.

    Of 2θ they are a (1 − θ²b), a²/2 and (c + a b)/4.
    """
    part = x
    halvings = 0
    while any_lane(part > LARGE) and halvings < MOST_HALVINGS:
        part = select(part > LARGE, 0.25 * part, part)
        halvings += 1
    a, b, c = LARGE_SINE[LARGE_DEGREE], LARGE_VERSINE[LARGE_DEGREE], LARGE_CUBIC[LARGE_DEGREE]
    a, b, c = a + 0.0 * part, b + 0.0 * part, c + 0.0 * part
    for k in range(LARGE_DEGREE - 1, -1, -1):
        a = fma(a, part, LARGE_SINE[k])
        b = fma(b, part, LARGE_VERSINE[k])
        c = fma(c, part, LARGE_CUBIC[k])
    for _ in range(halvings):
        more = part < x  # exact: only factors of 4 are between them
        c = select(more, 0.25 * (c + a * b), c)
        a, b = select(more, a * (1.0 - part * b), a), select(more, 0.5 * (a * a), b)
        part = select(more, 4.0 * part, part)
    return a, b, c


motion_coefficients = varying(_motion_coefficients, double_double=precise_motion_coefficients)
"""sin θ/θ, (1 − cos θ)/θ² and (θ − sin θ)/θ³ of x = θ², by polynomials."""


@inlined
def _polynomial(c, degree, x):
    total = c[degree] + 0.0 * x
    for k in range(degree - 1, -1, -1):
        total = fma(total, x, c[k])
    return total


@inlined
def _dexpinv_coefficient(x):
    value = _polynomial(NEAR_G2, NEAR_DEGREE, x)
    near = x <= NEAR
    if not all_lanes(near):
        far = 2.0 / ((POLE_HIGH - x) + POLE_LOW) + _polynomial(REST, REST_DEGREE, x)
        value = select(near, value, far)
    return value


@inlined
def _dexpinv_coefficients(x):
    value, slope = (
        _polynomial(NEAR_G2, NEAR_DEGREE, x),
        _polynomial(NEAR_SLOPE, NEAR_DEGREE, x),
    )
    near = x <= NEAR
    if not all_lanes(near):
        inverse = 1.0 / ((POLE_HIGH - x) + POLE_LOW)
        far = 2.0 * inverse + _polynomial(REST, REST_DEGREE, x)
        steep = 4.0 * (inverse * inverse) + _polynomial(REST_SLOPE, REST_DEGREE, x)
        value, slope = select(near, value, far), select(near, slope, steep)
    return value, slope


@inlined
def _precise_dexpinv_coefficients(x):
    """The same in double-double: where x is not small, g₂ = (1 − a/(2b))/x.

    Here a = sin θ/θ and b = (1 − cos θ)/θ², with da/dx = (1 − x b − a)/(2x) and
    db/dx = (a − 2b)/(2x).
    """
    value = precise_polynomial(PRECISE_G2, PRECISE_NEAR_DEGREE, G2_IN_DOUBLE, x)
    slope = precise_polynomial(PRECISE_SLOPE, PRECISE_NEAR_DEGREE, G2_IN_DOUBLE, x)
    near = x <= NEAR
    if not all_lanes(near):
        over = 1.0 / select(near, 1.0 + 0.0 * x, x)
        a, b = rotation_coefficients(x)
        ratio = 0.5 * a / b
        by_a, by_b = (1.0 - x * b - a) / b, (a - 2.0 * b) * ratio / b
        far = (1.0 - ratio) * over
        steep = -2.0 * over * far - over * over * (0.5 * by_a - by_b)
        value, slope = select(near, value, far), select(near, slope, steep)
    return value, slope


@inlined
def _precise_dexpinv_coefficient(x):
    return _precise_dexpinv_coefficients(x)[0]


dexpinv_coefficient = varying(_dexpinv_coefficient, double_double=_precise_dexpinv_coefficient)
"""g₂ of x = θ² < 4π²."""

dexpinv_coefficients = varying(_dexpinv_coefficients, double_double=_precise_dexpinv_coefficients)
"""g₂ and g̃₂ = 2 dg₂/dx of x = θ² < 4π²."""


# --- so(3) --------------------------------------------------------------------------------------


@inlined
def dexpinv_so3(u, v, side):
    """dexp⁻¹_u(v) and |u|²; `side` −1 for an action from the right, dexp⁻¹ of −u."""
    x = dot(u, u)
    uv = cross(u, v)
    bent = axpy(dexpinv_coefficient(x), cross(u, uv), v)
    return axpy(-0.5 * side, uv, bent), x


# --- se(3) --------------------------------------------------------------------------------------


@inlined
def moved_se3(rotation, translation, q, w):
    """Change of (q, w) under exp(A, a): (q, w) ↦ (R q, R w + r × R q), adjoint action of SE(3)."""
    s, b, c = motion_coefficients(dot(rotation, rotation))
    d = cross(rotation, q)
    dq = axpy(b, cross(rotation, d), scale(s, d))
    shift = cross(rotation, translation)
    r = axpy(c, cross(rotation, shift), axpy(b, shift, translation))
    d = cross(rotation, w)
    dw = axpy(b, cross(rotation, d), scale(s, d))
    return dq, add(dw, cross(r, add(q, dq)))


@inlined
def dexpinv_se3(rotation, translation, v, w):
    """dexp⁻¹_(A,a)(B, b), section 2.3, and |A|²."""
    x = dot(rotation, rotation)
    g, slope = dexpinv_coefficients(x)
    first = cross(rotation, v)
    second = cross(rotation, first)
    mixed = add(cross(translation, v), cross(rotation, w))
    turned = axpy(g, second, axpy(-0.5, first, v))
    bent = add(cross(translation, first), cross(rotation, mixed))
    along = slope * dot(rotation, translation)
    return turned, axpy(along, second, axpy(g, bent, axpy(-0.5, mixed, w))), x


@inlined
def bracket_so3(a, b):
    """[A, B] = A × B; products are rounded alike, so that [B, A] is −[A, B] to the last bit."""
    return (
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )


@inlined
def bracket_se3(rotation, translation, v, w):
    """[(A, a), (B, b)] = (A × B, A × b + a × B)."""
    second = add(bracket_so3(rotation, w), bracket_so3(translation, v))
    return bracket_so3(rotation, v), second


# --- rotation matrices, by their rows -------------------------------------------------------------


@inlined
def turned_rows(u, r0, r1, r2, side):
    """û R, the rows of a rotation matrix turned by u; for `side` −1 it is R û."""
    if side > 0.0:
        return (
            sub(scale(u[1], r2), scale(u[2], r1)),
            sub(scale(u[2], r0), scale(u[0], r2)),
            sub(scale(u[0], r1), scale(u[1], r0)),
        )
    return cross(r0, u), cross(r1, u), cross(r2, u)
