"""Verdicts on series whose truth is known; tests/benchmarks/verdicts.py counts more of them."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wandering import TRUTHS, Oscillation, ensemble, judged, line, table_of, walks

from sweep.analysis import drift_table, summarize_drifts
from sweep.tables import drifts_as_tables, tables_as_text

N = 256
TIMES = line(N)
NONE, WALK, LINEAR, WORSE = "no drift seen", "√t", "linear", "worse than linear"
GROWS, WANDERS, UNDECIDED = "grows", "wanders", "undecided"
RIGHT = dict(zip(TRUTHS, (NONE, WALK, LINEAR, LINEAR), strict=True))
NUMBER = r"(-?[\d.]+(?:e[-+]\d+)?)"


@pytest.mark.parametrize(
    ("memory", "intervals", "trials"),
    [(300.0, 128, 10), pytest.param(3e3, 500, 40, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("truth", TRUTHS)
def test_ensembles_of_a_million_steps_are_judged_right(truth, memory, intervals, trials):
    oscillation = Oscillation(memory=memory, intervals=intervals)
    found = [
        judged(ensemble(np.random.default_rng((1, i)), truth, 64, 0.01, oscillation))
        for i in range(trials)
    ]
    wrong = sum(one.verdict != RIGHT[truth] for one in found)
    assert wrong <= trials // 13  # of 99 % right, four or more of forty are wrong in 7e-4
    true_drift = 0.01 / intervals if truth == "linear" else 0.0
    covered = sum(one.low <= true_drift <= one.high for one in found)
    assert covered >= 0.85 * trials
    if truth.startswith("linear"):
        shared = {one.shared for one in found if one.verdict == LINEAR}
        assert shared == {truth == "linear"}


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
    (in_phase, True, WANDERS),  # behind which a drift could hide
    (burn_in, True, NONE),
    (norm(lambda rng, starts: walks(rng, starts, N)), False, WALK),
    (norm(own_lines), False, LINEAR),
    (norm(oscillation), False, NONE),
)


@pytest.mark.parametrize(("series", "signed", "right"), CASES, ids=range(len(CASES)))
def test_kinds_of_errors_that_are_easily_mistaken(series, signed, right):
    found = [judged(series(np.random.default_rng((2, i)), 64), value=signed) for i in range(3)]
    assert [one.verdict for one in found] == 3 * [right], [one.in_words for one in found]
    assert {one.signed for one in found} == {signed}


@pytest.mark.parametrize("starts", [1, 3, 8])
def test_few_starts_tell_lines_from_oscillations(starts):
    rng = np.random.default_rng(4)
    up, down = growing(1.0)(rng, starts), -growing(1.0)(rng, starts)
    found = drift_table(table_of({"up": up, "down": down, "still": oscillation(rng, starts)}))
    assert [one.verdict for one in found] == [LINEAR, LINEAR, NONE]
    assert found[0].drift > 0 > found[1].drift


def test_random_walks_take_eight_starts():
    found = [
        judged(walks(np.random.default_rng((5, i)), starts, N)) for starts in (1, 4)
        for i in range(15)
    ]  # fmt: skip
    assert {one.verdict for one in found} <= {NONE, WANDERS, LINEAR}
    assert sum(one.verdict == LINEAR for one in found) <= 1  # 0.3 % of single runs
    assert any("8 starts or more tell" in one.in_words for one in found if one.verdict == WANDERS)


def test_a_slow_memory_is_no_random_walk():
    keeps, found = np.exp(-1 / (0.15 * N)), []  # of the run
    for i in range(4):
        series = np.random.default_rng((6, i)).normal(size=(64, 10 * N))
        for k in range(1, series.shape[1]):
            series[:, k] += keeps * series[:, k - 1]
        found.append(judged(series[:, -N:]))
    assert {one.verdict for one in found} <= {NONE, WANDERS}
    assert any("memory" in one.in_words for one in found)


def test_errors_that_are_exactly_zero():
    found = judged(np.zeros((64, N)))
    assert found.verdict == NONE and "the error is exactly 0" in found.in_words
    some = np.where(np.arange(64)[:, None] % 2, walks(np.random.default_rng(7), 64, N), 0.0)
    assert judged(some).verdict == WALK


@given(
    st.sampled_from(["√t", "linear", "bounded"]),
    st.floats(1e-12, 1e12),
    st.floats(-1e3, 1e3),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=8, deadline=None)
def test_units_offsets_and_order_of_the_starts_do_not_matter(truth, factor, offset, seed):
    rng = np.random.default_rng(seed)
    means = ensemble(rng, truth, 16, 0.01, Oscillation(intervals=128))
    first = judged(means, value=False)
    other = judged(-factor * (rng.permutation(means) + offset), value=False)
    assert other.low == pytest.approx(-factor * first.high, rel=1e-6)
    if WANDERS not in (first.verdict, other.verdict):  # which knows how far the errors are from 0
        assert other.verdict == first.verdict


def test_more_starts_than_are_read_at_once_are_one_ensemble():
    slopes = np.random.default_rng(8).choice([-0.5, 1.0, 2.0], 8200)
    noise = np.random.default_rng(9).normal(size=(8200, 16))
    row = judged(slopes[:, None] * line(16) + 1e-3 * noise)
    assert (row.starts, row.verdict) == (8200, LINEAR)
    assert row.drift == pytest.approx(slopes.mean() / 16, rel=1e-3)
    assert (row.rising, row.falling) == (np.sum(slopes > 0), np.sum(slopes < 0))


# --- what is said of them ---------------------------------------------------------------------


@st.composite
def ensembles(draw):
    """Interval means of any likeness, signs, growth, number of starts, noise and sizes."""
    starts = draw(st.sampled_from([1, 2, 3, 7, 8, 9, 17, 33, 64]))
    alike = draw(st.sampled_from([0.0, 0.3, 0.9, 1.0]))
    signs = draw(st.sampled_from(["one", "either", "most", "none"]))
    power = draw(st.sampled_from([0.3, 0.5, 1.0, 1.2, 1.5, 2.0, 4.0]))
    noise = draw(st.sampled_from([0.0, 1e-6, 0.01, 0.1, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    both = rng.normal(size=(1 + starts, 64))
    if draw(st.booleans()):
        both = np.cumsum(both, axis=1) / 8
    own = np.sqrt(alike) * both[:1] + np.sqrt(1 - alike) * both[1:]
    sign = {"one": np.ones(starts), "none": np.zeros(starts)}.get(signs)
    if sign is None:
        sign = rng.choice([1.0, -1.0], starts, p=[0.5, 0.5] if signs == "either" else [0.9, 0.1])
    return sign[:, None] * line(64) ** power + noise * own


@given(ensembles())
@settings(max_examples=25, deadline=None)
def test_every_clause_of_a_verdict_holds_of_the_series(means):
    row, slopes = judged(means), np.polyfit(line(64), means.T, 1)[0]
    text, starts = row.in_words, len(means)
    rising, falling = int(np.sum(slopes > 0)), int(np.sum(slopes < 0))
    clauses = ["of one sign in all starts", " with its sign", " starts rise, "]
    said = [clause in text for clause in clauses]
    assert sum(said) == (row.verdict in (LINEAR, WORSE, GROWS) and starts > 1)
    if said[0]:
        assert starts in (rising, falling)
    if said[1]:
        numbers = re.search(r"mean over the starts, (\d+) of (\d+) with its sign", text)
        of_mean = rising if slopes.mean() > 0 else falling
        assert [int(n) for n in numbers.groups()] == [of_mean, starts]
    if said[2]:
        numbers = re.search(r"(\d+) of (\d+) starts rise, (\d+) fall", text)
        assert [int(n) for n in numbers.groups()] == [rising, starts, falling]
    found = re.search(f"like t\\^{NUMBER} – t\\^{NUMBER}", text)
    if found:
        assert [float(n) for n in found.groups()] == pytest.approx(
            [row.exponent_low, row.exponent_high], abs=0.0051
        )
    if row.verdict == LINEAR:
        assert found and row.exponent_low <= 1.25 and row.exponent_high >= 0.75
    if row.verdict == WORSE:
        assert found and row.exponent_low > 1 and row.exponent >= 1.25
    assert ("undecided" in text) == (row.verdict == UNDECIDED)
    if found := re.search(r"(\d+) starts or more", text):
        assert int(found[1]) > starts


def test_alike_starts_are_worth_one():
    """Seventeen copies of one walk, and then seventeen walks."""
    rng = np.random.default_rng(1)
    walk = np.cumsum(rng.normal(size=64)) + 16 * line(64)
    row = judged(walk * (1 + 1e-6 * rng.normal(size=(17, 1))))
    assert row.verdict in (GROWS, WANDERS)
    assert row.likeness > 0.99 and row.effective == pytest.approx(1.0, abs=0.1)
    assert "needs 8 independent starts, has 1 (17 starts)" in row.in_words
    assert "starts further apart (likeness 0.062, not 1) tell" in row.in_words
    apart = judged(walks(rng, 17, 64))
    assert apart.effective > 8 and "further apart" not in apart.in_words


@pytest.mark.parametrize("power", [1.5, 3.0])
def test_alike_starts_of_one_sign_are_not_said_to_have_several(power):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        alike = 0.02 * (rng.normal(size=64) + 1e-3 * rng.normal(size=(17, 64)))
        row = judged(line(64) ** power + alike)
        assert (row.rising, row.falling) == (17, 0) and row.effective < 1.5
        assert (row.verdict == WANDERS) != ("of one sign in all starts" in row.in_words)


def test_the_sentence_above_a_table_counts_verdicts():
    rng = np.random.default_rng(3)
    still, up = 1e-3 * rng.normal(size=(8, 64)), np.tile(line(64), (8, 1))
    noisy = up + 1e-3 * rng.normal(size=(8, 64))
    rows = drift_table(table_of({"m0": noisy, "m1": still}))
    (text,) = summarize_drifts(rows)
    less = rows[1].compared[0]
    assert text == (
        f"Energy over 64 s: m0 drifts linearly; m1 shows no drift above {rows[1].bound:.2g} J/s "
        f"(95 %); m1 drifts {less} at equal step size (95 %)."
    )
    assert " ".join(tables_as_text(drifts_as_tables(rows)).split()).startswith(text)
    many = {f"m{i}": still for i in range(8)} | {"m8": noisy, "m9": up * line(64) + still}
    (text,) = summarize_drifts(drift_table(table_of(many)))
    assert text.startswith(
        "Energy over 64 s: m9 drifts faster than linearly; m8 drifts linearly; 8 of 10 integrators "
        "show no drift above "
    )
