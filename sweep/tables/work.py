"""Errors beside the work that they took, and who needs the least for an error."""

import math

from sweep.analysis.efficiency.pareto import WORK, least_work
from sweep.analysis.efficiency.timing import why_cpu_times_not_comparable
from sweep.tables.base import Table, axes_of, left_out_note, scientific
from sweep.text import number

NAMES = {"steps": "steps", "evaluations": "evaluations", "cpu_time": "CPU time"}
BEST, LEAST, FLOOR, AT_MOST, UNMEASURED = "*", "*", "~", "≤", "?"


def work(estimates, against="evaluations"):
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
    notes = [] if found else [f"No least {NAMES[against]}: {_why_none(first, against)}"]
    least = [_least_section(rows, against) for rows in found.values()]
    return [_precision(estimates, against, notes), *least]


def _precision(estimates, against, notes):
    axes, errors = axes_of(estimates), list(dict.fromkeys(row.error for row in estimates))
    steps = [
        name
        for name in ("step_size", "tolerance")
        if any(math.isfinite(getattr(row, name)) for row in estimates)
    ]
    ranged = len(errors) == 1 and any(row.starts > 1 for row in estimates)
    headers = ["integrator", *axes, *(name.replace("_", " ") for name in steps), *NAMES.values()]
    headers += [_name(error) for error in errors]
    cells = [
        [
            row.integrator,
            *(number(row.parameters[axis]) for axis in axes),
            *(number(getattr(row, name)) for name in steps),
            number(row.steps, 6),
            number(row.evaluations, 6),
            _time_of(row),
            *(_marked(one, against) for one in (row, *others)),
            *([_range(row)] if ranged else []),
        ]
        for row, *others in _cells(estimates, len(errors))
    ]
    headers += ["range"] if ranged else []
    first = [row for row in estimates if row.error == errors[0]]
    if any(_at_floor(row) for row in first):
        notes = [f"{FLOOR}: less than the reference resolves", *notes]
    if unmeasured := why_cpu_times_not_comparable(first):
        notes = [f"{UNMEASURED}: {unmeasured}", *notes]
    notes = [*notes, _units(estimates), *left_out_note(first)]
    return Table(headers, cells, _title(estimates, errors, against), notes)


def _cells(estimates, errors):
    """The errors of each integrator and step size, so many, together."""
    return zip(*(estimates[i::errors] for i in range(errors)), strict=True)


def _time_of(row):
    """CPU time, marked where it cannot be compared."""
    marked = row.cpu_time > 0 and not row.cpu_time_measured
    return scientific(row.cpu_time) + UNMEASURED * marked


def _marked(row, against):
    marks = BEST * (against in row.best) + FLOOR * _at_floor(row)
    return f"{scientific(row.value)}{marks:<1}"


def _at_floor(row):
    """Whether an error against a reference is below what that resolves."""
    return row.reference and row.starts > 0 and not row.resolved


def _range(row):
    return f"{scientific(row.low)} – {scientific(row.high)}" if row.starts > 1 else "–"


def _title(estimates, errors, against):
    """What the columns are."""
    starts = max(row.starts for row in estimates)
    median = f", medians over {starts} starts" if starts > 1 else ""
    names, times = {}, {}
    for row in estimates:
        when = "at" if row.at == "end" else "largest until"
        names.setdefault((when, row.reference), {})[row.error] = None
        times.setdefault((when, row.reference), set()).add(row.time)
    parts = [
        f"{', '.join(map(_name, of))} {when} {_time(times[when, reference])}"
        for (when, reference), of in names.items()
    ]
    return (
        f"Work of a whole run, and size of the error{median}: {'; '.join(parts)}\n"
        f"{BEST} best of its family: no member reaches as small an error for as {_little(against)}"
    )


def _name(error):
    return error.removesuffix("_error").replace("_", " ")


def _time(times):
    """One time, or from when to when."""
    there = sorted(time for time in times if not math.isnan(time))
    return f"t = {' – '.join(number(t, 6) for t in dict.fromkeys(there[:1] + there[-1:])) or '–'}"


def _units(estimates):
    units = {_name(row.error): row.units for row in estimates}
    units = {"CPU time": "s"} | {name: unit for name, unit in units.items() if unit != "1"}
    return f"Units: {', '.join(f'{name} [{unit}]' for name, unit in units.items())}"


def _little(against):
    return f"little {NAMES[against]}" if against == "cpu_time" else f"few {NAMES[against]}"


def _why_none(estimates, against):
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
    return "some runs failed at every step size"


def _least_section(rows, against):
    families = list(dict.fromkeys(row.family for row in rows))
    by_level = {}
    for row in rows:
        by_level.setdefault(row.level, {})[row.family] = row
    units = " [s]" if against == "cpu_time" else ""
    cells = [
        [f"{level:.0e}", *(part for f in families for part in _needs(of.get(f)))]
        for level, of in by_level.items()
    ]
    headers = ["error ≤"]
    for family in families:
        headers += [family, "with"]
    first = rows[0]
    where = ", ".join(f"{name} = {number(value)}" for name, value in first.parameters.items())
    title = (
        f"Least {NAMES[against]}{units} by size of the {first.error.replace('_', ' ')} and family"
        f"{where and f', {where}'}; {LEAST} of all"
    )
    notes = []
    if not all(row.interpolated for row in rows):
        notes = [f"{AT_MOST}: at that point the error is smaller already; others are interpolated"]
    return Table(headers, cells, title, notes)


def _needs(row):
    if row is None:
        return ["–", ""]
    work = scientific(row.work) if row.against == "cpu_time" else f"{row.work:.0f}"
    mark = LEAST if row.least_of_all else ""
    return [f"{'' if row.interpolated else AT_MOST}{work}{mark}", row.integrator]
