"""Counterparts of Figures 8 to 11 of Celledoni et al.: variable against constant steps.

Each function takes the run tables of the packaged studies ``celledoni-…``, by study and
experiment, and returns a figure that belongs to no window.
"""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.interpolate import CubicSpline

from sweep.analysis.runs.selection import take_runs
from sweep.papers.measuring import Datasets
from sweep.plots.selection import first_run_to_draw
from sweep.plots.style import (
    STYLE,
    CurveStyle,
    axis_label_with_units,
    new_figure,
    style_log_error_axis,
    style_plain_axis,
)

VARIABLE = {"label": "RKMK5(4), variable steps", "color": "#D55E00"}
CONSTANT = {"label": "RKMK5, as many constant steps", "color": "#0072B2"}
ODE45 = {"label": "ode45", "color": "#009E73"}
EQUAL = "rkmk5 (steps of rkmk54)"
METHODS: dict[str, CurveStyle] = {"rk45": ODE45, "rkmk54": VARIABLE, EQUAL: CONSTANT}
FINE = "rkmk5, small steps"
COMPONENTS = (("x", "#0072B2"), ("y", "#D55E00"), ("z", "#009E73"))
LINKS = (("link 1", "#0072B2"), ("link 2", "#D55E00"))
SQUARE = {"ls": "none", "marker": "s", "mfc": "none", "ms": 5.0, "mew": 0.7, "markevery": 15}
CROSS = {"ls": "none", "marker": "x", "ms": 3.0, "mew": 0.8, "markevery": 15}
PLUS = {"ls": "none", "marker": "+", "ms": 8.0, "mew": 0.6, "markevery": 15}
PEAK = (2.1, 3.0)  # the last part of the motion, in which ω_y has its peak


# --- figures 8 and 10 ----------------------------------------------------------------------------


def draw_unit_links(datasets: Datasets) -> Figure:
    """Figure 8: errors at t = 3 for N links of 1 m, and the step sizes of 20."""
    return _draw_step_adaptation(datasets["celledoni-steps"], "unit-links", "N links of 1 m", 1.0)


def draw_links_of_shared_length(datasets: Datasets) -> Figure:
    """Figure 10: errors at t = 3 for N links of 5/N m, and the step sizes of 20."""
    return _draw_step_adaptation(
        datasets["celledoni-steps"], "shared-length", "N links of 5/N m", 0.25
    )


def _draw_step_adaptation(
    study: Mapping[str, xr.Dataset], name: str, title: str, length: float
) -> Figure:
    dataset = study[name]
    with rc_context(STYLE):
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
        left.legend(frameon=False)
        sizes = study["step-sizes"]
        _draw_step_sizes_along_time(
            right, take_runs(sizes, np.flatnonzero(sizes["length"].values == length))
        )
        style_plain_axis(right, f"step sizes of 20 links of {length:g} m")
    return figure


def _draw_step_sizes_along_time(ax: Axes, dataset: xr.Dataset) -> None:
    """Step sizes along time: those of the adaptive methods, and the constant one."""
    for label, style in METHODS.items():
        run = first_run_to_draw(dataset, label)
        ax.plot(run["time"], run["current_step_size"].values[0], lw=0.9, **style)
    ax.set(
        xlabel=axis_label_with_units(dataset["time"], "time t"),
        xlim=(0.0, dataset["time"].values[-1]),
    )
    ax.set_ylabel(axis_label_with_units(dataset["current_step_size"], "step size h"))
    ax.set_ylim(0.0, 1.35 * np.nanmax(dataset["current_step_size"].values))  # room for the legend
    ax.legend(frameon=False, loc="upper center", ncols=2)


# --- figures 9 and 11 ----------------------------------------------------------------------------


def _double_pendulum_states(datasets: Datasets, label: str) -> np.ndarray:
    """The states of a run of the double pendulum, shape (times, 4, 3)."""
    run = first_run_to_draw(datasets["celledoni-steps"]["double-pendulum"], label)
    return run["state"].values[0]


def draw_double_pendulum_components(datasets: Datasets) -> Figure:
    """Figure 9: q and ω of both links along time."""
    times = datasets["celledoni-steps"]["double-pendulum"]["time"].values
    marks = {EQUAL: SQUARE, "rkmk54": CROSS, "rk45": PLUS}
    with rc_context(STYLE):
        figure = new_figure(9.5, 5.8)
        axes = figure.subplots(2, 2, sharex=True, sharey="row")
        for row, k in np.ndindex(4, 3):
            ax, colour = axes[row // 2, row % 2], COMPONENTS[k][1]
            path = _double_pendulum_states(datasets, FINE)[:, row, k]
            ax.plot(times, path, color=colour, lw=0.9)
            for label, mark in marks.items() if path.any() else ():
                ax.plot(
                    times, _double_pendulum_states(datasets, label)[:, row, k], color=colour, **mark
                )
        for ax, title in zip(axes.flat, ("link 1", "link 2", "", ""), strict=True):
            style_plain_axis(ax, title)
            ax.set(xlim=(times[0], times[-1]), xlabel="" if title else "time t [s]")
        axes[0, 0].set_ylabel("q")
        axes[1, 0].set_ylabel("ω [rad s⁻¹]")
        lines = [axes[0, 0].plot([], [], color=c, label=name)[0] for name, c in COMPONENTS]
        for label, mark in marks.items():
            lines += axes[0, 0].plot([], [], **(METHODS[label] | {"color": "0.3"} | mark))
        figure.legend(handles=lines, loc="outside lower center", ncols=6, frameon=False)
    return figure


def draw_velocity_peak(datasets: Datasets) -> Figure:
    """Figure 11: step sizes, ω_y, its errors, and how fast it varies."""
    dataset = datasets["celledoni-steps"]["double-pendulum"]
    times = dataset["time"].values
    exact = _double_pendulum_states(datasets, FINE)[:, 2:, 1]
    rate = CubicSpline(times, exact).derivative()(times)
    with rc_context(STYLE):
        figure = new_figure(9.5, 6.4)
        (steps, omega), (errors, speed) = figure.subplots(2, 2)
        _draw_step_sizes_along_time(steps, dataset)
        for link, (name, colour) in enumerate(LINKS):
            omega.plot(times, exact[:, link], color=colour, label=name, lw=1.1)
            speed.plot(times, rate[:, link], color=colour, label=name, lw=1.1)
        for label, style in METHODS.items():
            off = np.abs(_double_pendulum_states(datasets, label)[:, 2:, 1] - exact).max(axis=1)
            last = times >= PEAK[0]
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
                ax.legend(frameon=False)
    return figure
