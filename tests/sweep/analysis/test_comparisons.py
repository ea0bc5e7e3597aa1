"""How many times less one integrator drifts than another, on series whose drifts are known."""

import numpy as np
import pytest
from wandering import Oscillation, table_of

from sweep import plots
from sweep.analysis import drift_table, summarize_drifts
from sweep.tables import drifts_as_tables, table_rows_for_json, tables_as_text

MIDDLES = np.arange(64) + 0.5
WAVES = Oscillation(intervals=64)


def waves(rng, drift=0.0, starts=8):
    """Bounded oscillations of rms near 1, and beside them a drift of the mean."""
    return WAVES.means(rng, starts) + drift * MIDDLES


def compared(table, step_sizes="smallest"):
    return {
        (row.integrator, row.step_size): row.compared
        for row in drift_table(table, step_sizes=step_sizes)
    }


def test_no_drift_is_compared_with_a_drift():
    rng = np.random.default_rng(1)
    table = table_of({"good": waves(rng), "bad": waves(rng, 1.0), "worse": waves(rng, 30.0)})
    rows = {row.integrator: row for row in drift_table(table)}
    closest, other = rows["good"].compared
    assert (closest.than, other.than) == ("bad", "worse") and closest.equal_step
    assert closest.times * rows["good"].bound < 1.0 < 2 * closest.times * rows["good"].bound
    assert [one.than for one in rows["bad"].compared] == ["worse"]
    assert 20 < rows["bad"].compared[0].times < 30
    assert rows["worse"].compared == ()
    text = tables_as_text(drifts_as_tables(list(rows.values())))
    assert f"{closest}  " in text and str(closest).endswith("× less than bad")
    assert "in no more CPU time" not in text
    (answer,) = summarize_drifts(list(rows.values()))
    assert answer.endswith(f"; good drifts {closest} at equal step size (95 %).")
    said = table_rows_for_json([rows["good"]])[0]["compared"][0]
    assert said["than"] == "bad" and said["times"] == closest.times
    drawn = [text.get_text() for ax in plots.drift_over_time(table).axes for text in ax.texts]
    assert any(text.endswith(f"; {closest} (95 %)") for text in drawn)


@pytest.mark.parametrize(
    ("ratio", "trials"),
    [(3.0, 12), pytest.param(1.0, 100, marks=pytest.mark.slow)],
)
def test_what_is_said_holds_of_the_true_drifts(ratio, trials):
    means = {}
    for trial in range(trials):
        rng = np.random.default_rng((trial, int(ratio)))
        means |= {f"one {trial}": waves(rng, 1.0), f"other {trial}": waves(rng, ratio)}
    found = compared(table_of(means))
    pairs = [
        one
        for trial in range(trials)
        for one in found[f"one {trial}", 0.5]
        if one.than == f"other {trial}"
    ]
    said, held = len(pairs), sum(one.times <= ratio for one in pairs)
    assert said - held <= 0.05 * trials
    assert said > 0.75 * trials or ratio < 2


def test_printed_bounds_are_rounded_down():
    rng = np.random.default_rng(1)
    still = waves(rng)
    for size in (0.5, 3.0, 40.0, 1e4):
        (one,) = compared(table_of({"a": still, "b": waves(rng, size)}))["a", 0.5] or (None,)
        if one is not None:
            printed = float(str(one).split("×")[0].removeprefix("≥ "))
            assert 1 <= printed <= one.times < 10 * printed
    assert one is not None


def test_walks_and_drifts_of_either_sign_are_not_compared():
    rng = np.random.default_rng(2)
    still, walk = waves(rng), np.cumsum(rng.normal(size=64)) * 10
    alike = waves(rng) + walk
    assert compared(table_of({"still": still, "alike": alike}))["still", 0.5] == ()
    sign = np.array([1, -1] * 4)[:, None]
    either = waves(rng) + sign * 30 * MIDDLES
    assert compared(table_of({"still": still, "either": either}))["still", 0.5] == ()
    # A mean drift of nearly nothing is no small drift, where each start drifts.
    steep = waves(rng, 30.0)
    (row, _) = drift_table(table_of({"either": either, "steep": steep}))
    assert row.verdict == "linear, each start its own" and row.compared == ()


def test_neither_other_starts_nor_an_error_of_nothing_are_compared():
    rng = np.random.default_rng(3)
    table = table_of({"good": waves(rng), "bad": waves(rng, 30.0)})
    assert len(compared(table)["good", 0.5]) == 1
    table["status"][-1] = 1
    assert compared(table)["good", 0.5] == ()
    table = table_of({"good": np.zeros((8, 64)), "bad": waves(rng, 30.0)})
    assert compared(table)["good", 0.5] == ()


def test_equal_cost_is_of_the_cheapest_runs_that_cost_as_much():
    rng = np.random.default_rng(4)
    keys = [(label, h) for label in ("good", "bad") for h in (0.25, 0.5, 1.0)]
    means = {(label, h): waves(rng, 30 * h if label == "bad" else 0.0) for label, h in keys}
    seconds = {key: 2.0 / key[1] * (1.6 if key[0] == "good" else 1.0) for key in keys}
    table = table_of(means, step_sizes=(0.25, 0.5, 1.0), seconds=seconds)
    found = compared(table, "all")
    equal_step, costly = sorted(found["good", 0.5], key=lambda one: -one.step_size)
    assert equal_step.equal_step and not equal_step.equal_cost
    assert equal_step.cpu_time == pytest.approx(1.6)
    assert costly.equal_cost and not costly.equal_step and costly.step_size == 0.25
    assert costly.cpu_time == pytest.approx(0.8)
    assert [one.equal_cost for one in found["good", 0.25]] == [False]  # none costs as much
    text = tables_as_text(drifts_as_tables(drift_table(table, step_sizes="all")))
    assert "in no more CPU time" in text
    table["cpu_time"] /= 1e6  # too short to be measured
    assert not any(one.equal_cost for one in compared(table, "all")["good", 0.5])
