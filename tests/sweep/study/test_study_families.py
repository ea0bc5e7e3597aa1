"""Starts of a family with axes, as a study asks for them and as the store keeps them."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from study_runs import many_experiments, pairs, runs_to_compute, stored, table_of, write
from study_text import one_experiment, problems

import sweep
import systems
from sweep.analysis import drift_table, grid, order_table
from systems import registry
from systems.base import Family
from systems.spins.point_vortices import PointVortices

VORTICES = systems.get("point_vortices")
KEYS = {
    "system": '"point_vortices"',
    "integrators": '["rk4"]',
    "step_size": "[0.1, 0.05]",
    "record": '["energy"]',
}
MANIFOLD = '{ name = "invariant_manifold", theta = [0.7, 0.9], phi = 0.4 }'
BASE = f'["mclachlan", {MANIFOLD.replace("0.7", "0.8")}]'


def text(start, **changes):
    return one_experiment(**KEYS | {"initial_condition": start} | changes)


def runs_of(start, **changes):
    """The runs with the larger step size."""
    table = table_of(**KEYS | {"initial_condition": start, "step_size": "0.1"} | changes)
    return table.reset_index(drop=True)


def labels(start):
    return runs_of(start)["initial_condition"].tolist()


def member(**values):
    return VORTICES.member("invariant_manifold", **values)


# --- as read ----------------------------------------------------------------------------------


def test_the_product_of_the_axes():
    table = runs_of(
        '{ name = "invariant_manifold", phi = [0.1, 0.4, 1], '
        "theta = { start = 0.5, stop = 1, count = 2 } }"
    )
    assert table["initial_condition"].tolist() == [
        f"invariant_manifold[phi={p}, theta={t}]" for p in ("0.1", "0.4", "1") for t in ("0.5", "1")
    ]
    assert table["theta"].tolist() == [0.5, 1.0] * 3
    assert table["phi"].tolist() == [0.1, 0.1, 0.4, 0.4, 1.0, 1.0]
    assert set(table["ensemble"]) == {"invariant_manifold"}


def test_an_axis_that_is_not_given_has_its_default():
    table = runs_of('{ name = "invariant_manifold", theta = 0.9, label = "vortices" }')
    assert pairs(table, "initial_condition", "ensemble", "phi") == {
        ("vortices[theta=0.9]", "vortices", 0.4)
    }
    for whole in ('"invariant_manifold"', '{ name = "invariant_manifold" }'):
        assert labels(whole) == ["invariant_manifold"]


def test_a_named_start_as_a_table():
    assert runs_of('{ name = "mclachlan" }').equals(runs_of('"mclachlan"'))
    assert labels('{ name = "mclachlan", label = "four" }') == ["four"]


def test_labels_tell_apart_what_differs_in_the_last_digit():
    start = '{ name = "invariant_manifold", theta = [0.7, 0.7000000000000001] }'
    assert len(set(labels(start))) == 2


def test_rules_name_axes():
    kept = runs_of(
        f'[{MANIFOLD}, "mclachlan"]'.replace("0.7", "0.8"), exclude='[{ theta = "> 0.85" }]'
    )
    assert kept["initial_condition"].tolist() == [
        "invariant_manifold[theta=0.8, phi=0.4]", "mclachlan",
    ]  # fmt: skip
    np.testing.assert_array_equal(kept["theta"], [0.8, np.nan])


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('"invariant_manifld"', ": …Did you mean 'invariant_manifold'?"),
        ('{ name = "mclachan" }', ".name: …'mclachlan'?"),
        ("{ name = 3 }", ".name: …string"),
        ('{ name = "mclachlan", theta = 0.7 }', ".theta: …'mclachlan' is one state…no axes"),
        ('{ name = "mclachlan", lable = "a" }', ".lable: …Did you mean 'label'?"),
        (MANIFOLD.replace("theta", "teta"), ".teta: …'teta' of invariant_manifold…'theta'?"),
        (MANIFOLD.replace("0.9", "0.7"), ".theta[1]: …0.7…also"),
        (MANIFOLD.replace("0.9", '"a"'), ".theta[1]: …number"),
        (MANIFOLD.replace("0.9", "inf"), ".theta[1]: …finite"),
        (MANIFOLD.replace("[0.7, 0.9]", "[]"), ".theta: …not empty"),
        (MANIFOLD.replace("0.9", "0"), ": vortices 0 and 1 coincide, …(where theta=0, phi=0.4)"),
        ('{ name = "invariant_manifold", theta = { start = 1, stop = 2 } }', ".theta: …'count'"),
        (
            '{ name = "invariant_manifold", theta = { start = 1, stop = 2, count = 1000 }, '
            "phi = { start = 1, stop = 2, count = 101 } }",
            ": …101,000 states…50,000",
        ),
        (f"[{MANIFOLD}, {MANIFOLD.replace('0.7, 0.9', '0.8')}]", "[1]: …label …of its own"),
        (
            f'["mclachlan", {MANIFOLD}]',
            "[1] ('invariant_manifold[theta=0.7, phi=0.4]'): gives a run…",
        ),
    ],
)
def test_families_that_are_refused(written, message):
    found = problems(text(written))[0]
    start, *words = message.split("…")
    assert found.startswith(f"s.toml:8: experiment[0].initial_condition{start}"), found
    assert all(part in found for part in words), found


def test_where_there_is_no_state_the_axis_is_named():
    found = problems(text('{ name = "wavy_curve", lobes = 1.5 }', system='"heisenberg_chain"'))[0]
    assert ".initial_condition.lobes: lobes = 1.5; expected a whole number" in found
    found = problems(text(MANIFOLD, parameters="{ strengths = [1.0, 2.0, 1.0] }"))[0]
    assert "has four vortices; this system has 3" in found


# --- names that are taken ---------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Clashing(PointVortices):
    """Vortices with a family whose axes bear names that others have."""

    name = "clashing"
    families = (
        Family(
            "shape",
            "",
            {"energy": 0.7, "step_size": 0.4, "strengths": 0.0, "tilt": 0.0},
            lambda system, energy, step_size, strengths, tilt: VORTICES.member(
                "invariant_manifold", theta=energy, phi=step_size
            ),
        ),
        Family("bare", "", {"tilt": 0.7}, lambda system, tilt: member(theta=tilt)),
    )


def test_axes_with_the_names_of_other_columns(monkeypatch):
    monkeypatch.setattr(registry, "ALL_SYSTEMS", (*systems.ALL_SYSTEMS, Clashing))
    starts = (
        '[{ name = "shape", energy = [0.8, 0.9], step_size = 0.5 }, { name = "bare", tilt = 1.0 }]'
    )
    rule = "[{ shape_energy = 0.9, step_size = 0.1 }]"
    changes = {"initial_condition": starts, "system": '"clashing"', "exclude": rule}
    table = table_of(**KEYS | changes)
    axes = {"shape_energy", "shape_step_size", "shape_strengths", "tilt"}
    assert axes <= set(table) and not {"energy", "strengths"} & set(table)
    assert table["step_size"].tolist() == [0.1] * 2 + [0.05] * 3
    assert table["tilt"].tolist() == [0.0, 1.0, 0.0, 0.0, 1.0]  # one column for both families


@pytest.mark.parametrize("name", [cls.name for cls in systems.ALL_SYSTEMS if cls.families])
def test_axes_and_families_of_systems_can_be_written(name):
    system = systems.get(name)
    for family in system.families:
        assert not set(family.axes) & {"name", "label"}
        assert family.name not in system.starts


# --- in the store -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(cluster, tmp_path_factory):
    """A store of a family, and of one whose system is scanned."""
    chains = {
        "system": '"heisenberg_chain"',
        "scan": "{ count = [4, 6] }",
        "initial_condition": '{ name = "wavy_curve", lobes = [1, 3] }',
        "step_size": "0.1",
    }
    settings = {"only": {"initial_condition": BASE}, "chains": chains}
    place = tmp_path_factory.mktemp("families")
    stored(many_experiments(settings, **KEYS), cluster, place)
    return place / "s.zarr"


def opened(path, name="only"):
    return sweep.open_study(path)[name].to_dataset()


def test_axes_are_coordinates_of_the_runs(base):
    found = opened(base)
    theta = found["theta"]
    assert (theta.dims, theta.dtype, theta.attrs["units"]) == (("run",), np.float64, "1")
    assert theta.attrs["long_name"] == "theta"
    some = found.query(run="theta == 0.8")
    labels = ["invariant_manifold[theta=0.8, phi=0.4]"] * 2
    assert some["initial_condition"].values.tolist() == labels
    np.testing.assert_array_equal(some["initial_state"][0], member(theta=0.8, phi=0.4))
    assert np.isnan(found.query(run="ensemble == ''")["phi"]).all()


def test_the_run_is_that_of_the_state(base):
    """Of the named start with the same state, and of a member with the default of an axis."""
    np.testing.assert_array_equal(member(theta=0.7, phi=0.4), VORTICES.start("mclachlan"))
    for start, new in ((MANIFOLD, 0), ('{ name = "mclachlan", label = "four" }', 0), (BASE, 0)):
        same = {"only": {"initial_condition": start}}
        assert runs_to_compute(many_experiments(same, **KEYS), base)["only"] == new


def test_systems_of_a_scan_have_their_own_members(base):
    found = opened(base, "chains")
    assert {"height", "wobble", "lobes"} <= set(found.coords)
    for count in (4, 6):
        system = systems.get("heisenberg_chain", count=count)
        states = found.query(run=f"count == {count}")["initial_state"][:, :count]
        expected = [system.member("wavy_curve", lobes=lobes) for lobes in (1, 3)]
        np.testing.assert_array_equal(states, expected)


def test_what_was_asked_for_is_noted(base):
    *_, family = json.loads(opened(base).attrs["experiment"])["initial_conditions"]
    assert family["axes"] == {"theta": [0.8, 0.9], "phi": [0.4]}
    assert (family["name"], family["label"]) == ("invariant_manifold", "invariant_manifold")


def test_axes_of_starts_are_no_axes_of_the_system(base):
    found = opened(base)
    (order,) = order_table(found, error="energy_error")
    assert (order.starts, order.parameters, order.verdict) == (3, {}, "undecided")
    assert [row.parameters for row in drift_table(found, step_sizes="smallest")] == [{}]


def test_the_grid_has_them_along_the_starts(base):
    found = opened(base)
    dense = grid(found)
    assert dense["energy"].dims == ("integrator", "step_size", "initial_condition", "time")
    assert dense["theta"].dims == dense["phi"].dims == ("initial_condition",)
    np.testing.assert_array_equal(dense["theta"], [np.nan, 0.8, 0.9])
    by_theta = grid(found.query(run="theta > 0")).swap_dims(initial_condition="theta")
    assert by_theta["energy"].sel(theta=0.9, step_size=0.1, time=1.0).size == 1
    twice = found.assign_coords(theta=("run", np.arange(6.0), found["theta"].attrs))
    assert grid(twice)["theta"].dims == ("integrator", "step_size", "initial_condition")


def test_a_growing_study_merges_them(base, here, cluster):
    shutil.copytree(base, "s.zarr")
    before = opened("s.zarr")
    wider = BASE.replace("0.4", "[0.4, 0.6]").replace('"mclachlan", ', "")
    grown = many_experiments({"only": {"initial_condition": wider}}, **KEYS)
    assert sweep.run(write(grown), "s.zarr", cluster).complete
    after, known = opened("s.zarr"), before.sizes["run"]
    assert after.sizes["run"] == known + 4
    np.testing.assert_array_equal(after["theta"][:known], before["theta"])
    assert after["phi"].values[known:].tolist() == [0.6] * 4
    assert not after["in_study"].values[np.isnan(after["theta"])].any()
    without = {"only": {"initial_condition": "{ random = 1, seed = 1 }"}}
    assert sweep.run(write(many_experiments(without, **KEYS)), "s.zarr", cluster).complete
    last = opened("s.zarr")
    assert last.sizes["run"] == known + 6
    np.testing.assert_array_equal(last["theta"][: known + 4], after["theta"])
    assert np.isnan(last["theta"][known + 4 :]).all()
    assert "theta" not in grid(last.query(run="theta > 0"))["energy"].dims


def test_the_command_lists_families(command, here):
    shown = command(here, "show", "system", "heisenberg_chain").stdout
    assert "wavy_curve: along" in shown and "(height = 0.3, wobble = 0.5, lobes = 2)" in shown
    facts = json.loads(command(here, "show", "system", "point_vortices", "--json").stdout)
    assert facts["families"]["invariant_manifold"].endswith("(theta = 0.7, phi = 0.4)")
    assert "families" not in command(here, "show", "system", "nbody_sphere").stdout
