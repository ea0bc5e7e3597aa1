"""Errors beside the work that they took, and the least work for an error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sweep.analysis.efficiency.pareto import WORK, least_work
from sweep.analysis.efficiency.timing import why_cpu_times_not_comparable
from sweep.analysis.summary import summarize_work
from sweep.tables.base import (
    Table,
    left_out_runs_note,
    scanned_axes_of_rows,
    scientific_cell,
    step_columns_of_rows,
)
from sweep.text import format_number

if TYPE_CHECKING:
    from sweep.analysis.efficiency.pareto import LeastWork, WorkEstimate

NAMES = {"steps": "steps", "evaluations": "evaluations", "cpu_time": "CPU time"}
# How the work of integrators compares that share the first place.
EQUAL = {
    "steps": "equally many",
    "evaluations": "equally many",
    "cpu_time": "not told apart within what repeats differ by, or 10 % where timed once",
}
MOST_EQUAL = 2  # integrators of a cell
BEST, LEAST, FLOOR, AT_MOST, UNMEASURED = "*", "*", "~", "≤", "?"


def work_as_tables(estimates: Sequence[WorkEstimate], against: str = "evaluations") -> list[Table]:
    """The table of work and precision, then the least work for each size of the error.

    Parameters
    ----------
    estimates : sequence of WorkEstimate
    against : {"steps", "evaluations", "cpu_time"}, optional
        The work by which the best of each family are marked.

    Returns
    -------
    list of Table
        The second and further ones, one for each combination of scanned values, are about the
        first error of the estimates.
    """
    first = [row for row in estimates if row.error == estimates[0].error]
    found: dict[tuple[tuple[str, object], ...], list[LeastWork]] = {}
    for one in least_work(first, against):
        found.setdefault(tuple(one.parameters.items()), []).append(one)
    notes = [] if found else [f"No least {NAMES[against]}: {_why_no_least_work(first, against)}"]
    least = [_least_work_table(rows, against) for rows in found.values()]
    return [_work_precision_table(estimates, against, notes), *least]


def _work_precision_table(
    estimates: Sequence[WorkEstimate], against: str, notes: list[str]
) -> Table:
    axes, steps = scanned_axes_of_rows(estimates), step_columns_of_rows(estimates)
    errors = list(dict.fromkeys(row.error for row in estimates))
    ranged = len(errors) == 1 and any(row.starts > 1 for row in estimates)
    headers = ["integrator", *axes, *(name.replace("_", " ") for name in steps), *NAMES.values()]
    headers += [_error_column_name(error) for error in errors]
    cells = [
        [
            row.integrator,
            *(format_number(row.parameters[axis]) for axis in axes),
            *(format_number(getattr(row, name)) for name in steps),
            format_number(row.steps, 6),
            format_number(row.evaluations, 6),
            _cpu_time_cell(row),
            *(_marked_error_cell(one, against) for one in (row, *others)),
            *([_error_range_cell(row)] if ranged else []),
        ]
        for row, *others in _rows_by_setting(estimates, len(errors))
    ]
    headers += ["range"] if ranged else []
    first = [row for row in estimates if row.error == errors[0]]
    if any(_is_below_reference_error(row) for row in first):
        notes = [f"{FLOOR}: at round-off, or less than the reference resolves", *notes]
    if unmeasured := why_cpu_times_not_comparable(first):
        notes = [f"{UNMEASURED}: {unmeasured}", *notes]
    units = {"CPU time": "s"} | {
        _error_column_name(row.error): row.units for row in estimates if row.units != "1"
    }
    notes = [*notes, _work_units_note(units), *left_out_runs_note(first)]
    title = _work_table_title(estimates, against)
    summary = " ".join(summarize_work(estimates, against))
    return Table(headers, cells, title, notes, units, summary)


def _rows_by_setting(
    estimates: Sequence[WorkEstimate], errors: int
) -> Iterable[tuple[WorkEstimate, ...]]:
    """The rows of each integrator and step size together: as many as there are errors."""
    return zip(*(estimates[i::errors] for i in range(errors)), strict=True)


def _cpu_time_cell(row: WorkEstimate) -> str:
    """CPU time, marked where it cannot be compared."""
    marked = row.cpu_time > 0 and not row.cpu_time_measured
    return scientific_cell(row.cpu_time) + UNMEASURED * marked


def _marked_error_cell(row: WorkEstimate, against: str) -> str:
    marks = BEST * (against in row.best) + FLOOR * _is_below_reference_error(row)
    return f"{scientific_cell(row.value)}{marks:<1}"


def _is_below_reference_error(row: WorkEstimate) -> bool:
    """Whether an error against a reference is below what the reference resolves."""
    return row.reference and row.starts > 0 and not row.resolved


def _error_range_cell(row: WorkEstimate) -> str:
    return f"{scientific_cell(row.low)} – {scientific_cell(row.high)}" if row.starts > 1 else "–"


def _work_table_title(estimates: Sequence[WorkEstimate], against: str) -> str:
    """What the columns are: errors, when they are measured, and the work by which some are best."""
    starts = max(row.starts for row in estimates)
    median = f", medians over {starts} starts" if starts > 1 else ""
    by_time: dict[tuple[str, bool], list[WorkEstimate]] = {}
    for row in estimates:
        when = "at" if row.at == "end" else "largest until"
        by_time.setdefault((when, row.reference), []).append(row)
    parts = [
        f"{', '.join(map(_error_column_name, dict.fromkeys(row.error for row in rows)))} {when} "
        f"{_error_time_text({row.time for row in rows})}"
        for (when, _), rows in by_time.items()
    ]
    return (
        f"Work of a whole run, and size of the error{median}: {'; '.join(parts)}\n"
        f"{BEST} best of its family: no member reaches as small an error for as "
        f"{_little_work_in_words(against)}"
    )


def _error_column_name(error: str) -> str:
    return error.removesuffix("_error").replace("_", " ")


def _error_time_text(times: Iterable[float]) -> str:
    """Times in words: ``t = 2``, or the first and the last, ``t = 1.5 – 2``."""
    known = sorted(time for time in times if not math.isnan(time))
    ends = dict.fromkeys(known[:1] + known[-1:])
    return f"t = {' – '.join(format_number(time, 6) for time in ends) or '–'}"


def _work_units_note(units: Mapping[str, str]) -> str:
    return f"Units: {', '.join(f'{name} [{unit}]' for name, unit in units.items())}"


def _little_work_in_words(against: str) -> str:
    return f"little {NAMES[against]}" if against == "cpu_time" else f"few {NAMES[against]}"


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
    families = list(dict.fromkeys(row.family for row in rows))
    by_level: dict[float, dict[str, LeastWork]] = {}
    for row in rows:
        by_level.setdefault(row.level, {})[row.family] = row
    units = " [s]" if against == "cpu_time" else ""
    cells = [
        [f"{level:.0e}", *(part for f in families for part in _least_work_cells(of.get(f)))]
        for level, of in by_level.items()
    ]
    headers = ["error ≤"]
    for family in families:
        headers += [family, "with"]
    first = rows[0]
    where = ", ".join(
        f"{name} = {format_number(value)}" for name, value in first.parameters.items()
    )
    title = (
        f"Least {NAMES[against]}{units} by size of the {first.error.replace('_', ' ')} and family"
        f"{where and f', {where}'}; {LEAST} of all"
    )
    notes = []
    if not all(row.interpolated for row in rows):
        notes = [
            f"{AT_MOST}: its error there is smaller already, so that it may need less; others are "
            "interpolated"
        ]
    if any(row.equals for row in rows) or _several_least(by_level):
        notes.append(f"or, and more than one {LEAST} in a row: {EQUAL[against]}")
    return Table(headers, cells, title, notes)


def _several_least(by_level: Mapping[float, Mapping[str, LeastWork]]) -> bool:
    """Whether several families need least at some level."""
    return any(sum(row.least_of_all for row in of.values()) > 1 for of in by_level.values())


def _least_work_cells(row: LeastWork | None) -> list[str]:
    if row is None:
        return ["–", ""]
    work = scientific_cell(row.work) if row.against == "cpu_time" else f"{row.work:.0f}"
    mark = LEAST if row.least_of_all else ""
    names = [row.integrator, *row.equals]
    shown = names if len(names) <= MOST_EQUAL else [names[0], f"{len(names) - 1} others"]
    return [f"{'' if row.interpolated else AT_MOST}{work}{mark}", " or ".join(shown)]
