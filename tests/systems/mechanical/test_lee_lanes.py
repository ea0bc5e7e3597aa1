"""Blocks within a trajectory come out alike alone and in lanes, whatever the number of bodies."""

from dataclasses import replace

import numpy as np
import pytest

import integrators
import systems
from integrators.stepping.batch import run_batch

pytestmark = pytest.mark.slow  # lanes of these systems take seconds to compile
SPREAD = [[0.03 * i, 0.01 * i * i, 0.002 * i] for i in range(11)]


@pytest.mark.parametrize(
    ("name", "parameters", "step_size"),
    [
        *(("magnetic_dipoles", {"positions": SPREAD[:n]}, 1e-3) for n in (1, 2, 3, 5, 8, 11)),
        *(("lennard_jones_sphere", {"level": level}, 0.005) for level in (0, 1, 2, 3)),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value),
)
def test_members_come_out_as_alone(name, parameters, step_size):
    system = systems.get(name, **parameters)
    problem = replace(integrators.get("variational").bind(system), inlined=False)
    around = system.start("lee") if system.bodies > 1 else system.ensemble(1, seed=0)[0]
    members = system.ensemble(3, seed=1, around=around, spread=1e-3)
    together = run_batch(problem, members, step_size, 2, 2, statistics=True)
    assert np.all(np.isfinite(together.states))
    for m in range(3):
        alone = run_batch(problem, members[m : m + 1], step_size, 2, 2, statistics=True)
        for part in ("states", "statistics", "report"):
            np.testing.assert_array_equal(getattr(together, part)[m], getattr(alone, part)[0])


def test_molecules_that_meet_stop_their_own_run_only():
    system = systems.get("lennard_jones_sphere", level=0)
    members = system.ensemble(3, seed=1, around="lee", spread=1e-3)
    members[1, 3] = members[1, 8]
    problem = integrators.get("variational").bind(system)
    batch = run_batch(problem, members, 0.005, 1, 4, statistics=True)
    assert batch.report[:, 0].tolist() == [0.0, 1.0, 0.0]  # it leaves the domain
    assert np.all(np.isnan(batch.states[1, 2:])) and np.all(np.isfinite(batch.states[[0, 2]]))
