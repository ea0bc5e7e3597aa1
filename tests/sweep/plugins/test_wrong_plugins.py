"""Plugins that are not what they declare are refused, and right ones are not."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import right_steps
from cases import ALIKE
from right_systems import DrivenSpin, FallingBody, Precessing
from wrong_plugins import DECLARED, WRONG

import integrators
import sweep
import systems
from integrators.method import Integrator
from integrators.methods import dormand_prince
from integrators.plugin import SpheresLagrangian, get, put, rows_of, scale, simple_method
from integrators.stepping.adaptive import run_adaptive
from sweep import errors
from sweep.plugins import method_checks
from sweep.plugins.method_checks import check_method
from sweep.plugins.system_checks import check_system
from systems.mechanical.driven_bodies import driven_bodies
from systems.plugin import quantities_of_spheres
from systems.spins.free_rigid_body import FreeRigidBody

FIRST = (  # in the first stage
    "gradient: sign of the term sin νt",
    "time_dependent: not declared",
    "total: spins that turn",
    "work: too small",
)
ANOTHERS = (  # refused by a check that refuses another one too; the benchmark of plugins tries them
    "gradient: sign",
    "gradient: of a Nambu system",
    "gradient: writes the state",
    "equation: half the time",
    "equation: two bodies of three",
)
# Of the systems that are chosen for these methods, the one whose kernels other tests compile too.
CHEAPEST = {"splitting": "heisenberg_chain", "symplectic_lie_group": "heavy_top"}


def in_stages(values):
    """Parameters, of a dict, of which those in `FIRST` are in the first stage."""
    return [
        pytest.param(value, id=what, marks=[pytest.mark.slow] * (what not in FIRST))
        for what, value in values.items()
        if what not in ANOTHERS
    ]


@pytest.mark.parametrize("wrong", in_stages({wrong.what: wrong for wrong in WRONG}))
def test_a_plugin_that_is_wrong_is_refused(tmp_path, wrong):
    (tmp_path / "plugin.py").write_text(wrong.text)
    (tmp_path / "plugin.toml").write_text(wrong.study)
    with pytest.raises(errors.StudyError) as caught:
        sweep.load_study(tmp_path / "plugin.toml")
    (line,) = str(caught.value).splitlines()
    assert wrong.said in line


@pytest.mark.parametrize("declared", in_stages(DECLARED))
def test_what_is_not_as_declared_is_refused(declared):
    check, said = declared
    with pytest.raises(systems.InputError) as caught:
        check()
    assert said in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [DrivenSpin, FallingBody, Precessing])
def test_right_systems_are_accepted(cls):
    """Of the other forms those that are built in are."""
    check_system(cls())


@pytest.mark.slow
@pytest.mark.parametrize("method", right_steps.INTEGRATORS, ids=lambda method: method.name)
def test_right_integrators_are_accepted(method):
    check_method(Integrator(method))


@pytest.mark.slow
@pytest.mark.parametrize("cls", systems.ALL_SYSTEMS)
def test_systems_that_are_built_in_pass(cls):
    system = cls()
    if cls is FreeRigidBody:  # its exact flow is one of the flows of `forced_rigid_body`
        vars(system)["form"] = replace(system.form, exact=None)
    check_system(system)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [method for method in integrators.ALL_INTEGRATORS if method.name not in ALIKE],
    ids=lambda method: method.name,
)
def test_integrators_that_are_built_in_pass(method, monkeypatch):
    integrator = integrators.get(method.name, **method.example)
    if method.name in CHEAPEST:
        name, trials = repr(CHEAPEST[method.name]), method_checks.chosen_trials(integrator, None)
        chosen = next(chosen for chosen in trials if chosen[0].name == name)
        monkeypatch.setattr(method_checks, "chosen_trials", lambda *arguments: [chosen])
    check_method(integrator)


def grasping(gradient, t, h, y, p, d, work, scratch):
    """A step that needs more scratch than it declares."""
    slope = rows_of(work, 0, y.shape[0])
    gradient(t, y, p, slope, scratch)
    for i in range(y.shape[0]):
        put(d, i, scale(h, get(slope, i)))


def bound_short(form, integrator):
    """DOP853 with times that are 0.1 % short."""
    problem = dormand_prince.METHOD.bind(form, integrator)

    def solve(of, state, times, *arguments, **options):
        return problem.solve(of, state, 0.999 * np.asarray(times), *arguments, **options)

    return replace(problem, solve=solve)


def bound_remembering(form, integrator):
    """DOP853 whose states have a last bit that alternates from run to run."""
    problem, runs = dormand_prince.METHOD.bind(form, integrator), itertools.count()

    def solve(*arguments, **options):
        solution = problem.solve(*arguments, **options)
        return replace(solution, states=solution.states * (1.0 + 2.3e-16 * (next(runs) % 2)))

    return replace(problem, solve=solve)


def bound_writing(form, integrator):
    """DOP853 that leaves its last state in its input."""
    problem = dormand_prince.METHOD.bind(form, integrator)

    def solve(of, state, *arguments, **options):
        solution = problem.solve(of, state.copy(), *arguments, **options)
        state[:] = solution.states[-1]
        return solution

    return replace(problem, solve=solve)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"bind": bound_remembering}, "in row 0 of its 'samples'.*or keeps a state"),
        ({"bind": bound_writing}, "two driven bodies writes to its 'state'"),
        ({"bind": bound_short}, "relative to the state, on two driven bodies at a tol"),
        pytest.param({"order": 14}, "order 14, and has order 10", marks=pytest.mark.slow),
        pytest.param(
            {"preserves": {"energy": ("quadratic",)}}, "and changes 'energy' of",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["memory", "input", "field", "order", "energy"],
)  # fmt: skip
def test_an_adaptive_method_without_a_fixed_step_is_measured(declared, said):
    with pytest.raises(systems.InputError, match=said):
        check_method(Integrator(replace(dormand_prince.METHOD, **declared)))


@pytest.mark.parametrize("array", ["work", "memory"])
def test_an_adaptive_run_whose_scratch_overflows_ends(array):
    body = systems.get("free_rigid_body")
    problem = integrators.get("rkmk54").bind(body)
    less = {"work": 0, "memory": problem.solve.memory - 1}[array]
    small = replace(problem, solve=replace(problem.solve, **{array: less}))
    with pytest.raises(systems.InputError, match="writes beyond its scratch"):
        run_adaptive(small, body.ensemble(1, 1), [0.0, 1.0], 1e-6)


@pytest.mark.parametrize("members", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_batch_whose_scratch_overflows_ends(members):
    method = simple_method("grasping", "", grasping, form=SpheresLagrangian, order=1)
    bodies = systems.get("nbody_sphere", count=2)
    with pytest.raises(systems.InputError, match=r"writes beyond its scratch.*grasping"):
        integrators.integrate(
            bodies, Integrator(method), bodies.ensemble(members, 1),
            step_size=0.01, duration=0.02, samples=1,
        )  # fmt: skip


def test_the_energy_of_a_potential_that_depends_on_time_is_no_invariant():
    units = {"energy": "1", "momentum": "1", "time": "1"}
    energy, *_ = quantities_of_spheres(driven_bodies(), units, "z")
    assert (energy.name, energy.kind) == ("energy", "observable")
    assert np.isfinite(driven_bodies().packed).all()
