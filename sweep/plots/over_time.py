"""Pictures over time: energy and unit length errors, Lyapunov exponents and MEGNO."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context

from integrators.errors import InputError
from sweep.analysis.chaos import integrators_without_exponents
from sweep.analysis.runs.selection import (
    name_of_energy_quantity,
    run_table_without_repeats,
    take_runs,
)
from sweep.plots import style
from sweep.plots.drawn_runs import curves_to_draw
from sweep.plots.families import panel_families_of_integrators, panel_title
from sweep.study.variables import EVERY, LYAPUNOV, MEGNO, lyapunov_names
from sweep.text import steps_in_words

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Values = NDArray[np.floating[Any]]

MOST_POINTS = 250  # maximum number of times; more cannot be distinguished in print
MARKS = 8  # number of marks of a curve
BLOCK = 4096  # number of runs that are read at once
MOST_DOUBLE = 10_000_000  # more numbers than this are kept in single precision
MOST_CROSSES = 40  # maximum number of crosses of a curve
ABOVE = 1e4  # a band is cut at so many times the maximum of the median


@dataclass(frozen=True, eq=False)
class Series:
    """Values over time of the runs of one curve.

    Parameters
    ----------
    times : ndarray, shape (times,)
    values : ndarray, shape (runs, times)
        NaN where a run has no value.
    stopped : ndarray of bool, shape (runs,)
        Which runs stopped before their end.
    """

    times: NDArray[np.float64]
    values: Values
    stopped: NDArray[np.bool_]

    @property
    def runs_with_values(self) -> int:
        """Number of runs with a value."""
        return int(np.isfinite(self.values).any(axis=1).sum())

    @property
    def last_time_positions(self) -> NDArray[np.intp]:
        """The position of the last time at which each run has a value; shape (runs,)."""
        backwards = np.isfinite(self.values)[:, ::-1]
        last: NDArray[np.intp] = self.values.shape[1] - 1 - backwards.argmax(axis=1)
        return last

    @property
    def median_over_runs(self) -> Values:
        """Median over the runs, shape (times,), with infinite values after a run has stopped.

        Thus the curve ends when half of the runs have stopped, since the remaining runs are not
        representative.
        """
        values = self.values.copy()
        past = np.arange(values.shape[1]) > self.last_time_positions[:, None]
        values[past & self.stopped[:, None]] = np.inf
        return np.asarray(np.nanmedian(values, axis=0), dtype=values.dtype)


def energy_over_time(
    dataset: xr.Dataset | xr.DataTree, step_size: float | None = None
) -> style.Drawing:
    """Draw the absolute energy error over time: median over the starts, and range.

    For a forced system, it is the error of the energy balance.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    step_size : float, optional
        Each integrator is drawn at its step size nearest to this one; by default, nearest to the
        smallest step size that most integrators share.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        If there is no energy error, or the selection needs more than six panels.

    Notes
    -----
    After a run has stopped, it is ranked above all others, so that the curve ends when half of the
    runs have stopped. A cross marks where each run stopped.
    """
    table: xr.Dataset = run_table_without_repeats(dataset)
    energy = name_of_energy_quantity(table)
    every_step = f"{energy}_error_abs_max" in table
    name = f"{energy}_error_abs_max" if every_step else f"{energy}_error"
    size = "|E − E₀|" if energy == "energy" else f"|{energy.replace('_', ' ')} error|"
    text = f"max {size} over {_steps(table[name])}" if every_step else size
    return _plot_over_time(table, name, text, step_size)


def _steps(statistics: xr.DataArray) -> str:
    """``steps``, or which of them the statistics are of."""
    every = statistics.attrs.get(EVERY)
    return f"{steps_in_words(every)} and the samples" if every else "steps"


def unit_length_over_time(
    dataset: xr.Dataset | xr.DataTree, step_size: float | None = None
) -> style.Drawing:
    """Draw the deviation from unit length over time: median over the starts, and range.

    Parameters and result are those of `energy_over_time`.
    """
    table: xr.Dataset = run_table_without_repeats(dataset)
    every_step = "unit_length_error_mean" in table
    name = "unit_length_error_mean" if every_step else "unit_length_error"
    text = f"mean |q·q − 1| over {_steps(table[name])}" if every_step else "|q·q − 1|"
    return _plot_over_time(table, name, text, step_size)


def lyapunov_over_time(
    dataset: xr.Dataset | xr.DataTree, step_size: float | None = None
) -> style.Drawing:
    """Draw the largest Lyapunov exponent up to each time: median over the starts, and range.

    For regular motion, it tends to 0 like ln(t)/t. Parameters and result are those of
    `energy_over_time`.
    """
    table = _runs_with_exponents(dataset)
    name = next((n for n in (LYAPUNOV, *lyapunov_names(1)) if n in table), LYAPUNOV)
    return _plot_over_time(table, name, "largest Lyapunov exponent", step_size, signed=True)


def megno_over_time(
    dataset: xr.Dataset | xr.DataTree, step_size: float | None = None
) -> style.Drawing:
    """Draw the mean exponential growth of nearby orbits (MEGNO) up to each time.

    The curve is the median over the starts, and the band is their range. MEGNO tends to 2 for
    regular motion, and grows like t for chaotic motion. Parameters and result are those of
    `energy_over_time`.
    """
    table = _runs_with_exponents(dataset)
    return _plot_over_time(table, MEGNO, "MEGNO", step_size, signed=True)


def _runs_with_exponents(dataset: xr.Dataset | xr.DataTree) -> xr.Dataset:
    """The run table of the integrators that propagate tangent vectors."""
    table: xr.Dataset = run_table_without_repeats(dataset)
    without = list(integrators_without_exponents(table))
    runs = np.flatnonzero(~np.isin(table["integrator"].values, without))
    with_exponents: xr.Dataset = take_runs(table, runs)
    return with_exponents


@rc_context(style.STYLE)
def _plot_over_time(
    dataset: xr.Dataset, name: str, text: str, step_size: float | None, signed: bool = False
) -> style.Drawing:
    """Draw a variable over time, a panel for each combination of scanned values.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table.
    name : str
        The variable.
    text : str
        Label of its axis.
    step_size : float or None
        See `energy_over_time`.
    signed : bool, optional
        Draw values on a linear axis, not absolute values on a logarithmic one.
    """
    if name not in dataset:
        quantity = name.partition("_error")[0]
        raise InputError(
            f"no {name!r} is stored: name {quantity!r} in the experiment, as in "
            f'record = ["{quantity}"], and run it into a store of its own; '
            "`sweep show system NAME` lists what a system has.",
            key="record",
        )
    if dataset.sizes["time"] < 3:
        raise InputError("a picture over time needs at least 2 sample intervals.", key="samples")
    styles, families = (
        style.curve_styles_of_integrators(dataset),
        panel_families_of_integrators(dataset),
    )
    stored = dataset[[key for key in (name, "status") if key in dataset]]
    panels: dict[str, list[tuple[str, str, Series]]] = {}  # integrator, step size, series
    for curve in curves_to_draw(dataset, step_size):
        series = error_series_to_draw(stored, curve.runs, name, signed)
        title = panel_title(curve.values, families[curve.integrator])
        panels.setdefault(title, []).append((curve.integrator, curve.step, series))
    curves = [series for of in panels.values() for _, _, series in of]
    if not signed and not any((series.values > 0).any() for series in curves):
        raise InputError(f"no run has a {name!r} other than 0 to show.")
    sizes = {title: {size for _, size, _ in of} for title, of in panels.items()}
    common = set().union(*sizes.values())
    figure, axes = style.new_panels(
        [
            ", ".join([title, *own]) if len(own) == 1 < len(common) else title
            for title, own in sizes.items()
        ]
    )
    counts = [series.runs_with_values for series in curves if series.runs_with_values]
    figure.starts = style.starts_in_words(dataset, counts)
    figure.add_caption(_over_time_caption(curves, common, max(counts), figure.starts))
    for ax, (title, of) in zip(axes, panels.items(), strict=True):
        for i, (integrator, size, series) in enumerate(of):
            label = f"{integrator}, {size}" if len(sizes[title]) > 1 else integrator
            _draw_time_curve(ax, series, label, styles[integrator], i / len(of), signed)
        if not signed:
            style.style_log_error_axis(ax)
        _set_time_axis(ax, dataset["time"].values)
        ax.set_xlabel(style.axis_label_with_units(dataset["time"], "time t"))
    figure.label_rows(axes, style.axis_label_with_units(dataset[name], text))
    figure.add_legend(axes)
    return figure


def _over_time_caption(
    curves: Iterable[Series], sizes: Collection[str], starts: int, said: str
) -> str:
    """Caption with the step size if there is only one, the number of starts, and stopped runs."""
    words = [*sizes] if len(sizes) == 1 else []
    words += [f"median and range over {said}"] if starts > 1 else []
    stopped = ["× a run stopped"] * any(series.stopped.any() for series in curves)
    # Only a median over several starts can end before all of its runs do.
    stopped += ["a curve ends when half have"] * (bool(stopped) and starts > 1)
    return "; ".join(filter(None, [", ".join(words), ", ".join(stopped)]))


def _set_time_axis(ax: Axes, times: NDArray[np.float64]) -> None:
    """Set limits and scale of the time axis, which is logarithmic if sample intervals grow.

    It is linear if intervals have at most four lengths, as after extensions of the runs.
    """
    widths = np.diff(times)
    lengths = len(np.unique(np.round(widths / widths[0], 6)))
    if lengths > 4 and widths.max() > 3 * widths[0]:
        style.style_log_time_axis(ax)
    else:
        ax.set_xlim(times[0], times[-1])


def _draw_time_curve(
    ax: Axes, series: Series, label: str, look: style.CurveStyle, phase: float, signed: bool
) -> None:
    """Draw median and range over the runs, and a cross where each run stopped, at its last value.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    series : Series
    label : str
    look : dict
        A value of `curve_styles`.
    phase : float
        Position of the first mark between 0 and 1. It differs between curves, so that marks do not
        overlap where curves coincide.
    signed : bool
        Draw values on a linear axis, not absolute values on a logarithmic one.
    """
    if count := int(series.stopped.sum()):
        label += f" ({count:,} of {len(series.values):,} stopped)"
    if not series.runs_with_values:
        ax.plot([], [], label=label, **look)
        return
    median = series.median_over_runs
    there = np.isfinite(median)
    times = series.times[there]
    interval = max(1, len(times) // MARKS)
    marked = look | {"ms": 0.7 * look["ms"], "markevery": (int(phase * interval), interval)}
    ax.plot(times, median[there], label=label, **marked)
    band: dict[str, Any] = {}
    if len(series.values) > 1 and there.any():
        values = series.values[:, there]
        low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        band = {"low": low, "high": high}
        if not signed:
            high = np.minimum(high, ABOVE * max(median[there].max(), 1e-300))
        shown = np.isfinite(low) if signed else low > 0
        ax.fill_between(times, low, high, where=shown, color=look["color"], alpha=0.12, lw=0)
    style.note_numbers(ax, label, "line", times, median[there], **band)
    stopped = series.stopped & np.isfinite(series.values).any(axis=1)
    if len(runs := np.flatnonzero(stopped)[:MOST_CROSSES]):
        last = series.last_time_positions[runs]
        times, ends = series.times[last], series.values[runs, last]
        cross = look | {"ls": "none", "marker": "x", "ms": 6.0, "mew": 1.4, "zorder": 5}
        ax.plot(times, ends, clip_on=False, **cross)
        style.note_numbers(ax, label, "stopped", times, ends)


def error_series_to_draw(
    dataset: xr.Dataset, runs: NDArray[np.integer], name: str, signed: bool = False
) -> Series:
    """Read absolute errors over time, at no more times than can be distinguished in a picture.

    Runs are read in blocks of some thousands, to limit the use of memory.

    Parameters
    ----------
    dataset : xarray.Dataset
    runs : ndarray of int, shape (runs,)
        Positions along `run`, ascending.
    name : str
        The variable.
    signed : bool, optional
        Read values, not absolute values.

    Returns
    -------
    Series
    """
    times = dataset["time"].values
    first = np.arange(min(MOST_POINTS, len(times))) * len(times) // min(MOST_POINTS, len(times))
    ends = np.append(first[1:], len(times)) - 1
    precision = np.float64 if len(runs) * len(first) <= MOST_DOUBLE else np.float32
    parts = []
    for start in range(0, len(runs), BLOCK):
        block = take_runs(dataset, runs[start : start + BLOCK])[name].transpose("run", "time")
        found = block.values if signed else np.abs(block.values)
        # Each time in the picture has the maximum since the time before it.
        parts.append(np.fmax.reduceat(found, first, axis=1).astype(precision))
    values = np.concatenate(parts)
    status = dataset["status"].values[runs] if "status" in dataset else np.zeros(len(runs))
    there = np.isfinite(values).any(axis=0)
    return Series(times[ends][there], values[:, there], status > 0)
