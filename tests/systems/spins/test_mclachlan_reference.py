"""Systems of McLachlan et al.: states in quadruple precision (`reference_mclachlan.json`)."""

import json
from pathlib import Path

import numpy as np
import pytest

import integrators
import systems

FILE = Path(__file__).parents[2] / "reference_mclachlan.json"
CASES = json.loads(FILE.read_text())["cases"]

FREE, IRREVERSIBLE, FORCED, VORTICES, CHAIN, NAMBU = CASES
PARAMETERS = {FREE: {"inertia": (1.0, 4 / 3, 2.0)}}

# Bounds of the adaptive reference's error. That of the forced body grows over ten periods near
# an unstable equilibrium, that of the chain over a hundred units of time.
BEST = {FREE: 4e-15, IRREVERSIBLE: 5e-14, FORCED: 2e-11, VORTICES: 2e-13, CHAIN: 5e-12}
BEST |= {NAMBU: 1e-14}

# (case, integrator, steps, bound of the error) of fixed steps; below, of kernels of their own.
FIXED = [
    (FREE, "rk4", 8000, 3e-15),
    (IRREVERSIBLE, "rk4", 20_000, 1e-14),
    (FORCED, "rk4", 40_000, 5e-13),
    (VORTICES, "rk4", 8000, 4e-15),
    (CHAIN, "rk4", 40_000, 3e-15),
    (NAMBU, "rk4", 4000, 3e-15),
    (FREE, "splitting+kahan_li8", 400, 2e-15),
    (FREE, "exact", 1, 2e-15),
    (FREE, "spherical_midpoint+kahan_li8", 400, 5e-15),
    (FREE, "moser_veselov+kahan_li8", 400, 3e-14),
    (IRREVERSIBLE, "spherical_midpoint+kahan_li8", 400, 3e-14),
    (FORCED, "spherical_midpoint+kahan_li8", 2000, 3e-12),
    (VORTICES, "spherical_midpoint+kahan_li8", 200, 1e-14),
    (CHAIN, "splitting+kahan_li8", 2000, 3e-14),
    (CHAIN, "spherical_midpoint+kahan_li8", 1000, 5e-13),
    (NAMBU, "nambu_midpoint+kahan_li8", 40, 3e-15),
]
FIXED += [
    pytest.param(*case, marks=pytest.mark.slow)
    for case in (
        (IRREVERSIBLE, "splitting+kahan_li8", 400, 3e-15),
        (FORCED, "splitting+kahan_li8", 2000, 5e-12),
        (VORTICES, "splitting+kahan_li8", 200, 4e-15),
        (NAMBU, "implicit_midpoint+kahan_li8", 40, 3e-15),
    )
]


def system_of(name):
    return systems.get(name.partition("/")[0], **PARAMETERS.get(name, {}))


def numbers(rows):
    """Rows of w; shape (n, 3)."""
    return np.array([[float(digits) for digits in row] for row in rows])


def error(name, integrator, **accuracy):
    """The largest error of a component at the end, from the digits of the reference's start."""
    (entry,) = CASES[name]["exact"]
    run = integrators.integrate(
        system_of(name), integrators.get(integrator), numbers(CASES[name]["initial"]),
        duration=float(entry["t"]), samples=1, **accuracy,
    )  # fmt: skip
    return np.abs(run.states[-1] - numbers(entry["y"])).max()


@pytest.mark.parametrize("name", CASES)
def test_starts_are_the_reference_ones(name):
    system = system_of(name)
    start = system.start(system.starts[0])
    np.testing.assert_allclose(start, numbers(CASES[name]["initial"]), atol=1e-15)


@pytest.mark.parametrize("name", CASES)
def test_the_reference_integrator_reaches_the_exact_states(name):
    assert error(name, "dop853", tolerance=2.3e-14) <= BEST[name]


@pytest.mark.parametrize(("name", "integrator", "steps", "bound"), FIXED)
def test_fixed_steps_reach_the_exact_states(name, integrator, steps, bound):
    duration = float(CASES[name]["exact"][0]["t"])
    assert error(name, integrator, step_size=duration / steps) <= bound
