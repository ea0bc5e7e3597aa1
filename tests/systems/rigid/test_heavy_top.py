"""The heavy top in three formulations, and symplectic Lie group integrators on it."""

import json
from pathlib import Path

import numpy as np
import pytest
from cases import Case, first_of
from scipy.integrate import solve_ivp

import integrators
import systems
from integrators import InputError
from integrators import status as status_of
from integrators.forms.cotangent import CotangentHamiltonian
from integrators.forms.forms import form_of
from integrators.forms.lie_poisson import LiePoissonHamiltonian
from integrators.stepping.batch import run_batch

REFERENCE = json.loads((Path(__file__).parents[2] / "reference_celledoni.json").read_text())
PAPER = REFERENCE["cases"]["heavy_top/paper"]
SLGI = "symplectic_lie_group"
SPINNING = systems.get("heavy_top")
QUADRATIC = systems.get("heavy_top", formulation="quadratic")
POISSON = systems.get("heavy_top", formulation="lie_poisson")


def integrated(system, integrator, step_size, duration, samples=1, state="celledoni"):
    state = system.start(state) if isinstance(state, str) else state
    run = integrators.integrate(
        system, integrator, state, step_size=step_size, duration=duration, samples=samples
    )
    assert np.all(run.status == status_of.COMPLETE)
    return run.states


def quantity(system, name, states):
    found = next(q for q in system.quantities if q.name == name)
    return Case(system, states[0], name).evaluate(found.function, states)[:, list(found.columns)]


# --- the motion ----------------------------------------------------------------------------------


def test_the_start_and_the_state_of_the_reference():
    exact = np.array(PAPER["exact"][0]["y"], dtype=float)
    start = SPINNING.start("celledoni")
    np.testing.assert_array_equal(start, np.array(PAPER["initial"], dtype=float))
    ends = {}
    for system in (SPINNING, POISSON, QUADRATIC):
        run = integrators.integrate(
            system, integrators.get("dop853"), system.start("celledoni"),
            duration=1.0, samples=1, tolerance=2.3e-14,
        )  # fmt: skip
        ends[system.formulation] = run.states[-1]
    attitude, momentum = exact[:3], exact[3]
    np.testing.assert_allclose(ends["cotangent"], exact, atol=3e-11)
    np.testing.assert_allclose(ends["quadratic"][[0, 1, 2, 4]], exact, atol=3e-11)
    body = np.stack([momentum @ attitude, -9.81 * attitude[2]])
    np.testing.assert_allclose(ends["lie_poisson"], body, atol=2e-10)
    np.testing.assert_array_equal(ends["quadratic"][5], [0.0, -30.0, 0.0])


def test_inertia_about_the_fixed_point():
    assert systems.get("heavy_top", inertia="fixed_point", length=1.0).moments == (
        15.234375, 0.46875, 15.234375,
    )  # fmt: skip
    assert systems.get("heavy_top", inertia="fixed_point").moments[0] == 60.234375
    start = quantity(SPINNING, "energy", SPINNING.start("celledoni")[None])
    assert start[0, 0] == pytest.approx(5275.93, abs=0.005)


def test_random_states_are_the_same_in_every_formulation():
    attitudes = SPINNING.ensemble(3, 7)
    body, wide = POISSON.ensemble(3, 7), QUADRATIC.ensemble(3, 7)
    np.testing.assert_array_equal(wide[:, [0, 1, 2, 4]], attitudes)
    for top, own, more in zip(attitudes, body, wide, strict=True):
        np.testing.assert_allclose(own[0], top[3] @ top[:3], atol=1e-14)
        np.testing.assert_array_equal(own[1], -9.81 * top[2])
        np.testing.assert_array_equal(more[5], [0.0, -30.0, 0.0])
    near = POISSON.ensemble(5, 1, around="celledoni", spread=0.1)
    np.testing.assert_allclose(np.linalg.norm(near[:, 1], axis=1), 9.81, rtol=1e-15)
    near = QUADRATIC.ensemble(5, 1, around="celledoni", spread=0.1)
    np.testing.assert_array_equal(near[:, 5], np.tile([0.0, -30.0, 0.0], (5, 1)))
    turned = POISSON.lattice(4)[:, 1] / 9.81
    np.testing.assert_allclose(SPINNING.lattice(4)[:, :3, 1], turned, atol=1e-15)


# --- symplectic Lie group integrators ------------------------------------------------------------


@pytest.mark.parametrize(("theta", "order"), [(0.0, 1), (0.5, 2), (1.0, 1)])
def test_orders_on_the_spinning_top(theta, order):
    integrator = integrators.get(SLGI, theta=theta)
    assert integrator.order == order and integrator.symmetric == (order == 2)
    exact = np.array(PAPER["exact"][0]["y"], dtype=float)
    steps = (6400, 9600, 12800)
    errors = [
        np.linalg.norm(integrated(SPINNING, integrator, 1 / n, 1.0)[-1] - exact) for n in steps
    ]
    found = -np.polyfit(np.log(steps), np.log(errors), 1)[0]  # 1.02, 2.00 and 1.01
    assert found == pytest.approx(order, abs=0.05)


# The largest errors are those of the first nutations: found 9.2188e-3, 21.9655 and 21.9652.
@pytest.mark.parametrize(
    ("theta", "low", "high"), [(0.0, -0.018, 22.0), (0.5, 0.0, 9.22e-3), (1.0, -0.0183, 22.0)]
)
def test_energy_over_6000_steps_of_one_and_a_half_radians(theta, low, high):
    states = integrated(SPINNING, integrators.get(SLGI, theta=theta), 0.01, 60.0, samples=6000)
    energy = quantity(SPINNING, "energy", states)[:, 0]
    errors = energy - energy[0]
    assert low <= errors.min() and errors.max() <= high
    assert errors.max() > 0.99 * high
    assert np.ptp(quantity(SPINNING, "momentum", states)) == 0.0
    axial = quantity(SPINNING, "axial_momentum", states)  # found 3.4e-15 of it
    assert np.ptp(axial) <= 2e-14 * 70.3125
    assert quantity(SPINNING, "orthogonality", states).max() <= 3e-15


@pytest.mark.slow
@pytest.mark.parametrize("theta", [0.0, 0.3, 0.5, 1.0])
def test_the_quadratic_formulation_gives_the_same_map(theta):
    method = integrators.get(SLGI, theta=theta)
    top, wide = (integrated(s, method, 0.01, 1.0, samples=100) for s in (SPINNING, QUADRATIC))
    np.testing.assert_allclose(wide[:, [0, 1, 2, 4]], top, atol=1e-12)  # found 1.4e-14
    np.testing.assert_array_equal(wide[:, 5], np.tile([0.0, -30.0, 0.0], (101, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("theta", [0.0, 0.3, 0.5, 1.0])
def test_it_is_symplectic_for_every_theta(theta):
    """And with it the map of the quadratic formulation, which is the same."""
    method = integrators.get(SLGI, theta=theta)
    state = SPINNING.start("celledoni")
    found = integrators.symplectic_defect(SPINNING, method, state, step_size=0.01)
    assert found.defect <= 5e-15 and found.resolution <= 1e-14  # found 2.4e-15, 5.9e-15
    back = integrators.reversal_error(SPINNING, method, state, step_size=0.01, steps=20)
    assert back <= 1e-12 if theta == 0.5 else back > 0.02


@pytest.mark.slow
def test_the_classical_method_is_not_symplectic():
    found = integrators.symplectic_defect(
        SPINNING, integrators.get("rk4"), SPINNING.start("celledoni"), step_size=1e-3
    )
    assert found.defect == pytest.approx(1.798e-6, rel=1e-3) and found.resolution <= 1e-14


@pytest.mark.slow
def test_lanes_follow_their_own_solutions():
    """Large steps of a body whose axial momentum is small beside the other: some are hard."""
    system = systems.get("heavy_top", inertia="fixed_point")
    members = system.ensemble(8, 3)
    members[:, 3] *= np.linspace(1.0, 80.0, 8)[:, None]
    problem = integrators.get(f"{SLGI}+suzuki4").bind(system)
    lanes = run_batch(problem, members, 0.02, 5, 4)
    assert not lanes.report[:, status_of.STATUS_ROW].any()
    most = lanes.report[:, status_of.ITERATIONS_MAX]
    assert most.min() < 20 and most.max() > 200  # the last are followed piece by piece
    for i, member in enumerate(members):
        alone = run_batch(problem, member[None], 0.02, 5, 4)
        np.testing.assert_array_equal(alone.states[0], lanes.states[i])
        np.testing.assert_array_equal(alone.report[0], lanes.report[i])


def test_a_step_that_has_no_solution_within_reach():
    method = integrators.get(SLGI)
    run = integrators.integrate(
        SPINNING, method, SPINNING.start("celledoni"), step_size=5.0, duration=20.0, samples=4
    )
    assert status_of.STATUS[run.status] == "not_converged" and run.counters["stop_step"] == 0
    assert run.counters["stop_residual"] > 1e-10
    assert np.isnan(run.states[1:]).all()


def test_a_top_at_rest_stays():
    still = systems.get("heavy_top", gravity=0.0)
    state = still.state_of(np.eye(3), np.zeros(3))
    states = integrated(still, integrators.get(SLGI), 0.1, 1.0, samples=10, state=state)
    np.testing.assert_array_equal(states, np.tile(state, (11, 1, 1)))


# --- Lie group methods ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rkmk4", "cf4"])
def test_casimirs_and_orthogonality(name):
    method = integrators.get(name)
    states = integrated(POISSON, method, 1e-3, 10.0, samples=1000)
    for casimir in ("squared_gravity", "momentum_along_gravity"):
        found = quantity(POISSON, casimir, states)[:, 0]
        assert np.ptp(found) <= 1e-13 * abs(found[0])  # found 6.4e-15 and 6.2e-15
    states = integrated(SPINNING, method, 1e-3, 10.0, samples=1000)
    assert quantity(SPINNING, "orthogonality", states).max() <= 2e-15
    assert np.ptp(quantity(SPINNING, "momentum", states)) == 0.0


FREE = systems.get("heavy_top", gravity=0.0)


@pytest.mark.parametrize(("name", "order"), [("rkmk4", 4), ("cf4", 4), ("crouch_grossman3", 3)])
@pytest.mark.slow
@pytest.mark.parametrize("system", [SPINNING, QUADRATIC], ids=lambda system: system.formulation)
def test_both_actions_on_the_cotangent_bundle(system, name, order):
    """(11)–(12), of G ⋉ g*, is of the same order, and does not keep the momentum along gravity."""
    exact = integrators.integrate(
        system, integrators.get("dop853"), system.start("celledoni"),
        duration=0.1, samples=1, tolerance=2.3e-14,
    ).states[-1]  # fmt: skip
    errors, momenta = {}, {}
    for action in ("product", "semidirect"):
        method = integrators.get(name, action=action)
        runs = [integrated(system, method, 0.1 / n, 0.1) for n in (200, 400)]
        errors[action] = [np.linalg.norm(run[-1] - exact) for run in runs]
        momenta[action] = [np.ptp(quantity(system, "momentum", run)) for run in runs]
        assert np.log2(np.divide(*errors[action])) == pytest.approx(order, abs=0.1)
        assert quantity(system, "orthogonality", runs[0]).max() <= 2e-15
    ratio = errors["semidirect"][1] / errors["product"][1]  # that of integrators.md
    assert ratio == pytest.approx({"rkmk4": 11.5, "cf4": 52.1}.get(name, 56.0), rel=0.02)
    assert momenta["product"] == [0.0, 0.0] and min(momenta["semidirect"]) > 1e-10


@pytest.mark.parametrize("name", first_of(["rkmk4", "cf4", "rkmk4_two_commutators"]))
def test_both_actions_take_the_same_steps_of_a_free_body(name):
    """Example 1 of section 2.1: exp(ω, −ω × π) leaves π where it is."""
    product, semidirect = (
        integrated(FREE, integrators.get(name, action=action), 1e-3, 0.1, samples=10)
        for action in ("product", "semidirect")
    )
    np.testing.assert_allclose(semidirect, product, rtol=0, atol=1e-11)


def test_actions_that_are_refused():
    method = integrators.get("rkmk4", action="semidirect")
    with pytest.raises(InputError, match="action = 'semidirect' is for Hamiltonians on T.G, such"):
        method.check(POISSON)
    with pytest.raises(InputError, match="'spherical_pendulum_chain' has one action only: leave"):
        method.check(systems.get("spherical_pendulum_chain"))


# --- splitting -----------------------------------------------------------------------------------

LIGHT = {"gravity": 2.0, "mass": 1e-30}  # too light for the weight to turn it
BODIES = [(1.0, 1.6, 2.2), (2.2, 1.0, 1.6), (1.0, 2.0, 1.0), (2.0, 1.0, 1.0), (3.0, 3.0, 3.0)]


def gained(system, state, piece, h):
    """What a state gains in the flow of a piece."""
    w, low = state.copy(), np.zeros_like(state)
    system.form.split.flow.scalar(piece, 0.0, h, w, low, system.form.parameters)
    np.testing.assert_array_equal(w, state)
    return low


@pytest.mark.slow
@pytest.mark.parametrize("inertia", BODIES, ids=str)
@pytest.mark.parametrize("formulation", ["lie_poisson", "cotangent"])
def test_a_free_body_turns_as_its_equations_say(formulation, inertia):
    """Π̇ = Π × I⁻¹Π in the body, and v̇ = v × I⁻¹Π for what is fixed in space."""
    system = systems.get("heavy_top", formulation=formulation, inertia=inertia, **LIGHT)
    attitudes = systems.get("heavy_top", inertia=inertia).ensemble(4, 2)
    for top, h in zip(attitudes, (1e-3, 0.3, -1.0, 2.0), strict=True):
        attitude, momentum = top[:3], top[3] @ top[:3]

        def equations(t, y):
            rows = y.reshape(4, 3)
            return np.cross(rows, rows[0] / np.array(inertia)).ravel()

        end = solve_ivp(
            equations, (0.0, h), np.concatenate([momentum, attitude.ravel()]),
            method="DOP853", rtol=2.3e-14, atol=1e-16,
        ).y[:, -1].reshape(4, 3)  # fmt: skip
        state = system.state_of(attitude, top[3])
        expected = np.vstack([end[1:], top[3:]])
        if formulation == "lie_poisson":
            expected = np.stack([end[0], -2.0 * end[3]])
        found = integrated(system, integrators.get("splitting"), abs(h), h, state=state)[-1]
        np.testing.assert_allclose(found, expected, atol=3e-14 * np.abs(expected).max())


@pytest.mark.slow
def test_the_weight_turns_the_momentum_alone():
    top, h = SPINNING.ensemble(1, 3)[0], 0.3
    down, axis = np.array([0.0, 0.0, -9.81]), np.array([0.0, 1.0, 0.0])
    found = gained(SPINNING, top, 1, h)
    np.testing.assert_allclose(found[3], h * 30.0 * np.cross(down, top[:3] @ axis), atol=1e-14)
    np.testing.assert_array_equal(found[:3], np.zeros((3, 3)))
    body = POISSON.state_of(top[:3], top[3])
    found = gained(POISSON, body, 1, h)
    np.testing.assert_allclose(found[0], h * 30.0 * np.cross(body[1], axis), atol=1e-14)
    np.testing.assert_array_equal(found[1], np.zeros(3))


@pytest.mark.slow
@pytest.mark.parametrize(("angle", "bound"), [(1.0, 1e-14), (2.0, 2e-13), (4.0, 2e-9)])
def test_how_far_a_free_body_turns_in_a_step_of_full_digits(angle, bound):
    """Beside 64 shorter steps; angles are |I⁻¹Π| h. Found 1.2e-15, 2.2e-14 and 2e-10."""
    worst = 0.0
    for inertia in ((1.0, 1.6, 2.2), (1.0, 2.0, 2.99), (1.0, 1.01, 2.0), (1.0, 1.1, 0.11)):
        system = systems.get("heavy_top", inertia=inertia, gravity=0.0)
        states = system.ensemble(64, 4)
        for state in states:
            own = state[3] @ state[:3] / np.array(inertia)
            state[3] /= np.linalg.norm(own)
        far, near = (
            integrators.integrate(
                system, integrators.get("splitting"), states,
                step_size=angle / steps, duration=angle, samples=1,
            ).states[:, -1, :3]
            for steps in (1, 64)
        )  # fmt: skip
        worst = max(worst, np.abs(far - near).max())
    assert worst <= bound


MILD = {"mass": 1.5, "length": 0.4}


@pytest.mark.slow
@pytest.mark.parametrize("inertia", [(1.0, 1.6, 2.2), (1.0, 2.0, 1.0)], ids=str)
def test_a_million_split_steps(inertia):
    """Rotations stay orthogonal; what the weight and the body keep changes like √t."""
    top = systems.get("heavy_top", inertia=inertia, **MILD)
    states = top.ensemble(8, 3)
    ends = run_batch(integrators.get("splitting").bind(top), states, 0.02, 10_000, 100).states
    squares = np.einsum("msik,msjk->msij", ends[:, :, :3], ends[:, :, :3])
    assert np.abs(squares - np.eye(3)).max() <= 3e-15  # found 1e-15
    np.testing.assert_array_equal(ends[:, -1, 3, 2], ends[:, 0, 3, 2])
    if inertia[0] == inertia[2]:
        axial = np.einsum("msi,msi->ms", ends[:, :, 3], ends[:, :, :3, 1])
        assert np.abs(axial - axial[:, :1]).max() <= 1e-13  # found 4e-14
    body = systems.get("heavy_top", inertia=inertia, formulation="lie_poisson", **MILD)
    own = np.stack([body.state_of(state[:3], state[3]) for state in states])
    ends = run_batch(integrators.get("splitting").bind(body), own, 0.02, 10_000, 100).states
    squared = np.sum(ends[:, :, 1] ** 2, axis=-1)
    assert np.abs(squared / squared[:, :1] - 1.0).max() <= 1e-15
    along = np.sum(ends[:, :, 0] * ends[:, :, 1], axis=-1) / 9.81
    assert np.abs(along - along[:, :1]).max() <= 2e-13
    if inertia[0] == inertia[2]:
        np.testing.assert_array_equal(ends[:, :, 0, 1], ends[:, :1, 0, 1] + np.zeros((8, 101)))


@pytest.mark.slow
def test_split_steps_on_the_spinning_top():
    """It turns by 0.4 rad in each; found 7.5e-4 beside 4.3e-3, 3.5e-8 beside 4.0e-4 and 1.9e-4."""
    exact = np.array(PAPER["exact"][0]["y"], dtype=float)
    found = {
        name: np.linalg.norm(integrated(SPINNING, integrators.get(name), 1 / 400, 1.0)[-1] - exact)
        for name in ("splitting", "splitting+blanes_moan6", SLGI, "rkmk4", "cf4")
    }
    assert found["splitting"] < 0.2 * found[SLGI]
    assert found["splitting+blanes_moan6"] < 3e-4 * min(found["rkmk4"], found["cf4"])


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "key", "message"),
    [
        ({"formulation": "body"}, "formulation", "unknown formulation 'body'. Valid: cotangent,"),
        ({"inertia": "print"}, "inertia", "unknown inertia 'print'. Did you mean 'printed'?"),
        ({"inertia": [1.0, 2.0]}, "inertia", "inertia has 2 values; expected 3"),
        ({"inertia": [1.0, 2.0, 0.0]}, "inertia", "inertia = 0.0; expected a number > 0"),
        ({"inertia": 3.0}, "inertia", "expected 'printed', 'fixed_point' or three moments"),
        ({"inertia": [1.0, 2.0, 4.0]}, "inertia", "4 > 1 + 2, and no body has such principal"),
        ({"inertia": [3.5, 1.0, 2.0]}, "inertia", "= (3.5, 1.0, 2.0): 3.5 > 1 + 2, and no body"),
        ({"length": 0.0}, "length", "length = 0.0; expected a number > 0"),
        ({"gravity": "down"}, "gravity", "gravity = 'down'; expected a number"),
    ],
)
def test_parameters_that_are_refused(parameters, key, message):
    with pytest.raises(InputError) as caught:
        systems.get("heavy_top", **parameters)
    assert message in str(caught.value) and caught.value.key == key


def test_gravity_in_the_body_is_as_long_as_the_parameters_say():
    start = POISSON.start("celledoni")
    half = start * [[1.0], [0.5]]
    with pytest.raises(InputError, match="has the length 4.905; expected 9.81, the gravity, since"):
        POISSON.check_state(half)
    np.testing.assert_allclose(POISSON.normalized(half), start, rtol=1e-15)
    systems.get("heavy_top", formulation="lie_poisson", gravity=-4.905).check_state(half)
    weightless = systems.get("heavy_top", formulation="lie_poisson", gravity=0.0)
    with pytest.raises(InputError, match="expected 0, the gravity"):
        weightless.check_state(half)
    np.testing.assert_array_equal(weightless.normalized(half)[1], np.zeros(3))
    with pytest.raises(InputError, match="has the length 0; expected 9.81"):
        POISSON.check_state(POISSON.normalized(start * [[1.0], [0.0]]))


def test_the_printed_moments_are_those_of_a_disc():
    """Two of them add up to the third, to the last bit; digits of such may be rounded."""
    assert SPINNING.moments[0] + SPINNING.moments[2] == SPINNING.moments[1]
    assert "no moment across X is less than Mℓ² = 60" in SPINNING.remarks[0]
    assert systems.get("heavy_top", inertia="fixed_point").remarks == ()
    systems.get("heavy_top", inertia=(0.1, 0.2, 0.3))
    systems.get("heavy_top", inertia=(0.7, 0.1, 0.6))


def test_options_that_are_refused():
    with pytest.raises(InputError, match="theta = 1.5; expected at most 1"):
        integrators.get(SLGI, theta=1.5)
    with pytest.raises(InputError, match="theta = -0.5; expected a number ≥ 0"):
        integrators.get(SLGI, theta=-0.5)
    with pytest.raises(InputError, match="with theta = 0.3 cannot be composed by 'suzuki4': it is"):
        integrators.get(f"{SLGI}+suzuki4", theta=0.3)
    assert integrators.get(f"{SLGI}+suzuki4", theta=0.5).order == 4
    with pytest.raises(InputError, match="needs the form CotangentHamiltonian, which 'heavy_top'"):
        integrators.get(SLGI).check(POISSON)
    with pytest.raises(InputError, match="needs the form SplitFlow, which 'heavy_top' with form"):
        integrators.get("splitting").check(QUADRATIC)


def test_forms_that_are_refused():
    form = form_of(SPINNING)
    with pytest.raises(InputError, match="unknown group 'SE.3.'. Did you mean 'SO.3.'?"):
        CotangentHamiltonian("SE(3)", form.hamiltonian, form.derivatives)
    with pytest.raises(InputError, match="derivatives is <kernel .*expected a function decorated"):
        CotangentHamiltonian("SO(3)", form.hamiltonian, form.hamiltonian)
    with pytest.raises(InputError, match="hamiltonian is 3; expected a function decorated by @ker"):
        CotangentHamiltonian("SO(3)", 3, form.derivatives)
    with pytest.raises(InputError, match="parameters = .*; expected a list of finite numbers"):
        CotangentHamiltonian("SO(3)", form.hamiltonian, form.derivatives, [1.0, np.nan])
    form = form_of(POISSON)
    with pytest.raises(InputError, match="gradient is <kernel .*expected a function decorated"):
        LiePoissonHamiltonian(form.hamiltonian, form.hamiltonian)
    with pytest.raises(InputError, match="parameters = .*; expected a list of finite numbers"):
        LiePoissonHamiltonian(form.hamiltonian, form.gradient, [[1.0]])
