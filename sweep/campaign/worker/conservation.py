"""Quantities of states, and a check that runs preserve the conserved ones.

At a tolerance of δ, a step makes an error of δ (1 + |y|) in each component y of the state, which
changes conserved quantities. The change is estimated at the start, as a root mean square over the
components of a body, with independent errors of several bodies. Errors of many steps may add up. A
step past a singularity changes conserved quantities by far more, which neither its own error
estimate nor those of later steps show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from integrators.stepping.formulations import to_lagrangian_states
from integrators.stepping.loop import evaluate
from sweep.store.reference_ends import UNTRUSTED
from systems.base import CONSERVED

if TYPE_CHECKING:
    from integrators.stepping.formulations import Bound
    from sweep.study.run_table import States
    from systems.base import Quantity, System

DIRECTIONS = 96  # at most, in which a state is nudged: by chance where it has more components
NUDGE = 1e-6  # of a component, to see what a quantity changes by


def quantity_rows(
    problem: Bound, quantity: Quantity, states: States, times: np.ndarray, parameters: np.ndarray
) -> np.ndarray:
    """The rows of a quantity for states, in the arithmetic of a problem; NaN beyond its rows.

    Parameters
    ----------
    problem : Problem or AdaptiveProblem
    quantity : systems.Quantity
    states : ndarray, shape (states, rows, 3, …)
        As it reads them: from `to_lagrangian_states`, or a constraint in the problem's formulation.
    times : ndarray, shape (states, …)
    parameters : ndarray
        Parameters that the quantity reads.

    Returns
    -------
    ndarray, shape (states, 1, 3, …)
        With as many rows as the states, if the quantity has a value for each row.
    """
    element, rows = problem.elements[0], problem.rows
    out = np.full((len(states), rows if quantity.each_row else 1, 3, *element.shape), np.nan)
    evaluate(quantity.function, times, states, parameters, out, element)
    return out


def conserving_samples(
    system: System,
    problem: Bound,
    initial: States,
    states: States,
    times: NDArray[np.float64],
    tolerance: float,
    steps: int,
) -> int:
    """Number of leading samples that are finite and preserve all conserved quantities.

    The bound on their change is `UNTRUSTED` tolerances, and one more for each step.

    Parameters
    ----------
    system : systems.System
    problem : AdaptiveProblem
        In double precision.
    initial : ndarray, shape (rows, 3)
        At time 0.
    states : ndarray, shape (S, rows, 3)
        In the problem's formulation, as the initial one.
    times : ndarray, shape (S,)
    tolerance : float
    steps : int
        Number of steps until the last sample.
    """
    finite = int(np.isfinite(states).all(axis=(1, 2)).cumprod().sum())
    parts = NUDGE * _directions(initial.size).reshape(-1, *initial.shape)
    nudged = initial + parts * (1 + np.abs(initial))
    every = to_lagrangian_states(problem, np.concatenate([initial[None], nudged, states[:finite]]))
    at = np.concatenate([np.zeros(1 + len(nudged)), times[:finite]])
    kept = np.ones(finite, dtype=bool)
    for quantity in (own for own in system.quantities if own.kind in CONSERVED):
        rows = quantity_rows(problem, quantity, every, at, problem.parameters)
        first, near, values = np.split(rows[:, 0, list(quantity.columns)], [1, 1 + len(nudged)])
        scale = np.sqrt(
            np.sum(((near - first) / NUDGE) ** 2, axis=0) * system.bodies / initial.size
        )
        broken = np.abs(values - first) > (UNTRUSTED + steps) * tolerance * scale
        kept &= ~(broken & (scale > 0)).any(axis=1)
    return int(kept.cumprod().sum())


def _directions(size: int) -> NDArray[np.float64]:
    """Directions in which the squares of a gradient's components add up to that of its norm."""
    if size <= DIRECTIONS:
        return np.eye(size)
    chosen = np.random.default_rng(0).standard_normal((DIRECTIONS, size))
    scaled: NDArray[np.float64] = chosen / np.sqrt(DIRECTIONS)
    return scaled
