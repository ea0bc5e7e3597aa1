"""The words for drifts on series whose truth is known; tests/benchmarks/verdicts.py has more."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wandering import (
    TRUTHS,
    Oscillation,
    drift_of_means,
    ensemble,
    judged,
    line,
    table_of,
    walks,
)

from sweep.analysis import drift_table, summarize_drifts
from sweep.tables import drifts_as_tables, tables_as_text

N = 256
TIMES = line(N)
NONE, WALK, LINEAR, UNSTEADY = "no drift seen", "random walk", "linear", "unsteady"
EACH, AT_ROUND_OFF = "linear, each start its own", "at round-off"


def growing(power, spread=0.3):
    """Lines or curves of one sign, of different slope."""
    return lambda rng, starts: TIMES**power * np.exp(spread * rng.normal(size=(starts, 1)))


@pytest.mark.parametrize(
    ("memory", "intervals", "trials"),
    [(300.0, 128, 10), pytest.param(3e3, 500, 40, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("truth", TRUTHS)
def test_drifts_of_a_hundredth_of_the_oscillation_are_seen(truth, memory, intervals, trials):
    oscillation = Oscillation(memory=memory, intervals=intervals)
    found = [
        drift_of_means(ensemble(np.random.default_rng((1, i)), truth, 64, 0.01, oscillation))
        for i in range(trials)
    ]
    true_drift = 0.01 if truth == "linear" else 0.0
    assert sum(one.low <= true_drift <= one.high for one in found) >= 0.85 * trials
    seen = [one.verdict in (LINEAR, UNSTEADY) for one in found]
    assert all(seen) if truth == "linear" else sum(seen) <= trials // 20
    assert truth == "linear" or LINEAR not in {one.verdict for one in found}


@pytest.mark.slow
def test_interval_means_drawn_directly_are_as_strong_as_those_of_all_steps():
    """That the truths above are what they are said to be."""
    oscillation = Oscillation(tails=0.0)

    def strength(means):
        modes = np.fft.rfft(means, axis=1)[:, 1:65]
        return np.mean(np.abs(modes) ** 2)

    drawn = strength(oscillation.means(np.random.default_rng(1), 1000))
    steps = strength(oscillation.every_step(np.random.default_rng(2), 4))
    assert steps / drawn == pytest.approx(1.0, abs=0.6)  # three standard errors


@pytest.mark.parametrize(
    ("series", "verdict", "exponent"),
    [
        (lambda rng: rng.normal(size=(64, N)), NONE, 0.0),
        (lambda rng: walks(rng, 64, N), WALK, 0.5),
        (lambda rng: growing(1.0)(rng, 64), LINEAR, 1.0),
        (lambda rng: growing(2.0)(rng, 64), UNSTEADY, 2.0),
        (lambda rng: growing(0.2)(rng, 64), UNSTEADY, None),
        (lambda rng: TIMES * rng.normal(size=(64, 1)), EACH, 1.0),
        (lambda rng: TIMES * rng.normal(size=(7, 1)), LINEAR, None),  # the mean of so few
        (lambda rng: TIMES + 0.01 * rng.normal(size=(1, N)), LINEAR, None),
        (lambda rng: np.sin(40 * TIMES) + rng.normal(size=(64, 1)), NONE, None),
        (lambda rng: walks(rng, 1, N) + np.zeros((64, 1)), NONE, None),  # all alike
        (lambda rng: np.zeros((64, N)), AT_ROUND_OFF, None),
        (lambda rng: np.full((64, N), 0.1), NONE, None),
    ],
    ids=range(12),
)
def test_each_word_is_said_of_what_it_means(series, verdict, exponent):
    row = judged(series(np.random.default_rng(3)))
    assert row.verdict == verdict
    if exponent is not None:
        slack = 0.01 if exponent <= 1 else 0.15  # the first window is none at the start
        assert row.exponent_low - slack <= exponent <= row.exponent_high + slack
    if row.starts < 8:
        assert np.isnan(row.exponent)


@given(
    st.sampled_from(list(TRUTHS)),
    st.floats(1e-12, 1e12),
    st.floats(-1e3, 1e3),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=8, deadline=None)
def test_units_offsets_and_sign_do_not_matter(truth, factor, offset, seed):
    means = ensemble(np.random.default_rng(seed), truth, 16, 0.01, Oscillation(intervals=128))
    both = {"first": means, "other": -factor * (means + offset)}
    first, other = drift_table(table_of(both, value=False))
    assert other.low == pytest.approx(-factor * first.high, rel=1e-6)
    if AT_ROUND_OFF not in (first.verdict, other.verdict):
        assert other.verdict == first.verdict


def test_logarithmic_samples_are_nothing_special():
    times = np.concatenate([[0.0], np.geomspace(0.1, 1000.0, 41)])
    rng = np.random.default_rng(5)
    kicks = rng.normal(size=(64, 41)) * np.sqrt(np.diff(times))
    row = judged(np.cumsum(kicks, axis=1), times=times)
    assert row.exponent_low < 0.5 < row.exponent_high and row.verdict == WALK
    row = judged((times[1:] + times[:-1]) / 2 + 0.1 * rng.normal(size=(64, 41)), times=times)
    assert row.verdict == LINEAR and row.drift == pytest.approx(1.0, rel=0.03)


def test_more_starts_than_are_read_at_once_are_one_ensemble():
    slopes = np.random.default_rng(8).choice([-0.5, 1.0, 2.0], 8200)
    noise = np.random.default_rng(9).normal(size=(8200, 16))
    row = judged(slopes[:, None] * line(16) + 1e-3 * noise)
    assert (row.starts, row.verdict) == (8200, LINEAR)
    assert row.drift == pytest.approx(slopes.mean() / 16, rel=1e-3)


def test_the_sentence_and_the_notes_of_a_table_say_its_words():
    rng = np.random.default_rng(6)
    means = {
        "m0": growing(1.0)(rng, 64),
        "m1": walks(np.random.default_rng(3), 64, N),
        "m2": TIMES * rng.normal(size=(64, 1)),
        "m3": rng.normal(size=(64, N)),
        "m4": growing(3.0)(rng, 64),
        "m5": np.zeros((64, N)),
    }
    rows = drift_table(table_of(means))
    assert {row.verdict for row in rows} == {LINEAR, WALK, EACH, NONE, UNSTEADY, AT_ROUND_OFF}
    (text,) = summarize_drifts(rows)
    assert text.startswith("Energy over 256 s: ") and "1 walks randomly" in text
    table = tables_as_text(drifts_as_tables(rows))
    assert " ".join(table.split()).startswith(text) and "means over 64 starts" in table
    notes = table[table.index("\n\n") :]
    assert all(f"{row.verdict}: " in notes for row in rows)
    for row in rows:
        cells = next(line for line in table.splitlines() if line.startswith(f"{row.integrator} "))
        assert cells.endswith(row.verdict) and f"{row.max_abs:.1e}" in cells
        assert row.exponent != row.exponent or f"{row.exponent:.2f} [" in cells
    (one,) = drifts_as_tables(rows[3:4])
    assert one.summary.startswith("Energy over 256 s: m3 shows no drift above ")


def sizes_of_vectors(seed, starts, drift=0.0):
    """Norms of walks in three dimensions, with drifts beside of any direction."""
    rng = np.random.default_rng((seed, starts))
    parts = [walks(rng, starts, N) + drift * TIMES * rng.normal(size=(starts, 1)) for _ in "xyz"]
    return np.sqrt(sum(part**2 for part in parts))


@pytest.mark.parametrize("starts", [4, 16])
def test_sizes_that_walk_are_not_said_to_drift(starts):
    walking, drifting = (
        drift_table(
            table_of({f"m{i}": sizes_of_vectors(i, starts, drift) for i in range(8)}, value=False)
        )
        for drift in (0.0, 8.0)
    )
    assert {row.verdict for row in drifting} == {LINEAR}
    assert {row.verdict for row in walking} == ({NONE} if starts < 8 else {NONE, WALK})
    if starts >= 8:
        assert np.mean([row.exponent for row in walking]) == pytest.approx(0.5, abs=0.1)
        text = tables_as_text(drifts_as_tables(walking[:1]))
        assert "  rms ~ t^p  " in text and "spread" not in text


def test_only_drifts_of_sizes_are_compared():
    means = {"walk": sizes_of_vectors(1, 16), "drift": sizes_of_vectors(2, 16, 30.0)}
    walk, _ = drift_table(table_of(means, value=False))
    assert walk.compared == ()
    means["walk"] = sizes_of_vectors(1, 16, 8.0)
    slow, fast = drift_table(table_of(means, value=False))
    assert slow.compared[0].than == "drift" and fast.compared == ()
    text = tables_as_text(drifts_as_tables([slow, fast]))
    assert "≥ n× less than another: that one drifts at least n times as fast" in text


def test_the_interval_of_few_walks_covers_their_drift():
    """Of those that the increments of window means alone would give, 86 % do."""
    rows = [drift_of_means(walks(np.random.default_rng((5, i)), 4, 64)) for i in range(100)]
    assert np.mean([row.low <= 0 <= row.high for row in rows]) >= 0.91
    assert sum(row.verdict != NONE for row in rows) <= 1


def test_each_start_drifts_only_where_the_spread_grows_like_a_line():
    rng = np.random.default_rng(1)
    curved = rng.normal(size=(8, 1)) * TIMES**1.5 + 0.02 * rng.normal(size=(8, N))
    row = judged(curved + 0.4 * walks(rng, 8, N))
    assert 0.5 < row.exponent_low < 1.0 and row.exponent_high > 1.5 and row.verdict == NONE


def test_notes_say_the_confidence_and_the_head_says_one_start():
    (table,) = drifts_as_tables([judged(np.random.default_rng(1).normal(size=(16, N)))])
    assert table.notes[-1].startswith("no drift seen: no rate differs from 0 at 99.7 %; the bound")
    assert drifts_as_tables([judged(TIMES[None])])[0].title.endswith(", of one start")
