"""Which pending runs are integrated together, and how much work each such batch is.

`sweep.campaign.worker.run_work` cuts a task's runs into batches when it computes them; here they
are counted before.
"""

from dataclasses import dataclass

import numpy as np

from integrators.compiler.lanes import WIDTH


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of an experiment's pending runs, in the order of the store.

    Parameters
    ----------
    runs : ndarray of int, shape (pending,)
        The pending runs of the table.
    of_run : ndarray of int, shape (pending,)
        The batch of each of them.
    first : ndarray of int, shape (batches,)
        The first run of each batch.
    sizes : ndarray of int, shape (batches,)
        Number of runs.
    kinds : ndarray of int, shape (batches, 3)
        What batches that cost alike have in common: the integrator, the rows of the system, and
        whether there are lanes, of more than one run.
    amounts : ndarray, shape (batches,)
        Work, in units that `sweep.campaign.cost_model.Probe` measures.
    """

    runs: np.ndarray
    of_run: np.ndarray
    first: np.ndarray
    sizes: np.ndarray
    kinds: np.ndarray
    amounts: np.ndarray

    @classmethod
    def of(cls, entry, unit=None):
        """Those of a `sweep.store.diff.Entry`, in units of so many rows, or in one.

        Parameters
        ----------
        entry : sweep.store.diff.Entry
        unit : int, optional
        """
        table = entry.table
        runs = np.flatnonzero(entry.pending)
        runs = runs[np.argsort(entry.rows[runs], kind="stable")]
        unit = unit or entry.size or 1
        changes = np.zeros(len(runs), dtype=bool)
        for column in (
            entry.rows // unit,
            table.integrator_index,
            table.system_index,
            table.step_size,  # NaN, which equals no other, of an adaptive run
            table.repeat,
            entry.standing,
        ):
            values = column[runs]
            changes[1:] |= values[1:] != values[:-1]
        changes[:1] = True
        begins = np.flatnonzero(changes)
        place = np.arange(len(runs)) - np.repeat(begins, np.diff([*begins, len(runs)]))
        begins_batch = place % WIDTH == 0
        of_run = np.cumsum(begins_batch) - 1
        first, sizes = runs[begins_batch], np.bincount(of_run)
        rows = np.array([made.rows for made in table.systems])[table.system_index[first]]
        kinds = np.stack([table.integrator_index[first], rows, sizes > 1], axis=1)
        return cls(runs, of_run, first, sizes, kinds, _remaining_work_of_runs(entry, first))

    def by_kind(self):
        """Each kind, as a tuple, with the indices of its batches."""
        for kind in np.unique(self.kinds, axis=0):
            yield tuple(kind.tolist()), np.flatnonzero(np.all(self.kinds == kind, axis=1))


def _remaining_work_of_runs(entry, runs):
    """Work of runs from where they stand: steps, or time by the tolerance."""
    table, axis = entry.table, entry.experiment.time_axis
    amounts = table.steps_per_sample[runs] * float(axis.intervals)
    for i in np.unique(table.integrator_index[runs[table.adaptive[runs]]]):
        made = entry.experiment.integrators[i].integrator()
        own = table.adaptive[runs] & (table.integrator_index[runs] == i)
        order = (made.counted or made).order
        amounts[own] = axis.times[-1] * table.tolerance[runs[own]] ** (-1 / order)
    done = axis.marks[np.maximum(entry.standing[runs] - 1, 0)] / axis.marks[-1]
    return amounts * (1 - done)
