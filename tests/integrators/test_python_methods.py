"""Methods whose step is a Python function have what all others have, and say what is wrong."""

import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from waiting import HANG

import integrators
import systems
from integrators.compiler.callbacks import is_jitted
from integrators.errors import InputError
from integrators.forms.forms import velocities
from integrators.method import Integrator
from integrators.plugin import python_method
from integrators.python_methods import SystemFunctions
from integrators.status import NOT_FINITE
from integrators.stepping.python_step import Calls, collecting_errors

PENDULUM = systems.get("spherical_pendulum_chain")
START = PENDULUM.start("lee")
WITH_GRADIENTS = {
    "nbody_sphere": {},
    "heisenberg_chain": {},
    "nambu_quadratic": {},
    "heavy_top": {"formulation": "lie_poisson"},
}


def rk4(f, t, y, h):
    k1 = f(t, y)
    k2 = f(t + h / 2, y + h / 2 * k1)
    k3 = f(t + h / 2, y + h / 2 * k2)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(t + h, y + h * k3))


def euler(f, t, y, h):
    return y + h * f(t, y)


def lie_euler(system, t, y, h):
    return system.moved(h * system.generator(t, y), y)


def midpoint(system, t, y, h):
    new = y + h * system.field(t, y)
    for _ in range(60):
        last, new = new, y + h * system.field(t + h / 2, (y + new) / 2)
        if np.array_equal(last, new):
            break
    return new


RK4 = Integrator(python_method(rk4, order=4))


def ends(method, start=START, system=PENDULUM, **settings):
    settings = {"step_size": 0.01, "duration": 0.2, "samples": 2} | settings
    return integrators.integrate(system, method, start, **settings)


def test_it_steps_as_the_compiled_one_does_and_counts_evaluations():
    own, known = ends(RK4), ends(integrators.get("rk4"))
    np.testing.assert_allclose(own.states, known.states, rtol=0, atol=1e-14)
    assert own.counters["evaluations"] == known.counters["evaluations"] == 80


def test_runs_side_by_side_are_bitwise_the_runs_alone():
    starts = PENDULUM.ensemble(3, 1, START, 1e-2)
    together = ends(RK4, starts)
    for k, start in enumerate(starts):
        assert np.array_equal(together.states[k], ends(RK4, start).states)


@pytest.mark.slow
def test_a_jitted_step_is_taken_as_it_is():
    jitted, plain = numba.njit(euler), Integrator(python_method(euler, order=1))
    assert is_jitted(jitted) and not is_jitted(euler)
    run = ends(Integrator(python_method("jitted", jitted, order=1)))
    np.testing.assert_allclose(run.states, ends(plain).states, rtol=0, atol=1e-14)
    assert run.counters["evaluations"] == 20
    compiled = len(jitted.signatures)
    changed = systems.get("spherical_pendulum_chain", mass=[0.3, 0.1])
    own, known = (
        ends(method, system=changed)
        for method in (Integrator(python_method("jitted", jitted, order=1)), plain)
    )
    np.testing.assert_allclose(own.states, known.states, rtol=0, atol=1e-14)
    assert len(jitted.signatures) == compiled  # once for all parameters


def test_a_symmetric_one_is_composed_and_leads_back():
    method = Integrator(python_method(midpoint, order=2, symmetric=True), "suzuki4")
    exact = ends(integrators.get("dop853"), step_size=None, tolerance=1e-13).states[-1]
    coarse, fine = (
        np.linalg.norm(ends(method, step_size=h).states[-1] - exact) for h in (0.02, 0.01)
    )
    assert np.log2(coarse / fine) == pytest.approx(4.0, abs=0.2)
    assert integrators.reversal_error(PENDULUM, method, START, step_size=0.01, steps=5) < 1e-14


def test_the_symplectic_defect_is_measured_and_exponents_are_refused():
    own, known = (
        integrators.symplectic_defect(PENDULUM, method, START, step_size=0.05)
        for method in (RK4, integrators.get("rk4"))
    )
    assert own.defect == pytest.approx(known.defect, rel=1e-3)
    with pytest.raises(InputError, match="'rk4' takes its steps in Python: no tangent vectors"):
        integrators.lyapunov_exponents(PENDULUM, RK4, START, step_size=0.1, duration=1.0, samples=1)


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_the_functions_of_a_system_are_those_of_its_kernels(name):
    system = systems.get(name, **WITH_GRADIENTS[name])
    (state,) = system.ensemble(1, 5)
    form = system.form
    own = SystemFunctions(form, form.vector_field(), Calls())
    field = form.vector_field()
    (energy,) = (of for of in system.quantities if of.kind == "energy")
    n = form.bodies if name == "nbody_sphere" else form.rows
    gradient = form.potential_gradient if name == "nbody_sphere" else form.gradient
    moving = velocities(state) if name == "nbody_sphere" else state
    for made, kernel, y, p, rows in (
        (own.field(0.3, state), field.field, state, field.parameters, form.rows),
        (own.gradient(0.3, state), gradient, state[:n], form.parameters, n),
        (own.energy(0.3, state), energy.function, moving, form.packed, 1),
    ):
        out = np.zeros((rows, 3))
        work = np.zeros(kernel.work(form.rows) + 1)
        kernel.scalar(0.3, np.array(y), np.array(p, dtype=float), out, work)
        np.testing.assert_allclose(made, out if np.ndim(made) else out[0, 0], rtol=1e-14)


@pytest.mark.parametrize("name", ["spherical_pendulum_chain", "heisenberg_chain", "heavy_top"])
def test_a_step_along_the_action_is_that_of_lie_euler(name):
    system = systems.get(name)
    (start,) = system.ensemble(1, 5)
    own = ends(Integrator(python_method(lie_euler, order=1)), start, system, step_size=0.1)
    known = ends(integrators.get("lie_euler"), start, system, step_size=0.1)
    size = np.abs(known.states).max()
    np.testing.assert_allclose(own.states, known.states, rtol=0, atol=1e-14 * size)


def flat(f, t, y, h):
    return (y + h * f(t, y)).ravel()


def rough(f, t, y, h):
    return (y + h * f(t, y)).astype(np.float32)


def nothing(f, t, y, h):
    pass


def changing(f, t, y, h):
    y += h * f(t, y)
    return y


MEMORY = []


def keeping(f, t, y, h):
    MEMORY.append(1.0)
    return y + len(MEMORY) * h * f(t, y)


def asking(f, t, y, h):
    return y + h * f(t, y.ravel())


def raising(f, t, y, h):
    if t > 0.1:
        raise ArithmeticError("no solution")
    return y + h * f(t, y)


def leaving(f, t, y, h):
    sys.exit(1)


def disordered(y, of, t, h):
    return y + h * of(t, y)


def vanishing(f, t, y, h):
    return y + (np.nan if t > 0.1 else h) * f(t, y)


@pytest.mark.parametrize(
    ("step", "line", "message"),
    [
        (flat, 0, "returns an array of float64, shape (12,); expected an array of float64, shape"),
        (rough, 0, "returns an array of float32, shape (4, 3); expected an array of float64"),
        (nothing, 0, "returns None; expected an array of float64, shape (4, 3)"),
        (changing, 1, "changes its argument y; expected a new array"),
        (keeping, 0, "returns another state when it is called again with the same arguments"),
        (asking, 1, "calls a function of the system with y of shape (12,); expected (4, 3)"),
        (raising, 2, "ArithmeticError: no solution"),
        (leaving, 1, "SystemExit: 1"),
        (disordered, 1, "TypeError: 'float' object is not callable; the signature is step(f, t, y"),
    ],
)
def test_what_is_wrong_with_a_step_is_said_with_file_and_line(step, line, message):
    with pytest.raises(InputError) as caught:
        ends(Integrator(python_method(step, order=1)))
    first = inspect.getsourcelines(step)[1]
    place = f"step {step.__name__!r} ({__file__}, line {first + line}): "
    assert str(caught.value).startswith(place + message)


def test_evaluations_that_are_declared_are_counted_once():
    with pytest.raises(InputError, match="evaluates the system's functions 4 times; evaluations"):
        ends(Integrator(python_method(rk4, order=4, evaluations=3)))
    run = ends(Integrator(python_method(rk4, order=4, evaluations=4)))
    assert run.counters["evaluations"] == 80


@pytest.mark.parametrize(
    ("step", "said"), [(raising, "ArithmeticError: "), (vanishing, "returns a state that is not")]
)
def test_a_run_that_fails_is_the_only_one_where_errors_are_collected(step, said):
    def one_fails(f, t, y, h):
        return step(f, t, y, h) if np.linalg.norm(y[3]) > 3.0 else euler(f, t, y, h)

    failing = START.copy()
    failing[3] *= 4.0 / np.linalg.norm(START[3])
    method = Integrator(python_method(one_fails, order=1))
    with collecting_errors() as errors:
        run = ends(method, np.array([START, failing]))
    assert run.status.tolist() == [0, NOT_FINITE]
    assert np.array_equal(run.states[0], ends(Integrator(python_method(euler, order=1))).states)
    assert np.isnan(run.states[1, -1]).all()
    ((place, what),) = errors.items()
    assert place.startswith(f"step 'one_fails' ({__file__}, line ") and what.startswith(said)


def test_an_interruption_ends_the_run():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it

    def interrupted(f, t, y, h):
        if t > 0.05:
            signal.raise_signal(signal.SIGINT)
        return y + h * f(t, y)

    try:
        with pytest.raises(KeyboardInterrupt):
            ends(Integrator(python_method(interrupted, order=1)), step_size=1e-4)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3,), "name = 3; expected a text, then the step"),
        (("own",), "step = None; expected a function step(f, t, y, h)"),
        (("own", np.sin), "step = <ufunc 'sin'>; expected a function"),
        (("own", lambda t, y: y), "takes (t, y); expected (f, t, y, h) or (system, t, y, h)"),
        (("own", numba.njit(lie_euler)), "is compiled and takes a system"),
    ],
)
def test_what_is_no_step_is_refused(arguments, message):
    with pytest.raises(InputError) as caught:
        python_method(*arguments, order=1)
    assert message in str(caught.value)


PLAIN = """
import numpy as np, sys
from test_python_methods import RK4, ends
np.save(sys.argv[1], ends(RK4).states)
"""


@pytest.mark.slow
def test_plain_python_gives_the_same_bits(tmp_path):
    paths = [Path(integrators.__file__).parents[1], Path(__file__).parent]
    paths.append(Path(sys.modules["waiting"].__file__).parent)
    path = os.pathsep.join(map(str, paths))
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
    file = tmp_path / "plain.npy"
    command = [sys.executable, "-P", "-W", "ignore", "-c", PLAIN, file]
    subprocess.run(command, env=environment, check=True, timeout=HANG)
    assert np.array_equal(np.load(file), ends(RK4).states)
