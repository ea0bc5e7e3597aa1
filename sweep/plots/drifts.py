"""Errors of invariants over time by window means, and their measured drift."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.ticker import MaxNLocator

from integrators.errors import InputError
from sweep.analysis.drift.cells import chosen_drift_quantities, read_cell_errors
from sweep.analysis.drift.drifts import drift_table
from sweep.analysis.runs.selection import (
    axis_values_in_words,
    groups_of_runs,
    name_of_energy_quantity,
    run_table_without_repeats,
    scanned_axes,
    take_runs,
)
from sweep.plots.scans import draw_scan, scan_of_drifts
from sweep.plots.selection import Cell, runs_to_draw
from sweep.plots.style import (
    CHARACTER,
    GREY,
    STYLE,
    Coverage,
    Drawing,
    add_figure_caption,
    axis_label_with_units,
    curve_styles_of_integrators,
    figure_width,
    fitting_size,
    is_compact_figure,
    new_figure,
    note_numbers,
    style_plain_axis,
    superscript_number,
    units_with_superscripts,
)

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from sweep.analysis.drift.drifts import DriftEstimate

MOST_STARTS = 4096  # of more starts so many are drawn, evenly spread over them
MOST_COLUMNS, MOST_STRIPS = 3, 12
BOLD, SMALL = 8.5, 8.0  # points, of titles and of what is beside them
WIDER = 0.9  # what is bold is wider by so much
BAND = (0.05, 0.95)  # quantiles over the starts


def drift_over_time(
    dataset: xr.Dataset | xr.DataTree,
    quantity: str | None = None,
    step_size: float | None = None,
    x: str | None = None,
) -> Drawing:
    """Draw window means of the signed error over time, and the drift with its 95 % interval.

    There is a strip for each integrator, with its own scale, and a column for each combination of
    scanned values; where these are more than three, and where `x` is given, the drifts are drawn
    against a scanned axis. The line is the mean over the starts, the band holds 90 % of them. The
    wedge spans the mean errors that drifts within the interval give. Above a strip stand the
    verdict and the largest drift that is not excluded; and how many times less that is than the
    drift of the integrator that drifts least of those that surely drift more at equal step size.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    quantity : str, optional
        ``energy``, ``momentum``, …; by default the energy.
    step_size : float, optional
        Each integrator is drawn at its step size nearest to this one; by default to the smallest
        of those that most integrators share.
    x : str, optional
        A scanned axis, against which to draw the drifts.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        When the quantity has no error in the dataset, no run is complete, or more than twelve
        integrators are selected.
    """
    table: xr.Dataset = run_table_without_repeats(dataset)
    (quantity,) = chosen_drift_quantities(table, [quantity or name_of_energy_quantity(table)])
    combinations = list(groups_of_runs(table, scanned_axes(table)))
    styles = curve_styles_of_integrators(table)
    if x is not None or len(combinations) > (1 if is_compact_figure() else MOST_COLUMNS):
        return draw_scan(scan_of_drifts(table, x, quantity), styles)
    runs, steps = runs_to_draw(table, step_size)
    shown = take_runs(table, runs)
    rows: dict[Cell, DriftEstimate] = {
        (axis_values_in_words(r.parameters), r.integrator): r
        for r in drift_table(shown, [quantity])
    }
    cells: dict[Cell, xr.Dataset] = {}
    for key, members in groups_of_runs(shown, [*scanned_axes(shown), "integrator"]):
        integrator = key.pop("integrator")
        cells[axis_values_in_words(key), integrator] = take_runs(shown, members)
    cells = {key: cell for key, cell in cells.items() if rows[key].starts}
    columns, integrators = _drift_figure_layout(cells, styles)
    strips = {key: DriftStrip.of_cell(cell, rows[key], MOST_STARTS) for key, cell in cells.items()}
    titles = {
        (values, integrator): ", ".join(
            filter(None, [integrator, values, steps[values, integrator]])
        )
        for values, integrator in strips
    }
    width = figure_width(7.0 if len(columns) == 1 else 1.2 + 4.4 * len(columns))
    strip_width = width / len(columns) - 0.8
    is_stacked = is_compact_figure() or any(
        _width_of_titles(titles[key], strip.row) > strip_width for key, strip in strips.items()
    )
    with rc_context(STYLE):
        height = 0.9 + 1.5 * len(integrators) if is_stacked else 0.7 + 1.3 * len(integrators)
        figure = new_figure(width, height)
        axes = figure.subplots(
            len(integrators), len(columns), sharex=True, sharey="row", squeeze=False
        )
        for (values, integrator), strip in strips.items():
            row = axes[integrators.index(integrator)]
            ax = row[columns.index(values)]
            same = [strips[key].largest for key in strips if key[1] == integrator]
            power = _power_of_ten(max(same))
            _draw_drift_strip(ax, strip, power, styles[integrator]["color"])
            title, colour = titles[values, integrator], styles[integrator]["color"]
            _title_drift_strip(ax, strip.row, title, colour, strip_width if is_stacked else None)
            if ax is row[0] or not row[0].has_data():
                ax.set_ylabel(_drift_axis_label(strip.row, power), fontsize=8)
        coverage = Coverage.of_run_table(table, [strip.starts for strip in strips.values()])
        figure.coverage = coverage
        _label_drift_axes(axes, table)
        over = coverage.starts_in_words
        if max(coverage.counts) > 1:
            over = f"mean and 90 % of {over}"
        add_figure_caption(
            figure,
            f"{quantity.replace('_', ' ')} error, window means: {over}; wedge: drift over "
            f"{next(iter(rows.values())).span}, 95 %",
        )
        figure.align_ylabels()
    return figure


def _drift_figure_layout(
    cells: Collection[Cell], labels: Collection[str]
) -> tuple[list[str], list[str]]:
    """Columns and strips of a figure.

    Parameters
    ----------
    cells : collection of (str, str)
        Scanned values and integrators that are drawn.
    labels : collection of str
        Integrators in the order of the strips.

    Returns
    -------
    values : list of str
        The scanned values of each column.
    integrators : list of str
        The integrator of each strip.

    Raises
    ------
    InputError
        Where there is nothing to draw, or more than fits.
    """
    if not cells:
        raise InputError("none of the selected runs is complete.")
    columns = list(dict.fromkeys(values for values, _ in cells))
    drawn = {integrator for _, integrator in cells}
    strips = [label for label in labels if label in drawn]
    if len(strips) > MOST_STRIPS:
        raise InputError(
            f"{len(strips)} integrators are selected, and a figure holds {MOST_STRIPS}: select "
            "some (sweep plot --where, or query)."
        )
    return columns, strips


@dataclass(frozen=True, eq=False)
class DriftStrip:
    """Curves of one integrator at one combination of scanned values.

    Parameters
    ----------
    row : DriftEstimate
    starts : int
        Initial conditions that the curves are drawn from.
    times, middle, low, high : ndarray, shape (windows,)
        Window means over time: mean over the starts, and the ends of the band of 90 % of them.
    ends, fitted, least, most : ndarray, shape (2,)
        Times of the first and the last window, the mean error there by the drift, and by the ends
        of its interval; NaN where no drift is measured.
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
        """Curves from the runs of one integrator, with at most `most` starts."""
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
        """The largest size of an error that is drawn."""
        drawn = (self.middle, self.low, self.high, self.fitted, self.least, self.most)
        return max(float(np.nanmax(np.abs(one), initial=0.0)) for one in drawn)


def _power_of_ten(size: float) -> int:
    return math.floor(math.log10(size)) if size > 0 else 0


def _drift_axis_label(row: DriftEstimate, power: int) -> str:
    """The label of a strip: the quantity, and below it the power of ten and the units."""
    scale = f"10{superscript_number(power)}" if power else ""
    units = f"{scale} {units_with_superscripts(row.units)}".strip()
    return "\n".join(
        [f"{row.quantity.replace('_', ' ')} error", *([f"[{units}]"] if units else [])]
    )


def _draw_drift_strip(ax: Axes, strip: DriftStrip, power: int, colour: str) -> None:
    """Draw mean and band over the starts, and the wedge of the drift, in a power of ten."""
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


def _remarks_on_drift(row: DriftEstimate) -> list[str]:
    """The verdict, and how much less it drifts than another."""
    found = row.in_words if row.reason else f"{row.verdict};  |drift| ≤ {row.bound:.1e} {row.rate}"
    closest = next((one for one in row.compared if one.equal_step), None)
    return [found] if closest is None else [found, f"{closest} (95 %)"]


def _width_of_titles(title: str, row: DriftEstimate) -> float:
    """How wide a title and the remarks beside it are, in inches, with a gap between them."""
    return CHARACTER * (
        BOLD * (len(title) / WIDER + 2) + SMALL * max(map(len, _remarks_on_drift(row)))
    )


def _title_drift_strip(
    ax: Axes, row: DriftEstimate, title: str, colour: str, stacked: float | None
) -> None:
    """Write a title and remarks above a strip; one above the other where a width is given."""
    remarks = _remarks_on_drift(row)
    small: dict[str, Any] = {"fontsize": SMALL, "color": "0.15"}
    bold: dict[str, Any] = {"fontsize": BOLD, "color": colour, "fontweight": "bold", "loc": "left"}
    if stacked is not None:
        most = int(stacked / (SMALL * CHARACTER))
        lines = [part for line in remarks for part in textwrap.wrap(line, most)]
        bold["fontsize"] = fitting_size(title, BOLD, WIDER * stacked)
        ax.set_title(title, pad=6.0 + 10.5 * len(lines), **bold)
        small |= {"va": "bottom", "transform": ax.transAxes, "linespacing": 1.15}
        ax.text(0.0, 1.02, "\n".join(lines), **small)
        return
    ax.set_title(title, **bold)
    ax.set_title("\n".join(remarks), loc="right", linespacing=1.15, **small)


def _label_drift_axes(axes: NDArray[Any], dataset: xr.Dataset) -> None:
    """Style and label the axes of time, and remove panels without data.

    Parameters
    ----------
    axes : ndarray of matplotlib.axes.Axes, shape (strips, columns)
    dataset : xarray.Dataset
    """
    times = dataset["time"].values
    for ax in axes.flat:
        if not ax.has_data():
            ax.remove()
            continue
        ax.set_xlim(times[0], times[-1])
    for ax in axes[-1]:
        ax.set_xlabel(axis_label_with_units(dataset["time"], "time t"))
