"""Adaptive Lie group methods: published figures, the step control, what is counted and kept."""

import numpy as np
import pytest

import integrators
import systems
from integrators import InputError, status
from integrators.compiler.kernels import kernel
from integrators.forms.flows import HomogeneousFlow
from integrators.lie_groups.actions import product
from integrators.lie_groups.factors import TRANSLATION
from integrators.method import Integrator
from integrators.methods.commutator_free import CF4_SCHEME
from integrators.methods.commutator_free_pairs import commutator_free_pair
from integrators.methods.munthe_kaas_pairs import rkmk_pair
from integrators.stepping.adaptive import run_adaptive
from integrators.tableaux import butcher

CHAIN = systems.get("spherical_pendulum_chain", gravity=-9.81)
PLANAR, SPATIAL = CHAIN.start("celledoni"), CHAIN.start("celledoni_spatial")
PAIRS = {"rkmk54": 5, "cf32a": 3, "cf32b": 3, "cf43": 4}  # and their orders, 1/α too
OUTPUTS = ("dense", "land")


def run(name, tolerance=1e-6, duration=1.0, samples=1, start=SPATIAL, history=False, **options):
    method = integrators.get(name, **options) if isinstance(name, str) else name
    return integrators.integrate(
        CHAIN, method, start, duration=duration, samples=samples, tolerance=tolerance,
        history=history,
    )  # fmt: skip


def exact(start, duration):
    return run("dop853", 2.3e-14, duration, start=start).states[-1]


# --- figures ----------------------------------------------------------------------------------


def test_variable_against_constant_steps_on_two_links():
    """Celledoni et al., section 5.3, N = 2: 120 steps, and errors of 1.1e-5 and 3.4e-3."""
    variable = run("rkmk54", duration=3.0, start=PLANAR, output="land")
    constant = run("rkmk5", duration=3.0, start=PLANAR, steps_of="rkmk54")
    assert variable.counters["steps"] == constant.counters["steps"] == 120
    known = exact(PLANAR, 3.0)
    errors = [np.linalg.norm(each.states[-1] - known) for each in (variable, constant)]
    assert errors == pytest.approx([1.12e-5, 3.39e-3], rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("length", "steps"), [(1.0, 374), (0.25, 820)])
def test_steps_on_twenty_links(length, steps):
    system = systems.get("spherical_pendulum_chain", count=20, length=length, gravity=-9.81)
    found = integrators.integrate(
        system, integrators.get("rkmk54"), system.start("celledoni"), duration=3.0, samples=1,
        tolerance=1e-6,
    )  # fmt: skip
    assert found.counters["steps"] == steps


# --- the step control -------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(
    ("safety", "least", "most"), [(0.85, 0.2, 5.0), (0.5, 0.6, 1.2)], ids=["defaults", "narrow"]
)
def test_every_attempt_follows_the_formula(name, safety, least, most):
    """(33), after acceptance and rejection, within the bounds of the factor."""
    options = {"safety": safety, "least_factor": least, "most_factor": most, "first_step": 0.3}
    history = run(name, 1e-5, history=True, output="land", **options).history
    assert history.times[0] == 0.0 and history.sizes[0] == 0.3
    np.testing.assert_array_equal(history.accepted, history.errors < 1e-5)
    assert not history.accepted[0] and history.accepted[-1]
    factor = safety * (1e-5 / history.errors) ** (1 / PAIRS[name])
    predicted = np.clip(factor, least, most) * history.sizes
    np.testing.assert_allclose(history.sizes[1:-1], predicted[:-2], rtol=1e-13)
    ends = history.times + np.where(history.accepted, history.sizes, 0.0)
    np.testing.assert_allclose(history.times[1:], ends[:-1], rtol=1e-14)
    assert ends[-1] == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("name", [*PAIRS, "rk45", "dop853"])
def test_a_history_has_every_attempt(name):
    options = {} if name == "dop853" else {"output": "land"}
    found = run(name, 1e-8, samples=4, start=np.stack([SPATIAL, PLANAR]), history=True, **options)
    for i, history in enumerate(found.history):
        taken, rejected = (found.counters[key][i] for key in ("steps", "rejected_steps"))
        assert len(history.times) == taken + rejected
        assert history.accepted.sum() == taken
        ends = np.cumsum(history.sizes[history.accepted])
        if name == "dop853":  # whose last step leads beyond the last sample
            assert ends[-2] < 1.0 <= ends[-1]
        else:
            assert ends[-1] == pytest.approx(1.0, rel=1e-13)
        assert np.all(history.errors[history.accepted] <= 1e-8)
        assert np.all(history.errors[~history.accepted] >= 1e-8)
    alone = run(name, 1e-8, samples=4, **options)
    assert alone.history is None
    np.testing.assert_array_equal(found.states[0], alone.states)


def test_what_is_rejected_is_counted_along_the_run():
    problem = integrators.get("rkmk54").bind(CHAIN)
    times = np.linspace(0.0, 3.0, 61)
    found = run_adaptive(problem, PLANAR[None], times, 1e-6, history=True)
    so_far = found.rejected_so_far[0]
    history = integrators.StepHistory.of(found.histories[0])
    assert so_far[0] == 0 and so_far[-1] == found.counters["rejected_steps"][0] > 5
    starts = history.times[history.accepted]
    begun = starts[np.searchsorted(starts, times[1:], side="left") - 1]  # of the covering step
    expected = [np.sum(~history.accepted & (history.times <= t)) for t in begun]
    np.testing.assert_array_equal(so_far[1:], expected)


def test_generators_are_evaluated_once():
    """The last of a step is the next one's first; a rejected step's first is known."""
    found = run("rkmk54", duration=3.0, start=PLANAR).counters
    assert found["rejected_steps"] > 5
    assert found["evaluations"] == 1 + 6 * (found["steps"] + found["rejected_steps"])
    for name, stages, between in (("cf32a", 3, 2), ("cf32b", 3, 2), ("cf43", 5, 3)):
        for samples in (1, 20):  # the samples within steps take a step each
            found = run(name, first_step=0.5, samples=samples).counters
            assert found["rejected_steps"] > 0
            assert found["evaluations"] == (
                stages * found["steps"] + (stages - 1) * found["rejected_steps"] + between * samples
            )


def test_a_step_too_wide_for_dexpinv_is_rejected():
    fast = PLANAR.copy()
    fast[2:] *= 20.0
    history = run("rkmk54", start=fast, first_step=0.9, history=True).history
    assert np.isinf(history.errors[0]) and not history.accepted[0]
    assert history.sizes[1] == pytest.approx(0.2 * 0.9)


@pytest.mark.parametrize("name", PAIRS)
def test_landing_does_not_shorten_the_steps_after(name):
    """Sample times that cut steps short cost a step each, or hardly more."""
    free, landing = (run(name, 1e-7, samples=7, output=o).counters for o in ("dense", "land"))
    assert landing["steps"] + landing["rejected_steps"] <= free["steps"] + 2 * 7


# --- the end of steps -------------------------------------------------------------------------


@kernel()
def _square(t, y, p, out, work):
    for c in range(3):
        out[0, c] = y[0, c] * y[0, c]


@kernel()
def _nothing(t, y, p, out, work):
    out[0, 0] = 0.0 * y[0, 0]


BLOW_UP = HomogeneousFlow(_square, product(TRANSLATION), _nothing)  # ẏ = y², each by itself


@pytest.mark.parametrize("name", [*PAIRS, "rk45", "dop853"])
def test_a_solution_that_ends_ends_its_run(name):
    """1/(1 − t) of 1 leads to infinity at t = 1: steps vanish there."""
    found = integrators.integrate(
        BLOW_UP, integrators.get(name), [[1.0, 0.5, 0.0]], duration=2.0, samples=8, tolerance=1e-6
    )
    assert status.STATUS[found.status] == "step_too_small"
    assert found.counters["stop_time"] == pytest.approx(1.0, abs=1e-3)
    assert found.counters["stop_step"] == found.counters["steps"] > 0
    assert not found.counters["stop_residual"] < 1e-6
    assert np.all(np.isfinite(found.states[:4])) and np.all(np.isnan(found.states[5:]))
    assert found.states[3, 0, 0] == pytest.approx(4.0, rel=1e-4)


def test_a_failure_with_a_fixed_step_has_its_time_too():
    start, method = [[1.0, 0.5, 0.0]], integrators.get("rkmk4")
    failed, whole = (
        integrators.integrate(
            BLOW_UP, method, start, step_size=0.125, duration=duration, samples=2, start_time=0.5
        ).counters
        for duration in (8.0, 0.25)
    )
    assert failed["stop_step"] > 0
    assert failed["stop_time"] == 0.5 + 0.125 * failed["stop_step"]
    assert np.isnan(whole["stop_time"])


# --- the main method, and any pair ------------------------------------------------------------


@pytest.mark.parametrize(("name", "order"), PAIRS.items())
def test_the_main_method_has_its_order(name, order):
    method, known = integrators.get(f"{name}+fixed"), exact(SPATIAL, 1.0)
    assert method.order == order and not method.adaptive and method.name == f"{name}+fixed"
    errors = [
        np.linalg.norm(
            integrators.integrate(
                CHAIN, method, SPATIAL, step_size=1.0 / n, duration=1.0, samples=1
            ).states[-1]
            - known
        )
        for n in (100, 200)
    ]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)


def test_rkmk54_with_a_constant_step_is_rkmk5():
    first, second = (
        integrators.integrate(
            CHAIN, integrators.get(name), SPATIAL, step_size=0.02, duration=1.0, samples=5
        ).states
        for name in ("rkmk54+fixed", "rkmk5")
    )
    np.testing.assert_array_equal(first, second)


BOGACKI_SHAMPINE = butcher.Tableau(  # the last stage is the next step's first
    a=((), (1 / 2,), (0.0, 3 / 4), (2 / 9, 1 / 3, 4 / 9)),
    b=(2 / 9, 1 / 3, 4 / 9, 0.0),
    embedded=(7 / 24, 1 / 4, 1 / 3, 1 / 8),
    order=3,
    embedded_order=2,
)
HEUN_EULER = butcher.Tableau(
    a=((), (1.0,)), b=(0.5, 0.5), embedded=(1.0, 0.0), order=2, embedded_order=1
)


@pytest.mark.parametrize(("tableau", "reused"), [(BOGACKI_SHAMPINE, True), (HEUN_EULER, False)])
def test_any_pair_of_a_tableau_steps_by_itself(tableau, reused):
    """Also in between, by steps of the main method: about as exact as the ends of steps are."""
    method, known = rkmk_pair("own", tableau), run("dop853", 2.3e-14, samples=9).states
    dense, landing = (
        run(Integrator(method, given={"output": o}), 1e-5, samples=9) for o in OUTPUTS
    )
    for found in (dense, landing):
        assert 1e-7 < np.abs(found.states - known).max() < 1e-2
    assert np.abs(dense.states - landing.states).max() < 0.3 * np.abs(dense.states - known).max()
    found, inner = dense.counters, tableau.stages - 1
    firsts = 1 if reused else found["steps"]
    attempts = found["steps"] + found["rejected_steps"]
    assert found["evaluations"] == firsts + inner * (attempts + 9)
    fixed = Integrator(method, "fixed")
    assert (fixed.order, fixed.adaptive) == (tableau.order, False)


def test_where_the_group_is_a_vector_space_both_errors_are_one():
    found = [
        integrators.integrate(
            BLOW_UP, integrators.get("rkmk54", error=error), [[1.0, 0.5, 0.0]], duration=0.9,
            samples=3, tolerance=1e-7,
        )
        for error in ("algebra", "metric")
    ]  # fmt: skip
    assert found[0].counters["steps"] == found[1].counters["steps"]
    np.testing.assert_allclose(found[0].states, found[1].states, rtol=1e-12)
    known = 1.0 / (1.0 / found[0].states[0, 0, :2] - found[0].times[:, None])
    np.testing.assert_allclose(found[0].states[:, 0, :2], known, rtol=2e-6)


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rkmk54", {"safety": 1.0}, "safety = 1.0; expected at most 0.99"),
        ("cf43", {"safety": 0.0}, "safety = 0.0; expected a number > 0"),
        ("rkmk54", {"first_step": -1.0}, "first_step = -1.0; expected a number > 0"),
        ("cf32a", {"least_factor": 1.0}, "least_factor = 1.0; expected at most 0.99"),
        ("cf32a", {"most_factor": 0.5}, "most_factor = 0.5; expected a number ≥ 1"),
        ("rkmk54", {"error": "metrics"}, "unknown error 'metrics'. Did you mean 'metric'?"),
        ("cf32b", {"error": "algebra"}, "unknown option 'error' of cf32b"),
        ("rkmk54+fixed", {"safety": 0.8}, "unknown option 'safety' of rkmk54+fixed"),
        ("rkmk5+fixed", {}, "fixed"),
        ("rkmk54+fixd", {}, "Did you mean 'fixed'?"),
    ],
    ids=str,
)
def test_options_that_are_refused(name, options, message):
    with pytest.raises(InputError) as caught:
        integrators.get(name, **options)
    assert message in str(caught.value)


def test_pairs_need_an_estimate():
    with pytest.raises(InputError, match="has no embedded weights to estimate errors by"):
        rkmk_pair("own", butcher.KUTTA4)
    with pytest.raises(InputError, match="has no estimate of its errors"):
        commutator_free_pair("own", CF4_SCHEME)


def test_a_fixed_step_has_no_history():
    with pytest.raises(InputError, match="'rkmk4' does not choose its steps: it has no history"):
        integrators.integrate(
            CHAIN, integrators.get("rkmk4"), SPATIAL, step_size=0.1, duration=1.0, samples=1,
            history=True,
        )  # fmt: skip
