"""Pictures of window means of invariant errors over time, and of their measured drift."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from integrators.errors import InputError
from sweep.analysis.drift.cell_errors import chosen_drift_quantities, read_cell_errors
from sweep.analysis.drift.drifts import drift_table
from sweep.analysis.runs import selection
from sweep.plots import style
from sweep.plots.drawn_runs import curves_to_draw
from sweep.plots.scan_plots import draw_scan, scan_of_drifts
from sweep.text import escape_control_characters

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from sweep.analysis.drift.drifts import DriftEstimate

MOST_STARTS = 4096  # maximum number of starts that are drawn, chosen evenly
MOST_COLUMNS, MOST_STRIPS = 3, 12
BESIDE = 0.4  # inches: distance of the labels from the axes, so that they line up
LINE = 0.15  # inches: height of each of the two lines above a strip
BAND = (0.05, 0.95)  # quantiles over the starts


@rc_context(style.STYLE)
def drift_over_time(
    dataset: xr.Dataset | xr.DataTree,
    quantity: str | None = None,
    step_size: float | None = None,
    x: str | None = None,
) -> style.Drawing:
    """Draw window means of the signed error over time, and the drift with its 95 % interval.

    There is a strip for each integrator, with its own scale, and a column for each combination of
    scanned values. If there are more than three combinations, or if `x` is given, the drifts are
    drawn against a scanned axis instead. The line is the mean over the starts, and the band
    contains 90 % of them. The wedge shows the mean errors for drifts within the interval. The lines
    above a strip give the verdict and the largest drift that is not excluded. They also name the
    integrator with the smallest drift among those that certainly drift more at the same step size,
    and the factor between the two drifts.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    quantity : str, optional
        ``energy``, ``momentum``, …; by default the energy.
    step_size : float, optional
        Each integrator is drawn at its step size nearest to this one; by default, nearest to the
        smallest step size that most integrators share.
    x : str, optional
        A scanned axis to draw the drifts against.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        If the quantity has no error in the dataset, no run is complete, or more than twelve
        integrators are selected.
    """
    table: xr.Dataset = selection.run_table_without_repeats(dataset)
    (quantity,) = chosen_drift_quantities(
        table, [quantity or selection.name_of_energy_quantity(table)]
    )
    combinations = list(selection.groups_of_runs(table, selection.scanned_axes(table)))
    styles = style.curve_styles_of_integrators(table)
    if x is not None or len(combinations) > (1 if style.current_page().narrow else MOST_COLUMNS):
        return draw_scan(scan_of_drifts(table, x, quantity), styles)
    curves = curves_to_draw(table, step_size)
    shown = selection.take_runs(table, np.sort(np.concatenate([curve.runs for curve in curves])))
    rows = {
        (row.integrator, selection.axis_values_in_words(row.parameters)): row
        for row in drift_table(shown, [quantity])
    }
    strips: dict[tuple[str, str], DriftStrip] = {}
    steps = {}
    for curve in curves:
        cell = curve.integrator, curve.values
        steps[cell] = curve.step
        if rows[cell].starts:
            strips[cell] = DriftStrip.of_cell(
                selection.take_runs(table, curve.runs), rows[cell], MOST_STARTS
            )
    if not strips:
        raise InputError("none of the selected runs is complete.")
    columns = list(dict.fromkeys(values for _, values in strips))
    of_integrators = {name: [s for (own, _), s in strips.items() if own == name] for name in styles}
    of_integrators = {name: own for name, own in of_integrators.items() if own}
    if len(of_integrators) > MOST_STRIPS:
        raise InputError(
            f"{len(of_integrators)} integrators are selected; a figure has at most {MOST_STRIPS}: "
            "select some (sweep plot --where, or query)."
        )
    width = style.figure_width(7.0 if len(columns) == 1 else 1.2 + 4.4 * len(columns))
    figure = style.new_figure(width, 0.7 + 1.4 * len(of_integrators))
    axes = figure.subplots(
        len(of_integrators), len(columns), sharex=True, sharey="row", squeeze=False
    )
    for in_row, (name, own) in zip(axes, of_integrators.items(), strict=True):
        largest = max(strip.largest for strip in own)
        power = math.floor(math.log10(largest)) if largest > 0 else 0
        labelled, lines = False, 2
        for ax, values in zip(in_row, columns, strict=True):
            if (name, values) not in strips:
                ax.remove()
                continue
            strip, colour = strips[name, values], styles[name]["color"]
            _draw_drift_strip(ax, strip, power, colour)
            title = ", ".join(filter(None, [name, values, steps[name, values]]))
            said = _title_drift_strip(ax, strip.row, title, colour, width / len(columns) - 0.8)
            lines = max(lines, said)
            if not labelled:
                ax.set_ylabel(_drift_axis_label(strip.row, power), fontsize=8)
                beside = ScaledTranslation(-BESIDE, 0.0, figure.dpi_scale_trans)
                ax.yaxis.set_label_coords(0.0, 0.5, ax.transAxes + beside)
            labelled = True
            ax.set_xlim(*table["time"].values[[0, -1]])
        figure.set_figheight(figure.get_figheight() + LINE * (lines - 2))
    for ax in axes[-1]:
        ax.set_xlabel(style.axis_label_with_units(table["time"], "time t"))
    counts = [strip.starts for strip in strips.values()]
    figure.starts = style.starts_in_words(table, counts)
    over = "mean and 90 % of " * (max(counts) > 1) + figure.starts
    figure.add_caption(
        f"{quantity.replace('_', ' ')} error, window means: {over}; wedge: drift over "
        f"{next(iter(rows.values())).span}, 95 %",
    )
    return figure


@dataclass(frozen=True, eq=False)
class DriftStrip:
    """Curves of one integrator at one combination of scanned values.

    Parameters
    ----------
    row : DriftEstimate
    starts : int
        Number of initial conditions that the curves are drawn from.
    times, middle, low, high : ndarray, shape (windows,)
        Times of the windows, mean over the starts, and the bounds of the band with 90 % of them.
    ends, fitted, least, most : ndarray, shape (2,)
        Times of the first and the last window; the mean error at these times according to the
        drift, and according to the ends of its interval. NaN if no drift was measured.
    """

    row: DriftEstimate
    starts: int
    times: NDArray[np.float64]
    middle: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    ends: NDArray[np.float64]
    fitted: NDArray[np.float64]
    least: NDArray[np.float64]
    most: NDArray[np.float64]

    @classmethod
    def of_cell(cls, cell: xr.Dataset, row: DriftEstimate, most: int) -> DriftStrip:
        """Make the curves from the runs of one integrator, with at most `most` starts."""
        errors = read_cell_errors(cell, row.quantity)
        shown = np.linspace(0, errors.starts - 1, min(most, errors.starts)).astype(int)
        times, means = errors.times, errors.windows[shown]
        ends = np.array([times[0], times[-1]])
        fitted, least, most_fitted = (
            means.mean() + slope * (ends - ends.mean()) for slope in (row.drift, row.low, row.high)
        )
        low, high = np.quantile(means, BAND, axis=0)
        middle = means.mean(axis=0)
        return cls(row, len(means), times, middle, low, high, ends, fitted, least, most_fitted)

    @property
    def largest(self) -> float:
        """The largest absolute value of an error that is drawn."""
        drawn = (self.middle, self.low, self.high, self.fitted, self.least, self.most)
        return max(float(np.nanmax(np.abs(one), initial=0.0)) for one in drawn)


def _drift_axis_label(row: DriftEstimate, power: int) -> str:
    """The label of a strip: the quantity, and in a second line the power of ten and the units."""
    scale = f"10{style.superscript_number(power)}" if power else ""
    units = f"{scale} {style.units_with_superscripts(row.units)}".strip()
    return "\n".join(
        [f"{row.quantity.replace('_', ' ')} error", *([f"[{units}]"] if units else [])]
    )


def _draw_drift_strip(ax: Axes, strip: DriftStrip, power: int, colour: str) -> None:
    """Draw mean and band over the starts, and the wedge of the drift, in units of 10^`power`."""
    unit = 10.0**power
    if strip.starts > 1:
        ax.fill_between(
            strip.times, strip.low / unit, strip.high / unit, color=colour, alpha=0.22, lw=0
        )
    ax.plot(strip.times, strip.middle / unit, color=colour, lw=1.0)
    own = {
        "y_quantity": f"{strip.row.quantity.replace('_', ' ')} error",
        "y_unit": style.units_with_superscripts(strip.row.units),
    }
    name = strip.row.integrator
    style.note_numbers(
        ax, name, "line", strip.times, strip.middle, low=strip.low, high=strip.high, **own
    )
    if not math.isnan(strip.row.drift):
        sides = strip.least / unit, strip.most / unit
        ax.fill_between(strip.ends, *sides, color="0.2", alpha=0.25, lw=0, zorder=3)
        ax.plot(strip.ends, strip.fitted / unit, color="black", lw=0.9, zorder=4)
        low, high = np.sort([strip.least, strip.most], axis=0)
        style.note_numbers(
            ax, f"{name}: drift", "line", strip.ends, strip.fitted, low=low, high=high, **own
        )
    style.style_plain_axis(ax)
    ax.axhline(0.0, color=style.GREY, lw=0.5, zorder=0)
    ax.yaxis.set_major_locator(MaxNLocator(3))


def _title_drift_strip(ax: Axes, row: DriftEstimate, title: str, colour: str, width: float) -> int:
    """Write the title and the verdict above a strip; return the number of lines.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    row : DriftEstimate
    title, colour : str
    width : float
        Width of the strip in inches.

    Returns
    -------
    int
    """
    said = [row.in_words if row.reason else f"{row.verdict};  |drift| ≤ {row.bound:.1e} {row.rate}"]
    said += [f"{one} (95 %)" for one in row.compared if one.equal_step][:1]
    said = [escape_control_characters(one) for one in said]
    small: dict[str, Any] = {"fontsize": 8.0, "color": "0.15", "va": "bottom", "linespacing": 1.15}
    below = ax.text(0.0, 1.02, "; ".join(said), transform=ax.transAxes, **small)
    if style.size_in_inches(below)[0] > width:
        below.set_text("\n".join(said))
        style.wrap_text(below, width)
    lines = below.get_text().count("\n") + 1
    bold: dict[str, Any] = {"fontsize": 8.5, "color": colour, "fontweight": "bold", "loc": "left"}
    above = ax.set_title(escape_control_characters(title), pad=6.0 + 10.5 * lines, **bold)
    style.wrap_text(above, width)
    return lines + above.get_text().count("\n") + 1
