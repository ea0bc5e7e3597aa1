"""Figures of Lee, Leok and McClamroch, Examples 1 and 2, to the digits that are known."""

import numpy as np
import pytest

import integrators
import systems
from integrators.forms.forms import velocities
from integrators.status import ABS_MEAN
from integrators.stepping.batch import run_batch

SI = {"length": 9.81, "gravity": 9.81}


def batch_of(system, step_size, steps, samples=1, statistics=True):
    problem = integrators.get("variational").bind(system)
    start = system.start("lee")[None]
    return run_batch(problem, start, step_size, steps, samples, statistics)


@pytest.mark.parametrize(
    ("name", "parameters", "step_size", "duration", "figure"),
    [
        ("spherical_pendulum_chain", {}, 0.01, 100.0, 2.16472e-5),
        ("spherical_pendulum_chain", SI, 0.01, 100.0, 2.0832e-3),
        ("nbody_sphere", {}, 5e-3, 10.0, 1.171660e-4),
        ("nbody_sphere", {}, 5e-4, 10.0, 1.198572e-6),
    ],
)
def test_mean_energy_error(name, parameters, step_size, duration, figure):
    steps = round(duration / step_size)
    batch = batch_of(systems.get(name, **parameters), step_size, steps)
    mean = batch.statistics[0, 0, 0, ABS_MEAN] * steps / (steps + 1)  # over k = 0…N
    assert mean == pytest.approx(figure, rel=3e-5)  # four digits


def angular_momentum(system, states):
    q, v = np.split(velocities(states), 2, axis=1)
    return np.cross(q, np.einsum("ij,sjc->sic", system.form.inertia_matrix, v)).sum(axis=1)


def test_vertical_momentum_of_the_pendulum():
    system = systems.get("spherical_pendulum_chain")
    states = batch_of(system, 0.01, 1, 10_000, statistics=False).states[0]
    vertical = angular_momentum(system, states)[:, 2]
    assert vertical[0] == pytest.approx(1.5)
    assert np.abs(vertical - vertical[0]).max() <= 1e-14 * vertical[0]  # 1e-12 would do


def test_total_momentum_of_the_bodies():
    system = systems.get("nbody_sphere")
    states = batch_of(system, 5e-3, 1, 2000, statistics=False).states[0]
    total = angular_momentum(system, states)
    assert np.linalg.norm(total - total[0], axis=1).max() <= 8e-15  # 3e-14 would do
