"""States as a problem steps them, as they are stored, and as quantities read them.

A state is stored as (q, ω) of a Lagrangian system, and its invariants read (q, q̇). A problem may
step (q, q̇) itself, or (q, π) with the momenta; any other system has one kind of state.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from integrators.compiler.elements import DOUBLE, Element
from integrators.compiler.kernels import Kernel, inlined, kernel
from integrators.compiler.vectors import cross, get, put, scale
from integrators.forms.forms import angular_velocities, velocities
from integrators.stepping import loop


class Bound(Protocol):
    """A `Problem` or `AdaptiveProblem`: what conversions between formulations read of it."""

    @property
    def rows(self) -> int:
        """Rows of the state."""

    @property
    def parameters(self) -> np.ndarray:
        """The parameters as kernels read them."""

    @property
    def formulation(self) -> str:
        """Variables of the state, as in `VectorField`."""

    @property
    def conversions(self) -> tuple[Kernel, ...]:
        """Conversions between formulations, as in `HomogeneousFlow`."""

    @property
    def elements(self) -> tuple[Element, Element]:
        """The `Element` of one trajectory alone, and that of trajectories side by side."""


def to_stepped_states(
    problem: Bound, states: ArrayLike, element: Element | None = None
) -> np.ndarray:
    """Convert stored states to the problem's formulation; shape ``(…, rows, 3)`` to the same.

    Here and below, the axes of `element` follow: unless given, of one trajectory alone, so that in
    double-double there is a last axis of high and low.
    """
    if problem.conversions:
        return _apply_conversion(problem, problem.conversions[0], states, element)
    if problem.formulation != "q_qdot":
        return np.asarray(states)
    return _convert_velocities(problem, velocities, _to_velocities, states, element)


def to_stored_states(
    problem: Bound, states: np.ndarray, element: Element | None = None
) -> np.ndarray:
    """Convert states from the problem's formulation to the stored one: (q, ω) of a Lagrangian."""
    if problem.conversions:
        return _apply_conversion(problem, problem.conversions[1], states, element)
    if problem.formulation != "q_qdot":
        return states
    return _convert_velocities(problem, angular_velocities, _to_angular_velocities, states, element)


def conversion_kernels(problem: Bound) -> tuple[Kernel, ...]:
    """The `whole_state` kernels that `to_stepped_states` and `to_stored_states` call."""
    if problem.conversions:
        return problem.conversions
    if problem.formulation != "q_qdot":
        return _itself, _itself
    return _to_velocities, _to_angular_velocities


def to_lagrangian_states(problem: Bound, states: np.ndarray) -> np.ndarray:
    """Convert states from the problem's formulation to (q, q̇), which quantities read."""
    if problem.conversions:
        states = to_stored_states(problem, states)
    elif problem.formulation != "q_omega":
        return states
    return _convert_velocities(problem, velocities, _to_velocities, states)


def _convert_velocities(
    problem: Bound,
    of_doubles: Callable[[Any], np.ndarray],
    conversion: Kernel,
    states: ArrayLike,
    element: Element | None = None,
) -> np.ndarray:
    if (element or problem.elements[0]) is DOUBLE:
        return of_doubles(states)
    return _apply_conversion(problem, conversion, states, element)


@inlined
def _cross_halves(y, out, sign):
    n = y.shape[0] // 2
    for i in range(y.shape[0]):
        put(out, i, get(y, i))
    for i in range(n):
        put(out, n + i, scale(sign, cross(get(y, n + i), get(y, i))))


@kernel()
def _itself(t, y, p, out, work):
    for i in range(y.shape[0]):
        put(out, i, get(y, i))


@kernel()
def _to_velocities(t, y, p, out, work):
    """q̇ = ω × q, (2.10)"""
    _cross_halves(y, out, 1.0)


@kernel()
def _to_angular_velocities(t, y, p, out, work):
    """ω = q × q̇, (2.11)"""
    _cross_halves(y, out, -1.0)


def _apply_conversion(
    problem: Bound, conversion: Kernel, states: ArrayLike, element: Element | None = None
) -> np.ndarray:
    element = element or problem.elements[0]
    shape = (-1, problem.rows, 3, *element.shape)
    flat = np.ascontiguousarray(np.reshape(states, shape), dtype=float)
    out, times = np.empty_like(flat), np.zeros((len(flat), *element.numbers))
    with np.errstate(all="ignore"):  # a run that blew up has inf and NaN
        loop.evaluate(conversion, times, flat, problem.parameters, out, element)
    return out.reshape(np.shape(states))
