"""What all pictures share: colours, fonts, panels, axes, legends, numbers, and files."""

from __future__ import annotations

import functools
import io
import math
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib import rc_context, rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec, SubplotSpec
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

from integrators.errors import InputError
from sweep.analysis.runs.selection import distinct_values_and_codes
from sweep.plots.families import panel_families_of_integrators
from sweep.plots.page_setup import NARROW, current_page
from sweep.text import escape_controls_in_lines

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.typing import RcKeyType
    from numpy.typing import ArrayLike

# Keyword arguments of matplotlib that a curve is drawn with.
CurveStyle = dict[str, Any]

# Okabe and Ito's colours, told apart by colour-blind readers; without yellow, too pale for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
# Two more for what has no markers, as different from the others to colour-blind readers.
MORE_COLOURS = (*COLOURS, "#7F3C00", "#332288")
MARKERS = "osD^vPX<>*hp"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
GREY = "0.55"
# First columns of the numbers behind a picture.
NUMBERS = (
    "panel", "series", "mark", "x_quantity", "x_unit", "x", "y_quantity", "y_unit", "y", "low",
    "high",
)  # fmt: skip
STYLE: dict[RcKeyType, Any] = {
    "font.size": 9.0,
    "legend.fontsize": 8.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "axes.titlesize": 9.0,
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
    "text.parse_math": False,  # labels are the study's, dollars too
}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
OPEN = "open: does not count"  # what an open mark means in every picture
MOST_PANELS = 6  # of spheres, or of different errors
PANEL = 2.6  # inches: the least width of a legible panel
MOST_OF_A_KIND = 12  # panels that share an axis
LINE = 0.18  # inches: height of a line of a legend
BELOW = 0.42  # inches that ticks and label of an axis take
SMALLEST = 6.0  # points: the least size of type in print
MOST_SVG_BYTES = 500_000  # of a figure in a notebook
CHARACTER = 0.55 / 72  # width of a character by its size in points, in inches


def is_compact_figure() -> bool:
    """Whether figures are drawn for a narrow column: panels and legend below one another."""
    return current_page().narrow


def figure_width(usual: float) -> float:
    """Width of a figure in inches: that of the page, or `usual` where the page has none."""
    return current_page().width or (NARROW if is_compact_figure() else usual)


def curve_styles_of_integrators(dataset: xr.Dataset) -> dict[str, CurveStyle]:
    """Colour, marker and line of each integrator by its label, the same in every picture."""
    members: dict[str, list[str]] = {}
    for label, family in panel_families_of_integrators(dataset).items():
        members.setdefault(family, []).append(label)
    return {label: style for of in members.values() for label, style in curve_styles(of).items()}


def curve_styles(labels: Sequence[str]) -> dict[str, CurveStyle]:
    """Colour, marker and line of each curve by its label.

    Later curves are finer, so that where curves coincide the lower one still shows.
    """
    return {
        label: {
            "color": COLOURS[i % len(COLOURS)],
            "marker": MARKERS[i % len(MARKERS)],
            "ls": DASHES[i // len(COLOURS) % len(DASHES)],
            "lw": 1.6 - 0.7 * i / len(labels),
            "ms": 6.0 - 2.0 * i / len(labels),
            "zorder": 2 + i / len(labels),
        }
        for i, label in enumerate(labels)
    }


@dataclass(frozen=True)
class Coverage:
    """How many of the initial conditions a picture draws, and errors of which times.

    Parameters
    ----------
    counts : tuple of int
        Initial conditions that each curve, or each point of it, is drawn from.
    of : int
        Initial conditions of all runs.
    times : tuple of float
        The times of errors that are drawn at one time.
    against_reference : bool
        Whether these are errors against a reference.
    """

    counts: tuple[int, ...]
    of: int
    times: tuple[float, ...] = ()
    against_reference: bool = False

    @classmethod
    def of_run_table(
        cls,
        dataset: xr.Dataset,
        counts: Iterable[int],
        times: tuple[float, ...] = (),
        against_reference: bool = False,
    ) -> Coverage:
        """Coverage of a run table, whose initial conditions it counts."""
        starts, _ = distinct_values_and_codes(dataset["initial_condition"].values)
        return cls(tuple(counts), len(starts), times, against_reference)

    @property
    def starts_in_words(self) -> str:
        """How many starts are drawn, in words: ``8 starts``, ``5 – 7 of 8 starts``."""
        low, high = min(self.counts), max(self.counts)
        if self.of == 1:
            return "one start"
        drawn = f"{low:,}" if low == high else f"{low:,} – {high:,}"
        return f"{drawn} starts" if low == self.of else f"{drawn} of {self.of:,} starts"

    def error_times_in_words(self, time: xr.DataArray) -> str:
        """The times of errors in words, empty where that is the end of the runs.

        Parameters
        ----------
        time : xarray.DataArray
            Sample times of the runs.
        """
        times = sorted({float(one) for one in self.times})
        if not times or times == [float(time.values[-1])]:
            return ""
        when = f"t = {times_in_words(times)}"
        text = "errors against the reference at {}, until which it holds"
        if not self.against_reference:
            text = "errors at {}, until which they are above round-off"
        return text.format(axis_label_with_units(time, when, "{} {}"))


def times_in_words(times: Collection[float]) -> str:
    """One time, or the first and the last: ``2``, ``1.5 – 2``."""
    low, high = min(times), max(times)
    return f"{low:g}" if low == high else f"{low:g} – {high:g}"


class Drawing(Figure):
    """A figure that belongs to no window.

    Attributes
    ----------
    coverage : Coverage or None
        How many initial conditions are drawn, for its heading.
    caption : list of str
        What it shows, in lines, which stand above it unless its page has no heading.
    numbers : list of (matplotlib.axes.Axes, dict)
        The numbers that are drawn, see `note_numbers`.
    """

    coverage: Coverage | None = None

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.caption: list[str] = []
        self.numbers: list[tuple[Axes, dict[str, Any]]] = []
        self._style: dict[RcKeyType, Any] = STYLE | {"font.family": rcParams["font.family"]}

    def savefig(self, *args: Any, **options: Any) -> None:
        """As `matplotlib.figure.Figure.savefig`, with the fonts that it was drawn with."""
        with rc_context(self._style):
            super().savefig(*args, **options)


def new_figure(width: float, height: float) -> Drawing:
    """An empty `Drawing`; width and height in inches."""
    figure = Drawing(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def label_first_of_rows(axes: Sequence[Axes], text: str) -> None:
    """Label the vertical axis that panels share at the first panel of each row."""
    for ax in axes:
        if ax is axes[0] or _place_in_grid(ax).is_first_col():
            ax.set_ylabel(text)


def _place_in_grid(ax: Axes) -> SubplotSpec:
    """Where a panel stands in the grid of panels; alone, where it is in none."""
    return ax.get_subplotspec() or GridSpec(1, 1)[0]


def note_numbers(
    ax: Axes, series: str, mark: str | ArrayLike, x: ArrayLike, y: ArrayLike, **more: Any
) -> None:
    """Keep the numbers that are drawn, for `numbers`.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        A panel of a `Drawing`; its labels name the quantities `x` and `y` and their units.
    series : str
        Name of the curve.
    mark : str or sequence of str
        How all points are drawn, or each of them: ``"filled"``, ``"open"``, ``"line"``, …
    x, y : array_like, shape (points,)
    **more
        Further columns: ``low`` and ``high`` are the ends of a bar or band; ``x_quantity``,
        ``x_unit``, ``y_quantity`` and ``y_unit`` count instead of the labels.
    """
    block = {"series": series, "mark": mark, "x": np.asarray(x), "y": np.asarray(y)}
    figure = ax.get_figure(root=True)
    if isinstance(figure, Drawing):
        figure.numbers.append((ax, block | more))


def numbers(figure: Figure) -> pd.DataFrame:
    """The numbers that a picture draws: each point, and the ends of each bar, line and band.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        As `picture` gives it. Of another figure the points of its lines.

    Returns
    -------
    pandas.DataFrame
        A row for each point: ``panel``, ``series``, ``mark``, then ``x`` and ``y`` with their
        quantities and units, ``low`` and ``high``, and further columns of some kinds.
    """
    blocks: list[tuple[Axes, dict[str, Any]]] = getattr(figure, "numbers", None) or [
        (ax, {"series": line.get_label(), "mark": "line", "x": line.get_xdata(), "y": y})
        for ax in figure.axes
        for line in ax.lines
        if len(y := np.atleast_1d(line.get_ydata()))
    ]
    tables = []
    for ax, block in blocks:
        labels: dict[str, str] = {}
        for axis in "xy":
            quantity, units = _quantity_and_units(_label_of_shared_axis(ax, axis))
            labels |= {f"{axis}_quantity": quantity, f"{axis}_unit": units}
        panel = " ".join(ax.get_title(loc="left").split())
        tables.append(pd.DataFrame({"panel": panel} | labels | block))
    found = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    first = [name for name in NUMBERS if name in found]
    return found[[*first, *(name for name in found if name not in first)]]


def save_numbers(figures: Mapping[tuple[str, str], Figure], path: str | Path) -> str | Path:
    """Write the `numbers` of pictures as one table, a CSV file.

    Parameters
    ----------
    figures : dict of (str, str) to matplotlib.figure.Figure
        By experiment and kind, which become its first columns.
    path : str or Path

    Returns
    -------
    str or Path
        `path`.
    """
    tables = {key: numbers(figure) for key, figure in figures.items()}
    found = pd.concat(tables, names=["experiment", "picture"]).droplevel(2)
    found.to_csv(path)
    return path


def _label_of_shared_axis(ax: Axes, axis: str) -> str:
    """The label of an axis, which may stand at one panel of those that share it."""
    shared = getattr(ax, f"get_shared_{axis}_axes")().get_siblings(ax)
    labels: list[str] = [getattr(one, f"get_{axis}label")() for one in (ax, *shared)]
    return next(filter(None, labels), "")


def _quantity_and_units(label: str) -> tuple[str, str]:
    """``error [J] at t = 2 s`` as ``error at t = 2 s`` and ``J``."""
    found = re.search(r"\s*\[([^\]]*)\]", label)
    text = label.replace(found[0], "", 1) if found else label
    return " ".join(text.split()), found[1] if found else ""


def style_plain_axis(ax: Axes, title: str = "") -> None:
    """Style a panel: no box, the title on the left, and a pale grid."""
    ax.set_title(title, loc="left")
    ax.grid(visible=True, which="major", lw=0.4, color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def new_panelled_figure(titles: Sequence[str], said: str = "") -> tuple[Drawing, list[Axes]]:
    """A figure with a panel for each title, all with the same axes.

    Parameters
    ----------
    titles : sequence of str
    said : str, optional
        What it shows, above the panels.

    Raises
    ------
    InputError
        For more than twelve panels.
    """
    if len(titles) > MOST_OF_A_KIND:
        raise InputError(
            f"{len(titles)} combinations of scanned values are selected, and a figure holds "
            f"{MOST_OF_A_KIND}, the first of {titles[0]}: select some, as sweep plot --where does."
        )
    columns = columns_of_panels(len(titles))
    rows = -(-len(titles) // columns)
    width = figure_width(3.0 + 3.8 * columns**0.8)
    height = 4.0 * rows**0.9
    if current_page().width:  # in proportion to a panel
        height = rows * min(4.0, max(2.0, (0.725 if rows == 1 else 0.6) * width / columns))
    figure = new_figure(width, height)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    axes = list(grid.flat)
    for ax, title in zip(axes, titles, strict=False):
        style_plain_axis(ax, title)
        ax.tick_params(labelbottom=True)  # each has its label
    for ax in axes[len(titles) :]:
        ax.remove()
    if len(titles) == 1 and said and not is_compact_figure() and current_page().heading:
        figure.caption.append(said)
        axes[0].set_title(said, loc="left", color="0.3")
    elif said:
        add_figure_caption(figure, said)
    return figure, axes[: len(titles)]


def columns_of_panels(count: int, most: int = 3) -> int:
    """How many of `count` panels stand side by side."""
    width = current_page().width
    return min(count, most, most if width is None else max(1, int(width / PANEL)))


def new_panel_grid(
    count: int, columns: int, width: float, height: float
) -> tuple[Drawing, list[Axes]]:
    """A figure of panels that have axes of their own.

    Parameters
    ----------
    count : int
        Panels.
    columns : int
        Panels side by side; fewer where the page is narrow.
    width, height : float
        Width of the figure and height of a row, in inches.

    Returns
    -------
    figure : Drawing
    axes : list of matplotlib.axes.Axes
    """
    columns = columns_of_panels(count, columns)
    rows = -(-count // columns)
    figure = new_figure(figure_width(width), 0.5 + height * rows)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in axes[count:]:
        ax.remove()
    for ax in axes[:count]:
        style_plain_axis(ax)
    return figure, axes[:count]


def wrap_text_to_figure(figure: Figure, text: str, size: float = 9.0) -> str:
    """Text of a font size in points, in lines that are no wider than a figure."""
    most = int(figure.get_figwidth() / (size * CHARACTER))
    whole = text.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    lines = [line for part in whole.split("\n") for line in textwrap.wrap(part, most)]
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def add_figure_caption(figure: Figure, text: str) -> None:
    """Add a line to the caption of a figure, and above it where the page has headings."""
    if isinstance(figure, Drawing):
        figure.caption.append(text.replace("\N{NO-BREAK SPACE}", " "))
    if current_page().heading:
        write_above_figure(figure, text)


def write_above_figure(figure: Figure, text: str) -> None:
    """Write text above a figure, below the text that stands there already."""
    lines = [figure.get_suptitle(), wrap_text_to_figure(figure, text)]
    text = "\n".join(filter(None, lines))
    figure.suptitle(text, x=0.01, ha="left", fontsize=9, color="0.3", linespacing=1.4)


def add_legend(figure: Figure, axes: Sequence[Axes], title: str | None = None) -> None:
    """Add a legend of all curves beside the panels, or below them where the page is narrow.

    Panels that have no curve in common get a legend each, below them.
    """
    of = [_labelled_curves(ax) for ax in axes]
    entries = {label: handle for own in reversed(of) for label, handle in own.items()}
    entries = {label: entries[label] for own in of for label in own}
    options: dict[str, Any] = {
        "frameon": False,
        "handlelength": 3.2,
        "title": title,
        "alignment": "left",
    }
    if len(axes) > 1 and len(entries) == sum(map(len, of)):
        _add_legends_below_panels(figure, axes, of, options)
        return
    labels, lines = list(entries), len(entries) + (title.count("\n") + 1 if title else 0)
    width, height = figure.get_size_inches()
    beside = max(map(len, labels), default=0) * 8.0 * CHARACTER + 0.75
    if is_compact_figure() or (width - beside) / _columns_of_grid(axes) < PANEL:
        columns = _legend_column_count(labels, width)
        if columns == 1 and beside > width:
            options["fontsize"] = size = fitting_size(max(labels, key=len), 8.0, width - 0.75)
            most = int((width - 0.75) / (size * CHARACTER))
            labels = ["\n".join(textwrap.wrap(label, most)) for label in labels]
            lines += sum(label.count("\n") for label in labels)
        figure.set_figheight(height + LINE * -(-lines // columns))
        options |= {"loc": "outside lower left", "ncols": columns}
    else:
        figure.set_figheight(max(height, LINE * lines))
        options["loc"] = "outside right center"
    figure.legend(entries.values(), labels, **options)


def _labelled_curves(ax: Axes) -> dict[str, Artist]:
    """The curves of a panel by their labels in a legend."""
    handles, labels = ax.get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))


def _add_legends_below_panels(
    figure: Figure,
    axes: Sequence[Axes],
    of: Sequence[Mapping[str, Artist]],
    options: dict[str, Any],
) -> None:
    """Add a legend below each panel, and height to the figure for them."""
    width = figure.get_figwidth() / _columns_of_grid(axes)
    count = {
        ax: _legend_column_count(list(own), 0.9 * width) for ax, own in zip(axes, of, strict=True)
    }
    rows: dict[int, int] = {}
    for ax, own in zip(axes, of, strict=True):
        row = _place_in_grid(ax).rowspan.start
        rows[row] = max(rows.get(row, 0), -(-len(own) // count[ax]) + 1)
    figure.set_figheight(figure.get_figheight() + LINE * sum(rows.values()))
    for ax, own in zip(axes, of, strict=True):
        under = ax.transAxes + ScaledTranslation(0.0, -BELOW, figure.dpi_scale_trans)
        place = {"loc": "upper left", "bbox_to_anchor": (-0.02, 0.0), "bbox_transform": under}
        place |= {"borderaxespad": 0.0, "ncols": count[ax]}
        ax.legend(own.values(), own.keys(), **(options | place))


def fitting_size(text: str, size: float, width: float) -> float:
    """Font size in points, at most `size`, at which a line is no wider than `width` inches."""
    return max(SMALLEST, min(size, width / (max(1, len(text)) * CHARACTER)))


def _columns_of_grid(axes: Sequence[Axes]) -> int:
    """How many panels stand side by side in the grid of these panels."""
    return _place_in_grid(axes[0]).get_gridspec().ncols


def _legend_column_count(labels: Sequence[str], width: float) -> int:
    """How many columns of a legend fit in a width in inches."""
    widest = max(map(len, labels), default=0) * 8.0 * CHARACTER + 0.65
    return max(1, min(len(labels), int(width / widest)))


def axis_label_with_units(array: xr.DataArray, text: str, form: str = "{} [{}]") -> str:
    """`text` with the units of `array`, unless these are 1; `form` is of text and units."""
    units = units_with_superscripts(array.attrs.get("units", "1"))
    return form.format(text, units) if units else text


def step_size_label(run: xr.Dataset) -> str:
    """The step size of a run table that has only one: ``h = 0.01 s``."""
    return axis_label_with_units(run["step_size"], f"h = {run['step_size'].values[0]:g}", "{} {}")


def units_with_superscripts(units: str) -> str:
    """Units with raised powers, ``m s-2`` as ``m s⁻²``; empty for 1."""
    return "" if units == "1" else units.translate(SUPERSCRIPTS)


def style_log_error_axis(ax: Axes) -> None:
    """Make the vertical axis logarithmic, with labels in plain text.

    Plain text is drawn twice as fast as formulas. Call it after the curves: where these span less
    than two powers of ten, multiples of them are labelled too.
    """
    ax.set_yscale("log", nonpositive="mask")
    low, high = ax.get_ylim()
    if high < 100 * low:
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(lambda value, place: _scientific_tick_label(value))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _scientific_tick_label(value: float) -> str:
    """A number as one or two digits times a power of ten, without the digit where it is 1."""
    power = math.floor(math.log10(value) + 1e-9)
    digits = f"{value / 10.0**power:.2g}"
    return f"{'' if digits == '1' else f'{digits}·'}10{superscript_number(power)}"


def set_plain_step_ticks(ax: Axes) -> None:
    """Put ticks at powers of ten, and over two decades at most at 2 and 5 too, as decimals."""
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 150 * low else (1,)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def style_log_time_axis(ax: Axes) -> None:
    """Make the horizontal axis logarithmic, with labels in plain text."""
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, place: _scientific_tick_label(value))
    ax.xaxis.set_minor_formatter(NullFormatter())


def superscript_number(power: int) -> str:
    """A whole number as superscript."""
    return str(power).translate(SUPERSCRIPTS)


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure in the format that the ending of `path` names.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : str or Path

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    InputError
        When the ending is not one that can be written, e.g. .png, .pdf or .svg.
    """
    path = Path(path)
    formats = figure.canvas.get_supported_filetypes()
    ending = path.suffix.removeprefix(".").lower()
    if ending not in formats:
        raise InputError(
            f"cannot write a picture as {path.name!r}: its ending must be one of "
            f"{', '.join('.' + name for name in formats)}.",
            key="output",
        )
    with rc_context(STYLE):  # for a figure that is no `Drawing`
        write_figure(figure, path, dpi=200)
    return path


def write_figure(figure: Figure, file: str | Path | IO[Any], **options: Any) -> None:
    """Write a figure to a path or file, control characters in its text as escapes.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    file : str, Path or file object
    **options
        As of `matplotlib.figure.Figure.savefig`.
    """
    for artist in figure.findobj(Text):
        if isinstance(artist, Text):  # with control characters an SVG could not be read
            artist.set_text(escape_controls_in_lines(artist.get_text()))
    figure.savefig(file, **options)


def show_in_notebooks(figure: Figure) -> Figure:
    """Let a notebook display a figure at the end of a cell: as PNG, and as SVG where that is small.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        A `Drawing`, or the figure of a plugin.

    Returns
    -------
    matplotlib.figure.Figure
        The same.
    """
    displayed: Any = figure
    displayed._repr_png_ = functools.partial(_image_of_figure, figure, "png")
    displayed._repr_svg_ = functools.partial(_small_svg_of_figure, figure)
    return figure


def _image_of_figure(figure: Figure, kind: str, **options: Any) -> bytes:
    with rc_context(STYLE), io.BytesIO() as file:
        write_figure(figure, file, format=kind, **options)
        return file.getvalue()


def _small_svg_of_figure(figure: Figure) -> str | None:
    image = _image_of_figure(figure, "svg")
    return image.decode() if len(image) <= MOST_SVG_BYTES else None
