"""Which CPU times are measurements, of times that are given: no clock is read."""

import json

import numpy as np
import pytest
import xarray as xr
from picture_text import words_of
from run_tables import run_table, with_series

from integrators.errors import InputError
from sweep import plots, tables
from sweep.analysis import drift_table, least_work, work_table

ORDERS = {"variational": 2, "rk4": 4}
STEP_SIZES = (0.1, 0.05, 0.025)


def timed(seconds, repeats=1, apart=0.0, starts=("a", "b"), scan=None):
    """A run table; the finest runs take `seconds` each, coarser ones less, and two a batch.

    The second repeat takes longer by a part `apart`, further ones 1.5 times as long.
    """
    table = run_table(ORDERS, STEP_SIZES, starts, np.linspace(0.0, 1.0, 11), scan)
    table = with_series(table, "energy_error", 0.1 * table["global_error"].values)
    size = table["step_size"].values
    first = seconds * size.min() / size * (1 + 0.1 * (table["integrator"].values == "rk4"))
    later = [1.0, 1 + apart, 1.5, 1.5, 1.5][:repeats]
    copies = [
        table.assign(
            cpu_time=("run", factor * first, {"units": "s"}),
            evaluations=("run", 4 * table["steps"].values),
        ).assign_coords(repeat=("run", np.full(table.sizes["run"], i)))
        for i, factor in enumerate(later)
    ]
    return xr.concat(copies, "run", data_vars="minimal", coords="minimal", compat="override")


def finest(table):
    return next(row for row in work_table(table) if row.step_size == min(STEP_SIZES))


def why(rows):
    """Why CPU times cannot be compared, as the note below their table says it, or none."""
    text = tables.tables_as_text(tables.work_as_tables(rows, "cpu_time"))
    return " ".join(text.partition("\n?: ")[2].split())


def test_a_batch_is_the_runs_that_share_its_time():
    table = timed(0.02, repeats=3, apart=0.25)
    row = finest(table)
    assert row.integrator == "variational" and row.cpu_time == pytest.approx(0.02)
    assert row.cpu_time_batch == pytest.approx(0.04)
    assert row.cpu_time_apart == pytest.approx(0.25)
    assert row.cpu_time_largest == pytest.approx(0.03)
    assert row.repeats == 3
    number = table["run"].size // 3
    alone = table.isel(run=slice(number))
    alone["cpu_time"] = alone["cpu_time"] * (1 + np.arange(number) / 100)
    row = finest(alone)
    assert row.cpu_time_batch < 1.5 * row.cpu_time and row.repeats == 1
    assert np.isnan(row.cpu_time_apart)


def test_repeats_that_are_not_complete_are_not_counted():
    table = timed(0.02, repeats=3)
    table["status"].values[table["repeat"].values == 1] = -1
    row = finest(table)
    assert row.repeats == 2 and row.cpu_time_apart == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("settings", "measured"),
    [
        ({"seconds": 0.1}, False),  # timed once
        ({"seconds": 0.5}, True),  # a second in a batch of two
        ({"seconds": 1e-4, "repeats": 5}, False),  # short
        ({"seconds": 4e-3, "repeats": 5}, False),
        ({"seconds": 6e-3, "repeats": 5}, True),
        ({"seconds": 6e-3, "repeats": 2}, False),
        ({"seconds": 0.1, "repeats": 5, "apart": 0.2}, False),
        ({"seconds": 0.1, "repeats": 5, "apart": 0.09}, True),
    ],
)
def test_a_time_is_measured_where_it_is_long_and_its_repeats_agree(settings, measured):
    assert finest(timed(**settings)).cpu_time_measured is measured


def test_why_not_is_said_with_what_to_add():
    assert why(work_table(timed(1e-4), "global_error")).startswith(
        "CPU times cannot be compared, timed fewer than 3 times, in batches of less than 10 ms: "
        "the experiment needs `repeat = 5` and a longer duration"
    )
    assert why(work_table(timed(0.1, repeats=5, apart=0.2), "global_error")).startswith(
        "CPU times cannot be compared, with the two shortest more than 10 % apart: the "
        "experiment needs more repeats on an idle machine"
    )
    assert why(work_table(timed(6e-3, repeats=5), "global_error")).startswith(
        "4 of 6 CPU times cannot be compared, in batches of less than 10 ms: the experiment needs "
        "a longer duration"
    )
    assert why(work_table(timed(0.1, repeats=5), "global_error")) == ""


def test_times_of_another_machine_are_not_compared():
    """Of the fewer runs, unless these have others: a repeat that was computed elsewhere is none."""
    table = timed(0.1, repeats=5)
    number = np.full(table.sizes["run"], 7)
    number[((table["step_size"] == 0.025) & (table["integrator"] == "rk4")).values] = 8
    once = np.where(table["repeat"].values == 0, 8, 7)
    assert {row.repeats for row in work_table(table.assign(environment=("run", once)))} == {4}
    table = table.assign(environment=("run", number))
    rows = work_table(table, "global_error")
    away = [row for row in rows if row.cpu_time_elsewhere]
    assert [(row.integrator, row.step_size) for row in away] == [("rk4", 0.025)]
    assert [row for row in rows if not row.cpu_time_measured] == away
    assert "cpu_time" not in away[0].best
    assert why(rows).startswith(
        "1 of 6 CPU times cannot be compared, taken by another machine or version than the others: "
        "the experiment needs a store of one machine"
    )
    drifts = drift_table(table, "energy")
    lost = {(row.integrator, row.step_size) for row in drifts if np.isnan(row.cpu_time)}
    assert lost == {("rk4", 0.025)}


def test_times_that_are_none_are_neither_best_nor_least():
    rows = work_table(timed(1e-4), "global_error")
    assert not any("cpu_time" in row.best for row in rows)
    assert any("evaluations" in row.best for row in rows)
    assert least_work(rows, "cpu_time") == []
    text = tables.tables_as_text(tables.work_as_tables(rows, "cpu_time"))
    assert text.count("e-05?") + text.count("e-04?") == len(rows)
    assert "No least CPU time: none can be compared, see ?" in text
    assert not any(
        row["cpu_time_measured"] for row in json.loads(json.dumps(tables.table_rows_for_json(rows)))
    )
    rows = work_table(timed(0.1, repeats=5), "global_error")
    assert least_work(rows, "cpu_time") and any("cpu_time" in row.best for row in rows)
    assert "?" not in tables.tables_as_text(tables.work_as_tables(rows, "cpu_time"))


def test_a_panel_without_measured_times_is_its_reason():
    table = timed(1e-4)
    figure = plots.picture("work", table)
    labels = [ax.get_xlabel() for ax in figure.axes]
    assert labels == [
        "evaluations until t = 1 s",
        "",
        "evaluations until t = 1 s",
    ]  # and it is said once
    said = " ".join(" ".join(words_of(figure)).split())
    assert "No CPU time is drawn. CPU times cannot be compared, timed fewer than 3 times" in said
    assert "`repeat = 5`" in said
    assert not figure.axes[1].lines
    with pytest.raises(InputError, match="cannot be compared, timed fewer than 3 times"):
        plots.work_precision(table, against="cpu_time")


def test_times_that_cannot_be_compared_are_open_marks_with_their_range():
    table = timed(6e-3, repeats=5)  # two of six are long enough
    figure = plots.work_precision(table, against="cpu_time")
    (ax,) = figure.axes
    marks = [line for line in ax.lines if line.get_marker() != "" and len(line.get_xdata())]
    opened = [line for line in marks if line.get_markerfacecolor() == "white"]
    lost = [row for row in work_table(table, "global_error") if not row.cpu_time_measured]
    drawn = np.concatenate([line.get_xdata() for line in opened])
    assert sorted(drawn) == sorted(row.cpu_time for row in lost)
    ranges = [segment for part in ax.collections for segment in part.get_segments()]
    assert {(a[0], b[0]) for a, b in ranges} >= {(r.cpu_time, r.cpu_time_largest) for r in lost}
    assert figure.caption[-1].startswith("open: 4 of 6 CPU times cannot be compared")
    joined = [line for line in ax.lines if line.get_linestyle() != "None"]
    assert all(len(line.get_xdata()) <= 1 for line in joined)  # one measured point of each


def test_errors_of_each_panel_have_their_time():
    table = timed(0.5, scan={"gravity": (1.0, 9.81)})
    lost = (table["gravity"] == 9.81).values[:, None] & (table["time"].values > 0.45)
    for name in ("global_error", "reference_error"):
        table[name].values[lost] = np.nan
    figure = plots.picture("work", table)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["gravity=1, at t = 1 s", "gravity=9.81, at t = 0.4 s"]
    assert figure.axes[0].get_ylabel() == "global error"
    said = figure.get_suptitle().replace("\xa0", " ").replace("\n", " ")
    assert "t = 0.4 – 1 s, until which it holds; runs go on until t = 1 s" in said


def test_a_single_time_is_drawn_where_it_is_measured_and_has_its_legend_alone():
    table = timed(0.5, starts=("a", "b"))
    table = table.isel(
        run=np.flatnonzero((table["step_size"] == 0.025) & (table["integrator"] == "rk4"))
    )
    (ax,) = plots.work_precision(table, against="cpu_time").axes
    assert ax.get_xlabel() == "CPU time until t = 1 s [s]"
    figure = plots.picture("work", timed(1e-4).isel(run=[2, 3]))
    assert figure.axes[1].get_legend() is None and len(figure.axes[1].texts) == 1
