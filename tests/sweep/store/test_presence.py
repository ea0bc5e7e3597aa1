"""A store that is moved, deleted or replaced while a run writes to it, and what is said of it."""

import contextlib
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from study_text import LONG
from waiting import until

from sweep.errors import StoreLost
from sweep.store import progress
from sweep.store.lease.lease import acquire_lease
from sweep.store.lease.presence import Presence
from sweep.store.lease.sessions import Session
from sweep.store.store import Store

STUDY = LONG.replace("random = 68", "random = 2000")  # minutes of work


def until_it_runs(store):
    until((store / "_geosweep" / "in-flight.json").exists)


def deleted(store):
    shutil.rmtree(store, ignore_errors=True)  # workers may write to it just then
    shutil.rmtree(store, ignore_errors=True)


def moved(store):
    store.rename(store.with_name("elsewhere.zarr"))


def replaced(store):
    another = store.with_name("another.zarr")
    without = shutil.ignore_patterns("session", "*.partial")
    with contextlib.suppress(shutil.Error):  # of files that are gone meanwhile
        shutil.copytree(store, another, ignore=without)
    moved(store)
    another.rename(store)


def committed(store):
    return sum(each.done for each in progress.Counter(Store.at(store)).count())


@pytest.mark.parametrize("change", [deleted, moved, replaced])
def test_a_store_that_is_lost_is_said_to_be(tmp_path, called, change):
    (tmp_path / "long.toml").write_text(STUDY)
    store, counted = tmp_path / "long.zarr", []

    def change_it():
        until_it_runs(store)
        change(store)
        counted.append(committed(store) if change is replaced else 0)

    with ThreadPoolExecutor(1) as thread:
        changed = thread.submit(change_it)
        run = called(tmp_path, "run", "long.toml", "--no-summary", "--checkpoint-every", "1")
        changed.result()
    out, errors, replaced_by = run.stdout, run.stderr, counted[0]
    (said,) = [line for line in errors.splitlines() if line.startswith("Error")]
    assert run.returncode == 1 and "Traceback" not in errors
    assert f"the store {store} is" in said and "stays" not in out + errors
    if change is replaced:
        assert "another one than this run wrote to" in said and "move it back" in said
        assert committed(store) == replaced_by  # nothing was written to it
    else:
        assert "is gone: it was moved or deleted" in said and not (store / "zarr.json").exists()
    if change is not deleted:  # back in its place it is whole, and can be counted
        shutil.rmtree(store, ignore_errors=True)
        store.with_name("elsewhere.zarr").rename(store)
        (counted,) = progress.Counter(Store.at(store)).count()
        assert counted.runs == 4000 > counted.done


def test_what_is_said_when(tmp_path):
    store, session = tmp_path / "a.zarr", Session("name", "token", "code")
    new = Presence(Store.at(store))
    assert new.lost() == ""  # it is yet to be made
    (store / "_geosweep").mkdir(parents=True)
    (store / "zarr.json").write_text("{}")
    seen = Presence(Store.at(store))
    seen.note_store()
    Store.at(store).session_file.write_text(session.name)
    seen.begun(session)
    seen.check()
    with pytest.raises(KeyError), seen.noticed():
        raise KeyError
    Store.at(store).session_file.unlink()
    with pytest.raises(StoreLost, match="another one than this run wrote to"):
        seen.check()
    with acquire_lease(Store.at(store)):  # it was taken over: that is said by who lost the lock
        seen.check()
    seen.ended()
    seen.check()
    (store / "zarr.json").unlink()
    with pytest.raises(StoreLost, match="is gone"), seen.noticed():
        raise KeyError


def test_running_runs_are_not_pending():
    found = progress.Progress("a", 10, 4, 3, 1.5, 1, 0, 0.0)
    assert (found.done, found.running, found.pending, found.left, found.failed) == (4, 3, 3, 6, 1)
