"""Initial states: named ones and ensembles lie on the manifold and are reproducible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import systems
from integrators import InputError
from integrators.forms.forms import split_state
from systems import ensembles

CHAIN = systems.get("spherical_pendulum_chain")
LEE = CHAIN.start("lee")
seeds = st.integers(0, 2**63)


def assert_on_manifold(states):
    q, omega, work = split_state(states)
    assert np.abs(np.sum(q * q, axis=-1) - 1.0).max() <= 4.5e-16
    size = np.maximum(1.0, np.linalg.norm(omega, axis=-1))
    assert (np.abs(np.sum(q * omega, axis=-1)) / size).max() <= 4.5e-16
    assert not np.any(work)


@pytest.mark.parametrize("cls", systems.ALL_SYSTEMS, ids=lambda cls: cls.name)
def test_every_named_start_is_a_state(cls):
    system = cls()
    assert system.starts
    for name in system.starts:
        system.check_state(system.start(name))
        assert system.start(name).shape == (system.rows, 3)


@given(seeds, st.integers(0, 2**40), st.integers(1, 5))
def test_uniform_members_are_tangent_and_depend_on_their_number_alone(seed, first, count):
    system = systems.get("nbody_sphere", count=4)
    members = system.ensemble(range(first, first + count), seed)
    assert members.shape == (count, 8, 3)
    assert_on_manifold(members)
    last = first + count - 1
    np.testing.assert_array_equal(members[-1:], system.ensemble(range(last, last + 1), seed))


@given(seeds, st.floats(1e-8, 1.0), st.integers(0, 100))
def test_scattered_members_are_tangent_near_and_their_own(seed, spread, member):
    (state,) = CHAIN.ensemble(range(member, member + 1), seed, around="lee", spread=spread)
    assert_on_manifold(state)
    CHAIN.check_state(state)
    assert 0 < np.linalg.norm(state - LEE) < 20 * spread
    np.testing.assert_array_equal(
        CHAIN.ensemble(range(member, member + 1), seed, around=LEE, spread=spread)[0], state
    )


def test_other_seeds_and_members_are_other_states():
    states = np.concatenate([CHAIN.ensemble(50, seed) for seed in range(4)])
    assert len(np.unique(states.reshape(200, -1), axis=0)) == 200


def test_the_first_members_of_a_larger_ensemble_are_those_of_a_smaller():
    np.testing.assert_array_equal(CHAIN.ensemble(12, 7)[:5], CHAIN.ensemble(5, 7))


def test_uniform_members_are_uniform():
    q, omega = np.split(systems.get("spherical_pendulum_chain", count=1).ensemble(4000, 1), 2, 1)
    # Archimedes: each coordinate of a uniform unit vector is uniform on [-1, 1].
    for column in q[:, 0].T:
        counts, _ = np.histogram(column, bins=10, range=(-1, 1))
        assert abs(counts - 400).max() < 5 * np.sqrt(400)
    assert np.mean(omega**2) * 3 == pytest.approx(2.0, abs=0.15)  # two tangent directions


def test_spread_is_an_angle_and_relative_for_velocities():
    spread = 1e-3
    members = CHAIN.ensemble(4000, 3, around="lee", spread=spread)
    q, omega = np.split(members - LEE, 2, axis=1)
    assert np.sqrt(np.mean(np.sum(q**2, axis=2)) / 2) == pytest.approx(spread, rel=0.03)
    speed = np.sqrt(np.mean(np.sum(LEE[2:] ** 2, axis=1)))
    found = np.sqrt(np.mean(np.sum(omega**2, axis=2)))
    assert spread * speed < found < 3 * spread * speed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"around": "lee"}, "both 'around' and 'spread', or neither"),
        ({"spread": 0.1}, "both 'around' and 'spread', or neither"),
        ({"around": "le", "spread": 0.1}, "Did you mean 'lee'?"),
        ({"around": "lee", "spread": 0.0}, "spread = 0.0; expected a number > 0"),
        ({"around": "lee", "spread": -1.0}, "spread = -1.0; expected a number > 0"),
        ({"around": "lee", "spread": np.nan}, "spread = nan; expected a number > 0"),
        ({"around": "lee", "spread": np.inf}, "spread = inf; expected"),
        ({"around": "lee", "spread": "x"}, "spread = 'x'; expected"),
        ({"around": np.vstack([LEE, LEE]), "spread": 0.1}, "shape (8, 3)"),
        ({"around": 1.1 * LEE, "spread": 0.1}, "off the manifold"),
        ({"seed": -1}, "seed = -1; expected"),
        ({"seed": 0.5}, "seed = 0.5; expected"),
        ({"members": -1}, "members = -1; expected"),
        ({"members": 2.5}, "members = 2.5; expected"),
        ({"members": range(-2, 1)}, "expected"),
    ],
)
def test_ensembles_refuse(arguments, message):
    with pytest.raises(InputError) as caught:
        CHAIN.ensemble(**{"members": 2, "seed": 0} | arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (LEE[:3], "shape (3, 3)"),
        (LEE * np.nan, "not finite"),
        (LEE * [[1.0], [1.001], [1.0], [1.0]], "body 1 is off the manifold: |q·q − 1| = 0.002"),
        (LEE + [[0], [0], [0.1], [0]], "body 0 is off the manifold: |q·omega|"),
        ("lee", "state"),
        ([[1.0, 2.0], [3.0]], "state"),
    ],
)
def test_check_state_refuses(state, message):
    with pytest.raises(InputError) as caught:
        CHAIN.check_state(state)
    assert message in str(caught.value)


def test_check_state_takes_round_off():
    CHAIN.check_state(LEE * (1 + 1e-10))
    CHAIN.check_state(CHAIN.normalized(LEE * 1.3 + 0.01).tolist())


@given(st.integers(0, 1000), st.floats(0.1, 10.0))
def test_normalized_brings_to_the_manifold(seed, size):
    drawn = size * np.random.default_rng(seed).standard_normal((4, 3))
    state = CHAIN.normalized(drawn)
    CHAIN.check_state(state)
    np.testing.assert_allclose(np.cross(state[:2], drawn[:2]), 0.0, atol=1e-14 * size * 5)


# --- lattices ---------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 7, 400, 5000])
def test_a_lattice_is_nearly_uniform(count):
    points = ensembles.lattice(count)
    np.testing.assert_allclose(np.sum(points**2, axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.diff(points[:, 2]), -2.0 / count, atol=1e-15)
    turn = np.pi * (3.0 - np.sqrt(5.0))
    x, y = np.cos(turn * np.arange(count)), np.sin(turn * np.arange(count))
    radius = np.sqrt(1.0 - points[:, 2] ** 2)
    np.testing.assert_allclose(points[:, :2], np.stack([radius * x, radius * y], 1), atol=1e-11)
    if count >= 400:
        nearest = np.sqrt(np.sort(np.sum((points[:, None] - points[:400]) ** 2, 2), axis=0)[1])
        cell = np.sqrt(4.0 * np.pi / count)
        assert 0.8 * cell < nearest.min() and nearest.max() < 1.1 * cell


@given(st.integers(1, 60), st.integers(0, 3))
def test_a_body_over_a_lattice_leaves_the_others_as_they_are(count, body):
    system = systems.get("nbody_sphere", count=4)
    (state,) = system.ensemble(1, 5)
    states = system.lattice(count, body=body, around=state)
    assert states.shape == (count, 8, 3)
    assert_on_manifold(states)
    np.testing.assert_allclose(states[:, body], ensembles.lattice(count), atol=1e-15)
    others = np.delete(np.arange(8), [body, 4 + body])
    np.testing.assert_allclose(states[:, others], np.tile(state[others], (count, 1, 1)), atol=1e-15)
    speed = np.linalg.norm(states[:, 4 + body], axis=1)
    np.testing.assert_allclose(speed, np.linalg.norm(state[4 + body]), rtol=1e-14)


def test_omega_is_turned_the_shortest_way():
    state = np.array([[0.0, 0.0, 1.0], [0.3, 0.4, 0.0]])
    right = ensembles.turn_body(state, 0, np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(right, [[1.0, 0.0, 0.0], [0.0, 0.4, -0.3]], atol=1e-15)
    opposite = ensembles.turn_body(state, 0, np.array([0.0, 0.0, -1.0]))
    np.testing.assert_array_equal(opposite, [[0.0, 0.0, -1.0], [0.3, 0.4, 0.0]])
    near = np.array([1e-9, 0.0, -1.0])
    # The turn is about e2, which is orthogonal to both.
    np.testing.assert_allclose(ensembles.turn_body(state, 0, near)[1], [-0.3, 0.4, 0.0], atol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "lattice = 0; expected a whole number"),
        ((5, 2), "body = 2; spherical_pendulum_chain has 2 bodies, counted from 0"),
        ((5, -1), "body = -1; expected a whole number"),
        ((5, 0, "le"), "Did you mean 'lee'?"),
        ((5, 0, np.ones((4, 3))), "off the manifold"),
        ((5, 0, np.zeros((4, 3))), "q of body 0 is the zero vector, which has no direction"),
    ],
)
def test_lattices_that_are_refused(arguments, message):
    with pytest.raises(InputError) as caught:
        CHAIN.lattice(*arguments)
    assert message in str(caught.value)


def test_a_lattice_with_a_singular_member_says_which():
    system = systems.get("nbody_sphere", count=2)
    point = ensembles.lattice(5)[3]
    state = system.normalized(np.array([[1.0, 0.0, 0.0], point, np.zeros(3), np.zeros(3)]))
    with pytest.raises(InputError, match="member 3: bodies 0 and 1 coincide"):
        system.lattice(5, around=state)


def test_a_forced_system_has_done_no_work_on_a_lattice():
    system = systems.get("forced_pendulum_chain")
    start = system.starts[0]
    states = system.lattice(5, body=1, around=start)
    assert states.shape == (5, system.rows, 3) and system.rows == 2 * system.bodies + 1
    assert not states[:, -1].any()
    np.testing.assert_allclose(states[:, 0], np.tile(system.start(start)[0], (5, 1)), atol=1e-15)
