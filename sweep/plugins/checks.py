"""Checks of plugins before any work: that they compile, stay within their arrays, are consistent.

A gradient is compared with differences of its potential or Hamiltonian along random directions
that are tangent to the manifold,

    g·d ≈ (V(y + εd) − V(y − εd)) / 2ε,

whose own error is some 1e-11 of V.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.elements import TANGENTS, Element
from integrators.compiler.kernels import Kernel
from integrators.errors import InputError
from integrators.forms.forms import SpheresLagrangian, velocities
from integrators.forms.hamiltonians import SpinHamiltonian
from integrators.forms.lie_poisson import LiePoissonHamiltonian
from integrators.method import Integrator
from sweep.plugins.exports import Source
from systems import Quantity, System

if TYPE_CHECKING:
    from sweep.plugins.registry import Library

EPSILON = 6e-6  # the cube root of double precision
AGREED = 1e-5  # of the gradient and of V; a mistake is rarely smaller
DIRECTIONS = 4
NEARBY = 2  # random states about a start, which may be an equilibrium
SPREAD = 0.1  # of those, in radians
GUARD = 8  # numbers behind an array that a kernel must not touch
UNTOUCHED = -1.2345e67


Array = NDArray[np.float64]
WritingCall = Callable[[Array, Array, Array], object]  # of parameters, out and work


class Entry(Protocol):
    """What is needed of a `sweep.study.IntegratorEntry`."""

    @property
    def name(self) -> str:
        """Of the integrator, with its modifiers."""

    @property
    def label(self) -> str:
        """By which the store knows it."""

    def integrator(self) -> Integrator:
        """The integrator."""


def check_gradient(system: System, states: NDArray[np.float64]) -> float | None:
    """Compare the gradient that a system gives with differences of what it is the gradient of.

    Parameters
    ----------
    system : systems.System
    states : ndarray, shape (S, rows, 3)
        All but the first may be where the value is not finite, which are left out.

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
    form = system.form
    if isinstance(form, SpheresLagrangian):
        value, gradient, names = form.potential, form.potential_gradient, "potential_gradient"
    elif isinstance(form, (SpinHamiltonian, LiePoissonHamiltonian)):
        value, gradient, names = form.hamiltonian, form.gradient, "gradient"
    else:
        return None
    generator = np.random.default_rng(1)  # not what random states are from
    lagrangian, worst = isinstance(form, SpheresLagrangian), 0.0
    own, n = np.array(form.parameters, dtype=float), form.bodies if lagrangian else form.rows
    unit = lagrangian or getattr(form, "lengths", "any") == "unit"
    for index, state in enumerate(np.asarray(states)[:, :n]):
        q = np.ascontiguousarray(state)
        work = gradient.work(form.rows)
        slope = evaluate_plugin_kernel(gradient, q, own, n, work, f"{names} of {system.name!r}")
        for _ in range(DIRECTIONS):
            along = _random_tangent_direction(q, unit, generator)
            ends = [_point_moved_by_step(q, sign * EPSILON * along, unit) for sign in (1, -1)]
            ahead, behind = (float(value.scalar(0.0, end, own)) for end in ends)
            expected, found = (ahead - behind) / (2 * EPSILON), float(np.sum(slope * along))
            if not np.isfinite([found, expected]).all() and index:
                continue
            off = float(abs(found - expected) / (np.linalg.norm(slope) + abs(ahead) + 1e-300))
            if not off <= AGREED:
                raise InputError(
                    f"{names} of {system.name!r} is {found:.9g} along a direction in which the "
                    f"differences of {value.function.__name__} give {expected:.9g}; expected the "
                    f"same to {AGREED:g}, at {_point_in_words(q)}"
                )
            worst = max(worst, off)
    return worst


def _random_tangent_direction(
    q: NDArray[np.float64], unit: bool, generator: np.random.Generator
) -> NDArray[np.float64]:
    """A random direction, tangent to the spheres at q where these are unit vectors."""
    along = generator.standard_normal(q.shape)
    if unit:
        along -= np.sum(along * q, axis=1, keepdims=True) * q
    return along / np.linalg.norm(along)


def _point_moved_by_step(
    q: NDArray[np.float64], step: NDArray[np.float64], unit: bool
) -> NDArray[np.float64]:
    moved = q + step
    return moved / np.linalg.norm(moved, axis=1, keepdims=True) if unit else moved


def _point_in_words(q: NDArray[np.float64]) -> str:
    first = ", ".join(f"{x:.3g}" for x in q[0])
    return f"({first})" + (f" and {len(q) - 1} more" if len(q) > 1 else "")


def evaluate_plugin_kernel(
    function: Kernel,
    state: NDArray[np.float64],
    parameters: NDArray[np.float64],
    rows: int,
    work: int,
    what: str,
) -> NDArray[np.float64]:
    """The `rows` rows that a kernel of the whole state writes with scratch of `work` numbers.

    They are NaN where it leaves a row, or what it takes from its scratch, unwritten, or reads
    beyond its parameters.

    Raises
    ------
    InputError
        If it writes beyond its arrays.
    """

    def call(
        own: NDArray[np.float64], out: NDArray[np.float64], scratch: NDArray[np.float64]
    ) -> None:
        function.scalar(0.0, state, own, out, scratch)

    return _rows_written_by_call(call, parameters, rows, work, what)


def _rows_written_by_call(
    call: WritingCall, parameters: NDArray[np.float64], rows: int, work: int, what: str
) -> NDArray[np.float64]:
    """As `evaluate_plugin_kernel`, of ``call(parameters, out, work)``."""
    unwritten, guard = np.full(3 * rows + work, np.nan), np.full(GUARD, UNTOUCHED)
    out, scratch = (np.append(unwritten[:size], guard) for size in (3 * rows, work))
    own = np.append(parameters, np.full(GUARD, np.nan))[: len(parameters)]
    mine = out[: 3 * rows].reshape(rows, 3)
    call(own, mine, scratch[:work])
    for name, array, size in (("out", out, 3 * rows), ("work", scratch, work)):
        if np.any(array[size:] != UNTOUCHED):
            raise InputError(f"{what} writes beyond the {size} numbers of its '{name}'")
    return mine


def try_plugin_system(
    library: "Library", name: str, system: System, start: NDArray[np.float64]
) -> None:
    """Try a plugin's system at and about a start; `InputError` if it is wrong.

    Parameters
    ----------
    library : sweep.plugins.registry.Library
    name : str
        Of the system, which may be built in: then there is nothing to do.
    system : systems.System
    start : ndarray, shape (rows, 3)
    """
    plugin = library.origin("system", name)
    if plugin is None:
        return
    with plugin.blame_plugin_for_errors(f"fails with the system {name!r}"):
        states = np.concatenate([start[None], system.ensemble(NEARBY, 0, start, SPREAD)])
        check_gradient(system, states)
        _try_plugin_force(system, start)
        field = system.form.vector_field()
        for quantity in system.quantities:
            _try_plugin_quantity(quantity, start, field.parameters, name)
        work = field.field.work(system.rows)
        what = f"the field of {name!r}"
        found = evaluate_plugin_kernel(
            field.field, start, field.parameters, system.rows, work, what
        )
        if not np.isfinite(found).all():
            raise InputError(
                f"{what} is not finite at a start, leaves a row unwritten, or reads beyond its "
                "parameters"
            )


def _try_plugin_force(system: System, start: NDArray[np.float64]) -> None:
    """Refuse a force that does not write a row for each body, and nothing else."""
    form: Any = system.form
    force = getattr(form, "force", None)
    if force is None:
        return
    n, what = form.bodies, f"the force on {system.name!r}"
    q, omega = (np.ascontiguousarray(part) for part in (start[:n], start[n : 2 * n]))

    def call(
        own: NDArray[np.float64], out: NDArray[np.float64], scratch: NDArray[np.float64]
    ) -> None:
        force.scalar(0.0, q, omega, own, out, scratch)

    own: Array = np.array(form.parameters, dtype=float)
    found = _rows_written_by_call(call, own, n, force.work(form.rows), what)
    if not np.isfinite(found).all():
        raise InputError(
            f"{what} is not finite at a start, leaves the row of a body unwritten, or reads beyond "
            "its parameters"
        )


def try_plugin_observables(
    library: "Library",
    record: Sequence[str],
    system: System,
    start: NDArray[np.float64],
    elements: Iterable[Element] = (),
) -> None:
    """Try the plugins' observables that are recorded of a system; `InputError` if one fails.

    For element types besides double they are compiled only.
    """
    form: Any = system.form
    own: Array = np.array(form.parameters, dtype=float)
    state = velocities(start) if isinstance(system.form, SpheresLagrangian) else start
    for quantity in library.quantities(system):
        plugin = library.origin("observable", quantity.name)
        if plugin is not None and quantity.name in record:
            with plugin.blame_plugin_for_errors(f"fails with the observable {quantity.name!r}"):
                _try_plugin_quantity(quantity, state, own, system.name)
            for element in elements:
                _compile_plugin_kernel(plugin, quantity.function, element)


def _try_plugin_quantity(
    quantity: Quantity, start: NDArray[np.float64], parameters: NDArray[np.float64], name: str
) -> None:
    what = f"{quantity.name!r} of {name!r}"
    work = quantity.function.work(len(start))
    rows = len(start) if quantity.each_row else 1
    values = evaluate_plugin_kernel(quantity.function, start, parameters, rows, work, what)[0]
    if np.isnan(values[list(quantity.columns)]).any():
        raise InputError(f"{what} is NaN at a start, or leaves a component of its row unwritten")


def try_plugin_integrators(
    library: "Library", entries: Iterable[Entry], system: System, with_tangents: bool = False
) -> None:
    """Compile integrators for a system where one of both is from a plugin; or `InputError`.

    Of other element types than that of a run alone only the plugin's own kernels are compiled: of
    runs side by side, and with tangents where steps are computed with these.
    """
    of_system = library.origin("system", system.name)
    for entry in entries:
        plugin = library.origin("integrator", entry.name.partition("+")[0]) or of_system
        if plugin is None:
            continue
        with plugin.blame_plugin_for_errors(f"fails with {entry.label!r} on {system.name!r}"):
            integrator = entry.integrator()
            problem = integrator.bind(system)
            alone, beside = problem.elements
            problem.kernels(alone)
        elements = [] if integrator.adaptive else [beside]  # adaptive runs are computed one by one
        elements += [TANGENTS] if with_tangents else []
        for made in kernels_of_source(problem.made_from, plugin):
            for element in elements:
                _compile_plugin_kernel(plugin, made, element)


def kernels_of_source(kernels: Iterable[Any], plugin: Source) -> list[Kernel]:
    """Of kernels, and those that they are made from, the ones that a plugin's file has."""
    found, left = {}, list(kernels)
    while left:
        made = left.pop()
        if isinstance(made, Kernel):
            left += made.made_from
            if made.function.__code__.co_filename == plugin.file:
                found[made.label] = made
    return list(found.values())


def _compile_plugin_kernel(plugin: Source, made: Kernel, element: Element) -> None:
    name = made.function.__name__
    with plugin.blame_plugin_for_errors(f"has {name!r}, which does not compile for {element.name}"):
        made.compiled(element)
