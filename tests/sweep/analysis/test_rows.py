"""Rows of answers: as data frames of flat columns, as HTML, as text."""

import pickle

import numpy as np
import pytest
import xarray as xr
from run_tables import run_table

import sweep

ODD = "<script>"


@pytest.fixture(scope="module")
def rows():
    scan = {"gravity": (1.0, 9.81)}
    one, two = run_table({"rk4": 4, ODD: 2}, scan=scan), run_table({"rk4": 4}, scan=scan)
    return sweep.order_table(xr.DataTree.from_dict({"one": one, "two": two}))


def test_columns_are_flat_and_points_of_curves_are_left_out(rows):
    frame = sweep.work_table(run_table({"rk4": 4, "rk2_heun": 2})).to_dataframe()
    assert frame["best"].iloc[0] == "steps" and "experiment" not in frame
    frame = rows.to_dataframe()
    assert list(frame)[:4] == ["experiment", "integrator", "gravity", "order"]
    assert not {"points", "parameters"} & set(frame)
    assert frame["experiment"].tolist() == 4 * ["one"] + 2 * ["two"]
    assert frame["gravity"].tolist() == 3 * [1.0, 9.81]
    spread = sweep.chaos_table(_chaos()).to_dataframe()
    assert {"megno_median", "megno_low", "megno_high"} <= set(spread)


def _chaos():
    table = run_table({"rk4": 4})
    return table.assign(megno=table["global_error"].assign_attrs(kind="chaos"))


def test_sorted_and_pickled_rows_keep_their_experiments(rows):
    sorted_rows = pickle.loads(pickle.dumps(rows))
    sorted_rows.sort(key=lambda row: -row.parameters["gravity"])
    assert sorted_rows.experiments == ["one", "one", "two", "one", "one", "two"]
    assert sorted_rows.to_dataframe()["gravity"].tolist() == 3 * [9.81] + 3 * [1.0]


def test_text_is_escaped_and_no_colour_is_set(rows):
    page = rows._repr_html_()
    assert "&lt;script&gt;" in page and ODD not in page
    assert "color" not in page and "background" not in page
    assert page.index("one") < page.index("two") < len(page)
    assert str(rows).startswith("one\nAll 4 cases") and "\n\ntwo\n" in str(rows)
    assert [said[:9] for said in rows.summary] == ["one: All ", "two: Both"]


def test_no_rows():
    twins = run_table({"rk4": 4}).assign(energy_error=lambda table: table["global_error"])
    twins["initial_state"] = ("run", "row", "component"), np.zeros((twins.sizes["run"], 1, 3))
    twins.attrs["integrators"] = '{"rk4": {"options": {"arithmetic": "double-double"}}}'
    none = sweep.arithmetic_table(twins, ["energy"])
    assert repr(none) == str(none) == "none" and "none" in none._repr_html_()
    assert none.to_dataframe().empty and none == []
