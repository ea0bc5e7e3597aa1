"""What is measured of drifts: slopes with intervals, sizes, and the runs that they are of."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_tables import run_table, with_series
from short_series import KINDS, coverage, diffusing, few_cycles, white
from wandering import judged, table_of

from integrators.errors import InputError
from sweep.analysis import chaos_table, drift_table, structure_table
from sweep.tables import drifts_as_tables, tables_as_text

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


@pytest.mark.parametrize(
    ("kind", "intervals"),
    [*((kind, 100) for kind in KINDS), (white, 8), (few_cycles, 8), (diffusing, 8)],
)
def test_the_bound_covers_the_truth_whatever_the_kind(kind, intervals):
    """In a single short run."""
    inside, below, _ = coverage(kind, intervals, 200)
    # Of 94 % there are fewer than 88 % in two hundred trials with a probability below 1e-3.
    assert below >= 0.89
    assert inside >= 0.87  # of 93 %, with a memory of a tenth of the run


def test_a_drift_small_beside_the_oscillation_is_seen():
    ends = np.linspace(0.0, 100.0, 1001)
    middles = (ends[1:] + ends[:-1]) / 2
    phases = 2 * np.pi * np.arange(8)[:, None] / 8
    row = judged(np.sin(7.3 * middles + phases) + 1e-3 * middles, times=ends, step_sizes=(0.05,))
    assert 0 < row.low < 1e-3 < row.high < 2e-3 and row.verdict == "linear"


def test_errors_that_thin_out_with_time_drift_as_others_do():
    times = np.concatenate([[0.0], np.geomspace(0.01, 100.0, 100)])
    middles = (times[1:] + times[:-1]) / 2
    assert judged((2.0 * middles)[None], times=times, step_sizes=(0.01,)).drift == pytest.approx(
        2.0
    )
    table = run_table({"a": 2}, step_sizes=(0.01,), times=times)
    row = only(drift_table(with_series(table, "energy_error", -2.0 * times)))
    assert row.drift == pytest.approx(-2.0, rel=1e-3)
    assert row.mean_abs == pytest.approx(100.0, rel=0.1)  # by time, not by sample


def test_the_mean_over_every_step_leaves_the_start_out():
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
    assert row.mean_abs == pytest.approx(np.abs(error).mean(), rel=1e-14)
    assert row.max_abs == row.largest == np.abs(error).max()
    assert row.every_step and row.max_every_step
    (title,) = (one.title for one in drifts_as_tables([row]))
    assert "mean and max of |error| of every step" in title
    row = only(drift_table(table.drop_vars("energy_error_abs_max")))
    assert row.max_abs == np.abs(table["energy_error"]).max()
    (title,) = (one.title for one in drifts_as_tables([row]))
    assert "mean of |error| of every step, max of samples" in title
    for every, said in ((4, "every 4th step"), (10, "every 7th step")):  # the last, at the sample
        table["energy_error_mean"].attrs["every"] = every
        (title,) = (one.title for one in drifts_as_tables([only(drift_table(table))]))
        assert f"mean and max of |error| of {said}" in title


def test_intervals_of_different_length_weigh_by_their_steps():
    row = judged([[1.0, 4.0]], times=np.array([0.0, 1.0, 10.0]))
    assert row.mean_abs == pytest.approx((1.0 + 9 * 4.0) / 10)
    assert np.isnan(row.drift) and row.verdict == ""
    assert row.in_words == "no drift measured: 2 sample intervals, 8 or more are needed"


def test_samples_stand_in_for_statistics_and_it_is_said():
    row = only(drift_table(energy_table(-2.0 * TIMES)))
    assert row.drift == pytest.approx(-2.0)
    assert row.mean_abs == pytest.approx(101.0)
    assert row.max_abs == 200.0
    assert not row.every_step and "from samples" in row.in_words
    text = tables_as_text(drifts_as_tables([row]))
    assert "mean and max of |error| of samples" in text and "every step" not in text


def test_the_sentence_bounds_the_drift_and_has_units():
    row = only(drift_table(energy_table(3e-9 * TIMES, mean=3e-9 * TIMES)))
    assert row.in_words.startswith("linear, 3e-09 ± ")
    assert row.in_words.endswith(" J/s over 100 s (95 %)")
    assert row.bound >= abs(row.drift)
    error = np.cos(2 * np.pi * 0.1 * TIMES)
    row = only(drift_table(energy_table(error, mean=error)))
    assert row.in_words == f"no drift seen, |drift| ≤ {row.bound:.2g} J/s over 100 s (95 %)"


def test_a_row_is_of_means_over_the_starts():
    starts = ("lee", "lee[0]", "lee[1]")
    error = np.array([[1.0], [5.0], [2.0]]) * np.sin(TIMES)
    row = only(drift_table(energy_table(error, starts=starts)))
    assert row.starts == 3
    largest = np.abs(np.sin(TIMES)).max()
    assert (row.max_abs, row.largest) == pytest.approx((8 / 3 * largest, 5 * largest))
    assert abs(row.drift) * row.duration < 2 * row.max_abs


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
    assert row.in_words == "no drift measured: no run is complete"


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


def test_what_is_at_round_off_is_told_by_the_quantity_and_the_arithmetic():
    """Whatever it does there: sixteen roundings of the quantity, and no more."""
    rng, starts = np.random.default_rng(3), tuple(f"random[{i}]" for i in range(16))
    error = 2.0**-48 * (TIMES / 100 + 1e-3 * rng.normal(size=(16, 101)))

    def rounded(error, **attributes):
        table = with_series(energy_table(error, starts=starts), "energy", 2.0)
        return only(drift_table(table.assign_attrs(**attributes)))

    row = rounded(error)
    assert row.verdict == "at round-off" and row.round_off == 2.0**-51 and row.low > 0
    assert row.exponent_low <= row.exponent <= row.exponent_high
    assert rounded(4 * error).verdict == "linear"
    assert rounded(0 * error).verdict == "at round-off"
    precise = '{"a": {"name": "a", "options": {"arithmetic": "double-double"}}}'
    row = rounded(error, integrators=precise)
    assert row.verdict == "linear" and row.round_off == 2.0**-103


def test_bad_input_names_what_there_is():
    table = energy_table(TIMES)
    for answer in (chaos_table, drift_table, structure_table):
        with pytest.raises(
            InputError, match=r"record = \[.*\], and run it into a store of its own"
        ):
            answer(table.drop_vars("energy_error"))
    with pytest.raises(InputError, match="Did you mean 'energy'"):
        drift_table(table, quantities=["enrgy"])
    with pytest.raises(InputError, match="'all' or 'smallest'"):
        drift_table(table, step_sizes="largest")


def test_runs_that_fail_are_judged_until_the_first_of_them_does():
    """Of four, one is complete: the longer three say more together, until one of them fails."""
    error = TIMES**2 * np.array([[1.0], [1.1], [1.2], [1.3]])
    stops = (41, 61, 81, 101)
    for row, stop in zip(error, stops, strict=True):
        row[stop:] = np.nan
    table = energy_table(error, starts=tuple("abcd"))
    table["sample_count"][:] = np.array(stops)
    table["status"][:] = [1, 1, 1, 0]
    row = only(drift_table(table))
    assert (row.starts, row.left_out, row.stopped, row.duration) == (3, 1, 2, 60.0)
    assert (row.verdict, row.steps) == ("unsteady", 600.0)
    assert row.until_failure == "until 60 s, after which 2 of its 3 runs fail"
    assert row.until_failure in tables_as_text(drifts_as_tables([row]))
    text = tables_as_text(drifts_as_tables([row]))
    assert text.startswith("Energy over 60 s: a fails (1 of 4 runs complete; judged until 60 s).")
    # Where half of the runs are complete, they are what counts.
    row = only(drift_table(table.isel(run=[2, 3])))
    assert (row.starts, row.left_out, row.stopped, row.duration) == (1, 1, 0, 100.0)
    # Nothing is said of no drift where all runs fail.
    table["status"][:], waves = 1, np.where(np.isnan(error), error, np.sin(TIMES))
    row = only(drift_table(with_series(table, "energy_error", waves)))
    assert row.verdict == "runs fail"
    text = tables_as_text(drifts_as_tables([row]))
    assert "a fails (none of 4 runs complete; " in text
    assert "runs fail: most runs fail; until then, no drift is seen." in text
    # Too few samples before the failure: so many of a whole run would do.
    table["sample_count"][:] = 5
    table["status"][:] = 1
    row = only(drift_table(table))
    assert row.verdict == "" and row.stopped == 4 and row.reason.startswith("4 sample intervals")
    text = tables_as_text(drifts_as_tables([row]))
    assert (
        "a fails (none of 4 runs complete; " in text
        and f"{row.in_words}; {row.until_failure}" in text
    )
    table["sample_count"][:] = 2
    assert only(drift_table(table)).reason.startswith("1 sample interval, 8 or more")
    table["sample_count"][:] = 1  # the start alone
    assert only(drift_table(table)).in_words == "no drift measured: no run is complete"
