"""Lyapunov exponents and MEGNO through the service: along runs, from checkpoints, extended."""

import json

import numpy as np
import pytest
from study_text import one_experiment, problems

import integrators
import sweep
import systems
from integrators.compiler.tangents import COUNT
from sweep.campaign.worker.recorder import NamedComponent, Recipe, Recorder, RunBatch
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
integrators = [
    "variational",
    "rk4",
    { name = "rk45", tolerance = 1e-6 },
    { name = "dop853", tolerance = 1e-6 },
]
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

[[experiment]]
name = "quadrotors"
system = "quadrotor_payload"
integrators = ["rkmk4", { name = "rkmk54", tolerance = 1e-6 }]
initial_condition = "celledoni"
duration = 1.0
record = ["lyapunov"]
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
    data = tree["pendulum"].to_dataset().query(run="integrator != 'dop853'")
    system = systems.get("spherical_pendulum_chain")
    chosen = [*range(0, data.sizes["run"], 13), *np.flatnonzero(data.adaptive.values)[::4]]
    assert data.adaptive.values[chosen].sum() > 1
    for run in chosen:
        row = data.isel(run=run)
        given = {"step_size": float(row.step_size), "tolerance": float(row.tolerance)}
        found = integrators.lyapunov_exponents(
            system, integrators.get(str(row.integrator.values)), row.initial_state.values,
            duration=10.0, samples=10, count=4,
            **{name: value for name, value in given.items() if np.isfinite(value)},
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


def test_one_without_a_main_method_has_none_and_the_store_is_sound(tree, store):
    without = tree["pendulum"].to_dataset().query(run="integrator == 'dop853'")
    assert without.sizes["run"] and all(np.isnan(without[n]).all() for n in (*NAMES, "megno"))
    assert np.isfinite(tree["quadrotors"].to_dataset().lyapunov[:, 1:]).all()
    assert not sweep.verify(store)


def test_the_table_is_printed(store, command, tmp_path):
    printed = command(tmp_path, "chaos", str(store)).stdout
    assert "Lyapunov exponents [s-1] of the steps until t = 10 s, medians over" in printed
    assert "λ4  MEGNO" in printed
    assert "dop853: no tangent vectors went along with its adaptive steps" in printed
    rows = json.loads(command(tmp_path, "chaos", str(store), "--json").stdout)
    assert [row["tolerance"] for row in rows["pendulum"]["rows"]] == [None, None, None, None, 1e-6]
    assert rows["forced"]["rows"][0]["exponents"][0]["median"]
    assert rows["spins"]["rows"][0]["megno"]["median"] > 0.0


def recorder(record, samples=8, integrator="variational", **options):
    recipe = Recipe(TimeAxis(8.0, samples), record, "none", 0)
    made = (
        NamedComponent("spherical_pendulum_chain", ()),
        NamedComponent.of(integrator, options),
    )
    return Recorder(recipe, *made)


@pytest.mark.parametrize(
    ("name", "options", "samples", "cuts"),
    [
        ("variational", {}, 8, (3,)),
        ("rk45", {}, 8, (3, 4)),
        ("rkmk54", {}, 80, (3, 4, 5, 47)),  # steps are longer than sample intervals
        ("rkmk54", {"output": "land"}, 80, (30,)),
    ],
)
def test_a_run_in_segments_is_the_whole_one(name, options, samples, cuts):
    made = recorder(("energy", "lyapunov_1", "lyapunov_2", "megno"), samples, name, **options)
    starts = systems.get("spherical_pendulum_chain").ensemble(3, seed=1)
    starts = starts if name == "variational" else starts[:1]
    own = (0.1, 10, np.nan) if name == "variational" else (np.nan, 0, 1e-5)
    whole = made.run(starts, *own[:2], tolerance=own[2])
    runs, pieces = RunBatch.begin(starts, *own), []
    for last in (*cuts, samples):
        pieces.append(made.advance(runs, last))
        assert runs.checkpoints.shape == (len(starts), made.checkpoint_size)
    assert np.isfinite(whole["megno"][:, 1:]).all()
    for name in ("energy", "lyapunov_1", "lyapunov_2", "megno"):
        joined = np.concatenate([piece[name] for piece in pieces], axis=1)
        np.testing.assert_array_equal(joined, whole[name])


def test_runs_are_those_without_it():
    starts = systems.get("spherical_pendulum_chain").ensemble(3, seed=1)
    plain, other = recorder(("energy",)), recorder(("energy", "megno"))
    assert np.array_equal(
        plain.run(starts, 0.1, 10)["energy"], other.run(starts, 0.1, 10)["energy"]
    )


def test_an_extended_run_is_the_long_one(cluster, tmp_path):
    given = {
        "integrators": '["variational", { name = "rkmk54", tolerance = 1e-6 }]',
        "record": '["lyapunov", "megno"]',
    }
    text = one_experiment(**given)
    assert sweep.run(studies.parse_study(text), tmp_path / "short.zarr", cluster).complete
    assert sweep.extend(tmp_path / "short.zarr", duration=2.0, client=cluster).complete
    long = one_experiment(**given, duration="2.0", samples="20")
    assert sweep.run(studies.parse_study(long), tmp_path / "long.zarr", cluster).complete
    grown, once = (
        sweep.open_study(tmp_path / f"{name}.zarr")["only"].to_dataset()
        for name in ("short", "long")
    )
    assert np.isfinite(once.megno[:, 1:]).all()
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
                "integrators": '["dop853"]',
                "step_size": None,
                "tolerance": "1e-6",
                "record": '["megno"]',
            },
            "[0]: 'megno' cannot be computed: 'dop853' has no main method with a fixed step",
        ),
        (
            {
                "integrators": '[{ name = "rk4", arithmetic = "double-double" }]',
                "record": '["megno"]',
            },
            "[0]: 'megno' cannot be computed: 'rk4 (double-double)': tangent vectors go along with",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(changes, words):
    (problem,) = problems(one_experiment(**changes))
    assert f"experiment[0].record{words}" in problem


def test_as_many_exponents_are_named_as_there_are_tangents():
    assert MOST_EXPONENTS == COUNT
