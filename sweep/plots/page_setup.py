"""The page that figures are for: their width, their type, and whether words stand above them."""

import contextlib
import contextvars
import re
from dataclasses import dataclass

from matplotlib import rc_context
from matplotlib.font_manager import get_font_names

from integrators.errors import InputError, nearest

NARROW = 4.0  # inches: at 368 px, in a window of 400, type of 8 points is 10 px high
WIDE = 5.0  # from here on panels and legend stand side by side
LEAST, MOST = 2.0, 40.0  # inches of a figure that is legible, and of any page
INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}  # a point is that of TeX
GENERIC = ("serif", "sans-serif", "monospace")
MOST_NAMED = 40  # fonts in a message
FALLBACK = {"serif": "DejaVu Serif", "monospace": "DejaVu Sans Mono"}  # has what others lack


@dataclass(frozen=True)
class Page:
    """What figures are drawn for.

    Attributes
    ----------
    width : float or None
        Of every figure, in inches; None where each kind has its own.
    heading : bool
        Whether it is said above a figure what it shows.
    """

    width: float | None = None
    heading: bool = True

    @property
    def narrow(self) -> bool:
        """Whether panels and legend stand below one another."""
        return self.width is not None and self.width < WIDE


_USUAL = Page()
_page = contextvars.ContextVar("page", default=_USUAL)


@contextlib.contextmanager
def page(width: str | float | None = None, font: str | None = None, heading: bool = True):
    """Within it figures are drawn for a page of a paper.

    Parameters
    ----------
    width : str or float, optional
        Of every figure: ``"3.4in"``, ``"86mm"``, ``"8.6cm"``, ``"246pt"``, or inches.
    font : str, optional
        A family: ``"serif"``, ``"sans-serif"``, ``"monospace"``, or the name of one that is
        installed.
    heading : bool, optional
        Whether it is said above a figure what it shows; else `caption` has it, for the paper's own.

    Raises
    ------
    InputError
        For a width that is none, or too small or too large, and for a font that is not installed.

    Examples
    --------
    >>> with page("3.4in", "serif", heading=False):                  # doctest: +SKIP
    ...     save(picture("order", tree["pendulum"]), "order.pdf")
    """
    style = {} if font is None else {"font.family": _font_families(font)}
    around = current_page()
    inches = around.width if width is None else width_in_inches(width)
    token = _page.set(Page(inches, heading and around.heading))
    try:
        with rc_context(style):
            yield
    finally:
        _page.reset(token)


def compact():
    """A `page` of a narrow column: panels and legend below one another."""
    return page(NARROW)


def current_page() -> Page:
    """The page that figures are drawn for, see `page`."""
    return _page.get()


def width_in_inches(width: str | float) -> float:
    """A width as text, with its unit, or in inches; `InputError` if it is none."""
    found = re.fullmatch(rf"(\d+\.?\d*|\.\d+) ?({'|'.join(INCHES)})", str(width).strip())
    inches = float(found[1]) * INCHES[found[2]] if found else width
    if isinstance(inches, str) or not LEAST <= inches <= MOST:
        raise InputError(
            f"width {width!r}; expected a length from {LEAST:g}in to {MOST:g}in with its unit, "
            "as 3.4in, 86mm, 8.6cm or 246pt",
            key="width",
        )
    return float(inches)


def _font_families(font: str) -> list:
    """A family, and the one that has the signs which it lacks; `InputError` if there is none."""
    known = {name.lower(): name for name in (*GENERIC, *sorted(get_font_names()))}
    if font.lower() not in known:
        there = list(known.values())
        close = nearest(font, there)
        more = f" and {len(there) - MOST_NAMED} more" if len(there) > MOST_NAMED else ""
        raise InputError(
            f"there is no font {font!r}.{close if close.startswith(' Did') else ''} "
            f"There are: {', '.join(there[:MOST_NAMED])}{more}",
            key="font",
        )
    return [known[font.lower()], FALLBACK.get(font.lower(), "DejaVu Sans")]
