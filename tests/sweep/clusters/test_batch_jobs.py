"""Jobs of a batch system: submitted, counted, submitted again and cancelled."""

import os
import signal

import pytest
from authorities import make_certificates
from cases import first_of
from dask_processes import SMALL, refused
from own_signals import sigterm_when
from plugin_text import edited

import sweep
from sweep.clusters.jobs import seconds_of_coordinator_job
from sweep.clusters.profiles import find_cluster_profile

LONG = edited("duration = 1.0", "duration = 300.0", SMALL)
JOBS = edited("random = 4", "random = 400", LONG)  # some seconds
MANY = edited("random = 4", "random = 9000", LONG)  # some minutes


@pytest.fixture
def small(tmp_path):
    """The file of a study of four runs."""
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path / "small.toml"


def test_a_run_by_jobs_of_a_batch_system(batch, command, small):
    tls = make_certificates(small.parent / "tls")
    files = {"ca-file": "ca.pem", "cert": "worker.pem", "key": "worker-key.pem"}
    batch.configure(**{f"tls-{name}": str(tls / file) for name, file in files.items()})
    done = command(small.parent, "run", "small.toml", "--no-summary", "--cluster", "night")
    assert "Complete: 4 runs" in done.stdout
    assert "--protocol tls:// --tls-ca-file" in batch.last_script
    assert batch.told == ["submitted", "cancelled"]


@pytest.mark.parametrize(
    ("options", "workers", "jobs", "processes"),
    first_of(
        [
            ({"cores": 4, "processes": 2}, 8, 4, 2),
            ({"cores": 2, "scale": None, "adapt": {"minimum": 3, "maximum": 9}}, None, 2, 2),
            ({"cores": 4}, 9, 3, 4),  # a process a core
            ({"cores": 4, "scale": {"jobs": 3}}, None, 3, 4),
            ({"cores": 1, "scale": None, "adapt": {"minimum": 0, "maximum": 9}}, None, 1, 1),
        ],
        2,
    ),
)
def test_so_many_jobs_as_workers_need(batch, small, options, workers, jobs, processes):
    """They queue until the run is ended, and are cancelled."""
    batch.set("full")
    batch.configure(nanny=True, **options)
    spec = sweep.ClusterSpec("night", workers=workers)
    with sigterm_when(lambda: batch.told.count("submitted") == jobs):
        outcome = sweep.run(small, small.with_suffix(".zarr"), cluster=spec)
    assert (outcome.complete, outcome.stopped) == (False, "SIGTERM")
    assert batch.calls == ["submitted"] * jobs + ["cancelled 77"] * jobs
    cores = options["cores"]
    assert f"--nthreads {cores // processes} " in batch.last_script
    assert (f"--nworkers {processes} " in batch.last_script) == (processes > 1)


@pytest.mark.slow
def test_an_interruption_while_jobs_queue(batch, start, until, small):
    batch.set("full")
    batch.configure(cores=2, nanny=True)
    run = start(
        "sweep", "run", "small.toml", "--cluster", "night", "--workers", 3, cwd=small.parent
    )
    until(lambda: batch.told.count("submitted") == 2 or run.poll() is not None)
    until(lambda: "first worker of night" in run.stderr.readline() or run.poll() is not None)
    run.send_signal(signal.SIGINT)
    printed, errors = run.finish()
    assert run.returncode == 4, errors
    assert "Traceback" not in errors
    assert batch.calls == ["submitted"] * 2 + ["cancelled 77"] * 2


@pytest.mark.slow
def test_jobs_come_with_the_work_and_again_when_they_end(
    batch, start, until, committed, small, monkeypatch
):
    """Each of two processes; the work is worth more than the first job, which is killed."""
    adapt = {"maximum": 4, "interval": "100ms", "target-duration": "10ms", "wait-count": 10_000}
    batch.configure(cores=2, nanny=True, scale=None, adapt=adapt)
    monkeypatch.setenv("DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT", "200ms")
    small.write_text(JOBS)
    store = small.with_suffix(".zarr")
    options = ("--no-summary", "--checkpoint-every", "0.1", "--cluster", "night")
    run = start("sweep", "run", "small.toml", *options, cwd=small.parent)
    until(lambda: committed(store, "spins") and len(batch.jobs) == 2 or run.poll() is not None)
    os.killpg(batch.jobs[0], signal.SIGKILL)
    until(lambda: len(batch.jobs) == 3 or run.poll() is not None)
    printed, errors = run.finish()
    assert run.returncode == 0 and "Complete: 400 runs" in printed, errors
    assert batch.told.count("submitted") == 3 and batch.told.count("cancelled") >= 2


# --- coordinators -----------------------------------------------------------------------------


def test_a_coordinator_in_a_job_of_its_own(batch, command, until, submission, holder, small):
    """Nobody waits for it; it starts a job of two processes by one launcher, on one interface."""
    batch.configure(cores=2, processes=2, nanny=True, interface="lo", **{"scheduler-options": {}})
    store = small.with_suffix(".zarr")
    printed = command(small.parent, "submit", "small.toml", "--cluster", "night").stdout
    assert "Submitted: geosweep-small-" in printed and "to slurm as job" in printed
    small.unlink()  # was read
    until(lambda: submission(store) == "" and holder(store) is None)  # complete
    assert "4     4" in command(small.parent, "status", "small.zarr").stdout
    until(lambda: batch.told == ["submitted", "submitted", "cancelled"])
    coordinator, workers = batch.scripts
    assert "#SBATCH --cpus-per-task=2" in coordinator
    assert "#SBATCH -J geosweep-small" in coordinator
    assert "--nworkers 2" in workers and "--interface lo" in workers


def test_a_coordinator_is_cancelled_while_its_job_queues(batch, command, submission, small):
    batch.configure(coordinator={"memory": "8GB", "walltime": "1-00:00:00"})
    batch.set("full")
    submit, place = ("submit", "small.toml", "--cluster", "night"), small.parent
    store = small.with_suffix(".zarr")
    assert "slurm as job 77" in command(place, *submit).stdout
    assert "--mem=8G" in batch.last_script and "-t 1-00:00:00" in batch.last_script
    said = command(place, "status", "small.zarr").stdout
    assert "to slurm as job 77; its coordinator has not begun" in said
    assert submission(store) == "queued"
    assert "has a coordinator already" in command(place, *submit, code=2).stderr
    assert "it had not begun" in command(place, "cancel", "small.zarr").stdout
    assert "cancelled before it began" in command(place, "status", "small.zarr").stdout
    again = command(place, "cancel", "small.zarr", code=2).stderr
    assert "what was submitted by" in again and "ended: cancelled before it began" in again
    assert "slurm as job 77" in command(place, *submit).stdout
    assert batch.calls == ["submitted"] * 2
    command(place, "cancel", "small.zarr")


@pytest.mark.parametrize(
    ("walltime", "seconds"), [("08:00:30", 28_830.0), ("1-12:00:00", 129_600.0)]
)
def test_the_time_of_a_coordinators_job(walltime, seconds, batch):
    batch.configure(coordinator={"walltime": walltime})
    assert seconds_of_coordinator_job(find_cluster_profile("night")) == seconds


@pytest.mark.slow
def test_a_running_coordinator_is_cancelled_with_its_jobs(
    batch, command, until, submission, holder, small
):
    batch.configure()
    small.write_text(MANY)
    store, place = small.with_suffix(".zarr"), small.parent
    command(place, "submit", "small.toml", "--cluster", "night", "--checkpoint-every", 5)
    until(lambda: submission(store) == "running" and holder(store))
    assert "its coordinator runs on" in command(place, "status", "small.zarr").stdout
    assert "Ended" in command(place, "cancel", "small.zarr").stdout
    until(lambda: submission(store) == "ended")
    assert "cancelled by" in command(place, "status", "small.zarr").stdout
    until(lambda: batch.told[-1] == "cancelled")


@pytest.mark.slow
def test_a_coordinator_whose_time_is_up_is_followed_by_another(
    batch, command, until, submission, holder, small
):
    """Before its job would be ended, which it has so many seconds for as the profile says."""
    batch.configure(coordinator={"walltime": "00:00:08"})
    small.write_text(MANY)
    store, place = small.with_suffix(".zarr"), small.parent
    command(place, "submit", "small.toml", "--cluster", "night", "--checkpoint-every", 1)
    jobs = until(lambda: [s for s in batch.scripts if "-J geosweep-small" in s][1:])
    assert "-t 00:00:08" in jobs[0]
    assert submission(store) in ("queued", "running", "")
    if submission(store):
        command(place, "cancel", "small.zarr")
    until(lambda: submission(store) in ("ended", "") and holder(store) is None)


@pytest.mark.parametrize(
    "profile, options, words",
    [
        ({}, (), ("nothing says where to run", "--scheduler ADDRESS")),
        ({}, ("--cluster", "local"), ("profile 'local' is of kind local", "batch")),
        ({"walltime": "8h"}, ("--cluster", "night"), ("walltime = '8h' in profile 'night'",)),
        ({"scale": None}, ("--cluster", "night"), ("needs a number of workers",)),
        ({"memory": None}, ("--cluster", "night"), ("profile 'night' (slurm)", "cores and memory")),
        ({"coordinator": {"core": 1}}, ("--cluster", "night"), ("Did you mean 'cores'?",)),
        ({"processes": 2}, ("--cluster", "night"), ("nanny = False in profile 'night'", "2 proc")),
        ({"coordinator": 3}, ("--cluster", "night"), ("coordinator is 3",)),
        ({}, ("--cluster", "night", "--scheduler", "h:1"), ("--cluster 'night' starts a cluster",)),
    ],
)
def test_a_submission_that_is_refused(profile, options, words, batch, called, small):
    batch.configure(**profile)
    done = called(small.parent, "submit", "small.toml", *options)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and all(word in line for word in words), line
    assert batch.calls == [] and not small.with_suffix(".zarr").exists()


# --- what the batch system says ---------------------------------------------------------------


def test_a_submission_that_the_batch_system_refuses(batch, command, told, small):
    batch.configure()
    batch.set("broken")
    done = command(small.parent, "submit", "small.toml", "--cluster", "night", code=2)
    (line,) = done.stderr.splitlines()
    assert "the coordinator's job of profile 'night' (slurm) is not submitted" in line
    assert "sbatch: error: invalid partition: night" in line
    assert told(small.with_suffix(".zarr")) == {}


def test_a_batch_system_that_refuses(batch, command, tmp_path):
    batch.configure()
    batch.set("broken")
    said = refused(command, tmp_path, "--cluster", "night")
    assert "the cluster of profile 'night' (slurm) does not start" in said
    assert "sbatch: error: invalid partition: night" in said


def test_a_network_interface_that_is_not_there(batch, command, tmp_path):
    batch.configure(interface="none0", **{"scheduler-options": {}})
    said = refused(command, tmp_path, "--cluster", "night")
    assert "profile 'night' (slurm) does not start" in said and "'none0' is not a valid" in said
