"""What a study costs, and how its work is cut into tasks.

A pilot of a few milliseconds measures each integrator on each system; everything else is
counting. The pilot also compiles the kernels, once, before any worker starts.
"""

import math
import time
from dataclasses import dataclass

import numpy as np

from integrators.integration import run_batch
from integrators.lanes import WIDTH
from sweep import schema, storage
from sweep.computing import Named, Recipe, Recorder, reference_trajectory
from sweep.costs import Cost, adaptive_cost, structure_cost
from sweep.growing import REFERENCE_CHUNK
from sweep.ledger import references_group, references_of
from sweep.tasks import CHECKPOINT_EVERY, Chunk, ReferenceTask, RunTask
from sweep.time_axis import TimeAxis

PILOT_SECONDS = 2e-3
PILOT_REPEATS = 3
PILOT_SAMPLES = 256  # at most: recording has a fixed cost that long runs share
WRITE_SECONDS = 1.5e-3  # of one chunk of one variable
LEAST_TASK, MOST_TASK = 0.25, 30.0  # seconds; Dask takes 1.5 ms a task
TASKS_PER_WORKER = 3  # that the work left is divided into
MOST_CHUNK_ROWS = 1024
MOST_FILES = 100_000
CHUNK_SECONDS = 2.5  # no task is shorter than a chunk
CHUNKS = 12  # of an experiment, where it has the runs: work for every worker


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
    chunk_rows : int
    variables : int
        Arrays over runs that tasks write.
    sampled : int
        Those of them over time as well.
    """

    entry: object
    run_steps: np.ndarray
    seconds: np.ndarray
    most_seconds: np.ndarray
    reference_seconds: float
    chunk_rows: int
    variables: int
    sampled: int

    @property
    def steps(self):
        """Steps of all pending runs."""
        return int(np.sum(self.run_steps[self.entry.pending]))

    @property
    def files(self):
        """Chunk files of the experiment's results."""
        chunks = math.ceil(self.entry.size / self.chunk_rows)
        time_chunks = math.ceil((self.entry.experiment.samples + 1) / storage.TIME_CHUNK)
        return chunks * (self.sampled * time_chunks + self.variables - self.sampled)

    @property
    def bytes(self):
        """Bytes of the experiment's results before compression."""
        samples = self.entry.experiment.samples + 1
        state = 3 * max(made.rows for made in self.entry.table.systems) if self._stores_state else 0
        return self.entry.size * 8 * (samples * (self.sampled + max(0, state - 1)) + 12)

    @property
    def _stores_state(self):
        return "state" in self.entry.experiment.record

    @property
    def pending_seconds(self):
        """Expected and largest CPU time of the pending runs."""
        pending = self.entry.pending
        return float(self.seconds[pending].sum()), float(self.most_seconds[pending].sum())


def plan_experiment(entry, between=lambda: None):
    """Measure and plan an experiment.

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
    costs = _pilot(table, recipe, between)
    pairs, pair = np.unique(_pairs(table), return_inverse=True)
    per_step, usual, per_sample, again, per_run = (
        np.array([getattr(costs[int(p)], name) for p in pairs])[pair]
        for name in ("step", "usual_step", "sample", "again", "run")
    )
    steps = table.steps_per_sample * float(experiment.time_axis.intervals)
    for i in np.flatnonzero(table.adaptive):
        cost = costs[int(pairs[pair[i]])]
        steps[i] = cost.steps(experiment.duration, table.tolerance[i])
    recording = per_sample * (experiment.samples + 1) + per_run
    sampled = len(schema.sampled_variables(experiment, table.systems))
    variables = sampled + len(schema.run_variables(experiment.record, table.systems[0]))
    computed = steps * (1 + again)
    seconds = computed * per_step + recording
    return ExperimentPlan(
        entry=entry,
        run_steps=steps,
        seconds=seconds,
        most_seconds=computed * usual + recording,
        reference_seconds=_reference_seconds(table) if experiment.reference else 0.0,
        chunk_rows=entry.chunk_rows or _choose_chunk_rows(table, seconds, variables),
        variables=variables,
        sampled=sampled,
    )


def _pairs(table):
    """A number for the pair of integrator and system of each run."""
    return table.integrator_index * len(table.systems) + table.system_index


def recipe_of(table):
    """The `Recipe` of an experiment's runs."""
    experiment = table.experiment
    references = references_of(table)
    return Recipe(
        time_axis=experiment.time_axis,
        record=tuple(experiment.record),
        statistics=experiment.statistics,
        reference_samples=references.samples if references else 0,
    )


def named_systems(table):
    """The systems of a run table as `Named`."""
    library = table.experiment.library
    return tuple(Named.of(made.name, made.parameters, library) for made in table.systems)


def named_integrators(table):
    """The integrators of a run table as `Named`."""
    library = table.experiment.library
    return tuple(Named.of(e.name, e.options, library) for e in table.experiment.integrators)


# --- the pilot -------------------------------------------------------------------------------


def _pilot(table, recipe, between):
    """`Cost` by integrator and system, for the pairs that occur; equal sizes share one."""
    systems, methods = named_systems(table), named_integrators(table)
    measured, costs = {}, {}
    for index, run in zip(*np.unique(_pairs(table), return_index=True), strict=True):
        between()
        i, s = divmod(int(index), len(systems))
        key = i, table.systems[s].rows
        if key not in measured:
            lanes = table.starts[s][: min(WIDTH, len(table.starts[s]))]
            recorder = Recorder(recipe, systems[s], methods[i])
            if table.adaptive[run]:
                tolerance = float(table.tolerance[run])
                measured[key] = adaptive_cost(recorder, lanes[:1], tolerance, PILOT_SECONDS)
            else:
                measured[key] = _measure(recorder, lanes, float(table.step_size[run]))
        costs[int(index)] = measured[key]
    return costs


def _measure(recorder, initial, step_size):
    problem, statistics = recorder.problem, recorder.recipe.statistics == "every_step"

    def timed(steps):
        # The thread's own time: the local cluster's workers start meanwhile.
        began = time.thread_time()
        run_batch(problem, initial, step_size, steps, 1, statistics=statistics)
        return time.thread_time() - began

    timed(1)  # compiles
    steps = 8
    while (seconds := timed(steps)) < PILOT_SECONDS and steps < 10**6:
        steps *= 4
    repeats = [seconds, *(timed(steps) for _ in range(PILOT_REPEATS - 1))]
    call = min(timed(1) for _ in range(PILOT_REPEATS))
    # A call can seem to take longer than the steps, which cost half at least.
    per_step = [max(one - call, 0.5 * one) / steps / len(initial) for one in repeats]
    per_sample = _sample_seconds(recorder, initial, step_size)
    structure = structure_cost(recorder, initial, step_size)
    return Cost(min(per_step), float(np.median(per_step)), per_sample, **structure)


def _sample_seconds(recorder, initial, step_size):
    """Seconds to record a sample of a trajectory: runs of one step a sample, less those steps."""
    samples = min(recorder.recipe.time_axis.samples, PILOT_SAMPLES)
    axis = TimeAxis(step_size * samples, samples)
    brief = Recorder(recorder.recipe.brief(axis), recorder.system, recorder.integrator)
    brief.run(initial, step_size, 1)
    began = time.thread_time()
    columns = brief.run(initial, step_size, 1)
    recording = time.thread_time() - began - columns["cpu_time"].sum()
    return max(recording, 0.0) / (len(initial) * (samples + 1))


def _reference_seconds(table):
    """Seconds of one reference, from the first fiftieth of its time."""
    experiment = table.experiment
    times = experiment.times[experiment.times <= experiment.reference.until * (1 + 1e-12)]
    system, state = table.systems[0], table.initial_state(0)
    first = times[: max(2, np.searchsorted(times, times[-1] / 50))]
    reference_trajectory(system, state, times[:2], 1e-3)  # compiles
    began = time.thread_time()
    reference_trajectory(system, state, first, experiment.reference.tolerance)
    return (time.thread_time() - began) * times[-1] / first[-1]


# --- chunks and tasks ------------------------------------------------------------------------


def _choose_chunk_rows(table, seconds, variables):
    """Rows of a chunk: a power of two up to 1024, a multiple of 8 where lanes are filled.

    Few enough that there is work for every worker and a chunk does not take too long, many
    enough for at most 1e5 files; the last rule wins.
    """
    ensemble = max(len(starts) for starts in table.starts) > 1
    least = WIDTH if ensemble and not table.adaptive.all() else 1
    wanted = min(table.size / CHUNKS, CHUNK_SECONDS / max(float(np.mean(seconds)), 1e-9))
    rows = max(least, 2 ** math.floor(math.log2(max(wanted, 1))))
    time_chunks = math.ceil((table.experiment.samples + 1) / storage.TIME_CHUNK)
    while rows < MOST_CHUNK_ROWS and table.size / rows * variables * time_chunks > MOST_FILES:
        rows *= 2
    return min(rows, MOST_CHUNK_ROWS)


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
    return distinct, seconds + plan.variables * WRITE_SECONDS


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
