"""Runs of as many equal steps as an adaptive integrator takes, for comparisons with it.

The adaptive integrator runs first, over the whole duration, only to be counted. The fixed step is
then the duration over that number, so that sample times lie within steps: the state there is that
after a short step from the end of the step before, taken afresh. Hence a run depends on its
duration as a whole: it has no checkpoints, and cannot be extended.
"""

from dataclasses import dataclass

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
from integrators.stepping.batch import counters_of, run_states
from integrators.stepping.problem import Problem, Stepper

ROUNDING = 16 * np.finfo(float).eps  # within which a time, in steps, is a step's end


@dataclass(frozen=True)
class Count:
    """Steps that an adaptive integrator takes, and the status that it ends with."""

    steps: int
    status: int


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

    def prepare(self, state: np.ndarray, bound: StepBound, tolerance: float) -> Count:
        """The `Count` for a state (q, ω), shape (rows, 3)."""
        run = run_adaptive(
            self.counted, state[np.newaxis], [0.0, bound.end], tolerance, bound=bound
        )
        return Count(int(run.counters["steps"][0]), int(run.report[0, STATUS_ROW]))

    def __call__(
        self,
        problem: AdaptiveProblem,
        state: np.ndarray,
        times: np.ndarray,
        tolerance: float,
        bound: StepBound,
        statistics: bool,
        history: bool = False,
        prepared: Count | None = None,
        checkpoint: np.ndarray | None = None,
        most: int | None = None,
    ) -> Solution:
        """Integrate one trajectory; see `adaptive.AdaptiveProblem`. It has no checkpoints."""
        assert prepared is not None  # from `prepare`
        if prepared.status > COMPLETE:
            return self._solution_without_steps(state, times, statistics, prepared.status)
        h = times[-1] / prepared.steps
        ends, rests = _steps_before_times(times[1:], h, prepared.steps)
        batch = run_states(
            self.problem, state[np.newaxis], h, np.diff(ends, prepend=0), len(ends), statistics
        )
        states, report = batch.states[0].copy(), batch.report.copy()
        beside = self._evaluate_between_steps(states[1:], ends, h, rests, report[0])
        kept = batch.statistics[0].copy()
        if statistics:
            kept[np.diff(ends, prepend=0) == 0] = np.nan
        counters = counters_of(self.integrator, self.problem, report, prepared.steps, h)
        own = {name: values[0] for name, values in counters.items()}
        return Solution(
            states=states,
            step_sizes=np.full(len(times), h),
            rejected_so_far=np.zeros(len(times)),
            statistics=kept,
            report=report[0],
            stop_time=float(own["stop_time"]),
            steps=int(own["steps"]),
            rejected_steps=0,
            evaluations=int(own["evaluations"]) + beside,
            history=np.zeros((0, ATTEMPT)),
            checkpoint=np.zeros(0),
            iterations_mean=float(own["iterations_mean"]),
            iterations_max=int(own["iterations_max"]),
        )

    def _evaluate_between_steps(
        self, states: np.ndarray, ends: np.ndarray, h: float, rests: np.ndarray, report: np.ndarray
    ) -> int:
        """Take short steps from `ends` to sample times, in place; return their evaluations."""
        problem = self.problem
        reports = aligned((len(states), status_of.REPORT_SIZE))
        loop.single_steps.scalar(
            *problem.step_kernels(DOUBLE), ends * h, rests, problem.constants, problem.options,
            states, aligned(problem.memory), problem.parameters, aligned(max(1, problem.work)),
            reports,
        )  # fmt: skip
        failed = reports[:, STATUS_ROW] > COMPLETE
        if report[STATUS_ROW] > COMPLETE:  # nothing after the last whole step counts
            failed |= (ends == report[status_of.STOP_STEP]) & (rests > 0)
        elif failed.any():
            first = failed.argmax()
            report[: status_of.ITERATIONS] = reports[first, : status_of.ITERATIONS]
            report[status_of.STOP_STEP] = ends[first]
        states[np.logical_or.accumulate(failed)] = np.nan
        own = self.integrator.evaluations * np.sum(rests > 0)
        return int(own + reports[:, status_of.EVALUATIONS].sum())

    def _solution_without_steps(
        self, state: np.ndarray, times: np.ndarray, statistics: bool, status: int
    ) -> Solution:
        """The `Solution` where steps could not be counted: the initial state alone."""
        states = np.full((len(times), *state.shape), np.nan)
        states[0] = state
        report = np.zeros(status_of.REPORT_SIZE)
        report[[STATUS_ROW, status_of.STOP_RESIDUAL]] = status, np.nan
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
            history=np.zeros((0, ATTEMPT)),
            checkpoint=np.zeros(0),
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
    )
