"""Tables of errors and the work that they cost, and of the least work for an error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sweep.analysis.efficiency.pareto import WORK, least_work
from sweep.analysis.efficiency.timing import why_cpu_times_not_comparable
from sweep.analysis.rows import grouped
from sweep.analysis.sentences import summarize_work
from sweep.tables.base import (
    Table,
    left_out_runs_note,
    range_cell,
    scientific_cell,
    setting_columns,
)
from sweep.text import format_number

if TYPE_CHECKING:
    from sweep.analysis.efficiency.pareto import LeastWork, WorkEstimate

NAMES = {"steps": "steps", "evaluations": "evaluations", "cpu_time": "CPU time"}
MOST_EQUAL = 2  # integrators that a cell names
BEST, LEAST, FLOOR, AT_MOST, UNMEASURED = "*", "*", "~", "≤", "?"


def work_as_tables(estimates: Sequence[WorkEstimate], against: str = "evaluations") -> list[Table]:
    """The table of work and precision, then the least work for each size of the error.

    Parameters
    ----------
    estimates : sequence of WorkEstimate
    against : {"steps", "evaluations", "cpu_time"}, optional
        The measure of work by which the best of each family are marked.

    Returns
    -------
    list of Table
        First that of work and precision; then those of the least work, one for each combination of
        scanned values, for the first error of the estimates.
    """
    first = [row for row in estimates if row.error == estimates[0].error]
    found = grouped(least_work(first, against), lambda one: tuple(one.parameters.items()))
    notes = [] if found else [f"No least {NAMES[against]}: {_why_no_least_work(first, against)}"]
    least = [_least_work_table(rows, against) for rows in found.values()]
    return [_work_precision_table(estimates, against, notes), *least]


def work_of_one_as_table(estimates: Sequence[WorkEstimate]) -> Table:
    """Steps, evaluations, CPU time and errors of one integrator, without marks for the best."""
    table = _work_precision_table([replace(row, best=()) for row in estimates], WORK[1], [])
    return replace(table, title=table.title.partition("\n")[0], notes=[], summary="")


def _work_precision_table(
    estimates: Sequence[WorkEstimate], against: str, notes: list[str]
) -> Table:
    """A table with a line for each integrator and step size, and a column for each error."""
    of_error = grouped(estimates, lambda row: row.error)
    errors, first = list(of_error), of_error[estimates[0].error]
    columns = [
        *setting_columns(estimates),
        ("steps", lambda row: format_number(row.steps, 6)),
        ("evaluations", lambda row: format_number(row.evaluations, 6)),
        ("CPU time", _cpu_time_cell),
    ]
    cells = [
        [
            *(cell(row) for _, cell in columns),
            *(_marked_error_cell(r, against) for r in (row, *rest)),
        ]
        for row, *rest in zip(*of_error.values(), strict=True)
    ]
    headers = [*(header for header, _ in columns), *map(_error_column_name, errors)]
    if len(errors) == 1 and any(row.starts > 1 for row in first):
        headers.append("range")
        cells = [[*line, range_cell(row)] for line, row in zip(cells, first, strict=True)]
    if any(_is_below_reference_error(row) for row in first):
        notes = [f"{FLOOR}: at round-off, or less than the reference resolves", *notes]
    if unmeasured := why_cpu_times_not_comparable(first):
        notes = [f"{UNMEASURED}: {unmeasured}", *notes]
    units = {"CPU time": "s"} | {
        _error_column_name(row.error): row.units for row in estimates if row.units != "1"
    }
    named = ", ".join(f"{name} [{unit}]" for name, unit in units.items())
    notes = [*notes, f"Units: {named}", *left_out_runs_note(first)]
    summary = " ".join(summarize_work(estimates, against))
    title = _work_table_title(estimates, against)
    return Table(headers, cells, title, notes, units, summary, kept=["CPU time"])


def _cpu_time_cell(row: WorkEstimate) -> str:
    """A CPU time, marked if it cannot be compared with others."""
    marked = row.cpu_time > 0 and not row.cpu_time_measured
    return scientific_cell(row.cpu_time) + UNMEASURED * marked


def _marked_error_cell(row: WorkEstimate, against: str) -> str:
    marks = BEST * (against in row.best) + FLOOR * _is_below_reference_error(row)
    return f"{scientific_cell(row.value)}{marks:<1}"


def _is_below_reference_error(row: WorkEstimate) -> bool:
    """Whether an error against a reference is below what the reference resolves."""
    return row.reference and row.starts > 0 and not row.resolved


def _work_table_title(estimates: Sequence[WorkEstimate], against: str) -> str:
    """A title that says which errors are shown, when they are measured, and what is best."""
    starts = max(row.starts for row in estimates)
    median = f", medians over {starts} starts" if starts > 1 else ""
    parts = []
    for (at, _), rows in grouped(estimates, lambda row: (row.at, row.reference)).items():
        names = ", ".join(map(_error_column_name, dict.fromkeys(row.error for row in rows)))
        known = sorted({row.time for row in rows if not math.isnan(row.time)})
        times = " – ".join(format_number(time, 6) for time in dict.fromkeys(known[:1] + known[-1:]))
        parts.append(f"{names} {'at' if at == 'end' else 'largest until'} t = {times or '–'}")
    little = "little" if against == "cpu_time" else "few"
    return (
        f"Work of a whole run, and size of the error{median}: {'; '.join(parts)}\n"
        f"{BEST} best of its family: no member reaches as small an error for as "
        f"{little} {NAMES[against]}"
    )


def _error_column_name(error: str) -> str:
    return error.removesuffix("_error").replace("_", " ")


def _why_no_least_work(estimates: Sequence[WorkEstimate], against: str) -> str:
    if not any(row.starts for row in estimates):
        if any(row.reference_failed for row in estimates):
            return "the reference failed"
        return f"no complete run has the error {estimates[0].error}"
    if all(math.isnan(getattr(row, against)) for row in estimates):
        return f"the store counts none; against another of {', '.join(WORK)}"
    if against == "cpu_time" and not any(row.cpu_time_measured for row in estimates):
        return f"none can be compared, see {UNMEASURED}"
    if not any(row.resolved for row in estimates):
        return "all errors are at round-off or below what the reference resolves"
    if any(row.resolved and not row.failed for row in estimates):
        return "no power of ten lies between the errors"
    return "some runs failed at every step size"


def _least_work_table(rows: Sequence[LeastWork], against: str) -> Table:
    """A table with a line for each error and the least work of each family."""
    first, families = rows[0], list(dict.fromkeys(row.family for row in rows))
    by_level: dict[float, dict[str, LeastWork]] = {}
    for row in rows:
        by_level.setdefault(row.level, {})[row.family] = row
    cells = [
        [f"{level:.0e}", *(part for f in families for part in _least_work_cells(of.get(f)))]
        for level, of in by_level.items()
    ]
    headers = ["error ≤", *(header for family in families for header in (family, "with"))]
    where = "".join(f", {name} = {format_number(v)}" for name, v in first.parameters.items())
    title = (
        f"Least {NAMES[against]}{' [s]' * (against == 'cpu_time')} by size of the "
        f"{first.error.replace('_', ' ')} and family{where}; {LEAST} of all"
    )
    notes = []
    if not all(row.interpolated for row in rows):
        notes = [
            f"{AT_MOST}: its error there is smaller already, so that it may need less; others are "
            "interpolated"
        ]
    several = (sum(row.least_of_all for row in of.values()) > 1 for of in by_level.values())
    if any(row.equals for row in rows) or any(several):
        equal = "not told apart within what repeats differ by, or 10 % where timed once"
        equal = equal if against == "cpu_time" else "equally many"
        notes.append(f"or, and more than one {LEAST} in a row: {equal}")
    return Table(headers, cells, title, notes)


def _least_work_cells(row: LeastWork | None) -> list[str]:
    if row is None:
        return ["–", ""]
    work = scientific_cell(row.work) if row.against == "cpu_time" else f"{row.work:.0f}"
    bound, mark = AT_MOST * (not row.interpolated), LEAST * row.least_of_all
    names = [row.integrator, *row.equals]
    shown = names if len(names) <= MOST_EQUAL else [names[0], f"{len(names) - 1} others"]
    return [f"{bound}{work}{mark}", " or ".join(shown)]
