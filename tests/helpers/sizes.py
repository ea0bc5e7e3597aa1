"""Sizes of quantities that their round-off is in proportion to."""

import numpy as np

from integrators.forms.forms import split_state, velocities
from systems.rigid.base import RigidSystem


def natural_size(quantity, case, state):
    """What round-off of a quantity is in proportion to: 1, max |q̇_i| or max_i |M||q̇|.

    Of spins max κ_i|w_i|, max |w_i|² and max |w_i||∂H_i|.
    """
    form = case.system.form
    if isinstance(case.system, RigidSystem):
        return size_of_parts(quantity, case, state)
    if not case.mechanical:
        length = np.linalg.norm(state, axis=1)
        slope = np.linalg.norm(case.gradient(state), axis=1)
        strengths = np.abs(getattr(form, "strengths", 1.0))
        sizes = {"momentum_map": strengths * length, "energy": length * slope}
        return np.max({"unit_length": 1.0, **sizes}.get(quantity.kind, length**2))
    speed = np.linalg.norm(split_state(velocities(state))[1], axis=1)
    sizes = {"unit_length": 1.0, "tangency": speed.max()}
    return sizes.get(quantity.name, np.max(np.abs(form.inertia_matrix) @ speed))


def size_of_parts(quantity, case, state):
    """Max |ω| over tangents, 1, and of an invariant by how much its rows change it: |y·∂/∂y|."""
    if quantity.kind == "constraint":
        tangents = [part.key for part in case.system.parts if part.kind == "tangent"]
        lengths = [np.linalg.norm(case.system.of(state, key)) for key in tangents]
        return max(lengths) if quantity.name == "tangency" else 1.0
    changes = []
    for row in range(len(state)):
        ends = np.array([state, state])
        ends[:, row] *= [[1.0 + 1e-6], [1.0 - 1e-6]]
        found = case.evaluate(quantity.function, ends)[:, quantity.columns]
        changes.append(np.abs(found[0] - found[1]) / 2e-6)
    return np.max(changes)
