"""Probes measure the cost of a batch of runs, or of a reference, by taking some of its steps.

A probe takes one step, then more and more until they take long enough; the total cost is
extrapolated. The first step also compiles the kernels, so workers take it before tasks begin, and
processes on all cores before anything is measured.
Times are CPU seconds of this thread.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.lanes import WIDTH
from integrators.diagnostics.structure import Unfinished
from integrators.errors import InputError
from integrators.method import STEPS_OF
from sweep import clusters
from sweep.campaign.worker.precise_reference import PreciseSolver
from sweep.campaign.worker.reference import DoubleSolver
from sweep.campaign.worker.run_work import SECONDS_TOGETHER
from sweep.campaign.worker.trajectory import Batch, Integration, NamedComponent, Recipe, make_system
from sweep.study import variables

if TYPE_CHECKING:
    from sweep.study.run_table import States

REPEATS = 2  # of a measurement if there are few, since other processes disturb a single one
# Seconds of integration that each of many probes measures, and a single one; all probes together
# should take some tenths of a second.
LEAST_SECONDS, MOST_SECONDS, ALL_SECONDS = 3e-4, 5e-3, 0.02
REPEATED_SECONDS = 1e-3  # measurements of at least this are repeated; shorter ones are some of many
LONG_SECONDS = 0.025  # a step that takes as long is measured by itself: it is no call's time
LOADING_SECONDS = 0.1  # a single measurement longer than this may include compilation
MOST_TOGETHER = 16  # batches that are computed at once, to measure the time for each
MOST_GROWTH = 16  # of the number of steps from one measurement to the next
IMAGES_PER_ROW = 40  # runs by which the map of an adaptive run is measured, about, of a state's row


def seconds_of_probes(count: int) -> float:
    """Seconds of integration that each of `count` probes measures."""
    return min(max(ALL_SECONDS / max(count, 1), LEAST_SECONDS), MOST_SECONDS)


@contextlib.contextmanager
def compiling_on_all_cores(
    probes: Sequence[RunProbe | ReferenceProbe],
) -> Iterator[list[Future[None]]]:
    """Context manager that compiles what probes need, in processes that it kills at its end.

    Yields
    ------
    list of Future
        For each probe, in this order; empty where there is one core or probe, or no such process.
    """
    count, pool = min(os.cpu_count() or 1, len(probes)), None
    if count > 1 and clusters.processes.ensure_server():
        pool = clusters.processes.pool_of_server(count)
    if pool is None:
        yield []
        return
    try:
        yield [pool.submit(_compile_all, probe) for probe in probes]
    finally:
        processes = list(pool._processes.values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()


def _compile_all(probe: RunProbe | ReferenceProbe) -> None:
    """Compile the kernels of a probe, also those that only its measurement needs."""
    probe.compile()
    if isinstance(probe, RunProbe):
        probe.cost(0.0)


class Cost(NamedTuple):
    """CPU seconds of batches of one integrator and one size of system.

    Parameters
    ----------
    call : float
        Seconds of a batch without any steps.
    unit : float
        Seconds of a unit of work, see `RunProbe.work`.
    steps : float
        Steps of a run in a unit of work.
    run : float
        Seconds of a run besides the integration, to record all its samples.
    beside : float
        Time of a run to count steps, follow tangent vectors and go back, relative to the
        integration.
    """

    call: float
    unit: float
    steps: float
    run: float
    beside: float


class Part(NamedTuple):
    """The measured cost of a part of a batch or a reference.

    Parameters
    ----------
    seconds, besides : float
        CPU seconds of the integration, and of everything else.
    done : float
        Fraction of the duration that is done; 1 if nothing is left, as after a failure.
    steps : int
        Number of steps of one run.
    samples : int
        Number of samples reached after the start.
    """

    seconds: float
    besides: float
    done: float
    steps: int = 0
    samples: int = 0


def _measure(take: Callable[[int], Part], seconds: float) -> tuple[Part, Part, int]:
    """Measure one step, and as many steps as take `seconds` more; the least time of `REPEATS`.

    A few steps are not enough if a call takes longer than they do, as on a busy machine; one step
    of `LONG_SECONDS` is. If there are many batches, each is measured once, since disturbances
    hardly change their sum. Returns both parts, and the number of steps that were requested.
    """
    repeats = REPEATS if seconds >= REPEATED_SECONDS else 1
    first = last = _least([take(1) for _ in range(repeats)])
    enough, most, steps = min(seconds + 2 * first.seconds, LONG_SECONDS), 1, first.seconds
    while last.seconds < enough and last.done < 1.0:
        most *= min(max(int(2 * enough / max(steps, 1e-9)), 2), MOST_GROWTH)
        last = take(most)
        steps = last.seconds - first.seconds
        if last.seconds >= enough or last.done >= 1.0:
            last = _least([last, *(take(most) for _ in range(repeats - 1))])
    return first, last, most


def _least(parts: Sequence[Part]) -> Part:
    """The least cost among several measurements of one part."""
    least = {name: min(getattr(part, name) for part in parts) for name in ("seconds", "besides")}
    return parts[0]._replace(**least)


def _line(first: Part, last: Part) -> tuple[float, float]:
    """Seconds of a call without any steps, and additional seconds for the whole duration."""
    if not (last.done > first.done and last.seconds > first.seconds):
        return 0.0, last.seconds / last.done
    whole = (last.seconds - first.seconds) / (last.done - first.done)
    return max(first.seconds - whole * first.done, 0.0), whole


def _part_of_duration(times: NDArray[np.float64], sample: int, part: float) -> float:
    """Fraction of the duration that is done at a sample and `part` of the next interval."""
    ahead = times[min(sample + 1, len(times) - 1)] - times[sample]
    return max(float((times[sample] + part * ahead) / times[-1]), 1e-12)


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
        Steps in an interval of the time axis; meaningless if there is a tolerance.
    work : float
        Work of the whole batch: the number of steps of each run or, for an adaptive integrator, the
        duration times the tolerance to the power -1/order, to which steps are proportional.
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
        """Compile all kernels that such batches need, by taking a step."""
        self.structure_seconds()

    def structure_seconds(self) -> float:
        """CPU seconds of the measurement of a run's structure."""
        integration = self._begun()
        if not integration.extendable:
            return self._with_equal_steps(1).structure_seconds()
        seconds = self._measure_structure(integration)
        return seconds if seconds < LOADING_SECONDS else self._measure_structure(integration)

    def _begun(self) -> Integration:
        """The integration, with its step kernels loaded."""
        integration = Integration(self.recipe, self.system, self.integrator)
        self._advance(integration, 1)
        return integration

    def cost(self, seconds: float) -> Cost:
        """Measure the `Cost` of such batches for some seconds of integration.

        This does not include the measurement of a run's structure, but loads its kernels.
        """
        integration = self._begun()
        if not integration.extendable:
            counted = self._counted().cost(seconds)
            cost = self._with_equal_steps(counted.steps * self.work).cost(seconds)
            counting, stepping = (own.call + own.unit * self.work for own in (counted, cost))
            return cost._replace(steps=counted.steps, beside=cost.beside + counting / stepping)
        integration.load_structure(integration.starts(self.initial[:1]), self.step_size)
        timed = integration
        if integration.followed is not None:  # by tangent vectors, which take longer: once
            recipe = replace(self.recipe, record=())
            timed = Integration(recipe, self.system, self.integrator)
        first, last, most = _measure(lambda most: self._advance(timed, most), seconds)
        call, whole = _line(first, last)
        beside = self._integrations_at_end
        if integration.followed is not None:
            recorded = self._advance(integration, most)
            besides, beside = 0.0, beside + recorded.besides / max(last.seconds, 1e-9)
        else:
            among = self._among_others(integration, first, whole)
            call, besides = max(among.seconds - whole * first.done, 0.0), among.besides
            reached = last.samples - first.samples
            each = max(last.besides - first.besides, 0.0) / max(reached, 1)
            besides += each * self.recipe.time_axis.samples * bool(reached)
        steps = 1.0 if math.isnan(self.tolerance) else last.steps / last.done / self.work
        self._check_time_of_step(integration, whole / self.work / len(self.initial))
        return Cost(call, whole / self.work, steps, besides / len(self.initial), beside)

    def _among_others(self, integration: Integration, alone: Part, whole: float) -> Part:
        """The first step of the batch among others; `alone` by itself, `whole` seconds for all.

        Workers integrate and record many batches at once if these take little time.
        """
        seconds = alone.seconds + alone.besides + whole
        count = min(int(SECONDS_TOGETHER / max(seconds, 1e-9)), MOST_TOGETHER)
        if count < 2 or len(self.initial) < WIDTH:
            return alone
        many = replace(self, initial=np.tile(self.initial, (count, 1, 1)))._advance(integration, 1)
        each = many._replace(seconds=many.seconds / count, besides=many.besides / count)
        return _least([alone, each])

    def _check_time_of_step(self, integration: Integration, seconds: float) -> None:
        """Raise `InputError` where a step in Python takes longer than it may."""
        step = integration.problem.python if math.isnan(self.tolerance) else None
        if step is not None and seconds > step.most_seconds:
            raise InputError(
                f"{step.place} takes {seconds:.2g} s on {self.system.name!r}; expected at most "
                f"most_seconds = {step.most_seconds:g}"
            )

    def _advance(self, integration: Integration, most: int) -> Part:
        """Take some steps from the start, and record them."""
        times, initial = self.recipe.times, integration.starts(self.initial)
        runs = Batch.begin(initial, self.step_size, self.steps_per_sample, self.tolerance)
        began = time.thread_time()
        integration.advance(runs, len(times) - 1, None, most)
        taken, seconds = time.thread_time() - began, float(runs.cpu.sum())
        return Part(
            seconds=seconds,
            besides=max(taken - seconds, 0.0),
            done=_part_of_duration(times, runs.sample, runs.part),
            steps=int(runs.counters["steps"][0]) if integration.extendable else 0,
            samples=runs.sample,
        )

    def _counted(self) -> RunProbe:
        """The batch with the adaptive integrator that determines the number of steps."""
        name, library = dict(self.integrator.settings)[STEPS_OF], self.integrator.library
        recipe = replace(self.recipe, record=(), reference_samples=0)
        return replace(self, recipe=recipe, integrator=NamedComponent.of(name, {}, library))

    def _with_equal_steps(self, steps: float) -> RunProbe:
        """The batch with the same integrator and about `steps` fixed steps in the duration."""
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

    def _measure_structure(self, integration: Integration) -> float:
        """CPU seconds to measure the structure of a run; for an adaptive one, of the beginning."""
        state = integration.starts(self.initial[:1])
        maps = integration.maps(state, self.tolerance, np.zeros((1, 0)), 1)
        began = time.thread_time()
        with contextlib.suppress(Unfinished):
            integration.measure_structure(state, state, self.step_size, maps)
        return time.thread_time() - began

    @property
    def _integrations_at_end(self) -> float:
        """Cost of what follows the last step, relative to the integration of the batch."""
        record, times = self.recipe.record, self.recipe.times
        if math.isnan(self.tolerance):
            return float(variables.REVERSAL_ERROR in record)
        images = IMAGES_PER_ROW * self.initial.shape[1] * (variables.SYMPLECTIC_DEFECT in record)
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
        The initial state in double-double, if it is known to more digits.
    """

    system: NamedComponent
    solver: DoubleSolver | PreciseSolver
    initial: States
    known: States | None

    def compile(self) -> None:
        """Compile all kernels that the reference needs, by taking some steps."""
        self.solver.rehearse(make_system(self.system), self.initial, self.known)

    def seconds(self, measured: float) -> float:
        """Expected CPU seconds of the whole reference, of which `measured` seconds are measured.

        Raises
        ------
        InputError
            If a double-double reference does not meet its tolerance up to the last sample.
        """
        system, starts = make_system(self.system), (self.initial, self.known)
        self.compile()
        if isinstance(solver := self.solver, PreciseSolver):
            return solver.expected_seconds(system, *starts, time.thread_time)

        def take(most: int) -> Part:
            began = time.thread_time()
            found = solver.advance(system, *starts, 0, None, most)
            done = _part_of_duration(solver.times, len(found.columns["error"]) - 1, found.part)
            return Part(time.thread_time() - began, 0.0, done)

        first, last, _ = _measure(take, measured)
        return sum(_line(first, last))
