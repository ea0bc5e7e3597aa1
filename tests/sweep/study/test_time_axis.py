"""The times of samples, evenly spaced or thinning out, as a store has them."""

import numpy as np
import pytest
from study_runs import many_experiments, pairs, stored, table_of
from study_text import one_experiment, problems

import sweep

# Samples that thin out: the largest step, steps in the duration, samples a decade, first sample.
THINNING = {
    "sparse": (0.5, 200, 2, 0.5),
    "dense": (0.125, 4096, 50, 0.125),
    "late": (0.25, 400, 7, 5),
    "short": (0.25, 3, 10, 0.25),
}
SETTINGS = {
    "even": {"duration": "0.3", "samples": "3", "step_size": "0.1"},
    "snapped": {
        "duration": "1.0",
        "samples": "{ per_decade = 10, first = 0.5 }",
        "step_size": '{ start = 0.3, stop = 0.01, count = 4, spacing = "log" }',
    },
}
OWN = {  # the largest step of all integrators counts, and is the first sample unless one is given
    "sparse": {
        "integrators": '[{ name = "rk4", step_size = [0.5, 0.125] }, '
        '{ name = "rk4", label = "other" }]',
        "step_size": "0.05",
        "samples": "{ per_decade = 2 }",
    }
}


@pytest.fixture(scope="module")
def found(cluster, tmp_path_factory):
    """Datasets by name."""
    thinning = {
        name: {
            "duration": repr(grid * steps),
            "samples": f"{{ per_decade = {density}, first = {first} }}",
            "step_size": repr(grid),
        }
        | OWN.get(name, {})
        for name, (grid, steps, density, first) in THINNING.items()
    }
    shared = {"initial_condition": '"lee"', "integrators": '"rk4"'}
    text = many_experiments(SETTINGS | thinning, **shared)
    return stored(text, cluster, tmp_path_factory.mktemp("times"))


def test_times(found):
    assert found["even"]["time"].values.tolist() == [0.0, 0.1, 0.2, 0.3]
    sparse = found["sparse"]
    assert sparse["time"].values.tolist() == [0.0, 0.5, 1.5, 5.0, 16.0, 50.0, 100.0]
    assert pairs(sparse, "step_size", "steps") == {(0.5, 200), (0.125, 800), (0.05, 2000)}


@pytest.mark.parametrize("name", THINNING)
def test_samples_that_thin_out_are_distinct_multiples_with_even_ratios(found, name):
    grid, steps, density, first = THINNING[name]
    marks = np.rint(found[name]["time"].values / grid).astype(int)
    np.testing.assert_allclose(marks * grid, found[name]["time"], rtol=1e-15)
    assert marks[0] == 0 and marks[-1] == steps and np.all(np.diff(marks) > 0)
    assert abs(marks[1] - first / grid) <= 0.5
    ratio = 10 ** (1 / density)
    large = marks[marks > 50 / (ratio - 1)]
    np.testing.assert_allclose(large[1:-1] / large[:-2], ratio, rtol=0.02 * (ratio - 1) + 2e-5)
    if len(large) > 1:
        assert ratio**0.45 < large[-1] / large[-2] < ratio**1.55


def test_a_generated_largest_step_is_snapped_to_divide_the_duration(found):
    steps = found["snapped"]["step_size"].values
    assert steps[0] == 1 / 3
    np.testing.assert_allclose(steps[0] / steps, np.rint(steps[0] / steps), rtol=1e-12)
    exact = table_of(samples=LOG, step_size=SETTINGS["snapped"]["step_size"].replace("0.3", "0.2"))
    assert exact["step_size"][0] == 0.2


LOG = "{ per_decade = 10 }"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": "{ per_decade = 0 }"}, "10: experiment[0].samples.per_decade: …at least 1…0"),
        ({"samples": "{ per_decade = 1.5 }"}, "10: experiment[0].samples.per_decade: …integer"),
        ({"samples": "{ first = 1.0 }"}, "10: experiment[0].samples: …'per_decade'"),
        ({"samples": "{ per_decad = 1 }"}, "10: experiment[0].samples.per_decad: …'per_decade'?"),
        (
            {"samples": "{ per_decade = 9, first = 0.01 }"},
            "10: experiment[0].samples.first: …the largest step size 0.1 to the duration 1.0…0.01",
        ),
        (
            {"samples": "{ per_decade = 9, first = 1.01 }"},
            "10: experiment[0].samples.first: …the duration 1.0…1.01",
        ),
        (
            {"samples": LOG, "step_size": "[0.05, 0.4]"},
            "7: experiment[0].step_size[1]: …the largest step size 0.4…does not divide the "
            "duration 1.0…0.5 (2 steps) and 0.3333333333 (3 steps)",
        ),
        (
            {"samples": LOG, "step_size": "[1.5]"},
            "7: experiment[0].step_size[0]: …nearest that do are 1 (1 step)",
        ),
        (
            {"samples": LOG, "step_size": "[0.1, 0.03]"},
            "7: experiment[0].step_size[1]: …0.03 does not divide 0.1, the largest…"
            "0.03333333333 (3 ",
        ),
        ({"samples": LOG, "step_size": None}, "9: experiment[0].samples: …the largest step size"),
        ({"samples": LOG, "duration": "-1.0"}, "9: experiment[0].duration: …positive…-1"),
        ({"samples": LOG, "step_size": "-0.1"}, "7: experiment[0].step_size: …positive…-0.1"),
        ({"samples": LOG, "step_size": "1e-300"}, "7: experiment[0].step_size: …2**53 steps"),
    ],
)
def test_samples_that_thin_out_and_are_refused(changes, message):
    start, *words = message.split("…")
    found = problems(one_experiment(**changes))[0]
    assert found.startswith(f"s.toml:{start}") and all(word in found for word in words), found


def test_a_time_axis_that_is_no_number_of_samples_long():
    for changes in ({"duration": float("inf")}, {"samples": 0}, {"duration": 0.0}):
        settings = {
            "name": "only",
            "system": "spherical_pendulum_chain",
            "integrators": ["rk4"],
            "initial_condition": "lee",
            "step_size": 0.1,
            "duration": 1.0,
            "samples": 1,
        }
        (key,) = changes
        with pytest.raises(sweep.errors.StudyError, match=rf"[.: ]{key}: "):
            sweep.Study("times", [sweep.Experiment(**settings | changes)])
