"""Integrators keep what they declare to keep, to round-off, over long runs."""

import numpy as np
import pytest
from sizes import natural_size

import integrators
import systems
from integrators import status
from integrators.forms.forms import split_state
from integrators.stepping.formulations import to_lagrangian_states

STEPS, SAMPLES = 20_000, 200
LEFT_BY_SOLVES = 2.0**-61  # in a step: a fixed-point iteration stops near round-off, always short
EPSILON = np.finfo(float).eps

# Largest error over the run, by kind or name, in units of ε and the quantity's natural size.
# Measured: 2, 1 and 3. A plain sum of 20,000 roundings would drift by some hundred.
BOUNDS = {"unit_length": 4, "tangency": 4, "momentum_map": 10, "energy": 10, "casimir": 10}
BOUNDS |= {"orthogonality": 4}


def test_long_runs_keep_what_is_promised(promise):
    pairing, case = promise.pairing, promise.pairing.case
    step = case.lasting / STEPS
    batch = pairing.batch(
        [case.state], steps=STEPS // SAMPLES, samples=SAMPLES, step=step, statistics=False
    )
    assert batch.report[0, status.STATUS_ROW] == status.COMPLETE
    for quantity in promise.quantities:
        assert_kept(quantity, pairing, batch.states[0])


def assert_kept(quantity, pairing, states):
    """The quantity is that of the first state, or 0, within its bound."""
    case = pairing.case
    if quantity.kind == "constraint":  # of the state in the integrator's own formulation
        found = errors = case.evaluate(quantity.function, states)
    else:
        found = case.evaluate(quantity.function, to_lagrangian_states(pairing.problem, states))
        errors = np.abs(found - found[0])[:, quantity.columns]
    assert found.shape[0] == SAMPLES + 1
    size = max(natural_size(quantity, case, state) for state in states[::20])
    bound = BOUNDS.get(quantity.name, BOUNDS.get(quantity.kind))
    left = LEFT_BY_SOLVES * STEPS if pairing.problem.solves and not case.mechanical else 0.0
    assert errors.max() <= (bound * EPSILON + left) * size, quantity.name


@pytest.mark.parametrize(("count", "saved"), [(2, 0.0), (3, 0.5)])
def test_a_loose_solver_saves_iterations_and_costs_length(count, saved):
    system = systems.get("spherical_pendulum_chain", count=count)
    start = system.start("lee") if count == 2 else system.ensemble(1, seed=5)[0]
    runs = [
        integrators.integrate(
            system, integrators.get("variational", solver_tolerance=tolerance), start,
            step_size=0.01, duration=10.0, samples=100,
        )
        for tolerance in (0.0, 1e-6)
    ]  # fmt: skip
    tight, loose = (np.abs(np.sum(run.states[:, :count] ** 2, axis=2) - 1.0).max() for run in runs)
    assert tight <= 4 * EPSILON < 1e-9 < loose < 2e-6
    # Newton's method: the last iteration leads from less than 1e-6 to round-off. A series is one.
    assert runs[1].counters["iterations_mean"] < runs[0].counters["iterations_mean"] - saved


def test_reversed_velocities_lead_back(reversible_pairing):
    case = reversible_pairing.case
    forth = reversible_pairing.end(case.state, steps=100)
    assert np.abs(forth - case.state).max() > 0.1
    back = flipped(reversible_pairing.end(flipped(forth), steps=100))
    assert back == pytest.approx(case.state, abs=2e-13)


def flipped(state):
    """The state with its velocities reversed."""
    q, omega, _ = split_state(state)
    return np.concatenate([q, -omega])


def test_negative_steps_lead_back(symmetric_pairing):
    """With a force and with explicit time too: the adjoint of a step is the step itself."""
    case = symmetric_pairing.case
    h, steps = 0.01 * case.time_scale, 100
    forth = advanced(symmetric_pairing.problem, case.state, 0.0, h, steps)
    assert np.abs(forth - case.state).max() > 0.1
    back = advanced(symmetric_pairing.problem, forth, steps * h, -h, steps)
    assert back == pytest.approx(case.state, abs=2e-13)


def advanced(problem, state, t0, h, steps):
    """The state after so many steps of h, which may be negative, from time t0."""
    y, report = state.copy(), np.zeros(status.REPORT_SIZE)
    advance, *functions, _ = problem.kernels(problem.elements[0])
    advance(
        *functions, t0, h, 0, steps, problem.constants, problem.options,
        y, np.zeros(problem.memory), problem.parameters, np.zeros(problem.work), report,
    )  # fmt: skip
    assert report[status.STATUS_ROW] == status.COMPLETE
    return y
