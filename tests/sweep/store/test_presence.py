"""A store that is moved, deleted or replaced while a run writes to it, and what is said of it."""

import contextlib
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from study_text import LONG
from waiting import until

import sweep

STUDY = LONG.replace("random = 68", "random = 2000")  # some minutes of work


def deleted(store):
    shutil.rmtree(store, ignore_errors=True)  # workers may write to it just then
    shutil.rmtree(store, ignore_errors=True)


def moved(store):
    store.rename(store.with_name("elsewhere.zarr"))


def replaced(store):
    another = store.with_name("another.zarr")
    without = shutil.ignore_patterns("session.json", "*.partial")
    with contextlib.suppress(shutil.Error):  # of files that are gone meanwhile
        shutil.copytree(store, another, ignore=without)
    moved(store)
    another.rename(store)


def committed(store):
    return sum(progress.done for progress in sweep.status(store))


@pytest.mark.slow
@pytest.mark.parametrize("change", [moved, deleted, replaced])
def test_a_store_that_is_lost_is_said_to_be(tmp_path, called, change):
    (tmp_path / "long.toml").write_text(STUDY)
    store = tmp_path / "long.zarr"

    def change_it():
        until(lambda: store.exists() and sweep.status(store)[0].running)
        change(store)
        return committed(store) if change is replaced else 0

    with ThreadPoolExecutor(1) as thread:
        changed = thread.submit(change_it)
        run = called(tmp_path, "run", "long.toml", "--no-summary", "--checkpoint-every", "1")
        counted = changed.result()
    out, errors = run.stdout, run.stderr
    (said,) = [line for line in errors.splitlines() if line.startswith("Error")]
    assert run.returncode == 1 and "Traceback" not in errors
    assert f"the store {store} is" in said and "stays" not in out + errors
    if change is replaced:
        assert "is not the one that this run wrote to" in said and "move it back" in said
        assert committed(store) == counted  # nothing was written to it
    else:
        assert "is gone: it was moved or deleted" in said and not (store / "zarr.json").exists()
    if change is not deleted:  # back in its place it is whole, and can be counted
        shutil.rmtree(store, ignore_errors=True)
        store.with_name("elsewhere.zarr").rename(store)
        (progress,) = sweep.status(store)
        assert progress.runs == 4000 > progress.done
