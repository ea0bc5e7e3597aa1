import json

import numpy as np
import pytest
from run_tables import run_table, with_series

from sweep import tables
from sweep.analysis import drift_table, order_table

TIMES = np.linspace(0.0, 100.0, 101)


@pytest.fixture
def table():
    table = run_table({"variational": 2, "rk4": 4}, times=TIMES, scan={"gravity": (1.0, 9.81)})
    return with_series(table, "energy_error", 1e-3 * np.sin(TIMES), mean=1e-3 * np.sin(TIMES))


def test_columns_are_aligned_and_numbers_stand_to_the_right():
    text = str(tables.Table(["name", "value"], [["a", "1.5"], ["longer", "-20"]]))
    assert text.splitlines() == [
        "name    value",
        "──────  ─────",
        "a         1.5",
        "longer    -20",
    ]
    assert str(tables.Table(["name", "value"], [])).splitlines()[0] == "name  value"


def test_a_narrow_terminal_gets_fewer_columns_and_the_verdicts(monkeypatch):
    cells = ["rk4", "4.00", "±0.01", "good"]
    headers, said = ["name", "order", "95 %", "verdict"], "what the columns mean"
    shown = tables.Table(headers, [cells], said, [said], kept=["verdict"])
    assert len(str(shown).splitlines()) == 6
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "20")
    *title, header, _, row, others, more, _, said, columns = str(shown).splitlines()
    assert title == [said, columns] == ["what the columns", "mean"]
    assert header.split() == ["name", "order", "verdict"] and row.split() == ["rk4", "4.00", "good"]
    assert f"{others} {more}" == "(a wider terminal also shows 95 %)"


def test_a_narrow_terminal_shows_drifts_with_their_verdicts(table, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    drifts = tables.drifts_as_tables(drift_table(table, ["energy"]))
    header = next(line for line in str(drifts[0]).splitlines() if line.startswith("integrator"))
    assert header.split() == ["integrator", "drift", "bound", "verdict"]


def test_numbers_have_sensible_digits():
    assert tables.scientific_cell(2.16472e-5, 4) == "2.165e-05"
    assert tables.scientific_cell(float("nan")) == "–"


def test_the_order_table_shows_orders_and_why_not(table):
    table["status"][0] = 3
    table = table.isel(run=~((table.integrator == "rk4") & (table.step_size > 0.03)).values)
    text = str(tables.orders_as_table(order_table(table.isel(run=table.step_size.values > 0.01))))
    lines = text.splitlines()
    assert lines[0].startswith("2 of 4 cases (2 integrators) have their declared order; 2 ")
    assert lines[2].split()[:4] == ["integrator", "gravity", "order", "95"]
    assert "variational" in lines[4] and "2.00" in lines[4] and "confirmed" in lines[4]
    assert lines[-2] == (
        "rk4 (gravity=1), rk4 (gravity=9.81): "
        "undecided, too few step sizes count (2, 3 are needed): try step size 0.01"
    )
    assert lines[-1].endswith("no longer in the study: 1 runs.")


def test_the_drift_table_has_a_part_for_each_quantity(table):
    table = with_series(table, "momentum_error", 0.0 * TIMES)
    parts = tables.tables_as_text(
        tables.drifts_as_tables(drift_table(table, step_sizes="smallest"))
    ).split("\n\n")
    assert parts[0].startswith("Energy over 100 s: all 4 cases (2 integrators) show no drift above")
    assert "\nenergy error [J]: mean of |error| of every step, max of samples" in parts[0]
    assert "\nmomentum error [J]: mean and max of |error| of samples" in parts[2]
    assert "drift J/s ±95 % and its bound over 100 s" in parts[0]
    assert len(parts[0].splitlines()) == 1 + 3 + 4
    assert (
        parts[1] == "no drift seen: not faster than √t at 99.7 %; the bound says what could hide."
    )
    assert parts[3].startswith("at round-off: no error above 16 roundings")


def test_what_holds_for_all_rows_is_said_once(table):
    text = tables.tables_as_text(tables.drifts_as_tables(drift_table(table.isel(time=slice(0, 5)))))
    said = "all 20: no drift measured: 4 sample intervals, 8 or more are needed"
    assert text.splitlines()[-1] == said


def test_lines_fit_a_terminal(table):
    table = table.isel(run=(table.gravity == 1.0).values).drop_vars("gravity")
    for text in (
        str(tables.orders_as_table(order_table(table))),
        tables.tables_as_text(tables.drifts_as_tables(drift_table(table))),
    ):
        assert max(map(len, text[text.index("\nintegrator") :].splitlines())) <= 81


def test_rows_for_json_have_no_nan(table):
    table["status"][:5] = 3
    rows = tables.table_rows_for_json([*order_table(table), *drift_table(table)])
    text = json.dumps(rows, allow_nan=False)
    order, drift = json.loads(text)[0], json.loads(text)[-1]
    assert order["parameters"] == {"gravity": 1.0}
    assert order["points"][0]["use"] == "used"
    assert drift["in_words"].startswith("no drift seen, |drift| ≤")
    assert drift["max_abs"] > drift["mean_abs"] > 0
    assert drift["tolerance"] is None
