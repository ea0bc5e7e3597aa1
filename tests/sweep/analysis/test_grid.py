import numpy as np
import pytest
import xarray as xr
from run_tables import run_table

from integrators.errors import InputError
from sweep.analysis import grid

STARTS = ("lee", "lee[0]", "lee[1]")


def table():
    return run_table(
        {"variational": 2, "rk4": 4},
        step_sizes=(0.1, 0.02, 0.05),
        starts=STARTS,
        scan={"gravity": (9.81, 1.0), "body": ("top", "disc")},
    )


@pytest.mark.parametrize("seed", range(3))
def test_every_run_finds_its_place_whatever_the_order(seed):
    runs = table()
    runs = runs.isel(run=np.random.default_rng(seed).permutation(runs.sizes["run"]))
    dense = grid(runs)
    for i in range(0, runs.sizes["run"], 3):
        run = runs.isel(run=i)
        place = {
            name: run[name].item()
            for name in ("integrator", "step_size", "gravity", "body", "initial_condition")
        }
        cell = dense.sel(place)
        assert cell.run_id.item() == run.run_id.item()
        np.testing.assert_array_equal(cell.global_error, run.global_error)


def test_axes_stand_in_the_order_of_the_study_and_numbers_ascend():
    dense = grid(table())
    assert dense.global_error.dims == (
        "integrator", "step_size", "gravity", "body", "initial_condition", "time",
    )  # fmt: skip
    assert dense.sizes["time"] == 3
    assert list(dense.integrator.values) == ["variational", "rk4"]
    assert list(dense.step_size.values) == [0.02, 0.05, 0.1]
    assert list(dense.gravity.values) == [1.0, 9.81]
    assert list(dense.body.values) == ["top", "disc"]
    assert list(dense.initial_condition.values) == list(STARTS)


def test_where_no_run_is_nothing_is_made_up():
    runs = table().isel(run=slice(1, None))
    dense = grid(runs)
    hole = dense.sel(
        integrator="variational", step_size=0.1, gravity=9.81, body="top", initial_condition="lee"
    )
    assert np.isnan(hole.global_error).all()
    assert hole.sample_count == 0
    assert hole.status == -1
    assert hole.run_id.item() == ""
    assert not hole.in_study
    assert int((dense.sample_count == 0).sum()) == 1


def test_types_and_attributes_survive_and_masks_work():
    runs = table()
    dense = grid(runs)
    assert dense.status.dtype == runs.status.dtype
    assert dense.global_error.attrs == runs.global_error.attrs
    assert dense.time.attrs == runs.time.attrs
    assert dense.attrs == runs.attrs
    # A string data variable would make this raise.
    dense.where(dense.step_size < 0.06)
    median = dense.global_error.median("initial_condition")
    expected = 2 * 0.05**4 * 0.5
    at = {"integrator": "rk4", "step_size": 0.05, "gravity": 1.0, "body": "top", "time": 0.5}
    assert median.sel(at).item() == pytest.approx(expected)


def test_variables_without_runs_are_kept():
    runs = table().assign(weights=("row", [1.0, 2.0]))
    assert grid(runs).weights.dims == ("row",)


def test_further_dimensions_stay_behind():
    runs = table()
    state = np.zeros((runs.sizes["run"], 4, 3))
    runs = runs.assign(initial_state=(("run", "row", "component"), state))
    assert grid(runs).initial_state.dims[-2:] == ("row", "component")


def test_adaptive_runs_have_a_tolerance_in_place_of_a_step_size():
    runs = run_table({"rk45": 5}, step_sizes=(1e-3, 1e-6), starts=STARTS)
    runs = runs.assign_coords(
        tolerance=("run", runs.step_size.values),
        step_size=("run", np.full(6, np.nan)),
        adaptive=("run", np.ones(6, dtype=bool)),
    )
    dense = grid(runs)
    assert dense.global_error.dims == ("integrator", "tolerance", "initial_condition", "time")
    assert list(dense.tolerance.values) == [1e-6, 1e-3]


def test_a_mix_of_adaptive_and_fixed_runs_is_refused():
    runs = table()
    adaptive = (runs.integrator == "rk4").values
    runs = runs.assign_coords(adaptive=("run", adaptive))
    with pytest.raises(InputError, match="36 adaptive and 36 fixed.*not adaptive"):
        grid(runs)
    assert grid(runs.query(run="not adaptive")).sizes["integrator"] == 1


def test_runs_that_share_a_place_are_refused():
    runs = table()
    twice = xr.concat([runs, runs.isel(run=[0])], "run")
    with pytest.raises(InputError, match="integrator=variational, step_size=0.1.*in_study"):
        grid(twice)


def test_a_node_of_a_tree_will_do():
    tree = xr.DataTree.from_dict({"/order": table()})
    assert grid(tree["order"]).sizes["step_size"] == 3
