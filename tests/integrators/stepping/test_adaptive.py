"""Adaptive integrators: errors follow the tolerance, and everything counted is right."""

import numpy as np
import pytest
from cases import AdaptivePairing, Case, adaptive_pairings, parameters, with_new

import integrators
import systems
from integrators import status
from integrators.compiler.elements import DOUBLE, aligned
from integrators.compiler.kernels import IS_COMPILED
from integrators.forms.forms import velocities
from integrators.methods import ode45
from integrators.precision import to_precise
from integrators.stepping import adaptive_loop, step_control
from integrators.stepping.adaptive import StepBound, run_adaptive
from integrators.stepping.formulations import to_lagrangian_states, to_stored_states

CHAIN, BODY = systems.get("spherical_pendulum_chain"), systems.get("free_rigid_body")
TOLERANCES = (1e-5, 1e-7, 1e-9)
SCIPY = ("scipy_lsoda", "scipy_radau", "scipy_bdf")
LONG = 5.0  # time scales: over fewer, no step may be as long as a loose tolerance allows


def test_errors_fall_with_the_tolerance(adaptive_pairing):
    """About in proportion: as its power 0.75 at least, over four orders of magnitude.

    Steps that remember others keep less well to it.
    """
    remembers = integrators.get(adaptive_pairing.name).family == "multistep"
    least, near = (0.55, 1e-5) if remembers else (0.75, 1e-6)
    case = adaptive_pairing.case
    exact = case.exact(LONG * case.time_scale)
    errors = []
    for tolerance in TOLERANCES:
        run = adaptive_pairing.run(tolerance, samples=3, scales=LONG)
        assert run.report[0, status.STATUS_ROW] == status.COMPLETE
        states = to_stored_states(adaptive_pairing.problem(tolerance), run.states)
        errors.append(np.linalg.norm(states[0, -1] - exact))
    assert errors[0] > errors[1] > errors[2]
    slope = np.log(errors[0] / errors[2]) / np.log(TOLERANCES[0] / TOLERANCES[2])
    assert least < slope < 1.6
    assert errors[2] < near * np.linalg.norm(exact)


@pytest.mark.parametrize(
    "interpolating",
    parameters([p for p in adaptive_pairings() if ("output", "dense") in p.options]),
)
def test_dense_output_agrees_with_landing(interpolating):
    """Between the steps the error is what it is at their ends."""
    options = tuple((k, "land" if k == "output" else v) for k, v in interpolating.options)
    landing = AdaptivePairing(interpolating.name, options, interpolating.case)
    apart = []
    for tolerance in TOLERANCES:
        dense, landed = (p.run(tolerance, 29, LONG).states for p in (interpolating, landing))
        apart.append(np.abs(dense - landed).max())
    slope = np.log(apart[0] / apart[2]) / np.log(TOLERANCES[0] / TOLERANCES[2])
    assert slope > 0.75 and apart[2] < 1e-5 * np.abs(landed).max()


@pytest.mark.parametrize("watched", parameters([p for p in adaptive_pairings() if p.interpolates]))
def test_observing_changes_no_step(watched):
    """Whatever the samples and statistics, to the last bit: the tolerance alone chooses steps."""
    problem, members, runs = watched.problem(1e-4), watched.case.state[None], []
    for samples, statistics in ((1, False), (8, True), (64, False)):
        times = watched.case.time_scale * np.arange(samples + 1) / samples
        run = run_adaptive(problem, members, times, 1e-4, statistics, history=True)
        runs.append(run)
        every = (run.states.shape[1] - 1) // (runs[0].states.shape[1] - 1)
        np.testing.assert_array_equal(run.states[:, ::every], runs[0].states)
        np.testing.assert_array_equal(run.histories[0], runs[0].histories[0])
        for key in ("steps", "rejected_steps"):
            assert run.counters[key] == runs[0].counters[key]
    np.testing.assert_array_equal(runs[1].states, runs[2].states[:, ::8])


def test_runs_repeat_and_do_not_depend_on_their_company(adaptive_pairing):
    members = adaptive_pairing.case.members(2, seed=5)
    together = adaptive_pairing.run(1e-5, members=members)
    for i, member in enumerate(members):
        alone = adaptive_pairing.run(1e-5, members=member[None])
        for part in ("states", "statistics", "report", "step_sizes"):
            np.testing.assert_array_equal(getattr(alone, part)[0], getattr(together, part)[i])


def of_each_choice():
    """Those with an integrator's choice of options that none before has, whatever the system."""
    return with_new(adaptive_pairings(), lambda pairing: {(pairing.name, pairing.options)})


@pytest.mark.parametrize("counted", parameters(of_each_choice()))
def test_steps_are_counted_and_cover_the_time(counted):
    dense = counted.interpolates
    samples = 2000 if dense else 300  # steps
    run = counted.run(1e-5, samples)
    sizes = run.step_sizes[0]
    interval = counted.case.time_scale / samples
    steps = run.counters["steps"][0]
    if dense:
        # A sample has its share of the step that covers it; of the first ones some have no sample.
        assert np.sum(interval / sizes[1:]) == pytest.approx(steps, abs=3.0)
    else:
        assert sizes.max() <= interval * (1 + 1e-9) and steps >= samples
    assert np.all(sizes > 0)
    attempts = run.counters["steps"] + run.counters["rejected_steps"]
    stages = integrators.get(counted.name).evaluations
    beside = run.counters["evaluations"] - stages * attempts
    if counted.name.startswith("cf"):  # after a rejection the first generator is known
        beside += run.counters["rejected_steps"]
        assert 0 <= beside[0] <= 3 * samples  # steps to samples
    elif counted.name == "dop853":  # a slope and a step to each sample, or two of these
        assert 2 <= beside[0] <= 1.1 * (stages + 2) * samples
    elif not stages:  # as many as its solver takes
        assert beside[0] >= attempts[0]
    else:
        assert 1 <= beside[0] <= 2 * samples + 2  # first slopes


def test_statistics_are_those_of_the_steps(adaptive_pairing):
    """Where every step ends at a sample, and one at each, they are the samples' errors."""
    run = adaptive_pairing.run(1e-3, samples=100)
    mean = run.statistics[0, :, :, status.MEAN]
    if adaptive_pairing.interpolates:
        assert np.isfinite(mean[:, 0]).sum() <= run.counters["steps"][0] < 100
        assert np.isnan(mean[:, 0]).any()
        return
    alone = np.all(run.statistics[0, :, :, status.MINIMUM] == mean, axis=1)
    assert alone.sum() > 90  # the first step is small
    case, problem = adaptive_pairing.case, adaptive_pairing.problem(1e-3)
    times = case.time_scale * np.arange(101) / 100
    energy = case.evaluate(case.followed, to_lagrangian_states(problem, run.states[0]), times)
    length = case.length_errors(run.states[0])
    expected = np.stack([energy[1:, 0] - energy[0, 0], length[1:]], axis=1)
    np.testing.assert_allclose(mean[alone], expected[alone], rtol=1e-9, atol=1e-13)
    for row, values in (
        (status.MINIMUM, mean), (status.MAXIMUM, mean),
        (status.ABS_MEAN, np.abs(mean)), (status.ABS_MAX, np.abs(mean)),
    ):  # fmt: skip
        np.testing.assert_array_equal(run.statistics[0, alone, :, row], values[alone])


# --- rk45 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("formulation", ["q_omega", "q_qdot"])
def test_local_orders_of_a_step_and_of_the_interpolant(formulation):
    """Of a first step: O(h⁶) at its end, O(h⁵) in its middle."""
    start, errors = CHAIN.start("lee"), []
    case = Case(CHAIN, start, "chain")
    state = start if formulation == "q_omega" else velocities(start)
    rate = np.abs(case.field(formulation, state)).max()
    for h in (0.04, 0.02):
        absolute = 1e-3 * h * rate / (0.8 * step_control.root(1e-3, 5))  # by which the first is h
        options = {"formulation": formulation, "absolute_tolerance": absolute}
        problem = integrators.get("rk45", **options).bind(CHAIN)
        run = run_adaptive(problem, start[None], h * np.arange(3) / 2, 1e-3)
        assert run.step_sizes[0, 0] == pytest.approx(h, rel=1e-9)
        exact = integrators.integrate(
            CHAIN, integrators.get("dop853"), start, duration=h, samples=2, tolerance=2.3e-14
        ).states
        known = exact if formulation == "q_omega" else velocities(exact)
        errors.append(np.linalg.norm(run.states[0] - known, axis=(1, 2))[1:])
    between, end = np.log2(errors[0] / errors[1])
    assert end == pytest.approx(6.0, abs=0.3)
    assert between == pytest.approx(5.0, abs=0.2)


# --- double-double ------------------------------------------------------------------------------

compiled = pytest.mark.skipif(not IS_COMPILED, reason="plain Python has float64 alone")
PRECISE = sorted({p.name for p in adaptive_pairings() if integrators.get(p.name).method.precise})
WAYS = [("rk45", BODY), *((name, CHAIN) for name in PRECISE)]
SPAN = 0.25
LIKE_CHAIN, LIKE_SPIN = "variational+kahan_li8", "spherical_midpoint+kahan_li8"


def in_double_double(name, system, tolerance=1e-6, duration=SPAN, samples=2, **options):
    """Trajectories from the first start."""
    method = integrators.get(name, arithmetic="double-double", **options)
    start = system.start(system.starts[0], arithmetic="double-double")
    return integrators.integrate(
        system, method, start, duration=duration, samples=samples, tolerance=tolerance, history=True
    )


def apart(one, other):
    """The largest difference of states in double-double."""
    return np.abs((one.states - other.states) + (one.states_low - other.states_low)).max()


@compiled
@pytest.mark.slow
@pytest.mark.parametrize(("name", "system"), WAYS, ids=str)
def test_steps_in_double_double_are_those_in_double(name, system):
    found = in_double_double(name, system)
    method, start = integrators.get(name), system.start(system.starts[0])
    plain = integrators.integrate(
        system, method, start, duration=SPAN, samples=2, tolerance=1e-6, history=True
    )
    np.testing.assert_array_equal(found.history.accepted, plain.history.accepted)
    np.testing.assert_allclose(found.history.sizes, plain.history.sizes, rtol=1e-6)
    np.testing.assert_allclose(found.states, plain.states, rtol=0, atol=1e-9)
    for key in ("steps", "rejected_steps", "evaluations"):
        assert found.counters[key] == plain.counters[key]
    assert found.states_low.any()


@compiled
@pytest.mark.slow
@pytest.mark.parametrize(("name", "system"), WAYS, ids=str)
def test_errors_fall_with_the_tolerance_below_round_off_of_doubles(name, system):
    method = integrators.get(
        LIKE_CHAIN if system is CHAIN else LIKE_SPIN, arithmetic="double-double"
    )
    start = system.start(system.starts[0], arithmetic="double-double")
    exact = integrators.integrate(
        system, method, start, duration=SPAN, samples=2, step_size=SPAN / 2048
    )
    low = 1e-15 if integrators.get(name).order < 4 else 1e-18
    errors = [
        apart(in_double_double(name, system, tolerance, SPAN), exact)
        for tolerance in (1e3 * low, low)
    ]
    assert errors[1] < 10 * low and errors[0] > 100 * errors[1]


@compiled
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "output", "system"),
    [("rk45", "dense", BODY), ("rk45", "dense", CHAIN), ("rkmk54", "land", CHAIN)],
    ids=str,
)
def test_runs_in_double_double_go_on_where_they_stood(name, output, system):
    problem = integrators.get(name, output=output, arithmetic="double-double").bind(system)
    members = system.start(system.starts[0], arithmetic="double-double")[None]
    times = np.arange(7) * (to_precise(0.3) / 6)
    whole = run_adaptive(problem, members, times, 1e-18, True)
    first = run_adaptive(problem, members, times[:3], 1e-18, True)
    assert first.checkpoints.shape == (1, problem.checkpoint_size)
    rest = run_adaptive(problem, members, times[2:], 1e-18, True, checkpoints=first.checkpoints)
    for key in ("states", "step_sizes", "rejected_so_far"):
        np.testing.assert_array_equal(getattr(rest, key)[:, 1:], getattr(whole, key)[:, 3:])
    np.testing.assert_array_equal(rest.statistics, whole.statistics[:, 2:])
    np.testing.assert_array_equal(rest.checkpoints, whole.checkpoints)


@compiled
@pytest.mark.slow
def test_a_tolerance_of_25_digits():
    """Over a time so short that it takes few steps: these are 14,000 in a unit of it."""
    system = BODY
    span, options = 2.0**-10, {"absolute_tolerance": 1e-25}
    tight = in_double_double("rk45", system, 1e-25, span, 1, **options)
    loose = in_double_double("rk45", system, 1e-22, span, 1, absolute_tolerance=1e-22)
    method = integrators.get(LIKE_SPIN, arithmetic="double-double")
    start = system.start(system.starts[0], arithmetic="double-double")
    exact = integrators.integrate(
        system, method, start, duration=span, samples=1, step_size=span / 256
    )
    assert apart(tight, exact) < 1e-25 and apart(loose, exact) < 1e-22
    assert tight.counters["steps"] > 2 * loose.counters["steps"]


# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rk45", "rkmk54", *SCIPY])
def test_steps_know_nothing_of_the_duration(name):
    """The first one at an equilibrium, which nothing bounds, neither."""
    for start in (CHAIN.start("lee"), [[0, 0, 1.0], [0, 0, 1.0], [0, 0, 0.0], [0, 0, 0.0]]):
        long, short = (
            integrators.integrate(
                CHAIN, integrators.get(name), start, duration=0.25 * n, samples=n, tolerance=1e-5,
                history=True,
            )
            for n in (40, 3)
        )  # fmt: skip
        np.testing.assert_array_equal(long.states[:4], short.states)
        count = len(short.history.times)
        np.testing.assert_array_equal(long.history.sizes[:count], short.history.sizes)
        assert (short.history.times + short.history.sizes)[-1] > 0.75


@pytest.mark.parametrize("name", ["rk45", "rkmk54", "dop853", "scipy_lsoda"])
def test_the_bound_on_steps_knows_nothing_of_the_duration(name):
    def bounded(samples, most):
        return integrators.integrate(
            CHAIN, integrators.get(name), CHAIN.start("lee"), duration=0.25 * samples,
            samples=samples, tolerance=1e-7, max_steps=most,
        )  # fmt: skip

    free = bounded(20, 10**7)
    assert free.status == 0
    most = int(free.counters["steps"])
    assert bounded(20, most).status == 0
    np.testing.assert_array_equal(bounded(20, most).states, free.states)
    ended = [bounded(samples, most) for samples in (21, 40, 400)]
    for run in ended:
        assert status.STATUS[run.status] == "step_too_small"
        assert run.counters["steps"] == run.counters["stop_step"] == most
        assert run.counters["stop_time"] == ended[0].counters["stop_time"] >= 5.0
        np.testing.assert_array_equal(run.states[:21], free.states)
        assert np.isnan(run.states[-1]).all()


def test_a_bound_ends_steps_that_lead_nowhere_but_no_close_encounter():
    bound = StepBound(1e6, 1_000_000)
    assert bound.allows(0, 0.0, 0.0) and bound.allows(999_999, 0.0, 1.0)
    assert not bound.allows(1_000_000, 0.0, 1.0)
    assert bound.allows(10_000, 0.0, 1e-9)
    assert bound.allows(20_000, 1.0, 1.0 + 1e-3) and bound.allows(20_001, 1.0, 1.0 + 1e-6)
    assert not bound.allows(20_000, 1.0, 1.0 + 1e-5)


def test_the_loop_goes_on_where_it_stood():
    """In two calls as in one, bit for bit."""
    problem = integrators.get("rk45").bind(CHAIN)
    times = np.linspace(0.0, 5.0, 51)
    whole = run_adaptive(problem, CHAIN.start("lee")[None], times, 1e-4, True)
    settings = np.array([1e-4, 0.0, 1e7, np.inf, 1.0, 1e-6])
    control, memory = aligned(adaptive_loop.CONTROL), aligned(ode45.memory_size(4))
    y, work = CHAIN.start("lee"), aligned(500)
    for part in (slice(1, 18), slice(18, 51)):
        size = part.stop - part.start
        states, taken, kept = aligned((size, 4, 3)), np.zeros((size, 2)), aligned((size, 2, 5))
        ode45.integrate(DOUBLE).scalar(
            *problem.functions(), settings, problem.constants, times[part], control, y, memory,
            problem.parameters, work, states, taken, kept, np.zeros((0, 4)),
        )  # fmt: skip
        np.testing.assert_array_equal(states, whole.states[0, part])
        np.testing.assert_array_equal(taken[:, 0], whole.step_sizes[0, part])
        np.testing.assert_array_equal(taken[:, 1], whole.rejected_so_far[0, part])
        np.testing.assert_array_equal(kept, whole.statistics[0, part.start - 1 : part.stop - 1])
    assert control[adaptive_loop.STEPS] == whole.counters["steps"][0]


@pytest.mark.parametrize("output", ["dense", "land"])
def test_a_collision_ends_a_run_where_steps_vanish(output):
    """Two bodies at rest fall into each other, in finite time."""
    system = systems.get("nbody_sphere", count=2)
    q = [[0.0, 0.0, 1.0], [np.sin(0.3), 0.0, np.cos(0.3)]]
    run = integrators.integrate(
        system, integrators.get("rk45", output=output), [*q, *np.zeros((2, 3))],
        duration=1.0, samples=10, tolerance=1e-6,
    )  # fmt: skip
    assert status.STATUS[run.status] == "step_too_small"
    assert run.counters["stop_step"] == run.counters["steps"] > 100
    assert 0.1 < run.counters["stop_time"] < 0.2
    assert run.counters["stop_residual"] > 1e-6  # the error of the smallest step
    attempts = run.counters["steps"] + run.counters["rejected_steps"]
    assert run.counters["evaluations"] == 1 + 6 * attempts
    there = np.isfinite(run.states).all(axis=(1, 2))
    assert 1 < there.sum() < 11 and not there[there.argmin() :].any()


def test_a_field_without_a_value_ends_a_run():
    start = CHAIN.start("lee")
    start[0, 1] = np.inf
    run = integrators.integrate(
        CHAIN, integrators.get("rk45"), start, duration=1.0, samples=2, tolerance=1e-6
    )
    assert status.STATUS[run.status] == "not_finite"
    assert run.counters["steps"] == run.counters["stop_step"] == 0
    assert run.counters["evaluations"] == 1
    assert np.all(np.isnan(run.states[1:]))


def test_the_absolute_tolerance_loosens_small_numbers():
    steps = [
        integrators.integrate(
            CHAIN, integrators.get("rk45", absolute_tolerance=absolute), CHAIN.start("lee"),
            duration=5.0, samples=1, tolerance=1e-9,
        ).counters["steps"]
        for absolute in (1e-3, 1e-6, 1e-12)
    ]  # fmt: skip
    assert steps[0] < steps[1] < steps[2]


@pytest.mark.parametrize(("tolerance", "absolute"), [(1e-3, 1e-6), (1e-9, 1e-9)])
def test_unless_given_it_is_ode45s_or_the_tolerance_if_that_is_less(tolerance, absolute):
    first, second = (
        integrators.integrate(
            CHAIN, integrators.get("rk45", **options), CHAIN.start("lee"),
            duration=5.0, samples=10, tolerance=tolerance,
        )
        for options in ({}, {"absolute_tolerance": absolute})
    )  # fmt: skip
    np.testing.assert_array_equal(first.states, second.states)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 6])
def test_roots(degree):
    for x in (1.0, 0.999, 0.5, 1e-3, 1e-6, 2.3e-14, 1e-60):
        assert step_control.root(x, degree) == pytest.approx(x ** (1 / degree), rel=1e-15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"absolute_tolerance": -1.0}, "absolute_tolerance = -1.0; expected a number ≥ 0"),
        ({"output": "dens"}, "unknown output 'dens'. Did you mean 'dense'?"),
        ({"relative_tolerance": 1e-3}, "give integrate(…, tolerance=…)"),
        ({"tolerance": 1e-3}, "give integrate(…, tolerance=…)"),
        ({"step_size": 1e-3}, "unknown option 'step_size' of rk45"),
    ],
    ids=str,
)
def test_options_of_rk45(options, message):
    with pytest.raises(integrators.InputError) as caught:
        integrators.get("rk45", **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", sorted({pairing.name for pairing in adaptive_pairings()}))
@pytest.mark.parametrize("tolerance", [0.0, 1.0, 1e-16, np.nan, "1e-3", None])
def test_tolerances_that_are_refused(name, tolerance):
    with pytest.raises(integrators.InputError, match="tolerance"):
        integrators.integrate(
            CHAIN, integrators.get(name), CHAIN.start("lee"),
            duration=1.0, samples=1, tolerance=tolerance,
        )  # fmt: skip
