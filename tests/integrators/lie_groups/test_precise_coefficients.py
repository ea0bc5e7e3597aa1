"""Coefficients of rotations and exponentials to the digits of double-double."""

import numpy as np
import pytest
from double_doubles import farthest, numbers, spread, values_of

from integrators.compiler.double_double import LN_2, PI
from integrators.compiler.kernels import IS_COMPILED, inlined
from integrators.lie_groups.exponentials import (
    WIDEST,
    dexpinv_coefficient,
    dexpinv_coefficients,
    motion_coefficients,
)
from integrators.lie_groups.rotations import (
    medium_coefficients,
    rotation_coefficients,
    small_coefficients,
)

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="plain Python has float64 alone")


@inlined
def _all(x, i):
    a, b = rotation_coefficients(x[i, 0])
    c, d = small_coefficients(x[i, 0])
    e, f = medium_coefficients(x[i, 0])
    g, h, k = motion_coefficients(x[i, 0])
    return a, b, c, d, e, f, g, h, k


@pytest.mark.parametrize(("least", "most"), [(1e-8, 0.04), (0.04, 0.5), (0.5, 30.0)])
def test_rotations(least, most):
    given = spread(60, most, 1, least)[:, None]
    x = numbers(given[:, 0])
    theta = np.sqrt(x)
    sine, versine = np.sin(theta) / theta, 2 * (np.sin(theta / 2) / theta) ** 2
    cubic = (theta - np.sin(theta)) / theta**3
    found = values_of(_all, given, 9)
    for j, expected in enumerate([sine, versine] * 3 + [sine, versine, cubic]):
        assert farthest(found[:, j], expected, np.abs(1 + 0 * x)) < 2e-31


@inlined
def _inverse(x, i):
    value, slope = dexpinv_coefficients(x[i, 0])
    return value, slope, dexpinv_coefficient(x[i, 0])


@pytest.mark.parametrize(("least", "most"), [(1e-4, 1.0), (1.0, 30.0), (30.0, 0.99 * WIDEST)])
def test_inverse_exponentials(least, most):
    given = spread(60, most, 2, least)[:, None]
    x = numbers(given[:, 0])
    half = np.sqrt(x) / 2
    cotangent = half * np.cos(half) / np.sin(half)
    expected = (1 - cotangent) / x
    # 2 dg/dx of g = (1 − c)/x, where dc/dx = (c − c² − x/4)/(2x)
    slope = -(cotangent - cotangent**2 - x / 4) / x**2 - 2 * expected / x
    found = values_of(_inverse, given, 3)
    close = 1e-29 if most > 30.0 else 1e-30  # to the pole at 2π
    assert farthest(found[:, 0], expected) < close
    assert farthest(found[:, 2], expected) < close
    assert farthest(found[:, 1], slope) < 100 * close


def test_constants_are_known():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(90):
        for known, expected in ((PI, +mpmath.pi), (LN_2, mpmath.log(2))):
            off = mpmath.mpf(known.numerator) / known.denominator - expected
            assert abs(off) < 1e-80
