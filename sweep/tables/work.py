"""Errors beside the work that they took, and who needs the least for an error."""

import math

from sweep.analysis.efficiency.pareto import WORK, least_work
from sweep.analysis.efficiency.timing import why_cpu_times_not_comparable
from sweep.analysis.summary import summarize_work
from sweep.tables.base import Table, left_out_runs_note, scanned_axes_of_rows, scientific_cell
from sweep.text import format_number

NAMES = {"steps": "steps", "evaluations": "evaluations", "cpu_time": "CPU time"}
# What those need that share a place.
EQUAL = {
    "steps": "equally many",
    "evaluations": "equally many",
    "cpu_time": "not told apart within what repeats differ by, or 10 % where timed once",
}
MOST_EQUAL = 2  # integrators of a cell
BEST, LEAST, FLOOR, AT_MOST, UNMEASURED = "*", "*", "~", "≤", "?"


def work_as_tables(estimates, against="evaluations"):
    """The table of work and precision, and below it the least work for each error.

    Parameters
    ----------
    estimates : sequence of WorkEstimate
    against : {"steps", "evaluations", "cpu_time"}, optional
        The work by which the best of each family are marked.

    Returns
    -------
    list of Table
        The second and further ones, of each combination of scanned values, are about the first
        error of the estimates.
    """
    first = [row for row in estimates if row.error == estimates[0].error]
    found = {}
    for one in least_work(first, against):
        found.setdefault(tuple(one.parameters.items()), []).append(one)
    notes = [] if found else [f"No least {NAMES[against]}: {_why_no_least_work(first, against)}"]
    least = [_least_work_table(rows, against) for rows in found.values()]
    return [_work_precision_table(estimates, against, notes), *least]


def _work_precision_table(estimates, against, notes):
    axes, errors = (
        scanned_axes_of_rows(estimates),
        list(dict.fromkeys(row.error for row in estimates)),
    )
    steps = [
        name
        for name in ("step_size", "tolerance")
        if any(math.isfinite(getattr(row, name)) for row in estimates)
    ]
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
        for row, *others in _error_cells(estimates, len(errors))
    ]
    headers += ["range"] if ranged else []
    first = [row for row in estimates if row.error == errors[0]]
    if any(_is_below_reference_error(row) for row in first):
        notes = [f"{FLOOR}: at round-off, or less than the reference resolves", *notes]
    if unmeasured := why_cpu_times_not_comparable(first):
        notes = [f"{UNMEASURED}: {unmeasured}", *notes]
    notes = [*notes, _work_units_note(estimates), *left_out_runs_note(first)]
    units = {"CPU time": "s"} | {
        _error_column_name(row.error): row.units for row in estimates if row.units != "1"
    }
    title = _work_table_title(estimates, errors, against)
    summary = " ".join(summarize_work(estimates, against))
    return Table(headers, cells, title, notes, units, summary)


def _error_cells(estimates, errors):
    """The errors of each integrator and step size, so many, together."""
    return zip(*(estimates[i::errors] for i in range(errors)), strict=True)


def _cpu_time_cell(row):
    """CPU time, marked where it cannot be compared."""
    marked = row.cpu_time > 0 and not row.cpu_time_measured
    return scientific_cell(row.cpu_time) + UNMEASURED * marked


def _marked_error_cell(row, against):
    marks = BEST * (against in row.best) + FLOOR * _is_below_reference_error(row)
    return f"{scientific_cell(row.value)}{marks:<1}"


def _is_below_reference_error(row):
    """Whether an error against a reference is below what that resolves."""
    return row.reference and row.starts > 0 and not row.resolved


def _error_range_cell(row):
    return f"{scientific_cell(row.low)} – {scientific_cell(row.high)}" if row.starts > 1 else "–"


def _work_table_title(estimates, errors, against):
    """What the columns are."""
    starts = max(row.starts for row in estimates)
    median = f", medians over {starts} starts" if starts > 1 else ""
    names, times = {}, {}
    for row in estimates:
        when = "at" if row.at == "end" else "largest until"
        names.setdefault((when, row.reference), {})[row.error] = None
        times.setdefault((when, row.reference), set()).add(row.time)
    parts = [
        f"{', '.join(map(_error_column_name, of))} {when} "
        f"{_error_time_text(times[when, reference])}"
        for (when, reference), of in names.items()
    ]
    return (
        f"Work of a whole run, and size of the error{median}: {'; '.join(parts)}\n"
        f"{BEST} best of its family: no member reaches as small an error for as "
        f"{_little_work_in_words(against)}"
    )


def _error_column_name(error):
    return error.removesuffix("_error").replace("_", " ")


def _error_time_text(times):
    """One time, or from when to when."""
    there = sorted(time for time in times if not math.isnan(time))
    ends = dict.fromkeys(there[:1] + there[-1:])
    return f"t = {' – '.join(format_number(time, 6) for time in ends) or '–'}"


def _work_units_note(estimates):
    units = {_error_column_name(row.error): row.units for row in estimates}
    units = {"CPU time": "s"} | {name: unit for name, unit in units.items() if unit != "1"}
    return f"Units: {', '.join(f'{name} [{unit}]' for name, unit in units.items())}"


def _little_work_in_words(against):
    return f"little {NAMES[against]}" if against == "cpu_time" else f"few {NAMES[against]}"


def _why_no_least_work(estimates, against):
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


def _least_work_table(rows, against):
    families = list(dict.fromkeys(row.family for row in rows))
    by_level = {}
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
        notes = [f"{AT_MOST}: at that point the error is smaller already; others are interpolated"]
    if any(row.equals for row in rows) or _several_least(by_level):
        notes.append(f"or, and more than one {LEAST} in a row: {EQUAL[against]}")
    return Table(headers, cells, title, notes)


def _several_least(by_level):
    """Whether several families need least at some level."""
    return any(sum(row.least_of_all for row in of.values()) > 1 for of in by_level.values())


def _least_work_cells(row):
    if row is None:
        return ["–", ""]
    work = scientific_cell(row.work) if row.against == "cpu_time" else f"{row.work:.0f}"
    mark = LEAST if row.least_of_all else ""
    names = [row.integrator, *row.equals]
    shown = names if len(names) <= MOST_EQUAL else [names[0], f"{len(names) - 1} others"]
    return [f"{'' if row.interpolated else AT_MOST}{work}{mark}", " or ".join(shown)]
