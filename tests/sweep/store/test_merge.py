"""Stores that were made apart become one, as if one study had been run in one place."""

import json
import os
import shutil

import numpy as np
import pytest
import zarr
from study_text import one_experiment

import sweep
from sweep.campaign import coordinator
from sweep.campaign.merge import copy_rows, merge
from sweep.campaign.merge import sources as merge_sources
from sweep.errors import StoreError
from sweep.store import create, diff, studies
from sweep.store.store import Store
from sweep.store.upkeep import verify
from sweep.study import model
from sweep.study.run_table import expand_experiment

KEYS = {
    "integrators": '["variational", { name = "rk45", tolerance = 1e-4 }]',
    "step_size": "[0.1, 0.05]   # coarse ones",
    "initial_condition": '["lee", { random = 2, seed = 1 }]',
    "record": '["energy", "state"]',
    "reference": '{ integrator = "dop853", tolerance = 1e-9, until = 0.5 }',
    "samples": "5",
}
OTHER = {
    "integrators": '["rk4", { name = "rk45", tolerance = [1e-4, 1e-5] }]',
    "step_size": "[0.1, 0.02]",
    "initial_condition": '["lee", { random = 3, seed = 1 }]',
}
THREE = "{ q = [[1, 0, 0], [0, 1, 0], [0, 0, 1]], omega = [[0, 0, 0], [0, 0, 0], [0, 0, 0]] }"
SECOND = one_experiment(name='"second"', initial_condition='"lee"').partition("[[")[2]


def text(second=False, **changes):
    written = one_experiment(**KEYS | changes)
    return written + ("[[" + SECOND if second else "")


class Counts(coordinator.Watcher):
    """Counts the runs that are computed."""

    computed = 0

    def progressed(self, task, receipt):
        self.computed += receipt.runs


@pytest.fixture(scope="module")
def stores(cluster, tmp_path_factory):
    """Two stores, and one of what both ask for."""
    place = tmp_path_factory.mktemp("merge")
    for name, written in (("a", text()), ("b", text(second=True, **OTHER))):
        assert sweep.run(studies.parse_study(written), place / f"{name}.zarr", cluster).complete
    return place


@pytest.fixture
def place(stores, tmp_path):
    for name in ("a.zarr", "b.zarr"):
        shutil.copytree(stores / name, tmp_path / name)
    return tmp_path


def test_two_stores_are_one(place, cluster, command, arrays, assert_same_runs, fingerprint):
    before = fingerprint(place / "a.zarr"), fingerprint(place / "b.zarr")
    said = command(place, "merge", "a.zarr", "b.zarr", "-o", "both.zarr").stdout
    assert (fingerprint(place / "a.zarr"), fingerprint(place / "b.zarr")) == before
    assert "only: 9 from a.zarr, 13 from b.zarr; 3 of a later store were there already" in said
    assert "second: 4 from b.zarr" in said
    both = place / "both.zarr"
    for name in ("a.zarr", "b.zarr"):
        ids = arrays(place / name, "only")["run_id"].tolist()
        assert_same_runs(place / name, both, "only", runs=ids, timings=name == "a.zarr")
    assert_same_runs(place / "b.zarr", both, "second", timings=True)
    # variational with the third member and at 0.02 is asked for by neither
    merged = studies.stored_study(both)
    assert merged.texts == (text(), text(second=True, **OTHER))
    assert "Merged: 26 runs" in said and "not computed yet" not in said
    assert arrays(both, "only")["in_study"].all()
    shown = command(place, "show", "study", "both.zarr").stdout
    assert all(part in shown for part in merged.texts) and "# --- study 2 of 2" in shown
    assert verify.verify(both) == []
    assert not [p.name for p in place.iterdir() if p.name.endswith((".lock", ".creating"))]
    watcher = Counts()
    assert sweep.run(both, client=cluster, watcher=watcher).complete
    assert watcher.computed == 0
    whole = place / "whole.zarr"
    assert sweep.run(both, whole, cluster).complete
    assert_same_runs(whole, both, "only")
    for group in ("_geosweep/references/only", "_geosweep/ends.only"):
        mine, theirs = arrays(both, group), arrays(whole, group)
        assert set(mine) == set(theirs)
    root = zarr.open_group(both, mode="r", use_consolidated=False)
    assert [part["store"] for part in root.attrs["merged"]] == [
        str(place / name) for name in ("a.zarr", "b.zarr")
    ]
    assert studies.study_with_longer_duration(merged, 2.0).experiments[0].samples == 10


def test_runs_that_differ(place, command, arrays):
    """Said with the first; the first store's are taken if that is asked for."""
    group = zarr.open_group(place / "b.zarr", path="only", mode="r+", use_consolidated=False)
    ids = arrays(place / "a.zarr", "only")["run_id"].tolist()
    row = next(i for i, name in enumerate(group["run_id"][:].tolist()) if name in ids)
    group["cpu_time"][row] = 17.0
    command(place, "merge", "a.zarr", "b.zarr", "-o", "same.zarr")
    values = group["energy"][row]
    values[3] = np.nextafter(values[3], 1e9)
    group["energy"][row] = values
    refused = command(place, "merge", "a.zarr", "b.zarr", "-o", "out.zarr", code=2).stderr
    assert "1 of 3 runs that are computed in several of the stores differ" in refused
    assert f"and {row} of {place / 'b.zarr'}" in refused and "--prefer-first" in refused
    assert not (place / "out.zarr").exists()
    args = ("merge", "a.zarr", "b.zarr", "-o", "out.zarr", "--prefer-first")
    assert "1 of them with other results" in command(place, *args).stdout
    out = arrays(place / "out.zarr", "only")
    mine = out["energy"][out["run_id"].tolist().index(group["run_id"][row])]
    assert mine.tobytes() == arrays(place / "a.zarr", "only")["energy"][ids.index(
        group["run_id"][row]
    )].tobytes()  # fmt: skip


def test_pending_and_left_runs_and_three_stores(place, cluster, command, arrays):
    """Pending runs are computed elsewhere or stay pending; a store within another adds nothing."""
    from sweep.store.upkeep.mark import mark_runs_not_computed

    ids = arrays(place / "a.zarr", "only")["run_id"].tolist()
    theirs = arrays(place / "b.zarr", "only")["run_id"].tolist()
    shared = [row for row, name in enumerate(ids) if name in theirs]
    lost = [row for row, name in enumerate(ids) if name not in theirs][:2]
    mark_runs_not_computed(Store.at(place / "a.zarr"), "only", np.array(shared + lost))
    shutil.copytree(place / "a.zarr", place / "c.zarr")
    merged = merge.merge([place / n for n in ("a.zarr", "c.zarr", "b.zarr")], place / "out.zarr")
    (only, second) = merged.shares
    assert only.taken == (4, 0, 16) and only.both == 4 and second.taken == (0, 0, 4)
    assert only.pending == 2 and only.runs == 22
    out = arrays(place / "out.zarr", "only")
    waiting = [name for name, n in zip(out["run_id"], out["sample_count"], strict=True) if not n]
    assert {ids[row] for row in lost} == set(waiting)
    same = merge.merge([place / "a.zarr", place / "c.zarr"], place / "same.zarr")
    assert studies.stored_study(place / "same.zarr").texts == (text(),)
    assert same.pending == 5
    ran = command(place, "run", "same.zarr", "--no-summary")
    assert "(5 of them not computed yet)" in ran.stdout and "Complete: 9 runs" in ran.stdout


REFUSED = {
    "a system": ({"system": '"nbody_sphere"'}, "has system = 'nbody_sphere' there"),
    "a parameter": ({"parameters": "{ gravity = 2.0 }"}, "has parameters = "),
    "a record": ({"record": '["energy"]'}, "has record = ['energy'] there"),
    "a duration": ({"duration": "2.0", "samples": "10"}, "`sweep extend` makes the shorter"),
    "a scan": ({"scan": "{ gravity = [9.81] }"}, "'gravity' is scanned in one study and not in"),
    "a label": (
        {"integrators": '[{ name = "rk4", label = "variational" }]'},
        "the label 'variational' stands for two integrators; give one another label",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_studies_that_do_not_unite(what, place, command, fingerprint):
    """It is for their studies that they are refused: of the third one no run is computed."""
    changes, words = REFUSED[what]
    parsed = studies.parse_study(text(**changes))
    store = Store.at(place / "c.zarr")
    create.create_or_grow_store(store, parsed, diff.diff_store_against_study(store, parsed))
    mark = fingerprint(place)
    said = command(place, "merge", "a.zarr", "c.zarr", "-o", "out.zarr", code=2).stderr
    assert words in said and "c.zarr" in said
    assert fingerprint(place) == mark


def test_stores_that_are_refused(place, command, monkeypatch, fingerprint):
    from sweep.store.lease.lease import acquire_lease

    def refused(*stores, out="out.zarr"):
        mark = fingerprint(place)
        said = command(place, "merge", *stores, "-o", out, code=2).stderr
        assert fingerprint(place) == mark
        return said

    assert "needs two stores or more, each named once" in refused("a.zarr")
    assert "needs two stores or more" in refused("a.zarr", "./a.zarr")
    assert "there is no store to merge" in refused("a.zarr", "none.zarr")
    assert "exists: a merge makes a new store" in refused("a.zarr", "b.zarr", out="b.zarr")
    assert "give a path beside it" in refused("a.zarr", "b.zarr", out="b.zarr/out.zarr")
    chunk = min((place / "b.zarr/only/energy").glob("c.*"))
    kept = chunk.read_bytes()
    chunk.write_bytes(kept[:-9] + b"x" + kept[-8:])
    assert "b.zarr is damaged: only/energy fails its checksum" in refused("a.zarr", "b.zarr")
    chunk.write_bytes(kept)
    file = place / "b.zarr/zarr.json"
    kept = file.read_text()
    for key, value, words in (
        ("format_version", 9, "written by a newer Geosweep"),
        ("study_name", "other", "is the store of the study 'test', "),
    ):
        root = json.loads(kept)
        root["attributes"][key] = value
        if key == "study_name":
            root["attributes"]["studies"] = [text().replace('"test"', '"other"')]
        file.write_text(json.dumps(root))
        assert words in refused("a.zarr", "b.zarr")
    file.write_text(kept)
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    with acquire_lease(Store.at(place / "b.zarr")):
        said = command(place, "merge", "a.zarr", "b.zarr", "-o", "out.zarr", code=2).stderr
        assert "b.zarr is held by" in said and not (place / "out.zarr").exists()
    monkeypatch.undo()


def test_a_read_only_source(place, command, monkeypatch, fingerprint):
    """No lock is made beside it, and what is copied of it can be written."""
    for store in ("a.zarr", "b.zarr"):
        for path in [place / store, *(place / store).rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda p, mode: allowed(p, mode) and ("creating" in str(p) or mode != os.W_OK)
    )
    held = []
    for module in (merge, merge_sources):
        monkeypatch.setattr(module, "acquire_lease", _recorded(merge.acquire_lease, held))
    merge.merge([place / "a.zarr", place / "b.zarr"], place / "out.zarr")
    monkeypatch.undo()
    assert held == [Store.at(place / "out.zarr")]
    assert all(path.stat().st_mode & 0o200 for path in (place / "out.zarr").rglob("*"))
    for path in place.rglob("*"):
        path.chmod(0o755)
    command(place, "run", "out.zarr", "--no-summary")


def _recorded(acquire, held):
    def acquire_and_note(store):
        held.append(store)
        return acquire(store)

    return acquire_and_note


def test_a_file_of_initial_states_that_changed(place, cluster, command, monkeypatch):
    """Its runs are computed, and no study gives them any more: nothing is left out silently."""
    monkeypatch.chdir(place)
    states = sweep.open_study(place / "a.zarr")["only"]["initial_state"].values[..., ::-1]
    np.save("states.npy", states[:1])
    written = text(initial_condition='{ file = "states.npy" }')
    assert sweep.run(studies.parse_study(written), place / "c.zarr", cluster).complete
    command(place, "merge", "a.zarr", "c.zarr", "-o", "both.zarr")
    np.save("states.npy", states[1:2])
    refused = command(place, "merge", "a.zarr", "c.zarr", "-o", "out.zarr", code=2).stderr
    assert "c.zarr has 3 runs of experiment 'only' that its study does not give any" in refused
    assert not (place / "out.zarr").exists()


UNIONS = {
    "a scan": (
        {"scan": "{ gravity = [1.0, 9.81] }"},
        {"scan": "{ gravity = { start = 1.0, stop = 3.0, count = 3 } }"},
        ("gravity", [1.0, 9.81, 2.0, 3.0]),
    ),
    "labelled values": (
        {"scan": '{ mass = [{ label = "a", value = [1.0, 2.0] }] }'},
        {"scan": '{ mass = [{ label = "b", value = [2.0, 1.0] }] }'},
        ("mass", ["a", "b"]),
    ),
    "axes that advance together, in another order": (
        {"scan": "{ gravity = [1.0, 2.0], length = [1.0, 2.0] }", "zip": '[["gravity", "length"]]'},
        {"scan": "{ length = [2.0, 1.0], gravity = [1.0, 2.0] }", "zip": '[["gravity", "length"]]'},
        ("length", [1.0, 2.0]),
    ),
    "systems of other sizes": (
        {"scan": "{ count = [2] }", "initial_condition": "{ random = 2, seed = 1 }"},
        {"scan": "{ count = [3] }", "initial_condition": THREE},
        ("count", [2.0, 3.0]),
    ),
    "a range": (
        {"step_size": '{ start = 0.1, stop = 0.01, count = 4, spacing = "log" }'},
        {"step_size": "0.025"},
        ("step_size", [0.1, 0.05, 0.02, 0.01, 0.025]),
    ),
    "other integrators at other steps": (
        {"integrators": '["rk4"]'},
        {"integrators": '["variational"]', "step_size": "0.025"},
        ("integrator", ["rk4", "variational"]),
    ),
    "times in units": (
        {"time_unit": "0.7", "step_size": "[0.1, 0.05]"},
        {"time_unit": "0.7", "step_size": "{ start = 0.1, stop = 0.02, count = 3 }"},
        ("initial_condition", ["lee"]),
    ),
    "starts of one label": (
        {"initial_condition": "{ random = 2, seed = 1 }"},
        {"initial_condition": '[{ random = 2, seed = 2 }, "lee"]'},
        ("ensemble", ["random", "random 2", ""]),
    ),
    "an ensemble that is larger": (
        {"initial_condition": '[{ random = 2, seed = 1 }, "lee"]'},
        {"initial_condition": '["lee", { random = 3, seed = 1, label = "drawn" }]'},
        ("initial_condition", ["random[0]", "random[1]", "lee", "random[2]"]),
    ),
    "a rule": (
        {"exclude": '[{ integrator = "rk4", step_size = ">= 0.1" }]'},
        {"integrators": '["variational"]', "exclude": '[{ step_size = ">= 0.1" }]'},
        ("integrator", ["variational", "rk4"]),
    ),
    "repeats": ({"repeat": "2"}, {}, ("repeat", [0, 1])),
}


@pytest.mark.parametrize("what", UNIONS)
def test_united_studies_have_the_runs_of_both(what, tmp_path):
    """Those of the first, and then those of the other that it has not; as each describes them."""
    plain = {"initial_condition": '"lee"', "integrators": '["variational", "rk4"]'}
    *own, (name, values) = UNIONS[what]
    one, other = (studies.parse_study(one_experiment(**plain | keys)) for keys in own)
    made = model.unite_studies([one, other])
    assert made.texts == (one.toml(), other.toml())
    *tables, united = (expand_experiment(study.experiments[0]) for study in (one, other, made))
    ids = dict.fromkeys([run_id for table in tables for run_id in table.run_id.tolist()])
    assert united.run_id.tolist() == list(ids)
    assert list(dict.fromkeys(united.column(name).tolist())) == values
    for table in tables:
        rows = np.array([list(ids).index(run_id) for run_id in table.run_id.tolist()])
        for column in ("integrator", "step_size", "tolerance", "repeat", *table.scan):
            np.testing.assert_array_equal(united.column(column)[rows], table.column(column))
        for run, row in enumerate(rows):
            mine, system = table.systems[table.system_index[run]], united.systems
            assert system[united.system_index[row]].parameters == mine.parameters
            np.testing.assert_array_equal(united.initial_state(row), table.initial_state(run))
    (tmp_path / "both.toml").write_text("# As a store says.\n" + made.toml())
    read = sweep.load_study(tmp_path / "both.toml")
    assert read.texts == made.texts
    assert expand_experiment(read.experiments[0]).run_id.tolist() == list(ids)
    again = model.unite_studies([made, one])
    assert again.experiments == made.experiments and again.texts == made.texts
    assert made.experiments[0].expanded()["parts"] == [
        study.experiments[0].expanded() for study in (one, other)
    ]


def test_defaults_that_differ():
    texts = [
        'format = 1\nname = "test"\n[defaults]\nsamples = 10\n'
        + own
        + f'[[experiment]]  # {name}\nname = "{name}"\nsystem = "nbody_sphere"\n'
        'integrators = "rk4"\ninitial_condition = "lee"\nduration = 1.0\nstep_size = 0.1\n'
        for name, own in (("one", 'record = ["energy"]\n'), ("two", 'record = ["state"]\n'))
    ]
    one, other = map(studies.parse_study, texts)
    made = model.unite_studies([one, other])
    assert made.experiments == (*one.experiments, *other.experiments)
    assert [e.record for e in made.experiments] == [("energy",), ("state",)]


def test_blocks_of_rows(tmp_path, monkeypatch):
    """Whatever the chunks, and in any order, as plain indexing."""
    monkeypatch.setattr(copy_rows, "BLOCK_BYTES", 1500)
    root = zarr.open_group(tmp_path / "x", mode="w")
    random = np.random.default_rng(1)
    for name, chunks in (("one", (8, 4, 2)), ("two", (3, 7, 2))):
        array = root.create_group(name).create_array(
            "x", shape=(50, 11, 2), chunks=chunks, dtype="f8", fill_value=np.nan
        )
        array[:] = random.normal(size=array.shape)
    theirs, own = random.permutation(50)[:23], random.permutation(50)[:23]
    expected = root["two/x"][:]
    expected[own] = root["one/x"][:][theirs]
    copy_rows.copy_rows(root["one"], theirs, root["two"], own, ["x"])
    np.testing.assert_array_equal(root["two/x"][:], expected)


def test_cut_short_nothing_is_there(place, monkeypatch):
    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(merge, "copy_rows", fail)
    with pytest.raises(StoreError, match="out.zarr cannot be written: No space left"):
        merge.merge([place / "a.zarr", place / "b.zarr"], place / "out.zarr")
    assert sorted(path.name for path in place.iterdir()) == ["a.zarr", "b.zarr"]
