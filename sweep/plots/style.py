"""Shared parts of all pictures: pages, colours, fonts, panels, axes, legends, numbers and files."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import io
import logging
import math
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib import rc_context, rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

from integrators.errors import InputError, check_known
from sweep.analysis.runs.selection import distinct_values_and_codes
from sweep.plots.families import panel_families_of_integrators
from sweep.text import escape_control_characters, escape_controls_in_lines

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.legend import Legend
    from matplotlib.typing import RcKeyType
    from numpy.typing import ArrayLike

# EPS has no transparency, and pale marks are opaque: no news to who asks for it.
logging.getLogger("matplotlib.backends.backend_ps").setLevel(logging.ERROR)

NARROW = 4.0  # inches: in a window of 400 px, text of 8 points is then 10 px high
WIDE = 5.0  # inches: from this width on, the legend is beside the panels
LEAST, MOST = 2.0, 40.0  # inches: the narrowest legible figure, and the widest page
INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}  # points of TeX
GENERIC = ("serif", "sans-serif", "monospace")
# Fonts for characters that other fonts lack.
FALLBACK = {"serif": "DejaVu Serif", "monospace": "DejaVu Sans Mono"}
# Keyword arguments of matplotlib for drawing a curve.
CurveStyle = dict[str, Any]

# Okabe and Ito's colours, which colour-blind readers can distinguish; without yellow, which is too
# pale for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
# Two more colours for curves without markers, equally distinguishable.
MORE_COLOURS = (*COLOURS, "#7F3C00", "#332288")
MARKERS = "osD^vPX<>*hp"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
GREY = "0.55"
# First columns of the numbers of a picture.
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
    "pdf.fonttype": 42,  # text remains text
    "svg.fonttype": "none",
    "text.parse_math": False,  # labels come from the study, and may contain dollar signs
}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MOST_PANELS = 6  # maximum number of panels with spheres, or with different errors
PANEL = 2.6  # inches: smallest width of a legible panel
BESIDE = 3.0  # inches: smallest width of a panel beside a legend; else the legend is below
MOST_OF_A_KIND = 12  # maximum number of panels that share an axis
MOST_ACROSS = 3  # maximum number of panels side by side
LINE = 0.65  # inches: a line in a legend, and the gap after its name
MARGIN = 1.0  # inches: the margin on the left of a panel
BELOW = 0.42  # inches: height of the ticks and the label of an axis
MOST_SVG_BYTES = 500_000  # maximum size of an SVG figure in a notebook
HEADING: dict[str, Any] = {
    "x": 0.01, "ha": "left", "fontsize": 9, "color": "0.3", "linespacing": 1.4, "wrap": True,
}  # fmt: skip
# Why errors are taken before the end of the runs.
REFERENCE = "errors against the reference at {}, until which it holds"
ROUND_OFF = "errors at {}, until which they are above round-off"
LEGEND: dict[str, Any] = {"frameon": False, "handlelength": 3.2, "alignment": "left"}


@dataclass(frozen=True)
class Page:
    """Page that figures are drawn for.

    Attributes
    ----------
    width : float or None
        Width of every figure in inches; None if each kind of picture has its own.
    heading : bool
        Whether figures have a heading.
    """

    width: float | None = None
    heading: bool = True

    @property
    def narrow(self) -> bool:
        """Whether panels and legend are arranged below one another."""
        return self.width is not None and self.width < WIDE


_USUAL = Page()
_page = contextvars.ContextVar("page", default=_USUAL)


@contextlib.contextmanager
def page(
    width: str | float | None = None, font: str | None = None, heading: bool = True
) -> Iterator[None]:
    """Context manager for drawing figures for a page of a paper.

    Parameters
    ----------
    width : str or float, optional
        Width of every figure: ``"3.4in"``, ``"86mm"``, ``"8.6cm"``, ``"246pt"``, or inches.
    font : str, optional
        A font family: ``"serif"``, ``"sans-serif"``, ``"monospace"``, or the name of an installed
        font.
    heading : bool, optional
        Whether figures have a heading. ``figure.caption`` has its text in any case.

    Raises
    ------
    InputError
        If the width is invalid, too small or too large, or the font is not installed.

    Examples
    --------
    >>> with page("3.4in", "serif", heading=False):                  # doctest: +SKIP
    ...     save(picture("order", tree["pendulum"]), "order.pdf")
    """
    style: dict[RcKeyType, Any] = {} if font is None else {"font.family": _font_families(font)}
    around = current_page()
    inches = around.width if width is None else width_in_inches(width)
    token = _page.set(Page(inches, heading and around.heading))
    try:
        with rc_context(style):
            yield
    finally:
        _page.reset(token)


def compact() -> AbstractContextManager[None]:
    """A `page` with a narrow column, where panels and legend are below one another."""
    return page(NARROW)


def current_page() -> Page:
    """The `Page` that figures are currently drawn for."""
    return _page.get()


def width_in_inches(width: str | float) -> float:
    """Convert a width in inches, or as text with a unit, to inches; `InputError` if invalid."""
    found = re.fullmatch(rf"(\d+\.?\d*|\.\d+) ?({'|'.join(INCHES)})", str(width).strip())
    inches = float(found[1]) * INCHES[found[2]] if found else width
    if isinstance(inches, str) or not LEAST <= inches <= MOST:
        raise InputError(
            f"width {width!r}; expected a length from {LEAST:g}in to {MOST:g}in with its unit, "
            "as 3.4in, 86mm, 8.6cm or 246pt",
            key="width",
        )
    return float(inches)


def _font_families(font: str) -> list[str]:
    """A font family with fallbacks for missing characters; `InputError` if not installed."""
    known = [*GENERIC, *sorted(get_font_names())]
    font = {name.lower(): name for name in known}.get(font.lower(), font)
    check_known("font", font, known, key="font")
    return [font, FALLBACK.get(font, "DejaVu Sans")]


def figure_width(usual: float) -> float:
    """Width of a figure in inches: that of the page, or `usual` if the page has none."""
    return current_page().width or usual


def curve_styles_of_integrators(dataset: xr.Dataset) -> dict[str, CurveStyle]:
    """Colour, marker and line of each integrator by label, the same in every picture."""
    members: dict[str, list[str]] = {}
    for label, family in panel_families_of_integrators(dataset).items():
        members.setdefault(family, []).append(label)
    return {label: style for of in members.values() for label, style in curve_styles(of).items()}


def curve_styles(labels: Sequence[str]) -> dict[str, CurveStyle]:
    """Colour, marker and line of each curve by label.

    Later curves are thinner, so that the one beneath remains visible where curves coincide.
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


def starts_in_words(dataset: xr.Dataset, counts: Iterable[int]) -> str:
    """How many starts of a run table a picture shows: ``8 starts``, ``5 – 7 of 8 starts``.

    Parameters
    ----------
    dataset : xarray.Dataset
    counts : iterable of int
        Number of starts of each curve, or of each of its points.

    Returns
    -------
    str
    """
    shown, of = (
        sorted(counts),
        len(distinct_values_and_codes(dataset["initial_condition"].values)[0]),
    )
    if of == 1:
        return "one start"
    drawn = " – ".join(dict.fromkeys(f"{count:,}" for count in (shown[0], shown[-1])))
    return f"{drawn} starts" if shown[0] == of else f"{drawn} of {of:,} starts"


def error_times_in_words(time: xr.DataArray, times: Iterable[float], why: str) -> str:
    """The times at which errors are taken; empty if that is the end of the runs.

    Parameters
    ----------
    time : xarray.DataArray
        Sample times of the runs.
    times : iterable of float
    why : {REFERENCE, ROUND_OFF}
        Why they are not taken at the end.

    Returns
    -------
    str
    """
    distinct = sorted({float(one) for one in times})
    if not distinct or distinct == [float(time.values[-1])]:
        return ""
    when = f"t = {times_in_words(distinct)}"
    return why.format(axis_label_with_units(time, when, "{} {}"))


def times_in_words(times: Collection[float]) -> str:
    """A single time, or the first and the last: ``2``, ``1.5 – 2``."""
    low, high = min(times), max(times)
    return f"{low:g}" if low == high else f"{low:g} – {high:g}"


class Drawing(Figure):
    """A figure that does not belong to a window.

    Attributes
    ----------
    starts, error_times : str
        Number of initial conditions and times of errors in words, for the heading.
    caption : list of str
        Lines that describe the figure. They are its heading, if its page has headings.
    numbers : list of (matplotlib.axes.Axes, dict)
        The numbers that are drawn; see `note_numbers`.
    columns : int
        Number of panels side by side.
    """

    starts: str = ""
    error_times: str = ""
    columns: int = 1

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.caption: list[str] = []
        self.numbers: list[tuple[Axes, dict[str, Any]]] = []
        self._style: dict[RcKeyType, Any] = STYLE | {"font.family": rcParams["font.family"]}

    def savefig(self, *args: Any, **options: Any) -> None:
        """Save as `matplotlib.figure.Figure.savefig` does, with the fonts of the page."""
        with rc_context(self._style):
            super().savefig(*args, **options)

    def add_caption(self, text: str) -> None:
        """Add a line to the caption, and to the heading if the page has headings."""
        self.caption.append(text.replace("\N{NO-BREAK SPACE}", " "))
        if current_page().heading:
            write_heading(self, f"{self.get_suptitle()}\n{text}".strip())

    def label_rows(self, axes: Sequence[Axes], text: str) -> None:
        """Label the shared vertical axis at the first panel with axes in each row."""
        for first in range(0, len(axes), self.columns):
            row = axes[first : first + self.columns]
            next((ax for ax in row if ax.axison), row[0]).set_ylabel(text)

    def add_legend(self, axes: Sequence[Axes], title: str | None = None) -> None:
        """Add a legend of all curves, beside the panels or, if these get too narrow, below them.

        If panels have no curve in common, each gets its own legend below it.
        """
        of = [
            {escape_control_characters(label): handle for handle, label in zip(*own, strict=True)}
            for own in (ax.get_legend_handles_labels() for ax in axes)
        ]
        entries: dict[str, Artist] = {}
        for own in of:
            entries |= own | entries
        if len(axes) > 1 and len(entries) == sum(map(len, of)):
            self._add_legends_below_panels(axes, of, title)
            return
        width, height = self.get_size_inches()
        place: dict[str, Any] = {"loc": "outside right center", "title": title}
        beside = self.legend(entries.values(), entries, **(LEGEND | place))
        wide, high = size_in_inches(beside)
        if current_page().narrow or (width - wide) / self.columns < BESIDE:
            beside.remove()
            place["loc"] = "outside lower left"
            below = _legend_in_columns(self, entries, width, **place)
            self.set_figheight(height + size_in_inches(below)[1])
        else:
            self.set_figheight(max(height, high))

    def _add_legends_below_panels(
        self, axes: Sequence[Axes], of: Sequence[Mapping[str, Artist]], title: str | None
    ) -> None:
        width = 0.9 * self.get_figwidth() / self.columns
        heights = []
        for ax, own in zip(axes, of, strict=True):
            under = ax.transAxes + ScaledTranslation(0.0, -BELOW, self.dpi_scale_trans)
            place = {"loc": "upper left", "bbox_to_anchor": (-0.02, 0.0), "bbox_transform": under}
            legend = _legend_in_columns(ax, own, width, borderaxespad=0.0, title=title, **place)
            heights.append(size_in_inches(legend)[1])
        rows = range(0, len(axes), self.columns)
        more = sum(max(heights[first : first + self.columns]) for first in rows)
        self.set_figheight(self.get_figheight() + more)


def new_figure(width: float, height: float) -> Drawing:
    """An empty `Drawing`; width and height in inches."""
    figure = Drawing(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def note_numbers(
    ax: Axes, series: str, mark: str | ArrayLike, x: ArrayLike, y: ArrayLike, **more: Any
) -> None:
    """Record the numbers that are drawn, for `numbers`.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        A panel of a `Drawing`. Its labels give the quantities and units of `x` and `y`.
    series : str
        Name of the curve.
    mark : str or sequence of str
        How all points, or each of them, are drawn: ``"filled"``, ``"open"``, ``"line"``, …
    x, y : array_like, shape (points,)
    **more
        Further columns: ``low`` and ``high`` are the ends of a bar or band; ``x_quantity``,
        ``x_unit``, ``y_quantity`` and ``y_unit`` replace those from the labels.
    """
    block = {"series": series, "mark": mark, "x": np.asarray(x), "y": np.asarray(y)}
    figure = ax.get_figure(root=True)
    if isinstance(figure, Drawing):
        figure.numbers.append((ax, block | more))


def numbers(figure: Figure) -> pd.DataFrame:
    """The numbers in a picture: each point, and the ends of each bar, line and band.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        A result of `picture`. For another figure, the points of its lines are returned.

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
        By experiment and kind, which become the first columns.
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
    """The label of an axis, which may be at another one of the panels that share the axis."""
    shared = getattr(ax, f"get_shared_{axis}_axes")().get_siblings(ax)
    labels: list[str] = [getattr(one, f"get_{axis}label")() for one in (ax, *shared)]
    return next(filter(None, labels), "")


def _quantity_and_units(label: str) -> tuple[str, str]:
    """Split a label such as ``error [J] at t = 2 s`` into ``error at t = 2 s`` and ``J``."""
    found = re.search(r"\s*\[([^\]]*)\]", label)
    text = label.replace(found[0], "", 1) if found else label
    return " ".join(text.split()), found[1] if found else ""


def style_plain_axis(ax: Axes, title: str = "") -> None:
    """Style a panel, with a title on the left, a pale grid and no box."""
    ax.set_title(title, loc="left")
    ax.grid(visible=True, which="major", lw=0.4, color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def new_panels(titles: Sequence[str], shared: bool = True) -> tuple[Drawing, list[Axes]]:
    """A figure with a panel for each title.

    Parameters
    ----------
    titles : sequence of str
    shared : bool, optional
        Whether all panels have the same axes.

    Returns
    -------
    figure : Drawing
    axes : list of matplotlib.axes.Axes

    Raises
    ------
    InputError
        If there are more than twelve panels.
    """
    if len(titles) > MOST_OF_A_KIND:
        raise InputError(
            f"{len(titles)} combinations of scanned values are selected, and a figure holds "
            f"{MOST_OF_A_KIND}, the first of {titles[0]}: select some, as sweep plot --where does."
        )
    page = current_page()
    across = MOST_ACROSS if page.width is None else max(1, int(page.width / PANEL))
    rows = -(-len(titles) // across)
    columns = -(-len(titles) // rows)
    width = figure_width(3.0 + 3.8 * columns**0.8)
    figure = new_figure(width, rows * min(4.0, max(2.0, 0.725 * width / columns)))
    grid = figure.subplots(rows, columns, sharex=shared, sharey=shared, squeeze=False)
    axes = list(grid.flat)
    for ax in axes[len(titles) :]:
        ax.remove()
    for ax, title in zip(axes, titles, strict=False):
        style_plain_axis(ax)
        wrap_text(ax.set_title(title, loc="left"), width / columns - MARGIN)
        ax.tick_params(labelbottom=True)  # every panel has tick labels
    figure.columns = columns
    return figure, axes[: len(titles)]


def write_heading(figure: Figure, text: str) -> None:
    """Replace the text above a figure, and adapt the height of the figure."""
    before = figure.get_suptitle()
    high = size_in_inches(figure.suptitle(before, **HEADING))[1] if before else 0.0
    text = text.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    text = escape_controls_in_lines(text)
    more = size_in_inches(figure.suptitle(text, **HEADING))[1] - high
    figure.set_figheight(figure.get_figheight() + more)


def size_in_inches(artist: Artist) -> tuple[float, float]:
    """Width and height of an artist in inches."""
    figure, extent = artist.get_figure(root=True), artist.get_window_extent()
    dpi = figure.dpi if figure else 72.0
    return extent.width / dpi, extent.height / dpi


def wrap_text(text: Text, width: float) -> None:
    """Break a text into lines of at most `width` inches, but not next to a ``=``."""
    lines = text.get_text().replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}").split("\n")
    if (wide := size_in_inches(text)[0]) > width:
        most = max(1, int(max(map(len, lines)) * width / wide))
        lines = [textwrap.fill(line, most) for line in lines]
    text.set_text("\n".join(lines).replace("\N{NO-BREAK SPACE}", " "))


def _legend_in_columns(
    of: Figure | Axes, entries: Mapping[str, Artist], width: float, **options: Any
) -> Legend:
    """Add a legend with as many columns as fit in `width` inches; wrap longer names."""
    options |= LEGEND
    legend = of.legend(entries.values(), entries, **options)
    widest = max(size_in_inches(text)[0] for text in legend.get_texts())
    if columns := int(width / (widest + LINE)):
        legend.remove()
        return of.legend(entries.values(), entries, ncols=min(columns, len(entries)), **options)
    for text in legend.get_texts():
        wrap_text(text, width - LINE)
    return legend


def axis_label_with_units(array: xr.DataArray, text: str, form: str = "{} [{}]") -> str:
    """Label an axis with the units of its values.

    Parameters
    ----------
    array : xarray.DataArray
        The values, with an attribute ``units``.
    text : str
        Label without units.
    form : str, optional
        Format of text and units.

    Returns
    -------
    str
        `text` alone if the units are 1.
    """
    units = units_with_superscripts(array.attrs.get("units", "1"))
    return form.format(text, units) if units else text


def step_size_label(run: xr.Dataset) -> str:
    """Label with the step size of a run table that has only one: ``h = 0.01 s``."""
    return axis_label_with_units(run["step_size"], f"h = {run['step_size'].values[0]:g}", "{} {}")


def units_with_superscripts(units: str) -> str:
    """Units with raised powers, ``m s-2`` as ``m s⁻²``; empty for 1."""
    return "" if units == "1" else units.translate(SUPERSCRIPTS)


def style_log_error_axis(ax: Axes) -> None:
    """Make the vertical axis logarithmic, with labels in plain text.

    Plain text is drawn twice as fast as formulas. Call this after drawing the curves: if they span
    less than two powers of ten, multiples of powers are labelled too.
    """
    ax.set_yscale("log", nonpositive="mask")
    set_log_ticks(ax.yaxis, scientific_tick_label, ((100, (1, 2, 5)),))


def set_plain_step_ticks(ax: Axes) -> None:
    """Label powers of ten as decimals; on an axis of at most two decades, also their 2 and 5."""
    set_log_ticks(ax.xaxis, "{x:g}", ((150, (1, 2, 5)),))


def style_log_time_axis(ax: Axes) -> None:
    """Make the horizontal axis logarithmic, with labels in plain text."""
    ax.set_xscale("log")
    set_log_ticks(ax.xaxis, scientific_tick_label)


def set_log_ticks(
    axis: Axis,
    form: str | Callable[[float, float], str],
    multiples: Iterable[tuple[float, tuple[float, ...]]] = (),
) -> None:
    """Put ticks at powers of ten, and on short axes at multiples of these.

    Parameters
    ----------
    axis : matplotlib.axis.Axis
    form : str or callable
        Format of the labels; see `matplotlib.axis.Axis.set_major_formatter`.
    multiples : iterable of (float, tuple of float), optional
        Pairs of the largest ratio of the ends of the axis, and the multiples that are labelled.
    """
    low, high = axis.get_view_interval()
    subs = next((subs for ratio, subs in multiples if high < ratio * low), (1,))
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(form)
    axis.set_minor_formatter(NullFormatter())


def scientific_tick_label(value: float, place: float = 0.0) -> str:
    """A number as one or two digits times a power of ten; a digit 1 is left out."""
    power = math.floor(math.log10(value) + 1e-9)
    digits = f"{value / 10.0**power:.2g}"
    return f"{'' if digits == '1' else f'{digits}·'}10{superscript_number(power)}"


def superscript_number(power: int) -> str:
    """An integer as superscript."""
    return str(power).translate(SUPERSCRIPTS)


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure to a file, in the format given by the ending of `path`.

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
        If the ending is not one of a known format, such as .png, .pdf or .svg, or there is no such
        directory.
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
    try:
        with rc_context(STYLE):  # for a figure that is not a `Drawing`
            write_figure(figure, path, dpi=200)
    except FileNotFoundError:
        raise InputError(
            f"cannot write {path}: there is no directory {path.parent}; create it", key="output"
        ) from None
    return path


def write_figure(figure: Figure, file: str | Path | IO[Any], **options: Any) -> None:
    """Write a figure to a path or file; write control characters in its text as escapes.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    file : str, Path or file object
    **options
        See `matplotlib.figure.Figure.savefig`.
    """
    for artist in figure.findobj(Text):
        if isinstance(artist, Text):  # an SVG with control characters is invalid
            artist.set_text(escape_controls_in_lines(artist.get_text()))
    figure.savefig(file, **options)


def show_in_notebooks(figure: Figure) -> Figure:
    """Let notebooks display a figure at the end of a cell, as PNG, and as SVG if that is small.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        A `Drawing`, or the figure of a plugin.

    Returns
    -------
    matplotlib.figure.Figure
        The same figure.
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
