"""Trials of an integrator: at one step size or tolerance, from some starts, up to a sample.

They are computed as the runs of a study are, by a `Recorder`, up to eight in the lanes of a vector.
"""

from __future__ import annotations

import functools
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from integrators import status as status_of
from integrators.compiler.lanes import WIDTH
from integrators.errors import InputError
from integrators.method import Integrator
from integrators.precision import DOUBLE
from integrators.stepping.adaptive import SMALLEST_TOLERANCES, StepBound
from sweep.campaign.recommend.bounds import GLOBAL
from sweep.campaign.recommend.confidence import rare_error
from sweep.campaign.worker.recorder import (
    EVERY_STEP,
    NamedComponent,
    Recipe,
    Recorder,
    RunBatch,
)
from sweep.campaign.worker.reference import compute_reference_trajectory

if TYPE_CHECKING:
    from sweep.campaign.recommend.bounds import Bound
    from sweep.campaign.worker.recorder import ReferenceStates
    from sweep.study.experiment import ResolvedExperiment
    from sweep.study.run_table import States
    from sweep.study.time_axis import TimeAxis
    from systems.base import System

FIRST_TOLERANCE, LARGEST_TOLERANCE = 1e-6, 0.1
LONGEST = 4.0  # the longest step that is tried, in units of the one that suits the system
BRIEF, REPEATS = 1e-3, 3  # seconds below which a trial is repeated, and how often
RESOLVED = 0.1  # fraction of a bound below which the error of a reference must be
CHAOTIC = 0.01  # error of a reference, beyond which chaos dominates


class OutOfBudget(Exception):
    """The time budget of a search is spent."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """An integrator that fits the system.

    Parameters
    ----------
    name : str
    integrator : integrators.method.Integrator
    suitable_step : float
        A step size that roughly suits the system.
    """

    name: str
    integrator: Integrator
    suitable_step: float

    @property
    def adaptive(self) -> bool:
        """Whether its size is a tolerance, not a step size."""
        return self.integrator.adaptive

    @property
    def order(self) -> int:
        """Order of convergence; 1 of an integrator whose steps are the exact flow."""
        order = self.integrator.order
        return order if isinstance(order, int) else 1

    @property
    def keeps_invariants(self) -> bool:
        """Whether it keeps energy or momenta to round-off: their errors do not follow its order."""
        return not {"energy", "momentum_map"}.isdisjoint(self.integrator.preserves)

    @property
    def first_size(self) -> float:
        """The size that is tried first."""
        return FIRST_TOLERANCE if self.adaptive else self.suitable_step

    @property
    def largest_size(self) -> float:
        """The largest size that is tried."""
        return LARGEST_TOLERANCE if self.adaptive else LONGEST * self.suitable_step

    @property
    def error_power(self) -> float:
        """Declared power of the size with which errors fall."""
        return 1.0 if self.adaptive else float(self.order)

    @property
    def cost_power(self) -> float:
        """Power of the inverse size with which the cost rises."""
        return 1.0 / self.order if self.adaptive else 1.0

    def snapped(self, size: float, interval: float) -> float:
        """The nearest possible size; a step is shortened so that it divides the interval."""
        size = min(size, self.largest_size)
        if self.adaptive:
            return max(size, SMALLEST_TOLERANCES[DOUBLE][0])
        return interval / math.ceil(interval / size * (1 - 1e-9))


@dataclass(frozen=True, eq=False)
class Trial:
    """Errors and cost of a candidate at one size.

    Parameters
    ----------
    size : float
        Step size, or tolerance.
    samples : int
        Number of sample intervals until its end.
    ratios : ndarray, shape (starts, samples)
        Largest error until each sample, divided by its bound; the maximum over several errors.
        Infinite where the run failed.
    errors : dict of str to ndarray, shape (starts,)
        Largest value of each error.
    seconds : float
        CPU seconds of one run, its share of those that were integrated together.
    steps : float
        Mean number of steps of a run.
    drawn : bool
        Whether the starts are drawn from an ensemble, and represent others of it.
    round_off : float
        Error of half a unit in the last place, divided by its bound; the maximum over errors.
    """

    size: float
    samples: int
    ratios: NDArray[np.float64]
    errors: dict[str, NDArray[np.float64]] = field(repr=False)
    seconds: float
    steps: float
    drawn: bool
    round_off: float

    @functools.cached_property
    def rare(self) -> float:
        """Ratio of error to bound that few new initial conditions would exceed."""
        return self._rare(-1)

    def _rare(self, sample: int) -> float:
        ratios = self.ratios[:, sample]
        return rare_error(ratios) if self.drawn else float(ratios.max())

    @property
    def growth(self) -> float:
        """Power of time with which errors grew in the second half; at least 0."""
        half = self._rare((self.samples + 1) // 2 - 1)
        if self.samples < 2 or not 0 < half < np.inf or not np.isfinite(self.rare):
            return 0.0
        return max(0.0, float(np.log2(self.rare / half)))


class Bench:
    """Tries candidates on one system, within a time budget.

    Parameters
    ----------
    experiment : sweep.study.experiment.ResolvedExperiment
        Its initial conditions and statistics count.
    system : systems.System
    bounds : tuple of Bound
    time_axis : TimeAxis
        Of the whole duration.
    budget : float
        Seconds that may pass from now on.
    drawn : bool
        As of a `Trial`.

    Attributes
    ----------
    library : sweep.plugins.registry.Library
    seconds, compile_seconds, reference_seconds : float
        CPU seconds of trials, of the compilation of kernels, and of references so far.
    in_time : bool
        Whether the budget has sufficed so far.
    """

    def __init__(
        self,
        experiment: ResolvedExperiment,
        system: System,
        bounds: tuple[Bound, ...],
        time_axis: TimeAxis,
        budget: float,
        drawn: bool,
    ) -> None:
        library = experiment.library
        self.system, self.bounds, self.time_axis = system, bounds, time_axis
        self._named = NamedComponent.of(system.name, system.parameters, library)
        self.library = library
        self.drawn = drawn
        self._ends = time.perf_counter() + budget
        self._recorders: dict[str, Recorder] = {}  # by the candidate's name
        self._references: dict[bytes, ReferenceStates] = {}  # by the bytes of the initial state
        self.every_step = experiment.statistics == EVERY_STEP
        record = tuple(name for bound in bounds for name in bound.quantities)
        referred = any(bound.error == GLOBAL for bound in bounds)
        self._recipe = Recipe(
            time_axis, record, experiment.statistics, len(time_axis.times) if referred else 0
        )
        self.round_off = 0.0  # as of a `Trial`, when there was one
        self.seconds = self.compile_seconds = self.reference_seconds = 0.0
        self.in_time = True

    def check_time(self) -> None:
        """Raise `OutOfBudget` if the budget is spent."""
        if not self.has_time_for(0.0):
            raise OutOfBudget

    def has_time_for(self, seconds: float) -> bool:
        """Whether the budget allows so many more seconds; if not, `in_time` becomes False."""
        allowed = time.perf_counter() + seconds <= self._ends
        self.in_time &= allowed
        return allowed

    def try_size(self, candidate: Candidate, size: float, samples: int, starts: States) -> Trial:
        """A `Trial` from some initial states, shape (starts, rows, 3), up to a sample."""
        self.check_time()
        recorder, parts = self._load_recorder(candidate, len(starts)), []
        width = 1 if candidate.adaptive else WIDTH
        for i in range(0, len(starts), width):
            self.check_time()
            parts.append(self._run(recorder, candidate, size, samples, starts[i : i + width]))
        series, steps, seconds = (list(own) for own in zip(*parts, strict=True))
        if sum(seconds) < BRIEF and not candidate.adaptive:  # the first time is a cold one
            repeats = [self.time_run(candidate, size, samples, starts) for _ in range(REPEATS)]
            seconds = [*seconds, *repeats]
        errors = {
            bound.error: np.concatenate([own[bound.error] for own in series])
            for bound in self.bounds
        }
        ratios = np.max([errors[b.error] / b.most for b in self.bounds], axis=0)
        return Trial(
            size=size,
            samples=samples,
            ratios=ratios,
            errors={name: values[:, -1] for name, values in errors.items()},
            seconds=float(np.mean(seconds) if candidate.adaptive else min(seconds)),
            steps=float(np.mean(np.concatenate(steps))),
            drawn=self.drawn,
            round_off=self.round_off,
        )

    def time_run(self, candidate: Candidate, size: float, samples: int, starts: States) -> float:
        """CPU seconds of one run up to a sample, of up to eight that are computed together."""
        starts = starts[: 1 if candidate.adaptive else WIDTH]
        recorder = self._load_recorder(candidate, len(starts))
        return self._run(recorder, candidate, size, samples, starts, measured=False)[2]

    def _load_recorder(self, candidate: Candidate, count: int) -> Recorder:
        """The recorder of a candidate, with its kernels compiled."""
        if candidate.name not in self._recorders:
            named = NamedComponent.of(candidate.name, {}, self.library)
            self._recorders[candidate.name] = Recorder(self._recipe, self._named, named)
        recorder = self._recorders[candidate.name]
        began = time.thread_time()
        recorder.compile(lanes=count > 1 and not candidate.adaptive)
        self.compile_seconds += time.thread_time() - began
        return recorder

    def _run(
        self,
        recorder: Recorder,
        candidate: Candidate,
        size: float,
        samples: int,
        starts: States,
        measured: bool = True,
    ) -> tuple[dict[str, NDArray[np.float64]], np.ndarray, float]:
        """Integrate runs; returns running maxima of errors, steps, and CPU seconds of a run."""
        adaptive = candidate.adaptive
        steps = 0 if adaptive else round(self.time_axis.interval / size)
        runs = RunBatch.begin(
            starts, np.nan if adaptive else size, steps, size if adaptive else np.nan
        )
        reference = (
            self._references_of(starts) if measured and self._recipe.reference_samples else None
        )
        began = time.thread_time()
        sampled = recorder.advance(runs, samples, reference)
        self.seconds += time.thread_time() - began
        failed = ~runs.alive | (runs.status > status_of.COMPLETE)
        found = {}
        if not self.round_off:
            parts = [bound.round_off(sampled) / bound.most for bound in self.bounds]
            self.round_off = max(parts)
        for bound in self.bounds if measured else ():
            series = bound.series(sampled, self.every_step)[:, 1:]
            series = np.maximum.accumulate(np.where(np.isfinite(series), series, np.inf), axis=1)
            found[bound.error] = np.where(failed[:, None], np.inf, series)
        return found, runs.counters["steps"], float(runs.cpu.mean())

    def _references_of(self, starts: States) -> ReferenceStates:
        """Reference states of some starts and their errors, as `Recorder.advance` takes them."""
        found = [self._reference_of(state) for state in starts]
        states, errors = (np.array(own) for own in zip(*found, strict=True))
        return states, errors

    def _reference_of(self, state: States) -> ReferenceStates:
        key = state.tobytes()
        if key not in self._references:
            self.check_time()
            began, times = time.thread_time(), self.time_axis.times
            states, error, _ = compute_reference_trajectory(
                self.system, state, times, SMALLEST_TOLERANCES[DOUBLE][0], StepBound(times[-1])
            )
            self.reference_seconds += time.thread_time() - began
            self._check_resolved(times, error)
            self._references[key] = states, error
        return self._references[key]

    def _check_resolved(self, times: NDArray[np.float64], error: NDArray[np.float64]) -> None:
        """Raise `InputError` unless the error of a reference is well below the bound."""
        (most,) = (bound.most for bound in self.bounds if bound.error == GLOBAL)
        unresolved = ~(error <= RESOLVED * most)
        if unresolved.any():
            most_uncertain, first = np.nanmax(error), times[max(0, int(np.argmax(unresolved)) - 1)]
            remedies = ["a shorter time" if first == 0 else f"a time until {first:.15g}"]
            if most_uncertain < CHAOTIC:
                least = 1.05 * most_uncertain / RESOLVED  # which two digits do not round below
                remedies.append(f"a bound of at least {least:.1e}")
            raise InputError(
                f"{GLOBAL} = {most:g} cannot be told until t = {times[-1]:g}: the reference itself "
                f"is uncertain by {most_uncertain:.1e}; expected {' or '.join(remedies)}",
                key=GLOBAL,
            )
