"""Input that cannot be used is refused before any work, in a sentence that says what to do."""

import signal

import numpy as np
import pytest

import integrators
import systems
from integrators import InputError
from integrators.forms.forms import SpheresLagrangian
from integrators.method import EXACT
from integrators.solvers.inertia import ChainInertia


@pytest.fixture(autouse=True)
def impatience():
    """Refusals come before any work: ten seconds of CPU time are too long."""

    def interrupt(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, 10.0)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    signal.signal(signal.SIGVTALRM, before)


CHAIN = systems.get("spherical_pendulum_chain")
START = CHAIN.start("lee")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("variatonal", "unknown integrator 'variatonal'. Did you mean 'variational'?"),
        ("RK4", "Did you mean 'rk4'?"),
        ("Variational+Suzuki4", "Did you mean 'variational'?"),
        ("leapfrog", "Valid: variational, spherical_midpoint"),
        ("variational+suzuky4", "'suzuky4' of 'variational'. Did you mean 'suzuki4'?"),
        ("variational+", "expected a composition or projection after it"),
        ("variational+projected", "Valid: triple_jump4, suzuki4"),
        ("rk4+suzuki4", "not symmetric, and only symmetric integrators compose"),
        ("rk4+projekted", "Did you mean 'projected'?"),
        ("dop853+projected", "takes no modifier"),
        ("", "unknown integrator ''"),
        (None, "unknown integrator 'None'"),
    ],
)
def test_names(name, message):
    with pytest.raises(InputError) as caught:
        integrators.get(name)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "key", "message"),
    [
        ("variational", {"solver_tol": 1.0}, "solver_tol", "Did you mean 'solver_tolerance'?"),
        ("variational", {"solver_tolerance": -1}, "solver_tolerance", "= -1; expected a number"),
        ("variational", {"solver_tolerance": "x"}, "solver_tolerance", "= 'x'; expected a number"),
        ("variational", {"solver_tolerance": True}, "solver_tolerance", "= True; expected"),
        ("variational", {"solver_tolerance": np.nan}, "solver_tolerance", "= nan; expected"),
        ("rk4", {"formulation": "q_qdo"}, "formulation", "Did you mean 'q_qdot'?"),
        ("rk4", {"formulation": 3}, "formulation", "Valid: q_omega, q_qdot"),
        (
            "dop853",
            {"formulation": "q_qdot"},
            "formulation",
            "unknown option 'formulation' of dop853",
        ),
    ],
)
def test_options(name, options, key, message):
    with pytest.raises(InputError) as caught:
        integrators.get(name, **options)
    assert message in str(caught.value)
    assert caught.value.key == key


def test_options_have_their_defaults_filled_in():
    assert integrators.get("variational").options == {"solver_tolerance": 0.0}
    assert integrators.get("rk4", formulation="q_qdot").options == {"formulation": "q_qdot"}


GOOD = {"step_size": 0.01, "duration": 1.0, "samples": 10}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step_size": 0.0}, "step_size = 0.0; expected a number > 0"),
        ({"step_size": -0.01}, "step_size = -0.01; expected a number > 0"),
        ({"step_size": np.nan}, "step_size = nan; expected a number > 0"),
        ({"step_size": "0.01"}, "step_size = '0.01'; expected a number > 0"),
        ({"step_size": None}, "step_size = None; expected a number > 0"),
        ({"step_size": 0.03}, "nearest that do: 0.025, 0.03333"),
        ({"step_size": 0.2}, "does not divide the sample interval 0.1; the nearest that do: 0.1"),
        ({"duration": 0.0}, "duration = 0.0"),
        ({"duration": np.inf}, "duration = inf"),
        ({"duration": "1"}, "duration = '1'"),
        ({"samples": 0}, "samples = 0"),
        ({"samples": 2.5}, "samples = 2.5"),
        ({"samples": "3"}, "samples = '3'"),
        ({"tolerance": 1e-6}, "fixed step: give step_size = 0.01, for example, and no tolerance"),
    ],
)
def test_steps_and_samples(changes, message):
    with pytest.raises(InputError) as caught:
        integrators.integrate(CHAIN, integrators.get("variational"), START, **GOOD | changes)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"tolerance": None},
        {"tolerance": 1e-16},
        {"tolerance": -1.0},
        {"tolerance": np.nan},
        {"tolerance": np.inf},
        {"tolerance": "1e-6"},
        {"step_size": 0.1},
    ],
    ids=str,
)
def test_tolerances(changes):
    arguments = {"duration": 1.0, "samples": 1, "tolerance": 1e-6} | changes
    with pytest.raises(InputError, match="tolerance"):
        integrators.integrate(CHAIN, integrators.get("dop853"), START, **arguments)


@pytest.mark.parametrize(
    "state",
    [START[:3], START[:, :2], START[0], START[None, None], np.zeros((0, 4, 3)), "lee", None,
     [["a", "b", "c"]] * 4],
    ids=["rows", "columns", "row", "axes", "no_members", "name", "none", "words"],
)  # fmt: skip
def test_states(state):
    with pytest.raises(InputError, match=r"state.*expected \(4, 3\) or \(members, 4, 3\)"):
        integrators.integrate(CHAIN, integrators.get("variational"), state, **GOOD)


def test_a_system_without_the_form_is_told_what_would_do():
    field = CHAIN.form.vector_field()
    with pytest.raises(InputError, match="needs the form SpheresLagrangian.*rk2_midpoint"):
        integrators.get("variational").check(field)
    integrators.get("rk4").check(field)


@pytest.mark.parametrize(
    "inertia",
    [
        np.ones((2, 3)),
        [[1.0, 2.0], [0.0, 1.0]],
        [[1.0, 2.0], [2.0, 1.0]],
        [1.0, 0.0],
        [],
        [[1.0, 0.0], [0.0, np.nan]],
        [[1.0, 1.0], [1.0, 1.0 + 1e-16]],
        [1.0, 1e-320],
        ChainInertia([1.0, 1.0], [1e-17, 1.0]),
    ],
    ids=["oblong", "skew", "indefinite", "massless", "empty", "nan", "singular", "tiny", "links"],
)
def test_inertia_is_symmetric_and_positive_definite(inertia):
    form = CHAIN.form
    with pytest.raises(InputError, match="inertia"):
        SpheresLagrangian(inertia, form.potential, form.potential_gradient)


def test_every_name_makes_an_integrator_of_that_name():
    names = integrators.names()
    assert len(set(names)) == len(names) >= 15
    for name in names:
        integrator = integrators.get(name)
        assert integrator.name == name
        assert integrator.order in (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 17, EXACT)
        assert integrator.method.description
