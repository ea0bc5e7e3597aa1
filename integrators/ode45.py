"""RK45: the Dormand–Prince pair of order 5(4) under the step control of MATLAB's ode45.

Lee, Leok and McClamroch compare with ode45. With threshold = absolute / relative tolerance and a
step from y to y₁, of weighted error

    e = h ‖Σ_s E_s k_s / max(|y|, |y₁|, threshold)‖∞,

a step is accepted where e ≤ RelTol. The next size is h / x, or 5 h where x ≤ 1/5, with
x = 1.25 (e/RelTol)^(1/5), and h again after a rejection. The first rejection of a step multiplies
h by max(1/10, 0.8 (RelTol/e)^(1/5)), each later one halves it. The first step is
0.8 RelTol^(1/5) / ‖f₀ / max(|y₀|, threshold)‖∞; none is longer than a tenth of the duration, and
the last is stretched to the end where that is within 1.1 h.

Output is ``dense``, by the pair's interpolant of order 4, or ``land``: every sample time is a
step's end. L. F. Shampine and M. W. Reichelt, *The MATLAB ODE suite* (1997); J. R. Dormand and
P. J. Prince, *A family of embedded Runge–Kutta formulae* (1980).
"""

import math
from dataclasses import replace

import numpy as np
from numba import types

from integrators.adaptive import Solution, bound
from integrators.flows import VectorField
from integrators.kernels import Kernel, inlined, whole_state
from integrators.lanes import array, flat, vectors
from integrators.memory import aligned
from integrators.methods import FORMULATION, Method, Option
from integrators.stepping import (
    ABS_MEAN,
    COMPLETE,
    MEAN,
    MONITORED,
    NOT_CONVERGED,
    NOT_FINITE,
    REPORT_SIZE,
    STATISTICS,
    STATUS_ROW,
    fail,
    first_error,
    is_finite,
    next_error,
    poison,
)
from integrators.tableaux import DORMAND_PRINCE54
from integrators.vectors import axpy, get, put, scale
from integrators.views import rows_of, tail

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
_WITHOUT_ESTIMATE = replace(DORMAND_PRINCE54, embedded=()).constants
CONSTANTS = np.concatenate([_WITHOUT_ESTIMATE, ERROR, np.ravel(DENSE)])
NODES, MATRIX = STAGES, 2 * STAGES  # where they begin in the constants
ERROR_WEIGHTS = MATRIX + STAGES * STAGES
DENSE_WEIGHTS = ERROR_WEIGHTS + STAGES

SMALLEST = 16 * 2.0**-52  # a step that is smaller beside t can hardly be told from none
LARGEST = 0.1  # of the duration

RELATIVE, ABSOLUTE, END, LAND, SETTINGS = range(5)
# The rows of `control`: a report, then what the loop carries from step to step.
TIME, OLD_TIME, SIZE, FIRST_SIZE, STEPS, REJECTED, EVALUATIONS, COUNTED, BASELINE = range(
    REPORT_SIZE, REPORT_SIZE + 9
)
CONTROL = BASELINE + MONITORED


def memory_size(rows):
    """Elements carried from step to step: the last state, slopes, the next state, weights."""
    return 3 * rows * (STAGES + 2) + STAGES


@inlined
def _slope(size, s):
    """Where slope `s` begins in the memory; ``s = STAGES`` is the state that is tried."""
    return 3 * size * (s + 1)


@inlined
def _copy(source, target):
    for i in range(source.shape[0]):
        put(target, i, get(source, i))


@inlined
def _fifth_root(x):
    """x^(1/5) for 0 < x ≤ 1, by Newton's method from above: the same on every CPU."""
    root, below = 1.0, 0.8 + 0.2 * x
    while below < root:
        root = below
        square = root * root
        below = 0.8 * root + 0.2 * (x / (square * square))
    return root


@inlined
def _worst(largest, value):
    """The larger one; NaN stays."""
    return value if value > largest or value != value else largest


@inlined
def _first_size(y, slope, settings):
    """h₀, but for the bound on all steps."""
    threshold = settings[ABSOLUTE] / settings[RELATIVE]
    rate = 0.0
    for i in range(y.shape[0]):
        for c in range(3):
            rate = _worst(rate, abs(slope[i, c]) / max(abs(y[i, c]), threshold))
    h = settings[END]
    root = 0.8 * _fifth_root(settings[RELATIVE])
    return root / rate if h * rate > root else h


@inlined
def _begin(field, monitor, settings, control, y, memory, p, work):
    """Slope, size of the first step and monitored values of the initial state."""
    size, scratch = y.shape[0], tail(work, 3)
    slope = rows_of(memory, _slope(size, STAGES - 1), size)
    field(0.0, y, p, slope, scratch)
    control[EVALUATIONS] = 1.0
    fail(control, is_finite(y) and is_finite(slope), NOT_FINITE, 0, math.nan)
    control[SIZE] = _first_size(y, slope, settings)
    monitor(0.0, y, p, rows_of(work, 0, 1), scratch)
    for m in range(MONITORED):
        control[BASELINE + m] = 0.0
    control[BASELINE] = work[0]


@inlined
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


@inlined
def _error(constants, settings, h, y, memory):
    """The weighted error of an attempt; NaN where it is not finite."""
    size = y.shape[0]
    threshold = settings[ABSOLUTE] / settings[RELATIVE]
    trial, weights = rows_of(memory, _slope(size, STAGES), size), tail(constants, ERROR_WEIGHTS)
    largest = 0.0 if is_finite(trial) else math.nan
    for i in range(size):
        total = scale(weights[0], get(rows_of(memory, _slope(size, 0), size), i))
        for s in range(1, STAGES):
            total = axpy(weights[s], get(rows_of(memory, _slope(size, s), size), i), total)
        for c in range(3):
            most = max(max(abs(y[i, c]), abs(trial[i, c])), threshold)
            largest = _worst(largest, abs(total[c]) / most)
    return h * largest


@inlined
def _rejected_size(h, smallest, ratio, first):
    """The next try after an error of 1/`ratio` tolerances."""
    factor = 0.5
    if first:
        factor = max(0.1, 0.8 * _fifth_root(ratio)) if ratio > 1e-6 else 0.1
    return max(smallest, factor * h)


@inlined
def _accepted_size(h, ratio):
    """The next size after an error of `ratio` tolerances and no rejection."""
    x = 1.25 * _fifth_root(max(ratio, 1e-6))
    return h / x if x > 0.2 else 5.0 * h


@inlined
def _step(field, settings, constants, control, goal, y, memory, p, scratch):
    """One accepted step, not beyond `goal`; or a failure, noted in `control`."""
    size, t, wanted = y.shape[0], control[TIME], control[SIZE]
    tolerance, smallest = settings[RELATIVE], SMALLEST * control[TIME]
    h = min(max(wanted, smallest), LARGEST * settings[END])
    reaches = 1.1 * h >= goal - t
    h = goal - t if reaches else h
    _copy(rows_of(memory, _slope(size, STAGES - 1), size), rows_of(memory, _slope(size, 0), size))
    fresh = True  # no attempt was rejected yet
    while True:
        _attempt(field, constants, t, h, y, memory, p, scratch)
        control[EVALUATIONS] += STAGES - 1.0
        error = _error(constants, settings, h, y, memory)
        if error <= tolerance:
            break
        control[REJECTED] += 1.0
        if h <= smallest:
            ok = h > smallest  # a truth value of the compiled type
            code = NOT_CONVERGED if error > tolerance else NOT_FINITE
            fail(control, ok, code, control[STEPS], error)
            return
        h = _rejected_size(h, smallest, tolerance / error, fresh)
        fresh = reaches = False
    control[STEPS] += 1.0
    control[COUNTED] = 0.0
    control[OLD_TIME] = t
    control[TIME] = goal if reaches else t + h
    if t == 0.0:
        control[FIRST_SIZE] = h
    control[SIZE] = h
    if fresh:
        control[SIZE] = _accepted_size(h, error / tolerance)
        if reaches and h < wanted:  # cut short at a sample: no measure for the next
            control[SIZE] = max(control[SIZE], wanted)
    _copy(y, rows_of(memory, 0, size))
    _copy(rows_of(memory, _slope(size, STAGES), size), y)


@inlined
def _interpolate(constants, control, t, y, memory, out):
    """The state at a time `t` within the last step."""
    size, old = y.shape[0], rows_of(memory, 0, y.shape[0])
    weights = tail(memory, 3 * size * (STAGES + 2))
    h = control[TIME] - control[OLD_TIME]
    part = (t - control[OLD_TIME]) / h
    for s in range(STAGES):
        powers = tail(constants, DENSE_WEIGHTS + s * POWERS)
        total = powers[POWERS - 1]
        for j in range(POWERS - 1):
            total = powers[POWERS - 2 - j] + part * total
        weights[s] = part * total
    for i in range(size):
        total = scale(weights[0], get(rows_of(memory, _slope(size, 0), size), i))
        for s in range(1, STAGES):
            total = axpy(weights[s], get(rows_of(memory, _slope(size, s), size), i), total)
        put(out, i, axpy(h, total, get(old, i)))


@inlined
def _count(monitor, control, steps, y, p, work, statistics):
    """Take the state at the last step's end into the statistics of its sample interval."""
    observed = rows_of(work, 0, 1)
    monitor(control[TIME], y, p, observed, tail(work, 3))
    for m in range(MONITORED):
        error = observed[0, m] - control[BASELINE + m]
        if steps == 0:
            first_error(statistics, m, error)
        else:
            next_error(statistics, m, error)


@inlined
def _close(statistics, steps):
    """Sums to means; NaN where no step ended in the interval, or one failed."""
    for m in range(MONITORED):
        if steps > 0:
            statistics[m, MEAN] = statistics[m, MEAN] / steps
            statistics[m, ABS_MEAN] = statistics[m, ABS_MEAN] / steps
        else:
            for s in range(STATISTICS):
                statistics[m, s] = math.nan


def _integrate(
    field, monitor, settings, constants, times, control, y, memory, p, work,
    samples, step_sizes, statistics,
):  # fmt: skip
    """Fill `samples` (S, rows, 3) and `step_sizes` (S,) at `times` (S,), from where it stands.

    `statistics` has S entries, or none if none are wanted. The first call, with a `control` of
    zeros, begins at time 0; later ones go on.
    """
    if control[EVALUATIONS] == 0.0:
        _begin(field, monitor, settings, control, y, memory, p, work)
    for s in range(times.shape[0]):
        t, steps = times[s], 0
        goal = t if settings[LAND] > 0.0 else settings[END]
        while True:
            if statistics.shape[0] > 0 and control[COUNTED] == 0.0 and control[TIME] <= t:
                if control[STEPS] > 0.0:
                    _count(monitor, control, steps, y, p, work, statistics[s])
                    steps += 1
                control[COUNTED] = 1.0
            if control[STATUS_ROW] > COMPLETE or control[TIME] >= t:
                break
            _step(field, settings, constants, control, goal, y, memory, p, tail(work, 3))
        if control[STATUS_ROW] > COMPLETE:
            poison(y, control[STATUS_ROW] <= COMPLETE)
            steps = 0
        if control[STATUS_ROW] > COMPLETE or control[TIME] == t:
            _copy(y, samples[s])
        else:
            _interpolate(constants, control, t, y, memory, samples[s])
        step_sizes[s] = control[TIME] - control[OLD_TIME]
        if statistics.shape[0] > 0:
            _close(statistics[s], steps)


def _integrate_signature(element):
    whole = types.FunctionType(whole_state(element))
    numbers, stack = flat(element), vectors(element)
    stacks = array(element, 3)
    return types.void(
        whole, whole, numbers, numbers, numbers, numbers, stack, numbers, numbers, numbers,
        stacks, numbers, stacks,
    )  # fmt: skip


integrate = Kernel(_integrate, _integrate_signature)


# --- the method -------------------------------------------------------------------------------

ABSOLUTE_TOLERANCE = 1e-6  # ode45's; at small tolerances it would decide alone


def _solve(problem, state, times, tolerance, statistics):
    """Integrate one trajectory; see `adaptive.AdaptiveProblem`."""
    rows, samples = problem.rows, len(times) - 1
    settings = np.zeros(SETTINGS)
    absolute = problem.options["absolute_tolerance"] or min(ABSOLUTE_TOLERANCE, tolerance)
    settings[[RELATIVE, ABSOLUTE, END]] = tolerance, absolute, times[-1]
    settings[LAND] = problem.options["output"] == "land"
    control, memory, y = aligned(CONTROL), aligned(memory_size(rows)), aligned((rows, 3))
    work = aligned(3 + max(problem.field.work(rows), problem.monitor.work(rows)))
    states, sizes = aligned((samples + 1, rows, 3)), np.zeros(samples + 1)
    kept = aligned((samples if statistics else 0, MONITORED, STATISTICS))
    y[:] = states[0] = state
    integrate.scalar(
        problem.field.scalar, problem.monitor.scalar, settings, CONSTANTS, times[1:], control, y,
        memory, problem.parameters, work, states[1:], sizes[1:], kept,
    )  # fmt: skip
    sizes[0] = control[FIRST_SIZE]
    return Solution(
        states=states,
        statistics=kept,
        step_sizes=sizes,
        report=control[:REPORT_SIZE],
        steps=int(control[STEPS]),
        rejected_steps=int(control[REJECTED]),
        evaluations=int(control[EVALUATIONS]),
    )


def _bind(form, integrator):
    return bound(form, _solve, (integrate,), integrator.options)


RK45 = Method(
    name="rk45",
    description="Dormand–Prince 5(4), adaptive, with the step control of MATLAB's ode45",
    order=5,
    symmetric=False,
    forms=(VectorField,),
    preserves={"momentum_map": ("linear",), "casimir": ("linear",)},
    bind=_bind,
    evaluations=STAGES - 1,
    options={
        "absolute_tolerance": Option(
            0.0, "error allowed in a number that is small; 0: the tolerance, but at most 1e-6"
        ),
        "formulation": FORMULATION,
        "output": Option(
            "dense",
            "sample times by interpolation (dense), or as steps' ends (land)",
            choices=("dense", "land"),
        ),
    },
    adaptive=True,
)
