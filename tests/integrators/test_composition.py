"""Compositions: their coefficients, their order conditions, and what may be composed."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import integrators
from integrators.composition import COMPOSITIONS

REFERENCE = json.loads((Path(__file__).parents[1] / "reference.json").read_text())


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_digits_are_the_trusted_ones(name):
    trusted = REFERENCE["composition_coefficients"][name]
    assert list(COMPOSITIONS[name].first_half) == trusted["first_half"]
    assert COMPOSITIONS[name].stages == trusted["stages"] == len(COMPOSITIONS[name].coefficients)


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


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_coefficients_are_symmetric_and_rounded_once(name):
    coefficients = COMPOSITIONS[name].coefficients
    np.testing.assert_array_equal(coefficients, coefficients[::-1])
    for digits, value in zip(COMPOSITIONS[name].first_half, coefficients, strict=False):
        assert value == float(digits)
    assert abs(float(sum(map(Fraction, coefficients)) - 1)) < 4e-16


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_exactly_symmetric_methods_compose(composition):
    for method in integrators.ALL_INTEGRATORS:
        if method.symmetric:
            composed = integrators.get(f"{method.name}+{composition}")
            assert composed.symmetric and composed.order == COMPOSITIONS[composition].order
            assert composed.evaluations == method.evaluations * COMPOSITIONS[composition].stages
        else:
            with pytest.raises(integrators.InputError, match=composition):
                integrators.get(f"{method.name}+{composition}")
