"""Probes: what a batch of runs, or a reference, costs, by taking some of its steps.

A probe takes one step, then more and more, until they take long enough; the rest follows by
counting. A step compiles the kernels, too: workers take one of each probe before tasks.
Times are CPU seconds of this thread.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from integrators.diagnostics.structure import Unfinished
from integrators.method import STEPS_OF
from integrators.stepping.adaptive import run_adaptive
from sweep.campaign.worker.precise_reference import PreciseSolver
from sweep.campaign.worker.reference import DoubleSolver
from sweep.campaign.worker.trajectory import Batch, Integration, NamedComponent, Recipe, make_system
from sweep.study import schema

if TYPE_CHECKING:
    from sweep.study.run_table import States

REPEATS = 3  # of the measurement of a batch: other processes disturb a single one
# Seconds of integration that are measured, of each of many probes and of one alone: together they
# are to take some tenths of a second.
LEAST_SECONDS, MOST_SECONDS, ALL_SECONDS = 5e-4, 5e-3, 0.04
IMAGES_PER_ROW = 40  # runs by which the map of an adaptive run is measured, about, of a state's row


def seconds_of_probes(count: int) -> float:
    """Seconds of integration that each of so many probes measures."""
    return min(max(ALL_SECONDS / max(count, 1), LEAST_SECONDS), MOST_SECONDS)


@dataclass(frozen=True)
class Cost:
    """CPU seconds of batches of one integrator and one size of system.

    Parameters
    ----------
    call : float
        Seconds of a batch without any step.
    unit : float
        Seconds of a unit of work, see `RunProbe.work`.
    steps : float
        Steps of a run in a unit of work.
    run, sample : float
        Seconds besides the integration: to record a run, and to record each of its samples.
    beside : float
        The same in integrations: to count steps, follow tangent vectors, go back.
    """

    call: float
    unit: float
    steps: float
    run: float
    sample: float
    beside: float


class Part(NamedTuple):
    """What a part of a batch or a reference took.

    Parameters
    ----------
    seconds, besides : float
        CPU seconds of the integration, and of all else.
    done : float
        Fraction of the duration; 1 where nothing is left, as after a failure.
    steps : int
        Of one run.
    samples : int
        That were reached after the start.
    """

    seconds: float
    besides: float
    done: float
    steps: int = 0
    samples: int = 0


ENOUGH_STEPS = 64  # of a measurement, unless they take five times as long as it should


def _measure(take: Callable[[int], Part], seconds: float, repeats: int) -> tuple[Part, Part]:
    """Take one step, and as many as take so many seconds, or all; of repeats the least counts.

    What takes so long once, and not again, was interrupted: then more steps are taken. A few steps
    tell little where a call takes longer than they do, as on a busy machine.
    """

    def least(part: Part, most: int) -> Part:
        return min([part, *(take(most) for _ in range(repeats - 1))], key=lambda own: own.seconds)

    most = 1
    first = part = least(take(1), 1)
    while part.seconds < (seconds if most >= ENOUGH_STEPS else 5 * seconds) and part.done < 1.0:
        most *= 2 if part.seconds > seconds / 4 else 8
        part = take(most)
        if part.seconds >= seconds or part.done >= 1.0:
            part = least(part, most)
    return first, part


def _line(first: Part, last: Part) -> tuple[float, float]:
    """Seconds of a call without any step, and those more that the whole duration takes."""
    if not (last.done > first.done and last.seconds > first.seconds):
        return 0.0, last.seconds / last.done
    whole = (last.seconds - first.seconds) / (last.done - first.done)
    return max(first.seconds - whole * first.done, 0.0), whole


class Probe(Protocol):
    """A batch of runs or a reference of which the kernels are compiled."""

    def compile(self) -> None:
        """Compile all kernels that it needs, by a step."""


@dataclass(frozen=True, eq=False)
class RunProbe:
    """A batch of runs.

    Parameters
    ----------
    recipe : sweep.campaign.worker.trajectory.Recipe
    system, integrator : sweep.campaign.worker.trajectory.NamedComponent
    initial : ndarray, shape (runs, rows, 3)
        In doubles.
    step_size, tolerance : float
        One of them is NaN.
    steps_per_sample : int
        Steps in an interval of the time axis; without meaning where there is a tolerance.
    work : float
        Units of work of the whole batch: steps of each run or, of an adaptive integrator, the
        duration times the tolerance to the power -1/order, which steps are proportional to.
    """

    recipe: Recipe
    system: NamedComponent
    integrator: NamedComponent
    initial: States
    step_size: float
    tolerance: float
    steps_per_sample: int
    work: float

    def __str__(self) -> str:
        return f"{self.integrator.name} on {self.system.name}"

    def compile(self) -> None:
        """Compile all kernels that such a batch needs, by a step."""
        integration = self._integration()
        self._advance(integration, 1)
        if not integration.extendable:
            self._count_steps(integration, 0.0)
            twin = self._with_equal_steps(1)
            twin._advance(twin._integration(), 1)
        self._measure_structure(integration)

    def cost(self, seconds: float) -> Cost:
        """Measure the `Cost` of such batches by so many seconds of integration."""
        self.compile()
        integration = self._integration()
        if not integration.extendable:
            counted = self._count_steps(integration, seconds)
            steps = counted.steps / counted.done
            cost = self._with_equal_steps(steps).cost(seconds)
            beside = counted.seconds / counted.done / (cost.call + cost.unit * self.work)
            return replace(cost, steps=steps / self.work, beside=cost.beside + beside)
        first, last = _measure(lambda most: self._advance(integration, most), seconds, REPEATS)
        call, whole = _line(first, last)
        runs, samples = len(self.initial), last.samples - first.samples
        run, sample, beside = first.besides, 0.0, 0.0
        if integration.followed is not None:
            run, beside = 0.0, last.besides / max(last.seconds, 1e-9)
        elif samples:
            sample = max(last.besides - first.besides, 0.0) / samples
        return Cost(
            call=call,
            unit=whole / self.work,
            steps=1.0 if math.isnan(self.tolerance) else last.steps / last.done / self.work,
            run=run / runs + self._measure_structure(integration),
            sample=sample / runs,
            beside=beside + self._integrations_at_end(integration),
        )

    def _integration(self) -> Integration:
        return Integration(self.recipe, self.system, self.integrator)

    def _advance(self, integration: Integration, most: int) -> Part:
        """Take some steps from the start, and record them."""
        times, initial = self.recipe.times, integration.starts(self.initial)
        runs = Batch.begin(initial, self.step_size, self.steps_per_sample, self.tolerance)
        began = time.thread_time()
        integration.advance(runs, len(times) - 1, None, most)
        taken, seconds = time.thread_time() - began, float(runs.cpu.sum())
        done = times[runs.sample]
        if runs.sample + 1 < len(times):
            done += runs.part * (times[runs.sample + 1] - times[runs.sample])
        return Part(
            seconds=seconds,
            besides=max(taken - seconds, 0.0),
            done=max(float(done / times[-1]), 1e-12),
            steps=int(runs.counters["steps"][0]) if integration.extendable else 0,
            samples=runs.sample,
        )

    # --- steps that are counted before the run ---------------------------------------------

    def _count_steps(self, integration: Integration, seconds: float) -> Part:
        """Take the steps of the adaptive integrator whose number the run takes."""
        initial, end = integration.starts(self.initial), float(self.recipe.times[-1])

        def take(most: int) -> Part:
            began = time.thread_time()
            found = run_adaptive(
                integration.counted_problem, initial, [0.0, end], self.tolerance,
                bound=self.recipe.bound, most=most,
            )  # fmt: skip
            done = 1.0 if found.states.shape[1] > 1 else max(found.part, 1e-12)
            steps = max(int(found.counters["steps"][0]), 1)
            return Part(time.thread_time() - began, 0.0, done, steps)

        return _measure(take, seconds, REPEATS)[1]

    def _with_equal_steps(self, steps: float) -> RunProbe:
        """The batch by the same integrator with a fixed step, about so many in the duration."""
        options = {key: value for key, value in self.integrator.settings if key != STEPS_OF}
        axis = self.recipe.time_axis
        each = max(1, round(steps / axis.intervals))
        return replace(
            self,
            integrator=NamedComponent.of(self.integrator.name, options, self.integrator.library),
            step_size=float(axis.interval) / each,
            tolerance=math.nan,
            steps_per_sample=each,
        )

    # --- what follows the last step --------------------------------------------------------

    def _measure_structure(self, integration: Integration) -> float:
        """Measure the structure of a run as if it were over; of an adaptive one, begin to.

        Returns the CPU seconds.
        """
        state = integration.starts(self.initial[:1])
        maps = integration.maps(state, self.tolerance, np.zeros((1, 0)), 1)
        began = time.thread_time()
        with contextlib.suppress(Unfinished):
            integration.measure_structure(state, state, self.step_size, maps)
        return time.thread_time() - began

    def _integrations_at_end(self, integration: Integration) -> float:
        """What follows the last step, in integrations of the batch."""
        record, times = self.recipe.record, self.recipe.times
        if math.isnan(self.tolerance):
            return float(schema.REVERSAL_ERROR in record)
        images = IMAGES_PER_ROW * self.initial.shape[1] * (schema.SYMPLECTIC_DEFECT in record)
        return float(images * times[1] / times[-1])


@dataclass(frozen=True, eq=False)
class ReferenceProbe:
    """A reference trajectory.

    Parameters
    ----------
    system : sweep.campaign.worker.trajectory.NamedComponent
    solver : DoubleSolver or PreciseSolver
    initial : ndarray, shape (rows, 3)
    known : ndarray, shape (rows, 3, 2), or None
        The same in double-double, where it is known to more digits.
    """

    system: NamedComponent
    solver: DoubleSolver | PreciseSolver
    initial: States
    known: States | None

    def compile(self) -> None:
        """Compile all kernels that it needs, by some steps."""
        self.solver.rehearse(make_system(self.system), self.initial, self.known)

    def seconds(self) -> float:
        """CPU seconds of the whole reference, by a part of it.

        Raises
        ------
        InputError
            If one in double-double does not meet its tolerance up to the last sample.
        """
        system, starts = make_system(self.system), (self.initial, self.known)
        self.compile()
        if isinstance(solver := self.solver, PreciseSolver):
            return solver.expected_seconds(system, *starts, time.thread_time)
        times: NDArray[np.float64] = np.append(solver.times, solver.times[-1])

        def take(most: int) -> Part:
            began = time.thread_time()
            found = solver.advance(system, *starts, 0, None, most)
            at = len(found.columns["error"]) - 1
            done = times[at] + found.part * (times[at + 1] - times[at])
            return Part(time.thread_time() - began, 0.0, max(float(done / times[-1]), 1e-12))

        take(1)  # loads what steps need besides those kernels
        return sum(_line(*_measure(take, MOST_SECONDS, repeats=1)))


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Compiles all kernels that the tasks of some probes' experiments need.

    Parameters
    ----------
    probes : tuple of RunProbe or ReferenceProbe
    """

    probes: tuple[Probe, ...]

    def compile(self) -> None:
        """Compile them, in this process."""
        for probe in self.probes:
            probe.compile()
