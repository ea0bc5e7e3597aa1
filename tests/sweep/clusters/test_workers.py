"""What workers say of themselves in a store, and whether they see it."""

import shutil
import subprocess

import numba
import pytest
import zarr
from dask_processes import DASK
from distributed import Client
from study_runs import write
from study_text import one_experiment
from waiting import without_progress
from written_stores import accept

import sweep

KEYS = {"integrators": '"rk4"', "samples": "10"}
OTHER = {"cpu": "another", "libm": "another", "system": "Linux", "numba": "0"}


def test_each_run_says_what_it_was_computed_with(tmp_path, cluster):
    path, study = tmp_path / "test.zarr", write(one_experiment(**KEYS), tmp_path)
    sweep.run(study, path, cluster)
    tree = sweep.open_study(path)
    known = tree.attrs["environments"]
    (number,) = set(tree["only"]["environment"].values.tolist())
    assert number > 0 and list(known) == [str(number)]
    assert {"cpu", "libm", "python", "numba", "numpy", "geosweep"} <= set(known[str(number)])
    assert known[str(number)]["numba"] == numba.__version__
    shutil.rmtree(path)  # one that is made anew says so too; the workers' processes are the same
    sweep.run(study, path, cluster)
    assert sweep.open_study(path).attrs["environments"] == known


@pytest.mark.slow
def test_two_stores_of_two_kinds_merge_to_one_that_knows_both(tmp_path, command):
    for name, start in (("one", "lee"), ("two", "celledoni")):
        text = one_experiment(**KEYS | {"initial_condition": f'"{start}"'})
        (tmp_path / f"{name}.toml").write_text(text)
        command(tmp_path, "run", f"{name}.toml", f"{name}.zarr", "--no-summary")
    two = zarr.open_group(tmp_path / "two.zarr", mode="r+", use_consolidated=False)
    two.attrs["environments"] = {"77": OTHER}
    two["only/environment"][:] = 77
    accept(tmp_path / "two.zarr")
    done = command(tmp_path, "merge", "one.zarr", "two.zarr", "-o", "both.zarr")
    assert "another" in done.stdout + done.stderr
    both = sweep.open_study(tmp_path / "both.zarr")
    runs = both["only"].to_dataset()
    assert set(both.attrs["environments"]) == {str(n) for n in runs["environment"].values}
    theirs = runs.query(run="initial_condition == 'celledoni'")["environment"].values
    assert set(theirs) == {77}


@pytest.mark.slow
def test_a_worker_that_does_not_see_the_store_is_refused(
    start, until, long_study, command, scheduler
):
    """It has a file system of its own where the study is."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("a file system of its own takes root's rights")
    worker = f"{DASK} worker $1 --nthreads 1 --no-nanny --no-dashboard"
    start(
        "/usr/bin/env", "unshare", "--mount", "sh", "-c",
        f'mount -t tmpfs none "$0" && cd / && exec {worker}', long_study, scheduler,
        cwd=long_study.parent,
    )  # fmt: skip
    with Client(scheduler) as client:
        until(lambda: client.nthreads())
    done = command(long_study, "run", "long.toml", "--scheduler", scheduler, code=2)
    (message,) = without_progress(done.stderr)
    assert "the worker tcp://127.0.0.1:" in message and "does not see the store" in message
    assert "s3://" in message
    assert [file.name for file in long_study.iterdir()] == ["long.toml"]
