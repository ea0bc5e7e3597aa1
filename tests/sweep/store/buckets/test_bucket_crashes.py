"""Stores in a bucket after each of their writers was killed, at whatever request."""

import dataclasses
import signal
import time

import pytest
from studies_in_buckets import BUCKET, FEW, keys, run, set_on_workers
from study_text import LONG, one_experiment

import sweep
from integrators.errors import InputError
from sweep.campaign import coordinator
from sweep.errors import StoreError
from sweep.store import create, diff, files, storage, studies
from sweep.store.backends import places, s3
from sweep.store.backends.places import place_of_store_name
from sweep.store.backends.trees import copy_tree, move_staged_tree_into_place, remove_tree
from sweep.store.store import Store
from sweep.store.upkeep import compact, rechunk, verify

MANY = {"record": "[]", "initial_condition": "{ random = 10, seed = 1 }"}  # 5 chunks
SHORT = LONG.replace("random = 68", "random = 34")


def test_a_worker_and_then_all_are_killed(
    bucket, cluster, start, until, tmp_path, assert_like, server
):
    """Several workers write at once, some die: the same command finishes the job."""
    (tmp_path / "long.toml").write_text(SHORT)
    store = bucket / "long.zarr"
    process = start(
        "sweep", "run", "long.toml", store, "--no-summary", "--workers", 2, cwd=tmp_path
    )

    def committed():
        marker = files.ArrayFiles.read(store / "pendulum" / "sample_count")
        return int((marker.values() > 0).sum())

    def enough(runs):
        time.sleep(0.1)  # it is the server's time
        if process.poll() is None and (store / "zarr.json").is_file():
            return committed() >= runs
        return process.poll() is not None

    until(lambda: enough(1))
    process.busiest_worker().send_signal(signal.SIGKILL)
    until(lambda: enough(13))
    assert process.poll() is None, process.communicate()
    process.kill()
    done = committed()
    assert 13 <= done < 68
    before = sweep.open_study(str(store))["pendulum"].cpu_time.values
    path = tmp_path / "local.zarr"
    for place in (store, path):  # its holder on this host is dead: no waiting
        assert sweep.run(tmp_path / "long.toml", place, cluster).complete
    after = sweep.open_study(str(store))["pendulum"].cpu_time.values
    assert int((before == after).sum()) >= done
    assert_like(path, store, "pendulum")


def test_a_server_that_falls_silent_ends_the_run_and_it_goes_on(
    bucket, cluster, tmp_path, assert_like, monkeypatch, server
):
    monkeypatch.setenv(s3.PATIENCE, "0.5")
    monkeypatch.setattr(s3, "AT_START", 0.5)
    set_on_workers(cluster, {s3.PATIENCE: "0.5"})
    store, parsed = bucket / "long.zarr", studies.parse_study(SHORT)

    class Silences(coordinator.Watcher):
        def progressed(self, task, receipt):
            server.process.send_signal(signal.SIGSTOP)

    try:
        with pytest.raises(coordinator.Interrupted, match="does not answer"):
            sweep.run(parsed, store, cluster, watcher=Silences())
    finally:
        server.process.send_signal(signal.SIGCONT)
        set_on_workers(cluster, {s3.PATIENCE: "60"})
    monkeypatch.undo()
    assert sweep.run(parsed, store, cluster).complete


class Killed(BaseException):
    """What happens to the process at the chosen request."""


def stopped(action, last):
    """Whether `action` was stopped before the request `last` that changes something."""
    left = [last]

    def counted(function):
        def called(*arguments):
            if left[0] <= 0:
                raise Killed
            left[0] -= 1
            return function(*arguments)

        return called

    with pytest.MonkeyPatch.context() as patch:
        for name in ("put_object", "copy_object", "delete_objects"):
            patch.setattr(s3, name, counted(getattr(s3, name)))
        made = s3._zarr_bucket_store_class()
        for name in ("set", "delete"):
            patch.setattr(made, name, counted(getattr(made, name)))
        patch.setattr(places, "AT_ONCE", 1)
        try:
            action()
        except Killed:
            return True
    return False


def steps(action, prepare, every):
    """Each step at which `action` is stopped, prepared anew."""
    for last in range(0, 10_000, every):
        prepare()
        if not stopped(action, last):
            assert last > 2 * every, "hardly a step was found"
            return
        yield last
    raise AssertionError("it never came to its end")


def test_stopped_while_a_store_is_made(bucket, cluster, local, assert_like):
    """Without its zarr.json there is no store, and the next run begins anew."""
    store, parsed = bucket / "few.zarr", studies.parse_study(one_experiment(**FEW))

    def make():
        create.create_or_grow_store(
            Store.at(store),
            parsed,
            diff.diff_store_against_study(Store.at(store), parsed),
            {"only": 8},
        )

    for _ in steps(make, lambda: None, 33):
        assert not (store / "zarr.json").is_file()
        assert Store.at(store).existing_root() is None
        with pytest.raises(InputError, match=r"is not a store|half deleted"):
            Store.at(store).check()
    assert Store.at(store).existing_root() is not None and not Store.at(store).is_half_made()
    run(FEW, store, cluster)
    assert_like(local, store)


def test_what_is_not_ours_is_not_swept_away(bucket, cluster, server):
    (bucket / "few.zarr" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="exists and is not a Geosweep store"):
        run(FEW, bucket / "few.zarr", cluster)
    assert keys(bucket / "few.zarr") == {"notes.txt"}


def test_stopped_at_any_step_of_taking_a_place(bucket):
    """Done again it comes to its end, with all of the new and nothing of the old."""
    old, new = (
        {"zarr.json": b"old", "c/0": b"0", "c/1": b"1"},
        {"zarr.json": b"new", "c/0": b"both"},
    )
    staged, place = bucket / "staged", bucket / "place"

    def prepare():
        remove_tree(bucket)
        for where, content in ((staged, new), (place, old)):
            for key, data in content.items():
                (where / key).write_bytes(data)

    for _ in steps(lambda: move_staged_tree_into_place(staged, place), prepare, 1):
        move_staged_tree_into_place(staged, place)
        remove_tree(staged)
        assert {key: (place / key).read_bytes() for key in keys(place)} == new


@pytest.fixture(scope="module")
def many(server, cluster):
    place = place_of_store_name(f"{BUCKET}/many.zarr")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "WORTHWHILE", 2)
        run(MANY, place, cluster)
        assert scalar_chunk(place) > 40
        yield place


def scalar_chunk(place):
    return Store.at(place).group("only")["sample_count"].chunks[0]


def test_stopped_while_it_spreads_and_compacts(many, bucket, assert_same_runs, tmp_path):
    store, whole = bucket / "many.zarr", tmp_path / "whole.zarr"
    copy_tree(many, store)
    copy_tree(many, whole)
    found = set()
    for action, every in ((compact.spread_run_scalars, 50), (compact.compact_run_scalars, 40)):
        for last in steps(lambda action=action: action(Store.at(store)), lambda: None, every):
            compact.finish_interrupted_rewrite(Store.at(store))
            found.add(scalar_chunk(store) == 8)
            if last % 2:
                copied = tmp_path / f"{action.__name__}-{last}.zarr"
                copy_tree(store, copied)
                assert_same_runs(whole, copied, "only", timings=True)
        assert not places.place_is_directory(store.with_name(store.name + compact.STAGING))
    assert found == {True, False}
    assert not verify.verify(store)


def test_stopped_while_it_is_rechunked(many, bucket, assert_same_runs, tmp_path):
    store, whole, copied = bucket / "many.zarr", tmp_path / "whole.zarr", tmp_path / "copied.zarr"
    copy_tree(many, store)
    copy_tree(many, whole)
    parsed = studies.parse_study(one_experiment(**MANY))
    layout = coordinator.planning.plan_study(
        diff.diff_store_against_study(Store.at(store), parsed)
    )[0].layout
    layout = dataclasses.replace(layout, chunk_rows=32, coordinate_chunks=(256, 16))
    for _ in steps(
        lambda: rechunk.rechunk_experiment(Store.at(store), "only", layout), lambda: None, 60
    ):
        compact.finish_interrupted_rewrite(Store.at(store))
    assert storage.chunk_rows_of_group(Store.at(store).group("only")) == 32
    copy_tree(store, copied)
    assert_same_runs(whole, copied, "only", timings=True)
    assert not verify.verify(store)
