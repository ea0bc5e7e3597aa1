"""Plan the part of a study that its store lacks: what it costs, and its tasks.

Neighbouring runs of one method and system are integrated together, as batches. One batch of each
kind is measured, see `sweep.campaign.probe`; all others follow by counting. A task is a range of
rows whose batches take about as long as a task should.

A `Planner` does so in a thread of its own, and writes nothing: kernels compile while the cluster
starts, and runs of the experiments that are planned begin while those of others are. Nothing waits
for the thread where a run ends early: a kernel that compiles cannot be interrupted, and takes
seconds.
"""

from __future__ import annotations

import atexit
import collections
import functools
import itertools
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.kernels import checking
from integrators.compiler.lanes import WIDTH
from integrators.errors import InputError
from integrators.html import html_text
from sweep.analysis.rows import Rows
from sweep.campaign.probe import Cost, Probe, ReferenceProbe, RunProbe, seconds_of_probes
from sweep.campaign.worker.precise_reference import PreciseSolver
from sweep.campaign.worker.reference import DoubleSolver, ReferenceTask, make_solver
from sweep.campaign.worker.task import CHECKPOINT_EVERY, MOST_BYTES, RunTask, Task
from sweep.campaign.worker.trajectory import NamedComponent, Recipe
from sweep.errors import Interrupted
from sweep.store import create, diff, storage
from sweep.store.chunk_layout import INITIAL_CHUNK, Layout
from sweep.store.diff import reference_samples, references_of_run_table
from sweep.store.files import references_group_name
from sweep.store.studies import resolve_study_and_store
from sweep.study import schema
from sweep.text import about_duration, count_with_noun

if TYPE_CHECKING:
    from pathlib import Path

    import pandas

    from sweep.store.backends.places import Place
    from sweep.store.diff import Entry, References
    from sweep.store.files import RowNumbers
    from sweep.store.store import Store
    from sweep.study import Study
    from sweep.study.run_table import RunTable

    Kind = tuple[int, int, bool]  # integrator, rows of the system, whether there are lanes
    ShardRow = tuple[str, int]  # a group, and a row of shards in it

# CPU seconds that a batch takes beside those of a probe, which is repeated, while caches are cold:
# the first ones of each kind.
COLD_SECONDS, COLD_BATCHES = 7e-4, 10
WRITE_SECONDS = 3e-4  # of one variable of a record, folding included
REFERENCES_OF_TASK = 16
REFERENCES_TRIED = 3  # of an experiment, from the middle one on, until one meets its tolerance
COORDINATES = 10  # along the runs, with a scanned axis
LEAST_TASK, MOST_TASK = 0.25, 30.0  # seconds; Dask takes 1.5 ms a task
TASKS_PER_WORKER = 3  # that the work left is divided into
LOOK_SECONDS = 0.1
PATIENCE = 2.0  # seconds for all to be planned, which is enough where nothing compiles
_running: set[Planner] = set()


@dataclass(frozen=True)
class Preparation:
    """A measurement before runs begin, and the kernel that is compiled for it.

    Parameters
    ----------
    what : str
        Such as ``rk4 on nbody_sphere``.
    done, of : int
        Number of measurements that are done, and of all.
    kernel : str
        Name of the kernel that compiles now; empty if none does.
    kernels : int
        Number of kernels that were compiled so far, with that one.
    """

    what: str
    done: int
    of: int
    kernel: str = ""
    kernels: int = 0

    def __str__(self) -> str:
        said = f"Preparing {self.done + 1} of {self.of}: {self.what}"
        return said + f", compiling {self.kernel} (kernel {self.kernels})" * bool(self.kernel)


# --- batches -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of the pending runs of an experiment, in the order of the store.

    A worker makes the same of a task's runs, if the task begins with one of them.

    Parameters
    ----------
    entry : sweep.store.diff.Entry
    shard_rows : int
        Rows of a row of shards, in one of which each batch lies.
    row, size, group : ndarray of int, shape (batches,)
        First row, number of runs, and group. The batches of a group cost the same.
    kind : list of tuple
        Integrator, rows of the system and whether there are lanes, for each group.
    work : ndarray, shape (groups,)
        Work that is left of each batch, in units of `RunProbe.work`.
    """

    entry: Entry
    shard_rows: int
    row: RowNumbers
    size: RowNumbers
    group: RowNumbers
    kind: list[Kind]
    work: NDArray[np.float64]

    @classmethod
    def of(cls, entry: Entry) -> Batches:
        """The batches of an `Entry`."""
        table = entry.table
        rows_of_system = np.array([made.rows for made in table.systems])
        shard_rows = create.layout_of_entry(entry).shard_rows
        groups: dict[tuple[int, ...], int] = {}
        found = []
        for first in range(0, entry.size, shard_rows):
            runs = entry.pending_runs(first, first + shard_rows)
            if not len(runs):
                continue
            own = table.take(runs)
            keys = np.array([own.method, own.system_index, own.repeat, entry.standing[runs]])
            changes = np.any(np.diff(keys, axis=1, prepend=-1), axis=0) | own.adaptive
            begins = np.flatnonzero(changes)
            nth = np.arange(len(runs)) - np.repeat(begins, np.diff([*begins, len(runs)]))
            batch = np.flatnonzero(nth % WIDTH == 0)
            size = np.diff([*batch, len(runs)])
            method, system, _, standing = keys[:, batch]
            alike = np.array([method, rows_of_system[system], standing, size > 1])
            distinct, inverse = np.unique(alike, axis=1, return_inverse=True)
            number = [groups.setdefault(tuple(key), len(groups)) for key in distinct.T.tolist()]
            found.append((entry.rows[runs[batch]], size, np.array(number)[inverse.ravel()]))
        row, size, group = (
            np.concatenate([np.zeros(0, np.int32), *own]).astype(np.int32)
            for own in (zip(*found, strict=True) if found else [()] * 3)
        )
        method, rows, standing, lanes = np.array([*groups], dtype=int).reshape(-1, 4).T
        marks = entry.experiment.time_axis.marks
        left = 1.0 - marks[np.maximum(standing - 1, 0)] / marks[-1]
        names = table.methods.integrator[method].tolist(), rows.tolist(), (lanes > 0).tolist()
        return cls(
            entry, shard_rows, row, size, group, [*zip(*names, strict=True)],
            _work_of_methods(table)[method] * left,
        )  # fmt: skip

    @functools.cached_property
    def recipe(self) -> Recipe:
        """What is recorded of each run, of which all tasks have one: references are found by it."""
        experiment = self.entry.experiment
        return Recipe(
            time_axis=experiment.time_axis,
            record=tuple(experiment.record),
            statistics=experiment.statistics,
            reference_samples=reference_samples(experiment),
            max_steps=experiment.max_steps,
        )

    @functools.cached_property
    def systems(self) -> tuple[NamedComponent, ...]:
        """The systems of the table."""
        library, made = self.entry.experiment.library, self.entry.table.systems
        return tuple(NamedComponent.of(own.name, own.parameters, library) for own in made)

    @functools.cached_property
    def integrators(self) -> tuple[NamedComponent, ...]:
        """The integrators of the experiment."""
        library, entries = self.entry.experiment.library, self.entry.experiment.integrators
        return tuple(NamedComponent.of(own.name, own.options, library) for own in entries)

    @functools.cached_property
    def probes(self) -> dict[Kind, RunProbe]:
        """A batch of each kind, amid its work: half of it is of batches with as much at most."""
        numbers, probes = np.bincount(self.group, minlength=len(self.kind)), {}
        for kind in dict.fromkeys(self.kind):
            own = np.array([i for i, other in enumerate(self.kind) if other == kind])
            own = own[np.argsort(self.work[own], kind="stable")]
            until = np.cumsum(self.work[own] * numbers[own])
            (same,) = np.nonzero(self.group == own[np.searchsorted(until, until[-1] / 2)])
            probes[kind] = self._probe(same[len(same) // 2])
        return probes

    def _probe(self, batch: int) -> RunProbe:
        table, first = self.entry.table, self.row[batch]
        runs = self.entry.pending_runs(first, (first // self.shard_rows + 1) * self.shard_rows)
        runs = runs[: self.size[batch]]
        own = table.take(runs[:1])
        return RunProbe(
            recipe=self.recipe,
            system=self.systems[own.system_index[0]],
            integrator=self.integrators[own.integrator_index[0]],
            initial=table.initial_states(runs),
            step_size=float(own.step_size[0]),
            tolerance=float(own.tolerance[0]),
            steps_per_sample=int(own.steps_per_sample[0]),
            work=float(_work_of_methods(table)[own.method[0]]),
        )


def _work_of_methods(table: RunTable) -> NDArray[np.float64]:
    """Work of a run by each of a table's methods, in units of `RunProbe.work`."""
    axis, methods = table.experiment.time_axis, table.methods
    work = np.rint(axis.interval / methods.step_size) * float(axis.intervals)
    for i in np.unique(methods.integrator[methods.adaptive]).tolist():
        made = table.experiment.integrators[i].integrator()
        own, order = methods.integrator == i, int((made.counted or made).order)
        work[own] = axis.times[-1] * methods.tolerance[own] ** (-1 / order)
    return work


# --- references --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LackingReferences:
    """The references of an experiment, and what pending runs need of them.

    Parameters
    ----------
    every : sweep.store.diff.References
    left : ndarray, shape (references,)
        Fraction of each that is needed, and not computed yet.
    solver : DoubleSolver or PreciseSolver
    probes : list of ReferenceProbe
        A few of those of which something is.
    """

    every: References
    left: NDArray[np.float64]
    solver: DoubleSolver | PreciseSolver
    probes: list[ReferenceProbe]

    @classmethod
    def of(cls, batches: Batches) -> LackingReferences | None:
        """Those that batches of runs need; None if their experiment has none."""
        entry, table = batches.entry, batches.entry.table
        reference, found = entry.experiment.reference, references_of_run_table(table)
        if reference is None or found is None:
            return None
        needed = np.zeros(len(found.ids), dtype=bool)
        needed[found.of(table.take(np.flatnonzero(entry.pending)))] = True
        there = np.array([entry.references.get(run_id, 0) for run_id in found.ids.tolist()])
        times = entry.experiment.times[: found.samples]
        done = times[np.clip(there, 1, len(times)) - 1] / max(times[-1], np.finfo(float).tiny)
        left = np.where(needed & (there < len(times)), 1.0 - done, 0.0)
        solver, probes = make_solver(entry.experiment, reference, found.samples), []
        (lacking,) = np.nonzero(left * (found.samples > 1))  # else nothing is to be integrated
        for run in found.first_run[np.roll(lacking, -(len(lacking) // 2))[:REFERENCES_TRIED], None]:
            system = batches.systems[table.take(run).system_index[0]]
            known = table.precise_starts(run, reference.is_precise)
            starts = table.initial_states(run)[0], None if known is None else known[0]
            probes.append(ReferenceProbe(system, solver, *starts))
        return cls(found, left, solver, probes)

    def seconds(self) -> NDArray[np.float64]:
        """CPU seconds of what is left of each, as one of them is measured.

        Raises
        ------
        InputError
            If none of the probes meets its tolerance up to the end.
        """
        unmet = []
        for probe in self.probes:
            try:
                return self.left * probe.seconds()
            except InputError as error:  # of this start, or of the study
                unmet.append(error)
        if unmet:
            raise unmet[0]
        return np.zeros(len(self.left))


# --- plans -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ExperimentPlan:
    """The pending runs of an experiment, and what they cost.

    Parameters
    ----------
    batches : Batches
    costs : dict of tuple to sweep.campaign.probe.Cost
        Of each kind of batch.
    references : LackingReferences or None
    reference_seconds : ndarray, shape (references,)
        Expected CPU seconds of each reference; 0 if it is computed, or no pending run needs it.
    """

    batches: Batches
    costs: dict[Kind, Cost]
    references: LackingReferences | None
    reference_seconds: NDArray[np.float64]

    @property
    def entry(self) -> Entry:
        """What was planned."""
        return self.batches.entry

    @property
    def probes(self) -> list[Probe]:
        """What was measured: with its kernels all of the experiment can be computed."""
        return [
            *self.batches.probes.values(),
            *(self.references.probes[:1] if self.references else []),
        ]

    @functools.cached_property
    def _of_groups(self) -> NDArray[np.float64]:
        """Seconds of a batch of each group: to integrate it, besides, and besides for each run."""
        costs = [self.costs[kind] for kind in self.batches.kind]
        fields = [[c.call, c.unit, c.run, c.sample, c.beside] for c in costs]
        call, unit, run, sample, beside = np.array(fields).reshape(-1, 5).T
        integration = call + unit * self.batches.work
        return np.array(
            [integration, beside * integration, run + sample * self.entry.experiment.samples]
        )

    @functools.cached_property
    def _in_groups(self) -> NDArray[np.float64]:
        """Number of batches in each group, and number of runs."""
        group, count = self.batches.group, len(self.batches.kind)
        return np.array([np.bincount(group, own, count) for own in (None, self.batches.size)])

    @functools.cached_property
    def until(self) -> NDArray[np.float64]:
        """Expected seconds of all batches up to each of them."""
        integration, besides, each = self._of_groups
        seconds = each[self.batches.group] * self.batches.size
        seconds += (integration + besides)[self.batches.group]
        found: NDArray[np.float64] = np.cumsum(seconds, out=seconds)
        return found

    @property
    def cpu_seconds(self) -> float:
        """Expected CPU seconds of integrations, those of references included."""
        batches: collections.Counter[Kind] = collections.Counter()
        for kind, number in zip(self.batches.kind, self._in_groups[0], strict=True):
            batches[kind] += int(number)
        cold = COLD_SECONDS * sum(min(number, COLD_BATCHES) for number in batches.values())
        integration = self._of_groups[0] @ self._in_groups[0]
        return float(integration + cold + self.reference_seconds.sum())

    @property
    def recording_seconds(self) -> float:
        """Expected CPU seconds to record the pending runs, and to measure their structure."""
        (_, besides, each), (batches, runs) = self._of_groups, self._in_groups
        return float(besides @ batches + each @ runs)

    @property
    def recording_seconds_of_task(self) -> float:
        """Expected seconds that a task takes however many runs it has: to write a record."""
        return WRITE_SECONDS * (len(self._numbers_of_variables) + len(schema.RUN_VARIABLES))

    @property
    def steps(self) -> int:
        """Steps of all pending runs; of adaptive ones, the number that a probe predicts."""
        each = np.array([self.costs[kind].steps for kind in self.batches.kind])
        return round(float(np.sum(each * self.batches.work * self._in_groups[1])))

    @property
    def lacking_references(self) -> int:
        """Number of references that pending runs need and the store lacks."""
        return int(np.sum(self.references.left > 0)) if self.references else 0

    @property
    def files(self) -> int:
        """Number of files of the experiment in the store: shards, coordinates and metadata."""
        record, samples, runs = self.entry.experiment.record, self._samples, self.entry.size
        series, scalars = len(self._numbers_of_variables), 1
        scalars += len(schema.run_variables(record, self.entry.table.systems[0]))
        along_run = math.ceil(runs / storage.coordinate_chunk_size(runs))
        found = create.layout_of_entry(self.entry).files(runs, samples, series, scalars)
        found += math.ceil(runs / INITIAL_CHUNK) + COORDINATES * along_run + 3  # the other axes
        found += series + scalars + COORDINATES + 3 + 3  # metadata, also of both groups
        if self.references:
            references, ends = self.references.every, len(schema.OF_REFERENCE_ENDS)
            size = len(references.ids), references.samples
            found += Layout.choose(*size, self._most_numbers).files(*size, 2, 3 + ends)
            found += math.ceil(size[0] / INITIAL_CHUNK) + 1 + 8 + ends  # ids, metadata
        return found

    @property
    def bytes(self) -> int:
        """Bytes of the experiment's results before compression."""
        return self.entry.size * 8 * (self._samples * sum(self._numbers_of_variables) + 12)

    @property
    def most_runs(self) -> int:
        """Number of runs whose results fit into a worker until they are committed."""
        numbers = self._samples * sum(self._numbers_of_variables) + 32
        return max(1, MOST_BYTES // (8 * numbers))

    @property
    def _samples(self) -> int:
        return self.entry.experiment.samples + 1

    @functools.cached_property
    def _numbers_of_variables(self) -> list[int]:
        """Numbers of a run at a sample, of each of the variables over time."""
        sampled = schema.sampled_variables(self.entry.experiment, self.entry.table.systems)
        return [self._most_numbers if len(variable.dims) > 2 else 1 for variable in sampled]

    @property
    def _most_numbers(self) -> int:
        """Numbers of the largest state."""
        return 3 * max(made.rows for made in self.entry.table.systems)

    @property
    def facts(self) -> dict[str, Any]:
        """Costs of the experiment, as a flat dict."""
        pending = int(self.entry.pending.sum())
        return {
            "experiment": self.entry.name,
            "runs": pending,
            "committed": len(self.entry.pending) - pending,
            "references": self.lacking_references,
            "steps": self.steps,
            "files": self.files,
            "bytes": self.bytes,
            "cpu_seconds": self.cpu_seconds,
            "reference_cpu_seconds": float(self.reference_seconds.sum()),
            "recording_cpu_seconds": self.recording_seconds,
        }


def plan_each(
    entries: Sequence[Entry],
    on_measurement: Callable[[str, int, int], object] = lambda what, done, of: None,
) -> Iterator[ExperimentPlan]:
    """Measure and plan experiments; yields each `ExperimentPlan` as soon as it is made.

    Parameters
    ----------
    entries : list of Entry
    on_measurement : callable
        ``on_measurement(what, done, of)`` is called before each measurement with what is measured,
        and how many measurements of how many are done; it may raise.
    """
    found = list(map(Batches.of, entries))
    of = sum(len(own.probes) + (own.entry.experiment.reference is not None) for own in found)
    seconds, number = seconds_of_probes(of), itertools.count()
    for batches in found:
        experiment, costs, reference_seconds = batches.entry.experiment, {}, np.zeros(0)
        for kind, probe in batches.probes.items():
            on_measurement(str(probe), next(number), of)
            costs[kind] = probe.cost(seconds)
        if references := LackingReferences.of(batches):
            what = f"references of {experiment.name} by {references.solver.reference.integrator}"
            on_measurement(what, next(number), of)
            reference_seconds = references.seconds()
        yield ExperimentPlan(batches, costs, references, reference_seconds)


@dataclass(frozen=True, eq=False)
class Plan:
    """Expected cost of the part of a study that its store lacks.

    Parameters
    ----------
    store : Path or ObjectPlace
    experiments : tuple of ExperimentPlan
    tasks : int
    """

    store: Place
    experiments: tuple[ExperimentPlan, ...]
    tasks: int

    @property
    def cpu_seconds(self) -> float:
        """Expected CPU seconds, right within a factor of two."""
        return sum(plan.cpu_seconds for plan in self.experiments)

    @property
    def rows(self) -> Rows:
        """Costs of each experiment: `Rows` of dicts."""
        return Rows(plan.facts for plan in self.experiments)

    def to_dataframe(self) -> pandas.DataFrame:
        """The experiments as a `pandas.DataFrame`: runs, steps, files, bytes, seconds."""
        return self.rows.to_dataframe()

    def _repr_html_(self) -> str:
        total = (
            f"{count_with_noun(self.tasks, 'task')}, "
            f"{about_duration(self.cpu_seconds)} of CPU time, into {self.store}"
        )
        return html_text(total) + self.rows._repr_html_()


def plan(
    study: str | Path | Store | Study,
    store: str | Place | Store | None = None,
    workers: int | None = None,
    trust_plugins: bool = False,
    preparing: Callable[[Preparation], object] = lambda now: None,
) -> Plan:
    """Plan a study as `sweep plan` does: nothing is written.

    Parameters
    ----------
    study, store, trust_plugins
        As in `sweep.run`; of a store that exists only what it lacks is counted.
    workers : int, optional
        Processes for which tasks are counted; one a core unless given.
    preparing : callable, optional
        Called with each `Preparation`: what is measured, or compiled, now.

    Returns
    -------
    Plan

    Raises
    ------
    StudyError, StoreError, InputError
        As `sweep.run`.
    """
    loaded, store = resolve_study_and_store(study, store, trust_plugins)
    with Planner(diff.diff_store_against_study(store, loaded), lambda: None, preparing) as planner:
        while not planner.ended:
            planner.next_plans()
    tasks = count_tasks(planner.plans, workers or os.cpu_count() or 1)
    return Plan(store.place, tuple(planner.plans), tasks)


class Planner:
    """Plans experiments in a thread of its own; a context manager.

    Parameters
    ----------
    entries : list of sweep.store.diff.Entry
    check : callable
        Called in the thread that waits in `next_plans`; raises where the run is to end.
    on_preparation : callable
        Called there with each `Preparation`.

    Attributes
    ----------
    plans : list of ExperimentPlan
        Plans that `next_plans` has returned.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        check: Callable[[], object],
        on_preparation: Callable[[Preparation], object],
    ) -> None:
        self.plans: list[ExperimentPlan] = []
        self.entries, self._check, self._on_preparation = entries, check, on_preparation
        self._began, self._stopped = time.monotonic(), False
        self._now: Preparation | None = None  # what is measured
        self._found: queue.SimpleQueue[ExperimentPlan | Preparation | BaseException]
        self._found = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._plan, name="geosweep-planner", daemon=True)

    def __enter__(self) -> Planner:
        _running.add(self)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped = True  # and it ends before the next kernel

    @property
    def ended(self) -> bool:
        """Whether all experiments are planned, and `next_plans` has returned them."""
        return len(self.plans) == len(self.entries)

    def next_plans(self) -> list[ExperimentPlan]:
        """Wait for further plans; returns those that are ready, empty once there are no more.

        The first call waits up to `PATIENCE` seconds for all of them.

        Raises
        ------
        InputError
            If an experiment cannot be planned.
        """
        known = len(self.plans)
        while not self.ended:
            self._check()
            enough = len(self.plans) > known and (
                known > 0 or time.monotonic() - self._began > PATIENCE
            )
            try:
                event = self._found.get(not enough, LOOK_SECONDS)
            except queue.Empty:
                if enough:
                    break
                continue
            if isinstance(event, BaseException):
                raise event
            if isinstance(event, Preparation):
                self._on_preparation(event)
            else:
                self.plans.append(event)
        return self.plans[known:]

    def _plan(self) -> None:
        """Plan all experiments in order; an exception is raised again in `next_plans`."""
        try:
            with checking(self._check_stopped, self._compiling):
                for plan in plan_each(self.entries, self._measuring):
                    self._found.put(plan)
        except BaseException as error:
            self._found.put(error)
        finally:
            _running.discard(self)

    def _measuring(self, what: str, done: int, of: int) -> None:
        self._check_stopped()
        self._now = Preparation(what, done, of, kernels=self._now.kernels if self._now else 0)
        self._found.put(self._now)

    def _compiling(self, kernel: str) -> None:
        """Note that a kernel is compiled, since the disk cache lacks it."""
        if self._now is not None:
            self._now = replace(self._now, kernel=kernel, kernels=self._now.kernels + 1)
            self._found.put(self._now)

    def _check_stopped(self) -> None:
        if self._stopped:
            raise Interrupted("the run has ended")

    def join(self) -> None:
        """Wait until the kernel that is compiled now is done."""
        self._thread.join()


def is_planning() -> bool:
    """Whether the thread of a planner still runs, perhaps compiling a kernel."""
    return bool(_running)


def wait_for_planners() -> None:
    """Wait for the threads of planners: Python may not end while LLVM calls it from one."""
    for planner in tuple(_running):
        planner.join()


atexit.register(wait_for_planners)


# --- tasks -------------------------------------------------------------------------------------


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
    references: list[ReferenceTask] = []
    runs: list[PlannedTask] = []
    for plan in plans:
        rows_of_references = np.zeros(0, dtype=int)
        if plan.references is not None and len(plan.batches.row):
            group = store.group(references_group_name(plan.entry.name), "a")
            rows_of_references = plan.references.every.rows(group)
            shard_rows = storage.layout_of_group(group).shard_rows
            references += _make_reference_tasks(
                store, plan, rows_of_references, shard_rows, checkpoint_every
            )
        runs += (
            PlannedTask(plan, store, rows_of_references, *own, checkpoint_every=checkpoint_every)
            for own in divide_into_tasks(plan, workers)
        )
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


def count_tasks(plans: Iterable[ExperimentPlan], workers: int) -> int:
    """Number of tasks that `make_tasks` would make."""
    return sum(
        -(-plan.lacking_references // REFERENCES_OF_TASK)
        + sum(1 for _ in divide_into_tasks(plan, workers))
        for plan in plans
    )


def divide_into_tasks(plan: ExperimentPlan, workers: int) -> Iterator[tuple[range, int, float]]:
    """Yield rows, number of runs and expected seconds of each task of an experiment's runs.

    Tasks get smaller: each takes a share of the work that is left (guided self-scheduling), so that
    the workers end together. A task begins with a batch, lies in one row of shards, and its results
    fit into the memory of a worker.
    """
    batches, until, fixed = plan.batches, plan.until, plan.recording_seconds_of_task
    row, shard = batches.row, batches.row // batches.shard_rows
    runs = np.cumsum(batches.size)
    most = max(1, plan.most_runs // int(batches.size.max(initial=1)))
    begin, before, counted = 0, 0.0, 0
    for shard_end in (np.flatnonzero(np.diff(shard, append=-1)) + 1).tolist():
        while begin < shard_end:
            left = float(until[-1]) - before
            target = min(max(left / (TASKS_PER_WORKER * workers), LEAST_TASK), MOST_TASK)
            full = int(until.searchsorted(before + target - fixed, "right"))
            end = min(max(full, begin + 1), begin + most, shard_end)
            rows_end = (int(shard[begin]) + 1) * batches.shard_rows
            stop = int(row[end]) if end < shard_end else min(rows_end, plan.entry.size)
            seconds, count = float(until[end - 1]), int(runs[end - 1])
            yield range(int(row[begin]), stop), count - counted, seconds - before + fixed
            begin, before, counted = end, seconds, count


@dataclass(frozen=True, eq=False)
class PlannedTask(Task):
    """A `RunTask` that is built when it is sent; until then it is only a range of rows.

    Parameters
    ----------
    plan : ExperimentPlan
    store : Store
    rows_of_references : ndarray of int
        Row of each reference in the store; empty without any.
    rows : range
        Of the store; the task has the pending runs in them.
    count : int
        Number of these.
    cost : float
        As in `RunTask`.
    """

    plan: ExperimentPlan
    store: Store
    rows_of_references: RowNumbers
    rows: range
    count: int
    cost: float

    @property
    def experiment(self) -> str:
        """Name of the experiment."""
        return self.plan.entry.name

    group, key = RunTask.group, RunTask.key

    @property
    def runs(self) -> int:
        """Number of its runs."""
        return self.count

    @property
    def shard_row(self) -> ShardRow:
        """Group and row of shards in which its rows lie."""
        return self.experiment, self.rows[0] // self.plan.batches.shard_rows

    @functools.cached_property
    def first_repeat(self) -> int:
        """Repeat of its first run, counted from 0."""
        entry = self.plan.entry
        if entry.experiment.repeat == 1:
            return 0
        first = entry.pending_runs(self.rows[0], self.rows[0] + 1)
        return int(entry.table.take(first).repeat[0])

    def build(self) -> RunTask:
        """Build the `RunTask` that is sent to a worker."""
        entry, batches, references = self.plan.entry, self.plan.batches, self.plan.references
        runs = entry.pending_runs(self.rows.start, self.rows.stop)
        own = entry.table.take(runs)
        rows_of_references = self.rows_of_references
        if references is not None:
            rows_of_references = rows_of_references[references.every.of(own)]
        return RunTask(
            store=self.store,
            experiment=entry.name,
            recipe=batches.recipe,
            systems=batches.systems,
            integrators=batches.integrators,
            rows=entry.rows[runs].astype(np.int64),
            integrator=own.integrator_index,
            system=own.system_index,
            step_size=own.step_size,
            tolerance=own.tolerance,
            steps_per_sample=own.steps_per_sample,
            repeat=own.repeat,
            stored=entry.standing[runs].astype(np.int64),
            reference=rows_of_references,
            precise_starts=entry.table.precise_starts(runs),
            cost=self.cost,
            checkpoint_every=self.checkpoint_every,
        )


def _make_reference_tasks(
    store: Store, plan: ExperimentPlan, rows: RowNumbers, shard_rows: int, checkpoint_every: float
) -> Iterator[ReferenceTask]:
    """Yield tasks for the references that pending runs need and the store lacks."""
    entry, table, lacking = plan.entry, plan.entry.table, plan.references
    assert lacking is not None
    references = lacking.every
    stored = np.array([entry.references.get(run_id, 0) for run_id in references.ids.tolist()])
    needed = np.flatnonzero(lacking.left)
    needed = needed[np.argsort(rows[needed])]
    parts = np.split(needed, np.flatnonzero(np.diff(rows[needed] // shard_rows)) + 1)
    for part in parts:
        for mine in np.split(part, range(REFERENCES_OF_TASK, len(part), REFERENCES_OF_TASK)):
            if not len(mine):
                continue
            first = references.first_run[mine]
            yield ReferenceTask(
                store=store,
                experiment=entry.name,
                times=entry.experiment.times[: references.samples],
                solver=lacking.solver,
                systems=plan.batches.systems,
                rows=rows[mine],
                system=table.take(first).system_index,
                stored=stored[mine],
                precise_starts=table.precise_starts(
                    first, isinstance(lacking.solver, PreciseSolver)
                ),
                cost=float(plan.reference_seconds[mine].sum()),
                checkpoint_every=checkpoint_every,
            )
