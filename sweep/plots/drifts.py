"""How far the error of an invariant wanders over a run, and the drift that its table gives."""

import math

import numpy as np
from matplotlib import rc_context
from matplotlib.ticker import MaxNLocator

from integrators.errors import InputError
from sweep.analysis.drift.cells import chosen_drift_quantities, read_cell_window_means
from sweep.analysis.drift.drifts import drift_table
from sweep.analysis.drift.verdicts import UNDECIDED
from sweep.analysis.runs.selection import (
    axis_values_in_words,
    groups_of_runs,
    name_of_energy_quantity,
    run_table_without_repeats,
    scanned_axes,
    take_runs,
)
from sweep.plots.captions import Shown
from sweep.plots.selection import runs_to_draw
from sweep.plots.style import (
    GREY,
    NARROW,
    STYLE,
    add_figure_caption,
    axis_label_with_units,
    curve_looks_of_integrators,
    is_compact_figure,
    new_figure,
    style_log_time_axis,
    style_plain_axis,
    superscript_number,
)

MOST_STARTS = 4096  # that are drawn; of more, so many spread evenly over them
MOST_COLUMNS, MOST_STRIPS = 3, 12
BAND = (0.05, 0.95)  # of the starts


def drift_over_time(dataset, quantity=None, step_size=None):
    """Window means of the signed error over time, and the drift with its 95 % interval.

    A strip for each integrator, each with its own scale, and a column for each combination of
    scanned values. The line is the median over the starts, the band holds 90 % of them; the wedge
    is what the drifts within the interval make of the mean. Above a strip stand the verdict and
    the largest drift that is not excluded; in it how many times less that is than the drift of the
    integrator that drifts least of those that surely drift more at equal step size.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    quantity : str, optional
        ``energy``, ``momentum``, …; by default the energy.
    step_size : float, optional
        Each integrator is shown at its step size nearest to this one; by default the smallest
        of those that most integrators share.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        When the quantity has no error in the dataset, no run is complete, or the selection would
        fill more than three columns of twelve strips.
    """
    dataset = run_table_without_repeats(dataset)
    (quantity,) = chosen_drift_quantities(dataset, [quantity or name_of_energy_quantity(dataset)])
    looks = curve_looks_of_integrators(dataset)
    runs, steps = runs_to_draw(dataset, step_size)
    shown = take_runs(dataset, runs)
    rows = {
        (axis_values_in_words(r.parameters), r.integrator): r
        for r in drift_table(shown, [quantity])
    }
    cells = {}
    for key, members in groups_of_runs(shown, [*scanned_axes(shown), "integrator"]):
        integrator = key.pop("integrator")
        cells[axis_values_in_words(key), integrator] = take_runs(shown, members)
    cells = {key: cell for key, cell in cells.items() if rows[key].starts}
    columns, strips = _drift_figure_layout(cells, looks)
    with rc_context(STYLE):
        figure = _new_drift_figure(len(columns), len(strips))
        axes = figure.subplots(len(strips), len(columns), sharex=True, squeeze=False)
        counts = []
        for (panel, integrator), cell in cells.items():
            ax = axes[strips.index(integrator), columns.index(panel)]
            row = rows[panel, integrator]
            said = [integrator, *([panel] if panel else []), steps[panel, integrator]]
            counts.append(_draw_drift_strip(ax, cell, row, said, looks[integrator]["color"]))
        figure.shown = Shown.of_run_table(dataset, counts)
        _label_drift_axes(figure, axes, dataset, rows, quantity)
    return figure


def _new_drift_figure(columns, strips):
    """An empty figure for so many columns and strips, which have a line more where it is narrow."""
    if is_compact_figure():
        return new_figure(NARROW, 0.9 + 1.35 * strips)
    return new_figure(7.0 if columns == 1 else 1.2 + 4.4 * columns, 0.7 + 1.25 * strips)


def _drift_figure_layout(cells, looks):
    """The columns and the strips of a figure; `InputError` where they are none or too many."""
    if not cells:
        raise InputError("none of the selected runs is complete.")
    columns = list(dict.fromkeys(panel for panel, _ in cells))
    there = {integrator for _, integrator in cells}
    strips = [label for label in looks if label in there]
    most = 1 if is_compact_figure() else MOST_COLUMNS
    if len(columns) > most or len(strips) > MOST_STRIPS:
        raise InputError(
            f"{len(columns)} combinations of scanned values and {len(strips)} integrators are "
            f"selected, and a figure holds {most} and {MOST_STRIPS}: select some "
            "(sweep plot --where, or query)."
        )
    return columns, strips


def _draw_drift_strip(ax, cell, row, said, colour):
    """One integrator: what its starts do, and the wedge of its drift; how many starts."""
    times, means = read_cell_window_means(cell, row.quantity, MOST_STARTS)
    middle = np.median(means, axis=0)
    low, high = np.quantile(means, BAND, axis=0)
    centre, ends = means.mean(), np.array([times[0], times[-1]])
    lines = [centre + slope * (ends - ends.mean()) for slope in (row.drift, row.low, row.high)]
    drawn = [middle, low, high, *([] if math.isnan(row.drift) else lines)]
    largest = max(float(np.abs(one).max()) for one in drawn)
    power = math.floor(math.log10(largest)) if largest > 0 else 0
    unit = 10.0**power
    if len(means) > 1:
        ax.fill_between(times, low / unit, high / unit, color=colour, alpha=0.22, lw=0)
    ax.plot(times, middle / unit, color=colour, lw=1.0)
    if not math.isnan(row.drift):
        fitted, *sides = (line / unit for line in lines)
        ax.fill_between(ends, *sides, color="0.2", alpha=0.25, lw=0, zorder=3)
        ax.plot(ends, fitted, color="black", lw=0.9, zorder=4)
    style_plain_axis(ax)
    ax.axhline(0.0, color=GREY, lw=0.5, zorder=0)
    ax.yaxis.set_major_locator(MaxNLocator(3))
    units = "" if row.units == "1" else row.units
    scale = f"10{superscript_number(power)}" if power else ""
    ax.set_ylabel(f"{scale} {units}".strip() or "1", fontsize=8)
    bold = {"fontsize": 8.5, "color": colour, "fontweight": "bold"}
    found = f"{row.verdict};  |drift| ≤ {row.bound:.1e} {row.rate}"
    if row.reason:
        found = "undecided;  no drift measured" if row.verdict == UNDECIDED else row.in_words
    if is_compact_figure():  # one above the other
        ax.set_title(", ".join(said), loc="left", pad=17.0, **bold)
        ax.text(0.0, 1.0, found, va="bottom", transform=ax.transAxes, fontsize=8, color="0.15")
    else:
        ax.set_title(", ".join(said), loc="left", **bold)
        ax.set_title(found, loc="right", fontsize=8, color="0.15")
    closest = next((one for one in row.compared if one.equal_step), None)
    if closest is not None:
        ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1.0}
        at = {"ha": "right", "va": "top", "transform": ax.transAxes, "bbox": ground, "zorder": 5}
        ax.text(0.995, 0.95, f"{closest} (95 %)", fontsize=7, color="0.15", **at)
    return len(means)


def _label_drift_axes(figure, axes, dataset, rows, quantity):
    """Axes of time below, and above it what is drawn."""
    times = dataset["time"].values
    widths = np.diff(times)
    spread = len(np.unique(np.round(widths / widths[0], 6))) > 4 and widths.max() > 3 * widths[0]
    for ax in axes.flat:
        if not ax.has_data():
            ax.remove()
            continue
        if spread:
            style_log_time_axis(ax)
            ax.set_xlim(times[1] / 2, times[-1])
        else:
            ax.set_xlim(times[0], times[-1])
    for ax in axes[-1]:
        ax.set_xlabel(axis_label_with_units(dataset["time"], "time t"))
    row = next(iter(rows.values()))
    starts = figure.shown.starts_in_words
    of = f"median and 90 % of {starts}" if max(figure.shown.counts) > 1 else starts
    name = quantity.replace("_", " ")
    text = f"{name} error, window means: {of}; wedge: drift over {row.span}, 95 %"
    add_figure_caption(figure, text)
