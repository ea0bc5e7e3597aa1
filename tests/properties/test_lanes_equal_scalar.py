"""A trajectory comes out the same to the last bit, alone or in any lane, whatever the others do."""

import numpy as np
import pytest
from cases import pairings

import integrators
from integrators import status
from integrators.compiler.elements import LANES
from integrators.stepping import loop


def assert_same_bits(found, expected):
    """Equal to the last bit, the sign of zero included; NaN equals NaN."""
    np.testing.assert_array_equal(found, expected)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[there], np.signbit(expected)[there])


def assert_same_batches(batch, alone):
    """Every member of a batch as it is in a batch of its own."""
    for part in ("states", "statistics", "report"):
        expected = np.concatenate([getattr(single, part) for single in alone])
        assert_same_bits(getattr(batch, part), expected)


def test_members_come_out_as_alone(in_lanes):
    members = in_lanes.case.members(8, seed=1)
    alone = [in_lanes.batch(members[m : m + 1]) for m in range(8)]
    assert all(np.all(np.isfinite(single.states)) for single in alone)
    for count in (1, 2, 7, 8):
        assert_same_batches(in_lanes.batch(members[:count]), alone[:count])
    assert_same_batches(in_lanes.batch(members[::-1]), alone[::-1])


@pytest.mark.parametrize("count", [9, 17])
@pytest.mark.parametrize(
    ("label", "inlined"),
    [
        ("variational-spherical_pendulum_chain", False),
        pytest.param("spherical_midpoint-free_rigid_body", False, marks=pytest.mark.slow),
        pytest.param(
            "rk2_midpoint[q_omega]-spherical_pendulum_chain", True, marks=pytest.mark.slow
        ),
    ],
)
def test_more_members_than_lanes(label, inlined, count, monkeypatch):
    pairing = next(p for p in pairings() if str(p) == label)
    case = pairing.case
    monkeypatch.setattr(loop, "FEW_ROWS", case.system.rows if inlined else 0)
    assert bool(pairing.integrator.bind(case.system).own_loop(LANES)) == inlined
    members = case.members(count, seed=2)

    def run(state):
        return integrators.integrate(
            case.system, pairing.integrator, state, step_size=0.01, duration=0.05, samples=5
        )

    together = run(members)
    assert together.states.shape == (count, 6, case.system.rows, 3)
    for m, member in enumerate(members):
        alone = run(member)
        assert_same_bits(together.states[m], alone.states)
        assert together.status[m] == alone.status
        for name, values in together.counters.items():
            assert_same_bits(values[m], alone.counters[name])


def test_a_failing_lane_disturbs_no_other(in_lanes):
    for factor in (np.nan, 1e200):  # not finite from the start, or an overflow
        assert_others_are_as_alone(in_lanes, factor)


def assert_others_are_as_alone(pairing, factor):
    """Beside two members of a batch that are multiplied by `factor`."""
    members = pairing.case.members(8, seed=1)
    form = pairing.case.system.form
    members[3, form.rows - form.forced - 1] *= factor
    members[6, 0] *= factor
    batch = pairing.batch(members)
    assert_same_batches(batch, [pairing.batch(members[m : m + 1]) for m in range(8)])
    failed = set(np.flatnonzero(batch.report[:, status.STATUS_ROW] != status.COMPLETE))
    if np.isnan(factor) or pairing.case.mechanical:
        assert failed == {3, 6}
    else:
        assert failed <= {3, 6}  # a huge spin may turn like any other


@pytest.mark.parametrize(
    ("name", "system", "step"),
    [
        ("variational", "nbody_sphere", 0.1),
        ("variational", "spherical_pendulum_chain", 0.25),
        ("rk4", "spherical_pendulum_chain", 1.0),
    ],
)
def test_lanes_that_fail_at_different_steps_disturb_no_other(name, system, step):
    pairing = next(p for p in pairings() if p.name == name and str(p.case) == system)
    members = pairing.case.members(8, seed=5)
    coarse = {"step": step, "steps": 2, "samples": 50}
    batch = pairing.batch(members, **coarse)
    failed = batch.report[:, status.STATUS_ROW] != status.COMPLETE
    assert 1 <= np.count_nonzero(failed) <= 7
    assert len(set(batch.report[failed, status.STOP_STEP])) > 1
    assert_same_batches(batch, [pairing.batch(members[m : m + 1], **coarse) for m in range(8)])
