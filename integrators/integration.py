"""Integrate systems from Python, one trajectory or an ensemble, without Dask or a store."""

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from integrators import status as status_of
from integrators.compiler import elements
from integrators.diagnostics.stability import warn_if_unstable
from integrators.errors import InputError, check_known, check_number, check_whole
from integrators.forms.flows import SystemOrForm
from integrators.forms.forms import checked_low, checked_members, high_and_low
from integrators.method import Integrator
from integrators.precision import ARITHMETICS, DOUBLE_DOUBLE, to_precise
from integrators.stepping.adaptive import (
    MOST_STEPS,
    AdaptiveProblem,
    StepBound,
    StepHistory,
    run_adaptive,
)
from integrators.stepping.batch import counters_of, run_batch, steps_per_interval
from integrators.stepping.formulations import to_stored_states
from integrators.stepping.problem import Problem

TOGETHER = 64  # members that a call of a kernel computes; Ctrl-C ends a run between two


@dataclass(frozen=True)
class Trajectories:
    """The result of `integrate`.

    Attributes
    ----------
    times : ndarray, shape (S + 1,)
    states : ndarray, shape (S + 1, rows, 3) or (members, S + 1, rows, 3)
        States at the sample times: (q, ω), and the work done so far where a force acts, or spins;
        NaN after a failure. In double-double the nearest doubles.
    status : int, or ndarray of shape (members,)
        0 complete, else an index into `status_of.STATUS`.
    counters : dict
        ``steps``, ``evaluations``, ``stop_step``, ``stop_time``, ``iterations_mean``, … of each
        trajectory; ``rejected_steps`` of adaptive ones.
    history : StepHistory or tuple of StepHistory, optional
        Every step that was tried, of each trajectory; None unless asked for.
    states_low : ndarray, optional
        Low parts in double-double, to be added to `states`, of their shape; None in double.
    """

    times: np.ndarray
    states: np.ndarray
    status: Any
    counters: dict[str, Any]
    history: StepHistory | tuple[StepHistory, ...] | None = None
    states_low: np.ndarray | None = None


def integrate(
    system: SystemOrForm,
    integrator: Integrator,
    state: ArrayLike,
    *,
    duration: float,
    samples: int,
    step_size: float | None = None,
    tolerance: float | None = None,
    start_time: float = 0.0,
    max_steps: int = MOST_STEPS,
    history: bool = False,
    arithmetic: str | None = None,
    state_low: ArrayLike | None = None,
) -> Trajectories:
    """Integrate `system` from `state` for `duration`, sampled at equal intervals.

    Parameters
    ----------
    system : System or form
    integrator : Integrator
        An integrator made by `integrators.get`.
    state : array_like, shape (rows, 3) or (members, rows, 3)
        Initial state: (q, ω) of a mechanical system (the row for the work of a force may be left
        out), spins, or the rows that the system defines. Several members run in lanes.
    duration : float
        Duration in the system's unit of time. With a fixed step it may be negative, for
        integration backwards in time.
    samples : int
        Number of sample intervals; a fixed step must divide ``duration / samples``.
    step_size : float, optional
        Positive step size, for integrators with a fixed step.
    tolerance : float, optional
        For adaptive integrators and those with ``steps_of``, which compute members one by one. It
        is relative; for Lie group methods it is absolute, a bound on the error of a step in the
        state or in the algebra.
    start_time : float, optional
        Initial time, for fixed-step integrators of systems that depend on time explicitly.
    max_steps : int, optional
        The most steps of an adaptive integrator: one that would need more ends as
        ``step_too_small``; see `integrators.stepping.adaptive.StepBound`.
    history : bool, optional
        Whether to keep every step that an adaptive integrator tries, including rejected ones.
    arithmetic : {"double", "double-double"}, optional
        By default that of the integrator. Double-double computes with 31 digits, 5 to 30 times as
        slowly; adaptive integrators then take tolerances down to 5e-30. Parameters, the step size
        and times are taken as the simplest fractions that round to their floats, 0.1 as 1/10; see
        `precision.to_precise`.
    state_low : array_like, optional
        In double-double, low part of the initial state ``state + state_low``; 0 by default.

    Returns
    -------
    Trajectories

    Raises
    ------
    InputError
        If the integrator does not fit the system, the state has a wrong shape or is off the
        manifold, the step does not divide the sample interval, a step size, a start time or a
        negative duration meets an adaptive integrator, or a history is asked of another; in
        double-double also where a plugin's numbers are doubles, and of SciPy's solvers.

    Warns
    -----
    StabilityWarning
        If the step size is beyond the integrator's linear stability limit at a state.
    """
    if not isinstance(integrator, Integrator):
        raise InputError(f"integrator is {integrator!r}; expected one that integrators.get gives")
    integrator.check(system)
    if arithmetic is None:
        arithmetic = integrator.arithmetic
    check_known("arithmetic", arithmetic, ARITHMETICS, key="arithmetic")
    state, state_low = high_and_low(state, state_low, arithmetic)
    members = checked_members(system, state)
    start_time = check_number("start_time", start_time)
    if check_number("duration", duration) == 0.0:
        raise InputError(
            f"duration = {duration!r}; expected a number that is not 0", key="duration"
        )
    samples = check_whole("samples", samples)
    times = start_time + duration * np.arange(samples + 1) / samples
    if history and not integrator.method.adaptive:
        raise InputError(f"{integrator.name!r} does not choose its steps: it has no history")
    histories: Any = None
    if integrator.adaptive:
        _check_forward(integrator, duration, start_time)
        _check_sizes(integrator, step_size, tolerance)
        assert tolerance is not None
        adaptive = cast(AdaptiveProblem, integrator.bind(system, arithmetic))
        own_times = times
        if arithmetic == DOUBLE_DOUBLE:
            members = np.stack([members, checked_low(system, state_low, members)], axis=-1)
            own_times = to_precise(float(duration)) * np.arange(samples + 1) / samples
        bound = StepBound(float(times[-1]), check_whole("max_steps", max_steps))
        runs = run_adaptive(adaptive, members, own_times, tolerance, history=history, bound=bound)
        ended = runs.report[:, status_of.STATUS_ROW].astype(np.int8)
        result = to_stored_states(adaptive, runs.states), ended, runs.counters
        histories = tuple(StepHistory.of(rows) for rows in runs.histories) if history else None
    else:
        if tolerance is not None:
            raise InputError(
                f"{integrator.name!r} has a fixed step: give step_size = 0.01, for example, and no "
                f"tolerance; got tolerance = {tolerance!r}",
                key="tolerance",
            )
        step_size = check_number("step_size", step_size, above=0.0)
        warn_if_unstable(system, integrator, members, step_size, start_time)
        if arithmetic == DOUBLE_DOUBLE:
            members = np.stack([members, checked_low(system, state_low, members)], axis=-1)
        problem = cast(Problem, integrator.bind(system, arithmetic))
        result = _integrate_with_fixed_step(
            integrator, problem, members, step_size, duration, times
        )
    states, counters = result[0], result[2]
    status: int | np.ndarray = result[1]
    if np.ndim(state) == 2:
        states, status = states[0], int(result[1][0])
        counters = {name: values[0] for name, values in counters.items()}
        histories = histories and histories[0]
    if arithmetic == DOUBLE_DOUBLE:
        high, low = np.ascontiguousarray(np.moveaxis(states, -1, 0))
        return Trajectories(times, high, status, counters, histories, low)
    return Trajectories(times, states, status, counters, histories)


def _check_forward(integrator: Integrator, duration: float, start_time: float) -> None:
    if duration < 0 or start_time:
        raise InputError(
            f"{integrator.name!r} is adaptive and runs from time 0 on; got start_time = "
            f"{start_time!r}, duration = {duration!r}. A fixed step runs from any time, and back"
        )


def _check_sizes(integrator: Integrator, step_size: float | None, tolerance: float | None) -> None:
    if step_size is None and tolerance is not None:
        return
    if integrator.method.adaptive:
        raise InputError(
            f"{integrator.name!r} is adaptive: give tolerance = 1e-6, for example, and no "
            f"step_size; got tolerance = {tolerance!r}, step_size = {step_size!r}"
        )
    assert integrator.counted is not None
    raise InputError(
        f"{integrator.label!r} takes a tolerance and no step_size: it has as many equal steps as "
        f"{integrator.counted.name!r} takes at that tolerance"
    )


def _integrate_with_fixed_step(
    integrator: Integrator,
    problem: Problem,
    members: np.ndarray,
    step_size: float,
    duration: float,
    times: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    samples = len(times) - 1
    steps = steps_per_interval(step_size, abs(duration) / samples)
    h = math.copysign(step_size, duration)
    exact = h
    if problem.elements[0] is not elements.DOUBLE:  # steps fill the duration, which is no double
        exact = to_precise(float(duration)) / (samples * steps)
    batches = [
        run_batch(
            problem, members[i : i + TOGETHER], exact, steps, samples, start_time=times[0],
            wide=True,
        )
        for i in range(0, len(members), TOGETHER)
    ]  # fmt: skip
    report = np.concatenate([batch.report for batch in batches])
    states = np.concatenate([batch.states for batch in batches])
    return (
        to_stored_states(problem, states),
        report[:, status_of.STATUS_ROW].astype(np.int8),
        counters_of(integrator, problem, report, steps * samples, h, float(times[0])),
    )
