"""The claims of Celledoni, Çokaj, Leone, Murari and Owren, and counterparts of their figures."""

import numpy as np
import pytest
import xarray as xr

from sweep import plots
from sweep.reproduce import PAPERS, diagnostics, reproduce

PAPER = PAPERS["celledoni"]
NUMBERS = (2, 3, *range(5, 12), *range(13, 19))


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """Rows and datasets of the whole paper."""
    return reproduce(PAPER, tmp_path_factory.mktemp("stores"), workers=1, pictures=True)


def rows_of(computed, part, text=""):
    return [row for row in computed[0] if row.part == part and text in row.claim]


def test_every_claim_holds(computed):
    rows, datasets = computed
    assert len(rows) == len(PAPER.claims)
    assert [(row.claim, row.here, row.setting) for row in rows if not row.holds] == []
    for name, study in datasets.items():
        assert all((data["status"] == 0).all() for data in study.values()), name


def test_a_series_that_is_cut_too_early_lowers_the_order(computed):
    rows = [row for row in rows_of(computed, "Figure 5") if "commutator" in row.setting]
    assert [round(row.here) for row in rows] == [4, 4, 3, 2]


def test_classical_methods_leave_the_manifold_that_lie_group_methods_stay_on(computed):
    for part in ("Figure 6", "Figure 7"):
        lie_group, rk4, ode45 = rows_of(computed, part)[:3]
        assert "lie_euler, lie_euler_heun, rkmk3" in lie_group.setting
        assert 1e8 * lie_group.here < rk4.here < 0.1 * ode45.here


def parts_of(figure):
    """What must be inside the picture: axes; of larger ones in space the scales."""
    for ax in figure.axes:
        yield from (ax.xaxis, ax.yaxis, ax.zaxis) if ax.name == "3d" else (ax,)


def test_every_figure_of_the_paper_has_a_counterpart(computed):
    assert list(plots.FIGURES["celledoni"]) == [f"figure-{number}" for number in NUMBERS]
    for name, draw in plots.FIGURES["celledoni"].items():
        figure = draw(computed[1])
        figure.canvas.draw()
        width, height = figure.canvas.get_width_height()
        for part in parts_of(figure):
            box = part.get_tightbbox(figure.canvas.get_renderer())
            assert box.x0 >= -1 and box.y0 >= -1, name
            assert box.x1 <= width + 1 and box.y1 <= height + 1, name


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
    assert diagnostics.peak(1, 2)(dataset) == pytest.approx([5.0, 3.0], rel=1e-5)
    assert diagnostics.peak_time(1, 2)(dataset) == pytest.approx([1.2345, 3.0], abs=1e-5)


def test_rows_after_those_of_the_given_state_do_not_count():
    state = np.zeros((1, 2, 3, 3))
    state[0, -1, 0], state[0, -1, 2] = (0.0, 3.0, 4.0), (7.0, 7.0, 7.0)
    dataset = table(state, np.arange(2.0))
    assert diagnostics.distance_at_end([[0.0, 0.0, 0.0]] * 2)(dataset) == [5.0]


def test_the_value_at_the_end():
    values = xr.Dataset({"error": (("run", "time"), [[0.0, 9.0, -2.0]])})
    assert diagnostics.last("error")(values) == [2.0]
