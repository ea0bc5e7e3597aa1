"""Starts of a family with axes, as a study asks for them and as the store keeps them."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from study_text import one_experiment, problems

import sweep
import systems
from sweep import study
from sweep.analysis import drift_table, grid, order_table
from sweep.analysis.runs.selection import RUN_COORDINATES, scanned_axes
from sweep.store import studies
from sweep.study import schema
from sweep.study.run_table import expand_experiment
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


def text(start, **changes):
    return one_experiment(**KEYS | {"initial_condition": start} | changes)


def start_of(written, **changes):
    (experiment,) = studies.parse_study(text(written, **changes)).experiments
    (start,) = experiment.initial_conditions
    return start, expand_experiment(experiment)


def member(**values):
    return VORTICES.member("invariant_manifold", **values)


# --- as read ----------------------------------------------------------------------------------


def test_the_product_of_the_axes():
    start, table = start_of(
        '{ name = "invariant_manifold", phi = [0.1, 0.4, 1], '
        "theta = { start = 0.5, stop = 1, count = 2 } }"
    )
    assert (start.size, start.ensemble) == (6, "invariant_manifold")
    labels = [
        f"invariant_manifold[phi={p}, theta={t}]" for p in ("0.1", "0.4", "1") for t in ("0.5", "1")
    ]
    assert start.labels == tuple(labels)
    states = [member(phi=phi, theta=theta) for phi in (0.1, 0.4, 1.0) for theta in (0.5, 1.0)]
    np.testing.assert_array_equal(table.starts[0], states)
    assert table.start_axes["theta"][:6].tolist() == [0.5, 1.0] * 3
    assert table.start_axes["phi"][:6].tolist() == [0.1, 0.1, 0.4, 0.4, 1.0, 1.0]
    assert set(table.ensemble) == {"invariant_manifold"}


def test_an_axis_that_is_not_given_has_its_default():
    start, table = start_of('{ name = "invariant_manifold", theta = 0.9, label = "vortices" }')
    assert start.labels == ("vortices[theta=0.9]",) and start.ensemble == "vortices"
    np.testing.assert_array_equal(table.starts[0], [member(theta=0.9, phi=0.4)])
    assert set(table.start_axes["phi"]) == {0.4}
    whole = '"invariant_manifold"', '{ name = "invariant_manifold" }'
    for start, table in map(start_of, whole):
        assert start.labels == ("invariant_manifold",)
        np.testing.assert_array_equal(table.starts[0], [VORTICES.start("mclachlan")])


def test_a_named_start_as_a_table():
    start, table = start_of('{ name = "mclachlan" }')
    assert start == start_of('"mclachlan"')[0]
    assert (start.labels, start.ensemble) == (("mclachlan",), "")
    renamed, same = start_of('{ name = "mclachlan", label = "four" }')
    assert renamed.labels == ("four",)
    assert same.run_id.tolist() == table.run_id.tolist()


def test_the_run_is_that_of_the_state():
    _, family = start_of(MANIFOLD)
    _, named = start_of('"mclachlan"')
    assert set(named.run_id) < set(family.run_id)
    found = problems(text(f'["mclachlan", {MANIFOLD}]'))
    assert "('invariant_manifold[theta=0.7, phi=0.4]'): gives a run" in found[0]


def test_labels_tell_apart_what_differs_in_the_last_digit():
    start, _ = start_of('{ name = "invariant_manifold", theta = [0.7, 0.7000000000000001] }')
    assert len(set(start.labels)) == 2


def test_systems_of_a_scan_have_their_own_members():
    _, table = start_of(
        '{ name = "wavy_curve", lobes = [1, 3] }',
        system='"heisenberg_chain"',
        scan="{ count = [4, 6] }",
    )
    for system, states in zip(table.systems, table.starts, strict=True):
        for state, lobes in zip(states, (1, 3), strict=True):
            np.testing.assert_array_equal(state, system.member("wavy_curve", lobes=lobes))
    assert set(table.start_axes) == {"height", "wobble", "lobes"}


def test_the_expanded_study():
    (experiment,) = studies.parse_study(text(MANIFOLD)).experiments
    (written,) = json.loads(json.dumps(experiment.expanded()))["initial_conditions"]
    assert written["axes"] == {"theta": [0.7, 0.9], "phi": [0.4]}
    assert (written["name"], written["label"]) == ("invariant_manifold", "invariant_manifold")


def test_rules_name_axes():
    kept = text(
        f'[{MANIFOLD}, "mclachlan"]'.replace("0.7", "0.8"), exclude='[{ theta = "> 0.85" }]'
    )
    table = expand_experiment(studies.parse_study(kept).experiments[0])
    assert set(table.initial_condition) == {"invariant_manifold[theta=0.8, phi=0.4]", "mclachlan"}
    assert set(table.start_axes["theta"][table.initial_condition != "mclachlan"]) == {0.8}
    assert np.isnan(table.start_axes["theta"][table.initial_condition == "mclachlan"]).all()


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('"invariant_manifld"', ": unknown start of point_vortices …Did you mean 'invariant_m"),
        ('{ name = "mclachan" }', ".name: unknown start of point_vortices …'mclachlan'?"),
        ("{ name = 3 }", ".name: expected a string"),
        (
            '{ name = "mclachlan", theta = 0.7 }',
            ".theta: unknown key 'theta'; 'mclachlan' is one state and has no axes. Valid: name",
        ),
        ('{ name = "mclachlan", lable = "a" }', ".lable: …Did you mean 'label'?"),
        (MANIFOLD.replace("theta", "teta"), ".teta: unknown axis of invariant_manifold …'theta'?"),
        (MANIFOLD.replace("0.9", "0.7"), ".theta[1]: the value 0.7 is also that of"),
        (MANIFOLD.replace("0.9", '"a"'), ".theta[1]: expected a number"),
        (MANIFOLD.replace("0.9", "inf"), ".theta[1]: expected a finite number"),
        (MANIFOLD.replace("[0.7, 0.9]", "[]"), ".theta: expected an array that is not empty"),
        (MANIFOLD.replace("0.9", "0"), ": vortices 0 and 1 coincide, …(where theta=0, phi=0.4)"),
        (
            '{ name = "invariant_manifold", theta = { start = 1, stop = 2 } }',
            ".theta: the key 'count' is missing",
        ),
        (
            '{ name = "invariant_manifold", theta = { start = 1, stop = 2, count = 1000 }, '
            "phi = { start = 1, stop = 2, count = 101 } }",
            ": gives 101,000 states; at most 50,000 are possible",
        ),
        (f"[{MANIFOLD}, {MANIFOLD.replace('0.7, 0.9', '0.8')}]", "[1]: the label …of its own"),
    ],
)  # fmt: skip
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
    written = text(starts, system='"clashing"', exclude=rule)
    table = expand_experiment(studies.parse_study(written).experiments[0])
    assert set(table.start_axes) == {"shape_energy", "shape_step_size", "shape_strengths", "tilt"}
    assert table.size == 5 and table.column("step_size").tolist() == [0.1] * 2 + [0.05] * 3
    shared = table.start_axes["tilt"]  # one column for both families
    assert shared.tolist() == [0.0, 1.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("name", [cls.name for cls in systems.ALL_SYSTEMS])
def test_taken_names_hold_all_that_is_stored(name):
    system = systems.get(name)
    taken = schema.taken_variable_names(system)
    assert set(RUN_COORDINATES) <= taken
    record = tuple(q.name for q in system.quantities) + ("state", "step_size")
    (experiment,) = studies.parse_study(one_experiment()).experiments
    everything = dataclasses.replace(
        experiment, record=record, reference=study.Reference("dop853", 1e-9, 1.0)
    )
    assert {v.name for v in schema.sampled_variables(everything, [system])} <= taken
    for family in system.families:
        assert not set(family.axes) & {"name", "label"}
        assert family.name not in system.starts


# --- in the store -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("families") / "base.zarr"
    reference = '{ integrator = "dop853", tolerance = 1e-10 }'
    written = text(f'["mclachlan", {MANIFOLD.replace("0.7", "0.8")}]', reference=reference)
    assert sweep.run(studies.parse_study(written), path, cluster).complete
    return path, reference


def opened(path):
    return sweep.open_study(path)["only"].to_dataset()


def test_axes_are_coordinates_of_the_runs(base):
    found = opened(base[0])
    theta = found["theta"]
    assert (theta.dims, theta.dtype, theta.attrs["units"]) == (("run",), np.float64, "1")
    assert theta.attrs["long_name"] == "theta"
    some = found.query(run="theta == 0.8")
    assert (
        some["initial_condition"].values.tolist() == ["invariant_manifold[theta=0.8, phi=0.4]"] * 2
    )
    np.testing.assert_array_equal(some["initial_state"][0], member(theta=0.8))
    assert np.isnan(found.query(run="ensemble == ''")["phi"]).all()


def test_axes_of_starts_are_no_axes_of_the_system(base):
    found = opened(base[0])
    assert scanned_axes(found) == ()
    (order,) = order_table(found)
    assert (order.starts, order.parameters, order.verdict) == (3, {}, "undecided")
    assert [row.parameters for row in drift_table(found, step_sizes="smallest")] == [{}]


def test_the_grid_has_them_along_the_starts(base):
    found = opened(base[0])
    dense = grid(found)
    assert dense["energy"].dims == ("integrator", "step_size", "initial_condition", "time")
    assert dense["theta"].dims == dense["phi"].dims == ("initial_condition",)
    np.testing.assert_array_equal(dense["theta"], [np.nan, 0.8, 0.9])
    by_theta = grid(found.query(run="theta > 0")).swap_dims(initial_condition="theta")
    assert by_theta["energy"].sel(theta=0.9, step_size=0.1, time=1.0).size == 1
    twice = found.assign_coords(theta=("run", np.arange(6.0), found["theta"].attrs))
    assert grid(twice)["theta"].dims == ("integrator", "step_size", "initial_condition")


def test_a_growing_study_merges_them(base, tmp_path, cluster, arrays):
    path, reference = shutil.copytree(base[0], tmp_path / "grown.zarr"), base[1]

    def grow(starts):
        assert sweep.run(
            studies.parse_study(text(starts, reference=reference)), path, cluster
        ).complete
        return arrays(path, "only")

    before = arrays(path, "only")
    wider = MANIFOLD.replace("0.7", "0.8").replace("0.4", "[0.4, 0.6]")
    after = grow(wider)
    known = len(before["run_id"])
    assert len(after["run_id"]) == known + 4
    assert after["theta"][:known].tobytes() == before["theta"].tobytes()
    assert after["phi"][known:].tolist() == [0.6] * 4
    assert not after["in_study"][np.isnan(after["theta"])].any()
    without = grow("{ random = 1, seed = 1 }")
    assert without["theta"][: known + 4].tobytes() == after["theta"].tobytes()
    assert np.isnan(without["theta"][known + 4 :]).all() and len(without["run_id"]) == known + 6
    assert scanned_axes(opened(path)) == ()


def test_the_command_lists_families(command, tmp_path):
    shown = command(tmp_path, "show", "system", "heisenberg_chain").stdout
    assert "wavy_curve: along" in shown and "(height = 0.3, wobble = 0.5, lobes = 2)" in shown
    facts = json.loads(command(tmp_path, "show", "system", "point_vortices", "--json").stdout)
    assert facts["families"]["invariant_manifold"].endswith("(theta = 0.7, phi = 0.4)")
    assert "families" not in command(tmp_path, "show", "system", "nbody_sphere").stdout
