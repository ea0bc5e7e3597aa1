"""Pictures of a run table along time: energy and unit length.

Each function takes one experiment, or a selection of its runs, and returns a Figure that belongs
to no window. An integrator looks the same in all of them.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib import rc_context

from integrators.errors import InputError
from sweep.analysis.chaos import integrators_without_exponents
from sweep.analysis.runs.selection import (
    axis_values_in_words,
    groups_of_runs,
    name_of_energy_quantity,
    run_table_without_repeats,
    scanned_axes,
    take_runs,
)
from sweep.plots.captions import Shown
from sweep.plots.families import panel_families_of_integrators, panel_title
from sweep.plots.selection import runs_to_draw
from sweep.plots.style import (
    STYLE,
    add_legend,
    axis_label_with_units,
    curve_styles_of_integrators,
    label_first_of_rows,
    new_panelled_figure,
    note_numbers,
    style_log_error_axis,
    style_log_time_axis,
)
from sweep.study.schema import LYAPUNOV, MEGNO, lyapunov_names

MOST_POINTS = 250  # along time: more cannot be told apart in print
MARKS = 8  # of a curve
BLOCK = 4096  # runs that are read at once
MOST_DOUBLE = 10_000_000  # numbers; more are kept in half the precision
MOST_CROSSES = 40  # of a curve
ABOVE = 1e4  # times the highest curve is as far as a picture goes up


@dataclass(frozen=True, eq=False)
class Series:
    """The sizes of an error along the runs of one curve.

    Parameters
    ----------
    times : ndarray, shape (times,)
    values : ndarray, shape (runs, times)
        NaN where there is none.
    stopped : ndarray of bool, shape (runs,)
        Which runs ended before their time.
    """

    times: np.ndarray
    values: np.ndarray
    stopped: np.ndarray

    @property
    def runs_with_values(self):
        """How many of the runs have a value."""
        return int(np.isfinite(self.values).any(axis=1).sum())

    @property
    def last_time_positions(self):
        """The last time of each run that has a value, as a position; shape (runs,)."""
        backwards = np.isfinite(self.values)[:, ::-1]
        return self.values.shape[1] - 1 - backwards.argmax(axis=1)

    @property
    def median_over_runs(self):
        """Median over the runs, shape (times,): one that stopped is above all others from there.

        So it is infinite, and its curve ends, when half of them have stopped; those that are left
        do not stand for all.
        """
        values = self.values.copy()
        past = np.arange(values.shape[1]) > self.last_time_positions[:, None]
        values[past & self.stopped[:, None]] = np.inf
        return np.nanmedian(values, axis=0)


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

    Notes
    -----
    A run that stopped counts as above all others from there, so that a curve ends when half of
    its runs have stopped; a cross stands where each did.
    """
    dataset = run_table_without_repeats(dataset)
    energy = name_of_energy_quantity(dataset)
    every_step = f"{energy}_error_abs_max" in dataset
    name = f"{energy}_error_abs_max" if every_step else f"{energy}_error"
    size = "|E − E₀|" if energy == "energy" else f"|{energy.replace('_', ' ')} error|"
    text = f"max {size} over steps" if every_step else size
    return _plot_error_over_time(dataset, name, text, step_size)


def unit_length_over_time(dataset, step_size=None):
    """Departure from unit length over time: median over the starts, and their range.

    Parameters and result are those of `energy_over_time`.
    """
    dataset = run_table_without_repeats(dataset)
    every_step = "unit_length_error_mean" in dataset
    name = "unit_length_error_mean" if every_step else "unit_length_error"
    text = "mean |q·q − 1| over steps" if every_step else "|q·q − 1|"
    return _plot_error_over_time(dataset, name, text, step_size)


def lyapunov_over_time(dataset, step_size=None):
    """The largest Lyapunov exponent until each time: median over the starts, and their range.

    Where the motion is regular it tends to 0 like ln(t)/t. Parameters and result are those of
    `energy_over_time`.
    """
    dataset = _runs_with_exponents(dataset)
    name = next((n for n in (LYAPUNOV, *lyapunov_names(1)) if n in dataset), LYAPUNOV)
    return _plot_error_over_time(dataset, name, "largest Lyapunov exponent", step_size, signed=True)


def megno_over_time(dataset, step_size=None):
    """Mean exponential growth of nearby orbits until each time: median over the starts, and range.

    It tends to 2 where the motion is regular, and grows like t where it is chaotic. Parameters and
    result are those of `energy_over_time`.
    """
    dataset = _runs_with_exponents(dataset)
    return _plot_error_over_time(dataset, MEGNO, "MEGNO", step_size, signed=True)


def _runs_with_exponents(dataset):
    """The run table of those that tangent vectors went along with."""
    dataset = run_table_without_repeats(dataset)
    without = list(integrators_without_exponents(dataset))
    return take_runs(dataset, np.flatnonzero(~np.isin(dataset["integrator"].values, without)))


def _plot_error_over_time(dataset, name, text, step_size, signed=False):
    if name not in dataset:
        quantity = name.partition("_error")[0]
        raise InputError(
            f"no {name!r} is stored: the experiment needs {quantity!r} in `record`, as in "
            f'record = ["{quantity}"]; `sweep show system NAME` lists what a system has.',
            key="record",
        )
    if dataset.sizes["time"] < 3:
        raise InputError("a picture over time needs at least 2 sample intervals.", key="samples")
    styles, families = curve_styles_of_integrators(dataset), panel_families_of_integrators(dataset)
    runs, steps = runs_to_draw(dataset, step_size)
    needed = [key for key in (name, "status") if key in dataset]
    shown = dataset[needed].isel(run=runs)
    panels, said = {}, {}
    for key, members in groups_of_runs(shown, [*scanned_axes(shown), "integrator"]):
        integrator = key.pop("integrator")
        scanned = axis_values_in_words(key)
        panel = scanned, families[integrator]
        panels.setdefault(panel, {})[integrator] = error_series_to_draw(
            shown, members, name, signed
        )
        said.setdefault(panel, {})[integrator] = steps[scanned, integrator]
    every = [series for cells in panels.values() for series in cells.values()]
    if not signed and not any((series.values > 0).any() for series in every):
        raise InputError(f"no run has a {name!r} other than 0 to show.")
    common = {word for own in said.values() for word in own.values()}
    titles = [
        _panel_title_with_step_size(panel, set(said[panel].values()), common) for panel in panels
    ]
    with rc_context(STYLE):
        shown = Shown.of_run_table(
            dataset, [series.runs_with_values for series in every if series.runs_with_values]
        )
        figure, axes = new_panelled_figure(titles, _over_time_caption(every, common, shown))
        figure.shown = shown
        for ax, (panel, cells) in zip(axes, panels.items(), strict=True):
            several = len(set(said[panel].values())) > 1
            for i, (integrator, series) in enumerate(cells.items()):
                label = f"{integrator}, {said[panel][integrator]}" if several else integrator
                _draw_time_curve(ax, series, label, styles[integrator], i / len(cells), signed)
            if not signed:
                style_log_error_axis(ax)
            _set_time_axis(ax, dataset["time"].values)
            ax.set_xlabel(axis_label_with_units(dataset["time"], "time t"))
        label_first_of_rows(axes, axis_label_with_units(dataset[name], text))
        add_legend(figure, axes)
    return figure


def _panel_title_with_step_size(panel, steps, common):
    """Scanned values and the family; the step size too where panels have one each."""
    title = panel_title(*panel)
    return ", ".join([title, *steps]) if len(steps) == 1 < len(common) else title


def _over_time_caption(every, steps, shown):
    """What a picture shows, in words: the step size if it is one, and of how many starts."""
    starts = max(shown.counts)
    words = [*steps] if len(steps) == 1 else []
    words += [f"median and range over {shown.starts_in_words}"] if starts > 1 else []
    text = ", ".join(words)
    if any(series.stopped.any() for series in every):
        # Of several starts, the median says that it counts them.
        end = "a curve ends when half have" if starts > 1 else ""
        text = "; ".join(filter(None, [text, ", ".join(filter(None, ["× a run stopped", end]))]))
    return text


def _set_time_axis(ax, times):
    """From the start to the end; logarithmic where the samples thin out with time.

    Not where they are of a few lengths only, as after an extension by longer intervals.
    """
    widths = np.diff(times)
    lengths = len(np.unique(np.round(widths / widths[0], 6)))
    if lengths > 4 and widths.max() > 3 * widths[0]:
        style_log_time_axis(ax)
    else:
        ax.set_xlim(times[0], times[-1])


def _draw_time_curve(ax, series, label, style, phase, signed=False):
    count = int(series.stopped.sum())
    if count:
        label += f" ({count:,} of {len(series.values):,} stopped)"
    if not np.isfinite(series.values).any():
        ax.plot([], [], label=label, **style)
        return
    median = series.median_over_runs
    there = np.isfinite(median)
    times = series.times[there]
    # Marks differ in phase, so that they stay apart where curves coincide.
    apart = max(1, len(times) // MARKS)
    marked = style | {"ms": 0.7 * style["ms"], "markevery": (int(phase * apart), apart)}
    ax.plot(times, median[there], label=label, **marked)
    band = {}
    if len(series.values) > 1 and there.any():
        values = series.values[:, there]
        low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        band = {"low": low, "high": high}
        if not signed:
            high = np.minimum(high, ABOVE * max(median[there].max(), 1e-300))
        shown = np.isfinite(low) if signed else low > 0
        ax.fill_between(times, low, high, where=shown, color=style["color"], alpha=0.12, lw=0)
    note_numbers(ax, label, "line", times, median[there], **band)
    _draw_crosses_where_runs_stopped(ax, series, label, style)


def _draw_crosses_where_runs_stopped(ax, series, label, style):
    """A cross where each run stopped, at its last value."""
    runs = np.flatnonzero(series.stopped & np.isfinite(series.values).any(axis=1))[:MOST_CROSSES]
    last = series.last_time_positions[runs]
    mark = {"ls": "none", "marker": "x", "ms": 6.0, "mew": 1.4, "clip_on": False, "zorder": 5}
    if len(runs):
        ax.plot(series.times[last], series.values[runs, last], color=style["color"], **mark)
        note_numbers(ax, label, "stopped", series.times[last], series.values[runs, last])


def error_series_to_draw(dataset, runs, name, signed=False):
    """The sizes of an error along some runs, at no more times than can be told apart.

    Where it is `signed`, the values themselves.

    They are read some thousand runs at a time, and take little memory however many they are.

    Parameters
    ----------
    dataset : xarray.Dataset
    runs : ndarray of int
        Positions along `run`, ascending.
    name : str
        The variable.

    Returns
    -------
    Series
    """
    few = min(MOST_POINTS, dataset.sizes["time"])
    kind = np.float64 if len(runs) * few <= MOST_DOUBLE else np.float32
    parts = []
    for first in range(0, len(runs), BLOCK):
        block = take_runs(dataset, runs[first : first + BLOCK])[name].transpose("run", "time")
        found = block.values if signed else np.abs(block.values)
        times, values = _thin_series_for_drawing(dataset["time"].values, found)
        parts.append(values.astype(kind))
    values = np.concatenate(parts)
    status = dataset["status"].values[runs] if "status" in dataset else np.zeros(len(runs))
    there = np.isfinite(values).any(axis=0)
    return Series(times[there], values[:, there], status > 0)


def _thin_series_for_drawing(times, values):
    """At most `MOST_POINTS` times; each keeps the largest value of those that it stands for."""
    if len(times) <= MOST_POINTS:
        return times, values
    starts = np.arange(MOST_POINTS) * len(times) // MOST_POINTS
    ends = np.append(starts[1:], len(times)) - 1
    return times[ends], np.fmax.reduceat(values, starts, axis=1)
