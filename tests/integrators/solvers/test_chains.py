"""What is O(n) for a chain's inertia gives what the same matrix gives as any other."""

import numpy as np
import pytest
from cases import first_of
from hypothesis import given, settings
from hypothesis import strategies as st

import integrators
import systems
from integrators import InputError
from integrators import status as status_of
from integrators.forms.forms import SpheresLagrangian, velocities
from integrators.integration import integrate
from integrators.precision import inverse_of, to_doubles, to_precise
from integrators.solvers.inertia import CHAIN, CHAIN_FROM, DIAGONAL, FULL, ChainInertia
from integrators.stepping.batch import run_batch

EPSILON = np.finfo(float).eps
VARIATIONAL = integrators.get("variational")
GRAVITY = systems.get("spherical_pendulum_chain", count=7).form  # its potential, of any n


def pair(inertia, weights):
    """The Lagrangian of pendula of these weights by a chain's inertia, and by its matrix."""
    return [
        SpheresLagrangian(given, GRAVITY.potential, GRAVITY.potential_gradient, weights)
        for given in (inertia, inertia.matrix)
    ]


@st.composite
def problems(draw):
    """(inertia, weights, state): links of any length and sign, coupled or not, and a state."""
    n = draw(st.integers(CHAIN_FROM, 12))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    lengths = random.uniform(0.5, 2.0, n) * random.choice([-1.0, 1.0], n)
    couplings = random.uniform(-0.5, 0.5, n - 1) * draw(st.sampled_from([0.0, 0.3, 1.0]))
    masses = random.uniform(1.1, 2.0, n)
    state = random.standard_normal((2 * n, 3))
    q, omega = np.split(state, 2)
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    omega -= np.sum(q * omega, axis=1, keepdims=True) * q
    return ChainInertia(lengths, masses, couplings), random.standard_normal(n), state


@given(problems())
def test_the_matrix_is_that_of_the_joints(problem):
    inertia, _, _ = problem
    n = len(inertia)
    joints = np.diag(inertia.masses)
    joints += np.diag(inertia.couplings, 1) + np.diag(inertia.couplings, -1)
    lever = np.triu(np.ones((n, n))) * inertia.lengths[:, None]
    np.testing.assert_array_equal(inertia.matrix, inertia.matrix.T)
    np.testing.assert_allclose(inertia.matrix, lever @ joints @ lever.T, atol=1e-13)
    np.testing.assert_array_equal(np.diag(inertia.matrix), inertia.diagonal)


@given(problems())
@settings(max_examples=50)
def test_energy_momentum_and_fields_are_those_of_the_matrix(problem):
    inertia, weights, state = problem
    chain, full = pair(inertia, weights)
    assert (chain.layout, full.layout) == (CHAIN, FULL)
    off = state * (1.0 + 1e-3 * np.sin(np.arange(state.size))).reshape(state.shape)
    condition = np.linalg.cond(inertia.matrix)
    for name in ("energy", "angular_momentum"):
        found, expected = (
            row(getattr(form, name), form, velocities(state)) for form in (chain, full)
        )
        size = np.abs(inertia.matrix).sum() * np.abs(state).max() ** 2
        np.testing.assert_allclose(found, expected, atol=20 * EPSILON * size)
    for formulation in ("q_omega", "q_qdot"):
        found, expected = (slope(form, formulation, off) for form in (chain, full))
        np.testing.assert_allclose(
            found, expected, atol=40 * EPSILON * condition * np.abs(expected).max()
        )


def row(kernel, form, y):
    """Row 0 of what a kernel writes of a state (q, q̇)."""
    out = np.zeros((1, 3))
    kernel.scalar(0.0, y, form.packed, out, np.zeros(1))
    return out[0]


def slope(form, formulation, y):
    """The vector field at a state."""
    field = form.vector_field(formulation)
    out, work = np.empty_like(y), np.zeros(field.field.work(form.rows) + 1)
    field.field.scalar(0.0, np.ascontiguousarray(y), field.parameters, out, work)
    return out


@given(problems())
@settings(max_examples=50)
def test_steps_are_those_of_the_matrix(problem):
    inertia, weights, state = problem
    condition = np.linalg.cond(inertia.matrix)
    chain, full = (
        run_batch(VARIATIONAL.bind(form), state[None], 1e-3, 1, 4)
        for form in pair(inertia, weights)
    )
    assert chain.report[0, status_of.STATUS_ROW] == status_of.COMPLETE
    np.testing.assert_allclose(
        chain.states, full.states, atol=40 * EPSILON * condition * np.abs(state).max()
    )
    np.testing.assert_allclose(chain.report[0, 3:], full.report[0, 3:], atol=2)


def test_few_links_are_a_full_matrix():
    layouts = [systems.get("spherical_pendulum_chain", count=n).form.layout for n in (1, 2)]
    assert layouts == [DIAGONAL, FULL]
    below, from_there = (
        systems.get("elastic_rod", count=n).form.layout for n in (CHAIN_FROM - 1, CHAIN_FROM)
    )
    assert (below, from_there) == (FULL, CHAIN)


# --- many links -----------------------------------------------------------------------------------


def state_of(system, seed=2):
    """A state that is far from symmetric: links about e3, turning by themselves."""
    n = system.bodies
    around = np.concatenate([np.tile([0.6, 0.0, 0.8], (n, 1)), np.tile([0.0, 0.3, 0.0], (n, 1))])
    return system.ensemble(1, seed, around=around, spread=0.2)[0]


LONG = [
    ("spherical_pendulum_chain", {"count": 30, "length": 1 / 30, "mass": 1 / 30}, 2e-4),
    ("elastic_rod", {"count": 30, "gravity": 0.0, "stiffness": 0.01}, 1e-3),
    ("elastic_rod", {"count": 30, "gravity": 0.0, "stiffness": 0.01, "inertia": "printed"}, 1e-3),
]


@pytest.mark.parametrize(("name", "parameters", "step_size"), LONG)
def test_long_runs_of_thirty_links_keep_momentum_and_length(name, parameters, step_size):
    system = systems.get(name, **parameters)
    run = integrate(
        system, VARIATIONAL, state_of(system),
        step_size=step_size, duration=50_000 * step_size, samples=100,
    )  # fmt: skip
    assert run.status == status_of.COMPLETE
    q, v = np.split(velocities(run.states), 2, axis=1)
    assert np.abs(q[-1] - q[0]).max() > 0.3
    assert np.abs(np.sum(q * q, axis=2) - 1.0).max() <= 4 * EPSILON
    momentum = next(k for k in system.quantities if k.name == "momentum")
    flow = np.einsum("ij,sjc->sic", system.form.inertia_matrix, v)
    about = np.cross(q, flow).sum(axis=1)[:, momentum.columns]
    size = np.abs(system.form.inertia_matrix) @ np.linalg.norm(v, axis=2).max(axis=0)
    assert np.abs(about - about[0]).max() <= 10 * EPSILON * size.sum()


@pytest.mark.parametrize("name", ["spherical_pendulum_chain", "elastic_rod"])
def test_a_thousand_links_are_practical(name):
    n = 1000
    soft = {"stiffness": 1e-6} if name == "elastic_rod" else {}
    system = systems.get(name, count=n, mass=1 / n, length=1 / n, **soft)
    form = system.form
    assert form.packed.size <= 10 * n
    state = state_of(system)
    batch = run_batch(VARIATIONAL.bind(form), state[None], 1e-6, 20, 5, statistics=True)
    assert batch.report[0, status_of.STATUS_ROW] == status_of.COMPLETE
    error = batch.statistics[0, :, 1, status_of.ABS_MAX]
    assert np.all(error <= EPSILON)
    velocity, acceleration = np.split(slope(form, "q_omega", state), 2)
    q, omega = np.split(state, 2)
    assert np.abs(velocity - np.cross(omega, q)).max() <= EPSILON * np.abs(omega).max()
    assert np.abs(np.sum(q * acceleration, axis=1)).max() <= 1e-12 * np.abs(acceleration).max()


# --- steps without a solution ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "stiffness", "step_size", "members"),
    first_of(
        [
            (2, 1e6, 1e-2, 1), (10, 1e9, 1e-3, 1), (2, 1e6, 1e-2, 3), (10, 1e5, 1e-2, 1),
        ],
        2,
    ),
)  # fmt: skip
def test_a_rod_too_stiff_for_the_step_is_reported(count, stiffness, step_size, members):
    system = systems.get("elastic_rod", count=count, stiffness=stiffness)
    states = system.ensemble(members, seed=1, around="lee", spread=0.05)
    batch = run_batch(VARIATIONAL.bind(system), states, step_size, 1, 50, statistics=True)
    status, stop, residual = batch.report[:, :3].T
    assert np.all(status == status_of.NOT_CONVERGED)
    assert np.all((stop >= 0) & (stop < 50)) and not np.any(residual <= 1e-12)
    for states_of_member, k in zip(batch.states, stop.astype(int), strict=True):
        assert np.all(np.isfinite(states_of_member[: k + 1]))
        assert np.all(np.isnan(states_of_member[k + 1 :]))


@pytest.mark.parametrize("count", first_of([2, 3, 8]))
def test_no_step_leads_beyond_the_horizon(count):
    """|q'| = 1 has a second solution on the other side of each sphere, which is no step."""
    system = systems.get("spherical_pendulum_chain", count=count)
    states = system.ensemble(64, seed=3)
    run = integrate(system, VARIATIONAL, states, step_size=0.2, duration=4.0, samples=20)
    q = run.states[:, :, :count]
    turns = np.sum(q[:, 1:] * q[:, :-1], axis=-1)
    assert np.nanmin(turns) > 0.0
    assert set(run.status) <= {status_of.COMPLETE, status_of.NOT_CONVERGED}
    assert np.any(run.status == status_of.NOT_CONVERGED)


@pytest.mark.parametrize(
    ("lengths", "masses", "couplings", "message"),
    [
        ([], [], None, "same length"),
        ([1.0, 1.0], [1.0], None, "same length"),
        ([1.0, 1.0], [1.0, 1.0], [0.1, 0.1], "one less"),
        ([1.0, 0.0], [1.0, 1.0], None, "not zero"),
        ([1.0, 1.0], [1.0, np.nan], None, "masses.* finite"),
        ([1.0, 1.0], [1.0, -1.0], None, "positive definite"),
        ([1.0, 1.0], [1.0, 1.0], [1.0], "positive definite"),
    ],
)
def test_inertia_of_links_is_checked(lengths, masses, couplings, message):
    with pytest.raises(InputError, match=message):
        ChainInertia(lengths, masses, couplings)


def test_inertia_of_links_has_the_digits_that_it_is_given():
    n = CHAIN_FROM
    lengths, masses = to_precise(np.full(n, 0.1)), to_precise(np.arange(n) + 1.3)
    inertia = ChainInertia(lengths, masses, to_precise(np.full(n - 1, 0.2)))
    packed = inertia.packed.reshape(2, n, -1)
    off = packed[1, :, 0] - np.diag(inverse_of(inertia.matrix))
    assert np.max(np.abs(to_doubles(off))) < 1e-35
    np.testing.assert_array_equal(to_doubles(packed[0, :, 0]), np.full(n, 0.1))
    with pytest.raises(InputError, match="positive definite"):
        ChainInertia(lengths, -masses)
