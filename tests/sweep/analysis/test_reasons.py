"""What is printed of a verdict holds of the data: text against fields, fields against series."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from run_tables import run_table, with_series

from sweep.analysis import drift_table, growth_table, order_table
from sweep.analysis.drift.growth import fit_growth_exponent
from sweep.analysis.drift.verdicts import (
    GROWS,
    LINEAR,
    LOOSE,
    NONE,
    UNDECIDED,
    WALK,
    WANDERS,
    WORSE,
)
from sweep.tables import drifts_as_tables, growth_as_tables, orders_as_table, tables_as_text

TIMES = np.linspace(0.0, 64.0, 65)  # as many intervals as windows
MIDDLES = (TIMES[1:] + TIMES[:-1]) / 2
SINCE = MIDDLES / TIMES[-1]
NUMBER = r"(-?[\d.]+(?:e[-+]\d+)?)"


def table_of(means):
    """A run table of one integrator, of starts with these interval means of the energy error."""
    starts = tuple(f"start[{i}]" for i in range(len(means)))
    table = run_table({"a": 2}, step_sizes=(0.5,), starts=starts, times=TIMES)
    with_first = np.concatenate([np.full((len(means), 1), np.nan), means], axis=1)
    ends = np.concatenate([np.zeros((len(means), 1)), means], axis=1)
    table = with_series(table, "energy", 1.0 + ends)  # an error of a value has a sign
    return with_series(table, "energy_error", ends, mean=with_first, abs_mean=np.abs(with_first))


def judged(means):
    (row,) = drift_table(table_of(means))
    return row


def smooth(noise, width):
    """Noise with a memory of some intervals."""
    kernel = np.exp(-np.arange(4 * width + 1) / width)
    full = np.apply_along_axis(np.convolve, 1, noise, kernel)
    return full[:, : noise.shape[1]] / np.sqrt(np.sum(kernel**2))


@st.composite
def ensembles(draw):
    """Interval means of any likeness, signs, growth, number of starts, noise and sizes."""
    starts = draw(st.sampled_from([1, 2, 3, 7, 8, 9, 17, 33, 64]))
    alike = draw(st.sampled_from([0.0, 0.3, 0.9, 0.999, 1.0]))
    signs = draw(st.sampled_from(["one", "either", "most", "none"]))
    power = draw(st.sampled_from([0.3, 0.5, 1.0, 1.2, 1.5, 2.0, 4.0]))
    noise = draw(st.sampled_from([0.0, 1e-6, 0.01, 0.1, 1.0]))
    spread = draw(st.sampled_from([0.0, 0.3, 3.0]))
    kind = draw(st.sampled_from(["white", "memory", "walk"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    both = rng.normal(size=(1 + starts, len(MIDDLES)))
    if kind == "memory":
        both = smooth(both, 5)
    elif kind == "walk":
        both = np.cumsum(both, axis=1) / np.sqrt(len(MIDDLES))
    own = np.sqrt(alike) * both[:1] + np.sqrt(1 - alike) * both[1:]
    sign = {"one": np.ones(starts), "none": np.zeros(starts)}.get(signs)
    if sign is None:
        sign = rng.choice([1.0, -1.0], starts, p=[0.5, 0.5] if signs == "either" else [0.9, 0.1])
    sizes = np.exp(spread * (1 - alike) * rng.normal(size=(starts, 1)))
    return sizes * (sign[:, None] * SINCE**power + noise * own)


def slopes_of(means):
    return np.polyfit(MIDDLES, means.T, 1)[0]


def likeness_in(means):
    """Mean squared correlation over the pairs of starts, of what a straight line leaves."""
    fits = np.polyfit(MIDDLES, means.T, 1)
    rest = means - (fits[0][:, None] * MIDDLES + fits[1][:, None])
    return np.mean(np.corrcoef(rest)[np.triu_indices(len(means), 1)] ** 2)


@given(ensembles())
@settings(max_examples=150, deadline=None)
def test_every_clause_of_a_drift_verdict_holds_of_the_series(means):
    row, slopes, starts = judged(means), slopes_of(means), len(means)
    text = row.in_words
    rising, falling = int(np.sum(slopes > 0)), int(np.sum(slopes < 0))
    assert (row.starts, row.signed) == (starts, True)
    if np.abs(slopes).min() > 1e-12 * np.abs(means).max() / TIMES[-1]:
        assert (row.rising, row.falling) == (rising, falling)
        if abs(slopes.mean()) > 1e-9 * np.abs(slopes).max():  # starts that cancel have no sign
            assert row.with_mean == (rising if slopes.mean() > 0 else falling)
    check_signs(row, text)
    check_exponent(row, text)
    check_remedies(row, text, means)
    assert 1 <= row.effective <= starts * (1 + 1e-12) and 0 <= row.likeness <= 1
    if row.verdict == WALK:
        assert row.effective >= 32
    assert ("undecided" in text) == (row.verdict == UNDECIDED)
    if row.verdict in (UNDECIDED, *LOOSE):
        assert row.why and all(why.tested for why in row.why)
    if "exactly 0" in text:
        assert not means.any()
    if found := re.search(f"rms over the starts {NUMBER} – {NUMBER}", text):
        assert float(found[1]) <= float(found[2]) and not row.shared


def check_signs(row, text):
    clauses = ["of one sign in all starts", " with its sign", " starts rise, "]
    said = [clause in text for clause in clauses]
    assert sum(said) == (row.verdict in (LINEAR, WORSE, GROWS) and row.starts > 1)
    if said[0]:
        assert row.starts in (row.rising, row.falling)
    if said[1]:
        numbers = re.search(r"mean over the starts, (\d+) of (\d+) with its sign", text)
        assert [int(n) for n in numbers.groups()] == [row.with_mean, row.starts] and row.shared
    if said[2]:
        numbers = re.search(r"(\d+) of (\d+) starts rise, (\d+) fall", text)
        assert [int(n) for n in numbers.groups()] == [row.rising, row.starts, row.falling]
        assert not row.shared and row.starts not in (row.rising, row.falling)


def check_exponent(row, text):
    low, p, high = row.exponent_low, row.exponent, row.exponent_high
    if found := re.search(f"like t\\^{NUMBER} – t\\^{NUMBER}", text):
        assert [float(n) for n in found.groups()] == pytest.approx([low, high], abs=0.0051)
    if row.verdict == LINEAR:
        assert found and (low > 0 or high < 2) and low <= 1.25 and high >= 0.75
    if row.verdict == WORSE:
        assert found and low > 1 and p >= 1.25
    if "like any power" in text:
        assert low < -0.89 and high > 19.9 and row.verdict == GROWS


def check_remedies(row, text, means):
    if found := re.search(f"further apart \\(likeness {NUMBER}, not {NUMBER}\\)", text):
        wanted, now = float(found[1]), float(found[2])
        assert wanted < row.likeness == pytest.approx(now, rel=0.06)
        assert likeness_in(means) > 1 / 32  # alike they are, by a plain correlation too
        sizes = np.std(means, axis=1)
        assert sizes.max() <= 3 * sizes.min()  # and no start differs much from the others
    if found := re.search(r"(\d+) starts? count as " + NUMBER, text):
        assert int(found[1]) == row.starts
        assert float(found[2]) == pytest.approx(row.effective, rel=0.06)
    if found := re.search(r"(\d+) starts or more", text):
        assert int(found[1]) > row.starts
    if found := re.search(f"{NUMBER} times the duration", text):
        assert 2 <= float(found[1]) <= 100
    if row.verdict == NONE and row.why:
        assert {why.tested for why in row.why} <= {"memory", "largest error"}
        assert all(why.value <= why.threshold for why in row.why)
    for why in row.why:
        for remedy in why.remedies:
            assert np.isfinite([remedy.number, remedy.now]).all() and remedy.number != remedy.now


def common(rng, starts=17, apart=1e-3, noise=0.02):
    """Starts that correlate at 0.999: the same noise in all of them."""
    return noise * (rng.normal(size=64) + apart * rng.normal(size=(starts, 64)))


@pytest.mark.parametrize("power", [1.5, 2.0, 3.0])
def test_alike_starts_of_one_sign_are_not_said_to_have_several(power):
    for seed in range(6):
        row = judged(SINCE**power + common(np.random.default_rng(seed)))
        assert (row.rising, row.falling) == (17, 0)
        assert row.effective < 1.5
        assert row.verdict in (LINEAR, WORSE, *LOOSE)
        assert (row.verdict == WANDERS) != ("of one sign in all starts" in row.in_words)


def test_alike_starts_are_worth_one_for_the_growth_too():
    """Every ensemble is 17 copies of one walk: an exponent from their scatter would be exact."""
    times = np.geomspace(1.0, 1000.0, 61)
    held, narrowest = 0, np.inf
    for seed in range(60):
        rng = np.random.default_rng(seed)
        kicks = rng.normal(size=(1, 61)) + 1e-3 * rng.normal(size=(17, 61))
        fit = fit_growth_exponent(
            times, np.cumsum(kicks * np.sqrt(np.diff(times, prepend=0.0)), axis=1)
        )
        assert fit.likeness.effective < 1.5 and not fit.biased
        held += fit.low <= 0.5 <= fit.high
        narrowest = min(narrowest, fit.high - fit.low)
    assert held >= 50 and narrowest > 0.1


def test_far_starts_are_not_told_to_lie_further_apart():
    """Of widely different energy, and errors: eight of them count as fewer only by chance."""
    told = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        sizes = np.exp(2 * rng.normal(size=(8, 1)))
        walks = np.cumsum(rng.normal(size=(8, 64)), axis=1)
        row = judged(sizes * (walks + 0.1 * MIDDLES))
        assert "further apart" not in row.in_words
        if "independent starts" in row.in_words:
            told += 1
            assert "starts or more" in row.in_words
    assert told > 3


def test_alike_and_close_starts_are_told_so_with_the_likeness():
    rng = np.random.default_rng(1)
    walk = np.cumsum(rng.normal(size=64)) + 16 * SINCE
    row = judged(walk * (1 + 1e-6 * rng.normal(size=(17, 1))))
    assert row.likeness > 0.99 and row.effective == pytest.approx(1.0, abs=0.1)
    (reason,) = row.why
    assert (reason.tested, reason.threshold) == ("independent starts", 8)
    assert reason.value == row.effective
    assert "needs 8 independent starts, has 1 (17 starts)" in row.in_words
    assert "starts further apart (likeness 0.062, not 1) tell" in row.in_words


def test_an_interval_that_says_nothing_tells_no_law():
    """Starts jump where they pass a singularity, by amounts over many decades."""
    seen = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sizes, passed = 10 ** rng.uniform(-10, 0, size=(8, 1)), rng.uniform(5, 60, size=(8, 1))
        jumps = (passed < MIDDLES) * rng.uniform(size=(8, 1))
        row = judged(sizes * (0.3 * SINCE + jumps))
        if row.verdict in (LINEAR, WORSE):
            assert row.exponent_low > -0.89 and row.exponent_high < 19.9
        if any(why.tested == "exponent" for why in row.why):
            seen += 1
            assert row.verdict == GROWS and row.why[0].remedies
    assert seen > 3


@given(ensembles())
@settings(max_examples=25, deadline=None)
def test_the_growth_table_says_the_same(means):
    table = table_of(means)
    (row,), (drift,) = growth_table(table), drift_table(table)
    named = ("starts", "rising", "falling", "with_mean", "effective", "likeness", "signed")
    assert [getattr(row, n) for n in named] == [getattr(drift, n) for n in named]
    assume(drift.why is not None and drift.bound * drift.duration < drift.max_abs.median)
    assert (row.verdict, row.biased) == (drift.verdict, drift.shared)
    text = tables_as_text(growth_as_tables([row]))
    if row.verdict in (LINEAR, WORSE) and row.starts > 1:
        assert (
            row.sign and row.sign in text and row.sign in tables_as_text(drifts_as_tables([drift]))
        )
    if row.low == row.low:
        assert row.low <= row.exponent <= row.high


@st.composite
def error_tables(draw):
    """Errors of any order, bent, scattered, level at a floor, of several starts; some missing."""
    count, starts = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    order = draw(st.sampled_from([0.2, 0.45, 1.0, 1.5, 2.0, 2.96, 4.0]))
    declared = draw(st.sampled_from([1, 2, 3, 4]))
    bend = draw(st.sampled_from([0.0, 1.0, 30.0]))
    noise = draw(st.sampled_from([0.0, 0.02, 0.5]))
    level = draw(st.sampled_from([0.0, 1e-9, 1e-5]))
    own = draw(st.sampled_from([1e-14, 1e-9, 1e-6, 1e-4, np.nan]))
    ratio = draw(st.sampled_from([1.3, 2.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = 0.1 / ratio ** np.arange(count)
    names = tuple(f"start[{i}]" for i in range(starts))
    table = run_table({"a": declared}, step_sizes=tuple(sizes), starts=names, times=(0.0, 1.0))
    h = table["step_size"].values
    error = h**order * (1 + bend * h) * np.exp(noise * rng.normal(size=len(h)))
    error = (error + level * np.exp(noise * rng.normal(size=len(h)))) * rng.uniform(0.5, 2)
    table["global_error"][:, 1] = error
    table["reference_error"][:] = own
    return table


@given(error_tables())
@settings(max_examples=150, deadline=None)
def test_every_clause_of_an_order_holds_of_the_errors(table):
    (row,) = order_table(table)
    text = row.reason
    sizes = np.unique(table["step_size"].values)
    errors = np.array([point.error for point in row.points])
    own = max(0.2 * float(table["reference_error"][0, 1]), 2.0**-50)
    share = errors / own
    check_numbers(row, text)
    if "the reference failed" in text:
        assert np.isnan(table["reference_error"].values).all()
        return
    assert not np.isnan(own)
    if found := re.search(r"all (\d+) are at the floor", text):
        assert int(found[1]) == len(sizes) and np.all(share < 100)
    if found := re.search(r"(\d+) within 100 times what", text):
        assert int(found[1]) == np.sum(share < 100)
    flat = f"from h = {NUMBER} to {NUMBER} the error does not fall faster than h\\^0.5, but like "
    if found := re.search(f"{flat}h\\^{NUMBER}, {NUMBER} decades", text):
        coarse, fine, slope, above = (float(n) for n in found.groups())
        i, j = (np.argmin(np.abs(sizes - h)) for h in (fine, coarse))
        measured = np.log(errors[j] / errors[i]) / np.log(sizes[j] / sizes[i])
        assert measured < 0.5 and slope == pytest.approx(measured, abs=0.0051)
        assert above == pytest.approx(
            np.log10(np.median(errors[share >= 100][: j + 1]) / own), abs=1
        )
        assert above > 0
    if row.level_count < row.floor_count and row.floor_count:
        assert np.any(share < 100)  # a table that says "floor" means that errors are at one
    if " flat" in str(orders_as_table([row])):
        assert row.level_count == row.floor_count > 0


def check_numbers(row, text):
    half = (row.high - row.low) / 2
    if "is wider than" in text:
        assert half > 0.1
    if found := re.search(f"{NUMBER} ± {NUMBER} reaches beyond (\\d+) ± 0.1", text):
        near = int(found[3])
        assert abs(row.order - near) <= 0.1 and half <= 0.1
        assert row.high > near + 0.1 or row.low < near - 0.1
    if "is not near a whole order" in text:
        assert abs(row.order - round(row.order)) > 0.1
    if "still approaching" in text:
        used = [point for point in row.points if point.use == "used"]
        pairs = itertools.pairwise(used)
        gaps = [
            abs(np.log(b.error / a.error) / np.log(b.step_size / a.step_size) - row.declared)
            for a, b in pairs
        ]
        assert gaps[0] < gaps[-1] + 0.05
    if found := re.search(r"(\d+) step sizes? counts?, 3 are needed", text):
        assert int(found[1]) == row.used < 3
    for why in row.why:
        for remedy in why.remedies:
            assert np.isfinite([remedy.number, remedy.now]).all()
            if remedy.what == "smaller step size":
                assert remedy.number < row.points[0].step_size or row.floor_count
            if remedy.what == "starts":
                assert remedy.number > row.starts
            if remedy.what == "step sizes":
                assert remedy.number > row.used


def test_errors_that_fall_at_every_halving_are_not_said_to_be_in_round_off():
    """The finest two fall like h^0.42: that is all there is to say, ten decades above round-off."""
    h = tuple(0.1 / 2.0 ** np.arange(5))
    table = run_table({"a": 2}, step_sizes=h, times=(0.0, 1.0))
    table["global_error"][:, 1] = [1e-2, 4e-3, 1.5e-3, 6e-4, 4.5e-4]
    (row,) = order_table(table)
    assert row.verdict == UNDECIDED
    assert "round-off, or too large" not in row.reason and "all are" not in row.reason
    (reason,) = row.why
    slope = np.log2(6e-4 / 4.5e-4)
    assert (reason.tested, reason.threshold) == ("falls", 0.5)
    assert reason.value == pytest.approx(slope)
    assert reason.numbers["above"] > 10
    assert "from h = 0.0125 to 0.00625 the error does not fall faster than h^0.5" in row.reason
    assert "≤ 0.1 flat" in str(orders_as_table([row]))
    assert {remedy.what for remedy in reason.remedies} >= {"smaller step size"}


def test_a_growth_that_is_not_told_from_another_says_how_many_starts_tell():
    seen = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=(16, 64))
        row = judged(noise + 0.01 * rng.normal(size=(16, 1)) * MIDDLES)
        if any(why.tested == "bending" for why in row.why):
            (reason,) = row.why
            assert row.verdict in LOOSE and reason.value < reason.threshold
            more = {remedy.what: remedy.number for remedy in reason.remedies}
            assert more.get("starts", 17) > 16
            assert f"{reason.value:.2g} standard errors only" in row.in_words
            seen.append((reason.value, "starts" in more))
    assert len(seen) > 3 and any(value == 0 and told for value, told in seen)
