"""Damage of every kind is found, said plainly and mended; what runs again comes out the same."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from study_text import one_experiment
from written_stores import chunks, flip_bit, run

import sweep
from integrators import InputError
from sweep.errors import Damaged

TEXT = one_experiment(
    scan="{ gravity = [1.0, 9.81] }",
    step_size="0.01",
    initial_condition='["lee", { around = "lee", random = 2, spread = 1e-2, seed = 1 }]',
    record='["energy", "unit_length", "state"]',
    duration="11.0",
    samples="1100",
    reference='{ integrator = "dop853", tolerance = 1e-9, until = 0.06 }',
)
RUNS, ROWS = 12, 4  # of which a chunk of states has so many
REFERENCES = "_geosweep/references/only"
# Of each kind of array that the coordinator writes.
COORDINATES = {"time", "row", "component", "step_size", "gravity", "integrator", "adaptive"}
COORDINATES |= {"initial_condition", "in_study", "run", "initial_state"}


@pytest.fixture(scope="module")
def whole(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("verify") / "test.zarr"
    run(TEXT, path, cluster)
    states = zarr.open_array(path / "only/state", mode="r")
    assert states.shape[0] == RUNS and states.chunks[:2] == (ROWS, 1024)
    return path


@pytest.fixture
def copy(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "test.zarr"))


@pytest.fixture
def check_same(arrays):
    """Assert that all arrays of a group agree bit for bit, rows too."""

    def check(one, two):
        a, b = arrays(one, "only"), arrays(two, "only")
        assert set(a) == set(b)
        for name in a:
            same = a[name].tolist() == b[name].tolist() if a[name].dtype.kind in "UTO" else None
            assert same if same is not None else a[name].tobytes() == b[name].tobytes(), name

    return check


def damage(group, names):
    """Flip a bit of a chunk of each array."""
    for name in names:
        flip_bit(chunks(group / name)[0], 5)


def counts(store):
    return sweep.open_study(store)["only"]["sample_count"].values


def test_a_store_that_is_sound(whole, fingerprint):
    before, seen = fingerprint(whole), []
    assert sweep.verify(whole, lambda done, of: seen.append((done, of))) == []
    assert seen[-1][0] == seen[-1][1] > 50
    assert fingerprint(whole) == before


def test_a_bit_of_a_series_costs_the_runs_of_its_chunk(
    copy, whole, cluster, arrays, assert_same_runs
):
    flip_bit(copy / "only/state/c.0.0.0.0", 5)
    (finding,) = sweep.verify(copy)
    rows = finding.rows.tolist()
    assert (finding.place, finding.array, finding.remedy) == ("only", "state", "run")
    assert "checksum" in finding.text and finding.runs == ROWS
    assert rows == list(range(rows[0], rows[0] + ROWS)) and rows[0] % ROWS == 0
    mended = sweep.repair(copy)
    assert mended.marked == {"only": ROWS} and not mended.left
    assert sweep.verify(copy) == []
    only = sweep.open_study(copy)["only"]
    assert np.flatnonzero(only["sample_count"] == 0).tolist() == rows
    assert (only["status"][rows] == -1).all()
    run(TEXT, copy, cluster)
    assert_same_runs(whole, copy, "only")
    again = arrays(copy, "only")["cpu_time"] != arrays(whole, "only")["cpu_time"]
    assert np.flatnonzero(again).tolist() == rows


@pytest.mark.parametrize(
    "names",
    [COORDINATES, pytest.param({"run_id"}, marks=pytest.mark.slow)],
    ids=["coordinates", "ids"],
)
def test_bits_of_what_the_study_says(copy, whole, names, check_same):
    damage(copy / "only", names)
    found = sweep.verify(copy)
    assert {f.array for f in found} == names and {f.remedy for f in found} == {"study"}
    mended = sweep.repair(copy)
    assert mended.marked == {} and not mended.left
    check_same(whole, copy)


@pytest.mark.slow
def test_bits_of_references(copy, whole, check_same):
    names = {"error", "run_id", "states", "initial_state"}
    damage(copy / REFERENCES, names)
    found = sweep.verify(copy)
    assert {(f.place, f.array) for f in found} == {(REFERENCES, name) for name in names}
    mended = sweep.repair(copy)
    assert not mended.left and "only" not in mended.marked
    assert sweep.verify(copy) == []
    check_same(whole, copy)


def test_a_file_of_results_that_is_gone(copy, command):
    """The plain commands see it, too."""
    (file,) = chunks(copy / "only/state")
    file.unlink()
    for arguments in (("status",), ("query", "step_size > 0"), ("order",)):
        said = command(copy.parent, arguments[0], "test.zarr", *arguments[1:], code=3).stderr
        assert "state/c.0" in said and "is not there" in said and "sweep verify" in said
    (finding,) = sweep.verify(copy)
    assert (finding.array, finding.text) == ("state", "is not there")
    assert sweep.repair(copy).marked == {"only": RUNS} and sweep.verify(copy) == []


def test_a_ledger_that_is_gone_is_missed_though_nothing_is_computed(copy):
    chunks(copy / "only/sample_count")[0].unlink()
    assert sweep.repair(copy).marked == {"only": RUNS} and not counts(copy).any()
    (copy / "_geosweep/folded/only.json").unlink()
    (finding,) = sweep.verify(copy)
    assert (finding.place, finding.text) == ("only", "is not there")
    assert not sweep.repair(copy).left and sweep.verify(copy) == []


@pytest.mark.slow
def test_of_many_runs_those_of_a_file_are_lost(cluster, tmp_path, assert_same_runs):
    text = one_experiment(
        integrators='"rk4"', step_size="0.1", samples="1", record='["energy"]',
        initial_condition='{ around = "lee", random = 4200, spread = 0.1, seed = 1 }',
    )  # fmt: skip
    store, whole = tmp_path / "test.zarr", tmp_path / "whole.zarr"
    run(text.replace("4200", "2"), whole, cluster)  # which has room in a file for fewer
    run(text, whole, cluster)
    shutil.copytree(whole, store)
    rows = zarr.open_array(store / "only/energy", mode="r").shards[0]
    chunks(store / "only/energy")[1].unlink()
    (finding,) = sweep.verify(store)
    assert finding.rows.tolist() == list(range(rows, 4200))
    assert sweep.repair(store).marked == {"only": 4200 - rows} and sweep.verify(store) == []
    run(text, store, cluster)
    assert_same_runs(whole, store, "only")


def test_metadata_that_are_gone(copy, whole, arrays):
    (copy / "only/energy/zarr.json").unlink()
    (copy / "only/steps/zarr.json").write_text('{"shape": [64')
    shutil.rmtree(copy / "only/unit_length_error")
    found = {f.array for f in sweep.verify(copy) if f.remedy == "copy"}
    assert found == {"energy", "steps", "unit_length_error"}
    mended = sweep.repair(copy)
    assert not mended.left and mended.marked == {"only": RUNS}
    assert set(arrays(copy, "only")) == set(arrays(whole, "only"))


@pytest.mark.slow
def test_a_damaged_checkpoint_of_an_end_costs_no_result(copy, whole, cluster, assert_same_runs):
    """It is removed; when the runs are extended, they are computed from their start."""
    (file,) = (copy / "_geosweep/ends.only").rglob("c.0.*")
    file.write_bytes(file.read_bytes()[:-9])
    (finding,) = sweep.verify(copy)
    assert finding.place == "_geosweep/ends.only"
    assert not sweep.repair(copy).left and sweep.verify(copy) == []
    assert (counts(copy) == 1101).all()
    longer = Path(shutil.copytree(whole, copy.with_name("longer.zarr")))
    for store in (copy, longer):
        assert sweep.extend(store, duration=11.1, client=cluster).complete
    assert_same_runs(longer, copy, "only")


def test_checkpoints_of_other_kernels_leave_a_store_that_grows(copy, cluster):
    """Of runs and of references; it is sound, and such runs would begin anew."""
    for group in ("_geosweep/ends.only", REFERENCES):
        zarr.open_group(copy / group, mode="r+", use_consolidated=False).attrs["code"] = "other"
    text = TEXT.replace("step_size = 0.01", "step_size = [0.01, 0.005]")
    assert text != TEXT
    run(text, copy, cluster)
    assert sweep.verify(copy) == []


@pytest.mark.parametrize("names", [("energy", "energy_error"), ("steps", "evaluations")])
def test_a_chunk_of_another_place_is_found(copy, names):
    one, other = (chunks(copy / "only" / name)[0] for name in names)
    one.write_bytes(other.read_bytes())
    (finding,) = sweep.verify(copy)
    assert (finding.array, finding.remedy, finding.runs) == (names[0], "run", RUNS)
    assert "checksum" in finding.text
    assert sweep.repair(copy).marked == {"only": RUNS} and sweep.verify(copy) == []


def test_an_older_copy_of_a_file_is_found(copy, whole, cluster):
    """As where a part of a backup was put back over an extended store.

    What an extension does not write, it does not take for right: initial states of references.
    """
    states = "initial_state/c.0.0.0"
    shutil.copy(copy / "only" / states, copy / REFERENCES / states)
    assert sweep.extend(copy, duration=11.1, client=cluster).complete
    shutil.copy(whole / "only/state/c.0.0.0.0", copy / "only/state/c.0.0.0.0")
    shutil.copy(whole / "only/time/c.0", copy / "only/time/c.0")
    assert {(f.array, f.remedy) for f in sweep.verify(copy)} == {
        ("state", "run"),
        ("time", "study"),
        ("initial_state", "study"),
    }
    assert not sweep.repair(copy).left and sweep.verify(copy) == []


def test_every_file_is_checked_or_told_to_be_foreign(copy, whole, check_same):
    """Metadata of another array, a list instead of them, a folder instead of a file, and notes."""
    shutil.copy(copy / "only/steps/zarr.json", copy / "only/energy/zarr.json")
    (copy / "only/status/zarr.json").write_text("[]")
    (copy / "_geosweep/session.json").write_text("{}")
    (copy / "only/step_size/c.0").unlink()
    (copy / "only/step_size/c.0").mkdir()
    (copy / "only/notes.txt").write_text("precious")
    shutil.copy(copy / "only/cpu_time/c.0", copy / "only/integrator/c.0")
    shutil.copy(copy / "only/energy/c.0.0", copy / "only/energy/c.1.0")
    found = {(f.place, f.array): f.remedy for f in sweep.verify(copy)}
    assert found == {
        ("only", "energy"): "copy", ("only", "status"): "copy", ("only", "step_size"): "study",
        ("only", "integrator"): "study",
        ("_geosweep/session.json", ""): "remove", ("only/energy/c.1.0", ""): "remove",
        ("only/notes.txt", ""): "foreign",
    }  # fmt: skip
    mended = sweep.repair(copy)
    assert mended.marked == {} and [f.remedy for f in mended.left] == ["foreign"]
    assert (copy / "only/notes.txt").read_text() == "precious"
    check_same(whole, copy)


def test_a_root_with_other_bits_is_said(copy, command):
    """Of what it says of the study there is no copy; of its copies of metadata there is."""
    root = copy / "zarr.json"
    written = root.read_text()
    root.write_text(written.replace('"duration": 11.0', '"duration": 12.0'))
    said = command(copy.parent, "status", "test.zarr", code=3).stderr
    assert "zarr.json fails its checksum" in said and "verify test.zarr --repair" in said
    assert not sweep.repair(copy).left and sweep.verify(copy) == []
    root.write_text(written.replace('"study_name": "', '"study_name": "a'))
    for asked in (sweep.open_study, sweep.verify, sweep.repair):
        with pytest.raises(Damaged, match=r"zarr.json fails its checksum.* restore it from a copy"):
            asked(copy)


def test_stores_that_are_none(copy, tmp_path):
    with pytest.raises(InputError, match="is not a store"):
        sweep.verify(tmp_path / "none.zarr")
    root = json.loads((copy / "zarr.json").read_text())
    (copy / "zarr.json").write_text(json.dumps(root | {"attributes": {"format_version": 9}}))
    with pytest.raises(InputError, match="newer Geosweep"):
        sweep.verify(copy)
    with pytest.raises(InputError, match="newer Geosweep"):
        sweep.open_study(copy)
    (copy / "zarr.json").unlink()
    with pytest.raises(InputError, match="half deleted"):
        sweep.verify(copy)


def test_the_command(copy, command, monkeypatch):
    place = copy.parent
    assert "is sound: " in command(place, "verify", "test.zarr").stdout
    damage(copy / "only", ["state", "step_size"])
    said = command(place, "verify", "test.zarr", code=3).stdout
    assert "fails its checksum" in said and "only: 4 runs would be computed again" in said
    found = json.loads(command(place, "verify", "test.zarr", "--json", code=3).stdout)
    assert not found["sound"] and found["files"] > 50
    findings = {f["array"]: (f["remedy"], f["rows"]) for f in found["findings"]}
    (remedy, [[first, last]]) = findings.pop("state")
    assert remedy == "run" and first % ROWS == 0 and last == first + ROWS - 1
    assert findings == {"step_size": ("study", [[0, RUNS - 1]])}
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
        refused = command(place, "verify", "test.zarr", "--repair", code=2).stderr
        assert "test.zarr cannot be written: no permission" in refused
    mended = command(place, "verify", "test.zarr", "--repair", code=3).stdout
    assert "only: 4 runs are marked as not computed" in mended and "All is mended" in mended
    command(place, "verify", "test.zarr")
    status = command(place, "status", "test.zarr", "--json").stdout
    assert json.loads(status)["experiments"][0]["pending"] == ROWS


def test_intervals_in_which_no_step_ends(tmp_path, cluster):
    """An adaptive run has no statistics of them: nothing is lost."""
    text = one_experiment(
        integrators='"rk45"', step_size=None, tolerance="1e-2", initial_condition='"lee"',
        samples="50",
    )  # fmt: skip
    run(text, tmp_path / "test.zarr", cluster)
    only = sweep.open_study(tmp_path / "test.zarr")["only"]
    assert only["energy_error_mean"][0, 1:].isnull().any()
    assert sweep.verify(tmp_path / "test.zarr") == []
