"""Pareto fronts of error against work for each family, and the least work for an error."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from integrators.errors import check_known
from sweep.analysis.efficiency.timing import APART, what_cpu_time_lacks
from sweep.analysis.rows import Rows, grouped
from sweep.analysis.runs.blocks import Booleans, Floats
from sweep.analysis.runs.selection import axis_values_in_words

WORK = ("steps", "evaluations", "cpu_time")
FAR = 3.0  # factor in the error that 10 % more work cannot give, up to order 10


@dataclass(frozen=True)
class WorkEstimate:
    """One error of one integrator at one step size or tolerance, and the work of its runs.

    Attributes
    ----------
    integrator, family : str
        Label in the study, and the family in which the integrator is compared.
    parameters : dict
        Values of the scanned axes.
    step_size, tolerance : float
        One is NaN: adaptive integrators have a tolerance, the others a step size.
    error : str
        ``global_error``, ``energy_error``, …
    units : str
    reference : bool
        Whether the error is measured against a reference solution.
    at : str
        ``end`` or ``sup``: the error at `time`, or its maximum until then.
    time : float
        For an error against a reference, the last time at which the reference resolves the errors
        of all integrators; for other errors, the end of the run.
    value, low, high : float
        Absolute error: median over the starts, and range; NaN if no run is complete.
    floor : float
        Uncertainty of the error, because of round-off or the error of the reference. Smaller errors
        are indistinguishable.
    steps, evaluations, cpu_time : float
        Work of a whole run, medians over the starts: steps including rejected ones, evaluations of
        the system's function, and seconds. For repeated runs, this is the least time. Runs that are
        computed together in the lanes of a batch share its time equally. NaN if nothing was
        counted.
    cpu_time_largest, cpu_time_apart, cpu_time_batch : float
        Medians over the starts. The longest time of repeated runs; the relative difference of the
        two shortest times, NaN if runs are timed once; and the time of the whole batch, which is
        the time that was measured.
    cpu_time_elsewhere : bool
        Whether some of the runs were computed by another kind of machine, or another version, than
        most runs of the table.
    repeats : int
        Smallest number of times that a run was timed.
    starts, failed, left_out : int
        Numbers of initial conditions that are used; of runs that failed; and of all runs that are
        not used, because they failed, are unfinished, or left the study.
    reference_failed : bool
        Whether complete runs have no error because the reference failed.
    best : tuple of str
        The measures in `WORK` by which the row is the best of its family; see `work.work_table`.
    """

    integrator: str
    family: str
    parameters: dict[str, Any]
    step_size: float
    tolerance: float
    error: str
    units: str
    reference: bool
    at: str
    time: float
    value: float
    low: float
    high: float
    floor: float
    steps: float
    evaluations: float
    cpu_time: float
    cpu_time_largest: float
    cpu_time_apart: float
    cpu_time_batch: float
    cpu_time_elsewhere: bool
    repeats: int
    starts: int
    failed: int
    left_out: int
    reference_failed: bool = False
    best: tuple[str, ...] = ()

    @property
    def resolved(self) -> bool:
        """Whether the error exceeds round-off and the error of the reference."""
        return self.value > self.floor

    @property
    def cpu_time_measured(self) -> bool:
        """Whether the CPU time is long enough, timed often enough, and from the same machine."""
        return not what_cpu_time_lacks(vars(self))

    def work_range(self, against: str) -> tuple[float, float]:
        """The work by a measure, and the largest value that cannot be distinguished from it.

        Steps and evaluations are exact. The uncertainty of CPU times is the difference of the two
        shortest repeats, or `timing.APART` if a run was timed once. Both values are NaN if the work
        cannot be compared, because runs failed, or nothing was counted or measured.
        """
        work = getattr(self, against)
        timed = against == "cpu_time"
        lost = self.failed or not self.starts or not work > 0
        if lost or (timed and not self.cpu_time_measured):
            return math.nan, math.nan
        apart = APART if math.isnan(self.cpu_time_apart) else self.cpu_time_apart
        return work, work * (1 + apart) if timed else work

    def work_is_comparable(self, against: str) -> bool:
        """Whether the work by a measure can be compared with that of other rows."""
        return not math.isnan(self.work_range(against)[0])


@dataclass(frozen=True)
class LeastWork:
    """The least work that an integrator needs to reach an error.

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
        The work, and the largest work that cannot be distinguished from it. They differ only for
        CPU times; see `WorkEstimate.work_range`.
    interpolated : bool
        Whether `work` is interpolated between two measured points. Otherwise it is the work of a
        point with a smaller error.
    equals : tuple of str
        For the best member of a family, other members whose work cannot be distinguished from it.
    least_of_all : bool
        Whether no other integrator certainly needs less work.
    """

    error: str
    level: float
    parameters: dict[str, Any]
    family: str
    integrator: str
    against: str
    work: float
    work_high: float
    interpolated: bool
    equals: tuple[str, ...] = ()
    least_of_all: bool = False


def with_pareto_flags(rows: Sequence[WorkEstimate]) -> list[WorkEstimate]:
    """Mark the rows that are on the Pareto front of their family."""
    best: list[list[str]] = [[] for _ in rows]
    whole = [i for i, row in enumerate(rows) if row.starts and not row.failed]
    for places in grouped(whole, lambda i: (*_setting(rows[i]), rows[i].family)).values():
        errors, floors = np.array([[rows[i].value, rows[i].floor] for i in places]).T
        errors = np.fmax(errors, np.median(np.nan_to_num(floors)))
        for against in WORK:
            work, high = np.array([rows[i].work_range(against) for i in places]).T
            for place in np.flatnonzero(pareto_front(errors, work, high)):
                best[places[place]].append(against)
    return [replace(row, best=tuple(of)) for row, of in zip(rows, best, strict=True)]


def pareto_front(errors: Floats, work: Floats, high: Floats) -> Booleans:
    """Which points are on the Pareto front: no other has as small an error for certainly less work.

    Parameters
    ----------
    errors, work : ndarray, shape ``(n,)``
        Points with NaN are not on the front. Identical points are all on it, or none is.
    high : ndarray, shape ``(n,)``
        The largest work that cannot be distinguished from `work`. If the work of two points cannot
        be distinguished, a point whose error is `FAR` times smaller dominates the other.

    Returns
    -------
    ndarray of bool, shape ``(n,)``
    """
    far = errors / np.where(high > work, FAR, 1.0)
    surely = np.less.outer(high, work) & np.less_equal.outer(errors, errors)
    about = np.less_equal.outer(work, work) & np.less.outer(errors, far)
    return np.isfinite(errors) & np.isfinite(work) & ~(surely | about).any(axis=0)


def least_work(rows: Sequence[WorkEstimate], against: str = "evaluations") -> Rows[LeastWork]:
    """Find the integrator of each family that needs the least work for errors of 1, 0.1, 0.01, …

    Parameters
    ----------
    rows : sequence of WorkEstimate
    against : {"steps", "evaluations", "cpu_time"}, optional

    Returns
    -------
    Rows of LeastWork
        By error, scanned values, descending level, and family. Families of which no member reached
        a level have no row for it.

    Raises
    ------
    InputError
        If `against` is none of these.

    Notes
    -----
    Work is interpolated linearly in the logarithms between two points of an integrator that enclose
    the level; it is never extrapolated. If a point with a smaller error took less work than that,
    or if an integrator was measured only at smaller errors, the work of the point is used.
    """
    check_known("measure of work", against, WORK, key="against")
    found = []
    for own in grouped(rows, _setting).values():
        families = dict.fromkeys(row.family for row in own)
        for (_, ranked), family in itertools.product(rank_at_levels(own, against), families):
            if members := [one for one in ranked if one.family == family]:
                first, *others = members
                equals = tuple(one.integrator for one in others if one.work <= first.work_high)
                found.append(replace(first, equals=equals))
    return Rows(found)


def _setting(row: WorkEstimate) -> tuple[str, str]:
    """Key of a row; only rows with equal keys are compared."""
    return row.error, axis_values_in_words(row.parameters)


def rank_at_levels(
    rows: Sequence[WorkEstimate], against: str
) -> list[tuple[float, list[LeastWork]]]:
    """Rank integrators by the work that they need to reach each power of ten of the error.

    Parameters
    ----------
    rows : sequence of WorkEstimate
        Rows of one error and one combination of scanned values. Rows that cannot be compared are
        ignored.
    against : str
        One of `WORK`.

    Returns
    -------
    list of (float, list of LeastWork)
        By descending error; at each error, by ascending work.
    """
    rows = [row for row in rows if row.work_is_comparable(against)]
    members = grouped(rows, lambda row: (row.family, row.integrator))
    found = []
    for level in _resolved_error_levels(rows):
        of_level = rows[0].error, level, rows[0].parameters
        reached = [
            LeastWork(*of_level, family, integrator, against, *least)
            for (family, integrator), points in members.items()
            for least in _least_work_to_reach_level(points, level, against)
        ]
        reached.sort(key=lambda one: one.work)
        ranked = [replace(r, least_of_all=r.work <= reached[0].work_high) for r in reached]
        found += [(level, ranked)] if ranked else []
    return found


def _resolved_error_levels(rows: Sequence[WorkEstimate]) -> list[float]:
    """Powers of ten in the range of the resolved errors, the largest first."""
    errors = [row.value for row in rows if row.resolved]
    if not errors:
        return []
    first, last = math.floor(math.log10(max(errors))), math.ceil(math.log10(min(errors)))
    return [float(f"1e{power}") for power in range(first, last - 1, -1)]


def _least_work_to_reach_level(
    points: Iterable[WorkEstimate], level: float, against: str
) -> list[tuple[float, float, bool]]:
    """The least work with which one integrator reaches a level, and whether it is interpolated.

    Empty if no point reaches the level.
    """
    points = sorted(points, key=lambda row: getattr(row, against))
    reached = [(*row.work_range(against), False) for row in points if row.value <= level]
    for before, after in itertools.pairwise(points):
        one, other = before.value, after.value
        if other < level < one and after.resolved:
            share = math.log(one / level) / math.log(one / other)
            ends = zip(before.work_range(against), after.work_range(against), strict=True)
            work, high = (first * (last / first) ** share for first, last in ends)
            reached.append((work, high, True))
    return sorted(reached)[:1]
