"""A run that fails is a result: its status, where it stopped, NaN from there."""

import numpy as np
import pytest
from cases import covers, kernel_pairings, parameters

import integrators
import systems
from integrators import status as status_of
from integrators.forms.cotangent import CotangentHamiltonian
from integrators.methods import dormand_prince
from integrators.stepping.batch import run_batch


def run(name, system, start, step_size, samples=20, **options):
    return integrators.integrate(
        system, integrators.get(name, **options), start,
        step_size=step_size, duration=step_size * samples, samples=samples,
    )  # fmt: skip


def assert_stopped(result, status):
    """The status, and a trajectory that is whole before the stop and gone after it."""
    assert status_of.STATUS[result.status] == status
    stop = result.counters["stop_step"]
    assert 0 < stop == result.counters["steps"] < len(result.times) - 1
    assert np.all(np.isfinite(result.states[: stop + 1]))
    assert np.all(np.isnan(result.states[stop + 1 :]))


def test_a_coarse_explicit_step_leaves_the_domain():
    system = systems.get("nbody_sphere")
    result = run("variational", system, system.start("lee"), 0.5)
    assert_stopped(result, "left_domain")
    before = result.states[result.counters["stop_step"]]
    assert result.counters["stop_residual"] > 1.0  # |h ω|² after the kick, (3.17)
    assert np.all(np.abs(np.sum(before[:3] ** 2, axis=1) - 1.0) < 1e-15)


def test_a_coarse_implicit_step_does_not_converge():
    system = systems.get("spherical_pendulum_chain")
    result = run("variational", system, system.ensemble(1, seed=4)[0], 0.3)
    assert_stopped(result, "not_converged")
    assert not result.counters["stop_residual"] <= 1e-12


def test_runge_kutta_blows_up():
    system = systems.get("nbody_sphere")
    result = run("rk4", system, system.start("lee"), 0.5)
    assert_stopped(result, "not_finite")


def test_a_start_that_is_not_finite_stops_at_once(with_new_kernels):
    state = with_new_kernels.case.state.copy()
    state[0, 1] = np.inf
    batch = with_new_kernels.batch([state], steps=1, samples=3)
    status, stop = batch.report[0, [status_of.STATUS_ROW, status_of.STOP_STEP]]
    assert status != status_of.COMPLETE and stop == 0
    assert np.all(np.isnan(batch.states[0, 1:]))


def test_one_body_that_leaves_its_domain_takes_the_whole_state_along():
    """A state of which one body is NaN and another is not would be no state."""
    system = systems.get("nbody_sphere")
    problem = integrators.get("variational").bind(system)
    start = system.start("lee")
    start[4] *= 30.0  # the second body alone is too fast for the step
    batch = run_batch(problem, start[None], 0.1, 1, 2)
    assert batch.report[0, status_of.STATUS_ROW] == status_of.LEFT_DOMAIN
    assert np.all(np.isnan(batch.states[0, 1:]))


def test_a_complete_run_reports_no_stop():
    system = systems.get("spherical_pendulum_chain")
    result = run("variational", system, system.start("lee"), 0.01, samples=100)
    assert status_of.STATUS[result.status] == "complete"
    assert result.counters["steps"] == 100 and result.counters["stop_step"] == -1
    assert np.isnan(result.counters["stop_residual"])
    assert result.counters["iterations_mean"] == result.counters["iterations_max"] == 1


def test_newtons_iterations_of_more_bodies_are_counted():
    system = systems.get("spherical_pendulum_chain", count=3)
    result = run("variational", system, system.ensemble(1, seed=1)[0], 0.01, samples=100)
    assert 1.0 < result.counters["iterations_mean"] <= 2.0
    assert 3 <= result.counters["iterations_max"] <= 4


def test_the_reference_reports_a_state_without_a_vector_field(monkeypatch):
    slope_of = dormand_prince._slope

    def impatient(system):
        slope, patience = slope_of(system), iter(range(10_000))

        def counted(t, y):
            next(patience)  # StopIteration instead of an endless run
            return slope(t, y)

        return counted

    monkeypatch.setattr(dormand_prince, "_slope", impatient)
    system = systems.get("nbody_sphere", count=2)
    together = np.array([[0, 0, 1], [0, 0, 1], [1, 0, 0], [1, 0, 0]], dtype=float)
    states, status, _ = dormand_prince.solve(system, together, np.linspace(0.0, 1.0, 3), 1e-9)
    assert status_of.STATUS[status] == "not_finite"
    assert np.all(np.isnan(states[1:]))


# Mean and most iterations of a solve, by Newton's method and by evaluating a fixed point's map.
# Without an extrapolated start there would be three and more, or seven and more. The map of a
# body that turns fast about w itself contracts slowly, though w hardly moves; a quaternion over w
# does move then. On T*G the first solve takes a Jacobian by differences, an evaluation for each
# unknown.
NEWTON, FIXED_POINT, LIFTED, BROYDEN = (2.5, 4), (7.5, 12), (11, 12), (4.5, 4)


@pytest.mark.parametrize(
    "implicit", parameters([p for p in kernel_pairings() if p.problem.solves], covers)
)
def test_solver_iterations_are_few_and_counted(implicit):
    batch = implicit.batch([implicit.case.state], steps=200, samples=1, step=0.005)
    solves = 200 * implicit.problem.solves
    form = implicit.case.system.form
    mean, most = NEWTON if implicit.case.mechanical else FIXED_POINT
    if implicit.integrator.family == "hopf_lift":
        mean, most = LIFTED
    if isinstance(form, CotangentHamiltonian):
        mean, most = BROYDEN[0], BROYDEN[1] + 3 * form.algebra_rows
    assert 1.0 <= batch.report[0, status_of.ITERATIONS] / solves < mean
    assert batch.report[0, status_of.ITERATIONS_MAX] <= most
