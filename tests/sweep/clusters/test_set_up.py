"""Workers that die while a run sets up, before any task is computed."""

import pytest
import zarr
from dask_processes import SMALL, await_scheduler, start_worker
from distributed.core import CommClosedError

from integrators.errors import InputError
from sweep.clusters import workers

# A preload: the first worker that is asked for something is killed by it, before it answers.
KILLED_BY = """\
import functools
import os
import signal


def dask_setup(worker):
    known = worker.handlers[{handler!r}]

    @functools.wraps(known)  # Dask looks whether it takes a comm
    async def killed_once(*arguments, **options):
        try:
            os.close(os.open({marker!r}, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            answer = known(*arguments, **options)
            return await answer if hasattr(answer, "__await__") else answer
        os.kill(os.getpid(), signal.SIGKILL)

    worker.handlers[{handler!r}] = killed_once
"""

# Found by every Python process as it starts: the first workers of a local cluster are killed as
# they are forked.
KILLED_AS_IT_STARTS = """\
import os
import signal


def killed():
    for number in range({deaths}):
        try:
            os.close(os.open(f"{folder}/dead-{{number}}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)


os.register_at_fork(after_in_child=killed)
"""


@pytest.fixture(scope="module")
def scheduler(start_once, until, tmp_path_factory):
    """The address of a scheduler that outlives the workers of each test."""
    return await_scheduler(start_once, until, tmp_path_factory.mktemp("scheduler"))[1]


@pytest.mark.parametrize("handler", ["plugin-add", "run"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_worker_is_killed_by_a_call_of_the_set_up(
    handler, count, scheduler, start, command, tmp_path
):
    """Its nanny starts another one, and the call is repeated."""
    marker, preload = tmp_path / "killed", tmp_path / "preload.py"
    preload.write_text(KILLED_BY.format(handler=handler, marker=str(marker)))
    (tmp_path / "small.toml").write_text(SMALL)
    for number in range(count):
        options = ("--nanny", "--preload", preload)
        start_worker(start, scheduler, tmp_path / f"worker-{number}", *options)
    done = command(tmp_path, "run", "small.toml", "--scheduler", scheduler, "--no-summary")
    assert marker.exists()
    assert "Complete: 4 runs" in done.stdout
    assert zarr.open_group(tmp_path / "small.zarr", mode="r").attrs["hosts"]


def test_workers_of_a_local_cluster_are_killed_as_they_start(start, tmp_path, monkeypatch):
    deaths = 5
    text = KILLED_AS_IT_STARTS.format(deaths=deaths, folder=tmp_path)
    (tmp_path / "sitecustomize.py").write_text(text)
    (tmp_path / "small.toml").write_text(SMALL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = start("sweep", "run", "small.toml", "--no-summary", "--workers", 2, cwd=tmp_path)
    printed, errors = run.finish()
    assert run.returncode == 0, errors
    assert len(list(tmp_path.glob("dead-*"))) == deaths
    assert "Complete: 4 runs" in printed and "2 workers" in printed


class Failing:
    """A client of a cluster whose calls fail a number of times."""

    status = "running"

    def __init__(self, times, replaced):
        self.times, self.replaced, self.calls = times, replaced, 0

    def nthreads(self):
        return {f"tcp://{self.calls if self.replaced else 0}": 1}

    def call(self):
        self.calls += 1
        if self.calls <= self.times:
            raise CommClosedError
        return "answer"


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(workers, "AGAIN_SECONDS", 1e-3)


def test_a_call_is_repeated_as_long_as_workers_come_and_go(at_once):
    client = Failing(3 * workers.MOST_TRIES, replaced=True)
    assert workers.ask_cluster_with_retries(client, client.call, lambda: None) == "answer"


def test_a_call_that_fails_whatever_workers_there_are_is_given_up(at_once):
    client = Failing(3 * workers.MOST_TRIES, replaced=False)
    with pytest.raises(CommClosedError):
        workers.ask_cluster_with_retries(client, client.call, lambda: None)
    assert client.calls == workers.MOST_TRIES + 1


def test_a_call_is_not_repeated_when_the_scheduler_is_gone(at_once):
    client = Failing(3, replaced=True)
    client.status, client.nthreads = "closed", dict
    with pytest.raises(CommClosedError):
        workers.ask_cluster_with_retries(client, client.call, lambda: None)
    assert client.calls == 1


def test_the_end_is_asked_for_between_two_tries(at_once):
    client = Failing(10**6, replaced=True)

    def check():
        if client.calls > 2:
            raise InputError("enough")

    with pytest.raises(InputError, match="enough"):
        workers.ask_cluster_with_retries(client, client.call, check)
