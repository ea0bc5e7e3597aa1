"""The claims of McLachlan, Modin and Verdier, and what they are measured by."""

import json

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import brentq

import systems
from integrators.errors import InputError
from sweep.papers import PAPERS, reproduce
from sweep.papers.diagnostics import distance_from_state_at_end
from sweep.papers.mclachlan import diagnostics
from sweep.papers.mclachlan.equilibria import relative_equilibria

ROTATION = "mclachlan-rotation"  # the other studies are computed by `.ci/run`


@pytest.fixture(scope="module")
def computed(tmp_path_factory, lent):
    """Rows and datasets of the study of rotations."""
    paper = PAPERS["mclachlan"]
    claims = tuple(claim for claim in paper.claims if claim.study == ROTATION)
    assert len(claims) >= 4
    with lent():
        rotations = paper.model_copy(update={"claims": claims, "pictures": {}})
        return reproduce(rotations, tmp_path_factory.mktemp("stores"))


def printed_step_angle(product):
    """The angle cos⁻¹(1 − ½ (λh)²) of a step by theorem 2.4 (vi), from the product λh."""
    return float(np.arccos(1.0 - 0.5 * product**2))


def exact_step_angle(product, alpha):
    """The angle φ of a step for a spin at the angle α to the axis, from

    sin²(φ/2) sin²α + tan²(φ/2) cos²α = (λh/2)²
    """

    def residual(phi):
        sine, tangent = np.sin(0.5 * phi) * np.sin(alpha), np.tan(0.5 * phi) * np.cos(alpha)
        return sine**2 + tangent**2 - (0.5 * product) ** 2

    return float(brentq(residual, 0.0, np.pi * (1.0 - 1e-12), xtol=1e-15))


def test_every_claim_on_rotations_holds(computed):
    assert [(row.claim, row.here, row.setting) for row in computed[0] if not row.holds] == []


def test_the_printed_angle_is_that_of_a_perpendicular_spin(computed):
    across, along = (row for row in computed[0] if row.claim == "angle of a step")
    assert [across.agreement, along.agreement] == ["digits", "not reproduced"]
    assert across.here == pytest.approx(printed_step_angle(1.9), abs=1e-13)
    assert along.here == pytest.approx(exact_step_angle(1.9, np.radians(5.0)), abs=1e-13)
    assert across.paper == printed_step_angle(1.9)
    assert exact_step_angle(0.7, 0.5 * np.pi) == pytest.approx(printed_step_angle(0.7), abs=1e-14)


# --- diagnostics ---------------------------------------------------------------------------------


def states(w, times, scan=(), **coordinates):
    """A run table with states of shape (run, time, row, 3)."""
    runs = len(w)
    return xr.Dataset(
        {"state": (("run", "time", "row", "component"), w)},
        coords={
            "time": times,
            "step_size": ("run", np.full(runs, times[1] - times[0])),
            **{name: ("run", values) for name, values in coordinates.items()},
        },
        attrs={
            "experiment": json.dumps({"scan": list(scan)}),
            "system": json.dumps({"parameters": {"count": 1}}),
        },
    )


def circle(times, rate, colatitude):
    """A vector that turns about e3, shape (1, time, 1, 3)."""
    angle, one = rate * times, np.ones_like(times)
    x, y = np.sin(colatitude) * np.cos(angle), np.sin(colatitude) * np.sin(angle)
    return np.stack([x, y, np.cos(colatitude) * one], axis=-1)[None, :, None]


def test_period_between_samples():
    times = np.arange(0.0, 9.0, 0.1)
    dataset = states(circle(times, rate=0.8, colatitude=1.2), times)
    expected = 2.0 * np.pi / 0.8
    assert diagnostics.return_period(dataset) == pytest.approx([expected], abs=1e-12)
    assert diagnostics.distance_at_first_return(dataset) < 1e-13
    assert diagnostics.return_period_error(dataset, expected + 1.0) == pytest.approx([1.0])


def test_a_run_that_is_not_back_yet_has_no_period():
    times = np.arange(0.0, 7.0, 0.1)
    dataset = states(circle(times, rate=0.8, colatitude=1.2), times)
    with pytest.raises(InputError, match="does not return to its start within T = 6.9"):
        diagnostics.return_period(dataset)


def test_angles_of_steps_and_their_formula():
    times = np.arange(5.0)
    rates, alpha = np.array([0.5, 1.9]), np.array([0.3, 1.0])
    turned = [exact_step_angle(rate, a) for rate, a in zip(rates, alpha, strict=True)]
    w = np.concatenate([circle(times, -t, a) for t, a in zip(turned, alpha, strict=True)])
    vectors = {"name": "axis", "values": [[0, 0, 1.9], [0, 0, 0.5]], "labels": ["fast", "slow"]}
    axis = np.array(["slow", "fast"], dtype=object)
    dataset = states(w, times, [vectors], angle=alpha, axis=axis)
    assert diagnostics.mean_first_spin_step_angle(dataset) == pytest.approx(turned, rel=1e-14)
    assert (diagnostics.step_angle_residual(dataset) < 1e-14).all()
    off = dataset.assign_coords(angle=("run", alpha + 0.1))
    assert (diagnostics.step_angle_residual(off) > 1e-4).all()


def test_turning_rate_of_a_padded_run():
    times = np.arange(0.0, 20.0, 0.5)
    w = np.concatenate([circle(times, -1.3, 0.7), np.full((1, len(times), 1, 3), np.nan)], axis=2)
    assert diagnostics.spin_chain_turning_rates(states(w, times)) == pytest.approx(
        [-1.3], rel=1e-14
    )


def vortices(theta, phi):
    x, y, z = np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)
    return np.array([[x, y, z], [-x, -y, z], [x, -y, -z], [-x, y, -z]])


def turned(w, angle=0.9):
    """w turned about e1, which leaves the normal form and not the manifold."""
    c, s = np.cos(angle), np.sin(angle)
    return w @ np.array([[1.0, 0.0, 0.0], [0.0, c, s], [0.0, -s, c]])


def test_distances_from_the_manifold_of_four_vortices():
    on = [vortices(0.7, 0.4), vortices(1.9, 5.0)]
    away = on[0] + 1e-3 * np.eye(4, 3)
    one = states(np.array([on, [turned(w) for w in on], [on[0], away]]), np.arange(2.0))
    form, manifold = (
        diagnostics.vortex_distance_from_normal_form(one),
        diagnostics.vortex_distance_from_invariant_manifold(one),
    )
    assert form[0] == 0.0 and form[1] > 0.1
    assert (manifold[:2] < 1e-15).all()
    assert 1e-4 < manifold[2] < 4e-3 and 1e-4 < form[2] < 4e-3


def test_distance_at_the_end():
    w = np.zeros((1, 3, 1, 3))
    w[0, -1, 0] = (0.0, 3.0, 4.0)
    dataset = states(w, np.arange(3.0))
    assert distance_from_state_at_end(dataset, [[0.0, 0.0, 0.0]]) == [5.0]


def test_a_jacobian_by_quotients():
    point = np.array([[0.3, -0.4, 0.5], [1.0, 0.2, -0.7]])
    found = diagnostics.jacobian_by_quotients(lambda w: np.sin(w) * w[:, ::-1], point)
    expected = np.zeros((2, 3, 2, 3))
    for i, c in np.ndindex(2, 3):
        expected[i, c, i, c] = np.cos(point[i, c]) * point[1 - i, c]
        expected[i, c, 1 - i, c] = np.sin(point[i, c])
    np.testing.assert_allclose(found, expected.reshape(6, 6), atol=1e-13)


def test_a_turned_run_is_compared_with_the_turned_start():
    times = np.arange(5.0)
    w = np.concatenate([circle(times, 0.8, 0.9), -circle(times, 0.8, 0.9)])
    dataset = states(w, times, initial_condition=["given", "inverted"])
    pair = {"initial_condition": "given"}, {"initial_condition": "inverted"}
    inverted, not_moved = (  # the shift of a single spin
        diagnostics.distance_from_transformed_run(dataset, transform, *pair)
        for transform in ("invert", "shift")
    )
    assert inverted == 0.0
    assert not_moved == pytest.approx(2.0, rel=1e-15)


def test_leapfrog_turns_an_oscillator_as_the_paper_says_of_a_spin():
    times = np.arange(5.0)
    vectors = {"name": "axis", "values": [[0, 0, 1.2]], "labels": ["one"]}
    w = circle(times, -printed_step_angle(1.2), 0.5 * np.pi)
    dataset = states(w, times, [vectors], axis=np.array(["one"], dtype=object))
    assert diagnostics.step_angle_distance_from_leapfrog(dataset) < 1e-14
    slower = dataset.assign_coords(step_size=("run", [2.0]))
    assert diagnostics.step_angle_distance_from_leapfrog(slower) > 0.1


def test_relative_equilibria_of_two_and_three_vortices():
    """Two turn about their momentum; three at right angles, too, and are stable."""
    pair = systems.get("point_vortices", strengths=(1.0, 2.0))
    state = np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    (found,) = relative_equilibria(pair, state)
    np.testing.assert_allclose(found.vortices, state[0], atol=1e-15)
    rate = -1.0 / (4.0 * np.pi)  # ẇ_i = w_i × J/(4π(1 − w_i·w_j))
    along = np.cross(found.turning, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    expected = rate * np.cross([1.0, 2.0, 0.0], state[0])
    np.testing.assert_allclose(along, expected, atol=1e-13)
    three = systems.get("point_vortices", strengths=(1.0, 1.0, 1.0))
    (corner,) = relative_equilibria(three, np.eye(3)[None])
    assert corner.stable and np.abs(corner.eigenvalues.imag).max() > 0.05
