"""Work–precision diagrams, and the picture of a recommendation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import rc_context

from integrators.errors import InputError, check_known
from sweep.analysis.efficiency.pareto import WORK
from sweep.analysis.efficiency.timing import why_cpu_times_not_comparable
from sweep.analysis.efficiency.work import chosen_errors_for_work, work_table
from sweep.analysis.rows import grouped
from sweep.analysis.runs.selection import axis_values_in_words, run_table_without_repeats
from sweep.plots import style
from sweep.plots.scan_plots import draw_scan, scan_of_costs

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from sweep.analysis.efficiency.pareto import WorkEstimate
    from sweep.campaign.recommend import Recommendation

# Label and units of each measure of work of a run.
AXES = {
    "steps": ("steps", ""),
    "evaluations": ("evaluations", ""),
    "cpu_time": ("CPU time", " [s]"),
}
BEST = "large: best of family"
LEFT_OUT = "open: left out of the comparison"
MEDIAN = "marks: median over the starts; bars: range"
PALE = 0.45
FEWEST_MEASURED = 2  # smallest number of comparable CPU times in a panel
# Multiples of powers of ten that have ticks, by the largest ratio of the ends of the axis.
TICKS = ((4, (1, 1.5, 2, 3, 4, 5, 7)), (12, (1, 2, 5)), (150, (1, 3)))
MOST_BELOW = 3  # maximum number of panels in a narrow column
MOST_RECOMMENDED = 10  # maximum number of integrators in the picture of a recommendation


def work_precision(
    dataset: xr.Dataset | xr.DataTree,
    error: str | None = None,
    against: str = "evaluations",
    at: str = "end",
) -> style.Drawing:
    """Draw an error against work, as `work_table` measures both.

    Large marks are the best of their family: no other member reaches as small an error with as
    little work. Marks are medians over the starts, and bars are the range. An open mark does not
    count, because its error is not resolved, or because its CPU time cannot be compared, for
    example if a short run was timed only once. Horizontal bars are the range of repeats. If no CPU
    times can be compared, the panel says why.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    error : str, optional
        By default ``global_error``, or, without a reference, the error of the energy.
    against : {"steps", "evaluations", "cpu_time"}, optional
    at : {"end", "sup"}, optional
        See `work_table`.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each combination of scanned values.

    Raises
    ------
    InputError
        In the cases of `work_table`, if there is nothing to draw, or if the selection needs more
        than six panels.
    """
    check_known("measure of work", against, WORK, key="against")
    table: xr.Dataset = run_table_without_repeats(dataset)
    error = chosen_errors_for_work(table, error, at)[0]
    rows = rows_on_log_axis(work_table(dataset, error, at), error, against)
    cells = grouped(rows, lambda row: axis_values_in_words(row.parameters))
    return _draw_work([Panel(title, own, against) for title, own in cells.items()], table)


def plot_work_panels(dataset: xr.Dataset | xr.DataTree, x: str | None = None) -> style.Drawing:
    """Draw errors against evaluations and CPU time.

    There is a panel for each error against evaluations, and for the first two errors another one
    against CPU time. With several combinations of scanned values, there is a panel of the first
    error for each of them. With more than twelve, or if `x` is given, the evaluations needed for an
    error are drawn against a scanned axis instead.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    x : str, optional
        A scanned axis to draw the evaluations against.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        In the cases of `work_precision`.
    """
    rows = work_table(dataset)
    table: xr.Dataset = run_table_without_repeats(dataset)
    combinations = {axis_values_in_words(row.parameters) for row in rows}
    if x is not None or len(combinations) > style.MOST_OF_A_KIND:
        return draw_scan(scan_of_costs(table, x), style.curve_styles_of_integrators(table))
    if len(combinations) > 1:
        return work_precision(dataset)
    return _draw_work(_work_panels(rows), table, shared=False)


class Panel(NamedTuple):
    """Rows of one error at one combination of scanned values, and the measure of work."""

    title: str
    rows: list[WorkEstimate]
    against: str

    @property
    def compares(self) -> bool:
        """Whether any work can be compared; for CPU times, some must be reliable."""
        measured = sum(row.cpu_time_measured for row in self.rows)
        return self.against != "cpu_time" or measured >= min(FEWEST_MEASURED, len(self.rows))


def _work_panels(rows: Sequence[WorkEstimate]) -> list[Panel]:
    """Panels of one combination of scanned values, of errors against evaluations and CPU time."""
    # If all integrators conserve a quantity to round-off, there is nothing to compare.
    errors = list(dict.fromkeys(row.error for row in rows if row.reference or row.resolved))
    main: list[Panel] = []
    others: list[Panel] = []
    for place, error in enumerate(errors):
        for against in ("evaluations", "cpu_time"):
            with contextlib.suppress(InputError):
                panel = Panel("", rows_on_log_axis(rows, error, against), against)
                # If no times can be compared, one panel, of the first error, says why; but not in
                # print.
                if not panel.compares and (place or not style.current_page().heading):
                    continue
                if place < 2 or against == "evaluations":
                    (main if place < 2 else others).append(panel)
    if not main + others:
        raise InputError("no run has an error above round-off to show.", key="error")
    return [*main, *others][: MOST_BELOW if style.current_page().narrow else style.MOST_PANELS]


def rows_on_log_axis(rows: Iterable[WorkEstimate], error: str, against: str) -> list[WorkEstimate]:
    """The rows of one error with positive error and work; `InputError` if there are none."""
    of_error = [row for row in rows if row.error == error]
    found = [row for row in of_error if row.value > 0 and getattr(row, against) > 0]
    if not found:
        raise InputError(f"no run has a {error!r} other than 0 to show.", key="error")
    return found


def counts_for_comparison(row: WorkEstimate, against: str) -> bool:
    """Whether the error of a point is resolved, and its work can be compared."""
    resolved = row.resolved or not row.reference
    return resolved and (against != "cpu_time" or row.cpu_time_measured)


@rc_context(style.STYLE)
def _draw_work(panels: Sequence[Panel], table: xr.Dataset, shared: bool = True) -> style.Drawing:
    """Draw panels; either all share their axes, or those with the same measure of work do."""
    rows = [row for panel in panels for row in panel.rows]
    if not any(panel.compares for panel in panels):
        raise InputError(f"{why_cpu_times_not_comparable(rows)}.", key="against")
    once = not shared or len({panel.rows[0].time for panel in panels}) == 1
    titles = [
        panel.title if once else f"{panel.title}, at {_time_text(table, panel.rows[0].time)}"
        for panel in panels
    ]
    figure, axes = style.new_panels(titles, shared)
    room = figure.get_figwidth() / figure.columns - style.MARGIN
    figure.starts = style.starts_in_words(table, [row.starts for row in rows])
    times = {row.time for row in rows if row.reference}
    figure.error_times = style.error_times_in_words(table["time"], times, style.REFERENCE)
    styles, same = style.curve_styles_of_integrators(table), dict[str, Any]()
    reasons = dict[str, None]()
    for ax, panel in zip(axes, panels, strict=True):
        why = why_cpu_times_not_comparable(panel.rows) if panel.against == "cpu_time" else ""
        if not panel.compares:
            ax.set_axis_off()
            said = f"No CPU time is drawn. {why}."
            text = ax.text(0.0, 0.95, said, va="top", transform=ax.transAxes, color="0.3")
            style.wrap_text(text, room)
            continue
        if not shared:
            ax.set_ylabel(_work_error_axis_label(table, panel.rows[0]))
            if same.setdefault(panel.against, ax) is not ax:
                ax.sharex(same[panel.against])
        for of_integrator in grouped(panel.rows, lambda row: row.integrator).values():
            _draw_work_curve(ax, of_integrator, panel.against, styles[of_integrator[0].integrator])
        quantity, units = AXES[panel.against]
        until = _time_text(table, float(table["time"].values[-1]))
        ax.set(xscale="log", xlabel=f"{quantity} until {until}{units}")
        style.set_log_ticks(ax.xaxis, "{x:g}" if panel.against == "cpu_time" else "{x:,.0f}", TICKS)
        style.style_log_error_axis(ax)
        if why:
            reasons[why] = None
    if shared:
        figure.label_rows(axes, _work_error_axis_label(table, rows[0], once))
    some_open = not all(
        counts_for_comparison(r, panel.against) for panel in panels for r in panel.rows
    )
    drawn = [ax for ax in axes if ax.axison]
    figure.add_legend(drawn, f"{BEST}\n{LEFT_OUT}" if some_open else BEST)
    if any(row.starts > 1 for row in rows):
        figure.add_caption(MEDIAN)
    for why in reasons:
        figure.add_caption(f"open: {why}")
    return figure


def _draw_work_curve(
    ax: Axes, points: Sequence[WorkEstimate], against: str, look: style.CurveStyle
) -> None:
    """Draw the points of an integrator with a pale line; the best of its family are large."""
    ax.plot([], [], label=points[0].integrator, **look)
    counts = np.array([counts_for_comparison(row, against) for row in points])
    best = np.array([against in row.best for row in points]) & counts
    work = np.array([getattr(row, against) for row in points])
    error = np.array([row.value for row in points])
    pale: dict[str, Any] = {"color": look["color"], "lw": 0.6, "alpha": 0.5}
    numbers: dict[str, Any] = {}
    if against == "cpu_time":
        largest = np.array([row.cpu_time_largest if row.repeats > 1 else np.nan for row in points])
        ax.hlines(error, work, largest, **pale)
        numbers["cpu_time_largest"] = largest
    if max(row.starts for row in points) > 1:
        low, high = (np.array([getattr(row, side) for row in points]) for side in ("low", "high"))
        ax.vlines(work[counts], np.fmax(low, error / 1e3)[counts], high[counts], **pale)
        numbers |= {"low": low, "high": high}
    ax.plot(work[counts], error[counts], **(look | {"marker": "", "alpha": PALE}))
    marks = look | {"ls": "none"}
    ax.plot(work[best], error[best], **marks)
    small = marks | {"ms": 0.6 * look["ms"], "alpha": PALE, "zorder": look["zorder"] - 1}
    other = counts & ~best
    ax.plot(work[other], error[other], **small)
    open_mark = {"mfc": "white", "mec": look["color"], "mew": 0.8, "ms": 0.75 * look["ms"]}
    ax.plot(work[~counts], error[~counts], **(small | open_mark))
    kinds = np.where(counts, np.where(best, "large", "small"), "open")
    style.note_numbers(ax, points[0].integrator, kinds, work, error, **numbers)


def _work_error_axis_label(dataset: xr.Dataset, row: WorkEstimate, once: bool = True) -> str:
    """The label of an axis: the error and, if all panels have the same, its time."""
    text = row.error.replace("_", " ")
    preposition = "at" if row.at == "end" else "until"
    when = f"\n{preposition} {_time_text(dataset, row.time)}" if once else ""
    text = text if row.at == "end" else f"largest {text}"
    return f"{style.axis_label_with_units(dataset[row.error], text)}{when}"


def _time_text(dataset: xr.Dataset, time: float) -> str:
    return style.axis_label_with_units(dataset["time"], f"t = {time:g}", "{} {}")


# --- recommendations -----------------------------------------------------------------------------


@rc_context(style.STYLE)
def recommendation_picture(found: Recommendation) -> style.Drawing:
    """Draw errors of a recommended integrator and its runners-up against CPU time.

    Each mark is the size that is recommended. A bar ends at the second least CPU time of repeats.
    The CPU times of other sizes cannot be compared, since these were run once.

    Parameters
    ----------
    found : sweep.campaign.recommend.Recommendation

    Returns
    -------
    matplotlib.figure.Figure
    """
    choices = (found.best, *found.others)[:MOST_RECOMMENDED]
    until = f"until t = {found.until:g} {style.units_with_superscripts(found.time_units)}".rstrip()
    # Errors are relative to their bounds; with a single bound, they are drawn in its units.
    bound = found.bounds[0].most if len(found.bounds) == 1 else 1.0
    figure, (ax,) = style.new_panels([""])
    figure.add_caption(f"{found.system}, {until}")
    styles = style.curve_styles([own.integrator for own in choices])
    for own, (name, look) in zip(choices, styles.items(), strict=True):
        x, y, end = own.seconds, found.parts_of_bounds(own) * bound, own.seconds_next
        ax.hlines(y, x, end, color=look["color"], lw=1.0)
        ax.plot(x, y, label=name, **(look | {"ls": "none"}))
        style.note_numbers(ax, name, "filled", [x], [y], seconds_next=[end])
    ax.axhline(bound, color=style.GREY, lw=1.0, ls="--")
    at_end: dict[str, Any] = {"ha": "right", "va": "bottom", "color": "0.3"}
    ax.annotate("bound", (0.99, bound), xycoords=("axes fraction", "data"), **at_end)
    best = found.best
    ring: dict[str, Any] = {"marker": "o", "ms": 14, "mfc": "none", "mec": "0.3", "ls": "none"}
    ax.plot(best.seconds, found.parts_of_bounds(best) * bound, label="recommended", **ring)
    ax.set(xscale="log", xlabel="CPU time of a run [s]", ylabel=_bounded_error_label(found))
    style.style_log_error_axis(ax)
    style.set_log_ticks(ax.xaxis, style.scientific_tick_label, TICKS)
    figure.add_legend([ax])
    return figure


def _bounded_error_label(found: Recommendation) -> str:
    if len(found.bounds) > 1:
        return "largest error, part of its bound"
    (bound,) = found.bounds
    units = style.units_with_superscripts(bound.units)
    return f"largest {bound.in_words} [{units}]" if units else f"largest {bound.in_words}"
