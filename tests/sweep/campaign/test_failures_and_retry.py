"""Which runs failed and what they share, the same runs once more, and how far a store is."""

import contextlib
import functools
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from waiting import HANG

import sweep
from sweep.errors import Damaged
from sweep.store import failures, progress, studies
from sweep.store.lease import lease
from sweep.store.store import Store

PROGRAM = Path(sys.executable).with_name("sweep")
TEXT = """\
format = 1
name = "steps"

[defaults]
duration = 20.0
samples = 20
record = ["energy"]

[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
scan = { gravity = [1.0, 9.81] }
integrators = ["variational", "rk4"]
step_size = [1.0, 0.1, 0.05]
initial_condition = ["lee", { around = "lee", random = 3, spread = 1e-2, seed = 1 }]

[[experiment]]
name = "bodies"
system = "nbody_sphere"
integrators = ["variational"]
step_size = 0.01
initial_condition = "lee"
duration = 1.0
"""


@pytest.fixture(scope="session")
def ended(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("steps") / "steps.zarr"
    assert sweep.run(studies.parse_study(TEXT), path, cluster).complete
    return path


@pytest.fixture
def copy(ended, tmp_path):
    return Path(shutil.copytree(ended, tmp_path / "steps.zarr"))


@pytest.fixture(scope="module")
def pendulum(ended):
    return sweep.open_study(ended)["pendulum"].to_dataset().load()


# --- failures --------------------------------------------------------------------------------


def test_which_failed_where_and_when(ended, pendulum):
    rows = failures.failed_runs(ended)
    assert {row["experiment"] for row in rows} == {"pendulum"}
    failed = pendulum.isel(run=(pendulum.status > 0).values)
    assert [row["run"] for row in rows] == failed.run.values.tolist()
    for row, run in zip(rows, failed.run.values, strict=True):
        stored = pendulum.sel(run=run)
        names = ("integrator", "step_size", "gravity", "initial_condition", "stop_step")
        assert all(row[name] == stored[name].item() for name in names)
        assert row["stop_time"] == pytest.approx(row["stop_step"] * row["step_size"])


def test_what_they_share(ended, pendulum):
    """Too large a step: neither the gravity nor the starts are blamed."""
    shared = {one.status: one for one in failures.values_shared_by_failed_runs(ended)}
    assert set(shared) == {"not_converged", "not_finite"}
    flags = pendulum.status.flag_values, pendulum.status.flag_meanings.split()
    for value, meaning in zip(*flags, strict=True):
        if one := shared.get(meaning):
            assert one.failed == int((pendulum.status == value).sum())
            assert one.complete == int((pendulum.status == 0).sum())
            assert f"all {one.failed} runs with status {meaning} have " in str(one)
    implicit = pendulum.query(run="integrator == 'variational' and step_size >= 0.1")
    assert shared["not_converged"].conditions == ("integrator variational", "step_size ≥ 0.1")
    assert shared["not_converged"].also == int((implicit.status == 0).sum())
    assert "step_size = 1" in shared["not_finite"].conditions
    assert shared["not_finite"].also == int(
        (pendulum.query(run="step_size == 1").status == 0).sum()
    )


def column(**columns):
    """What is shared in a table of those columns, whose first runs failed."""
    failed = np.array(columns.pop("failed"))
    table = failures._Table(
        "made",
        {"sample_count": np.ones(len(failed)), "status": failed * 2}
        | {name: np.array(values) for name, values in columns.items()},
        tuple(columns),
        {2: "not_converged"},
    )
    return failures._conditions_shared_by_failures(table, table.failed)


def test_conditions_are_the_fewest_that_tell():
    rk4, other = "rk4", "variational"
    steps = {"step_size": [0.2, 0.1, 0.05, 0.2, 0.1], "integrator": [rk4, rk4, rk4, other, other]}
    got = column(failed=[True, True, False, False, False], **steps)
    assert got == (("step_size ≥ 0.1", "integrator rk4"), 0)
    got = column(failed=[True, False, False, True, False], **steps)
    assert got == (("step_size = 0.2",), 0)
    got = column(failed=[True, False, False, False, True], **steps)
    assert got == (("step_size ≥ 0.1",), 2)
    got = column(failed=[True, False], step_size=[0.1, 0.1], integrator=[rk4, rk4])
    assert got == ((), 1)
    got = column(failed=[True, True], step_size=[0.1, 0.2], integrator=[rk4, rk4])
    assert got == ((), 0)


def test_the_command_says_so(ended, command):
    said = command(ended.parent, "failures", "steps.zarr").stdout
    assert "step_size = 1" in said and "stop step" in said and "stop time" in said
    assert "bodies" not in said
    found = json.loads(command(ended.parent, "failures", "steps.zarr", "--json").stdout)
    assert len(found["failures"]) == sum(one["failed"] for one in found["shared"])
    only = command(ended.parent, "failures", "steps.zarr", "-e", "bodies").stdout
    assert only == "No run failed.\n"
    wrong = command(ended.parent, "failures", "steps.zarr", "-e", "bodeis", code=2).stderr
    assert "Did you mean 'bodies'?" in wrong


# --- retry -----------------------------------------------------------------------------------


def test_just_the_failed_ones_run_again(copy, ended, command, arrays, assert_same_runs):
    said = command(copy.parent, "retry", "steps.zarr", "--where", "gravity > 5", code=3).stdout
    before, after = arrays(ended, "pendulum"), arrays(copy, "pendulum")
    again = (before["status"] > 0) & (before["gravity"] > 5)
    assert f"pendulum: {again.sum()} runs that failed are tried again" in said
    changed = before["cpu_time"] != after["cpu_time"]
    assert changed.tolist() == again.tolist() and again.any()
    assert_same_runs(ended, copy, "pendulum")


def test_by_status_and_none(copy, command, fingerprint):
    before = fingerprint(copy)
    place = copy.parent
    wrong = command(place, "retry", "steps.zarr", "--status", "not_convergd", code=2).stderr
    assert "not_converged" in wrong
    wrong = command(place, "retry", "steps.zarr", "--where", "stepsize > 1", code=2).stderr
    assert "--where: pendulum: 'stepsize > 1' cannot be evaluated" in wrong
    assert "Did you mean 'step_size'?" in wrong
    code = "step_size.to_csv('made') == 1"
    wrong = command(place, "retry", "steps.zarr", "--where", code, code=2).stderr
    assert "cannot be evaluated" in wrong and not (place / "made").exists()
    none = command(place, "retry", "steps.zarr", "--where", "step_size < 0.1").stdout
    assert none == "No run that failed is to be tried again.\n"
    assert fingerprint(copy) == before
    with lease.acquire_lease(Store.at(copy)):
        held = subprocess.run([PROGRAM, "retry", "steps.zarr"], cwd=place, capture_output=True)
    assert held.returncode == 2 and b"is held by" in held.stderr
    assert fingerprint(copy) == before


# --- status ----------------------------------------------------------------------------------


def test_status_needs_neither_numba_nor_dask(ended):
    code = (
        "import sys; from click.testing import CliRunner; from sweep.cli.status import command;"
        f"print(CliRunner().invoke(command, [{str(ended)!r}, '--json']).output);"
        "print([m for m in ('numba', 'dask', 'xarray', 'zarr') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *text, loaded = done.stdout.strip().splitlines()
    assert loaded == "[]"
    rows = {row["experiment"]: row for row in json.loads("\n".join(text))["experiments"]}
    assert rows["pendulum"]["runs"] == rows["pendulum"]["done"] == 48
    assert rows["pendulum"]["failed"] > 0 == rows["bodies"]["failed"]


def test_what_changes_is_counted_again(copy):
    counter = progress.Counter(Store.at(copy))
    first = counter.count()[0]
    group = zarr.open_group(copy, path="pendulum", mode="r+", use_consolidated=False)
    group["sample_count"][:8] = 0
    second = counter.count()[0]
    assert (second.done, second.pending, second.running) == (first.done - 8, 8, 0)
    (file, *_) = (copy / "pendulum/status").glob("c.*")
    file.write_bytes(b"nothing at all")
    with pytest.raises(Damaged, match="pendulum/status: fails its checksum"):
        counter.count()


def test_rate_and_time_left():
    rate = progress.Rate(span=10.0)
    rate.add(0.0, 5)
    assert rate.per_second == 0 and rate.seconds_left(0) == 0
    assert np.isnan(rate.seconds_left(3))
    for second in range(1, 31):
        rate.add(float(second), 5 if second < 20 else 5 + 2 * (second - 20))
    assert rate.per_second == pytest.approx(2.0)
    assert rate.seconds_left(10) == pytest.approx(5.0)


def test_watching_on_a_terminal_and_elsewhere(copy):
    group = zarr.open_group(copy, path="pendulum", mode="r+", use_consolidated=False)
    counts = group["sample_count"][:]
    group["sample_count"][:8] = 0
    arguments = [PROGRAM, "status", "steps.zarr", "--watch", "--every", "0.1"]
    screen, terminal = pty.openpty()
    plain = subprocess.Popen(arguments, cwd=copy.parent, stdout=subprocess.PIPE, text=True)
    drawn = subprocess.Popen(arguments, cwd=copy.parent, stdout=terminal, stderr=terminal)
    given_up = subprocess.Popen(
        arguments,
        cwd=copy.parent,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip  (tests that are run in the background ignore it)
    os.close(terminal)
    line = plain.stdout.readline() + given_up.stdout.readline()
    assert line.count("pendulum: 40 of 48 done") == 2
    given_up.send_signal(signal.SIGINT)
    given_up.communicate(timeout=HANG)
    assert given_up.returncode == 0
    shown = b""
    while b"\x1b[A" not in shown:  # drawn twice
        shown += os.read(screen, 100_000)
    group["sample_count"][:8] = counts[:8]
    rest, _ = plain.communicate(timeout=HANG)
    assert plain.returncode == 0 and "pendulum: 48 of 48 done" in rest
    with contextlib.suppress(OSError):  # the terminal's other end is closed
        while True:
            shown += os.read(screen, 100_000)
    os.close(screen)
    assert drawn.wait(timeout=HANG) == 0 and b"time left" in shown
    assert b"Nobody runs it now; `sweep run steps.zarr` goes on." in shown
