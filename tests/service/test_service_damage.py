"""Damage is found, said and mended, whatever file it is in; what runs again comes out the same."""

import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import zarr
from distributed import Client
from interrupting import Process
from study_text import one_experiment, study_of

import sweep
from sweep.errors import Damaged, GeosweepError

KEYS = {
    "integrators": '"rk4"',
    "step_size": "[0.1, 0.05]",
    "record": '["energy"]',
    "samples": "5",
    "statistics": '"none"',
    "reference": '{ integrator = "dop853", tolerance = 1e-6, until = 0.6 }',
}
SECOND = one_experiment(
    **KEYS | {"name": '"second"', "initial_condition": '"lee"', "reference": None}
)
TEXT = one_experiment(**KEYS) + "[[" + SECOND.partition("[[")[2]
NAMES = ("only", "second")
REFERENCES = "_geosweep/references/only"


@pytest.fixture(scope="module")
def whole(run_text, tmp_path_factory):
    path = tmp_path_factory.mktemp("damage") / "test.zarr"
    assert run_text(TEXT, path).complete
    return path


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "test.zarr")


def flip(file):
    """Flip a bit in the middle of a file."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 8
    file.write_bytes(data)


def files_of(path):
    return [file for file in sorted(path.rglob("*")) if file.is_file()]


@pytest.fixture
def seen(arrays):
    """All that a reader finds in a store, as bits; the error where it is refused."""

    def see(path):
        try:
            found = {
                (name, key): array.tolist() if array.dtype.kind == "T" else array.tobytes()
                for name in NAMES
                for key, array in arrays(path, name).items()
            }
            return found | {"status": [row.counts for row in sweep.status(path)]}
        except GeosweepError as error:
            return error

    return see


def test_whichever_file_has_a_flipped_bit_it_is_found(copy):
    names = [file for file in files_of(copy) if file.suffix != ".json" and file.stat().st_size]
    for some in (names[::2], names[1::2]):
        contents = [file.read_bytes() for file in some]
        for file in some:
            flip(file)
        found = {finding.path for finding in sweep.verify(copy) if "checksum" in finding.text}
        assert found == {*some}
        for file, content in zip(some, contents, strict=True):
            file.write_bytes(content)
    assert len(names) > 60 and sweep.verify(copy) == []


@pytest.mark.slow
def test_whichever_file_is_gone_it_is_found_and_mended_or_nobody_sees_it(whole, tmp_path, seen):
    known, found = seen(whole), 0
    for name in (file.relative_to(whole) for file in files_of(whole)[::5]):
        if len(name.parts) == 1:  # of the root's metadata there is no copy
            continue
        copy = shutil.copytree(whole, tmp_path / "test.zarr")
        (copy / name).unlink()
        if sweep.verify(copy):
            found += 1
            assert not sweep.repair(copy).left and sweep.verify(copy) == [], name
        else:
            assert seen(copy) == known, name
        shutil.rmtree(copy)
    assert found > 20


@pytest.mark.parametrize(
    "array",
    [
        "status",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("time", "run_id", "step_size")),
    ],
)
def test_half_a_file_is_mended_and_run_again(array, copy, whole, run_text, assert_same_runs):
    """As where a disk was full; of what makes runs what they are, too."""
    file = next((copy / "only" / array).glob("c*"))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert {finding.array for finding in sweep.verify(copy)} == {array}
    assert not sweep.repair(copy).left and sweep.verify(copy) == []
    assert run_text(TEXT, copy).complete
    assert_same_runs(whole, copy, "only", timings=array != "status")


@pytest.mark.parametrize("content", [b"", pytest.param(None, marks=pytest.mark.slow)])
def test_metadata_of_where_references_hold_are_found(content, copy, seen):
    known, file = seen(copy), copy / REFERENCES / "held_samples" / "zarr.json"
    file.unlink() if content is None else file.write_bytes(content)
    assert sweep.verify(copy)
    assert sweep.repair(copy).marked == {} and seen(copy) == known


def test_without_its_root_a_store_is_said_to_be_half_deleted(copy):
    (copy / "zarr.json").unlink()
    for asked in (sweep.verify, sweep.repair, sweep.status, sweep.open_study):
        with pytest.raises(GeosweepError, match="half deleted"):
            asked(copy)


def test_only_what_is_damaged_is_computed_again(
    copy, whole, run_text, arrays, assert_same_runs, command
):
    """Bits of a result, of a coordinate and of a reference, a file that is gone, and strays."""
    flip(next((copy / "only" / "energy").glob("c*")))
    flip(next((copy / "only" / "initial_state").glob("c*")))
    flip(next((copy / REFERENCES / "states").glob("c*")))
    next((copy / "only" / "status").glob("c*")).unlink()
    (copy / "only" / "energy" / "0.abc.partial").write_bytes(b"half")
    (copy.parent / "test.zarr.0123abcd.creating").mkdir()
    said = command(copy.parent, "verify", "test.zarr", code=3).stdout
    assert "fails its checksum" in said and "only: 6 runs would be computed again" in said
    assert "energy" in said and "initial_state" in said and "is not there" in said
    mended = sweep.repair(copy)
    assert mended.marked["only"] == 6 and "second" not in mended.marked and not mended.left
    assert not list(copy.rglob("*.partial"))
    assert [file.name for file in copy.parent.iterdir()] == ["test.zarr"]
    command(copy.parent, "verify", "test.zarr")
    progress = {row.experiment: row.done for row in sweep.status(copy)}
    assert progress == {"only": 0, "second": 2}
    assert run_text(TEXT, copy).complete
    for name in NAMES:
        assert_same_runs(whole, copy, name, timings=name == "second")
    before, after = arrays(whole, "only")["cpu_time"], arrays(copy, "only")["cpu_time"]
    assert before.tobytes() != after.tobytes()
    states = [arrays(path, REFERENCES)["states"].tobytes() for path in (copy, whole)]
    assert states[0] == states[1] and sweep.verify(copy) == []


def test_committed_rows_that_are_not_there(copy):
    """As Zarr reads what was never written: the runs are found one by one."""
    group = zarr.open_group(copy, path="only", mode="r+", use_consolidated=False)
    group["energy"][1] = float("nan")
    group["cpu_time"][2] = float("nan")
    group["sample_count"][3] = 99
    group["status"][4] = -1
    rows = {(finding.array, row) for finding in sweep.verify(copy) for row in finding.rows}
    assert {("energy", 1), ("cpu_time", 2), ("sample_count", 3), ("sample_count", 4)} == rows
    assert sweep.repair(copy).marked == {"only": 4}
    count = sweep.open_study(copy)["only"].sample_count.values
    assert np.flatnonzero(count == 0).tolist() == [1, 2, 3, 4]


def test_rows_without_an_id_get_it_again(copy, whole, assert_same_runs):
    """As when of several chunks of ids one was not written."""
    ids = zarr.open_group(copy, path="only", mode="r+", use_consolidated=False)["run_id"]
    ids[1:3] = ""
    (finding,) = sweep.verify(copy)
    assert finding.rows.tolist() == [1, 2] and "ids of 2" in finding.text
    assert sweep.repair(copy).marked == {}
    assert_same_runs(whole, copy, "only", timings=True)


@pytest.mark.parametrize("mended", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_an_experiment_that_is_gone_is_computed_again(
    mended, copy, whole, run_text, assert_same_runs
):
    shutil.rmtree(copy / "only")
    with pytest.raises(Damaged, match="the experiment 'only' is gone"):
        sweep.status(copy)
    if mended:
        assert any("is gone" in finding.text for finding in sweep.repair(copy).findings)
        assert sweep.verify(copy) == [] and len(sweep.status(copy)) == 1
    assert run_text(TEXT, copy).complete and sweep.verify(copy) == []
    assert_same_runs(whole, copy, "only")
    assert_same_runs(whole, copy, "second", timings=True)


def test_results_go_on_where_all_that_is_internal_is_gone(copy, cluster):
    shutil.rmtree(copy / "_geosweep")
    sweep.repair(copy)
    assert sweep.verify(copy) == []
    assert sweep.extend(copy, duration=2.0, client=cluster).complete
    assert sweep.verify(copy) == []
    assert (sweep.open_study(copy)["only"]["sample_count"] == 11).all()


def test_damage_that_a_command_meets_is_said(copy, cluster, command):
    next((copy / "only" / "step_size").glob("c*")).unlink()
    for asked in (sweep.open_study, sweep.failures, sweep.status):
        with pytest.raises(GeosweepError, match="only/step_size/c.0 is not there"):
            asked(copy)
    said = command(copy.parent, "order", "test.zarr", code=3).stderr
    assert "only/step_size/c.0 is not there" in said
    assert not sweep.repair(copy).left
    next((copy / "only" / "energy").glob("c*")).write_bytes(b"garbled")
    with pytest.raises(Damaged, match=r"only/energy: .*checksum.*sweep verify.*--repair"):
        sweep.extend(copy, duration=2.0, client=cluster)


def test_what_no_study_says_any_more_cannot_be_mended_and_is_said(copy, run_text):
    """A coordinate of runs that left the study."""
    fewer = one_experiment(**KEYS | {"step_size": "[0.05]"})
    assert run_text(fewer, copy).complete
    next((copy / "only" / "step_size").glob("c*")).unlink()
    lost = [finding for finding in sweep.repair(copy).left if finding.array == "step_size"]
    assert [finding.runs for finding in lost] == [3] and "left the study" in lost[0].text


def killed(place, at, below=""):
    """A store whose run was killed at one of its operations there, and its files, newest first.

    Those that were finished.
    """
    place.mkdir()
    (place / "study.toml").write_text(TEXT)
    code = "sweep.run('study.toml', 'test.zarr', client(), checkpoint_every=1e-9)"
    with Process(code, place, at, signal.SIGKILL, f"test.zarr/{below}") as process:
        assert process.was_interrupted()
    store = place / "test.zarr"
    files = sorted(files_of(store), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    left = [file for file in files if file.suffix not in (".json", ".partial")]
    return store, [file.relative_to(store) for file in left]


@pytest.mark.slow
def test_damage_to_what_a_killed_run_has_left(whole, tmp_path, run_text, assert_same_runs):
    """In whichever file that is not folded yet: what other files have is kept."""
    store, files = killed(tmp_path / "killed", 90)
    assert any(row.done + row.partly for row in sweep.status(store))
    for name in files[:2]:
        copy = shutil.copytree(store.parent, tmp_path / "copy") / "test.zarr"
        flip(copy / name)
        assert any("checksum" in finding.text for finding in sweep.verify(copy))
        try:
            run_text(TEXT, copy)
        except Damaged as error:  # where it is one that it goes on from
            where = name.name if "records" in name.parts else name.parent.as_posix()
            assert where in str(error) and "--repair" in str(error)
        assert not sweep.repair(copy).left
        assert run_text(TEXT, copy).complete and sweep.verify(copy) == []
        for experiment in NAMES:
            assert_same_runs(whole, copy, experiment)
        shutil.rmtree(copy.parent)


@pytest.mark.slow
@pytest.mark.parametrize("array", ["energy", "status"])
def test_damage_to_an_array_while_results_are_folded_into_it(
    array, whole, tmp_path, run_text, assert_same_runs
):
    """What is in it is computed again, with what was to come into it, and nothing else."""
    store, _ = killed(tmp_path / "killed", 0, "only/sample_count")  # what is written last
    files = list((store / "only" / array).glob("c*"))
    assert files and not list((store / "only" / "sample_count").glob("c*"))
    # Some or none, as its tasks ended before the other experiment was folded or not.
    done = {row.experiment: row.done for row in sweep.status(store)}["second"]
    flip(*files)
    with pytest.raises(Damaged, match=f"only/{array}.*--repair"):
        run_text(TEXT, store)
    mended = sweep.repair(store)
    assert mended.marked == {"only": 6} and not mended.left and sweep.verify(store) == []
    progress = {row.experiment: row.done for row in sweep.status(store)}
    assert progress == {"only": 0, "second": done}
    assert run_text(TEXT, store).complete and sweep.verify(store) == []
    for experiment in NAMES:
        assert_same_runs(whole, store, experiment)


NOTES = ("progress.json",)  # on which no result depends


@pytest.mark.parametrize("is_new", [False, True])
def test_what_appears_in_a_store_is_on_the_disk_before(is_new, whole, tmp_path, monkeypatch):
    """Each file's content before its name, and its directory by the end; new runs as grown ones.

    A new store appears with all that is in it.
    """
    events, fsync = [], os.fsync

    def synced(file):
        events.append(("synced", os.fstat(file).st_ino))
        return fsync(file)

    monkeypatch.setattr(os, "fsync", synced)
    for name in ("rename", "replace"):
        renamed = getattr(os, name)

        def noted(source, target, *rest, renamed=renamed, **options):
            target = os.path.abspath(target)
            if f"{store}/" in f"{target}/" and not target.endswith(NOTES):
                for file in (Path(source), *Path(source).rglob("*")):
                    assert ("synced", file.stat().st_ino) in events, file
                events.append(("named", os.stat(os.path.dirname(target)).st_ino))
            return renamed(source, target, *rest, **options)

        monkeypatch.setattr(os, name, noted)
    store = tmp_path / "test.zarr"
    if not is_new:
        shutil.copytree(whole, store)
    grown = study_of(one_experiment(**KEYS | {"step_size": "[0.1, 0.05, 0.02]"}))
    here = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with Client(processes=False, **here) as client:
        assert sweep.run(grown, store, client, checkpoint_every=1e-9).complete
    named = [i for i, (what, _) in enumerate(events) if what == "named"]
    assert len(named) > 40
    for i in named:
        assert ("synced", events[i][1]) in events[i:]
