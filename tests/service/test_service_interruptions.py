"""Killed or suspended between any two file operations, nothing is lost and nothing is wrong.

Some of the operations are tried, and all of them with ``INTERRUPT_EVERY=1`` in the environment.
"""

import contextlib
import functools
import itertools
import json
import os
import shutil
import signal

import pytest
from interrupting import Process
from study_text import one_experiment
from waiting import HANG

import sweep

KEYS = {
    "integrators": '"rk4"',
    "record": '["energy"]',
    "statistics": '"none"',
    "reference": '{ integrator = "dop853", tolerance = 1e-6 }',
}
TEXT = one_experiment(**KEYS)
GROWN = one_experiment(**KEYS | {"step_size": "[0.1, 0.05, 0.02]"})
OTHER = one_experiment(**KEYS | {"step_size": "[0.02]"})
LONGER = one_experiment(**KEYS | {"duration": "2.0", "samples": "20"})
RUN = "sweep.run('study.toml', 'a.zarr', client(), checkpoint_every=1e-9)"
GROW = "sweep.run('grown.toml', 'a.zarr', client(), checkpoint_every=1e-9)"
EXTEND = "sweep.extend('a.zarr', duration=2.0, client=client())"
REPAIR = "sweep.repair('a.zarr')"
MERGE = "sweep.merge(['a.zarr', 'b.zarr'], 'both.zarr')"
EVERY = int(os.environ.get("INTERRUPT_EVERY", "0"))

# By name: the code, what makes it whole, the store that it ends with, and that one made at once.
ACTIONS = {
    "run": (RUN, RUN, "a.zarr", "a.zarr"),
    "grow": (GROW, GROW, "a.zarr", "grown.zarr"),
    "extend": (EXTEND, EXTEND, "a.zarr", "longer.zarr"),
    "repair": (REPAIR, f"{REPAIR}; {RUN}", "a.zarr", "a.zarr"),
    "merge": (MERGE, MERGE, "both.zarr", "grown.zarr"),
}
MORE = {"run": GROW, "grow": EXTEND, "extend": "", "repair": GROW, "merge": ""}


@pytest.fixture(scope="module")
def whole(run_text, tmp_path_factory):
    """The stores that are complete, by name, each made when it is asked for."""
    place = tmp_path_factory.mktemp("interrupted")
    texts = {"a.zarr": TEXT, "b.zarr": OTHER, "grown.zarr": GROWN, "longer.zarr": LONGER}

    @functools.cache
    def make(name):
        assert run_text(texts[name], place / name).complete
        return place / name

    return make


@pytest.fixture
def done(cluster):
    """Do in a directory, in this process, what is interrupted in others."""

    def do(code, place):
        with contextlib.chdir(place):
            exec(code, {"sweep": sweep, "client": lambda: cluster})

    return do


def prepared(whole, place, action):
    """A directory in which an action has something to do."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / "study.toml").write_text(TEXT)
    (place / "grown.toml").write_text(GROWN)
    if action != "run":
        shutil.copytree(whole("a.zarr"), place / "a.zarr")
    if action == "merge":
        shutil.copytree(whole("b.zarr"), place / "b.zarr")
    if action == "repair":
        for name in ("energy", "step_size", "status"):
            (file, *_) = sorted((place / "a.zarr" / "only" / name).glob("c*"))
            file.write_bytes(file.read_bytes()[:-3])
    return place


def interrupted(whole, place, action, below, every, number):
    """The process that does an action, at each so many of its operations interrupted there.

    Or at each of `every`, where that is several of them. Those below a path alone count; and within
    the store that are hardly a fourth of those that make it.
    """
    several = isinstance(every, tuple)
    for at in every if several else itertools.count(every // 3, EVERY or every):
        prepared(whole, place, action)
        with Process(ACTIONS[action][0], place, at, number, below) as process:
            if not process.was_interrupted():
                return
            yield process


def runs(store):
    """What is recorded of each run, by its id, and what is known of it: as a reader sees it."""
    table = sweep.open_study(store)["only"].to_dataset().load()
    (progress,) = sweep.status(store)
    names = ("energy", "energy_error", "global_error", "steps", "status", "cpu_time")
    found = {}
    for row, name in enumerate(table["run_id"].values.tolist()):
        count = int(table["sample_count"][row])
        if count:
            own = table.isel(run=row, time=slice(count))
            found[name] = count, {key: own[key].values.tobytes() for key in names}
    assert len(found) >= progress.done
    return found


def without_times(found):
    return {name: (count, values | {"cpu_time": b""}) for name, (count, values) in found.items()}


def check_reader(known, store):
    """Whatever was committed is read, right, at any time; what is computed."""
    seen = runs(store)
    for name, (count, values) in seen.items():
        upto, whole = known[name]
        assert count <= upto
        assert whole["energy"].startswith(values["energy"]), name
        assert whole["global_error"].startswith(values["global_error"]), name
    return seen


FEW = [pytest.param("run", "", (70, 270, 330), id="run-new, computing, folding")]
MANY = [
    ("run", "", 120), ("grow", "a.zarr", 75), ("extend", "a.zarr", 80), ("merge", "", 100),
    ("repair", "a.zarr", 20),
]  # fmt: skip


def with_slow(few, many):
    return few + [pytest.param(*pair, marks=pytest.mark.slow) for pair in many]


@pytest.mark.parametrize(("action", "below", "every"), with_slow(FEW, MANY))
def test_killed_at_any_operation(action, below, every, whole, tmp_path, done):
    _, code, name, same = ACTIONS[action]
    place, known, kills = tmp_path / "work", runs(whole(same)), 0
    store, sources = place / name, runs(whole("a.zarr"))
    for _ in interrupted(whole, place, action, below, every, signal.SIGKILL):
        kills += 1
        seen = {}
        if action == "merge":
            assert runs(place / "a.zarr") == sources
        if store.exists() and action != "repair":
            seen = check_reader(known, store)
        if action in ("grow", "extend"):
            assert set(sources) <= set(seen)
        if action == "merge" and store.exists():
            assert without_times(seen) == without_times(known)
            continue
        done(code, place)
        found = runs(store)
        assert without_times(found) == without_times(known)
        for run_id, (count, values) in seen.items():
            if count == known[run_id][0]:  # and not on its way to a longer duration
                assert found[run_id][1]["cpu_time"] == values["cpu_time"], "computed again"
        assert sweep.verify(store) == []
        written = {"study.toml", "grown.toml", "a.zarr", name}
        assert {file.name for file in place.iterdir()} - {"b.zarr"} == written
    assert kills > 1


FEW_ZOMBIES = [pytest.param("run", "a.zarr", (146,), id="run-computing")]
MANY_ZOMBIES = [
    ("run", "", 150), ("grow", "a.zarr", 131), ("extend", "a.zarr", 141), ("merge", "", 120),
    ("repair", "a.zarr", 30),
]  # fmt: skip


@pytest.mark.parametrize(("action", "below", "every"), with_slow(FEW_ZOMBIES, MANY_ZOMBIES))
def test_suspended_at_any_operation_it_changes_nothing_when_it_wakes(
    action, below, every, whole, tmp_path, done
):
    """Another process has taken the store over, and done the same, and more."""
    _, code, name, _ = ACTIONS[action]
    place, zombies = tmp_path / "work", 0
    for zombie in interrupted(whole, place, action, below, every, signal.SIGSTOP):
        locks = list(place.glob("*.lock"))
        if locks and not (action == "merge" and (place / name).exists()):
            zombies += 1
            for lock in locks:
                let_it_die_elsewhere(lock)
            done(f"{code}; {MORE[action]}", place)
            before = state(place)
            zombie.wake()
            assert state(place) == before
        else:
            zombie.kill()
    assert zombies > 0


@pytest.mark.slow
def test_overtaken_while_it_makes_a_store_it_says_that_its_lease_is_lost(whole, tmp_path, done):
    place = prepared(whole, tmp_path / "work", "run")
    with Process(f"print({RUN}.stopped)", place, 90, signal.SIGSTOP) as zombie:
        assert zombie.was_interrupted() and list(place.glob("a.zarr.*.creating"))
        let_it_die_elsewhere(place / "a.zarr.lock")
        done(RUN, place)
        os.kill(zombie.pid, signal.SIGCONT)
        printed, errors = zombie.communicate(timeout=HANG)
    assert zombie.returncode == 0 and "was taken over by" in printed, errors
    assert {file.name for file in place.iterdir()} == {"study.toml", "grown.toml", "a.zarr"}


def let_it_die_elsewhere(lock):
    """Let a lease say that its holder is on another host, from which a heartbeat is due soon."""
    holder, _, counter = lock.read_text().partition("\n")
    said = json.loads(holder) | {"place": "another boot", "host": "node7", "beat_seconds": 0.02}
    lock.write_text(f"{json.dumps(said)}\n{counter}")


def state(place):
    """All that a reader can see of the stores of a directory, and what else is in it."""
    seen = {"files": sorted(file.name for file in place.iterdir())}
    for store in place.glob("*.zarr"):
        assert sweep.verify(store) == []
        tree = sweep.open_study(store)
        seen[store.name] = tree.attrs, runs(store)
        for key, array in tree["only"].to_dataset().load().variables.items():
            text = array.dtype.kind == "O"
            seen[store.name, key] = array.values.tolist() if text else array.values.tobytes()
    return seen
