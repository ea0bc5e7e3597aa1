"""A study on a running cluster: real `dask scheduler` and `dask worker` processes."""

import signal
import time
import types

import pytest
from dask_processes import await_scheduler, start_worker
from distributed import Client

from sweep import errors, shutdown
from sweep.campaign import task_window
from sweep.clusters import connect

RUNS = 136
ENOUGH = 41  # 30 % of the runs


@pytest.fixture
def scheduler(start, until, tmp_path_factory):
    """Start a scheduler: a function that gives its address."""

    def launch():
        return await_scheduler(start, until, tmp_path_factory.mktemp("scheduler"))[1]

    return launch


@pytest.fixture
def worker(start, tmp_path_factory):
    """Start a worker of one thread: ``worker(address)``."""

    def launch(address):
        return start_worker(start, address, tmp_path_factory.mktemp("worker"))

    return launch


def test_one_of_two_workers_is_killed(
    long_study, scheduler, worker, start, until, committed, undisturbed, assert_same_runs
):
    address = scheduler()
    workers = [worker(address), worker(address)]
    until(lambda: count_workers(address) == 2)
    run = start(
        "sweep", "run", "long.toml", "--scheduler", address, "--no-summary", cwd=long_study
    )  # fmt: skip
    store = long_study / "long.zarr"
    until(lambda: committed(store, "pendulum") >= ENOUGH or run.poll() is not None)
    workers[0].signal_all(signal.SIGKILL)
    assert committed(store, "pendulum") < RUNS
    printed, errors = run.finish()
    assert run.returncode == 0, errors
    assert "2 workers" in printed and f"Complete: {RUNS} runs" in printed
    assert "Traceback" not in errors
    assert not list(store.rglob("*.partial"))
    assert count_workers(address) == 1  # the cluster is left running
    assert_same_runs(undisturbed, store, "pendulum")


def test_a_worker_dies_before_its_receipt_is_fetched(scheduler, worker, until, monkeypatch):
    """Another one computes it again; without any, a run that is to end does."""
    receipt = types.SimpleNamespace(whole=True, seconds=0.1, superseded=False)
    monkeypatch.setattr(task_window, "compute_task", lambda task, session: receipt)
    monkeypatch.setattr(task_window, "RECEIPT_SECONDS", 0.3)
    monkeypatch.setattr(task_window, "LOOK_SECONDS", 0.1)
    task, drain = types.SimpleNamespace(cost=1.0, seconds_to_stop=1.0), shutdown.Drain()
    address = scheduler()
    first = worker(address)
    with Client(address) as client:
        flight = task_window._Flight(client, [task], None, drain)
        flight.feed()
        future = until(flight.next_landed)
        first.signal_all(signal.SIGSTOP)
        assert flight.land(future) == (None, None) and list(flight.flying.values()) == [task]
        first.kill()
        second = worker(address)

        def next_receipt():
            flight.feed()
            return (landed := flight.next_landed()) and flight.land(landed)[1]

        assert until(next_receipt) == receipt
        assert not flight.flying and not flight.waiting

        flight = task_window._Flight(client, [task], None, drain)
        flight.feed()
        future = until(flight.next_landed)
        second.signal_all(signal.SIGSTOP)
        flight.land(future)
        second.kill()
        until(lambda: not client.nthreads())
        drain.request("SIGTERM")
        time.sleep(task_window.LOOK_SECONDS)
        with pytest.raises(errors.Interrupted, match="SIGTERM"):
            flight.feed()


def count_workers(address):
    with Client(address) as client:
        return len(client.scheduler_info(n_workers=-1)["workers"])


def refused(command, long_study, address):
    """The message of a run that was refused and left nothing behind."""
    done = command(long_study, "run", "long.toml", "--scheduler", address, code=2)
    assert [file.name for file in long_study.iterdir()] == ["long.toml"]
    (message,) = done.stderr.splitlines()
    return message


def test_a_scheduler_that_does_not_answer(long_study, command, monkeypatch):
    monkeypatch.setattr(connect, "CONNECT_SECONDS", 1)
    message = refused(command, long_study, "tcp://127.0.0.1:1")
    assert "the scheduler 'tcp://127.0.0.1:1' does not answer within 1 s" in message


@pytest.mark.parametrize("address", ["nonsense", "http://127.0.0.1:8786", "tcp://127.0.0.1"])
def test_an_address_that_is_none(long_study, command, address):
    assert f"'{address}' is no address" in refused(command, long_study, address)


def test_a_scheduler_without_workers(long_study, scheduler, command, monkeypatch):
    monkeypatch.setattr(connect, "WORKERS_SECONDS", 1)
    address = scheduler()
    message = refused(command, long_study, address)
    assert f"the scheduler '{address}' has no workers" in message
    assert f"dask worker {address}" in message
