"""Pictures of a run table: convergence, energy and unit length over time.

Each function takes one experiment, or a selection of its runs, and returns a Figure that belongs
to no window. An integrator looks the same in all of them.
"""

import numpy as np
from matplotlib import rc_context

from integrators.errors import InputError
from sweep.analysis.orders import WIDEST, order_table
from sweep.analysis.selection import (
    describe,
    energy_of,
    groups,
    scanned_axes,
    take,
    variable,
    without_repeats,
)
from sweep.analysis.slopes import USED
from sweep.plots.choice import runs_to_show
from sweep.plots.looks import (
    GREY,
    STYLE,
    error_axis,
    label_of,
    legend,
    looks_of,
    panelled_figure,
    plain_step_ticks,
    raised,
)

MOST_POINTS = 250  # along time: more cannot be told apart in print
MARKS = 8  # of a curve


def convergence(dataset, error="global_error", at="end"):
    """Error against step size, as `order_table` measures it.

    Filled markers count for the order in the legend, open ones do not. Lines are geometric means
    over the starts, bars their range; a grey line beside them falls with each declared order.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    error, at : str, optional
        As in `order_table`.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        As `order_table`, and when the selection would fill more than six panels.
    """
    dataset = without_repeats(dataset)
    looks = looks_of(dataset)
    estimates = order_table(dataset, error, at)
    if not any(point.error > 0 for row in estimates for point in row.points):
        raise InputError(f"no run has an {error!r} to show.", key="error")
    panels = {}
    for row in estimates:
        panels.setdefault(describe(row.parameters), []).append(row)
    with rc_context(STYLE):
        figure, axes = panelled_figure(list(panels))
        for ax, rows in zip(axes, panels.values(), strict=True):
            for row in rows:
                label = with_order(row) if len(panels) == 1 else row.integrator
                error_curve(ax, row, looks[row.integrator], label)
            ax.set(xscale="log", xlabel=label_of(dataset["step_size"], "step size h"))
            error_axis(ax)
            order_guides(ax, rows)
            plain_step_ticks(ax)
        where = "at the end" if at == "end" else "supremum over time"
        axes[0].set_ylabel(f"{label_of(dataset[error], error.replace('_', ' '))}, {where}")
        legend(figure, axes, "measured order" if len(panels) == 1 else None)
    return figure


def with_order(row):
    """The label of an integrator after the order that it shows."""
    # First, since digits are of one width: so they line up in the legend.
    half = (row.high - row.low) / 2
    measured = f"{row.order:.2f} ± {half:.2f}" if half <= WIDEST else "undecided"
    return f"{measured}   {row.integrator}"


def error_curve(ax, row, look, label):
    """One integrator's errors by step size; filled marks count for its order, open ones do not."""
    points = [point for point in row.points if point.error > 0]
    h = np.array([point.step_size for point in points])
    error = np.array([point.error for point in points])
    used = np.array([point.use == USED for point in points], dtype=bool)
    if row.starts > 1:
        low, high = (np.array([getattr(p, side) for p in points]) for side in ("low", "high"))
        ax.vlines(h, low, high, color=look["color"], lw=0.6, alpha=0.5)
    ax.plot(h, error, color=look["color"], lw=0.7, ls=(0, (1, 1.5)))
    ax.plot(h[used], error[used], label=label, **look)
    open_mark = {"ls": "none", "mfc": "white", "mec": look["color"], "mew": 1.0}
    ax.plot(h[~used], error[~used], **(look | open_mark))


def order_guides(ax, rows):
    """A short line of the declared slope below the lowest curve of each order."""
    lowest = {}
    for row in rows:
        used = [point for point in row.points if point.use == USED]
        if row.declared and row.verdict != "undecided":
            curve = (used[0].error / used[0].step_size ** row.declared, used)
            lowest[row.declared] = min(lowest.get(row.declared, curve), curve)
    for order, (_, used) in lowest.items():
        h = used[0].step_size * np.array([1.0, min(2.5, used[-1].step_size / used[0].step_size)])
        guide = 0.25 * used[0].error * (h / h[0]) ** order
        ax.plot(h, guide, color=GREY, lw=0.8, zorder=1)
        small = {"ha": "left", "va": "top", "color": "0.3", "fontsize": 8}
        place = {"xy": (h[0], guide[0]), "xytext": (2, -3), "textcoords": "offset points"}
        ax.annotate(f"h{raised(order)}", **place, **small)


def energy_over_time(dataset, step_size=None):
    """Size of the energy error over time: median over the starts, and their range.

    Of a forced system it is the error of the energy balance.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    step_size : float, optional
        Each integrator is shown at its step size nearest to this one; by default the smallest
        of those that most integrators share.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        When there is no energy error, or the selection would fill more than six panels.
    """
    dataset = without_repeats(dataset)
    energy = energy_of(dataset)
    every_step = f"{energy}_error_abs_max" in dataset
    name = f"{energy}_error_abs_max" if every_step else f"{energy}_error"
    size = "|E − E₀|" if energy == "energy" else f"|{energy.replace('_', ' ')} error|"
    text = f"max {size} over steps" if every_step else size
    label = label_of(variable(dataset, name), text)
    return _over_time(dataset, name, label, step_size)


def unit_length_over_time(dataset, step_size=None):
    """Departure from unit length over time: median over the starts, and their range.

    Parameters and result are those of `energy_over_time`.
    """
    dataset = without_repeats(dataset)
    every_step = "unit_length_error_mean" in dataset
    name = "unit_length_error_mean" if every_step else "unit_length_error"
    text = "mean |q·q − 1| over steps" if every_step else "|q·q − 1|"
    label = label_of(variable(dataset, name), text)
    return _over_time(dataset, name, label, step_size)


def _over_time(dataset, name, label, step_size):
    if dataset.sizes["time"] < 3:
        raise InputError("a picture over time needs at least 2 sample intervals.", key="samples")
    looks = looks_of(dataset)
    runs, steps = runs_to_show(dataset, step_size)
    needed = [key for key in (name, "status", "sample_count") if key in dataset]
    shown = dataset[needed].isel(run=runs)
    panels = {}
    for key, members in groups(shown, [*scanned_axes(shown), "integrator"]):
        integrator = key.pop("integrator")
        panels.setdefault(describe(key), {})[integrator] = take(shown, members).load()
    if not any(_positive(cell[name]) for cells in panels.values() for cell in cells.values()):
        raise InputError(f"no run has a {name!r} other than 0 to show.")
    of_panel = {panel: {steps[panel, name] for name in cells} for panel, cells in panels.items()}
    common = set.union(*of_panel.values())
    titles = [
        ", ".join([panel, *said]) if len(said) == 1 < len(common) else panel
        for panel, said in of_panel.items()
    ]
    with rc_context(STYLE):
        figure, axes = panelled_figure(titles, _said(panels, common))
        for ax, (panel, cells) in zip(axes, panels.items(), strict=True):
            for integrator, cell in cells.items():
                own = f", {steps[panel, integrator]}" if len(of_panel[panel]) > 1 else ""
                text = integrator + own
                phase = list(looks).index(integrator) / len(looks)
                _time_curve(ax, cell, name, text, looks[integrator], phase)
            ax.set(xlabel=label_of(dataset["time"], "time t"))
            error_axis(ax)
            _time_axis(ax, dataset["time"].values)
        axes[0].set_ylabel(label)
        legend(figure, axes)
    return figure


def _positive(errors):
    return bool((np.abs(errors.values[:, 1:]) > 0).any())


def _said(panels, steps):
    """What a picture shows, in words: the step size if it is one, and of how many starts."""
    starts = max(cell.sizes["run"] for cells in panels.values() for cell in cells.values())
    words = [*steps] if len(steps) == 1 else []
    return ", ".join(words + ([f"median and range over {starts} starts"] if starts > 1 else []))


def _time_axis(ax, times):
    """From the start to the end; logarithmic where the samples thin out with time.

    Not where they are of a few lengths only, as after an extension by longer intervals.
    """
    widths = np.diff(times)
    lengths = len(np.unique(np.round(widths / widths[0], 6)))
    if lengths > 4 and widths.max() > 3 * widths[0]:
        ax.set_xscale("log")
    else:
        ax.set_xlim(times[0], times[-1])


def _time_curve(ax, cell, name, label, look, phase):
    values = np.abs(cell[name].transpose("run", "time").values)
    times = cell["time"].values
    there = np.isfinite(values).any(axis=0)
    if not there.any():
        return
    times, values = _thinned(times[there], values[:, there])
    stopped = int((cell["status"].values > 0).sum()) if "status" in cell else 0
    if stopped:
        label += f" ({stopped} of {len(values)} stopped)"
    # Marks differ in phase, so that they stay apart where curves coincide.
    apart = max(1, len(times) // MARKS)
    look = look | {"ms": 0.7 * look["ms"], "markevery": (int(phase * apart), apart)}
    ax.plot(times, np.nanmedian(values, axis=0), label=label, **look)
    if len(values) > 1:
        low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        ax.fill_between(times, low, high, color=look["color"], alpha=0.12, lw=0)


def _thinned(times, values):
    """At most `MOST_POINTS` times; each keeps the largest value of those that it stands for."""
    if len(times) <= MOST_POINTS:
        return times, values
    starts = np.arange(MOST_POINTS) * len(times) // MOST_POINTS
    ends = np.append(starts[1:], len(times)) - 1
    return times[ends], np.fmax.reduceat(values, starts, axis=1)
