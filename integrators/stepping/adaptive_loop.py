"""The loop of compiled adaptive methods over samples and steps, and what runs it.

A method is three inlined functions, which `loop` compiles into one kernel:

- ``begin(function, settings, control, y, memory, p, scratch)``: what the first step needs, among
  it ``control[SIZE]``; counts its evaluations, at least one;
- ``step(function, move, pull, settings, constants, control, goal, y, memory, p, work, history)``:
  one accepted step, not beyond the time `goal`, infinite where samples are interpolated, or a
  failure noted in `control`; each attempt is noted by `note`;
- ``interpolate(function, move, pull, settings, constants, control, t, y, memory, p, work, out)``:
  the state at a time within the last step.

`function`, `move` and `pull` are `whole_state` kernels, as in `loop.method_signature`. All
that a method carries from step to step is in `control`, ``y`` and ``memory``: a run stops after any
step, and continues from them, and from the statistics of a sample interval that is not over, bit
for bit. No step knows of the end of the run: with interpolated samples the last one leads
beyond it.

Steps are controlled in float64 whatever the elements are: by `settings` and errors that are, and
`history` keeps such. Times and sizes of steps have all the digits of the elements.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from integrators.compiler.elements import Element, aligned, as_elements, as_numbers
from integrators.compiler.kernels import (
    Inlined,
    Kernel,
    Signature,
    inlined,
    spliced,
    types,
    whole_state,
)
from integrators.compiler.lanes import array, by_precision, double_of, flat
from integrators.compiler.vectors import get, put
from integrators.compiler.views import rows_of, tail
from integrators.options import Option
from integrators.precision import DOUBLE, DOUBLE_DOUBLE, ROUND_OFF
from integrators.solvers.failures import fail, poison
from integrators.status import (
    COMPLETE,
    MONITORED,
    REPORT_SIZE,
    STATISTICS,
    STATUS_ROW,
    STEP_TOO_SMALL,
)
from integrators.stepping.adaptive import (
    ACCEPTED,
    ATTEMPT,
    BEGUN,
    ERROR,
    OVERDUE,
    PACE,
    TRIED,
    AdaptiveProblem,
    Solution,
    StepBound,
    part_of_interval,
)
from integrators.stepping.batch import check_guard
from integrators.stepping.checkpoint import values_at
from integrators.stepping.loop import GUARD, UNTOUCHED, end_errors, first_error, next_error

SMALLEST = 16 * ROUND_OFF[DOUBLE]  # a step that is smaller beside t can hardly be told from none
PRECISE_SMALLEST = 16 * ROUND_OFF[DOUBLE_DOUBLE]

# In the settings; those of a method begin at OWN.
TOLERANCE, LAND, MOST, LAST, EVERY, OWN = range(6)
# The rows of `control`: a report, then what the loop carries from step to step.
TIME, OLD_TIME, SIZE, FIRST_SIZE, STEPS, REJECTED, EVALUATIONS, KNOWN, COUNTED = range(
    REPORT_SIZE, REPORT_SIZE + 9
)
# The time at the last look at the pace of steps, steps in the statistics of the sample interval,
# and the samples that a call has reached.
MARKED, WITHIN, REACHED, BASELINE = range(COUNTED + 1, COUNTED + 5)
CONTROL = BASELINE + MONITORED
COVERING, REJECTED_SO_FAR, TAKEN = range(3)  # of each sample: the step that covers it

OUTPUT = Option(
    "dense",
    "samples by interpolation within steps (dense), or steps that end at samples (land)",
    choices=("dense", "land"),
)


@inlined
def copy(source, target):
    """Copy a stack of 3-vectors."""
    for i in range(source.shape[0]):
        put(target, i, get(source, i))


@inlined
def smallest_at(t):
    """The least step from a time."""
    return by_precision(t, SMALLEST, PRECISE_SMALLEST) * t


@inlined
def larger(a, b):
    """The larger of two numbers."""
    return a if a > b else b


@inlined
def note(history, control, t, h, error, accepted):
    """Add an attempted step from `t` to the history, where one is kept.

    To be called before the attempt is counted among the steps or the rejected ones.
    """
    row = int(control[STEPS] + control[REJECTED])
    if row < history.shape[0]:
        history[row, BEGUN] = double_of(t)
        history[row, TRIED] = double_of(h)
        history[row, ERROR] = error
        history[row, ACCEPTED] = 1.0 if accepted else 0.0


@inlined
def accepted(control, t, h, goal, reaches):
    """Count an accepted step of `h` from `t`; its end is `goal` to the last bit if it `reaches`."""
    control[STEPS] += 1.0
    control[COUNTED] = 0.0
    control[OLD_TIME] = t
    control[TIME] = goal if reaches else t + h
    if t == 0.0:
        control[FIRST_SIZE] = h


@inlined
def _end_at_bound(settings, control):
    """End a run before a step that `adaptive.StepBound` does not allow."""
    steps = double_of(control[STEPS])
    within = steps < settings[MOST]
    if steps > 0.0 and steps % PACE == 0.0:
        passed = double_of(control[TIME] - control[MARKED])
        allowed = OVERDUE * settings[MOST] * passed
        within = within and double_of(control[TIME]) * PACE <= allowed
        control[MARKED] = control[TIME]
    fail(control, within, STEP_TOO_SMALL, control[STEPS], math.nan)


@inlined
def _count(monitor, settings, control, y, p, work, statistics):
    """Add the state at the end of the last step to the statistics of its sample interval."""
    within = double_of(control[WITHIN])
    control[WITHIN] += 1.0
    if within % settings[EVERY] > 0.0:
        return
    observed = rows_of(work, 0, 1)
    monitor(control[TIME], y, p, observed, tail(work, 3))
    for m in range(MONITORED):
        error = observed[0, m] - control[BASELINE + m]
        if within == 0.0:
            first_error(statistics, m, error)
        else:
            next_error(statistics, m, error)


@inlined
def _close(settings, control, statistics):
    """Sums to means; NaN where no step ended in the interval, or one failed."""
    steps = math.ceil(double_of(control[WITHIN]) / settings[EVERY])
    control[WITHIN] = 0.0
    if steps > 0 and control[STATUS_ROW] <= COMPLETE:
        end_errors(statistics, steps)
        return
    for m in range(MONITORED):
        for s in range(STATISTICS):
            statistics[m, s] = math.nan


@inlined
def _baseline(monitor, control, y, p, work):
    """The monitored values of the initial state; the unit length error counts from none."""
    monitor(0.0, y, p, rows_of(work, 0, 1), tail(work, 3))
    for m in range(MONITORED):
        control[BASELINE + m] = 0.0
    control[BASELINE] = work[0]


def loop(
    begin: Inlined, step: Inlined, interpolate: Inlined, *made_from: str
) -> Callable[[Element], Kernel]:
    """The compiled loop of a method of the functions `begin`, `step` and `interpolate`.

    Parameters
    ----------
    begin, step, interpolate : callable
        Inlined functions of the method, with the signatures that the module docstring has.
    *made_from : str
        Names that distinguish the kernel in the disk cache from loops of other methods.

    Returns
    -------
    callable
        Returns the kernel for an `Element`, which takes arrays of float64 with the axes of numbers
        and of elements: ``integrate(function, move, pull, monitor, settings, constants,
        times, control, y, memory, p, work, samples, taken, statistics, history)`` fills `samples`
        (S, rows, 3) and `taken` (S, TAKEN) at `times` (S,), from where it stands; `statistics` has
        S entries, or none if none are wanted; `history` a row for each attempt, or none. The first
        call, with a `control` of zeros, begins at time 0; later ones go on. It stops where there
        were ``settings[LAST]`` attempts and the next sample is not reached: then `statistics` has
        what goes on from there, in the first entry of the next call.
    """

    @spliced
    def run(
        function, move, pull, monitor, settings, constants, times, control, y, memory, p, work,
        samples, taken, statistics, history,
    ):  # fmt: skip
        if control[EVALUATIONS] == 0.0:
            begin(function, settings, control, y, memory, p, tail(work, 3))
            _baseline(monitor, control, y, p, work)
        for s in range(times.shape[0]):
            t = times[s]
            goal = t if settings[LAND] > 0.0 else math.inf
            while True:
                if statistics.shape[0] > 0 and control[COUNTED] == 0.0 and control[TIME] <= t:
                    if control[STEPS] > 0.0:
                        _count(monitor, settings, control, y, p, work, statistics[s])
                    control[COUNTED] = 1.0
                if control[STATUS_ROW] > COMPLETE or control[TIME] >= t:
                    break
                if control[STEPS] + control[REJECTED] >= settings[LAST]:
                    return
                _end_at_bound(settings, control)
                if control[STATUS_ROW] > COMPLETE:
                    break
                step(
                    function, move, pull, settings, constants, control, goal, y, memory, p,
                    tail(work, 3), history,
                )  # fmt: skip
            if control[STATUS_ROW] > COMPLETE:
                poison(y, control[STATUS_ROW] <= COMPLETE)
            if control[STATUS_ROW] > COMPLETE or control[TIME] == t:
                copy(y, samples[s])
            else:
                interpolate(
                    function, move, pull, settings, constants, control, t, y, memory, p,
                    tail(work, 3), samples[s],
                )  # fmt: skip
            taken[s, COVERING] = control[TIME] - control[OLD_TIME]
            taken[s, REJECTED_SO_FAR] = control[REJECTED]
            if statistics.shape[0] > 0:
                _close(settings, control, statistics[s])
            control[REACHED] += 1.0

    @functools.cache
    def of(element: Element) -> Kernel:
        elements, numbers = as_elements(element), as_numbers(element)

        def integrate(
            function, move, pull, monitor, settings, constants, times, control, y, memory, p, work,
            samples, taken, statistics, history,
        ):  # fmt: skip
            run(
                function, move, pull, monitor, settings, numbers(constants), numbers(times),
                numbers(control), elements(y), elements(memory), numbers(p), elements(work),
                elements(samples), numbers(taken), elements(statistics), history,
            )  # fmt: skip

        return Kernel(integrate, lambda _: _signature(element), (*made_from, element.name))

    return of


def _signature(element: Element) -> Signature:
    whole = types.FunctionType(whole_state(element.type))

    def floats(ndim: int, axes: tuple[int, ...]) -> types.Array:
        return array(types.float64, ndim + len(axes))

    of_elements, of_numbers = element.shape, element.numbers
    numbers, stacks = floats(1, of_numbers), floats(3, of_elements)
    return types.void(
        whole, whole, whole, whole, flat(types.float64), numbers, numbers, numbers,
        floats(2, of_elements), floats(1, of_elements), numbers, floats(1, of_elements), stacks,
        floats(2, of_numbers), stacks, floats(2, ()),
    )  # fmt: skip


# --- one trajectory ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Looped:
    """The ``solve`` of an `AdaptiveProblem` by a compiled loop.

    Parameters
    ----------
    loop : callable
        Returns the kernel of the loop for an `Element`, made by `loop`.
    settings : callable
        ``settings(options, tolerance)`` returns the settings of the method, which follow `OWN`.
    memory : int
        Elements that the method carries from step to step.
    work : int
        Elements of scratch, with the scratch of the functions that it calls.
    """

    loop: Callable[[Element], Kernel]
    settings: Callable[[Mapping[str, Any], float], list[float]]
    memory: int
    work: int

    @property
    def carried(self) -> int:
        """Numbers that are carried from step to step besides the state."""
        return CONTROL + self.memory + MONITORED * STATISTICS

    def __call__(
        self,
        problem: AdaptiveProblem,
        state: np.ndarray,
        times: np.ndarray,
        tolerance: float,
        bound: StepBound,
        statistics: int,
        history: bool = False,
        checkpoint: np.ndarray | None = None,
        most: int | None = None,
    ) -> Solution:
        """Integrate one trajectory; see `adaptive.AdaptiveProblem`."""
        values = values_at(problem.elements[0])
        carried = np.zeros((self.carried, *problem.elements[0].shape))
        if checkpoint is not None:
            numbers = checkpoint.reshape(-1, *problem.elements[0].shape)
            carried[:] = numbers[: self.carried]
        land = float(problem.options["output"] == "land")
        own = self.settings(problem.options, tolerance)
        before = int(np.sum(carried[values][[STEPS, REJECTED]]))
        last = math.inf if most is None else before + most
        settings = np.array([tolerance, land, bound.most, last, statistics, *own], dtype=float)
        given = problem, state, times, settings, statistics, carried
        found = self._run(*given, np.zeros((0, ATTEMPT)))
        if history:  # its length is known now, and the run is the same again
            attempts = np.zeros((found.steps + found.rejected_steps, ATTEMPT))
            found = self._run(*given, attempts)
            return replace(found, history=attempts[before:])
        return found

    def _run(
        self,
        problem: AdaptiveProblem,
        state: np.ndarray,
        times: np.ndarray,
        settings: np.ndarray,
        statistics: int,
        carried: np.ndarray,
        history: np.ndarray,
    ) -> Solution:
        (element, _), rows, samples = problem.elements, problem.rows, len(times) - 1
        shape, values = element.shape, values_at(element)
        stack = MONITORED, STATISTICS, *shape
        scratch = 3 + max(self.work, problem.monitor.work(rows))
        (control, memory, y, work, states, taken, kept), guards = _guarded(
            (CONTROL, *shape), (self.memory, *shape), (rows, 3, *shape), (scratch, *shape),
            (samples + 1, rows, 3, *shape), (samples + 1, TAKEN, *element.numbers),
            (samples if statistics else 0, *stack),
        )  # fmt: skip
        y[:] = states[0] = state
        control[:], memory[:], unfinished = np.split(carried, [CONTROL, CONTROL + self.memory])
        kept[:1] = unfinished.reshape(stack)
        self.loop(element).compiled(element)(
            *problem.functions(), settings, problem.constants, times[1:], control, y, memory,
            problem.parameters, work, states[1:], taken[1:], kept, history,
        )  # fmt: skip
        check_guard(problem, np.concatenate(guards))
        taken[0, COVERING] = control[FIRST_SIZE]
        taken[0, REJECTED_SO_FAR] = carried[REJECTED]
        stood = control[values].copy()
        reached, control[REACHED] = int(stood[REACHED]), 0.0
        taken, ends = taken[values][: reached + 1], times[values][reached:]
        unfinished = kept[reached] if len(kept) > reached else np.zeros(stack)
        return Solution(
            states=states[: reached + 1],
            statistics=kept[values][:reached],
            part=part_of_interval(ends, stood[TIME]),
            step_sizes=taken[:, COVERING],
            rejected_so_far=taken[:, REJECTED_SO_FAR],
            report=stood[:REPORT_SIZE],
            stop_time=stood[TIME] if stood[STATUS_ROW] > COMPLETE else math.nan,
            steps=int(stood[STEPS]),
            rejected_steps=int(stood[REJECTED]),
            evaluations=int(stood[EVALUATIONS]),
            tried=int(np.sum((stood - carried[:CONTROL][values])[[STEPS, REJECTED]])),
            history=history,
            checkpoint=np.concatenate([of.ravel() for of in (control, memory, unfinished, y)]),
        )


def _guarded(*shapes: tuple[int, ...]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Arrays of zeros, and the guards before, between and after them."""
    sizes = [math.prod(shape) for shape in shapes]
    begins = np.cumsum([GUARD, *(size + GUARD for size in sizes)]).tolist()
    block = aligned(begins[-1])
    guards = [block[begin - GUARD : begin] for begin in begins]
    for guard in guards:
        guard[:] = UNTOUCHED
    places = zip(begins, sizes, shapes, strict=False)
    return [block[at : at + size].reshape(shape) for at, size, shape in places], guards
