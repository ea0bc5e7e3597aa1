"""What a study costs, and how its work is cut into tasks.

A pilot of a few milliseconds measures each integrator on each system, and references; everything
else is counting. The pilot also compiles the kernels, once, before any worker starts.
"""

import collections
import math
import os
import time
from dataclasses import dataclass

import numpy as np

from integrators.compiler.lanes import WIDTH
from sweep.campaign.batches import Batches
from sweep.campaign.cost_model import Estimate
from sweep.campaign.pilot import (
    least_pilot_seconds,
    named_integrators_of_table,
    named_systems_of_table,
    pilot_batch_costs,
    pilot_reference_cost,
    recipe_of_run_table,
)
from sweep.campaign.worker.run_work import MOST_BYTES
from sweep.campaign.worker.tasks import CHECKPOINT_EVERY, ReferenceTask, RunTask
from sweep.store import create, diff, storage
from sweep.store.chunk_layout import INITIAL_CHUNK, Layout, chunk_rows
from sweep.store.diff import references_of_run_table
from sweep.store.files import references_group_name
from sweep.store.studies import resolve_study_and_store
from sweep.study import schema

WRITE_SECONDS = 3e-4  # of one variable of a record, folding included
UNIT_SECONDS = 2.5  # no task is shorter than a unit
UNITS = 12  # of an experiment, where it has the runs: work for every worker
REFERENCES_OF_TASK = 16
COORDINATES = 10  # along the runs, with a scanned axis
LEAST_TASK, MOST_TASK = 0.25, 30.0  # seconds; Dask takes 1.5 ms a task
TASKS_PER_WORKER = 3  # that the work left is divided into


@dataclass(frozen=True, eq=False)
class ExperimentPlan:
    """An experiment's runs with their cost.

    Parameters
    ----------
    entry : sweep.store.diff.Entry
    run_steps : ndarray, shape (runs,)
        Steps of each pending run, 0 of others; of an adaptive one, as many as the pilot lets
        expect.
    seconds : ndarray, shape (runs,)
        Expected CPU time of each pending run with what is besides the integration, 0 of others.
    runs, references : sweep.campaign.cost_model.Estimate
        CPU time of the pending runs' integration, and of the references that they lack.
    beside : float
        Seconds of CPU time to record the pending runs, and to measure their structure.
    reference_seconds : ndarray, shape (references,)
        Expected CPU time of each reference, 0 of those that are there or that no run needs.
    layout : sweep.store.chunk_layout.Layout
        Of its arrays.
    unit : int
        Rows that are always in one task.
    """

    entry: object
    run_steps: np.ndarray
    seconds: np.ndarray
    runs: Estimate
    references: Estimate
    beside: float
    reference_seconds: np.ndarray
    layout: Layout
    unit: int

    @property
    def steps(self):
        """Steps of all pending runs."""
        return round(float(np.sum(self.run_steps)))

    @property
    def lacking_references(self):
        """Number of references that pending runs need and the store lacks."""
        return int(np.sum(self.reference_seconds > 0))

    @property
    def files(self):
        """Files of the experiment in the store: of shards, coordinates and metadata."""
        experiment, table, runs = self.entry.experiment, self.entry.table, self.entry.size
        scalars = len(schema.run_variables(experiment.record, table.systems[0])) + 1
        along_run = math.ceil(runs / storage.coordinate_chunk_size(runs))
        found = self.layout.files(runs, experiment.samples + 1, self._series, scalars)
        found += math.ceil(runs / INITIAL_CHUNK) + COORDINATES * along_run + 3  # the other axes
        found += self._series + scalars + COORDINATES + 3 + 3  # metadata, also of both groups
        if references := references_of_run_table(table):
            count, rows = len(references.ids), 3 * max(made.rows for made in table.systems)
            layout = Layout.choose(count, references.samples, rows)
            found += layout.files(count, references.samples, 2, 3)
            found += math.ceil(count / INITIAL_CHUNK) + 1 + 8  # ids, metadata
        return found

    @property
    def bytes(self):
        """Bytes of the experiment's results before compression."""
        samples = self.entry.experiment.samples + 1
        state = 3 * max(made.rows for made in self.entry.table.systems) if self._stores_state else 0
        return self.entry.size * 8 * (samples * (self._series + max(0, state - 1)) + 12)

    @property
    def _series(self):
        return len(schema.sampled_variables(self.entry.experiment, self.entry.table.systems))

    @property
    def _stores_state(self):
        return "state" in self.entry.experiment.record

    @property
    def cpu_time(self):
        """The `Estimate` of what the store will say was used, references included."""
        return self.runs + self.references


@dataclass(frozen=True, eq=False)
class Plan:
    """What a study would cost, of which its store lacks a part.

    Parameters
    ----------
    store : Path or ObjectPlace
    experiments : tuple of ExperimentPlan
    tasks : int
    """

    store: object
    experiments: tuple
    tasks: int

    @property
    def cpu_seconds(self):
        """CPU seconds that it is expected to take at least and at most."""
        return total_cpu_time(self.experiments).interval


def plan(study, store=None, workers=None, trust_plugins=False):
    """Plan a study as `sweep plan` does: nothing is written.

    Parameters
    ----------
    study, store, trust_plugins
        As in `sweep.run`; of a store that exists only what it lacks is counted.
    workers : int, optional
        Processes for which tasks are counted; one a core unless given.

    Returns
    -------
    Plan

    Raises
    ------
    StudyError, StoreError, InputError
        As `sweep.run`.
    """
    loaded, store = resolve_study_and_store(study, store, trust_plugins)
    plans = plan_study(diff.diff_store_against_study(store, loaded))
    return Plan(store.place, tuple(plans), count_tasks(plans, workers or os.cpu_count() or 1))


def total_cpu_time(plans):
    """The `sweep.campaign.cost_model.Estimate` of some `ExperimentPlan`s together."""
    return sum((plan.cpu_time for plan in plans), Estimate())


def plan_study(entries, between=lambda: None, clock=time.thread_time):
    """Measure and plan experiments.

    Parameters
    ----------
    entries : list of Entry
    between : callable
        As in `plan_experiment`.
    clock : callable
        CPU time of this thread: workers of a local cluster start meanwhile.

    Returns
    -------
    list of ExperimentPlan
    """
    seconds = least_pilot_seconds(entries)
    return [plan_experiment(entry, between, clock, seconds) for entry in entries]


def plan_experiment(entry, between=lambda: None, clock=time.thread_time, seconds=None):
    """Measure and plan an experiment by itself.

    Parameters
    ----------
    entry : sweep.store.diff.Entry
    between : callable
        Called between two measurements, which compile for seconds at first; it may raise.
    clock : callable
        As in `plan_study`.
    seconds : float, optional
        Of a measurement, see `sweep.campaign.pilot.least_pilot_seconds`.

    Returns
    -------
    ExperimentPlan
    """
    seconds = seconds or least_pilot_seconds([entry])
    batches = Batches.of(entry)
    costs = pilot_batch_costs(entry, batches, seconds, between, clock)
    unit = _rows_of_unit(entry, batches, costs)
    batches = Batches.of(entry, unit)  # as they will be
    costs = pilot_batch_costs(entry, batches, seconds, between, clock, costs)
    between()
    references, reference_seconds = _plan_reference_costs(entry, clock)
    of_batch, beside = (
        _seconds_per_batch(entry, batches, costs),
        _recording_seconds_per_batch(entry, batches, costs),
    )
    return ExperimentPlan(
        entry=entry,
        run_steps=_spread_batches_over_runs(entry, batches, _steps_per_batch(batches, costs)),
        seconds=_spread_batches_over_runs(entry, batches, (of_batch + beside) / batches.sizes),
        runs=sum(
            (costs[kind].estimate(batches.amounts[own]) for kind, own in batches.by_kind()),
            Estimate(),
        ),
        references=references,
        beside=float(beside.sum()),
        reference_seconds=reference_seconds,
        layout=create.layout_of_entry(entry),
        unit=unit,
    )


def _rows_of_unit(entry, batches, costs):
    """Rows that are always in one task: a power of two, at most a chunk of the arrays.

    Few enough that there is work for every worker and a task does not take too long.
    """
    table, seconds = entry.table, _seconds_per_batch(entry, batches, costs)
    seconds = seconds + _recording_seconds_per_batch(entry, batches, costs)
    lanes = max(len(starts) for starts in table.starts) > 1 and not table.adaptive.all()
    of_run = float(seconds.sum()) / max(len(batches.runs), 1)
    wanted = min(table.size / UNITS, UNIT_SECONDS / max(of_run, 1e-9))
    most = min(chunk_rows(entry.experiment.samples + 1), MOST_BYTES // _bytes_of_run(entry))
    rows = max(WIDTH if lanes else 1, min(wanted, most))
    return 2 ** math.floor(math.log2(rows))


def _bytes_of_run(entry):
    """Bytes that a worker has of a run until it is committed."""
    systems, experiment = entry.table.systems, entry.experiment
    series = len(schema.sampled_variables(experiment, systems))
    series += 3 * max(made.rows for made in systems) if "state" in experiment.record else 0
    return 8 * ((experiment.samples + 1) * series + 32)


def _seconds_per_batch(entry, batches, costs):
    """Expected CPU time of the integration of each batch."""
    seconds = np.zeros(len(batches.sizes))
    for kind, own in batches.by_kind():
        seconds[own] = costs[kind].seconds(batches.amounts[own])
    return seconds


def _recording_seconds_per_batch(entry, batches, costs):
    """Expected CPU time of each batch to record it, and to measure its structure."""
    seconds = np.zeros(len(batches.sizes))
    for kind, own in batches.by_kind():
        cost = costs[kind]
        seconds[own] = batches.sizes[own] * (cost.sample * (entry.experiment.samples + 1))
        seconds[own] += batches.sizes[own] * cost.run
        seconds[own] += cost.again * cost.seconds(batches.amounts[own])
    return seconds


def _steps_per_batch(batches, costs):
    """Expected steps of a run of each batch."""
    steps = np.zeros(len(batches.sizes))
    for kind, own in batches.by_kind():
        steps[own] = costs[kind].steps * batches.amounts[own]
    return steps


def _spread_batches_over_runs(entry, batches, values):
    """What each run of a batch has, as an array over the table's runs; 0 of those not pending."""
    found = np.zeros(entry.table.size)
    found[batches.runs] = values[batches.of_run]
    return found


def _plan_reference_costs(entry, clock):
    """The `Estimate` of the references that are lacking, and the seconds of each reference."""
    found = references_of_run_table(entry.table)
    if found is None:
        return Estimate(), np.zeros(0)
    left = _lacking_part_of_references(entry, found)
    lacking, seconds = left > 0, np.zeros(len(left))
    if not lacking.any():
        return Estimate(), seconds
    times = entry.experiment.times[: found.samples]
    cost = pilot_reference_cost(entry.table, found.first_run[lacking], clock)
    seconds[lacking] = cost.seconds(times[-1] * left[lacking])
    return cost.estimate(times[-1] * left[lacking]), seconds


def _lacking_part_of_references(entry, references):
    """What part of each reference pending runs need that is not there yet."""
    needed = np.zeros(len(references.ids), dtype=bool)
    needed[references.of_run[entry.pending]] = True
    there = np.array([entry.references.get(run_id, 0) for run_id in references.ids.tolist()])
    times = entry.experiment.times[: references.samples]
    complete = there >= len(times)
    done = times[np.clip(there, 1, len(times)) - 1] / max(times[-1], np.finfo(float).tiny)
    return np.where(needed & ~complete, 1.0 - done, 0.0)


# --- tasks ------------------------------------------------------------------------


def make_tasks(store, root, plans, workers, checkpoint_every=CHECKPOINT_EVERY):
    """The pending work as tasks: references first, then runs.

    Row of shards by row of shards, that with the most work first, and of each the longest task
    first: so few rows are under way at a time, and few records are not folded.

    Parameters
    ----------
    store : Store
        It is brought up.
    root : zarr.Group
    plans : list of ExperimentPlan
    workers : int
    checkpoint_every : float
        Seconds.

    Returns
    -------
    references, runs : list of ReferenceTask, list of RunTask
    """
    references = [
        task
        for plan in plans
        for task in _make_reference_tasks(store, root, plan, checkpoint_every)
    ]
    runs = [
        (int(task.rows[0]) // plan.layout.shard_rows, task)
        for plan, groups in zip(plans, _group_units_into_tasks(plans, workers), strict=True)
        for task in _make_run_tasks(store, root, plan, groups, checkpoint_every)
    ]
    work = collections.Counter()
    for shard_row, task in runs:
        work[task.group, shard_row] += task.cost

    def place(own):
        shard_row, task = own
        key = task.group, shard_row
        return -work[key], key, -task.cost

    return references, [task for _, task in sorted(runs, key=place)]


def count_tasks(plans, workers):
    """Number of tasks that `make_tasks` would make."""
    runs = sum(len(groups) for groups in _group_units_into_tasks(plans, workers))
    references = (int(np.sum(plan.reference_seconds > 0)) for plan in plans)
    return runs + sum(-(-count // REFERENCES_OF_TASK) for count in references)


def _group_units_into_tasks(plans, workers):
    """The pending runs of each task and its seconds, as a list for each plan.

    Tasks get smaller: each takes a share of what its plan has left (guided self-scheduling),
    so that the workers end together.
    """
    groups = []
    for plan in plans:
        runs, begins, seconds = _units_of_pending_runs(plan)
        left = np.cumsum(seconds[::-1])[::-1]
        targets = np.clip(left / (TASKS_PER_WORKER * max(workers, 1)), LEAST_TASK, MOST_TASK)
        groups.append(_group_consecutive_units(plan, runs, begins, seconds, targets))
    return groups


def _units_of_pending_runs(plan):
    """The pending runs in the order of their rows, where each unit of them begins, and seconds."""
    entry = plan.entry
    runs = np.flatnonzero(entry.pending)
    runs = runs[np.argsort(entry.rows[runs], kind="stable")]
    unit = entry.rows[runs] // plan.unit
    begins = np.flatnonzero(np.diff(unit, prepend=-1))
    seconds = np.add.reduceat(plan.seconds[runs], begins) if len(runs) else np.zeros(0)
    return runs, begins, seconds


def _group_consecutive_units(plan, runs, begins, seconds, targets):
    """Runs and cost of tasks of about the seconds that the first unit's target says.

    A task lies in one row of shards, and a worker has room for what it computes.
    """
    most = max(1, MOST_BYTES // _bytes_of_run(plan.entry))
    shard = plan.entry.rows[runs[begins]] // plan.layout.shard_rows
    ends = [*begins[1:].tolist(), len(runs)][: len(begins)]
    fixed = (plan._series + len(schema.RUN_VARIABLES)) * WRITE_SECONDS
    groups, first, cost = [], 0, 0.0
    for unit, (begin, end) in enumerate(zip(begins.tolist(), ends, strict=True)):
        full = cost + seconds[unit] + fixed > targets[first] or end - begins[first] > most
        if unit > first and (full or shard[unit] != shard[first]):
            groups.append((runs[begins[first] : begin], cost + fixed))
            first, cost = unit, 0.0
        cost += float(seconds[unit])
    if len(begins):
        groups.append((runs[begins[first] :], cost + fixed))
    return groups


def _make_run_tasks(store, root, plan, groups, checkpoint_every):
    """The tasks of a plan, of groups of its runs and their cost."""
    entry, table = plan.entry, plan.entry.table
    references, reference_rows = references_of_run_table(table), None
    if references and groups:
        stored = storage.open_zarr_group(root, references_group_name(entry.name))
        reference_rows = references.rows(stored)[references.of_run]
    shared = {
        "store": store,
        "experiment": entry.name,
        "recipe": recipe_of_run_table(table),
        "systems": named_systems_of_table(table),
        "integrators": named_integrators_of_table(table),
        "unit": plan.unit,
        "checkpoint_every": checkpoint_every,
    }
    return [
        RunTask(
            rows=entry.rows[runs],
            integrator=table.integrator_index[runs],
            system=table.system_index[runs],
            step_size=table.step_size[runs],
            tolerance=table.tolerance[runs],
            steps_per_sample=table.steps_per_sample[runs],
            repeat=table.repeat[runs],
            stored=entry.standing[runs],
            reference=np.zeros(0, dtype=int) if reference_rows is None else reference_rows[runs],
            cost=cost,
            **shared,
        )
        for runs, cost in groups
    ]


def _make_reference_tasks(store, root, plan, checkpoint_every):
    """Tasks for the references of pending runs that are not in the store yet."""
    entry, table = plan.entry, plan.entry.table
    references = references_of_run_table(table)
    if references is None or not entry.pending.any():
        return []
    group = storage.open_zarr_group(root, references_group_name(entry.name))
    rows = references.rows(group)
    needed = np.flatnonzero(_lacking_part_of_references(entry, references) > 0)
    needed = needed[np.argsort(rows[needed])]
    stored = np.array([entry.references.get(run_id, 0) for run_id in references.ids.tolist()])
    system = table.system_index[references.first_run]
    shard = rows[needed] // storage.layout_of_group(group).shard_rows
    parts = np.split(needed, np.flatnonzero(np.diff(shard)) + 1)
    return [
        ReferenceTask(
            store=store,
            experiment=entry.name,
            times=entry.experiment.times[: references.samples],
            tolerance=entry.experiment.reference.tolerance,
            systems=named_systems_of_table(table),
            rows=rows[mine],
            system=system[mine],
            stored=stored[mine],
            cost=float(plan.reference_seconds[mine].sum()),
            checkpoint_every=checkpoint_every,
        )
        for part in parts
        for mine in np.split(part, range(REFERENCES_OF_TASK, len(part), REFERENCES_OF_TASK))
        if len(mine)
    ]
