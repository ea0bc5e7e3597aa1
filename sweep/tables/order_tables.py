"""Tables of the orders of fixed-step integrators and the errors of adaptive ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sweep.analysis.convergence.order_verdicts import CONFIRMED, REFUTED
from sweep.analysis.convergence.orders import OrderEstimate, ToleranceEstimate
from sweep.analysis.sentences import summarize_orders
from sweep.tables import base
from sweep.text import format_number

if TYPE_CHECKING:
    from sweep.analysis.convergence.order_comparisons import OrderAcross


def orders_as_table(estimates: Sequence[OrderEstimate]) -> base.Table:
    """The table of orders, with the reason for each verdict other than "confirmed" as a note."""
    columns: list[base.Column] = [
        *base.setting_columns(estimates),
        ("order", lambda row: base.two_decimal_cell(row.order)),
        ("95 %", lambda row: "–" if math.isnan(row.low) else f"±{(row.high - row.low) / 2:.2f}"),
        ("declared", lambda row: format_number(row.declared) + " ≠" * (row.verdict == REFUTED)),
        ("verdict", lambda row: row.verdict),
        ("points", lambda row: f"{row.used} of {len(row.points) + row.absent}"),
        ("step sizes", _used_step_sizes_text),
        ("left out", _left_out_step_sizes_text),
    ]
    notes = base.table_notes(estimates, lambda row: row.reason and f"{row.verdict}, {row.reason}")
    return base.table_of_rows(
        estimates,
        columns,
        notes=notes + base.left_out_runs_note(estimates),
        units=_time_units(estimates[0].time_units),
        summary=" ".join(summarize_orders(estimates)),
    )


def _used_step_sizes_text(row: OrderEstimate) -> str:
    low, high = format_number(row.step_low), format_number(row.step_high)
    return (low if low == high else f"{low} – {high}") if row.used else "–"


def _left_out_step_sizes_text(row: OrderEstimate) -> str:
    """The step sizes that do not count, at either end of the range, and why."""
    ends = {
        f"≤ {format_number(row.floor_until)} floor": row.floor_count,
        f"≥ {format_number(row.pre_asymptotic_from)} coarse": row.pre_asymptotic,
        f"{row.absent} without an error": row.absent,
    }
    return ", ".join(text for text, count in ends.items() if count) or "–"


def _time_units(units: str) -> dict[str, str]:
    """The units of the columns with step sizes and times."""
    return {} if units == "1" else dict.fromkeys(("step sizes", "until"), units)


def orders_across_as_table(rows: Sequence[OrderAcross]) -> base.Table:
    """A table of orders with a row for each method and a column for each value of an axis."""
    across, axes = rows[0].across, base.scanned_axes_of_rows(rows)
    values = [row.value for row in rows]
    if all(isinstance(value, float | int) for value in values):
        values.sort()
    columns = list(dict.fromkeys(map(format_number, values)))
    # If several experiments have the same value, each has its own line.
    several = len({(row.experiment, format_number(row.value)) for row in rows}) > len(columns)
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        names = [row.method, row.experiment] if several else [row.method]
        names += [format_number(row.parameters.get(axis)) for axis in axes]
        names.append(format_number(row.estimate.declared))
        lines.setdefault(tuple(names), {})[format_number(row.value)] = _order_cell(row.estimate)
    notes = [
        f"{base.integrator_row_label(row.estimate)} at {across} = {format_number(row.value)}: "
        f"{row.estimate.verdict}, {row.estimate.reason}"
        for row in rows
        if row.estimate.reason and row.estimate.verdict != CONFIRMED
    ]
    if rows[0].others:
        notes.append(f"The experiments differ too in: {', '.join(rows[0].others)}.")
    names = ["integrator", *(["experiment"] if several else []), *axes, "declared"]
    return base.Table(
        [*names, *(f"{across} = {value}" for value in columns)],
        [[*line, *(cells.get(column, "–") for column in columns)] for line, cells in lines.items()],
        notes=notes,
        summary=" ".join(summarize_orders([row.estimate for row in rows])),
    )


def _order_cell(row: OrderEstimate) -> str:
    """An order with its interval, and its verdict unless it is confirmed."""
    measured = math.isfinite(row.order)
    words = [f"{row.order:.2f} ±{(row.high - row.low) / 2:.2f}"] if measured else []
    words += [row.verdict] if row.verdict != CONFIRMED else []
    return " ".join(words) or "exact"


def tolerances_as_table(estimates: Sequence[ToleranceEstimate]) -> base.Table:
    """A table of errors of adaptive integrators: geometric means and ranges over the starts."""
    columns: list[base.Column] = [
        *base.setting_columns(estimates),
        base.scientific_column("error", "value"),
        ("range", base.range_cell),
        ("steps", lambda row: format_number(row.steps, 6)),
        ("rejected", lambda row: format_number(row.rejected_steps, 6)),
        ("until", lambda row: format_number(row.time)),
    ]
    return base.table_of_rows(
        estimates,
        columns,
        units=_time_units(estimates[0].time_units),
        summary=" ".join(summarize_orders([], estimates)),
    )


def fixed_and_adaptive(
    estimates: Iterable[OrderEstimate | ToleranceEstimate],
) -> tuple[list[OrderEstimate], list[ToleranceEstimate]]:
    """Separate the rows of fixed-step integrators, which have an order, from adaptive ones."""
    rows = list(estimates)
    fixed = [row for row in rows if isinstance(row, OrderEstimate)]
    return fixed, [row for row in rows if isinstance(row, ToleranceEstimate)]


def errors_as_tables(estimates: Iterable[OrderEstimate | ToleranceEstimate]) -> list[base.Table]:
    """The table of orders and the table of errors by tolerance, without empty tables."""
    fixed, adaptive = fixed_and_adaptive(estimates)
    tables = [orders_as_table(fixed)] if fixed else []
    return tables + ([tolerances_as_table(adaptive)] if adaptive else [])


def error_times_for_title(estimates: Sequence[OrderEstimate | ToleranceEstimate]) -> str:
    """When errors are measured, such as `` at t = 2``; empty without errors."""
    times = [row.time for row in estimates if row.starts]
    if not times:
        return ""
    ends = dict.fromkeys(format_number(time, 6) for time in (min(times), max(times)))
    when = "at" if estimates[0].at == "end" else "in the sup norm until"
    return f" {when} t = {' – '.join(ends)}"
