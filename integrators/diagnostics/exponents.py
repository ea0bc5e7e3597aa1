"""Lyapunov exponents and MEGNO of the map that a method steps by.

Tangent vectors go along with the very steps that are taken: elements of `tangents` have the values
of doubles to the last bit, and derivatives that are exact but for rounding. After every `EVERY`
steps, and at samples, the vectors are made orthonormal; what that takes off each of them adds up to
the logarithms of the spectrum. Benettin, Galgani, Giorgilli and Strelcyn, *Lyapunov characteristic
exponents for smooth dynamical systems …* (Meccanica 15, 1980).

The Mean Exponential Growth of Nearby Orbits of a map is that of Cincotta, Giordano and Simó,
*Phase space structure of multi-dimensional systems by means of the mean exponential growth factor
of nearby orbits* (Physica D 182, 2003): with δ_k the length of a tangent vector after k steps,

    Y(n) = 2/n Σ_k k ln(δ_k/δ_{k−1}),    megno(n) = 1/n Σ_k Y(k).

With steps of several sizes h_k that end at t_k, k is t_k in these sums, n the time, and Y(k) counts
h_k times. It tends to 2 where the motion is quasi-periodic, to 0 where nearby ones keep their
distance, and grows like λt/2 where it is chaotic.

Of an adaptive integrator the steps are those that its control took, which sees values alone: its
main method takes them once more, with tangents. So the map is that of these steps, whose sizes do
not change with the state. A sample has what there is at the end of the step that covers it.

Lengths are Euclidean, of the states as they are stored: of (δq, δω), for example. Exponents do not
depend on that, but their values after a finite time t do, by an amount that falls like 1/t.
"""

import functools
import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from integrators.compiler.elements import TANGENTS, aligned, as_elements
from integrators.compiler.kernels import IS_COMPILED, Kernel, inlined, types, whole_state
from integrators.compiler.lanes import array, flat
from integrators.compiler.tangents import COUNT
from integrators.compiler.vectors import get
from integrators.errors import InputError, check_array, check_number, check_whole
from integrators.forms.flows import Form, SystemOrForm
from integrators.forms.forms import checked_members, count_moving_rows, form_of
from integrators.forms.phase_spaces import state_space
from integrators.method import Integrator
from integrators.precision import DOUBLE
from integrators.solvers.moving import carry
from integrators.status import STATUS_ROW
from integrators.stepping.adaptive import AdaptiveProblem, StepBound, StepHistory, run_adaptive
from integrators.stepping.batch import clock_of, steps_per_interval, with_tangents
from integrators.stepping.checkpoint import Layout, Standing
from integrators.stepping.formulations import conversion_kernels
from integrators.stepping.loop import evaluate, method_signature
from integrators.stepping.problem import Problem

EVERY = 10  # steps after which vectors are made orthonormal
SEED = 1  # of the directions that they begin in
ROUNDING = 64 * np.finfo(float).eps  # of vectors that are led to the tangent space
GROWTH, LENGTH, WEIGHTED, MEGNO, ELAPSED = 0, *range(COUNT, COUNT + 4)  # where sums lie
SUMS = 2  # elements that hold them


@dataclass(frozen=True)
class LyapunovExponents:
    """The result of `lyapunov_exponents`.

    Attributes
    ----------
    times : ndarray, shape (S + 1,)
    exponents : ndarray, shape (S + 1, count)
        Mean growth rates from the start until each time, in units of 1/time, in decreasing order;
        NaN at the start, after a failure and where a solver found no derivative.
    megno : ndarray, shape (S + 1,)
        MEGNO of the first tangent vector.
    status : int
        0 complete, else an index into `status.STATUS`.
    """

    times: np.ndarray
    exponents: np.ndarray
    megno: np.ndarray
    status: int


def lyapunov_exponents(
    system: SystemOrForm,
    integrator: Integrator,
    state: ArrayLike,
    *,
    duration: float,
    samples: int,
    step_size: float | None = None,
    tolerance: float | None = None,
    count: int = 1,
    directions: ArrayLike | None = None,
    start_time: float = 0.0,
) -> LyapunovExponents:
    """Lyapunov exponents and MEGNO of a run, from its own tangent map.

    Parameters
    ----------
    system : System or form
    integrator : Integrator
        In double precision, with a fixed step, or an adaptive one that has the modifier
        ``+fixed``.
    state : array_like, shape (rows, 3)
    duration : float
    samples : int
        Intervals between samples; a fixed step must divide ``duration / samples``.
    step_size : float, optional
        For an integrator with a fixed step.
    tolerance : float, optional
        For an adaptive integrator.
    count : int, optional
        Number of exponents, the largest ones: up to 8, and up to the dimension of the state space.
    directions : array_like, shape (count, rows, 3), optional
        Initial tangent vectors, which are projected onto the tangent space and orthonormalised; by
        default vectors in general position, the same in every run.
    start_time : float, optional
        With a fixed step.

    Returns
    -------
    LyapunovExponents

    Raises
    ------
    InputError
        If the integrator has no main method with a fixed step, is in double-double or does not
        fit, it gets no step size or tolerance, or both, the state is off the
        manifold, the step does not divide the sample interval, there are more exponents than that,
        or the state space of the form is not known.
    """
    if not isinstance(integrator, Integrator):
        raise InputError(f"integrator is {integrator!r}; expected one that integrators.get gives")
    check_followed(integrator)
    integrator.check(system)
    members = checked_members(system, state)
    if len(members) > 1:
        raise InputError(f"state has {len(members)} members; expected one state", key="state")
    check_compiled()
    form, count = form_of(system), check_whole("count", count)
    if directions is None:
        directions = first_directions(form, members[0], count)
    else:
        directions = _checked_directions(form, directions, members[0], count)
    duration = check_number("duration", duration, above=0.0)
    samples = check_whole("samples", samples)
    start_time = check_number("start_time", start_time)
    times = start_time + duration * np.arange(samples + 1) / samples
    if integrator.adaptive:
        if step_size is not None or tolerance is None or start_time:
            raise InputError(
                f"{integrator.label!r} is adaptive: give a tolerance, no step_size, no start_time"
            )
        assert integrator.main is not None  # of all that can be followed
        followed = Followed(cast(Problem, integrator.main.bind(system)), form, count)
        adaptive = cast(AdaptiveProblem, integrator.bind(system))
        steps, ends, failed = steps_taken(adaptive, members[0], times, tolerance)
        series, _, status = followed.run_along(members[0], directions, steps, ends)
        status = failed or status
    else:
        if tolerance is not None or step_size is None:
            raise InputError(f"{integrator.label!r} has a fixed step: give step_size, no tolerance")
        step_size = check_number("step_size", step_size, above=0.0)
        per_sample = steps_per_interval(step_size, duration / samples)
        followed = Followed(cast(Problem, integrator.bind(system)), form, count)
        series, _, status = followed.run(
            members[0], directions, step_size, np.full(samples, per_sample), start_time=start_time
        )
    series = np.concatenate([np.full((1, count + 1), np.nan), series])
    return LyapunovExponents(times, series[:, :count], series[:, count], status)


def steps_taken(
    problem: AdaptiveProblem,
    state: np.ndarray,
    times: np.ndarray,
    tolerance: float,
    checkpoint: np.ndarray | None = None,
    bound: StepBound | None = None,
    most: int | None = None,
) -> tuple[np.ndarray, np.ndarray, int]:
    """The steps that an adaptive problem takes, and how many of them lead to each sample.

    Parameters
    ----------
    problem : AdaptiveProblem
    state : ndarray, shape (rows, 3)
    times : ndarray, shape (S + 1,)
        Sample times, from the current time of the run on.
    tolerance : float
    checkpoint : ndarray, shape (problem.checkpoint_size,), optional
        Checkpoint to resume from, as in `run_adaptive`.
    bound : StepBound, optional
        As of `run_adaptive`.
    most : int, optional
        Number of attempted steps after which to stop.

    Returns
    -------
    steps : ndarray, shape (n, 2)
        Time at which each step begins, and its size.
    ends : ndarray of int, shape (S,)
        Number of steps taken at each sample that is reached; after a failure, one more than there
        are.
    status : int
    """
    stood = None if checkpoint is None else checkpoint[np.newaxis]
    runs = run_adaptive(
        problem, state[np.newaxis], times, tolerance, history=True, checkpoints=stood, bound=bound,
        most=most,
    )  # fmt: skip
    tried = StepHistory.of(runs.histories[0])
    steps = np.stack([tried.times, tried.sizes], axis=1)[tried.accepted]
    reached = times[1 : runs.states.shape[1]]
    ends = np.searchsorted(steps[:, 0], reached, side="left")
    failed = ~np.isfinite(runs.states[0, 1:]).all(axis=(1, 2))
    ends = np.where(failed, len(steps) + 1, ends)
    return steps, ends, int(runs.report[0, STATUS_ROW])


def check_followed(integrator: Integrator) -> None:
    """Raise InputError unless tangent vectors can go along with an integrator's steps."""
    if obstacle := obstacle_to_following(integrator):
        raise InputError(obstacle)


def obstacle_to_following(integrator: Integrator) -> str:
    """Why tangent vectors cannot go along with an integrator's steps; empty where they can."""
    if integrator.counted is not None:
        return (
            f"{integrator.label!r} takes steps that its duration decides: no tangent vectors go "
            "along with them; expected a step size in the place of steps_of"
        )
    if integrator.adaptive and integrator.main is None:
        return (
            f"{integrator.label!r} has no main method with a fixed step that tangent vectors could "
            "go along with; expected an integrator with a fixed step, or an adaptive one such as "
            "'rk45'"
        )
    if not integrator.method.tangents:
        return (
            f"{integrator.label!r} takes its steps in Python: no tangent vectors go along with "
            "them; expected a compiled integrator, see `sweep guide integrator`"
        )
    if integrator.arithmetic != DOUBLE:
        return (
            f"{integrator.label!r}: tangent vectors go along with steps in double precision; leave "
            "'arithmetic' out"
        )
    return ""


def check_compiled() -> None:
    """Raise InputError where kernels are plain Python."""
    if not IS_COMPILED:
        raise InputError(
            "derivatives need compiled kernels, and NUMBA_DISABLE_JIT turns compilation off: "
            "unset it"
        )


def check_count(form: Form, state: np.ndarray, count: int) -> None:
    """Raise `InputError` if `count` exceeds the exponents, or the state space is unknown."""
    dimension = len(_tangent_basis(form, state))
    most = min(COUNT, dimension)
    if not 1 <= count <= most:
        why = (
            f"the states of this system have {dimension} dimensions"
            if dimension < COUNT
            else f"{COUNT} tangent vectors go along with a run"
        )
        raise InputError(f"{count} exponents; expected 1 to {most}: {why}", key="count")


def first_directions(form: Form, state: np.ndarray, count: int) -> np.ndarray:
    """The tangent vectors that runs from a state begin with, shape (count, rows, 3).

    Raises
    ------
    InputError
        As `check_count`.
    """
    check_count(form, state, count)
    basis = _orthonormal_vectors(_tangent_basis(form, state))
    mixed = np.random.default_rng(SEED).standard_normal((count, len(basis)))
    return _orthonormal_vectors(np.tensordot(mixed, basis, 1))


def _tangent_basis(form: Form, state: np.ndarray) -> np.ndarray:
    """A basis of the tangent space, shape (dimension, rows, 3)."""
    space = state_space(form)
    return space.tangents(state, space.scales(state, state, 1.0))


def _orthonormal_vectors(vectors: np.ndarray) -> np.ndarray:
    made, _ = np.linalg.qr(vectors.reshape(len(vectors), -1).T)
    return np.ascontiguousarray(made.T).reshape(vectors.shape)


def _checked_directions(
    form: Form, directions: ArrayLike, state: np.ndarray, count: int
) -> np.ndarray:
    found = check_array("directions", directions, f"{(count, *state.shape)}")
    if found.shape != (count, *state.shape) or not np.all(np.isfinite(found)):
        raise InputError(
            f"directions of shape {found.shape}; expected {(count, *state.shape)}, finite",
            key="directions",
        )
    rounding = ROUNDING * np.linalg.norm(found)
    found = tangent_parts(form, state, found[:COUNT])
    if count > COUNT or np.linalg.matrix_rank(found.reshape(count, -1), rounding) < count:
        raise InputError(
            f"directions; expected up to {COUNT} with tangents of the manifold that are no "
            "combinations of each other",
            key="directions",
        )
    return _orthonormal_vectors(found)


def tangent_parts(form: Form, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Vectors at a state without what is normal to the manifold and the work of a force.

    Parameters
    ----------
    form : HomogeneousFlow or another
    state : ndarray, shape (rows, 3)
    vectors : ndarray, shape (k, rows, 3)
        Up to 8.
    """
    space = state_space(form)
    given, found = aligned((2, 1, *state.shape, *TANGENTS.shape))
    given[0, ..., 0], given[0, ..., 1 : 1 + len(vectors)] = state, np.moveaxis(vectors, 0, 2)
    evaluate(space.retraction, np.zeros(1), given, space.parameters, found, TANGENTS)
    found[0, count_moving_rows(form) :] = 0.0
    return np.moveaxis(found[0, ..., 1 : 1 + len(vectors)], 2, 0)


@dataclass(frozen=True)
class Followed:
    """A problem whose steps are followed by tangent vectors.

    Parameters
    ----------
    problem : Problem
        A problem in double precision; for an adaptive integrator that of its main method.
    form : SpheresLagrangian or another
    count : int
        Number of tangent vectors.
    """

    problem: Problem
    form: Form
    count: int

    @functools.cached_property
    def layout(self) -> Layout:
        """The `Layout` of a checkpoint: that of the problem, and the sums."""
        return Layout((*self.problem.layout.shapes, ("sums", (SUMS,))))

    @property
    def checkpoint_size(self) -> int:
        """Numbers in a checkpoint."""
        return self.layout.size * (1 + COUNT)

    def run(
        self,
        state: np.ndarray,
        directions: np.ndarray,
        step_size: float,
        counts: np.ndarray,
        checkpoint: np.ndarray | None = None,
        start_time: float = 0.0,
        most: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Take steps with tangent vectors.

        Parameters
        ----------
        state : ndarray, shape (rows, 3)
            Initial state (q, ω).
        directions : ndarray, shape (count, rows, 3)
            Orthonormal tangent vectors there.
        step_size : float
        counts : ndarray of int, shape (S,)
            Steps in each sample interval.
        checkpoint : ndarray, shape (checkpoint_size,), optional
            Checkpoint to resume from; `state` and `directions` are then ignored. The first
            interval is the one that it is in.
        start_time : float
        most : int, optional
            Number of steps after which to stop, at the last sample at the latest.

        Returns
        -------
        series : ndarray, shape (reached, count + 1)
            The exponents and MEGNO at the end of each interval, as far as it was reached.
        checkpoint : ndarray, shape (checkpoint_size,)
        status : int
        """
        clock = clock_of(TANGENTS, start_time, step_size)
        ends = np.cumsum(np.asarray(counts, dtype=np.int64))
        return self._run(state, directions, clock, np.zeros((0, 2)), ends, checkpoint, most)

    def run_along(
        self,
        state: np.ndarray,
        directions: np.ndarray,
        steps: np.ndarray,
        ends: np.ndarray,
        checkpoint: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Exponents and MEGNO as `run` returns them, along steps of any sizes.

        Parameters
        ----------
        state, directions, checkpoint
            Initial values, as in `run`.
        steps : ndarray, shape (n, 2)
            Time at which each step begins, and its size; the first begins at 0 or at the time of
            the checkpoint.
        ends : ndarray of int, shape (S,)
            Number of steps taken at each sample; after a failure, more than there are, and the
            series is NaN. Steps beyond the last one are on the way to another sample.
        """
        taken = np.minimum(ends, len(steps)).astype(np.int64)
        clock = clock_of(TANGENTS, 0.0, 0.0)
        taken = np.append(taken, len(steps) + 1)  # at the next sample: not there yet
        series, end, status = self._run(
            state, directions, clock, steps, taken, checkpoint, len(steps)
        )
        series[ends > len(steps)] = np.nan
        return series, end, status

    def _run(
        self,
        state: np.ndarray,
        directions: np.ndarray,
        clock: np.ndarray,
        steps: np.ndarray,
        ends: np.ndarray,
        checkpoint: np.ndarray | None,
        most: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """`run`, whose `ends` count from the last sample, and `run_along`: from where it stands."""
        problem = self.problem
        if checkpoint is None:
            moving = np.zeros((COUNT, problem.rows, 3))
            moving[: self.count] = directions
            start = with_tangents(problem, state, moving)[None]
            standing = Standing.at_start(self.layout, TANGENTS, start)
        else:
            standing = Standing.at(self.layout, TANGENTS, checkpoint[None])
        own = {name: part[0] for name, part in standing.parts.items()}
        space, (stepped, stored) = state_space(self.form), conversion_kernels(problem)
        work = max(1, problem.work, *(of.work(problem.rows) for of in (stepped, stored)))
        since = 0 if clock[1] else standing.within
        ends, last, reached, within = standing.stop(ends + since, most)
        series = aligned((len(ends), self.count + 1))
        scratch = aligned((2, problem.rows, 3, *TANGENTS.shape))
        _exponents_kernel().compiled(TANGENTS)(
            *problem.step_kernels(TANGENTS),
            *(of.compiled(TANGENTS) for of in (stored, space.retraction, stepped)),
            clock, np.ascontiguousarray(steps), standing.first, last, ends, self.count,
            count_moving_rows(self.form), problem.constants, problem.options, own["y"],
            own["memory"], problem.parameters, space.parameters,
            aligned((work, *TANGENTS.shape)), own["report"], scratch, own["sums"].reshape(-1),
            series,
        )  # fmt: skip
        status = int(own["report"][STATUS_ROW, 0])
        return series[:reached], standing.checkpoints(last, within)[0], status


@inlined
def _take_off(vectors, j, i, share):
    """Take a share of vector i off vector j."""
    for r in range(vectors.shape[0]):
        for c in range(vectors.shape[1]):
            vectors[r, c, 1 + j] -= share * vectors[r, c, 1 + i]


@inlined
def _scale(vectors, j, factor):
    for r in range(vectors.shape[0]):
        for c in range(vectors.shape[1]):
            vectors[r, c, 1 + j] *= factor


@inlined
def _product(vectors, rows, i, j):
    """The scalar product of two vectors."""
    total = 0.0
    for r in range(rows):
        for c in range(3):
            total += vectors[r, c, 1 + i] * vectors[r, c, 1 + j]
    return total


@inlined
def _orthonormalise(vectors, rows, memory, count, sums):
    """Make the vectors orthonormal in so many rows, by combinations that memory shares.

    What a method carries from step to step moves with the state.
    """
    for j in range(count):
        for i in range(j):
            share = _product(vectors, rows, i, j)
            _take_off(vectors, j, i, share)
            _take_off(memory, j, i, share)
        length = math.sqrt(_product(vectors, rows, j, j))
        sums[GROWTH + j] += math.log(length)
        _scale(vectors, j, 1.0 / length)
        _scale(memory, j, 1.0 / length)


@functools.cache
def _exponents_kernel() -> Kernel:
    """The kernel of `Followed.run`; arrays are float64 with the axis of the element."""
    elements = as_elements(TANGENTS)
    whole = types.FunctionType(whole_state(TANGENTS.type))
    method = types.FunctionType(method_signature(TANGENTS.type))

    def along(
        advance, function, move, pull, stored, retraction, stepped, clock, steps, first, last, ends,
        count, rows, constants, options, y, memory, p, of_space, work, report, scratch, sums,
        series,
    ):  # fmt: skip
        t0, h = clock[0], clock[1]
        equal = h != 0.0
        carried = memory.reshape(memory.shape[0], 1, memory.shape[1])
        seen, straight = scratch[0], scratch[1]
        if first == 0:
            sums[LENGTH] = 1.0  # squared, of the first vector
        k = first
        for s in range(ends.shape[0]):
            while k < min(ends[s], last):
                begun, number = t0, k
                if not equal:
                    begun, h, number = steps[k - first, 0], steps[k - first, 1], 0
                advance(
                    function, move, pull, begun, h, number, 1, constants, options, elements(y),
                    elements(memory), p, elements(work), elements(report),
                )  # fmt: skip
                k += 1
                t, passed, share = t0 + k * h, float(k), 1.0
                if not equal:
                    t = begun + h
                    passed, share = t, h
                sums[ELAPSED] = passed
                stored(t, elements(y), p, elements(seen), elements(work))
                length = _product(seen, rows, 0, 0)
                sums[WEIGHTED] += passed * (0.5 * math.log(length / sums[LENGTH]))
                sums[MEGNO] += share * (2.0 * sums[WEIGHTED] / passed)
                sums[LENGTH] = length
                if k % EVERY == 0 or k == ends[s]:
                    retraction(t, elements(seen), of_space, elements(straight), elements(work))
                    _orthonormalise(straight, rows, carried, count, sums)
                    stepped(t, elements(straight), p, elements(seen), elements(work))
                    for i in range(y.shape[0]):
                        carry(elements(y), i, get(elements(seen), i))
                    sums[LENGTH] = 1.0
            if k < ends[s]:
                break
            for j in range(count):
                series[s, j] = sums[GROWTH + j] / (k * h if equal else sums[ELAPSED])
            series[s, count] = sums[MEGNO] / sums[ELAPSED]

    floats, count = flat(types.float64), types.int64
    stack, of_elements = array(types.float64, 3), array(types.float64, 2)
    signature = types.void(
        method, *[whole] * 6, floats, of_elements, count, count, flat(count), count, count, floats,
        floats, stack, of_elements, floats, floats, of_elements, of_elements,
        array(types.float64, 4), floats, of_elements,
    )  # fmt: skip
    return Kernel(along, lambda _: signature, (TANGENTS.name,))
