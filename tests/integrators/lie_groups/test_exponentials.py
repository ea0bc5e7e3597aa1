"""Exponentials of SO(3) and SE(3): coefficients beside forty digits, the rest beside matrices."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import scipy.linalg
from array_kernels import on_arrays
from hypothesis import given, settings
from hypothesis import strategies as st

from integrators.compiler.kernels import inlined
from integrators.compiler.vectors import put
from integrators.compiler.views import as_lanes
from integrators.lie_groups import exponentials
from integrators.lie_groups.exponentials import (
    bracket_se3,
    dexpinv_coefficient,
    dexpinv_coefficients,
    dexpinv_se3,
    dexpinv_so3,
    motion_coefficients,
    moved_se3,
    turned_rows,
)

EPSILON = np.finfo(float).eps
WIDEST = math.sqrt(exponentials.WIDEST)
SWITCHES = [
    (0.0, 0.05),
    *((s, np.nextafter(s, 50.0)) for s in (0.05, 1.0, 4.0, 16.0)),
    (exponentials.WIDEST, 1e-18),
]
SQUARES = np.concatenate(
    [
        np.geomspace(1e-9, WIDEST, 30) ** 2,
        np.random.default_rng(3).uniform(0.0, WIDEST, 40) ** 2,
        (WIDEST - np.geomspace(1e-9, 1.0, 20)) ** 2,
        np.ravel(SWITCHES),
    ]
)


# --- what the kernels come to, alone and side by side -------------------------------------------


@inlined
def _fill(values, i, out, k):
    """Coefficients of the square in row i, column 0; then exp, dexp⁻¹ of the rows after it."""
    x = values[i, 0]
    put(out, k, motion_coefficients(x))
    put(out, k + 1, (dexpinv_coefficient(x), *dexpinv_coefficients(x)))
    u = values[i, 0], values[i, 1], values[i, 2]
    a = values[i, 3], values[i, 4], values[i, 5]
    v = values[i, 6], values[i, 7], values[i, 8]
    w = values[i, 9], values[i, 10], values[i, 11]
    one, two = moved_se3(u, a, v, w)
    put(out, k + 2, one)
    put(out, k + 3, two)
    one, two, x = dexpinv_se3(u, a, v, w)
    put(out, k + 4, one)
    put(out, k + 5, two)
    one, square = dexpinv_so3(u, v, -1.0)
    put(out, k + 6, one)
    put(out, k + 7, (x, square, x))


FILLED = 8


@on_arrays(2, 2)
def alone(values, out):
    for i in range(values.shape[0]):
        _fill(values, i, out, FILLED * i)


@on_arrays(3, 3)
def side_by_side(values, out):
    for i in range(values.shape[0]):
        _fill(as_lanes(values), i, as_lanes(out), FILLED * i)


def filled(values):
    """What scalars come to of rows of twelve numbers, shape (count, FILLED, 3)."""
    out = np.empty((FILLED * len(values), 3))
    alone(values, out)
    return out.reshape(-1, FILLED, 3)


def coefficients(squares):
    """Those of exp, and g₂ alone, g₂ and g̃₂; shape (count, 6)."""
    values = np.zeros((len(squares), 12))
    values[:, 0] = squares
    return filled(values)[:, :2].reshape(-1, 6)


# --- coefficients -------------------------------------------------------------------------------


def _series(numerator, power):
    """Coefficients of Σ_k (−1)^k numerator(k)/(2k + power)! x^k, and of its derivative."""
    with localcontext() as context:
        context.prec = DIGITS
        terms = [
            Decimal((-1) ** k * numerator(k)) / math.factorial(2 * k + power) for k in range(TERMS)
        ]
        return terms, [k * term for k, term in enumerate(terms)][1:]


TERMS, DIGITS = 40, 60
SINE, SINE_SLOPE = _series(lambda k: 1, 1)  # sin θ/θ
VERSINE, CUBIC = _series(lambda k: 1, 2)[0], _series(lambda k: 1, 3)[0]
REST, REST_SLOPE = _series(lambda k: 2 * k + 2, 3)  # (sin θ/θ − cos θ)/θ²


def trusted(square):
    """sin θ/θ, (1 − cos θ)/θ², (θ − sin θ)/θ³, g₂ and g̃₂ of θ², as `Decimal`, by power series.

    With half the angle, s = sin ½θ/½θ and r = (s − cos ½θ)/(½θ)², g₂ is r/(4s).
    """
    with localcontext() as context:
        context.prec = DIGITS
        x = Decimal(float(square))
        s, ds, r, dr = (_summed(c, x / 4) for c in (SINE, SINE_SLOPE, REST, REST_SLOPE))
        of_exp = [_summed(c, x) for c in (SINE, VERSINE, CUBIC)]
        return *of_exp, r / (4 * s), (dr * s - r * ds) / (8 * s * s)


def _summed(series, x):
    total = Decimal(0)
    for c in reversed(series):
        total = total * x + c
    return total


def errors(squares):
    """Absolute and relative errors of all six, shapes (count, 6)."""
    found = coefficients(squares)
    exact = [(*e[:3], e[3], *e[3:]) for e in map(trusted, squares)]
    off = [
        [Decimal(float(f)) - e for f, e in zip(*pair, strict=True)]
        for pair in zip(found, exact, strict=True)
    ]
    relative = [
        [d / e for d, e in zip(*pair, strict=True)] for pair in zip(off, exact, strict=True)
    ]
    return np.abs(np.array(off, dtype=float)), np.abs(np.array(relative, dtype=float))


def test_the_trusted_series_are_those_of_the_functions():
    def g(angle):
        return (1 - angle / 2 / math.tan(angle / 2)) / angle**2

    for a in (0.8, 3.5, 6.0):
        expected = math.sin(a) / a, (1 - math.cos(a)) / a**2, (a - math.sin(a)) / a**3, g(a)
        found = [float(value) for value in trusted(a * a)]
        assert found[:4] == pytest.approx(expected, rel=4e-15)
        assert found[4] == pytest.approx((g(a + 1e-5) - g(a - 1e-5)) / 2e-5 / a, rel=1e-8)


def test_coefficients_are_right_to_round_off():
    absolute, relative = errors(SQUARES)
    # sin θ and 1 − cos θ have zeros at π and 2π; an angle is known to ε θ.
    sine, versine = absolute[:, 0], absolute[:, 1] * np.sqrt(SQUARES)
    largest = [np.max(error) / EPSILON for error in (sine, versine, *relative.T[2:])]
    assert np.all(np.array(largest) <= [1.5, 2.0, 2.0, 1.5, 1.5, 2.5])  # 1.0, 1.5, 1.3, 1.1, 2.0
    before = SQUARES <= 4.0
    assert relative[before, :2].max() <= 1.5 * EPSILON  # 0.9


def test_coefficients_of_exp_are_right_beyond_a_turn():
    squares = np.geomspace(WIDEST, 20.0, 50) ** 2
    absolute, relative = errors(squares)
    assert absolute[:, 0].max() <= 2 * EPSILON  # 1.4
    assert np.max(absolute[:, 1] * np.sqrt(squares)) <= 3 * EPSILON  # 2.1
    assert relative[:, 2].max() <= 3 * EPSILON  # 1.8
    angles = np.geomspace(20.0, 300.0, 50)
    expected = (angles - np.sin(angles)) / angles**3
    assert coefficients(angles**2)[:, 2] == pytest.approx(expected, rel=1e-15)


def test_coefficients_begin_with_their_limits():
    *exact, slope = coefficients([0.0])[0]
    assert exact == [1.0, 1 / 2, 1 / 6, 1 / 12, 1 / 12]
    assert slope == pytest.approx(1 / 360, rel=EPSILON)
    assert exponentials.BERNOULLI[:5] == [1, Fraction(-1, 2), Fraction(1, 6), 0, Fraction(-1, 30)]
    assert exponentials.BERNOULLI[20] == Fraction(-174611, 330)


def test_every_angle_ends():
    assert not np.any(np.isfinite(coefficients([np.inf, np.nan, 1e300])[:, :3]))
    assert np.all(np.isfinite(coefficients(np.geomspace(1e-320, 1e30, 100))[:, :3]))


# --- exp, dexp⁻¹ and brackets -------------------------------------------------------------------


def cross(a, b):
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def bracket(u, v):
    """[(A, a), (B, b)] of sequences of six numbers of any kind."""
    turned = [x + y for x, y in zip(cross(u[:3], v[3:]), cross(u[3:], v[:3]), strict=True)]
    return [*cross(u[:3], v[:3]), *turned]


def by_brackets(factors, u, v):
    """Σ_k factors_k ad_u^k v in sixty digits."""
    with localcontext() as context:
        context.prec = DIGITS
        u, power = [Decimal(float(x)) for x in u], [Decimal(float(x)) for x in v]
        total = [Decimal(0)] * 6
        for factor in factors:
            scaled = [factor.numerator * x / factor.denominator for x in power]
            total = [x + y for x, y in zip(total, scaled, strict=True)]
            power = bracket(u, power)
        return total


EXP = [Fraction(1, math.factorial(k)) for k in range(60)]
DEXP = [Fraction(1, math.factorial(k + 1)) for k in range(60)]  # (7)


def parts_of(u, v):
    """What exp adds to v, dexp⁻¹ of v, dexp⁻¹ on so(3) from the right, and the squared angles."""
    found = filled(np.concatenate([u, v])[None])[0]
    return found[2:4].ravel(), found[4:6].ravel(), found[6], found[7]


def rounding(u, v):
    """ε times the sizes of what comes out of exp(u) and dexp⁻¹_u for v, shape (6,)."""
    turned, moving, shift = (math.sqrt(3) * np.abs(part).max() for part in (v[:3], v[3:], u[3:]))
    return EPSILON * np.repeat([turned, moving + shift * turned], 3)


def numbers(count, largest):
    number = st.floats(-largest, largest, allow_subnormal=False)
    return st.tuples(*[number] * count).map(np.array)


ELEMENTS, OTHERS = numbers(6, 3.4), numbers(6, 2.0)  # of the first, angles up to 5.9
TINY = 1e-290  # of products that underflow


def difference(exact, found):
    return np.array([float(e - Decimal(float(f))) for e, f in zip(exact, found, strict=True)])


def check_exp(u, v):
    found = np.add([Decimal(float(x)) for x in v], [Decimal(float(x)) for x in parts_of(u, v)[0]])
    off = np.array([float(x) for x in np.subtract(by_brackets(EXP, u, v), found)])
    assert np.all(np.abs(off) <= 5 * rounding(u, v) + TINY)  # measured 2.6


def check_dexpinv(u, v):
    """Near the pole a rounding of θ² changes dexp⁻¹ by so many of its own, and g̃₂ doubly."""
    off = difference(by_brackets(DEXP, u, parts_of(u, v)[1]), v)
    near = 1.0 + u[:3] @ u[:3] / (4.0 * math.pi**2 - u[:3] @ u[:3])
    bounds = 3 * rounding(u, v) * np.repeat([near, near**2], 3)
    assert np.all(np.abs(off) <= bounds + TINY)  # measured 1.8


@settings(max_examples=20)
@given(ELEMENTS, OTHERS)
def test_exp_is_that_of_brackets(u, v):
    """As the adjoint action: exp(u) moves v to Σ ad_u^k v/k!."""
    check_exp(u, v)


@settings(max_examples=20)
@given(ELEMENTS, OTHERS)
def test_dexpinv_inverts_dexp(u, v):
    check_dexpinv(u, v)


def test_exp_and_dexpinv_hold_up_to_the_pole():
    generator = np.random.default_rng(7)
    near = 2 * math.pi - np.geomspace(0.4, 1.001e-3, 10)
    for angle in (*near, 1e-9, 1e-5, 0.2, np.sqrt(0.05), 1.0, 2.0, 4.0):
        u, v = generator.standard_normal((2, 6))
        u[:3] *= angle / np.linalg.norm(u[:3])
        check_exp(u, v)
        check_dexpinv(u, v)


@settings(max_examples=20)
@given(ELEMENTS, OTHERS)
def test_exp_is_that_of_matrices(u, v):
    """(R, r) = exp of the 4×4 matrix moves (q, w) to (R q, R w + r × R q)."""
    g = scipy.linalg.expm(matrix(u))
    q, w = g[:3, :3] @ v[:3], g[:3, :3] @ v[3:]
    expected = np.concatenate([q, w + np.cross(g[:3, 3], q)]) - v
    assert parts_of(u, v)[0] == pytest.approx(expected, abs=1e-12)


@settings(max_examples=20)
@given(ELEMENTS, OTHERS)
def test_dexpinv_of_so3_from_the_right_is_that_of_the_inverse(u, v):
    """And the squared angle comes out beside both."""
    alone, beside = parts_of(u, v)[2], parts_of(np.concatenate([-u[:3], u[3:]]), v)[1][:3]
    assert np.all(np.abs(alone - beside) <= 2 * rounding(u, v)[:3])
    assert parts_of(u, v)[3] == pytest.approx(u[:3] @ u[:3], rel=4 * EPSILON, abs=TINY)


@settings(max_examples=20)
@given(ELEMENTS, OTHERS)
def test_dexpinv_is_its_series_by_brackets(u, v):
    u = u / 20.0  # angles up to 0.3
    series = [b / math.factorial(k) for k, b in enumerate(exponentials.BERNOULLI[:20])]  # (8)
    off = difference(by_brackets(series, u, v), parts_of(u, v)[1])
    assert np.all(np.abs(off) <= 3 * rounding(u, v) + TINY)


# --- brackets -----------------------------------------------------------------------------------


def hat(u):
    """û, (5)."""
    return np.array([[0.0, -u[2], u[1]], [u[2], 0.0, -u[0]], [-u[1], u[0], 0.0]])


def matrix(u):
    """An element of se(3) as a 4×4 matrix."""
    result = np.zeros((4, 4))
    result[:3, :3], result[:3, 3] = hat(u[:3]), u[3:]
    return result


def compiled_bracket(u, v):
    return np.ravel(bracket_se3(tuple(u[:3]), tuple(u[3:]), tuple(v[:3]), tuple(v[3:])))


@settings(max_examples=20)
@given(ELEMENTS, OTHERS, ELEMENTS)
def test_brackets_are_commutators_and_satisfy_jacobi(u, v, w):
    product = matrix(u) @ matrix(v)
    commutator = product - matrix(v) @ matrix(u)
    assert matrix(compiled_bracket(u, v)) == pytest.approx(commutator, abs=1e-14)
    np.testing.assert_array_equal(compiled_bracket(u, v), -compiled_bracket(v, u))
    turns = (u, v, w), (v, w, u), (w, u, v)
    total = sum(compiled_bracket(a, compiled_bracket(b, c)) for a, b, c in turns)
    assert total == pytest.approx(np.zeros(6), abs=2e-13)


def test_rows_turn_as_matrices_do():
    generator = np.random.default_rng(2)
    u, rotation = generator.standard_normal(3), generator.standard_normal((3, 3))
    rows = [tuple(row) for row in rotation]
    assert turned_rows(tuple(u), *rows, 1.0) == pytest.approx(hat(u) @ rotation, abs=1e-15)
    assert turned_rows(tuple(u), *rows, -1.0) == pytest.approx(rotation @ hat(u), abs=1e-15)


# --- lanes --------------------------------------------------------------------------------------


def test_lanes_are_scalars_to_the_last_bit_whatever_the_other_lanes_hold():
    generator = np.random.default_rng(5)
    values = generator.standard_normal((6, 12, 8))
    values[:, 0] = [
        [1e-9, 0.04, 0.05, np.nextafter(0.05, 1.0), 3.99, 4.01, 900.0, np.nan],
        [0.0, 1e-300, 0.02, 0.03, 0.04, 0.049, 0.05, 1e-5],
        [0.3, 0.9, 1.0, np.nextafter(1.0, 2.0), 2.0, 39.0, 16.0, 39.4],
        [1e300, 17.0, 0.0, 5.0, np.inf, 1.0, 0.3, 39.5],
        [1e-3, 0.1, 0.2, 0.5, 0.6, 0.7, 0.8, 0.9],
        [-1e-3, -0.1, -0.2, -0.5, -0.6, -6.2, -0.8, -0.9],
    ]
    values[0, 1:3] *= 0.01
    out = np.empty((6 * FILLED, 3, 8))
    side_by_side(values, out)
    expected = filled(np.moveaxis(values, 1, 2).reshape(48, 12)).reshape(6, 8, FILLED, 3)
    np.testing.assert_array_equal(out.reshape(6, FILLED, 3, 8), np.moveaxis(expected, 1, 3))
