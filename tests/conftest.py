"""Inherited tests: one that asks for an argument in `GENERATED` runs for all that is registered."""

import sys
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")  # compiling takes time, and a test must not flicker

sys.path.insert(0, str(Path(__file__).parent / "systems"))

import cases  # noqa: E402 (found on the path above)

GENERATED = {
    "case": cases.cases,
    "mechanical_case": cases.mechanical_cases,
    "spin_case": cases.spin_cases,
    "split_case": cases.split_cases,
    "pairing": cases.pairings,
    "symmetric_pairing": cases.symmetric_pairings,
    "adaptive_pairing": cases.adaptive_pairings,
    "reversible_pairing": cases.reversible_pairings,
    "promise": cases.promises,
}


def pytest_generate_tests(metafunc):
    for argument, make in GENERATED.items():
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, [pytest.param(item, id=str(item)) for item in make()])
