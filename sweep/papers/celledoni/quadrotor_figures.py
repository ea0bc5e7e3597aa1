"""Counterparts of Figures 13 to 18 of Celledoni et al.: two quadrotors that carry a load.

Each function takes the run tables of the packaged studies ``celledoni-…``, by study and
experiment, and returns a figure that belongs to no window.
"""

import json
from typing import Any

import numpy as np
import xarray as xr
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from sweep.papers.measuring import Datasets
from sweep.plots.orders import convergence
from sweep.plots.style import (
    STYLE,
    axis_label_with_units,
    new_figure,
    style_log_error_axis,
    style_plain_axis,
)

LOAD, DESIRED = "#0072B2", "#D55E00"
COPTERS = ("black", "#009E73")
ROTATION = [[f"R{i}_{axis}" for axis in "xyz"] for i in (1, 2)]  # rows of R_i
LINKS = ("#0072B2", "#D55E00")
AXES = ("x", "y", "z")
SNAPSHOTS = 6
ARM = 0.18  # m: half the span of a quadrotor
UP = np.array([1.0, 1.0, -1.0])  # e3 points down; pictures have z up


def _quadrotor_tracking_run(datasets: Datasets) -> xr.Dataset:
    return datasets["celledoni-quadrotors"]["tracking"].isel(run=0)


def _state_rows_of_quadrotors(dataset: xr.Dataset, *names: str) -> np.ndarray:
    """Rows of the state by name, shape (times, names, 3)."""
    state = dataset["state"].transpose("time", "row", "component")
    return state.sel(row=list(names)).values


def draw_quadrotor_orders(datasets: Datasets) -> Figure:
    """Figure 13: errors of four Runge–Kutta–Munthe-Kaas methods against the step size."""
    return convergence(datasets["celledoni-quadrotors"]["orders"])


def draw_quadrotor_snapshots(datasets: Datasets) -> Figure:
    """Figure 14: load, links and quadrotors at six times."""
    dataset = _quadrotor_tracking_run(datasets)
    load, links = (
        _state_rows_of_quadrotors(dataset, "y") * UP,
        _state_rows_of_quadrotors(dataset, "q1", "q2") * UP,
    )
    length = np.array(json.loads(dataset.attrs["system"])["parameters"]["length"])
    copters = load - length[:, None] * links
    wanted = np.stack([dataset[f"desired_position_{axis}"].values for axis in AXES], axis=1)
    shown = np.linspace(0, len(load) - 1, SNAPSHOTS).astype(int)
    with rc_context(STYLE | {"grid.color": "0.88"}):
        figure = new_figure(7.6, 4.7)
        figure.set_layout_engine("none")  # it would leave no room for the labels
        # Axes3D, of which matplotlib has no types.
        ax: Any = figure.add_axes((-0.06, -0.14, 1.04, 1.22), projection="3d")
        ax.plot(*(wanted * UP).T, color=DESIRED, lw=1.2, ls="--", label="desired path of the load")
        ax.plot(*load[:, 0].T, color=LOAD, lw=1.2, label="path of the load")
        for k in shown:
            ax.plot(*load[k].T, "o", color=LOAD, ms=6)
            for i, colour in enumerate(COPTERS):
                ax.plot(*np.stack([load[k, 0], copters[k, i]]).T, color="0.5", lw=0.9)
                _draw_quadrotor(
                    ax, copters[k, i], _state_rows_of_quadrotors(dataset, *ROTATION[i])[k], colour
                )
            _write_time_beneath_load(
                ax,
                load[k, 0],
                axis_label_with_units(dataset["time"], f"{dataset['time'].values[k]:g}", "{} {}"),
            )
        for i, colour in enumerate(COPTERS):
            ax.plot([], [], color=colour, lw=1.8, label=f"quadrotor {i + 1}")
        ax.set(xlabel="x [m]", ylabel="y [m]", zlabel="height −z [m]", aspect="equal")
        ax.view_init(elev=22, azim=-72)
        figure.legend(frameon=False, loc="upper center", ncols=4)
    return figure


def _write_time_beneath_load(ax: Any, place: np.ndarray, text: str) -> None:
    """Write the time beneath a load into an Axes3D."""
    ax.text(
        *(place - (0.0, 0.0, 0.12)), text, fontsize=8, ha="center", va="top", zorder=20,
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
    )  # fmt: skip


def _draw_quadrotor(ax: Any, place: np.ndarray, rotation: np.ndarray, colour: str) -> None:
    """Draw a quadrotor as two crossed arms along the first two axes of its body."""
    for axis in rotation.T[:2]:
        ends = place + np.outer((-ARM, ARM), axis * UP)
        ax.plot(*ends.T, color=colour, lw=1.8, solid_capstyle="round")


def draw_quadrotor_load_position(datasets: Datasets) -> Figure:
    """Figure 15: components of the load's position and of the desired one."""
    dataset = _quadrotor_tracking_run(datasets)
    with rc_context(STYLE):
        figure = new_figure(9.5, 3.4)
        for ax, axis in zip(figure.subplots(1, 3), AXES, strict=True):
            ax.plot(dataset["time"], dataset[f"load_position_{axis}"], color=LOAD, label="load")
            style = {"color": DESIRED, "ls": "--", "label": "desired"}
            ax.plot(dataset["time"], dataset[f"desired_position_{axis}"], **style)
            _label_axes_along_time(ax, dataset, f"{axis}{', downwards' * (axis == 'z')} [m]")
            ax.legend(frameon=False)
    return figure


def draw_quadrotor_load_deviation(datasets: Datasets) -> Figure:
    """Figure 16: deviation of the load from its desired position."""
    dataset = _quadrotor_tracking_run(datasets)
    with rc_context(STYLE):
        figure = new_figure(6.0, 3.6)
        ax = figure.subplots()
        for axis, colour in zip(AXES, ("#0072B2", "#D55E00", "#009E73"), strict=True):
            ax.plot(dataset["time"], dataset[f"deviation_{axis}"], color=colour, label=axis)
        _label_axes_along_time(ax, dataset, "deviation of the load [m]")
        ax.legend(frameon=False)
    return figure


def draw_quadrotor_link_directions(datasets: Datasets) -> Figure:
    """Figure 17: distance of the directions of the links from the desired ones."""
    dataset = _quadrotor_tracking_run(datasets)
    with rc_context(STYLE):
        figure = new_figure(6.0, 3.6)
        ax = figure.subplots()
        for i, colour in enumerate(LINKS, start=1):
            ax.plot(
                dataset["time"], dataset[f"link_deviation_{i}"], color=colour, label=f"link {i}"
            )
        style_log_error_axis(ax)
        _label_axes_along_time(ax, dataset, "direction error |q − q_d|")
        ax.legend(frameon=False)
    return figure


def draw_quadrotor_unit_length(datasets: Datasets) -> Figure:
    """Figure 18: departure of the directions of the links from unit length."""
    dataset = _quadrotor_tracking_run(datasets)
    with rc_context(STYLE):
        figure = new_figure(6.0, 3.6)
        axes = figure.subplots(2, 1, sharex=True, sharey=True)
        for i, (ax, colour) in enumerate(zip(axes, LINKS, strict=True)):
            q = _state_rows_of_quadrotors(dataset, f"q{i + 1}")[:, 0]
            ax.plot(dataset["time"], 1e16 * (1.0 - np.sum(q * q, axis=1)), color=colour, lw=0.7)
            _label_axes_along_time(ax, dataset, "1 − q·q [1e-16]", f"link {i + 1}")
        axes[0].set_xlabel("")
    return figure


def _label_axes_along_time(ax: Axes, dataset: xr.Dataset, text: str, title: str = "") -> None:
    style_plain_axis(ax, title)
    ax.set(xlabel=axis_label_with_units(dataset["time"], "time t"), ylabel=text)
    ax.set_xlim(0.0, dataset["time"].values[-1])
