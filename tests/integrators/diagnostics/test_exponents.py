"""Lyapunov exponents and MEGNO against closed forms, and against differences of runs."""

from dataclasses import replace

import numpy as np
import pytest
from cases import adaptive_pairings, first_of, parameters, with_new

import integrators
import systems
from integrators import InputError, lyapunov_exponents
from integrators.compiler.kernels import IS_COMPILED, kernel
from integrators.diagnostics import exponents
from integrators.diagnostics.exponents import (
    EVERY,
    Followed,
    first_directions,
    steps_taken,
    tangent_parts,
)
from integrators.forms.flows import HomogeneousFlow
from integrators.forms.phase_spaces import state_space
from integrators.lie_groups.actions import product
from integrators.lie_groups.factors import RIGHT_ROTATION, TRANSLATION
from integrators.stepping.adaptive import run_adaptive
from integrators.stepping.batch import run_tangents

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="plain Python has no tangents")

FREQUENCY = 3.0  # rad/s, of the pendulum √(g/l)
NORMAL = systems.get("spherical_pendulum_chain").start("lee") * [[1.0], [1.0], [0.0], [0.0]]
UPRIGHT = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 0.0]])
SWINGING = np.array([[0.8, 0.0, 0.6], [0.0, 1.5, 0.0]])


def one_of_each():
    """Adaptive integrators with a main method: each of them, and of rk45 each kind of system."""
    found = [p for p in adaptive_pairings() if p.integrator.main is not None]
    found.sort(key=lambda p: p.name != "rk45")
    return with_new(found, lambda p: {p.name, type(state_space(p.case.system.form))})


def pendulum():
    return systems.get(
        "spherical_pendulum_chain", count=1, mass=[1.0], length=[1.0], gravity=FREQUENCY**2
    )


def rates(found):
    """Growth rates within each sample interval but the first, shape (S − 1, count)."""
    grown = found.exponents[1:] * found.times[1:, None]
    return np.diff(grown, axis=0) / np.diff(found.times[1:])[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exact", "spherical_midpoint"])
def test_a_precession_has_none(name):
    system = systems.get("precession")
    found = lyapunov_exponents(
        system, integrators.get(name), system.start("equator"),
        step_size=0.05, duration=100.0, samples=4, count=2,
    )  # fmt: skip
    assert np.max(np.abs(found.exponents[1:] * found.times[1:, None])) < 1e-12
    assert np.max(np.abs(found.megno[1:])) < 1e-12


def test_a_hyperbolic_fixed_point_has_those_of_the_methods_map():
    h = 0.02
    z = h * FREQUENCY * np.array([1.0, 1.0, -1.0, -1.0])
    expected = np.log(1.0 + z + z**2 / 2 + z**3 / 6 + z**4 / 24) / h  # the stability function
    found = lyapunov_exponents(
        pendulum(), integrators.get("rk4"), UPRIGHT, step_size=h, duration=30.0, samples=5, count=4
    )
    np.testing.assert_allclose(rates(found)[1:], [expected] * 3, rtol=0.0, atol=1e-12)
    assert expected[0] == pytest.approx(FREQUENCY, abs=1e-5)
    megno = found.megno[-1]  # λ t / 2 and what is left of the start
    assert megno == pytest.approx(expected[0] * 30.0 / 2, rel=0.03)


@kernel()
def tumbling(t, y, p, out, work):
    """Euler's equations of a body of moments 1, 2 and 2.5."""
    out[0, 0], out[0, 1], out[0, 2] = y[3, 0], y[3, 1], y[3, 2]
    out[1, 0], out[1, 1], out[1, 2] = (
        -0.5 * y[3, 1] * y[3, 2], 0.75 * y[3, 2] * y[3, 0], -0.4 * y[3, 0] * y[3, 1],
    )  # fmt: skip


@kernel()
def no_energy(t, y, p, out, work):
    out[0, 0] = 0.0 * y[0, 0]


@pytest.mark.slow
def test_of_a_flow_along_an_action_the_tangent_space_is_known():
    """A body that turns about its middle axis; what turns it in space has none."""
    flow, rate = HomogeneousFlow(tumbling, product(RIGHT_ROTATION, TRANSLATION), no_energy), 3.0
    state = np.vstack([np.eye(3), [0.0, rate, 0.0]])
    given = {"integrator": integrators.get("rkmk5"), "state": state, "step_size": 0.01}
    found = lyapunov_exponents(flow, **given, duration=40.0, samples=4, count=6)
    expected = rate * np.sqrt(0.5 * 0.4)
    assert rates(found)[1:, 0] == pytest.approx(expected, abs=1e-7)
    assert 2.0 * found.megno[-1] / 40.0 == pytest.approx(expected, rel=0.05)
    assert np.max(rates(found)[-1, 1:]) < 0.1
    with pytest.raises(InputError, match="7 exponents; expected 1 to 6"):
        lyapunov_exponents(flow, **given, duration=1.0, samples=1, count=7)


@pytest.mark.parametrize(
    "name", first_of(["variational", "spherical_midpoint", "variational+suzuki4"])
)
def test_exponents_of_symplectic_maps_come_in_pairs(name):
    if name == "spherical_midpoint":
        # Orthonormal vectors v_i, w × v_i in the reverse order: what orthonormalises them keeps
        # the pairs (the Iwasawa decomposition of the symplectic group).
        system = systems.get("heisenberg_chain", count=4)
        state = system.ensemble(1, seed=1)[0]
        half = turned_halves(state)
        directions = np.concatenate([half, np.cross(state, half)[::-1]])
        found = lyapunov_exponents(
            system, integrators.get(name), state, step_size=0.05, duration=2000.0, samples=8,
            count=8, directions=directions,
        )  # fmt: skip
        exponents = found.exponents[1:]
        assert np.all(exponents[-1, :3] > 1e-3)
    else:
        two = systems.get("spherical_pendulum_chain", gravity=FREQUENCY**2)
        found = lyapunov_exponents(
            two, integrators.get(name), np.repeat(UPRIGHT, 2, axis=0), step_size=0.02,
            duration=30.0, samples=5, count=8,
        )  # fmt: skip
        exponents = rates(found)[1:]
        assert np.all(exponents[:, :4] > 2.2)  # each of 3 √(2 ± √2) twice
    np.testing.assert_allclose(exponents, -exponents[:, ::-1], rtol=0.0, atol=1e-12)


def turned_halves(state):
    """Orthonormal tangent vectors, one of each spin, whose images by w × are orthogonal to all."""
    axis = np.cross(state, np.eye(3)[np.arange(len(state)) % 3])
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    return np.eye(len(state))[:, :, None] * axis


def test_vectors_grow_as_those_of_the_map(costly):
    form, state = costly.case.system.form, costly.case.state
    h, steps = 0.1 * costly.case.time_scale, 23
    (direction,) = first_directions(form, state, 1)
    followed = Followed(costly.problem, form, 1)
    series, _, _ = followed.run(state, direction[None], h, np.array([steps]))
    grown = series[0, 0] * steps * h
    expected = np.log(np.linalg.norm(_moved(costly.problem, form, state, direction, h, steps)))
    if np.isnan(expected):
        assert np.isnan(grown)
    else:
        assert grown == pytest.approx(expected, abs=1e-10)


def _moved(problem, form, state, direction, h, steps):
    """A tangent vector after so many steps, shape (rows, 3) without the work of a force.

    Methods that leave the manifold turn it off the tangent space, to which it is led back where
    vectors are made orthonormal.
    """
    vectors, done = direction[None], 0
    while done < steps:
        piece = min(EVERY, steps - done)
        state, vectors = run_tangents(problem, state, vectors, h, piece, done * h)
        vectors = tangent_parts(form, state, vectors)
        done += piece
    return vectors[0]


@pytest.mark.parametrize(
    "chosen",
    parameters(one_of_each(), lambda p: str(p) == "rk45[q_omega][dense]-spherical_pendulum_chain"),
)
def test_vectors_grow_along_the_steps_that_were_taken(chosen):
    """As by the main method's steps of these sizes one by one, which lead to the same states."""
    system, state, method = chosen.case.system, chosen.case.state, chosen.integrator
    vectors = first_directions(system.form, state, 1)
    # rk45 leaves the manifold by its errors, which states lose here at every step
    given = {"tolerance": 1e-12 if method.name == "rk45" else 1e-6, "samples": 3}
    given["duration"] = 2.0 * chosen.case.time_scale
    found = lyapunov_exponents(system, method, state, directions=vectors, **given)
    run = integrators.integrate(system, method, state, history=True, **given)
    tried = run.history
    steps = np.stack([tried.times, tried.sizes], axis=1)[tried.accepted]
    ends = np.searchsorted(steps[:, 0], run.times[1:], side="left")
    main, grown = method.main.bind(system), []
    for k, (t, h) in enumerate(steps, 1):
        state, vectors = run_tangents(main, state, vectors, h, 1, t)
        if k % EVERY == 0 or k in ends:
            vectors = tangent_parts(system.form, state, vectors)
        grown.append(np.log(np.linalg.norm(vectors)))
    spans = steps[ends - 1].sum(axis=1)
    np.testing.assert_allclose(
        found.exponents[1:, 0] * spans, np.array(grown)[ends - 1], rtol=0.0, atol=1e-10
    )
    if method.options["output"] == "land":
        np.testing.assert_allclose(state, run.states[-1], rtol=0.0, atol=1e-11)
    assert found.status == 0 and np.isfinite(found.megno[1:]).all()


@pytest.mark.slow
def test_in_momenta_they_are_those_in_angular_velocities():
    """Of the same vectors, whatever the method steps."""
    system = systems.get("spherical_pendulum_chain", count=1, mass=2.0)  # momenta are 2 ω
    found, expected = (
        lyapunov_exponents(
            system, method, SWINGING, step_size=0.005, duration=2.0, samples=4, count=4
        )
        for method in (integrators.get("rkmk4", formulation="q_pi"), integrators.get("rk4"))
    )
    np.testing.assert_allclose(found.exponents[1:], expected.exponents[1:], atol=1e-7)
    np.testing.assert_allclose(found.megno[1:], expected.megno[1:], atol=1e-7)


@pytest.mark.slow
def test_megno_of_steps_of_several_sizes_is_that_of_equal_ones():
    method, start = integrators.get("rkmk54"), SWINGING
    found = lyapunov_exponents(pendulum(), method, start, tolerance=1e-8, duration=500.0, samples=5)
    equal = lyapunov_exponents(
        pendulum(), integrators.get("rkmk5"), start, step_size=0.01, duration=500.0, samples=5
    )
    np.testing.assert_allclose(found.megno[1:], equal.megno[1:], atol=0.05)


def test_nothing_is_said_beyond_a_failure_of_adaptive_steps(monkeypatch):
    run = exponents.run_adaptive

    def failing(problem, members, times, *given, **options):
        found = run(problem, members, times, *given, **options)
        found.states[0, 3:] = np.nan
        kept = found.histories[0][found.histories[0][:, 0] < times[2]]
        return replace(found, histories=(kept,))

    system, given = pendulum(), {"tolerance": 1e-6, "duration": 1.0, "samples": 5}
    whole = lyapunov_exponents(system, integrators.get("rk45"), SWINGING, **given)
    monkeypatch.setattr(exponents, "run_adaptive", failing)
    found = lyapunov_exponents(system, integrators.get("rk45"), SWINGING, **given)
    np.testing.assert_array_equal(found.exponents[:3], whole.exponents[:3])
    assert np.isnan(found.exponents[3:]).all() and np.isnan(found.megno[3:]).all()


def test_it_goes_on_bit_for_bit():
    system, method = systems.get("spherical_pendulum_chain"), integrators.get("variational")
    state, counts = system.start("lee"), np.array([37, 1, 22, 40])
    followed = Followed(method.bind(system), system.form, 4)
    start = first_directions(system.form, state, 4)
    whole, end, _ = followed.run(state, start, 0.01, counts)
    first, checkpoint, _ = followed.run(state, start, 0.01, counts[:2])
    later, last, _ = followed.run(state, start, 0.01, counts[2:], checkpoint)
    np.testing.assert_array_equal(np.concatenate([first, later]), whole)
    np.testing.assert_array_equal(last, end)


@pytest.mark.parametrize("name", ["variational", "rk45"])
def test_it_stops_between_samples(name):
    system, method = systems.get("spherical_pendulum_chain"), integrators.get(name)
    state, times, counts = system.start("lee"), np.array([0.0, 0.5, 0.51, 2.0]), [37, 1, 22]
    followed = Followed((method.main or method).bind(system), system.form, 2)
    start, problem = first_directions(system.form, state, 2), method.bind(system)

    def advance(first, stood, known, most):
        """Series, checkpoint of the tangent vectors, and that of the adaptive run."""
        if not method.adaptive:
            return *followed.run(state, start, 0.01, counts[first:], known, most=most)[:2], None
        own = None if stood is None else stood[None]
        upto = run_adaptive(problem, state[None], times[first:], 1e-6, checkpoints=own, most=most)
        steps, ends, _ = steps_taken(problem, state, times[first:], 1e-6, stood, most=most)
        return *followed.run_along(state, start, steps, ends, known)[:2], upto.checkpoints[0]

    whole, end, _ = advance(0, None, None, None)
    series, known, stood = [], None, None
    while sum(map(len, series)) < 3:
        found, known, stood = advance(sum(map(len, series)), stood, known, 7)
        series.append(found)
    assert any(len(found) == 0 for found in series)
    np.testing.assert_array_equal(np.concatenate(series), whole)
    np.testing.assert_array_equal(known, end)


@pytest.mark.slow
def test_megno_tells_order_from_chaos():
    method = integrators.get("variational+suzuki4")
    one = lyapunov_exponents(  # which is integrable
        pendulum(), method, SWINGING, step_size=0.01, duration=2000.0, samples=10
    )
    assert np.all(np.diff(np.abs(one.megno[1:] - 2.0)) < 0.0)
    assert abs(one.megno[-1] - 2.0) < 0.04
    double = systems.get("spherical_pendulum_chain")
    whirling = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, -1.0, 0.0]])
    other = lyapunov_exponents(double, method, whirling, step_size=0.01, duration=200.0, samples=10)
    assert np.all(np.diff(other.megno[1:]) > 1.0)
    assert 2.0 * other.megno[-1] / 200.0 == pytest.approx(other.exponents[-1, 0], rel=0.1)


def test_there_are_no_more_exponents_than_dimensions():
    system = systems.get("precession")
    with pytest.raises(InputError, match="expected 1 to 2: the states of this system have 2 dim"):
        lyapunov_exponents(
            system, integrators.get("rk4"), system.start("equator"),
            step_size=0.1, duration=1.0, samples=1, count=3,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"count": 9}, "9 exponents; expected 1 to 8: 8 tangent vectors go along with a run"),
        ({"count": 0}, "count = 0"),
        ({"directions": NORMAL[None]}, "no combinations of each other"),
        ({"integrator": "rk45"}, "'rk45' is adaptive: give a tolerance, no step_size"),
        ({"integrator": "dop853"}, "'dop853' has no main method with a fixed step"),
        ({"tolerance": 1e-6}, "'variational' has a fixed step: give step_size, no tolerance"),
        ({"arithmetic": "double-double"}, "leave 'arithmetic' out"),
        ({"samples": 7}, "does not divide the sample interval"),
        ({"directions": np.zeros((1, 4, 3))}, "no combinations of each other"),
        ({"directions": np.zeros((2, 4, 3))}, "expected (1, 4, 3)"),
        ({"state": np.ones((4, 3))}, "off the manifold"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_wrong_input(changes, text):
    system = systems.get("spherical_pendulum_chain")
    options = {"state": system.start("lee"), "step_size": 0.01, "duration": 1.0, "samples": 10}
    options |= changes
    name = options.pop("integrator", "variational")
    kind = {"arithmetic": options.pop("arithmetic")} if "arithmetic" in options else {}
    with pytest.raises(InputError) as error:
        lyapunov_exponents(system, integrators.get(name, **kind), **options)
    assert text in str(error.value)
