"""Orders of fixed-step integrators and errors of adaptive ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sweep.analysis.convergence.order_verdicts import CONFIRMED, REFUTED
from sweep.analysis.summary import summarize_orders
from sweep.tables.base import (
    Table,
    integrator_row_label,
    left_out_runs_note,
    scanned_axes_of_rows,
    scientific_cell,
    table_notes,
    two_decimal_cell,
)
from sweep.text import format_number

if TYPE_CHECKING:
    from sweep.analysis.convergence.across import OrderAcross
    from sweep.analysis.convergence.orders import OrderEstimate
    from sweep.analysis.convergence.tolerances import ToleranceEstimate


def orders_as_table(estimates: Sequence[OrderEstimate], units: str = "1") -> Table:
    """The table of orders; below it the reason of each order that is not confirmed.

    Parameters
    ----------
    estimates : sequence of OrderEstimate
    units : str, optional
        Units of step sizes.
    """
    axes = scanned_axes_of_rows(estimates)
    headers = ["integrator", *axes, "order", "95 %", "declared", "verdict", "points", "step sizes"]
    headers += ["left out"]
    rows = [
        [
            row.integrator,
            *(format_number(row.parameters[axis]) for axis in axes),
            two_decimal_cell(row.order),
            f"±{(row.high - row.low) / 2:.2f}" if math.isfinite(row.order) else "–",
            format_number(row.declared) + " ≠" * (row.verdict == REFUTED),
            row.verdict,
            f"{row.used} of {len(row.points) + row.absent + row.unmeasured}",
            f"{format_number(row.step_low)} – {format_number(row.step_high)}" if row.used else "–",
            _left_out_step_sizes_text(row),
        ]
        for row in estimates
    ]
    notes = table_notes(estimates, lambda row: row.reason and f"{row.verdict}, {row.reason}")
    return Table(
        headers,
        rows,
        notes=notes + left_out_runs_note(estimates),
        units=_time_units(units),
        summary=" ".join(summarize_orders(estimates)),
    )


def _time_units(units: str) -> dict[str, str]:
    """Units of the columns of step sizes and times."""
    return {} if units == "1" else dict.fromkeys(("step sizes", "until"), units)


def orders_across_as_table(rows: Sequence[OrderAcross]) -> Table:
    """Orders of methods side by side: a row for each method, a column for each value.

    Parameters
    ----------
    rows : sequence of OrderAcross
    """
    across, axes = rows[0].across, scanned_axes_of_rows(rows)
    values = [row.value for row in rows]
    numbers = [value for value in values if isinstance(value, float | int)]
    in_order = sorted(numbers) if len(numbers) == len(values) else values
    columns = list(dict.fromkeys(map(format_number, in_order)))
    lines = _rows_by_line(rows, ())
    if any(len(of) < n for of, n in lines.values()):  # experiments have the same values
        axes, lines = ["experiment", *axes], _rows_by_line(rows, ("experiment",))
    cells = [
        [method, *names, format_number(declared), *(_order_cell(of.get(c)) for c in columns)]
        for (method, names, declared), (of, _) in lines.items()
    ]
    headers = ["integrator", *axes, "declared", *(f"{across} = {value}" for value in columns)]
    notes = [
        f"{integrator_row_label(row.estimate)} at {across} = {format_number(row.value)}: "
        f"{row.estimate.verdict}, {row.estimate.reason}"
        for row in rows
        if row.estimate.reason and row.estimate.verdict != CONFIRMED
    ]
    if rows[0].others:
        notes.append(f"The experiments differ too in: {', '.join(rows[0].others)}.")
    summary = " ".join(summarize_orders([row.estimate for row in rows]))
    return Table(headers, cells, notes=notes, summary=summary)


# Of a line of the table: method, values that tell lines apart, and declared order.
LineKey = tuple[str, tuple[str, ...], object]


def _rows_by_line(
    rows: Iterable[OrderAcross], names: Iterable[str]
) -> dict[LineKey, tuple[dict[str, OrderAcross], int]]:
    """For each line of the table its rows by value, and how many rows fall on it.

    Parameters
    ----------
    rows : iterable of OrderAcross
    names : iterable of str
        Attributes of rows that tell lines apart, beside the scanned values.
    """
    lines: dict[LineKey, tuple[dict[str, OrderAcross], int]] = {}
    for row in rows:
        words = [getattr(row, name) for name in names]
        words += [format_number(value) for value in row.parameters.values()]
        key = row.method, tuple(words), row.estimate.declared
        of, n = lines.get(key, ({}, 0))
        lines[key] = {**of, format_number(row.value): row}, n + 1
    return lines


def _order_cell(row: OrderAcross | None) -> str:
    """An order with its interval, and the verdict where it is not confirmed."""
    if row is None:
        return "–"
    found = row.estimate
    measured = math.isfinite(found.order)
    words = [f"{found.order:.2f} ±{(found.high - found.low) / 2:.2f}"] if measured else []
    if found.verdict != CONFIRMED:
        words.append(found.verdict)
    return " ".join(words) or "exact"


def _left_out_step_sizes_text(row: OrderEstimate) -> str:
    """The step sizes that do not count, at either end, and why."""
    floor = "floor" if row.level_count < row.floor_count else "flat"
    ends = {
        f"≤ {format_number(row.floor_until)} {floor}": row.floor_count,
        f"≥ {format_number(row.pre_asymptotic_from)} coarse": row.pre_asymptotic,
        f"{row.absent} not complete": row.absent,
        f"{row.unmeasured} without an error": row.unmeasured,
    }
    return ", ".join(text for text, count in ends.items() if count) or "–"


def tolerances_as_table(estimates: Sequence[ToleranceEstimate], units: str = "1") -> Table:
    """Errors of adaptive integrators by tolerance: geometric means and ranges over the starts.

    Parameters
    ----------
    estimates : sequence of ToleranceEstimate
    units : str, optional
        Units of times.
    """
    axes = scanned_axes_of_rows(estimates)
    headers = ["integrator", *axes, "tolerance", "error", "range", "steps", "rejected", "until"]
    rows = [
        [
            row.integrator,
            *(format_number(row.parameters[axis]) for axis in axes),
            format_number(row.tolerance),
            scientific_cell(row.value),
            f"{scientific_cell(row.low)} – {scientific_cell(row.high)}" if row.starts > 1 else "–",
            format_number(row.steps, 6),
            format_number(row.rejected_steps, 6),
            format_number(row.time),
        ]
        for row in estimates
    ]
    summary = " ".join(summarize_orders([], estimates))
    return Table(headers, rows, units=_time_units(units), summary=summary)


def errors_as_tables(
    fixed: Sequence[OrderEstimate], adaptive: Sequence[ToleranceEstimate], units: str = "1"
) -> list[Table]:
    """The table of orders and that of errors by tolerance, each where it has rows.

    Parameters
    ----------
    fixed : sequence of OrderEstimate
    adaptive : sequence of ToleranceEstimate
    units : str, optional
        Units of step sizes and times.
    """
    return [
        *([orders_as_table(fixed, units)] if fixed else []),
        *([tolerances_as_table(adaptive, units)] if adaptive else []),
    ]


def error_times_for_title(estimates: Sequence[OrderEstimate | ToleranceEstimate]) -> str:
    """When errors are measured: `` at t = 2``, `` until t = 1.5 – 2``; empty without errors.

    Parameters
    ----------
    estimates : sequence of OrderEstimate or ToleranceEstimate
    """
    times = sorted({row.time for row in estimates if row.starts})
    if not times:
        return ""
    low, high = format_number(times[0], 6), format_number(times[-1], 6)
    when = "at" if estimates[0].at == "end" else "in the sup norm until"
    return f" {when} t = {low if low == high else f'{low} – {high}'}"
