"""A run that fails is a result: it is stored as such, and the others go on."""

import json

import numpy as np
import pytest
from study_text import run_tables

import integrators
import sweep
import systems
from integrators import status as status_of

STUDY = """\
format = 1
name = "failures"

[defaults]
duration = 100.0
samples = 50
record = ["energy", "unit_length", "state"]

[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
integrators = ["variational", "rk4"]
step_size = [1.0, 0.1]
initial_condition = ["lee", { around = "lee", random = 3, spread = 1e-2, seed = 1 }]
reference = { integrator = "dop853", tolerance = 1e-8, until = 4.0 }

[[experiment]]
name = "bodies"
system = "nbody_sphere"
integrators = ["variational"]
step_size = [0.1, 0.01]
initial_condition = ["lee", { around = "lee", random = 10, spread = 1e-2, seed = 1 }]
duration = 20.0
"""
STATUS = dict(zip(status_of.STATUS, range(len(status_of.STATUS)), strict=True))


@pytest.fixture(scope="module")
def ended(command, tmp_path_factory):
    """A directory with the study, its store and its plots, and what the run printed."""
    place = tmp_path_factory.mktemp("failures")
    (place / "failures.toml").write_text(STUDY)
    return place, command(place, "run", "failures.toml", code=3).stdout


@pytest.fixture(scope="module")
def datasets(ended):
    """The experiments by name, in memory."""
    tree = sweep.open_study(ended[0] / "failures.zarr")
    return {name: node.to_dataset().load() for name, node in tree.items()}


def test_the_summary_says_how_many_and_why(ended, datasets):
    _, printed = ended
    pendulum, bodies = datasets["pendulum"], datasets["bodies"]
    count = {name: int((bodies.status == value).sum()) for name, value in STATUS.items()}
    assert (pendulum.status == STATUS["not_converged"]).sum() == 4
    assert (pendulum.status == STATUS["not_finite"]).sum() == 4
    assert 0 < count["left_domain"] < 22 and count["complete"] > 0
    assert "pendulum: 4 of 16 runs did not converge\n" in printed
    assert "pendulum: 4 of 16 runs blew up\n" in printed
    left = f"bodies: {count['left_domain']} of 22 runs left the domain of the method"
    assert left in printed
    assert "Which runs: sweep status --failures " in printed
    assert "Complete: 38 runs" in printed


def test_status_says_which(ended, datasets, command):
    place, _ = ended
    found = json.loads(
        command(place, "status", "failures.zarr", "--failures", "--json").stdout,
        parse_constant=lambda name: pytest.fail(f"{name} is no JSON"),
    )
    failed = {name: table.isel(run=(table.status > 0).values) for name, table in datasets.items()}
    assert {e["experiment"]: e["failed"] for e in found["experiments"]} == {
        name: table.sizes["run"] for name, table in failed.items()
    }
    listed = [
        (row["experiment"], row["run"], STATUS[row["status"]], row["stop_step"])
        for row in found["failures"]
    ]
    assert listed == [
        (name, int(row.run), int(row.status), int(row.stop_step))
        for name, table in failed.items()
        for row in (table.isel(run=i) for i in range(table.sizes["run"]))
    ]


def test_nan_from_where_it_stopped_and_the_others_untouched(datasets):
    """In lanes beside runs that fail, each run has the bits it has alone."""
    for name, table in run_tables(STUDY).items():
        experiment, dataset = table.experiment, datasets[name]
        meanings = dict(
            zip(
                dataset.status.attrs["flag_values"],
                dataset.status.attrs["flag_meanings"].split(),
                strict=True,
            )
        )
        assert meanings == {-1: "pending"} | {value: name for name, value in STATUS.items()}
        for i in range(table.size):
            row = dataset.isel(run=i)
            alone = integrators.integrate(
                systems.get(experiment.system),
                table.experiment.integrators[table.integrator_index[i]].integrator(),
                table.initial_state(i),
                step_size=float(row.step_size), duration=experiment.duration, samples=50,
            )  # fmt: skip
            assert row.status == alone.status
            assert row.steps == alone.counters["steps"]
            assert row.stop_step == alone.counters["stop_step"]
            np.testing.assert_array_equal(row.stop_time, alone.counters["stop_time"])
            valid = np.isfinite(alone.states).all(axis=(1, 2))
            assert (
                row.state.values.tobytes()
                == np.where(valid[:, None, None], alone.states, np.nan).tobytes()
            )
            check_stop(row, valid, int(table.steps_per_sample[i]))


def check_stop(row, valid, steps):
    count = int(row.sample_count)
    assert count == valid.sum() and valid[:count].all()
    assert count >= 1  # the initial state is always there
    if row.status == 0:
        assert count == 51 and row.stop_step == -1
    else:
        assert (count - 1) * steps <= row.stop_step < count * steps
    for name in ("energy", "energy_error", "unit_length_error"):
        assert np.isfinite(row[name][:count]).all()
        assert np.isnan(row[name][count:]).all()
    for name in ("energy_error_abs_max", "unit_length_error_mean"):
        assert np.isfinite(row[name][1:count]).all()
        assert np.isnan(row[name][count:]).all()
    if "global_error" in row:
        measured = min(count, 3)
        assert np.isfinite(row.global_error[:measured]).all()
        assert np.isnan(row.global_error[measured:]).all()


def test_a_failed_run_is_not_tried_again(ended, command, arrays):
    place, _ = ended
    before = arrays(place / "failures.zarr", "pendulum")["cpu_time"]
    again = command(place, "run", "failures.toml", "--no-summary", code=3).stdout
    assert "0 new runs, 38 kept" in again and "Nothing to compute" in again
    assert "pendulum: 4 of 16 runs blew up" in again
    assert arrays(place / "failures.zarr", "pendulum")["cpu_time"].tobytes() == before.tobytes()


def test_tables_and_plots_do_without_them(ended):
    place, printed = ended
    assert printed.count("energy error") == 2 and "order" in printed
    assert len(list((place / "failures-plots").iterdir())) >= 5


@pytest.mark.slow
def test_a_study_of_failures_alone(command, tmp_path):
    text = STUDY.partition('[[experiment]]\nname = "bodies"')[0].replace("[1.0, 0.1]", "1.0")
    (tmp_path / "failures.toml").write_text(text)
    printed = command(tmp_path, "run", "failures.toml", code=3).stdout
    assert "pendulum: 4 of 8 runs did not converge\n" in printed
    assert "Complete: 8 runs" in printed
