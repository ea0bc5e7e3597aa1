"""Systems of rotations, directions, tangents and vectors: what their parts make of a state."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from cases import Case

from integrators import InputError
from integrators.compiler.kernels import kernel
from integrators.forms.flows import HomogeneousFlow
from integrators.lie_groups.actions import product
from integrators.lie_groups.factors import RIGHT_ROTATION, TANGENT_SPHERE, TRANSLATION
from systems.rigid.base import Part, RigidSystem, checked_parts


@kernel()
def nothing(t, y, p, out, work):
    """In place of a motion and its energy, which no test needs."""


@dataclass(frozen=True)
class BodyAndPendulum(RigidSystem):
    """One part of each kind."""

    name = "body_and_pendulum"
    description = "a free body, and a pendulum without gravity"
    units = {"energy": "1", "momentum": "1", "time": "1"}
    parameter_units = {}
    named_starts = ()
    parts = checked_parts(
        Part("R", "rotation", axis=(0.0, 1.0, 0.0)),
        Part("Omega", "vector", error="body_rate_error", units="s-1", size=2.0),
        Part("q", "direction", body=1),
        Part("omega", "tangent", body=1, units="s-1"),
    )

    @cached_property
    def form(self):
        action = product(RIGHT_ROTATION, TRANSLATION, TANGENT_SPHERE)
        return HomogeneousFlow(nothing, action, nothing, unit_rows=self.unit_rows)

    @cached_property
    def quantities(self):
        return self.constraints


SYSTEM = BodyAndPendulum()


def stacked(rotation, omega=(0.0, 0.0, 0.0), q=(0.0, 0.0, 1.0), w=(0.0, 0.0, 0.0)):
    return np.vstack([rotation, omega, q, w])


def off_the_manifold(state):
    case = Case(SYSTEM, state, "rigid")
    return {q.name: case.evaluate(q.function, state[None])[0, 0] for q in SYSTEM.constraints}


def test_what_a_state_is():
    assert SYSTEM.state_keys == ("R", "Omega", "q", "omega") and SYSTEM.bodies == 2
    assert SYSTEM.row_labels == ["R_x", "R_y", "R_z", "Omega", "q", "omega"]
    assert SYSTEM.rows_in_words == (
        "3 rows of R, then 1 row of Omega, then 1 row of q, then 1 row of omega"
    )
    assert [(error.name, error.rows, error.units) for error in SYSTEM.state_errors] == [
        ("attitude_error", (0, 1, 2), "1"),
        ("body_rate_error", (3,), "s-1"),
        ("direction_error", (4,), "1"),
        ("angular_velocity_error", (5,), "s-1"),
    ]
    assert SYSTEM.unit_rows == (4,)


def test_random_states_are_on_the_manifold_and_independent_of_how_many():
    members = SYSTEM.ensemble(40, seed=3)
    for member in members:
        SYSTEM.check_state(member)
        assert np.linalg.det(member[:3]) == pytest.approx(1.0, abs=1e-14)
        assert max(off_the_manifold(member).values()) <= 2e-15
    np.testing.assert_array_equal(SYSTEM.ensemble(range(7, 9), seed=3), members[7:9])
    # uniform rotations have trace 0 on average, with variance 1; sizes are those of the parts
    assert abs(np.mean(np.trace(members[:, :3], axis1=1, axis2=2))) <= 4 / np.sqrt(40)
    assert 1.0 < np.std(members[:, 3]) < 3.0


def test_members_around_a_state_keep_near_it():
    centre, spread = SYSTEM.ensemble(1, seed=4)[0], 1e-3
    near = SYSTEM.ensemble(50, seed=5, around=centre, spread=spread)
    moved = near - centre
    angles = np.linalg.norm(moved[:, :3], axis=(1, 2)) / np.sqrt(2.0)
    assert np.sqrt(np.mean(angles**2)) == pytest.approx(spread * np.sqrt(3.0), rel=0.25)
    relative = np.linalg.norm(moved[:, 3], axis=1) / np.linalg.norm(centre[3])
    assert np.sqrt(np.mean(relative**2)) == pytest.approx(spread * np.sqrt(3.0), rel=0.25)
    turned = np.linalg.norm(moved[:, 4], axis=1)
    assert np.sqrt(np.mean(turned**2)) == pytest.approx(spread * np.sqrt(2.0), rel=0.25)


def test_a_lattice_turns_a_bodys_axis_or_its_direction():
    centre = SYSTEM.ensemble(1, seed=6)[0]
    for body in (0, 1):
        states = SYSTEM.lattice(9, body=body, around=centre)
        found = states[:, 4] if body else states[:, :3] @ [0.0, 1.0, 0.0]
        heights = (9 - 2 * np.arange(9) - 1) / 9
        np.testing.assert_allclose(found[:, 2], heights, atol=1e-15)
        kept = slice(0, 4) if body else slice(3, 6)
        np.testing.assert_allclose(states[:, kept], np.tile(centre[kept], (9, 1, 1)), atol=1e-15)
    speeds = np.linalg.norm(states[:, 5], axis=1)
    np.testing.assert_allclose(speeds, np.linalg.norm(centre[5]), rtol=1e-14)


def test_a_state_is_brought_to_the_manifold():
    state = SYSTEM.ensemble(1, seed=7)[0]
    bent = state + 1e-4 * np.random.default_rng(0).standard_normal(state.shape)
    back = SYSTEM.normalized(bent)
    assert max(off_the_manifold(back).values()) <= 2e-15
    assert np.abs(back - state).max() < 4e-4
    np.testing.assert_array_equal(back[3], bent[3])
    # the nearest rotation: what is left is symmetric in the body
    left = back[:3].T @ bent[:3]
    np.testing.assert_allclose(left, left.T, atol=1e-15)


ROTATION = np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]])


@pytest.mark.parametrize(
    ("state", "key", "message"),
    [
        (stacked(1.01 * ROTATION), "R", "R is no rotation: ‖RᵀR − 1‖ = 0.0348; expected at most"),
        (stacked(ROTATION[[1, 0, 2]]), "R", "R has the determinant −1: it is a reflection"),
        (stacked(ROTATION, q=(0.0, 0.0, 0.0)), "q", "q is the zero vector, which has no"),
        (stacked(ROTATION, q=(0.0, 0.0, 1.1)), "q", "q is off the manifold: |q·q − 1| = 0.21"),
        (stacked(ROTATION, w=(0.0, 0.0, 1.1)), "omega", "omega is off the manifold: |q·omega|"),
        (stacked(ROTATION)[:-1], None, "with 2 bodies expects (6, 3): 3 rows of R, then 1 row of"),
        (stacked(np.nan * ROTATION), None, "a number that is not finite"),
    ],
)
def test_states_off_the_manifold_are_refused(state, key, message):
    with pytest.raises(InputError) as caught:
        SYSTEM.check_state(state)
    assert message in str(caught.value) and caught.value.key == key


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (stacked(-ROTATION), "the determinant −1"),
        (stacked(np.ones((3, 3))), "R is a singular matrix"),
        (stacked(ROTATION, q=(0.0, 0.0, 0.0)), "q is the zero vector"),
    ],
)
def test_what_cannot_be_brought_to_the_manifold(state, message):
    with pytest.raises(InputError, match=message):
        SYSTEM.normalized(state)


def test_parts_that_make_no_state():
    with pytest.raises(InputError, match="unknown kind of a part 'matrix'"):
        Part("R", "matrix")
    with pytest.raises(InputError, match="two parts of a state are called 'v'"):
        checked_parts(Part("v", "vector"), Part("v", "vector"))
    with pytest.raises(InputError, match="omega is a tangent and stands behind no direction"):
        checked_parts(Part("q", "direction"), Part("v", "vector"), Part("omega", "tangent"))
