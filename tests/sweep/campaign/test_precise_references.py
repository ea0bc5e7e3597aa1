"""References in double-double: how far they are right, and what is measured against them."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import zarr
from study_runs import stored, write
from study_text import one_experiment, problems

import sweep
import systems
from integrators.errors import InputError
from sweep.analysis import order_table
from sweep.campaign.worker.precise_reference import PreciseSolver
from sweep.campaign.worker.reference import DoubleSolver
from sweep.study.experiment import PreciseReference, Reference

TENTH, EIGHTH = "variational+sofroniou_spaletta10", "variational+kahan_li8"
REFERENCE = f'integrator = "{TENTH}", arithmetic = "double-double"'
KEYS = {
    "integrators": f"""[
    {{ name = "{TENTH}", arithmetic = "double-double" }}, "{EIGHTH}",
    {{ name = "{EIGHTH}", arithmetic = "double-double" }},
]""",
    "initial_condition": '"lee"',
    "step_size": "[0.1, 0.05, 0.04, 0.025, 0.02, 0.0125, 0.01, 0.00625, 0.005]",
    "samples": "5",
    "duration": "1.0",
    "record": '["energy"]',
    "reference": f"{{ {REFERENCE}, tolerance = 1e-27 }}",
}
GROUP = "_geosweep/references/only"
CASES = json.loads((Path(__file__).parents[2] / "reference.json").read_text())["cases"]
STARTS = {  # of the states in quadruple precision: parameters and names of starts
    "spherical_pendulum_chain/n2_spatial": ({"gravity": -9.81}, "celledoni_spatial"),
    "nbody_sphere/lee_example2": ({}, "lee"),
}


slow = pytest.mark.slow  # they need kernels in double-double


@pytest.fixture(scope="module")
def made(cluster, tmp_path_factory):
    """Run the study with some changes, into a new store."""

    def run(**changes):
        place = tmp_path_factory.mktemp("references")
        file = write(one_experiment(**KEYS | changes), place)
        assert sweep.run(file, place / "test.zarr", cluster).complete
        return place / "test.zarr"

    return run


@pytest.fixture(scope="module")
def store(made):
    return made()


def used(row):
    """How many step sizes a measured order rests on."""
    return [point.use for point in row.points].count("used")


# --- orders ------------------------------------------------------------------------------------


@slow
def test_orders_are_measured_far_below_round_off_of_doubles(store):
    data = sweep.open_study(store)["only"].to_dataset()
    rows = {row.integrator: row for row in order_table(data)}
    errors = data["global_error"].isel(time=-1)
    for name, order, least, most in ((TENTH, 10, 1e-25, 1e-12), (EIGHTH, 8, 1e-19, 1e-9)):
        row = rows[f"{name} (double-double)"]
        assert (row.verdict, row.declared) == ("confirmed", order)
        assert order - 0.1 < row.low < row.high < order + 0.1
        assert used(row) >= 7
        own = errors.where(data["integrator"] == row.integrator)
        assert float(own.min()) < least < most < float(own.max())
    double = rows[EIGHTH]
    assert used(double) < 4
    (fine,) = order_table(data.query(run=f"integrator == '{EIGHTH}' and step_size < 0.03"))
    assert "within 100 times the uncertainty from round-off" in fine.reason


@slow
def test_a_reference_limits_what_orders_rest_on(store, made):
    """Errors within a hundred times that of the reference do not count."""
    path = made(reference=f"{{ {REFERENCE}, tolerance = 1e-14 }}")
    loose, tight = (
        {row.integrator: row for row in order_table(sweep.open_study(of)["only"])}
        for of in (path, store)
    )
    for name in (f"{TENTH} (double-double)", f"{EIGHTH} (double-double)"):
        assert used(loose[name]) < used(tight[name])
    assert "the uncertainty from the reference" in loose[f"{TENTH} (double-double)"].reason


@slow
def test_the_store_has_references_as_pairs(store, arrays):
    found = arrays(store, GROUP)
    high, low = found["states"], found["states_low"]
    assert high.shape == low.shape == (1, 6, 4, 3)
    assert np.all(high + low == high) and np.count_nonzero(low) > low.size / 2
    assert np.nanmax(found["error"]) < 1e-27 * np.linalg.norm(high[0, 0])
    assert sweep.verify(store) == []
    data = sweep.open_study(store)["only"].to_dataset()
    assert data["reference_error"].attrs["arithmetic"] == "double-double"
    assert "twice the step size" in data["reference_error"].attrs["long_name"]
    said = json.loads(zarr.open_group(store, mode="r")["only"].attrs["experiment"])["reference"]
    assert said["arithmetic"] == "double-double"


# --- how far references are right ----------------------------------------------------------------


def off(states, low, entry):
    """The distance of states from those given as decimals."""
    rows = entry["y"] if "y" in entry else entry["q"] + entry["omega"]
    digits = [Fraction(x) for row in rows for x in row]
    parts = zip(states.flat, low.flat, strict=True)
    own = [Fraction(float(x)) + Fraction(float(y)) for x, y in parts]
    return sum(float(x - y) ** 2 for x, y in zip(own, digits, strict=True)) ** 0.5


@slow
@pytest.mark.parametrize(("name", "tolerance"), [*((name, 1e-22) for name in STARTS),
                                                  ("nbody_sphere/lee_example2", 1e-8)])  # fmt: skip
def test_errors_of_references_are_honest(name, tolerance, made, arrays):
    parameters, start = STARTS[name]
    gravity = "".join(f"{key} = {value}" for key, value in parameters.items())
    times = [float(entry["t"]) for entry in CASES[name]["exact"]]
    store = made(
        system=f'"{name.partition("/")[0]}"', parameters=f"{{ {gravity} }}", integrators='"rk4"',
        initial_condition=f'"{start}"', step_size="0.1", duration=f"{max(times)}",
        samples=f"{max(times):.0f}",
        reference=f"{{ {REFERENCE}, tolerance = {tolerance} }}",
    )  # fmt: skip
    found = arrays(store, GROUP)
    for time, entry in zip(times, CASES[name]["exact"], strict=True):
        at = 0, round(time)
        true = off(found["states"][at], found["states_low"][at], entry)
        assert true <= found["error"][at] + 1e-22  # the decimals have some 24 digits
        assert found["error"][at] <= tolerance * np.linalg.norm(found["states"][0, 0])


@slow
def test_the_flow_itself_is_a_reference(made, arrays):
    keys = {"system": '"free_rigid_body"', "initial_condition": '"figure3"', "samples": "1",
            "integrators": '"splitting"', "step_size": "0.1"}  # fmt: skip
    by_exact, by_steps = (
        arrays(made(**keys, reference=of), GROUP)
        for of in (
            f"{{ {REFERENCE.replace(TENTH, name)}, tolerance = 1e-24 }}"
            for name in ("exact", "splitting+sofroniou_spaletta10")
        )
    )
    apart = (by_exact["states"] - by_steps["states"]) + (
        by_exact["states_low"] - by_steps["states_low"]
    )
    assert np.abs(apart).max() < 1e-24


# --- references that end early -----------------------------------------------------------------

ENDING = one_experiment(
    system='"spherical_pendulum_chain"',
    parameters="{ count = 1, mass = [1.0], length = [1.0] }",
    scan="{ gravity = [9.81, 9.8] }",
    integrators='"rk4"',
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
    place = tmp_path_factory.mktemp("references")
    assert sweep.run(write(ENDING, place), place / "ending.zarr", cluster).complete
    return place / "ending.zarr"


@slow
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


@slow
def test_failures_tell_where_references_end(ending, command):
    assert sweep.verify(ending) == []
    said = command(ending.parent, "status", ending.name, "--failures").stdout
    assert "\n\nNo run failed." in said and said.count("of upright holds") == 2
    found = json.loads(command(ending.parent, "status", ending.name, "--failures", "--json").stdout)
    (one, _) = found["references"]
    assert one["end"]["reason"] == "rounding" and one["end"]["held"] < one["end"]["lost"] <= 8


# --- in pieces ---------------------------------------------------------------------------------

MARKS = np.array([0, 1, 2, 5, 6])
PIECEWISE = {
    "double": (DoubleSolver(0.5 * MARKS, Reference("dop853", 1e-9, 3.0), 10**7), 3),
    "halved": (PreciseSolver(PreciseReference(EIGHTH, 1e-22, 3.0), 3.0, 6, MARKS), 50),
    "ended": (PreciseSolver(PreciseReference("variational", 1e-18, 3.0), 3.0, 6, MARKS), 999),
}


@pytest.mark.parametrize(
    ("solver", "most"),
    [
        pytest.param(*given, id=name, marks=() if name == "double" else slow)
        for name, given in PIECEWISE.items()
    ],
)
def test_a_reference_stops_after_any_step(solver, most):
    """Also while the step is halved; what was done of it never seems less than before."""
    system = systems.get("spherical_pendulum_chain")
    state, first, checkpoint, pieces, reached = system.start("lee"), 0, None, [], []
    whole = solver.advance(system, state, None, 0)
    while first < len(MARKS):
        piece = solver.advance(system, state, None, first, checkpoint, most)
        first, checkpoint = first + len(piece.columns["error"]), piece.checkpoint
        pieces.append(piece)
        reached.append((first, piece.part))
    assert len(pieces) > len(MARKS) and reached == sorted(reached)
    np.testing.assert_array_equal(checkpoint, whole.checkpoint)
    for name, values in whole.columns.items():
        found = [piece.columns[name] for piece in pieces if name in piece.columns]
        found = np.concatenate(found) if np.ndim(values) else found[-1]
        np.testing.assert_array_equal(found, values)


# --- stores ------------------------------------------------------------------------------------


@slow
def test_extended_studies_are_those_at_once(store, made, cluster, assert_same_runs, arrays):
    path = made(duration="0.4", samples="2")
    assert sweep.run(write(one_experiment(**KEYS), path.parent), path, cluster).complete
    assert_same_runs(store, path, "only")
    one, two = (arrays(of, GROUP) for of in (store, path))
    for name in ("states", "states_low", "error", "checkpoint"):
        np.testing.assert_array_equal(one[name], two[name])


@slow
def test_merged_stores_have_references_as_pairs(made, tmp_path, arrays):
    keys = {"integrators": '"rk4"', "step_size": "0.1", "duration": "0.5", "samples": "1"}
    parts = [
        made(**keys, initial_condition=f'["lee", {{ random = 2, seed = {seed} }}]')
        for seed in (1, 2)
    ]
    sweep.merge(parts, tmp_path / "both.zarr")
    assert not sweep.verify(tmp_path / "both.zarr")
    merged = arrays(tmp_path / "both.zarr", GROUP)
    place = {run_id: i for i, run_id in enumerate(merged["run_id"])}
    assert len(place) == 5
    for part in parts:
        own = arrays(part, GROUP)
        rows = [place[run_id] for run_id in own["run_id"]]
        for key in ("states", "states_low", "error"):
            np.testing.assert_array_equal(merged[key][rows], own[key])


@slow
def test_a_study_is_refused_before_it_begins(cluster, tmp_path):
    reference = f"{{ {REFERENCE.replace(TENTH, 'variational')}, tolerance = 1e-24 }}"
    keys = {"reference": reference, "integrators": '"rk4"'}
    file = write(one_experiment(**KEYS | keys), tmp_path)
    with pytest.raises(InputError, match="does not meet its tolerance 1e-24.*of higher order"):
        sweep.run(file, tmp_path / "none.zarr", cluster)
    assert not (tmp_path / "none.zarr").exists()


def test_runs_are_the_same_with_any_reference(tmp_path):
    ids = []
    for reference in (KEYS["reference"], '{ integrator = "dop853" }', None):
        file = write(one_experiment(**KEYS | {"reference": reference}), tmp_path)
        ids.append(sweep.check(file)[1][0].run_id.tolist())
    assert ids[0] == ids[1] == ids[2]


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
            ", of order 10",
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


@slow
def test_steps_fill_the_samples_to_all_digits(cluster, tmp_path):
    """Whose doubles do not: 300 times 0.8 / 300 is not 0.8."""
    keys = {
        "integrators": f'[{{ name = "{TENTH}", arithmetic = "double-double" }}]',
        "step_size": f"[{0.8 / 300!r}]",
        "duration": "0.8",
        "samples": "1",
        "record": '["energy", "reversal_error"]',
    }
    data = stored(one_experiment(**KEYS | keys), cluster, tmp_path)["only"]
    assert float(data["global_error"].isel(run=0, time=-1)) < 1e-26
    assert float(data["reversal_error"][0]) < 1e-28
