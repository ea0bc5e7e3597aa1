"""Errors beside their work: the Pareto front of each family, and the least work for an error."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from integrators.errors import check_known
from sweep.analysis.efficiency.timing import APART, is_cpu_time_comparable
from sweep.analysis.rows import Rows
from sweep.analysis.runs.blocks import Floats
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
        return not self.cpu_time_elsewhere and is_cpu_time_comparable(
            self.cpu_time_apart, self.cpu_time_batch, self.repeats
        )

    def work_range(self, against: str) -> tuple[float, float]:
        """A measure of work, and the largest value that cannot be distinguished from it.

        Steps and evaluations are exact. CPU times are uncertain by the difference of the two least
        repeats, or by `timing.APART` where a run was timed once.
        """
        work = getattr(self, against)
        if against != "cpu_time":
            return work, work
        once = math.isnan(self.cpu_time_apart)
        return work, work * (1 + (APART if once else self.cpu_time_apart))

    def work_is_comparable(self, against: str) -> bool:
        """Whether a measure of work can be compared with that of others."""
        if against == "cpu_time" and not self.cpu_time_measured:
            return False
        return getattr(self, against) > 0


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
        Work, and the largest work that cannot be distinguished from it: equal except for CPU
        times, see `WorkEstimate.work_range`.
    interpolated : bool
        Whether it lies between two measured points; otherwise `work` is that of a point whose
        error is smaller already.
    equals : tuple of str
        Other integrators of the family whose work cannot be distinguished from it.
    least_of_all : bool
        Whether no other family needs surely less.
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
    equals: tuple[str, ...]
    least_of_all: bool


@dataclass(frozen=True)
class ReachedLevel:
    """Work of an integrator for an error; attributes as of `LeastWork`."""

    family: str
    integrator: str
    work: float
    work_high: float
    interpolated: bool


def with_pareto_flags(rows: Sequence[WorkEstimate]) -> list[WorkEstimate]:
    """Mark the rows that are on the Pareto front of their family."""
    best: list[list[str]] = [[] for _ in rows]
    by_family: dict[tuple[str, str, str], list[int]] = {}
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


def pareto_front(errors: Floats, work: Floats, work_high: Floats | None = None) -> list[int]:
    """Positions on the Pareto front: no other point has surely as small an error for less work.

    Parameters
    ----------
    errors, work : ndarray, shape ``(n,)``
        Points where one is NaN are left out. Of points that are the same in both, all are on it.
    work_high : ndarray, shape ``(n,)``, optional
        The largest work that cannot be distinguished from `work`; equal to it by default. Where
        the work of two points cannot be distinguished, an error `FAR` times smaller beats.

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


def _smallest_errors_before(
    ordered_work: Floats, errors: Floats, work: Floats, side: Literal["left", "right"]
) -> Floats:
    smallest = np.array([np.inf, *np.minimum.accumulate(errors)])
    return smallest[np.searchsorted(ordered_work, work, side)]


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
    tables: dict[tuple[str, str], list[WorkEstimate]] = {}
    for row in rows:
        if row.starts and not row.failed and row.work_is_comparable(against):
            tables.setdefault((row.error, axis_values_in_words(row.parameters)), []).append(row)
    return Rows(one for table in tables.values() for one in _least_work_of_families(table, against))


def _least_work_of_families(rows: Sequence[WorkEstimate], against: str) -> list[LeastWork]:
    found = []
    for level, ranked in rank_at_levels(rows, against):
        by_family: dict[str, list[ReachedLevel]] = {}
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


def rank_at_levels(
    rows: Sequence[WorkEstimate], against: str
) -> list[tuple[float, list[ReachedLevel]]]:
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
    members: dict[tuple[str, str], list[WorkEstimate]] = {}
    found = []
    for row in rows:
        members.setdefault((row.family, row.integrator), []).append(row)
    for level in _resolved_error_levels(rows):
        needed = [
            ReachedLevel(family, integrator, *_least_work_to_reach_level(points, level, against))
            for (family, integrator), points in members.items()
        ]
        reached = [one for one in needed if math.isfinite(one.work)]
        if reached:
            found.append((level, sorted(reached, key=lambda one: one.work)))
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
) -> tuple[float, float, bool]:
    """The least work of one integrator for a level, and whether it lies between two points.

    Infinite where no point reaches the level.
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
