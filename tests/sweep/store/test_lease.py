"""The heartbeat of a lease."""

import json
import queue

from waiting import HANG

from sweep.store.lease.lease import acquire_lease
from sweep.store.store import Store


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
