"""What a study costs, and how its work is cut into tasks.

A pilot of a few milliseconds measures each integrator on each system; everything else is
counting. The pilot also compiles the kernels, once, before any worker starts.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from sweep import chunking, schema, storage
from sweep.chunking import REFERENCE_CHUNK, Layout, choose_chunk_rows, shares
from sweep.ledger import references_group, references_of
from sweep.pilot import (
    named_integrators,
    named_systems,
    pairs_of,
    pilot,
    recipe_of,
    reference_seconds,
)
from sweep.tasks import CHECKPOINT_EVERY, Chunk, ReferenceTask, RunTask

WRITE_SECONDS = 1.5e-3  # of one chunk of one variable
LEAST_TASK, MOST_TASK = 0.25, 30.0  # seconds; Dask takes 1.5 ms a task
TASKS_PER_WORKER = 3  # that the work left is divided into


@dataclass(frozen=True, eq=False)
class ExperimentPlan:
    """An experiment's runs with their cost.

    Parameters
    ----------
    entry : sweep.ledger.Entry
    run_steps : ndarray, shape (runs,)
        Steps of each run; of an adaptive one, as many as the pilot lets expect.
    seconds, most_seconds : ndarray, shape (runs,)
        Expected CPU time of each run, and by the pilot's median.
    reference_seconds : float
        Of one reference trajectory.
    layout : sweep.chunking.Layout
        Of its arrays, also of those that are there: then the store is to be rewritten in it.
    wanted_rows : int
        Of a chunk, for the work's sake.
    """

    entry: object
    run_steps: np.ndarray
    seconds: np.ndarray
    most_seconds: np.ndarray
    reference_seconds: float
    layout: Layout
    wanted_rows: int

    @property
    def steps(self):
        """Steps of all pending runs."""
        return int(np.sum(self.run_steps[self.entry.pending]))

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
    def pending_seconds(self):
        """Expected and largest CPU time of the pending runs."""
        pending = self.entry.pending
        return float(self.seconds[pending].sum()), float(self.most_seconds[pending].sum())


def plan_study(entries, between=lambda: None):
    """Measure and plan experiments, which share a store's budget of files.

    Parameters
    ----------
    entries : list of Entry
    between : callable
        As in `plan_experiment`.

    Returns
    -------
    list of ExperimentPlan
    """
    plans = [plan_experiment(entry, between) for entry in entries]
    allowed = shares([plan.files for plan in plans], chunking.MOST_FILES)
    return [
        replace(plan, layout=plan.layout.within(files, plan.wanted_rows))
        for plan, files in zip(plans, allowed, strict=True)
    ]


def plan_experiment(entry, between=lambda: None):
    """Measure and plan an experiment by itself.

    Parameters
    ----------
    entry : sweep.ledger.Entry
    between : callable
        Called between two measurements, which compile for seconds at first; it may raise.

    Returns
    -------
    ExperimentPlan
    """
    table, experiment = entry.table, entry.experiment
    recipe = recipe_of(table)
    costs = pilot(table, recipe, between)
    pairs, pair = np.unique(pairs_of(table), return_inverse=True)
    per_step, usual, per_sample, again, per_run = (
        np.array([getattr(costs[int(p)], name) for p in pairs])[pair]
        for name in ("step", "usual_step", "sample", "again", "run")
    )
    steps = table.steps_per_sample * float(experiment.time_axis.intervals)
    for i in np.flatnonzero(table.adaptive):
        cost = costs[int(pairs[pair[i]])]
        steps[i] = cost.steps(experiment.duration, table.tolerance[i])
    recording = per_sample * (experiment.samples + 1) + per_run
    computed = steps * (1 + again)
    seconds = computed * per_step + recording
    lanes = max(len(starts) for starts in table.starts) > 1 and not table.adaptive.all()
    wanted = choose_chunk_rows(table.size, float(np.mean(seconds)), lanes)
    return ExperimentPlan(
        entry=entry,
        run_steps=steps,
        seconds=seconds,
        most_seconds=computed * usual + recording,
        reference_seconds=reference_seconds(table) if experiment.reference else 0.0,
        layout=_layout(entry, wanted),
        wanted_rows=wanted,
    )


def _layout(entry, wanted):
    """The arrays of an experiment: as they are, or of chunks of so many rows."""
    table, experiment = entry.table, entry.experiment
    sampled = len(schema.sampled_variables(experiment, table.systems))
    scalars = len(schema.run_variables(experiment.record, table.systems[0]))
    references, times = references_of(table), experiment.samples + 1
    return Layout(
        runs=entry.size,
        times=times,
        variables=sampled + scalars,
        sampled=sampled,
        references=len(references.ids) if references else 0,
        chunk_rows=entry.chunk_rows or wanted,
        time_chunk=entry.time_chunk or min(storage.TIME_CHUNK, times),
        coordinate_chunks=entry.coordinate_chunks
        or tuple(map(storage.coordinate_chunk, (entry.size, times))),
    )


# --- chunks and tasks ------------------------------------------------------------------------


def make_tasks(path, root, plans, workers, checkpoint_every=CHECKPOINT_EVERY):
    """The pending work as tasks: references first, then runs, the longest first.

    Parameters
    ----------
    path : Path
        Of the store, which is brought up.
    root : zarr.Group
    plans : list of ExperimentPlan
    workers : int
    checkpoint_every : float
        Seconds.

    Returns
    -------
    references, runs : list of ReferenceTask, list of RunTask
    """
    path = str(path)
    references = [
        task for plan in plans for task in _reference_tasks(path, root, plan, checkpoint_every)
    ]
    runs = [
        task
        for plan, groups in zip(plans, _group_chunks(plans, workers), strict=True)
        for task in _run_tasks(path, root, plan, groups, checkpoint_every)
    ]
    return references, sorted(runs, key=lambda task: -task.cost)


def count_tasks(plans, workers):
    """Number of tasks that `make_tasks` would make, without a store that knows references."""
    runs = sum(len(groups) for groups in _group_chunks(plans, workers))
    references = (references_of(p.entry.table) for p in plans if p.entry.pending.any())
    return runs + sum(math.ceil(len(r.ids) / REFERENCE_CHUNK) for r in references if r)


def _group_chunks(plans, workers):
    """The chunks of each task and its seconds, as a list for each plan.

    Tasks get smaller: each takes a share of what its plan has left (guided self-scheduling),
    so that the workers end together.
    """
    groups = []
    for plan in plans:
        chunks, seconds = _chunk_costs(plan)
        left = np.cumsum(seconds[::-1])[::-1]
        targets = np.clip(left / (TASKS_PER_WORKER * max(workers, 1)), LEAST_TASK, MOST_TASK)
        groups.append(_grouped(chunks, seconds, targets))
    return groups


def _chunk_costs(plan):
    """Chunks with pending runs, and their seconds: two arrays."""
    entry = plan.entry
    chunk = entry.rows[entry.pending] // plan.chunk_rows
    distinct, index = np.unique(chunk, return_inverse=True)
    seconds = np.bincount(index, plan.most_seconds[entry.pending], len(distinct))
    return distinct, seconds + plan.layout.variables * WRITE_SECONDS


def _grouped(chunks, seconds, targets):
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


def _run_tasks(path, root, plan, groups, checkpoint_every):
    """The tasks of a plan, of groups of its chunks and their cost."""
    entry, table = plan.entry, plan.entry.table
    if not entry.pending.any():
        return []
    references = references_of(table)
    reference_rows = (
        references.rows(references_group(root, entry.name))[references.of_run]
        if references
        else None
    )
    recipe, systems, methods = recipe_of(table), named_systems(table), named_integrators(table)
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
        tasks.append(RunTask(path, entry.name, recipe, *own))
    return tasks


def _reference_tasks(path, root, plan, checkpoint_every):
    """Tasks for the references of pending runs that are not in the store yet."""
    entry, table = plan.entry, plan.entry.table
    references = references_of(table)
    if references is None or not entry.pending.any():
        return []
    group = references_group(root, entry.name)
    rows = references.rows(group)
    needed = np.zeros(len(rows), dtype=bool)
    needed[references.of_run[entry.pending]] = True
    needed &= ~storage.committed(group, references.samples)[rows]
    system = table.system_index[references.first_run]
    tasks = []
    size = group[schema.MARKER.name].shape[0]
    for start in range(0, size, REFERENCE_CHUNK):
        mine = np.flatnonzero(needed & (rows // REFERENCE_CHUNK == start // REFERENCE_CHUNK))
        if len(mine):
            tasks.append(
                ReferenceTask(
                    store=path,
                    experiment=entry.name,
                    times=entry.experiment.times[: references.samples],
                    tolerance=entry.experiment.reference.tolerance,
                    systems=named_systems(table),
                    rows=rows[mine],
                    system=system[mine],
                    start=start,
                    stop=min(start + REFERENCE_CHUNK, size),
                    cost=len(mine) * plan.reference_seconds,
                    checkpoint_every=checkpoint_every,
                )
            )
    return tasks
