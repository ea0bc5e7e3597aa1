import numpy as np
import pytest
from cases import first_of
from run_tables import run_table, with_series

from integrators.errors import InputError
from sweep import plots

TIMES = np.linspace(0.0, 10.0, 51)
LABELS = ("variational", "variational+suzuki4", "rk4", "rk4+projected_tangent")


def energies(labels=("rk4",), starts=("lee",)):
    made = run_table(dict.fromkeys(labels, 4), times=TIMES, starts=starts)
    return with_series(made, "energy_error", made.global_error.values)


@pytest.fixture
def table():
    return energies(LABELS, ("lee", "lee[0]"))


@pytest.mark.parametrize(
    ("text", "inches"), [("3.4in", 3.4), ("86mm", 3.3858), ("8.6 cm", 3.3858), ("246pt", 3.4039)]
)
def test_widths_have_units(text, inches):
    with plots.page(text):
        figure = plots.energy_over_time(energies())
    assert figure.get_figwidth() == pytest.approx(inches, abs=1e-4)


@pytest.mark.parametrize("width", ["3.4", "wide", "0.1in", "900cm", "-3in", "nan", float("nan")])
def test_what_is_no_width_is_refused(width):
    with pytest.raises(InputError, match="3.4in, 86mm"), plots.page(width):
        pass


@pytest.mark.parametrize(
    ("kind", "width"),
    first_of([("order", 3.4), ("drift", 7.0), ("energy", 7.0), ("drift", 3.4)], 2),
)
def test_figures_for_a_paper_fit_their_width_and_say_nothing_above(kind, width, table):
    figure = plots.picture(kind, table, width=width, font="serif", heading=False)
    assert figure.get_figwidth() == width
    assert figure.get_suptitle() == "" and any("2 starts" in line for line in figure.caption)
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    whole = figure.bbox
    panels = [ax.get_tightbbox(renderer) for ax in figure.axes if ax.axison]
    for box in [*panels, *(legend.get_window_extent(renderer) for legend in figure.legends)]:
        assert box.x0 >= whole.x0 - 1 and box.x1 <= whole.x1 + 1 and box.y0 >= -1
    for legend in figure.legends:
        own = legend.get_window_extent(renderer)
        assert not any(own.overlaps(panel) for panel in panels)
        assert legend.get_texts()[0].get_fontfamily()[0] == "serif"


def test_an_unknown_font_is_refused_and_those_that_are_there_are_said(table):
    with pytest.raises(InputError, match="unknown font 'Tims'.*Valid: serif, .*DejaVu Sans"):
        plots.picture("order", table, font="Tims")


def test_pdf_has_fonts_as_true_type(tmp_path):
    path = plots.save(plots.picture("energy", energies(), font="serif"), tmp_path / "energy.pdf")
    written = path.read_bytes()
    assert written.startswith(b"%PDF") and b"/FontFile2" in written and b"DejaVuSerif" in written


def test_the_numbers_are_those_that_are_drawn(table):
    figure = plots.picture("order", table)
    numbers = plots.numbers(figure)
    of = numbers[numbers.series == "rk4"]
    line = next(line for line in figure.axes[0].lines if "rk4" in line.get_label())
    assert set(line.get_ydata()) == set(of.y[of.mark == "filled"])
    assert set(of.x_quantity) == {"step size h"}
    assert set(of.y_quantity) == {"global error at t = 10 s"}
    assert "marks: robust geometric mean over the starts; bars: range" in figure.caption
    assert np.all(of.low <= of.y) and np.all(of.y <= of.high)
    of = plots.numbers(plots.picture("order", run_table(dict.fromkeys(LABELS, 3)))).query(
        "mark != 'line'"
    )
    assert np.all((of.low == of.y) & (of.y == of.high))  # of one start, to the last bit
    drift = plots.numbers(plots.picture("drift", table))
    assert set(drift.y_quantity) == {"energy error"} and set(drift.y_unit) == {"J"}
    assert {"rk4", "rk4: drift"} <= set(drift.series)


def test_the_numbers_of_a_figure_of_ones_own_are_its_lines():
    from matplotlib.figure import Figure

    figure = Figure((3.0, 2.0))
    ax = figure.subplots()
    ax.plot([1.0, 2.0], [3.0, 4.0], label="own")
    ax.set(xlabel="time t [s]", ylabel="height [m]")
    numbers = plots.numbers(figure)
    assert list(numbers.y) == [3.0, 4.0] and list(numbers.y_unit) == ["m", "m"]


def test_the_table_has_a_row_for_each_point_of_all_pictures(tmp_path, table):
    figures = {("one", kind): plots.picture(kind, table) for kind in ("order", "energy")}
    lines = plots.save_numbers(figures, tmp_path / "n.csv").read_text().splitlines()
    assert lines[0].startswith("experiment,picture,panel,series,mark,x_quantity,x_unit,x,y_quan")
    assert len(lines) == 1 + sum(len(plots.numbers(figure)) for figure in figures.values())


def test_open_marks_do_not_count(table):
    table["global_error"].values[table.step_size.values < 0.02] = 1e-16
    figure = plots.picture("order", table)
    assert (plots.numbers(figure).mark == "open").any()
    assert "open: left out of the fit" in figure.legends[0].get_title().get_text()
