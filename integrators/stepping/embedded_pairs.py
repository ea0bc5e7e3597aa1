"""Adaptive Lie group methods of embedded pairs: step control, error, problem.

Of two results of a step the main one is kept, and the other estimates its error (`step_control`
makes the next step of it): the Euclidean distance of the two in the embedding space, or of their
elements of the algebra where a method has one for the whole step, over all rows.

A step is cut short at a sample time that is to be a step's end; what is left of the way and smaller
than a millionth of a step is taken along. Otherwise the last step leads beyond the last sample. An
attempt that is not finite, or leaves the domain of a method, is rejected. A step that is rejected
although it is within 16 units of round-off of the time ends the run, as ``step_too_small``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from integrators.compiler.elements import Element
from integrators.compiler.kernels import Inlined, Kernel, inlined, spliced
from integrators.compiler.lanes import double_of, sqrt
from integrators.compiler.vectors import dot, get, increment, sub
from integrators.compiler.views import rows_of
from integrators.forms.flows import HomogeneousFlow
from integrators.solvers.failures import fail, is_finite
from integrators.status import NOT_FINITE, STEP_TOO_SMALL
from integrators.stepping.adaptive import AdaptiveProblem
from integrators.stepping.adaptive_loop import (
    EVALUATIONS,
    KNOWN,
    OUTPUT,
    REJECTED,
    SIZE,
    STEPS,
    TIME,
    TOLERANCE,
    Looped,
    accepted,
    copy,
    larger,
    note,
    smallest_at,
)
from integrators.stepping.problem import Stepper
from integrators.stepping.step_control import (
    CONTROL_OPTIONS,
    FIRST_STEP,
    MOST,
    OF_PAIR,
    control_settings,
    factor_of,
)

STAGES, ALGEBRA_ROWS, REUSED, OF_METHOD = range(OF_PAIR, OF_PAIR + 4)  # in the settings
UNKNOWN, REUSABLE, HELD = 0.0, 1.0, 2.0  # generator at y: not known, the last one, the first one
SLACK = 2.0**-20  # part of a step that is no step of its own

PAIR_OPTIONS = {"output": OUTPUT, **CONTROL_OPTIONS}


# --- memory: what sums lost, the state before, the increment, σ, generators of all stages --------


def memory_size(rows: int, m: int, stages: int) -> int:
    """Elements of memory that pairs carry from step to step."""
    return 9 * rows + 3 * m * (stages + 1)


@inlined
def sigma_at(size):
    """Index of σ in the flat memory; the generators follow it."""
    return 9 * size


@inlined
def increment_at(size):
    """Index in the flat memory of the increment that the last attempt adds to the state."""
    return 6 * size


@inlined
def before_at(size):
    """Index in the flat memory of the state at the beginning of the last step."""
    return 3 * size


@inlined
def norm(a):
    """The Euclidean norm of a stack, in float64."""
    total = dot(get(a, 0), get(a, 0))
    for i in range(1, a.shape[0]):
        total += dot(get(a, i), get(a, i))
    return double_of(sqrt(total))


@inlined
def distance(a, b):
    """The Euclidean distance of two stacks, in float64."""
    first = sub(get(a, 0), get(b, 0))
    total = dot(first, first)
    for i in range(1, a.shape[0]):
        d = sub(get(a, i), get(b, i))
        total += dot(d, d)
    return double_of(sqrt(total))


@spliced
def begin(generator, settings, control, y, memory, p, scratch):
    """The generator at the start, and the first step."""
    m = int(settings[ALGEBRA_ROWS])
    first = rows_of(memory, sigma_at(y.shape[0]) + 3 * m, m)
    generator(control[TIME], y, p, first, scratch)
    control[EVALUATIONS] = 1.0
    control[KNOWN] = HELD
    fail(control, is_finite(y) and is_finite(first), NOT_FINITE, 0, math.nan)
    control[SIZE] = settings[FIRST_STEP]


def controlled(attempt: Inlined) -> Inlined:
    """The ``step`` of an `adaptive_loop.loop` that repeats `attempt` until a step is accepted.

    Parameters
    ----------
    attempt : callable
        Inlined; ``attempt(function, move, pull, settings, constants, control, t, h, y, memory, p,
        work)`` writes the increment of a step and returns its error, NaN or infinite without one.
    """

    @spliced
    def step(function, move, pull, settings, constants, control, goal, y, memory, p, work, history):
        t, wanted = control[TIME], control[SIZE]
        smallest = smallest_at(t)
        h = larger(wanted, smallest)
        reaches = (1.0 + SLACK) * h >= goal - t
        h = goal - t if reaches else h
        while True:
            error = attempt(
                function, move, pull, settings, constants, control, t, h, y, memory, p, work
            )
            done = error < settings[TOLERANCE]
            note(history, control, t, h, error, done)
            factor = factor_of(settings, error)
            if done:
                break
            control[REJECTED] += 1.0
            if h <= smallest:
                fail(control, done, STEP_TOO_SMALL, control[STEPS], error)
                return
            h = larger(factor * h, smallest)
            reaches = False
        accepted(control, t, h, goal, reaches)
        control[SIZE] = factor * h
        if reaches and factor >= settings[MOST]:  # cut so short that it says nothing of the next
            control[SIZE] = larger(control[SIZE], wanted)
        size = y.shape[0]
        low, d = rows_of(memory, 0, size), rows_of(memory, increment_at(size), size)
        copy(y, rows_of(memory, before_at(size), size))
        for i in range(size):
            increment(y, low, i, get(d, i))
        control[KNOWN] = settings[REUSED]

    return step


# --- the problem ------------------------------------------------------------------------------


class EmbeddedPair(NamedTuple):
    """A method and the one embedded in it that estimates its error.

    Parameters
    ----------
    orders : sequence of int
        Order of the main method and of the embedded one.
    stages : int
        Number of stages of both together.
    reused : bool
        Whether the last stage of a step is the first of the next.
    settings : list of float
        Settings of the method itself, which its kernels read from `OF_METHOD` on.
    """

    orders: Sequence[int]
    stages: int
    reused: bool
    settings: list[float]


def pair_problem(
    flow: HomogeneousFlow,
    integrator: Stepper,
    pair: EmbeddedPair,
    *,
    integrate: Callable[[Element], Kernel],
    pull: Kernel | None,
    constants: np.ndarray | list[Any],
    memory: int,
    work: int,
) -> AdaptiveProblem:
    """The `AdaptiveProblem` of an embedded pair on a `HomogeneousFlow`.

    Parameters
    ----------
    flow : HomogeneousFlow
    integrator : Integrator
    pair : EmbeddedPair
    integrate : callable
        The loop, made by `adaptive_loop.loop`.
    pull : Kernel or None
        Kernel of dexp⁻¹ or of the bracket; None for a method without commutators.
    constants : ndarray
        Coefficients of the pair, as `Integrator.constants_of` returns them.
    memory : int
        Elements of memory besides those of `memory_size`.
    work : int
        Elements of scratch, including the generator's.
    """
    m, degree = flow.action.algebra_rows, 1 + min(pair.orders)

    def settings(options: Mapping[str, Any], tolerance: float) -> list[float]:
        reusable = REUSABLE * pair.reused
        return [*control_settings(options, degree), pair.stages, m, reusable, *pair.settings]

    memory += memory_size(flow.rows, m, pair.stages)
    kernels = (flow.generator, flow.action.act, flow.monitor)
    solve = Looped(integrate, settings, memory, work)
    return AdaptiveProblem(
        solve=solve,
        function=flow.generator,
        move=flow.action.act,
        pull=pull,
        monitor=flow.monitor,
        compiled=kernels if pull is None else (*kernels, pull),
        loop=integrate,
        constants=np.asarray(constants),
        parameters=flow.packed,
        rows=flow.rows,
        options=integrator.options,
        formulation=flow.formulation,
        conversions=flow.conversions,
        carried=solve.carried,
    )
