"""Growth of errors over an ensemble, of series whose answer is known."""

import numpy as np
import pytest
from run_tables import run_table, with_series
from wandering import TRUTHS, Oscillation, ensemble, table_of

from integrators.errors import InputError
from sweep.analysis import drift_table, growth_table
from sweep.tables import growth_as_tables, table_rows_for_json, tables_as_text

STARTS = 64
EPSILON = 2.0**-52
TIMES = np.geomspace(1.0, 1000.0, 31)


def walks(rng, starts=STARTS):
    """Random walks at `TIMES`, of variance t."""
    kicks = rng.normal(size=(starts, len(TIMES))) * np.sqrt(np.diff(TIMES, prepend=0.0))
    return kicks.cumsum(axis=1)


def growth(error, times=TIMES, signed=True):
    """The growth of these errors of samples that thin out, of one integrator's starts."""
    starts = tuple(f"random[{i}]" for i in range(len(error)))
    table = run_table({"a": 2}, (0.5,), starts, np.insert(times, 0, 0.0))
    error = np.insert(error, 0, 0.0, axis=1)
    if signed:
        table = with_series(table, "energy", 1e3 + 0.0 * error)
    (row,) = growth_table(with_series(table, "energy_error", error), ["energy"])
    return row


def test_random_walks_grow_like_the_root_of_time():
    rng = np.random.default_rng(1)
    rows = [growth(walks(rng)) for _ in range(35)]
    assert np.mean([row.exponent for row in rows]) == pytest.approx(0.5, abs=0.04)
    covered = np.mean([row.low <= 0.5 <= row.high for row in rows])
    assert covered >= 0.87  # of 94 %; two standard errors are 6 %
    assert sum(row.verdict == "linear" for row in rows) <= 1  # 0.7 %
    sizes = np.array([abs(row.drift) / row.drift_error for row in rows])
    assert np.mean(sizes <= 2) >= 0.88 and np.mean(sizes > 0.3) > 0.5


def test_a_drift_of_the_mean_is_seen_below_the_walk():
    row = growth(walks(np.random.default_rng(2)) + 0.1 * TIMES)
    half_step = 0.5 / (1e3 * EPSILON)  # in which drifts are, of an energy of 1e3
    assert row.biased and row.verdict == "linear"
    assert row.drift == pytest.approx(0.1 * half_step, abs=4 * row.drift_error)


def test_a_drift_of_another_sign_in_each_run_shows_in_the_exponent():
    row = growth(np.random.default_rng(3).normal(size=(STARTS, 1)) * TIMES)
    assert row.exponent == pytest.approx(1.0)
    assert not row.biased and row.verdict == "linear"


def test_noise_that_does_not_grow_lies_below():
    row = growth(np.random.default_rng(4).normal(size=(STARTS, len(TIMES))))
    assert abs(row.exponent) < 0.2 and row.verdict == "no drift seen"


def test_sizes_have_no_drift():
    row = growth(np.abs(walks(np.random.default_rng(7))), signed=False)
    assert np.isnan(row.drift) and not row.biased and row.verdict == "√t"


@pytest.mark.parametrize(
    ("error", "times", "reason"),
    [
        (np.ones((3, 31)), TIMES, "needs 8 starts that are complete, has 3: 8 starts or more tell"),
        (
            np.ones((8, 3)),
            TIMES[::10][:3],
            "needs 4 samples in the last decade, has 2: 4 samples a decade tell",
        ),
        (np.zeros((8, 31)), TIMES, "the error is exactly 0"),
    ],
)
def test_what_cannot_be_measured_says_why(error, times, reason):
    row = growth(error, times)
    assert np.isnan(row.exponent) and row.reason.endswith(reason)
    assert row.verdict == ("undecided" if error.any() else "no drift seen")


def test_the_table_has_steps_and_units_of_epsilon():
    starts = tuple(f"random[{i}]" for i in range(STARTS))
    times = np.array([0.0, *TIMES])
    table = run_table({"a": 2}, step_sizes=(0.5,), starts=starts, times=times)
    line = EPSILON * times  # in the ε of an energy of 2, half a step at a time: ¼
    walk = np.concatenate([np.zeros((STARTS, 1)), walks(np.random.default_rng(6))], axis=1)
    table = with_series(table, "energy_error", line + 1e-2 * EPSILON * walk)
    table = with_series(table, "energy", 2.0 + 0.0 * times)
    table["status"][0] = 3
    (row,) = rows = growth_table(table, ["energy"])
    assert (row.starts, row.left_out, row.steps, row.duration) == (63, 1, 2000.0, 1000.0)
    assert row.drift == pytest.approx(0.25, abs=4 * row.drift_error)
    assert row.verdict == "linear" and row.biased
    text = tables_as_text(growth_as_tables(rows))
    assert "of one sign in all starts" in text and "Left out" in text and "2.5e-01" in text
    assert row.resolution == 2 * EPSILON and not row.below_rounding
    small = with_series(table, "energy_error", 1e-3 * table.energy_error.values)
    (row,) = rows = growth_table(small, ["energy"])
    assert row.verdict == "at round-off" and not row.below_rounding
    assert "at round-off" in tables_as_text(growth_as_tables(rows))
    assert table_rows_for_json(rows)[0]["verdict"] == "at round-off"
    with pytest.raises(InputError, match="Did you mean 'energy'"):
        growth_table(table, ["enrgy"])


def test_it_says_the_same_as_the_table_of_drifts():
    rng, waves = np.random.default_rng(5), Oscillation(intervals=64)
    table = table_of({truth: ensemble(rng, truth, 16, 0.05, waves) for truth in TRUTHS})
    for row, drift in zip(growth_table(table), drift_table(table), strict=True):
        named = ("integrator", "verdict", "starts", "rising", "falling", "signed")
        assert [getattr(row, n) for n in named] == [getattr(drift, n) for n in named]
        assert row.low <= row.exponent <= row.high
