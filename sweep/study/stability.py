"""Step sizes beyond the linear stability limit of their integrator, found before any work.

Only methods that have a limit, on systems of spins, see `integrators.diagnostics.stability`; the
gradient at every initial state says how fast the spins turn there. Such runs are computed all the
same.
"""

from dataclasses import dataclass

import numpy as np

from integrators.diagnostics.stability import explanation, frequencies, largest_step, limited


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

    def __str__(self):
        return (
            f"Warning: {self.where} ({self.label!r}): {self.runs:,} of {self.of:,} runs begin "
            f"beyond its linear stability limit: {self.text}"
        )


def steps_beyond_stability_limit(table, among=None):
    """What of a run table is beyond a stability limit.

    Parameters
    ----------
    table : sweep.study.run_table.RunTable
    among : ndarray of bool, shape (runs,), optional
        The runs to look at; all unless given.

    Returns
    -------
    list of Beyond
        In the order of the table: integrators, then step sizes.
    """
    found, turning = [], {}
    among = np.ones(table.size, dtype=bool) if among is None else among
    for index, entry in enumerate(table.experiment.integrators):
        integrator = entry.integrator()
        if not limited(integrator, table.systems[0]):
            continue
        mine = among & (table.integrator_index == index)
        if not mine.any():
            continue
        for system in np.unique(table.system_index[mine]):
            if system not in turning:
                turning[system] = frequencies(table.systems[system], table.starts[system])
        sizes = table.step_size[mine]
        for size in dict.fromkeys(sizes.tolist()):
            runs = np.flatnonzero(mine)[sizes == size]
            frequency = _frequency_at_start_of_runs(table, runs, turning)
            outside = size >= largest_step(integrator, frequency)
            if outside.any():
                worst = float(frequency[outside].max())
                found.append(
                    BeyondStabilityLimit(
                        experiment=table.experiment.name,
                        label=entry.label,
                        where=entry.where,
                        step_size=size,
                        runs=int(outside.sum()),
                        of=len(runs),
                        text=explanation(integrator, size, worst),
                    )
                )
    return found


def _frequency_at_start_of_runs(table, runs, turning):
    """The frequency where each of `runs` begins."""
    frequency = np.full(len(runs), np.nan)
    for system in np.unique(table.system_index[runs]):
        mine = table.system_index[runs] == system
        frequency[mine] = turning[system][table.start_index[runs[mine]]]
    return frequency
