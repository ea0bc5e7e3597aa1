"""The figures of the papers: how they are measured, and the command that prints them."""

import dataclasses
import json

import numpy as np
import pytest

from integrators.errors import InputError
from sweep.reproduce import PAPERS, Claim, reproduce
from sweep.reproduce.lee import EXAMPLE_2
from sweep.reproduce.measuring import Measured
from sweep.tables import claims

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
    text = str(claims(rows))
    assert [row.as_printed for row in rows] == [True, True, False, False]
    assert "1.1717e-04" in text and "1.17166e-04" in text and text.count("holds") == len(rows)


def test_another_step_size_gives_another_figure(example_2, computed, tmp_path):
    """On a cluster of its own."""
    rows, _ = reproduce(example_2, tmp_path, step_factor=0.5, workers=1)
    for half, whole in zip(rows, computed[0], strict=True):
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
    assert exact.bounds == (2.0 * 0.999, 2.0 * 1.001)
    assert Claim("Example 1", "", MEASURED, low=1.0, high=3.0).bounds == (1.0, 3.0)


def test_the_unit_length_error_of_states_is_a_mean_over_samples_and_bodies(computed):
    _, datasets = computed
    runs = MEASURED.runs(datasets, 1.0)
    state = np.zeros((1, runs.sizes["time"], runs.sizes["row"], 3))
    state[:, :, :, 0] = 1.0
    state[0, 0, 0, 1] = 1.0  # one body of one sample is off by 1
    runs = runs.drop_vars("unit_length_error_mean").assign(
        state=(("run", "time", "row", "component"), state)
    )
    measured = dataclasses.replace(MEASURED, quantity="unit_length")
    expected = 1.0 / (runs.sizes["time"] * 3)
    assert measured.value(runs) == pytest.approx((expected,) * 3)


def test_a_claim_without_runs_is_refused(computed):
    claim = Claim("Example 2", "", dataclasses.replace(MEASURED, integrator="rk9"), expected=1.0)
    with pytest.raises(InputError, match="rk9"):
        claim.row(computed[1], 1.0)


FIGURES = [f"lee-figure-3.{number}.png" for number in range(1, 8)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduce")


def test_the_command_finds_every_figure_of_the_paper(folder, command):
    done = command(folder, "reproduce", "lee", "--json", "--plots", "--keep", "stores")
    rows = json.loads(done.stdout)
    assert len(rows) == len(PAPERS["lee"].claims)
    assert all({"claim", "paper", "here", "setting", "holds"} <= set(row) for row in rows)
    assert [row["claim"] for row in rows if not row["holds"]] == []
    assert {row["part"] for row in rows} == {f"Example {number}" for number in range(1, 7)}
    assert sorted(path.name for path in (folder / "lee-plots").iterdir()) == FIGURES
    assert len(list((folder / "stores").iterdir())) == 6


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
