"""Plugins in a run: workers that do not have the file, stores that keep it."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import zarr
from dask_processes import await_scheduler, start_worker
from distributed import Client
from plugin_text import BEAD, STUDY, edited, write

import sweep

RUNS = 2 * 3 * 3 * 5


@pytest.fixture
def remote(start, until, tmp_path_factory):
    """The address of a scheduler with one worker, in a directory of their own."""
    folder = tmp_path_factory.mktemp("elsewhere")
    _, address = await_scheduler(start, until, folder)
    start_worker(start, address, folder)
    with Client(address) as client:
        until(lambda: client.scheduler_info(n_workers=-1)["workers"])
    return address


@pytest.fixture(scope="module")
def computed(cluster, tmp_path_factory):
    """A store of the guide's study, computed by processes that do not have the plugin."""
    home = tmp_path_factory.mktemp("computed")
    text = STUDY.replace('"height"]', '"height", "state"]')
    outcome = sweep.run(write(home, study=text), home / "bead.zarr", cluster)
    assert outcome.complete and outcome.failed == 0
    (home / "bead.py").unlink()
    return home / "bead.zarr"


@pytest.fixture
def store(computed, tmp_path):
    """A copy of it, without the plugin's file beside it."""
    shutil.copytree(computed, tmp_path / "bead.zarr")
    return tmp_path / "bead.zarr"


@pytest.mark.slow
def test_a_remote_worker_without_the_file(remote, command, tmp_path, computed, arrays):
    write(tmp_path)
    done = command(tmp_path, "run", "bead.toml", "--scheduler", remote, "--no-summary")
    assert f"Complete: {RUNS} runs" in done.stdout
    ids = arrays(computed, "spring")["run_id"].tolist()
    here, there = (arrays(path, "spring") for path in (tmp_path / "bead.zarr", computed))
    assert here["run_id"].tolist() == ids
    for name in ("height", "energy", "global_error", "energy_error_abs_max"):
        assert here[name].tobytes() == there[name].tobytes()


def test_what_is_recorded(computed):
    spring = sweep.open_study(computed)["spring"].to_dataset()
    assert spring["height"].attrs == {"units": "1", "long_name": "height of the first body"}
    assert "height_error" not in spring
    heights = spring["state"].sel(row="q0", component="z")
    assert np.array_equal(spring["height"], heights)
    q, omega = (spring["state"].sel(row=row).values for row in ("q0", "omega0"))
    kinetic = 0.5 * np.sum(np.cross(omega, q) ** 2, axis=-1)
    energy = kinetic + 0.5 * spring["stiffness"].values[:, None] * (1 - q[..., 2]) ** 2
    assert np.allclose(spring["energy"], energy, rtol=0, atol=1e-14 * energy.max())


def test_a_store_is_read_without_the_plugin(store, command, called):
    directory = store.parent
    for arguments in (
        ("order", store), ("drift", store, "-q", "energy"), ("status", store), ("verify", store),
        ("show", "study", store),
    ):  # fmt: skip
        command(directory, *arguments)
    shown = json.loads(command(directory, "show", "plugins", store, "--json").stdout)
    kept = dict(zarr.open_group(store, mode="r").attrs["plugins"]["bead.py"])
    assert shown[0]["sha256"] == kept["sha256"] == hashlib.sha256(BEAD.encode()).hexdigest()
    assert shown[0]["source"] == kept["source"] == BEAD
    command(directory, "show", "plugins", store, "--output", "restored")
    assert (directory / "restored" / "bead.py").read_text() == BEAD
    refused = called(directory, "show", "plugins", store, "--output", "restored")
    assert refused.returncode == 2 and "exists; give another DIRECTORY" in refused.stderr
    listed = command(directory, "ls", "systems", "--study", store).stdout
    assert "bead on a sphere" in listed
    assert (
        "height: height of" in command(directory, "show", "system", "bead", "--study", store).stdout
    )
    assert (
        "ralston"
        in command(directory, "show", "integrator", "ralston+projected", "--study", store).stdout
    )


def lose(store, rows):
    """Let the results of some runs be not there."""
    group = zarr.open_group(store, path="spring", mode="r+", use_consolidated=False)
    group["sample_count"][rows] = 0


def test_a_store_goes_on_by_the_source_that_it_keeps(store, computed, command, assert_same_runs):
    lose(store, slice(40, 50))
    done = command(store.parent, "retry", store)
    assert f"Complete: {RUNS} runs" in done.stdout
    assert_same_runs(store, computed, "spring")


def test_a_plugin_that_a_store_brings_runs_only_when_it_is_approved(
    store, called, command, fingerprint, tmp_path, monkeypatch
):
    """By whoever runs it; then it is approved for good."""
    lose(store, slice(40, 41))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    before = fingerprint(store)
    for arguments in (("retry", store), ("plan", store), ("run", store)):
        refused = called(store.parent, *arguments)
        assert refused.returncode == 2 and "--trust-plugins" in refused.stderr
        assert hashlib.sha256(BEAD.encode()).hexdigest()[:8] in refused.stderr
    assert fingerprint(store) == before
    command(store.parent, "plan", store, "--trust-plugins")
    done = command(store.parent, "retry", store)
    assert f"Complete: {RUNS} runs" in done.stdout


def test_a_changed_plugin_is_refused(store, command, fingerprint):
    before, directory = fingerprint(store), store.parent
    text = STUDY.replace('"height"]', '"height", "state"]')
    write(directory, BEAD + "# edited\n", text)
    for name in ("run", "plan"):
        message = command(directory, name, "bead.toml", code=2).stderr
        assert "plugin 'bead.py' has changed since: its source had the hash " in message
        assert "give another STORE, or restore the file" in message
    (directory / "other.py").write_text(BEAD + "# edited\n")  # nor under another name
    (directory / "bead.toml").write_text(text.replace("bead.py", "other.py"))
    message = command(directory, "run", "bead.toml", code=2).stderr
    assert "experiment 'spring' was begun with plugins = {'system bead': '" in message
    assert fingerprint(store) == before
    write(directory, BEAD, text)
    assert "Nothing to compute" in command(directory, "run", "bead.toml", "--no-summary").stdout


def test_a_plugin_is_added_and_dropped(store, command, fingerprint):
    """Another experiment has another plugin; dropped ones are kept, and still may not change."""
    directory = store.parent
    text = STUDY.replace('"height"]', '"height", "state"]')
    another = BEAD
    for name in ("bead", "ralston", "height"):
        another = another.replace(f'"{name}"', f'"{name}2"')
    write(directory, BEAD, text)
    (directory / "second.py").write_text(another)
    chain = """
[[experiment]]
name = "chain"
system = "spherical_pendulum_chain"
integrators = ["ralston2", "rk2_heun"]
step_size = 0.01
initial_condition = "lee"
duration = 1.0
samples = 5
record = ["energy", "height2"]
"""
    added = text.replace('["bead.py"]', '["bead.py", "second.py"]') + chain
    (directory / "bead.toml").write_text(added)
    assert "2 new runs" in command(directory, "run", "bead.toml", "--no-summary").stdout
    assert sweep.open_study(store)["chain"]["height2"].notnull().all()
    (directory / "bead.toml").write_text(text)
    command(directory, "run", "bead.toml", "--no-summary")
    assert set(zarr.open_group(store, mode="r").attrs["plugins"]) == {"bead.py", "second.py"}
    (directory / "second.py").write_text((directory / "second.py").read_text() + "# edited\n")
    (directory / "bead.toml").write_text(added)
    message = command(directory, "run", "bead.toml", code=2).stderr
    assert "plugin 'second.py' has changed since" in message


def test_check_says_what_plugins_add(tmp_path, command):
    write(tmp_path)
    lines = command(tmp_path, "check", "bead.toml").stdout.splitlines()
    assert "plugin bead.py, sha256 " in lines[-2]
    assert lines[-2].endswith("…: system bead, integrator ralston, observable height")
    assert lines[-1] == f"bead: valid, {RUNS} runs"
    write(tmp_path, edited("-p[0]", "p[0]"))
    message = command(tmp_path, "check", "bead.toml", code=2).stderr
    assert message.startswith("Error: bead.toml:7: experiment[0].system: potential_gradient of")
