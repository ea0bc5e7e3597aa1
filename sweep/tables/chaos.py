"""Lyapunov exponents and MEGNO: a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sweep.analysis.summary import summarize_chaos
from sweep.tables.base import (
    Table,
    left_out_runs_note,
    scanned_axes_of_rows,
    scientific_cell,
    step_columns_of_rows,
    table_notes,
    two_decimal_cell,
)
from sweep.text import format_number

if TYPE_CHECKING:
    from sweep.analysis.chaos import ChaosEstimate
    from sweep.analysis.drift.drifts import Spread


def chaos_as_table(
    estimates: Sequence[ChaosEstimate], without: Mapping[str, str] | None = None
) -> Table:
    """A table of exponents, medians and range over the starts; below it what is undecided, and why.

    Parameters
    ----------
    estimates : sequence of ChaosEstimate
    without : dict of str to str, optional
        Why integrators have no exponents, by their labels.
    """
    first = estimates[0]
    axes, count = scanned_axes_of_rows(estimates), len(first.exponents)
    has_megno = any(not math.isnan(row.megno.median) for row in estimates)
    steps = step_columns_of_rows(estimates)
    headers = ["integrator", *axes, *(name.replace("_", " ") for name in steps), "starts"]
    several = count > 0 and max(row.starts for row in estimates) > 1
    names = ["λ"] if count == 1 else [f"λ{k + 1}" for k in range(count)]
    headers += [*names, *([f"{names[0]} over the starts"] if several else [])]
    headers += ["MEGNO", "verdict"] if has_megno else []
    cells = [
        [
            row.integrator,
            *(format_number(row.parameters[axis]) for axis in axes),
            *(format_number(getattr(row, name)) for name in steps),
            f"{row.starts} of {row.starts + row.left_out}" if row.left_out else str(row.starts),
            *(scientific_cell(exponent.median, 3) for exponent in row.exponents),
            *([_range_cell(row.exponents[0])] if several else []),
            *([two_decimal_cell(row.megno.median), row.verdict] if has_megno else []),
        ]
        for row in estimates
    ]
    time = "" if first.time_units == "1" else f" {first.time_units}"
    units = "" if first.units == "1" else f" [{first.units}]"
    until = max(row.duration for row in estimates)
    median = ", medians over the starts" if max(row.starts for row in estimates) > 1 else ""
    title = f"Lyapunov exponents{units} of the steps until t = {until:g}{time}{median}"
    notes = [*table_notes(estimates, lambda row: row.in_words), *left_out_runs_note(estimates)]
    notes += [f"{label}: {why}" for label, why in (without or {}).items()]
    if not has_megno:
        notes.append('Verdicts need "megno" in the record.')
    summary = " ".join(summarize_chaos(estimates))
    return Table(headers, cells, title, notes, summary=summary)


def _range_cell(exponent: Spread) -> str:
    """The least and the largest exponent of a start, or the only one."""
    low, high = (scientific_cell(value, 3) for value in (exponent.low, exponent.high))
    return low if low == high else f"{low} – {high}"
