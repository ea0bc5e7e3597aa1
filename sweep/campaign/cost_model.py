"""What batches of runs cost, measured on a few of them.

A batch is up to eight runs that are integrated together. A `Probe` is one batch of the study, part
of which is integrated, enough to be measured; the rest follows by counting. Times are CPU seconds
of this thread, or of a clock that is given.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from integrators import status
from integrators.diagnostics.structure import Unfinished
from integrators.stepping.adaptive import Solutions, StepBound, prepare, run_adaptive
from sweep.campaign.worker.recorder import Integrated, NamedComponent, Recipe, Recorder
from sweep.study import schema
from sweep.study.time_axis import TimeAxis

REPEATS = 3  # of each measurement: with the median of them a single slow one decides nothing
GROWTH = 16  # at most, of what is measured, from one amount to the next
PREVAILS, LONGEST = 4.0, 0.02  # times a call alone, but no more seconds than that
LONGER, UNEVEN = 1.25, 2.0  # how much longer a larger amount takes: least, and beyond proportion
AGAIN = 4  # how often amounts that do not agree are measured again
TANGENT_STEPS = 100  # that are timed
IMAGES_PER_ROW = 40  # runs by which the map of an adaptive run is measured, about, of a state's row
PILOT_SAMPLES = 256  # at most: recording has a fixed cost that long runs share
# Steps of an adaptive run, of a compiled loop and of one in Python: the most that are measured, and
# the most of a look beyond what is measured. Where steps get `DENSER` there, as near a singularity,
# the time of the rest is not known but for the bound on its steps.
MOST_MEASURED = {True: 1_000_000, False: 2_000}
LOOKED_AHEAD = {True: 20_000, False: 500}
DENSER = 4.0
FIRST_PART = 1 / 256  # of an adaptive run, at first
ALONE = 0.1  # relative standard error of what a single probe says of others
CONFIDENCE = 1.0  # standard errors on either side
# What a pilot cannot see: other processes, parts of the runs that it did not reach. By them 90 of
# 100 plans hold on idle machines and on busy ones, as tests/benchmarks/plans.py counts.
CHEAPER, DEARER = 1.2, 1.35
# Seconds that a batch takes at most where caches are cold, beside what it takes when repeated: its
# Python code, and the memory of its results that is touched for the first time.
COLD = 1.5e-3
Clock = Callable[[], float]  # CPU time in seconds
# From an amount of work, to what is timed: it returns whether more of it would take no longer.
Work = Callable[[Any], Callable[[], object]]


@dataclasses.dataclass(frozen=True)
class Estimate:
    """An uncertain CPU time; estimates of different work can be added.

    Parameters
    ----------
    least : float
        Seconds, by the least of the repeats of each measurement.
    usual : float
        Seconds, by the median of the repeats.
    spread : float
        Standard error of both in seconds, from the differences between probes.
    batches : int
        Number of batches.
    """

    least: float = 0.0
    usual: float = 0.0
    spread: float = 0.0
    batches: int = 0

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(
            self.least + other.least,
            self.usual + other.usual,
            float(np.hypot(self.spread, other.spread)),
            self.batches + other.batches,
        )

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper limit of the seconds that the work is expected to take."""
        doubt = CONFIDENCE * self.spread
        least = max(self.least - doubt, self.least / 2)  # never nothing
        return least / CHEAPER, (self.usual + doubt) * DEARER + self.batches * COLD


@dataclasses.dataclass(frozen=True)
class Line:
    """CPU seconds as a linear function of the amount of work.

    Each coefficient has two values: by the least of repeated measurements, and by their median.

    Parameters
    ----------
    call : ndarray, shape (2,)
        Seconds of a call without any work.
    unit : ndarray, shape (2,)
        Seconds of each unit of work.
    """

    call: NDArray[np.float64]
    unit: NDArray[np.float64]

    @classmethod
    def through(
        cls, amounts: tuple[float, float], times: tuple[NDArray[np.float64], NDArray[np.float64]]
    ) -> Line:
        """The line through two measurements of `time_growing_work`.

        Through the origin where both are of one amount: all of the work was measured at once.
        """
        (amount, more), (seconds, longer) = amounts, times
        if more <= amount:
            return cls(np.zeros(2), seconds / amount)
        unit = np.maximum(longer - seconds, 0.0) / (more - amount)
        unit = np.where(unit > 0, unit, longer / more)  # a call that seems to take all of it
        return cls(np.maximum(longer - unit * more, 0.0), unit)


@dataclasses.dataclass(frozen=True)
class Cost:
    """Cost of batches of one kind: of one integrator and one size of system.

    Parameters
    ----------
    lines : tuple of Line
        CPU seconds of the integration by the amount of work, of each probe.
    seconds_per_sample : float
        Seconds to record one sample of one run.
    seconds_per_run : float
        Seconds to measure the structure of one run.
    extra_integrations : float
        Cost of structure and tangent vectors, in integrations of the run.
    steps : float
        Number of steps in a unit of work.
    unseen : float
        Seconds that a batch may take beside those of the lines, see `unseen_seconds`.
    """

    lines: tuple[Line, ...]
    seconds_per_sample: float = 0.0
    seconds_per_run: float = 0.0
    extra_integrations: float = 0.0
    steps: float = 1.0
    unseen: float = 0.0

    def seconds(self, amounts: ArrayLike) -> NDArray[np.float64]:
        """CPU seconds, by the median, of batches with the given amounts of work."""
        call = np.mean([line.call[1] for line in self.lines])
        unit = np.mean([line.unit[1] for line in self.lines])
        return np.asarray(call + unit * np.asarray(amounts), dtype=float)

    def estimate(
        self, amounts: NDArray[np.float64], batches: NDArray[np.int64] | int = 1
    ) -> Estimate:
        """The `Estimate` of so many batches of each of the given amounts of work, together."""
        batches = np.broadcast_to(batches, len(amounts))
        count, amount = int(np.sum(batches)), float(np.sum(batches * amounts))
        every = np.array([count * line.call + amount * line.unit for line in self.lines])
        least, usual = every.mean(axis=0)
        alone = len(every) == 1
        spread = ALONE * usual if alone else every[:, 1].std(ddof=1) / np.sqrt(len(every))
        spread = float(np.hypot(spread, count * self.unseen))
        return Estimate(float(least), float(usual), spread, count)


def unseen_seconds(
    seconds: float, measured: tuple[float, float], ahead: tuple[float, float], bound: StepBound
) -> float:
    """What an adaptive run may take at most where its steps get `DENSER`, by the bound on them.

    Parameters
    ----------
    seconds : float
        Of the part that was measured.
    measured, ahead : tuple of float
        Number of steps of that part and of a longer one, each with the time until which they lead.
    bound : StepBound
        Of the whole run.

    Returns
    -------
    float
        0 where steps are not denser, or the look ahead sees them all.
    """
    (steps, until), (more, reached) = measured, ahead
    if reached >= bound.end or (more - steps) * until <= DENSER * steps * (reached - until):
        return 0.0
    return seconds / steps * bound.most


def time_repeatedly(
    work: Work, amount: Any, clock: Clock = time.thread_time
) -> tuple[NDArray[np.float64], bool]:
    """Time a piece of work several times.

    Parameters
    ----------
    work : callable
        Called with an amount, gives what is timed: a function without arguments, which returns
        whether more of it would take no longer.
    amount : float or int
    clock : callable

    Returns
    -------
    ndarray, shape (2,)
        Seconds: the least and the median.
    bool
        Whether more of it would take no longer.
    """
    times, timed = [], work(amount)
    for _ in range(REPEATS):
        began = clock()
        ended = timed()
        times.append(clock() - began)
    return np.array([min(times), np.median(times)]), bool(ended)


def time_growing_work(
    work: Work, amount: float, most: float, seconds: float, clock: Clock = time.thread_time
) -> tuple[tuple[float, float], tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Time more and more of a piece of work, until the least of the repeats is long enough.

    Where a machine is overloaded, a call alone may take twenty times as long as elsewhere, and all
    repeats of something short a hundred times. So what grows with the amount has to prevail, and
    two amounts have to agree, neither of them too short: more takes longer, and no more than in
    proportion, by and large.

    Parameters
    ----------
    work, clock
        As in `time_repeatedly`.
    amount, most : float or int
        To begin with, and all that there is.
    seconds : float
        That the least of the repeats takes, unless there is no more.

    Returns
    -------
    amounts : tuple of two float or int
        The first one, and the one that was enough.
    seconds : tuple of two ndarray, shape (2,)
        The least and the median of each.
    """
    whole, first = type(most), amount
    found, ended = time_repeatedly(work, amount, clock)
    begun, again = found, AGAIN
    while amount < most and not ended:
        wanted = max(seconds, min(PREVAILS * begun[0], LONGEST))
        growing = max(found[0] - begun[0], 0.0)
        factor = 0.6 * wanted / max(growing, wanted / GROWTH)  # then it is doubled
        factor = max(2.0, min(factor, LONGEST / max(found[0], LONGEST / GROWTH)))
        more = min(most, whole(amount * factor))
        longer, ended = time_repeatedly(work, more, clock)
        if longer[0] > UNEVEN * more / amount * found[0] and again:  # one of the two is wrong
            again -= 1
            found, _ = time_repeatedly(work, amount, clock)
            begun = np.minimum(begun, found) if amount == first else begun
            ended = False
            continue
        enough = longer[0] >= wanted and longer[0] > LONGER * found[0] >= LONGER * wanted / 4
        amount, found = more, longer
        if enough:
            break
    return (first, most if ended else amount), (begun, found)


@dataclasses.dataclass(frozen=True, eq=False)
class Probe:
    """A batch of a study, a part of which is integrated to see what it costs.

    Parameters
    ----------
    recipe : sweep.campaign.worker.recorder.Recipe
    system, integrator : sweep.campaign.worker.recorder.NamedComponent
    initial : ndarray, shape (runs, rows, 3)
        In doubles.
    step_size, tolerance : float
        One of them is NaN.
    steps : int
        That each run takes; without meaning where there is a tolerance.
    """

    recipe: Recipe
    system: NamedComponent
    integrator: NamedComponent
    initial: np.ndarray
    step_size: float
    tolerance: float
    steps: int

    def recorder(self) -> Recorder:
        """Make the `Recorder` of such batches."""
        return Recorder(self.recipe, self.system, self.integrator)

    def compile(self) -> None:
        """Compile all kernels that such a batch needs."""
        recorder = self.recorder()
        self._integration_of(recorder, self._first_amount)()
        measure_recording_seconds(recorder, self, 1, lambda: 0.0)
        measure_structure_cost(recorder, self, lambda: 0.0)

    def line(
        self, recorder: Recorder, seconds: float, clock: Clock = time.thread_time
    ) -> tuple[Line, float, float]:
        """Measure the `Line` of the batch, the steps in a unit of work, and its `Cost.unseen`.

        An amount is a number of steps, or of an adaptive integrator a time at the tolerance 1,
        which needs fewer steps by the tolerance to the power 1/order. `recorder` is the batch's,
        or one like it of which the kernels are loaded.
        """
        work = functools.partial(self._integration_of, recorder)
        work(self._first_amount)()  # compiles, or loads what is compiled
        amounts, times = time_growing_work(
            work, self._first_amount, self._whole_amount, seconds, clock
        )
        if self._has_fixed_step:
            return Line.through(amounts, times), 1.0, 0.0
        small, large = np.array(amounts) * self.tolerance ** (-1 / recorder.order)
        measured = self._steps_until(recorder, amounts[1], MOST_MEASURED)
        further = {kind: int(measured[0]) + most for kind, most in LOOKED_AHEAD.items()}
        ahead = self._steps_until(recorder, self._whole_amount, further)
        unseen = unseen_seconds(float(times[1][1]), measured, ahead, self.recipe.bound)
        return Line.through((small, large), times), measured[0] / large, unseen

    @property
    def _has_fixed_step(self) -> bool:
        return math.isnan(self.tolerance)

    @property
    def _whole_amount(self) -> float:
        """Amount of work of the whole batch: steps, or time of an adaptive integrator."""
        return self.steps if self._has_fixed_step else float(self.recipe.times[-1])

    @property
    def _first_amount(self) -> float:
        """The smallest amount of work that is measured."""
        return 1 if self._has_fixed_step else self._whole_amount * FIRST_PART

    def _integration_of(self, recorder: Recorder, amount: Any) -> Callable[[], bool]:
        """A function that integrates some amount of work; it returns whether all runs failed."""
        if self._has_fixed_step:
            counts = self._intervals(amount)
            initial = recorder.starts(self.initial)
            integrate = functools.partial(recorder.integrate_fixed, initial, self.step_size, counts)
        else:
            times, initial = self._times(amount), recorder.starts(self.initial)
            bound = self._bound(recorder, amount, MOST_MEASURED)
            prepared, _ = prepare(recorder.adaptive_problem, initial, bound, self.tolerance)
            integrate = functools.partial(
                recorder.integrate_adaptive, initial, times, self.tolerance, prepared, bound=bound
            )

        def failed() -> bool:
            report = integrate()[0].report
            return bool(np.all(report[:, status.STATUS_ROW] > status.COMPLETE))

        return failed

    def _intervals(self, steps: int) -> NDArray[np.int64]:
        """Steps in each sample interval, with as many steps in an interval as the whole run has."""
        samples = self.recipe.time_axis.samples
        count = max(1, min(steps, round(samples * steps / self.steps)))
        until: NDArray[np.int64] = np.linspace(0, steps, count + 1).round().astype(np.int64)
        return until[1:] - until[:-1]

    def _times(self, span: float) -> NDArray[np.float64]:
        """Sample times up to the time `span`, which is the last of them."""
        times = self.recipe.times
        return np.append(times[times < span * (1 - 1e-12)], span)

    def _bound(self, recorder: Recorder, span: float, most: Mapping[bool, int]) -> StepBound:
        """That of a part of the batch, which the pilot integrates."""
        return StepBound(span, most[recorder.adaptive_problem.loop is not None])

    def _steps_until(
        self, recorder: Recorder, span: float, most: Mapping[bool, int]
    ) -> tuple[float, float]:
        """Steps up to a time, and until when they lead: not so far where there are too many."""
        initial, bound = recorder.starts(self.initial), self._bound(recorder, span, most)
        times = np.array([0.0, span])
        found: Integrated | Solutions
        if recorder.extendable:
            found = recorder.integrate_adaptive(initial, times, self.tolerance, bound=bound)
        else:
            counted = recorder.counted_problem
            found = run_adaptive(counted, initial, times, self.tolerance, bound=bound)
        steps, stopped = (float(found.counters[name][0]) for name in ("steps", "stop_time"))
        return max(steps, 1.0), span if math.isnan(stopped) else stopped


def measure_recording_seconds(
    recorder: Recorder, probe: Probe, repeats: int = REPEATS, clock: Clock = time.thread_time
) -> float:
    """Measure the seconds to record one sample of a run, without those of the integration.

    Parameters
    ----------
    recorder : sweep.campaign.worker.recorder.Recorder
    probe : Probe
    repeats : int
    clock : callable
    """
    samples = min(recorder.recipe.time_axis.samples, PILOT_SAMPLES)
    if np.isnan(probe.tolerance):
        axis = TimeAxis.uniform(probe.step_size * samples, samples)
    else:  # of few steps
        axis = TimeAxis.uniform(recorder.recipe.times[-1] * FIRST_PART, samples)
    short = Recorder(recorder.recipe.for_pilot(axis), recorder.system, recorder.integrator)
    tolerance = probe.tolerance if np.isnan(probe.tolerance) else max(probe.tolerance, 1e-3)
    found, initial = [], short.starts(probe.initial)
    for _ in range(1 + repeats):  # the first one compiles
        began = clock()
        columns = short.run(initial, probe.step_size, 1, tolerance=tolerance)
        found.append(clock() - began - columns["cpu_time"].sum())
    return max(float(min(found[1:])), 0.0) / (len(probe.initial) * (samples + 1))


def measure_structure_cost(
    recorder: Recorder, probe: Probe, clock: Clock = time.thread_time
) -> dict[str, float]:
    """Measure what structure and tangent vectors cost: two parameters of a `Cost`.

    Parameters
    ----------
    recorder : sweep.campaign.worker.recorder.Recorder
    probe : Probe
    clock : callable

    Returns
    -------
    dict of str to float
    """
    record = recorder.recipe.record
    extra = _tangent_steps_over_steps(recorder, probe, clock)
    if not any(name in schema.STRUCTURE for name in record):
        return {"extra_integrations": extra}
    fixed = bool(np.isnan(probe.tolerance))
    few = recorder.starts(probe.initial[: 1 + fixed])  # in lanes, where there are any

    def measured() -> float:
        """Measure the structure, or a part of that, which is returned."""
        most = None if fixed else MOST_MEASURED[recorder.adaptive_problem.loop is not None] // 10
        maps = recorder.maps(few, probe.tolerance, np.zeros((len(few), 0)), most)
        with contextlib.suppress(Unfinished):
            recorder.measure_structure(few, few, probe.step_size, maps)
            return 1.0
        (own,) = maps
        images = own.part / (1.0 - own.part)
        return float(min(1.0, images / (IMAGES_PER_ROW * few.shape[1])))

    part = measured()  # compiles
    seconds, _ = time_repeatedly(lambda _: lambda: measured() < 0.0, 1, clock)
    back = schema.REVERSAL_ERROR in record and fixed
    return {
        "extra_integrations": extra + float(back),
        "seconds_per_run": float(seconds[1]) / len(few) / part,
    }


def _tangent_steps_over_steps(recorder: Recorder, probe: Probe, clock: Clock) -> float:
    """Ratio of the CPU time of steps with tangent vectors to that of steps without; or 0."""
    if recorder.followed is None:
        return 0.0
    initial = recorder.starts(probe.initial)
    if np.isnan(probe.tolerance):
        own = probe.step_size, np.array([TANGENT_STEPS])
        plain = functools.partial(recorder.integrate_fixed, initial, *own)
        followed = functools.partial(recorder.chaos_of_run, recorder.followed, initial[0], *own)
    else:
        times = np.array([0.0, FIRST_PART * recorder.recipe.times[-1]])
        plain = functools.partial(recorder.integrate_adaptive, initial, times, probe.tolerance)
        followed = functools.partial(
            recorder.chaos_of_adaptive_run, recorder.followed, initial[0], probe.tolerance, times
        )
    seconds = []
    for work in (plain, followed):
        work()  # compiles
        seconds.append(_median_seconds(work, clock))
    one, other = seconds
    return other / max(one / len(initial), float(np.finfo(float).tiny))


def _median_seconds(work: Callable[[], object], clock: Clock) -> float:
    return float(time_repeatedly(lambda _: work, 1, clock)[0][1])
