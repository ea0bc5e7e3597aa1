"""Adaptive methods bound to a form: problems, solutions, and runs of one trajectory at a time."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from integrators import precision, status
from integrators.compiler.elements import DOUBLE, DOUBLE_DOUBLE, Element
from integrators.compiler.kernels import Compiled, Kernel
from integrators.errors import InputError, check_number
from integrators.forms.flows import Form
from integrators.forms.forms import FORMULATIONS
from integrators.stepping.checkpoint import Layout
from integrators.stepping.formulations import to_stepped_states
from integrators.stepping.python_step import calling_python

MOST_STEPS = 10_000_000  # that an adaptive run takes, unless it is given another bound
PACE, OVERDUE = 10_000, 100.0  # steps between two looks at how far they led, and see `StepBound`
BEGUN, TRIED, ERROR, ACCEPTED, ATTEMPT = range(5)  # of an attempt: time, size, error, whether
SMALLEST_TOLERANCES = {  # and in words: below it rounding decides, not the method
    precision.DOUBLE: (100 * precision.ROUND_OFF[precision.DOUBLE], "2.3e-14"),
    precision.DOUBLE_DOUBLE: (100 * precision.ROUND_OFF[precision.DOUBLE_DOUBLE], "5e-30"),
}


def check_tolerance(tolerance: object, arithmetic: str = precision.DOUBLE) -> float:
    """A relative tolerance of steps in an arithmetic as a float, or `InputError`."""
    value, (least, words) = check_number("tolerance", tolerance), SMALLEST_TOLERANCES[arithmetic]
    if not least <= value < 1:
        raise InputError(
            f"tolerance = {tolerance!r}; expected {words} to 1 in {arithmetic}, e.g. 1e-6",
            key="tolerance",
        )
    return value


@dataclass(frozen=True)
class StepBound:
    """The most steps of an adaptive run, and its end.

    A run that is to take another step ends as ``step_too_small`` where it took as many as are
    allowed; and, as soon near a singularity, after each `PACE` steps where these led so little
    further that at their mean size the time from 0 on would have taken more than `OVERDUE` times as
    many as are allowed. Neither depends on the end: a run does the same until it is there.

    Parameters
    ----------
    end : float
        Of the whole run, of which parts may be integrated.
    most : int
    """

    end: float
    most: int = MOST_STEPS

    def allows(self, steps: int, marked: float, time: float) -> bool:
        """Whether a run at `time`, after `steps` and a look at `marked`, may take another step."""
        if steps == 0 or steps % PACE:
            return steps < self.most
        return steps < self.most and time * PACE <= OVERDUE * self.most * (time - marked)


@dataclass(frozen=True)
class AdaptiveProblem:
    """An adaptive method bound to a form.

    Parameters
    ----------
    solve : callable
        ``solve(problem, state, times, tolerance, bound, statistics, history=False,
        checkpoint=None, most=None)``, with a `StepBound`, returns a `Solution`: from `state`, shape
        (rows, 3), in the problem's formulation at ``times[0] = 0``, or resumed from a `checkpoint`
        at ``times[0]`` or before the next sample; in double-double states and times have a last
        axis of high and low;
        `statistics` says of one step in how many to keep statistics, `history` whether to keep
        every attempted step; after `most` attempted steps it stops before the next sample.
    function : Kernel
        The vector field or generator.
    monitor : Kernel
        The quantities whose statistics are kept.
    compiled : tuple of Kernel
        Kernels that `solve` calls, except the one of `loop`.
    parameters : ndarray, shape (k,)
        Parameters that `function` and `monitor` read.
    rows : int
        Rows of the state.
    options : mapping
        Options of the integrator.
    formulation : str
        Variables of the state, as in `VectorField`.
    move, pull : Kernel, optional
        Action of the group, and dexp⁻¹ or the bracket, as in `Problem`.
    prepare : callable, optional
        ``prepare(state, bound, tolerance, checkpoint=None, most=None)`` computes in advance what
        `solve` needs of an initial state (q, ω), shape (rows, 3), or some steps of it: a checkpoint
        to `solve` from, and the number of attempted steps. Its cost does not count as work of the
        run, which depends on its end by it.
    conversions : tuple of Kernel
        Conversions between formulations, as in `HomogeneousFlow`.
    loop : callable, optional
        Returns the kernel of the loop for an `Element`, see `adaptive_loop.loop`; without it there
        are runs in double precision only.
    constants : ndarray
        Coefficients of the method, which the loop reads.
    carried : int
        Numbers that `solve` carries from step to step besides the state.
    """

    solve: "Callable[..., Solution]"
    function: Kernel
    monitor: Kernel
    compiled: tuple[Kernel, ...]
    parameters: np.ndarray
    rows: int
    options: Mapping[str, Any]
    formulation: str
    move: Kernel | None = None
    pull: Kernel | None = None
    prepare: Callable[..., tuple[np.ndarray, int]] | None = None
    conversions: tuple[Kernel, ...] = ()
    loop: Callable[[Element], Kernel] | None = None
    constants: np.ndarray | tuple[()] = ()
    carried: int = 0

    @property
    def layout(self) -> Layout:
        """The `checkpoint.Layout` of a checkpoint of one trajectory."""
        return Layout((("carried", (self.carried,)), ("y", (self.rows, 3))))

    @property
    def checkpoint_size(self) -> int:
        """Numbers in a checkpoint."""
        return self.layout.size * math.prod(self.elements[0].parts)

    def is_prepared(self, checkpoints: np.ndarray | None) -> bool:
        """Whether they have all that `prepare` computes: then their first number is not 0."""
        return self.prepare is None or (checkpoints is not None and bool(checkpoints[:, 0].all()))

    @property
    def elements(self) -> tuple[Element, Element]:
        """The `Element` of one trajectory, twice: adaptive trajectories run one by one."""
        own = DOUBLE_DOUBLE if np.ndim(self.parameters) == 2 else DOUBLE
        return own, own

    @property
    def arithmetic(self) -> str:
        """Arithmetic of the numbers, one of `precision.ARITHMETICS`."""
        return precision.DOUBLE_DOUBLE if self.elements[0].parts else precision.DOUBLE

    @property
    def made_from(self) -> tuple[Kernel, ...]:
        """All kernels that `solve` calls."""
        return (*self.compiled, *([self.loop(self.elements[0])] if self.loop else []))

    def kernels(self, element: Element = DOUBLE) -> list[Compiled]:
        """The compiled functions; adaptive methods have no lanes."""
        return [kernel.compiled(element) for kernel in self.made_from]

    def functions(self) -> list[Compiled]:
        """The compiled functions of the form: `function`, `move`, `pull` and `monitor`."""
        made = (self.function, self.move, self.pull, self.monitor)
        return [(kernel or self.function).compiled(self.elements[0]) for kernel in made]


def vector_field_problem(
    form: Form,
    solve: "Callable[..., Solution]",
    own_kernels: tuple[Kernel, ...],
    options: Mapping[str, Any],
    carried: int,
    loop: Callable[[Element], Kernel] | None = None,
    constants: np.ndarray | tuple[()] = (),
) -> AdaptiveProblem:
    """The `AdaptiveProblem` of a method that steps a vector field by its own `solve`."""
    form = form.vector_field(options.get("formulation", FORMULATIONS[0]))
    return AdaptiveProblem(
        solve=solve,
        function=form.field,
        monitor=form.monitor,
        compiled=(form.field, form.monitor, *own_kernels),
        parameters=form.parameters,
        rows=form.rows,
        options=options,
        formulation=form.formulation,
        loop=loop,
        constants=constants,
        carried=carried,
    )


@dataclass(frozen=True)
class Solution:
    """One trajectory of an adaptive method.

    Attributes
    ----------
    states : ndarray, shape (S + 1, rows, 3)
        States at the sample times that were reached, in the problem's formulation; NaN after a
        failure.
    step_sizes, rejected_so_far : ndarray, shape (S + 1,)
        Size of the step that covers each sample time, and the number of steps rejected until its
        end.
    statistics : ndarray, shape (S, 2, 5)
        Statistics as in `batch.Batch`, over the accepted steps that end in each interval, NaN
        where none does; S = 0 where none were asked for.
    report : ndarray, shape (6,)
        Rows of `integrators.status`.
    stop_time : float
        Time of the failure; NaN without one.
    steps, rejected_steps, evaluations : int
    tried : int
        Number of steps that were attempted since the checkpoint that it was resumed from.
    history : ndarray, shape (attempts, 4)
        For every attempted step its initial time, its size, its error, and whether it was
        accepted: that is where the error is less than the tolerance (for rk45, not greater than
        it). Empty unless asked for.
    checkpoint : ndarray, shape (problem.checkpoint_size,)
        Checkpoint at the end.
    part : float
        Part of the next sample interval that is done, below 1.
    iterations_mean : float
        Mean number of iterations of an implicit solver in a step.
    iterations_max : int
        Largest number of them.
    """

    states: np.ndarray
    step_sizes: np.ndarray
    rejected_so_far: np.ndarray
    statistics: np.ndarray
    report: np.ndarray
    stop_time: float
    steps: int
    rejected_steps: int
    evaluations: int
    tried: int
    history: np.ndarray
    checkpoint: np.ndarray
    part: float = 0.0
    iterations_mean: float = 0.0
    iterations_max: int = 0


@dataclass(frozen=True)
class StepHistory:
    """Every step that an adaptive integrator tried on one trajectory.

    Attributes
    ----------
    times : ndarray, shape (attempts,)
        Time at which each attempted step begins.
    sizes : ndarray, shape (attempts,)
        Step sizes.
    errors : ndarray, shape (attempts,)
        Errors as the step control measures them, to compare with the tolerance; NaN where an
        attempt was not finite, infinite where it left the domain of the method.
    accepted : ndarray of bool, shape (attempts,)
        Whether each step was accepted.
    """

    times: np.ndarray
    sizes: np.ndarray
    errors: np.ndarray
    accepted: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> "StepHistory":
        """The history of a trajectory from the rows of its `Solution.history`."""
        columns = {"times": BEGUN, "sizes": TRIED, "errors": ERROR}
        values = {name: rows[:, column].copy() for name, column in columns.items()}
        return cls(**values, accepted=rows[:, ACCEPTED] > 0.0)


@dataclass(frozen=True)
class Solutions:
    """Trajectories of one adaptive problem: the arrays of `Solution` with the members first.

    `counters` are as in `integration.Trajectories`, each of shape (members,); `histories` is a
    tuple with one array for each member; `part` is that of the first, `tried` of all.
    """

    states: np.ndarray
    step_sizes: np.ndarray
    rejected_so_far: np.ndarray
    statistics: np.ndarray
    report: np.ndarray
    counters: dict[str, np.ndarray]
    histories: tuple[np.ndarray, ...]
    checkpoints: np.ndarray
    part: float
    tried: int


def run_adaptive(
    problem: AdaptiveProblem,
    members: np.ndarray,
    times: np.ndarray | Sequence[float],
    tolerance: float,
    statistics: int = 0,
    history: bool = False,
    checkpoints: np.ndarray | None = None,
    bound: StepBound | None = None,
    most: int | None = None,
) -> Solutions:
    """Integrate initial states one by one.

    Parameters
    ----------
    problem : AdaptiveProblem
    members : ndarray, shape (members, rows, 3)
        Initial states (q, ω) at time 0; with a last axis of high and low for a problem in
        double-double.
    times : ndarray, shape (S + 1,)
        Sample times, from 0 on; an array of precise numbers (objects) in double-double.
    tolerance : float
        Relative tolerance, or absolute where the method says so.
    statistics : int
        Keep statistics of one accepted step in so many, the first of each interval; 0: none.
    history : bool
        Whether to keep every attempted step.
    checkpoints : ndarray, shape (members, problem.checkpoint_size), optional
        Checkpoints of earlier `Solutions` or of `prepare`, all at ``times[0]`` or before the next
        sample: the runs resume there, the first state is the one of the checkpoint, and `members`
        is ignored.
    bound : StepBound, optional
        That of whole runs, of which these times may be a part; up to ``times[-1]`` unless given.
    most : int, optional
        Number of attempted steps after which one trajectory stops, before the next sample.

    Returns
    -------
    Solutions

    Raises
    ------
    InputError
        If the tolerance is out of bounds.
    ValueError
        If several trajectories are to stop.
    """
    tolerance = check_tolerance(tolerance, problem.arithmetic)
    if most is not None and len(members if checkpoints is None else checkpoints) > 1:
        raise ValueError("only one adaptive trajectory at a time can stop between samples")
    precise = problem.elements[0].numbers
    times = precision.to_double_doubles(times) if precise else np.array(times, dtype=float)
    if bound is None:
        bound = StepBound(float(times[-1][0] if precise else times[-1]))
    if checkpoints is None:
        checkpoints, _ = prepare(problem, members, bound, tolerance)
    stands: Iterable[np.ndarray | None]
    if checkpoints is not None:
        numbers = checkpoints.reshape(len(checkpoints), -1, *problem.elements[0].parts)
        initial, stands = problem.layout.parts(numbers)["y"], checkpoints
    else:
        initial = to_stepped_states(problem, members)
        stands = [None] * len(initial)
    with calling_python():
        runs = [
            problem.solve(problem, state, times, tolerance, bound, statistics, history, stood, most)
            for state, stood in zip(initial, stands, strict=True)
        ]
    report = np.stack([run.report for run in runs])
    arrays = ("states", "step_sizes", "rejected_so_far", "statistics")
    return Solutions(
        **{name: np.stack([getattr(run, name) for run in runs]) for name in arrays},
        checkpoints=np.stack([run.checkpoint for run in runs]),
        report=report,
        counters=_counters_of_runs(runs, report),
        histories=tuple(run.history for run in runs),
        part=runs[0].part,
        tried=sum(run.tried for run in runs),
    )


def part_of_interval(times: np.ndarray, time: float) -> float:
    """Part of the interval between the first two of some times that is done at a time, below 1."""
    if len(times) < 2:
        return 0.0
    part = float(time - times[0]) / float(times[1] - times[0])
    return min(max(part, 0.0), 1.0 - precision.ROUND_OFF[precision.DOUBLE])


def prepare(
    problem: AdaptiveProblem,
    members: np.ndarray,
    bound: StepBound,
    tolerance: float,
    checkpoints: np.ndarray | None = None,
    most: int | None = None,
) -> tuple[np.ndarray | None, int]:
    """What `run_adaptive` computes of members before it begins, or some steps of that.

    What it takes counts in no run's time. Parameters are those of `run_adaptive`.

    Returns
    -------
    checkpoints : ndarray, shape (members, problem.checkpoint_size), or None
        From which to run; as given, where nothing is left to compute.
    tried : int
        Number of steps that were attempted.
    """
    if problem.prepare is None:
        return checkpoints, 0
    stands = [None] * len(members) if checkpoints is None else checkpoints
    with calling_python():
        found = [
            problem.prepare(state, bound, tolerance, stood, most)
            for state, stood in zip(members, stands, strict=True)
        ]
    return np.stack([own for own, _ in found]), sum(tried for _, tried in found)


def _counters_of_runs(runs: list[Solution], report: np.ndarray) -> dict[str, np.ndarray]:
    counted = ("steps", "rejected_steps", "evaluations", "iterations_mean", "iterations_max")
    failed = report[:, status.STATUS_ROW] > status.COMPLETE
    return {name: np.array([getattr(run, name) for run in runs]) for name in counted} | {
        "stop_step": np.where(failed, report[:, status.STOP_STEP], -1).astype(np.int64),
        "stop_residual": np.where(failed, report[:, status.STOP_RESIDUAL], math.nan),
        "stop_time": np.array([run.stop_time for run in runs]),
    }
