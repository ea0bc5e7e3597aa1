"""What workers are: of which kind, what for, and whether they see the store."""

import os
import shutil
import subprocess
import types

import pytest
import zarr
from dask_processes import DASK, await_scheduler
from distributed import Client
from planned import planned_task
from study_text import one_experiment

import sweep
from integrators.compiler import cache_directory
from sweep import errors
from sweep.campaign import coordinator
from sweep.campaign import task_window as cluster_module
from sweep.cli.run import Terminal
from sweep.clusters import launch, shutdown, workers
from sweep.store import provenance, studies
from sweep.store.store import Store

KEYS = {"integrators": '"rk4"', "samples": "10"}
OTHER = {"cpu": "another", "libm": "another", "system": "Linux", "numba": "0"}


def test_each_run_says_what_it_was_computed_with(tmp_path, cluster):
    path = tmp_path / "test.zarr"
    sweep.run(studies.parse_study(one_experiment(**KEYS)), path, cluster)
    experiment = sweep.open_study(path)["only"].to_dataset()
    known = sweep.open_study(path).attrs["environments"]
    own = provenance.provenance_number(provenance.describe_cpu_libm_and_versions())
    assert set(experiment["environment"].values) == {own} and own > 0
    assert known == {str(own): provenance.describe_cpu_libm_and_versions()}
    assert {"cpu", "libm", "python", "numba", "numpy", "geosweep"} <= set(known[str(own)])


def test_a_store_that_is_made_anew_says_so_too(tmp_path, cluster):
    """The processes of the workers are the same ones."""
    path, parsed = tmp_path / "test.zarr", studies.parse_study(one_experiment(**KEYS))
    sweep.run(parsed, path, cluster)
    before = sweep.open_study(path).attrs["environments"]
    shutil.rmtree(path)
    sweep.run(parsed, path, cluster)
    assert sweep.open_study(path).attrs["environments"] == before


def test_the_command_line_hears_all_that_a_run_tells():
    told = {name for name in vars(coordinator.Watcher) if not name.startswith("_")}
    assert "compiling" in told and told - set(vars(Terminal)) == set()


class Growing:
    """A client of a cluster that has a worker more each time that it is asked."""

    cluster = None

    def __init__(self):
        self.workers, self.submitted = 0, []

    def nthreads(self):
        self.workers += 1
        return {str(worker): 1 for worker in range(self.workers)}

    def map(self, function, tasks, sessions, **options):
        return [self._submitted(task) for task in tasks]

    def _submitted(self, task):
        self.submitted.append(task)
        name = str(len(self.submitted))
        return types.SimpleNamespace(key=name, add_done_callback=lambda call: None)


def test_tasks_in_flight_follow_the_number_of_workers(monkeypatch):
    monkeypatch.setattr(cluster_module, "LOOK_SECONDS", -1)
    client, tasks = Growing(), [planned_task()] * 20
    window = cluster_module._Window(client, tasks, None, shutdown.Drain())
    for count in (1, 2, 3):
        window.submit()
        assert client.workers == count
        assert len(window.in_flight) == cluster_module.WINDOW * count
        assert len(window.running()) == count


def test_receipts_are_fetched_together_and_errors_told_apart(cluster, until, monkeypatch):
    def computed(task, session):
        if task.cost == 2.0:
            raise ValueError("of this task alone")
        return types.SimpleNamespace(whole=True, seconds=0.1, fenced_off=False)

    monkeypatch.setattr(cluster_module, "compute_task", computed)
    tasks = [planned_task(cost) for cost in (1.0, 2.0, 1.0, 1.0)]
    window = cluster_module._Window(cluster, tasks, None, shutdown.Drain())
    window.submit()
    until(lambda: window._ended.qsize() == len(tasks))
    landed = window.collect(window.wait_for_ended())
    assert [task.cost for task, receipt in landed if receipt is None] == [2.0]
    assert len(landed) == len(tasks) and not window.in_flight
    failed, error = window.failure
    assert failed is tasks[1] and str(error) == "of this task alone"


def test_the_work_that_is_left_is_counted_by_what_tasks_took():
    drain = shutdown.Drain()
    task = planned_task(2.0)
    window = cluster_module._Window(Growing(), [task] * 20, None, drain)
    window.submit()
    assert window._work_left() == (40.0, 20)
    key = next(iter(window.in_flight))
    del window.in_flight[key]
    window._pace.ended(key, 6.0)
    assert window._work_left() == (3 * 38.0, 19)
    drain.request("enough")
    assert window._work_left() == (3 * 2.0, 1)  # those in flight


def test_many_tasks_are_submitted_in_messages_of_some_size(monkeypatch):
    monkeypatch.setattr(cluster_module, "MOST_ROWS", 10)
    client = Growing()
    client.workers = 9
    task = planned_task(runs=4)
    window = cluster_module._Window(client, [task] * 30, None, shutdown.Drain())
    sizes = []
    window._update_slots()
    while batch := window._next_batch():
        sizes.append(len(batch))
        window.in_flight |= {len(window.in_flight) + i: task for i in range(len(batch))}
    assert sizes == [3] * 6 + [2] and sum(sizes) == cluster_module.WINDOW * client.workers


def test_numbers_of_environments_differ_with_anything_in_them():
    one = provenance.describe_cpu_libm_and_versions()
    others = {provenance.provenance_number(one | {key: "another"}) for key in one}
    assert len(others - {provenance.provenance_number(one)}) == len(one)
    assert all(0 < number < 2**31 for number in others)


def test_two_stores_of_two_kinds_merge_to_one_that_knows_both(tmp_path, cluster, command):
    for name, start in (("one", "lee"), ("two", "celledoni")):
        text = one_experiment(**KEYS | {"initial_condition": f'"{start}"'})
        (tmp_path / f"{name}.toml").write_text(text)
        command(tmp_path, "run", f"{name}.toml", f"{name}.zarr", "--no-summary")
    number = provenance.provenance_number(OTHER)
    two = zarr.open_group(tmp_path / "two.zarr", mode="r+", use_consolidated=False)
    two.attrs["environments"] = {str(number): OTHER}
    two["only/environment"][:] = number
    done = command(tmp_path, "merge", "one.zarr", "two.zarr", "-o", "both.zarr")
    assert "another" in done.stdout + done.stderr
    both = sweep.open_study(tmp_path / "both.zarr")
    runs = both["only"].to_dataset()
    assert set(both.attrs["environments"]) == {str(n) for n in runs["environment"].values}
    theirs = runs.query(run="initial_condition == 'celledoni'")["environment"].values
    assert set(theirs) == {number}


def test_kernels_are_compiled_by_one_worker_of_each_kind():
    def of(cpu, cache):
        seen = provenance.describe_cpu_libm_and_versions() | {"cpu": cpu}
        return workers.Worker("host", "system", "code", seen, cache, "")

    own = workers.describe_this_worker(Store.at(os.devnull), "").cache
    cpu = provenance.describe_cpu_libm_and_versions()["cpu"]
    found = {
        "a": of(cpu, own), "b": of("another", own), "c": of("another", own),
        "d": of("another", "elsewhere"), "e": of(cpu, "elsewhere"),
    }  # fmt: skip
    assert workers.first_worker_of_each_kind(found) == ["b", "d", "e"]


def test_a_function_is_called_on_the_workers_that_are_named(cluster):
    with Client(cluster.cluster) as client, shutdown.Drain() as drain:
        one = list(client.nthreads())[0]
        workers.call_on_workers(client, [one], os.getpid, drain)
        with pytest.raises(ZeroDivisionError):
            workers.call_on_workers(client, list(client.nthreads()), _failing, drain)
        drain.request("enough")
        with pytest.raises(errors.Interrupted, match="enough"):
            workers.call_on_workers(client, [one], os.getpid, drain)


def _failing():
    return 1 / 0


def test_a_worker_that_does_not_see_the_store_is_refused(
    tmp_path_factory, start, until, long_study, command
):
    """It has a file system of its own where the study is."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("a file system of its own takes root's rights")
    _, address = await_scheduler(start, until, tmp_path_factory.mktemp("scheduler"))
    worker = f"{DASK} worker $1 --nthreads 1 --no-nanny --no-dashboard"
    start(
        "/usr/bin/env", "unshare", "--mount", "sh", "-c",
        f'mount -t tmpfs none "$0" && cd / && exec {worker}', long_study, address,
        cwd=long_study.parent,
    )  # fmt: skip
    with Client(address) as client:
        until(lambda: client.nthreads())
    done = command(long_study, "run", "long.toml", "--scheduler", address, code=2)
    (message,) = done.stderr.splitlines()
    assert "the worker tcp://127.0.0.1:" in message and "does not see the store" in message
    assert "s3://" in message
    assert [file.name for file in long_study.iterdir()] == ["long.toml"]


def test_workers_share_the_private_cache_of_their_coordinator(tmp_path, monkeypatch, capfd):
    """Where others may write the user's: kernels are compiled once, and it is said once."""
    tmp_path.chmod(0o777)
    monkeypatch.setenv(cache_directory.NAMED, str(tmp_path))
    monkeypatch.delenv(cache_directory.HANDED, raising=False)
    with launch.start_local_cluster(2) as local, Client(local) as client:
        roots = set(client.run(cache_directory.cache_root).values())
    own = cache_directory.cache_root()
    assert roots == {own} and not own.is_relative_to(tmp_path)
    assert capfd.readouterr().err.count("may be written by others") == 1
    shutil.rmtree(own.parent)
