"""Plain text for a terminal: numbers and tables. Needs nothing but Python."""

import math


def number(value, digits=3):
    """A number in as few characters as `digits` significant ones need; an en dash for none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    return str(value)


def format_table(headers, rows):
    """Text in aligned columns: words to the left, numbers to the right.

    Parameters
    ----------
    headers : sequence of str
    rows : sequence of sequence of str

    Returns
    -------
    str
        A header, a rule and one line for each row, without a newline at the end.
    """
    columns = list(zip(headers, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    right = [bool(rows) and all(_is_numeric(cell) for cell in column[1:]) for column in columns]
    lines = [list(headers), ["─" * width for width in widths], *map(list, rows)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _is_numeric(cell):
    return cell[:1] == "–" or cell.lstrip("+-.")[:1].isdigit()


def jsonable(value):
    """Numpy numbers as Python's, tuples as lists, and NaN and infinities as None."""
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    value = value.item() if hasattr(value, "dtype") and hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
