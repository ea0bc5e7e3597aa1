"""One process at a time writes to a store; of those that come after a dead one, one takes over."""

import errno
import json
import os
import re
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from distributed import Client
from interrupting import Process
from study_text import one_experiment, study_of
from waiting import HANG

import sweep
from sweep.errors import GeosweepError, Interrupted, StoreError

SMALL = one_experiment(integrators='"rk4"', record='["energy"]', statistics='"none"')
# A holder on another host, as its file says: with the heartbeat that is last seen in it.
ELSEWHERE = {
    "token": "abc", "user": "emmy", "host": "node7", "command": "sweep run", "pid": 4711,
    "born": "1", "place": "another boot", "since": "2026-01-01 00:00:00", "beat_seconds": 0.05,
}  # fmt: skip


@pytest.fixture
def store(tmp_path):
    return tmp_path / "study.zarr"


@pytest.fixture
def lock(store):
    return store.with_name("study.zarr.lock")


def write(lock, beat=0, **changes):
    lock.write_text(f"{json.dumps(ELSEWHERE | changes)}\n{beat:012d}\n")


def holder(lock):
    return json.loads(lock.read_text().partition("\n")[0])


def test_a_beating_heart_elsewhere_is_refused_at_a_beat(store, lock, run_text):
    write(lock, beat_seconds=3.0)
    end = threading.Event()

    def beat():
        number = 0
        while not end.wait(0.05):
            number += 1
            with lock.open("r+") as file:
                file.seek(len(json.dumps(ELSEWHERE | {"beat_seconds": 3.0})) + 1)
                file.write(f"{number:012d}\n")

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(StoreError, match=r"held by emmy on node7 \(process 4711, `sweep run`"):
            run_text(SMALL, store)
    finally:
        end.set()
        thread.join()
    assert holder(lock)["token"] == "abc" and not store.exists()


@pytest.mark.parametrize(
    "written", [pytest.param("stopped", marks=pytest.mark.slow), "another process", "links"]
)
def test_a_dead_holder_is_succeeded(written, store, lock, run_text):
    """Elsewhere, when it was watched; here, also where its number is another process' by now."""
    if written == "another process":
        assert run_text(SMALL, store).complete  # which leaves no lease behind
        assert not lock.exists()
        place = f"{boot()} {os.readlink('/proc/self/ns/pid')}"
        write(lock, host=os.uname().nodename, place=place, pid=os.getppid(), beat_seconds=3.0)
    else:
        write(lock, beat=12)
    if written == "links":  # it died while it took the place of another
        write(lock.with_name(f"{lock.name}.abc"), token="def")
    assert run_text(SMALL, store).complete
    assert [file.name for file in store.parent.iterdir()] == [store.name]


def boot():
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


# So many newcomers at once: each says what it could do, in a file of its own.
NEWCOMERS = """
import os
for number in range(4):
    if not os.fork():
        break
else:
    for _ in range(4):
        os.wait()
    os._exit(0)
try:
    sweep.run("study.toml", "study.zarr", client())
    said = "held"
except sweep.errors.StoreError:
    said = "refused"
open(f"said.{number}", "w").write(said)
os._exit(0)
"""


def test_of_newcomers_at_once_one_takes_it_over(store, lock, tmp_path):
    """Also where some died while they took it over. Whatever they do together is one study."""
    (tmp_path / "study.toml").write_text(SMALL)
    write(lock)
    write(lock.with_name(f"{lock.name}.abc"), token="def")
    newcomers = Process(NEWCOMERS, tmp_path, 10**9, signal.SIGKILL)
    printed = newcomers.communicate(timeout=HANG)
    said = [file.read_text() for file in sorted(tmp_path.glob("said.*"))]
    assert len(said) == 4 and set(said) <= {"held", "refused"} and "held" in said, printed
    assert not list(tmp_path.glob("study.zarr.*"))
    (progress,) = sweep.status(store)
    assert progress.done == progress.runs == 6 and sweep.verify(store) == []


# Time goes on while it sleeps alone, so that a watch of half a minute is none.
UNREADABLE = """
import pathlib, time
skipped = 0.0
def sleep(seconds):
    global skipped
    skipped += seconds
time.monotonic, time.sleep = lambda: skipped, sleep
for content in (b"", b"\\x00\\xff", b'{"token": 1}\\n'):
    pathlib.Path("study.zarr.lock").write_bytes(content)
    sweep.repair("study.zarr")
    print(skipped)
"""


def test_a_lease_that_says_nothing_is_watched_and_succeeded(store, lock, run_text, tmp_path):
    """As a file system that lost its last writes leaves it."""
    assert run_text(SMALL, store).complete
    printed, errors = Process(UNREADABLE, tmp_path, 10**9, signal.SIGKILL).communicate()
    watched = np.diff([0.0, *map(float, printed.split())])
    assert len(watched) == 3 and (watched > 20).all(), errors
    assert not lock.exists()


@pytest.mark.slow
def test_a_run_that_loses_its_lease_stops(
    suspended, long_study, command, undisturbed, assert_same_runs
):
    """What it has committed stays, and whoever follows goes on from there."""
    run, lock = suspended("--workers", 1), long_study / "long.zarr.lock"
    write(lock.with_suffix(".new"))
    lock.with_suffix(".new").replace(lock)
    run.signal_all(signal.SIGCONT)
    printed, errors = run.finish()
    assert run.returncode == 4, printed + errors
    said = "another process holds the store|was taken over by emmy on node7"
    assert re.search(said, printed + errors) and "Traceback" not in errors
    assert holder(lock)["token"] == "abc"
    again = command(long_study, "run", "long.toml", "--no-summary").stdout
    assert "Study long: 0 new runs, 136 kept (" in again and "Complete: 136 runs" in again
    assert_same_runs(undisturbed, long_study / "long.zarr", "pendulum")


@pytest.mark.slow
def test_a_run_that_wakes_after_its_successor_has_ended_says_who_that_was(
    suspended, long_study, command
):
    run, lock = suspended("--workers", 1), long_study / "long.zarr.lock"
    write(lock.with_suffix(".new"))  # whom the successor need not watch for long
    lock.with_suffix(".new").replace(lock)
    assert "Complete: 136" in command(long_study, "run", "long.toml", "--no-summary").stdout
    assert not lock.exists()
    run.signal_all(signal.SIGCONT)
    printed, errors = run.finish()
    assert run.returncode == 4 and "Traceback" not in errors, printed + errors
    assert re.search(rf"taken over by .* \(process {os.getpid()}, .*ended since", printed + errors)
    assert "moved" not in printed + errors


def test_a_worker_whose_unfinished_file_a_successor_removes_fails_nothing(store, lock, monkeypatch):
    """It was about to complete a record, as a process may be that is suspended there."""
    rename = Path.rename

    def succeed(path, target):
        if "/records/" in os.fspath(target):
            write(lock)
            path.unlink()
        return rename(path, target)

    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as own:
        monkeypatch.setattr(Path, "rename", succeed)
        outcome = sweep.run(study_of(SMALL), store, own)
    assert not outcome.complete and "was taken over by emmy on node7" in outcome.stopped


def test_the_lease_and_directories_made_for_it_go_whatever_ends_a_run(tmp_path):
    store = tmp_path / "a" / "b" / "c.zarr"
    with pytest.raises(GeosweepError):
        sweep.run(study_of(SMALL), store, scheduler="tcp://127.0.0.1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_where_nothing_can_be_written(number, store, run_text, monkeypatch):
    """The message names the file; where the disk is full it may be tried again."""
    opened = os.open

    def refuse(path, flags, *mode, **options):
        if flags & os.O_CREAT and store.name in os.fspath(path):
            raise OSError(number, os.strerror(number))
        return opened(path, flags, *mode, **options)

    store.mkdir()
    monkeypatch.setattr(os, "open", refuse)
    full = number == errno.ENOSPC
    words = "study.zarr is, is full" if full else r"study.zarr cannot be written: .*study.zarr.lock"
    with pytest.raises(Interrupted if full else StoreError, match=words):
        run_text(SMALL, store)
    assert list(store.iterdir()) == []


def test_a_file_system_without_links(store, lock, run_text, monkeypatch):
    linked = os.link

    def refuse(source, target, **options):
        if lock.name in os.fspath(target):
            raise OSError(errno.EPERM, "no links here")
        linked(source, target, **options)

    monkeypatch.setattr(os, "link", refuse)
    write(lock)
    assert run_text(SMALL, store).complete
    assert [file.name for file in store.parent.iterdir()] == [store.name]
