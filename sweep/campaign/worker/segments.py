"""Compute the rows of a task, batch by batch, in segments of steps.

A segment has as many steps as are expected, by the measured speed, to take `Task.segment` seconds,
and ends between two samples too. A checkpoint follows a segment that ends more than half of
`checkpoint_every` seconds after the last commit or checkpoint; finished rows are committed after
all of it. If the worker dies, another one resumes from there.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from sweep.campaign.worker.task import MOST_BYTES

if TYPE_CHECKING:
    from sweep.campaign.worker.commit import TaskRows
    from sweep.campaign.worker.task import Task
    from sweep.store.lease.sessions import Attempt

FIRST = 0.25  # fraction of a segment that the first one of a batch is expected to take
GROWTH = 64  # of segments, at most: how long a step takes is known from few at first
LONG = 0.5  # fraction of `checkpoint_every` after which it is worth to write a checkpoint


class SegmentedBatch(Protocol):
    """Rows of a task that are computed together; results go into the columns of its `TaskRows`.

    Parameters
    ----------
    indices : ndarray of int
        Of the rows.
    """

    indices: NDArray[np.intp]

    @property
    def kind(self) -> Hashable:
        """What the time of its next steps depends on."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to compute."""

    def advance(self, most: int) -> int:
        """Take steps, so many at most; returns how many were taken or attempted."""

    def checkpoint(self) -> None:
        """Write a checkpoint."""

    def finish(self) -> None:
        """Compute what depends on the whole rows."""


def compute_batches(
    task: Task, recording: TaskRows, attempt: Attempt, batches: Iterable[SegmentedBatch]
) -> tuple[np.ndarray, bool]:
    """Compute and commit batches, until all are done or the attempt is stopped.

    Returns
    -------
    status : ndarray of int
        Of the runs that were computed; none of references.
    whole : bool
        Whether nothing is left; not if it was stopped.

    Raises
    ------
    sweep.errors.LeaseLost
        If the session has ended, or another coordinator holds the store by now.
    """
    rates: dict[Hashable, float] = {}  # steps a second
    row_bytes, size = sum(column[0].nbytes for column in recording.columns.values()), 0
    left = ~recording.done
    for batch in batches:
        if attempt.is_stopped or not _compute_batch(task, recording, attempt, batch, rates):
            break
        recording.done[batch.indices] = True
        size += row_bytes * len(batch.indices)
        if time.perf_counter() - recording.written > task.checkpoint_every or size > MOST_BYTES:
            recording.commit()
            size = 0
    recording.commit()
    every = recording.columns.get("status")
    status = np.zeros(0, dtype=int) if every is None else every[left & recording.done]
    return status, bool(recording.done.all())


def _compute_batch(
    task: Task,
    recording: TaskRows,
    attempt: Attempt,
    batch: SegmentedBatch,
    rates: dict[Hashable, float],
) -> bool:
    """Compute a batch; False if it was stopped before its end."""
    kind, length = None, 1
    while not batch.is_over:
        if kind != batch.kind:
            kind = batch.kind
            length = max(1, int(FIRST * task.segment * rates.get(kind, 0.0)))
        began = time.perf_counter()
        tried = batch.advance(length)
        if batch.is_over:
            break
        now, is_stopped = time.perf_counter(), attempt.is_stopped
        rates[kind] = tried / max(now - began, 1e-9)
        length = max(1, min(int(task.segment * rates[kind]), GROWTH * length))
        if is_stopped or now - recording.written > LONG * task.checkpoint_every:
            recording.commit()
            batch.checkpoint()
        if is_stopped:
            return False
    batch.finish()
    return True
