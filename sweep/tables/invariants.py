"""Errors of invariants: their drift, their growth, and the part that is rounding; by quantity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweep.analysis.drift.verdicts import GROWS, LINEAR, NONE, WORSE
from sweep.analysis.reasons import below_rounding_in_words
from sweep.analysis.summary import (
    rows_by_quantity,
    summarize_drifts,
    summarize_growth,
    summarize_sources,
)
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
    from sweep.analysis.drift.arithmetic import ArithmeticEstimate, DriftPart
    from sweep.analysis.drift.comparisons import DriftComparison
    from sweep.analysis.drift.drifts import DriftEstimate
    from sweep.analysis.drift.growth import GrowthEstimate

DRIFTING = (LINEAR, WORSE, GROWS)
# Properties of `DriftComparison`, and the headers of their columns.
COMPARED = {"equal_step": "at equal step size", "equal_cost": "in no more CPU time"}
COMPARISON_NOTE = (
    "n× less: than the drift, the mean over the same starts, of the integrator that drifts least "
    "of those that surely drift more (95 %, each)."
)


def drifts_as_tables(estimates: Sequence[DriftEstimate]) -> list[Table]:
    """A table of drifts for each quantity, medians over the starts; below it what is undecided.

    Parameters
    ----------
    estimates : sequence of DriftEstimate
    """
    return [_drift_table_of_quantity(rows) for rows in rows_by_quantity(estimates).values()]


def _drift_table_of_quantity(rows: Sequence[DriftEstimate]) -> Table:
    axes, steps = scanned_axes_of_rows(rows), step_columns_of_rows(rows)
    headers = ["integrator", *axes, *(name.replace("_", " ") for name in steps)]
    missing = any(row.left_out for row in rows)
    headers += [*(["starts"] if missing else []), "mean", "max", "drift", "|drift| ≤"]
    comparisons = [name for name in COMPARED if any(_closest_drifting(row, name) for row in rows)]
    headers += [*(COMPARED[name] for name in comparisons), "verdict"]
    cells = [
        [
            row.integrator,
            *(format_number(row.parameters[axis]) for axis in axes),
            *(format_number(getattr(row, name)) for name in steps),
            *([f"{row.starts} of {row.starts + row.left_out}"] if missing else []),
            scientific_cell(row.mean_abs.median, 4),
            scientific_cell(row.max_abs.median),
            scientific_cell(row.drift),
            scientific_cell(row.bound),
            *(str(_closest_drifting(row, name) or "–") for name in comparisons),
            row.verdict,
        ]
        for row in rows
    ]
    notes = table_notes(rows, _drift_row_remark)
    notes += [COMPARISON_NOTE] if comparisons else []
    title, units = _drift_table_title(rows), _drift_units(rows[0])
    return Table(headers, cells, title, notes, units, " ".join(summarize_drifts(rows)))


def _drift_units(row: DriftEstimate) -> dict[str, str]:
    """Units of the columns of a table of drifts."""
    units = {"mean": row.units, "max": row.units, "drift": row.rate, "|drift| ≤": row.rate}
    units |= {"step size": row.time_units}
    return {header: unit for header, unit in units.items() if unit != "1"}


def _closest_drifting(row: DriftEstimate, equal: str) -> DriftComparison | None:
    """The comparison with the integrator that drifts least of those that surely drift more."""
    return next((one for one in row.compared if getattr(one, equal)), None)


def _drift_row_remark(row: DriftEstimate) -> str:
    """Why a drift is undecided, or how it was seen; empty where the verdict says it all."""
    if row.reason:
        return f"{row.sentence}, {row.until_failure}" if row.stopped else row.sentence
    return row.in_words if row.advice or row.stopped or row.verdict != NONE else ""


def _drift_table_title(rows: Sequence[DriftEstimate]) -> str:
    first = rows[0]
    name, units = first.quantity.replace("_", " "), first.units
    sampled = list(dict.fromkeys(row.integrator for row in rows if not row.every_step))
    of = "every step" if len(sampled) < len({row.integrator for row in rows}) else "samples"
    if of == "every step" and sampled:
        of += f" (of {', '.join(sampled)}: of samples)"
    starts = max(row.starts for row in rows)
    over = "the starts that are complete" if any(r.left_out for r in rows) else f"{starts} starts"
    median = f", medians over {over}" if starts > 1 else ""
    return (
        f"{name} error{'' if units == '1' else f' [{units}]'}: mean and max of |error| of {of}"
        f"{median}; drift {first.rate} over {first.span} (95 %)"
    )


def growth_as_tables(estimates: Sequence[GrowthEstimate]) -> list[Table]:
    """A table of the growth of errors for each quantity; below it what the verdicts rest on.

    Parameters
    ----------
    estimates : sequence of GrowthEstimate
    """
    return [_growth_table_of_quantity(rows) for rows in rows_by_quantity(estimates).values()]


def _growth_table_of_quantity(rows: Sequence[GrowthEstimate]) -> Table:
    axes = scanned_axes_of_rows(rows)
    headers = ["integrator", *axes, "step size", "starts", "steps", "rms", "exponent", "95 %"]
    headers += ["drift/ε a step", "verdict"]
    cells = [
        [
            row.integrator,
            *(format_number(row.parameters[axis]) for axis in axes),
            format_number(row.step_size if math.isfinite(row.step_size) else row.tolerance),
            str(row.starts),
            format_number(row.steps),
            scientific_cell(row.rms),
            two_decimal_cell(row.exponent),
            "–" if math.isnan(row.low) else f"{row.low:.2f} – {row.high:.2f}",
            "–"
            if math.isnan(row.drift)
            else f"{scientific_cell(row.drift)} ± {scientific_cell(row.drift_error, 1)}",
            row.verdict,
        ]
        for row in rows
    ]
    first = rows[0]
    units = "" if first.units == "1" else f" [{first.units}]"
    title = (
        f"{first.quantity.replace('_', ' ')} error{units}: rms over the starts at the end, its "
        "growth in the last decade; drift of the mean in ε of the quantity, ± standard error"
    )
    notes = table_notes(rows, _growth_row_remark)
    summary = " ".join(summarize_growth(rows))
    return Table(headers, cells, title, notes + left_out_runs_note(rows), summary=summary)


def _growth_row_remark(row: GrowthEstimate) -> str:
    """Why there is no verdict, or the sign of a drift, and whether errors are below a rounding."""
    reason: str = row.reason
    if reason:
        return reason
    sign = row.sign if row.verdict in DRIFTING else ""
    below = below_rounding_in_words(row) if row.below_rounding else ""
    return ", ".join(filter(None, (sign, below)))


def arithmetic_as_tables(estimates: Sequence[ArithmeticEstimate]) -> list[Table]:
    """A table for each quantity of the drift that is the method's, and that which is rounding.

    Parameters
    ----------
    estimates : sequence of ArithmeticEstimate
    """
    return [_arithmetic_table_of_quantity(rows) for rows in rows_by_quantity(estimates).values()]


def _arithmetic_table_of_quantity(rows: Sequence[ArithmeticEstimate]) -> Table:
    shown = [row for row in rows if row.twin]
    axes = scanned_axes_of_rows(shown)
    headers = ["integrator", *axes, "step size", "starts", "until", "drift"]
    headers += ["of the method", "verdict", "of rounding", "verdict", "source"]
    cells = [
        [
            row.integrator,
            *(format_number(row.parameters[axis]) for axis in axes),
            format_number(row.step_size),
            str(row.starts),
            f"{format_number(row.duration)}{' *' if row.compared else ''}",
            _drift_cell(row.total),
            _drift_cell(row.method),
            row.method.verdict,
            _drift_cell(row.rounding),
            row.rounding.verdict,
            row.source,
        ]
        for row in shown
    ]
    first = shown[0]
    units = "" if first.units == "1" else f" [{first.units}]"
    title = (
        f"{first.quantity.replace('_', ' ')} error{units}: drift {first.rate} ± 95 %, that of the "
        "method in double-double, and that of rounding, which is the rest"
    )
    notes = table_notes(rows, lambda row: row.finding)
    notes += [f"* {note}" for note in table_notes(rows, lambda row: row.compared)]
    return Table(headers, cells, title, notes, summary=" ".join(summarize_sources(rows)))


def _drift_cell(part: DriftPart) -> str:
    if math.isnan(part.drift):
        return "–"
    return f"{scientific_cell(part.drift)} ± {scientific_cell(part.half_width, 1)}"
