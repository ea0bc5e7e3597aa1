"""Numbers with tangents: values are float64's to the last bit, derivatives the known ones."""

import math
import operator
import pickle

import numpy as np
import pytest
from array_kernels import on_arrays

from integrators.compiler import lanes
from integrators.compiler.elements import TANGENTS, as_elements
from integrators.compiler.kernels import inlined, varying
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

as_tangents = as_elements(TANGENTS)


@inlined
def arithmetic(a, b):
    return a + b, a - b, a * b, a / b


ARITHMETIC = (  # with both slopes
    (operator.add, lambda a, b: (1.0, 1.0)),
    (operator.sub, lambda a, b: (1.0, -1.0)),
    (operator.mul, lambda a, b: (b, a)),
    (operator.truediv, lambda a, b: (1.0 / b, -a / (b * b))),
)


@inlined
def functions(x):
    return (
        -x, abs(x), lanes.sqrt(x), lanes.sin(x), lanes.cos(x), lanes.exp(x), lanes.log(x),
        lanes.nearest(x),
    )  # fmt: skip


FUNCTIONS = (  # of positive numbers: what compiled code makes of their values, and the slope
    (operator.neg, lambda x: -1.0),
    (abs, np.sign),
    (math.sqrt, lambda x: 0.5 / np.sqrt(x)),
    (math.sin, np.cos),
    (math.cos, lambda x: -np.sin(x)),
    (math.exp, np.exp),
    (math.log, lambda x: 1.0 / x),
    (round, lambda x: 0.0),
    (lambda x: x, lambda x: 0.0),
)
ABS, SQRT = 1, 2


SEEDS = range(10)


def positive(seed, *shape):
    """Numbers from 1/16 to 16, with tangents on the last axis; some of them powers of two."""
    random = np.random.default_rng(seed)
    exponents = random.uniform(-4.0, 4.0, (*shape, WIDTH, 1 + COUNT))
    return 2.0 ** np.where(random.random(exponents.shape) < 0.1, np.rint(exponents), exponents)


def signed(seed, *shape):
    """The same of either sign, and one number alone."""
    found = positive(seed, *shape)
    found *= np.random.default_rng(seed + 100).choice([1.0, -1.0], found.shape)
    return *found, found[0, -1, -1]


def assert_same_bits(found, expected):
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def assert_follows(found, values, *terms):
    """Values to the last bit, and tangents Σ slope · tangents to round-off of the terms."""
    assert_same_bits(found[..., 0], values)
    parts = [np.asarray(slope)[..., None] * moving for slope, moving in terms]
    expected, size = sum(parts), sum(map(np.abs, parts))
    assert np.all(np.abs(found[..., 1:] - expected) <= 1e-15 * (size + np.zeros_like(expected)))


@on_arrays(2, 2, 0, 4)
def arithmetic_alone(x, y, number, out):
    """Of numbers with tangents, and of them beside numbers; out[k, way, i]."""
    a, b, made = as_tangents(x), as_tangents(y), as_tangents(out)
    for i in range(WIDTH):
        for k in range(4):
            made[k, 0, i] = arithmetic(a[i], b[i])[k]
            made[k, 1, i] = arithmetic(a[i], number)[k]
            made[k, 2, i] = arithmetic(number, b[i])[k]


@on_arrays(2, 2, 0, 4)
def arithmetic_wide(x, y, number, out):
    """Of lanes beside lanes, numbers, and numbers with tangents."""
    one, other = as_tangents(x)[0], as_tangents(y)[0]
    a, b = as_lanes(as_tangents(x[None]))[0], as_lanes(as_tangents(y[None]))[0]
    made = as_lanes(as_tangents(out))
    for k in range(4):
        made[k, 0] = arithmetic(a, b)[k]
        made[k, 1] = arithmetic(a, number)[k]
        made[k, 2] = arithmetic(number, b)[k]
        made[k, 3] = arithmetic(a, eight(number))[k]
        made[k, 4] = arithmetic(eight(number), b)[k]
        made[k, 5] = arithmetic(a, other)[k]
        made[k, 6] = arithmetic(one, b)[k]
        made[k, 7] = arithmetic(one, eight(number))[k]


def moving(x):
    """The value and the tangents of numbers."""
    return x[..., 0], x[..., 1:]


@pytest.mark.parametrize("seed", SEEDS)
def test_arithmetic(seed):
    x, y, number = signed(seed, 2)
    (a, da), (b, db) = moving(x), moving(y)
    constant, one, other = (number, None), moving(x[0]), moving(y[0])
    all_one, constants = (np.full(WIDTH, one[0]), one[1]), (np.full(WIDTH, number), None)
    ways = [((a, da), (b, db)), ((a, da), constant), (constant, (b, db))]
    alone = np.empty((4, 3, WIDTH, 1 + COUNT))
    arithmetic_alone(x, y, number, alone)
    assert_arithmetic(alone, ways)
    ways += [*ways[1:], ((a, da), other), (one, (b, db)), (all_one, constants)]
    wide = np.empty((4, 8, WIDTH, 1 + COUNT))
    arithmetic_wide(x, y, number, wide)
    assert_arithmetic(wide, ways)


def assert_arithmetic(found, ways):
    for (function, slopes_of), made in zip(ARITHMETIC, found, strict=True):
        for own, ((u, du), (v, dv)) in zip(made, ways, strict=True):
            terms = [
                (slope + 0.0 * u + 0.0 * v, d)
                for slope, d in zip(slopes_of(u, v), (du, dv), strict=True)
                if d is not None
            ]
            assert_follows(own, function(u, v), *terms)


@on_arrays(2, 3)
def functions_alone(x, out):
    a, made = as_tangents(x), as_tangents(out)
    for i in range(WIDTH):
        found = functions(a[i])
        for k in range(8):
            made[k, i] = found[k]
        made[8, i] = lanes.value_of(a[i])


@on_arrays(2, 3)
def functions_wide(x, out):
    made = as_lanes(as_tangents(out))
    a = as_lanes(as_tangents(x[None]))[0]
    found = functions(a)
    for k in range(8):
        made[k] = found[k]
    made[8] = lanes.value_of(a)


def functions_of(x):
    """Of numbers alone, which those in lanes are to the last bit."""
    alone, wide = np.empty((2, len(FUNCTIONS), *x.shape))
    functions_alone(x, alone)
    functions_wide(x, wide)
    assert_same_bits(wide[..., 0], alone[..., 0])
    return alone, wide


@pytest.mark.parametrize("seed", SEEDS)
def test_functions(seed):
    x = positive(seed)
    values, tangent = moving(x)
    for found in functions_of(x):
        for (plain, slope), own in zip(FUNCTIONS, found, strict=True):
            expected = [plain(value) for value in values.tolist()]
            assert_follows(own, expected, (slope(values), tangent))


def test_the_sign_of_what_is_negative_and_a_root_of_nothing():
    x = np.arange(1.0, 1.0 + WIDTH * (1 + COUNT)).reshape(WIDTH, 1 + COUNT)
    x[:, 0] = -2.5
    for found in functions_of(x):
        assert_follows(found[ABS], -x[:, 0], (-np.ones(WIDTH), x[:, 1:]))
    x[:, 0] = 0.0
    for found in functions_of(x):
        assert_same_bits(found[SQRT], 0.0 * x)


@on_arrays(2, 2, 2, 0, 3)
def fused_alone(x, y, z, number, out):
    a, b, c, made = as_tangents(x), as_tangents(y), as_tangents(z), as_tangents(out)
    for i in range(WIDTH):
        made[0, i] = lanes.fma(a[i], b[i], c[i])
        made[1, i] = lanes.fma(number, b[i], c[i])
        made[2, i] = lanes.fma(a[i], number, number)
        made[3, i] = lanes.fma(number, number, c[i])


@on_arrays(2, 2, 2, 0, 3)
def fused_wide(x, y, z, number, out):
    a, b = as_lanes(as_tangents(x[None])), as_lanes(as_tangents(y[None]))
    c, made = as_lanes(as_tangents(z[None])), as_lanes(as_tangents(out))
    made[0] = lanes.fma(a[0], b[0], c[0])
    made[1] = lanes.fma(eight(number), b[0], c[0])
    made[2] = lanes.fma(a[0], number, number)
    made[3] = lanes.fma(number, number, as_tangents(z)[0])


@pytest.mark.parametrize("fused_products", [fused_alone, fused_wide], ids=["alone", "wide"])
@pytest.mark.parametrize("seed", SEEDS)
def test_fused_products(fused_products, seed):
    x, y, z, number = signed(seed, 3)
    out = np.empty((4, WIDTH, 1 + COUNT))
    fused_products(x, y, z, number, out)
    (a, da), (b, db), (third, dthird) = moving(x), moving(y), moving(z)
    first = np.repeat(z[:1], WIDTH, axis=0)
    last, dlast = moving(z if fused_products is fused_alone else first)
    one, constant = np.ones(WIDTH), np.full(WIDTH, number)

    def fused(*arguments):
        return [lanes.fma(*each) for each in zip(*arguments, strict=True)]

    assert_follows(out[0], fused(a, b, third), (b, da), (a, db), (one, dthird))
    assert_follows(out[1], fused(constant, b, third), (constant, db), (one, dthird))
    assert_follows(out[2], fused(a, constant, constant), (constant, da))
    assert_follows(out[3], fused(constant, constant, last), (one, dlast))


@inlined
def compared(a, b):
    return a < b, a <= b, a > b, a >= b, a == b, a != b


@on_arrays(2, 2, 2, 2)
def compare(x, y, alone, wide):
    a, b = as_tangents(x), as_tangents(y)
    c, d = as_lanes(as_tangents(x[None])), as_lanes(as_tangents(y[None]))
    for k in range(6):
        truth = bits(compared(c[0], d[0])[k])
        for i in range(WIDTH):
            alone[k, i] = compared(a[i], b[i])[k]
            wide[k, i] = truth >> i & 1


def test_comparisons_look_at_values_alone():
    x, y = np.zeros((2, WIDTH, 1 + COUNT))
    x[:, 0] = [1.0, 2.0, 3.0, -0.0, math.inf, math.nan, 1.0, -1.0]
    y[:, 0] = [2.0, 2.0, 1.0, 0.0, math.inf, 1.0, math.nan, -2.0]
    x[:, 1:], y[:, 1:] = 3.0, math.nan
    alone, wide = np.zeros((2, 6, WIDTH))
    compare(x, y, alone, wide)
    names = "lt", "le", "gt", "ge", "eq", "ne"
    expected = [getattr(operator, name)(x[:, 0], y[:, 0]) for name in names]
    np.testing.assert_array_equal(alone, expected)
    np.testing.assert_array_equal(wide, expected)


@on_arrays(2, 2, 2, 3)
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


@on_arrays(2, 2, 2)
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


@on_arrays(2, 2, 2, 1)
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


@on_arrays(2, 1)
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
