"""Step sizes beyond the linear stability limit of their integrator, found before any work.

Only methods that have a limit, on systems of spins, see `integrators.diagnostics.stability`; the
gradient at every initial state says how fast the spins turn there. Such runs are computed all the
same.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from integrators.diagnostics.stability import (
    explain_step_beyond_limit,
    frequencies,
    has_stability_limit,
    largest_step,
)
from sweep.study.run_table import RunTable


@dataclass(frozen=True)
class BeyondStabilityLimit:
    """An integrator's step size that is beyond its stability limit where some runs begin.

    Parameters
    ----------
    experiment, label, where : str
        Of the integrator's entry in the study.
    step_size : float
    runs, of : int
        Runs that begin beyond the limit, of those with this integrator and step size.
    text : str
        The worst of them: step size, frequency, the limit, and the step sizes within it.
    """

    experiment: str
    label: str
    where: str
    step_size: float
    runs: int
    of: int
    text: str

    def __str__(self) -> str:
        return (
            f"Warning: {self.where} ({self.label!r}): {self.runs:,} of {self.of:,} runs begin "
            f"beyond its linear stability limit: {self.text}"
        )


def steps_beyond_stability_limit(
    table: RunTable, among: NDArray[np.bool_] | None = None
) -> list[BeyondStabilityLimit]:
    """Find the integrators and step sizes of a run table that are beyond a stability limit.

    Parameters
    ----------
    table : sweep.study.run_table.RunTable
    among : ndarray of bool, shape (runs,), optional
        The runs to look at; all unless given.

    Returns
    -------
    list of BeyondStabilityLimit
        In the order of the table: integrators, then step sizes.
    """
    made = [entry.integrator() for entry in table.experiment.integrators]
    limits = np.array(
        [bool(has_stability_limit(integrator, table.systems[0])) for integrator in made]
    )
    turning: dict[int, NDArray[np.float64]] = {}
    found: dict[tuple[int, float], tuple[int, int, float]] = {}
    for runs, places in table.slabs() if limits.any() else ():
        mine = limits[places.integrator_index]
        mine &= True if among is None else among[runs]
        places = table.take(runs[mine])
        frequency = _frequency_at_start_of_runs(places, turning)
        methods, first = np.unique(places.method, return_index=True)
        for method in methods[np.argsort(first)]:
            own = frequency[places.method == method]
            integrator, size = table.methods.integrator[method], table.methods.step_size[method]
            outside = own[size >= largest_step(made[integrator], own)]
            many, of, worst = found.get((integrator, size), (0, 0, 0.0))
            worst = max(worst, outside.max(initial=0.0))
            found[integrator, size] = many + len(outside), of + len(own), worst
    return [
        BeyondStabilityLimit(
            experiment=table.experiment.name,
            label=table.experiment.integrators[integrator].label,
            where=table.experiment.integrators[integrator].where,
            step_size=float(size),
            runs=many,
            of=of,
            text=explain_step_beyond_limit(made[integrator], float(size), float(worst)),
        )
        for (integrator, size), (many, of, worst) in sorted(
            found.items(), key=lambda own: own[0][0]
        )
        if many
    ]


def _frequency_at_start_of_runs(
    runs: RunTable, turning: dict[int, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """The frequency where each of some runs begins; `turning` keeps those of systems' starts."""
    frequency = np.full(runs.size, np.nan)
    for system in np.unique(runs.system_index).tolist():
        mine = runs.system_index == system
        starts = runs.start_index[mine]
        known = turning.setdefault(system, np.full(len(runs.starts), np.nan))
        new = np.unique(starts[np.isnan(known[starts])])
        if len(new):
            states = runs.starts.states_of_starts(system, new)
            known[new] = frequencies(runs.systems[system], states)
        frequency[mine] = known[starts]
    return frequency
