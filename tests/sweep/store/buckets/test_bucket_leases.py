"""One coordinator at a time, of all that would write into a store in a bucket."""

import dataclasses
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from studies_in_buckets import FEW, keys
from study_text import one_experiment
from waiting import HANG

from sweep import errors
from sweep.errors import StoreError
from sweep.store.backends.places import ObjectPlace
from sweep.store.commit import fold
from sweep.store.commit.records import put_durably
from sweep.store.lease import holder
from sweep.store.lease.holder import LeaseHolder, heartbeat_counter_line, lease_holder_line
from sweep.store.lease.lease import acquire_lease
from sweep.store.store import Store

# Newcomers in threads of several processes; each says whether it is alone while it is in.
NEWCOMERS = r"""
import os, sys, threading, time
from sweep.store.lease.lease import acquire_lease
from sweep.store.store import Store
from sweep.errors import (StoreError,)
from sweep.store.backends.places import place_of_store_name

def try_it(store):
    inside = place_of_store_name(store + ".inside")
    try:
        with acquire_lease(Store.at(store)):
            assert inside.put_if(b"") is not None, "another one is inside"
            time.sleep(0.3)
            inside.unlink()
        os.write(1, b"held\n")
    except StoreError:
        os.write(1, b"refused\n")
    except BaseException as error:
        os.write(1, repr(error).replace(" ", "_").encode() + b"\n")

print("ready", flush=True)
sys.stdin.readline()
for store in sys.argv[1:]:
    threads = [threading.Thread(target=try_it, args=(store,)) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""


def test_of_newcomers_at_once_one_is_in(bucket, server):
    stores = [f"{bucket}/{number}.zarr" for number in range(3)]
    for link, store in enumerate(stores[1:]):  # nobody's, a dead one's, a silent one's elsewhere
        found = dataclasses.replace(LeaseHolder.here(), pid=os.getpid() if link else 1, born="0")
        found = dataclasses.replace(found, place="elsewhere", beat_seconds=0.05) if link else found
        Store.at(store).lease_file.write_bytes(lease_holder_line(found) + heartbeat_counter_line(7))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", NEWCOMERS, *stores],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [word for process in processes for word in process.communicate(timeout=HANG)[0].split()]
    assert len(said) == 18 and set(said) <= {"held", "refused"}, said
    assert said.count("held") >= 3
    assert all(holder.read_lease_holder(Store.at(store).lease_file) is None for store in stores)


def test_a_living_coordinator_is_named_and_its_store_left_alone(base, bucket, called, tmp_path):
    (tmp_path / "test.toml").write_text(one_experiment(**FEW))
    before = keys(base)
    with acquire_lease(Store.at(base)) as held:
        living = dataclasses.replace(LeaseHolder.here(), token=held.token, user="emmy")
        done = called(tmp_path, "status", base)
        assert done.returncode == 0
        refused = []
        thread = threading.Thread(target=lambda: refused.append(try_hold(base)))
        thread.start()
        thread.join()
    assert f"is held by {LeaseHolder.here().user} on {living.host}" in refused[0]
    assert keys(base) == before


def try_hold(store):
    try:
        with acquire_lease(Store.at(store)):
            return "it held it"
    except StoreError as error:
        return str(error)


def test_a_shard_that_another_process_puts_after_the_check_is_kept(bucket):
    """By one that held the store before, or by one that has taken it over."""
    shard, others, checks = bucket / "c.0", [], []
    array = SimpleNamespace(file=lambda index: shard)

    def grown(old):
        if others:
            shard.write_bytes(old + others.pop())
        return old + b" mine"

    def taken_over():
        checks.append("passed")
        if len(checks) > 1:
            raise errors.Interrupted("another process holds the store")

    shard.write_bytes(b"old")
    others.append(b" late")
    fold.write_shard(array, (0,), grown)
    assert shard.read_bytes() == b"old late mine"
    others.append(b" theirs")
    with pytest.raises(errors.Interrupted, match="another process holds the store"):
        fold.write_shard(array, (0,), grown, taken_over)
    assert shard.read_bytes() == b"old late mine theirs"


@pytest.mark.parametrize("before", [None, b"before"])
def test_an_object_that_another_process_puts_after_the_check_is_kept(bucket, before):
    """As the session: one that was suspended after its check names none over the next one's."""
    place, checks = bucket / "session", []

    def put_meanwhile():
        checks.append("passed")
        if len(checks) == 1:
            place.write_bytes((before or b"") + b" theirs")

    def taken_over():
        if checks:
            raise errors.Interrupted("another process holds the store")
        put_meanwhile()

    if before is not None:
        place.write_bytes(before)
    with pytest.raises(errors.Interrupted, match="another process holds the store"):
        put_durably(place, b"mine", taken_over)
    assert place.read_bytes() == (before or b"") + b" theirs"
    checks.clear()
    place.write_bytes(b"again")
    put_durably(place, b"mine", put_meanwhile)  # theirs was late: this one still has the lease
    assert place.read_bytes() == b"mine" and len(checks) == 2


def test_a_heart_beats_and_who_lost_the_lock_stops(bucket, until, monkeypatch):
    monkeypatch.setattr(holder, "BEAT_SECONDS", 0.02)
    store, lost = bucket / "a.zarr", threading.Event()
    lock = Store.at(store).lease_file
    with acquire_lease(Store.at(store), on_loss=lambda reason: lost.set()) as held:
        until(lambda: holder.read_lease_holder(lock).beat >= 3)
        real, failed = ObjectPlace.put_if, []

        def answer_lost(place, data, tag=None):  # it is written, and nobody hears of it
            made = real(place, data, tag)
            if not failed and made is not None:
                failed.append(made)
                raise errors.Unreachable.for_reason("no answer")
            return made

        with monkeypatch.context() as patch:
            patch.setattr(ObjectPlace, "put_if", answer_lost)
            beat = holder.read_lease_holder(lock).beat
            until(lambda: holder.read_lease_holder(lock).beat >= beat + 4)
        assert failed and held.is_held()
        other = dataclasses.replace(LeaseHolder.here(), host="node7", token="other")

        def taken_over():  # not once: the tests' server compares a tag and writes in two steps
            lock.write_bytes(lease_holder_line(other) + heartbeat_counter_line(0))
            return lost.is_set()

        until(taken_over)
        assert not held.is_held()
    assert holder.read_lease_holder(lock).token == "other"
