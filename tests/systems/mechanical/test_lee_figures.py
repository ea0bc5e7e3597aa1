"""Figures of Lee, Leok and McClamroch, Examples 3 to 6, to the digits that are known."""

import numpy as np
import pytest

import integrators
import systems
from integrators.status import ABS_MEAN, COMPLETE, MEAN, STATUS_ROW
from integrators.stepping.batch import run_batch


def batch_of(system, integrator, step_size, steps):
    problem = integrators.get(integrator).bind(system)
    batch = run_batch(problem, system.start("lee")[None], step_size, steps, 1, statistics=True)
    assert batch.report[0, STATUS_ROW] == COMPLETE
    return batch


def mean_energy_error(system, integrator, step_size, duration):
    steps = round(duration / step_size)
    batch = batch_of(system, integrator, step_size, steps)
    return batch.statistics[0, 0, 0, ABS_MEAN] * steps / (steps + 1)  # over k = 0…N


@pytest.mark.parametrize(
    ("name", "parameters", "step_size", "duration", "figure", "digits"),
    [
        ("spring_pendula", {}, 0.005, 30.0, 3.617083e-5, 1.5e-7),
        ("magnetic_dipoles", {"inertia_factor": 1.0}, 1e-3, 30.0, 8.54396e-10, 1e-6),
        # At T = 30 it is 1.1e-8 to 1.25e-8, by round-off; in quadruple precision 1.20415e-8.
        ("magnetic_dipoles", {}, 1e-3, 10.0, 1.08833527e-8, 1e-7),
        ("lennard_jones_sphere", {}, 0.005, 5.0, 1.9108e-3, 3e-5),
    ],
)
def test_mean_energy_error(name, parameters, step_size, duration, figure, digits):
    system = systems.get(name, **parameters)
    found = mean_energy_error(system, "variational", step_size, duration)
    assert found == pytest.approx(figure, rel=digits)


@pytest.mark.parametrize(
    ("integrator", "figure"),
    [
        ("rk2_midpoint", 1.007e-3),
        ("rk2_midpoint+projected", 1.273e-3),
        ("rk2_heun", 1.015e-3),
        ("rk2_heun+projected", 1.203e-3),
    ],
)
def test_reprojection_makes_the_energy_of_the_springs_worse(integrator, figure):
    system = systems.get("spring_pendula")
    assert mean_energy_error(system, integrator, 0.005, 30.0) == pytest.approx(figure, rel=5e-4)


@pytest.mark.parametrize(
    ("inertia", "least", "most"), [("printed", 1.2e-6, 2.4e-6), ("consistent", 2.8e-6, 4.4e-6)]
)
def test_energy_error_of_the_rod_is_in_its_range(inertia, least, most):
    """It is chaotic at the level of round-off: a range over perturbations, no number."""
    system = systems.get("elastic_rod", inertia=inertia)
    assert least < mean_energy_error(system, "variational", 1e-4, 3.0) < most


@pytest.mark.parametrize(
    ("name", "step_size"),
    [("spring_pendula", 0.005), ("elastic_rod", 1e-4), ("magnetic_dipoles", 1e-3)],
)
def test_unit_length_over_many_steps(name, step_size):
    batch = batch_of(systems.get(name), "variational", step_size, 100_000)
    assert 0.0 < batch.statistics[0, 0, 1, MEAN] <= 2e-16


def test_total_momentum_of_the_molecules():
    system = systems.get("lennard_jones_sphere")
    run = integrators.integrate(
        system, integrators.get("variational"), system.start("lee"),
        step_size=0.005, duration=1.0, samples=20,
    )  # fmt: skip
    q, omega = np.split(run.states, 2, axis=1)
    total = np.sum(omega, axis=1)  # q × (ω × q) = ω, mass 1
    assert np.abs(total - total[0]).max() <= 1e-14 * np.abs(omega[0]).sum()
