"""Adaptive integrators in studies, beside those with a fixed step."""

import json

import numpy as np
import pytest
from study_runs import stored as run_and_read
from study_runs import tables_of, write
from study_text import one_experiment, problems

import integrators
import sweep
import systems
from integrators import InputError
from integrators.status import STATUS
from integrators.stepping.adaptive import run_adaptive
from sweep.analysis import drift_table, grid, order_table, tolerance_table

PENDING = -1
KEYS = {
    "integrators": """[
    "variational", "rk4", "rk45",
    { name = "rk45", relative_tolerance = 1e-4, absolute_tolerance = 1e-8, label = "own" },
    { name = "rk45", output = "land", tolerance = [1e-3, 1e-6], label = "landing" },
    { name = "dop853", tolerance = 1e-9 },
]""",
    "step_size": "[0.1, 0.05, 0.025]",
    "tolerance": "{ start = 1e-3, stop = 1e-7, count = 3, spacing = 'log' }",
    "initial_condition": '["lee", { random = 2, seed = 1 }]',
    "record": '["energy", "unit_length", "state", "step_size"]',
    "duration": "2.0",
    "samples": "20",
    "reference": '{ integrator = "dop853" }',
}
RUNS = 3 * (3 + 3 + 3 + 1 + 2 + 1)


@pytest.fixture
def runs(tmp_path):
    """The runs of the study with some changes, as a data frame."""

    def of(**changes):
        (table,) = tables_of(one_experiment(**KEYS | changes), tmp_path)
        return table

    return of


@pytest.fixture
def run_ids(tmp_path):
    """The identifiers of the runs of the study with some changes."""

    def of(**changes):
        _, (table,) = sweep.check(write(one_experiment(**KEYS | changes), tmp_path))
        return table.run_id.tolist()

    return of


@pytest.fixture(scope="module")
def mixed(tmp_path_factory, command):
    """The directory of a store that the command made of all kinds of integrators."""
    directory = tmp_path_factory.mktemp("adaptive")
    (directory / "mixed.toml").write_text(one_experiment(**KEYS))
    ran = command(directory, "run", "mixed.toml", "mixed.zarr", "--no-summary")
    assert f"Complete: {RUNS} runs" in ran.stdout
    return directory


@pytest.fixture(scope="module")
def stored(mixed):
    return sweep.open_study(mixed / "mixed.zarr")["only"].to_dataset().load()


# --- the run table ----------------------------------------------------------------------------


def test_adaptive_runs_have_a_tolerance_and_no_step_size(runs):
    table = runs()
    assert len(table) == RUNS
    adaptive = table.integrator.isin(["rk45", "own", "landing", "dop853"])
    np.testing.assert_array_equal(table.step_size.isna(), adaptive)
    np.testing.assert_array_equal(table.tolerance.notna(), adaptive)
    assert set(table.tolerance[table.integrator == "rk45"]) == {1e-3, 1e-5, 1e-7}
    assert set(table.tolerance[table.integrator == "own"]) == {1e-4}


def test_a_tolerance_is_the_same_run_whoever_gives_it(run_ids):
    """The experiment, the entry, by either key: one identity, and never a label's."""
    entry = '{{ name = "rk45", {} = 1e-5, label = "a" }}'
    ids = [
        run_ids(integrators=value, tolerance=shared, step_size=None)
        for value, shared in (
            ('"rk45"', "1e-5"),
            (entry.format("tolerance"), None),
            (entry.format("relative_tolerance"), None),
        )
    ]
    assert ids[0] == ids[1] == ids[2] and len(set(ids[0])) == 3
    others = [
        name
        for tolerance in ("1e-6", "1e-4")
        for name in run_ids(integrators='"rk45"', tolerance=tolerance, step_size=None)
    ]
    assert not set(ids[0]) & set(others)


def test_equal_adaptive_runs_are_refused():
    twice = '["rk45", { name = "rk45", tolerance = 1e-5, label = "again" }]'
    (said,) = problems(one_experiment(**KEYS | {"integrators": twice, "step_size": None}))
    assert "gives a run of tolerance 1e-05 that" in said and "gives too" in said


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ('tolerance = "<= 1e-5"', {1e-3, 1e-4}),
        ('tolerance = "!= 1e-3"', {1e-3}),
        ("tolerance = 1e-3", {1e-4, 1e-5, 1e-6, 1e-7, 1e-9}),
        ('step_size = "!= 0.1"', {1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-9}),
    ],
)
def test_rules_on_tolerances_leave_fixed_steps_alone(runs, rule, left):
    table = runs(exclude=f"[{{ {rule} }}]")
    assert set(table.tolerance.dropna()) == left
    assert set(table.step_size.dropna()) == ({0.1} if "step" in rule else {0.1, 0.05, 0.025})


def test_defaults_may_have_what_an_experiment_does_not_need(tmp_path):
    table = one_experiment(integrators='"rk4"', step_size=None).partition("[[experiment]]")[2]
    head = 'format = 1\nname = "two"\n[defaults]\nstep_size = 0.1\ntolerance = 1e-3\n'
    other = table.replace('"only"', '"other"').replace('"rk4"', '"rk45"')
    fixed, adaptive = tables_of(f"{head}[[experiment]]{table}[[experiment]]{other}", tmp_path)
    assert set(fixed.step_size) == {0.1} and fixed.tolerance.isna().all()
    assert set(adaptive.tolerance) == {1e-3} and adaptive.step_size.isna().all()


# --- planning ---------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["rk45", "own"])
def test_the_plan_counts_the_steps_that_runs_take(tmp_path, stored, label):
    taken = float(stored["steps"].where(stored["integrator"] == label).sum())
    own = KEYS["integrators"].splitlines()[{"rk45": 1, "own": 2}[label]]
    own = own.replace('"variational", "rk4",', "")
    file = write(one_experiment(**KEYS | {"integrators": f"[{own}]", "step_size": None}), tmp_path)
    (row,) = sweep.plan(file, tmp_path / "none.zarr").rows
    assert row["steps"] == pytest.approx(taken, rel=0.5)


# --- the store --------------------------------------------------------------------------------


def test_a_store_holds_both_kinds(stored):
    assert (stored["sample_count"] == 21).all() and (stored["status"] == 0).all()
    adaptive = stored["adaptive"].values
    np.testing.assert_array_equal(np.isnan(stored["step_size"]), adaptive)
    np.testing.assert_array_equal(np.isfinite(stored["tolerance"]), adaptive)
    assert (stored["rejected_steps"].values[~adaptive] == 0).all()
    assert stored["rejected_steps"].values[adaptive].sum() > 0
    own = stored.query(run="integrator in ('rk45', 'own', 'landing')")
    attempts = own["steps"] + own["rejected_steps"]
    np.testing.assert_array_equal(own["evaluations"], 1 + 6 * attempts)


def test_a_stored_run_is_what_integrating_gives(stored):
    system = systems.get("spherical_pendulum_chain")
    run = stored.query(run="integrator == 'rk45' and tolerance == 1e-5")
    run = run.query(run="initial_condition == 'lee'").isel(run=0)
    problem = integrators.get("rk45").bind(system)
    times = stored["time"].values
    known = run_adaptive(problem, system.start("lee")[None], times, 1e-5, statistics=True)
    np.testing.assert_array_equal(run["state"], known.states[0])
    np.testing.assert_array_equal(run["current_step_size"], known.step_sizes[0])
    np.testing.assert_array_equal(run["energy_error_mean"][1:], known.statistics[0, :, 0, 0])
    alone = integrators.integrate(
        system, integrators.get("rk45"), system.start("lee"),
        duration=2.0, samples=20, tolerance=1e-5,
    )  # fmt: skip
    np.testing.assert_array_equal(run["state"], alone.states)
    assert int(run["steps"]) == alone.counters["steps"]


def test_the_step_that_covers_a_sample_is_recorded(stored):
    size = stored["current_step_size"]
    assert size.attrs["units"] == "s"
    fixed = ~stored["adaptive"].values
    expected = np.broadcast_to(stored["step_size"].values[fixed, None], size[fixed].shape)
    np.testing.assert_array_equal(size[fixed], expected)
    landing = size[(stored["integrator"] == "landing").values]
    assert (landing <= 0.1 * (1 + 1e-12)).all() and (landing > 0).all()
    loose = stored.query(run="integrator == 'rk45' and tolerance == 1e-3")["current_step_size"]
    assert 0.2 < float(loose.max()) < 2.0


def test_grids_are_of_one_kind(stored):
    with pytest.raises(InputError, match="adaptive and .* fixed-step runs"):
        grid(stored)
    dense = grid(stored.query(run="adaptive and integrator == 'rk45'"))
    assert dense.sizes["tolerance"] == 3 and "step_size" not in dense.dims
    assert dense["tolerance"].values.tolist() == [1e-7, 1e-5, 1e-3]
    assert np.isfinite(dense["global_error"]).all()


# --- analysis and the command -----------------------------------------------------------------


def test_orders_are_those_of_the_fixed_steps(stored):
    assert {row.integrator for row in order_table(stored)} == {"variational", "rk4"}
    assert tolerance_table(stored.query(run="not adaptive")) == []


def test_errors_by_tolerance(stored):
    rows = tolerance_table(stored)
    assert [(row.integrator, row.tolerance) for row in rows] == [
        ("rk45", 1e-7), ("rk45", 1e-5), ("rk45", 1e-3), ("own", 1e-4),
        ("landing", 1e-6), ("landing", 1e-3), ("dop853", 1e-9),
    ]  # fmt: skip
    for row in rows:
        runs = stored.query(
            run=f"integrator == {row.integrator!r} and tolerance == {row.tolerance}"
        )
        errors = runs["global_error"].values[:, -1]
        assert (row.starts, row.left_out, row.time) == (3, 0, 2.0)
        assert row.value == pytest.approx(np.exp(np.log(errors).mean()))
        assert (row.low, row.high) == (errors.min(), errors.max())
        assert row.steps == np.median(runs["steps"])
        assert row.rejected_steps == np.median(runs["rejected_steps"])


def test_steps_by_tolerance_are_those_of_complete_runs(stored):
    """A run that is not finished has made some steps, which say nothing of the others."""
    own = stored.query(run="integrator == 'own'").load()
    steps, status = own["steps"].values, own["status"].values
    (whole,) = tolerance_table(own)
    assert whole.steps == np.median(steps)
    own["steps"].values[0], own["status"].values[0] = 0, PENDING
    own["global_error"].values[0] = np.nan
    (row,) = tolerance_table(own)
    assert (row.starts, row.left_out, row.steps) == (2, 1, np.median(steps[1:]))
    status[:], own["global_error"].values[:] = PENDING, np.nan
    (row,) = tolerance_table(own)
    assert row.starts == 0 and np.isnan([row.steps, row.rejected_steps]).all()


def test_drift_of_steps_longer_than_sample_intervals(stored):
    """Where no step ends in an interval, the errors at the samples count."""
    loose = stored.query(run="integrator == 'rk45' and tolerance == 1e-3")
    assert np.isnan(loose["energy_error_mean"].values[:, 1:]).any()
    (row,) = drift_table(loose, ["energy"])
    assert not row.every_step and row.starts == 3 and row.left_out == 0
    errors = np.abs(loose["energy_error"].values[:, 1:])
    assert row.mean_abs == pytest.approx(errors.mean(), rel=1e-14)
    assert np.isfinite(row.drift) and row.tolerance == 1e-3 and np.isnan(row.step_size)
    assert row.largest == errors.max()
    (landing,) = drift_table(
        stored.query(run="integrator == 'landing' and tolerance == 1e-6"), ["energy"]
    )
    assert landing.every_step and landing.starts == 3


def test_commands_read_the_store(mixed, command):
    questions = {
        "order": ("order", "mixed.zarr"),
        "json": ("order", "mixed.zarr", "--json"),
        "drift": ("drift", "mixed.zarr"),
        "status": ("status", "mixed.zarr", "--failures"),
        "check": ("check", "mixed.toml"),
        "plan": ("plan", "mixed.toml", "mixed.zarr"),
    }
    done = {key: command(mixed, *question) for key, question in questions.items()}
    order, drift = done["order"].stdout, done["drift"].stdout
    assert "declared" in order and "rejected" in order and "landing" in order
    rows = json.loads(done["json"].stdout)["only"]["rows"]
    assert [row["integrator"] for row in rows if "order" in row] == ["variational", "rk4"]
    assert len([row for row in rows if "rejected_steps" in row]) == 7
    assert "step size  tolerance" in drift and "dop853" in drift
    assert f"only          {RUNS}    {RUNS}        0        0       0" in done["status"].stdout
    assert "0 runs to compute" in done["plan"].stdout


@pytest.mark.slow
def test_a_new_tolerance_adds_its_runs(cluster, tmp_path, command, assert_same_runs):
    """The others are kept."""
    small, large = (
        one_experiment(**KEYS | {"integrators": '["rk4", "rk45"]', "tolerance": values})
        for values in ("[1e-3, 1e-5]", "[1e-4, 1e-3, 1e-5]")
    )
    for text, new, kept in ((small, 15, 0), (large, 3, 15), (small, 0, 15), (large, 0, 18)):
        write(text, tmp_path)
        said = command(tmp_path, "run", "s.toml", "test.zarr", "--no-summary").stdout
        assert f"{new} new runs, {kept} kept" in said
    assert sweep.run(tmp_path / "s.toml", tmp_path / "fresh.zarr", cluster).complete
    assert_same_runs(tmp_path / "test.zarr", tmp_path / "fresh.zarr", "only")


def test_a_collision_is_a_result(cluster, tmp_path):
    text = one_experiment(
        system='"nbody_sphere"',
        parameters="{ count = 2 }",
        integrators='["rk45"]',
        step_size=None,
        tolerance="1e-6",
        initial_condition="{ q = [[0, 0, 1], [0.6, 0, 0.8]], omega = [[0, 0, 0], [0, 0, 0]] }",
        record='["energy", "step_size"]',
        duration="3.0",
    )
    outcome = sweep.run(write(text, tmp_path), tmp_path / "test.zarr", cluster)
    assert outcome.complete and outcome.failed == 1
    run = sweep.open_study(tmp_path / "test.zarr")["only"].to_dataset().isel(run=0)
    count = int(run["sample_count"])
    assert 1 < count < 11 and int(run["stop_step"]) == int(run["steps"])
    assert float(run["stop_residual"]) > 1e-6
    for name in ("energy", "current_step_size"):
        values = run[name].values
        assert np.isfinite(values[:count]).all() and np.isnan(values[count:]).all()


# --- double-double ------------------------------------------------------------------------------

PRECISE = KEYS | {
    "integrators": """[
    "rk4",
    { name = "rk45", arithmetic = "double-double", absolute_tolerance = 1e-20 },
    { name = "rkmk54", arithmetic = "double-double", tolerance = 1e-16 },
]""",
    "tolerance": "[1e-17, 1e-20]",
    "step_size": "[0.125]",
    "initial_condition": '["lee"]',
    "record": '["energy", "unit_length", "step_size", "symplectic_defect", "reversal_error"]',
    "duration": "0.5",
    "samples": "4",
    "reference": '{ integrator = "variational+kahan_li8", arithmetic = "double-double", '
    "tolerance = 1e-24 }",
}


@pytest.mark.slow
def test_adaptive_runs_in_double_double(cluster, tmp_path):
    """Their errors are far below the digits of doubles, and they go on where they stood."""
    path = tmp_path / "precise.zarr"
    assert sweep.run(write(one_experiment(**PRECISE), tmp_path), path, cluster).complete
    assert sweep.extend(path, duration=1.0, client=cluster).complete
    assert sweep.verify(path) == []
    data = sweep.open_study(path)["only"].to_dataset().load().query(run="adaptive")
    end = {"time": -1}
    errors = dict(zip(data["tolerance"].values, data["global_error"].isel(end).values, strict=True))
    assert all(error < 10 * tolerance for tolerance, error in errors.items())
    assert (
        errors[1e-17] > 100 * errors[1e-20] > 0
        and float(data["energy_error"].isel(end).max()) < 1e-14
    )
    assert np.isnan(data["reversal_error"]).all()
    longer = one_experiment(**PRECISE | {"duration": "1.0", "samples": "8"})
    other = run_and_read(longer, cluster, tmp_path)["only"].load().query(run="adaptive")
    for key in ("global_error", "energy_error", "current_step_size"):
        np.testing.assert_array_equal(data[key], other[key])


@pytest.mark.parametrize(
    ("integrators", "least"),
    [('["rk45"]', "2.3e-14"), ('[{ name = "rk45", arithmetic = "double-double" }]', "5e-30")],
)
def test_the_least_tolerance_is_that_of_the_arithmetic(integrators, least):
    text = one_experiment(
        **PRECISE | {"integrators": integrators, "tolerance": "[1e-31]", "step_size": None}
    )
    found = problems(text)
    assert any(f"tolerance[0]: tolerance = 1e-31; expected {least} to 1 in" in one for one in found)


def test_a_run_that_max_steps_ends_is_the_same_at_once_and_extended(tmp_path, cluster):
    keys = {
        "integrators": '["rk45", "dop853"]', "tolerance": "[1e-8]", "step_size": None,
        "initial_condition": '["lee"]', "record": '["energy"]', "statistics": '"every_step"',
        "samples": "20", "max_steps": "150",
    }  # fmt: skip
    short = write(one_experiment(**keys, duration="2.0"), tmp_path)
    assert sweep.run(short, tmp_path / "extended.zarr", cluster).complete
    assert not sweep.failures(tmp_path / "extended.zarr")
    assert sweep.extend(tmp_path / "extended.zarr", duration=40.0, client=cluster).complete
    whole = one_experiment(**keys | {"samples": "400"}, duration="40.0")
    assert sweep.run(write(whole, tmp_path), tmp_path / "whole.zarr", cluster).complete
    extended, once = (
        sweep.open_study(tmp_path / f"{name}.zarr").children for name in ("extended", "whole")
    )
    for one, other in zip(extended.values(), once.values(), strict=True):
        found, expected = one.to_dataset(), other.to_dataset()
        assert (expected["status"] == STATUS.index("step_too_small")).all()
        assert (expected["steps"] == 150).all() and (expected["stop_time"] > 2.0).all()
        for name in ("steps", "stop_time", "energy", "energy_error_mean"):
            np.testing.assert_array_equal(found[name], expected[name])
