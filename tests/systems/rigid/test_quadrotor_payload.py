"""Two quadrotors with a load: against states in quadruple precision, (37) and plain NumPy."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from cases import Case, first_of

import integrators
import systems
from integrators import InputError
from integrators.compiler.kernels import kernel
from integrators.compiler.vectors import put
from systems.rigid import formation_control as control

FILE = Path(__file__).parents[2] / "reference_celledoni.json"
REFERENCE = json.loads(FILE.read_text())["cases"]["quadrotor_payload/t2"]
UNLIKE = {  # everything that the paper's quadrotors have alike, unlike
    "payload_mass": 1.3,
    "mass": (0.6, 0.9),
    "length": (0.8, 1.2),
    "inertia": ((0.082, 0.0845, 0.1377), (0.1, 0.06, 0.12)),
    "gravity": 5.0,
    "position_gain": 2.0,
    "velocity_gain": 3.0,
    "direction_gain": 30.0,
    "rate_gain": 9.0,
    "formation_angle": -0.7,
    "path_linear": (0.1, -0.4, 0.2),
    "path_quadratic": (0.05, 0.1, -0.1),
}
SYSTEM, OTHER = systems.get("quadrotor_payload"), systems.get("quadrotor_payload", **UNLIKE)
E3 = np.array([0.0, 0.0, 1.0])


def numbers(rows):
    return np.array([[float(digits) for digits in row] for row in rows])


def end(integrator, state=None, system=SYSTEM, duration=2.0, **accuracy):
    return integrators.integrate(
        system, integrators.get(integrator), SYSTEM.start("celledoni") if state is None else state,
        duration=duration, samples=1, **accuracy,
    ).states[-1]  # fmt: skip


def values(system, states, times=None, names=()):
    """What the quantities, or those of some names, are at states; shape (S, components)."""
    case = Case(system, states[0], system.name)
    return {
        q.name: case.evaluate(q.function, states, times)[:, q.columns]
        for q in system.quantities
        if not names or q.name in names
    }


# --- states in quadruple precision --------------------------------------------------------------


def error(integrator, **accuracy):
    (entry,) = REFERENCE["exact"]
    return np.abs(end(integrator, **accuracy)[:14] - numbers(entry["y"])).max()


def test_the_start_is_the_reference_one():
    start = SYSTEM.start("celledoni")
    np.testing.assert_allclose(start[:14], numbers(REFERENCE["initial"]), rtol=0, atol=1e-16)
    SYSTEM.check_state(start)


@pytest.mark.parametrize(
    ("integrator", "accuracy", "bound"),
    [
        ("rkmk5", {"step_size": 2.0 / 1600}, 4e-15),
        ("rkmk4", {"step_size": 2.0 / 400}, 2e-9),
        ("cf4", {"step_size": 2.0 / 6400}, 4e-14),
        ("dop853", {"tolerance": 2.3e-14}, 2e-14),
    ],
)
def test_states_after_two_seconds(integrator, accuracy, bound):
    assert error(integrator, **accuracy) <= bound


@pytest.mark.parametrize("integrator", ["rkmk4", "cf4"])
def test_orders(integrator):
    errors = [error(integrator, step_size=2.0 / steps) for steps in (400, 800, 1600)]
    assert -np.diff(np.log2(errors)) == pytest.approx([4.0, 4.0], abs=0.1)


# --- the equations of motion --------------------------------------------------------------------


def hat(a):
    return np.cross(np.eye(3), a)


def plain_control(system, t, state):
    """u_1, u_2 as the reference spells them out; n = unit(w), w = e1 − (e1·b) b."""
    y, v, q, omega = state[0], state[1], state[[10, 12]], state[[11, 13]]
    m_y, mass, length = system.payload_mass, system.mass, system.length
    k_y, k_v, g = system.position_gain, system.velocity_gain, system.gravity
    one, two = np.array(system.path_linear), np.array(system.path_quadratic)
    e, rate = y - one * t - two * t * t, v - one - 2.0 * two * t
    force = m_y * (2.0 * two - g * E3 - k_y * e - k_v * rate)
    size = np.linalg.norm(force)
    b = -force / size
    w = np.array([1.0, 0.0, 0.0]) - b[0] * b
    n = w / np.linalg.norm(w)
    cosine, sine = math.cos(system.formation_angle), math.sin(system.formation_angle)
    aims = np.array([cosine * b + sine * n, cosine * b - sine * n])
    mu = [-size / (2.0 * cosine) * (q[i] @ aims[i]) * q[i] for i in range(2)]
    a = sum(mu) / m_y
    slope = m_y * (-k_y * rate - k_v * (a + g * E3 - 2.0 * two))
    b_rate = -(slope - b * (b @ slope)) / size
    w_rate = -b_rate[0] * b - b[0] * b_rate
    n_rate = (w_rate - n * (n @ w_rate)) / np.linalg.norm(w)
    aim_rates = np.array([cosine * b_rate + sine * n_rate, cosine * b_rate - sine * n_rate])
    forces = []
    for i in range(2):
        turn = np.cross(aims[i], aim_rates[i])
        ahead = omega[i] + np.cross(q[i], np.cross(q[i], turn))
        x = -system.direction_gain * np.cross(aims[i], q[i]) - system.rate_gain * ahead
        x = x - (q[i] @ turn) * np.cross(omega[i], q[i])
        along = mu[i] + mass[i] * (length[i] * omega[i] @ omega[i] + q[i] @ a) * q[i]
        twice = np.cross(q[i], np.cross(q[i], a))
        forces.append(along + mass[i] * (length[i] * np.cross(q[i], x) - twice))
    return np.array(forces), aims


def plain_motion(system, state, u, moments=((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))):
    """ż of A(z) ż = h(z), (37); rows y, v, Ω_1, Ω_2, ω_1, ω_2."""
    v, spins, q, omega = state[1], state[[5, 9]], state[[10, 12]], state[[11, 13]]
    mass, length, g = system.mass, system.length, system.gravity
    matrix, right = np.eye(18), np.zeros((6, 3))
    m_q = system.payload_mass * np.eye(3) + sum(mass[i] * np.outer(q[i], q[i]) for i in range(2))
    matrix[3:6, 3:6] = m_q
    right[0], right[1] = v, g * m_q @ E3
    for i in range(2):
        j, at = np.diag(system.inertia[i]), 3 * i
        matrix[6 + at : 9 + at, 6 + at : 9 + at] = j
        matrix[12 + at : 15 + at, 3:6] = -hat(q[i]) / length[i]
        along = (q[i] @ u[i]) * q[i]
        right[1] += along - mass[i] * length[i] * (omega[i] @ omega[i]) * q[i]
        right[2 + i] = np.array(moments[i]) - np.cross(spins[i], j @ spins[i])
        push = np.cross(q[i], u[i] - along) / mass[i]
        right[4 + i] = -(g * np.cross(q[i], E3) + push) / length[i]
    return np.linalg.solve(matrix, right.ravel()).reshape(6, 3)


def test_the_generator_solves_the_equations_of_motion():
    for system, state, t in zip(
        (SYSTEM, *[OTHER] * 4), (*SYSTEM.ensemble(2, 1), *OTHER.ensemble(3, 2)), (0.0, *range(4)),
        strict=True,
    ):  # fmt: skip
        flow = system.form
        f = np.zeros((11, 3))
        flow.generator.scalar(float(t), state, flow.packed, f, np.zeros(1))
        u, _ = plain_control(system, t, state)
        z = plain_motion(system, state, u)
        q, omega = state[[10, 12]], state[[11, 13]]
        velocities = state[1] - np.array(system.length)[:, None] * np.cross(omega, q)
        turning = np.cross(q, z[4:])
        expected = [
            z[0], z[1], state[5], z[2], state[9], z[3],
            omega[0], turning[0], omega[1], turning[1], [np.sum(u * velocities), 0.0, 0.0],
        ]  # fmt: skip
        np.testing.assert_allclose(f, expected, rtol=0, atol=1e-14 * np.abs(expected).max())


def plain_attitude(system, t, state):
    """u_i = −T_i R_i e3 and M_i, as the module says."""
    wanted, _ = plain_control(system, t, state)
    forces, moments = [], []
    for u, row, inertia in zip(wanted, (2, 6), system.inertia, strict=True):
        attitude, spin = state[row : row + 3], state[row + 3]
        axis = attitude @ E3
        thrust = np.clip(-u @ axis, 0.0, system.most_thrust)
        aim = -attitude.T @ u / np.linalg.norm(u)
        free = np.cross(spin, np.array(inertia) * spin)
        forces.append(-thrust * axis)
        moments.append(system.attitude_gain * np.cross(E3, aim) - system.spin_gain * spin + free)
    return np.array(forces), np.array(moments)


def plain_bounded(system, t, state):
    """u_i no longer than the greatest thrust."""
    wanted, _ = plain_control(system, t, state)
    sizes = np.linalg.norm(wanted, axis=1, keepdims=True)
    return wanted * np.minimum(1.0, system.most_thrust / sizes), np.zeros((2, 3))


def plain_constant(system, t, state):
    axes = [state[row : row + 3] @ E3 for row in (2, 6)]
    return -np.array(system.thrust)[:, None] * axes, np.array(system.moment)


def plain_none(system, t, state):
    return np.zeros((2, 3)), np.zeros((2, 3))


CONTROLS = {
    "tracking": ({"most_thrust": 20.0}, plain_bounded),
    "attitude": ({"most_thrust": 9.0, "attitude_gain": 7.0, "spin_gain": 0.3}, plain_attitude),
    "constant": (
        {"thrust": (3.0, -4.0), "moment": ((0.1, -0.2, 0.3), (0.0, 0.4, -0.1))}, plain_constant,
    ),
    "none": ({}, plain_none),
}  # fmt: skip


@pytest.mark.parametrize("control", first_of(CONTROLS))
def test_every_control_solves_the_equations_of_motion(control):
    parameters, plain = CONTROLS[control]
    system = systems.get("quadrotor_payload", **UNLIKE, control=control, **parameters)
    flow, clipped = system.form, []
    for t, state in enumerate(system.ensemble(6, 7)):
        f, work = np.zeros((flow.action.algebra_rows, 3)), np.zeros(1 + flow.generator.work(15))
        flow.generator.scalar(float(t), state, flow.packed, f, work)
        u, moments = plain(system, t, state)
        z = plain_motion(system, state, u, moments)
        q, omega = state[[10, 12]], state[[11, 13]]
        turning = np.cross(q, z[4:])
        expected = [
            z[0], z[1], state[5], z[2], state[9], z[3],
            omega[0], turning[0], omega[1], turning[1],
        ]  # fmt: skip
        if control != "none":
            velocities = state[1] - np.array(system.length)[:, None] * np.cross(omega, q)
            power = np.sum(u * velocities) + np.sum(moments * state[[5, 9]])
            expected.append([power, 0.0, 0.0])
            found = values(system, state[None], [float(t)], ("force_2", "moment_1"))
            np.testing.assert_allclose(found["force_2"][0], u[1], atol=1e-13)
            np.testing.assert_allclose(found["moment_1"][0], moments[0], atol=1e-13)
        np.testing.assert_allclose(f, expected, rtol=0, atol=1e-14 * np.abs(expected).max())
        clipped += np.linalg.norm(u, axis=1).tolist()
    if "most_thrust" in parameters:
        most = parameters["most_thrust"]
        assert max(clipped) == pytest.approx(most) and min(clipped) < 0.99 * most


def test_a_bound_that_is_never_reached_changes_nothing():
    """The closed loop, where masses cancel, against (37) with the same forces."""
    bounded = systems.get("quadrotor_payload", most_thrust=1e3)
    found = end("rkmk4", system=bounded, duration=1.0, step_size=0.01)
    expected = end("rkmk4", duration=1.0, step_size=0.01)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("gravity", [0.0, 9.81])
def test_without_forces_energy_and_momenta_stay(gravity):
    """(37) with u = 0 and M = 0, of quadrotors and links that are not alike."""
    system = systems.get("quadrotor_payload", **UNLIKE | {"gravity": gravity}, control="none")
    state = system.ensemble(1, 8)[0]
    changes = {}
    for steps in (400, 800):
        run = integrators.integrate(
            system, integrators.get("rkmk5"), state,
            step_size=2.0 / steps, duration=2.0, samples=8,
        )  # fmt: skip
        found = values(system, run.states)
        for name in ("energy", "linear_momentum", "momentum"):
            changes.setdefault(name, []).append(np.ptp(found[name], axis=0).max())
    assert found["linear_momentum"].shape[1] == (2 if gravity else 3)
    assert found["momentum"].shape[1] == (1 if gravity else 3)
    assert np.ptp(run.states[:, 1], axis=0).min() > 0.01  # the load's velocity changes
    assert all(fine <= 1e-12 for _, fine in changes.values())
    assert all(coarse <= 5e-11 for coarse, _ in changes.values())
    assert system.form.rows == 14 and "work" not in found


@pytest.mark.parametrize(
    ("changed", "control", "matters"),
    first_of(
        [
            ({"mass": (0.9, 0.5)}, "tracking", False),
            ({"inertia": (0.1, 0.1, 0.12)}, "attitude", True),
            ({"mass": (0.9, 0.5)}, "attitude", True),
            ({"length": (0.8, 1.3)}, "constant", True),
            ({"mass": (0.9, 0.5)}, "none", True),
            ({"payload_mass": 2.0}, "none", True),
        ]
    ),
)
def test_what_masses_lengths_and_inertias_change(changed, control, matters):
    """In closed loop they cancel from the motion of load and links, and nowhere else."""
    made = [systems.get("quadrotor_payload", control=control, **own) for own in ({}, changed)]
    ends = [
        end("rkmk4", one.start("celledoni"), one, 0.5, step_size=0.01)[[0, 1, 10, 11, 12, 13]]
        for one in made
    ]
    far = np.abs(ends[0] - ends[1]).max()
    assert far > 1e-4 if matters else far <= 1e-13


@kernel()
def wanted_rates(t, y, p, out, work):
    """ω_1d in row 0, by v̇ from the generator's row 1 in `work`."""
    e, rate = control.lag(t, y, p)
    f, inverses = control.polar(control.wanted_force(e, rate, p))
    fall = work[3], work[4], work[5]
    theta, phi = control.polar_rates(f, inverses, control.force_rate(rate, fall, p))
    for i in range(2):
        put(out, i, control.wanted_rate(control.wanted_angles(f, p)[i], f, theta, phi))


def test_the_wanted_directions_turn_as_the_controller_says():
    """ω_id against central differences of q_id along the motion: to 2e-8 of steps of 1e-4."""
    state, p, t, step = OTHER.ensemble(1, 3)[0], OTHER.form.packed, 0.7, 1e-4
    f, found = np.zeros((11, 3)), np.zeros((2, 3))
    OTHER.form.generator.scalar(t, state, p, f, np.zeros(1))
    wanted_rates.scalar(t, state, p, found, np.ascontiguousarray(f.ravel()))
    near = [
        end("rkmk5", state, OTHER, duration, step_size=step, start_time=t)
        for duration in (-step, step)
    ]
    before, after = (
        OTHER.wanted_directions(near[k][0], near[k][1], t + (-step, step)[k]) for k in range(2)
    )
    aims = OTHER.wanted_directions(state[0], state[1], t)
    np.testing.assert_allclose(aims, plain_control(OTHER, t, state)[1], rtol=0, atol=1e-15)
    np.testing.assert_allclose(found, np.cross(aims, (after - before) / (2 * step)), atol=1e-7)
    np.testing.assert_allclose(np.sum(found * aims, axis=1), 0.0, atol=1e-15)


# --- what is recorded ---------------------------------------------------------------------------


@pytest.mark.parametrize("system", [SYSTEM, OTHER], ids=["paper", "unlike"])
def test_the_energy_changes_by_the_work_of_the_forces(system):
    run = integrators.integrate(
        system, integrators.get("rkmk5"), SYSTEM.start("celledoni"),
        step_size=2.0 / 1600, duration=2.0, samples=4,
    )  # fmt: skip
    found = values(system, run.states, run.times)
    assert np.ptp(found["energy"]) > 1.0
    np.testing.assert_allclose(found["energy"] - found["energy"][0], found["work"], atol=1e-11)
    assert np.ptp(found["energy_balance"]) <= 1e-11
    for constraint in ("unit_length", "tangency", "orthogonality"):
        assert found[constraint].max() <= 3e-15


def test_the_energy_and_the_errors_of_a_state_by_hand():
    state, t = OTHER.ensemble(1, 4)[0], 0.3
    found = {name: value[0] for name, value in values(OTHER, state[None], [t]).items()}
    q, omega, spins = state[[10, 12]], state[[11, 13]], state[[5, 9]]
    length, mass = np.array(OTHER.length), np.array(OTHER.mass)
    places = state[0] - length[:, None] * q
    velocities = state[1] - length[:, None] * np.cross(omega, q)
    kinetic = 1.3 * state[1] @ state[1] + mass @ np.sum(velocities**2, axis=1)
    kinetic += np.sum(np.array(OTHER.inertia) * spins**2)
    potential = -5.0 * (1.3 * state[0, 2] + mass @ places[:, 2])
    assert found["energy"] == pytest.approx(0.5 * kinetic + potential, rel=1e-14)
    wanted = np.array([0.1, -0.4, 0.2]) * t + np.array([0.05, 0.1, -0.1]) * t * t
    np.testing.assert_allclose(found["desired_position"], wanted, rtol=0, atol=1e-16)
    np.testing.assert_allclose(found["load_position"], state[0])
    np.testing.assert_allclose(found["deviation"], state[0] - wanted)
    assert found["tracking_distance"] == pytest.approx(np.linalg.norm(state[0] - wanted))
    off = np.linalg.norm(q - plain_control(OTHER, t, state)[1], axis=1)
    assert found["link_deviation_1"] == pytest.approx(off[0])
    assert found["link_deviation_2"] == pytest.approx(off[1])


@pytest.mark.parametrize("system", [SYSTEM, OTHER], ids=["paper", "unlike"])
def test_on_the_path_the_motion_stays_there(system):
    state = end("dop853", system.start("on_path"), system, 4.0, tolerance=2.3e-14)
    found = values(system, state[None], [4.0])
    for name in ("tracking_distance", "link_deviation_1", "link_deviation_2"):
        assert found[name][0, 0] <= 1e-13
    np.testing.assert_allclose(state[[11, 13]], 0.0, atol=1e-13)


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "key", "message"),
    [
        ({"payload_mass": 0.0}, "payload_mass", "= 0.0; expected a number > 0"),
        ({"mass": [1.0]}, "mass", "has 1 values; expected 2"),
        ({"inertia": 1.0}, "inertia", "= 1.0; expected the three principal moments of both"),
        ({"inertia": [[1, 2, 3], [1, 2, -3]]}, "inertia", "= -3; expected a number > 0"),
        ({"rate_gain": -1.0}, "rate_gain", "= -1.0; expected a number ≥ 0"),
        ({"formation_angle": 30.0}, "formation_angle", "between −π/2 and π/2, in radians"),
        ({"path_linear": 0.5}, "path_linear", "= 0.5; expected [x, y, z]"),
        ({"control": "track"}, "control", "unknown control 'track'. Did you mean 'tracking'?"),
        ({"most_thrust": 0.0}, "most_thrust", "= 0.0; expected a number > 0"),
        ({"most_thrust": "none"}, "most_thrust", "'none'. Did you mean 'unbounded'?"),
        ({"thrust": [1.0]}, "thrust", "has 1 values; expected 2"),
        ({"moment": 3.0}, "moment", "= 3.0; expected the three moments of both quadrotors"),
        ({"moment": [[0, 0, 1], [0, 1]]}, "moment", "a list of three for each"),
        ({"attitude_gain": -1.0}, "attitude_gain", "= -1.0; expected a number ≥ 0"),
        ({"control_values": 2.0}, "control_values", "= 2.0; expected a list of numbers"),
        ({"inertia": [0.1, 0.1, 0.21]}, "inertia", "0.21 > 0.1 + 0.1, and no body has such"),
    ],
)
def test_parameters_are_checked(parameters, key, message):
    with pytest.raises(InputError) as caught:
        systems.get("quadrotor_payload", **parameters)
    assert message in str(caught.value) and caught.value.key == key


@pytest.mark.parametrize(
    ("rows", "values_there", "message"),
    [
        ([2], [[1.0, 0.1, 0.0]], "R1 is no rotation: ‖R1ᵀR1 − 1‖ = 0.142; expected at most"),
        ([6, 7], [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], "R2 has the determinant −1"),
        ([10], [[1.0, 0.0, 0.1]], "q1 is off the manifold"),
        ([13], [[1.0, 0.0, 0.0]], "q2·omega2"),
        ([14], [[0.0, 1.0, 0.0]], "expected \\(work, 0, 0\\)"),
        ([0, 1], [[0.0, 0.0, -9.61 / 4], [0.5, 0.3, -0.5]], "neither 0 nor along e1"),
    ],
)
def test_states_are_checked(rows, values_there, message):
    state = SYSTEM.start("celledoni")
    state[rows] = values_there
    with pytest.raises(InputError, match=message):
        SYSTEM.check_state(state)


def test_a_start_without_a_force_is_refused():
    """Without gravity and path the load at rest at the origin is pulled nowhere."""
    weightless = {"gravity": 0.0, "path_linear": (0.0,) * 3, "path_quadratic": (0.0,) * 3}
    system = systems.get("quadrotor_payload", **weightless)
    with pytest.raises(InputError, match=r"the force \[.*\] per mass .* neither 0 nor along e1"):
        system.start("on_path")
