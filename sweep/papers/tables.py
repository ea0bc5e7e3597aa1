"""Printed figures beside computed ones: a table."""

import math
from collections.abc import Sequence

from sweep.papers.agreement import Agreement
from sweep.papers.claims import Row
from sweep.tables.base import Table

MEANINGS = {  # printed behind the number of figures
    Agreement.DIGITS: "in all digits that the paper prints",
    Agreement.RANGE: "within the range of the ensemble",
    Agreement.MAGNITUDE: "within a factor of 10",
    Agreement.BEHAVIOUR: "further off, but the runs do what the paper shows by it",
}


def claims_as_table(rows: Sequence[Row]) -> Table:
    """A table of printed and computed figures, the bounds of the latter, and their settings.

    Parameters
    ----------
    rows : sequence of Row
        As `reproduce` gives them.

    Returns
    -------
    Table
        Notes count the figures that are not reproduced, then the others by `Agreement`.
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
    """The printed figure with the paper's digits, at most five; an en dash without one."""
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
    """What is not reproduced, then what is, by agreement; then the other values within bounds."""
    found = [row.agreement for row in rows if row.agreement is not None]
    missed = [row for row in rows if row.agreement is Agreement.NONE]
    others = [row for row in rows if row.agreement is not Agreement.NONE]
    within = sum(row.holds for row in others)
    notes = [
        f"{within} of {len(others)} {'other ' if missed else ''}computed values are within bounds "
        "about what the setting gives here, whether the paper prints that or not"
    ]
    if found:
        notes = [
            f"{len(found) - len(missed)} of {len(found)} printed figures are reproduced, each as "
            "far as stands here:",
            *(
                f"{found.count(agreement):6}  {agreement:{max(map(len, MEANINGS))}}  {meaning}"
                for agreement, meaning in MEANINGS.items()
            ),
            *notes,
        ]
    if missed:
        outside = sum(not row.holds for row in missed)
        first = (
            f"{len(missed)} of {len(found)} printed figures {'is' if len(missed) == 1 else 'are'} "
            "not reproduced: further off, or the runs do not do what the paper shows"
        )
        also = f"; {outside} OUTSIDE the bounds about what the setting gives here"
        notes = [first + also * (outside > 0), *notes]
    return notes
