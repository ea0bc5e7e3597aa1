"""Count the batches of runs that workers will integrate together, and their work.

`sweep.campaign.worker.run_work` divides the runs of a task into batches when it computes them; a
plan counts them beforehand, in slabs of rows, so that memory does not grow with the study.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.lanes import WIDTH
from sweep.study.run_table import SLAB

if TYPE_CHECKING:
    from sweep.store.diff import Entry

Kind = tuple[int, ...]  # integrator, rows of the system, whether there are lanes


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of pending runs of an experiment, in the order of the store.

    Parameters
    ----------
    runs : ndarray of int, shape (pending,)
        The pending runs of the table.
    batch_of_run : ndarray of int, shape (pending,)
        The batch of each of them.
    first : ndarray of int, shape (batches,)
        The first run of each batch.
    sizes : ndarray of int, shape (batches,)
        Number of runs.
    kinds : ndarray of int, shape (batches, 3)
        Kind of each batch, whose batches cost alike: integrator, rows of the system, and whether
        several runs are integrated in lanes.
    amounts : ndarray, shape (batches,)
        Work, in units that `sweep.campaign.cost_model.Probe` measures.
    """

    runs: NDArray[np.intp]
    batch_of_run: NDArray[np.intp]
    first: NDArray[np.intp]
    sizes: NDArray[np.intp]
    kinds: NDArray[np.int64]
    amounts: NDArray[np.float64]

    @classmethod
    def of(cls, entry: Entry, unit: int = SLAB, rows: tuple[int, int] | None = None) -> Batches:
        """The batches of an `Entry`, in units of so many rows.

        Parameters
        ----------
        entry : sweep.store.diff.Entry
        unit : int
        rows : tuple of int, optional
            First row, and the one after the last, of the pending runs; all unless given.
        """
        table = entry.table
        runs = entry.pending_runs(*(rows or (0, entry.size)))
        places = table.take(runs)
        changes = np.zeros(len(runs), dtype=bool)
        for values in (
            entry.rows[runs] // unit,
            places.repeat,
            places.method,
            places.system_index,
            entry.standing[runs],
        ):
            changes[1:] |= values[1:] != values[:-1]
        changes[1:] |= places.adaptive[1:]  # each goes alone
        changes[:1] = True
        begins = np.flatnonzero(changes)
        place = np.arange(len(runs)) - np.repeat(begins, np.diff([*begins, len(runs)]))
        begins_batch = place % WIDTH == 0
        batch_of_run = np.cumsum(begins_batch) - 1
        first, sizes = runs[begins_batch], np.bincount(batch_of_run)
        places = table.take(first)
        system_rows = np.array([made.rows for made in table.systems])[places.system_index]
        kinds = np.stack([places.integrator_index, system_rows, sizes > 1], axis=1)
        return cls(runs, batch_of_run, first, sizes, kinds, _remaining_work_of_runs(entry, first))

    @classmethod
    def in_slabs(cls, entry: Entry, unit: int = SLAB) -> Iterator[Batches]:
        """Yield the `Batches` of each slab of rows."""
        for rows in entry.slabs(unit):
            yield cls.of(entry, unit, rows)

    def by_kind(self) -> Iterator[tuple[Kind, NDArray[np.intp]]]:
        """Yield each kind with the indices of its batches."""
        return _by_kind(self.kinds)


@dataclass(frozen=True, eq=False)
class Workload:
    """Number of batches of an experiment's pending runs, grouped by kind, amount and slab.

    Parameters
    ----------
    entry : sweep.store.diff.Entry
    unit : int
        Rows of a unit, as of `Batches.of`.
    kinds : ndarray of int, shape (groups, 3)
    amounts : ndarray, shape (groups,)
        As in `Batches`: of each of the group's batches.
    batches, runs : ndarray of int, shape (groups,)
        Number of batches, and of runs in them.
    slabs : ndarray of int, shape (groups,)
        Number of the slab.
    """

    entry: Entry
    unit: int
    kinds: NDArray[np.int64]
    amounts: NDArray[np.float64]
    batches: NDArray[np.int64]
    runs: NDArray[np.intp]
    slabs: NDArray[np.int64]

    @classmethod
    def of(cls, entry: Entry, unit: int = SLAB) -> Workload:
        """The workload of an `Entry`, in units of so many rows."""
        parts = []
        for slab, found in enumerate(Batches.in_slabs(entry, unit)):
            for _, of_kind in found.by_kind():
                for own in _split_by_value(of_kind, found.amounts):
                    numbers = [len(own)], [found.sizes[own].sum()], [slab]
                    parts.append((found.kinds[own[:1]], found.amounts[own[:1]], *numbers))
        empty = (np.zeros((0, 3), dtype=int), np.zeros(0), *(np.zeros(0, dtype=int),) * 3)
        return cls(entry, unit, *map(np.concatenate, zip(empty, *parts, strict=True)))

    def by_kind(self) -> Iterator[tuple[Kind, NDArray[np.intp]]]:
        """Yield each kind with the indices of its groups, those of the most work first."""
        for kind, own in _by_kind(self.kinds):
            yield kind, own[np.argsort(-self.amounts[own], kind="stable")]

    def choose_batches(self, own: NDArray[np.intp], count: int) -> list[NDArray[np.intp]]:
        """The runs of a few batches of the groups `own`, each representing an equal share of work.

        Batches are in the order of the groups.
        """
        amounts, until = self.amounts[own], np.cumsum(self.amounts[own] * self.batches[own])
        chosen = set()
        for wanted in (np.arange(count) + 0.5) / count * until[-1]:
            group = min(int(np.searchsorted(until, wanted)), len(own) - 1)
            before = until[group] - amounts[group] * self.batches[own[group]]
            nth = np.ceil((wanted - before) / max(amounts[group], np.finfo(float).tiny)) - 1
            chosen.add((group, int(np.clip(nth, 0, self.batches[own[group]] - 1))))
        return [self._runs_of_batch(own[group], nth) for group, nth in sorted(chosen)]

    def _runs_of_batch(self, group: int, nth: int) -> NDArray[np.intp]:
        slabs = list(self.entry.slabs(self.unit))
        found = Batches.of(self.entry, self.unit, slabs[self.slabs[group]])
        same = np.all(found.kinds == self.kinds[group], axis=1)
        same &= found.amounts == self.amounts[group]
        (batches,) = np.nonzero(same)
        runs: NDArray[np.intp] = found.runs[found.batch_of_run == batches[nth]]
        return runs


def _by_kind(kinds: NDArray[np.int64]) -> Iterator[tuple[Kind, NDArray[np.intp]]]:
    """Yield each distinct row, as a tuple, with the indices at which it occurs."""
    if not len(kinds):
        return
    codes = np.ravel_multi_index(tuple(kinds.T), tuple(kinds.max(axis=0) + 1))
    for own in _split_by_value(np.arange(len(codes)), codes):
        yield tuple(kinds[own[0]].tolist()), own


def _split_by_value(indices: NDArray[np.intp], values: np.ndarray) -> list[NDArray[np.intp]]:
    """Split indices by their values; the parts are in ascending order of these."""
    ordered = indices[np.argsort(values[indices], kind="stable")]
    return np.split(ordered, np.flatnonzero(np.diff(values[ordered])) + 1)


def _remaining_work_of_runs(entry: Entry, runs: NDArray[np.intp]) -> NDArray[np.float64]:
    """Work that is left of runs: steps, or the time of adaptive ones scaled by the tolerance."""
    places, axis = entry.table.take(runs), entry.experiment.time_axis
    amounts, integrators = places.steps_per_sample * float(axis.intervals), places.integrator_index
    for i in np.unique(integrators[places.adaptive]):
        made = entry.experiment.integrators[i].integrator()
        own = places.adaptive & (integrators == i)
        order = int((made.counted or made).order)
        amounts[own] = axis.times[-1] * places.tolerance[own] ** (-1 / order)
    done = axis.marks[np.maximum(entry.standing[runs] - 1, 0)] / axis.marks[-1]
    remaining: NDArray[np.float64] = amounts * (1 - done)
    return remaining
