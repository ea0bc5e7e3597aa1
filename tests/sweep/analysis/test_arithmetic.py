"""Whose a drift is, the method's or rounding's, of series whose answer is known."""

import json

import numpy as np
import pytest
from run_tables import run_table, with_series
from study_text import one_experiment, study_of

from integrators.errors import InputError
from sweep.analysis import arithmetic_table, drift_table
from sweep.tables import arithmetic_as_tables, table_rows_for_json, tables_as_text

NAME = "variational"
PRECISE = f"{NAME} (double-double)"
STARTS = 32
TIMES = np.linspace(0.0, 64.0, 129)
STEP_SIZE = 0.01
EPSILON = 2.0**-52


def noise(seed, size=1.0, starts=STARTS):
    return size * np.random.default_rng(seed).normal(size=(starts, len(TIMES)))


def walk(seed, size, starts=STARTS):
    """Random walks whose rms at the end is `size`."""
    return noise(seed, size / np.sqrt(len(TIMES)), starts).cumsum(axis=1)


def line(size):
    """A line from 0 to `size`, in every start."""
    return np.broadcast_to(size * TIMES / TIMES[-1], (STARTS, len(TIMES)))


SLIGHT = noise(2, 1e-15) + line(1e-16)


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
        (line(1e-6) + noise(1, 1e-8), walk(2, 1e-14), "method", ("linear", "random walk")),
        (noise(1, 1e-8), line(1e-6) + noise(2, 1e-9), "rounding", ("no drift seen", "linear")),
        (noise(1, 1e-20), line(1e-16) + noise(2, 1e-18), "rounding", ("no drift seen", "linear")),
        (line(1e-6) + noise(1, 1e-9), line(1e-6) + noise(2, 1e-9), "neither", ("linear",) * 2),
        (noise(1, 1e-33), noise(2, 1e-16), "neither", ("at round-off", "no drift seen")),
        # A rate that differs from 0 at 95 %, and is no drift.
        (noise(1, 1e-33), SLIGHT, "neither", ("at round-off", "no drift seen")),
    ],
)
def test_the_source_is_the_part_that_surely_drifts_more(twins, rounding, source, verdicts):
    row = answer(pairs_of(twins, rounding))
    assert (row.method.verdict, row.rounding.verdict) == verdicts
    assert row.source == source
    assert row.twin == PRECISE and row.elsewhere == "" and row.compared == ""
    (table,) = arithmetic_as_tables([row])
    assert table.rows[0][-1] == source and verdicts[1] in table.rows[0]
    (flat,) = table_rows_for_json([row])
    assert flat["method"]["drift"] == row.method.drift and json.dumps(flat)


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


def test_statistics_of_every_step_are_compared_where_both_have_them():
    table = pairs_of(noise(1, 1e-9), noise(2, 1e-9))
    means = np.concatenate([line(3e-13) + noise(3, 1e-15), noise(3, 1e-15)])
    table = with_series(table, "energy_error", table.energy_error.values, mean=means)
    row = answer(table)
    assert row.source == "rounding" and row.rounding.verdict == "linear"


def test_failed_and_unfinished_twins_do_not_count():
    table = pairs_of(line(1e-6) + noise(1, 1e-8), noise(2, 1e-15))
    table["status"][STARTS + 3] = 2
    table["status"][STARTS + 5] = -1
    table["sample_count"][STARTS + 5] = 0
    table["status"][7] = 1
    row = answer(table)
    assert (row.starts, row.left_out) == (STARTS - 3, 3)
    assert row.source == "method" and row.duration == row.run_duration == 64.0
    assert row.compared == "without 3 pairs of which one ends before"


def test_where_all_twins_failed_that_is_the_answer():
    table = pairs_of(line(1e-6), noise(2, 1e-15))
    table["status"][STARTS:] = 2
    row = answer(table)
    assert row.source == "neither" and row.starts == 0 and np.isnan(row.method.drift)
    assert row.compared.endswith(f"without {STARTS} pairs of which one ends before")
    assert f"{NAME}: {row.compared}" in tables_as_text(arithmetic_as_tables([row]))


def test_twins_that_are_not_finished_are_compared_as_far_as_they_are():
    table = pairs_of(line(1e-6) + noise(1, 1e-8), noise(2, 1e-15))
    table["status"][STARTS:] = -1
    table["sample_count"][STARTS:] = 65
    table["energy_error"][STARTS:, 65:] = np.nan
    row = answer(table)
    assert row.duration == 32.0 and row.run_duration == 64.0
    assert row.starts == STARTS and row.source == "method"
    table["sample_count"][STARTS] = 3  # of one alone: it would leave nothing of the others
    row = answer(table)
    assert (row.starts, row.left_out, row.duration) == (STARTS - 1, 1, 32.0)


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
    assert f"* {NAME}: until t = 32 of 64, with the twins of short" in text
    few = answer(own, others=[twins.isel(run=slice(0, 20))])
    assert few.starts == 20


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
    with pytest.raises(InputError, match="no twin"):
        arithmetic_table(own, ["energy"], others=[twins])


def test_a_scanned_parameter_is_compared_with_a_fixed_one():
    own, twins = shorter_twins(pairs_of(line(1e-6), noise(2, 1e-15)), 65)
    own = own.assign_coords(gravity=("run", np.where(np.arange(STARTS) < 20, 1.0, 2.0)))
    row = answer(own, others=[twins])
    assert row.starts == 20 and row.parameters == {"gravity": 1.0}


def test_without_a_twin_stands_what_to_add():
    table = pairs_of(line(1e-6), noise(2, 1e-15))
    alone = table.isel(run=table.integrator.values == NAME)
    with pytest.raises(InputError) as refused:
        arithmetic_table(alone, ["energy"])
    added = 'the same entry once more, with arithmetic = "double-double", adds it'
    assert str(refused.value) == f"{NAME}: no twin: {added}"
    twin = f"{{ name = {NAME!r}, {added.split(', ')[1].removeprefix('with ')} }}"
    assert study_of(one_experiment(integrators=f"[{NAME!r}, {twin}]")).experiments


def test_an_integrator_without_twins_beside_one_with_them():
    table = pairs_of(line(1e-6), noise(2, 1e-15))
    labels = np.where(np.arange(2 * STARTS) < 8, "rk4", table.integrator).astype(object)
    paired, lacking = arithmetic_table(table.assign_coords(integrator=("run", labels)), ["energy"])
    assert (paired.starts, paired.integrator, lacking.integrator) == (STARTS - 8, NAME, "rk4")
    assert lacking.source == "no twin" and "the same entry once more" in lacking.compared


def test_neither_adaptive_runs_nor_twins_are_rows():
    table = pairs_of(line(1e-6), noise(2, 1e-15))
    assert arithmetic_table(table.isel(run=table.integrator.values == PRECISE)) == []
    adaptive = {"step_size": table.step_size * np.nan, "tolerance": ("run", np.full(64, 1e-6))}
    assert arithmetic_table(table.assign_coords(adaptive)) == []


def test_bad_input_names_the_value():
    table = pairs_of(line(1e-6), noise(2, 1e-15))
    with pytest.raises(InputError, match="Did you mean 'energy'"):
        arithmetic_table(table, ["enrgy"])
    with pytest.raises(InputError, match="'most', and must be 'all' or 'smallest'"):
        arithmetic_table(table, step_sizes="most")
