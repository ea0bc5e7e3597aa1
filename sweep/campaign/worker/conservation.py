"""What a system conserves, against the tolerance of an adaptive integrator.

At a tolerance of δ a step makes an error of δ (1 + |y|) in each component y of the state, and by it
one in what the system conserves: in the root mean square over the components of a body, those of
several bodies being independent, and as large as at the start. Errors of many steps may add up. A
step that leads past a singularity breaks what is conserved by far more, which neither its own error
estimate nor those of later steps tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from integrators.stepping import loop
from integrators.stepping.formulations import to_lagrangian_states
from sweep.store.failures import UNTRUSTED
from systems.base import CONSERVED

if TYPE_CHECKING:
    from integrators.stepping.adaptive import AdaptiveProblem
    from sweep.study.run_table import States
    from systems.base import Quantity, System

DIRECTIONS = 96  # at most, in which a state is nudged: by chance where it has more components
NUDGE = 1e-6  # of a component, to see what a quantity changes by


def conserving_samples(
    system: System,
    problem: AdaptiveProblem,
    initial: States,
    states: States,
    times: NDArray[np.float64],
    tolerance: float,
    steps: int,
) -> int:
    """Number of leading samples at which all is conserved, to `UNTRUSTED` tolerances and `steps`.

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
        That were taken until the last sample.
    """
    parts = NUDGE * _directions(initial.size).reshape(-1, *initial.shape)
    nudged = initial + parts * (1 + np.abs(initial))
    begun = np.zeros(len(nudged))
    kept = np.ones(len(states), dtype=bool)
    for quantity in (own for own in system.quantities if own.kind in CONSERVED):
        first = _evaluate(problem, quantity, initial[None], begun[:1])
        changes = (_evaluate(problem, quantity, nudged, begun) - first) / NUDGE
        scale = np.sqrt(np.sum(changes**2, axis=0) * system.bodies / initial.size)
        errors = np.abs(_evaluate(problem, quantity, states, times) - first)
        kept &= ~((errors > (UNTRUSTED + steps) * tolerance * scale) & (scale > 0)).any(axis=1)
    return int(kept.cumprod().sum())


def _directions(size: int) -> NDArray[np.float64]:
    """Directions in which the squares of a gradient's components add up to that of its norm."""
    if size <= DIRECTIONS:
        return np.eye(size)
    chosen = np.random.default_rng(0).standard_normal((DIRECTIONS, size))
    scaled: NDArray[np.float64] = chosen / np.sqrt(DIRECTIONS)
    return scaled


def _evaluate(
    problem: AdaptiveProblem, quantity: Quantity, states: States, times: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The components of a quantity, shape (states, components)."""
    read = np.ascontiguousarray(to_lagrangian_states(problem, states))
    out = np.zeros((len(read), 1, 3))
    work = np.zeros(quantity.function.work(problem.rows) + 1)
    loop.evaluate.scalar(quantity.function.scalar, times, read, problem.parameters, out, work)
    found: NDArray[np.float64] = out[:, 0, list(quantity.columns)]
    return found
