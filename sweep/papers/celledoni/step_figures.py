"""Counterparts of Figures 8 to 11 of Celledoni et al.: variable and constant steps."""

from itertools import product

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.interpolate import CubicSpline

from sweep.analysis.runs.selection import take_runs
from sweep.papers.axes import label_time_axis
from sweep.plots.drawn_runs import first_run_to_draw
from sweep.plots.style import (
    CurveStyle,
    axis_label_with_units,
    new_figure,
    style_log_error_axis,
    style_plain_axis,
)

EQUAL = "rkmk5 (steps of rkmk54)"
METHODS: dict[str, CurveStyle] = {
    "rk45": {"label": "ode45", "color": "#009E73"},
    "rkmk54": {"label": "RKMK5(4), variable steps", "color": "#D55E00"},
    EQUAL: {"label": "RKMK5, as many constant steps", "color": "#0072B2"},
}
FINE = "rkmk5, small steps"
COMPONENTS = {"x": "#0072B2", "y": "#D55E00", "z": "#009E73"}
LINKS = {"link 1": "#0072B2", "link 2": "#D55E00"}
MARKS = {
    EQUAL: {"marker": "s", "mfc": "none", "ms": 5.0, "mew": 0.7},
    "rkmk54": {"marker": "x", "ms": 3.0, "mew": 0.8},
    "rk45": {"marker": "+", "ms": 8.0, "mew": 0.6},
}
PEAK = (2.1, 3.0)  # the time interval with the peak of ω_y, at the end of the motion


# --- figures 8 and 10 ----------------------------------------------------------------------------


def draw_step_adaptation(
    dataset: xr.Dataset, step_sizes: xr.Dataset, title: str, length: float
) -> Figure:
    """Figures 8 and 10: errors at t = 3 for N links, and step sizes for 20 links.

    Parameters
    ----------
    dataset, step_sizes : xarray.Dataset
        Runs with several numbers of links; and runs with 20 links and recorded step sizes.
    title : str
    length : float
        Length of each of the 20 links.
    """
    figure = new_figure(9.5, 3.8)
    left, right = figure.subplots(1, 2)
    for label, marker in ((EQUAL, "s"), ("rkmk54", "o")):
        own = np.flatnonzero(dataset["integrator"].values == label)
        own = own[np.argsort(dataset["count"].values[own])]
        error = dataset["global_error"].values[own, -1]
        style = METHODS[label] | {"marker": marker, "ms": 4.0, "lw": 1.0}
        left.plot(dataset["count"].values[own], error, **style)
    left.set(xlabel="number of links N", xticks=np.unique(dataset["count"].values))
    end = axis_label_with_units(dataset["time"], f"t = {dataset['time'].values[-1]:g}", "{} {}")
    left.set_ylabel(f"global error at {end}")
    style_log_error_axis(left)
    style_plain_axis(left, title)
    left.legend()
    own = np.flatnonzero(step_sizes["length"].values == length)
    _draw_step_sizes_along_time(right, take_runs(step_sizes, own))
    style_plain_axis(right, f"step sizes of 20 links of {length:g} m")
    return figure


def _draw_step_sizes_along_time(ax: Axes, dataset: xr.Dataset) -> None:
    """Draw step sizes over time: those of the adaptive methods, and the constant one."""
    for label, style in METHODS.items():
        run = first_run_to_draw(dataset, label)
        ax.plot(run["time"], run["current_step_size"].values[0], lw=0.9, **style)
    label_time_axis(ax, dataset)
    ax.set_ylabel(axis_label_with_units(dataset["current_step_size"], "step size h"))
    ax.set_ylim(0.0, 1.35 * np.nanmax(dataset["current_step_size"].values))  # room for the legend
    ax.legend(loc="upper center", ncols=2)


# --- figures 9 and 11 ----------------------------------------------------------------------------


def _states_by_method(dataset: xr.Dataset) -> dict[str, np.ndarray]:
    """States of the double pendulum by integrator, each of shape (times, 4, 3)."""
    labels = (FINE, *METHODS)
    return {label: first_run_to_draw(dataset, label)["state"].values[0] for label in labels}


def draw_double_pendulum_components(dataset: xr.Dataset) -> Figure:
    """Figure 9: q and ω of both links over time."""
    times, states = dataset["time"].values, _states_by_method(dataset)
    marks = {label: {"ls": "none", "markevery": 15} | mark for label, mark in MARKS.items()}
    figure = new_figure(9.5, 5.8)
    axes = figure.subplots(2, 2, sharex=True, sharey="row")
    for (row, ax), (k, colour) in product(enumerate(axes.flat), enumerate(COMPONENTS.values())):
        path = states[FINE][:, row, k]
        ax.plot(times, path, color=colour, lw=0.9)
        for label, mark in marks.items() if path.any() else ():
            ax.plot(times, states[label][:, row, k], color=colour, **mark)
    for ax, title in zip(axes.flat, (*LINKS, "", ""), strict=True):
        style_plain_axis(ax, title)
        ax.set(xlim=(times[0], times[-1]), xlabel="" if title else "time t [s]")
    axes[0, 0].set_ylabel("q")
    axes[1, 0].set_ylabel("ω [rad s⁻¹]")
    lines = [Line2D([], [], color=c, label=name) for name, c in COMPONENTS.items()]
    lines += [Line2D([], [], **METHODS[label] | {"color": "0.3"} | marks[label]) for label in marks]
    figure.legend(handles=lines, loc="outside lower center", ncols=6)
    return figure


def draw_velocity_peak(dataset: xr.Dataset) -> Figure:
    """Figure 11: step sizes, ω_y, its errors, and its rate of change."""
    times = dataset["time"].values
    omega_y = {label: state[:, 2:, 1] for label, state in _states_by_method(dataset).items()}
    rate = CubicSpline(times, omega_y[FINE]).derivative()(times)
    figure = new_figure(9.5, 6.4)
    (steps, omega), (errors, speed) = figure.subplots(2, 2)
    _draw_step_sizes_along_time(steps, dataset)
    for link, (name, colour) in enumerate(LINKS.items()):
        omega.plot(times, omega_y[FINE][:, link], color=colour, label=name, lw=1.1)
        speed.plot(times, rate[:, link], color=colour, label=name, lw=1.1)
    last = times >= PEAK[0]
    for label, style in METHODS.items():
        off = np.abs(omega_y[label] - omega_y[FINE]).max(axis=1)
        errors.plot(times[last], off[last], lw=1.0, **style)
    style_log_error_axis(errors)
    for ax, title, text in (
        (steps, "(a) step sizes", None),
        (omega, "(b) ω_y", "ω_y [rad s⁻¹]"),
        (errors, "(c) error of ω_y, the larger of both links", "|error| [rad s⁻¹]"),
        (speed, "(d) rate of change of ω_y", "dω_y/dt [rad s⁻²]"),
    ):
        style_plain_axis(ax, title)
        ax.set(xlabel="time t [s]", xlim=PEAK if ax is errors else (0.0, 3.0))
        if text:
            ax.set_ylabel(text)
            ax.legend()
    return figure
