"""Runs that begin where runs of another store ended."""

import functools
import shutil

import numpy as np
import pytest
from study_text import one_experiment, problems

import sweep
from sweep.store import checkpoints, studies
from sweep.store.end_states import end_states_of_stored_runs
from sweep.store.store import Store

FIRST = {
    "integrators": '["variational", { name = "rk4", formulation = "q_qdot" }]',
    "step_size": "[0.1, 0.05]",
    "record": '["energy", "state"]',
    "samples": "5",
}
NEXT = {
    "integrators": '"variational"',
    "step_size": "0.1",
    "samples": "5",
    "initial_condition": '{ store = "first.zarr", where = "step_size < 0.07", normalize = true }',
}
TWO = 'name = "other"\n' + one_experiment(name='"x"', system='"nbody_sphere"').partition("]]\n")[2]


@pytest.fixture(scope="module")
def stores(cluster, tmp_path_factory):
    """``first.zarr`` with states, ``bare.zarr`` without: of the same runs."""
    place = tmp_path_factory.mktemp("starts")
    assert sweep.run(
        studies.parse_study(one_experiment(**FIRST)), place / "first.zarr", cluster
    ).complete
    bare = one_experiment(**FIRST | {"record": '["energy"]'})
    bare += "[[experiment]]\n" + TWO.partition("\n")[2].replace('"x"', '"adaptive"').replace(
        '["variational", "rk4"]', '{ name = "rk45", tolerance = 1e-6 }'
    ).replace("step_size = [0.1, 0.05]\n", "")
    assert sweep.run(studies.parse_study(bare), place / "bare.zarr", cluster).complete
    return place


ends = functools.partial(end_states_of_stored_runs, read_study=studies.stored_study)


@pytest.fixture
def place(stores, tmp_path):
    for name in ("first.zarr", "bare.zarr"):
        shutil.copytree(stores / name, tmp_path / name)
    return tmp_path


def test_runs_go_on_from_another_store(place, command, arrays):
    """Its end states are the initial ones; they stay when it is gone."""
    (place / "next.toml").write_text(one_experiment(**NEXT).replace('"test"', '"next"'))
    assert "next: valid, 6 runs" in command(place, "check", "next.toml").stdout
    command(place, "run", "next.toml", "--no-summary")
    first, made = (arrays(place / f"{name}.zarr", "only") for name in ("first", "next"))
    chosen = first["step_size"] < 0.07
    assert made["ensemble"].tolist() == ["first/only"] * 6
    assert made["initial_condition"].tolist() == [f"first/only[{i}]" for i in range(6)]
    begun, ended = made["initial_state"], first["state"][chosen][:, -1]
    on = first["integrator"][chosen] == "variational"
    np.testing.assert_allclose(begun[on], ended[on], rtol=0, atol=4e-16)
    np.testing.assert_allclose(begun[~on], ended[~on], rtol=0, atol=1e-4)  # rk4 left the manifold
    assert np.abs((begun[:, :2] ** 2).sum(axis=2) - 1).max() < 1e-15
    (place / "first.zarr").rename(place / "gone.zarr")
    ran = command(place, "run", "next.toml", "--no-summary").stdout
    assert "0 new runs, 6 kept" in ran and "Nothing to compute" in ran
    more = one_experiment(**NEXT | {"step_size": "[0.1, 0.05]"}).replace('"test"', '"next"')
    (place / "next.toml").write_text(more)
    assert "6 new runs, 6 kept" in command(place, "run", "next.toml", "--no-summary").stdout
    assert "Complete: 12 runs" in command(place, "extend", "next.zarr", "--duration", 2).stdout
    refused = command(place, "run", "next.toml", "new.zarr", code=2).stderr
    assert "next.toml:8: experiment[0].initial_condition.store: there is no store" in refused


def test_checkpoints_have_the_states_that_are_not_recorded(place):
    for where in ("", "integrator == 'rk4' and step_size > 0.07"):
        name, states = ends(Store.at(place / "first.zarr"), where=where)
        of, same = ends(Store.at(place / "bare.zarr"), "only", where)
        assert (name, of) == ("only", "only")
        np.testing.assert_array_equal(states, same)


def test_what_is_refused(place, monkeypatch, arrays):
    def said(given, **changes):
        start = f"{{ store = {given} }}"
        return problems(one_experiment(**{"initial_condition": start} | changes))[0]

    def at(name):
        return f'"{place / name}"'

    assert "s.toml:8: experiment[0].initial_condition.store: there is no store" in said(at("no"))
    (place / "file").write_text("")
    assert "is not a store" in said(at("file"))
    assert "say which, experiment = " in said(at("bare.zarr"))
    assert "unknown experiment of" in said(at("bare.zarr") + ', experiment = "onyl"')
    wrong = said(at("first.zarr") + ', where = "step_siz < 1"')
    assert ".where: experiment 'only' of" in wrong and "'step_siz < 1' cannot be evaluated" in wrong
    for code in ("step_size.to_csv('FILE') == 1", "steps.__init__.__globals__['sys'].exit() == 1"):
        code = code.replace("FILE", str(place / "made"))
        wrong = said(at("first.zarr") + f', where = "{code}"')
        assert ".where: " in wrong and "attributes, as of 'a.b', cannot be asked for" in wrong
    assert not (place / "made").exists()
    none = said(at("first.zarr") + ', where = "step_size > 1"')
    assert "has no complete run for which 'step_size > 1' holds" in none
    assert "have 4 rows; nbody_sphere with 3 bodies expects 6" in said(
        at("first.zarr"), system='"nbody_sphere"', parameters="{ count = 3 }"
    )
    assert "has no final checkpoint at the last sample" in said(
        at("bare.zarr") + ', experiment = "adaptive"', system='"nbody_sphere"'
    )
    assert "normalize = true" in said(at("first.zarr"))
    monkeypatch.setattr(checkpoints, "checkpoint_code_hash", lambda: "another")
    assert "are of another version" in said(at("bare.zarr") + ', experiment = "only"')


def test_only_runs_that_are_complete(place):
    from sweep.store.upkeep.mark import mark_runs_not_computed

    mark_runs_not_computed(Store.at(place / "first.zarr"), "only", np.array([0, 5]))
    assert len(ends(Store.at(place / "first.zarr"))[1]) == 10
    assert studies.stored_study(place / "first.zarr").name == "test"
