"""Numbers with tangents: values are float64's to the last bit, derivatives the known ones."""

import math
import operator
import pickle

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from integrators.compiler import lanes
from integrators.compiler.elements import TANGENTS, as_elements
from integrators.compiler.kernels import OPTIONS, inlined, varying
from integrators.compiler.lanes import (
    WIDTH,
    any_lane,
    bits,
    eight,
    hsum,
    lane_of,
    select,
    with_lane,
)
from integrators.compiler.tangents import (
    COUNT,
    carried,
    directed,
    directions,
    over_directions,
    tangents,
    tangents_lanes,
)
from integrators.compiler.views import as_lanes, members

jit = numba.njit(**OPTIONS)
as_tangents = as_elements(TANGENTS)
BOTH = "alone", "wide"

BINARY = {  # with both slopes
    "add": (operator.add, lambda a, b: (1.0, 1.0)),
    "sub": (operator.sub, lambda a, b: (1.0, -1.0)),
    "mul": (operator.mul, lambda a, b: (b, a)),
    "truediv": (operator.truediv, lambda a, b: (1.0 / b, -a / (b * b))),
}
UNARY = {  # of positive numbers, with what compiled code makes of their values
    "neg": (operator.neg, operator.neg, lambda x: -1.0),
    "abs": (abs, abs, np.sign),
    "sqrt": (lanes.sqrt, math.sqrt, lambda x: 0.5 / np.sqrt(x)),
    "sin": (lanes.sin, math.sin, np.cos),
    "cos": (lanes.cos, math.cos, lambda x: -np.sin(x)),
    "exp": (lanes.exp, math.exp, np.exp),
    "log": (lanes.log, math.log, lambda x: 1.0 / x),
    "nearest": (lanes.nearest, round, lambda x: 0.0),
    "value_of": (lanes.value_of, lambda x: x, lambda x: 0.0),
}


POSITIVE = st.floats(0.0625, 16.0)
SIGNED = st.tuples(POSITIVE, st.sampled_from([1.0, -1.0])).map(math.prod)


def numbers(values=SIGNED):
    """Eight numbers with tangents, shape (8, 1 + COUNT)."""
    return arrays(np.float64, (WIDTH, 1 + COUNT), elements=values)


def assert_same_bits(found, expected):
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def assert_follows(found, values, *terms):
    """Values to the last bit, and tangents Σ slope · tangents to round-off of the terms."""
    assert_same_bits(found[..., 0], values)
    parts = [np.asarray(slope)[..., None] * moving for slope, moving in terms]
    expected, size = sum(parts), sum(map(np.abs, parts))
    assert np.all(np.abs(found[..., 1:] - expected) <= 1e-15 * (size + np.zeros_like(expected)))


def binary_loop(function, kind):
    """``function`` of numbers with tangents, and of them beside numbers, lanes and one alone."""

    @jit
    def alone(x, y, number, out):
        a, b, made = as_tangents(x), as_tangents(y), as_tangents(out)
        for i in range(WIDTH):
            made[0, i] = function(a[i], b[i])
            made[1, i] = function(a[i], number)
            made[2, i] = function(number, b[i])

    @jit
    def wide(x, y, number, out):
        one, other = as_tangents(x)[0], as_tangents(y)[0]
        a, b = as_lanes(as_tangents(x[None])), as_lanes(as_tangents(y[None]))
        made = as_lanes(as_tangents(out))
        made[0] = function(a[0], b[0])
        made[1] = function(a[0], number)
        made[2] = function(number, b[0])
        made[3] = function(a[0], eight(number))
        made[4] = function(eight(number), b[0])
        made[5] = function(a[0], other)
        made[6] = function(one, b[0])
        made[7] = function(one, eight(number))

    return alone if kind == "alone" else wide


LOOPS = {(name, kind): binary_loop(BINARY[name][0], kind) for name in BINARY for kind in BOTH}


def moving(x):
    """The value and the tangents of numbers."""
    return x[..., 0], x[..., 1:]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("name", BINARY)
@given(x=numbers(), y=numbers(), number=SIGNED)
def test_arithmetic(name, kind, x, y, number):
    function, slopes_of = BINARY[name]
    out = np.empty((3 if kind == "alone" else 8, WIDTH, 1 + COUNT))
    LOOPS[name, kind](x, y, number, out)
    (a, da), (b, db) = moving(x), moving(y)

    def expected(found, left, right):
        (u, du), (v, dv) = left, right
        with np.errstate(all="ignore"):
            slopes = slopes_of(u, v)
        terms = [(s, d) for s, d in zip(slopes, (du, dv), strict=True) if d is not None]
        assert_follows(found, function(u, v), *[(s + 0.0 * u + 0.0 * v, d) for s, d in terms])

    constant, one, other = (number, None), moving(x[0]), moving(y[0])
    expected(out[0], (a, da), (b, db))
    expected(out[1], (a, da), constant)
    expected(out[2], constant, (b, db))
    if kind == "wide":
        expected(out[3], (a, da), constant)
        expected(out[4], constant, (b, db))
        expected(out[5], (a, da), other)
        expected(out[6], one, (b, db))
        expected(out[7], *((np.full(WIDTH, one[0]), one[1]), (np.full(WIDTH, number), None)))


def unary_loop(function, kind):
    @jit
    def alone(x, out):
        a, made = as_tangents(x), as_tangents(out)
        for i in range(WIDTH):
            made[i] = function(a[i])

    @jit
    def wide(x, out):
        a, made = as_lanes(as_tangents(x[None])), as_lanes(as_tangents(out[None]))
        made[0] = function(a[0])

    return alone if kind == "alone" else wide


FUNCTIONS = {(name, kind): unary_loop(UNARY[name][0], kind) for name in UNARY for kind in BOTH}


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("name", UNARY)
@given(x=numbers(POSITIVE))
def test_functions(name, kind, x):
    _, plain, slope = UNARY[name]
    out = np.empty_like(x)
    FUNCTIONS[name, kind](x, out)
    values, tangent = moving(x)
    assert_follows(out, [plain(value) for value in values.tolist()], (slope(values), tangent))


def test_the_sign_of_what_is_negative_and_a_root_of_nothing():
    x = np.arange(1.0, 1.0 + WIDTH * (1 + COUNT)).reshape(WIDTH, 1 + COUNT)
    x[:, 0] = -2.5
    out = np.empty_like(x)
    for kind in BOTH:
        FUNCTIONS["abs", kind](x, out)
        assert_follows(out, -x[:, 0], (-np.ones(WIDTH), x[:, 1:]))
    x[:, 0] = 0.0
    for kind in BOTH:
        FUNCTIONS["sqrt", kind](x, out)
        assert_same_bits(out, 0.0 * x)


def fused_loop(kind):
    @jit
    def alone(x, y, z, number, out):
        a, b, c, made = as_tangents(x), as_tangents(y), as_tangents(z), as_tangents(out)
        for i in range(WIDTH):
            made[0, i] = lanes.fma(a[i], b[i], c[i])
            made[1, i] = lanes.fma(number, b[i], c[i])
            made[2, i] = lanes.fma(a[i], number, number)
            made[3, i] = lanes.fma(number, number, c[i])

    @jit
    def wide(x, y, z, number, out):
        a, b = as_lanes(as_tangents(x[None])), as_lanes(as_tangents(y[None]))
        c, made = as_lanes(as_tangents(z[None])), as_lanes(as_tangents(out))
        made[0] = lanes.fma(a[0], b[0], c[0])
        made[1] = lanes.fma(eight(number), b[0], c[0])
        made[2] = lanes.fma(a[0], number, number)
        made[3] = lanes.fma(number, number, as_tangents(z)[0])

    return alone if kind == "alone" else wide


FUSED = {kind: fused_loop(kind) for kind in BOTH}


@pytest.mark.parametrize("kind", BOTH)
@given(x=numbers(), y=numbers(), z=numbers(), number=SIGNED)
def test_fused_products(kind, x, y, z, number):
    out = np.empty((4, WIDTH, 1 + COUNT))
    FUSED[kind](x, y, z, number, out)
    if kind == "wide":
        z = np.stack([z, z, z, np.repeat(z[:1], WIDTH, axis=0)])
    (a, da), (b, db), (c, dc) = moving(x), moving(y), moving(z)
    third, last = (c, c) if kind == "alone" else (c[0], c[3])
    dthird, dlast = (dc, dc) if kind == "alone" else (dc[0], dc[3])
    one, constant = np.ones(WIDTH), np.full(WIDTH, number)

    def fused(*arguments):
        return [lanes.fma(*each) for each in zip(*arguments, strict=True)]

    assert_follows(out[0], fused(a, b, third), (b, da), (a, db), (one, dthird))
    assert_follows(out[1], fused(constant, b, third), (constant, db), (one, dthird))
    assert_follows(out[2], fused(a, constant, constant), (constant, da))
    assert_follows(out[3], fused(constant, constant, last), (one, dlast))


COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def comparing(name, kind):
    function = getattr(operator, name)

    @jit
    def alone(x, y, found):
        a, b = as_tangents(x), as_tangents(y)
        for i in range(WIDTH):
            found[i] = function(a[i], b[i])

    @jit
    def wide(x, y, found):
        a, b = as_lanes(as_tangents(x[None])), as_lanes(as_tangents(y[None]))
        truth = bits(function(a[0], b[0]))
        for i in range(WIDTH):
            found[i] = truth >> i & 1

    return alone if kind == "alone" else wide


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_look_at_values_alone(name, kind):
    x, y = np.zeros((2, WIDTH, 1 + COUNT))
    x[:, 0] = [1.0, 2.0, 3.0, -0.0, math.inf, math.nan, 1.0, -1.0]
    y[:, 0] = [2.0, 2.0, 1.0, 0.0, math.inf, 1.0, math.nan, -2.0]
    x[:, 1:], y[:, 1:] = 3.0, math.nan
    found = np.zeros(WIDTH)
    comparing(name, kind)(x, y, found)
    np.testing.assert_array_equal(found != 0.0, getattr(operator, name)(x[:, 0], y[:, 0]))


@jit
def choose(x, y, out, both):
    a, b, made = as_tangents(x), as_tangents(y), as_tangents(out)
    for i in range(WIDTH):
        made[i] = select(a[i] < b[i], a[i], b[i])
    c, d, chosen = (
        as_lanes(as_tangents(x[None])),
        as_lanes(as_tangents(y[None])),
        as_lanes(as_tangents(both)),
    )
    chosen[0] = select(c[0] < d[0], c[0], d[0])
    chosen[1] = select(c[0] < d[0], c[0], 7.0)
    if any_lane(c[0] > d[0]):
        chosen[2] = select(c[0] < 0.0, eight(2.0), d[0])


def test_choices_take_tangents_along():
    x, y = np.random.default_rng(1).normal(size=(2, WIDTH, 1 + COUNT))
    less = (x[:, 0] < y[:, 0])[:, None]
    assert 0 < less.sum() < WIDTH
    out, both = np.empty_like(x), np.empty((3, *x.shape))
    choose(x, y, out, both)
    seven, two = np.zeros((2, 1 + COUNT))
    seven[0], two[0] = 7.0, 2.0
    assert_same_bits(out, np.where(less, x, y))
    assert_same_bits(both[0], np.where(less, x, y))
    assert_same_bits(both[1], np.where(less, x, seven))
    assert_same_bits(both[2], np.where(x[:, :1] < 0.0, two, y))


@jit
def through_lanes(x, out, total):
    alone, made = members(as_tangents(x)), as_lanes(as_tangents(out[None]))
    eights = eight(5.0)
    for i in range(WIDTH):
        eights = with_lane(eights, i, lane_of(alone[i, 0], 0))
    made[0] = with_lane(eights, 3, 2.0 * lane_of(eights, 3))
    as_tangents(total)[0] = hsum(eights)


def test_numbers_go_into_lanes_and_out_of_them():
    x = np.random.default_rng(2).normal(size=(WIDTH, 1 + COUNT))
    out, total = np.empty_like(x), np.empty((1, 1 + COUNT))
    through_lanes(x, out, total)
    expected = x.copy()
    expected[3] *= 2.0
    assert_same_bits(out, expected)
    np.testing.assert_allclose(total[0], x.sum(axis=0), rtol=1e-14)
    assert total[0, 0] == hsum(x[:, 0])


@jit
def carrying(x, y, out, plain):
    a, b, made = as_tangents(x), as_tangents(y), as_tangents(out)
    made[0] = carried(a[0], b[0])
    made[1] = directed(a[0], directions(b[0]) * 2.0)
    over_directions(a)[1] = directions(b[0])
    plain[0] = carried(plain[1], plain[2])
    plain[3] = lane_of(directions(plain[1]), 0)


def test_tangents_of_one_with_the_value_of_another():
    x, y = np.random.default_rng(3).normal(size=(2, 2, 1 + COUNT))
    out, plain, moved = np.empty_like(x), np.arange(1.0, 5.0), x.copy()
    carrying(moved, y, out, plain)
    assert_same_bits(out[0], np.concatenate([x[0, :1], y[0, 1:]]))
    assert_same_bits(out[1], np.concatenate([x[0, :1], 2.0 * y[0, 1:]]))
    assert_same_bits(moved.ravel()[COUNT : 2 * COUNT], y[0, 1:])
    assert plain.tolist() == [2.0, 2.0, 3.0, 0.0]


@inlined
def _usual(x):
    return 2.0 * x


@inlined
def _other(x):
    return 3.0 * x


_either = varying(_usual, tangents=_other)


@jit
def varied(x, plain):
    a = as_tangents(x)
    a[0] = _either(a[0])
    plain[0] = _either(plain[0])


def test_a_varying_helper_is_another_one_for_numbers_with_tangents():
    x, plain = np.ones((1, 1 + COUNT)), np.ones(1)
    varied(x, plain)
    assert np.all(x == 3.0) and plain[0] == 2.0


@pytest.mark.parametrize("kind", [tangents, tangents_lanes], ids=str)
def test_cached_code_names_the_types_themselves(kind):
    assert pickle.loads(pickle.dumps(kind)) is kind
