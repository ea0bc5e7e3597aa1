"""A study on a running cluster: real `dask scheduler` and `dask worker` processes."""

import signal

import pytest
from dask_processes import await_scheduler, start_worker
from distributed import Client
from waiting import in_turns

import sweep

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


@pytest.fixture
def under_way(start, committed, long_study):
    """A run on a cluster that has committed some of its runs: ``under_way(address, workers)``.

    All its workers are suspended then.
    """

    def begin(address, workers):
        options = ("--scheduler", address, "--no-summary", "--checkpoint-every", "1e-9")
        run = start("sweep", "run", "long.toml", *options, cwd=long_study)
        store = long_study / "long.zarr"
        in_turns(workers, lambda: committed(store, "pendulum") >= ENOUGH or run.poll() is not None)
        assert run.poll() is None, run.communicate()
        return run

    return begin


@pytest.mark.slow
def test_one_of_two_workers_is_killed(
    long_study, scheduler, worker, under_way, until, committed, undisturbed, assert_same_runs
):
    """After it was suspended for a moment, so that it has tasks that nobody can fetch."""
    address = scheduler()
    workers = [worker(address), worker(address)]
    until(lambda: count_workers(address) == 2)
    run, store = under_way(address, workers), long_study / "long.zarr"
    before = committed(store, "pendulum")
    assert before < RUNS
    workers[0].signal_all(signal.SIGKILL)
    workers[1].signal_all(signal.SIGCONT)
    printed, errors = run.finish()
    assert run.returncode == 0, errors
    assert "2 workers" in printed and f"Complete: {RUNS} runs" in printed
    assert "Traceback" not in errors
    assert not list(store.rglob("*.partial"))
    assert count_workers(address) == 1  # the cluster is left running
    assert_same_runs(undisturbed, store, "pendulum")


def count_workers(address):
    with Client(address) as client:
        return len(client.scheduler_info(n_workers=-1)["workers"])


@pytest.mark.slow
def test_a_worker_that_wakes_when_another_run_has_done_its_work_changes_nothing(
    long_study, scheduler, worker, under_way, until, command, undisturbed, assert_same_runs, arrays
):
    address = scheduler()
    late, store = worker(address), long_study / "long.zarr"
    until(lambda: count_workers(address) == 1)
    run = under_way(address, [late])
    run.kill()
    command(long_study, "run", "long.toml", "--no-summary")
    before = arrays(store, "pendulum")
    late.signal_all(signal.SIGCONT)
    # Also a task that nobody waits for any more is one. It is sent by value: no module is there.
    is_busy = lambda dask_worker: bool(dask_worker.active_threads)  # noqa: E731
    with Client(address) as client:
        until(lambda: not any(client.run(is_busy).values()))
    after = arrays(store, "pendulum")
    assert all(after[name].tolist() == before[name].tolist() for name in ("run_id", "cpu_time"))
    assert_same_runs(undisturbed, store, "pendulum")
    assert sweep.verify(store) == []
    assert "Nothing to compute" in command(long_study, "run", "long.toml", "--no-summary").stdout


def refused(command, long_study, address):
    """The message of a run that was refused and left nothing behind."""
    done = command(long_study, "run", "long.toml", "--scheduler", address, code=2)
    assert [file.name for file in long_study.iterdir()] == ["long.toml"]
    (message,) = done.stderr.splitlines()
    return message


@pytest.mark.parametrize("address", ["nonsense", "http://127.0.0.1:8786", "tcp://127.0.0.1"])
def test_an_address_that_is_none(long_study, command, address):
    assert f"'{address}' is no address" in refused(command, long_study, address)


@pytest.mark.slow  # it waits for ten seconds
def test_a_scheduler_that_does_not_answer(long_study, command):
    message = refused(command, long_study, "tcp://127.0.0.1:1")
    assert "the scheduler 'tcp://127.0.0.1:1' does not answer within 10 s" in message
