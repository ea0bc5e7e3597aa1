"""Checks of a system: whether its functions are consistent, and keep what it declares.

All are made at a few states, about a start and at random, each at a time of its own. A gradient is
compared with differences of its potential or Hamiltonian along random directions,

    g·d ≈ (V(y + εd) − V(y − εd)) / 2ε,

whose own error is some 1e-11 of V. A declared invariant Q has no derivative along the field f,

    (Q(t + ε, y + εf) − Q(t − ε, y − εf)) / 2ε ≈ 0,

and a reference solution keeps it.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import integrators
from integrators.compiler.kernels import Kernel
from integrators.errors import InputError, check_known
from integrators.forms.cotangent import CotangentHamiltonian
from integrators.forms.flows import ExactFlow, VectorField
from integrators.forms.forms import SpheresLagrangian, velocities
from integrators.forms.hamiltonians import NambuHamiltonian, SpinHamiltonian
from integrators.forms.lie_poisson import LiePoissonHamiltonian
from integrators.method import ALL_DEGREES
from sweep.plugins.guarded import followed_by_nan, plain_rows, written_rows
from systems import Quantity, System
from systems.base import CONSERVED

Array = NDArray[np.float64]

EPSILON = 6e-6  # the cube root of double precision
AGREED = 1e-5  # of the gradient and of V; a mistake is rarely smaller
ROUNDING = 1e-9  # of an invariant in a characteristic time, beside what differences round
DIRECTIONS = 4
NEARBY = 2  # random states about a start, which may be an equilibrium, and others anywhere
SPREAD = 0.1  # of those, in radians
APPLIED = 8  # derivatives of the field in a row, which tell how fast it changes
EXACT_STEP, EXACT = 0.1, 1e-9  # a time, in characteristic ones, and how exact flows are
TOLERANCE, CHANGED = 1e-10, 1e-5  # of a reference, and what of an invariant's size it may change
KINDS = (*CONSERVED, "constraint", "observable")


class Point(NamedTuple):
    """A time and a state, and how long the fastest mode there takes to turn by a radian."""

    time: float
    state: Array
    lasting: float

    @classmethod
    def at(cls, system: System, time: float, state: Array) -> "Point":
        """The point of a system at a time and a state."""
        return cls(time, state, characteristic_time(system.form.vector_field(), time, state))


def check_system(system: System, start: Array | None = None) -> None:
    """Check a system at and about a start.

    Parameters
    ----------
    system : systems.System
    start : ndarray, shape (rows, 3), optional
        By default a random one.

    Raises
    ------
    InputError
        If something does not agree with something else, or with what is declared: it says what,
        where, and by how much.
    """
    _check_starts(system)
    if start is None:
        start = system.ensemble(1, 0)[0]
    field, points = system.form.vector_field(), points_about(system, start)
    check_gradient(system, np.array([own.state for own in points]), [own.time for own in points])
    check_force(system, points)
    _check_time_dependence(system, points)
    for quantity in system.quantities:
        check_quantity(system, quantity, points, field.parameters)
        if quantity.kind == "energy":
            _check_followed(system, quantity, points)
    what = f"the field of {system.name!r}"
    found = _field_at(field, points[0].time, points[0].state, what)
    if not np.isfinite(found).all():
        raise InputError(
            f"{what} is not finite at a start, leaves a row unwritten, or reads beyond its "
            "parameters"
        )
    _check_unit_rows(system, points)
    _check_reference(system, points[0])
    _check_flows(system, points)


def _check_starts(system: System) -> None:
    for name in system.starts:
        try:
            state = system.start(name)
        except InputError:  # it is of other parameters
            continue
        try:
            system.check_state(state)
        except InputError as error:
            raise InputError(f"start {name!r} of {system.name!r}: {error}") from None


# --- where, and how fast -------------------------------------------------------------------------


def points_about(system: System, start: Array) -> list[Point]:
    """A start at time 0, then random states, near it and not, at random times.

    These are a tenth to thirty times a characteristic time.
    """
    generator = np.random.default_rng(1)  # not what random states are from
    first = Point.at(system, 0.0, np.ascontiguousarray(start))
    others = [*system.ensemble(NEARBY, 0, start, SPREAD), *system.ensemble(NEARBY, 0)]
    times = first.lasting * 10.0 ** generator.uniform(-1.0, 1.5, len(others))
    own = zip(map(float, times), others, strict=True)
    return [first, *(Point.at(system, time, state) for time, state in own)]


def characteristic_time(field: VectorField, time: float, state: Array) -> float:
    """The time in which a field's fastest mode turns by a radian; 1 where nothing changes.

    Its derivative is applied several times to a random vector, whatever the units of the rows.
    """
    generator, growth = np.random.default_rng(2), 0.0
    size = max(float(np.linalg.norm(state)), 1.0)
    along = generator.standard_normal(state.shape)
    for _ in range(APPLIED):
        along = along / np.linalg.norm(along)
        ahead, behind = (
            _field_values(field, time, state + sign * EPSILON * size * along) for sign in (1, -1)
        )
        along = (ahead - behind) / (2 * EPSILON * size)
        norm = float(np.linalg.norm(along))
        if not 0.0 < norm < np.inf:
            return 1.0
        growth += np.log(norm) / APPLIED
    return float(np.exp(-growth))


def _field_values(field: VectorField, time: float, state: Array) -> Array:
    return plain_rows(field.field, time, state, field.parameters, field.rows)


def _field_at(field: VectorField, time: float, state: Array, what: str) -> Array:
    work = field.field.work(field.rows)
    given = {"y": state}
    return written_rows(field.field, time, given, field.parameters, field.rows, work, what)


def in_words(time: float, state: Array) -> str:
    """A time and the first row of a state, for messages."""
    first = ", ".join(f"{x:.3g}" for x in state[0])
    more = f" and {len(state) - 1} more" if len(state) > 1 else ""
    return f"t = {time:.3g}, ({first}){more}"


# --- gradients -----------------------------------------------------------------------------------


def check_gradient(
    system: System, states: NDArray[np.float64], times: Iterable[float] | None = None
) -> float | None:
    """Compare the gradient that a system gives with differences of what it is the gradient of.

    Parameters
    ----------
    system : systems.System
    states : ndarray, shape (S, rows, 3)
        All but the first may be where the value is not finite, which are left out.
    times : sequence of float, optional
        Of each state; 0 unless given.

    Returns
    -------
    float or None
        Largest deviation, relative to gradient and value; None for a form without a potential or
        Hamiltonian of its own.

    Raises
    ------
    InputError
        If it does not agree, is not finite or writes beyond its arrays.
    """
    form: Any = system.form
    if (found := _function_and_gradient(form)) is None:
        return None
    value, gradient, name, n, rows = found
    what, work = f"{name} of {system.name!r}", gradient.work(form.rows)
    generator, worst = np.random.default_rng(1), 0.0  # not what random states are from
    own = followed_by_nan(form.parameters)
    unit = isinstance(form, SpheresLagrangian) or getattr(form, "lengths", "any") == "unit"
    states = np.asarray(states)
    times = np.zeros(len(states)) if times is None else times
    for index, (time, state) in enumerate(zip(times, states[:, :n], strict=True)):
        q = np.ascontiguousarray(state)
        slope = written_rows(gradient, time, {"q": q}, own, rows, work, what)
        for _ in range(DIRECTIONS):
            along, dual = _random_direction(form, q, unit, generator)
            ends = [_point_moved_by_step(q, sign * EPSILON * along, unit) for sign in (1, -1)]
            ahead, behind = (float(value.scalar(time, end, own)) for end in ends)
            expected, along_it = (ahead - behind) / (2 * EPSILON), float(np.sum(slope * dual))
            if not np.isfinite([along_it, expected]).all() and index:
                continue
            if not np.isfinite(expected):
                raise InputError(
                    f"{value.function.__name__} of {system.name!r} is not finite at a start, or "
                    f"reads beyond its parameters, at {in_words(time, q)}"
                )
            off = float(abs(along_it - expected) / (np.linalg.norm(slope) + abs(ahead) + 1e-300))
            if not off <= AGREED:
                raise InputError(
                    f"{what} is {along_it:.9g} along a direction in which the differences of "
                    f"{value.function.__name__} give {expected:.9g}; expected the same to "
                    f"{AGREED:g}, at {in_words(time, q)}"
                )
            worst = max(worst, off)
    return worst


def _function_and_gradient(form: Any) -> tuple[Any, Kernel, str, int, int] | None:
    """A form's potential or Hamiltonian, its gradient with its name, and rows of states and of it.

    None for a form without a function of its own.
    """
    if isinstance(form, SpheresLagrangian):
        name = "potential_gradient"
        return form.potential, form.potential_gradient, name, form.bodies, form.bodies
    if isinstance(form, (SpinHamiltonian, LiePoissonHamiltonian, NambuHamiltonian)):
        return form.hamiltonian, form.gradient, "gradient", form.rows, form.rows
    if isinstance(form, CotangentHamiltonian):
        return form.hamiltonian, form.derivatives, "derivatives", form.rows, form.algebra_rows
    return None


def _random_direction(
    form: Any, q: Array, unit: bool, generator: np.random.Generator
) -> tuple[Array, Array]:
    """A direction in which the state moves, and what of the gradient is multiplied by what.

    It is tangent to the spheres where q are unit vectors. On T*G it is Q̇ = η̂ Q, q̇, π̇, ṗ, of which
    the derivatives ∂H/∂π, ∂H/∂p, f₂ of π and of p are multiplied by π̇, ṗ, −η and −q̇.
    """
    if isinstance(form, CotangentHamiltonian):
        moving = generator.standard_normal((form.algebra_rows, 3))
        moving /= np.linalg.norm(moving)
        half = form.algebra_rows // 2  # η, q̇, then π̇, ṗ
        turned = np.cross(moving[0], q[:3], axisb=0, axisc=0)
        along = np.concatenate([turned, moving[1:]])
        return along, np.concatenate([moving[half:], -moving[:half]])
    along = generator.standard_normal(q.shape)
    if getattr(form, "tracers", 0):  # whose rows are no derivatives of H
        along[-form.tracers :] = 0.0
    if unit:
        along -= np.sum(along * q, axis=1, keepdims=True) * q
    along /= np.linalg.norm(along)
    return along, along


def _point_moved_by_step(q: Array, step: Array, unit: bool) -> Array:
    moved: Array = q + step
    return moved / np.linalg.norm(moved, axis=1, keepdims=True) if unit else moved


def check_force(system: System, points: Iterable[Point]) -> None:
    """Refuse a force that does not write a row for each body, and nothing else."""
    form: Any = system.form
    force: Kernel | None = getattr(form, "force", None)
    if force is None:
        return
    n, what = form.bodies, f"the force on {system.name!r}"
    own: Array = np.array(form.parameters, dtype=float)
    for index, (time, state, _) in enumerate(points):
        given = {"q": state[:n], "omega": state[n : 2 * n]}
        found = written_rows(force, time, given, own, n, force.work(form.rows), what)
        if not np.isfinite(found).all() and not index:
            raise InputError(
                f"{what} is not finite at a start, leaves the row of a body unwritten, or reads "
                "beyond its parameters"
            )


def _check_time_dependence(system: System, points: Iterable[Point]) -> None:
    """Refuse a potential or Hamiltonian that depends on time, and is not declared to."""
    form: Any = system.form
    if getattr(form, "time_dependent", True):
        return
    value = form.potential if isinstance(form, SpheresLagrangian) else form.hamiltonian
    rows, own = form.bodies, np.array(form.parameters, dtype=float)
    for time, state, _ in points:
        q = np.ascontiguousarray(state[:rows])
        first, now = (float(value.scalar(at, q, own)) for at in (0.0, time))
        if np.isfinite(first) and now != first:
            raise InputError(
                f"{value.function.__name__} of {system.name!r} is {first:.9g} at t = 0 and "
                f"{now:.9g} at {in_words(time, q)}: it depends on time. Give its form "
                "time_dependent=True"
            )


# --- what is conserved ---------------------------------------------------------------------------


def check_quantity(
    system: System, quantity: Quantity, points: Iterable[Point], parameters: Array
) -> None:
    """Refuse a quantity that cannot be evaluated, or is not what it is declared to be.

    Parameters
    ----------
    system : systems.System
    quantity : systems.Quantity
    points : sequence of Point
        At the first one it must have a value.
    parameters : ndarray
        What its function reads.
    """
    what, points = f"{quantity.name!r} of {system.name!r}", list(points)
    check_known(f"kind of {what}", quantity.kind, KINDS)
    check_known(f"degree of {what}", quantity.degree, ALL_DEGREES)
    size = max(1, len(quantity.components))
    if len(quantity.columns) != size or not set(quantity.columns) <= {0, 1, 2}:
        raise InputError(
            f"{what} has columns = {quantity.columns!r}; expected {size} of 0, 1 and 2"
        )
    work, rows = quantity.function.work(system.rows), system.rows if quantity.each_row else 1
    time, start, _ = points[0]
    given = {"y": _moving(system, quantity, start)}
    found = written_rows(quantity.function, time, given, parameters, rows, work, what)[0]
    if np.isnan(found[list(quantity.columns)]).any():
        raise InputError(f"{what} is NaN at a start, or leaves a component of its row unwritten")
    for point in points:
        if quantity.kind in CONSERVED:
            _check_invariant(system, quantity, point, parameters)
            _check_degree(system, quantity, point, parameters)
        elif quantity.kind == "constraint":
            _check_constraint(system, quantity, point, parameters)


def _moving(system: System, quantity: Quantity, state: Array) -> Array:
    """The state as a quantity reads it: (q, q̇) of a Lagrangian, but for constraints."""
    if isinstance(system.form, SpheresLagrangian) and quantity.kind != "constraint":
        return np.ascontiguousarray(velocities(state))
    return np.ascontiguousarray(state)


def _values(quantity: Quantity, time: float, state: Array, parameters: Array) -> Array:
    """The components of a quantity."""
    rows = len(state) if quantity.each_row else 1
    found = plain_rows(quantity.function, time, state, parameters, rows)
    return found[0, list(quantity.columns)]


def _rates(
    system: System, quantity: Quantity, point: Point, parameters: Array
) -> tuple[Array, float, float, Array]:
    """A quantity's derivative along the field, its error, its size along others, its value.

    The error is what half the step changes, and what the rounding of states does; the others have
    rows as long as those of the field, in random directions.
    """
    (time, state, lasting), generator = point, np.random.default_rng(3)
    velocity = _field_values(system.form.vector_field(), time, state)

    def along(direction: Array, step: float, passing: float = 0.0) -> Array:
        ahead, behind = (
            _values(
                quantity, time + sign * passing * step,
                _moving(system, quantity, state + sign * step * direction), parameters,
            )
            for sign in (1, -1)
        )  # fmt: skip
        return (ahead - behind) / (2.0 * step)

    def beside(vectors: Array, step: float) -> float:
        found, norms = 0.0, np.linalg.norm(vectors, axis=1, keepdims=True)
        for _ in range(DIRECTIONS):
            other = generator.standard_normal(state.shape)
            other *= norms / np.linalg.norm(other, axis=1, keepdims=True)
            found = max(found, float(np.max(np.abs(along(other, step)))))
        return found

    step = EPSILON * lasting
    rate, finer = along(velocity, step, 1.0), along(velocity, 0.5 * step, 1.0)
    rounding = np.finfo(float).eps * beside(state, EPSILON) / step  # of the states themselves
    error = float(np.max(np.abs(finer - rate))) + rounding
    value = _values(quantity, time, _moving(system, quantity, state), parameters)
    return rate, error, beside(velocity, step), value


def _check_invariant(system: System, quantity: Quantity, point: Point, parameters: Array) -> None:
    rate, error, size, value = _rates(system, quantity, point, parameters)
    bound = 4.0 * error + AGREED * size + ROUNDING * float(np.max(np.abs(value))) / point.lasting
    worst = float(np.max(np.abs(rate)))
    if np.isfinite([worst, bound]).all() and worst > bound:
        raise InputError(
            f"{quantity.name!r} of {system.name!r} is declared to be conserved, and changes at the "
            f"rate {worst:.3g} along the field; expected 0 to {bound:.2g}, at "
            f"{in_words(point.time, point.state)}"
        )


def _check_degree(system: System, quantity: Quantity, point: Point, parameters: Array) -> None:
    """Refuse a degree that is less than the true one: differences of that order do not vanish."""
    if quantity.degree not in ("linear", "quadratic"):
        return
    time, state, _ = point
    generator, y = np.random.default_rng(4), _moving(system, quantity, state)
    along = generator.standard_normal(y.shape) * max(1.0, float(np.max(np.abs(y))))

    def difference(*directions: Array) -> tuple[float, float]:
        """Of all sums of directions, with signs; and the largest of their values."""
        ends = [(y, 1.0)]
        for direction in directions:
            ends += [(end + direction, -sign) for end, sign in ends]
        values = [sign * _values(quantity, time, end, parameters) for end, sign in ends]
        return float(np.max(np.abs(sum(values)))), float(np.max(np.abs(values)))

    order = 2 if quantity.degree == "linear" else 3
    found, size = difference(*[along] * order)
    of_spins = quantity.kind == "energy" and isinstance(system.form, SpinHamiltonian)
    if parted := of_spins and quantity.degree == "quadratic":  # into functions of one spin each
        for row in range(1, len(y)):
            one, two = (np.zeros_like(y) for _ in range(2))
            one[:row], two[row:] = along[:row], along[row:]
            found = max(found, difference(one, two)[0])
    if np.isfinite([found, size]).all() and found > AGREED * size:
        words = "a sum of quadratic functions of one spin each" if parted else quantity.degree
        raise InputError(
            f"{quantity.name!r} of {system.name!r} is declared {quantity.degree}, and is not "
            f"{words} in the state: a difference that would vanish is {found:.3g}, of values up to "
            f"{size:.3g}, at {in_words(time, state)}"
        )


def _check_constraint(system: System, quantity: Quantity, point: Point, parameters: Array) -> None:
    """Refuse a constraint that a state violates, or that the field leads away from."""
    time, state, lasting = point
    velocity = _field_values(system.form.vector_field(), time, state)
    step = EPSILON * lasting
    there, ahead = (
        float(np.max(np.abs(_values(quantity, time, end, parameters))))
        for end in (state, state + step * velocity)
    )
    size = max(1.0, float(np.max(np.abs(state))) ** 2)
    moved = step * float(np.max(np.abs(velocity)))
    if np.isfinite([there, ahead, moved]).all() and ahead - there > 1e-2 * moved + 1e-13 * size:
        raise InputError(
            f"the constraint {quantity.name!r} of {system.name!r} changes by {ahead - there:.3g} "
            f"where the field moves the state by {moved:.3g}: the motion leaves the manifold, at "
            f"{in_words(time, state)}"
        )


def _check_followed(system: System, quantity: Quantity, points: Iterable[Point]) -> None:
    """Refuse an energy that is not what the form's monitor follows at every step."""
    field = system.form.vector_field()
    for time, state, _ in points:
        followed = float(plain_rows(field.monitor, time, state, field.parameters, 1)[0, 0])
        value = float(
            _values(quantity, time, _moving(system, quantity, state), field.parameters)[0]
        )
        if abs(followed - value) > AGREED * (abs(followed) + abs(value)):
            raise InputError(
                f"{quantity.name!r} of {system.name!r} is {value:.9g}, and the energy of its form, "
                f"which is followed at every step, {followed:.9g}, at {in_words(time, state)}"
            )


def _check_unit_rows(system: System, points: Iterable[Point]) -> None:
    """Refuse unit vectors of a `HomogeneousFlow` whose length the field changes."""
    field = system.form.vector_field()
    for row in getattr(system.form, "unit_rows", ()):
        for time, state, _ in points:
            velocity = _field_values(field, time, state)[row]
            size, along = np.linalg.norm(velocity), abs(velocity @ state[row])
            if abs(state[row] @ state[row] - 1.0) > AGREED or along > AGREED * size:
                raise InputError(
                    f"row {row} of {system.name!r} is declared by unit_rows to be a unit vector; "
                    f"its length is {np.linalg.norm(state[row]):.6g}, and changes at the rate "
                    f"{along:.3g}, at {in_words(time, state)}"
                )


def _check_reference(system: System, start: Point) -> None:
    """Refuse an invariant that a reference solution does not keep."""
    parameters, duration = system.form.vector_field().parameters, start.lasting
    run = integrators.integrate(
        system, integrators.get("dop853"), start.state, duration=duration, samples=1,
        tolerance=TOLERANCE,
    )  # fmt: skip
    if run.status:
        return
    for quantity in system.quantities:
        if quantity.kind not in CONSERVED:
            continue
        first, last = (
            _values(quantity, time, _moving(system, quantity, state), parameters)
            for time, state in zip(run.times, run.states, strict=True)
        )
        *_, size, value = _rates(system, quantity, start, parameters)
        off = float(np.max(np.abs(last - first)))
        bound = CHANGED * (size * duration + float(np.max(np.abs(value))))
        if off > bound:
            raise InputError(
                f"{quantity.name!r} of {system.name!r} is declared to be conserved, and a "
                f"reference of tolerance {TOLERANCE:g} changes it by {off:.3g} until t = "
                f"{duration:.3g}; expected at most {bound:.2g}"
            )


# --- flows in closed form ------------------------------------------------------------------------


def _check_flows(system: System, points: Iterable[Point]) -> None:
    """Refuse flows that are not exact or not those of the field, and what is no rigid body."""
    form: Any = system.form
    for key in ("split", "exact"):
        flow = getattr(form, key, None)
        if flow is not None:
            pieces = 1 if isinstance(flow, ExactFlow) else flow.pieces
            varying = range(form.rows) if isinstance(flow, ExactFlow) else flow.varying
            what = f"the {key} flow of {system.name!r}"
            for point in points:
                _check_flow(form, flow.flow, pieces, varying, point, what)
    if getattr(form, "rigid_body", False):
        own = np.array(form.parameters, dtype=float)
        for time, state, _ in points:
            one, four = (float(form.hamiltonian.scalar(time, k * state, own)) for k in (1.0, 2.0))
            if form.rows > 1 or abs(four - 4.0 * one) > AGREED * abs(four):
                raise InputError(
                    f"{system.name!r} is declared a rigid_body, whose H is ½ w·I⁻¹w; it is "
                    f"{one:.6g} at w = {state[0]} and {four:.6g}, not {4 * one:.6g}, at 2w"
                )


def _check_flow(
    form: Any,
    flow: Kernel,
    pieces: int,
    varying: Iterable[int],
    point: Point,
    what: str,
) -> None:
    time, state, lasting = point
    own = np.array(form.parameters, dtype=float)
    velocity = _field_values(form.vector_field(), time, state)

    def moved(piece: int, start: Array, begin: float, span: float) -> Array:
        w, low = start.copy(), np.zeros_like(start)
        flow.scalar(piece, begin, span, w, low, own)
        if not np.array_equal(w, start):
            raise InputError(f"{what} writes to w; expected that it adds its change to low")
        result: Array = start + low
        return result

    rate, step = np.zeros_like(state), EPSILON * lasting
    size = max(1.0, float(np.max(np.abs(state))))
    for piece in range(pieces):
        rate += (moved(piece, state, time, step) - moved(piece, state, time, -step)) / (2 * step)
        half = EXACT_STEP * lasting
        twice = moved(piece, moved(piece, state, time, half), time + half, half)
        once = moved(piece, state, time, 2.0 * half)
        off = float(np.max(np.abs(twice - once)))
        if np.isfinite(off) and off > EXACT * size:
            raise InputError(
                f"piece {piece} of {what} is no exact flow: two steps of {half:.3g} and one of "
                f"{2 * half:.3g} end {off:.3g} apart, from {in_words(time, state)}"
            )
        still = [row for row in range(len(state)) if row not in varying]
        lengths = [np.linalg.norm(of[still], axis=1) for of in (state, once)]
        if still and np.max(np.abs(lengths[1] - lengths[0])) > EXACT * size:
            raise InputError(
                f"piece {piece} of {what} changes the length of row "
                f"{still[np.argmax(np.abs(lengths[1] - lengths[0]))]}, which 'varying' does not "
                f"name, from {in_words(time, state)}"
            )
    off = float(np.max(np.abs(rate - velocity)))
    bound = AGREED * (float(np.max(np.abs(velocity))) + size / lasting)
    if np.isfinite(off) and off > bound:
        raise InputError(
            f"{what} has pieces that do not add up to the field: they differ from it by {off:.3g}, "
            f"where its largest component is {np.max(np.abs(velocity)):.3g}; expected at most "
            f"{bound:.2g}, at {in_words(time, state)}"
        )
