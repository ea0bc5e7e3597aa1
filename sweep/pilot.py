"""The pilot: each integrator on each system for some milliseconds, which also compiles kernels."""

import time
from dataclasses import dataclass

import numpy as np

from integrators.lanes import WIDTH
from sweep.computing import Named, Recipe, system_of
from sweep.costs import Trial
from sweep.ledger import references_of
from sweep.reference_work import reference_trajectory

PILOT_SECONDS = 2e-3
REHEARSAL_SECONDS = 1e-6  # nothing is measured


def pairs_of(table):
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


def pilot(table, recipe, between):
    """`Cost` by integrator and system, for the pairs that occur; equal sizes share one."""
    trials, measured, costs = _trials(table, recipe), {}, {}
    for index in np.unique(pairs_of(table)):
        between()
        key = _kind_of_pair(table, int(index))
        if key not in measured:
            measured[key] = trials[key].cost(PILOT_SECONDS)
        costs[int(index)] = measured[key]
    return costs


def _trials(table, recipe):
    """A `Trial` of each pair of integrator and size of system that occurs."""
    systems, methods, found = named_systems(table), named_integrators(table), {}
    for index, run in zip(*np.unique(pairs_of(table), return_index=True), strict=True):
        i, s = divmod(int(index), len(systems))
        found.setdefault(
            _kind_of_pair(table, int(index)),
            Trial(
                recipe=recipe,
                system=systems[s],
                integrator=methods[i],
                initial=table.starts[s][: min(WIDTH, len(table.starts[s]))],
                step_size=np.nan if table.adaptive[run] else float(table.step_size[run]),
                tolerance=float(table.tolerance[run]),
            ),
        )
    return found


def _kind_of_pair(table, index):
    """What pairs have in common that cost the same: the integrator, and the system's size."""
    integrator, system = divmod(index, len(table.systems))
    return integrator, table.systems[system].rows


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Compiles all kernels that a study's tasks need.

    Parameters
    ----------
    trials : tuple of sweep.costs.Trial
    references : tuple of (Named, ndarray, ndarray)
        Systems of references, a state of each, and sample times.
    """

    trials: tuple
    references: tuple

    @classmethod
    def of(cls, plans):
        """That of the pending runs of some `ExperimentPlan`s."""
        trials, references = [], []
        for table in (plan.entry.table for plan in plans if plan.entry.pending.any()):
            trials += _trials(table, recipe_of(table)).values()
            if table.experiment.reference is not None:
                times = table.experiment.times[:2]
                references.append((named_systems(table)[0], table.initial_state(0), times))
        return cls(tuple(trials), tuple(references))

    def compile(self):
        """Compile them, in this process."""
        for trial in self.trials:
            trial.cost(REHEARSAL_SECONDS)
        for named, state, times in self.references:
            reference_trajectory(system_of(named), state, times, 1e-3)


def reference_seconds(table):
    """Seconds of one reference, from the first fiftieth of its time."""
    experiment = table.experiment
    times = experiment.times[experiment.times <= experiment.reference.until * (1 + 1e-12)]
    system, state = table.systems[0], table.initial_state(0)
    if len(times) < 2:  # it ends before the first sample
        return 0.0
    first = times[: max(2, np.searchsorted(times, times[-1] / 50))]
    reference_trajectory(system, state, times[:2], 1e-3)  # compiles
    began = time.thread_time()
    reference_trajectory(system, state, first, experiment.reference.tolerance)
    return (time.thread_time() - began) * times[-1] / first[-1]
