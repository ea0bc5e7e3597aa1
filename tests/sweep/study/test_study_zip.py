"""Axes that advance together, and runs that are repeated: read, tabulated, analysed."""

import numpy as np
import pytest
from run_tables import run_table, with_series
from study_runs import many_experiments, pairs, runs_to_compute, stored, table_of
from study_text import one_experiment, problems

import sweep
from sweep.analysis import drift_table, grid, order_table

CHAINS = (
    "{ count = [1, 2, 3], gravity = [1.0, 2.0], length = [{ label = 'a', value = [1.0] }, "
    "{ label = 'b', value = [1.0, 2.0] }, { label = 'c', value = [3.0, 2.0, 1.0] }] }"
)
MEMBERS = {"initial_condition": "{ random = 2, seed = 1 }"}


# --- zip --------------------------------------------------------------------------------------


def test_zipped_parameters_that_are_valid_only_together():
    table = table_of(scan=CHAINS, zip='[["length", "count"]]', **MEMBERS)
    assert len(table) == 2 * 2 * (3 * 2) * 2
    chains = table[["count", "gravity", "length"]].drop_duplicates()
    labels = {1: "a", 2: "b", 3: "c"}
    assert list(chains.itertuples(index=False, name=None)) == [
        (n, g, labels[n]) for n in (1, 2, 3) for g in (1.0, 2.0)
    ]


def test_the_step_size_advances_with_a_parameter():
    own = '["variational", { name = "rk4", step_size = { start = 0.025, stop = 0.1, count = 2 } }]'
    table = table_of(
        scan="{ gravity = [1.0, 2.0], mass = [1.0, 3.0] }",
        zip='[["step_size", "gravity"]]',
        integrators=own,
    )
    assert len(table) == 2 * 2 * 2 * 3
    assert pairs(table, "integrator", "step_size", "gravity") == {
        ("variational", 0.1, 1.0),
        ("variational", 0.05, 2.0),
        ("rk4", 0.025, 1.0),
        ("rk4", 0.1, 2.0),
    }
    assert table["mass"].value_counts().to_dict() == {1.0: 12, 3.0: 12}


def test_several_groups():
    table = table_of(
        scan="{ gravity = [1.0, 2.0], mass = [1.0, 3.0], count = [1, 2], length = [5.0, 6.0] }",
        zip='[["count", "mass", "step_size"], ["length", "gravity"]]',
        **MEMBERS,
    )
    assert len(table) == 2 * 2 * 2 * 2
    assert pairs(table, "count", "mass", "step_size") == {(1, 1.0, 0.1), (2, 3.0, 0.05)}
    assert pairs(table, "length", "gravity") == {(5.0, 1.0), (6.0, 2.0)}


def test_values_may_stand_twice_on_axes_that_advance_together():
    scan = "{ gravity = [1.0, 1.0, 2.0], mass = [1.0, 3.0, 3.0] }"
    together = {"scan": scan, "zip": '[["gravity", "mass", "step_size"]]'}
    table = table_of(step_size="[0.1, 0.1, 0.05]", **together)
    assert pairs(table, "gravity", "mass", "step_size") == {(1, 1, 0.1), (1, 3, 0.1), (2, 3, 0.05)}
    steps = "{ start = 0.1, stop = 0.09, count = 3 }"  # all of them snapped to 0.1
    assert len(table_of(step_size=steps, **together)) == 18
    assert "1.0 is also" in problems(one_experiment(scan=scan))[0]
    twice = one_experiment(scan="{ gravity = [1, 1], mass = [2, 2] }", zip='[["gravity", "mass"]]')
    assert "only once" in problems(twice)[0]


def test_long_axes_that_advance_together():
    values = "{ start = 1.0, stop = 2.0, count = 300 }"
    table = table_of(
        scan=f"{{ gravity = {values}, mass = {values} }}",
        step_size="{ start = 1.0, stop = 0.002, count = 300 }",
        zip='[["gravity", "step_size", "mass"]]',
        samples="1",
        initial_condition='"lee"',
        duration="1000.0",
    )
    assert len(table) == 600 and (table["gravity"] == table["mass"]).all()
    assert table["step_size"][:300].is_monotonic_decreasing


GRAVITY = "{ gravity = [1.0, 2.0], mass = [1.0, 3.0, 4.0] }"


@pytest.mark.parametrize(
    ("zipped", "message"),
    [
        ('[["gravity", "mass"]]', "zip[0]: …gravity has 2, mass has 3"),
        ('[["mass", "step_size"]]', "zip: …mass has 3, step_size has 2, step_size of 'own' has 1"),
        ('[["gravity", "lenght"]]', "zip[0][1]: …'lenght'…gravity"),
        ('[["gravity", "step_sizes"]]', "zip[0][1]: …Did you mean 'step_size'?"),
        (
            '[["gravity", "step_size"], ["step_size", "mass"]]',
            "zip[1][0]: …'step_size' is also that of …zip[0][1]",
        ),
        ('[["gravity", "gravity"]]', "zip[0][1]: …'gravity' is also"),
        ('["gravity", "mass"]', "zip[0]: …array"),
        ('[["gravity"]]', "zip[0]: …at least two"),
        ("[]", "zip: …not empty"),
        ('[["gravity", 1]]', "zip[0][1]: …string"),
    ],
)
def test_groups_that_are_refused(zipped, message):
    integrators = '["rk4", { name = "rk4", label = "own", step_size = 0.025 }]'
    found = problems(one_experiment(scan=GRAVITY, zip=zipped, integrators=integrators))[0]
    start, *words = message.split("…")
    assert found.startswith(f"s.toml:12: experiment[0].{start}")
    assert all(part in found for part in words), found


def test_an_invalid_combination_says_which():
    scan = (
        "{ count = [1, 2], length = [{ label = 'a', value = [1] }, { label = 'b', value = [2] }] }"
    )
    found = problems(one_experiment(scan=scan, zip='[["count", "length"]]', **MEMBERS))[0]
    assert found.startswith("s.toml:11: experiment[0].scan.length[1]: length has 1 values")
    assert "count = 2" in found


# --- in a store -------------------------------------------------------------------------------

SCAN = {"scan": "{ gravity = [1.0, 2.0], mass = [1.0, 3.0] }"}
SHARED = {"integrators": '"rk4"', "duration": "0.1", "samples": "1"}


@pytest.fixture(scope="module")
def store(cluster, tmp_path_factory):
    """A store of a product of axes, and of runs that are repeated three times."""
    place = tmp_path_factory.mktemp("zip")
    stored(
        many_experiments({"product": SCAN, "repeated": {"repeat": "3"}}, **SHARED), cluster, place
    )
    return place / "s.zarr"


def test_runs_of_axes_that_advance_together_are_those_of_the_full_product(store):
    text = many_experiments({"product": SCAN | {"zip": '[["gravity", "mass"]]'}}, **SHARED)
    assert runs_to_compute(text, store)["product"] == 0


def test_repeats_have_ids_of_their_own_and_the_first_is_the_run_itself(store):
    found = sweep.open_study(store)["repeated"].to_dataset()
    assert found["repeat"].values.tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert len(set(found["run_id"].values.tolist())) == 18
    for repeat, new in ((1, 0), (5, 12)):
        text = many_experiments({"repeated": {"repeat": str(repeat)}}, **SHARED)
        assert runs_to_compute(text, store)["repeated"] == new
    product = sweep.open_study(store)["product"].to_dataset().query(run="gravity == mass")
    assert found["run_id"].values[:6].tolist() == product["run_id"].values.tolist()


@pytest.mark.parametrize(
    ("repeat", "words"),
    [
        ("0", ("at least 1", "0")),
        ("1.5", ("integer", "1.5")),
        ("10000000", ("120,000,000 runs", "at most")),
    ],
)
def test_repeats_that_are_refused(repeat, words):
    found = problems(one_experiment(repeat=repeat))[0]
    assert found.startswith("s.toml:") and all(word in found for word in words)


# --- analysed ---------------------------------------------------------------------------------


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
