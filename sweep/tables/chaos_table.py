"""Table of Lyapunov exponents and MEGNO."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sweep.analysis.sentences import summarize_chaos
from sweep.tables import base

if TYPE_CHECKING:
    from sweep.analysis.chaos import ChaosEstimate


def chaos_as_table(estimates: Sequence[ChaosEstimate]) -> base.Table:
    """A table of exponents, with median and range over the starts.

    Notes below it say which verdicts are undecided, and why.
    """
    first, most = estimates[0], max(row.starts for row in estimates)
    count = len(first.exponents)
    names = ["λ"] if count == 1 else [f"λ{k + 1}" for k in range(count)]
    columns = [*base.setting_columns(estimates), ("starts", base.starts_cell)]
    columns += [(name, _exponent_cell(k)) for k, name in enumerate(names)]
    if count and most > 1:
        columns.append(
            (f"{names[0]} over the starts", lambda row: base.range_cell(row.exponents[0], 3))
        )
    has_megno = any(not math.isnan(row.megno.median) for row in estimates)
    if has_megno:
        columns.append(("MEGNO", lambda row: base.two_decimal_cell(row.megno.median)))
        columns.append(("verdict", lambda row: row.verdict))
    time = "" if first.time_units == "1" else f" {first.time_units}"
    units = "" if first.units == "1" else f" [{first.units}]"
    until = max(row.duration for row in estimates)
    median = ", medians over the starts" if most > 1 else ""
    title = f"Lyapunov exponents{units} of the steps until t = {until:g}{time}{median}"
    notes = [
        *base.table_notes(estimates, lambda row: row.in_words),
        *base.left_out_runs_note(estimates),
    ]
    if not has_megno:
        notes.append('Verdicts need "megno" in the record.')
    summary = " ".join(summarize_chaos(estimates))
    return base.table_of_rows(estimates, columns, title=title, notes=notes, summary=summary)


def _exponent_cell(k: int) -> Callable[[ChaosEstimate], str]:
    return lambda row: base.scientific_cell(row.exponents[k].median, 3)
