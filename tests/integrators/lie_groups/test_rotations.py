"""Rotations: their coefficients beside forty digits, and what a turn keeps."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from array_kernels import on_arrays

from integrators.compiler.views import as_lanes
from integrators.lie_groups import rotations
from integrators.lie_groups.rotations import economize_series, rotation_coefficients, turning

EPSILON = np.finfo(float).eps
# Largest errors in units in the last place, up to a squared angle; measured 0.6, 0.8, 0.8, 2.5.
ULPS = ((1e-3, 1.0), (0.05, 1.0), (1.0, 1.0), (4.0, 3.0))


@on_arrays(1, 2)
def alone(squares, out):
    for i in range(squares.size):
        out[i, 0], out[i, 1] = rotation_coefficients(squares[i])


@on_arrays(2, 3)
def side_by_side(squares, out):
    x, pairs = as_lanes(squares), as_lanes(out)
    for i in range(x.shape[0]):
        pairs[i, 0], pairs[i, 1] = rotation_coefficients(x[i])


def found(squares):
    """What scalars come to, shape (count, 2)."""
    out = np.empty((len(squares), 2))
    alone(np.array(squares, dtype=float), out)
    return out


def trusted(square):
    """sin θ/θ and (1 − cos θ)/θ² of θ², as `Decimal`, by their series."""
    with localcontext() as context:
        context.prec = 40 + 2 * int(math.sqrt(square))  # terms grow to exp θ
        x, sine, versine, term = Decimal(float(square)), Decimal(0), Decimal(0), Decimal(1)
        for k in range(1, 30 + 2 * int(math.sqrt(square))):
            sine, versine = sine + term, versine + term / (2 * k)
            term *= -x / (2 * k * (2 * k + 1))
        return sine, versine


def test_the_trusted_series_is_that_of_a_rotation():
    angle = 1.25
    sine, versine = map(float, trusted(angle**2))
    assert sine == pytest.approx(math.sin(angle) / angle, rel=1e-15)
    assert versine == pytest.approx((1 - math.cos(angle)) / angle**2, rel=1e-15)


@pytest.mark.parametrize(("largest", "bound"), ULPS)
def test_coefficients_are_right_to_a_few_units_in_the_last_place(largest, bound):
    squares = np.random.default_rng(3).uniform(0.0, largest, 200)
    for square, pair in zip(squares, found(squares), strict=True):
        for value, exact in zip(pair, trusted(square), strict=True):
            unit = float(np.spacing(abs(float(exact))))
            assert abs(float(Decimal(float(value)) - exact)) <= bound * unit


def test_larger_angles_are_about_as_exact_as_the_angle_itself():
    """An angle is known to ε θ, so are sin θ and 1 − cos θ; measured 2.7 and 6.5 of that."""
    squares = np.geomspace(2.0, 300.0, 100) ** 2
    for square, (a, b) in zip(squares, found(squares), strict=True):
        sine, versine = trusted(square)
        angle = math.sqrt(square)
        assert abs(float(Decimal(float(a)) - sine)) * angle <= 4 * EPSILON * angle
        assert abs(float(Decimal(float(b)) - versine)) * square <= 8 * EPSILON * angle


def test_every_angle_ends():
    assert found([0.0]).tolist() == [[1.0, 0.5]]
    assert not np.any(np.isfinite(found([np.inf, np.nan, 1e300, 1e60])))
    assert np.all(np.isfinite(found(np.geomspace(1e-320, 1e30, 200))))


def test_lanes_are_scalars_to_the_last_bit_whatever_the_other_lanes_hold():
    squares = np.array(
        [
            [1e-9, 0.04, 0.05, np.nextafter(0.05, 1.0), 3.99, 4.01, 900.0, np.nan],
            [0.0, 1e-300, 0.02, 0.03, 0.04, 0.049, 0.05, 1e-5],
            [1e300, 17.0, 0.0, 5.0, np.inf, 1.0, 0.3, 70.0],
        ]
    )
    out = np.empty((3, 2, 8))
    side_by_side(squares, out)
    np.testing.assert_array_equal(out, np.moveaxis(found(squares.ravel()).reshape(3, 8, 2), 2, 1))


def test_a_turn_is_a_right_handed_rotation_that_keeps_lengths():
    for angle in (1e-8, 0.1, 0.3, 1.0, -2.5, 7.0):
        d = turning((0.0, 0.0, angle), (1.0, 0.0, 0.0))
        expected = (math.cos(angle) - 1.0, math.sin(angle), 0.0)
        assert d == pytest.approx(expected, abs=2 * EPSILON * max(1.0, abs(angle)), rel=1e-15)
    generator = np.random.default_rng(1)
    for _ in range(50):
        axis, w = 2.0 * generator.standard_normal((2, 3))
        turned = w + turning(tuple(axis), tuple(w))
        assert turned @ turned == pytest.approx(w @ w, rel=8 * EPSILON)
        size = np.linalg.norm(w) * np.linalg.norm(axis)
        assert turned @ axis == pytest.approx(w @ axis, abs=4 * EPSILON * size)


def test_a_polynomial_of_low_degree_is_as_near_as_chebyshev_says():
    """The first power left out, c x^(n+1) on [0, L], leaves c L^(n+1)/2^(2n+1) and little more."""
    largest, degree = 0.5, 3
    series = [Fraction(1, math.factorial(k)) for k in range(20)]  # exp
    found = economize_series(series, largest, degree)
    x = np.linspace(0.0, largest, 1001)
    errors = np.polyval(found[::-1], x) - np.exp(x)
    expected = largest ** (degree + 1) / 2 ** (2 * degree + 1) / math.factorial(degree + 1)
    assert expected < np.abs(errors).max() < expected * math.exp(largest)  # by the powers after
    extremes = errors[np.flatnonzero(np.diff(np.sign(np.diff(errors)))) + 1]
    assert len(extremes) == degree and np.all(extremes[1:] * extremes[:-1] < 0.0)
    assert economize_series(series[:4], largest, degree) == tuple(map(float, series[:4]))


def test_polynomials_begin_with_the_exact_limits():
    assert rotations.SMALL_SINE[0] == rotations.LARGE_SINE[0] == 1.0
    assert rotations.SMALL_VERSINE[0] == rotations.LARGE_VERSINE[0] == 0.5
