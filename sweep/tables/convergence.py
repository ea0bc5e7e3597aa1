"""Orders of fixed-step integrators and errors of adaptive ones."""

import math

from sweep.analysis.convergence.certificates import CONFIRMED
from sweep.analysis.summary import summarize_orders
from sweep.tables.base import (
    Table,
    left_out_runs_note,
    scanned_axes_of_rows,
    scientific_cell,
    table_notes,
    table_row_label,
    two_decimal_cell,
)
from sweep.text import format_number


def orders_as_table(estimates, units="1"):
    """The order table, and below it why an order is not confirmed.

    Parameters
    ----------
    estimates : sequence of OrderEstimate
    units : str, optional
        Of step sizes.
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
            format_number(row.declared),
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


def _time_units(units):
    """Of the columns of step sizes and times."""
    return {} if units == "1" else dict.fromkeys(("step sizes", "until"), units)


def orders_across_as_table(rows):
    """Orders of methods, a line for each and a column for each value that they are compared across.

    Parameters
    ----------
    rows : sequence of OrderAcross
    """
    across, axes = rows[0].across, scanned_axes_of_rows(rows)
    values = [row.value for row in rows]
    numbers = all(isinstance(value, float | int) for value in values)
    columns = list(dict.fromkeys(map(format_number, sorted(values) if numbers else values)))
    lines = _rows_by_line(rows, ())
    if any(len(of) < n for of, n in lines.values()):  # experiments have the same values
        axes, lines = ["experiment", *axes], _rows_by_line(rows, ("experiment",))
    cells = [
        [method, *names, format_number(declared), *(_order_cell(of.get(c)) for c in columns)]
        for (method, names, declared), (of, _) in lines.items()
    ]
    headers = ["integrator", *axes, "declared", *(f"{across} = {value}" for value in columns)]
    notes = [
        f"{table_row_label(row.estimate)} at {across} = {format_number(row.value)}: "
        f"{row.estimate.verdict}, {row.estimate.reason}"
        for row in rows
        if row.estimate.reason and row.estimate.verdict != CONFIRMED
    ]
    if rows[0].others:
        notes.append(f"The experiments differ too in: {', '.join(rows[0].others)}.")
    summary = " ".join(summarize_orders([row.estimate for row in rows]))
    return Table(headers, cells, notes=notes, summary=summary)


def _rows_by_line(rows, names):
    """By what a line is: its rows by value, and how many there are."""
    lines = {}
    for row in rows:
        words = [getattr(row, name) for name in names]
        words += [format_number(value) for value in row.parameters.values()]
        key = row.method, tuple(words), row.estimate.declared
        of, n = lines.get(key, ({}, 0))
        lines[key] = {**of, format_number(row.value): row}, n + 1
    return lines


def _order_cell(row):
    """An order with its interval, and the verdict where it is not confirmed."""
    if row is None:
        return "–"
    found = row.estimate
    measured = math.isfinite(found.order)
    words = [f"{found.order:.2f} ±{(found.high - found.low) / 2:.2f}"] if measured else []
    if found.verdict != CONFIRMED:
        words.append(found.verdict)
    return " ".join(words) or "exact"


def _left_out_step_sizes_text(row):
    """Which step sizes do not count, at either end."""
    floor = "floor" if row.level_count < row.floor_count else "flat"
    ends = {
        f"≤ {format_number(row.floor_until)} {floor}": row.floor_count,
        f"≥ {format_number(row.pre_asymptotic_from)} coarse": row.pre_asymptotic,
        f"{row.absent} not complete": row.absent,
        f"{row.unmeasured} without an error": row.unmeasured,
    }
    return ", ".join(text for text, count in ends.items() if count) or "–"


def tolerances_as_table(estimates, units="1"):
    """The errors of adaptive integrators by tolerance, medians over the starts.

    Parameters
    ----------
    estimates : sequence of ToleranceEstimate
    units : str, optional
        Of times.
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


def errors_as_tables(fixed, adaptive, units="1"):
    """Tables of orders and of errors by tolerance, those of which there are any.

    Parameters
    ----------
    fixed : sequence of OrderEstimate
    adaptive : sequence of ToleranceEstimate
    units : str, optional
        Of step sizes and times.
    """
    return [
        *([orders_as_table(fixed, units)] if fixed else []),
        *([tolerances_as_table(adaptive, units)] if adaptive else []),
    ]


def error_times_for_title(estimates):
    """When errors are measured: `` at t = 2``, `` until t = 1.5 – 2``; empty where none is.

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
