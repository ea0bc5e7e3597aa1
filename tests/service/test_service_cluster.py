"""A study on a running cluster: real `dask scheduler` and `dask worker` processes."""

import signal
import time
import types

import pytest
from dask_processes import await_scheduler, start_worker
from distributed import Client
from planned import planned_task

from sweep import errors
from sweep.campaign import task_window
from sweep.clusters import connect, shutdown

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
    receipt = types.SimpleNamespace(whole=True, seconds=0.1, fenced_off=False)
    # Long enough that both workers have some of them.
    monkeypatch.setattr(task_window, "compute_task", lambda task, session: time.sleep(1) or receipt)
    monkeypatch.setattr(task_window, "RECEIPT_SECONDS", 0.3)
    monkeypatch.setattr(task_window, "LOOK_SECONDS", 0.1)
    task = planned_task()
    drain = shutdown.Drain()
    address = scheduler()
    first = worker(address)
    with Client(address) as client:
        window = task_window._Window(client, [task], None, drain)
        window.submit()
        futures = until(window.wait_for_ended)
        first.signal_all(signal.SIGSTOP)
        assert window.collect(futures) == [] and list(window.in_flight.values()) == [task]
        first.kill()
        second = worker(address)

        def next_receipt():
            window.submit()
            return [pair for pair in window.collect(window.wait_for_ended()) if pair[1] is not None]

        assert until(next_receipt) == [(task, receipt)]
        assert not window.in_flight and not window.waiting

        window = task_window._Window(client, [task], None, drain)
        window.submit()
        futures = until(window.wait_for_ended)
        second.signal_all(signal.SIGSTOP)
        window.collect(futures)
        second.kill()
        until(lambda: not client.nthreads())
        drain.request("SIGTERM")
        time.sleep(task_window.LOOK_SECONDS)
        with pytest.raises(errors.Interrupted, match="SIGTERM"):
            window.submit()


def test_a_suspended_worker_keeps_the_receipts_of_others_for_a_moment(
    scheduler, worker, until, monkeypatch
):
    receipt = types.SimpleNamespace(whole=True, seconds=0.1, fenced_off=False)
    # Long enough that both workers have some of them.
    monkeypatch.setattr(task_window, "compute_task", lambda task, session: time.sleep(1) or receipt)
    monkeypatch.setattr(task_window, "RECEIPT_SECONDS", 0.3)
    tasks = [planned_task() for _ in range(4)]
    address = scheduler()
    first, _ = worker(address), worker(address)
    with Client(address) as client:
        until(lambda: len(client.nthreads()) == 2)
        window = task_window._Window(client, tasks, None, shutdown.Drain())
        window.submit()
        until(lambda: window._ended.qsize() == 4)
        there = {task for found in client.has_what().values() for task in found}
        assert there == set(window.in_flight) and all(client.has_what().values())
        first.signal_all(signal.SIGSTOP)
        landed = window.collect(window.wait_for_ended())
        assert [found for _, found in landed] == [receipt] * len(landed)
        assert len(landed) + len(window.in_flight) == 4 and landed and window.in_flight
        first.signal_all(signal.SIGCONT)
        while window.in_flight:
            landed += window.collect(window.wait_for_ended())
        assert {id(task) for task, _ in landed} == {id(task) for task in tasks}


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
