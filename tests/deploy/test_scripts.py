"""The scripts that supervise `sweep run`, with stand-ins for it and for SLURM's commands."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import dask
import pytest
import yaml
from distributed import LocalCluster
from waiting import HANG, until

import sweep

DEPLOY = Path(__file__).parents[2] / "deploy"
INTERRUPTED = 4


@pytest.fixture
def commands(tmp_path):
    """A directory of commands that note how they were called, and the environment to use them."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def add(name, body=""):
        path = folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>"{tmp_path}/calls"\n{body}\n')
        path.chmod(0o755)

    add.environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "GEOSWEEP_PAUSE": "0",
        "SLURM_JOB_ID": "7",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_CPUS_PER_TASK": "3",
    }
    add.calls = lambda: (tmp_path / "calls").read_text().splitlines()
    return add


def _run(script, arguments, environment, **changed):
    return subprocess.run(
        ["bash", DEPLOY / script, *arguments],
        env=environment | changed,
        capture_output=True,
        text=True,
        timeout=HANG,
    )


# --- containers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code, ends_with", [(0, 0), (1, 0), (2, 0), (3, 0), (INTERRUPTED, INTERRUPTED), (137, 137)]
)
def test_only_what_another_start_mends_is_a_failure(commands, code, ends_with):
    commands("sweep", f"exit {code}")
    done = _run("container/coordinator", ["study", "store"], commands.environment)
    assert done.returncode == ends_with
    assert commands.calls() == ["sweep run study store"] * (3 if code == 1 else 1)
    assert (f"exit code {code}, which" in done.stderr) == (code in (1, 2, 3))
    kept = _run("container/coordinator", [], commands.environment, GEOSWEEP_KEEP_CODE="yes")
    assert kept.returncode == code


FAILS_ONCE = (
    """[ -e "$(dirname "$0")/failed" ] && exit {then}; touch "$(dirname "$0")/failed"; exit 1"""
)


@pytest.mark.parametrize("then", [0, INTERRUPTED])
def test_an_internal_error_may_not_come_again(commands, then):
    commands("sweep", FAILS_ONCE.format(then=then))
    done = _run("container/coordinator", ["study"], commands.environment)
    assert done.returncode == then
    assert commands.calls() == ["sweep run study"] * 2


def test_one_that_is_stopped_is_not_started_again(commands, tmp_path):
    commands("sweep", "exit 1")
    commands("sleep", f"touch {tmp_path}/pausing; exec {shutil.which('sleep')} 60")
    process = subprocess.Popen(
        ["bash", DEPLOY / "container/coordinator", "study"], env=commands.environment
    )
    until((tmp_path / "pausing").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(HANG) == 0
    assert commands.calls()[0] == "sweep run study" and len(commands.calls()) == 2


def test_the_signal_reaches_sweep(commands):
    commands("sleep")
    nap = "command -p sleep"
    commands("sweep", f"trap '{nap} 0.2; exit 4' TERM; echo started; while :; do {nap} 0.05; done")
    process = subprocess.Popen(
        ["bash", DEPLOY / "container/coordinator", "study"],
        env=commands.environment | {"GEOSWEEP_PAUSE": "60"},
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"started\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(HANG) == INTERRUPTED  # it has waited for the end of `sweep`
    assert commands.calls() == ["sweep run study"]  # a stopped one does not pause


def test_a_scheduler_of_no_workers_is_waited_for(commands):
    """It is no bad input: without any it ends so that it is started again."""
    commands("sweep")
    commands("wait-for-workers", "exit 4")
    changed = {"GEOSWEEP_SCHEDULER_HTTP": "http://scheduler:8787"}
    done = _run("container/coordinator", ["study"], commands.environment, **changed)
    assert done.returncode == INTERRUPTED
    assert commands.calls() == ["wait-for-workers http://scheduler:8787"]


def _wait(address, seconds):
    command = [sys.executable, DEPLOY / "container/wait-for-workers", address, seconds]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG)


def test_workers_are_asked_for_over_http():
    routes = {"distributed.scheduler.http.routes": ["distributed.http.scheduler.api"]}
    local = {"processes": False, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with dask.config.set(routes), LocalCluster(n_workers=0, **local) as cluster:
        address = f"http://127.0.0.1:{cluster.scheduler.http_server.port}"
        done = _wait(address, "0.2")
        assert done.returncode == INTERRUPTED and "it has no workers" in done.stderr
        cluster.scale(1)
        assert _wait(address, "20").returncode == 0
    assert _wait(address, "0.2").returncode == INTERRUPTED


# --- SLURM -----------------------------------------------------------------------------------


def _slurm(commands, code, state="RUNNING", left=3600, arguments=("study", "store"), **changed):
    """Run the coordinator's batch file in a job that has `left` seconds; what it called."""
    commands("sweep", f"exit {code}")
    commands("scontrol")
    commands("scancel")
    commands("squeue", f"case $* in *%T) echo {state};; *) date -d '+{left} seconds' +%FT%T;; esac")
    done = _run("slurm/coordinator.sbatch", arguments, commands.environment, **changed)
    assert done.returncode == code, done.stderr
    return [call for call in commands.calls() if not call.startswith("squeue")], done.stdout


def test_an_internal_error_is_tried_twice_more_in_the_job(commands):
    called, said = _slurm(commands, 1)
    assert len(called) == 3 and len({call.partition(" --max-time")[0] for call in called}) == 1
    assert all("--max-time 3" in call for call in called)
    assert "start 2 of 2" in said


@pytest.mark.parametrize("code", [0, 2, 3])
def test_what_has_ended_is_not_queued_again(commands, code):
    (called,), _ = _slurm(commands, code)
    assert called.startswith("sweep run study store --workers 3 --max-time 34")


def test_what_was_interrupted_is_queued_again(commands):
    called, said = _slurm(commands, INTERRUPTED)
    assert called[1:] == ["scontrol requeue 7"]
    assert "Round 1 of at most 50" in said


def test_rounds_are_bounded(commands):
    called, said = _slurm(commands, INTERRUPTED, ROUNDS="3", SLURM_RESTART_COUNT="2")
    assert len(called) == 1
    assert "Round 3 was the last one" in said


def test_a_cancelled_job_is_not_queued_again(commands):
    called, _ = _slurm(commands, INTERRUPTED, state="COMPLETING")
    assert len(called) == 1


def test_a_cluster_of_its_own_has_its_number_of_workers(commands):
    arguments = ("study", "store", "--cluster", "slurm")
    (called,), _ = _slurm(commands, 0, left=300, arguments=arguments)
    assert called.startswith("sweep run study store --cluster slurm --max-time 2")
    assert "--workers" not in called


def test_an_array_of_workers_ends_with_its_coordinator(commands, tmp_path):
    commands("sbatch", "echo 8")
    commands("dask", 'echo \'{"address": "tcp://host:1"}\' >"$7"; exec sleep 60')
    commands("python", "echo waited")
    called, _ = _slurm(commands, INTERRUPTED, WORKER_JOBS="5")
    file = f"{tmp_path}/scheduler-7.json"
    assert f"sbatch --parsable --array=1-5 {tmp_path}/workers.sbatch" in called
    assert any("--scheduler waited" in call for call in called if call.startswith("sweep"))
    assert called[-2:] == ["scancel 8", "scontrol requeue 7"]
    assert not Path(file).exists()


def test_workers_that_stay_in_the_queue_are_waited_for_in_another_round(commands):
    commands("sbatch", "echo 8")
    commands("dask", 'echo >"$7"; exec sleep 60')
    commands("python", "exit 1")
    called, _ = _slurm(commands, INTERRUPTED, WORKER_JOBS="5")
    assert not any(call.startswith("sweep") for call in called)
    assert called[-1] == "scontrol requeue 7"


def test_workers_leave_before_their_job_ends(commands):
    commands("dask")
    # The job's id is the array's: only this one's end is asked for.
    commands("squeue", "case $* in *' 7 '*) exit 1;; esac; date -d '+7200 seconds' +%FT%T")
    changed = {"SCHEDULER_FILE": "s.json", "SLURM_ARRAY_JOB_ID": "8", "SLURM_ARRAY_TASK_ID": "2"}
    assert _run("slurm/workers.sbatch", [], commands.environment, **changed).returncode == 0
    (called,) = [call for call in commands.calls() if call.startswith("dask worker")]
    words = called.split()
    lifetime, stagger = (
        int(words[words.index(name) + 1].rstrip("s"))
        for name in ("--lifetime", "--lifetime-stagger")
    )
    assert 6000 < lifetime + stagger < 7200
    assert "--nworkers 3 --nthreads 1" in called and "--name 8-2" in called


# --- compiled kernels ------------------------------------------------------------------------

SEEN = 'echo "$GEOSWEEP_CACHE_DIR $(stat -c %a "$GEOSWEEP_CACHE_DIR")" >>"$0.seen"'


@pytest.fixture
def noting(commands, tmp_path):
    """Commands that note the directory of compiled kernels and its mode: ``noting(name)``."""
    (tmp_path / "a job").mkdir()
    commands.environment |= {"SLURM_TMPDIR": str(tmp_path / "a job"), "SCHEDULER_FILE": "s.json"}
    commands("squeue", "date -d '+7200 seconds' +%FT%T")
    for name in ("sweep", "dask"):
        commands(name, SEEN)
    return lambda name: (tmp_path / "bin" / f"{name}.seen").read_text().split()


@pytest.mark.parametrize("file, command", [("coordinator", "sweep"), ("workers", "dask")])
def test_a_job_has_a_directory_of_its_own_for_kernels(noting, commands, tmp_path, file, command):
    """Whoever could write there would run code in the job: it is no path that others can guess."""
    done = _run(f"slurm/{file}.sbatch", ["study"], commands.environment)
    assert done.returncode == 0, done.stderr
    *words, mode = noting(command)
    made = Path(" ".join(words))
    assert made.parent == tmp_path / "a job" and mode == "700"
    assert len(made.name) == len("geosweep-XXXXXXXX")
    assert list((tmp_path / "a job").iterdir()) == []  # it goes with the job


@pytest.mark.parametrize("file, command", [("coordinator", "sweep"), ("workers", "dask")])
def test_a_directory_for_kernels_that_is_named_stays(noting, commands, tmp_path, file, command):
    (tmp_path / "kept").mkdir(mode=0o700)
    named = {"GEOSWEEP_CACHE_DIR": str(tmp_path / "kept")}
    assert _run(f"slurm/{file}.sbatch", ["study"], commands.environment, **named).returncode == 0
    assert noting(command) == [str(tmp_path / "kept"), "700"]
    assert (tmp_path / "kept").exists()


def test_a_job_of_dask_jobqueue_has_one_too(noting, commands, tmp_path):
    profile = yaml.safe_load((DEPLOY / "slurm/geosweep.yaml").read_text())["geosweep"]["clusters"]
    job = tmp_path / "job"
    job.write_text("\n".join([*profile["night"]["job-script-prologue"], "dask worker"]))
    assert _run(job, [], commands.environment).returncode == 0
    *words, mode = noting("dask")
    assert Path(" ".join(words)).parent == tmp_path / "a job" and mode == "700"
    assert list((tmp_path / "a job").iterdir()) == []


def test_a_coordinator_can_be_submitted_by_the_profile(commands, tmp_path, monkeypatch):
    commands("sbatch", f'cat "$1" >"{tmp_path}/submitted"; echo "Submitted batch job 7"')
    monkeypatch.setenv("PATH", commands.environment["PATH"])
    monkeypatch.chdir(tmp_path)
    clusters = yaml.safe_load((DEPLOY / "slurm/geosweep.yaml").read_text())["geosweep"]["clusters"]
    with dask.config.set({"geosweep.clusters": clusters}):
        sweep.submit("quickstart", "quickstart.zarr", sweep.ClusterSpec(profile="night"))
    submitted = (tmp_path / "submitted").read_text()
    assert "#SBATCH -t 1-00:00:00\n" in submitted and "#SBATCH --mem=8G\n" in submitted


def test_a_workers_job_ends_as_its_worker_does(commands):
    commands("dask", "trap 'sleep 0.2; exit 4' TERM; echo started; while :; do sleep 0.05; done")
    commands("squeue", "exit 1")
    process = subprocess.Popen(
        ["bash", DEPLOY / "slurm/workers.sbatch"],
        env=commands.environment | {"SCHEDULER_FILE": "s.json"},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout.readline() == b"started\n"
    os.killpg(process.pid, signal.SIGTERM)  # SLURM sends it to all processes of a job
    assert process.wait(HANG) == 4


def test_nothing_is_kept_at_a_path_that_others_can_guess():
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            assert b"/tmp/geosweep" not in path.read_bytes(), path
