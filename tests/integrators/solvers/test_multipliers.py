"""The series for two bodies beside Newton's method, which a positive tolerance asks for."""

import numpy as np
import pytest

import integrators
import systems
from integrators import status
from integrators.stepping.batch import run_batch

NEWTON = {"solver_tolerance": 1e-300}  # round-off ends it before


def run(members, step_size, steps, **options):
    system = systems.get("spherical_pendulum_chain")
    problem = integrators.get("variational+kahan_li6", **options).bind(system)
    return run_batch(problem, members, step_size, steps, 2)


def starts(spread):
    system = systems.get("spherical_pendulum_chain")
    return system.ensemble(8, seed=4, around="lee", spread=spread)


@pytest.mark.parametrize("step_size", [0.01, 0.0625, 0.15])
def test_the_series_leads_where_newtons_method_does(step_size):
    members = starts(0.1)
    ours, newton = (run(members, step_size, 20, **options) for options in ({}, NEWTON))
    assert np.all(ours.report[:, status.STATUS_ROW] == status.COMPLETE)
    np.testing.assert_allclose(ours.states, newton.states, rtol=0.0, atol=2e-13)
    lengths = np.linalg.norm(ours.states[:, :, :2], axis=3)
    np.testing.assert_allclose(lengths, 1.0, rtol=0.0, atol=1e-15)


def test_a_solve_counts_once_and_newtons_iterations_where_the_series_does_not_do():
    fine, coarse = (run(starts(0.1), h, 20).report for h in (0.01, 0.2))
    solves = 2 * 20 * 9
    assert np.all(fine[:, status.ITERATIONS] == solves)
    assert np.all(fine[:, status.ITERATIONS_MAX] == 1)
    assert np.all(coarse[:, status.ITERATIONS] > solves)
    assert np.all(coarse[:, status.ITERATIONS_MAX] >= 2)


def test_newtons_method_in_one_lane_changes_no_bit_of_the_others():
    members = starts(0.01)
    members[3, 2:] *= 10.0
    together = run(members, 0.03, 20)
    needed = together.report[:, status.ITERATIONS] > 2 * 20 * 9
    assert needed[3] and not needed.all()
    for i in range(8):
        alone = run(members[i : i + 1], 0.03, 20)
        np.testing.assert_array_equal(together.states[i], alone.states[0])
        np.testing.assert_array_equal(together.report[i], alone.report[0])
