"""Damage of every kind is found, said plainly and mended; what runs again comes out the same."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from study_text import one_experiment

import sweep
from integrators import InputError
from sweep.campaign import retry
from sweep.errors import Damaged, StoreError
from sweep.store import chunk_layout, studies
from sweep.store.files import ABSENT, ArrayFiles
from sweep.store.store import Store
from sweep.store.upkeep import repair, verify

TEXT = one_experiment(
    scan="{ gravity = [1.0, 9.81] }",
    initial_condition='["lee", { around = "lee", random = 7, spread = 1e-2, seed = 1 }]',
    record='["energy", "unit_length", "state"]',
    samples="5",
    reference='{ integrator = "dop853", tolerance = 1e-9, until = 0.6 }',
)
RUNS, ROWS, SHARD = 64, 8, 16
REFERENCES = "_geosweep/references/only"
# Of each kind of array that workers write, and that the coordinator writes.
SERIES = ("energy", "energy_error_mean", "state")
RESULTS = (*SERIES, "steps", "cpu_time", "status", "sample_count")
COORDINATES = ("time", "row", "component", "step_size", "gravity", "integrator", "adaptive")
COORDINATES += ("initial_condition", "in_study", "run", "run_id", "initial_state")
OF_REFERENCES = ("states", "error", "sample_count", "run_id", "initial_state")


@pytest.fixture(scope="session")
def whole(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("verify") / "test.zarr"
    with pytest.MonkeyPatch.context() as patch:  # a store of several chunks and shards
        patch.setattr(chunk_layout, "MOST_CHUNK_ROWS", ROWS)
        patch.setattr(chunk_layout, "LEAST_SHARD_ROWS", SHARD)
        patch.setattr(chunk_layout, "MOST_SHARD_ROWS", SHARD)
        assert sweep.run(studies.parse_study(TEXT), path, cluster).complete
    energy = Store.at(path).group("only")["energy"]
    assert (energy.chunks[0], energy.shards[0]) == (ROWS, SHARD)
    return path


@pytest.fixture
def copy(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "test.zarr"))


def flip(path, name, chunk=-1):
    """Flip a bit in the middle of a chunk of an array; the chunk's index."""
    array = ArrayFiles.read(path / name)
    if not array.sharded:
        file = sorted((path / name).glob("c.*"))[chunk]
        flip_bit(file, file.stat().st_size // 2)
        return array.index_of_file(file)
    found = []
    for index in np.ndindex(array.grid):
        spans = array.chunk_spans(array.file(index).read_bytes())
        for at in np.ndindex(array.inner_grid):
            if spans[at][0] != ABSENT:
                whole = tuple(
                    i * n + k for i, n, k in zip(index, array.inner_grid, at, strict=True)
                )
                found.append((whole, array.file(index), int(spans[at].sum()) - 20))
    index, file, place = sorted(found)[chunk]
    flip_bit(file, place)
    return index


def flip_bit(file, place):
    data = bytearray(file.read_bytes())
    data[place] ^= 8
    file.write_bytes(data)


def mend(path):
    return repair.mend_held_store(Store.at(path), lambda: retry.stored_study(path))


def check_same(one, two, arrays, place="only", without=("cpu_time", "wall_time")):
    """All arrays of a group agree bit for bit, rows too."""
    a, b = arrays(one, place), arrays(two, place)
    assert set(a) == set(b)
    for name in set(a) - set(without):
        same = a[name].tolist() == b[name].tolist() if a[name].dtype.kind in "UTO" else None
        assert same if same is not None else a[name].tobytes() == b[name].tobytes(), name


def test_a_store_that_is_sound(whole, fingerprint):
    before, seen = fingerprint(whole), []
    assert verify.verify(whole, lambda done, of: seen.append((done, of))) == []
    assert seen[-1][0] == seen[-1][1] > 100
    assert fingerprint(whole) == before


@pytest.mark.parametrize("array", RESULTS)
def test_a_bit_of_a_result(copy, array):
    chunk = flip(copy, f"only/{array}")
    (finding,) = verify.verify(copy)
    assert (finding.place, finding.array, finding.chunk) == ("only", array, chunk)
    assert "checksum" in finding.text and finding.remedy == "run"
    rows = ROWS if array in SERIES else SHARD
    assert finding.rows.tolist() == list(range(chunk[0] * rows, chunk[0] * rows + rows))
    mended = mend(copy)
    assert mended.marked == {"only": rows} and not mended.left
    assert verify.verify(copy) == []
    only = sweep.open_study(copy)["only"]
    assert (only.sample_count == 0).values.tolist() == [i in finding.rows for i in range(RUNS)]
    assert (only.status[finding.rows] == -1).all()


@pytest.mark.parametrize("array", COORDINATES)
def test_a_bit_of_what_the_study_says(copy, whole, array, arrays):
    flip(copy, f"only/{array}")
    (finding,) = verify.verify(copy)
    assert (finding.array, finding.remedy) == (array, "study")
    mended = mend(copy)
    assert mended.marked == {} and not mended.left
    check_same(whole, copy, arrays, without=())


@pytest.mark.parametrize("array", OF_REFERENCES)
def test_a_bit_of_a_reference(copy, whole, array, arrays):
    flip(copy, f"{REFERENCES}/{array}")
    (finding,) = verify.verify(copy)
    assert (finding.place, finding.array) == (REFERENCES, array)
    mended = mend(copy)
    assert not mended.left and "only" not in mended.marked
    assert verify.verify(copy) == []
    check_same(whole, copy, arrays, without=())
    if array == "initial_state":
        check_same(whole, copy, arrays, place=REFERENCES)


def test_mended_and_run_again_it_is_the_same(copy, whole, cluster, arrays, assert_same_runs):
    """Bits of three chunk rows, a removed chunk, a reference and strays at once."""
    flip(copy, "only/energy", 0)
    flip(copy, "only/sample_count", 2)
    flip(copy, "only/status", 2)
    flip(copy, "only/initial_state")
    flip(copy, f"{REFERENCES}/states", 0)
    (copy / "only/state/c.1.0.0.0").unlink()
    (copy / "only/energy/c.0.0.abc.partial").write_bytes(b"half")
    (copy.parent / "test.zarr.0123abcd.creating").mkdir()
    before = arrays(whole, "only")["cpu_time"]
    mended = mend(copy)
    assert mended.marked["only"] == ROWS + 2 * SHARD and not mended.left
    assert not list(copy.rglob("*.partial")) and [p.name for p in copy.parent.iterdir()] == [
        "test.zarr"
    ]
    assert sweep.run(studies.parse_study(TEXT), copy, cluster).complete
    assert_same_runs(whole, copy, "only")
    assert verify.verify(copy) == []
    kept = [row for row in range(RUNS) if row // ROWS not in (0, 2, 3, 4, 5)]
    assert arrays(copy, "only")["cpu_time"][kept].tobytes() == before[kept].tobytes()
    states = arrays(copy, REFERENCES)["states"]
    assert states.tobytes() == arrays(whole, REFERENCES)["states"].tobytes()


def test_an_index_of_a_shard(copy, whole, cluster, assert_same_runs):
    """Nothing of the shard can be found: its runs are computed again."""
    file = copy / "only" / "steps" / "c.1"
    flip_bit(file, file.stat().st_size - 10)
    (finding,) = verify.verify(copy)
    assert (finding.array, finding.chunk, finding.runs) == ("steps", (), SHARD)
    assert mend(copy).marked == {"only": SHARD} and verify.verify(copy) == []
    assert sweep.run(studies.parse_study(TEXT), copy, cluster).complete
    assert_same_runs(whole, copy, "only")


@pytest.mark.parametrize("array", ["state", "sample_count", "status"])
def test_a_shard_that_is_gone(array, copy, whole, cluster, command, assert_same_runs):
    """The plain commands see it, too."""
    (file,) = (copy / "only" / array).glob("c.2*")
    file.unlink()
    for arguments in (("status",), ("query", "step_size > 0"), ("order",)):
        said = command(copy.parent, arguments[0], "test.zarr", *arguments[1:], code=2).stderr
        assert f"{array}/c.2" in said and "is not there" in said and "sweep verify" in said
    (finding,) = verify.verify(copy)
    assert (finding.array, finding.text) == (array, "is not there")
    mend(copy)
    assert verify.verify(copy) == []
    assert sweep.run(studies.parse_study(TEXT), copy, cluster).complete
    assert_same_runs(whole, copy, "only")


def test_committed_rows_that_are_not_there(copy):
    group = zarr.open_group(copy, path="only", mode="r+", use_consolidated=False)
    group["energy"][3] = float("nan")
    group["energy_error_mean"][12, 4:] = float("nan")
    group["cpu_time"][20] = float("nan")
    group["sample_count"][30] = 99
    group["status"][40] = -1
    found = {finding.array: finding for finding in verify.verify(copy)}
    marker = [f.rows.tolist() for f in verify.verify(copy) if f.array == "sample_count"]
    assert found["energy"].rows.tolist() == [3] and "NaN" in found["energy"].text
    assert found["energy_error_mean"].rows.tolist() == [12]
    assert found["cpu_time"].rows.tolist() == [20]
    assert marker == [[30], [40]]
    assert mend(copy).marked == {"only": 5}
    count = sweep.open_study(copy)["only"].sample_count.values
    assert (count == 0).nonzero()[0].tolist() == [3, 12, 20, 30, 40]


def test_a_row_without_an_id(copy, whole, arrays):
    ids = zarr.open_group(copy, path="only", mode="r+", use_consolidated=False)["run_id"]
    ids[5:9] = ""
    (finding,) = verify.verify(copy)
    assert finding.rows.tolist() == [5, 6, 7, 8] and "ids of 4" in finding.text
    assert mend(copy).marked == {}
    check_same(whole, copy, arrays, without=())


def test_metadata_that_are_gone(copy, whole, arrays):
    (copy / "only/energy/zarr.json").unlink()
    (copy / "only/steps/zarr.json").write_text('{"shape": [64')
    shutil.rmtree(copy / "only/unit_length_error")
    found = {f.array: f for f in verify.verify(copy) if f.remedy == "copy"}
    assert set(found) == {"energy", "steps", "unit_length_error"}
    mended = mend(copy)
    assert not mended.left and mended.marked == {"only": RUNS}
    assert set(arrays(copy, "only")) == set(arrays(whole, "only"))


def test_a_coordinate_that_is_gone_is_said_by_plain_commands(copy):
    """Zarr reads it as blank: runs of several step sizes would be taken for one ensemble."""
    (copy / "only/step_size/c.0").unlink()
    for asked in (sweep.open_study, sweep.failures):
        with pytest.raises(StoreError, match="only/step_size/c.0 is not there; `sweep verify"):
            asked(copy)
    with pytest.raises(Damaged, match="only/step_size/c.0 is not there"):
        sweep.status(copy)
    assert mend(copy).left == () and len(sweep.status(copy)) == 1


def test_a_coordinate_of_runs_that_left_the_study_cannot_be_mended(copy, cluster):
    fewer = studies.parse_study(TEXT.replace("[1.0, 9.81]", "[9.81]"))
    assert sweep.run(fewer, copy, cluster).complete
    (copy / "only/step_size/c.0").unlink()
    (lost,) = mend(copy).left
    assert (lost.array, lost.runs) == ("step_size", RUNS // 2) and "left the study" in lost.text


@pytest.mark.parametrize("mended", [True, False])
def test_an_experiment_that_is_gone(copy, whole, cluster, arrays, mended):
    """It is computed again, also where nobody has mended the store before."""
    shutil.rmtree(copy / "only")
    with pytest.raises(Damaged, match="the experiment 'only' is gone"):
        sweep.status(copy)
    if mended:
        (found,) = mend(copy).findings
        assert found.text.startswith("is gone") and verify.verify(copy) == []
        assert sweep.status(copy) == []
    assert sweep.run(studies.parse_study(TEXT), copy, cluster).complete
    assert verify.verify(copy) == []
    check_same(whole, copy, arrays)


def test_what_is_internal_is_gone(copy, cluster):
    """Results are there, and go on from where they are: references are computed again."""
    shutil.rmtree(copy / "_geosweep")
    mend(copy)
    assert verify.verify(copy) == []
    assert sweep.extend(copy, duration=2.0, client=cluster).complete
    assert verify.verify(copy) == []
    tree = sweep.open_study(copy)
    assert tree["only"]["time"].values[-1] == 2.0 and (tree["only"]["sample_count"] == 11).all()


def test_a_run_that_finds_damage_says_where(copy, cluster):
    (copy / "only/energy/c.0.0").write_bytes(b"garbled")
    with pytest.raises(StoreError, match="only/energy: .*checksum.*sweep verify.*--repair"):
        sweep.extend(copy, duration=2.0, client=cluster)


def test_stores_that_are_none(copy, tmp_path):
    with pytest.raises(InputError, match="is not a store"):
        verify.verify(tmp_path / "none.zarr")
    root = json.loads((copy / "zarr.json").read_text())
    (copy / "zarr.json").write_text(json.dumps(root | {"attributes": {"format_version": 9}}))
    with pytest.raises(InputError, match="newer Geosweep"):
        Store.at(copy).check()
    with pytest.raises(InputError, match="newer Geosweep"):
        sweep.open_study(copy)
    (copy / "zarr.json").unlink()
    with pytest.raises(InputError, match="half deleted"):
        verify.verify(copy)


# --- the command -----------------------------------------------------------------------------


def test_the_command(copy, command, monkeypatch):
    place = copy.parent
    assert "is sound: " in command(place, "verify", "test.zarr").stdout
    flip(copy, "only/energy", 0)
    flip(copy, "only/step_size")
    said = command(place, "verify", "test.zarr", code=3).stdout
    assert "fails its checksum" in said and "only: 8 runs would be computed again" in said
    found = json.loads(command(place, "verify", "test.zarr", "--json", code=3).stdout)
    assert not found["sound"] and found["files"] > 100
    assert {f["array"]: f["remedy"] for f in found["findings"]} == {
        "energy": "run", "step_size": "study",
    }  # fmt: skip
    assert found["findings"][0]["rows"] in ([[0, 7]], [[0, 63]])
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    refused = command(place, "verify", "test.zarr", "--repair", code=2).stderr
    assert "test.zarr cannot be written: no permission" in refused
    monkeypatch.undo()
    mended = command(place, "verify", "test.zarr", "--repair", code=3).stdout
    assert "only: 8 runs are marked as not computed" in mended and "All is mended" in mended
    command(place, "verify", "test.zarr")
    status = command(place, "status", "test.zarr", "--json").stdout
    assert json.loads(status)["experiments"][0]["pending"] == 8


def test_intervals_in_which_no_step_ends(tmp_path, cluster):
    """An adaptive run has no statistics of them: nothing is lost."""
    text = one_experiment(
        integrators='"rk45"', step_size=None, tolerance="1e-2", initial_condition='"lee"',
        samples="50",
    )  # fmt: skip
    assert sweep.run(studies.parse_study(text), tmp_path / "test.zarr", cluster).complete
    only = sweep.open_study(tmp_path / "test.zarr")["only"]
    assert only["energy_error_mean"][0, 1:].isnull().any()
    assert verify.verify(tmp_path / "test.zarr") == []
