"""The claims of Celledoni, Çokaj, Leone, Murari and Owren, and counterparts of their figures."""

import dataclasses

import numpy as np
import pytest
import xarray as xr
from picture_text import assert_plain

from sweep import guide
from sweep.campaign import coordinator
from sweep.papers import PAPERS, diagnostics, figures, reproduce
from sweep.store.open import open_study
from sweep.store.studies import load_study_file, parse_study

PAPER = PAPERS["celledoni"]
TOPIC = guide.text("papers")
NUMBERS = (2, 3, *range(5, 12), *range(13, 19))
QUICK = ("celledoni-manifold", "celledoni-steps", "celledoni-quadrotors")


@pytest.fixture(scope="module")
def computed(tmp_path_factory, lent):
    """Rows and datasets of the quicker studies."""
    claims = tuple(claim for claim in PAPER.claims if claim.measured.study in QUICK)
    paper = dataclasses.replace(PAPER, claims=claims)
    with lent():
        return reproduce(paper, tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def datasets(computed, tmp_path_factory, cluster):
    """What the figures are drawn from, of short runs where it takes long."""
    text = load_study_file("celledoni-top").toml()
    for packaged, short in SHORT.items():
        assert packaged in text
        text = text.replace(packaged, short)
    top = parse_study(text, "celledoni-top")
    shortened = [one for one in top.experiments if one.name in ("orders", "paths", "long")]
    store = tmp_path_factory.mktemp("short") / "top.zarr"
    coordinator.run(dataclasses.replace(top, experiments=tuple(shortened)), store, cluster)
    tree = open_study(store)
    curves = computed[1]["celledoni-quadrotors"]["orders"]  # of other methods, in the same form
    return computed[1] | {
        "celledoni-top": {name: node.to_dataset() for name, node in tree.items()},
        "celledoni-orders": {"spatial": curves, "planar": curves},
    }


SHORT = {
    "duration = 60.0\nsamples = 6000": "duration = 2.0\nsamples = 200",
    "duration = 1.0\nsamples = 1\nreference": "duration = 0.016\nsamples = 1\nreference",
    '{ start = 2e-3, stop = 1e-5, count = 9, spacing = "log" }': "[2e-3, 1e-3, 5e-4]",
}


def rows_of(computed, part, text=""):
    return [row for row in computed[0] if row.part == part and text in row.claim]


def test_every_claim_holds(computed):
    rows, datasets = computed
    assert len(rows) == 38
    assert [(row.claim, row.here, row.setting) for row in rows if not row.holds] == []
    for name, study in datasets.items():
        assert all((data["status"] == 0).all() for data in study.values()), name


def test_the_other_claims_have_their_runs():
    """Of the studies that take longer."""
    for claim in PAPER.claims:
        measured = claim.measured
        experiments = {one.name: one for one in load_study_file(measured.study).experiments}
        experiment = experiments[measured.experiment]
        labels = {entry.label for entry in experiment.integrators}
        assert labels >= set(measured.integrator_labels), claim
        axes = {axis.name: axis for axis in experiment.scan}
        assert axes.keys() >= measured.scan.keys(), claim


def test_a_variable_step_is_more_accurate_than_as_many_constant_ones(computed):
    for part in ("Figure 8", "Figure 10"):
        variable, constant = (
            [row.here for row in rows_of(computed, part, "error") if row.setting.startswith(name)]
            for name in ("rkmk54, tol", "rkmk5 (steps of rkmk54), tol")
        )
        assert all(a < 0.6 * b for a, b in zip(variable, constant, strict=True))


def test_constant_steps_win_on_two_links_of_five_metres_together(computed):
    (ratio,) = (row for row in rows_of(computed, "Figure 10") if "count=2," in row.setting)
    assert ratio.here == pytest.approx(1.38, abs=0.05) and "constant steps win" in ratio.setting


def test_classical_methods_leave_the_manifold_that_lie_group_methods_stay_on(computed):
    for part in ("Figure 6", "Figure 7"):
        lie_group, rk4, ode45 = rows_of(computed, part)[:3]
        assert "lie_euler, lie_euler_heun, rkmk3" in lie_group.setting
        assert 1e8 * lie_group.here < rk4.here < 0.1 * ode45.here


def test_what_is_read_off_a_picture_agrees_in_its_order_of_magnitude(computed):
    tangency, *_ = rows_of(computed, "Figure 7")
    assert tangency.paper == 1e-14 and tangency.agreement in ("magnitude", "behaviour")
    times = rows_of(computed, "Figure 11", "its time")
    assert [(row.paper, row.digits, row.agreement) for row in times] == [(2.2, 2, "magnitude")] * 2
    first, second = (f"{row.here:.3f}" for row in times)
    assert f"shows at t ≈ 2.2 are at {first} and {second}." in TOPIC


def parts_of(figure):
    """What must be inside the picture: axes; of larger ones in space the scales."""
    for ax in figure.axes:
        yield from (ax.xaxis, ax.yaxis, ax.zaxis) if ax.name == "3d" else (ax,)


def test_every_figure_of_the_paper_has_a_counterpart(datasets):
    assert list(figures.FIGURES["celledoni"]) == [f"figure-{number}" for number in NUMBERS]
    for name, draw in figures.FIGURES["celledoni"].items():
        figure = draw(datasets)
        assert_plain(figure)
        width, height = figure.canvas.get_width_height()
        for part in parts_of(figure):
            box = part.get_tightbbox(figure.canvas.get_renderer())
            assert box.x0 >= -1 and box.y0 >= -1, name
            assert box.x1 <= width + 1 and box.y1 <= height + 1, name


def test_both_formulations_of_the_top_take_the_same_steps(datasets):
    paths = datasets["celledoni-top"]["paths"]
    own = paths.isel(run=(paths["inertia"] == "printed") & (paths["integrator"] == "SLGI θ = 1/2"))
    assert own.sizes["run"] == 2
    assert 0.0 < diagnostics.distance_between_top_formulations(own) < 1e-13


# --- diagnostics ---------------------------------------------------------------------------------


def table(state, times):
    """A run table with states of shape (runs, times, rows, 3)."""
    return xr.Dataset({"state": (("run", "time", "row", "component"), state)}, {"time": times})


def test_a_peak_is_found_between_samples():
    times = np.linspace(0.0, 3.0, 301)
    state = np.zeros((2, 301, 2, 3))
    state[0, :, 1, 2] = -5.0 / (1.0 + (4.0 * (times - 1.2345)) ** 2)
    state[1, :, 1, 2] = times  # largest at the end
    dataset = table(state, times)
    assert diagnostics.component_peak_size(1, 2)(dataset) == pytest.approx([5.0, 3.0], rel=1e-5)
    assert diagnostics.component_peak_time(1, 2)(dataset) == pytest.approx([1.2345, 3.0], abs=1e-5)


def test_the_order_of_an_estimate_is_that_of_the_steps():
    steps = [10.0 * tolerance**-0.25 for tolerance in (1e-4, 1e-6, 1e-9)]
    dataset = xr.Dataset({"steps": ("run", steps)}, {"tolerance": ("run", [1e-4, 1e-6, 1e-9])})
    assert diagnostics.estimate_order_from_steps(dataset) == pytest.approx(3.0)


def test_rows_after_those_of_the_given_state_do_not_count():
    state = np.zeros((1, 2, 3, 3))
    state[0, -1, 0], state[0, -1, 2] = (0.0, 3.0, 4.0), (7.0, 7.0, 7.0)
    dataset = table(state, np.arange(2.0))
    assert diagnostics.distance_from_state_at_end([[0.0, 0.0, 0.0]] * 2)(dataset) == [5.0]


def test_the_value_at_the_end():
    values = xr.Dataset({"error": (("run", "time"), [[0.0, 9.0, -2.0]])})
    assert diagnostics.size_at_end("error")(values) == [2.0]
