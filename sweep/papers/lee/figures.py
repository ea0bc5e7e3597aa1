"""Counterparts of the figures of Lee, Leok and McClamroch on two-spheres.

Each function takes the run tables of the experiments that ``claims.toml`` lists for the figure.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from scipy.sparse import csr_array

from sweep.analysis import drift_table
from sweep.papers.axes import label_time_axis
from sweep.plots.drawn_runs import first_run_to_draw
from sweep.plots.style import (
    GREY,
    CurveStyle,
    axis_label_with_units,
    new_figure,
    set_plain_step_ticks,
    step_size_label,
    style_log_error_axis,
)
from systems.mechanical.icosphere import Icosphere, icosphere

VARIATIONAL: CurveStyle = {"color": "#D55E00", "ls": "-", "lw": 1.2}
RUNGE_KUTTA: CurveStyle = {"color": "#0072B2", "ls": ":", "lw": 1.2}
PROJECTED: CurveStyle = {"color": "black", "ls": "--", "lw": 1.0}
FACES = 4  # subdivisions of the icosahedron: 5120 faces
INSIDE = -1e-12  # tolerance by which a point on the edge of a face is inside
PERCENTILES = (5, 25, 50, 75, 95)


def _draw_energy_and_unit_length(curves: Sequence[tuple[str, xr.Dataset, CurveStyle]]) -> Figure:
    """Draw total energy and unit length error over time, for runs with names and styles."""
    figure = new_figure(8.5, 3.6)
    left, right = figure.subplots(1, 2)
    for name, run, style in curves:
        time, error = run["time"].values, run["unit_length_error"].values[0]
        size = f"RelTol = {run['tolerance'].values[0]:g}"
        if np.isfinite(run["step_size"].values[0]):
            size = step_size_label(run)
        left.plot(time, run["energy"].values[0], label=f"{name}, {size}", **style)
        shown = (time > 0) & (error > 0)  # at the start, errors are 0
        right.plot(time[shown], error[shown], **style)
    run = curves[0][1]
    for ax in (left, right):
        label_time_axis(ax, run)
    left.set_ylabel(axis_label_with_units(run["energy"], "total energy"))
    right.set_ylabel("max |q·q − 1| over bodies")
    style_log_error_axis(right)
    left.legend()
    return figure


def draw_variational_against_rk45(
    runge_kutta: xr.Dataset, variational: xr.Dataset, **scan: Any
) -> Figure:
    """Figures 3.1, 3.4 and 3.5: energy and unit length error of both methods.

    Parameters
    ----------
    runge_kutta, variational : xarray.Dataset
    **scan
        Values of coordinates of the variational integrator's run.
    """
    of_variational = first_run_to_draw(variational, "variational", **scan)
    return _draw_energy_and_unit_length(
        [
            ("RK45", first_run_to_draw(runge_kutta, "rk45"), RUNGE_KUTTA),
            ("variational", of_variational, VARIATIONAL),
        ]
    )


def draw_errors_by_step_size(dataset: xr.Dataset) -> Figure:
    """Figure 3.2: mean energy and unit length errors against the step size."""
    rows = [row for row in drift_table(dataset, ("energy", "unit_length")) if row.mean_abs > 0]
    figure = new_figure(8.5, 3.6)
    axes = dict(zip(("energy", "unit_length"), figure.subplots(1, 2), strict=True))
    for quantity, ax in axes.items():
        for name, style in (
            ("variational", VARIATIONAL | {"marker": "o", "label": "variational"}),
            ("rk2", RUNGE_KUTTA | {"marker": "s", "label": "RK2 on (q, q̇)"}),
        ):
            own = [row for row in rows if (row.integrator, row.quantity) == (name, quantity)]
            ax.plot([row.step_size for row in own], [row.mean_abs for row in own], **style)
        ax.set(xscale="log", xlabel=axis_label_with_units(dataset["step_size"], "step size h"))
        set_plain_step_ticks(ax)
        style_log_error_axis(ax)
        ax.legend()
    axes["energy"].set_ylabel("mean |E − E₀| over steps")
    axes["unit_length"].set_ylabel("mean |q·q − 1| over steps")
    return figure


def draw_spring_example_by_methods(dataset: xr.Dataset) -> Figure:
    """Figure 3.3: RK2, RK2 with reprojection and the variational integrator."""
    largest = dataset["step_size"].values.max()
    curves = (
        ("RK2", "rk2_midpoint (q, ω)", RUNGE_KUTTA),
        ("RK2 with projection", "rk2_midpoint+projected (q, ω)", PROJECTED),
        ("variational", "variational", VARIATIONAL),
    )
    return _draw_energy_and_unit_length(
        [(text, first_run_to_draw(dataset, name, largest), style) for text, name, style in curves]
    )


# --- Example 6 -----------------------------------------------------------------------------------


def _molecule_positions_and_velocities(dataset: xr.Dataset) -> list[np.ndarray]:
    """Samples of q and ω of the run, each of shape (times, n, 3)."""
    return np.split(dataset["state"].values[0], 2, axis=1)


def draw_molecule_trajectories(dataset: xr.Dataset) -> Figure:
    """Figure 3.6: paths of the molecules between the vortices, seen from e3, and total energy."""
    (paths, _), time = _molecule_positions_and_velocities(dataset), dataset["time"].values
    figure = new_figure(8.5, 3.9)
    left, right = figure.subplots(1, 2)
    _draw_sphere_outline(left)
    pieces = np.stack([paths[:-1], paths[1:]], axis=2)  # (times − 1, n, 2, 3)
    seen = (pieces[..., 2] > 0).all(axis=2)
    when = np.broadcast_to(time[1:, None], seen.shape)
    lines = LineCollection(list(pieces[seen][..., :2]), array=when[seen], cmap="viridis", lw=0.7)
    left.add_collection(lines)
    label = axis_label_with_units(dataset["time"], "time t")
    figure.colorbar(lines, ax=left, label=label, shrink=0.8)
    left.set_title("seen from e₃", loc="left", color="0.3")
    size = f"variational, h = {dataset['step_size'].values[0]:g}"
    right.plot(time, dataset["energy"].values[0], label=size, **VARIATIONAL)
    label_time_axis(right, dataset)
    right.set_ylabel(axis_label_with_units(dataset["energy"], "total energy"))
    right.legend()
    return figure


def _draw_sphere_outline(ax: Axes) -> None:
    """Draw the outline of the sphere in orthographic projection."""
    angle = np.linspace(0.0, 2 * np.pi, 361)
    ax.plot(np.cos(angle), np.sin(angle), color=GREY, lw=0.6)
    ax.set_aspect("equal")
    ax.set_axis_off()


def local_averages_on_mesh(
    mesh: Icosphere, positions: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Average values over each face of a mesh and the faces that touch it.

    Parameters
    ----------
    mesh : systems.mechanical.icosphere.Icosphere
        A mesh with f faces.
    positions : ndarray, shape (n, 3)
        Unit vectors of the points.
    values : ndarray, shape (n,)
        Values at the points.

    Returns
    -------
    ndarray, shape (f,)
        NaN where these faces have no point.
    """
    corners = mesh.vertices[mesh.faces]
    sides = np.cross(corners, np.roll(corners, -1, axis=1))  # (f, 3 sides, 3)
    least = np.min([positions @ sides[:, k].T for k in range(3)], axis=0)
    face = np.argmax(least > INSIDE, axis=1)
    count = len(mesh.faces)
    corner_of = csr_array(
        (np.ones(3 * count), (np.repeat(np.arange(count), 3), mesh.faces.ravel()))
    )
    # Faces touch if they have a common corner; a face touches itself.
    touching = (corner_of @ corner_of.T > 0).astype(float)
    molecules = np.asarray(touching @ np.bincount(face, minlength=count))
    total = np.asarray(touching @ np.bincount(face, values, minlength=count))
    return np.divide(total, molecules, out=np.full(count, np.nan), where=molecules > 0)


def draw_molecule_kinetic_energy(dataset: xr.Dataset) -> Figure:
    """Figure 3.7: kinetic energy on the sphere's 5120 faces, and its distribution over time."""
    mesh, time = icosphere(FACES), dataset["time"].values
    positions, velocities = _molecule_positions_and_velocities(dataset)
    mass = json.loads(dataset.attrs["system"])["parameters"]["mass"]
    energies = 0.5 * mass * np.sum(velocities**2, axis=2)  # |q̇| = |ω|
    shown = np.linspace(0, len(time) - 1, 6).astype(int)
    maps = [local_averages_on_mesh(mesh, positions[k], energies[k]) for k in shown]
    scale = ScalarMappable(Normalize(0.0, np.nanpercentile(maps, 99)), "turbo")
    scale.cmap.set_bad("0.85")
    figure = new_figure(10.5, 5.8)
    (upper,), (lower,) = figure.subfigures(2, 1, squeeze=False, height_ratios=(3.3, 2.0))
    axes = upper.subplots(2, len(shown))
    for column, k in enumerate(shown):
        for ax, sign in zip(axes[:, column], (1.0, -1.0), strict=True):
            _draw_hemisphere_map(ax, mesh, np.ma.masked_invalid(maps[column]), sign, scale)
        when = axis_label_with_units(dataset["time"], f"t = {time[k]:g}", "{} {}")
        axes[0, column].set_title(when)
    for ax, side in zip(axes[:, 0], ("from e₃", "from −e₃"), strict=True):
        ax.text(-1.25, 0.0, side, rotation=90, va="center", color="0.3")
    label = "local kinetic energy (grey: no molecule)"
    upper.colorbar(scale, ax=axes, shrink=0.8, extend="max", label=label)
    _draw_energy_distribution(lower.subplots(), dataset, energies)
    return figure


def _draw_hemisphere_map(
    ax: Axes, mesh: Icosphere, values: np.ndarray, sign: float, scale: ScalarMappable
) -> None:
    """Draw the faces of one hemisphere, seen along ±e3, coloured by `values`."""
    _draw_sphere_outline(ax)
    corners = mesh.vertices[mesh.faces]
    seen = sign * corners.sum(axis=1)[:, 2] > 0
    flat = corners[seen][..., :2] * (sign, 1.0)  # seen from behind, left and right are exchanged
    ax.add_collection(
        PolyCollection(flat, facecolors=scale.to_rgba(values[seen]), edgecolors="face", lw=0.2)
    )


def _draw_energy_distribution(ax: Axes, dataset: xr.Dataset, energies: np.ndarray) -> None:
    """Draw percentiles and mean of the kinetic energies of molecules over time."""
    low, lower, middle, upper, high = np.percentile(energies, PERCENTILES, axis=1)
    time, color = dataset["time"].values, VARIATIONAL["color"]
    ax.fill_between(time, low, high, color=color, alpha=0.15, lw=0, label="5 – 95 %")
    ax.fill_between(time, lower, upper, color=color, alpha=0.3, lw=0, label="25 – 75 %")
    ax.plot(time, middle, color=color, lw=1.4, label="median")
    ax.plot(time, energies.mean(axis=1), color="black", lw=1.0, ls="--", label="mean")
    label_time_axis(ax, dataset)
    ax.set(ylabel="kinetic energy of a molecule", ylim=(0.0, None))
    ax.legend(ncols=4, loc="upper right")


LEE: dict[str, Callable[..., Figure]] = {
    "figure-3.1": draw_variational_against_rk45,
    "figure-3.2": draw_errors_by_step_size,
    "figure-3.3": draw_spring_example_by_methods,
    "figure-3.4": partial(draw_variational_against_rk45, inertia="printed"),
    "figure-3.5": draw_variational_against_rk45,
    "figure-3.6": draw_molecule_trajectories,
    "figure-3.7": draw_molecule_kinetic_energy,
}
