"""Steps with tangents: values are to the last bit those of doubles, and derivatives exact."""

import numpy as np

from integrators.compiler.elements import DOUBLE, TANGENTS, aligned
from integrators.compiler.tangents import COUNT
from integrators.errors import InputError
from integrators.forms.phase_spaces import phase_space
from integrators.precision import DOUBLE_DOUBLE
from integrators.stepping.batch import run_ends, run_images, run_tangents
from integrators.stepping.formulations import to_stepped_states

STEPS, STEP = 3, 0.1  # in time scales
SHIFT = 1e-10  # along directions, for differences, whose errors are its square and 1e-31 over it
EXACT = 1e-13  # rounding of tangents, relative to the largest


def directions_at(state, count):
    """Random ones, as large as each row of the state."""
    directions = np.random.default_rng(1).uniform(-1.0, 1.0, size=(count, *state.shape))
    return directions * np.max(np.abs(state), axis=1, keepdims=True)


def test_values_are_those_of_doubles(costly):
    problem, h = costly.problem, STEP * costly.case.time_scale
    alone = aligned((1, problem.rows, 3))
    alone[...] = to_stepped_states(problem, costly.case.state[None])
    moving = aligned((1, problem.rows, 3, 1 + COUNT))
    moving[..., 0], moving[..., 1:] = alone, np.moveaxis(directions_at(alone[0], COUNT), 0, 2)
    report = run_images(problem, DOUBLE, alone, h, STEPS)
    other = run_images(problem, TANGENTS, moving, h, STEPS)
    np.testing.assert_array_equal(moving[..., 0], alone)
    np.testing.assert_array_equal(other[..., 0], report)


def test_tangents_are_limits_of_differences(costly):
    """Of the same map in double-double, where differences have the digits of doubles and more."""
    problem, state, h = costly.problem, costly.case.state, STEP * costly.case.time_scale
    directions = motions(costly.case.system.form, state, h)
    _, found = run_tangents(problem, state, directions, h, STEPS)
    checked = [0, -1]
    shifts = SHIFT * np.concatenate([directions[checked], -directions[checked]])
    starts = costly.case.system.refined(np.broadcast_to(state, shifts.shape))
    high = starts[..., 0] + shifts
    low = starts[..., 1] + ((starts[..., 0] - high) + shifts)  # exact: shifts are smaller
    precise = costly.integrator.bind(costly.case.system, DOUBLE_DOUBLE)
    ends = run_ends(precise, np.stack([high, low], axis=-1), h, STEPS, lanes=False)
    ahead, behind = ends.reshape(2, len(checked), *state.shape, 2)
    expected = np.sum(ahead - behind, axis=-1) / (2.0 * SHIFT)
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(found[checked], expected, rtol=0.0, atol=EXACT * scale)


def motions(form, state, h):
    """Directions along the manifold where it is known, since beside it solvers' maps differ."""
    try:
        space = phase_space(form)
    except InputError:
        return directions_at(state, COUNT + 1)
    return space.tangents(state, space.scales(state, state, h))
