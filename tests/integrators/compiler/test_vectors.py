"""Small linear algebra and compensated sums, as kernels use them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from integrators.compiler import vectors

EPSILON = np.finfo(float).eps

components = st.floats(-4.0, 4.0, allow_subnormal=False)
three = arrays(float, 3, elements=components)


@st.composite
def definite_matrices(draw):
    """Symmetric and positive definite, condition at most some 1000."""
    n = draw(st.integers(1, 6))
    root = draw(arrays(float, (n, n), elements=st.floats(-1.0, 1.0)))
    return root @ root.T + 0.1 * np.eye(n)


@given(definite_matrices(), st.integers(0, 2**32 - 1))
def test_ldl_solves(matrix, seed):
    n = len(matrix)
    x = np.random.default_rng(seed).standard_normal(n)
    factors, solution = matrix.ravel().copy(), matrix @ x
    vectors.factor_ldl(factors, n)
    vectors.solve_ldl(factors, n, solution)
    np.testing.assert_allclose(solution, x, atol=1e-11 * max(1.0, np.abs(x).max()))


@given(definite_matrices())
def test_ldl_factors_multiply_to_the_matrix(matrix):
    n = len(matrix)
    flat = matrix.ravel().copy()
    vectors.factor_ldl(flat, n)
    factors = flat.reshape(n, n)
    lower = np.tril(factors, -1) + np.eye(n)
    product = lower @ np.diag(1.0 / np.diag(factors)) @ lower.T
    np.testing.assert_allclose(product, matrix, atol=1e-13 * np.abs(matrix).max())


@given(
    arrays(float, 3, elements=st.floats(-1.0, 1.0)),
    st.lists(st.floats(-1e-3, 1e-3), min_size=1, max_size=200),
)
def test_compensated_increments_add_up_as_if_exact(start, increments):
    y, low = start[None].copy(), np.zeros((1, 3))
    for d in increments:
        vectors.increment(y, low, 0, (d, -d, 0.5 * d))
    exact = [Fraction(s) for s in start]
    total = sum(map(Fraction, increments))
    for found, kept, s, factor in zip(y[0], low[0], exact, (1, -1, Fraction(1, 2)), strict=True):
        error = abs(float(Fraction(found) - (s + factor * total)))
        assert error <= 2 * EPSILON  # one rounding of the sum, however many terms
        assert abs(float(Fraction(found) + Fraction(kept) - (s + factor * total))) <= 1e-18


def test_many_increments_need_the_compensation():
    y, low, plain = np.ones((1, 3)), np.zeros((1, 3)), 1.0
    for _ in range(100_000):
        vectors.increment(y, low, 0, (1e-7 / 3, 0.0, 0.0))
        plain += 1e-7 / 3
    exact = float(1 + 100_000 * Fraction(1e-7 / 3))
    assert abs(y[0, 0] - exact) <= EPSILON < 100 * EPSILON < abs(plain - exact)


@given(three, st.floats(-1e-6, 1e-6))
def test_normalizing_brings_back_to_unit_length(direction, error):
    size = np.linalg.norm(direction)
    if size < 1e-3:
        return
    q = direction / size * (1.0 + error)
    restored = q + np.array(vectors.normalizing(tuple(q)))
    assert abs(np.dot(restored, restored) - 1.0) <= 4 * EPSILON
    assert np.linalg.norm(np.cross(restored, q)) <= 2 * EPSILON


@given(three, three, components)
def test_vocabulary_agrees_with_numpy(a, b, s):
    x, y = tuple(a), tuple(b)
    np.testing.assert_array_equal(vectors.add(x, y), a + b)
    np.testing.assert_array_equal(vectors.sub(x, y), a - b)
    np.testing.assert_array_equal(vectors.scale(s, x), s * a)
    exact = [Fraction(s) * Fraction(p) + Fraction(q) for p, q in zip(x, y, strict=True)]
    assert vectors.axpy(s, x, y) == tuple(map(float, exact))  # rounded once
    for k, value in enumerate(vectors.cross(x, y)):
        i, j = (k + 1) % 3, (k + 2) % 3
        exact = Fraction(x[i]) * Fraction(y[j]) - Fraction(x[j]) * Fraction(y[i])
        roundings = abs(x[j] * y[i]) + abs(value) + 1e-300  # of the second product, and at the end
        assert abs(float(Fraction(value) - exact)) <= EPSILON / 2 * roundings
    assert vectors.dot(x, y) == pytest.approx(np.dot(a, b), abs=1e-14)
    assert vectors.lacking(s, x) == pytest.approx(s - np.dot(a, a), abs=2e-14)


def test_accumulate_and_put_write_one_row():
    y = np.zeros((2, 3))
    vectors.put(y, 1, (1.0, 2.0, 3.0))
    vectors.accumulate(y, 1, (0.5, 0.5, 0.5))
    assert y.tolist() == [[0.0, 0.0, 0.0], [1.5, 2.5, 3.5]]
    assert vectors.get(y, 1) == (1.5, 2.5, 3.5)
