"""Runs that begin where runs of another store ended."""

import shutil

import numpy as np
import pytest
import zarr
from study_runs import many_experiments, stored, table_of
from study_text import one_experiment, problems

import sweep

PENDING = -1  # the status of a run that is not computed
FIRST = {
    "integrators": '["variational", { name = "rk4", formulation = "q_qdot" }]',
    "step_size": "[0.1, 0.05]",
    "record": '["energy", "state"]',
    "samples": "5",
}
BARE = FIRST | {"record": '["energy"]'}
ADAPTIVE = {
    "system": '"nbody_sphere"',
    "integrators": '{ name = "rk45", tolerance = 1e-6 }',
    "step_size": None,
    "samples": "5",
}
NEXT = {
    "integrators": '"variational"',
    "step_size": "0.1",
    "samples": "5",
    "initial_condition": '{ store = "first.zarr", where = "step_size < 0.07", normalize = true }',
}


@pytest.fixture(scope="module")
def stores(cluster, tmp_path_factory):
    """``first.zarr`` with states, ``bare.zarr`` without: of the same runs."""
    place = tmp_path_factory.mktemp("starts")
    for name, settings in (
        ("first", {"only": FIRST}),
        ("bare", {"only": BARE, "adaptive": ADAPTIVE}),
    ):
        stored(many_experiments(settings), cluster, place)
        (place / "s.zarr").rename(place / f"{name}.zarr")
    return place


@pytest.fixture
def place(stores, here):
    for name in ("first.zarr", "bare.zarr"):
        shutil.copytree(stores / name, here / name)
    return here


def opened(path):
    return sweep.open_study(path)["only"].to_dataset()


def test_runs_go_on_from_another_store(place, command):
    """Its end states are the initial ones; they stay when it is gone."""
    (place / "next.toml").write_text(one_experiment(**NEXT).replace('"test"', '"next"'))
    assert "next: valid, 6 runs" in command(place, "check", "next.toml").stdout
    command(place, "run", "next.toml", "--no-summary")
    first, made = opened("first.zarr"), opened("next.zarr")
    chosen = first.query(run="step_size < 0.07")
    assert made["ensemble"].values.tolist() == ["first/only"] * 6
    labels = [f"first/only[{i}]" for i in range(6)]
    assert made["initial_condition"].values.tolist() == labels
    begun, ended = made["initial_state"].values, chosen["state"].isel(time=-1).values
    on = chosen["integrator"].values == "variational"
    np.testing.assert_allclose(begun[on], ended[on], rtol=0, atol=4e-16)
    np.testing.assert_allclose(begun[~on], ended[~on], rtol=0, atol=1e-4)  # rk4 left the manifold
    assert np.abs((begun[:, :2] ** 2).sum(axis=2) - 1).max() < 1e-15
    (place / "first.zarr").rename(place / "gone.zarr")
    ran = command(place, "run", "next.toml", "--no-summary").stdout
    assert "0 new runs, 6 kept" in ran and "Nothing to compute" in ran
    more = one_experiment(**NEXT | {"step_size": "[0.1, 0.05]"}).replace('"test"', '"next"')
    (place / "next.toml").write_text(more)
    assert "6 runs to compute" in command(place, "plan", "next.toml").stdout
    refused = command(place, "run", "next.toml", "new.zarr", code=2).stderr
    assert "next.toml:8: experiment[0].initial_condition.store: there is no store" in refused


def refusal(start, **changes):
    text = one_experiment(**{"initial_condition": f"{{ {start} }}"} | changes)
    return problems(text, ".")[0]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ('store = "no.zarr"', ("s.toml:8: experiment[0].initial_condition.store: ", "no store")),
        ('store = "file"', ("is not a store",)),
        ('store = "bare.zarr"', ("experiment = ",)),
        ('store = "bare.zarr", experiment = "onyl"', ("unknown experiment 'onyl' of",)),
        (
            'store = "first.zarr", where = "step_siz < 1"',
            (".where: ", "experiment 'only' of", "'step_siz < 1' cannot be evaluated"),
        ),
        (
            'store = "first.zarr", where = "step_size.to_csv(\'made\') == 1"',
            (".where: ", "attributes, such as 'a.b', are not allowed"),
        ),
        (
            'store = "first.zarr", where = "steps.__init__.__globals__[\'sys\'].exit() == 1"',
            (".where: ", "attributes, such as 'a.b', are not allowed"),
        ),
        ('store = "first.zarr", where = "step_size > 1"', ("no complete run", "'step_size > 1'")),
        ('store = "first.zarr"', ("normalize = true",)),
    ],
)
def test_what_is_refused(place, start, words):
    (place / "file").write_text("")
    found = refusal(start)
    assert all(word in found for word in words), found
    assert not (place / "made").exists()


def test_what_does_not_fit_is_refused(place):
    three = {"system": '"nbody_sphere"', "parameters": "{ count = 3 }"}
    found = refusal('store = "first.zarr"', **three)
    assert "4 rows; nbody_sphere with 3 bodies expects 6" in found
    found = refusal('store = "bare.zarr", experiment = "adaptive"', system='"nbody_sphere"')
    assert "does not record 'state'" in found


def test_only_runs_that_are_complete(place):
    group = zarr.open_group("first.zarr/only", mode="r+", use_consolidated=False)
    group["sample_count"][[0, 5]] = 0
    group["status"][[0, 5]] = PENDING
    start = '{ store = "first.zarr", normalize = true }'
    table = table_of(initial_condition=start, integrators='"rk4"', step_size="0.1")
    assert len(table) == 12 - 2
