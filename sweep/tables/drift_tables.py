"""Tables of the drift of invariants, and of the part of it that is due to rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweep.analysis.drift import estimators
from sweep.analysis.runs import selection
from sweep.analysis.sentences import rows_by_quantity, summarize_drifts, summarize_sources
from sweep.tables import base
from sweep.text import format_number, steps_in_words

if TYPE_CHECKING:
    import xarray as xr

    from sweep.analysis.drift.drifts import DriftEstimate
    from sweep.analysis.drift.estimators import DriftRate
    from sweep.analysis.drift.rounding_drift import ArithmeticEstimate

NO_DRIFT_OF_ORDER_STUDY = (
    "Drifts are not shown for a study of order. To see them, add an experiment with one step size, "
    "a longer duration, samples = 100 and no reference."
)
# What each verdict means, in short; the guide has the definitions.
MEANINGS = {
    estimators.LINEAR: "a rate that is surely not 0 and steady",
    estimators.UNSTEADY: "surely not 0, but not the same in both halves of the run",
    estimators.EACH: "no common rate at 99.7 %, but a spread that grows like t",
    estimators.WALK: "no rate, and a spread that grows like √t",
    estimators.AT_ROUND_OFF: "no error above "
    f"{estimators.FEW_ROUNDINGS:.0f} roundings of the quantity",
    estimators.NONE: "no rate differs from 0 at 99.7 %; the bound says what could hide",
    estimators.FAILS: "most runs fail; until then, no drift is seen",
}
# The same for errors without a sign: norms of the change of a vector, and sizes.
MEANINGS_OF_SIZES = MEANINGS | {
    estimators.LINEAR: "a size that surely grows faster than √t, and steadily",
    estimators.UNSTEADY: "surely faster than √t, but not alike in both halves of the run",
    estimators.WALK: "a size that grows like √t",
    estimators.NONE: "not faster than √t at 99.7 %; the bound says what could hide",
}
# Properties of `DriftComparison`, and the headers of their columns.
COMPARED = {"equal_step": "at equal step size", "equal_cost": "in no more CPU time"}
COMPARISON_NOTE = (
    "≥ n× less than another: that one drifts at least n times as fast (95 %); it is the slowest of "
    "those that surely drift faster."
)


def drifts_as_tables(estimates: Sequence[DriftEstimate]) -> list[base.Table]:
    """A table of drifts for each quantity, with means over the starts and the meaning of verdicts.

    Parameters
    ----------
    estimates : sequence of DriftEstimate

    Returns
    -------
    list of Table
    """
    return [_drift_table_of_quantity(rows) for rows in rows_by_quantity(estimates).values()]


def _drift_table_of_quantity(rows: Sequence[DriftEstimate]) -> base.Table:
    columns = base.setting_columns(rows)
    if any(row.left_out for row in rows):
        columns.append(("starts", lambda row: f"{row.starts} of {row.starts + row.left_out}"))
    columns += [
        base.scientific_column("mean", "mean_abs"),
        base.scientific_column("max", "max_abs"),
    ]
    columns += [("drift", rate_cell), base.scientific_column("bound", "bound")]
    if any(math.isfinite(row.exponent) for row in rows):
        columns.append((growth_header(rows[0]), _exponent_cell))
    comparisons = [_comparison_column(name) for name in COMPARED]
    comparisons = [(name, cell) for name, cell in comparisons if any(cell(r) != "–" for r in rows)]
    columns += [*comparisons, ("verdict", lambda row: row.verdict)]
    notes = base.table_notes(rows, _reason_and_failure)
    verdicts = {row.verdict for row in rows}
    known = MEANINGS if rows[0].signed else MEANINGS_OF_SIZES
    meanings = [f"{name}: {text}" for name, text in known.items() if name in verdicts]
    notes += ["; ".join(meanings) + "."] if meanings else []
    notes += [COMPARISON_NOTE] if comparisons else []
    first = rows[0]
    units = {"mean": first.units, "max": first.units, "drift": first.rate, "bound": first.rate}
    units |= {"step size": first.time_units}
    return base.table_of_rows(
        rows,
        columns,
        kept=["drift", "bound", "verdict"],
        title=_drift_table_title(rows),
        notes=notes,
        units={header: unit for header, unit in units.items() if unit != "1"},
        summary=" ".join(summarize_drifts(rows)),
    )


def coarser_steps_note(dataset: xr.Dataset, rows: Sequence[DriftEstimate]) -> list[str]:
    """A note on the number of runs that rows of the smallest step sizes are about; none if all."""
    runs = sum(row.starts + row.left_out for row in rows if row.quantity == rows[0].quantity)
    total = selection.run_table_without_repeats(dataset).sizes["run"]
    of = f"At the smallest step size of each integrator: {runs:,} of {total:,} runs"
    return [f"{of}; sweep drift --all-steps shows all."] if runs < total else []


def _reason_and_failure(row: DriftEstimate) -> str:
    """Why no drift can be stated, and, if runs failed, until when the row is judged."""
    return "; ".join(filter(None, (row.reason and row.in_words, row.until_failure)))


def growth_header(part: DriftRate) -> str:
    """The header of exponents: those of the spread over the starts, or of root mean squares."""
    return f"{'spread' if part.signed else 'rms'} ~ t^p"


def rate_cell(part: DriftRate) -> str:
    """A rate with its 95 % interval, such as ``1.5e-07 ±2e-08``; an en dash for NaN."""
    if math.isnan(part.drift):
        return "–"
    return f"{base.scientific_cell(part.drift)} ±{base.scientific_cell(part.half_width, 1)}"


def _exponent_cell(part: DriftRate) -> str:
    """An exponent with its interval, such as ``0.53 [0.34, 0.72]``; an en dash for NaN."""
    if math.isnan(part.exponent):
        return "–"
    return f"{part.exponent:.2f} [{part.exponent_low:.2f}, {part.exponent_high:.2f}]"


def _comparison_column(equal: str) -> base.Column:
    """A column with the slowest of the integrators that surely drift faster than the row's."""
    return COMPARED[equal], lambda row: next(
        (str(one) for one in row.compared if getattr(one, equal)), "–"
    )


def _drift_table_title(rows: Sequence[DriftEstimate]) -> str:
    first = max(rows, key=lambda row: row.duration)
    name, units = first.quantity.replace("_", " "), first.units
    sampled = list(dict.fromkeys(row.integrator for row in rows if not row.every_step))
    of = steps_in_words(max(row.every for row in rows))
    if len(sampled) == len({row.integrator for row in rows}):
        of = "samples"
    elif sampled:
        of += f" (of {', '.join(sampled)}: of samples)"
    sizes = f"mean and max of |error| of {of}"
    if of != "samples" and not any(row.max_every_step for row in rows):
        sizes = f"mean of |error| of {of}, max of samples"
    starts = max(row.starts for row in rows)
    over = "the starts that count" if any(r.left_out for r in rows) else f"{starts} starts"
    mean = f", means over {over}" if starts > 1 else ", of one start" * starts
    return (
        f"{name} error{'' if units == '1' else f' [{units}]'}: {sizes}, "
        f"drift {first.rate} ±95 % and its bound over {first.span}{mean}"
    )


def arithmetic_as_tables(estimates: Sequence[ArithmeticEstimate]) -> list[base.Table]:
    """A table for each quantity that separates the drift of the method from that of rounding.

    Parameters
    ----------
    estimates : sequence of ArithmeticEstimate

    Returns
    -------
    list of Table
    """
    return [_arithmetic_table_of_quantity(rows) for rows in rows_by_quantity(estimates).values()]


def _arithmetic_table_of_quantity(rows: Sequence[ArithmeticEstimate]) -> base.Table:
    shown = [row for row in rows if row.twin]
    columns = [
        *base.setting_columns(shown),
        ("starts", lambda row: str(row.starts)),
        ("until", lambda row: f"{format_number(row.duration)}{' *' if row.compared else ''}"),
        ("drift", lambda row: rate_cell(row.total)),
        ("of the method", lambda row: rate_cell(row.method)),
        ("verdict", lambda row: row.method.verdict),
        ("of rounding", lambda row: rate_cell(row.rounding)),
        (growth_header(shown[0].total), lambda row: _exponent_cell(row.rounding)),
        ("verdict", lambda row: row.rounding.verdict),
        ("source", lambda row: row.source),
    ]
    first = shown[0]
    units = "" if first.units == "1" else f" [{first.units}]"
    title = (
        f"{first.quantity.replace('_', ' ')} error{units}: drift {first.rate} ± 95 %, that of the "
        "method in double-double, and that of rounding, which is the rest"
    )
    notes = [f"* {note}" for note in base.table_notes(rows, lambda row: row.compared)]
    summary = " ".join(summarize_sources(rows))
    kept = ["verdict", "source"]
    return base.table_of_rows(shown, columns, kept, title=title, notes=notes, summary=summary)
