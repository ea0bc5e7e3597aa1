"""Whatever is killed, the same command finishes the job and computes nothing twice."""

import json
import os
import shlex
import shutil
import signal

import numpy as np
import pytest
from waiting import in_turns, without_progress

import sweep

RUNS = 136


@pytest.fixture
def check_complete(long_study, undisturbed, assert_same_runs):
    def check():
        assert_same_runs(undisturbed, long_study / "long.zarr", "pendulum")
        assert not list(long_study.rglob("*.partial"))
        assert sorted(file.name for file in long_study.iterdir()) == ["long.toml", "long.zarr"]
        assert (sweep.open_study(long_study / "long.zarr")["pendulum"].sample_count == 11).all()

    return check


def test_a_killed_worker_is_replaced(suspended, check_complete):
    run = suspended("--workers", 2)
    victim = run.busiest_worker()
    victim.send_signal(signal.SIGKILL)
    run.signal_all(signal.SIGCONT)
    printed, errors = run.finish()
    assert run.returncode == 0, printed + errors
    assert not victim.is_running()
    assert f"Complete: {RUNS} runs" in printed
    check_complete()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_all_processes_killed(
    long_study, suspended, check_complete, called, command, arrays, tmp_path_factory
):
    """While it lives, a second run says who holds the store; afterwards that takes it over."""
    run = suspended("--workers", 1)
    assert len(run.members()) >= 3
    lock = long_study / "long.zarr.lock"
    said = json.loads(lock.read_text().partition("\n")[0])
    for arguments in (("run", "long.toml"), ("verify", "long.zarr", "--repair")):
        done = called(long_study, *arguments)
        assert done.returncode == 2
        (message,) = done.stderr.splitlines()
        assert f"long.zarr is held by {said['user']} on {os.uname().nodename} " in message
        assert f"process {run.pid}" in message and f"since {said['since']}" in message
    assert said["token"] in lock.read_text() and run.poll() is None
    run.kill()
    assert said["token"] in lock.read_text()
    store = long_study / "long.zarr"
    before = arrays(store, "pendulum")
    done = before["sample_count"] > 0
    assert 0 < done.sum() < RUNS
    check_readable(store, done)
    copy = shutil.copytree(long_study, tmp_path_factory.mktemp("killed"), dirs_exist_ok=True)
    assert sweep.repair(copy / "long.zarr").marked == {}
    assert sorted(file.name for file in copy.iterdir()) == ["long.toml", "long.zarr"]
    (store / "pendulum" / "energy" / "0.1234.partial").write_bytes(b"half a chunk")
    done_again = command(long_study, "run", "long.toml", "--no-summary")
    assert without_progress(done_again.stderr) == []
    again = done_again.stdout
    lost = int(RUNS - done.sum())
    assert f"Study long: 0 new runs, {RUNS} kept ({lost} of them not computed yet)\n" in again
    assert f"{lost} run{'s' * (lost > 1)} to compute" in again
    assert f"Complete: {RUNS} runs" in again
    after = arrays(store, "pendulum")
    for name in ("cpu_time", "wall_time", "energy", "state", "status"):
        assert after[name][done].tobytes() == before[name][done].tobytes(), name
    assert not np.array_equal(after["cpu_time"], before["cpu_time"])
    check_complete()


def check_readable(store, done):
    """What is committed can be read and selected at any time."""
    dataset = sweep.open_study(store)["pendulum"].to_dataset().load()
    assert (dataset.sample_count.values > 0).tolist() == done.tolist()
    assert np.isfinite(dataset.energy.values[done]).all()
    assert (dataset.status.values == np.where(done, 0, -1)).all()


PART = """
[[experiment]]
name = "part{}"
system = "spherical_pendulum_chain"
integrators = "rk4"
step_size = 0.01
initial_condition = {{ around = "lee", random = 16, spread = 1e-2, seed = {} }}
duration = 2500.0
samples = 10
record = ["energy"]
statistics = "none"
"""


@pytest.mark.slow
def test_ctrl_c_lets_running_tasks_commit_and_says_how_to_go_on(tmp_path, start, command, arrays):
    """Six experiments are six tasks at least, of which two are in flight."""

    def committed():
        return store.exists() and sum(row.done for row in sweep.status(store))

    parts = "".join(PART.format(i, i) for i in range(6))
    (tmp_path / "parts.toml").write_text('format = 1\nname = "parts"\n' + parts)
    store, names = tmp_path / "parts.zarr", [f"part{i}" for i in range(6)]
    run = start("sweep", "run", "parts.toml", "--workers", 1, "--no-summary", cwd=tmp_path)
    in_turns([run], lambda: committed() or run.poll() is not None)
    run.signal_all(signal.SIGINT)
    run.signal_all(signal.SIGCONT)
    printed, errors = run.finish()
    assert run.returncode == 4, printed + errors
    assert "Stopping when running tasks have committed" in errors and "Traceback" not in errors
    before = {name: arrays(store, name) for name in names}
    done = {name: table["sample_count"] > 0 for name, table in before.items()}
    count = sum(rows.sum() for rows in done.values())
    assert 0 < count < 96
    assert f"{count} of 96 runs committed" in printed
    go_on = shlex.split(printed.partition("To go on: ")[2].splitlines()[0])
    assert go_on[:3] == ["sweep", "run", "parts.toml"]
    again = command(tmp_path, *go_on[1:], "--no-summary").stdout
    assert f"{96 - count} runs to compute" in again and "Complete: 96 runs" in again
    for name, rows in done.items():
        after = arrays(store, name)
        assert (after["sample_count"] == 11).all() and np.isfinite(after["energy"]).all()
        for key in ("cpu_time", "energy", "status"):
            assert after[key][rows].tobytes() == before[name][key][rows].tobytes()


# Before there are workers, and while they start.
@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ctrl_c_while_the_cluster_starts(processes, long_study, start, until):
    """From the first line it prints on, a run ends by Ctrl-C in order."""
    study = long_study / "long.toml"  # of some minutes now: however late Ctrl-C comes, it is early
    study.write_text(study.read_text().replace("random = 68", "random = 2000"))
    run = start("sweep", "run", "long.toml", cwd=long_study)
    assert "Store: " in run.stdout.readline()
    until(lambda: len(run.members()) >= processes or run.poll() is not None)
    run.signal_all(signal.SIGINT)
    printed, errors = run.finish()
    assert run.returncode == 4, printed + errors
    assert "Traceback" not in errors
    until(lambda: not run.members())


def test_what_a_killed_writer_left_is_swept_away(undisturbed, long_study, cluster):
    """Also where there is nothing to compute."""
    store = shutil.copytree(undisturbed, long_study / "long.zarr")
    left = store / "pendulum" / "zarr.json.1234.partial"
    left.write_bytes(b"{")
    assert sweep.run(long_study / "long.toml", store, cluster).complete
    assert not left.exists()
