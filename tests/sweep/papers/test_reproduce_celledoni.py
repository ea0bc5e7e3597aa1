"""The claims of Celledoni, Çokaj, Leone, Murari and Owren, and counterparts of their figures."""

import numpy as np
import pytest
import xarray as xr
from paper_pictures import short_results
from picture_text import assert_plain

from sweep.papers import PAPERS, diagnostics, draw_figure, reproduce
from sweep.papers.celledoni import diagnostics as of_celledoni

PAPER = PAPERS["celledoni"]
NUMBERS = (2, 3, *range(5, 12), *range(13, 19))
MANIFOLD = "celledoni-manifold"
SHORTER = {  # that of the top, of the order of methods, of chains, of quadrotors
    "duration = 60.0\nsamples = 6000": "duration = 2.0\nsamples = 200",
    "duration = 1.0\nsamples = 1\nreference": "duration = 0.05\nsamples = 1\nreference",
    '{ start = 2e-3, stop = 1e-5, count = 9, spacing = "log" }': "[2e-3, 1e-3, 5e-4]",
    '{ start = 0.025, stop = 6.25e-4, count = 8, spacing = "log" }': "[0.025, 0.0125, 0.00625]",
    '{ start = 0.025, stop = 1e-3, count = 7, spacing = "log" }': "[0.025, 0.0125, 0.00625]",
    "count = [2, 4, 5, 8, 10, 16, 20]": "count = [2, 4]",
    "length = [2.5, 1.25, 1.0, 0.625, 0.5, 0.3125, 0.25]": "length = [2.5, 1.25]",
    # Kernels of these would be compiled for nothing else.
    'formulation = ["cotangent", "quadratic"]': 'formulation = ["cotangent"]',
    '"quadrotor_payload"\nintegrators = ["lie_euler",': '"spherical_pendulum_chain"\n'
    'parameters = { count = 2, gravity = -9.81 }\nintegrators = ["lie_euler",',
}


@pytest.fixture(scope="module")
def computed(tmp_path_factory, lent):
    """Rows and datasets of the claims and pictures of the manifold."""
    claims = tuple(claim for claim in PAPER.claims if claim.study == MANIFOLD)
    chosen = PAPER.model_copy(update={"claims": claims, "pictures": {}})
    with lent():
        return reproduce(chosen, tmp_path_factory.mktemp("stores"))


def test_every_claim_on_the_manifold_holds(computed):
    rows, datasets = computed
    assert len(rows) == 7
    assert [(row.claim, row.here, row.setting) for row in rows if not row.holds] == []
    assert (datasets[MANIFOLD]["double-pendulum"]["status"] == 0).all()


def test_classical_methods_leave_the_manifold_that_lie_group_methods_stay_on(computed):
    for part in ("Figure 6", "Figure 7"):
        lie_group, rk4, ode45 = [row for row in computed[0] if row.part == part][:3]
        assert "lie_euler, lie_euler_heun, rkmk3" in lie_group.setting
        assert 1e8 * lie_group.here < rk4.here < 0.1 * ode45.here


def test_what_is_read_off_a_picture_agrees_in_its_order_of_magnitude(computed):
    tangency = next(row for row in computed[0] if row.part == "Figure 7")
    assert tangency.paper == 1e-14 and tangency.agreement in ("magnitude", "behaviour")


def parts_of(figure):
    """What must be inside the picture: axes; of larger ones in space the scales."""
    for ax in figure.axes:
        yield from (ax.xaxis, ax.yaxis, ax.zaxis) if ax.name == "3d" else (ax,)


def assert_whole(name, datasets):
    """Draw a figure: its labels are plain text, and inside of it."""
    figure = draw_figure(PAPER, name, datasets)
    assert_plain(figure)
    width, height = figure.canvas.get_width_height()
    for part in parts_of(figure):
        box = part.get_tightbbox(figure.canvas.get_renderer())
        assert box.x0 >= -1 and box.y0 >= -1, name
        assert box.x1 <= width + 1 and box.y1 <= height + 1, name


def test_every_figure_of_the_paper_has_a_counterpart():
    assert list(PAPER.pictures) == [f"figure-{number}" for number in NUMBERS]


@pytest.mark.parametrize("name", ["figure-6", "figure-7"])
def test_a_figure_of_the_manifold_is_whole(computed, name):
    assert_whole(name, computed[1])


@pytest.mark.slow
def test_every_figure_is_whole(tmp_path, cluster):
    datasets = short_results("celledoni", SHORTER, tmp_path, cluster)
    for name, top in datasets["celledoni-top"].items():
        quadratic = np.full(top.sizes["run"], "quadratic", dtype=object)
        both = [top, top.assign_coords(formulation=("run", quadratic))]
        datasets["celledoni-top"][name] = xr.concat(both, "run")
    for name in PAPER.pictures:
        assert_whole(name, datasets)


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
    assert of_celledoni.component_peak_size(dataset, 1, 2) == pytest.approx([5.0, 3.0], rel=1e-5)
    assert of_celledoni.component_peak_time(dataset, 1, 2) == pytest.approx([1.2345, 3.0], abs=1e-5)


def test_the_order_of_an_estimate_is_that_of_the_steps():
    steps = [10.0 * tolerance**-0.25 for tolerance in (1e-4, 1e-6, 1e-9)]
    dataset = xr.Dataset({"steps": ("run", steps)}, {"tolerance": ("run", [1e-4, 1e-6, 1e-9])})
    assert of_celledoni.estimate_order_from_steps(dataset) == pytest.approx(3.0)


def test_rows_after_those_of_the_given_state_do_not_count():
    state = np.zeros((1, 2, 3, 3))
    state[0, -1, 0], state[0, -1, 2] = (0.0, 3.0, 4.0), (7.0, 7.0, 7.0)
    dataset = table(state, np.arange(2.0))
    assert diagnostics.distance_from_state_at_end(dataset, [[0.0, 0.0, 0.0]] * 2) == [5.0]


def test_the_value_at_the_end():
    values = xr.Dataset({"error": (("run", "time"), [[0.0, 9.0, -2.0]])})
    assert diagnostics.size_at_end(values, "error") == [2.0]
