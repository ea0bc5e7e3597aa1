"""`sweep.open_study` in chunks: the same answers by Dask, alone and on a cluster."""

import os
import shutil

import dask
import numpy as np
import pytest
import xarray as xr
from study_text import one_experiment
from written_stores import flip_bit, run, run_until_results_are_moved

import sweep
from sweep.analysis.runs import blocks
from sweep.errors import Damaged, GeosweepError, InputError

TEXT = one_experiment(
    integrators='["variational", "rk4", "rk45"]',
    step_size="[0.1, 0.05, 0.025]",
    tolerance="[1e-3, 1e-5]",
    record='["energy", "unit_length", "state"]',
    duration="2.0",
    samples="20",
    reference='{ integrator = "dop853" }',
)
SPANS = ["energy_error@mean", "energy_error@min", "energy@start", "global_error@1"]
ANSWERS = {
    "order": sweep.order_table,
    "sup": lambda data: sweep.order_table(data, at="sup"),
    "self": lambda data: sweep.order_table(data, error="self", at="sup"),
    "tolerance": sweep.tolerance_table,
    "drift": sweep.drift_table,
    "work": sweep.work_table,
    "results": lambda data: sweep.results(data).to_dataframe().to_csv(),
    "spans": lambda data: sweep.results(data, SPANS).to_dataframe().to_csv(),
    "grid": lambda data: sweep.grid(sweep.query(data, "not adaptive")).load().to_dict(),
}
BLOCKS = {"SMALL": 2000, "VALUES": 88, "ROWS": 8}  # of eight runs, and where possible of samples


@pytest.fixture(scope="module")
def path(tmp_path_factory, cluster):
    found = tmp_path_factory.mktemp("open") / "all.zarr"
    run(TEXT, found, cluster)
    return found


@pytest.fixture(scope="module")
def unmoved(tmp_path_factory, cluster):
    """A store of a run that was killed when all was computed."""
    found = tmp_path_factory.mktemp("open") / "unmoved.zarr"
    run_until_results_are_moved(TEXT, found, cluster)
    return found


@pytest.fixture
def alone():
    """Without the client that the session's cluster has."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def eager(path):
    return {name: repr(of(only(path))) for name, of in ANSWERS.items()}


@pytest.fixture
def small_blocks(eager, monkeypatch):
    """Those of a store that is larger than memory; `eager` was in one block."""
    for name, value in BLOCKS.items():
        monkeypatch.setattr(blocks, name, value)


@pytest.mark.parametrize("kind", ["path", "unmoved"])
def test_a_relative_path_holds_where_the_working_directory_is_another(
    kind, alone, request, tmp_path, monkeypatch
):
    """As that of workers is, which would read what they do not find as blank."""
    store = request.getfixturevalue(kind)
    monkeypatch.chdir(store.parent)
    lazy = sweep.open_study(store.name, chunks="auto")["only"].to_dataset()
    expected = sweep.open_study(store)["only"].to_dataset().load()
    monkeypatch.chdir(tmp_path)
    xr.testing.assert_identical(lazy.load(), expected)


def only(path, **given):
    return sweep.open_study(path, **given)["only"].to_dataset()


@pytest.mark.slow
@pytest.mark.parametrize("chunks", [{"run": 9, "time": 11}, None])
def test_answers_in_blocks_are_the_same_bit_for_bit(path, eager, chunks, alone, small_blocks):
    data = only(path, chunks=chunks)
    for name, of in ANSWERS.items():
        assert repr(of(data)) == eager[name], name


@pytest.mark.slow
def test_answers_on_a_cluster_are_the_same(path, eager, cluster, small_blocks):
    data = only(path, chunks="auto")
    for name in ("order", "drift", "results"):
        assert repr(ANSWERS[name](data)) == eager[name], name


def test_results_that_are_not_in_arrays_yet_are_read_though_they_are_moved_meanwhile(
    path, unmoved, cluster, tmp_path, alone
):
    """Times differ: it is another run of the study."""
    store = shutil.copytree(unmoved, tmp_path / "copy.zarr")
    (progress,) = sweep.status(store)
    assert progress.done == progress.runs == only(path).sizes["run"]
    eager, lazy = only(store).load(), only(store, chunks="auto")
    run(TEXT, store, cluster)
    times = ["cpu_time", "wall_time"]
    for found in (eager, lazy.load(), only(store).load()):
        assert found.drop_vars(times).identical(only(path).load().drop_vars(times))
        np.testing.assert_array_equal(found["cpu_time"], eager["cpu_time"])


def test_a_damaged_file_of_results_is_named_and_its_runs_are_computed_again(
    unmoved, path, cluster, assert_same_runs, tmp_path
):
    store = shutil.copytree(unmoved, tmp_path / "copy.zarr")
    left = [file for file in store.rglob("*") if not (path / file.relative_to(store)).exists()]
    file = max((file for file in left if file.is_file()), key=os.path.getsize)
    flip_bit(file)
    with pytest.raises(Damaged, match="fails its checksum"):
        run(TEXT, store, cluster)
    with pytest.raises(GeosweepError, match="fails its checksum"):
        only(store).load()
    (finding,) = sweep.verify(store)
    assert finding.path == file and finding.remedy == "remove"
    assert "runs must be computed again" in finding.text
    assert not sweep.repair(store).left and sweep.verify(store) == []
    (progress,) = sweep.status(store)
    assert progress.done < progress.runs
    run(TEXT, store, cluster)
    assert_same_runs(path, store, "only")


def test_what_is_opened_is_written_to_netcdf_and_read_again(path, tmp_path):
    own = only(path)
    own.to_netcdf(tmp_path / "own.nc")
    again = xr.open_dataset(tmp_path / "own.nc")
    np.testing.assert_array_equal(again["energy"], own["energy"])
    assert again["integrator"].values.tolist() == own["integrator"].values.tolist()


def test_labels_are_read_when_they_are_used(path):
    """One, some or all of them; what was read is not changed by who has it."""
    labels = only(path)["integrator"]
    one, some = str(labels.isel(run=3).values), labels.isel(run=[3, 1]).values
    every = labels.values
    assert (one, some.tolist()) == (every[3], [every[3], every[1]])
    assert every.dtype == object and len({id(label) for label in every}) == len({*every}) == 3
    every[3] = "another"
    assert str(labels.isel(run=3).values) == one == only(path)["integrator"].values[3]


def test_scalars_are_in_memory_and_series_are_chunked(path):
    for data in (only(path), only(path, chunks="auto")):
        for name, array in data.variables.items():
            if array.dims == ("run",):
                assert isinstance(array.data, np.ndarray), name
    assert set(data.chunks) == {"run", "time", "row", "component"}
    assert all(data[name].chunks for name in ("energy", "state", "initial_state"))
    assert not only(path).chunks


def test_runs_are_chosen_grouped_and_unstacked(path, alone):
    eager, lazy = only(path), only(path, chunks="auto")
    for of in (
        lambda data: data.query(run="integrator == 'rk4'"),
        lambda data: sweep.query(data, "energy_error@max > 1e-6 and step_size < 0.1"),
        lambda data: data.where(data.step_size < 0.1, drop=True),
        lambda data: data[["energy", "steps"]].groupby("integrator").max(),
        lambda data: (
            data.query(run="integrator == 'rk4'")
            .set_index(run=["step_size", "initial_condition"])[["energy", "steps"]]
            .unstack("run")
        ),
    ):
        found = of(lazy)
        assert found["energy"].chunks and found.load().identical(of(eager).load())


def test_a_grid_has_holes_and_stays_chunked(path, alone):
    def dense(**given):
        return sweep.grid(only(path, **given).query(run="not adaptive").isel(run=slice(2, None)))

    found = dense(chunks={"run": 9})
    assert found["energy"].chunks and found.load().identical(dense().load())


@pytest.mark.parametrize(("chunks", "said"), [("all", "must be 'auto'"), ({"row": 1}, "'row'")])
def test_other_chunks_are_refused(path, chunks, said):
    with pytest.raises(InputError, match=said):
        sweep.open_study(path, chunks=chunks)
