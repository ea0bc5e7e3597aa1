"""States computed elsewhere in quadruple precision (`reference.json`) come out here."""

import json
from pathlib import Path

import numpy as np
import pytest

import integrators
import systems
from integrators.status import ABS_MEAN
from integrators.stepping.batch import run_batch

CASES = json.loads((Path(__file__).parents[1] / "reference.json").read_text())["cases"]

# The reference has e3 pointing up in the two chains of Celledoni et al., where gravity is 9.81.
SYSTEMS = {
    "spherical_pendulum_chain/lee_example1_unit": {},
    "spherical_pendulum_chain/n2_planar": {"gravity": -9.81},
    "spherical_pendulum_chain/n2_spatial": {"gravity": -9.81},
    "nbody_sphere/lee_example2": {},
}


def system_of(case):
    return systems.get(case.partition("/")[0], **SYSTEMS[case])


def numbers(entry):
    """Rows of q, then of ω; shape (2n, 3)."""
    if isinstance(entry, dict):
        entry = entry["y"] if "y" in entry else entry["q"] + entry["omega"]
    return np.array([[float(digits) for digits in row] for row in entry])


def entries(kind):
    return [
        pytest.param(name, entry, id=f"{name}-{entry.get('t') or entry.get('steps')}")
        for name, case in CASES.items()
        for entry in case.get(kind, [])
    ]


def test_every_case_is_tested():
    assert set(SYSTEMS) == set(CASES)


@pytest.mark.parametrize("name", [name for name in CASES if "lee" in name])
def test_starts_are_the_reference_ones(name):
    system = system_of(name)
    np.testing.assert_allclose(system.start("lee"), numbers(CASES[name]["initial"]), atol=1e-16)
    system.check_state(system.start("lee"))


@pytest.mark.parametrize(("name", "entry"), entries("exact"))
def test_exact_states(name, entry):
    system, initial = system_of(name), numbers(CASES[name]["initial"])
    duration = float(entry["t"])
    expected = numbers(entry)
    best = integrators.integrate(
        system, integrators.get("dop853"), initial,
        duration=duration, samples=1, tolerance=2.3e-14,
    ).states[-1]  # fmt: skip
    # Errors grow like neighbouring trajectories do: to 1e-12 in three seconds at g = 9.81.
    np.testing.assert_allclose(best, expected, rtol=0, atol=3e-12)
    composed = integrators.integrate(
        system, integrators.get("variational+kahan_li8"), initial,
        step_size=0.0025, duration=duration, samples=1,
    ).states[-1]  # fmt: skip
    np.testing.assert_allclose(composed, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("solver", "most"),
    [("scipy_lsoda", 3e3), ("scipy_radau", 10), ("scipy_bdf", 5e3), ("heyoka_taylor", 1)],
)
def test_solvers_that_people_use_are_right_to_their_tolerance(solver, most):
    """To some tolerances in each step, and to as many more as neighbouring trajectories part."""
    if solver == "heyoka_taylor":
        pytest.importorskip("heyoka")
    for name, case in CASES.items():
        entry = case["exact"][0]
        run = integrators.integrate(
            system_of(name), integrators.get(solver), numbers(case["initial"]),
            duration=float(entry["t"]), samples=1, tolerance=1e-8,
        )  # fmt: skip
        np.testing.assert_allclose(run.states[-1], numbers(entry), rtol=0, atol=most * 1e-8)


@pytest.mark.parametrize(("name", "entry"), entries("variational"))
def test_variational_states_and_energy_errors(name, entry):
    """The method's own map, not the flow: every digit must come out."""
    system, initial = system_of(name), numbers(CASES[name]["initial"])
    problem = integrators.get("variational").bind(system)
    steps = entry["steps"]
    batch = run_batch(problem, initial[None], entry["step_size"], steps, 1, statistics=True)
    np.testing.assert_allclose(batch.states[0, -1], numbers(entry), rtol=0, atol=3e-15)
    mean = batch.statistics[0, 0, 0, ABS_MEAN] * steps / (steps + 1)  # over k = 0…N
    assert mean == pytest.approx(float(entry["mean_abs_energy_error"]), rel=1e-10)
