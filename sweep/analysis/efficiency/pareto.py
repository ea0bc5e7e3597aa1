"""The best of each family: its Pareto front, and who needs the least work for an error."""

import math
from dataclasses import dataclass, replace

import numpy as np

from integrators.errors import check_known
from sweep.analysis.runs.selection import axis_values_in_words
from sweep.rows import Rows

WORK = ("steps", "evaluations", "cpu_time")
FAR = 3.0  # times smaller an error is than what a tenth more work gives, up to order 10


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
    work, work_high : float
        And up to what it cannot be told from more: equal but for CPU times, see
        `WorkEstimate.work_range`.
    interpolated : bool
        Whether it lies between two measured points; otherwise `work` is that of a point whose
        error is smaller already.
    equals : tuple of str
        Other integrators of the family that cannot be told from it.
    least_of_all : bool
        Whether no other family surely needs less.
    """

    error: str
    level: float
    parameters: dict
    family: str
    integrator: str
    against: str
    work: float
    work_high: float
    interpolated: bool
    equals: tuple
    least_of_all: bool


@dataclass(frozen=True)
class ReachedLevel:
    """What an integrator needs for an error: attributes as of `LeastWork`."""

    family: str
    integrator: str
    work: float
    work_high: float
    interpolated: bool


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
                row.work_range(against) if row.work_is_comparable(against) else (np.nan, np.nan)
                for row in family
            ]
            for i in pareto_front(np.fmax(errors, floor), *np.array(work).T):
                best[places[i]].append(against)
    return [replace(row, best=tuple(of)) for row, of in zip(rows, best, strict=True)]


def pareto_front(errors, work, work_high=None):
    """Positions on the Pareto front: points than which none has surely as small an error for less.

    Parameters
    ----------
    errors, work : ndarray, shape ``(n,)``
        Points where one is NaN are left out. Of points that are the same in both, all are on it.
    work_high : ndarray, shape ``(n,)``, optional
        Up to what work cannot be told from more; equal to it unless given. A point whose work is
        not told from another's is beaten by errors that are `FAR` smaller.

    Returns
    -------
    list of int
        By work.
    """
    high = work if work_high is None else work_high
    there = np.flatnonzero(np.isfinite(errors) & np.isfinite(work))
    there = there[np.lexsort([errors[there], work[there]])]
    errors, work, high = errors[there], work[there], high[there]
    by_high = np.argsort(high, kind="stable")
    # The smallest error of those that surely took less, and of those that took no more.
    surely = _smallest_errors_before(high[by_high], errors[by_high], work, "left")
    about = _smallest_errors_before(work, errors, work, "right")
    beaten = (surely <= errors) | (about < errors / np.where(high > work, FAR, 1.0))
    return there[~beaten].tolist()


def _smallest_errors_before(ordered_work, errors, work, side):
    smallest = np.array([np.inf, *np.minimum.accumulate(errors)])
    return smallest[np.searchsorted(ordered_work, work, side)]


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
    found = []
    for level, ranked in rank_at_levels(rows, against):
        by_family = {}
        for one in ranked:
            by_family.setdefault(one.family, []).append(one)
        for family, members in by_family.items():
            first, row = members[0], rows[0]
            found.append(
                LeastWork(
                    error=row.error,
                    level=level,
                    parameters=row.parameters,
                    family=family,
                    integrator=first.integrator,
                    against=against,
                    work=first.work,
                    work_high=first.work_high,
                    interpolated=first.interpolated,
                    equals=tuple(
                        one.integrator for one in members[1:] if one.work <= first.work_high
                    ),
                    least_of_all=first.work <= ranked[0].work_high,
                )
            )
    families = list(dict.fromkeys(row.family for row in rows))
    return sorted(found, key=lambda one: (-one.level, families.index(one.family)))


def rank_at_levels(rows, against):
    """Integrators by the work that they need for each error of a power of ten.

    Parameters
    ----------
    rows : sequence of WorkEstimate
        Of one error and one combination of scanned values, that can be compared.
    against : str

    Returns
    -------
    list of (float, list of ReachedLevel)
        From the largest error on; those that need least first.
    """
    members, found = {}, []
    for row in rows:
        members.setdefault((row.family, row.integrator), []).append(row)
    for level in _resolved_error_levels(rows):
        needed = [
            ReachedLevel(*names, *_least_work_to_reach_level(points, level, against))
            for names, points in members.items()
        ]
        reached = [one for one in needed if math.isfinite(one.work)]
        if reached:
            found.append((level, sorted(reached, key=lambda one: one.work)))
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
    work = [row.work_range(against) for row in points]
    reached = [(*w, False) for w, row in zip(work, points, strict=True) if row.value <= level]
    for i in range(len(points) - 1):
        one, other = points[i].value, points[i + 1].value
        if other < level < one and points[i + 1].resolved:
            share = math.log(one / level) / math.log(one / other)
            ends = zip(work[i], work[i + 1], strict=True)
            reached.append((*(first * (last / first) ** share for first, last in ends), True))
    return min(reached, default=(math.inf, math.inf, False))
