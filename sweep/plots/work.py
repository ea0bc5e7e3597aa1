"""Work and precision: the size of errors against what they cost."""

import numpy as np
from matplotlib import rc_context
from matplotlib.ticker import LogLocator, NullFormatter

from integrators.errors import InputError, check_known
from sweep.analysis.fronts import WORK
from sweep.analysis.selection import describe, without_repeats
from sweep.analysis.work import chosen_errors, work_table
from sweep.plots.looks import (
    MOST_PANELS,
    STYLE,
    error_axis,
    is_compact,
    label_of,
    legend,
    looks_of,
    panel_grid,
    panelled_figure,
)

AXES = {"steps": "steps", "evaluations": "evaluations", "cpu_time": "CPU time [s]"}
BEST = "filled: best of family"
PALE = 0.45
# Over a span of so many times, at these multiples of powers of ten.
TICKS = ((4, (1, 1.5, 2, 3, 4, 5, 7)), (12, (1, 2, 5)), (150, (1, 3)))
MOST_BELOW = 3  # panels in a narrow column
WIDTH, HEIGHT = 9.2, 2.6  # of two panels with a legend, of a row; inches


def work_precision(dataset, error=None, against="evaluations", at="end"):
    """An error against the work that it took, as `work_table` measures it.

    Filled marks are best of their family: no other member reaches as small an error for as little
    work. Marks are medians over the starts, bars their range.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    error : str, optional
        By default ``global_error``, without a reference that of the energy.
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
    dataset = without_repeats(full := dataset)
    looks = looks_of(dataset)
    error = chosen_errors(dataset, error, at)[0]
    panels = {}
    for row in shown(work_table(full, error, at), error, against):
        panels.setdefault(describe(row.parameters), []).append(row)
    with rc_context(STYLE):
        figure, axes = panelled_figure(list(panels))
        for ax, rows in zip(axes, panels.values(), strict=True):
            _panel(ax, rows, against, looks)
        axes[0].set_ylabel(_error_label(dataset, next(iter(panels.values()))[0]))
        legend(figure, axes, BEST)
    return figure


def work(dataset):
    """Errors against evaluations and CPU time: the picture that ``sweep plot`` makes.

    A panel for each error against evaluations, and against CPU time for the first two of them; of
    several combinations of scanned values a panel each for the first error.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        As `work_precision`.
    """
    rows = work_table(dataset)
    if len({describe(row.parameters) for row in rows}) > 1:
        return work_precision(dataset)
    dataset = without_repeats(dataset)
    looks, panels = looks_of(dataset), _panels(rows)
    with rc_context(STYLE):
        figure, axes = panel_grid(len(panels), 2, WIDTH, HEIGHT)
        for ax, (of_panel, against) in zip(axes, panels, strict=True):
            _panel(ax, of_panel, against, looks)
            ax.set_ylabel(_error_label(dataset, of_panel[0]))
        legend(figure, axes, BEST)
    return figure


def _panels(rows):
    """What is drawn: rows of one error, and the work that they are drawn against."""
    # Where all keep something to round-off, there is nothing to compare.
    errors = list(dict.fromkeys(row.error for row in rows if row.reference or row.resolved))
    found = {}
    for error in errors:
        for against in ("evaluations", "cpu_time"):
            try:
                found[error, against] = shown(rows, error, against)
            except InputError:
                continue
    if not found:
        raise InputError("no run has an error above round-off to show.", key="error")
    main, others = [], []
    for (error, against), of in found.items():
        first = error in errors[:2]
        if first or against == "evaluations":
            (main if first else others).append((of, against))
    return [*main, *others][: MOST_BELOW if is_compact() else MOST_PANELS]


def shown(rows, error, against):
    """The rows of one error that a logarithmic axis can show; `InputError` if there are none."""
    of_error = [row for row in rows if row.error == error]
    found = [row for row in of_error if row.value > 0 and getattr(row, against) > 0]
    if not found:
        raise InputError(f"no run has a {error!r} other than 0 to show.", key="error")
    return found


def _panel(ax, rows, against, looks):
    """The curves of all integrators in a panel."""
    by_integrator = {}
    for row in rows:
        by_integrator.setdefault(row.integrator, []).append(row)
    for integrator, points in by_integrator.items():
        _curve(ax, points, against, looks[integrator])
    ax.set(xscale="log", xlabel=AXES[against])
    error_axis(ax)
    low, high = ax.get_xlim()
    subs = next((subs for span, subs in TICKS if high < span * low), (1,))
    ax.xaxis.set_major_locator(LogLocator(subs=subs))
    ax.xaxis.set_major_formatter("{x:g}" if against == "cpu_time" else "{x:,.0f}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def _curve(ax, points, against, look):
    """One integrator: a pale line, open marks, and filled ones where it is best."""
    work = np.array([getattr(row, against) for row in points])
    error = np.array([row.value for row in points])
    best = np.array([against in row.best for row in points], dtype=bool)
    if max(row.starts for row in points) > 1:
        low, high = (np.array([getattr(row, side) for row in points]) for side in ("low", "high"))
        ax.vlines(work, np.fmax(low, error / 1e3), high, color=look["color"], lw=0.6, alpha=0.5)
    marks = look | {"ls": "none"}
    ax.plot([], [], label=points[0].integrator, **look)
    ax.plot(work, error, **(look | {"marker": "", "alpha": PALE}))
    ax.plot(work[best], error[best], **marks)
    open_mark = {"mfc": "white", "mec": look["color"], "mew": 0.8, "alpha": PALE}
    ax.plot(work[~best], error[~best], **(marks | open_mark | {"zorder": look["zorder"] - 1}))


def _error_label(dataset, row):
    text = row.error.replace("_", " ")
    if row.at == "end":
        return f"{label_of(dataset[row.error], text)} at t = {row.time:g}"
    return label_of(dataset[row.error], f"largest {text}")
