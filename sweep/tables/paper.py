"""What a paper prints beside what was computed."""

import math

from sweep.tables.base import Table


def claims(rows):
    """What a paper prints, what was computed, within which bounds, and in which setting.

    Parameters
    ----------
    rows : sequence of sweep.reproduce.Row
    """
    headers = ["part", "figure", "paper", "here", "as printed", "range", "bounds", ""]
    headers += ["setting"]
    cells = [
        [
            row.part,
            row.claim,
            "–" if row.paper is None else f"{row.paper:.4e}",
            f"{row.here:.5e}",
            "–" if row.paper is None else "yes" if row.as_printed else "no",
            "–" if row.least == row.most else f"{row.least:.2e} – {row.most:.2e}",
            _bounds(row),
            "holds" if row.holds else "OUTSIDE",
            row.setting,
        ]
        for row in rows
    ]
    return Table(headers, cells)


def _bounds(row):
    if math.isinf(row.high):
        return f"≥ {row.low:.2e}"
    if row.low == 0:
        return f"≤ {row.high:.2e}"
    return f"{row.low:.4e} – {row.high:.4e}"
