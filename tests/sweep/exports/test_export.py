import json

import dask
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from run_tables import run_table, with_series

import sweep
from integrators.errors import InputError
from sweep.analysis import order_table, results

TIMES = np.linspace(0.0, 2.0, 5)


@pytest.fixture
def tree():
    table = run_table({"variational": 2, "rk4": 4}, starts=("a", "b"), times=TIMES)
    table["status"].attrs |= {
        "flag_values": [-1, 0, 1], "flag_meanings": "pending complete left_domain"
    }  # fmt: skip
    table = with_series(table, "energy_error", -table.global_error.values)
    state = np.arange(20 * 5 * 2 * 3.0).reshape(20, 5, 2, 3)
    first = (
        table.copy(deep=True)
        .assign(state=(("run", "time", "row", "component"), state))
        .assign_coords(row=["q0", "omega0"], component=["x", "y", "z"])
    )
    first["status"][0], first["sample_count"][0] = 1, 3
    first["status"][1], first["sample_count"][1] = -1, 0
    first["global_error"][0, 3:], first["global_error"][1] = np.nan, np.nan
    second = table.copy(deep=True).assign_coords(
        gravity=("run", np.full(20, 9.81), {"units": "m s-2"})
    )
    second["energy_error"].attrs["units"] = "1"
    tree = xr.DataTree.from_dict({"first": first, "second": second})
    tree.attrs = {"study_name": "study", "versions": {"numpy": "2"}, "hosts": [{"host": "a"}]}
    return tree


def test_netcdf_holds_all_of_it(tree, tmp_path):
    written = sweep.export(tree, tmp_path / "runs.nc")
    assert (written.runs, written.experiments) == (40, ("first", "second"))
    assert written.unfinished == {"pending": 1, "left_domain": 1}
    with xr.open_datatree(tmp_path / "runs.nc") as found:
        assert found.attrs["study_name"] == "study"
        assert json.loads(found.attrs["versions"]) == {"numpy": "2"}
        for name, node in tree.children.items():
            read, asked = found[name].to_dataset().load(), node.to_dataset()
            xr.testing.assert_equal(read, asked)
            assert set(read.coords) == set(asked.coords)
            assert read["in_study"].dtype == bool and read["status"].dtype == np.int8
            assert read["status"].attrs["flag_values"].dtype == np.int8
            for key in asked.variables:
                assert read[key].attrs.get("units") == asked[key].attrs.get("units"), key
        assert order_table(found["second"])[0].order == pytest.approx(2.0)


def test_a_dataset_is_the_file_itself(tree, tmp_path):
    written = sweep.export(tree["second"].to_dataset(), tmp_path / "runs.nc")
    assert written.experiments == ()
    with xr.open_dataset(tmp_path / "runs.nc") as found:
        xr.testing.assert_equal(found.load(), tree["second"].to_dataset())


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_has_a_row_for_each_run(tree, tmp_path, ending):
    path = tmp_path / f"runs.{ending}"
    assert sweep.export(tree, path).rows == 40
    frame = pd.read_csv(path) if ending == "csv" else pd.read_parquet(path)
    assert frame.experiment.value_counts().to_dict() == {"first": 20, "second": 20}
    assert frame.columns[:3].tolist() == ["experiment", "integrator", "step_size"]
    assert frame.status.tolist()[:3] == ["left_domain", "pending", "complete"]
    assert frame.gravity.isna().sum() == 20 and frame.in_study.all()
    expected = results(tree["second"])["energy_error@max"].values
    assert np.array_equal(frame["energy_error@max"].values[20:], expected)  # to the last bit


def test_units_go_along(tree, tmp_path):
    import pyarrow.parquet as pq

    sweep.export(tree, tmp_path / "runs.parquet")
    schema = pq.read_schema(tmp_path / "runs.parquet")
    assert schema.field("gravity").metadata[b"units"] == b"m s-2"
    assert schema.field("energy_error@max").metadata[b"units"] == b"J (first); 1 (second)"
    assert json.loads(schema.metadata[b"geosweep"])["study_name"] == "study"
    written = sweep.export(tree["second"], tmp_path / "runs.csv", columns=["energy_error@2"])
    assert [path.name for path in written.paths] == ["runs.csv", "runs.columns.csv"]
    columns = pd.read_csv(tmp_path / "runs.columns.csv", index_col=0, keep_default_na=False)
    assert columns.units["gravity"] == "m s-2" and columns.units["energy_error@2"] == "1"
    assert columns.index.tolist() == pd.read_csv(tmp_path / "runs.csv").columns.tolist()
    assert columns.index[-1] == "energy_error@2"


def test_series_have_a_row_for_each_sample_that_there_is(tree, tmp_path):
    path = tmp_path / "series.parquet"
    assert sweep.export(tree, path, series=True).rows == 2 * 20 * 5 - 2 - 5
    frame = pd.read_parquet(path)
    assert frame.time.tolist()[:4] == [0.0, 0.5, 1.0, 0.0]  # the first failed, the second waits
    first = frame[frame.experiment == "first"]
    assert first.state_omega0_z.tolist()[:3] == [5.0, 11.0, 17.0]
    run = frame[(frame.experiment == "second") & (frame.run_id == f"{7:016x}")]
    assert np.array_equal(run.energy_error, tree["second"].energy_error.values[7])
    assert (run.integrator == "variational").all() and (run.initial_condition == "b").all()


def test_what_is_written_in_several_parts_is_one(tmp_path):
    """More samples than are in memory at once."""
    table = run_table({"rk4": 4}, (0.1,), [f"s{i}" for i in range(1100)], np.arange(500.0))
    size = np.random.default_rng(1).uniform(size=table["global_error"].shape)
    table["global_error"].values[:] = size
    path = tmp_path / "series.parquet"
    assert sweep.export(table, path, series=True).rows == size.size
    frame = pd.read_parquet(path, columns=["global_error", "initial_condition"])
    assert np.array_equal(frame["global_error"], size.ravel())
    assert frame["initial_condition"].iloc[[0, 499, 500, -1]].tolist() == [
        "s0",
        "s0",
        "s1",
        "s1099",
    ]


def test_a_file_is_whole_or_not_there(tree, tmp_path):
    import dask.array as da

    path = tmp_path / "runs.csv"
    path.write_text("precious")
    with pytest.raises(InputError, match="exists.*`force=True`"):
        sweep.export(tree, path)

    @dask.delayed
    def lost():
        raise OSError(5, "Input/output error")

    first, second = (tree[name].to_dataset() for name in ("first", "second"))
    values = da.from_delayed(lost(), second["energy_error"].shape, float)
    second = second.assign(energy_error=(("run", "time"), values))
    broken = xr.DataTree.from_dict({"first": first, "second": second})
    with pytest.raises(OSError, match="Input/output error"):
        sweep.export(broken, path, series=True, force=True)
    assert path.read_text() == "precious"
    assert [file.name for file in tmp_path.iterdir()] == ["runs.csv"]
    sweep.export(tree, path, force=True)
    assert len(pd.read_csv(path)) == 40


@pytest.mark.parametrize(
    "name, options, words",
    [
        ("runs.xls", {}, "does not say its format"),
        ("runs", {"format": "netcdv"}, "Did you mean 'netcdf'"),
        ("far/runs.nc", {}, "there is no directory"),
        (".", {"format": "csv"}, "is a directory"),
        ("runs.csv", {"columns": ["stps"]}, "unknown column 'stps'"),
        ("runs.nc", {"series": True}, "NetCDF holds everything"),
        ("runs.csv", {"series": True, "columns": ["steps"]}, "not together with series"),
    ],
)
def test_what_cannot_be_written(tree, tmp_path, name, options, words):
    with pytest.raises(InputError, match=words):
        sweep.export(tree, tmp_path / name, **options)
    assert not list(tmp_path.iterdir())


def test_formats_can_be_named(tree, tmp_path):
    sweep.export(tree["second"], tmp_path / "runs.dat", "parquet")
    assert len(pd.read_parquet(tmp_path / "runs.dat")) == 20
