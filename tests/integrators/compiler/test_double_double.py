"""Double-doubles: their arithmetic and functions to 31 digits, alone and in lanes."""

import math

import numpy as np
import pytest
from double_doubles import farthest, numbers, spread, values_of

from integrators.compiler import lanes
from integrators.compiler.elements import DOUBLE_DOUBLE_LANES
from integrators.compiler.kernels import IS_COMPILED, inlined
from integrators.compiler.lanes import cos, exp, fma, log, nearest, select, sin, sqrt

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="plain Python has float64 alone")

COUNT = 120
ROUNDING = 4 * 2.0**-104  # a few units: Joldes, Muller and Popescu prove up to 15 for a quotient


@inlined
def _arithmetic(x, i):
    a, b = x[i, 0], x[i, 1]
    return a + b, a - b, a * b, a / b, fma(a, b, b), sqrt(abs(a))


def of_all_sizes(seed):
    """Pairs of numbers, some nearly opposite."""
    given = np.stack([spread(COUNT, 3.0, seed), spread(COUNT, 3.0, seed + 1)], axis=1)
    given[: COUNT // 2, 1] *= 10.0 ** np.linspace(-30, 30, COUNT // 2)[:, None]
    given[-COUNT // 4 :, 1] = -given[-COUNT // 4 :, 0] * (1.0 + 2.0**-40)
    return given


def test_arithmetic_has_31_digits():
    given = of_all_sizes(1)
    a, b = numbers(given[:, 0]), numbers(given[:, 1])
    found = np.moveaxis(values_of(_arithmetic, given, 6), 1, 0)
    for values, expected in zip(found, (a + b, a - b, a * b, a / b), strict=False):
        assert farthest(values, expected) < ROUNDING
    assert farthest(found[4], a * b + b, np.abs(a * b) + np.abs(b)) < ROUNDING


@inlined
def _functions(x, i):
    a, b = x[i, 0], x[i, 1]
    return sin(a), cos(a), exp(a), sqrt(b), log(b)


@pytest.mark.parametrize("largest", [1e-3, 1.0, 30.0])
def test_functions_have_30_digits(largest):
    given = np.stack([spread(COUNT, largest, 3), spread(COUNT, largest, 4, 1e-3 * largest)], axis=1)
    found = values_of(_functions, given, 5)
    a, b = numbers(given[:, 0]), numbers(given[:, 1])
    for j, expected in enumerate((np.sin(a), np.cos(a), np.exp(a), np.sqrt(b), np.log(b))):
        assert farthest(found[:, j], expected, np.abs(expected) + (1.0 if j == 4 else 0.0)) < 1e-30


@inlined
def _chosen(x, i):
    a, b = x[i, 0], x[i, 1]
    less, most = select(a < b, a, b), select(a >= b, a, b)
    return less, most, abs(a), -a, nearest(a), 2.0 * a, a + 1, 1.0 / b, a * 0.5 + b


@inlined
def _logarithm(x, i):
    return (log(x[i, 0]),)


@pytest.mark.slow
def test_a_function_of_lanes_is_that_of_each_alone():
    """The one that calls another; all are made by one wrapper."""
    assert_lanes_are_alone(_logarithm, spread(COUNT, 3.0, 5, 1e-3)[:, None], 1)


def assert_lanes_are_alone(function, given, count):
    beside = values_of(function, given, count, DOUBLE_DOUBLE_LANES)
    np.testing.assert_array_equal(values_of(function, given, count), beside)


def test_lanes_are_double_doubles_alone():
    given = np.stack([spread(COUNT, 3.0, 5), spread(COUNT, 3.0, 6)], axis=1)
    given[::7, 1] = given[::7, 0]
    given[::14, 1, 1] += 1e-33  # which differ below the digits of a double
    for function, count in ((_chosen, 9), (_arithmetic, 6)):
        assert_lanes_are_alone(function, given, count)


def test_comparisons_see_all_digits():
    found = values_of(_chosen, [[[1.0, 1e-20], [1.0, -1e-20]], [[2.5, 0.0], [2.5, 0.0]]], 9)
    np.testing.assert_array_equal(found[0, :2], [[1.0, -1e-20], [1.0, 1e-20]])
    np.testing.assert_array_equal(found[1, :2], [[2.5, 0.0], [2.5, 0.0]])


def test_what_is_not_finite_stays_so():
    found = values_of(_functions, [[[math.nan, 0.0], [math.inf, 0.0]]], 5)
    assert not np.any(np.isfinite(found[0, :, 0]))
    assert values_of(_functions, [[[0.0, 0.0], [0.0, 0.0]]], 5)[0, 3, 0] == 0.0


def test_infinity_has_a_stand_in_with_a_square():
    assert np.isfinite(lanes.VAST**2)
