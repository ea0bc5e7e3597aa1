"""A crash at any step of what the coordinator writes loses nothing: the next run mends it."""

import contextlib
import os
import shutil

import pytest
from study_text import one_experiment
from zarr.storage import LocalStore

import sweep
from sweep.campaign import planning
from sweep.campaign.worker import compute, recorder
from sweep.store import create, diff, storage, studies
from sweep.store.commit import fold
from sweep.store.lease.sessions import Session, code_hash
from sweep.store.store import Store

FEW = {"record": '["energy"]', "reference": '{ integrator = "dop853", tolerance = 1e-6 }'}
GROWN = FEW | {
    "step_size": "[0.1, 0.05, 0.02]",
    "integrators": '["rk4", { name = "variational", label = "leapfrog" }]',
}


SESSION = Session("a_session", "", code_hash())


class Killed(BaseException):
    """What happens to the process at the chosen step."""


class Steps:
    """Counts the calls of a function and, at the one chosen, stops there."""

    def __init__(self, function, last):
        self.function = function
        self.left = last

    def __call__(self, *arguments, **options):
        if self.left == 0:
            raise Killed
        self.left -= 1
        return self.function(*arguments, **options)


def stopped(monkeypatch, action, last, *places):
    """Whether `action` was stopped before step `last`, a call of one of `places`.

    Every step after it would find the process gone, too.
    """
    with monkeypatch.context() as patch:
        steps = Steps(lambda function, *args, **options: function(*args, **options), last)
        for owner, name in places:
            function = getattr(owner, name)

            def counted(*args, function=function, **options):
                return steps(function, *args, **options)

            patch.setattr(owner, name, counted)
        with contextlib.suppress(Killed):
            action()
            return False
    return True


def points(monkeypatch, base, copy, action, *places, first=0, every=1):
    """A copy of `base` for each step of `action`, as it was left when it was stopped there."""
    for last in range(first, 10_000, every):
        shutil.rmtree(copy, ignore_errors=True)
        if base is not None:
            shutil.copytree(base, copy)
        if not stopped(monkeypatch, action, last, *places):
            assert last > 5 * every, "hardly a step was found"
            return
        yield last
    raise AssertionError("it never came to its end")


def run(written, path, cluster):
    outcome = sweep.run(studies.parse_study(one_experiment(**written)), path, cluster)
    assert outcome.complete
    return outcome


@pytest.fixture(scope="module")
def small(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("crashes") / "few.zarr"
    run(FEW, path, cluster)
    return path


def bring_up(written, path):
    parsed = studies.parse_study(one_experiment(**written))
    create.create_or_grow_store(
        Store.at(path), parsed, diff.diff_store_against_study(Store.at(path), parsed)
    )


WRITES = ((LocalStore, "set"), (os, "rename"))


def test_stopped_while_it_grows(
    small, cluster, tmp_path, monkeypatch, assert_same_runs, arrays, fingerprint
):
    fresh, copy = tmp_path / "fresh.zarr", tmp_path / "copy.zarr"
    run(GROWN, fresh, cluster)
    kept = arrays(small, "only")["run_id"].tolist()
    grow = lambda: bring_up(GROWN, copy)  # noqa: E731 (it is passed on)
    for last in points(monkeypatch, small, copy, grow, *WRITES, every=6):
        # whatever was there is found and counted, in its rows
        entry = diff.diff_store_against_study(
            Store.at(copy), studies.parse_study(one_experiment(**GROWN))
        )[0]
        assert (entry.known >= 12, entry.size, entry.gone) == (True, 18, 0)
        assert entry.pending.sum() == 6
        if last % 24 == 0:
            run(GROWN, copy, cluster)
            assert_same_runs(fresh, copy, "only")
            old = arrays(copy, "only")
            assert old["run_id"][:12].tolist() == kept
            before = arrays(small, "only")["cpu_time"]
            assert old["cpu_time"][:12].tobytes() == before.tobytes()


def test_ids_after_a_row_without_one_are_not_known(small, cluster, tmp_path, arrays):
    """As when of two chunks of ids only the second was written."""
    copy = tmp_path / "copy.zarr"
    shutil.copytree(small, copy)
    bring_up(GROWN, copy)
    ids = storage.open_zarr_group(storage.open_root_group(copy, mode="r+"), "only")["run_id"]
    ids[12:16] = ""
    entry = diff.diff_store_against_study(
        Store.at(copy), studies.parse_study(one_experiment(**GROWN))
    )[0]
    assert (entry.known, entry.size, entry.gone) == (12, 18, 0)
    run(GROWN, copy, cluster)
    found = arrays(copy, "only")["run_id"].tolist()
    assert len(set(found)) == len(found) == 18


def test_stopped_while_a_store_is_made(cluster, tmp_path, monkeypatch, assert_same_runs, small):
    """A new store appears at once: before, there is none."""
    place = tmp_path / "new"
    store = place / "few.zarr"
    make = lambda: bring_up(FEW, store)  # noqa: E731
    for last in points(monkeypatch, None, place, make, *WRITES, every=10):
        assert not store.exists()
        if last % 40 == 0:
            run(FEW, store, cluster)
            assert_same_runs(small, store, "only")
            assert [file.name for file in place.iterdir()] == ["few.zarr"]


def test_stopped_between_two_commits_of_a_task(
    cluster, tmp_path, monkeypatch, assert_same_runs, arrays
):
    """Of eight runs six are committed: they are kept, and two computed."""
    store, fresh, written = tmp_path / "few.zarr", tmp_path / "fresh.zarr", {"record": '["state"]'}
    parsed = studies.parse_study(one_experiment(**written))
    entries = diff.diff_store_against_study(Store.at(store), parsed)
    plans = [planning.plan_experiment(entry) for entry in entries]
    create.create_or_grow_store(Store.at(store), parsed, entries)
    _, (task,) = planning.make_tasks(Store.at(store), plans, 1, 1e-9)

    fold.begin_session(Store.at(store), SESSION.name)

    def batches():
        compute.compute_task(task.build(), SESSION)

    assert stopped(monkeypatch, batches, 2, (recorder.Recorder, "finish"))
    before = arrays(store, "only")
    done = before["sample_count"] > 0
    assert done.tolist() == [True] * 6 + [False] * 6
    assert run(written, store, cluster).complete
    after = arrays(store, "only")
    for name in ("cpu_time", "state", "status"):
        assert after[name][done].tobytes() == before[name][done].tobytes(), name
    run(written, fresh, cluster)
    assert_same_runs(fresh, store, "only")
