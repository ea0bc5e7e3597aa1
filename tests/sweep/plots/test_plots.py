import json
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from picture_text import assert_plain, words_of
from run_tables import run_table, with_series

from integrators.errors import InputError
from sweep import plots

TIMES = np.linspace(0.0, 10.0, 51)
LABELS = {
    "variational": 2,
    "variational+triple_jump4": 4,
    "variational+suzuki4": 4,
    "variational+yoshida6": 6,
    "variational+kahan_li6": 6,
    "variational+kahan_li8": 8,
    "rk2_midpoint": 2,
    "rk2_heun": 2,
    "rk4": 4,
    "rk4+projected": 4,
    "rk4+projected_tangent": 4,
}
FEW = {"rk4": 4, "variational": 2}


@pytest.fixture
def table():
    return full_table()


def full_table(labels=LABELS, scan=None, starts=("lee", "lee[0]")):
    table = run_table(labels, times=TIMES, scan=scan, starts=starts)
    size = table.global_error.values
    table = with_series(table, "energy_error", size, abs_max=2 * size)
    return with_series(table, "unit_length_error", 1e-16 + 0 * size)


def legend_of(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def extents(figure):
    figure.draw_without_rendering()
    return figure.canvas.get_renderer()


@pytest.mark.parametrize("kind", ["order", "energy", "unit-length"])
def test_nothing_is_clipped_and_the_legend_tells_integrators_apart(kind, table):
    figure = plots.KINDS[kind].draw(table)
    renderer = extents(figure)
    width, height = figure.canvas.get_width_height()
    (ax,), (beside,) = figure.axes, figure.legends
    panel, legend = ax.get_tightbbox(renderer), beside.get_window_extent(renderer)
    for box in (panel, legend):
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
    assert panel.x1 <= legend.x0
    assert panel.width > 0.4 * width
    looks = {
        (line.get_color(), line.get_marker(), str(line.get_linestyle()))
        for line in beside.get_lines()
    }
    assert len(looks) == len(LABELS)


def test_convergence_shows_what_the_table_measures(table):
    figure = plots.convergence(table)
    assert legend_of(figure)[0] == "2.00 ± 0.01   variational"
    (ax,) = figure.axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_ylabel() == "global error\nat t = 10 s"
    guides = {text.get_text() for text in ax.texts}
    assert guides == {"h²", "h⁴", "h⁶", "h⁸"}


def test_step_sizes_that_do_not_count_have_open_markers(table):
    rk4 = table.isel(run=(table.integrator == "rk4").values)
    rk4["global_error"][rk4.step_size.values == 0.01] = 1e-17
    (ax,) = plots.convergence(rk4).axes
    open_markers = [line for line in ax.lines if line.get_markerfacecolor() == "white"]
    assert [list(line.get_xdata()) for line in open_markers] == [[0.01]]


def test_the_median_over_starts_is_drawn():
    table = full_table({"rk4": 4}, starts=("lee", "lee[0]", "lee[1]"))
    (ax,) = plots.energy_over_time(table).axes
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_ydata(), 2 * 2 * 0.01**4 * TIMES)
    assert ax.figure.caption == ["h = 0.01, median and range over 3 starts"]
    assert ax.get_ylabel() == "max |E − E₀| over steps [J]"
    assert ax.get_xlabel() == "time t [s]"


def test_integrators_are_shown_at_the_step_size_that_most_share(table):
    assert legend_of(plots.energy_over_time(table)) == list(LABELS)
    rk4 = (table.integrator == "rk4").values
    table = table.assign_coords(step_size=table.step_size.where(~rk4, 1.5 * table.step_size))
    labels = legend_of(plots.energy_over_time(table))
    assert "variational, h = 0.01" in labels
    assert "rk4, h = 0.015" in labels
    labels = legend_of(plots.energy_over_time(table, step_size=0.04))
    assert "variational, h = 0.05" in labels
    assert "rk4, h = 0.0375" in labels


def test_a_curve_ends_when_half_of_its_runs_have_stopped():
    """Those that are left do not stand for all; a cross stands where each stopped."""
    table = full_table(FEW, starts=("lee", "lee[0]", "lee[1]"))
    last = table.step_size.values == 0.01
    for label, ends in (("rk4", (20, 30)), ("variational", (20,))):
        for run, end in zip(np.flatnonzero(last & (table.integrator == label)), ends, strict=False):
            table["status"][run] = 3
            table["energy_error_abs_max"][run, end:] = np.nan
    figure = plots.energy_over_time(table)
    assert legend_of(figure) == ["rk4 (2 of 3 stopped)", "variational (1 of 3 stopped)"]
    rk4, crosses, variational, cross = figure.axes[0].lines
    assert len(rk4.get_xdata()) == 30 and len(variational.get_xdata()) == len(TIMES)
    assert crosses.get_xdata().tolist() == [TIMES[19], TIMES[29]]
    assert cross.get_xdata().tolist() == [TIMES[19]]
    # Of three, of which one is beyond all, the median is the larger of the others, 3 c.
    np.testing.assert_allclose(variational.get_ydata()[20:], 2 * 3 * 0.01**2 * TIMES[20:])
    assert "a run stopped, a curve ends when half have" in figure.get_suptitle()


def test_very_many_integrators_have_a_panel_for_each_family():
    labels = {f"variational+{i}": 2 for i in range(8)} | {f"rkmk{i}": 4 for i in range(6)}
    labels |= {"rk4": 4, "rk2_heun": 2, "rk2_midpoint": 2, "splitting": 2}
    table = full_table(labels)
    methods = json.loads(table.attrs["integrators"])
    for label, method in methods.items():
        family = {"rkm": "rkmk", "rk4": "runge_kutta", "rk2": "runge_kutta"}.get(label[:3], "")
        method["family"] = family or label.partition("+")[0]
    table.attrs["integrators"] = json.dumps(methods)
    figure = plots.energy_over_time(table)
    titles = {ax.get_title(loc="left"): len(ax.get_legend().get_texts()) for ax in figure.axes}
    assert titles == {
        "variational": 8,
        "Runge–Kutta–Munthe-Kaas": 6,
        "Runge–Kutta": 3,
        "other methods": 1,
    }


def test_a_picture_says_what_it_is_of(table):
    system = {"count": 2, "mass": [1.0, 1.0], "length": [1.0, 2.0], "gravity": 9.81}
    system["damping"] = "none"  # which is as if there were no such parameter
    table.attrs["title"] = "order: chain of spherical pendula under gravity"
    table.attrs["system"] = json.dumps({"name": "spherical_pendulum_chain", "parameters": system})
    said = plots.picture("energy", table).get_suptitle().replace("\xa0", " ").split("\n")
    assert said == [
        table.attrs["title"],
        "count = 2, mass = 1 kg each, length = (1, 2) m, gravity = 9.81 m s⁻²; T = 10 s; 2 starts",
        "h = 0.01, median and range over 2 starts",
    ]


def test_in_a_narrow_column_panels_and_legend_are_below_one_another():
    scan = {"gravity": (1.0, 9.81)}
    with plots.compact():
        figure = plots.energy_over_time(full_table(FEW, scan))
    renderer = extents(figure)
    boxes = [ax.get_window_extent(renderer) for ax in figure.axes]
    below = figure.legends[0].get_window_extent(renderer)
    assert figure.get_figwidth() == 4.0
    assert boxes[0].y0 > boxes[1].y1 and boxes[1].y0 > below.y1 and boxes[0].x0 == boxes[1].x0


def test_a_panel_for_each_scanned_value():
    scan = {"gravity": (1.0, 9.81), "body": ("top", "disc")}
    for kind in ("order", "energy"):
        figure = plots.KINDS[kind].draw(full_table(FEW, scan))
        titles = [ax.get_title(loc="left") for ax in figure.axes]
        assert titles[0] == "gravity=1, body=top"
        assert len(titles) == 4
        assert len(legend_of(figure)) == 2
    with pytest.raises(InputError, match="13 combinations.*select some"):
        plots.energy_over_time(full_table({"rk4": 4}, {"gravity": np.arange(13.0)}))


def test_a_long_series_keeps_its_peaks():
    times = np.linspace(0.0, 1.0, 10_001)
    values = np.ones((1, times.size))
    values[0, 4321] = 9.0
    table = with_series(run_table({"rk4": 4}, (0.1,), times=times), "energy_error", values)
    (line,) = plots.energy_over_time(table).axes[0].lines
    assert len(line.get_xdata()) <= 250  # more cannot be told apart in print
    assert line.get_ydata().max() == 9.0
    assert line.get_xdata()[-1] == times[-1]


def test_sparse_late_samples_have_a_logarithmic_axis():
    times = np.concatenate([[0.0], np.geomspace(0.1, 1e4, 50)])
    table = run_table({"rk4": 4}, times=times)
    table = with_series(table, "energy_error", 1e-9 * (1 + times), mean=1e-9 * (1 + times))
    figure = plots.energy_over_time(table)
    assert figure.axes[0].get_xscale() == "log"
    assert_plain(figure)
    assert "10⁴" in words_of(figure)


@pytest.mark.parametrize(("ending", "magic"), [(".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_files_are_written_in_the_format_of_their_ending(tmp_path, ending, magic):
    figure = plots.energy_over_time(full_table({"rk4": 4}))
    path = plots.save(figure, tmp_path / f"energy{ending}")
    assert path.read_bytes().startswith(magic)


def test_bad_input_is_refused_with_a_reason(tmp_path, table):
    with pytest.raises(InputError, match=r"\.png"):
        plots.save(plots.convergence(table), tmp_path / "figure.doc")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r'record = \["energy"\]'):
        plots.energy_over_time(table.drop_vars(["energy_error", "energy_error_abs_max"]))
    with pytest.raises(InputError, match="at least 2 sample intervals"):
        plots.energy_over_time(table.isel(time=[0, 50]))
    with pytest.raises(InputError, match="plot energy 'x'. Valid: step_size, .*width, font, head"):
        plots.picture("energy", table, x="mass")
    with pytest.raises(InputError, match="'widht'. Did you mean 'width'. Valid: error, at, x, exp"):
        plots.picture("order", table, widht="3.4in")
    with pytest.raises(InputError, match="'ax': each plot is a figure of its own"):
        plots.picture("order", table, ax=None)
    with pytest.raises(InputError, match="there is no directory .*nodir; create it"):
        plots.save(plots.convergence(table), tmp_path / "nodir" / "x.pdf")
    with pytest.raises(InputError, match="no runs are selected"):
        plots.unit_length_over_time(table.isel(run=[]))


def test_a_node_of_a_tree_will_do(table):
    tree = xr.DataTree.from_dict({"/order": table})
    assert plots.energy_over_time(tree["order"]).axes


def test_no_window_system_is_loaded():
    code = "import sys; import sweep.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_each_panel_shows_its_own_step_size_where_they_advance_together():
    table = full_table({"rk4": 4}, {"gravity": [1.0, 4.0]})
    sizes = np.unique(table.step_size)[:2]
    together = np.isclose(table.step_size, np.where(table.gravity == 1.0, *sizes))
    table = table.isel(run=np.flatnonzero(together))
    figure = plots.energy_over_time(table)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == [f"gravity={g}, h = {h:g}" for g, h in zip((1, 4), sizes, strict=True)]


def test_errors_have_the_time_that_they_are_of():
    """The reference ends at t = 4 of runs until t = 10."""
    table = full_table(FEW)
    for name in ("global_error", "reference_error"):
        table[name][:, TIMES > 4.0] = np.nan
    figure = plots.picture("order", table)
    assert figure.axes[0].get_ylabel() == "global error\nat t = 4 s"
    said = figure.get_suptitle().replace("\xa0", " ").replace("\n", " ")
    assert (
        "errors against the reference at t = 4 s, until which it holds; runs go on until t = 10 s"
        in said
    )
    assert plots.convergence(table, at="sup").axes[0].get_ylabel() == (
        "largest global error\nuntil t = 4 s"
    )
    whole = plots.picture("order", full_table({"rk4": 4}))
    assert "errors" not in whole.get_suptitle()


def test_errors_of_several_times_have_theirs_each():
    table = full_table(FEW, {"gravity": (1.0, 9.81)})
    lost = (table["gravity"] == 9.81).values[:, None] & (TIMES > 4.0)
    for name in ("global_error", "reference_error"):
        table[name].values[lost] = np.nan
    figure = plots.picture("order", table)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["gravity=1, at t = 10 s", "gravity=9.81, at t = 4 s"]
    assert figure.axes[0].get_ylabel() == "global error"
    assert "at t = 4 – 10 s, until which it holds" in figure.get_suptitle().replace(
        "\xa0", " "
    ).replace("\n", " ")
    one = table.isel(run=np.flatnonzero(table["gravity"] == 1.0))
    own = (one["integrator"] == "rk4").values[:, None] & (TIMES > 4.0)
    for name in ("global_error", "reference_error"):
        one[name].values[own] = np.nan
    assert legend_of(plots.convergence(one)) == [
        "4.00 ± 0.01   rk4, at t = 4 s", "2.00 ± 0.01   variational, at t = 10 s"
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["order", "drift", "energy", "unit-length"])
def test_captions_count_the_starts_that_are_drawn(kind):
    table = full_table(FEW, starts=("lee", "lee[0]", "lee[1]"))
    table = with_series(table, "energy_error", table["energy_error"].values)
    finest = (table["step_size"] == 0.01).values
    start = table["initial_condition"].values
    lost = finest & (table["integrator"] == "rk4").values & (start == "lee")
    lost |= finest & (start == "lee[1]")
    table["status"].values[lost] = -1  # pending
    table["sample_count"].values[lost] = 0
    for name, array in table.data_vars.items():
        if array.dims == ("run", "time"):
            table[name].values[lost] = np.nan
    said = plots.picture(kind, table).get_suptitle().replace("\xa0", " ")
    expected = "1 – 3 of 3 starts" if kind == "order" else "1 – 2 of 3 starts"
    assert f"T = 10 s; {expected}" in said
    without = plots.picture(kind, table, heading=False)
    assert any(expected in line.replace("\xa0", " ") for line in without.caption)


@pytest.mark.parametrize("kind", ["order", "drift", "energy", "unit-length"])
def test_labels_are_plain_text(kind):
    assert_plain(plots.picture(kind, full_table(FEW)))


def test_curves_of_an_order_that_begin_at_the_same_error_have_one_guide():
    table = run_table({"rk4": 4, "cf4": 4})
    table["global_error"][((table.integrator == "cf4") & (table.step_size == 0.1)).values] *= 2.0
    (ax,) = plots.convergence(table).axes
    assert [text.get_text() for text in ax.texts] == ["h⁴"]
