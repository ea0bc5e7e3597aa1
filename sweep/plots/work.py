"""Work and precision: errors against what they cost, and those of a recommendation."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.ticker import LogLocator, NullFormatter

from integrators.errors import InputError, check_known
from sweep.analysis.efficiency.pareto import WORK
from sweep.analysis.efficiency.timing import why_cpu_times_not_comparable
from sweep.analysis.efficiency.work import chosen_errors_for_work, work_table
from sweep.analysis.runs.selection import axis_values_in_words, run_table_without_repeats
from sweep.plots.page_setup import current_page
from sweep.plots.scans import draw_scan, scan_of_costs
from sweep.plots.style import (
    COLOURS,
    DASHES,
    GREY,
    MARKERS,
    MOST_OF_A_KIND,
    MOST_PANELS,
    OPEN,
    STYLE,
    Coverage,
    CurveStyle,
    Drawing,
    add_legend,
    axis_label_with_units,
    curve_styles_of_integrators,
    is_compact_figure,
    label_first_of_rows,
    new_panel_grid,
    new_panelled_figure,
    note_numbers,
    style_log_error_axis,
    units_with_superscripts,
)

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from sweep.analysis.efficiency.pareto import WorkEstimate
    from sweep.campaign.recommend.recommendation import Recommendation

# Label and units of each measure of work, which is that of the whole run.
AXES = {
    "steps": ("steps", ""),
    "evaluations": ("evaluations", ""),
    "cpu_time": ("CPU time", " [s]"),
}
BEST = "large: best of family"
PALE = 0.45
FEWEST_MEASURED = 2  # CPU times in a panel that compares them
# Up to which ratio of the ends of an axis ticks are at which multiples of powers of ten.
TICKS = ((4, (1, 1.5, 2, 3, 4, 5, 7)), (12, (1, 2, 5)), (150, (1, 3)))
REASON, NARROW_REASON = 52, 42  # characters of a line within a panel of usual and narrow width
MOST_BELOW = 3  # panels in a narrow column
WIDTH, HEIGHT = 9.2, 2.6  # inches: of two panels with a legend, and of a row
MOST_RECOMMENDED = 10  # curves in the picture of a recommendation
SPAN = 1e6  # times the bound, above and below: errors beyond say no more
OPEN_TRIAL = "open: does not count, until an earlier time"


def work_precision(
    dataset: xr.Dataset | xr.DataTree,
    error: str | None = None,
    against: str = "evaluations",
    at: str = "end",
) -> Drawing:
    """Draw an error against the work that it took, as `work_table` measures both.

    Large marks are best of their family: no other member reaches as small an error for as little
    work. Marks are medians over the starts, bars their range. An open mark does not count: its
    error is below what the reference resolves, or its CPU time cannot be compared, as that of a
    short run that was timed once; its bar is the range of its repeats. A panel in which no CPU
    times can be compared says why instead.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    error : str, optional
        By default ``global_error``, and without a reference the error of the energy.
    against : {"steps", "evaluations", "cpu_time"}, optional
    at : {"end", "sup"}, optional
        As in `work_table`.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each combination of scanned values.

    Raises
    ------
    InputError
        As `work_table`, when there is nothing to show, and when the selection would fill more
        than six panels.
    """
    check_known("measure of work", against, WORK, key="against")
    table: xr.Dataset = run_table_without_repeats(dataset)
    styles = curve_styles_of_integrators(table)
    error = chosen_errors_for_work(table, error, at)[0]
    panels: dict[str, list[WorkEstimate]] = {}
    rows = rows_on_log_axis(work_table(dataset, error, at), error, against)
    for row in rows:
        panels.setdefault(axis_values_in_words(row.parameters), []).append(row)
    if not any(_panel_compares_work(of_panel, against) for of_panel in panels.values()):
        raise InputError(f"{why_cpu_times_not_comparable(rows)}.", key="against")
    times = {title: of_panel[0].time for title, of_panel in panels.items()}
    once = len(set(times.values())) == 1
    with rc_context(STYLE):
        titles = [
            title if once else f"{title}, at {_error_time_label(table, times[title])}"
            for title in panels
        ]
        figure, axes = new_panelled_figure(titles)
        figure.coverage = _coverage_of_rows(table, rows)
        drawn = [
            ax
            for ax, of_panel in zip(axes, panels.values(), strict=True)
            if _draw_work_panel(ax, of_panel, against, styles, table)
        ]
        label_first_of_rows(drawn, _work_error_axis_label(table, rows[0], once))
        _add_work_legend(figure, drawn, rows, [against])
    return figure


def plot_work_panels(dataset: xr.Dataset | xr.DataTree, x: str | None = None) -> Drawing:
    """Draw errors against evaluations and CPU time: the picture of ``sweep plot STORE work``.

    There is a panel for each error against evaluations, and one against CPU time for the first two
    errors; with several combinations of scanned values a panel each for the first error. With more
    than twelve, and where `x` is given, the evaluations for an error are drawn against a scanned
    axis.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    x : str, optional
        A scanned axis, against which to draw the evaluations.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        As `work_precision`.
    """
    rows = work_table(dataset)
    table: xr.Dataset = run_table_without_repeats(dataset)
    combinations = {axis_values_in_words(row.parameters) for row in rows}
    if x is not None or len(combinations) > MOST_OF_A_KIND:
        return draw_scan(scan_of_costs(table, x), curve_styles_of_integrators(table))
    if len(combinations) > 1:
        return work_precision(dataset)
    styles, panels = curve_styles_of_integrators(table), _work_panels(rows)
    with rc_context(STYLE):
        figure, axes = new_panel_grid(len(panels), 2, WIDTH, HEIGHT)
        of_panels = [row for of_panel, _ in panels for row in of_panel]
        figure.coverage = _coverage_of_rows(table, of_panels)
        drawn = []
        for ax, (of_panel, against) in zip(axes, panels, strict=True):
            ax.set_ylabel(_work_error_axis_label(table, of_panel[0]))
            if _draw_work_panel(ax, of_panel, against, styles, table):
                drawn.append(ax)
        for against in AXES:  # of equal scale
            same = [ax for ax, (_, of) in zip(axes, panels, strict=True) if of == against]
            spans = [ax.get_xlim() for ax in same if ax in drawn]
            for ax in same if spans else ():
                ax.set_xlim(min(low for low, _ in spans), max(high for _, high in spans))
        _add_work_legend(figure, drawn, of_panels, {against for _, against in panels})
    return figure


def _work_panels(rows: Sequence[WorkEstimate]) -> list[tuple[list[WorkEstimate], str]]:
    """The panels to draw: rows of one error, and the work that they are drawn against."""
    # Where all integrators conserve a quantity to round-off, there is nothing to compare.
    errors = list(dict.fromkeys(row.error for row in rows if row.reference or row.resolved))
    found: dict[tuple[str, str], list[WorkEstimate]] = {}
    for error in errors:
        for against in ("evaluations", "cpu_time"):
            try:
                of_error = rows_on_log_axis(rows, error, against)
            except InputError:
                continue
            # Without comparable times a panel says why: for the first error, and not in print.
            says_why = error == errors[0] and current_page().heading
            if _panel_compares_work(of_error, against) or says_why:
                found[error, against] = of_error
    if not found:
        raise InputError("no run has an error above round-off to show.", key="error")
    main: list[tuple[list[WorkEstimate], str]] = []
    others: list[tuple[list[WorkEstimate], str]] = []
    for (error, against), of in found.items():
        first = error in errors[:2]
        if first or against == "evaluations":
            (main if first else others).append((of, against))
    return [*main, *others][: MOST_BELOW if is_compact_figure() else MOST_PANELS]


def rows_on_log_axis(rows: Iterable[WorkEstimate], error: str, against: str) -> list[WorkEstimate]:
    """The rows of one error with positive error and work; `InputError` if there are none."""
    of_error = [row for row in rows if row.error == error]
    found = [row for row in of_error if row.value > 0 and getattr(row, against) > 0]
    if not found:
        raise InputError(f"no run has a {error!r} other than 0 to show.", key="error")
    return found


def _panel_compares_work(rows: Sequence[WorkEstimate], against: str) -> bool:
    """Whether any work in a panel can be compared: of CPU times some must be measured."""
    measured = sum(row.cpu_time_measured for row in rows)
    return against != "cpu_time" or measured >= min(FEWEST_MEASURED, len(rows))


def _coverage_of_rows(dataset: xr.Dataset, rows: Sequence[WorkEstimate]) -> Coverage:
    times = {row.time for row in rows if row.reference}
    counts = [row.starts for row in rows]
    return Coverage.of_run_table(dataset, counts, times=tuple(times), against_reference=True)


def counts_for_comparison(row: WorkEstimate, against: str) -> bool:
    """Whether a point can be compared: its error is resolved, and its work is measured."""
    resolved = row.resolved or not row.reference
    return resolved and (against != "cpu_time" or row.cpu_time_measured)


def _add_work_legend(
    figure: Drawing, axes: Sequence[Axes], rows: Iterable[WorkEstimate], measures: Collection[str]
) -> None:
    """Add a legend of integrators, and of open marks where there are any."""
    some_open = any(not counts_for_comparison(row, against) for row in rows for against in measures)
    add_legend(figure, axes, f"{BEST}; {OPEN}" if some_open else BEST)


def _draw_work_panel(
    ax: Axes,
    rows: Sequence[WorkEstimate],
    against: str,
    styles: dict[str, CurveStyle],
    dataset: xr.Dataset,
) -> bool:
    """Draw the curves of all integrators, or write why no work can be compared.

    Returns
    -------
    bool
        Whether there are curves.
    """
    why = why_cpu_times_not_comparable(rows) if against == "cpu_time" else ""
    if not _panel_compares_work(rows, against):
        ax.set_axis_off()
        ax.text(
            0.0,
            0.95,
            _wrap_text_to_panel(f"No CPU time is drawn. {why}."),
            va="top",
            transform=ax.transAxes,
            color="0.3",
        )
        return False
    by_integrator: dict[str, list[WorkEstimate]] = {}
    for row in rows:
        by_integrator.setdefault(row.integrator, []).append(row)
    for integrator, points in by_integrator.items():
        _draw_work_curve(ax, points, against, styles[integrator])
    quantity, units = AXES[against]
    until = _error_time_label(dataset, float(dataset["time"].values[-1]))
    ax.set(xscale="log", xlabel=f"{quantity} until {until}{units}")
    style_log_error_axis(ax)
    low, high = ax.get_xlim()
    subs = next((subs for span, subs in TICKS if high < span * low), (1,))
    ax.xaxis.set_major_locator(LogLocator(subs=subs))
    ax.xaxis.set_major_formatter("{x:g}" if against == "cpu_time" else "{x:,.0f}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    if why:
        said = _wrap_text_to_panel(f"open: {why}")
        ax.set_title("\n".join(filter(None, [ax.get_title(loc="left"), said])), loc="left")
    return True


def _wrap_text_to_panel(text: str) -> str:
    """Text in lines that fit a panel."""
    whole = text.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    width = NARROW_REASON if is_compact_figure() else REASON
    return textwrap.fill(whole, width).replace("\N{NO-BREAK SPACE}", " ")


def _draw_work_curve(
    ax: Axes, points: Sequence[WorkEstimate], against: str, style: CurveStyle
) -> None:
    """Draw an integrator: a pale line, and marks that are large where it is best of its family."""
    ax.plot([], [], label=points[0].integrator, **style)
    counts = np.array([counts_for_comparison(row, against) for row in points])
    best = np.array([against in row.best for row in points]) & counts
    work = np.array([getattr(row, against) for row in points])
    error = np.array([row.value for row in points])
    pale: dict[str, Any] = {"color": style["color"], "lw": 0.6, "alpha": 0.5}
    numbers: dict[str, Any] = {}
    if against == "cpu_time":
        largest = np.array([row.cpu_time_largest if row.repeats > 1 else np.nan for row in points])
        ax.hlines(error, work, largest, **pale)
        numbers["cpu_time_largest"] = largest
    if max(row.starts for row in points) > 1:
        low, high = (np.array([getattr(row, side) for row in points]) for side in ("low", "high"))
        ax.vlines(work[counts], np.fmax(low, error / 1e3)[counts], high[counts], **pale)
        numbers |= {"low": low, "high": high}
    ax.plot(work[counts], error[counts], **(style | {"marker": "", "alpha": PALE}))
    marks = style | {"ls": "none"}
    ax.plot(work[best], error[best], **marks)
    small = marks | {"ms": 0.6 * style["ms"], "alpha": PALE, "zorder": style["zorder"] - 1}
    other = counts & ~best
    ax.plot(work[other], error[other], **small)
    open_mark = {"mfc": "white", "mec": style["color"], "mew": 0.8, "ms": 0.75 * style["ms"]}
    ax.plot(work[~counts], error[~counts], **(small | open_mark))
    kinds = np.where(counts, np.where(best, "large", "small"), "open")
    note_numbers(ax, points[0].integrator, kinds, work, error, **numbers)


def _work_error_axis_label(dataset: xr.Dataset, row: WorkEstimate, once: bool = True) -> str:
    """The error and its time, without the time where panels have different ones."""
    text = row.error.replace("_", " ")
    preposition = "at" if row.at == "end" else "until"
    when = f"\n{preposition} {_error_time_label(dataset, row.time)}" if once else ""
    text = text if row.at == "end" else f"largest {text}"
    return f"{axis_label_with_units(dataset[row.error], text)}{when}"


def _error_time_label(dataset: xr.Dataset, time: float) -> str:
    return axis_label_with_units(dataset["time"], f"t = {time:g}", "{} {}")


# --- recommendations -----------------------------------------------------------------------------


def recommendation_picture(found: Recommendation) -> Drawing:
    """Errors of a recommended integrator and its runners-up, against the CPU time of a run.

    Each mark is a step size or tolerance with which runs went to the end.

    Parameters
    ----------
    found : sweep.campaign.recommend.recommendation.Recommendation

    Returns
    -------
    matplotlib.figure.Figure
    """
    names = [own.integrator for own in (found.best, *found.others)][:MOST_RECOMMENDED]
    until = f"until t = {found.until:g} {units_with_superscripts(found.time_units)}".rstrip()
    # Errors are parts of their bounds; of one bound in its units, of several there are no common.
    bound = found.bounds[0].most if len(found.bounds) == 1 else 1.0
    with rc_context(STYLE):
        figure, (ax,) = new_panelled_figure([""], f"{found.system}, {until}")
        for number, name in enumerate(names):
            trials = [own for own in found.points if own.integrator == name]
            trials = [own for own in trials if 1 / SPAN < found.parts_of_bounds(own) < SPAN]
            trials.sort(key=lambda own: own.size)
            style: CurveStyle = {
                "color": COLOURS[number % len(COLOURS)],
                "marker": MARKERS[number % len(MARKERS)],
            }
            style |= {"ls": DASHES[number // len(COLOURS) % len(DASHES)], "ms": 5.0, "lw": 1.0}
            seconds = [own.seconds for own in trials]
            errors = [found.parts_of_bounds(own) * bound for own in trials]
            ax.plot(seconds, errors, label=name, **style)
            note_numbers(ax, name, ["filled"] * len(trials), seconds, errors)
        ax.axhline(bound, color=GREY, lw=1.0, ls="--")
        ax.annotate(
            "bound", (0.99, bound), xycoords=("axes fraction", "data"), ha="right",
            va="bottom", color="0.3",
        )  # fmt: skip
        best = found.best
        ax.plot(
            best.seconds, found.parts_of_bounds(best) * bound, marker="o", ms=14, mfc="none",
            mec="0.3", ls="none", label="recommended",
        )  # fmt: skip
        ax.set(xscale="log", xlabel="CPU time of a run [s]", ylabel=_bounded_error_label(found))
        style_log_error_axis(ax)
        low, high = ax.get_xlim()
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        add_legend(figure, [ax])
    return figure


def _bounded_error_label(found: Recommendation) -> str:
    if len(found.bounds) > 1:
        return "largest error, part of its bound"
    (bound,) = found.bounds
    units = units_with_superscripts(bound.units)
    return f"largest {bound.in_words} [{units}]" if units else f"largest {bound.in_words}"
