"""Symplectic defects and reversal errors: a table."""

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
    from sweep.analysis.structure import StructureEstimate

DECLARED = {True: "symmetric", False: "not symmetric", None: "–"}
DISPUTED = "≠"  # behind a declaration that a measurement contradicts


def structure_as_table(estimates: Sequence[StructureEstimate]) -> Table:
    """A table of symplectic defects and reversal errors, of those that are recorded.

    Parameters
    ----------
    estimates : sequence of StructureEstimate
    """
    axes = scanned_axes_of_rows(estimates)
    steps = step_columns_of_rows(estimates)
    defects = any(row.verdict for row in estimates)
    reversals = any(math.isfinite(row.reversal.median) for row in estimates)
    headers = ["integrator", *axes, *(name.replace("_", " ") for name in steps), "starts"]
    headers += ["symplectic defect", "largest", "resolution", "verdict"] if defects else []
    reversal = ["reversal error", "largest", "rounding", "returned", "declared"]
    headers += reversal if reversals else []
    cells = [
        [
            row.integrator,
            *(format_number(row.parameters[axis]) for axis in axes),
            *(format_number(getattr(row, name)) for name in steps),
            str(row.starts),
            *(_defect_cells(row) if defects else []),
            *(_reversal_cells(row) if reversals else []),
        ]
        for row in estimates
    ]
    notes = [*_disputes_note(estimates), *left_out_runs_note(estimates)]
    title = _structure_title(estimates, defects, reversals)
    summary = " ".join(summarize_structure(estimates))
    return Table(headers, cells, title, notes, summary=summary)


def _defect_cells(row: StructureEstimate) -> list[str]:
    values = row.defect.median, row.defect.high, row.largest_resolved
    return [*map(scientific_cell, values), row.verdict or "–"]


def _reversal_cells(row: StructureEstimate) -> list[str]:
    values = row.reversal.median, row.reversal.high, row.largest_rounding
    declared = DECLARED[row.symmetric] + f" {DISPUTED}" * row.disputed
    return [*map(scientific_cell, values), row.returned or "–", declared]


def _disputes_note(estimates: Sequence[StructureEstimate]) -> list[str]:
    labels = dict.fromkeys(row.integrator for row in estimates if row.disputed)
    if not labels:
        return []
    return [
        f"{DISPUTED} {', '.join(labels)}: declared symmetric, but runs do not return to round-off, "
        "as those of a method that is not symmetric, or of a motion that enlarges rounding"
    ]


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
