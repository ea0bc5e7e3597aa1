"""Examples 4 and 5 of Lee et al. against states in quadruple precision (`reference_lee.json`)."""

import json
from pathlib import Path

import numpy as np
import pytest

import integrators
import systems
from integrators.status import ABS_MEAN
from integrators.stepping.batch import run_batch

CASES = json.loads((Path(__file__).parents[2] / "reference_lee.json").read_text())["cases"]
ROD = "elastic_rod/lee_example4_printed_inertia"
DIPOLES = "magnetic_dipoles/lee_example5_as_run"
PARAMETERS = {ROD: {"inertia": "printed"}, DIPOLES: {"inertia_factor": 1.0}}

# Step size of an integrator of order 8; bounds of its error, of the adaptive reference's and of
# the angular velocity's in the variational map. The rod's fast bending modes amplify round-off.
STEP = {ROD: 5e-5, DIPOLES: 1e-2}
BEST, ADAPTIVE, TURNING = {ROD: 1e-12, DIPOLES: 2e-13}, {ROD: 5e-11, DIPOLES: 1e-12}, 3e-13


def system_of(name):
    return systems.get(name.partition("/")[0], **PARAMETERS[name])


def numbers(entry):
    """Rows of q, then of ω; shape (2n, 3)."""
    return np.array([[float(digits) for digits in row] for row in entry["q"] + entry["omega"]])


def entries(kind):
    return [
        pytest.param(name, entry, id=f"{name}-{entry.get('t') or entry.get('steps')}")
        for name, case in CASES.items()
        for entry in case[kind]
    ]


@pytest.mark.parametrize("name", CASES)
def test_starts_are_the_reference_ones(name):
    start = system_of(name).start("lee")
    np.testing.assert_array_equal(start, numbers(CASES[name]["initial"]))


@pytest.mark.parametrize(("name", "entry"), entries("exact"))
def test_exact_states(name, entry):
    system, expected, duration = system_of(name), numbers(entry), float(entry["t"])

    def error(integrator, **accuracy):
        run = integrators.integrate(
            system, integrators.get(integrator), system.start("lee"),
            duration=duration, samples=1, **accuracy,
        )  # fmt: skip
        return np.abs(run.states[-1] - expected).max()

    assert error("variational+kahan_li8", step_size=STEP[name]) <= BEST[name]
    assert error("dop853", tolerance=2.3e-14) <= ADAPTIVE[name]


@pytest.mark.parametrize(("name", "entry"), entries("variational"))
def test_variational_states_and_energy_errors(name, entry):
    """The method's own map, not the flow."""
    system, steps = system_of(name), entry["steps"]
    problem = integrators.get("variational").bind(system)
    start = system.start("lee")[None]
    batch = run_batch(problem, start, entry["step_size"], steps, 1, statistics=True)
    q_error, omega_error = np.split(np.abs(batch.states[0, -1] - numbers(entry)), 2)
    assert q_error.max() <= 3e-15
    assert omega_error.max() <= TURNING
    mean = batch.statistics[0, 0, 0, ABS_MEAN] * steps / (steps + 1)  # over k = 0…N
    assert mean == pytest.approx(float(entry["mean_abs_energy_error"]), rel=1e-8)
