"""Whose a drift is, the method's or rounding's: series whose answer is known, and real runs."""

import json

import numpy as np
import pytest
from run_tables import run_table, with_series
from study_text import one_experiment

import sweep
from integrators.errors import InputError
from sweep.analysis import arithmetic_table, drift_table
from sweep.tables import arithmetic_as_tables, table_rows_for_json, tables_as_text

NAME = "variational"
PRECISE = f"{NAME} (double-double)"
STARTS = 32
TIMES = np.linspace(0.0, 64.0, 129)
STEP_SIZE = 0.01
STEPS = 6400
EPSILON = 2.0**-52


def noise(seed, size=1.0, starts=STARTS):
    return size * np.random.default_rng(seed).normal(size=(starts, len(TIMES)))


def walk(seed, size, starts=STARTS):
    """Random walks whose rms at the end is `size`."""
    return noise(seed, size / np.sqrt(len(TIMES)), starts).cumsum(axis=1)


def line(size):
    """A line from 0 to `size`, in every start."""
    return np.broadcast_to(size * TIMES / TIMES[-1], (STARTS, len(TIMES)))


def described(**options):
    return {"name": NAME, "options": {"solver_tolerance": 0.0} | options, "adaptive": False}


def pairs_of(twins, rounding, times=TIMES, **variables):
    """A run table of runs and twins whose errors are `twins`, and that with `rounding`."""
    starts = tuple(f"random[{i}]" for i in range(len(twins)))
    table = run_table({NAME: 2, PRECISE: 2}, step_sizes=(STEP_SIZE,), starts=starts, times=times)
    errors = np.concatenate([twins + rounding, twins])
    errors[:, 0] = 0.0
    table = with_series(table, "energy", 1.0 + errors)
    table = with_series(table, "energy_error", errors)
    labels = {NAME: described(), PRECISE: described(arithmetic="double-double")}
    table.attrs |= {
        "integrators": json.dumps(labels),
        "system": json.dumps({"name": "pendulum", "parameters": {"gravity": 1.0}}),
        "experiment": json.dumps({"name": "long"}),
    }
    states = np.random.default_rng(0).normal(size=(len(twins), 1, 3))
    both = (("run", "row", "component"), np.concatenate([states, states]))
    return table.assign(initial_state=both, **variables)


def answer(table, **options):
    (row,) = arithmetic_table(table, ["energy"], **options)
    return row


@pytest.mark.parametrize(
    ("twins", "rounding", "source", "verdicts"),
    [
        (line(1e-6) + noise(1, 1e-8), walk(2, 1e-14), "method", ("linear", "√t")),
        (line(1e-6) + noise(1, 1e-8), noise(2, 1e-16), "method", ("linear", "no drift seen")),
        (noise(1, 1e-16), walk(2, 1e-13), "rounding", ("no drift seen", "√t")),
        (noise(1, 1e-6), line(1e-13) + noise(2, 1e-15), "rounding", ("no drift seen", "linear")),
        (line(1e-13), line(2e-13) + noise(2, 1e-15), "both", ("linear", "linear")),
        (line(1e-15), line(-2e-13) + noise(2, 1e-15), "rounding", ("linear", "linear")),
        (noise(1, 1e-9), noise(2, 1e-15), "neither", ("no drift seen", "no drift seen")),
        (walk(1, 1e-10), noise(2, 1e-15), "method", ("√t", "no drift seen")),
    ],
)
def test_the_source_is_the_part_that_grows(twins, rounding, source, verdicts):
    row = answer(pairs_of(twins, rounding))
    assert row.source == source
    assert (row.method.verdict, row.rounding.verdict) == verdicts
    assert (row.starts, row.failed, row.unfinished, row.lacking) == (STARTS, 0, 0, 0)
    assert row.twin == PRECISE and row.elsewhere == "" and not row.shorter
    assert row.steps == STEPS and row.resolution == pytest.approx(EPSILON)


def test_parts_are_estimated_as_drifts_are():
    """The total and the method's part are what `drift_table` says of runs and of twins."""
    table = pairs_of(line(1e-6) + noise(1, 1e-8), line(3e-14) + walk(2, 1e-15))
    row = answer(table)
    for part, label in ((row.total, NAME), (row.method, PRECISE)):
        (drift,) = drift_table(table.isel(run=table.integrator.values == label), ["energy"])
        for name in ("drift", "low", "high", "verdict", "exponent", "bound"):
            assert getattr(part, name) == getattr(drift, name)
    assert row.method.drift + row.rounding.drift == pytest.approx(row.total.drift, rel=1e-12)
    assert row.rounding.low < 3e-14 / 64 < row.rounding.high
    assert row.rounding.size == pytest.approx(3e-14, rel=0.05)
    assert row.rounding_share == pytest.approx(3e-8, rel=0.1)


def test_statistics_of_every_step_are_compared_where_both_have_them():
    table = pairs_of(noise(1, 1e-9), noise(2, 1e-9))
    means = np.concatenate([line(3e-13) + noise(3, 1e-15), noise(3, 1e-15)])
    table = with_series(table, "energy_error", table.energy_error.values, mean=means)
    row = answer(table)
    assert row.source == "rounding" and row.rounding.verdict == "linear"


def test_chaotic_runs_part_and_no_rounding_is_resolved_below_the_oscillation():
    row = answer(pairs_of(noise(1, 1e-6), noise(2, 1e-6)))
    assert row.parted and row.apart == pytest.approx(row.oscillation, rel=0.1)
    assert np.isnan(row.rounding_share)
    assert "run and twin have parted: they differ by 1 times" in row.finding
    walking = answer(pairs_of(noise(1, 1e-6), walk(2, 3e-6)))
    assert walking.parted and walking.rounding.verdict == "√t"
    assert walking.source == "undecided"
    drifting = answer(pairs_of(noise(1, 1e-6), noise(2, 1e-6) + line(1e-5)))
    assert drifting.parted and drifting.source == "rounding"  # a mean that chaos has not


def test_what_grows_in_double_double_by_its_own_rounding_is_no_methods():
    rounding = walk(2, 1e-14)
    row = answer(pairs_of(rounding * 2.0**-52, rounding))
    assert row.method.verdict == "√t" and row.twin_at_round_off and row.source == "rounding"
    assert "double-double's own rounding can add up to as much" in row.finding
    row = answer(pairs_of(rounding * 2.0**-52, noise(3, 1e-16)))
    assert row.twin_at_round_off and row.source == "neither"


def test_what_grows_by_less_than_one_rounding_is_said_to():
    row = answer(pairs_of(noise(1, 1e-20), line(1e-16) + noise(2, 1e-18)))
    assert row.source == "rounding" and row.below_rounding
    said = "rounding grows to 1e-16 J, less at the end than one rounding of the energy, 2e-16 J"
    assert said in row.finding
    assert not answer(pairs_of(noise(1, 1e-20), line(1e-15) + noise(2, 1e-18))).below_rounding


def test_samples_that_thin_out_are_fitted_by_their_growth():
    times = np.concatenate([[0.0], np.geomspace(1.0, 1000.0, 31)])
    kicks = np.random.default_rng(5).normal(size=(STARTS, len(times)))
    walks = 1e-15 * (kicks * np.sqrt(np.diff(times, prepend=0.0))).cumsum(axis=1)
    row = answer(pairs_of(1e-12 * np.tile(times, (STARTS, 1)), walks, times=times))
    assert (row.method.verdict, row.rounding.verdict) == ("linear", "√t")
    assert row.method.drift == pytest.approx(1e-12, rel=0.02) and row.source == "method"
    assert row.rounding.low < row.rounding.drift < row.rounding.high
    assert row.rounding.size == pytest.approx(1e-15 * np.sqrt(1000.0), rel=0.4)


def test_failed_and_unfinished_twins_do_not_count():
    table = pairs_of(line(1e-6) + noise(1, 1e-8), noise(2, 1e-15))
    table["status"][STARTS + 3] = 2
    table["status"][STARTS + 5] = -1
    table["sample_count"][STARTS + 5] = 0
    table["status"][7] = 1
    row = answer(table)
    assert (row.starts, row.failed, row.unfinished) == (STARTS - 3, 2, 1)
    assert row.source == "method" and row.duration == row.run_duration == 64.0
    assert row.compared == "without 2 that stopped, 1 that are not computed so far"


def test_where_all_twins_failed_that_is_the_answer():
    table = pairs_of(line(1e-6), noise(2, 1e-15))
    table["status"][STARTS:] = 2
    row = answer(table)
    assert row.source == "undecided" and row.starts == 0 and np.isnan(row.method.drift)
    assert row.finding == f"no pair of run and twin to compare, of {STARTS} that stopped"
    assert f"{NAME}: {row.finding}" in tables_as_text(arithmetic_as_tables([row]))


def test_twins_that_are_not_finished_are_compared_as_far_as_they_are():
    table = pairs_of(line(1e-6) + noise(1, 1e-8), noise(2, 1e-15))
    table["status"][STARTS:] = -1
    table["sample_count"][STARTS:] = 65
    table["energy_error"][STARTS:, 65:] = np.nan
    row = answer(table)
    assert row.duration == 32.0 and row.run_duration == 64.0 and row.shorter
    assert row.starts == STARTS and row.steps == STEPS / 2 and row.source == "method"
    table["sample_count"][STARTS] = 3  # of one alone: it would leave nothing of the others
    row = answer(table)
    assert (row.starts, row.unfinished, row.duration) == (STARTS - 1, 1, 32.0)


def shorter_twins(table, samples):
    """The runs of a table in double alone, and another experiment with their twins, shorter."""
    own, twins = (
        table.isel(run=table.integrator.values == label).assign_attrs(table.attrs)
        for label in (NAME, PRECISE)
    )
    twins = twins.isel(run=slice(None, None, -1), time=slice(0, samples))
    twins["sample_count"] = ("run", np.full(STARTS, samples))
    twins = twins.assign_coords(
        initial_condition=("run", np.array([f"x[{i}]" for i in range(STARTS)], dtype=object))
    )
    twins.attrs["experiment"] = json.dumps({"name": "short"})
    return own, twins


def test_twins_of_a_shorter_experiment_are_known_by_their_states():
    own, twins = shorter_twins(pairs_of(line(1e-6) + noise(1, 1e-8), noise(2, 1e-15)), 65)
    row = answer(own, others=[own, twins])
    assert (row.elsewhere, row.duration, row.starts) == ("short", 32.0, STARTS)
    assert row.source == "method" and row.rounding.bound < 1e-15
    text = tables_as_text(arithmetic_as_tables([row]))
    assert "32 *" in text
    assert f"* {NAME}: compared until t = 32 of 64, with the twins of short" in text
    few = answer(own, others=[twins.isel(run=slice(0, 20))])
    assert (few.starts, few.lacking) == (20, STARTS - 20)
    assert few.compared.endswith(f", without {STARTS - 20} that have no twin")


@pytest.mark.parametrize("changed", ["gravity", "state", "step_size", "option", "times", "system"])
def test_a_twin_differs_in_nothing_else(changed):
    own, twins = shorter_twins(pairs_of(line(1e-6), noise(2, 1e-15)), 65)
    match changed:
        case "gravity":
            parameters = {"name": "pendulum", "parameters": {"gravity": 2.0}}
            twins.attrs["system"] = json.dumps(parameters)
        case "system":
            parameters = {"name": "top", "parameters": {"gravity": 1.0}}
            twins.attrs["system"] = json.dumps(parameters)
        case "state":
            twins["initial_state"] = twins.initial_state * (1 + EPSILON)
        case "step_size":
            twins = twins.assign_coords(step_size=twins.step_size / 2)
        case "option":
            options = described(arithmetic="double-double", solver_tolerance=1e-8)
            twins.attrs["integrators"] = json.dumps({PRECISE: options})
        case "times":
            twins = twins.assign_coords(time=twins.time * 1.001)
    with pytest.raises(InputError, match="no twin in double-double"):
        arithmetic_table(own, ["energy"], others=[twins])


def test_a_scanned_parameter_is_compared_with_a_fixed_one():
    own, twins = shorter_twins(pairs_of(line(1e-6), noise(2, 1e-15)), 65)
    own = own.assign_coords(gravity=("run", np.where(np.arange(STARTS) < 20, 1.0, 2.0)))
    row = answer(own, others=[twins])
    assert row.starts == 20 and row.lacking == 0 and row.parameters == {"gravity": 1.0}


def test_a_short_twin_tells_rounding_where_the_method_is_too_small_for_the_whole_runs():
    """Rounding that has not grown above its noise so far grows later."""
    rounding = noise(2, 1e-14) + line(1e-14) * (TIMES / TIMES[-1]) ** 3
    own, twins = shorter_twins(pairs_of(noise(1, 1e-18), rounding), 33)
    row = answer(own, others=[twins])
    assert (row.method.verdict, row.rounding.verdict) == ("no drift seen", "no drift seen")
    assert row.whole.grows and row.whole.size > 10 * row.method_reach
    assert row.method_reach == pytest.approx(4 * row.method.size) and row.source == "rounding"
    assert row.finding.startswith("rounding, since the method is too small in double-double: no")
    assert f"makes up at most {row.method_reach:.1g} J" in row.finding
    own, twins = shorter_twins(pairs_of(noise(1, 1e-13), rounding), 33)
    row = answer(own, others=[twins])
    assert row.method.verdict == "no drift seen" and row.source != "rounding"


def test_an_exponent_that_may_be_none_is_no_growth():
    times = np.concatenate([[0.0], np.geomspace(1.0, 1000.0, 31)])
    late = 1e-15 * np.random.default_rng(5).normal(size=(8, len(times)))
    kicks = np.random.default_rng(6).normal(size=(8, len(times))) * np.sqrt(
        np.diff(times, prepend=0)
    )
    row = answer(pairs_of(np.zeros((8, 32)), late + 5e-17 * kicks.cumsum(axis=1), times=times))
    assert row.rounding.verdict == "undecided" and not row.rounding.grows
    low, high = row.rounding.exponent_low, row.rounding.exponent_high
    assert low <= 0 <= high and row.source == "undecided"
    assert f"it grows like √t, or not at all: like t^{low:.2f} – t^{high:.2f}" in row.finding


def test_without_a_twin_stands_what_to_add():
    table = pairs_of(line(1e-6), noise(2, 1e-15))
    alone = table.isel(run=table.integrator.values == NAME)
    with pytest.raises(InputError) as refused:
        arithmetic_table(alone, ["energy"])
    entry = '{ name = "variational", arithmetic = "double-double" }'
    assert str(refused.value) == (
        f"{NAME}: no twin in double-double: add {entry} to its integrators, by `sweep extend STORE "
        f"-e long --integrator '{entry}'`, or to those of a shorter experiment in the same store"
    )


def test_the_entry_to_add_says_what_the_study_said():
    table = pairs_of(line(1e-6), noise(2, 1e-15))
    table = table.isel(run=table.integrator.values == NAME)
    table["integrator"] = ("run", np.full(STARTS, "loose", dtype=object))
    table.attrs["integrators"] = json.dumps({"loose": described(solver_tolerance=1e-8)})
    own = {"label": "loose", "step_sizes": [0.02, 0.01]}
    table.attrs["experiment"] = json.dumps({"name": "e", "integrators": [own], "time_unit": 0.1})
    with pytest.raises(InputError) as refused:
        arithmetic_table(table, ["energy"])
    assert (
        '{ name = "variational", solver_tolerance = 1e-08, step_size = [0.2, 0.1], '
        'label = "loose (double-double)", arithmetic = "double-double" }'
    ) in str(refused.value)


def test_adaptive_integrators_have_no_twin():
    table = pairs_of(line(1e-6), noise(2, 1e-15))
    table = table.assign_coords(
        step_size=table.step_size * np.nan, tolerance=("run", np.full(2 * STARTS, 1e-6))
    )
    with pytest.raises(InputError, match=r"such as 'rk45\+fixed'"):
        arithmetic_table(table, ["energy"])


def test_runs_in_double_double_alone_are_twins_and_no_rows():
    table = pairs_of(line(1e-6), noise(2, 1e-15))
    assert arithmetic_table(table.isel(run=table.integrator.values == PRECISE)) == []


def test_bad_input_names_the_value():
    table = pairs_of(line(1e-6), noise(2, 1e-15))
    with pytest.raises(InputError, match="Did you mean 'energy'"):
        arithmetic_table(table, ["enrgy"])
    with pytest.raises(InputError, match="'most', and must be 'all' or 'smallest'"):
        arithmetic_table(table, step_sizes="most")


@pytest.mark.parametrize(
    ("twins", "rounding"),
    [
        (line(1e-6) + noise(1, 1e-8), walk(2, 1e-14)),
        (noise(1, 1e-16), walk(2, 1e-13)),
        (noise(1, 1e-6), noise(2, 1e-6)),
        (line(1e-13), line(2e-13) + noise(2, 1e-15)),
        (noise(1, 1e-20), line(1e-16) + noise(2, 1e-18)),
    ],
)
def test_every_word_has_a_field_behind_it(twins, rounding):
    row = answer(pairs_of(twins, rounding))
    (table,) = arithmetic_as_tables([row])
    cells = dict(zip(table.headers[:6], table.rows[0], strict=False))
    assert cells["integrator"] == NAME and cells["starts"] == str(row.starts)
    assert table.rows[0][-1] == row.source
    assert (table.rows[0][-4], table.rows[0][-2]) == (row.method.verdict, row.rounding.verdict)
    words = row.finding
    assert ("have parted" in words) == row.parted
    assert ("than one rounding of the" in words) == row.below_rounding
    assert ("own rounding" in words) == row.twin_at_round_off
    for share, part in ((row.method_share, "the method"), (row.rounding_share, "rounding")):
        assert (f"{part} makes up {share:.1g} of the error at the end" in words) == (share < 0.1)
    for part in (row.method, row.rounding):
        said = f"like t^{part.exponent_low:.2f} – t^{part.exponent_high:.2f}"
        assert (said in words) == (part.grows and np.isfinite(part.exponent_low))
        assert (f"|drift| ≤ {part.bound:.2g} J/s" in words) == (not part.grows)
    (flat,) = table_rows_for_json([row])
    assert flat["source"] == row.source and flat["method"]["drift"] == row.method.drift
    assert flat["finding"] == words and flat["parted"] == row.parted
    assert json.dumps(flat)


@pytest.fixture(scope="module")
def store(command, tmp_path_factory):
    """RK4, which loses energy, and a composition whose error of energy is round-off."""
    folder = tmp_path_factory.mktemp("twins")
    composed = "{ name = 'splitting+kahan_li8', arithmetic = 'double-double' }"
    text = one_experiment(
        system='"free_rigid_body"', integrators=f'["rk4", "splitting+kahan_li8", {composed}]',
        initial_condition="{ random = 32, seed = 1 }", step_size="0.0973", duration="389.2",
        samples="40", record='["energy"]',
    )  # fmt: skip
    (folder / "pairs.toml").write_text(text)
    command(folder, "run", "pairs.toml", "pairs.zarr", "--no-summary")
    return folder / "pairs.zarr"


@pytest.mark.slow
def test_real_runs_the_methods_drift_and_the_rounding(store, command):
    """The twins of RK4 are added as the answer says."""
    lacking = arithmetic_table(sweep.open_study(store)["only"])[-1]
    assert lacking.source == "no twin"
    assert f"sweep extend STORE -e only --integrator '{lacking.entry}'" in lacking.finding
    command(
        store.parent, "extend", store, "--no-summary", "-e", "only", "--integrator", lacking.entry
    )
    rows = arithmetic_table(sweep.open_study(store)["only"])
    rk4, composed = rows
    assert rk4.source == "method" and rk4.method.high < 0.0
    assert rk4.rounding.bound < 1e-6 * abs(rk4.method.drift)
    assert composed.source == "rounding"
    assert composed.method.verdict == "no drift seen" and composed.rounding.grows
    printed = command(store.parent, "drift", store, "--arithmetic").stdout
    assert all(row.finding in printed for row in rows)
    (found,) = json.loads(
        command(store.parent, "drift", store, "--arithmetic", "--json").stdout
    ).values()
    assert [row["source"] for row in found["rows"]] == ["method", "rounding"]
    lows = [row["method"]["low"] for row in found["rows"]]
    assert lows == [rk4.method.low, composed.method.low]


def test_the_command_refuses_two_tables_at_once_and_what_is_no_entry(tmp_path, run_text, command):
    store = tmp_path / "small.zarr"
    run_text(one_experiment(integrators='"rk4"'), store)
    refused = command(tmp_path, "drift", store, "--arithmetic", "--growth", code=2)
    assert (
        "--growth, --arithmetic and --structure are tables of their own: give one of them"
        in refused.stderr
    )
    for entry, said in (
        ("{ name = 'rk4', }}", "is no inline table of TOML"),
        ("{ arithmetic = 'double-double' }", "has no name of an integrator"),
        ("{ name = 'rk4', arithmetic = 'quadruple' }", "unknown arithmetic 'quadruple'"),
    ):
        refused = command(tmp_path, "extend", store, "--integrator", entry, code=2)
        assert said in refused.stderr
