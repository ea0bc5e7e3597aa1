"""Clusters by profile: their configuration, and a batch system whose commands are scripts here."""

import asyncio
import os
import re
import signal
import sys
import time
import types

import dask
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

from integrators.errors import InputError
from sweep.clusters import certificates, connect, jobqueue, launch, profiles
from sweep.clusters.spec import ClusterSpec, cluster_spec_from_arguments
from sweep.shutdown import process_age

SBATCH = """\
#!/bin/sh
here=$(dirname "$0")
echo submitted >> "$here/calls"
[ -e "$here/broken" ] && { echo "sbatch: error: invalid partition: night" >&2; exit 1; }
[ -e "$here/full" ] && { echo "Submitted batch job 77"; exit; }
cp "$1" "$here/script"
setsid sh "$here/script" > "$here/output" 2>&1 &
echo "Submitted batch job $!"
"""
SCANCEL = """\
#!/bin/sh
echo "cancelled $1" >> "$(dirname "$0")/calls"
[ "$1" = 77 ] || kill -TERM -- "-$1"
"""
NIGHT = {
    "kind": "slurm",
    "cores": 1,
    "memory": "1GB",
    "nanny": False,
    "scheduler-options": {"host": "127.0.0.1"},
    "scale": 1,
}


@pytest.fixture
def batch(tmp_path, monkeypatch):
    """The folder of a batch system, which is first on the PATH; and of what it was told."""
    folder = tmp_path / "batch"
    folder.mkdir()
    for name, text in {"sbatch": SBATCH, "scancel": SCANCEL}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def calls(batch):
    file = batch / "calls"
    return file.read_text().split("\n")[:-1] if file.exists() else []


def configured(**clusters):
    return dask.config.set({"geosweep.clusters": clusters})


def message(spec=None, **clusters):
    with configured(**clusters), pytest.raises(InputError) as refusal:
        profiles.resolve_cluster_spec(spec or ClusterSpec(profile=next(iter(clusters))))
    return str(refusal.value)


def test_a_run_by_jobs_of_a_batch_system(batch, command, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    tls = certificates.make_test_certificates(tmp_path / "tls", ["127.0.0.1"])
    pair = {"tls-cert": str(tls / "worker.pem"), "tls-key": str(tls / "worker-key.pem")}
    with configured(night={**NIGHT, "tls-ca-file": str(tls / "ca.pem"), **pair}):
        done = command(tmp_path, "run", "small.toml", "--no-summary", "--cluster", "night")
    assert "Complete: 4 runs" in done.stdout
    assert "--protocol tls:// --tls-ca-file" in (batch / "script").read_text()
    assert [call.split()[0] for call in calls(batch)] == ["submitted", "cancelled"]


def test_jobs_are_added_as_work_comes_and_again_when_they_end(batch, until):
    adapt = {"minimum": 0, "maximum": 2, "interval": "100ms", "target-duration": "10ms"}
    night = {**NIGHT, "adapt": adapt, "scale": None}
    told = []
    with (
        configured(night=night),
        dask.config.set({"distributed.deploy.lost-worker-timeout": "200ms"}),
        launch.connect_to_cluster(ClusterSpec(profile="night"), told=told.append) as client,
    ):
        assert calls(batch) == ["submitted"]
        futures = client.map(time.sleep, [0.2] * 200, pure=False)
        until(lambda: len(client.nthreads()) == 2)
        assert calls(batch) == ["submitted"] * 2
        first = int(client.run(os.getpgrp).popitem()[1])
        os.killpg(first, signal.SIGKILL)
        until(lambda: calls(batch).count("submitted") == 3)
        until(lambda: len(client.nthreads()) == 2)
        client.cancel(futures)
    assert sum(call.startswith("cancelled") for call in calls(batch)) == 3
    assert all("Waiting for the first worker of night (slurm, `squeue`" in line for line in told)


class Job:
    """In place of a batch system's."""

    closed = False

    async def close(self):
        self.closed = True


class Queue:
    """In place of a cluster, with two jobs of two processes, some of which are there."""

    def __init__(self):
        self.workers = {"c-0": Job(), "c-1": Job()}
        self.worker_spec = dict.fromkeys(self.workers, {"group": ["-0", "-1"]})
        self.observed = {"c-0-0", "c-1-1"}
        self.plan = self.requested = set()


def test_jobs_of_several_processes_are_seen_to_end():
    cluster = Queue()
    first, second = cluster.workers.values()
    adaptive = jobqueue.Resubmitting(cluster, interval=0, minimum=0)
    for observed, left in (
        (cluster.observed, ["c-0", "c-1"]),
        ({"c-0-1"}, ["c-0", "c-1"]),  # the other may come back
        ({"c-0-1"}, ["c-0"]),
    ):
        cluster.observed = observed
        with dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}):
            asyncio.run(adaptive.recommendations(0))
        time.sleep(0.002)
        assert list(cluster.workers) == left
    assert second.closed and not first.closed


def test_an_interruption_while_jobs_queue(batch, start, until, tmp_path, monkeypatch):
    (tmp_path / "small.toml").write_text(SMALL)
    (batch / "full").touch()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "dask.json").write_text(f'{{"jobqueue": {{"slurm": {queue()}}}}}')
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path / "conf"))
    run = start(
        "sweep", "run", "small.toml", "--cluster", "slurm", "--workers", 3, cwd=tmp_path
    )  # fmt: skip
    until(lambda: calls(batch).count("submitted") == 2 or run.poll() is not None)
    assert "Waiting for the first worker of slurm" in run.stderr.readline()
    run.send_signal(signal.SIGINT)
    printed, errors = run.finish()
    assert run.returncode == 4, errors
    assert "Traceback" not in errors
    assert calls(batch) == ["submitted"] * 2 + ["cancelled 77"] * 2


def queue():
    return '{"cores": 2, "memory": "1GB", "scheduler-options": {"host": "127.0.0.1"}}'


def test_the_time_is_up_while_jobs_queue(batch, command, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    (batch / "full").touch()
    run = ("run", "small.toml", "--cluster", "night", "--max-time", process_age() + 3)
    with configured(night=NIGHT):
        done = command(tmp_path, *run, code=4)
    assert "Stopped (the time is up) with 0 of 4 runs committed" in done.stdout
    assert calls(batch) == ["submitted", "cancelled 77"]


def test_a_batch_system_that_refuses(batch, command, tmp_path):
    (batch / "broken").touch()
    with configured(night=NIGHT):
        said = refused(command, tmp_path, "--cluster", "night")
    assert "the cluster of profile 'night' (slurm) does not start" in said
    assert "sbatch: error: invalid partition: night" in said


def test_a_profile_that_does_not_exist(command, tmp_path):
    with configured(night=NIGHT):
        said = refused(command, tmp_path, "--cluster", "nigth")
    assert "unknown cluster profile 'nigth'. Did you mean 'night'?" in said
    assert "There are: local, slurm, pbs, lsf, sge, kubernetes, night." in said
    assert str(dask.config.paths[0]) in said


@pytest.mark.parametrize("text", ["cluster: [a", "[a, b]"], ids=["garbled", "list"])
def test_a_file_of_dasks_configuration_that_is_malformed(text, program, tmp_path, monkeypatch):
    (tmp_path / "dask.yaml").write_text(text)
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path))
    (line,) = program(tmp_path, "run", "quickstart", code=2).stderr.splitlines()
    assert f"'{tmp_path}/dask.yaml' is malformed" in line and "Mend that file" in line


WRONG = {
    "no mapping": ("slurm", "is 'slurm'; expected a mapping with a kind"),
    "no kind": ({"cores": 2}, "has no kind; expected one of local, slurm"),
    "kind": ({"kind": "slrum"}, "unknown kind in profile 'night' 'slrum'. Did you mean 'slurm'?"),
    "key": ({"kind": "slurm", "core": 2}, "of kind slurm 'core'. Did you mean 'cores'?"),
    "local": ({"kind": "local", "queue": "x"}, "Valid: scale, adapt, host, interface"),
    "ours": ({"kind": "slurm", "n_workers": 2}, "unknown key in profile 'night' of kind slurm"),
    "both": ({"kind": "local", "scale": 1, "adapt": {"maximum": 2}}, "both scale and adapt"),
    "scale": ({"kind": "local", "scale": 0}, "scale workers = 0; expected a whole number ≥ 1"),
    "unit": ({"kind": "local", "scale": {"jobs": 1}}, "unknown key of scale in profile 'night'"),
    "adapt": (
        {"kind": "slurm", "adapt": 3},
        "adapt is 3; expected such as {minimum",
    ),
    "bound": ({"kind": "slurm", "adapt": {"max": 3}}, "'max'. Did you mean 'maximum'?"),
    "bounds": ({"kind": "slurm", "adapt": {"minimum": 3, "maximum": 2}}, "maximum = 2; expected"),
    "address": ({"kind": "scheduler"}, "expected an address or a scheduler-file"),
    "scaled": ({"kind": "scheduler", "address": "h:1", "scale": 2}, "expected no scale"),
    "tls": ({"kind": "local", "tls-cert": "a.pem"}, "--tls-cert without --tls-ca-file"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_profile_with_a_mistake(kind):
    profile, expected = WRONG[kind]
    assert expected in message(night=profile)


def test_how_many_and_of_what_must_be_said():
    for kind, options, expected in (
        ("slurm", {}, "profile 'slurm' says no cores"),
        ("pbs", {"cores": 1}, "says no memory; expected cores: and memory: of one job"),
        ("lsf", {"cores": 1, "memory": "1GB"}, "how many workers is not said for a cluster of"),
        ("sge", {"cores": 1, "memory": "1GB"}, "expected --workers N, or scale: N or adapt:"),
    ):
        with pytest.raises(InputError, match=expected.split("{")[0]):
            jobqueue.start_batch_jobs(profiles.Profile(kind, kind, options), None, None)


@pytest.mark.parametrize(
    "options, processes", [({}, 16), ({"processes": 4}, 4)], ids=["unless said", "as said"]
)
def test_a_process_a_core(options, processes, monkeypatch):
    def made(**options):
        raise NotImplementedError(options["processes"])

    monkeypatch.setattr(jobqueue, "dask_cluster_class", lambda kind: made)
    night = profiles.Profile("night", "slurm", {"cores": 16, "memory": "1GB", **options})
    with pytest.raises(NotImplementedError, match=f"^{processes}$"):
        jobqueue.start_batch_jobs(night, 64, None)
    assert jobqueue._initial_jobs_and_adapt(night, 64, processes)[0] == 64 // processes


class Pods:
    """In place of a KubeCluster: keeps what it is told."""

    def __init__(self, *, image=None, env=None, n_workers=None, worker_command=None, quiet=None):
        self.made, self.bounds = {k: v for k, v in locals().items() if k != "self"}, None

    def adapt(self, **bounds):
        self.bounds = bounds


def test_a_cluster_of_pods(monkeypatch):
    operator = types.SimpleNamespace(KubeCluster=Pods)
    for name in ("dask_kubernetes", "dask_kubernetes.operator"):  # the extra need not be here
        monkeypatch.setitem(sys.modules, name, operator)
    monkeypatch.setattr(Pods, "__module__", "dask_kubernetes.operator")
    monkeypatch.setattr(jobqueue, "_check_kubernetes_answers", lambda: None)
    monkeypatch.setattr(jobqueue, "dask_cluster_class", lambda kind: Pods)
    adapted = profiles.Profile(
        "k", "kubernetes", {"image": "me/geosweep", "env": {"A": "1"}}, {}, {"maximum": 9}
    )
    pods = jobqueue.start_kubernetes_pods(adapted, None, None)
    assert pods.bounds == {"minimum": 1, "maximum": 9}
    assert pods.made["worker_command"] == ["dask-worker", "--nthreads", "1"]
    assert pods.made["n_workers"] == 1
    failures = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(jobqueue.DEATHS)}
    assert pods.made["env"] == {"A": "1", **failures}
    fixed = jobqueue.start_kubernetes_pods(adapted, 4, None)
    assert fixed.made["n_workers"] == 4 and fixed.bounds is None
    with pytest.raises(InputError, match="no image with Geosweep in it"):
        jobqueue.start_kubernetes_pods(profiles.Profile("k", "kubernetes"), 1, None)
    with pytest.raises(InputError, match="starts no scheduler with certificates"):
        jobqueue.start_kubernetes_pods(adapted, 1, object())


def test_kubernetes_that_is_not_there(tmp_path, monkeypatch):
    pytest.importorskip("kr8s")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match="no Kubernetes answers .* reaches, by KUBECONFIG"):
        jobqueue._check_kubernetes_answers()


@pytest.mark.parametrize(
    "kind, module, extra",
    [("slurm", "dask_jobqueue", "jobqueue"), ("kubernetes", "dask_kubernetes", "kubernetes")],
)
def test_an_optional_package_that_is_missing(kind, module, extra, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    said = message(night={"kind": kind, "image": "x"})
    assert f"a cluster of kind {kind} needs dask-{extra}" in said
    assert f"pip install 'geosweep[{extra}]'" in said


def test_options_that_exclude_one_another(called, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    for options, expected in (
        (("--scheduler", "h:1", "--scheduler-file", "f"), "both name a running scheduler"),
        (("--cluster", "local", "--scheduler", "h:1"), "--cluster local starts a cluster"),
        (("--workers", 2, "--scheduler-file", "f"), "not together with --scheduler-file"),
        (("--tls-key", "k"), "--tls-key without --tls-ca-file"),
    ):
        done = called(tmp_path, "run", "small.toml", *options)
        assert done.returncode == 2 and expected in done.stderr
    with pytest.raises(InputError, match="workers = 0"):
        cluster_spec_from_arguments(workers=0)
    with pytest.raises(InputError, match="parts of a ClusterSpec"):
        cluster_spec_from_arguments(ClusterSpec(), workers=2)


def test_a_profile_of_a_running_scheduler(monkeypatch, tmp_path):
    night = {"kind": "scheduler", "address": "tls://h:1", "tls-ca-file": "a", "tls-cert": "b"}
    with configured(night=night):
        spec, profile = profiles.resolve_cluster_spec(ClusterSpec(profile="night"))
    assert profile is None and spec.scheduler == "tls://h:1" and str(spec.tls.cert) != "b"
    said = message(ClusterSpec(profile="night", workers=2), night=night)
    assert "--workers is not for a running scheduler's profile, 'night'" in said


def test_scheduler_files(tmp_path, monkeypatch, command):
    monkeypatch.setattr(connect, "CONNECT_SECONDS", 0.3)
    file = tmp_path / "scheduler.json"
    for text, expected in (
        (None, "is not there, and was not written within 0.3 s"),
        ('{"address": "tcp', "is not JSON"),
        ("{}", "has no address"),
        ('{"address": "tcp://127.0.0.1:1"}', "'tcp://127.0.0.1:1' does not answer within 0.3 s"),
    ):
        if text is not None:
            file.write_text(text)
        assert expected in refused(command, tmp_path, "--scheduler-file", file)


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
        version = connect.distributed.__version__
        assert f"expected {version}, as this" in said
        assert f"pip install 'distributed=={version}'" in said
    found = re.search(r"the worker (tcp://[^ ]+)", said)[1]
    said = refused(command, tmp_path, "--scheduler", found)
    assert f"'{found}' is no address of a scheduler that we understand: Worker" in said
