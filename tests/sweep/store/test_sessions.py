"""Who may compute for a store: workers of the coordinator's version, on machines that it knows."""

import shutil
from pathlib import Path

import pytest
import zarr
from dask_processes import DASK, await_scheduler
from distributed import Client
from study_text import one_experiment
from waiting import without_progress

import sweep

KEYS = {"record": '["energy"]', "integrators": '"rk4"', "statistics": '"none"'}


@pytest.mark.slow
def test_a_worker_of_another_version_is_refused(long_study, start, until, called, tmp_path_factory):
    """Its sources differ by a line of comment, which no kernel would show."""
    other = tmp_path_factory.mktemp("other")
    for package in ("integrators", "systems", "sweep"):
        shutil.copytree(Path(sweep.__file__).parents[1] / package, other / package)
    with open(other / "systems" / "__init__.py", "a") as file:
        file.write("# another version\n")
    _, address = await_scheduler(start, until, tmp_path_factory.mktemp("scheduler"))
    start(
        "/usr/bin/env", f"PYTHONPATH={other}", DASK, "worker", address,
        "--nthreads", "1", "--no-nanny", "--no-dashboard", cwd=other.parent,
    )  # fmt: skip
    with Client(address) as client:
        until(lambda: client.scheduler_info()["workers"])
    done = called(long_study, "run", "long.toml", "--scheduler", address)
    (message,) = without_progress(done.stderr)
    assert done.returncode == 2
    assert "the worker tcp://127.0.0.1:" in message and "version" in message
    assert [file.name for file in long_study.iterdir()] == ["long.toml"]


@pytest.mark.slow
def test_kinds_of_machines_are_recorded_and_mixing_them_warns(tmp_path, command):
    (tmp_path / "s.toml").write_text(one_experiment(**KEYS))
    assert "Warning" not in command(tmp_path, "run", "s.toml", "s.zarr", "--no-summary").stderr
    root = zarr.open_group(tmp_path / "s.zarr", mode="r+", use_consolidated=False)
    (host,) = root.attrs["hosts"]
    root.attrs["hosts"] = [host | {"host": "elsewhere", "kind": "CPU another, libm another"}]
    (tmp_path / "s.toml").write_text(one_experiment(**KEYS | {"step_size": "0.02"}))
    said = command(tmp_path, "run", "s.toml", "s.zarr", "--no-summary").stderr
    assert "different kinds of machines" in said
    assert "CPU another, libm another" in said and host["kind"] in said
    root = zarr.open_group(tmp_path / "s.zarr", mode="r", use_consolidated=False)
    assert [known["host"] for known in root.attrs["hosts"]] == ["elsewhere", host["host"]]
