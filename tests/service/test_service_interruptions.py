"""Killed or suspended between any two file operations, nothing is lost and nothing is wrong.

Some steps of each action are tried, and all of them with ``INTERRUPT_EVERY=1`` in the environment.
"""

import itertools
import os
import shutil
import signal

import numpy as np
import pytest
from interrupting import Process
from study_text import one_experiment

import sweep
from sweep.campaign.merge.merge import merge
from sweep.campaign.worker.recording import Recording
from sweep.errors import Interrupted
from sweep.store import create, diff, studies
from sweep.store.commit import fold
from sweep.store.lease.sessions import Attempt, Session, code_hash
from sweep.store.store import Store
from sweep.store.upkeep import repair, verify

KEYS = {"integrators": '"rk4"', "record": '["energy"]', "statistics": '"none"'}
GROWN = KEYS | {"step_size": "[0.1, 0.05, 0.02]"}
SESSION = Session("a_session", "", code_hash())
EVERY = int(os.environ.get("INTERRUPT_EVERY", "0"))
OWNER = "owner"  # a file beside the store: whose it is


def parsed(keys):
    return studies.parse_study(one_experiment(**keys))


# --- what is interrupted ------------------------------------------------------------------------


def held(place, owner):
    """A check as that of a lease."""

    def check():
        if (place / OWNER).read_text() != owner:
            raise Interrupted("another process holds the store")

    return check


def create_store(place, owner, keys=KEYS):
    store, study = Store.at(place / "a.zarr"), parsed(keys)
    check = held(place, owner)
    check()
    entries = diff.diff_store_against_study(store, study)
    create.create_or_grow_store(store, study, entries, check)


def grow_store(place, owner):
    fold.settle(Store.at(place / "a.zarr"), held(place, owner))
    create_store(place, owner, GROWN)


def commit(place, owner):
    """Put a checkpoint of a run and the record of all, of which the results are known."""
    store = Store.at(place / "a.zarr")
    known = dict(np.load(place / "known.npz"))
    rows = np.arange(len(known["sample_count"]))
    recording = Recording(
        store, "only", store.arrays_of_group("only"), rows, np.zeros(len(rows), dtype=int),
        known["energy"].shape[1], Attempt(store, SESSION), "identity",
    )  # fmt: skip
    for name, values in known.items():
        recording.columns[name][:] = values
    for samples in (2, 5, 7):
        recording.checkpoint(rows[:2], samples, {"at": np.arange(2.0)})
    recording.done[:] = True
    recording.commit()


def fold_store(place, owner):
    store, check = Store.at(place / "a.zarr"), held(place, owner)
    fold.settle(store, check)
    fold.end_session(store.anew(), check)


def merge_stores(place, owner):
    shutil.rmtree(place / "both.zarr", ignore_errors=True)
    merge([place / "a.zarr", place / "b.zarr"], place / "both.zarr")


def repair_store(place, owner):
    study = parsed(KEYS)
    repair.mend_held_store(Store.at(place / "a.zarr"), lambda: study, check=held(place, owner))


# --- before and after ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(cluster, tmp_path_factory):
    """A directory with a store that is complete, and the same when it was only made."""
    place = tmp_path_factory.mktemp("interrupted")
    sweep.run(parsed(KEYS), place / "a.zarr", cluster)
    sweep.run(parsed(GROWN), place / "grown.zarr", cluster)
    sweep.run(parsed(KEYS | {"step_size": "[0.02]"}), place / "b.zarr", cluster)
    arrays = Store.at(place / "a.zarr").arrays_of_group("only")
    rows = np.arange(arrays["energy"].shape[0])
    known = {name: a.read_rows(rows) for name, a in fold.written_by_tasks(arrays).items()}
    np.savez(place / "known.npz", **known)
    return place


def prepared(whole, place, action):
    """A directory in which an action has something to do."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / OWNER).write_text("first")
    shutil.copy(whole / "known.npz", place)
    if action in (commit, fold_store):
        create_store(place, "first")
        fold.begin_session(Store.at(place / "a.zarr"), SESSION.name)
        if action is fold_store:
            commit(place, "first")
    elif action is not create_store:
        shutil.copytree(whole / "a.zarr", place / "a.zarr")
        shutil.copytree(whole / "b.zarr", place / "b.zarr")
    if action is repair_store:
        for name in ("energy/c.0.0", "step_size/c.0", "status/c.0"):
            file = place / "a.zarr" / "only" / name
            file.write_bytes(file.read_bytes()[:-3])
    return place


def values(store):
    group = Store.at(store).group("only")
    return {name: array[...] for name, array in group.arrays()}


def check_same(one, two):
    for name, expected in one.items():
        if expected.dtype.kind in "TO":
            assert two[name].tolist() == expected.tolist(), name
        else:
            assert two[name].tobytes() == expected.tobytes(), name


def check_reader(whole, place, action):
    """Whatever was committed is read, right, at any time."""
    store = place / "a.zarr"
    if action is create_store and not store.exists():
        return
    if action in (repair_store, merge_stores):
        return
    found = sweep.open_study(store)["only"].to_dataset().load()
    (counted,) = sweep.status(store)
    done = np.flatnonzero(found["sample_count"].values > 0)
    expected = {create_store: (0,), commit: (0, 6)}.get(action, (6,))
    assert counted.done == len(done) and len(done) in expected
    known = values(whole / "a.zarr")
    for name in ("energy", "cpu_time", "sample_count", "status"):
        assert found[name].values[done].tobytes() == known[name][done].tobytes(), name


def check_end(whole, place, action, cluster):
    """What a repeated command made of it is what there would have been."""
    store = place / ("both.zarr" if action is merge_stores else "a.zarr")
    if action is merge_stores:
        assert (values(store)["sample_count"] == 11).sum() == 9
    elif action is grow_store:
        check_same(
            {n: v[:6] for n, v in values(whole / "a.zarr").items() if v.shape[:1] == (6,)},
            {n: v[:6] for n, v in values(store).items()},
        )
        assert values(store)["run_id"].tolist() == values(whole / "grown.zarr")["run_id"].tolist()
    elif action in (commit, fold_store):
        fold_store(place, (place / OWNER).read_text())
        check_same(values(whole / "a.zarr"), values(store))
    elif action in (create_store, repair_store):
        known, found = values(whole / "a.zarr"), values(store)
        names = ("run_id", "step_size", "integrator", "initial_state", "time")
        check_same({name: known[name] for name in names}, found)
        assert not found["sample_count"].any()
    assert verify.verify(store) == []


ACTIONS = {  # every how many steps
    commit: 3, fold_store: 11, create_store: 67, grow_store: 53, merge_stores: 131, repair_store: 3,
}  # fmt: skip


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
def test_killed_at_any_step(whole, tmp_path, cluster, action):
    place, steps = tmp_path / "work", 0
    for at in itertools.count(0, EVERY or ACTIONS[action]):
        prepared(whole, place, action)
        if not Process(action, (place, "first"), place, at, signal.SIGKILL).wait():
            break
        steps += 1
        check_reader(whole, place, action)
        action(place, "first")
        check_end(whole, place, action, cluster)
    assert steps > 2


ZOMBIES = [commit, fold_store, create_store, grow_store, merge_stores, repair_store]


@pytest.mark.parametrize("action", ZOMBIES, ids=lambda action: action.__name__)
def test_suspended_at_any_step_it_changes_nothing_when_it_wakes(whole, tmp_path, cluster, action):
    """Another process has taken the store over, and done the same, and more."""
    place, steps = tmp_path / "work", 0
    for at in itertools.count(0, EVERY or ACTIONS[action]):
        prepared(whole, place, action)
        zombie = Process(action, (place, "first"), place, at, signal.SIGSTOP)
        if not zombie.wait():
            break
        steps += 1
        (place / OWNER).write_text("second")
        check_reader(whole, place, action)
        if action is merge_stores:
            for lease in place.glob("*.lock*"):
                lease.unlink()
            merge_stores(place, "second")
        elif action in (create_store, grow_store):
            action(place, "second")
            fold.settle(Store.at(place / "a.zarr"), held(place, "second"))
            Store.at(place / "a.zarr").root("r+").attrs["more"] = "by the second"
        else:
            if action is repair_store:
                repair_store(place, "second")
            take_over(place)
        before = state(place)
        zombie.wake()
        assert state(place) == before
        check_reader(whole, place, fold_store if action is commit else action)
    assert steps > 2


def take_over(place):
    """A session of another coordinator, which computes what is left."""
    store, check = Store.at(place / "a.zarr"), held(place, "second")
    fold.settle(store, check)
    study = parsed(KEYS)
    entries = diff.diff_store_against_study(store, study)
    session = Session("another_session", "", code_hash())
    fold.begin_session(store, session.name, check)
    if entries[0].pending.any():
        known = np.load(place / "known.npz")
        recording = Recording(
            store, "only", store.arrays_of_group("only"), np.arange(6), np.zeros(6, dtype=int),
            11, Attempt(store, session), "identity",
        )  # fmt: skip
        for name, array in recording.columns.items():
            array[:] = known[name]
        recording.done[:] = True
        recording.commit()
    fold.fold_all(store, session.name, check)


def state(place):
    """All that a reader can see: but for what is nowhere read, as records of who was suspended."""
    seen = {}
    for file in sorted(place.rglob("*.zarr/**/*")):
        hidden = "records" in file.parts or any(part.endswith(".partial") for part in file.parts)
        if file.is_file() and not hidden:
            seen[str(file.relative_to(place))] = file.read_bytes()
    return seen
