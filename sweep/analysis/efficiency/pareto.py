"""The best of each family: its Pareto front, and who needs the least work for an error."""

import math
from dataclasses import dataclass, replace

import numpy as np

from integrators.errors import check_known
from sweep.analysis.runs.selection import axis_values_in_words
from sweep.rows import Rows

WORK = ("steps", "evaluations", "cpu_time")


@dataclass(frozen=True)
class LeastWork:
    """The integrator of a family that needs the least work for an error.

    Attributes
    ----------
    error : str
    level : float
        The error to reach, a power of ten.
    parameters : dict
        Values of the scanned axes.
    family, integrator : str
    against : str
        One of `WORK`.
    work : float
    interpolated : bool
        Whether it lies between two measured points; otherwise `work` is that of a point whose
        error is smaller already.
    least_of_all : bool
        Whether no other family needs less.
    """

    error: str
    level: float
    parameters: dict
    family: str
    integrator: str
    against: str
    work: float
    interpolated: bool
    least_of_all: bool


def with_pareto_flags(rows):
    """The rows, with those marked that are best of their family."""
    best = [[] for _ in rows]
    by_family = {}
    for i, row in enumerate(rows):
        if row.starts and not row.failed:
            key = (axis_values_in_words(row.parameters), row.error, row.family)
            by_family.setdefault(key, []).append(i)
    for places in by_family.values():
        family = [rows[i] for i in places]
        errors = np.array([row.value for row in family])
        floor = np.median([0.0 if math.isnan(row.floor) else row.floor for row in family])
        for against in WORK:
            work = [
                getattr(row, against) if row.work_is_comparable(against) else np.nan
                for row in family
            ]
            for i in pareto_front(np.fmax(errors, floor), np.array(work)):
                best[places[i]].append(against)
    return [replace(row, best=tuple(of)) for row, of in zip(rows, best, strict=True)]


def pareto_front(errors, work):
    """Positions on the Pareto front: points than which none has as small an error for as little.

    Parameters
    ----------
    errors, work : ndarray, shape ``(n,)``
        Points where one is NaN are left out. Of points that are the same in both, all are on it.

    Returns
    -------
    list of int
    """
    there = np.flatnonzero(np.isfinite(errors) & np.isfinite(work))
    order = there[np.lexsort([errors[there], work[there]])]
    found = []
    for i in order:
        least = (errors[found[-1]], work[found[-1]]) if found else (math.inf, math.inf)
        if errors[i] < least[0] or (errors[i], work[i]) == least:
            found.append(int(i))
    return found


def least_work(rows, against="evaluations"):
    """Which integrator of each family needs the least work for errors of 1, 0.1, 0.01, …

    Parameters
    ----------
    rows : sequence of WorkEstimate
    against : {"steps", "evaluations", "cpu_time"}, optional

    Returns
    -------
    Rows of LeastWork
        By error, scanned values, level from the largest on, and family. Without a row for a family
        of which no member was seen to reach the level.

    Raises
    ------
    InputError
        When `against` is none of these.

    Notes
    -----
    Between the points of an integrator that enclose the level, work is interpolated linearly in
    the logarithms; it is never extrapolated. Where a point at smaller error took less work than
    that, or an integrator was only measured at smaller errors, the point's work counts.
    """
    check_known("measure of work", against, WORK, key="against")
    tables = {}
    for row in rows:
        if row.starts and not row.failed and row.work_is_comparable(against):
            tables.setdefault((row.error, axis_values_in_words(row.parameters)), []).append(row)
    return Rows(one for table in tables.values() for one in _least_work_of_families(table, against))


def _least_work_of_families(rows, against):
    found, members = [], {}
    for row in rows:
        members.setdefault((row.family, row.integrator), []).append(row)
    for level in _resolved_error_levels(rows):
        of_family = {}
        for (family, integrator), points in members.items():
            work, interpolated = _least_work_to_reach_level(points, level, against)
            if work < of_family.get(family, (math.inf,))[0]:
                of_family[family] = work, interpolated, integrator
        least = min((work for work, *_ in of_family.values()), default=math.nan)
        for family, (work, interpolated, integrator) in of_family.items():
            row = rows[0]
            found.append(
                LeastWork(row.error, level, row.parameters, family, integrator, against, work,
                          interpolated, work == least)
            )  # fmt: skip
    return found


def _resolved_error_levels(rows):
    """The powers of ten among the errors that are resolved, from the largest on."""
    errors = [row.value for row in rows if row.resolved]
    if not errors:
        return []
    first, last = math.floor(math.log10(max(errors))), math.ceil(math.log10(min(errors)))
    return [float(f"1e{power}") for power in range(first, last - 1, -1)]


def _least_work_to_reach_level(points, level, against):
    """The least work with which points of one integrator reach a level, and if it is between two.

    Infinite where they do not.
    """
    points = sorted(points, key=lambda row: getattr(row, against))
    work = [getattr(row, against) for row in points]
    reached = [(w, False) for w, row in zip(work, points, strict=True) if row.value <= level]
    for i in range(len(points) - 1):
        one, other = points[i].value, points[i + 1].value
        if other < level < one and points[i + 1].resolved:
            share = math.log(one / level) / math.log(one / other)
            reached.append((work[i] * (work[i + 1] / work[i]) ** share, True))
    return min(reached, default=(math.inf, False))
