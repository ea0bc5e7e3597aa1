"""The runs of a study: their order, their identifiers, what is left out and what is refused."""

import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_runs import many_experiments, pairs, runs_to_compute, stored, table_of, tables_of
from study_text import one_experiment, problems, run_tables

import integrators
import sweep
import systems

RUN = ["integrator", "step_size", "initial_condition"]
STARTS = ["lee", "random[0]", "random[1]"]


def rows_of(table):
    return list(table[RUN].itertuples(index=False, name=None))


def test_rows_are_ordered_with_the_initial_condition_fastest():
    scan = "{ gravity = [1.0, 2.0], length = { start = 1, stop = 3, count = 3 } }"
    table = table_of(scan=scan, parameters="{ count = 2 }")
    columns = ["integrator", "step_size", "gravity", "length", "initial_condition"]
    axes = ["variational", "rk4"], [0.1, 0.05], [1.0, 2.0], [1, 2, 3], STARTS
    expected = list(itertools.product(*axes))
    assert list(table[columns].itertuples(index=False, name=None)) == expected
    assert table["ensemble"][:3].tolist() == ["", "random", "random"]
    assert table["tolerance"].isna().all()


def test_scanned_vectors_bear_their_labels():
    points = '[{ label = "even", value = [1, 1] }, { label = "odd", value = [1, 2] }]'
    table = table_of(scan=f"{{ mass = {points} }}", exclude='[{ mass = "odd", step_size = 0.1 }]')
    assert pairs(table, "mass", "step_size") == {("even", 0.1), ("even", 0.05), ("odd", 0.05)}


def tables_of_one_name(*grids):
    """Text of an experiment with several tables of its name."""
    texts = [one_experiment(**changes) for changes in grids]
    return "".join([texts[0], *(text[text.index("[[") :] for text in texts[1:])])


def test_tables_of_one_name_are_grids_of_one_experiment():
    """Runs of the first, then those of the second that the first has not."""
    text = tables_of_one_name(
        {"integrators": '"rk4"', "initial_condition": '"lee"'},
        {"integrators": '["rk2_heun", "rk4"]', "initial_condition": '"lee"', "step_size": "0.05"},
    )
    (table,) = tables_of(text)
    assert rows_of(table) == [
        ("rk4", 0.1, "lee"), ("rk4", 0.05, "lee"), ("rk2_heun", 0.05, "lee")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": "5"}, "one has samples = 10, another 5"),
        ({"max_steps": "9"}, "one has max_steps = 9, another 10000000"),
        ({"parameters": "{ gravity = 2.0 }"}, "one has parameters = {"),
        ({"scan": "{ gravity = [2.0] }"}, "'gravity' is scanned in one and not in another"),
    ],
)
def test_tables_of_one_name_agree_on_all_but_their_axes(changes, message):
    (problem,) = problems(tables_of_one_name({}, changes))
    assert problem.startswith("s.toml:12: experiment[1].name: the tables named 'only'")
    assert message in problem


# --- in a store -------------------------------------------------------------------------------

SHARED = {"duration": "0.1", "samples": "1", "initial_condition": "{ random = 2, seed = 1 }"}
STORED = {
    "first": {"scan": "{ gravity = [1.0] }"},
    "longer": {
        "duration": "0.4",
        "samples": "2",
        "integrators": '[{ name = "variational", label = "v", solver_tolerance = 0.0 }, "rk4"]',
    },
    "two": {"parameters": "{ count = 2, mass = [1.0, 2.0] }", "integrators": '"rk4"'},
    "sizes": {
        "scan": "{ count = [1, 2], "
        "mass = [{ label = 'one', value = [1.0] }, { label = 'two', value = [1.0, 2.0] }] }",
        "zip": '[["mass", "count"]]',
        "integrators": '"rk4"',
    },
}


@pytest.fixture(scope="module")
def store(cluster, tmp_path_factory):
    """A store of all that."""
    place = tmp_path_factory.mktemp("expand")
    stored(many_experiments(STORED, **SHARED), cluster, place)
    return place / "s.zarr"


@pytest.fixture(scope="module")
def found(store):
    """Datasets of experiments, by name."""
    return {name: group.to_dataset() for name, group in sweep.open_study(store).children.items()}


def ids(dataset):
    return dataset["run_id"].values.tolist()


def test_a_run_is_the_same_whatever_it_is_called_and_how_long_it_is(found):
    assert ids(found["longer"]) == ids(found["first"])
    assert len(set(ids(found["first"]))) == 8
    assert all(len(one) == len(f"{int(one, 16):016x}") for one in ids(found["first"]))


@pytest.mark.parametrize(
    ("changes", "new"),
    [
        ({"parameters": "{ count = 2, length = 1 }"}, 0),
        ({"step_size": "{ start = 0.1, stop = 0.05, count = 2 }"}, 0),
        ({"initial_condition": "{ random = 5, seed = 1 }"}, 3 * 4),  # it keeps its members
        ({"initial_condition": "{ random = 2, seed = 2 }"}, 8),
        ({"integrators": '["variational", "rk4", { name = "variational", label = "loose", '
          "solver_tolerance = 1e-9 }]"}, 4),
        ({"scan": "{ gravity = [1, 1.0000000000000002] }"}, 8),
        ({"step_size": "[0.1, 0.05000000000000001]"}, 4),
    ],
)  # fmt: skip
def test_a_run_that_differs_in_the_last_digit_is_another(store, changes, new):
    text = many_experiments({"first": STORED["first"] | changes}, **SHARED)
    assert runs_to_compute(text, store)["first"] == new


def test_systems_have_their_own_parameters_and_starts(found):
    for count, label, mass in ((1, "one", (1.0,)), (2, "two", (1.0, 2.0))):
        runs = found["sizes"].query(run=f"count == {count} and step_size == 0.1")
        assert pairs(runs, "mass") == {(label,)}
        states = systems.get("spherical_pendulum_chain", count=count, mass=mass).ensemble(2, seed=1)
        np.testing.assert_array_equal(runs["initial_state"][:, : 2 * count], states)
        assert np.isnan(runs["initial_state"][:, 2 * count :]).all()
    assert ids(found["sizes"].query(run="mass == 'two'")) == ids(found["two"])


EARLIER = {  # ids of runs in stores that there are, which have those of a study
    ("spherical_pendulum_chain", "variational"): "5f2f6fa74ff77627",
    ("free_rigid_body", "splitting"): "4e795cfcd75818fc",
}
MORE = {
    ("spherical_pendulum_chain", "rk4"): "fed23a4aad1be341",
    ("free_rigid_body", "spherical_midpoint"): "1b7aa3ea48716d40",
    ("spherical_pendulum_chain", "rkmk4"): "668656cdc5caf6ea",
    ("nbody_sphere", "rkmk4"): "4ec20027aa2691e0",
    ("nbody_sphere", "variational"): "395f5818db2bab80",
    ("spring_pendula", "rkmk4"): "946b64e2c18f7992",
    ("spring_pendula", "variational"): "b405d021b1fd5064",
    ("elastic_rod", "rkmk4"): "b832752a1fc1aaf9",
    ("elastic_rod", "variational"): "74eef8cb47f86969",
    ("magnetic_dipoles", "rkmk4"): "98235f57b4e0316c",
    ("magnetic_dipoles", "variational"): "d0b78fe03b516baf",
    ("lennard_jones_sphere", "rkmk4"): "89bd258d3c7939cf",
    ("lennard_jones_sphere", "variational"): "f35715ac25503ef2",
    ("forced_pendulum_chain", "rkmk4"): "ad516a477d680069",
    ("forced_pendulum_chain", "variational"): "7954c0431f4e3019",
    ("free_rigid_body", "rkmk4"): "f440d2974c26eba7",
    ("irreversible_rigid_body", "rkmk4"): "db03240ea482bda4",
    ("forced_rigid_body", "rkmk4"): "865908bca80520f6",
    ("precession", "rkmk4"): "35307b08d06d4a04",
    ("point_vortices", "rkmk4"): "75d46eb52b6954bb",
    ("heisenberg_chain", "rkmk4"): "4f6740166af38d2a",
    ("nambu_lagrange", "nambu_midpoint"): "f2bf30296d407f56",
    ("heavy_top", "rkmk4"): "a7192935ec75e00f",
    ("heavy_top", "symplectic_lie_group"): "db34564756e2c5e6",
    ("quadrotor_payload", "rkmk4"): "9f63697de251d6f8",
}


@pytest.mark.parametrize("earlier", [EARLIER, MORE], ids=["some", "all systems"])
def test_runs_of_earlier_versions_keep_their_ids(earlier):
    """What is new in a system or a method changes none, as long as it is not made use of."""
    settings = {
        f"{system}-{integrator}": {
            "system": f'"{system}"',
            "integrators": f'"{integrator}"',
            "initial_condition": f'"{systems.get(system).starts[0]}"',
        }
        for system, integrator in earlier
    }
    shared = {"step_size": "0.01", "duration": "0.01", "samples": "1"}
    made = run_tables(many_experiments(settings, **shared))
    assert {name: table.run_id.tolist() for name, table in made.items()} == {
        "-".join(names): [run_id] for names, run_id in earlier.items()
    }


# --- step sizes -------------------------------------------------------------------------------


@given(
    st.floats(0.01, 100.0),
    st.integers(1, 200),
    st.floats(1e-4, 1.0),
    st.floats(1e-4, 1.0),
    st.integers(2, 12),
    st.sampled_from(["log", "linear"]),
)
@settings(max_examples=25)
def test_generated_steps_divide_the_interval_and_differ(duration, samples, start, stop, count, how):
    interval = duration / samples
    steps = {"start": start * interval, "stop": stop * interval, "count": count, "spacing": how}
    found = steps_of(steps, duration, samples)
    ratios = interval / np.array(found)
    np.testing.assert_allclose(ratios, np.rint(ratios), rtol=1e-9)
    assert len(set(np.rint(ratios))) == len(found) <= count
    assert steps_of(found, duration, samples) == found  # listed, they stay as they are


def steps_of(step_size, duration=1.0, samples=1):
    """The step sizes of a study that is built in Python."""
    experiment = sweep.Experiment(
        name="only",
        system="spherical_pendulum_chain",
        integrators=["rk4"],
        initial_condition="lee",
        step_size=step_size,
        duration=duration,
        samples=samples,
    )
    (table,) = sweep.Study("steps", [experiment]).check()
    return table.to_dataframe()["step_size"].tolist()


@given(st.floats(1e-3, 1e6), st.integers(1, 10_000), st.integers(1, 10**6))
@settings(max_examples=20)
def test_a_step_that_divides_keeps_its_exact_float(duration, samples, steps):
    step_size = duration / samples / steps
    for written in (step_size, float(f"{step_size:.12g}")):
        assert steps_of([written], duration, samples) == [written]


@given(st.floats(1e-3, 1e6), st.integers(1, 10_000), st.floats(1e-6, 1.0))
@settings(max_examples=20)
def test_the_nearest_steps_that_a_refusal_names_are_accepted(duration, samples, part):
    step_size = part * duration / samples
    try:
        assert steps_of([step_size], duration, samples) == [step_size]
    except sweep.errors.StudyError as error:
        named = str(error).split("nearest that do are ")[1].split(" and ")
        larger, smaller = (float(words.split(" (")[0]) for words in named)
        assert smaller < step_size < larger
        assert steps_of([larger, smaller], duration, samples) == [larger, smaller]


@pytest.mark.parametrize(
    ("step_size", "words"),
    [
        ("0.0", "positive"),
        ("-0.1", "positive"),
        ("0.11", "0.11 is larger than the sample interval 0.1"),
        ("0.11", "(duration 1.0 / samples 10); it needs samples = 9 or fewer"),
        ("1e-300", "1e-300 needs more than 2**53 steps"),
        ("0.03", "nearest that do are 0.03333333333 (3 steps) and 0.025 (4 steps)"),
        ("0.07", "nearest that do are 0.1 (1 step) and 0.05 (2 steps)"),
        ("{ start = 0, stop = 0.1, count = 3, spacing = 'log' }", "positive"),
        ("{ start = 0.1, stop = -0.1, count = 3, spacing = 'log' }", "positive"),
    ],
)
def test_steps_that_are_refused(step_size, words):
    found = problems(one_experiment(step_size=step_size))[0]
    assert found.startswith("s.toml:7: experiment[0].step_size") and words in found


def test_a_step_as_large_as_the_interval_up_to_rounding():
    assert float(np.nextafter(0.3, 0.0)) / 3 < 0.1
    assert steps_of([0.1], float(np.nextafter(0.3, 0.0)), 3) == [0.1]
    assert steps_of([0.1], 0.3, 3) == [0.1]


@given(st.floats(1e-3, 1e3), st.floats(1.01, 1e3), st.integers(2, 50), st.booleans())
@settings(max_examples=20)
def test_a_range_keeps_its_ends_and_generates_six_digits(start, factor, count, log):
    spacing = "log" if log else "linear"
    values = scanned({"start": start, "stop": start * factor, "count": count, "spacing": spacing})
    assert (values[0], values[-1], len(values)) == (start, start * factor, count)
    assert all(float(f"{value:.6g}") == value for value in values[1:-1])
    exact = (np.geomspace if log else np.linspace)(start, start * factor, count)
    np.testing.assert_allclose(values, exact, rtol=5.001e-6)


def scanned(values, name="gravity"):
    """The values of a scanned parameter of a study that is built in Python."""
    experiment = sweep.Experiment(
        name="only",
        system="spherical_pendulum_chain",
        integrators=["rk4"],
        initial_condition={"random": 1, "seed": 1},
        scan={name: values},
        step_size=1.0,
        duration=1.0,
        samples=1,
    )
    (table,) = sweep.Study("scan", [experiment]).check()
    return table.to_dataframe()[name].tolist()


def test_a_range_of_integers_where_all_can_be():
    assert scanned({"start": 2, "stop": 8, "count": 4}, "count") == [2, 4, 6, 8]
    assert scanned({"start": 2, "stop": 16, "count": 4, "spacing": "log"}, "count") == [2, 4, 8, 16]
    assert scanned({"start": 1, "stop": 2, "count": 3}) == [1.0, 1.5, 2.0]


# --- what is left out -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ('integrator = "rk4"', lambda i, h, c: i != "rk4"),
        ('integrator = "!= rk4"', lambda i, h, c: i == "rk4"),
        ('integrator = "rk4", step_size = ">= 0.1"', lambda i, h, c: i != "rk4" or h < 0.1),
        ("step_size = 0.1", lambda i, h, c: h != 0.1),
        ('step_size = "> 0.05"', lambda i, h, c: h < 0.1),
        ('step_size = "<= 0.05"', lambda i, h, c: h > 0.05),
        ('step_size = "< 0.1"', lambda i, h, c: h >= 0.1),
        ('step_size = "!= 0.1"', lambda i, h, c: h == 0.1),
        ('step_size = ">= 0.10000000001"', lambda i, h, c: h < 0.1),
        ('initial_condition = "lee"', lambda i, h, c: c != "lee"),
        ('ensemble = "random"', lambda i, h, c: c == "lee"),
        ('initial_condition = "random[1]"', lambda i, h, c: c != "random[1]"),
        (
            'integrator = "rk4" }, { step_size = 0.1',  # joined by or
            lambda i, h, c: i != "rk4" and h != 0.1,
        ),
    ],
)
def test_rules_leave_runs_out(rule, left):
    everything = rows_of(table_of())
    expected = [row for row in everything if left(*row)]
    assert 0 < len(expected) < len(everything)
    assert rows_of(table_of(exclude=f"[{{ {rule} }}]")) == expected


TWICE = '[{ random = 2, seed = 1 }, { random = 1, seed = 1, label = "b" }]'


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"integrators": '["rk4", { name = "rk4", label = "again", formulation = "q_omega" }]'},
            "6: experiment[0].integrators[1] ('again')…step size 0.1…"
            "s.toml:6: experiment[0].integrators[0] ('rk4')…only once",
        ),
        ({"initial_condition": TWICE}, "8: experiment[0].initial_condition[1] ('b[0]')…only once"),
        (
            {"scan": '{ mass = [{ label = "a", value = 1 }, { label = "b", value = [1, 1] }] }'},
            "11: experiment[0].scan.mass (b)…only once",
        ),
        ({"exclude": '[{ step_size = "> 0" }]'}, "3: experiment[0]: …'exclude' leaves no run"),
    ],
)
def test_duplicate_and_absent_runs_are_refused(changes, message):
    start, *words = message.split("…")
    (found,) = problems(one_experiment(**changes))
    assert found.startswith(f"s.toml:{start}") and all(word in found for word in words)


def test_two_entries_of_one_integrator_may_share_out_the_steps():
    entries = '[{ name = "rk4", step_size = 0.1 }, { name = "rk4", label = "b", step_size = 0.05 }]'
    assert pairs(table_of(integrators=entries), "integrator", "step_size") == {
        ("rk4", 0.1), ("b", 0.05),
    }  # fmt: skip


def fitting(names, system):
    """Those of the integrators that `system` has a form for."""
    for name in names:
        with contextlib.suppress(integrators.InputError):
            integrators.get(name).check(system)
            yield name


def test_every_fixed_step_integrator_expands_on_every_system_that_it_fits():
    fixed = [name for name in integrators.names() if not integrators.get(name).adaptive]
    methods = {name: list(fitting(fixed, systems.get(name))) for name in systems.names()}
    assert min(map(len, methods.values())) >= 3
    settings = {
        name: {
            "system": f'"{name}"',
            "integrators": str(methods[name]),
            "initial_condition": f'["{systems.get(name).starts[0]}", {{ random = 2, seed = 1 }}]',
        }
        for name in methods
    }
    for table, names in zip(tables_of(many_experiments(settings)), methods.values(), strict=True):
        assert table["integrator"].drop_duplicates().tolist() == names
        assert len(table) == len(table.drop_duplicates()) == 2 * 3 * len(names)
