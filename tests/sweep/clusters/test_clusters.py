"""Profiles of clusters in Dask's configuration, and schedulers that run."""

import re
import subprocess
import sys
import types
from pathlib import Path

import dask
import distributed
import pytest
from dask_processes import (
    OLDER,
    SMALL,
    address_in,
    await_scheduler,
    refused,
    start_scheduler,
    start_worker,
)
from waiting import HANG

import sweep
from sweep.errors import InputError


@pytest.fixture
def small(tmp_path):
    """The file of a study of four runs."""
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path / "small.toml"


@pytest.fixture
def refusal(small):
    """What is said of profiles: ``refusal(spec, name={…}, …)``; of the first one unless given."""

    def run(spec=None, **clusters):
        store = small.with_suffix(".zarr")
        with (
            dask.config.set({"geosweep.clusters": clusters}),
            pytest.raises(InputError) as refusal,
        ):
            sweep.run(small, store, cluster=spec or next(iter(clusters)))
        assert not store.exists()
        return str(refusal.value)

    return run


NIGHT = {"kind": "slurm", "cores": 1, "memory": "1GB", "scale": 1}
WRONG = {
    "no mapping": ("slurm", "is 'slurm'…kind"),
    "no kind": ({"cores": 2}, "kind…local, slurm"),
    "kind": ({"kind": "slrum"}, "unknown kind 'slrum' in profile 'night'. Did you mean 'slurm'?"),
    "key": (NIGHT | {"core": 2}, "'night' (slurm) does not start…'core'. Did you mean 'cores'?"),
    "local": (
        {"kind": "local", "queue": "x"},
        "'night' (local)…'queue'. Valid: scale, adapt, host",
    ),
    "workers": ({"kind": "local", "n_workers": 2}, "'n_workers'. For the number of workers: scale"),
    "both": ({"kind": "local", "scale": 1, "adapt": {"maximum": 2}}, "both scale and adapt"),
    "scale": ({"kind": "local", "scale": 0}, "scale workers = 0…≥ 1"),
    "unit": (
        {"kind": "local", "scale": {"jobs": 1}},
        "unknown key 'jobs' of scale in profile 'night'",
    ),
    "adapt": ({"kind": "slurm", "adapt": 3}, "adapt is 3…{minimum"),
    "bound": (
        {"kind": "slurm", "adapt": {"max": 3}},
        "'max' of adapt in profile 'night'. Did you mean 'maximum'?",
    ),
    "bounds": ({"kind": "slurm", "adapt": {"minimum": 3, "maximum": 2}}, "maximum = 2"),
    "address": ({"kind": "scheduler"}, "its address or a scheduler-file"),
    "scaled": ({"kind": "scheduler", "address": "h:1", "scale": 2}, "no scale"),
    "tls": ({"kind": "local", "tls-cert": "a.pem"}, "`tls_cert` without `tls_ca_file`"),
    "coordinator": ({"kind": "local", "coordinator": {"memory": "1GB"}}, "coordinator…slurm"),
    "image": ({"kind": "kubernetes", "adapt": {"minimum": 1}}, "no maximum in adapt"),
    "dashboard": ({"kind": "local", "dashboard-address": "here"}, "'here'…8787…host:port"),
    "port": ({"kind": "local", "dashboard-address": ":70000"}, "':70000'…8787…host:port"),
    "no port": ({"kind": "local", "dashboard-address": True}, "True…8787…host:port"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_profile_with_a_mistake(kind, refusal, kubernetes):
    profile, message = WRONG[kind]
    said = refusal(night=profile)
    assert all(word in said for word in message.split("…")), said


def test_how_many_and_of_what_must_be_said(refusal):
    sized = {"cores": 1, "memory": "1GB"}
    for kind, options, expected in (
        ("slurm", {"scale": 1}, "'slurm' (slurm) does not start: You must specify how much cores"),
        ("pbs", {"cores": 1, "scale": 1}, "how much cores and memory per job"),
        ("lsf", sized, "a cluster of kind lsf needs a number of workers"),
        ("sge", sized, "a number of workers: `workers=N`, or scale: N"),
    ):
        assert expected in refusal(**{kind: options})


def test_a_profile_that_does_not_exist(refusal):
    said = refusal("nigth", night={"kind": "slurm"})
    assert "unknown cluster profile 'nigth'. Did you mean 'night'?" in said
    assert "There are: local, slurm, pbs, lsf, sge, kubernetes, night." in said
    assert str(dask.config.paths[0]) in said


def test_a_file_of_dasks_configuration_that_is_malformed(tmp_path, monkeypatch):
    (tmp_path / "dask.yaml").write_text("cluster: [a")
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path))
    command = [Path(sys.executable).with_name("sweep"), "run", "quickstart"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert f"'{tmp_path}/dask.yaml' is malformed" in line and "Mend that file" in line


# --- Kubernetes -------------------------------------------------------------------------------


@pytest.fixture
def kubernetes(monkeypatch, cluster):
    """Dask's operator in place of that of the extra: its clusters are the shared one."""

    class Pods:
        made, bounds = {}, None

        def __init__(self, *, image=None, env=None, n_workers=None, worker_command=None, quiet=0):
            Pods.made = {name: value for name, value in locals().items() if name != "self"}
            Pods.bounds = None

        def adapt(self, **bounds):
            Pods.bounds = bounds

        def close(self):
            pass

        def __getattr__(self, name):
            return getattr(cluster.cluster, name)

        def __await__(self):
            return cluster.cluster.__await__()

    Pods.__module__ = "dask_kubernetes.operator"
    api = types.SimpleNamespace(version=lambda: "1.30")
    modules = {
        "dask_kubernetes": types.SimpleNamespace(),
        "dask_kubernetes.operator": types.SimpleNamespace(KubeCluster=Pods),
        "kr8s": types.SimpleNamespace(api=lambda: api),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return Pods


PODS = {"kind": "kubernetes", "image": "me/geosweep", "env": {"A": "1"}, "adapt": {"maximum": 9}}


def test_a_cluster_of_pods(kubernetes, small):
    with dask.config.set({"geosweep.clusters": {"pods": PODS}}):
        assert sweep.run(small, small.with_suffix(".zarr"), cluster="pods").complete
        assert kubernetes.bounds == {"minimum": 1, "maximum": 9}
        assert kubernetes.made["worker_command"] == ["dask-worker", "--nthreads", "1"]
        assert kubernetes.made["n_workers"] == 1 and kubernetes.made["image"] == "me/geosweep"
        assert kubernetes.made["env"] == {"A": "1"}
        fixed = sweep.ClusterSpec("pods", workers=4)
        assert sweep.run(small, small.with_suffix(".zarr"), cluster=fixed).complete
        assert sweep.run(small, small.with_name("b.zarr"), cluster=fixed).complete
        assert kubernetes.made["n_workers"] == 4 and kubernetes.bounds is None


def test_pods_that_cannot_be_started(kubernetes, refusal, monkeypatch):
    assert "no image with Geosweep in it" in refusal(pods={"kind": "kubernetes", "scale": 1})
    assert "needs a number of workers" in refusal(pods=PODS | {"adapt": None})

    def unreachable():
        raise ConnectionError("no route")

    monkeypatch.setattr(sys.modules["kr8s"], "api", unreachable)
    assert "no Kubernetes answers (ConnectionError: no route)" in refusal(pods=PODS)


@pytest.mark.parametrize(
    "kind, module, extra",
    [("slurm", "dask_jobqueue", "jobqueue"), ("kubernetes", "dask_kubernetes", "kubernetes")],
)
def test_an_optional_package_that_is_missing(kind, module, extra, monkeypatch, refusal):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    said = refusal(night={"kind": kind, "image": "x"})
    assert f"a cluster of kind {kind} needs dask-{extra}" in said
    assert f"pip install 'geosweep[{extra}]'" in said


# --- running schedulers -----------------------------------------------------------------------


def test_options_that_exclude_one_another(called, small):
    for options, expected in (
        (("--cluster", "local", "--scheduler", "h:1"), "--cluster 'local' starts a cluster"),
        (("--workers", 2, "--scheduler", "h:1"), "give it without --scheduler"),
        (("--cluster", ""), "--cluster is empty; expected the name of a profile"),
    ):
        done = called(small.parent, "run", "small.toml", *options)
        assert done.returncode == 2 and expected in done.stderr
    with pytest.raises(InputError, match="`workers` is for .* without `scheduler`"):
        sweep.ClusterSpec(workers=2, scheduler="h:1")
    with pytest.raises(InputError, match="both name a running scheduler"):
        sweep.ClusterSpec(scheduler="h:1", scheduler_file="f")
    with pytest.raises(InputError, match="`tls_key` without `tls_ca_file`"):
        sweep.ClusterSpec(tls_key="k")
    with pytest.raises(InputError, match="workers = 0"):
        sweep.run(small, workers=0)
    with pytest.raises(InputError, match="parts of a ClusterSpec"):
        sweep.run(small, cluster=sweep.ClusterSpec(), workers=2)


def test_a_profile_of_a_running_scheduler_starts_no_workers(refusal):
    night = {"kind": "scheduler", "address": "tls://h:1"}
    said = refusal(sweep.ClusterSpec("night", workers=2), night=night)
    assert "workers = 2 is not for the profile 'night' of a running scheduler" in said


def test_a_scheduler_file_without_an_address(command, tmp_path):
    (tmp_path / "scheduler.json").write_text("{}")
    profile = {"kind": "scheduler", "scheduler-file": "scheduler.json"}
    with dask.config.set({"geosweep.clusters": {"night": profile}}):
        assert "has no address" in refused(command, tmp_path, "--cluster", "night")


@pytest.mark.slow
def test_scheduler_files_that_are_waited_for(start, small, monkeypatch):
    """All at once, since each takes its seconds."""
    files = {
        "missing": (None, "is not there, and was not written within"),
        "half": ('{"address": "tcp', "is not JSON"),
        "silent": ('{"address": "tcp://127.0.0.1:1"}', "'tcp://127.0.0.1:1' does not answer with"),
    }
    profiles = {name: {"kind": "scheduler", "scheduler-file": name} for name in files}
    monkeypatch.setenv("DASK_GEOSWEEP__CLUSTERS", str(profiles))
    runs = {}
    for name, (text, _) in files.items():
        if text is not None:
            (small.parent / name).write_text(text)
        arguments = ("small.toml", f"{name}.zarr", "--cluster", name)
        runs[name] = start("sweep", "run", *arguments, cwd=small.parent)
    for name, run in runs.items():
        _, errors = run.finish()
        assert run.returncode == 2 and files[name][1] in errors, errors
        assert not (small.parent / f"{name}.zarr").exists()


def test_a_worker_that_comes_late(start, until, scheduler, small, tmp_path_factory):
    run = start(
        "sweep", "run", "small.toml", "--no-summary", "--scheduler", scheduler, cwd=small.parent
    )
    said = run.stderr.readline()
    assert f"s for workers of {scheduler}; `dask worker {scheduler} --nthreads 1` starts" in said
    start_worker(start, scheduler, tmp_path_factory.mktemp("worker"))
    printed, errors = run.finish()
    assert run.returncode == 0 and "Complete: 4 runs" in printed, errors


@pytest.mark.slow
def test_another_version_of_dask(start, until, command, tmp_path):
    older = tmp_path / "older.py"
    older.write_text(OLDER)
    start_scheduler(start, tmp_path / "older", "--preload", older)
    _, address = await_scheduler(start, until, tmp_path / "ours")
    worker = start_worker(start, address, tmp_path / "worker", "--preload", older)
    until(lambda: "Registered to" in worker.stderr.readline() or worker.poll() is not None)
    older = until(lambda: address_in(tmp_path / "older" / "scheduler.json"))
    for reached, who in ((older, f"the scheduler '{older}'"), (address, "the worker tcp://")):
        said = refused(command, tmp_path, "--scheduler", reached)
        assert who in said and f"'{reached}' has version 2023.5.0 of Dask's distributed" in said
        version = distributed.__version__
        assert f"expected {version}, as this" in said
        assert f"pip install 'distributed=={version}'" in said
    found = re.search(r"the worker (tcp://[^ ]+)", said)[1]
    said = refused(command, tmp_path, "--scheduler", found)
    assert f"'{found}' is no address of a scheduler: Worker" in said
