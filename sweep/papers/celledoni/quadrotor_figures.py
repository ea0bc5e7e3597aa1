"""Counterparts of Figures 14 to 18 of Celledoni et al.: two quadrotors that carry a load.

Each function takes the run table of a single run, from the experiment with the load's path.
"""

import json
from typing import Any

import numpy as np
import xarray as xr
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from sweep.papers.axes import label_time_axis
from sweep.plots.style import (
    axis_label_with_units,
    new_figure,
    style_log_error_axis,
    style_plain_axis,
)

LOAD, DESIRED = "#0072B2", "#D55E00"
COPTERS = {"quadrotor 1": "black", "quadrotor 2": "#009E73"}
LINKS = {"link 1": "#0072B2", "link 2": "#D55E00"}
AXES = {"x": "#0072B2", "y": "#D55E00", "z": "#009E73"}
SNAPSHOTS = 6
ARM = 0.18  # m: half the span of a quadrotor
UP = np.array([1.0, 1.0, -1.0])  # e3 points down; pictures have z up


def _state_rows_of_quadrotors(dataset: xr.Dataset, *names: str) -> np.ndarray:
    """Rows of the state of the run by name, shape (times, names, 3)."""
    state = dataset["state"].isel(run=0).transpose("time", "row", "component")
    return state.sel(row=list(names)).values


def draw_quadrotor_snapshots(dataset: xr.Dataset) -> Figure:
    """Figure 14: load, links and quadrotors at six times."""
    load = _state_rows_of_quadrotors(dataset, "y") * UP
    links = _state_rows_of_quadrotors(dataset, "q1", "q2") * UP
    length = np.array(json.loads(dataset.attrs["system"])["parameters"]["length"])
    copters = load - length[:, None] * links
    arms = [
        _state_rows_of_quadrotors(dataset, *(f"R{i}_{axis}" for axis in "xyz"))[..., :2]
        for i in (1, 2)
    ]
    wanted = np.stack([dataset[f"desired_position_{axis}"].values[0] for axis in AXES], axis=1)
    shown = np.linspace(0, len(load) - 1, SNAPSHOTS).astype(int)
    with rc_context({"grid.color": "0.88"}):
        figure = new_figure(7.6, 4.7)
        figure.set_layout_engine("none")  # an engine would leave no room for labels
        # Axes3D, for which matplotlib has no types.
        ax: Any = figure.add_axes((-0.06, -0.14, 1.04, 1.22), projection="3d")
        ax.plot(*(wanted * UP).T, color=DESIRED, lw=1.2, ls="--", label="desired path of the load")
        ax.plot(*load[:, 0].T, color=LOAD, lw=1.2, label="path of the load")
        for k in shown:
            ax.plot(*load[k].T, "o", color=LOAD, ms=6)
            for i, colour in enumerate(COPTERS.values()):
                ax.plot(*np.stack([load[k, 0], copters[k, i]]).T, color="0.5", lw=0.9)
                _draw_quadrotor(ax, copters[k, i], arms[i][k], colour)
            _write_time_beneath_load(ax, load[k, 0], dataset["time"][k])
        for label, colour in COPTERS.items():
            ax.plot([], [], color=colour, lw=1.8, label=label)
        ax.set(xlabel="x [m]", ylabel="y [m]", zlabel="height −z [m]", aspect="equal")
        ax.view_init(elev=22, azim=-72)
        figure.legend(loc="upper center", ncols=4)
    return figure


def _write_time_beneath_load(ax: Any, place: np.ndarray, time: xr.DataArray) -> None:
    """Write the time beneath the load in an Axes3D."""
    ax.text(
        *(place - (0.0, 0.0, 0.12)), axis_label_with_units(time, f"{time.values:g}", "{} {}"),
        fontsize=8, ha="center", va="top", zorder=20,
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
    )  # fmt: skip


def _draw_quadrotor(ax: Any, place: np.ndarray, arms: np.ndarray, colour: str) -> None:
    """Draw a quadrotor in an Axes3D, as two crossed arms along the columns of `arms`."""
    for arm in arms.T:
        ends = place + np.outer((-ARM, ARM), arm * UP)
        ax.plot(*ends.T, color=colour, lw=1.8, solid_capstyle="round")


def draw_quadrotor_load_position(dataset: xr.Dataset) -> Figure:
    """Figure 15: components of the load's position and of its desired position."""
    figure = new_figure(9.5, 3.4)
    for ax, axis in zip(figure.subplots(1, 3), AXES, strict=True):
        _plot_over_time(ax, dataset, f"load_position_{axis}", color=LOAD, label="load")
        desired = {"color": DESIRED, "ls": "--", "label": "desired"}
        _plot_over_time(ax, dataset, f"desired_position_{axis}", **desired)
        ax.set_ylabel(f"{axis}{', downwards' * (axis == 'z')} [m]")
        ax.legend()
    return figure


def draw_quadrotor_load_deviation(dataset: xr.Dataset) -> Figure:
    """Figure 16: deviation of the load from its desired position."""
    figure = new_figure(6.0, 3.6)
    ax = figure.subplots()
    for axis, colour in AXES.items():
        _plot_over_time(ax, dataset, f"deviation_{axis}", color=colour, label=axis)
    ax.set_ylabel("deviation of the load [m]")
    ax.legend()
    return figure


def draw_quadrotor_link_directions(dataset: xr.Dataset) -> Figure:
    """Figure 17: distance of the directions of the links from the desired ones."""
    figure = new_figure(6.0, 3.6)
    ax = figure.subplots()
    for i, (label, colour) in enumerate(LINKS.items(), start=1):
        _plot_over_time(ax, dataset, f"link_deviation_{i}", color=colour, label=label)
    style_log_error_axis(ax)
    ax.set_ylabel("direction error |q − q_d|")
    ax.legend()
    return figure


def draw_quadrotor_unit_length(dataset: xr.Dataset) -> Figure:
    """Figure 18: deviation of the directions of the links from unit length."""
    figure = new_figure(6.0, 3.6)
    axes = figure.subplots(2, 1, sharex=True, sharey=True)
    links = _state_rows_of_quadrotors(dataset, "q1", "q2")
    for i, (ax, (label, colour)) in enumerate(zip(axes, LINKS.items(), strict=True)):
        off = 1e16 * (1.0 - np.sum(links[:, i] ** 2, axis=1))
        ax.plot(dataset["time"], off, color=colour, lw=0.7)
        style_plain_axis(ax, label)
        ax.set_ylabel("1 − q·q [1e-16]")
    label_time_axis(ax, dataset)
    return figure


def _plot_over_time(ax: Axes, dataset: xr.Dataset, name: str, **style: Any) -> None:
    """Plot a variable of the run over time."""
    ax.plot(dataset["time"], dataset[name].values[0], **style)
    style_plain_axis(ax)
    label_time_axis(ax, dataset)
