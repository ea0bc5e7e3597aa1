"""Counterparts of the figures of McLachlan, Modin and Verdier on the spherical midpoint method.

Each function takes the run tables of the experiments that ``claims.toml`` lists for the figure.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweep.analysis.runs.selection import take_runs
from sweep.papers.axes import label_time_axis
from sweep.papers.mclachlan.equilibria import places_of_vortices
from sweep.plots.drawn_runs import first_run_to_draw
from sweep.plots.projection import (
    OBLIQUE,
    View,
    draw_paths_on_sphere,
    draw_points_on_sphere,
    draw_sphere_outline,
)
from sweep.plots.sphere_plots import sphere
from sweep.plots.style import (
    CurveStyle,
    axis_label_with_units,
    new_figure,
    step_size_label,
    style_log_error_axis,
)

SPHERICAL: CurveStyle = {"color": "#D55E00", "ls": "-", "lw": 1.2}
CLASSICAL: CurveStyle = {"color": "#0072B2", "ls": ":", "lw": 1.2}
MOSER_VESELOV: CurveStyle = {"color": "black", "ls": "--", "lw": 1.0}
LEVELS = LinearSegmentedColormap.from_list(
    "levels", colormaps["viridis"](np.linspace(0.0, 0.88, 256))  # without yellow, which is too pale
)  # fmt: skip
METHODS = (
    ("moser_veselov", "discrete Moser–Veselov", {**MOSER_VESELOV, "marker": "D", "ms": 4}),
    ("implicit_midpoint", "classical midpoint", {**CLASSICAL, "marker": "s", "ms": 4}),
    ("spherical_midpoint", "spherical midpoint", {**SPHERICAL, "marker": "o", "ms": 4}),
)
VIEW = View.along_direction(OBLIQUE)
SIDES = (VIEW, VIEW.view_from_behind)


def _draw_empty_sphere_sides(axes: Iterable[Axes]) -> Iterator[tuple[Axes, View]]:
    """Draw an empty disc on each of two axes; yield the axes with the views of both sides."""
    for ax, view in zip(axes, SIDES, strict=True):
        draw_sphere_outline(ax, view)
        yield ax, view


def _states_of_first_spin(dataset: xr.Dataset) -> np.ndarray:
    """States w of the first spin, shape (runs, times, 3)."""
    return dataset["state"].values[:, :, 0]


def _draw_phase_portrait(
    axes: Iterable[Axes], dataset: xr.Dataset, draw: Callable[..., object]
) -> ScalarMappable:
    """Draw trajectories of the first spin on both sides of the sphere; return the colour scale."""
    paths, energy = _states_of_first_spin(dataset), dataset["energy"].values[:, 0]
    scale = ScalarMappable(Normalize(energy.min(), energy.max()), LEVELS)
    for ax, view in _draw_empty_sphere_sides(axes):
        for path, colour in zip(paths, scale.to_rgba(energy), strict=True):
            draw(ax, view, path, color=colour)
    return scale


def _draw_energy_colour_bar(figure: Figure, axes: Iterable[Axes], scale: ScalarMappable) -> None:
    figure.colorbar(scale, ax=list(axes), label="energy H", shrink=0.7, aspect=30, pad=0.01)


def _draw_path_on_sphere(ax: Axes, view: View, path: np.ndarray, color: Any) -> None:
    draw_paths_on_sphere(ax, view, path[None], lw=0.8, color=color)


def draw_free_rigid_body(dataset: xr.Dataset) -> Figure:
    """Figure 2: phase portraits of the free rigid body, for both inertias."""
    titles = {"printed": "I = (1, 2, 4), as printed", "figure": "I = (1, 4/3, 2), of section 3.3"}
    figure = new_figure(7.4, 6.8)
    for axes, (label, title) in zip(figure.subplots(2, 2), titles.items(), strict=True):
        own = take_runs(dataset, np.flatnonzero(dataset["inertia"].values == label))
        scale = _draw_phase_portrait(axes, own, _draw_path_on_sphere)
        _draw_energy_colour_bar(figure, axes, scale)
        axes[0].set_title(title, loc="left")
    return figure


def draw_errors_of_three_methods(printed: xr.Dataset, used: xr.Dataset) -> Figure:
    """Figure 3: largest errors of three methods on [0, 10] against the step size.

    Parameters
    ----------
    printed, used : xarray.Dataset
        Runs with the printed inertia, and with that of section 3.3.
    """
    figure = new_figure(8.5, 3.8)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, title, dataset in (
        (axes[0], "I = (1, 2, 4), as printed", printed),
        (axes[1], "I = (1, 4/3, 2), of section 3.3", used),
    ):
        largest = dataset["global_error"].max("time").values
        for integrator, text, style in METHODS:
            own = np.flatnonzero(dataset["integrator"].values == integrator)
            own = own[np.argsort(dataset["step_size"].values[own])]
            ax.plot(dataset["step_size"].values[own], largest[own], label=text, **style)
        ax.set(xscale="log", xlabel=axis_label_with_units(dataset["step_size"], "step size h"))
        style_log_error_axis(ax)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_title(title, loc="left")
    axes[0].set_ylabel(f"max |wₖ − w(hk)| on [0, {printed['time'].values[-1]:g}]")
    axes[0].legend()
    return figure


def draw_irreversible_body(portrait: xr.Dataset, pair: xr.Dataset) -> Figure:
    """Figure 4: phase portrait, trajectories of two methods, and their energy errors."""
    methods = (
        (first_run_to_draw(pair, "implicit_midpoint"), "classical midpoint", "0.55"),
        (first_run_to_draw(pair, "spherical_midpoint"), "spherical midpoint", SPHERICAL["color"]),
    )
    figure = new_figure(11.0, 5.3)
    (upper,), (lower,) = figure.subfigures(2, 1, squeeze=False, height_ratios=(2.7, 2.3))
    axes = upper.subplots(1, 4)
    scale = _draw_phase_portrait(axes[:2], portrait, partial(draw_points_on_sphere, size=0.9))
    upper.colorbar(scale, ax=list(axes), label="energy H in (a)", shrink=0.8, aspect=25)
    for ax, view in _draw_empty_sphere_sides(axes[2:]):
        for run, _, colour in methods:
            draw_points_on_sphere(ax, view, _states_of_first_spin(run), 0.8, color=colour)
    axes[0].set_title(f"(a) spherical midpoint, {step_size_label(portrait)}", loc="left")
    axes[2].set_title("(b) the same start by two methods", loc="left")
    errors = lower.subplots()
    for run, text, colour in methods:
        errors.plot(pair["time"], run["energy_error"].values[0], label=text, color=colour, lw=0.6)
    label_time_axis(errors, pair)
    errors.set_ylabel("energy error H(wₖ) − H(w₀)")
    errors.set_title("(c)", loc="left")
    for line in errors.legend(loc="upper left").get_lines():
        line.set_linewidth(2.0)
    return figure


def draw_invariant_manifold(dataset: xr.Dataset) -> Figure:
    """Figure 6: four vortices on the invariant manifold (15), and the half turns between them.

    Each vortex, and its path over the period, is the image of the first one under a half turn about
    an axis.
    """
    paths = dataset["state"].values[0].swapaxes(0, 1)
    names = {
        "#D55E00": "w₁ = c(θ, φ)",
        "#0072B2": "w₂, turned about e₃",
        "#009E73": "w₃, turned about e₁",
        "#CC79A7": "w₄, turned about e₂",
    }
    figure = new_figure(7.4, 3.9)
    axes = figure.subplots(1, 2)
    for ax, view in _draw_empty_sphere_sides(axes):
        for side, alpha in ((view.view_of_far_side, 0.25), (view, 1.0)):
            for path, colour in zip(paths, names, strict=True):
                _draw_path_on_sphere(ax, side, path, color=(colour, 0.6 * alpha))
                now = side.project_onto_disc(path[:1])
                ax.plot(*now.T, "o", color=colour, alpha=alpha, ms=6, zorder=3)
        _draw_edges_between_vortices(ax, view, paths[:, 0])
    axes[0].set_title("from the front", loc="left")
    axes[1].set_title("from behind", loc="left")
    handles = [Line2D([], [], color=x, marker="o", lw=0.8, label=y) for x, y in names.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _draw_edges_between_vortices(ax: Axes, view: View, vortices: np.ndarray) -> None:
    """Draw the tetrahedron of the vortices; opposite edges, which are equally long, look alike."""
    flat = vortices @ np.stack([view.right, view.up], axis=1)
    opposite = {"-": ([0, 1], [2, 3]), "--": ([0, 2], [1, 3]), ":": ([0, 3], [1, 2])}
    for style, edges in opposite.items():
        for edge in edges:
            ax.plot(*flat[edge].T, style, color="0.4", lw=0.8, zorder=2)


def draw_tracer_paths(dataset: xr.Dataset) -> Figure:
    """Draw particles that four vortices carry, coloured by their height at the start."""
    (run,) = np.flatnonzero(dataset["tracers"].values)
    states, times = dataset["state"].values[run], dataset["time"].values
    scale = ScalarMappable(Normalize(-1.0, 1.0), LEVELS)
    style = {"marker": "o", "ls": "none", "mec": "white", "mew": 0.8, "color": "#D55E00", "ms": 6}
    figure = new_figure(8.4, 5.8)
    axes = figure.subplots(2, 3)
    for ax, k in zip(axes.flat, np.linspace(0, len(times) - 1, 6).astype(int), strict=True):
        draw_sphere_outline(ax, VIEW)
        flat = VIEW.project_onto_disc(states[k, 4:])
        ax.scatter(*flat.T, s=3.0, c=scale.to_rgba(states[0, 4:, 2]), lw=0.0)
        ax.plot(*VIEW.project_onto_disc(states[k, :4]).T, label="vortex", **style)
        now = axis_label_with_units(dataset["time"], f"t = {times[k]:g}", "{} {}")
        ax.text(0.0, 0.0, now, transform=ax.transAxes)
    label = "height w₃ at the start"
    figure.colorbar(scale, ax=axes, label=label, shrink=0.6, aspect=30, pad=0.01)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center")
    return figure


def draw_vortices(dataset: xr.Dataset) -> Figure:
    """Figure 7: trajectories of the first vortex on the invariant manifold.

    Vortices meet at ±e_k. The equilibria are found by Newton's method.
    """
    points = (
        (np.concatenate([np.eye(3), -np.eye(3)]), "o", "#D55E00", "two vortices meet"),
        (places_of_vortices(dataset, stable=False), "s", "black", "unstable equilibrium"),
        (places_of_vortices(dataset, stable=True), "^", "#0072B2", "stable equilibrium"),
    )
    figure = new_figure(7.4, 3.9)
    axes = figure.subplots(1, 2)
    scale = _draw_phase_portrait(axes, dataset, _draw_path_on_sphere)
    _draw_energy_colour_bar(figure, axes, scale)
    for ax, view in zip(axes, SIDES, strict=True):
        for place, marker, colour, text in points:
            style = {"marker": marker, "color": colour, "label": text, "ms": 3.5, "ls": "none"}
            ax.plot(*view.project_onto_disc(place).T, zorder=3, **style)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


MCLACHLAN: dict[str, Callable[..., Figure]] = {
    "tracers": draw_tracer_paths,
    "figure-2": draw_free_rigid_body,
    "figure-3": draw_errors_of_three_methods,
    "figure-4": draw_irreversible_body,
    "figure-5": sphere,  # Poincaré sections of the forced rigid body, ε = 0.01 and 0.07
    "figure-6": draw_invariant_manifold,
    "figure-7": draw_vortices,
    "figure-8": sphere,  # a closed curve of a hundred spins at six times
}
