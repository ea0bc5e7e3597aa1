"""A run's states and statistics do not depend on how it is cut into samples and blocks."""

import numpy as np
import pytest
from cases import pairings

from integrators import integration, stepping
from integrators.integration import lagrangian

MEMBERS = (1, 3)  # one alone, and some in lanes
CUTS = ((24, 1, False), (6, 4, False), (1, 24, True), (8, 3, True))


def test_sampling_does_not_change_the_end(pairing):
    for members in MEMBERS:
        start = pairing.case.members(members, seed=5)
        fine = pairing.batch(start, steps=1, samples=24, statistics=False)
        for steps, samples, statistics in CUTS:
            other = pairing.batch(start, steps, samples, statistics=statistics)
            np.testing.assert_array_equal(other.states, fine.states[:, ::steps])
            np.testing.assert_array_equal(other.report, fine.report)


def test_blocks_of_samples_do_not_change_anything(pairing, monkeypatch):
    start = pairing.case.members(2, seed=5)
    whole = pairing.batch(start, steps=2, samples=7)
    monkeypatch.setattr(integration, "BLOCK_BYTES", 3 * 8 * 8 * 3 * pairing.case.system.rows)
    cut = pairing.batch(start, steps=2, samples=7)
    for part in ("states", "statistics", "report"):
        np.testing.assert_array_equal(getattr(cut, part), getattr(whole, part))


def test_intervals_of_different_length_end_at_the_same_states(pairing, monkeypatch):
    for members in MEMBERS:
        assert_same_at_uneven_ends(pairing, pairing.case.members(members, seed=5), monkeypatch)


def assert_same_at_uneven_ends(pairing, start, monkeypatch):
    """Also where the kernel is called for each sample."""
    fine = pairing.batch(start, steps=1, samples=24)
    uneven = np.array([1, 1, 2, 3, 7, 10])
    whole = pairing.batch(start, steps=uneven, samples=6)
    ends = np.cumsum(uneven)
    np.testing.assert_array_equal(whole.states, fine.states[:, [0, *ends]])
    np.testing.assert_array_equal(whole.report, fine.report)
    largest = np.maximum.reduceat(fine.statistics[..., stepping.ABS_MAX], [0, *ends[:-1]], axis=1)
    np.testing.assert_array_equal(whole.statistics[..., stepping.ABS_MAX], largest)
    with monkeypatch.context() as patch:
        patch.setattr(integration, "BLOCK_BYTES", 1)
        cut = pairing.batch(start, steps=uneven, samples=6)
    for part in ("states", "statistics", "report"):
        np.testing.assert_array_equal(getattr(cut, part), getattr(whole, part))


def test_statistics_are_those_of_every_step(pairing):
    case = pairing.case
    steps, samples = 5, 4
    statistics = pairing.batch([case.state], steps, samples).statistics[0]
    every = pairing.batch([case.state], 1, steps * samples).states[0]
    times = 0.01 * case.time_scale * np.arange(len(every))
    energy = case.evaluate(case.followed, lagrangian(pairing.problem, every), times)[:, 0]
    for m, errors in enumerate((energy - energy[0], case.length_errors(every))):
        errors = errors[1:].reshape(samples, steps)
        expected = {
            stepping.MEAN: errors.mean(axis=1),
            stepping.MINIMUM: errors.min(axis=1),
            stepping.MAXIMUM: errors.max(axis=1),
            stepping.ABS_MEAN: np.abs(errors).mean(axis=1),
            stepping.ABS_MAX: np.abs(errors).max(axis=1),
        }
        for row, values in expected.items():
            assert statistics[:, m, row] == pytest.approx(values, rel=1e-12, abs=2e-15)


def test_statistics_end_with_the_last_step_before_a_failure():
    pairing = next(p for p in pairings() if p.name == "variational")
    state = pairing.case.state.copy()
    state[-1] = np.nan
    batch = pairing.batch([state], steps=2, samples=3)
    assert np.all(np.isnan(batch.statistics[0, :, 0]))
