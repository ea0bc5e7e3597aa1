"""Growth past the budget of files rewrites what is there; a crash meanwhile loses nothing."""

import dataclasses
import os
import shutil
from pathlib import Path

import pytest
from study_text import one_experiment
from test_service_crashes import FEW, GROWN, RENAMES, points, run, stopped
from zarr.storage import LocalStore

import sweep
from sweep.campaign import planning
from sweep.errors import StoreError
from sweep.store import chunk_layout, diff, storage, studies
from sweep.store.chunk_layout import Layout, divide_file_budget
from sweep.store.store import Store
from sweep.store.upkeep import rechunk

WRITES = (LocalStore, "set"), (Path, "write_text"), (os, "rename")


@pytest.fixture(scope="module")
def small(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("rechunking") / "few.zarr"
    run(FEW, path, cluster)
    return path


@pytest.fixture(scope="module")
def fresh(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("rechunking") / "fresh.zarr"
    run(GROWN, path, cluster)
    return path


def group(path):
    return storage.open_zarr_group(storage.open_root_group(path), "only")


@pytest.fixture
def scarce(monkeypatch):
    """Files are so scarce that 18 runs have to be in one chunk."""
    monkeypatch.setattr(chunk_layout, "MOST_FILES", 1)


def layout(path):
    entry = diff.diff_store_against_study(
        Store.at(path), studies.parse_study(one_experiment(**GROWN))
    )[0]
    return dataclasses.replace(planning.plan_experiment(entry).layout, chunk_rows=32)


@pytest.fixture(scope="module")
def rewritten(small, tmp_path_factory):
    """The smaller one in larger chunks."""
    path = shutil.copytree(small, tmp_path_factory.mktemp("rechunking") / "few.zarr")
    rechunk.rechunk_experiment(Store.at(path), "only", layout(path))
    return path


def test_a_trial_that_grows_is_rewritten(
    small, fresh, cluster, tmp_path, scarce, assert_same_runs, arrays
):
    copy = shutil.copytree(small, tmp_path / "copy.zarr")
    assert group(copy)["energy"].chunks == (8, 11)
    run(GROWN, copy, cluster)
    check_grown(small, fresh, copy, assert_same_runs, arrays)
    rows = group(copy).attrs["chunk_rows"]
    assert rows == chunk_layout.MOST_CHUNK_ROWS
    assert {group(copy)[name].chunks[0] for name in ("energy", "sample_count")} == {rows}
    ends = storage.open_root_group(copy)["_geosweep/ends/only/checkpoint"]
    assert ends.chunks[0] == rows


def check_grown(small, fresh, copy, assert_same_runs, arrays):
    """All that was there is kept, in its rows, and nothing is left beside the store."""
    assert_same_runs(fresh, copy, "only")
    before, after = arrays(small, "only"), arrays(copy, "only")
    for name in ("run_id", "cpu_time"):
        assert after[name][:12].tolist() == before[name].tolist()
    assert sweep.open_study(copy)["only"].sizes["run"] == 18
    assert [file.name for file in copy.parent.iterdir()] == [copy.name]


def test_stopped_while_it_is_rewritten(
    small, rewritten, fresh, cluster, tmp_path, monkeypatch, scarce, assert_same_runs, arrays,
    fingerprint,
):  # fmt: skip
    copy, larger = tmp_path / "copy.zarr", layout(small)
    rewrite = lambda: rechunk.rechunk_experiment(Store.at(copy), "only", larger)  # noqa: E731 (it is passed on)
    known, made = [fingerprint(small), fingerprint(rewritten)], set()
    for last in points(monkeypatch, small, copy, rewrite, *WRITES, every=16):
        if last == 48:
            run(GROWN, copy, cluster)
            check_grown(small, fresh, copy, assert_same_runs, arrays)
        else:
            made.add(recovered(copy, fingerprint, known))
    assert 0 in made


@pytest.mark.parametrize("last", (0, 1, 2, 3, 4, 5, 6, 9))
def test_stopped_while_groups_change_their_places(
    small, rewritten, fresh, cluster, tmp_path, monkeypatch, assert_same_runs, arrays, fingerprint,
    last,
):  # fmt: skip
    """The file that says ready, its rename, two renames of each of two groups, what is removed."""
    copy, larger = shutil.copytree(small, tmp_path / "copy.zarr"), layout(small)
    assert stopped(
        monkeypatch,
        lambda: rechunk.rechunk_experiment(Store.at(copy), "only", larger),
        last,
        *RENAMES,
    )
    if last in (1, 4):
        run(GROWN, copy, cluster)
        check_grown(small, fresh, copy, assert_same_runs, arrays)
        assert group(copy).attrs["chunk_rows"] == (32 if last > 1 else 8)  # ready, or forgotten
    else:
        known = [fingerprint(small), fingerprint(rewritten)]
        assert recovered(copy, fingerprint, known) == (last > 1)


def recovered(copy, fingerprint, known):
    """Which of the hashes `known` a store has after what a run does first."""
    rechunk.finish_interrupted_rechunk(Store.at(copy))
    assert [file.name for file in copy.parent.iterdir()] == [copy.name]
    return known.index(fingerprint(copy))


def test_a_damaged_chunk_is_not_copied(small, cluster, tmp_path, scarce, fingerprint):
    copy = shutil.copytree(small, tmp_path / "copy.zarr")
    chunk = copy / "only" / "energy" / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"!")
    before = fingerprint(copy)
    with pytest.raises(StoreError, match="'only' cannot be rewritten.*sweep verify"):
        run(GROWN, copy, cluster)
    assert fingerprint(copy) == before
    assert [file.name for file in tmp_path.iterdir()] == ["copy.zarr"]


def test_what_has_the_files_that_it_needs_stays():
    trial = Layout(16, 11, 26, 14, 0, 8, 11, (32, 16))
    assert trial.within(trial.files) is trial
    twice = dataclasses.replace(trial, runs=32)
    assert twice.within(twice.files) is twice
    grown = dataclasses.replace(trial, runs=100_000)
    assert grown.files > 3e5
    found = grown.within(100_000, rows=64)
    assert (found.chunk_rows, found.coordinate_chunks) == (64, (65_536, 16))
    assert found.files < 1e5
    longer = dataclasses.replace(trial, times=1_000_001).within(100_000)
    assert (longer.chunk_rows, longer.time_chunk) == (8, 1024) and longer.files < 1e5
    most = dataclasses.replace(trial, runs=10**9).within(100_000)
    assert most.chunk_rows == chunk_layout.MOST_CHUNK_ROWS


def test_coordinates_in_very_many_chunks_are_rewritten_within_the_budget():
    trial = Layout(3000, 11, 26, 14, 0, 8, 11, (32, 16))
    assert trial.files < 100_000 and trial.is_scattered
    found = trial.within(100_000)
    assert (found.chunk_rows, found.coordinate_chunks) == (8, (4096, 16))


def test_the_budget_is_shared():
    assert divide_file_budget([10, 300, 200], 1000) == [10, 300, 200]
    assert divide_file_budget([10, 3000, 2000], 1000) == [10, 495, 495]
