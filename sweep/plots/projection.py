"""Orthographic pictures of the unit sphere: one half of it on a disc, seen from a direction."""

from dataclasses import dataclass

import numpy as np
from matplotlib.patheffects import withStroke

from integrators.errors import InputError
from sweep.plots.style import GREY

OBLIQUE = (0.6, 0.7, 0.38)  # all three axes show, and none of them is near the rim
AXES = ("e₁", "e₂", "e₃")
STUB = 1.12  # where an axis that comes out of the sphere ends
NEAR_RIM = 0.7  # of the disc's radius, beyond which an axis goes on to outside of the rim
MOST_VECTOR_POINTS = 5000  # of a PDF or SVG; more are written as a picture
RIM = 1.24  # half the width of a disc's axes


@dataclass(frozen=True, eq=False)
class View:
    """A direction to look from, and what is right and up there.

    Parameters
    ----------
    towards, right, up : ndarray, shape (3,)
        Orthonormal; `towards` points at the viewer.
    """

    towards: np.ndarray
    right: np.ndarray
    up: np.ndarray

    @classmethod
    def along_direction(cls, direction=OBLIQUE):
        """The view from a direction, with e3 up, or e2 where one looks along e3.

        Raises
        ------
        InputError
            If it is no vector of three finite numbers, or zero.
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
    def view_from_behind(self):
        """The view from behind, with the same side up."""
        return View(-self.towards, -self.right, self.up)

    @property
    def view_of_far_side(self):
        """The same view through the sphere, of the half that it hides."""
        return View(-self.towards, self.right, self.up)

    def project_onto_disc(self, points):
        """Points on the disc, NaN where they are on the other side of the sphere.

        Parameters
        ----------
        points : ndarray, shape (…, 3)
            Unit vectors; NaN stays NaN.

        Returns
        -------
        ndarray, shape (…, 2)
        """
        flat = points @ np.stack([self.right, self.up], axis=1)
        flat[~(points @ self.towards >= 0.0)] = np.nan
        return flat


def draw_sphere_outline(ax, view):
    """An empty disc: the rim, the great circles of the coordinate planes, and the axes."""
    angle = np.linspace(0.0, 2.0 * np.pi, 361)
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=1)
    ax.plot(*circle[:, :2].T, color=GREY, lw=0.6, gid="rim")
    for axis in range(3):
        ax.plot(
            *view.project_onto_disc(np.roll(circle, axis, axis=1)).T, color="0.85", lw=0.6, zorder=0
        )
        sign = 1.0 if view.towards[axis] >= 0.0 else -1.0
        _draw_axis_towards_viewer(ax, view, axis, sign)
    ax.set(xlim=(-RIM, RIM), ylim=(-RIM, RIM), aspect="equal")
    ax.set_axis_off()


def _draw_axis_towards_viewer(ax, view, axis, sign):
    """The end of an axis that comes towards the viewer, with its name."""
    pole = sign * np.eye(3)[axis]
    flat = np.array([pole @ view.right, pole @ view.up])
    length = np.linalg.norm(flat)
    end = STUB / length if length > NEAR_RIM else STUB
    ax.plot(*np.outer(flat, (1.0, end)), color="0.2", lw=1.0, zorder=4)
    outwards = flat / max(length, 1e-6)
    ax.annotate(
        ("−" if sign < 0 else "") + AXES[axis],
        end * flat,
        xytext=7.0 * outwards if np.any(outwards) else (6.0, 6.0),
        textcoords="offset points",
        ha="center",
        va="center",
        color="0.2",
        fontsize=8,
        zorder=5,
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )


def draw_paths_on_sphere(ax, view, paths, **style):
    """Curves through points on the sphere, as far as they show.

    Parameters
    ----------
    paths : ndarray, shape (paths, points, 3)
    """
    apart = np.full((len(paths), 1, 2), np.nan)
    joined = np.concatenate([view.project_onto_disc(paths), apart], axis=1).reshape(-1, 2)
    return ax.plot(*joined.T, solid_joinstyle="round", **style)


def draw_points_on_sphere(ax, view, points, size, **style):
    """Points on the sphere, as far as they show; `size` in points of type.

    Of very many a PDF or SVG holds a picture.

    Parameters
    ----------
    points : ndarray, shape (…, 3)
    """
    flat = view.project_onto_disc(points).reshape(-1, 2)
    flat = flat[np.isfinite(flat[:, 0])]
    mark = {"ls": "none", "marker": ".", "ms": 2.0 * size, "mew": 0.0}  # a "." is half as wide
    style = {"rasterized": len(flat) > MOST_VECTOR_POINTS} | style
    return ax.plot(*flat.T, **mark, **style)


def marker_size_of_points(count):
    """Diameter of each of `count` points, in points of type, such that they stay apart."""
    return float(np.clip(110.0 / np.sqrt(max(count, 1)), 0.7, 3.0))
