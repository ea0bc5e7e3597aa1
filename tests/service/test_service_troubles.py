"""Workers that die again and again, and a disk that fills up."""

import dataclasses
import errno
import pickle

import numpy as np
import pytest
from distributed import KilledWorker
from study_text import one_experiment

import sweep
from sweep.campaign import coordinator
from sweep.campaign import task_window as cluster_module
from sweep.campaign.worker import compute
from sweep.campaign.worker.tasks import RunTask
from sweep.clusters.shutdown import Drain
from sweep.errors import Interrupted
from sweep.store import create, studies
from sweep.store.backends import disk
from sweep.store.lease import sessions


class Handed:
    """A future of a task whose workers died."""

    key, status = "a task", "error"

    def __init__(self, error):
        self._error = error

    def exception(self):
        return self._error

    def release(self):
        pass


@pytest.fixture
def window(monkeypatch):
    """Tasks in flight on a cluster of one slot, and how many samples each has in the store."""
    found = {"samples": 0}
    monkeypatch.setattr(cluster_module, "count_task_slots", lambda client, check: 1)
    monkeypatch.setattr(cluster_module, "recorded_samples_of_task", lambda task: found["samples"])
    return cluster_module._Window(None, [], None, Drain()), found


def some_task():
    names = [field.name for field in dataclasses.fields(RunTask)]
    known = {"store": "store", "experiment": "only", "rows": np.zeros(1, dtype=int), "cost": 1.0}
    return RunTask(**dict.fromkeys(names) | known | {"checkpoint_every": 1.0})


def handed_back(window, error):
    """Hand the one task back with an error; what waits then."""
    task = window.waiting.pop() if window.waiting else some_task()
    window.in_flight[Handed.key] = task
    window._pace.note_start(Handed.key, 1.0)
    window.collect([Handed(error)])
    return window.waiting


def test_a_task_whose_workers_die_commits_sooner(window):
    window, _ = window
    killed = KilledWorker("a task", None, 3)
    for every in (0.5, 0.25, 0.125, 0.0625, 0.05, 0.05):
        (task,) = handed_back(window, killed)
        assert task.checkpoint_every == every
    assert window.failure is None


def test_a_task_is_given_up_when_workers_die_and_nothing_is_committed(window):
    window, found = window
    killed, deaths = KilledWorker("a task", None, 3), cluster_module.MOST_DEATHS
    for _ in range(deaths):
        found["samples"] += 1
        assert len(handed_back(window, killed)) == 1
    for _ in range(deaths // 4):
        assert window.failure is None and len(window.waiting) == 1
        handed_back(window, killed)
    handed_back(window, killed)
    assert window.failure[1] is killed


def test_a_full_disk_is_named(tmp_path):
    error = OSError(errno.ENOSPC, "No space left on device")
    assert disk.is_storage_full_or_failing(error) and not disk.is_storage_full_or_failing(
        OSError(errno.EIO, "")
    )
    said = disk.explain_storage_failure(tmp_path / "a" / "store.zarr")
    assert f"where {tmp_path / 'a' / 'store.zarr'} is, is full" in said and " MB are left" in said


def test_a_disk_that_fills_up_ends_a_run_in_order(tmp_path, cluster, monkeypatch):
    """What is committed stays, and the same call goes on."""
    written, store = studies.parse_study(one_experiment()), tmp_path / "test.zarr"

    def fills(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(coordinator.fold, "fold_all", fills)
        with pytest.raises(Interrupted, match="the disk at .* is full"):
            sweep.run(written, store, cluster)
        patch.setattr(create, "create_or_grow_store", fills)
        with pytest.raises(Interrupted, match="the disk at .* is full"):
            sweep.run(written, tmp_path / "other.zarr", cluster)
    assert sweep.run(written, store, cluster).complete


class Unsendable(Exception):
    """What Dask cannot make again on the other side."""

    def __init__(self, one, two):
        super().__init__(one)


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (Unsendable("odd", 2), "Unsendable: odd"),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (ValueError("plain"), "plain"),
    ],
)
def test_what_a_task_raises_reaches_the_coordinator(raised, said, monkeypatch):
    def fails(*arguments):
        raise raised

    monkeypatch.setattr(compute, "_compute_and_commit_task", fails)
    task = some_task()
    with pytest.raises(Exception, match=f"^{said}$") as caught:
        compute.compute_task(task, sessions.Session("a session", "", sessions.code_hash()))
    assert pickle.loads(pickle.dumps(caught.value)).args == (said,)
