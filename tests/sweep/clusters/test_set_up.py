"""Workers that die while a run sets up, before any task is computed."""

import pytest
import zarr
from dask_processes import SMALL, start_worker

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


@pytest.mark.slow
@pytest.mark.parametrize(("handler", "count"), [("plugin-add", 1), ("run", 2)])
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


@pytest.mark.slow
def test_workers_of_a_local_cluster_are_killed_as_they_start(start, tmp_path, monkeypatch):
    deaths = 3
    text = KILLED_AS_IT_STARTS.format(deaths=deaths, folder=tmp_path)
    (tmp_path / "sitecustomize.py").write_text(text)
    (tmp_path / "small.toml").write_text(SMALL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = start("sweep", "run", "small.toml", "--no-summary", "--workers", 2, cwd=tmp_path)
    printed, errors = run.finish()
    assert run.returncode == 0, errors
    assert len(list(tmp_path.glob("dead-*"))) == deaths
    assert "Complete: 4 runs" in printed and "2 workers" in printed
