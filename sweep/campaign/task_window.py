"""Hand tasks to a Dask cluster, a sliding window of them at a time, and collect their receipts.

Dask keeps nothing that is needed: results go into the store, as `sweep.campaign.coordinator` says.
So a task whose worker was lost is computed again, and resumes from its last checkpoint; where only
its receipt was lost, its next worker finds all runs in records. Dask does that by itself, until
more than ``allowed-failures`` workers of a task have died. Then it is submitted again here, with
checkpoints twice as often, unless `MOST_DEATHS` workers died with nothing recorded. A lost
scheduler ends the run, which `sweep run` resumes.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from distributed import KilledWorker

from sweep.campaign.worker.compute import compute_task, recorded_progress_of_task
from sweep.clusters.jobs import tell_work_left
from sweep.clusters.stop import TIME_IS_UP
from sweep.clusters.workers import ask_cluster_with_retries, stop_session_on_workers
from sweep.errors import Damaged, Interrupted, TaskFailed
from sweep.store.backends.disk import explain_storage_failure, is_storage_full_or_failing

if TYPE_CHECKING:
    from dask.typing import Key
    from distributed import Client, Future

    from sweep.campaign.worker.tasks import Receipt, Task
    from sweep.clusters.spec import Check
    from sweep.clusters.stop import Drain
    from sweep.store.lease.sessions import Session

WINDOW = 2  # tasks in flight for each worker: one running, one waiting
GONE = "the scheduler is gone"
MOST_ROWS = 2**16  # of tasks that are submitted at once, some MB: Dask warns of more
LOOK_SECONDS = 1.0  # between two looks how many workers there are
FETCH_SECONDS = 0.1  # between two fetches of the receipts that have come meanwhile
RECEIPT_SECONDS = 5.0  # for receipts to come, before one asks whether their workers are there
SINGLE_SECONDS = 1.0  # for one of those, by itself
MOST_DEATHS = 150  # in a row, with nothing recorded, before the coordinator gives up too
LEAST_BETWEEN = 0.05  # seconds between checkpoints of a task whose workers die again and again


@contextlib.contextmanager
def noticing_scheduler_loss(client: Client) -> Iterator[None]:
    """Turn exceptions within this, after the loss of the scheduler, into `Interrupted`."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        raise
    except (Exception, CancelledError) as error:
        if client.status == "running":
            raise
        raise Interrupted(GONE) from error


def count_task_slots(client: Client, check: Check) -> int:
    """Number of threads of all workers; `check` is called while this waits, and may raise."""
    threads: Mapping[str, int] = ask_cluster_with_retries(client, client.nthreads, check)
    return max(1, sum(threads.values()))


def execute_tasks(
    client: Client,
    tasks: Sequence[Task],
    session: Session,
    drain: Drain,
    on_receipt: Callable[[Task, Receipt], object],
    on_running: Callable[[Sequence[Task], float], object] = lambda running, left: None,
    later: float = 0.0,
) -> None:
    """Compute tasks on the cluster, in order, a few in flight at a time.

    Parameters
    ----------
    client : distributed.Client
    tasks : list of PlannedTask or ReferenceTask
    session : sweep.store.lease.sessions.Session
    drain : sweep.clusters.stop.Drain
        Once a shutdown is requested, no further task is submitted, and those in flight end after
        their current segments. A task whose first segment is not expected to end before the
        deadline is not submitted.
    on_receipt : callable
        Called with each task that has ended and its `Receipt`.
    on_running : callable
        Called about once a second with the running tasks and the seconds left of all tasks.
    later : float
        Expected seconds of the tasks that follow these.

    Raises
    ------
    Interrupted
        If a shutdown leaves tasks undone, or the disk is full.
    Damaged
        If a task met a file of the store that is.
    TaskFailed
        If a task raised anything else. All of these after those in flight have ended.
    """
    window = _Window(client, tasks, session, drain)
    drain.when_requested(window.stop)
    window.submit()
    while window.in_flight:
        on_running(window.running(), window.seconds_left(later))
        for task, receipt in window.collect(window.wait_for_ended()):
            if receipt is not None:
                on_receipt(task, receipt)
            elif client.status != "running":
                raise Interrupted(GONE)
        window.submit()
    tell_work_left(client, 0.0, 0)
    if window.failure is not None:
        task, error = window.failure
        if is_storage_full_or_failing(error):
            raise Interrupted(explain_storage_failure(task.store.place, error))
        if isinstance(error, Damaged):
            raise error
        raise TaskFailed(_explain_task_failure(task, error)) from error
    if window.waiting or window.interrupted:
        raise Interrupted(drain.reason or _time_is_up_message(window.waiting))


class _Window:
    """Tasks of `execute_tasks`: those that wait, and those in flight."""

    def __init__(
        self, client: Client, tasks: Sequence[Task], session: Session, drain: Drain
    ) -> None:
        self.waiting = list(reversed(tasks))  # the next one is the last
        # The first task that raised, with what it raised.
        self.failure: tuple[Task, BaseException] | None = None
        self.interrupted = 0  # tasks that a shutdown has ended before they were done
        self.in_flight: dict[Key, Task] = {}  # by the key of its future
        self._ended: queue.SimpleQueue[Future[Receipt]] = queue.SimpleQueue()
        self._client, self._drain = client, drain
        self._session = session
        self._deaths = 0  # of workers in a row, with nothing recorded
        # What was recorded of tasks whose workers died, by the key of the task.
        self._recorded: dict[tuple[str, str, int], tuple[int, int]] = {}
        self._pace = Pace(1, drain.deadline)
        self._looked = self._fetched = -math.inf

    def submit(self) -> None:
        """Submit tasks until the window is full."""
        self._update_slots()
        while tasks := self._next_batch():
            made = [task.build() for task in tasks]
            sessions = [self._session] * len(tasks)
            futures = self._client.map(compute_task, made, sessions, pure=False)
            for task, future in zip(tasks, futures, strict=True):
                self.in_flight[future.key] = task
                self._pace.note_start(future.key, task.cost)
                future.add_done_callback(self._ended.put)

    def _next_batch(self) -> list[Task]:
        """Take waiting tasks that fit into the window, as many as go into one message."""
        tasks: list[Task] = []
        rows = 0
        most = WINDOW * self._pace.slots - len(self.in_flight)
        while len(tasks) < most and rows < MOST_ROWS and (task := self._next_task()) is not None:
            tasks.append(task)
            rows += task.runs
        return tasks

    def _update_slots(self) -> None:
        """Update the number of slots, at most once in `LOOK_SECONDS`."""
        if (now := time.monotonic()) < self._looked + LOOK_SECONDS:
            return
        self._looked = now
        with contextlib.suppress(OSError):  # the scheduler may be gone: its futures will say so
            slots = sum(self._client.nthreads().values())
            if not slots and self._drain.requested:
                raise Interrupted(self._drain.reason)  # no worker is left to end its task
            self._pace.slots = max(1, slots)
        tell_work_left(self._client, *self._work_left())

    def _work_left(self) -> tuple[float, int]:
        """Seconds and number of the tasks that are still to be computed."""
        tasks = list(self.in_flight.values())
        if not self._drain.requested and self.failure is None:
            tasks += self.waiting
        return self._pace.seconds_of(sum(task.cost for task in tasks)), len(tasks)

    def _next_task(self) -> Task | None:
        """Take the next waiting task that can end before the deadline; None if there is none."""
        if self._drain.requested or self.failure is not None:
            return None
        too_long = math.inf
        for index in range(len(self.waiting) - 1, -1, -1):
            seconds = self.waiting[index].seconds_to_stop
            if seconds < too_long and self._pace.fits(seconds):
                return self.waiting.pop(index)
            too_long = min(too_long, seconds)
        return None

    def running(self) -> list[Task]:
        """The tasks that run now, as far as this process knows without asking the scheduler."""
        return [self.in_flight[key] for key in self._pace.running if key in self.in_flight]

    def seconds_left(self, later: float) -> float:
        """Seconds until these tasks, and others that take `later` seconds, are expected to end."""
        return self._pace.seconds_left(sum(task.cost for task in self.waiting) + later)

    def wait_for_ended(self) -> list[Future[Receipt]]:
        """Wait for futures to end; returns those that have, none after `LOOK_SECONDS`."""
        try:
            ended = [self._ended.get(timeout=LOOK_SECONDS)]
        except queue.Empty:
            return []
        # A call through the scheduler costs the same for many as for one.
        time.sleep(max(0.0, self._fetched + FETCH_SECONDS - time.monotonic()))
        self._fetched = time.monotonic()
        with contextlib.suppress(queue.Empty):
            while True:
                ended.append(self._ended.get_nowait())
        return ended

    def collect(self, futures: Sequence[Future[Receipt]]) -> list[tuple[Task, Receipt | None]]:
        """The tasks of futures that have ended, each with its receipt, None if it has none.

        A task that was cancelled, or lost with its worker, waits again. One whose receipt was lost
        with its worker stays in flight: Dask computes it again on another worker.
        """
        collected = []
        for future, receipt, error in _receipts_and_errors(self._client, futures):
            if receipt is None and error is None and future.status in ("pending", "finished"):
                future.add_done_callback(self._ended.put)
                continue
            task = self.in_flight.pop(future.key)
            future.release()
            collected.append((task, receipt))
            if receipt is not None:
                self._note_receipt(task, future.key, receipt)
                continue
            self._pace.ended(future.key)
            if isinstance(error, KilledWorker) and self._may_retry(task, error):
                every = max(LEAST_BETWEEN, task.checkpoint_every / 2)
                self.waiting.append(replace(task, checkpoint_every=every))
            elif error is None:
                self.waiting.append(task)
            else:
                self.failure = self.failure or (task, error)
        return collected

    def _note_receipt(self, task: Task, key: Key, receipt: Receipt) -> None:
        """Account for a receipt; a task that its worker stopped before it was done waits again."""
        self._pace.ended(key, receipt.seconds if receipt.whole else None)
        self._deaths = 0
        if receipt.fenced_off:
            self._drain.request("another process has taken the store over")
        if not receipt.whole and self._drain.requested:
            self.interrupted += 1
        elif not receipt.whole:
            self.waiting.append(task)

    def _may_retry(self, task: Task, error: KilledWorker) -> bool:
        """Whether fewer than `MOST_DEATHS` workers died since something of a task was recorded."""
        before, now = self._recorded.get(task.key, (0, 0)), recorded_progress_of_task(task)
        self._recorded[task.key] = now
        self._deaths = 0 if now > before else self._deaths + error.allowed_failures + 1
        return self._deaths < MOST_DEATHS

    def stop(self) -> None:
        """Stop the tasks of the session on all workers, each after its current segment."""
        stop_session_on_workers(self._client, self._session)


def _receipts_and_errors(
    client: Client, futures: Sequence[Future[Receipt]]
) -> Iterator[tuple[Future[Receipt], Receipt | None, BaseException | None]]:
    """Each future that has ended, with its receipt or None, and its exception or None.

    A future has neither where its worker was lost, or is suspended: receipts are fetched together,
    and such a worker delays them by `RECEIPT_SECONDS` at most.
    """
    finished = {future.key: future for future in futures if future.status == "finished"}
    try:
        receipts = _fetch_receipts(client, finished, RECEIPT_SECONDS)
    except TimeoutError:
        receipts = _fetch_receipts_one_by_one(client, finished)
    for future in futures:
        error: BaseException | None = None
        with contextlib.suppress(CancelledError):  # when the scheduler is gone, at any time
            error = future.exception() if future.status == "error" else None
        yield future, receipts.get(future.key), error


def _fetch_receipts(
    client: Client, futures: Mapping[Key, Future[Receipt]], seconds: float
) -> dict[Key, Receipt]:
    """The receipts of futures that succeeded, by key; TimeoutError after `seconds`."""

    async def gathered() -> Any:
        return await client.gather(futures, errors="skip", asynchronous=True)

    receipts: dict[Key, Receipt] = {}
    if futures:
        receipts = client.sync(gathered, callback_timeout=seconds)
    return receipts


def _fetch_receipts_one_by_one(
    client: Client, futures: Mapping[Key, Future[Receipt]]
) -> dict[Key, Receipt]:
    """As `_fetch_receipts`, without the receipts that do not come within `SINGLE_SECONDS`."""
    found: dict[Key, Receipt] = {}
    for key, future in futures.items():
        with contextlib.suppress(TimeoutError):
            if future.status == "finished":
                found |= _fetch_receipts(client, {key: future}, SINGLE_SECONDS)
    return found


def _time_is_up_message(waiting: Sequence[Task]) -> str:
    least = min(task.seconds_to_stop for task in waiting)
    return f"{TIME_IS_UP}: what is left takes {least:.2g} s at least"


def _explain_task_failure(task: Task, error: BaseException) -> str:
    if isinstance(error, KilledWorker):
        return (
            f"a task of experiment {task.experiment!r} ended its workers again and again: too "
            "little memory, or a crash in a kernel"
        )
    return f"a task of experiment {task.experiment!r} failed: {type(error).__name__}: {error}"


CAUTION = 1.1  # tasks may take so much longer than those before them


class Pace:
    """Estimates when tasks in flight end, by how long the ones before them took.

    Parameters
    ----------
    slots : int
        Tasks that run at a time; others wait for them in the order in which they were submitted.
        An attribute, that may be changed.
    deadline : float
        Of `clock`.
    clock : callable, optional
    """

    def __init__(
        self, slots: int, deadline: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.slots, self._deadline, self._clock = slots, deadline, clock
        self._running: dict[Key, tuple[float, float]] = {}  # expected seconds, and since when
        self._waiting: dict[Key, float] = {}  # expected seconds
        self._expected = self._took = 0.0

    @property
    def running(self) -> tuple[Key, ...]:
        """Keys of the tasks that have a slot."""
        return tuple(self._running)

    def note_start(self, key: Key, cost: float) -> None:
        """Note that a task was submitted, which is expected to take `cost` seconds."""
        self._waiting[key] = cost
        self._promote()

    def ended(self, key: Key, seconds: float | None = None) -> None:
        """Note that a task ended, after `seconds`; None where these say nothing about its cost."""
        cost = self._waiting.pop(key, None)
        if cost is None:
            cost, _ = self._running.pop(key)
        if seconds is not None:
            self._expected += cost
            self._took += seconds
        self._promote()

    def seconds_of(self, cost: float) -> float:
        """Seconds that work of `cost` expected seconds takes, by the tasks that have ended."""
        return self._slowness() * cost

    def seconds_left(self, cost: float) -> float:
        """Seconds until the tasks in flight, and others of `cost` expected seconds, are done."""
        slowness, now = self._slowness(), self._clock()
        running = [
            max(0.0, slowness * own - (now - since)) for own, since in self._running.values()
        ]
        work = sum(running) + slowness * (sum(self._waiting.values()) + cost)
        return max([work / self.slots, *running])

    def fits(self, cost: float) -> bool:
        """Whether a task of `cost` expected seconds would end before the deadline."""
        return math.isinf(self._deadline) or self.end_of(cost) <= self._deadline

    def end_of(self, cost: float) -> float:
        """Time of `clock` at which a task that is submitted now is expected to end."""
        slowness, now = self._slowness(), self._clock()
        free = [max(now, since + slowness * own) for own, since in self._running.values()]
        free += [now] * (self.slots - len(free))
        heapq.heapify(free)
        for own in self._waiting.values():
            heapq.heapreplace(free, free[0] + slowness * own)
        return free[0] + CAUTION * slowness * cost

    def _promote(self) -> None:
        """Give free slots to the tasks that were submitted first."""
        while self._waiting and len(self._running) < self.slots:
            key = next(iter(self._waiting))
            self._running[key] = self._waiting.pop(key), self._clock()

    def _slowness(self) -> float:
        """Ratio of the seconds that tasks took to the expected ones."""
        return self._took / self._expected if self._expected else 1.0
