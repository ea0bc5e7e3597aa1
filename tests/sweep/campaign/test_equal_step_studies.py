"""Studies of adaptive Lie group methods, and of as many equal steps; stores written before."""

import json

import numpy as np
import pytest
from study_runs import write
from study_text import one_experiment, problems

import integrators
import sweep
import systems
from sweep.analysis import order_table, tolerance_table

KEYS = {
    "parameters": "{ gravity = -9.81 }",
    "integrators": '["rkmk54", { name = "rkmk5", steps_of = "rkmk54" }, "rkmk5", "cf43"]',
    "step_size": "[0.1, 0.05, 0.025]",
    "tolerance": "[1e-5, 1e-7]",
    "initial_condition": '"celledoni"',
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
    ran = command(directory, "run", "equal.toml", "equal.zarr", "--no-summary")
    assert "Complete: 9 runs" in ran.stdout
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
    assert len(set(equal["steps"].values.tolist())) == 2
    sizes = np.broadcast_to(2.0 / equal["steps"].values[:, None], (2, 21))
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
    own = runs_of(stored, LABEL).query(run="tolerance == 1e-7 and initial_condition == 'celledoni'")
    row = own.isel(run=0)
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
    assert "9 runs to compute" in command(place, "plan", "equal.toml", "new.zarr").stdout
    assert LABEL in command(place, "order", "equal.zarr").stdout
    again = command(place, "run", "equal.toml", "equal.zarr", "--no-summary")
    assert "0 new runs, 9 kept" in again.stdout


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


def test_a_label_of_its_own_and_an_identity(tmp_path):
    labels, ids = [], set()
    for value in (
        '{ name = "rkmk5", steps_of = "rkmk54" }',
        '"rkmk54"',
        '{ name = "rkmk5", steps_of = "cf43", label = "own" }',
    ):
        text = one_experiment(**KEYS | {"integrators": value, "step_size": None})
        _, (table,) = sweep.check(write(text, tmp_path))
        labels.append(set(table.to_dataframe().integrator))
        ids |= {*table.run_id}
    assert labels == [{LABEL}, {"rkmk54"}, {"own"}] and len(ids) == 6
