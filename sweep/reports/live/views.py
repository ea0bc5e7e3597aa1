"""Views of the live page: figures with tables, each made from one analysis of the selected runs.

A view takes the runs, the choice by which they were selected, the quantity to show, and the styles
of curves for all integrators of the experiment, so that an integrator keeps its colour.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from integrators.errors import InputError, check_known
from sweep import tables
from sweep.analysis import drift_table, order_table, work_table
from sweep.analysis.convergence.curves import SELF, run_table_has_error
from sweep.analysis.convergence.slopes import USED
from sweep.analysis.drift.cell_errors import quantities_with_recorded_error
from sweep.analysis.efficiency.pareto import WORK
from sweep.analysis.rows import grouped
from sweep.analysis.runs.selection import (
    adaptive_runs,
    axis_values_in_words,
    groups_of_runs,
    is_error_against_reference,
    name_of_energy_quantity,
    run_table_without_repeats,
    scanned_axes,
    take_runs,
)
from sweep.analysis.runs.summaries import (
    AT,
    default_result_columns,
    invariant_errors_by_energy,
    names_of_invariant_errors,
    names_of_time_series,
)
from sweep.plots.drawn_runs import runs_to_draw
from sweep.plots.drift_plots import DriftStrip
from sweep.plots.order_plots import curve_label_with_order, error_axis_label
from sweep.plots.over_time import error_series_to_draw
from sweep.plots.scan_plots import (
    Scan,
    axes_of_runs,
    main_result,
    scan_of_costs,
    scan_of_drifts,
    scan_of_orders,
    scan_of_values,
)
from sweep.plots.sphere_plots import (
    direction_rows_of_bodies,
    is_dense_enough_for_lines,
    prepare_sphere_picture,
)
from sweep.plots.style import MORE_COLOURS, axis_label_with_units
from sweep.plots.work_plots import AXES, counts_for_comparison, rows_on_log_axis
from sweep.reports.live.json_figures import Axis, Curve, Figure, Panel, Style, cell_as_texts
from sweep.tables.answers import ANSWERS

if TYPE_CHECKING:
    import xarray as xr

    from sweep.analysis import DriftEstimate

Choice = Mapping[str, Sequence[str]]  # parameters in an address of the page, which select runs
Styles = Mapping[str, Style]  # by integrator

MOST_PANELS = 12
MOST_STARTS = 4096  # in a strip
MOST_POINTS = 20_000  # on a sphere
OPEN = "Open marks do not count"
DASHES = ("solid", "dash", "dot", "dashdot")


def last_of_choice(choice: Choice, name: str) -> str:
    """The last value of a parameter in an address; empty if there is none."""
    return choice[name][-1] if choice.get(name) else ""


@dataclass(frozen=True)
class View:
    """A view of the page.

    Attributes
    ----------
    draw : callable
        Takes the runs, the choice, the quantity and the styles of curves. Returns a `Figure`, or
        raises `InputError` that says what is missing.
    quantities : callable
        Takes the runs. Returns the quantities that the view can show, the default first.
    """

    draw: "Callable[[xr.Dataset, Choice, str, Styles], Figure]"
    quantities: "Callable[[xr.Dataset], list[str]]"


def draw_view(runs: "xr.Dataset", choice: Choice, styles: Styles) -> Figure:
    """Draw the view of a choice; it shows its first quantity unless one is chosen.

    Parameters
    ----------
    runs : xarray.Dataset
        The selected runs.
    choice : dict of str to sequence of str
        Keys ``view``, ``quantity``, and ``against`` (a measure of work, or the axis to draw the
        quantity against).
    styles : dict of str to dict
        The styles of curves, by integrator.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If the view is unknown, something is missing for it, or it has too many panels.
    """
    name = last_of_choice(choice, "view") or "orders"
    check_known("view", name, VIEWS)
    view = VIEWS[name]
    quantity = last_of_choice(choice, "quantity") or next(iter(view.quantities(runs)), "")
    figure = view.draw(runs, choice, quantity, styles)
    if figure.kind == "curves" and len(figure.panels) > MOST_PANELS:
        raise InputError(
            f"{len(figure.panels):,} panels are chosen, but a figure holds at most {MOST_PANELS}: "
            "choose fewer values or integrators"
        )
    return figure


def _view_of_tables(name: str) -> View:
    """A view that shows only the tables of an answer, for runs that the answer suits."""
    answer = ANSWERS[name]

    def draw(runs: "xr.Dataset", choice: Choice, quantity: str, styles: Styles) -> Figure:
        assert answer.analyse is not None
        return Figure("curves", [], answer.tables(runs, answer.analyse(runs)), answer.text)

    return View(draw, lambda runs: ["all"] if answer.suits(runs) else [])


# --- drawing -------------------------------------------------------------------------------------


def _draw_orders(runs: "xr.Dataset", choice: Choice, quantity: str, styles: Styles) -> Figure:
    """Draw errors against step sizes, with the measured orders."""
    error = last_of_choice(choice, "quantity") or None
    rows = order_table(runs, error)
    table = tables.orders_as_table(rows)
    combinations = len({axis_values_in_words(row.parameters) for row in rows})
    if combinations > MOST_PANELS:
        return _figure_of_scan(scan_of_orders(runs, None, error), styles, [table])
    panels: dict[str, list[Curve]] = {}
    for row in rows:
        if points := [point for point in row.points if point.error > 0]:
            name = curve_label_with_order(row) if combinations == 1 else row.integrator
            marks = ["filled" if point.use == USED else "open" for point in points]
            cells = [_cell(row, step_size=point.step_size) for point in points]
            curve = _curve_of_points(
                name,
                styles[row.integrator],
                points,
                ("step_size", "error"),
                row.starts > 1,
                marks,
                cells,
            )
            panels.setdefault(axis_values_in_words(row.parameters), []).append(curve)
    x = Axis(axis_label_with_units(runs["step_size"], "step size h"), log=True)
    y = Axis(error_axis_label(runs, rows), log=True)
    return Figure("curves", _panels(panels, x, y), [table], f"{OPEN} for the order.")


def _draw_work(runs: "xr.Dataset", choice: Choice, quantity: str, styles: Styles) -> Figure:
    """Draw errors against work."""
    against = last_of_choice(choice, "against") or "evaluations"
    check_known("measure of work", against, WORK)
    estimates = work_table(runs, quantity)
    rows = rows_on_log_axis(estimates, quantity, against)
    precision, *least = tables.work_as_tables(estimates, against)
    if len({axis_values_in_words(row.parameters) for row in rows}) > MOST_PANELS:
        scan = scan_of_costs(runs, None, quantity, against)
        return _figure_of_scan(scan, styles, [*least, precision])
    panels: dict[str, list[Curve]] = {}
    curves = grouped(rows, lambda row: (axis_values_in_words(row.parameters), row.integrator))
    for (panel, integrator), points in curves.items():
        counts = [counts_for_comparison(row, against) for row in points]
        marks = [
            ("large" if against in row.best else "filled") if ok else "open"
            for row, ok in zip(points, counts, strict=True)
        ]
        cells = [_cell(row, step_size=row.step_size, tolerance=row.tolerance) for row in points]
        bars, of = max(row.starts for row in points) > 1, (against, "value")
        panels.setdefault(panel, []).append(
            _curve_of_points(integrator, styles[integrator], points, of, bars, marks, cells)
        )
    x = Axis("".join(AXES[against]), log=True)
    y = Axis(axis_label_with_units(runs[quantity], quantity.replace("_", " ")), log=True)
    remark = f"Large marks are best of their family. {OPEN}."
    return Figure("curves", _panels(panels, x, y), [*least, precision], remark)


def _draw_drifts(runs: "xr.Dataset", choice: Choice, quantity: str, styles: Styles) -> Figure:
    """Draw the error of an invariant over time, and its drift, in a strip for each integrator."""
    quantity = quantity.removesuffix("_error")
    runs = run_table_without_repeats(runs)
    shown = take_runs(runs, runs_to_draw(runs)[0])
    rows = drift_table(shown, [quantity])
    cells = groups_of_runs(shown, ["integrator", *scanned_axes(shown), "step_size", "tolerance"])
    time = Axis(axis_label_with_units(shown["time"], "time t"))
    name = f"{quantity}_error"
    error = Axis(axis_label_with_units(shown[name], name.replace("_", " ")))
    panels = []
    for row, (key, members) in zip(rows, cells, strict=True):
        if not row.starts:
            continue
        strip = DriftStrip.of_cell(take_runs(shown, members), row, MOST_STARTS)
        words = axis_values_in_words(row.parameters)
        title = ", ".join(filter(None, [row.integrator, words, f"{_step_of(key):g}"]))
        said = "; ".join([row.in_words, *(f"{less} (95 %)" for less in row.compared[:1])])
        curves = _curves_of_strip(strip, row, styles[row.integrator])
        panels.append(Panel(title, time, error, curves, said))
    if not panels:
        raise InputError("none of the chosen runs is complete.")
    if len(panels) > MOST_PANELS and scanned_axes(shown):
        scan = scan_of_drifts(runs, None, quantity)
        return _figure_of_scan(scan, styles, tables.drifts_as_tables(rows))
    remark = (
        f"{error.text[:1].upper()}{error.text[1:]}, window means: mean and 90 % of the starts; the "
        "straight line is the drift with its 95 % interval."
    )
    return Figure("strips", panels, tables.drifts_as_tables(rows), remark)


def _curves_of_strip(strip: DriftStrip, row: "DriftEstimate", style: Style) -> list[Curve]:
    """The window means of an error, and the line of its drift."""
    curves = [
        Curve(
            row.integrator, style, strip.times, strip.middle, low=strip.low, high=strip.high,
            band=True, cells=[_cell(row, step_size=row.step_size, tolerance=row.tolerance)],
        )
    ]  # fmt: skip
    if np.isfinite(row.drift):
        low, high = np.sort([strip.least, strip.most], axis=0)
        line = {"color": "#000000"}
        curves.append(Curve("drift", line, strip.ends, strip.fitted, low=low, high=high, band=True))
    return curves


def _draw_series(runs: "xr.Dataset", choice: Choice, quantity: str, styles: Styles) -> Figure:
    """Draw a series over time: the median over the starts, and their range."""
    check_known("series", quantity, names_of_time_series(runs))
    is_error = "_error" in quantity or "defect" in quantity
    runs = run_table_without_repeats(runs)
    if not {"step_size", "tolerance"} & {*choice}:
        runs = take_runs(runs, runs_to_draw(runs)[0])
    axes = scanned_axes(runs)
    panels: dict[str, list[Curve]] = {}
    for key, members in groups_of_runs(runs, [*axes, "integrator", "step_size", "tolerance"]):
        curves = panels.setdefault(axis_values_in_words({axis: key[axis] for axis in axes}), [])
        place = sum(curve.cells[0]["integrator"] == key["integrator"] for curve in curves)
        style = {**styles[key["integrator"]], "dash": DASHES[place % len(DASHES)]}
        series = error_series_to_draw(runs, members, quantity, signed=not is_error)
        has_value = np.isfinite(series.values).any(axis=0)
        values, is_any = series.values[:, has_value], has_value.any()
        several = is_any and len(values) > 1
        curves.append(
            Curve(
                f"{key['integrator']}, {_step_of(key):g}",
                style,
                series.times[has_value],
                series.median_over_runs[has_value] if is_any else (),
                low=np.nanmin(values, axis=0) if several else (),
                high=np.nanmax(values, axis=0) if several else (),
                band=True,
                cells=[cell_as_texts(key)],
            )
        )
    x = Axis(axis_label_with_units(runs["time"], "time t"))
    name = f"|{quantity.replace('_', ' ')}|" if is_error else quantity
    y = Axis(axis_label_with_units(runs[quantity], name), log=is_error)
    return Figure("curves", _panels(panels, x, y), remark="Median and range over the starts.")


def _draw_scan(runs: "xr.Dataset", choice: Choice, quantity: str, styles: Styles) -> Figure:
    """Draw any result against an axis of the study."""
    axis = last_of_choice(choice, "against") or next(iter(axes_of_view(runs)), None)
    return _figure_of_scan(scan_of_values(runs, axis, quantity), styles)


def _figure_of_scan(scan: Scan, styles: Styles, shown: "Sequence[tables.Table]" = ()) -> Figure:
    """A figure of values against a numeric axis, with the tables of the same answer."""
    log_x, log_y = scan.log
    panels = {
        title: [
            _curve_of_points(
                series, styles[series], points, ("x", "y"), True,
                ["filled" if point.filled else "open" for point in points],
                [cell_as_texts({"integrator": series, str(scan.axis.name): p.x}) for p in points],
            )
            for series, points in of.items()
        ]
        for title, of in scan.panels().items()
    }  # fmt: skip
    drawn = _panels(panels, Axis(scan.axis_label, log_x), Axis(scan.label, log_y))
    remark = f"{scan.remark[:1].upper()}{scan.remark[1:]}."
    return Figure("curves", drawn, list(shown), remark if scan.remark else "")


def _draw_spheres(runs: "xr.Dataset", choice: Choice, quantity: str, styles: Styles) -> Figure:
    """Draw states as directions on the unit sphere."""
    runs = run_table_without_repeats(runs)
    picture = prepare_sphere_picture(runs, *direction_rows_of_bodies(runs, None), None, None)
    panels = []
    for panel in picture.panels:
        lines = is_dense_enough_for_lines(panel.directions)
        colours = picture.path_colours(panel)
        curves = []
        few = max(1, MOST_POINTS // max(1, panel.directions[..., 0].size // len(panel.times)))
        for i, start in enumerate(panel.starts):
            cells = [{"run": str(runs["run"].values[panel.runs[i]])}]
            for j, body in enumerate(picture.bodies):
                x, y, z = panel.directions[i, :few, j].T
                name, part = picture.starts[start], body if picture.of_several else ""
                if picture.colours_are_bodies and part:
                    name, part = part, name
                style = {"color": MORE_COLOURS[colours[i, j]]}
                curves.append(Curve(name, style, x, y, z=z, cells=cells, line=lines, part=part))
        panels.append(Panel(panel.title, Axis("e₁"), Axis("e₂"), curves))
    remark = ", ".join(picture.common)
    return Figure("spheres", panels, remark=f"{remark[:1].upper()}{remark[1:]}. Drag to turn.")


# --- panels and curves ---------------------------------------------------------------------------


def _panels(curves: Mapping[str, list[Curve]], x: Axis, y: Axis) -> list[Panel]:
    """A panel for each combination of scanned values, which is its title."""
    if not curves:
        raise InputError("no chosen run has an error other than 0 to show.")
    return [Panel(title, x, y, of) for title, of in curves.items()]


def _curve_of_points(
    name: str,
    style: Style,
    points: Sequence[Any],
    of: tuple[str, str],
    bars: bool,
    marks: Sequence[str],
    cells: Sequence[Mapping[str, str]],
) -> Curve:
    """A curve of two attributes of points; with `bars`, error bars from `low` to `high`."""
    x, y, low, high = ([getattr(one, value) for one in points] for value in (*of, "low", "high"))
    low, high = (low, high) if bars else ([], [])
    return Curve(name, style, x, y, low=low, high=high, marks=marks, cells=cells)


def _cell(row: Any, **sizes: float) -> dict[str, str]:
    """The coordinates of the runs of an estimate, as texts."""
    return cell_as_texts({"integrator": row.integrator, **row.parameters, **sizes})


def _step_of(key: Mapping[str, Any]) -> float:
    """The step size of runs, or their tolerance."""
    step: float = key["tolerance"] if np.isnan(key["step_size"]) else key["step_size"]
    return step


# --- what can be shown ---------------------------------------------------------------------------


def _order_quantities(runs: "xr.Dataset") -> list[str]:
    if adaptive_runs(runs).all() or not run_table_has_error(runs):
        return []
    between_step_sizes = [SELF] if "state" in runs else []
    return [
        *_names_of_reference_errors(runs),
        *between_step_sizes,
        *names_of_invariant_errors(runs),
    ]


def _names_of_reference_errors(runs: "xr.Dataset") -> list[str]:
    names = [
        name
        for name in names_of_time_series(runs)
        if name.endswith("_error")
        and name != "reference_error"
        and is_error_against_reference(runs, name)
    ]
    return sorted(names, key=lambda name: name != "global_error")


def _drift_quantities(runs: "xr.Dataset") -> list[str]:
    energy = name_of_energy_quantity(runs)
    return sorted(quantities_with_recorded_error(runs), key=lambda name: name != energy)


def _distinct(*names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for some in names for name in some))


def _scan_quantities(runs: "xr.Dataset") -> list[str]:
    if not axes_of_view(runs):
        return []
    columns = default_result_columns(runs)
    numbers = [name for name in columns if runs[name.partition(AT)[0]].dtype.kind in "biuf"]
    return _distinct([main_result(runs)], numbers)


def axes_of_view(runs: "xr.Dataset") -> list[str]:
    """The numeric axes that vary among runs, scanned axes first."""
    axes = [name for name in axes_of_runs(runs) if runs[name].dtype.kind in "iuf"]
    varied = [name for name in axes if len(np.unique(runs[name].values[~runs[name].isnull()])) > 1]
    return sorted(varied, key=lambda name: name in ("step_size", "tolerance"))


VIEWS = {
    "orders": View(_draw_orders, _order_quantities),
    "drifts": View(_draw_drifts, _drift_quantities),
    "work": View(
        _draw_work,
        lambda runs: [*_names_of_reference_errors(runs), *invariant_errors_by_energy(runs)],
    ),
    "chaos": _view_of_tables("chaos"),
    "structure": _view_of_tables("structure"),
    "series": View(
        _draw_series,
        lambda runs: _distinct(
            invariant_errors_by_energy(runs),
            _names_of_reference_errors(runs),
            names_of_time_series(runs),
        ),
    ),
    "scan": View(_draw_scan, _scan_quantities),
    "sphere": View(_draw_spheres, lambda runs: ["state"] if "state" in runs else []),
}
