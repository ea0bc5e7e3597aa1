"""Measured structure and stability limits through the service."""

from types import SimpleNamespace

import numpy as np
import pytest
from study_text import one_experiment, problems

import integrators
import sweep
import systems
from integrators.diagnostics.stability import largest_step
from sweep.analysis import grid
from sweep.campaign.worker import recorder as computing
from sweep.campaign.worker.recorder import NamedComponent, Recipe, Recorder
from sweep.store import studies
from sweep.study import schema, structure
from sweep.study.time_axis import TimeAxis

STUDY = """\
format = 1
name = "structures"

[defaults]
duration = 20.0
samples = 4
step_size = [0.05, 0.02]
statistics = "none"
record = ["energy", "symplectic_defect", "reversal_error"]

[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
integrators = ["variational", "rk4", { name = "rk45", tolerance = 1e-6 }]
initial_condition = { random = 9, seed = 1 }

[[experiment]]
name = "vortices"
system = "point_vortices"
scan = { strengths = [{ label = "two", value = [1.0, 1.0] }, { label = "three", value = [1.0, -0.5, 2.0] }] }
integrators = ["spherical_midpoint", "rk4"]
step_size = [20.0, 0.2, 0.1]
samples = 1
initial_condition = { random = 3, seed = 1 }
"""  # noqa: E501
MEASURED = ("symplectic_defect", "symplectic_resolution", "reversal_error")


@pytest.fixture(scope="module")
def store(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("structure") / "structures.zarr"
    assert sweep.run(studies.parse_study(STUDY), path, cluster).complete
    return path


@pytest.fixture(scope="module")
def tree(store):
    return sweep.open_study(store)


def test_the_run_table_has_what_is_measured(tree):
    for name, count in (("pendulum", 45), ("vortices", 36)):
        data = tree[name].to_dataset()
        for key in MEASURED:
            assert data[key].dims == ("run",) and data.sizes["run"] == count
            assert data[key].attrs["units"] == "1" and data[key].attrs["long_name"]
    fine = tree["pendulum"].to_dataset().query(run="integrator == 'variational'")
    assert float((fine.symplectic_defect / fine.symplectic_resolution).max()) <= 3
    # Measured: 5e-11 in one run, since the motion is chaotic; less than 1e-12 in most.
    assert float(grid(fine).reversal_error.max()) < 1e-9
    assert float(grid(fine).reversal_error.median()) < 1e-12


def test_it_is_what_python_measures(tree):
    pendulum = tree["pendulum"].to_dataset().query(run="not adaptive")
    system = systems.get("spherical_pendulum_chain")
    starts = system.ensemble(9, seed=1)
    for run in range(0, pendulum.sizes["run"], 7):
        row = pendulum.isel(run=run)
        method, h = integrators.get(str(row.integrator.values)), float(row.step_size)
        state = starts[run % 9]
        assert np.array_equal(state, row.initial_state)
        found = integrators.symplectic_defect(system, method, state, step_size=h)
        assert (found.defect, found.resolution) == (
            float(row.symplectic_defect),
            float(row.symplectic_resolution),
        )
        back = integrators.reversal_error(system, method, state, step_size=h, steps=round(20.0 / h))
        assert back == float(row.reversal_error)


def test_adaptive_runs_have_the_defect_of_the_first_interval(tree):
    adaptive = tree["pendulum"].to_dataset().query(run="adaptive")
    assert np.isnan(adaptive.reversal_error).all()
    system = systems.get("spherical_pendulum_chain")
    found = integrators.symplectic_defect(
        system, integrators.get("rk45"), system.ensemble(9, seed=1)[4], tolerance=1e-6, duration=5.0
    )
    assert float(adaptive.symplectic_defect[4]) == found.defect > 1e-9


def test_runs_that_fail_have_none(tree):
    vortices = tree["vortices"].to_dataset()
    failed = vortices.status.values > 0
    assert 0 < failed.sum() < len(failed)
    for key in MEASURED:
        assert np.array_equal(np.isnan(vortices[key]), failed)


# --- cost ----------------------------------------------------------------------------------------


def recorder(record):
    recipe = Recipe(TimeAxis(1.0, 2), record, "none", 0)
    return Recorder(
        recipe, NamedComponent("spherical_pendulum_chain", ()), NamedComponent("rk4", ())
    )


def test_a_runs_own_time_is_without_it(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    reading = SimpleNamespace(thread_time=lambda: clock.now, perf_counter=lambda: clock.now)
    monkeypatch.setattr(computing, "time", reading)
    integrate = Recorder.integrate_fixed

    def spend(seconds, result):
        clock.now += seconds
        return result

    monkeypatch.setattr(
        Recorder, "integrate_fixed", lambda *arguments: spend(3.0, integrate(*arguments))
    )
    monkeypatch.setattr(structure, "symplectic_defects", lambda *arguments: spend(1000.0, {}))
    starts = systems.get("spherical_pendulum_chain").ensemble(2, seed=1)
    columns = recorder(("energy", "symplectic_defect")).run(starts, 0.01, 50)
    assert clock.now == 1003.0
    assert columns["cpu_time"].tolist() == columns["wall_time"].tolist() == [1.5, 1.5]


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"system": '"forced_pendulum_chain"', "record": '["work", "symplectic_defect"]'},
            "[1]: 'symplectic_defect' cannot be measured on forced_pendulum_chain: a system with a",
        ),
        (
            {
                "integrators": '["rk45"]',
                "step_size": None,
                "tolerance": "1e-6",
                "record": '["reversal_error"]',
            },
            "[0]: 'reversal_error' needs an integrator with a fixed step",
        ),
        (
            {
                "system": '"heisenberg_chain"',
                "parameters": "{ count = 129 }",
                "integrators": '["splitting"]',
                "initial_condition": "{ random = 1, seed = 1 }",
                "record": '["symplectic_defect"]',
            },
            "[0]: 'symplectic_defect' is measured of up to 128 bodies; heisenberg_chain has 129",
        ),
        ({"record": '["symplectic_defct"]'}, "[0]: unknown quantity"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, words):
    (problem,) = problems(one_experiment(**changes))
    assert f"experiment[0].record{words}" in problem


def test_where_some_runs_have_it_it_is_recorded():
    adaptive = '["rk4", { name = "rk45", tolerance = 1e-6 }]'
    found = studies.parse_study(one_experiment(integrators=adaptive, record='["reversal_error"]'))
    assert found.experiments[0].record == ("reversal_error",)
    large = systems.get("heisenberg_chain", count=130)
    assert (
        structure.obstacle_to_measuring(
            schema.SYMPLECTIC_DEFECT, [systems.get("heisenberg_chain", count=3), large], []
        )
        == ""
    )
    measured = structure.symplectic_defects(
        large.form, None, large.ensemble(2, seed=1), 0.1, np.nan, 1.0
    )
    assert all(np.isnan(values).all() and len(values) == 2 for values in measured.values())


# --- the stability limit -------------------------------------------------------------------------

UNSTABLE = one_experiment(
    system='"precession"',
    scan="{ axis = [{ label = 'slow', value = [0, 0, 1] }, "
    "{ label = 'fast', value = [0, 0, 5] }] }",
    integrators='["spherical_midpoint", "spherical_midpoint+triple_jump4", "implicit_midpoint"]',
    step_size="[1.0, 0.25]",
    initial_condition="{ random = 3, seed = 1 }",
    duration="2.0",
    samples="1",
)


def test_check_plan_and_run_warn_before_any_work(command, tmp_path):
    (tmp_path / "s.toml").write_text(UNSTABLE)
    composed = integrators.get("spherical_midpoint+triple_jump4")
    for arguments in (("check",), ("plan",), ("run", "--no-summary")):
        name, *options = arguments
        done = command(tmp_path, name, "s.toml", *options, code=3 if name == "run" else 0)
        lines = [line for line in done.stderr.splitlines() if line.startswith("Warning: ")]
        assert len(lines) == 3
        plain, coarse, fine = lines
        assert plain == (
            "Warning: s.toml:6: experiment[0].integrators[0] ('spherical_midpoint'): 3 of 6 runs "
            "begin beyond its linear stability limit: step size 1 × frequency 5 = 5, the limit is "
            "2; within it are step sizes below 0.4"
        )
        assert "experiment[0].integrators[1]" in coarse and "step size 1 × frequency 5" in coarse
        assert "× largest |γ| 1.702 = 8.512" in coarse
        assert "step size 0.25 × frequency 5" in fine and "3 of 6 runs" in fine
        below = float(fine.rsplit("below ", 1)[1])
        assert below == pytest.approx(largest_step(composed, 5.0), rel=1e-3)
    again = command(tmp_path, "run", "s.toml", "--no-summary", code=3)
    assert "Nothing to compute" in again.stdout and "Warning" not in again.stderr
    # All are computed; a spin near the axis turns beyond the limit too.
    data = sweep.open_study(tmp_path / "test.zarr")["only"].to_dataset()
    assert data.status.values.min() == 0
    failed = data.isel(run=data.status.values > 0)
    assert set(failed.axis.values) == {"fast"} and "implicit_midpoint" not in failed.integrator
