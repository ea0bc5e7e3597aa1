"""A coordinator that was handed to the cluster, and workers that end before the study does."""

import re
import signal

import pytest
from distributed import Client
from waiting import in_turns, without_progress

import sweep

WORKER = ("--nthreads", "1", "--no-dashboard")
MORE = ("random = 68", "random = 400")  # some seconds
MANY = ("random = 68", "random = 2000")  # some minutes

pytestmark = pytest.mark.slow


@pytest.fixture
def worker(start, scheduler, tmp_path_factory):
    """Start a worker of one thread: ``worker(*options)``."""

    def launch(*options):
        folder = tmp_path_factory.mktemp("worker")
        return start("dask", "worker", scheduler, *WORKER, *options, cwd=folder)

    return launch


def test_a_coordinator_whose_worker_is_killed_goes_on_elsewhere(
    long_study, scheduler, worker, command, until, committed, undisturbed, assert_same_runs,
    holder, submission,
):  # fmt: skip
    """Nobody waits for it where it was submitted; another process waits for its lock."""
    study, store = long_study / "long.toml", long_study / "long.zarr"
    study.write_text(study.read_text().replace(*MORE))
    workers = [worker("--no-nanny"), worker("--no-nanny")]
    options = "--scheduler", scheduler, "--checkpoint-every", "1e-9"
    printed = command(long_study, "submit", "long.toml", *options).stdout
    assert "Submitted: geosweep-long-" in printed and f"sweep status {store}" in printed
    in_turns(workers, lambda: committed(store, "pendulum") > 8)
    first = holder(store)["pid"]
    (coordinator,) = [one for one in workers if one.pid == first]
    (other,) = [one for one in workers if one.pid != first]
    coordinator.signal_all(signal.SIGCONT)
    said = command(long_study, "status", "long.zarr").stdout
    assert re.search(rf"Held by .*\b{first}\b", said), said
    again = command(long_study, "submit", "long.toml", "--scheduler", scheduler, code=2)
    assert "is held by" in again.stderr
    coordinator.signal_all(signal.SIGKILL)
    other.signal_all(signal.SIGCONT)
    until(lambda: (now := holder(store)) and now["pid"] == other.pid)
    until(lambda: submission(store) == "" and holder(store) is None)  # complete
    assert committed(store, "pendulum") == 800
    runs = sweep.open_study(undisturbed)["pendulum"]["run_id"].values.tolist()
    assert_same_runs(undisturbed, store, "pendulum", runs)
    assert sorted(file.name for file in long_study.iterdir()) == ["long.toml", "long.zarr"]


def test_a_submitted_run_is_cancelled_before_it_begins_and_while_it_runs(
    long_study, scheduler, worker, command, until, committed, undisturbed, assert_same_runs,
    holder, submission,
):  # fmt: skip
    submit = "submit", "long.toml", "--scheduler", scheduler, "--checkpoint-every", "0.1"
    study, store = long_study / "long.toml", long_study / "long.zarr"
    text = study.read_text()
    study.write_text(text.replace(*MANY))
    nothing = command(long_study, "cancel", "long.zarr", code=2)
    assert "nothing runs on long.zarr" in nothing.stderr
    worker("--no-nanny")
    command(long_study, *submit)
    until(lambda: committed(store, "pendulum") > 8)
    assert "Ended" in command(long_study, "cancel", "long.zarr").stdout
    assert holder(store) is None
    assert 8 < committed(store, "pendulum") < 4000
    assert "cancelled by" in command(long_study, "status", "long.zarr").stdout
    assert submission(store) == "ended"
    study.write_text(text)
    command(long_study, *submit)  # goes on, with those of 68 starts
    until(lambda: submission(store) == "")
    runs = sweep.open_study(undisturbed)["pendulum"]["run_id"].values.tolist()
    assert_same_runs(undisturbed, store, "pendulum", runs)


def test_cancelling_reaches_a_run_that_was_not_submitted(
    long_study, start, command, until, committed
):
    study, store = long_study / "long.toml", long_study / "long.zarr"
    study.write_text(study.read_text().replace(*MANY))
    options = ("--no-summary", "--checkpoint-every", "0.1")
    run = start("sweep", "run", "long.toml", *options, cwd=long_study)
    until(lambda: committed(store, "pendulum") > 8)
    command(long_study, "cancel", "long.zarr")
    printed, errors = run.finish()
    assert run.returncode == 4 and "Stopped (cancelled by" in printed, errors
    assert sorted(file.name for file in long_study.iterdir()) == ["long.toml", "long.zarr"]


def test_workers_that_end_before_the_study_lose_nothing(
    long_study, scheduler, worker, start, until, committed, undisturbed, assert_same_runs
):
    """Their tasks commit what they have computed, and others go on from there."""
    store = long_study / "long.zarr"
    lasting, ended = worker(), worker()
    with Client(scheduler) as client:
        until(lambda: len(client.nthreads()) == 2)
    options = "--scheduler", scheduler, "--no-summary", "--checkpoint-every", "1000"
    run = start("sweep", "run", "long.toml", *options, cwd=long_study)
    # One stays suspended: the run cannot end before the time of the brief one is over.
    in_turns([lasting, ended], lambda: committed(store, "pendulum") > 8)
    brief = worker("--lifetime", "7s")
    ended.signal_all(signal.SIGTERM)
    ended.signal_all(signal.SIGCONT)
    until(lambda: brief.poll() is not None and ended.poll() is not None)
    lasting.signal_all(signal.SIGCONT)
    printed, errors = run.finish()
    assert run.returncode == 0 and "Traceback" not in errors, errors
    assert "geosweep-leaving" in brief.finish()[1]  # before Dask would have ended it
    assert_same_runs(undisturbed, store, "pendulum")


def test_a_scheduler_that_is_killed_ends_the_run_in_order(
    long_study, scheduling, worker, start, committed, command, undisturbed, assert_same_runs
):
    """In one line, with the exit code after which the same command goes on."""
    process, address = scheduling
    only, options = worker("--no-nanny"), ("--no-summary", "--checkpoint-every", "1e-9")
    run = start("sweep", "run", "long.toml", *options, "--scheduler", address, cwd=long_study)
    store = long_study / "long.zarr"
    in_turns([only], lambda: committed(store, "pendulum") > 8)
    before = committed(store, "pendulum")
    process.signal_all(signal.SIGKILL)
    printed, errors = run.finish()
    assert run.returncode == 4 and "Stopped (the scheduler is gone) with" in printed, errors
    told = re.search("with ([0-9]+) of [0-9]+ runs committed", printed)
    assert before <= int(told[1]) <= committed(store, "pendulum")
    assert without_progress(errors) == []
    command(long_study, "run", "long.toml", "--no-summary")
    assert_same_runs(undisturbed, store, "pendulum")
