"""What a Lagrangian yields: its equations of motion in both formulations, forced or not."""

import numpy as np
import pytest
from cases import layout_cases, parameters

import integrators
import systems
from integrators.forms.forms import angular_velocities, split_state, velocities


def states_of(case):
    """The case's state and some random ones."""
    return [case.state, *case.members(4, seed=11)]


def derivative(function, h):
    """Fourth-order central difference of a function at 0."""
    return (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)


def applied(system, q, v, t):
    """The force on each body: drag against its velocity, and a drive of the free end along e1."""
    given = {of: getattr(system, of, 0.0) for of in ("damping", "length")}
    given["damping"] = 0.0 if given["damping"] == "none" else given["damping"]
    drag, length = (np.broadcast_to(values, len(q)) for values in given.values())
    force = -drag[:, None] * v
    if hasattr(system, "amplitude"):
        force[:, 0] += length * system.amplitude * np.cos(system.frequency * t)
    return force


def accelerations(state, slope):
    """q̈ of a state (q, ω) and its slope (q̇, ω̇)."""
    q, omega, _ = split_state(state)
    velocity, turning, _ = split_state(slope)
    return np.cross(turning, q) + np.cross(omega, velocity)


def motion(case, state, t):
    """The slope of (q, q̇), and of the work of a force, by the field on (q, ω)."""
    slope = case.field("q_omega", state, t)
    velocity, _, power = split_state(slope)
    return np.concatenate([velocity, accelerations(state, slope), power])


USUAL = ("spherical_pendulum_chain", "nbody_sphere")


@pytest.mark.parametrize("any_case", parameters(layout_cases(), lambda case: str(case) in USUAL))
def test_formulations_describe_one_motion(any_case):
    for state in states_of(any_case):
        turning = any_case.field("q_omega", state, t=0.3)
        moving = any_case.field("q_qdot", velocities(state), t=0.3)
        velocity, acceleration, power = split_state(moving)
        size = np.abs(acceleration).max()
        np.testing.assert_allclose(split_state(turning)[0], velocity, atol=1e-14 * size)
        np.testing.assert_allclose(split_state(turning)[2], power, atol=1e-14 * size)
        np.testing.assert_allclose(accelerations(state, turning), acceleration, atol=1e-12 * size)


def test_fields_are_tangent(mechanical_case):
    for state in states_of(mechanical_case):
        q, omega, _ = split_state(state)
        velocity, turning, _ = split_state(mechanical_case.field("q_omega", state, t=0.3))
        size = np.abs(turning).max()
        assert np.abs(np.sum(q * velocity, axis=1)).max() <= 1e-14 * size
        # q·ω = 0 stays so: q̇·ω + q·ω̇ = 0, where q̇·ω = 0 already
        assert np.abs(np.sum(q * turning, axis=1)).max() <= 1e-12 * size


def test_formulations_invert_each_other(mechanical_case):
    for state in states_of(mechanical_case):
        np.testing.assert_allclose(angular_velocities(velocities(state)), state, atol=1e-14)


def test_euler_lagrange_equations_hold(mechanical_case):
    """M q̈ + ∂V − F has no part tangent to the spheres; V by differences of the potential."""
    form = mechanical_case.system.form
    for state in states_of(mechanical_case):
        q, omega, _ = split_state(state)
        acceleration = split_state(motion(mechanical_case, state, 0.3))[1]
        force = applied(mechanical_case.system, q, np.cross(omega, q), 0.3)
        slope = gradient_by_differences(mechanical_case, q)
        residual = form.inertia_matrix @ acceleration + slope - force
        tangent = np.cross(q, residual)
        assert np.abs(tangent).max() <= 1e-9 * max(1.0, np.abs(residual).max())


def potential(case, places, t):
    """V at stacks of directions, shape (S, n, 3): the energy of bodies at rest."""
    states = np.zeros((len(places), case.system.rows, 3))
    states[:, : case.system.bodies] = places
    return case.evaluate(case.system.form.energy, states, np.full(len(places), t))[:, 0]


def gradient_by_differences(case, q):
    """∂V/∂q, shape (n, 3), by central differences of the compiled potential."""
    units = np.eye(q.size).reshape(-1, *q.shape)
    found = derivative(lambda s: potential(case, q + s * units, 0.3), 1e-3 * gap(q))
    return found.reshape(q.shape)


def gap(q):
    """How far the closest two bodies are from each other or from being opposite.

    Those that are so exactly do not count: they may be, in their system.
    """
    apart = 1.0 - np.abs((q @ q.T)[np.triu_indices(len(q), 1)])
    return np.sqrt(np.min(apart[apart > 1e-12], initial=1.0))


def test_gradients_are_those_of_the_potential(mechanical_case):
    """Less the force, where one acts."""
    form = mechanical_case.system.form
    for state in states_of(mechanical_case):
        q, omega, _ = split_state(state)
        out, work = np.zeros_like(state), np.zeros(1 + form.net_gradient.work(form.rows))
        form.net_gradient.scalar(0.3, state.copy(), form.packed, out, work)
        found = out[: len(q)] + applied(mechanical_case.system, q, np.cross(omega, q), 0.3)
        expected = gradient_by_differences(mechanical_case, q)
        np.testing.assert_allclose(found, expected, atol=1e-9 * max(1.0, np.abs(found).max()))


def test_energy_changes_by_what_is_done_on_it(mechanical_case):
    """dE/dt = Σ F·q̇ + ∂V/∂t along the field; nothing where there is neither."""
    form = mechanical_case.system.form
    for state in states_of(mechanical_case):
        y = velocities(state)
        q, v, _ = split_state(y)
        slope = motion(mechanical_case, state, 0.3)

        def energy(s, y=y, slope=slope):
            return mechanical_case.evaluate(form.energy, (y + s * slope)[None], [0.3 + s])[0, 0]

        def still(s, q=q):
            return potential(mechanical_case, q[None], 0.3 + s)[0]

        done = np.sum(applied(mechanical_case.system, q, v, 0.3) * v)
        for row in slope[2 * mechanical_case.system.bodies :]:
            assert row == pytest.approx([done, 0.0, 0.0], abs=1e-14 * np.abs(slope).max())
        power = derivative(still, 1e-3) + done
        h = 1e-3 * gap(q) / max(1.0, np.abs(v).max())
        scale = max(1.0, abs(energy(0.0)), np.abs(slope).max() ** 2)
        assert derivative(energy, h) == pytest.approx(power, abs=1e-8 * scale)


def test_slopes_are_those_of_a_trajectory(case):
    h = 1e-3 * case.time_scale
    times = case.time_scale + h * np.array([-2, -1, 0, 1, 2])
    before, previous, now, following, after = (case.exact(t) for t in times)
    slope = (8 * (following - previous) - (after - before)) / (12 * h)
    expected = case.field("q_omega", now, t=times[2])
    np.testing.assert_allclose(slope, expected, atol=1e-8 * np.abs(expected).max())


def test_damping_takes_energy_out_and_leaves_the_manifold_alone():
    system = systems.get("forced_pendulum_chain", count=2, damping=2.0, amplitude=0.0)
    state = integrators.integrate(
        system, integrators.get("rk4"), system.start(system.starts[0]),
        step_size=0.01, duration=60.0, samples=1,
    ).states[-1]  # fmt: skip
    q, omega, _ = split_state(state)
    assert np.abs(omega).max() < 0.02
    assert q == pytest.approx(np.array([[0, 0, 1], [0, 0, 1]]), abs=0.02)
