"""The loop over samples and steps: compiled once for all methods and systems, or for one of each.

A method is a kernel ``advance`` (signature `method_signature`) that takes a number of steps; a
system is the kernel it needs (gradient, field) and a ``monitor``. `trajectory` lets the method
step from sample to sample and keeps the statistics of every step. All that a method carries
from step to step is in ``y`` and ``memory``: a run continues from them bit for bit.
"""

import functools

from integrators.compiler.kernels import Kernel, function_at, inlined, types, whole_state
from integrators.compiler.lanes import array, flat, lane, select, vectors
from integrators.compiler.vectors import get, put
from integrators.compiler.views import as_lanes, frame, rows_of, tail
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
FEW_ROWS = 12  # of a state: its loop in lanes is compiled with all that it calls


def method_signature(element):
    """Signature of a method's ``advance``.

    ``advance(function, move, pull, t0, h, first, count, constants, options, y, memory, p,
    work, report)`` takes the steps ``first … first + count − 1``; step k starts at t0 + k h.
    `function`, `move` and `pull` are `whole_state` kernels: a gradient, field or generator; a
    projection or a group's action; dexp⁻¹ or the bracket. `constants` (the γ of a composition,
    or a tableau) and `options` are float64.
    """
    whole = types.FunctionType(whole_state(element))
    number, flat_of = types.float64, flat(element)
    return types.void(
        whole, whole, whole, number, number, types.int64, types.int64, flat(number), flat(number),
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
    """Take another step's signed error of quantity m into the statistics of its interval.

    What follows from others is left to `end_errors`: of the unit length error, which is never
    negative, that is half of them.
    """
    least, most = statistics[m, MINIMUM], statistics[m, MAXIMUM]
    statistics[m, MEAN] = statistics[m, MEAN] + value
    statistics[m, MINIMUM] = select(value < least, value, least)
    statistics[m, MAXIMUM] = select(value > most, value, most)
    if m == ENERGY:
        statistics[m, ABS_MEAN] = statistics[m, ABS_MEAN] + abs(value)


@inlined
def end_errors(statistics, steps):
    """Make the statistics of an interval of so many steps from what these have left."""
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
def _run(
    advance, function, move, pull, monitor, t0, h, first, ends, constants, options,
    y, memory, p, work, baseline, samples, statistics, report,
):  # fmt: skip
    """Fill `samples` (S, rows, 3) with the state after each of the step numbers `ends` (S,).

    The first step is `first`; `ends` ascend from there.
    `statistics`, shape ``(S, MONITORED, STATISTICS)``, has no entries if none are wanted.
    `baseline`, the monitored values of the initial state, is set by the run that starts at step 0
    and read by those that continue.
    """
    observed, scratch = rows_of(work, 0, 1), tail(work, OBSERVED)
    if first == 0:
        monitor(t0, y, p, observed, scratch)
        baseline[0] = observed[0, 0]
        baseline[1] = 0.0
    k = first
    for s in range(samples.shape[0]):
        begin, steps = k, ends[s] - k
        at_once = steps
        if statistics.shape[0] > 0:
            at_once = 1
        while k < ends[s]:
            advance(
                function, move, pull, t0, h, k, at_once, constants, options, y, memory, p,
                scratch, report,
            )  # fmt: skip
            k += at_once
            if statistics.shape[0] > 0:
                monitor(t0 + k * h, y, p, observed, scratch)
                for m in range(MONITORED):
                    error = observed[0, m] - baseline[m]
                    if k == begin + 1:
                        first_error(statistics[s], m, error)
                    else:
                        next_error(statistics[s], m, error)
        if statistics.shape[0] > 0:
            end_errors(statistics[s], steps)
        for i in range(y.shape[0]):
            for c in range(3):
                samples[s, i, c] = y[i, c]


_method, _whole = (
    function_at(types.FunctionType(of(types.float64))) for of in (method_signature, whole_state)
)
_method_of_lanes, _whole_of_lanes = (
    function_at(types.FunctionType(of(lane))) for of in (method_signature, whole_state)
)


def _trajectory(
    advance, function, move, pull, monitor, t0, h, first, ends, constants, options,
    y, memory, p, work, baseline, samples, statistics, report,
):  # fmt: skip
    _run(
        _method(advance), _whole(function), _whole(move), _whole(pull), _whole(monitor),
        t0, h, first, ends, constants, options,
        y, memory, p, work, baseline, samples, statistics, report,
    )  # fmt: skip


def _trajectories(
    advance, function, move, pull, monitor, t0, h, first, ends, constants, options,
    y, memory, p, work, baseline, samples, statistics, report,
):  # fmt: skip
    _run(
        _method_of_lanes(advance), _whole_of_lanes(function), _whole_of_lanes(move),
        _whole_of_lanes(pull), _whole_of_lanes(monitor), t0, h, first, ends, constants, options,
        as_lanes(y), as_lanes(memory), p, as_lanes(work), as_lanes(baseline),
        as_lanes(samples), as_lanes(statistics), as_lanes(report),
    )  # fmt: skip


def _loop_types(element):
    """Of a loop's arguments: arrays of elements by their axes, a `whole_state`, an ``advance``.

    With lanes, the arrays of elements are float64 with a last axis of eight.
    """
    extra = 1 if element is lane else 0

    def floats(ndim):
        return array(types.float64, ndim + extra)

    whole = types.FunctionType(whole_state(element))
    return floats, whole, types.FunctionType(method_signature(element))


def _trajectory_signature(element):
    """As `_run`, with the addresses of functions."""
    floats, _, _ = _loop_types(element)
    number, numbers, count = types.float64, flat(types.float64), types.int64
    return types.void(
        *[types.int64] * 5, number, number, count, flat(count), numbers, numbers,
        floats(2), floats(1), numbers, floats(1), floats(1), floats(3), floats(3), floats(1),
    )  # fmt: skip


def trajectory(lanes):
    """The compiled loop, for one trajectory or for eight in lanes: it takes addresses."""
    return _LANES.lanes if lanes else ALONE.scalar


ALONE = Kernel(_trajectory, _trajectory_signature)
_LANES = Kernel(_trajectories, _trajectory_signature)


def _inlined_signature(element):
    """As `_run`, without the functions."""
    return types.void(*_trajectory_signature(element).args[5:])


@functools.cache
def inlined_trajectories(advance, function, move, pull, monitor, rows, scratch):
    """The loop for eight trajectories in lanes, with all that it calls compiled into it.

    State, scratch and report lie in its frame and the number of rows is a constant: loops over few
    of them unroll, and LLVM keeps much of it in registers. The memory stays where it is, since its
    size depends on the stages of a composition, for which nothing is compiled anew.

    Parameters
    ----------
    advance, function, move, pull, monitor : Kernel
    rows : int
        Of a state.
    scratch : int
        Elements that `work` of `trajectory` has, in the place of which it has its own.

    Returns
    -------
    Kernel
        Of lanes only; its arguments are those of `trajectory` without the functions.
    """
    functions = advance, function, move, pull, monitor
    step, of, moved, pulled, observe = (kernel.inline for kernel in functions)
    own_state, own_report, own_scratch = frame(3 * rows), frame(REPORT_SIZE), frame(scratch)

    def trajectories(
        t0, h, first, ends, constants, options, y, memory, p, unused, baseline, samples, statistics,
        report,
    ):  # fmt: skip
        given, noted = as_lanes(y), as_lanes(report)
        state, running = rows_of(own_state(given), 0, rows), own_report(given)
        for i in range(rows):
            put(state, i, get(given, i))
        for i in range(REPORT_SIZE):
            running[i] = noted[i]
        work = own_scratch(given)
        for i in range(scratch):
            work[i] = 0.0
        _run(
            step, of, moved, pulled, observe, t0, h, first, ends, constants, options, state,
            as_lanes(memory), p, work, as_lanes(baseline), as_lanes(samples),
            as_lanes(statistics), running,
        )  # fmt: skip
        for i in range(rows):
            put(given, i, get(state, i))
        for i in range(REPORT_SIZE):
            noted[i] = running[i]

    return Kernel(trajectories, _inlined_signature, (*functions, rows, scratch))


def _image(
    advance, function, move, pull, t0, h, count, constants, options,
    states, memory, p, work, reports,
):  # fmt: skip
    for b in range(states.shape[0]):
        for i in range(memory.shape[0]):
            memory[i] = 0.0
        advance(
            function, move, pull, t0, h, 0, count, constants, options,
            states[b], memory, p, work, reports[b],
        )  # fmt: skip


def _images(
    advance, function, move, pull, t0, h, count, constants, options,
    states, memory, p, work, reports,
):  # fmt: skip
    for b in range(states.shape[0]):
        for i in range(memory.shape[0]):
            for lane_index in range(memory.shape[1]):
                memory[i, lane_index] = 0.0
        advance(
            function, move, pull, t0, h, 0, count, constants, options,
            as_lanes(states)[b], as_lanes(memory), p, as_lanes(work), as_lanes(reports)[b],
        )  # fmt: skip


def _image_signature(element):
    """As `_image`."""
    floats, whole, method = _loop_types(element)
    number, numbers, count = types.float64, flat(types.float64), types.int64
    return types.void(
        method, whole, whole, whole, number, number, count, numbers, numbers,
        floats(3), floats(1), numbers, floats(1), floats(2),
    )  # fmt: skip


def images(lanes):
    """The compiled loop over many starts, each a trajectory, or eight in lanes.

    ``images(advance, function, move, pull, t0, h, count, constants, options, states, memory, p,
    work, reports)`` takes `count` steps from each of `states`, shape (S, rows, 3), in place;
    `reports` has the shape (S, REPORT_SIZE).
    """
    return _IMAGES.lanes if lanes else _IMAGE.scalar


_IMAGE = Kernel(_image, _image_signature)
_IMAGES = Kernel(_images, _image_signature)


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


def _single_steps_signature(element):
    """As `_single_steps`."""
    floats, whole, method = _loop_types(element)
    numbers = flat(types.float64)
    return types.void(
        method, whole, whole, whole, numbers, numbers, numbers, numbers, floats(3), floats(1),
        numbers, floats(1), floats(2),
    )  # fmt: skip


single_steps = Kernel(_single_steps, _single_steps_signature)
"""``single_steps(advance, function, move, pull, times, sizes, constants, options, states, memory,

p, work, reports)``: a step of its own size, at a time of its own, from each of `states`, shape
(S, rows, 3), in place; none where the size is 0.
"""


def _evaluate(function, times, states, p, out, work):
    for s in range(states.shape[0]):
        function(times[s], states[s], p, out[s], work)


def _evaluate_signature(element):
    whole = types.FunctionType(whole_state(element))
    stacks, numbers = array(element, 3), flat(types.float64)
    return types.void(whole, numbers, stacks, numbers, stacks, flat(element))


evaluate = Kernel(_evaluate, _evaluate_signature)
"""``evaluate(function, times, states, p, out, work)``: a `whole_state` kernel of many states,

shapes ``(S,)``, ``(S, rows, 3)`` and, for `out`, ``(S, any, 3)``.
"""
