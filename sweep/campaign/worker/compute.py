"""Compute a task, commit it as records, and return a receipt. This module does not use Dask.

Rows are computed batch by batch, in segments of steps. A segment has as many steps as should take
`Task.segment` seconds at the measured speed, and may end between two samples. If more than half of
`checkpoint_every` seconds have passed since the last commit or checkpoint, a segment is followed by
a checkpoint. Finished rows are committed after all of `checkpoint_every`. If the worker dies,
another one resumes from there.

Before it writes a record, at most once a second, the worker checks that the store still names the
session of the task, and that no lease has another fencing token than the session's. If the session
has ended or another coordinator has taken over, the task is fenced off: it ends at once, and its
receipt says so.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from integrators.compiler import kernels
from integrators.stepping.python_step import collecting_errors
from sweep.campaign.worker.reference import ReferenceTask, ReferenceWork
from sweep.campaign.worker.run_work import RunWork
from sweep.campaign.worker.task import MOST_BYTES, Receipt, RunTask, Task
from sweep.errors import Interrupted, LeaseLost
from sweep.store.commit.records import list_records, records_folder
from sweep.store.lease import sessions
from sweep.store.lease.sessions import Attempt, Session

if TYPE_CHECKING:
    from sweep.campaign.probe import ReferenceProbe, RunProbe
    from sweep.campaign.worker.commit import TaskRows
    from sweep.campaign.worker.reference import ReferenceBatch
    from sweep.campaign.worker.run_work import RunBatch
    from sweep.store.files import ArrayFiles
    from sweep.store.store import Store

LEAVING_SECONDS = 0.5  # that a worker which is to end keeps a task that it does not begin
FIRST = 0.25  # fraction of a segment that the first one of a batch is expected to take
GROWTH = 64  # of segments, at most: how long a step takes is known from few at first
LONG = 0.5  # fraction of `checkpoint_every` after which it is worth to write a checkpoint


def compute_task(task: RunTask | ReferenceTask, session: Session) -> Receipt:
    """Compute and commit a task of a session.

    Parameters
    ----------
    task : RunTask or ReferenceTask
    session : sweep.store.lease.sessions.Session

    Returns
    -------
    Receipt

    Raises
    ------
    sweep.errors.VersionMismatch
        If the coordinator has another version of the code.
    """
    session.check_code()
    began = time.perf_counter()
    runs, whole, fenced_off = 0, False, False
    failure: Exception | None = None
    errors: dict[str, str] = {}
    if sessions.is_process_leaving():
        time.sleep(LEAVING_SECONDS)  # or it would come again at once
    elif not session.is_stopped:
        try:
            with (
                sessions.marking_thread_as_computing(),
                kernels.checking(session.check_stopped),
                collecting_errors() as errors,
            ):
                runs, whole = _compute_and_commit_task(task, session)
        except Interrupted:  # while it compiled
            pass
        except LeaseLost:
            fenced_off = True
            session.stop()
        except RecursionError as error:  # whose traceback is too deep: Dask would wait forever
            failure = RuntimeError(f"RecursionError: {error}")
        except Exception as error:
            if fenced_off := _is_fenced_off(task, session):  # what it needed was cleared away
                session.stop()
            else:
                failure = error
    if failure is not None:  # raised here, since what it is raised from would be sent with it
        raise failure
    seconds, said = time.perf_counter() - began, tuple(errors.items())
    return Receipt(runs, seconds, whole, fenced_off, said)


def _is_fenced_off(task: RunTask | ReferenceTask, session: Session) -> bool:
    """Whether the store no longer accepts records of a session."""
    try:
        session.check(task.store)
    except LeaseLost:
        return True
    except Exception:  # what the task met says more
        return False
    return False


def compile_kernels(probes: Sequence[RunProbe | ReferenceProbe], session: Session) -> None:
    """Compile all kernels of some probes, until the session is stopped."""
    with (
        contextlib.suppress(Interrupted),
        sessions.marking_thread_as_computing(),
        kernels.checking(session.check_stopped),
    ):
        for probe in probes:
            probe.compile()


def _compute_and_commit_task(task: RunTask | ReferenceTask, session: Session) -> tuple[int, bool]:
    """Compute and commit, until all is done or the session is stopped.

    Returns the number of runs that were computed, and whether the task is done.
    """
    attempt = Attempt(task.store, session)
    attempt.check()
    arrays_of = functools.partial(_arrays_of_group, task.store, session)
    work: RunWork | ReferenceWork = (
        ReferenceWork(task, arrays_of(task.group), attempt)
        if isinstance(task, ReferenceTask)
        else RunWork(task, arrays_of, attempt)
    )
    rows = work.rows
    rates: dict[Hashable, float] = {}  # steps a second
    row_bytes, size = sum(column[0].nbytes for column in rows.columns.values()), 0
    left = ~rows.done
    for batch in work.batches():
        if attempt.is_stopped or not _compute_batch(task, rows, attempt, batch, rates):
            break
        rows.done[batch.indices] = True
        size += row_bytes * len(batch.indices)
        if time.perf_counter() - rows.written > task.checkpoint_every or size > MOST_BYTES:
            rows.commit()
            size = 0
    rows.commit()
    computed = int(np.sum(rows.done & left)) if isinstance(task, RunTask) else 0
    return computed, bool(rows.done.all())


def _compute_batch(
    task: Task,
    rows: TaskRows,
    attempt: Attempt,
    batch: RunBatch | ReferenceBatch,
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
        length = max(1, min(int(task.segment * rates[kind]), GROWTH * max(length, tried)))
        if is_stopped or now - rows.written > LONG * task.checkpoint_every:
            rows.commit()
            batch.checkpoint()
        if is_stopped:
            return False
    batch.finish()
    return True


def recorded_progress_of_task(task: Task) -> tuple[int, int]:
    """Number of a task's samples in records and checkpoints, and finished part of the next ones.

    Records of all sessions count. It grows as long as attempts at the task make progress.

    Parameters
    ----------
    task : Task
    """
    low, high, samples, parts = task.rows[0], task.rows[-1], 0, 0
    for record in list_records(records_folder(task.store.place, task.group)):
        name = record.name
        if name.start <= high and name.stop > low:
            samples += name.count * (name.last - name.first)
            parts += name.count * name.part
    return samples, parts


@functools.lru_cache(maxsize=64)
def _arrays_of_group(store: Store, session: Session, group: str) -> dict[str, ArrayFiles]:
    """The arrays of a group, read once for each session."""
    return store.arrays_of_group(group)
