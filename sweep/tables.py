"""Results as plain text for a terminal, and as rows for JSON."""

import dataclasses
import math

from sweep.analysis import adaptive_runs, order_table, tolerance_table
from sweep.text import format_table, jsonable, number


def scientific(value, digits=2):
    """An error in scientific notation, which lines up in a column: ``1.2e-09``."""
    return "–" if math.isnan(value) else f"{value:.{digits - 1}e}"


def format_orders(estimates):
    """The order table, and below it why an order is not confirmed.

    Parameters
    ----------
    estimates : sequence of OrderEstimate
    """
    axes = _axes(estimates)
    headers = ["integrator", *axes, "order", "95 %", "declared", "verdict", "points", "step sizes"]
    rows = [
        [
            row.integrator,
            *(number(row.parameters[axis]) for axis in axes),
            _fixed(row.order),
            f"±{(row.high - row.low) / 2:.2f}" if math.isfinite(row.order) else "–",
            number(row.declared),
            row.verdict,
            f"{row.used} of {len(row.points)}",
            f"{number(row.step_low)} – {number(row.step_high)}" if row.used else "–",
        ]
        for row in estimates
    ]
    notes = _notes(estimates, lambda row: row.reason and f"{row.verdict}, {row.reason}")
    failed = sum(row.left_out for row in estimates)
    if failed:
        notes.append(f"Left out, as failed, unfinished or no longer in the study: {failed} runs.")
    return "\n".join([format_table(headers, rows), *_below(notes)])


def format_tolerances(estimates):
    """The errors of adaptive integrators by tolerance, medians over the starts.

    Parameters
    ----------
    estimates : sequence of ToleranceEstimate
    """
    axes = _axes(estimates)
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
    return format_table(headers, rows)


def format_errors(dataset, error="global_error", at="end"):
    """Orders of the fixed-step integrators and errors of the adaptive ones, where there are any.

    Parameters
    ----------
    dataset : xarray.Dataset
        One experiment.
    error, at : str
        As in `analysis.order_table`.
    """
    adaptive = adaptive_runs(dataset)
    parts = []
    if not adaptive.all():
        parts.append(format_orders(order_table(dataset, error, at)))
    if adaptive.any():
        parts.append(format_tolerances(tolerance_table(dataset, error, at)))
    return "\n\n".join(parts)


def format_drifts(estimates):
    """A drift table for each quantity, medians over the starts; below it what is missing.

    Parameters
    ----------
    estimates : sequence of DriftEstimate
    """
    by_quantity = {}
    for row in estimates:
        by_quantity.setdefault(row.quantity, []).append(row)
    return "\n\n".join(_drift_section(rows) for rows in by_quantity.values())


def _drift_section(rows):
    axes = _axes(rows)
    steps = [
        name
        for name in ("step_size", "tolerance")
        if any(math.isfinite(getattr(row, name)) for row in rows)
    ]
    headers = ["integrator", *axes, *(name.replace("_", " ") for name in steps)]
    missing = any(row.left_out for row in rows)
    headers += [*(["starts"] if missing else []), "mean", "max", "drift", "|drift| ≤"]
    cells = [
        [
            row.integrator,
            *(number(row.parameters[axis]) for axis in axes),
            *(number(getattr(row, name)) for name in steps),
            *([f"{row.starts} of {row.starts + row.left_out}"] if missing else []),
            scientific(row.mean_abs.median, 4),
            scientific(row.max_abs.median),
            scientific(row.drift),
            scientific(row.bound),
        ]
        for row in rows
    ]
    notes = _notes(rows, lambda row: row.reason and row.sentence)
    return "\n".join([_drift_title(rows), format_table(headers, cells), *_below(notes)])


def _drift_title(rows):
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


def format_growth(estimates):
    """How errors grow, a table for each quantity; below it what the verdicts rest on.

    Parameters
    ----------
    estimates : sequence of GrowthEstimate
    """
    by_quantity = {}
    for row in estimates:
        by_quantity.setdefault(row.quantity, []).append(row)
    return "\n\n".join(_growth_section(rows) for rows in by_quantity.values())


def _growth_section(rows):
    axes = _axes(rows)
    headers = ["integrator", *axes, "step size", "starts", "steps", "rms", "exponent", "95 %"]
    headers += ["drift/ε a step", "verdict"]
    cells = [
        [
            row.integrator,
            *(number(row.parameters[axis]) for axis in axes),
            number(row.step_size if math.isfinite(row.step_size) else row.tolerance),
            str(row.starts),
            number(row.steps),
            scientific(row.rms),
            _fixed(row.exponent),
            "–" if math.isnan(row.low) else f"{row.low:.2f} – {row.high:.2f}",
            "–"
            if math.isnan(row.drift)
            else f"{scientific(row.drift)} ± {scientific(row.drift_error, 1)}",
            row.verdict or "–",
        ]
        for row in rows
    ]
    first = rows[0]
    units = "" if first.units == "1" else f" [{first.units}]"
    title = (
        f"{first.quantity.replace('_', ' ')} error{units}: rms over the starts at the end, its "
        "growth in the last decade; drift of the mean in ε of the quantity, ± standard error"
    )
    notes = _notes(rows, lambda row: row.reason or (row.biased and "the mean drifts (99.7 %)"))
    failed = sum(row.left_out for row in rows)
    if failed:
        notes.append(f"Left out, as failed, unfinished or no longer in the study: {failed} runs.")
    return "\n".join([title, format_table(headers, cells), *_below(notes)])


def format_claims(rows):
    """What a paper prints, what was computed, within which bounds, and in which setting.

    Parameters
    ----------
    rows : sequence of sweep.reproduce.Row
    """
    headers = ["part", "figure", "paper", "here", "as printed", "range", "bounds", ""]
    headers += ["setting"]
    cells = [
        [
            row.part,
            row.claim,
            "–" if row.paper is None else f"{row.paper:.4e}",
            f"{row.here:.5e}",
            "–" if row.paper is None else "yes" if row.as_printed else "no",
            "–" if row.least == row.most else f"{row.least:.2e} – {row.most:.2e}",
            _bounds(row),
            "holds" if row.holds else "OUTSIDE",
            row.setting,
        ]
        for row in rows
    ]
    return format_table(headers, cells)


def _bounds(row):
    if math.isinf(row.high):
        return f"≥ {row.low:.2e}"
    if row.low == 0:
        return f"≤ {row.high:.2e}"
    return f"{row.low:.4e} – {row.high:.4e}"


def json_rows(rows):
    """Frozen dataclasses and their properties as dictionaries for `json`; NaN becomes None.

    Parameters
    ----------
    rows : sequence of dataclass instances

    Returns
    -------
    list of dict
    """
    return [jsonable(dataclasses.asdict(row) | _properties(row)) for row in rows]


def _properties(row):
    members = vars(type(row)).items()
    return {name: getattr(row, name) for name, member in members if isinstance(member, property)}


def _axes(estimates):
    return list(dict.fromkeys(axis for row in estimates for axis in row.parameters))


def _name(row):
    values = ", ".join(f"{axis}={number(value)}" for axis, value in row.parameters.items())
    return f"{row.integrator} ({values})" if values else row.integrator


def _notes(rows, remark):
    """What `remark` says of each row, each remark once behind the names that it holds for."""
    names = {}
    for row in rows:
        names.setdefault(remark(row), []).append(_name(row))
    return [
        f"{f'all {len(rows)}' if 1 < len(of) == len(rows) else ', '.join(of)}: {text}"
        for text, of in names.items()
        if text
    ]


def _fixed(value):
    return "–" if math.isnan(value) else f"{value:.2f}"


def _below(notes):
    return ["", *notes] if notes else []
