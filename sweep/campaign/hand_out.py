"""Hand out tasks to the workers of a Dask cluster, a few at a time, and take their receipts.

Results go into the store, as `sweep.campaign.run` explains, and nothing is lost with Dask. A task
whose worker was lost is computed again, and resumes from its last checkpoint. Dask repeats it until
more than ``allowed-failures`` of its workers have died. Then this module hands the task out again,
with checkpoints twice as often, unless `MOST_DEATHS` workers in a row died with nothing recorded.
The loss of the scheduler ends the run, and `sweep run` resumes it.

A worker sends its receipt as a Dask event, which arrives before Dask's message that the task is
done. So nothing is fetched from workers, which may be suspended or lost by then.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from distributed import KilledWorker, as_completed, get_worker

from sweep.campaign.worker.compute import compute_task, recorded_progress_of_task
from sweep.campaign.worker.task import Receipt
from sweep.clusters.stop_request import TIME_IS_UP
from sweep.clusters.workers import ask_cluster_with_retries, stop_session_on_workers
from sweep.errors import Damaged, Interrupted, TaskFailed
from sweep.store.backends.storage_failures import (
    explain_storage_failure,
    is_storage_full_or_failing,
)

if TYPE_CHECKING:
    from dask.typing import Key
    from distributed import Client, Future

    from sweep.campaign.worker.reference import ReferenceTask
    from sweep.campaign.worker.task import RunTask, Task
    from sweep.clusters.spec import Check
    from sweep.clusters.stop_request import StopRequest
    from sweep.store.lease.sessions import Session

TASKS_A_SLOT = 2  # per thread of a worker: one runs, one waits
GONE = "the scheduler is gone"
MOST_ROWS = 2**16  # of tasks handed out at once: some MB, since Dask warns of more
LOOK_SECONDS = 1.0  # between two counts of the workers
TOGETHER_SECONDS = 0.1  # tasks that end within this time are replaced together
MOST_DEATHS = 150  # in a row, with nothing recorded, before the coordinator gives up too
LEAST_BETWEEN = 0.05  # seconds between checkpoints of a task whose workers die again and again


@contextlib.contextmanager
def noticing_scheduler_loss(client: Client) -> Iterator[None]:
    """Context manager that turns exceptions into `Interrupted` if the scheduler is lost."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        raise
    except (Exception, CancelledError) as error:
        if client.status == "running":
            raise
        raise Interrupted(GONE) from error


def count_tasks_at_once(client: Client, check: Check) -> int:
    """Number of threads of all workers; `check` is called while waiting, and may raise."""
    threads: Mapping[str, int] = ask_cluster_with_retries(client, client.nthreads, check)
    return max(1, sum(threads.values()))


def compute_and_report(task: RunTask | ReferenceTask, session: Session) -> None:
    """Compute a task and send its receipt; this is the function that Dask calls on workers."""
    receipt, worker = compute_task(task, session), get_worker()
    worker.log_event(_topic(session), [worker.get_current_task(), tuple(receipt)])


@contextlib.contextmanager
def _receiving(client: Client, session: Session, receipts: dict[Key, Receipt]) -> Iterator[None]:
    """Context manager that puts the receipts of a session into a dict."""

    def note_receipt(event: tuple[float, tuple[Key, Sequence[Any]]]) -> None:
        _, (key, receipt) = event
        receipts[key] = Receipt(*receipt)

    client.subscribe_topic(_topic(session), note_receipt)
    try:
        yield
    finally:
        if client.status == "running":
            client.unsubscribe_topic(_topic(session))


def _topic(session: Session) -> str:
    return f"geosweep-{session.name}"


def hand_out(
    client: Client,
    tasks: Sequence[Task],
    session: Session,
    stop: StopRequest,
    on_receipt: Callable[[Task, Receipt], object],
    on_running: Callable[[Sequence[Task], Sequence[Task]], object],
) -> None:
    """Compute tasks on the cluster, in order.

    Parameters
    ----------
    client : distributed.Client
    tasks : list of PlannedTask or ReferenceTask
    session : sweep.store.lease.sessions.Session
    stop : sweep.clusters.stop_request.StopRequest
        Once a stop is requested, no further task is handed out, and running ones end after their
        current segments. No task is handed out whose first segment would end after the deadline.
    on_receipt : callable
        Called with each task that has ended and its `Receipt`.
    on_running : callable
        Called about once a second with the running tasks, and with all unfinished ones.

    Raises
    ------
    Interrupted
        If a stop leaves tasks unfinished, or the disk is full.
    Damaged
        If a task found a damaged file of the store.
    TaskFailed
        If a task raised any other exception. All exceptions are raised after running tasks have
        ended.
    """
    own = _HandedOut(client, tasks, session, stop)
    stop.when_requested(lambda: stop_session_on_workers(client, session))
    with _receiving(client, session, own.receipts):
        while True:
            looked = own.look()
            own.fill()
            if not own.tasks:
                break
            if looked:
                on_running(own.running, own.left)
            for task, receipt in own.ended():
                on_receipt(task, receipt)
    if own.failure is not None:
        task, error = own.failure
        if is_storage_full_or_failing(error):
            raise Interrupted(explain_storage_failure(task.store.place, error))
        if isinstance(error, Damaged):
            raise error
        raise TaskFailed(_explain_task_failure(task, error)) from error
    if own.waiting or own.stopped:
        raise Interrupted(stop.reason or TIME_IS_UP)


class _HandedOut:
    """The tasks of `hand_out`: those that wait in this process, and those that Dask has.

    Attributes
    ----------
    waiting : deque of Task
    tasks : dict of Key to Task
        Tasks that Dask has, in the order of submission, by the key of their future.
    failure : (Task, BaseException), optional
        The first task that raised an exception, and the exception.
    stopped : int
        Number of tasks that were stopped before they were done.
    receipts : dict of Key to Receipt
        Receipts of tasks whose future Dask has not finished yet.
    """

    def __init__(
        self, client: Client, tasks: Sequence[Task], session: Session, stop: StopRequest
    ) -> None:
        self.waiting, self.stopped = deque(tasks), 0
        self.tasks: dict[Key, Task] = {}
        self.receipts: dict[Key, Receipt] = {}
        self.failure: tuple[Task, BaseException] | None = None
        self._client, self._session, self._stop = client, session, stop
        self._completed = as_completed(loop=client.loop)
        self._slots, self._looked, self._took_receipts = 1, 0.0, 0.0
        self._deaths = 0  # of workers in a row, with nothing recorded
        # Recorded progress of tasks whose workers died.
        self._recorded: dict[tuple[str, int], tuple[int, int]] = {}

    def look(self) -> bool:
        """Count the threads of all workers if `LOOK_SECONDS` are over; return whether it did."""
        if (now := time.monotonic()) < self._looked + LOOK_SECONDS:
            return False
        self._looked = now
        with contextlib.suppress(OSError):  # if the scheduler is gone, futures will show it
            slots = sum(self._client.nthreads().values())
            if not slots and self._stop.reason:
                raise Interrupted(self._stop.reason)  # no worker is left to end its task
            self._slots = max(1, slots)
        return True

    def fill(self) -> None:
        """Hand out as many tasks as the workers have room for."""
        while tasks := self._next_tasks():
            sent = [task.build() for task in tasks]
            sessions = [self._session] * len(sent)
            futures = self._client.map(compute_and_report, sent, sessions, pure=False)
            self.tasks |= {future.key: task for future, task in zip(futures, tasks, strict=True)}
            self._completed.update(futures)

    def _next_tasks(self) -> list[Task]:
        """Take the waiting tasks for which workers have room, as many as fit into one message."""
        tasks: list[Task] = []
        room, rows = TASKS_A_SLOT * self._slots - len(self.tasks), 0
        while self.waiting and len(tasks) < room and rows < MOST_ROWS:
            until = time.monotonic() + self.waiting[0].seconds_to_stop
            if self._is_over or until > self._stop.deadline:
                break
            tasks.append(self.waiting.popleft())
            rows += tasks[-1].runs
        return tasks

    @property
    def _is_over(self) -> bool:
        """Whether no further tasks are handed out."""
        return bool(self._stop.reason) or self.failure is not None

    @property
    def running(self) -> list[Task]:
        """The running tasks, as far as this process knows without asking the scheduler."""
        return list(self.tasks.values())[: self._slots]

    @property
    def left(self) -> list[Task]:
        """All unfinished tasks."""
        return [*self.tasks.values(), *(() if self._is_over else self.waiting)]

    def ended(self) -> Iterator[tuple[Task, Receipt]]:
        """Wait up to `LOOK_SECONDS` for tasks to end, and yield them with their receipts.

        A task that was lost with its worker, or stopped by it before its end, waits again.
        """
        with (news := self._completed.thread_condition):
            if not self._completed.has_ready():
                news.wait(LOOK_SECONDS)
        if self.waiting:  # several tasks in one message cost the scheduler hardly more than one
            time.sleep(max(0.0, self._took_receipts + TOGETHER_SECONDS - time.monotonic()))
        self._took_receipts = time.monotonic()
        for future in self._completed.next_batch(block=False):
            task = self.tasks.pop(future.key)
            receipt, error = self.receipts.pop(future.key, None), _error_of(future)
            future.release()
            if receipt is not None:
                self._note_receipt(task, receipt)
                yield task, receipt
            elif isinstance(error, KilledWorker) and self._may_repeat(task, error):
                every = max(LEAST_BETWEEN, task.checkpoint_every / 2)
                self.waiting.appendleft(dataclasses.replace(task, checkpoint_every=every))
            elif error is not None:
                self.failure = self.failure or (task, error)
            elif self._client.status != "running":
                raise Interrupted(GONE)
            else:
                self.waiting.appendleft(task)

    def _note_receipt(self, task: Task, receipt: Receipt) -> None:
        self._deaths = 0
        if receipt.fenced_off:
            self._stop.request("another process has taken the store over")
        if not receipt.whole and self._stop.reason:
            self.stopped += 1
        elif not receipt.whole:
            self.waiting.appendleft(task)

    def _may_repeat(self, task: Task, error: KilledWorker) -> bool:
        """Whether fewer than `MOST_DEATHS` workers died since a task last recorded progress."""
        before, now = self._recorded.get(task.key, (0, 0)), recorded_progress_of_task(task)
        self._recorded[task.key] = now
        self._deaths = 0 if now > before else self._deaths + error.allowed_failures + 1
        return self._deaths < MOST_DEATHS


def _error_of(future: Future[None]) -> BaseException | None:
    with contextlib.suppress(CancelledError):  # at any time, if the scheduler is gone
        return future.exception() if future.status == "error" else None
    return None


def _explain_task_failure(task: Task, error: BaseException) -> str:
    if isinstance(error, KilledWorker):
        return (
            f"a task of experiment {task.experiment!r} killed its workers repeatedly: too little "
            "memory, or a crash in a kernel"
        )
    return f"a task of experiment {task.experiment!r} failed: {type(error).__name__}: {error}"
