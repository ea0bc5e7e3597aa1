"""Pictures of errors against step size, with the measured orders of convergence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context

from integrators.errors import InputError
from sweep.analysis.convergence.curves import SELF, default_error_for_orders
from sweep.analysis.convergence.order_comparisons import orders_across
from sweep.analysis.convergence.order_verdicts import CONFIRMED, HALF, UNDECIDED
from sweep.analysis.convergence.orders import order_table
from sweep.analysis.convergence.slopes import USED
from sweep.analysis.runs import selection
from sweep.plots import style
from sweep.plots.families import panel_families_of_integrators, panel_title
from sweep.plots.scan_plots import draw_scan, scan_of_orders
from sweep.text import format_number

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from sweep.analysis.convergence.order_comparisons import OrderAcross
    from sweep.analysis.convergence.orders import OrderEstimate, OrderPoint

    Panels = dict[str, dict[str, OrderEstimate]]

LEFT_OUT = "open: left out of the fit"
AVERAGE = "marks: robust geometric mean over the starts; bars: range"
MOST_ORDERS = 4  # maximum number of panels for which the legend lists orders


def convergence(
    dataset: xr.Dataset | xr.DataTree,
    error: str | None = None,
    at: str = "end",
    x: str | None = None,
) -> style.Drawing:
    """Draw errors against step size, with the measured orders.

    Filled marks are used for the order in the legend, open ones are not. Marks are robust
    geometric means over the starts, and bars are the range. A grey line has the slope of each
    declared order. There is a panel for each combination of scanned values. If there are more than
    twelve, or if `x` is given, the orders are drawn against a scanned axis instead.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    error, at : str, optional
        See `order_table`.
    x : str, optional
        A scanned axis to draw the orders against.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        In the cases of `order_table`.
    """
    table: xr.Dataset = selection.run_table_without_repeats(dataset)
    error = default_error_for_orders(table) if error is None else error
    styles, families = (
        style.curve_styles_of_integrators(table),
        panel_families_of_integrators(table),
    )
    estimates = order_table(table, error, at)
    if not any(map(_has_errors, estimates)):
        raise InputError(f"no run has an {error!r} to show.", key="error")
    panels: Panels = {}
    for row in estimates:
        title = panel_title(
            selection.axis_values_in_words(row.parameters), families[row.integrator]
        )
        panels.setdefault(title, {})[row.integrator] = row
    if x is not None or (len(panels) > style.MOST_OF_A_KIND and selection.scanned_axes(table)):
        return draw_scan(scan_of_orders(table, x, error, at), styles)
    once = len({selection.axis_values_in_words(row.parameters) for row in estimates}) == 1
    labels = {row.integrator: curve_label_with_order(row) for row in estimates} if once else {}
    words = "measured order" if once else ""
    figure = _draw_order_panels(panels, styles, labels, dict.fromkeys(panels, table), words)
    drawn = [row for row in estimates if _has_errors(row)]
    counts = [point.starts for row in drawn for point in row.points if point.error > 0]
    figure.starts = style.starts_in_words(table, counts)
    why = (
        style.ROUND_OFF
        if error == SELF or not selection.is_error_against_reference(table, error)
        else style.REFERENCE
    )
    figure.error_times = style.error_times_in_words(table["time"], {row.time for row in drawn}, why)
    return figure


def convergence_across(
    experiments: Mapping[str, xr.Dataset], across: str, error: str | None = None, at: str = "end"
) -> style.Drawing:
    """Draw errors against step size in panels side by side, as `orders_across` compares orders.

    Parameters
    ----------
    experiments : dict of str to xarray.Dataset
        Run tables by name.
    across : str
        ``experiment``, ``system``, a parameter of the system, or an option of integrators.
    error, at : str, optional
        See `order_table`.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each value of the setting, with the same axes and the same style of each method.

    Raises
    ------
    InputError
        In the cases of `orders_across`, and if there are more than twelve panels.
    """
    rows = orders_across(experiments, across, error, at)
    several = len({(row.experiment, row.value) for row in rows}) > len({row.value for row in rows})
    panels: Panels = {}
    of_panel: dict[str, xr.Dataset] = {}
    for row in rows:
        if _has_errors(row.estimate):
            title = _title_of_value(row, several and across != "experiment")
            panels.setdefault(title, {})[row.method] = row.estimate
            of_panel.setdefault(title, experiments[row.experiment])
    if not panels:
        raise InputError("no run has an error to show.", key="across")
    styles = style.curve_styles(
        list(dict.fromkeys(method for of in panels.values() for method in of))
    )
    few = len(panels) <= MOST_ORDERS
    labels = {name: _label_with_orders(name, panels) for name in styles} if few else {}
    figure = _draw_order_panels(panels, styles, labels, of_panel, "measured orders" * few)
    figure.add_caption(f"errors and orders across {across}")
    if rows[0].others:
        figure.add_caption(f"they differ too in {', '.join(rows[0].others)}")
    return figure


@rc_context(style.STYLE)
def _draw_order_panels(
    panels: Panels,
    styles: Mapping[str, style.CurveStyle],
    labels: Mapping[str, str],
    tables: Mapping[str, xr.Dataset],
    words: str,
) -> style.Drawing:
    """Draw error curves in panels.

    Parameters
    ----------
    panels : dict of str to dict
        By title of a panel, rows by name of a curve.
    styles : dict of str to dict
        Styles by name of a curve.
    labels : dict of str to str
        Labels by name of a curve; the name by default.
    tables : dict of str to xarray.Dataset
        By title of a panel, the run table with its units.
    words : str
        Title of the legend.
    """
    times = {
        title: {row.time for row in of.values() if _has_errors(row)} for title, of in panels.items()
    }
    several = len(set().union(*times.values())) > 1
    titles = [
        ", ".join(filter(None, [title, _error_time_text(tables[title], own)]))
        if several and len(own) == 1
        else title
        for title, own in times.items()
    ]
    figure, axes = style.new_panels(titles)
    for ax, (title, of) in zip(axes, panels.items(), strict=True):
        for name, row in of.items():
            label = labels.get(name, name)
            if len(times[title]) > 1 and _has_errors(row):
                label += f", {_error_time_text(tables[title], [row.time])}"
            draw_error_curve(ax, row, styles[name], label, name)
        ax.set_xscale("log")
        ax.set_xlabel(style.axis_label_with_units(tables[title]["step_size"], "step size h"))
        style.style_log_error_axis(ax)
        draw_order_guides(ax, of.values())
        style.set_plain_step_ticks(ax)
    rows = [row for of in panels.values() for row in of.values()]
    vertical = {error_axis_label(table, rows) for table in tables.values()}
    same = len(vertical) == 1  # one unit for all systems
    text = vertical.pop() if same else rows[0].error.replace("_", " ")
    figure.label_rows(axes, text)
    left_out = any(point.use != USED and point.error > 0 for row in rows for point in row.points)
    figure.add_legend(axes, "\n".join(filter(None, [words, LEFT_OUT if left_out else ""])))
    if any(row.starts > 1 for row in rows):
        figure.add_caption(AVERAGE)
    return figure


def _has_errors(row: OrderEstimate) -> bool:
    return any(point.error > 0 for point in row.points)


def _title_of_value(row: OrderAcross, with_experiment: bool) -> str:
    """The title of a panel: value, other scanned values, and the experiment if needed."""
    value = str(row.value)
    if row.across != "experiment":
        value = f"{row.across} = {format_number(row.value)}"
    own = [row.experiment] if with_experiment else []
    return ", ".join(filter(None, [*own, value, selection.axis_values_in_words(row.parameters)]))


def _label_with_orders(method: str, panels: Panels) -> str:
    """A legend label with the order in each panel, and the method."""
    found = [of.get(method) for of in panels.values()]
    orders = [f"{row.order:.2f}" if row and np.isfinite(row.order) else "–" for row in found]
    return f"{', '.join(orders)}   {method}"


def error_axis_label(dataset: xr.Dataset, estimates: Sequence[OrderEstimate]) -> str:
    """The label of an axis of errors: their name, and their time if all have the same.

    Parameters
    ----------
    dataset : xarray.Dataset
    estimates : sequence of OrderEstimate

    Returns
    -------
    str
    """
    error, at = estimates[0].error, estimates[0].at
    times = {row.time for row in estimates if _has_errors(row)}
    when = f"\n{_error_time_text(dataset, times)}" if len(times) == 1 else ""
    if error == SELF:
        name = "difference from the next step size"
    else:
        name = style.axis_label_with_units(dataset[error], error.replace("_", " "))
    return f"{name}{when}" if at == "end" else f"largest {name}{when.replace('at ', 'until ')}"


def _error_time_text(dataset: xr.Dataset, times: Collection[float]) -> str:
    """Times of errors as text, such as ``at t = 2 s``."""
    when = f"t = {style.times_in_words(times)}"
    return f"at {style.axis_label_with_units(dataset['time'], when, '{} {}')}"


def curve_label_with_order(row: OrderEstimate) -> str:
    """A legend label with the measured order, then the integrator."""
    # The order comes first, so that labels line up, since digits have the same width.
    half = (row.high - row.low) / 2
    measured = "exact" if row.verdict == CONFIRMED else "undecided"
    if half <= HALF:
        measured = f"{row.order:.2f} ± {half:.2f}"
    return f"{measured}   {row.integrator}"


def draw_error_curve(
    ax: Axes, row: OrderEstimate, look: style.CurveStyle, label: str, series: str = ""
) -> None:
    """Draw the errors of an integrator by step size.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    row : OrderEstimate
        Points that are used for the order get filled marks, others get open marks.
    look : dict
        A value of `curve_styles`.
    label : str
        Label in the legend.
    series : str, optional
        Name in the numbers of the picture; by default the integrator.
    """
    points = [point for point in row.points if point.error > 0]
    h = np.array([point.step_size for point in points])
    low, high = (np.array([getattr(p, side) for p in points]) for side in ("low", "high"))
    error = np.clip([point.error for point in points], low, high)  # exp(log(e)) may round beyond
    used = np.array([point.use == USED for point in points], dtype=bool)
    if row.starts > 1:
        ax.vlines(h, low, high, color=look["color"], lw=0.6, alpha=0.5)
    ax.plot(h, error, color=look["color"], lw=0.7, ls=(0, (1, 1.5)))
    ax.plot(h[used], error[used], label=label, **look)
    open_mark = {"ls": "none", "mfc": "white", "mec": look["color"], "mew": 1.0}
    ax.plot(h[~used], error[~used], **(look | open_mark))
    kinds, remark = np.where(used, "filled", "open"), [point.use for point in points]
    name = series or row.integrator
    style.note_numbers(ax, name, kinds, h, error, low=low, high=high, remark=remark)


def draw_order_guides(ax: Axes, rows: Iterable[OrderEstimate]) -> None:
    """Draw a short line with the slope of each declared order, below the lowest curve of it."""
    lowest: dict[int, tuple[float, list[OrderPoint]]] = {}
    for row in rows:
        used = [point for point in row.points if point.use == USED]
        if used and isinstance(row.declared, int) and row.verdict != UNDECIDED:
            error_at_1 = used[0].error / used[0].step_size ** row.declared
            if row.declared not in lowest or error_at_1 < lowest[row.declared][0]:
                lowest[row.declared] = error_at_1, used
    for order, (_, used) in lowest.items():
        h = used[0].step_size * np.array([1.0, min(2.5, used[-1].step_size / used[0].step_size)])
        guide = 0.25 * used[0].error * (h / h[0]) ** order
        ax.plot(h, guide, color=style.GREY, lw=0.8, zorder=1)
        style.note_numbers(ax, f"declared order {order}", "line", h, guide)
        at: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
        name = f"h{style.superscript_number(order)}"
        ax.annotate(name, (h[1], guide[1]), color="0.3", fontsize=8, **at)
