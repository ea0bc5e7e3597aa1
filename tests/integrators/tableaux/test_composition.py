"""Compositions: their coefficients, their order conditions, and what may be composed."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cases import first_of
from order_conditions import FREE, conjugated, excesses, merged, refined, with_decimals

import integrators
from integrators.method import EXACT
from integrators.tableaux.compositions import (
    ADJOINT_COMPOSITIONS,
    COMPOSITIONS,
    PROCESSED_COMPOSITIONS,
)

REFERENCE = json.loads((Path(__file__).parents[2] / "reference.json").read_text())
ALL_COMPOSITIONS = COMPOSITIONS | ADJOINT_COMPOSITIONS
EVERY_COMPOSITION = ALL_COMPOSITIONS | PROCESSED_COMPOSITIONS


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_digits_are_the_trusted_ones(name):
    trusted = REFERENCE["composition_coefficients"][name]
    for own, digits in zip(COMPOSITIONS[name].first_half, trusted["first_half"], strict=True):
        assert round(Fraction(own), len(digits.partition(".")[2])) == Fraction(digits)
        assert float(own) == float(digits)
    assert COMPOSITIONS[name].stages == trusted["stages"] == len(COMPOSITIONS[name].coefficients)


@pytest.mark.parametrize("name", ADJOINT_COMPOSITIONS)
def test_times_of_both_pieces_are_the_trusted_ones(name):
    trusted = REFERENCE["composition_coefficients"][name]
    composition = ADJOINT_COMPOSITIONS[name]
    assert list(composition.a_first_half) == trusted["a_first_half"]
    assert list(composition.b_first_half) == trusted["b_first_half"]
    shares = composition.exact_shares
    a, b = merged(shares)
    assert len(a) == 11 and len(b) == 10 and sum(a) == sum(b) == sum(shares) == 1
    for times, digits in ((a, trusted["a_first_half"]), (b, trusted["b_first_half"])):
        assert times[: len(digits)] == [Fraction(d) for d in digits] and times == times[::-1]
    assert composition.stages == 10 and len(shares) == 20


@pytest.mark.parametrize("name", ALL_COMPOSITIONS)
def test_all_conditions_for_the_order_are_met_and_not_those_for_one_more(name):
    """In the free algebra of A and B every word of length k of exp(A + B) has 1/k!."""
    composition = ALL_COMPOSITIONS[name]
    shares = composition.exact_shares
    excess = excesses(shares, composition.order + 1)
    size = max(1.0, *map(abs, map(float, merged(shares)[0])))
    digits = 1e-14 if name in ADJOINT_COMPOSITIONS else 1e-43  # as many as are given
    for k in range(1, composition.order + 1):
        assert excess[k] <= digits * (2 * size) ** k
    assert excess[composition.order + 1] > 1e-4


@pytest.mark.parametrize("name", PROCESSED_COMPOSITIONS)
def test_all_conditions_are_met_between_the_processor_and_its_inverse(name):
    composition = PROCESSED_COMPOSITIONS[name]
    shares, inner = composition.exact_shares, 2 * composition.stages
    kernel, processor = shares[:inner], shares[inner:]
    assert sum(kernel) == 1 and sum(processor) == 0
    assert kernel == kernel[::-1] and len(kernel) == 26
    excess = excesses(conjugated(composition), composition.order + 1)
    assert max(excess[1 : composition.order + 1]) <= 1e-13  # 15 digits are published
    assert excess[composition.order + 1] > 1e-4
    alone = excesses(kernel, 5)
    assert max(alone[1:5]) <= 1e-13 and alone[5] > 1e-4
    assert composition.shares.tolist() == [float(share) for share in shares]


@pytest.mark.parametrize("name", ADJOINT_COMPOSITIONS | PROCESSED_COMPOSITIONS)
def test_all_decimals_meet_the_conditions_and_are_near_those_published(name):
    published, (names, _) = EVERY_COMPOSITION[name], FREE[name]
    composition = with_decimals(published, names, published.refined)
    excess = excesses(conjugated(composition), composition.order + 1)
    assert max(excess[1 : composition.order + 1]) <= 1e-41
    assert excess[composition.order + 1] > 1e-4
    assert composition.exact_shares == published.refined_shares
    for key, own in zip(names, published.refined, strict=True):
        for digits, decimals in zip(getattr(published, key), own, strict=True):
            assert abs(Fraction(digits) - Fraction(decimals)) < Fraction(2, 10**15)


@pytest.mark.parametrize("name", first_of(["kahan_li6", "yoshida6", "blanes_moan6"]))
def test_all_decimals_follow_from_those_published(name):
    composition, (names, fixed) = EVERY_COMPOSITION[name], FREE[name]
    expected = [composition.first_half] if name in COMPOSITIONS else composition.refined
    if name in COMPOSITIONS:
        trusted = tuple(REFERENCE["composition_coefficients"][name]["first_half"])
        composition = replace(composition, first_half=trusted)
    found = refined(composition, names, fixed)
    for own, decimals in zip(np.concatenate(found), np.concatenate(expected), strict=True):
        assert abs(Fraction(own) - Fraction(decimals)) <= Fraction(1, 10**44)


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_sums_of_odd_powers_vanish_up_to_the_order(name):
    """Σγ = 1 and Σγ^k = 0 for odd k below the order: necessary for any symmetric method."""
    composition = COMPOSITIONS[name]
    half = [Fraction(digits) for digits in composition.first_half]
    exact = [*half, 1 - 2 * sum(half), *reversed(half)]
    assert sum(exact) == 1
    size = max(map(abs, exact))
    for power in range(3, composition.order, 2):
        assert abs(float(sum(g**power for g in exact))) < 1e-21 * max(1.0, float(size)) ** power
    assert abs(float(sum(g ** (composition.order + 1) for g in exact))) > 1e-7


@pytest.mark.parametrize("name", ALL_COMPOSITIONS)
def test_shares_are_symmetric_and_rounded_once(name):
    composition = ALL_COMPOSITIONS[name]
    shares = composition.shares
    np.testing.assert_array_equal(shares, shares[::-1])
    assert shares.tolist() == [float(share) for share in composition.exact_shares]
    assert abs(float(sum(map(Fraction, shares)) - 1)) < 4e-16
    assert len(shares) == 2 * composition.stages


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_coefficients_are_symmetric_and_rounded_once(name):
    coefficients = COMPOSITIONS[name].coefficients
    np.testing.assert_array_equal(coefficients, coefficients[::-1])
    np.testing.assert_array_equal(np.repeat(0.5 * coefficients, 2), COMPOSITIONS[name].shares)
    for digits, value in zip(COMPOSITIONS[name].first_half, coefficients, strict=False):
        assert value == float(digits)


@pytest.mark.parametrize("composition", ADJOINT_COMPOSITIONS | PROCESSED_COMPOSITIONS)
def test_methods_of_a_map_and_its_adjoint_compose_with_them(composition):
    expected = (ADJOINT_COMPOSITIONS | PROCESSED_COMPOSITIONS)[composition]
    for method in integrators.ALL_INTEGRATORS:
        if method.adjoint:
            composed = integrators.get(f"{method.name}+{composition}")
            assert composed.symmetric == (composition in ADJOINT_COMPOSITIONS)
            assert composed.order == expected.order
            assert composed.evaluations == method.evaluations * expected.stages
            assert composed.shares.tolist() == expected.shares.tolist()
        else:
            exact = method.order == EXACT
            reason = "the flow itself" if exact else "a map and its adjoint"
            with pytest.raises(integrators.InputError, match=reason):
                integrators.get(f"{method.name}+{composition}")


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_exactly_symmetric_methods_of_order_2_compose(composition):
    for method in integrators.ALL_INTEGRATORS:
        if method.symmetric and method.order == 2:
            composed = integrators.get(f"{method.name}+{composition}")
            assert composed.symmetric and composed.order == COMPOSITIONS[composition].order
            assert composed.evaluations == method.evaluations * COMPOSITIONS[composition].stages
        else:
            with pytest.raises(integrators.InputError, match=composition):
                integrators.get(f"{method.name}+{composition}")
