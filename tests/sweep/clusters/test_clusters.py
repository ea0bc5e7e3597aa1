"""Clusters by profile: their configuration, and a batch system whose commands are scripts here."""

import asyncio
import dataclasses
import json
import os
import re
import signal
import sys
import time
import types

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

from integrators.errors import InputError
from sweep.campaign import coordinator, detached
from sweep.clusters import adaptive, certificates, connect, jobqueue, launch, profiles
from sweep.clusters.shutdown import TIME_IS_UP, process_age
from sweep.clusters.spec import ClusterSpec, cluster_spec_from_arguments
from sweep.store.lease import lease, requests
from sweep.store.store import Store

SBATCH = """\
#!/bin/sh
here=$(dirname "$0")
echo submitted >> "$here/calls"
[ -e "$here/broken" ] && { echo "sbatch: error: invalid partition: night" >&2; exit 1; }
[ -e "$here/full" ] && { echo "Submitted batch job 77"; exit; }
cp "$1" "$here/script"
cp "$1" "$here/script-$$"  # another one may come meanwhile
setsid sh "$here/script-$$" > "$here/output" 2>&1 &
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
        launch.start_or_connect(ClusterSpec(profile="night"), told=told.append) as client,
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


def test_jobs_come_at_once_for_the_work_that_is_left_and_leave_after_it(batch, until):
    adapt = {"minimum": 0, "maximum": 3, "interval": "50ms", "wait-count": 1}
    with (
        configured(night={**NIGHT, "adapt": adapt, "scale": None}),
        launch.start_or_connect(ClusterSpec(profile="night")) as client,
    ):
        assert calls(batch) == ["submitted"]
        adaptive.tell_work_left(client, 1e6, 50)  # none of which the scheduler has been told
        until(lambda: len(client.nthreads()) == 3)
        assert calls(batch) == ["submitted"] * 3
        adaptive.tell_work_left(client, 0.0, 0)
        until(lambda: len(client.nthreads()) == 1)
    assert calls(batch).count("submitted") == 3


@pytest.mark.parametrize(
    "left, known, there, expected",
    [
        (None, 5, 2, 5),  # Dask's
        ((600.0, 50), 5, 2, 10),  # one for a minute of work
        ((600.0, 4), 5, 2, 4),  # and for a task
        ((30.0, 4), 8, 2, 2),  # whatever is in flight
        ((30.0, 1), 3, 4, 3),  # only idle ones leave
        ((0.0, 0), 0, 2, 0),
    ],
)
def test_how_many_workers_the_work_left_is_worth(left, known, there, expected, monkeypatch):
    async def target(self):
        return known

    monkeypatch.setattr(distributed.deploy.Adaptive, "target", target)
    cluster = Queue()
    cluster.observed = {*range(there)}
    following = adaptive.FollowingWork(cluster, interval=0, target_duration=jobqueue.JOB_SECONDS)
    following.work_left = left
    assert asyncio.run(following.target()) == expected


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
    resubmitting = adaptive.Resubmitting(cluster, interval=0, minimum=0)
    for observed, left in (
        (cluster.observed, ["c-0", "c-1"]),
        ({"c-0-1"}, ["c-0", "c-1"]),  # the other may come back
        ({"c-0-1"}, ["c-0"]),
    ):
        cluster.observed = observed
        with dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}):
            asyncio.run(resubmitting.recommendations(0))
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


@pytest.fixture
def night(monkeypatch, tmp_path):
    """Configure profiles for this process and for those that it starts: ``night(**options)``."""

    def configure(**options):
        found = {"geosweep": {"clusters": {"night": NIGHT | options}}}
        folder = tmp_path / "conf"
        folder.mkdir(exist_ok=True)
        (folder / "dask.json").write_text(json.dumps(found))
        monkeypatch.setenv("DASK_CONFIG", str(folder))
        for key, value in found["geosweep"].items():
            monkeypatch.setitem(dask.config.config, "geosweep", {key: value})

    return configure


def test_a_coordinator_in_a_job_of_its_own(batch, night, command, until, tmp_path):
    """Nobody waits for it; it starts a job of two processes by one launcher, on one interface."""
    night(cores=2, processes=2, nanny=True, interface="lo", **{"scheduler-options": {}})
    (tmp_path / "small.toml").write_text(SMALL)
    printed = command(tmp_path, "submit", "small.toml", "--cluster", "night").stdout
    assert "Submitted: geosweep-small-" in printed and "to slurm as job" in printed
    (tmp_path / "small.toml").unlink()  # was read
    store = Store.at(tmp_path / "small.zarr")
    until(lambda: requests.submission_of_store(store) is None)  # complete
    until(lambda: lease.lease_holder_of_store(store) is None)
    assert "4     4" in command(tmp_path, "status", "small.zarr").stdout
    until(lambda: len(calls(batch)) == 3)
    assert [call.split()[0] for call in calls(batch)] == ["submitted", "submitted", "cancelled"]
    coordinator, workers = sorted(batch.glob("script-*"), key=lambda file: file.stat().st_mtime_ns)
    assert "#SBATCH --cpus-per-task=2" in coordinator.read_text()
    assert "#SBATCH -J geosweep-small" in coordinator.read_text()
    assert "--nworkers 2" in workers.read_text() and "--interface lo" in workers.read_text()


def test_a_coordinator_is_cancelled_while_its_job_queues(
    batch, night, command, until, tmp_path, monkeypatch
):
    night(coordinator={"memory": "8GB", "walltime": "1-00:00:00"})
    (tmp_path / "small.toml").write_text(SMALL)
    (batch / "full").touch()
    submit = ("submit", "small.toml", "--cluster", "night")
    assert "slurm as job 77" in command(tmp_path, *submit).stdout
    said = command(tmp_path, "status", "small.zarr").stdout
    assert "to slurm as job 77; its coordinator has not begun" in said
    assert "a coordinator is there already" in command(tmp_path, *submit, code=2).stderr
    first = requests.submission_of_store(Store.at(tmp_path / "small.zarr"))
    assert "it had not begun" in command(tmp_path, "cancel", "small.zarr").stdout
    assert requests.cancellation_reason(Store.at(tmp_path / "small.zarr"), first.name)
    assert "cancelled before it began" in command(tmp_path, "status", "small.zarr").stdout
    assert "slurm as job 77" in command(tmp_path, *submit).stdout
    assert calls(batch) == ["submitted"] * 2
    command(tmp_path, "cancel", "small.zarr")


def test_a_running_coordinator_is_cancelled_with_its_jobs(
    batch, night, command, until, committed, long_study
):
    night()
    study, store = long_study / "long.toml", long_study / "long.zarr"
    study.write_text(study.read_text().replace("random = 68", "random = 2000"))  # some minutes
    command(long_study, "submit", "long.toml", "--cluster", "night", "--checkpoint-every", 5)
    until(lambda: lease.lease_holder_of_store(Store.at(store)) and store.exists())
    until(lambda: requests.submission_of_store(Store.at(store)).state == requests.RUNNING)
    assert "its coordinator runs on" in command(long_study, "status", "long.zarr").stdout
    assert "Ended" in command(long_study, "cancel", "long.zarr").stdout
    until(lambda: requests.submission_of_store(Store.at(store)).state == requests.ENDED)
    assert "cancelled by" in command(long_study, "status", "long.zarr").stdout
    until(lambda: calls(batch)[-1].startswith("cancelled"))


def test_a_coordinator_whose_job_is_over_is_followed_by_another(monkeypatch, tmp_path):
    spec = ClusterSpec(profile="night", workers=1)
    store = Store.at(tmp_path / "small.zarr")
    submitted, given = [], []

    def run(study, store, name, attempt, client, options):
        given.append(options)
        return coordinator.Outcome(store, (unfinished,), f"{TIME_IS_UP}: so it is")

    unfinished = coordinator.Tally("pendulum", 4, 2, ())
    monkeypatch.setattr(detached, "_run_when_store_is_free", run)
    monkeypatch.setattr(
        detached, "submit_coordinator_job", lambda *arguments: submitted.append(arguments) or "78"
    )
    requests.note_submission(store, requests.Submission("one", "small", "slurm", "me", "now"))
    study = types.SimpleNamespace(name="small")
    job = detached._CoordinatorJob(study, store, "one", spec, {"checkpoint_every": 5.0})
    with configured(night={**NIGHT, "walltime": "01:00:00", "coordinator": {"cores": 1}}):
        job.coordinate()
        assert len(submitted) == 1 and submitted[0][1] == "geosweep-small"
        assert requests.submission_of_store(store).state == requests.QUEUED
        assert given == [{"cluster": spec, "checkpoint_every": 5.0, "max_time": 3600.0 - 180.0}]
        for last in (
            dataclasses.replace(job, round=detached.JOB_ROUNDS),
            dataclasses.replace(job, options={"max_time": 60.0}),
        ):
            last.coordinate()
            assert len(submitted) == 1 and TIME_IS_UP in requests.submission_of_store(store).why
    assert given[-1]["max_time"] == 60.0


@pytest.mark.parametrize(
    "kind, text, seconds",
    [
        ("slurm", "00:30:00", 1800.0),
        ("slurm", "2-12:00:00", 216000.0),
        ("pbs", "100:00:01", 360001.0),
        ("lsf", "08:30", 30600.0),
        ("lsf", "90", 5400.0),
    ],
)
def test_how_long_a_coordinators_job_may_take(kind, text, seconds):
    profile = profiles.Profile("night", kind, {"walltime": "0:1"}, coordinator={"walltime": text})
    assert jobqueue.seconds_of_coordinator_job(profile) == seconds


@pytest.mark.parametrize(
    "profile, options, expected",
    [
        ({}, (), "nothing says where to run; expected --scheduler ADDRESS"),
        ({}, ("--cluster", "local"), "profile 'local' is of kind local; expected one of a batch"),
        (
            {"walltime": "8h"},
            ("--cluster", "night"),
            "walltime = '8h' in profile 'night'; exp",
        ),
        ({"scale": None}, ("--cluster", "night"), "how many workers is not said for a cluster of"),
        ({"memory": None}, ("--cluster", "night"), "profile 'night' says no memory; expected"),
        ({"coordinator": {"core": 1}}, ("--cluster", "night"), "'core'. Did you mean 'cores'?"),
        ({"processes": 2}, ("--cluster", "night"), "nanny = False in profile 'night', with 2 proc"),
        ({"coordinator": 3}, ("--cluster", "night"), "coordinator is 3; expected such as"),
        ({}, ("--cluster", "night", "--scheduler", "h:1"), "--cluster 'night' starts a cluster"),
    ],
)
def test_a_submission_that_is_refused(profile, options, expected, batch, night, called, tmp_path):
    night(**profile)
    (tmp_path / "small.toml").write_text(SMALL)
    done = called(tmp_path, "submit", "small.toml", *options)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and expected in line
    assert calls(batch) == [] and not (tmp_path / "small.zarr").exists()


def test_a_submission_that_the_batch_system_refuses(batch, night, command, tmp_path):
    night()
    (tmp_path / "small.toml").write_text(SMALL)
    (batch / "broken").touch()
    done = command(tmp_path, "submit", "small.toml", "--cluster", "night", code=2)
    (line,) = done.stderr.splitlines()
    assert "the coordinator's job of profile 'night' (slurm) is not submitted" in line
    assert "sbatch: error: invalid partition: night" in line
    assert requests.submission_of_store(Store.at(tmp_path / "small.zarr")) is None


def test_a_network_interface_that_is_not_there(batch, command, tmp_path):
    with configured(night={**NIGHT, "interface": "none0", "scheduler-options": {}}):
        said = refused(command, tmp_path, "--cluster", "night")
    assert "profile 'night' (slurm) does not start" in said and "'none0' is not a valid" in said


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
    "tls": ({"kind": "local", "tls-cert": "a.pem"}, "`tls_cert` without `tls_ca_file`"),
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
        ("sge", {"cores": 1, "memory": "1GB"}, "expected --workers N .workers=N in Python., or"),
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
        (("--cluster", "local", "--scheduler", "h:1"), "--cluster 'local' starts a cluster"),
        (("--workers", 2, "--scheduler-file", "f"), "give it without --scheduler-file"),
        (("--cluster", ""), "--cluster is empty; expected the name of a profile"),
        (("--tls-key", "k"), "--tls-key without --tls-ca-file"),
    ):
        done = called(tmp_path, "run", "small.toml", *options)
        assert done.returncode == 2 and expected in done.stderr
    with pytest.raises(InputError, match="`workers` is for .* without `scheduler`"):
        ClusterSpec(workers=2, scheduler="h:1")
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
    assert "workers = 2 is not for a running scheduler's profile, 'night'" in said


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
