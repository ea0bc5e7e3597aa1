"""Orders of fixed-step integrators and errors of adaptive ones."""

import math

from sweep.tables.base import Table, axes_of, fixed, left_out_note, notes_of, scientific
from sweep.text import number


def orders(estimates):
    """The order table, and below it why an order is not confirmed.

    Parameters
    ----------
    estimates : sequence of OrderEstimate
    """
    axes = axes_of(estimates)
    headers = ["integrator", *axes, "order", "95 %", "declared", "verdict", "points", "step sizes"]
    headers += ["left out"]
    rows = [
        [
            row.integrator,
            *(number(row.parameters[axis]) for axis in axes),
            fixed(row.order),
            f"±{(row.high - row.low) / 2:.2f}" if math.isfinite(row.order) else "–",
            number(row.declared),
            row.verdict,
            f"{row.used} of {len(row.points) + row.absent + row.unmeasured}",
            f"{number(row.step_low)} – {number(row.step_high)}" if row.used else "–",
            _left_out(row),
        ]
        for row in estimates
    ]
    notes = notes_of(estimates, lambda row: row.reason and f"{row.verdict}, {row.reason}")
    return Table(headers, rows, notes=notes + left_out_note(estimates))


def _left_out(row):
    """Which step sizes do not count, at either end."""
    floor = "floor" if row.level_count < row.floor_count else "flat"
    ends = {
        f"≤ {number(row.floor_until)} {floor}": row.floor_count,
        f"≥ {number(row.pre_asymptotic_from)} coarse": row.pre_asymptotic,
        f"{row.absent} not complete": row.absent,
        f"{row.unmeasured} without an error": row.unmeasured,
    }
    return ", ".join(text for text, count in ends.items() if count) or "–"


def tolerances(estimates):
    """The errors of adaptive integrators by tolerance, medians over the starts.

    Parameters
    ----------
    estimates : sequence of ToleranceEstimate
    """
    axes = axes_of(estimates)
    headers = ["integrator", *axes, "tolerance", "error", "range", "steps", "rejected", "until"]
    rows = [
        [
            row.integrator,
            *(number(row.parameters[axis]) for axis in axes),
            number(row.tolerance),
            scientific(row.value),
            f"{scientific(row.low)} – {scientific(row.high)}" if row.starts > 1 else "–",
            number(row.steps, 6),
            number(row.rejected_steps, 6),
            number(row.time),
        ]
        for row in estimates
    ]
    return Table(headers, rows)


def errors(fixed, adaptive):
    """Tables of orders and of errors by tolerance, those of which there are any.

    Parameters
    ----------
    fixed : sequence of OrderEstimate
    adaptive : sequence of ToleranceEstimate
    """
    return [*([orders(fixed)] if fixed else []), *([tolerances(adaptive)] if adaptive else [])]


def times_of(estimates):
    """When errors are measured: `` at t = 2``, `` until t = 1.5 – 2``; empty where none is.

    Parameters
    ----------
    estimates : sequence of OrderEstimate or ToleranceEstimate
    """
    times = sorted({row.time for row in estimates if row.starts})
    if not times:
        return ""
    low, high = number(times[0], 6), number(times[-1], 6)
    when = "at" if estimates[0].at == "end" else "in the sup norm until"
    return f" {when} t = {low if low == high else f'{low} – {high}'}"
