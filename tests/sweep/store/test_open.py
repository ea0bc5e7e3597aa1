"""`sweep.open_study` in chunks: the same answers by Dask, alone and on a cluster."""

import os
import pickle
import shutil

import dask
import numpy as np
import pytest
import xarray as xr
from study_text import one_experiment

import sweep
from sweep.analysis.runs import blocks
from sweep.errors import InputError
from sweep.store import create, diff, studies
from sweep.store import open as opening
from sweep.store.commit import fold, records
from sweep.store.store import Store
from sweep.study import run_table, schema

KEYS = {
    "integrators": '["variational", "rk4", "rk45"]',
    "step_size": "[0.1, 0.05, 0.025, 0.0125]",
    "tolerance": "[1e-3, 1e-5]",
    "initial_condition": '["lee", { random = 2, seed = 1 }]',
    "record": '["energy", "unit_length", "state"]',
    "duration": "2.0",
    "samples": "20",
    "reference": '{ integrator = "dop853" }',
}
ANSWERS = {
    "order": sweep.order_table,
    "sup": lambda data: sweep.order_table(data, at="sup"),
    "self": lambda data: sweep.order_table(data, error="self", at="sup"),
    "tolerance": sweep.tolerance_table,
    "drift": sweep.drift_table,
    "growth": sweep.growth_table,
    "work": sweep.work_table,
    "results": lambda data: sweep.results(data).to_dataframe().to_csv(),
    "grid": lambda data: sweep.grid(sweep.query(data, "not adaptive")).load().to_dict(),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory, cluster):
    found = tmp_path_factory.mktemp("open") / "all.zarr"
    assert sweep.run(studies.parse_study(one_experiment(**KEYS)), found, cluster).complete
    return found


@pytest.fixture(scope="module")
def unfolded(path):
    """A copy of the store whose results are all in records."""
    copy = Store.at(shutil.copytree(path, path.with_name("unfolded.zarr")))
    arrays = {name: a for name, a in copy.arrays_of_group("only").items() if a.sharded}
    count = arrays["status"].shape[0]
    rows = np.arange(count)
    for part in np.array_split(rows, 2):
        name = records.RecordName(
            int(part[0]), int(part[-1]) + 1, len(part), 0, 21, 0, 0, "s", f"t{part[0]}", "record"
        )
        columns = {name: array.read_rows(part) for name, array in arrays.items()}
        records.write_record(
            records.records_folder(copy.place, "only", 0), name, arrays, part, columns
        )
    for array in arrays.values():
        for file in array.directory.glob("c.*"):
            file.unlink()
    fold.ledger_file(copy, "only").unlink()
    records.put_durably(copy.session_file, b"s")
    return copy.place


@pytest.fixture
def alone():
    """Without the client that the session's cluster has."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def small_blocks(eager, monkeypatch):
    """Of eight runs, and of some samples where that is possible; `eager` was in larger ones."""
    for module, name, value in (
        (blocks, "SMALL", 2000),
        (blocks, "VALUES", 56),
        (blocks, "ROWS", 8),
    ):
        monkeypatch.setattr(module, name, value)


@pytest.fixture(scope="module")
def eager(path):
    return {name: repr(of(only(path))) for name, of in ANSWERS.items()}


def only(path, **given):
    return sweep.open_study(path, **given)["only"].to_dataset()


@pytest.mark.parametrize("chunks", [None, "auto", {"run": 5, "time": 8}])
def test_answers_in_blocks_are_the_same_bit_for_bit(path, eager, chunks, alone, small_blocks):
    data = only(path, chunks=chunks)
    for name, of in ANSWERS.items():
        assert repr(of(data)) == eager[name], name


def test_answers_on_a_cluster_are_the_same_from_what_is_folded_and_what_is_not(
    path, unfolded, eager, cluster, small_blocks
):
    for place, names in ((path, ("order", "drift", "work")), (unfolded, ("self", "results"))):
        data = only(place, chunks="auto")
        for name in names:
            assert repr(ANSWERS[name](data)) == eager[name], name


def test_means_are_of_the_same_spans(path, alone, small_blocks):
    columns = ["energy_error@mean", "energy_error@min", "energy@start", "global_error@1"]
    one, other = (sweep.results(only(path, chunks=chunks), columns) for chunks in (None, "auto"))
    assert one.identical(other)


def test_blocks_are_reduced_by_the_workers(path, cluster):
    energy = only(path, chunks="auto")["energy"].variable
    found = blocks.map_blocks(lambda values: (os.getpid(), values.shape), [([energy[:8]], ())])
    ((process, shape),) = found
    assert process in cluster.run(os.getpid).values() and shape == (8, 21)


def test_what_is_opened_is_written_to_netcdf_and_read_again(path, tmp_path):
    own = only(path)
    own.to_netcdf(tmp_path / "own.nc")
    again = xr.open_dataset(tmp_path / "own.nc")
    np.testing.assert_array_equal(again["energy"], own["energy"])
    assert again["integrator"].values.tolist() == own["integrator"].values.tolist()


def test_labels_are_read_when_they_are_used(path, monkeypatch):
    """One, some or all of them; what was read is not changed by who has it."""
    read, decode = [], opening._Labels._decode
    monkeypatch.setattr(
        opening._Labels, "_decode", lambda labels, key: read.append(key) or decode(labels, key)
    )
    own = only(path)
    assert own.sizes["run"] == len(own["step_size"]) and not read
    labels = own["integrator"]
    one, some = str(labels.isel(run=3).values), labels.isel(run=[3, 1]).values
    assert len(read) == 2
    every = labels.values
    assert (one, some.tolist()) == (every[3], [every[3], every[1]])
    every[3] = "another"
    assert str(labels.isel(run=3).values) == one == only(path)["integrator"].values[3]


def test_runs_that_go_on_to_a_longer_duration_are_pending(path):
    """As `sweep status` counts them, until they have got there."""
    longer = shutil.copytree(path, path.with_name("longer.zarr"))
    store = Store.at(longer)
    study = studies.study_with_longer_duration(studies.stored_study(store), 4.0)
    create.create_or_grow_store(store, study, diff.diff_store_against_study(store, study))
    data = only(longer)
    assert (data["sample_count"] == 21).all() and (data["status"] == schema.PENDING).all()
    assert sweep.status(longer)[0].done == 0
    again = studies.parse_study(one_experiment(**KEYS))
    assert studies.resolve_study_and_store(again, longer)[0].experiments[0].duration == 2.0
    file = longer.with_name("again.toml")
    file.write_text(again.texts[0])
    made, _ = studies.resolve_study_and_store(file, longer)  # the text that the store keeps
    assert made.experiments[0].duration == 4.0


def test_the_rows_of_an_unchanged_study_need_no_identifiers(path, cluster, monkeypatch):
    again = shutil.copytree(path, path.with_name("again.zarr"))
    monkeypatch.setattr(run_table.RunTable, "with_states", None)
    assert sweep.run(studies.parse_study(one_experiment(**KEYS)), again, cluster).complete
    changed = studies.parse_study(one_experiment(**KEYS | {"step_size": "[0.1, 0.05]"}))
    with pytest.raises(TypeError, match="not callable"):
        sweep.run(changed, again, cluster)


def test_scalars_are_in_memory_and_series_are_chunked(path):
    for data in (only(path), only(path, chunks="auto")):
        for name, array in data.variables.items():
            if array.dims == ("run",):
                assert isinstance(array.data, np.ndarray), name
    assert set(data.chunks) == {"run", "time", "row", "component"}
    assert all(data[name].chunks for name in ("energy", "state", "initial_state"))
    assert not only(path).chunks


def test_a_label_of_many_runs_is_one_text(path):
    labels = only(path)["integrator"].values
    assert labels.dtype == object and len({id(label) for label in labels}) == len({*labels}) == 3


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


def test_a_grid_has_holes_and_stays_chunked(path, alone, monkeypatch):
    def dense(**given):
        return sweep.grid(only(path, **given).query(run="not adaptive").isel(run=slice(2, None)))

    for most in (blocks.SMALL, 100):
        monkeypatch.setattr("sweep.analysis.runs.grid.SMALL", most)
        found = dense(chunks={"run": 5})
        assert found["energy"].chunks and found.load().identical(dense().load())


def test_chunks_are_whole_files_bounded_by_their_bytes(path, monkeypatch):
    array = Store.at(path).array("only", "state")
    assert only(path, chunks="auto")["state"].encoding["shards"] == array.chunks
    monkeypatch.setattr(opening, "DASK_CHUNK_BYTES", 2**14)
    state = only(path, chunks="auto")["state"]
    rows = state.data.chunksize[0]
    assert rows * state[0].nbytes <= 2**14 < 2 * rows * state[0].nbytes
    assert array.chunks[0] % rows == 0


def test_what_is_not_folded_is_read_though_it_is_folded_meanwhile(path, unfolded, tmp_path):
    copy = Store.at(shutil.copytree(unfolded, tmp_path / "copy.zarr"))
    opened = pickle.loads(pickle.dumps(only(copy, chunks="auto")["energy"]))
    for name in ("energy", "status"):
        shutil.copytree(path / "only" / name, copy.place / "only" / name, dirs_exist_ok=True)
    shutil.rmtree(records.records_folder(copy.place, "only"))
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(opened.values, only(path)["energy"].values)


def test_few_shards_with_records_are_kept(unfolded, monkeypatch):
    store = Store.at(unfolded)
    waiting = store.unfolded("only")
    monkeypatch.setattr(records, "KEPT", 1)
    for name in ("energy", "steps"):
        array = store.arrays_of_group("only")[name]
        assert waiting.shard_with(array, (0,) * array.ndim, None)
        assert len(waiting._shards) == 1


@pytest.mark.parametrize(("chunks", "said"), [("all", "must be 'auto'"), ({"row": 1}, "'row'")])
def test_other_chunks_are_refused(path, chunks, said):
    with pytest.raises(InputError, match=said):
        sweep.open_study(path, chunks=chunks)
