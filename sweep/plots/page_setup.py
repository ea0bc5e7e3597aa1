"""Page setup: width and font of figures, and whether they have headings."""

from __future__ import annotations

import contextlib
import contextvars
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.font_manager import get_font_names

from integrators.errors import InputError, suggest_nearest

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

NARROW = 4.0  # inches: at 368 px, in a window of 400, type of 8 points is 10 px high
WIDE = 5.0  # inches; from this width on panels and legend stand side by side
LEAST, MOST = 2.0, 40.0  # inches: the narrowest legible figure, and the widest page
INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}  # a point is that of TeX
GENERIC = ("serif", "sans-serif", "monospace")
MOST_NAMED = 40  # fonts in a message
# Fonts for the signs that others lack.
FALLBACK = {"serif": "DejaVu Serif", "monospace": "DejaVu Sans Mono"}


@dataclass(frozen=True)
class Page:
    """Page that figures are drawn for.

    Attributes
    ----------
    width : float or None
        Width of every figure in inches; None where each kind has its own.
    heading : bool
        Whether figures have a heading that says what they show.
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
def page(
    width: str | float | None = None, font: str | None = None, heading: bool = True
) -> Iterator[None]:
    """Context manager within which figures are drawn for a page of a paper.

    Parameters
    ----------
    width : str or float, optional
        Width of every figure: ``"3.4in"``, ``"86mm"``, ``"8.6cm"``, ``"246pt"``, or inches.
    font : str, optional
        A font family: ``"serif"``, ``"sans-serif"``, ``"monospace"``, or the name of an installed
        one.
    heading : bool, optional
        Whether figures have a heading that says what they show. It is in ``figure.caption`` too.

    Raises
    ------
    InputError
        For a width that is no length, or too small or too large; for a font that is not installed.

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
    """A `page` with a narrow column: panels and legend stand below one another."""
    return page(NARROW)


def current_page() -> Page:
    """The `Page` that figures are drawn for."""
    return _page.get()


def width_in_inches(width: str | float) -> float:
    """Convert a width, in inches or as text with a unit, to inches; `InputError` if it is none."""
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
    """A font family, and one for the signs that it lacks; `InputError` if it is not installed."""
    known = {name.lower(): name for name in (*GENERIC, *sorted(get_font_names()))}
    if font.lower() not in known:
        names = list(known.values())
        close = suggest_nearest(font, names)
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        raise InputError(
            f"there is no font {font!r}.{close if close.startswith(' Did') else ''} "
            f"There are: {', '.join(names[:MOST_NAMED])}{more}",
            key="font",
        )
    return [known[font.lower()], FALLBACK.get(font.lower(), "DejaVu Sans")]
