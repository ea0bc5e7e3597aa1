"""SIGTERM and a time limit end a run as Ctrl-C does, and the same command goes on."""

import math
import os
import re
import shlex
import signal
import threading
import time

import click
import psutil
import pytest
from waiting import HANG

import sweep
from integrators.errors import InputError
from sweep.campaign.task_window import CAUTION, Pace
from sweep.cli.common import Duration
from sweep.clusters.shutdown import CTRL_C, TERMINATED, TIME_IS_UP, Drain, process_age
from sweep.errors import Interrupted
from sweep.papers import PAPERS, reproduce
from sweep.text import count_with_noun

RUNS = 136


def test_sigterm_to_the_whole_job_and_the_rerun(
    long_study, start, until, committed, command, undisturbed, assert_same_runs
):
    """Also the workers get it, and go on until they have committed."""
    run = start("sweep", "run", "long.toml", "--no-summary", cwd=long_study)
    store = long_study / "long.zarr"
    until(lambda: committed(store, "pendulum") or run.poll() is not None)
    run.signal_all(signal.SIGTERM)
    printed, errors = run.finish()
    assert run.returncode == 4, printed + errors
    assert [line for line in errors.splitlines() if not re.match(" *[0-9]+% ", line)] == [
        "",
        "Stopping when running tasks have committed (SIGTERM); Ctrl-C gives up",
    ]
    done = committed(store, "pendulum")
    assert 0 < done < RUNS
    assert f"Stopped (SIGTERM) with {done} of {RUNS} runs committed. To go on: sweep run" in printed
    assert sorted(file.name for file in long_study.iterdir()) == ["long.toml", "long.zarr"]
    again = command(
        long_study, *shlex.split(printed.partition("To go on: ")[2].splitlines()[0])[1:]
    ).stdout
    assert (
        f"{count_with_noun(RUNS - done, 'run')} to compute" in again
        and f"Complete: {RUNS} runs" in again
    )
    assert_same_runs(undisturbed, store, "pendulum")


def test_jobs_of_limited_time_come_to_the_end(
    long_study, cluster, undisturbed, assert_same_runs, command
):
    store = long_study / "long.zarr"
    done, seconds = [], 0.6  # less than the work takes
    while not done or done[-1] < RUNS:
        outcome = sweep.run(long_study / "long.toml", store, cluster, max_time=seconds)
        assert outcome.complete == (not outcome.stopped)
        assert outcome.stopped.startswith(TIME_IS_UP) or outcome.complete
        done.append(outcome.tallies[0].done)
        seconds *= 2
    assert len(done) > 1 and done == sorted(done)
    assert_same_runs(undisturbed, store, "pendulum")
    assert "Nothing to compute" in command(
        long_study, "run", "long.toml", "--no-summary", "--max-time", "0.1s"
    ).stdout  # fmt: skip


def test_no_time_at_all(long_study, cluster, command):
    """Nothing is made, and the same command is named to go on with."""
    printed = command(long_study, "run", "long.toml", "--max-time", "0.001", code=4).stdout
    assert f"Stopped (the time is up) with 0 of {RUNS} runs committed. To go on: " in printed
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


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3600", 3600), ("90s", 90), ("55m", 3300), ("2h", 7200), ("1h30m", 5400), ("1d", 86400),
     ("0.5", 0.5), ("1.5h", 5400), (".5m", 30)],
)  # fmt: skip
def test_times_with_units(text, seconds):
    assert Duration().convert(text, None, None) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "0", "0h", "-5", "nan", "inf", "1e999", "soon", "30m1h", "1h-2m", "55 m", "1:30"]
)
def test_what_is_no_time(text):
    with pytest.raises(click.BadParameter, match="is no time; expected seconds, or such as 90s"):
        Duration().convert(text, None, None)


def test_a_bad_time_is_refused_before_anything(command, long_study):
    message = command(long_study, "run", "long.toml", "--max-time", "soon", code=2).stderr
    assert "Invalid value for '--max-time': 'soon' is no time" in message
    assert [file.name for file in long_study.iterdir()] == ["long.toml"]


@pytest.mark.parametrize(
    ("number", "reason", "raised"),
    [(signal.SIGINT, CTRL_C, KeyboardInterrupt), (signal.SIGTERM, TERMINATED, Interrupted)],
)
def test_the_first_signal_asks_and_the_second_interrupts(number, reason, raised):
    said, stopped = [], threading.Event()
    with Drain(said.append) as drain:
        drain.when_requested(stopped.set)
        drain.check()
        os.kill(os.getpid(), number)
        assert stopped.wait(HANG) and said == [reason]
        with pytest.raises(raised):
            drain.check()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)


def test_the_end_of_the_time_asks_too():
    said, stopped = [], threading.Event()
    with Drain(said.append, max_time=0.1) as drain:
        drain.when_requested(stopped.set)
        assert stopped.wait(HANG) and drain.requested
    assert said == [TIME_IS_UP]


def test_the_age_of_this_process(monkeypatch):
    born = psutil.Process().create_time() - psutil.boot_time()
    monkeypatch.setattr(time, "clock_gettime", lambda clock: born + 7.0)
    assert process_age() == pytest.approx(7.0, abs=1e-3)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_when_a_task_would_end():
    """Two slots: behind one of ten seconds and one of four, then one of three."""
    clock = Clock()
    pace = Pace(2, 20.0, clock)
    assert pace.end_of(5.0) == pytest.approx(5.0 * CAUTION)
    pace.note_start("a", 10.0)
    pace.note_start("b", 4.0)
    assert pace.end_of(5.0) == pytest.approx(4.0 + 5.0 * CAUTION)
    pace.note_start("c", 3.0)
    assert pace.end_of(5.0) == pytest.approx(7.0 + 5.0 * CAUTION)
    clock.now = 4.0
    pace.ended("b")
    assert pace.end_of(5.0) == pytest.approx(7.0 + 5.0 * CAUTION)  # c began when b ended
    clock.now = 9.0
    assert pace.end_of(5.0) == pytest.approx(9.0 + 5.0 * CAUTION)  # c is late already
    assert pace.fits(9.9) and not pace.fits(10.1)


def test_tasks_that_take_longer_than_expected_leave_less_time():
    pace = Pace(1, 10.0, Clock())
    pace.note_start("a", 2.0)
    pace.ended("a", 4.0)
    assert pace.end_of(3.0) == pytest.approx(6.0 * CAUTION)
    assert Pace(1, math.inf).fits(1e9)
