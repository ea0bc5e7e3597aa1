"""Verdicts on series whose truth is known; tests/benchmarks/verdicts.py counts more of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter
from wandering import TRUTHS, Oscillation, ensemble, line, walks

from sweep.analysis.drift.slow_modes import (
    join_slow_modes,
    slow_modes_of_series,
    window_means_of_intervals,
)
from sweep.analysis.drift.verdicts import (
    GROWS,
    LINEAR,
    LOOSE,
    NONE,
    VERDICTS,
    WALK,
    WANDERS,
    WORSE,
    judge_drift,
)

N = 256
TIMES = line(N)


def verdict(means, signed=True):
    ends = np.linspace(0.0, 1.0, means.shape[1] + 1)
    return judge_drift(slow_modes_of_series(*window_means_of_intervals(ends, means)), signed)


@pytest.mark.parametrize(
    ("truth", "right"), list(zip(TRUTHS, (NONE, WALK, LINEAR, LINEAR), strict=True)), ids=str
)
@pytest.mark.parametrize("memory", [300.0, 3000.0])
def test_ensembles_of_a_million_steps_are_judged_right(truth, right, memory):
    trials = 40
    found = [
        verdict(
            ensemble(np.random.default_rng((1, i)), truth, 64, 0.01, Oscillation(memory=memory))
        )
        for i in range(trials)
    ]
    wrong = sum(one.verdict != right for one in found)
    assert wrong <= 3  # of 99 % right, four or more of forty are wrong with probability 7e-4
    if truth.startswith("linear"):
        shared = np.mean([one.shared for one in found if one.verdict == LINEAR])
        assert shared == (1.0 if truth == "linear" else 0.0)


def test_interval_means_drawn_directly_are_as_strong_as_those_of_all_steps():
    oscillation = Oscillation(tails=0.0)
    ends = np.linspace(0.0, 1.0, oscillation.intervals + 1)

    def strength(means):
        return np.mean(slow_modes_of_series(*window_means_of_intervals(ends, means)).modes ** 2)

    drawn = strength(oscillation.means(np.random.default_rng(1), 1000))
    steps = strength(oscillation.every_step(np.random.default_rng(2), 4))
    assert steps / drawn == pytest.approx(1.0, abs=0.6)  # of 64 modes: three standard errors


def growing(power, spread=0.3):
    """Lines or curves of one sign, of different slope."""
    return lambda rng, starts: TIMES**power * np.exp(spread * rng.normal(size=(starts, 1)))


def in_phase(rng, starts):
    """Starts that are close together: two cycles over the run, alike in all of them."""
    alike = np.sin(2 * np.pi * (2.3 * TIMES + rng.uniform()))
    return alike * (1 + 1e-2 * rng.normal(size=(starts, 1))) + 1e-4 * rng.normal(size=(starts, N))


def burn_in(rng, starts):
    """Off to another level at first, and then noise."""
    level = 1 + 0.3 * rng.normal(size=(starts, 1))
    return level * (1 - np.exp(-TIMES / 0.03)) + 0.1 * rng.normal(size=(starts, N))


def wild_and_calm(rng, starts):
    """A third of the starts oscillates ten thousand times as far as the others walk."""
    wild = 100 * rng.normal(size=(starts, N))
    return np.where(np.arange(starts)[:, None] % 3 == 0, wild, 0.01 * walks(rng, starts, N))


def norm(series):
    """The norm of a vector whose three components are such series."""
    return lambda rng, starts: np.sqrt(sum(series(rng, starts) ** 2 for _ in range(3)))


def own_lines(rng, starts):
    return rng.normal(size=(starts, 1)) * TIMES


def oscillation(rng, starts):
    return np.sin(2 * np.pi * (37 * TIMES + rng.uniform(size=(starts, 1)))) + 0.1


CASES = (  # series, whether it has a sign, verdict of 64 starts
    (growing(1.0), True, LINEAR),
    (growing(1.2), True, LINEAR),
    (growing(2.0), True, WORSE),
    (lambda rng, starts: own_lines(rng, starts) * TIMES, True, WORSE),
    (lambda rng, starts: rng.normal(size=(starts, 1)) * np.exp(20 * TIMES), True, WORSE),
    (growing(0.5), True, GROWS),  # ever slower
    (lambda rng, starts: walks(rng, starts, N), True, WALK),
    (lambda rng, starts: np.round(5 * walks(rng, starts, N)), True, WALK),
    (wild_and_calm, True, WALK),
    (in_phase, True, NONE),
    (burn_in, True, NONE),
    (norm(lambda rng, starts: walks(rng, starts, N)), False, WALK),
    (norm(own_lines), False, LINEAR),
    (norm(oscillation), False, NONE),
)


@pytest.mark.parametrize(("series", "signed", "right"), CASES, ids=range(len(CASES)))
def test_kinds_of_errors_that_are_easily_mistaken(series, signed, right):
    found = [verdict(series(np.random.default_rng((2, i)), 64), signed) for i in range(8)]
    assert sum(one.verdict != right for one in found) <= 1, [one.reason for one in found]
    assert all(one.reason for one in found if one.verdict in LOOSE)


@pytest.mark.parametrize("starts", [1, 3, 8])
def test_few_starts_tell_lines_from_oscillations(starts):
    rng = np.random.default_rng(4)
    assert verdict(growing(1.0)(rng, starts)).verdict == LINEAR
    assert verdict(-growing(1.0)(rng, starts)).verdict == LINEAR
    assert verdict(oscillation(rng, starts)).verdict == NONE


def test_random_walks_take_eight_starts():
    found = [
        verdict(walks(np.random.default_rng((5, i)), starts, N))
        for starts in (1, 4)
        for i in range(50)
    ]
    assert {one.verdict for one in found} <= {NONE, WANDERS, LINEAR}
    assert sum(one.verdict == LINEAR for one in found) <= 2  # 0.3 % of single runs
    reasons = {one.reason for one in found if one.verdict == WANDERS}
    assert any("8 starts or more tell" in reason for reason in reasons)


def test_a_slow_memory_is_no_random_walk():
    memory = 0.15  # of the run
    kicks = [np.random.default_rng((6, i)).normal(size=(64, 10 * N)) for i in range(8)]
    series = [lfilter([1], [1, -np.exp(-1 / (memory * N))], one)[:, -N:] for one in kicks]
    found = [verdict(one) for one in series]
    assert {one.verdict for one in found} <= {NONE, WANDERS}
    assert any("memory" in one.reason for one in found)


def test_errors_that_are_exactly_zero():
    found = verdict(np.zeros((64, N)))
    assert (found.verdict, found.reason) == (NONE, "the error is exactly 0")
    assert verdict(np.full((64, N), 0.1)).verdict == NONE
    some = np.where(np.arange(64)[:, None] % 2, walks(np.random.default_rng(7), 64, N), 0.0)
    assert verdict(some).verdict == WALK


@given(
    st.sampled_from(["√t", "linear", "bounded"]),
    st.floats(1e-12, 1e12),
    st.floats(-1e3, 1e3),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=20, deadline=None)
def test_units_offsets_and_order_of_the_starts_do_not_matter(truth, factor, offset, seed):
    rng = np.random.default_rng(seed)
    means = ensemble(rng, truth, 16, 0.01, Oscillation(intervals=128))
    first = verdict(means)
    assert first.verdict in VERDICTS
    other = verdict(-factor * (rng.permutation(means) + offset))
    # The growth of the rms in the last decade alone knows where 0 is.
    assert other.verdict == first.verdict
    assert other.grown == pytest.approx(factor * first.grown, rel=1e-6, nan_ok=True)


def test_blocks_of_starts_join_to_the_whole():
    means = walks(np.random.default_rng(8), 600, N)
    ends = np.linspace(0.0, 1.0, N + 1)
    times, windows = window_means_of_intervals(ends, means)
    whole = slow_modes_of_series(times, windows)
    parts = join_slow_modes(
        [slow_modes_of_series(times, windows[i : i + 200]) for i in (0, 200, 400)]
    )
    np.testing.assert_array_equal(parts.trend, whole.trend)
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(parts.squares.sum(axis=0), whole.squares.sum(axis=0), rtol=1e-12)
    assert parts.members.sum() == whole.members.sum() == 600
    assert judge_drift(parts).verdict == judge_drift(whole).verdict == WALK
