"""Counterparts of Figures 2 and 3 of Celledoni et al.: the heavy top."""

from itertools import product

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sweep.analysis.convergence.orders import order_table
from sweep.analysis.runs.selection import take_runs
from sweep.papers.axes import label_time_axis
from sweep.plots.drawn_runs import first_run_to_draw
from sweep.plots.order_plots import draw_error_curve, error_axis_label
from sweep.plots.projection import (
    OBLIQUE,
    View,
    draw_paths_on_sphere,
    draw_points_on_sphere,
    draw_sphere_outline,
)
from sweep.plots.style import (
    CurveStyle,
    axis_label_with_units,
    new_figure,
    set_plain_step_ticks,
    step_size_label,
    style_log_error_axis,
    style_plain_axis,
)

INERTIAS = {"printed": "inertia as printed", "fixed_point": "inertia about the fixed point"}
METHODS: dict[tuple[str, str], CurveStyle] = {
    ("SLGI θ = 0", "cotangent"): {"color": "#0072B2", "marker": "v", "ms": 6.0},
    ("SLGI θ = 1", "cotangent"): {"color": "#009E73", "marker": "^", "ms": 5.5},
    ("SLGI θ = 1/2", "cotangent"): {"color": "#D55E00", "marker": "o", "ms": 5.0},
    ("SLGI θ = 1/2", "quadratic"): {"color": "black", "marker": "x", "ms": 4.0},
}
COMPONENTS = "xyz"
COARSE, EVERY = 100, 4  # number of steps of 0.01 s in Figure 2, and every how many are drawn
FINE = "SLGI θ = 1/2"
VIEW = View.along_direction(OBLIQUE)


def _method_label_of_formulation(label: str, formulation: str) -> str:
    return label if formulation == "cotangent" else label.replace("SLGI", "SLGIKK")


def _vectors_along_run(run: xr.Dataset, name: str) -> np.ndarray:
    """A quantity of one run with three components, shape (times, 3)."""
    return np.stack([run[f"{name}_{axis}"].values[0] for axis in COMPONENTS], axis=1)


def _gravity_directions_in_body(run: xr.Dataset) -> np.ndarray:
    vectors = _vectors_along_run(run, "gravity_in_body")
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# --- figure 2 ------------------------------------------------------------------------------------


def draw_short_heavy_top_run(paths: xr.Dataset, long: xr.Dataset, orders: xr.Dataset) -> Figure:
    """Figure 2: gravity in the body frame and axis QX on [0, 1], and errors by step size."""
    figure = new_figure(11.5, 6.6)
    parts = figure.subfigures(2, 1, squeeze=False)[:, 0]
    for part, (inertia, title) in zip(parts, INERTIAS.items(), strict=True):
        part.suptitle(title, x=0.01, ha="left", fontsize=9, fontweight="bold")
        disc, axis, order = part.subplots(1, 3, width_ratios=(0.75, 1.3, 1.1))
        fine = first_run_to_draw(paths, FINE, inertia=inertia, formulation="cotangent")
        _draw_gravity_in_body(disc, fine)
        _draw_top_axis_components(axis, fine, long, inertia)
        _draw_heavy_top_orders(order, orders, inertia)
    return figure


def _draw_gravity_in_body(ax: Axes, run: xr.Dataset) -> None:
    """Draw the direction of MℓQ⁻¹Γ₀ on the sphere; the part on the far side is dotted."""
    directions = _gravity_directions_in_body(run)[None]
    draw_sphere_outline(ax, VIEW)
    draw_paths_on_sphere(ax, VIEW, directions, color="0.25", lw=0.8)
    behind = {"color": "0.6", "lw": 0.6, "ls": (0, (1, 1.5))}
    draw_paths_on_sphere(ax, VIEW.view_of_far_side, directions, **behind)
    ax.set_title(f"direction of MℓQ⁻¹Γ₀, {step_size_label(run)}", loc="left")


def _draw_top_axis_components(
    ax: Axes, fine: xr.Dataset, dataset: xr.Dataset, inertia: str
) -> None:
    """Draw the components of QX: of all methods with a large step, of one with a small step."""
    for name, values in zip(COMPONENTS, _vectors_along_run(fine, "axis").T, strict=True):
        ax.plot(fine["time"], values, color="0.6", lw=0.8, zorder=1)
        place = (1.0, values[-1])
        ax.annotate(name, place, (4, 0), textcoords="offset points", va="center")
    for (label, formulation), style in METHODS.items():
        run = first_run_to_draw(dataset, label, inertia=inertia, formulation=formulation)
        run = run.isel(time=slice(0, COARSE + 1, EVERY))
        name = _method_label_of_formulation(label, formulation)
        hollow = style | {"mfc": "none", "mew": 0.8, "ls": "none"}
        for k, values in enumerate(_vectors_along_run(run, "axis").T):
            ax.plot(run["time"], values, label=name if k == 0 else None, **hollow)
    sizes = f"{step_size_label(run)}; lines, {step_size_label(fine)}"
    style_plain_axis(ax, f"components of QX, {sizes}")
    ax.set(xlabel=axis_label_with_units(fine["time"], "time t"))
    ax.set(xlim=(-0.02, 1.04), ylim=(-1.1, 1.1))
    ax.legend(loc="lower left")


def _draw_heavy_top_orders(ax: Axes, dataset: xr.Dataset, inertia: str) -> None:
    own = take_runs(dataset, np.flatnonzero(dataset["inertia"].values == inertia))
    rows = {(row.integrator, row.parameters["formulation"]): row for row in order_table(own)}
    for key, style in METHODS.items():
        label = f"{rows[key].order:.2f}   {_method_label_of_formulation(*key)}"
        draw_error_curve(ax, rows[key], style | {"lw": 0.9}, label)
    ax.set(xscale="log", xlabel=axis_label_with_units(dataset["step_size"], "step size h"))
    ax.set_ylabel(error_axis_label(dataset, list(rows.values())))
    style_log_error_axis(ax)
    set_plain_step_ticks(ax)
    style_plain_axis(ax, "orders")
    ax.legend()


# --- figure 3 ------------------------------------------------------------------------------------


def draw_long_heavy_top_run(dataset: xr.Dataset) -> Figure:
    """Figure 3: energy error over 6000 steps, and direction of gravity in the body frame."""
    figure = new_figure(12.0, 5.4)
    axes = figure.subplots(2, 4, height_ratios=(1.0, 1.15))
    settings = product(INERTIAS.items(), (FINE, "SLGI θ = 0"))
    for (upper, lower), ((inertia, title), label) in zip(axes.T, settings, strict=True):
        run = first_run_to_draw(dataset, label, inertia=inertia, formulation="cotangent")
        colour = METHODS[label, "cotangent"]["color"]
        style = {"color": colour, "ls": "none", "marker": ".", "ms": 1.6, "mew": 0.0}
        upper.plot(run["time"], run["energy_error"].values[0], **style)
        style_plain_axis(upper, f"{label}\n{title}")
        label_time_axis(upper, run)
        draw_sphere_outline(lower, VIEW)
        points = _gravity_directions_in_body(run)
        draw_points_on_sphere(lower, VIEW.view_of_far_side, points, 0.5, color=colour, alpha=0.3)
        draw_points_on_sphere(lower, VIEW, points, 0.7, color=colour)
    axes[0, 0].set_ylabel(axis_label_with_units(dataset["energy"], "H − H₀"))
    axes[1, 0].set_title("direction of MℓQ⁻¹Γ₀", loc="left")
    return figure
