"""Fixed steps, as many as an adaptive integrator takes: `steps_of`."""

import numpy as np
import pytest

import integrators
import systems
from integrators import InputError, status
from integrators.stepping.adaptive import run_adaptive

CHAIN = systems.get("spherical_pendulum_chain", gravity=-9.81)
START = CHAIN.start("celledoni_spatial")


def run(name, samples=1, start=START, tolerance=1e-6, **options):
    return integrators.integrate(
        CHAIN, integrators.get(name, **options), start, duration=1.0, samples=samples,
        tolerance=tolerance,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rkmk5", {"steps_of": "rkmk54"}),
        ("rk4", {"steps_of": "rk45", "formulation": "q_qdot"}),
        ("variational+suzuki4", {"steps_of": "cf43"}),
        ("cf32a+fixed", {"steps_of": "dop853"}),
    ],
    ids=str,
)
def test_it_is_the_fixed_step_that_divides_the_duration_so(name, options):
    counted = run(options["steps_of"]).counters["steps"]
    found = run(name, **options)
    own = {key: value for key, value in options.items() if key != "steps_of"}
    fixed = integrators.integrate(
        CHAIN, integrators.get(name, **own), START, duration=1.0, samples=1,
        step_size=1.0 / counted,
    )  # fmt: skip
    np.testing.assert_allclose(found.states, fixed.states, rtol=1e-15, atol=1e-15)
    for key, value in fixed.counters.items():
        np.testing.assert_array_equal(found.counters[key], value, err_msg=key)


def test_samples_within_steps_are_a_short_step_away():
    """Of a method of order 5, as exact as the steps; at steps' ends, the steps themselves."""
    steps = run("rkmk54").counters["steps"]
    known = run("dop853", samples=2 * steps, tolerance=2.3e-14)
    found = run("rkmk5", samples=2 * steps, steps_of="rkmk54")
    fixed = integrators.integrate(
        CHAIN, integrators.get("rkmk5"), START, duration=1.0, samples=steps, step_size=1.0 / steps
    )
    np.testing.assert_array_equal(found.states[::2], fixed.states)
    ends, between = (np.abs(found.states - known.states)[first::2].max() for first in (0, 1))
    assert 1e-9 < between < 1.2 * ends
    assert found.counters["steps"] == steps
    assert found.counters["evaluations"] == 6 * (steps + steps)


def test_statistics_are_of_the_steps():
    problem = integrators.get("rkmk5", steps_of="rkmk54").bind(CHAIN)
    times = np.linspace(0.0, 1.0, 3 * 40 + 1)
    found = run_adaptive(problem, START[None], times, 1e-6, statistics=True)
    assert found.counters["steps"][0] == 40
    kept = found.statistics[0, :, 0, status.MEAN]
    np.testing.assert_array_equal(np.isfinite(kept), np.arange(1, 121) % 3 == 0)
    assert np.all(found.step_sizes == 1.0 / 40)


def test_members_have_steps_of_their_own():
    starts = np.stack([START, CHAIN.start("celledoni")])
    together = run("rkmk5", samples=3, start=starts, steps_of="rkmk54")
    assert len(set(together.counters["steps"].tolist())) == 2
    for i, start in enumerate(starts):
        alone = run("rkmk5", samples=3, start=start, steps_of="rkmk54")
        np.testing.assert_array_equal(together.states[i], alone.states)


def test_where_the_steps_cannot_be_counted_the_run_fails_alike():
    system = systems.get("nbody_sphere", count=2)  # two at rest, which collide
    q = [[0.0, 0.0, 1.0], [np.sin(0.3), 0.0, np.cos(0.3)]]
    found = integrators.integrate(
        system, integrators.get("rk4", steps_of="rk45"), [*q, *np.zeros((2, 3))],
        duration=1.0, samples=4, tolerance=1e-6,
    )  # fmt: skip
    assert status.STATUS[found.status] == "step_too_small"
    assert found.counters["stop_step"] == found.counters["stop_time"] == 0
    assert np.isnan(found.states[1:]).all() and np.isfinite(found.states[0]).all()


def test_a_run_that_fails_on_its_way_says_where():
    """Two bodies that pass each other closely, in a few steps: they are too long there."""
    system = systems.get("nbody_sphere", count=2)
    c, s = np.cos(0.3), np.sin(0.3)
    found = integrators.integrate(
        system, integrators.get("variational", steps_of="dop853"),
        [[0.0, 0.0, 1.0], [s, 0.0, c], [0.0, 0.0, 0.0], [0.1 * c, 0.0, -0.1 * s]],
        duration=1.0, samples=50, tolerance=0.2,
    )  # fmt: skip
    assert status.STATUS[found.status] == "left_domain"
    assert found.counters["steps"] == found.counters["stop_step"] == 3
    assert found.counters["stop_time"] == pytest.approx(3 / 21)
    there = np.isfinite(found.states).all(axis=(1, 2))
    np.testing.assert_array_equal(there, found.times <= found.counters["stop_time"])


@pytest.mark.parametrize(
    ("name", "steps_of", "message"),
    [
        ("rkmk5", "rkmk45", "unknown adaptive integrator 'rkmk45'. Did you mean 'rkmk54'"),
        ("rkmk5", "rk4", "steps_of = 'rk4', which has a fixed step; expected an adaptive"),
        ("rkmk5", "rkmk54+fixed", "steps_of = 'rkmk54+fixed', which has a fixed step"),
        ("rkmk5", 54, "steps_of = 54; expected the name of an adaptive integrator"),
        ("rkmk54", "rk45", "'rkmk54' is adaptive and chooses its own steps"),
    ],
    ids=str,
)
def test_what_is_refused(name, steps_of, message):
    with pytest.raises(InputError) as caught:
        integrators.get(name, steps_of=steps_of)
    assert message in str(caught.value)


def test_it_takes_a_tolerance_and_no_step_size():
    method = integrators.get("rkmk5", steps_of="rkmk54")
    assert method.adaptive and method.label == "rkmk5 (steps of rkmk54)"
    assert (
        method.options["steps_of"] == "rkmk54" and "steps_of" not in integrators.get("rk4").options
    )
    for sizes in ({"step_size": 0.1}, {"step_size": 0.1, "tolerance": 1e-6}, {}):
        with pytest.raises(InputError, match="takes a tolerance and no step_size: it has as many"):
            integrators.integrate(CHAIN, method, START, duration=1.0, samples=1, **sizes)
    with pytest.raises(InputError, match="'tolerance' is no option of 'rkmk5'"):
        integrators.get("rkmk5", steps_of="rkmk54", tolerance=1e-6)
    with pytest.raises(InputError, match="unknown option 'steps_off' of rkmk5. Did you mean"):
        integrators.get("rkmk5", steps_off="rkmk54")


def test_the_counted_integrator_has_to_fit():
    with pytest.raises(InputError, match="'rkmk54' needs the form HomogeneousFlow"):
        integrators.get("nambu_midpoint", steps_of="rkmk54").bind(systems.get("nambu_quadratic"))
