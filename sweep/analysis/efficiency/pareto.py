"""Errors beside their work: the Pareto front of each family, and the least work for an error."""

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
FAR = 3.0  # times smaller an error is than what a tenth more work gives, up to order 10


@dataclass(frozen=True)
class WorkEstimate:
    """One error of one integrator at one step size or tolerance, and the work that it took.

    Attributes
    ----------
    integrator, family : str
        The label in the study, and the family that it is compared within.
    parameters : dict
        Values of the scanned axes.
    step_size, tolerance : float
        One is NaN: adaptive integrators have a tolerance, the others a step size.
    error : str
        ``global_error``, ``energy_error``, …
    units : str
    reference : bool
        Whether it is measured against a reference solution.
    at : str
        ``end`` or ``sup``: the error at `time`, or its largest size until then.
    time : float
        Of an error against a reference the last time at which it resolves the errors of all
        integrators; of others the end of the run.
    value, low, high : float
        Size of the error: median over the starts, and range; NaN where no run is complete.
    floor : float
        Errors below it cannot be told apart: round-off, or what the reference is wrong by.
    steps, evaluations, cpu_time : float
        Of a whole run, medians over the starts: steps with the rejected ones, evaluations of the
        system's function, and seconds, of repeated runs the least. Of runs that are computed side
        by side in lanes each has its share of the time. NaN where none are counted.
    cpu_time_largest, cpu_time_apart, cpu_time_batch : float
        Of repeated runs the longest time; by what the next to the least is longer, as a part of
        it, NaN where they are timed once; and the time of all runs that were computed side by
        side, which is what was measured. Medians over the starts.
    cpu_time_elsewhere : bool
        Whether some of its runs were computed by another kind of machine, or another version, than
        most runs of the table.
    repeats : int
        How often each run was timed, at least.
    starts, failed, left_out : int
        Initial conditions that count; runs that stopped early; runs that do not count: these,
        unfinished ones, and those that left the study.
    reference_failed : bool
        Whether complete runs have no error because the reference failed.
    best : tuple of str
        Which of `WORK` it is best of its family by, see `work.work_table`.
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
        """Whether the error stands above round-off and the reference's own error."""
        return self.value > self.floor

    @property
    def cpu_time_measured(self) -> bool:
        """Whether the CPU time is long, timed often enough, and of the same machine as others."""
        return not what_cpu_time_lacks(vars(self))

    def work_range(self, against: str) -> tuple[float, float]:
        """A measure of work, and the largest value that cannot be distinguished from it.

        Steps and evaluations are exact. CPU times are uncertain by the difference of the two least
        repeats, or by `timing.APART` where a run was timed once. NaN where it cannot be compared
        with that of others: runs failed, or none is counted or measured.
        """
        work = getattr(self, against)
        timed = against == "cpu_time"
        lost = self.failed or not self.starts or not work > 0
        if lost or (timed and not self.cpu_time_measured):
            return math.nan, math.nan
        apart = APART if math.isnan(self.cpu_time_apart) else self.cpu_time_apart
        return work, work * (1 + apart) if timed else work

    def work_is_comparable(self, against: str) -> bool:
        """Whether a measure of work can be compared with that of others."""
        return not math.isnan(self.work_range(against)[0])


@dataclass(frozen=True)
class LeastWork:
    """The least work that an integrator needs for an error.

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
        Work, and the largest work that cannot be distinguished from it: equal except for CPU
        times, see `WorkEstimate.work_range`.
    interpolated : bool
        Whether it lies between two measured points; otherwise `work` is that of a point whose
        error is smaller already.
    equals : tuple of str
        Of the first of a family the other members whose work cannot be distinguished from it.
    least_of_all : bool
        Whether no other integrator needs surely less.
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
    """Which points are on the Pareto front: no other has surely as small an error for less work.

    Parameters
    ----------
    errors, work : ndarray, shape ``(n,)``
        Points where one is NaN are not. Of points that are the same in both, all are on it.
    high : ndarray, shape ``(n,)``
        The largest work that cannot be distinguished from `work`. Where the work of two points
        cannot be distinguished, an error `FAR` times smaller beats.
    """
    far = errors / np.where(high > work, FAR, 1.0)
    surely = np.less.outer(high, work) & np.less_equal.outer(errors, errors)
    about = np.less_equal.outer(work, work) & np.less.outer(errors, far)
    return np.isfinite(errors) & np.isfinite(work) & ~(surely | about).any(axis=0)


def least_work(rows: Sequence[WorkEstimate], against: str = "evaluations") -> Rows:
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
    """Equal of the rows that are compared with each other."""
    return row.error, axis_values_in_words(row.parameters)


def rank_at_levels(
    rows: Sequence[WorkEstimate], against: str
) -> list[tuple[float, list[LeastWork]]]:
    """Integrators by the work that they need for each error of a power of ten.

    Parameters
    ----------
    rows : sequence of WorkEstimate
        Of one error and one combination of scanned values; those that can be compared count.
    against : str

    Returns
    -------
    list of (float, list of LeastWork)
        From the largest error on; those that need least first.
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
    """The powers of ten among the errors that are resolved, from the largest on."""
    errors = [row.value for row in rows if row.resolved]
    if not errors:
        return []
    first, last = math.floor(math.log10(max(errors))), math.ceil(math.log10(min(errors)))
    return [float(f"1e{power}") for power in range(first, last - 1, -1)]


def _least_work_to_reach_level(
    points: Iterable[WorkEstimate], level: float, against: str
) -> list[tuple[float, float, bool]]:
    """The least work of one integrator for a level, and whether it lies between two points.

    Empty where no point reaches the level.
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
