"""What is measured of drifts: slopes with intervals, sizes, and the runs that they are of."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_tables import run_table, with_series
from short_series import KINDS, diffusing, few_cycles, white
from wandering import judged, table_of

from integrators.errors import InputError
from sweep.analysis import drift_table

TIMES = np.linspace(0.0, 100.0, 101)


def only(rows):
    (row,) = rows
    return row


def energy_table(error, step_sizes=(0.1,), starts=("lee",), **statistics):
    table = run_table({"a": 2}, step_sizes=step_sizes, starts=starts, times=TIMES)
    return with_series(table, "energy_error", error, **statistics)


@pytest.mark.parametrize(
    ("slope", "start", "intervals"), [(1e3, -2.0, 8), (-0.3, 1e3, 100), (1e-9, 0.0, 300)]
)
def test_a_straight_line_gives_its_slope(slope, start, intervals):
    ends = np.linspace(0.0, 10.0, intervals + 1)
    middles = (ends[1:] + ends[:-1]) / 2
    row = judged((start + slope * middles)[None], times=ends, step_sizes=(0.01,), value=False)
    assert row.drift == pytest.approx(slope, abs=1e-12 * abs(start), rel=1e-9)
    assert row.low <= row.drift <= row.high and row.high - row.low < 1e-9 * abs(slope) + 1e-11


@given(st.floats(-10, 10), st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1))
@settings(max_examples=8, deadline=None)
def test_adding_a_trend_shifts_and_a_factor_scales(trend, factor, seed):
    noise = np.random.default_rng(seed).normal(size=(3, 100))
    line = trend * (np.arange(100) + 0.5)
    first, shifted, scaled = (
        (row.drift, row.low, row.high)
        for row in drift_table(
            table_of({"a": noise, "b": noise + line, "c": factor * noise}, value=False)
        )
    )
    assert shifted == pytest.approx([value + trend for value in first], abs=1e-9)
    assert scaled == pytest.approx([value * factor for value in first], rel=1e-9)


def covered(kind, intervals, trials, trend=20.0):
    """How often the interval, and the bound, hold of a single series with a known drift."""
    rng = np.random.default_rng((0, intervals))
    line = trend * (np.arange(intervals) + 0.5) / intervals
    inside = below = 0
    for _ in range(trials):
        series = kind(rng, intervals)
        row = judged((series / (np.std(series) or 1.0) + line)[None], value=False)
        exact, drift = 1e-9 * abs(trend), trend / intervals  # of rounding
        inside += row.low - exact <= drift <= row.high + exact
        below += abs(drift) <= row.bound + exact
    return np.array([inside, below]) / trials


def test_the_interval_covers_the_truth_in_a_single_short_run():
    found = [covered(kind, 64, 8) for kind in KINDS]
    inside, below = np.mean(found, axis=0)
    assert inside >= 0.9 and below >= 0.91
    assert np.min(found) >= 0.5  # of each kind of eight


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "intervals"),
    [*((kind, 100) for kind in KINDS), (white, 8), (few_cycles, 8), (diffusing, 8)],
)
def test_the_bound_covers_the_truth_whatever_the_kind(kind, intervals):
    inside, below = covered(kind, intervals, 200)
    # Of 94 % there are fewer than 88 % in two hundred trials with a probability below 1e-3.
    assert below >= 0.89
    assert inside >= 0.87  # of 93 %, with a memory of a tenth of the run


def test_a_drift_small_beside_the_oscillation_is_seen():
    ends = np.linspace(0.0, 100.0, 1001)
    middles = (ends[1:] + ends[:-1]) / 2
    row = judged((np.sin(7.3 * middles) + 1e-3 * middles)[None], times=ends, step_sizes=(0.05,))
    assert 0 < row.low < 1e-3 < row.high < 2e-3


def test_errors_that_thin_out_with_time_drift_as_others_do():
    times = np.concatenate([[0.0], np.geomspace(0.01, 100.0, 100)])
    middles = (times[1:] + times[:-1]) / 2
    assert judged((2.0 * middles)[None], times=times, step_sizes=(0.01,)).drift == pytest.approx(
        2.0
    )
    table = run_table({"a": 2}, step_sizes=(0.01,), times=times)
    row = only(drift_table(with_series(table, "energy_error", -2.0 * times)))
    assert row.drift == pytest.approx(-2.0)
    assert row.mean_abs.median == pytest.approx(100.0, rel=0.1)  # by time, not by sample


def test_the_mean_over_every_step_counts_step_zero_as_none():
    rng = np.random.default_rng(0)
    steps_per_interval, intervals = 7, 100
    error = rng.normal(size=intervals * steps_per_interval)  # of steps 1 … N
    by_interval = np.abs(error).reshape(intervals, steps_per_interval)
    table = energy_table(
        np.concatenate([[0.0], error[steps_per_interval - 1 :: steps_per_interval]]),
        mean=np.concatenate([[np.nan], error.reshape(by_interval.shape).mean(axis=1)]),
        abs_mean=np.concatenate([[np.nan], by_interval.mean(axis=1)]),
        abs_max=np.concatenate([[np.nan], by_interval.max(axis=1)]),
    )
    table["steps"][:] = error.size
    row = only(drift_table(table))
    every_step = np.abs(np.concatenate([[0.0], error]))
    assert row.mean_abs.median == pytest.approx(every_step.mean(), rel=1e-14)
    assert row.max_abs.median == every_step.max()
    assert row.every_step


def test_intervals_of_different_length_weigh_by_their_steps():
    row = judged([[1.0, 4.0]], times=np.array([0.0, 1.0, 10.0]))
    assert row.mean_abs.median == pytest.approx((2 * 1.0 + 18 * 4.0) / 21)
    assert np.isnan(row.drift)
    assert "needs 8 windows as long as the last sample interval, has 1" in row.sentence


def test_samples_stand_in_for_statistics_and_it_is_said():
    row = only(drift_table(energy_table(-2.0 * TIMES)))
    assert row.drift == pytest.approx(-2.0)
    assert row.mean_abs.median == pytest.approx(100.0)
    assert row.max_abs.median == 200.0
    assert not row.every_step
    assert "from samples" in row.sentence


def test_the_sentence_bounds_the_drift_and_has_units():
    row = only(drift_table(energy_table(3e-9 * TIMES, mean=3e-9 * TIMES)))
    assert row.sentence == "|drift| ≤ 3e-09 J/s over 100 s (95 %)"
    assert row.bound >= abs(row.drift)


def test_an_ensemble_has_a_median_and_a_range():
    starts = ("lee", "lee[0]", "lee[1]")
    error = np.array([[1.0], [5.0], [2.0]]) * np.sin(TIMES)
    row = only(drift_table(energy_table(error, starts=starts)))
    assert row.starts == 3
    largest = np.abs(np.sin(TIMES)).max()
    spread = row.max_abs
    assert (spread.low, spread.median, spread.high) == pytest.approx(
        (largest, 2 * largest, 5 * largest)
    )


def test_runs_that_do_not_count_are_left_out_and_counted():
    starts = ("lee", "lee[0]", "lee[1]", "lee[2]")
    error = np.ones((4, 1)) * TIMES
    error[2] = np.nan
    table = energy_table(error, starts=starts)
    table["status"][0] = 3
    row = only(drift_table(table))
    assert (row.starts, row.left_out) == (2, 2)
    assert row.drift == pytest.approx(1.0)
    table["status"][:] = -1
    row = only(drift_table(table))
    assert np.isnan(row.drift)
    assert row.sentence == "no drift measured: no run is complete"


def test_rows_by_step_size_and_quantity():
    table = energy_table(TIMES, step_sizes=(0.1, 0.01, 0.05))
    table = with_series(table, "momentum_error", TIMES)
    rows = drift_table(table)
    assert [(row.step_size, row.quantity) for row in rows] == [
        (h, quantity) for h in (0.01, 0.05, 0.1) for quantity in ("energy", "momentum")
    ]
    smallest = drift_table(table, quantities=["momentum"], step_sizes="smallest")
    assert [(row.step_size, row.quantity) for row in smallest] == [(0.01, "momentum")]


def test_the_smallest_step_size_is_found_for_each_scanned_value():
    table = run_table(
        {"a": 2, "b": 2}, step_sizes=(0.1, 0.05), scan={"gravity": (1.0, 9.81)}, times=TIMES
    )
    table = with_series(table, "energy_error", TIMES)
    # One of the four has no run at the smaller step size.
    lacks = (table.integrator == "b") & (table.gravity == 1.0) & (table.step_size == 0.05)
    rows = drift_table(table.isel(run=~lacks.values), step_sizes="smallest")
    assert [(row.integrator, row.parameters["gravity"], row.step_size) for row in rows] == [
        ("a", 1.0, 0.05),
        ("a", 9.81, 0.05),
        ("b", 1.0, 0.1),
        ("b", 9.81, 0.05),
    ]


def test_where_a_drift_could_hide_none_is_said_to_be_unseen():
    row = only(drift_table(energy_table(np.cos(2 * np.pi * (0.009 * TIMES + 0.1))), "energy"))
    assert row.bound * row.duration > row.max_abs.median
    assert row.verdict == "wanders"


@pytest.mark.parametrize("starts", [("lee",), tuple(f"random[{i}]" for i in range(16))])
def test_what_grows_by_less_than_one_rounding_is_said_to(starts):
    """Means over many steps see a drift that no single energy can show."""
    rng, said = np.random.default_rng(3), "less at the end than one rounding of the energy, 4e-16 J"
    error = 8e-17 * TIMES / 100 + 1e-18 * rng.normal(size=(len(starts), 101))
    table = with_series(energy_table(error, starts=starts), "energy", 2.0 + error)
    moving = with_series(table, "energy_error", error, mean=error, abs_max=1e-14)  # in a step
    row = only(drift_table(moving))
    assert row.verdict == "linear" and row.size == pytest.approx(8e-17, rel=0.1)
    assert row.resolution == 2.0**-51 and row.below_rounding and said in row.in_words
    above = only(drift_table(energy_table(10 * error, starts=starts)))
    assert above.verdict == "linear" and above.resolution == 2.0**-52
    assert not above.below_rounding and "rounding" not in above.in_words
    precise = table.assign_attrs(
        integrators='{"a": {"name": "a", "options": {"arithmetic": "double-double"}}}'
    )
    row = only(drift_table(precise))
    assert row.verdict == "linear" and row.resolution == 2.0**-103 and not row.below_rounding


def test_a_few_roundings_are_at_round_off():
    """A drift below one rounding, and what wanders, are no more; larger errors are."""
    rng, starts = np.random.default_rng(3), tuple(f"random[{i}]" for i in range(16))
    error = 8e-17 * TIMES / 100 + 1e-18 * rng.normal(size=(16, 101))

    def rounded(error):
        return only(drift_table(with_series(energy_table(error, starts=starts), "energy", 2.0)))

    row = rounded(error)
    assert row.verdict == "at round-off" and np.isnan(row.size)
    assert row.largest_in_roundings == pytest.approx(np.abs(error).max() * 2.0**51)
    said = f"at round-off, |error| ≤ {row.largest_in_roundings:.2g} roundings of the energy"
    assert row.in_words == f"{said}, 4e-16 J each"
    # As many walk together: few independent ones, which tell no law.
    walk = np.cumsum(rng.normal(size=101)) * 2.0**-54
    assert rounded(walk + 0 * error).verdict == "at round-off"
    assert rounded(1e3 * walk + 0 * error).verdict == "wanders"
    # What surely grows by more than a rounding drifts, however few roundings it reaches.
    assert rounded(10 * error).verdict == "linear"
    still = rounded(1e-18 * rng.normal(size=(16, 101)))
    assert still.verdict == "no drift seen" and rounded(0 * error).verdict == "no drift seen"


def test_bad_input_names_what_there_is():
    table = energy_table(TIMES)
    with pytest.raises(InputError, match="Did you mean 'energy'"):
        drift_table(table, quantities=["enrgy"])
    with pytest.raises(InputError, match="'all' or 'smallest'"):
        drift_table(table, step_sizes="largest")


def test_runs_that_fail_are_judged_until_the_first_of_them_does():
    """Of four, one is complete: the longer three say more together, until one of them fails."""
    error = np.exp(TIMES / 10) * np.array([[1.0], [1.1], [1.2], [1.3]])
    stops = (41, 61, 81, 101)
    for row, stop in zip(error, stops, strict=True):
        row[stop:] = np.nan
    table = energy_table(error, starts=tuple("abcd"))
    table["sample_count"][:] = np.array(stops)
    table["status"][:] = [1, 1, 1, 0]
    row = only(drift_table(table))
    assert (row.starts, row.left_out, row.stopped, row.duration) == (3, 1, 2, 60.0)
    assert (row.verdict, row.steps) == ("worse than linear", 600.0)
    assert "until 60 s, after which 2 of its 3 runs fail" in row.in_words
    # Where half of the runs are complete, they are what counts.
    row = only(drift_table(table.isel(run=[2, 3])))
    assert (row.starts, row.left_out, row.stopped, row.duration) == (1, 1, 0, 100.0)
    # Too few samples before the failure: so many of a whole run would do.
    table["sample_count"][:] = 5
    table["status"][:] = 1
    row = only(drift_table(table))
    assert row.verdict == "undecided" and row.stopped == 4 and "200 samples" in row.in_words
    table["sample_count"][:] = 1  # the start alone
    assert only(drift_table(table)).sentence == "no drift measured: no run is complete"
