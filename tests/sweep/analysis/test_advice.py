"""What tables advise: whatever would decide a verdict can be written into the study, and is valid.

The sentences are those that are printed. Each of their clauses is put into the study that the table
is of, as a reader would do it.
"""

import functools
import json
import re

import numpy as np
import pytest
from run_tables import run_table
from study_text import one_experiment, problems, study_of

import sweep
from sweep.analysis import order_table
from sweep.store.reference_ends import ReferenceEnd

SIZE = r"(\d[\d.e+-]*)"
IMPOSSIBLE = {  # step sizes that are all large; its starts are of random directions
    "system": '"forced_rigid_body"',
    "parameters": "{ epsilon = 2.0 }",
    "integrators": '["rk2_heun+projected", "collective_gauss2+sofroniou_spaletta10"]',
    "step_size": "[2.0, 1.0, 0.5, 0.25]",
    "initial_condition": "[{ w = [[0.6, 0.48, 0.64]] }, { w = [[0.0, 0.6, 0.8]] }, "
    "{ w = [[-0.8, 0.36, 0.48]] }]",
    "duration": "12.0",
    "samples": "6",
    "reference": '{ integrator = "dop853" }',
}
NO_MOTION = {  # a body with equal moments
    "system": '"free_rigid_body"',
    "parameters": "{ inertia = [1.0, 1.0, 1.0] }",
    "integrators": '["rk4", "spherical_midpoint"]',
    "step_size": "[0.2, 0.1, 0.05]",
    "initial_condition": "{ w = [[0.6, 0.0, 0.8]] }",
    "duration": "10.0",
    "samples": "10",
    "reference": '{ integrator = "dop853" }',
}


def try_step_sizes(study, reason):
    """Check a study with the step sizes that the reason of an order names; these."""
    found = re.search(r": try step sizes? ([^;]*)", reason)
    more = [float(size) for size in re.split(", | and ", found[1])] if found else []
    sizes = json.loads(study["step_size"])
    assert not set(more) & set(sizes), "there are runs of it already"
    assert all(0 < size <= float(study["duration"]) for size in more)
    check(one_experiment(**study | {"step_size": json.dumps(sizes + more)}))
    return more


@functools.cache
def check(text):
    """Load a study, which raises an error if it is not valid; the same one only once."""
    assert study_of(text).experiments


def ran(tmp_path_factory, cluster, study):
    store = tmp_path_factory.mktemp("advice") / "store.zarr"
    assert sweep.run(study_of(one_experiment(**study)), store, cluster).complete
    return sweep.open_study(store)["only"].to_dataset()


@pytest.fixture(scope="module")
def coarse(tmp_path_factory, cluster):
    return ran(tmp_path_factory, cluster, IMPOSSIBLE)


def test_step_sizes_that_no_run_can_have_are_not_named(coarse):
    named = [try_step_sizes(IMPOSSIBLE, row.reason) for row in order_table(coarse)]
    assert all(named) and all(size < 1.0 for sizes in named[1:] for size in sizes)  # 1 and 2 fail
    assert [pytest.approx(row.further_sizes) for row in order_table(coarse)] == named


def test_a_study_without_motion_is_told_so(tmp_path_factory, cluster):
    rows = order_table(ran(tmp_path_factory, cluster, NO_MOTION))
    for row in rows:
        assert row.verdict == "undecided" and "no error shows that the state moves" in row.reason
        assert row.further_sizes == () and not any(other.integrator in row.reason for other in rows)
    (text,) = sweep.analysis.summarize_orders(rows)
    assert text == "rk4 and spherical_midpoint are undecided (no error shows that the state moves)."


SIZES = ((0.2, 0.1, 0.05, 0.025), (0.1, 0.05), (0.25,), (0.25, 0.2, 0.125, 0.1, 0.0625, 0.05))
STUDY = {
    "system": '"point_vortices"',
    "integrators": '["rk4"]',
    "initial_condition": '["mclachlan"]',
    "duration": "1.0",
    "samples": "1",
    "reference": '{ integrator = "dop853", tolerance = 1e-9 }',
}


def random_orders(rng):
    """The runs of a study, with errors of any order, which bend, scatter and end at a floor."""
    sizes, starts = SIZES[rng.integers(len(SIZES))], tuple("abcde"[: rng.integers(1, 6)])
    table = run_table({"rk4": 4}, step_sizes=sizes, starts=starts, times=(0.0, 1.0))
    h = table["step_size"].values
    error = h ** rng.choice([0.2, 1.0, 3.0, 4.0]) * (1 + rng.choice([0.0, 1.0, 30.0]) * h)
    error *= np.exp(rng.choice([0.0, 0.02, 0.3]) * rng.normal(size=len(h)))
    table["global_error"][:, 1:] = (error + rng.choice([0.0, 1e-5]))[:, None]
    table["reference_error"][:] = rng.choice([1e-14, 1e-7, 1e-5, np.nan], p=[0.4, 0.3, 0.2, 0.1])
    table["status"][h > rng.choice([0.15, 1.0])] = 3
    experiment = {"reference": {"tolerance": 1e-9}}
    axis = {"duration": 1.0, "samples": 1}
    table.attrs |= {"experiment": json.dumps(experiment), "time_axis": json.dumps(axis)}
    return STUDY | {"step_size": json.dumps(sizes)}, table


def test_whatever_step_sizes_an_order_names_can_be_run():
    rng, named = np.random.default_rng(1), 0
    for _ in range(30):
        study, table = random_orders(rng)
        for row in order_table(table):
            named += bool(try_step_sizes(study, row.reason))
            assert row.verdict == "undecided" or not row.further_sizes
    assert named >= 10


@pytest.mark.parametrize("duration, samples", [(1.0, 3), (2 * np.pi, 7)])
def test_step_sizes_that_an_error_names_divide_the_interval(duration, samples):
    study = STUDY | {"duration": repr(duration), "samples": str(samples), "step_size": "0.1234"}
    (problem,) = problems(one_experiment(**study))
    found = re.search(rf"the nearest that do are {SIZE} \(.*\) and {SIZE} \(", problem)
    for size in found.groups():
        check(one_experiment(**study | {"step_size": size}))


def test_a_reference_may_end_where_a_message_says():
    """Also at the first sample, before which it may not."""
    interval = 1 / 30
    end = ReferenceEnd({"integrator": "dop853", "tolerance": 1e-9}, "rounding", interval, 1.0)
    until = re.search(r"until = (.*?),", str(end))[1]
    reference = f'{{ integrator = "dop853", until = {until} }}'
    samples = {"samples": "30", "step_size": repr(interval), "reference": reference}
    check(one_experiment(**STUDY | samples))


def test_what_comparable_times_need_can_be_written_into_the_study(coarse):
    (precision, *_) = sweep.tables.work_as_tables(sweep.work_table(coarse))
    (note,) = (note for note in precision.notes if "CPU times cannot be compared" in note)
    needs = note.partition(": the experiment needs ")[2].split(" and ")
    assert needs[0] == "`repeat = 5`" and set(needs) <= {"`repeat = 5`", "a longer duration"}
    longer = {"duration": "120.0", "samples": "60"} if len(needs) > 1 else {}
    check(one_experiment(**IMPOSSIBLE | {"repeat": "5"} | longer))


def test_what_shows_drifts_in_a_study_of_order_can_be_added_to_it():
    advised = sweep.tables.NO_DRIFT_OF_ORDER_STUDY
    assert "one step size, a longer duration" in advised and "no reference" in advised
    samples = re.search(r"samples = (\d+)", advised)[1]
    more = {"name": '"drift"', "duration": "50.0", "samples": samples, "reference": None}
    (_, added) = one_experiment(**STUDY | more | {"step_size": "0.1"}).split("[[experiment]]")
    check(f"{one_experiment(**STUDY | {'step_size': '0.1'})}[[experiment]]{added}")
