"""Lyapunov exponents and MEGNO through the service: along runs, from checkpoints, extended."""

import json

import numpy as np
import pytest
from study_runs import stored, write
from study_text import one_experiment, problems

import integrators
import sweep
import systems

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
initial_condition = ["lee", { random = 4, seed = 1 }]
record = ["energy", { name = "lyapunov", count = 4 }, "megno"]

[[experiment]]
name = "forced"
system = "forced_pendulum_chain"
integrators = ["rk4"]
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
integrators = ["rk4", { name = "rk45", tolerance = 1e-6 }]
initial_condition = "celledoni"
duration = 1.0
record = ["lyapunov"]
"""
slow = pytest.mark.slow  # they need tangents
NAMES = ("lyapunov_1", "lyapunov_2", "lyapunov_3", "lyapunov_4")


@pytest.fixture(scope="module")
def store(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("chaos") / "chaos.zarr"
    assert sweep.run(write(STUDY, path.parent), path, cluster).complete
    return path


@pytest.fixture(scope="module")
def tree(store):
    return sweep.open_study(store)


@slow
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


@slow
def test_variables_are_described(tree):
    data = tree["pendulum"].to_dataset()
    assert "lyapunov" not in data and "lyapunov_5" not in data
    assert data.lyapunov_2.attrs["units"] == "s-1" and data.megno.attrs["units"] == "1"
    assert data.lyapunov_2.attrs["long_name"] == "Lyapunov exponent 2 of the steps until then"
    assert tree["spins"].to_dataset().megno.dims == ("run", "time")
    assert {"lyapunov"} == set(sweep.analysis.variables_of_chaos(tree["forced"].to_dataset()))
    assert np.isfinite(tree["forced"].to_dataset().lyapunov[:, 1:]).all()


@slow
def test_one_without_a_main_method_has_none_and_the_store_is_sound(tree, store):
    without = tree["pendulum"].to_dataset().query(run="integrator == 'dop853'")
    assert without.sizes["run"] and all(np.isnan(without[n]).all() for n in (*NAMES, "megno"))
    assert np.isfinite(tree["quadrotors"].to_dataset().lyapunov[:, 1:]).all()
    assert not sweep.verify(store)


@slow
def test_the_table_is_printed(store, command, tmp_path):
    printed = command(tmp_path, "chaos", str(store)).stdout
    assert "Lyapunov exponents [s-1] of the steps until t = 10 s, medians over" in printed
    assert "λ4   λ1 over the starts  MEGNO" in printed
    assert "dop853: no tangent vectors went along with its adaptive steps" in printed
    rows = json.loads(command(tmp_path, "chaos", str(store), "--json").stdout)
    assert [row["tolerance"] for row in rows["pendulum"]["rows"]] == [None, None, None, None, 1e-6]
    assert rows["forced"]["rows"][0]["exponents"][0]["median"]
    assert rows["spins"]["rows"][0]["megno"]["median"] > 0.0


GIVEN = {
    "integrators": """["variational", { name = "rkmk54", tolerance = 1e-5 },
    { name = "rkmk54", output = "land", tolerance = 1e-5, label = "landing" },
    { name = "rk45", tolerance = 1e-5 }]""",
    "step_size": "0.1",
    "record": '["energy", "lyapunov", "megno"]',
}


@slow
def test_an_extended_run_is_the_long_one(cluster, tmp_path):
    """Piece by piece, and where steps are longer than sample intervals."""
    write(one_experiment(**GIVEN), tmp_path)
    assert sweep.run(tmp_path / "s.toml", tmp_path / "short.zarr", cluster).complete
    for duration in (1.3, 2.0):
        assert sweep.extend(tmp_path / "short.zarr", duration, client=cluster).complete
    grown = sweep.open_study(tmp_path / "short.zarr")["only"].to_dataset()
    once = stored(one_experiment(**GIVEN, duration="2.0", samples="20"), cluster, tmp_path)["only"]
    assert np.isfinite(once.megno[:, 1:]).all()
    for name in ("energy", "lyapunov", "megno"):
        np.testing.assert_array_equal(grown[name], once[name])
    plain = one_experiment(**GIVEN | {"record": '["energy"]'}, duration="2.0", samples="20")
    (tmp_path / "plain").mkdir()
    np.testing.assert_array_equal(
        stored(plain, cluster, tmp_path / "plain")["only"].energy, once.energy
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"record": '[{ name = "lyapunov", count = 9 }]'},
            "[0].count: 9 exponents; expected 1 to 8",
        ),
        ({"record": '[{ name = "lyapunov", count = 0 }]'}, "[0].count: expected at least 1, got"),
        ({"record": '[{ name = "lyapunov" }]'}, "[0]: the key 'count' is missing"),
        (
            {"record": '[{ name = "lyapunof", count = 2 }]'},
            "[0].name: unknown quantity with a count",
        ),
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
