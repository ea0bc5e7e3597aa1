"""Reference trajectories in double-double, with a fixed step that is halved if it is too long.

Two trajectories are integrated side by side, with a step and with half of it. As long as they
differ by no more than the tolerance, the states of the finer one are the reference. At the first
sample at which they differ by more, a trajectory with half the finer step is integrated from the
start up to there, and the two finest continue. So a sample depends on those before it alone: a
reference stops after any step, and resumes bit for bit.

If no step size meets the tolerance, a reference ends, and its later samples are NaN.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError
from integrators.precision import Number, to_doubles, to_precise
from integrators.stepping.batch import run_batch
from integrators.stepping.formulations import to_stored_states
from sweep.campaign.worker.task import Advance
from sweep.campaign.worker.trajectory import (
    norms_of_state_errors,
    starts_in_double_double,
    state_differences,
    states_of_checkpoints,
)
from sweep.store.checkpoints import REFERENCE_NUMBERS
from sweep.store.reference_ends import ReferenceEnd
from sweep.study.experiment import PreciseReference

if TYPE_CHECKING:
    from integrators.method import Integrator
    from integrators.stepping.problem import Problem
    from sweep.study.run_table import States
    from systems.base import System

SETTLED = 1e-6  # of the state's norm: below it errors fall as the order says, or are round-off
MOST_UNSETTLED = 2**18  # steps from the start up to a sample, while errors there do not settle
MOST_STEPS = 2**24  # steps from the start up to a sample
LOOSE = 1e-10  # tolerance at which the steps to a smaller one are known
TIMED = 32  # steps
SEARCHED = 2.5  # steps in all for each of the finer trajectory, those of coarser ones included
NO_STEP_SIZE = "no_step_size"
LAST_ERRORS = REFERENCE_NUMBERS - 1  # that a checkpoint has
HALVINGS = 64  # more than a step is ever halved; each halving counts as progress of a task
Checkpoint = NDArray[np.float64]  # of a trajectory, or of a reference: of two of them


@dataclass(frozen=True, eq=False)
class PreciseSolver:
    """Computes references of an experiment.

    Parameters
    ----------
    reference : sweep.study.experiment.PreciseReference
    duration : float
        Of the experiment; its precise value is that of `integrators.precision.to_precise`.
    intervals : int
        Number of equal intervals of the duration, of which all sample times are multiples.
    marks : ndarray of int, shape (samples,)
        Number of intervals until each sample; the first sample is at time 0.
    """

    reference: PreciseReference
    duration: float
    intervals: int
    marks: NDArray[np.int64]

    @property
    def interval(self) -> Number:
        """Length of an interval, `duration` over `intervals`, as a precise number."""
        return to_precise(float(self.duration)) / self.intervals

    @property
    def integrator(self) -> Integrator:
        """The `integrators.Integrator`."""
        return _made_integrator(self.reference)

    def rehearse(self, system: System, initial: States, known: States | None) -> None:
        """Compile, or load, the kernels, by a step."""
        self.advance(system, initial, known, 0, most=1)

    def expected_seconds(
        self, system: System, initial: States, known: States | None, clock: Callable[[], float]
    ) -> float:
        """Expected CPU seconds of a reference, extrapolated from one at a larger tolerance.

        Parameters
        ----------
        system, initial, known
            As in `advance`.
        clock : callable
            Returns the CPU time.

        Returns
        -------
        float

        Raises
        ------
        InputError
            If no step size meets the tolerance up to the last sample. The message says how far it
            is met, and what can be changed.
        """
        tolerance, order = self.reference.tolerance, self.integrator.order  # may be "exact"
        pair = _TrajectoryPair(self, system, initial, known, tolerance=max(tolerance, LOOSE))
        began = clock()
        _, errors = pair.advance(0)
        seconds = clock() - began
        if pair.end is not None and pair.end.reason != NO_STEP_SIZE:
            raise InputError(str(pair.end))
        error = float(np.max(errors, initial=0.0, where=np.isfinite(errors)))
        ratio = error / (tolerance * pair.size) if error else 0.0
        if ratio <= 1 or isinstance(order, str):
            return seconds
        finer: float = 2.0 ** math.ceil(np.log2(ratio) / order)
        if (steps := 2 * pair.steps * finer * int(self.marks[-1])) > MOST_STEPS:
            at = int(np.nanargmax(errors))
            raise InputError(str(pair.unmet_end(at, "too_many_steps", pair.steps, error, steps)))
        few = max(TIMED // int(self.marks[1]), 1)
        began = clock()
        pair.run(None, few, self.marks[:2])
        timed = few * int(self.marks[1])
        return seconds + SEARCHED * steps * (clock() - began) / timed

    def advance(
        self,
        system: System,
        initial: States,
        known: States | None,
        first: int,
        checkpoint: Checkpoint | None = None,
        most: int | None = None,
    ) -> Advance:
        """Compute a reference from sample `first` on, to the last one or for some steps.

        Parameters
        ----------
        system : systems.System
        initial : ndarray, shape (rows, 3)
        known : ndarray, shape (rows, 3, 2)
            The same in double-double, see `starts_in_double_double`.
        first : int
        checkpoint : ndarray, optional
            Checkpoint of an earlier call that ended before `first`; required unless `first` is 0.
        most : int, optional
            Number of steps, of both trajectories together, after which to stop.

        Returns
        -------
        Advance
            Its columns are ``states`` and ``states_low``, the high and low doubles of the states,
            and ``error``, their distance to those at twice the step size; NaN after the end of the
            reference. Where it ends, also the variables of `variables.OF_REFERENCE_ENDS`.
        """
        pair = _TrajectoryPair(self, system, initial, known, checkpoint)
        states, errors = pair.advance(first, most)
        high, low = np.moveaxis(states, -1, 0)
        ended: dict[str, Any] = dict(pair.end.columns) if pair.end else {}
        columns = {"states": high, "states_low": low, "error": errors} | ended
        return Advance(columns, pair.checkpoint, pair.part, pair.taken)


@functools.cache
def _made_integrator(reference: PreciseReference) -> Integrator:
    return reference.make_integrator()


class _TrajectoryPair:
    """A coarser and a finer trajectory, side by side, of which the finer is the reference.

    `tolerance` is that of the solver's reference unless given.
    """

    def __init__(
        self,
        solver: PreciseSolver,
        system: System,
        initial: States,
        known: States | None,
        checkpoint: Checkpoint | None = None,
        tolerance: float | None = None,
    ) -> None:
        self.solver, self.system = solver, system
        self.problem = cast("Problem", solver.integrator.bind(system))  # with a fixed step
        self.start = starts_in_double_double(
            system, initial[None], None if known is None else known[None]
        )[0]
        own = self.start[None, ..., 0]
        self.size = float(norms_of_state_errors(system, own)[0])
        self.is_rough = tolerance is not None
        self.bound = (solver.reference.tolerance if tolerance is None else tolerance) * self.size
        self.steps = 1  # of the coarser trajectory in an interval, 0 once the reference has ended
        # While the step is halved, differences at the next sample of each step size from twice as
        # large a one; the coarser trajectory is there, the finer one on its way from the start.
        self.errors: list[float] = []
        self.checkpoints: Sequence[Checkpoint | None] = (None, None)  # of coarser, finer
        self.end: ReferenceEnd | None = None
        self.part, self.taken = 0.0, 0  # see `Advance`
        if checkpoint is not None:
            self.steps = int(checkpoint[0])
            self.errors = [e for e in checkpoint[1:REFERENCE_NUMBERS].tolist() if not math.isnan(e)]
            coarse, fine = np.split(checkpoint[REFERENCE_NUMBERS:], 2)
            self.checkpoints = coarse, None if np.isnan(fine[0]) and self.errors else fine

    @property
    def checkpoint(self) -> Checkpoint:
        """Checkpoint as `PreciseSolver.advance` returns it; NaN before the first step."""
        nothing = np.full(self.problem.checkpoint_size, np.nan)
        coarse, fine = (nothing if own is None else own for own in self.checkpoints)
        numbers = np.full(REFERENCE_NUMBERS, np.nan)
        last = self.errors[-LAST_ERRORS:]
        numbers[1 : 1 + len(last)] = last
        if self.checkpoints[0] is not None:
            numbers[0] = self.steps
        return np.concatenate([numbers, coarse, fine])

    def run(
        self,
        checkpoint: Checkpoint | None,
        steps: int,
        marks: Sequence[int] | NDArray[np.int64],
        most: int | None = None,
    ) -> tuple[States, Checkpoint, float]:
        """Integrate between numbers of intervals, with so many steps in an interval.

        Returns the states after the first of `marks`, NaN from a failure on, as far as `most` steps
        lead; the checkpoint there; and which part of the next of them is done.
        """
        given = None if checkpoint is None else checkpoint[None]
        with np.errstate(all="ignore"):
            batch = run_batch(
                self.problem, self.start[None], self.solver.interval / steps,
                steps * np.diff(marks), len(marks) - 1, checkpoints=given, most=most,
            )  # fmt: skip
            states = to_stored_states(self.problem, batch.states)[0, 1:]
        self.taken += batch.tried
        return states, batch.checkpoints[0], batch.part

    def distance(self, states: States, others: States) -> NDArray[np.float64]:
        """Distances of states to others, shape (samples,); infinite where one has failed."""
        errors = norms_of_state_errors(self.system, state_differences(states, others))
        return np.where(np.isfinite(errors), errors, np.inf)

    def advance(self, first: int, most: int | None = None) -> tuple[States, NDArray[np.float64]]:
        """States and errors of the samples from `first` on, as far as some steps lead."""
        states, errors = np.zeros((0, *self.start.shape)), np.zeros(0)
        if not first:
            states, errors = self.start[None], np.zeros(1)
        samples = len(self.solver.marks)
        while (at := first + len(errors)) < samples and self.steps:
            found = self.halve_step(at, most) if self.errors else self.go_on(at, most)
            states = np.concatenate([states, found[0]])
            errors = np.concatenate([errors, found[1]])
            if self.errors:  # beyond all that the longer steps have led to
                self.part = 0.5 + (math.log2(self.steps) + self.part) / HALVINGS
            if most is not None:
                break
        if not self.steps:  # it has ended, in an earlier call or in this one
            lost = samples - first - len(errors)
            states = np.concatenate([states, np.full((lost, *self.start.shape), np.nan)])
            errors = np.concatenate([errors, np.full(lost, np.nan)])
        return states, errors

    def go_on(self, at: int, most: int | None) -> tuple[States, NDArray[np.float64]]:
        """States and errors from the sample `at` on, until one has too large an error."""
        marks = self.solver.marks[at - 1 :]
        (rough, coarse, part), (states, fine, _) = (
            self.run(own, n * self.steps, marks, None if most is None else n * max(1, most // 3))
            for n, own in zip((1, 2), self.checkpoints, strict=True)
        )
        errors = self.distance(states, rough)
        good = int(np.argmax(errors > self.bound)) if (errors > self.bound).any() else len(errors)
        self.part = part / 2
        if good == len(errors):
            self.checkpoints = coarse, fine
        else:
            self.steps, self.errors, self.part = 2 * self.steps, [float(errors[good])], 0.0
            _, fine, _ = self.run(self.checkpoints[1], self.steps, marks[: good + 2])
            self.checkpoints = fine, None
        return states[:good], errors[:good]

    def halve_step(self, at: int, most: int | None) -> tuple[States, NDArray[np.float64]]:
        """Integrate from the start to the sample `at` with a finer step than that of both.

        Returns the state and the error there where it meets the tolerance, else none: the step is
        then to be halved again, or none does, and the reference ends.
        """
        there = [0, int(self.solver.marks[at])]
        state, ahead, part = self.run(self.checkpoints[1], 2 * self.steps, there, most)
        coarse = self.checkpoints[0]
        self.checkpoints = coarse, ahead
        self.part = part
        if not len(state):
            return state, np.zeros(0)
        assert coarse is not None  # that of the steps which are too long
        error = self.distance(state, states_of_checkpoints(self.problem, coarse[None]))
        self.errors.append(float(error[0]))
        if error[0] <= self.bound and not self.is_at_round_off(self.errors):
            self.errors = []
            return state, error
        self.end = self.end_if_tolerance_unreachable(at, self.steps, self.errors)
        if self.end is not None:
            self.steps, self.errors, lost = 0, [], np.full_like(ahead, np.nan)
            self.checkpoints = lost, lost
        else:
            self.steps, self.checkpoints = 2 * self.steps, (ahead, None)
        return state[:0], error[:0]

    def is_at_round_off(self, errors: Sequence[float]) -> bool:
        """Whether the last halving of the step hardly reduced the error, because of round-off.

        `errors` are the differences between each step size and twice as large a one, the smallest
        step last.
        """
        order = self.solver.integrator.order
        falls: float = 2.0 ** (-0.5 * (1 if isinstance(order, str) else order))
        return len(errors) > 1 and errors[-1] > falls * errors[-2]

    def end_if_tolerance_unreachable(
        self, at: int, steps: int, errors: Sequence[float]
    ) -> ReferenceEnd | None:
        """The `ReferenceEnd` if shorter steps cannot meet the tolerance at a sample, else None."""
        taken, own = 2 * steps * int(self.solver.marks[at]), errors[-1]
        if not np.isfinite(own):
            return self.unmet_end(at, NO_STEP_SIZE, steps) if taken > MOST_UNSETTLED else None
        settled = errors[-2] <= SETTLED * self.size
        needed = in_all = 2.0 * taken
        if self.is_at_round_off(errors):
            if self.is_at_round_off(errors[:-1]) and (settled or taken > MOST_UNSETTLED):
                return self.unmet_end(at, "rounding", steps, max(errors[-3:]))
        elif settled:
            asked = self.solver.reference.tolerance * self.size  # a first search asks for less
            needed, in_all = (
                taken * 2.0 ** (np.log(own / bound) / np.log(errors[-2] / own))
                for bound in (self.bound, asked)
            )
        if needed > MOST_STEPS:
            return self.unmet_end(at, "too_many_steps", steps, own, in_all)
        return None

    def unmet_end(
        self, at: int, reason: str, steps: int, error: float = np.nan, needed: float = np.nan
    ) -> ReferenceEnd:
        """The `ReferenceEnd`, with its reason, before a sample that misses the tolerance."""
        interval = float(to_doubles(self.solver.interval))
        before, now = (interval * self.solver.marks[[at - 1, at]]).tolist()
        return ReferenceEnd(
            dataclasses.asdict(self.solver.reference),
            reason,
            held=math.nan if self.is_rough else before,
            lost=now,
            step_size=interval / steps,
            difference=float(error / self.size),
            steps=float(needed),
        )
