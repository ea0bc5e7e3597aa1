"""DOP853, Hairer's Dormand–Prince method of order 8 from SciPy: the reference.

Every sample time is a step's end, since the dense output is only of order 7. Adaptive steps
and round-off near 1e-14 make it an independent check of everything with a fixed step.
"""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from integrators import status as status_of
from integrators.forms.flows import Form, SystemOrForm, VectorField
from integrators.forms.forms import form_of
from integrators.method import Integrator, Method
from integrators.status import COMPLETE, NOT_FINITE, STEP_TOO_SMALL
from integrators.stepping import loop
from integrators.stepping.adaptive import (
    ATTEMPT,
    AdaptiveProblem,
    Solution,
    check_tolerance,
    vector_field_problem,
)

if TYPE_CHECKING:
    from scipy.integrate import DOP853

STAGES = 12  # evaluations of an attempted step
# What a checkpoint holds besides the state: the step to go on with, and what is counted.
STATUS, STOPPED, STEP, FIRST_STEP, STEPS, REJECTED, EVALUATIONS, BASELINE = range(8)
CARRIED = BASELINE + status_of.MONITORED


def solve(
    system: SystemOrForm,
    state: np.ndarray,
    times: np.ndarray,
    tolerance: float,
    checkpoint: np.ndarray | None = None,
) -> tuple[np.ndarray, int, np.ndarray]:
    """Integrate in (q, ω) by DOP853, landing on every sample time.

    Parameters
    ----------
    system : System or form
    state : ndarray, shape (rows, 3)
    times : ndarray, shape (S + 1,)
        Increasing; the first belongs to `state`.
    tolerance : float
        Relative and absolute tolerance, at least 2.3e-14.
    checkpoint : ndarray, shape (checkpoint_size(rows),), optional
        Checkpoint of an earlier call with the same tolerance that ended at ``times[0]`` in
        `state`: the integration is resumed as if it had not stopped there.

    Returns
    -------
    states : ndarray, shape (S + 1, rows, 3)
        NaN from where the integration failed.
    status : int
        `COMPLETE`, `NOT_FINITE` or `STEP_TOO_SMALL` of `integrators.status`.
    checkpoint : ndarray, shape (checkpoint_size(rows),)
        Checkpoint at the last time.

    Raises
    ------
    InputError
        If the tolerance is smaller than double precision supports.
    """
    problem = vector_field_problem(form_of(system), _solve, (loop.evaluate,), {}, CARRIED)
    tolerance = check_tolerance(tolerance)
    solution = _solve(problem, state, times, tolerance, statistics=False, checkpoint=checkpoint)
    return solution.states, int(solution.report[status_of.STATUS_ROW]), solution.checkpoint


def checkpoint_size(rows: int) -> int:
    """Numbers in a checkpoint of `solve`, of a state of so many rows."""
    return CARRIED + 3 * rows


def _bind(form: Form, integrator: Integrator) -> AdaptiveProblem:
    return vector_field_problem(form, _solve, (loop.evaluate,), integrator.options, CARRIED)


METHOD = Method(
    name="dop853",
    sources=("hairer1993", "virtanen2020"),
    description="SciPy's Dormand–Prince 8(5,3), adaptive; the reference",
    order=8,
    symmetric=False,
    forms=(VectorField,),
    preserves={"momentum_map": ("linear",), "casimir": ("linear",)},
    bind=_bind,
    evaluations=STAGES,
    family="runge_kutta",
    adaptive=True,
    precise=False,
)


def _slope(problem: AdaptiveProblem) -> Callable[[float, np.ndarray], np.ndarray]:
    """The vector field as ``f(t, y)`` on flat arrays."""
    compiled, p, shape = problem.function.scalar, problem.parameters, (problem.rows, 3)
    work = np.zeros(problem.function.work(problem.rows) + 1)

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        out = np.empty(shape)
        compiled(t, y.reshape(shape), p, out, work)
        return out.ravel()

    return slope


def _solve(
    problem: AdaptiveProblem,
    state: np.ndarray,
    times: np.ndarray,
    tolerance: float,
    statistics: bool,
    history: bool = False,
    prepared: None = None,
    checkpoint: np.ndarray | None = None,
) -> Solution:
    """Integrate one trajectory; see `adaptive.AdaptiveProblem`."""
    from scipy.integrate import DOP853  # here: it takes as long to import as all the rest

    slope = _slope(problem)
    path = _Path(problem, state, times, statistics, checkpoint)
    y, step = np.ravel(state).astype(float), path.step
    if path.failed > COMPLETE:
        return path.solution(path.failed, path.stopped)
    if step is None and not np.all(np.isfinite(slope(times[0], y))):
        return path.solution(NOT_FINITE)  # SciPy would search for ever
    for i in range(1, len(times)):
        first = None if step is None else min(step, times[i] - times[i - 1])
        solver = DOP853(
            slope, times[i - 1], y, times[i], rtol=tolerance, atol=tolerance, first_step=first
        )
        if history:
            path.record_attempts(solver, tolerance)
        y, step = _reach_end(solver, step, path)
        if solver.status != "finished" or not np.all(np.isfinite(y)):
            vanished = solver.status == "failed" or solver.h_abs == 0
            return path.solution(STEP_TOO_SMALL if vanished else NOT_FINITE, solver.t)
        path.step = step
        path.sample(i, y, solver)
    return path.solution(COMPLETE)


def _reach_end(solver: Any, step: float | None, path: "_Path") -> tuple[np.ndarray, float]:
    """Step to the end of the interval; the state there and the step to go on with."""
    beside = solver.nfev  # what the choice of a first step took
    taken = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # overflow on the way to a failure
        while solver.status == "running" and solver.h_abs > 0:
            solver.step()
            if solver.status == "failed":
                break
            taken += 1
            path.accept(solver)
            if solver.status == "running" or step is None:
                step = solver.step_size  # the last step is cut short: no measure for the next
    path.steps += taken
    path.evaluations += solver.nfev
    path.rejected_steps += (solver.nfev - beside) // STAGES - taken
    return solver.y, max(step or 0.0, solver.h_abs)


class _Path:
    """Accepted steps, samples and statistics of a trajectory, collected as it is integrated."""

    def __init__(
        self,
        problem: AdaptiveProblem,
        state: np.ndarray,
        times: np.ndarray,
        statistics: bool,
        checkpoint: np.ndarray | None = None,
    ) -> None:
        self.problem = problem
        carried = _initial_numbers() if checkpoint is None else checkpoint[:CARRIED]
        samples, self.start = len(times) - 1, float(times[0])
        self.states = np.full((samples + 1, *np.shape(state)), np.nan)
        self.states[0] = state
        self.step_sizes = np.full(samples + 1, np.nan)
        self.rejected_so_far = np.full(samples + 1, np.nan)
        self.step_sizes[0] = carried[FIRST_STEP]
        self.rejected_so_far[0] = carried[REJECTED]
        size = samples if statistics else 0
        self.statistics = np.full((size, status_of.MONITORED, status_of.STATISTICS), np.nan)
        self.baseline = carried[BASELINE:].copy()
        if checkpoint is None:
            self.baseline[0] = self._evaluate_monitor([0.0], [np.ravel(state)])[0, 0]
        self.times: list[float] = []  # of the steps in this interval
        self.accepted: list[np.ndarray] = []
        self.step = None if np.isnan(carried[STEP]) else float(carried[STEP])
        self.failed, self.stopped = int(carried[STATUS]), float(carried[STOPPED])
        self.steps, self.rejected_steps = int(carried[STEPS]), int(carried[REJECTED])
        self.evaluations = int(carried[EVALUATIONS])
        self.attempts: list[tuple[float, float, float, bool]] = []
        self._y = np.ravel(state).astype(float)

    def record_attempts(self, solver: Any, tolerance: float) -> None:
        """Keep every attempt of `solver`, whose errors are multiples of the tolerance."""
        estimate = solver._estimate_error_norm  # all that knows of an attempt that is rejected

        def noted(slopes: np.ndarray, h: float, scale: np.ndarray) -> float:
            error = estimate(slopes, h, scale)
            self.attempts.append((solver.t, h, error * tolerance, error < 1))
            return error

        solver._estimate_error_norm = noted

    def accept(self, solver: "DOP853") -> None:
        """A step was accepted."""
        if np.isnan(self.step_sizes[0]):
            self.step_sizes[0] = solver.step_size
        if len(self.statistics):
            self.times.append(solver.t)
            self.accepted.append(solver.y)

    def sample(self, i: int, y: np.ndarray, solver: "DOP853") -> None:
        """The sample time `i` was reached."""
        self._y = y
        self.states[i] = y.reshape(self.states[i].shape)
        self.step_sizes[i] = solver.step_size
        self.rejected_so_far[i] = self.rejected_steps
        if len(self.statistics):
            errors = self._evaluate_monitor(self.times, self.accepted) - self.baseline
            sizes, out = np.abs(errors), self.statistics[i - 1]
            out[:, status_of.MEAN], out[:, status_of.ABS_MEAN] = errors.mean(0), sizes.mean(0)
            out[:, status_of.MINIMUM], out[:, status_of.MAXIMUM] = errors.min(0), errors.max(0)
            out[:, status_of.ABS_MAX] = sizes.max(0)
            self.times, self.accepted = [], []

    def _evaluate_monitor(self, times: list[float], flat: list[np.ndarray]) -> np.ndarray:
        """The monitored quantities of flat states at `times`, shape (states, MONITORED)."""
        problem = self.problem
        states = np.reshape(flat, (-1, problem.rows, 3))
        out = np.zeros((len(states), 1, 3))
        work = np.zeros(problem.monitor.work(problem.rows) + 1)
        loop.evaluate.scalar(
            problem.monitor.scalar, np.array(times), states, problem.parameters, out, work
        )
        return out[:, 0, : status_of.MONITORED]

    def solution(self, status: int, stop_time: float | None = None) -> Solution:
        """The `Solution` so far, with a status; `stop_time` is the start unless given."""
        report = np.zeros(status_of.REPORT_SIZE)
        report[[status_of.STATUS_ROW, status_of.STOP_STEP]] = status, self.steps
        report[status_of.STOP_RESIDUAL] = np.nan
        stop_time = self.start if stop_time is None else stop_time
        stop_time = float(stop_time) if status > COMPLETE else np.nan
        carried = np.concatenate([_initial_numbers(), self._y])
        carried[[STATUS, STOPPED, FIRST_STEP]] = status, stop_time, self.step_sizes[0]
        carried[STEP] = np.nan if self.step is None else self.step
        carried[STEPS:BASELINE] = self.steps, self.rejected_steps, self.evaluations
        carried[BASELINE:CARRIED] = self.baseline
        return Solution(
            states=self.states,
            statistics=self.statistics,
            step_sizes=self.step_sizes,
            rejected_so_far=self.rejected_so_far,
            report=report,
            stop_time=stop_time,
            steps=self.steps,
            rejected_steps=self.rejected_steps,
            evaluations=self.evaluations,
            history=np.array(self.attempts, dtype=float).reshape(-1, ATTEMPT),
            checkpoint=carried,
        )


def _initial_numbers() -> np.ndarray:
    """Numbers of a checkpoint besides the state, at the start."""
    carried = np.zeros(CARRIED)
    carried[[STEP, FIRST_STEP]], carried[EVALUATIONS] = np.nan, 1.0
    return carried
