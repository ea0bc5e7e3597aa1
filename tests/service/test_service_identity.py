"""A run keeps its id, and an experiment the order of its runs, for ever: stores are found by them.

``run_ids.json`` has what they were when they were pinned: for each packaged study, and for some
experiments that were drawn at random then, the number of runs and a hash of all ids in order.
Studies of which BLAS draws starts, of rotations and of turned spins, are left out: the last bit of
these, and with it their ids, depends on the processor.
"""

import hashlib
import json
from pathlib import Path

import pytest
from study_text import one_experiment, run_tables

import sweep

PINNED = json.loads(Path(__file__).with_name("run_ids.json").read_text())
LARGE = ("all-orders", "all-properties")


def identity(tables):
    """Number and hash of the ids of all experiments, in the order of rows."""
    digest = hashlib.sha256()
    for table in tables:
        digest.update(f"{table.experiment.name} {' '.join(table.run_id)}\n".encode())
    return {"runs": sum(t.size for t in tables), "digest": digest.hexdigest()[:16]}


SMALL = [name for name in PINNED["packaged"] if name not in LARGE]
MARKED = [pytest.param(name, marks=pytest.mark.slow) for name in LARGE]


@pytest.mark.parametrize("name", SMALL + MARKED)
def test_runs_of_a_packaged_study_keep_their_ids(name):
    assert identity(sweep.check(name)[1]) == PINNED["packaged"][name]


def test_runs_of_any_experiment_keep_their_ids():
    assert len(PINNED["random"]) == 50
    for pinned in PINNED["random"]:
        found = identity(list(run_tables(pinned["study"]).values()))
        assert found == {key: pinned[key] for key in ("runs", "digest")}, pinned["study"]


def test_one_id_is_written_out():
    """Of a start, a method and a step size that anyone can spell."""
    (table,) = run_tables(
        one_experiment(integrators='"rk4"', step_size="0.1", initial_condition='"lee"')
    ).values()
    assert table.run_id == ["7dc53d195a5d5eb5"]
    labelled = one_experiment(
        integrators='{ name = "rk4", label = "classic" }', step_size="0.1",
        initial_condition='"lee"', duration="3.0", samples="30", record='["state"]',
    )  # fmt: skip
    assert run_tables(labelled)["only"].run_id == table.run_id  # the same trajectory


def test_ids_stand_in_the_store_in_the_order_of_the_study(run_text, tmp_path, arrays):
    text = one_experiment(record='["energy"]')
    assert run_text(text, tmp_path / "test.zarr").complete
    found = arrays(tmp_path / "test.zarr", "only")["run_id"].tolist()
    assert found == list(run_tables(text)["only"].run_id)
