"""Forces in the variational integrator: energy balance, decay, and steps without a solution."""

from dataclasses import replace

import numpy as np
import pytest
from cases import is_usual, pairings, parameters

import integrators
import systems
from integrators import InputError, status
from integrators.forms.forms import split_state, velocities
from integrators.stepping.batch import run_batch, steps_per_interval

BALANCE = 0  # of the quantities whose statistics are kept


def batch_of(system, name, members, step_size, duration, samples=1):
    """A batch with its statistics."""
    problem = replace(integrators.get(name).bind(system), inlined=False)
    steps = steps_per_interval(step_size, duration / samples)
    members = system.form.completed(np.reshape(members, (-1, 2 * system.bodies, 3)))
    return run_batch(problem, members, step_size, steps, samples, statistics=True)


def balance_errors(system, name, state, step_size, duration, samples):
    """Mean and largest |E − W − E₀| of each interval, shape (samples,)."""
    batch = batch_of(system, name, state, step_size, duration, samples)
    assert batch.report[0, status.STATUS_ROW] == status.COMPLETE
    statistics = batch.statistics[0, :, BALANCE]
    return statistics[:, status.MEAN], statistics[:, status.ABS_MAX]


def chain(**parameters):
    return systems.get("forced_pendulum_chain", **parameters)


def start_of(system):
    """The first start's q and ω."""
    return system.start(system.starts[0])[: 2 * system.bodies]


@pytest.mark.parametrize(
    ("name", "order"),
    [("variational", 2), ("variational+triple_jump4", 4), ("variational+suzuki4", 4)],
)
def test_the_balance_has_the_methods_order(name, order):
    system = chain()
    largest = [
        balance_errors(system, name, start_of(system), h, 10.0, 1)[1].max()
        for h in (0.05, 0.025, 0.0125)
    ]
    assert np.log2(largest[0] / largest[1]) > order - 0.15
    assert np.log2(largest[1] / largest[2]) == pytest.approx(order, abs=0.15)


def test_the_reference_keeps_the_balance():
    system = chain(amplitude=0.4, damping=(0.2, 0.1))
    run = integrators.integrate(
        system, integrators.get("dop853"), start_of(system),
        duration=20.0, samples=20, tolerance=2.3e-14,
    )  # fmt: skip
    balance = np.array([energy_of(system, state) - state[-1, 0] for state in run.states])
    assert np.abs(run.states[:, -1, 0]).max() > 0.5
    assert np.abs(balance - balance[0]).max() <= 1e-12


def energy_of(system, state):
    """½ Σ M_ij q̇_i·q̇_j − Σ_i w_i e3·q_i of a chain."""
    q, v, _ = split_state(velocities(state))
    weights = system.form.parameters[: system.bodies]
    return 0.5 * np.sum(system.form.inertia_matrix * (v @ v.T)) - weights @ q[:, 2]


def test_damping_makes_energy_fall_and_the_balance_settle():
    system = chain(amplitude=0.0, damping=0.1)
    batch = batch_of(system, "variational", start_of(system), 0.025, 300.0, samples=300)
    states = batch.states[0]
    energy = np.array([energy_of(system, state) for state in states])
    assert np.all(np.diff(energy) < 0) and np.all(np.diff(states[:, -1, 0]) < 0)
    assert energy[-1] == pytest.approx(-3.0, abs=1e-5)  # that of rest
    means = batch.statistics[0, :, BALANCE, status.MEAN]
    largest = batch.statistics[0, :, BALANCE, status.ABS_MAX].max()
    assert np.ptp(means[200:]) < 1e-3 * largest < 1e-6


@pytest.mark.slow
def test_a_weakly_damped_pendulum_decays_at_the_exact_rate():
    """E(t) = E(0) exp(−c t/(m l²)) over 10,000 steps; E ∝ ω² + |q − e3|² as g = l."""
    system = chain(count=1, mass=2.0, length=0.5, damping=5e-4, amplitude=0.0, gravity=0.5)
    rate = 5e-4 / (2.0 * 0.5**2)
    start = np.array([[np.sin(0.02), 0.0, np.cos(0.02)], [0.0, 0.0, 0.0]])
    found = {}
    for name in ("variational", "rk2_midpoint", "rk2_heun"):
        states = batch_of(system, name, start, 0.1, 1000.0, samples=1000).states[0]
        q, omega, _ = split_state(states)
        energy = np.sum(omega**2, axis=(1, 2)) + np.sum((q - [0.0, 0.0, 1.0]) ** 2, axis=(1, 2))
        found[name] = -np.polyfit(np.linspace(0.0, 1000.0, 1001), np.log(energy), 1)[0] / rate
    assert found["variational"] == pytest.approx(1.0, abs=2e-5)
    for name in ("rk2_midpoint", "rk2_heun"):  # they feed in a quarter of what friction takes
        assert found[name] == pytest.approx(0.755, abs=0.01)


@pytest.mark.slow
def test_small_driven_oscillations_keep_the_balance_without_drift():
    """Of a linear system the modified energy gains just the discrete work in every step."""
    system = chain(count=1, amplitude=1e-3, damping=0.05, frequency=0.9)
    rest = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    means, largest = balance_errors(system, "variational", rest, 0.1, 4000.0, samples=200)
    assert abs(means[150:].mean() - means[50:100].mean()) < 2e-3 * largest.max()
    assert largest.max() == pytest.approx(7.13e-8, rel=0.01)


@pytest.mark.slow
def test_large_driven_oscillations_let_the_balance_drift_with_the_square_of_the_step():
    system = chain(count=1, amplitude=0.5, damping=0.1, frequency=0.8)
    start = np.array([[0.6, 0.0, 0.8], [0.0, 0.5, 0.0]])
    late = [
        balance_errors(system, "variational", start, h, 500.0, samples=10)[0][-1]
        for h in (0.05, 0.025)
    ]
    assert late[0] > 5e-3
    assert late[0] / late[1] == pytest.approx(4.0, abs=0.2)


def free_pairings():
    """Those of the free chain that meet the forced one of as many links too."""
    free, forced = (
        [p for p in pairings() if p.case.system.name == name]
        for name in ("spherical_pendulum_chain", "forced_pendulum_chain")
    )
    met = {(p.name, p.options, p.case.system.count) for p in forced}
    return [p for p in free if (p.name, p.options, p.case.system.count) in met]


@pytest.mark.parametrize("free_pairing", parameters(free_pairings(), is_usual))
def test_nothing_acting_is_the_free_chain_to_the_last_bit(free_pairing):
    pairing, free = free_pairing, free_pairing.case.system
    idle = chain(**free.parameters | {"damping": 0.0}, amplitude=0.0)
    expected = pairing.batch([pairing.case.state])
    problem = pairing.integrator.bind(idle)
    state = idle.form.completed(pairing.case.state)
    found = run_batch(problem, state[None], 0.01 * pairing.case.time_scale, 3, 2)
    np.testing.assert_array_equal(found.states[:, :, :-1], expected.states)
    assert not np.any(found.states[:, :, -1])


def test_too_much_damping_for_the_step_is_not_converged():
    """The iteration contracts by (h/2) |M⁻¹ c|: about 1.6 here, and 0.03 at a smaller step."""
    system = chain(damping=25.0)
    batch = batch_of(system, "variational", start_of(system), 0.05, 1.0, samples=20)
    report = batch.report[0]
    assert report[status.STATUS_ROW] == status.NOT_CONVERGED
    assert report[status.STOP_STEP] == 0 and report[status.STOP_RESIDUAL] > 1e-3
    assert np.all(np.isnan(batch.states[0, 1:]))
    fine = batch_of(system, "variational", start_of(system), 0.001, 1.0)
    assert fine.report[0, status.STATUS_ROW] == status.COMPLETE


@pytest.mark.slow
def test_lanes_of_which_some_do_not_converge_disturb_no_other():
    system = chain(damping=10.0)
    members = system.ensemble(8, seed=1)[:, :4]
    together = batch_of(system, "variational", members, 0.05, 2.0, samples=40)
    failed = together.report[:, status.STATUS_ROW] == status.NOT_CONVERGED
    assert 1 <= failed.sum() <= 7
    for m, member in enumerate(members):
        alone = batch_of(system, "variational", member, 0.05, 2.0, samples=40)
        for part in ("states", "statistics", "report"):
            np.testing.assert_array_equal(getattr(together, part)[m], getattr(alone, part)[0])


def test_evaluations_of_the_force_are_counted():
    evaluations = []
    for damping in (0.0, 0.1, 2.0):
        system = chain(damping=damping)
        run = integrators.integrate(
            system, integrators.get("variational"), system.start("lee"),
            step_size=0.01, duration=1.0, samples=1,
        )  # fmt: skip
        evaluations.append(run.counters["evaluations"])
    assert evaluations[0] <= 200 < evaluations[1] < evaluations[2] < 1500


def test_the_row_of_the_work_may_be_left_out():
    system, method = chain(), integrators.get("rk4")
    options = {"step_size": 0.01, "duration": 0.1, "samples": 1}
    whole = system.start("lee")
    assert whole.shape == (5, 3) and not np.any(whole[4])
    expected = integrators.integrate(system, method, whole, **options).states
    for state in (whole[:4], whole[None], whole[None, :4]):
        found = integrators.integrate(system, method, state, **options).states
        np.testing.assert_array_equal(np.reshape(found, expected.shape), expected)
    worked = whole.copy()
    worked[4, 0] = 1.5
    found = integrators.integrate(system, method, worked, **options).states
    np.testing.assert_allclose(found[-1, 4, 0], expected[-1, 4, 0] + 1.5, rtol=1e-14)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (np.zeros((6, 3)), r"expected \(5, 3\) or \(members, 5, 3\)"),
        (np.zeros((3, 3)), r"expected \(5, 3\) or \(members, 5, 3\)"),
        ([[0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 1, 0]], r"expected \(work, 0, 0\)"),
    ],
)
def test_other_rows_are_refused(state, message):
    with pytest.raises(InputError, match=message):
        integrators.integrate(
            chain(), integrators.get("rk4"), state, step_size=0.01, duration=0.1, samples=1
        )


def test_adaptive_integration_keeps_the_balance_to_its_tolerance():
    system = chain(amplitude=0.4)
    run = integrators.integrate(
        system, integrators.get("rk45", absolute_tolerance=1e-9),
        start_of(system), duration=10.0, samples=10, tolerance=1e-9,
    )  # fmt: skip
    balance = np.array([energy_of(system, state) - state[-1, 0] for state in run.states])
    assert np.abs(run.states[:, -1, 0]).max() > 0.1
    assert 1e-12 < np.abs(balance - balance[0]).max() < 1e-6
