"""Numbers of 32 digits on the host: what floats stand for, pairs, and that no digit is lost."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrators.errors import InputError
from integrators.precision import (
    DOUBLES,
    PRECISE,
    LostDigits,
    all_finite,
    arithmetic_of,
    inverse_of,
    is_precise,
    precise_from_doubles,
    simplest_fraction,
    simplest_fractions,
    to_double_doubles,
    to_doubles,
    to_numbers,
    to_precise,
)

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def exact(pair):
    """The number of a pair as a fraction."""
    return Fraction(pair[0]) + Fraction(pair[1])


@given(FLOATS)
def test_the_simplest_fraction_rounds_to_the_float(x):
    assert float(simplest_fraction(x)) == x


@given(st.integers(1, 2000), st.integers(1, 2000))
def test_no_fraction_of_lesser_denominator_rounds_to_the_float(numerator, denominator):
    x = numerator / denominator
    found = simplest_fraction(x)
    assert found == Fraction(numerator, denominator)
    for less in range(1, found.denominator):
        assert float(Fraction(round(Fraction(x) * less), less)) != x


@given(st.floats(1e-3, 1e3))
def test_neighbours_in_the_tree_do_not_round_to_the_float(x):
    """Every fraction of lesser denominator is farther off than one of the two it is between."""
    found = simplest_fraction(x)
    if found.denominator == 1:
        return
    p, q = found.numerator, found.denominator
    less = pow(p, -1, q) % q  # of the neighbour below: p b − q a = 1
    for b in {less or 1, q - less}:
        a = round(Fraction(p * b, q))
        assert abs(p * b - q * a) == 1 and b < q
        assert float(Fraction(a, b)) != x


@pytest.mark.parametrize(
    ("x", "fraction"),
    [
        (0.1, "1/10"), (4 / 3, "4/3"), (9.81, "981/100"), (-4.61538, "-230769/50000"), (0.0, "0"),
        (1e-7, "1/10000000"), (2.0**-1074, None), (2.0**-1022, None), (1.0 + 2.0**-52, None),
        (2.0**60, str(2**60)), (2.0**53 + 2, str(2**53 + 2)), (1.7976931348623157e308, None),
    ],
)  # fmt: skip
def test_simplest_fractions(x, fraction):
    assert float(simplest_fraction(x)) == x
    assert fraction is None or simplest_fraction(x) == Fraction(fraction)


@pytest.mark.parametrize("x", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_has_none(x):
    with pytest.raises(InputError, match="expected a finite number"):
        simplest_fraction(x)


@pytest.mark.parametrize(
    ("x", "multiple"),
    [(math.pi / 6, (1, 6)), (20 * math.pi, (20, 1)), (math.radians(7.0), (7, 180))],
)
def test_simple_multiples_of_pi_are_meant(x, multiple):
    numerator, denominator = multiple
    high, low = to_double_doubles(to_precise(x))
    assert abs(high - x) <= math.ulp(x)
    digits = Fraction("3.14159265358979323846264338327950288419716939937510")
    expected = digits * numerator / denominator
    assert abs(exact((high, low)) / expected - 1) < 1e-31


@given(FLOATS)
def test_others_are_their_simplest_fractions(x):
    if simplest_fraction(x).denominator <= 10**6:
        high, low = to_double_doubles(to_precise(x))
        assert high == x
        assert abs(exact((high, low)) - simplest_fraction(x)) <= abs(simplest_fraction(x)) / 2**105


@given(FLOATS)
def test_doubles_are_exact_where_they_are_taken_so(x):
    high, low = to_double_doubles(precise_from_doubles(x))
    assert high == x and low == 0.0


@given(st.fractions())
def test_pairs_are_rounded_twice(x):
    high, low = to_double_doubles(np.array([x], dtype=object))[0]
    assert high == float(x) and low == float(x - Fraction(high))


def test_whole_numbers_and_what_is_none_stay():
    found = to_precise((3, True, "closed", 0.25, (0.1, math.inf)))
    assert found[:3] == (3, True, "closed")
    assert found[3] == 0.25 and exact(to_double_doubles(found[4][0])) - Fraction(1, 10) < 1e-33
    np.testing.assert_array_equal(to_double_doubles(found[4][1]), [math.inf, 0.0])


TENTH = 0.1


@pytest.mark.parametrize(
    "lose",
    [
        float,
        complex,
        math.sqrt,
        lambda x: np.array([x], dtype=float),
        lambda x: np.zeros(1).__setitem__(0, x),
        lambda x: np.linalg.inv(np.array([[x]])),
        lambda x: x * TENTH,
        lambda x: TENTH * x,
        lambda x: x + np.float64(TENTH),
        lambda x: np.float64(TENTH) - x,
        lambda x: np.array([x, x]) / np.array([TENTH, TENTH]),
        lambda x: x**TENTH,
        lambda x: np.arctan2(x, TENTH),
        lambda x: to_double_doubles([x, TENTH]),
        lambda x: to_numbers([x, TENTH]),
        lambda x: PRECISE.number(math.sqrt(3.0)),
        lambda x: PRECISE.array([x, 1 / 3]),
        lambda x: PRECISE.sin(0.1 + 0.2),
    ],
)
def test_no_digit_is_lost_unasked(lose):
    with pytest.raises((LostDigits, np.linalg.LinAlgError, TypeError)) as caught:
        lose(to_precise(1 / 3))
    assert isinstance(caught.value, LostDigits) or "inv" in str(caught.value)


def test_functions_of_numpy_keep_all_digits():
    third, half = to_precise(1 / 3), np.array([to_precise(0.5), to_precise(0.25)])
    assert abs(np.sqrt(third) ** 2 - third) < 1e-44
    assert abs(np.cos(third) ** 2 + np.sin(third) ** 2 - 1) < 1e-44
    assert abs(np.exp(np.log(third)) - third) < 1e-44
    assert abs(np.linalg.norm(half) ** 2 - 0.3125) < 1e-44
    assert abs(np.linalg.norm(half[None], axis=1)[0] ** 2 - 0.3125) < 1e-44
    np.testing.assert_array_equal(half + 1.5, [2.0, 1.75])


def test_arrays_of_both_arithmetics():
    array = np.array([1.5, 2.0])
    assert to_numbers(array) is array and to_numbers(array, copy=True) is not array
    assert to_numbers([1, 2]).dtype == float
    mixed = to_numbers([to_precise(0.1), 2.0, 3])
    assert is_precise(mixed) and all(map(is_precise, mixed)) and not is_precise(array)
    np.testing.assert_array_equal(to_doubles(mixed), [0.1, 2.0, 3.0])
    assert to_doubles(array) is array
    assert all_finite(mixed) and not all_finite([to_precise(0.1), math.inf])
    assert list(simplest_fractions([1 / 3, 0.5])) == [Fraction(1, 3), Fraction(1, 2)]
    with pytest.raises(ValueError, match="could not convert"):
        to_numbers(["one"])


def test_inverses():
    matrix = [[2.0, 0.1, 0.3], [0.1, 3.0, 0.7], [0.3, 0.7, 5.0]]
    np.testing.assert_array_equal(inverse_of(np.array(matrix)), np.linalg.inv(matrix))
    own = to_precise(np.array(matrix))
    product = own @ inverse_of(own)
    assert np.max(np.abs(product - np.eye(3))) < 1e-43


def test_both_arithmetics_have_the_same_functions():
    assert arithmetic_of("double") is DOUBLES and arithmetic_of("double-double") is PRECISE
    with pytest.raises(InputError, match="unknown arithmetic 'quadruple'"):
        arithmetic_of("quadruple")
    for name in ("sqrt", "sin", "cos", "expm1", "radians", "number"):
        one, other = (getattr(of, name)(0.3) for of in (DOUBLES, PRECISE))
        assert one == pytest.approx(float(to_doubles(other)), rel=2e-16)
    assert DOUBLES.pi == to_doubles(PRECISE.pi)
    assert to_doubles(PRECISE.number(math.inf)) == math.inf
    array = PRECISE.array([[0.1, 1], [2.0, to_precise(0.3)]])
    np.testing.assert_array_equal(to_doubles(array), DOUBLES.array([[0.1, 1], [2.0, 0.3]]))
    assert to_doubles(PRECISE.total(array[:, 0])) == DOUBLES.total([0.1, 2.0])
