"""The lane type against NumPy, element by element and to the last bit."""

import itertools
import math
import operator
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
from array_kernels import on_arrays
from waiting import HANG

from integrators.compiler import lanes
from integrators.compiler.kernels import inlined
from integrators.compiler.lanes import all_lanes, any_lane, bits, hsum, ramp, select, sqrt
from integrators.compiler.views import as_lanes, rows, rows_of, tail

SPECIAL = [1.5, -2.25, 0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324]
# Every special value beside every one, at every place of the vector.
LEFT = np.array([SPECIAL] * 8)
RIGHT = np.array([np.roll(SPECIAL, k) for k in range(8)])

NAMES = "add", "sub", "mul", "truediv"


def assert_same_bits(found, expected):
    np.testing.assert_array_equal(found, expected)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[there], np.signbit(expected)[there])


def unpacked(masks):
    """Integers that `bits` gave, as rows of eight truth values."""
    return (masks.astype(int)[:, None] >> np.arange(8)) & 1 == 1


@inlined
def arithmetic(a, b):
    return a + b, a - b, a * b, a / b


@inlined
def compared(a, b):
    return a < b, a <= b, a > b, a >= b


@on_arrays(2, 2, 4, 3)
def both(x, y, made, truth):
    """Of lanes with lanes, floats and ints on either side."""
    a, b, out = as_lanes(x), as_lanes(y), as_lanes(made)
    for i in range(a.shape[0]):
        for k in range(4):
            out[k, 0, i] = arithmetic(a[i], b[i])[k]
            out[k, 1, i] = arithmetic(a[i], 0.3)[k]
            out[k, 2, i] = arithmetic(0.3, b[i])[k]
            out[k, 3, i] = arithmetic(a[i], -3)[k]
            out[k, 4, i] = arithmetic(-3, b[i])[k]
            truth[k, 0, i] = bits(compared(a[i], b[i])[k])
            truth[k, 1, i] = bits(compared(a[i], 0.3)[k])
            truth[k, 2, i] = bits(compared(0.3, b[i])[k])
            truth[k, 3, i] = bits(compared(a[i], -3)[k])
            truth[k, 4, i] = bits(compared(-3, b[i])[k])


def test_arithmetic_and_comparisons():
    """NaN compares false with everything."""
    made, truth = np.empty((4, 5, 8, 8)), np.empty((4, 5, 8))
    both(LEFT, RIGHT, made, truth)
    pairs = [(LEFT, RIGHT), (LEFT, 0.3), (0.3, RIGHT), (LEFT, -3), (-3, RIGHT)]
    with np.errstate(all="ignore"):
        for k, name in enumerate(NAMES):
            for way, pair in enumerate(pairs):
                assert_same_bits(made[k, way], getattr(operator, name)(*pair))
        for k, name in enumerate(("lt", "le", "gt", "ge")):
            for way, pair in enumerate(pairs):
                expected = getattr(operator, name)(*pair)
                np.testing.assert_array_equal(unpacked(truth[k, way]), expected)


@on_arrays(3, 2)
def in_place(x, y):
    a, b = as_lanes(x), as_lanes(y)
    for i in range(b.shape[0]):
        a[0, i] += b[i]
        a[1, i] -= b[i]
        a[2, i] *= b[i]
        a[3, i] /= b[i]


def test_arithmetic_in_place():
    found = np.array([LEFT] * 4)
    in_place(found, RIGHT)
    with np.errstate(all="ignore"):
        for name, made in zip(NAMES, found, strict=True):
            assert_same_bits(made, getattr(operator, name)(LEFT, RIGHT))


def test_masks_combine():
    @on_arrays(2, 2, 2)
    def loop(x, y, out):
        a, b = as_lanes(x), as_lanes(y)
        for i in range(a.shape[0]):
            p, q = a[i] > 0.0, b[i] > 0.0
            out[0, i], out[1, i], out[2, i] = bits(p & q), bits(p | q), bits(~p)
            out[3, i], out[4, i] = any_lane(p & q), all_lanes(p | ~p)
            out[5, i] = all_lanes(q)

    out = np.empty((6, 9))
    left, right = np.vstack([LEFT, np.zeros(8)]), np.vstack([RIGHT, np.ones(8)])
    loop(left, right, out)
    p, q = left > 0, right > 0
    for found, expected in zip(out[:3], (p & q, p | q, ~p), strict=True):
        np.testing.assert_array_equal(unpacked(found), expected)
    np.testing.assert_array_equal(out[3], (p & q).any(axis=1))
    assert out[4].all()
    assert out[5].tolist() == [0] * 8 + [1]


def test_every_bit_of_a_mask_is_its_lane():
    @on_arrays(2, 1)
    def loop(x, out):
        a = as_lanes(x)
        for i in range(a.shape[0]):
            out[i] = bits(a[i] > 0.0)

    every = np.array([[(k >> lane) & 1 for lane in range(8)] for k in range(256)], dtype=float)
    out = np.empty(256)
    loop(every, out)
    np.testing.assert_array_equal(out, np.arange(256))


def test_select_takes_lanes_and_numbers():
    @on_arrays(2, 2, 3)
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


@on_arrays(2, 3)
def unary(x, out):
    a, b = as_lanes(x), as_lanes(out)
    for i in range(a.shape[0]):
        b[0, i], b[1, i], b[2, i] = -a[i], abs(a[i]), sqrt(a[i])


def test_unary():
    values = np.vstack([LEFT, np.abs(np.random.default_rng(1).standard_normal((20, 8)))])
    out = np.empty((3, *values.shape))
    unary(values, out)
    with np.errstate(invalid="ignore"):
        for made, expected in zip(out, (np.negative, np.abs, np.sqrt), strict=True):
            assert_same_bits(made, expected(values))


# Products that a first rounding spoils, beyond the largest number or below the least; zeros' signs.
LARGEST, LEAST = np.finfo(float).max, 5e-324
FUSED = [
    (1.0 + 2.0**-27, 1.0 - 2.0**-27, -1.0), (0.1, 10.0, -1.0), (1.0 + 2.0**-52, 2.0**-53, 1.0),
    (LARGEST, 2.0, -LARGEST), (LARGEST, 2.0, -math.inf), (LARGEST, -2.0, LEAST), (LEAST, 0.5, 0.0),
    (LEAST, -0.5, -0.0), (LEAST, 0.5, LEAST), (LEAST, LEAST, 1.0),
    (2.0**-537, 3 * 2.0**-538, LEAST),
    (0.0, -1.0, 0.0), (0.0, -1.0, -0.0), (2.0, 0.5, -1.0), (-2.0, 0.5, 1.0), (1.0, 3.0, LARGEST),
]  # fmt: skip


@on_arrays(3, 2, 2)
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
    @on_arrays(2, 2)
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


@on_arrays(2, 3, 3)
def functions(x, alone, together):
    a, b = as_lanes(x), as_lanes(together)
    for i in range(a.shape[0]):
        b[0, i], b[1, i], b[2, i] = lanes.sin(a[i]), lanes.cos(a[i]), lanes.log(a[i])
        for k in range(8):
            alone[0, i, k], alone[1, i, k] = lanes.sin(x[i, k]), lanes.cos(x[i, k])
            alone[2, i, k] = lanes.log(x[i, k])


def test_functions_of_each_lane_are_the_scalar_ones():
    values = np.vstack([LEFT, 30 * np.random.default_rng(2).standard_normal((50, 8))])
    alone, together = np.empty((2, 3, *values.shape))
    functions(values, alone, together)
    assert_same_bits(together, alone)
    with np.errstate(all="ignore"):
        for made, function in zip(together, (np.sin, np.cos, np.log), strict=True):
            np.testing.assert_allclose(made, function(values), rtol=1e-15, atol=1e-16)
    plain = [[getattr(lanes, name)(x) for x in SPECIAL] for name in ("sin", "cos", "log")]
    np.testing.assert_array_equal(alone[:, 0], plain)


def test_sum_and_ramp():
    @on_arrays(2, 1, 2)
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

    @on_arrays(2, 2)
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

    compiled = inlined(write_through_views)

    @on_arrays(2, 1, 3, 2, 1)
    def by_both(y, work, y_lanes, work_lanes, rows_seen):
        rows_seen[0] = compiled(y, work)
        rows_seen[1] = compiled(as_lanes(y_lanes), as_lanes(work_lanes))

    y_lanes = np.repeat(y[..., None], 8, axis=-1)
    work_lanes, rows_seen = np.repeat(work[:, None], 8, axis=-1), np.empty(2)
    by_both(y, work, y_lanes, work_lanes, rows_seen)
    assert rows_seen.tolist() == [9, 9]
    np.testing.assert_array_equal(y, expected_y)
    np.testing.assert_array_equal(work, expected_work)
    np.testing.assert_array_equal(y_lanes, np.repeat(expected_y[..., None], 8, axis=-1))
    np.testing.assert_array_equal(work_lanes, np.repeat(expected_work[:, None], 8, axis=-1))


def vocabulary(a, b):
    """All functions of one meaning, on one pair of numbers."""
    condition = a > b
    return (
        select(condition, a, b), any_lane(condition), all_lanes(condition), bits(condition),
        sqrt(a), hsum(a), ramp(a), lanes.sin(b), lanes.cos(b), lanes.log(b), abs(a),
        lanes.fma(a, b, 0.1), lanes.fma(a, b, -(a * b)),
    )  # fmt: skip


def test_plain_python_and_compiled_scalars_agree():
    compiled = inlined(vocabulary)

    @on_arrays(2, 2)
    def each(pairs, out):
        for i in range(pairs.shape[0]):
            found = compiled(pairs[i, 0], pairs[i, 1])
            (
                out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4], out[i, 5], out[i, 6],
                out[i, 7], out[i, 8], out[i, 9], out[i, 10], out[i, 11], out[i, 12],
            ) = found  # fmt: skip

    pairs = np.array(list(itertools.product(SPECIAL, [0.5, 2.0, 1e300])))
    out = np.empty((len(pairs), 13))
    each(pairs, out)
    np.testing.assert_array_equal(out, [vocabulary(*pair) for pair in pairs.tolist()])
