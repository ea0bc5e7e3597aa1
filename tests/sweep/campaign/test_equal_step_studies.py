"""Studies of adaptive Lie group methods, and of as many equal steps; stores written before."""

import json

import numpy as np
import pytest
import zarr
from study_text import one_experiment, problems

import integrators
import sweep
import systems
from sweep.analysis import order_table, tolerance_table
from sweep.campaign.worker.recorder import NamedComponent, Recipe, Recorder
from sweep.store import studies
from sweep.store.commit import fold
from sweep.store.store import Store
from sweep.study.run_id import run_id
from sweep.study.run_table import expand_experiment
from sweep.study.time_axis import TimeAxis

KEYS = {
    "parameters": "{ gravity = -9.81 }",
    "integrators": '["rkmk54", { name = "rkmk5", steps_of = "rkmk54" }, "rkmk5", "cf43"]',
    "step_size": "[0.1, 0.05, 0.025]",
    "tolerance": "[1e-5, 1e-7]",
    "initial_condition": '["celledoni", "celledoni_spatial"]',
    "record": '["energy", "state", "step_size", "rejected_steps"]',
    "duration": "2.0",
    "samples": "20",
    "reference": '{ integrator = "dop853", tolerance = 1e-12 }',
}
LABEL = "rkmk5 (steps of rkmk54)"


@pytest.fixture(scope="module")
def place(tmp_path_factory, command):
    """A directory with the study and the store that the command made of it."""
    directory = tmp_path_factory.mktemp("equal")
    (directory / "equal.toml").write_text(one_experiment(**KEYS))
    ran = command(directory, "run", "equal.toml", "equal.zarr", "--workers", 1)
    assert "Complete: 18 runs" in ran.stdout
    return directory


@pytest.fixture(scope="module")
def stored(place):
    return sweep.open_study(place / "equal.zarr")["only"].to_dataset().load()


def runs_of(stored, label):
    return stored.isel(run=(stored["integrator"] == label).values)


def test_equal_steps_are_as_many_at_every_tolerance(stored):
    variable, equal = runs_of(stored, "rkmk54"), runs_of(stored, LABEL)
    assert equal["adaptive"].all() and np.isnan(equal["step_size"]).all()
    for name in ("tolerance", "initial_condition", "steps"):
        np.testing.assert_array_equal(equal[name], variable[name])
    assert len(set(equal["steps"].values.tolist())) == 4
    sizes = np.broadcast_to(2.0 / equal["steps"].values[:, None], (4, 21))
    np.testing.assert_array_equal(equal["current_step_size"], sizes)
    assert (equal["rejected_steps"] == 0).all() and (equal["rejected_so_far"] == 0).all()
    methods = json.loads(stored.attrs["integrators"])
    assert methods[LABEL]["options"]["steps_of"] == "rkmk54" and methods[LABEL]["adaptive"]
    assert "steps_of" not in methods["rkmk5"]["options"] and not methods["rkmk5"]["adaptive"]


def test_rejected_steps_are_recorded_along_the_run(stored):
    variable = stored.isel(run=np.isin(stored["integrator"], ["rkmk54", "cf43"]))
    so_far = variable["rejected_so_far"]
    assert so_far.attrs["units"] == "1" and variable["rejected_steps"].sum() > 4
    np.testing.assert_array_equal(so_far[:, 0], 0)
    np.testing.assert_array_equal(so_far[:, -1], variable["rejected_steps"])
    assert (np.diff(so_far, axis=1) >= 0).all()
    fixed = runs_of(stored, "rkmk5")
    assert (fixed["rejected_so_far"] == 0).all()
    assert stored["stop_time"].attrs["units"] == "s" and np.isnan(stored["stop_time"]).all()


def test_a_stored_run_is_what_integrating_gives(stored):
    system = systems.get("spherical_pendulum_chain", gravity=-9.81)
    method, start = integrators.get("rkmk5", steps_of="rkmk54"), system.start("celledoni")
    alone = integrators.integrate(system, method, start, duration=2.0, samples=20, tolerance=1e-7)
    name = run_id(system, "rkmk5", method.identity, np.nan, start, tolerance=1e-7)
    row = stored.isel(run=stored["run_id"].values.tolist().index(name))
    np.testing.assert_array_equal(row["state"], alone.states)
    assert int(row["evaluations"]) == alone.counters["evaluations"]


def test_they_are_compared_by_their_tolerance(stored):
    rows = {(row.integrator, row.tolerance): row for row in tolerance_table(stored)}
    assert set(rows) == {(n, t) for n in ("rkmk54", LABEL, "cf43") for t in (1e-5, 1e-7)}
    assert rows[LABEL, 1e-7].steps == rows["rkmk54", 1e-7].steps
    assert rows[LABEL, 1e-7].value < rows[LABEL, 1e-5].value
    (row,) = order_table(stored)
    assert row.integrator == "rkmk5"


def test_commands_take_them(place, command):
    command(place, "check", "equal.toml")
    assert "18 runs to compute" in command(place, "plan", "equal.toml", "new.zarr").stdout
    assert LABEL in command(place, "order", "equal.zarr").stdout
    assert "0 new runs, 18 kept" in command(place, "run", "equal.toml", "equal.zarr").stdout


def test_counting_is_no_part_of_a_runs_time(monkeypatch):
    """The clock begins when the steps are counted."""
    from integrators.stepping import equal_steps
    from sweep.campaign.worker import recorder as computing

    clock = [0.0]
    monkeypatch.setattr(computing.time, "thread_time", lambda: clock[0])
    counted = equal_steps.EqualSteps.prepare

    def slow(self, *arguments):
        clock[0] += 1000.0
        return counted(self, *arguments)

    monkeypatch.setattr(equal_steps.EqualSteps, "prepare", slow)
    recipe = Recipe(TimeAxis(1.0, 2), ("energy",), "none", 0)
    system = NamedComponent.of("spherical_pendulum_chain", {"gravity": -9.81})
    recorder = Recorder(recipe, system, NamedComponent.of("rkmk5", {"steps_of": "rkmk54"}))
    start = systems.get("spherical_pendulum_chain", gravity=-9.81).start("celledoni")
    columns = recorder.run(start[None], np.nan, 0, tolerance=1e-4)
    assert clock[0] == 1000.0 and columns["cpu_time"] == [0.0] and columns["steps"] > 5


@pytest.mark.parametrize(
    ("integrator", "message"),
    [
        (
            '{ name = "rkmk5", steps_of = "rkmk45" }',
            "s.toml:6: experiment[0].integrators.steps_of: unknown adaptive integrator 'rkmk45'",
        ),
        ('{ name = "rkmk5", steps_of = "rk4" }', "steps_of = 'rk4', which has a fixed step"),
        ('{ name = "rkmk54", steps_of = "rk45" }', "'rkmk54' is adaptive and chooses its own"),
        (
            '{ name = "rkmk5", steps_of = "rkmk54", step_size = 0.1 }',
            "leave out one of 'step_size' and 'steps_of'",
        ),
        ('{ name = "rkmk5", steps_of = "rkmk54" }', "'rkmk5' takes its steps at a tolerance, and"),
    ],
)
def test_mistakes_are_explained(integrator, message):
    text = one_experiment(integrators=integrator, step_size=None)
    assert any(message in line for line in problems(text)), problems(text)


def test_a_label_of_its_own_and_an_identity():
    texts = [
        one_experiment(**KEYS | {"integrators": value, "step_size": None})
        for value in ('{ name = "rkmk5", steps_of = "rkmk54" }', '"rkmk54"',
                      '{ name = "rkmk5", steps_of = "cf43", label = "own" }')
    ]  # fmt: skip
    tables = [expand_experiment(studies.parse_study(text).experiments[0]) for text in texts]
    assert [set(table.integrator) for table in tables] == [{LABEL}, {"rkmk54"}, {"own"}]
    assert len({name for table in tables for name in table.run_id}) == 12


# --- a store that an earlier version began ----------------------------------------------------


def made_older(path):
    """Make the store one of before runs had a time at which they stop, or vanishing steps."""
    group = zarr.open_group(path, path="only", mode="r+", use_consolidated=False)
    del group["stop_time"]
    status = group["status"]
    status[:] = np.where(status[:] == 4, 2, status[:])
    status.attrs["flag_values"] = status.attrs["flag_values"][:-1]
    status.attrs["flag_meanings"] = status.attrs["flag_meanings"].rpartition(" ")[0]
    zarr.consolidate_metadata(path, path="only")
    zarr.consolidate_metadata(path)
    ledger = fold.ledger_file(Store.at(path), "only")
    noted = json.loads(ledger.read_text())
    for extents in noted.values():
        del extents["stop_time"]
    ledger.write_text(json.dumps(noted))
    return group


COLLISION = one_experiment(
    system='"nbody_sphere"',
    parameters="{ count = 2 }",
    integrators='["rk45"]',
    step_size=None,
    tolerance="[1e-4, 1e-6]",
    initial_condition="{ q = [[0, 0, 1], [0.6, 0, 0.8]], omega = [[0, 0, 0], [0, 0, 0]] }",
    record='["energy"]',
    duration="3.0",
)


def test_a_store_of_an_earlier_version_goes_on(cluster, tmp_path, command):
    path, parsed = tmp_path / "test.zarr", studies.parse_study(COLLISION)
    assert sweep.run(parsed, path, cluster).failed == 2
    group = made_older(path)
    read = command(tmp_path, "status", "test.zarr", "--failed", "--json").stdout
    failed = [(row["status"], row["stop_time"]) for row in json.loads(read)["failures"]]
    assert failed == [("not_converged", None)] * 2
    group["sample_count"][:] = [0, *group["sample_count"][1:]]
    outcome = sweep.run(parsed, path, cluster)
    assert outcome.complete
    assert outcome.tallies[0].failed == (("not_converged", 1), ("step_too_small", 1))
    only = sweep.open_study(path)["only"].to_dataset()
    assert only["status"].attrs["flag_meanings"].endswith("not_finite step_too_small")
    assert np.isfinite(only["stop_time"].values).tolist() == [True, False]
