"""Times and step sizes in multiples of a study's own unit, such as the period of a forcing."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_text import one_experiment, problems

import sweep
from sweep.store import studies
from sweep.store.diff import diff_store_against_study
from sweep.store.store import Store
from sweep.study.run_id import run_id
from sweep.study.run_table import expand_experiment

PERIOD = 6.283185307179586
IN_PERIODS = {
    "time_unit": str(PERIOD),
    "integrators": '["variational", { name = "rk4", step_size = [0.02, 0.01] }, "rk45"]',
    "step_size": "{ start = 0.1, stop = 0.03, count = 3 }",
    "tolerance": "1e-3",
    "duration": "3.0",
    "samples": "30",
    "reference": '{ integrator = "dop853", tolerance = 1e-9, until = 2.0 }',
}


def read(**changes):
    (experiment,) = studies.parse_study(one_experiment(**changes)).experiments
    return experiment


def test_what_is_run_is_in_the_unit_of_the_system():
    experiment = read(**IN_PERIODS)
    plain = read(**IN_PERIODS | {"time_unit": None})
    assert plain.step_sizes == (0.1, 0.05, 0.1 / 3)
    assert experiment.step_sizes == tuple(h * PERIOD for h in plain.step_sizes)
    assert experiment.integrators[1].step_sizes == (0.02 * PERIOD, 0.01 * PERIOD)
    assert experiment.duration == 3 * PERIOD and experiment.reference.until == 2 * PERIOD
    np.testing.assert_allclose(experiment.times, PERIOD * plain.times, rtol=4e-16)
    assert experiment.times[-1] == experiment.duration
    table = expand_experiment(experiment)
    assert table.steps_per_sample.tolist() == expand_experiment(plain).steps_per_sample.tolist()
    run = np.flatnonzero(table.integrator == "rk4")[0]
    assert table.run_id[run] == run_id(
        table.systems[0], "rk4", experiment.integrators[1].options, 0.02 * PERIOD,
        table.initial_state(run),
    )  # fmt: skip


def test_the_expanded_study_names_the_unit():
    expanded = read(**IN_PERIODS).expanded()
    assert expanded["time_unit"] == PERIOD and expanded["duration"] == 3 * PERIOD
    assert expanded["step_sizes"][0] == 0.1 * PERIOD
    assert read().expanded()["time_unit"] == 1.0


@pytest.mark.parametrize("samples", ["30", "{ per_decade = 5 }", "{ per_decade = 5, first = 0.3 }"])
@pytest.mark.parametrize("unit", ["1", "1.0"])
def test_a_unit_of_one_is_none(unit, samples):
    same, plain = (
        read(**IN_PERIODS | {"time_unit": given, "samples": samples}) for given in (unit, None)
    )
    assert same == plain
    assert expand_experiment(same).run_id.tolist() == expand_experiment(plain).run_id.tolist()


def test_a_run_is_the_same_whatever_the_duration_and_the_samples():
    shorter = read(**IN_PERIODS | {"duration": "2.0", "samples": "2"})
    assert set(expand_experiment(shorter).run_id) & set(
        expand_experiment(read(**IN_PERIODS)).run_id
    )
    of_rk4 = [
        expand_experiment(experiment)
        .run_id[expand_experiment(experiment).integrator == "rk4"]
        .tolist()
        for experiment in (shorter, read(**IN_PERIODS))
    ]
    assert of_rk4[0] == of_rk4[1]


@given(st.floats(1e-3, 1e3), st.integers(1, 100), st.sampled_from([1, 2, 4, 5, 8, 10, 25, 100]))
def test_steps_end_at_the_sample_times(unit, samples, steps):
    """Three roundings: of the step size in the unit, of the product, of the duration."""
    experiment = read(
        time_unit=repr(unit), duration=f"{samples}", samples=f"{samples}", step_size=f"{1 / steps}"
    )
    (step_size,) = experiment.step_sizes
    total = samples * steps
    end, duration = Fraction(step_size) * total, Fraction(experiment.duration)
    assert abs(end - duration) <= Fraction(3 * 2.0**-53) * duration


def test_samples_that_thin_out():
    thinning = IN_PERIODS | {"samples": "{ per_decade = 5, first = 0.5 }", "step_size": "0.1"}
    experiment, plain = read(**thinning), read(**thinning | {"time_unit": None})
    assert experiment.time_axis.first == 0.5 * PERIOD
    assert experiment.time_axis.grid == 0.1 * PERIOD
    assert experiment.time_axis.marks.tolist() == plain.time_axis.marks.tolist()


def test_rules_compare_step_sizes_in_the_unit():
    rules = {
        "exclude": '[{ integrator = "variational", step_size = "< 0.05" }, { step_size = 0.02 }]'
    }
    table = expand_experiment(read(**IN_PERIODS | rules))
    fixed = ~table.adaptive
    left = set(zip(table.integrator[fixed].tolist(), table.step_size[fixed].tolist(), strict=True))
    wanted = {("variational", 0.1), ("variational", 0.05), ("rk4", 0.01)}
    assert left == {(name, h * PERIOD) for name, h in wanted}
    assert table.adaptive.sum() == 3


def test_step_sizes_advance_with_a_parameter():
    changes = {"scan": "{ gravity = [1.0, 2.0] }", "zip": '[["gravity", "step_size"]]'}
    table = expand_experiment(read(time_unit="2.5", **changes))
    assert set(zip(table.scan["gravity"], table.step_size, strict=True)) == {
        (1.0, 0.25), (2.0, 0.125),
    }  # fmt: skip


def test_the_defaults_may_have_it():
    text = one_experiment().replace("[[exp", "[defaults]\ntime_unit = 2.0\n[[exp")
    assert studies.parse_study(text).experiments[0].duration == 2.0
    own = text.replace("duration = ", "time_unit = 1\nduration = ")
    assert studies.parse_study(own).experiments[0].duration == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"time_unit": "0"}, "11: experiment[0].time_unit: expected a positive number, got 0"),
        ({"time_unit": "-1.5"}, "11: experiment[0].time_unit: expected a positive number, got -1"),
        ({"time_unit": "nan"}, "11: experiment[0].time_unit: expected a finite number"),
        ({"time_unit": '"2 pi"'}, "11: experiment[0].time_unit: expected a number, got a string"),
        (
            {"time_unit": "1e308", "duration": "10.0", "step_size": "1.0"},
            "9: experiment[0].duration: 10.0 times the time_unit 1e+308 is out of bounds",
        ),
        (
            {"time_unit": f"{PERIOD}", "step_size": "[0.1, 0.03]"},
            "7: experiment[0].step_size[1]: the step size 0.03 does not divide the sample interval "
            "0.1 (duration 1.0 / samples 10); the nearest that do are 0.03333333333 (3 steps)",
        ),
        (
            {"time_unit": f"{PERIOD}", "reference": '{ integrator = "dop853", until = 1.5 }'},
            "12: experiment[0].reference: the reference goes until 1.5, beyond the duration 1.0",
        ),
        (
            {
                "time_unit": f"{PERIOD}",
                "integrators": '["rk4", { name = "rk4", label = "b", step_size = 0.05 }]',
            },
            "6: experiment[0].integrators[1] ('b'): gives a run of step size 0.05 that",
        ),
    ],
)
def test_mistakes_are_told_in_the_unit(changes, message):
    assert problems(one_experiment(**changes))[0].startswith(f"s.toml:{message}")


def test_the_store_is_in_the_unit_of_the_system(cluster, tmp_path):
    text = one_experiment(**IN_PERIODS | {"initial_condition": '"lee"'})
    path = tmp_path / "periods.zarr"
    assert sweep.run(studies.parse_study(text), path, cluster).complete
    found = sweep.open_study(path)["only"].to_dataset()
    assert found.attrs["duration"] == 3 * PERIOD
    assert found["time"].values[-1] == 3 * PERIOD
    assert f'"time_unit": {PERIOD}' in found.attrs["experiment"]
    assert found["time"].attrs["units"] == found["step_size"].attrs["units"] == "s"
    coarse = found.query(run="integrator == 'rk4' and step_size > 0.1")
    assert coarse["steps"].values.tolist() == [150]
    assert coarse["step_size"].values.tolist() == [0.02 * PERIOD]
    (entry,) = diff_store_against_study(Store.at(path), studies.parse_study(text))
    assert entry.new == entry.gone == 0 and not entry.pending.any()
