"""Pictures inside of a page: SVG that is part of it, or PNG where that is smaller."""

import base64
import io
import re
import warnings
from dataclasses import dataclass

from markupsafe import escape
from matplotlib import rc_context
from PIL import Image

from sweep.plots.captions import setting_caption
from sweep.plots.kinds import KINDS
from sweep.plots.page_setup import compact
from sweep.plots.style import STYLE, write_figure

MOST_OF_ALL = 3_000_000  # bytes of a page's pictures
MOST_SVG = 250_000  # bytes of one; more are slow to scroll
DPI = 220  # of what is no vectors: two pixels for each of a narrow window, and more
COARSE = 110, 40_000  # DPI where a page has so many pictures that each may be so few bytes


@dataclass(frozen=True)
class Drawn:
    """A picture as HTML.

    Attributes
    ----------
    svg : str
        An element, or empty.
    png : str
        Base64, or empty.
    width, height : int
        In points.
    setting : str
        Parameters, duration and starts of what it shows.
    """

    svg: str
    png: str
    width: int
    height: int
    setting: str


def draw_embedded_picture(kind, dataset, name, said, most):
    """One picture of an experiment, drawn for a narrow column.

    Parameters
    ----------
    kind : str
    dataset : xarray.Dataset
    name : str
        Unique in the page, of letters, digits and hyphens.
    said : str
        What it shows, for those who do not see it.
    most : int
        Bytes up to which it is SVG.

    Returns
    -------
    Drawn

    Raises
    ------
    InputError
        When the dataset has not the results for it.
    """
    with compact(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has other fonts
        figure = KINDS[kind].draw(dataset)  # the page has a heading of its own
        width, height = (round(72 * size) for size in figure.get_size_inches())
        said_of_it = setting_caption(dataset, figure.shown)
        svg = figure_as_inline_svg(figure, name, said)
        if len(svg.encode()) <= most:
            return Drawn(svg, "", width, height, said_of_it)
        png = _figure_as_base64_png(figure, DPI if most > COARSE[1] else COARSE[0])
        return Drawn("", png, width, height, said_of_it)


def max_svg_bytes_per_picture(count):
    """How large each of `count` pictures may be as SVG."""
    return min(MOST_SVG, MOST_OF_ALL // max(1, count))


def figure_as_inline_svg(figure, name, said):
    """A figure as an SVG element of an HTML page.

    Its text is text, in the page's type. Names are unique in the page, and numbers as fine as one
    sees.
    """
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with rc_context(STYLE | {"svg.hashsalt": name}):
        write_figure(figure, buffer, format="svg", dpi=DPI, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.S)
    text = text.replace("xlink:href", "href")
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'((?:href="|url\()#)', rf"\g<1>{name}-", text)
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
    text = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0]), text)
    text = re.sub(r">\s+<", "><", text)
    box = re.search(r'viewBox="[^"]+"', text)[0]
    opening = f'<svg {box} role="img" aria-label="{escape(said)}">'
    return opening + text[text.index(">") + 1 :].strip()


def _figure_as_base64_png(figure, dpi):
    buffer = io.BytesIO()
    with rc_context(STYLE):
        write_figure(figure, buffer, format="png", dpi=dpi)
    buffer.seek(0)
    few = Image.open(buffer).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    small = io.BytesIO()
    few.save(small, format="png", optimize=True)
    return base64.b64encode(small.getvalue()).decode()
