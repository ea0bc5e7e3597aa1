"""What a merge of stores says and refuses, and studies of all kinds that it unites."""

import json
import os
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
import zarr
from study_runs import many_experiments
from written_stores import accept, held, lose, run

import sweep
from sweep.errors import StoreError

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


def text(second=False, **changes):
    own = {"only": KEYS | changes} | ({"second": {"initial_condition": '"lee"'}} if second else {})
    return many_experiments(own)


@pytest.fixture(scope="module")
def stores(cluster, tmp_path_factory):
    """Two stores."""
    place = tmp_path_factory.mktemp("merge")
    run(text(), place / "a.zarr", cluster)
    run(text(second=True, **OTHER), place / "b.zarr", cluster)
    return place


@pytest.fixture
def place(stores, tmp_path):
    for name in ("a.zarr", "b.zarr"):
        shutil.copytree(stores / name, tmp_path / name)
    return tmp_path


def merged_of(place, *names, out="out.zarr", **options):
    return sweep.merge([place / name for name in names], place / out, **options)


def tables_in(text):
    return tomllib.loads(text)["experiment"]


def text_in(store):
    (text,) = sweep.open_study(store).attrs["studies"]
    return text


def edit_root(store, **changes):
    """Change attributes of a store."""
    file = Path(store) / "zarr.json"
    root = json.loads(file.read_text())
    root["attributes"] |= changes
    del root["consolidated_metadata"]["seals"]
    file.write_text(json.dumps(root))


@pytest.mark.slow
def test_what_is_merged_is_said(place, command, arrays, assert_same_runs):
    """Of each experiment, which stores its runs are from; the store says it, too."""
    said = command(place, "merge", "a.zarr", "b.zarr", "-o", "both.zarr").stdout
    assert "only: 9 from a.zarr, 13 from b.zarr; 3 of a later store were there already" in said
    assert "second: 4 from b.zarr" in said
    # variational with the third member and at 0.02 is asked for by neither
    assert "Merged: 26 runs" in said and "not computed yet" not in said
    both = place / "both.zarr"
    assert_same_runs(place / "b.zarr", both, "second", timings=True)
    assert text_in(both).startswith(text())
    assert tables_in(text_in(both)) == [*tables_in(text()), *tables_in(text(second=True, **OTHER))]
    assert arrays(both, "only")["in_study"].all()
    shown = command(place, "show", "study", "both.zarr").stdout
    assert text_in(both).rstrip() in shown
    root = zarr.open_group(both, mode="r", use_consolidated=False)
    assert [part["store"] for part in root.attrs["merged"]] == [
        str(place / name) for name in ("a.zarr", "b.zarr")
    ]


def test_what_is_merged_can_be_printed(place):
    only, second, last = str(merged_of(place, "a.zarr", "b.zarr")).splitlines()
    assert only.startswith(f"only: 9 from {place / 'a.zarr'}, 13 from {place / 'b.zarr'}; 3 of ")
    assert second == f"second: 4 from {place / 'b.zarr'}"
    assert last == f"Merged: 26 runs in {place / 'out.zarr'}"


@pytest.mark.slow
def test_runs_that_differ_are_said_with_the_first(place, command, arrays):
    """Times do not count."""
    group = zarr.open_group(place / "b.zarr", path="only", mode="r+", use_consolidated=False)
    ids = arrays(place / "a.zarr", "only")["run_id"].tolist()
    row = next(i for i, name in enumerate(group["run_id"][:].tolist()) if name in ids)
    group["cpu_time"][:] = 17.0
    values = group["energy"][row]
    values[3] = np.nextafter(values[3], 1e9)
    group["energy"][row] = values
    accept(place / "b.zarr")
    refused = command(place, "merge", "a.zarr", "b.zarr", "-o", "out.zarr", code=2).stderr
    assert "1 of 3 runs that are computed in several of the stores differ" in refused
    assert f"and {row} of {place / 'b.zarr'}" in refused and "--prefer-first" in refused
    args = ("merge", "a.zarr", "b.zarr", "-o", "out.zarr", "--prefer-first")
    assert "1 of them with other results" in command(place, *args).stdout


@pytest.mark.slow
def test_pending_and_left_runs_and_three_stores(place, arrays):
    """Pending runs are computed elsewhere or stay pending; a store within another adds nothing."""
    ids = arrays(place / "a.zarr", "only")["run_id"].tolist()
    theirs = arrays(place / "b.zarr", "only")["run_id"].tolist()
    shared = [row for row, name in enumerate(ids) if name in theirs]
    lost = [row for row, name in enumerate(ids) if name not in theirs][:2]
    lose(place / "a.zarr", shared + lost)
    shutil.copytree(place / "a.zarr", place / "c.zarr")
    merged = merged_of(place, "a.zarr", "c.zarr", "b.zarr")
    (only, second) = merged.shares
    assert only.taken == (4, 0, 16) and only.both == 4 and second.taken == (0, 0, 4)
    assert only.pending == 2 and only.runs == 22
    out = arrays(place / "out.zarr", "only")
    waiting = [name for name, n in zip(out["run_id"], out["sample_count"], strict=True) if not n]
    assert {ids[row] for row in lost} == set(waiting)


@pytest.mark.slow
def test_a_store_and_its_copy_give_its_study(place, command):
    lose(place / "a.zarr", [0, 1])
    shutil.copytree(place / "a.zarr", place / "c.zarr")
    assert merged_of(place, "a.zarr", "c.zarr", out="same.zarr").pending == 2
    assert text_in(place / "same.zarr") == text()
    ran = command(place, "run", "same.zarr", "--no-summary")
    assert "(2 of them not computed yet)" in ran.stdout and "Complete: 9 runs" in ran.stdout


# What else the second study says, and why it is refused.
REFUSED = {
    "a scan": ({"scan": "{ gravity = [9.81] }"}, "'gravity' is scanned in one and not in another"),
    "a label": (
        {"integrators": '[{ name = "rk4", label = "variational" }]'},
        "the label 'variational' stands for two integrators; give one another label",
    ),
    "a record": ({"record": '["energy"]'}, "have record = ['energy', 'state'], it has ['energy']"),
    "a system": ({"system": '"nbody_sphere"'}, ", it has 'nbody_sphere'"),
    "a parameter": ({"parameters": "{ gravity = 2.0 }"}, "have parameters = "),
    "a duration": ({"duration": "2.0", "samples": "10"}, "`sweep extend` makes the shorter"),
}
FIRST = ("a scan", "a label", "a record")


@pytest.mark.parametrize(
    "what",
    [what if what in FIRST else pytest.param(what, marks=pytest.mark.slow) for what in REFUSED],
)
def test_studies_that_do_not_unite(what, place, cluster, command, fingerprint):
    changes, words = REFUSED[what]
    if what in FIRST[:2]:  # it is for their studies that they are refused, whatever their runs are
        shutil.copytree(place / "b.zarr", place / "c.zarr")
        edit_root(place / "c.zarr", studies=[text(**changes)])
    else:
        run(text(**changes), place / "c.zarr", cluster)
    mark = fingerprint(place)
    said = command(place, "merge", "a.zarr", "c.zarr", "-o", "out.zarr", code=2).stderr
    assert words in said and "c.zarr" in said
    assert fingerprint(place) == mark


def test_stores_that_are_refused(place, command, monkeypatch, fingerprint):
    def refused(*stores, out="out.zarr", code=2):
        mark = fingerprint(place)
        said = command(place, "merge", *stores, "-o", out, code=code).stderr
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
    damage = refused("a.zarr", "b.zarr", code=3)
    assert "b.zarr: only/energy: chunk c.0.0 fails its checksum" in damage
    chunk.write_bytes(kept)
    kept = (place / "b.zarr/zarr.json").read_text()
    edit_root(place / "b.zarr", format_version=9)
    assert "written by a newer Geosweep" in refused("a.zarr", "b.zarr")
    (place / "b.zarr/zarr.json").write_text(kept)
    other = text().replace('"test"', '"other"')
    edit_root(place / "b.zarr", study_name="other", studies=[other])
    assert "is the store of the study 'test', " in refused("a.zarr", "b.zarr")
    (place / "b.zarr/zarr.json").write_text(kept)
    for allowed in (os.access, lambda path, mode: not mode & os.W_OK):
        with held(place / "b.zarr"), monkeypatch.context() as patch:
            patch.setattr(os, "access", allowed)
            assert "b.zarr is held by" in refused("a.zarr", "b.zarr")


@pytest.mark.slow
def test_a_read_only_source(place, command, monkeypatch):
    """No lock is made beside it, and what is copied of it can be written."""
    for store in ("a.zarr", "b.zarr"):
        for path in [place / store, *(place / store).rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
    allowed, locks = os.access, set()
    with monkeypatch.context() as patch:
        patch.setattr(
            os,
            "access",
            lambda p, mode: allowed(p, mode) and ("creating" in str(p) or mode != os.W_OK),
        )
        merged_of(place, "a.zarr", "b.zarr", progress=lambda *_: locks.update(place.glob("*.lock")))
    assert locks == {place / "out.zarr.lock"}
    assert all(path.stat().st_mode & 0o200 for path in (place / "out.zarr").rglob("*"))
    for path in place.rglob("*"):
        path.chmod(0o755)
    command(place, "run", "out.zarr", "--no-summary")


def test_a_file_of_initial_states_that_changed(place, cluster, command, monkeypatch):
    """Its runs are computed, and no study gives them any more: nothing is left out silently."""
    monkeypatch.chdir(place)
    states = sweep.open_study(place / "a.zarr")["only"]["initial_state"].values[..., ::-1]
    np.save("states.npy", states[:1])
    Path("c.toml").write_text(text(initial_condition='{ file = "states.npy" }'))
    assert sweep.run("c.toml", place / "c.zarr", cluster).complete
    np.save("states.npy", states[1:2])
    refused = command(place, "merge", "a.zarr", "c.zarr", "-o", "out.zarr", code=2).stderr
    assert "c.zarr has 3 runs of experiment 'only' that its study does not give any" in refused
    assert not (place / "out.zarr").exists()


@pytest.mark.slow
def test_cut_short_nothing_is_there(place, monkeypatch):
    rename = os.rename

    def fail(source, target):
        if str(target).endswith("out.zarr"):
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(StoreError, match="out.zarr cannot be written: No space left"):
        merged_of(place, "a.zarr", "b.zarr")
    assert sorted(path.name for path in place.iterdir()) == ["a.zarr", "b.zarr"]


# Of two studies, and what a coordinate is of the runs of both.
PLAIN = {
    "initial_condition": '"lee"', "integrators": '"rk4"', "duration": "0.2",
    "samples": "2", "record": '["energy"]', "statistics": '"none"',
}  # fmt: skip
UNIONS = {
    "scan": (
        {"scan": "{ gravity = [1.0, 9.81] }"},
        {"scan": "{ gravity = { start = 1.0, stop = 3.0, count = 3 } }"},
        ("gravity", [1.0, 9.81, 2.0, 3.0]),
    ),
    "labelled": (
        {"scan": '{ mass = [{ label = "a", value = [1.0, 2.0] }] }'},
        {"scan": '{ mass = [{ label = "b", value = [2.0, 1.0] }] }'},
        ("mass", ["a", "b"]),
    ),
    "zip": (  # in another order
        {"scan": "{ gravity = [1.0, 2.0], length = [1.0, 2.0] }", "zip": '[["gravity", "length"]]'},
        {"scan": "{ length = [2.0, 1.0], gravity = [1.0, 2.0] }", "zip": '[["gravity", "length"]]'},
        ("length", [1.0, 2.0]),
    ),
    "sizes": (
        {"scan": "{ count = [2] }", "initial_condition": "{ random = 2, seed = 1 }"},
        {"scan": "{ count = [3] }", "initial_condition": THREE},
        ("count", [2.0, 3.0]),
    ),
    "range": (
        {"step_size": '{ start = 0.1, stop = 0.01, count = 4, spacing = "log" }'},
        {"step_size": "0.025"},
        ("step_size", [0.1, 0.05, 0.02, 0.01, 0.025]),
    ),
    "integrators": (  # at other steps
        {},
        {"integrators": '["variational"]', "step_size": "0.025"},
        ("integrator", ["rk4", "variational"]),
    ),
    "units": (
        {"time_unit": "0.7", "step_size": "[0.1, 0.05]"},
        {"time_unit": "0.7", "step_size": "{ start = 0.1, stop = 0.02, count = 3 }"},
        ("initial_condition", ["lee"]),
    ),
    "starts": (  # of one label
        {"initial_condition": "{ random = 2, seed = 1 }"},
        {"initial_condition": '[{ random = 2, seed = 2 }, "lee"]'},
        ("ensemble", ["random", "random 2", ""]),
    ),
    "ensemble": (  # that is larger
        {"initial_condition": '[{ random = 2, seed = 1 }, "lee"]'},
        {"initial_condition": '["lee", { random = 3, seed = 1, label = "drawn" }]'},
        ("initial_condition", ["random[0]", "random[1]", "lee", "random[2]"]),
    ),
    "rule": (
        {
            "integrators": '["variational", "rk4"]',
            "exclude": '[{ integrator = "rk4", step_size = ">= 0.1" }]',
        },
        {"integrators": '["variational"]', "exclude": '[{ step_size = ">= 0.1" }]'},
        ("integrator", ["variational", "rk4"]),
    ),
    "repeats": ({"repeat": "2"}, {}, ("repeat", [0, 1])),
}
NAMED_ANEW = {"run", "in_study", "initial_condition", "ensemble"}  # in a store of both
TIMES = {"cpu_time", "wall_time"}


@pytest.mark.slow
def test_merged_studies_have_the_runs_of_both(cluster, command, tmp_path):
    """Those of the first, and then those of the other that it has not; as each describes them."""
    for number, record in enumerate(("energy", "state")):
        keys = {name: PLAIN | union[number] for name, union in UNIONS.items()}
        keys[record] = PLAIN | {"record": None}
        mark, defaults = "[[experiment]]", f'[defaults]\nrecord = ["{record}"]\n'
        written = many_experiments(keys).replace(mark, defaults + mark, 1)
        run(written, tmp_path / f"{number}.zarr", cluster)
    merged_of(tmp_path, "0.zarr", "1.zarr", out="both.zarr")
    one, other, both = (loaded(tmp_path / f"{name}.zarr") for name in (0, 1, "both"))
    assert set(both) == {*UNIONS, "energy", "state"}
    for name, (*_, (column, values)) in UNIONS.items():
        check_union(both[name], one[name], other[name])
        assert list(dict.fromkeys(both[name][column].values.tolist())) == values, name
    for record in ("energy", "state"):  # each has the defaults of its own study
        assert {"energy", "state"} & {*both[record]} == {record}
    shown = command(tmp_path, "show", "study", "both.zarr").stdout
    (tmp_path / "both.toml").write_text("# As a store says.\n" + shown)
    again = command(tmp_path, "run", "both.toml", "both.zarr", "--no-summary").stdout
    assert "Nothing to compute" in again


def loaded(store):
    tree = sweep.open_study(store)
    return {name: group.to_dataset().load() for name, group in tree.children.items()}


def check_union(both, *parts):
    ids = [dict.fromkeys(part["run_id"].values.tolist()) for part in (both, *parts)]
    assert list(ids[0]) == list(ids[1] | ids[2]), "runs"
    for part, without in zip(parts, (set(), TIMES), strict=True):
        rows = [list(ids[0]).index(name) for name in part["run_id"].values.tolist()]
        found = both.isel(run=rows, row=slice(part.sizes["row"]))
        for key in set(part.variables) - NAMED_ANEW - {"row"} - without:
            np.testing.assert_array_equal(found[key].values, part[key].values, key)
