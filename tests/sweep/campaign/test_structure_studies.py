"""Measured structure and stability limits through the service."""

import numpy as np
import pytest
from study_runs import many_experiments, stored
from study_text import one_experiment, problems

import integrators
import sweep
import systems
from integrators.diagnostics.stability import largest_step
from sweep.analysis import grid

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


slow = pytest.mark.slow  # they need tangents


@pytest.fixture(scope="module")
def tree(cluster, tmp_path_factory):
    return stored(STUDY, cluster, tmp_path_factory.mktemp("structure"))


@slow
def test_the_run_table_has_what_is_measured(tree):
    for name, count in (("pendulum", 45), ("vortices", 36)):
        data = tree[name]
        for key in MEASURED:
            assert data[key].dims == ("run",) and data.sizes["run"] == count
            assert data[key].attrs["units"] == "1" and data[key].attrs["long_name"]
    fine = tree["pendulum"].query(run="integrator == 'variational'")
    assert float((fine.symplectic_defect / fine.symplectic_resolution).max()) <= 3
    # Measured: 5e-11 in one run, since the motion is chaotic; less than 1e-12 in most.
    assert float(grid(fine).reversal_error.max()) < 1e-9
    assert float(grid(fine).reversal_error.median()) < 1e-12


@slow
def test_it_is_what_python_measures(tree):
    pendulum = tree["pendulum"].query(run="not adaptive")
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


@slow
def test_adaptive_runs_have_the_defect_of_the_first_interval(tree):
    adaptive = tree["pendulum"].query(run="adaptive")
    assert np.isnan(adaptive.reversal_error).all()
    system = systems.get("spherical_pendulum_chain")
    found = integrators.symplectic_defect(
        system, integrators.get("rk45"), system.ensemble(9, seed=1)[4], tolerance=1e-6, duration=5.0
    )
    assert float(adaptive.symplectic_defect[4]) == found.defect > 1e-9


@slow
def test_runs_that_fail_have_none(tree):
    vortices = tree["vortices"]
    failed = vortices.status.values > 0
    assert 0 < failed.sum() < len(failed)
    for key in MEASURED:
        assert np.array_equal(np.isnan(vortices[key]), failed)


WITHOUT = {"integrators": '"rk4"', "step_size": "[0.1]", "initial_condition": '"lee"'}


def test_a_runs_steps_and_results_are_without_it(cluster, tmp_path):
    records = {"plain": '["energy"]', "measured": '["energy", "reversal_error"]'}
    text = many_experiments({name: {"record": own} for name, own in records.items()}, **WITHOUT)
    plain, measured = stored(text, cluster, tmp_path).values()
    assert measured["run_id"].values.tolist() == plain["run_id"].values.tolist()
    for name in ("steps", "evaluations", "energy"):
        np.testing.assert_array_equal(measured[name], plain[name])
    assert 0 < float(measured["reversal_error"][0]) < 1


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


@slow
def test_where_some_runs_have_it_it_is_recorded(cluster, tmp_path_factory):
    adaptive = '["rk4", { name = "rk45", tolerance = 1e-6 }]'
    keys = WITHOUT | {"integrators": adaptive, "record": '["reversal_error"]'}
    data = stored(one_experiment(**keys), cluster, tmp_path_factory.mktemp("some"))["only"]
    assert np.isnan(data["reversal_error"]).values.tolist() == data["adaptive"].values.tolist()
    many = one_experiment(
        system='"heisenberg_chain"', scan="{ count = [3, 130] }", step_size="0.1",
        integrators='"spherical_midpoint"', initial_condition="{ random = 1, seed = 1 }",
        record='["symplectic_defect"]',
    )  # fmt: skip
    data = stored(many, cluster, tmp_path_factory.mktemp("many"))["only"]
    assert np.isnan(data["symplectic_defect"]).values.tolist() == [False, True]


# --- the stability limit -------------------------------------------------------------------------

UNSTABLE = {
    "system": '"precession"',
    "scan": "{ axis = [{ label = 'slow', value = [0, 0, 1] }, "
    "{ label = 'fast', value = [0, 0, 5] }] }",
    "integrators": '["spherical_midpoint"]',
    "step_size": "[1.0, 0.25]",
    "initial_condition": "{ random = 1, seed = 1 }",
    "duration": "2.0",
    "samples": "1",
}


def warnings_of(done):
    return [line for line in done.stderr.splitlines() if line.startswith("Warning: ")]


def test_check_plan_and_run_warn_before_any_work(command, tmp_path):
    (tmp_path / "s.toml").write_text(one_experiment(**UNSTABLE))
    for name, *options in (("check",), ("plan",), ("run", "--no-summary")):
        done = command(tmp_path, name, "s.toml", *options, code=3 if name == "run" else 0)
        assert warnings_of(done) == [
            "Warning: s.toml:6: experiment[0].integrators[0] ('spherical_midpoint'): 1 of 2 runs "
            "begin beyond its linear stability limit: step size 1 × frequency 5 = 5, the limit is "
            "2; within it are step sizes below 0.4"
        ]
    again = command(tmp_path, "run", "s.toml", "--no-summary", code=3)
    assert "Nothing to compute" in again.stdout and not warnings_of(again)
    # All are computed; a spin near the axis turns beyond the limit too.
    data = sweep.open_study(tmp_path / "test.zarr")["only"].to_dataset()
    assert data.status.values.min() == 0
    assert set(data.axis.values[data.status.values > 0]) == {"fast"}


def test_the_largest_of_a_compositions_steps_counts(command, tmp_path):
    names = '["implicit_midpoint", "spherical_midpoint+triple_jump4"]'
    (tmp_path / "s.toml").write_text(one_experiment(**UNSTABLE | {"integrators": names}))
    coarse, fine = warnings_of(command(tmp_path, "check", "s.toml"))
    assert "experiment[0].integrators[1]" in coarse and "step size 1 × frequency 5" in coarse
    assert "× largest |γ| 1.702 = 8.512" in coarse
    assert "step size 0.25 × frequency 5" in fine and "1 of 2 runs" in fine
    composed = integrators.get("spherical_midpoint+triple_jump4")
    below = float(fine.rsplit("below ", 1)[1])
    assert below == pytest.approx(largest_step(composed, 5.0), rel=1e-3)
