"""The heartbeat of a lease."""

import json
import queue
from concurrent.futures import ThreadPoolExecutor

import pytest
from study_text import one_experiment
from waiting import HANG

import sweep
from integrators.errors import InputError
from sweep.store.lease.lease import acquire_lease
from sweep.store.store import Store


@pytest.mark.slow
def test_a_heartbeat_says_who_has_taken_over(tmp_path):
    """Also where nothing is committed meanwhile, which would look."""
    lock, said = tmp_path / "study.zarr.lock", queue.Queue()
    with acquire_lease(Store(tmp_path / "study.zarr"), on_loss=said.put):
        holder = json.loads(lock.read_text().partition("\n")[0])
        new = lock.with_suffix(".new")
        new.write_text(f"{json.dumps(holder | {'token': 'abc', 'host': 'node7'})}\n{0:012d}\n")
        new.replace(lock)
        assert "study.zarr was taken over by" in said.get(timeout=HANG)
    assert json.loads(lock.read_text().partition("\n")[0])["token"] == "abc"


def test_a_holder_learns_who_took_over_and_has_ended(tmp_path, run_text):
    """Where the successor has released the lease, so that only the store knows of it."""
    path = tmp_path / "study.zarr"
    with acquire_lease(Store(path)) as lease:
        path.with_name("study.zarr.lock").unlink()
        assert not lease.is_held() and "was removed" in lease.lost
        lease.lost = ""
        with ThreadPoolExecutor(1) as other:
            assert other.submit(run_text, one_experiment(integrators='"rk4"'), path).result()
        assert not lease.is_held()
    assert "study.zarr was taken over by" in lease.lost and "has ended since" in lease.lost


def test_a_lease_without_a_store_says_that_nothing_is_stored_yet(tmp_path):
    """While the run prepares, and after it was killed there."""
    store, lock = tmp_path / "study.zarr", tmp_path / "study.zarr.lock"
    with acquire_lease(Store(store)):
        with pytest.raises(InputError, match="study.zarr has nothing stored yet: .* prepares its"):
            sweep.open_study(store)
        left = lock.read_text()
    lock.write_text(left)
    with pytest.raises(InputError, match="nothing stored yet: .*; `sweep run` begins it again"):
        sweep.open_study(store)
