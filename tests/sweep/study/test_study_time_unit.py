"""Times and step sizes in multiples of a study's own unit, such as the period of a forcing."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_runs import many_experiments, pairs, runs_to_compute, stored, table_of
from study_text import one_experiment, problems

import sweep

PERIOD = 6.283185307179586
IN_PERIODS = {
    "time_unit": str(PERIOD),
    "integrators": '["variational", { name = "rk4", step_size = [0.02, 0.01] }, "rk45"]',
    "step_size": "{ start = 0.1, stop = 0.03, count = 3 }",
    "tolerance": "1e-3",
    "duration": "3.0",
    "samples": "30",
    "initial_condition": '"lee"',
}
RK4 = {"integrators": '"rk4"', "step_size": "0.02", "tolerance": None}
SETTINGS = {
    "periods": {},
    "plain": {"time_unit": None},
    "short": {"duration": "2.0", "samples": "2"} | RK4,
    "thinning": RK4 | {"samples": "{ per_decade = 5, first = 0.5 }", "step_size": "0.1"},
}


@pytest.fixture(scope="module")
def store(cluster, tmp_path_factory):
    """A store of experiments in periods and in the system's own unit."""
    place = tmp_path_factory.mktemp("periods")
    stored(many_experiments(SETTINGS, **IN_PERIODS), cluster, place)
    return place / "s.zarr"


@pytest.fixture(scope="module")
def found(store):
    """Its datasets by name."""
    return {name: group.to_dataset() for name, group in sweep.open_study(store).children.items()}


def test_what_is_run_is_in_the_unit_of_the_system(found):
    inside, plain = found["periods"], found["plain"]
    assert inside.attrs["duration"] == inside["time"].values[-1] == 3 * PERIOD
    np.testing.assert_allclose(inside["time"], PERIOD * plain["time"], rtol=4e-16)
    assert inside["time"].attrs["units"] == inside["step_size"].attrs["units"] == "s"
    expected = {("variational", h * PERIOD) for h in (0.1, 0.05, 0.1 / 3)}
    expected |= {("rk4", h * PERIOD) for h in (0.02, 0.01)}
    fixed = inside.query(run="not adaptive")
    assert pairs(fixed, "integrator", "step_size") == expected
    coarse = fixed.query(run="integrator == 'rk4' and step_size > 0.1")
    assert coarse["steps"].values.tolist() == [150]
    assert f'"time_unit": {PERIOD}' in inside.attrs["experiment"]


def test_samples_that_thin_out(found):
    marks = np.array([0, 5, 8, 13, 20, 30])
    np.testing.assert_allclose(found["thinning"]["time"], PERIOD * marks / 10, rtol=4e-16)


def test_a_run_is_the_same_whatever_the_duration_and_the_samples(found):
    rk4 = found["periods"].query(run=f"integrator == 'rk4' and step_size == {0.02 * PERIOD!r}")
    assert found["short"]["run_id"].values.tolist() == rk4["run_id"].values.tolist()


def test_what_is_the_same_for_a_store(store):
    same = {"periods": {}, "plain": {"time_unit": "1"}}  # a unit of one is none
    text = many_experiments(same, **IN_PERIODS)
    assert runs_to_compute(text, store) == {"periods": 0, "plain": 0}


@given(st.floats(1e-3, 1e3), st.integers(1, 100), st.sampled_from([1, 2, 4, 5, 8, 10, 25, 100]))
@settings(max_examples=20)
def test_steps_end_at_the_sample_times(unit, samples, steps):
    """Three roundings: of the step size in the unit, of the product, of the duration."""
    experiment = sweep.Experiment(
        name="only",
        system="spherical_pendulum_chain",
        integrators=["rk4"],
        initial_condition="lee",
        time_unit=unit,
        duration=float(samples),
        samples=samples,
        step_size=1 / steps,
    )
    (table,) = sweep.Study("unit", [experiment]).check()
    (step_size,) = table.to_dataframe()["step_size"].tolist()
    end, duration = Fraction(step_size) * samples * steps, Fraction(samples * unit)
    assert abs(end - duration) <= Fraction(3 * 2.0**-53) * duration


def test_rules_compare_step_sizes_in_the_unit():
    rules = '[{ integrator = "variational", step_size = "< 0.05" }, { step_size = 0.02 }]'
    table = table_of(**IN_PERIODS | {"exclude": rules})
    fixed = table[table["integrator"] != "rk45"]
    wanted = {("variational", 0.1), ("variational", 0.05), ("rk4", 0.01)}
    assert pairs(fixed, "integrator", "step_size") == {(name, h * PERIOD) for name, h in wanted}
    assert len(table) == len(fixed) + 1


def test_step_sizes_advance_with_a_parameter():
    scan = {"scan": "{ gravity = [1.0, 2.0] }", "zip": '[["gravity", "step_size"]]'}
    found = table_of(time_unit="2.5", **scan)
    assert pairs(found, "gravity", "step_size") == {(1.0, 0.25), (2.0, 0.125)}


def test_the_defaults_may_have_it(here):
    text = one_experiment(step_size="0.1").replace("[[exp", "[defaults]\ntime_unit = 2.0\n[[exp")
    own = text.replace("duration = ", "time_unit = 1\nduration = ")
    for written, step_size in ((text, 0.2), (own, 0.1)):
        (here / "s.toml").write_text(written)
        (table,) = sweep.check("s.toml")[1]
        assert set(table.to_dataframe()["step_size"]) == {step_size}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"time_unit": "0"}, "11: experiment[0].time_unit: …positive…0"),
        ({"time_unit": "-1.5"}, "11: experiment[0].time_unit: …positive…-1.5"),
        ({"time_unit": "nan"}, "11: experiment[0].time_unit: …finite"),
        ({"time_unit": '"2 pi"'}, "11: experiment[0].time_unit: …number…'2 pi'"),
        (
            {"time_unit": "1e308", "duration": "10.0", "step_size": "1.0"},
            "9: experiment[0].duration: …10.0…time_unit 1e+308",
        ),
        (
            {"time_unit": f"{PERIOD}", "step_size": "[0.1, 0.03]"},
            "7: experiment[0].step_size[1]: …0.03 does not divide the sample interval "
            "0.1…(duration 1.0 / samples 10)…0.03333333333 (3 steps)",
        ),
        (
            {"time_unit": f"{PERIOD}", "reference": '{ integrator = "dop853", until = 1.5 }'},
            "12: experiment[0].reference: …1.5…the duration 1.0",
        ),
        (
            {
                "time_unit": f"{PERIOD}",
                "integrators": '["rk4", { name = "rk4", label = "b", step_size = 0.05 }]',
            },
            "6: experiment[0].integrators[1] ('b')…step size 0.05…",
        ),
    ],
)
def test_mistakes_are_told_in_the_unit(changes, message):
    start, *words = message.split("…")
    found = problems(one_experiment(**changes))[0]
    assert found.startswith(f"s.toml:{start}") and all(word in found for word in words), found
