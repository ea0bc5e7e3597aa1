"""What is preserved, beside what is declared to be: tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweep.analysis.summary import summarize_structure
from sweep.tables.base import (
    Table,
    left_out_runs_note,
    scanned_axes_of_rows,
    scientific_cell,
    step_columns_of_rows,
)
from sweep.text import format_number

if TYPE_CHECKING:
    from sweep.analysis.structure import KeptQuantity, StructureEstimate

DECLARED = {True: "symmetric", False: "not symmetric", None: "–"}
YES = {True: "yes", False: "no", None: "–"}
DISPUTED = "≠"  # behind a declaration that a measurement contradicts


def structure_as_tables(estimates: Sequence[StructureEstimate]) -> list[Table]:
    """A table of symplectic defects and reversal errors, and one of kept quantities.

    Each where something of it is recorded.

    Parameters
    ----------
    estimates : sequence of StructureEstimate
    """
    axes = scanned_axes_of_rows(estimates)
    steps = step_columns_of_rows(estimates)
    defects = any(row.verdict for row in estimates)
    reversals = any(math.isfinite(row.reversal.median) for row in estimates)
    first = ["integrator", *axes, *(name.replace("_", " ") for name in steps), "starts"]
    leading = [
        [
            row.integrator,
            *(format_number(row.parameters[axis]) for axis in axes),
            *(format_number(getattr(row, name)) for name in steps),
            str(row.starts),
        ]
        for row in estimates
    ]
    found = []
    if defects or reversals:
        headers = [*first]
        if defects:
            headers += ["symplectic defect", "largest", "resolution", "verdict", "declared to be"]
        if reversals:
            headers += ["reversal error", "largest", "rounding", "returned", "declared"]
        cells = [
            [
                *begins,
                *(_defect_cells(row) if defects else []),
                *(_reversal_cells(row) if reversals else []),
            ]
            for begins, row in zip(leading, estimates, strict=True)
        ]
        notes = [*_disputes_note(estimates), *left_out_runs_note(estimates)]
        title = _structure_title(estimates, defects, reversals)
        summary = " ".join(summarize_structure(estimates))
        found.append(Table(headers, cells, title, notes, summary=summary))
    kept = [
        [*begins, quantity.quantity.replace("_", " "), *_kept_cells(quantity)]
        for begins, row in zip(leading, estimates, strict=True)
        for quantity in row.quantities
    ]
    if kept:
        headers = [*first, "quantity", "largest |error|", "rounding", "kept", "declared"]
        title = (
            "invariants and constraints: largest |error| of all starts, what the roundings of all "
            "steps can add up to, and whether it is declared to be kept"
        )
        lost = any(quantity.disputed for row in estimates for quantity in row.quantities)
        notes = [f"{DISPUTED}: declared to be kept, and measured not to be"] if lost else []
        found.append(Table(headers, kept, title, notes))
    return found


def _kept_cells(quantity: KeptQuantity) -> list[str]:
    declared = YES[quantity.declared] + f" {DISPUTED}" * quantity.disputed
    numbers = map(scientific_cell, (quantity.largest, quantity.rounding))
    return [*numbers, quantity.kept or "–", declared]


def _defect_cells(row: StructureEstimate) -> list[str]:
    values = row.defect.median, row.defect.high, row.largest_resolved
    declared = {True: "symplectic", False: "no", None: "–"}[row.symplectic]
    declared += f" {DISPUTED}" * row.symplectic_disputed
    return [*map(scientific_cell, values), row.verdict or "–", declared]


def _reversal_cells(row: StructureEstimate) -> list[str]:
    values = row.reversal.median, row.reversal.high, row.largest_rounding
    declared = DECLARED[row.symmetric] + f" {DISPUTED}" * row.disputed
    return [*map(scientific_cell, values), row.returned or "–", declared]


def _disputes_note(estimates: Sequence[StructureEstimate]) -> list[str]:
    notes = []
    if labels := dict.fromkeys(row.integrator for row in estimates if row.symplectic_disputed):
        notes.append(f"{DISPUTED} {', '.join(labels)}: declared symplectic, and measured not to be")
    if labels := dict.fromkeys(row.integrator for row in estimates if row.disputed):
        notes.append(
            f"{DISPUTED} {', '.join(labels)}: declared symmetric, but runs do not return to "
            "round-off, as those of a method that is not symmetric, or of a motion that enlarges "
            "rounding"
        )
    return notes


def _structure_title(estimates: Sequence[StructureEstimate], defects: bool, reversals: bool) -> str:
    first, parts = estimates[0], []
    if defects:
        parts.append(
            "symplectic defect max |JᵀΩJ − Ω| / max |Ω| of the first step (adaptive: of the first "
            "sample interval), and the resolution: what rounding or differences can make of none"
        )
    if reversals:
        time = "" if first.time_units == "1" else f" {first.time_units}"
        parts.append(
            "reversal error: distance from the start after as many steps back from "
            f"t = {first.duration:g}{time}, and what the roundings of so many steps can add up to"
        )
    several = max(row.starts for row in estimates) > 1
    median = ["medians and largest over the starts"] if several else []
    return "; ".join([*parts, *median])
