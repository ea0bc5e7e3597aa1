"""What all pictures have in common: colours, type, panels, axes, and how they are written."""

import functools
import io
import math
import re
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import rc_context, rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

from integrators.errors import InputError
from sweep.plots.families import panel_families_of_integrators
from sweep.plots.page_setup import NARROW, current_page
from sweep.text import escape_controls_in_lines

# Okabe and Ito's colours, told apart by colour-blind readers; without yellow, too pale for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
# For what has no markers, two more that are as far from the others to colour-blind readers too.
MORE_COLOURS = (*COLOURS, "#7F3C00", "#332288")
MARKERS = "osD^vPX<>*hp"
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
GREY = "0.55"
# First columns of the numbers behind a picture.
NUMBERS = ("panel", "series", "mark", "x_quantity", "x_unit", "x", "y_quantity", "y_unit", "y")
NUMBERS += ("low", "high")
STYLE = {
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
PANEL = 2.6  # inches: less is no legible panel
MOST_OF_A_KIND = 12  # panels that share an axis
LINE = 0.18  # inches of a legend's line
BELOW = 0.42  # inches that ticks and label of an axis take
SMALLEST = 6.0  # points of type in print
MOST_SVG_BYTES = 500_000  # of a figure in a notebook
CHARACTER = 0.55 / 72  # width of a character by its size in points, in inches


def is_compact_figure():
    """Whether figures are drawn for a narrow column: panels and legend below one another."""
    return current_page().narrow


def figure_width(usual):
    """Of a figure that is usually so wide, in inches."""
    return current_page().width or (NARROW if is_compact_figure() else usual)


def curve_styles_of_integrators(dataset):
    """Colour, marker and line of each integrator, by its place in its family in the study."""
    members = {}
    for label, family in panel_families_of_integrators(dataset).items():
        members.setdefault(family, []).append(label)
    return {label: style for of in members.values() for label, style in curve_styles(of).items()}


def curve_styles(labels):
    """Colour, marker and line of each of some curves.

    Later ones are finer, so that of curves that coincide the lower one still shows.
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


class Drawing(Figure):
    """A figure that belongs to no window.

    Attributes
    ----------
    shown : sweep.plots.captions.Shown or None
        What is drawn, for the words above it.
    caption : list of str
        What it shows, in lines; they stand above it unless its page has no heading.
    numbers : list of dict
        What is drawn, see `note_numbers`.
    """

    shown = None

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.caption, self.numbers = [], []
        self._style = STYLE | {"font.family": rcParams["font.family"]}

    def savefig(self, *args, **options):
        """As that of every figure, in the type that it was drawn with."""
        with rc_context(self._style):
            super().savefig(*args, **options)


def new_figure(width, height):
    """An empty `Drawing`; width and height in inches."""
    figure = Drawing(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def label_first_of_rows(axes, text):
    """Label the axis that the panels share, beside each row of them."""
    for ax in axes:
        if ax is axes[0] or ax.get_subplotspec().is_first_col():
            ax.set_ylabel(text)


def note_numbers(ax, series, mark, x, y, **more):
    """Keep the numbers behind what is drawn, for `numbers`.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Whose labels say what `x` and `y` are, and in which units.
    series : str
        What the points or the line are of.
    mark : str or sequence of str
        How they are drawn, or each of them: ``"filled"``, ``"open"``, ``"line"``, …
    x, y : array_like
    **more
        Further columns: ``low`` and ``high`` are the ends of a bar or band; or what the labels do
        not say, as ``y_unit``.
    """
    block = {"series": series, "mark": mark, "x": np.asarray(x), "y": np.asarray(y)}
    ax.get_figure(root=True).numbers.append((ax, block | more))


def numbers(figure):
    """The numbers behind a picture: each point, and the ends of each bar, line and band.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Of `picture`, or a figure of one's own: then its lines.

    Returns
    -------
    pandas.DataFrame
        A row for each point: ``panel``, ``series``, ``mark``, then ``x`` and ``y`` with what they
        are and their units, ``low`` and ``high``, and what a kind has besides.
    """
    blocks = getattr(figure, "numbers", None) or [
        (ax, {"series": line.get_label(), "mark": "line", "x": line.get_xdata(), "y": y})
        for ax in figure.axes
        for line in ax.lines
        if len(y := np.atleast_1d(line.get_ydata()))
    ]
    tables = []
    for ax, block in blocks:
        labels = {}
        for axis in "xy":
            quantity, units = _quantity_and_units(_label_of_shared_axis(ax, axis))
            labels |= {f"{axis}_quantity": quantity, f"{axis}_unit": units}
        panel = " ".join(ax.get_title(loc="left").split())
        tables.append(pd.DataFrame({"panel": panel} | labels | block))
    found = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    first = [name for name in NUMBERS if name in found]
    return found[[*first, *(name for name in found if name not in first)]]


def save_numbers(figures, path):
    """Write the `numbers` behind some pictures as one table, a CSV file.

    Parameters
    ----------
    figures : dict of (str, str) to matplotlib.figure.Figure
        By experiment and kind, which become its first columns.
    path : path

    Returns
    -------
    path
    """
    tables = {key: numbers(figure) for key, figure in figures.items()}
    found = pd.concat(tables, names=["experiment", "picture"]).droplevel(2)
    found.to_csv(path)
    return path


def _label_of_shared_axis(ax, axis):
    """The label of an axis, which may stand at one panel of those that share it."""
    shared = getattr(ax, f"get_shared_{axis}_axes")().get_siblings(ax)
    labels = [getattr(one, f"get_{axis}label")() for one in (ax, *shared)]
    return next(filter(None, labels), "")


def _quantity_and_units(label):
    """``error [J] at t = 2 s`` as ``error at t = 2 s`` and ``J``."""
    found = re.search(r"\s*\[([^\]]*)\]", label)
    text = label.replace(found[0], "", 1) if found else label
    return " ".join(text.split()), found[1] if found else ""


def style_plain_axis(ax, title=""):
    """An axis without a box, with its title on the left and a pale grid."""
    ax.set_title(title, loc="left")
    ax.grid(visible=True, which="major", lw=0.4, color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def new_panelled_figure(titles, said=""):
    """A figure with a panel for each title, and above them what it shows."""
    if len(titles) > MOST_OF_A_KIND:
        raise InputError(
            f"{len(titles)} combinations of scanned values are selected, and a figure holds "
            f"{MOST_OF_A_KIND}: select some, e.g. those with {titles[0]} "
            "(sweep plot --where, or query)."
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


def columns_of_panels(count, most=3):
    """How many of so many panels stand side by side."""
    width = current_page().width
    return min(count, most, most if width is None else max(1, int(width / PANEL)))


def new_panel_grid(count, columns, width, height):
    """A figure of so many panels, with axes of their own each.

    Parameters
    ----------
    count, columns : int
        Of which there is one where the column is narrow.
    width, height : float
        Of the figure, and of a row, in inches.

    Returns
    -------
    figure : matplotlib.figure.Figure
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


def wrap_text_to_figure(figure, text, size=9.0):
    """Text in lines that are no wider than a figure."""
    most = int(figure.get_figwidth() / (size * CHARACTER))
    whole = text.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    lines = [line for part in whole.split("\n") for line in textwrap.wrap(part, most)]
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def add_figure_caption(figure, text):
    """What a figure shows: in its caption, and above it where the page has headings."""
    if isinstance(figure, Drawing):
        figure.caption.append(text.replace("\N{NO-BREAK SPACE}", " "))
    if current_page().heading:
        write_above_figure(figure, text)


def write_above_figure(figure, text):
    """Words above a figure, under those that are there already."""
    lines = [figure.get_suptitle(), wrap_text_to_figure(figure, text)]
    text = "\n".join(filter(None, lines))
    figure.suptitle(text, x=0.01, ha="left", fontsize=9, color="0.3", linespacing=1.4)


def add_legend(figure, axes, title=None):
    """What the curves are: one legend beside the panels, or below where the column is narrow.

    Panels that have no curve in common have a legend each, below them.
    """
    of = [dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True)) for ax in axes]
    entries = {label: handle for own in reversed(of) for label, handle in own.items()}
    entries = {label: entries[label] for own in of for label in own}
    options = {"frameon": False, "handlelength": 3.2, "title": title, "alignment": "left"}
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
        place = {"loc": "outside lower left", "ncols": columns}
    else:
        figure.set_figheight(max(height, LINE * lines))
        place = {"loc": "outside right center"}
    figure.legend(entries.values(), labels, **place, **options)


def _add_legends_below_panels(figure, axes, of, options):
    """A legend below each of the panels, which become higher by it."""
    width = figure.get_figwidth() / _columns_of_grid(axes)
    count = {
        ax: _legend_column_count(list(own), 0.9 * width) for ax, own in zip(axes, of, strict=True)
    }
    rows = {}
    for ax, own in zip(axes, of, strict=True):
        row = ax.get_subplotspec().rowspan.start
        rows[row] = max(rows.get(row, 0), -(-len(own) // count[ax]) + 1)
    figure.set_figheight(figure.get_figheight() + LINE * sum(rows.values()))
    for ax, own in zip(axes, of, strict=True):
        under = ax.transAxes + ScaledTranslation(0.0, -BELOW, figure.dpi_scale_trans)
        place = {"loc": "upper left", "bbox_to_anchor": (-0.02, 0.0), "bbox_transform": under}
        options = options | {"borderaxespad": 0.0, "ncols": count[ax]}
        ax.legend(own.values(), own.keys(), **place, **options)


def fitting_size(text, size, width):
    """Points of type, at most `size`, in which a line of text is no wider than so many inches."""
    return max(SMALLEST, min(size, width / (max(1, len(text)) * CHARACTER)))


def _columns_of_grid(axes):
    """How many panels stand side by side in the grid that these are of."""
    return axes[0].get_subplotspec().get_gridspec().ncols


def _legend_column_count(labels, width):
    """How many columns of a legend there is space for."""
    widest = max(map(len, labels), default=0) * 8.0 * CHARACTER + 0.65
    return max(1, min(len(labels), int(width / widest)))


def axis_label_with_units(array, text, form="{} [{}]"):
    """`text` with the units of `array`, unless they are 1."""
    units = units_with_superscripts(array.attrs.get("units", "1"))
    return form.format(text, units) if units else text


def step_size_label(run):
    """``h = 0.01 s``, of a run table of one step size."""
    return axis_label_with_units(run["step_size"], f"h = {run['step_size'].values[0]:g}", "{} {}")


def units_with_superscripts(units):
    """``m s-2`` as ``m s⁻²``, and nothing for 1."""
    return "" if units == "1" else units.translate(SUPERSCRIPTS)


def style_log_error_axis(ax):
    """A logarithmic axis labelled in plain text, which is drawn twice as fast as formulas.

    Of curves that are drawn already: where they span few powers of ten, others are labelled too.
    """
    ax.set_yscale("log", nonpositive="mask")
    low, high = ax.get_ylim()
    if high < 100 * low:
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(lambda value, place: _scientific_tick_label(value))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _scientific_tick_label(value):
    """A number of a digit or two times a power of ten, without the digit where it is 1."""
    power = math.floor(math.log10(value) + 1e-9)
    digits = f"{value / 10.0**power:.2g}"
    return f"{'' if digits == '1' else f'{digits}·'}10{superscript_number(power)}"


def set_plain_step_ticks(ax):
    """Ticks at 1, 2 and 5 over a decade or two, written as decimals."""
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 150 * low else (1,)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def style_log_time_axis(ax):
    """A logarithmic axis of time, labelled in plain text: labels are not parsed as formulas."""
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, place: _scientific_tick_label(value))
    ax.xaxis.set_minor_formatter(NullFormatter())


def superscript_number(power):
    """A whole number as superscript."""
    return str(power).translate(SUPERSCRIPTS)


def save(figure, path):
    """Write a figure in the format that the ending of `path` names.

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
    with rc_context(STYLE):  # of a plain figure
        write_figure(figure, path, dpi=200)
    return path


def write_figure(figure, file, **options):
    """Write a figure to a path or file; control characters in its text, as of labels, are shown.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    file : path or file object
    **options
        Of its ``savefig``.
    """
    for text in figure.findobj(Text):  # of these SVG could not be read
        text.set_text(escape_controls_in_lines(text.get_text()))
    figure.savefig(file, **options)


def show_in_notebooks(figure: Figure) -> Figure:
    """Let a figure show where a notebook's cell ends with it: as PNG, and as SVG if that is small.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Of any kind, also one that a plugin has drawn.

    Returns
    -------
    matplotlib.figure.Figure
        The same.
    """
    figure._repr_png_ = functools.partial(_image_of_figure, figure, "png")
    figure._repr_svg_ = functools.partial(_small_svg_of_figure, figure)
    return figure


def _image_of_figure(figure, kind, **options):
    with rc_context(STYLE), io.BytesIO() as file:
        write_figure(figure, file, format=kind, **options)
        return file.getvalue()


def _small_svg_of_figure(figure):
    image = _image_of_figure(figure, "svg")
    return image.decode() if len(image) <= MOST_SVG_BYTES else None
