"""Checks of a system: consistency of its functions, and the invariants that it declares.

Each check uses a few states, near a start and at random, at different times. A gradient is compared
with difference quotients of its potential or Hamiltonian along random directions,

    g·d ≈ (V(y + εd) − V(y − εd)) / 2ε,

which have an error of about 1e-11 of V. The derivative of a declared invariant Q along the field f
must vanish,

    (Q(t + ε, y + εf) − Q(t − ε, y − εf)) / 2ε ≈ 0,

and a reference solution must preserve Q.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

import integrators
from integrators.compiler.kernels import Kernel
from integrators.errors import InputError, check_known
from integrators.forms.cotangent import CotangentHamiltonian
from integrators.forms.flows import ExactFlow, SplitFlow, VectorField
from integrators.forms.forms import SpheresLagrangian, velocities
from integrators.forms.hamiltonians import SpinHamiltonian
from integrators.method import ALL_DEGREES
from sweep.plugins.guarded import followed_by_nan, plain_rows, written_rows
from systems import Quantity, System
from systems.base import CONSERVED
from systems.checking import IN_STUDIES

Array = NDArray[np.float64]
Value = TypeVar("Value", float, Array)

EPSILON = 6e-6  # step of difference quotients: cube root of machine epsilon
AGREED = 1e-5  # tolerance relative to gradient and V; mistakes are rarely smaller
ROUNDING = 1e-9  # allowed relative change of an invariant in a characteristic time
DIRECTIONS = 4
NEARBY = 2  # number of random states near a start, which may be an equilibrium
SPREAD = 0.1  # radians; distance of these states from the start
APPLIED = 8  # number of power iterations for the rate of change of the field
EXACT_STEP, EXACT = 0.1, 1e-9  # time step (in characteristic times) and tolerance of exact flows
TOLERANCE, CHANGED = 1e-10, 1e-5  # of a reference; allowed relative change of an invariant on it
KINDS = (*CONSERVED, "constraint", "observable")


class Point(NamedTuple):
    """A time, a state, and the characteristic time there; see `characteristic_time`."""

    time: float
    state: Array
    lasting: float

    def __str__(self) -> str:
        first = ", ".join(f"{x:.3g}" for x in self.state[0])
        more = f" and {len(self.state) - 1} more" if len(self.state) > 1 else ""
        return f"t = {self.time:.3g}, ({first}){more}"


def check_system(system: System, start: Array | None = None) -> None:
    """Check a system at and near a start.

    Parameters
    ----------
    system : systems.System
    start : ndarray, shape (rows, 3), optional
        By default a random state.

    Raises
    ------
    InputError
        If functions of the system contradict each other, or what the system declares. The message
        names the functions, the state and the deviation.
    """
    _check_starts(system)
    points = points_about(system, system.ensemble(1, 0)[0] if start is None else start)
    check_gradient(system, np.array([own.state for own in points]), [own.time for own in points])
    _check_force(system, points)
    _check_time_dependence(system, points)
    field = system.form.vector_field()
    for quantity in system.quantities:
        check_quantity(system, quantity, points, field.parameters)
        if quantity.kind == "energy":
            _check_followed(_Measured(system, quantity, field.parameters), points)
    _check_field(system, field, points)
    _check_unit_rows(system, points)
    _check_reference(system, points[0])
    _check_flows(system, points)
    _check_rigid_body(system, points)


def _check_starts(system: System) -> None:
    for name in system.starts:
        try:
            state = system.start(name)
        except InputError:  # the start is for other parameters
            continue
        try:
            system.check_state(state)
        except InputError as error:
            said = str(error).replace(IN_STUDIES, "Let its function return a state on the manifold")
            raise InputError(f"start {name!r} of {system.name!r}: {said}") from None


# --- states and characteristic times -------------------------------------------------------------


def points_about(system: System, start: Array) -> list[Point]:
    """A start at time 0, then random states near it and elsewhere, at random times.

    Times are between a tenth and thirty times a characteristic time.
    """
    generator, field = np.random.default_rng(1), system.form.vector_field()
    lasting = characteristic_time(field, 0.0, np.ascontiguousarray(start))
    others = [*system.ensemble(NEARBY, 0, start, SPREAD), *system.ensemble(NEARBY, 0)]
    times = lasting * 10.0 ** generator.uniform(-1.0, 1.5, len(others))
    return [
        Point(time, state, characteristic_time(field, time, state))
        for time, state in zip(
            [0.0, *times.tolist()], [np.ascontiguousarray(start), *others], strict=True
        )
    ]


def characteristic_time(field: VectorField, time: float, state: Array) -> float:
    """The time in which the fastest mode of a field turns by a radian; 1 if nothing changes.

    It is estimated by power iteration with the derivative of the field, which does not depend on
    the units of the rows.
    """
    generator, growth = np.random.default_rng(2), 0.0
    step = EPSILON * max(float(np.linalg.norm(state)), 1.0)
    along = generator.standard_normal(state.shape)

    def moved(along: Array, step: float) -> Array:
        return _field_at(field, time, state + step * along)

    for _ in range(APPLIED):
        along = _derivative(partial(moved, along / np.linalg.norm(along)), step)
        norm = float(np.linalg.norm(along))
        if not 0.0 < norm < np.inf:
            return 1.0
        growth += np.log(norm) / APPLIED
    return float(np.exp(-growth))


def _derivative(function: Callable[[float], Value], step: float) -> Value:
    """The derivative of a function of one variable at 0, by a central difference."""
    return (function(step) - function(-step)) / (2.0 * step)


def _field_at(field: VectorField, time: float, state: Array) -> Array:
    return plain_rows(field.field, time, state, field.parameters, field.rows)


def _size(values: Array) -> float:
    """The largest absolute value."""
    return float(np.max(np.abs(values)))


# --- gradients and forces ------------------------------------------------------------------------


def check_gradient(
    system: System, states: Array, times: Iterable[float] | None = None
) -> float | None:
    """Compare the gradient of a system with difference quotients of its potential or Hamiltonian.

    Parameters
    ----------
    system : systems.System
    states : ndarray, shape (S, rows, 3)
        States after the first are ignored if the potential or Hamiltonian is not finite there.
    times : sequence of float, optional
        The time of each state; by default 0.

    Returns
    -------
    float or None
        Largest deviation, relative to gradient and value; None for a form without a potential or
        Hamiltonian of its own.

    Raises
    ------
    InputError
        If the gradient does not agree, is not finite, or writes beyond its arrays.
    """
    form: Any = system.form
    names = ("potential_gradient", "gradient", "derivatives")
    if (name := next((name for name in names if hasattr(form, name)), None)) is None:
        return None
    gradient, (value, n) = getattr(form, name), _function_of(form)
    rows = form.algebra_rows if isinstance(form, CotangentHamiltonian) else n
    what, of = f"{gradient.function.__name__} of {system.name!r}", value.function.__name__
    generator, worst = np.random.default_rng(1), 0.0  # not the seed of the random states
    own = followed_by_nan(form.parameters)
    unit = isinstance(form, SpheresLagrangian) or getattr(form, "lengths", "any") == "unit"
    times = np.zeros(len(states)) if times is None else times

    def value_moved(time: float, q: Array, along: Array, step: float) -> float:
        end = q + step * along
        end = end / np.linalg.norm(end, axis=1, keepdims=True) if unit else end
        return float(value.scalar(time, end, own))

    for index, (time, state) in enumerate(zip(times, np.asarray(states)[:, :n], strict=True)):
        q = np.ascontiguousarray(state)
        work, at = gradient.work(form.rows), Point(time, q, 1.0)
        slope = written_rows(gradient, time, {"q": q}, own, rows, work, what)
        for _ in range(DIRECTIONS):
            along, dual = _random_direction(form, q, unit, generator)
            moved = partial(value_moved, time, q, along)
            expected, along_it = _derivative(moved, EPSILON), float(np.sum(slope * dual))
            if not np.isfinite([along_it, expected]).all() and index:
                continue
            if not np.isfinite(expected):
                raise InputError(
                    f"{of} of {system.name!r} is not finite at a start, or reads beyond its "
                    f"parameters, at {at}"
                )
            size = np.linalg.norm(slope) + abs(moved(EPSILON)) + 1e-300
            off = float(abs(along_it - expected) / size)
            if not off <= AGREED:
                opposite = abs(along_it + expected) <= AGREED * size
                sign = ", of opposite sign" if opposite else ""
                raise InputError(
                    f"{what} is {along_it:.9g} along a direction in which the differences of {of} "
                    f"give {expected:.9g}{sign}; expected the same to {AGREED:g}, at {at}"
                )
            worst = max(worst, off)
    return worst


def _function_of(form: Any) -> tuple[Kernel, int]:
    """The potential or Hamiltonian of a form, and the number of rows of a state that it reads."""
    if isinstance(form, SpheresLagrangian):
        return form.potential, form.bodies
    return form.hamiltonian, form.rows


def _random_direction(
    form: Any, q: Array, unit: bool, generator: np.random.Generator
) -> tuple[Array, Array]:
    """A random direction of the state, and the factors of the gradient in the derivative along it.

    If q are unit vectors, the direction is tangent to the spheres. On T*G, the direction is
    Q̇ = η̂ Q, q̇, π̇, ṗ, and the factors of ∂H/∂π, ∂H/∂p, and of f₂ for π and for p, are π̇, ṗ, −η
    and −q̇.
    """
    if isinstance(form, CotangentHamiltonian):
        moving = generator.standard_normal((form.algebra_rows, 3))
        moving /= np.linalg.norm(moving)
        half = form.algebra_rows // 2  # η, q̇, then π̇, ṗ
        turned = np.cross(moving[0], q[:3], axisb=0, axisc=0)
        along = np.concatenate([turned, moving[1:]])
        return along, np.concatenate([moving[half:], -moving[:half]])
    along = generator.standard_normal(q.shape)
    if getattr(form, "tracers", 0):  # the rows of tracers are not derivatives of H
        along[-form.tracers :] = 0.0
    if unit:
        along -= np.sum(along * q, axis=1, keepdims=True) * q
    along /= np.linalg.norm(along)
    return along, along


def _check_force(system: System, points: Iterable[Point]) -> None:
    """Refuse a force that does not write exactly one row for each body."""
    form = system.form
    if isinstance(form, SpheresLagrangian) and form.force is not None:
        n, what = form.bodies, f"the force on {system.name!r}"
        for point in points:
            given = {"q": point.state[:n], "omega": point.state[n : 2 * n]}
            _check_rows(form.force, what, point, given, form.parameters, n)


def _check_field(system: System, field: VectorField, points: Iterable[Point]) -> None:
    """Refuse a field that does not write exactly its rows."""
    what = f"the field of {system.name!r}"
    for point in points:
        given = {"y": point.state}
        _check_rows(field.field, what, point, given, field.parameters, field.rows)


def _check_rows(
    function: Kernel, what: str, point: Point, given: dict[str, Array], parameters: Any, rows: int
) -> None:
    """Refuse a function that does not write exactly its rows, and finite ones at a start."""
    work = function.work(len(point.state))
    found = written_rows(function, point.time, given, parameters, rows, work, what)
    if point.time == 0.0 and not np.isfinite(found).all():
        raise InputError(
            f"{what} is not finite at a start, leaves a row unwritten, or reads beyond its "
            "parameters"
        )


def _check_time_dependence(system: System, points: Iterable[Point]) -> None:
    """Refuse a potential or Hamiltonian that depends on time without being declared so."""
    form: Any = system.form
    if getattr(form, "time_dependent", True):
        return
    (value, n), own = _function_of(form), np.array(form.parameters, dtype=float)
    for point in points:
        q = np.ascontiguousarray(point.state[:n])
        first, now = (float(value.scalar(at, q, own)) for at in (0.0, point.time))
        if np.isfinite(first) and now != first:
            raise InputError(
                f"{value.function.__name__} of {system.name!r} is {first:.9g} at t = 0 and "
                f"{now:.9g} at {point}: it depends on time. Give its form time_dependent=True"
            )


# --- invariants and constraints ------------------------------------------------------------------


@dataclass(frozen=True)
class _Measured:
    """A quantity of a system, with the parameters of its function."""

    system: System
    quantity: Quantity
    parameters: Array

    @property
    def what(self) -> str:
        return f"{self.quantity.name!r} of {self.system.name!r}"

    def read(self, state: Array) -> Array:
        """The argument of the quantity for a state; (q, q̇) for Lagrangians, except constraints."""
        lagrangian = isinstance(self.system.form, SpheresLagrangian)
        moving = lagrangian and self.quantity.kind != "constraint"
        return np.ascontiguousarray(velocities(state) if moving else state)

    def of_read(self, time: float, y: Array) -> Array:
        """The components of the quantity for an argument from `read`."""
        rows = len(y) if self.quantity.each_row else 1
        found = plain_rows(self.quantity.function, time, y, self.parameters, rows)
        return found[0, list(self.quantity.columns)]

    def at(self, time: float, state: Array) -> Array:
        """The components of the quantity for a state of the form."""
        return self.of_read(time, self.read(state))


def check_quantity(
    system: System, quantity: Quantity, points: Sequence[Point], parameters: Array
) -> None:
    """Refuse a quantity that cannot be evaluated, or does not have its declared properties.

    Parameters
    ----------
    system : systems.System
    quantity : systems.Quantity
    points : sequence of Point
        The quantity must have a value at the first point.
    parameters : ndarray
        Parameters of its function.

    Raises
    ------
    InputError
        If it cannot be evaluated, or a declared property does not hold.
    """
    measured = _Measured(system, quantity, parameters)
    what = measured.what
    check_known("kind", quantity.kind, KINDS, where=f"of {what}")
    check_known("degree", quantity.degree, ALL_DEGREES, where=f"of {what}")
    size = max(1, len(quantity.components))
    if len(quantity.columns) != size or not set(quantity.columns) <= {0, 1, 2}:
        raise InputError(
            f"{what} has columns = {quantity.columns!r}; expected {size} of 0, 1 and 2"
        )
    work, rows = quantity.function.work(system.rows), system.rows if quantity.each_row else 1
    given = {"y": measured.read(points[0].state)}
    found = written_rows(quantity.function, 0.0, given, parameters, rows, work, what)[0]
    if np.isnan(found[list(quantity.columns)]).any():
        raise InputError(f"{what} is NaN at a start, or leaves a component of its row unwritten")
    for point in points:
        if quantity.kind in CONSERVED:
            _check_invariant(measured, point)
            _check_degree(measured, point)
        elif quantity.kind == "constraint":
            _check_constraint(measured, point)


def _rates(measured: _Measured, point: Point) -> tuple[Array, float, float]:
    """Derivative of a quantity along the field, its error, and the size of other derivatives.

    The error includes the change with half the step and the rounding of states. The other
    derivatives are along random directions with rows of the same norms as those of the field.
    """
    (time, state, lasting), generator = point, np.random.default_rng(3)
    velocity = _field_at(measured.system.form.vector_field(), time, state)

    def along(direction: Array, step: float, passing: float = 0.0) -> Array:
        return _derivative(lambda e: measured.at(time + passing * e, state + e * direction), step)

    def beside(vectors: Array, step: float) -> float:
        found, norms = 0.0, np.linalg.norm(vectors, axis=1, keepdims=True)
        for _ in range(DIRECTIONS):
            other = generator.standard_normal(state.shape)
            other *= norms / np.linalg.norm(other, axis=1, keepdims=True)
            found = max(found, _size(along(other, step)))
        return found

    step = EPSILON * lasting
    rate, finer = along(velocity, step, 1.0), along(velocity, 0.5 * step, 1.0)
    rounding = np.finfo(float).eps * beside(state, EPSILON) / step  # of the states
    return rate, _size(finer - rate) + rounding, beside(velocity, step)


def _check_invariant(measured: _Measured, point: Point) -> None:
    rate, error, size = _rates(measured, point)
    value = _size(measured.at(point.time, point.state))
    bound = 4.0 * error + AGREED * size + ROUNDING * value / point.lasting
    if np.isfinite([worst := _size(rate), bound]).all() and worst > bound:
        raise InputError(
            f"{measured.what} is declared to be conserved, and changes at the rate {worst:.3g} "
            f"along the field; expected 0 to {bound:.2g}, at {point}"
        )


def _check_degree(measured: _Measured, point: Point) -> None:
    """Refuse a declared degree below the true one, for which finite differences do not vanish."""
    quantity = measured.quantity
    if quantity.degree not in ("linear", "quadratic"):
        return
    generator, y = np.random.default_rng(4), measured.read(point.state)
    along = generator.standard_normal(y.shape) * max(1.0, _size(y))

    def difference(*directions: Array) -> tuple[float, float]:
        """The finite difference along several directions, and the largest value in it."""
        ends = [(y, 1.0)]
        for direction in directions:
            ends += [(end + direction, -sign) for end, sign in ends]
        values = np.array([sign * measured.of_read(point.time, end) for end, sign in ends])
        return _size(sum(values)), _size(values)

    order = 2 if quantity.degree == "linear" else 3
    found, size = difference(*[along] * order)
    of_spins = quantity.kind == "energy" and isinstance(measured.system.form, SpinHamiltonian)
    if parted := of_spins and order == 3:  # a sum of functions of one spin each
        for row in range(1, len(y)):
            one, two = (np.zeros_like(y) for _ in range(2))
            one[:row], two[row:] = along[:row], along[row:]
            found = max(found, difference(one, two)[0])
    if np.isfinite([found, size]).all() and found > AGREED * size:
        words = "a sum of quadratic functions of one spin each" if parted else quantity.degree
        raise InputError(
            f"{measured.what} is declared {quantity.degree}, and is not {words} in the state: a "
            f"difference that would vanish is {found:.3g}, of values up to {size:.3g}, at {point}"
        )


def _check_constraint(measured: _Measured, point: Point) -> None:
    """Refuse a constraint that a state violates, or that the field does not preserve."""
    time, state, lasting = point
    change = EPSILON * lasting * _field_at(measured.system.form.vector_field(), time, state)
    grown = _size(measured.at(time, state + change)) - _size(measured.at(time, state))
    size, moved = max(1.0, _size(state) ** 2), _size(change)
    if np.isfinite([grown, moved]).all() and grown > 1e-2 * moved + 1e-13 * size:
        raise InputError(
            f"the constraint {measured.what} changes by {grown:.3g} where the field moves the "
            f"state by {moved:.3g}: the motion leaves the manifold, at {point}"
        )


def _check_followed(measured: _Measured, points: Iterable[Point]) -> None:
    """Refuse an energy that differs from the energy that the form monitors at every step."""
    field = measured.system.form.vector_field()
    for point in points:
        time, state, _ = point
        followed = float(plain_rows(field.monitor, time, state, field.parameters, 1)[0, 0])
        value = float(measured.at(time, state)[0])
        if abs(followed - value) > AGREED * (abs(followed) + abs(value)):
            raise InputError(
                f"{measured.what} is {value:.9g}, and the energy of its form, which is followed at "
                f"every step, {followed:.9g}, at {point}"
            )


def _check_unit_rows(system: System, points: Iterable[Point]) -> None:
    """Refuse declared unit vectors of a `HomogeneousFlow` whose length the field changes."""
    field = system.form.vector_field()
    for row in getattr(system.form, "unit_rows", ()):
        for point in points:
            own, velocity = point.state[row], _field_at(field, point.time, point.state)[row]
            size, along = np.linalg.norm(velocity), abs(velocity @ own)
            if abs(own @ own - 1.0) > AGREED or along > AGREED * size:
                raise InputError(
                    f"row {row} of {system.name!r} is declared by unit_rows to be a unit vector; "
                    f"its length is {np.linalg.norm(own):.6g}, and changes at the rate "
                    f"{along:.3g}, at {point}"
                )


def _check_reference(system: System, start: Point) -> None:
    """Refuse an invariant that a reference solution does not preserve."""
    run = integrators.integrate(
        system, integrators.get("dop853"), start.state, duration=start.lasting, samples=1,
        tolerance=TOLERANCE,
    )  # fmt: skip
    for quantity in system.quantities:
        if run.status or quantity.kind not in CONSERVED:
            continue
        measured = _Measured(system, quantity, system.form.vector_field().parameters)
        first, last = (measured.at(*one) for one in zip(run.times, run.states, strict=True))
        *_, size = _rates(measured, start)
        off, bound = _size(last - first), CHANGED * (size * start.lasting + _size(first))
        if off > bound:
            raise InputError(
                f"{measured.what} is declared to be conserved, and a reference of tolerance "
                f"{TOLERANCE:g} changes it by {off:.3g} until t = {start.lasting:.3g}; expected at "
                f"most {bound:.2g}"
            )


# --- flows in closed form ------------------------------------------------------------------------


def _check_flows(system: System, points: Iterable[Point]) -> None:
    """Refuse flows of a form that are not exact, or do not add up to its field."""
    form: Any = system.form
    for key in ("split", "exact"):
        if (flow := getattr(form, key, None)) is not None:
            if isinstance(flow, ExactFlow):
                flow = SplitFlow(flow.flow, 1, tuple(range(form.rows)))
            for point in points:
                _check_flow(form, flow, point, f"the {key} flow of {system.name!r}")


def _check_flow(form: Any, flow: SplitFlow, point: Point, what: str) -> None:
    time, state, lasting = point
    own = np.array(form.parameters, dtype=float)
    velocity = _field_at(form.vector_field(), time, state)
    still = [row for row in range(len(state)) if row not in flow.varying]
    rate, size, half = np.zeros_like(state), max(1.0, _size(state)), EXACT_STEP * lasting

    def moved(piece: int, start: Array, begin: float, span: float) -> Array:
        w, low = start.copy(), np.zeros_like(start)
        flow.flow.scalar(piece, begin, span, w, low, own)
        if not np.array_equal(w, start):
            raise InputError(f"{what} writes to w; expected that it adds its change to low")
        result: Array = start + low
        return result

    for piece in range(flow.pieces):
        rate += _derivative(partial(moved, piece, state, time), EPSILON * lasting)
        twice = moved(piece, moved(piece, state, time, half), time + half, half)
        once = moved(piece, state, time, 2.0 * half)
        off = _size(twice - once)
        if np.isfinite(off) and off > EXACT * size:
            raise InputError(
                f"piece {piece} of {what} is no exact flow: two steps of {half:.3g} and one of "
                f"{2 * half:.3g} end {off:.3g} apart, from {point}"
            )
        stretched = np.abs(np.linalg.norm(once, axis=1) - np.linalg.norm(state, axis=1))[still]
        if np.max(stretched, initial=0.0) > EXACT * size:
            raise InputError(
                f"piece {piece} of {what} changes the length of row {still[np.argmax(stretched)]}, "
                f"which 'varying' does not name, from {point}"
            )
    off, bound = _size(rate - velocity), AGREED * (_size(velocity) + size / lasting)
    if np.isfinite(off) and off > bound:
        raise InputError(
            f"{what} has pieces that do not add up to the field: they differ from it by {off:.3g}, "
            f"where its largest component is {_size(velocity):.3g}; expected at most {bound:.2g}, "
            f"at {point}"
        )


def _check_rigid_body(system: System, points: Iterable[Point]) -> None:
    """Refuse a system that is declared a rigid body without being one."""
    form: Any = system.form
    if not getattr(form, "rigid_body", False):
        return
    own = np.array(form.parameters, dtype=float)
    for time, state, _ in points:
        one, four = (float(form.hamiltonian.scalar(time, k * state, own)) for k in (1.0, 2.0))
        if form.rows > 1 or abs(four - 4.0 * one) > AGREED * abs(four):
            raise InputError(
                f"{system.name!r} is declared a rigid_body, whose H is ½ w·I⁻¹w; it is "
                f"{one:.6g} at w = {state[0]} and {four:.6g}, not {4 * one:.6g}, at 2w"
            )
