"""What a study costs, and how its work is cut into tasks.

A pilot of a few milliseconds measures each integrator on each system, and references; everything
else is counting. The pilot also compiles the kernels, once, before any worker starts.
"""

import os
import time
from dataclasses import dataclass, replace

import numpy as np

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
from sweep.campaign.tasks import CHECKPOINT_EVERY, Chunk, ReferenceTask, RunTask
from sweep.store import chunk_layout, diff, storage
from sweep.store.chunk_layout import REFERENCE_CHUNK, Layout, choose_chunk_rows, divide_file_budget
from sweep.store.diff import references_of_run_table
from sweep.store.files import references_group_name
from sweep.store.studies import resolve_study_and_store
from sweep.study import schema

WRITE_SECONDS = 1.5e-3  # of one chunk of one variable
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
        Of its arrays, also of those that are there: then the store is to be rewritten in it.
    wanted_rows : int
        Of a chunk, for the work's sake.
    """

    entry: object
    run_steps: np.ndarray
    seconds: np.ndarray
    runs: Estimate
    references: Estimate
    beside: float
    reference_seconds: np.ndarray
    layout: Layout
    wanted_rows: int

    @property
    def steps(self):
        """Steps of all pending runs."""
        return round(float(np.sum(self.run_steps)))

    @property
    def lacking_references(self):
        """Number of references that pending runs need and the store lacks."""
        return int(np.sum(self.reference_seconds > 0))

    @property
    def chunk_rows(self):
        """Rows of a chunk."""
        return self.layout.chunk_rows

    @property
    def files(self):
        """Files of the experiment in the store."""
        return self.layout.files

    @property
    def is_rewritten(self):
        """Whether the store has the experiment in smaller chunks: too many, with what is new."""
        entry, layout = self.entry, self.layout
        stored = entry.chunk_rows, entry.time_chunk or layout.time_chunk, entry.coordinate_chunks
        wanted = layout.chunk_rows, layout.time_chunk, layout.coordinate_chunks
        return bool(entry.known) and stored != wanted

    @property
    def bytes(self):
        """Bytes of the experiment's results before compression."""
        samples = self.entry.experiment.samples + 1
        state = 3 * max(made.rows for made in self.entry.table.systems) if self._stores_state else 0
        return self.entry.size * 8 * (samples * (self.layout.sampled + max(0, state - 1)) + 12)

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
    """Measure and plan experiments, which share a store's budget of files.

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
    plans = [plan_experiment(entry, between, clock, seconds) for entry in entries]
    allowed = divide_file_budget([plan.files for plan in plans], chunk_layout.MOST_FILES)
    return [
        replace(plan, layout=plan.layout.within(files, plan.wanted_rows))
        for plan, files in zip(plans, allowed, strict=True)
    ]


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
    wanted = _wanted_chunk_rows(entry, batches, costs)
    layout = _plan_chunk_layout(entry, wanted)
    batches = Batches.of(entry, layout.chunk_rows)  # as they will be
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
        layout=layout,
        wanted_rows=wanted,
    )


def _wanted_chunk_rows(entry, batches, costs):
    """Rows of a chunk, for the work's sake."""
    table = entry.table
    seconds = _seconds_per_batch(entry, batches, costs) + _recording_seconds_per_batch(
        entry, batches, costs
    )
    lanes = max(len(starts) for starts in table.starts) > 1 and not table.adaptive.all()
    return choose_chunk_rows(table.size, float(seconds.sum()) / max(len(batches.runs), 1), lanes)


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


def _plan_chunk_layout(entry, wanted):
    """The arrays of an experiment: as they are, or of chunks of so many rows."""
    table, experiment = entry.table, entry.experiment
    sampled = len(schema.sampled_variables(experiment, table.systems))
    scalars = len(schema.run_variables(experiment.record, table.systems[0]))
    references, times = references_of_run_table(table), experiment.samples + 1
    return Layout(
        runs=entry.size,
        times=times,
        variables=sampled + scalars,
        sampled=sampled,
        references=len(references.ids) if references else 0,
        chunk_rows=entry.chunk_rows or wanted,
        time_chunk=entry.time_chunk or min(storage.TIME_CHUNK, times),
        coordinate_chunks=entry.coordinate_chunks
        or tuple(map(storage.coordinate_chunk_size, (entry.size, times))),
    )


# --- chunks and tasks ------------------------------------------------------------------------


def make_tasks(store, root, plans, workers, checkpoint_every=CHECKPOINT_EVERY):
    """The pending work as tasks: references first, then runs, the longest first.

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
        task
        for plan, groups in zip(plans, _group_chunks_into_tasks(plans, workers), strict=True)
        for task in _make_run_tasks(store, root, plan, groups, checkpoint_every)
    ]
    return references, sorted(runs, key=lambda task: -task.cost)


def count_tasks(plans, workers):
    """Number of tasks that `make_tasks` would make, without a store that knows references."""
    runs = sum(len(groups) for groups in _group_chunks_into_tasks(plans, workers))
    return runs + sum(len(_chunks_lacking_references(plan.entry)) for plan in plans)


def _chunks_lacking_references(entry):
    """The chunks of references in which some are lacking that pending runs need."""
    found = references_of_run_table(entry.table)
    if found is None:
        return np.zeros(0, dtype=int)
    row_of = {run_id: row for row, run_id in enumerate(entry.references)}
    for run_id in found.ids.tolist():
        row_of.setdefault(run_id, len(row_of))
    rows = np.array([row_of[run_id] for run_id in found.ids.tolist()])
    return np.unique(rows[_lacking_part_of_references(entry, found) > 0] // REFERENCE_CHUNK)


def _group_chunks_into_tasks(plans, workers):
    """The chunks of each task and its seconds, as a list for each plan.

    Tasks get smaller: each takes a share of what its plan has left (guided self-scheduling),
    so that the workers end together.
    """
    groups = []
    for plan in plans:
        chunks, seconds = _seconds_of_pending_chunks(plan)
        left = np.cumsum(seconds[::-1])[::-1]
        targets = np.clip(left / (TASKS_PER_WORKER * max(workers, 1)), LEAST_TASK, MOST_TASK)
        groups.append(_group_consecutive_chunks(chunks, seconds, targets))
    return groups


def _seconds_of_pending_chunks(plan):
    """Chunks with pending runs, and their seconds: two arrays."""
    entry = plan.entry
    chunk = entry.rows[entry.pending] // plan.chunk_rows
    distinct, index = np.unique(chunk, return_inverse=True)
    seconds = np.bincount(index, plan.seconds[entry.pending], len(distinct))
    return distinct, seconds + plan.layout.variables * WRITE_SECONDS


def _group_consecutive_chunks(chunks, seconds, targets):
    """Lists of consecutive chunks of about the seconds that the first one's target says."""
    groups, current, cost, target = [], [], 0.0, 0.0
    for chunk, own, wanted in zip(chunks, seconds, targets, strict=True):
        if current and cost + own > target:
            groups.append((current, cost))
            current, cost = [], 0.0
        if not current:
            target = wanted
        current.append(int(chunk))
        cost += float(own)
    return [*groups, (current, cost)] if current else groups


def _make_run_tasks(store, root, plan, groups, checkpoint_every):
    """The tasks of a plan, of groups of its chunks and their cost."""
    entry, table = plan.entry, plan.entry.table
    if not entry.pending.any():
        return []
    references = references_of_run_table(table)
    reference_rows = (
        references.rows(storage.open_zarr_group(root, references_group_name(entry.name)))[
            references.of_run
        ]
        if references
        else None
    )
    recipe, systems, methods = (
        recipe_of_run_table(table),
        named_systems_of_table(table),
        named_integrators_of_table(table),
    )
    order = np.flatnonzero(entry.pending)
    order = order[np.argsort(entry.rows[order], kind="stable")]
    chunk_of = entry.rows[order] // plan.chunk_rows
    tasks = []
    for chunks, cost in groups:
        made = []
        for chunk in chunks:
            lo, hi = np.searchsorted(chunk_of, [chunk, chunk + 1])
            runs = order[lo:hi]
            start = chunk * plan.chunk_rows
            made.append(
                Chunk(
                    start=start,
                    stop=min(start + plan.chunk_rows, entry.size),
                    rows=entry.rows[runs],
                    integrator=table.integrator_index[runs],
                    system=table.system_index[runs],
                    step_size=table.step_size[runs],
                    tolerance=table.tolerance[runs],
                    steps_per_sample=table.steps_per_sample[runs],
                    repeat=table.repeat[runs],
                    reference=reference_rows[runs] if references else np.zeros(0, dtype=int),
                )
            )
        own = systems, methods, tuple(made), cost, checkpoint_every
        tasks.append(RunTask(store, entry.name, recipe, *own))
    return tasks


def _make_reference_tasks(store, root, plan, checkpoint_every):
    """Tasks for the references of pending runs that are not in the store yet."""
    entry, table = plan.entry, plan.entry.table
    references = references_of_run_table(table)
    if references is None or not entry.pending.any():
        return []
    group = storage.open_zarr_group(root, references_group_name(entry.name))
    rows = references.rows(group)
    needed = np.zeros(len(rows), dtype=bool)
    needed[references.of_run[entry.pending]] = True
    needed &= ~storage.are_runs_committed(group, references.samples)[rows]
    system = table.system_index[references.first_run]
    tasks = []
    size = group[schema.MARKER.name].shape[0]
    for start in range(0, size, REFERENCE_CHUNK):
        mine = np.flatnonzero(needed & (rows // REFERENCE_CHUNK == start // REFERENCE_CHUNK))
        if len(mine):
            tasks.append(
                ReferenceTask(
                    store=store,
                    experiment=entry.name,
                    times=entry.experiment.times[: references.samples],
                    tolerance=entry.experiment.reference.tolerance,
                    systems=named_systems_of_table(table),
                    rows=rows[mine],
                    system=system[mine],
                    start=start,
                    stop=min(start + REFERENCE_CHUNK, size),
                    cost=float(plan.reference_seconds[mine].sum()),
                    checkpoint_every=checkpoint_every,
                )
            )
    return tasks
