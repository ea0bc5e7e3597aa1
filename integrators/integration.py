"""Integrate systems from Python, one trajectory or an ensemble, without Dask or a store."""

import math
from dataclasses import dataclass

import numba
import numpy as np

from integrators.compiler.lanes import WIDTH
from integrators.compiler.memory import aligned
from integrators.diagnostics.stability import warn_if_unstable
from integrators.errors import InputError, check_array, check_number, check_whole
from integrators.forms.forms import angular_velocities, velocities
from integrators.method import Integrator, form_of
from integrators.stepping import loop as stepping
from integrators.stepping.adaptive import StepHistory, run_adaptive
from integrators.stepping.checkpoint import Standing, members_first

BLOCK_BYTES = 32 * 2**20  # of sampled states that one call of a kernel fills


@dataclass(frozen=True)
class Trajectories:
    """The result of `integrate`.

    Attributes
    ----------
    times : ndarray, shape (S + 1,)
    states : ndarray, shape (S + 1, rows, 3) or (members, S + 1, rows, 3)
        At the sample times: (q, ω), and the work done so far where a force acts, or spins; NaN
        after a failure.
    status : int, or ndarray of shape (members,)
        0 complete, else an index into `stepping.STATUS`.
    counters : dict
        ``steps``, ``evaluations``, ``stop_step``, ``stop_time``, ``iterations_mean``, … of each
        trajectory; ``rejected_steps`` of adaptive ones.
    history : StepHistory or tuple of StepHistory, optional
        Every step that was tried, of each trajectory; None unless asked for.
    """

    times: np.ndarray
    states: np.ndarray
    status: object
    counters: dict
    history: object = None


@dataclass(frozen=True)
class Batch:
    """Up to eight trajectories of one problem, as a kernel left them.

    Attributes
    ----------
    states : ndarray, shape (members, S + 1, rows, 3)
        In the problem's formulation.
    statistics : ndarray, shape (members, S, 2, 5)
        Of energy (balance) and unit length error over the steps of each interval: mean, minimum,
        maximum, mean and maximum of the absolute value. S = 0 where none were asked for.
    report : ndarray, shape (members, 6)
        Rows of `stepping`: status, stop step and residual, solver iterations, evaluations.
    checkpoints : ndarray, shape (members, problem.checkpoint_size)
        Where the trajectories stand, each to go on from in any company; see `resuming`.
    """

    states: np.ndarray
    statistics: np.ndarray
    report: np.ndarray
    checkpoints: np.ndarray


def integrate(
    system, integrator, state, *, duration, samples, step_size=None, tolerance=None, start_time=0.0,
    history=False,
):  # fmt: skip
    """Integrate `system` from `state` for `duration`, sampled at equal intervals.

    Parameters
    ----------
    system : System or form
    integrator : Integrator
        From `integrators.get`.
    state : array_like, shape (rows, 3) or (members, rows, 3)
        At the start: (q, ω), where the row of a force's work may be left out, spins, or what else
        the system's states are. Several members run in lanes, eight at a time.
    duration : float
        In the system's units of time; with a fixed step it may be negative: back in time.
    samples : int
        Intervals between samples; a fixed step must divide ``duration / samples``.
    step_size : float, optional
        Of a fixed-step integrator, positive.
    tolerance : float, optional
        Of an adaptive integrator, or one with ``steps_of``; members run one by one. Relative, but
        of Lie group methods absolute: what an error in the state or in the algebra is less than.
    start_time : float, optional
        Of a fixed-step integrator, where the system depends on the time itself.
    history : bool, optional
        Whether to keep every step that an adaptive integrator tries, also those that it rejects.

    Returns
    -------
    Trajectories

    Raises
    ------
    InputError
        If the integrator does not fit the system, the state has a wrong shape or is off the
        manifold, the step does not divide the sample interval, a step size, a start time or a
        negative duration meets an adaptive integrator, or a history is asked of another.

    Warns
    -----
    StabilityWarning
        If the step size is beyond the integrator's linear stability limit at a state.
    """
    if not isinstance(integrator, Integrator):
        raise InputError(f"integrator is {integrator!r}; expected one that integrators.get gives")
    integrator.check(system)
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
    histories = None
    if integrator.adaptive:
        _check_forward(integrator, duration, start_time)
        _check_sizes(integrator, step_size, tolerance)
        problem = integrator.bind(system)
        runs = run_adaptive(problem, members, times, tolerance, history=history)
        status = runs.report[:, stepping.STATUS_ROW].astype(np.int8)
        result = canonical(problem, runs.states), status, runs.counters
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
        result = _fixed(integrator, system, members, step_size, duration, times)
    states, status, counters = result
    if np.ndim(state) == 2:
        states, status = states[0], int(status[0])
        counters = {name: values[0] for name, values in counters.items()}
        histories = histories and histories[0]
    return Trajectories(times, states, status, counters, histories)


def _check_forward(integrator, duration, start_time):
    if duration < 0 or start_time:
        raise InputError(
            f"{integrator.name!r} is adaptive and runs from time 0 on; got start_time = "
            f"{start_time!r}, duration = {duration!r}. A fixed step runs from any time, and back"
        )


def checked_members(system, state):
    """A state or states as an array of shape (members, rows, 3), or `InputError`."""
    form = form_of(system)
    rows = form.rows
    shape = f"({rows}, 3) or (members, {rows}, 3)"
    members = check_array("state", state, shape)
    if hasattr(form, "completed"):
        members = form.completed(members)
    members = members[np.newaxis] if members.ndim == 2 else members
    if members.ndim != 3 or members.shape[1:] != (rows, 3) or not len(members):
        moved = f", which {form.action.name} moves" if hasattr(form, "action") else ""
        raise InputError(f"state of shape {np.shape(state)}; expected {shape}{moved}", key="state")
    if hasattr(system, "check_state"):
        for member in members[np.isfinite(members).all(axis=(1, 2))]:  # NaN gives its status
            system.check_state(member)
    return members


def _check_sizes(integrator, step_size, tolerance):
    if step_size is None and tolerance is not None:
        return
    if integrator.method.adaptive:
        raise InputError(
            f"{integrator.name!r} is adaptive: give tolerance = 1e-6, for example, and no "
            f"step_size; got tolerance = {tolerance!r}, step_size = {step_size!r}"
        )
    raise InputError(
        f"{integrator.label!r} takes a tolerance and no step_size: it has as many equal steps as "
        f"{integrator.counted.name!r} takes at that tolerance"
    )


def _fixed(integrator, system, members, step_size, duration, times):
    problem, samples = integrator.bind(system), len(times) - 1
    steps = steps_per_interval(step_size, abs(duration) / samples)
    h = math.copysign(step_size, duration)
    batches = [
        run_batch(problem, members[i : i + WIDTH], h, steps, samples, start_time=float(times[0]))
        for i in range(0, len(members), WIDTH)
    ]
    report = np.concatenate([batch.report for batch in batches])
    states = np.concatenate([batch.states for batch in batches])
    return (
        canonical(problem, states),
        report[:, stepping.STATUS_ROW].astype(np.int8),
        counters_of(integrator, problem, report, steps * samples, h, float(times[0])),
    )


def steps_per_interval(step_size, interval):
    """The whole number of steps in a sample interval, or `InputError`."""
    step_size = check_number("step_size", step_size, above=0.0)
    ratio = interval / step_size
    steps = round(ratio)
    if steps < 1 or abs(ratio - steps) > 1e-9 * ratio:
        near = [interval / count for count in {max(1, int(ratio)), int(ratio) + 1}]
        raise InputError(
            f"step_size = {step_size!r} does not divide the sample interval {interval!r}; the "
            f"nearest that do: {', '.join(repr(h) for h in sorted(near))}",
            key="step_size",
        )
    return steps


def canonical(problem, states):
    """States in the problem's formulation as they are stored: (q, ω) of a Lagrangian."""
    return angular_velocities(states) if problem.formulation == "q_qdot" else states


def lagrangian(problem, states):
    """States in the problem's formulation as quantities read them: (q, q̇) of a Lagrangian."""
    return velocities(states) if problem.formulation == "q_omega" else states


def counters_of(integrator, problem, report, steps, step_size, start_time=0.0):
    """What each trajectory took, by name; arrays of shape (members,)."""
    failed = report[:, stepping.STATUS_ROW] > stepping.COMPLETE
    taken = np.where(failed, report[:, stepping.STOP_STEP], steps).astype(np.int64)
    solves = np.maximum(taken * problem.solves, 1)
    return {
        "steps": taken,
        "stop_step": np.where(failed, report[:, stepping.STOP_STEP], -1).astype(np.int64),
        "stop_residual": np.where(failed, report[:, stepping.STOP_RESIDUAL], np.nan),
        "stop_time": np.where(failed, start_time + step_size * taken, np.nan),
        "iterations_mean": report[:, stepping.ITERATIONS] / solves,
        "evaluations": taken * integrator.evaluations
        + report[:, stepping.EVALUATIONS].astype(np.int64),
        "iterations_max": report[:, stepping.ITERATIONS_MAX].astype(np.int64),
    }


def run_batch(
    problem, members, step_size, steps, samples, statistics=False, start_time=0.0, checkpoints=None
):
    """Integrate up to eight initial states of one problem: in lanes, or scalar if there is one.

    Parameters
    ----------
    problem : Problem
    members : ndarray, shape (members, rows, 3)
        (q, ω) at the start; missing lanes are filled with copies of the first.
    step_size : float
        Negative: back in time.
    steps : int or ndarray of int, shape (samples,)
        Steps in each sample interval.
    samples : int
        Sample intervals.
    statistics : bool
        Whether to keep the statistics of every step.
    start_time : float
        Of step 0.
    checkpoints : ndarray, shape (members, problem.checkpoint_size), optional
        From a `Batch`: the runs go on from there, and the first state is where they stand;
        `members` counts no more.

    Returns
    -------
    Batch
    """
    begins, in_velocities = checkpoints is None, problem.formulation == "q_qdot"
    initial = velocities(members) if begins and in_velocities else members
    return run_states(
        problem, initial, step_size, steps, samples, statistics, start_time, checkpoints
    )


def run_states(
    problem, initial, step_size, steps, samples, statistics=False, start_time=0.0, checkpoints=None
):
    """`run_batch` from states in the problem's formulation."""
    if checkpoints is None:
        run = Standing.at_start(problem.layout, initial)
    else:
        run = Standing.at(problem.layout, checkpoints)
    y, width = run.y, run.y.shape[2:]
    scratch = 3 + max(problem.work, problem.monitor.work(problem.rows))
    work, first = aligned((scratch, *width)), run.first
    loop = stepping.trajectory(lanes=bool(width))
    functions = problem.kernels(lanes=bool(width))
    ends = first + np.cumsum(np.broadcast_to(steps, samples), dtype=np.int64)
    states, kept = [y[None].copy()], []
    block = max(1, BLOCK_BYTES // (8 * y.size))
    for start in range(0, samples, block):
        size = min(block, samples - start)
        sampled = aligned((size, *y.shape))
        stats = aligned(
            (size if statistics else 0, stepping.MONITORED, stepping.STATISTICS, *width)
        )
        loop(
            *functions, start_time, step_size, first, ends[start : start + size], problem.constants,
            problem.options, y, run.memory, problem.parameters, work, run.baseline, sampled, stats,
            run.report,
        )  # fmt: skip
        first = int(ends[start + size - 1])
        states.append(sampled)
        kept.append(stats)
    return Batch(
        states=members_first(np.concatenate(states), run.count),
        statistics=members_first(np.concatenate(kept), run.count),
        report=members_first(run.report, run.count),
        checkpoints=run.checkpoints(first),
    )


def run_ends(problem, members, step_size, steps, start_time=0.0, lanes=True):
    """The states that many initial states of one problem lead to, by one call of a kernel.

    Parameters
    ----------
    problem : Problem
    members : ndarray, shape (members, rows, 3)
        (q, ω) at the start.
    step_size : float
        Negative: back in time.
    steps : int
    start_time : float
    lanes : bool
        Whether to take them eight at a time, filled up with copies, or one by one.

    Returns
    -------
    ndarray, shape (members, rows, 3)
        (q, ω) again; NaN where a run failed.
    """
    initial = velocities(members) if problem.formulation == "q_qdot" else np.asarray(members)
    lanes = lanes and not numba.config.DISABLE_JIT  # plain Python has none
    width = WIDTH if lanes else 1
    count, batches = len(initial), -(-len(initial) // width)
    filled = np.concatenate([initial, np.repeat(initial[:1], batches * width - count, axis=0)])
    shape = (width,) if lanes else ()
    states = aligned((batches, problem.rows, 3, *shape))
    states[...] = np.moveaxis(filled.reshape(batches, width, -1, 3), 1, -1).reshape(states.shape)
    memory, work = aligned((problem.memory, *shape)), aligned((max(1, problem.work), *shape))
    reports = aligned((batches, stepping.REPORT_SIZE, *shape))
    stepping.images(lanes)(
        *problem.kernels(lanes)[:4], start_time, step_size, steps, problem.constants,
        problem.options, states, memory, problem.parameters, work, reports,
    )  # fmt: skip
    states, reports = (
        np.moveaxis(part.reshape(*part.shape[: part.ndim - len(shape)], width), -1, 1)
        for part in (states, reports)
    )
    ends = states.reshape(-1, problem.rows, 3)[:count]
    status = reports.reshape(-1, stepping.REPORT_SIZE)[:count, stepping.STATUS_ROW]
    ends[status > stepping.COMPLETE] = np.nan
    return canonical(problem, ends)
