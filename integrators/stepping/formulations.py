"""States as a problem steps them, as they are stored, and as quantities read them.

A state is stored as (q, ω) of a Lagrangian system, and its invariants read (q, q̇). A problem may
step (q, q̇) itself, or (q, π) with the momenta; any other system has one kind of state.
"""

import numpy as np

from integrators.forms.forms import angular_velocities, velocities
from integrators.stepping import loop


def in_formulation(problem, states):
    """Stored states in the problem's formulation; shape ``(…, rows, 3)`` to the same."""
    if problem.conversions:
        return _converted(problem, problem.conversions[0], states)
    return velocities(states) if problem.formulation == "q_qdot" else np.asarray(states)


def canonical(problem, states):
    """States in the problem's formulation as they are stored: (q, ω) of a Lagrangian."""
    if problem.conversions:
        return _converted(problem, problem.conversions[1], states)
    return angular_velocities(states) if problem.formulation == "q_qdot" else states


def lagrangian(problem, states):
    """States in the problem's formulation as quantities read them: (q, q̇) of a Lagrangian."""
    if problem.conversions:
        return velocities(canonical(problem, states))
    return velocities(states) if problem.formulation == "q_omega" else states


def _converted(problem, kernel, states):
    flat = np.ascontiguousarray(np.reshape(states, (-1, problem.rows, 3)), dtype=float)
    out, work = np.empty_like(flat), np.zeros(1 + kernel.work(problem.rows))
    times = np.zeros(len(flat))
    with np.errstate(all="ignore"):  # a run that blew up has inf and NaN
        loop.evaluate.scalar(kernel.scalar, times, flat, problem.parameters, out, work)
    return out.reshape(np.shape(states))
