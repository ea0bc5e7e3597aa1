"""Orders of the same methods side by side, of run tables whose orders are known."""

import json

import pytest
from run_tables import run_table

from integrators.errors import InputError
from sweep.analysis import order_table, orders_across
from sweep.tables import orders_across_as_table, table_rows_for_json

FORMS = {"rk4": "q_omega", "rk4 on (q, pi)": "q_pi", "rkmk4": "q_omega"}


def experiment(orders, count=2, scan=None, duration=1.0, options=None):
    """A run table of an experiment with a system of so many bodies."""
    table = run_table(orders, scan=scan, starts=("a", "b"))
    described = {
        label: {
            "name": label.partition(" ")[0],
            "order": 4,
            "options": {"formulation": FORMS.get(label, "q_omega")} | (options or {}),
        }
        for label in orders
    }
    fixed = {"system": "chain", "duration": duration, "parameters": {"count": count, "mass": 1.0}}
    table.attrs |= {"integrators": json.dumps(described), "fixed": json.dumps(fixed)}
    return table


def cells(rows):
    table = orders_across_as_table(rows)
    return {row[0]: dict(zip(table.headers[1:], row[1:], strict=True)) for row in table.rows}


def test_system_size_across_experiments():
    both = {
        "ten": experiment({"rk4": 4, "rkmk4": 4}, count=10, duration=2.0),
        "two": experiment({"rk4": 4, "other": 3}, count=2),
    }
    rows = orders_across(both, "count")
    found = cells(rows)
    assert list(found["rk4"]) == ["declared", "count = 2", "count = 10"]  # ascending
    assert found["rk4"]["count = 2"] == found["rk4"]["count = 10"] == "4.00 ±0.01"
    assert found["rkmk4"]["count = 2"] == found["other"]["count = 10"] == "–"
    assert found["other"]["count = 2"] == "3.00 ±0.01 refuted"
    notes = orders_across_as_table(rows).notes
    assert any(note.startswith("other at count = 2: refuted") for note in notes)
    assert notes[-1] == "The experiments differ too in: duration."
    (said,) = [row for row in table_rows_for_json(rows) if row["method"] == "other"]
    assert (said["experiment"], said["value"]) == ("two", 2)
    assert said["estimate"]["verdict"] == "refuted"
    assert cells(orders_across(both, "experiment"))["rk4"].keys() == {
        "declared", "experiment = ten", "experiment = two"
    }  # fmt: skip


def test_intervals_are_those_of_the_experiments():
    two, ten = (experiment({"rk4": 4}, count=count) for count in (2, 10))
    scattered = 1 + 0.3 * (ten["step_size"].values % 0.02 < 0.004)
    ten["global_error"] = ten["global_error"] * scattered[:, None]
    (row,) = order_table(ten)
    half = (row.high - row.low) / 2
    assert half > 0.1
    found = cells(orders_across({"two": two, "ten": ten}, "count"))["rk4"]["count = 10"]
    assert found.startswith(f"{row.order:.2f} ±{half:.2f}")


def test_an_option_of_integrators_joins_what_else_is_equal():
    found = cells(orders_across({"one": experiment(dict.fromkeys(FORMS, 4))}, "formulation"))
    assert found.keys() == {"rk4", "rkmk4"}
    assert found["rk4"]["formulation = q_pi"] == found["rk4"]["formulation = q_omega"]
    assert found["rkmk4"]["formulation = q_pi"] == "–"


def test_methods_with_other_options_are_not_joined():
    both = {
        "a": experiment({"rk4": 4}, options={"tolerance": 1e-3}),
        "b": experiment({"rk4 on (q, pi)": 4}, options={"tolerance": 1e-9}),
    }
    assert cells(orders_across(both, "formulation")).keys() == {"rk4", "rk4 on (q, pi)"}


def test_a_scanned_parameter_and_experiments_with_the_same_values():
    scan = {"gravity": (1.0, 9.81)}
    both = {"two": experiment({"rk4": 4}, 2, scan), "ten": experiment({"rk4": 4}, 10, scan)}
    table = orders_across_as_table(orders_across(both, "gravity"))
    assert table.headers[1:] == ["experiment", "declared", "gravity = 1", "gravity = 9.81"]
    assert [row[1] for row in table.rows] == ["two", "ten"]
    (by_size, other) = orders_across_as_table(orders_across(both, "count")).rows
    assert [by_size[1], other[1]] == ["1", "9.81"]  # the other axis keeps its own lines


def test_experiments_that_scan_different_parameters_share_a_table():
    both = {"one": experiment({"rk4": 4}), "many": experiment({"rk4": 4}, 2, {"gravity": (1, 2)})}
    table = orders_across_as_table(orders_across(both, "experiment"))
    assert [row[1] for row in table.rows] == ["–", "1", "2"] and "rk4" in str(table)


def test_what_does_not_differ_is_refused_with_what_does():
    both = {"two": experiment({"rk4": 4}, 2), "ten": experiment({"rk4": 4}, 10)}
    with pytest.raises(InputError, match="'mass' has one value .* differ: experiment, count"):
        orders_across(both, "mass")
    with pytest.raises(InputError, match="'size' is no setting"):
        orders_across(both, "size")
    with pytest.raises(InputError, match="Nothing else differs"):
        orders_across({"two": both["two"]}, "count")
