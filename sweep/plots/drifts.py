"""How far the error of an invariant wanders over a run, and the drift that its table gives."""

import math
import textwrap
from dataclasses import dataclass

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
    CHARACTER,
    GREY,
    STYLE,
    add_figure_caption,
    axis_label_with_units,
    curve_styles_of_integrators,
    figure_width,
    fitting_size,
    is_compact_figure,
    new_figure,
    note_numbers,
    style_log_time_axis,
    style_plain_axis,
    superscript_number,
    units_with_superscripts,
)

MOST_STARTS = 4096  # that are drawn; of more, so many spread evenly over them
MOST_COLUMNS, MOST_STRIPS = 3, 12
BAND = (0.05, 0.95)  # of the starts


def drift_over_time(dataset, quantity=None, step_size=None):
    """Window means of the signed error over time, and the drift with its 95 % interval.

    A strip for each integrator, each with its own scale, and a column for each combination of
    scanned values. The line is the median over the starts, the band holds 90 % of them; the wedge
    is what the drifts within the interval make of the mean. Above a strip stand the verdict and
    the largest drift that is not excluded, and how many times less that is than the drift of the
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
    styles = curve_styles_of_integrators(dataset)
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
    columns, strips = _drift_figure_layout(cells, styles)
    with rc_context(STYLE):
        figure = _new_drift_figure(len(columns), len(strips))
        shape = len(strips), len(columns)
        axes = figure.subplots(*shape, sharex=True, sharey="row", squeeze=False)
        found = {
            key: DriftStrip.of_cell(cell, rows[key], MOST_STARTS) for key, cell in cells.items()
        }
        for (panel, integrator), strip in found.items():
            row = axes[strips.index(integrator)]
            ax = row[columns.index(panel)]
            said = [integrator, *([panel] if panel else []), steps[panel, integrator]]
            same = [found[key].largest for key in found if key[1] == integrator]
            power = _power_of_ten(max(same))
            _draw_drift_strip(ax, strip, power, styles[integrator]["color"])
            _title_drift_strip(ax, strip.row, said, styles[integrator]["color"])
            if ax is row[0] or not row[0].has_data():
                ax.set_ylabel(_drift_axis_label(strip.row, power), fontsize=8)
        figure.shown = Shown.of_run_table(dataset, [strip.starts for strip in found.values()])
        _label_drift_axes(figure, axes, dataset, rows, quantity)
        figure.align_ylabels()
    return figure


def _new_drift_figure(columns, strips):
    """An empty figure for so many columns and strips, which have a line more where it is narrow."""
    width = figure_width(7.0 if columns == 1 else 1.2 + 4.4 * columns)
    return new_figure(width, 0.9 + 1.5 * strips if is_compact_figure() else 0.7 + 1.3 * strips)


def _drift_figure_layout(cells, styles):
    """The columns and the strips of a figure; `InputError` where they are none or too many."""
    if not cells:
        raise InputError("none of the selected runs is complete.")
    columns = list(dict.fromkeys(panel for panel, _ in cells))
    there = {integrator for _, integrator in cells}
    strips = [label for label in styles if label in there]
    most = 1 if is_compact_figure() else MOST_COLUMNS
    if len(columns) > most or len(strips) > MOST_STRIPS:
        raise InputError(
            f"{len(columns)} combinations of scanned values and {len(strips)} integrators are "
            f"selected, and a figure holds {most} and {MOST_STRIPS}: select some "
            "(sweep plot --where, or query)."
        )
    return columns, strips


@dataclass(frozen=True, eq=False)
class DriftStrip:
    """What is drawn of one integrator.

    Parameters
    ----------
    row : DriftEstimate
    starts : int
    times, middle, low, high : ndarray, shape (windows,)
        Window means over time: median over the starts, and where 90 % of them are.
    ends, fitted, least, most : ndarray, shape (2,)
        From the first window to the last what the drift makes of the mean, and the ends of its
        interval; NaN where there is none.
    """

    row: object
    starts: int
    times: np.ndarray
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray
    ends: np.ndarray
    fitted: np.ndarray
    least: np.ndarray
    most: np.ndarray

    @classmethod
    def of_cell(cls, cell, row, most):
        """Of the runs of one integrator; of more than so many starts, these spread over them."""
        times, means = read_cell_window_means(cell, row.quantity, most)
        ends = np.array([times[0], times[-1]])
        wedge = [
            means.mean() + slope * (ends - ends.mean()) for slope in (row.drift, row.low, row.high)
        ]
        band = np.quantile(means, BAND, axis=0)
        return cls(row, len(means), times, np.median(means, axis=0), *band, ends, *wedge)

    @property
    def largest(self):
        """The largest size that is drawn."""
        drawn = (self.middle, self.low, self.high, self.fitted, self.least, self.most)
        return max(float(np.nanmax(np.abs(one), initial=0.0)) for one in drawn)


def _power_of_ten(size):
    return math.floor(math.log10(size)) if size > 0 else 0


def _drift_axis_label(row, power):
    """The quantity, and below it the power of ten and units that the numbers are of."""
    scale = f"10{superscript_number(power)}" if power else ""
    units = f"{scale} {units_with_superscripts(row.units)}".strip()
    return "\n".join(
        [f"{row.quantity.replace('_', ' ')} error", *([f"[{units}]"] if units else [])]
    )


def _draw_drift_strip(ax, strip, power, colour):
    """What the starts of one integrator do, and the wedge of its drift, in such a power of ten."""
    unit = 10.0**power
    if strip.starts > 1:
        ax.fill_between(
            strip.times, strip.low / unit, strip.high / unit, color=colour, alpha=0.22, lw=0
        )
    ax.plot(strip.times, strip.middle / unit, color=colour, lw=1.0)
    own = {
        "y_quantity": f"{strip.row.quantity.replace('_', ' ')} error",
        "y_unit": units_with_superscripts(strip.row.units),
    }
    name = strip.row.integrator
    note_numbers(ax, name, "line", strip.times, strip.middle, low=strip.low, high=strip.high, **own)
    if not math.isnan(strip.row.drift):
        sides = strip.least / unit, strip.most / unit
        ax.fill_between(strip.ends, *sides, color="0.2", alpha=0.25, lw=0, zorder=3)
        ax.plot(strip.ends, strip.fitted / unit, color="black", lw=0.9, zorder=4)
        low, high = np.sort([strip.least, strip.most], axis=0)
        note_numbers(
            ax, f"{name}: drift", "line", strip.ends, strip.fitted, low=low, high=high, **own
        )
    style_plain_axis(ax)
    ax.axhline(0.0, color=GREY, lw=0.5, zorder=0)
    ax.yaxis.set_major_locator(MaxNLocator(3))


def _title_drift_strip(ax, row, said, colour):
    """Above a strip its integrator, the verdict, and how much less it drifts than another."""
    found = f"{row.verdict};  |drift| ≤ {row.bound:.1e} {row.rate}"
    if row.reason:
        found = "undecided;  no drift measured" if row.verdict == UNDECIDED else row.in_words
    closest = next((one for one in row.compared if one.equal_step), None)
    small, bold = {"fontsize": 8, "color": "0.15"}, {"fontsize": 8.5, "color": colour}
    bold |= {"fontweight": "bold", "loc": "left"}
    compared = [] if closest is None else [f"{closest} (95 %)"]
    if is_compact_figure():  # one above the other
        width = ax.get_figure().get_figwidth() - 0.8
        most = int(width / (small["fontsize"] * CHARACTER))
        lines = [part for line in (found, *compared) for part in textwrap.wrap(line, most)]
        bold["fontsize"] = fitting_size(", ".join(said), 8.5, 0.9 * width)
        ax.set_title(", ".join(said), pad=6.0 + 10.5 * len(lines), **bold)
        place = {"va": "bottom", "transform": ax.transAxes, "linespacing": 1.15}
        ax.text(0.0, 1.02, "\n".join(lines), **place, **small)
        return
    ax.set_title(", ".join(said), **bold)
    ax.set_title("\n".join([found, *compared]), loc="right", linespacing=1.15, **small)


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
