"""What a study costs: counted exactly, and its time as probes measure it."""

import json
import re
import shutil

import numpy as np
import pytest
import zarr
from own_signals import sigterm_when
from study_runs import write
from study_text import one_experiment

import sweep
from sweep.campaign.probe import Cost, RunProbe

SMALL = {
    "duration": "2.0",
    "samples": "10",
    "reference": '{ integrator = "dop853", tolerance = 1e-9 }',
    "initial_condition": "{ random = 18, seed = 1 }",
    "record": '["energy"]',
}
LONGER = {"duration": "8.0", "samples": "40"}
MORE = {"initial_condition": "{ random = 20, seed = 1 }"}
REFERENCES = "_geosweep/references/only"
STEPS = 2 * 18 * (20 + 40)


@pytest.fixture
def planned(tmp_path):
    """Plan the small study with some changes, into a store or none: the facts of its experiment."""

    def plan(store=None, **changes):
        file = write(one_experiment(**SMALL | changes), tmp_path)
        (row,) = sweep.plan(file, store or tmp_path / "none.zarr").rows
        return row

    return plan


@pytest.fixture(scope="module")
def ran(tmp_path_factory, command):
    """The store of the small study, and what was printed as it ran."""
    place = tmp_path_factory.mktemp("planned")
    write(one_experiment(**SMALL), place)
    done = command(place, "run", "s.toml", "test.zarr", "--no-summary", "--workers", 2)
    return place / "test.zarr", done.stdout


@pytest.fixture
def copy(ran, tmp_path):
    return shutil.copytree(ran[0], tmp_path / "test.zarr")


@pytest.fixture
def status(command):
    """What `sweep status --json` says of a store."""
    return lambda store: json.loads(command(store.parent, "status", store.name, "--json").stdout)


def used(store):
    """CPU time of all runs and references in a store, read with plain zarr."""
    root = zarr.open_group(store, mode="r", use_consolidated=False)
    return float(sum(np.nansum(root[f"{name}/cpu_time"][:]) for name in ("only", REFERENCES)))


# --- counted -----------------------------------------------------------------------------------


def test_runs_steps_references_and_files_are_those_of_the_store(planned, ran):
    store, printed = ran
    row = planned()
    assert (row["runs"], row["committed"], row["references"]) == (72, 0, 18)
    assert row["steps"] == STEPS
    files = sum(
        file.is_file() for name in ("only", REFERENCES) for file in (store / name).rglob("*")
    )
    assert files <= row["files"] <= 1.2 * files
    group = zarr.open_group(store, path="only", mode="r")
    series = sum(array.nbytes for _, array in group.arrays() if array.shape == (72, 11))
    ends = zarr.open_array(store, path="_geosweep/ends.only/checkpoint", mode="r")[:]
    values = series + 8 * np.sum(~np.isnan(ends))
    assert values <= row["bytes"] <= 1.2 * values + 72 * 8 * 12
    assert f"only          72          18  {STEPS:,}" in printed
    assert "72 runs to compute in " in printed and "2 workers" in printed


def test_nothing_left_costs_nothing(ran, tmp_path):
    plan = sweep.plan(write(one_experiment(**SMALL), tmp_path), ran[0])
    (row,) = plan.rows
    assert plan.cpu_seconds == 0.0 and plan.tasks == 0
    assert (row["runs"], row["committed"], row["steps"], row["references"]) == (0, 72, 0, 0)
    store, names, _, experiment, total = str(plan).splitlines()
    assert store == f"Store: {ran[0]}" and names.split()[:2] == ["experiment", "runs"]
    assert experiment.split()[:2] == ["only", "0"] and total.startswith("0 runs to compute in 0 ")


def test_a_longer_study_costs_what_is_left(planned, ran):
    """Runs and references go on from where they stand; those of other starts begin."""
    store, _ = ran
    whole, rest = planned(**LONGER), planned(store, **LONGER)
    assert (whole["runs"], rest["runs"], rest["references"]) == (72, 72, 18)
    assert (whole["steps"], rest["steps"]) == (4 * STEPS, 3 * STEPS)
    more = planned(store, **MORE)
    assert (more["runs"], more["committed"], more["references"]) == (8, 72, 2)
    assert more["steps"] == STEPS // 9


def test_work_is_divided_among_the_workers(tmp_path, monkeypatch):
    """Batches that take a second or two, whatever this machine needs for them."""
    cost = Cost(call=0.0, unit=0.05, steps=1.0, run=0.0, beside=0.0)
    monkeypatch.setattr(RunProbe, "cost", lambda probe, seconds: cost)
    file = write(one_experiment(**SMALL | {"reference": None}), tmp_path)
    few, many = (sweep.plan(file, workers=workers).tasks for workers in (1, 64))
    assert 1 < few < many


# --- measured ----------------------------------------------------------------------------------


def test_time_grows_with_the_steps_and_is_that_of_the_runs(planned, cluster, tmp_path):
    """By and large, on a machine that others use."""
    keys = {"integrators": '"rk4"', "reference": None, "step_size": "0.05"}
    short, long = (planned(**keys, duration=duration) for duration in ("500.0", "5000.0"))
    assert short["cpu_seconds"] > 0
    assert 2 < long["cpu_seconds"] / short["cpu_seconds"] < 50
    store = tmp_path / "test.zarr"
    assert sweep.run(tmp_path / "s.toml", store, cluster).complete
    taken = float(sweep.open_study(store)["only"]["cpu_time"].sum())
    assert long["cpu_seconds"] / 10 < taken < 10 * long["cpu_seconds"]


def test_steps_back_are_counted_beside(planned):
    """The time of a plan is of what `cpu_time` says; tasks take longer by what is measured."""
    keys = {"integrators": '"rk4"', "reference": None, "duration": "5000.0"}
    plain, back = planned(**keys), planned(**keys, record='["energy", "reversal_error"]')
    assert back["recording_cpu_seconds"] > plain["recording_cpu_seconds"] + plain["cpu_seconds"] / 5
    assert back["cpu_seconds"] < 5 * plain["cpu_seconds"]
    assert back["files"] == plain["files"] + 2  # a shard, and metadata


# --- what was planned and used -------------------------------------------------------------------


def test_status_says_what_was_planned_and_what_was_used(ran, status, command):
    store, _ = ran
    seconds = zarr.open_group(store, mode="r")[f"{REFERENCES}/cpu_time"][:]
    assert seconds.shape == (18,) and np.all(seconds > 0)
    found = status(store)
    plan = found["last_plan"]
    assert (plan["runs"], plan["runs_done"], plan["references"]) == (72, 72, 18)
    assert plan["cpu_seconds"] > 0
    assert plan["cpu_seconds_used"] == pytest.approx(used(store))
    (row,) = found["experiments"]
    assert row["last_plan"] == plan and row["cpu_seconds"] == pytest.approx(used(store))
    printed = command(store.parent, "status", "test.zarr").stdout
    assert re.search("Last plan: about .* of CPU time for 72 runs and 18 references; used", printed)
    assert "with 72 of the runs done" in printed


def test_the_last_plan_is_of_what_was_added(copy, status, cluster):
    before = used(copy)
    assert sweep.extend(copy, duration=4.0, client=cluster).complete
    found = status(copy)
    assert found["last_plan"]["cpu_seconds_used"] == pytest.approx(used(copy) - before)
    assert found["experiments"][0]["cpu_seconds"] == pytest.approx(used(copy))


def test_a_plan_of_some_of_the_runs_says_of_which(copy, command):
    """Of those that an earlier run had left; of others before the plan goes on to them."""
    file = copy / "_geosweep" / "progress.json"
    plan = json.loads(file.read_text())
    plan["plans"]["only"]["runs"] = 40
    file.write_text(json.dumps(plan))
    assert "for the 40 of 72 runs that were left then and" in status_text(copy, command)


def status_text(store, command):
    return command(store.parent, "status", store.name).stdout


@pytest.mark.slow
def test_repeats_of_a_method_are_not_computed_one_after_the_other(cluster, committed, tmp_path):
    """Else what slows the machine for a while slows one method in all of its repeats."""
    text = one_experiment(
        integrators='["variational", "rk4"]', step_size="0.1", repeat="6", duration="1e5",
        initial_condition="{ random = 8, seed = 1 }", record='["energy"]', statistics='"none"',
    )  # fmt: skip
    file, store = write(text, tmp_path), tmp_path / "test.zarr"
    with sigterm_when(lambda: committed(store, "only") >= 40):  # five batches of twelve
        sweep.run(file, store, cluster)
    data = sweep.open_study(store)["only"].to_dataset()
    done = data["integrator"].values[data["sample_count"] == 11]
    assert len(done) > 24  # more than all of one method that would be ahead
    ahead = np.sum(done == "variational") - np.sum(done == "rk4")
    assert abs(ahead) <= 24  # what two workers have begun
