"""The figures of the papers: how they are measured, and the command that prints them."""

import dataclasses
import json

import numpy as np
import pytest
import xarray as xr
from picture_text import assert_plain

import systems
from integrators.errors import InputError
from sweep.analysis import drift_table
from sweep.papers import PAPERS, Claim, Row, diagnostics, figures, reproduce
from sweep.papers.agreement import (
    Agreement,
    EnergyTrend,
    KeptToRoundOff,
    agreement_with_printed_figure,
)
from sweep.papers.lee.claims import EXAMPLE_2, PROPERTIES
from sweep.papers.measuring import Measured
from sweep.papers.tables import claims_as_table
from sweep.store.studies import load_study_file

MEASURED = Measured("lee-example-2", "step-sizes", "variational", step_size=5e-3)


@pytest.fixture(scope="module")
def example_2():
    """A paper of a single example."""
    return dataclasses.replace(PAPERS["lee"], claims=EXAMPLE_2)


@pytest.fixture(scope="module")
def computed(example_2, tmp_path_factory, lent):
    with lent():
        return reproduce(example_2, tmp_path_factory.mktemp("stores"))


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


def test_another_step_size_gives_another_figure(example_2, computed, tmp_path):
    """On a cluster of its own."""
    rows, _ = reproduce(example_2, tmp_path, step_factor=0.5, workers=1)
    for half, whole in zip(rows[:4], computed[0], strict=False):
        assert half.here / whole.here == pytest.approx(0.25, rel=0.05)
        assert not half.holds
    assert "h = 0.0025" in rows[0].setting


def test_a_step_that_does_not_divide_is_refused(example_2, tmp_path):
    with pytest.raises(InputError, match="step_factor = 3: lee-example-2: .*larger than"):
        reproduce(example_2, tmp_path, step_factor=3.0)
    with pytest.raises(InputError, match="step_factor"):
        reproduce(example_2, tmp_path, step_factor=-1.0)
    assert not list(tmp_path.iterdir())


def test_bounds():
    exact = Claim("Example 1", "", MEASURED, expected=2.0)
    assert exact.bounds_that_hold == (2.0 * 0.999, 2.0 * 1.001)
    assert Claim("Example 1", "", MEASURED, low=1.0, high=3.0).bounds_that_hold == (1.0, 3.0)


def test_the_unit_length_error_of_states_is_a_mean_over_samples_and_bodies(computed):
    _, datasets = computed
    runs = MEASURED.selected_runs(datasets, 1.0)
    state = np.zeros((1, runs.sizes["time"], runs.sizes["row"], 3))
    state[:, :, :, 0] = 1.0
    state[0, 0, 0, 1] = 1.0  # one body of one sample is off by 1
    runs = runs.drop_vars("unit_length_error_mean").assign(
        state=(("run", "time", "row", "component"), state)
    )
    measured = dataclasses.replace(MEASURED, quantity="unit_length")
    expected = 1.0 / (runs.sizes["time"] * 3)
    assert measured.value_and_range(runs) == pytest.approx((expected,) * 3)


def test_the_claims_of_section_3_4_have_their_runs():
    """Which only `sweep reproduce lee` computes: on all six systems."""
    experiments = {one.name: one for one in load_study_file("lee-properties").experiments}
    for claim in PROPERTIES:
        labels = {entry.label for entry in experiments[claim.measured.experiment].integrators}
        assert labels >= set(claim.measured.integrator_labels), claim
    assert {claim.measured.experiment for claim in PROPERTIES} == set(experiments)
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
    ratios = diagnostics.ratios_over_a_decade_of_step_sizes("x")
    runs = series(h10=50.0, h20=400.0, h1=0.5, h2=8.0, h3=7.0)
    assert ratios(runs).tolist() == [100.0, 50.0]


def test_a_trend_is_a_slope_over_the_whole_run():
    time = np.linspace(0.0, 10.0, 11)
    runs = series(h10=2.0 * time, h20=-time + 5.0)
    assert diagnostics.trend_over_run("x")(runs) == pytest.approx([20.0, -10.0])


def test_the_drift_that_is_possible_is_that_of_an_interval(computed):
    """As the table of drifts has it, of an integrator that has none and one that has."""
    _, datasets = computed
    runs, rk2 = (
        dataclasses.replace(MEASURED, integrator=name).selected_runs(datasets, 1.0)
        for name in ("variational", "rk2")
    )
    (row,) = drift_table(rk2, ("energy",))
    bound = max(abs(row.low), abs(row.high)) * 10.0 / row.max_abs.median
    assert diagnostics.largest_drift_possible(rk2) == pytest.approx(bound)
    assert diagnostics.largest_drift_possible(rk2) > 10 * diagnostics.largest_drift_possible(runs)


def test_a_claim_without_runs_is_refused(computed):
    claim = Claim("Example 2", "", dataclasses.replace(MEASURED, integrator="rk9"), expected=1.0)
    with pytest.raises(InputError, match="rk9"):
        claim.computed_row(computed[1], 1.0)


def test_labels_of_a_figure_are_plain_text(computed):
    _, datasets = computed
    assert_plain(figures.FIGURES["lee"]["figure-3.2"](datasets))


# --- how far a figure is the printed one ---------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "found"),
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
def test_a_figure_agrees_in_its_digits_or_in_its_order_of_magnitude(value, found):
    assert agreement_with_printed_figure(2.1641e-5, value, value, value, digits=5) is Agreement(
        found
    )


def test_a_range_is_that_of_an_ensemble():
    chaotic = (1.4310e-6, 1.477e-6, 1.12e-6, 1.98e-6)
    assert agreement_with_printed_figure(*chaotic, digits=5, ensemble=True) is Agreement.RANGE
    # A range over step sizes, say.
    assert agreement_with_printed_figure(*chaotic, digits=5) is Agreement.MAGNITUDE
    beside = (1.4310e-6, 1.477e-6, 1.44e-6, 1.98e-6)
    assert agreement_with_printed_figure(*beside, digits=5, ensemble=True) is Agreement.MAGNITUDE


def test_an_exact_figure_agrees_in_its_digits_or_not_at_all():
    assert (
        agreement_with_printed_figure(2.5065, 1.5213, 1.5213, 1.5213, digits=5, exact=True)
        is Agreement.NONE
    )
    assert (
        agreement_with_printed_figure(4.0, 3.98, 3.98, 3.98, digits=1, exact=True)
        is Agreement.DIGITS
    )


def test_behaviour_decides_where_sizes_differ_and_can_refuse_any():
    for behaves, far, near in (
        (True, Agreement.BEHAVIOUR, Agreement.DIGITS),
        (None, Agreement.NONE, Agreement.DIGITS),
        (False, Agreement.NONE, Agreement.NONE),
    ):
        assert (
            agreement_with_printed_figure(1e-14, 1e-17, 1e-17, 1e-17, digits=5, behaves=behaves)
            is far
        )
        assert (
            agreement_with_printed_figure(1e-14, 1e-14, 1e-14, 1e-14, digits=5, behaves=behaves)
            is near
        )


def energies(*slopes):
    """Runs whose energy has these slopes, below an oscillation."""
    time = np.linspace(0.0, 10.0, 101)
    errors = [slope * time + 0.1 * np.sin(7.0 * time) for slope in slopes]
    return xr.Dataset({"energy_error": (("run", "time"), errors)}, {"time": time})


@pytest.mark.parametrize(
    ("rises", "slopes", "behaves", "words"),
    [
        (True, (1.0, 2.0), True, "2 of 2 gain energy, as in the paper"),
        (False, (-1.0,), True, "loses energy, as in the paper"),
        (False, (1.0, 2.0, 3.0), False, "3 of 3 gain energy, where the paper shows it lost"),
        (False, (1.0, -2.0, -3.0), False, "1 of 3 gain energy, where the paper shows it lost"),
        (True, (-1.0,), False, "loses energy, where the paper shows it gained"),
    ],
)
def test_the_sign_of_the_drift_of_each_run_is_counted(rises, slopes, behaves, words):
    assert EnergyTrend(rises).is_seen_in_runs(energies(*slopes), 0.0) == (behaves, words)


def test_round_off_is_small_in_every_run():
    kept, words = KeptToRoundOff().is_seen_in_runs(None, 3e-14)
    assert kept and words == "round-off, as in the paper: ≤ 1e-13"
    assert KeptToRoundOff().is_seen_in_runs(None, 2e-13) == (False, "not round-off: up to 2.0e-13")
    assert not KeptToRoundOff().is_seen_in_runs(None, np.nan)[0]


def test_the_closing_lines_count_each_agreement():
    row = Row("", "", 1.0, 5, 1.0, None, 1.0, 1.0, 0.0, 2.0, "", True)
    counted = {"digits": 3, "range": 0, "magnitude": 1, "behaviour": 2, "not reproduced": 4}
    rows = [
        dataclasses.replace(row, agreement=Agreement(name))
        for name, count in counted.items()
        for _ in range(count)
    ]
    rows += [dataclasses.replace(row, paper=None, digits=None, holds=False)]
    text = str(claims_as_table(rows))
    first, second, *lines = text[text.index("10 of 11") :].splitlines()
    assert "within their bounds" in first and second.startswith("10 of them stand beside")
    assert {line[8:22].strip(): int(line[:6]) for line in lines} == counted
    assert {agreement.value for agreement in Agreement} == set(counted)


FIGURES = [f"lee-figure-3.{number}.png" for number in range(1, 8)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduce")


@pytest.fixture(scope="module")
def lee(folder, command):
    """The rows of the whole paper, by part."""
    done = command(folder, "reproduce", "lee", "--json", "--plots", "--keep", "stores")
    rows = json.loads(done.stdout)
    parts = ["3.4", *(f"Example {i}" for i in range(1, 7))]
    return {part: [row for row in rows if row["part"] == part] for part in parts}


def test_the_command_finds_every_figure_of_the_paper(folder, lee):
    rows = [row for part in lee.values() for row in part]
    assert len(rows) == len(PAPERS["lee"].claims)
    assert all({"claim", "paper", "here", "setting", "holds", "agreement"} <= set(r) for r in rows)
    assert [row["claim"] for row in rows if not row["holds"]] == []
    assert sorted(path.name for path in (folder / "lee-plots").iterdir()) == FIGURES
    assert len(list((folder / "stores").iterdir())) == 7


@pytest.mark.parametrize(("part", "every"), [("Example 1", "5th"), ("Example 5", "20th")])
def test_the_mean_over_some_steps_has_the_printed_digits(lee, part, every):
    some, all_steps = lee[part][:2]
    assert f"mean over every {every} step" in some["setting"]
    assert f"{some['here']:.4e}" == f"{some['paper']:.4e}" and some["agreement"] == "digits"
    assert "mean over every step" in all_steps["setting"]
    assert f"{all_steps['here']:.4e}" != f"{all_steps['paper']:.4e}"
    assert all_steps["agreement"] == "magnitude"


def test_runs_that_gain_energy_are_not_those_that_the_paper_shows_losing_it(lee):
    *_, energy, length = lee["Example 4"]
    for row in (energy, length):
        assert row["setting"].startswith("rk45") and row["agreement"] == "not reproduced"
        assert "128 of 128 gain energy, where the paper shows it lost" in row["setting"]
        assert row["least"] < row["paper"] < row["most"]  # its size alone would agree
    assert "gains energy, as in the paper" in lee["Example 1"][-1]["setting"]
    assert "loses energy, as in the paper" in lee["Example 5"][-1]["setting"]


def test_unit_lengths_at_round_off_agree_in_behaviour(lee):
    rows = [row for part in lee.values() for row in part if "round-off, as" in row["setting"]]
    assert len(rows) == 5
    assert all(row["here"] < row["paper"] / 10 for row in rows)
    assert {row["agreement"] for row in rows} == {"behaviour"}


def test_a_figure_outside_its_bounds_ends_in_3(folder, command, example_2, monkeypatch):
    """Goes on from a store of the test before: only other step sizes are computed."""
    monkeypatch.setitem(PAPERS, "lee", example_2)
    done = command(folder, "reproduce", "lee", "--keep", "stores", "--step-factor", "0.5", code=3)
    assert "OUTSIDE" in done.stdout and "h = 0.0025" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["leee"], "unknown paper 'leee'. Did you mean 'lee'?"),
        (["lee", "--step-factor", "0", "--plots"], "step_factor"),
        (["lee", "--plots", "-o", "file/below"], "file/below cannot be written"),
        (["lee", "--keep", "file/below"], "file/below"),
    ],
)
def test_a_mistake_is_one_message(arguments, message, tmp_path, command):
    (tmp_path / "file").write_text("precious")
    done = command(tmp_path, "reproduce", *arguments, code=2)
    assert message in done.stderr and done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
