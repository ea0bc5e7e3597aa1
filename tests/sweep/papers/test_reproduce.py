"""The figures of the papers: how they are measured, and the command that prints them."""

import dataclasses
import functools
import json

import numpy as np
import pytest
import xarray as xr
from picture_text import assert_plain

import sweep
import systems
from integrators.errors import InputError
from sweep.analysis import drift_table
from sweep.papers import (
    FIGURES,
    PAPERS,
    Agreement,
    Row,
    claims_as_table,
    diagnostics,
    draw_figure,
    reproduce,
)

CLAIM = PAPERS["lee"].only(["Example 2"]).claims[0]


@pytest.fixture(scope="module")
def example_2():
    """A paper of a single example."""
    return PAPERS["lee"].only(["Example 2"])


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="module")
def computed(example_2, stores, lent):
    with lent():
        return reproduce(example_2, stores)


def test_each_claim_has_a_row_with_its_setting(example_2, computed):
    rows, datasets = computed
    assert [row.claim for row in rows] == [claim.text for claim in example_2.claims]
    assert all(row.holds for row in rows)
    assert rows[0].setting == "variational, h = 0.005, T = 10 (the paper prints h = 1e-3)"
    assert set(datasets) == {"lee-example-2"}
    text = str(claims_as_table(rows))
    printed = ["digits"] * 2 + ["not reproduced"] * 2 + ["digits"]
    assert [row.agreement for row in rows] == [*printed, None, None, None]
    assert "1.1717e-04" in text and "1.17166e-04" in text and text.count("holds") == len(rows)


def test_the_command_prints_the_same_and_draws_the_figures(computed, stores, tmp_path, command):
    """Of stores that are kept: nothing is computed again."""
    part = ("--only", "example-2", "--only", "figure-3.2")
    arguments = ("reproduce", "lee", *part, "--json", "--plots", "-o", "figures", "--keep", stores)
    rows = json.loads(command(tmp_path, *arguments).stdout)
    assert [row["here"] for row in rows] == [row.here for row in computed[0]]
    assert all({"claim", "paper", "setting", "holds", "agreement"} <= row.keys() for row in rows)
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["lee-figure-3.2.png"]


def test_another_step_size_gives_another_figure(computed, tmp_path, command):
    """Outside of its bounds, which ends in 3."""
    arguments = ("reproduce", "lee", "--only", "Example 2", "--step-factor", "0.5", "--json")
    done = command(tmp_path, *arguments, code=3)
    rows = json.loads(done.stdout)
    for half, whole in zip(rows[:4], computed[0], strict=False):
        assert half["here"] / whole.here == pytest.approx(0.25, rel=0.05)
        assert not half["holds"]
    assert "h = 0.0025" in rows[0]["setting"]
    assert "OUTSIDE" in str(claims_as_table([dataclasses.replace(computed[0][0], holds=False)]))


def test_a_step_that_does_not_divide_is_refused(example_2, tmp_path):
    with pytest.raises(InputError, match="step_factor = 3: lee-example-2: .*larger than"):
        reproduce(example_2, tmp_path, step_factor=3.0)
    with pytest.raises(InputError, match="step_factor"):
        reproduce(example_2, tmp_path, step_factor=-1.0)
    assert not list(tmp_path.iterdir())


def claim(**changed):
    """A claim on the runs of the first one of Example 2."""
    cleared = {"paper": None, "expected": None, "note": "", "of": {}}
    return CLAIM.model_copy(update=cleared | changed)


def test_bounds():
    exact, negative = (claim(expected=value) for value in (2.0, -2.0))
    assert exact.bounds_that_hold == (2.0 * 0.999, 2.0 * 1.001)
    assert negative.bounds_that_hold == (-2.002, -1.998)
    assert claim(expected=4.0, margin=0.5).bounds_that_hold == (3.5, 4.5)
    assert claim(low=1.0, high=3.0).bounds_that_hold == (1.0, 3.0)


def test_the_unit_length_error_of_states_is_a_mean_over_samples_and_bodies():
    state = np.zeros((1, 5, 6, 3))
    state[:, :, :, 0] = 1.0
    state[0, 0, 0, 1] = 1.0  # one body of one sample is off by 1
    runs = xr.Dataset({"state": (("run", "time", "row", "component"), state)})
    assert diagnostics.mean_unit_length_error(runs) == pytest.approx([1.0 / (5 * 3)])


@functools.cache
def experiments_of(study):
    return {one.name: one for one in sweep.load_study(study).experiments}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_has_its_runs(paper):
    """Most of which only `.ci/run` computes."""
    for claim in PAPERS[paper].claims:
        experiment = experiments_of(claim.study)[claim.experiment]
        labels = {entry.label for entry in experiment.integrators}
        assert labels >= set(claim.integrators), claim
        starts = {axis for start in experiment.initial_conditions for axis in start.coordinates}
        assert {axis.name for axis in experiment.scan} | starts >= claim.scan.keys(), claim
        assert claim.figure in ("", *PAPERS[paper].pictures)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_picture_has_its_runs(paper):
    assert list(PAPERS[paper].pictures) == list(FIGURES[paper])
    for study, names in PAPERS[paper].experiments().items():
        assert set(experiments_of(study)) >= names


@pytest.mark.parametrize(
    ("paper", "only", "parts", "pictures"),
    [
        ("lee", "figure-3.2", {"Example 2"}, ["figure-3.2"]),
        ("lee", "Example 2", {"Example 2"}, []),
        ("lee", "figure-3", {f"Example {i}" for i in range(1, 7)}, list(FIGURES["lee"])),
        ("mclachlan", "figure-3", {"3.1"}, ["figure-3"]),
        ("mclachlan", "2.4", {f"2.4 ({i})" for i in ("i", "ii", "iii", "iv", "v", "vi")}, []),
        ("celledoni", "figure-2", {"Figure 2"}, ["figure-2"]),
        ("celledoni", "3.4", {"3.4.1", "3.4.2"}, []),
    ],
)
def test_a_part_has_its_claims_and_pictures_alone(paper, only, parts, pictures):
    chosen = PAPERS[paper].only([only])
    assert {claim.part for claim in chosen.claims} == parts
    assert list(chosen.pictures) == pictures


def test_a_part_needs_its_experiments_alone():
    chosen = PAPERS["lee"].only(["Example 1", "figure-3.4"])
    assert chosen.experiments(pictures=False) == {
        "lee-example-1": {"unit-data", "printed-data", "runge-kutta"},
        "lee-example-4": {"inertia", "runge-kutta"},
    }
    manifold = PAPERS["mclachlan"].only(["figure-6"])
    assert manifold.claims == () and manifold.experiments() == {"mclachlan-vortices": {"period"}}


def test_section_3_4_has_all_six_systems():
    experiments = experiments_of("lee-properties")
    claims = [claim for claim in PAPERS["lee"].claims if claim.part == "3.4"]
    assert {claim.experiment for claim in claims} == set(experiments)
    lee = {name for name in systems.names() if systems.get(name).starts[:1] == ("lee",)}
    assert {one.system for one in experiments.values()} == lee - {"forced_pendulum_chain"}


def series(**values):
    """Runs with a variable ``x``, one for each step size, over time 0 … 10."""
    steps = [float(name.removeprefix("h")) / 100.0 for name in values]
    return xr.Dataset(
        {
            "x": (("run", "time"), [np.broadcast_to(v, 11) for v in values.values()]),
            "step_size": ("run", steps),
        },
        {"time": np.linspace(0.0, 10.0, 11)},
    )


def test_ratios_are_of_step_sizes_a_decade_apart():
    runs = series(h10=50.0, h20=400.0, h1=0.5, h2=8.0, h3=7.0)
    ratios = diagnostics.ratios_over_a_decade_of_step_sizes(runs, "x")
    assert ratios.tolist() == [100.0, 50.0]


def test_a_trend_is_a_slope_over_the_whole_run():
    time = np.linspace(0.0, 10.0, 11)
    runs = series(h10=2.0 * time, h20=-time + 5.0)
    assert diagnostics.trend_over_run(runs, "x") == pytest.approx([20.0, -10.0])


def test_the_drift_that_is_possible_is_that_of_an_interval(computed):
    """As the table of drifts has it, of an integrator that has none and one that has."""
    _, datasets = computed
    runs, rk2 = (
        claim(integrators=(name,)).selected_runs(datasets, 1.0) for name in ("variational", "rk2")
    )
    (row,) = drift_table(rk2, ("energy",))
    bound = max(abs(row.low), abs(row.high)) * 10.0 / row.max_abs
    assert diagnostics.largest_drift_possible(rk2) == pytest.approx(bound)
    assert diagnostics.largest_drift_possible(rk2) > 5 * diagnostics.largest_drift_possible(runs)


def test_a_claim_without_runs_is_refused(computed):
    with pytest.raises(InputError, match="rk9"):
        claim(integrators=("rk9",)).computed_row(computed[1], 1.0)


def test_labels_of_a_figure_are_plain_text(computed):
    assert_plain(draw_figure(PAPERS["lee"], "figure-3.2", computed[1]))


# --- how far a figure is the printed one ---------------------------------------------------------


def found(paper, value, slopes=None, **more):
    """The row of a claim that a paper prints a number, where others are found.

    Of runs whose energy has these slopes, below an oscillation.
    """
    time, values = np.linspace(0.0, 10.0, 101), np.atleast_1d(value)
    slopes = np.zeros(len(values)) if slopes is None else np.array(slopes)
    runs = xr.Dataset(
        {"energy_error": (("run", "time"), np.outer(slopes, time) + 0.1 * np.sin(7.0 * time))},
        {
            "time": time,
            "integrator": ("run", ["variational"] * len(slopes)),
            "step_size": ("run", np.full(len(slopes), 5e-3)),
        },
    )
    measured = {"paper": paper, "expected": 1.0, "measure": lambda runs: values}
    datasets = {CLAIM.study: {CLAIM.experiment: runs}}
    return claim(**measured | {"ensemble": False} | more).computed_row(datasets, 1.0)


@pytest.mark.parametrize(
    ("value", "agreement"),
    [
        (2.16406e-5, "digits"),
        (2.16414e-5, "digits"),
        (2.16404e-5, "magnitude"),
        (2.17e-6, "magnitude"),
        (2.16e-4, "magnitude"),
        (2.16e-6, "not reproduced"),
        (2.17e-4, "not reproduced"),
        (-2.16410e-5, "not reproduced"),
        (np.nan, "not reproduced"),
    ],
)
def test_a_figure_agrees_in_its_digits_or_in_its_order_of_magnitude(value, agreement):
    assert found(2.1641e-5, value).agreement is Agreement(agreement)


@pytest.mark.parametrize(
    ("value", "agreement"),
    [(446.3, "digits"), (350.1, "digits"), (349.0, "magnitude"), (10.9, "not reproduced")],
)
def test_a_figure_with_one_digit_is_compared_to_one_digit(value, agreement):
    assert found(400.0, value, digits=1).agreement == agreement


def test_a_range_is_that_of_an_ensemble():
    chaotic = (1.12e-6, 1.477e-6, 1.98e-6)
    assert found(1.4310e-6, chaotic, ensemble=True).agreement is Agreement.RANGE
    assert found(1.4310e-6, chaotic).agreement is Agreement.MAGNITUDE
    beside = (1.44e-6, 1.477e-6, 1.98e-6)
    assert found(1.4310e-6, beside, ensemble=True).agreement is Agreement.MAGNITUDE


def test_an_exact_figure_agrees_in_its_digits_or_not_at_all():
    assert found(2.5065, 1.5213, exact=True).agreement is Agreement.NONE
    assert found(4.0, 3.98, digits=1, exact=True).agreement is Agreement.DIGITS


GAINED, LOST, KEPT = "energy gained", "energy lost", "round-off"


@pytest.mark.parametrize(
    ("shown", "slopes", "far", "words"),
    [
        (GAINED, (1.0, 2.0), "behaviour", "2 of 2 gain energy, as in the paper"),
        (LOST, (-1.0,), "behaviour", "loses energy, as in the paper"),
        (LOST, (1.0, 2.0, 3.0), None, "3 of 3 gain energy, where the paper shows it lost"),
        (LOST, (1.0, -2.0, -3.0), None, "1 of 3 gain energy, where the paper shows it lost"),
        (GAINED, (-1.0,), None, "loses energy, where the paper shows it gained"),
    ],
)
def test_behaviour_decides_where_sizes_differ_and_can_refuse_any(shown, slopes, far, words):
    for value, agreement in ((1e-17, far), (1e-14, far and "digits")):
        row = found(1e-14, value, slopes, behaviour=shown)
        assert row.agreement is Agreement(agreement or "not reproduced")
        assert row.setting == f"variational, h = 0.005, T = 10 ({words})"


def test_round_off_is_small_in_every_run():
    row = found(8e-12, (1e-15, 1e-14, 3e-14), behaviour=KEPT)
    assert row.agreement is Agreement.BEHAVIOUR
    assert row.setting.endswith(" (round-off, as in the paper: ≤ 1e-13)")
    row = found(8e-12, (1e-15, 1e-14, 2e-13), behaviour=KEPT)
    assert row.agreement is Agreement.NONE
    assert row.setting.endswith(" (not round-off: up to 2.0e-13)")
    assert found(1e-14, np.nan, behaviour=KEPT).agreement is Agreement.NONE


def test_the_closing_lines_count_each_agreement():
    row = Row("", "", 1.0, 5, 1.0, None, 1.0, 1.0, 0.0, 2.0, "", True)
    counted = {"digits": 3, "range": 0, "magnitude": 1, "behaviour": 2, "not reproduced": 4}
    rows = [
        dataclasses.replace(row, agreement=Agreement(name))
        for name, count in counted.items()
        for _ in range(count)
    ]
    rows += [dataclasses.replace(row, paper=None, digits=None, holds=False)]
    bounds = (-2.002, -1.998), (0.1, np.inf), (0.0, 1e-15)
    rows[:3] = [dataclasses.replace(rows[0], low=low, high=high) for low, high in bounds]
    text = str(claims_as_table(rows))
    assert "-2.0020e+00 – -1.9980e+00" in text and "inf" not in text
    assert "≥ 1.00e-01" in text and "≤ 1.00e-15" in text
    missed, first, *lines, last = text[text.index("4 of 10") :].splitlines()
    assert missed.startswith("4 of 10 printed numbers are not reproduced: further off")
    assert "OUTSIDE" not in missed
    assert first.startswith("6 of 10 printed numbers are reproduced")
    assert last.startswith("0 of 1 values without a printed number are within their bounds")
    shown = {line[8:17].strip(): int(line[:6]) for line in lines}
    assert shown | {"not reproduced": 4} == counted
    assert {agreement.value for agreement in Agreement} == set(counted)
    rows[9] = dataclasses.replace(rows[9], holds=False)  # not reproduced
    assert "; 1 OUTSIDE the bounds" in str(claims_as_table(rows))
    rows[0] = dataclasses.replace(rows[0], holds=False)
    assert str(claims_as_table(rows)).endswith(
        "\n1 reproduced OUTSIDE the bounds of the computed value"
    )
    assert "reproduced" not in str(claims_as_table(rows[-1:]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["leee"], "unknown paper 'leee'. Did you mean 'lee'?"),
        (["lee", "--step-factor", "0", "--plots"], "step-factor"),
        (["lee", "--plots", "-o", "file/below"], "-o file/below: "),
        (["lee", "--keep", "file/below"], "file is a file"),
        (["lee", "--keep", "file"], "file is a file"),
        (["lee", "--only", "figure-9"], "it has figure-3.1, figure-3.2,"),
        (["lee", "--only", "3.4", "--only", "t-1", "--only", "x"], "no 't-1' and no 'x'; it has"),
    ],
)
def test_a_mistake_is_one_message(arguments, message, tmp_path, command):
    (tmp_path / "file").write_text("precious")
    done = command(tmp_path, "reproduce", *arguments, code=2)
    assert message in done.stderr and done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
