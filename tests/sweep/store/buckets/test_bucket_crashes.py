"""Stores in a bucket when processes are killed, or many of them begin at once."""

import json
import threading
import time

import pytest
from studies_in_buckets import TEXT, path_of
from written_stores import held, run

import sweep
from sweep.errors import GeosweepError, StoreError

pytestmark = pytest.mark.slow

# A holder that is elsewhere, whose heart has stopped.
HOLDER = {
    "token": "abc", "user": "emmy", "host": "node7", "command": "sweep run", "pid": 4711,
    "born": "1", "place": "another boot", "since": "2026-01-01 00:00:00", "beat_seconds": 0.05,
}  # fmt: skip


def test_all_processes_are_killed(
    made, bucket, cluster, start, until, server, local, tmp_path, assert_like
):
    """Its holder on this host is dead: the same command need not wait to finish the job."""
    (tmp_path / "test.toml").write_text(TEXT)
    store = f"{bucket}/few.zarr"
    server.have(changes=int(0.9 * made[1]), stops=True)
    arguments = ("test.toml", store, "--no-summary", "--workers", 1)
    process = start("sweep", "run", *arguments, cwd=tmp_path)
    until(lambda: server.is_stopped() or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    process.kill()
    server.wake()
    (progress,) = sweep.status(store)
    before = sweep.open_study(store)["only"].cpu_time.values
    run(TEXT, store, cluster)
    after = sweep.open_study(store)["only"].cpu_time.values
    assert int((before == after).sum()) >= progress.done
    assert_like(local, store)


def test_a_server_that_falls_silent_ends_the_run_and_it_goes_on(
    made, bucket, cluster, server, impatient, local, assert_like
):
    server.have(changes=int(0.8 * made[1]), stops=True)
    try:
        with impatient(), pytest.raises(GeosweepError, match="does not answer"):
            run(TEXT, f"{bucket}/few.zarr", cluster)
    finally:
        server.wake()
    run(TEXT, f"{bucket}/few.zarr", cluster)
    assert_like(local, f"{bucket}/few.zarr")


def test_of_newcomers_at_once_one_is_in(bucket, base, server):
    """Also where the holder before is dead, here or elsewhere."""
    here = json.loads(lease_while_held(base, server).partition(b"\n")[0])
    for holder in (None, here, HOLDER):
        store, inside, said = f"{bucket}/{holder and holder['host']}.zarr", set(), []
        copy(base, store, server)
        if holder is not None:
            server.write(f"{path_of(store)}.lock", f"{json.dumps(holder)}\n{7:012d}\n".encode())

        def alone(*_, inside=inside):
            inside.add(threading.get_ident())
            time.sleep(0.02)
            assert inside == {threading.get_ident()}
            inside.clear()

        def enter(store=store, alone=alone, said=said):
            try:
                sweep.repair(store, progress=alone)
                said.append("held")
            except StoreError as error:
                said.append("refused" if "is held by" in str(error) else str(error))

        threads = [threading.Thread(target=enter) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(said) == 6 and set(said) <= {"held", "refused"} and "held" in said, said
        assert server.read(f"{path_of(store)}.lock") == b"released\n"


def lease_while_held(store, server):
    """What the lease of a store says of a process that has it."""
    with held(store):
        with pytest.raises(StoreError, match=f"{store} is held by"):
            sweep.repair(store)
        return server.read(f"{path_of(store)}.lock")


def copy(store, other, server):
    for name in server.below(path_of(store)):
        server.write(f"{path_of(other)}/{name}", server.read(f"{path_of(store)}/{name}"))


def test_a_heart_beats_though_an_answer_was_not_heard(store, server, until, monkeypatch):
    monkeypatch.setattr("sweep.store.lease.holder.BEAT_SECONDS", 0.3)
    lock = f"{path_of(store)}.lock"

    def beats():
        return int(server.read(lock).splitlines()[1])

    with held(store):
        server.have(unheard=".lock")
        until(lambda: beats() >= 2)
    assert server.read(lock) == b"released\n"
