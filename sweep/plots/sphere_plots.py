"""Pictures of states on the sphere: phase portraits, Poincaré sections, chains of spins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context

from integrators.errors import InputError
from sweep.analysis.runs.selection import (
    distinct_values_and_codes,
    run_table_without_repeats,
    take_runs,
)
from sweep.plots import projection, style
from sweep.plots.drawn_runs import curves_to_draw

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray


MOST_BODIES = 4  # maximum number of bodies whose paths are drawn; else states at some times
MOST_STARTS = 200
MOST_POINTS = 300_000  # maximum number of points in a panel
DENSE = 0.2  # samples are joined by lines if 95 % of the chords between them are at most this long
NEIGHBOURS = 0.4  # largest chord between neighbours in a chain
TIMES = 6  # number of times at which many bodies are drawn
TITLE_PAD = 9.0  # points between a disc, with the names of its axes, and its title
UNIT = 1e-3  # largest deviation of a length from 1 that is invisible in a picture
DIRECTION = re.compile(r"[qw](\d+)$")  # rows of the state: q of a body, w of a spin
WORDS = {"q": "body", "w": "spin"}
MANY = {"body": "bodies", "spin": "spins"}


@dataclass(frozen=True, eq=False)
class Panel:
    """Directions that a panel shows.

    Parameters
    ----------
    title : str
    times : ndarray, shape (times,)
    directions : ndarray, shape (starts, times, bodies, 3)
        Unit vectors; NaN where a run has no state.
    unit : bool
        Whether the states themselves have unit length.
    starts : ndarray of int, shape (starts,)
        Position of each start in the study.
    runs : ndarray of int, shape (starts,)
        Position of each run in the run table.
    """

    title: str
    times: NDArray[np.float64]
    directions: NDArray[np.float64]
    unit: bool
    starts: NDArray[np.integer]
    runs: NDArray[np.integer]

    @property
    def starts_with_directions(self) -> int:
        """Number of starts with a direction at any time."""
        return int(np.isfinite(self.directions[..., 0]).any(axis=(1, 2)).sum())


@dataclass(frozen=True, eq=False)
class Picture:
    """Panels of a picture, and the data that they share.

    Parameters
    ----------
    panels : list of Panel
    coverage : str
        How many starts the panels show.
    common : list of str
        Parts of the caption that apply to all panels.
    time : xarray.DataArray
        Sample times, with units.
    starts, bodies : list of str
        Labels.
    of_several : bool
        Whether the system has more than one body.
    """

    panels: list[Panel]
    coverage: str
    common: list[str]
    time: xr.DataArray
    starts: list[str]
    bodies: list[str]
    of_several: bool

    @property
    def colours_are_bodies(self) -> bool:
        """Whether colours distinguish bodies rather than starts."""
        return all(len(panel.starts) == 1 for panel in self.panels)

    def path_colours(self, panel: Panel) -> NDArray[np.intp]:
        """The colour of each path of a panel, as an index of `MORE_COLOURS`.

        Returns
        -------
        ndarray of int, shape (starts, bodies)
        """
        shape = (len(panel.starts), len(self.bodies))
        place = np.arange(shape[1]) if self.colours_are_bodies else panel.starts[:, None]
        return np.broadcast_to(place % len(style.MORE_COLOURS), shape)

    def finish(
        self, figure: style.Drawing, axes: Sequence[Axes], starts: bool, *words: str
    ) -> style.Drawing:
        """Add the caption, and a legend if each start or each body has its own colour."""
        figure.starts = self.coverage
        figure.add_caption(", ".join([*self.common, *words]))
        labels = self.starts if starts else self.bodies
        if 1 < len(labels) <= len(style.MORE_COLOURS):
            for label, colour in zip(labels, style.MORE_COLOURS, strict=False):
                axes[0].plot([], [], color=colour, lw=2.0, label=label)
            figure.add_legend(axes[:1])
        return figure


@rc_context(style.STYLE)
def sphere(
    dataset: xr.Dataset | xr.DataTree,
    step_size: float | None = None,
    bodies: Sequence[int] | None = None,
    view: ArrayLike = projection.OBLIQUE,
) -> style.Drawing:
    """Draw the states of an experiment on the unit sphere, seen from both sides.

    For up to four bodies, the picture shows their paths: as lines if samples are close to each
    other, and otherwise as points, as in a Poincaré section. For more bodies, it shows them at six
    times, joined by lines if neighbours are close. Colours distinguish starts, or bodies if there
    is only one start. The directions are q of a mechanical system and w of a spin system,
    normalized.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment that records ``state``, or a selection of its runs.
    step_size : float, optional
        See `energy_over_time`.
    bodies : sequence of int, optional
        Bodies whose paths are drawn, counted from 0.
    view : array_like, shape (3,), optional
        The direction from the sphere to the viewer.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        If no state is recorded, the state has no directions, a body does not exist, or the
        selection needs more than six panels.
    """
    seen_from = projection.View.along_direction(view)
    table: xr.Dataset = run_table_without_repeats(dataset)
    rows, names = direction_rows_of_bodies(table, bodies)
    many = bodies is None and len(rows) > MOST_BODIES
    picture = prepare_sphere_picture(table, rows, names, step_size, TIMES if many else None)
    return (_draw_sphere_snapshots if many else _draw_path_panels)(picture, seen_from)


def direction_rows_of_bodies(
    dataset: xr.Dataset, bodies: Sequence[int] | None
) -> tuple[list[int], list[str]]:
    """Rows of the state with the directions of bodies, and labels of these bodies.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table.
    bodies : sequence of int or None
        Bodies, counted from 0; None for all.

    Returns
    -------
    rows : list of int
    names : list of str

    Raises
    ------
    InputError
        If no state is recorded, the state has no directions, or a body does not exist.
    """
    if "state" not in dataset:
        raise InputError(
            "no states are stored, which a picture on the sphere shows: run a study with 'state' "
            "in `record`, into a store of its own.",
            key="record",
        )
    found = _direction_row_by_body(dataset)
    if not found:
        labels = ", ".join(map(str, dataset["row"].values[:6]))
        raise InputError(
            f"the state has the rows {labels}; a picture on the sphere needs q of a body or w of a "
            "spin."
        )
    for body in () if bodies is None else bodies:
        if body not in found:
            raise InputError(
                f"there is no body {body!r}: there are {len(found)}, counted from 0.", key="body"
            )
    chosen = sorted(found) if bodies is None else list(dict.fromkeys(bodies))
    rows = [found[body] for body in chosen]
    names = [str(dataset["row"].values[row]) for row in rows]
    return rows, [f"{WORDS[name[0]]} {name[1:]}" for name in names]


def _direction_row_by_body(dataset: xr.Dataset) -> dict[int, int]:
    """By number of the body, the row of the state with its direction."""
    rows = enumerate(map(str, dataset["row"].values))
    return {int(found[1]): row for row, label in rows if (found := DIRECTION.match(label))}


def prepare_sphere_picture(
    dataset: xr.Dataset,
    rows: Sequence[int],
    names: list[str],
    step_size: float | None,
    count: int | None,
) -> Picture:
    """Read a `Panel` for each integrator and combination of scanned values.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table.
    rows : sequence of int
        Rows of the state.
    names : list of str
        Labels of their bodies.
    step_size : float or None
        See `curves_to_draw`.
    count : int or None
        Number of samples to read, evenly chosen; None for as many as can be drawn.

    Returns
    -------
    Picture

    Raises
    ------
    InputError
        If there are more than six panels.
    """
    curves = curves_to_draw(dataset, step_size)
    if len(curves) > style.MOST_PANELS:
        raise InputError(
            f"{len(curves)} combinations of integrators and scanned values are selected, and a "
            f"figure holds {style.MOST_PANELS}: select some, e.g. those with "
            f"{', '.join(filter(None, [curves[0].values, curves[0].integrator]))}."
        )
    drawn = np.concatenate([curve.runs for curve in curves])
    labels = dataset["initial_condition"].values
    starts = list(distinct_values_and_codes(labels[np.sort(drawn)])[0])
    methods = [f"{curve.integrator}, {curve.step}" for curve in curves]
    common = [methods[0]] if len(set(methods)) == 1 else []
    panels = []
    for curve, method in zip(curves, methods, strict=True):
        some = _evenly_spaced_places(len(curve.runs), min(len(curve.runs), MOST_STARTS))
        runs = curve.runs[some]
        title = ", ".join(filter(None, [curve.values, "" if common else method]))
        place = np.array([starts.index(label) for label in labels[runs]])
        panels.append(Panel(title, *_read_directions(dataset, runs, rows, count), place, runs))
    coverage = style.starts_in_words(dataset, [panel.starts_with_directions for panel in panels])
    if coverage != "one start":
        common.append(coverage)
    if not all(panel.unit for panel in panels):
        common.append("directions only")
    several = len(_direction_row_by_body(dataset)) > 1
    return Picture(panels, coverage, common, dataset["time"], starts, names, several)


def _read_directions(
    dataset: xr.Dataset, runs: NDArray[np.integer], rows: Sequence[int], count: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Read the states of some runs, and normalize them.

    Parameters
    ----------
    dataset : xarray.Dataset
    runs : ndarray of int, shape (starts,)
    rows : sequence of int
    count : int or None
        See `prepare_sphere_picture`.

    Returns
    -------
    times : ndarray, shape (times,)
    directions : ndarray, shape (starts, times, bodies, 3)
    unit : bool
        Whether all lengths are 1.
    """
    samples = dataset.sizes["time"]
    if count is None:
        times = np.arange(max(1, min(samples, MOST_POINTS // (len(runs) * len(rows)))))
    else:
        times = _evenly_spaced_places(samples, min(samples, count))
    state = take_runs(dataset, runs)["state"].isel(time=times, row=rows).values
    length = np.linalg.norm(state, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # the zero vector has no direction
        directions = state / length
    unit = not np.any(np.abs(length - 1.0) > UNIT)
    return dataset["time"].values[times], directions, unit


def _evenly_spaced_places(size: int, count: int) -> NDArray[np.intp]:
    """`count` evenly spaced positions in a sequence of length `size`, with both ends."""
    return np.linspace(0, size - 1, count).round().astype(np.intp)


# --- paths ---------------------------------------------------------------------------------------


def _draw_path_panels(picture: Picture, view: projection.View) -> style.Drawing:
    panels = picture.panels
    columns = 1 if len(panels) <= 2 or style.current_page().narrow else 2
    rows = -(-len(panels) // columns)
    width = style.figure_width(0.4 + 6.6 * columns)
    figure = style.new_figure(width, 0.1 + 0.52 * width / columns * rows)
    figure.columns = 2 * columns
    axes = figure.subplots(rows, 2 * columns, squeeze=False).reshape(-1, 2)
    lines = all(is_dense_enough_for_lines(panel.directions) for panel in panels)
    for panel, pair in zip(panels, axes, strict=False):
        for ax, side in zip(pair, (view, view.view_from_behind), strict=True):
            projection.draw_sphere_outline(ax, side)
            draw_sphere_panel(ax, side, panel, picture.path_colours(panel), lines)
        pair[0].set_title(panel.title, loc="left", pad=TITLE_PAD)
        _note_directions(pair[0], picture, panel, "line" if lines else "point")
    for ax in axes[len(panels) :].flat:
        ax.remove()
    # A single body needs no name.
    bodies = [", ".join(picture.bodies)] if picture.of_several else []
    samples = max(len(panel.times) for panel in panels)
    last = max(panel.times[-1] for panel in panels)
    until = style.axis_label_with_units(picture.time, f"t = {last:g}", "{} {}")
    said = *bodies, f"{samples} samples until {until}"
    return picture.finish(figure, axes[0], not picture.colours_are_bodies, *said)


def _note_directions(ax: Axes, picture: Picture, panel: Panel, mark: str) -> None:
    """Add all directions of a panel, on both sides of the sphere, to the numbers of the picture."""
    units = style.units_with_superscripts(picture.time.attrs.get("units", "1"))
    of_time = {"x_quantity": "time t", "x_unit": units}
    for start, paths in zip(panel.starts, panel.directions, strict=True):
        for body, path in zip(picture.bodies, paths.swapaxes(0, 1), strict=True):
            series = f"{picture.starts[start]}, {body}"
            directions = dict(zip(("e1", "e2", "e3"), path.T, strict=True))
            style.note_numbers(ax, series, mark, panel.times, np.nan, **of_time, **directions)


def is_dense_enough_for_lines(directions: NDArray[np.float64]) -> bool:
    """Whether consecutive samples are close enough to be joined by lines.

    Parameters
    ----------
    directions : ndarray, shape (starts, times, bodies, 3)
    """
    chords = np.linalg.norm(np.diff(directions, axis=1), axis=-1)
    chords = chords[np.isfinite(chords)]
    return len(chords) > 0 and bool(np.quantile(chords, 0.95) <= DENSE)


def draw_sphere_panel(
    ax: Axes,
    view: projection.View,
    panel: Panel,
    colours: NDArray[np.intp],
    lines: bool,
) -> None:
    """Draw the paths of a panel on a disc, as lines or as points.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    view : View
    panel : Panel
    colours : ndarray of int, shape (starts, bodies)
        Indices of `MORE_COLOURS`.
    lines : bool
        Whether to join samples by lines.
    """
    paths = panel.directions.swapaxes(1, 2)  # (starts, bodies, times, 3)
    count = np.isfinite(paths[..., 0]).sum() / 2  # about one half on each side
    many = bool(count > projection.MOST_VECTOR_POINTS)
    for i in np.unique(colours):
        own, colour = paths[colours == i], style.MORE_COLOURS[i]
        if lines:
            projection.draw_paths_on_sphere(ax, view, own, lw=0.7, color=colour)
        else:
            size = projection.marker_size_of_points(count)
            projection.draw_points_on_sphere(ax, view, own, size, rasterized=many, color=colour)


# --- many bodies ---------------------------------------------------------------------------------


def _draw_sphere_snapshots(picture: Picture, view: projection.View) -> style.Drawing:
    panels = picture.panels
    count = len(panels[0].times)
    across = min(3, count) if style.current_page().narrow else count
    down = -(-count // across)  # rows of discs in a panel
    width = style.figure_width(0.4 + 2.0 * across)
    figure = style.new_figure(width, (0.3 + (width - 0.2) / across) * down * len(panels))
    grid = figure.subplots(down * len(panels), across, squeeze=False)
    for panel, axes in zip(panels, grid.reshape(len(panels), -1), strict=True):
        for k, ax in enumerate(axes[:count]):
            draw_bodies_on_disc(ax, view, panel, k)
            now = style.axis_label_with_units(picture.time, f"t = {panel.times[k]:g}", "{} {}")
            ax.set_title(now, pad=TITLE_PAD)
            if view.towards[2] >= 0.0:
                ax.set_ylim(-1.05, projection.RIM)  # no axis points down
        for ax in axes[count:]:
            ax.remove()
        _note_directions(axes[0], picture, panel, "body")
        if panel.title:
            axes[0].text(-1.4, 0.0, panel.title, rotation=90, va="center", ha="right")
    many = MANY[picture.bodies[0].split()[0]]
    said = f"{len(picture.bodies)} {many}, far side pale"
    return picture.finish(figure, grid[0], True, said)


def draw_bodies_on_disc(ax: Axes, view: projection.View, panel: Panel, sample: int) -> None:
    """Draw the bodies of a panel at a sample on one disc; bodies on the far side are pale."""
    projection.draw_sphere_outline(ax, view)
    for start, place in enumerate(panel.starts):
        first, now = panel.directions[start, 0], panel.directions[start, sample]
        known = np.isfinite(first[:, 0])
        chain = body_chain_to_draw(first[known])
        bodies = now[known][[*range(known.sum()), 0] if chain == "closed" else slice(None)]
        near: style.CurveStyle = {"color": style.MORE_COLOURS[place % len(style.MORE_COLOURS)]}
        for side, look in ((view.view_of_far_side, near | {"alpha": 0.35}), (view, near)):
            if chain:
                projection.draw_paths_on_sphere(ax, side, bodies[None], lw=1.1, **look)
            else:
                projection.draw_points_on_sphere(
                    ax, side, bodies, projection.marker_size_of_points(len(bodies)), **look
                )


def body_chain_to_draw(directions: NDArray[np.float64]) -> str:
    """Whether bodies form a chain of close neighbours, and whether the chain is closed.

    A chain is closed if its last body is as close to the first one as other neighbours are, and if
    the chain winds around a direction.

    Parameters
    ----------
    directions : ndarray, shape (bodies, 3)

    Returns
    -------
    {"closed", "open", ""}
    """
    chords = np.linalg.norm(directions - np.roll(directions, -1, axis=0), axis=-1)
    if not np.all(chords[:-1] <= NEIGHBOURS):
        return ""
    around = chords.sum() > 1.0 and chords[-1] <= 1.5 * chords[:-1].max()
    return "closed" if around else "open"
