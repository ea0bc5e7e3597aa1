"""The linear stability limit: how fast spins turn, and the warning beyond it."""

import warnings

import numpy as np
import pytest

import integrators
import systems
from integrators import StabilityWarning
from integrators.diagnostics.stability import frequencies, has_stability_limit, largest_step
from integrators.stepping import loop

AXIS = (0.0, 3.0, 4.0)  # a turn of 5 radians a unit of time


@pytest.fixture(autouse=True)
def loops_of_their_own(monkeypatch):
    """Lanes go through kernels that other tests compile too."""
    monkeypatch.setattr(loop, "FEW_ROWS", 0)


@pytest.fixture
def precession():
    """Spins about `AXIS`."""
    return systems.get("precession", axis=AXIS)


def integrated(system, states, name, step_size, **options):
    """The warnings of one step, by category."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        integrators.integrate(
            system, integrators.get(name), states, step_size=step_size, duration=step_size,
            samples=1, **options,
        )  # fmt: skip
    return caught


def test_a_precession_turns_at_the_length_of_its_axis(precession):
    found = frequencies(precession, precession.ensemble(20, seed=1))
    np.testing.assert_allclose(found, 5.0, rtol=1e-15)


def test_frequencies_are_those_of_the_fastest_spin():
    """Of vortices: |∂H/∂w_i| / |κ_i|, from the field that is w × ∂H/κ."""
    system = systems.get("point_vortices", strengths=(1.0, -0.5, 2.0))
    states = system.ensemble(5, seed=2)
    form = system.form.vector_field()
    speeds = []
    for state in states:
        out = np.empty_like(state)
        form.field.scalar(0.0, state, form.parameters, out, np.zeros(9))
        speeds.append(np.linalg.norm(out, axis=1).max())
    found = frequencies(system, states)
    assert np.all(found >= np.array(speeds) * (1 - 1e-14))  # w × g leaves out the part along w
    assert np.isnan(frequencies(system, np.full((1, 3, 3), np.nan)))[0]


def test_frequencies_depend_on_the_time():
    system = systems.get("forced_rigid_body", epsilon=0.5)
    states = system.ensemble(3, seed=1)
    assert not np.allclose(frequencies(system, states), frequencies(system, states, time=1.5))


@pytest.mark.parametrize(
    ("name", "largest"),
    [
        ("spherical_midpoint", 0.4),
        ("extended_spherical_midpoint", 0.4),
        ("spherical_midpoint+triple_jump4", 0.4 / 1.7024143839193153),  # |γ| of the middle stage
        ("implicit_midpoint", np.inf),
        ("splitting", np.inf),
        ("rk4", np.inf),
    ],
)
def test_a_composition_takes_larger_steps(precession, name, largest):
    method = integrators.get(name)
    assert largest_step(method, 5.0) == pytest.approx(largest, rel=1e-14)
    assert has_stability_limit(method, precession) == np.isfinite(largest)


@pytest.mark.parametrize("name", ["spherical_midpoint", "spherical_midpoint+triple_jump4"])
def test_the_warning_says_what_is_beyond_and_what_would_do(precession, name):
    states = precession.ensemble(3, seed=1)
    largest = float(largest_step(integrators.get(name), 5.0))
    assert not integrated(precession, states, name, 0.99 * largest)
    caught = integrated(precession, states, name, 1.5 * largest)
    assert [warning.category for warning in caught] == [StabilityWarning]
    text = str(caught[0].message)
    assert "on 'precession' at 3 of 3 states" in text
    assert "× frequency 5" in text and "= 3, the limit is 2" in text
    within = float(text.rsplit("below ", 1)[1])
    assert 0.99 * largest < within <= largest * (1 + 1e-15)
    assert caught[0].filename == __file__


def test_the_worst_state_is_named():
    system = systems.get("precession", axis=(0.0, 0.0, 1.0), lengths="any")
    vortices = systems.get("point_vortices", strengths=(1.0, 1.0))
    near, far = (np.array([[0.0, 0.0, 1.0], [np.sin(a), 0.0, np.cos(a)]]) for a in (0.05, 2.0))
    fast, slow = frequencies(vortices, [near, far])
    assert fast > 10 * slow
    h = 2.5 / fast
    (warning,) = integrated(vortices, [far, near], "spherical_midpoint", h)
    assert "at 1 of 2 states" in str(warning.message)
    assert f"frequency {fast:.4g}" in str(warning.message)
    assert not integrated(vortices, far, "spherical_midpoint", h)
    assert not integrated(system, [[0.0, 0.0, 9.0]], "extended_spherical_midpoint", 1.9)


def test_mechanical_systems_have_no_limit():
    system = systems.get("spherical_pendulum_chain")
    assert not has_stability_limit(integrators.get("variational"), system)
    assert not has_stability_limit(integrators.get("spherical_midpoint"), system)
