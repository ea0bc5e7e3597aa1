"""Batches of trajectories of one problem with a fixed step, from arrays."""

from dataclasses import dataclass

import numpy as np

from integrators import status
from integrators.compiler.elements import TANGENTS, Element, aligned
from integrators.compiler.kernels import IS_COMPILED
from integrators.compiler.tangents import COUNT
from integrators.errors import DIVIDES, InputError, check_number
from integrators.precision import Number, is_precise, to_double_doubles, to_precise
from integrators.stepping import loop as kernels
from integrators.stepping.adaptive import AdaptiveProblem
from integrators.stepping.checkpoint import Standing, values_at
from integrators.stepping.formulations import to_stepped_states, to_stored_states
from integrators.stepping.problem import Problem, Stepper
from integrators.stepping.python_step import calling_python


@dataclass(frozen=True)
class Batch:
    """Results of trajectories of one problem.

    Attributes
    ----------
    states : ndarray, shape (members, S + 1, rows, 3)
        States at the sample times that were reached, in the problem's formulation; with a last axis
        of high and low in double-double.
    statistics : ndarray, shape (members, S, 2, 5)
        Statistics of energy (balance) and unit length error over steps of each interval: mean,
        minimum, maximum, mean and maximum of the absolute value. S = 0 where none were asked for.
    report : ndarray, shape (members, 6)
        Rows of `integrators.status`: status, stop step and residual, iterations, evaluations.
    checkpoints : ndarray, shape (members, problem.checkpoint_size)
        Checkpoint of each trajectory at its end; any of them can be resumed together.
    steps : int
        Number of steps from the start of the trajectories to their end.
    tried : int
        Number of them since the checkpoints that they were resumed from.
    part : float
        Part of the next sample interval that is done, below 1.
    """

    states: np.ndarray
    statistics: np.ndarray
    report: np.ndarray
    checkpoints: np.ndarray
    steps: int
    tried: int
    part: float


def counters_of(
    integrator: Stepper,
    problem: Problem,
    report: np.ndarray,
    steps: int,
    step_size: float,
    start_time: float = 0.0,
) -> dict[str, np.ndarray]:
    """Counts of steps, evaluations and iterations by name, each of shape (members,)."""
    failed = report[:, status.STATUS_ROW] > status.COMPLETE
    taken = np.where(failed, report[:, status.STOP_STEP], steps).astype(np.int64)
    solves = np.maximum(taken * problem.solves, 1)
    return {
        "steps": taken,
        "stop_step": np.where(failed, report[:, status.STOP_STEP], -1).astype(np.int64),
        "stop_residual": np.where(failed, report[:, status.STOP_RESIDUAL], np.nan),
        "stop_time": np.where(failed, start_time + step_size * taken, np.nan),
        "iterations_mean": report[:, status.ITERATIONS] / solves,
        "evaluations": taken * integrator.evaluations
        + report[:, status.EVALUATIONS].astype(np.int64),
        "iterations_max": report[:, status.ITERATIONS_MAX].astype(np.int64),
    }


def run_batch(
    problem: Problem,
    members: np.ndarray,
    step_size: Number,
    steps: int | np.ndarray,
    samples: int,
    statistics: int = 0,
    start_time: Number = 0.0,
    checkpoints: np.ndarray | None = None,
    most: int | None = None,
    wide: bool = False,
) -> Batch:
    """Integrate initial states of one problem by one call of a kernel: in lanes, or one alone.

    Parameters
    ----------
    problem : Problem
    members : ndarray, shape (members, rows, 3)
        Initial states (q, ω).
    step_size : float
        Step size; negative for integration backwards in time.
    steps : int or ndarray of int, shape (samples,)
        Steps in each sample interval.
    samples : int
        Number of sample intervals.
    statistics : int
        Keep statistics of one step in so many, and of that to each sample; 0: none.
    start_time : float
        Time at which step 0 begins.
    checkpoints : ndarray, shape (members, problem.checkpoint_size), optional
        Checkpoints of an earlier `Batch`: the runs resume there, the first state is the one of the
        checkpoint, and `members` is ignored. The first sample interval is the one that they are in.
    most : int, optional
        Number of steps after which to stop, at the last sample at the latest.
    wide : bool
        Whether more than eight members of a tiny state are computed by sixteen, up to twice as
        fast: a kernel more to compile where batches of eight are computed too.

    Returns
    -------
    Batch
    """
    initial = to_stepped_states(problem, members) if checkpoints is None else members
    return run_states(
        problem, initial, step_size, steps, samples, statistics, start_time, checkpoints, most, wide
    )


def run_states(
    problem: Problem,
    initial: np.ndarray,
    step_size: Number,
    steps: int | np.ndarray,
    samples: int,
    statistics: int = 0,
    start_time: Number = 0.0,
    checkpoints: np.ndarray | None = None,
    most: int | None = None,
    wide: bool = False,
) -> Batch:
    """`run_batch` from states in the problem's formulation."""
    count = len(initial) if checkpoints is None else len(checkpoints)
    element = problem.element(count, wide)
    if checkpoints is None:
        run = Standing.at_start(problem.layout, element, initial)
    else:
        run = Standing.at(problem.layout, element, checkpoints)
    ends, last, reached, within = run.stop(np.cumsum(np.full(samples, steps)), most)
    ends = ends[: reached + 1]  # with the interval that is not over
    own, groups, shape = run.parts, len(run.parts["y"]), element.shape
    sampled = aligned((groups, 1 + len(ends), problem.rows, 3, *shape))
    kept = status.MONITORED, status.STATISTICS
    stats = aligned((groups, len(ends) * bool(statistics), *kept, *shape))
    stats[:, :1] = own["statistics"][:, None]
    work = aligned((problem.scratch, *shape))
    work[-kernels.GUARD :] = kernels.UNTOUCHED
    with calling_python():
        problem.trajectory(element)(
            clock_of(element, start_time, step_size), run.first, run.first - run.within, last, ends,
            int(statistics), problem.constants, problem.options, own["y"], own["memory"],
            problem.parameters, work, own["baseline"], sampled, stats, own["report"],
        )  # fmt: skip
    check_guard(problem, work[-kernels.GUARD :])
    values, report = values_at(element), own["report"]
    own["statistics"][...] = stats[:, reached] if stats.shape[1] > reached else 0.0
    if within and (not statistics or within % statistics):  # nobody has seen the state there
        report[values][:, status.EVALUATIONS] -= problem.seen
    return Batch(
        states=run.members_first(sampled[:, : reached + 1]),
        statistics=run.members_first(stats[:, :reached])[values],
        report=run.members_first(report)[values],
        checkpoints=run.checkpoints(last, within),
        steps=last,
        tried=last - run.first,
        part=within / (int(ends[reached]) - last + within) if within else 0.0,
    )


def check_guard(problem: Problem | AdaptiveProblem, guard: np.ndarray) -> None:
    """Raise `InputError` where a kernel has written beside its arrays.

    Parameters
    ----------
    problem : Problem or AdaptiveProblem
    guard : ndarray
        What stands beside the arrays, all of which was `loop.UNTOUCHED`.
    """
    if np.any(guard != kernels.UNTOUCHED):
        functions = ", ".join(kernel.label for kernel in problem.made_from)
        raise InputError(
            "a kernel writes beyond its scratch, or another array, and its results are wrong: one "
            f"of {functions} declares too little work, or counts rows that it does not have"
        )


def clock_of(element: Element, start_time: Number, step_size: Number) -> np.ndarray:
    """The time of step 0 and the step size as a loop takes them; floats or precise numbers."""
    if not element.numbers:
        return np.array([start_time, step_size], dtype=float)
    return to_double_doubles(
        [x if is_precise(x) else to_precise(float(x)) for x in (start_time, step_size)]
    )


def run_images(
    problem: Problem,
    element: Element,
    states: np.ndarray,
    step_size: Number,
    steps: int,
    start_time: Number = 0.0,
) -> np.ndarray:
    """Take steps from states of an `Element` in the problem's formulation, in place.

    Parameters
    ----------
    problem : Problem
    element : Element
    states : ndarray, shape (S, rows, 3, *element.shape)
        Initial states, replaced by the final ones.
    step_size, steps, start_time
        Step size, number of steps and initial time, as in `run_ends`.

    Returns
    -------
    ndarray, shape (S, REPORT_SIZE, *element.shape)
        Rows of `integrators.status`.
    """
    shape = element.shape
    memory, work = aligned((problem.memory, *shape)), aligned((max(1, problem.work), *shape))
    reports = aligned((len(states), status.REPORT_SIZE, *shape))
    with calling_python():
        kernels.image_kernel(element).compiled(element)(
            *problem.step_kernels(element), clock_of(element, start_time, step_size), steps,
            problem.constants, problem.options, states, memory, problem.parameters, work, reports,
        )  # fmt: skip
    return reports


def run_ends(
    problem: Problem,
    members: np.ndarray,
    step_size: Number,
    steps: int,
    start_time: Number = 0.0,
    lanes: bool = True,
) -> np.ndarray:
    """Final states of many initial states of one problem, by one call of a kernel.

    Parameters
    ----------
    problem : Problem
    members : ndarray, shape (members, rows, 3)
        Initial states (q, ω).
    step_size : float
        Step size; negative for integration backwards in time.
    steps : int
        Number of steps.
    start_time : float
        Time at which step 0 begins.
    lanes : bool
        Whether to take them eight at a time, filled up with copies, or one by one.

    Returns
    -------
    ndarray, shape (members, rows, 3)
        Final states (q, ω); NaN where a run failed.
    """
    initial = to_stepped_states(problem, members)
    element = problem.elements[lanes and IS_COMPILED]  # plain Python has no lanes
    width, shape = element.trajectories, element.shape
    count, batches = len(initial), -(-len(initial) // width)
    filled = np.concatenate([initial, np.repeat(initial[:1], batches * width - count, axis=0)])
    filled = filled.reshape(batches, width, *filled.shape[1:])
    states = aligned((batches, problem.rows, 3, *shape))
    states[...] = np.moveaxis(filled, 1, 3).reshape(states.shape)
    reports = run_images(problem, element, states, step_size, steps, start_time)
    states, reports = (
        np.moveaxis(part.reshape(*part.shape[:axis], width, *element.parts), axis, 1)
        for part, axis in ((states, 3), (reports, 2))
    )
    ends = states.reshape(-1, problem.rows, 3, *element.parts)[:count]
    ended = reports.reshape(-1, status.REPORT_SIZE, *element.parts)[:count, status.STATUS_ROW]
    ends[ended[values_at(element)] > status.COMPLETE] = np.nan
    return to_stored_states(problem, ends)


def run_tangents(
    problem: Problem,
    state: np.ndarray,
    directions: np.ndarray,
    step_size: Number,
    steps: int,
    start_time: Number = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The final state of a run and its derivatives by the initial state in some directions.

    Parameters
    ----------
    problem : Problem
        A problem in double precision.
    state : ndarray, shape (rows, 3)
        Initial state (q, ω).
    directions : ndarray, shape (k, rows, 3)
        Directions in which the initial state is varied.
    step_size, steps, start_time
        Step size, number of steps and initial time, as in `run_ends`.

    Returns
    -------
    end : ndarray, shape (rows, 3)
        Final state, to the last bit that of `run_ends`.
    derivatives : ndarray, shape (k, rows, 3)
        Directional derivatives, exact but for rounding; NaN where the run failed, and where a
        solver did not converge for them.
    """
    passes = -(-len(directions) // COUNT)
    moving: np.ndarray = np.zeros((passes * COUNT, problem.rows, 3))
    moving[: len(directions)] = directions
    moving = moving.reshape(passes, COUNT, problem.rows, 3)
    states = aligned((passes, problem.rows, 3, 1 + COUNT))
    states[...] = with_tangents(problem, state, moving)
    reports = run_images(problem, TANGENTS, states, step_size, steps, start_time)
    states[reports[:, status.STATUS_ROW, 0] > status.COMPLETE] = np.nan
    end = to_stored_states(problem, states[:1, ..., 0])[0]
    found = np.moveaxis(to_stored_states(problem, states, TANGENTS)[..., 1:], 3, 1)
    return end, found.reshape(-1, *state.shape)[: len(directions)]


def with_tangents(problem: Problem, state: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """A state with tangents in the problem's formulation, from one as it is stored.

    Parameters
    ----------
    problem : Problem
    state : ndarray, shape (rows, 3)
    directions : ndarray, shape (…, 8, rows, 3)

    Returns
    -------
    ndarray, shape (…, rows, 3, 9)
        Array of `elements.TANGENTS`, with the values of `to_stepped_states`, to the last bit.
    """
    starts = np.empty((*directions.shape[:-3], problem.rows, 3, 1 + COUNT))
    starts[..., 0] = state
    starts[..., 1:] = np.moveaxis(directions, -3, -1)
    made = np.array(to_stepped_states(problem, starts, TANGENTS))
    made[..., 0] = to_stepped_states(problem, starts[..., 0])
    return made


def steps_per_interval(step_size: float, interval: float) -> int:
    """The whole number of steps in a sample interval, or `InputError`."""
    step_size = check_number("step_size", step_size, above=0.0)
    ratio = interval / step_size
    steps = round(ratio)
    if steps < 1 or abs(ratio - steps) > DIVIDES * ratio:
        near = [interval / count for count in {max(1, int(ratio)), int(ratio) + 1}]
        raise InputError(
            f"step_size = {step_size!r} does not divide the sample interval {interval!r}; the "
            f"nearest that do: {', '.join(repr(h) for h in sorted(near))}",
            key="step_size",
        )
    return steps
