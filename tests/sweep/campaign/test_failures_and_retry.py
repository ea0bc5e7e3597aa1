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
from study_runs import write
from waiting import HANG

import sweep
from sweep.errors import Damaged

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


@pytest.fixture(scope="module")
def ended(cluster, tmp_path_factory):
    place = tmp_path_factory.mktemp("steps")
    assert sweep.run(write(TEXT, place), place / "steps.zarr", cluster).complete
    return place / "steps.zarr"


@pytest.fixture
def copy(ended, tmp_path):
    return Path(shutil.copytree(ended, tmp_path / "steps.zarr"))


@pytest.fixture(scope="module")
def pendulum(ended):
    return sweep.open_study(ended)["pendulum"].to_dataset().load()


@pytest.fixture(scope="module")
def failures(command):
    """What `sweep status --failures --json` says of a store."""
    asked = ("--failures", "--json")
    return lambda store: json.loads(command(store.parent, "status", store.name, *asked).stdout)


# --- failures --------------------------------------------------------------------------------


def test_which_failed_where_and_when(ended, pendulum):
    rows = sweep.failures(ended)
    assert {row["experiment"] for row in rows} == {"pendulum"}
    failed = pendulum.isel(run=(pendulum.status > 0).values)
    assert [row["run"] for row in rows] == failed.run.values.tolist()
    for row, run in zip(rows, failed.run.values, strict=True):
        stored = pendulum.sel(run=run)
        names = ("integrator", "step_size", "gravity", "initial_condition", "stop_step")
        assert all(row[name] == stored[name].item() for name in names)
        assert row["stop_time"] == pytest.approx(row["stop_step"] * row["step_size"])


def values(shared):
    """Of what is shared, how many runs failed of those with each value, by axis."""
    found = {}
    for row in shared["values"]:
        found.setdefault(row["axis"], {})[row["value"]] = row["failed"], row["runs"]
    return found


def test_what_they_share(ended, pendulum, failures):
    """Too large a step: neither the gravity nor the starts are blamed."""
    found = failures(ended)
    shared = {one["status"]: one for one in found["shared"]}
    assert set(shared) == {"not_converged", "not_finite"}
    assert len(found["failures"]) == sum(one["failed"] for one in shared.values())
    flags = pendulum.status.flag_values, pendulum.status.flag_meanings.split()
    for value, meaning in zip(*flags, strict=True):
        if one := shared.get(meaning):
            failed = pendulum.isel(run=(pendulum.status == value).values)
            assert one["failed"] == failed.sizes["run"]
            assert {"gravity", "initial_condition"}.isdisjoint(values(one))
            for axis, rows in values(one).items():
                for known, (count, of) in rows.items():
                    assert count == int((failed[axis] == known).sum())
                    assert of == int((pendulum[axis] == known).sum())
    assert set(values(shared["not_converged"])["step_size"]) == {0.1, 1.0}
    assert list(values(shared["not_converged"])["integrator"]) == ["variational"]
    assert list(values(shared["not_finite"])["step_size"]) == [1.0]


def test_an_outcome_says_so_as_text(copy, pendulum, cluster):
    """Of a run that finds nothing to compute."""
    *failed, ended = str(sweep.run(copy, client=cluster)).splitlines()
    runs = pendulum.sizes["run"]
    for value, words in ((2, "did not converge"), (3, "blew up")):
        assert f"pendulum: {int((pendulum.status == value).sum())} of {runs} runs {words}" in failed
    count = int((pendulum.status > 0).sum())
    assert len(failed) == 2
    assert ended == f"Complete: {runs + 1} runs in {copy}, {count} of them failed"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("step_size >= 0.1", {"step_size": {0.1: (16, 16), 1.0: (16, 16)}}),
        ("gravity > 5", {"gravity": {9.81: (24, 24)}}),
        ("run == run", {}),
    ],
)
def test_only_axes_that_tell_are_listed(copy, pendulum, failures, where, expected):
    group = zarr.open_group(copy, path="pendulum", mode="r+", use_consolidated=False)
    group["status"][:] = 2 * np.isin(pendulum.run, pendulum.query(run=where).run)
    (one,) = failures(copy)["shared"]
    assert values(one) == expected


def test_the_command_says_so(ended, command):
    said = command(ended.parent, "status", "steps.zarr", "--failures").stdout
    said = said.partition("\n\n")[2]  # behind the progress
    assert "step_size = 1" in said and "stop step" in said and "stop time" in said
    assert "runs with status not_converged have " in said and "bodies" not in said
    count = command(ended.parent, "status", "steps.zarr").stdout
    assert "failed runs among those done: sweep status --failures steps.zarr\n" in count
    only = command(ended.parent, "status", "steps.zarr", "--failures", "-e", "bodies").stdout
    assert only.endswith("\n\nNo run failed.\n") and "pendulum" not in only
    wrong = command(ended.parent, "status", "steps.zarr", "-e", "bodeis", code=2).stderr
    assert "Did you mean 'bodies'?" in wrong


# --- retry -----------------------------------------------------------------------------------


def test_just_the_failed_ones_run_again(copy, ended, command, arrays, assert_same_runs):
    said = command(copy.parent, "retry", "steps.zarr", "--where", "gravity > 5", code=3).stdout
    before, after = arrays(ended, "pendulum"), arrays(copy, "pendulum")
    again = (before["status"] > 0) & (before["gravity"] > 5)
    assert f"pendulum: computing {again.sum()} failed runs again" in said
    changed = before["cpu_time"] != after["cpu_time"]
    assert changed.tolist() == again.tolist() and again.any()
    assert_same_runs(ended, copy, "pendulum")


def test_those_of_a_status_run_again(copy, ended, cluster, arrays):
    assert sweep.retry(copy, among="not_converged", client=cluster).complete
    before, after = arrays(ended, "pendulum"), arrays(copy, "pendulum")
    changed = before["cpu_time"] != after["cpu_time"]
    assert changed.tolist() == (before["status"] == 2).tolist() and changed.any()


def test_what_chooses_no_run_changes_nothing(copy, command, fingerprint):
    before, place = fingerprint(copy), copy.parent
    code = "step_size.to_csv('made') == 1"
    for chosen, said in (
        (("--status", "not_convergd"), ["not_converged"]),
        (("--where", "stepsize > 1"), ["--where: pendulum: 'stepsize > 1' cannot be evaluated",
                                       "Did you mean 'step_size'?"]),
        (("--where", code), ["cannot be evaluated"]),
    ):  # fmt: skip
        wrong = command(place, "retry", "steps.zarr", *chosen, code=2).stderr
        assert all(words in wrong for words in said)
    assert not (place / "made").exists()
    none = command(place, "retry", "steps.zarr", "--where", "step_size < 0.1").stdout
    assert none == "There is no failed run to compute again.\n"
    assert fingerprint(copy) == before


# --- status ----------------------------------------------------------------------------------


def test_status_needs_neither_numba_nor_dask(ended):
    code = (
        "import sys; from importlib.metadata import entry_points\n"
        "(program,) = entry_points(group='console_scripts', name='sweep')\n"
        f"sys.argv = ['sweep', 'status', {str(ended)!r}, '--json']\n"
        "try: program.load()()\n"
        "finally: print([m for m in ('numba', 'dask', 'xarray', 'zarr') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *text, loaded = done.stdout.strip().splitlines()
    assert loaded == "[]"
    rows = {row["experiment"]: row for row in json.loads("\n".join(text))["experiments"]}
    assert rows["pendulum"]["runs"] == rows["pendulum"]["done"] == 48
    assert rows["pendulum"]["failed"] > 0 == rows["bodies"]["failed"]


def test_status_counts_what_is_there_and_undamaged(copy, command):
    first = sweep.status(copy)[0]
    group = zarr.open_group(copy, path="pendulum", mode="r+", use_consolidated=False)
    group["sample_count"][:8] = 0
    second = sweep.status(copy)[0]
    assert (second.done, second.pending, second.running) == (first.done - 8, 8, 0)
    said = command(copy.parent, "status", copy.name).stdout
    assert f"\nNo process runs it now; `sweep run {copy.name}` resumes.\n" in said
    (file, *_) = (copy / "pendulum/status").glob("c.*")
    file.write_bytes(b"nothing at all")
    with pytest.raises(Damaged, match=r"pendulum/status: chunk c.0 fails its checksum; .*--repair"):
        sweep.status(copy)


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
    while b"\x1b[2K" not in shown:  # drawn twice
        shown += os.read(screen, 100_000)
    group["sample_count"][:8] = counts[:8]
    rest, _ = plain.communicate(timeout=HANG)
    assert plain.returncode == 0 and "pendulum: 48 of 48 done" in rest
    with contextlib.suppress(OSError):  # the terminal's other end is closed
        while True:
            shown += os.read(screen, 100_000)
    os.close(screen)
    assert drawn.wait(timeout=HANG) == 0 and b"time left" in shown
    assert b"No process runs it now; `sweep run steps.zarr` resumes." in shown
