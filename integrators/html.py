"""Tables and facts as HTML, by which a notebook shows objects.

Colours are those of the page, so that it is legible in dark mode; all text is escaped.
"""

import html
import numbers
from collections.abc import Mapping, Sequence


def html_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    title: str = "",
    notes: Sequence[str] = (),
) -> str:
    """A table with a line above it and lines below.

    Parameters
    ----------
    headers : sequence of str
    rows : sequence of sequence
        Cells: text, or whatever `str` makes text of; numbers are put to the right.
    title : str, optional
    notes : sequence of str, optional

    Returns
    -------
    str
        One ``div``, without script or style sheet.
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(headers)
    sides = ["right" if _is_number_column(column) else "left" for column in columns]
    head = "".join(_cell("th", side, text) for text, side in zip(headers, sides, strict=True))
    lines = (
        "".join(_cell("td", side, cell) for cell, side in zip(row, sides, strict=True))
        for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return _html_block(title, f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>", notes)


def html_facts(title: str, facts: Mapping[str, object], notes: Sequence[str] = ()) -> str:
    """Facts of one thing, a line each.

    Parameters
    ----------
    title : str
    facts : mapping of str to (str, or mapping of str to str)
        A mapping has a line for each of its items; empty values are left out.
    notes : sequence of str, optional

    Returns
    -------
    str
        HTML, as of `html_table`.
    """
    rows = "".join(
        f"<tr>{_cell('th', 'left', name)}<td style='text-align:left'>{_html_lines(value)}</td></tr>"
        for name, value in facts.items()
        if value not in ("", None) and value != {}
    )
    return _html_block(title, f"<tbody>{rows}</tbody>", notes)


def html_text(text: str, bold: bool = False) -> str:
    """Lines of text, as a heading where they are bold."""
    weight = " style='font-weight:600'" if bold else ""
    return "".join(f"<div{weight}>{html.escape(line)}</div>" for line in text.splitlines())


def _html_block(title: str, table: str, notes: Sequence[str]) -> str:
    below = "".join(map(html_text, notes))
    table = f"<table style='border-collapse:collapse'>{table}</table>"
    return f"<div style='overflow-x:auto;line-height:1.4'>{html_text(title)}{table}{below}</div>"


def _cell(tag: str, side: str, value: object) -> str:
    return f"<{tag} style='text-align:{side}'>{html.escape(str(value))}</{tag}>"


def _html_lines(value: object) -> str:
    if isinstance(value, Mapping):
        return "<br>".join(html.escape(f"{name}: {item}") for name, item in value.items())
    return html.escape(str(value))


def _is_number_column(cells: Sequence[object]) -> bool:
    """Whether all cells are numbers, or text that begins like one, or a dash for none."""
    return len(cells) > 0 and all(
        isinstance(cell, numbers.Number)
        or (isinstance(cell, str) and (cell[:1] == "–" or cell.lstrip("+-.~≤±")[:1].isdigit()))
        for cell in cells
    )
