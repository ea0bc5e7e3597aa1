"""Plan the part of a study that its store lacks: its cost and its tasks.

Neighbouring runs of one method and system are integrated together in batches. One batch of each
kind is measured, see `sweep.campaign.probe`, and the cost of all others is computed from it. A task
is a range of rows whose batches take about the time that a task should take.

A `Planner` plans in a separate thread and writes nothing. So kernels compile while the cluster
starts, in processes on all cores if the disk cache lacks any, and runs of planned experiments begin
while other experiments are still being planned. A run that ends early does not wait for the thread,
since a compilation takes seconds and cannot be interrupted.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import functools
import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.kernels import checking
from integrators.compiler.lanes import WIDTH
from integrators.errors import InputError
from integrators.html import html_text
from sweep.analysis.rows import Rows, Table
from sweep.campaign.probe import (
    Cost,
    ReferenceProbe,
    RunProbe,
    compiling_on_all_cores,
    seconds_of_probes,
)
from sweep.campaign.worker.precise_reference import PreciseSolver
from sweep.campaign.worker.reference import ReferenceTask, make_solver
from sweep.campaign.worker.task import CHECKPOINT_EVERY, MOST_BYTES, RunColumns, RunTask, Task
from sweep.campaign.worker.trajectory import NamedComponent, Recipe, make_integrator
from sweep.errors import Interrupted
from sweep.store import create, diff
from sweep.store.arrays import (
    Layout,
    coordinate_chunk_size,
    initial_chunk_rows,
    layout_of_group,
)
from sweep.store.diff import count_reference_samples, references_of_run_table
from sweep.store.files import references_group_name
from sweep.store.stored_studies import resolve_study_and_store
from sweep.study import variables
from sweep.text import about_duration, count_with_noun, format_duration

if TYPE_CHECKING:
    from pathlib import Path

    import pandas

    from sweep.store.backends.places import Place
    from sweep.store.diff import ExperimentDiff, References
    from sweep.store.files import RowNumbers
    from sweep.store.store import Store
    from sweep.study import Study
    from sweep.study.run_table import RunTable

# Additional CPU seconds of the first batches of each kind, while caches are cold; probes are
# repeated and do not show them.
COLD_SECONDS, COLD_BATCHES = 7e-4, 10
WRITE_SECONDS = 3e-4  # to write one variable of a record, including folding
REFERENCES_OF_TASK = 16
REFERENCES_TRIED = 3  # per experiment, from the middle one on, until one meets its tolerance
COORDINATES = 10  # number of coordinates along the runs, with one scanned axis
LEAST_TASK, MOST_TASK = 0.25, 30.0  # seconds; Dask takes 1.5 ms a task
TASKS_PER_WORKER = 3  # into which the remaining work is divided
LOOK_SECONDS = 0.1
PATIENCE = 2.0  # seconds to wait for all plans, enough if nothing compiles
THREAD = "geosweep-planner"
COST = np.dtype([(name, float) for name in Cost._fields])


@dataclass(frozen=True)
class Preparation:
    """A measurement before runs begin, and what is compiled for it.

    Parameters
    ----------
    what : str
        Description, such as ``rk4 on nbody_sphere``.
    done, of : int
        Number of finished measurements, and of all.
    compiling : str
        What is being compiled because the disk cache lacks it; empty if nothing is.
    """

    what: str
    done: int
    of: int
    compiling: str = ""

    def __str__(self) -> str:
        said = f"Preparing {self.done + 1} of {self.of}: {self.what}"
        return said + f", compiling {self.compiling}" * bool(self.compiling)


class Measurement(NamedTuple):
    """A measurement that a plan needs.

    Parameters
    ----------
    what : str
    probe : RunProbe or ReferenceProbe
        Compiles the kernels.
    measure : callable
    """

    what: str
    probe: RunProbe | ReferenceProbe
    measure: Callable[[], None]


class _NotCompiled(Interrupted):
    """The disk cache lacks a kernel."""


# --- experiments -------------------------------------------------------------------------------


class ExperimentPlan:
    """The pending runs of an experiment in batches, and their cost once it is measured.

    Batches are in the order of the store, and each lies in one row of shards. A worker divides a
    task into the same batches, since each task begins with a batch.

    Parameters
    ----------
    entry : sweep.store.diff.ExperimentDiff

    Attributes
    ----------
    row, size, kind : ndarray of int, shape (batches,)
        First row, number of runs, and index into `probes`. Batches of a kind have the same
        integrator and number of rows of the system, and either all or none are in lanes.
    work : ndarray, shape (batches,)
        Remaining work, in units of `RunProbe.work`.
    costs : ndarray of COST, shape (kinds,)
        The `sweep.campaign.probe.Cost` of each kind.
    """

    def __init__(self, entry: ExperimentDiff) -> None:
        self.entry, self.shard_rows = entry, create.layout_of_entry(entry).shard_rows
        self._work = _work_of_methods(entry.table)
        self._rows_of_systems = np.array([made.rows for made in entry.table.systems])
        found = [self._batches_from(first) for first in range(0, entry.size, self.shard_rows)]
        self.row, self.size, kind, self.work = (np.concatenate(o) for o in zip(*found, strict=True))
        there = np.bincount(kind) > 0
        self.kind = (np.cumsum(there, dtype=np.int32) - 1)[kind]
        self.costs = np.zeros(np.count_nonzero(there), COST)

    def _batches_from(self, first: int) -> tuple[np.ndarray, ...]:
        """First row, size, kind and work of the batches in the row of shards from `first` on."""
        entry, table, marks = self.entry, self.entry.table, self.entry.experiment.time_axis.marks
        runs = entry.pending_runs(first, first + self.shard_rows)
        own, standing = table.take(runs), entry.standing[runs]
        keys = np.array([own.method, own.system_index, own.repeat, standing])
        changes = np.any(np.diff(keys, axis=1, prepend=-1), axis=0) | own.adaptive
        begin = _begins(changes, WIDTH)
        size = np.diff(begin, append=len(runs)).astype(np.int8)
        method, system, _, standing = keys[:, begin]
        integrator, rows = table.methods.integrator[method], self._rows_of_systems
        kind = 2 * (integrator * (rows.max() + 1) + rows[system]) + (size > 1)
        left = 1.0 - marks[np.maximum(standing - 1, 0)] / marks[-1]
        return entry.rows[runs[begin]], size, kind, self._work[method] * left

    @functools.cached_property
    def recipe(self) -> Recipe:
        """What is recorded of each run; one object for all tasks, by which references are found."""
        experiment = self.entry.experiment
        return Recipe(
            time_axis=experiment.time_axis,
            record=tuple(experiment.record),
            statistics=experiment.statistics,
            reference_samples=count_reference_samples(experiment),
            max_steps=experiment.max_steps,
        )

    @functools.cached_property
    def systems(self) -> tuple[NamedComponent, ...]:
        """The systems of the run table."""
        library, made = self.entry.experiment.library, self.entry.table.systems
        return tuple(NamedComponent.of(own.name, own.parameters, library) for own in made)

    @functools.cached_property
    def integrators(self) -> tuple[NamedComponent, ...]:
        """The integrators of the experiment."""
        library, entries = self.entry.experiment.library, self.entry.experiment.integrators
        return tuple(NamedComponent.of(own.name, own.options, library) for own in entries)

    @functools.cached_property
    def probes(self) -> list[RunProbe]:
        """A batch of each kind with median work: half of all work is in smaller batches."""
        order = np.lexsort((self.work, self.kind))
        until = np.append(0.0, np.cumsum(self.work[order]))
        ends = np.cumsum(np.bincount(self.kind))
        begins = np.append(0, ends)[:-1]
        half = (until[begins] + until[ends]) / 2
        middle = np.clip(np.searchsorted(until[1:], half, "right"), begins, ends - 1)
        return list(map(self._probe, order[middle]))

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
            work=float(self._work[own.method[0]]),
        )

    @functools.cached_property
    def references(self) -> LackingReferences | None:
        """The references that the runs need; None if the experiment has none."""
        found = references_of_run_table(self.entry.table)
        return None if found is None else LackingReferences(self, found)

    @property
    def all_probes(self) -> tuple[RunProbe | ReferenceProbe, ...]:
        """All probes; their kernels are all that the experiment needs."""
        return *self.probes, *(self.references.probes[:1] if self.references else ())

    def measurements(self, seconds: float) -> Iterator[Measurement]:
        """Yield what to measure: all kinds, each for some seconds of integration, and references.

        The cost of structure is measured once for each size of system and kind of step, fixed or
        adaptive, since it is mostly linear algebra.
        """
        structure: dict[tuple[bool, int], float] = {}

        def measure(i: int, probe: RunProbe) -> None:
            size = math.isnan(probe.step_size), len(probe.initial[0])
            if size not in structure:
                structure[size] = probe.structure_seconds()
            cost = probe.cost(seconds)
            self.costs[i] = cost._replace(run=cost.run + structure[size])

        for i, probe in enumerate(self.probes):
            yield Measurement(str(probe), probe, functools.partial(measure, i, probe))
        if (references := self.references) is not None and references.probes:
            what = f"references of {self.entry.name} by {references.solver.reference.integrator}"
            take = functools.partial(references.measure, seconds)
            yield Measurement(what, references.probes[0], take)

    # --- seconds -------------------------------------------------------------------------------

    @functools.cached_property
    def integration(self) -> NDArray[np.float64]:
        """Expected CPU seconds to integrate each batch."""
        found: NDArray[np.float64] = self._cost("call") + self._cost("unit") * self.work
        return found

    @functools.cached_property
    def recording(self) -> NDArray[np.float64]:
        """Expected CPU seconds to record each batch, and to measure its structure."""
        found: NDArray[np.float64] = self._cost("beside") * self.integration
        found += self._cost("run") * self.size
        return found

    def _cost(self, name: str) -> NDArray[np.float64]:
        """A field of the costs for each batch."""
        found: NDArray[np.float64] = self.costs[name][self.kind]
        return found

    @functools.cached_property
    def until(self) -> NDArray[np.float64]:
        """Cumulative expected seconds of the batches."""
        return np.cumsum(self.integration + self.recording)

    @property
    def reference_seconds(self) -> NDArray[np.float64]:
        """Expected CPU seconds of each reference."""
        return self.references.seconds if self.references else np.zeros(0)

    @property
    def cpu_seconds(self) -> float:
        """Expected CPU seconds of integrations, including references."""
        cold = COLD_SECONDS * np.minimum(np.bincount(self.kind), COLD_BATCHES).sum()
        return float(self.integration.sum() + cold + self.reference_seconds.sum())

    @property
    def seconds_of_task(self) -> float:
        """Expected seconds per task, whatever its number of runs, to write a record."""
        return WRITE_SECONDS * (len(self._numbers_of_variables) + len(variables.RUN_VARIABLES))

    @property
    def seconds_of_python_steps(self) -> dict[str, float]:
        """CPU seconds of a step of one run, of each integrator that steps in Python."""
        return {
            probe.integrator.name: float(cost["unit"]) / len(probe.initial)
            for probe, cost in zip(self.probes, self.costs, strict=True)
            if math.isnan(probe.tolerance) and not make_integrator(probe.integrator).method.tangents
        }

    # --- what is stored ------------------------------------------------------------------------

    @property
    def lacking_references(self) -> int:
        """Number of references that pending runs need and the store lacks."""
        return int(np.sum(self.references.left > 0)) if self.references else 0

    @property
    def files(self) -> int:
        """Number of files of the experiment in the store: shards, coordinates and metadata."""
        record, samples, runs = self.entry.experiment.record, self._samples, self.entry.size
        series, scalars = len(self._numbers_of_variables), 1
        scalars += len(variables.run_variables(record, self.entry.table.systems[0]))
        along_run = math.ceil(runs / coordinate_chunk_size(runs))
        found = create.layout_of_entry(self.entry).files(runs, samples, series, scalars)
        states = initial_chunk_rows(self._most_numbers)
        found += math.ceil(runs / states) + COORDINATES * along_run + 3  # the other axes
        found += series + scalars + COORDINATES + 3 + 3  # metadata, including both groups
        if self.references:
            references, ends = self.references.every, len(variables.OF_REFERENCE_ENDS)
            size = len(references.ids), references.samples
            found += Layout.choose(*size, self._most_numbers).files(*size, 2, 3 + ends)
            found += math.ceil(size[0] / states) + 1 + 8 + ends  # ids, metadata
        return found

    @property
    def _samples(self) -> int:
        return self.entry.experiment.samples + 1

    @functools.cached_property
    def _numbers_of_variables(self) -> list[int]:
        """Count of numbers per run and sample of each variable over time."""
        sampled = variables.sampled_variables(self.entry.experiment, self.entry.table.systems)
        return [self._most_numbers if len(variable.dims) > 2 else 1 for variable in sampled]

    @property
    def _most_numbers(self) -> int:
        """Count of numbers in the largest state."""
        return 3 * int(self._rows_of_systems.max())

    @property
    def facts(self) -> dict[str, Any]:
        """Costs of the experiment as a flat dict; steps of adaptive runs are predictions."""
        pending = int(self.entry.pending.sum())
        numbers = self.entry.size * (self._samples * sum(self._numbers_of_variables) + 12)
        return {
            "experiment": self.entry.name,
            "runs": pending,
            "committed": len(self.entry.pending) - pending,
            "references": self.lacking_references,
            "steps": round((self._cost("steps") * self.work * self.size).sum()),
            "files": self.files,
            "bytes": 8 * (numbers + self.entry.table.checkpoint_sizes[1]),  # before compression
            "cpu_seconds": self.cpu_seconds,
            "reference_cpu_seconds": float(self.reference_seconds.sum()),
            "recording_cpu_seconds": float(self.recording.sum()),
        }

    # --- tasks ---------------------------------------------------------------------------------

    def divide(self, workers: int) -> Iterator[tuple[range, int, float]]:
        """Yield rows, number of runs and expected seconds of each run task.

        Tasks get smaller: each takes a share of the remaining work (guided self-scheduling), so
        that all workers end at about the same time. A task begins with a batch, lies in one row of
        shards, and its results fit into the memory of a worker.
        """
        row, until, fixed = self.row, self.until, self.seconds_of_task
        shard = row // self.shard_rows
        numbers = (
            self._samples * sum(self._numbers_of_variables)
            + self.entry.table.checkpoint_sizes[0]
            + 32
        )
        most = max(1, MOST_BYTES // (8 * numbers) // int(self.size.max(initial=1)))
        begin, before = 0, 0.0
        for shard_end in (np.flatnonzero(np.diff(shard, append=-1)) + 1).tolist():
            while begin < shard_end:
                left = float(until[-1]) - before
                target = min(max(left / (TASKS_PER_WORKER * workers), LEAST_TASK), MOST_TASK)
                full = int(until.searchsorted(before + target - fixed, "right"))
                end = min(max(full, begin + 1), begin + most, shard_end)
                rows_end = min((int(shard[begin]) + 1) * self.shard_rows, self.entry.size)
                stop = int(row[end]) if end < shard_end else rows_end
                seconds = float(until[end - 1])
                runs = int(self.size[begin:end].sum())
                yield range(int(row[begin]), stop), runs, seconds - before + fixed
                begin, before = end, seconds

    def count_tasks(self, workers: int) -> int:
        """Approximate number of tasks that `make_tasks` would make."""
        references = math.ceil(self.lacking_references / REFERENCES_OF_TASK)
        return references + sum(1 for _ in self.divide(workers))


def _begins(changes: NDArray[np.bool_], most: int) -> NDArray[np.intp]:
    """Indices at which groups begin: at each change, and after `most` elements."""
    begins = np.flatnonzero(changes)
    nth = np.arange(len(changes)) - np.repeat(begins, np.diff(begins, append=len(changes)))
    return np.flatnonzero(nth % most == 0)


def _work_of_methods(table: RunTable) -> NDArray[np.float64]:
    """Work of a run with each method of a table, in units of `RunProbe.work`."""
    axis, methods = table.experiment.time_axis, table.methods
    work = np.rint(axis.interval / methods.step_size) * float(axis.intervals)
    for i in np.unique(methods.integrator[methods.adaptive]).tolist():
        made = table.experiment.integrators[i].integrator()
        own, order = methods.integrator == i, int((made.counted or made).order)
        work[own] = axis.times[-1] * methods.tolerance[own] ** (-1 / order)
    return work


class LackingReferences:
    """The references of an experiment, and the part of them that pending runs need.

    Parameters
    ----------
    plan : ExperimentPlan
    every : sweep.store.diff.References

    Attributes
    ----------
    rows, stored : ndarray of int, shape (references,)
        Row of each in the store, known once there are tasks, and number of its stored samples.
    left, seconds : ndarray, shape (references,)
        Fraction of each that is needed but not computed yet, and the expected seconds for it.
    probes : list of ReferenceProbe
        Probes of a few references that are not complete.
    """

    def __init__(self, plan: ExperimentPlan, every: References) -> None:
        entry, table, self.every = plan.entry, plan.entry.table, every
        reference, times = entry.experiment.reference, entry.experiment.times[: every.samples]
        assert reference is not None
        self.rows: RowNumbers = np.zeros(0, dtype=int)
        self.stored = np.array([entry.references.get(run_id, 0) for run_id in every.ids.tolist()])
        needed = np.zeros(len(every.ids), dtype=bool)
        for runs, part in table.slabs():
            needed[every.of(part.take(entry.pending[runs]))] = True
        done = times[np.clip(self.stored, 1, len(times)) - 1] / max(times[-1], np.finfo(float).tiny)
        self.left = np.where(needed & (self.stored < len(times)), 1.0 - done, 0.0)
        self.seconds = np.zeros(len(every.ids))
        self.solver, self.probes = make_solver(entry.experiment, reference, every.samples), []
        lacking = np.flatnonzero(self.left * (every.samples > 1))  # else there are no steps
        for run in every.first_run[np.roll(lacking, -(len(lacking) // 2))[:REFERENCES_TRIED], None]:
            system = plan.systems[table.take(run).system_index[0]]
            known = table.precise_starts(run, reference.is_precise)
            starts = table.initial_states(run)[0], None if known is None else known[0]
            self.probes.append(ReferenceProbe(system, self.solver, *starts))

    def measure(self, seconds: float) -> None:
        """Measure one reference for some seconds of integration.

        Raises
        ------
        InputError
            If none of the probes meets its tolerance up to the end.
        """
        unmet = None
        for probe in self.probes:
            try:
                self.seconds = self.left * probe.seconds(seconds)
                return
            except InputError as error:  # with this start, or with any
                unmet = unmet or error
        if unmet is not None:
            raise unmet

    def tasks(self, plan: ExperimentPlan, store: Store, every: float) -> Iterator[ReferenceTask]:
        """Yield tasks for the needed references, with a checkpoint after each `every` seconds."""
        entry, table = plan.entry, plan.entry.table
        group = store.group(references_group_name(entry.name), "a")
        self.rows = rows = self.every.rows(group)
        needed = np.flatnonzero(self.left)
        needed = needed[np.argsort(rows[needed])]
        shard = rows[needed] // layout_of_group(group).shard_rows
        begins = _begins(np.diff(shard, prepend=-1) != 0, REFERENCES_OF_TASK)
        for mine in np.split(needed, begins)[1:]:
            first = self.every.first_run[mine]
            yield ReferenceTask(
                store=store,
                experiment=entry.name,
                times=entry.experiment.times[: self.every.samples],
                solver=self.solver,
                systems=plan.systems,
                rows=rows[mine],
                system=table.take(first).system_index,
                stored=self.stored[mine],
                precise_starts=table.precise_starts(first, isinstance(self.solver, PreciseSolver)),
                cost=float(self.seconds[mine].sum()),
                checkpoint_every=every,
            )


# --- plans -------------------------------------------------------------------------------------


def format_plans(plans: Sequence[ExperimentPlan], tasks: int) -> str:
    """Format plans as a table with a row for each experiment, and a line of totals."""
    return f"{_table_of_plans(plans)}\n{_totals_in_words(plans, tasks)}"


def _table_of_plans(plans: Sequence[ExperimentPlan]) -> Table:
    rows = [plan.facts for plan in plans]
    cells = [
        [
            row["experiment"],
            *(f"{row[name]:,}" for name in ("runs", "references", "steps", "files")),
            _byte_count_text(row["bytes"]),
            about_duration(row["cpu_seconds"]),
        ]
        for row in rows
    ]
    names = ["experiment", "runs", "references", "steps", "files", "at most", "CPU time"]
    return Table(names, cells, kept=["CPU time"])


def _totals_in_words(plans: Sequence[ExperimentPlan], tasks: int) -> str:
    rows = [plan.facts for plan in plans]
    runs, seconds, recording = (
        sum(row[name] for row in rows) for name in ("runs", "cpu_seconds", "recording_cpu_seconds")
    )
    text = f"{count_with_noun(runs, 'run')} to compute in {count_with_noun(tasks, 'task')}, "
    text += f"{about_duration(seconds)} of CPU time"
    # Some measurements take steps again, with tangent vectors or backwards.
    measured = any(
        name.startswith(variables.MEASURED)
        for plan in plans
        for name in plan.entry.experiment.record
    )
    purpose = "to measure exponents and defects, and to record" if measured else "to record them"
    text += f", and {format_duration(recording)} {purpose}" * (recording > 0)
    slow = {name: of for plan in plans for name, of in plan.seconds_of_python_steps.items()}
    for name, of in reversed(slow.items()):
        text = f"A step of {name} in Python takes {1e6 * of:.3g} µs\n{text}"
    return text


def _byte_count_text(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


@dataclass(frozen=True, eq=False)
class Plan:
    """Expected cost of the part of a study that its store lacks; its text is that of `sweep plan`.

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
        """Expected CPU seconds, accurate to a factor of two."""
        return sum(plan.cpu_seconds for plan in self.experiments)

    @property
    def rows(self) -> Rows:
        """Costs of each experiment: `Rows` of dicts."""
        return Rows(plan.facts for plan in self.experiments)

    def to_dataframe(self) -> pandas.DataFrame:
        """The experiments as a `pandas.DataFrame`: runs, steps, files, bytes, seconds."""
        return self.rows.to_dataframe()

    def __str__(self) -> str:
        return f"Store: {self.store}\n{format_plans(self.experiments, self.tasks)}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        plans, totals = self.experiments, _totals_in_words(self.experiments, self.tasks)
        table = _table_of_plans(plans)._repr_html_()
        return html_text(f"Store: {self.store}") + table + html_text(totals)


def plan(
    study: str | Path | Store | Study,
    store: str | Place | Store | None = None,
    workers: int | None = None,
    trust_plugins: bool = False,
    preparing: Callable[[Preparation], object] = lambda now: None,
) -> Plan:
    """Plan a study like `sweep plan`, without writing anything.

    Parameters
    ----------
    study, store, trust_plugins
        As in `sweep.run`. If the store exists, only missing runs are counted.
    workers : int, optional
        Number of processes for which tasks are counted; by default one per core.
    preparing : callable, optional
        Called with a `Preparation` for each measurement or compilation.

    Returns
    -------
    Plan

    Raises
    ------
    StudyError, StoreError, InputError
        As in `sweep.run`.
    """
    loaded, store = resolve_study_and_store(study, store, trust_plugins)
    with Planner(diff.diff_store_against_study(store, loaded), lambda: None, preparing) as planner:
        while not planner.ended:
            planner.next_plans()
    tasks = sum(own.count_tasks(workers or os.cpu_count() or 1) for own in planner.plans)
    return Plan(store.place, tuple(planner.plans), tasks)


class Planner:
    """Context manager that plans experiments in a separate thread.

    Parameters
    ----------
    entries : list of sweep.store.diff.ExperimentDiff
    check : callable
        Called repeatedly while `next_plans` waits, in its thread; raises if the run has to end.
    on_preparation : callable
        Called in the same thread with the latest `Preparation`.

    Attributes
    ----------
    plans : list of ExperimentPlan
        Plans that `next_plans` has returned.
    """

    def __init__(
        self,
        entries: Sequence[ExperimentDiff],
        check: Callable[[], object],
        on_preparation: Callable[[Preparation], object],
    ) -> None:
        self.plans: list[ExperimentPlan] = []
        self.entries, self._check, self._on_preparation = entries, check, on_preparation
        self._patient_until, self._stopped = time.monotonic() + PATIENCE, False
        # Set by the thread: finished plans, the present measurement, and an exception.
        self._made: list[ExperimentPlan] = []
        self._now = Preparation("", 0, 0)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._plan, name=THREAD, daemon=True)

    def __enter__(self) -> Planner:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped = True  # the thread ends before the next kernel

    @property
    def ended(self) -> bool:
        """Whether all experiments are planned, and `next_plans` has returned them."""
        return len(self.plans) == len(self.entries)

    def next_plans(self) -> list[ExperimentPlan]:
        """Wait for further plans and return those that are ready; empty once there are no more.

        The first call waits up to `PATIENCE` seconds for all plans.

        Raises
        ------
        InputError
            If an experiment cannot be planned.
        """
        known, told = len(self.plans), None
        while not self.ended and len(self.plans) == known:
            self._check()
            self._thread.join(LOOK_SECONDS)
            if self._error is not None:
                raise self._error
            if (now := self._now).what and now is not told:
                self._on_preparation(told := now)
            if time.monotonic() > self._patient_until or not self._thread.is_alive():
                self.plans = self._made.copy()
        return self.plans[known:]

    def _plan(self) -> None:
        """Plan all experiments in order; an exception is raised again in `next_plans`.

        From the first kernel on that the disk cache lacks, all cores compile for what is left.
        """
        try:
            with checking(self._check_stopped), contextlib.ExitStack() as stack:
                plans = [ExperimentPlan(entry) for entry in self.entries]
                seconds = seconds_of_probes(sum(len(plan.all_probes) for plan in plans))
                parts = [[*plan.measurements(seconds)] for plan in plans]
                every, done = list(itertools.chain(*parts)), 0
                compiled: dict[int, Future[None]] | None = None
                for plan, part in zip(plans, parts, strict=True):
                    for own in part:
                        self._check_stopped()
                        self._now = Preparation(own.what, done, len(every))
                        if compiled is None and not self._is_measured_at_once(own):
                            probes = [own.probe for own in every[done:]]
                            futures = stack.enter_context(compiling_on_all_cores(probes))
                            compiled = dict(enumerate(futures, done))
                        if compiled is not None:
                            self._measure_once_compiled(own, compiled)
                        done += 1
                    self._made.append(plan)
        except BaseException as error:
            self._error = error

    def _is_measured_at_once(self, own: Measurement) -> bool:
        """Measure, unless the disk cache lacks a kernel."""

        def compiling(kernel: str) -> None:
            raise _NotCompiled

        with contextlib.suppress(_NotCompiled), checking(self._check_stopped, compiling):
            own.measure()
            return True
        return False

    def _measure_once_compiled(self, own: Measurement, compiled: dict[int, Future[None]]) -> None:
        """Measure when its future has ended; what that has not compiled, this thread does."""
        now = self._now
        if (future := compiled.get(now.done)) is not None:
            while not wait([future], LOOK_SECONDS).done:
                self._check_stopped()
                ready = now.of - sum(not own.done() for own in compiled.values())
                self._now = replace(now, compiling=f"kernels ({ready} of {now.of} ready)")
        with checking(self._check_stopped, self._compiling):
            own.measure()

    def _compiling(self, kernel: str) -> None:
        """Note that a kernel is being compiled here because the disk cache lacks it."""
        self._now = replace(self._now, compiling=kernel)

    def _check_stopped(self) -> None:
        if self._stopped:
            raise Interrupted("the run has ended")


def wait_for_planners() -> None:
    """Wait for the threads of planners, since Python must not end while LLVM runs in one."""
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join()


atexit.register(wait_for_planners)


# --- tasks -------------------------------------------------------------------------------------


def make_tasks(
    store: Store,
    plans: Sequence[ExperimentPlan],
    workers: int,
    checkpoint_every: float = CHECKPOINT_EVERY,
) -> tuple[list[ReferenceTask], list[PlannedTask]]:
    """Make the tasks of all pending work: for references, which are computed first, and for runs.

    Run tasks are ordered by repeat, then by row of shards, then by cost. All methods have their
    first repeat before any has its second. So a slow minute of the machine affects all methods, but
    not all repeats of one. Rows of shards follow one another, so that few have records that are not
    folded. The row with the longest task comes first, and in each row the longest task, so that all
    workers end at about the same time.

    Parameters
    ----------
    store : Store
        The store, which already has all rows of the plans.
    plans : list of ExperimentPlan
    workers : int
    checkpoint_every : float
        Seconds between checkpoints.

    Returns
    -------
    references, runs : list of ReferenceTask, list of PlannedTask
    """
    references: list[ReferenceTask] = []
    of_shards: dict[tuple[str, int], list[PlannedTask]] = collections.defaultdict(list)
    for plan in plans:
        if plan.references is not None and len(plan.row):
            references += plan.references.tasks(plan, store, checkpoint_every)
        for rows, count, cost in plan.divide(workers):
            task = PlannedTask(
                store=store,
                experiment=plan.entry.name,
                rows=rows,
                cost=cost,
                checkpoint_every=checkpoint_every,
                plan=plan,
                count=count,
            )
            of_shards[task.experiment, task.rows[0] // plan.shard_rows].append(task)
    for tasks in of_shards.values():
        tasks.sort(key=lambda task: (task.first_repeat, -task.cost))
    in_turn = sorted(
        of_shards.values(),
        key=lambda tasks: (tasks[0].first_repeat, -max(task.cost for task in tasks)),
    )
    return references, list(itertools.chain(*in_turn))


@dataclass(frozen=True, eq=False, kw_only=True)
class PlannedTask(Task):
    """A range of rows from which a `RunTask` is built when it is sent.

    Parameters
    ----------
    plan : ExperimentPlan
    rows : range
        Rows of the store; the task computes the pending runs in them.
    count : int
        Number of these runs.
    """

    plan: ExperimentPlan
    rows: range
    count: int

    @property
    def runs(self) -> int:
        """Number of its runs."""
        return self.count

    @functools.cached_property
    def first_repeat(self) -> int:
        """Repeat of its first run, counted from 0."""
        entry = self.plan.entry
        first = entry.pending_runs(self.rows[0], self.rows[0] + 1)
        return int(entry.table.take(first).repeat[0])

    def build(self) -> RunTask:
        """Build the `RunTask` that is sent to a worker."""
        plan, entry = self.plan, self.plan.entry
        runs = entry.pending_runs(self.rows.start, self.rows.stop)
        own, reference = entry.table.take(runs), np.zeros(0, dtype=int)
        if plan.references is not None:
            reference = plan.references.rows[plan.references.every.of(own)]
        return RunTask(
            store=self.store,
            experiment=entry.name,
            recipe=plan.recipe,
            systems=plan.systems,
            integrators=plan.integrators,
            rows=entry.rows[runs].astype(np.int64),
            columns=RunColumns.of(own),
            stored=entry.standing[runs].astype(np.int64),
            reference=reference,
            precise_starts=entry.table.precise_starts(runs),
            cost=self.cost,
            checkpoint_every=self.checkpoint_every,
        )
