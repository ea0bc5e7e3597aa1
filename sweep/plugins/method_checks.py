"""Checks of an integrator: array bounds, and the properties that it declares.

Properties are measured on at least two systems that the integrator fits, and on the system that it
is to be used on. The former are packaged systems, and two driven bodies on a sphere, whose
potential depends on time. The order is measured by errors against a reference solution of the same
field, symmetry by steps back, symplecticity by derivatives of a step, and preserved quantities by a
short run.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import integrators
import systems
from integrators import status
from integrators.compiler.elements import DOUBLE
from integrators.compiler.kernels import Kernel
from integrators.diagnostics.evaluations import count_evaluations
from integrators.diagnostics.structure import defect_of_map, errors_of_return
from integrators.errors import InputError, check_known
from integrators.forms.forms import SpheresLagrangian, count_moving_rows
from integrators.forms.phase_spaces import phase_space
from integrators.method import ALL_DEGREES, EXACT, Integrator
from integrators.simple import action_step, field_step
from integrators.stepping.adaptive import AdaptiveProblem, run_adaptive
from integrators.stepping.batch import run_batch, run_ends
from integrators.stepping.formulations import to_lagrangian_states, to_stepped_states
from integrators.stepping.loop import UNTOUCHED
from integrators.stepping.problem import Problem
from integrators.stepping.python_step import calling_python
from sweep.plugins.guarded import (
    GuardedArrays,
    call_twice,
    line_of_error,
    plain_rows,
    refuse_difference,
)
from sweep.plugins.system_checks import characteristic_time
from systems import Quantity, System
from systems.mechanical.driven_bodies import driven_bodies
from systems.plugin import quantities_of_spheres

Array = NDArray[np.float64]

STEPS = (4, 8, 16, 32, 64, 128, 256, 512)  # numbers of steps over the span of a `Trial`
TOLERANCE = 1e-13  # tolerance of reference solutions
RESOLVED = 1e-11  # smallest relative error that is used to measure an order
TOLERANCES = (1e-6, 1e-9)  # tolerances for checking an adaptive integrator
MET = 1e4  # largest error of an adaptive integrator, in units of its tolerance
ADAPTED = 1.5  # the measured order of an adaptive integrator may be lower by this
ORDER_LESS = 0.5  # the measured order may be lower by this, since it may not yet be asymptotic
SECONDS, LEAST = 0.7, 4  # no more step sizes after this CPU time, if there are LEAST errors
SMALL = 64  # largest number of rows for running a step as plain Python on the study's own system
BACK, ROUND_OFF = 8, 1e-11  # steps forward and back; relative tolerance of these and of invariants
FOLLOWED = 64  # number of steps over which invariants are observed
SYMPLECTIC = "symplectic_form"
DEFECT = 1e-9  # symplectic defect that difference quotients resolve


# --- systems to measure on -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trial:
    """A system and an initial state, with which integrators are measured.

    Attributes
    ----------
    name : str
    form : SpheresLagrangian or another
    quantities : tuple of systems.Quantity
    state : ndarray, shape (rows, 3)
    span : float
        A time in which the change of the state is about as large as the state.
    """

    name: str
    form: Any
    quantities: tuple[Quantity, ...]
    state: Array
    span: float = 1.0

    @cached_property
    def reference_end(self) -> Array | None:
        """The state after the span, without the work of a force; None if DOP853 fails."""
        run = integrators.integrate(
            self.form, integrators.get("dop853"), self.state, duration=self.span, samples=1,
            tolerance=TOLERANCE,
        )  # fmt: skip
        end: Array = run.states[-1][: count_moving_rows(self.form)]
        return None if run.status or not np.isfinite(end).all() else end

    def values(self, quantity: Quantity, states: Array) -> Array:
        """The components of a quantity at states, shape (S, components)."""
        found = [
            plain_rows(quantity.function, 0.0, state, self.form.packed, 1)[0]
            for state in np.ascontiguousarray(states)
        ]
        return np.array(found)[:, list(quantity.columns)]


HEAVY_TOP = {"inertia": (1.0, 1.6, 2.2), "gravity": 3.0, "mass": 0.8, "length": 1.0}
PACKAGED: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("forced_rigid_body", {"epsilon": 0.5}),
    ("spherical_pendulum_chain", {}),  # its inertia matrix is not diagonal
    ("nbody_sphere", {"count": 3, "mass": (1.0, 2.5, 1.7), "coupling": 0.2}),
    ("spherical_pendulum_chain", {"count": 1}),
    ("heisenberg_chain", {"count": 4}),
    ("free_rigid_body", {"inertia": (1.0, 4 / 3, 2.0)}),
    ("precession", {"axis": (0.0, 0.0, 1.5)}),
    ("nambu_quadratic", {}),
    ("forced_pendulum_chain", {}),
    *(("heavy_top", HEAVY_TOP | {"formulation": name})
      for name in ("lie_poisson", "cotangent", "quadratic")),
    ("quadrotor_payload", {}),
)  # fmt: skip


@cache
def trials() -> tuple[Trial, ...]:
    """The driven bodies, the only time-dependent Lagrangian system, and packaged systems."""
    form = driven_bodies()
    units = {"energy": "1", "momentum": "1", "time": "1"}
    state = np.array([[0.6, 0.0, 0.8], [0.0, 0.8, -0.6], [0.1, 1.2, -0.075], [0.9, 0.3, 0.4]])
    driven = Trial("two driven bodies", form, quantities_of_spheres(form, units, "z"), state)
    packaged = (systems.get(name, **dict(parameters)) for name, parameters in PACKAGED)
    return driven, *(trial_of(made, made.ensemble(1, 5)[0]) for made in packaged)


def trial_of(system: System, state: Array) -> Trial:
    """A `Trial` of a system, with its characteristic time as the span."""
    lasting = characteristic_time(system.form.vector_field(), 0.0, state)
    return Trial(repr(system.name), system.form, system.quantities, state, lasting)


def chosen_trials(integrator: Integrator, own: Trial | None) -> Iterator[tuple[Trial, bool]]:
    """Choose trials that an integrator fits.

    These are two packaged systems, further ones that can measure a declared property which was not
    measured before, and Lagrangian systems with one, two and more bodies. `own`, the system that
    the integrator is to be used on, always comes last.

    Parameters
    ----------
    integrator : integrators.Integrator
    own : Trial or None

    Yields
    ------
    trial : Trial
    wholly : bool
        Whether all declared properties are to be measured on it. They are measured on `own` only if
        it is one of the systems above.
    """
    count, bodies = 0, set[int]()
    left, lagrangian = set(integrator.preserves), SpheresLagrangian in integrator.method.forms
    for trial in (*trials(), *([own] if own else [])):
        measured = {_declared_word(quantity) for quantity in _kept(integrator, trial)}
        measured |= {SYMPLECTIC} if _symplectic_space_of(trial) is not None else set()
        size = min(trial.form.rows // 2, 3) if isinstance(trial.form, SpheresLagrangian) else 0
        another = lagrangian and 0 < size not in bodies and trial is not own
        wanted = count < 2 or left & measured or another
        if integrator.method.fits(trial.form) and wanted:
            left, count = left - measured, count + 1
            bodies.add(size)
            yield trial, True
        elif trial is own:
            yield trial, False


def _declared_word(quantity: Quantity) -> str:
    return quantity.name if quantity.kind == "constraint" else quantity.kind


def _kept(integrator: Integrator, trial: Trial) -> list[Quantity]:
    """Quantities of a trial that an integrator is declared to preserve."""
    return [of for of in trial.quantities if integrator.keeps(of.name, of.kind, of.degree)]


def _symplectic_space_of(trial: Trial) -> Any:
    try:
        return phase_space(trial.form)
    except InputError:  # there is a force, or no symplectic form
        return None


# --- checks --------------------------------------------------------------------------------------


def check_method(
    integrator: Integrator,
    system: System | None = None,
    start: Array | None = None,
    only_there: bool = False,
) -> None:
    """Check an integrator; for an adaptive one that also has fixed steps, check these.

    Parameters
    ----------
    integrator : integrators.Integrator
        An integrator without modifier, in double precision.
    system : systems.System, optional
        The system that the integrator is to be used on.
    start : ndarray, shape (rows, 3), optional
        A state of this system.
    only_there : bool
        Check only on this system, because others have been checked before.

    Raises
    ------
    InputError
        If the integrator accesses memory beyond its arrays, or does not have a declared property.
        The message names the property, the system and the deviation.
    """
    integrator = integrator.main or integrator
    own = None if system is None or start is None else trial_of(system, start)
    known = {SYMPLECTIC}
    for trial in (*trials(), *([own] if own else [])):
        known |= {_declared_word(of) for of in trial.quantities if of.kind != "observable"}
    where = f"in what {integrator.method.name!r} preserves:"
    for word, degrees in integrator.preserves.items():
        check_known(f"word {where}", word, sorted(known))
        for degree in degrees:
            check_known(f"degree {where}", degree, ALL_DEGREES)
    for trial, wholly in chosen_trials(integrator, own):
        if only_there and trial is not own:
            continue
        if integrator.adaptive:
            _check_tolerances(integrator, trial)
            _check_solutions(integrator, trial)
            _check_preserved(integrator, trial)
            continue
        problem = cast(Problem, integrator.bind(trial.form))
        for part in problem.made_from if wholly or len(trial.state) <= SMALL else ():
            for made in (part, *part.made_from):
                if isinstance(made, Kernel) and made.signature in (field_step, action_step):
                    _check_step(made, integrator, problem, trial)
        _check_arrays(integrator, problem, trial)
        _check_evaluations(integrator, problem, trial)
        _check_order(integrator, problem, trial, wholly)
        if not wholly:
            continue
        _check_symmetry(integrator, problem, trial)
        _check_symplectic(integrator, problem, trial)
        _check_preserved(integrator, trial)


def _check_step(step: Kernel, integrator: Integrator, problem: Problem, trial: Trial) -> None:
    """Run the step function of a `simple_method` as plain Python, to find index errors."""
    along_action = step.signature is action_step
    result, rows = ("sigma", int(problem.options[1])) if along_action else ("d", problem.rows)
    given = {
        "y": to_stepped(problem, trial.state),
        "p": problem.parameters,
        result: np.zeros((rows, 3)),
        "scratch": np.zeros(problem.function.work(problem.rows)),
    }
    blank = {"work": np.empty(step.work(problem.rows))}
    functions = [problem.function.scalar]
    if along_action and problem.move is not None:
        functions.append(problem.move.scalar)
    what = f"the step of {integrator.method.name!r}"

    def call(arrays: GuardedArrays) -> None:
        names = ("y", "p", result, "work", "scratch")
        try:
            step.function(*functions, 0.0, 0.1 * trial.span, *(arrays[name] for name in names))
        except (IndexError, ValueError) as error:
            raise InputError(
                f"{what} reaches beyond its arrays in line {line_of_error(step.function, error)}: "
                f"{error}; its 'work' has {blank['work'].size} numbers for {problem.rows} rows, by "
                "work = lambda rows: …"
            ) from error

    found = call_twice(what, given, blank, call, (result, "work", "scratch"))
    refuse_difference(what, result, found)


def to_stepped(problem: Problem, state: Array) -> Array:
    """Convert a state to the formulation of a problem, shape (rows, 3)."""
    return np.array(to_stepped_states(problem, state[None])[0], dtype=float)


def _check_arrays(integrator: Integrator, problem: Problem, trial: Trial) -> None:
    """Run a compiled step with guarded arrays."""
    what = f"a step of {integrator.method.name!r} on {trial.name}"
    advance, *functions = problem.step_kernels(DOUBLE)
    given = {
        "y": to_stepped(problem, trial.state),
        "memory": np.zeros(problem.memory),
        "p": problem.parameters,
        "report": np.zeros(status.REPORT_SIZE),
    }

    def call(arrays: GuardedArrays) -> None:
        with calling_python():
            advance(
                *functions, 0.0, 0.1 * trial.span, 0, 2, problem.constants, problem.options,
                *(arrays[name] for name in ("y", "memory", "p", "work", "report")),
            )  # fmt: skip
        if (ended := int(arrays["report"][status.STATUS_ROW])) > status.COMPLETE:
            where = "" if problem.python is None else f": {problem.python.place}"
            raise InputError(
                f"{what} of {0.1 * trial.span:.3g} fails: {status.STATUS[ended]}{where}"
            )

    blank, written = {"work": np.empty(problem.work)}, ("y", "memory", "work", "report")
    # Solvers may read uninitialized memory as an initial guess, if it is a number.
    poisons = ((0.0, UNTOUCHED), (1.5, UNTOUCHED))
    refuse_difference(what, "y", call_twice(what, given, blank, call, written, poisons))


def _check_evaluations(integrator: Integrator, problem: Problem, trial: Trial) -> None:
    counted, reported = count_evaluations(problem, trial.state, 0.1 * trial.span, 4)
    said = 4 * integrator.evaluations + reported
    if counted and counted != said:
        raise InputError(
            f"{integrator.method.name!r} evaluates the function of {trial.name} {counted / 4:g} "
            f"times a step; it is declared to do so {said / 4:g} times"
        )


def _check_order(integrator: Integrator, problem: Problem, trial: Trial, wholly: bool) -> None:
    """Refuse an integrator whose errors do not fall as its order says.

    If `wholly` is false, the system is the study's own, whose field may not be smooth; then errors
    need only fall like those of a method of order 1. The errors of an exact integrator are all
    below `RESOLVED`.
    """
    name, size = integrator.method.name, float(np.linalg.norm(trial.state))
    ends, begin = [], time.process_time()
    for steps in STEPS:
        end = run_ends(problem, trial.state[None], trial.span / steps, steps, lanes=False)[0]
        ends.append(end[: count_moving_rows(trial.form)])
        if len(ends) >= LEAST and time.process_time() - begin > SECONDS:
            break
    if not np.isfinite(ends).all():
        raise InputError(
            f"{name!r} fails on {trial.name} with steps of {trial.span / STEPS[0]:.3g} or less"
        )
    if trial.reference_end is None:
        return
    errors = [float(np.linalg.norm(one - trial.reference_end)) / size for one in ends]
    slopes = [np.log2(a / b) for a, b in zip(errors, errors[1:], strict=False) if b > RESOLVED]
    order = np.inf if integrator.order == EXACT else cast(int, integrator.order) if wholly else 1
    if not slopes or max(slopes[-2:]) >= order - ORDER_LESS:
        return
    slope, finest, h = slopes[-1], errors[len(slopes)], trial.span / STEPS[len(slopes)]
    if slope < ORDER_LESS:
        raise InputError(
            f"{name!r} has an error of {finest:.3g}, relative to the state, on {trial.name}, "
            f"whatever the step size: {errors[0]:.3g} with steps of {trial.span / STEPS[0]:.3g}. "
            f"It solves another equation; expected an error below {RESOLVED:g}, or one that "
            "decreases with the step size"
        )
    raise InputError(
        f"{name!r} is declared to have order {integrator.order}, and has order {slope:.2f} on "
        f"{trial.name}: with steps of {2 * h:.3g} and {h:.3g} its errors, relative to the state, "
        f"are {errors[len(slopes) - 1]:.3g} and {finest:.3g}"
    )


def _check_symmetry(integrator: Integrator, problem: Problem, trial: Trial) -> None:
    if not integrator.symmetric:
        return
    members, h = trial.state[None], trial.span / BACK
    ends = run_ends(problem, members, h, BACK, lanes=False)
    back = run_ends(problem, ends, -h, BACK, trial.span, lanes=False)
    off = float(errors_of_return(trial.form, problem, members, back)[0])
    if not off < ROUND_OFF * np.linalg.norm(trial.state):
        raise InputError(
            f"{integrator.method.name!r} is declared symmetric, and {BACK} steps of {h:.3g} and as "
            f"many back end {off:.3g} from the start on {trial.name}"
        )


def _check_symplectic(integrator: Integrator, problem: Problem, trial: Trial) -> None:
    space = _symplectic_space_of(trial)
    if SYMPLECTIC not in integrator.preserves or space is None:
        return
    h = trial.span / 4.0

    def ends(members: Array) -> Array:
        return run_ends(problem, members, h, 1, lanes=False)

    found = defect_of_map(space, ends, trial.state, h)
    if not found.defect < DEFECT + 10.0 * found.resolution:
        raise InputError(
            f"{integrator.method.name!r} is declared to preserve the symplectic form, and a step "
            f"of {h:.3g} changes it by {found.defect:.3g}, relative, on {trial.name}; resolved is "
            f"{found.resolution:.2g}"
        )


def _check_tolerances(integrator: Integrator, trial: Trial) -> None:
    """Refuse an adaptive integrator whose errors do not match its tolerance, or its order."""
    if trial.reference_end is None:
        return
    name, size, found = integrator.method.name, float(np.linalg.norm(trial.state)), []
    for tolerance in TOLERANCES:
        run = integrators.integrate(
            trial.form, integrator, trial.state, duration=trial.span, samples=1,
            tolerance=tolerance,
        )  # fmt: skip
        end = run.states[-1][: count_moving_rows(trial.form)]
        error = float(np.linalg.norm(end - trial.reference_end)) / size
        if not error < MET * tolerance:
            raise InputError(
                f"{name!r} has an error of {error:.3g}, relative to the state, on {trial.name} at "
                f"a tolerance of {tolerance:g}; expected less than {MET * tolerance:.0e}"
            )
        found.append((error, int(run.counters["steps"])))
    (coarse, few), (fine, many) = found
    if fine < RESOLVED or many < 2 * few:
        return
    order = np.log(coarse / fine) / np.log(many / few)
    if order < cast(int, integrator.order) - ADAPTED:
        raise InputError(
            f"{name!r} is declared to have order {integrator.order}, and has order {order:.1f} on "
            f"{trial.name}: its errors, relative to the state, are {coarse:.3g} with {few} steps "
            f"and {fine:.3g} with {many}"
        )


def _check_solutions(integrator: Integrator, trial: Trial) -> None:
    """Refuse an adaptive integrator that changes its input, or does not repeat its results."""
    what, problem = f"{integrator.method.name!r} on {trial.name}", integrator.bind(trial.form)
    times = np.array([0.0, 0.5, 1.0]) * trial.span
    given = {"state": trial.state, "times": times, "p": problem.parameters}
    blank = {"samples": np.empty((len(times) * problem.rows, 3))}

    def call(arrays: GuardedArrays) -> None:
        own = replace(cast(AdaptiveProblem, problem), parameters=arrays["p"])
        run = run_adaptive(own, arrays["state"][None], arrays["times"], TOLERANCES[0])
        arrays["samples"][:] = run.states.reshape(-1, 3)

    found = call_twice(what, given, blank, call, ("samples",))
    refuse_difference(what, "samples", found, unwritten=True)


def _check_preserved(integrator: Integrator, trial: Trial) -> None:
    kept = _kept(integrator, trial)
    if not kept:
        return
    h, problem, members = trial.span / 16.0, integrator.bind(trial.form), trial.state[None]
    if isinstance(problem, Problem):
        (states,) = run_batch(problem, members, h, 1, FOLLOWED).states
    else:
        times = h * np.arange(FOLLOWED + 1)
        (states,) = run_adaptive(problem, members, times, TOLERANCES[0]).states
    moving = to_lagrangian_states(problem, states)
    for quantity in kept:
        of_state = states if quantity.kind == "constraint" else moving
        values = trial.values(quantity, of_state)
        off = float(np.max(np.abs(values - values[0])))
        bound = ROUND_OFF * _natural_size(quantity, trial, moving)
        if not off < bound:
            what = repr(_declared_word(quantity))
            if quantity.kind != "constraint":
                what += f" of degree {quantity.degree!r}"
            raise InputError(
                f"{integrator.method.name!r} is declared to preserve {what}, and changes "
                f"{quantity.name!r} of {trial.name} by {off:.3g} in {FOLLOWED} steps of "
                f"{h:.3g}; expected at most {bound:.1g}"
            )


def _natural_size(quantity: Quantity, trial: Trial, states: Array) -> float:
    """Scale of the round-off of a quantity: its magnitude for states of the same norms."""
    generator = np.random.default_rng(1)
    lengths = np.max(np.linalg.norm(states, axis=2), axis=0)[:, None]
    drawn = lengths * generator.standard_normal((8, *states.shape[1:]))
    found = trial.values(quantity, np.concatenate([states[:1], drawn]))
    return float(np.max(np.abs(found[np.isfinite(found)]), initial=1.0))
