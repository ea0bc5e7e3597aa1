"""What a paper prints beside what was computed."""

import math

from sweep.tables.base import Table

MEANINGS = {  # of each `sweep.papers.Agreement`, behind the number of figures
    "digits": "in all digits that the paper prints",
    "range": "within the range of the ensemble",
    "magnitude": "within a factor of 10",
    "behaviour": "further off, but the runs do what the paper shows by it",
    "not reproduced": "further off, or the runs do not do what the paper shows",
}


def paper_claims_as_table(rows):
    """What a paper prints, what was computed, within which bounds, and in which setting.

    Parameters
    ----------
    rows : sequence of sweep.papers.Row
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
    return Table(headers, cells, notes=_paper_agreement_note(rows))


def _printed_value_cell(row):
    """With as many digits as the paper prints, and five of those of a formula."""
    return "–" if row.paper is None else f"{row.paper:.{min(row.digits, 5) - 1}e}"


def _bounds_cell(row):
    if math.isinf(row.high):
        return f"≥ {row.low:.2e}"
    if row.low == 0:
        return f"≤ {row.high:.2e}"
    return f"{row.low:.4e} – {row.high:.4e}"


def _paper_agreement_note(rows):
    """How many figures are within their bounds, and how many agree how far with printed ones."""
    found = [row.agreement for row in rows if row.paper is not None]
    counts = [
        f"{found.count(agreement):6}  {agreement:{max(map(len, MEANINGS))}}  {meaning}"
        for agreement, meaning in MEANINGS.items()
    ]
    return [
        f"{sum(row.holds for row in rows)} of {len(rows)} figures are within their bounds, which "
        "are about the value that the setting gives",
        f"{len(found)} of them stand beside a printed one:",
        *counts,
    ]
