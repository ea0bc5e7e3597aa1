"""Unit lengths and momentum maps stay at round-off over a million steps of every small system."""

import numpy as np
import pytest
from cases import first_of

import integrators
import systems
from integrators import status
from integrators.forms.forms import velocities
from integrators.stepping import loop
from integrators.stepping.batch import run_batch

# Parameters that leave each system a momentum map, and a step size that resolves it.
VERTICAL_PIVOTS = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.3), (0.0, 0.0, -0.4))
TRIANGLE = {"count": 3, "edges": ((0, 1), (1, 2), (0, 2)), "stiffness": (10.0, 20.0, 30.0)}
SOFT = {"count": 3, "gravity": 0.0, "stiffness": 0.02}
IN_A_ROW = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.024), (0.0, 0.0, 0.05))
CASES = (
    ("spherical_pendulum_chain", {"count": 1}, 0.01),  # explicit
    ("spherical_pendulum_chain", {"count": 2}, 0.01),
    ("nbody_sphere", {}, 1e-5),
    ("spring_pendula", {**TRIANGLE, "pivots": VERTICAL_PIVOTS}, 1e-3),
    ("elastic_rod", {**SOFT, "inertia": "consistent"}, 1e-3),
    ("elastic_rod", {**SOFT, "inertia": "printed"}, 1e-3),
    ("magnetic_dipoles", {"positions": IN_A_ROW}, 1e-3),
    ("lennard_jones_sphere", {"level": 0}, 5e-3),
)
FROM_LEE = {"nbody_sphere", "lennard_jones_sphere"}  # bodies of random states may collide
STEPS, SAMPLES = 1_000_000, 100


@pytest.mark.parametrize(("name", "parameters", "step_size"), first_of(CASES, 2))
def test_a_million_steps(name, parameters, step_size):
    system = systems.get(name, **parameters)
    start = system.start("lee") if name in FROM_LEE else system.ensemble(1, 0)[0]
    problem = integrators.get("variational").bind(system)
    batch = run_batch(problem, start[None], step_size, STEPS // SAMPLES, SAMPLES, statistics=True)
    assert batch.report[0, status.STATUS_ROW] == status.COMPLETE
    assert 0.0 < batch.statistics[0, :, 1, status.MEAN].mean() <= 2e-16
    momentum = momentum_of(system, batch.states[0])
    drift = np.abs(momentum - momentum[0]).max()
    assert np.abs(momentum[0]).max() > 0.0
    assert drift <= 5e-15 * size_of_momenta(system, batch.states[0])


def size_of_momenta(system, states):
    """What bodies have that turn at the mean speeds: round-off is in proportion to it.

    Their sum can be any smaller.
    """
    speeds = np.linalg.norm(np.split(velocities(states), 2, axis=1)[1], axis=2)
    return np.sum(np.abs(system.form.inertia_matrix) @ speeds.mean(axis=0))


def momentum_of(system, states):
    """The system's momentum map at each of the states, shape (samples, components)."""
    (quantity,) = (q for q in system.quantities if q.kind == "momentum_map")
    states, out = velocities(states), np.zeros((len(states), 1, 3))
    loop.evaluate(quantity.function, np.zeros(len(states)), states, system.form.packed, out)
    return out[:, 0, list(quantity.columns)]
