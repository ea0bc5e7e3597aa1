"""Lie group methods: orders, what stays on its orbit, where they stop, what they refuse."""

import math

import numpy as np
import pytest
import scipy.linalg
from cases import first_of

import integrators
import systems
from integrators import InputError
from integrators import status as status_of
from integrators.compiler.kernels import kernel
from integrators.compiler.vectors import add, cross, dot, get, put, scale
from integrators.forms.flows import HomogeneousFlow
from integrators.lie_groups import actions, factors
from integrators.stepping.batch import run_batch

EXACT = [  # name, options, order
    ("lie_euler", {}, 1),
    ("lie_euler_heun", {}, 2),
    ("rkmk3", {}, 3),
    ("rkmk4", {}, 4),
    ("rkmk4_two_commutators", {}, 4),
    ("rkmk5", {}, 5),
    ("cf4", {}, 4),
    ("crouch_grossman3", {}, 3),
]
TRUNCATED = [
    *(("rkmk4", {"dexpinv": "truncated", "commutators": k}, 2 + k) for k in range(3)),
    ("rkmk5", {"dexpinv": "truncated", "commutators": 2}, 5),
]
NAMES = [name for name, _, _ in EXACT]


def spatial_chain():
    """Two links under gravity, and a start that leaves every plane."""
    system = systems.get("spherical_pendulum_chain", gravity=-9.81)
    return system, system.start("celledoni_spatial")


def ends(system, integrator, state, steps, duration=1.0):
    run = integrators.integrate(
        system, integrator, state, step_size=duration / steps, duration=duration, samples=1
    )
    assert status_of.STATUS[run.status] == "complete"
    return run.states[-1]


def best(system, state, duration=1.0):
    return integrators.integrate(
        system, integrators.get("dop853"), state,
        duration=duration, samples=1, tolerance=2.3e-14,
    ).states[-1]  # fmt: skip


def measured_order(system, state, integrator, steps):
    exact = best(system, state)
    errors = [np.linalg.norm(ends(system, integrator, state, n) - exact) for n in steps]
    assert errors[-1] > 3e-12  # above round-off
    return -np.polyfit(np.log(steps), np.log(errors), 1)[0]


# --- orders -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "options", "order"), EXACT + TRUNCATED)
def test_orders_on_the_spatial_start(name, options, order):
    integrator = integrators.get(name, **options)
    assert integrator.order == order
    steps = (160, 230, 320) if order == 5 else (320, 450, 640)
    assert measured_order(*spatial_chain(), integrator, steps) == pytest.approx(order, abs=0.1)


@kernel()
def generator(t, y, p, out, work):
    """Of two rotation matrices R and S, a pair of se(3)* and a vector, with explicit time."""
    moved, shifted = get(y, 6), get(y, 8)
    put(out, 0, add(cross(get(y, 0), shifted), (t * t, p[0], math.cos(3.0 * t))))
    put(out, 1, add(get(y, 4), scale(t, moved)))
    put(out, 2, (dot(moved, shifted), y[3, 1], 1.0 - t))
    put(out, 3, cross(get(y, 1), get(y, 7)))
    put(out, 4, add(scale(-0.5, shifted), get(y, 3)))


@kernel()
def energy(t, y, p, out, work):
    out[0, 0] = dot(get(y, 8), get(y, 8)) + p[0]


def flow():
    action = actions.product(
        factors.ROTATION, factors.RIGHT_ROTATION, factors.COADJOINT_SE3, factors.TRANSLATION
    )
    return HomogeneousFlow(generator, action, energy, parameters=np.array([0.7]))


def flow_state():
    left, right = (
        scipy.linalg.expm(np.cross(np.eye(3), axis)) for axis in ([0.4, -1.0, 0.3], [1.0, 0.2, 0.5])
    )
    return np.concatenate([left, right, [[0.3, -0.2, 0.9], [0.5, 0.1, -0.4], [1.0, 0.0, -0.7]]])


@pytest.mark.parametrize(
    ("name", "options"),
    first_of([(name, {}) for name in NAMES if name != "rkmk5"] + [TRUNCATED[1][:2]], 3),
)
def test_orders_on_rotation_matrices_from_either_side_with_explicit_time(name, options):
    integrator = integrators.get(name, **options)
    found = measured_order(flow(), flow_state(), integrator, (80, 113, 160))
    assert found == pytest.approx(integrator.order, abs=0.05)


def test_a_flow_is_its_own_vector_field():
    """ψ_*(f), (3): rows of R turn by û R, of S by S û."""
    field, y = flow().vector_field(), flow_state()
    out, slopes = np.empty((9, 3)), np.empty((5, 3))
    field.field.scalar(0.3, y, field.parameters, out, np.zeros(field.field.work(9)))
    generator.scalar(0.3, y, field.parameters, slopes, np.zeros(1))
    left, right, xi, u, shift = slopes
    expected = np.concatenate(
        [
            np.cross(left, y[:3].T).T,
            np.cross(y[3:6], right),
            [np.cross(xi, y[6]) + np.cross(u, y[7]), np.cross(xi, y[7]), shift],
        ]
    )
    assert out == pytest.approx(expected, abs=1e-15)


# --- what stays on its orbit --------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_states_of_the_chain_stay_where_they_are_constrained(name):
    system, start = spatial_chain()
    run = integrators.integrate(
        system, integrators.get(name), start, step_size=0.01, duration=5.0, samples=500
    )
    q, omega = run.states[:, :2], run.states[:, 2:]
    assert np.abs(np.sum(q * q, axis=2) - 1.0).max() <= 5e-15  # measured 5e-16
    assert np.abs(np.sum(q * omega, axis=2)).max() <= 2e-14  # measured 3e-15, where |ω| is 15


@pytest.mark.parametrize("name", ["lie_euler", "rkmk4", "crouch_grossman3"])
def test_rotation_matrices_stay_orthogonal_and_momenta_on_their_coadjoint_orbits(name):
    run = integrators.integrate(
        flow(), integrators.get(name), flow_state(), step_size=0.01, duration=10.0, samples=50
    )
    matrices = run.states[:, :6].reshape(-1, 2, 3, 3)
    gram = np.einsum("skij,skil->skjl", matrices, matrices)
    assert np.abs(gram - np.eye(3)).max() <= 1e-14
    pi, gamma = run.states[:, 6], run.states[:, 7]
    for casimir in (np.sum(gamma * gamma, axis=1), np.sum(pi * gamma, axis=1)):
        assert np.abs(casimir - casimir[0]).max() <= 1e-13


def test_lie_euler_is_exact_where_the_axis_stays():
    """The flow of a linear Hamiltonian on spins, H = a·w: one step, however long."""
    axis = np.array([0.3, -0.5, 0.7])
    system = systems.get("precession", axis=tuple(axis))
    start = system.ensemble(1, 3)[0]
    for name in NAMES:
        end = ends(system, integrators.get(name), start, 1, duration=5.0)
        turned = start[0] @ scipy.linalg.expm(5.0 * np.cross(np.eye(3), axis))  # ẇ = w × a
        assert end[0] == pytest.approx(turned, abs=4e-15)


@pytest.mark.parametrize("name", ["rkmk4", "cf4"])
@pytest.mark.parametrize(
    ("system", "parameters", "bound"),
    [
        ("spherical_pendulum_chain", {}, 1e-12),  # measured 7e-13, 5e-13, 1e-15 and 2e-14
        ("forced_pendulum_chain", {}, 1e-12),
        ("free_rigid_body", {"lengths": "any"}, 4e-15),
        ("heisenberg_chain", {"count": 6}, 4e-14),
    ],
)
def test_ends_are_those_of_the_reference(name, system, parameters, bound):
    system = systems.get(system, **parameters)
    start = system.start(system.starts[0])
    end = ends(system, integrators.get(name), start, 1000)
    assert end == pytest.approx(best(system, start), abs=bound)


@pytest.mark.parametrize("name", ["rkmk4", "cf4"])
def test_the_work_of_a_force_is_the_last_row(name):
    system = systems.get("forced_pendulum_chain")
    start, integrator = system.start(system.starts[0])[:4], integrators.get(name)
    work = ends(system, integrator, start, 100)[4]
    assert work == pytest.approx(best(system, start)[4], abs=2e-8)
    assert abs(work[0]) > 0.1 and np.all(work[1:] == 0.0)
    given = np.concatenate([start, [[0.25, 0.0, 0.0]]])
    shifted = ends(system, integrator, given, 100)
    assert shifted[4] == pytest.approx(work + (0.25, 0.0, 0.0), abs=1e-15)
    np.testing.assert_array_equal(shifted[:4], ends(system, integrator, start, 100)[:4])


# --- where they stop ----------------------------------------------------------------------------


def spinning(*speeds):
    """A ball, and states that turn about themselves so fast; the generator is constant."""
    system = systems.get("free_rigid_body", inertia=(1.0, 1.0, 1.0), lengths="any")
    return system, np.array([[[0.0, 0.6 * s, 0.8 * s]] for s in speeds])


def test_an_angle_beyond_the_pole_is_left_domain_and_others_go_on():
    """The first such angle is reported: of stages at the end of the step, and at its middle."""
    inside, outside = 2 * math.pi - 1.01e-3, 2 * math.pi - 0.99e-3
    system, members = spinning(0.5, 6.0, 6.3, 1.0, inside, outside, 20.0)
    batch = run_batch(integrators.get("rkmk4").bind(system), members, 1.0, 1, 3)
    status, stop, residual = batch.report[:, :3].T
    failed, others = [2, 5, 6], [0, 1, 3, 4]
    assert np.all(status[failed] == status_of.LEFT_DOMAIN) and np.all(stop[failed] == 0)
    assert residual[failed] == pytest.approx([6.3, outside, 10.0], rel=1e-15)
    assert np.all(np.isnan(batch.states[failed, 1:]))
    assert np.all(status[others] == status_of.COMPLETE)
    expected = np.repeat(members[others, None], 3, axis=1)
    assert batch.states[others, 1:] == pytest.approx(expected, abs=1e-14)


def test_a_run_that_leaves_its_domain_says_when():
    """Falling links turn faster and faster."""
    system, start = spatial_chain()
    run = integrators.integrate(
        system, integrators.get("rkmk4"), start, step_size=0.5, duration=50.0, samples=100
    )
    assert status_of.STATUS[run.status] == "left_domain"
    stop = run.counters["stop_step"]
    assert stop == run.counters["steps"] > 0
    assert 2 * math.pi < run.counters["stop_residual"] < 100.0
    assert np.all(np.isfinite(run.states[: stop + 1])) and np.all(np.isnan(run.states[stop + 1 :]))


@pytest.mark.parametrize("name", ["lie_euler", "cf4", "crouch_grossman3", "rkmk4_two_commutators"])
def test_methods_without_dexpinv_have_no_such_limit(name):
    system, members = spinning(20.0)
    run = integrators.integrate(
        system, integrators.get(name), members[0], step_size=1.0, duration=3.0, samples=3
    )
    assert status_of.STATUS[run.status] == "complete"
    assert run.states[-1] == pytest.approx(members[0], abs=1e-12)


# --- what they count and refuse -----------------------------------------------------------------


def test_evaluations_are_counted():
    system, start = spatial_chain()
    for name, evaluations in {
        "lie_euler": 1, "lie_euler_heun": 2, "rkmk3": 3, "rkmk4": 4, "rkmk4_two_commutators": 4,
        "rkmk5": 6, "cf4": 4, "crouch_grossman3": 3,
    }.items():  # fmt: skip
        run = integrators.integrate(
            system, integrators.get(name), start, step_size=0.01, duration=0.1, samples=1
        )
        assert run.counters["evaluations"] == 10 * evaluations


@pytest.mark.parametrize("name", NAMES)
def test_compositions_are_refused(name):
    with pytest.raises(
        InputError, match=f"'{name}' cannot be composed by 'suzuki4': it is not sym"
    ):
        integrators.get(f"{name}+suzuki4")
    with pytest.raises(InputError, match="'splitting'"):
        integrators.get(f"{name}+blanes_moan6")
    with pytest.raises(InputError, match=f"'{name}' takes no modifier; got 'projected'"):
        integrators.get(f"{name}+projected")


def test_a_system_without_an_action_is_refused_with_what_would_do():
    system = systems.get("nambu_quadratic")
    message = (
        "'rkmk4' needs the form HomogeneousFlow, which 'nambu_quadratic' does not offer. "
        r"Integrators that would do: .*nambu_midpoint.*rk4.*dop853"
    )
    with pytest.raises(InputError, match=message) as refusal:
        integrators.get("rkmk4").bind(system)
    assert "cf4" not in str(refusal.value)
    with pytest.raises(InputError, match=r"needs the form SpheresLagrangian.*rkmk4.*cf4.*rk4"):
        integrators.get("variational").bind(flow())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dexpinv": "series"}, "unknown dexpinv 'series'.*'exact'|Valid: exact, truncated"),
        ({"commutators": 16}, "commutators = 16; expected at most 15"),
        ({"commutators": -1}, "commutators = -1; expected a whole number ≥ 0"),
        ({"commutators": 1.5}, "commutators = 1.5; expected a whole number ≥ 0"),
        ({"order": 4}, "unknown option 'order' of rkmk4"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        integrators.get("rkmk4", **options)


def test_an_action_that_does_not_match_the_state_is_refused():
    with pytest.raises(InputError, match=r"state of shape \(8, 3\); expected \(9, 3\)"):
        ends(flow(), integrators.get("rkmk4"), flow_state()[:8], 10)
    with pytest.raises(InputError, match="unit_rows has 9, and the action .* moves 9 rows"):
        HomogeneousFlow(generator, flow().action, energy, unit_rows=(2, 9))
    with pytest.raises(InputError, match="action is .* expected one that product, spheres"):
        HomogeneousFlow(generator, factors.ROTATION, energy)
    with pytest.raises(InputError, match=r"energy is None; expected a function .* @kernel\(\)"):
        HomogeneousFlow(generator, flow().action, None)


def test_states_of_a_flow_are_on_its_manifold():
    form, start = flow(), np.zeros((9, 3))
    start[:3] = start[3:6] = np.eye(3)
    for rows, message in (
        (1.1 * np.eye(3), "rows 3 to 5 of the state are no rotation: .* = 0.364; expected at most"),
        (np.diag([-1.0, 1.0, 1.0]), "rows 3 to 5 of the state are a reflection"),
    ):
        start[3:6] = rows
        with pytest.raises(InputError, match=message):
            integrators.integrate(
                form, integrators.get("rkmk4"), start, step_size=0.1, duration=1.0, samples=1
            )
    with pytest.raises(InputError, match=r"expected \(9, 3\).*SO\(3\) from the left x .* moves"):
        integrators.integrate(
            form, integrators.get("rkmk4"), start[:8], step_size=0.1, duration=1.0, samples=1
        )
