"""Stored states on the sphere: phase portraits, Poincaré sections, chains of spins."""

import re
from dataclasses import dataclass, replace

import numpy as np
from matplotlib import rc_context
from matplotlib.lines import Line2D

from integrators.errors import InputError
from sweep.analysis.runs.selection import (
    axis_values_in_words,
    distinct_values_and_codes,
    groups_of_runs,
    run_table_without_repeats,
    scanned_axes,
    take_runs,
)
from sweep.plots.captions import Shown
from sweep.plots.projection import (
    MOST_VECTOR_POINTS,
    OBLIQUE,
    RIM,
    View,
    draw_paths_on_sphere,
    draw_points_on_sphere,
    draw_sphere_outline,
    marker_size_of_points,
)
from sweep.plots.selection import runs_to_draw
from sweep.plots.style import (
    LINE,
    MORE_COLOURS,
    MOST_PANELS,
    STYLE,
    add_figure_caption,
    axis_label_with_units,
    figure_width,
    is_compact_figure,
    new_figure,
    note_numbers,
    units_with_superscripts,
)

MOST_BODIES = 4  # whose paths are drawn; of more, the states at some times
MOST_STARTS = 200
MOST_POINTS = 300_000  # of a panel
DENSE = 0.2  # radians between samples, at most of 19 in 20, that a line may join
NEIGHBOURS = 0.4  # radians between the bodies of a chain
TIMES = 6
TITLE_PAD = 9.0  # points above a disc, where the name of an axis may be
UNIT = 1e-3  # of a length that cannot be told from 1 in a picture
DIRECTION = re.compile(r"[qw](\d+)$")  # rows that are directions: q of a body, w of a spin
WORDS = {"q": "body", "w": "spin"}
MANY = {"body": "bodies", "spin": "spins"}


@dataclass(frozen=True, eq=False)
class Panel:
    """What one panel shows.

    Parameters
    ----------
    title : str
    times : ndarray, shape (times,)
    directions : ndarray, shape (starts, times, bodies, 3)
        Unit vectors; NaN where there are none.
    starts : ndarray of int, shape (starts,)
        The place of each start in the study.
    runs : ndarray of int, shape (starts,)
        The place of each run in the run table.
    unit : bool
        Whether the states themselves have unit length.
    """

    title: str
    times: np.ndarray
    directions: np.ndarray
    starts: np.ndarray
    runs: np.ndarray
    unit: bool

    @property
    def starts_with_directions(self):
        """How many starts have a direction at any time."""
        return int(np.isfinite(self.directions[..., 0]).any(axis=(1, 2)).sum())


@dataclass(frozen=True, eq=False)
class Picture:
    """What a picture shows.

    Parameters
    ----------
    panels : list of Panel
    shown : sweep.plots.captions.Shown
    said : list of str
        What holds for all panels, in words.
    time : xarray.DataArray
        Its units.
    starts, bodies : list of str
        What they are called.
    of_several : bool
        Whether the system has more than one body.
    """

    panels: list
    shown: Shown
    said: list
    time: object
    starts: list
    bodies: list
    of_several: bool

    @property
    def colours_are_bodies(self):
        """Whether a colour is a body; otherwise it is a start."""
        return all(len(panel.starts) == 1 for panel in self.panels)

    def path_colours(self, panel):
        """Which colour each path of a panel has, an int of shape (starts, bodies)."""
        shape = (len(panel.starts), len(self.bodies))
        place = np.arange(shape[1]) if self.colours_are_bodies else panel.starts[:, None]
        return np.broadcast_to(place % len(MORE_COLOURS), shape)

    def add_colour_legend(self, figure, labels):
        """Name each colour, where there is one for each of `labels`."""
        if 1 < len(labels) <= len(MORE_COLOURS):
            handles = [Line2D([], [], color=color, lw=2.0) for color in MORE_COLOURS[: len(labels)]]
            place = {"loc": "outside right center"}
            if is_compact_figure():
                columns = 2 if max(map(len, labels)) < 24 else 1
                figure.set_figheight(figure.get_figheight() + LINE * (-(-len(labels) // columns)))
                place = {"loc": "outside lower left", "ncols": columns}
            figure.legend(handles, labels, frameon=False, **place)

    def add_sphere_caption(self, figure, *said):
        """What it shows, above it."""
        figure.shown = self.shown
        add_figure_caption(figure, ", ".join([*self.said, *said]))


def sphere(dataset, step_size=None, bodies=None, view=OBLIQUE):
    """The states of an experiment on the unit sphere, which is seen from both sides.

    Of up to four bodies the paths: lines where samples are close, points where they are not, as
    in a Poincaré section. Of more the bodies at six times, joined where neighbours are close. A
    colour is a start, or, where there is only one, a body. q of a mechanical system, w of a spin
    system, in its direction if its length is not 1.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment that records ``state``, or a selection of its runs.
    step_size : float, optional
        As in `energy_over_time`.
    bodies : sequence of int, optional
        Those whose paths are drawn, counted from 0.
    view : sequence of float, optional
        The direction to look from.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        When no state is recorded or it has no directions, there is no such body, or the selection
        would fill more than six panels.
    """
    view = View.along_direction(view)
    dataset = run_table_without_repeats(dataset)
    rows, names = direction_rows_of_bodies(dataset, bodies)
    many = bodies is None and len(rows) > MOST_BODIES
    picture = prepare_sphere_picture(dataset, rows, names, step_size, TIMES if many else None)
    with rc_context(STYLE):
        return _draw_sphere_snapshots(picture, view) if many else _draw_path_panels(picture, view)


def direction_rows_of_bodies(dataset, bodies):
    """The rows of the state that are directions of the chosen bodies, and their labels."""
    if "state" not in dataset:
        raise InputError(
            "no states are stored, which a picture on the sphere shows: run a study with 'state' "
            "in `record`, into a store of its own.",
            key="record",
        )
    found = _direction_row_by_body(dataset)
    if not found:
        rows = ", ".join(map(str, dataset["row"].values[:6]))
        raise InputError(
            f"the state has the rows {rows}; a picture on the sphere needs q of a body or w of a "
            "spin."
        )
    for body in () if bodies is None else bodies:
        if body not in found:
            raise InputError(
                f"there is no body {body!r}: there are {len(found)}, counted from 0.", key="body"
            )
    chosen = sorted(found) if bodies is None else list(dict.fromkeys(bodies))
    rows = [found[body] for body in chosen]
    labels = [str(dataset["row"].values[row]) for row in rows]
    return rows, [f"{WORDS[label[0]]} {label[1:]}" for label in labels]


def _direction_row_by_body(dataset):
    """The row of each body's direction, by its number."""
    rows = enumerate(map(str, dataset["row"].values))
    return {int(found[1]): row for row, label in rows if (found := DIRECTION.match(label))}


def prepare_sphere_picture(dataset, rows, names, step_size, count):
    """A `Panel` for each integrator and scanned value, and what holds for all of them.

    With `count` so many of the samples, from the first to the last.
    """
    runs, words = runs_to_draw(dataset, step_size)
    shown = dataset[["state"]].isel(run=runs)
    starts, place = distinct_values_and_codes(shown["initial_condition"].values)
    cells = list(groups_of_runs(shown, [*scanned_axes(shown), "integrator"]))
    if len(cells) > MOST_PANELS:
        raise InputError(
            f"{len(cells)} combinations of integrators and scanned values are selected, and a "
            f"figure holds {MOST_PANELS}: select some, e.g. those with "
            f"{axis_values_in_words(cells[0][0])}."
        )
    panels, methods = [], []
    for key, members in cells:
        integrator = key.pop("integrator")
        methods.append(f"{integrator}, {words[axis_values_in_words(key), integrator]}")
        panel = _prepare_sphere_panel(axis_values_in_words(key), shown, members, rows, count, place)
        panels.append(replace(panel, runs=runs[panel.runs]))
    said = []
    if len(set(methods)) == 1:
        said.append(methods[0])
    else:
        panels = [
            replace(panel, title=", ".join(filter(None, [panel.title, method])))
            for panel, method in zip(panels, methods, strict=True)
        ]
    of_state = Shown.of_run_table(dataset, [panel.starts_with_directions for panel in panels])
    if of_state.of > 1:
        said.append(of_state.starts_in_words)
    if not all(panel.unit for panel in panels):
        said.append("directions only")
    several = len(_direction_row_by_body(dataset)) > 1
    return Picture(panels, of_state, said, dataset["time"], list(starts), names, several)


def _prepare_sphere_panel(title, shown, members, rows, count, place):
    """The directions of some runs, as many as can be drawn."""
    few = min(len(members), MOST_STARTS)
    members = members[_evenly_spaced_places(len(members), few)]
    samples = shown.sizes["time"]
    if count is None:
        times = np.arange(max(1, min(samples, MOST_POINTS // (few * len(rows)))))
    else:
        times = _evenly_spaced_places(samples, min(samples, count))
    state = take_runs(shown, members)["state"].isel(time=times, row=rows).values
    length = np.linalg.norm(state, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # 0 has no direction
        directions = state / length
    unit = not np.any(np.abs(length - 1.0) > UNIT)
    return Panel(title, shown["time"].values[times], directions, place[members], members, unit)


def _evenly_spaced_places(size, count):
    """`count` of the places up to `size`, the first and the last among them."""
    return np.linspace(0, size - 1, count).round().astype(int)


# --- paths ---------------------------------------------------------------------------------------


def _draw_path_panels(picture, view):
    panels = picture.panels
    columns = 1 if len(panels) <= 2 or is_compact_figure() else 2
    rows = -(-len(panels) // columns)
    width = figure_width(0.4 + 6.6 * columns)
    figure = new_figure(width, 0.3 + 0.52 * width / columns * rows)
    axes = figure.subplots(rows, 2 * columns, squeeze=False).reshape(-1, 2)
    lines = all(is_dense_enough_for_lines(panel.directions) for panel in panels)
    for panel, pair in zip(panels, axes, strict=False):
        for ax, side in zip(pair, (view, view.view_from_behind), strict=True):
            draw_sphere_outline(ax, side)
            draw_sphere_panel(ax, side, panel, picture.path_colours(panel), lines)
        pair[0].set_title(panel.title, loc="left", pad=TITLE_PAD)
        _note_directions(pair[0], picture, panel, "line" if lines else "point")
    for ax in axes[len(panels) :].flat:
        ax.remove()
    # Of several bodies it says which; one that is alone needs no name.
    said = [", ".join(picture.bodies)] if picture.of_several else []
    samples = max(len(panel.times) for panel in panels)
    last = max(panel.times[-1] for panel in panels)
    until = axis_label_with_units(picture.time, f"t = {last:g}", "{} {}")
    picture.add_sphere_caption(figure, *said, f"{samples} samples until {until}")
    picture.add_colour_legend(
        figure, picture.bodies if picture.colours_are_bodies else picture.starts
    )
    return figure


def _note_directions(ax, picture, panel, mark):
    """The numbers of a panel: each direction that it shows, on either side of the sphere."""
    units = units_with_superscripts(picture.time.attrs.get("units", "1"))
    of_time = {"x_quantity": "time t", "x_unit": units}
    for start, paths in zip(panel.starts, panel.directions, strict=True):
        for body, path in zip(picture.bodies, paths.swapaxes(0, 1), strict=True):
            series = f"{picture.starts[start]}, {body}"
            directions = dict(zip(("e1", "e2", "e3"), path.T, strict=True))
            note_numbers(ax, series, mark, panel.times, np.nan, **of_time, **directions)


def is_dense_enough_for_lines(directions):
    """Whether consecutive samples are so close that a line may join them.

    Parameters
    ----------
    directions : ndarray, shape (starts, times, bodies, 3)
    """
    chords = np.linalg.norm(np.diff(directions, axis=1), axis=-1)
    chords = chords[np.isfinite(chords)]
    return len(chords) > 0 and bool(np.quantile(chords, 0.95) <= DENSE)


def draw_sphere_panel(ax, view, panel, colours, lines, cmap=MORE_COLOURS):
    """The paths of a panel on a disc, as lines or as points.

    Parameters
    ----------
    colours : ndarray of int, shape (starts, bodies)
        Into `cmap`, a sequence of colours.
    """
    paths = panel.directions.swapaxes(1, 2)  # (starts, bodies, times, 3)
    count = np.isfinite(paths[..., 0]).sum() / 2  # a half on each side
    many = bool(count > MOST_VECTOR_POINTS)
    for i in np.unique(colours):
        own, style = paths[colours == i], {"color": cmap[i]}
        if lines:
            draw_paths_on_sphere(ax, view, own, lw=0.7, **style)
        else:
            draw_points_on_sphere(
                ax, view, own, marker_size_of_points(count), rasterized=many, **style
            )


# --- many bodies ---------------------------------------------------------------------------------


def _draw_sphere_snapshots(picture, view):
    panels = picture.panels
    count = len(panels[0].times)
    across = min(3, count) if is_compact_figure() else count
    down = -(-count // across)  # rows of discs of a panel
    width = figure_width(0.4 + 2.0 * across)
    high = 0.3 + (width - 0.2) / across
    figure = new_figure(width, 0.3 + high * down * len(panels))
    grid = figure.subplots(down * len(panels), across, squeeze=False)
    for panel, axes in zip(panels, grid.reshape(len(panels), -1), strict=True):
        for k, ax in enumerate(axes):
            if k >= count:
                ax.remove()
                continue
            draw_bodies_on_disc(ax, view, panel, k)
            now = axis_label_with_units(picture.time, f"t = {panel.times[k]:g}", "{} {}")
            ax.set_title(now, pad=TITLE_PAD)
            if view.towards[2] >= 0.0:
                ax.set_ylim(-1.05, RIM)  # no axis points down
        _note_directions(axes[0], picture, panel, "body")
        if panel.title:
            axes[0].text(-1.4, 0.0, panel.title, rotation=90, va="center", ha="right")
    many = MANY[picture.bodies[0].split()[0]]
    picture.add_sphere_caption(figure, f"{len(picture.bodies)} {many}, far side pale")
    picture.add_colour_legend(figure, picture.starts)
    return figure


def draw_bodies_on_disc(ax, view, panel, sample):
    """The bodies of a panel at a sample, on one disc: the far side of the sphere is pale."""
    draw_sphere_outline(ax, view)
    for start, place in enumerate(panel.starts):
        first, now = panel.directions[start, 0], panel.directions[start, sample]
        there = np.isfinite(first[:, 0])
        chain = body_chain_to_draw(first[there])
        bodies = now[there][[*range(there.sum()), 0] if chain == "closed" else slice(None)]
        for side, style in ((view.view_of_far_side, {"alpha": 0.35}), (view, {})):
            style = style | {"color": MORE_COLOURS[place % len(MORE_COLOURS)]}
            if chain:
                draw_paths_on_sphere(ax, side, bodies[None], lw=1.1, **style)
            else:
                draw_points_on_sphere(ax, side, bodies, marker_size_of_points(len(bodies)), **style)


def body_chain_to_draw(directions):
    """Whether bodies follow one another closely: ``"closed"``, ``"open"``, or ``""`` if not.

    Closed are those whose last is as close to the first as others are to the next, all the way
    around something.

    Parameters
    ----------
    directions : ndarray, shape (bodies, 3)
    """
    chords = np.linalg.norm(directions - np.roll(directions, -1, axis=0), axis=-1)
    if not np.all(chords[:-1] <= NEIGHBOURS):
        return ""
    around = chords.sum() > 1.0 and chords[-1] <= 1.5 * chords[:-1].max()
    return "closed" if around else "open"
