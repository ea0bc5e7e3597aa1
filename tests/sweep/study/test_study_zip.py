"""Axes that advance together, and runs that are repeated: read, expanded, analysed."""

import numpy as np
import pytest
from run_tables import run_table, with_series
from study_text import one_experiment, problems

from sweep.analysis import drift_table, grid, order_table
from sweep.store import studies
from sweep.study.run_id import run_id
from sweep.study.run_table import expand_experiment

CHAINS = (
    "{ count = [1, 2, 3], gravity = [1.0, 2.0], length = [{ label = 'a', value = [1.0] }, "
    "{ label = 'b', value = [1.0, 2.0] }, { label = 'c', value = [3.0, 2.0, 1.0] }] }"
)
MEMBERS = {"initial_condition": "{ random = 2, seed = 1 }"}


def table_of(**changes):
    return expand_experiment(
        studies.parse_study(one_experiment(**changes), "s.toml").experiments[0]
    )


# --- zip --------------------------------------------------------------------------------------


def test_zipped_parameters_that_are_valid_only_together():
    table = table_of(scan=CHAINS, zip='[["length", "count"]]', **MEMBERS)
    assert table.size == table.experiment.size == 2 * 2 * (3 * 2) * 2
    chains = [(s.count, s.gravity, s.length) for s in table.systems]
    lengths = {1: (1.0,), 2: (1.0, 2.0), 3: (3.0, 2.0, 1.0)}
    assert chains == [(n, g, lengths[n]) for n in (1, 2, 3) for g in (1.0, 2.0)]
    labels = dict(zip("abc", (1, 2, 3), strict=True))
    for label, count in zip(table.scan["length"], table.scan["count"], strict=True):
        assert labels[str(label)] == count


def test_the_step_size_advances_with_a_parameter():
    own = '["variational", { name = "rk4", step_size = { start = 0.025, stop = 0.1, count = 2 } }]'
    table = table_of(
        scan="{ gravity = [1.0, 2.0], mass = [1.0, 3.0] }",
        zip='[["step_size", "gravity"]]',
        integrators=own,
    )
    assert table.size == table.experiment.size == 2 * 2 * 2 * 3
    pairs = zip(table.integrator, table.step_size, table.scan["gravity"], strict=True)
    assert {(str(i), float(h), float(g)) for i, h, g in pairs} == {
        ("variational", 0.1, 1.0),
        ("variational", 0.05, 2.0),
        ("rk4", 0.025, 1.0),
        ("rk4", 0.1, 2.0),
    }
    for mass in (1.0, 3.0):
        assert np.sum(table.scan["mass"] == mass) == table.size / 2


def test_several_groups():
    table = table_of(
        scan="{ gravity = [1.0, 2.0], mass = [1.0, 3.0], count = [1, 2], length = [5.0, 6.0] }",
        zip='[["count", "mass", "step_size"], ["length", "gravity"]]',
        **MEMBERS,
    )
    assert table.size == table.experiment.size == 2 * 2 * 2 * 2
    found = set(zip(*(table.scan[name].tolist() for name in ("count", "mass")), strict=True))
    assert found == {(1, 1.0), (2, 3.0)}
    found = set(zip(table.scan["length"].tolist(), table.scan["gravity"].tolist(), strict=True))
    assert found == {(5.0, 1.0), (6.0, 2.0)}
    assert set(zip(table.scan["count"].tolist(), table.step_size.tolist(), strict=True)) == {
        (1, 0.1),
        (2, 0.05),
    }


def test_a_zipped_run_is_the_run_of_the_full_product():
    scan = "{ gravity = [1.0, 2.0], mass = [1.0, 3.0] }"
    everything = table_of(scan=scan)
    zipped = table_of(scan=scan, zip='[["gravity", "mass"]]')
    kept = everything.scan["mass"] == 2 * everything.scan["gravity"] - 1
    assert zipped.run_id.tolist() == everything.run_id[kept].tolist()


def test_values_may_stand_twice_on_axes_that_advance_together():
    scan = "{ gravity = [1.0, 1.0, 2.0], mass = [1.0, 3.0, 3.0] }"
    table = table_of(
        scan=scan, step_size="[0.1, 0.1, 0.05]", zip='[["gravity", "mass", "step_size"]]'
    )
    found = zip(table.scan["gravity"], table.scan["mass"], table.step_size, strict=True)
    assert {tuple(map(float, one)) for one in found} == {(1, 1, 0.1), (1, 3, 0.1), (2, 3, 0.05)}
    steps = "{ start = 0.1, stop = 0.09, count = 3 }"  # all of them snapped to 0.1
    assert table_of(scan=scan, step_size=steps, zip='[["gravity", "mass", "step_size"]]').size == 18
    assert "the value 1.0 is also" in problems(one_experiment(scan=scan))[0]
    twice = one_experiment(scan="{ gravity = [1, 1], mass = [2, 2] }", zip='[["gravity", "mass"]]')
    assert "give each run only once" in problems(twice)[0]


def test_long_axes_that_advance_together():
    values = "{ start = 1.0, stop = 2.0, count = 1000 }"
    table = table_of(
        scan=f"{{ gravity = {values}, mass = {values} }}",
        step_size="{ start = 1.0, stop = 0.001, count = 1000 }",
        zip='[["gravity", "step_size", "mass"]]',
        samples="1",
        initial_condition='"lee"',
        duration="1000.0",
    )
    assert table.size == table.experiment.size == 2000 and len(table.systems) == 1000


GRAVITY = "{ gravity = [1.0, 2.0], mass = [1.0, 3.0, 4.0] }"


@pytest.mark.parametrize(
    ("zipped", "message"),
    [
        (
            '[["gravity", "mass"]]',
            "12: experiment[0].zip[0]: axes that advance together need as many values each: "
            "gravity has 2, mass has 3; give each as many, or take one out",
        ),
        (
            '[["mass", "step_size"]]',
            "12: experiment[0].zip: axes that advance together need as many values each: "
            "mass has 3, step_size has 2, step_size of 'own' has 1;",
        ),
        (
            '[["gravity", "lenght"]]',
            "12: experiment[0].zip[0][1]: unknown axis 'lenght'. Valid: gr",
        ),
        ('[["gravity", "step_sizes"]]', "12: experiment[0].zip[0][1]: …Did you mean 'step_size'?"),
        (
            '[["gravity", "step_size"], ["step_size", "mass"]]',
            "12: experiment[0].zip[1][0]: the axis 'step_size' is also that of …zip[0][1]; an axis",
        ),
        ('[["gravity", "gravity"]]', "12: experiment[0].zip[0][1]: the axis 'gravity' is also"),
        ('["gravity", "mass"]', "12: experiment[0].zip[0]: expected an array of the names of at l"),
        ('[["gravity"]]', "12: experiment[0].zip[0]: expected an array of the names of at least t"),
        ("[]", "12: experiment[0].zip: expected an array that is not empty"),
        ('[["gravity", 1]]', "12: experiment[0].zip[0][1]: expected a string"),
    ],
)
def test_groups_that_are_refused(zipped, message):
    integrators = '["rk4", { name = "rk4", label = "own", step_size = 0.025 }]'
    text = one_experiment(scan=GRAVITY, zip=zipped, integrators=integrators)
    start, *words = message.split("…")
    found = problems(text)[0]
    assert found.startswith(f"s.toml:{start}")
    assert all(part in found for part in words)


def test_an_invalid_combination_says_which():
    scan = (
        "{ count = [1, 2], length = [{ label = 'a', value = [1] }, { label = 'b', value = [2] }] }"
    )
    found = problems(one_experiment(scan=scan, zip='[["count", "length"]]', **MEMBERS))[0]
    assert found.startswith("s.toml:11: experiment[0].scan.length[1]: length has 1 values; expect")
    assert "count = 2" in found


# --- repeat -----------------------------------------------------------------------------------


def test_repeats_have_ids_of_their_own_and_the_first_is_the_run_itself():
    once, thrice = table_of(), table_of(repeat="3")
    assert thrice.size == thrice.experiment.size == 3 * once.size
    assert len(set(thrice.run_id)) == thrice.size
    assert thrice.repeat.tolist() == np.repeat([0, 1, 2], once.size).tolist()
    assert thrice.run_id[: once.size].tolist() == once.run_id.tolist()
    more = table_of(repeat="5")
    assert more.run_id[: thrice.size].tolist() == thrice.run_id.tolist()
    entry = thrice.experiment.integrators[0]
    last = run_id(
        thrice.systems[0], entry.name, entry.options, 0.1, thrice.initial_state(0), repeat=2
    )
    assert thrice.run_id[2 * once.size] == last


@pytest.mark.parametrize(
    ("repeat", "message"),
    [
        ("0", "expected at least 1 repeat, got 0"),
        ("1.5", "expected an integer"),
        ("10000000", "comes to 120,000,000 runs in all experiments; at most"),
    ],
)
def test_repeats_that_are_refused(repeat, message):
    found = problems(one_experiment(repeat=repeat))[0]
    assert found.startswith("s.toml:") and message in found


def repeated(table, times):
    """The run table, each run so many times."""
    runs = np.tile(np.arange(table.sizes["run"]), times)
    repeat = np.repeat(np.arange(times), table.sizes["run"])
    return table.isel(run=runs).assign_coords(repeat=("run", repeat))


def test_repeats_are_no_independent_starts():
    times = np.linspace(0.0, 10.0, 41)
    table = run_table({"a": 2}, starts=("x", "y", "z"), times=times)
    noise = np.random.default_rng(0).normal(size=(table.sizes["run"], len(times)))
    table = with_series(table, "energy_error", noise)
    several = repeated(table, 5)
    assert order_table(several) == order_table(table)
    assert str(drift_table(several, ("energy",))) == str(drift_table(table, ("energy",)))
    fourth = several.isel(run=(several["repeat"] == 3).values)
    assert order_table(fourth) == order_table(table)


def test_the_grid_has_an_axis_of_repeats_where_there_are_several():
    table = run_table({"a": 2, "b": 4}, starts=("x", "y"))
    dense = grid(repeated(table, 3))
    dims = ("integrator", "step_size", "initial_condition", "repeat", "time")
    assert dense["global_error"].dims == dims
    assert dense["repeat"].values.tolist() == [0, 1, 2]
    single = grid(table)["global_error"]
    for i in range(3):
        np.testing.assert_array_equal(dense["global_error"].sel(repeat=i), single)
    assert "repeat" not in grid(repeated(table, 1)).dims
