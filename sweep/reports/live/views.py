"""Views: figures with tables and sentences of the selected runs, each from one analysis.

Each takes the runs, the choice by which they were selected, and the styles of the curves of all
integrators of the experiment, so that an integrator keeps its colour whatever is chosen.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from integrators.errors import InputError, check_known
from sweep import tables
from sweep.analysis import drift_table, order_table, work_table
from sweep.analysis.convergence.curves import SELF, run_table_has_error
from sweep.analysis.convergence.slopes import USED
from sweep.analysis.drift.cells import quantities_with_recorded_error
from sweep.analysis.efficiency.pareto import WORK
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
from sweep.plots.drifts import DriftStrip
from sweep.plots.orders import curve_label_with_order, error_axis_label
from sweep.plots.over_time import error_series_to_draw
from sweep.plots.scans import (
    Scan,
    axes_of_runs,
    main_result,
    scan_of_costs,
    scan_of_drifts,
    scan_of_orders,
    scan_of_values,
)
from sweep.plots.selection import runs_to_draw
from sweep.plots.spheres import (
    direction_rows_of_bodies,
    is_dense_enough_for_lines,
    prepare_sphere_picture,
)
from sweep.plots.style import MORE_COLOURS
from sweep.plots.work import AXES, counts_for_comparison, rows_on_log_axis
from sweep.reports.live.figures import Axis, Curve, Figure, Panel, Values, cell_as_texts
from sweep.tables.answers import ANSWERS

if TYPE_CHECKING:
    import xarray as xr

    from sweep.analysis import DriftEstimate, OrderEstimate, WorkEstimate
    from sweep.plots.over_time import Series

Row = TypeVar("Row", bound="OrderEstimate | WorkEstimate")
Styles = Mapping[str, Mapping[str, Any]]  # by integrator, as Matplotlib's keyword arguments

MOST_PANELS = 12
MOST_STARTS = 4096  # of a strip
MOST_POINTS = 20_000  # of a sphere
OPEN = "Open marks do not count"
DASHES = ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True)
class Choice:
    """The runs and the quantity of a view, as texts of an address of the page.

    Attributes
    ----------
    experiment, view : str
    integrators, step_sizes, tolerances : tuple of str
        All where there is none.
    scanned : tuple of (str, str)
        Axes and values; all values of an axis that is not named.
    starts : str
        The label of one, ``all``, or empty for as many as can be shown without delay.
    quantity, against : str
        Quantity, and measure of work or axis to draw it against; empty for those of the view by
        default.
    """

    experiment: str
    view: str = "orders"
    integrators: tuple[str, ...] = ()
    step_sizes: tuple[str, ...] = ()
    tolerances: tuple[str, ...] = ()
    scanned: tuple[tuple[str, str], ...] = ()
    starts: str = ""
    quantity: str = ""
    against: str = ""


def show_tables(name: str) -> "Callable[[xr.Dataset, Choice, Styles], Figure]":
    """The drawing of a view that has the tables of an answer alone."""
    answer = ANSWERS[name]

    def draw(runs: "xr.Dataset", choice: Choice, styles: Styles) -> Figure:
        assert answer.analyse is not None
        return Figure("curves", [], answer.tables(runs, answer.analyse(runs)), answer.text)

    return draw


def draw_orders(runs: "xr.Dataset", choice: Choice, styles: Styles) -> Figure:
    """Errors against step sizes, and the orders that they show."""
    rows = order_table(runs, choice.quantity or None)
    x = Axis.of_array(runs["step_size"], "step size h", log=True)
    y = Axis(error_axis_label(runs, rows), log=True)
    combinations = len({axis_values_in_words(row.parameters) for row in rows})
    table = tables.orders_as_table(rows)
    if combinations > MOST_PANELS:
        return _figure_of_scan(scan_of_orders(runs, None, choice.quantity or None), styles, [table])
    once = combinations == 1
    panels = _panels_of_rows(
        [row for row in rows if any(point.error > 0 for point in row.points)],
        lambda rows: [_order_curve(row, styles, once) for row in rows],
        x,
        y,
    )
    return Figure("curves", panels, [table], f"{OPEN} for the order.")


def _order_curve(row: "OrderEstimate", styles: Styles, with_order: bool) -> Curve:
    points = [point for point in row.points if point.error > 0]
    cells = [_cell(row, step_size=point.step_size) for point in points]
    return _curve(
        curve_label_with_order(row) if with_order else row.integrator,
        styles[row.integrator],
        [point.step_size for point in points],
        [point.error for point in points],
        low=[point.low for point in points] if row.starts > 1 else (),
        high=[point.high for point in points] if row.starts > 1 else (),
        marks=["filled" if point.use == USED else "open" for point in points],
        cells=cells,
    )


def draw_work(runs: "xr.Dataset", choice: Choice, styles: Styles) -> Figure:
    """Errors against the work that they took."""
    against = choice.against or "evaluations"
    check_known("measure of work", against, WORK)
    error = choice.quantity or quantities_of_view("work", runs)[0]
    estimates = work_table(runs, error)
    rows = rows_on_log_axis(estimates, error, against)
    quantity, units = AXES[against]
    precision, *least = tables.work_as_tables(estimates, against)
    if len({axis_values_in_words(row.parameters) for row in rows}) > MOST_PANELS:
        scan = scan_of_costs(runs, None, error, against)
        return _figure_of_scan(scan, styles, [*least, precision])
    panels = _panels_of_rows(
        rows,
        lambda rows: _work_curves(rows, against, styles),
        Axis(f"{quantity}{units}", log=True),
        Axis.of_array(runs[error], f"{rows[0].error.replace('_', ' ')}", log=True),
    )
    remark = f"Large marks are best of their family. {OPEN}."
    return Figure("curves", panels, [*least, precision], remark)


def _work_curves(rows: "Iterable[WorkEstimate]", against: str, styles: Styles) -> list[Curve]:
    by_integrator: dict[str, list[WorkEstimate]] = {}
    for row in rows:
        by_integrator.setdefault(row.integrator, []).append(row)
    curves = []
    for integrator, points in by_integrator.items():
        counts = [counts_for_comparison(row, against) for row in points]
        several = max(row.starts for row in points) > 1
        curves.append(
            _curve(
                integrator,
                styles[integrator],
                [getattr(row, against) for row in points],
                [row.value for row in points],
                low=[row.low for row in points] if several else (),
                high=[row.high for row in points] if several else (),
                marks=[
                    ("large" if against in row.best else "filled") if ok else "open"
                    for row, ok in zip(points, counts, strict=True)
                ],
                cells=[
                    _cell(row, step_size=row.step_size, tolerance=row.tolerance) for row in points
                ],
            )
        )
    return curves


def draw_drifts(runs: "xr.Dataset", choice: Choice, styles: Styles) -> Figure:
    """Error of an invariant over time, and its drift, in a strip for each integrator."""
    quantity = (choice.quantity or quantities_of_view("drifts", runs)[0]).removesuffix("_error")
    runs = run_table_without_repeats(runs)
    numbers, _ = runs_to_draw(runs)
    shown = take_runs(runs, numbers)
    rows = drift_table(shown, [quantity])
    cells = groups_of_runs(shown, ["integrator", *scanned_axes(shown), "step_size", "tolerance"])
    panels = []
    time = Axis.of_array(shown["time"], "time t")
    for row, (key, members) in zip(rows, cells, strict=True):
        if not row.starts:
            continue
        strip = DriftStrip.of_cell(take_runs(shown, members), row, MOST_STARTS)
        words = axis_values_in_words(row.parameters)
        step = key["tolerance"] if np.isnan(row.step_size) else row.step_size
        title = ", ".join(filter(None, [row.integrator, words, f"{step:g}"]))
        name = f"{quantity.replace('_', ' ')} error"
        panels.append(
            Panel(
                title,
                time,
                Axis.of_array(shown[f"{quantity}_error"], name),
                _strip_curves(strip, row, styles[row.integrator]),
                "; ".join([row.in_words, *(f"{less} (95 %)" for less in row.compared[:1])]),
            )
        )
    if not panels:
        raise InputError("none of the chosen runs is complete.")
    if len(panels) > MOST_PANELS and scanned_axes(shown):
        scan = scan_of_drifts(runs, None, quantity)
        return _figure_of_scan(scan, styles, tables.drifts_as_tables(rows))
    name = panels[0].y.text
    remark = (
        f"{name[:1].upper()}{name[1:]}, window means: mean and 90 % of the starts; the straight "
        "line is the drift with its 95 % interval."
    )
    return Figure("strips", panels, tables.drifts_as_tables(rows), remark)


def _strip_curves(strip: DriftStrip, row: "DriftEstimate", style: Mapping[str, Any]) -> list[Curve]:
    """The window means of an error, and the line of its drift."""
    cells = [_cell(row, step_size=row.step_size, tolerance=row.tolerance)]
    curves = [
        _curve(
            row.integrator, style, strip.times, strip.middle, low=strip.low, high=strip.high,
            band=True, cells=cells,
        )
    ]  # fmt: skip
    if np.isfinite(row.drift):
        low, high = np.sort([strip.least, strip.most], axis=0)
        curves.append(
            Curve("drift", "#000000", strip.ends, strip.fitted, low=low, high=high, band=True)
        )
    return curves


def draw_series(runs: "xr.Dataset", choice: Choice, styles: Styles) -> Figure:
    """A series over time: the median over the starts, and their range."""
    name = choice.quantity or quantities_of_view("series", runs)[0]
    check_known("series", name, names_of_time_series(runs))
    runs = run_table_without_repeats(runs)
    error = "_error" in name or "defect" in name
    are_sizes_chosen = choice.step_sizes or choice.tolerances
    positions = np.arange(runs.sizes["run"]) if are_sizes_chosen else runs_to_draw(runs)[0]
    shown = take_runs(runs, positions)[[name, *(key for key in ("status",) if key in runs)]]
    panels: dict[str, list[Curve]] = {}
    places: dict[tuple[str, str], int] = {}
    axes = scanned_axes(shown)
    for key, members in groups_of_runs(shown, [*axes, "integrator", "step_size", "tolerance"]):
        panel = axis_values_in_words({axis: key[axis] for axis in axes})
        series = error_series_to_draw(shown, members, name, signed=not error)
        step = key["tolerance"] if np.isnan(key["step_size"]) else key["step_size"]
        place = places[panel, key["integrator"]] = places.get((panel, key["integrator"]), -1) + 1
        panels.setdefault(panel, []).append(
            _series_curve(series, key, f"{key['integrator']}, {step:g}", styles, place)
        )
    x = Axis.of_array(shown["time"], "time t")
    y = Axis.of_array(shown[name], f"|{name.replace('_', ' ')}|" if error else name, log=error)
    drawn = [Panel(title, x, y, curves) for title, curves in panels.items()]
    _refuse_too_many(drawn)
    return Figure("curves", drawn, remark="Median and range over the starts.")


def _series_curve(
    series: "Series", key: Mapping[str, Any], name: str, styles: Styles, place: int
) -> Curve:
    """The median of runs that differ in their starts, with their range.

    Parameters
    ----------
    series : sweep.plots.over_time.Series
    key : dict
        Coordinates of the runs.
    name : str
    styles : dict of str to dict
    place : int
        How many curves of its integrator are in the panel already, for the dashes.
    """
    has_value = np.isfinite(series.values).any(axis=0)
    values = series.values[:, has_value]
    median = series.median_over_runs[has_value] if has_value.any() else np.zeros(0)
    several = len(values) > 1 and has_value.any()
    return _curve(
        name,
        {**styles[key["integrator"]], "dash": DASHES[place % len(DASHES)]},
        series.times[has_value],
        median,
        low=np.nanmin(values, axis=0) if several else (),
        high=np.nanmax(values, axis=0) if several else (),
        band=True,
        cells=[cell_as_texts(key)],
    )


def draw_scan_of_results(runs: "xr.Dataset", choice: Choice, styles: Styles) -> Figure:
    """Any result against an axis of the study."""
    quantity = choice.quantity or quantities_of_view("scan", runs)[0]
    return _figure_of_scan(
        scan_of_values(runs, choice.against or axes_of_view(runs)[0], quantity), styles
    )


def _figure_of_scan(scan: Scan, styles: Styles, shown: "Sequence[tables.Table]" = ()) -> Figure:
    """Values against an axis of numbers, with the tables of the same answer."""
    log_x, log_y = scan.log
    axis = str(scan.axis.name)
    panels = [
        Panel(
            title,
            Axis(scan.axis_label, log_x),
            Axis(scan.label, log_y),
            [
                _curve(
                    series,
                    styles[series],
                    [point.x for point in points],
                    [point.y for point in points],
                    low=[point.low for point in points],
                    high=[point.high for point in points],
                    marks=["filled" if point.filled else "open" for point in points],
                    cells=[cell_as_texts({"integrator": series, axis: p.x}) for p in points],
                )
                for series, points in of.items()
            ],
        )
        for title, of in scan.panels().items()
    ]
    _refuse_too_many(panels)
    remark = f"{scan.remark[:1].upper()}{scan.remark[1:]}."
    return Figure("curves", panels, list(shown), remark if scan.remark else "")


def draw_spheres(runs: "xr.Dataset", choice: Choice, styles: Styles) -> Figure:
    """States as directions on the unit sphere."""
    runs = run_table_without_repeats(runs)
    rows, names = direction_rows_of_bodies(runs, None)
    picture = prepare_sphere_picture(runs, rows, names, None, None)
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
                colour = MORE_COLOURS[colours[i, j]]
                curves.append(Curve(name, colour, x, y, z=z, cells=cells, line=lines, part=part))
        panels.append(Panel(panel.title, Axis("e₁"), Axis("e₂"), curves))
    remark = ", ".join(picture.common)
    return Figure("spheres", panels, remark=f"{remark[:1].upper()}{remark[1:]}. Drag to turn.")


@dataclass(frozen=True)
class View:
    """A view of the page.

    Attributes
    ----------
    title : str
    draw : callable
        Takes the runs, the choice and the curves' styles; returns a `Figure`, or raises
        `InputError` that names what is missing.
    quantities : callable
        Takes the runs; returns the quantities that it can show, the default first.
    """

    title: str
    draw: "Callable[[xr.Dataset, Choice, Styles], Figure]"
    quantities: "Callable[[xr.Dataset], list[str]]"


def quantities_of_view(name: str, runs: "xr.Dataset") -> list[str]:
    """The quantities of some runs that a view can show, its default first; or none."""
    return VIEWS[name].quantities(runs)


def _order_quantities(runs: "xr.Dataset") -> list[str]:
    if adaptive_runs(runs).all() or not run_table_has_error(runs):
        return []
    between_step_sizes = [SELF] if "state" in runs else []
    return [
        *_errors_against_reference(runs),
        *between_step_sizes,
        *names_of_invariant_errors(runs),
    ]


def _work_quantities(runs: "xr.Dataset") -> list[str]:
    return [*_errors_against_reference(runs), *invariant_errors_by_energy(runs)]


def _errors_against_reference(runs: "xr.Dataset") -> list[str]:
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


def _series_quantities(runs: "xr.Dataset") -> list[str]:
    first = [*invariant_errors_by_energy(runs), *_errors_against_reference(runs)]
    return list(dict.fromkeys([*first, *names_of_time_series(runs)]))


def _scan_quantities(runs: "xr.Dataset") -> list[str]:
    if not axes_of_view(runs):
        return []
    names = [name for name in default_result_columns(runs) if runs_have_numbers(runs, name)]
    return list(dict.fromkeys([main_result(runs), *names]))


def runs_have_numbers(runs: "xr.Dataset", column: str) -> bool:
    """Whether a column of results has numbers."""
    return runs[column.partition(AT)[0]].dtype.kind in "biuf"


def axes_of_view(runs: "xr.Dataset") -> list[str]:
    """The axes of numbers that vary among some runs, scanned ones first."""
    axes = [name for name in axes_of_runs(runs) if runs[name].dtype.kind in "iuf"]
    varied = [name for name in axes if len(np.unique(runs[name].values[~runs[name].isnull()])) > 1]
    return sorted(varied, key=lambda name: name in ("step_size", "tolerance"))


def _whether_suited(name: str) -> "Callable[[xr.Dataset], list[str]]":
    """The quantities of a view without a choice of them: one, where an answer suits some runs."""
    return lambda runs: ["all"] if ANSWERS[name].suits(runs) else []


def _sphere_quantities(runs: "xr.Dataset") -> list[str]:
    return ["state"] if "state" in runs else []


VIEWS = {
    "orders": View("Orders", draw_orders, _order_quantities),
    "drifts": View("Drifts", draw_drifts, _drift_quantities),
    "work": View("Work", draw_work, _work_quantities),
    "chaos": View("Chaos", show_tables("chaos"), _whether_suited("chaos")),
    "structure": View("Preserved", show_tables("structure"), _whether_suited("structure")),
    "series": View("Over time", draw_series, _series_quantities),
    "scan": View("Scan", draw_scan_of_results, _scan_quantities),
    "sphere": View("Sphere", draw_spheres, _sphere_quantities),
}


# --- panels and curves ---------------------------------------------------------------------------


def _panels_of_rows(
    rows: Sequence[Row], curves: Callable[[list[Row]], list[Curve]], x: Axis, y: Axis
) -> list[Panel]:
    """A panel for each combination of scanned values."""
    if not rows:
        raise InputError("no chosen run has an error other than 0 to show.")
    by_values: dict[str, list[Row]] = {}
    for row in rows:
        by_values.setdefault(axis_values_in_words(row.parameters), []).append(row)
    panels = [Panel(title, x, y, curves(group)) for title, group in by_values.items()]
    _refuse_too_many(panels)
    return panels


def _refuse_too_many(panels: Sequence[Panel]) -> None:
    if len(panels) > MOST_PANELS:
        raise InputError(
            f"{len(panels):,} panels are chosen, and a figure holds {MOST_PANELS}: choose fewer "
            "values or integrators"
        )


def _cell(row: Any, **sizes: float) -> dict[str, str]:
    """The coordinates of the runs of an estimate, as texts."""
    return cell_as_texts({"integrator": row.integrator, **row.parameters, **sizes})


def _curve(name: str, style: Mapping[str, Any], x: Values, y: Values, **more: Any) -> Curve:
    dash = style.get("dash", "solid")
    return Curve(name, style["color"], x, y, style["marker"], dash, **more)
