"""Counterparts of the figures of Lee, Leok and McClamroch on two-spheres.

Each function takes the run tables of the packaged studies ``lee-example-…``, by study and
experiment, and returns a figure that belongs to no window.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from scipy.sparse import csr_array

from sweep.analysis import drift_table
from sweep.papers.measuring import Datasets
from sweep.plots.selection import first_run_to_draw
from sweep.plots.style import (
    GREY,
    STYLE,
    CurveStyle,
    axis_label_with_units,
    new_figure,
    set_plain_step_ticks,
    style_log_error_axis,
)
from systems.mechanical.icosphere import Icosphere, icosphere

VARIATIONAL: CurveStyle = {"color": "#D55E00", "ls": "-", "lw": 1.2}
RUNGE_KUTTA: CurveStyle = {"color": "#0072B2", "ls": ":", "lw": 1.2}
PROJECTED: CurveStyle = {"color": "black", "ls": "--", "lw": 1.0}
FACES = 4  # subdivisions of the icosahedron: 5120 faces
INSIDE = -1e-12  # a point on the edge of a face is in it
PERCENTILES = (5, 25, 50, 75, 95)


def _draw_energy_and_unit_length(curves: Sequence[tuple[str, xr.Dataset, CurveStyle]]) -> Figure:
    """Draw total energy and unit length error over time, of runs with their names and styles."""
    with rc_context(STYLE):
        figure = new_figure(8.5, 3.6)
        left, right = figure.subplots(1, 2)
        for name, run, style in curves:
            time, energy = run["time"].values, run["energy"].values[0]
            left.plot(time, energy, label=_method_label_with_step(name, run), **style)
            error = run["unit_length_error"].values[0]
            shown = (time > 0) & (error > 0)  # the start is on the spheres
            right.plot(time[shown], error[shown], **style)
        run = curves[0][1]
        for ax in (left, right):
            ax.set_xlabel(axis_label_with_units(run["time"], "time t"))
            ax.set_xlim(0.0, run["time"].values[-1])
            ax.spines[["top", "right"]].set_visible(False)
        left.set_ylabel(axis_label_with_units(run["energy"], "total energy"))
        right.set_ylabel("max |q·q − 1| over bodies")
        style_log_error_axis(right)
        left.legend(frameon=False)
    return figure


def _method_label_with_step(name: str, run: xr.Dataset) -> str:
    """The name of a method with its step size or tolerance."""
    if np.isfinite(run["step_size"].values[0]):
        return axis_label_with_units(
            run["step_size"], f"{name}, h = {run['step_size'].values[0]:g}", "{} {}"
        )
    return f"{name}, RelTol = {run['tolerance'].values[0]:g}"


def _figure_drawer_against_rk45(
    number: int, experiment: str, **scan: Any
) -> Callable[[Datasets], Figure]:
    """A function that draws an example: the variational integrator against RK45.

    Parameters
    ----------
    number : int
        Of the example.
    experiment : str
        That of the variational integrator.
    **scan
        Values of coordinates of its run.
    """

    def draw(datasets: Datasets) -> Figure:
        study = datasets[f"lee-example-{number}"]
        return _draw_energy_and_unit_length(
            [
                ("RK45", first_run_to_draw(study["runge-kutta"], "rk45"), RUNGE_KUTTA),
                (
                    "variational",
                    first_run_to_draw(study[experiment], "variational", **scan),
                    VARIATIONAL,
                ),
            ]
        )

    return draw


def draw_errors_by_step_size(datasets: Datasets) -> Figure:
    """Figure 3.2: mean energy and unit length errors against the step size."""
    dataset = datasets["lee-example-2"]["step-sizes"]
    rows = drift_table(dataset, ("energy", "unit_length"))
    styles = {
        "variational": {**VARIATIONAL, "marker": "o", "label": "variational"},
        "rk2": {**RUNGE_KUTTA, "marker": "s", "label": "RK2 on (q, q̇)"},
    }
    with rc_context(STYLE):
        figure = new_figure(8.5, 3.6)
        for ax, quantity, text in zip(
            figure.subplots(1, 2),
            ("energy", "unit_length"),
            ("mean |E − E₀| over steps", "mean |q·q − 1| over steps"),
            strict=True,
        ):
            for name, style in styles.items():
                own = [r for r in rows if (r.integrator, r.quantity) == (name, quantity)]
                own = [r for r in own if r.mean_abs > 0]
                ax.plot([r.step_size for r in own], [r.mean_abs for r in own], **style)
            ax.set(
                xscale="log",
                xlabel=axis_label_with_units(dataset["step_size"], "step size h"),
                ylabel=text,
            )
            set_plain_step_ticks(ax)
            style_log_error_axis(ax)
            ax.spines[["top", "right"]].set_visible(False)
            ax.legend(frameon=False)
    return figure


def draw_spring_example_by_methods(datasets: Datasets) -> Figure:
    """Figure 3.3: RK2, RK2 with reprojection and the variational integrator."""
    dataset = datasets["lee-example-3"]["formulations"]
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


def _molecules_run(datasets: Datasets) -> xr.Dataset:
    return datasets["lee-example-6"]["molecules"].isel(run=0)


def _molecule_positions(dataset: xr.Dataset) -> np.ndarray:
    """q at every sample, shape (times, n, 3)."""
    return dataset["state"].values[:, : dataset.sizes["row"] // 2]


def _molecule_kinetic_energies(dataset: xr.Dataset) -> np.ndarray:
    """Kinetic energy ½ m |ω|² of each molecule, shape (times, n), since |q̇| = |ω|."""
    omega = dataset["state"].values[:, dataset.sizes["row"] // 2 :]
    mass = json.loads(dataset.attrs["system"])["parameters"]["mass"]
    return 0.5 * mass * np.sum(omega**2, axis=2)


def draw_molecule_trajectories(datasets: Datasets) -> Figure:
    """Figure 3.6: paths of the molecules seen from e3, between the vortices, and total energy."""
    dataset = _molecules_run(datasets)
    paths, time = _molecule_positions(dataset), dataset["time"].values
    with rc_context(STYLE):
        figure = new_figure(8.5, 3.9)
        left, right = figure.subplots(1, 2)
        _draw_sphere_outline(left)
        pieces = np.stack([paths[:-1], paths[1:]], axis=2)  # (times − 1, n, 2, 3)
        seen = (pieces[..., 2] > 0).all(axis=2)
        when = np.broadcast_to(time[1:, None], seen.shape)
        lines = LineCollection(
            list(pieces[seen][..., :2]), array=when[seen], cmap="viridis", lw=0.7
        )
        left.add_collection(lines)
        figure.colorbar(
            lines, ax=left, label=axis_label_with_units(dataset["time"], "time t"), shrink=0.8
        )
        left.set_title("seen from e₃", loc="left", color="0.3")
        size = f"variational, h = {dataset['step_size'].values:g}"
        right.plot(time, dataset["energy"].values, label=size, **VARIATIONAL)
        right.set(xlabel=axis_label_with_units(dataset["time"], "time t"), xlim=(0.0, time[-1]))
        right.set_ylabel(axis_label_with_units(dataset["energy"], "total energy"))
        right.spines[["top", "right"]].set_visible(False)
        right.legend(frameon=False)
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
    """Average values over each face of a mesh and the faces that touch it; NaN without points.

    Parameters
    ----------
    mesh : systems.mechanical.icosphere.Icosphere
        f faces.
    positions : ndarray, shape (n, 3)
        Unit vectors of the points.
    values : ndarray, shape (n,)
        Values at the points.

    Returns
    -------
    ndarray, shape (f,)
    """
    corners = mesh.vertices[mesh.faces]
    sides = np.cross(corners, np.roll(corners, -1, axis=1))  # (f, 3 sides, 3)
    least = np.min([positions @ sides[:, k].T for k in range(3)], axis=0)
    face = np.argmax(least > INSIDE, axis=1)
    count = len(mesh.faces)
    corner_of = csr_array(
        (np.ones(3 * count), (np.repeat(np.arange(count), 3), mesh.faces.ravel()))
    )
    touching = (corner_of @ corner_of.T > 0).astype(float)  # each other or itself
    molecules = np.asarray(touching @ np.bincount(face, minlength=count))
    total = np.asarray(touching @ np.bincount(face, values, minlength=count))
    return np.divide(total, molecules, out=np.full(count, np.nan), where=molecules > 0)


def draw_molecule_kinetic_energy(datasets: Datasets) -> Figure:
    """Figure 3.7: kinetic energy on the sphere's 5120 faces, and its distribution over time."""
    dataset = _molecules_run(datasets)
    mesh, time = icosphere(FACES), dataset["time"].values
    positions, energies = _molecule_positions(dataset), _molecule_kinetic_energies(dataset)
    shown = np.linspace(0, len(time) - 1, 6).astype(int)
    maps = [local_averages_on_mesh(mesh, positions[k], energies[k]) for k in shown]
    scale = ScalarMappable(Normalize(0.0, np.nanpercentile(maps, 99)), "turbo")
    scale.cmap.set_bad("0.85")
    with rc_context(STYLE):
        figure = new_figure(10.5, 5.8)
        (upper,), (lower,) = figure.subfigures(2, 1, squeeze=False, height_ratios=(3.3, 2.0))
        axes = upper.subplots(2, len(shown))
        for column, k in enumerate(shown):
            for ax, sign in zip(axes[:, column], (1.0, -1.0), strict=True):
                _draw_hemisphere_map(ax, mesh, np.ma.masked_invalid(maps[column]), sign, scale)
            axes[0, column].set_title(
                axis_label_with_units(dataset["time"], f"t = {time[k]:g}", "{} {}")
            )
        axes[0, 0].text(-1.25, 0.0, "from e₃", rotation=90, va="center", color="0.3")
        axes[1, 0].text(-1.25, 0.0, "from −e₃", rotation=90, va="center", color="0.3")
        upper.colorbar(
            scale,
            ax=axes,
            shrink=0.8,
            extend="max",
            label="local kinetic energy (grey: no molecule)",
        )
        _draw_energy_distribution(lower.subplots(), time, energies, dataset)
    return figure


def _draw_hemisphere_map(
    ax: Axes, mesh: Icosphere, values: np.ndarray, sign: float, scale: ScalarMappable
) -> None:
    """Draw the faces of one hemisphere, seen along ±e3, coloured by `values`."""
    _draw_sphere_outline(ax)
    corners = mesh.vertices[mesh.faces]
    seen = sign * corners.sum(axis=1)[:, 2] > 0
    flat = corners[seen][..., :2] * (sign, 1.0)  # from behind, left and right change places
    ax.add_collection(
        PolyCollection(flat, facecolors=scale.to_rgba(values[seen]), edgecolors="face", lw=0.2)
    )


def _draw_energy_distribution(
    ax: Axes, time: np.ndarray, energies: np.ndarray, dataset: xr.Dataset
) -> None:
    """Draw percentiles and mean of the kinetic energies of molecules over time."""
    low, lower, middle, upper, high = np.percentile(energies, PERCENTILES, axis=1)
    color = VARIATIONAL["color"]
    ax.fill_between(time, low, high, color=color, alpha=0.15, lw=0, label="5 – 95 %")
    ax.fill_between(time, lower, upper, color=color, alpha=0.3, lw=0, label="25 – 75 %")
    ax.plot(time, middle, color=color, lw=1.4, label="median")
    ax.plot(time, energies.mean(axis=1), color="black", lw=1.0, ls="--", label="mean")
    ax.set(
        xlabel=axis_label_with_units(dataset["time"], "time t"),
        ylabel="kinetic energy of a molecule",
    )
    ax.set(xlim=(0.0, time[-1]), ylim=(0.0, None))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, ncols=4, loc="upper right")


LEE = {
    "figure-3.1": _figure_drawer_against_rk45(1, "unit-data"),
    "figure-3.2": draw_errors_by_step_size,
    "figure-3.3": draw_spring_example_by_methods,
    "figure-3.4": _figure_drawer_against_rk45(4, "inertia", inertia="printed"),
    "figure-3.5": _figure_drawer_against_rk45(5, "as-run"),
    "figure-3.6": draw_molecule_trajectories,
    "figure-3.7": draw_molecule_kinetic_energy,
}
