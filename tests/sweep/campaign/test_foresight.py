"""What of a study is likely not to be answered, said before any work."""

import pytest

from sweep.campaign.foresight import warnings_before_runs
from sweep.store import studies

TEXT = """\
format = 1
name = "doubtful"
[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
integrators = INTEGRATORS
step_size = STEPS
initial_condition = STARTS
duration = DURATION
samples = SAMPLES
"""
GIVEN = {
    "integrators": '["rk4", "variational"]',
    "steps": "[0.02, 0.01, 0.005]",
    "starts": '{ around = "lee", random = 8, spread = 0.1, seed = 7 }',
    "duration": "3.0",
    "samples": "3",
}
REFERENCE = 'reference = { integrator = "dop853" }\n'


def warnings(more="", **given):
    text = TEXT
    for key, value in (GIVEN | given).items():
        text = text.replace(key.upper(), value)
    return warnings_before_runs(studies.check_study(studies.parse_study(text + more))[1])


def test_nothing_is_said_of_what_suits():
    assert warnings(REFERENCE) == []
    assert warnings(steps="0.02", samples="10") == []
    assert warnings(steps="0.02", samples="1") == []  # what is asked for is at the end


@pytest.mark.parametrize("name", ["quickstart", "orders", "all-orders", "lee-systems", "round-off"])
def test_nothing_is_said_of_packaged_studies_that_decide(name):
    assert warnings_before_runs(studies.check_study(name)[1]) == []


def test_steps_longer_than_any_that_the_system_declares():
    (line,) = warnings(REFERENCE, steps="[0.25, 0.02, 0.01, 0.005]")
    assert line == (
        "pendulum: step sizes up to 0.25 of 'rk4', 'variational' are longer than 0.15, from which "
        "on down the system declares errors to fall as a power of it"
    )


def test_a_system_with_other_parameters_declares_nothing():
    assert warnings(REFERENCE + "parameters = { gravity = 9.81 }", steps="[0.5, 0.25, 0.1]") == []


def test_step_sizes_outside_the_window_of_an_order():
    order8 = '["rk4", "variational+kahan_li8"]'
    (line,) = warnings(REFERENCE, integrators=order8)
    assert line == (
        "pendulum: 0 of the 3 step sizes of 'variational+kahan_li8' lie within 0.036 – 0.15, where "
        "the system declares order 8 to show: 3 there can measure it"
    )


def test_declared_step_sizes_are_not_too_long_where_they_are_snapped():
    assert warnings(REFERENCE, steps='"declared"', duration='"declared"', samples="7") == []


def test_a_first_sample_beyond_the_horizon():
    (line,) = warnings(REFERENCE, duration="60.0", samples="1")
    assert line == (
        "pendulum: the first sample is at t = 60, and the system declares orders to show until "
        "t = 3: of samples = 20 or more one is earlier"
    )
    assert warnings(REFERENCE, duration="60.0", samples="20") == []


def test_too_few_step_sizes():
    (line,) = warnings(REFERENCE, steps="[0.02, 0.01]")
    assert line == (
        "pendulum: the order of 'rk4', 'variational' can only stay undecided: 2 step sizes, 3 are "
        "needed"
    )


def test_a_tolerance_below_the_reference():
    own = 'tolerance = [1e-6, 1e-12]\nreference = { integrator = "dop853", tolerance = 1e-11 }\n'
    (line,) = warnings(own, integrators='["rk4", "rk45"]')
    assert line == (
        "pendulum: tolerances down to 1e-12 are below the reference's 1e-11, whose own error "
        "hides theirs"
    )


def test_drifts_of_few_samples():
    (line,) = warnings(steps="0.02", samples="5")
    assert line == (
        "pendulum: no drift of energy, unit_length, tangency, momentum can be measured of 5 sample "
        "intervals: samples = 8 or more"
    )
    assert warnings(steps="0.02", samples="10", starts='"lee"') == []  # one may show no drift


def test_experiments_with_the_same_doubt_share_a_line():
    text = TEXT
    for key, value in (GIVEN | {"steps": "0.02", "samples": "5"}).items():
        text = text.replace(key.upper(), value)
    _, second = text.split("[[experiment]]")
    text += "[[experiment]]" + second.replace('"pendulum"', '"again"')
    (line,) = warnings_before_runs(studies.check_study(studies.parse_study(text))[1])
    assert line.startswith("pendulum, again: no drift of ")
