"""Growth of errors over an ensemble, of series whose answer is known."""

import numpy as np
import pytest
from run_tables import run_table, with_series

from integrators.errors import InputError
from sweep.analysis import growth_table
from sweep.analysis.drift.growth import fit_growth_exponent
from sweep.tables import growth_as_tables, table_rows_for_json, tables_as_text

STARTS = 64
EPSILON = 2.0**-52
TIMES = np.geomspace(1.0, 1000.0, 31)


def walks(rng, starts=STARTS):
    """Random walks at `TIMES`, of variance t."""
    kicks = rng.normal(size=(starts, len(TIMES))) * np.sqrt(np.diff(TIMES, prepend=0.0))
    return kicks.cumsum(axis=1)


def test_random_walks_grow_like_the_root_of_time():
    rng = np.random.default_rng(1)
    fits = [fit_growth_exponent(TIMES, walks(rng)) for _ in range(300)]
    assert np.mean([fit.exponent for fit in fits]) == pytest.approx(0.5, abs=0.02)
    covered = np.mean([fit.low <= 0.5 <= fit.high for fit in fits])
    assert covered >= 0.89  # 94 % of a thousand; two standard errors of 300 are 3 %, of tests 5
    assert np.mean([fit.verdict == "linear" for fit in fits]) <= 0.02  # 0.7 % of a thousand
    assert np.mean([abs(fit.drift) <= 2 * fit.drift_error for fit in fits]) >= 0.92


def test_a_drift_of_the_mean_is_seen_below_the_walk():
    rng = np.random.default_rng(2)
    fit = fit_growth_exponent(TIMES, walks(rng) + 0.03 * TIMES)  # of a standard error of 0.004
    assert fit.biased and fit.verdict == "linear"
    assert fit.drift == pytest.approx(0.03, abs=4 * fit.drift_error)
    assert fit.drift_error == pytest.approx(1 / np.sqrt(1000.0 * STARTS), rel=0.4)


def test_a_drift_of_another_sign_in_each_run_shows_in_the_exponent():
    rng = np.random.default_rng(3)
    fit = fit_growth_exponent(TIMES, rng.normal(size=(STARTS, 1)) * TIMES)
    assert fit.exponent == pytest.approx(1.0)
    assert not fit.biased and fit.verdict == "linear"


def test_noise_that_does_not_grow_lies_below():
    fit = fit_growth_exponent(TIMES, np.random.default_rng(4).normal(size=(STARTS, len(TIMES))))
    assert abs(fit.exponent) < 0.2 and fit.verdict == "no drift seen"


def test_sizes_have_no_drift():
    fit = fit_growth_exponent(TIMES, np.abs(walks(np.random.default_rng(7))), signed=False)
    assert np.isnan(fit.drift) and not fit.biased and fit.verdict == "√t"


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
    fit = fit_growth_exponent(times, error)
    assert np.isnan(fit.exponent) and fit.reason == reason
    assert fit.verdict == ("undecided" if error.any() else "no drift seen")


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
