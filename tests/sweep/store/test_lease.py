"""One process at a time writes to a store: its lease, and how a dead holder's is taken over."""

import contextlib
import dataclasses
import errno
import os
import signal
import subprocess
import sys
import threading

import pytest
from waiting import HANG

import sweep
from sweep.campaign import coordinator
from sweep.clusters import shutdown as draining
from sweep.errors import StoreError
from sweep.store import studies
from sweep.store.lease import holder, lease, local, s3
from sweep.store.lease.holder import LeaseHolder, heartbeat_counter_line, lease_holder_line
from sweep.store.lease.lease import acquire_lease
from sweep.store.store import Store

HOLDING = """\
import sys, time
from sweep.store.lease.lease import acquire_lease
from sweep.store.store import Store
with acquire_lease(Store.at(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""

# So many newcomers at once, each of which says when it is in, and finds out whether it is alone.
NEWCOMERS = r"""
import os, sys, time
from sweep.store.lease import holder
from sweep.store.lease.lease import acquire_lease
from sweep.store.store import Store
from sweep.errors import (StoreError,)
holder.BEAT_SECONDS = 0.05

def try_it(store):
    inside = store + ".inside"
    try:
        with acquire_lease(Store.at(store)):
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
            time.sleep(0.2)
            os.unlink(inside)
        return b"held\n"
    except StoreError:
        return b"refused\n"
    except BaseException as error:
        return f"{error!r}\n".encode()

for store in sys.argv[2:]:
    children = []
    for number in range(int(sys.argv[1])):
        if (child := os.fork()) == 0:
            os.write(1, try_it(store))
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
"""


@pytest.fixture
def store(tmp_path):
    return tmp_path / "study.zarr"


@pytest.fixture
def lock(store):
    return store.with_name("study.zarr.lock")


@pytest.fixture
def process(store):
    """A process that holds the store's lock."""
    made = subprocess.Popen(
        [sys.executable, "-c", HOLDING, store], stdout=subprocess.PIPE, text=True
    )
    assert made.stdout.readline() == "held\n"
    yield made
    made.kill()
    made.communicate()


def elsewhere(**changes):
    """A holder on another host, of quick beats."""
    return dataclasses.replace(
        LeaseHolder.here(), host="node7", user="emmy", place="another boot", pid=4711,
        beat_seconds=0.05, **changes,
    )  # fmt: skip


def write(lock, found, beat=0):
    lock.write_bytes(lease_holder_line(found) + heartbeat_counter_line(beat))


def test_a_second_run_says_who_holds_it_and_touches_nothing(
    process, store, lock, called, long_study, fingerprint
):
    before = fingerprint(long_study)
    done = called(long_study, "run", "long.toml", store)
    assert done.returncode == 2
    (message,) = done.stderr.splitlines()
    found = holder.read_lease_holder(lock)
    assert message.startswith(f"Error: {store} is held by {found.user} on {os.uname().nodename} ")
    assert f"process {process.pid}" in message and f"since {found.since}" in message
    assert str(store) in found.command
    assert fingerprint(long_study) == before


def test_a_killed_holder_is_succeeded_at_once(process, store, lock, until, tmp_path):
    process.kill()  # and not waited for: a zombie is dead too
    until(lambda: holder.read_lease_holder(lock).is_dead())
    with acquire_lease(Store.at(store), on_wait=lambda *_: pytest.fail("it waited")) as held:
        assert held.is_held() and holder.read_lease_holder(lock).pid == os.getpid()
        assert [file.name for file in tmp_path.iterdir()] == [lock.name]
    assert list(tmp_path.iterdir()) == []


def test_another_process_of_the_same_number_is_not_the_holder(store, lock):
    write(lock, dataclasses.replace(LeaseHolder.here(), pid=os.getppid(), born="1"))
    with acquire_lease(Store.at(store)):
        assert holder.read_lease_holder(lock).pid == os.getpid()


def test_of_newcomers_at_once_one_takes_it_over(tmp_path):
    """Also where some died while they took it over: each is a link of a chain."""
    stores = [tmp_path / f"{attempt}.zarr" for attempt in range(6)]
    for attempt, store in enumerate(stores):
        lock = store.with_name(f"{store.name}.lock")
        where = lock
        for link in range(1 + attempt % 3):
            write(where, elsewhere(token=f"{link}"))
            where = lock.with_name(f"{lock.name}.{link}")
    done = subprocess.run(
        [sys.executable, "-c", NEWCOMERS, "6", *stores], capture_output=True, text=True
    )
    said = done.stdout.split()
    assert len(said) == 36 and set(said) <= {"held", "refused"}, said + [done.stderr]
    assert all("held" in said[6 * i : 6 * i + 6] for i in range(6))
    assert list(tmp_path.iterdir()) == []


class Clock:
    """The time of who watches a heart: it goes on while that sleeps, and something may happen."""

    def __init__(self, happens=lambda now: None):
        self.now, self._happens = 0.0, happens

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self._happens(self.now)


def test_a_beating_heart_elsewhere_is_refused_at_the_first_beat(store, lock, monkeypatch):
    found = dataclasses.replace(elsewhere(), beat_seconds=0.5)
    write(lock, found)
    clock = Clock(lambda now: write_counter(lock, found, int(now / found.beat_seconds)))
    monkeypatch.setattr(lease, "time", clock)
    with (
        pytest.raises(StoreError, match=r"held by emmy on node7 \(process 4711"),
        acquire_lease(Store.at(store)),
    ):
        pass
    assert clock.now == found.beat_seconds < found.patience
    assert holder.read_lease_holder(lock).token == found.token


def write_counter(lock, found, beat):
    with lock.open("r+b") as file:
        file.seek(len(lease_holder_line(found)))
        file.write(heartbeat_counter_line(beat))


def test_a_stopped_heart_elsewhere_is_watched_and_then_succeeded(store, lock, monkeypatch):
    write(lock, elsewhere(), beat=12)
    waits, clock = [], Clock()
    monkeypatch.setattr(lease, "time", clock)
    with acquire_lease(Store.at(store), on_wait=lambda *said: waits.append(said)):
        assert clock.now >= holder.BEATS * 0.05
    ((found, seconds),) = waits
    assert (found.host, found.beat, seconds) == ("node7", 12, pytest.approx(0.4))


@pytest.mark.parametrize("backend", [local.LocalLeaseFile, s3.S3LeaseFile])
def test_a_backend_has_all_that_a_lease_file_promises(backend):
    promised = {name for name in vars(lease.LeaseFile) if not name.startswith("_")}
    assert promised == {"current", "prepared", "take", "beat", "close", "release"}
    assert promised <= {*vars(backend)}


def test_the_watch_can_be_ended(store, lock):
    def between():
        raise KeyboardInterrupt

    found = dataclasses.replace(elsewhere(), beat_seconds=600.0)
    write(lock, found)
    with pytest.raises(KeyboardInterrupt), acquire_lease(Store.at(store), between=between):
        pass
    assert holder.read_lease_holder(lock).token == found.token


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"{}", b'{"token": 1}\n'])
def test_a_lock_that_says_nothing(store, lock, content, monkeypatch):
    """As a file system that lost its last writes leaves it."""
    monkeypatch.setattr(LeaseHolder, "patience", 0.2)
    lock.write_bytes(content)
    with acquire_lease(Store.at(store)):
        assert holder.read_lease_holder(lock).pid == os.getpid()
    assert not lock.exists()


@pytest.mark.parametrize("change", ["taken over", "removed"])
def test_a_holder_notices_that_it_lost_the_lock(store, lock, change, until, monkeypatch):
    monkeypatch.setattr(holder, "BEAT_SECONDS", 0.02)
    lost = threading.Event()
    with acquire_lease(Store.at(store), on_loss=lambda reason: lost.set()) as held:
        until(lambda: holder.read_lease_holder(lock).beat > 0)
        lock.unlink()
        if change == "taken over":
            write(lock, elsewhere(token="other"))
        assert lost.wait(HANG)
        with pytest.raises(draining.Interrupted, match=change):
            held.check()
    assert lock.exists() == (change == "taken over")


def test_a_thread_holds_it_again_within_and_another_one_does_not(store, lock):
    refused = []

    def other():
        with contextlib.suppress(StoreError), acquire_lease(Store.at(store)):
            refused.append("it held it")

    with acquire_lease(Store.at(store)) as outer:
        with acquire_lease(Store.at(store.parent / "." / store.name)) as inner:
            assert inner is outer
        assert lock.exists()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert not refused and not lock.exists()


def test_directories_that_were_made_for_it_go_again(tmp_path):
    with acquire_lease(Store.at(tmp_path / "a" / "b" / "c.zarr")):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []
    with contextlib.suppress(OSError), acquire_lease(Store.at(tmp_path / "a" / "b" / "c.zarr")):
        (tmp_path / "a" / "kept").touch()
        raise OSError
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["kept"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_where_nothing_can_be_written(store, number, monkeypatch):
    def refuse(*arguments):
        raise OSError(number, os.strerror(number))

    store.mkdir()
    monkeypatch.setattr(local, "_write_new_lease_file", refuse)
    words = rf"study.zarr cannot be written: .*study.zarr.lock, .*\({os.strerror(number)}\)"
    full = number == errno.ENOSPC  # then it may be tried again
    raised, words = (
        (draining.Interrupted, "study.zarr is, is full") if full else (StoreError, words)
    )
    with pytest.raises(raised, match=words), acquire_lease(Store.at(store)):
        pass


def test_a_file_system_without_links(store, lock, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    write(lock, elsewhere())
    with acquire_lease(Store.at(store)):
        assert holder.read_lease_holder(lock).pid == os.getpid()
        assert [file.name for file in store.parent.iterdir()] == [lock.name]
    assert list(store.parent.iterdir()) == []


def test_a_run_that_loses_the_lock_stops_and_writes_no_more(
    long_study, lock, store, cluster, monkeypatch
):
    monkeypatch.setattr(holder, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(coordinator.fold, "fold_all", lambda *arguments: pytest.fail("it folded"))

    class Thief(coordinator.Watcher):
        noticed = threading.Event()

        def draining(self, reason):
            self.noticed.set()

        def began(self, runs, seconds):
            write(lock.with_suffix(".new"), elsewhere(token="other"))
            lock.with_suffix(".new").replace(lock)
            monkeypatch.setattr(
                coordinator.storage,
                "consolidate_zarr_metadata",
                lambda path: pytest.fail("it consolidated"),
            )
            assert self.noticed.wait(HANG)

    outcome = sweep.run(long_study / "long.toml", store, cluster, watcher=Thief())
    assert "was taken over by emmy on node7" in outcome.stopped
    assert not outcome.complete and outcome.tallies[0].runs == 136
    assert holder.read_lease_holder(lock).token == "other"


def test_the_lock_goes_whatever_ends_a_run(store, lock, cluster, monkeypatch):
    class Fails(coordinator.Watcher):
        def __init__(self, error):
            self.error = error

        def compared(self, entries):
            assert lock.exists()
            raise self.error

    from study_text import one_experiment

    parsed = studies.parse_study(one_experiment(record="[]"))
    for error in (KeyboardInterrupt(), ValueError(), SystemExit()):
        with pytest.raises(type(error)):
            sweep.run(parsed, store, cluster, watcher=Fails(error))
        assert list(store.parent.iterdir()) == []
    assert sweep.run(parsed, store, cluster).complete
    assert [path.name for path in store.parent.iterdir()] == [store.name]


def test_a_signal_of_a_user_counts_again_after_it():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with draining.Drain():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
