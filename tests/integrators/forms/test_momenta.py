"""Momenta of Lagrangians on two-spheres, and Hamilton's equations, against plain NumPy."""

import numpy as np
import pytest
from cases import first_of

import integrators
import systems
from integrators import InputError
from integrators.forms.forms import split_state, velocities
from integrators.stepping.formulations import (
    to_lagrangian_states,
    to_stepped_states,
    to_stored_states,
)

CHAIN = {"mass": (0.6, 1.7), "length": (0.8, 1.1), "gravity": -9.81}
ONE = {"mass": 1.7, "length": 0.8, "gravity": -9.81}
SYSTEMS = {
    "two": systems.get("spherical_pendulum_chain", **CHAIN),
    "forced": systems.get("forced_pendulum_chain", count=2, damping=0.3),
    "long": systems.get("spherical_pendulum_chain", count=7),
    "one": systems.get("spherical_pendulum_chain", count=1, **ONE),
}


@pytest.fixture(params=first_of(SYSTEMS))
def system(request):
    return SYSTEMS[request.param]


def hat(a):
    return np.cross(np.eye(3), a)


def evaluated(kernel, state, parameters, rows):
    out, work = np.zeros((rows, 3)), np.zeros(1 + kernel.work(len(state)))
    kernel.scalar(0.0, np.ascontiguousarray(state), parameters, out, work)
    return out


def inertia_of_tangents(system, q):
    """R(q) of section 5.2, shape (3n, 3n)."""
    matrix, n = system.form.inertia_matrix, system.bodies
    blocks = [
        [matrix[i, i] * np.eye(3) if i == j else matrix[i, j] * hat(q[i]).T @ hat(q[j])
         for j in range(n)]
        for i in range(n)
    ]  # fmt: skip
    return np.block(blocks)


def test_states_go_to_momenta_and_back(system):
    """π_i = −q̂_i² ∂L/∂ω_i, and ∂L/∂ω = R(q) ω."""
    problem = integrators.get("rkmk4", formulation="q_pi").bind(system)
    states = system.ensemble(4, seed=3)
    found = to_stepped_states(problem, states)
    for state, own in zip(states, found, strict=True):
        q, omega, work = split_state(state)
        slope = (inertia_of_tangents(system, q) @ omega.ravel()).reshape(-1, 3)
        expected = [-hat(a) @ hat(a) @ b for a, b in zip(q, slope, strict=True)]
        np.testing.assert_allclose(own, np.vstack([q, expected, work]), atol=1e-14)
    np.testing.assert_allclose(to_stored_states(problem, found), states, atol=1e-14)
    np.testing.assert_allclose(to_lagrangian_states(problem, found), velocities(states), atol=1e-14)


def test_conjugate_momenta_are_those_of_lee(system):
    """(2.12): what of Σ_j M_ij q̇_j is orthogonal to q_i."""
    state = system.ensemble(1, seed=4)[0]
    q, speed, _ = split_state(velocities(state))
    (quantity,) = (one for one in system.quantities if one.name == "conjugate_momentum")
    found = evaluated(quantity.function, velocities(state), system.form.packed, len(q))
    whole = system.form.inertia_matrix @ speed
    expected = whole - np.sum(q * whole, axis=1, keepdims=True) * q
    np.testing.assert_allclose(found, expected, atol=1e-14)
    pi = to_stepped_states(integrators.get("cf4", formulation="q_pi").bind(system), state[None])[0]
    np.testing.assert_allclose(np.cross(q, found), pi[len(q) : 2 * len(q)], atol=1e-14)


@pytest.mark.parametrize("name", first_of(["two", "one"]))
def test_the_generator_moves_by_hamiltons_equations(name):
    """Those of section 5.2, of H = ½ π·R(q)⁻¹π + U(q) by differences on R^{6n}."""
    system = SYSTEMS[name]
    n, flow = system.bodies, system.form.homogeneous_flow("q_pi")
    problem = integrators.get("rkmk4", formulation="q_pi").bind(system)
    (state,) = to_stepped_states(problem, system.ensemble(1, seed=5))

    def energy(y):
        q, pi = y[:n], y[n:]
        kinetic = 0.5 * pi.ravel() @ np.linalg.solve(inertia_of_tangents(system, q), pi.ravel())
        return kinetic + system.form.potential.scalar(0.0, q, system.form.parameters)

    d = 1e-5
    steps = d * np.eye(state.size).reshape(-1, *state.shape)
    slope = np.reshape(
        [(energy(state + step) - energy(state - step)) / (2 * d) for step in steps], state.shape
    )
    q, pi, of_q, of_pi = state[:n], state[n:], slope[:n], slope[n:]
    expected = np.vstack([np.cross(of_pi, q), np.cross(of_q, q) + np.cross(of_pi, pi)])
    f = evaluated(flow.generator, state, flow.packed, 2 * n)
    np.testing.assert_allclose(f[:n], of_pi, atol=1e-8)  # the turn comes first
    moved = np.vstack([np.cross(f[:n], q), np.cross(f[n:], q) + np.cross(f[:n], pi)])
    np.testing.assert_allclose(moved, expected, atol=1e-8)


@pytest.mark.parametrize("name", ["rkmk4", "cf4"])
def test_both_formulations_lead_to_one_state(system, name):
    state = system.ensemble(1, seed=6)[0]
    exact = integrators.integrate(
        system, integrators.get("dop853"), state, duration=0.5, samples=1, tolerance=2.3e-14
    ).states[-1]
    errors = []
    for steps in (80, 160):
        run = integrators.integrate(
            system, integrators.get(name, formulation="q_pi"), state,
            step_size=0.5 / steps, duration=0.5, samples=1,
        )  # fmt: skip
        q, omega, _ = split_state(run.states[-1])
        assert np.abs(np.sum(q * q, axis=1) - 1.0).max() <= 2e-15
        assert np.abs(np.sum(q * omega, axis=1)).max() <= 1e-14
        errors.append(np.abs(run.states[-1] - exact).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4.0, abs=0.25)


@pytest.mark.parametrize("name", first_of(["two", "forced"]))
def test_energy_is_followed_at_every_step(name):
    """Of (q, π) as of (q, q̇)."""
    system = SYSTEMS[name]
    state = system.ensemble(1, seed=7)[0]
    monitor = system.form.monitor("q_pi")
    problem = integrators.get("rkmk4", formulation="q_pi").bind(system)
    (own,) = to_stepped_states(problem, state[None])
    found = evaluated(monitor, own, system.form.packed, 1)[0]
    energy = evaluated(system.form.energy, velocities(state), system.form.packed, 1)[0, 0]
    assert found[0] == pytest.approx(energy, rel=1e-14) and found[1] < 1e-15


def test_spins_have_no_momenta():
    method = integrators.get("rkmk4", formulation="q_pi")
    with pytest.raises(InputError, match="formulation = 'q_pi' is for mechanical systems; 'prec"):
        method.check(systems.get("precession"))
    with pytest.raises(InputError, match="unknown formulation 'q_p'. Did you mean 'q_pi'"):
        integrators.get("cf4", formulation="q_p")
