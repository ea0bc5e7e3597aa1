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
    Claim,
    Row,
    claims_as_table,
    diagnostics,
    reproduce,
)

EXAMPLE_2 = tuple(claim for claim in PAPERS["lee"].claims if claim.part == "Example 2")
MEASURED = EXAMPLE_2[0].measured


@pytest.fixture(scope="module")
def example_2():
    """A paper of a single example."""
    return dataclasses.replace(PAPERS["lee"], claims=EXAMPLE_2)


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


def test_the_command_prints_the_same_and_draws_the_figures(
    example_2, computed, stores, tmp_path, command, monkeypatch
):
    """Of stores that are kept: nothing is computed again."""
    monkeypatch.setitem(PAPERS, "lee", example_2)
    monkeypatch.setitem(FIGURES, "lee", {"figure-3.2": FIGURES["lee"]["figure-3.2"]})
    arguments = ("reproduce", "lee", "--json", "--plots", "-o", "figures", "--keep", stores)
    rows = json.loads(command(tmp_path, *arguments).stdout)
    assert [row["here"] for row in rows] == [row.here for row in computed[0]]
    assert all({"claim", "paper", "setting", "holds", "agreement"} <= row.keys() for row in rows)
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["lee-figure-3.2.png"]


def test_another_step_size_gives_another_figure(
    example_2, computed, tmp_path, command, monkeypatch
):
    """Outside of its bounds, which ends in 3."""
    monkeypatch.setitem(PAPERS, "lee", example_2)
    done = command(tmp_path, "reproduce", "lee", "--step-factor", "0.5", "--json", code=3)
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


def test_bounds():
    exact, negative = (Claim("", "", MEASURED, expected=value) for value in (2.0, -2.0))
    assert exact.bounds_that_hold == (2.0 * 0.999, 2.0 * 1.001)
    assert negative.bounds_that_hold == (-2.002, -1.998)
    assert Claim("", "", MEASURED, low=1.0, high=3.0).bounds_that_hold == (1.0, 3.0)


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


@functools.cache
def experiments_of(study):
    return {one.name: one for one in sweep.load_study(study).experiments}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_has_its_runs(paper):
    """Most of which only `.ci/run` computes."""
    for claim in PAPERS[paper].claims:
        measured = claim.measured
        experiment = experiments_of(measured.study)[measured.experiment]
        labels = {entry.label for entry in experiment.integrators}
        assert labels >= set(measured.integrator_labels), claim
        starts = {axis for start in experiment.initial_conditions for axis in start.coordinates}
        assert {axis.name for axis in experiment.scan} | starts >= measured.scan.keys(), claim


def test_section_3_4_has_all_six_systems():
    experiments = experiments_of("lee-properties")
    claims = [claim for claim in PAPERS["lee"].claims if claim.part == "3.4"]
    assert {claim.measured.experiment for claim in claims} == set(experiments)
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
    bound = max(abs(row.low), abs(row.high)) * 10.0 / row.max_abs
    assert diagnostics.largest_drift_possible(rk2) == pytest.approx(bound)
    assert diagnostics.largest_drift_possible(rk2) > 5 * diagnostics.largest_drift_possible(runs)


def test_a_claim_without_runs_is_refused(computed):
    claim = Claim("Example 2", "", dataclasses.replace(MEASURED, integrator="rk9"), expected=1.0)
    with pytest.raises(InputError, match="rk9"):
        claim.computed_row(computed[1], 1.0)


def test_labels_of_a_figure_are_plain_text(computed):
    _, datasets = computed
    assert_plain(FIGURES["lee"]["figure-3.2"](datasets))


# --- how far a figure is the printed one ---------------------------------------------------------


@dataclasses.dataclass
class Given:
    """What a claim is measured by: a value with its range, of these runs."""

    value: float
    least: float | None = None
    most: float | None = None
    ensemble: bool = False
    runs: xr.Dataset | None = None

    def selected_runs(self, datasets, factor):
        return self.runs

    def value_and_range(self, runs):
        ends = (self.value if end is None else end for end in (self.least, self.most))
        return self.value, *ends

    def setting_in_words(self, runs):
        return "these"


def found(paper, given, **more):
    """The row of a claim that a paper prints a number, where another is found."""
    return Claim("", "", given, paper=paper, expected=1.0, **more).computed_row({}, 1.0)


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
    assert found(2.1641e-5, Given(value)).agreement is Agreement(agreement)


@pytest.mark.parametrize(
    ("value", "agreement"),
    [(446.3, "digits"), (350.1, "digits"), (349.0, "magnitude"), (10.9, "not reproduced")],
)
def test_a_figure_with_one_digit_is_compared_to_one_digit(value, agreement):
    assert found(400.0, Given(value, 416.0, 446.0), digits=1).agreement == agreement


def test_a_range_is_that_of_an_ensemble():
    chaotic = Given(1.477e-6, 1.12e-6, 1.98e-6, ensemble=True)
    assert found(1.4310e-6, chaotic).agreement is Agreement.RANGE
    of_step_sizes = dataclasses.replace(chaotic, ensemble=False)
    beside = dataclasses.replace(chaotic, least=1.44e-6)
    for other in (of_step_sizes, beside):
        assert found(1.4310e-6, other).agreement is Agreement.MAGNITUDE


def test_an_exact_figure_agrees_in_its_digits_or_not_at_all():
    assert found(2.5065, Given(1.5213), exact=True).agreement is Agreement.NONE
    assert found(4.0, Given(3.98), digits=1, exact=True).agreement is Agreement.DIGITS


def energies(*slopes):
    """Runs whose energy has these slopes, below an oscillation."""
    time = np.linspace(0.0, 10.0, 101)
    errors = [slope * time + 0.1 * np.sin(7.0 * time) for slope in slopes]
    return xr.Dataset({"energy_error": (("run", "time"), errors)}, {"time": time})


def behaviour(part, text):
    """What the paper shows of a claim on a Runge–Kutta method or, without a trend, of lengths."""
    return next(
        claim.behaviour
        for claim in PAPERS["lee"].claims
        if (claim.part, claim.text) == (part, text) and claim.behaviour
    )


GAINED, LOST = behaviour("Example 1", "mean |E − E₀|"), behaviour("Example 5", "mean |E − E₀|")
KEPT = behaviour("Example 1", "mean |q·q − 1|")


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
        row = found(1e-14, Given(value, runs=energies(*slopes)), behaviour=shown)
        assert row.agreement is Agreement(agreement or "not reproduced")
        assert row.setting == f"these ({words})"


def test_round_off_is_small_in_every_run():
    row = found(8e-12, Given(1e-14, 1e-15, 3e-14), behaviour=KEPT)
    assert row.agreement is Agreement.BEHAVIOUR
    assert row.setting == "these (round-off, as in the paper: ≤ 1e-13)"
    row = found(8e-12, Given(1e-14, 1e-15, 2e-13), behaviour=KEPT)
    assert row.agreement is Agreement.NONE
    assert row.setting == "these (not round-off: up to 2.0e-13)"
    assert found(1e-14, Given(np.nan), behaviour=KEPT).agreement is Agreement.NONE


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
    first, *lines, last = text[text.index("6 of 10") :].splitlines()
    assert first.startswith("6 of 10 printed figures are reproduced")
    assert last.startswith("10 of 11 computed values are within bounds")
    assert {line[8:22].strip(): int(line[:6]) for line in lines} == counted
    assert {agreement.value for agreement in Agreement} == set(counted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["leee"], "unknown paper 'leee'. Did you mean 'lee'?"),
        (["lee", "--step-factor", "0", "--plots"], "step-factor"),
        (["lee", "--plots", "-o", "file/below"], "file/below cannot be written"),
        (["lee", "--keep", "file/below"], "file/below"),
    ],
)
def test_a_mistake_is_one_message(arguments, message, tmp_path, command):
    (tmp_path / "file").write_text("precious")
    done = command(tmp_path, "reproduce", *arguments, code=2)
    assert message in done.stderr and done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
