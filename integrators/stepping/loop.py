"""The loop over samples and steps: compiled once for all methods and systems, or for one of each.

A method is a kernel ``advance`` (signature `method_signature`) that takes a number of steps; a
system is the kernel it needs (gradient, field) and a ``monitor``. The kernel of `trajectory_kernel`
lets the method step from sample to sample and keeps statistics of the steps, or of one in so many.
All that a method carries from step to step is in ``y`` and ``memory``: a run stops after any step,
and continues from them, and from the statistics of an interval that is not over, bit for bit.
"""

import functools
from collections.abc import Callable

import numpy as np

from integrators.compiler.elements import DOUBLE, Element, aligned, as_elements, as_numbers
from integrators.compiler.kernels import (
    ElementSignature,
    Inlined,
    Kernel,
    Signature,
    function_at,
    inlined,
    types,
    whole_state,
)
from integrators.compiler.lanes import all_lanes, array, flat, number_of, select, vectors
from integrators.compiler.vectors import get, put
from integrators.compiler.views import frame, rows_of, tail
from integrators.status import (
    ABS_MAX,
    ABS_MEAN,
    ENERGY,
    MAXIMUM,
    MEAN,
    MINIMUM,
    MONITORED,
    REPORT_SIZE,
    STATISTICS,
)

OBSERVED = 3  # elements of `work` that the monitor fills
GUARD, UNTOUCHED = 24, -1.2345e67  # elements at the end of `work` that stay as they are
FEW_ROWS = 12  # of a state: its loop in lanes is compiled with all that it calls
TINY_ROWS = 3  # of a state, in whose steps eight lanes wait for one operation after the other


def method_signature(element: types.Type) -> Signature:
    """Signature of a method's ``advance``.

    ``advance(function, move, pull, t0, h, first, count, constants, options, y, memory, p,
    work, report)`` takes the steps ``first … first + count − 1``; step k starts at t0 + k h.
    `function`, `move` and `pull` are `whole_state` kernels: a gradient, field or generator; a
    projection or a group's action; dexp⁻¹ or the bracket. `constants` (the γ of a composition,
    or a tableau) are numbers (see `lanes.number_of`), and `options` float64.
    """
    whole = types.FunctionType(whole_state(element))
    number, flat_of, options = number_of(element), flat(element), flat(types.float64)
    return types.void(
        whole, whole, whole, number, number, types.int64, types.int64, flat(number), options,
        vectors(element), flat_of, flat(number), flat_of, flat_of,
    )  # fmt: skip


@inlined
def first_error(statistics, m, value):
    """Begin the statistics of quantity m in a sample interval with its first signed error."""
    for s in range(STATISTICS):
        statistics[m, s] = value
    statistics[m, ABS_MEAN] = abs(value)


@inlined
def next_error(statistics, m, value):
    """Add the signed error of quantity m after a later step to the statistics of the interval.

    Statistics that follow from others are left to `end_errors`: half of those of the unit length
    error, which is never negative.
    """
    least, most = statistics[m, MINIMUM], statistics[m, MAXIMUM]
    statistics[m, MEAN] = statistics[m, MEAN] + value
    statistics[m, MINIMUM] = select(value < least, value, least)
    statistics[m, MAXIMUM] = select(value > most, value, most)
    if m == ENERGY:
        statistics[m, ABS_MEAN] = statistics[m, ABS_MEAN] + abs(value)


@inlined
def end_errors(statistics, steps):
    """Complete the statistics of an interval: means from sums over steps, sizes from ends."""
    for m in range(MONITORED):
        mean = statistics[m, MEAN] / steps
        least, most = abs(statistics[m, MINIMUM]), abs(statistics[m, MAXIMUM])
        statistics[m, MEAN] = mean
        statistics[m, ABS_MAX] = select(most > least, most, least)
        if m == ENERGY:
            statistics[m, ABS_MEAN] = statistics[m, ABS_MEAN] / steps
        else:
            statistics[m, ABS_MEAN] = abs(mean)


@inlined
def _copy_rows(y, samples, s):
    for i in range(y.shape[0]):
        for c in range(3):
            samples[s, i, c] = y[i, c]


@inlined
def _run(
    advance, function, move, pull, monitor, clock, first, begun, last, ends, every, constants,
    options, y, memory, p, work, baseline, samples, statistics, report,
):  # fmt: skip
    """Fill `samples` (S + 1, rows, 3) with the state now, and after each of the steps `ends` (S,).

    `clock` is the time of step 0 and the step size. The first step is `first`; `ends` ascend from
    there. The first sample interval begins with step `begun`, and the run stops before step `last`:
    samples from the first of `ends` on that is larger are not reached.
    `statistics`, shape ``(S, MONITORED, STATISTICS)``, are of one step in `every`, counted from the
    sample before, and of the step to the sample itself; of none, without entries, if that is 0. An
    interval that is not over has what goes on from there, in the first entry of the next call.
    `baseline`, the monitored values of the initial state, is set by the run that starts at step 0
    and read by those that continue.
    """
    t0, h = clock[0], clock[1]
    observed, scratch = rows_of(work, 0, 1), tail(work, OBSERVED)
    if first == 0:
        monitor(t0, y, p, observed, scratch)
        baseline[0] = observed[0, 0]
        baseline[1] = 0.0
    _copy_rows(y, samples, 0)
    k, begin, pace = first, begun, max(1, every)
    seen = begin + (first - begin) // pace * pace
    for s in range(ends.shape[0]):
        upto = min(ends[s], last)
        while k < upto:
            to = upto if every == 0 else min(seen + every, upto)
            advance(
                function, move, pull, t0, h, k, to - k, constants, options, y, memory, p, scratch,
                report,
            )  # fmt: skip
            k = to
            if every > 0 and (k == seen + every or k == ends[s]):
                monitor(t0 + k * h, y, p, observed, scratch)
                for m in range(MONITORED):
                    error = observed[0, m] - baseline[m]
                    if seen == begin:
                        first_error(statistics[s], m, error)
                    else:
                        next_error(statistics[s], m, error)
                seen = k
        if k < ends[s]:
            break
        if every > 0:
            end_errors(statistics[s], (k - begin + every - 1) // every)
        begin = seen = k
        _copy_rows(y, samples, s + 1)


@inlined
def _clear(work):
    """Set scratch to 0, except its guard."""
    for i in range(work.shape[0] - GUARD):
        work[i] = 0.0


@functools.cache
def trajectory_kernel(element: Element) -> Kernel:
    """The kernel of the loop for an `Element`, over groups of the trajectories it has side by side.

    ``trajectory(advance, function, move, pull, monitor, clock, first, begun, last, ends, every,
    constants, options, y, memory, p, work, baseline, samples, statistics, report)`` takes the
    addresses of functions; arrays of elements are float64 with the axes of the element. The first
    axis of `y`, `memory`, `baseline`, `samples`, `statistics` and `report` is that of the groups.
    """
    method, whole = (
        function_at(types.FunctionType(of(element.type))) for of in (method_signature, whole_state)
    )
    elements, numbers = as_elements(element), as_numbers(element)

    def trajectories(
        advance, function, move, pull, monitor, clock, first, begun, last, ends, every, constants,
        options, y, memory, p, work, baseline, samples, statistics, report,
    ):  # fmt: skip
        state, carried, scratch, initial = (
            elements(y), elements(memory), elements(work), elements(baseline)
        )  # fmt: skip
        sampled, kept, noted = elements(samples), elements(statistics), elements(report)
        for g in range(y.shape[0]):
            _clear(scratch)
            _run(
                method(advance), whole(function), whole(move), whole(pull), whole(monitor),
                numbers(clock), first, begun, last, ends, every, numbers(constants), options,
                state[g], carried[g], numbers(p), scratch, initial[g], sampled[g], kept[g],
                noted[g],
            )  # fmt: skip

    return Kernel(trajectories, _trajectory_signature(element), (element.name,))


def _array_types(element: Element) -> tuple[Callable[..., types.Array], Callable[..., types.Array]]:
    """Two functions from a number of axes to an array type: of elements, and of numbers."""

    def of_elements(ndim: int) -> types.Array:
        return array(types.float64, ndim + len(element.shape))

    def of_numbers(ndim: int = 1) -> types.Array:
        return array(types.float64, ndim + len(element.numbers))

    return of_elements, of_numbers


def _trajectory_signature(element: Element, addresses: int = 5) -> ElementSignature:
    """Signature of `trajectory_kernel` for any Numba type: arrays have the axes of `element`."""
    floats, numbers = _array_types(element)
    count = types.int64
    made = types.void(
        *[types.int64] * addresses, numbers(), count, count, count, flat(count), count, numbers(),
        flat(types.float64), floats(3), floats(2), numbers(), floats(1), floats(2), floats(4),
        floats(4), floats(2),
    )  # fmt: skip
    return lambda _: made


def _apart(kernel: Kernel, rows: int) -> Inlined:
    """A `whole_state` function to be inlined, on a copy of the state and a scratch of its own.

    A method indexes its scratch by its stages: what lies beside that, LLVM leaves in memory, and
    this it keeps in registers. What the function writes beyond its scratch goes where it would go
    in `work`, so that it is found there.
    """
    of, size = kernel.inline, kernel.work(rows)
    own_state, own_scratch = frame(3 * rows), frame(size + GUARD)

    @inlined
    def function(t, y, p, out, work):
        count = min(y.shape[0], rows)  # fewer where some spins are solved for after others
        state, scratch = rows_of(own_state(work), 0, count), own_scratch(work)
        for i in range(count):
            put(state, i, get(y, i))
        for i in range(size, size + GUARD):
            scratch[i] = UNTOUCHED
        of(t, state, p, out, scratch)
        for i in range(size, size + GUARD):
            if not all_lanes((scratch[i] <= UNTOUCHED) & (scratch[i] >= UNTOUCHED)):
                work[i] = scratch[i]

    return function


@functools.cache
def inlined_trajectory_kernel(
    element: Element,
    advance: Kernel,
    function: Kernel,
    move: Kernel,
    pull: Kernel,
    monitor: Kernel,
    rows: int,
    scratch: int,
) -> Kernel:
    """The loop for groups of trajectories in lanes, with all that it calls compiled into it.

    State, scratch and report lie in its frame and the number of rows is a constant: loops over few
    of them unroll, and LLVM keeps much of it in registers. The memory stays where it is, since its
    size depends on the stages of a composition, for which nothing is compiled anew.

    Parameters
    ----------
    element : Element
        Lanes.
    advance, function, move, pull, monitor : Kernel
    rows : int
        Rows of a state.
    scratch : int
        Elements of scratch, which lie in the kernel's frame. Of an argument `work` only the guard
        is written: what it is at the end in the frame.

    Returns
    -------
    Kernel
        Kernel for these lanes only, with the arguments of `trajectory_kernel` but the functions.
    """
    functions = advance, function, move, pull, monitor
    as_lanes = as_elements(element)
    step, moved, pulled = (kernel.inline for kernel in (advance, move, pull))
    of, observe = (_apart(kernel, rows) for kernel in (function, monitor))
    own_state, own_report, own_scratch = frame(3 * rows), frame(REPORT_SIZE), frame(scratch)

    def trajectories(
        clock, first, begun, last, ends, every, constants, options, y, memory, p, unused, baseline,
        samples, statistics, report,
    ):  # fmt: skip
        given, noted, guard = as_lanes(y), as_lanes(report), as_lanes(unused)
        carried, initial = as_lanes(memory), as_lanes(baseline)
        sampled, kept = as_lanes(samples), as_lanes(statistics)
        state, running = rows_of(own_state(given), 0, rows), own_report(given)
        work = own_scratch(given)
        for i in range(scratch - GUARD, scratch):
            work[i] = UNTOUCHED
        for g in range(y.shape[0]):
            for i in range(rows):
                put(state, i, get(given[g], i))
            for i in range(REPORT_SIZE):
                running[i] = noted[g, i]
            _clear(work)
            _run(
                step, of, moved, pulled, observe, clock, first, begun, last, ends, every, constants,
                options, state, carried[g], p, work, initial[g], sampled[g], kept[g], running,
            )  # fmt: skip
            for i in range(rows):
                put(given[g], i, get(state, i))
            for i in range(REPORT_SIZE):
                noted[g, i] = running[i]
        for i in range(scratch - GUARD, scratch):
            guard[i] = work[i]

    signature = _trajectory_signature(element, addresses=0)
    return Kernel(trajectories, signature, (element.name, *functions, rows, scratch))


@functools.cache
def image_kernel(element: Element) -> Kernel:
    """The kernel of a loop over many starts, each as many trajectories as an `Element` has.

    ``images(advance, function, move, pull, clock, count, constants, options, states, memory, p,
    work, reports)`` takes `count` steps from each of `states`, shape (S, rows, 3), in place;
    `reports` has the shape (S, REPORT_SIZE). Arrays are as of `trajectory_kernel`.
    """
    elements, numbers = as_elements(element), as_numbers(element)
    floats, numbers_of = _array_types(element)
    whole, method = (types.FunctionType(of(element.type)) for of in (whole_state, method_signature))

    def image(
        advance, function, move, pull, clock, count, constants, options,
        states, memory, p, work, reports,
    ):  # fmt: skip
        start, carried, own = elements(states), elements(memory), numbers(clock)
        for b in range(states.shape[0]):
            for i in range(memory.shape[0]):
                carried[i] = 0.0
            advance(
                function, move, pull, own[0], own[1], 0, count, numbers(constants), options,
                start[b], carried, numbers(p), elements(work), elements(reports)[b],
            )  # fmt: skip

    signature = types.void(
        method, whole, whole, whole, numbers_of(), types.int64, numbers_of(), flat(types.float64),
        floats(3), floats(1), numbers_of(), floats(1), floats(2),
    )  # fmt: skip
    return Kernel(image, lambda _: signature, (element.name,))


def _single_steps(
    advance, function, move, pull, times, sizes, constants, options, states, memory, p, work,
    reports,
):  # fmt: skip
    for b in range(states.shape[0]):
        for i in range(memory.shape[0]):
            memory[i] = 0.0
        if sizes[b] > 0.0:
            advance(
                function, move, pull, times[b], sizes[b], 0, 1, constants, options, states[b],
                memory, p, work, reports[b],
            )  # fmt: skip


def _single_steps_signature(element: types.Type) -> Signature:
    """Signature of the kernel of `_single_steps`."""
    whole, method = (types.FunctionType(of(element)) for of in (whole_state, method_signature))
    numbers, elements = flat(number_of(element)), flat(element)
    return types.void(
        method, whole, whole, whole, numbers, numbers, numbers, flat(types.float64),
        array(element, 3), elements, numbers, elements, array(element, 2),
    )  # fmt: skip


single_steps = Kernel(_single_steps, _single_steps_signature)
"""``single_steps(advance, function, move, pull, times, sizes, constants, options, states, memory,

p, work, reports)``: a step of its own size, at a time of its own, from each of `states`, shape
(S, rows, 3), in place; none where the size is 0.
"""


@functools.cache
def evaluation_kernel(element: Element) -> Kernel:
    """The kernel of `evaluate`, which takes the address of a `whole_state` kernel."""
    elements, numbers = as_elements(element), as_numbers(element)
    floats, numbers_of = _array_types(element)
    whole = function_at(types.FunctionType(whole_state(element.type)))

    def evaluations(function, times, states, p, out, work):
        when, at, made = numbers(times), elements(states), elements(out)
        for s in range(states.shape[0]):
            whole(function)(when[s], at[s], numbers(p), made[s], elements(work))

    signature = types.void(types.int64, numbers_of(), floats(3), numbers_of(), floats(3), floats(1))
    return Kernel(evaluations, lambda _: signature, (element.name,))


def evaluate(
    kernel: Kernel,
    times: np.ndarray,
    states: np.ndarray,
    parameters: np.ndarray,
    out: np.ndarray,
    element: Element = DOUBLE,
) -> None:
    """Evaluate a `whole_state` kernel at many states.

    Parameters
    ----------
    kernel : Kernel
    times : ndarray, shape (S,)
        Here and below, with the axes of numbers or of elements of an `Element`.
    states : ndarray, shape (S, rows, 3)
    parameters : ndarray
    out : ndarray, shape (S, any, 3)
        Where the values go.
    element : Element
    """
    work = aligned((kernel.work(states.shape[1]) + 1, *element.shape))
    evaluation_kernel(element).compiled(element)(
        kernel.address(element), times, np.ascontiguousarray(states), parameters, out, work
    )
