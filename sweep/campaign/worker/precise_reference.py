"""Reference trajectories in double-double, by a fixed step that is halved where it is too long.

Two trajectories are integrated side by side, with a step and with half of it. As long as they
differ by no more than the tolerance, the states of the finer one are the reference. At the first
sample at which they differ by more, a trajectory with half the finer step is integrated from the
start up to there, and the two finest continue. So a sample depends on those before it alone: a
reference resumes from any of them, bit for bit.

Where no step size meets the tolerance a reference ends, and its later samples are NaN.
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
from sweep.campaign.worker.recorder import (
    norms_of_state_errors,
    starts_in_double_double,
    state_differences,
)
from sweep.store.checkpoints import reference_checkpoint_length
from sweep.store.failures import ReferenceEnd
from sweep.study.experiment import PreciseReference

if TYPE_CHECKING:
    from integrators.method import Integrator
    from integrators.stepping.problem import Problem
    from sweep.study.experiment import ResolvedExperiment
    from sweep.study.run_table import States
    from systems.base import System

SETTLED = 1e-6  # of the state's norm: below it errors fall as the order says, or are round-off
MOST_UNSETTLED = 2**18  # steps from the start up to a sample, while errors there do not settle
MOST_STEPS = 2**24  # steps from the start up to a sample
LOOSE = 1e-10  # tolerance at which the steps to a smaller one are known
TIMED = 32  # steps
SEARCHED = 2.5  # steps in all for each of the finer trajectory, those of coarser ones included
NO_STEP_SIZE = "no_step_size"
PIECE = 2**14  # steps between two checks whether it is stopped
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

    @classmethod
    def of(
        cls, experiment: ResolvedExperiment, reference: PreciseReference, samples: int
    ) -> PreciseSolver:
        """The solver of an experiment's reference at its leading samples."""
        axis = experiment.time_axis
        return cls(reference, axis.duration, axis.intervals, axis.marks[:samples])

    @functools.cached_property
    def interval(self) -> Number:
        """Length of an interval, `duration` over `intervals`, as a precise number."""
        return to_precise(float(self.duration)) / self.intervals

    @functools.cached_property
    def integrator(self) -> Integrator:
        """The `integrators.Integrator`."""
        return self.reference.make_integrator()

    @property
    def identity(self) -> PreciseReference:
        """The settings on which its references depend."""
        return self.reference

    def checkpoint_length(self, system: System) -> int:
        """Numbers in the checkpoint of a reference."""
        return reference_checkpoint_length(self.reference, system)

    def load(self, system: System, initial: States, known: States | None) -> None:
        """Compile the kernels, by a step."""
        _TrajectoryPair(self, system, initial, known).run(None, 1, 0, 1)

    rehearse = load

    def expected_seconds(
        self, system: System, initial: States, known: States | None, clock: Callable[[], float]
    ) -> float:
        """Expected CPU seconds of a reference, extrapolated from one at a larger tolerance.

        Parameters
        ----------
        system, initial, known
            As of `advance`.
        clock : callable
            CPU time.

        Returns
        -------
        float

        Raises
        ------
        InputError
            If no step size meets the tolerance up to the last sample; says how far it is met, and
            what can be changed.
        """
        tolerance, order = self.reference.tolerance, self.integrator.order  # may be "exact"
        pair = _TrajectoryPair(self, system, initial, known, tolerance=max(tolerance, LOOSE))
        began = clock()
        _, errors = pair.advance(0, len(self.marks))
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
        pair.run(None, few, 0, 1)
        timed = few * int(self.marks[1])
        return seconds + SEARCHED * steps * (clock() - began) / timed

    def advance(
        self,
        system: System,
        initial: States,
        known: States | None,
        first: int,
        upto: int,
        checkpoint: Checkpoint | None = None,
        check: Callable[[], object] = lambda: None,
    ) -> tuple[dict[str, Any], Checkpoint]:
        """Compute a reference from sample `first` up to before `upto`.

        Parameters
        ----------
        system : systems.System
        initial : ndarray, shape (rows, 3)
        known : ndarray, shape (rows, 3, 2)
            The same in double-double, see `starts_in_double_double`.
        first, upto : int
        checkpoint : ndarray, optional
            From an earlier call, that ended before `first`; needed unless that is 0.
        check : callable
            Called now and then; may raise.

        Returns
        -------
        columns : dict of str to ndarray, shape (upto - first, …)
            ``states`` and ``states_low``, the high and low doubles of the states, and ``error``,
            their distance to those at twice the step size; NaN after the end of the reference.
            Where it ends, also the variables of `schema.OF_REFERENCE_ENDS`.
        checkpoint : ndarray, shape (1 + 2 * size,)
            Number of steps of the coarser trajectory in an interval, and the checkpoints of both.
        """
        pair = _TrajectoryPair(self, system, initial, known, checkpoint, check)
        states, errors = pair.advance(first, upto)
        high, low = np.moveaxis(states, -1, 0)
        ended: dict[str, Any] = dict(pair.end.columns) if pair.end else {}
        return {"states": high, "states_low": low, "error": errors} | ended, pair.checkpoint


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
        check: Callable[[], object] = lambda: None,
        tolerance: float | None = None,
    ) -> None:
        self.solver, self.system, self.check = solver, system, check
        self.problem = cast("Problem", solver.integrator.bind(system))  # with a fixed step
        self.start = starts_in_double_double(
            system, initial[None], None if known is None else known[None]
        )[0]
        own = self.start[None, ..., 0]
        self.size = float(norms_of_state_errors(system, own)[0])
        self.is_rough = tolerance is not None
        self.bound = (solver.reference.tolerance if tolerance is None else tolerance) * self.size
        self.steps = 1  # of the coarser trajectory in an interval, 0 once the reference has ended
        self.checkpoints: tuple[Checkpoint | None, Checkpoint | None] = (
            None,
            None,
        )  # of coarser, finer
        self.end: ReferenceEnd | None = None
        if checkpoint is not None:
            coarse, fine = np.split(checkpoint[1:], 2)
            self.steps, self.checkpoints = int(checkpoint[0]), (coarse, fine)

    @property
    def checkpoint(self) -> Checkpoint:
        """Checkpoint as `PreciseSolver.advance` returns it; NaN before the first step."""
        coarse, fine = self.checkpoints
        if coarse is None or fine is None:  # no step was taken
            return np.full(1 + 2 * self.problem.checkpoint_size, np.nan)
        return np.concatenate([[self.steps], coarse, fine])

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, in an earlier call or in this one."""
        return not self.steps

    def run(
        self, checkpoint: Checkpoint | None, steps: int, first: int, last: int
    ) -> tuple[States, Checkpoint]:
        """Integrate from sample `first` to `last`, with so many steps in an interval.

        Returns the states at the samples after `first`, NaN from a failure on, and the checkpoint
        at `last`.
        """
        step_size = self.solver.interval / steps
        counts = steps * np.diff(self.solver.marks[first : last + 1])
        given = None if checkpoint is None else checkpoint[None]
        with np.errstate(all="ignore"):
            batch = run_batch(
                self.problem, self.start[None], step_size, counts, len(counts), checkpoints=given
            )
            return to_stored_states(self.problem, batch.states)[0, 1:], batch.checkpoints[0]

    def catch_up(self, steps: int, last: int) -> tuple[States, Checkpoint]:
        """Integrate from the start to a sample, 1 or later; the state and the checkpoint there."""
        first, checkpoint = 0, None
        marks = self.solver.marks
        while True:
            self.check()
            reach = marks[first] + max(PIECE // steps, 1)
            upto = int(np.clip(np.searchsorted(marks, reach, side="right") - 1, first + 1, last))
            states, checkpoint = self.run(checkpoint, steps, first, upto)
            first = upto
            if first == last:
                return states[-1:], checkpoint

    def distance(self, states: States, others: States) -> NDArray[np.float64]:
        """Distances of states to others, shape (samples,); infinite where one has failed."""
        errors = norms_of_state_errors(self.system, state_differences(states, others))
        return np.where(np.isfinite(errors), errors, np.inf)

    def advance(self, first: int, upto: int) -> tuple[States, Checkpoint]:
        """States and errors of the samples from `first` up to before `upto`."""
        states = np.full((upto - first, *self.start.shape), np.nan)
        errors = np.full(upto - first, np.nan)
        if not first:
            states[0], errors[0] = self.start, 0.0
        at = max(first, 1)  # the sample that comes next
        while at < upto and not self.has_ended:
            self.check()
            last = upto - 1
            coarse, fine = (
                self.run(checkpoint, steps, at - 1, last)
                for checkpoint, steps in zip(
                    self.checkpoints, (self.steps, 2 * self.steps), strict=True
                )
            )
            own = self.distance(fine[0], coarse[0])
            good = int(np.argmax(own > self.bound)) if (own > self.bound).any() else len(own)
            where = slice(at - first, at - first + good)
            states[where], errors[where] = fine[0][:good], own[:good]
            at += good
            if at == upto:
                self.checkpoints = coarse[1], fine[1]
                break
            state, checkpoint = self.run(self.checkpoints[1], 2 * self.steps, at - good - 1, at)
            found = self.halve_step(at, own[good], state[-1:], checkpoint)
            if found is not None:
                states[at - first], errors[at - first] = found
                at += 1
        return states, errors

    def halve_step(
        self, at: int, error: float, state: States, checkpoint: Checkpoint
    ) -> tuple[States, float] | None:
        """Halve the step until a sample meets the tolerance; returns its state and error.

        Or None where no step does, and the reference ends. `error` is that of the present pair;
        `state` and `checkpoint` are those of its finer trajectory.
        """
        steps, errors = 2 * self.steps, [error]
        while True:
            finer, ahead = self.catch_up(2 * steps, at)
            (own,) = self.distance(finer, state)
            errors.append(own)
            if own <= self.bound and not self.is_at_round_off(errors):
                self.steps, self.checkpoints = steps, (checkpoint, ahead)
                return finer[0], own
            self.end = self.end_at(at, steps, errors)
            if self.end is not None:
                self.steps, lost = 0, np.full_like(ahead, np.nan)
                self.checkpoints = lost, lost
                return None
            state, checkpoint, steps = finer, ahead, 2 * steps

    def is_at_round_off(self, errors: Sequence[float]) -> bool:
        """Whether the last halving of the step reduced the error by too little, due to round-off.

        `errors` are the differences between each step size and twice as large a one, the smallest
        step last.
        """
        order = self.solver.integrator.order
        falls: float = 2.0 ** (-0.5 * (1 if isinstance(order, str) else order))
        return len(errors) > 1 and errors[-1] > falls * errors[-2]

    def end_at(self, at: int, steps: int, errors: Sequence[float]) -> ReferenceEnd | None:
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
        """The `ReferenceEnd` before a sample that the tolerance is not met at, and why."""
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
