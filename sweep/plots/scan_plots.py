"""Pictures of results against an axis of a study, instead of a panel for each value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context

from integrators.errors import InputError, check_known
from sweep.analysis.convergence.curves import run_table_has_error
from sweep.analysis.convergence.orders import order_table
from sweep.analysis.drift.drifts import drift_table
from sweep.analysis.efficiency.pareto import rank_at_levels
from sweep.analysis.efficiency.work import chosen_errors_for_work, work_table
from sweep.analysis.rows import grouped
from sweep.analysis.runs import selection
from sweep.analysis.runs.summaries import AT, OF_SERIES, default_result_columns, results
from sweep.plots import style
from sweep.plots.drawn_runs import runs_to_draw
from sweep.plots.families import panel_families_of_integrators, panel_title
from sweep.text import format_number, join_with_and

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

STEPS = ("step_size", "tolerance")
AXES = ("integrator", *STEPS, "initial_condition")  # besides scanned axes
WIDE = 30  # an axis is logarithmic if the ratio of its ends is at least this
FIRST_RUNS = 64  # number of runs that are read to find the end of the reference


@dataclass(frozen=True)
class Point:
    """A point of a series in a panel, with its interval or range.

    A point that is not filled is an upper bound.
    """

    panel: str
    series: str
    x: Any
    y: float
    low: float
    high: float
    filled: bool = True


@dataclass(frozen=True, eq=False)
class Scan:
    """Values against an axis of a study.

    Attributes
    ----------
    axis : xarray.DataArray
        The coordinate along ``run`` that values are drawn against.
    label : str
        Quantity and units of the values.
    points : list of Point
    starts : str
        How many starts the points have.
    remark : str
        Explanation of marks and bars.
    levels : tuple of float
        Values that are drawn as horizontal lines.
    error_times : str
        When errors are taken; see `Drawing`.
    """

    axis: xr.DataArray
    label: str
    points: list[Point]
    starts: str
    remark: str = ""
    levels: tuple[float, ...] = ()
    error_times: str = ""

    @property
    def axis_label(self) -> str:
        """Name and units of the axis."""
        return style.axis_label_with_units(self.axis, str(self.axis.name).replace("_", " "))

    @property
    def is_numeric(self) -> bool:
        """Whether the axis has numbers rather than labels."""
        return self.axis.dtype.kind in "iuf"

    @property
    def log(self) -> tuple[bool, bool]:
        """Whether the axes of x and y are logarithmic: values are positive and far apart."""
        wide = self.is_numeric and _spread_is_wide(point.x for point in self.points)
        return wide, _spread_is_wide(point.y for point in self.points)

    def panels(self) -> dict[str, dict[str, list[Point]]]:
        """The points by panel and series, along the axis."""
        found: dict[str, dict[str, list[Point]]] = {}
        for point in self.points:
            found.setdefault(point.panel, {}).setdefault(point.series, []).append(point)
        if self.is_numeric:
            for own in (points for of in found.values() for points in of.values()):
                own.sort(key=lambda point: point.x)
        return found


def _spread_is_wide(values: Iterable[float]) -> bool:
    low, *_, high = sorted([*values] * 2)
    return bool(low > 0 and high >= WIDE * low)


def values_against(
    dataset: xr.Dataset | xr.DataTree,
    x: str | None = None,
    y: str | None = None,
    hue: str | None = None,
    col: str | None = None,
) -> style.Drawing:
    """Draw any result of runs against any axis of a study.

    A mark is the median of the runs with the same `x`, `hue` and `col`, and a bar is their range.
    Unless one of these is the step size, only runs at the smallest step size that most integrators
    share are used.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    x : str, optional
        A coordinate of the runs: a scanned parameter, ``step_size``, ``integrator``, an axis of a
        family of initial conditions, …; by default the scanned axis with most values.
    y : str, optional
        A column of `sweep.results`: ``energy_error@max``, ``evaluations``, …. By default the
        global error at the end, or, without a reference, the maximum error of the energy.
    hue : str, optional
        The coordinate that has a curve for each value; by default the integrators.
    col : str, optional
        The coordinate that has a panel for each value.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        If an axis or result is unknown, no run is complete, or there are more than twelve panels.
    """
    scan = scan_of_values(dataset, x, y, hue, col)
    styles = style.curve_styles_of_integrators(selection.run_table_without_repeats(dataset))
    of_integrators = all(point.series in styles for point in scan.points)
    return draw_scan(scan, styles if of_integrators else None)


def scan_of_values(
    dataset: xr.Dataset | xr.DataTree,
    x: str | None = None,
    y: str | None = None,
    hue: str | None = None,
    col: str | None = None,
) -> Scan:
    """Medians and ranges of a result of runs against an axis; see `values_against`."""
    table: xr.Dataset = selection.run_table_without_repeats(dataset)
    x, y = x or most_scanned_axis(table), y or main_result(table)
    hue = hue or (None if "integrator" in (x, col) else "integrator")
    for which, axis in {"x": x, "hue": hue, "col": col}.items():
        if axis is not None:
            check_known("axis", axis, axes_of_runs(table), key=which)
    names = [name for name in (col, hue, x) if name is not None]
    if len(set(names)) < len(names):
        raise InputError(f"an axis of {', '.join(names)} is given twice: expected others", key="x")
    drawn, said = _complete_runs_to_draw(table, names)
    values = results(drawn, [y])[y]
    if values.dtype.kind not in "biuf":
        raise InputError(f"{y} is no number: expected e.g. {main_result(table)}", key="y")
    points, counts = [], []
    for key, runs in selection.groups_of_runs(drawn, names):
        own = values.values[runs].astype(float)
        own = own[np.isfinite(own)]
        if len(own):
            panel = selection.axis_values_in_words({col: key[col]}) if col else ""
            series = selection.axis_values_in_words({hue: key[hue]}) if hue else ""
            series = str(key[hue]) if hue == "integrator" else series
            points.append(Point(panel, series, key[x], np.median(own), own.min(), own.max()))
            one_each = "initial_condition" in names
            starts = drawn["initial_condition"].values[slice(None) if one_each else runs]
            counts.append(len(selection.distinct_values_and_codes(starts)[0]))
    if not points:
        raise InputError(f"no complete run has a value of {y}.", key="y")
    pooled = ("integrator", *STEPS, *selection.scanned_axes(table), "initial_condition")
    several = [name for name in pooled if name not in names and _count_of_values(drawn, name) > 1]
    if several:
        words = [name.replace("_", " ") + "s" * (name in AXES) for name in several]
        said.append(f"median and range over the {join_with_and(words)}")
    name, _, of = y.partition(AT)
    form = OF_SERIES.get(of, f"{{}} at t = {of}") if of else "{}"
    times = _last_times_of_errors(drawn, name) if of else ()
    when = style.error_times_in_words(table["time"], times, style.REFERENCE)
    return Scan(
        table[x],
        style.axis_label_with_units(values, form.format(name.replace("_", " "))),
        points,
        style.starts_in_words(table, counts),
        "; ".join(said),
        error_times=when,
    )


def axes_of_runs(dataset: xr.Dataset) -> list[str]:
    """The coordinates that a study varies; values can be drawn against these."""
    return [
        str(name)
        for name, axis in dataset.coords.items()
        if axis.dims == ("run",)
        and (name in AXES or name not in selection.RUN_COORDINATES)
        and _count_of_values(dataset, str(name)) > 0
    ]


def _count_of_values(dataset: xr.Dataset, name: str) -> int:
    """Number of distinct values of an axis, without NaN."""
    values = dataset[name].values[~dataset[name].isnull().values]
    return len(selection.distinct_values_and_codes(values)[0])


def most_scanned_axis(dataset: xr.Dataset) -> str:
    """The scanned axis with most values, preferably of numbers; `InputError` if none is scanned."""
    axes = selection.scanned_axes(dataset)
    if not axes:
        raise InputError("no parameter is scanned: name the axis, as in --x step_size.", key="x")
    counts = {name: _count_of_values(dataset, name) for name in axes}
    return max(axes, key=lambda name: (dataset[name].dtype.kind in "iuf", counts[name]))


def main_result(dataset: xr.Dataset) -> str:
    """The most informative result of runs, a column of `sweep.results`."""
    if run_table_has_error(dataset, "global_error"):
        return f"global_error{AT}end"
    energy = f"{selection.name_of_energy_quantity(dataset)}_error"
    errors = [column for column in default_result_columns(dataset) if column.endswith("_error@max")]
    return f"{energy}{AT}max" if energy in dataset else [*errors, "evaluations"][0]


def _complete_runs_to_draw(table: xr.Dataset, axes: Sequence[str]) -> tuple[xr.Dataset, list[str]]:
    """Complete runs with values on some axes; of one step size, unless this is one of the axes."""
    there = selection.complete_runs(table)
    for name in axes:
        there &= ~table[name].isnull().values
    runs, said = np.flatnonzero(there), list[str]()
    if not len(runs):
        raise InputError(f"none of the selected runs is complete and has {' and '.join(axes)}.")
    if not set(axes) & set(STEPS):
        chosen, words = runs_to_draw(table)
        runs = np.intersect1d(runs, chosen)
        said = [" and ".join(words)]
    drawn: xr.Dataset = selection.take_runs(table, runs)
    return drawn, said


def _last_times_of_errors(dataset: xr.Dataset, name: str) -> tuple[float, ...]:
    """The last times at which runs are compared with a reference; empty for other results."""
    if not selection.is_error_against_reference(dataset, name):
        return ()
    there = np.isfinite(dataset[name].isel(run=slice(FIRST_RUNS)).transpose("run", "time").values)
    last = there.shape[1] - 1 - np.argmax(there[:, ::-1], axis=1)
    return tuple(dataset["time"].values[np.unique(last[there.any(axis=1)])].tolist())


def scan_of_orders(
    dataset: xr.Dataset, x: str | None = None, error: str | None = None, at: str = "end"
) -> Scan:
    """Measured orders, with their 95 % intervals, against a scanned axis.

    Parameters
    ----------
    dataset : xarray.Dataset
    x : str, optional
        By default the scanned axis with most values.
    error, at : str, optional
        See `order_table`.

    Returns
    -------
    Scan
    """
    rows = order_table(dataset, error, at)
    declared = sorted({row.declared for row in rows if isinstance(row.declared, int)})
    remark = "bars: 95 % intervals; grey: declared orders"
    return _scan_of_rows(dataset, rows, x, "order", "measured order", remark, tuple(declared))


def scan_of_drifts(dataset: xr.Dataset, x: str | None = None, quantity: str | None = None) -> Scan:
    """Drifts, with their 95 % intervals, against a scanned axis, at the smallest step sizes.

    Parameters
    ----------
    dataset : xarray.Dataset
    x : str, optional
        By default the scanned axis with most values.
    quantity : str, optional
        By default the energy.

    Returns
    -------
    Scan
    """
    quantity = quantity or selection.name_of_energy_quantity(dataset)
    rows = drift_table(dataset, [quantity], "smallest")
    units = {style.units_with_superscripts(row.rate) for row in rows}
    label = f"drift of the {quantity.replace('_', ' ')} error"
    label += f" [{units.pop()}]" if len(units) == 1 and units != {""} else ""
    return _scan_of_rows(dataset, rows, x, "drift", label, "bars: 95 % intervals", (0.0,))


def _scan_of_rows(
    dataset: xr.Dataset,
    rows: Sequence[Any],
    x: str | None,
    value: str,
    label: str,
    remark: str,
    levels: tuple[float, ...],
) -> Scan:
    """A `Scan` of an attribute of each row of an analysis, with its interval."""
    x = _scanned_axis(dataset, x)
    families = panel_families_of_integrators(dataset)
    rows = [row for row in rows if np.isfinite(getattr(row, value))]
    if not rows:
        raise InputError(f"no {label.partition(' [')[0]} could be estimated.")
    points = [
        Point(
            _panel_title(row.parameters, x, families[row.integrator]), row.integrator,
            row.parameters[x], getattr(row, value), row.low, row.high,
        )
        for row in rows
    ]  # fmt: skip
    starts = style.starts_in_words(dataset, [row.starts for row in rows])
    return Scan(dataset[x], label, points, starts, remark, levels)


def scan_of_costs(
    dataset: xr.Dataset,
    x: str | None = None,
    error: str | None = None,
    against: str = "evaluations",
) -> Scan:
    """The work that each integrator needs for an error, against a scanned axis.

    The error is a power of ten: one that most integrators reach at most values of the axis; among
    these, the smallest one for which most work was measured on both sides. If all errors of an
    integrator are smaller, its least work is an upper bound.

    Parameters
    ----------
    dataset : xarray.Dataset
    x : str, optional
        By default the scanned axis with most values.
    error, against : str, optional
        An error and a measure of work; see `work_table`.

    Returns
    -------
    Scan
    """
    x = _scanned_axis(dataset, x)
    error = chosen_errors_for_work(dataset, error, "end")[0]
    rows = work_table(dataset, error)
    cells = grouped(rows, lambda row: selection.axis_values_in_words(row.parameters))
    reached: dict[float, list[Point]] = {}
    for rows in cells.values():
        values = rows[0].parameters
        title = _panel_title(values, x)
        for level, ranked in rank_at_levels(rows, against):
            reached.setdefault(level, []).extend(
                Point(
                    title, one.integrator, values[x], one.work, one.work, one.work_high,
                    one.interpolated,
                )
                for one in ranked
            )  # fmt: skip
    if not reached:
        raise InputError("no run has an error above round-off whose cost could be drawn.")
    measured = {one: sum(point.filled for point in points) for one, points in reached.items()}
    level = min(reached, key=lambda one: (-len(reached[one]), -measured[one], one))
    units = " [s]" if against == "cpu_time" else ""
    label = f"{against.replace('_', ' ')} for a {error.replace('_', ' ')} of {level:g}{units}"
    starts = style.starts_in_words(dataset, [row.starts for rows in cells.values() for row in rows])
    some_open = not all(point.filled for point in reached[level])
    remark = "open: at most, as no larger error was measured" if some_open else ""
    return Scan(dataset[x], label, reached[level], starts, remark)


def _scanned_axis(dataset: xr.Dataset, x: str | None) -> str:
    if not (axes := selection.scanned_axes(dataset)):
        raise InputError("no parameter is scanned, against which it could be drawn.", key="x")
    x = x or most_scanned_axis(dataset)
    check_known("scanned axis", x, axes, key="x")
    return x


def _panel_title(parameters: dict[str, Any], x: str, family: str = "") -> str:
    rest = {name: value for name, value in parameters.items() if name != x}
    return panel_title(selection.axis_values_in_words(rest), family)


@rc_context(style.STYLE)
def draw_scan(scan: Scan, styles: dict[str, style.CurveStyle] | None = None) -> style.Drawing:
    """Draw values against an axis, with panels and curves according to the points.

    Parameters
    ----------
    scan : Scan
    styles : dict of str to dict, optional
        Colour, marker and line of each series.

    Returns
    -------
    matplotlib.figure.Figure
    """
    panels = scan.panels()
    series = list(dict.fromkeys(name for of in panels.values() for name in of))
    styles = styles or style.curve_styles(series)
    names = [format_number(value) for value in dict.fromkeys(scan.axis.values.tolist())]
    figure, axes = style.new_panels(list(panels))
    figure.starts, figure.error_times = scan.starts, scan.error_times
    for ax, of in zip(axes, panels.values(), strict=True):
        for name, points in of.items():
            at = [
                point.x if scan.is_numeric else names.index(format_number(point.x))
                for point in points
            ]
            look = styles[name] if scan.is_numeric else styles[name] | {"ls": "none"}
            _draw_series(ax, name, points, look, at)
        for level in scan.levels:
            ax.axhline(level, color=style.GREY, lw=0.6, zorder=0)
        ax.set_xlabel(scan.axis_label)
        if not scan.is_numeric:
            ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
        elif scan.log[0]:
            ax.set_xscale("log")
            style.set_plain_step_ticks(ax)
        if scan.log[1]:
            style.style_log_error_axis(ax)
    figure.label_rows(axes, scan.label)
    if any(series):
        figure.add_legend(axes)
    if scan.remark:
        figure.add_caption(scan.remark)
    return figure


def _draw_series(
    ax: Axes, series: str, points: Sequence[Point], look: style.CurveStyle, at: Sequence[float]
) -> None:
    """Draw marks with bars at places along the axis; open marks are bounds."""
    y, low, high = (np.array([getattr(p, side) for p in points]) for side in ("y", "low", "high"))
    ax.vlines(at, low, high, color=look["color"], lw=0.8, alpha=0.5)
    ax.plot(at, y, label=series or None, **look)
    bounds = np.array([not point.filled for point in points])
    open_mark = {"ls": "none", "mfc": "white", "mec": look["color"]}
    ax.plot(np.array(at)[bounds], y[bounds], **(look | open_mark))
    kinds = np.where(bounds, "open", "filled")
    style.note_numbers(ax, series, kinds, [point.x for point in points], y, low=low, high=high)
