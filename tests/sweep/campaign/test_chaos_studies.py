"""Lyapunov exponents and MEGNO through the service: along runs, from checkpoints, extended."""

import json

import numpy as np
import pytest
from study_text import one_experiment, problems

import integrators
import sweep
import systems
from integrators.compiler.tangents import COUNT
from sweep.campaign.worker.recorder import BatchUnderway, NamedComponent, Recipe, Recorder
from sweep.store import studies
from sweep.study.schema import MOST_EXPONENTS
from sweep.study.time_axis import TimeAxis

STUDY = """\
format = 1
name = "chaos"

[defaults]
samples = 10
duration = 10.0
step_size = [0.1, 0.05]

[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
integrators = ["variational", "rk4", { name = "rk45", tolerance = 1e-6 }]
initial_condition = ["lee", { random = 9, seed = 1 }]
record = ["energy", { name = "lyapunov", count = 4 }, "megno"]

[[experiment]]
name = "forced"
system = "forced_pendulum_chain"
integrators = ["variational"]
initial_condition = { random = 2, seed = 1 }
record = ["lyapunov"]

[[experiment]]
name = "spins"
system = "heisenberg_chain"
integrators = ["spherical_midpoint"]
initial_condition = { random = 2, seed = 1 }
record = ["megno"]
"""
NAMES = ("lyapunov_1", "lyapunov_2", "lyapunov_3", "lyapunov_4")


@pytest.fixture(scope="module")
def store(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("chaos") / "chaos.zarr"
    assert sweep.run(studies.parse_study(STUDY), path, cluster).complete
    return path


@pytest.fixture(scope="module")
def tree(store):
    return sweep.open_study(store)


def test_series_are_those_from_python(tree):
    data = tree["pendulum"].to_dataset().query(run="not adaptive")
    system = systems.get("spherical_pendulum_chain")
    for run in range(0, data.sizes["run"], 13):
        row = data.isel(run=run)
        found = integrators.lyapunov_exponents(
            system, integrators.get(str(row.integrator.values)), row.initial_state.values,
            step_size=float(row.step_size), duration=10.0, samples=10, count=4,
        )  # fmt: skip
        stored = np.stack([row[name].values for name in NAMES], axis=1)
        np.testing.assert_array_equal(stored, found.exponents)
        np.testing.assert_array_equal(row.megno.values, found.megno)
        assert np.isfinite(found.exponents[1:]).all() and np.isnan(found.exponents[0]).all()


def test_variables_are_described(tree):
    data = tree["pendulum"].to_dataset()
    assert "lyapunov" not in data and "lyapunov_5" not in data
    assert data.lyapunov_2.attrs["units"] == "s-1" and data.megno.attrs["units"] == "1"
    assert data.lyapunov_2.attrs["long_name"] == "Lyapunov exponent 2 of the steps until then"
    assert tree["spins"].to_dataset().megno.dims == ("run", "time")
    assert {"lyapunov"} == set(sweep.analysis.variables_of_chaos(tree["forced"].to_dataset()))
    assert np.isfinite(tree["forced"].to_dataset().lyapunov[:, 1:]).all()


def test_adaptive_runs_have_none_and_the_store_is_sound(tree, store):
    adaptive = tree["pendulum"].to_dataset().query(run="adaptive")
    assert all(np.isnan(adaptive[name]).all() for name in (*NAMES, "megno"))
    assert not sweep.verify(store)


def test_the_table_is_printed(store, command, tmp_path):
    printed = command(tmp_path, "chaos", str(store)).stdout
    assert "Lyapunov exponents [s-1] of the steps until t = 10 s, medians over" in printed
    assert "λ4  MEGNO" in printed
    assert "rk45 is adaptive: no tangent vectors go along with its steps" in printed
    rows = json.loads(command(tmp_path, "chaos", str(store), "--json").stdout)
    assert len(rows["pendulum"]) == 4 and rows["forced"][0]["exponents"][0]["median"]
    assert rows["spins"][0]["megno"]["median"] > 0.0


def recorder(record, samples=8):
    recipe = Recipe(TimeAxis(8.0, samples), record, "none", 0)
    made = NamedComponent("spherical_pendulum_chain", ()), NamedComponent("variational", ())
    return Recorder(recipe, *made)


def test_a_run_in_segments_is_the_whole_one():
    made = recorder(("energy", "lyapunov_1", "lyapunov_2", "megno"))
    starts = systems.get("spherical_pendulum_chain").ensemble(3, seed=1)
    whole = made.run(starts, 0.1, 10)
    runs = BatchUnderway.begin(starts, 0.1, 10, np.nan)
    first = made.advance(runs, 3)
    assert runs.checkpoints.shape == (3, made.checkpoint_size)
    rest = made.advance(runs, 8)
    for name in ("energy", "lyapunov_1", "lyapunov_2", "megno"):
        both = np.concatenate([first[name], rest[name]], axis=1)
        np.testing.assert_array_equal(both, whole[name])


def test_runs_are_those_without_it():
    starts = systems.get("spherical_pendulum_chain").ensemble(3, seed=1)
    plain, other = recorder(("energy",)), recorder(("energy", "megno"))
    assert np.array_equal(
        plain.run(starts, 0.1, 10)["energy"], other.run(starts, 0.1, 10)["energy"]
    )


def test_an_extended_run_is_the_long_one(cluster, tmp_path):
    text = one_experiment(record='["lyapunov", "megno"]')
    assert sweep.run(studies.parse_study(text), tmp_path / "short.zarr", cluster).complete
    assert sweep.extend(tmp_path / "short.zarr", duration=2.0, client=cluster).complete
    long = one_experiment(record='["lyapunov", "megno"]', duration="2.0", samples="20")
    assert sweep.run(studies.parse_study(long), tmp_path / "long.zarr", cluster).complete
    grown, once = (
        sweep.open_study(tmp_path / f"{name}.zarr")["only"].to_dataset()
        for name in ("short", "long")
    )
    for name in ("lyapunov", "megno"):
        np.testing.assert_array_equal(grown[name], once[name])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"record": '[{ name = "lyapunov", count = 9 }]'},
            "[0].count: 9 exponents; expected 1 to 8",
        ),
        ({"record": '[{ name = "lyapunov", count = 0 }]'}, "[0].count: expected 1 or more, got 0"),
        ({"record": '[{ name = "lyapunov" }]'}, "[0]: the key 'count' is missing"),
        ({"record": '[{ name = "lyapunof" }]'}, "[0].name: unknown quantity with a count"),
        ({"record": '[{ name = "megno", count = 2 }]'}, "[0].name: unknown quantity with a count"),
        ({"record": '["lyapunof"]'}, "[0]: unknown quantity"),
        (
            {"record": '["lyapunov", { name = "lyapunov", count = 2 }]'},
            "[1]: the quantity 'lyapunov' is also that of",
        ),
        (
            {
                "system": '"precession"',
                "integrators": '["splitting"]',
                "initial_condition": '"equator"',
                "record": '[{ name = "lyapunov", count = 3 }]',
            },
            "[0].count: 3 exponents; expected 1 to 2: the states of this system have 2 dimensions",
        ),
        (
            {
                "integrators": '["rk45"]',
                "step_size": None,
                "tolerance": "1e-6",
                "record": '["megno"]',
            },
            "[0]: 'megno' needs an integrator with a fixed step",
        ),
        (
            {
                "integrators": '[{ name = "rk4", arithmetic = "double-double" }]',
                "record": '["megno"]',
            },
            "[0]: 'megno' needs an integrator with a fixed step in double precision",
        ),
        (
            {
                "system": '"quadrotor_payload"',
                "integrators": '["rkmk4"]',
                "initial_condition": "{ random = 1, seed = 1 }",
                "record": '["megno"]',
            },
            "[0]: 'megno' cannot be computed on quadrotor_payload: no tangent space is known",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(changes, words):
    (problem,) = problems(one_experiment(**changes))
    assert f"experiment[0].record{words}" in problem


def test_as_many_exponents_are_named_as_there_are_tangents():
    assert MOST_EXPONENTS == COUNT
