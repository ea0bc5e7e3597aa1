"""Runs of as many equal steps as an adaptive integrator takes, for comparisons with it.

The adaptive integrator runs first, over the whole duration, only to be counted. The fixed step is
then the duration over that number, so that sample times lie within steps: the state there is that
after a short step from the end of the step before, taken afresh. Hence a run depends on its
duration as a whole, and cannot be extended; but it stops after any step, of the counted run or of
its own, and goes on from there.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from integrators import status as status_of
from integrators.compiler.elements import DOUBLE, aligned
from integrators.status import COMPLETE, STATUS_ROW
from integrators.stepping import loop
from integrators.stepping.adaptive import (
    ATTEMPT,
    AdaptiveProblem,
    Solution,
    StepBound,
    run_adaptive,
)
from integrators.stepping.batch import Batch, counters_of, run_states
from integrators.stepping.checkpoint import Layout
from integrators.stepping.formulations import to_stepped_states
from integrators.stepping.problem import Problem, Stepper
from integrators.stepping.python_step import calling_python

ROUNDING = 16 * np.finfo(float).eps  # within which a time, in steps, is a step's end
COUNTING, COUNTED, BEGUN = range(3)  # phases: the first samples are known when steps have begun
# Of a checkpoint's head: the phase, the part of the counted run, its steps and status; evaluations
# in short steps, and the report of the first of these that failed.
PHASE, PART, STEPS, ENDED, BESIDE, FAILURE = range(6)
HEAD = FAILURE + status_of.ITERATIONS


@dataclass(frozen=True)
class EqualSteps:
    """The ``solve`` and ``prepare`` of an `AdaptiveProblem` with equal steps.

    Parameters
    ----------
    integrator : integrators.method.Integrator
        The integrator that takes the equal steps.
    problem : Problem
        This integrator bound to the form.
    counted : AdaptiveProblem
        The adaptive integrator whose steps are counted, bound to the form.
    """

    integrator: Stepper
    problem: Problem
    counted: AdaptiveProblem

    @cached_property
    def layout(self) -> Layout:
        """The `Layout` of a checkpoint: its head, those of the counted run and of the steps."""
        sizes = self.counted.checkpoint_size, self.problem.checkpoint_size
        own = zip(("counted", "steps"), sizes, strict=True)
        return Layout(
            (("head", (HEAD,)), *((name, (n,)) for name, n in own), ("y", (self.problem.rows, 3)))
        )

    def _parts(self, checkpoint: np.ndarray) -> dict[str, np.ndarray]:
        """The parts of a checkpoint, views of it."""
        return {name: own[0] for name, own in self.layout.parts(checkpoint[np.newaxis]).items()}

    def prepare(
        self,
        state: np.ndarray,
        bound: StepBound,
        tolerance: float,
        checkpoint: np.ndarray | None = None,
        most: int | None = None,
    ) -> tuple[np.ndarray, int]:
        """Count the steps from a state (q, ω); see `adaptive.AdaptiveProblem`."""
        made = np.zeros(self.layout.size) if checkpoint is None else checkpoint.copy()
        parts = self._parts(made)
        head = parts["head"]
        if head[PHASE] != COUNTING:
            return made, 0
        run = run_adaptive(
            self.counted, state[np.newaxis], [0.0, bound.end], tolerance, bound=bound, most=most,
            checkpoints=None if checkpoint is None else parts["counted"][np.newaxis],
        )  # fmt: skip
        is_over = run.states.shape[1] > 1
        head[[PHASE, PART]] = COUNTED if is_over else COUNTING, run.part
        head[[STEPS, ENDED]] = run.counters["steps"][0], run.report[0, STATUS_ROW]
        parts["counted"][:] = run.checkpoints[0]
        parts["y"][:] = to_stepped_states(self.problem, state[np.newaxis])[0]
        return made, run.tried

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
        """Integrate one trajectory from a checkpoint; see `adaptive.AdaptiveProblem`."""
        assert checkpoint is not None  # from `prepare`
        checkpoint = checkpoint.copy()
        parts = self._parts(checkpoint)
        head = parts["head"]
        if head[PHASE] == COUNTING:
            return self._solution_without_steps(state, times[:1], statistics, checkpoint)
        if head[ENDED] > COMPLETE:
            return self._solution_without_steps(state, times, statistics, checkpoint)
        steps = int(head[STEPS])
        h = bound.end / steps
        marks, rests = _steps_before_times(times, h, steps)
        known = parts["steps"][np.newaxis] if head[PHASE] == BEGUN else None
        batch = run_states(
            self.problem, state[np.newaxis], h, np.diff(marks), len(times) - 1, statistics,
            checkpoints=known, most=most,
        )  # fmt: skip
        states, report = batch.states[0].copy(), batch.report.copy()
        own = slice(1, len(states))
        head[BESIDE] += self._evaluate_between_steps(
            states[own], marks[own], h, rests[own], batch, head[FAILURE:]
        )
        if report[0, STATUS_ROW] <= COMPLETE < head[FAILURE]:
            report[0, : status_of.ITERATIONS] = head[FAILURE:]
        kept = batch.statistics[0].copy()
        if statistics:
            kept[np.diff(marks)[: len(kept)] == 0] = np.nan
        counters = counters_of(self.integrator, self.problem, report, batch.steps, h)
        of = {name: values[0] for name, values in counters.items()}
        head[PHASE], parts["steps"][:] = BEGUN, batch.checkpoints[0]
        is_first = times[0] == 0.0 and len(states) == 1  # on the way to it the steps were counted
        return Solution(
            states=states,
            step_sizes=np.full(len(states), h),
            rejected_so_far=np.zeros(len(states)),
            statistics=kept,
            report=report[0],
            stop_time=float(of["stop_time"]),
            steps=int(of["steps"]),
            rejected_steps=0,
            evaluations=int(of["evaluations"] + head[BESIDE]),
            tried=batch.tried,
            history=np.zeros((0, ATTEMPT)),
            checkpoint=checkpoint,
            part=0.5 + 0.5 * batch.part if is_first else batch.part,
            iterations_mean=float(of["iterations_mean"]),
            iterations_max=int(of["iterations_max"]),
        )

    def _evaluate_between_steps(
        self,
        states: np.ndarray,
        ends: np.ndarray,
        h: float,
        rests: np.ndarray,
        batch: Batch,
        failure: np.ndarray,
    ) -> int:
        """Take short steps from `ends` to sample times, in place; return their evaluations.

        Nothing after the last whole step of the `batch` counts. The first failure of a short step
        is written to `failure`, after which there are no states.
        """
        problem = self.problem
        reports = aligned((len(states), status_of.REPORT_SIZE))
        with calling_python():
            loop.single_steps.scalar(
                *problem.step_kernels(DOUBLE), ends * h, rests, problem.constants, problem.options,
                states, aligned(problem.memory), problem.parameters, aligned(max(1, problem.work)),
                reports,
            )  # fmt: skip
        failed = (reports[:, STATUS_ROW] > COMPLETE) | (failure[STATUS_ROW] > COMPLETE)
        if failed.any() and failure[STATUS_ROW] <= COMPLETE:
            first = failed.argmax()
            failure[:] = reports[first, : status_of.ITERATIONS]
            failure[status_of.STOP_STEP] = ends[first]
        within, report = (ends == batch.steps) & (rests > 0), batch.report[0]
        if within.any() and report[STATUS_ROW] <= COMPLETE:  # it depends on the next step
            then = run_states(problem, states, h, 1, 1, checkpoints=batch.checkpoints)
            report = then.report[0]
        if report[STATUS_ROW] > COMPLETE:
            failed |= (ends == report[status_of.STOP_STEP]) & (rests > 0)
        states[np.logical_or.accumulate(failed)] = np.nan
        own = self.integrator.evaluations * np.sum(rests > 0)
        return int(own + reports[:, status_of.EVALUATIONS].sum())

    def _solution_without_steps(
        self, state: np.ndarray, times: np.ndarray, statistics: int, checkpoint: np.ndarray
    ) -> Solution:
        """The `Solution` where steps are not counted yet, or cannot be: the initial state alone."""
        head = self._parts(checkpoint)["head"]
        states = np.full((len(times), *state.shape), np.nan)
        states[0] = state
        report = np.zeros(status_of.REPORT_SIZE)
        report[[STATUS_ROW, status_of.STOP_RESIDUAL]] = head[ENDED], np.nan
        shape = (len(times) - 1) * bool(statistics), status_of.MONITORED, status_of.STATISTICS
        return Solution(
            states=states,
            step_sizes=np.full(len(times), np.nan),
            rejected_so_far=np.zeros(len(times)),
            statistics=np.full(shape, np.nan),
            report=report,
            stop_time=0.0,
            steps=0,
            rejected_steps=0,
            evaluations=0,
            tried=0,
            history=np.zeros((0, ATTEMPT)),
            checkpoint=checkpoint,
            part=0.5 * head[PART],
        )


def _steps_before_times(times: np.ndarray, h: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Number of the last step that ends by each time, and the rest of the way to that time."""
    ratio = times / h
    nearest = np.rint(ratio)
    on = np.abs(ratio - nearest) <= ROUNDING * ratio
    ends = np.minimum(np.where(on, nearest, np.floor(ratio)), steps).astype(np.int64)
    return ends, np.where(on, 0.0, times - ends * h)


def equal_steps(integrator: Stepper, problem: Problem, counted: AdaptiveProblem) -> AdaptiveProblem:
    """The `AdaptiveProblem` of a fixed-step `problem` with the steps of a `counted` one."""
    solve = EqualSteps(integrator, problem, counted)
    kernels = (problem.advance, problem.function, problem.move, problem.pull, problem.monitor)
    own = tuple(kernel for kernel in kernels if kernel is not None)
    return AdaptiveProblem(
        solve=solve,
        function=problem.function,
        monitor=problem.monitor,
        compiled=(*own, loop.trajectory_kernel(DOUBLE), loop.single_steps, *counted.made_from),
        parameters=problem.parameters,
        rows=problem.rows,
        options=integrator.options,
        formulation=problem.formulation,
        conversions=problem.conversions,
        prepare=solve.prepare,
        loop=counted.loop,
        carried=solve.layout.size - 3 * problem.rows,
    )
