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
    "covering": cases.covering_pairings,
    "symmetric_pairing": cases.symmetric_pairings,
    "adaptive_pairing": cases.adaptive_pairings,
    "reversible_pairing": cases.reversible_pairings,
    "promise": cases.promises,
}


def pytest_generate_tests(metafunc):
    for argument, make in GENERATED.items():
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, [pytest.param(item, id=str(item)) for item in make()])


MANY = 3000  # tests in a run that comes to nearly all kernels


def pytest_collection_finish(session):
    """Share the compiling among the processes of a whole run: each would compile everything."""
    process = getattr(session.config, "workerinput", None)
    if process is None or len(session.items) < MANY:
        return
    kernels = {}
    for pairing in cases.pairings():
        problem = pairing.problem
        made = (problem.advance, problem.function, problem.move, problem.pull, problem.monitor)
        kernels |= {kernel.label: kernel for kernel in made if kernel}
    number = int(process["workerid"].removeprefix("gw"))
    for label in sorted(kernels)[number :: process["workercount"]]:
        for lanes in (False, True):
            kernels[label].compiled(lanes)
