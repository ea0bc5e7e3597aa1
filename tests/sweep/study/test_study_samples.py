"""Samples that thin out with time, as a study asks for them."""

import numpy as np
import pytest
from study_text import one_experiment, problems

from sweep.store import studies

THINNING = "{ per_decade = 10 }"


def test_samples_that_thin_out_lie_on_the_grid_of_the_largest_step():
    own = '[{ name = "rk4", step_size = [0.25, 0.125] }, "variational"]'
    text = one_experiment(samples=THINNING, integrators=own, duration="100.0", step_size="0.05")
    (experiment,) = studies.parse_study(text).experiments
    axis = experiment.time_axis
    assert (axis.grid, axis.first, axis.per_decade) == (0.25, 0.25, 10)
    assert experiment.times[:3].tolist() == [0.0, 0.25, 0.5] and experiment.times[-1] == 100.0
    assert experiment.expanded()["samples"] == {"per_decade": 10, "first": 0.25, "grid": 0.25}
    assert experiment.samples == len(experiment.times) - 1


def test_a_generated_largest_step_is_snapped_to_divide_the_duration():
    steps = '{ start = 0.3, stop = 0.01, count = 4, spacing = "log" }'
    text = one_experiment(samples="{ per_decade = 10, first = 0.5 }", step_size=steps)
    (experiment,) = studies.parse_study(text).experiments
    assert experiment.step_sizes[0] == experiment.time_axis.grid == 1 / 3
    ratios = experiment.step_sizes[0] / np.array(experiment.step_sizes)
    np.testing.assert_allclose(ratios, np.rint(ratios), rtol=1e-12)
    exact = studies.parse_study(
        one_experiment(samples=THINNING, step_size=steps.replace("0.3", "0.2"))
    )
    assert exact.experiments[0].step_sizes[0] == 0.2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": "{ per_decade = 0 }"}, "10: experiment[0].samples.per_decade: expected 1 to"),
        (
            {"samples": "{ per_decade = 1.5 }"},
            "10: experiment[0].samples.per_decade: expected an i",
        ),
        ({"samples": "{ first = 1.0 }"}, "10: experiment[0].samples: the key 'per_decade' is"),
        ({"samples": "{ per_decad = 1 }"}, "10: experiment[0].samples.per_decad: unknown key"),
        (
            {"samples": "{ per_decade = 9, first = 0.01 }"},
            "10: experiment[0].samples.first: expected a time from the largest step size 0.1",
        ),
        (
            {"samples": THINNING, "step_size": "[0.05, 0.3]"},
            "7: experiment[0].step_size[1]: the largest step size 0.3, of which all sample times "
            "are multiples, does not divide the duration 1.0; the nearest",
        ),
        (
            {"samples": THINNING, "step_size": "[0.1, 0.03]"},
            "7: experiment[0].step_size[1]: the step size 0.03 does not divide 0.1, the largest",
        ),
        (
            {"samples": THINNING, "step_size": None},
            "9: experiment[0].samples: the samples are multiples of the largest step size, and",
        ),
        ({"samples": THINNING, "duration": "-1.0"}, "9: experiment[0].duration: expected a pos"),
        ({"samples": THINNING, "step_size": "-0.1"}, "7: experiment[0].step_size: expected a pos"),
    ],
)
def test_samples_that_thin_out_and_are_refused(changes, message):
    assert problems(one_experiment(**changes))[0].startswith(f"s.toml:{message}")
