"""Pictures embedded in an HTML page, as SVG elements or as PNG if the SVG is too large."""

import base64
import io
import re
import warnings
from typing import NamedTuple

import xarray as xr
from markupsafe import escape
from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image

from sweep.plots.captions import setting_caption
from sweep.plots.kinds import KINDS
from sweep.plots.style import STYLE, Drawing, compact, write_figure

MOST_OF_ALL = 3_000_000  # bytes of all pictures of a page
MOST_SVG = 250_000  # bytes of one picture; larger SVG elements are slow to scroll
LEAST_SVG = 8_000  # bytes: a picture with axes and a legend has more
DPI = 220  # for PNG and rasterized parts: at least two pixels for each pixel of a narrow window
COARSE_DPI = 110  # for PNG in a page with many pictures
COARSE_BYTES = 40_000  # if fewer bytes than this are left for each picture, PNG is coarse


class EmbeddedPicture(NamedTuple):
    """A picture as HTML.

    Attributes
    ----------
    svg : str
        An SVG element, or empty.
    png : str
        A PNG in base64, or empty.
    width, height : int
        Size in points.
    setting : str
        Parameters, duration and starts of the runs in the picture.
    """

    svg: str
    png: str
    width: int
    height: int
    setting: str


def draw_embedded_picture(
    kind: str, dataset: xr.Dataset, name: str, said: str, most: int
) -> EmbeddedPicture:
    """Draw a picture of an experiment for a narrow column of a page.

    Parameters
    ----------
    kind : str
        A key of `sweep.plots.KINDS`.
    dataset : xarray.Dataset
    name : str
        An identifier that is unique in the page, of letters, digits and hyphens.
    said : str
        Alternative text for readers who do not see the picture.
    most : int
        Maximum number of bytes of an SVG; a larger picture is embedded as PNG.

    Returns
    -------
    EmbeddedPicture

    Raises
    ------
    InputError
        If the dataset lacks results for the picture.
    """
    with compact(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has fonts for these
        figure: Drawing = KINDS[kind].draw(dataset)  # without heading; the page has its own
        width, height = (round(72 * size) for size in figure.get_size_inches())
        setting = setting_caption(dataset, figure.starts, figure.error_times)
        if most >= LEAST_SVG:
            svg = figure_as_inline_svg(figure, name, said)
            if len(svg.encode()) <= most:
                return EmbeddedPicture(svg, "", width, height, setting)
        png = _figure_as_base64_png(figure, DPI if most > COARSE_BYTES else COARSE_DPI)
        return EmbeddedPicture("", png, width, height, setting)


def max_svg_bytes_per_picture(count: int) -> int:
    """Maximum number of bytes of each SVG in a page with `count` pictures."""
    return min(MOST_SVG, MOST_OF_ALL // max(1, count))


def figure_as_inline_svg(figure: Figure, name: str, said: str) -> str:
    """Convert a figure to an SVG element of an HTML page.

    Text remains text, in the font of the page. Identifiers get the prefix `name`, so that they are
    unique in the page. Coordinates are rounded to visible precision.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    name : str
        Prefix of identifiers.
    said : str
        Alternative text for readers who do not see the picture.

    Returns
    -------
    str
    """
    buffer = io.StringIO()
    nothing: dict[str, None] = dict.fromkeys(("Date", "Creator", "Format", "Type"))
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
    (box,) = re.findall(r'viewBox="[^"]+"', text[: text.index(">")])
    opening = f'<svg {box} role="img" aria-label="{escape(said)}">'
    return opening + text[text.index(">") + 1 :].strip()


def _figure_as_base64_png(figure: Figure, dpi: int) -> str:
    buffer = io.BytesIO()
    with rc_context(STYLE):
        write_figure(figure, buffer, format="png", dpi=dpi)
    buffer.seek(0)
    few_colours = Image.open(buffer).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    small = io.BytesIO()
    few_colours.save(small, format="png", optimize=True)
    return base64.b64encode(small.getvalue()).decode()
