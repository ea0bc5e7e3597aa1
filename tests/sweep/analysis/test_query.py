import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from run_tables import run_table, with_series

import sweep
from integrators.errors import InputError
from sweep import tables
from sweep.analysis import query, results, units

TIMES = np.linspace(0.0, 2.0, 5)
STATUS = {"flag_values": [-1, 0, 1, 2], "flag_meanings": "pending complete left_domain not_finite"}


@pytest.fixture
def table():
    table = run_table({"variational": 2, "rk4": 4}, starts=("a", "b"), times=TIMES)
    table["status"].attrs |= STATUS
    size = table.global_error.values
    table = with_series(table, "energy_error", -size)
    table["energy_error"].attrs["kind"] = "energy"
    return table


@pytest.mark.parametrize(
    "expression, runs",
    {
        "integrator == 'rk4'": 10,
        "integrator == 'rk4' and step_size < 0.05": 6,
        'step_size in [0.1, 0.05] and not initial_condition == "a"': 4,
        "integrator in ['variational'] and (steps > 20)": 8,
        "energy_error@max > 0.009": 3,  # amplitudes 1 and 2 of h² t, t = 2
        "global_error@0.5 > 0.004 or step_size == 0.01": 6,
        "status == 'complete'": 20,
        "True": 20,
    }.items(),
)
def test_runs_are_chosen_by_what_they_have(table, expression, runs):
    chosen = query(table, expression)
    assert chosen.sizes == {"run": runs, "time": 5}
    assert isinstance(chosen, xr.Dataset)


@pytest.mark.parametrize(
    "expression, words",
    {
        "intgrator == 'rk4'": "Did you mean 'integrator'",
        "integrator == rk4": "write it in quotes, 'rk4'",
        "integrator = 'rk4'": "equality is written ==",
        "step_size <": "cannot be evaluated: invalid syntax",
        "step_size + 1": "not a condition, true or false for each run",
        "step_size > 'a'": "cannot be evaluated",
        "energy_error > 1": "energy_error@max",
        "energy_eror@max > 1": "Did you mean 'energy_error'",
        "energy_error@most > 1": "after the @",
        "energy_error@0.7 > 1": "the nearest is at 0.5",
        "status == 'faild'": "unknown status 'faild'",
        "integrator == 'rk5'": "There is integrator: 'variational', 'rk4'",
        "step_size > 1": "There is step_size: 0.01, 0.02, 0.025, 0.05, 0.1",
        "status == 'not_finite'": "There is status: complete",
        "energy_error@max > 1e3": "There is energy_error@max: ",
        "__import__('os')": "functions cannot be called",
        "integrator == 'rk4' & step_size > 1": "write 'and' for '&'",
    }.items(),
)
def test_what_cannot_be_chosen_is_explained(table, expression, words):
    with pytest.raises(InputError) as error:
        query(table, expression)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "expression",
    [
        "steps.__init__.__globals__['sys'].modules['os'].system('touch FILE') == 0",
        "step_size.to_csv('FILE') == 1",
        "@open('FILE', 'w') == 1",
    ],
)
def test_nothing_of_it_is_executed(table, tmp_path, expression):
    with pytest.raises(InputError, match="cannot be evaluated"):
        query(table, expression.replace("FILE", str(tmp_path / "file")))
    assert not (tmp_path / "file").exists()


def test_of_a_tree_the_experiments_that_have_such_runs(table):
    other = table.assign_coords(gravity=("run", np.full(20, 9.81)))
    tree = xr.DataTree.from_dict({"plain": table, "heavy": other})
    chosen = sweep.query(tree, "gravity > 5 and integrator == 'rk4'")
    assert list(chosen.children) == ["heavy"] and chosen["heavy"].sizes["run"] == 10
    assert sweep.query(tree["plain"], "step_size == 0.1").sizes["run"] == 4
    with pytest.raises(InputError, match="plain: .*no 'gravity'(.|\n)*heavy: no run is selected"):
        query(tree, "gravity > 50")


SERIES = ("end", "max", "mean")


def test_results_reduce_series(table):
    table["global_error"][3, 2:] = np.nan  # as of a run that failed
    table["global_error"][4] = np.nan
    found = results(table, [f"global_error@{of}" for of in (*SERIES, "1.5")])
    values = np.abs(table.global_error.values)
    assert found["global_error@end"].values[[0, 3]].tolist() == [values[0, -1], values[3, 1]]
    assert np.isnan(found["global_error@end"].values[4])
    assert np.array_equal(found["global_error@1.5"].values, values[:, 3], equal_nan=True)
    some = np.isfinite(values).any(axis=1)
    expected = np.nanmean(values[some], axis=1)
    assert np.allclose(found["global_error@mean"].values[some], expected, rtol=1e-14)


def test_what_is_read_in_several_parts_is_one():
    """More runs, and more samples, than are in memory at once."""
    table = run_table({"rk4": 4}, (0.1,), [f"s{i}" for i in range(1100)], np.arange(2100.0))
    size = np.random.default_rng(1).uniform(size=table["global_error"].shape)
    table["global_error"].values[:] = size
    found = results(table, [f"global_error@{of}" for of in SERIES])
    assert np.array_equal(found["global_error@end"].values, size[:, -1])
    assert np.array_equal(found["global_error@max"].values, size.max(axis=1))
    assert np.allclose(found["global_error@mean"].values, size.mean(axis=1), rtol=1e-13)


def test_a_run_that_did_not_come_to_its_end_has_none(table):
    table["status"][0] = 2
    table["global_error"][0, 1:] = np.nan  # at the start it is 0
    table["sample_count"][1] = 3
    ends = results(table, ["global_error@end"])["global_error@end"].values
    assert np.isnan(ends[:2]).all() and np.isfinite(ends[2:]).all()
    assert query(table, "global_error@end < 1").sizes["run"] == table.sizes["run"] - 2


def test_results_are_a_table_with_units(table):
    found = results(table)
    frame = found.to_dataframe()
    assert frame.shape[0] == 20 and {"integrator", "steps", "energy_error@max"} <= set(frame)
    assert found["energy_error@max"].attrs["units"] == "J"
    assert frame["energy_error@max"].min() > 0  # of an error its size
    assert units(found)["energy_error@max"] == "J" == sweep.units(table)["energy_error"]
    assert units(table)["integrator"] == "" and units(table)["time"] == "s"
    steps = with_series(table, "energy_error", 0 * table.energy_error.values, abs_max=3.0)
    assert set(results(steps, ["energy_error@max"])["energy_error@max"].values) == {3.0}
    with pytest.raises(InputError, match="Did you mean 'energy_error'"):
        results(table, ["enrgy_error@max"])
    with pytest.raises(InputError, match="choose a value"):
        results(table, ["energy_error"])
    with pytest.raises(InputError, match="leave @end out"):
        results(table, ["steps@end"])


def test_the_table_shows_what_varies_and_what_came_of_it(table):
    text = tables.runs_as_table(query(table, "integrator == 'rk4' and step_size < 0.05"))
    assert text.headers == [
        "step_size", "initial_condition", "status", "global_error@end", "energy_error@max"
    ]  # fmt: skip
    assert text.title == "all: integrator rk4"
    assert text.rows[0] == ["0.025", "a", "complete", "7.8e-07", "7.8e-07"]
    assert any(note.startswith("Units: energy_error@max [J]") for note in text.notes)


def test_rows_are_sorted_and_limited(table):
    shown = tables.runs_as_table(
        table, ["integrator", "global_error@end"], "global_error@end", True, 3
    )
    assert [row[0] for row in shown.rows] == ["variational"] * 3
    values = [float(row[1]) for row in shown.rows]
    assert values == sorted(values, reverse=True) and values[0] == 0.04
    assert shown.notes[0] == "… and 17 more of 20 runs; --limit 0 lists all"
    table["global_error"][0] = np.nan
    order = tables.runs_as_table(table, ["run_id"], "global_error@end", limit=None).rows
    assert order[-1] == ["0" * 16]  # what is missing comes last
    with pytest.raises(InputError, match="unknown column 'stps'"):
        tables.runs_as_table(table, sort="stps")


def test_rows_for_json_have_the_same(table):
    table["global_error"][0] = np.nan
    rows = list(tables.runs_as_json_rows(table, ["status", "global_error@end", "steps"]))
    assert json.loads(json.dumps(rows, allow_nan=False))[0] == {
        "status": "complete", "global_error@end": None, "steps": 20
    }  # fmt: skip
    assert len(pd.DataFrame(rows)) == 20
