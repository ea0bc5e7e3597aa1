"""Jacobi's elliptic functions beside SciPy's, and where their modulus is 0, 1 or nearly so."""

import numpy as np
import pytest
from array_kernels import on_arrays
from scipy.special import ellipj, ellipkm1

from integrators.lie_groups.elliptic_functions import SATURATED, elliptic_functions

EPSILON = np.finfo(float).eps


@on_arrays(2, 2)
def alone(given, out):
    for i in range(given.shape[0]):
        out[i, 0], out[i, 1], out[i, 2] = elliptic_functions(
            given[i, 0], given[i, 1], given[i, 2], given[i, 3]
        )


def arguments(a, complementary, t):
    """a², b², a² − b² and t, shape (count, 4)."""
    a, k, t = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (a, complementary, t)))
    return np.stack([a**2, (a * k) ** 2, a**2 * (1.0 - k) * (1.0 + k), t], axis=-1).reshape(-1, 4)


def found(a, complementary, t):
    """sn(at)/a, cn and dn, each of shape (count,)."""
    given = arguments(a, complementary, t)
    out = np.empty((len(given), 3))
    alone(given, out)
    return out.T


def drawn(count=2000):
    """Rates, complementary moduli down to 1e-3 and times."""
    rng = np.random.default_rng(1)
    return rng.uniform(0.1, 2.0, count), 10.0 ** rng.uniform(-3, 0, count), rng.normal(size=count)


def test_they_are_those_of_scipy():
    a, k, t = drawn()
    s, cn, dn = found(a, k, t)
    expected = ellipj(a * t, (1.0 - k) * (1.0 + k))
    for one, other in zip((a * s, cn, dn), expected, strict=False):
        np.testing.assert_allclose(one, other, rtol=0, atol=10 * EPSILON)


def test_squares_add_to_one():
    a, k, t = drawn()
    s, cn, dn = found(a, k, t)
    sn = (a * s) ** 2
    assert np.abs(sn + cn**2 - 1.0).max() <= 12 * EPSILON
    assert np.abs((1.0 - k**2) * sn + dn**2 - 1.0).max() <= 12 * EPSILON


@pytest.mark.parametrize("complementary", [0.5, 1e-3, 1e-6, 1e-9, 1e-30, 1e-140])
def test_a_quarter_period_is_that_of_the_modulus(complementary):
    """Where sn is 1, dn = k' to nearly all its digits; before, sech at every k near 1."""
    quarter = float(ellipkm1(complementary**2)) if complementary > 1e-150 else np.inf
    s, cn, dn = found(1.0, complementary, [quarter, 2.0 * quarter, 2.0])
    assert s[0] == pytest.approx(1.0, abs=4 * EPSILON)
    assert dn[0] == pytest.approx(complementary, rel=4 * quarter * EPSILON, abs=0.0)
    assert abs(cn[0]) <= 4 * quarter * EPSILON * complementary
    assert cn[1] == pytest.approx(-1.0, abs=4 * EPSILON)
    if complementary < 1e-8:
        assert (cn[2], dn[2]) == pytest.approx((1.0 / np.cosh(2.0),) * 2, rel=4 * EPSILON)


def test_at_the_modulus_one_they_are_hyperbolic_for_ever():
    t = np.array([0.0, 1e-8, 0.3, -2.0, 30.0, -200.0, 5.0 * SATURATED, 1e300])
    s, cn, dn = found(2.0, 0.0, t)
    np.testing.assert_allclose(s, 0.5 * np.tanh(2.0 * t), rtol=8 * EPSILON, atol=0)
    with np.errstate(over="ignore"):
        hyperbolic = np.where(np.abs(t) < 100.0, 1.0 / np.cosh(2.0 * np.clip(t, -100, 100)), 0.0)
    condition = 4 * 60 * EPSILON  # the largest angle above the bound is 60
    np.testing.assert_allclose(cn, hyperbolic, rtol=condition, atol=1e-120)
    np.testing.assert_allclose(dn, hyperbolic, rtol=condition, atol=1e-120)


def test_at_the_modulus_zero_they_are_circular_and_at_rest_those_of_no_time():
    t = np.linspace(-50.0, 50.0, 101)
    s, cn, dn = found(1.5, 1.0, t)
    np.testing.assert_allclose(1.5 * s, np.sin(1.5 * t), atol=80 * EPSILON)
    np.testing.assert_allclose(cn, np.cos(1.5 * t), atol=80 * EPSILON)
    assert np.all(dn == 1.0)
    np.testing.assert_array_equal(found(0.0, 0.0, t), [t, np.ones(101), np.ones(101)])
