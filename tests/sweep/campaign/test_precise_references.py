"""References in double-double: how far they are right, and what is measured against them."""

import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from study_text import one_experiment, problems

import sweep
import systems
from integrators.errors import InputError
from integrators.methods import dormand_prince
from integrators.status import STEP_TOO_SMALL
from sweep.analysis import order_table
from sweep.analysis.convergence.slopes import USED
from sweep.campaign.worker import precise_reference
from sweep.campaign.worker.precise_reference import PreciseSolver
from sweep.campaign.worker.reference import DoubleSolver
from sweep.cli.failures import command
from sweep.store import studies
from sweep.store.upkeep.verify import verify
from sweep.study import schema
from sweep.study.experiment import PreciseReference, Reference
from sweep.study.run_table import expand_experiment

TENTH, EIGHTH = "variational+sofroniou_spaletta10", "variational+kahan_li8"
REFERENCE = f'integrator = "{TENTH}", arithmetic = "double-double"'
KEYS = {
    "integrators": f"""[
    {{ name = "{TENTH}", arithmetic = "double-double" }}, "{EIGHTH}",
    {{ name = "{EIGHTH}", arithmetic = "double-double" }},
]""",
    "initial_condition": '["lee", { around = "lee", random = 2, spread = 0.1, seed = 1 }]',
    "step_size": "[0.1, 0.05, 0.04, 0.025, 0.02, 0.0125, 0.01, 0.00625, 0.005]",
    "samples": "5",
    "duration": "1.0",
    "record": '["energy"]',
    "reference": f"{{ {REFERENCE}, tolerance = 1e-27 }}",
}
GROUP = "_geosweep/references/only"
CASES = json.loads((Path(__file__).parents[2] / "reference.json").read_text())["cases"]
STARTS = {  # of the states in quadruple precision: parameters and names of starts
    "spherical_pendulum_chain/lee_example1_unit": ({}, "lee"),
    "spherical_pendulum_chain/n2_spatial": ({"gravity": -9.81}, "celledoni_spatial"),
    "nbody_sphere/lee_example2": ({}, "lee"),
}


def study(**changes):
    return studies.parse_study(one_experiment(**KEYS | changes))


@pytest.fixture(scope="module")
def store(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("references") / "whole.zarr"
    assert sweep.run(study(), path, cluster).complete
    return path


def used(row):
    """How many step sizes a measured order rests on."""
    return [point.use for point in row.points].count(USED)


# --- orders ------------------------------------------------------------------------------------


def test_orders_are_measured_far_below_round_off_of_doubles(store):
    data = sweep.open_study(store)["only"].to_dataset()
    rows = {row.integrator: row for row in order_table(data)}
    errors = data["global_error"].isel(time=-1)
    for name, order, least, most in ((TENTH, 10, 1e-25, 1e-11), (EIGHTH, 8, 1e-19, 1e-9)):
        row = rows[f"{name} (double-double)"]
        assert (row.verdict, row.declared) == ("confirmed", order)
        assert order - 0.1 < row.low < row.high < order + 0.1
        assert used(row) >= 7
        own = errors.where(data["integrator"] == row.integrator)
        assert float(own.min()) < least < most < float(own.max())
    double = rows[EIGHTH]
    assert double.verdict == "undecided" and used(double) < 4
    (fine,) = order_table(data.query(run=f"integrator == '{EIGHTH}' and step_size < 0.03"))
    assert "within 100 times what round-off can be wrong by" in fine.reason


def test_a_reference_limits_what_orders_rest_on(store, cluster, tmp_path):
    """Errors within a hundred times that of the reference do not count."""
    path = tmp_path / "loose.zarr"
    keys = {"reference": f"{{ {REFERENCE}, tolerance = 1e-14 }}"}
    assert sweep.run(study(**keys), path, cluster).complete
    loose, tight = (
        {row.integrator: row for row in order_table(sweep.open_study(of)["only"])}
        for of in (path, store)
    )
    for name in (f"{TENTH} (double-double)", f"{EIGHTH} (double-double)"):
        assert used(loose[name]) < used(tight[name])
    assert "what the reference can be wrong by" in loose[f"{TENTH} (double-double)"].reason


def test_the_store_has_references_as_pairs(store, arrays):
    found = arrays(store, GROUP)
    high, low = found["states"], found["states_low"]
    assert high.shape == low.shape == (3, 6, 4, 3)
    assert np.all(high + low == high) and np.count_nonzero(low) > low.size / 2
    assert np.nanmax(found["error"]) < 1e-27 * np.linalg.norm(high[0, 0])
    assert verify(store) == []
    data = sweep.open_study(store)["only"].to_dataset()
    assert data["reference_error"].attrs["arithmetic"] == "double-double"
    assert "twice the step size" in data["reference_error"].attrs["long_name"]


# --- how far references are right ----------------------------------------------------------------


def solver_until(time, tolerance, integrator=TENTH, samples=1):
    reference = PreciseReference(integrator, tolerance, time)
    return PreciseSolver(reference, time, samples, np.arange(samples + 1))


def off(states, low, entry):
    """The distance of states from those given as decimals."""
    rows = entry["y"] if "y" in entry else entry["q"] + entry["omega"]
    digits = [Fraction(x) for row in rows for x in row]
    parts = zip(states.flat, low.flat, strict=True)
    own = [Fraction(float(x)) + Fraction(float(y)) for x, y in parts]
    return sum(float(x - y) ** 2 for x, y in zip(own, digits, strict=True)) ** 0.5


@pytest.mark.parametrize("tolerance", [1e-8, 1e-15, 1e-22])
@pytest.mark.parametrize("name", STARTS)
def test_errors_of_references_are_honest(name, tolerance):
    parameters, start = STARTS[name]
    system = systems.get(name.partition("/")[0], **parameters)
    known = system.start(start, arithmetic="double-double")
    for entry in CASES[name]["exact"]:
        solver = solver_until(float(entry["t"]), tolerance)
        found, _ = solver.advance(system, known[..., 0], known, 0, 2)
        true = off(found["states"][-1], found["states_low"][-1], entry)
        assert true <= found["error"][-1] + 1e-22  # the decimals have some 24 digits
        assert found["error"][-1] <= tolerance * np.linalg.norm(known[..., 0])


@pytest.mark.parametrize("cuts", [(2, 3, 11), (4, 5, 6, 7, 11), (10, 11)])
def test_a_reference_in_segments_is_the_one_at_once(cuts):
    system = systems.get("spherical_pendulum_chain", gravity=-9.81)
    known = system.start("celledoni_spatial", arithmetic="double-double")
    solver = solver_until(2.0, 1e-20, samples=10)
    whole, at_end = solver.advance(system, known[..., 0], known, 0, 11)
    parts, first, stands = [], 0, None
    for upto in cuts:
        part, stands = solver.advance(system, known[..., 0], known, first, upto, stands)
        parts.append(part)
        first = upto
    for key, values in whole.items():
        np.testing.assert_array_equal(np.concatenate([part[key] for part in parts]), values)
    np.testing.assert_array_equal(stands, at_end)
    assert len(stands) == solver.checkpoint_length(system)


def test_the_flow_itself_is_a_reference():
    system = systems.get("free_rigid_body")
    known = system.start(system.starts[0], arithmetic="double-double")
    by_exact, by_steps = (
        solver_until(1.0, 1e-24, name).advance(system, known[..., 0], known, 0, 2)[0]
        for name in ("exact", "splitting+sofroniou_spaletta10")
    )
    apart = (by_exact["states"] - by_steps["states"]) + (
        by_exact["states_low"] - by_steps["states_low"]
    )
    assert np.abs(apart).max() < 1e-24


# --- references that end early -----------------------------------------------------------------


def ends_of(found):
    """What `advance` says of the end of a reference."""
    own = {name: found[name] for name in ("end", "step_size", "difference", "steps")}
    return own | {"end": schema.REFERENCE_ENDS[own["end"]]}


def test_where_no_step_size_leads_on_a_reference_ends(monkeypatch):
    run = precise_reference._TrajectoryPair.run

    def failing(self, checkpoint, steps, first, last):
        states, checkpoint = run(self, checkpoint, steps, first, last)
        states[max(4 - first, 0) :] = np.nan
        return states, checkpoint

    monkeypatch.setattr(precise_reference._TrajectoryPair, "run", failing)
    monkeypatch.setattr(precise_reference, "MOST_UNSETTLED", 2**8)
    system = systems.get("spherical_pendulum_chain")
    known = system.start("lee", arithmetic="double-double")
    solver = solver_until(1.0, 1e-12, samples=10)
    found, stands = solver.advance(system, known[..., 0], known, 0, 8)
    later, _ = solver.advance(system, known[..., 0], known, 8, 11, stands)
    assert np.isfinite(found["states"][:5]).all() and np.isnan(found["states"][5:]).all()
    assert np.isnan(found["error"][5:]).all() and np.isnan(later["states"]).all()
    assert ends_of(found)["end"] == "no_step_size" and "end" not in later


@pytest.mark.parametrize(
    ("integrator", "duration", "why"),
    [("variational", 1.0, "too_many_steps"), (TENTH, 40.0, "rounding")],
)
def test_where_a_tolerance_is_not_met_a_reference_ends(monkeypatch, integrator, duration, why):
    monkeypatch.setattr(precise_reference, "MOST_UNSETTLED", 2**10)
    system = systems.get("spherical_pendulum_chain", gravity=-9.81)
    known = system.start("celledoni_spatial", arithmetic="double-double")
    solver = solver_until(duration, 1e-20, integrator)
    found, _ = solver.advance(system, known[..., 0], known, 0, 2)
    own = ends_of(found)
    assert own["end"] == why and np.isnan(found["error"][1]) and own["step_size"] < 0.1
    assert own["difference"] > 1e-20 and (own["steps"] > 2**24 or why == "rounding")


def test_how_far_rounding_lets_a_tolerance_be_met(monkeypatch):
    run = precise_reference._TrajectoryPair.run

    def rounded(self, checkpoint, steps, first, last):
        states, checkpoint = run(self, checkpoint, steps, first, last)
        states[max(5 - first, 0) :, ..., 1] += 1e-20 * np.sin(steps)
        return states, checkpoint

    monkeypatch.setattr(precise_reference._TrajectoryPair, "run", rounded)
    system = systems.get("spherical_pendulum_chain")
    known = system.start("lee", arithmetic="double-double")
    solver = solver_until(1.0, 1e-22, samples=10)
    found, _ = solver.advance(system, known[..., 0], known, 0, 11)
    assert ends_of(found)["end"] == "rounding"
    np.testing.assert_array_equal(np.isfinite(found["error"]), np.arange(11) < 6)


ENDING = one_experiment(
    system='"spherical_pendulum_chain"',
    parameters="{ count = 1, mass = [1.0], length = [1.0] }",
    scan="{ gravity = [9.81, 9.8] }",
    integrators=f'["rk4", {{ name = "{EIGHTH}", arithmetic = "double-double" }}]',
    initial_condition="""[
    { label = "hanging", q = [[0.1, 0, 1]], omega = [[0, 0.5, 0]], normalize = true },
    { label = "upright", q = [[0, 0.001, -1]], omega = [[0, 0, 0]], normalize = true },
]""",
    step_size="[0.02, 0.01, 0.005]",
    samples="8",
    duration="8.0",
    record='["energy"]',
    reference=f"{{ {REFERENCE}, tolerance = 1e-28 }}",
)


@pytest.fixture(scope="module")
def ending(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("references") / "ending.zarr"
    assert sweep.run(studies.parse_study(ENDING), path, cluster).complete
    return path


def test_a_reference_that_ends_spoils_no_other(ending):
    """Rounding grows by e^(√g t) where a pendulum falls from its upper end."""
    data = sweep.open_study(ending)["only"].to_dataset()
    falls = data["initial_condition"] == "upright"
    for name in ("global_error", "reference_error"):
        assert np.isfinite(data[name].where(~falls, 0.0)).all()
        known = np.isfinite(data[name].where(falls, drop=True).values)
        assert known[:, :5].all() and not known[:, -1].any()
        assert np.all(known == np.logical_and.accumulate(known, axis=1))
    early = sweep.early_references(ending)
    assert [one.starts for one in early] == [("upright",)] * 2
    assert sorted(run for one in early for run in one.runs) == np.flatnonzero(falls).tolist()
    for one in early:
        assert set(data["gravity"].values[list(one.runs)]) == {data["gravity"].values[one.runs[0]]}
        own = data["global_error"].values[list(one.runs)]
        assert np.isfinite(own[:, data["time"] <= one.end.held]).all()
        assert np.isnan(own[:, data["time"] >= one.end.lost]).all()
        assert one.end.reason == "rounding" and one.end.difference > 1e-28
        assert f"or until = {one.end.held:g}, to which it is met" in str(one)


@pytest.mark.parametrize(
    ("place", "array", "row", "sample"),
    [
        ("only", "global_error", "hanging", 7),
        ("only", "global_error", "upright", 2),
        ("only", "reference_error", "hanging", slice(6, None)),
        (GROUP, "states", "hanging", slice(6, None)),
        (GROUP, "error", "upright", 2),
    ],
)
def test_nothing_else_may_be_nan_than_what_is_beyond_the_end_of_a_reference(
    ending, tmp_path, place, array, row, sample
):
    assert verify(ending) == []
    copy = shutil.copytree(ending, tmp_path / "copy.zarr")
    data = sweep.open_study(copy)["only"].to_dataset()
    upright = data["initial_state"].values[:, 0, 2] < 0
    if place == GROUP:
        upright = sweep.Store.at(copy).group(GROUP)["initial_state"][:, 0, 2] < 0
    (mine, *_) = np.flatnonzero(upright == (row == "upright")).tolist()
    sweep.Store.at(copy).group(place, "r+")[array][mine, sample] = np.nan
    (found,) = verify(copy)
    assert (found.place, found.array, found.rows.tolist()) == (place, array, [mine])


def test_failures_tell_where_references_end(ending):
    done = CliRunner().invoke(command, [str(ending)])
    assert done.output.startswith("No run failed.") and done.output.count("of upright holds") == 2
    (one, _) = json.loads(CliRunner().invoke(command, [str(ending), "--json"]).output)["references"]
    assert one["end"]["reason"] == "rounding" and one["end"]["held"] < one["end"]["lost"] <= 8


def test_a_reference_in_doubles_ends_where_it_fails(monkeypatch):
    solve = dormand_prince.solve

    def failing(system, state, times, tolerance, checkpoint):
        states, status, stands = solve(system, state, times, tolerance, checkpoint)
        if times[-1] > 0.55 and tolerance < 1e-9:
            states[times > 0.55], stands[dormand_prince.STATUS] = np.nan, STEP_TOO_SMALL
        return states, status, stands

    monkeypatch.setattr(dormand_prince, "solve", failing)
    system = systems.get("spherical_pendulum_chain")
    solver = DoubleSolver(np.linspace(0.0, 1.0, 11), Reference("dop853", 1e-9 / 2, 1.0))
    found, _ = solver.advance(system, system.start("lee"), None, 0, 11)
    assert schema.REFERENCE_ENDS[found["end"]] == "step_too_small"
    for name in ("states", "error"):
        lost = np.isnan(found[name]).reshape(11, -1)
        np.testing.assert_array_equal(lost.any(axis=1), np.arange(11) > 5)


# --- stores ------------------------------------------------------------------------------------


def test_extended_studies_are_those_at_once(store, cluster, tmp_path, assert_same_runs, arrays):
    path = tmp_path / "whole.zarr"
    assert sweep.run(study(duration="0.4", samples="2"), path, cluster).complete
    assert sweep.run(study(), path, cluster).complete
    assert_same_runs(store, path, "only")
    one, two = (arrays(of, GROUP) for of in (store, path))
    for name in ("states", "states_low", "error", "checkpoint"):
        np.testing.assert_array_equal(one[name], two[name])


def test_merged_stores_have_references_as_pairs(cluster, tmp_path, arrays):
    parts = []
    for name, seed in (("one", 1), ("other", 2)):
        start = f'["lee", {{ around = "lee", random = 2, spread = 0.1, seed = {seed} }}]'
        made = study(initial_condition=start, step_size="[0.1, 0.05]", duration="0.5", samples="1")
        assert sweep.run(made, tmp_path / f"{name}.zarr", cluster).complete
        parts.append(tmp_path / f"{name}.zarr")
    sweep.merge(parts, tmp_path / "both.zarr")
    assert not verify(tmp_path / "both.zarr")
    merged = arrays(tmp_path / "both.zarr", GROUP)
    place = {run_id: i for i, run_id in enumerate(merged["run_id"])}
    assert len(place) == 5
    for part in parts:
        own = arrays(part, GROUP)
        rows = [place[run_id] for run_id in own["run_id"]]
        for key in ("states", "states_low", "error"):
            np.testing.assert_array_equal(merged[key][rows], own[key])


def test_a_study_is_refused_before_it_begins(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(precise_reference, "MOST_STEPS", 2**12)
    reference = f"{{ {REFERENCE.replace(TENTH, 'variational')}, tolerance = 1e-24 }}"
    with pytest.raises(InputError, match="does not meet its tolerance 1e-24.*of higher order"):
        sweep.run(study(reference=reference), tmp_path / "none.zarr", cluster)
    assert not (tmp_path / "none.zarr").exists()


def test_runs_are_the_same_with_any_reference():
    double = '{ integrator = "dop853" }'
    tables = [expand_experiment(study(reference=of).experiments[0]) for of in (double, None)]
    ids = expand_experiment(study().experiments[0]).run_id.tolist()
    assert [table.run_id.tolist() for table in tables] == [ids, ids]
    said = study(reference=double).experiments[0].expanded()["reference"]
    assert said == {"integrator": "dop853", "tolerance": 2.3e-14, "until": 1.0}
    assert study().experiments[0].expanded()["reference"]["arithmetic"] == "double-double"


# --- the study -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (f"{{ {REFERENCE} }}", "reference: a reference in double-double needs a tolerance"),
        (f"{{ {REFERENCE}, tolerance = 1e-30 }}", "tolerance: expected a tolerance from 1e-28 to"),
        (
            f"{{ {REFERENCE.replace(TENTH, 'dop853')}, tolerance = 1e-24 }}",
            f"integrator: 'dop853' is adaptive; a reference in "
            f"double-double needs a fixed step, such as '{TENTH}'",
        ),
        (
            f"{{ {REFERENCE.replace(TENTH, 'rkmk54')}, tolerance = 1e-24 }}",
            "of order 10, not 5, at tolerance = 1e-24 it takes some 251 times fewer steps",
        ),
        (f"{{ {REFERENCE.replace('10', '11')}, tolerance = 1e-24 }}", "Did you mean 'sofroniou_"),
        (f"{{ {REFERENCE.replace('double-double', 'quad')} }}", "unknown arithmetic 'quad'"),
        (
            f"{{ {REFERENCE.replace('variational', 'splitting')}, tolerance = 1e-24 }}",
            "needs the form SplitFlow",
        ),
        (f'{{ integrator = "{TENTH}" }}', 'with arithmetic = "double-double"'),
    ],
)
def test_references_that_cannot_be_are_refused(reference, words):
    (found,) = problems(one_experiment(**KEYS | {"reference": reference}))
    assert "experiment[0].reference" in found and words in found


def test_steps_fill_the_samples_to_all_digits(cluster, tmp_path):
    """Whose doubles do not: 300 times 0.8 / 300 is not 0.8."""
    keys = {
        "integrators": f'[{{ name = "{TENTH}", arithmetic = "double-double" }}]',
        "initial_condition": '"lee"',
        "step_size": f"[{0.8 / 300!r}]",
        "duration": "0.8",
        "samples": "1",
        "record": '["energy", "reversal_error"]',
    }
    assert sweep.run(study(**keys), tmp_path / "fills.zarr", cluster).complete
    data = sweep.open_study(tmp_path / "fills.zarr")["only"].to_dataset()
    assert float(data["global_error"].isel(run=0, time=-1)) < 1e-26
    assert float(data["reversal_error"][0]) < 1e-28
