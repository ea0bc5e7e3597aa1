"""DOP853, Hairer's Dormand–Prince method of order 8 from SciPy: the reference.

Steps are chosen by the tolerance alone, and the last one leads beyond the last sample. The state at
a sample within a step is that of a step of its own from where this one began, which has the order
of the method and costs as much as a step. SciPy's dense output has order 7: at the least tolerance
it was off by up to 45 tolerances, where this was by 1.2.

Adaptive steps and round-off near 1e-14 make it an independent check of everything with a fixed
step.
"""

import importlib
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from integrators import status as status_of
from integrators.compiler.elements import DOUBLE
from integrators.forms.flows import Form, SystemOrForm, VectorField
from integrators.forms.forms import form_of
from integrators.method import Integrator, Method
from integrators.status import COMPLETE, NOT_FINITE, STEP_TOO_SMALL
from integrators.stepping import loop
from integrators.stepping.adaptive import (
    ATTEMPT,
    PACE,
    AdaptiveProblem,
    Solution,
    StepBound,
    check_tolerance,
    part_of_interval,
    vector_field_problem,
)

if TYPE_CHECKING:
    from scipy.integrate import DOP853

STAGES = 12  # evaluations of an attempted step
# What a checkpoint holds besides states: the last step, the size of the next, what is counted, and
# the time of the last look at the pace of steps, NaN where the bound on them ended the run.
STATUS, OLD_TIME, TIME, SIZE, FIRST_STEP, STEPS, REJECTED, EVALUATIONS, MARKED, BASELINE = range(10)
# Of a sample interval that is not over: how many steps are in its statistics, whether the last one
# is, and the statistics, with sums instead of means.
WITHIN = BASELINE + status_of.MONITORED
COUNTED, STATISTICS = WITHIN + 1, WITHIN + 2
CARRIED = STATISTICS + status_of.MONITORED * status_of.STATISTICS
# And then, as flat arrays of the same size, the state before the last step, its slope, the state,
# which is the last one.
OLD, SLOPE, STATE = 0, 1, -1


def solve(
    system: SystemOrForm,
    state: np.ndarray,
    times: np.ndarray,
    tolerance: float,
    checkpoint: np.ndarray | None = None,
    bound: StepBound | None = None,
    most: int | None = None,
    until: float = -math.inf,
) -> tuple[np.ndarray, int, np.ndarray]:
    """Integrate in (q, ω) by DOP853, sampled at some times.

    Parameters
    ----------
    system : System or form
    state : ndarray, shape (rows, 3)
    times : ndarray, shape (S + 1,)
        Increasing; the first belongs to `state`.
    tolerance : float
        Relative and absolute tolerance, at least 2.3e-14.
    checkpoint : ndarray, shape (checkpoint_size(rows),), optional
        Checkpoint of an earlier call with the same tolerance that ended at ``times[0]``, or before
        the next sample: the integration is resumed as if it had not stopped there, and `state` is
        ignored.
    bound : StepBound, optional
        As of `adaptive.run_adaptive`.
    most : int, optional
        Number of attempted steps after which to stop, before the next sample.
    until : float, optional
        Time that steps lead up to, if it is later than the last sample.

    Returns
    -------
    states : ndarray, shape (reached + 1, rows, 3)
        NaN from where the integration failed.
    status : int
        `COMPLETE`, `NOT_FINITE` or `STEP_TOO_SMALL` of `integrators.status`.
    checkpoint : ndarray, shape (checkpoint_size(rows),)
        Checkpoint at the end.

    Raises
    ------
    InputError
        If the tolerance is smaller than double precision supports.
    """
    problem = _problem(form_of(system), {})
    tolerance = check_tolerance(tolerance)
    bound = StepBound(float(times[-1])) if bound is None else bound
    solution = _Path.solve(
        problem, state, times, tolerance, bound, False, checkpoint=checkpoint, most=most,
        until=until,
    )  # fmt: skip
    return solution.states, int(solution.report[status_of.STATUS_ROW]), solution.checkpoint


def checkpoint_size(rows: int) -> int:
    """Numbers in a checkpoint of `solve`, of a state of so many rows."""
    return CARRIED + 3 * 3 * rows


def _problem(form: Form, options: Mapping[str, Any]) -> AdaptiveProblem:
    carried = checkpoint_size(form.rows) - 3 * form.rows
    return vector_field_problem(
        form, _Path.solve, (loop.evaluation_kernel(DOUBLE),), options, carried
    )


def _bind(form: Form, integrator: Integrator) -> AdaptiveProblem:
    scipy_solver("DOP853")  # now, or the first run would take the time
    return _problem(form, integrator.options)


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


def scipy_solver(name: str) -> Any:
    """A solver class of SciPy, imported here: it takes as long to import as all the rest."""
    return getattr(importlib.import_module("scipy.integrate"), name)


def _slope(problem: AdaptiveProblem) -> Callable[[float, np.ndarray], np.ndarray]:
    """The vector field as ``f(t, y)`` on flat arrays."""
    compiled, p, shape = problem.function.scalar, problem.parameters, (problem.rows, 3)
    work = np.zeros(problem.function.work(problem.rows) + 1)

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        out = np.empty(shape)
        compiled(t, y.reshape(shape), p, out, work)
        return out.ravel()

    return slope


class Path(ABC):
    """Steps, samples and statistics of a trajectory, collected as a solver integrates it.

    A subclass makes the solver, of SciPy's interface, takes a step and interpolates.
    """

    kept = 2  # flat arrays of a checkpoint, `STATE` among them
    solver: Any

    def __init__(
        self,
        problem: AdaptiveProblem,
        state: np.ndarray,
        times: np.ndarray,
        tolerance: float,
        bound: StepBound,
        statistics: int,
        checkpoint: np.ndarray | None = None,
    ) -> None:
        self.problem, self.times, self.tolerance, self.bound = problem, times, tolerance, bound
        self.slope, self.resumed = _slope(problem), checkpoint is not None
        if checkpoint is None:
            y = np.ravel(state).astype(float)
            self.carried, self.last = np.zeros(CARRIED), np.full((self.kept, y.size), np.nan)
            self.last[0] = self.last[STATE] = y
            self.carried[[OLD_TIME, TIME, MARKED]] = times[0]
            self.carried[FIRST_STEP] = np.nan
            self.carried[BASELINE] = self._evaluate_monitor([0.0], [y])[0, 0]
        else:
            self.carried = checkpoint[:CARRIED].copy()
            self.last = checkpoint[CARRIED:].reshape(self.kept, -1).copy()
        self.before, samples = self.tried, len(times) - 1
        self.states = np.full((samples + 1, problem.rows, 3), np.nan)
        self.states[0] = self.last[STATE].reshape(-1, 3)
        self.step_sizes = np.full(samples + 1, np.nan)
        self.rejected_so_far = np.full(samples + 1, np.nan)
        self.rejected_so_far[0] = self.carried[REJECTED]
        self.every, size = statistics, samples if statistics else 0
        self.statistics = np.full((size, status_of.MONITORED, status_of.STATISTICS), np.nan)
        # Ends of steps that are in the statistics of no interval yet.
        waits = self.time > times[0] and not self.carried[COUNTED]
        self.ends = [(self.time, self.last[STATE].copy())] if waits else []
        self.attempts: list[tuple[float, float, float, bool]] = []

    @property
    def status(self) -> int:
        """`COMPLETE` as long as nothing failed."""
        return int(self.carried[STATUS])

    @property
    def time(self) -> float:
        """The end of the last step."""
        return float(self.carried[TIME])

    @property
    def tried(self) -> int:
        """Number of attempted steps."""
        return int(self.carried[STEPS] + self.carried[REJECTED])

    @abstractmethod
    def make_solver(self, history: bool) -> None:
        """Make the solver; as it was at the checkpoint, where there is one."""

    @abstractmethod
    def attempt(self) -> tuple[int, bool]:
        """Take a step, and count evaluations: the number of attempts, and whether it is taken."""

    @abstractmethod
    def interpolate(self, t: float) -> np.ndarray:
        """The flat state at a time within the last step."""

    @classmethod
    def solve(
        cls,
        problem: AdaptiveProblem,
        state: np.ndarray,
        times: np.ndarray,
        tolerance: float,
        bound: StepBound,
        statistics: int,
        history: bool = False,
        checkpoint: np.ndarray | None = None,
        most: int | None = None,
        until: float = -math.inf,
    ) -> Solution:
        """Integrate one trajectory; see `adaptive.AdaptiveProblem`, and `solve` about `until`."""
        path = cls(problem, state, times, tolerance, bound, statistics, checkpoint)
        return path.run(history, most, until)

    def run(self, history: bool, most: int | None, until: float = -math.inf) -> Solution:
        """Integrate; see `adaptive.AdaptiveProblem`, and `solve` about `until`."""
        if self.status > COMPLETE:
            return self.solution()
        last = math.inf if most is None else self.tried + most
        with warnings.catch_warnings(record=True) as self.warned:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", RuntimeWarning)  # overflow on the way to a failure
            self.begin(history)
            for i in range(1, len(self.times)):
                while self.status == COMPLETE and self.time < self.times[i]:
                    if self.tried >= last:
                        return self.solution(i - 1)
                    self.step()
                if self.status > COMPLETE:
                    break
                self.sample(i)
            while self.status == COMPLETE and self.time < until:
                self.step()
        return self.solution()

    def begin(self, history: bool) -> None:
        """Make the solver, unless it could not begin."""
        if not self.resumed:
            self.carried[EVALUATIONS] = 1.0
            if not np.all(np.isfinite([y := self.last[STATE], self.slope(self.time, y)])):
                self.carried[STATUS] = NOT_FINITE  # SciPy would search for ever
                return
        self.make_solver(history)

    def step(self) -> None:
        """Take a step, or note that there is none."""
        carried = self.carried
        if not self.bound.allows(int(carried[STEPS]), carried[MARKED], self.time):
            carried[[STATUS, MARKED]] = STEP_TOO_SMALL, np.nan
            return
        if carried[STEPS] % PACE == 0:
            carried[MARKED] = self.time
        attempts, taken = self.attempt()
        carried[REJECTED] += attempts - taken
        carried[STEPS] += taken
        if not taken:
            carried[STATUS] = self.status or STEP_TOO_SMALL
            return
        solver = self.solver
        carried[[OLD_TIME, TIME]] = solver.t_old, solver.t
        self.last[STATE] = solver.y
        if np.isnan(carried[FIRST_STEP]):
            carried[FIRST_STEP] = solver.t - solver.t_old
        if not np.all(np.isfinite(solver.y)):
            carried[STATUS] = NOT_FINITE
        if len(self.statistics):
            self.ends.append((solver.t, solver.y))

    def sample(self, i: int) -> None:
        """The sample `i`, which is within the last step or at its end."""
        t, began, y = float(self.times[i]), float(self.carried[OLD_TIME]), self.last[STATE]
        if t < self.time:
            y = self.interpolate(t)
        self.states[i] = y.reshape(-1, 3)
        self.step_sizes[i] = self.time - began
        self.rejected_so_far[i] = self.carried[REJECTED]
        if len(self.statistics):
            inside = [end for end in self.ends if end[0] <= t]
            self.ends = self.ends[len(inside) :]
            self._gather(inside)
            if steps := -(-self.carried[WITHIN] // self.every):
                out = self.statistics[i - 1]
                out[:] = self._unfinished
                out[:, [status_of.MEAN, status_of.ABS_MEAN]] /= steps
            self._forget()

    @property
    def _unfinished(self) -> np.ndarray:
        """The statistics of the interval that is not over, with sums instead of means."""
        return self.carried[STATISTICS:].reshape(status_of.MONITORED, status_of.STATISTICS)

    def _forget(self) -> None:
        """Begin the statistics of an interval."""
        self.carried[WITHIN], self.carried[STATISTICS:] = 0.0, 0.0

    def _gather(self, ends: list[tuple[float, np.ndarray]]) -> None:
        """Add the ends of some steps, of one in `every`, to the statistics, one after the other."""
        if not ends:  # as ever without statistics
            return
        within = int(self.carried[WITHIN])
        self.carried[WITHIN] += len(ends)
        if not (seen := ends[-within % self.every :: self.every]):
            return
        errors = self._evaluate_monitor(*zip(*seen, strict=True)) - self.carried[BASELINE:WITHIN]
        found, sizes, begun = self._unfinished, np.abs(errors), within > 0
        for row, values, of in (
            (status_of.MEAN, errors, np.add),
            (status_of.ABS_MEAN, sizes, np.add),
            (status_of.MINIMUM, errors, np.minimum),
            (status_of.MAXIMUM, errors, np.maximum),
            (status_of.ABS_MAX, sizes, np.maximum),
        ):
            together = np.concatenate([found[None, :, row], values]) if begun else values
            found[:, row] = of.accumulate(together)[-1]

    def _evaluate_monitor(self, times: Sequence[float], flat: Sequence[np.ndarray]) -> np.ndarray:
        """The monitored quantities of flat states at `times`, shape (states, MONITORED)."""
        problem = self.problem
        states = np.reshape(flat, (-1, problem.rows, 3))
        out = np.zeros((len(states), 1, 3))
        loop.evaluate(problem.monitor, np.array(times), states, problem.parameters, out)
        return out[:, 0, : status_of.MONITORED]

    def solution(self, reached: int | None = None) -> Solution:
        """The `Solution` so far, up to a sample; to the last one unless given."""
        carried, report = self.carried, np.zeros(status_of.REPORT_SIZE)
        if reached is None:
            reached = len(self.times) - 1
        else:  # all that is left belongs to the next interval
            self._gather(self.ends)
            self.ends = []
        if self.status > COMPLETE:
            self._forget()
            self.ends = []
        carried[COUNTED] = not self.ends
        report[[status_of.STATUS_ROW, status_of.STOP_STEP]] = self.status, carried[STEPS]
        report[status_of.STOP_RESIDUAL] = np.nan
        self.step_sizes[0] = carried[FIRST_STEP]
        return Solution(
            states=self.states[: reached + 1],
            statistics=self.statistics[:reached],
            part=part_of_interval(self.times[reached:], self.time),
            step_sizes=self.step_sizes[: reached + 1],
            rejected_so_far=self.rejected_so_far[: reached + 1],
            report=report,
            stop_time=self.time if self.status > COMPLETE else np.nan,
            steps=int(carried[STEPS]),
            rejected_steps=int(carried[REJECTED]),
            evaluations=int(carried[EVALUATIONS]),
            tried=self.tried - self.before,
            history=np.array(self.attempts, dtype=float).reshape(-1, ATTEMPT),
            checkpoint=np.concatenate([carried, self.last.ravel()]),
        )


class _Path(Path):
    """By DOP853, which is at a checkpoint what its last step left."""

    kept = 3

    def make_solver(self, history: bool) -> None:
        """Make the solver; as it was at the checkpoint, where there is one."""
        step = float(self.carried[SIZE]) if self.resumed else None
        self.solver = self._solver(self.time, self.last[STATE], np.inf, step)
        if self.resumed:
            self.solver.f = self.last[SLOPE].copy()  # at t + h: its end but for round-off
            self.solver.nfev = int(self.carried[EVALUATIONS])
        if history:
            self._record_attempts()

    def _solver(self, t: float, y: np.ndarray, end: float, step: float | None) -> "DOP853":
        kind, allowed = scipy_solver("DOP853"), self.tolerance
        return kind(self.slope, t, y, end, rtol=allowed, atol=allowed, first_step=step)

    def attempt(self) -> tuple[int, bool]:
        """Take a step; the number of attempts, and whether it is taken."""
        solver, carried, before = self.solver, self.carried, self.solver.nfev
        if solver.h_abs > 0:
            solver.step()
        attempts = (solver.nfev - before) // STAGES
        carried[EVALUATIONS] = solver.nfev
        if attempts == 0 or solver.status == "failed":
            return attempts, False
        carried[SIZE] = solver.h_abs
        self.last[OLD], self.last[SLOPE] = solver.y_old, solver.f
        return attempts, True

    def interpolate(self, t: float) -> np.ndarray:
        """The state at a time within the last step, by a step of its own."""
        began = float(self.carried[OLD_TIME])
        own = self._solver(began, self.last[OLD], t, t - began)
        while own.status == "running":
            own.step()
        self.solver.nfev += own.nfev
        self.carried[EVALUATIONS] = self.solver.nfev
        return own.y if own.status == "finished" else np.nan * own.y

    def _record_attempts(self) -> None:
        """Keep every attempt of the solver, whose errors are multiples of the tolerance."""
        solver: Any = self.solver
        estimate = solver._estimate_error_norm  # all that knows of an attempt that is rejected

        def noted(slopes: np.ndarray, h: float, scale: np.ndarray) -> float:
            error = estimate(slopes, h, scale)
            self.attempts.append((solver.t, h, error * self.tolerance, error < 1))
            return error

        solver._estimate_error_norm = noted
