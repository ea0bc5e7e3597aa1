"""RK45: the Dormand–Prince pair of order 5(4) under the step control of MATLAB's ode45.

Lee, Leok and McClamroch compare with ode45. With threshold = absolute / relative tolerance and a
step from y to y₁, of weighted error

    e = h ‖Σ_s E_s k_s / max(|y|, |y₁|, threshold)‖∞,

a step is accepted where e ≤ RelTol. The next size is h / x, or 5 h where x ≤ 1/5, with
x = 1.25 (e/RelTol)^(1/5), and h again after a rejection. The first rejection of a step multiplies
h by max(1/10, 0.8 (RelTol/e)^(1/5)), each later one halves it. The first step is
0.8 RelTol^(1/5) / ‖f₀ / max(|y₀|, threshold)‖∞, at most 1.

Output is ``dense``, by the pair's interpolant of order 4, or ``land``: every sample time is a
step's end, and a step is stretched to one that is within 1.1 h.

Other than in ode45 no step depends on the duration, so that a run can be extended: ode45 bounds
all steps by a tenth of the duration, and lands on its end; here the last step leads beyond it,
unless that is a sample to land on. L. F. Shampine and M. W. Reichelt, *The MATLAB ODE suite*
(1997); J. R. Dormand and P. J. Prince, *A family of embedded Runge–Kutta formulae* (1980).
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from integrators.compiler.kernels import inlined, spliced
from integrators.compiler.lanes import double_of
from integrators.compiler.vectors import axpy, get, put, scale
from integrators.compiler.views import rows_of, tail
from integrators.forms.flows import Form, VectorField
from integrators.method import FIXED, FORMULATION, Integrator, Method
from integrators.methods.runge_kutta import explicit_method
from integrators.options import Option
from integrators.solvers.failures import fail, is_finite
from integrators.status import NOT_FINITE, STEP_TOO_SMALL
from integrators.stepping.adaptive import AdaptiveProblem, vector_field_problem
from integrators.stepping.adaptive_loop import (
    EVALUATIONS,
    OLD_TIME,
    OUTPUT,
    OWN,
    REJECTED,
    SIZE,
    STEPS,
    TIME,
    TOLERANCE,
    Looped,
    accepted,
    copy,
    larger,
    loop,
    note,
    smallest_at,
)
from integrators.stepping.step_control import root
from integrators.tableaux.butcher import DORMAND_PRINCE5, DORMAND_PRINCE54

ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
# y(t + θh) = y + h Σ_s (Σ_j θ^j DENSE[s][j − 1]) k_s
DENSE = (
    (1.0, -183 / 64, 37 / 12, -145 / 128),
    (0.0, 0.0, 0.0, 0.0),
    (0.0, 1500 / 371, -1000 / 159, 1000 / 371),
    (0.0, -125 / 32, 125 / 12, -375 / 64),
    (0.0, 9477 / 3392, -729 / 106, 25515 / 6784),
    (0.0, -11 / 7, 11 / 3, -55 / 28),
    (0.0, 3 / 2, -4.0, 5 / 2),
)
STAGES, POWERS = np.shape(DENSE)
_WITHOUT_ESTIMATE = replace(DORMAND_PRINCE54, embedded=())
NODES, MATRIX = STAGES, 2 * STAGES  # where they begin in the constants
ERROR_WEIGHTS = MATRIX + STAGES * STAGES
DENSE_WEIGHTS = ERROR_WEIGHTS + STAGES

LARGEST_FIRST = 1.0  # step, in the system's unit of time
ABSOLUTE = OWN  # in the settings, the one of its own


def memory_size(rows: int) -> int:
    """Elements carried from step to step: the last state, slopes, the next state, weights."""
    return 3 * rows * (STAGES + 2) + STAGES


@inlined
def _slope(size, s):
    """Where slope `s` begins in the memory; ``s = STAGES`` is the state that is tried."""
    return 3 * size * (s + 1)


@inlined
def _worst(largest, value):
    """The larger one; NaN stays."""
    return value if value > largest or value != value else largest


@inlined
def _first_size(y, slope, settings):
    """h₀."""
    threshold = settings[ABSOLUTE] / settings[TOLERANCE]
    rate = 0.0
    for i in range(y.shape[0]):
        for c in range(3):
            size = max(abs(double_of(y[i, c])), threshold)
            rate = _worst(rate, abs(double_of(slope[i, c])) / size)
    most = 0.8 * root(settings[TOLERANCE], 5)
    return most / rate if LARGEST_FIRST * rate > most else LARGEST_FIRST


@spliced
def _begin(field, settings, control, y, memory, p, scratch):
    """Slope and size of the first step."""
    size = y.shape[0]
    slope = rows_of(memory, _slope(size, STAGES - 1), size)
    field(control[TIME], y, p, slope, scratch)
    control[EVALUATIONS] = 1.0
    fail(control, is_finite(y) and is_finite(slope), NOT_FINITE, 0, math.nan)
    control[SIZE] = _first_size(y, slope, settings)


@spliced
def _attempt(field, constants, t, h, y, memory, p, scratch):
    """All slopes but the first of a step of `h`; the new state is the last one's argument."""
    size = y.shape[0]
    trial = rows_of(memory, _slope(size, STAGES), size)
    for s in range(1, STAGES):
        weights = tail(constants, MATRIX + s * STAGES)
        for i in range(size):
            total = scale(weights[0], get(rows_of(memory, _slope(size, 0), size), i))
            for r in range(1, s):
                if weights[r] != 0.0:
                    total = axpy(weights[r], get(rows_of(memory, _slope(size, r), size), i), total)
            put(trial, i, axpy(h, total, get(y, i)))
        field(
            t + constants[NODES + s] * h, trial, p, rows_of(memory, _slope(size, s), size), scratch
        )


@spliced
def _error(constants, settings, h, y, memory):
    """The weighted error of an attempt; NaN where it is not finite."""
    size = y.shape[0]
    threshold = settings[ABSOLUTE] / settings[TOLERANCE]
    trial, weights = rows_of(memory, _slope(size, STAGES), size), tail(constants, ERROR_WEIGHTS)
    largest = 0.0 if is_finite(trial) else math.nan
    for i in range(size):
        total = scale(weights[0], get(rows_of(memory, _slope(size, 0), size), i))
        for s in range(1, STAGES):
            total = axpy(weights[s], get(rows_of(memory, _slope(size, s), size), i), total)
        for c in range(3):
            most = max(abs(double_of(y[i, c])), abs(double_of(trial[i, c])))
            largest = _worst(largest, abs(double_of(total[c])) / max(most, threshold))
    return double_of(h) * largest


@inlined
def _rejected_size(h, smallest, ratio, first):
    """The next try after an error of 1/`ratio` tolerances."""
    factor = 0.5
    if first:
        factor = max(0.1, 0.8 * root(ratio, 5)) if ratio > 1e-6 else 0.1
    return larger(smallest, factor * h)


@inlined
def _accepted_size(h, ratio):
    """The next size after an error of `ratio` tolerances and no rejection."""
    x = 1.25 * root(max(ratio, 1e-6), 5)
    return h / x if x > 0.2 else 5.0 * h


@spliced
def _step(field, unused, none, settings, constants, control, goal, y, memory, p, scratch, history):
    """One accepted step, not beyond `goal`; or a failure, noted in `control`."""
    size, t, wanted = y.shape[0], control[TIME], control[SIZE]
    tolerance, smallest = settings[TOLERANCE], smallest_at(t)
    h = larger(wanted, smallest)
    reaches = 1.1 * h >= goal - t
    h = goal - t if reaches else h
    copy(rows_of(memory, _slope(size, STAGES - 1), size), rows_of(memory, _slope(size, 0), size))
    fresh = True  # no attempt was rejected yet
    while True:
        _attempt(field, constants, t, h, y, memory, p, scratch)
        control[EVALUATIONS] += STAGES - 1.0
        error = _error(constants, settings, h, y, memory)
        done = error <= tolerance
        note(history, control, t, h, error, done)
        if done:
            break
        control[REJECTED] += 1.0
        if h <= smallest:
            fail(control, done, STEP_TOO_SMALL, control[STEPS], error)
            return
        h = _rejected_size(h, smallest, tolerance / error, fresh)
        fresh = reaches = False
    accepted(control, t, h, goal, reaches)
    control[SIZE] = h
    if fresh:
        control[SIZE] = _accepted_size(h, error / tolerance)
        if reaches and h < wanted:  # cut short at a sample: no measure for the next
            control[SIZE] = larger(control[SIZE], wanted)
    copy(y, rows_of(memory, 0, size))
    copy(rows_of(memory, _slope(size, STAGES), size), y)


@inlined
def interpolant(part, dense, weights):
    """Weights of the slopes at a part of a step, of the coefficients `DENSE` row by row."""
    for s in range(STAGES):
        powers = tail(dense, s * POWERS)
        total = powers[POWERS - 1]
        for j in range(POWERS - 1):
            total = powers[POWERS - 2 - j] + part * total
        weights[s] = part * total


@spliced
def _interpolate(field, unused, none, settings, constants, control, t, y, memory, p, scratch, out):
    """The state at a time `t` within the last step."""
    size, old = y.shape[0], rows_of(memory, 0, y.shape[0])
    weights = tail(memory, 3 * size * (STAGES + 2))
    h = control[TIME] - control[OLD_TIME]
    interpolant((t - control[OLD_TIME]) / h, tail(constants, DENSE_WEIGHTS), weights)
    for i in range(size):
        total = scale(weights[0], get(rows_of(memory, _slope(size, 0), size), i))
        for s in range(1, STAGES):
            total = axpy(weights[s], get(rows_of(memory, _slope(size, s), size), i), total)
        put(out, i, axpy(h, total, get(old, i)))


integrate = loop(_begin, _step, _interpolate, "rk45")


# --- the method -------------------------------------------------------------------------------

ABSOLUTE_TOLERANCE = 1e-6  # ode45's; at small tolerances it would decide alone


def _method_settings(options: Mapping[str, Any], tolerance: float) -> list[float]:
    return [options["absolute_tolerance"] or min(ABSOLUTE_TOLERANCE, tolerance)]


def constants_of(integrator: Integrator) -> np.ndarray:
    """Constants that the kernel reads: of the tableau, the error and the interpolant."""
    of_error, dense = (map(integrator.constant, np.ravel(of).tolist()) for of in (ERROR, DENSE))
    return np.array([*integrator.constants_of(_WITHOUT_ESTIMATE), *of_error, *dense])


def _bind(form: Form, integrator: Integrator) -> AdaptiveProblem:
    form = form.vector_field(integrator.options["formulation"])
    work = form.field.work(form.rows)
    solve = Looped(integrate, _method_settings, memory_size(form.rows), work)
    constants = constants_of(integrator)
    return vector_field_problem(
        form, solve, (), integrator.options, solve.carried, integrate, constants
    )


RK45 = Method(
    name="rk45",
    sources=("dormandprince1980", "shampinereichelt1997"),
    description="Dormand–Prince 5(4), adaptive, with the step control of MATLAB's ode45",
    order=5,
    symmetric=False,
    forms=(VectorField,),
    preserves={"momentum_map": ("linear",), "casimir": ("linear",)},
    bind=_bind,
    evaluations=STAGES - 1,
    family="runge_kutta",
    options={
        "absolute_tolerance": Option(
            0.0, "absolute error allowed per component; 0: the relative tolerance, at most 1e-6"
        ),
        "formulation": FORMULATION,
        "output": OUTPUT,
    },
    adaptive=True,
    fixed=explicit_method(
        f"rk45+{FIXED}", "Dormand–Prince of order 5 with a constant step", 5, DORMAND_PRINCE5
    ),
)
