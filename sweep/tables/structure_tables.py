"""Tables of what integrators preserve, compared with what they are declared to preserve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweep.analysis.sentences import summarize_structure
from sweep.tables import base

if TYPE_CHECKING:
    from sweep.analysis.structure import StructureEstimate

DISPUTED = "≠"  # marks a declaration that a measurement contradicts
DISPUTES = {
    "symplectic_disputed": "declared symplectic, and measured not to be",
    "disputed": "declared symmetric, but runs do not return to round-off, as those of a method "
    "that is not symmetric, or of a motion that enlarges rounding",
}


def structure_as_tables(estimates: Sequence[StructureEstimate]) -> list[base.Table]:
    """A table of symplectic defects and reversal errors, and a table of kept quantities.

    A table is left out if nothing of it was recorded.

    Parameters
    ----------
    estimates : sequence of StructureEstimate

    Returns
    -------
    list of Table
    """
    kept = any(row.quantities for row in estimates)
    measured = any(row.verdict or row.returned for row in estimates)
    return [
        *([_defect_and_reversal_table(estimates)] if measured else []),
        *([_kept_quantities_table(estimates)] if kept else []),
    ]


def _defect_and_reversal_table(estimates: Sequence[StructureEstimate]) -> base.Table:
    first, columns, titles = estimates[0], _starting_columns(estimates), []
    if any(row.verdict for row in estimates):
        columns += [
            base.scientific_column("symplectic defect", "defect.median"),
            base.scientific_column("largest", "defect.high"),
            base.scientific_column("resolution", "largest_resolved"),
            ("verdict", lambda row: row.verdict or "–"),
            _declared_column("declared to be", "symplectic", "symplectic_disputed", "symplectic"),
        ]
        titles.append(
            "symplectic defect: max |JᵀΩJ − Ω| / max |Ω| of the first step (adaptive: of the first "
            "sample interval); resolution: the defect that rounding or differences alone can cause"
        )
    if any(row.returned for row in estimates):
        columns += [
            base.scientific_column("reversal error", "reversal.median"),
            base.scientific_column("largest", "reversal.high"),
            base.scientific_column("rounding", "largest_rounding"),
            ("returned", lambda row: row.returned or "–"),
            _declared_column("declared", "symmetric", "disputed", "symmetric", "not symmetric"),
        ]
        time = "" if first.time_units == "1" else f" {first.time_units}"
        titles.append(
            "reversal error: distance from the start after as many steps back from "
            f"t = {first.duration:g}{time}; rounding: the error that rounding alone can cause"
        )
    if max(row.starts for row in estimates) > 1:
        titles.append("medians and largest over the starts")
    notes = []
    for disputed, why in DISPUTES.items():
        if labels := dict.fromkeys(row.integrator for row in estimates if getattr(row, disputed)):
            notes.append(f"{DISPUTED} {', '.join(labels)}: {why}")
    notes += base.left_out_runs_note(estimates)
    summary = " ".join(summarize_structure(estimates))
    kept = ["verdict", "returned"]
    return base.table_of_rows(
        estimates, columns, kept, title="; ".join(titles), notes=notes, summary=summary
    )


def _kept_quantities_table(estimates: Sequence[StructureEstimate]) -> base.Table:
    of_row = _starting_columns(estimates)
    of_quantity: list[base.Column] = [
        ("quantity", lambda kept: kept.quantity.replace("_", " ")),
        base.scientific_column("largest |error|", "largest"),
        base.scientific_column("rounding", "rounding"),
        ("kept", lambda kept: kept.kept or "–"),
        _declared_column("declared", "declared", "disputed", "yes"),
    ]
    cells = [
        [*(cell(row) for _, cell in of_row), *(cell(kept) for _, cell in of_quantity)]
        for row in estimates
        for kept in row.quantities
    ]
    title = (
        "invariants and constraints: largest |error| of all starts; rounding: the error that "
        "rounding alone can cause; declared: whether the integrator is declared to keep it"
    )
    lost = any(quantity.disputed for row in estimates for quantity in row.quantities)
    notes = [f"{DISPUTED}: declared to be kept, and measured not to be"] if lost else []
    headers = [header for header, _ in (*of_row, *of_quantity)]
    shown = ["quantity", "largest |error|", "kept", "declared"]
    return base.Table(headers, cells, title, notes, kept=shown)


def _starting_columns(estimates: Sequence[StructureEstimate]) -> list[base.Column]:
    return [*base.setting_columns(estimates), ("starts", lambda row: str(row.starts))]


def _declared_column(
    header: str, name: str, disputed: str, yes: str, no: str = "no"
) -> base.Column:
    """A column with what an integrator is declared to do, marked where a measurement disagrees."""
    words = {True: yes, False: no, None: "–"}
    return header, lambda row: words[getattr(row, name)] + f" {DISPUTED}" * getattr(row, disputed)
