"""What adaptive methods have in common: a problem that solves itself one trajectory at a time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from integrators import stepping
from integrators.errors import InputError, check_number
from integrators.forms import FORMULATIONS, velocities
from integrators.kernels import Kernel

SMALLEST_TOLERANCE = 100 * np.finfo(float).eps  # below it double precision decides, not the method


def check_tolerance(tolerance):
    """A relative tolerance as a float, or `InputError`."""
    value = check_number("tolerance", tolerance)
    if not SMALLEST_TOLERANCE <= value < 1:
        raise InputError(
            f"tolerance = {tolerance!r}; expected 2.3e-14 to 1, e.g. 1e-6", key="tolerance"
        )
    return value


@dataclass(frozen=True)
class AdaptiveProblem:
    """An adaptive method bound to a form.

    Parameters
    ----------
    solve : callable
        ``solve(problem, state, times, tolerance, statistics)`` gives a `Solution`: from `state`,
        shape (rows, 3), in the problem's formulation at ``times[0] = 0``; `statistics` says
        whether to keep those of every step.
    field, monitor : Kernel
    compiled : tuple of Kernel
        Those that `solve` calls.
    parameters : ndarray, shape (k,)
    rows : int
    options : mapping
        Of the integrator.
    formulation : str
        As `VectorField`'s.
    """

    solve: Callable
    field: Kernel
    monitor: Kernel
    compiled: tuple
    parameters: np.ndarray
    rows: int
    options: Mapping
    formulation: str

    def kernels(self, lanes):
        """The compiled functions; adaptive methods have no lanes."""
        return [kernel.scalar for kernel in self.compiled]


def bound(form, solve, own_kernels, options):
    """The `AdaptiveProblem` of a method that solves by `solve`, through kernels of its own."""
    form = form.vector_field(options.get("formulation", FORMULATIONS[0]))
    return AdaptiveProblem(
        solve=solve,
        field=form.field,
        monitor=form.monitor,
        compiled=(form.field, form.monitor, *own_kernels),
        parameters=form.parameters,
        rows=form.rows,
        options=options,
        formulation=form.formulation,
    )


@dataclass(frozen=True)
class Solution:
    """One trajectory of an adaptive method.

    Attributes
    ----------
    states : ndarray, shape (S + 1, rows, 3)
        In the problem's formulation; NaN after a failure.
    step_sizes : ndarray, shape (S + 1,)
        Of the step that covers each sample time.
    statistics : ndarray, shape (S, 2, 5)
        As in `integration.Batch`, over the accepted steps that end in each interval, NaN where
        none does; S = 0 where none were asked for.
    report : ndarray, shape (5,)
        Rows of `stepping`.
    steps, rejected_steps, evaluations : int
    """

    states: np.ndarray
    step_sizes: np.ndarray
    statistics: np.ndarray
    report: np.ndarray
    steps: int
    rejected_steps: int
    evaluations: int


@dataclass(frozen=True)
class Solutions:
    """Trajectories of one adaptive problem: the arrays of `Solution` with the members first.

    `counters` are those of `integration.Trajectories`, each of shape (members,).
    """

    states: np.ndarray
    step_sizes: np.ndarray
    statistics: np.ndarray
    report: np.ndarray
    counters: dict


def run_adaptive(problem, members, times, tolerance, statistics=False):
    """Integrate initial states one by one.

    Parameters
    ----------
    problem : AdaptiveProblem
    members : ndarray, shape (members, rows, 3)
        (q, ω) at time 0.
    times : ndarray, shape (S + 1,)
        Of the samples, from 0 on.
    tolerance : float
        Relative.
    statistics : bool
        Whether to keep the statistics of every step.

    Returns
    -------
    Solutions

    Raises
    ------
    InputError
        If the tolerance is out of bounds.
    """
    tolerance, times = check_tolerance(tolerance), np.array(times, dtype=float)
    initial = velocities(members) if problem.formulation == "q_qdot" else np.asarray(members)
    runs = [problem.solve(problem, state, times, tolerance, statistics) for state in initial]
    report = np.stack([run.report for run in runs])
    arrays = ("states", "step_sizes", "statistics")
    return Solutions(
        **{name: np.stack([getattr(run, name) for run in runs]) for name in arrays},
        report=report,
        counters=_counters(runs, report),
    )


def _counters(runs, report):
    counted = ("steps", "rejected_steps", "evaluations")
    failed = report[:, stepping.STATUS_ROW] > stepping.COMPLETE
    none = np.zeros(len(runs), dtype=np.int64)
    return {name: np.array([getattr(run, name) for run in runs]) for name in counted} | {
        "stop_step": np.where(failed, report[:, stepping.STOP_STEP], -1).astype(np.int64),
        "stop_residual": np.where(failed, report[:, stepping.STOP_RESIDUAL], np.nan),
        "iterations_mean": none.astype(float),
        "iterations_max": none,
    }
