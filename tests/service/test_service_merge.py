"""Stores that were made apart become one, as if one study had been run in one place."""

import shutil
import tomllib

import numpy as np
import pytest
import zarr
from study_text import one_experiment
from written_stores import accept

import sweep
from sweep.errors import StoreError

KEYS = {
    "integrators": '"rk4"',
    "record": '["energy", "state"]',
    "reference": '{ integrator = "dop853", tolerance = 1e-6 }',
}
TEXT = one_experiment(**KEYS)
OTHER = one_experiment(**KEYS | {"step_size": "[0.05, 0.02]"})


@pytest.fixture(scope="module")
def made(run_text, tmp_path_factory):
    """A directory with two stores, which share three runs."""
    place = tmp_path_factory.mktemp("merge")
    for name, text in (("a", TEXT), ("b", OTHER)):
        assert run_text(text, place / f"{name}.zarr").complete
    return place


@pytest.fixture
def place(made, tmp_path):
    return shutil.copytree(made, tmp_path / "work")


def test_two_stores_are_one(place, command, grow, cluster, arrays, assert_same_runs, fingerprint):
    a, b, both, at_once = (place / f"{name}.zarr" for name in ("a", "b", "both", "at-once"))
    before = fingerprint(a), fingerprint(b)
    said = command(place, "merge", "a.zarr", "b.zarr", "-o", "both.zarr").stdout
    assert (fingerprint(a), fingerprint(b)) == before
    assert "only: 6 from a.zarr, 3 from b.zarr; 3 of a later store were there already" in said
    for store, first in ((a, True), (b, False)):
        ids = arrays(store, "only")["run_id"].tolist()
        assert_same_runs(store, both, "only", runs=ids, timings=first)
    (text,) = sweep.open_study(both).attrs["studies"]
    tables = [tomllib.loads(each)["experiment"][0] for each in (TEXT, OTHER)]
    assert text.startswith(TEXT) and tomllib.loads(text)["experiment"] == tables
    assert sweep.verify(both) == []
    again = grow("", both, run=lambda text, store: sweep.run(store, client=cluster))
    assert (again.counts, again.computed) == ((0, 9, 0), 0)
    assert sweep.run(both, at_once, cluster).complete
    assert_same_runs(at_once, both, "only")
    assert sorted(file.name for file in place.glob("*.zarr*")) == [
        "a.zarr", "at-once.zarr", "b.zarr", "both.zarr",
    ]  # fmt: skip


def test_results_that_differ_are_refused_unless_one_is_preferred(place, arrays):
    group = zarr.open_group(place / "b.zarr", path="only", mode="r+", use_consolidated=False)
    ids = arrays(place / "a.zarr", "only")["run_id"].tolist()
    row = next(i for i, name in enumerate(group["run_id"][:].tolist()) if name in ids)
    group["energy"][row] = np.nextafter(group["energy"][row], 1e9)
    accept(place / "b.zarr")
    stores, out = [place / "a.zarr", place / "b.zarr"], place / "out.zarr"
    with pytest.raises(StoreError, match="1 of 3 runs that are computed in several .* differ"):
        sweep.merge(stores, out)
    assert not out.exists()
    sweep.merge(stores, out, prefer_first=True)
    merged, first = arrays(out, "only"), arrays(stores[0], "only")
    assert merged["energy"][:6].tobytes() == first["energy"].tobytes()
    with pytest.raises(StoreError, match=r"out\.zarr"):
        sweep.merge(stores, out)
