"""Records and checkpoints of a task, which a worker commits and resumes from.

`TaskRows.commit` writes finished rows as records, `TaskRows.checkpoint` the new samples of rows
that are not finished, if any, with the state of their integrator. Both are files whose names bear
the session, and the token of this attempt at the task: two attempts never write the same file.

A new `TaskRows` first reads the records of its rows. Rows in a record of the session are done.
Others resume from the attempt whose checkpoints reach furthest, even in an earlier session, if its
settings, sample times and version of the code are the same. Once rows are committed, their
checkpoints of this attempt, and those from which it resumed, are removed. Other checkpoints stay
until the study is complete.

The checkpoints of an attempt form a chain that needs no other attempt's: the first one after
resuming has all samples again. A kill between the write of a checkpoint and the removal of those
that it replaces leaves overlaps, of which the longest counts. A damaged checkpoint fails the task;
`sweep verify --repair` removes it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.store import checkpoints
from sweep.store.backends.places import place_is_file
from sweep.store.commit.fold import written_by_tasks
from sweep.store.commit.records import (
    CHECKPOINT,
    PARTS,
    RECORD,
    Record,
    RecordName,
    list_records,
    records_folder,
    write_record,
)
from sweep.study import variables

END = checkpoints.CHECKPOINT.name

if TYPE_CHECKING:
    from sweep.campaign.worker.task import Task
    from sweep.store.files import ArrayFiles, RowNumbers
    from sweep.store.lease.sessions import Attempt


@dataclass(frozen=True, eq=False)
class _Chain:
    """The chain of checkpoints that an attempt has written for some rows.

    Parameters
    ----------
    rows : ndarray of int
        Rows of the group.
    marks : list of int
        Number of samples at each checkpoint n; n = 0 is where the attempt begins.
    records : dict of int to Record
        Existing checkpoints by n.
    """

    rows: RowNumbers
    marks: list[int]
    records: dict[int, Record]


class TaskRows:
    """Rows of a group that this attempt at a task computes.

    Parameters
    ----------
    task : sweep.campaign.worker.task.Task
    arrays : dict of str to sweep.store.files.ArrayFiles
        Arrays of the group, by name.
    stored : ndarray of int, shape (rows,)
        Number of samples in the arrays from which each row continues.
    ends : dict of str to ndarray, shape (rows, …)
        State of the integrator there; empty if no row continues.
    samples : int
        Number of samples of a finished row.
    attempt : sweep.store.lease.sessions.Attempt
    identity : str
        Hash of all that checkpoints depend on, see `sweep.store.checkpoints.checkpoint_identity`.

    Attributes
    ----------
    rows : ndarray of int
        Rows of the group.
    columns : dict of str to ndarray
        Values of the rows by array; samples before `first` have the fill value.
    first : ndarray of int, shape (rows,)
        Index of the first sample of each row in its record, computed here or read from checkpoints.
        Earlier samples are in the arrays.
    done : ndarray of bool, shape (rows,)
        Whether a row is finished: by this attempt, or in a record of the session that was not
        folded yet when this attempt began.
    reached : ndarray of int, shape (rows, 2)
        Number of samples from which each row continues, and the finished part of the next interval,
        see `sweep.store.commit.records.RecordName.part`; 0 for rows that begin.
    written : float
        Time of the last record or checkpoint, by `time.perf_counter`.
    """

    def __init__(
        self,
        task: Task,
        arrays: Mapping[str, ArrayFiles],
        stored: RowNumbers,
        ends: Mapping[str, np.ndarray],
        samples: int,
        attempt: Attempt,
        identity: str,
    ) -> None:
        self._arrays, self._attempt, self._identity = written_by_tasks(arrays), attempt, identity
        shard_row = int(task.rows[0]) // self._arrays[variables.SAMPLE_COUNT.name].chunks[0]
        self._folder = records_folder(task.store.place, task.group, shard_row)
        self.rows, self.samples, self.first = np.asarray(task.rows), samples, stored.copy()
        self.columns = {
            name: np.full((len(self.rows), *array.row_shape(samples)), array.fill, array.dtype)
            for name, array in self._arrays.items()
        }
        self.done, self._committed = np.zeros((2, len(self.rows)), dtype=bool)
        self.reached = np.stack([stored, np.zeros_like(stored)], axis=1)
        # For each row that continues: a state, and the index of the row in it.
        self._states = {i: (ends, i) for i in np.flatnonzero(stored).tolist()}
        # Checkpoints to remove once their rows are committed: those of this attempt, by the first
        # of their rows in the task, and those from which it resumed.
        self._chains: dict[int, _Chain] = {}
        self._resumed: list[_Chain] = []
        self.written = time.perf_counter()
        self._read_records()

    # --- records of earlier attempts ---------------------------------------------------------

    def _read_records(self) -> None:
        """Read which rows are done, and the checkpoints that other rows resume from.

        Another attempt that is still running removes files after it has written their replacement.
        So the folder is listed again if a file is gone.
        """
        listed = list_records(self._folder)
        while True:
            try:
                self._read_listed_records(listed)
                return
            except FileNotFoundError:
                listed = [own for own in list_records(self._folder) if place_is_file(own.place)]

    def _read_listed_records(self, listed: Sequence[Record]) -> None:
        low, high = self.rows[0], self.rows[-1]
        found = [
            record for record in listed if record.name.start <= high and record.name.stop > low
        ]
        for record in found:
            if record.name.kind == RECORD and record.name.session == self._attempt.session.name:
                self.done |= np.isin(self.rows, record.rows)
        self._committed |= self.done
        chains: dict[tuple[str, tuple[int, ...]], list[Record]] = {}
        for record in found:
            if record.name.kind == CHECKPOINT and record.identity == self._identity:
                chains.setdefault((record.name.token, tuple(record.rows)), []).append(record)
        for records in chains.values():
            self._resume_from_chain(records)

    def _resume_from_chain(self, records: Sequence[Record]) -> None:
        """Resume rows from the checkpoints of an attempt, unless they have resumed further on."""
        chain, at = [], min(record.name.first for record in records)
        while nexts := [record for record in records if record.name.first == at]:
            chain.append(max(nexts, key=lambda record: record.name.reach))
            at = chain[-1].name.last
            if chain[-1].name.first == at:  # it has no new samples, and the chain ends
                break
        last, samples, parts = chain[-1], *self.reached.T
        behind = (samples < at) | ((samples == at) & (parts < last.name.part))
        mine = np.isin(self.rows, last.rows) & ~self.done & behind
        mine &= (chain[0].name.first == self.first) | (chain[0].name.first == 0)
        if not mine.any():
            return
        where = np.searchsorted(last.rows, self.rows[mine])
        state = last.state
        for record in chain:
            self._read_samples(record, np.flatnonzero(mine), where)
        # All samples are read, so the files can be removed.
        self._resumed.append(_Chain(last.rows, [], dict(enumerate(records))))
        self.first[mine], self.reached[mine] = chain[0].name.first, last.name.reach
        for i, k in zip(np.flatnonzero(mine).tolist(), where.tolist(), strict=True):
            self._states[i] = state, k

    def _read_samples(
        self, record: Record, mine: NDArray[np.intp], where: NDArray[np.intp]
    ) -> None:
        for name, array in self._arrays.items():
            if (values := record.column(name)) is not None:
                begin = [record.name.first if dim == "time" else 0 for dim in array.dims[1:]]
                extent = zip(begin, values.shape[1:], strict=True)
                at: tuple[Any, ...] = mine, *(slice(a, a + size) for a, size in extent)
                self.columns[name][at] = values[where]

    def state(self, names: Sequence[str], indices: NDArray[np.intp]) -> dict[str, np.ndarray]:
        """The state of the integrator from which rows continue.

        Parameters
        ----------
        names : sequence of str
        indices : ndarray of int
            Of the rows.

        Returns
        -------
        dict of str to ndarray, shape (indices, …)
        """
        found = [self._states[i] for i in indices.tolist()]
        return {name: np.array([state[name][k] for state, k in found]) for name in names}

    # --- what is written ---------------------------------------------------------------------

    def put(
        self, indices: NDArray[np.intp], samples: int, values: Mapping[str, np.ndarray]
    ) -> None:
        """Put values of rows over time into the columns.

        Parameters
        ----------
        indices : ndarray of int
            Indices of the rows.
        samples : int
            Number of samples that the rows have now; the values are for the last of them.
        values : dict of str to ndarray, shape (indices, samples, …)
            Values by array, whose states may be longer.
        """
        for name, own in values.items():
            span = slice(samples - own.shape[1], samples)
            at: tuple[Any, ...] = indices, span, *(slice(size) for size in own.shape[2:])
            self.columns[name][at] = own

    def commit(self) -> None:
        """Write records of the rows that are done but in no record yet, if there are any.

        Raises
        ------
        sweep.errors.LeaseLost
            If the session has ended, or another coordinator holds the store by now.
        """
        mine = np.flatnonzero(self.done & ~self._committed)
        if not len(mine):
            return
        for first in np.unique(self.first[mine]).tolist():
            part = mine[self.first[mine] == first]
            self._write_record(part, list(self._arrays), (first, self.samples), RECORD)
        self._committed[mine] = True
        self._remove_checkpoints()

    def checkpoint(
        self,
        indices: NDArray[np.intp],
        samples: int,
        state: Mapping[str, np.ndarray],
        part: float = 0.0,
    ) -> None:
        """Write a checkpoint of rows: their samples since an earlier one, and their state.

        Parameters
        ----------
        indices : ndarray of int
            Indices of the rows, all with the same number of samples.
        samples : int
            Number of samples that the rows have now.
        state : dict of str to ndarray, shape (indices, …)
            The integrator's state.
        part : float
            Part of the interval after the last of these samples that is done there, below 1.
        """
        first = int(indices[0])
        new = _Chain(self.rows[indices], [int(self.first[first])], {})
        chain = self._chains.setdefault(first, new)
        number = len(chain.marks)
        since = number & (number - 1)
        names = [name for name, array in self._arrays.items() if "time" in array.dims]
        if chain.marks[since] == samples:  # no new samples, only a state
            names = []
        span = chain.marks[since], samples
        record = self._write_record(indices, names, span, CHECKPOINT, state, int(part * PARTS))
        for old in [old for old in chain.records if old > since]:
            if (superseded := chain.records.pop(old)).name != record.name:  # it may hardly move
                superseded.remove()
        chain.records[number] = record
        chain.marks.append(samples)

    def _write_record(
        self,
        indices: NDArray[np.intp],
        names: Sequence[str],
        samples: tuple[int, int],
        kind: str,
        state: Mapping[str, np.ndarray] | None = None,
        part: int = 0,
    ) -> Record:
        """Write a record of rows with a half-open range of samples."""
        self._attempt.check()
        columns, span = {}, (slice(None), slice(*samples))
        at: NDArray[np.intp] | slice = indices
        if indices[-1] - indices[0] == len(indices) - 1:  # without gaps: not copied
            at = slice(int(indices[0]), int(indices[-1]) + 1)
        for name in names:
            values = self.columns[name][at]
            if name == END:  # its column is as wide as the largest integrator of the study needs
                used = np.flatnonzero(~np.isnan(values).all(axis=0))
                values = values[:, : used.max(initial=-1) + 1]
            columns[name] = values[span] if "time" in self._arrays[name].dims else values
        rows, seconds = self.rows[indices], self.columns[variables.CPU_TIME][indices]
        record_name = RecordName(
            start=int(rows[0]),
            stop=int(rows[-1]) + 1,
            count=len(rows),
            first=samples[0],
            last=samples[1],
            part=part,
            failed=int(np.sum(columns.get("status", np.zeros(0)) > 0)),
            milliseconds=round(1e3 * float(np.nansum(seconds))),
            session=self._attempt.session.name,
            token=self._attempt.token,
            kind=kind,
        )
        record = write_record(self._folder, record_name, rows, columns, self._identity, state)
        self.written = time.perf_counter()
        return record

    def _remove_checkpoints(self) -> None:
        """Remove checkpoints whose rows are all committed, including those of earlier attempts."""
        committed = self.rows[self._committed]
        for chain in (*self._chains.values(), *self._resumed):
            if np.isin(chain.rows, committed).all():
                while chain.records:
                    chain.records.popitem()[1].remove()
