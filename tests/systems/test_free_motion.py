"""The motion of a free rigid body beside the adaptive reference, and where it is singular."""

import numpy as np
import pytest

import integrators
import systems
from integrators.compiler.kernels import IS_COMPILED

BODIES = [
    (1.0, 2.0, 4.0),
    (1.0, 4 / 3, 2.0),
    (3.0, 1.0, 2.0),
    (2.0, 1.0, 1.0),
    (1.0, 2.0, 1.0 + 1e-9),  # nearly symmetric
    (5.0, 5.0, 5.0),
]
EXACT = integrators.get("exact")
in_lanes = pytest.mark.slow  # whose kernel takes seconds to compile


def moved(system, states, t):
    """States at a time, shape (members, 3)."""
    run = integrators.integrate(system, EXACT, states, step_size=t, duration=t, samples=1)
    return run.states[:, -1, 0]


def energies(system, w):
    return 0.5 * np.sum(w**2 / np.array(system.inertia), axis=-1)


@in_lanes
@pytest.mark.parametrize("inertia", BODIES, ids=str)
def test_it_is_that_of_the_reference(inertia):
    system = systems.get("free_rigid_body", inertia=inertia, lengths="any")
    states = np.concatenate([system.ensemble(13, seed=3), 0.7 * np.eye(3)[:, None]])
    for t in (1e-3, 1.0, 30.0):
        reference = integrators.integrate(
            system, integrators.get("dop853"), states, duration=t, samples=1, tolerance=2.3e-14
        ).states[:, -1, 0]
        size = np.linalg.norm(states[:, 0], axis=1).max()
        found = moved(system, states, t)
        np.testing.assert_allclose(found, reference, atol=2e-13 * size * (1 + t))
    for m in (0, 12, 13, 14, 15):  # beside others in their lanes, which need more means
        np.testing.assert_array_equal(moved(system, states[m : m + 1], t)[0], found[m])


@pytest.mark.slow
@pytest.mark.skipif(not IS_COMPILED, reason="plain Python has float64 alone")
def test_it_has_the_digits_of_double_doubles():
    """Beside short steps of order ten."""
    system = systems.get("free_rigid_body")
    members = system.refined(system.ensemble(8, seed=3))
    for member in members:
        ends = [
            integrators.integrate(
                system, integrators.get(name, arithmetic="double-double"), member[..., 0],
                state_low=member[..., 1], step_size=10.0 / steps, duration=10.0, samples=1,
            )
            for name, steps in (("exact", 1), ("splitting+sofroniou_spaletta10", 1000))
        ]  # fmt: skip
        one, other = ((run.states[-1], run.states_low[-1]) for run in ends)
        assert np.abs((one[0] - other[0]) + (one[1] - other[1])).max() < 1e-30


@in_lanes
@pytest.mark.parametrize("inertia", BODIES, ids=str)
def test_energy_and_length_keep_to_round_off_at_any_time(inertia):
    system = systems.get("free_rigid_body", inertia=inertia)
    states = system.ensemble(1000, seed=4)
    for t in (0.01, 1.0, 1e2, 1e5):
        w = moved(system, states, t)
        change = energies(system, w) - energies(system, states[:, 0])
        assert np.abs(change).max() <= 1e-15 and np.sqrt(np.mean(change**2)) <= 2.5e-16
        assert np.abs(np.linalg.norm(w, axis=1) - 1.0).max() <= 3e-16


@in_lanes
@pytest.mark.parametrize("inertia", BODIES, ids=str)
def test_two_times_are_their_sum(inertia):
    system = systems.get("free_rigid_body", inertia=inertia)
    states = system.ensemble(200, seed=5)
    half = moved(system, states, 3.0)
    there = moved(system, half[:, None], 4.0)
    np.testing.assert_allclose(there, moved(system, states, 7.0), atol=2e-14)


@pytest.mark.parametrize("axis", range(3))
def test_a_rotation_about_an_axis_stays(axis):
    system = systems.get("free_rigid_body")
    state = np.eye(3)[None, axis : axis + 1]
    for t in (1.0, 1e6):
        np.testing.assert_allclose(moved(system, state, t), state[0], atol=2e-16)


def test_on_the_separatrix_it_comes_to_the_middle_axis_and_stays():
    """w_1 and w_3 fall like sech and never come back."""
    system = systems.get("free_rigid_body", inertia=(1.0, 4 / 3, 2.0))  # 1/I: 1, 3/4, 1/2
    start = np.sqrt([[[0.5, 0.0, 0.5]]])
    rate = np.sqrt(0.25 * 0.5 * 0.5)
    for t in (1.0, 10.0, 1e3, 1e9):
        w = moved(system, start, t)[0]
        sech = 0.0 if t > 100 else 1.0 / np.cosh(rate * t)
        assert w[[0, 2]] == pytest.approx(np.sqrt(0.5) * sech, rel=1e-13, abs=1e-16)
        assert w[1] == pytest.approx(np.sqrt(1.0 - sech**2), abs=4e-16)


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-12])
def test_beside_the_middle_axis_it_leaves_at_its_own_rate(distance):
    """While it is near, as the linear equations."""
    system = systems.get("free_rigid_body", inertia=(1.0, 4 / 3, 2.0))
    start = np.array([[[distance, 1.0, 0.0]]])
    start /= np.linalg.norm(start)
    rate = 0.25
    for t in (0.1, 1.0, 2.0 / rate):
        w = moved(system, start, t)[0]
        linear = start[0, 0, 0] * np.array([np.cosh(rate * t), -np.sinh(rate * t)])
        assert np.abs(w[[0, 2]]) == pytest.approx(np.abs(linear), rel=20 * distance**2 + 1e-14)


@in_lanes
def test_what_does_not_move_and_what_is_no_number():
    system = systems.get("free_rigid_body", lengths="any")
    states = np.array([[[0.0, 0.0, 0.0]], [[1e-170, 2e-180, 0.0]], [[0.3, 0.4, 0.5]]])
    assert np.array_equal(moved(system, states, 1.0)[:2], states[:2, 0])
    run = integrators.integrate(
        system, EXACT, np.full((1, 3), np.nan), step_size=0.1, duration=1.0, samples=1
    )
    assert run.status == integrators.status.NOT_FINITE


def test_nothing_composes_with_it():
    with pytest.raises(integrators.InputError, match="steps are the flow itself. Leave '.suzuki4'"):
        integrators.get("exact+suzuki4")
    with pytest.raises(integrators.InputError, match="needs the form ExactFlow"):
        EXACT.check(systems.get("heisenberg_chain"))
