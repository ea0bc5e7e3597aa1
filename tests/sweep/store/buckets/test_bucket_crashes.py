"""Stores in a bucket after each of their writers was killed, at whatever request."""

import signal
import time

import pytest
from studies_in_buckets import FEW, keys, run, set_on_workers
from study_text import LONG, one_experiment

import sweep
from integrators.errors import InputError
from sweep.campaign import coordinator
from sweep.errors import StoreError
from sweep.store import create, diff, studies
from sweep.store.backends import places, s3
from sweep.store.backends.places import ObjectPlace
from sweep.store.store import Store

SHORT = LONG.replace("random = 68", "random = 34")


def test_a_worker_and_then_all_are_killed(
    bucket, cluster, start, until, tmp_path, assert_like, server
):
    """Several workers write at once, some die: the same command finishes the job."""
    (tmp_path / "long.toml").write_text(LONG.replace("duration = 3000.0", "duration = 9000.0"))
    store = bucket / "long.zarr"
    process = start(
        "sweep", "run", "long.toml", store, "--no-summary", "--workers", 2, cwd=tmp_path
    )

    def committed():
        return sweep.status(store)[0].done

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
    assert 13 <= done < 136
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
        for name in ("write_bytes", "put_if", "copy", "delete"):
            patch.setattr(ObjectPlace, name, counted(getattr(ObjectPlace, name)))
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
