"""What of a study is likely not to be answered, said before any work."""

import re

import pytest
from study_runs import write

from sweep.analysis.convergence import slopes
from sweep.analysis.drift import estimators
from sweep.study import warnings as warnings_module

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
LONG = {"duration": "60.0", "samples": "1"}
FEW = {"steps": "0.02", "samples": "5"}


def text_of(more="", **given):
    text = TEXT
    for key, value in (GIVEN | given).items():
        text = text.replace(key.upper(), value)
    return text + more


@pytest.fixture
def warnings(command, tmp_path):
    """What `sweep check` warns of, of the text of a study: a list of lines."""

    def of(text):
        checked = command(tmp_path, "check", write(text, tmp_path))
        assert "doubtful: valid" in checked.stdout
        return [line.removeprefix("Warning: ") for line in checked.stderr.splitlines()]

    return of


@pytest.mark.parametrize(
    ("more", "given"),
    [
        (REFERENCE, {}),
        ("", {"steps": "0.02", "samples": "10"}),
        ("", {"steps": "0.02", "samples": "1"}),  # what is asked for is at the end
        ("", {"steps": "0.02", "samples": "10", "starts": '"lee"'}),  # one may show no drift
        # with other parameters the system declares nothing
        (REFERENCE + "parameters = { gravity = 9.81 }", {"steps": "[0.5, 0.25, 0.1]"}),
        # declared ones are not too long where they are snapped
        (REFERENCE, {"steps": '"declared"', "duration": '"declared"', "samples": "7"}),
        (REFERENCE, LONG | {"samples": "20"}),
        (REFERENCE + 'statistics = "every 50"\n', {}),
    ],
)
def test_nothing_is_said_of_what_suits(warnings, more, given):
    assert warnings(text_of(more, **given)) == []


@pytest.mark.parametrize(
    "name",
    [
        "quickstart",
        "orders",
        "lee-systems",
        "round-off",
        pytest.param("all-orders", marks=pytest.mark.slow),
    ],
)
def test_nothing_is_said_of_packaged_studies_that_decide(name, command, tmp_path):
    assert command(tmp_path, "check", name).stderr == ""


@pytest.mark.parametrize(
    ("more", "given", "said"),
    [
        (
            REFERENCE,
            {"steps": "[0.25, 0.02, 0.01, 0.005]"},
            "step sizes up to 0.25 of 'rk4', 'variational' exceed 0.15, the longest at which "
            "errors are known to follow the order of a method",
        ),
        (
            REFERENCE,
            {"integrators": '["rk4", "variational+kahan_li8"]'},
            "only 0 of the 3 step sizes of 'variational+kahan_li8' lie within 0.036 – 0.15, where "
            "order 8 is known to show, and 3 are needed there",
        ),
        (
            REFERENCE,
            LONG,
            "the first sample is at t = 60, and orders are known to show until "
            "t = 3: give samples = 20",
        ),
        (
            REFERENCE,
            {"steps": "[0.02, 0.01]"},
            "the order of 'rk4', 'variational' cannot be decided from 2 step sizes: 3 are needed",
        ),
        (
            'tolerance = [1e-6, 1e-12]\nreference = { integrator = "dop853", tolerance = 1e-11 }\n',
            {"integrators": '["rk4", "rk45"]'},
            "tolerances down to 1e-12 are below the reference's 1e-11, whose own error "
            "hides theirs",
        ),
        (
            "",
            {"samples": "10"},
            "no order of 'rk4', 'variational' can be measured without a reference = "
            '{ integrator = "dop853" } or record = ["state"]',
        ),
        (
            "",
            FEW,
            "no drift of energy, unit_length, tangency, momentum can be measured from 5 sample "
            "intervals: give samples = 10",
        ),
        (
            REFERENCE + 'statistics = "every 51"\n',
            {},
            'statistics = "every 51" counts only the last step of sample intervals of 50 steps, '
            "of 'rk4', 'variational': give a smaller number, \"every_step\", or fewer samples",
        ),
    ],
)
def test_a_doubt_is_said_in_a_line(warnings, more, given, said):
    """What it tells to give is valid, and ends the doubt."""
    text = text_of(more, **given)
    assert warnings(text) == [f"experiment pendulum: {said}"]
    for line in re.findall(r"samples = \d+|reference = {.*?}|record = \[.*?\]", said):
        key = line.partition(" = ")[0]
        more = "".join(kept for kept in text.splitlines(True) if not kept.startswith(key))
        assert f"experiment pendulum: {said}" not in warnings(f"{more}{line}\n")


def test_where_step_sizes_allow_no_more_samples_others_are_asked_for(warnings):
    given = {"steps": "0.1", "duration": "0.5", "samples": "5"}
    (line,) = warnings(text_of(**given))
    assert line.endswith("give samples = 8 or more, and step sizes that divide their interval")
    assert warnings(text_of(**given | {"samples": "8", "steps": "0.0625"})) == []


def test_experiments_with_the_same_doubt_share_a_line(warnings):
    text = text_of(**FEW)
    again = text.partition("[[experiment]]")[2].replace('"pendulum"', '"again"')
    (line,) = warnings(text + "[[experiment]]" + again)
    assert line.startswith("experiments pendulum, again: no drift of ")


def test_a_label_that_another_table_has_the_runs_of(warnings):
    given = {"integrators": '{ name = "rk4", label = "LABEL" }', "samples": "10"}
    text = text_of(REFERENCE, **given)
    again = text.replace("LABEL", "second").partition("[[experiment]]")[2]
    said = "'second' has no runs: 'LABEL' is the same integrator, and what both ask for is computed"
    assert warnings(f"{text}[[experiment]]{again}") == [f"experiment pendulum: {said} once"]


def test_what_is_too_few_is_too_few_for_the_answers():
    assert warnings_module.FEWEST_STEP_SIZES == slopes.FEWEST
    assert warnings_module.FEWEST_SAMPLES == estimators.FEWEST
