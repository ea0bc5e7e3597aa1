"""Methods from one function have what all others have: against built-in ones that step alike."""

import dataclasses
import importlib.abc
import importlib.util
import sys

import numpy as np
import pytest
from plugin_text import LEAPFROG

import integrators
import systems
from integrators.diagnostics.structure import defect_of_map, symplectic_defect
from integrators.errors import InputError
from integrators.forms.phase_spaces import phase_space
from integrators.method import Integrator
from integrators.plugin import (
    HomogeneousFlow,
    SpheresLagrangian,
    SpinHamiltonian,
    axpy,
    get,
    put,
    rows_of,
    scale,
    simple_method,
)
from integrators.stepping.batch import run_ends


class Text(importlib.abc.InspectLoader):
    """Makes the module of a plugin, whose kernels the cache knows by its source."""

    def get_source(self, fullname):
        return LEAPFROG


sys.modules["leapfrog"] = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("leapfrog", Text())
)
sys.modules["leapfrog"].__loader__.exec_module(sys.modules["leapfrog"])
(LEAP,) = sys.modules["leapfrog"].INTEGRATORS
BODIES = systems.get("nbody_sphere")


def midpoint(field, t, h, y, p, d, work, scratch):
    size = y.shape[0]
    slope, half = rows_of(work, 0, size), rows_of(work, 3 * size, size)
    field(t, y, p, slope, scratch)
    for i in range(size):
        put(half, i, axpy(0.5 * h, get(slope, i), get(y, i)))
    field(t + 0.5 * h, half, p, slope, scratch)
    for i in range(size):
        put(d, i, scale(h, get(slope, i)))


def frozen(generator, act, t, h, y, p, sigma, work, scratch):
    generator(t, y, p, sigma, scratch)
    for i in range(sigma.shape[0]):
        put(sigma, i, scale(h, get(sigma, i)))


OWN = {
    "rk2_midpoint": simple_method(
        "own", "midpoint rule", midpoint, order=2, evaluations=2, work=lambda rows: 6 * rows
    ),
    "lie_euler": simple_method(
        "own", "the flow of the frozen generator", frozen, form=HomogeneousFlow, order=1
    ),
}


def ends(integrator, system, start, step_size=0.01, **options):
    return integrators.integrate(
        system, integrator, start, step_size=step_size, duration=1.0, samples=4, **options
    )


@pytest.mark.parametrize(
    ("name", "system", "step"),
    [("rk2_midpoint", "spherical_pendulum_chain", 0.01), ("lie_euler", "heavy_top", 0.001)],
)
def test_it_steps_as_the_built_in_one_does(name, system, step):
    made = systems.get(system)
    start = next(iter(made.named_starts)).name
    own, known = (
        ends(method, made, made.start(start), step)
        for method in (Integrator(OWN[name]), integrators.get(name))
    )
    np.testing.assert_allclose(
        own.states, known.states, rtol=0, atol=2e-14 * np.abs(known.states).max()
    )
    assert own.status == 0


@pytest.mark.parametrize(("modifier", "order"), [("", 2), ("suzuki4", 4)])
def test_a_leapfrog_and_its_composition_have_their_orders(modifier, order):
    start = BODIES.start("lee")
    exact = integrators.integrate(
        BODIES, integrators.get("dop853"), start, tolerance=2.3e-14, duration=1.0, samples=1
    ).states[-1]
    errors = [
        np.linalg.norm(ends(Integrator(LEAP, modifier), BODIES, start, h).states[-1] - exact)
        for h in (0.01, 0.005)
    ]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.03)


def test_lanes_are_bitwise_the_runs_alone():
    starts = np.array([BODIES.start("lee"), *BODIES.ensemble(2, 1, BODIES.start("lee"), 1e-2)])
    together = ends(Integrator(LEAP), BODIES, starts)
    for k, start in enumerate(starts):
        alone = ends(Integrator(LEAP), BODIES, start)
        assert np.array_equal(together.states[k], alone.states)


def test_a_leapfrog_is_symplectic():
    problem = Integrator(LEAP).bind(BODIES)

    def moved(states):
        return run_ends(problem, states, 0.05, 1, lanes=False)

    found = defect_of_map(phase_space(BODIES.form), moved, BODIES.start("lee"), 1.0)
    assert found.defect <= found.resolution < 1e-12


@pytest.mark.slow
def test_tangents_and_precise_runs_are_those_of_the_built_in_one():
    own, known = Integrator(OWN["rk2_midpoint"]), integrators.get("rk2_midpoint")
    system = systems.get("spherical_pendulum_chain")
    start = system.start("lee")
    one, other = (
        symplectic_defect(system, method, start, step_size=0.05).defect for method in (own, known)
    )
    assert one == pytest.approx(other, rel=1e-6) and one > 1e-6
    one, other = (
        ends(dataclasses.replace(method, arithmetic="double-double"), system, start)
        for method in (own, known)
    )
    apart = (one.states - other.states) + (one.states_low - other.states_low)
    assert np.abs(apart).max() < 1e-29 and one.states_low.any()


def test_it_keeps_what_it_declares():
    start = BODIES.ensemble(1, 3, BODIES.start("lee"), 1e-2)[0]
    run = ends(Integrator(LEAP), BODIES, start)
    n = BODIES.bodies
    q, omega = run.states[:, :n], run.states[:, n : 2 * n]
    assert np.abs(np.sum(q * q, axis=2) - 1).max() < 1e-15 * 4
    assert np.abs(np.sum(q * omega, axis=2)).max() < 1e-14
    momentum = np.sum(BODIES.form.inertia[:, None] * omega, axis=1)
    assert np.abs(momentum - momentum[0]).max() < 1e-13


def test_forms_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="expected one of VectorField, SpheresLagrangian"):
        simple_method("own", "", midpoint, form=SpinHamiltonian, order=2)
    forced = systems.get("nbody_sphere", damping=0.1)
    with pytest.raises(InputError, match="needs a diagonal inertia matrix and no force"):
        Integrator(LEAP).check(forced)
    with pytest.raises(InputError, match="needs the form SpheresLagrangian"):
        Integrator(LEAP).check(systems.get("heavy_top"))
    plain = simple_method("own", "", sys.modules["leapfrog"].step, form=SpheresLagrangian, order=2)
    assert plain.condition == "no force" and not plain.fits(forced.form)
    assert dataclasses.replace(plain, name="other").fits(BODIES.form)
