"""The examples in docstrings."""

import doctest

import pytest

import integrators
import integrators.forms.flows
import systems


@pytest.mark.parametrize(
    "module", [integrators, integrators.forms.flows, systems], ids=lambda m: m.__name__
)
def test_examples_in_docstrings(module):
    found = doctest.testmod(module)
    assert found.attempted >= 2 and found.failed == 0
