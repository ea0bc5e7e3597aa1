"""Steps with tangents: values are to the last bit those of doubles, and derivatives exact."""

import numpy as np

from integrators.compiler.elements import DOUBLE, TANGENTS, aligned
from integrators.compiler.tangents import COUNT
from integrators.errors import InputError
from integrators.forms.phase_spaces import phase_space
from integrators.stepping.batch import run_ends, run_images, run_tangents
from integrators.stepping.formulations import in_formulation

STEPS, STEP = 3, 0.1  # in time scales
SHIFTS = 2e-4 * np.array([1.0, 2.0, 4.0])  # along directions, for differences


def directions_at(state, count):
    """Random ones, as large as each row of the state."""
    directions = np.random.default_rng(1).uniform(-1.0, 1.0, size=(count, *state.shape))
    return directions * np.max(np.abs(state), axis=1, keepdims=True)


def test_values_are_those_of_doubles(covering):
    problem, h = covering.problem, STEP * covering.case.time_scale
    alone = aligned((1, problem.rows, 3))
    alone[...] = in_formulation(problem, covering.case.state[None])
    moving = aligned((1, problem.rows, 3, 1 + COUNT))
    moving[..., 0], moving[..., 1:] = alone, np.moveaxis(directions_at(alone[0], COUNT), 0, 2)
    report = run_images(problem, DOUBLE, alone, h, STEPS)
    other = run_images(problem, TANGENTS, moving, h, STEPS)
    np.testing.assert_array_equal(moving[..., 0], alone)
    np.testing.assert_array_equal(other[..., 0], report)


def test_tangents_are_limits_of_differences(covering):
    problem, state, h = covering.problem, covering.case.state, STEP * covering.case.time_scale
    directions, moved = motions(covering.case.system.form, state, h)
    end, found = run_tangents(problem, state, directions, h, STEPS)
    checked = [0, -1]
    starts = [moved(directions[checked], side * shift) for side in (1.0, -1.0) for shift in SHIFTS]
    ends = run_ends(problem, np.concatenate([state[None], *starts]), h, STEPS, lanes=False)
    np.testing.assert_array_equal(end, ends[0])
    ahead, behind = ends[1:].reshape(2, len(SHIFTS), 2, *state.shape)
    once, twice, four = (ahead - behind) / (2.0 * SHIFTS[:, None, None, None])
    expected = (64.0 * once - 20.0 * twice + four) / 45.0  # Richardson's, of order 6
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(found[checked], expected, rtol=0.0, atol=1e-8 * scale)


def motions(form, state, h):
    """Directions, and a function that moves the state along some of them.

    Along the manifold where it is known: beside it the series for two multipliers is another map.
    """
    try:
        space = phase_space(form)
    except InputError:
        directions = directions_at(state, COUNT + 1)
        return directions, lambda chosen, shift: state + shift * chosen
    directions = space.tangents(state, space.scales(state, state, h))
    return directions, lambda chosen, shift: space.moved(state, chosen, shift)
