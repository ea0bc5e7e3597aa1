"""The table that compares printed and computed numbers."""

import math
from collections.abc import Sequence

from sweep.papers.agreement import Agreement
from sweep.papers.claims import Row
from sweep.tables.base import Table

MEANINGS = {  # text after the count of numbers
    Agreement.DIGITS: "in all digits that the paper prints",
    Agreement.RANGE: "within the range of the ensemble",
    Agreement.MAGNITUDE: "within a factor of 10",
    Agreement.BEHAVIOUR: "further off, but the runs behave as in the paper",
}


def claims_as_table(rows: Sequence[Row]) -> Table:
    """A table of printed and computed numbers, with bounds and settings of the computed ones.

    Parameters
    ----------
    rows : sequence of Row
        Rows from `reproduce`.

    Returns
    -------
    Table
        Its notes give the count of numbers that are not reproduced, then counts by `Agreement`.
    """
    headers = ["part", "figure", "paper", "here", "agreement", "range", "bounds", "", "setting"]
    cells = [
        [
            row.part,
            row.claim,
            _printed_value_cell(row),
            f"{row.here:.5e}",
            row.agreement or "–",
            "–" if row.least == row.most else f"{row.least:.2e} – {row.most:.2e}",
            _bounds_cell(row),
            "holds" if row.holds else "OUTSIDE",
            row.setting,
        ]
        for row in rows
    ]
    return Table(headers, cells, notes=_agreement_notes(rows))


def _printed_value_cell(row: Row) -> str:
    """The printed number with at most five of its digits; an en dash if there is none."""
    return (
        "–"
        if row.paper is None or row.digits is None
        else f"{row.paper:.{min(row.digits, 5) - 1}e}"
    )


def _bounds_cell(row: Row) -> str:
    if math.isinf(row.high):
        return f"≥ {row.low:.2e}"
    if row.low == 0:
        return f"≤ {row.high:.2e}"
    return f"{row.low:.4e} – {row.high:.4e}"


def _agreement_notes(rows: Sequence[Row]) -> list[str]:
    """Count numbers that are not reproduced, the others by agreement, and other values."""
    found = [row.agreement for row in rows if row.agreement is not None]
    missed = [row for row in rows if row.agreement is Agreement.NONE]
    others = [row.holds for row in rows if row.agreement is None]
    notes = []
    if others:
        words = "values without a printed number are within their bounds"
        notes.append(f"{sum(others)} of {len(others)} {words}")
    if beyond := sum(not row.holds for row in rows if row.agreement not in (None, Agreement.NONE)):
        notes.append(f"{beyond} reproduced OUTSIDE the bounds of the computed value")
    if found:
        notes = [
            f"{len(found) - len(missed)} of {len(found)} printed numbers are reproduced, with "
            "this agreement:",
            *(
                f"{found.count(agreement):6}  {agreement:{max(map(len, MEANINGS))}}  {meaning}"
                for agreement, meaning in MEANINGS.items()
            ),
            *notes,
        ]
    if missed:
        outside = sum(not row.holds for row in missed)
        first = (
            f"{len(missed)} of {len(found)} printed numbers {'is' if len(missed) == 1 else 'are'} "
            "not reproduced: further off, or the runs behave otherwise than in the paper"
        )
        also = f"; {outside} OUTSIDE the bounds of the computed value"
        notes = [first + also * (outside > 0), *notes]
    return notes
