import numpy as np
import pytest
from run_tables import run_table, with_series

from integrators.errors import InputError
from sweep import plots
from sweep.analysis import drift_table

TIMES = np.linspace(0.0, 100.0, 101)
STARTS = ("lee", *(f"lee[{i}]" for i in range(15)))


def drifting_table(scan=None, labels=("variational", "rk4"), starts=STARTS):
    table = run_table(dict.fromkeys(labels, 2), (0.1, 0.05), starts, TIMES, scan)
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(table.sizes["run"], len(TIMES)))
    drifts = np.where(table.integrator.values == "rk4", 0.1, 0.0)[:, None] * TIMES
    error = 1e-9 * (noise + drifts)
    return with_series(table, "energy_error", error, mean=error)


def texts(figure):
    """Of each strip what it is, and what is said of it."""
    return [text for ax in figure.axes for text in (ax.get_title(loc="left"), said_above(ax))]


def said_above(ax):
    (text,) = ax.texts
    return text.get_text().replace("\n", " ")


def test_a_strip_for_each_integrator_says_what_the_table_says():
    table = drifting_table()
    figure = plots.drift_over_time(table)
    rows = drift_table(table, step_sizes="smallest")
    said = {row.integrator: f"{row.verdict};  |drift| ≤ {row.bound:.1e} J/s" for row in rows}
    above = texts(figure)
    assert above[::2] == ["variational, h = 0.05", "rk4, h = 0.05"]
    assert [text.partition("; ≥")[0] for text in above[1::2]] == [said["variational"], said["rk4"]]
    assert said["variational"].startswith("no drift seen") and said["rk4"].startswith("linear")
    line = figure.axes[1].lines[1]  # behind the median
    rise = np.diff(line.get_ydata()) / np.diff(line.get_xdata())
    row = next(row for row in rows if row.integrator == "rk4")
    assert rise.item() * 1e-8 == pytest.approx(row.drift)
    assert figure.axes[1].get_ylabel() == "energy error\n[10⁻⁸ J]"


@pytest.mark.parametrize("label", ["variational", "splitting+sofroniou_spaletta10"])
def test_scanned_values_stand_side_by_side_and_nothing_is_clipped(label):
    table = drifting_table({"gravity": (1.0, 9.81)}, (label, "rk4"))
    figure = plots.drift_over_time(table, step_size=0.1)
    assert [text for text in texts(figure) if text.startswith("rk4")] == [
        "rk4, gravity=1, h = 0.1",
        "rk4, gravity=9.81, h = 0.1",
    ]
    figure.draw_without_rendering()
    width, height = figure.canvas.get_width_height()
    boxes = [ax.get_tightbbox(figure.canvas.get_renderer()) for ax in figure.axes]
    assert all(b.x0 >= 0 and b.x1 <= width and b.y0 >= 0 and b.y1 <= height for b in boxes)
    for one in figure.axes:
        above = [*one.texts, *(t for t in one.get_children() if hasattr(t, "get_text"))]
        boxes = [text.get_window_extent() for text in dict.fromkeys(above) if text.get_text()]
        assert len(boxes) == 2 and not boxes[0].overlaps(boxes[1])
        assert all(box.x1 <= one.bbox.x1 + 1.0 for box in boxes)


def test_one_run_and_too_few_intervals_are_drawn_and_said():
    table = drifting_table(starts=("lee",)).isel(time=slice(0, 6))
    said = "no drift measured: 5 sample intervals, 8 or more are needed"
    assert said in texts(plots.drift_over_time(table))


def test_bad_input_says_what_there_is():
    table = drifting_table()
    with pytest.raises(InputError, match="Did you mean 'energy'"):
        plots.drift_over_time(table, "enrgy")
    table["status"][:], table["sample_count"][:] = 3, 1  # they fail before the first sample
    with pytest.raises(InputError, match="none of the selected runs is complete"):
        plots.drift_over_time(table)
