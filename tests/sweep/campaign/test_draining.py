"""SIGTERM and a time limit end a run as Ctrl-C does, and the same command goes on."""

import math
import shlex
import signal
import time

import psutil
import pytest
from own_signals import sigterm_when
from study_runs import write
from study_text import LONG, one_experiment
from waiting import without_progress

import sweep
from integrators.errors import InputError
from sweep.errors import Interrupted
from sweep.papers import PAPERS, reproduce

RUNS = 136
MANY = 4000  # some minutes: however late a signal comes, there is something left
OPTIONS = ("--no-summary", "--checkpoint-every", "0.1")
TIME_IS_UP = "the time is up"
STOPPING = "Stopping when running tasks have committed (SIGTERM); Ctrl-C gives up"


def runs_of(count):
    return f"{count} run{'s' * (count != 1)}"


@pytest.fixture
def longer_study(long_study):
    """The directory with the runs of many more starts in ``long.toml``; those of it come first."""
    study = long_study / "long.toml"
    study.write_text(study.read_text().replace(f"random = {RUNS // 2}", f"random = {MANY // 2}"))
    return long_study


@pytest.fixture
def goes_on(longer_study, committed, command, undisturbed, arrays, assert_same_runs):
    """Check what a run has printed that SIGTERM ended, and what the command that it names does.

    It goes on with fewer starts, which takes less time.
    """

    def check(printed):
        study, store = longer_study / "long.toml", longer_study / "long.zarr"
        done = committed(store, "pendulum")
        assert 0 < done < MANY
        said = f"Stopped (SIGTERM) with {done:,} of {MANY:,} runs committed. To go on: "
        assert said + "sweep run" in printed
        assert sorted(file.name for file in longer_study.iterdir()) == ["long.toml", "long.zarr"]
        words = shlex.split(printed.partition("To go on: ")[2].splitlines()[0])
        study.write_text(LONG)
        asked = arrays(undisturbed, "pendulum")["run_id"].tolist()
        before = cpu_times(store)
        left = sum(name not in before for name in asked)
        again = command(longer_study, *words[1:]).stdout
        assert f"{runs_of(left)} to compute" in again and f"Complete: {RUNS} runs" in again
        assert_same_runs(undisturbed, store, "pendulum", asked)
        assert before.items() <= cpu_times(store).items()  # nothing was computed again

    def cpu_times(store):
        table = arrays(store, "pendulum")
        done = table["sample_count"] > 0
        return dict(zip(table["run_id"][done].tolist(), table["cpu_time"][done], strict=True))

    return check


@pytest.mark.slow
def test_sigterm_ends_a_run_in_order(longer_study, committed, called, goes_on):
    with sigterm_when(lambda: committed(longer_study / "long.zarr", "pendulum")):
        run = called(longer_study, "run", "long.toml", *OPTIONS)
    assert run.returncode == 4 and STOPPING in run.stderr.splitlines(), run.stdout + run.stderr
    goes_on(run.stdout)


@pytest.mark.slow
def test_sigterm_to_the_whole_job_and_the_rerun(longer_study, start, until, committed, goes_on):
    """Also the workers get it, and go on until they have committed."""
    run = start("sweep", "run", "long.toml", *OPTIONS, cwd=longer_study)
    until(lambda: committed(longer_study / "long.zarr", "pendulum") or run.poll() is not None)
    run.signal_all(signal.SIGTERM)
    printed, errors = run.finish()
    assert run.returncode == 4, printed + errors
    assert without_progress(errors) == ["", STOPPING]
    goes_on(printed)


@pytest.mark.slow
def test_jobs_of_limited_time_come_to_the_end(
    long_study, cluster, undisturbed, assert_same_runs, command
):
    store = long_study / "long.zarr"
    done, seconds = [], 0.03  # less than it takes on any machine
    while not done or done[-1] < RUNS:
        outcome = sweep.run(long_study / "long.toml", store, cluster, max_time=seconds)
        assert outcome.complete == (not outcome.stopped)
        assert outcome.stopped.startswith(TIME_IS_UP) or outcome.complete
        done.append(outcome.rows[0]["done"])
        seconds *= 3
    assert len(done) > 1 and done == sorted(done)
    assert_same_runs(undisturbed, store, "pendulum")
    assert "Nothing to compute" in command(
        long_study, "run", "long.toml", "--no-summary", "--max-time", "0.1s"
    ).stdout  # fmt: skip


def test_no_time_at_all(long_study, command):
    """Nothing is made, and the same command is named to go on with."""
    printed = command(long_study, "run", "long.toml", "--max-time", "0.001", code=4).stdout
    assert f"Stopped ({TIME_IS_UP}) with 0 of {RUNS} runs committed. To go on: " in printed
    assert [file.name for file in long_study.iterdir()] == ["long.toml"]


def test_reproduce_in_a_limited_time(tmp_path, lent, command):
    with lent(), pytest.raises(Interrupted, match=TIME_IS_UP):
        reproduce(PAPERS["lee"], tmp_path, max_time=0.01)
    arguments = ("reproduce", "lee", "--keep", "kept", "--max-time", "0.01s")
    done = command(tmp_path, *arguments, code=4)
    assert done.stderr.splitlines()[-1].startswith("Stopped (the time is up); the same command")


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, "1h", True])
def test_a_time_limit_that_is_none(bad, long_study, cluster):
    with pytest.raises(InputError, match=r"max_time = .*; expected a number > 0"):
        sweep.run(long_study / "long.toml", client=cluster, max_time=bad)


@pytest.fixture
def ended_at(monkeypatch, tmp_path, command):
    """Run a small study in a process that is so many seconds old; whether its time is up."""
    write(one_experiment(integrators='"rk4"', initial_condition='"lee"'), tmp_path)
    born = psutil.Process().create_time() - psutil.boot_time()

    def run(age, limit, code):
        monkeypatch.setattr(time, "clock_gettime", lambda clock: born + age)
        options = ("--no-summary", "--max-time", limit)
        done = command(tmp_path, "run", "s.toml", *options, code=code).stdout
        assert (f"Stopped ({TIME_IS_UP}) with 0 of 2 runs" in done) == (code == 4)

    return run


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3600", 3600), ("90s", 90), ("55m", 3300), ("2h", 7200), ("1h30m", 5400), ("1d", 86400),
     ("1.5h", 5400), (".5d", 43200)],
)  # fmt: skip
def test_times_have_units_and_count_from_the_start_of_the_process(text, seconds, ended_at):
    """As of a job: what its process has spent is no longer left."""
    ended_at(1.01 * seconds, text, code=4)


@pytest.mark.parametrize(("text", "seconds"), [("1h30m", 5400), ("1d", 86400)])
def test_what_is_left_of_the_time_is_used(text, seconds, ended_at):
    ended_at(0.9 * seconds, text, code=0)


@pytest.mark.parametrize(
    "text",
    ["", "0", "0h", "-5", "nan", "inf", "1e999", "soon", "30m1h", "1h-2m", "55 m", "1:30"],
)
def test_a_bad_time_is_refused_before_anything(text, command, long_study):
    message = command(long_study, "run", "long.toml", f"--max-time={text}", code=2).stderr
    assert f"Invalid value for '--max-time': '{text}' is no time; expected seconds, or" in message
    assert [file.name for file in long_study.iterdir()] == ["long.toml"]
