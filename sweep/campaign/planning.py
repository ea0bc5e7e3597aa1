"""What a study costs, and how its work is divided into tasks.

A pilot of a few milliseconds measures each integrator on each system, and references; all other
costs follow by counting. The pilot also compiles the kernels, once, before any worker starts.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.lanes import WIDTH
from sweep.campaign.batches import Batches, Kind, Workload
from sweep.campaign.cost_model import Clock, Cost, Estimate
from sweep.campaign.pilot import (
    least_pilot_seconds,
    named_integrators_of_table,
    named_systems_of_table,
    pilot_batch_costs,
    pilot_reference_cost,
    recipe_of_run_table,
)
from sweep.campaign.worker.recorder import NamedComponent, Recipe
from sweep.campaign.worker.reference import make_solver
from sweep.campaign.worker.run_work import MOST_BYTES
from sweep.campaign.worker.tasks import CHECKPOINT_EVERY, ReferenceTask, RunTask, Task
from sweep.store import create, storage
from sweep.store.chunk_layout import INITIAL_CHUNK, Layout, chunk_rows
from sweep.store.diff import references_of_run_table
from sweep.store.files import references_group_name
from sweep.study import schema

if TYPE_CHECKING:
    from sweep.store.diff import Entry, References
    from sweep.store.files import RowNumbers
    from sweep.store.store import Store

WRITE_SECONDS = 3e-4  # of one variable of a record, folding included
UNIT_SECONDS = 2.5  # that a unit takes at most, unless one run does: tasks consist of whole units
UNITS = 12  # of an experiment, where it has the runs: work for every worker
REFERENCES_OF_TASK = 16
COORDINATES = 10  # along the runs, with a scanned axis
LEAST_TASK, MOST_TASK = 0.25, 30.0  # seconds; Dask takes 1.5 ms a task
TASKS_PER_WORKER = 3  # that the work left is divided into
Costs = Mapping[Kind, Cost]
OnMeasurement = Callable[[str, int, int], object]  # what is measured, how many are, of how many
ShardRow = tuple[str, int]  # a group, and a row of shards in it
TaskRows = tuple[range, int, float]  # rows of a task, number of its runs, expected seconds


@dataclass(frozen=True, eq=False)
class Units:
    """The units of rows of an experiment that have pending runs, as arrays of shape ``(units,)``.

    Parameters
    ----------
    rows : int
        Number of rows of a unit, which are always in one task.
    number : ndarray of int
        Unit ``i``, counted from 0, has the rows from ``i * rows`` on.
    runs : ndarray of int
        Number of pending runs of each unit.
    seconds : ndarray
        Expected CPU seconds of these, recording included.
    """

    rows: int
    number: NDArray[np.int64]
    runs: NDArray[np.int64]
    seconds: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExperimentPlan:
    """The pending runs of an experiment, and what they cost.

    Parameters
    ----------
    entry : sweep.store.diff.Entry
    work : sweep.campaign.batches.Workload
        The pending runs, in `units`.
    costs : dict of tuple to sweep.campaign.cost_model.Cost
        Cost of each kind of batch.
    units : Units
    runs, references : sweep.campaign.cost_model.Estimate
        CPU time of the integration of pending runs, and of missing references.
    recording_seconds : float
        CPU seconds to record the pending runs, and to measure their structure.
    reference_seconds : ndarray, shape (references,)
        Expected CPU seconds of each reference; 0 if it is computed, or no pending run needs it.
    layout : sweep.store.chunk_layout.Layout
        Chunks and shards of the experiment's arrays.
    """

    entry: Entry
    work: Workload
    costs: Costs
    units: Units
    runs: Estimate
    references: Estimate
    recording_seconds: float
    reference_seconds: NDArray[np.float64]
    layout: Layout

    @property
    def steps(self) -> int:
        """Steps of all pending runs; of adaptive ones, the number that the pilot predicts."""
        work = self.work
        of_kinds = (
            np.sum(work.runs[own] * self.costs[kind].steps * work.amounts[own])
            for kind, own in work.by_kind()
        )
        return round(float(sum(of_kinds)))

    @property
    def lacking_references(self) -> int:
        """Number of references that pending runs need and the store lacks."""
        return int(np.sum(self.reference_seconds > 0))

    @property
    def files(self) -> int:
        """Number of files of the experiment in the store: shards, coordinates and metadata."""
        experiment, table, runs = self.entry.experiment, self.entry.table, self.entry.size
        scalars = len(schema.run_variables(experiment.record, table.systems[0])) + 1
        along_run = math.ceil(runs / storage.coordinate_chunk_size(runs))
        found = self.layout.files(runs, experiment.samples + 1, self._series, scalars)
        found += math.ceil(runs / INITIAL_CHUNK) + COORDINATES * along_run + 3  # the other axes
        found += self._series + scalars + COORDINATES + 3 + 3  # metadata, also of both groups
        if references := references_of_run_table(table):
            count, rows = len(references.ids), 3 * max(made.rows for made in table.systems)
            layout = Layout.choose(count, references.samples, rows)
            ends = len(schema.OF_REFERENCE_ENDS)
            found += layout.files(count, references.samples, 2, 3 + ends)
            found += math.ceil(count / INITIAL_CHUNK) + 1 + 8 + ends  # ids, metadata
        return found

    @property
    def bytes(self) -> int:
        """Bytes of the experiment's results before compression."""
        samples = self.entry.experiment.samples + 1
        return self.entry.size * 8 * (samples * _numbers_of_sample(self.entry) + 12)

    @property
    def _series(self) -> int:
        return len(schema.sampled_variables(self.entry.experiment, self.entry.table.systems))

    @property
    def cpu_time(self) -> Estimate:
        """The `Estimate` of the CPU time of integrations, those of references included."""
        return self.runs + self.references

    @property
    def facts(self) -> dict[str, Any]:
        """Costs of the experiment, as a flat dict."""
        least, most = self.cpu_time.interval
        return {
            "experiment": self.entry.name,
            "runs": int(self.entry.pending.sum()),
            "committed": int((~self.entry.pending).sum()),
            "references": self.lacking_references,
            "steps": self.steps,
            "files": self.files,
            "bytes": self.bytes,
            "cpu_seconds": least,
            "cpu_seconds_most": most,
            "reference_cpu_seconds": self.references.usual,
            "recording_cpu_seconds": self.recording_seconds,
        }


def total_cpu_time(plans: Iterable[ExperimentPlan]) -> Estimate:
    """Add up the CPU time of several experiments.

    Parameters
    ----------
    plans : iterable of ExperimentPlan

    Returns
    -------
    sweep.campaign.cost_model.Estimate
        In seconds; its interval is narrower than the sum of theirs.
    """
    return sum((plan.cpu_time for plan in plans), Estimate())


def plan_study(
    entries: Sequence[Entry],
    on_measurement: OnMeasurement = lambda what, done, of: None,
    clock: Clock = time.thread_time,
) -> list[ExperimentPlan]:
    """Measure and plan experiments.

    Parameters
    ----------
    entries : list of Entry
    on_measurement : callable
        ``on_measurement(what, done, of)`` is called before each measurement with what is measured,
        and how many measurements of how many are done; it may raise.
    clock : callable
        CPU seconds of this thread: workers of a local cluster may start meanwhile.

    Returns
    -------
    list of ExperimentPlan
    """
    return list(plan_each(entries, on_measurement, clock))


def plan_each(
    entries: Sequence[Entry],
    on_measurement: OnMeasurement = lambda what, done, of: None,
    clock: Clock = time.thread_time,
) -> Iterator[ExperimentPlan]:
    """As `plan_study`; yields each `ExperimentPlan` as soon as it is made."""
    works = list(map(Workload.of, entries))
    seconds, counted = least_pilot_seconds(works), itertools.count()
    of = sum(map(_count_measurements, works))

    def before_measurement(what: str) -> None:
        on_measurement(what, min(next(counted), of - 1), of)

    for work in works:
        yield plan_experiment(work.entry, before_measurement, clock, seconds, work)


def _count_measurements(work: Workload) -> int:
    """Number of measurements of the pilot: one for each kind of batch, and one for references."""
    return len(list(work.by_kind())) + (work.entry.experiment.reference is not None)


def plan_experiment(
    entry: Entry,
    before_measurement: Callable[[str], object] = lambda what: None,
    clock: Clock = time.thread_time,
    seconds: float | None = None,
    work: Workload | None = None,
) -> ExperimentPlan:
    """Measure and plan an experiment by itself.

    Parameters
    ----------
    entry : sweep.store.diff.Entry
    before_measurement : callable
        Called before each measurement with a description of what is measured; it may raise.
    clock : callable
        As in `plan_study`.
    seconds : float, optional
        Least duration of a measurement, see `sweep.campaign.pilot.least_pilot_seconds`.
    work : Workload, optional
        The pending runs, where they were counted already.

    Returns
    -------
    ExperimentPlan
    """
    work = work or Workload.of(entry)
    seconds = seconds or least_pilot_seconds([work])
    costs = pilot_batch_costs(work, seconds, before_measurement, clock)
    work = Workload.of(entry, _rows_of_unit(work, costs))  # as it will be
    costs = pilot_batch_costs(work, seconds, before_measurement, clock, costs)
    if entry.experiment.reference is not None:
        before_measurement(f"references of {entry.name} by {entry.experiment.reference.integrator}")
    references, reference_seconds = _plan_reference_costs(entry, clock)
    estimates = (
        costs[kind].estimate(work.amounts[own], work.batches[own]) for kind, own in work.by_kind()
    )
    return ExperimentPlan(
        entry=entry,
        work=work,
        costs=costs,
        units=_units_of_pending_runs(work, costs),
        runs=sum(estimates, Estimate()),
        references=references,
        recording_seconds=float(sum(_seconds_of_groups(work, costs)[1])),
        reference_seconds=reference_seconds,
        layout=create.layout_of_entry(entry),
    )


def _rows_of_unit(work: Workload, costs: Costs) -> int:
    """Number of rows of a unit: a power of two, at most a chunk of the arrays.

    Small enough that every worker has work, and that no task takes too long.
    """
    table, experiment = work.entry.table, work.entry.experiment
    lanes = len(table.starts) > 1 and not table.methods.adaptive[table.occurring_methods()].all()
    of_run = float(np.sum(_seconds_of_groups(work, costs))) / max(int(work.runs.sum()), 1)
    wanted = min(table.size / UNITS, UNIT_SECONDS / max(of_run, 1e-9))
    most = min(chunk_rows(experiment.samples + 1), MOST_BYTES // _bytes_of_run(work.entry))
    rows = max(WIDTH if lanes else 1, min(wanted, most))
    return int(2 ** math.floor(math.log2(rows)))


def _bytes_of_run(entry: Entry) -> int:
    """Bytes that the results of a run occupy in a worker until they are committed."""
    return 8 * ((entry.experiment.samples + 1) * _numbers_of_sample(entry) + 32)


def _numbers_of_sample(entry: Entry) -> int:
    """Number of values that a run has at each sample."""
    systems = entry.table.systems
    state = 3 * max(made.rows for made in systems)
    variables = schema.sampled_variables(entry.experiment, systems)
    return sum(state if len(variable.dims) > 2 else 1 for variable in variables)


def _seconds_of_groups(work: Workload, costs: Costs) -> NDArray[np.float64]:
    """CPU seconds of each group of a workload: of the integration, and of the recording."""
    found = np.zeros((2, len(work.amounts)))
    for kind, own in work.by_kind():
        found[0, own] = work.batches[own] * costs[kind].seconds(work.amounts[own])
        found[1, own] = _recording_seconds(work.entry, costs[kind], work.runs[own], found[0, own])
    return found


def _recording_seconds(
    entry: Entry, cost: Cost, runs: NDArray[np.int64], seconds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """CPU seconds to record runs whose integration takes `seconds`, and their structure."""
    per_run = cost.seconds_per_sample * (entry.experiment.samples + 1) + cost.seconds_per_run
    return runs * per_run + cost.extra_integrations * seconds


def _units_of_pending_runs(work: Workload, costs: Costs) -> Units:
    """The `Units` of the pending runs of a workload."""
    entry, numbers, runs, seconds = work.entry, [], [], []
    for found in Batches.in_slabs(entry, work.unit):
        of_batch = np.zeros(len(found.sizes))
        for kind, own in found.by_kind():
            own_seconds = costs[kind].seconds(found.amounts[own])
            of_batch[own] = own_seconds
            of_batch[own] += _recording_seconds(entry, costs[kind], found.sizes[own], own_seconds)
        # A batch lies in one unit.
        unit = entry.rows[found.first] // work.unit
        begins = np.flatnonzero(np.diff(unit, prepend=-1))
        numbers.append(unit[begins])
        if len(begins):
            runs.append(np.add.reduceat(found.sizes, begins))
            seconds.append(np.add.reduceat(of_batch, begins))
    number, count = (np.concatenate([np.zeros(0, dtype=int), *own]) for own in (numbers, runs))
    return Units(work.unit, number, count, np.concatenate([np.zeros(0), *seconds]))


def _plan_reference_costs(entry: Entry, clock: Clock) -> tuple[Estimate, NDArray[np.float64]]:
    """The `Estimate` of missing references, and the CPU seconds of each reference."""
    reference, found = entry.experiment.reference, references_of_run_table(entry.table)
    if reference is None or found is None:
        return Estimate(), np.zeros(0)
    left = _lacking_part_of_references(entry, found)
    lacking, seconds = left > 0, np.zeros(len(left))
    if not lacking.any():
        return Estimate(), seconds
    times = entry.experiment.times[: found.samples]
    cost = pilot_reference_cost(entry.table, reference, found.first_run[lacking], clock)
    seconds[lacking] = cost.seconds(times[-1] * left[lacking])
    return cost.estimate(times[-1] * left[lacking]), seconds


def _lacking_part_of_references(entry: Entry, references: References) -> NDArray[np.float64]:
    """Fraction of each reference that pending runs need and that is not computed yet."""
    needed = np.zeros(len(references.ids), dtype=bool)
    for rows in entry.slabs():
        needed[references.of(entry.table.take(entry.pending_runs(*rows)))] = True
    there = np.array([entry.references.get(run_id, 0) for run_id in references.ids.tolist()])
    times = entry.experiment.times[: references.samples]
    complete = there >= len(times)
    done = times[np.clip(there, 1, len(times)) - 1] / max(times[-1], np.finfo(float).tiny)
    return np.where(needed & ~complete, 1.0 - done, 0.0)


# --- tasks ------------------------------------------------------------------------


def make_tasks(
    store: Store,
    plans: Sequence[ExperimentPlan],
    workers: int,
    checkpoint_every: float = CHECKPOINT_EVERY,
) -> tuple[list[ReferenceTask], list[PlannedTask]]:
    """Make the tasks of all pending work: those of references, which come first, and of runs.

    Run tasks are ordered by repeat, then by row of shards, then by cost. All methods have their
    first repeat before any has its second, so that a slow minute of the machine affects all of
    them, and none in all of its repeats. Rows of shards follow one another, that with the most work
    first, so that few have records that are not folded. Within a row the longest task comes first.

    Parameters
    ----------
    store : Store
        With all rows of the plans.
    plans : list of ExperimentPlan
    workers : int
    checkpoint_every : float
        Seconds.

    Returns
    -------
    references, runs : list of ReferenceTask, list of PlannedTask
    """
    references = [
        task for plan in plans for task in _make_reference_tasks(store, plan, checkpoint_every)
    ]
    runs = [
        PlannedTask(maker, rows, count, cost, checkpoint_every=checkpoint_every)
        for plan, groups in zip(plans, _group_units_into_tasks(plans, workers), strict=True)
        if groups and (maker := _TaskMaker.of(store, plan))
        for rows, count, cost in groups
    ]
    work: dict[ShardRow, float] = collections.defaultdict(float)
    turn: dict[ShardRow, int] = {}
    for task in runs:
        work[task.shard_row] += task.cost
        turn.setdefault(task.shard_row, task.first_repeat)
    runs.sort(
        key=lambda task: (
            turn[task.shard_row],
            -work[task.shard_row],
            task.shard_row,
            task.first_repeat,
            -task.cost,
        )
    )
    return references, runs


def count_tasks(plans: Sequence[ExperimentPlan], workers: int) -> int:
    """Number of tasks that `make_tasks` would make."""
    runs = sum(len(groups) for groups in _group_units_into_tasks(plans, workers))
    references = (int(np.sum(plan.reference_seconds > 0)) for plan in plans)
    return runs + sum(-(-count // REFERENCES_OF_TASK) for count in references)


def _group_units_into_tasks(plans: Sequence[ExperimentPlan], workers: int) -> list[list[TaskRows]]:
    """Rows, number of runs and seconds of each task, as a list for each plan.

    Tasks get smaller: each takes a share of the work that is left (guided self-scheduling), so that
    the workers end together.
    """
    groups = []
    for plan in plans:
        left = np.cumsum(plan.units.seconds[::-1])[::-1]
        targets = np.clip(left / (TASKS_PER_WORKER * max(workers, 1)), LEAST_TASK, MOST_TASK)
        groups.append(_group_consecutive_units(plan, targets))
    return groups


def _group_consecutive_units(plan: ExperimentPlan, targets: NDArray[np.float64]) -> list[TaskRows]:
    """Group units into tasks that take about the target seconds of their first unit.

    A task lies in one row of shards, and its results fit into the memory of a worker.
    """
    most = max(1, MOST_BYTES // _bytes_of_run(plan.entry))
    fixed = (plan._series + len(schema.RUN_VARIABLES)) * WRITE_SECONDS
    rows = plan.units.number * plan.units.rows
    shards = rows // plan.layout.shard_rows
    groups, begin, end, shard, runs, cost, target = [], 0, 0, -1, 0, 0.0, 0.0
    columns = (rows, shards, plan.units.runs, plan.units.seconds, targets)
    for row, own, count, seconds, aim in zip(*(c.tolist() for c in columns), strict=True):
        full = cost + seconds + fixed > target or runs + count > most
        if runs and (full or own != shard):
            groups.append((range(begin, end), runs, cost + fixed))
            runs, cost = 0, 0.0
        if not runs:
            begin, shard, target = row, own, aim
        end, runs, cost = row + plan.units.rows, runs + count, cost + seconds
    if runs:
        groups.append((range(begin, end), runs, cost + fixed))
    return groups


@dataclass(frozen=True, eq=False)
class PlannedTask(Task):
    """A `RunTask` that is built when it is sent; until then it is only a range of rows.

    Parameters
    ----------
    maker : _TaskMaker
    rows : range
        Of the store; the task has the pending runs in them.
    count : int
        Number of these.
    cost : float
        As in `RunTask`.
    """

    maker: _TaskMaker
    rows: range
    count: int
    cost: float

    @property
    def store(self) -> Store:
        """The store."""
        return self.maker.store

    @property
    def experiment(self) -> str:
        """Name of the experiment."""
        return self.maker.plan.entry.name

    group, key = RunTask.group, RunTask.key

    @property
    def runs(self) -> int:
        """Number of its runs."""
        return self.count

    @property
    def shard_row(self) -> ShardRow:
        """Group and row of shards in which its rows lie."""
        return self.experiment, self.rows[0] // self.maker.plan.layout.shard_rows

    @functools.cached_property
    def first_repeat(self) -> int:
        """Repeat of its first run, counted from 0."""
        entry = self.maker.plan.entry
        if entry.experiment.repeat == 1:
            return 0
        first = entry.pending_runs(self.rows.start, self.rows.stop)[:1]
        return int(entry.table.take(first).repeat[0])

    def build(self) -> RunTask:
        """Build the `RunTask` that is sent to a worker."""
        return self.maker.make(self)


@dataclass(frozen=True, eq=False)
class _TaskMaker:
    """Builds the tasks of an experiment.

    Parameters
    ----------
    plan : ExperimentPlan
    store : Store
    recipe, systems, integrators
        As in `RunTask`; all tasks share them.
    references : sweep.store.diff.References or None
    reference_rows : ndarray of int
        Row of each reference in the store.
    """

    plan: ExperimentPlan
    store: Store
    recipe: Recipe
    systems: tuple[NamedComponent, ...]
    integrators: tuple[NamedComponent, ...]
    references: References | None
    reference_rows: RowNumbers

    @classmethod
    def of(cls, store: Store, plan: ExperimentPlan) -> _TaskMaker:
        """The maker of the tasks of a plan, into a store that has its rows."""
        entry, table = plan.entry, plan.entry.table
        references, rows = references_of_run_table(table), np.zeros(0, dtype=int)
        if references:
            group = store.group(references_group_name(entry.name), "a")
            rows = references.rows(group)
        return cls(
            plan=plan,
            store=store,
            recipe=recipe_of_run_table(table),
            systems=named_systems_of_table(table),
            integrators=named_integrators_of_table(table),
            references=references,
            reference_rows=rows,
        )

    def make(self, planned: PlannedTask) -> RunTask:
        """Build the `RunTask` of a `PlannedTask`."""
        entry = self.plan.entry
        runs = entry.pending_runs(planned.rows.start, planned.rows.stop)
        places, reference = entry.table.take(runs), self.reference_rows
        return RunTask(
            store=self.store,
            experiment=entry.name,
            recipe=self.recipe,
            systems=self.systems,
            integrators=self.integrators,
            rows=entry.rows[runs].astype(np.int64),
            integrator=places.integrator_index,
            system=places.system_index,
            step_size=places.step_size,
            tolerance=places.tolerance,
            steps_per_sample=places.steps_per_sample,
            repeat=places.repeat,
            stored=entry.standing[runs].astype(np.int64),
            reference=reference[self.references.of(places)] if self.references else reference,
            precise_starts=entry.table.precise_starts(runs),
            unit=self.plan.units.rows,
            cost=planned.cost,
            checkpoint_every=planned.checkpoint_every,
        )


def _make_reference_tasks(
    store: Store, plan: ExperimentPlan, checkpoint_every: float
) -> list[ReferenceTask]:
    """Tasks for the references that pending runs need and the store lacks."""
    entry, table = plan.entry, plan.entry.table
    reference, references = entry.experiment.reference, references_of_run_table(table)
    if reference is None or references is None or not entry.pending.any():
        return []
    group = store.group(references_group_name(entry.name), "a")
    rows = references.rows(group)
    needed = np.flatnonzero(_lacking_part_of_references(entry, references) > 0)
    needed = needed[np.argsort(rows[needed])]
    stored = np.array([entry.references.get(run_id, 0) for run_id in references.ids.tolist()])
    system = table.take(references.first_run).system_index
    shard = rows[needed] // storage.layout_of_group(group).shard_rows
    parts = np.split(needed, np.flatnonzero(np.diff(shard)) + 1)
    return [
        ReferenceTask(
            store=store,
            experiment=entry.name,
            times=entry.experiment.times[: references.samples],
            solver=make_solver(entry.experiment, reference, references.samples),
            systems=named_systems_of_table(table),
            rows=rows[mine],
            system=system[mine],
            stored=stored[mine],
            precise_starts=table.precise_starts(references.first_run[mine], reference.is_precise),
            cost=float(plan.reference_seconds[mine].sum()),
            checkpoint_every=checkpoint_every,
        )
        for part in parts
        for mine in np.split(part, range(REFERENCES_OF_TASK, len(part), REFERENCES_OF_TASK))
        if len(mine)
    ]
