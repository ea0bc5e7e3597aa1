"""Structure that a method preserves, measured: the symplectic form, and reversibility.

A map of a phase space with the symplectic form Ω is symplectic where its Jacobian J satisfies
JᵀΩ'J = Ω, with Ω' the form at the image. Steps of a fixed size are computed with tangents, which
are J but for rounding. What rounding makes of the defect is measured: it is computed in bases that
are turned against each other, in which it would be the same. Of an adaptive integrator
`symplectic_defect` takes J by central differences along the manifold, extrapolated by Richardson's
method; how far such a quotient can be trusted it estimates from the neighbouring extrapolations, as
Ridders does (*Accurate computation of F'(x)*, 1982). `reversal_error` runs a method forward and
back.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike

from integrators.compiler.kernels import IS_COMPILED
from integrators.errors import InputError, check_number, check_whole
from integrators.forms.flows import Form, SystemOrForm
from integrators.forms.forms import (
    checked_low,
    checked_members,
    count_moving_rows,
    form_of,
    high_and_low,
)
from integrators.forms.phase_spaces import PhaseSpace, phase_space
from integrators.method import Integrator
from integrators.precision import DOUBLE
from integrators.stepping.adaptive import (
    AdaptiveProblem,
    Solutions,
    StepBound,
    prepare,
    run_adaptive,
)
from integrators.stepping.batch import run_ends, run_tangents
from integrators.stepping.formulations import to_stepped_states, to_stored_states
from integrators.stepping.problem import Problem

FIRST_ANGLE = 2.0**-4  # radians along the great circles; halved from level to level
LAST_ANGLE = 2.0**-15
WORSE = 2.0  # a level whose estimates are so much worse than the best ones is the last
EPSILON = np.finfo(float).eps
ROUNDING = 4 * EPSILON  # of what a step gives: where solvers stop
START = 100  # steps that take as long as the start of a run, about
TURNED, SEED = 3, 1  # bases by which the rounding of derivatives is measured


@dataclass(frozen=True)
class SymplecticDefect:
    """Measure of how much a map fails to preserve the symplectic form.

    Attributes
    ----------
    defect : float
        max |JᵀΩ'J − Ω| / max |Ω|, of a basis of the tangent space; NaN where the map has no
        finite image.
    resolution : float
        The error that rounding, and difference quotients, make in it, as it is measured: of 216
        pairings of symplectic methods and systems 9 have a defect above it, none above 3 times it.
    """

    defect: float
    resolution: float


NONE = SymplecticDefect(np.nan, np.nan)


def symplectic_defect(
    system: SystemOrForm,
    integrator: Integrator,
    state: ArrayLike,
    *,
    step_size: float | None = None,
    steps: int = 1,
    tolerance: float | None = None,
    duration: float | None = None,
    start_time: float = 0.0,
) -> SymplecticDefect:
    """Measure the defect of symplecticity of an integrator's map at a state.

    Parameters
    ----------
    system : System or form
        Without a non-conservative force.
    integrator : Integrator
        For one in double-double, the map of the method is measured in double precision.
    state : array_like, shape (rows, 3)
    step_size : float, optional
        For a fixed-step integrator: the map consists of `steps` steps of this size.
    steps : int
    tolerance, duration : float, optional
        For an adaptive integrator: the map is that of a run of this duration.
    start_time : float
        With a fixed step.

    Returns
    -------
    SymplecticDefect

    Raises
    ------
    InputError
        If no symplectic form is known, the integrator does not fit, or the state is off the
        manifold.

    Notes
    -----
    Of a `LiePoissonHamiltonian` the form is that of coadjoint orbits. The basis has a vector for
    each turn of a body by a radian; in the phase space of a Lagrangian system also one for each
    change of ω by a frequency of the motion. With a fixed step eight of them take a run with
    tangents, in four bases; of an adaptive integrator a run for each is computed on either side,
    ten times or so. Time grows as the dimension times a step's, memory as the dimension times the
    rows.
    """
    integrator.check(system)
    space = phase_space(form_of(system))
    members = checked_members(system, state)
    if len(members) > 1:
        raise InputError(f"state has {len(members)} members; expected one state", key="state")
    problem = integrator.bind(system, DOUBLE)
    if integrator.adaptive:
        if step_size is not None or tolerance is None or duration is None:
            raise InputError("an adaptive integrator takes a tolerance, a duration, no step_size")
        span = check_number("duration", duration, above=0.0)
        adaptive = cast(AdaptiveProblem, problem)
        ends = AdaptiveMap(adaptive, members[0], span, tolerance)
        return defect_of_map(space, ends, members[0], span)
    if tolerance is not None or duration is not None or step_size is None:
        raise InputError(f"{integrator.name!r} has a fixed step: give step_size and steps")
    step_size = check_number("step_size", step_size, above=0.0)
    steps = check_whole("steps", steps)
    start_time = check_number("start_time", start_time)
    fixed = cast(Problem, problem)
    return defect_of_steps(space, fixed, members[0], step_size, steps, start_time)


class Unfinished(Exception):
    """A measurement needs more steps than it may take now."""


class AdaptiveMap:
    """The map of an adaptive run, from states near one to states, computed run by run.

    Parameters
    ----------
    problem : AdaptiveProblem
        In double precision.
    state : ndarray, shape (rows, 3)
    duration, tolerance : float
    stood : ndarray, optional
        `standing` of a map that raised `Unfinished`, with which the same questions go on.
    most : int, optional
        Number of attempted steps after which to raise it.

    Attributes
    ----------
    tried : int
        Number of steps that were attempted, and `START` for each run.
    part : float
        What is done, which grows and is below 1.
    """

    def __init__(
        self,
        problem: AdaptiveProblem,
        state: np.ndarray,
        duration: float,
        tolerance: float,
        stood: np.ndarray | None = None,
        most: int | None = None,
    ) -> None:
        self._problem, self._state, self._tolerance = problem, state, tolerance
        self._times, self._most, self._asked = [0.0, duration], most, 0
        self.tried, self.part = 0, 0.0
        size = problem.checkpoint_size
        if stood is None or not stood.size:
            stood = np.full(2 * size, np.nan)
        begun, under_way, images = np.split(stood, [size, 2 * size])
        # What is prepared for all states, the run under way, and the images of those before.
        self._begun, self._under_way = (
            None if np.all(np.isnan(own)) else own[np.newaxis] for own in (begun, under_way)
        )
        self._images = list(images.reshape(-1, *state.shape))

    @property
    def standing(self) -> np.ndarray:
        """What another map needs to go on."""
        none = np.full(self._problem.checkpoint_size, np.nan)
        stands = [none if own is None else own for own in (self._begun, self._under_way)]
        return np.concatenate([own.ravel() for own in (*stands, *self._images)])

    def __call__(self, members: np.ndarray) -> np.ndarray:
        """The images of states, shape (members, rows, 3)."""
        for member in members:
            if self._asked == len(self._images):
                self._images.append(self._image(member))
            self._asked += 1
        return np.stack(self._images[self._asked - len(members) : self._asked])

    def _image(self, member: np.ndarray) -> np.ndarray:
        problem, left = self._problem, None
        if self._most is not None:
            left = self._most - self.tried
            if left <= 0:
                self._stop(0.0)
        self._begun, tried = prepare(
            problem, self._state[np.newaxis], StepBound(self._times[1]), self._tolerance,
            self._begun, left,
        )  # fmt: skip
        self.tried += tried
        if tried and left is not None:
            self._stop(self._run(self._state, self._begun, 0).part)
        if self._under_way is None and self._begun is not None:
            self._under_way = self._begun.copy()
            where, _ = problem.layout.places["y"]
            self._under_way[:, where] = to_stepped_states(problem, member[np.newaxis]).ravel()
        run = self._run(member, self._under_way, left)
        self.tried += START + run.tried
        if run.states.shape[1] == 1:
            self._under_way = run.checkpoints
            self._stop(run.part)
        self._under_way = None
        return to_stored_states(problem, run.states[:, -1])[0]

    def _run(self, member: np.ndarray, stood: np.ndarray | None, most: int | None) -> Solutions:
        return run_adaptive(
            self._problem, member[np.newaxis], self._times, self._tolerance, checkpoints=stood,
            most=most,
        )  # fmt: skip

    def _stop(self, part: float) -> NoReturn:
        done = len(self._images) + part
        self.part = done / (1.0 + done)
        raise Unfinished


# --- the symplectic form -------------------------------------------------------------------------


def defect_of_steps(
    space: PhaseSpace,
    problem: Problem,
    state: np.ndarray,
    step_size: float,
    steps: int,
    start_time: float = 0.0,
) -> SymplecticDefect:
    """The `SymplecticDefect` of some steps of a fixed size.

    Parameters
    ----------
    space : SpinSpace, NambuSpace, CotangentSpace, GroupSpace or OrbitSpace
    problem : Problem
    state : ndarray, shape (rows, 3)
    step_size : float
    steps : int
    start_time : float
    """

    def ends(members: np.ndarray) -> np.ndarray:
        return run_ends(problem, members, step_size, steps, start_time, lanes=len(members) > 1)

    if not IS_COMPILED or problem.python is not None:  # plain Python has no tangents
        return defect_of_map(space, ends, state, step_size * steps)
    image = ends(state[None])[0]
    if not np.all(np.isfinite(image)):
        return NONE
    tangents = space.tangents(state, space.scales(state, image, step_size * steps))

    def change(vectors: np.ndarray) -> np.ndarray:
        _, found = run_tangents(problem, state, vectors, step_size, steps, start_time)
        return _change_of_form(space, state, vectors, image, found)

    found, size = change(tangents), np.max(np.abs(space.products(state, tangents)))
    rounding = 0.0
    for turn in _fixed_orthogonal_matrices(len(tangents)):
        again = turn.T @ change(np.tensordot(turn, tangents, axes=1)) @ turn
        rounding = max(rounding, np.max(np.abs(again - found)))
    return SymplecticDefect(float(np.max(np.abs(found)) / size), float(rounding / size + EPSILON))


@functools.lru_cache(maxsize=4)
def _fixed_orthogonal_matrices(dimension: int) -> np.ndarray:
    """Orthogonal matrices, always the same."""
    draws = np.random.default_rng(SEED).standard_normal((TURNED, dimension, dimension))
    return np.linalg.qr(draws).Q


def _change_of_form(
    space: PhaseSpace, state: np.ndarray, tangents: np.ndarray, image: np.ndarray, found: np.ndarray
) -> np.ndarray:
    """JᵀΩ'J − Ω, of tangents and their images."""
    after = space.products(image, space.projected(image, found))
    return after - space.products(state, tangents)


def defect_of_map(
    space: PhaseSpace, ends: Callable[[np.ndarray], np.ndarray], state: np.ndarray, duration: float
) -> SymplecticDefect:
    """The `SymplecticDefect` of a map at a state.

    Parameters
    ----------
    space : SpinSpace, NambuSpace, CotangentSpace, GroupSpace or OrbitSpace
    ends : callable
        The map: from states, shape (members, rows, 3), to their images; NaN where it fails.
    state : ndarray, shape (rows, 3)
    duration : float
        Duration of the motion that the map approximates.
    """
    image = ends(state[None])[0]
    if not np.all(np.isfinite(image)):
        return NONE
    scales = space.scales(state, image, duration)
    tangents = space.tangents(state, scales)
    found = _derivatives(space, ends, state, tangents, scales)
    best, other = (
        _change_of_form(space, state, tangents, image, vectors)
        for vectors in (found.best, found.other)
    )
    size = np.max(np.abs(space.products(state, tangents)))
    error = np.max(np.abs(best - other)) / size + found.noise
    return SymplecticDefect(float(np.max(np.abs(best)) / size), float(error))


def _derivatives(
    space: PhaseSpace,
    ends: Callable[[np.ndarray], np.ndarray],
    state: np.ndarray,
    tangents: np.ndarray,
    scales: np.ndarray,
) -> "_Extrapolation":
    """The `_Extrapolation` of the map's derivatives along the tangents."""
    found = _Extrapolation(scales)
    angle, promising = FIRST_ANGLE, True
    while promising and angle >= LAST_ANGLE:
        sides = [space.moved(state, tangents, side * angle) for side in (1.0, -1.0)]
        ahead, behind = np.split(ends(np.concatenate(sides)), 2)
        promising = found.take((ahead - behind) / (2.0 * angle), angle)
        angle = 0.5 * angle
    return found


class _Extrapolation:
    """Derivatives by central differences of angles that halve, each extrapolated as far as it pays.

    Attributes
    ----------
    best, other : ndarray, shape (k, rows, 3)
        The estimate of each derivative with the least error, and the neighbour in the tableau
        that differs most from it; NaN where there is none.
    """

    def __init__(self, scales: np.ndarray) -> None:
        self._scales = scales
        self._above: list[np.ndarray] = []
        none: Any = None  # until the first quotients are taken in
        self._smallest: np.ndarray = none
        self._angle: np.ndarray = none
        self.best: np.ndarray = none
        self.other: np.ndarray = none

    @property
    def noise(self) -> float:
        """Rounding error of the derivatives, from that of the states, relative to the scales."""
        return ROUNDING / np.min(self._angle)

    def take(self, quotients: np.ndarray, angle: float) -> bool:
        """Add the quotients of an angle; return whether those of half of it may be better."""
        if self.best is None:
            self._smallest, self._angle = np.full((2, len(quotients)), np.inf)
            self.best, self.other = np.full((2, *quotients.shape), np.nan)
        row, least = [quotients], self._smallest.copy()
        now = np.full(len(quotients), np.inf)
        for j, above in enumerate(self._above, start=1):
            left = row[-1]
            row.append(left + (left - above) / (4.0**j - 1.0))
            now = np.fmin(now, self._choose(row[-1], left, above, angle))
        self._above = row
        return not np.all((now > WORSE * least) & np.isfinite(least))

    def _choose(
        self, estimate: np.ndarray, left: np.ndarray, above: np.ndarray, angle: float
    ) -> np.ndarray:
        """Keep the estimate where it is the best so far; its errors, infinite where it is NaN."""
        aside, up = (self._sizes(estimate - beside) for beside in (left, above))
        errors = np.maximum(aside, up) + ROUNDING / angle
        errors[np.isnan(errors)] = np.inf
        better = errors < self._smallest
        farther = np.where((aside >= up)[:, None, None], left, above)
        self.best[better], self.other[better] = estimate[better], farther[better]
        self._smallest[better], self._angle[better] = errors[better], angle
        return errors

    def _sizes(self, vectors: np.ndarray) -> np.ndarray:
        """Largest component of each vector, relative to the scales, shape (k,)."""
        return np.max(np.abs(vectors) / self._scales, axis=(1, 2))


# --- back to the start ---------------------------------------------------------------------------


def reversal_error(
    system: SystemOrForm,
    integrator: Integrator,
    state: ArrayLike,
    *,
    step_size: float,
    steps: int,
    start_time: float = 0.0,
) -> float | np.ndarray:
    """Distance from its start at which a run ends that goes forward and as many steps back.

    Parameters
    ----------
    system : System or form
    integrator : Integrator
        Integrator with a fixed step.
    state : array_like, shape (rows, 3) or (members, rows, 3)
        Initial states; in double-double with a last axis of high and low, or exact doubles.
    step_size : float
    steps : int
    start_time : float

    Returns
    -------
    float, or ndarray of shape (members,)
        Euclidean distance of the stacked states, without the work of a force, in the integrator's
        arithmetic; NaN where the run fails. A symmetric method leads back to round-off, which
        a chaotic motion enlarges.

    Raises
    ------
    InputError
        If the integrator is adaptive or does not fit, or the state is off the manifold.
    """
    integrator.check(system)
    if integrator.adaptive:
        raise InputError(
            f"{integrator.name!r} is adaptive: it has no steps to go back by. Time reversal is "
            "measured of integrators with a fixed step"
        )
    high, low = high_and_low(state, None, integrator.arithmetic)
    members, problem = checked_members(system, high), cast(Problem, integrator.bind(system))
    if problem.elements[0].parts:
        members = np.stack([members, checked_low(system, low, members)], axis=-1)
    step_size = check_number("step_size", step_size, above=0.0)
    steps = check_whole("steps", steps)
    start_time = check_number("start_time", start_time)
    ends = run_ends(problem, members, step_size, steps, start_time, lanes=len(members) > 1)
    later = start_time + steps * step_size
    back = run_ends(problem, ends, -step_size, steps, later, lanes=len(members) > 1)
    errors = errors_of_return(form_of(system), problem, members, back)
    return float(errors[0]) if np.ndim(high) == 2 else errors


def errors_of_return(
    form: Form, problem: Problem, members: np.ndarray, back: np.ndarray
) -> np.ndarray:
    """`reversal_error` of runs from `members` that were led back to states `back`.

    Parameters
    ----------
    form : SpheresLagrangian or another
    problem : Problem
    members, back : ndarray, shape (members, rows, 3)
        With a last axis of high and low for a problem in double-double.

    Returns
    -------
    ndarray, shape (members,)
    """
    with np.errstate(all="ignore"):  # a run that blew up has inf and NaN
        apart = back - members
        if problem.elements[0].parts:  # of high and of low, which are far apart in size
            apart = np.sum(apart, axis=-1)
        return np.sqrt(np.sum(apart[:, : count_moving_rows(form)] ** 2, axis=(1, 2)))
