"""The lane type against NumPy, element by element and to the last bit."""

import itertools
import math
import operator
import os
import subprocess
import sys
from fractions import Fraction

import numba
import numpy as np
import pytest
from waiting import HANG

from integrators.compiler import lanes
from integrators.compiler.kernels import OPTIONS
from integrators.compiler.lanes import all_lanes, any_lane, bits, hsum, ramp, select, sqrt
from integrators.compiler.views import as_lanes, rows, rows_of, tail

SPECIAL = [1.5, -2.25, 0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324]
# Every special value beside every one, at every place of the vector.
LEFT = np.array([SPECIAL] * 8)
RIGHT = np.array([np.roll(SPECIAL, k) for k in range(8)])

jit = numba.njit(**OPTIONS)


def assert_same_bits(found, expected):
    np.testing.assert_array_equal(found, expected)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[there], np.signbit(expected)[there])


def unpacked(masks):
    """Integers that `bits` gave, as rows of eight truth values."""
    return (masks[:, None] >> np.arange(8)) & 1 == 1


def binary_loop(function, out_of):
    """``function`` of lanes with lanes, floats and ints on either side; `out_of` stores it."""

    @jit
    def loop(x, y, number, whole, out):
        a, b = as_lanes(x), as_lanes(y)
        for i in range(a.shape[0]):
            out_of(out, 0, i, function(a[i], b[i]))
            out_of(out, 1, i, function(a[i], number))
            out_of(out, 2, i, function(number, b[i]))
            out_of(out, 3, i, function(a[i], whole))
            out_of(out, 4, i, function(whole, b[i]))

    return loop


@jit
def store_lane(out, k, i, value):
    as_lanes(out)[k, i] = value


@jit
def store_mask(out, k, i, value):
    out[k, i] = bits(value)


def five_ways(function):
    """What `binary_loop` should give, by NumPy."""
    with np.errstate(all="ignore"):
        pairs = [(LEFT, RIGHT), (LEFT, 0.3), (0.3, RIGHT), (LEFT, -3), (-3, RIGHT)]
        return [function(x, y) for x, y in pairs]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
def test_arithmetic(name):
    function, out = getattr(operator, name), np.empty((5, 8, 8))
    binary_loop(function, store_lane)(LEFT, RIGHT, 0.3, -3, out)
    for found, expected in zip(out, five_ways(function), strict=True):
        assert_same_bits(found, expected)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
def test_arithmetic_in_place(name):
    in_place, plain = getattr(operator, f"i{name}"), getattr(operator, name)

    @jit
    def loop(x, y):
        a, b = as_lanes(x), as_lanes(y)
        for i in range(a.shape[0]):
            a[i] = in_place(a[i], b[i])

    found = LEFT.copy()
    loop(found, RIGHT)
    with np.errstate(all="ignore"):
        assert_same_bits(found, plain(LEFT, RIGHT))


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge"])
def test_comparisons_are_ordered(name):
    """NaN compares false with everything."""
    function = getattr(operator, name)
    out = np.empty((5, 8), dtype=np.int64)
    binary_loop(function, store_mask)(LEFT, RIGHT, 0.3, -3, out)
    for found, expected in zip(out, five_ways(function), strict=True):
        np.testing.assert_array_equal(unpacked(found), expected)


def test_masks_combine():
    @jit
    def loop(x, y, out):
        a, b = as_lanes(x), as_lanes(y)
        for i in range(a.shape[0]):
            p, q = a[i] > 0.0, b[i] > 0.0
            out[0, i], out[1, i], out[2, i] = bits(p & q), bits(p | q), bits(~p)
            out[3, i], out[4, i] = any_lane(p & q), all_lanes(p | ~p)
            out[5, i] = all_lanes(q)

    out = np.empty((6, 9), dtype=np.int64)
    left, right = np.vstack([LEFT, np.zeros(8)]), np.vstack([RIGHT, np.ones(8)])
    loop(left, right, out)
    p, q = left > 0, right > 0
    for found, expected in zip(out[:3], (p & q, p | q, ~p), strict=True):
        np.testing.assert_array_equal(unpacked(found), expected)
    np.testing.assert_array_equal(out[3], (p & q).any(axis=1))
    assert out[4].all()
    assert out[5].tolist() == [0] * 8 + [1]


def test_every_bit_of_a_mask_is_its_lane():
    @jit
    def loop(x, out):
        a = as_lanes(x)
        for i in range(a.shape[0]):
            out[i] = bits(a[i] > 0.0)

    every = np.array([[(k >> lane) & 1 for lane in range(8)] for k in range(256)], dtype=float)
    out = np.empty(256, dtype=np.int64)
    loop(every, out)
    np.testing.assert_array_equal(out, np.arange(256))


def test_select_takes_lanes_and_numbers():
    @jit
    def loop(x, y, out):
        a, b, c = as_lanes(x), as_lanes(y), as_lanes(out)
        for i in range(a.shape[0]):
            chosen = a[i] <= b[i]
            c[0, i] = select(chosen, a[i], b[i])
            c[1, i] = select(chosen, a[i], 0.25)
            c[2, i] = select(chosen, 7, b[i])

    out = np.empty((3, 8, 8))
    loop(LEFT, RIGHT, out)
    with np.errstate(invalid="ignore"):
        chosen = LEFT <= RIGHT
    for found, (yes, no) in zip(out, ((LEFT, RIGHT), (LEFT, 0.25), (7, RIGHT)), strict=True):
        assert_same_bits(found, np.where(chosen, yes, no))


@pytest.mark.parametrize(
    ("function", "expected"),
    [(operator.neg, np.negative), (abs, np.abs), (sqrt, np.sqrt)],
    ids=["neg", "abs", "sqrt"],
)
def test_unary(function, expected):
    @jit
    def loop(x, out):
        a, b = as_lanes(x), as_lanes(out)
        for i in range(a.shape[0]):
            b[i] = function(a[i])

    values = np.vstack([LEFT, np.abs(np.random.default_rng(1).standard_normal((20, 8)))])
    out = np.empty_like(values)
    loop(values, out)
    with np.errstate(invalid="ignore"):
        assert_same_bits(out, expected(values))


# Products that a first rounding spoils, beyond the largest number or below the least; zeros' signs.
LARGEST, LEAST = np.finfo(float).max, 5e-324
FUSED = [
    (1.0 + 2.0**-27, 1.0 - 2.0**-27, -1.0), (0.1, 10.0, -1.0), (1.0 + 2.0**-52, 2.0**-53, 1.0),
    (LARGEST, 2.0, -LARGEST), (LARGEST, 2.0, -math.inf), (LARGEST, -2.0, LEAST), (LEAST, 0.5, 0.0),
    (LEAST, -0.5, -0.0), (LEAST, 0.5, LEAST), (LEAST, LEAST, 1.0),
    (2.0**-537, 3 * 2.0**-538, LEAST),
    (0.0, -1.0, 0.0), (0.0, -1.0, -0.0), (2.0, 0.5, -1.0), (-2.0, 0.5, 1.0), (1.0, 3.0, LARGEST),
]  # fmt: skip


@jit
def fused(x, alone, together):
    numbers, out = as_lanes(x), as_lanes(together)
    for i in range(x.shape[0]):
        out[i] = lanes.fma(numbers[i, 0], numbers[i, 1], numbers[i, 2])
        for k in range(8):
            alone[i, k] = lanes.fma(x[i, 0, k], x[i, 1, k], x[i, 2, k])


def triples():
    """Of `FUSED`, of special values, and random ones of which most cancel; shape (rows, 3, 8)."""
    generator = np.random.default_rng(4)
    some = generator.standard_normal((400, 3)) * 2.0 ** generator.integers(-540, 500, (400, 3))
    near = generator.standard_normal((400, 3))
    near[:, 2] = -near[:, 0] * near[:, 1] * (1.0 + 2.0**-52 * generator.integers(-1, 2, 400))
    special = list(itertools.product(SPECIAL, SPECIAL, SPECIAL))
    found = np.concatenate([FUSED, special, some, near])
    return np.moveaxis(found.reshape(-1, 8, 3), 2, 1).copy()


def by_fused(numbers):
    """What scalars and lanes come to, shape (rows, 8) each."""
    alone, together = np.empty((2, len(numbers), 8))
    fused(numbers, alone, together)
    return alone, together


def test_fused_products_are_rounded_once_alone_in_lanes_and_in_plain_python():
    numbers = triples()
    alone, together = by_fused(numbers)
    assert_same_bits(together, alone)
    with np.errstate(all="ignore"):
        plain = [lanes.fma(*triple) for triple in np.moveaxis(numbers, 1, 2).reshape(-1, 3)]
        arrays = np.array([lanes.fma(*row) for row in numbers])
    assert_same_bits(np.reshape(plain, alone.shape), alone)
    assert_same_bits(arrays, alone)
    for triple, value in zip(np.moveaxis(numbers, 1, 2).reshape(-1, 3), alone.ravel(), strict=True):
        if np.all(np.isfinite([*triple, value])):
            a, b, c = map(Fraction, triple)
            beside = np.nextafter(value, [-math.inf, math.inf])
            nearest = min(beside[np.isfinite(beside)], key=lambda x: abs(Fraction(x) - (a * b + c)))
            off, other = (abs(Fraction(x) - (a * b + c)) for x in (value, nearest))
            assert off <= other  # half a unit at most: one rounding


def test_fused_products_take_numbers_beside_lanes():
    @jit
    def loop(x, out):
        a = as_lanes(x)
        b = as_lanes(out)
        b[0] = lanes.fma(a[0], 0.1, a[1])
        b[1] = lanes.fma(3, a[0], 0.1)
        b[2] = lanes.fma(0.1, 0.1, a[1])
        out[3, 0] = lanes.fma(0.1, 10, -1.0)

    x, out = np.random.default_rng(5).standard_normal((2, 8)), np.zeros((4, 8))
    loop(x, out)
    expected = lanes.fma(x[0], 0.1, x[1]), lanes.fma(3, x[0], 0.1), lanes.fma(0.1, 0.1, x[1])
    assert_same_bits(out[:3], np.array(expected))
    assert out[3, 0] == 2.0**-54


def test_a_processor_without_the_instruction_gives_the_same_bits(tmp_path):
    """There the C library's function is called."""
    file = tmp_path / "generic.npy"
    script = "import sys, numpy, test_lanes as t; "
    script += "numpy.save(sys.argv[1], t.by_fused(t.triples()))"
    generic = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    places = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    environment = os.environ | generic | {"PYTHONPATH": places}
    subprocess.run([sys.executable, "-c", script, file], env=environment, check=True, timeout=HANG)
    assert_same_bits(np.load(file), np.array(by_fused(triples())))


@pytest.mark.parametrize("name", ["sin", "cos", "log"])
def test_functions_of_each_lane_are_the_scalar_ones(name):
    function = getattr(lanes, name)

    @jit
    def loop(x, alone, together):
        a = as_lanes(x)
        b = as_lanes(together)
        for i in range(a.shape[0]):
            b[i] = function(a[i])
            for k in range(8):
                alone[i, k] = function(x[i, k])

    values = np.vstack([LEFT, 30 * np.random.default_rng(2).standard_normal((50, 8))])
    alone, together = np.empty_like(values), np.empty_like(values)
    loop(values, alone, together)
    assert_same_bits(together, alone)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(together, getattr(np, name)(values), rtol=1e-15, atol=1e-16)


def test_sum_and_ramp():
    @jit
    def loop(x, sums, ramps):
        a, r = as_lanes(x), as_lanes(ramps)
        for i in range(a.shape[0]):
            sums[i] = hsum(a[i])
            r[i] = ramp(a[i])

    values = np.random.default_rng(3).standard_normal((20, 8)) * 10.0 ** np.arange(-8, 8, 2)
    sums, ramps = np.empty(20), np.empty((20, 8))
    loop(values, sums, ramps)
    halves = values[:, :4] + values[:, 4:]
    quarters = halves[:, :2] + halves[:, 2:]
    assert_same_bits(sums, quarters[:, 0] + quarters[:, 1])
    np.testing.assert_array_equal(ramps, np.tile(np.arange(8.0), (20, 1)))


def test_numbers_become_lanes():
    """In a store, in a variable that is a number at first, and in a branch on lanes."""

    @jit
    def loop(x, out):
        a, b = as_lanes(x), as_lanes(out)
        b[0] = 3
        b[1] = 0.1
        total = 0.0
        for i in range(a.shape[0]):
            total = total + a[i]
        b[2] = total
        if any_lane(a[0] > 0.0):
            total = 1
        b[3] = total

    out = np.empty((4, 8))
    values = np.arange(24.0).reshape(3, 8)
    loop(values, out)
    expected = [np.full(8, 3.0), np.full(8, 0.1), values.sum(axis=0), np.ones(8)]
    np.testing.assert_array_equal(out, expected)


def write_through_views(y, work):
    q, omega = rows(y, 1, 2), rows(y, 3, 1)
    q[1, 2] = q[0, 0] + 10.0
    omega[0, 1] = 5.0
    stack, rest = rows_of(work, 2, 2), tail(work, 8)
    stack[1, 0] = stack[0, 2] * 2.0
    rest[0] = rest[1] - 1.0
    return q.shape[0] + omega.shape[0] + stack.shape[0] + rest.shape[0]


def test_views_share_memory_with_scalars_and_lanes():
    y, work = np.arange(15.0).reshape(5, 3), np.arange(12.0)
    expected_y, expected_work = y.copy(), work.copy()
    expected_y[2, 2], expected_y[3, 1] = 13.0, 5.0
    expected_work[5], expected_work[8] = 8.0, 8.0

    plain_y, plain_work = y.copy(), work.copy()
    assert write_through_views(plain_y, plain_work) == 2 + 1 + 2 + 4
    np.testing.assert_array_equal(plain_y, expected_y)
    np.testing.assert_array_equal(plain_work, expected_work)

    scalar = jit(write_through_views)
    assert scalar(y, work) == 9
    np.testing.assert_array_equal(y, expected_y)
    np.testing.assert_array_equal(work, expected_work)

    @jit
    def on_lanes(y, work):
        return scalar(as_lanes(y), as_lanes(work))

    y = np.repeat(np.arange(15.0).reshape(5, 3)[..., None], 8, axis=-1)
    work = np.repeat(np.arange(12.0)[:, None], 8, axis=-1)
    assert on_lanes(y, work) == 9
    np.testing.assert_array_equal(y, np.repeat(expected_y[..., None], 8, axis=-1))
    np.testing.assert_array_equal(work, np.repeat(expected_work[:, None], 8, axis=-1))


def vocabulary(a, b):
    """All functions of one meaning, on one pair of numbers."""
    condition = a > b
    return (
        select(condition, a, b), any_lane(condition), all_lanes(condition), bits(condition),
        sqrt(a), hsum(a), ramp(a), lanes.sin(b), lanes.cos(b), lanes.log(b), abs(a),
        lanes.fma(a, b, 0.1), lanes.fma(a, b, -(a * b)),
    )  # fmt: skip


def test_plain_python_and_compiled_scalars_agree():
    compiled = jit(vocabulary)
    for a, b in itertools.product(SPECIAL, [0.5, 2.0, 1e300]):
        np.testing.assert_array_equal(vocabulary(a, b), compiled(a, b))


@pytest.mark.parametrize("name", ["sin", "cos", "log"])
def test_plain_python_functions_take_what_compiled_ones_take(name):
    function = getattr(lanes, name)
    compiled = jit(lambda x: function(x))
    for value in SPECIAL:
        np.testing.assert_array_equal(function(value), compiled(value))
