"""The pilot: integrate some batches and references for milliseconds, to measure costs.

It also compiles the kernels, once, before any worker starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError
from integrators.methods import dormand_prince
from integrators.status import COMPLETE
from integrators.stepping.adaptive import StepBound
from sweep.campaign.cost_model import (
    LOOKED_AHEAD,
    MOST_MEASURED,
    Clock,
    Cost,
    Line,
    Probe,
    measure_recording_seconds,
    measure_structure_cost,
    time_growing_work,
    unseen_seconds,
)
from sweep.campaign.worker.precise_reference import PreciseSolver
from sweep.campaign.worker.recorder import NamedComponent, Recipe, make_system
from sweep.campaign.worker.reference import compute_reference_trajectory, make_solver
from sweep.store.diff import reference_samples
from sweep.study.experiment import PreciseReference

if TYPE_CHECKING:
    from sweep.campaign.batches import Kind, Workload
    from sweep.campaign.worker.tasks import ReferenceSolver
    from sweep.store.files import RowNumbers
    from sweep.study.experiment import Reference
    from sweep.study.run_table import RunTable, States
    from systems.base import System

PROBES = 3  # batches of each kind, and references of an experiment
# Least duration of a measurement: shorter where there are many kinds of batches, whose errors then
# cancel in part.
LEAST_SECONDS, MOST_SECONDS, ALL_SECONDS = 3e-4, 1.5e-3, 0.5
REFERENCE_SECONDS = 3e-3
REFERENCE_PART = 1 / 64  # fraction of a reference that is measured first
if TYPE_CHECKING:
    ReferenceStart = tuple[States, States | None]  # in doubles, and in double-double if known


def recipe_of_run_table(table: RunTable) -> Recipe:
    """The `Recipe` of an experiment's runs."""
    experiment = table.experiment
    return Recipe(
        time_axis=experiment.time_axis,
        record=tuple(experiment.record),
        statistics=experiment.statistics,
        reference_samples=reference_samples(experiment),
        max_steps=experiment.max_steps,
    )


def named_systems_of_table(table: RunTable) -> tuple[NamedComponent, ...]:
    """The systems of a run table as `NamedComponent`."""
    library = table.experiment.library
    return tuple(NamedComponent.of(made.name, made.parameters, library) for made in table.systems)


def named_integrators_of_table(table: RunTable) -> tuple[NamedComponent, ...]:
    """The integrators of a run table as `NamedComponent`."""
    library = table.experiment.library
    return tuple(
        NamedComponent.of(e.name, e.options, library) for e in table.experiment.integrators
    )


def least_pilot_seconds(workloads: Iterable[Workload]) -> float:
    """Least seconds of a measurement, in a pilot of all kinds of batches of some workloads."""
    kinds = sum(len(list(work.by_kind())) for work in workloads)
    return float(np.clip(ALL_SECONDS / (PROBES * max(kinds, 1)), LEAST_SECONDS, MOST_SECONDS))


def pilot_batch_costs(
    work: Workload,
    seconds: float,
    before_measurement: Callable[[str], object] = lambda what: None,
    clock: Clock = time.thread_time,
    known: Mapping[Kind, Cost] | None = None,
) -> dict[Kind, Cost]:
    """Measure what the batches of an experiment cost.

    Parameters
    ----------
    work : sweep.campaign.batches.Workload
    seconds : float
        Least duration of each measurement.
    before_measurement : callable
        Called before each measurement with a description of what is measured.
    clock : callable
        CPU time.
    known : dict, optional
        Costs that were measured before, by kind; other kinds are added.

    Returns
    -------
    dict of tuple to Cost
        Costs by kind of batch.
    """
    costs = dict(known or {})
    for kind, probes in _choose_probes(work, PROBES, costs).items():
        before_measurement(f"{probes[0].integrator.name} on {probes[0].system.name}")
        costs[kind] = _measure_cost_of_probes(probes, seconds, clock)
    return costs


def _measure_cost_of_probes(probes: Sequence[Probe], seconds: float, clock: Clock) -> Cost:
    """The `Cost` of some `Probe`s of one kind."""
    first, lines, steps, unseen = probes[0].recorder(), [], [], []
    for probe in probes:
        recorder = first if probe.system == probes[0].system else probe.recorder()
        line, rate, beyond = probe.line(recorder, seconds, clock)
        lines.append(line)
        steps.append(rate)
        unseen.append(beyond)
    return Cost(
        lines=tuple(lines),
        seconds_per_sample=measure_recording_seconds(first, probes[0], clock=clock),
        steps=float(np.mean(steps)),
        unseen=float(np.mean(unseen)),
        **measure_structure_cost(first, probes[0], clock),
    )


def _choose_probes(
    work: Workload, count: int, known: Container[Kind] = ()
) -> dict[Kind, list[Probe]]:
    """A few `Probe`s of each kind of batch that is not in `known`.

    Batches are sorted by their work; each probe represents an equal share of the work of its kind.
    """
    table = work.entry.table
    recipe = recipe_of_run_table(table)  # shared: references are found by hashes
    systems, methods = named_systems_of_table(table), named_integrators_of_table(table)
    return {
        kind: [
            _make_probe(table, runs, recipe, systems, methods)
            for runs in work.choose_batches(own, count)
        ]
        for kind, own in work.by_kind()
        if kind not in known
    }


def _make_probe(
    table: RunTable,
    runs: NDArray[np.intp],
    recipe: Recipe,
    systems: Sequence[NamedComponent],
    methods: Sequence[NamedComponent],
) -> Probe:
    places = table.take(runs)
    return Probe(
        recipe=recipe,
        system=systems[places.system_index[0]],
        integrator=methods[places.integrator_index[0]],
        initial=table.initial_states(runs),
        step_size=float(places.step_size[0]),
        tolerance=float(places.tolerance[0]),
        steps=int(places.steps_per_sample[0]) * table.experiment.time_axis.intervals,
    )


def pilot_reference_cost(
    table: RunTable, reference: Reference, chosen: RowNumbers, clock: Clock = time.thread_time
) -> Cost:
    """Measure the `Cost` of reference trajectories, by the time that they cover.

    Parameters
    ----------
    table : sweep.study.run_table.RunTable
    reference : sweep.study.experiment.Reference
        That of the experiment.
    chosen : ndarray of int
        A run of the table for each missing reference.
    clock : callable
        CPU time.

    Raises
    ------
    InputError
        If none of the references that are tried meets its tolerance up to the end.
    """
    experiment = table.experiment
    times = experiment.times[experiment.times <= reference.until * (1 + 1e-12)]
    if len(times) < 2:  # they end before the first sample
        return Cost(lines=(Line(np.zeros(2), np.zeros(2)),))
    places = np.unique(((np.arange(PROBES) + 0.5) / PROBES * len(chosen)).astype(int))
    lines, unmet, unseen = [], [], []
    for run in chosen[places]:
        system = table.systems[table.take(np.array([run])).system_index[0]]
        if isinstance(reference, PreciseReference):
            solver = PreciseSolver.of(experiment, reference, len(times))
            starts = _starts_of_reference(table, reference, run)
            solver.load(system, *starts)
            try:
                seconds = solver.expected_seconds(system, *starts, clock)
            except InputError as error:  # of this start, or of the study
                unmet.append(error)
                continue
            lines.append(Line(np.zeros(2), np.full(2, seconds / times[-1])))
            continue
        part = _ReferencePart(system, table.initial_state(run), times, reference.tolerance)
        end = float(times[-1])
        part.work(end * REFERENCE_PART)()  # compiles
        amounts, timed = time_growing_work(
            part.work, end * REFERENCE_PART, end, REFERENCE_SECONDS, clock
        )
        lines.append(Line.through(amounts, timed))
        measured = part.steps_until(float(amounts[1]), MOST_MEASURED[False])
        ahead = part.steps_until(end, int(measured[0]) + LOOKED_AHEAD[False])
        bound = StepBound(end, experiment.max_steps)
        unseen.append(unseen_seconds(float(timed[1][1]), measured, ahead, bound))
    if not lines:
        raise unmet[0]
    return Cost(lines=tuple(lines), unseen=float(np.mean(unseen)) if unseen else 0.0)


def _starts_of_reference(
    table: RunTable, reference: Reference, run: int
) -> tuple[States, States | None]:
    """The initial state of a run's reference in doubles, and in double-double where known."""
    known = table.precise_starts(np.array([run]), reference.is_precise)
    return table.initial_state(run), None if known is None else known[0]


@dataclass(frozen=True, eq=False)
class _ReferencePart:
    """A reference of which parts are integrated, to see what it costs."""

    system: System
    state: States
    times: NDArray[np.float64]
    tolerance: float

    def work(self, span: float) -> Callable[[], bool]:
        """A function that computes the reference up to time `span`, see `Work`."""
        upto = np.append(self.times[self.times < span * (1 - 1e-12)], span)
        bound = StepBound(span, MOST_MEASURED[False])

        def computed() -> bool:
            _, _, ends = compute_reference_trajectory(
                self.system, self.state, upto, self.tolerance, bound
            )
            return bool(np.split(ends, 2)[0][dormand_prince.STATUS] > COMPLETE)

        return computed

    def steps_until(self, span: float, most: int) -> tuple[float, float]:
        """Steps up to a time, and until when they lead: not so far where there are too many."""
        times, bound = np.array([0.0, span]), StepBound(span, most)
        _, _, end = dormand_prince.solve(
            self.system, self.state, times, self.tolerance, bound=bound
        )
        return max(float(end[dormand_prince.STEPS]), 1.0), float(end[dormand_prince.TIME])


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Compiles all kernels that a study's tasks need.

    Parameters
    ----------
    probes : tuple of sweep.campaign.cost_model.Probe
    references : tuple of (NamedComponent, ReferenceSolver, tuple)
        Systems of references, what computes them, and a start of each.
    """

    probes: tuple[Probe, ...]
    references: tuple[tuple[NamedComponent, ReferenceSolver, ReferenceStart], ...]

    @classmethod
    def of(cls, workloads: Iterable[Workload]) -> Rehearsal:
        """The rehearsal of the pending runs of some experiments, each a `Workload`."""
        probes: list[Probe] = []
        references = []
        for work in (work for work in workloads if work.entry.pending.any()):
            table = work.entry.table
            for few in _choose_probes(work, 1).values():
                probes += few
            if (reference := table.experiment.reference) is not None:
                named = named_systems_of_table(table)[0]
                solver = make_solver(table.experiment, reference, 2)
                references.append((named, solver, _starts_of_reference(table, reference, 0)))
        return cls(tuple(probes), tuple(references))

    def compile(self) -> None:
        """Compile them, in this process."""
        for probe in self.probes:
            probe.compile()
        for named, solver, starts in self.references:
            solver.rehearse(make_system(named), *starts)
