"""What all pictures have in common: colours, type, panels, axes, and how they are written."""

import math
from pathlib import Path

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from integrators.errors import InputError
from sweep.analysis.selection import codes

# Okabe and Ito's colours, told apart by colour-blind readers; without yellow, too pale for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
MARKERS = "osD^vPX<>*hp"
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
GREY = "0.55"
STYLE = {
    "font.size": 9.0,
    "legend.fontsize": 8.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "axes.titlesize": 9.0,
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
}
MOST_PANELS = 6


def looks_of(dataset):
    """Colour, marker and line of each integrator, by its place in the study.

    Later ones are finer, so that of curves that coincide the lower one still shows.
    """
    labels, _ = codes(dataset["integrator"].values)
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


def new_figure(width, height):
    """An empty figure that belongs to no window; width and height in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain_axis(ax, title=""):
    """An axis without a box, with its title on the left and a pale grid."""
    ax.set_title(title, loc="left")
    ax.grid(visible=True, which="major", lw=0.4, color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def panelled_figure(titles, said=""):
    """A figure with a panel for each title, and above them what it shows."""
    if len(titles) > MOST_PANELS:
        raise InputError(
            f"{len(titles)} combinations of scanned values are selected, and a figure holds "
            f"{MOST_PANELS}: select some, e.g. those with {titles[0]} "
            "(sweep plot --where, or query)."
        )
    columns = min(len(titles), 3)
    rows = -(-len(titles) // columns)
    figure = new_figure(3.0 + 3.8 * columns**0.8, 4.0 * rows**0.9)
    axes = list(figure.subplots(rows, columns, sharey=True, squeeze=False).flat)
    for ax, title in zip(axes, titles, strict=False):
        plain_axis(ax, title)
    for ax in axes[len(titles) :]:
        ax.remove()
    if len(titles) == 1:
        axes[0].set_title(said, loc="left", color="0.3")
    elif said:
        figure.suptitle(said, x=0.01, ha="left", fontsize=9, color="0.3")
    return figure, axes[: len(titles)]


def legend(figure, axes, title=None):
    """One legend beside the panels, each integrator once."""
    entries = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    look = {"frameon": False, "handlelength": 3.2, "title": title, "alignment": "left"}
    figure.legend(entries.values(), entries.keys(), loc="outside right center", **look)


def label_of(array, text, form="{} [{}]"):
    """`text` with the units of `array`, unless they are 1."""
    units = array.attrs.get("units", "1")
    return text if units == "1" else form.format(text, units)


def error_axis(ax):
    """A logarithmic axis labelled in plain text, which is drawn twice as fast as formulas.

    Of curves that are drawn already: where they span few powers of ten, others are labelled too.
    """
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    if high < 100 * low:
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(lambda value, place: _scientific(value))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _scientific(value):
    """A number of one digit times a power of ten, without the digit where it is 1."""
    power = math.floor(math.log10(value) + 1e-9)
    digit = round(value / 10.0**power)
    return f"{'' if digit == 1 else f'{digit}·'}10{raised(power)}"


def plain_step_ticks(ax):
    """Ticks at 1, 2 and 5 over a decade or two, written as decimals."""
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 150 * low else (1,)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def raised(power):
    """A whole number as superscript."""
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


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
    with rc_context(STYLE):
        figure.savefig(path, dpi=200)
    return path
