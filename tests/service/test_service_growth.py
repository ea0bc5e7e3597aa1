"""An edited study adds to its store what is missing; what does not fit is refused."""

import shutil

import numpy as np
import pytest
import zarr
from cases import first_of
from study_text import one_experiment, run_tables

import sweep
from sweep.analysis import drift_table, order_table
from sweep.errors import StoreError

KEYS = {
    "integrators": '["variational", "rk4"]',
    "step_size": "[0.1, 0.05]",
    "initial_condition": '["lee", { random = 2, seed = 1 }]',  # 12 runs: a chunk and a half
    "record": '["energy", "momentum", "state"]',
    "reference": '{ integrator = "dop853", tolerance = 1e-9, until = 0.5 }',
}
SECOND = one_experiment(name='"second"', initial_condition='"lee"').partition("[[")[2]


def text(**changes):
    return one_experiment(**KEYS | changes)


@pytest.fixture(scope="module")
def base(grow, tmp_path_factory):
    path = tmp_path_factory.mktemp("growth") / "base.zarr"
    assert grow(text(), path).counts == (12, 0, 0)
    return path


@pytest.fixture
def store(base, tmp_path):
    return shutil.copytree(base, tmp_path / "test.zarr")


EDITS = {
    "a smaller ensemble": (text(initial_condition='["lee", { random = 1, seed = 1 }]'), (0, 8, 4)),
    "labels that change places": (
        text(
            integrators='[{ name = "rk4", label = "variational" },'
            ' { name = "variational", label = "rk4" }]'
        ),
        (0, 12, 0),
    ),
    "all at once": (
        text(
            integrators='["rk2_heun", { name = "rk4", label = "classic" }]',
            step_size="[0.1, 0.02]",
            initial_condition='["lee", { random = 4, seed = 1 }]',
        )
        + "[[" + SECOND,
        (20 - 3 + 4, 3, 9),
    ),
    "axes that advance together, repeats, and another start first": (
        text(
            scan="{ gravity = [1.0, 2.0] }",
            zip='[["gravity", "step_size"]]',
            repeat="2",
            initial_condition='[{ random = 1, seed = 2, label = "new" }, "lee"]',
        ),
        (14, 2, 10),
    ),
    "runs excluded": (text(exclude='[{ integrator = "rk4", step_size = 0.1 }]'), (0, 9, 3)),
}  # fmt: skip


@pytest.mark.parametrize("edit", first_of(EDITS))
def test_what_is_missing_is_added(edit, base, store, grow, tmp_path, arrays, assert_same_runs):
    written, counts = EDITS[edit]
    grown = grow(written, store)
    assert grown.counts == counts
    assert grown.computed == counts[0]
    before, after = arrays(base, "only"), arrays(store, "only")
    known = len(before["run_id"])
    assert after["run_id"][:known].tolist() == before["run_id"].tolist()
    assert after["run"].tolist() == list(range(len(after["run_id"])))
    for name in set(before) - {"run_id", "run", "in_study", "integrator", "initial_condition"}:
        if before[name].shape[0] == known and before[name].dtype.kind != "T":
            assert after[name][:known].tobytes() == before[name].tobytes(), name
    tables = run_tables(written)
    for name, table in tables.items():
        check_labels(arrays(store, name), table)
    if counts[0]:
        fresh = tmp_path / "fresh.zarr"
        grow(written, fresh)
        for name in tables:
            ids = arrays(fresh, name)["run_id"].tolist()
            assert_same_runs(store, fresh, name, runs=ids)
    assert grow(written, store).computed == 0


def check_labels(stored, table):
    """Runs of the study have its labels; no other run counts."""
    row_of = {run_id: row for row, run_id in enumerate(stored["run_id"].tolist())}
    rows = np.array([row_of[run_id] for run_id in table.run_id])
    assert np.flatnonzero(stored["in_study"]).tolist() == sorted(rows)
    for name in ("integrator", "step_size", "initial_condition", "ensemble"):
        assert stored[name][rows].tolist() == table.column(name).tolist(), name


def test_every_start_has_its_reference_once(store, grow):
    references = "_geosweep/references/only"
    before = zarr.open_group(store, path=references, mode="r")["states"][:]
    grow(text(initial_condition='["lee", { random = 5, seed = 1 }]'), store)
    group = zarr.open_group(store, path=references, mode="r", use_consolidated=False)
    assert group["run_id"].shape == (6,)
    assert (group["sample_count"][:] == 6).all()
    assert group["states"][:3].tobytes() == before.tobytes()


def test_what_left_the_study_comes_back_without_work(base, store, grow, assert_same_runs):
    grow(text(integrators='["rk4"]', initial_condition='"lee"'), store)
    back = grow(text(), store)
    assert (back.counts, back.computed) == ((0, 12, 0), 0)
    assert sweep.open_study(store)["only"].in_study.all()
    assert_same_runs(base, store, "only", timings=True)


def test_an_experiment_that_left_stays_and_does_not_count(store, grow, fingerprint):
    second = 'format = 1\nname = "test"\n[[' + SECOND
    before = fingerprint(store / "only" / "energy")
    assert grow(second, store).counts == (4, 0, 0)
    tree = sweep.open_study(store)
    assert not tree["only"].in_study.any() and tree["second"].in_study.all()
    assert fingerprint(store / "only" / "energy") == before
    assert grow(text() + "[[" + SECOND, store).counts == (0, 16, 0)
    assert sweep.open_study(store)["only"].in_study.all()


@pytest.mark.slow
def test_more_values_of_an_axis_and_larger_systems(grow, tmp_path, arrays, assert_same_runs):
    """Chains of one and two links, then of three too: states become longer, old ones stay."""
    store, fresh = tmp_path / "test.zarr", tmp_path / "fresh.zarr"
    one_two, all_three, three = (
        text(
            integrators='"rk4"',
            initial_condition="{ random = 2, seed = 1 }",
            scan=f"{{ count = {values} }}",
            step_size="0.1",
        )
        for values in ("[1, 2]", "[1, 2, 3]", "[3]")
    )
    grow(one_two, store)
    before = arrays(store, "only")
    assert grow(all_three, store).counts == (2, 4, 0)
    grow(all_three, fresh)
    assert_same_runs(store, fresh, "only")
    after = arrays(store, "only")
    assert after["state"][:4, :, :4].tobytes() == before["state"].tobytes()
    assert grow(three, store).counts == (0, 2, 4)
    assert_same_runs(store, fresh, "only")
    assert sweep.open_study(store)["only"]["row"].values.tolist() == [*"012345"]


def test_an_axis_that_was_fixed_before(store, base, grow, arrays):
    """The value that all runs had is one of the axis: they are kept and get it as coordinate."""
    grown = grow(text(scan="{ gravity = [2.0, 1.0] }"), store)
    assert grown.counts == (12, 12, 0)
    after, before = arrays(store, "only"), arrays(base, "only")
    assert after["gravity"].tolist() == [1.0] * 12 + [2.0] * 12
    assert after["energy"][:12].tobytes() == before["energy"].tobytes()


@pytest.mark.slow
def test_the_command_says_what_is_new_kept_and_gone(store, command, tmp_path):
    written, _ = EDITS["all at once"]
    (tmp_path / "edited.toml").write_text(written)
    arguments = ("run", "edited.toml", "test.zarr", "--no-summary")
    ran = command(tmp_path, *arguments).stdout
    assert "Study test: 21 new runs, 3 kept, 9 no longer in the study\n" in ran
    assert "Complete: 24 runs" in ran
    summary = command(tmp_path, "summary", "test.zarr").stdout
    assert summary.count("|error| of every step") == 2
    again = command(tmp_path, *arguments).stdout
    assert "Study test: 0 new runs, 24 kept, 9 no longer in the study\n" in again
    assert "Nothing to compute" in again
    only = sweep.open_study(store)["only"].to_dataset()
    used = {row.integrator for row in order_table(only) if row.used}
    assert used == {"rk2_heun", "classic"}
    drifts = drift_table(only, ["energy"])
    assert {row.integrator for row in drifts if row.starts} == used


# --- what is refused -------------------------------------------------------------------------

REFUSED = {
    "another study": (text().replace('"test"', '"other"'), "study 'test', not of 'other'"),
    "another system": (
        text(system='"nbody_sphere"', initial_condition='"lee"'), "system = 'spherical_pendulum"
    ),
    "another parameter": (text(parameters="{ gravity = 2.0 }"), "parameters"),
    "more bodies": (
        text(parameters="{ count = 3 }", initial_condition="{ random = 2, seed = 1 }"),
        "parameters",
    ),
    "another interval": (text(duration="2.0", samples="10"), "duration = 1.0"),
    "a shorter duration": (text(duration="0.5", samples="5"), "0.5 is less: a store is not"),
    "fewer samples": (text(samples="5"), "samples = 10"),
    "samples that thin out": (text(samples="{ per_decade = 10 }"), "samples = 10"),
    "less recorded": (text(record='["energy", "state"]'), "record = "),
    "more recorded": (
        text(record='["energy", "momentum", "state", "tangency"]'), "record = "
    ),
    "no statistics": (text(statistics='"none"'), "statistics = 'every_step'"),
    "no reference": (text(reference=None), "reference = "),
    "another reference": (
        text(reference='{ integrator = "dop853", tolerance = 1e-10, until = 0.5 }'), "reference = "
    ),
    "a longer reference": (
        text(reference='{ integrator = "dop853", tolerance = 1e-9 }'), "reference = "
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", REFUSED)
def test_what_a_store_cannot_take_is_refused(change, store, run_text, fingerprint):
    written, message = REFUSED[change]
    before, around = fingerprint(store), sorted(store.parent.iterdir())
    with pytest.raises(StoreError) as refused:
        run_text(written, store)
    assert str(store) in str(refused.value) and message in str(refused.value)
    assert fingerprint(store) == before
    assert sorted(store.parent.iterdir()) == around


def test_the_order_of_what_is_recorded_is_no_change(store, grow):
    written = text(record='["state", "momentum", "energy"]')
    assert grow(written, store).counts == (0, 12, 0)


def newer(path):
    zarr.open_group(path, mode="a").attrs["format_version"] = 4


def older(path):
    zarr.open_group(path, mode="a").attrs["format_version"] = 1


def not_ours(path):
    shutil.rmtree(path)
    zarr.open_group(path, mode="w").create_array("a", shape=(1,), dtype=float)


def an_array(path):
    shutil.rmtree(path)
    zarr.create_array(path, shape=(1,), dtype=float)


def other_files(path):
    shutil.rmtree(path)
    path.mkdir()
    (path / "thesis.tex").write_text("precious")


def a_file(path):
    shutil.rmtree(path)
    path.write_text("precious")


PLACES = {
    newer: "newer Geosweep",
    older: "format 1, of an earlier Geosweep",
    not_ours: "is not a Geosweep store",
    an_array: "is not a Geosweep store",
    other_files: "is not a Geosweep store",
    a_file: "is not a Geosweep store",
}


@pytest.mark.parametrize("change", PLACES, ids=lambda change: change.__name__)
def test_a_place_that_is_taken_is_refused(change, store, run_text, fingerprint):
    change(store)
    before, around = fingerprint(store.parent), sorted(store.parent.iterdir())
    with pytest.raises(StoreError, match=PLACES[change]):
        run_text(text(), store)
    assert fingerprint(store.parent) == before
    assert sorted(store.parent.iterdir()) == around


@pytest.mark.parametrize(
    "place", ["file/below.zarr", "file/far/below.zarr", "/proc/a.zarr", "n" * 300]
)
def test_a_place_that_cannot_be_written_is_refused(place, run_text, tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(StoreError, match=r"cannot be|not a directory"):
        run_text(text(), tmp_path / place)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_an_empty_directory_becomes_the_store(grow, tmp_path):
    (tmp_path / "far" / "below").mkdir(parents=True)
    path = tmp_path / "far" / "below"
    assert grow(text(reference=None), path).computed == 12
    assert np.isfinite(sweep.open_study(path)["only"].energy).all()
    assert [file.name for file in path.parent.iterdir()] == ["below"]
