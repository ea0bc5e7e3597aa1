"""A forced system through the service: its energy balance is what is followed."""

import numpy as np
import pytest

import sweep
from sweep import plots
from sweep.analysis import drift_table

STUDY = """\
format = 1
name = "forces"

[defaults]
integrators = ["variational", "rk4"]
step_size = [0.05, 0.025]
duration = 5.0
samples = 10

[[experiment]]
name = "forced"
system = "forced_pendulum_chain"
record = ["energy", "work", "energy_balance", "unit_length", "state"]
reference = { integrator = "dop853" }
initial_condition = ["lee"]

[[experiment]]
name = "as-declared"
system = "forced_pendulum_chain"
initial_condition = ["lee"]

[[experiment]]
name = "free"
system = "spherical_pendulum_chain"
initial_condition = ["lee"]
"""
STATISTICS = ("mean", "min", "max", "abs_mean", "abs_max")


@pytest.fixture(scope="module")
def tree(run_text, tmp_path_factory):
    path = tmp_path_factory.mktemp("forces") / "forces.zarr"
    assert run_text(STUDY, path).complete
    return sweep.open_study(path)


def test_the_balance_is_energy_less_work(tree):
    forced = tree["forced"].to_dataset().load()
    assert list(forced.row.values) == ["q0", "q1", "omega0", "omega1", "work"]
    work = forced.state.sel(row="work")
    np.testing.assert_array_equal(work.sel(component="x"), forced.work)
    np.testing.assert_array_equal(forced.energy_balance, forced.energy - forced.work)
    assert not work.sel(component=["y", "z"]).any() and not forced.work.isel(time=0).any()
    assert float(np.abs(forced.work).max()) > 0.1


def test_statistics_are_of_the_balance_and_observables_have_no_error(tree):
    forced, free = (tree[name].to_dataset() for name in ("forced", "free"))
    for of in STATISTICS:
        assert f"energy_balance_error_{of}" in forced and f"energy_error_{of}" not in forced
        assert f"energy_error_{of}" in free
    assert "energy_error" not in forced and "work_error" not in forced
    assert forced.energy_balance_error_abs_max.attrs["units"] == "J"
    samples = np.abs(forced.energy_balance_error).isel(time=slice(1, None))
    assert np.all(samples <= forced.energy_balance_error_abs_max.isel(time=slice(1, None)) + 1e-15)
    assert float(forced.energy_balance_error_abs_max.max()) < 0.02


def test_unasked_the_balance_is_recorded(tree):
    declared = tree["as-declared"].to_dataset()
    assert "energy_balance" in declared and "energy" not in declared and "work" not in declared


def test_errors_against_the_reference_are_of_q_and_omega(tree):
    forced = tree["forced"].to_dataset().load()
    both = np.hypot(forced.position_error, forced.velocity_error)
    np.testing.assert_allclose(forced.global_error, both, rtol=1e-12)
    fine = forced.query(run="integrator == 'variational' and initial_condition == 'lee'")
    coarse, fine = fine.global_error.isel(time=-1).values
    assert coarse / fine == pytest.approx(4.0, abs=0.1)


def test_tables_and_plots_go_by_what_is_declared(tree):
    rows = drift_table(tree["forced"])
    assert {row.quantity for row in rows} == {"energy_balance", "unit_length"}
    assert all(row.every_step for row in rows)
    (forced,) = plots.energy_over_time(tree["forced"]).axes
    (free,) = plots.energy_over_time(tree["free"]).axes
    assert forced.get_ylabel() == "max |energy balance error| over steps [J]"
    assert free.get_ylabel() == "max |E − E₀| over steps [J]"
