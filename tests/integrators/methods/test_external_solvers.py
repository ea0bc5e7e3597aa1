"""Solvers of others: what these compute, whatever interrupts a run, and why one failed."""

import sys

import numpy as np
import pytest
from scipy.integrate import RK23, solve_ivp

import integrators
import systems
from integrators.errors import InputError
from integrators.methods.external import scipy_solvers
from integrators.python_methods import field_function
from integrators.status import NOT_FINITE
from integrators.stepping.adaptive import run_adaptive
from integrators.stepping.python_step import collecting_errors

SYSTEM = systems.get("heisenberg_chain", count=4)
(START,) = SYSTEM.ensemble(1, 5)
TIMES = np.linspace(0.0, 20.0, 21)
SOLVERS = ("LSODA", "Radau", "BDF")


def bound_to(name, system=SYSTEM):
    return integrators.get(f"scipy_{name.lower()}").bind(system)


@pytest.mark.parametrize("name", SOLVERS)
def test_states_steps_and_evaluations_are_scipys(name):
    field = field_function(SYSTEM.form.vector_field())
    calls = []

    def flat(t, y):
        calls.append(t)
        return field(t, y.reshape(4, 3)).ravel()

    given = {"rtol": 1e-5, "atol": 1e-5}
    if name == "LSODA":
        given["first_step"] = RK23(flat, 0.0, START.ravel(), np.inf, **given).h_abs
    known = solve_ivp(flat, (0.0, TIMES[-1]), START.ravel(), name, TIMES[:-1], **given)
    run = run_adaptive(bound_to(name), START[None], TIMES[:-1], 1e-5)
    np.testing.assert_allclose(run.states[0].reshape(20, 12), known.y.T, rtol=0, atol=1e-15)
    # SciPy's run is longer, by an interval; its `nfev` lacks what Jacobians need.
    assert 0.8 * len(calls) < run.counters["evaluations"][0] <= len(calls)


@pytest.mark.parametrize("statistics", [0, 1])
@pytest.mark.parametrize("name", ["heyoka_taylor", *(f"scipy_{n.lower()}" for n in SOLVERS)])
def test_another_process_goes_on_where_it_stood(name, statistics, monkeypatch):
    """Within the steps of one solver, and where it is begun anew."""
    if name == "heyoka_taylor":
        pytest.importorskip("heyoka")
    monkeypatch.setattr(scipy_solvers, "ANEW", 10)

    def run(times, **given):
        problem = integrators.get(name).bind(SYSTEM)
        return run_adaptive(problem, START[None], times, 1e-5, statistics, **given)

    times = TIMES[:6]
    whole = run(times)
    assert whole.counters["steps"][0] > 25
    states, first, checkpoints = [whole.states[:, :1]], 0, None
    while first < 5:
        part = run(times[first:], checkpoints=checkpoints, most=5)
        checkpoints, first = part.checkpoints, first + part.states.shape[1] - 1
        states.append(part.states[:, 1:])
    np.testing.assert_array_equal(np.concatenate(states, axis=1), whole.states)
    np.testing.assert_array_equal(checkpoints, whole.checkpoints)
    for key, values in whole.counters.items():
        np.testing.assert_array_equal(part.counters[key], values)


def test_what_a_solver_says_of_a_failure_is_kept():
    """Of two bodies that fall into each other."""
    system = systems.get("nbody_sphere", count=2)
    start = np.zeros((4, 3))
    start[:2] = [0.0, 0.0, 1.0], [np.sin(0.3), 0.0, np.cos(0.3)]
    with collecting_errors() as errors:
        run = run_adaptive(bound_to("BDF", system), start[None], [0.0, 1.0], 1e-2)
    assert run.report[0, 0] == NOT_FINITE and np.isnan(run.states[0, -1]).all()
    (said,) = errors.items()
    assert said[0] == "scipy_bdf" and "array must not contain infs or NaNs" in said[1]


def test_heyoka_is_asked_for_where_it_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "heyoka", None)
    with pytest.raises(InputError, match=r"needs the package heyoka.*'geosweep\[heyoka\]'"):
        integrators.get("heyoka_taylor").bind(SYSTEM)


def test_a_field_that_series_cannot_follow_is_refused():
    pytest.importorskip("heyoka")
    with pytest.raises(InputError, match="at most 128 rows.* unlike 'lennard_jones_sphere'"):
        integrators.get("heyoka_taylor").bind(systems.get("lennard_jones_sphere"))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("forced_rigid_body", {}),
        ("forced_rigid_body", {"inertia": [1.0, 2.0, 2.5]}),  # by the same series
        ("spring_pendula", {"edges": [[0, 1]], "stiffness": 20.0}),  # whose edges are known
    ],
)
def test_series_are_those_of_the_system(name, parameters):
    pytest.importorskip("heyoka")
    system = systems.get(name, **parameters)
    (start,) = system.ensemble(1, 5)
    series, known = (
        integrators.integrate(
            system, integrators.get(own), start, duration=1.0, samples=3, tolerance=1e-10
        ).states
        for own in ("heyoka_taylor", "dop853")
    )
    np.testing.assert_allclose(series, known, rtol=0, atol=1e-8)


def test_a_step_at_an_equilibrium_is_bounded():
    pytest.importorskip("heyoka")
    start = [[0.0, 0.0, 1.0]] * 4
    run = integrators.integrate(
        SYSTEM, integrators.get("heyoka_taylor"), start, duration=3000.0, samples=3, tolerance=1e-5
    )
    assert run.status == 0 and run.counters["steps"] == 3
    np.testing.assert_array_equal(run.states, [start] * 4)
