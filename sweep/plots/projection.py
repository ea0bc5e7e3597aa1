"""Orthographic projection of the visible half of the unit sphere onto a disc."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patheffects import withStroke

from integrators.errors import InputError
from sweep.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from numpy.typing import ArrayLike, NDArray

OBLIQUE = (0.6, 0.7, 0.38)  # default direction: all axes are visible, and none is near the rim
AXES = ("e₁", "e₂", "e₃")
STUB = 1.12  # radii: end of an axis that points out of the sphere
NEAR_RIM = 0.7  # radii: an axis that leaves the sphere further out is drawn beyond the rim
MOST_VECTOR_POINTS = 5000  # more points than this are rasterized in PDF and SVG
RIM = 1.24  # radii: half the width of a panel with a disc


@dataclass(frozen=True, eq=False)
class View:
    """The direction of the viewer, with the directions to the right and up in the picture.

    Parameters
    ----------
    towards, right, up : ndarray, shape (3,)
        Orthonormal; `towards` points at the viewer.
    """

    towards: NDArray[np.float64]
    right: NDArray[np.float64]
    up: NDArray[np.float64]

    @classmethod
    def along_direction(cls, direction: ArrayLike = OBLIQUE) -> View:
        """The view from a direction, with e3 up, or with e2 up if the direction is along e3.

        Parameters
        ----------
        direction : array_like, shape (3,), optional
            Vector from the sphere to the viewer, of any length.

        Raises
        ------
        InputError
            If the direction is zero, or not a vector of three finite numbers.
        """
        towards = np.asarray(direction, dtype=float)
        length = np.linalg.norm(towards) if towards.shape == (3,) else 0.0
        if not 0.0 < length < np.inf:
            raise InputError(
                f"view = {direction!r}; expected a direction x, y, z other than 0, 0, 0", key="view"
            )
        towards = towards / length
        along_e3 = np.hypot(towards[0], towards[1]) < 1e-6
        right = np.cross([0.0, 1.0, 0.0] if along_e3 else [0.0, 0.0, 1.0], towards)
        right /= np.linalg.norm(right)
        return cls(towards, right, np.cross(towards, right))

    @property
    def view_from_behind(self) -> View:
        """The view from the opposite direction, with the same side up."""
        return View(-self.towards, -self.right, self.up)

    @property
    def view_of_far_side(self) -> View:
        """The same view of the far half, through the sphere."""
        return View(-self.towards, self.right, self.up)

    def project_onto_disc(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Project points onto the disc; points on the far half of the sphere become NaN.

        Parameters
        ----------
        points : ndarray, shape (…, 3)
            Unit vectors; NaN remains NaN.

        Returns
        -------
        ndarray, shape (…, 2)
        """
        flat: NDArray[np.float64] = points @ np.stack([self.right, self.up], axis=1)
        flat[~(points @ self.towards >= 0.0)] = np.nan
        return flat


def draw_sphere_outline(ax: Axes, view: View) -> None:
    """Draw an empty disc: rim, great circles of the coordinate planes, and axes."""
    angle = np.linspace(0.0, 2.0 * np.pi, 361)
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=1)
    ax.plot(*circle[:, :2].T, color=style.GREY, lw=0.6, gid="rim")
    for axis in range(3):
        ax.plot(
            *view.project_onto_disc(np.roll(circle, axis, axis=1)).T, color="0.85", lw=0.6, zorder=0
        )
        sign = 1.0 if view.towards[axis] >= 0.0 else -1.0
        _draw_axis_towards_viewer(ax, view, axis, sign)
    ax.set(xlim=(-RIM, RIM), ylim=(-RIM, RIM), aspect="equal")
    ax.set_axis_off()


def _draw_axis_towards_viewer(ax: Axes, view: View, axis: int, sign: float) -> None:
    """Draw the end of an axis that points towards the viewer, with its name."""
    pole = sign * np.eye(3)[axis]
    flat = np.array([pole @ view.right, pole @ view.up])
    length = np.linalg.norm(flat)
    end = STUB / length if length > NEAR_RIM else STUB
    ax.plot(*np.outer(flat, np.array([1.0, end])), color="0.2", lw=1.0, zorder=4)
    outwards = flat / max(length, 1e-6)
    ax.annotate(
        ("−" if sign < 0 else "") + AXES[axis],
        (end * flat[0], end * flat[1]),
        xytext=7.0 * outwards if np.any(outwards) else (6.0, 6.0),
        textcoords="offset points",
        ha="center",
        va="center",
        color="0.2",
        fontsize=8,
        zorder=5,
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )


def draw_paths_on_sphere(
    ax: Axes, view: View, paths: NDArray[np.float64], **look: Any
) -> list[Line2D]:
    """Draw the visible parts of curves through points on the sphere.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    view : View
    paths : ndarray, shape (paths, points, 3)
        Unit vectors.
    **look
        See `matplotlib.axes.Axes.plot`.
    """
    apart = np.full((len(paths), 1, 2), np.nan)
    joined = np.concatenate([view.project_onto_disc(paths), apart], axis=1).reshape(-1, 2)
    return ax.plot(*joined.T, solid_joinstyle="round", **look)


def draw_points_on_sphere(
    ax: Axes, view: View, points: NDArray[np.float64], size: float, **look: Any
) -> list[Line2D]:
    """Draw the visible points of the sphere; many points are rasterized in PDF and SVG.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    view : View
    points : ndarray, shape (…, 3)
        Unit vectors.
    size : float
        Diameter of a mark, in points.
    **look
        See `matplotlib.axes.Axes.plot`.
    """
    flat = view.project_onto_disc(points).reshape(-1, 2)
    flat = flat[np.isfinite(flat[:, 0])]
    # The marker "." is half as wide as its size.
    mark: dict[str, Any] = {"ls": "none", "marker": ".", "ms": 2.0 * size, "mew": 0.0}
    look = {"rasterized": len(flat) > MOST_VECTOR_POINTS} | look
    return ax.plot(*flat.T, **(mark | look))


def marker_size_of_points(count: float) -> float:
    """Diameter, in points, of `count` marks that do not overlap."""
    return float(np.clip(110.0 / np.sqrt(max(count, 1)), 0.7, 3.0))
